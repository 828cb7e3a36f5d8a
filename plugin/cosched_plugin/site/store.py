"""The store of an adapter: its books and its orders in SQLite. What `save` has returned from survives a kill of the process.

One writer. Rows are written only where something has changed since the last `save`; each call is one transaction. Jobs, notes and
actions have the form that they have on the wire.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from cosched_plugin.common.errors import UsageError
from cosched_plugin.protocol.codec import pack, unpack
from cosched_plugin.protocol.errors import Fault, RemoteProtocolError
from cosched_plugin.protocol.limits import MAX_FRAME_BYTES
from cosched_plugin.protocol.messages import Action, Note, Welcome, starts_of
from cosched_plugin.protocol.values import integer_reader
from cosched_plugin.protocol.vocabulary import ACTIONS_BY_KIND, ACTIONS_BY_TAG, MESSAGES_BY_KIND, read_tagged
from cosched_terminal.own_file import SQLITE_FILES, check_own, open_own

VERSION: Final = 1
_OF_JOBS: Final = ("running", "pending", "notes")
_KINDS: Final = ("state", "orders", *_OF_JOBS)  # of rows
BUSY_S: Final = 5.0
_COUNT: Final = integer_reader(0)
TODO, HANDING, SENT = range(3)  # states of an order: not begun; being carried out, maybe; accepted, and not seen yet
_STATE: Final = integer_reader(TODO, SENT)
_SCHEMA: Final = """
CREATE TABLE number (name TEXT PRIMARY KEY, id INTEGER UNIQUE NOT NULL) WITHOUT ROWID;
CREATE TABLE kept (kind TEXT NOT NULL, key TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (kind, key)) WITHOUT ROWID;
"""
_FIELDS: Final = {field.name: field for field in MESSAGES_BY_KIND[Welcome].fields}


class Order(NamedTuple):
    """An action of the scheduler that the manager is to carry out, or whose effect has not been seen yet."""

    seq: int  # of the reply
    number: int  # in the reply, from 0
    action: Action
    since_us: int  # when it was decided
    state: int = TODO


class Saved(NamedTuple):
    """What a store holds; `welcome` has what a scheduler must know, without the machine, which the adapter knows."""

    welcome: Welcome
    restarts: Mapping[int, int]  # by job: how often it had been requeued when it was last seen
    orders: tuple[Order, ...]


class Store:
    """The file of one adapter; UsageError for a file that is none."""

    def __init__(self, path: str) -> None:
        self._path = path
        with self._errors():
            os.close(open_own(path, os.O_RDWR | os.O_CREAT))
            check_own(*[path + ending for ending in SQLITE_FILES])
            self._connection = sqlite3.connect(path, isolation_level=None, timeout=BUSY_S)
            try:
                self._begin()
            except BaseException:
                self._connection.close()
                raise
        self._rows: dict[str, dict[str, object]] = {kind: {} for kind in _KINDS}  # what the file holds

    def _begin(self) -> None:
        """Make the tables of a new file; what is no store is found before anything is written."""
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        (tables,) = self._connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if version != VERSION and (version or tables):
            raise UsageError(
                f"{self._path}: expected a store of version {VERSION}, got {version or 'another database'}"
            )
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=NORMAL")
        if not version:
            self._connection.executescript(f"BEGIN IMMEDIATE;{_SCHEMA}PRAGMA user_version={VERSION};COMMIT;")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def number(self, name: str) -> int:
        """Return the number that the protocol calls a job or node by, of a manager that has names; the same one ever after."""
        with self._errors():
            found = self._connection.execute("SELECT id FROM number WHERE name = ?", (name,)).fetchone()
            if found is None:
                self._connection.execute("INSERT INTO number SELECT ?, coalesce(max(id), 0) + 1 FROM number", (name,))
                return self.number(name)
        return int(found[0])

    def load(self, machine: Welcome) -> Saved | None:
        """Return what was saved last, with the nodes and beliefs of ``machine``; None where nothing was."""
        with self._errors():
            rows = self._connection.execute("SELECT kind, key, body FROM kept").fetchall()
        for kind, key, _ in rows:
            self._rows.setdefault(kind, {})[key] = None  # the next `save` writes all of them
        if not rows:
            return None
        try:
            return _read(rows, machine)
        except (Fault, RemoteProtocolError, KeyError, TypeError, ValueError) as error:
            raise UsageError(f"{self._path}: not written by an adapter of this version: {error}") from error

    def save(
        self,
        welcome: Welcome,
        restarts: Mapping[int, int],
        orders: Sequence[Order],
        only: Collection[int | None] | None = None,
    ) -> None:
        """Replace what is saved, in one transaction; or ``only`` what is of some jobs (None: notes of none), state and orders."""
        these = None if only is None else set(map(str, only))
        rows: dict[str, dict[str, object]] = {kind: {} for kind in self._rows}
        for kind, key, row in _rows_of(welcome, restarts, orders):
            rows[kind][key] = row
        changed, gone = [], []
        for kind, found in rows.items():
            before = self._rows[kind]
            changed += [(kind, key, _body(kind, row)) for key, row in found.items() if before.get(key) != row]
            keys: Iterable[str] = before
            if these is not None and kind in _OF_JOBS:
                keys = [key for key in before if key.partition(" ")[0] in these] if kind == "notes" else these
            gone += [(kind, key) for key in keys if key in before and key not in found]
        if not changed and not gone:
            return
        with self._errors():
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany("DELETE FROM kept WHERE kind = ? AND key = ?", gone)
            self._connection.executemany("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", changed)
            self._connection.execute("COMMIT")
        for kind, key in gone:
            del self._rows[kind][key]
        for kind, key, _ in changed:
            self._rows[kind][key] = rows[kind][key]

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Say what is wrong with the file."""
        try:
            yield
        except sqlite3.Error as error:
            raise UsageError(f"{self._path}: cannot be used as a store: {error}") from error
        except OSError as error:
            got = error.strerror or error
            raise UsageError(
                f"{error.filename or self._path}: expected a store that this user alone can write, got {got}"
            ) from error


