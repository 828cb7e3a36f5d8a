"""The figures of a run whose jobs share time: what the slots and the CPUs were used for, and slowdowns by time that counts.

- A quantum counts as paired if on some node more than one job could run.
- Slots used: node time in quanta in which at least one job could run, of all node time in quanta; CPU used: CPU time that
  processes consumed in quanta, of the same. Without a rotation there are no quanta, and these are None.
- CPU utilisation: CPU time since the jobs' last starts, over nodes · makespan.
- Jobs in the matrix: jobs that hold nodes, whether it is their turn or not: the mean over the makespan, and the most at a time.
- Jobs at the last submission: submitted and not ended, the last one included; drain: the last end after it.
- Slowdown by CPU time = response / CPU time of a process; by dispatched time = response / time for which the job could run
  (the paired gang paper, section 4.2.1, leaves open which it means). Bounded as the others, with 10 s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from cosched_emulator.manager.record import JobRecord, QuantumRecord
from cosched_emulator.offered import POPULATIONS
from cosched_emulator.results.figures.metrics import ALL_JOBS, Selection, population, statistics
from cosched_emulator.results.figures.occupancy import Steps, integral, steps_of
from cosched_emulator.results.record_columns import (
    BoolArray,
    IntArray,
    RecordColumns,
    StayColumns,
    distinct_stays,
    job_columns,
    stay_columns,
)
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.protocol.messages import NodeClass

TIME_SHARING = "time_sharing"  # key in a summary
# The figures of `time_sharing` in `summary.json`: what they are.
FIGURES: Final[Mapping[str, str]] = {
    "quantum_s": "length of a quantum",
    "quanta": "how many there were",
    "quanta_paired": "in how many of them a node had more than one job that could run",
    "slots_used": "node time in quanta with a job that could run / all node time in quanta",
    "cpu_used": "CPU time of processes in quanta / all node time in quanta",
    "cpu_utilisation": "CPU time of processes since the jobs' last starts / (nodes · makespan)",
    "mean_jobs": "jobs that hold nodes, in their turn or not: mean over the makespan",
    "max_jobs": "the most of them at a time",
    "jobs_at_last_submission": "jobs in the system then, the last one included",
    "drain_s": "last end - last submission",
    **dict.fromkeys(
        POPULATIONS,
        "`slowdown_cpu` = response / `cpu_s`, `slowdown_dispatched` = response / `dispatched_s`, and both bounded by 10 s",
    ),
}
BOUND_S = 10
_PLACES = 6


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
        first_us = int(jobs.submit_us.min()) if len(jobs) else 0
        submitted_us = int(jobs.submit_us.max()) if len(jobs) else 0
        ends_us = [jobs.end_us[jobs.ended], stays.end_us]
        last_us = max([int(ends.max()) for ends in ends_us if ends.size], default=first_us)
        makespan_us = last_us - first_us
        held = jobs_on_nodes(stays)
        left = (jobs.submit_us <= submitted_us) & ~(jobs.ended & (jobs.end_us <= submitted_us))
        return {
            "quantum_s": _round(quantum_us / SECOND_US),
            "quanta": self._quanta,
            "quanta_paired": self._paired,
            "slots_used": _ratio(self._used_us, nodes * self._length_us),
            "cpu_used": _ratio(self._consumed_us, nodes * self._length_us),
            "cpu_utilisation": _ratio(self._cpu_us, nodes * makespan_us),
            "mean_jobs": _ratio(integral(held), makespan_us),
            "max_jobs": int(held.values.max()) if held.values.size else 0,
            "jobs_at_last_submission": int(np.count_nonzero(left)),
            "drain_s": _round((last_us - submitted_us) / SECOND_US) if len(jobs) else None,
            **{name: _slowdowns(jobs, population(jobs, name, selection)) for name in POPULATIONS},
        }


def figures_of(
    records: Sequence[JobRecord],
    quanta: Iterable[QuantumRecord],
    machine: Sequence[NodeClass],
    quantum_us: int,
    selection: Selection = ALL_JOBS,
) -> dict[str, Any]:
    """Return the figures of a run whose records are all there."""
    totals = TimeSharingTotals()
    for record in records:
        totals.add_job(record)
    for quantum in quanta:
        totals.add_quantum(quantum)
    return totals.figures(job_columns(records), stay_columns(records), machine, quantum_us, selection)


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


def _ratio(part: int, whole: int) -> float | None:
    return _round(part / whole) if whole else None


def _round(value: float) -> float:
    return round(value, _PLACES)
