"""The diary of changes of jobs and nodes, for the accounting; it costs nothing in a run without accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cosched_emulator.manager.managed_job import RUNNING, ManagedJob
from cosched_emulator.manager.record import (
    Change,
    DiskLeft,
    FaultHappened,
    JobChanged,
    JobEntered,
    JobFinished,
    NodeChanged,
    Origin,
    QuantumPassed,
    QuantumRecord,
    StayEnded,
)

if TYPE_CHECKING:
    from cosched_emulator.manager.job_energy import JobEnergy


class Diary:
    """The facts since the last `drain`, in order; always empty without ``kept``."""

    __slots__ = ("entries", "kept", "meter")

    def __init__(self) -> None:
        self.kept = False
        self.meter: JobEnergy | None = None  # of jobs, for accounts; None: the watts of the nodes are not known
        self.entries: list[Change] = []

    # A live manager must drain after every step, and pass all entries on before the next step is appended to the journal: after a
    # restart the entries of a step are counted to find those that are on disk already.
    def drain(self) -> list[Change]:
        """Return the facts so far, and start a new list."""
        entries, self.entries = self.entries, []
        return entries

    def note_submission(self, at_us: int, job: ManagedJob, origin: Origin) -> None:
        """Note that a job was submitted."""
        if self.kept:
            self.entries.append(JobEntered(at_us, job.job, origin))

    def note_state(self, at_us: int, job: ManagedJob, reason: str = "") -> None:
        """Note a change of a job's state, or of its reason."""
        if self.kept:
            self.entries.append(JobChanged(at_us, job.id, job.state, reason))
            if self.meter is not None and job.state == RUNNING:
                self.meter.begin(job)

    def note_occupancy(self, job: ManagedJob) -> None:
        """Note the end of a job's stay on its nodes."""
        if self.kept:
            self.entries.append(StayEnded(job.id, job.intervals[-1]))
            if self.meter is not None:
                self.meter.end(job)

    def note_disk_time(self, job: ManagedJob) -> None:
        """Note the end of a job's time on disk."""
        if self.kept:
            self.entries.append(DiskLeft(job.id, job.disk[-1]))

    def note_end(self, at_us: int, job: ManagedJob) -> None:
        """Note that a job has ended for good."""
        if self.kept:
            self.entries.append(JobChanged(at_us, job.id, job.state, job.reason))
            energy_j = None if self.meter is None else self.meter.take(job.id)
            self.entries.append(JobFinished(at_us, job.record(), energy_j))

    def note_node(self, at_us: int, node: int, state: str, reason: str = "") -> None:
        """Note a change of a node's state."""
        if self.kept:
            self.entries.append(NodeChanged(at_us, node, state, reason))

    def note_fault(self, at_us: int, kind: str, detail: str) -> None:
        """Note a fault."""
        if self.kept:
            self.entries.append(FaultHappened(at_us, kind, detail))

    def note_quantum(self, record: QuantumRecord) -> None:
        """Note that a quantum is over."""
        if self.kept:
            self.entries.append(QuantumPassed(record))
