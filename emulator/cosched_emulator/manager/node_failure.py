"""The effect of a node failure on its jobs: each runs again from its start, or ends as NODE_FAIL."""

from __future__ import annotations

from collections.abc import Iterable

from cosched_emulator.manager.managed_job import ManagedJob
from cosched_emulator.manager.manager import Manager
from cosched_plugin.protocol.messages import NODE_FAIL, Event, JobEnded, JobRequeued


def fail_node(manager: Manager, node: int, at_us: int, before: Iterable[Event], *, requeue: bool) -> list[Event]:
    """Return the events of a node failure, including those of its jobs; none if the node is broken already.

    ``before`` are the earlier events of the same instant: a job that they end or requeue is gone. ``requeue`` says whether
    jobs without a setting of their own run again.
    """
    nodes = manager.nodes
    if node in nodes.broken:
        return []
    events = nodes.fail(node, at_us)
    gone = {event.job_id for event in before if isinstance(event, JobEnded | JobRequeued)}
    for job_id, job in sorted(_jobs_on(manager, node)):
        if job_id not in gone:
            again = requeue if job.job.requeue is None else job.job.requeue
            events.append(JobRequeued(job_id) if again else JobEnded(job_id, NODE_FAIL))
    return events


def _jobs_on(manager: Manager, node: int) -> list[tuple[int, ManagedJob]]:
    """Return the jobs with hardware threads on a node, or with an image on its disk."""
    bit = 1 << node
    return [(job_id, job) for job_id, job in manager.running.items() if any(layer & bit for layer in job.layers)]
