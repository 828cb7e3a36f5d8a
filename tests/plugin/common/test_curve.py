"""Keys: permissions of their files, and sockets that only peers with the right keys can connect to."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

from cosched_plugin.common import curve
from cosched_plugin.common.errors import UsageError

SOON_MS = 5_000
NEVER_MS = 400  # only waiting shows that nothing arrives


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A keyring with a peer of each role; their own keys are in ``own``."""
    curve.write_keys(tmp_path / "ring", "manager")
    for role, place in curve.FOLDERS.items():
        (tmp_path / "ring" / place).mkdir(mode=0o700)
        public, _ = curve.write_keys(tmp_path / "own", f"a_{role}")
        curve.write_public(tmp_path / "ring" / place / f"a_{role}.key", curve.read_public(public))
    curve.write_keys(tmp_path / "own", "stranger")
    return tmp_path / "ring"


Sockets = Callable[[int], zmq.Socket[bytes]]


@pytest.fixture
def sockets() -> Iterator[Sockets]:
    """Make sockets of one context, which are closed at the end."""
    context = zmq.Context()
    made: list[zmq.Socket[bytes]] = []

    def make(kind: int) -> zmq.Socket[bytes]:
        made.append(context.socket(kind))
        made[-1].linger = 0
        return made[-1]

    yield make
    for socket in made:
        socket.close()
    context.term()


def secret_of(folder: Path, name: str) -> Path:
    return folder.parent / "own" / f"{name}.key_secret"


# ---------------------------------------------------------------- files


def test_a_new_pair_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        public, secret = curve.write_keys(tmp_path / "keys", "alice")
    finally:
        os.umask(before)
    assert sorted(path.name for path in (tmp_path / "keys").iterdir()) == ["alice.key", "alice.key_secret"]
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "keys", public, secret)]
    assert modes == [0o700, 0o644, 0o600]
    key = curve.read_public(public)
    assert curve.read_secret(secret)[0] == key
    assert curve.read_secret(secret)[1].decode() not in public.read_text()
    assert curve.read_public(curve.write_keys(tmp_path / "keys", "bob")[0]) != key


@pytest.mark.parametrize("there", ["alice.key", "alice.key_secret"])
def test_existing_keys_are_not_overwritten(there: str, tmp_path: Path) -> None:
    (tmp_path / there).write_text("mine")
    with pytest.raises(UsageError, match=f"{there}: expected a new name"):
        curve.write_keys(tmp_path, "alice")
    assert (tmp_path / there).read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == [there]


@pytest.mark.parametrize("name", ["", ".", "../x", "a/b", "-a", "7", "a b", "x" * 65, "é", "a\n"])
def test_bad_names_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected a name"):
        curve.write_keys(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_folder_is_an_error() -> None:
    with pytest.raises(UsageError, match="/proc/nothing: cannot write keys there"):
        curve.write_keys("/proc/nothing", "alice")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644, 0o601])
def test_a_secret_readable_by_others_is_refused(mode: int, tmp_path: Path) -> None:
    _, secret = curve.write_keys(tmp_path, "alice")
    secret.chmod(mode)
    with pytest.raises(UsageError, match=rf"only its owner may read \(chmod 600\), got mode {mode:04o}"):
        curve.read_secret(secret)


def test_the_wrong_kind_of_file_is_refused(tmp_path: Path) -> None:
    public, secret = curve.write_keys(tmp_path, "alice")
    with pytest.raises(UsageError, match="expected a public key, got a file with a secret one"):
        curve.read_public(secret)
    public.chmod(0o600)
    with pytest.raises(UsageError, match="expected a secret key, got a file with a public one"):
        curve.read_secret(public)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "public-key = 7",
        f'public-key = "{"~" * 40}"',
        f'public-key = "{"#" * 40}"',
        f'public-key = "{"a" * 39}"',
        f'public-key = "{"a" * 45}"',
        "\0" * 100,
    ],
)
def test_files_without_a_key_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.key").write_text(text)
    with pytest.raises(UsageError, match=r"x\.key: expected a file with a key"):
        curve.read_public(tmp_path / "x.key")


