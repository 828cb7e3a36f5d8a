"""How many files a reader opens to follow one decision: the source files that `SchedulerCore.handle` enters, batch by batch.

Beside them: how often two calls that follow each other are in different folders. Both are counts, the same on every machine.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from scripts.bench.against import SUBJECTS
from scripts.bench.process import Figures
from scripts.processes import PROJECT, environment, ran
from scripts.tables import NOTHING, aligned_table

ENTERED: Final = Path(__file__).with_name("entered.py")
RUN_S: Final = 300.0  # longest run
# The fewest jobs of each subject whose medians are those of its whole run. First come, first served has EASY's jobs.
JOBS: Final[Mapping[str, int]] = {
    "fcfs": 1_000, "easy": 1_000, "conservative": 1_000, "rua": 300, "lomarc-r": 500, "glts": 800,
}  # fmt: skip
GOALS: Final[Mapping[str, int]] = {"fcfs": 13, "easy": 10, "conservative": 15, "rua": 20, "lomarc-r": 26, "glts": 27}
# Switches of folder when they were last lowered (fcfs 65, easy 28, conservative 77, rua 238, lomarc-r 375, glts 331 before that). A
# change that needs more says in its message what for. (On whole nodes: 8 and 5 since a job that never fits is told so when it comes.)
MOST_SWITCHES: Final[Mapping[str, int]] = {
    "fcfs": 37, "easy": 28, "conservative": 66, "rua": 233, "lomarc-r": 330, "glts": 319,
}  # fmt: skip


def arguments_of(name: str) -> list[str]:
    """Return the command line of a subject: that of the comparison with another commit, with fewer jobs."""
    arguments = list(SUBJECTS["easy" if name == "fcfs" else name].arguments)
    arguments[arguments.index("--policy") + 1] = name
    arguments[arguments.index("--lublin") + 1] = str(JOBS[name])
    # A setting without effect: else no scheduler is asked where counting decides.
    return [*arguments, "--deadline", "299"]


def count(name: str, tree: Path = PROJECT) -> Figures:
    """Return the medians of a subject under the packages of ``tree``; ``reason`` where its run fails."""
    command = [sys.executable, "-P", str(ENTERED), str(tree), *arguments_of(name)]
    try:
        done = ran(command, RUN_S, environment(tree))
    except subprocess.TimeoutExpired:
        return {"subject": name, "reason": f"more than {RUN_S:.0f} s"}
    if done.returncode:
        return {"subject": name, "reason": done.stderr.strip().rpartition("\n")[2]}
    found = medians([json.loads(line) for line in done.stdout.splitlines()])
    return {"subject": name, "goal": GOALS.get(name), "switches_goal": MOST_SWITCHES.get(name), **found}


def medians(batches: Sequence[Mapping[str, Any]]) -> Figures:
    """Return the medians over the batches with a decision, and over those of them in which a job starts."""
    starting = [batch for batch in batches if batch["starts"]]
    return {
        "batches": len(batches),
        "files": statistics.median(len(batch["files"]) for batch in batches),
        "files_starting": statistics.median(len(batch["files"]) for batch in starting),
        "switches": statistics.median(batch["switches"] for batch in batches),
    }


def measure(tell: Callable[[str], None], old: Path | None = None) -> list[Figures]:
    """Return a row for each subject; with the figures of another tree, if one is given."""
    rows = []
    for name in JOBS:
        tell(f"stations of {name}")
        row = count(name)
        rows.append(row if old is None else {**row, "old": count(name, old)})
    return rows


def lines(rows: Sequence[Figures]) -> list[str]:
    """Return the table of stations; where there are figures of another tree, old and new stand beside each other."""
    header = ("subject", "batches", "files", "goal", "files, jobs start", "switches of folder", "goal")
    about = (
        "Files of the packages that `SchedulerCore.handle` enters in a batch that it answers with a decision (medians), and in one"
        " in which a job starts; switches of folder between two calls that follow each other."
    )
    return [*aligned_table(header, [_cells(row) for row in rows], 1), about, ""]


def _cells(row: Figures) -> list[str]:
    if "reason" in row:
        return [row["subject"], NOTHING, row["reason"], NOTHING, NOTHING, NOTHING, NOTHING]
    goal, most = (NOTHING if row[key] is None else str(row[key]) for key in ("goal", "switches_goal"))
    files, starting, switches = (_figure(row, key) for key in ("files", "files_starting", "switches"))
    return [row["subject"], f"{row['batches']:,}", files, goal, starting, switches, most]


def _figure(row: Figures, key: str) -> str:
    if "old" not in row:
        return f"{row[key]:g}"
    return f"{row['old'][key]:g} -> {row[key]:g}" if key in row["old"] else f"{NOTHING} -> {row[key]:g}"
