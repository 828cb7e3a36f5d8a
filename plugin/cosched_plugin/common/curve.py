"""Keys of both ends of a tcp connection (CURVE): made, read, checked, and revoked while the manager runs.

A pair of keys is two files in ZeroMQ's format, ``NAME.key`` (public) and ``NAME.key_secret``. A manager's keyring is a folder
with its own pair, ``manager``, and the public keys of the peers that may connect, one file each, in ``plugins/``, ``users/``,
``operators/``.
"""

from __future__ import annotations

import os
import re
import stat
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import zmq
import zmq.auth
from zmq.utils import z85

from cosched_plugin.common.errors import UsageError
from cosched_terminal.own_file import is_ours

if TYPE_CHECKING:
    from zmq.auth.thread import ThreadAuthenticator

MANAGER: Final = "manager"  # name of a keyring's own pair
FOLDERS: Final = {"plugin": "plugins", "user": "users", "operator": "operators"}  # role -> folder of a keyring
ROLES_OF: Final = {"plugin": ("plugin",), "user": ("user", "operator")}  # endpoint's domain -> roles that may connect
SETTLED_S: Final = 0.25  # a change of the keyring counts at most this late
MAX_KEY_FILE_BYTES: Final = 65_536
KEY_BYTES: Final = 32
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.@-]{0,63}")


class Member(NamedTuple):
    """The owner of a key: ``role`` is plugin, user or operator, ``name`` is that of the file."""

    role: str
    name: str


def write_keys(folder: str | Path, name: str) -> tuple[Path, Path]:
    """Make a pair of keys and return its files, public and secret; only the owner may read the secret one.

    Raises UsageError for a bad name, and where a file exists already.
    """
    folder = Path(folder)
    public, secret = folder / f"{check_name(name)}.key", folder / f"{name}.key_secret"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as private:  # readable by the owner only
            new_public, new_secret = map(Path, zmq.auth.create_certificates(private, name))
            new_public.chmod(0o644)
            new_secret.chmod(0o600)
            _link(new_secret, secret)
            try:
                _link(new_public, public)
            except UsageError:
                secret.unlink()
                raise
    except OSError as error:
        raise UsageError(f"{folder}: cannot write keys there: {error.strerror}") from error
    return public, secret


def write_public(file: str | Path, key: bytes) -> None:
    """Write a public key into a new file; UsageError if the file exists, or cannot be written."""
    path = Path(file)
    try:
        with tempfile.TemporaryDirectory(dir=path.parent) as private:
            new = Path(private) / path.name
            new.write_text(f'curve\n    public-key = "{key.decode("ascii")}"\n', encoding="ascii")
            new.chmod(0o644)
            _link(new, path)
    except OSError as error:
        raise UsageError(f"{file}: cannot write it: {error.strerror}") from error


def read_public(file: str | Path) -> bytes:
    """Return the key in a public file; UsageError for another kind of file, and for a file that contains a secret key."""
    public, secret = _read(Path(file))
    if secret is not None:
        raise UsageError(f"{file}: expected a public key, got a file with a secret one, which must not be shared")
    return public


def read_secret(file: str | Path) -> tuple[bytes, bytes]:
    """Return the public and the secret key in a secret file; UsageError for another kind of file, or one that others may read."""
    path = Path(file)
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise UsageError(f"{file}: cannot read it: {error.strerror}") from error
    if mode & 0o077:
        if path.with_name(f"{path.name}_secret").exists():
            raise UsageError(f"{file}: expected a secret key, got a public one; the secret key is {file}_secret")
        raise UsageError(
            f"{file}: expected a secret file that only its owner may read (chmod 600), got mode {stat.S_IMODE(mode):04o}"
        )
    for trouble in _why_not_ours(path):
        raise UsageError(trouble)
    public, secret = _read(path)
    if secret is None:
        raise UsageError(f"{file}: expected a secret key, got a file with a public one alone")
    return public, secret


def secure_client(socket: zmq.Socket[bytes], own_secret_file: str | Path, server_public_file: str | Path) -> None:
    """Secure ``socket``: it connects only to a server with the secret key of ``server_public_file``, and identifies with our key."""
    server = read_public(server_public_file)
    socket.curve_publickey, socket.curve_secretkey = read_secret(own_secret_file)
    socket.curve_serverkey = server


