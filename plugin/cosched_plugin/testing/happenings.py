"""The happenings at the site of `cosched_plugin.testing.check`: due events, actions of operators and users, and failures."""

from __future__ import annotations

from random import Random
from typing import Final

from cosched_plugin.protocol.messages import (
    CANCELLED,
    COMPLETED,
    NODE_FAIL,
    TIMEOUT,
    UNKNOWN,
    ActionRefused,
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
    JobSuspended,
    NodeFailed,
    ProgressMeasured,
    Run,
    Woken,
)
from cosched_plugin.testing.site import Site
from cosched_plugin.testing.site_slots import SiteJob, pairing_problem

_SLOWDOWNS_PPM: Final = (1_100_000, 1_700_000, 2_500_000)


def due_events(random: Random, site: Site) -> list[Event]:
    """Return the events that are due at the present instant; what jobs have consumed in a quantum is random."""
    now_us = site.now_us
    ends = [
        JobEnded(job.spec.id, TIMEOUT if job.is_killed else COMPLETED)
        for job in site.in_state("running")
        if job.end_us is not None and job.end_us <= now_us
    ]
    ended = {event.job_id for event in ends}
    quantum = [] if site.slots is None else site.slots.due(random, now_us, site.in_state("running"), ended)
    return [*ends, *quantum, *(Woken(at_us) for at_us in sorted(site.wakes) if at_us <= now_us)]


def fail_node(random: Random, site: Site, gone: set[int], *, evict: bool) -> list[Event]:
    """Take a node out of service; with ``evict`` its jobs end or are requeued, otherwise they may continue."""
    up = [node for node in range(site.machine.nodes) if node not in site.down]
    if len(up) < 2:
        return []
    node = random.choice(up)
    site.down.add(node)  # no second failure of it in this batch
    events: list[Event] = [NodeFailed(node)]
    for job in site.on_node(node) if evict else ():
        if job.spec.id not in gone:
            gone.add(job.spec.id)
            again = random.random() < 0.5
            events.append(JobRequeued(job.spec.id) if again else JobEnded(job.spec.id, NODE_FAIL))
    site.down.discard(node)
    return events


def measure(random: Random, site: Site, gone: set[int]) -> list[Event]:
    """Return the measured slowdowns of some jobs that share nodes, except those with a neighbour that has just left."""
    left = [job for job in site.sharing() if not any(site.jobs[number].nodes & job.nodes for number in gone)]
    chosen = [job.spec.id for job in left if random.random() < 0.5]
    return [ProgressMeasured(job_id, random.choice(_SLOWDOWNS_PPM)) for job_id in chosen]


def change(
    random: Random, site: Site, kind: str, gone: set[int]
) -> JobEnded | JobHeld | JobReleased | JobRequeued | None:
    """Return one change by a user or an operator; None if there is no job for it."""
    pending = [job for job in site.in_state("pending") if job.spec.id not in gone]
    running = [job for job in site.in_state("running") if job.spec.id not in gone]
    there = {
        "cancel": pending + running,
        "hold": [job for job in pending if not job.held],
        "release": [job for job in pending if job.held],
        "requeue": running,
    }[kind]
    if not there:
        return None
    job_id = random.choice(there).spec.id
    match kind:
        case "cancel":
            return JobEnded(job_id, CANCELLED)
        case "hold":
            return JobHeld(job_id)
        case "release":
            return JobReleased(job_id)
        case _:
            return JobRequeued(job_id)


# What a difficult manager does without having been asked. In the protocol's order of an instant: refusals that come late, an end that
# nobody saw, modified jobs, revised ones, suspended and resumed ones, started ones.


def refuse_late(random: Random, site: Site) -> list[ActionRefused]:
    """Refuse a start that was accepted some batches ago, after all."""
    late = [
        job
        for job in site.in_state("running")
        if job.started_by is not None and job.started_by[0] < site.seq and job.suspended_us is None
    ]
    if not late:
        return []
    job = random.choice(late)
    assert job.started_by is not None
    return [ActionRefused(*job.started_by, "it did not start after all", (job.spec.id,))]