def _rows_of(
    welcome: Welcome, restarts: Mapping[int, int], orders: Sequence[Order]
) -> Iterator[tuple[str, str, object]]:
    """Yield what is saved, by kind and key."""
    yield "state", "", (welcome.seq, welcome.now_us, welcome.down, welcome.wakes)
    for kind, items in (("running", welcome.running), ("pending", welcome.pending)):
        for item in items:
            yield kind, str(item.spec.id), (item, restarts.get(item.spec.id, 0))
    for note in welcome.notes:
        # bytes, because values that are equal may differ: True and 1
        yield "notes", f"{note.job_id} {note.key}", pack({"item": _write_field("notes", (note,))[0]})
    for order in orders:
        yield "orders", f"{order.seq} {order.number}", order


def _body(kind: str, row: Any) -> bytes:
    """Return a row as it is in the file."""
    if isinstance(row, bytes):
        return row
    if kind == "state":
        return pack(dict(zip(("seq", "now_us", "down", "wakes"), row, strict=True)))
    if kind == "orders":
        action = ACTIONS_BY_KIND[type(row.action)].write(row.action)
        return pack(row._replace(action=None)._asdict() | {"action": action})
    item, restarts = row
    return pack({"item": _write_field(kind, (item,))[0], "restarts": restarts})


def _read(rows: Sequence[tuple[str, str, bytes]], machine: Welcome) -> Saved:
    """Return what the rows of a file say; Fault, KeyError, TypeError or ValueError where it cannot be."""
    found: dict[str, list[Any]] = {"running": [], "pending": [], "notes": [], "orders": []}
    restarts: dict[int, int] = {}
    state: dict[str, Any] = {}
    for kind, _, body in rows:
        raw = unpack(body, MAX_FRAME_BYTES)
        if kind == "state":
            state = {name: _read_field(name, raw[name]) for name in ("seq", "now_us", "down", "wakes")}
        elif kind == "orders":
            action: Action = read_tagged(ACTIONS_BY_TAG, raw["action"], None)
            seq, number, since_us = (_COUNT(raw[name]) for name in ("seq", "number", "since_us"))
            found[kind].append(Order(seq, number, action, since_us, _STATE(raw["state"])))
        else:
            (item,) = _read_field(kind, (raw["item"],))
            found[kind].append(item)
            if kind != "notes" and _COUNT(raw["restarts"]):
                restarts[item.spec.id] = raw["restarts"]
    _check(found, state["down"], sum(item.nodes for item in machine.nodes))
    welcome = machine._replace(
        **state,
        running=tuple(sorted(found["running"], key=lambda item: item.spec.id)),
        pending=tuple(sorted(found["pending"], key=lambda item: (item.spec.submit_us, item.spec.id))),
        notes=_renewed(found["notes"], machine.notes),
    )
    return Saved(welcome, restarts, tuple(sorted(found["orders"], key=lambda order: order[:2])))


def _renewed(saved: Sequence[Note], told: Sequence[Note]) -> tuple[Note, ...]:
    """Return saved notes with those that the site's files tell anew in their places."""
    keys = {(note.job_id, note.key) for note in told}
    return (*[note for note in saved if (note.job_id, note.key) not in keys], *told)


def _check(found: Mapping[str, Sequence[Any]], down: Sequence[int], nodes: int) -> None:
    """Raise ValueError for a node that is not there, and for a job that is there twice, or not at all."""
    jobs = Counter(item.spec.id for kind in ("running", "pending") for item in found[kind])
    # What is still to do is checked as it is done.
    starts = [start for order in found["orders"] if order.state != TODO for start in starts_of(order.action)]
    ends = [run.first + run[1] for item in (*found["running"], *starts) for run in item.runs]
    if max([0, *ends, *[node + 1 for node in down]]) > nodes:
        raise ValueError(f"nodes beyond the {nodes} of the machine")
    for job_id in (*jobs, *[start.job_id for start in starts]):
        if jobs[job_id] != 1:
            raise ValueError(f"job {job_id} is there {jobs[job_id]} times")


def _write_field(name: str, value: Any) -> Any:
    """Return the value of a welcome's field as it is on the wire."""
    write = _FIELDS[name].write
    assert write is not None
    return write(value)


def _read_field(name: str, raw: Any) -> Any:
    read = _FIELDS[name].read
    assert read is not None
    return read(raw)
