"""A live manager: events apply at once while time runs on, and the scheduler is told when it listens.

It has no sockets, clocks or files. Its inputs are `advance`, `command` and `answer`, each with the time. The same inputs give
the same state: a manager that was killed reads them from the journal and plays them again. `batch` returns what there is to
tell the scheduler, `drain` what has changed, for the accounting.

A late answer is checked against the present state: time has gone on, and so have ends, kills and cancellations.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from cosched_emulator.errors import InvariantError
from cosched_emulator.live.dependencies import WaitingRoom
from cosched_emulator.live.owners import Owners
from cosched_emulator.live.user_commands import Commands
from cosched_emulator.manager.agenda import Agenda
from cosched_emulator.manager.changes import Change, JobFinished
from cosched_emulator.manager.managed_job import ManagedJob
from cosched_emulator.manager.manager import Manager
from cosched_emulator.users.requests import (
    Done,
    Refused,
    Request,
)
from cosched_emulator.users.server.requester import Requester
from cosched_plugin.protocol.messages import (
    Action,
    ActionRefused,
    Event,
    JobHeld,
    JobSubmitted,
    ProgressMeasured,
    SetNote,
    WakeAt,
    Welcome,
)

LAST_DECISIONS: Final = 50
_JOB: Final = re.compile(r"\bjob (\d+)\b")  # in a reason


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
        manager.allow_late_answers()
        self.manager = manager
        self.agenda = agenda
        self.now_us = 0
        self._owners = Owners()
        self.origins = self._owners.origins
        self._room = WaitingRoom(manager, self._tell)
        self.waiting = self._room.jobs
        self._commands = Commands(manager, self._room, self._owners, self._tell_now, next_id, ended_state, tasks_of)
        self.decisions: deque[tuple[int, str]] = deque(maxlen=LAST_DECISIONS)
        self._refusals: list[Event] = []
        self._outbox: list[Event] = []
        self._open: int | None = None  # number of the batch that is out
        self._kick = False  # a scheduler that has just come is to decide, whether or not anything happens
        self._changes: list[Change] = []

    # ------------------------------------------------------------ inputs

    def advance(self, now_us: int) -> None:
        """Let everything happen that is due by ``now_us``, each at its own time. A clock that has run backwards waits."""
        while (due_us := self.due_us()) is not None and due_us <= now_us:
            self.now_us = max(self.now_us, due_us)  # what was asked for too late is due at once, not in the past
            self._apply(self.now_us, self.agenda.due(self.now_us))
            if self._room.begin(self.now_us):
                self._follow_up(self.now_us)
        self.now_us = max(self.now_us, now_us)

    def refusal(self, who: Requester, request: Request) -> Refused | None:
        """Return why a command cannot be carried out now; None if it can."""
        return self._commands.refusal(self.now_us, who, request)

    def command(self, now_us: int, who: Requester, request: Request) -> Done | Refused:
        """Carry out what a user asks to be done."""
        self.advance(now_us)
        refused = self.refusal(who, request)
        if refused is not None:
            return refused
        result = self._commands.carry_out(self.now_us, who, request)
        self._follow_up(self.now_us)
        return Done(result)

    def answer(self, now_us: int, seq: int, actions: Sequence[Action]) -> None:
        """Carry out the scheduler's answer to batch ``seq``, as far as it is possible now."""
        self.advance(now_us)
        manager = self.manager
        # What the scheduler could not know when it decided explains whatever cannot be done.
        stale = "stale: " if self._outbox else ""
        told = ["" if isinstance(action, SetNote | WakeAt) else describe(action, self.label) for action in actions]
        follow = manager.carry_out(seq, self.now_us, actions)
        refused = set()
        for event in follow:
            assert isinstance(event, ActionRefused)
            refused.add(event.action)
            self._refusals.append(event._replace(reason=stale + event.reason))
            reason = _JOB.sub(lambda job: f"job {self.label(int(job[1]))}", event.reason)
            self.decisions.append((self.now_us, f"refused: {stale}{reason}"))
        for number, text in enumerate(told):
            if text and number not in refused:
                self.decisions.append((self.now_us, text))
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

    def discard_events(self) -> None:
        """Forget the events that wait for the scheduler: it has gone, and the next one gets the present state."""
        self._refusals.clear()
        self._outbox.clear()

    def inventory(self) -> Welcome:
        """Return the present state, for a scheduler that begins now. What was to be told is in it; an open batch is given up."""
        if self._open is not None:
            self.manager.skip_to(self._open)
            self._open = None
        self.discard_events()
        self._kick = True
        return self.manager.inventory()._replace(now_us=self.now_us)

    # ------------------------------------------------------------ the accounting's side

    def drain(self) -> list[Change]:
        """Return what has changed since the last call, in order."""
        changes, self._changes = self._changes, []
        return changes

    def due_us(self) -> int | None:
        """Return when something will happen by itself; None if nothing will."""
        due_us, begin_us = self.agenda.next_us(), self._room.next_begin_us()
        return due_us if begin_us is None else begin_us if due_us is None else min(due_us, begin_us)

    def begin_us(self, job_id: int) -> int | None:
        """Return when a job may start; None if that time has come, or was never asked for."""
        return self._room.begin_us.get(job_id)

    def label(self, job_id: int) -> str:
        """Return a job as users name it: its number, or array and task; of one that has ended, its number."""
        return self._owners.label(job_id)

    @property
    def unfinished(self) -> int:
        """Return how many jobs have been submitted and have not ended."""
        return len(self.manager.jobs)

    # ------------------------------------------------------------ what follows from what

    def _apply(self, at_us: int, events: Iterable[Event]) -> None:
        """Apply events, and what follows from them at that instant."""
        events = list(events)
        self.manager.apply(at_us, events)
        self._outbox += events
        self._follow_up(at_us)

    def _follow_up(self, at_us: int) -> None:
        """Handle the ends of jobs, and the ends that follow from these; then let the hardware settle."""
        diary = self.manager.diary
        while diary.entries:
            changes = diary.drain()
            self._changes += changes
            for change in changes:
                if isinstance(change, JobFinished):
                    self._forget(at_us, change.record.job.spec.id, change.record.state)
        self.manager.settle(at_us)

    def _forget(self, at_us: int, job_id: int, state: str) -> None:
        """Forget a job that has ended, and let the jobs go on that have waited for its end."""
        self.manager.forget(job_id)
        self._owners.drop(job_id)
        self._room.handle_end(at_us, job_id, state)

    def _tell(self, at_us: int, job: ManagedJob, held: bool) -> None:
        """Have a job that has waited enter the scheduler's queue."""
        events: list[Event] = [JobSubmitted(job.job.spec)]
        if held:
            events.append(JobHeld(job.job.spec.id))
        self.manager.apply(at_us, events)
        self._outbox += events

    def _tell_now(self, event: Event) -> None:
        """Apply an event that a user has caused, and have the scheduler told."""
        self.manager.apply(self.now_us, (event,))
        self._outbox.append(event)

    # ------------------------------------------------------------ invariants

    def check(self) -> None:
        """Re-derive what can be re-derived; InvariantError where it differs."""
        manager = self.manager
        manager.check()
        if set(manager.jobs) != set(manager.pending) | set(manager.running) | set(self.waiting):
            raise InvariantError("jobs are kept that neither wait nor run")
        if any(job_id in manager.pending or job_id in manager.running for job_id in self.waiting):
            raise InvariantError("a job waits that the scheduler has been told of")
        manager.nodes.check()


def describe(action: Action, label: Callable[[int], str]) -> str:
    """Return a decision of the scheduler in a few words; ``label`` returns how users name a job."""
    name = type(action).__name__
    words = {
        "StartJob": "start",
        "ReviseJob": "revise",
        "SuspendJob": "suspend",
        "ResumeJob": "resume",
        "RejectJob": "reject",
    }
    if name == "StartTogether":
        return f"start together {', '.join([label(start.job_id) for start in getattr(action, 'starts', ())])}"
    job_id = getattr(action, "job_id", None)
    return words.get(name, name) if job_id is None else f"{words.get(name, name)} {label(job_id)}"