def act_itself(random: Random, site: Site, gone: set[int], new: SiteJob) -> list[Event]:
    """Return what the manager does to some jobs that are not ``gone``; it may start ``new``, which nobody has heard of.

    Each job has one of these events at most; jobs that start are placed as if nothing else had happened at this instant, apart from
    nodes that have failed.
    """
    events: list[Event] = []
    pending = [job for job in site.in_state("pending") if job.spec.id not in gone]
    running = [job for job in site.in_state("running") if job.spec.id not in gone]
    if running and random.random() < 0.2:
        job = running.pop(random.randrange(len(running)))
        events.append(JobEnded(job.spec.id, UNKNOWN))
    if pending and random.random() < 0.5:
        job = pending.pop(random.randrange(len(pending)))
        events.append(JobModified(_modified(random, site, job.spec)))
    elif running and random.random() < 0.2:
        job = running.pop(random.randrange(len(running)))
        events.append(JobModified(job.spec._replace(name=random.choice(("mesh", "fold", "")))))
    if running and random.random() < 0.4:
        events.append(_revised(random, running.pop(random.randrange(len(running)))))
    events += _stop_or_go(random, site, running)
    if any(isinstance(event, JobResumed) for event in events):
        return events  # it may need the threads of a job that starts
    starts = [*pending, new]
    if random.random() < 0.5:
        job = random.choice(starts)
        event = _started(random, site, job)
        return events if event is None else [*events, event]
    moved = [job for job in running if job.suspended_us is None and not job.idle_us and job.slot == 0]
    if moved and site.slots is None:
        event = _started(random, site, random.choice(moved))
        return events if event is None else [*events, event]
    return events


def _modified(random: Random, site: Site, spec: JobSpec) -> JobSpec:
    """Return another limit, size, estimate or name of a pending job."""
    estimate_us = random.choice((spec.estimate_us, 2 * spec.estimate_us, max(1, spec.estimate_us // 2)))
    limit_us = random.choice((None, estimate_us, 2 * estimate_us))
    processes = random.choice((spec.processes, max(1, spec.processes // 2), spec.processes + 1))
    changed = spec._replace(estimate_us=estimate_us, limit_us=limit_us, processes=processes)
    if changed.processes > site.machine.most_processes(changed):
        changed = changed._replace(processes=spec.processes)
    return changed._replace(name=random.choice((spec.name, "fold")))


def _revised(random: Random, job: SiteJob) -> JobRevised:
    """Return another expected run time and limit of a running job; the limit may fall."""
    estimate_us = max(1, job.estimate_us + random.choice((-1, 1)) * random.randint(1, job.estimate_us))
    limit_us = None if job.limit_us is None else max(1, job.limit_us * random.choice((1, 2, 3)) // 2)
    return JobRevised(job.spec.id, estimate_us, limit_us)


def _stop_or_go(random: Random, site: Site, running: list[SiteJob]) -> list[Event]:
    """Suspend a job that runs, or resume one that the manager has suspended."""
    if not running or random.random() < 0.5:
        return []
    job = running.pop(random.randrange(len(running)))
    if job.kept:
        return [JobResumed(job.spec.id, site.now_us)] if site.can_go_on(job) else []
    if job.suspended_us is not None:
        return []
    fits = site.pools.base.disk_refusal(job.spec, job.runs) is None
    return [JobSuspended(job.spec.id, site.now_us, fits and random.random() < 0.5)]


def _started(random: Random, site: Site, job: SiteJob) -> JobStarted | None:
    """Return the start of a job: of a pending or unheard-of one, or of a running one that is elsewhere, or started later."""
    spec = job.spec
    slot = random.choice((0, 0, 1, 2)) if site.slots is not None else 0
    runs = site.place_for(spec, slot)
    if job.state == "running" and (runs is None or random.random() < 0.3):
        runs = job.runs
    if runs is None or not _may_be_beside(site, spec, slot, runs):
        return None
    start_us = site.now_us if site.slots is not None else random.randint(max(spec.submit_us, job.start_us), site.now_us)
    limit_us = None if spec.limit_us is None else spec.limit_us + random.choice((0, 0, 1_000_000))
    described = spec if job.state == "new" or random.random() < 0.2 else None
    return JobStarted(spec.id, start_us, runs, spec.estimate_us, limit_us, slot, described)


def resume_kept(site: Site) -> list[Event]:
    """Resume one of the jobs that the manager has suspended, if any can go on."""
    kept = [job for job in site.in_state("running") if job.kept and site.can_go_on(job)]
    return [JobResumed(job.spec.id, site.now_us) for job in kept[:1]]


def _may_be_beside(site: Site, spec: JobSpec, slot: int, runs: tuple[Run, ...]) -> bool:
    """Tell whether a job may be there in all turns: a manager that starts jobs itself pairs none that must not be, either."""
    if site.slots is None:
        return True
    there = SiteJob(spec)
    there.slot, there.runs = slot, runs
    others = [job for job in site.in_state("running") if job.spec.id != spec.id]
    return pairing_problem(site.slots.turns, [*others, there]) is None
