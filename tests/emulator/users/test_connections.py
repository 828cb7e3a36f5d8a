"""Connections of users that would crash libzmq 4.3.5 or exhaust its resources."""

from __future__ import annotations

import ctypes
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Final

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
from tests.processes import ended, start_python, wait_until

from cosched_emulator.couplings.batsim_link import BatsimLink
from cosched_emulator.errors import LinkError
from cosched_emulator.users import user_limits
from cosched_emulator.users.client import ManagerConnection
from cosched_emulator.users.requests import Done, ShowStatus
from cosched_emulator.users.user_limits import Connections
from cosched_plugin.common.curve import Keyring
from cosched_plugin.common.errors import EndpointError
from cosched_plugin.common.sockets import OWNER_ONLY, bind_private, router_socket


def _open_at_last(clients: list[socket.socket], count: int) -> bool:
    """Return whether ``count`` of the connections are left after a while, and not fewer."""

    def is_open(client: socket.socket) -> bool:
        client.setblocking(False)
        try:
            while client.recv(4096):
                pass
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    deadline = time.monotonic() + 10
    while (left := sum(map(is_open, clients))) > count and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.2)
    return left == sum(map(is_open, clients)) == count


def _ask_as_user(endpoint: str) -> None:
    with ManagerConnection(endpoint, timeout_s=1) as connection, suppress(LinkError):
        connection.ask(ShowStatus())


def _ask_as_batsim(endpoint: str) -> None:
    link = BatsimLink(endpoint, wait_s=1, deadline_s=1)
    with suppress(LinkError):
        link.ask(b"{}")
    link.close()


@pytest.mark.parametrize("ask", [_ask_as_user, _ask_as_batsim])
def test_an_ipv6_address_is_reached(ask: Callable[[str], None]) -> None:
    with zmq.Context() as context, router_socket(context) as router:
        try:
            endpoint = bind_private(router, "tcp://[::1]:*", OWNER_ONLY)
        except EndpointError:
            pytest.skip("this machine has no IPv6")
        router.rcvtimeo = SOON_MS
        asking = Thread(target=ask, args=(endpoint,))
        asking.start()
        assert router.recv_multipart()
        asking.join()


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
    connections = door._connections
    assert connections is not None
    connections.most_of_a_user = 40
    legitimate = site.client(door.endpoint)
    assert is_heard(door, legitimate)
    crowd = [_connected_as(NOBODY, f"{site.folder}/door") for _ in range(30)]
    site.clients += crowd
    time.sleep(0.3)
    assert connections.shut == 0
    more = [_connected_as(NOBODY, f"{site.folder}/door") for _ in range(60)]
    site.clients += more
    assert _open_at_last([*crowd, *more], 40)
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
    connections = door._connections
    assert connections is not None
    connections.most, connections.most_of_a_user = 30, 10
    address = ("127.0.0.1", int(door.endpoint.rpartition(":")[2]))
    crowd = [socket.create_connection(address) for _ in range(50)]
    site.clients += crowd
    assert _open_at_last(crowd, 29)
    assert is_heard(door, legitimate)


# The guard is a thread, and the process that is attacked does nothing else: no turn of a server comes to its help.
ATTACKED: Final = """
import resource, sys, time, zmq
hard = min(16_384, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (1_024, hard))
from cosched_emulator.users.door import UserDoor
door = UserDoor(zmq.Context(), sys.argv[1])
print("bound", flush=True)
deadline = time.monotonic() + 8
while time.monotonic() < deadline:
    sum(range(10**6))  # a large request
door.receive()
print("alive", door._connections.shut > 0)
"""
CROWD: Final = """
import resource, socket, sys, time
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
for _ in range(3):
    crowd = []
    for _ in range(min(6_000, hard - 50)):
        each = socket.socket(socket.AF_UNIX)
        each.setblocking(False)
        crowd.append(each)
        try:
            each.connect(sys.argv[1])
        except OSError:
            pass
    time.sleep(0.3)
"""


@pytest.mark.slow
def test_a_crowd_of_connections_exhausts_no_descriptors_while_a_large_request_computes(tmp_path: Path) -> None:
    """ZeroMQ ends the process when it cannot accept a connection to an ipc endpoint."""
    place = str(tmp_path / "door")
    attacked = start_python("-c", ATTACKED, f"ipc://{place}", env=os.environ)
    wait_until(lambda: Path(place).exists())
    crowds = [start_python("-c", CROWD, place, env=os.environ) for _ in range(4)]
    assert "alive True" in ended(attacked, 60).out
    for crowd in crowds:
        ended(crowd, 60)


@pytest.mark.parametrize("crowds", [4, 40])
def test_users_with_few_connections_keep_them(crowds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many users have as many as they may, one that has three is not shut out."""
    connections = Connections("ipc:///nowhere")
    connections.most, connections.most_of_a_user = 100, 40
    owners = {number: number // 50 for number in range(50 * crowds)}
    owners |= {50 * crowds + number: 1_000 for number in range(3)}
    gone: list[int] = []

    def with_user(descriptor: int, *, shut: bool = False) -> int | None:
        if shut:
            gone.append(descriptor)
        return owners[descriptor]

    monkeypatch.setattr(os, "listdir", lambda _: list(map(str, owners)))
    monkeypatch.setattr(connections, "_with_user", with_user)
    connections.tend()
    kept = set(owners) - set(gone)
    assert len(kept) <= 100
    assert sum(owners[descriptor] == 1_000 for descriptor in kept) == (3 if crowds == 4 else 2)


def test_what_a_crowd_of_connections_took_goes_back_to_the_system(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    returned: list[int] = []
    monkeypatch.setattr(user_limits, "RETURN_S", 0.0)
    monkeypatch.setattr(user_limits, "CROWD", 50)
    connections = site.door()._connections
    assert connections is not None
    monkeypatch.setattr(user_limits, "return_free_memory", lambda: returned.append(1))
    connections.most_of_a_user = 10
    site.clients += [_connected_as(os.geteuid(), f"{site.folder}/door") for _ in range(80)]
    wait_until(lambda: bool(returned))


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
        connections.tend()
        assert connections.shut == 0
        pairs[0].sendall(b"x")
        assert pairs[1].recv(1) == b"x"
        for each in pairs:
            each.close()
