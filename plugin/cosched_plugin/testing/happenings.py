"""The happenings at the site of `cosched_plugin.testing.check`: due events, actions of operators and users, and failures."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Final

from cosched_plugin.common.slots import Member
from cosched_plugin.common.threads import layers_of, share_nodes
from cosched_plugin.ledger.entries import return_refusal, turns_refusal
from cosched_plugin.ledger.running import Running
from cosched_plugin.protocol import messages as m
from cosched_plugin.testing.site import Site

_SLOWDOWNS_PPM: Final = (1_100_000, 1_700_000, 2_500_000)


def due_events(random: Random, site: Site) -> list[m.Event]:
    """Return the events that are due at the present instant; what jobs have consumed in a quantum is random."""
    now_us, running = site.ledger.now_us, site.running
    ends = [
        m.JobEnded(job.job.id, m.TIMEOUT if site.jobs[job.job.id].is_killed(job) else m.COMPLETED)
        for job in running
        if (end_us := site.end_us(job)) is not None and end_us <= now_us
    ]
    ended = {event.job_id for event in ends}
    returns = [node for node, at_us in site.ledger.returns.items() if node in site.keeps and at_us <= now_us]
    quantum = [] if site.slots is None else site.slots.due(random, now_us, running, ended)
    returned = [m.NodeReturned(node) for node in sorted(returns)]
    return [*ends, *returned, *quantum, *(m.Woken(at_us) for at_us in sorted(site.ledger.wakes) if at_us <= now_us)]


def fail_node(random: Random, site: Site, gone: set[int], *, evict: bool) -> list[m.Event]:
    """Take a node out of service; with ``evict`` its jobs end or are requeued, otherwise they may continue."""
    down = site.down
    up = [node for node in range(site.machine.nodes) if node not in down]
    if len(up) < 2:
        return []
    node = random.choice(up)
    # Derived, not drawn: further draws would change every site. An announcement need not come true.
    until_us = site.ledger.now_us + 1_000_000 * node if site.seq % 2 else 0
    events: list[m.Event] = [m.NodeFailed(node, until_us)]
    for job in site.on_node(node) if evict else ():
        if job.job.id not in gone:
            gone.add(job.job.id)
            again = random.random() < 0.5
            events.append(m.JobRequeued(job.job.id) if again else m.JobEnded(job.job.id, m.NODE_FAIL))
    return events


# What a manager's limits forbid never reaches a scheduler: it hears of such a job later. Of a reservation it hears that nodes go out of
# service with their return announced, and before that, of the nodes that are left to a job which could still run when it begins.


def reserve(random: Random, site: Site, tick_us: int) -> list[m.Event]:
    """Take nodes out of service until an announced time, or announce another one; most announcements come true."""
    if random.random() < 0.7:
        return []
    first = random.randrange(site.machine.nodes)
    nodes = range(first, random.randint(first, site.machine.nodes - 1) + 1)
    until_us = random.choice((0, 1, 1, 1)) * (site.ledger.now_us + random.randint(1, 12) * tick_us)
    kept = random.random() < 0.8
    site.keeps = site.keeps.union(nodes) if kept else site.keeps.difference(nodes)
    return [m.NodeFailed(node, until_us) for node in nodes]


def confine(random: Random, site: Site, gone: set[int]) -> list[m.Event]:
    """Give some pending jobs, but those that are gone, other nodes."""
    events: list[m.Event] = []
    for job in site.pending:
        if job.id in gone or random.random() < 0.8:
            continue
        first = random.randrange(site.machine.nodes)
        some = random.choice(((), ((first, random.randint(1, site.machine.nodes - first)),)))
        changed = job._replace(eligible=some)
        if changed.processes <= site.machine.most_processes(changed):
            events.append(m.JobModified(changed))
    return events


def measure(random: Random, site: Site, gone: set[int]) -> list[m.Event]:
    """Return the measured slowdowns of some jobs that share nodes, except those with a neighbour that has just left."""
    chosen = [job.job.id for job in _apart_from(site.sharing(), site, gone) if random.random() < 0.5]
    return [m.ProgressMeasured(job_id, random.choice(_SLOWDOWNS_PPM)) for job_id in chosen]


def _apart_from(jobs: Iterable[Running], site: Site, gone: set[int]) -> list[Running]:
    """Return the jobs that share no node with one that is gone."""
    leaving = [site.ledger.running[number].layers for number in gone if number in site.ledger.running]
    return [job for job in jobs if not any(share_nodes(job.layers, layers) for layers in leaving)]


def still_measured(site: Site, gone: set[int]) -> list[m.Event]:
    """Return the measurements that hold, once some jobs are gone: a scheduler with refused actions may count them as void."""
    jobs = [site.ledger.running[number] for number in sorted(site.ledger.measured)]
    return [m.ProgressMeasured(job.job.id, job.measured_ppm) for job in _apart_from(jobs, site, gone)]


def change(
    random: Random, site: Site, kind: str, gone: set[int]
) -> m.JobEnded | m.JobHeld | m.JobReleased | m.JobRequeued | None:
    """Return one change by a user or an operator; None if there is no job for it."""
    pending = [job.id for job in site.pending if job.id not in gone]
    running = [job.job.id for job in site.running if job.job.id not in gone]
    there = {
        "cancel": pending + running,
        "hold": [job_id for job_id in pending if job_id in site.ledger.queue],
        "release": [job_id for job_id in pending if job_id in site.ledger.held],
        "requeue": running,
    }[kind]
    if not there:
        return None
    job_id = random.choice(there)
    match kind:
        case "cancel":
            return m.JobEnded(job_id, m.CANCELLED)
        case "hold":
            return m.JobHeld(job_id)
        case "release":
            return m.JobReleased(job_id)
        case _:
            return m.JobRequeued(job_id)


# What a difficult manager does without having been asked. In the protocol's order of an instant: refusals that come late, an end that
# nobody saw, modified jobs, revised ones, suspended and resumed ones, started ones.


def refuse_late(random: Random, site: Site) -> list[m.ActionRefused]:
    """Refuse a start that was accepted some batches ago, after all."""
    late = []
    for job in site.running:
        started_by = site.jobs[job.job.id].started_by
        if started_by is not None and started_by[0] < site.seq and job.suspended_us is None:
            late.append(m.ActionRefused(*started_by, "it did not start after all", (job.job.id,)))
    return [random.choice(late)] if late else []


def act_itself(random: Random, site: Site, gone: set[int], new: m.JobSpec) -> list[m.Event]:
    """Return what the manager does to some jobs that are not ``gone``; it may start ``new``, which nobody has heard of.

    Each job has one of these events at most; jobs that start are placed as if nothing else had happened at this instant, apart from
    nodes that have failed.
    """
    events: list[m.Event] = []
    pending = [job for job in site.pending if job.id not in gone]
    running = [job for job in site.running if job.job.id not in gone]
    if running and random.random() < 0.2:
        events.append(m.JobEnded(running.pop(random.randrange(len(running))).job.id, m.UNKNOWN))
    if pending and random.random() < 0.5:
        events.append(m.JobModified(_modified(random, site, pending.pop(random.randrange(len(pending))))))
    elif running and random.random() < 0.2:
        job = running.pop(random.randrange(len(running))).job
        events.append(m.JobModified(job._replace(name=random.choice(("mesh", "fold", "")))))
    if running and random.random() < 0.4:
        events.append(_revised(random, running.pop(random.randrange(len(running)))))
    events += _stop_or_go(random, site, running)
    if any(isinstance(event, m.JobResumed) for event in events):
        return events  # it may need the threads of a job that starts
    starts = [*pending, new]
    if random.random() < 0.5:
        event = _started(random, site, random.choice(starts))
        return events if event is None else [*events, event]
    moved = [job for job in running if job.suspended_us is None and not job.idle_us and job.slot == 0]
    if moved and site.slots is None:
        event = _started(random, site, random.choice(moved).job)
        return events if event is None else [*events, event]
    return events


def _modified(random: Random, site: Site, spec: m.JobSpec) -> m.JobSpec:
    """Return another limit, size, estimate or name of a pending job."""
    estimate_us = random.choice((spec.estimate_us, 2 * spec.estimate_us, max(1, spec.estimate_us // 2)))
    limit_us = random.choice((None, estimate_us, 2 * estimate_us))
    processes = random.choice((spec.processes, max(1, spec.processes // 2), spec.processes + 1))
    changed = spec._replace(estimate_us=estimate_us, limit_us=limit_us, processes=processes)
    if changed.processes > site.machine.most_processes(changed):
        changed = changed._replace(processes=spec.processes)
    return changed._replace(name=random.choice((spec.name, "fold")))


def _revised(random: Random, job: Running) -> m.JobRevised:
    """Return another expected run time and limit of a running job; the limit may fall."""
    expected_us = job.end_us - job.start_us
    estimate_us = max(1, expected_us + random.choice((-1, 1)) * random.randint(1, expected_us))
    limit_us = None if job.limit_us is None else max(1, job.limit_us * random.choice((1, 2, 3)) // 2)
    return m.JobRevised(job.job.id, estimate_us, limit_us)


def _stop_or_go(random: Random, site: Site, running: list[Running]) -> list[m.Event]:
    """Suspend a job that runs, or resume one that the manager has suspended."""
    if not running or random.random() < 0.5:
        return []
    job = running.pop(random.randrange(len(running)))
    if job.held:
        return [m.JobResumed(job.job.id, site.ledger.now_us)] if return_refusal(site.ledger, job) is None else []
    if job.suspended_us is not None:
        return []
    fits = site.ledger.pool.disk_refusal(job.job, job.runs) is None
    return [m.JobSuspended(job.job.id, site.ledger.now_us, fits and random.random() < 0.5)]


def _started(random: Random, site: Site, spec: m.JobSpec) -> m.JobStarted | None:
    """Return the start of a job: of a pending or unheard-of one, or of a running one that is elsewhere, or started later."""
    now_us, running = site.ledger.now_us, site.ledger.running.get(spec.id)
    slot = random.choice((0, 0, 1, 2)) if site.slots is not None else 0
    runs = site.place_for(spec, slot)
    if running is not None and (runs is None or random.random() < 0.3):
        runs = running.runs
    if runs is None or not _may_be_beside(site, spec, slot, runs):
        return None
    least_us = spec.submit_us if running is None else max(spec.submit_us, running.start_us)
    start_us = now_us if site.slots is not None else random.randint(least_us, now_us)
    limit_us = None if spec.limit_us is None else spec.limit_us + random.choice((0, 0, 1_000_000))
    described = spec if site.ledger.description(spec.id) is None or random.random() < 0.2 else None
    return m.JobStarted(spec.id, start_us, runs, spec.estimate_us, limit_us, slot, described)


def resume_kept(site: Site) -> list[m.Event]:
    """Resume one of the jobs that the manager has suspended, if any can go on."""
    kept = [job for job in site.running if job.held and return_refusal(site.ledger, job) is None]
    return [m.JobResumed(job.job.id, site.ledger.now_us) for job in kept[:1]]


def _may_be_beside(site: Site, spec: m.JobSpec, slot: int, runs: tuple[m.Run, ...]) -> bool:
    """Tell whether a job may be there in all turns: a manager that starts jobs itself pairs none that must not be, either."""
    member = Member(slot, layers_of(runs, site.machine.depth), spec.unpaired)
    return turns_refusal(site.ledger, spec.id, member) is None
