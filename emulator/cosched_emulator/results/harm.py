"""Compares a run with baselines: `measure_harm`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.results.ended_jobs import BoolArray, IntArray
from cosched_emulator.results.figures.metrics import ALL_JOBS, Selection, percentiles
from cosched_emulator.results.figures.occupancy import exact_sum, ratio, rounded
from cosched_emulator.results.record_columns import RecordColumns
from cosched_emulator.results.shown import Shown
from cosched_emulator.statistics import weighted
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.protocol.messages import COMPLETED, TIMEOUT, NodeClass

# What became of the jobs of a run: the columns that are compared with those of a baseline.


class LoserClasses(NamedTuple):
    """The classes of jobs: by the user's estimate as in `statistics.classes`, and by the share of the machine that they ask for."""

    short_s: int = weighted.SHORT_S  # estimate of a short job, at most
    medium_s: int = weighted.MEDIUM_S  # of a medium one
    wide: float = weighted.WIDE  # a wide job asks for more hardware threads than this share of the machine's cores


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """One row per job, in any order. Times are int64 microseconds since the first submission.

    Raises ValueError for columns of different lengths, an id that is there twice, and a class that has no name.
    """

    id: IntArray
    submit_us: IntArray
    start_us: IntArray  # the last start
    end_us: IntArray
    nodes_us: IntArray  # time on its nodes since the last start: less than end - start if it was on disk meanwhile
    completed: BoolArray  # the times of other jobs are ignored
    killed: BoolArray  # at the limit
    size: IntArray  # hardware threads asked for
    kind: IntArray  # class: index in ``class_names``
    counted: BoolArray  # false: part of a warm-up or cool-down
    class_names: tuple[str, ...] = weighted.CLASS_NAMES

    def __post_init__(self) -> None:
        sizes = {len(column) for column in self._columns()}
        if len(sizes) != 1:
            raise ValueError(f"expected columns of one length, got {sorted(sizes)}")
        if np.unique(self.id).size != self.id.size:
            raise ValueError("expected each id once")
        if self.kind.size and not 0 <= self.kind.min() <= self.kind.max() < len(self.class_names):
            raise ValueError(f"expected classes from 0 to {len(self.class_names) - 1}")

    def __len__(self) -> int:
        return self.id.size

    def _columns(self) -> tuple[npt.NDArray[Any], ...]:
        times = (self.submit_us, self.start_us, self.end_us, self.nodes_us)
        return (self.id, *times, self.completed, self.killed, self.size, self.kind, self.counted)


def outcomes(
    jobs: RecordColumns,
    machine: Sequence[NodeClass],
    selection: Selection = ALL_JOBS,
    classes: LoserClasses | None = None,
) -> Outcomes:
    """Return what became of the jobs of a run on ``machine``. Raises ConfigurationError for ``classes`` that are none."""
    return Outcomes(
        id=jobs.id,
        submit_us=jobs.submit_us,
        start_us=jobs.start_us,
        end_us=jobs.end_us,
        nodes_us=jobs.wall_us,
        completed=jobs.started & jobs.ended & jobs.state.where(COMPLETED),
        killed=jobs.ended & jobs.state.where(TIMEOUT),
        size=jobs.threads,
        kind=_classes(jobs, machine, LoserClasses() if classes is None else classes),
        counted=selection.mask(len(jobs)),
    )


def _classes(jobs: RecordColumns, machine: Sequence[NodeClass], classes: LoserClasses) -> IntArray:
    """Return the index in `CLASS_NAMES` of each job's class; what equals a bound belongs to the class below it."""
    if not (0 <= classes.short_s <= classes.medium_s and classes.wide >= 0):
        raise ConfigurationError("classes", "0 <= short_s <= medium_s, and wide of 0 or more", repr(classes))
    cores = sum(item.nodes * item.cores for item in machine)
    length = weighted.length_numbers(jobs.estimate_us, classes.short_s * SECOND_US, classes.medium_s * SECOND_US)
    return len(weighted.WIDTHS) * length + weighted.width_numbers(jobs.threads, cores, classes.wide)


# Pairs the jobs of a run with the same jobs of a baseline, by id, and counts those without a response in both.


