"""The users' door, with real sockets: it knows who asks, bounds what one may take, and outlives whatever is sent to it."""

from __future__ import annotations

import ctypes
import gc
import os
import random
import resource
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.users.requests import (
    MAX_REQUEST_BYTES,
    Done,
    DrainNodes,
    ListHistory,
    Refused,
    ShowStatus,
    SubmitJob,
    decode_answer,
    encode_request,
)
from cosched_emulator.users.server import door as user_door
from cosched_emulator.users.server.connections import Connections
from cosched_emulator.users.server.door import Asked, UserDoor
from cosched_emulator.users.server.rate import Bucket, Buckets
from cosched_emulator.users.server.requester import Requester
from cosched_plugin.common.binding import OWNER_ONLY, bind_private, router_socket
from cosched_plugin.common.curve import SETTLED_S, Keyring, read_public, secure_client, write_keys, write_public

NOBODY = 65_534
SOON_MS = 5_000
OWN_NAME = user_door._user_name(os.geteuid())
STATUS = encode_request(ShowStatus(), 7)
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
WORD = struct.Struct(">I")


class Site:
    """Doors and clients in a folder whose path is short enough for sockets; time stands still for the doors."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now_s = 1_000.0
        self.doors: list[tuple[UserDoor, zmq.Context[zmq.Socket[bytes]]]] = []
        self.clients: list[zmq.Socket[bytes] | socket.socket] = []
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()

    def door(self, endpoint: str = "", keys: Keyring | None = None, **limits: float) -> UserDoor:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        endpoint = endpoint or f"ipc://{self.folder}/door"
        try:
            door = UserDoor(context, endpoint, keys=keys, clock_s=lambda: self.now_s, **limits)  # type: ignore[arg-type]
        except ConfigurationError:
            context.term()
            raise
        self.doors.append((door, context))
        return door

    def client(self, endpoint: str, own: Path | None = None, server: Path | None = None) -> zmq.Socket[bytes]:
        client = self.context.socket(zmq.DEALER)
        self.clients.append(client)
        client.linger = 0
        client.rcvtimeo = client.sndtimeo = SOON_MS
        if own is not None and server is not None:
            secure_client(client, own, server)
        client.connect(endpoint)
        return client

    def raw(
        self, version: int = 3, identity: bytes = b"", properties: tuple[tuple[bytes, bytes], ...] = ()
    ) -> socket.socket:
        """Connect without ZeroMQ, and say what it would never say."""
        raw = socket.socket(socket.AF_UNIX)
        self.clients.append(raw)
        raw.settimeout(5)
        raw.connect(f"{self.folder}/door")
        if version == 2:
            raw.sendall(b"\xff" + bytes(8) + b"\x7f\x01\x05\x00" + bytes([len(identity)]) + identity)
            return raw
        _greet(raw, (b"Identity", identity), *properties)
        return raw

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.context.term()
        for door, context in self.doors:
            door.socket.linger = 0
            door.close()
            context.term()


@pytest.fixture
def site() -> Iterator[Site]:
    with tempfile.TemporaryDirectory(prefix="door-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        site = Site(Path(folder))
        yield site
        site.close()


def send_raw(raw: socket.socket, *frames: bytes, times: int = 1) -> None:
    flagged = [bytes([index < len(frames) - 1, len(frame)]) + frame for index, frame in enumerate(frames)]
    raw.sendall(b"".join(flagged) * times)


def received(door: UserDoor, done: Callable[[list[Asked]], bool] = bool, milliseconds: int = SOON_MS) -> list[Asked]:
    """Return what the door receives until that is ``done``, or time is up."""
    asked: list[Asked] = []
    deadline = time.monotonic() + milliseconds / 1000
    while not done(asked) and time.monotonic() < deadline:
        door.socket.poll(20)
        asked += door.receive()
    return asked


def quiet(door: UserDoor) -> list[Asked]:
    """Return what the door receives until nothing more comes."""
    asked = door.receive()
    while door.socket.poll(200):
        asked += door.receive()
    return asked


def answer_of(client: zmq.Socket[bytes]) -> tuple[int, Done | Refused]:
    return decode_answer(client.recv_multipart())


def is_heard(door: UserDoor, client: zmq.Socket[bytes]) -> bool:
    """Tell whether a legitimate client is served."""
    client.send_multipart(STATUS)
    asked = received(door)
    for each in asked:
        door.answer(each, Done({"fine": True}))
    return bool(asked) and answer_of(client) == (7, Done({"fine": True}))


def resident_kb() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024


# ---------------------------------------------------------------- who asks


def test_a_question_and_its_answer(site: Site) -> None:
    door = site.door()
    client = site.client(door.endpoint)
    request = SubmitJob(4, 60_000_000, tasks=(1, 3))
    client.send_multipart(encode_request(request, -(2**63)))
    (asked,) = received(door)
    assert asked[1:] == (-(2**63), Requester(OWN_NAME, True), request)
    door.answer(asked, Done({"job_ids": [1, 2]}))
    assert answer_of(client) == (-(2**63), Done({"job_ids": (1, 2)}))
    assert door.receive() == []


@AS_ROOT
@pytest.mark.parametrize(("uid", "name"), [(NOBODY, "nobody"), (1_234_567, "1234567")])
def test_the_kernel_tells_who_asks(uid: int, name: str, site: Site) -> None:
    door = site.door()
    script = f"""
