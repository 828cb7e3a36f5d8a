"""The manager's accounts: a journal of all that went into it, and tables for people of what came of that, in one SQLite database.

The journal makes a manager that was killed come back: its steps are played again. The other tables hold the facts (`Change`) that the
steps brought about, each exactly once, however often the manager was killed: they are written in order, with their steps, in
transactions, and while a journal is played again only those facts are written that are not there yet. So a step has to bring about
the same facts whenever it is played; faults alone may also be noticed in between, once in a life.

What is buffered is lost with the process; what was flushed outlives it, and what was appended durably outlives the machine.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from cosched_emulator.accounting.file import Database, create_database, database_in_memory, open_database
from cosched_emulator.accounting.rows import faults_like, write_change
from cosched_emulator.errors import AccountingError, InvariantError
from cosched_emulator.manager.changes import Change, FaultHappened, JobEntered, JobFinished

MOST_BUFFERED: Final = 100_000  # steps and changes that wait for a disk with room
_PAGE_LIMIT: Final = 0xFFFFFFFE  # SQLite's own
_CHUNK: Final = 500  # rows read, and ids asked for, at a time
# What passes: the disk gets room again, whoever holds the lock lets it go. Anything else is a database that is damaged.
_PASSING: Final = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_NOMEM,
    }
)
_COLUMNS: Final = (
    "id", "user", "owner", "name", "array_id", "array_index", "after", "state", "reason", "submit_us", "start_us", "end_us",
    "processes", "ppn_min", "ppn_max", "threads_per_process", "memory_mb", "exclusive", "estimate_us", "limit_us", "demand",
    "usage", "self_slowdown", "run_us", "source_id", "starts", "requeues", "preemptions", "nodes", "work_us", "expected_us",
    "granted_us", "suspended_us",
)  # fmt: skip
_JSON: Final = ("after", "demand", "usage", "self_slowdown")
_SELECT: Final = f"SELECT {', '.join(_COLUMNS)} FROM jobs"


class Step(NamedTuple):
    """One input of the manager; ``kind`` and ``body`` are its driver's business."""

    kind: str
    at_us: int
    body: bytes