class Unpaired(NamedTuple):
    """The jobs that did not complete in both runs, by what became of them; only jobs that count."""

    killed: int  # completed in the baseline, killed at the limit in the run
    not_completed: int  # completed in the baseline; in the run it failed, was cancelled or refused, or never ended
    missing: int  # in the baseline, not in the run
    baseline_killed: int  # completed in the run, killed at the limit in the baseline
    baseline_not_completed: int  # completed in the run, not in the baseline for another reason
    baseline_missing: int  # in the run, not in the baseline
    neither: int  # in both, completed in neither


def rows_in(run: Outcomes, baseline: Outcomes) -> IntArray:
    """Return the row in ``baseline`` of each job of ``run``, -1 if it is not there.

    Raises ConfigurationError if no job is in both, or if a job in both differs in submission or size: another workload.
    """
    order = np.argsort(baseline.id, kind="stable")
    place = np.searchsorted(baseline.id, run.id, sorter=order)
    rows = order[np.minimum(place, len(baseline) - 1)] if len(baseline) else np.zeros(len(run), dtype=np.int64)
    found = baseline.id[rows] == run.id if len(baseline) else np.zeros(len(run), dtype=np.bool_)
    here, there = np.flatnonzero(found), rows[found]
    if len(run) and not here.size:
        raise ConfigurationError("baseline", "a run of the same jobs", "one without any of them")
    differs = (run.submit_us[here] != baseline.submit_us[there]) | (run.size[here] != baseline.size[there])
    if differs.any():
        job = int(run.id[here[np.argmax(differs)]])
        got = f"another job {job}: it was submitted at another time, or asks for another number of processors"
        raise ConfigurationError("baseline", "a run of the same jobs", got)
    return np.where(found, rows, -1)


def completed_in(baseline: Outcomes, rows: IntArray) -> BoolArray:
    """Return for each of ``rows``, which may be -1, whether its job completed."""
    return _at(baseline.completed, rows)


def count_unpaired(run: Outcomes, baseline: Outcomes, rows: IntArray) -> Unpaired:
    """Return the numbers of jobs that did not complete in both; ``rows`` is of `rows_in`."""
    there = rows >= 0
    done, base_done = run.completed, completed_in(baseline, rows)
    absent = ~np.isin(baseline.id, run.id)

    def count(jobs: BoolArray) -> int:
        return int(np.count_nonzero(jobs & run.counted))

    base_killed = _at(baseline.killed, rows)
    return Unpaired(
        killed=count(base_done & ~done & run.killed),
        not_completed=count(base_done & ~done & ~run.killed),
        missing=int(np.count_nonzero(absent & baseline.counted)),
        baseline_killed=count(done & base_killed),
        baseline_not_completed=count(done & there & ~base_done & ~base_killed),
        baseline_missing=count(~there),
        neither=count(there & ~done & ~base_done),
    )


def _at(column: BoolArray, rows: IntArray) -> BoolArray:
    """Return the values in ``rows``, false for -1."""
    found = np.zeros(rows.size, dtype=np.bool_)
    found[rows >= 0] = column[rows[rows >= 0]]
    return found


# How many jobs respond later than in a baseline, and by how much.
#
# R is a job's response, end - submission. A job is *later* than in a baseline if R > 1.05 · R_baseline + 60 s.
#
# - H1 = share of the jobs that are later than in the first baseline. Most of it is chance: any change reshuffles a schedule.
# - Hshk = share of the jobs that are later than in *every* baseline, where the other baselines are the first one with slightly
#   shaken run times. Its floor is what chance alone gives: each baseline in turn takes the place of the run and is compared with
#   all other baselines; the floor is the mean of these shares. It has one baseline less to beat, so it is slightly high.
#
# H1 counts jobs that completed in the run and in the first baseline; Hshk and floor those that completed in every run.

QUANTILES = (1, 5, 25, 50, 75, 95, 99, 100)


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
    # Quantiles p1 ... p99, max of R / R_baseline, over jobs with R_baseline > 0; empty without any
    ratio: dict[str, float]


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
        h1=ratio(later, number),
        jobs_in_all=in_all,
        later_than_all=later_than_all,
        hshk=ratio(later_than_all, in_all),
        hshk_floor=ratio(int(jobs.floor_count.sum()), baselines * in_all),
        lost_s=rounded(lost / SECOND_US),
        gained_s=rounded(gained / SECOND_US),
        lost_share=ratio(lost, base_us),
        response_mean_s=ratio(exact_sum(jobs.response_us), number * SECOND_US),
        baseline_mean_s=ratio(base_us, number * SECOND_US),
        response_p99_s=_p99_s(jobs.response_us),
        baseline_p99_s=_p99_s(jobs.baseline_us),
        ratio=_quantiles(jobs),
    )


