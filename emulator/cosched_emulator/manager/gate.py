"""The gate: all that only forbids the start of a job. Such a job has been submitted, and the scheduler is not told of it yet.

A job waits here for other jobs, for its begin time, for a place within the limits of its groups (`limits`) and of its array, or while
it is held. A job is told when, in each of its groups, the told jobs that have not ended leave room for it. So no start can exceed a
limit, every policy obeys, and a scheduler that restarts gets the told jobs as any others. Slurm's passes skip such jobs likewise,
without a reservation. Virtual and running time use the same gate: what it lets in are events, which `take` returns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, Final, NamedTuple, TypeAlias

from cosched_emulator import offered
from cosched_emulator.errors import InvariantError
from cosched_emulator.manager.managed_job import ManagedJob
from cosched_emulator.manager.manager import NO_ORIGIN, Manager
from cosched_emulator.manager.record import Origin
from cosched_emulator.manager.timeline import GATE
from cosched_emulator.scenario.limits import Binding, NodeRanges
from cosched_emulator.workload.job import WorkloadJob
from cosched_plugin.common.limits import Limited, Usage
from cosched_plugin.protocol import messages as m

# Versions of entries of the timeline: a job may begin, or its nodes are reserved from now on; it is cancelled if it has not started;
# a reservation has begun, from when on its nodes are out of service until an instant that the scheduler's plans know.
BEGIN, CANCEL, RESERVE = 0, 1, 2
ENTER, REJECTED = 3, 4  # a job enters, or its policy finds no place for it: no entries, but looked at with them
_NO_JOB: Final = 0
_MOST_VOID: Final = 1_000  # void entries that may stay in a line
_USERS, _LOGS = -1, -2  # groups of arrays, instead of the number of a limit: those of users, and of a log

Place: TypeAlias = tuple[int, int, int]  # in a line: the highest priority first, then by submission and number


class Waiting(NamedTuple):
    """A submitted job that the scheduler does not know, or knows as held; ``reason`` says what it waits for."""

    job: ManagedJob
    reason: str


class _Group(Usage):
    """Jobs that count together: what the told ones have, and those that wait for room."""

    __slots__ = ("lines", "most")

    def __init__(self, most: Limited) -> None:
        super().__init__()
        self.most = most
        self.lines: dict[Limited, list[Place]] = {}  # heaps by what the jobs have, with void entries


class _Wait(NamedTuple):
    """The line in which a job waits: the number of its group among the job's."""

    number: int
    group: _Group


