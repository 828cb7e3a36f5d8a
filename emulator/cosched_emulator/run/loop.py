"""The loop of a run: time advances from instant to instant, after all events of an instant are answered.

All events of one instant go into one batch, in the order that PROTOCOL.md fixes. Events that the answer causes at the same
instant follow in further batches. Contention settles once, after the last batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from cosched_emulator.errors import EmulatorError, InvariantError, LinkError
from cosched_emulator.manager.record import JobRecord
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.protocol.limits import MAX_SPAN_US
from cosched_plugin.protocol.messages import JobEnded, Woken

if TYPE_CHECKING:
    from cosched_emulator.couplings.link import Link
    from cosched_emulator.manager.agenda import Agenda
    from cosched_emulator.manager.manager import Manager

# With more batches at one instant, the manager refuses the scheduler's actions without end.
MOST_ROUNDS: Final = 1000
# With more wakes in a row and no other events, the scheduler wakes itself without end.
MOST_IDLE_WAKES: Final = 5_000_000
# Later times leave plans no room within 64 bits; jobs that start again and again, or ever slower, get there.
LAST_US: Final = MAX_SPAN_US
# With more quanta in a row in which no CPU time is used, the running jobs make no progress any more.
MOST_IDLE_QUANTA: Final = 100_000


class Simulation:
    """One run of a workload on one machine under one scheduler, in virtual time."""

    def __init__(
        self,
        manager: Manager,
        agenda: Agenda,
        link: Link,
        *,
        progress: Callable[[int], None] | None = None,
        committed: Callable[[], None] | None = None,
        ended: Callable[[JobRecord], None] | None = None,
    ) -> None:
        """``progress`` is called with the number of jobs that have ended, ``committed`` after every batch and at the end.

        ``ended`` gets the record of every job as it ends; None: `run` returns them all.
        """
        self.manager = manager
        self.batches = 0
        self._agenda = agenda
        self._link = link
        self._progress = progress
        self._committed = committed
        self._ended = 0
        self._records: list[JobRecord] = []
        manager.ended_jobs = self._records.append if ended is None else ended

    # An answer whose actions are refused causes a further batch of the same instant, with the next number. The manager's state is
    # that of the last answered batch whenever the link or a receiver is called.
    def run(self) -> list[JobRecord]:
        """Run to the end and return the records in order of id: all of them, or with ``ended`` those of jobs that never ended.

        The run ends when nothing is due any more; jobs that are still pending (held, or never started) have no end.
        """
        manager, agenda, link, gate = self.manager, self._agenda, self._link, self._agenda.gate
        rotating = manager.processes
        committed = self._committed
        link.open(manager.inventory)
        try:
            idle = 0
            while (now_us := agenda.next_us()) is not None:
                if now_us > LAST_US:
                    raise EmulatorError(too_late(len(manager.running), len(manager.pending), now_us))
                events = agenda.due(now_us)
                if agenda.restarted:
                    agenda.restarted = False
                    link.open(manager.inventory)
                if events and type(events[0]) is not Woken:  # wakes are the last events of a batch
                    idle = 0
                elif (idle := idle + 1) > MOST_IDLE_WAKES:
                    text = f"the scheduler has requested {idle} wakes in a row, and nothing else has happened"
                    raise LinkError(text)
                if self._progress is not None and events:
                    self._ended += sum([type(event) is JobEnded for event in events])
                    self._progress(self._ended)
                rounds = 0
                while events:
                    rounds += 1
                    if rounds > MOST_ROUNDS:
                        text = f"{MOST_ROUNDS} batches at {now_us} us, and actions are still refused: {events[0]}"
                        raise InvariantError(text)
                    seq = manager.seq + 1
                    self.batches += 1
                    events = manager.commit(seq, now_us, events, link.exchange(seq, now_us, tuple(events)))
                    if gate is not None:
                        events += gate.take(now_us, events)
                    if committed is not None:
                        committed()
                if manager.settles:
                    manager.settle(now_us)
                if rotating is not None and rotating.idle_quanta > MOST_IDLE_QUANTA:
                    raise EmulatorError(_no_progress(manager, rotating.idle_quanta))
            if committed is not None:
                committed()
        finally:
            link.close()
        self._records += [job.record() for job in manager.jobs.values()]
        return sorted(self._records, key=job_id_of)


def too_late(running: int, pending: int, now_us: int) -> str:
    """Return in words that what is due next lies too late."""
    years = [at_us // (365 * 86_400 * SECOND_US) for at_us in (LAST_US, now_us)]
    return (
        f"the run has not ended within {years[0]} years, and what is due next lies {years[1]} years after its start: "
        f"{running} jobs run, {pending} are pending"
    )


def _no_progress(manager: Manager, quanta: int) -> str:
    jobs = ", ".join([str(job_id) for job_id in sorted(manager.running)[:10]])
    return (
        f"no job has used any CPU time in {quanta} quanta, and these still run: {jobs}; their processes wait longer than "
        "a quantum (time_sharing.quantum_s), for example for memory (time_sharing.memory_mb, swap_mb_s)"
    )


def job_id_of(record: JobRecord) -> int:
    """Return the number of a record's job."""
    return record.job.spec.id
