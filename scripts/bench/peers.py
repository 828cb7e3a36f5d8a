"""Whole runs of other simulators on the same logs, in turns with ours: the schedule is compared before the CPU time."""

from __future__ import annotations

import csv
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from scripts.bench.process import Figures
from scripts.processes import PROJECT, environment
from scripts.tables import NOTHING, aligned_table

from cosched_emulator import prepare
from cosched_emulator.workload.swf.swf_writer import format_row
from cosched_hwmodel.units import SECOND_US

NODES: Final = 128
LOADS: Final = (0.75, 0.91, 1.77)
POLICIES: Final = ("fcfs", "easy")
MOST_OVER: Final = 5  # estimates are drawn between the run time and so many times more
OURS: Final = "cosched"
RUN_S: Final = 600.0  # longest run


class Schedule(NamedTuple):
    """What a program says of its schedule: the start of each job in whole seconds, or the mean wait alone."""

    starts: Mapping[int, int]
    mean_wait_s: float


def peer_of(text: str) -> tuple[str, str]:
    """Return the name and the command of ``NAME=COMMAND``; ValueError."""
    name, _, command = text.partition("=")
    if not name or "{swf}" not in command:
        raise ValueError("expected NAME=COMMAND, with {swf} in the command, and {policy}, {nodes} where it wants them")
    return name, command


def measure(jobs: int, pairs: int, peers: Sequence[tuple[str, str]], tell: Callable[[str], None]) -> list[Figures]:
    """Return CPU seconds of whole processes by policy, load and program: medians of ``pairs`` runs in turns.

    A peer prints a line ``NUMBER START`` for each job, in seconds, or at last a line with the mean wait alone.
    """
    rows: list[Figures] = []
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        for load in LOADS:
            submits = _write_log(folder / "log.swf", jobs, load)
            for policy in POLICIES:
                told = {"swf": str(folder / "log.swf"), "policy": policy, "nodes": str(NODES)}
                used_s: dict[str, list[float]] = {program: [] for program in (OURS, *dict(peers))}
                found: dict[str, Schedule] = {}
                for turn in range(1 + pairs):  # the first one compiles
                    for program, command in ((OURS, ""), *peers):
                        tell(f"{policy} at {load}, {program}, turn {turn} of {pairs}")
                        spent_s, found[program] = _run(folder, program, command, told, submits)
                        used_s[program] += [spent_s] if turn else []
                rows += [_row(policy, load, program, used_s, found) for program in used_s]
    return rows


def lines(rows: Sequence[Figures]) -> list[str]:
    """Return the figures as a table."""
    header = ("policy", "load", "program", "CPU s", "over cosched", "jobs that start at the same time", "mean wait s")
    body = []
    for row in rows:
        spent = (f"{row['cpu_s']:.3f}", f"{row['ratio']:.2f}")
        same = NOTHING if row["same"] is None else f"{row['same']:,}"
        body.append((row["policy"], f"{row['load']:.2f}", row["program"], *spent, same, f"{row['mean_wait_s']:,.0f}"))
    about = (
        f"Lublin jobs with drawn estimates on {NODES} processors. CPU seconds of whole processes, ours with a run folder; over "
        "cosched: median of the ratios of runs in turns. Where mean waits differ, times do not compare."
    )
    return [*aligned_table(header, body, 3), about, ""]


def _row(
    policy: str, load: float, program: str, used_s: Mapping[str, list[float]], found: Mapping[str, Schedule]
) -> Figures:
    ours, its = found[OURS].starts, found[program].starts
    ratios = [spent / own for spent, own in zip(used_s[program], used_s[OURS], strict=True)]
    return {
        "policy": policy,
        "load": load,
        "program": program,
        "cpu_s": round(statistics.median(used_s[program]), 3),
        "ratio": round(statistics.median(ratios), 3),
        "same": sum(ours[job] == start for job, start in its.items() if job in ours) if its else None,
        "mean_wait_s": round(found[program].mean_wait_s, 1),
    }


def _write_log(file: Path, jobs: int, load: float) -> dict[int, int]:
    """Write jobs of the model in whole seconds, and return when each is submitted."""
    drawn = prepare({"cluster": {"nodes": NODES}, "workload": {"lublin": jobs, "load": load}}).workload.jobs
    random, submits = Random(1), {}
    with file.open("w", encoding="utf-8") as out:
        print(f"; MaxProcs: {NODES}", file=out)
        for job in drawn:
            spec = job.spec
            submits[spec.id] = spec.submit_us // SECOND_US
            run_s = max(1, job.run_us // SECOND_US)
            asked_s = max(60, round(run_s * (1 + MOST_OVER * random.random())))
            at_us, run_us, asked_us = (each * SECOND_US for each in (submits[spec.id], run_s, asked_s))
            row = format_row(spec.id, at_us, run_us=run_us, processes=spec.processes, estimate_us=asked_us, status=1)
            print(row, file=out)
    return submits


def _run(
    folder: Path, program: str, command: str, told: Mapping[str, str], submits: Mapping[int, int]
) -> tuple[float, Schedule]:
    """Return the CPU time of a run, and its schedule; exits where it fails."""
    stored = ("--swf", told["swf"], "--out", "run")
    ours = ("-m", "cosched_emulator", "simulate", "--nodes", told["nodes"], "--policy", told["policy"], "--force")
    words = shlex.split(command.format(**told)) if command else [sys.executable, *ours, *stored]
    own = {**environment(PROJECT), "PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "PYTHONDONTWRITEBYTECODE": ""}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        words, cwd=folder, env=None if command else own, capture_output=True, text=True, timeout=RUN_S, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"bench: {program}: exit code {done.returncode}\n{done.stderr}")
    if command:
        schedule = _said(program, done.stdout, submits)
    else:
        with (folder / "run" / "jobs.csv").open(encoding="utf-8") as file:
            starts = {
                int(row["job_id"]): int(row["starting_time"]) for row in csv.DictReader(file) if row["starting_time"]
            }
        schedule = Schedule(starts, _mean_wait_s(starts, submits))
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, schedule


def _said(program: str, text: str, submits: Mapping[int, int]) -> Schedule:
    rows = [line.split() for line in text.splitlines() if line.strip()]
    try:
        starts = {int(row[0]): int(float(row[1])) for row in rows if len(row) == 2}
        return Schedule(starts, _mean_wait_s(starts, submits) if starts else float(rows[-1][0]))
    except (IndexError, ValueError, KeyError) as error:
        sys.exit(f"bench: {program}: expected a line NUMBER START for each job, or at last the mean wait: {error!r}")


def _mean_wait_s(starts: Mapping[int, int], submits: Mapping[int, int]) -> float:
    return statistics.fmean([start - submits[job] for job, start in starts.items()]) if starts else 0.0
