"""The users' endpoint with real sockets: identity of users, keys, and valid endpoints."""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path
from subprocess import PIPE, Popen

import pytest
import zmq
from tests.emulator.submissions import submit_job
from tests.emulator.users.site import (
    AS_ROOT,
    NOBODY,
    OWN_NAME,
    STATUS,
    Site,
    _connected_as,
    _greet,
    answer_of,
    is_heard,
    quiet,
    received,
    send_if_connected,
    send_raw,
)
from tests.processes import ended, start_python

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.users import door as user_door
from cosched_emulator.users.requests import (
    Done,
    DrainNodes,
    EstimateStart,
    Refused,
    Requester,
    encode_request,
    from_map,
    to_map,
)
from cosched_plugin.common.curve import SETTLED_S, Keyring, read_public, write_public
from cosched_plugin.common.sockets import OWNER_ONLY, bind_private, remove_socket
from cosched_plugin.protocol.errors import RemoteProtocolError
from cosched_terminal.console import Log

# ---------------------------------------------------------------- identity


def test_a_request_is_received_and_answered(site: Site) -> None:
    door = site.door()
    client = site.client(door.endpoint)
    request = submit_job(4, 60_000_000, tasks=(1, 3))
    client.send_multipart(encode_request(request, -(2**63)))
    (asked,) = received(door)
    assert (asked.ticket, asked.who, asked.request) == (-(2**63), Requester(OWN_NAME, True), request)
    assert asked.peer.split(":")[1] == str(os.geteuid())
    door.answer(asked, Done({"job_ids": [1, 2]}))
    assert answer_of(client) == (-(2**63), Done({"job_ids": (1, 2)}))
    assert door.receive() == []


def test_the_fields_of_a_submitted_job_stand_among_those_of_its_submission() -> None:
    """As they did before a request had a job: journals of earlier versions hold such maps."""
    wish = submit_job(4, 60, memory_mb=5, priority=-2, licences=(("matlab", 1),), held=True)
    raw = {
        "processes": 4,
        "estimate_us": 60,
        "memory_mb": 5,
        "priority": -2,
        "licences": (("matlab", 1),),
        "held": True,
    }
    assert to_map(wish) == {"type": "submit", **raw}
    assert from_map({"type": "submit", **raw, "user": "root", "id": 7, "submit_us": 9}) == wish
    assert from_map(to_map(EstimateStart(wish))) == EstimateStart(wish)
    for change, path in (
        ({"memory_mb": -1}, "memory_mb"),
        ({"at_once": "x"}, "at_once"),
        ({"eligible": 3}, "eligible"),
    ):
        with pytest.raises(RemoteProtocolError) as caught:
            from_map({"type": "submit", **raw, **change})
        assert caught.value.path == path
    with pytest.raises(RemoteProtocolError, match="estimate_us: required"):
        from_map({"type": "submit", "processes": 4})


@AS_ROOT
@pytest.mark.parametrize(("uid", "name"), [(NOBODY, "nobody"), (1_234_567, "1234567")])
def test_the_kernel_identifies_the_user(uid: int, name: str, site: Site) -> None:
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
    child = start_python("-c", script, env=os.environ)
    (asked,) = received(door, milliseconds=20_000)
    assert asked.who == Requester(name, False)
    door.answer(asked, Done({}))
    assert "done" in ended(child, 20).out


@AS_ROOT
def test_an_operator_is_recognized_by_name(site: Site) -> None:
    door = site.door(operators=frozenset({"nobody"}))  # type: ignore[arg-type]
    before = os.getresuid()
    client = site.client(door.endpoint)  # another thread connects, which stays root
    assert is_heard(door, client)
    assert os.getresuid() == before
    raw = _connected_as(NOBODY, f"{site.folder}/door")
    site.clients.append(raw)
    _greet(raw)
    send_raw(raw, *STATUS)
    (asked,) = received(door)
    assert asked.who == Requester("nobody", True)


def test_a_client_cannot_choose_its_user(site: Site) -> None:
    door = site.door()
    lies = ((b"Peer-Address", b"localhost:4321:1:1"), (b"User-Id", b"boss"))
    send_raw(site.raw(properties=lies), *STATUS)
    (asked,) = received(door)
    assert asked.who.name == OWN_NAME


