"""The figures of a run by class of jobs: short, medium and long (G-LOMARC-TS paper, sections 4.1, 5.1 and 5.2).

The user's estimate decides a job's class. Figures of a class count completed jobs:

- response = end - submission; relative response (the paper's RR) = response / max(run, bound), with run the job's run time
  alone: one process per node, no neighbours and no suspensions.

Figures of the machine count all jobs:

- A job waits while it is submitted, has not ended, holds no nodes and is not on disk.
- A high-load phase of a class is a time in which at least N_H of its jobs wait (formula 1); for several classes, a time in
  which at least one of them is in such a phase.
- A core is used while a job holds at least one of its hardware threads; a job on disk holds none. Core utilisation
  (formula 3) = integral of the used cores / (cores · time): over the high-load phases of a class, or over the makespan.
- The mean length of the queue in the first and in the second half of the submissions' time shows whether the scheduler keeps
  up: if not, the second is far larger.

Undefined figures are None. Figures are rounded to six decimals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np

from cosched_emulator.manager.record import JobRecord
from cosched_emulator.results.ended_jobs import BoolArray, IntArray
from cosched_emulator.results.figures import occupancy
from cosched_emulator.results.figures.comparison import Figure
from cosched_emulator.results.record_columns import (
    DiskColumns,
    RecordColumns,
    StayColumns,
    int_array,
    job_columns,
    stay_columns,
)
from cosched_emulator.results.thread_intervals import mask_intervals
from cosched_emulator.statistics.weighted import LENGTHS, MEDIUM_S, SHORT_S, length_numbers
from cosched_emulator.workload.jobs_in_columns import Interned
from cosched_hwmodel.energy import threads_by_core
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.protocol.messages import COMPLETED, NodeClass

Columns = TypeVar("Columns", DiskColumns, RecordColumns, StayColumns)

CLASSES = LENGTHS


class ClassRules(NamedTuple):
    """The bounds of the classes and of high load; the defaults are the paper's."""

    short_s: int = SHORT_S  # largest estimate of a short job
    medium_s: int = MEDIUM_S  # of a medium one
    bound_s: int = 60  # run times below count as this
    high_load: int = 12  # waiting jobs of a class (N_H)


class JobFigures(NamedTuple):
    """The jobs of one class, or all."""

    jobs: int
    completed: int
    relative_response_mean: float | None
    relative_response_median: float | None
    relative_response_p95: float | None
    response_mean_s: float | None


class PhaseFigures(NamedTuple):
    """The high-load phases of one class, or of several."""

    length_s: float  # of all phases
    core_utilisation: float | None


