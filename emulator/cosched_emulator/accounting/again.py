"""The tables of a database made again from its journal: beside it, to compare them, or in its place, from the part that is whole."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from itertools import count, zip_longest
from typing import Any, Final, NamedTuple

from cosched_emulator.accounting.chain import Linked, first_link, read_mark, whole_part
from cosched_emulator.accounting.database_schema import VERSION, migrate
from cosched_emulator.accounting.file import DamageError, lock_database, make_database, read_only, sync_folder
from cosched_emulator.errors import InputError

# What follows from the journal alone. (Faults are also recorded between steps.)
_TABLES: Final = {
    "jobs": "id",
    "allocations": "job_id, stay, run",
    "preemptions": "job_id, preemption",
    "quanta": "id",
    "changes": "number",
}


def tables_beside() -> sqlite3.Connection:
    """Return empty tables, in memory or in a file that disappears."""
    connection = sqlite3.connect("", isolation_level=None)
    connection.execute("PRAGMA journal_mode=OFF")
    migrate(connection, 0)
    for (name,) in connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"
    ).fetchall():
        connection.execute(f"DROP INDEX {name}")
    connection.execute("BEGIN")
    return connection


def compare_tables(connection: sqlite3.Connection, again: sqlite3.Connection, path: str) -> None:
    """Raise DamageError where tables differ from those that were made again."""
    for table, key in _TABLES.items():
        query = f"SELECT * FROM {table} ORDER BY {key}"
        try:
            for row, expected in zip_longest(connection.execute(query), again.execute(query)):
                if row != expected:
                    which = (row or expected)[0]
                    text = f"another row {which}" if row and expected else f"{'one' if row else 'no'} row {which}"
                    raise DamageError(path, f"what the journal says in the table {table} (by this program)", text)
        except sqlite3.Error as error:
            raise DamageError(path, f"a table {table} that can be read", str(error)) from error


# ---------------------------------------------------------------- what is whole


class Found(NamedTuple):
    """What is left of a database."""

    whole: bool  # all that is confirmed is there, and nothing is damaged
    steps: int  # of the journal, up to the first that is missing or damaged
    confirmed: int | None  # the last confirmed step; None: the mark is lost
    troubles: tuple[str, ...]


def examine(path: str) -> Found:
    """Return what is left of a database that no manager has open; it stays as it is."""
    lock = lock_database(path)
    try:
        with closing(read_only(path)) as connection:
            return _examine(path, connection)
    finally:
        os.close(lock)


def _examine(path: str, connection: sqlite3.Connection) -> Found:
    troubles: list[str] = []
    confirmed, first = None, None
    try:
        mark = read_mark(path)
        confirmed, first = mark.step, mark.first
    except InputError as error:
        troubles.append(str(error))
    with suppress(sqlite3.Error):
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version not in (0, VERSION):
            return Found(False, 0, confirmed, (f"its version is {version}, and this program's {VERSION}",))
    try:
        told = connection.execute("PRAGMA integrity_check(3)").fetchall()
        troubles += [" ".join(text.split()) for (text,) in told if text != "ok"]
    except sqlite3.Error as error:
        troubles.append(f"SQLite: {error}")
    meta = _meta(connection)
    if meta is None or (first is not None and first_link(meta) != first):
        troubles.append("the meta data is not what the database was made with")
    steps = len(list(_whole(connection, first or first_link(meta or {}))))
    rows = 0
    with suppress(sqlite3.Error):
        rows = connection.execute("SELECT coalesce(max(step), 0) FROM journal").fetchone()[0]
    if steps < rows:
        troubles.append(f"step {steps + 1} of the journal is damaged or missing, of {rows}")
    if confirmed is not None and steps < confirmed:
        troubles.append(f"steps {steps + 1} to {confirmed} were confirmed, and are lost")
    return Found(not troubles, steps, confirmed, tuple(troubles))


def _meta(connection: sqlite3.Connection) -> dict[str, str] | None:
    try:
        return dict(connection.execute("SELECT key, value FROM meta"))
    except (sqlite3.Error, ValueError):
        return None


def _whole(connection: sqlite3.Connection, first: bytes) -> Iterator[Linked]:
    return iter(whole_part(_journal(connection), first))


def _journal(connection: sqlite3.Connection) -> Iterator[Linked]:
    """Yield the steps up to the first that cannot be read."""
    with suppress(sqlite3.Error, ValueError):  # a text that is none
        for *row, link in connection.execute("SELECT step, kind, at_us, body, link FROM journal ORDER BY step"):
            yield Linked(tuple[Any, ...](row), link)


def salvage(path: str, meta: Mapping[str, str]) -> str:
    """Put a database of the whole part of its journal in the place of a damaged one; return in words what was found.

    Its tables are empty, and filled when the journal is replayed. ``meta`` is what a new database would be made with.
    """
    lock = lock_database(path)
    try:
        with closing(read_only(path)) as connection:
            found = _examine(path, connection)
            kept = _meta(connection)
            try:
                first = read_mark(path).first
            except InputError:
                first = first_link(kept or {})
            if kept is None or first_link(kept) != first:
                kept = {**meta}
            aside = next(name for number in count(1) if not os.path.lexists(name := f"{path}.damaged-{number}"))
            for ending in ("-wal", "-mark", ""):
                with suppress(FileNotFoundError):
                    os.link(path + ending, aside + ending)
            make_database(path, kept, [linked.row for linked in _whole(connection, first)])
        sync_folder(os.path.dirname(os.path.abspath(path)))
        what = "; ".join(found.troubles) or "nothing is damaged but, perhaps, the tables"
        return f"{found.steps} steps of {path} are kept, the file as it was is {aside}: {what}"
    finally:
        os.close(lock)
