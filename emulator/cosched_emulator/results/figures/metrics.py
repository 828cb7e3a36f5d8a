"""The figures of a run: waits, slowdowns, penalties, kills and utilisation.

Definitions, for one job (`columns` describes requeued and preempted jobs):

- wait = last start - submission; response = end - submission; run = work done since the last start (for a completed job, its
  run time alone); penalised = time on the nodes since then - run (negative if it ran faster than alone).
- bounded slowdown = max(1, response / max(run, bound)), relative response = response / max(run, bound) (LOMARC's RBR),
  slowdown = response / run, percent penalised = 100·penalised / run. The last two are undefined for a job with run 0.

Every quantity is given for two populations, ``finished`` (COMPLETED: what the RUA paper counts) and ``all`` (every job
that ran and ended), by `STATISTICS`; the standard deviation is that of the population, divided by n. Percentiles
interpolate linearly between order statistics (numpy's rule "linear", Hyndman and Fan's type 7).
Undefined figures are None. Figures are rounded to six decimals, so times are exact to the microsecond.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from cosched_emulator.manager.record import JobRecord
from cosched_emulator.offered import POPULATIONS
from cosched_emulator.results.figures.occupancy import (
    distinct,
    exact_sum,
    integral,
    occupancy,
    product_sum,
    span_us,
    swap_taken,
    threads_in_use,
)
from cosched_emulator.results.record_columns import (
    BoolArray,
    DiskColumns,
    IntArray,
    RecordColumns,
    StayColumns,
    job_columns,
    stay_columns,
)
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.protocol.messages import CANCELLED, COMPLETED, FAILED, NODE_FAIL, REJECTED, TIMEOUT, NodeClass

FloatArray: TypeAlias = npt.NDArray[np.float64]
Summary: TypeAlias = dict[str, Any]  # JSON-ready

STATES = (COMPLETED, FAILED, TIMEOUT, CANCELLED, NODE_FAIL, REJECTED)
UNFINISHED = "UNFINISHED"  # jobs that had not ended when the run was stopped
SUMMARY_FORMAT = 1
PERCENTILE_RULE: Literal["linear"] = "linear"
_PLACES = 6


@dataclass(frozen=True, slots=True)
class Selection:
    """Which jobs count: all but the first ``warmup`` and the last ``cooldown`` by (submission, id).

    The others run too, and the figures of the machine (utilisation, makespan, ...) include them.
    """

    warmup: int = 0
    cooldown: int = 0

    def __post_init__(self) -> None:
        if self.warmup < 0 or self.cooldown < 0:
            raise ValueError(f"a selection cannot leave out a negative number of jobs: {self}")

    def mask(self, jobs: int) -> BoolArray:
        """Return a mask of the rows that count, for ``jobs`` rows in order of submission."""
        row = np.arange(jobs)
        return (row >= self.warmup) & (row < jobs - self.cooldown)


ALL_JOBS = Selection()


def summarise(records: Sequence[JobRecord], machine: Sequence[NodeClass], selection: Selection = ALL_JOBS) -> Summary:
    """Return the figures of a run as plain JSON values, keys always in the same order."""
    return summarise_columns(job_columns(records), stay_columns(records), machine, selection)


def summarise_columns(
    jobs: RecordColumns, stays: StayColumns, machine: Sequence[NodeClass], selection: Selection = ALL_JOBS
) -> Summary:
    """Return the figures of a run that is already in columns; see `summarise`."""
    counted = selection.mask(len(jobs))
    ran = population(jobs, "all", selection)
    killed = int(np.count_nonzero(ran & jobs.state.where(TIMEOUT)))
    return {
        "format": SUMMARY_FORMAT,
        "selection": {
            "jobs": len(jobs),
            "warmup": selection.warmup,
            "cooldown": selection.cooldown,
            "counted": int(np.count_nonzero(counted)),
        },
        "states": {name: int(np.count_nonzero(counted & jobs.ended & jobs.state.where(name))) for name in STATES}
        | {UNFINISHED: int(np.count_nonzero(counted & ~jobs.ended))},
        "ran": int(np.count_nonzero(ran)),
        "killed": {"count": killed, "share": _ratio(killed, int(np.count_nonzero(ran)))},
        "machine": _machine_figures(jobs, stays, machine),
        "percentile_rule": PERCENTILE_RULE,
        **{name: population_figures(jobs, population(jobs, name, selection)) for name in POPULATIONS},
    }


def population_figures(jobs: RecordColumns, rows: BoolArray) -> dict[str, dict[str, float | int | None]]:
    """Return the statistics of every quantity over some ``rows``."""
    return {key: statistics(quantity(jobs, key, rows)) for key in QUANTITIES}


def population(jobs: RecordColumns, name: str, selection: Selection = ALL_JOBS) -> BoolArray:
    """Return a mask of the rows in population ``name`` (``finished`` or ``all``) of the selected jobs."""
    ran = selection.mask(len(jobs)) & jobs.started & jobs.ended
    if name == "finished":
        return ran & jobs.state.where(COMPLETED)
    if name == "all":
        return ran
    raise ValueError(f"no population {name!r}; there are {', '.join(POPULATIONS)}")


def quantity(jobs: RecordColumns, name: str, rows: BoolArray) -> FloatArray:
    """Return quantity ``name`` (a key of `QUANTITIES`) of those ``rows`` for which it is defined."""
    return QUANTITIES[name].of(jobs, rows)


PERCENTS: Final = {"median": 50.0, "p95": 95.0}
STATISTICS: Final = ("count", "mean", *PERCENTS, "standard_deviation", "max")


def statistics(values: FloatArray) -> dict[str, float | int | None]:
    """Return the value of each of `STATISTICS`; all but the count are None without values."""
    if values.size == 0:
        return {**dict.fromkeys(STATISTICS), "count": 0}
    percentiles = np.percentile(values, [*PERCENTS.values()], method=PERCENTILE_RULE).tolist()
    found = (values.mean(), *percentiles, values.std(), values.max())
    return dict(zip(STATISTICS, (int(values.size), *map(_round, found)), strict=True))


# ---------------------------------------------------------------- quantities of jobs


def _wait_s(jobs: RecordColumns, rows: BoolArray) -> FloatArray:
    return (jobs.start_us[rows] - jobs.submit_us[rows]) / SECOND_US


def _response_us(jobs: RecordColumns, rows: BoolArray) -> IntArray:
    return jobs.end_us[rows] - jobs.submit_us[rows]


def _response_s(jobs: RecordColumns, rows: BoolArray) -> FloatArray:
    return _response_us(jobs, rows) / SECOND_US


def _relative_response(bound_s: int) -> Callable[[RecordColumns, BoolArray], FloatArray]:
    def relative_response(jobs: RecordColumns, rows: BoolArray) -> FloatArray:
        return _response_us(jobs, rows) / np.maximum(jobs.work_us[rows], bound_s * SECOND_US)

    return relative_response


def _bounded_slowdown(bound_s: int) -> Callable[[RecordColumns, BoolArray], FloatArray]:
    relative_response = _relative_response(bound_s)

    def bounded_slowdown(jobs: RecordColumns, rows: BoolArray) -> FloatArray:
        return np.maximum(1.0, relative_response(jobs, rows))

    return bounded_slowdown


def _slowdown(jobs: RecordColumns, rows: BoolArray) -> FloatArray:
    worked = rows & (jobs.work_us > 0)
    return _response_us(jobs, worked) / jobs.work_us[worked]


def _penalised_percent(jobs: RecordColumns, rows: BoolArray) -> FloatArray:
    worked = rows & (jobs.work_us > 0)
    return 100 * (jobs.wall_us[worked] - jobs.work_us[worked]) / jobs.work_us[worked]


class Quantity(NamedTuple):
    """A figure of a job: how it is computed for rows, what it is, and for which jobs it exists."""

    of: Callable[[RecordColumns, BoolArray], FloatArray]
    meaning: str
    exists_for: str = "all"


# With *run* the work done since a job's last start, which for a completed job is its run time alone.
QUANTITIES: Final[Mapping[str, Quantity]] = {
    "wait_s": Quantity(_wait_s, "start - submission"),
    "response_s": Quantity(_response_s, "end - submission"),
    "bounded_slowdown_10s": Quantity(_bounded_slowdown(10), "max(1, response / max(run, 10 s))"),
    "bounded_slowdown_60s": Quantity(_bounded_slowdown(60), "max(1, response / max(run, 60 s))"),
    "relative_response_60s": Quantity(
        _relative_response(60), "response / max(run, 60 s), may be below 1 (the LOMARC paper's RBR)"
    ),
    "slowdown": Quantity(_slowdown, "response / run", "run > 0"),
    "penalised_percent": Quantity(
        _penalised_percent,
        "100 · (time on the nodes since the last start - run) / run: how much longer than alone; time on disk does not count",
        "run > 0",
    ),
}


# ---------------------------------------------------------------- figures of the machine


# Figures of the machine in `summary.json`: what they are. Those of preemption are there only if any job was preempted.
MACHINE: Final[Mapping[str, str]] = {
    "nodes": "nodes of the machine",
    "threads": "its hardware threads",
    "makespan_s": "last end - first submission",
    "utilisation": (
        "Σ threads held · time / (threads · makespan); a thread on which jobs take turns counts once. A "
        "thread is held also while its job is slowed down, so more penalty is more utilisation"
    ),
    "node_utilisation": "node time with at least one job / (nodes · makespan)",
    "node_sharing": "node time with two jobs or more / node time with at least one",
    "node_efficiency": "Σ nodes · run / (nodes · makespan), over last starts (the LOMARC paper's E)",
    "mean_queue_length": "Σ time waited / makespan; after a requeue a job waits again, on disk it does not",
    "offered_load": (
        "Σ run time alone · threads asked / (cores, whatever their hardware threads, · time between the first "
        "and the last submission), refused jobs included"
    ),
    "jobs_per_hour": "completed jobs / makespan",
    "preemptions": "how often jobs were suspended to disk; ",
    "preemptions_per_job": "mean, of the jobs that were",
    "peak_swap_mb": "most swap space taken at any time, on all nodes together; only if any was",
}
# The other keys of `summary.json`.
SUMMARY: Final[Mapping[str, str]] = {
    "format": "1",
    "selection": "`jobs`, `warmup`, `cooldown`, `counted` = jobs - warmup - cooldown",
    "states": "how many of the counted jobs ended in each state; `UNFINISHED`: never ended",
    "ran": "counted jobs that ran and ended",
    "killed": "`count`: those of them killed at their limit (`TIMEOUT`); `share`: count / `ran`",
    "machine": "figures of the machine, below",
    "percentile_rule": "`linear`",
    "finished": "the quantities above",
    "all": "the quantities above",
}


def _machine_figures(
    jobs: RecordColumns, stays: StayColumns, machine: Sequence[NodeClass]
) -> dict[str, float | int | None]:
    """Return the figures of the machine, for all jobs including the warm-up.

    Utilisation counts held threads and node utilisation counts nodes with at least one job, each over machine · makespan; where
    jobs take turns on a thread, it counts once. Node sharing is the share of that node time with two or more jobs; node efficiency
    (LOMARC's E) is Σ nodes·run over nodes · makespan. The queue's mean length is over the makespan, which goes from the first
    submission to the last end. Offered load is Σ run·threads asked over cores · time between the first and the last submission: a
    second hardware thread is not a second processor. If jobs were preempted: the number of preemptions, their mean number per
    preempted job, and the peak of the swap space in use on all nodes, if any was. A job on disk counts neither as running nor as
    waiting.
    """
    nodes = sum(node_class.nodes for node_class in machine)
    threads = sum(node_class.nodes * node_class.threads for node_class in machine)
    cores = sum(node_class.nodes * node_class.sockets * node_class.cores_per_socket for node_class in machine)
    held = occupancy(stays, nodes)
    thread_us = held.thread_us
    if jobs.cpu_us is not None:  # several jobs may hold a thread, and take turns
        thread_us = integral(threads_in_use(stays, nodes, max(node_class.threads for node_class in machine)))
    disk = jobs.disk
    first_us, last_us = span_us(jobs, stays)
    makespan_us = last_us - first_us
    submit_span_us = int(jobs.submit_us.max()) - first_us if len(jobs) else 0
    queued_us = np.where(jobs.ended, jobs.end_us, last_us) - jobs.submit_us - jobs.held_us
    np.subtract.at(queued_us, disk.job, np.where(disk.ended, disk.end_us, last_us) - disk.start_us)
    completed = int(np.count_nonzero(jobs.state.where(COMPLETED)))
    return {
        "nodes": nodes,
        "threads": threads,
        "makespan_s": _round(makespan_us / SECOND_US) if len(jobs) else None,
        "utilisation": _ratio(thread_us, threads * makespan_us),
        "node_utilisation": _ratio(held.used_us, nodes * makespan_us),
        "node_sharing": _ratio(held.shared_us, held.used_us),
        "node_efficiency": _ratio(product_sum(jobs.nodes, jobs.work_us), nodes * makespan_us),
        "mean_queue_length": _ratio(exact_sum(np.maximum(queued_us, 0)), makespan_us),
        "offered_load": _ratio(product_sum(jobs.threads, jobs.run_us), cores * submit_span_us),
        "jobs_per_hour": _ratio(completed * 3600 * SECOND_US, makespan_us),
        **(_preemption_figures(disk) if len(disk) else {}),
    }


def _preemption_figures(disk: DiskColumns) -> dict[str, float | int | None]:
    peak_mb = int(swap_taken(disk).values.max())
    return {
        "preemptions": len(disk),
        "preemptions_per_job": _ratio(len(disk), distinct(disk.job).size),
        **({"peak_swap_mb": peak_mb} if peak_mb else {}),
    }


def _ratio(part: int, whole: int) -> float | None:
    return _round(part / whole) if whole else None


def _round(value: float | np.floating[Any]) -> float:
    return round(float(value), _PLACES)
