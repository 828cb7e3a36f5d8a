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

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from cosched_emulator.manager.record import JobRecord
from cosched_emulator.results.columns import JobColumns, StayColumns, job_columns, stay_columns
from cosched_emulator.results.energy.bins import EnergyBins, PowerTrace
from cosched_emulator.results.energy.cpu_use import CpuEnergy, uses_of
from cosched_emulator.results.energy.held import busy_energy, idle_energy
from cosched_emulator.results.energy.machine_power import FloatArray, machine_power
from cosched_emulator.results.figures.classes import cores_used
from cosched_emulator.results.figures.metrics import POPULATIONS, Selection, Summary, population, statistics
from cosched_emulator.results.figures.occupancy import integral, span_us
from cosched_hwmodel.energy import NodePower, formula_j
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.protocol.messages import NodeClass

_PLACES: Final = 6


class RunEnergy(NamedTuple):
    """The energy of a run."""

    figures: Summary
    job_j: FloatArray  # of each job, in order of `JobColumns`
    by_job: dict[int, float]  # the same by job id
    trace: PowerTrace


def run_energy(
    jobs: JobColumns,
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
    cores = sum(item.nodes * item.sockets * item.cores_per_socket for item in machine)
    idle_of_jobs = idle_energy(stays, len(jobs), of_nodes)
    if cpu is None:
        bins, spin_j = EnergyBins(), 0.0
        busy_of_jobs = busy_energy(stays, len(jobs), machine, of_nodes, bins)
        utilisation = integral(cores_used(stays, machine)) / (cores * (end_us - begin_us)) if time_s and cores else None
    else:
        bins, spin_j, utilisation = cpu.bins, cpu.spin_j, cpu_utilisation
        busy_of_jobs = np.array([cpu.job_j.get(job_id, 0.0) for job_id in jobs.id.tolist()], dtype=np.float64)
    job_j = idle_of_jobs + busy_of_jobs
    idle_j, busy_j = of_nodes.total_idle_w * time_s, float(busy_of_jobs.sum())
    figures: dict[str, Any] = {
        "total_j": _round(idle_j + busy_j),
        "idle_j": _round(idle_j),
        "busy_j": _round(busy_j),
        **({} if cpu is None else {"spin_j": _round(spin_j)}),
        "unheld_j": _round(max(0.0, idle_j - float(idle_of_jobs.sum()))),
        "mean_w": _round((idle_j + busy_j) / time_s) if time_s else None,
        "utilisation": None if utilisation is None else _round(utilisation),
        "formula_j": None if utilisation is None else _round(_formula_j(machine, power, utilisation, time_s)),
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
    busy_w = sum(
        item.nodes * item.sockets * item.cores_per_socket * watts.busy_w
        for item, watts in zip(machine, power, strict=True)
    )
    return formula_j(NodePower(idle_w, busy_w / nodes, busy_w / nodes), utilisation, nodes, time_s)


def _round(value: float) -> float:
    return round(value, _PLACES)
