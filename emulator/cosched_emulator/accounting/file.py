"""The accounting's database as a file: created atomically, opened by one process at a time, and only if this program made it."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import sqlite3
import stat
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from cosched_emulator.accounting.database_schema import APPLICATION_ID, VERSION, migrate
from cosched_emulator.errors import ConfigurationError, InputError
from cosched_emulator.scenario.schema import Scenario
from cosched_emulator.workload.job import Workload
from cosched_hwmodel.units import MIB

BUSY_MS: Final = 100  # how long a statement waits for another process's lock; users wait meanwhile
LARGEST_LOG_BYTES: Final = 64 * MIB  # size of the write-ahead log after a long reader has finished
_HEADER_BYTES: Final = 100
_MAGIC: Final = b"SQLite format 3\0"
_OURS: Final = "a database of this manager"


class InUseError(InputError):
    """Another manager has the database open."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "a database that no other manager has open", "one that is in use")


class Database(NamedTuple):
    """An open database; ``lock`` is the file descriptor whose lock keeps other managers out until it is closed or this process ends."""

    connection: sqlite3.Connection
    lock: int | None

    def close(self) -> None:
        """Close the connection, then the lock: no other process may open the file earlier."""
        self.connection.close()
        if self.lock is not None:
            os.close(self.lock)


def database_in_memory(meta: Mapping[str, str]) -> Database:
    """Return an empty private database that disappears when it is closed."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    _fill(connection, meta)
    return Database(connection, None)


def create_database(path: str, meta: Mapping[str, str]) -> Database:
    """Make a new file; InputError if it exists or cannot be written. A process that is killed meanwhile leaves no file."""
    target = Path(path)
    if os.path.lexists(path):
        raise InputError(path, "a new database", "a file that exists")
    for ending in ("-wal", "-journal"):
        if os.path.lexists(path + ending):  # SQLite would merge its contents into the new database
            raise InputError(
                path + ending,
                "no such file (it holds the end of a database that was moved: put that back, or remove this)",
            )
    partial = str(target.with_name(f".{target.name}.{os.getpid()}.partial"))
    lock = None
    try:
        with suppress(OSError):  # on a read-only file system also where there is no such file
            _remove(partial)
        lock = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with closing(_connect(partial)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            _fill(connection, meta)
        os.fsync(lock)
        os.link(partial, path)  # unlike a rename, it replaces nothing
        _remove(partial)
        _sync_folder(target.parent)
        return Database(_open_connection(path), lock)
    except BaseException as error:
        with suppress(OSError):
            _remove(partial)
        if lock is not None:
            os.close(lock)
        if isinstance(error, FileExistsError):  # made by another manager meanwhile
            raise InUseError(path) from error
        if isinstance(error, OSError):
            raise InputError(path, "a database that can be written", error.strerror or str(error)) from error
        if isinstance(error, sqlite3.Error):
            raise InputError(path, "a database that can be written", str(error)) from error
        raise


def open_database(path: str) -> Database:
    """Open an existing file; InputError, with the file unchanged, if it is foreign, damaged, newer or in use."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise InputError(path, _OURS, error.strerror or str(error)) from error
    try:
        if not stat.S_ISREG(os.fstat(lock).st_mode):
            raise InputError(path, _OURS, "something that is no file")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InUseError(path) from error
        version = _version(path, os.pread(lock, _HEADER_BYTES, 0))
        with _sqlite_errors(path):
            return Database(_open_connection(path, version), lock)
    except BaseException:
        os.close(lock)
        raise


def _version(path: str, header: bytes) -> int:
    """Return the version of the schema, from the file's first bytes: SQLite may repair, and so change, a file that it opens."""
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise InputError(path, _OURS, "a file that is no database" if header else "an empty file")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise InputError(path, _OURS, "a database of something else")
    version = int.from_bytes(header[60:64], "big")
    if version > VERSION:
        raise InputError(path, f"a database of version {VERSION} or older", f"version {version}: a newer program's")
    if version < 1:
        raise InputError(path, _OURS, "one without a version")
    return version


def _open_connection(path: str, version: int = VERSION) -> sqlite3.Connection:
    connection = _connect(path)
    try:
        for (text,) in connection.execute("PRAGMA quick_check(1)"):
            if text != "ok":
                raise InputError(path, "a whole database", f"a damaged one ({' '.join(text.split())})")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(f"PRAGMA journal_size_limit={LARGEST_LOG_BYTES}")
        migrate(connection, version)
        step, last, count = connection.execute(
            "SELECT (SELECT step FROM progress), coalesce(max(step), 0), count(*) FROM journal"
        ).fetchone()
        if not step == last == count:
            text = f"{count} steps, the last of them number {last}, and progress at {step}"
            raise InputError(path, "a journal without gaps", text)
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(path: str) -> sqlite3.Connection:
    uri = f"file:{quote(os.path.abspath(path))}?mode=rw"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_MS / 1000)


def _fill(connection: sqlite3.Connection, meta: Mapping[str, str]) -> None:
    migrate(connection, 0)
    connection.executemany("INSERT INTO meta VALUES (?, ?)", sorted(meta.items()))


@contextmanager
def _sqlite_errors(path: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise InputError(path, "a whole database", f"one that SQLite cannot use ({error})") from error


def _remove(path: str) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            os.unlink(path + ending)


def _sync_folder(folder: Path) -> None:
    """Make the folder's new entry survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# The meta data that ties a database to its run, and the check that it belongs to the present run.


def meta_of(scenario: Scenario, workload: Workload, kind: str) -> dict[str, str]:
    """Return the meta data of a new database: the scenario, a digest of its jobs, and a unique name of the run."""
    digest = hashlib.sha256()
    for job in workload.jobs:
        digest.update(repr(tuple(job)).encode())
    return {
        "kind": kind,
        "scenario": json.dumps(scenario.as_dict(), sort_keys=True),
        "workload": digest.hexdigest(),
        "run": secrets.token_hex(8),
    }


def check_meta(meta: Mapping[str, str], scenario: Scenario, workload: Workload, kind: str, file: str) -> None:
    """Raise ConfigurationError if a database is for another kind of run, another scenario (its clock aside), or other jobs."""
    if meta.get("kind") != kind:
        raise ConfigurationError("db", f"a database of a {kind} run", f"one of a {meta.get('kind')} run", file=file)
    present = meta_of(scenario, workload, kind)
    ours = json.loads(present["scenario"])
    theirs = json.loads(meta["scenario"])
    differing = [f"{place}: {mine} instead of {old}" for place, mine, old in _differences(ours, theirs, "")]
    if differing:
        raise ConfigurationError("db", "a database of the same scenario", "; ".join(differing[:3]), file=file)
    if meta.get("workload") != present["workload"]:
        raise ConfigurationError("db", "a database of the same jobs", "others: their file has changed", file=file)


def _differences(ours: Any, theirs: Any, place: str) -> list[tuple[str, Any, Any]]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        found = []
        for key in sorted(set(ours) | set(theirs)):
            if place == "" and key in ("clock", "results"):
                continue
            found += _differences(ours.get(key), theirs.get(key), f"{place}.{key}" if place else key)
        return found
    return [] if ours == theirs else [(place, ours, theirs)]
