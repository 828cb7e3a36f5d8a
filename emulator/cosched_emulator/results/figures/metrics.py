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

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from cosched_emulator.manager.record import JobRecord, QuantumRecord
from cosched_emulator.offered import POPULATIONS
from cosched_emulator.results.ended_jobs import BoolArray, IntArray
from cosched_emulator.results.figures.occupancy import (
    Steps,
    distinct,
    exact_sum,
    integral,
    occupancy,
    product_sum,
    ratio,
    rounded,
    span_us,
    steps_of,
    swap_taken,
    threads_in_use,
)
from cosched_emulator.results.record_columns import (
    DiskColumns,
    RecordColumns,
    StayColumns,
    distinct_stays,
    job_columns,
    stay_columns,
)
from cosched_hwmodel.quick_classes import frozen
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.protocol.messages import CANCELLED, COMPLETED, FAILED, NODE_FAIL, REJECTED, TIMEOUT, NodeClass

FloatArray: TypeAlias = npt.NDArray[np.float64]
Summary: TypeAlias = dict[str, Any]  # JSON-ready

STATES = (COMPLETED, FAILED, TIMEOUT, CANCELLED, NODE_FAIL, REJECTED)
UNFINISHED = "UNFINISHED"  # jobs that had not ended when the run was stopped
SUMMARY_FORMAT = 1
PERCENTILE_RULE: Literal["linear"] = "linear"


@frozen
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
    ran, completed = population(jobs, "all", selection), population(jobs, "finished", selection)
    of_all = population_figures(jobs, ran)
    of_completed = of_all if np.array_equal(ran, completed) else population_figures(jobs, completed)
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
        "killed": {"count": killed, "share": ratio(killed, int(np.count_nonzero(ran)))},
        "machine": _machine_figures(jobs, stays, machine),
        "percentile_rule": PERCENTILE_RULE,
        **dict(zip(POPULATIONS, (of_completed, of_all), strict=True)),
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


def percentiles(values: FloatArray | IntArray, percents: Iterable[float]) -> list[float]:
    """Return what `np.percentile` returns of values without NaN, to the last bit; ValueError if there are none.

    That function loads numpy's masked arrays, which takes as long as the figures of a thousand jobs.
    """
    places = [percent / 100 * (values.size - 1) for percent in percents]
    ordered = np.partition(values, [min(int(place) + more, values.size - 1) for place in places for more in (0, 1)])
    found = []
    for place in places:
        below = int(place)
        low, high = float(ordered[below]), float(ordered[min(below + 1, ordered.size - 1)])
        share, step = place - below, high - low
        found.append(low + step * share if share < 0.5 else high - step * (1 - share))
    return found


def statistics(values: FloatArray) -> dict[str, float | int | None]:
    """Return the value of each of `STATISTICS`; all but the count are None without values."""
    if values.size == 0:
        return {**dict.fromkeys(STATISTICS), "count": 0}
    found = (values.mean(), *percentiles(values, PERCENTS.values()), values.std(), values.max())
    return dict(zip(STATISTICS, (int(values.size), *map(rounded, found)), strict=True))


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
    "preemptions": "how often jobs were suspended to disk",
    "preemptions_per_job": "mean number of preemptions of the preempted jobs",
    "peak_swap_mb": "most swap space taken at any time, on all nodes together, if any was taken",
}
# The other keys of `summary.json`.
SUMMARY: Final[Mapping[str, str]] = {
    "format": "1",
    "selection": "`jobs`, `warmup`, `cooldown`, `counted` = jobs - warmup - cooldown",
    "states": "how many of the counted jobs ended in each state; `UNFINISHED`: never ended",
    "ran": "counted jobs that ran and ended",
    "killed": "`count`: counted jobs killed at their limit (`TIMEOUT`); `share`: count / `ran`",
    "machine": "figures of the machine, below",
    "percentile_rule": "`linear`",
    "finished": "figures of completed jobs, below",
    "all": "figures of all jobs that ran and ended, below",
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
    cores = sum(node_class.nodes * node_class.cores for node_class in machine)
    held = occupancy(stays, nodes, alone=threads == nodes and jobs.cpu_us is None)
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
        "makespan_s": rounded(makespan_us / SECOND_US) if len(jobs) else None,
        "utilisation": ratio(thread_us, threads * makespan_us),
        "node_utilisation": ratio(held.used_us, nodes * makespan_us),
        "node_sharing": ratio(held.shared_us, held.used_us),
        "node_efficiency": ratio(product_sum(jobs.nodes, jobs.work_us), nodes * makespan_us),
        "mean_queue_length": ratio(exact_sum(np.maximum(queued_us, 0)), makespan_us),
        "offered_load": ratio(product_sum(jobs.threads, jobs.run_us), cores * submit_span_us),
        "jobs_per_hour": ratio(completed * 3600 * SECOND_US, makespan_us),
        **(_preemption_figures(disk) if len(disk) else {}),
    }


def _preemption_figures(disk: DiskColumns) -> dict[str, float | int | None]:
    peak_mb = int(swap_taken(disk).values.max())
    return {
        "preemptions": len(disk),
        "preemptions_per_job": ratio(len(disk), distinct(disk.job).size),
        **({"peak_swap_mb": peak_mb} if peak_mb else {}),
    }


# Figures of a run whose jobs share time: what the slots and the CPUs were used for, and slowdowns by time that counts.
#
# - A quantum counts as paired if on some node more than one job could run.
# - Slots used: node time in quanta in which at least one job could run, of all node time in quanta; CPU used: CPU time that
#   processes consumed in quanta, of the same. Without a rotation there are no quanta, and these are None.
# - CPU utilisation: CPU time since the jobs' last starts, over nodes · makespan.
# - Jobs in the matrix: jobs that hold nodes, whether it is their turn or not: the mean over the makespan, and the most at a time.
# - Jobs at the last submission: submitted and not ended, the last one included; drain: the last end after it.
# - Slowdown by CPU time = response / CPU time of a process; by dispatched time = response / time for which the job could run
#   (the paired gang paper, section 4.2.1, leaves open which it means). Bounded as the others, with 10 s.