def test_unreadable_files_are_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", mode=0o600)
    for place, text in (
        (tmp_path / "none", "No such file"),
        (tmp_path, "expected a file"),
        (tmp_path / "pipe", "expected a file"),
    ):
        with pytest.raises(UsageError, match=text):
            curve.read_public(place)
    for place, text in ((tmp_path / "none", "No such file"), (tmp_path / "pipe", "expected a file")):
        with pytest.raises(UsageError, match=text):
            curve.read_secret(place)


def test_mismatched_keys_of_a_pair_are_refused(tmp_path: Path) -> None:
    _, secret = curve.write_keys(tmp_path, "alice")
    other = curve.read_public(curve.write_keys(tmp_path, "bob")[0]).decode()
    secret.write_text(secret.read_text().replace(curve.read_secret(secret)[0].decode(), other))
    with pytest.raises(UsageError, match="belongs to the secret one"):
        curve.read_secret(secret)


# ---------------------------------------------------------------- keyrings


def test_a_keyring_admits_peers_by_role(folder: Path) -> None:
    keyring = curve.Keyring(folder)
    plugin, user, operator, stranger = [
        curve.read_public(folder.parent / "own" / f"{name}.key")
        for name in ("a_plugin", "a_user", "a_operator", "stranger")
    ]
    assert keyring.member(plugin, "plugin") == curve.Member("plugin", "a_plugin")
    assert keyring.member(user, "user") == curve.Member("user", "a_user")
    assert keyring.member(operator, "user") == curve.Member("operator", "a_operator")
    others = [
        (plugin, "user"),
        (user, "plugin"),
        (operator, "plugin"),
        (stranger, "user"),
        (stranger, "plugin"),
        (b"", "user"),
    ]
    assert [keyring.member(key, domain) for key, domain in others] == [None] * 6


