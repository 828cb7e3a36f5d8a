"""The jobs of the static experiments as files: logs of jobs that start together, and the programs of their processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from scripts.papers.paired_gang.names import (
    COMPUTE,
    GRAIN,
    GRAINS,
    IO,
    MIXES,
    RUNS_S,
    SIZE,
    SIZES,
    SLOTS,
    alone,
    copies,
    fine_pair,
    longer,
    mix,
)
from scripts.processes import PROJECT

from cosched_emulator.workload.atomic_file import new_text_file
from cosched_emulator.workload.swf.swf_writer import format_row, header_lines
from cosched_hwmodel.units import SECOND_US

FOLDER: Final = PROJECT / "out" / "reproduce" / "paired-gang-jobs"
LONG: Final = 5_000  # barriers: more than any job completes
PAPER: Final = 250  # barriers of the paper's jobs (section 4.1.1)
BARRIER_S: Final = 0.075  # of either kind, alone on 8 nodes
FINE: Final = 25_000  # null statements: with a barrier of 0.92 ms, 45 % of the time
FINE_BARRIER_US: Final = 920
PAIR_SIZE: Final = 16
PAIR_GRAINS: Final = (1, 3, 10, 30)  # times as coarse as the homogeneous jobs
STOP_S: Final = 256.0  # when jobs that do not end by themselves are cancelled: 64 rounds of four quanta
LONGER_S: Final = 1024.0  # the same where counts depend on chance: mixes 1 and 2 under best fit
RATES_S: Final = 64.0  # the same of experiments that need rates alone
SHORT_S: Final = 32.0  # the same of a quick reproduction
HEADER: Final = "job,program,null_statements,iterations,jitter"


class Static(NamedTuple):
    """Some jobs that start together, each on all nodes."""

    nodes: int
    programs: Sequence[
        str
    ]  # a row of the file of programs for each job, behind its number; empty: that of the scenario
    run_s: int
    stop_s: float | None = None  # None: the jobs end by themselves
    time_sharing: Mapping[str, Any] = {}


def statics(stop_s: float | None = None) -> dict[str, Static]:
    """Return the static workloads by name; ``stop_s``: instead of the usual times after which jobs are cancelled."""
    found = {mix(io_jobs): _mix(io_jobs) for io_jobs in MIXES}
    found |= {mix(io_jobs, size): _mix(io_jobs, size) for size in SIZES if size != SIZE for io_jobs in MIXES}
    found |= {
        mix(io_jobs, grain=grain): _mix(io_jobs, grain=grain) for grain in GRAINS if grain != GRAIN for io_jobs in MIXES
    }
    found |= {mix(io_jobs, iterations=PAPER): _mix(io_jobs, iterations=PAPER) for io_jobs in MIXES}
    found |= {longer(io_jobs): _mix(io_jobs, iterations=4 * LONG)._replace(stop_s=LONGER_S) for io_jobs in (1, 2)}
    found |= {alone(kind): _jobs([kind], SIZE, GRAIN, LONG) for kind in (COMPUTE, IO)}
    for grain in PAIR_GRAINS:
        row = f"{COMPUTE},{FINE * grain},1000000,0.1"
        found[fine_pair(grain)] = Static(
            PAIR_SIZE, [row, row], 10_000, RATES_S, {"barrier_us": FINE_BARRIER_US * grain}
        )
    for run_s in RUNS_S:
        found[copies(run_s)] = Static(SIZE, [""] * len(SLOTS), run_s)
    return {name: jobs._replace(stop_s=stop_s) if stop_s and jobs.stop_s else jobs for name, jobs in found.items()}


def _mix(io_jobs: int, size: int = SIZE, grain: float = GRAIN, iterations: int = LONG) -> Static:
    kinds = [COMPUTE] * (len(SLOTS) - io_jobs) + [IO] * io_jobs
    return _jobs(kinds, size, grain, iterations)


def _jobs(kinds: Sequence[str], size: int, grain: float, iterations: int) -> Static:
    statements = {COMPUTE: str(round(grain * 1_000_000)), IO: ""}
    rows = [f"{kind},{statements[kind]},{iterations}," for kind in kinds]
    usual = size == SIZE and grain == GRAIN
    stop_s = (STOP_S if usual else RATES_S) if iterations == LONG else None
    return Static(size, rows, round(iterations * BARRIER_S), stop_s)


def workload_of(name: str, static: Static) -> dict[str, Any]:
    """Write the files of a static workload and return the sections of its scenario."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    stem = name.replace(" ", "-").replace(",", "")
    jobs, run_us = range(1, len(static.programs) + 1), static.run_s * SECOND_US
    rows = [format_row(job, 0, run_us=run_us, processes=static.nodes, estimate_us=run_us) for job in jobs]
    log = _written(FOLDER / f"{stem}.swf", [*header_lines(jobs=len(rows), processors=static.nodes, origin=name), *rows])
    programs = [HEADER, *(f"{number},{row}" for number, row in zip(jobs, static.programs, strict=True))]
    file = str(_written(FOLDER / f"{stem}.csv", programs)) if any(static.programs) else "qcrd"
    return {
        "cluster": {"nodes": static.nodes},
        "workload": {"swf": str(log), "programs": file, "limits": "none"},
        "time_sharing": {"nodes": "exact", **static.time_sharing},
        "script": []
        if static.stop_s is None
        else [{"at_s": static.stop_s, "do": "cancel", "job": job} for job in jobs],
    }


def _written(path: Path, lines: Sequence[str]) -> Path:
    """Write a file unless it has these lines already, as workers may read it."""
    text = "".join(f"{line}\n" for line in lines)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        with new_text_file(path, force=True) as stream:
            stream.write(text)
    return path