import os, zmq
os.setgroups([]); os.setgid({uid}); os.setuid({uid})
client = zmq.Context().socket(zmq.DEALER)
client.linger = 0
client.connect({door.endpoint!r})
client.send_multipart({STATUS!r})
assert client.poll(10_000)
print(client.recv_multipart())
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as child:
        (asked,) = received(door, milliseconds=20_000)
        assert asked.who == Requester(name, False)
        door.answer(asked, Done({}))
        assert "done" in child.communicate(timeout=20)[0]


@AS_ROOT
def test_an_operator_by_name(site: Site) -> None:
    door = site.door(operators=frozenset({"nobody"}))  # type: ignore[arg-type]
    before = os.getresuid()
    client = site.client(door.endpoint)  # the I/O thread that connects is another one, which stays root
    assert is_heard(door, client)
    assert os.getresuid() == before
    raw = _connected_as(NOBODY, f"{site.folder}/door")
    site.clients.append(raw)
    _greet(raw)
    send_raw(raw, *STATUS)
    (asked,) = received(door)
    assert asked.who == Requester("nobody", True)


def test_nobody_can_say_who_he_is(site: Site) -> None:
    door = site.door()
    lies = ((b"Peer-Address", b"localhost:4321:1:1"), (b"User-Id", b"boss"))
    send_raw(site.raw(properties=lies), *STATUS)
    (asked,) = received(door)
    assert asked.who.name == OWN_NAME


def test_who_cannot_be_known_is_refused(site: Site) -> None:
    door = site.door()
    old = site.raw(version=2)
    send_raw(old, *STATUS)
    assert received(door, milliseconds=400) == []
    said = b""
    while b"not known who is at your end" not in said:
        said += old.recv(4096)
    for _ in range(30):
        send_raw(old, *STATUS)
    assert quiet(door) == []
    assert door.dropped == 31 - user_door.COMPLAINTS
    assert is_heard(door, site.client(door.endpoint))


# ---------------------------------------------------------------- keys


@pytest.fixture
def ring(site: Site) -> Path:
    """A keyring with the user alice, the operator olga and the plugin rua; all keys are in ``own``, mallory's too."""
    ring, own = site.folder / "ring", site.folder / "own"
    write_keys(ring, "manager")
    for place in ("plugins", "users", "operators"):
        (ring / place).mkdir(mode=0o700)
    for name, place in (("alice", "users"), ("olga", "operators"), ("rua", "plugins"), ("mallory", "")):
        public, _ = write_keys(own, name)
        if place:
            write_public(ring / place / f"{name}.key", read_public(public))
    return ring


def test_keys_tell_who_asks(ring: Path, site: Site) -> None:
    door = site.door("tcp://127.0.0.1:*", Keyring(ring))

    def client(name: str) -> zmq.Socket[bytes]:
        return site.client(door.endpoint, site.folder / "own" / f"{name}.key_secret", ring / "manager.key")

    alice = client("alice")
    assert is_heard(door, alice)
    for stranger in (client("mallory"), client("rua"), site.client(door.endpoint)):
        stranger.send_multipart(STATUS)
    olga = client("olga")
    olga.send_multipart(encode_request(DrainNodes((1,)), 1))
    alice.send_multipart(STATUS)
    asked = received(door, lambda asked: len(asked) >= 2) + quiet(door)
    assert sorted(each.who for each in asked) == [("alice", False), ("olga", True)]
    assert is_heard(door, alice)


