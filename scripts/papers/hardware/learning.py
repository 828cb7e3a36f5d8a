"""Learning which applications may share nodes, with measured co-runs as the truth and nothing known at first.

Usage: .venv/bin/python -m scripts.papers.hardware.learning [--logs DIR] [--jobs 3000] [--seeds 10] [--noise 0]

Jobs come one by one, without a queue. Each may run beside one of eight others, whose applications are drawn, or alone: it takes the one
with which most work is done among those that are believed to slow neither of the two beyond 1.05 times its compact run time. What is
gained is told as a share of what an oracle gains under the same bound. Prints a table; each interval is of 95 % over seeds.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from scripts.papers.figures import interval_text
from scripts.papers.hardware.co_runs import aris_file
from scripts.tables import table_head, table_row

from cosched_emulator.statistics.intervals import mean_interval
from cosched_hwmodel.measured.co_run_table import CoRunTable, read_table
from cosched_hwmodel.pairs import PairModel
from cosched_plugin.policies.belief.learned import LearnedPairs, Memory, estimate
from cosched_plugin.policies.composition.catalogue import BELIEFS
from cosched_plugin.protocol.messages import JobSpec

MOST: Final = 1.05  # run time over the compact one
CHOICE: Final = 8
FIRST: Final = 1_500  # jobs of the first part
PARTS: Final = ((0, 200), (200, 400), (400, 800), (800, FIRST), (0, FIRST))


class Outcome(NamedTuple):
    """A job: what an oracle, a random partner and the learned choice gain, in nodes' worth of work a node."""

    oracle: float
    random: float
    random_over: bool  # one of the two takes longer than the bound
    learned: float
    beside: bool  # the learned choice is a partner
    over: bool


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


def play(table: CoRunTable, jobs: int, seed: int, noise: float = 0.0) -> Iterator[Outcome]:
    """Yield the outcome of each job. ``noise``: standard deviation of the logarithm of a measurement."""
    names, random = all_measured(table), Random(seed)
    settings: dict[str, Any] = {**BELIEFS["learned"].defaults()}
    memory = Memory()
    model: LearnedPairs | None = None
    for number in range(1, jobs + 1):
        own, choice = random.choice(names), random.choices(names, k=CHOICE)
        if model is None:
            model = LearnedPairs(
                estimate(memory.pairs), {}, errors=settings["errors"], trials=settings["trials"], given=None
            )
        true = {other: (table.ratios[own, other], table.ratios[other, own]) for other in choice}
        believed = {other: _ratios(own, other, number, model) for other in choice}
        fair = [_gain(ratios) for ratios in true.values() if max(ratios) <= MOST]
        best = max(
            (other for other in choice if max(believed[other]) <= MOST),
            key=lambda other, of=believed: _gain(of[other]),  # type: ignore[misc]
            default=None,
        )
        drawn = true[random.choice(choice)]
        found = None if best is None else true[best]
        yield Outcome(
            max([0.0, *fair]),
            _gain(drawn),
            max(drawn) > MOST,
            0.0 if found is None else _gain(found),
            found is not None,
            found is not None and max(found) > MOST,
        )
        if best is not None:
            for one, other, ratio in ((own, best, true[best][0]), (best, own, true[best][1])):
                memory.learn(_job(one, number), other, round(1e6 * ratio * math.exp(random.gauss(0.0, noise))))
            model = None


def _job(name: str, number: int) -> JobSpec:
    return JobSpec(number, 0, 1, 1, None, name=name)


def _ratios(own: str, other: str, number: int, model: PairModel) -> tuple[float, float]:
    """Return the believed run times of both over the compact ones."""
    one, two = _job(own, number), _job(other, number)
    return (model.spread(one) or 1.0) * model.slowdown(one, two), (model.spread(two) or 1.0) * model.slowdown(two, one)


def _gain(ratios: tuple[float, float]) -> float:
    return (1.0 / ratios[0] + 1.0 / ratios[1]) / 2.0 - 1.0


def figures(outcomes: Sequence[Outcome]) -> list[float]:
    """Return, in percent: gain of the learned choice and of a random partner over the oracle's, and what is over the bound."""
    oracle = sum([each.oracle for each in outcomes])
    beside = sum([each.beside for each in outcomes])
    over = sum([each.over for each in outcomes])
    count = len(outcomes)
    return [
        100 * sum([each.learned for each in outcomes]) / oracle,
        100 * sum([each.random for each in outcomes]) / oracle,
        100 * over / max(1, beside),
        100 * over / count,
        100 * sum([each.random_over for each in outcomes]) / count,
        100 * beside / count,
    ]


HEADS: Final = (
    "gain, of the oracle's",
    "random partner",
    "over the bound, of co-runs",
    "of jobs",
    "random partner",
    "beside another",
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Learn from measured NAS pairs, with nothing known at first.")
    parser.add_argument("--logs", type=Path, default=None, metavar="DIR", help="the folder of logs and tables")
    parser.add_argument("--jobs", type=int, default=3_000, help=f"jobs of a seed, more than {FIRST}")
    parser.add_argument("--seeds", type=int, default=10, help="number of seeds")
    parser.add_argument("--noise", type=float, default=0.0, help="standard deviation of a measurement's logarithm")
    given = parser.parse_args()
    if given.jobs <= FIRST or given.seeds < 2:
        parser.error(f"expected more than {FIRST} jobs and at least 2 seeds, got {given.jobs} and {given.seeds}")
    table = read_table(aris_file(given.logs))
    runs = [list(play(table, given.jobs, seed, given.noise)) for seed in range(10, 10 + given.seeds)]
    for line in table_head(["jobs"], [f"{head}, %" for head in HEADS]):
        print(line)
    for low, high in (*PARTS, (FIRST, given.jobs)):
        rows = [figures(run[low:high]) for run in runs]
        print(
            table_row([f"{low + 1}-{high}"], [interval_text(mean_interval(each)) for each in zip(*rows, strict=True)])
        )


if __name__ == "__main__":
    main()
