"""Jobs that have ended, read from a manager's database, unchanged, whether the manager runs or not."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from cosched_emulator.accounting.database_schema import APPLICATION_ID, ARCHIVE_ID, ASKED_COLUMN, VERSION, asked_of
from cosched_emulator.errors import InputError
from cosched_emulator.users.requests import ended_job

_COLUMNS: Final = (
    "id", "array_id", "array_index", "name", "user", "state", "reason", "processes", "nodes", "starts", "requeues", "preemptions",
    "submit_us", "start_us", "end_us", "estimate_us", "limit_us",
)  # fmt: skip
_BUSY_S: Final = 5.0  # how long to wait for a writer


def read_history(file: str, user: str, most: int) -> list[dict[str, Any]]:
    """Return the latest ``most`` jobs that have ended, the latest first; InputError for a file that is not such a database."""
    path = Path(file)
    if not path.is_file():
        raise InputError(file, "a manager's database", "no such file")
    query = f"SELECT {', '.join((ASKED_COLUMN, *_COLUMNS))} FROM jobs WHERE end_us IS NOT NULL"
    values: list[object] = []
    if user:
        query += " AND user = ?"
        values.append(user)
    query += " ORDER BY end_us DESC, id DESC LIMIT ?"
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=_BUSY_S)) as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if application not in (APPLICATION_ID, ARCHIVE_ID):
                raise InputError(file, "a manager's database", "another one")
            if not 1 <= version <= VERSION:  # every version has had these columns
                raise InputError(file, f"a database of version {VERSION} or older", f"version {version}")
            rows = connection.execute(query, [*values, most]).fetchall()
    except sqlite3.Error as error:
        raise InputError(file, f"a manager's database that can be read ({error})") from None
    return [ended_job(dict(zip(_COLUMNS, row, strict=True)) | asked_of(asked)) for asked, *row in rows]
