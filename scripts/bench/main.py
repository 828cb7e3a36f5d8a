"""The speed of cosched on this machine: jobs per second, the cost of a second process, decision times, memory, start-up.

Usage: .venv/bin/python scripts/bench.py [--quick] [--json FILE] [--only PART]... [--write-docs]
       .venv/bin/python scripts/bench.py --against COMMIT [--pairs N | --instructions] [--limit RATIO] [--json FILE] [--only SUBJECT]...
       .venv/bin/python scripts/bench.py --against COMMIT --stations [--json FILE]

This is not a test: figures of different machines or times are not comparable. Every comparison measures both sides in the same
run. The full benchmark takes twenty minutes at most, a quick one two, a comparison with another commit ten.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import zmq
from scripts.bench import bench_tables
from scripts.bench import growth as bench_growth
from scripts.bench import live as bench_live
from scripts.bench import peers as bench_peers
from scripts.bench import stations as bench_stations
from scripts.bench import wire as bench_wire
from scripts.bench.against import FEWEST_PAIRS, PAIRS, SUBJECTS, against_lines, compare, counted_lines, slower
from scripts.bench.checkout import CommitError, checkout
from scripts.bench.instructions import find_counter
from scripts.bench.process import Figures
from scripts.bench.runs import IN_ROWS, Goal, goals, growth, imports, run_goal
from scripts.papers.study import positive
from scripts.processes import PROJECT, ran
from scripts.progress import Progress
from scripts.tables import write_tables

from cosched_plugin.policies.composition.presets import PRESETS

Tell = Callable[[str], None]

PAGE: Final = PROJECT / "docs" / "results" / "appendix" / "performance.md"
COMMAND_S: Final = 60.0  # longest time of a trivial command
LIVE: Final = ("easy", "lomarc-r", "conservative")  # presets whose decisions are timed in a process of their own
COMMANDS: Final = (
    "python -c pass",  # the reference of the other commands
    "python -m cosched_emulator --help",
    "python -m cosched_plugin --help",
    "python -m cosched_emulator simulate --help",
    "python -m cosched_emulator presets",
    "python -m cosched_emulator simulate --lublin 1",
    "python -m cosched_emulator workload describe --lublin 1",
    "python -m cosched_emulator serve --help",
    "python -m cosched_plugin policies",
    "python -m cosched_plugin serve --help",
)


class Extent(NamedTuple):
    """The extent of the measurements."""

    part: int  # factor by which goals are measured with fewer jobs
    goal_s: float  # longest run of a goal
    many: int  # jobs for measuring the growth of cost and memory
    wire_jobs: int
    wire_rounds: int
    policies: tuple[str, ...]  # presets with timed decisions
    peer_runs: tuple[int, int]  # jobs of whole runs, and pairs of them
    starts: int
    peers: tuple[tuple[str, str], ...] = ()  # name and command of other programs
    growing: bench_growth.Sizes = bench_growth.Sizes()
    growing_s: float = 10.0  # no larger run after one that took so long
    live: bench_live.Extent = bench_live.Extent()


FULL: Final = Extent(
    part=1,
    goal_s=150.0,
    many=1_000_000,
    wire_jobs=10_000,
    wire_rounds=5,
    policies=tuple(name for name in PRESETS if name not in IN_ROWS),
    peer_runs=(10_000, 5),
    starts=9,
)
QUICK: Final = FULL._replace(
    part=10,
    goal_s=10.0,
    many=50_000,
    wire_jobs=2_000,
    wire_rounds=2,
    policies=("easy", "conservative", "rua", "lomarc-r", "glts"),
    peer_runs=(2_000, 1),
    starts=3,
    growing=bench_growth.Sizes((150, 300), (250, 500), (128, 512), (4, 64), 250),
    growing_s=2.0,
    live=bench_live.Extent(1_000, 5.0, 2.0, 5.0),
)


def start_up(commands: Sequence[str], times: int, tell: Tell) -> list[Figures]:
    """Return the seconds of trivial commands: the median, the least, and relative to Python's own start.

    The commands alternate. Python uses compiled files, as it does from the second start of an installation on.
    """
    walls_s: dict[str, list[float]] = {command: [] for command in commands}
    with tempfile.TemporaryDirectory(prefix="bench-") as bytecode:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
        for turn in range(times + 1):
            for command in commands:
                tell(f"start {turn} of {times}: {command}")
                began = time.perf_counter()
                done = ran([sys.executable, *command.split()[1:]], COMMAND_S, environment)
                if turn:  # the first one compiles
                    walls_s[command].append(time.perf_counter() - began)
                if done.returncode:
                    sys.exit(f"bench: exit code {done.returncode}: {command}\n{done.stderr}")
    own_s = statistics.median(walls_s[commands[0]])
    return [
        {
            "command": command,
            "median_s": round(statistics.median(all_s), 3),
            "least_s": round(min(all_s), 3),
            "over_python": round(statistics.median(all_s) / own_s, 1),
        }
        for command, all_s in walls_s.items()
    ]


def machine() -> Figures:
    """Return the machine, the versions and the commit that the figures depend on."""

    def git(*arguments: str) -> str:
        try:
            return ran(["git", "-C", str(PROJECT), *arguments], 30.0, check=True).stdout.strip()
        except (OSError, subprocess.SubprocessError):
            return ""

    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.exists() else []
    return {
        "commit": git("rev-parse", "--short", "HEAD") or "unknown",
        "changed": bool(git("status", "--porcelain", "--untracked-files=no")),
        "cpu": next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine()),
        "cpus": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "zmq": zmq.zmq_version(),
    }  # fmt: skip


def measure_goals(extent: Extent, tell: Tell) -> list[Figures]:
    """Return a row for each goal of speed and memory."""
    rows: list[Figures] = []
    wanted: list[Goal] = goals(extent.part)
    for goal in wanted:
        tell(f"goal: {goal.name}")
        rows.append(run_goal(goal, extent.goal_s))
    tell(f"goal: {extent.many:,} jobs under easy")
    rows += growth(10_000, extent.many, extent.goal_s)
    tell(f"goal: a dump of {extent.many:,} rows")
    rows += imports(extent.many, extent.goal_s)
    if extent.part > 1:  # with fewer jobs than the goals require
        rows = [{**row, "reached": None} if "reached" in row else row for row in rows]
    return rows


class Part(NamedTuple):
    """One part of the benchmark: its measurement and its table."""

    title: str
    measure: Callable[[Extent, Tell], object]
    lines: Callable[..., list[str]]


def _growth(extent: Extent, tell: Tell) -> list[Figures]:
    """Return how time and memory of each preset grow."""
    policies = extent.policies if extent.part > 1 else tuple(PRESETS)
    return list(bench_growth.measure(policies, extent.growing, extent.growing_s, tell))


# fmt: off
PARTS: Final = {
    "goals": Part("Goals", measure_goals, bench_tables.goal_lines),
    "wire": Part("Two processes", lambda of, tell: bench_wire.compare(of.wire_jobs, of.wire_rounds, tell), bench_tables.wire_lines),
    "start-up": Part("Start-up", lambda of, tell: start_up(COMMANDS, of.starts, tell), bench_tables.start_up_lines),
    "live": Part("Live decisions", lambda of, tell: [*bench_live.measure(LIVE, "counted", of.live, tell)], bench_live.lines),
    "stations": Part("Files that a decision enters", lambda _, tell: bench_stations.measure(tell), bench_stations.lines),
    "peers": Part("Whole runs, and other programs", lambda of, tell: bench_peers.measure(*of.peer_runs, of.peers, tell),
        bench_peers.lines),
    "growth": Part("Growth", _growth, bench_growth.lines),
}
# fmt: on


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write the figures as requested; return the exit code."""
    options = parse_options(arguments)
    interrupt = signal.signal(signal.SIGTERM, signal.default_int_handler)  # temporary files are removed
    try:
        figures, code = run_against(options) if options.against is not None else (run_parts(options), 0)
    except CommitError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
        return 130
    finally:
        signal.signal(signal.SIGTERM, interrupt)
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return code


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line; SystemExit for invalid ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="fewer jobs, machines, presets and repetitions: approximate figures"
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the figures there")
    parser.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        choices=[*PARTS, *SUBJECTS],
        help=f"one of: {', '.join(PARTS)}; with --against: {', '.join(SUBJECTS)}",
    )
    parser.add_argument(
        "--peer",
        metavar="NAME=COMMAND",
        action="append",
        type=_peer,
        help="part peers: time another program, too; the command has {swf}, {policy} (fcfs or easy) and {nodes}, and prints a line "
        "NUMBER START in seconds for each job, or the mean wait alone",
    )
    parser.add_argument("--write-docs", action="store_true", help="write the tables into the appendix")
    parser.add_argument("--against", metavar="COMMIT", help="compare CPU time with that of another commit")
    parser.add_argument("--pairs", metavar="N", type=positive, help=f"pairs of runs to compare (default {PAIRS})")
    parser.add_argument(
        "--instructions",
        action="store_true",
        help="compare numbers of instructions, not CPU time: for a busy machine; wants valgrind, or perf with a counter",
    )
    parser.add_argument(
        "--stations", action="store_true", help="with --against: compare the files that a decision enters, not CPU time"
    )
    parser.add_argument(
        "--limit",
        metavar="RATIO",
        type=float,
        help="exit with 1 if a subject significantly takes more than RATIO times as long",
    )
    options = parser.parse_args(arguments)
    _check(options, parser)
    options.counter = find_counter() if options.instructions else None
    if options.instructions and options.counter is None:
        parser.error("--instructions needs valgrind, or perf and a processor whose counter of instructions it can read")
    return options