class ClassFigures(NamedTuple):
    """The figures of a run by class."""

    jobs: dict[str, JobFigures]  # by class, and "all"
    high_load: dict[str, PhaseFigures]  # "medium", "long", and "medium_or_long"
    core_utilisation: float | None  # over the makespan
    makespan_s: float | None  # first submission to last end
    queue_first_half: float | None  # mean number of waiting jobs
    queue_second_half: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as plain dictionaries, ready for JSON."""
        return {
            **self._asdict(),
            "jobs": {name: figures._asdict() for name, figures in self.jobs.items()},
            "high_load": {name: figures._asdict() for name, figures in self.high_load.items()},
        }


PAPER_RULES = ClassRules()


def class_figures(
    records: Sequence[JobRecord], machine: Sequence[NodeClass], rules: ClassRules = PAPER_RULES
) -> ClassFigures:
    """Return the figures of a run on ``machine``. Raises ValueError for contradictory rules."""
    return class_figures_of_columns(job_columns(records), stay_columns(records), machine, rules)


def class_figures_of_columns(
    jobs: RecordColumns, stays: StayColumns, machine: Sequence[NodeClass], rules: ClassRules
) -> ClassFigures:
    """Return the figures of a run that is already in columns; see `class_figures`."""
    if not (0 <= rules.short_s <= rules.medium_s and rules.bound_s > 0 and rules.high_load > 0):
        raise ValueError(f"expected bounds of classes in order, a bound and a number of jobs above 0, not {rules}")
    number = length_numbers(jobs.estimate_us, rules.short_s * SECOND_US, rules.medium_s * SECOND_US)
    of_class = {name: number == index for index, name in enumerate(CLASSES)}
    cores = sum(item.nodes * item.cores for item in machine)
    used = cores_used(stays, machine)
    first_us, last_us = occupancy.span_us(jobs, stays)
    phases = {
        name: phases_of(occupancy.jobs_waiting(*_only(jobs, stays, chosen)), rules.high_load, last_us)
        for name, chosen in of_class.items()
        if name != "short"
    }
    phases["medium_or_long"] = union(*phases.values())
    halves = _halves(occupancy.jobs_waiting(jobs, stays), jobs)
    of_class["all"] = np.ones(len(jobs), dtype=np.bool_)
    return ClassFigures(
        jobs={name: _job_figures(jobs, chosen, rules) for name, chosen in of_class.items()},
        high_load={name: _phase_figures(found, used, cores) for name, found in phases.items()},
        core_utilisation=_phase_figures([(first_us, last_us)], used, cores).core_utilisation,
        makespan_s=occupancy.rounded((last_us - first_us) / SECOND_US) if len(jobs) else None,
        queue_first_half=halves[0],
        queue_second_half=halves[1],
    )


class FactFigures(NamedTuple):
    """The jobs that have a fact in common, such as their partition."""

    jobs: int
    completed: int
    wait_mean_s: float | None  # of those that started
    response_mean_s: float | None
    relative_response_mean: float | None


def fact_figures(jobs: RecordColumns, facts: Interned[str], rules: ClassRules = PAPER_RULES) -> dict[str, FactFigures]:
    """Return the figures of the jobs with each value of a fact, in order of the values, and of ``all``; ``none`` have no value.

    A partition may have one of these names: it is told in quotes.
    """
    rows = np.ones(len(jobs), dtype=np.bool_)
    names = {value: f'"{value}"' if value in ("all", "none") else value or "none" for value in sorted(facts.distinct)}
    chosen = {name: facts.where(value) for value, name in names.items()} | {"all": rows}
    return {name: _fact_figures(jobs, mask, rules) for name, mask in chosen.items()}


def _fact_figures(jobs: RecordColumns, chosen: BoolArray, rules: ClassRules) -> FactFigures:
    found = _job_figures(jobs, chosen, rules)
    started = chosen & jobs.started
    waits_us = jobs.start_us[started] - jobs.submit_us[started]
    wait_s = occupancy.rounded(sum(waits_us.tolist()) / waits_us.size / SECOND_US) if waits_us.size else None
    return FactFigures(found.jobs, found.completed, wait_s, found.response_mean_s, found.relative_response_mean)


def fact_tables(fact: str, values: Sequence[str]) -> dict[str, list[Figure]]:
    """Return the rows that show `fact_figures`, by the heading of their table."""
    return {
        f"{heading}, by {fact}": [
            Figure(
                value, (value, name), "count" if name == "jobs" else "figure" if name.startswith("rel") else "seconds"
            )
            for value in values
        ]
        for name, heading in (
            ("jobs", "Jobs"),
            ("wait_mean_s", "Mean wait of jobs that started"),
            ("response_mean_s", "Mean response of completed jobs"),
            ("relative_response_mean", "Mean relative response of completed jobs"),
        )
    }


def class_tables(rules: ClassRules) -> dict[str, list[Figure]]:
    """Return the rows that show `ClassFigures.as_dict`, by the heading of their table."""
    names = (*CLASSES, "all")
    sizes = [Figure(f"{name} jobs", ("jobs", name, "jobs"), "count", "") for name in names]
    completed = [
        Figure(f"{name}, completed", ("jobs", name, "completed"), "count", "high", any_jobs=True) for name in names
    ]
    return {
        f"Jobs: short up to an estimate of {rules.short_s / 60:g} min, medium up to {rules.medium_s / 3600:g} h": sizes
        + completed,
        f"Relative response: response / run time alone, which counts as {rules.bound_s} s at least": [
            Figure(f"{name}, {figure}", ("jobs", name, f"relative_response_{figure}"))
            for name in names
            for figure in ("mean", "median", "p95")
        ],
        "Response: end - submission": [
            Figure(f"{name}, mean", ("jobs", name, "response_mean_s"), "seconds") for name in names
        ],
        f"High load: {rules.high_load} jobs of a class wait, or more": [
            figure
            for text in ("medium", "long", "medium or long")
            for figure in (
                Figure(f"{text}, length", ("high_load", text.replace(" ", "_"), "length_s"), "seconds", ""),
                Figure(f"{text}, cores used", ("high_load", text.replace(" ", "_"), "core_utilisation"), "share", ""),
            )
        ],
        "Whole run": [
            Figure("cores used", ("core_utilisation",), "share", ""),
            Figure("makespan", ("makespan_s",), "seconds"),
            Figure("queue, first half of submissions", ("queue_first_half",), unit="jobs"),
            Figure("queue, second half", ("queue_second_half",), unit="jobs"),
        ],
    }


_MOST_ATOMS = 4  # sets of cores of a node; with more of them a sweep over the cores is faster


def cores_used(stays: StayColumns, machine: Sequence[NodeClass]) -> occupancy.Steps:
    """Return over time the number of cores with a job on at least one of their hardware threads."""
    nodes = sum(item.nodes for item in machine)
    cores = {item.cores for item in machine}
    held = [_cores_of(mask, max(cores)) for mask in stays.mask.distinct]
    sets = _atoms(held, max(cores))
    if len(cores) > 1 or len(sets) > _MOST_ATOMS:
        return _cores_swept(stays, machine)
    # Jobs hold the cores of an atom all or not: so a count of nodes for each atom will do.
    changes = []
    for atom in sets:
        has_it = np.array([bool(mask & atom) for mask in held], dtype=np.bool_)
        used = occupancy.nodes_held(_rows(stays, has_it[stays.mask.places]), nodes).used
        changes.append((used.times_us, atom.bit_count() * np.diff(used.values, prepend=0)))
    if not changes:
        return occupancy.Steps(int_array(()), int_array(()))
    return occupancy.steps_of(*(np.concatenate(columns) for columns in zip(*changes, strict=True)))


def _atoms(sets: Sequence[int], size: int) -> list[int]:
    """Return the coarsest parts of ``size`` cores, as bit sets, of which each of ``sets`` is a union; cores in none are left out."""
    of_core: dict[tuple[bool, ...], int] = {}
    for core in range(size):
        which = tuple([bool(each >> core & 1) for each in sets])
        if any(which):
            of_core[which] = of_core.get(which, 0) | 1 << core
    return [*of_core.values()]


def _cores_swept(stays: StayColumns, machine: Sequence[NodeClass]) -> occupancy.Steps:
    """Return the same by counting each core."""
    pieces: list[tuple[IntArray, ...]] = []
    ranges: list[list[tuple[int, int]]] = []
    first = 0
    for item in machine:
        cores = item.cores
        last = first + item.nodes
        low = np.maximum(stays.first_node, first)
        count = np.minimum(stays.first_node + stays.node_count, last) - low
        rows = np.flatnonzero((count > 0) & (stays.end_us > stays.start_us))
        kind = stays.mask.select(rows).places + len(ranges)
        pieces.append((stays.start_us[rows], stays.end_us[rows], low[rows], count[rows], kind))
        ranges += [_core_ranges(mask, cores) for mask in stays.mask.distinct]
        first = last
    deepest = max((item.cores for item in machine), default=0)
    start_us, end_us, low, count, kind = (np.concatenate(columns) for columns in zip(*pieces, strict=True))
    return occupancy.sweep(occupancy.Block(start_us, end_us, low, count, kind, ranges), first, deepest).used


def _core_ranges(mask: int, cores: int) -> list[tuple[int, int]]:
    """Return the cores of the hardware threads in ``mask``, as ranges."""
    return [(low, high + 1) for low, high in mask_intervals(_cores_of(mask, cores))]


def _cores_of(mask: int, cores: int) -> int:
    """Return the cores of the hardware threads in ``mask`` as a bit set."""
    return sum([1 << core for core in threads_by_core(mask, cores)])


def phases_of(steps: occupancy.Steps, least: int, last_us: int) -> list[tuple[int, int]]:
    """Return the disjoint spans with a value of ``least`` or more, up to ``last_us``, in order of time."""
    changes: list[int] = []
    for time_us, value in zip(steps.times_us.tolist(), steps.values.tolist(), strict=True):
        if (value >= least) != len(changes) % 2:  # the value is high after an odd number of changes
            changes.append(min(time_us, last_us))
    if len(changes) % 2:
        changes.append(last_us)
    return list(zip(changes[::2], changes[1::2], strict=True))


def union(first: Sequence[tuple[int, int]], second: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the union of two sets of spans, as disjoint spans in order."""
    joined: list[tuple[int, int]] = []
    for start_us, end_us in sorted([*first, *second]):
        if joined and start_us <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end_us))
        else:
            joined.append((start_us, end_us))
    return joined


