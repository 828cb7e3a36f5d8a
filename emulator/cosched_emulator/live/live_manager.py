"""A live manager: events apply immediately while time runs on; the scheduler gets them in its next batch.

It has no sockets, clocks or files. Its inputs are the steps `advance`, `command` and `answer`, each with the time. The same steps give
the same state: a manager that was killed replays them from the journal. The server, which writes a step between its check and its
effect, calls the parts of these steps. `batch` returns the events for the scheduler, `drain` the changes for the accounting.

A late answer is checked against the present state, because jobs may have ended or been killed or cancelled meanwhile.
"""

from __future__ import annotations

import json
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from operator import itemgetter
from typing import Any, Final

from cosched_emulator.accounting.fact_rows import job_from_json
from cosched_emulator.errors import InvariantError
from cosched_emulator.live.outbox import Outbox
from cosched_emulator.live.user_commands import Accepted, Commands, Owners, longest_us
from cosched_emulator.manager.agenda import Agenda
from cosched_emulator.manager.gate import Gate
from cosched_emulator.manager.managed_job import ManagedJob
from cosched_emulator.manager.manager import Manager
from cosched_emulator.manager.record import Change, JobCarried, JobFinished, NodeChanged, Origin
from cosched_emulator.scenario.limits import NO_RULES, Binding
from cosched_emulator.users.requests import Done, Refused, Request, Requester
from cosched_emulator.workload.job import WorkloadJob
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.messages import started_by

LAST_DECISIONS: Final = 50
MOST_TURNS: Final = 12  # of a rotation, in a decision's text
_JOB: Final = re.compile(r"\bjob (\d+)\b")  # in a reason