def test_a_key_is_revoked_while_its_owner_is_connected(ring: Path, site: Site) -> None:
    door = site.door("tcp://127.0.0.1:*", Keyring(ring))
    own = site.folder / "own"
    alice = site.client(door.endpoint, own / "alice.key_secret", ring / "manager.key")
    olga = site.client(door.endpoint, own / "olga.key_secret", ring / "manager.key")
    assert is_heard(door, alice)
    assert is_heard(door, olga)
    (ring / "users" / "alice.key").unlink()
    time.sleep(SETTLED_S)
    alice.send_multipart(STATUS)
    assert received(door, milliseconds=300) == []
    ticket, answer = answer_of(alice)
    assert (ticket, isinstance(answer, Refused) and answer.code) == (7, "permission")
    again = site.client(door.endpoint, own / "alice.key_secret", ring / "manager.key")
    again.send_multipart(STATUS)
    assert quiet(door) == []
    assert not again.poll(0)
    assert is_heard(door, olga)
    write_public(ring / "users" / "alice2.key", read_public(own / "alice.key"))  # allowed again, by another name
    time.sleep(SETTLED_S)
    alice.send_multipart(STATUS)
    (asked,) = received(door)
    assert asked.who == Requester("alice2", False)


# ---------------------------------------------------------------- endpoints


@pytest.mark.parametrize(
    ("endpoint", "reason"),
    [
        ("tcp://127.0.0.1:*", "does not tell which user is at the other end"),
        ("tcp://*:5555", "not a loopback address"),
        ("inproc://x", "expected ipc"),
        ("ipc:///proc/nothing/here", "one to listen at"),
    ],
)
def test_endpoints_that_users_cannot_have(endpoint: str, reason: str, site: Site) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        site.door(endpoint)


def test_who_may_open_a_socket_file(site: Site) -> None:
    before = os.umask(0o027)
    try:
        door = site.door()
        private = site.context.socket(zmq.ROUTER)
        site.clients.append(private)
        assert bind_private(private, f"ipc://{site.folder}/private", OWNER_ONLY) == f"ipc://{site.folder}/private"
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    modes = [os.stat(site.folder / name).st_mode & 0o777 for name in ("door", "private")]
    assert [oct(mode) for mode in modes] == ["0o666", "0o600"]
    assert is_heard(door, site.client(door.endpoint))


def test_a_place_that_is_taken(site: Site) -> None:
    door = site.door()
    with pytest.raises(ConfigurationError, match="where no other process listens"):
        site.door()
    assert is_heard(door, site.client(door.endpoint))
    (site.folder / "file").write_text("precious")
    with pytest.raises(ConfigurationError, match="something else"):
        site.door(f"ipc://{site.folder}/file")
    assert (site.folder / "file").read_text() == "precious"


def test_a_place_that_was_left(site: Site) -> None:
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(f"{site.folder}/door")
    door = site.door()
    assert is_heard(door, site.client(door.endpoint))


def test_a_place_whose_owner_is_too_busy_to_let_anybody_in(site: Site) -> None:
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as first:
        busy.bind(f"{site.folder}/door")
        busy.listen(0)
        first.connect(f"{site.folder}/door")
        with pytest.raises(ConfigurationError, match="where no other process listens"):
            site.door()


def test_a_port_that_is_taken(ring: Path, site: Site) -> None:
    first = site.door("tcp://127.0.0.1:*", Keyring(ring))
    with pytest.raises(ConfigurationError, match="one to listen at"):
        site.door(first.endpoint, Keyring(ring))  # leaves nothing behind that its context would wait for


def test_an_ipv6_endpoint(ring: Path, site: Site) -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6 here")
    keys = Keyring(ring)
    door = site.door("tcp://[::1]:*", keys)
    assert door.endpoint.startswith("tcp://[::1]:")


# ---------------------------------------------------------------- what one may take


