"""The accounting's database: its tables, and the steps that bring an older version of them up to date.

``application_id`` identifies the file; ``user_version`` is the version of its schema, the number of migration steps applied.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, Final

from cosched_emulator.accounting.chain import first_link, next_link

APPLICATION_ID: Final = 0x636F7363  # "cosc"
ARCHIVE_ID: Final = 0x636F7361  # "cosa": of accounts that no manager opens

# Number n makes version n+1 of version n
STEPS: Final = tuple(
    re.split(
        r"^-- -+ version \d+$", Path(__file__).with_name("schema.sql").read_text(encoding="utf-8"), flags=re.MULTILINE
    )[1:]
)
VERSION: Final = len(STEPS)
CHAINED: Final = 5  # the first version with a chain and a mark; its tables are those of the present one


@cache
def job_columns() -> tuple[str, ...]:
    """Return the columns of the table of jobs."""
    with closing(sqlite3.connect(":memory:")) as connection:
        migrate(connection, 0)
        return tuple([name for (name,) in connection.execute("SELECT name FROM pragma_table_info('jobs')")])


def _links(connection: sqlite3.Connection) -> Callable[[int, str, int, bytes], bytes]:
    """Return what gives each step of a journal, in order, its link."""
    link = first_link(dict(connection.execute("SELECT key, value FROM meta")))

    def follow(step: int, kind: str, at_us: int, body: bytes) -> bytes:
        nonlocal link
        link = next_link(link, (step, kind, at_us, body))
        return link

    return follow


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Bring the tables from ``version`` (0: none) to the present one, atomically; sqlite3.Error if that fails."""
    if version < VERSION:
        connection.create_function("next_link", 4, _links(connection) if version else lambda *_: b"")
        script = "".join(STEPS[version:])
        connection.executescript(
            f"BEGIN IMMEDIATE;{script}PRAGMA application_id={APPLICATION_ID};PRAGMA user_version={VERSION};COMMIT;"
        )


# What a job's user says of it that has no columns, from the JSON of the whole job: of its terms, those of `TERMS_TOLD` in their places.
_ASKED: Final[dict[str, tuple[str, type]]] = {
    "partitions": ("$.terms[0]", list),  # written out, as commands that read accounts load no workloads
    "qos": ("$.terms[1]", str),
    "account": ("$.terms[2]", str),
    "resources": ("$.spec.resources", list),
    "licences": ("$.spec.licences", list),
}
ASKED_COLUMN: Final = f"json_extract(job, {', '.join([repr(path) for path, _ in _ASKED.values()])})"


def asked_of(text: str) -> dict[str, Any]:
    """Return what `ASKED_COLUMN` says, by name."""
    values = zip(_ASKED.items(), json.loads(text), strict=True)
    return {name: usual() if value is None else value for (name, (_, usual)), value in values}