def _only(jobs: RecordColumns, stays: StayColumns, chosen: BoolArray) -> tuple[RecordColumns, StayColumns]:
    """Return the rows of the ``chosen`` jobs, of their times on disk and of their stays."""
    place = np.cumsum(chosen) - 1  # new row of each chosen job
    disk = _rows(replace(jobs.disk, job=place[jobs.disk.job]), chosen[jobs.disk.job])
    return _rows(replace(jobs, disk=disk), chosen), _rows(replace(stays, job=place[stays.job]), chosen[stays.job])


def _rows(columns: Columns, where: BoolArray) -> Columns:
    """Return the columns with some of their rows; fields that are not columns stay."""
    kept: dict[str, Any] = {}
    for field in fields(columns):
        values = getattr(columns, field.name)
        if isinstance(values, np.ndarray):
            kept[field.name] = values[where]
        elif isinstance(values, Interned):
            kept[field.name] = values.select(where)
    return replace(columns, **kept)


def _job_figures(jobs: RecordColumns, chosen: BoolArray, rules: ClassRules) -> JobFigures:
    number = int(np.count_nonzero(chosen))
    done = chosen & jobs.ended & jobs.state.where(COMPLETED)
    if not done.any():
        return JobFigures(number, 0, None, None, None, None)
    response_us = jobs.end_us[done] - jobs.submit_us[done]
    relative = response_us / np.maximum(jobs.run_us[done], rules.bound_s * SECOND_US)
    median, p95 = np.percentile(relative, [50, 95]).tolist()
    return JobFigures(
        number,
        response_us.size,
        occupancy.rounded(float(relative.mean())),
        occupancy.rounded(median),
        occupancy.rounded(p95),
        occupancy.rounded(sum(response_us.tolist()) / response_us.size / SECOND_US),
    )


