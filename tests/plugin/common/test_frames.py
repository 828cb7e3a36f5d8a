"""Frames through a socket: whole messages, in order, or none; and only one hello waits for a manager."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from cosched_plugin.common.sockets import receive_frames, send_frames
from cosched_plugin.connection import Connection
from cosched_plugin.protocol.codec import decode
from cosched_plugin.protocol.messages import Hello

WAIT_MS = 10_000
FRAMES = ([b"one"], [b"one", b"two"], [b"", b"", b""], [b"x" * 100_000, b"", b"y"])


@pytest.fixture
def pair() -> Iterator[tuple[zmq.Socket[bytes], zmq.Socket[bytes]]]:
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router, context.socket(zmq.DEALER) as dealer:
        router.linger = dealer.linger = 0
        router.rcvtimeo = dealer.rcvtimeo = WAIT_MS
        router.router_mandatory = True
        router.bind("inproc://pair")
        dealer.connect("inproc://pair")
        yield router, dealer


def test_messages_are_not_mixed(pair: tuple[zmq.Socket[bytes], zmq.Socket[bytes]]) -> None:
    router, dealer = pair
    for frames in FRAMES:
        send_frames(dealer, frames)
    received = [receive_frames(router) for _ in FRAMES]
    assert [frames[1:] for frames in received] == list(FRAMES)
    for frames in received:
        send_frames(router, frames, zmq.NOBLOCK)
    assert [receive_frames(dealer, zmq.NOBLOCK) for _ in FRAMES] == list(FRAMES)
    with pytest.raises(zmq.Again):
        receive_frames(dealer, zmq.NOBLOCK)


def test_a_message_that_cannot_be_sent_leaves_no_frames(pair: tuple[zmq.Socket[bytes], zmq.Socket[bytes]]) -> None:
    router, dealer = pair
    send_frames(dealer, [b"hello"])
    peer = receive_frames(router)[0]
    with pytest.raises(zmq.ZMQError, match="unreachable"):
        send_frames(router, [b"nobody", b"lost", b"message"], zmq.NOBLOCK)
    send_frames(router, [peer, b"a", b"b"], zmq.NOBLOCK)
    assert receive_frames(dealer) == [b"a", b"b"]


def test_only_one_hello_waits_for_a_manager(tmp_path: Path) -> None:
    endpoint = f"ipc://{tmp_path}/socket"
    connection = Connection(endpoint, None)
    try:
        hellos = [Hello((1,), (), "me", "easy", False, number) for number in range(1, 5)]
        assert connection.greet(hellos[0])
        assert not connection.greet(hellos[1])
        assert connection.receive() is None
        assert not connection.greet(hellos[2])
        with zmq.Context() as context, context.socket(zmq.ROUTER) as manager:
            manager.linger = 0
            manager.rcvtimeo = WAIT_MS
            manager.bind(endpoint)
            assert decode(receive_frames(manager)[1:]) == hellos[0]
            for _ in range(50):  # until it has noticed its peer
                if connection.greet(hellos[3]):
                    break
                assert connection.receive() is None
            assert connection.greet(hellos[3])
            assert decode(receive_frames(manager)[1:]) == hellos[3]
            assert decode(receive_frames(manager)[1:]) == hellos[3]
    finally:
        connection.close()
