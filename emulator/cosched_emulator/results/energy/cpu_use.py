"""Energy by the CPU time of processes, where jobs share time: what each used on each node, and when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cosched_emulator.manager.record import JobRecord
from cosched_emulator.manager.time_sharing.cpu_meter import CpuUse
from cosched_emulator.results.energy.bins import EnergyBins
from cosched_emulator.results.energy.machine_power import MachinePower
from cosched_hwmodel.units import SECOND_US


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
