"""The energy of a run: total, idle and busy, by job, over time, and by the paper's formula.

- The time is that of the makespan: from the first submission to the last end. Every node draws its idle watts all the time, whether
  it is in service or not.
- Where jobs share time, busy energy is that of the CPU time which processes used, by the traces of the nodes. Elsewhere a core is
  busy while a job holds one of its hardware threads.
- A job's energy is that of its cores, in all its stays, and its part of the idle energy of its nodes: the jobs that hold a node at an
  instant, in their turn or not, have equal parts.
- The formula (coscheduling paper, section 5.4) takes the mean utilisation of the cores: by the CPU time in the records of the jobs, or
  by the cores that they held.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from cosched_emulator.manager.record import JobRecord
from cosched_emulator.manager.time_sharing.cpu_meter import CpuUse
from cosched_emulator.offered import POPULATIONS
from cosched_emulator.results.ended_jobs import IntArray
from cosched_emulator.results.figures.classes import cores_used
from cosched_emulator.results.figures.metrics import Selection, Summary, population, statistics
from cosched_emulator.results.figures.occupancy import (
    PAIRS_AT_ONCE,
    counters,
    integral,
    node_groups,
    pairs_on,
    rounded,
    span_us,
)
from cosched_emulator.results.record_columns import RecordColumns, StayColumns, job_columns, stay_columns
from cosched_hwmodel.energy import NodePower, formula_j, threads_by_core
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.protocol.messages import NodeClass

# The watts of a machine, node by node.

FloatArray: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MachinePower:
    """The watts of each node."""

    idle_w: FloatArray  # of the node, all its cores idle
    busy_w: FloatArray  # more for each busy core
    spin_w: FloatArray  # more for each core whose process only polls

    @property
    def nodes(self) -> int:
        """Return the number of nodes."""
        return self.idle_w.size

    @property
    def total_idle_w(self) -> float:
        """Return the watts of the whole machine, all its cores idle."""
        return float(self.idle_w.sum())


def machine_power(machine: Sequence[NodeClass], power: Sequence[NodePower]) -> MachinePower:
    """Return the watts of each node of a machine, from those of its classes."""
    counts = [item.nodes for item in machine]
    columns = [np.repeat(np.array(column, dtype=np.float64), counts) for column in zip(*power, strict=True)]
    return MachinePower(*columns)


# Energy over time, in intervals of equal length.

MOST: Final = 4096  # intervals; an even number


class PowerTrace(NamedTuple):
    """The mean watts of a machine in one interval after another."""

    start_us: IntArray
    end_us: IntArray
    watts: FloatArray


class EnergyBins:
    """Joules in intervals from time 0 on: of a second at first, and of twice the length each time that there would be too many.

    Sums stay what they are when the length changes; only the time of what was used gets less exact.
    """

    def __init__(self) -> None:
        self.width_us = SECOND_US
        self._joules = np.zeros(MOST)

    def add(self, begin_us: int, end_us: int, joules: float) -> None:
        """Add energy that was used evenly from one time to another."""
        self._reach(end_us)
        width_us, bins = self.width_us, self._joules
        first, last = begin_us // width_us, max(begin_us, end_us - 1) // width_us
        if first == last:
            bins[min(first, MOST - 1)] += joules
            return
        watts_us = joules / (end_us - begin_us)
        bins[first] += watts_us * ((first + 1) * width_us - begin_us)
        bins[first + 1 : last] += watts_us * width_us
        bins[last] += watts_us * (end_us - last * width_us)

    def add_steps(self, times_us: IntArray, watts: FloatArray, until_us: int) -> None:
        """Add the energy up to ``until_us`` of a power that changes by these watts at these times, given in any order."""
        self._reach(until_us)
        place = times_us // self.width_us
        slope, part = np.zeros(MOST + 1), np.zeros(MOST + 1)
        np.add.at(part, place, watts * ((place + 1) * self.width_us - times_us))
        np.add.at(slope, np.minimum(place + 1, MOST), watts)
        power = np.cumsum(slope)
        end = -(-until_us // self.width_us)
        self._joules[:end] += ((part + power * self.width_us)[:end]) / SECOND_US

    def trace(self, idle_w: float, begin_us: int, end_us: int) -> PowerTrace:
        """Return the power from one time to another, with that of an idle machine added; the end may lie behind all use."""
        self._reach(end_us)
        edges = np.arange(begin_us // self.width_us, -(-end_us // self.width_us) + 1, dtype=np.int64)
        joules = self._joules[edges[:-1]]
        edges = np.clip(edges * self.width_us, begin_us, end_us)
        spans_us = np.diff(edges)
        some = spans_us > 0  # a run without length, inside of an interval, has none
        return PowerTrace(edges[:-1][some], edges[1:][some], idle_w + joules[some] / (spans_us[some] / SECOND_US))

    def _reach(self, end_us: int) -> None:
        while end_us > MOST * self.width_us:
            self._joules = np.concatenate([self._joules.reshape(-1, 2).sum(axis=1), np.zeros(MOST // 2)])
            self.width_us *= 2


# Energy by what jobs hold: the cores of their stays are busy, and the jobs on a node share its idle energy.
#
# On each node the jobs that hold it at an instant have equal parts of its idle watts. The watts of a busy core go to
# the jobs on it by hardware threads held. A core is busy while a job holds one of its threads, whether the job makes
# progress then or not.

_LEAST: Final = 1_000  # pairs of stay and node at once, however many cores a node has


class _Held(NamedTuple):
    """Rows of parts of the machine (nodes, or cores of nodes) that stays hold."""

    stay: IntArray
    node: IntArray
    part: IntArray
    weight: IntArray  # hardware threads of the core; 1 for a node


def held_energy(
    stays: StayColumns, jobs: int, held: Iterable[_Held], watts: FloatArray, bins: EnergyBins | None = None
) -> FloatArray:
    """Return the joules of each of ``jobs`` jobs from the ``watts`` of the parts of nodes that it holds; add them to the bins."""
    joules = np.zeros(jobs)
    last_us = int(stays.end_us.max()) if len(stays) else 0
    for rows in held:
        start_us, end_us, of_rows = stays.start_us[rows.stay], stays.end_us[rows.stay], watts[rows.node]
        span_us = shared_us(rows.part, start_us, end_us, rows.weight)
        joules += np.bincount(stays.job[rows.stay], span_us * of_rows, jobs) / SECOND_US
        if bins is not None:
            times_us, changes = _busy_steps(rows.part, start_us, end_us, of_rows)
            bins.add_steps(times_us, changes, last_us)
    return joules


def _nodes_held(stays: StayColumns, nodes: int) -> Iterator[_Held]:
    """Yield the nodes of all stays, some nodes at a time."""
    for first, last in node_groups(stays, nodes, PAIRS_AT_ONCE):
        stay, node = pairs_on(stays, first, last)
        yield _Held(stay, node, node, np.ones(stay.size, dtype=np.int64))


def shared_us(part: IntArray, start_us: IntArray, end_us: IntArray, weight: IntArray) -> FloatArray:
    """Return for each row its share of the time of its part: at each instant its weight among the rows that hold the part."""
    rows = part.size
    if not rows:
        return np.zeros(0)
    times = np.concatenate([start_us, end_us])
    order = np.lexsort((times, np.concatenate([part, part])))
    depth = np.cumsum(np.concatenate([weight, -weight])[order])[:-1]
    grown = np.zeros(2 * rows)
    # Between two parts the depth is 0. Each row takes what has grown between its two ends.
    np.cumsum(np.where(depth > 0, np.diff(times[order]) / np.maximum(depth, 1), 0.0), out=grown[1:])
    at = np.empty(2 * rows)
    at[order] = grown
    return weight * (at[rows:] - at[:rows])


def _busy_steps(part: IntArray, start_us: IntArray, end_us: IntArray, watts: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the times at which a part becomes busy, or idle again, and the change of watts."""
    times = np.concatenate([start_us, end_us])
    order = np.lexsort((times, np.concatenate([part, part])))
    change = np.concatenate([np.ones(part.size, dtype=np.int64), np.full(part.size, -1)])[order]
    turns = np.diff((np.cumsum(change) > 0).astype(np.int8), prepend=np.int8(0))
    return times[order], turns * np.concatenate([watts, watts])[order]


