"""CPU time of another commit and of this tree: alternating runs, and the median of the ratios of the pairs.

On a shared machine the times of two runs differ by more than the effect of a change. Ratios of consecutive runs differ less, and
an interval of their median by order statistics gives the remaining uncertainty. Where that is too wide, the numbers of instructions
can be compared instead: one run of each side is enough.
"""

from __future__ import annotations

import hashlib
import math
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from scripts.bench.instructions import COUNTED, Counter
from scripts.bench.process import Figures
from scripts.processes import end, environment
from scripts.tables import NOTHING, aligned_table

PAIRS: Final = 15
FEWEST_PAIRS: Final = 6  # fewer pairs give no interval of 95 %
STARTS: Final = 10  # starts of a trivial command in one run
RUN_S: Final = 120.0  # longest start
COUNTED_S: Final = 1_200.0  # the same while instructions are counted
SIDES: Final = ("old", "new")
Tell = Callable[[int, int, str], None]  # runs done, all runs, name of the present run


class Subject(NamedTuple):
    """The subject of a comparison: a command of the program, and the number of its repetitions."""

    name: str
    text: str
    module: str
    arguments: tuple[str, ...]
    starts: int = 1


class RunError(Exception):
    """A run did not finish."""


def simulation(name: str, text: str, options: str) -> Subject:
    """Return a subject that simulates jobs of the Lublin model on 128 nodes, unless the options say otherwise."""
    return Subject(name, text, "cosched_emulator", ("simulate", "--nodes", "128", *options.split()))


def start_up(module: str) -> Subject:
    """Return a subject that prints the help of a program."""
    return Subject(
        f"{module.partition('_')[2]}-help", f"`python -m {module} --help`, {STARTS} times", module, ("--help",), STARTS
    )


# Each run takes one to three seconds.
SUBJECTS: Final[Mapping[str, Subject]] = {
    subject.name: subject
    for subject in (
        simulation("easy", "30,000 jobs, aarr 9.83", "--lublin 30000 --aarr 9.83 --policy easy"),
        simulation("conservative", "6,000 jobs, aarr 8.83", "--lublin 6000 --aarr 8.83 --policy conservative"),
        simulation(
            "lomarc-r",
            "2,000 jobs, aarr 8.83, mix M1",
            "--lublin 2000 --aarr 8.83 --node lomarc-ht --contention lomarc --characteristics M1 --policy lomarc-r",
        ),
        *[
            simulation(
                policy,
                "1,000 jobs, aarr 9.83, mix M1",
                f"--lublin 1000 --aarr 9.83 --node lomarc-ht --contention lomarc --characteristics M1 --policy {policy}",
            )
            for policy in ("symbiosis", "guests")
        ],
        simulation(
            "rua",
            "1,500 jobs, aarr 8.83, mix med",
            "--lublin 1500 --aarr 8.83 --node rua-4way --mix med --limits estimate --policy rua",
        ),
        simulation(
            "glts",
            "800 jobs, aarr 9.83, grown",
            "--lublin 800 --aarr 9.83 --node g-lomarc-2x2 --contention statistical --self-slowdowns table4 --grow"
            " --resume-s 60 --policy glts",
        ),
        simulation(
            "fat-nodes",
            "600 jobs under easy, 400 nodes of 128 cores, whole nodes",
            "--nodes 400 --node 1x128x1 --lublin 600 --aarr 8 --exclusive --policy easy",
        ),
        simulation("zmq", "5,000 jobs under easy, two processes", "--lublin 5000 --policy easy --link zmq"),
        start_up("cosched_emulator"),
        start_up("cosched_plugin"),
    )
}  # fmt: skip


def compare(
    old: Path, new: Path, subjects: Sequence[Subject], pairs: int, tell: Tell, counter: Counter | None = None
) -> list[Figures]:
    """Run the subjects in two source trees, old, new, old, new, and return a row for each; a row may be a reason.

    A first run of each, which compiles and is not counted, gives the schedules. The subjects alternate, so that a busy time of the
    machine affects all of them. With a ``counter`` the instructions of one pair are compared, not its time.
    """
    rows: dict[str, Figures] = {}
    found: dict[str, dict[str, list[float]]] = {}
    count, done = len(subjects) * len(SIDES) * (1 + pairs), 0
    with tempfile.TemporaryDirectory(prefix="cosched-against-") as name:
        sides = {side: _Side(tree, Path(name)) for side, tree in zip(SIDES, (old, new), strict=True)}
        for turn in range(1 + pairs):
            for subject in subjects:
                row = rows.setdefault(subject.name, {"subject": subject.name, "run": subject.text})
                for side in SIDES:
                    tell(done, count, f"{subject.name}, {side}")
                    done += 1
                    if "reason" in row:
                        continue
                    try:
                        amount, schedule = sides[side].run(subject, counter if turn else None)
                    except RunError as error:
                        row["reason"] = f"{side}: {error}"
                        continue
                    if turn:
                        found.setdefault(subject.name, {}).setdefault(side, []).append(amount)
                    else:
                        row[f"{side}_schedule"] = schedule
    figures = ratio_figures if counter is None else count_figures
    return [row if "reason" in row else {**row, **figures(*found[name].values())} for name, row in rows.items()]


def ratio_figures(old_s: Sequence[float], new_s: Sequence[float]) -> Figures:
    """Return the median of the ratios of pairs of runs, and its interval (null for too few pairs)."""
    ratios = [new / old for old, new in zip(old_s, new_s, strict=True)]
    return {
        "old_s": [round(value, 4) for value in old_s],
        "new_s": [round(value, 4) for value in new_s],
        "ratio": round(statistics.median(ratios), 4),
        "interval": [round(bound, 4) for bound in median_interval(ratios) or ()] or None,
    }


