"""How often the test for saturation is wrong: many runs of queues whose load is known, by kind of jobs, days and load.

Usage: .venv/bin/python -m scripts.proofs.saturation [--kind NAME ...] [--runs N] [--days D ...] [--loads L ...] [--workers N]

A row has the percentage of *yes* and of *no* for each load. Below 1 *yes* is wrong, above 1 *no*; the rest is *not shown*. The last
lines have the worst of these shares with its 95 % interval (Wilson 1927, JASA 22:209). It exits with 1 where an interval lies above
what is promised.

The queues are first come, first served, with one processor a job, so that they are saturated from a load of 1 on; loads are those of
the process, and the work that comes in a run varies around it. The runs of the Lublin-Feitelson model are whole simulations under EASY,
of which the load is exact: they are saturated from .985 to .995 on, so .98 is taken as below.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from scripts.progress import Progress

from cosched_emulator import simulate
from cosched_emulator.statistics.intervals import FloatArray, Verdict
from cosched_emulator.statistics.saturation import DAY_S, HOUR_S, saturation

LOADS: Final = (0.8, 0.9, 0.95, 0.98, 1.02, 1.05, 1.1)
DAYS: Final = (3.0, 7.0, 14.0, 30.0)
RUNS: Final = 200
SERVERS: Final = 16
PROMISED: Final = {"yes": 0.025, "no": 0.05}
PART_OF_A_DAY: Final = (
    0.6  # that runs with days and nights last longer, so that they do not end at the time at which they begin
)
Draw = Callable[[np.random.Generator, tuple[int, int]], FloatArray]


class Queue(NamedTuple):
    """The jobs of one run, in order of submission."""

    submit_s: FloatArray
    start_s: FloatArray
    end_s: FloatArray
    work: FloatArray
    day_s: float = DAY_S


def exponential(generator: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    """Draw run times, in hours, of mean 1."""
    return generator.exponential(size=shape)


def lognormal(sigma: float) -> Draw:
    """Return how run times of mean 1 are drawn whose logarithm is normal."""
    return lambda generator, shape: generator.lognormal(-sigma * sigma / 2, sigma, shape)


def pareto(index: float) -> Draw:
    """Return how run times of mean 1 are drawn whose tail falls as a power; up to 2 they have no variance."""
    return lambda generator, shape: (generator.pareto(index, shape) + 1) * (index - 1) / index


def queues(
    loads: Sequence[float],
    jobs: int,
    servers: int,
    generator: np.random.Generator,
    draw: Draw = exponential,
    swing: float = 0.0,
) -> list[Queue]:
    """Return a first-come first-served queue for each load, which begins empty.

    With a ``swing`` the rate of arrivals is 1 + swing · sin over a day, times its mean.
    """
    shape = (jobs, len(loads))
    submit = np.cumsum(generator.exponential(size=shape), axis=0) / (np.array(loads) * servers)
    if swing:  # times by a clock that runs at the rate of arrivals
        hours = np.arange(0.0, submit.max() + 48, 0.1)
        submit = np.interp(submit, hours - swing * 12 / np.pi * (np.cos(hours * np.pi / 12) - 1), hours)
    run = draw(generator, shape)
    start = np.empty(shape)
    free = np.zeros((len(loads), servers))
    rows = np.arange(len(loads))
    for job in range(jobs):
        first = free.argmin(axis=1)
        start[job] = np.maximum(submit[job], free[rows, first])
        free[rows, first] = start[job] + run[job]
    columns = [np.ascontiguousarray(each.T) * HOUR_S for each in (submit, start, start + run, run)]
    return [Queue(*each) for each in zip(*columns, strict=True)]


def _queues(draw: Draw, swing: float, servers: int, days: float, load: float, runs: int) -> list[Queue]:
    days += PART_OF_A_DAY if swing else 0.0
    generator = np.random.default_rng([round(1000 * days), round(1000 * load), servers])
    return queues([load] * runs, int(days * 24 * servers * load), servers, generator, draw, swing)


def _lublin(nodes: int, days: float, load: float, runs: int) -> Iterator[Queue]:
    """Yield simulations of about so many days: of the model about 140 jobs a day fill a machine."""
    site = {"cluster": {"nodes": nodes, "cores": 1}, "workload": {"lublin": int(days * 140 * load), "load": load}}
    for seed in range(1, runs + 1):
        run = simulate(site, "easy", seed=seed)
        jobs = run.jobs
        work = np.asarray(jobs.processes * jobs.run_s, dtype=np.float64)
        yield Queue(jobs.submit_s, jobs.start_s, jobs.end_s, work, run.prepared.workload.day_s)


KINDS: Final[Mapping[str, Callable[[float, float, int], Sequence[Queue] | Iterator[Queue]]]] = {
    "exponential": partial(_queues, exponential, 0.0, SERVERS),
    "day and night": partial(_queues, exponential, 0.8, 4 * SERVERS),
    "lognormal 1.5": partial(_queues, lognormal(1.5), 0.0, SERVERS),
    "lognormal 2": partial(_queues, lognormal(2.0), 0.0, SERVERS),
    "Pareto 2.2": partial(_queues, pareto(2.2), 0.0, SERVERS),
    "Pareto 1.5": partial(_queues, pareto(1.5), 0.0, SERVERS),
    "Lublin, 32": partial(_lublin, 32),
    "Lublin, 128": partial(_lublin, 128),
}


def shares(kind: str, days: float, load: float, runs: int) -> dict[str, float]:
    """Return the shares of *yes* and *no* over some runs."""
    found = Counter(saturation(*queue[:4], cycle_s=queue.day_s).saturated for queue in KINDS[kind](days, load, runs))
    return {str(verdict): found[verdict] / runs for verdict in (Verdict.YES, Verdict.NO)}


def wilson(share: float, runs: int, z: float = 1.96) -> tuple[float, float]:
    """Return the interval of a share."""
    middle = (share + z * z / (2 * runs)) / (1 + z * z / runs)
    half = z / (1 + z * z / runs) * math.sqrt(share * (1 - share) / runs + z * z / (4 * runs * runs))
    return max(0.0, middle - half), min(1.0, middle + half)


def main() -> int:
    """Print the table, and return the exit code."""
    options = _options()
    cells = [(kind, days, load) for kind in options.kind for days in options.days for load in options.loads]
    progress = Progress()
    found = {}
    with ProcessPoolExecutor(options.workers) as pool:
        made = pool.map(_cell, cells, [options.runs] * len(cells))
        for number, (cell, share) in enumerate(zip(cells, made, strict=True), 1):
            found[cell] = share
            progress.bar(number, len(cells), cell[0])
    progress.clear()
    print("| jobs | days |" + "".join(f" {load:g} |" for load in options.loads))
    print("|---|---:|" + "---:|" * len(options.loads))
    for kind in options.kind:
        for days in options.days:
            row = [found[kind, days, load] for load in options.loads]
            texts = [f" {100 * share['yes']:.3g} / {100 * share['no']:.3g} |" for share in row]
            print(f"| {kind} | {days:g} |" + "".join(texts))
    code = 0
    for verdict, promised in PROMISED.items():
        wrong = {cell: share[verdict] for cell, share in found.items() if (cell[2] < 1) == (verdict == "yes")}
        worst = max(wrong, key=lambda cell: wrong[cell], default=None)
        if worst is not None:
            low, high = wilson(wrong[worst], options.runs)
            text = f"{100 * wrong[worst]:.3g} % ({100 * low:.2g} to {100 * high:.2g}), {worst[0]}, {worst[1]:g} days, load {worst[2]:g}"
            print(f"wrong {verdict}, at most: {text}; promised {100 * promised:g} %")
            code = code or int(low > promised)
    return code


def _cell(cell: tuple[str, float, float], runs: int) -> dict[str, float]:
    return shares(*cell, runs)


def _options() -> argparse.Namespace:
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m scripts.proofs.saturation", description=about)
    parser.add_argument("--kind", nargs="+", choices=KINDS, default=[*KINDS])
    parser.add_argument("--days", nargs="+", type=float, default=[*DAYS])
    parser.add_argument("--loads", nargs="+", type=float, default=[*LOADS])
    parser.add_argument("--runs", type=int, default=RUNS, help="of each cell (default %(default)s)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