def _quantiles(jobs: PairedJobs) -> dict[str, float]:
    some = jobs.baseline_us > 0
    if not some.any():
        return {}
    values = percentiles(jobs.response_us[some] / jobs.baseline_us[some], QUANTILES)
    names = ["max" if percent == 100 else f"p{percent}" for percent in QUANTILES]
    return {name: rounded(value) for name, value in zip(names, values, strict=True)}


def _p99_s(times_us: IntArray) -> float | None:
    return rounded(percentiles(times_us, (99,))[0] / SECOND_US) if times_us.size else None


# The jobs that lose most, and what the records tell of the cause.

LATER_START, SLOWER_RUN, ON_DISK = "later start", "slower run", "on disk"
KILLED = "killed at the limit"
_LEAST_SHARE = 10  # a part is named as a cause if it is at least a tenth of the loss


class Loser(NamedTuple):
    """A job that responds later than in the baseline. Times in seconds."""

    id: int
    job_class: str
    size: int  # hardware threads asked for
    submit_s: float
    response_s: float
    baseline_s: float  # response in the first baseline
    lost_s: float  # the difference
    ratio: float | None  # response_s / baseline_s; None: the latter is 0
    wait_lost_s: float  # part of the loss: longer until its last start
    nodes_lost_s: float  # longer on its nodes: a co-located job, a slower node, suspension in place
    disk_lost_s: float  # longer off its nodes since its last start: suspended to disk
    later: bool  # whether it counts as later than in the first baseline
    later_than_all: bool | None  # than in every baseline; None: there is one, or it did not complete in all of them
    cause: str  # the parts of at least a tenth of the loss; empty: it lost nothing


def worst_first(jobs: PairedJobs) -> IntArray:
    """Return the rows in order of seconds lost, most first, then of id."""
    return np.lexsort((jobs.id, -jobs.lost_us))


def losers_of(jobs: PairedJobs, class_names: tuple[str, ...], rows: IntArray) -> list[Loser]:
    """Return some rows of ``jobs`` as records, with the cause."""
    lost_us = jobs.lost_us
    causes = {
        LATER_START: _is_cause(jobs.wait_lost_us, lost_us),
        SLOWER_RUN: _is_cause(jobs.nodes_lost_us, lost_us),
        ON_DISK: _is_cause(jobs.disk_lost_us, lost_us),
    }
    return [
        Loser(
            id=int(jobs.id[row]),
            job_class=class_names[int(jobs.kind[row])],
            size=int(jobs.size[row]),
            submit_s=_seconds(jobs.submit_us, row),
            response_s=_seconds(jobs.response_us, row),
            baseline_s=_seconds(jobs.baseline_us, row),
            lost_s=_seconds(lost_us, row),
            ratio=float(jobs.response_us[row] / jobs.baseline_us[row]) if jobs.baseline_us[row] else None,
            wait_lost_s=_seconds(jobs.wait_lost_us, row),
            nodes_lost_s=_seconds(jobs.nodes_lost_us, row),
            disk_lost_s=_seconds(jobs.disk_lost_us, row),
            later=bool(jobs.later[row]),
            later_than_all=bool(jobs.later_than_all[row]) if jobs.in_all[row] else None,
            cause=", ".join([name for name, where in causes.items() if where[row]]),
        )
        for row in rows.tolist()
    ]


def _is_cause(part_us: IntArray, lost_us: IntArray) -> BoolArray:
    return (lost_us > 0) & (_LEAST_SHARE * part_us >= lost_us)


def _seconds(column_us: IntArray, row: int) -> float:
    return float(column_us[row] / SECOND_US)


DEFAULT_RULE = LaterRule()