def _cores_held(stays: StayColumns, machine: Sequence[NodeClass]) -> Iterator[_Held]:
    """Yield the cores of all stays, for one class of nodes after another, some nodes at a time."""
    masks = stays.mask.places
    sizes = {item.cores for item in machine}
    tables = {cores: _core_table(stays.mask.distinct, cores) for cores in sizes}
    nodes = sum(item.nodes for item in machine)
    for low, high in node_groups(stays, nodes, max(_LEAST, PAIRS_AT_ONCE // max(sizes, default=1))):
        stay, node = pairs_on(stays, low, high)
        first = 0
        for item in machine:
            here = (node >= first) & (node < first + item.nodes)
            first += item.nodes
            if not here.any():
                continue
            cores = item.cores
            count_of, core_of, weight_of = tables[cores]
            mask = masks[stay[here]]
            counts = count_of[mask]
            row = np.repeat((np.cumsum(count_of) - count_of)[mask], counts) + counters(counts)
            on = np.repeat(node[here], counts)
            yield _Held(np.repeat(stay[here], counts), on, on * cores + core_of[row], weight_of[row])


def _core_table(masks: Sequence[int], cores: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return how many cores each mask has, and these cores with their numbers of threads."""
    found = [threads_by_core(mask, cores) for mask in masks]
    flat = [pair for threads in found for pair in threads.items()]
    columns = np.array(flat, dtype=np.int64).reshape(-1, 2).T
    return np.array([len(threads) for threads in found], dtype=np.int64), columns[0], columns[1]


# Energy by the CPU time of processes, where jobs share time: what each used on each node, and when.


class CpuEnergy:
    """Sums over the traces of nodes, as they come."""

    def __init__(self, power: MachinePower) -> None:
        self.job_j: dict[int, float] = {}  # of the CPUs, by job id
        self.spin_j = 0.0  # while processes polled
        self.bins = EnergyBins()
        self._busy_w = (power.busy_w / SECOND_US).tolist()  # joules a microsecond
        self._spin_w = (power.spin_w / SECOND_US).tolist()

    def add(self, uses: Sequence[CpuUse]) -> None:
        """Add what jobs used on nodes."""
        since: dict[tuple[int, int], float] = {}
        for job_id, node, begin_us, end_us, consumed_us, spun_us in uses:
            spin_j = spun_us * self._spin_w[node]
            joules = spin_j + (consumed_us - spun_us) * self._busy_w[node]
            self.job_j[job_id] = self.job_j.get(job_id, 0.0) + joules
            self.spin_j += spin_j
            since[begin_us, end_us] = since.get((begin_us, end_us), 0.0) + joules
        for (begin_us, end_us), joules in since.items():
            self.bins.add(begin_us, end_us, joules)


def uses_of(records: Iterable[JobRecord]) -> Iterable[list[CpuUse]]:
    """Yield what jobs used on nodes where no trace of the nodes exists: a job's CPU time, spread evenly over its last stays.

    Polling is not told apart.
    """
    for record in records:
        stays = record.last_stays
        places = [
            (stay, node, run.processes)
            for stay in stays
            for run in stay.runs
            for node in range(run.first, run.first + run.count)
        ]
        whole = sum([(stay.end_us - stay.start_us) * processes for stay, _, processes in places])
        if not record.cpu_us or not whole:
            continue
        cpu_us = record.cpu_us * record.job.spec.processes
        yield [
            CpuUse(
                record.job.spec.id,
                node,
                stay.start_us,
                stay.end_us,
                cpu_us * (stay.end_us - stay.start_us) * processes / whole,
                0,
            )
            for stay, node, processes in places
        ]


class RunEnergy(NamedTuple):
    """The energy of a run."""

    figures: Summary
    job_j: FloatArray  # of each job, in order of `RecordColumns`
    by_job: dict[int, float]  # the same by job id
    trace: PowerTrace


# The figures of `energy` in `summary.json`: what they are.
FIGURES: Final[Mapping[str, str]] = {
    "total_j": "joules of all nodes from the first submission to the last end: `idle_j` + `busy_j`",
    "idle_j": "what all nodes, also those that are down, would draw if no core was ever busy",
    "busy_j": "what busy cores add",
    "spin_j": (
        "the part of `busy_j` in which processes polled; only with time sharing, 0 where the nodes do not count polling"
    ),
    "unheld_j": "the part of `idle_j` of nodes that no job held",
    "mean_w": "`total_j` / makespan",
    "utilisation": "U of the formula: busy part of the time of all cores, by the records of the jobs",
    "formula_j": "E = (B + X·U)·N·T, of the coscheduling paper",
    **dict.fromkeys(POPULATIONS, "`energy_j`, the energy of a job"),
}


def run_energy(
    jobs: RecordColumns,
    stays: StayColumns,
    machine: Sequence[NodeClass],
    power: Sequence[NodePower],
    selection: Selection,
    cpu: CpuEnergy | None = None,
    cpu_utilisation: float | None = None,
) -> RunEnergy:
    """Return the energy of a run on nodes with these watts, one for each class.

    ``cpu`` and ``cpu_utilisation`` (of the records of jobs, 0 to 1) are those of a run whose jobs share time; None: they do not.
    """
    of_nodes = machine_power(machine, power)
    begin_us, end_us = span_us(jobs, stays)
    time_s = (end_us - begin_us) / SECOND_US
    cores = sum(item.nodes * item.cores for item in machine)
    idle_of_jobs = held_energy(stays, len(jobs), _nodes_held(stays, of_nodes.nodes), of_nodes.idle_w)
    if cpu is None:
        bins, spin_j = EnergyBins(), 0.0
        busy_of_jobs = held_energy(stays, len(jobs), _cores_held(stays, machine), of_nodes.busy_w, bins)
        utilisation = integral(cores_used(stays, machine)) / (cores * (end_us - begin_us)) if time_s and cores else None
    else:
        bins, spin_j, utilisation = cpu.bins, cpu.spin_j, cpu_utilisation
        busy_of_jobs = np.array([cpu.job_j.get(job_id, 0.0) for job_id in jobs.id.tolist()], dtype=np.float64)
    job_j = idle_of_jobs + busy_of_jobs
    idle_j, busy_j = of_nodes.total_idle_w * time_s, float(busy_of_jobs.sum())
    figures: dict[str, Any] = {
        "total_j": rounded(idle_j + busy_j),
        "idle_j": rounded(idle_j),
        "busy_j": rounded(busy_j),
        **({} if cpu is None else {"spin_j": rounded(spin_j)}),
        "unheld_j": rounded(max(0.0, idle_j - float(idle_of_jobs.sum()))),
        "mean_w": rounded((idle_j + busy_j) / time_s) if time_s else None,
        "utilisation": None if utilisation is None else rounded(utilisation),
        "formula_j": None if utilisation is None else rounded(_formula_j(machine, power, utilisation, time_s)),
        **{name: {"energy_j": statistics(job_j[population(jobs, name, selection)])} for name in POPULATIONS},
    }
    by_job = dict(zip(jobs.id.tolist(), job_j.tolist(), strict=True))
    return RunEnergy(figures, job_j, by_job, bins.trace(of_nodes.total_idle_w, begin_us, end_us))


def energy_of(
    records: Sequence[JobRecord],
    machine: Sequence[NodeClass],
    power: Sequence[NodePower],
    selection: Selection,
    time_sharing: Mapping[str, Any] | None = None,
) -> RunEnergy:
    """Return the energy of a run whose records are all there; ``time_sharing`` are its figures, None: jobs do not share time."""
    cpu = None
    if time_sharing is not None:
        cpu = CpuEnergy(machine_power(machine, power))
        for uses in uses_of(records):
            cpu.add(uses)
    utilisation = None if time_sharing is None else time_sharing["cpu_utilisation"]
    return run_energy(job_columns(records), stay_columns(records), machine, power, selection, cpu, utilisation)


def _formula_j(machine: Sequence[NodeClass], power: Sequence[NodePower], utilisation: float, time_s: float) -> float:
    """Return the formula's energy, with the watts of the mean node."""
    nodes = sum(item.nodes for item in machine)
    idle_w = sum(item.nodes * watts.idle_w for item, watts in zip(machine, power, strict=True)) / nodes
    busy_w = sum(item.nodes * item.cores * watts.busy_w for item, watts in zip(machine, power, strict=True))
    return formula_j(NodePower(idle_w, busy_w / nodes, busy_w / nodes), utilisation, nodes, time_s)
