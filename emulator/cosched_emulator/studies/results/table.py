"""The table of a study: a row for each cell that is done, in order of declaration, as CSV and in SQLite.

Columns: number of the cell, a value of each axis, the figures, the figures of harm; and where the row comes from: key, version,
policy with all of its settings and resolved scenario, both as JSON. Wall times stand in a file of their own.
"""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any

from cosched_emulator.studies.folder import FORMAT, StoredCell, StudyFolder
from cosched_emulator.studies.plan.experiment import COLUMNS, ORIGIN, PLACES

RESULTS, TIMINGS, DATABASE = "results.csv", "timings.csv", "results.sqlite"
Row = dict[str, Any]
Stored = Mapping[
    str, Mapping[str, Any]
]  # key of a run that is done -> what it has given, as `StudyFolder.load` returns it


def rows_of(cells: Iterable[StoredCell], stored: Stored, harm: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """Return the rows of the cells that are done, all with the same columns; ``harm`` has figures by key."""
    rows: list[Row] = []
    for cell in cells:
        run = stored.get(cell.key)
        if run is None:
            continue
        origin = (cell.key, run["version"], _json(cell.settings), _json(cell.scenario))
        rows.append(
            {**cell.places, **run["figures"], **harm.get(cell.key, {}), **dict(zip(ORIGIN, origin, strict=True))}
        )
    figures = dict.fromkeys(name for row in rows for name in row if name not in PLACES and name not in ORIGIN)
    names = (*PLACES, *figures, *ORIGIN)
    return [{name: row.get(name) for name in names} for row in rows]


def write_table(folder: StudyFolder, rows: Sequence[Row], others: Mapping[str, Sequence[Row]]) -> None:
    """Write the table, wall times, and ``others``: more tables by name. Raises InputError where they cannot be written."""
    folder.write(RESULTS, csv_text(rows).encode())
    for name, table in others.items():
        folder.write(f"{name}.csv", csv_text(table).encode())
    folder.write(DATABASE, _database({"results": rows, **others}))


def write_timings(folder: StudyFolder, cells: Iterable[StoredCell], stored: Stored) -> None:
    """Write the wall times of all runs that are done, in seconds; raises InputError."""
    rows: list[Row] = [
        {"cell": cell.number, "key": cell.key, **{name: stored[cell.key][name] for name in ("wall_s", "total_s")}}
        for cell in cells
        if cell.key in stored
    ]
    folder.write(TIMINGS, csv_text(rows).encode())


def csv_text(rows: Sequence[Row]) -> str:
    """Return rows as CSV with a heading; None is an empty field, lists and tables are JSON."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    if rows:
        writer.writerow(rows[0])
        writer.writerows([[_plain(value) for value in row.values()] for row in rows])
    return stream.getvalue()


def place_value(column: str, value: Any) -> Any:
    """Return what a column of the table holds as a number, if it is a seed or a load; None if that axis is not declared."""
    if column == COLUMNS["seeds"]:
        return int(value) if value else None
    if column == COLUMNS["loads"]:
        return float(value) if value else None
    return value


def _database(tables: Mapping[str, Sequence[Row]]) -> bytes:
    """Return the tables as an SQLite database: the same rows give the same bytes."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(f"PRAGMA user_version = {FORMAT}")  # without any content a database has no bytes
        for name, texts in tables.items():
            rows = [{column: place_value(column, value) for column, value in row.items()} for row in texts]
            if rows:
                columns = ", ".join(f"{_quoted(column)} {_kind(rows, column)}".rstrip() for column in rows[0])
                database.execute(f"CREATE TABLE {_quoted(name)} ({columns})")
                places = ", ".join("?" * len(rows[0]))
                database.executemany(
                    f"INSERT INTO {_quoted(name)} VALUES ({places})",
                    [[_plain(value) for value in row.values()] for row in rows],
                )
        database.commit()
        return database.serialize()


def _kind(rows: Sequence[Row], column: str) -> str:
    kinds = {type(row[column]) for row in rows if row[column] is not None}
    if kinds <= {int, bool}:
        return "INTEGER"
    return "REAL" if kinds <= {int, float} else "TEXT"


def _plain(value: object) -> object:
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, int | float | str | None) else _json(value)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
