"""The scheduler core: `SchedulerCore.handle(now, events)` is the only way to change scheduler state.

A pure function of state, time and events: no clock, socket, file, thread, logger or unseeded random number inside. A request for
a wake is an action. A core is built from a `Welcome` and nothing else, so a restarted scheduler is one more core.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol, assert_never

from cosched_hwmodel.errors import ContentionError, HardwareModelError, raised_by_a_signal
from cosched_hwmodel.models.by_name import BUILT_IN, PairFactory
from cosched_plugin.common.allocation import Layers, limit_granted, started_by, times_refusal
from cosched_plugin.common.errors import (
    MachineError,
    PluginError,
    PolicyError,
    RemoteProtocolError,
    UsageError,
    described,
)
from cosched_plugin.common.slots import NO_SLOTS, Member, slot_refusal
from cosched_plugin.core.invariants import check_invariants
from cosched_plugin.core.manager_reports import (
    begin,
    check_node,
    check_threads,
    check_welcome,
    measure,
    modify,
    refuse_submission,
    resume,
    revise,
    running_in,
    suspend,
)
from cosched_plugin.core.running import REQUEUED, Running
from cosched_plugin.core.state import Changes, State
from cosched_plugin.core.trace import Trace, TraceSink
from cosched_plugin.core.views.view import View
from cosched_plugin.protocol.errors import Fault
from cosched_plugin.protocol.features import FEATURE_ACTIONS
from cosched_plugin.protocol.limits import MAX_ACTIONS, MAX_ACTIONS_A_JOB
from cosched_plugin.protocol.messages import (
    REJECTED,
    Action,
    ActionRefused,
    ChangeSlot,
    Event,
    JobEnded,
    JobHeld,
    JobModified,
    JobReleased,
    JobRequeued,
    JobResumed,
    JobRevised,
    JobSpec,
    JobStarted,
    JobSubmitted,
    JobSuspended,
    KillJob,
    NodeFailed,
    NodeReturned,
    ProgressMeasured,
    QuantumEnded,
    RejectJob,
    RequeueJob,
    ResumeJob,
    ReviseJob,
    SetNote,
    SetRotation,
    StartJob,
    StartTogether,
    SubmitJob,
    SuspendJob,
    WakeAt,
    Welcome,
    Woken,
)
from cosched_plugin.protocol.values import check_note
from cosched_plugin.protocol.vocabulary import JOB

LATEST_US: Final = (1 << 63) - 1
_TO_RUNNING: Final = frozenset((ReviseJob, SuspendJob, ResumeJob, ChangeSlot, RequeueJob, KillJob))
_SLOT_0: Final = 0  # by identity: False and 0.0 are equal to it
# The errors of inconsistent events and inventories; `manager_reports` raises ValueErrors that name both facts.
CONTRADICTIONS: Final = (LookupError, ValueError, AssertionError)
_DOUBTFUL: Final = frozenset(
    (ActionRefused, JobStarted, JobResumed)
)  # two jobs may hold one thread until all events were read


class Policy(Protocol):
    """Makes the decisions. One instance serves one core; its attributes must be caches that the view can rebuild."""

    def decide(self, view: View) -> Iterator[Action]:
        """Yield one decision at a time; the core applies each before it asks for the next, so ``view`` is always current."""


class SchedulerCore:
    """Turns events into decisions."""

    __slots__ = ("_changes", "_lacking", "_policy", "_replied", "_reply", "_state", "_trace", "_view", "refused")

    def __init__(
        self,
        policy: Policy,
        welcome: Welcome,
        trace: TraceSink | None = None,
        models: Mapping[str, PairFactory] = BUILT_IN,
    ) -> None:
        """``models`` are the contention models that the welcome may name; ``trace`` takes the records of a decision trace."""
        self._policy = policy
        try:
            check_welcome(welcome)
            self._state = State(welcome, models)
        except HardwareModelError as error:
            raise UsageError(f"what the site believes of contention cannot be used: {error}") from error
        except CONTRADICTIONS as error:
            text = f"the welcome contradicts itself: {_in_words(error, 'what it says of jobs does not fit')}"
            raise RemoteProtocolError("state", "", text) from error
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
        self._replied = (
            welcome.seq
        )  # number of the last batch that was answered, or never will be: batches are numbered on from it
        self._reply: Sequence[Action] | None = None  # the reply to it; None: another scheduler's
        self._changes: Changes | None = None  # in running jobs, by the last reply

    @property
    def view(self) -> View:
        """Return the read-only view of the policy."""
        return self._view

    # All events go through here, and all decisions come out of here. It must be called once for each batch, in the manager's order,
    # with all that has happened since the last one. After a PolicyError it must not be called again: the state has decisions that the
    # manager never got, and a new core begins with what the manager knows.
    def handle(self, now_us: int, events: Sequence[Event]) -> list[Action]:
        """Apply all events of one instant and return the decisions that follow.

        Raises PolicyError when a decision is impossible; the state is then as after the last possible one.
        """
        state = self._state
        state.now_us = now_us
        try:
            self._take_in(events)
            return self._decide()
        finally:
            if state.arrived:
                state.arrived.clear()
            if state.ended:
                state.ended.clear()
            if state.measured_now:
                state.measured_now.clear()
            if state.slots is not None:
                state.slots.quantum_ended = False

    def check(self) -> None:
        """Re-derive every invariant of the state; AssertionError where one does not hold."""
        check_invariants(self._state)

    # Must be through before the policy is asked, and refusals must be undone before anything else is read: what has happened since
    # happened on the state that the manager kept, without the actions that it refused.
    def _take_in(self, events: Sequence[Event]) -> None:
        """Apply all events of one instant to the state."""
        state = self._state
        doubtful = False
        for event in events:
            if type(event) in _DOUBTFUL:
                doubtful = True
                break
        fault: Event | None = None  # the event that is read
        try:
            if doubtful:
                self._take_back(events)
            for event in events:
                fault = event
                if type(event) is JobEnded:
                    state.forget(event.job_id, event.state)
                elif type(event) is JobSubmitted:
                    job = event.job
                    if job.submit_us > state.now_us or state.has(job.id):
                        refuse_submission(state, job)
                    state.queue.enter(job)
                    state.arrived.append(job)
                else:
                    self._learn(event)
            fault = None
            if doubtful:
                # In between, two jobs may have held one thread: one that came back, and one that the manager has started meanwhile.
                state.recount()
                check_threads(state.running.values(), state.machine)
        except CONTRADICTIONS as error:
            number = next((number for number, each in enumerate(events) if each is fault), len(events))
            of_one = number < len(events)
            what = f"{type(events[number]).__name__} does not fit what was said before" if of_one else "jobs do not fit"
            text = f"what happened cannot have happened: {_in_words(error, what)}"
            raise RemoteProtocolError("state", f"events[{number}]" if of_one else "events", text) from error

    # Each decision must be applied before the policy is resumed: policies yield one and go on with a view that shows its effect.
    # A check must come before its change, so that a decision that is refused here leaves the state as it was.
    def _decide(self) -> list[Action]:
        """Return the policy's decisions, each applied to the state before the next one is asked for."""
        state = self._state
        actions: list[Action] = []
        self._reply = actions
        self._replied += 1
        self._changes = None
        if state.slots is not None:
            state.slots.begin_reply()
        trace, lacking = self._trace, self._lacking
        most = MAX_ACTIONS  # and more where there are jobs
        decision: Action | None = None
        try:
            for decision in self._policy.decide(self._view):
                if type(decision) is StartJob:
                    self._start(decision)
                elif type(decision) in lacking:
                    raise MachineError(
                        f"the policy needs the feature {lacking[type(decision)]}, which this manager lacks: {decision}"
                    )
                elif type(decision) in _TO_RUNNING:
                    self._apply_to_running(decision, len(actions))
                else:
                    self._apply(decision)
                actions.append(decision)
                if trace is not None:
                    trace.emit(decision)
                if len(actions) > most:
                    most = self._most(actions)
                    if len(actions) > most:  # a policy with more never ends
                        raise PolicyError(decision, f"more than {most} decisions at one instant")
        except PluginError:
            raise
        except ContentionError as error:
            raise UsageError(f"what the site believes of contention cannot be used: {error}") from error
        except (Exception, SystemExit) as error:
            if raised_by_a_signal(error):
                raise
            raise _failure(error, decision) from error
        if trace is not None:
            trace.forget()
        return actions

    def _most(self, actions: Sequence[Action]) -> int:
        """Return how many actions a reply may have that has these so far, by the jobs that there were before it."""
        state = self._state
        rejected = sum([type(action) is RejectJob for action in actions])
        return MAX_ACTIONS + MAX_ACTIONS_A_JOB * (len(state.queue) + len(state.running) + rejected)

    def _learn(self, event: Event) -> None:
        state = self._state
        match event:
            case JobEnded() | JobSubmitted():
                pass  # the most frequent ones: `_take_in` has handled them
            case JobRequeued():
                state.ended.append((running_in(state, event.job_id, "was requeued"), REQUEUED))
                self._requeue(event.job_id)
            case JobStarted():
                begin(state, event)
            case JobModified():
                modify(state, event.job)
            case JobRevised():
                revise(state, event)
            case JobSuspended():
                suspend(state, event)
            case JobResumed():
                resume(state, event)
            case JobHeld():
                held = state.queue.take(event.job_id)
                if held is not None:
                    state.held[event.job_id] = held
            case JobReleased():
                released = state.held.pop(event.job_id, None)
                if released is not None:
                    state.queue.enter(released)
                    state.arrived.append(released)
            case NodeFailed():
                check_node(event.node, "failed", state.machine)
                state.fail_node(event.node)
            case NodeReturned():
                check_node(event.node, "returned", state.machine)
                state.return_node(event.node)
            case ProgressMeasured():
                measure(state, event)
            case QuantumEnded():
                state.end_quantum(event)
            case Woken():
                state.wakes.discard(event.at_us)
            case ActionRefused():
                pass  # undone already
            case _:
                assert_never(event)

    def _requeue(self, job_id: int) -> None:
        state = self._state
        state.arrived.append(state.leave(job_id))
        state.queue.enter(state.arrived[-1])

    # A refusal of an earlier batch than the last, or of another scheduler's reply, is of starts, and names the jobs: they wait again.
    # All else that has not happened after all is told by events, as a scheduler that was restarted does not know it either.
    def _take_back(self, events: Sequence[Event]) -> None:
        """Undo the actions that the manager has refused, the last action first.

        Refusals come first in a batch, before all that has happened since: so this is the state that the manager knows.
        """
        state = self._state
        for event in reversed(events):
            if not isinstance(event, ActionRefused):
                continue
            self._check_refusal(event)
            self.refused += 1
            for job_id in event.job_ids:
                if job_id in state.running:
                    self._requeue(job_id)
            if event.seq != self._replied or self._reply is None:
                continue
            action = self._reply[event.action]
            if isinstance(action, WakeAt):
                state.wakes.discard(action.at_us)
            elif isinstance(action, SetRotation) and state.slots is not None:
                state.slots.take_back(event.action)
            elif self._changes is not None:
                self._changes.take_back(event.action, state)

    def _check_refusal(self, event: ActionRefused) -> None:
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

    # Every decision that changes a running job must come through here: the manager may refuse it with the next batch, and what
    # is not recorded here cannot be taken back.
    def _apply_to_running(self, decision: Action, number: int) -> None:
        """Apply decision ``number`` of a reply, and record how to undo it if the manager refuses it."""
        assert isinstance(decision, ReviseJob | SuspendJob | ResumeJob | ChangeSlot | RequeueJob | KillJob)
        job_id = decision.job_id
        before = self._state.running.get(job_id)
        match decision:
            case ReviseJob():
                self._revise(decision)
            case SuspendJob():
                self._suspend(decision)
            case ResumeJob():
                self._resume(decision)
            case ChangeSlot():
                self._change_slot(decision)
            case RequeueJob() | KillJob():
                if self._find_running(decision, job_id).leaving:
                    raise PolicyError(decision, f"job {job_id} is to be killed or requeued already")
                self._state.let_leave(job_id)
        if before is not None:
            if self._changes is None:
                self._changes = Changes()
            self._changes.add(number, before, self._state.running[job_id])

    def _apply(self, decision: Action) -> None:
        state = self._state
        match decision:
            case StartTogether():
                self._start_together(decision)
            case SetRotation():
                self._set_rotation(decision)
            case SetNote():
                _check_note(decision)
                if decision.job_id is not None and self._job(decision.job_id) is None:
                    raise PolicyError(decision, f"there is no job {decision.job_id}")
                state.set_note(decision.job_id, decision.key, decision.value)
            case WakeAt():
                if type(decision.at_us) is not int or decision.at_us > LATEST_US:
                    raise PolicyError(decision, "a wake is a whole number of microseconds, of 63 bits")
                if decision.at_us <= state.now_us:
                    raise PolicyError(decision, f"a wake must lie after now, {state.now_us}")
                state.wakes.add(decision.at_us)
            case SubmitJob():
                _check_submission(decision)
            case RejectJob():
                if decision.job_id not in state.queue:
                    raise PolicyError(decision, f"job {decision.job_id} does not wait")
                state.forget(decision.job_id, REJECTED)
            case _:
                raise PolicyError(decision, f"a policy cannot decide a {type(decision).__name__}")

    def _start(self, start: StartJob) -> None:
        state = self._state
        job = state.queue.get(start.job_id)
        if job is None:
            raise PolicyError(start, f"job {start.job_id} does not wait")
        if state.slots is None and start.slot is _SLOT_0:
            placed = times_refusal(job.limit_us, start) or state.pool.place(job, start.runs)
        else:
            placed = _place_in_slot(state, job, start)
        if isinstance(placed, str):
            raise PolicyError(start, placed)
        state.start(self._granted(start, job.limit_us) if state.limits else start, placed)

    def _granted(self, asked: StartJob, own_us: int | None) -> StartJob:
        """Return a start with the limit that the manager will grant; PolicyError where it grants none so long."""
        return asked._replace(limit_us=self._limit(asked, asked.limit_us, own_us))

    def _limit(self, decision: Action, limit_us: int | None, own_us: int | None) -> int | None:
        granted = limit_granted(self._state.capabilities, limit_us, own_us)
        if isinstance(granted, str):
            raise PolicyError(decision, granted)
        return granted

    def _revise(self, revision: ReviseJob) -> None:
        running = self._find_running(revision, revision.job_id)
        reason = times_refusal(running.limit_us, revision)
        if reason is not None:
            raise PolicyError(revision, reason)
        if self._state.limits:
            revision = revision._replace(limit_us=self._limit(revision, revision.limit_us, running.limit_us))
        self._state.revise(revision)

    def _suspend(self, suspension: SuspendJob) -> None:
        running = self._find_running(suspension, suspension.job_id, suspended=False)
        reason = self._state.pool.disk_refusal(running.job, running.runs) if suspension.to_disk else None
        if reason is not None:
            raise PolicyError(suspension, reason)
        self._state.suspend(suspension.job_id, self._state.now_us, to_disk=suspension.to_disk)

    def _resume(self, resumption: ResumeJob) -> None:
        running = self._find_running(resumption, resumption.job_id, suspended=True)
        if running.held:
            raise PolicyError(resumption, f"the manager has suspended job {resumption.job_id}, and it alone resumes it")
        if running.on_disk:
            pool = self._state.pool_of(running.slot)
            reason = pool.return_refusal(running.job, running.runs, running.layers)
            if reason is not None:
                raise PolicyError(resumption, reason)
        self._state.resume(resumption.job_id, self._state.now_us)

    def _change_slot(self, change: ChangeSlot) -> None:
        running = self._find_running(change, change.job_id)
        state = self._state
        reason = NO_SLOTS if state.slots is None else state.slots.change_refusal(running, change.slot, state.running)
        if reason is not None:
            raise PolicyError(change, reason)
        state.change_slot(change.job_id, change.slot)

    def _set_rotation(self, rotation: SetRotation) -> None:
        slots = self._state.slots
        reason = NO_SLOTS if slots is None else slots.rotation_refusal(rotation, self._state.running)
        if slots is None or reason is not None:
            raise PolicyError(rotation, str(reason))
        slots.set_rotation(rotation, 0 if self._reply is None else len(self._reply))

    def _find_running(self, decision: Action, job_id: int, suspended: bool | None = None) -> Running:
        """Return the running job that a decision names; ``suspended`` is the state that it must have."""
        running = self._state.running.get(job_id)
        if running is None:
            raise PolicyError(decision, f"job {job_id} does not run")
        if suspended is not None and (running.suspended_us is not None) != suspended:
            raise PolicyError(decision, f"job {job_id} is {'not ' if suspended else ''}suspended")
        return running

    def _start_together(self, group: StartTogether) -> None:
        """Check the whole group before the first of it starts."""
        placed = _place_together(self._state, group.starts)
        if isinstance(placed, str):
            raise PolicyError(group, placed)
        starts = list(group.starts)
        if self._state.limits:
            queue = self._state.queue
            starts = [self._granted(start, queue[start.job_id].limit_us) for start in starts]
        for start, layers in zip(starts, placed, strict=True):
            self._state.start(start, layers)

    def _job(self, job_id: int) -> JobSpec | None:
        state = self._state
        if job_id in state.running:
            return state.running[job_id].job
        return state.queue.get(job_id) or state.held.get(job_id)


