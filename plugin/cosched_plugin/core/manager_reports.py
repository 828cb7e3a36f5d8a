"""What a manager says of jobs and nodes, checked, and what it does itself.

A contradiction is a ValueError whose text names both facts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from cosched_plugin.common.allocation import Machine
from cosched_plugin.common.slots import NO_SLOTS
from cosched_plugin.core.running import Running, running_job
from cosched_plugin.core.state import State
from cosched_plugin.protocol.messages import (
    JobResumed,
    JobRevised,
    JobSpec,
    JobStarted,
    JobSuspended,
    ProgressMeasured,
    RunningJob,
    Welcome,
)


def check_welcome(welcome: Welcome) -> None:
    """Raise ValueError where a welcome contradicts itself."""
    machine = Machine(welcome.nodes, welcome.licences, welcome.capabilities.layout)
    for node in welcome.down:
        check_node(node, "is down", machine)
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


def check_submission(job: JobSpec, now_us: int) -> None:
    """Raise ValueError for a job that was submitted in the future."""
    if job.submit_us > now_us:
        raise ValueError(f"job {job.id} was submitted at {job.submit_us} us, and now is {now_us} us")


def check_running(running: RunningJob, machine: Machine, *, slots: bool) -> None:
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


def check_limit(job: JobSpec, granted_us: int | None) -> None:
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


def running_in(state: State, job_id: int, what: str) -> Running:
    """Return a running job; ValueError where the manager says ``what`` of one that does not run."""
    running = state.running.get(job_id)
    if running is None:
        raise ValueError(f"job {job_id} {what}, and it {whereabouts(state, job_id)}")
    return running


def whereabouts(state: State, job_id: int) -> str:
    """Return in words what the scheduler knows of a job."""
    if job_id in state.running:
        return "runs"
    if job_id in state.queue:
        return "waits to be started"
    return "is held" if job_id in state.held else "was never heard of, or has ended"


# What a manager does itself.


def refuse_submission(state: State, job: JobSpec) -> NoReturn:
    """Raise ValueError with the reason why a job cannot have been submitted just now."""
    check_submission(job, state.now_us)
    raise ValueError(f"job {job.id} is submitted, and it {whereabouts(state, job.id)}")


# `check_threads` must follow once the whole batch was read: the threads may be those of a job whose end is in it.
def begin(state: State, event: JobStarted) -> None:
    """Seat a job that the manager has started; one that runs already is now where the manager says."""
    job_id = event.job_id
    if event.start_us > state.now_us:
        raise ValueError(f"job {job_id} started at {event.start_us} us, and now is {state.now_us} us")
    if event.job is not None and event.job.id != job_id:
        raise ValueError(f"job {job_id} started, described as job {event.job.id}")
    known = state.running[job_id].job if job_id in state.running else state.queue.get(job_id) or state.held.get(job_id)
    job = event.job or known
    if job is None:
        raise ValueError(f"job {job_id} started without a description, and it {whereabouts(state, job_id)}")
    told = RunningJob(job, event.start_us, event.runs, event.estimate_us, event.limit_us, slot=event.slot)
    check_running(told, state.machine, slots=state.slots is not None)
    state.interventions += 1
    if job_id in state.running:
        state.leave(job_id)
    elif state.queue.take(job_id) is None:
        state.held.pop(job_id, None)
    state.seat(running_job(told, state.machine))


def modify(state: State, job: JobSpec) -> None:
    """Give a pending or running job a new description; models of jobs on a node keep what they know of it by its id."""
    state.interventions += 1
    running = state.running.get(job.id)
    before = running.job if running is not None else state.queue.get(job.id) or state.held.get(job.id)
    if before is not None and _on_nodes(before) != _on_nodes(job):
        raise ValueError(
            f"job {job.id} is to use its nodes like {_on_nodes(job)}, and it was said to like {_on_nodes(before)}"
        )
    if running is not None:
        if job.processes != running.job.processes:
            now, then = job.processes, running.job.processes
            raise ValueError(f"job {job.id} is to have {now} processes, and it runs with {then}")
        state.redescribe(job)
    elif job.id in state.queue:
        check_submission(job, state.now_us)
        state.queue.replace(job)
    elif job.id in state.held:
        state.held[job.id] = job
    else:
        raise ValueError(f"job {job.id} is modified, and it {whereabouts(state, job.id)}")
    state.forget_penalties()


def _on_nodes(job: JobSpec) -> tuple[object, ...]:
    return job.demand, job.usage, job.self_slowdown, job.profile


def revise(state: State, event: JobRevised) -> None:
    """Set the expected run time and the limit that the manager has given a running job."""
    running = running_in(state, event.job_id, "was granted another limit")
    check_limit(running.job, event.limit_us)
    state.revise(event)


def suspend(state: State, event: JobSuspended) -> None:
    """Suspend a running job until the manager resumes it."""
    running = running_in(state, event.job_id, "was suspended")
    if running.suspended_us is not None:
        raise ValueError(
            f"job {event.job_id} was suspended at {event.at_us} us, and it is since {running.suspended_us} us"
        )
    _check_past(state, event, running.start_us)
    state.suspend(event.job_id, event.at_us, to_disk=event.to_disk, held=True)


# `check_threads` must follow here, too.
def resume(state: State, event: JobResumed) -> None:
    """Resume a suspended job."""
    running = running_in(state, event.job_id, "was resumed")
    if running.suspended_us is None:
        raise ValueError(f"job {event.job_id} was resumed, and it is not suspended")
    _check_past(state, event, running.suspended_us)
    state.resume(event.job_id, event.at_us)


def _check_past(state: State, event: JobSuspended | JobResumed, since_us: int) -> None:
    if not since_us <= event.at_us <= state.now_us:
        raise ValueError(
            f"job {event.job_id} changed at {event.at_us} us, which is not between {since_us} us and now, {state.now_us} us"
        )


def measure(state: State, event: ProgressMeasured) -> None:
    """Set the measured slowdown of a running job."""
    running_in(state, event.job_id, "was measured")
    state.measure(event.job_id, event.slowdown_ppm)
