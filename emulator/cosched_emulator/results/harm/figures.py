"""How many jobs respond later than in a baseline, and by how much.

R is a job's response, end - submission. A job is *later* than in a baseline if R > 1.05 · R_baseline + 60 s.

- H1 = share of the jobs that are later than in the first baseline. Most of it is chance: any change reshuffles a schedule.
- Hshk = share of the jobs that are later than in *every* baseline, where the other baselines are the first one with slightly
  shaken run times. Its floor is what chance alone gives: each baseline in turn takes the place of the run and is compared with
  all other baselines; the floor is the mean of these shares. It has one baseline less to beat, so it is slightly high.

H1 counts jobs that completed in the run and in the first baseline; Hshk and floor those that completed in every run.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cosched_emulator.results.columns import BoolArray, IntArray
from cosched_emulator.results.figures.metrics import PERCENTILE_RULE
from cosched_emulator.results.figures.occupancy import exact_sum
from cosched_hwmodel.units import SECOND_US

QUANTILES = (1, 5, 25, 50, 75, 95, 99, 100)
_PLACES = 6


class LaterRule(NamedTuple):
    """When a job counts as later: R > factor · R_baseline + grace."""

    factor: float = 1.05
    grace_s: float = 60.0

    def later(self, response_us: IntArray, baseline_us: IntArray) -> BoolArray:
        """Return which responses are later than those of the baseline; exact for whole microseconds."""
        return response_us > self.factor * baseline_us + self.grace_s * SECOND_US


@dataclass(frozen=True, slots=True, eq=False)
class PairedJobs:
    """One row per job that counts and completed in the run and in the first baseline; times in microseconds.

    What a job lost is the sum of three parts: ``wait_lost_us + nodes_lost_us + disk_lost_us``. A gain is below 0.
    """

    id: IntArray
    kind: IntArray  # class
    size: IntArray  # hardware threads asked for
    submit_us: IntArray
    response_us: IntArray
    baseline_us: IntArray  # response in the first baseline
    wait_lost_us: IntArray  # longer until its last start
    nodes_lost_us: IntArray  # longer on its nodes
    disk_lost_us: IntArray  # longer off them since its last start: suspended to disk
    later: BoolArray  # than in the first baseline
    in_all: BoolArray  # completed in every baseline, of which there are at least two
    later_than_all: BoolArray  # than in each of them; false where not ``in_all``
    floor_count: IntArray  # in how many baselines it is later than in all the others; 0 where not ``in_all``

    def __len__(self) -> int:
        return self.id.size

    @property
    def lost_us(self) -> IntArray:
        """Return by how much each job responds later; below 0: earlier."""
        return self.response_us - self.baseline_us

    def only(self, chosen: BoolArray) -> PairedJobs:
        """Return the rows of some of the jobs."""
        return PairedJobs(**{field.name: getattr(self, field.name)[chosen] for field in fields(self)})


class HarmFigures(NamedTuple):
    """The figures of all jobs or of one class; what does not exist is None. Rounded to six decimals."""

    jobs: int  # completed in the run and in the first baseline
    later: int
    h1: float | None  # share of ``jobs``
    jobs_in_all: int  # completed in every run; 0 where there is one baseline
    later_than_all: int
    hshk: float | None  # share of ``jobs_in_all``
    hshk_floor: float | None
    lost_s: float  # Σ of what the jobs that respond later lose, whether they count as later or not
    gained_s: float  # Σ of what the others gain
    lost_share: float | None  # lost_s / Σ responses in the baseline
    response_mean_s: float | None
    baseline_mean_s: float | None
    response_p99_s: float | None
    baseline_p99_s: float | None
    ratio: dict[
        str, float
    ]  # quantiles p1 ... p99, max of R / R_baseline, over jobs with R_baseline > 0; empty without any


def harm_figures(jobs: PairedJobs, baselines: int) -> HarmFigures:
    """Return the figures of ``jobs``, compared with this number of ``baselines``."""
    number, in_all = len(jobs), int(np.count_nonzero(jobs.in_all))
    later, later_than_all = (int(np.count_nonzero(which)) for which in (jobs.later, jobs.later_than_all))
    lost_us = jobs.lost_us
    lost, gained = exact_sum(np.maximum(lost_us, 0)), exact_sum(np.maximum(-lost_us, 0))
    base_us = exact_sum(jobs.baseline_us)
    return HarmFigures(
        jobs=number,
        later=later,
        h1=_ratio(later, number),
        jobs_in_all=in_all,
        later_than_all=later_than_all,
        hshk=_ratio(later_than_all, in_all),
        hshk_floor=_ratio(int(jobs.floor_count.sum()), baselines * in_all),
        lost_s=_round(lost / SECOND_US),
        gained_s=_round(gained / SECOND_US),
        lost_share=_ratio(lost, base_us),
        response_mean_s=_ratio(exact_sum(jobs.response_us), number * SECOND_US),
        baseline_mean_s=_ratio(base_us, number * SECOND_US),
        response_p99_s=_p99_s(jobs.response_us),
        baseline_p99_s=_p99_s(jobs.baseline_us),
        ratio=_quantiles(jobs),
    )


def _quantiles(jobs: PairedJobs) -> dict[str, float]:
    some = jobs.baseline_us > 0
    if not some.any():
        return {}
    values = _percentiles(jobs.response_us[some] / jobs.baseline_us[some], QUANTILES)
    names = ["max" if percent == 100 else f"p{percent}" for percent in QUANTILES]
    return {name: _round(value) for name, value in zip(names, values, strict=True)}


def _p99_s(times_us: IntArray) -> float | None:
    return _round(_percentiles(times_us, (99,))[0] / SECOND_US) if times_us.size else None


def _percentiles(values: npt.NDArray[np.float64] | IntArray, percents: tuple[int, ...]) -> list[float]:
    found: list[float] = np.percentile(values, percents, method=PERCENTILE_RULE).tolist()
    return found


def _ratio(part: int, whole: int) -> float | None:
    return _round(part / whole) if whole else None


def _round(value: float) -> float:
    return round(value, _PLACES)