def count_figures(old: Sequence[float], new: Sequence[float]) -> Figures:
    """Return the numbers of instructions of a pair of runs, and their ratio."""
    return {"old_instructions": int(old[0]), "new_instructions": int(new[0]), "ratio": round(new[0] / old[0], 4)}


class _Side:
    """Runs of one source tree, one at a time."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self._folder = folder
        self._environment = {
            **environment(tree),
            "PYTHONHASHSEED": "0",
            "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
            "PYTHONDONTWRITEBYTECODE": "",
        }

    def run(self, subject: Subject, counter: Counter | None = None) -> tuple[float, str | None]:
        """Return the CPU time of a run's processes, and the digest of its schedule if it has one; RunError where it fails.

        With a ``counter``, return the instructions of one start instead of the CPU time.
        """
        out = self._folder / "out"
        simulates = subject.arguments[0] == "simulate"
        stored = ("--out", str(out)) if simulates else ()
        command = [sys.executable, "-m", subject.module, *subject.arguments, *stored]
        amount = self._cpu_s(command, subject.starts) if counter is None else self._instructions(command, counter)
        schedule = hashlib.sha256((out / "jobs.csv").read_bytes()).hexdigest() if simulates else None
        shutil.rmtree(out, ignore_errors=True)
        return amount, schedule

    def _cpu_s(self, command: Sequence[str], starts: int) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        for _ in range(starts):
            self._start(command, RUN_S)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def _instructions(self, command: Sequence[str], counter: Counter) -> int:
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            self._start([*counter.prefix(Path(name)), *command], COUNTED_S, COUNTED)
            try:
                return counter.read(Path(name))
            except (OSError, ValueError) as error:
                raise RunError(f"{counter.name} has counted nothing: {error}") from None

    def _start(self, command: Sequence[str], most_s: float, environment: Mapping[str, str] = {}) -> None:
        with subprocess.Popen(
            command,
            cwd=self._folder,  # a folder of its own: Python looks for modules in the current folder first
            env={**self._environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            process_group=0,  # Ctrl-C reaches only this process, which then ends the run
        ) as process:
            try:
                _, said = process.communicate(timeout=most_s)
            except subprocess.TimeoutExpired:
                raise RunError(f"more than {most_s:.0f} s") from None
            finally:
                end(process)
        if process.returncode:
            last = said.decode(errors="replace").strip().rpartition("\n")[2]
            raise RunError(f"exit code {process.returncode}: {last}")


def slower(rows: Sequence[Figures], limit: float) -> Iterator[str]:
    """Yield the subjects that significantly take more than ``limit`` times as long, and those without a comparison."""
    for row in rows:
        if "reason" in row:
            yield f"{row['subject']} could not be compared"
        elif "new_instructions" in row:
            if row["ratio"] > limit:
                yield f"{row['subject']} executes more than {limit:g} times as many instructions"
        elif row["interval"] is not None and row["interval"][0] > limit:
            yield f"{row['subject']} takes more than {limit:g} times as long"


def against_lines(rows: Sequence[Figures], commit: str, pairs: int) -> list[str]:
    """Return the table of a comparison."""
    header = ("subject", "run", "old s", "new s", "new / old", "95 % interval", "schedule")
    about = (
        f"CPU seconds of all processes of a run, medians of {pairs} pairs of runs: old is {commit}, new this tree. new / old is the"
        " median of the pairs' ratios. Schedule: digest of jobs.csv."
    )
    return [*aligned_table(header, [_cells(row) for row in rows], 2), about, ""]


def counted_lines(rows: Sequence[Figures], commit: str, counter: Counter) -> list[str]:
    """Return the table of a comparison of instructions."""
    header = ("subject", "run", "old, millions", "new, millions", "new / old", "schedule")
    about = (
        f"Instructions of all processes of one run, counted by {counter.name}: old is {commit}, new this tree. Of what is started"
        f" {STARTS} times one start counts. Schedule: digest of jobs.csv."
    )
    return [*aligned_table(header, [_counted_cells(row) for row in rows], 2), about, ""]


def _counted_cells(row: Figures) -> list[str]:
    cells = [row["subject"], row["run"]]
    if "reason" in row:
        return [*cells, NOTHING, NOTHING, row["reason"], NOTHING]
    counts = [f"{row[f'{side}_instructions'] / 1e6:,.0f}" for side in SIDES]
    return [*cells, *counts, f"{row['ratio']:.3f}", _schedule(row)]


def _schedule(row: Figures) -> str:
    if row["old_schedule"] is None:
        return NOTHING
    return "the same" if row["old_schedule"] == row["new_schedule"] else "**differs**"


def _cells(row: Figures) -> list[str]:
    cells = [row["subject"], row["run"]]
    if "reason" in row:
        return [*cells, NOTHING, NOTHING, NOTHING, row["reason"], NOTHING]
    medians = [f"{statistics.median(row[f'{side}_s']):.2f}" for side in SIDES]
    interval = NOTHING if row["interval"] is None else " to ".join(f"{bound:.3f}" for bound in row["interval"])
    return [*cells, *medians, f"{row['ratio']:.3f}", interval, _schedule(row)]


def median_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float] | None:
    """Return an interval that holds the median, whatever the distribution; None for too few values (below six at 95 %).

    It lies between two order statistics: the number of values below the median is binomial with a share of one half
    (Conover 1999, section 3.2), so its probability is ``level`` or more.
    """
    count = len(values)
    ordered = sorted(values)
    outside, rank = 0.0, 0  # probability that the median lies outside the ranks so far
    while True:
        outside += 2 * math.comb(count, rank) / 2**count
        if outside > 1 - level:
            break
        rank += 1
    return (ordered[rank - 1], ordered[count - rank]) if rank else None