@pytest.mark.parametrize("place", ["", "users", "plugins/a_plugin.key"])
def test_a_keyring_writable_by_others_is_refused(place: str, folder: Path) -> None:
    (folder / place).chmod((folder / place).stat().st_mode | 0o020)
    with pytest.raises(UsageError, match="only its owner may write there"):
        curve.Keyring(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_keyring_of_another_user_is_refused(folder: Path) -> None:
    os.chown(folder / "users", 65_534, -1)
    with pytest.raises(UsageError, match="users: expected it to be owned by root or by us, got user 65534"):
        curve.Keyring(folder)


def test_wrong_entries_of_a_keyring_are_named(folder: Path) -> None:
    wrong = folder / "users" / "alice.key"
    wrong.write_text("nothing")
    with pytest.raises(UsageError, match=r"alice\.key: expected a file with a key"):
        curve.Keyring(folder)
    wrong.unlink()
    _, secret = curve.write_keys(folder.parent / "own", "alice")
    secret.rename(wrong)
    with pytest.raises(UsageError, match="expected a public key"):
        curve.Keyring(folder)
    wrong.unlink()
    curve.write_public(wrong, curve.read_public(folder / "plugins" / "a_plugin.key"))
    with pytest.raises(
        UsageError, match=r"users/alice\.key: expected a key of its own, got that of .*plugins/a_plugin\.key"
    ):
        curve.Keyring(folder)
    wrong.unlink()
    curve.write_public(wrong, curve.read_public(folder / "manager.key"))
    with pytest.raises(UsageError, match=r"got that of .*manager"):
        curve.Keyring(folder)
    wrong.unlink()
    wrong.with_name("7.key").write_text("nothing")
    with pytest.raises(UsageError, match="expected a name"):
        curve.Keyring(folder)


@pytest.mark.parametrize("missing", ["manager.key_secret", "operators"])
def test_other_files_are_no_keyring(missing: str, folder: Path) -> None:
    (folder / missing).rename(folder.parent / "gone")
    with pytest.raises(UsageError, match=f"{missing}: cannot read it: No such file"):
        curve.Keyring(folder)


def test_changes_of_a_keyring_in_use_take_effect(folder: Path) -> None:
    keyring = curve.Keyring(folder)
    file = folder / "users" / "a_user.key"
    key = curve.read_public(file)
    assert keyring.member(key, "user") is not None

    def found() -> curve.Member | None:
        time.sleep(curve.SETTLED_S)
        return keyring.member(key, "user")

    file.rename(folder / "users" / "renamed.key")
    assert found() == curve.Member("user", "renamed")
    (folder / "users" / "renamed.key").rename(folder / "operators" / "renamed.key")
    assert found() == curve.Member("operator", "renamed")
    again = folder / "plugins" / "twice.key"
    curve.write_public(again, key)
    assert found() is None  # its owner is no longer known
    again.unlink()
    assert found() is not None
    (folder / "operators").chmod(0o777)
    assert found() is None
    (folder / "operators").chmod(0o700)
    assert found() is not None
    (folder / "operators" / "renamed.key").write_text(file.name)
    assert found() is None


# ---------------------------------------------------------------- sockets


def client(sockets: Sockets, folder: Path, name: str, endpoint: str) -> zmq.Socket[bytes]:
    socket = sockets(zmq.DEALER)
    curve.secure_client(socket, secret_of(folder, name), folder / "manager.key")
    socket.connect(endpoint)
    send_if_connected(socket, name.encode())
    return socket


def send_if_connected(socket: zmq.Socket[bytes], body: bytes) -> None:
    """Send as a client that may already be refused: ZeroMQ then has no connection to send to."""
    with contextlib.suppress(zmq.Again):
        socket.send(body, zmq.NOBLOCK)


@pytest.mark.parametrize(
    ("domain", "welcome", "refused"),
    [
        ("plugin", ("a_plugin",), ("a_user", "a_operator", "stranger")),
        ("user", ("a_user", "a_operator"), ("a_plugin", "stranger")),
    ],
)
def test_peers_are_admitted_by_key(
    domain: str, welcome: tuple[str, ...], refused: tuple[str, ...], folder: Path, sockets: Sockets
) -> None:
    keyring = curve.Keyring(folder)
    server = sockets(zmq.ROUTER)
    try:
        keyring.secure(server, domain)
        port = server.bind_to_random_port("tcp://127.0.0.1")
        endpoint = f"tcp://127.0.0.1:{port}"
        for name in refused:
            client(sockets, folder, name, endpoint)
        plain = sockets(zmq.DEALER)
        plain.connect(endpoint)
        send_if_connected(plain, b"no key at all")
        for name in welcome:
            socket = client(sockets, folder, name, endpoint)
            assert server.poll(SOON_MS)
            sender, body = server.recv_multipart(copy=False)
            assert body.bytes == name.encode()
            assert keyring.sender(body, domain) == curve.Member(name.removeprefix("a_"), name)
            server.send_multipart([sender.bytes, b"answer"])
            assert socket.poll(SOON_MS)
        assert not server.poll(NEVER_MS)
    finally:
        server.close()
        keyring.close()


def test_a_manager_with_another_key_is_not_accepted(folder: Path, sockets: Sockets) -> None:
    keyring = curve.Keyring(folder)
    server = sockets(zmq.ROUTER)
    try:
        keyring.secure(server, "user")
        endpoint = f"tcp://127.0.0.1:{server.bind_to_random_port('tcp://127.0.0.1')}"
        socket = sockets(zmq.DEALER)
        curve.secure_client(socket, secret_of(folder, "a_user"), folder.parent / "own" / "stranger.key")
        socket.connect(endpoint)
        send_if_connected(socket, b"secret")
        assert not server.poll(NEVER_MS)
    finally:
        server.close()
        keyring.close()


def test_without_a_doorkeeper_no_peer_is_admitted(folder: Path, sockets: Sockets) -> None:
    keyring = curve.Keyring(folder)
    server = sockets(zmq.ROUTER)
    keyring.secure(server, "user")
    keyring.close()
    endpoint = f"tcp://127.0.0.1:{server.bind_to_random_port('tcp://127.0.0.1')}"
    client(sockets, folder, "a_user", endpoint)
    assert not server.poll(NEVER_MS)


def test_an_unknown_domain_is_an_error(folder: Path, sockets: Sockets) -> None:
    server = sockets(zmq.ROUTER)
    with pytest.raises(UsageError, match="expected one of plugin, user as the domain, got 'plugins'"):
        curve.Keyring(folder).secure(server, "plugins")


def test_a_frame_without_a_key_has_no_sender(folder: Path) -> None:
    assert curve.Keyring(folder).sender(zmq.Frame(b"x"), "user") is None
