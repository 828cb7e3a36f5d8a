"""The rotation and the quanta of a manager: which jobs run when, and what they consumed.

PROTOCOL.md ("Slots", section 4) is the specification.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from cosched_emulator.manager.diary import Diary
from cosched_emulator.manager.managed_job import RUNNING, ManagedJob
from cosched_emulator.manager.time_sharing.dispatch import FOREVER_US, Dispatcher
from cosched_emulator.manager.time_sharing.record import GUEST, PARTNER, ROW, Part, QuantumRecord
from cosched_emulator.manager.timeline import QUANTUM, Timeline
from cosched_emulator.nodeos.cluster import Usage
from cosched_hwmodel.units import WHOLE_PPM
from cosched_plugin.common.slots import Member, Rotation, quantum_refusal, rotation_refusal
from cosched_plugin.protocol.messages import MOST_SHARES, QuantumEnded, SetRotation, SlotState, Turn

MOST_REMEMBERED: Final = 1_000  # quanta that a late rotation may be behind and still go on at the right turn
_READY: Final = 0  # version of the entry for a job that is back from disk; ends of quanta have others


class _Seen(NamedTuple):
    """A job as it was when it was first let run in the present quantum."""

    slot: int
    role: str
    processes: int


class Rotating:
    """The rotation, and the quantum that runs, if any. What runs is decided in `settle`, at the end of an instant."""

    def __init__(self, timeline: Timeline, dispatcher: Dispatcher, quantum_us: int, diary: Diary) -> None:
        self.quantum_us = quantum_us
        self.quantum = 0  # number of the last one that has ended
        self.rotation = Rotation()
        self.ended_quanta: Callable[[QuantumRecord], None] | None = None  # called with the record of each quantum
        self._timeline = timeline
        self._diary = diary
        self._dispatcher = dispatcher
        self._undecided = False  # what may run must be decided anew
        self._stopped = False  # a job that could run has been suspended
        self._begin_us = 0
        self._end_us: int | None = None  # None: no quantum runs
        self._turn = Turn((0,))  # that the present quantum belongs to
        self._left = 0  # quanta of it that are still to come
        self._version = _READY  # of the entry of the quantum's end
        self._collected = True  # nothing has run since the last collection
        self._jobs = 0  # running jobs at its begin
        self._on_nodes: Mapping[int, int] = {}  # number of jobs that may run, by node
        self._seen: dict[int, _Seen] = {}
        self._paired: set[int] = set()
        self._ended: deque[tuple[int, int, int]] = deque(maxlen=MOST_REMEMBERED)  # quanta: number, first slot, left

    def state(self) -> SlotState:
        """Return the time sharing of the machine, for an inventory."""
        return SlotState(self.quantum_us, self.quantum, self.rotation.turns, self.rotation.left)

    def set_rotation(self, action: SetRotation, members: Mapping[int, Member]) -> str | None:
        """Set the rotation, or return why that is impossible."""
        reason = quantum_refusal(action.quantum, self.quantum) or rotation_refusal(action.turns, members)
        if reason is not None:
            return reason
        rotation = Rotation(tuple(action.turns))
        for number, slot, left in self._ended:
            if number >= action.quantum:  # it came late: the scheduler did not know yet that these have ended
                rotation = rotation.ended(slot, left)
        self.rotation = rotation
        if action.quantum > self.quantum or self._end_us is None:
            self._undecided = True
        return None

    # ------------------------------------------------------------ jobs

    def may_start(self) -> None:
        """A job may run from now on: where no quantum runs, one begins at the end of this instant."""
        if self._end_us is None:
            self._undecided = True

    def may_start_at(self, at_us: int) -> None:
        """A job may run from a later time on: then it is back from disk."""
        self._timeline.schedule(at_us, QUANTUM, 0, _READY)

    def stop(self) -> None:
        """A job that could run has been suspended."""
        self._stopped = True

    def leave(self, running: Mapping[int, ManagedJob], now_us: int) -> None:
        """A job has ended or was requeued, and these are still running: if none of them can run, the quantum is over."""
        if self._end_us is not None:
            if not self._next_turn(_able(running, now_us))[1]:
                self._drop_quantum(now_us, running)
        elif not self._collected:
            self._dispatcher.collect()

    # ------------------------------------------------------------ the end of a quantum

    def end_event(self, version: int, running: Mapping[int, ManagedJob], gone: Collection[int]) -> QuantumEnded | None:
        """Return the event for a scheduled end; None if it is void, or no running job is left.

        The jobs in ``gone`` end at the same instant.
        """
        if version == _READY:
            self.may_start()
        if version != self._version or self._end_us is None:
            return None
        left = {job_id: job for job_id, job in running.items() if job_id not in gone}
        if not left:
            return None
        shares = self._close(self._end_us, left)
        self._end_us = None
        return QuantumEnded(self.quantum + 1, self._turn.slots[0], self._left, tuple(sorted(shares.items())))

    def apply(self, event: QuantumEnded, running: Mapping[int, ManagedJob]) -> None:
        """Move the rotation on, and remember the shares."""
        self.quantum = event.quantum
        self.rotation = self.rotation.ended(event.slot, event.left)
        self._ended.append((event.quantum, event.slot, event.left))
        for job_id, share in event.shares:
            job = running[job_id]
            job.quanta += 1
            job.shares = (share, *job.shares)[:MOST_SHARES]
        self._undecided = True

    def _close(self, now_us: int, running: Mapping[int, ManagedJob]) -> dict[int, int]:
        """Collect what was used in the quantum, and return the shares of those ``running`` jobs that could run long enough."""
        used = _by_job(self._dispatcher.collect())
        self._collected = True
        shares = {}
        for job_id, (_, logged_us, allowed_us) in used.items():
            if job_id in running and 2 * allowed_us >= self.quantum_us * self._seen[job_id].processes:
                shares[job_id] = min(WHOLE_PPM, (2 * logged_us * WHOLE_PPM + allowed_us) // (2 * allowed_us))
        if self.ended_quanta is not None or self._diary.kept:
            record = self._record(now_us, used, shares)
            self._diary.note_quantum(record)
            if self.ended_quanta is not None:
                self.ended_quanta(record)
        return shares

    def _record(self, now_us: int, used: Mapping[int, Sequence[int]], shares: Mapping[int, int]) -> QuantumRecord:
        parts = []
        for job_id, (consumed_us, _, allowed_us) in used.items():
            slot, role, processes = self._seen[job_id]
            paired, each_us = job_id in self._paired, allowed_us // processes
            parts.append(Part(job_id, slot, role, paired, each_us, consumed_us, shares.get(job_id)))
        return QuantumRecord(
            self.quantum + 1,
            self._begin_us,
            now_us,
            self._turn.slots[0],
            self._jobs,
            len(self._on_nodes),
            sum([jobs > 1 for jobs in self._on_nodes.values()]),
            tuple(parts),
        )

    # ------------------------------------------------------------ what may run

    def settle(self, running: Mapping[int, ManagedJob], now_us: int) -> None:
        """Let the jobs run whose turn it is."""
        if self._undecided:
            self._undecided = self._stopped = False
            self._decide(running, now_us)
        elif self._stopped:
            self._stopped = False
            if self._end_us is not None and not self._next_turn(_able(running, now_us))[1]:
                self._drop_quantum(now_us, running)
            until_us = FOREVER_US if self._end_us is None else self._end_us
            self._dispatcher.allow(list(self._dispatcher.allowed.values()), now_us, until_us)

    def _decide(self, running: Mapping[int, ManagedJob], now_us: int) -> None:
        able = _able(running, now_us)
        if not self.rotation.turns:
            self._drop_quantum(now_us, running)
            self._collected = False
            self._dispatcher.allow([job for job in able if job.slot == 0], now_us, FOREVER_US)
            return
        turn, jobs, left = self._next_turn(able)
        if not jobs:
            self._drop_quantum(now_us, running)
            self._dispatcher.allow((), now_us, FOREVER_US)
            return
        self._turn, self._left = turn, left
        if self._end_us is None:
            self._begin(now_us, len(running))
        assert self._end_us is not None
        self._on_nodes = self._dispatcher.allow([job for _, job in jobs], now_us, self._end_us)
        for role, job in jobs:
            spec = job.job.spec
            self._seen.setdefault(spec.id, _Seen(job.slot, role, spec.processes))
            if any(self._on_nodes[node] > 1 for node in self._dispatcher.nodes_of(spec.id)):
                self._paired.add(spec.id)

    def _next_turn(self, able: Sequence[ManagedJob]) -> tuple[Turn, list[tuple[str, ManagedJob]], int]:
        """Return the first turn in which a job can run, its jobs with their roles, and how many quanta follow its next one.

        There are no jobs if there is no such turn.
        """
        by_slot: dict[int, list[ManagedJob]] = {}
        for job in able:
            by_slot.setdefault(job.slot, []).append(job)
        left = self.rotation.left
        for turn in self.rotation.turns:
            jobs = [
                (ROW if slot == turn.slots[0] else PARTNER, job) for slot in turn.slots for job in by_slot.get(slot, ())
            ]
            if turn.guests:
                jobs += [(GUEST, job) for job in able if job.job.spec.id in turn.guests and job.slot not in turn.slots]
            if jobs:
                return turn, jobs, (left or turn.quanta) - 1
            left = 0
        return Turn((0,)), [], 0

    def _begin(self, now_us: int, jobs: int) -> None:
        if not self._collected:
            self._dispatcher.collect()
        self._collected = False
        self._begin_us = now_us
        self._end_us = now_us + self.quantum_us
        self._version += 1
        self._jobs = jobs
        self._seen.clear()
        self._paired.clear()
        self._timeline.schedule(self._end_us, QUANTUM, 0, self._version)

    def _drop_quantum(self, now_us: int, running: Mapping[int, ManagedJob]) -> None:
        """End a quantum that runs, without an event."""
        if self._end_us is not None:
            self._close(now_us, running)
            self._end_us = None


def _able(running: Mapping[int, ManagedJob], now_us: int) -> list[ManagedJob]:
    """Return the jobs that could run now if it was their turn, by id."""
    return [job for _, job in sorted(running.items()) if job.state == RUNNING and job.ready_us <= now_us]


def _by_job(usages: Iterable[Usage]) -> dict[int, list[int]]:
    """Return what each job used on all its nodes: consumed, logged and allowed."""
    sums: dict[int, list[int]] = {}
    for job_id, _, consumed_us, logged_us, allowed_us in usages:
        row = sums.get(job_id)
        if row is None:
            sums[job_id] = [consumed_us, logged_us, allowed_us]
        else:
            row[0] += consumed_us
            row[1] += logged_us
            row[2] += allowed_us
    return sums
