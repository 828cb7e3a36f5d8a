"""The rotation and the quanta of a manager: which jobs run when, and what they consumed.

PROTOCOL.md ("Slots", section 4) is the specification.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from cosched_emulator.manager.diary import Diary
from cosched_emulator.manager.managed_job import RUNNING, ManagedJob
from cosched_emulator.manager.record import GUEST, PARTNER, ROW, QuantumPart, QuantumPassed, QuantumRecord
from cosched_emulator.manager.time_sharing.shared_progress import ProcessNodes, ProcessProgress
from cosched_emulator.manager.timeline import FOREVER_US, QUANTUM, Timeline
from cosched_hwmodel.units import WHOLE_PPM
from cosched_plugin.common.slots import Member, Rotation, quantum_refusal, rotation_of, rotation_refusal
from cosched_plugin.protocol.messages import MOST_SHARES, QuantumEnded, SetRotation, SlotState, Turn

if TYPE_CHECKING:
    from cosched_emulator.nodeos.clusters import ProcessUse

_READY: Final = 0  # version of the entry for a job that is back from disk; ends of quanta have others

_Member: TypeAlias = tuple[int, int, str, ManagedJob]  # place of its slot in the turn, job id, role, job
_PLACE: Final = itemgetter(0, 1)


class _Seen(NamedTuple):
    """A job as it was when it was first let run in the present quantum."""

    slot: int
    role: str
    processes: int


@dataclass(slots=True)
class Quantum:
    """The quantum that runs, and what could run in it."""

    number: int
    begin_us: int
    end_us: int
    turn: Turn  # that it belongs to
    left: int  # quanta of that turn that are still to come
    jobs: int  # running jobs at its begin
    on_nodes: Mapping[int, int] = field(default_factory=dict)  # number of jobs that may run, by node
    seen: dict[int, _Seen] = field(default_factory=dict)
    paired: set[int] = field(default_factory=set)
    restarted: set[int] = field(default_factory=set)  # jobs that were requeued in it after they had run in it


class Rotating(ProcessProgress):
    """The processes of the running jobs, the rotation, and the quantum that runs, if any.

    What runs is decided in `settle`, at the end of an instant.
    """

    def __init__(
        self, timeline: Timeline, running: Mapping[int, ManagedJob], nodes: ProcessNodes, diary: Diary
    ) -> None:
        super().__init__(timeline, running, nodes)
        self.quantum_us = nodes.quantum_us
        self.quantum = 0  # number of the last one that has ended
        self.rotation = Rotation()
        self._slots: frozenset[int] = frozenset()  # of all its turns
        self._guests: frozenset[int] = frozenset()
        self.ended_quanta: list[Callable[[QuantumRecord], object]] = []  # called with the record of each quantum
        self.idle_quanta = 0  # the last ones in which no job used any CPU time
        self._diary = diary
        self._undecided = False  # what may run must be decided anew
        self._changed = False  # a change may have left no job that can run
        self._stopped = False  # a job that could run has been suspended
        self.present: Quantum | None = None  # None: no quantum runs
        self._version = _READY  # of the entry of the quantum's end
        self._collected = True  # nothing has run since the last collection
        # By first slot: number and left of the last quantum of such a turn.
        self._ended: dict[int, tuple[int, int]] = {}

    def state(self) -> SlotState:
        """Return the time sharing of the machine, for an inventory."""
        return SlotState(self.quantum_us, self.quantum, self.rotation.turns, self.rotation.left)

    def turns_state(self) -> dict[str, Any]:
        """Return what `take_over_turns` takes over, in plain values, while no job runs."""
        return {"quantum": self.quantum, "rotation": self.rotation, "ended": list(self._ended.items())}

    def take_over_turns(self, state: Mapping[str, Any]) -> None:
        """Go on with the quanta and the rotation of another manager, in which no job ran."""
        turns, left = state["rotation"]
        self.quantum = state["quantum"]
        self._set(rotation_of(turns)._replace(left=left))
        self._ended |= {slot: (number, still_left) for slot, (number, still_left) in state["ended"]}

    def role_of(self, job_id: int) -> str | None:
        """Return what a job is in the quantum that runs (`record`); None: it cannot run now."""
        if job_id not in self.allowed:
            return None
        return ROW if self.present is None else self.present.seen[job_id].role

    def set_rotation(self, action: SetRotation, members: Mapping[int, Member]) -> str | None:
        """Set the rotation, or return why that is impossible."""
        reason = quantum_refusal(action.quantum, self.quantum) or rotation_refusal(action.turns, members)
        if reason is not None:
            return reason
        self._set(rotation_of(action.turns))
        if action.quantum <= self.quantum:
            self.rotation = self._caught_up(self.rotation, action.quantum)
        if action.quantum > self.quantum or self.present is None:
            self._undecided = True
        else:
            self._changed = True
        return None

    def _set(self, rotation: Rotation) -> None:
        self.rotation = rotation
        self._slots = frozenset(chain.from_iterable([turn.slots for turn in rotation.turns]))
        self._guests = frozenset(chain.from_iterable([turn.guests for turn in rotation.turns]))

    def _caught_up(self, rotation: Rotation, quantum: int) -> Rotation:
        """Return a rotation that begins with ``quantum`` as it is after the quanta that have ended since.

        These are quanta of which its scheduler did not know yet. Where a rotation goes on depends on the last one alone whose
        turn it has.
        """
        turns = [turn.slots[0] for turn in rotation.turns]
        number, slot = max([(self._ended[slot][0], slot) for slot in turns if slot in self._ended], default=(0, 0))
        return rotation if number < quantum else rotation.ended(slot, self._ended[slot][1])

    # ------------------------------------------------------------ jobs

    def start(self, job: ManagedJob, now_us: int) -> None:
        """Put the processes of a job on its nodes, which starts for the first time or once more."""
        super().start(job, now_us)
        if self.present is not None and job.id in self.present.seen:
            self.present.restarted.add(job.id)
        self._may_start()

    def leave(self, job: ManagedJob, now_us: int) -> None:
        """Take a job off its nodes or the disk: if none of those that still run can run now, the quantum is over."""
        super().leave(job, now_us)
        if self.present is not None:
            self._drop_idle_quantum(now_us)
        else:
            self._collect(now_us)

    def suspend(self, job: ManagedJob, now_us: int) -> None:
        """Stop a job that has just been suspended, and record its work done."""
        job.work_us = self.work_us(job, now_us)
        self._stopped = self.stop(job, now_us) or self._stopped
        self.change_slots()

    def resume(self, job: ManagedJob, now_us: int) -> None:
        """Let a job continue in its turn, when it is back from disk."""
        if job.ready_us > now_us:
            self._timeline.schedule(job.ready_us, QUANTUM, 0, _READY)
        else:
            self._may_start()

    def change_slots(self) -> None:
        """A job that runs is in another slot, or has been suspended."""
        self._changed = True
        self._may_start()

    def _may_start(self) -> None:
        """A running job may run from now on: where no quantum runs, one begins at the end of this instant."""
        if self.present is None:
            self._undecided = True

    # ------------------------------------------------------------ the end of a quantum

    def end_event(self, version: int, gone: Collection[int]) -> QuantumEnded | None:
        """Return the event for a scheduled end; None if it is void, or no job that is left can run.

        The jobs in ``gone`` end at the same instant.
        """
        if version == _READY:
            self._may_start()
        present = self.present
        if version != self._version or present is None:
            return None
        left = {job_id: job for job_id, job in self._running.items() if job_id not in gone}
        if self._nothing_can_run(left, present.end_us):
            self._changed = True
            return None
        shares = self._close(present, present.end_us, left)
        return QuantumEnded(present.number, present.turn.slots[0], present.left, tuple(sorted(shares.items())))

    def apply(self, event: QuantumEnded) -> None:
        """Move the rotation on, and remember the shares."""
        self.quantum = event.quantum
        self.rotation = self.rotation.ended(event.slot, event.left)
        self._ended[event.slot] = (event.quantum, event.left)
        for job_id, share in event.shares:
            job = self._running[job_id]
            job.quanta += 1
            job.shares = (share, *job.shares)[:MOST_SHARES]
        self._undecided = True

    def _close(self, present: Quantum, now_us: int, running: Mapping[int, ManagedJob]) -> dict[int, int]:
        """Collect what was used in the quantum, and return the shares of those ``running`` jobs that could run long enough."""
        self.present = None
        used = _by_job(self.collect(now_us))
        self._collected = True
        self.idle_quanta += 1
        shares = {}
        for job_id, (consumed_us, logged_us, allowed_us) in used.items():
            if consumed_us:
                self.idle_quanta = 0
            if job_id not in running or job_id in present.restarted:
                continue
            if 2 * allowed_us >= self.quantum_us * present.seen[job_id].processes:
                shares[job_id] = min(WHOLE_PPM, (2 * logged_us * WHOLE_PPM + allowed_us) // (2 * allowed_us))
        if self.ended_quanta or self._diary.kept:
            record = _record(present, now_us, used, shares)
            self._diary.note(QuantumPassed(record))
            for receive in self.ended_quanta:
                receive(record)
        return shares

    # ------------------------------------------------------------ what may run

    def settle(self, now_us: int) -> None:
        """Let the jobs run whose turn it is."""
        if self._changed and self.present is not None:
            self._drop_idle_quantum(now_us)
        self._changed = False
        if self._undecided:
            self._undecided = self._stopped = False
            self._decide(now_us)
        elif self._stopped:
            self._stopped = False
            until_us = FOREVER_US if self.present is None else self.present.end_us
            if self.present is None:
                self._collect(now_us)
            self.allow(list(self.allowed.values()), now_us, until_us)

    def _decide(self, now_us: int) -> None:
        if not self.rotation.turns:
            self._drop_quantum(now_us)
            self._collect(now_us)  # jobs had other neighbours until now
            self._collected = False
            able = [job for _, job in sorted(self._running.items()) if job.slot == 0 and _may_run(job, now_us)]
            self.allow(able, now_us, FOREVER_US)
            return
        turn, members, left = self._next_turn(now_us)
        if not members:
            self._drop_quantum(now_us)
            self.allow((), now_us, FOREVER_US)
            return
        present = self.present or self._begin(now_us, turn, left)
        present.turn, present.left = turn, left
        present.on_nodes = self.allow([job for _, _, _, job in members], now_us, present.end_us)
        shared = {node for node, jobs in present.on_nodes.items() if jobs > 1}
        for _, job_id, role, job in members:
            present.seen.setdefault(job_id, _Seen(job.slot, role, job.job.spec.processes))
            if shared and not shared.isdisjoint(self.nodes_of[job_id]):
                present.paired.add(job_id)

    def _nothing_can_run(self, running: Mapping[int, ManagedJob], now_us: int) -> bool:
        """Return whether none of these jobs can run: none of the present quantum, and none of any turn."""
        if not self.allowed.keys().isdisjoint(running):
            return False
        slots, guests = self._slots, self._guests
        return not any(
            (job.slot in slots or job_id in guests) and _may_run(job, now_us) for job_id, job in running.items()
        )

    def _next_turn(self, now_us: int) -> tuple[Turn, list[_Member], int]:
        """Return the first turn in which a job can run, its jobs in their order, and how many quanta follow its next one.

        There are no jobs if there is no such turn.
        """
        left = self.rotation.left
        for turn in self.rotation.turns:
            places = {slot: place for place, slot in enumerate(turn.slots)}
            guests = set(turn.guests)
            members: list[_Member] = []
            for job_id, job in self._running.items():
                place = places.get(job.slot)
                if place is not None:
                    if _may_run(job, now_us):
                        members.append((place, job_id, PARTNER if place else ROW, job))
                elif job_id in guests and _may_run(job, now_us):
                    members.append((len(places), job_id, GUEST, job))
            if members:
                members.sort(key=_PLACE)
                return turn, members, (left or turn.quanta) - 1
            left = 0
        return Turn((0,)), [], 0

    def _begin(self, now_us: int, turn: Turn, left: int) -> Quantum:
        self._collect(now_us)
        self._collected = False
        self._version += 1
        present = Quantum(self.quantum + 1, now_us, now_us + self.quantum_us, turn, left, len(self._running))
        self.present = present
        self._timeline.schedule(present.end_us, QUANTUM, 0, self._version)
        return present

    def _collect(self, now_us: int) -> None:
        """Pass on what was used outside of quanta, unless nothing can have been."""
        if not self._collected:
            self.collect(now_us)

    def _drop_idle_quantum(self, now_us: int) -> None:
        """End the quantum that runs if no job can run in it or in another turn."""
        if self._nothing_can_run(self._running, now_us):
            self._drop_quantum(now_us)
            self._undecided = True  # without a rotation, which may have come meanwhile, slot 0 runs

    def _drop_quantum(self, now_us: int) -> None:
        """End a quantum that runs, without an event."""
        if self.present is not None:
            self._close(self.present, now_us, self._running)


def _record(
    quantum: Quantum, now_us: int, used: Mapping[int, Sequence[int]], shares: Mapping[int, int]
) -> QuantumRecord:
    parts = []
    for job_id, (consumed_us, _, allowed_us) in used.items():
        slot, role, processes = quantum.seen[job_id]
        paired, each_us = job_id in quantum.paired, allowed_us // processes
        parts.append(QuantumPart(job_id, slot, role, paired, each_us, consumed_us, shares.get(job_id)))
    on_nodes = quantum.on_nodes.values()
    paired_nodes = sum([jobs > 1 for jobs in on_nodes])
    first = quantum.turn.slots[0]
    return QuantumRecord(
        quantum.number, quantum.begin_us, now_us, first, quantum.jobs, len(on_nodes), paired_nodes, tuple(parts)
    )


def _may_run(job: ManagedJob, now_us: int) -> bool:
    """Return whether a job could run now if it was its turn."""
    return job.state == RUNNING and job.ready_us <= now_us


def _by_job(usages: Iterable[ProcessUse]) -> dict[int, list[int]]:
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