# Whether a policy's starts are possible, in any slot and several at a time; `SchedulerCore` has the most frequent case.


def _place_in_slot(
    state: State, job: JobSpec, start: StartJob, besides: Mapping[int, Member] = MappingProxyType({})
) -> Layers | str:
    """Return the threads that a start names in its slot, or the reason why it is impossible.

    ``besides`` are jobs that start in the same decision.
    """
    reason = slot_refusal(start.slot) or times_refusal(job.limit_us, start)
    if reason is not None:
        return reason
    if state.slots is not None:
        return state.slots.place(job, start, state.running, besides)
    return f"slot {start.slot}: {NO_SLOTS}" if start.slot else state.pool.place(job, start.runs)


def _place_together(state: State, starts: Sequence[StartJob]) -> list[Layers] | str:
    """Return the threads of each of these starts, which happen together; or the reason why one of them is impossible."""
    seated: list[tuple[JobSpec, StartJob, Layers]] = []
    besides: dict[int, Member] = {}
    try:
        for start in starts:
            job = state.queue.get(start.job_id)
            if job is None or job.id in besides:
                return f"job {start.job_id} does not wait"
            placed = _place_in_slot(state, job, start, besides)
            if isinstance(placed, str):
                return f"job {start.job_id}: {placed}"
            state.pool_of(start.slot).take(job, start.runs, placed)
            seated.append((job, start, placed))
            besides[job.id] = Member(start.slot, placed, job.unpaired)
    finally:
        for job, start, layers in seated:
            state.pool_of(start.slot).give_back(job, start.runs, layers)
            if start.slot and state.slots is not None:
                state.slots.pools.drop(start.slot)
    return [layers for _, _, layers in seated]


