"""The way into the ledger: what a manager tells, and what a scheduler decides. Each entry is checked, then applied.

A check comes before its change, so that what is refused leaves the ledger as it was. A contradiction among events is a ValueError
whose text names both facts, and a RemoteProtocolError once it leaves `happen`; a decision is refused in words. The specification is
PROTOCOL.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, assert_never

from cosched_plugin.common.allocation import Machine, times_refusal
from cosched_plugin.common.errors import RemoteProtocolError
from cosched_plugin.common.slots import (
    NO_SLOTS,
    Member,
    joining_refusal,
    pairing_turns,
    quantum_refusal,
    rotation_of,
    rotation_refusal,
    slot_refusal,
)
from cosched_plugin.common.threads import Layers
from cosched_plugin.ledger.ledger import Ledger
from cosched_plugin.ledger.running import REQUEUED, Running, running_job
from cosched_plugin.protocol import messages as m

_LISTS: Final = (tuple, list)
_SLOT_0: Final = 0  # by identity: False and 0.0 are equal to it
# The errors raised by inconsistent events and inventories.
CONTRADICTIONS: Final = (LookupError, ValueError, AssertionError)
# Two jobs may hold one thread until all events were read
_DOUBTFUL: Final = frozenset((m.ActionRefused, m.JobStarted, m.JobResumed))


# All events of one instant go through here. Refused actions must be undone before: what has happened since happened on the state that
# the manager kept, without the actions that it refused.
def happen(ledger: Ledger, events: Sequence[m.Event]) -> None:
    """Apply all events of one instant; RemoteProtocolError for what cannot have happened."""
    doubtful = False
    fault: m.Event | None = None  # the event that is read
    try:
        for event in events:
            fault = event
            if type(event) is m.JobEnded:
                ledger.forget(event.job_id, event.state)
            elif type(event) is m.JobSubmitted:
                job = event.job
                known = job.id in ledger.queue or job.id in ledger.running or job.id in ledger.held
                if job.submit_us > ledger.now_us or known:
                    check_submission(job, ledger.now_us)
                    raise ValueError(f"job {job.id} is submitted, and it {whereabouts(ledger, job.id)}")
                ledger.queue.enter(job)
                ledger.arrived.append(job)
            else:
                doubtful = doubtful or type(event) in _DOUBTFUL
                _learn(ledger, event)
        fault = None
        if doubtful:
            # In between, two jobs may have held one thread: one that came back, and one that the manager has started meanwhile.
            ledger.recount()
            check_threads(ledger.running.values(), ledger.machine)
    except CONTRADICTIONS as error:
        raise impossible(error, events, fault) from error


def impossible(error: BaseException, events: Sequence[m.Event], fault: m.Event | None) -> RemoteProtocolError:
    """Return that a batch cannot have happened; ``fault`` is the event that tells it, None: all of them together."""
    number = next((number for number, each in enumerate(events) if each is fault), len(events))
    of_one = number < len(events)
    what = f"{type(events[number]).__name__} does not fit what was said before" if of_one else "jobs do not fit"
    text = f"what happened cannot have happened: {in_words(error, what)}"
    return RemoteProtocolError("state", f"events[{number}]" if of_one else "events", text)


def in_words(error: BaseException, otherwise: str) -> str:
    """Return a contradiction in words."""
    return str(error) if type(error) is ValueError else otherwise


def _learn(ledger: Ledger, event: m.Event) -> None:
    match event:
        case m.JobEnded() | m.JobSubmitted():
            pass  # the most frequent ones: `happen` has handled them
        case m.JobRequeued():
            ledger.ended.append((running_in(ledger, event.job_id, "was requeued"), REQUEUED))
            ledger.requeue(event.job_id)
        case m.JobStarted():
            _begin(ledger, event)
        case m.JobModified():
            _modify(ledger, event.job)
        case m.JobRevised():
            check_limit(running_in(ledger, event.job_id, "was granted another limit").job, event.limit_us)
            ledger.revise(event)
        case m.JobSuspended():
            _suspend(ledger, event)
        case m.JobResumed():
            _resume(ledger, event)
        case m.JobHeld():
            held = ledger.queue.take(event.job_id)
            if held is not None:
                ledger.held[event.job_id] = held
        case m.JobReleased():
            released = ledger.held.pop(event.job_id, None)
            if released is not None:
                ledger.queue.enter(released)
                ledger.arrived.append(released)
        case m.NodeFailed():
            check_node(event.node, "failed", ledger.machine)
            ledger.fail_node(event.node, event.until_us)
        case m.NodeReturned():
            check_node(event.node, "returned", ledger.machine)
            ledger.return_node(event.node)
        case m.ProgressMeasured():
            running_in(ledger, event.job_id, "was measured")
            ledger.measure(event.job_id, event.slowdown_ppm)
        case m.QuantumEnded():
            if ledger.slots is None:
                raise ValueError(f"a quantum ended: {NO_SLOTS}")
            if event.quantum <= ledger.slots.quantum:
                raise ValueError(f"quantum {event.quantum} ends after quantum {ledger.slots.quantum}")
            ledger.end_quantum(event)
        case m.Woken():
            ledger.wakes.discard(event.at_us)
        case m.ActionRefused():
            pass  # undone already
        case _:
            assert_never(event)


# What a manager does itself.


# `check_threads` must follow once the whole batch was read: the threads may be those of a job whose end is in it.
def _begin(ledger: Ledger, event: m.JobStarted) -> None:
    """Seat a job that the manager has started; one that runs already is now where the manager says."""
    job_id = event.job_id
    if event.start_us > ledger.now_us:
        raise ValueError(f"job {job_id} started at {event.start_us} us, and now is {ledger.now_us} us")
    if event.job is not None and event.job.id != job_id:
        raise ValueError(f"job {job_id} started, described as job {event.job.id}")
    job = event.job or ledger.description(job_id)
    if job is None:
        raise ValueError(f"job {job_id} started without a description, and it {whereabouts(ledger, job_id)}")
    told = m.RunningJob(job, event.start_us, event.runs, event.estimate_us, event.limit_us, slot=event.slot)
    check_running(told, ledger.machine, slots=ledger.slots is not None)
    ledger.interventions += 1
    if job_id in ledger.running:
        ledger.leave(job_id)
    elif ledger.queue.take(job_id) is None:
        ledger.held.pop(job_id, None)
    ledger.seat(running_job(told, ledger.machine))


def _modify(ledger: Ledger, job: m.JobSpec) -> None:
    """Give a pending or running job a new description; models of jobs on a node keep what they know of it by its id."""
    ledger.interventions += 1
    running = ledger.running.get(job.id)
    before = ledger.description(job.id)
    if before is not None and _on_nodes(before) != _on_nodes(job):
        raise ValueError(
            f"job {job.id} now uses its nodes like {_on_nodes(job)}, and was described with {_on_nodes(before)}"
        )
    if running is not None:
        if job.processes != running.job.processes:
            now, then = job.processes, running.job.processes
            raise ValueError(f"job {job.id} is to have {now} processes, and it runs with {then}")
        ledger.redescribe(job)
    elif job.id in ledger.queue:
        check_submission(job, ledger.now_us)
        ledger.queue.replace(job)
    elif job.id in ledger.held:
        ledger.held[job.id] = job
    else:
        raise ValueError(f"job {job.id} is modified, and it {whereabouts(ledger, job.id)}")
    ledger.version += 1  # what is kept by version may follow from descriptions


def _on_nodes(job: m.JobSpec) -> tuple[object, ...]:
    return job.demand, job.usage, job.self_slowdown, job.profile


def _suspend(ledger: Ledger, event: m.JobSuspended) -> None:
    """Suspend a running job until the manager resumes it."""
    running = running_in(ledger, event.job_id, "was suspended")
    if running.suspended_us is not None:
        raise ValueError(
            f"job {event.job_id} was suspended at {event.at_us} us, and it is since {running.suspended_us} us"
        )
    _check_past(ledger, event, running.start_us)
    ledger.suspend(event.job_id, event.at_us, to_disk=event.to_disk, held=True)


# `check_threads` must follow here, too.
def _resume(ledger: Ledger, event: m.JobResumed) -> None:
    """Resume a suspended job."""
    running = running_in(ledger, event.job_id, "was resumed")
    if running.suspended_us is None:
        raise ValueError(f"job {event.job_id} was resumed, and it is not suspended")
    _check_past(ledger, event, running.suspended_us)
    ledger.resume(event.job_id, event.at_us)


def _check_past(ledger: Ledger, event: m.JobSuspended | m.JobResumed, since_us: int) -> None:
    if not since_us <= event.at_us <= ledger.now_us:
        raise ValueError(
            f"job {event.job_id} changed at {event.at_us} us, which is not between {since_us} us and now, {ledger.now_us} us"
        )


# What a scheduler decides.


# All decisions go through here. `ends` and requeues that a manager was asked for follow as events; a submission changes nothing yet.
def act(ledger: Ledger, action: m.Action) -> str | None:
    """Apply a decision, or return why that is impossible."""
    match action:
        case m.SetNote():  # the most frequent ones: conservative's promises, by the hundred at one event
            job_id = action.job_id
            if job_id is not None and job_id not in ledger.queue and ledger.description(job_id) is None:
                return f"there is no job {job_id}"
            ledger.set_note(job_id, action.key, action.value)
        case m.StartJob():
            return start(ledger, action)
        case m.StartTogether():
            return _start_together(ledger, action.starts)
        case m.ReviseJob() | m.SuspendJob() | m.ResumeJob() | m.ChangeSlot() | m.RequeueJob() | m.KillJob():
            running = ledger.running.get(action.job_id)
            if running is None:
                return f"job {action.job_id} does not run"
            return _act_on(ledger, running, action)
        case m.SetRotation():
            return _set_rotation(ledger, action)
        case m.WakeAt():
            if action.at_us <= ledger.now_us:
                return f"a wake must lie after now, {ledger.now_us}"
            ledger.wakes.add(action.at_us)
        case m.RejectJob():
            if action.job_id not in ledger.queue:
                return f"job {action.job_id} does not wait"
            ledger.forget(action.job_id, m.REJECTED)
        case m.SubmitJob():
            pass
        case _:
            return f"a policy cannot decide a {type(action).__name__}"
    return None


def start(ledger: Ledger, asked: m.StartJob) -> str | None:
    """Start a job, or return why that is impossible."""
    job = ledger.queue.get(asked.job_id) if type(asked.job_id) is int else None
    if job is None:
        return f"job {asked.job_id} does not wait"
    if type(asked.runs) not in _LISTS:
        return f"expected a tuple of runs, got {type(asked.runs).__name__}"
    if ledger.slots is None and asked.slot is _SLOT_0:
        placed = times_refusal(job.limit_us, asked) or ledger.pool.place(job, asked.runs)
    else:
        placed = _place_in_slot(ledger, job, asked)
    if isinstance(placed, str):
        return placed
    if ledger.limits:
        limit_us = ledger.capabilities.granted(asked.limit_us, job.limit_us)
        if isinstance(limit_us, str):
            return limit_us
        asked = asked._replace(limit_us=limit_us)
    ledger.start(asked, placed)
    return None


def _start_together(ledger: Ledger, starts: Sequence[m.StartJob]) -> str | None:
    """Start all of these jobs, or return why one of them cannot; the whole group is checked before the first of it starts."""
    seated: list[tuple[m.JobSpec, m.StartJob, Layers]] = []
    besides: dict[int, Member] = {}
    try:
        for asked in starts:
            job = ledger.queue.get(asked.job_id)
            if job is None or job.id in besides:
                return f"job {asked.job_id} does not wait"
            placed = _place_in_slot(ledger, job, asked, besides)
            if isinstance(placed, str):
                return f"job {asked.job_id}: {placed}"
            limit_us = ledger.capabilities.granted(asked.limit_us, job.limit_us)
            if isinstance(limit_us, str):
                return limit_us
            ledger.pool_of(asked.slot).take(job, asked.runs, placed)
            seated.append((job, asked._replace(limit_us=limit_us), placed))
            besides[job.id] = Member(asked.slot, placed, job.unpaired)
    finally:
        for job, asked, layers in seated:
            ledger.pool_of(asked.slot).give_back(job, asked.runs, layers)
            if asked.slot:
                ledger.pools.drop(asked.slot)
    for _, asked, layers in seated:
        ledger.start(asked, layers)
    return None


def _place_in_slot(
    ledger: Ledger, job: m.JobSpec, asked: m.StartJob, besides: Mapping[int, Member] = MappingProxyType({})
) -> Layers | str:
    """Return the threads that a start names in its slot, or the reason why it is impossible.

    ``besides`` are jobs that start in the same decision.
    """
    reason = slot_refusal(asked.slot) or times_refusal(job.limit_us, asked)
    if reason is not None:
        return reason
    if ledger.slots is None and asked.slot:
        return f"slot {asked.slot}: {NO_SLOTS}"
    placed = ledger.pool_of(asked.slot).place(job, asked.runs)
    if not isinstance(placed, str):
        placed = turns_refusal(ledger, job.id, Member(asked.slot, placed, job.unpaired), besides) or placed
    if isinstance(placed, str):
        ledger.pools.drop(asked.slot)
    return placed


def turns_refusal(
    ledger: Ledger, job_id: int, member: Member, besides: Mapping[int, Member] = MappingProxyType({})
) -> str | None:
    """Return why a job cannot be in a slot, given the rotation, or None."""
    turns = () if ledger.slots is None else pairing_turns(job_id, member.slot, ledger.slots.rotation.turns)
    return joining_refusal(job_id, member, turns, {**members(ledger.running), **besides}) if turns else None


def _act_on(
    ledger: Ledger,
    running: Running,
    action: m.ReviseJob | m.SuspendJob | m.ResumeJob | m.ChangeSlot | m.RequeueJob | m.KillJob,
) -> str | None:
    job, job_id = running.job, action.job_id
    match action:
        case m.ReviseJob():
            reason = times_refusal(running.limit_us, action)
            if reason is not None:
                return reason
            if ledger.limits:
                limit_us = ledger.capabilities.granted(action.limit_us, running.limit_us)
                if isinstance(limit_us, str):
                    return limit_us
                action = action._replace(limit_us=limit_us)
            ledger.revise(action)
        case m.SuspendJob():
            if running.suspended_us is not None:
                return f"job {job_id} is suspended"
            reason = ledger.pool.disk_refusal(job, running.runs) if action.to_disk else None
            if reason is not None:
                return reason
            ledger.suspend(job_id, ledger.now_us, to_disk=action.to_disk)
        case m.ResumeJob():
            if running.suspended_us is None:
                return f"job {job_id} is not suspended"
            if running.held:
                return f"the manager has suspended job {job_id}, and it alone resumes it"
            reason = return_refusal(ledger, running)
            if reason is not None:
                return reason
            ledger.resume(job_id, ledger.now_us)
        case m.ChangeSlot():
            member = Member(action.slot, running.layers, job.unpaired)
            reason = NO_SLOTS if ledger.slots is None else None
            reason = reason or ledger.pools.change_refusal(action.slot, running.slot, running.layers)
            reason = reason or turns_refusal(ledger, job_id, member)
            if reason is not None:
                return reason
            ledger.change_slot(job_id, action.slot)
        case m.RequeueJob() | m.KillJob():
            if running.leaving:
                return f"job {job_id} is to be killed or requeued already"
            ledger.let_leave(job_id)
    return None


def return_refusal(ledger: Ledger, running: Running) -> str | None:
    """Return why a suspended job cannot go on, or None: one on disk needs its threads and its memory."""
    if not running.on_disk:
        return None
    return ledger.pool_of(running.slot).return_refusal(running.job, running.runs, running.layers)


def _set_rotation(ledger: Ledger, asked: m.SetRotation) -> str | None:
    """Set the rotation, from the next quantum on, or return why that is impossible."""
    slots = ledger.slots
    if slots is None:
        return NO_SLOTS
    reason = quantum_refusal(asked.quantum, slots.quantum)
    if reason is None and asked.quantum <= slots.quantum:
        return f"a rotation from quantum {asked.quantum} on, which has ended: the next one is {slots.quantum + 1}"
    reason = reason or rotation_refusal(asked.turns, members(ledger.running))
    if reason is None:
        slots.rotation = rotation_of(asked.turns)
    return reason


def members(running: Mapping[int, Running]) -> dict[int, Member]:
    """Return the running jobs as time sharing sees them."""
    return {job_id: Member(job.slot, job.layers, job.job.unpaired) for job_id, job in running.items()}


# What a manager may say of nodes and jobs.


def check_welcome(welcome: m.Welcome) -> None:
    """Raise ValueError where a welcome contradicts itself."""
    machine = Machine(welcome.nodes, welcome.licences, welcome.capabilities.layout)
    for node in welcome.down:
        check_node(node, "is down", machine)
    if len(welcome.returns) not in (0, len(welcome.down)):
        raise ValueError(f"{len(welcome.returns)} returns are announced of {len(welcome.down)} nodes out of service")
    places = {pending.spec.id: "held" if pending.held else "pending" for pending in welcome.pending}
    if len(places) < len(welcome.pending):
        raise ValueError("a job is pending twice")
    for pending in welcome.pending:
        check_submission(pending.spec, welcome.now_us)
    for running in welcome.running:
        job_id = running.spec.id
        if job_id in places:
            raise ValueError(f"job {job_id} is both running and {places[job_id]}")
        places[job_id] = "running"
        check_running(running, machine, slots=welcome.slots is not None)
    check_threads([running_job(running, machine) for running in welcome.running], machine)


def check_node(node: int, what: str, machine: Machine) -> None:
    """Raise ValueError for a node that the machine does not have; ``what`` is said of it."""
    if not 0 <= node < machine.nodes:
        raise ValueError(f"node {node} {what}, and the machine has nodes 0 to {machine.nodes - 1}")


def check_submission(job: m.JobSpec, now_us: int) -> None:
    """Raise ValueError for a job that was submitted in the future."""
    if job.submit_us > now_us:
        raise ValueError(f"job {job.id} was submitted at {job.submit_us} us, and now is {now_us} us")


def check_running(running: m.RunningJob, machine: Machine, *, slots: bool) -> None:
    """Raise ValueError where a job is reported in a place, or with a limit, that it cannot have."""
    job = running.spec
    if running.slot and not slots:
        raise ValueError(f"job {job.id} runs in slot {running.slot}: {NO_SLOTS}")
    placed = named = 0
    for first, count, mask, processes in running.runs:
        end = first + count
        if end > machine.nodes:
            raise ValueError(f"job {job.id} runs on node {end - 1}, and the machine has nodes 0 to {machine.nodes - 1}")
        least = min(machine.threads_of[first:end])
        if mask.bit_length() > least:
            raise ValueError(f"job {job.id} has thread {mask.bit_length() - 1} of a node that has {least} threads")
        nodes = ((1 << count) - 1) << first
        if named & nodes:
            raise ValueError(f"job {job.id} has two runs on one node: {list(map(list, running.runs))}")
        named |= nodes
        placed += count * processes
    if placed != job.processes:
        raise ValueError(f"job {job.id} has {job.processes} processes, and its runs hold {placed}")
    check_limit(job, running.limit_us)


def check_limit(job: m.JobSpec, granted_us: int | None) -> None:
    """Raise ValueError where a job with a limit was granted none, or one without was granted one."""
    if (granted_us is None) != (job.limit_us is None):
        own, granted = ("none" if limit_us is None else f"{limit_us} us" for limit_us in (job.limit_us, granted_us))
        raise ValueError(f"the limit of job {job.id} is {own}, and what it was granted is {granted}")


def check_threads(jobs: Iterable[Running], machine: Machine) -> None:
    """Raise ValueError where two jobs are reported on one hardware thread of one slot."""
    taken: dict[int, int] = {}  # by slot
    seen: list[Running] = []
    for running in jobs:
        if running.on_disk:
            continue
        before = taken.get(running.slot, 0)
        if before & running.joined:
            other = next(other for other in seen if other.slot == running.slot and other.joined & running.joined)
            both = other.joined & running.joined
            thread, node = divmod((both & -both).bit_length() - 1, machine.nodes)
            raise ValueError(f"jobs {other.job.id} and {running.job.id} both run on thread {thread} of node {node}")
        taken[running.slot] = before | running.joined
        seen.append(running)


def running_in(ledger: Ledger, job_id: int, what: str) -> Running:
    """Return a running job; ValueError where the manager says ``what`` of one that does not run."""
    running = ledger.running.get(job_id)
    if running is None:
        raise ValueError(f"job {job_id} {what}, and it {whereabouts(ledger, job_id)}")
    return running


def whereabouts(ledger: Ledger, job_id: int) -> str:
    """Return in words what the scheduler knows of a job."""
    if job_id in ledger.running:
        return "runs"
    if job_id in ledger.queue:
        return "waits to be started"
    return "is held" if job_id in ledger.held else "was never heard of, or has ended"
