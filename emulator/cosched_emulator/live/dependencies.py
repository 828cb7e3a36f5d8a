"""Submitted jobs that the scheduler does not know yet: they wait for other jobs, a begin time, or a slot of their array."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Final, NamedTuple

from cosched_emulator.live.outbox import Outbox
from cosched_emulator.manager.managed_job import ManagedJob
from cosched_emulator.manager.manager import Manager
from cosched_emulator.manager.record import Origin
from cosched_emulator.users.requests import QUEUED
from cosched_emulator.workload.job import WorkloadJob
from cosched_plugin.protocol.messages import CANCELLED, COMPLETED, Event, JobHeld, JobSubmitted

DEPENDENCY, BEGIN_TIME, ARRAY_LIMIT, HELD = "Dependency", "BeginTime", "JobArrayTaskLimit", "JobHeldUser"
UNSERVED = "NoScheduler"  # of a job that the scheduler may start; `QUEUED` where one is served
# The reasons of a pending job, for `queue` and `job`, and what each means.
REASONS: Final = {
    QUEUED: "the scheduler has not started it; only the scheduler knows more",
    UNSERVED: "no scheduler is connected",
    HELD: "it is held",
    DEPENDENCY: "it waits for other jobs",
    BEGIN_TIME: "its begin time has not come",
    ARRAY_LIMIT: "its turn in its array has not come",
}
AFTER_OK, AFTER_ANY = "afterok", "afterany"
_MOST_VOID: Final = 1_000  # void entries that may stay on a heap


class Waiting(NamedTuple):
    """A submitted job that the scheduler does not know yet; ``reason`` says what it waits for."""

    job: ManagedJob
    reason: str


class _Array(NamedTuple):
    """An array with a limit on the number of its tasks that the scheduler knows at a time."""

    at_once: int
    there: set[int]  # tasks that the scheduler knows, by job id
    ready: dict[int, int]  # tasks that wait for a slot only, by job id, with their place in the line
    line: list[tuple[int, int]]  # heap of (place, job) of those that are not held, with void entries


class WaitingRoom:
    """The waiting jobs and their conditions; a job that waits for nothing any more goes to ``outbox``, for the scheduler."""

    def __init__(self, manager: Manager, outbox: Outbox) -> None:
        self.jobs: dict[int, Waiting] = {}
        self.members: dict[int, dict[int, int]] = {}  # by array id: jobs that have not ended, by their task
        self._manager = manager
        self._outbox = outbox
        self._after: dict[
            int, set[tuple[str, int]]
        ] = {}  # by waiting job: (kind, job) of dependencies that have not ended yet
        self._before: dict[
            int, dict[int, None]
        ] = {}  # by job: the jobs that wait for its end, in the order of their entry
        self._arrays: dict[int, _Array] = {}
        self._places = count()
        self._tasks: dict[int, Origin] = {}  # by job, of tasks of arrays
        self._held: set[int] = set()
        self.begin_us: dict[int, int] = {}  # by waiting job: its begin time, if that is in the future
        self._begins: list[tuple[int, int]] = []  # heap of (begin time, job), with void entries

    def limit(self, array_id: int, at_once: int) -> None:
        """Limit the number of tasks of a new array that the scheduler gets at a time."""
        self._arrays[array_id] = _Array(at_once, set(), {}, [])

    def enter(
        self,
        at_us: int,
        job: WorkloadJob,
        origin: Origin,
        after: Iterable[tuple[str, int]],
        *,
        held: bool,
        begin_us: int = 0,
    ) -> None:
        """Enter a submitted job that waits for the ends of the jobs ``after``, and for the time ``begin_us``.

        None of ``after`` may have ended yet: an end that has passed is not told again. A job that waits for nothing goes on at once.
        """
        job_id = job.spec.id
        if origin.array_id is not None and origin.array_index is not None:
            self._tasks[job_id] = origin
            self.members.setdefault(origin.array_id, {})[origin.array_index] = job_id
        if held:
            self._held.add(job_id)
        waits_for = set(after)
        self.jobs[job_id] = Waiting(self._manager.accept(job, origin), "")
        if begin_us > at_us:
            self.begin_us[job_id] = begin_us
            heappush(self._begins, (begin_us, job_id))
        if waits_for:
            self._after[job_id] = waits_for
            for _, other in sorted(waits_for):
                self._before.setdefault(other, {})[job_id] = None
        self._go_on(at_us, job_id)

    def next_begin_us(self) -> int | None:
        """Return the earliest future begin time, including those of cancelled jobs; None if there is none."""
        return self._begins[0][0] if self._begins else None

    def begin(self, at_us: int) -> bool:
        """Release the jobs whose begin time has come; return whether there were any."""
        begun = False
        while self._begins and self._begins[0][0] <= at_us:
            _, job_id = heappop(self._begins)
            if self.begin_us.pop(job_id, None) is not None:
                self._go_on(at_us, job_id)
                begun = True
        return begun

    def hold(self, at_us: int, job_id: int, *, hold: bool) -> str | None:
        """Hold or release a waiting job; return the reason if that is impossible."""
        if (job_id in self._held) == hold:
            return "it is held already" if hold else "it is not held"
        (self._held.add if hold else self._held.discard)(job_id)
        self._wait(at_us, job_id)
        array = self._array(job_id)
        if array is not None and not hold and job_id in array.ready:
            if len(array.line) > _MOST_VOID + 2 * len(array.ready):
                array.line[:] = sorted({entry for entry in array.line if entry[1] in array.ready})
            heappush(array.line, (array.ready[job_id], job_id))
            self._next_of(at_us, array)
        return None

    def cancel(self, at_us: int, job_id: int, reason: str = "") -> None:
        """End a waiting job."""
        job = self.jobs.pop(job_id).job
        job.reason = reason
        self._manager.finish(job, at_us, CANCELLED)

    # Must be called once for every job that ends, in whatever way, after the manager has forgotten it. It may end further jobs
    # (whose dependency can never hold): the caller handles these ends in turn, from the manager's diary.
    def handle_end(self, at_us: int, job_id: int, state: str) -> None:
        """Release the jobs that waited for a job that has ended, and forget that job."""
        self._held.discard(job_id)
        for _, other in self._after.pop(job_id, ()):
            before = self._before.get(other, {})
            before.pop(job_id, None)
            if not before:
                self._before.pop(other, None)
        self._forget_begin(job_id)
        for other in self._before.pop(job_id, ()):
            self._handle_dependency_end(at_us, other, job_id, state)
        origin = self._tasks.pop(job_id, None)
        if origin is None or origin.array_id is None or origin.array_index is None:
            return
        array_id, task = origin.array_id, origin.array_index
        members = self.members[array_id]
        del members[task]
        array = self._arrays.get(array_id)
        if array is not None:
            array.there.discard(job_id)
            array.ready.pop(job_id, None)
            self._next_of(at_us, array)
        if not members:
            del self.members[array_id]
            self._arrays.pop(array_id, None)

    # ------------------------------------------------------------ in another manager

    def state(self) -> dict[str, Any]:
        """Return the state in plain values, for `take_over`."""
        return {
            "waiting": [[job_id, waiting.reason] for job_id, waiting in self.jobs.items()],
            "after": [[job_id, sorted(waits_for)] for job_id, waits_for in self._after.items()],
            "before": [[job_id, list(waiting)] for job_id, waiting in self._before.items()],
            "arrays": [
                [array_id, array.at_once, sorted(array.there), sorted(array.ready, key=array.ready.__getitem__)]
                for array_id, array in self._arrays.items()
            ],
            "held": sorted(self._held),
            "begin_us": list(self.begin_us.items()),
        }

    def take_over(self, state: Mapping[str, Any], origins: Mapping[int, Origin]) -> None:
        """Take over the state of another manager's jobs, whose ``origins`` are in order of their entry; the manager has them."""
        for job_id, origin in origins.items():
            if origin.array_id is not None and origin.array_index is not None:
                self._tasks[job_id] = origin
                self.members.setdefault(origin.array_id, {})[origin.array_index] = job_id
        for job_id, reason in state["waiting"]:
            self.jobs[job_id] = Waiting(self._manager.jobs[job_id], reason)
        for job_id, waits_for in state["after"]:
            self._after[job_id] = {(kind, other) for kind, other in waits_for}
        for job_id, waiting in state["before"]:
            self._before[job_id] = dict.fromkeys(waiting)
        self._held |= set(state["held"])
        self.begin_us |= dict(state["begin_us"])
        self._begins = [(begin_us, job_id) for job_id, begin_us in self.begin_us.items()]
        heapify(self._begins)
        for array_id, at_once, there, ready in state["arrays"]:
            places = {job_id: next(self._places) for job_id in ready}
            line = sorted([(place, job_id) for job_id, place in places.items() if job_id not in self._held])
            self._arrays[array_id] = _Array(at_once, set(there), places, line)

    def _handle_dependency_end(self, at_us: int, job_id: int, ended: int, state: str) -> None:
        waits_for = self._after.get(job_id)
        if waits_for is None or job_id not in self.jobs:
            return  # the waiting job has ended itself
        if (AFTER_OK, ended) in waits_for and state != COMPLETED:
            self.cancel(at_us, job_id, f"its dependency can never hold: job {self._label(ended)} has ended {state}")
            return
        waits_for -= {(AFTER_OK, ended), (AFTER_ANY, ended)}
        if not waits_for:
            del self._after[job_id]
            self._go_on(at_us, job_id)

    def _label(self, job_id: int) -> str:
        origin = self._tasks.get(job_id)
        return str(job_id) if origin is None else f"{origin.array_id}_{origin.array_index}"

    def _forget_begin(self, job_id: int) -> None:
        """Forget the begin time of a job that has ended; drop the void entries of the heap if most entries are void."""
        if self.begin_us.pop(job_id, None) is not None and len(self._begins) > _MOST_VOID + 2 * len(self.begin_us):
            self._begins = [entry for entry in self._begins if entry[1] in self.begin_us]
            heapify(self._begins)

    def _go_on(self, at_us: int, job_id: int) -> None:
        """Let a job wait for its dependencies and begin time; then pass it to the scheduler, or let it wait for its array."""
        if job_id in self._after or job_id in self.begin_us:
            self._wait(at_us, job_id)
            return
        array = self._array(job_id)
        if array is None:
            self._go(at_us, job_id)
            return
        array.ready[job_id] = next(self._places)
        if job_id not in self._held:  # a held one takes no slot of the array
            heappush(array.line, (array.ready[job_id], job_id))
        self._wait(at_us, job_id)
        self._next_of(at_us, array)

    def _array(self, job_id: int) -> _Array | None:
        origin = self._tasks.get(job_id)
        return None if origin is None or origin.array_id is None else self._arrays.get(origin.array_id)

    def _next_of(self, at_us: int, array: _Array) -> None:
        """Pass the next tasks of an array to the scheduler, within the array's limit."""
        while array.line and len(array.there) < array.at_once:
            _, job_id = heappop(array.line)
            if job_id in self.jobs and job_id not in self._held and array.ready.pop(job_id, None) is not None:
                array.there.add(job_id)
                self._go(at_us, job_id)

    def _go(self, at_us: int, job_id: int) -> None:
        held = job_id in self._held
        self._held.discard(job_id)
        events: list[Event] = [JobSubmitted(self.jobs.pop(job_id).job.job.spec)]
        if held:
            events.append(JobHeld(job_id))
        self._outbox.tell(at_us, *events)

    def _wait(self, at_us: int, job_id: int) -> None:
        job = self.jobs[job_id].job
        reason = ARRAY_LIMIT
        if job_id in self._held:
            reason = HELD
        elif job_id in self._after:
            reason = DEPENDENCY
        elif job_id in self.begin_us:
            reason = BEGIN_TIME
        self.jobs[job_id] = Waiting(job, reason)
        self._manager.diary.note_state(at_us, job, reason)
