"""The tables of a database made again from its journal: beside it, to compare them, or in its place, from the part that is whole."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from hashlib import blake2b
from itertools import count, zip_longest
from typing import Any, Final, NamedTuple

from cosched_emulator.accounting import chain
from cosched_emulator.accounting.archive import is_archive
from cosched_emulator.accounting.database_schema import CHAINED, VERSION, migrate
from cosched_emulator.accounting.fact_rows import LATER, job_from_json
from cosched_emulator.accounting.file import DamageError, lock_database, make_database, opening, read_only, sync_folder
from cosched_emulator.errors import InputError, InvariantError

# What follows from the journal alone, by key. (Faults are also recorded between steps.)
_TABLES: Final = {
    "jobs": "id",
    "allocations": "job_id, stay, run",
    "preemptions": "job_id, preemption",
    "quanta": "id",
    "changes": "number",
}
# Where the journal began anew: the rows from before. What comes after it is later, as it begins a microsecond after the last step.
_PAST: Final = {
    **dict.fromkeys(_TABLES, "coalesce(end_us <= ?, 0)"),
    # of a job that ended on disk
    "preemptions": "coalesce(coalesce(end_us, (SELECT end_us FROM jobs WHERE id = job_id)) <= ?, 0)",
    "changes": "at_us <= ?",
}
# Of these, what rows of jobs that are alive are numbered after.
_NUMBERED: Final = {
    **dict.fromkeys(
        ("allocations", "preemptions"), "job_id IN (SELECT id FROM jobs WHERE NOT coalesce(end_us <= ?, 0))"
    ),
    "quanta": "id = (SELECT max(id) FROM quanta WHERE end_us <= ?)",
    "changes": "number = (SELECT max(number) FROM changes WHERE at_us <= ?)",
}


def past_rows(connection: sqlite3.Connection, table: str, at_us: int) -> Iterator[Sequence[Any]]:
    """Yield the rows of a table up to a time, in the order of its key."""
    query = f"SELECT * FROM {table} WHERE {_PAST[table]} ORDER BY {_TABLES[table]}"
    yield from connection.execute(query, (at_us,))


def past_digest(connection: sqlite3.Connection, at_us: int) -> bytes:
    """Return a digest of the rows up to a time."""
    return _digest_of({table: past_rows(connection, table, at_us) for table in _TABLES})


def _digest_of(past: Mapping[str, Iterable[Sequence[Any]]]) -> bytes:
    digest = blake2b(digest_size=chain.DIGEST_BYTES)
    for table, rows in past.items():
        digest.update(f"{table}\n".encode())
        for row in rows:
            digest.update(f"{tuple(row)!r}\n".encode())
    return digest.digest()


def drop_present(connection: sqlite3.Connection, at_us: int) -> None:
    """Remove the rows of jobs that are alive, which the journal says when it begins anew; InvariantError if there are other ones."""
    for table, past in _PAST.items():
        if table == "jobs":
            connection.execute(f"DELETE FROM jobs WHERE NOT {past}", (at_us,))
        elif connection.execute(f"SELECT 1 FROM {table} WHERE NOT {past} LIMIT 1", (at_us,)).fetchone():
            raise InvariantError(f"the table {table} has rows after {at_us} us")


def tables_beside(present: sqlite3.Connection, base: chain.Base) -> sqlite3.Connection:
    """Return tables in memory, or in a file that disappears, as they are before the first step.

    They are empty, but for rows from before a ``base`` after which those of jobs that are alive are numbered.
    """
    with opening(sqlite3.connect("", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=OFF")
        migrate(connection, 0)
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"
        ).fetchall():
            connection.execute(f"DROP INDEX {name}")
        connection.execute("BEGIN")
        for table, numbered in _NUMBERED.items() if base.step else ():
            query = f"SELECT * FROM {table} WHERE {_PAST[table]} AND {numbered}"
            for row in present.execute(query, (base.at_us, base.at_us)):
                connection.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row)
        return connection


def compare_tables(connection: sqlite3.Connection, again: sqlite3.Connection, path: str, base: chain.Base) -> None:
    """Raise DamageError where tables differ from those that were made again, or, before a ``base``, from what they were then."""
    if base.step:
        try:
            past = past_digest(connection, base.at_us)
        except sqlite3.Error as error:
            raise DamageError(path, "tables that can be read", str(error)) from error
        if past != base.past:
            raise DamageError(path, AS_THEY_WERE, "changed ones")
    for table, key in _TABLES.items():
        query = f"SELECT * FROM {table} WHERE NOT {_PAST[table]} ORDER BY {key}"
        try:
            for row, expected in zip_longest(*(each.execute(query, (base.at_us,)) for each in (connection, again))):
                if row != expected and not (
                    table == "jobs" and row and expected and _same_job(connection, row, expected)
                ):
                    which = (row or expected)[0]
                    text = f"a different row {which}" if row and expected else f"{'one' if row else 'no'} row {which}"
                    raise DamageError(path, f"table {table} as this program replays it from the journal", text)
        except sqlite3.Error as error:
            raise DamageError(path, f"a table {table} that can be read", str(error)) from error


def _same_job(connection: sqlite3.Connection, row: Sequence[Any], expected: Sequence[Any]) -> bool:
    """Tell whether two rows differ only in how a job is written: versions differ in the order of its fields, and in which it has."""
    names = [name for name, *_ in connection.execute("SELECT * FROM jobs LIMIT 0").description]
    place = names.index("job")
    if [*row[:place], *row[place + 1 :]] != [*expected[:place], *expected[place + 1 :]]:
        return False
    try:
        was, job = job_from_json(row[place]), job_from_json(expected[place])
        return was in (job, job._replace(**LATER))  # earlier versions did not keep these
    except (LookupError, TypeError, ValueError):
        return False


AS_THEY_WERE: Final = "unchanged rows from before the first step of the journal"

# ---------------------------------------------------------------- what is whole


class Found(NamedTuple):
    """What is left of a database."""

    whole: bool  # all that is confirmed is there, and nothing is damaged
    steps: int  # of the journal, up to the first that is missing or damaged
    confirmed: int | None  # the last confirmed step; None: the mark is lost
    troubles: tuple[str, ...]


def examine(path: str) -> Found:
    """Return what is left of a database that no manager has open; it stays as it is."""
    lock = lock_database(path, shared=True)
    try:
        with closing(read_only(path)) as connection:
            if is_archive(connection):
                raise InputError(path, "the database of a manager", "an archive")
            _refuse_unchained(path, connection)
            return _examine(path, connection)
    finally:
        os.close(lock)


def _examine(path: str, connection: sqlite3.Connection) -> Found:
    troubles: list[str] = []
    confirmed, mark = None, None
    try:
        mark = chain.read_mark(path, shared=True)
        confirmed = mark.step
    except InputError as error:
        troubles.append(str(error))
    with suppress(sqlite3.Error):
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version and not CHAINED <= version <= VERSION:
            return Found(False, 0, confirmed, (f"its version is {version}; this program has version {VERSION}",))
    try:
        told = connection.execute("PRAGMA integrity_check(3)").fetchall()
        troubles += [" ".join(text.split()) for (text,) in told if text != "ok"]
    except sqlite3.Error as error:
        troubles.append(f"SQLite: {error}")
    meta = _meta(connection)
    if meta is None or (mark is not None and not chain.is_of(mark, meta)):
        troubles.append("the meta data has changed since the database was made")
    whole = _whole(connection, meta, mark)
    base = chain.base_of(meta or {})
    steps = whole[-1].row[0] if whole else base.step
    rows = 0
    with suppress(sqlite3.Error):
        rows = connection.execute("SELECT coalesce(max(step), 0) FROM journal").fetchone()[0]
        if base.step and past_digest(connection, base.at_us) != base.past:
            troubles.append(f"expected {AS_THEY_WERE}, got changed ones")
    if steps < rows:
        troubles.append(f"step {steps + 1} of the journal is damaged or missing, of {rows}")
    if confirmed is not None and steps < confirmed:
        troubles.append(f"steps {steps + 1} to {confirmed} were confirmed, and are lost")
    return Found(not troubles, steps, confirmed, tuple(troubles))


def _meta(connection: sqlite3.Connection) -> dict[str, str] | None:
    """Return the meta data; None if it cannot be read."""
    try:
        meta = dict(connection.execute("SELECT key, value FROM meta"))
        chain.base_of(meta)
    except (sqlite3.Error, ValueError):
        return None
    return meta


def _whole(
    connection: sqlite3.Connection, meta: Mapping[str, str] | None, mark: chain.Mark | None
) -> list[chain.Linked]:
    """Return the steps up to the first one that does not fit what the database was made with; the mark knows that, too."""
    if meta is not None and (mark is None or chain.is_of(mark, meta)):
        return list(chain.whole_part(_journal(connection), chain.first_link(meta), chain.base_of(meta).step))
    steps = list(_journal(connection))
    first = chain.first_link(meta or {}) if mark is None else mark.first
    return list(chain.whole_part(steps, first, steps[0].row[0] - 1)) if steps else []


def _journal(connection: sqlite3.Connection) -> Iterator[chain.Linked]:
    """Yield the steps up to the first that cannot be read."""
    with suppress(sqlite3.Error, ValueError):  # a text that is none
        for *row, link in connection.execute("SELECT step, kind, at_us, body, link FROM journal ORDER BY step"):
            yield chain.Linked(tuple[Any, ...](row), link)


def salvage(path: str, meta: Mapping[str, str]) -> str:
    """Put a database of the whole part of its journal in the place of a damaged one; return in words what was found.

    Its tables are empty, and filled when the journal is replayed. ``meta`` is what a new database would be made with.
    """
    lock = lock_database(path)
    try:
        with closing(read_only(path)) as connection:
            _refuse_unchained(path, connection)
            found = _examine(path, connection)
            kept = _meta(connection)
            mark = None
            with suppress(InputError):
                mark = chain.read_mark(path)
            whole = _whole(connection, kept, mark)
            if kept is None or not (whole if mark is None else chain.is_of(mark, kept)):
                kept = {**meta}
            kept.pop(chain.BASE, None)
            past: dict[str, list[Sequence[Any]]] = {}
            if whole and whole[0].row[0] > 1:  # the journal began anew
                step, _, at_us, _ = whole[0].row
                past = {table: _readable(past_rows(connection, table, at_us - 1)) for table in _TABLES}
                kept[chain.BASE] = chain.Base(step - 1, at_us=at_us - 1, past=_digest_of(past)).as_text()
            aside = next(name for number in count(1) if not os.path.lexists(name := f"{path}.damaged-{number}"))
            for ending in ("-wal", "-mark", ""):
                with suppress(FileNotFoundError):
                    os.link(path + ending, aside + ending)
            make_database(path, kept, [linked.row for linked in whole], past)
        sync_folder(os.path.dirname(os.path.abspath(path)))
        what = "; ".join(found.troubles) or "the journal is whole; the tables were rebuilt"
        return f"{found.steps} steps of {path} are kept; the old file is {aside}: {what}"
    finally:
        os.close(lock)


def _refuse_unchained(path: str, connection: sqlite3.Connection) -> None:
    """Refuse a database whose version had no chain: which of its steps are whole is not known, so none would count."""
    with suppress(sqlite3.Error):
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if 0 < version < CHAINED:
            got = f"version {version}"
            hint = "serve without --accept-loss brings it up to date"
            raise InputError(
                path, f"a database of version {CHAINED} or later, whose steps have digests", got, hint=hint
            )


def _readable(rows: Iterator[Sequence[Any]]) -> list[Sequence[Any]]:
    """Return the rows up to the first that cannot be read."""
    found: list[Sequence[Any]] = []
    with suppress(sqlite3.Error, ValueError):
        for row in rows:
            found.append(row)  # noqa: PERF402 - what came before an error is kept
    return found