class Accounting:
    """A manager's accounts. Not for several threads."""

    def __init__(self, database: Database, path: str | None) -> None:
        """Made by `create` or `open`; ``path`` None: in memory, and no journal is kept."""
        self.path = path
        self.trouble = ""  # why the last `flush` has failed; empty: it has not
        self._database = database
        self._connection = database.connection
        self.meta: Mapping[str, str] = dict(self._connection.execute("SELECT key, value FROM meta ORDER BY key"))
        # The journal's last step, and how many of its changes are on disk; faults do not count.
        self._last: int
        self._written: int
        self._last, self._written = self._connection.execute("SELECT step, changes FROM progress").fetchone()
        self._written_of = self._last
        self._step = 0  # last one appended or replayed
        self._changes = 0  # of that step, so far
        self._replaying = self._last > 0
        self._faults: Counter[FaultHappened] = Counter()  # of the last step, while it is replayed
        # (step, its changes so far, what is to be written)
        self._buffer: list[tuple[int, int, Step | Change]] = []
        self._filled = False
        self.closed = False

    @classmethod
    def create(cls, path: str | None, meta: Mapping[str, str]) -> Accounting:
        """Return new accounts with ``meta`` in them, in a new file that nobody else may read; InputError if there is one."""
        database = database_in_memory(meta) if path is None else create_database(path, meta)
        return cls(database, path)

    @classmethod
    def open(cls, path: str) -> Accounting:
        """Return the accounts in a file; InputError where it is not a whole database of ours, or another process has it open.

        `replay` comes first, then the rest.
        """
        return cls(open_database(path), path)

    @property
    def backlog(self) -> int:
        """Return how many steps and changes wait to be written."""
        return len(self._buffer)

    @property
    def unplayed(self) -> int:
        """Return how many steps of the journal have not been replayed."""
        return self._last - self._step

    def claim(self, key: str, value: str) -> None:
        """Add to the meta data what only the run itself could tell. AccountingError where that cannot be written."""
        try:
            self._connection.execute("INSERT INTO meta VALUES (?, ?)", (key, value))
        except sqlite3.Error as error:
            raise AccountingError(str(error), self.path or "") from error
        self.meta = {**self.meta, key: value}

    # ------------------------------------------------------------ writing

    def append(self, step: Step, *, durable: bool = False) -> None:
        """Add a step to the journal.

        With ``durable`` it survives a power cut once this returns, and so does all before it; AccountingError where that cannot be, and
        then the step has not been taken. Otherwise it is buffered; AccountingError when too much is.
        """
        if self._step < self._last:
            raise InvariantError(
                f"{self.unplayed} steps of the journal have not been played again, and another one comes"
            )
        if self.path is not None:
            number = self._step + 1
            if durable:
                if not self._write((number, 0, step)):
                    raise AccountingError(self.trouble, self.path)
            else:
                self._make_room()
                self._buffer.append((number, 0, step))
        self._last = self._step = self._step + 1
        self._changes = 0

    def record(self, changes: Iterable[Change]) -> None:
        """Take note of what the last step, appended or replayed, brought about; what is on disk already is left out.

        Faults may also be such as nothing replayed will bring about again. AccountingError when too much waits to be written.
        """
        if self._step < self._last:
            return
        for change in changes:
            if isinstance(change, FaultHappened):
                if self._replaying:
                    self._faults[change] += 1
                    if self._faults[change] <= faults_like(self._connection, self._step, change):
                        continue
            else:
                self._changes += 1
                if self._step == self._written_of and self._changes <= self._written:
                    continue
            self._make_room()
            self._buffer.append((self._step, self._changes, change))

    def flush(self) -> bool:
        """Write all that is buffered in one transaction.

        False where the disk is full or somebody holds a lock: all is kept then, for the next time; ``trouble`` tells why. Raises
        AccountingError where no next time will help.
        """
        if self._buffer:
            return self._write()
        self.trouble = ""
        return True

    def replay(self) -> Iterator[Step]:
        """Yield the journal's steps in order; each of them counts as the last one until the next is asked for."""
        while self._step < self._last:
            rows = list(
                self._select(
                    "SELECT step, kind, at_us, body FROM journal WHERE step > ? ORDER BY step LIMIT ?",
                    (self._step, _CHUNK),
                )
            )
            for number, kind, at_us, body in rows:
                self._step = number
                self._changes = 0
                yield Step(kind, at_us, body)
        self._replaying = False
        self._faults.clear()

    def fill(self, for_disk_full: bool) -> None:
        """Have SQLite find no room for anything any more, as on a full disk; and undo that."""
        self._filled = for_disk_full
        self._connection.execute(f"PRAGMA max_page_count={1 if for_disk_full else _PAGE_LIMIT}")

    def close(self) -> None:
        """Write what is buffered and close the database; may be called twice. AccountingError where something had to be dropped."""
        if self.closed:
            return
        self.closed = True
        try:
            if not self.flush():
                raise AccountingError(f"{self.backlog} steps and changes are lost: {self.trouble}", self.path or "")
        finally:
            self._buffer.clear()
            self._database.close()

    def _make_room(self) -> None:
        if len(self._buffer) >= MOST_BUFFERED and not self.flush():
            raise AccountingError(
                f"{len(self._buffer)} steps and changes wait to be written: {self.trouble}", self.path or ""
            )

    def _write(self, durable: tuple[int, int, Step] | None = None) -> bool:
        """Write the buffer, and after it a step that has to reach the disk now; False, and nothing has changed, if that cannot be."""
        connection = self._connection
        items = self._buffer if durable is None else [*self._buffer, durable]
        try:
            if durable is not None:
                connection.execute("PRAGMA synchronous=FULL")
            connection.execute("BEGIN IMMEDIATE")
            for step, _, item in items:
                if isinstance(item, Step):
                    connection.execute("INSERT INTO journal VALUES (?,?,?,?)", (step, *item))
                else:
                    write_change(connection, step, item)
            if self.path is not None:
                connection.execute("UPDATE progress SET step = ?, changes = ?", items[-1][:2])
            if self._filled:
                self._take_last_page()
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._undo()
            self.trouble = str(error)
            if error.sqlite_errorcode & 0xFF not in _PASSING:
                raise AccountingError(f"the database is damaged: {error}", self.path or "") from error
            return False
        except BaseException:
            self._undo()
            raise
        finally:
            if durable is not None:
                connection.execute("PRAGMA synchronous=NORMAL")
        self._buffer.clear()
        self.trouble = ""
        return True

    def _undo(self) -> None:
        if self._connection.in_transaction:  # SQLite undoes some failures by itself
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    def _take_last_page(self) -> None:
        """Fail for want of room: a full disk takes not even what would fit into pages that are half empty."""
        (free,) = self._connection.execute("PRAGMA freelist_count").fetchone()
        (size,) = self._connection.execute("PRAGMA page_size").fetchone()
        self._connection.execute("INSERT INTO meta VALUES ('', zeroblob(?))", ((free + 2) * size,))

    # ------------------------------------------------------------ questions

    def select(self, query: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a SELECT from the tables, after all that is buffered was written, if it can be."""
        self.flush()
        yield from self._select(query, values)

    def history(self, user: str, most: int) -> list[dict[str, Any]]:
        """Return the jobs that have ended, those of ``user`` alone where it is not empty, the latest first, at most so many."""
        self.flush()
        where, values = ("AND user = ?", [user]) if user else ("", [])
        return self._rows(
            f"{_SELECT} WHERE end_us IS NOT NULL {where} ORDER BY end_us DESC, id DESC LIMIT ?", [*values, most]
        )

    def jobs(self, ids: Sequence[int]) -> list[dict[str, Any]]:
        """Return what is known of these jobs, in their order; those that are not known are left out."""
        self.flush()
        found: dict[int, dict[str, Any]] = {}
        for first in range(0, len(ids), _CHUNK):
            some = ids[first : first + _CHUNK]
            rows = self._rows(f"{_SELECT} WHERE id IN ({','.join('?' * len(some))})", some)
            found |= {row["id"]: row for row in rows}
        return [found[job_id] for job_id in ids if job_id in found]

    def tasks(self, array_id: int) -> list[int]:
        """Return the jobs of an array, as far as they were there at the last step, in order of their index."""
        self.flush()
        found = {
            item.job.spec.id: item.origin.array_index or 0
            for _, _, item in self._buffer
            if isinstance(item, JobEntered) and item.origin.array_id == array_id
        }
        found |= dict(
            self._select(
                "SELECT id, array_index FROM jobs WHERE array_id = ? AND entered_step <= ?", (array_id, self._step)
            )
        )
        return sorted(found, key=lambda job_id: (found[job_id], job_id))

    def ended_state(self, job_id: int) -> str | None:
        """Return how a job has ended; None where it had not by the last step, or there was no such job."""
        self.flush()
        for _, _, item in self._buffer:
            if isinstance(item, JobFinished) and item.record.job.spec.id == job_id and item.record.end_us is not None:
                return item.record.state
        rows = self._select(
            "SELECT state FROM jobs WHERE id = ? AND end_us IS NOT NULL AND finished_step <= ?", (job_id, self._step)
        )
        return next((str(state) for (state,) in rows), None)

    def _select(self, query: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._connection.execute(query, values)
        except sqlite3.Error as error:
            raise AccountingError(f"the database cannot be read: {error}", self.path or "") from error

    def _rows(self, query: str, values: Sequence[Any]) -> list[dict[str, Any]]:
        rows = []
        for values_of_row in self._select(query, values):
            row = dict(zip(_COLUMNS, values_of_row, strict=True))
            row["exclusive"] = bool(row["exclusive"])
            for key in _JSON:
                row[key] = None if row[key] is None else json.loads(row[key])
            rows.append(row)
        return rows