def test_more_requests_than_one_may_ask(site: Site) -> None:
    door = site.door(requests_per_s=10, burst=20)
    client, other = site.client(door.endpoint), site.client(door.endpoint)
    for _ in range(100):
        client.send_multipart(STATUS)
        other.send_multipart(STATUS)
    asked = quiet(door)
    assert len(asked) in (19, 20)  # of one user, however many connections; a request costs a little more than one
    refused = []
    while client.poll(500):  # they are on their way
        refused.append(answer_of(client))
    while other.poll(500):
        refused.append(answer_of(other))
    assert len(refused) == user_door.COMPLAINTS
    assert {(ticket, answer.code) for ticket, answer in refused if isinstance(answer, Refused)} == {(7, "rate")}
    assert door.dropped == 200 - len(asked) - len(refused)
    site.now_s += 1
    for _ in range(30):
        client.send_multipart(STATUS)
    assert len(quiet(door)) in (9, 10)


@AS_ROOT
def test_one_who_asks_too_much_takes_nothing_from_others(site: Site) -> None:
    door = site.door(requests_per_s=10, burst=20)
    greedy = _connected_as(NOBODY, f"{site.folder}/door")
    site.clients.append(greedy)
    _greet(greedy)
    send_raw(greedy, *STATUS, times=200)
    client = site.client(door.endpoint)
    client.send_multipart(STATUS)
    asked = quiet(door)
    assert sum(each.who.name == "nobody" for each in asked) in (19, 20)
    assert [each.who.name for each in asked if each.who.name != "nobody"] == ["root"]


def test_large_answers_count(site: Site) -> None:
    door = site.door(requests_per_s=10, burst=20)
    client = site.client(door.endpoint)
    client.send_multipart(encode_request(ListHistory(), 1))
    (asked,) = received(door)
    door.answer(asked, Done({"text": b"x" * 40 * user_door.BYTES_A_TOKEN}))
    assert isinstance(answer_of(client)[1], Done)
    client.send_multipart(STATUS)
    assert quiet(door) == []
    ticket, answer = answer_of(client)
    assert (ticket, isinstance(answer, Refused) and answer.code) == (7, "rate")
    site.now_s += 2.3
    client.send_multipart(STATUS)
    assert len(received(door)) == 1


def test_answers_that_cannot_be_sent(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_door, "MAX_ANSWER_BYTES", 1000)
    door = site.door()
    client = site.client(door.endpoint)
    for result, text in (
        ({"x": "y" * 1000}, "limit is 1000: ask for less"),
        ({"x": 2**64}, "no form"),
        ({"x": {1}}, "no form"),
    ):
        client.send_multipart(STATUS)
        (asked,) = received(door)
        door.answer(asked, Done(result))
        ticket, answer = answer_of(client)
        assert isinstance(answer, Refused)
        assert (ticket, answer.code) == (7, "limit")
        assert text in answer.text


def test_who_never_reads_gets_no_more(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_door, "MOST_UNREAD_BYTES", 8_000_000)
    door = site.door(requests_per_s=1e9, burst=1e9)
    before_kb = resident_kb()
    raw = site.raw()
    deaf = Asked(b"", 0, Requester("", False), ShowStatus())
    answer = Done({"x": bytes(1_000_000)})
    for _ in range(100):
        send_raw(raw, *STATUS)
        (deaf,) = received(door)
        began_s = time.monotonic()
        door.answer(deaf, answer)
        assert time.monotonic() - began_s < 1
    assert door._unread.bytes_of(OWN_NAME) <= 8_000_000
    assert resident_kb() - before_kb < 40_000
    assert is_heard(door, site.client(door.endpoint))
    raw.close()
    deadline = time.monotonic() + 5
    while door._unread.bytes_of(OWN_NAME) and time.monotonic() < deadline:
        quiet(door)
    assert door._unread.bytes_of(OWN_NAME) == 0
    assert len(door._unread) == 0
    door.answer(deaf, answer)  # the one who asked is gone
    door.answer(deaf, Done({}))
    assert is_heard(door, site.client(door.endpoint))


def test_a_bucket() -> None:
    bucket = Bucket(10, 20, 0.0)
    assert bucket.is_full(0.0)
    assert [bucket.take(1, 0.0) for _ in range(21)] == [True] * 20 + [False]
    assert not bucket.take(1, 0.05)
    assert bucket.take(1, 0.1)
    assert bucket.take(20, 100.0)
    assert not bucket.take(0.5, 100.0)
    assert bucket.take(1_000, 102.0)  # more than it holds takes all that it holds
    bucket.charge(15, 102.0)
    assert not bucket.take(0.1, 103.5)
    assert bucket.take(1, 103.7)
    assert not bucket.is_full(105.0)
    assert bucket.is_full(106.0)