def _phase_figures(phases: Sequence[tuple[int, int]], used: occupancy.Steps, cores: int) -> PhaseFigures:
    length_us = sum(end_us - start_us for start_us, end_us in phases)
    held_us = _integral(used, int_array(edge for phase in phases for edge in phase))
    return PhaseFigures(
        occupancy.rounded(length_us / SECOND_US),
        occupancy.rounded(held_us / (cores * length_us)) if cores * length_us else None,
    )


def _integral(steps: occupancy.Steps, edges_us: IntArray) -> int:
    """Return the exact integral of the values, from the first edge to the second, the third to the fourth, and so on."""
    times, values = steps.times_us.tolist(), steps.values.tolist()
    until = [0]  # integral up to each time; Python's integers do not overflow
    for value, (start_us, end_us) in zip(values, pairwise(times), strict=False):
        until.append(until[-1] + value * (end_us - start_us))
    total = 0
    sign = -1
    for edge_us, index in zip(
        edges_us.tolist(), np.searchsorted(steps.times_us, edges_us, "right").tolist(), strict=True
    ):
        if index:
            total += sign * (until[index - 1] + values[index - 1] * (edge_us - times[index - 1]))
        sign = -sign
    return total


def _halves(waiting: occupancy.Steps, jobs: RecordColumns) -> tuple[float | None, float | None]:
    """Return the mean number of waiting jobs in each half of the time between first and last submission."""
    submits = jobs.submit_us.tolist()
    if not submits or max(submits) - min(submits) < 2:  # one microsecond has no two halves
        return None, None
    edges = int_array([min(submits), (min(submits) + max(submits)) // 2, max(submits)])
    first, second = occupancy.time_average(waiting, edges).tolist()
    return occupancy.rounded(first), occupancy.rounded(second)
