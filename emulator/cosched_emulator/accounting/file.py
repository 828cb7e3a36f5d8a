"""The accounting's database as a file: created atomically, opened by one process at a time, and only if this program made it."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from cosched_emulator.accounting import chain
from cosched_emulator.accounting.database_schema import APPLICATION_ID, CHAINED, VERSION, migrate
from cosched_emulator.errors import AccountingError, InputError
from cosched_hwmodel.units import MIB
from cosched_terminal.own_file import SQLITE_FILES, check_own, open_own

BUSY_MS: Final = 100  # how long a statement waits for another process's lock; users wait meanwhile
LARGEST_LOG_BYTES: Final = 64 * MIB  # size of the write-ahead log after a long reader has finished
# A disk that takes no more, which is no damage.
_NO_ROOM: Final = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_TRUNCATE}
)
_HEADER_BYTES: Final = 100
_MAGIC: Final = b"SQLite format 3\0"
MADE_BY: Final = "schema"  # meta data: the version whose program made all of the tables
_OURS: Final = "a database of this manager"


class InUseError(InputError):
    """Another manager has the database open."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "a database that no other manager has open", "one that is in use")


class DamageError(InputError):
    """A database that is not as it was left."""

    def __init__(self, path: str, expected: str, got: str) -> None:
        super().__init__(path, expected, got, hint="with --accept-loss, serve continues from the intact part")


class Database(NamedTuple):
    """An open database; ``lock`` is the file descriptor whose lock keeps other managers out until it is closed or this process ends."""

    connection: sqlite3.Connection
    lock: int | None
    mark: chain.MarkFile | None
    begins: chain.Reached | None = None  # what lies before this step was not looked at
    older: int = 0  # the version of the file, if that is not the present one: ``connection`` is to a copy of it that is

    def close(self) -> None:
        """Close the connection, then the lock: no other process may open the file earlier."""
        self.connection.close()
        if self.mark is not None:
            self.mark.close()
        if self.lock is not None:
            os.close(self.lock)