def test_made_up_names_share_one_bucket() -> None:
    buckets = Buckets(10, 20, 100)
    assert all(buckets.take(f"early {number}", 5, 0.0) for number in range(100))
    assert sum(buckets.take(f"late {number}", 1, 0.0) for number in range(1_000)) == 20
    assert len(buckets) == 100
    assert buckets.take("early 0", 15, 0.0)
    assert not buckets.take("early 0", 1, 0.0)
    assert buckets.take("late 0", 20, 1.0)  # the bucket that was used the longest time ago is full by now
    assert buckets.take("late 1", 20, 1.0)
    assert len(buckets) == 100
    assert not buckets.take("early 0", 11, 1.0)  # it was used last, and is not forgotten


# ---------------------------------------------------------------- what may come


@pytest.mark.parametrize(
    ("frames", "path", "text", "ticket"),
    [
        ([b"x"], "", "expected 2 frames", 0),
        ([b"x", b"y"], "", "expected 2 frames", 0),
        ([b"cosched/1", STATUS[1]], "", "expected 2 frames", 7),
        ([*STATUS, b""], "", "expected 2 frames", 0),
        ([STATUS[0], b"\xc1"], "", "not acceptable as msgpack", 0),
        ([STATUS[0], b"\x01"], "", "expected a map", 0),
        ([STATUS[0], b"\x80"], "ticket", "expected an integer", 0),
        ([STATUS[0], b"\x81\xa6ticket\xc0"], "ticket", "expected an integer", 0),
        ([STATUS[0], b"\x81\xa6ticket\x05"], "type", "", 5),
        ([STATUS[0], b"\x82\xa6ticket\x05\xa4type\xa3fly"], "type", "", 5),
        ([STATUS[0], b"\x82\xa6ticket\x05\xa4type\xa5drain"], "nodes", "", 5),
    ],
)
def test_what_is_no_request(frames: list[bytes], path: str, text: str, ticket: int, site: Site) -> None:
    door = site.door()
    client = site.client(door.endpoint)
    client.send_multipart(frames)
    assert received(door, milliseconds=150) == []
    told, answer = answer_of(client)
    assert isinstance(answer, Refused)
    assert (told, answer.code, answer.path) == (ticket, "request", path)
    assert text in answer.text
    assert is_heard(door, client)


def test_a_message_of_far_too_many_frames_is_taken_in_parts(site: Site) -> None:
    door = site.door()
    client, other = site.client(door.endpoint), site.client(door.endpoint)
    count = 3 * user_door.MOST_FRAMES
    client.send_multipart([b"x"] * count)
    assert door.socket.poll(SOON_MS)
    calls = 0
    while door.socket.poll(100):
        assert door.receive() == []
        calls += 1
    assert calls == 4
    assert answer_of(client)[0] == 0
    assert is_heard(door, client)
    assert is_heard(door, other)


def test_a_frame_that_is_too_large_costs_its_sender_the_connection(site: Site) -> None:
    door = site.door()
    large = site.client(door.endpoint)
    large.send_multipart([STATUS[0], bytes(MAX_REQUEST_BYTES + 1)])
    assert quiet(door) == []
    assert not large.poll(0)  # it was not even read
    client = site.client(door.endpoint)
    assert is_heard(door, client)
    client.send_multipart([STATUS[0], bytes(MAX_REQUEST_BYTES)])
    assert received(door, milliseconds=300) == []
    assert "request" in str(answer_of(client))


def test_one_call_does_so_much_and_no_more(site: Site) -> None:
    door = site.door(requests_per_s=1e9, burst=1e9)
    clients = [site.client(door.endpoint) for _ in range(50)]
    for client in clients:
        for _ in range(5):
            client.send_multipart(STATUS)
    time.sleep(0.5)
    assert len(door.receive()) == user_door.MOST_MESSAGES
    quiet(door)
    for client in clients[:4]:
        client.send_multipart([STATUS[0], b"\x92" * 1_000_000])
    time.sleep(0.5)
    assert door.receive() == []
    assert sum([client.poll(100) != 0 for client in clients[:4]]) == 2  # two of such a size are what one call takes
    assert door.receive() == []
    assert sum([client.poll(100) != 0 for client in clients[:4]]) == 4


def test_garbage_costs_no_memory(site: Site) -> None:
    assert garbage_growth_kb(site, 12_000) < 3_000