class LiveManager:
    """The manager's state, and the rules of its changes while time runs on."""

    def __init__(
        self,
        manager: Manager,
        agenda: Agenda,
        next_id: int,
        ended_state: Callable[[int], str | None],
        tasks_of: Callable[[int], Sequence[int]],
    ) -> None:
        """``next_id`` is the id of the first submitted job; the last two parameters look up jobs and arrays that have ended."""
        manager.diary.kept = True
        manager.allow_late_answers()
        self.manager = manager
        self.agenda = agenda
        self.now_us = 0
        self.owners = Owners()
        self.origins = self.owners.origins
        self.outbox = Outbox(manager)
        self.gate = agenda.gate = agenda.gate or Gate(manager, Binding(NO_RULES, manager.machine.classes))
        self.gate.serve(self.outbox.tell)
        self.waiting = self.gate.jobs
        self.members = self.gate.members
        self.commands = Commands(manager, self.gate, self.owners, self.outbox, next_id, ended_state, tasks_of)
        self.decisions: deque[tuple[int, str]] = deque(maxlen=LAST_DECISIONS)
        self._changes: list[Change] = []

    # ------------------------------------------------------------ inputs

    def advance(self, now_us: int, give_up_s: float = inf) -> bool:
        """Apply everything due by ``now_us``, each at its own time; return whether there was anything.

        Must be called before anything else is done at ``now_us``: what is due comes before commands and answers of its instant. A
        clock that has run backwards has no effect. From the monotonic time ``give_up_s`` on the present stays behind ``now_us``, after
        all that is due at its instant.
        """
        passed = False
        while (due_us := self.due_by(now_us)) is not None and due_us <= now_us:
            if passed and due_us > self.now_us and time.monotonic() >= give_up_s:
                return True
            passed = True
            self.now_us = max(self.now_us, due_us)  # an entry that was scheduled too late is due now, not in the past
            events = self.agenda.due(self.now_us)
            self.outbox.tell(self.now_us, *events)
            self._follow_up(events)
        self.now_us = max(self.now_us, now_us)
        return passed

    def examine(self, who: Requester, request: Request, *, replayed: bool = False) -> Accepted | Refused | Done:
        """Return a command as it can be carried out now, why it cannot, or the answer to one that is repeated; nothing changes.

        ``replayed``: the journal has it.
        """
        return self.commands.examine(self.now_us, who, request, replayed=replayed)

    def carry_out(self, accepted: Accepted) -> Done:
        """Carry out a command that was accepted at the present time, after the journal has it.

        Nothing may change between `examine` and this: the command could have become impossible, and a replay would refuse it.
        """
        result = self.commands.carry_out(self.now_us, accepted)
        self._follow_up()
        return Done(result)

    def apply_answer(self, seq: int, actions: Sequence[m.Action], decided_us: int | None = None) -> None:
        """Carry out the scheduler's answer to batch ``seq``, of the time ``decided_us`` (None: now), as far as possible now."""
        self._reject_impossible(actions)
        # Events after the scheduler's batch explain the actions that are impossible now.
        stale = "stale: " if self.outbox.has_news else ""
        told = [
            "" if isinstance(action, m.SetNote | m.WakeAt) else describe(action, self.owners.label)
            for action in actions
        ]
        unaware = self.outbox.changed_jobs(self.now_us if decided_us is None else decided_us)
        refusals: list[m.ActionRefused] = []
        follow = self.manager.carry_out(seq, self.now_us, actions, unaware)
        for event in follow:
            if not isinstance(event, m.ActionRefused):
                self.outbox.tell(self.now_us, event)
                continue
            text = event.reason.removeprefix("stale: ")  # of a job that is about to start, or whose end was not seen
            before = "stale: " if text != event.reason else stale
            refusals.append(event._replace(reason=before + text))
            reason = _JOB.sub(lambda job: f"job {self.owners.label(int(job[1]))}", text)
            self.decisions.append((self.now_us, f"refused: {before}{reason}"))
        refused = {event.action for event in refusals}
        for number, text in enumerate(told):
            if text and number not in refused:
                self.decisions.append((self.now_us, text))
        self.outbox.close_batch(refusals)
        self._follow_up(follow)

    def _reject_impossible(self, actions: Sequence[m.Action]) -> None:
        """End the jobs that are to start and whose processes cannot run; an earlier version has accepted them, by the journal."""
        manager = self.manager
        if manager.processes is None:
            return
        for action in actions:
            for job_id in started_by(action):
                job = manager.pending.get(job_id)
                reason = None if job is None else manager.processes.refusal(job.job)
                if job is not None and reason is not None:
                    job.reason = reason
                    self.outbox.tell(self.now_us, m.JobEnded(job_id, m.REJECTED))

    # A command or an answer with its time is a step, as the journal repeats it.

    def command(self, now_us: int, who: Requester, request: Request, *, replayed: bool = False) -> Done | Refused:
        """Carry out a user's command at ``now_us``; one of the journal is ``replayed``."""
        self.advance(now_us)
        examined = self.examine(who, request, replayed=replayed)
        return examined if isinstance(examined, Refused | Done) else self.carry_out(examined)

    def answer(self, now_us: int, seq: int, actions: Sequence[m.Action], decided_us: int | None = None) -> None:
        """Carry out the scheduler's answer to batch ``seq``, of the time ``decided_us`` (None: now), at ``now_us``."""
        self.advance(now_us)
        self.apply_answer(seq, actions, decided_us)

    # ------------------------------------------------------------ the scheduler's side

    def batch(self) -> tuple[int, int, tuple[m.Event, ...]] | None:
        """Return (number, time, events) of the next batch, and count it as sent; None if there is none, or a batch is unanswered."""
        return self.outbox.batch(self.now_us)

    def inventory(self) -> m.Welcome:
        """Return the present state for a new scheduler. It includes all events not sent yet; an unanswered batch is given up."""
        return self.outbox.inventory(self.now_us)

    def take_restart(self) -> bool:
        """Return whether the manager has restarted by itself since the last call: the scheduler must take over its state anew."""
        restarted, self.agenda.restarted = self.agenda.restarted, False
        return restarted

    # ------------------------------------------------------------ the accounting's side

    def drain(self) -> list[Change]:
        """Return the changes since the last call, in order."""
        changes, self._changes = self._changes, []
        return changes

    def due_us(self) -> int | None:
        """Return the time of the next due entry; None if there is none, or only ends of processes that are not known yet."""
        return self.due_by(self.now_us)

    def due_by(self, now_us: int) -> int | None:
        """Return the same, with all that is due up to ``now_us``: processes run until then, or until something is due."""
        return self.agenda.next_by(now_us)

    def jobs_of(self, user: str) -> Iterator[ManagedJob]:
        """Yield the jobs of a user that have not ended, in any order."""
        jobs = self.manager.jobs
        yield from [jobs[job_id] for job_id in self.owners.jobs_of(user)]
        if len(jobs) > len(self.origins):
            scenarios = [jobs[job_id] for job_id in jobs.keys() - self.origins.keys()]
            yield from [job for job in scenarios if job.job.spec.user == user]

    @property
    def unfinished(self) -> int:
        """Return the number of submitted jobs that have not ended."""
        return len(self.manager.jobs)

    # ------------------------------------------------------------ in another manager

    def state(self) -> dict[str, Any]:
        """Return the state in plain values, for `take_over`: without what is to be told to a scheduler, which gets the whole state.

        All that was due has happened, and its changes were drained.
        """
        return {
            "now_us": self.now_us,
            "commands": self.commands.state(),
            "room": self.gate.state(),
            "manager": self.manager.state(),
            "decisions": list(self.decisions),
        }

    def take_over(self, now_us: int, state: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
        """Begin with the state of another manager; ``rows`` are those of its jobs in the accounts. This one is new."""
        self.now_us = now_us
        self.agenda.skip(state["now_us"])
        jobs: dict[int, WorkloadJob] = {}
        origins: dict[int, Origin] = {}
        for row in sorted(rows, key=itemgetter("id")):
            job = jobs[row["id"]] = job_from_json(row["job"])
            after = tuple([(kind, other) for kind, other in json.loads(row["after"])])
            origins[row["id"]] = origin = Origin(row["owner"], row["array_id"], row["array_index"], after)
            if origin.owner:
                self.owners.add(row["id"], origin, longest_us(job))
        self.manager.take_over(state["manager"], jobs)
        self.gate.take_over(state["room"], origins)
        self.commands.take_over(state["commands"])
        self.decisions.extend([(at_us, text) for at_us, text in state["decisions"]])
        self._changes += [JobCarried(row) for row in rows]
        nodes_before, nodes = state["nodes"]
        for node in range(nodes_before, nodes):
            self.manager.diary.note(NodeChanged(now_us, node, "UP", "added"))
        for node in range(nodes, nodes_before):
            self.manager.diary.note(NodeChanged(now_us, node, "REMOVED"))
        self._changes += self.manager.diary.drain()

    # ------------------------------------------------------------ consequences

    def _follow_up(self, events: Sequence[m.Event] = ()) -> None:
        """Handle the ends of jobs, and further ends that these cause; then settle the hardware.

        Must be called after anything that may have ended a job or changed what runs on a node: only here are jobs that waited for
        an end released, and only here do ends that contention has moved enter the timeline.
        """
        self._handle_ends()
        if events or self.gate.looks or self.gate.starts or self.gate.freed:
            self.gate.take(self.now_us, events)
            self._handle_ends()
        self.manager.settle(self.now_us)

    def _handle_ends(self) -> None:
        diary = self.manager.diary
        while diary.entries:
            changes = diary.drain()
            self._changes += changes
            for change in changes:
                if isinstance(change, JobFinished):
                    self._forget(change.record.job.spec.id, change.record.state)

    def _forget(self, job_id: int, state: str) -> None:
        """Forget a job that has ended, and release the jobs that waited for its end."""
        self.manager.forget(job_id)
        self.owners.drop(job_id)
        self.outbox.forget(job_id)
        self.gate.handle_end(self.now_us, job_id, state)

    # ------------------------------------------------------------ invariants

    def check(self) -> None:
        """Recompute the derived state; InvariantError if it differs."""
        manager = self.manager
        manager.check()
        if set(manager.jobs) != set(manager.pending) | set(manager.running) | set(self.waiting) | set(manager.unseen):
            raise InvariantError("stored jobs are neither pending nor running, nor to be reported")
        known = {job_id for job_id in self.waiting if job_id in manager.pending or job_id in manager.running}
        if known != self.gate.known or not all(manager.pending[job_id].held for job_id in known):
            raise InvariantError(
                "a waiting job is already known to the scheduler, and not as held, or the other way round"
            )
        manager.nodes.check()
        self.gate.check()


def describe(action: m.Action, label: Callable[[int], str]) -> str:
    """Return a decision of the scheduler in a few words; ``label`` returns the users' name of a job."""
    name = type(action).__name__
    words = {
        "StartJob": "start",
        "ReviseJob": "revise",
        "SuspendJob": "suspend",
        "ResumeJob": "resume",
        "RejectJob": "reject",
        "RequeueJob": "requeue",
        "KillJob": "kill",
    }
    match action:
        case m.StartTogether():
            return f"start together {', '.join([label(start.job_id) for start in action.starts])}"
        case m.SetRotation():
            return _describe_turns(action.turns, label)
        case m.StartJob() if action.slot:
            return f"start {label(action.job_id)} in slot {action.slot}"
        case m.ChangeSlot():
            return f"put {label(action.job_id)} into slot {action.slot}"
    job_id = getattr(action, "job_id", None)
    return words.get(name, name) if job_id is None else f"{words.get(name, name)} {label(job_id)}"


def _describe_turns(turns: Sequence[m.Turn], label: Callable[[int], str]) -> str:
    """Return a rotation in a few words, such as ``turns 0+2 with 7, 1, 2+0``."""
    told = []
    for turn in turns[:MOST_TURNS]:
        guests = f" with {' '.join([label(job_id) for job_id in turn.guests])}" if turn.guests else ""
        told.append(f"{'+'.join(map(str, turn.slots))}{f' x{turn.quanta}' if turn.quanta > 1 else ''}{guests}")
    more = f" and {len(turns) - MOST_TURNS} more" if len(turns) > MOST_TURNS else ""
    return f"turns {', '.join(told)}{more}"
