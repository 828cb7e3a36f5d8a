"""The scheduler's actions: each is checked against the present state, then carried out or refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias, assert_never

from cosched_emulator.manager.managed_job import ManagedJob
from cosched_emulator.manager.notes import Notes
from cosched_emulator.manager.running_jobs import RunningJobs
from cosched_emulator.manager.time_sharing.rotating import Rotating
from cosched_emulator.manager.timeline import WAKE, Timeline
from cosched_plugin.common.allocation import times_refusal
from cosched_plugin.common.slots import NO_SLOTS, Member, joining_refusal, pairing_turns, slot_refusal
from cosched_plugin.common.threads import Layers
from cosched_plugin.protocol import messages as m

MOST_WAKES: Final = 100_000
KEPT_BACK: Final = "reservations leave the job fewer nodes until they have begun: it is held meanwhile"
_SLOT_0: Final = 0
_Placed: TypeAlias = tuple[ManagedJob, m.StartJob, Layers]  # a job with its allocated threads


class TakesActions:
    """Carries out actions on a manager's pending and running jobs, its rotation, its notes and its wakes."""

    notes: Notes
    pending: dict[int, ManagedJob]
    processes: Rotating | None  # None: a machine without slots
    running: dict[int, ManagedJob]
    timeline: Timeline
    wakes: set[int]
    _running_jobs: RunningJobs
    keeps_back: Callable[[int], bool] | None

    def _end(self, job: ManagedJob, state: str) -> None:
        """End a job for good."""
        raise NotImplementedError

    def _carry_out(self, action: m.Action, now_us: int) -> str | None:
        """Carry out one action, or return why that is impossible."""
        match action:
            case m.StartJob():
                return self._start(action, now_us)
            case m.StartTogether():
                return self._start_together(action.starts, now_us)
            case m.ReviseJob():
                return self._running_jobs.revise(action)
            case m.SuspendJob():
                return self._running_jobs.suspend(action.job_id, now_us, to_disk=action.to_disk)
            case m.ResumeJob():
                return self._running_jobs.resume(action.job_id, now_us)
            case m.SetRotation():
                return self._set_rotation(action)
            case m.ChangeSlot():
                return self._change_slot(action)
            case m.SetNote():
                return self._set_note(action)
            case m.WakeAt():
                return self._wake_at(action.at_us, now_us)
            case m.RejectJob():
                return self._reject(action)
            case m.RequeueJob() | m.KillJob():
                return self._ask_to_leave(action)
            case m.SubmitJob():
                return "this manager takes jobs from its users alone"
            case m.UnknownAction():
                return f"unknown action {action.type!r}"
            case _:
                assert_never(action)

    def _start(self, start: m.StartJob, now_us: int) -> str | None:
        """Start a job, or return why that is impossible."""
        placed = self._place(start)
        if isinstance(placed, str):
            return placed
        job, _, layers = placed
        del self.pending[start.job_id]
        self._running_jobs.start(job, start, layers, now_us)
        return None

    def _start_together(self, starts: Sequence[m.StartJob], now_us: int) -> str | None:
        """Start all of these jobs, or none."""
        all_placed: list[_Placed] = []
        for start in starts:
            twice = any(other.job_id == start.job_id for _, other, _ in all_placed)
            placed = _not_pending(start) if twice else self._place(start, all_placed)
            if isinstance(placed, str):
                for job, other, layers in all_placed:
                    self._running_jobs.slots.pool(other.slot).give_back(job.job.spec, other.runs, layers)
                    self._running_jobs.slots.drop(other.slot)
                return placed
            all_placed.append(placed)
        for job, start, layers in all_placed:
            del self.pending[start.job_id]
            self._running_jobs.start(job, start, layers, now_us)
        return None

    def _place(self, start: m.StartJob, besides: Sequence[_Placed] = ()) -> _Placed | str:
        """Allocate the threads for a start, or return why that is impossible; the job stays pending until it begins.

        Jobs ``besides`` it have their threads, and start with it.
        """
        job = self.pending.get(start.job_id)
        if job is None or job.held:
            return _not_pending(start)
        spec = job.job.spec
        pool = self._running_jobs.pool
        if start.slot is not _SLOT_0:
            reason = NO_SLOTS if self.processes is None else slot_refusal(start.slot)
            if reason is not None:
                return reason
            pool = self._running_jobs.slots.pool(start.slot)
        layers = times_refusal(spec.limit_us, start) or pool.place(spec, start.runs)
        if self.processes is not None and not isinstance(layers, str):
            members = {
                other.job_id: Member(other.slot, theirs, their_job.job.spec.unpaired)
                for their_job, other, theirs in besides
            }
            member = Member(start.slot, layers, spec.unpaired)
            layers = self._joining_refusal(start.job_id, member, members) or layers
        if isinstance(layers, str):
            self._running_jobs.slots.drop(start.slot)
            return layers
        pool.take(spec, start.runs, layers)
        return job, start, layers

    def _change_slot(self, change: m.ChangeSlot) -> str | None:
        if self.processes is None:
            return NO_SLOTS
        job = self.running.get(change.job_id)
        if job is None:
            return f"job {change.job_id} does not run"
        reason = self._running_jobs.slots.change_refusal(change.slot, job.slot, job.layers)
        if reason is None:
            member = Member(change.slot, job.layers, job.job.spec.unpaired)
            reason = self._joining_refusal(change.job_id, member, {})
        if reason is None:
            self._running_jobs.change_slot(job, change.slot)
            self.processes.change_slots()
        return reason

    def _set_rotation(self, action: m.SetRotation) -> str | None:
        return NO_SLOTS if self.processes is None else self.processes.set_rotation(action, self._members())

    def _joining_refusal(self, job_id: int, member: Member, besides: Mapping[int, Member]) -> str | None:
        """Return why a job cannot be in a slot, given the rotation; jobs ``besides`` it are about to start."""
        turns = () if self.processes is None else pairing_turns(job_id, member.slot, self.processes.rotation.turns)
        return joining_refusal(job_id, member, turns, {**self._members(), **besides}) if turns else None

    def _members(self) -> dict[int, Member]:
        """Return the running jobs as time sharing sees them."""
        return {job_id: Member(job.slot, job.layers, job.job.spec.unpaired) for job_id, job in self.running.items()}

    def _set_note(self, note: m.SetNote) -> str | None:
        if note.job_id is not None and note.job_id not in self.pending and note.job_id not in self.running:
            return f"there is no job {note.job_id}"
        return self.notes.set(note.job_id, note.key, note.value)

    def _wake_at(self, at_us: int, now_us: int) -> str | None:
        if at_us <= now_us and not self._running_jobs.allows_late_answers:
            return f"a wake at {at_us} us is not after now, {now_us} us"
        if at_us not in self.wakes:
            if len(self.wakes) >= MOST_WAKES:
                return f"there are {MOST_WAKES} wakes to come already"
            self.wakes.add(at_us)
            self.timeline.schedule(at_us, WAKE, 0)
        return None

    def _ask_to_leave(self, action: m.RequeueJob | m.KillJob) -> str | None:
        """Mark a running job, which leaves in the next round."""
        job = self.running.get(action.job_id)
        if job is None or job.leaving:
            return f"job {action.job_id} does not run, or leaves already"
        job.leaving = True
        return None

    def _reject(self, action: m.RejectJob) -> str | None:
        job = self.pending.get(action.job_id)
        if job is None:
            return f"job {action.job_id} does not wait"
        # Only the policy knows that a job takes more nodes than its threads need.
        if self.keeps_back is not None and self.keeps_back(job.id):
            return KEPT_BACK
        job.reason = action.reason
        self._end(job, m.REJECTED)
        return None


def _not_pending(start: m.StartJob) -> str:
    return f"job {start.job_id} is not waiting to be started"
