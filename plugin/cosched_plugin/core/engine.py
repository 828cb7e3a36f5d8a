"""The scheduler core: `SchedulerCore.handle(now, events)` is the only way to change scheduler state.

A pure function of state, time and events: no clock, socket, file, thread, logger or unseeded random number inside. A request for
a wake is an action. A core is built from a `Welcome` and nothing else, so a restarted scheduler is one more core.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from cosched_hwmodel.errors import RAISED_OUTSIDE, ContentionError, HardwareModelError, raised_by_a_signal
from cosched_hwmodel.models.by_name import BUILT_IN, PairFactory
from cosched_plugin.common import errors
from cosched_plugin.common.slots import Rotation
from cosched_plugin.core.invariants import check_invariants
from cosched_plugin.core.state import State
from cosched_plugin.core.trace import Trace, TraceSink
from cosched_plugin.core.views.view import View
from cosched_plugin.ledger import entries
from cosched_plugin.ledger.entries import CONTRADICTIONS, act, check_welcome, happen, impossible, in_words, start
from cosched_plugin.ledger.running import Running
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.codec import pack, unpack
from cosched_plugin.protocol.errors import Fault, refuse
from cosched_plugin.protocol.features import FEATURE_ACTIONS
from cosched_plugin.protocol.limits import MAX_ACTIONS, MAX_FRAME_BYTES, most_actions
from cosched_plugin.protocol.messages import started_by
from cosched_plugin.protocol.values import check_note
from cosched_plugin.protocol.vocabulary import ACTIONS_BY_KIND

_CHANGES: Final = frozenset(
    (
        m.ReviseJob, m.SuspendJob, m.ResumeJob, m.ChangeSlot, m.RequeueJob, m.KillJob, m.SetRotation, m.RejectJob, m.WakeAt
    )
)  # fmt: skip
_OURS: Final = (__file__, entries.__file__)  # where a decision of the wrong types fails


class Policy(Protocol):
    """Makes the decisions. One instance serves one core; its attributes must be caches that the view can rebuild."""

    def decide(self, view: View) -> Iterator[m.Action]:
        """Yield one decision at a time; the core applies each before it asks for the next, so ``view`` is always current."""


class SchedulerCore:
    """Turns events into decisions."""

    __slots__ = ("_changes", "_lacking", "_policy", "_replied", "_reply", "_state", "_trace", "_view", "refused")

    def __init__(
        self,
        policy: Policy,
        welcome: m.Welcome,
        trace: TraceSink | None = None,
        models: Mapping[str, PairFactory] = BUILT_IN,
    ) -> None:
        """``models`` are the contention models that the welcome may name; ``trace`` takes the records of a decision trace."""
        self._policy = policy
        try:
            check_welcome(welcome)
            self._state = State(welcome, models)
        except HardwareModelError as error:
            raise errors.UsageError(f"what the site believes of contention cannot be used: {error}") from error
        except CONTRADICTIONS as error:
            text = f"the welcome contradicts itself: {in_words(error, 'what it says of jobs does not fit')}"
            raise errors.RemoteProtocolError("state", "", text) from error
        self._trace = None if trace is None else Trace(trace, self._state)
        self._view = View(self._state, self._trace)
        # Decisions of features that the manager lacks, by type.
        self._lacking = {
            kind: feature for kind, (_, feature) in FEATURE_ACTIONS.items() if feature not in welcome.features
        }
        check_site = getattr(policy, "check_site", None)  # a composition has it
        if check_site is not None:
            check_site(self._view)
        at_site = getattr(policy, "at_site", None)  # likewise
        if at_site is not None:
            self._policy = at_site(self._view)
        self.refused = 0  # actions that the manager did not carry out
        # Number of the last batch that was answered, or never will be: batches are numbered on from it.
        self._replied = welcome.seq
        self._reply: Sequence[m.Action] | None = None  # the reply to it; None: another scheduler's
        self._changes: Changes | None = None  # in running jobs and the rotation, by the last reply

    @property
    def view(self) -> View:
        """Return the read-only view of the policy."""
        return self._view

    # All events go through here, and all decisions come out of here. It must be called once for each batch, in the manager's order,
    # with all that has happened since the last one. After a PolicyError it must not be called again: the state has decisions that the
    # manager never got, and a new core begins with what the manager knows.
    def handle(self, now_us: int, events: Sequence[m.Event]) -> list[m.Action]:
        """Apply all events of one instant and return the decisions that follow.

        Raises PolicyError when a decision is impossible; the state is then as after the last possible one.
        """
        state = self._state
        state.now_us = now_us
        try:
            for event in events:
                if type(event) is m.ActionRefused:
                    self._take_back(events)
                    break
            happen(state, events)
            return self._decide()
        finally:
            state.end_batch()

    def check(self) -> None:
        """Re-derive every invariant of the state; AssertionError where one does not hold."""
        check_invariants(self._state)

    # Each decision must be applied before the policy is resumed: policies yield one and go on with a view that shows its effect.
    # A check must come before its change, so that a decision that is refused here leaves the state as it was.
    def _decide(self) -> list[m.Action]:
        """Return the policy's decisions, each applied to the state before the next one is asked for."""
        state = self._state
        actions: list[m.Action] = []
        self._reply = actions
        self._replied += 1
        self._changes = None
        trace, lacking = self._trace, self._lacking
        most = MAX_ACTIONS  # and more where there are jobs
        decision: m.Action | None = None
        try:
            for decision in self._policy.decide(self._view):
                kind = type(decision)
                if type(decision) is m.StartJob:
                    reason = start(state, decision)
                elif kind in lacking:
                    raise errors.MachineError(
                        f"the policy needs the feature {lacking[kind]}, which this manager lacks: {decision}"
                    )
                elif kind in _CHANGES:
                    reason = _travel_refusal(decision) or self._change(decision, len(actions))
                else:
                    reason = _travel_refusal(decision) or act(state, decision)
                if reason is not None:
                    raise errors.PolicyError(decision, reason)
                actions.append(decision)
                if trace is not None:
                    trace.emit(decision)
                if len(actions) > most:
                    most = self._most(actions)
                    if len(actions) > most:  # a policy with more never ends
                        raise errors.PolicyError(decision, f"more than {most} decisions at one instant")
        except errors.PluginError:
            raise
        except ContentionError as error:
            raise errors.UsageError(f"what the site believes of contention cannot be used: {error}") from error
        except RAISED_OUTSIDE as error:
            if raised_by_a_signal(error):
                raise
            raise _failure(error, decision) from error
        if trace is not None:
            trace.forget()
        return actions

    def _most(self, actions: Sequence[m.Action]) -> int:
        """Return how many actions a reply may have that has these so far, by the jobs that there were before it."""
        state = self._state
        rejected = sum([type(action) is m.RejectJob for action in actions])
        return most_actions(len(state.queue) + len(state.running) + rejected)

    # A refusal of an earlier batch than the last, or of another scheduler's reply, is of starts, and names the jobs: they wait again.
    # All else that has not happened after all is told by events, as a scheduler that was restarted does not know it either.
    def _take_back(self, events: Sequence[m.Event]) -> None:
        """Undo the actions that the manager has refused, the last action first.

        Refusals come first in a batch, before all that has happened since: so this is the state that the manager knows.
        """
        for event in reversed(events):
            if isinstance(event, m.ActionRefused):
                try:
                    self._check_refusal(event)
                    self._undo(event)
                except CONTRADICTIONS as error:
                    raise impossible(error, events, None) from error

    def _undo(self, event: m.ActionRefused) -> None:
        state = self._state
        self.refused += 1
        state.interventions += 1  # jobs may have counted as running since an instant that has passed
        for job_id in event.job_ids:
            if job_id in state.running:
                state.requeue(job_id)
        if event.seq != self._replied or self._reply is None:
            return
        if self._changes is not None:
            self._changes.take_back(event.action, state)

    def _check_refusal(self, event: m.ActionRefused) -> None:
        """Raise ValueError for the refusal of an action that never was."""
        if event.seq > self._replied:
            raise ValueError(
                f"an action of batch {event.seq} was refused, and the last one answered is {self._replied}"
            )
        if event.seq < self._replied or self._reply is None:
            return
        if event.action >= len(self._reply):
            raise ValueError(
                f"action {event.action} of batch {event.seq} was refused, and its reply has {len(self._reply)} actions"
            )
        started = started_by(self._reply[event.action])
        if not set(event.job_ids) <= set(started):
            raise ValueError(
                f"action {event.action} of batch {event.seq} was refused for jobs {list(event.job_ids)}, and it starts {list(started)}"
            )

    # Every decision but starts and notes must come through here: the manager may refuse it with the next batch, and what is not
    # recorded here cannot be taken back. A note that found no room stays, or the policy would set it again without end. A measurement
    # that a start or a stop has voided is not recorded either: the manager tells it again, as it knows what has voided it since.
    def _change(self, decision: Any, number: int) -> str | None:
        """Apply decision ``number`` of a reply, and record how to undo it if the manager refuses it."""
        before = _changed_by(decision, self._state)
        reason = act(self._state, decision)
        if reason is None:
            if self._changes is None:
                self._changes = Changes(self._state.now_us)
            self._changes.add(number, decision, before, _changed_by(decision, self._state))
        return reason


