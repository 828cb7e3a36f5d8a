"""The jobs on each node: derived from the running jobs, for the tables of users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from cosched_emulator.manager.managed_job import ManagedJob
from cosched_emulator.manager.nodes import Nodes
from cosched_emulator.users.idset import idset
from cosched_plugin.common.allocation import Machine

STATES: Final = ("IDLE", "MIXED", "ALLOCATED", "DRAINING", "DRAINED", "DOWN")


class NodeUse(NamedTuple):
    """By node: ids of the jobs that hold threads on it, ascending; the number of threads, in whatever slots; the memory."""

    jobs: list[list[int]]
    threads: list[int]
    memory_mb: list[int]

    def neighbours(self, job: ManagedJob) -> list[int]:
        """Return the ids of the jobs that share a node with a running job."""
        found: set[int] = set()
        if not job.on_disk:
            for first, count, _, _ in job.runs:
                found.update(*self.jobs[first : first + count])
            found.discard(job.job.spec.id)
        return sorted(found)

    def state(self, node: int, machine: Machine, nodes: Nodes) -> str:
        """Return a node's state, one of `STATES`."""
        if node in nodes.broken:
            return "DOWN"
        busy = bool(self.jobs[node])
        if node in nodes.drained:
            return "DRAINING" if busy else "DRAINED"
        if not busy:
            return "IDLE"
        return "ALLOCATED" if self.threads[node] >= machine.threads_of[node] else "MIXED"


def node_use(machine: Machine, running: Mapping[int, ManagedJob]) -> NodeUse:
    """Return the jobs on each node; jobs on disk are on none."""
    jobs: list[list[int]] = [[] for _ in range(machine.nodes)]
    masks, memories_mb = [0] * machine.nodes, [0] * machine.nodes
    for job_id, job in sorted(running.items()):
        if job.on_disk:
            continue
        memory_mb = job.job.spec.memory_mb
        for first, count, mask, processes in job.runs:
            for node in range(first, first + count):
                jobs[node].append(job_id)
                masks[node] |= mask
                memories_mb[node] += processes * memory_mb
    return NodeUse(jobs, [mask.bit_count() for mask in masks], memories_mb)


def node_list(job: ManagedJob) -> str:
    """Return the nodes of a running job as text."""
    return idset([node for first, count, _, _ in job.runs for node in range(first, first + count)])