def database_in_memory(meta: Mapping[str, str]) -> Database:
    """Return an empty private database that disappears when it is closed."""
    with opening(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        _fill(connection, meta)
        return Database(connection, None, None)


def create_database(path: str, meta: Mapping[str, str]) -> Database:
    """Make a new file; InputError if it exists or cannot be written. A process that is killed meanwhile leaves no database."""
    if os.path.lexists(path):
        raise InputError(path, "a new database", "a file that exists")
    for file in (f"{path}-wal", f"{path}-journal", chain.mark_file(path)):
        # SQLite would merge its contents into the new database; a mark of nothing is that of a process that was killed here.
        if os.path.lexists(file) and not (file == chain.mark_file(path) and chain.read_mark(path).step == 0):
            raise InputError(file, "no such file: its database was moved; put the database back, or remove this file")
    check_beside(path)
    lock, mark = _new_file(path, meta, (), {}, replaces=False)
    try:
        return Database(_open_connection(path), lock, mark)
    except BaseException:
        mark.close()
        os.close(lock)
        raise


def make_database(
    path: str, meta: Mapping[str, str], steps: Sequence[chain.Row], past: Mapping[str, Sequence[Sequence[Any]]]
) -> None:
    """Put a file with these steps, and tables without their changes, in the place of an old one; InputError if that is impossible.

    ``past`` are rows of tables from before the first step.
    """
    lock, mark = _new_file(path, meta, steps, past, replaces=True)
    mark.close()
    os.close(lock)


def _new_file(
    path: str,
    meta: Mapping[str, str],
    steps: Sequence[chain.Row],
    past: Mapping[str, Sequence[Sequence[Any]]],
    *,
    replaces: bool,
) -> tuple[int, chain.MarkFile]:
    """Make a file that is there whole, or not at all; return its lock and its mark."""
    target = Path(path)
    partial = str(target.with_name(f".{target.name}.{os.getpid()}.partial"))
    lock = None
    try:
        with suppress(OSError):  # on a read-only file system also where there is no such file
            _remove(partial)
        lock = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with closing(connect(partial)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            mark = _fill(connection, meta, steps, past)
        os.fsync(lock)
        if replaces:  # in this order: a process that is killed in between leaves a database that is refused
            for ending in ("-wal", "-shm"):
                with suppress(FileNotFoundError):
                    os.unlink(path + ending)
            os.replace(partial, path)
            marked = chain.MarkFile(path, mark)
        else:
            marked = chain.MarkFile(path, mark)
            os.link(partial, path)  # unlike a rename, it replaces nothing
        _remove(partial)
        sync_folder(target.parent)
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
    return lock, marked


def open_database(path: str, begin: Callable[[str], chain.Reached | None] | None = None) -> Database:
    """Open an existing file; InputError, with the file unchanged, if it is foreign, damaged, newer or in use.

    Of an older one a copy is opened: the file itself is changed only by `bring_up_to_date`. What lies before the step that ``begin``
    names is not examined for damage, if the file has that step with all its changes.
    """
    lock = lock_database(path)
    try:
        version = _version(path, os.pread(lock, _HEADER_BYTES, 0))
        with _sqlite_errors(path):
            if version >= CHAINED:
                _check_end(path)
            if version < VERSION:
                return Database(_up_to_date_copy(path, version), lock, None, older=version)
            begins = None if begin is None else begin(path)
            if begins is not None and not _has(path, begins):
                begins = None
            connection, mark = _open_both(path, whole=begins is None)
            return Database(connection, lock, mark, begins)
    except BaseException:
        os.close(lock)
        raise


# A journal is played on the copy, and compared with it: a program that has to refuse the file leaves it to the program that made it.
def _up_to_date_copy(path: str, version: int) -> sqlite3.Connection:
    """Return a copy, in a file that disappears, with the tables of the present version."""
    with opening(sqlite3.connect("", isolation_level=None)) as copy:
        with closing(read_only(path)) as connection:
            _check_pages(connection, path)
            connection.backup(copy)
        migrate(copy, version)
        _check_journal(copy, path, whole=True)
        return copy


def bring_up_to_date(path: str, database: Database) -> Database:
    """Do to an older file what was done to its copy, and open it in the copy's place."""
    with _sqlite_errors(path):
        connection, mark = _open_both(path, database.older, whole=False)
    database.connection.close()
    return database._replace(connection=connection, mark=mark, older=0)


def _open_both(path: str, version: int = VERSION, *, whole: bool) -> tuple[sqlite3.Connection, chain.MarkFile]:
    with opening(_open_connection(path, version, whole=whole)) as connection:
        return connection, _open_mark(path, connection, new=version < CHAINED)


def lock_database(path: str, *, shared: bool = False) -> int:
    """Return the file descriptor of a database's lock, until it is closed; InputError if that cannot be, or another one has it.

    ``shared``: it may be another user's, as it is only read.
    """
    try:
        lock = open_own(path, os.O_RDWR, shared=shared)
    except OSError as error:
        raise InputError(path, _OURS, error.strerror or str(error)) from error
    try:
        if not shared:
            check_beside(path)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InUseError(path) from error
    except BaseException:
        os.close(lock)
        raise
    return lock


def check_beside(path: str) -> None:
    """Raise InputError if another user can have made one of the files with which SQLite completes a database."""
    try:
        check_own(*[path + ending for ending in SQLITE_FILES])
    except OSError as error:
        raise InputError(error.filename, "a file of the database, as SQLite makes it", error.strerror) from error


def _open_mark(path: str, connection: sqlite3.Connection, *, new: bool) -> chain.MarkFile:
    """Open the mark of a database; ``new``: its journal has just got its links."""
    try:
        first = chain.first_link(dict(connection.execute("SELECT key, value FROM meta")))
        if not new and chain.read_mark(path).first == first:
            return chain.MarkFile(path)
        last = connection.execute("SELECT step, link FROM journal ORDER BY step DESC LIMIT 1").fetchone()
        step, link = last or (0, first)
        return chain.MarkFile(path, chain.Mark(step, link, first))
    except OSError as error:
        raise InputError(chain.mark_file(path), "a file that can be written", error.strerror or str(error)) from error


def read_only(path: str) -> sqlite3.Connection:
    """Open a file that no manager has open, with its write-ahead log if it has one, without changing either."""
    log = f"{path}-wal"
    how = "mode=ro" if os.path.exists(log) and os.path.getsize(log) else "immutable=1"  # else SQLite makes an empty log
    return connect(path, how)


# A connection that can write would merge the log into the database when it is closed, and so end what a damaged log still holds.
def _check_end(path: str) -> None:
    """Raise InputError where a confirmed step is not in the journal."""
    try:
        mark = chain.read_mark(path)
    except InputError as error:
        raise DamageError(error.file, error.expected, error.got or "") from error
    with closing(read_only(path)) as connection:
        meta = dict(connection.execute("SELECT key, value FROM meta"))
        if not _belongs(mark, meta):
            raise DamageError(path, "the meta data that the database was made with", "changed ones")
        if chain.first_link(meta) != mark.first:
            return  # all that it marks is in what the journal began anew with
        (last,) = connection.execute("SELECT coalesce(max(step), 0) FROM journal").fetchone()
        if last < mark.step:
            text = f"a journal that ends with step {last}: {mark.step - last} confirmed steps are missing"
            raise DamageError(path, f"a journal with step {mark.step}", text)
        link = connection.execute("SELECT link FROM journal WHERE step = ?", (mark.step,)).fetchone()
        if mark.step and (link is None or link[0] != mark.link):
            raise DamageError(path, f"the step {mark.step} that was confirmed", "another step")


def _belongs(mark: chain.Mark, meta: Mapping[str, str]) -> bool:
    with suppress(ValueError):
        return chain.is_of(mark, meta)
    return False


def _has(path: str, begin: chain.Reached) -> bool:
    """Tell whether a database has this step with all its changes."""
    with closing(read_only(path)) as connection:
        if chain.first_link(dict(connection.execute("SELECT key, value FROM meta"))) != begin.first:
            return False
        if connection.execute("SELECT step, changes FROM progress").fetchone() < (begin.step, begin.changes):
            return False
        link = connection.execute("SELECT link FROM journal WHERE step = ?", (begin.step,)).fetchone()
        return bool(link == (begin.link,))


def _version(path: str, header: bytes) -> int:
    """Return the version of the schema, from the file's first bytes: SQLite may repair, and so change, a file that it opens."""
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise InputError(path, _OURS, "a file that is not a database" if header else "an empty file")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise InputError(path, _OURS, "a database of another program")
    version = int.from_bytes(header[60:64], "big")
    if version > VERSION:
        raise InputError(path, f"a database of version {VERSION} or older", f"version {version}, of a newer program")
    if version < 1:
        raise InputError(path, _OURS, "one without a version")
    return version


def _open_connection(path: str, version: int = VERSION, *, whole: bool = True) -> sqlite3.Connection:
    """Open a database; ``whole``: all of it is read, to see whether it is damaged."""
    with opening(connect(path)) as connection:
        if whole:
            _check_pages(connection, path)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(f"PRAGMA journal_size_limit={LARGEST_LOG_BYTES}")
        migrate(connection, version)
        _check_journal(connection, path, whole=whole)
        return connection


def _check_pages(connection: sqlite3.Connection, path: str) -> None:
    for (text,) in connection.execute("PRAGMA quick_check(1)"):
        if text != "ok":
            raise DamageError(path, "a whole database", f"a damaged one ({' '.join(text.split())})")


def _check_journal(connection: sqlite3.Connection, path: str, *, whole: bool) -> None:
    counted = "count(*)" if whole else "0"
    base = chain.base_of(dict(connection.execute("SELECT key, value FROM meta"))).step
    step, last, count = connection.execute(
        f"SELECT (SELECT step FROM progress), coalesce(max(step), {base}), {counted} FROM journal"
    ).fetchone()
    if step is None or step > last or (whole and last != base + count):  # tables that are made anew lag behind
        text = f"{count} steps after {base}, the last of them number {last}, and progress at {step}"
        raise DamageError(path, "a journal without gaps", text)


def connect(path: str, how: str = "mode=rw") -> sqlite3.Connection:
    """Return a connection to a file that exists, with SQLite's words for how; transactions begin where they are told to."""
    uri = f"file:{quote(os.fsencode(os.path.abspath(path)))}?{how}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_MS / 1000)


@contextmanager
def opening(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Close a new connection if its first use fails."""
    try:
        yield connection
    except BaseException:
        connection.close()
        raise


def _fill(
    connection: sqlite3.Connection,
    meta: Mapping[str, str],
    steps: Sequence[chain.Row] = (),
    past: Mapping[str, Sequence[Sequence[Any]]] = MappingProxyType({}),
) -> chain.Mark:
    """Make the tables, with meta data, a journal and rows from before it; return the mark of its last step."""
    migrate(connection, 0)
    first = link = chain.first_link(meta)
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("INSERT INTO meta VALUES (?, ?)", sorted({**meta, MADE_BY: str(VERSION)}.items()))
    for row in steps:
        link = chain.next_link(link, row)
        connection.execute("INSERT INTO journal VALUES (?,?,?,?,?)", (*row, link))
    for table, rows in past.items():
        for values in rows:
            connection.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(values))})", values)
    connection.execute("COMMIT")
    return chain.Mark(steps[-1][0] if steps else 0, link, first)


@contextmanager
def _sqlite_errors(path: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) in _NO_ROOM:
            raise AccountingError(f"expected a database that can be written, got {error}", path) from error
        raise DamageError(path, "a whole database", f"one that SQLite cannot use ({error})") from error


def _remove(path: str) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            os.unlink(path + ending)


def sync_folder(folder: str | Path) -> None:
    """Make the folder's new entry survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
