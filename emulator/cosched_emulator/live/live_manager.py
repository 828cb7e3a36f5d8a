"""A manager that lives in running time: what happens, happens at once, and the scheduler is told when it listens.

Without sockets, clocks and files. Its inputs are `advance`, `command` and `answer`, each with the time; the same inputs give the same
state, which is how a manager that was killed comes back: they are read from the journal and played again. What it has to say to the
scheduler waits in a batch (`batch`); what came of its inputs, for the accounting, in `drain`.

A late answer is checked against the present state: time has gone on, and so have ends, kills and cancellations.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from cosched_emulator.errors import InvariantError
from cosched_emulator.live.submission import Submission, refusal_of
from cosched_emulator.live.waiting import WaitingRoom
from cosched_emulator.manager.agenda import Agenda
from cosched_emulator.manager.changes import Change, JobFinished, Origin
from cosched_emulator.manager.managed_job import ManagedJob
from cosched_emulator.manager.manager import Manager
from cosched_emulator.users.requests import (
    CancelJobs,
    Done,
    DrainNodes,
    HoldJobs,
    Refused,
    ReleaseJobs,
    Request,
    ResumeNodes,
    SubmitJob,
    Target,
)
from cosched_emulator.users.server.requester import Requester
from cosched_plugin.protocol.messages import (
    CANCELLED,
    COMPLETED,
    Action,
    ActionRefused,
    Event,
    JobEnded,
    JobHeld,
    JobReleased,
    JobSubmitted,
    ProgressMeasured,
    SetNote,
    WakeAt,
    Welcome,
)

MOST_JOBS: Final = 100_000  # that have not ended; more are refused
MOST_JOBS_A_USER: Final = 20_000  # of these, of one user who is no operator
MOST_LINKS: Final = 1_000_000  # dependencies of one submission: tasks times what each waits for
LAST_DECISIONS: Final = 50


class LiveManager:
    """The manager's state, and the rules by which it changes while time runs on."""

    def __init__(
        self,
        manager: Manager,
        agenda: Agenda,
        next_id: int,
        ended_state: Callable[[int], str | None],
        tasks_of: Callable[[int], Sequence[int]],
    ) -> None:
        """``next_id`` is that of the first job to be submitted; jobs and arrays that have ended are looked up by the last two."""
        manager.diary.kept = True
        manager.let_time_run()
        self.manager = manager
        self.agenda = agenda
        self.now_us = 0
        self.origins: dict[int, Origin] = {}  # of the jobs that have not ended
        self._owned: Counter[str] = Counter()  # how many of these, by owner
        self._room = WaitingRoom(manager, self._tell)
        self.waiting = self._room.jobs
        self.decisions: deque[tuple[int, str]] = deque(maxlen=LAST_DECISIONS)
        self._next_id = next_id
        self._ended_state = ended_state
        self._tasks_of = tasks_of
        self._refusals: list[Event] = []
        self._outbox: list[Event] = []
        self._open: int | None = None  # number of the batch that is out
        self._kick = False  # a scheduler that has just come is to decide, whether or not anything happens
        self._changes: list[Change] = []

    # ------------------------------------------------------------ inputs

    def advance(self, now_us: int) -> None:
        """Let everything happen that is due by ``now_us``, each at its own time. A clock that has run backwards waits."""
        while (due_us := self.agenda.next_us()) is not None and due_us <= now_us:
            self.now_us = max(self.now_us, due_us)  # what was asked for too late is due at once, not in the past
            self._happen(self.now_us, self.agenda.due(self.now_us))
        self.now_us = max(self.now_us, now_us)

    def refusal(self, who: Requester, request: Request) -> Refused | None:
        """Return why a command cannot be carried out now; None if it can."""
        match request:
            case SubmitJob():
                return self._refusal_of_submission(who, request)
            case CancelJobs() | HoldJobs() | ReleaseJobs():
                return self._refusal_of_jobs(who, request)
            case DrainNodes() | ResumeNodes():
                return self._refusal_of_nodes(who, request)
            case _:
                return Refused("request", f"a {type(request).__name__} changes nothing")

    def command(self, now_us: int, who: Requester, request: Request) -> Done | Refused:
        """Carry out what a user asks to be done."""
        self.advance(now_us)
        refused = self.refusal(who, request)
        if refused is not None:
            return refused
        match request:
            case SubmitJob():
                result = self._submit(who, request)
            case CancelJobs() | HoldJobs() | ReleaseJobs():
                result = self._change_jobs(who, request)
            case DrainNodes() | ResumeNodes():
                result = self._change_nodes(request)
        self._follow_up(self.now_us)
        return Done(result)

    def answer(self, now_us: int, seq: int, actions: Sequence[Action]) -> None:
        """Carry out the scheduler's answer to batch ``seq``, as far as it is possible now."""
        self.advance(now_us)
        manager = self.manager
        # What the scheduler could not know when it decided explains whatever cannot be done.
        stale = "stale: " if self._outbox else ""
        follow = manager.carry_out(seq, self.now_us, actions)
        refused = set()
        for event in follow:
            assert isinstance(event, ActionRefused)
            refused.add(event.action)
            self._refusals.append(event._replace(reason=stale + event.reason))
            self.decisions.append((self.now_us, f"refused: {stale}{event.reason}"))
        for number, action in enumerate(actions):
            if number not in refused and not isinstance(action, SetNote | WakeAt):
                self.decisions.append((self.now_us, described(action)))
        self._open = None
        # A scheduler learns of what was measured meanwhile after its own decisions, which may have made it void.
        self._outbox = [
            event for event in self._outbox if not isinstance(event, ProgressMeasured) or self._holds(event)
        ]
        if refused:  # what it did not come to do would have voided some
            for job_id, job in sorted(manager.running.items()):
                if job.measured_ppm:
                    self._outbox.append(ProgressMeasured(job_id, job.measured_ppm))
        self._follow_up(self.now_us)

    def _holds(self, event: ProgressMeasured) -> bool:
        job = self.manager.running.get(event.job_id)
        return job is not None and job.measured_ppm == event.slowdown_ppm

    # ------------------------------------------------------------ the scheduler's side

    def batch(self) -> tuple[int, int, tuple[Event, ...]] | None:
        """Return (number, time, events) of what there is to tell, and count it as told; None while nothing is, or a batch is out."""
        if self._open is not None or not (self._refusals or self._outbox or self._kick):
            return None
        events = (*self._refusals, *self._outbox)
        self._refusals.clear()
        self._outbox.clear()
        self._kick = False
        self._open = self.manager.seq + 1
        return self._open, self.now_us, events

    def keep_nothing(self) -> None:
        """Forget what there is to tell: nobody listens, and whoever comes gets the present state."""
        self._refusals.clear()
        self._outbox.clear()

    def inventory(self) -> Welcome:
        """Return the present state, for a scheduler that begins now. What was to be told is in it; an open batch is given up."""
        if self._open is not None:
            self.manager.skip_to(self._open)
            self._open = None
        self.keep_nothing()
        self._kick = True
        return self.manager.inventory()._replace(now_us=self.now_us)

    # ------------------------------------------------------------ the accounting's side

    def drain(self) -> list[Change]:
        """Return what has changed since the last call, in order."""
        changes, self._changes = self._changes, []
        return changes

    def due_us(self) -> int | None:
        """Return when something will happen by itself; None if nothing will."""
        return self.agenda.next_us()

    @property
    def unfinished(self) -> int:
        """Return how many jobs have been submitted and have not ended."""
        return len(self.manager.pending) + len(self.manager.running) + len(self.waiting)

    # ------------------------------------------------------------ what follows from what

    def _happen(self, at_us: int, events: Iterable[Event]) -> None:
        """Let events come true, and what follows from them at that instant."""
        events = list(events)
        self.manager.happen(at_us, events)
        self._outbox += events
        self._follow_up(at_us)

    def _follow_up(self, at_us: int) -> None:
        """See to what jobs that ended have set free, until nothing more follows; then let the hardware settle."""
        diary = self.manager.diary
        while diary.entries:
            changes = diary.drain()
            self._changes += changes
            for change in changes:
                if isinstance(change, JobFinished):
                    self._ended(at_us, change.record.job.spec.id, change.record.state)
        self.manager.settle(at_us)

    def _ended(self, at_us: int, job_id: int, state: str) -> None:
        """Forget a job that has ended, and see to those that have waited for that."""
        self.manager.forget(job_id)
        origin = self.origins.pop(job_id, None)
        if origin is not None:
            self._owned[origin.owner] -= 1
            if not self._owned[origin.owner]:
                del self._owned[origin.owner]
        self._room.ended(at_us, job_id, state)

    def _tell(self, at_us: int, job: ManagedJob, held: bool) -> None:
        """Have a job that has waited enter the scheduler's queue."""
        events: list[Event] = [JobSubmitted(job.job.spec)]
        if held:
            events.append(JobHeld(job.job.spec.id))
        self.manager.happen(at_us, events)
        self._outbox += events

    # ------------------------------------------------------------ commands

    def _refusal_of_submission(self, who: Requester, request: SubmitJob) -> Refused | None:
        refused = refusal_of(Submission(request, who.name, self.now_us), self.manager)
        if refused is not None:
            return refused
        more = len(request.tasks) or 1
        if self.unfinished + more > MOST_JOBS:
            return Refused("limit", f"{self.unfinished} jobs have not ended; the limit is {MOST_JOBS}")
        if self._owned[who.name] + more > MOST_JOBS_A_USER and not who.operator:
            text = f"{self._owned[who.name]} jobs of yours have not ended; the limit is {MOST_JOBS_A_USER}"
            return Refused("limit", text)
        links = 0
        for number, (kind, job_id) in enumerate(request.after):
            tasks = self._tasks_of(job_id) or (job_id,)
            links += len(tasks) * (len(request.tasks) or 1)
            if links > MOST_LINKS:
                return Refused("limit", f"more than {MOST_LINKS} pairs of a task and one that it waits for", "after")
            for each in tasks:
                state = None if each in self.manager.jobs else self._ended_state(each)
                path = f"after[{number}].job_id"
                if each not in self.manager.jobs and state is None:
                    return Refused("missing", f"there is no job {each}", path)
                if kind == "afterok" and state not in (None, COMPLETED):
                    return Refused("value", f"job {each} has ended {state}: afterok can never hold", path)
        return None

    def _submit(self, who: Requester, request: SubmitJob) -> dict[str, Any]:
        count = len(request.tasks) or 1
        after = frozenset(
            (kind, each)
            for kind, job_id in request.after
            for each in self._tasks_of(job_id) or (job_id,)
            if each in self.manager.jobs
        )
        first = self._next_id
        self._next_id += count
        array_id = first if request.tasks else None
        if array_id is not None and 0 < request.at_once < count:
            self._room.limit(array_id, request.at_once)
        ids = range(first, first + count)
        submission = Submission(request, who.name, self.now_us)
        for job_id, task in zip(ids, request.tasks or (None,), strict=True):
            origin = Origin(who.name, array_id, task, tuple((item.kind, item.job_id) for item in request.after))
            job = self.manager.accept(submission.job(job_id), origin)
            self.origins[job_id] = origin
            self._owned[who.name] += 1
            self._room.enter(self.now_us, job, origin, after, held=request.held)
        return {"job_ids": list(ids)}

    def _refusal_of_jobs(self, who: Requester, request: CancelJobs | HoldJobs | ReleaseJobs) -> Refused | None:
        """Return why nothing at all can be done; where some of several jobs can be changed, the others are told as unchanged."""
        first = None
        for number, target in enumerate(dict.fromkeys(request.jobs)):
            problem = self._problem(who, target)
            if problem is None:
                return None
            first = first or problem._replace(path=f"jobs[{number}]")
        return first

    def _problem(self, who: Requester, target: Target) -> Refused | None:
        """Return why that job, or the first of those tasks, is not this user's to change."""
        ids = self._named(target)
        if not ids:
            return Refused("missing", f"there is no job {shown(target)} that has not ended")
        if who.operator or self._owner(ids[0]) == who.name:  # all tasks of an array are one user's
            return None
        return Refused("permission", f"job {shown(target)} is not yours")

    def _change_jobs(self, who: Requester, request: CancelJobs | HoldJobs | ReleaseJobs) -> dict[str, Any]:
        unchanged: list[list[int | str]] = []
        wanted: dict[int, None] = {}
        for target in dict.fromkeys(request.jobs):
            problem = self._problem(who, target)
            if problem is None:
                wanted.update(dict.fromkeys(self._named(target)))
            else:
                unchanged.append([shown(target), problem.text])
        changed = []
        for job_id in wanted:
            why_not = self._change_job(who, job_id, request)
            if why_not is None:
                changed.append(job_id)
            else:
                unchanged.append([job_id, why_not])
        return {"changed": changed, "unchanged": unchanged}

    def _change_job(self, who: Requester, job_id: int, request: CancelJobs | HoldJobs | ReleaseJobs) -> str | None:
        """Cancel, hold or release one job; return why not."""
        manager = self.manager
        if job_id not in manager.jobs:
            return "it has ended"  # with another one of the same request
        waits = job_id in self.waiting
        if isinstance(request, CancelJobs):
            if waits:
                self._room.cancel(self.now_us, job_id, f"cancelled by {who.name}")
            else:
                manager.jobs[job_id].reason = f"cancelled by {who.name}"
                self._event(JobEnded(job_id, CANCELLED))
            return None
        hold = isinstance(request, HoldJobs)
        if waits:
            return self._room.hold(self.now_us, job_id, hold=hold)
        if job_id in manager.running:
            return "it runs"
        if manager.pending[job_id].held == hold:
            return "it is held already" if hold else "it is not held"
        self._event(JobHeld(job_id) if hold else JobReleased(job_id))
        return None

    def _refusal_of_nodes(self, who: Requester, request: DrainNodes | ResumeNodes) -> Refused | None:
        if not who.operator:
            return Refused("permission", "only operators drain and resume nodes")
        nodes = self.manager.machine.nodes
        if request.nodes and min(request.nodes) >= nodes:
            return Refused("missing", f"there is no node {request.nodes[0]}; the last one is {nodes - 1}", "nodes[0]")
        return None

    def _change_nodes(self, request: DrainNodes | ResumeNodes) -> dict[str, Any]:
        changed, unchanged = [], []
        for node in dict.fromkeys(request.nodes):
            if node >= self.manager.machine.nodes:
                unchanged.append([node, "there is no such node"])
                continue
            drained, broken = node in self.agenda.drained, node in self.agenda.broken
            if isinstance(request, DrainNodes):
                if drained:
                    unchanged.append([node, "it is drained already"])
                    continue
                events = self.agenda.drain(node, self.now_us, request.reason)
            else:
                if not drained and not broken:
                    unchanged.append([node, "it is in service"])
                    continue
                events = self.agenda.undrain(node, self.now_us)
            changed.append(node)
            for event in events:
                self._event(event)
        return {"changed": changed, "unchanged": unchanged}

    def _event(self, event: Event) -> None:
        self.manager.happen(self.now_us, (event,))
        self._outbox.append(event)

    def _named(self, target: Target) -> list[int]:
        """Return the jobs that have not ended and are meant by ``target``."""
        members = self._room.members.get(target.job_id)
        if members is None:
            return [target.job_id] if target.task is None and target.job_id in self.manager.jobs else []
        if target.task is None:
            return list(members.values())
        return [members[target.task]] if target.task in members else []

    def _owner(self, job_id: int) -> str:
        return self.origins[job_id].owner if job_id in self.origins else ""

    # ------------------------------------------------------------ invariants

    def check(self) -> None:
        """Re-derive what can be re-derived; InvariantError where it differs."""
        manager = self.manager
        manager.check()
        if set(manager.jobs) != set(manager.pending) | set(manager.running) | set(self.waiting):
            raise InvariantError("jobs are kept that neither wait nor run")
        if any(job_id in manager.pending or job_id in manager.running for job_id in self.waiting):
            raise InvariantError("a job waits that the scheduler has been told of")
        if manager.down != self.agenda.broken | set(self.agenda.drained):
            raise InvariantError("nodes are out of service that are neither broken nor drained, or the other way round")


def shown(target: Target) -> str:
    """Return a job, or a task of an array, as people write it."""
    return str(target.job_id) if target.task is None else f"{target.job_id}_{target.task}"


def described(action: Action) -> str:
    """Return a decision of the scheduler in a few words."""
    name = type(action).__name__
    words = {
        "StartJob": "start",
        "ReviseJob": "revise",
        "SuspendJob": "suspend",
        "ResumeJob": "resume",
        "RejectJob": "reject",
    }
    if name == "StartTogether":
        return f"start together {', '.join([str(start.job_id) for start in getattr(action, 'starts', ())])}"
    return f"{words.get(name, name)} {getattr(action, 'job_id', '')}".strip()
