"""Figures of a run of the paired gang reproduction beside its summary."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from scripts.papers.paired_gang.over_time import figures_over_time
from scripts.papers.paired_gang.quanta import (
    ROW,
    Quanta,
    moves_per_quantum,
    pair_share,
    pairs_where_possible,
    phase_curve,
    phase_figures,
    prediction_figures,
    quanta_of,
)
from scripts.papers.paired_gang.static import static_figures

from cosched_emulator import Run
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.results.record_columns import quanta_columns
from cosched_emulator.workload.job import JobProgram, Programs
from cosched_emulator.workload.lublin import LublinParameters, generate
from cosched_hwmodel.units import SECOND_US

DAY_S: Final = 86_400.0
NO_PROGRAMS: Final = Programs(JobProgram(), {})


def figures(run: Run) -> dict[str, Any]:
    """Return the figures of a run with time sharing; what does not exist is left out. Space sharing has no quanta."""
    records = run.finished.quanta
    quanta = quanta_of(quanta_columns(records)) if records else None
    found: dict[str, Any] = {"workload_digest": workload_digest(run)}
    if quanta is not None:
        found |= {"pair_share": pair_share(quanta), **_used(run, quanta)}
    if run.prepared.scenario.workload.lublin is not None:
        ended = [record for record in run.records if record.end_us is not None and record.intervals]
        return {**found, **dict(_of_jobs(ended)), **_over_time(run, ended), **_of_quanta(quanta, ended)}
    if quanta is None:
        return found
    curve = phase_curve(quanta) if run.prepared.scenario.workload.programs == "qcrd" else {}
    return {**found, **static_figures(run, quanta), **phase_figures(quanta), **curve}


def workload_digest(run: Run) -> str:
    """Return a digest of what the jobs are: submission, processes, run time and program of each."""
    programs = run.prepared.workload.programs or NO_PROGRAMS
    digest = hashlib.sha256()
    for job in run.prepared.workload.jobs:
        digest.update(
            repr((job.spec.id, job.spec.submit_us, job.spec.processes, job.run_us, programs.of(job.spec.id))).encode()
        )
    return digest.hexdigest()[:16]


def _nodes(run: Run) -> int:
    return sum(item.nodes for item in run.machine)


def _used(run: Run, quanta: Quanta) -> dict[str, float | None]:
    """Return how much of the nodes' time in quanta the row whose turn it is fills, and how much has two jobs on a node."""
    size = {record.job.spec.id: record.job.spec.processes for record in run.records}
    node_s = np.array([size[job] for job in quanta.job.tolist()]) * (quanta.end_s - quanta.start_s)
    first = np.unique(quanta.number, return_index=True)[1]
    whole_s = _nodes(run) * float((quanta.end_s - quanta.start_s)[first].sum())
    busy_s = (run.summary["time_sharing"]["slots_used"] or 0.0) * whole_s
    return {
        "slots_filled": float(node_s[quanta.role == ROW].sum()) / whole_s if whole_s else None,
        "node_pairs": float(node_s.sum()) / busy_s - 1 if busy_s else None,  # two jobs at most are on a node
    }


def _of_jobs(ended: Sequence[JobRecord]) -> Iterator[tuple[str, Any]]:
    """Yield the jobs' progress while they may run, and each job's response and run time."""
    response = np.array([(record.end_us or 0) - record.job.spec.submit_us for record in ended]) / SECOND_US
    run_s = np.array([record.job.run_us for record in ended]) / SECOND_US
    processes = np.array([record.job.spec.processes for record in ended])
    dispatched_s = np.array([record.dispatched_us or 0 for record in ended]) / SECOND_US
    yield "speed", float(run_s @ processes / (dispatched_s @ processes)) if dispatched_s.any() else None
    yield "responses_s", [round(value, 3) for value in response.tolist()]
    yield "runs_s", [round(value, 3) for value in run_s.tolist()]


def _over_time(run: Run, ended: Sequence[JobRecord]) -> dict[str, Any]:
    """Return the figures of the number of jobs in the system."""
    submit_s = np.array([record.job.spec.submit_us for record in ended]) / SECOND_US
    end_s = np.array([record.end_us or 0 for record in ended]) / SECOND_US
    work = np.array([record.job.run_us * record.job.spec.processes for record in ended]) / (3600 * SECOND_US)
    return figures_over_time(submit_s, end_s, work, cycle_s(run))


def cycle_s(run: Run) -> float:
    """Return the length of a day of the workload: its gaps are those of the model, all multiplied by one factor."""
    scenario = run.prepared.scenario
    jobs = run.prepared.workload.jobs
    model = generate(
        scenario.workload.lublin or 0, _nodes(run), LublinParameters(aarr=scenario.workload.aarr), scenario.seed
    )
    return DAY_S * jobs[-1].spec.submit_us / model.jobs[-1].spec.submit_us


def _of_quanta(quanta: Quanta | None, ended: Sequence[JobRecord]) -> dict[str, Any]:
    """Return what the quanta tell of pairs, moves and predictions."""
    if quanta is None:
        return {}
    life = {
        record.job.spec.id: (record.intervals[0].start_us / SECOND_US, (record.end_us or 0) / SECOND_US)
        for record in ended
    }
    pairs, new = pairs_where_possible(quanta, life)
    return {
        "pairs_of_possible": pairs,
        "unpaired_new": new,
        "moves": moves_per_quantum(quanta),
        **prediction_figures(quanta),
    }