def _peer(text: str) -> tuple[str, str]:
    try:
        return bench_peers.peer_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _check(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """End with an error for options that do not go together."""
    names = PARTS if options.against is None else SUBJECTS
    if options.only and not set(options.only) <= set(names):
        parser.error(f"--only: choose from {', '.join(names)}")
    if options.write_docs and options.only:
        parser.error("--write-docs needs all parts")
    if options.against is None and (options.pairs or options.instructions or options.limit is not None):
        parser.error("--pairs, --instructions and --limit need --against")
    if options.against is not None and (options.quick or options.write_docs):
        parser.error("--against does not go with --quick and --write-docs")
    timed = options.only or options.pairs or options.instructions or options.limit is not None
    if options.stations and (options.against is None or timed):
        parser.error("--stations needs --against, and goes with --json alone")
    if options.instructions and options.pairs:
        parser.error("--instructions does not go with --pairs: one run of each counts")
    if options.limit is not None and (options.pairs or PAIRS) < FEWEST_PAIRS:
        parser.error(f"--limit needs at least {FEWEST_PAIRS} pairs")
    if options.json is not None and not options.json.resolve().parent.is_dir():
        parser.error(f"--json: there is no folder {options.json.parent}")  # checked before half an hour of runs


def run_parts(options: argparse.Namespace) -> Figures:
    """Measure and print the requested parts, and return their figures."""
    extent = (QUICK if options.quick else FULL)._replace(peers=tuple(options.peer or ()))
    progress = Progress()
    figures: Figures = {"machine": machine()}
    lines = bench_tables.machine_lines(figures["machine"], " --quick" if options.quick else "")
    print("\n".join(lines), flush=True)
    for name, part in PARTS.items():
        if options.only and name not in options.only:
            continue
        figures[name] = part.measure(extent, progress.text)
        progress.clear()
        body = [f"### {part.title}", "", *part.lines(figures[name])]
        print("\n".join(body), flush=True)
        lines += body
    if options.write_docs:
        write_tables(PAGE, "--write-docs", "Performance", lines, script="bench.py")
    return figures


def run_against(options: argparse.Namespace) -> tuple[Figures, int]:
    """Compare with another commit, print the table, and return the figures and the exit code."""
    if options.stations:
        return compare_stations(options.against), 0
    counter = options.counter
    pairs = 1 if counter is not None else options.pairs or PAIRS
    progress = Progress()
    with checkout(PROJECT, options.against) as (commit, tree):
        figures: Figures = {"machine": machine(), "against": commit, "pairs": pairs}
        told = f" --against {commit}{' --instructions' if counter is not None else ''}"
        print("\n".join(bench_tables.machine_lines(figures["machine"], told)), flush=True)
        subjects = [subject for name, subject in SUBJECTS.items() if not options.only or name in options.only]
        figures["subjects"] = compare(tree, PROJECT, subjects, pairs, progress.bar, counter)
    progress.clear()
    rows = figures["subjects"]
    lines = against_lines(rows, commit, pairs) if counter is None else counted_lines(rows, commit, counter)
    print("\n".join(lines), flush=True)
    failures = [] if options.limit is None else list(slower(rows, options.limit))
    for failure in failures:
        print(f"bench: {failure}", file=sys.stderr)
    return figures, 1 if failures else 0


def compare_stations(wanted: str) -> Figures:
    """Print the files that a decision enters in another commit and in this tree, and return them."""
    progress = Progress()
    with checkout(PROJECT, wanted) as (commit, tree):
        rows = bench_stations.measure(progress.text, tree)
    progress.clear()
    print("\n".join([f"old is {commit}, new this tree", "", *bench_stations.lines(rows)]), flush=True)
    return {"against": commit, "stations": rows}