@dataclass(frozen=True, eq=False)
class Harm(Shown):
    """Which jobs of a run respond later than in its baselines, by how much, and why. It can be pickled."""

    rule: LaterRule
    baselines: int
    unpaired: Unpaired  # jobs without a response in both the run and the first baseline
    figures: HarmFigures  # of all jobs
    by_class: dict[str, HarmFigures]  # of classes that have a job, in order
    # Ids of the jobs that completed in the first baseline and were killed at the limit in the run
    killed: tuple[int, ...]
    class_names: tuple[str, ...] = field(repr=False)
    jobs: PairedJobs = field(repr=False)  # one row per job that completed in the run and in the first baseline

    def losers(self, most: int = 10) -> list[Loser]:
        """Return the jobs that count as later than in the first baseline, the largest loss in seconds first."""
        rows = worst_first(self.jobs)
        return losers_of(self.jobs, self.class_names, rows[self.jobs.later[rows]][: max(0, most)])

    def every_job(self) -> list[Loser]:
        """Return all jobs that completed in both runs, the largest loss first, also those that gain."""
        return losers_of(self.jobs, self.class_names, worst_first(self.jobs))

    def as_dict(self, most: int = 10) -> dict[str, Any]:
        """Return all figures and the ``most`` worst losers as plain values for JSON."""
        return {
            "rule": self.rule._asdict(),
            "baselines": self.baselines,
            "unpaired": self.unpaired._asdict(),
            "all": self.figures._asdict(),
            "classes": {name: figures._asdict() for name, figures in self.by_class.items()},
            "losers": [loser._asdict() for loser in self.losers(most)],
            "killed": list(self.killed),
        }


def measure_harm(run: Outcomes, baselines: Sequence[Outcomes], rule: LaterRule = DEFAULT_RULE) -> Harm:
    """Compare ``run`` with the same jobs, by id, of the first of ``baselines``, and with all of them.

    The baselines after the first are runs of the same scheduler with slightly shaken run times. Only jobs that count in ``run``
    do. Raises ConfigurationError if there is no baseline, or one of other jobs.
    """
    if not baselines:
        raise ConfigurationError("baseline", "at least one run", "none")
    rows = [rows_in(run, baseline) for baseline in baselines]
    first, base_done = baselines[0], completed_in(baselines[0], rows[0])
    killed = run.id[run.counted & base_done & run.killed & ~run.completed]
    jobs = _paired(run, baselines, rows, rule)
    chosen = [(name, jobs.kind == number) for number, name in enumerate(run.class_names)]
    return Harm(
        rule=rule,
        baselines=len(baselines),
        unpaired=count_unpaired(run, first, rows[0]),
        figures=harm_figures(jobs, len(baselines)),
        by_class={name: harm_figures(jobs.only(which), len(baselines)) for name, which in chosen if which.any()},
        killed=tuple(np.sort(killed).tolist()),
        class_names=run.class_names,
        jobs=jobs,
    )


def _paired(run: Outcomes, baselines: Sequence[Outcomes], rows: Sequence[IntArray], rule: LaterRule) -> PairedJobs:
    """Return the jobs that count and completed in the run and in the first baseline; ``rows`` by baseline, of `rows_in`."""
    first = baselines[0]
    here = np.flatnonzero(run.counted & run.completed & completed_in(first, rows[0]))
    there = rows[0][here]
    response_us = run.end_us[here] - run.submit_us[here]
    done = [completed_in(baseline, row[here]) for baseline, row in zip(baselines, rows, strict=True)]
    in_all = np.logical_and.reduce(done) & (len(baselines) > 1)
    base_us = np.stack(
        [
            baseline.end_us[row[here]] - baseline.submit_us[row[here]]
            for baseline, row in zip(baselines, rows, strict=True)
        ]
    )
    floor_count = np.zeros(here.size, dtype=np.int64)
    if len(baselines) > 1:
        for number in range(len(baselines)):
            floor_count += in_all & rule.later(base_us[number], np.delete(base_us, number, axis=0).max(axis=0))
    wait_lost_us = run.start_us[here] - first.start_us[there]  # both were submitted at the same time
    nodes_lost_us = run.nodes_us[here] - first.nodes_us[there]
    return PairedJobs(
        id=run.id[here],
        kind=run.kind[here],
        size=run.size[here],
        submit_us=run.submit_us[here],
        response_us=response_us,
        baseline_us=base_us[0],
        wait_lost_us=wait_lost_us,
        nodes_lost_us=nodes_lost_us,
        disk_lost_us=response_us - base_us[0] - wait_lost_us - nodes_lost_us,
        later=rule.later(response_us, base_us[0]),
        in_all=in_all,
        later_than_all=in_all & rule.later(response_us, base_us.max(axis=0)),
        floor_count=floor_count,
    )