def check_name(name: str) -> str:
    """Return ``name``; UsageError if it is not valid for a key."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"expected a name of at most 64 letters, digits and _.@-, the first of them a letter or _, got {name!r}"
        )
    return name


class Keyring:
    """The manager's keys and the keys of its known peers; it reads its folder again when that has changed.

    Raises UsageError for a folder that is not a keyring, that others may write to, or that contains an invalid file. A file that
    becomes invalid later admits no peer.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.public_file = self.folder / f"{MANAGER}.key"
        self.public, self._secret = read_secret(self.folder / f"{MANAGER}.key_secret")
        self._lock = threading.Lock()  # the doorkeeper makes lookups in its own thread
        self._signature: object = None
        self._members: Mapping[bytes, Member] = {}
        self._looked_s = 0.0
        self._troubles: list[str] = []
        self._doorkeepers: dict[int, ThreadAuthenticator] = {}
        # Told of each key that is not admitted, in another thread
        self.refused: Callable[[str, str], object] | None = None
        self.members()
        if self._troubles:
            raise UsageError(self._troubles[0])

    def members(self) -> Mapping[bytes, Member]:
        """Return the known members by public key, at most a quarter of a second old."""
        with self._lock:
            now_s = time.monotonic()
            if self._signature is None or now_s - self._looked_s >= SETTLED_S:
                self._looked_s = now_s
                self._reread()
            return self._members

    def member(self, key: bytes, domain: str) -> Member | None:
        """Return the owner of ``key``, None if no member with this key may use ``domain``."""
        found = self.members().get(key)
        return None if found is None or found.role not in ROLES_OF[domain] else found

    def sender(self, frame: zmq.Frame, domain: str) -> Member | None:
        """Return the sender of ``frame`` through a socket secured for ``domain``, None if it is not (or no longer) permitted.

        A check of every message makes a revoked key useless on existing connections too.
        """
        try:
            return self.member(str(frame.get("User-Id")).encode("ascii", "replace"), domain)
        except zmq.ZMQError:
            return None

    def secure(self, socket: zmq.Socket[bytes], domain: str) -> None:
        """Let only members connect to ``socket``, which is not bound yet; ``domain`` is "plugin" or "user".

        Starts a thread which `close` ends. The ``User-Id`` of a message is the sender's public key.
        """
        if domain not in ROLES_OF:
            raise UsageError(f"expected one of {', '.join(ROLES_OF)} as the domain, got {domain!r}")
        self._start_doorkeeper(socket.context)
        socket.curve_server = True
        socket.curve_publickey, socket.curve_secretkey = self.public, self._secret
        socket.zap_domain = domain.encode()
        socket.zap_enforce_domain = True  # without a doorkeeper no peer is admitted

    def close(self) -> None:
        """End the doorkeepers: after the sockets were closed, and before their context is terminated."""
        for doorkeeper in self._doorkeepers.values():
            doorkeeper.stop()
        self._doorkeepers.clear()

    def _start_doorkeeper(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        from zmq.auth.thread import ThreadAuthenticator  # noqa: PLC0415 - half of the import time of this file

        if id(context) in self._doorkeepers:
            return
        doorkeeper = ThreadAuthenticator(context)
        for domain in ROLES_OF:
            doorkeeper.configure_curve_callback(domain, _Admission(self))
        doorkeeper.start()
        self._doorkeepers[id(context)] = doorkeeper

    def _reread(self) -> None:
        """Read the folders if anything in them has changed."""
        seen: list[object] = [_state(self.folder)]
        files: list[tuple[str, Path]] = []
        for role, name in FOLDERS.items():
            folder = self.folder / name
            paths = sorted(folder.glob("*.key"))
            seen += [_state(folder), *[(path.name, _state(path)) for path in paths]]
            files += [(role, path) for path in paths]
        if seen == self._signature:
            return
        self._signature = seen
        self._troubles = []
        self._members = self._read_members(files)

    def _read_members(self, files: list[tuple[str, Path]]) -> dict[bytes, Member]:
        """Return the known members; an invalid folder or file admits no peer, and is recorded in ``_troubles``."""
        for folder in (self.folder, *[self.folder / name for name in FOLDERS.values()]):
            self._troubles += _why_not_ours(folder)
        if self._troubles:
            return {}
        owners: dict[bytes, list[Path]] = {self.public: [self.public_file]}
        members: dict[bytes, Member] = {}
        for role, path in files:
            problems = _why_not_ours(path)
            try:
                member = Member(role, check_name(path.stem))
                key = read_public(path)
            except UsageError as error:
                problems.append(str(error))
            if problems:
                self._troubles += problems
                continue
            owners.setdefault(key, []).append(path)
            members[key] = member
        for key, paths in owners.items():
            if len(paths) > 1:  # its owner is ambiguous
                self._troubles.append(f"{paths[1]}: expected a key of its own, got that of {paths[0]}")
                members.pop(key, None)
        return members


class _Admission:
    """Answers the doorkeeper when a peer connects; the library defines the method's name."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring

    def callback(self, domain: str, key: bytes) -> bool:
        """Return whether the owner of the secret key of ``key`` may connect."""
        admitted = self._keyring.member(key, domain) is not None
        if not admitted and self._keyring.refused is not None:
            self._keyring.refused(f"key {key.decode('ascii', 'replace')}", f"it is no {domain}'s")
        return admitted


def _read(path: Path) -> tuple[bytes, bytes | None]:
    """Return the keys in a file, checked; the second is None in a public one."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_KEY_FILE_BYTES:
            raise UsageError(f"{path}: expected a file with a key of at most {MAX_KEY_FILE_BYTES} bytes")
        public, secret = zmq.auth.load_certificate(path)
        for key in (public, secret):
            if key is not None and len(z85.decode(key)) != KEY_BYTES:
                raise ValueError("a key of another length")
    except OSError as error:
        raise UsageError(f"{path}: cannot read it: {error.strerror}") from error
    except (ValueError, KeyError, struct.error) as error:  # what z85 raises
        raise UsageError(f"{path}: expected a file with a key in it, as `keys new` writes them") from error
    if secret is not None and zmq.curve_public(secret) != public:
        raise UsageError(f"{path}: expected a public key that belongs to the secret one, got another")
    return public, secret


def _why_not_ours(path: Path) -> list[str]:
    """Return the reason why another user could change ``path``, empty if none could."""
    try:
        found = path.stat()
    except OSError as error:
        return [f"{path}: cannot read it: {error.strerror}"]
    if not is_ours(found):
        return [f"{path}: expected it to be owned by root or by us, got user {found.st_uid}"]
    if found.st_mode & 0o022:
        mode = stat.S_IMODE(found.st_mode)
        return [f"{path}: expected that only its owner may write there (chmod go-w), got mode {mode:04o}"]
    return []


def _state(path: Path) -> tuple[int, ...] | None:
    """Return values that change whenever a file or folder does."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_mode, found.st_uid


def _link(new: Path, final: Path) -> None:
    """Give a new file its final name, unless that exists already."""
    try:
        os.link(new, final)
    except FileExistsError:
        raise UsageError(f"{final}: expected a new name, and there is such a file") from None