class Gate:
    """The waiting jobs and their conditions."""

    def __init__(self, manager: Manager, binding: Binding, named: Collection[int] = ()) -> None:
        """``named``: jobs that others of the scenario wait for, who may come after their ends."""
        manager.left = self.handle_end
        manager.keeps_back = self.keep_rejected
        self.binding = binding
        self.jobs: dict[int, Waiting] = {}
        self.members: dict[int, dict[int, int]] = {}  # by array id: jobs that have not ended, by their task
        self.begin_us: dict[int, int] = {}  # by waiting job: its begin time, if that is in the future
        self._manager = manager
        self._told: list[m.Event] = []
        self._named = named
        self.known: set[int] = set()  # waiting jobs that the scheduler knows as held
        self.looks: list[tuple[int, int]] = []  # entries that have come due: (job, what)
        self._whole: dict[int, NodeRanges] = {}  # by told job that has fewer nodes at present: those that it may have
        self._holds: dict[int, bool] = {}  # by job that is held or released at this instant
        self._requeued: set[int] = set()  # at this instant
        self._outlet: Callable[..., None] | None = None  # None: `take` returns what is told
        self._states: dict[int, str] = {}  # of the named jobs that have ended
        self._ends: deque[tuple[int, int, str]] = deque()  # that are to be handled
        # By waiting job: (kind, job) of dependencies that do not hold yet; by job: those that wait for it, in order of their entry
        self._after: dict[int, set[tuple[str, int]]] = {}
        self._before: dict[int, dict[int, None]] = {}
        self.starts: set[int] = set()  # jobs whose start others wait for
        self._at_once: dict[int, int] = {}  # by array of a user: how many of its tasks the scheduler knows at a time
        self._tasks: dict[int, Origin] = {}  # by job, of tasks of arrays
        self._held: set[int] = set()
        self._groups: dict[tuple[int, str], _Group] = {}
        self._inside: dict[int, tuple[tuple[_Group, ...], Limited]] = {}  # by told job that counts in some groups
        # At this instant: what is given back, and still counts, and a heap of the jobs that come meanwhile
        self.freed: list[tuple[tuple[_Group, ...], Limited]] = []
        self._late: list[Place] = []
        self._gathers = False  # whether who goes on comes there in any case: within `take`
        self._lines: dict[int, _Wait] = {}  # by job that waits for room
        self._schedule_freed(-1)

    def limit(self, array_id: int, at_once: int) -> None:
        """Limit the number of tasks of a new array that the scheduler gets at a time."""
        self._at_once[array_id] = at_once

    def examine(self, job: WorkloadJob) -> tuple[WorkloadJob, str | None, str]:
        """Return a job as it is placed in its partitions; why it can never start (None: it can), and for which field; empty: none."""
        rules = self.binding.rules
        placed = self.binding.placed(job) if rules.partitions or rules.apart else job
        if isinstance(placed, str):
            return job, placed, "partitions"
        refusal = self._manager.refusal_of(placed.spec)
        if refusal is None and rules.limits:
            refusal = self.binding.too_large(placed)
        # The text says what is wanted: users say it by --nodes or --ntasks, and limits bind other amounts.
        return placed, refusal, ""

    def serve(self, outlet: Callable[..., None]) -> None:
        """Let ``outlet`` apply and tell events at once, with their time; the caller tells of ends by `handle_end`, after these."""
        self._outlet = outlet
        self._manager.left = None

    @property
    def serves(self) -> bool:
        """Return whether events are told at once."""
        return self._outlet is not None

    # Must be called with the events of an instant before the scheduler gets them, and after its answer, so that what an end or a
    # start lets in is told with it. What it returns is for jobs as they are after ``events``.
    def take(self, at_us: int, events: Iterable[m.Event]) -> list[m.Event]:
        """Return the events by which the scheduler is told what has changed since the last call; they must be applied next."""
        self._gathers = True
        self._holds.clear()
        self._requeued.clear()
        for event in events:  # of two that end at once, neither lets the other one in
            if isinstance(event, m.JobEnded):
                self._leave(event.job_id)
        for event in events:
            if isinstance(event, m.JobEnded) and self._outlet is None:
                self.handle_end(at_us, event.job_id, event.state)
            elif isinstance(event, m.JobHeld | m.JobReleased):
                self._holds[event.job_id] = isinstance(event, m.JobHeld)
            elif isinstance(event, m.JobRequeued) and self.binding.rules.reservations:
                self._requeued.add(event.job_id)
                self.looks.append((event.job_id, BEGIN))
        if self.starts:
            for job_id in sorted(self.starts & self._manager.running.keys()):
                self._handle_start(at_us, job_id)
        looks, self.looks = self.looks, []
        for ident, what in looks:
            self._look(at_us, ident, what)
        self._gathers = False
        self._fill(at_us)
        told, self._told = self._told, []
        return told

    def look(self, ident: int, what: int) -> None:
        """Note that an entry of the timeline has come due, or that a job enters: that follows with `take`, after the ends."""
        self.looks.append((ident, what))

    def _emit(self, at_us: int, *events: m.Event) -> None:
        if self._outlet is None:
            self._told += events
        else:
            self._outlet(at_us, *events)

    def _look(self, at_us: int, ident: int, what: int) -> None:
        if what == ENTER:
            if ident in self._manager.jobs:
                self.enter(at_us, self._manager.jobs[ident])
        elif what == RESERVE:
            for _, _, job_id in sorted(
                [_place(each.job) for each in self.jobs.values() if each.reason == offered.RESERVED]
            ):
                self._go_on(at_us, job_id)
            for job_id in sorted(self._whole):
                self._confine(at_us, job_id)
        elif what == REJECTED:
            job = self._manager.jobs.get(ident)
            if job is not None and ident not in self.jobs:
                self._keep_back(at_us, job)
        elif ident in self.jobs:
            if self.begin_us.pop(ident, None) is not None:
                self._go_on(at_us, ident)
        elif ident in self._manager.jobs:
            self._confine(at_us, ident)

    def keep_rejected(self, job_id: int) -> bool:
        """Tell whether a rejected job has more nodes than reservations leave it now: then it is kept back with `take`."""
        if job_id in self._whole:
            self.looks.append((job_id, REJECTED))
        return job_id in self._whole

    def _confine(self, at_us: int, job_id: int) -> None:
        """Give a told job that has not started the nodes that reservations leave it now, or keep it back where they leave none."""
        job = self._manager.jobs.get(job_id)
        if job is None or job_id in self.jobs or not self._is_pending(job_id):
            return
        whole, left = self._nodes_of(at_us, job)
        self._schedule_change(at_us, whole)
        if left is None:
            self._keep_back(at_us, job)
        elif left != job.job.spec:
            self._whole[job_id] = whole.eligible
            self._emit(at_us, m.JobModified(left))
        if left == whole:
            self._whole.pop(job_id, None)

    def _is_pending(self, job_id: int) -> bool:
        """Return whether a told job is in the queue, or will be after the events of this instant."""
        return job_id not in self._manager.running or job_id in self._requeued

    def _keep_back(self, at_us: int, job: ManagedJob) -> None:
        """Hold a told job until its nodes are free; it counts in no group meanwhile."""
        self.jobs[job.id] = Waiting(job, "")
        self.known.add(job.id)
        if self._holds.get(job.id, job.held):
            self._held.add(job.id)
        else:
            self._emit(at_us, m.JobHeld(job.id))
        self._wait(at_us, job.id, offered.RESERVED)
        self._give_back(job.id)

    def _schedule_freed(self, after_us: int) -> None:
        for each in self.binding.rules.reservations:
            if each.begin_us > after_us:
                self._manager.timeline.schedule(each.begin_us, GATE, _NO_JOB, RESERVE)

    def _schedule_change(self, at_us: int, spec: m.JobSpec) -> None:
        change_us = self.binding.next_change_us(spec, at_us) if self.binding.rules.reservations else None
        if change_us is not None:
            self._schedule(change_us, spec.id, BEGIN)

    # The manager must have accepted the job. Of the jobs that it waits for, one that has ended counts only if it was `named`.
    def enter(
        self, at_us: int, job: ManagedJob, origin: Origin = NO_ORIGIN, *, held: bool = False, not_before_us: int = 0
    ) -> None:
        """Enter a submitted job; one that waits for nothing goes on at once."""
        job_id, terms = job.id, job.job.terms
        if origin.array_id is not None and origin.array_index is not None:
            self._tasks[job_id] = origin
            self.members.setdefault(origin.array_id, {})[origin.array_index] = job_id
        if held:
            self._held.add(job_id)
        self.jobs[job_id] = Waiting(job, "")
        submit_us = job.job.spec.submit_us
        begin_us = max(not_before_us, submit_us + terms.delay_us)
        if begin_us > at_us:
            self.begin_us[job_id] = begin_us
            self._schedule(begin_us, job_id, BEGIN)
        if terms.cancel_us is not None:
            self._schedule(max(at_us, submit_us + terms.cancel_us), job_id, CANCEL)
        for kind, other in sorted(set(terms.after)):
            state = self._states.get(other)
            if state is None and other in self._manager.jobs:
                if kind != offered.AFTER or other not in self._manager.running:
                    self._wait_for(job_id, kind, other)
            elif state is not None and not holds_after(kind, state):
                self.cancel(at_us, job_id, self._never(other, state))
                return
        self._go_on(at_us, job_id)

    def _schedule(self, at_us: int, job_id: int, what: int) -> None:
        self._manager.timeline.schedule(at_us, GATE, job_id, what)
        self._manager.compact()  # users may submit and cancel jobs without any answer of a scheduler

    def _wait_for(self, job_id: int, kind: str, other: int) -> None:
        self._after.setdefault(job_id, set()).add((kind, other))
        self._before.setdefault(other, {})[job_id] = None
        if kind == offered.AFTER:
            self.starts.add(other)

    def hold(self, at_us: int, job_id: int, *, hold: bool) -> str | None:
        """Hold or release a waiting job; return the reason if that is impossible."""
        if (job_id in self._held) == hold:
            return "it is held already" if hold else "it is not held"
        (self._held.add if hold else self._held.discard)(job_id)
        self._lines.pop(job_id, None)
        self._go_on(at_us, job_id)
        return None

    def cancel(self, at_us: int, job_id: int, reason: str = "") -> None:
        """End a waiting job that the scheduler does not know."""
        job = self.jobs.pop(job_id).job
        self._lines.pop(job_id, None)
        job.reason = reason
        self._manager.finish(job, at_us, m.CANCELLED)

    # Called by the manager for every job that ends, in whatever way, and before by whoever knows that it ends at this instant: so the
    # jobs that it lets in are told together with its end. The second call has no effect.
    def handle_end(self, at_us: int, job_id: int, state: str) -> None:
        """Release the jobs that waited for a job that has ended, or for what it had; forget that job."""
        self._ends.append((at_us, job_id, state))
        if len(self._ends) > 1:
            return  # a job ends because another one has: without recursion, as chains are long
        while self._ends:
            self._handle_end(*self._ends[0])
            self._ends.popleft()

    def _handle_end(self, at_us: int, job_id: int, state: str) -> None:
        if job_id in self._named:
            self._states.setdefault(job_id, state)
        self._leave(job_id)
        self._held.discard(job_id)
        self.starts.discard(job_id)
        self._whole.pop(job_id, None)
        self.begin_us.pop(job_id, None)
        for _, other in self._after.pop(job_id, ()):
            before = self._before.get(other, {})
            before.pop(job_id, None)
            if not before:
                self._before.pop(other, None)
        self._give_back(job_id)
        for other in self._before.pop(job_id, ()):
            self._handle_dependency_end(at_us, other, job_id, state)
        self._forget_task(job_id)

    def _leave(self, job_id: int) -> None:
        """Let a job wait no longer."""
        self.jobs.pop(job_id, None)
        self.known.discard(job_id)
        self._lines.pop(job_id, None)

    def _give_back(self, job_id: int) -> None:
        """Count a job no longer, once all that happens at this instant is known: then others go in, in order."""
        if job_id in self._inside:
            self.freed.append(self._inside.pop(job_id))

    def _forget_task(self, job_id: int) -> None:
        origin = self._tasks.pop(job_id, None)
        if origin is not None and origin.array_id is not None and origin.array_index is not None:
            members = self.members[origin.array_id]
            del members[origin.array_index]
            if not members:
                del self.members[origin.array_id]
                self._at_once.pop(origin.array_id, None)
                self._groups.pop((_USERS, str(origin.array_id)), None)

    def _handle_dependency_end(self, at_us: int, job_id: int, ended: int, state: str) -> None:
        waits_for = self._after.get(job_id)
        if waits_for is None or job_id not in self.jobs:
            return  # the waiting job has ended itself
        here = {entry for entry in waits_for if entry[1] == ended}
        if not all(holds_after(kind, state) for kind, _ in here):
            self.cancel(at_us, job_id, self._never(ended, state))
            return
        self._satisfy(at_us, job_id, here)

    def _handle_start(self, at_us: int, started: int) -> None:
        self.starts.discard(started)
        for job_id in list(self._before.get(started, ())):
            self._satisfy(at_us, job_id, {(offered.AFTER, started)})

    def _satisfy(self, at_us: int, job_id: int, held: Iterable[tuple[str, int]]) -> None:
        """Let a job wait for these dependencies no longer."""
        waits_for = self._after.get(job_id, set())
        waits_for.difference_update(held)
        if job_id in self._after and not waits_for:
            del self._after[job_id]
            self._go_on(at_us, job_id)

    def _never(self, ended: int, state: str) -> str:
        origin = self._tasks.get(ended)
        label = str(ended) if origin is None else f"{origin.array_id}_{origin.array_index}"
        return f"its dependency can never hold: job {label} has ended {state}"

    # ------------------------------------------------------------ the way in

    def _go_on(self, at_us: int, job_id: int) -> None:
        """Let a job wait for its dependencies and begin time, then for room in its groups; then it goes in.

        One that is held waits before its groups, or is told as held where none counts it.
        """
        job, held = self.jobs[job_id].job, job_id in self._held
        if job.end_us is not None:
            return  # it has ended together with the one that lets it in
        if job_id in self._after or job_id in self.begin_us:
            self._wait(at_us, job_id, offered.DEPENDENCY if job_id in self._after else offered.BEGIN_TIME)
            return
        whole, left = self._nodes_of(at_us, job)
        if left is None:
            self._wait(at_us, job_id, offered.RESERVED)
            return
        groups, amounts = self._groups_of(job)
        if held and (groups or job_id in self.known):
            self._wait(at_us, job_id, offered.HELD)
            return
        if groups and (self.freed or self._gathers):
            heappush(self._late, _place(job))
            return
        for number, group in enumerate(groups):
            lacks = group.lacks(amounts, group.most)
            if lacks is not None:
                self._queue(job, number, group, amounts)
                self._wait(at_us, job_id, self._reason(job, number, lacks))
                return
        self._lines.pop(job_id, None)
        if groups and job_id in self._tasks and self.jobs[job_id].reason != offered.ARRAY_LIMIT:
            self._wait(at_us, job_id, offered.ARRAY_LIMIT)  # journals have this reason also of tasks that go on at once
        if groups:
            self._inside[job_id] = (groups, amounts)
            for group in groups:
                group.count(amounts, 1)
        self._held.discard(job_id)
        del self.jobs[job_id]
        self._tell(at_us, job, whole, left, held=held)

    def _nodes_of(self, at_us: int, job: ManagedJob) -> tuple[m.JobSpec, m.JobSpec | None]:
        """Return a job with all its nodes, and with those that reservations leave it now; None: they leave it no place."""
        spec = job.job.spec
        if not self.binding.rules.reservations:
            return spec, spec
        whole = spec._replace(eligible=self._whole.get(job.id, spec.eligible))
        return whole, self.binding.left_of(whole, at_us)

    def _tell(self, at_us: int, job: ManagedJob, whole: m.JobSpec, left: m.JobSpec, *, held: bool) -> None:
        """Tell the scheduler of a job, which has the nodes that are ``left`` of the ``whole``."""
        if left != whole:
            self._whole[job.id] = whole.eligible
        else:
            self._whole.pop(job.id, None)
        if job.id in self.known:
            self.known.discard(job.id)
            self._emit(at_us, *([] if left == job.job.spec else [m.JobModified(left)]), m.JobReleased(job.id))
        else:
            if left is not job.job.spec:
                job.job = job.job._replace(spec=left)
            self._emit(at_us, m.JobSubmitted(left), *([m.JobHeld(job.id)] if held else []))
        self._schedule_change(at_us, whole)

    def _queue(self, job: ManagedJob, number: int, group: _Group, amounts: Limited) -> None:
        """Let a job wait in the line of a group without room for it; held ones take no place."""
        self._lines[job.id] = _Wait(number, group)
        line = group.lines.setdefault(amounts, [])
        if len(line) > _MOST_VOID + 2 * len(self._lines):
            line[:] = sorted({place for place in line if place[2] in self._lines})
        heappush(line, _place(job))

    def _fill(self, at_us: int) -> None:
        """Count what is given back no longer; let those go on, in order, that have room there. Others are passed over, as by Slurm."""
        while self.freed or self._late:
            groups: dict[int, _Group] = {}
            for inside, amounts in self.freed:
                for group in inside:
                    group.count(amounts, -1)
                    groups[id(group)] = group
            self.freed.clear()
            while (first := self._first(groups.values())) is not None:
                if first in self.jobs:
                    self._go_on(at_us, first)

    def _first(self, groups: Iterable[_Group]) -> int | None:
        """Return the first of the jobs that wait for a group and have room in it, or that come at this instant; take it out."""
        found: tuple[Place, list[Place]] | None = (self._late[0], self._late) if self._late else None
        for group in groups:
            for amounts in list(group.lines):
                place = self._head(group, amounts)
                if place is not None and group.lacks(amounts, group.most) is None and (not found or place < found[0]):
                    found = (place, group.lines[amounts])
        if found is None:
            return None
        heappop(found[1])
        self._lines.pop(found[0][2], None)
        return found[0][2]

    def _head(self, group: _Group, amounts: Limited) -> Place | None:
        """Return the first place of a line, without the void ones before it."""
        line = group.lines[amounts]
        while line:
            wait = self._lines.get(line[0][2])
            if wait is not None and wait.group is group:
                return line[0]
            heappop(line)
        del group.lines[amounts]
        return None

    def _groups_of(self, job: ManagedJob) -> tuple[tuple[_Group, ...], Limited]:
        """Return the groups of a job in the order of the limits, its array last, and what it has of what they limit."""
        limits = self.binding.rules.limits
        keys = [(key, limits[key[0]].most) for key in self.binding.groups(job.job)] if limits else []
        origin, terms = self._tasks.get(job.id), job.job.terms
        if origin is not None and origin.array_id in self._at_once:
            keys.append(((_USERS, str(origin.array_id)), Limited(self._at_once[origin.array_id])))
        elif terms.at_once:
            keys.append(((_LOGS, str(terms.array)), Limited(terms.at_once)))
        if not keys:
            return (), Limited()
        groups = [self._groups.get(key) or self._groups.setdefault(key, _Group(most)) for key, most in keys]
        return tuple(groups), self.binding.amounts(job.job.spec)

    def _reason(self, job: ManagedJob, number: int, lacks: int) -> str:
        """Return why a job waits for the group with this number among its own, which ``lacks`` one of the amounts."""
        keys = self.binding.groups(job.job)
        return offered.ARRAY_LIMIT if number >= len(keys) else self.binding.rules.limits[keys[number][0]].reason(lacks)

    def _wait(self, at_us: int, job_id: int, reason: str) -> None:
        job = self.jobs[job_id].job
        reason = offered.HELD if job_id in self._held else reason
        self.jobs[job_id] = Waiting(job, reason)
        self._manager.diary.note_state(at_us, job, reason)

    # ------------------------------------------------------------ in another manager

    def state(self) -> dict[str, Any]:
        """Return the state in plain values, for `take_over`."""
        return {
            "waiting": [[job_id, waiting.reason] for job_id, waiting in self.jobs.items()],
            "after": [[job_id, sorted(waits_for)] for job_id, waits_for in self._after.items()],
            "before": [[job_id, list(waiting)] for job_id, waiting in self._before.items()],
            "arrays": [list(item) for item in self._at_once.items()],
            "held": sorted(self._held),
            "begin_us": list(self.begin_us.items()),
            "lines": [[job_id, self._lines[job_id].number] for job_id in sorted(self._lines)],
            "states": [list(item) for item in self._states.items()],
            "known": sorted(self.known),
            "whole": [
                [job_id, ranges, self._manager.jobs[job_id].job.spec.eligible] for job_id, ranges in self._whole.items()
            ],
        }

    def take_over(self, state: Mapping[str, Any], origins: Mapping[int, Origin]) -> None:
        """Take over the state of another manager's jobs, whose ``origins`` are in order of their entry; the manager has them."""
        jobs = self._manager.jobs
        for job_id, origin in origins.items():
            if origin.array_id is not None and origin.array_index is not None:
                self._tasks[job_id] = origin
                self.members.setdefault(origin.array_id, {})[origin.array_index] = job_id
        for job_id, reason in state["waiting"]:
            self.jobs[job_id] = Waiting(jobs[job_id], reason)
        for job_id, waits_for in state["after"]:
            self._after[job_id] = {(kind, other) for kind, other in waits_for}
            self.starts.update([other for kind, other in waits_for if kind == offered.AFTER])
        for job_id, waiting in state["before"]:
            self._before[job_id] = dict.fromkeys(waiting)
        self._held |= set(state["held"])
        self._states |= dict(state.get("states", ()))
        for array_id, at_once, *_ in state["arrays"]:
            self._at_once[array_id] = at_once
        for job_id, begin_us in state["begin_us"]:
            self.begin_us[job_id] = begin_us
            self._schedule(begin_us, job_id, BEGIN)
        self.known |= set(state.get("known", ()))
        for job_id, whole, present in state.get("whole", ()):
            self._whole[job_id] = _ranges(whole)
            job = jobs[job_id].job
            jobs[job_id].job = job._replace(spec=job.spec._replace(eligible=_ranges(present)))
        self._schedule_freed(self._manager.now_us)
        self._take_over_groups(dict(state.get("lines", ())))

    def _take_over_groups(self, lines: Mapping[int, int]) -> None:
        """Count the told jobs, and let the others wait in the lines with these numbers; earlier versions knew those of arrays alone."""
        for job_id, job in self._manager.jobs.items():
            groups, amounts = self._groups_of(job)
            terms = job.job.terms
            if terms.cancel_us is not None:
                self._schedule(job.job.spec.submit_us + terms.cancel_us, job_id, CANCEL)
            if job_id not in self.jobs:
                self._schedule_change(self._manager.now_us, job.job.spec)
                if groups:
                    self._inside[job_id] = (groups, amounts)
                for group in groups:
                    group.count(amounts, 1)
            elif job_id in lines or self.jobs[job_id].reason == offered.ARRAY_LIMIT:
                number = lines.get(job_id, len(groups) - 1)
                self._queue(job, number, groups[number], amounts)

    # ------------------------------------------------------------ invariants

    def check(self) -> None:
        """Count the told jobs anew; InvariantError if a group has other amounts, or more than its limit."""
        used: dict[int, list[int]] = {}
        for job_id, job in self._manager.jobs.items():
            if job_id not in self.jobs and job_id not in self._manager.unseen:
                # What a job had when it was told: a difficult manager changes sizes.
                groups, amounts = self._inside.get(job_id) or self._groups_of(job)
                for group in groups:
                    before = used.get(id(group), [0] * len(amounts))
                    used[id(group)] = [have + more for have, more in zip(before, amounts, strict=True)]
        for key, group in self._groups.items():
            there = used.get(id(group), [0] * len(group.used))
            if there != group.used or any(have > most for have, most in zip(there, group.most, strict=True)):
                raise InvariantError(
                    f"the jobs of group {key} have {there}, and {group.used} are counted of {group.most}"
                )
        without = [job_id for job_id, waiting in self.jobs.items() if not waiting.reason]
        if without:
            raise InvariantError(f"jobs wait for nothing: {without}")


def _place(job: ManagedJob) -> Place:
    spec = job.job.spec
    return -spec.priority, spec.submit_us, spec.id


def _ranges(plain: Iterable[Sequence[int]]) -> NodeRanges:
    return tuple([(first, count) for first, count in plain])


def holds_after(kind: str, state: str) -> bool:
    """Return whether a dependency holds once its job has ended so; where not, it never will."""
    return {offered.AFTER_OK: state == m.COMPLETED, offered.AFTER_NOT_OK: state != m.COMPLETED}.get(kind, True)