class _Waiting(NamedTuple):
    """A pending job, and its notes."""

    job: m.JobSpec
    notes: Mapping[str, m.NoteValue]


_Changed: TypeAlias = Running | Rotation | _Waiting | int | None


def _changed_by(decision: Any, state: State) -> _Changed:
    """Return what a decision changes: a running or a pending job, the rotation, or a wake that there is already."""
    match decision:
        case m.SetRotation():
            return None if state.slots is None else state.slots.rotation
        case m.WakeAt():
            return decision.at_us if decision.at_us in state.wakes else None
        case m.RejectJob():
            job = state.queue.get(decision.job_id)
            return None if job is None else _Waiting(job, dict(state.notes.get(job.id, {})))
    return state.running.get(decision.job_id)


# One process must behave as two do. `start` looks at a start's types itself: a message for each would cost a tenth of it.
def _travel_refusal(decision: m.Action) -> str | None:
    """Return why the protocol could not carry a decision, or None."""
    of = ACTIONS_BY_KIND.get(type(decision))
    try:
        if type(decision) is m.SetNote:
            if decision.job_id is not None and type(decision.job_id) is not int:
                refuse("an integer", decision.job_id, "job_id")
            check_note(decision.key, decision.value)
        elif of is None:
            return f"a policy cannot decide a {type(decision).__name__}"
        else:
            of.read(unpack(pack(of.write(decision)), MAX_FRAME_BYTES))
    except Fault as fault:
        text = f"{'the note cannot travel: ' * (type(decision) is m.SetNote)}{fault.path}: {fault.text}"
        if fault.code == "field" and fault.path.startswith("value"):
            text += "; a value is None, a bool, a 64-bit integer, a finite float, a str, or a tuple of those"
        return text
    except (TypeError, ValueError, OverflowError, AttributeError, errors.RemoteProtocolError) as error:
        return f"a field is not as docs/reference/records.md says: {error}"
    return None


