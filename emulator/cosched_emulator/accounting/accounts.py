"""The manager's accounts in one SQLite database: a journal of the manager's inputs, and tables of the results for people.

The journal restores a manager that was killed: its steps are replayed. The other tables hold the facts (`Change`) that result from
the steps. Each fact is stored exactly once, however often the manager was killed: facts are written in order, with their steps, in
transactions, and a replay writes only the facts that are missing. A step must therefore produce the same facts at every replay.
Only faults may also be recorded between steps; they are recorded once.

Buffered data is lost when the process dies. Flushed data survives the process. Data appended durably survives a power failure.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from cosched_emulator.accounting import file
from cosched_emulator.accounting.archive import Archive, remove
from cosched_emulator.accounting.chain import BASE, Base, Mark, Reached, base_of, first_link, next_link
from cosched_emulator.accounting.database_schema import ASKED_COLUMN, CHAINED, VERSION, asked_of, job_columns
from cosched_emulator.accounting.fact_rows import faults_like, write_change
from cosched_emulator.accounting.rebuild import compare_tables, drop_present, past_digest, tables_beside
from cosched_emulator.errors import AccountingError, InvariantError
from cosched_emulator.manager.record import Change, FaultHappened, JobEntered, JobFinished
from cosched_plugin.protocol.messages import JobSpec

MOST_BUFFERED: Final = 100_000  # steps and changes buffered while the disk is full
_PAGE_LIMIT: Final = 0xFFFFFFFE  # SQLite's own
_CHUNK: Final = 500  # rows read, and ids asked for, at a time
# Temporary errors: a full disk, a lock held by another process. Every other error means a damaged database.
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
_NOT_TOLD: Final = ("true_demand", "true_usage", "true_self_slowdown", "job", "entered_step", "finished_step")
_IF_ANY: Final = ("cpu_us", "dispatched_us", "slot", "energy_j")  # told where jobs share time, or watts are known
_FLAGS: Final = ("exclusive", "unpaired")
_JSON: Final = ("after", "demand", "usage", "self_slowdown")


class Step(NamedTuple):
    """One input of the manager; its driver defines ``kind`` and ``body``."""

    kind: str
    at_us: int
    body: bytes


class Accounting:
    """A manager's accounts. Not thread-safe."""

    def __init__(self, database: file.Database, path: str | None, *, begin: Reached | None = None) -> None:
        """`create` and `open` call this; ``path`` None: in memory, without a journal. ``begin``: where a replay begins."""
        self.path = path
        self.trouble = ""  # why the last `flush` failed; empty: it succeeded
        self._database = database
        self._connection = database.connection
        meta = dict(self._connection.execute("SELECT key, value FROM meta ORDER BY key"))
        self._comparable = meta.pop(file.MADE_BY, "") in {str(version) for version in range(CHAINED, VERSION + 1)}
        self._base = base_of(meta)
        self.meta: Mapping[str, str] = meta
        # The journal's last step, and how many of its changes are on disk; faults do not count.
        self._last: int
        self._written: int
        self._written_of, self._written = self._connection.execute("SELECT step, changes FROM progress").fetchone()
        self._first = self._link = first_link(self.meta)
        last = self._connection.execute("SELECT step, link FROM journal ORDER BY step DESC LIMIT 1").fetchone()
        # The link is that of the last step on disk.
        self._last, self._link = last or (max(self._written_of, self._base.step), self._first)
        self.step = self._base.step if begin is None else begin.step  # last one appended or replayed
        self.begins = begin  # where a replay begins; None: before the first step
        self._changes = 0 if begin is None else begin.changes  # of that step, so far
        self._replaying = self._last > self.step
        self._replayed: sqlite3.Connection | None = None  # tables of what a replay records
        self._faults: Counter[FaultHappened] = Counter()  # of the last step, while it is replayed
        # (step, its changes so far, what is to be written)
        self._buffer: list[tuple[int, int, Step | Change]] = []
        self._in_copy: list[tuple[int, int, Step | Change]] = []  # written to the copy of an older file alone
        self._filled = False
        self.closed = False

    @classmethod
    def create(cls, path: str | None, meta: Mapping[str, str]) -> Accounting:
        """Return new accounts with ``meta`` in them, in a new file that only its owner may read; InputError if it exists."""
        database = file.database_in_memory(meta) if path is None else file.create_database(path, meta)
        return cls(database, path)

    @classmethod
    def open(cls, path: str, begin: Callable[[str], Reached | None] | None = None) -> Accounting:
        """Return the accounts in a file; InputError if it is not a complete database of this program, or another process has it open.

        Call `replay` before anything else, and `bring_up_to_date` once what it has shown is good: until then a file of an older version
        stays as it is. The replay begins after the step that ``begin`` names, which is called with the path once no other process has
        the file, if the file has that step with all its changes; what lies before is then not looked at.
        """
        database = file.open_database(path, begin)
        return cls(database, path, begin=database.begins)

    @property
    def backlog(self) -> int:
        """Return the number of steps and changes that are not written yet."""
        return len(self._buffer)

    @property
    def unplayed(self) -> int:
        """Return the number of steps of the journal that have not been replayed."""
        return self._last - self.step

    def bring_up_to_date(self) -> None:
        """Bring a file of an older version up to date, after a replay; a further step does so, too. InputError if that cannot be."""
        if not self._database.older:
            return
        if self.unplayed:
            raise InvariantError(f"{self.unplayed} steps of the journal have not been replayed")
        self._database = file.bring_up_to_date(self.path or "", self._database)
        self._connection = self._database.connection
        self._buffer[:0] = self._in_copy
        self._in_copy.clear()

    def reached(self) -> Reached | None:
        """Return the last step; None where it, or a change of it, waits to be written."""
        return None if self._buffer else Reached(self.step, self._changes, self._link, self._first)

    def claim(self, key: str, value: str) -> None:
        """Add an entry to the meta data that is known only during the run. AccountingError if it cannot be written."""
        self.bring_up_to_date()
        try:
            self._connection.execute("INSERT INTO meta VALUES (?, ?)", (key, value))
        except sqlite3.Error as error:
            raise AccountingError(str(error), self.path or "") from error
        self.meta = {**self.meta, key: value}

    # ------------------------------------------------------------ writing

    # Write-ahead: a user's command is appended durably before it has any effect, so a crash cannot undo what the user was told.
    # Other steps (time, answers) may be buffered: a restart that lacks the last of them is a manager that was killed a moment
    # earlier. A durable step takes all buffered ones along: the journal has no gaps.
    def append(self, step: Step, *, durable: bool = False) -> None:
        """Add a step to the journal.

        With ``durable`` the step and all earlier ones survive a power failure once this returns; AccountingError if that is impossible,
        and the step is then not in the journal. Otherwise the step is buffered; AccountingError if the buffer is full.
        """
        if self.step < self._last:
            raise InvariantError(
                f"{self.unplayed} steps of the journal have not been replayed, and a further step is added"
            )
        self.bring_up_to_date()
        if self.path is not None:
            number = self.step + 1
            if durable:
                if not self._write((number, 0, step)):
                    raise AccountingError(self.trouble, self.path)
            else:
                self._make_room()
                self._buffer.append((number, 0, step))
        self._last = self.step = self.step + 1
        self._changes = 0

    # Must be called after each step, appended or replayed, with all of its changes in order: steps are deterministic, so after a
    # restart the number of changes on disk tells which of a replayed step's changes are missing.
    def record(self, changes: Iterable[Change]) -> None:
        """Record the changes that result from the last step, appended or replayed; changes already on disk are left out.

        Some faults are not repeated by a replay. AccountingError if the buffer is full.
        """
        if self._replayed is not None:
            changes = list(changes)
            for change in changes:
                if not isinstance(change, FaultHappened):
                    write_change(self._replayed, self.step, change)
        if self.step < self._written_of:
            return
        for change in changes:
            if isinstance(change, FaultHappened):
                if self._replaying:
                    self._faults[change] += 1
                    if self._faults[change] <= faults_like(self._connection, self.step, change):
                        continue
            else:
                self._changes += 1
                if self.step == self._written_of and self._changes <= self._written:
                    continue
            self._make_room()
            self._buffer.append((self.step, self._changes, change))

    # False is no error: a full disk or a foreign lock passes, and the buffer waits. Only what does not pass, such as a damaged
    # file, raises. Who promises something to a user must not rely on this, but append durably.
    def flush(self) -> bool:
        """Write the buffer in one transaction.

        Return False if the disk is full or another process holds a lock: the buffer is kept for the next call, and ``trouble`` gives
        the reason. Raises AccountingError for a permanent error.
        """
        if self._buffer:
            return self._write()
        self.trouble = ""
        return True

    def replay(self, *, compare: bool = False) -> Iterator[Step]:
        """Yield the journal's steps in order; each is the last step until the next one is requested.

        DamageError at a step that is not as it was written; with ``compare`` also after the last one, if its changes and those of all
        steps before, as they have been recorded again, are not what the tables hold.
        """
        begins = self.begins
        if compare and self._comparable and begins is None:
            self._replayed = tables_beside(self._connection, self._base)
        try:
            yield from self._replay(self._first if begins is None else begins.link)
            if self._replayed is not None and self.flush():
                compare_tables(self._connection, self._replayed, self.path or "", self._base)
        finally:
            if self._replayed is not None:
                self._replayed.close()
            self._replayed = None
        self._replaying = False
        self._faults.clear()

    def _replay(self, link: bytes) -> Iterator[Step]:
        while self.step < self._last:
            query = "SELECT step, kind, at_us, body, link FROM journal WHERE step > ? ORDER BY step LIMIT ?"
            for *row, written in list(self._select(query, (self.step, _CHUNK))):  # no name: one chunk at a time
                link = next_link(link, tuple(row))
                if link != written:
                    raise file.DamageError(
                        self.path or "", f"step {row[0]} of the journal as it was written", "a changed one"
                    )
                self.step = row[0]
                self._changes = 0
                yield Step(*row[1:])

    # The mark follows, and belongs to both journals (`chain.is_of`).
    # Over 50 lines: all in one transaction, so a process that is killed leaves the old journal or the new one.
    def compact_journal(
        self, meta: Mapping[str, str], step: Step, changes: Sequence[Change], archive: Archive | None = None
    ) -> int:
        """Let ``step``, with all that is alive, and its ``changes`` take the place of the journal; rows of what has ended stay.

        With ``archive`` the rows of jobs go there that ended long ago; return their number. InputError if that cannot be.

        ``meta`` takes the place of meta data, but the run keeps its name. The step is a microsecond later than the last one, and the
        changes begin with the rows of the jobs that are alive. AccountingError, with nothing changed, if that cannot be written.
        """
        if self.unplayed or not self.flush():
            raise AccountingError(
                self.trouble or f"{self.unplayed} steps of the journal have not been replayed", self.path or ""
            )
        connection, at_us, number = self._connection, step.at_us - 1, self.step + 1
        archived = 0 if archive is None else archive.copy(connection, self.meta["run"], at_us)
        try:
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("BEGIN IMMEDIATE")
            if archive is not None:
                remove(connection)
            base = Base(self.step, self._link, self._first, at_us, past_digest(connection, at_us))
            kept = {**meta, "run": self.meta["run"], BASE: base.as_text()}
            first = first_link(kept)
            link = next_link(first, (number, *step))
            drop_present(connection, at_us)
            connection.execute("DELETE FROM journal")
            connection.execute("INSERT INTO journal VALUES (?,?,?,?,?)", (number, *step, link))
            for change in changes:
                write_change(connection, number, change)
            connection.execute("DELETE FROM meta")
            connection.executemany("INSERT INTO meta VALUES (?, ?)", {**kept, file.MADE_BY: str(VERSION)}.items())
            connection.execute("UPDATE progress SET step = ?, changes = ?", (number, len(changes)))
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._undo()
            text = f"expected room for a new journal beside the old one, which is unchanged, got {error}"
            raise AccountingError(text, self.path or "") from error
        except BaseException:
            self._undo()
            raise
        finally:
            connection.execute("PRAGMA synchronous=NORMAL")
        self.meta, self._base, self._first, self._link = kept, base, first, link
        self._last = self.step = self._written_of = number
        self._changes = self._written = len(changes)
        self.begins = None
        if self._database.mark is not None:
            with suppress(OSError):
                self._database.mark.write(Mark(number, link, first))
        with suppress(sqlite3.Error):  # the file is larger than it must be
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return archived

    def rows_alive(self) -> list[dict[str, Any]]:
        """Return the rows of the jobs that have not ended, by column."""
        self.flush()
        cursor = self._connection.execute("SELECT * FROM jobs WHERE end_us IS NULL ORDER BY id")
        names = [name for name, *_ in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    def fill(self, for_disk_full: bool) -> None:
        """Make SQLite behave as on a full disk, or undo that."""
        self._filled = for_disk_full
        self._connection.execute(f"PRAGMA max_page_count={1 if for_disk_full else _PAGE_LIMIT}")

    def leave(self) -> str:
        """Let the database be that of the process from which this one was forked alone; return its path."""
        assert self.path is not None
        if self._database.lock is not None:
            os.close(self._database.lock)
        return self.path

    def close(self) -> None:
        """Write the buffer and close the database; may be called twice. AccountingError if data had to be dropped."""
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

    # One transaction: steps and changes reach the disk together with the count of changes (`progress`), or none of them does.
    def _write(self, durable: tuple[int, int, Step] | None = None) -> bool:
        """Write the buffer, then a step that must reach the disk now; return False, with nothing changed, if that fails."""
        connection = self._connection
        items = self._buffer if durable is None else [*self._buffer, durable]
        try:
            if durable is not None:
                connection.execute("PRAGMA synchronous=FULL")
            connection.execute("BEGIN IMMEDIATE")
            link = self._link
            for step, _, item in items:
                if isinstance(item, Step):
                    link = next_link(link, (step, *item))
                    connection.execute("INSERT INTO journal VALUES (?,?,?,?,?)", (step, *item, link))
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
        if self._database.older:
            self._in_copy += self._buffer
        self._buffer.clear()
        self._link = link
        self.trouble = ""
        if durable is not None and self._database.mark is not None:
            with suppress(OSError):  # an older mark says less, and nothing wrong
                self._database.mark.write(Mark(durable[0], link, self._first))
        return True

    def _undo(self) -> None:
        if self._connection.in_transaction:  # SQLite undoes some failures by itself
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    def _take_last_page(self) -> None:
        """Fail as on a full disk, also for data that would fit into half-empty pages."""
        (free,) = self._connection.execute("PRAGMA freelist_count").fetchone()
        (size,) = self._connection.execute("PRAGMA page_size").fetchone()
        self._connection.execute("INSERT INTO meta VALUES ('', zeroblob(?))", ((free + 2) * size,))

    # ------------------------------------------------------------ questions

    def select(self, query: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a SELECT from the tables, after writing the buffer if possible."""
        self.flush()
        yield from self._select(query, values)

    # Ten thousand rows are 15 MB: who reads them makes something of each.
    def history(self, user: str, most: int) -> Iterator[dict[str, Any]]:
        """Yield at most ``most`` jobs that have ended, the latest first; only those of ``user`` if it is not empty."""
        self.flush()
        where, values = ("AND user = ?", [user]) if user else ("", [])
        yield from self._rows(
            f"WHERE end_us IS NOT NULL {where} ORDER BY end_us DESC, id DESC LIMIT ?", [*values, most]
        )

    def jobs(self, ids: Sequence[int]) -> Iterator[dict[str, Any]]:
        """Yield the rows of these jobs, in the given order; unknown jobs are left out."""
        self.flush()
        for first in range(0, len(ids), _CHUNK):
            some = ids[first : first + _CHUNK]
            rows = self._rows(f"WHERE id IN ({','.join('?' * len(some))})", some, whole=True)
            found = {row["id"]: row for row in rows}
            yield from [found[job_id] for job_id in some if job_id in found]

    def tasks(self, array_id: int) -> list[int]:
        """Return the jobs of an array that existed at the last step, in order of their index."""
        self.flush()
        found = {
            item.job.spec.id: item.origin.array_index or 0
            for _, _, item in self._buffer
            if isinstance(item, JobEntered) and item.origin.array_id == array_id
        }
        found |= dict(
            self._select(
                "SELECT id, array_index FROM jobs WHERE array_id = ? AND entered_step <= ?", (array_id, self.step)
            )
        )
        return sorted(found, key=lambda job_id: (found[job_id], job_id))

    def ended_state(self, job_id: int) -> str | None:
        """Return the end state of a job; None if it had not ended by the last step, or does not exist."""
        self.flush()
        for _, _, item in self._buffer:
            if isinstance(item, JobFinished) and item.record.job.spec.id == job_id and item.record.end_us is not None:
                return item.record.state
        rows = self._select(
            "SELECT state FROM jobs WHERE id = ? AND end_us IS NOT NULL AND finished_step <= ?", (job_id, self.step)
        )
        return next((str(state) for (state,) in rows), None)

    def _select(self, query: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._connection.execute(query, values)
        except sqlite3.Error as error:
            raise AccountingError(f"the database cannot be read: {error}", self.path or "") from error

    def _rows(self, where: str, values: Sequence[Any], *, whole: bool = False) -> Iterator[dict[str, Any]]:
        """Yield jobs by column; the ``whole`` job has attributes that are no columns."""
        columns = [name for name in job_columns() if name not in _NOT_TOLD or (whole and name == "job")]
        for asked, *values_of_row in self._select(
            f"SELECT {', '.join((ASKED_COLUMN, *columns))} FROM jobs {where}", values
        ):
            row = dict(zip(columns, values_of_row, strict=True)) | asked_of(asked)
            for key in _FLAGS:
                row[key] = bool(row[key])
            for key in _JSON:
                row[key] = None if row[key] is None else json.loads(row[key])
            for key in _IF_ANY:
                value = row.pop(key)
                if value is not None:
                    row[key] = value
            if whole:
                spec = json.loads(row.pop("job"))["spec"]
                row |= {
                    name: spec.get(name, usual) for name, usual in JobSpec._field_defaults.items() if name not in row
                }
            yield row
