"""The happenings at the site of `cosched_plugin.testing.check`: due events, actions of operators and users, and failures."""

from __future__ import annotations

from random import Random
from typing import Final

from cosched_plugin.protocol.messages import (
    CANCELLED,
    COMPLETED,
    NODE_FAIL,
    TIMEOUT,
    Event,
    JobEnded,
    JobHeld,
    JobReleased,
    JobRequeued,
    NodeFailed,
    ProgressMeasured,
    Woken,
)
from cosched_plugin.testing.site import Site

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