def _check_submission(submission: SubmitJob) -> None:
    """Raise PolicyError where a job could not travel."""
    try:
        JOB.read(JOB.write(submission.job))
    except (Fault, TypeError, ValueError, AttributeError) as error:
        raise PolicyError(submission, f"the job cannot travel: {error}") from None


def _check_note(note: SetNote) -> None:
    """Raise PolicyError where the protocol could not carry a note: one process must behave as two do."""
    try:
        check_note(note.key, note.value)
    except Fault as fault:
        text = f"the note cannot travel: {fault.path}: {fault.text}"
        if fault.code == "field" and fault.path.startswith("value"):
            text += "; a value is None, a bool, a 64-bit integer, a finite float, a str, or a tuple of those"
        raise PolicyError(note, text) from None


def _failure(error: BaseException, decision: object) -> PolicyError:
    """Return what went wrong in a policy, or in one of its decisions: the first call below the core's tells which."""
    below = None if error.__traceback__ is None else error.__traceback__.tb_next
    text = f"{type(error).__name__}: {error}"
    if below is None:  # it could not be called, or its answer not be read
        return PolicyError(None, f"the policy failed: expected decide(view) to yield decisions, got {text}")
    if decision is not None and below.tb_frame.f_code.co_filename == __file__:
        return PolicyError(decision, f"a field has another type than docs/reference/records.md says: {text}")
    return PolicyError(None, f"the policy failed: {described(error)}")


def _in_words(error: BaseException, otherwise: str) -> str:
    """Return a contradiction in words."""
    return str(error) if type(error) is ValueError else otherwise
