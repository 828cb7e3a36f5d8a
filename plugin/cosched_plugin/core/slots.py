"""Time sharing in a scheduler's state: the threads of the slots, the rotation and the quanta.

PROTOCOL.md ("Slots", section 4) is the specification. A machine without slots has no `Slots`: all its jobs are in slot 0.
"""

from __future__ import annotations

from collections.abc import Mapping

from cosched_plugin.common.allocation import Layers, ThreadPool
from cosched_plugin.common.slots import (
    Member,
    Rotation,
    SlotPools,
    joining_refusal,
    pairing_turns,
    quantum_refusal,
    rotation_of,
    rotation_refusal,
)
from cosched_plugin.core.running import Running
from cosched_plugin.protocol.messages import (
    MOST_SHARES,
    JobSpec,
    QuantumEnded,
    SetRotation,
    SlotState,
    StartJob,
)


class Slots:
    """The slots of a machine. The running jobs are the state's."""

    __slots__ = ("_before", "pools", "quantum", "quantum_ended", "quantum_us", "rotation")

    def __init__(self, told: SlotState, base: ThreadPool) -> None:
        """``base`` is the pool of slot 0."""
        self.pools = SlotPools(base)
        self.quantum_us = told.quantum_us
        self.quantum = told.quantum  # number of the last quantum that has ended
        self.quantum_ended = False  # in the present batch
        self.rotation = Rotation(tuple(told.turns), told.left)
        self._before: dict[
            int, Rotation
        ] = {}  # by number of the action of the last reply that set another: the one before

    # ------------------------------------------------------------ refusals

    def place(
        self, job: JobSpec, start: StartJob, running: Mapping[int, Running], besides: Mapping[int, Member]
    ) -> Layers | str:
        """Return the threads that a start names, if the job can start there now; otherwise the reason why it cannot.

        ``besides`` are jobs that start in the same decision.
        """
        placed = self.pools.pool(start.slot).place(job, start.runs)
        if not isinstance(placed, str):
            member = Member(start.slot, placed, job.unpaired)
            placed = self._joining_refusal(job.id, member, running, besides) or placed
        if isinstance(placed, str):
            self.pools.drop(start.slot)
        return placed

    def change_refusal(self, running: Running, slot: int, jobs: Mapping[int, Running]) -> str | None:
        """Return why a running job cannot change to ``slot``, or None."""
        reason = self.pools.change_refusal(slot, running.slot, running.layers)
        if reason is not None:
            return reason
        job = running.job
        return self._joining_refusal(job.id, Member(slot, running.layers, job.unpaired), jobs, {})

    def rotation_refusal(self, rotation: SetRotation, jobs: Mapping[int, Running]) -> str | None:
        """Return why a rotation cannot be set, or None: one that a policy decides on begins with the next quantum."""
        reason = quantum_refusal(rotation.quantum, self.quantum)
        if reason is None and rotation.quantum <= self.quantum:
            reason = (
                f"a rotation from quantum {rotation.quantum} on, which has ended: the next one is {self.quantum + 1}"
            )
        return reason or rotation_refusal(rotation.turns, members(jobs))

    def _joining_refusal(
        self, job_id: int, member: Member, running: Mapping[int, Running], besides: Mapping[int, Member]
    ) -> str | None:
        turns = pairing_turns(job_id, member.slot, self.rotation.turns)
        return joining_refusal(job_id, member, turns, {**members(running), **besides}) if turns else None

    # ------------------------------------------------------------ changes

    def set_rotation(self, rotation: SetRotation, number: int) -> None:
        """Set the rotation, by action ``number`` of a reply."""
        self._before[number] = self.rotation
        self.rotation = rotation_of(rotation.turns)

    def take_back(self, number: int) -> None:
        """Restore the rotation before action ``number`` of the last reply; a later action of that reply still holds."""
        before = self._before.pop(number, None)
        if before is None:
            return
        later = min((other for other in self._before if other > number), default=None)
        if later is None:
            self.rotation = before
        else:
            self._before[later] = before

    def begin_reply(self) -> None:
        """Forget what the last reply has changed."""
        self._before.clear()

    def end_quantum(self, event: QuantumEnded) -> None:
        """Move the rotation on."""
        if event.quantum <= self.quantum:
            raise ValueError(f"quantum {event.quantum} ends after quantum {self.quantum}")
        self.quantum = event.quantum
        self.quantum_ended = True
        self.rotation = self.rotation.ended(event.slot, event.left)


def members(running: Mapping[int, Running]) -> dict[int, Member]:
    """Return the running jobs as time sharing sees them."""
    return {job_id: Member(job.slot, job.layers, job.job.unpaired) for job_id, job in running.items()}


def with_share(running: Running, share_ppm: int) -> Running:
    """Return a running job after a quantum in which it consumed this share of the CPU time."""
    shares = (share_ppm, *running.shares)[:MOST_SHARES]
    return running._replace(quanta=running.quanta + 1, shares=shares)
