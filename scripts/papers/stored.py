"""The runs of a paper that are stored in the repository: what its page is made of, so that no machine repeats them.

``docs/results/stored/PAPER.jsonl.gz`` has a line of names (what the file is, the axes, the columns), then a line for each run in order
of declaration: its key, cosched's version, its wall time, its name on each axis, and its figures. What became of the jobs is not
stored, but what a comparison with the baselines gave is. Numbers have six digits. Stored are the columns that report and pictures
read, and the usual ones besides, so that a new row on a page seldom needs new runs.

A run's key covers scenario, files, policy, measures and the number of the policy's behaviour (`studies/cells`), so a stored run takes
the place of a run of the same key alone: a release repeats no run, a changed policy repeats its own.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from scripts.tables import table_head, table_row

from cosched_emulator.studies.axes import COLUMNS
from cosched_emulator.studies.experiment import HARM
from cosched_emulator.studies.study_result import Row

STORED: Final = Path("docs/results/stored")  # below the project
FORMAT: Final = 1
ANY_HARM: Final = f"{HARM}jobs"  # a row that was compared with its baselines has it; shares may not exist
_DIGITS: Final = 6
_LEFT_OUT: Final = re.compile(  # unless they are read
    r".*_(count|standard_deviation|max)|(all_)?(bounded_slowdown_60s|relative_response_60s|slowdown|penalised_percent)_.*"
    r"|((short|medium|long|narrow|wide)_)+(jobs|wait_s|response_s|slowdown|weighted_response_s)|selection_.*"
)


class StoredRun(NamedTuple):
    """A run as the file has it."""

    key: str
    version: str
    wall_s: float
    row: Row  # names by column of the axes, and figures


class ReadRow(dict[str, Any]):
    """A row of a study that remembers which of its columns were read."""

    def __init__(self, row: Mapping[str, Any]) -> None:
        super().__init__(row)
        self.columns: set[str] = set()

    def __getitem__(self, column: str) -> Any:
        self.columns.add(column)
        return super().__getitem__(column)

    def get(self, column: str, default: Any = None) -> Any:
        """Return a figure."""
        self.columns.add(column)
        return super().get(column, default)


def kept(row: ReadRow, columns: Iterable[str]) -> Row:
    """Return what is stored of a row: of the columns that are read in any row, and of the usual ones, the numbers and short texts.

    Lists, tables and long texts are stored only of the rows in which they are read.
    """
    read = set(columns)
    found: Row = {}
    for name, value in row.items():
        if name in _PLACES or value is None:
            continue
        plain = isinstance(value, int | float) or (isinstance(value, str) and len(value) <= _SHORT)
        if name in row.columns or (plain and name not in _ORIGIN and (name in read or not _LEFT_OUT.fullmatch(name))):
            found[name] = rounded(value)
    return found


_PLACES: Final = ("cell", *COLUMNS.values())
_ORIGIN: Final = ("key", "version", "policy_settings", "scenario")
_SHORT: Final = 40  # characters


def rounded(value: Any) -> Any:
    """Return a value with the digits that are stored; pages are made of such values, whether they are stored or have just been made."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, Mapping):
        return {name: rounded(item) for name, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list | tuple) else value


def read_stored(paper: str, folder: Path) -> dict[str, StoredRun]:
    """Return the stored runs of a paper by key, in order of declaration; empty where none is stored.

    Raises SystemExit for a file that is damaged or of another format.
    """
    file = folder / f"{paper}.jsonl.gz"
    if not file.exists():
        return {}
    try:
        lines = gzip.decompress(file.read_bytes()).decode().splitlines()
        head = json.loads(lines[0])
        if head["format"] != FORMAT or head["paper"] != paper:
            raise ValueError("another format, or another paper")
        found = {}
        for line in lines[1:]:
            key, version, wall_s, names, values, others = json.loads(line)
            row = {**dict.fromkeys(COLUMNS.values(), ""), **dict(zip(head["axes"], names, strict=True))}
            row |= {name: value for name, value in zip(head["columns"], values, strict=True) if value is not None}
            found[key] = StoredRun(key, version, wall_s, {**row, **others})
    except (OSError, EOFError, ValueError, KeyError, TypeError, IndexError) as error:
        raise SystemExit(f"reproduce: {file} is damaged: {error}") from error
    return found


def write_stored(paper: str, runs: Iterable[StoredRun], folder: Path) -> Path:
    """Write the runs of a paper; the same runs give the same bytes."""
    runs = list(runs)
    figures = [{name: value for name, value in run.row.items() if name not in _PLACES} for run in runs]
    columns = list(dict.fromkeys(name for row in figures for name, value in row.items() if not _is_long(value)))
    axes = list(COLUMNS.values())
    lines = [json.dumps({"format": FORMAT, "paper": paper, "axes": axes, "columns": columns})]
    for run, row in zip(runs, figures, strict=True):
        values = [None if _is_long(row.get(name)) else row.get(name) for name in columns]
        others = {name: value for name, value in row.items() if _is_long(value)}
        names = [str(run.row.get(axis, "")) for axis in axes]
        line = [run.key, run.version, round(run.wall_s, 2), names, values, others]
        lines.append(json.dumps(line, separators=(",", ":"), ensure_ascii=False))
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{paper}.jsonl.gz"
    file.write_bytes(gzip.compress("\n".join([*lines, ""]).encode(), compresslevel=9, mtime=0))
    return file


def totals(folder: Path) -> list[str]:
    """Return the table of all that is stored: runs, and how long they took."""
    rows, sums = [], [0, 0.0]
    for file in sorted(folder.glob("*.jsonl.gz")):
        paper = file.name.removesuffix(".jsonl.gz")
        runs = [*read_stored(paper, folder).values()]
        hours = sum(run.wall_s for run in runs) / 3600
        sums = [sums[0] + len(runs), sums[1] + hours]
        versions = ", ".join(sorted({run.version for run in runs}))
        rows.append(table_row((f"`{paper}`", versions), [f"{len(runs):,}", f"{hours:.1f}"]))
    head = table_head(("stored", "version of cosched"), ["runs", "hours, on one core"])
    return [*head, *rows, table_row(("all", ""), [f"{sums[0]:,}", f"{sums[1]:.1f}"]), ""]


def _is_long(value: Any) -> bool:
    return not isinstance(value, int | float | str | None) or (isinstance(value, str) and len(value) > _SHORT)


def complete(run: StoredRun | None, compared: bool) -> bool:
    """Tell whether a stored run has all that a page needs: also the comparison with its baselines, if it is compared."""
    return run is not None and (not compared or ANY_HARM in run.row)