class Changes:
    """What the actions of a reply have changed in jobs, in the rotation and in the wakes, by number of the action."""

    __slots__ = ("_at_us", "_of_jobs", "_rejected", "_rotations", "_wakes")

    def __init__(self, at_us: int) -> None:
        self._at_us = at_us  # when they were decided
        self._of_jobs: dict[int, tuple[m.Action, Running, Running]] = {}  # the running job before it and after
        self._rejected: dict[int, _Waiting] = {}
        self._rotations: dict[int, Rotation] = {}  # before
        self._wakes: dict[int, int] = {}  # that there were not yet

    def add(self, number: int, decision: m.Action, before: _Changed, after: _Changed) -> None:
        """Add the change by action ``number``, which is higher than those before."""
        if isinstance(before, _Waiting):
            self._rejected[number] = before
        elif isinstance(before, Rotation):
            self._rotations[number] = before
        elif isinstance(before, Running) and isinstance(after, Running):
            self._of_jobs[number] = (decision, before, after)
        elif type(decision) is m.WakeAt and before is None:
            self._wakes[number] = decision.at_us

    def take_back(self, number: int, state: State) -> None:
        """Undo what action ``number`` has changed, if anything; later actions have the effect that they have without it."""
        state.wakes.discard(self._wakes.pop(number, 0))
        if number in self._rejected:
            job, notes = self._rejected.pop(number)
            # Another object: who knows jobs by it looks at this one, as a new scheduler does
            job = m.JobSpec._make(job)
            state.arrived.append(job)
            state.queue.enter(job)
            for key, value in notes.items():
                state.set_note(job.id, key, value)
        if number in self._rotations and state.slots is not None:
            rotation = self._rotations.pop(number)
            later = min([other for other in self._rotations if other > number], default=None)
            if later is None:
                state.slots.rotation = rotation
            else:
                self._rotations[later] = rotation
        if number in self._of_jobs:
            self._take_back_change(number, state)

    def _take_back_change(self, number: int, state: State) -> None:
        _, before, _ = self._of_jobs.pop(number)
        job_id = before.job.id
        if job_id not in state.running:
            return  # its start was refused, too
        state.restore(job_id, before._asdict())
        for later, (action, _, after) in list(self._of_jobs.items()):
            if later > number and after.job.id == job_id:
                self._of_jobs[later] = (action, state.running[job_id], after)
                self._repeat(action, after, state)

    def _repeat(self, action: m.Action, after: Running, state: State) -> None:
        """Let an action of this reply change a running job, which was ``after`` it what it may not be now."""
        job_id = after.job.id
        match action:
            case m.ReviseJob():
                state.revise(m.ReviseJob(job_id, after.end_us - after.start_us, after.limit_us))
            case m.SuspendJob():
                state.suspend(job_id, self._at_us, to_disk=action.to_disk)
            case m.ResumeJob() if state.running[job_id].suspended_us is not None:
                state.resume(job_id, self._at_us)
            case m.ChangeSlot():
                state.change_slot(job_id, action.slot)
            case m.RequeueJob() | m.KillJob():
                state.let_leave(job_id)


def _failure(error: BaseException, decision: object) -> errors.PolicyError:
    """Return what went wrong in a policy, or in one of its decisions: the first call below the core's tells which."""
    below = None if error.__traceback__ is None else error.__traceback__.tb_next
    text = f"{type(error).__name__}: {error}"
    if below is None:  # it could not be called, or its answer not be read
        return errors.PolicyError(None, f"the policy failed: expected decide(view) to yield decisions, got {text}")
    if decision is not None and below.tb_frame.f_code.co_filename in _OURS:
        return errors.PolicyError(decision, f"a field has another type than docs/reference/records.md says: {text}")
    return errors.PolicyError(None, f"the policy failed: {errors.described(error)}")
