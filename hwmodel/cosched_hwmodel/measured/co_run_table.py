"""A table of measured co-runs, and its two forms in CSV.

*Compact* is an application alone, on all cores of its nodes; all ratios are run times over that one. *Shared*: on half
of the cores of twice the nodes, with the partner on the other half. *Spread*: the same without a partner.

- Long form: columns ``row``, ``column`` and ``ratio`` (or ``speedup``, its inverse), a line for each measured pair.
- Matrix form: the first column names the application, the header the partners; an empty cell was not measured.
- ``never`` in place of a ratio: the two cannot be together, as by their memory, in whatever order. It is a fact, not a gap.

The long form may have a column ``type``, of the nodes on which a pair was measured, such as that of a GPU: a table for each type.
It may say what a learned ratio rests on: ``number`` of runs, ``low`` and ``high`` end of its interval of 95 % (empty: open).
Both forms may have the columns ``procs`` (processes), ``compact_s`` (run time, seconds) and ``spread`` (ratio) of the
application in the row. Lines that begin with ``#`` are comments.
"""

from __future__ import annotations

import csv
import math
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO, TypeAlias

import numpy as np

from cosched_hwmodel.errors import FileError, HardwareModelError, suggestion


class TableError(HardwareModelError, FileError):
    """A table of co-runs without the expected content."""


LEAST_RATIO: Final = 0.01
MOST_RATIO: Final = 1_000.0
PAIR: Final = ("row", "column")
VALUES: Final = ("ratio", "speedup")  # of a pair: one of them
TYPE: Final = "type"  # of the nodes of a pair, optional
NEVER: Final = "never"  # in its place: the pair cannot be together
FACTS: Final = ("procs", "compact_s", "spread")  # of the application in the row, each of them optional
EVIDENCE: Final = ("number", "low", "high")  # of a pair that was learned
# A learned ratio counts where the job takes at most so many times as long as it says, or certainly so many times as long as alone; of a
# pair that was seen so often, the upper end of what is likely counts. No other pair is known: a wrong belief is worse than none.
CERTAIN: Final = 1.25
OFTEN: Final = 30
_MOST_PROCESSES: Final = 1 << 31
_MOST_SECONDS: Final = 1e9
_RATIO: Final = f"a number from {LEAST_RATIO:g} to {MOST_RATIO:g}"


def possible(ratio: float) -> float:
    """Return the ratio within the bounds of a table."""
    return min(max(ratio, LEAST_RATIO), MOST_RATIO)


class Evidence(NamedTuple):
    """What a learned ratio rests on."""

    number: int  # of runs
    low: float = 0.0  # interval of 95 %; 0: open
    high: float = math.inf  # inf: open

    def trusted(self, ratio: float) -> float | None:
        """Return what is believed of a pair with this learned ratio; None where too little is known."""
        if self.number and (self.high <= CERTAIN * ratio or self.low >= CERTAIN):
            return ratio
        return None if self.number < OFTEN else min(max(ratio, self.high), MOST_RATIO)


@dataclass(frozen=True, slots=True)
class CoRunTable:
    """Measured co-runs by application, and facts of the applications, each where it is known."""

    applications: tuple[str, ...]  # in the order of the file: those of the rows, then partners without a row
    ratios: Mapping[tuple[str, str], float]  # of the first application beside the second
    spreads: Mapping[str, float] = field(default_factory=dict)  # alone, over twice the nodes
    processes: Mapping[str, int] = field(default_factory=dict)
    compact_s: Mapping[str, float] = field(default_factory=dict)  # seconds
    evidence: Mapping[tuple[str, str], Evidence] = field(default_factory=dict)  # of ratios that were learned
    # Pairs that cannot be together, as the file names them; they have no ratio
    never: frozenset[tuple[str, str]] = frozenset()
    # By type of nodes, of a file of several: it has no other ratios
    types: Mapping[str, CoRunTable] = field(default_factory=dict)

    @property
    def by_type(self) -> Mapping[str, CoRunTable]:
        """Return the tables by type of nodes; of a file without types the table itself, under an empty text."""
        return self.types or {"": self}

    def apart(self, one: str, other: str) -> bool:
        """Return whether two applications cannot be together."""
        return (one, other) in self.never or (other, one) in self.never

    @property
    def trusted(self) -> Mapping[tuple[str, str], float]:
        """Return the ratios that were measured, and what is believed of those that were learned."""
        certain = {
            pair: self.evidence[pair].trusted(ratio) if pair in self.evidence else ratio
            for pair, ratio in self.ratios.items()
            if not (self.never and self.apart(*pair))
        }
        return {pair: ratio for pair, ratio in certain.items() if ratio is not None}


