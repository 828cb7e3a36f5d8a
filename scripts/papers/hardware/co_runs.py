"""The published tables of co-runs, which are no part of the project: where they lie, and the one that is made of both."""

from __future__ import annotations

import csv
import hashlib
import io
import statistics
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Final

from scripts.papers.study import lacking
from scripts.processes import PROJECT

from cosched_hwmodel.measured.co_run_table import CoRunTable, TableError, read_table

ARIS: Final = "aris-nas-pairs.csv"
MARCONI: Final = "marconi-nas-speedups.csv"
# As a table of co-runs (docs/scenarios.md), which `cosched-hwmodel measure` writes of another machine.
SOURCE: Final = "the measurements of the authors of ELiSE (JSSPP 2025, https://github.com/cslab-ntua/elise)"
PROCESSES: Final = 256  # of every job of the Marconi table
FEWEST: Final = 3  # applications of a sub-map
NEAR: Final = 0.0025  # of a sub-map's mean speedup to the published one, at most
MADE: Final = PROJECT / "out" / "reproduce" / "hardware-tables"


def folder_of(logs: Path | None) -> Path:
    """Return the folder of the tables: that of the logs, or ``contention`` beside it."""
    logs = PROJECT.parent / "shared" / "workloads" if logs is None else logs
    return logs if (logs / ARIS).is_file() else logs.parent / "contention"


def aris_file(logs: Path | None) -> Path:
    """Return the file of the ARIS table; SystemExit where it is missing."""
    return there(folder_of(logs) / ARIS)


def marconi_file(logs: Path | None) -> Path:
    """Return a file with the Marconi table and run times of the ARIS table; SystemExit where one is missing.

    Run times are those of the same program and class with 256 processes; where ARIS has none, the mean of these.
    """
    measured, aris = speedups(logs), read(aris_file(logs))
    known = {name: aris.compact_s.get(f"{name}.{PROCESSES}") for name in measured.applications}
    usual = statistics.fmean([run_s for run_s in known.values() if run_s is not None])
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(("row", "column", "ratio", "procs", "compact_s"))
    for (name, other), ratio in measured.ratios.items():
        run_s = known[name]
        writer.writerow((name, other, repr(ratio), PROCESSES, f"{usual if run_s is None else run_s:.2f}"))
    return Path(lasting("marconi.csv", text.getvalue()))


def lasting(name: str, text: str) -> str:
    """Write a file that runs read, and return its path, which has a digest: what was made with another content stays what it was."""
    MADE.mkdir(parents=True, exist_ok=True)
    stem, ending = name.rsplit(".", 1)
    file = MADE / f"{stem}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.{ending}"
    file.write_text(text, encoding="utf-8", newline="")
    return str(file)


def sub_map(table: CoRunTable, speedup: float) -> tuple[str, ...]:
    """Return the largest set of applications whose pairs have this mean speedup within `NEAR`, of equal ones the nearest.

    Where there is none of `FEWEST` applications or more, the nearest of all.
    """
    names = table.applications
    sets = [chosen for size in range(len(names), FEWEST - 1, -1) for chosen in combinations(names, size)]
    off = {chosen: abs(mean_speedup(table, chosen) - speedup) for chosen in sets}
    return min(sets, key=lambda chosen: (off[chosen] > NEAR, -len(chosen) * (off[chosen] <= NEAR), off[chosen], chosen))


def mean_speedup(table: CoRunTable, names: Sequence[str]) -> float:
    """Return the mean speedup over all pairs of these applications, both ways, as the published heat map's."""
    return statistics.fmean([1.0 / table.ratios[one, other] for one in names for other in names])


def all_measured(table: CoRunTable) -> list[str]:
    """Return applications of which all pairs were measured: those with most gaps are left out, one after the other."""
    names = list(table.applications)
    while True:
        gaps = {
            name: sum((name, other) not in table.ratios or (other, name) not in table.ratios for other in names)
            for name in names
        }
        worst = max(names, key=gaps.__getitem__)
        if not gaps[worst]:
            return names
        names.remove(worst)


def speedups(logs: Path | None) -> CoRunTable:
    """Return the Marconi table."""
    return read(there(folder_of(logs) / MARCONI))


def read(file: Path) -> CoRunTable:
    """Return a table; SystemExit where it is damaged."""
    try:
        return read_table(file)
    except TableError as error:
        raise SystemExit(f"reproduce: {error}") from error


def there(file: Path, source: str = SOURCE) -> Path:
    """Return a file; end the program where it is missing."""
    if not file.is_file():
        lacking(f"no table {file}", source)
    return file
