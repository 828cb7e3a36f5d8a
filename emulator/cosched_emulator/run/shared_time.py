"""What a run with time sharing keeps of its quanta: figures, and the quanta themselves in memory or in files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cosched_emulator.manager.time_sharing.record import QuantumRecord
from cosched_emulator.manager.time_sharing.rotating import Rotating
from cosched_emulator.results.columns import JobColumns, StayColumns
from cosched_emulator.results.figures.metrics import Selection
from cosched_emulator.results.figures.time_sharing import TimeSharingTotals
from cosched_plugin.protocol.messages import NodeClass

if TYPE_CHECKING:
    from cosched_emulator.results.files.run_files import RunFiles


class SharedTime:
    """Receives the quanta of a manager as they end."""

    def __init__(self, rotating: Rotating, files: RunFiles | None) -> None:
        """With ``files`` the quanta are written there, and not kept in memory."""
        self.totals = TimeSharingTotals()
        self._quantum_us = rotating.quantum_us
        self.quanta: list[QuantumRecord] = []
        self._keep = self.quanta.append if files is None else files.add_quantum
        rotating.ended_quanta = self._add

    def figures(
        self, jobs: JobColumns, stays: StayColumns, machine: Sequence[NodeClass], selection: Selection
    ) -> dict[str, Any]:
        """Return the figures of the run."""
        return self.totals.figures(jobs, stays, machine, self._quantum_us, selection)

    def _add(self, record: QuantumRecord) -> None:
        self.totals.add_quantum(record)
        self._keep(record)