def read_table(file: str | Path, *, typed: bool = False) -> CoRunTable:
    """Read a table in CSV, in either form. Raises TableError with file, line and field; also for types unless it may be ``typed``."""
    name = str(file)
    try:
        if not stat.S_ISREG(Path(name).stat().st_mode):  # a pipe would be waited for
            raise TableError(name, "a regular file", "another kind of file")
        with open(name, encoding="utf-8-sig", newline="") as stream:
            lines = list(_lines(name, stream))
    except OSError as error:
        raise TableError(name, "a readable table of co-runs", error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise TableError(name, "text in UTF-8", str(error)) from error
    if not lines:
        raise TableError(name, "a header and a line for each measurement", "nothing")
    (line, header), *rows = lines
    _check_header(name, line, header)
    cells = [_Row(name, line, dict(zip(header, values, strict=True))) for line, values in _complete(name, header, rows)]
    long = all(column in header for column in PAIR)
    if TYPE in header and long and not typed:
        raise TableError(name, "one table, without a column 'type'", ", ".join(header), line)
    readings: dict[str, _Reading] = {}
    for row in cells:
        reading = readings.setdefault(_type(row) if long and TYPE in header else "", _Reading(name))
        (_read_pair if long else _read_matrix_row)(reading, row, header)
    tables = {kind: reading.table() for kind, reading in readings.items()}
    if not tables or not all(table.ratios for table in tables.values()):
        raise TableError(name, "at least one measured pair" + " of each type" * bool(readings.keys() - {""}), "none")
    return tables[""] if "" in tables else _joined(tables)


def _joined(tables: Mapping[str, CoRunTable]) -> CoRunTable:
    """Return tables by type as one, with what they tell of applications."""
    names = tuple(dict.fromkeys([name for table in tables.values() for name in table.applications]))
    facts: list[dict[str, float]] = [{}, {}]
    for table in reversed([*tables.values()]):  # the first one that tells a fact counts
        facts[0].update(table.processes)
        facts[1].update(table.compact_s)
    processes = {name: int(value) for name, value in facts[0].items()}
    return CoRunTable(names, {}, {}, processes, facts[1], types=tables)


def _type(row: _Row) -> str:
    if not row.cells[TYPE]:
        raise row.error(TYPE, "the type of the nodes")
    return row.cells[TYPE]


class _Row(NamedTuple):
    """One line of the file: its cells by column."""

    file: str
    line: int
    cells: Mapping[str, str]

    def error(self, column: str, expected: str) -> TableError:
        """Return the error of a cell."""
        text = self.cells[column]
        return TableError(self.file, expected, repr(text) if text else "nothing", self.line, column)

    def number(self, column: str, expected: str, least: float, most: float) -> float:
        """Return the number in a cell; TableError unless it lies between ``least`` and ``most``."""
        try:
            value = float(self.cells[column])
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise self.error(column, expected)
        return value


class _Reading:
    """What was read so far."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.ratios: dict[tuple[str, str], float] = {}
        self.never: set[tuple[str, str]] = set()
        self.facts: dict[str, dict[str, float]] = {name: {} for name in FACTS}
        self.evidence: dict[tuple[str, str], Evidence] = {}
        self._applications: dict[str, None] = {}  # of rows
        self._partners: dict[str, None] = {}
        self._lines: dict[tuple[str, str], int] = {}  # of pairs

    def add_pair(self, row: _Row, application: str, partner: str, column: str, ratio: float | None) -> None:
        """Add a measured pair (None: one that cannot be together); TableError if it is there already."""
        pair = (application, partner)
        if pair in self._lines:
            text = f"each pair once: {application} beside {partner} stands in line {self._lines[pair]}"
            raise row.error(column, text)
        if ratio is None:
            self.never.add(pair)
        else:
            self.ratios[pair] = ratio
        self._lines[pair] = row.line
        self._partners.setdefault(partner)

    def add_facts(self, row: _Row, application: str) -> None:
        """Add what the row tells of its application; TableError if an earlier row tells something else."""
        self._applications.setdefault(application)
        for name in FACTS:
            if not row.cells.get(name):
                continue
            value = _fact(row, name)
            known = self.facts[name].setdefault(application, value)
            if known != value:
                raise row.error(name, f"{known:g} for {application}, as before")

    def has_row(self, application: str) -> bool:
        """Tell whether an earlier row is that of the application."""
        return application in self._applications

    def table(self) -> CoRunTable:
        """Return the whole table."""
        processes = {name: int(value) for name, value in self.facts["procs"].items()}
        applications = tuple(dict.fromkeys([*self._applications, *self._partners]))
        return CoRunTable(
            applications,
            self.ratios,
            self.facts["spread"],
            processes,
            self.facts["compact_s"],
            self.evidence,
            frozenset(self.never),
        )


def _lines(file: str, stream: TextIO) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the cells of each line, without comments and empty lines."""
    reader = csv.reader(stream, strict=True)
    try:
        for cells in reader:
            if cells and not cells[0].lstrip().startswith("#") and any(cell.strip() for cell in cells):
                yield reader.line_num, [cell.strip() for cell in cells]
    except csv.Error as error:
        raise TableError(file, "CSV", str(error), reader.line_num) from error


def _complete(
    file: str, header: Sequence[str], rows: Iterable[tuple[int, list[str]]]
) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows; TableError for one with more or fewer cells than the header."""
    for line, cells in rows:
        if len(cells) != len(header):
            raise TableError(file, f"{len(header)} cells, as in the header", str(len(cells)), line)
        yield line, cells


def _check_header(file: str, line: int, header: Sequence[str]) -> None:
    if len(header) == 1 and any(mark in header[0] for mark in ";\t"):  # as spreadsheets of some countries write
        raise TableError(file, "cells with commas between them", repr(header[0]), line)
    for place, name in enumerate(header):
        if not name and place:
            raise TableError(file, "a name for every column", f"none for column {place + 1}", line)
        if name in header[:place]:
            raise TableError(file, "each column once", f"{name!r} again", line)
    there = [name for name in (*PAIR, *VALUES) if name in header]
    if not there:
        return  # the matrix form
    for name in PAIR:
        if name not in header:
            raise TableError(file, f"a column {name!r} beside {there[0]!r}", ", ".join(header), line)
    if sum(name in header for name in VALUES) != 1:
        raise TableError(file, "one of the columns 'ratio' and 'speedup'", ", ".join(header), line)
    known = (*PAIR, *VALUES, *FACTS, *EVIDENCE, TYPE)
    for name in header:
        if name not in known:
            raise TableError(file, f"a known column ({suggestion(name, known)})", repr(name), line)


def _read_pair(reading: _Reading, row: _Row, header: Sequence[str]) -> None:
    """Read a line of the long form."""
    application, partner = (_name(row, column) for column in PAIR)
    column = next(name for name in VALUES if name in header)
    ratio = _ratio(row, column)
    if ratio is not None and column == "speedup":
        ratio = 1.0 / ratio
    if ratio is not None and ratio < LEAST_RATIO:
        raise row.error(column, f"a speedup of at most {1 / LEAST_RATIO:g}")
    reading.add_pair(row, application, partner, column, ratio)
    reading.add_facts(row, application)
    if any(row.cells.get(name) for name in EVIDENCE):
        reading.evidence[application, partner] = _evidence(row)


def _evidence(row: _Row) -> Evidence:
    number, low, high = (
        row.number(name, "0 or a number above it", 0.0, _MOST_SECONDS) if row.cells.get(name) else default
        for name, default in zip(EVIDENCE, (0.0, 0.0, math.inf), strict=True)
    )
    if low > high:
        raise row.error("high", f"the upper end of an interval from {low:g} on")
    return Evidence(int(number), low, high)


def _read_matrix_row(reading: _Reading, row: _Row, header: Sequence[str]) -> None:
    """Read a line of the matrix form."""
    first, *others = header
    application = _name(row, first)
    if reading.has_row(application):
        raise row.error(first, "each application once")
    reading.add_facts(row, application)
    for partner in others:
        if partner not in FACTS and row.cells[partner]:
            reading.add_pair(row, application, partner, partner, _ratio(row, partner))


def _ratio(row: _Row, column: str) -> float | None:
    """Return the number in a cell of a pair; None: `NEVER`."""
    if row.cells[column].lower() == NEVER:
        return None
    return row.number(column, f"{_RATIO}, or {NEVER}", LEAST_RATIO, MOST_RATIO)


def _name(row: _Row, column: str) -> str:
    if not row.cells[column]:
        raise row.error(column, "the name of an application")
    return row.cells[column]


def _fact(row: _Row, name: str) -> float:
    if name == "spread":
        return row.number(name, _RATIO, LEAST_RATIO, MOST_RATIO)
    if name == "compact_s":
        expected = "a number of seconds from 0.000001 to 1e9"
        return row.number(name, expected, 1e-6, _MOST_SECONDS)
    expected = "a whole number of processes from 1 on"
    value = row.number(name, expected, 1, _MOST_PROCESSES)
    if not value.is_integer():
        raise row.error(name, expected)
    return value


# A table of co-runs as arrays: what a fit works on, and what it predicts.

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bools: TypeAlias = NDArray[np.bool_]
    Floats: TypeAlias = NDArray[np.float64]
    Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ratios:
    """Ratios by row (the application whose run time it is) and column (its partner), in the order of the applications."""

    applications: tuple[str, ...]
    values: Floats  # square; has no meaning where not measured
    measured: Bools

    @classmethod
    def of_table(cls, table: CoRunTable) -> Ratios:
        """Return the table's ratios."""
        place = {name: index for index, name in enumerate(table.applications)}
        values = np.ones((len(place), len(place)))
        measured = np.zeros(values.shape, dtype=np.bool_)
        for (row, column), ratio in table.ratios.items():
            values[place[row], place[column]] = ratio
            measured[place[row], place[column]] = True
        return cls(table.applications, values, measured)

    @property
    def programs(self) -> Ints:
        """Return a number for the program of each application: the name up to the first dot, such as ``bt`` of ``bt.D.256``."""
        names = [name.partition(".")[0] for name in self.applications]
        number = {name: index for index, name in enumerate(dict.fromkeys(names))}
        return np.array([number[name] for name in names], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a fit says of every pair, measured or not, of a further measurement of it."""

    mean: Floats
    deviation: Floats  # standard deviation
