"""Slowdowns of pairs of applications from elapsed times alone, as an accounting has them: nobody has measured anything.

Runs are compared within a *population*: runs of one application that do the same amount of work but for chance. A run that is alone
for ``alone_s``, then beside one other application for ``beside_s``, then alone for ``after_s`` has done

    work(s) = alone_s + beside_s / s + after_s          in seconds alone, if it is s times as slow beside the other

A slowdown s is possible if, counted in work(s), it does not matter for a run's end whether it had company: a rank test for
survival times (Gehan's, Biometrika 1965; for a job whose pace changes: Robins and Tsiatis, Biometrika 1992). The estimate is the s at
which the test's sum is 0; its interval has all s that the test, at 5 %, does not refuse. Why not the median ratio of run times:

- *Partial overlap*. A run counts by the part of its work that it did beside the other, and no threshold selects runs by how long they
  took: runs that had company for half of their time are the short ones, where guests have one length.
- *The long ones have company*. A job that runs longer meets more guests. A run is compared from the instant on at which it met one,
  with runs that had lasted as long; one that goes on beside a third application, or does not complete, had not ended by then.
- *Ranks*, not means: a run that took ten times as long, as its input was another, counts as one that was longer.

The bias that is left: when a job meets another may depend on nothing that tells how long it will run. A job that shares some of its
nodes counts as sharing all, as its slowest process decides. Times are whole seconds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from cosched_hwmodel.measured.co_run_table import Bools, Floats, Ints

LEAST_SLOWDOWN: Final = 0.25  # that is looked for: noise makes some jobs faster
MOST_SLOWDOWN: Final = 32.0
LEAST_RUNS: Final = 3  # completed runs in company; of fewer no interval has two ends
LEAST_PART: Final = 0.5  # of its time that a run is beside the other, to be counted as one of the pair's runs
_QUANTILE: Final = 1.96  # of the normal distribution, for 95 %
_ROUNDS: Final = 12  # halvings of the logarithm's range: to 0.06 %
_MOST: Final = 60  # runs of a population beside the other that are compared, the latest ones
_OTHERS: Final = 4  # other runs for each of these, and at least so many:
_LEAST_OTHERS: Final = 40


class Run(NamedTuple):
    """A run of an application; times in seconds."""

    application: str
    population: Hashable
    alone_s: float  # before it had company, or at all
    beside: str  # the application that it was beside; empty: none
    beside_s: float
    after_s: float  # alone again
    completed: bool  # by itself: a run that has not was not done by then

    @property
    def elapsed_s(self) -> float:
        """Return the whole time."""
        return self.alone_s + self.beside_s + self.after_s


class Slowdown(NamedTuple):
    """What elapsed times say of an application beside another one."""

    ratio: float
    low: float  # interval of 95 %; 0: open
    high: float  # inf: open
    number: int  # completed runs that were beside the other for `LEAST_PART` of their time


class Alone(NamedTuple):
    """What is known of an application without company."""

    number: int  # completed runs without company
    populations: int
    deviation: float  # standard deviation of the logarithm of run times within a population, by quartiles; nan: unknown


def slowdowns_of(runs: Iterable[Run]) -> dict[tuple[str, str], Slowdown]:
    """Return what runs say of each pair (application, beside); a pair of which they say nothing is not there."""
    by_population: dict[Hashable, list[Run]] = {}
    pairs: dict[tuple[str, str], Counter[Hashable]] = {}
    for run in runs:
        by_population.setdefault(run.population, []).append(run)
        if run.beside:
            pairs.setdefault((run.application, run.beside), Counter())[run.population] += run.completed
    found = {}
    for (application, other), populations in sorted(pairs.items()):
        if populations.total() < LEAST_RUNS:
            continue
        slowdown = _slowdown([by_population[key] for key in populations], other)
        if slowdown is not None:
            found[application, other] = slowdown
    return found


def alone_of(runs: Iterable[Run]) -> dict[str, Alone]:
    """Return what is known of each application alone."""
    times: dict[str, dict[Hashable, list[float]]] = {}
    for run in runs:
        own = times.setdefault(run.application, {}).setdefault(run.population, [])
        if run.completed and not run.beside:
            own.append(run.elapsed_s)
    found = {}
    for application, populations in sorted(times.items()):
        logs = [np.log(own) - math.log(float(np.median(own))) for own in populations.values() if len(own) > 2]
        # Of a normal distribution, quartiles lie 1.349 standard deviations apart.
        apart = np.diff(np.percentile(np.concatenate(logs), (25, 75)))[0] / 1.349 if logs else math.nan
        number = sum(map(len, populations.values()))
        found[application] = Alone(number, len(populations), float(apart))
    return found


def _slowdown(populations: Sequence[Sequence[Run]], other: str) -> Slowdown | None:
    sample = _Sample.of(populations, other)
    if sample is None:
        return None
    middle, low, high = (_root(partial(sample.score, sign=sign)) for sign in (0.0, 1.0, -1.0))
    if not 0.0 < middle < math.inf:
        return None
    return Slowdown(middle, low, high, sample.number)


def _root(score: Callable[[float], float]) -> float:
    """Return the slowdown at which an increasing score is 0; 0 or inf where it lies beyond all that is looked for."""
    lowest, highest = math.log(LEAST_SLOWDOWN), math.log(MOST_SLOWDOWN)
    if score(math.exp(lowest)) >= 0.0:
        return 0.0
    if score(math.exp(highest)) <= 0.0:
        return math.inf
    for _ in range(_ROUNDS):
        middle = (lowest + highest) / 2
        if score(math.exp(middle)) < 0.0:
            lowest = middle
        else:
            highest = middle
    return math.exp((lowest + highest) / 2)


class _Sample(NamedTuple):
    """Runs of several populations, one after the other, as columns; those with company are named by their places."""

    alone_s: Floats
    beside_s: Floats
    after_s: Floats
    completed: Bools
    last: Ints  # of each run: where its population ends
    size: Floats  # of each run: how many its population has
    events: Ints  # of each comparison: the run that completes,
    others: Ints  # and a run with company of the same population
    number: int

    @classmethod
    def of(cls, populations: Sequence[Sequence[Run]], other: str) -> _Sample | None:
        """Return the runs that are compared; None where none can be."""
        rows: list[tuple[float, float, float, bool]] = []
        ends, events, others = [], [], []
        number = 0
        for runs in populations:
            beside = list(islice((run for run in reversed(runs) if run.beside == other), _MOST))
            most = max(_LEAST_OTHERS, _OTHERS * len(beside))
            rest = list(islice((run for run in reversed(runs) if run.beside != other), most))
            first, company = len(rows), len(rows) + len(beside)
            rows += [run[2:3] + run[4:] for run in beside]
            # Whoever meets a third application was not done by then.
            rows += [(run.alone_s, 0.0, 0.0, run.completed and not run.beside) for run in rest]
            done = [place for place in range(first, len(rows)) if rows[place][3]]
            if len(rows) > company and done:
                number += sum(run.completed and run.beside_s >= LEAST_PART * run.elapsed_s for run in beside)
                events.append(np.repeat(done, company - first))
                others.append(np.tile(np.arange(first, company), len(done)))
            ends += [(len(rows), len(rows) - first)] * (len(rows) - first)
        if not events:
            return None
        alone_s, beside_s, after_s, completed = (np.array(column) for column in zip(*rows, strict=True))
        last, size = (np.array(column) for column in zip(*ends, strict=True))
        return cls(
            alone_s, beside_s, after_s, completed, last, size.astype(np.float64),
            np.concatenate(events), np.concatenate(others), number,
        )  # fmt: skip

    def score(self, slowdown: float, sign: float) -> float:
        """Return the test's sum at a slowdown, with which it increases; plus or minus its bound where it is to be 0 at an end."""
        beside = self.beside_s / slowdown
        work = self.alone_s + beside + self.after_s
        events, others = self.events, self.others
        at = work[events]
        # Of each run with company that was not done by then: the part of its work that it had done in company.
        part = np.minimum(np.maximum(at - self.alone_s[others], 0.0), beside[others]) / at
        part[work[others] < at] = 0.0
        done = self.completed.nonzero()[0]
        # Populations one after the other on one axis, so that one search counts who was not done.
        axis = work + self.last * (float(work.max()) + 1.0)
        left = self.last[done] - np.searchsorted(np.sort(axis), axis[done])
        weight = left / (1.0 + self.size[done])
        mean = np.bincount(events, part, len(work))[done] / left
        total = float((weight * (beside[done] / work[done] - mean)).sum())
        if not sign:
            return total
        square, cube = (
            np.bincount(events, power, len(work))[done] / left for power in (part * part, part * part * part)
        )
        deviation = math.sqrt(max(0.0, float((weight**2 * (square - mean**2)).sum())))
        third = float((weight**3 * (cube - 3.0 * mean * square + 2.0 * mean**3)).sum())
        # Cornish and Fisher's term for a skewed sum, where it makes the interval wider: with few ends of runs on one side, 9 % of the
        # intervals were off on the other, with it 4 %.
        skew = third / deviation**3 * (_QUANTILE**2 - 1.0) / 6.0 if deviation else 0.0
        return total + sign * (_QUANTILE + max(0.0, -sign * skew)) * deviation
