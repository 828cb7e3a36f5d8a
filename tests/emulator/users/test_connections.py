"""Connections of users that would crash libzmq 4.3.5 or exhaust its resources."""

from __future__ import annotations

import ctypes
import socket
import time
from pathlib import Path

import pytest
import zmq
from tests.emulator.users.site import (
    AS_ROOT,
    NOBODY,
    SOON_MS,
    STATUS,
    WORD,
    Site,
    _connected_as,
    _greet,
    is_heard,
    received,
    send_raw,
)

from cosched_emulator.users.requests import (
    Done,
)
from cosched_emulator.users.user_limits import Connections
from cosched_plugin.common.curve import Keyring
from cosched_plugin.common.sockets import router_socket


def test_a_peer_cannot_claim_the_next_name(site: Site) -> None:
    """A peer that claims the next routing id would end the process, so that id must be unpredictable."""
    firsts = set()
    for number in range(3):
        ctypes.CDLL(None).srand(1)  # the state of any process that does not seed it
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        router = router_socket(context)
        router.bind(f"ipc://{site.folder}/router-{number}")
        client = site.client(f"ipc://{site.folder}/router-{number}")
        client.send(b"")
        assert router.poll(SOON_MS)
        firsts.add(router.recv_multipart()[0])
        router.close()
        context.term()
    assert len(firsts) == 3
    door = site.door()
    send_raw(site.raw(identity=b"\0" + WORD.pack(0x6B8B4567)), *STATUS)  # the first routing id of an unseeded process
    send_raw(site.raw(identity=b"\0" + WORD.pack(0x6B8B4567)), *STATUS)
    assert len(received(door)) == 1
    assert is_heard(door, site.client(door.endpoint))


def test_a_routing_id_in_use_stays_with_its_connection(site: Site) -> None:
    door = site.door()
    first, second = site.raw(identity=b"terminal"), site.raw(identity=b"terminal")
    send_raw(first, *STATUS)
    (asked,) = received(door)
    send_raw(second, *STATUS)
    assert received(door, milliseconds=200) == []
    door.answer(asked, Done({"secret": 1}))
    said = b""
    while b"secret" not in said:
        said += first.recv(4096)
    second.settimeout(0.2)
    with pytest.raises(TimeoutError):
        second.recv(4096)


@AS_ROOT
def test_connections_of_one_user_are_limited(site: Site) -> None:
    door = site.door()
    door._connections.most_of_a_user = 40
    legitimate = site.client(door.endpoint)
    assert is_heard(door, legitimate)
    crowd = [_connected_as(NOBODY, f"{site.folder}/door") for _ in range(30)]
    site.clients += crowd
    site.now_s += 1
    door.receive()
    assert door.shut == 0
    more = [_connected_as(NOBODY, f"{site.folder}/door") for _ in range(60)]
    site.clients += more
    time.sleep(0.3)
    site.now_s += 1
    door.receive()
    assert door.shut == 50
    assert is_heard(door, legitimate)
    assert is_heard(door, site.client(door.endpoint))
    for each in more:
        each.close()
    time.sleep(0.3)
    late = _connected_as(NOBODY, f"{site.folder}/door")
    site.clients.append(late)
    _greet(late)
    send_raw(late, *STATUS)
    (asked,) = received(door)
    assert asked.who.name == "nobody"


def test_connections_over_tcp_are_limited(ring: Path, site: Site) -> None:
    door = site.door("tcp://127.0.0.1:*", Keyring(ring))
    legitimate = site.client(door.endpoint, site.folder / "own" / "alice.key_secret", ring / "manager.key")
    assert is_heard(door, legitimate)
    door._connections.most, door._connections.most_of_a_user = 30, 10
    address = ("127.0.0.1", int(door.endpoint.rpartition(":")[2]))
    crowd = [socket.create_connection(address) for _ in range(50)]
    site.clients += crowd
    time.sleep(0.3)
    site.now_s += 1
    door.receive()
    assert door.shut == 21
    assert is_heard(door, legitimate)


def test_connections_of_other_sockets_are_not_closed(site: Site) -> None:
    door = site.door()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{site.folder}/other")
        listener.listen(100)
        pairs = []
        for _ in range(40):
            client = socket.socket(socket.AF_UNIX)
            client.connect(f"{site.folder}/other")
            pairs += [client, listener.accept()[0]]
        connections = Connections(door.endpoint)
        connections.most = connections.most_of_a_user = 10
        assert connections.tend(0.0) == 0
        pairs[0].sendall(b"x")
        assert pairs[1].recv(1) == b"x"
        for each in pairs:
            each.close()