def garbage_growth_kb(site: Site, messages: int) -> int:
    """Send so many random and mutated messages, and return by how much memory has grown since the first of them."""
    door = site.door()
    client, legitimate = site.client(door.endpoint), site.client(door.endpoint)
    draw = random.Random(5)

    def send(count: int) -> None:
        for number in range(count):
            match number % 4:
                case 0:
                    frames = [draw.randbytes(draw.randrange(64)) for _ in range(draw.randrange(1, 6))]
                case 1:
                    frames = [STATUS[0], draw.randbytes(draw.randrange(300))]
                case _:
                    body = bytearray(
                        encode_request(SubmitJob(draw.randrange(1, 99), 5, name="x" * draw.randrange(20)), number)[1]
                    )
                    body[draw.randrange(len(body))] = draw.randrange(256)
                    frames = [STATUS[0], bytes(body)]
            deadline = time.monotonic() + 10
            while not client.poll(0, zmq.POLLOUT):
                assert time.monotonic() < deadline
                take()
            client.send_multipart(frames)
            if number % 50 == 0:
                site.now_s += 0.05
                take()

    def take() -> None:
        for asked in door.receive():
            door.answer(asked, Done({}))

    def drain() -> None:
        while door.socket.poll(50):
            take()
        while client.poll(0):
            client.recv_multipart()
        site.now_s += 10

    def flood(count: int) -> None:
        for _ in range(count // 500):
            send(500)
            drain()

    flood(2_000)
    before_kb = resident_kb()
    flood(messages)
    grown_kb = resident_kb() - before_kb
    assert door.dropped > 0
    assert is_heard(door, legitimate)
    return grown_kb


def test_connections_that_come_and_go_cost_no_memory(site: Site) -> None:
    assert connections_growth_kb(site, 600) < 3_000


def connections_growth_kb(site: Site, connections: int) -> int:
    """Open and close so many connections, and return by how much memory has grown since the first of them."""
    door = site.door()
    legitimate = site.client(door.endpoint)

    def come_and_go(count: int) -> None:
        for _ in range(count // 20):
            crowd = [site.raw() for _ in range(20)]
            for each in crowd[:10]:
                send_raw(each, *STATUS)
            for asked in received(door, milliseconds=40):
                door.answer(asked, Done({}))
            for each in crowd:
                each.close()
                site.clients.remove(each)
            site.now_s += 1
        quiet(door)

    come_and_go(200)
    before_kb = resident_kb()
    come_and_go(connections)
    grown_kb = resident_kb() - before_kb
    assert is_heard(door, legitimate)
    return grown_kb


# ---------------------------------------------------------------- what ends libzmq 4.3.5


def test_a_peer_that_claims_the_next_name(site: Site) -> None:
    """It ends the process when the name is the one that comes next: so that must not be known."""
    firsts = set()
    for number in range(3):
        ctypes.CDLL(None).srand(1)  # as in any process that does nothing about it
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
    send_raw(site.raw(identity=b"\0" + WORD.pack(0x6B8B4567)), *STATUS)  # the first one of an unseeded process
    send_raw(site.raw(identity=b"\0" + WORD.pack(0x6B8B4567)), *STATUS)
    assert len(received(door)) == 1
    assert is_heard(door, site.client(door.endpoint))


def test_a_name_that_is_taken_stays_with_who_has_it(site: Site) -> None:
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
def test_a_user_with_too_many_connections(site: Site) -> None:
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


def test_too_many_connections_over_tcp(ring: Path, site: Site) -> None:
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


def test_connections_elsewhere_are_left_alone(site: Site) -> None:
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


def _connected_as(uid: int, path: str) -> socket.socket:
    """Return a socket that another user has connected."""
    before = os.geteuid()
    connected = socket.socket(socket.AF_UNIX)
    connected.settimeout(5)
    os.seteuid(uid)
    try:
        connected.connect(path)
    finally:
        os.seteuid(before)
    return connected


def _greet(raw: socket.socket, *properties: tuple[bytes, bytes]) -> None:
    """Shake hands as a DEALER, with some more properties."""
    raw.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32))
    ready = b"\x05READY"
    for name, value in ((b"Socket-Type", b"DEALER"), *properties):
        ready += bytes([len(name)]) + name + WORD.pack(len(value)) + value
    raw.sendall(b"\x04" + bytes([len(ready)]) + ready)
    said = b""
    while b"READY" not in said:
        said += raw.recv(4096)