TIME_SHARING = "time_sharing"  # key in a summary
# The figures of `time_sharing` in `summary.json`: what they are.
TURNS: Final[Mapping[str, str]] = {
    "quantum_s": "length of a quantum",
    "quanta": "how many there were",
    "quanta_paired": "number of quanta in which a node had more than one job that could run",
    "slots_used": "node time in quanta with a job that could run / all node time in quanta",
    "cpu_used": "CPU time of processes in quanta / all node time in quanta",
    "cpu_utilisation": "CPU time of processes since the jobs' last starts / (nodes · makespan)",
    "mean_jobs": "jobs that hold nodes, in their turn or not: mean over the makespan",
    "max_jobs": "most jobs that hold nodes at a time",
    "jobs_at_last_submission": "jobs in the system at the last submission, the submitted one included",
    "drain_s": "last end - last submission",
    **dict.fromkeys(
        POPULATIONS,
        "`slowdown_cpu` = response / `cpu_s`, `slowdown_dispatched` = response / `dispatched_s`, and both bounded by 10 s",
    ),
}
BOUND_S = 10


class TimeSharingTotals:
    """Sums over the quanta and the jobs of a run, as they end."""

    def __init__(self) -> None:
        self._quanta = 0
        self._paired = 0
        self._length_us = 0
        self._used_us = 0  # node time with a job that could run
        self._consumed_us = 0  # CPU time in quanta
        self._cpu_us = 0  # CPU time of jobs

    def add_quantum(self, record: QuantumRecord) -> None:
        """Count a quantum."""
        length_us = record.end_us - record.start_us
        self._quanta += 1
        self._paired += record.paired_nodes > 0
        self._length_us += length_us
        self._used_us += length_us * record.nodes
        self._consumed_us += sum([part.consumed_us for part in record.parts])

    def add_job(self, record: JobRecord) -> None:
        """Count a job that has ended."""
        if record.cpu_us is not None:
            self._cpu_us += record.cpu_us * record.job.spec.processes

    def figures(
        self,
        jobs: RecordColumns,
        stays: StayColumns,
        machine: Sequence[NodeClass],
        quantum_us: int,
        selection: Selection = ALL_JOBS,
    ) -> dict[str, Any]:
        """Return the figures as plain JSON values."""
        nodes = sum(node_class.nodes for node_class in machine)
        first_us, last_us = span_us(jobs, stays)
        submitted_us = int(jobs.submit_us.max()) if len(jobs) else 0
        makespan_us = last_us - first_us
        held = jobs_on_nodes(stays)
        left = (jobs.submit_us <= submitted_us) & ~(jobs.ended & (jobs.end_us <= submitted_us))
        return {
            "quantum_s": rounded(quantum_us / SECOND_US),
            "quanta": self._quanta,
            "quanta_paired": self._paired,
            "slots_used": ratio(self._used_us, nodes * self._length_us),
            "cpu_used": ratio(self._consumed_us, nodes * self._length_us),
            "cpu_utilisation": ratio(self._cpu_us, nodes * makespan_us),
            "mean_jobs": ratio(integral(held), makespan_us),
            "max_jobs": int(held.values.max()) if held.values.size else 0,
            "jobs_at_last_submission": int(np.count_nonzero(left)),
            "drain_s": rounded((last_us - submitted_us) / SECOND_US) if len(jobs) else None,
            **{name: _slowdowns(jobs, population(jobs, name, selection)) for name in POPULATIONS},
        }


def figures_of(
    records: Sequence[JobRecord], quanta: Iterable[QuantumRecord], machine: Sequence[NodeClass], quantum_us: int
) -> dict[str, Any]:
    """Return the figures of a run whose records are all there."""
    totals = TimeSharingTotals()
    for record in records:
        totals.add_job(record)
    for quantum in quanta:
        totals.add_quantum(quantum)
    return totals.figures(job_columns(records), stay_columns(records), machine, quantum_us)


def jobs_on_nodes(stays: StayColumns) -> Steps:
    """Return over time the number of jobs that hold nodes."""
    _, start_us, end_us = distinct_stays(stays)
    return steps_of(np.concatenate([start_us, end_us]), np.repeat(np.array([1, -1]), start_us.size))


def jobs_in_system(jobs: RecordColumns) -> Steps:
    """Return over time the number of jobs that are submitted and have not ended."""
    ends_us = jobs.end_us[jobs.ended]
    changes = np.concatenate([np.ones(len(jobs), dtype=np.int64), np.full(ends_us.size, -1)])
    return steps_of(np.concatenate([jobs.submit_us, ends_us]), changes)


def _slowdowns(jobs: RecordColumns, rows: BoolArray) -> dict[str, Any]:
    found = {}
    none_us = np.zeros(len(jobs), dtype=np.int64)  # where no job has ever run
    for name, times_us in (("cpu", jobs.cpu_us), ("dispatched", jobs.dispatched_us)):
        spent_us = none_us if times_us is None else times_us
        worked = rows & (spent_us > 0)
        response_us: IntArray = jobs.end_us[worked] - jobs.submit_us[worked]
        found[f"slowdown_{name}"] = statistics(response_us / spent_us[worked])
        bounded = np.maximum(1.0, response_us / np.maximum(spent_us[worked], BOUND_S * SECOND_US))
        found[f"bounded_slowdown_{BOUND_S}s_{name}"] = statistics(bounded)
    return found
