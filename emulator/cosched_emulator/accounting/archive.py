"""Accounts of jobs that ended long ago, in a file of their own: the same tables and views, for people; no manager opens it.

What the manager still needs stays: the last number of each table, and the tasks of arrays and the predecessors of which a job is alive.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from typing import Final, NamedTuple

from cosched_emulator.accounting.database_schema import ARCHIVE_ID, VERSION, migrate
from cosched_emulator.accounting.file import check_beside, connect, sync_folder
from cosched_emulator.errors import InputError
from cosched_terminal.own_file import open_own

_BESIDE: Final = (b"-wal", b"-shm", b"-journal", b"-mark", b"-state", b"-lease")  # the database's own files
_LEAVING: Final = """
INSERT INTO leaving SELECT id FROM jobs WHERE end_us <= ?
AND coalesce(array_id NOT IN (SELECT array_id FROM jobs WHERE end_us IS NULL AND array_id IS NOT NULL), 1)
AND id NOT IN (SELECT json_extract(value, '$[1]') FROM jobs AS alive, json_each(alive.after) WHERE alive.end_us IS NULL)
"""
_JOBS: Final = "IN (SELECT id FROM leaving)"
_ROWS: Final = {
    "allocations": f"job_id {_JOBS}",
    "preemptions": f"job_id {_JOBS}",
    "changes": f"what = 'job' AND id {_JOBS} AND number < (SELECT max(number) FROM changes)",
    "jobs": f"id {_JOBS}",
}


class Archive(NamedTuple):
    """Where accounts go, and of which jobs."""

    path: str
    keep_us: int  # jobs that ended in this span before the present stay

    def copy(self, accounts: sqlite3.Connection, run: str, now_us: int) -> int:
        """Copy the rows of jobs that are to leave the ``accounts`` of a ``run``; return their number. `remove` then takes them away.

        InputError if the file cannot be written, or is something else. Rows that are there already, from a process that was killed
        before it removed them, are replaced by the same.
        """
        ((database,),) = accounts.execute("SELECT CAST(file AS BLOB) FROM pragma_database_list WHERE name = 'main'")
        if os.fsencode(os.path.realpath(self.path)) in [database + ending for ending in _BESIDE]:
            raise InputError(self.path, "a file of its own for --archive", "one that belongs to --db")
        accounts.execute("CREATE TEMP TABLE IF NOT EXISTS leaving (id INTEGER PRIMARY KEY)")
        accounts.execute("DELETE FROM leaving")
        jobs = accounts.execute(_LEAVING, (now_us - self.keep_us,)).rowcount
        try:
            os.close(open_own(self.path, os.O_RDWR | os.O_CREAT))
            check_beside(self.path)
            with closing(connect(self.path)) as archive:
                self._prepare(archive, run)
                archive.execute("BEGIN IMMEDIATE")
                for table, which in _ROWS.items():
                    for row in accounts.execute(f"SELECT * FROM {table} WHERE {which}"):
                        archive.execute(f"INSERT OR REPLACE INTO {table} VALUES ({','.join('?' * len(row))})", row)
                archive.execute("COMMIT")
            sync_folder(os.path.dirname(os.path.abspath(self.path)))
        except OSError as error:
            raise InputError(self.path, "a file that can be written", error.strerror or str(error)) from error
        except sqlite3.Error as error:
            raise InputError(self.path, "an archive that can be written", str(error)) from error
        return jobs

    def _prepare(self, archive: sqlite3.Connection, run: str) -> None:
        """Bring the tables of the file up to date; InputError if it is no archive of this run."""
        ((kind,),) = archive.execute("PRAGMA application_id")
        ((version,),) = archive.execute("PRAGMA user_version")
        ((tables,),) = archive.execute("SELECT count(*) FROM sqlite_schema")
        if tables and (kind != ARCHIVE_ID or version > VERSION):
            text = f"one of version {version}" if kind == ARCHIVE_ID else "another database"
            raise InputError(self.path, f"an archive of version {VERSION} or older, or no file", text)
        if tables and archive.execute("SELECT value FROM meta WHERE key = 'run'").fetchone() not in (None, (run,)):
            raise InputError(self.path, "the archive of this database", "the archive of another one")
        migrate(archive, version)
        archive.execute(f"PRAGMA application_id={ARCHIVE_ID}")
        archive.execute("INSERT OR IGNORE INTO meta VALUES ('run', ?)", (run,))


def is_archive(connection: sqlite3.Connection) -> bool:
    """Tell whether a file is an archive; False if it cannot be read."""
    with suppress(sqlite3.Error):
        return bool(connection.execute("PRAGMA application_id").fetchone() == (ARCHIVE_ID,))
    return False


def remove(accounts: sqlite3.Connection) -> None:
    """Remove the rows that were copied, in the transaction that is open."""
    for table, which in _ROWS.items():
        accounts.execute(f"DELETE FROM {table} WHERE {which}")