def test_an_unknown_client_is_refused(site: Site) -> None:
    door = site.door()
    told: list[str] = []
    door._audit = user_door.Audit(Log(write=told.append), lambda: site.now_s)
    old = site.raw(version=2)
    send_raw(old, *STATUS)
    assert received(door, milliseconds=400) == []
    said = b""
    while b"cannot tell whose connection this is" not in said:
        said += old.recv(4096)
    for _ in range(30):
        send_raw(old, *STATUS)
    assert quiet(door) == []
    assert door.dropped == 31 - user_door.COMPLAINTS
    assert len(told) == user_door.COMPLAINTS  # a flood does not fill the log
    assert "was refused: the key was revoked, or the connection has no name" in told[0]
    assert is_heard(door, site.client(door.endpoint))


# ---------------------------------------------------------------- keys


def test_keys_identify_the_user(ring: Path, site: Site) -> None:
    door = site.door("tcp://127.0.0.1:*", Keyring(ring))

    def client(name: str) -> zmq.Socket[bytes]:
        return site.client(door.endpoint, site.folder / "own" / f"{name}.key_secret", ring / "manager.key")

    alice = client("alice")
    assert is_heard(door, alice)
    for stranger in (client("mallory"), client("rua"), site.client(door.endpoint)):
        send_if_connected(stranger, STATUS)
    olga = client("olga")
    olga.send_multipart(encode_request(DrainNodes((1,)), 1))
    alice.send_multipart(STATUS)
    asked = received(door, lambda asked: len(asked) >= 2) + quiet(door)
    assert sorted(each.who for each in asked) == [("alice", False), ("olga", True)]
    assert is_heard(door, alice)


def test_a_revoked_key_of_a_connected_user_is_refused(ring: Path, site: Site) -> None:
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
    send_if_connected(again, STATUS)
    assert quiet(door) == []
    assert not again.poll(0)
    assert is_heard(door, olga)
    write_public(ring / "users" / "alice2.key", read_public(own / "alice.key"))  # allowed again, under another name
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
def test_invalid_users_endpoints_are_refused(endpoint: str, reason: str, site: Site) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        site.door(endpoint)


def test_socket_files_have_the_requested_permissions(site: Site) -> None:
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


def test_a_closed_endpoint_leaves_no_file_and_takes_no_other_ones(site: Site) -> None:
    """ZeroMQ leaves its file: every ls of the folder showed managers that were gone."""
    door = site.door()
    assert (site.folder / "door").is_socket()
    door.close()
    site.doors.pop()[1].term()
    assert not (site.folder / "door").exists()
    path = str(site.folder / "other")
    listening = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print(flush=True); input()"
    with Popen([sys.executable, "-c", listening, path], stdin=PIPE, stdout=PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "\n"
        remove_socket(f"ipc://{path}")
        other.communicate("\n", 10)
    assert os.path.exists(path)


def test_a_path_in_use_is_refused(site: Site) -> None:
    door = site.door()
    with pytest.raises(ConfigurationError, match="where no other process listens"):
        site.door()
    assert is_heard(door, site.client(door.endpoint))
    (site.folder / "file").write_text("precious")
    with pytest.raises(ConfigurationError, match="something else"):
        site.door(f"ipc://{site.folder}/file")
    assert (site.folder / "file").read_text() == "precious"


def test_a_socket_left_over_is_replaced(site: Site) -> None:
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(f"{site.folder}/door")
    door = site.door()
    assert is_heard(door, site.client(door.endpoint))


def test_a_socket_with_a_full_backlog_counts_as_in_use(site: Site) -> None:
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as first:
        busy.bind(f"{site.folder}/door")
        busy.listen(0)
        first.connect(f"{site.folder}/door")
        with pytest.raises(ConfigurationError, match="where no other process listens"):
            site.door()


def test_a_port_in_use_is_refused(ring: Path, site: Site) -> None:
    first = site.door("tcp://127.0.0.1:*", Keyring(ring))
    with pytest.raises(ConfigurationError, match="one to listen at"):
        site.door(first.endpoint, Keyring(ring))  # leaves no socket that its context would wait for


def test_an_ipv6_endpoint_works(ring: Path, site: Site) -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6 here")
    keys = Keyring(ring)
    door = site.door("tcp://[::1]:*", keys)
    assert door.endpoint.startswith("tcp://[::1]:")
