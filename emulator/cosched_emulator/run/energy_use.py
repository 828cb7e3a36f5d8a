"""What a run on nodes with watts keeps for its energy."""

from __future__ import annotations

from collections.abc import Sequence

from cosched_emulator.manager.time_sharing.progress import ProcessProgress
from cosched_emulator.results.columns import JobColumns, StayColumns
from cosched_emulator.results.energy.cpu_use import CpuEnergy
from cosched_emulator.results.energy.figures import RunEnergy, run_energy
from cosched_emulator.results.energy.machine_power import machine_power
from cosched_emulator.results.figures.metrics import Selection, Summary
from cosched_emulator.results.figures.time_sharing import TIME_SHARING
from cosched_hwmodel.energy import NodePower
from cosched_plugin.protocol.messages import NodeClass


class EnergyUse:
    """Where jobs share time, the CPU time that they use on each node; elsewhere nothing, as the stays of jobs tell all."""

    def __init__(
        self, machine: Sequence[NodeClass], power: Sequence[NodePower], processes: ProcessProgress | None
    ) -> None:
        self._machine = machine
        self._power = power
        self._cpu = self._meter = None
        if processes is not None:
            self._cpu = CpuEnergy(machine_power(machine, power))
            self._meter = processes.measure_use(self._cpu.add)

    def energy(self, jobs: JobColumns, stays: StayColumns, selection: Selection, summary: Summary) -> RunEnergy:
        """Return the energy of the run that is over, whose other figures are in ``summary``."""
        utilisation = None
        if self._meter is not None:
            self._meter.collect()  # of jobs that never ended
            utilisation = summary[TIME_SHARING]["cpu_utilisation"]
        return run_energy(jobs, stays, self._machine, self._power, selection, self._cpu, utilisation)
