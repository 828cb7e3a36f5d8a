"""Which nodes have an open half, and beside which job: the machine as co-execution sees it at one instant.

A *tenant* is a job that is spread: it has one half of the cores of its nodes. A *half* is the lower or the upper cores of every
CPU (`NodeHalves`). Jobs that have more of a node than a half are alone there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from cosched_plugin.api import (
    JobSpec,
    Layers,
    NodeSet,
    Offer,
    Run,
    Running,
    Snapshot,
    View,
    nodes_of,
    running_with_note,
)
from cosched_plugin.policies.placement.spread import NodeHalves

NOTE: Final = "spread"  # of a tenant: its expected run time among its neighbours over the compact one


class Tenant(NamedTuple):
    """A spread job, with the nodes whose other half is open."""

    job: JobSpec
    per_node: int  # processes
    ratio: float  # expected run time among its present neighbours over the compact one
    lower: NodeSet  # nodes whose lower half is open
    upper: NodeSet

    @property
    def open(self) -> int:
        """Return the number of open halves."""
        return self.lower.bit_count() + self.upper.bit_count()


class OpenNodes(NamedTuple):
    """The nodes on which a job may start."""

    empty: NodeSet
    tenants: Sequence[Tenant]  # those with an open half beside them, by job


class Sides:
    """The hardware threads of the two halves of a node."""

    __slots__ = ("_lower", "_upper", "halves")

    def __init__(self, halves: NodeHalves) -> None:
        self.halves = halves
        cores, whole = halves.cores, halves.whole
        threads = range(halves.node.threads)
        if cores > 1:
            part = cores // 2
            self._lower = [thread for thread in threads if thread % whole % cores < part]
            self._upper = [thread for thread in threads if thread % whole % cores >= cores - part]
        else:  # the first and the second hardware threads of the cores
            self._lower = [thread for thread in threads if thread < whole]
            self._upper = [thread for thread in threads if whole <= thread < 2 * whole]

    def open_nodes(self, snapshot: Snapshot, planned: Iterable[Offer] = ()) -> OpenNodes:
        """Return the empty nodes, and the open halves beside running and ``planned`` jobs, as expected at the snapshot's instant."""
        free = snapshot.free
        empty = _all_of(free, range(len(free)))
        if not self.halves.half:
            return OpenNodes(empty, ())
        lower = NodeSet(_all_of(free, self._lower) & ~empty)
        upper = NodeSet(_all_of(free, self._upper) & ~empty)
        tenants = []
        if lower or upper:
            for running in running_tenants(snapshot.view):
                if snapshot.at_us == snapshot.view.now_us or snapshot.view.expected_end(running) > snapshot.at_us:
                    ratio = ratio_of(running, snapshot.view)
                    tenants.append(self._tenant(running.job, running.runs, ratio, lower, upper))
            tenants += [
                self._tenant(offer.job, offer.runs, offer.factor, lower, upper)
                for offer in planned
                if offer.end_us > snapshot.at_us and self.is_spread(offer.runs)
            ]
        return OpenNodes(empty, [tenant for tenant in tenants if tenant.lower or tenant.upper])

    def is_spread(self, runs: Sequence[Run]) -> bool:
        """Tell whether a job leaves a half of each of its nodes to others."""
        return all(self.halves.on_one_side(run.mask) for run in runs)

    def _tenant(self, job: JobSpec, runs: Sequence[Run], ratio: float, lower: NodeSet, upper: NodeSet) -> Tenant:
        nodes = nodes_of(runs)
        most = max([run.processes for run in runs])
        return Tenant(job, most, ratio, NodeSet(lower & nodes), NodeSet(upper & nodes))


def running_tenants(view: View) -> list[Running]:
    """Return the running jobs that are spread, by id."""
    return [view.running[job_id] for job_id in running_with_note(NOTE, view)]


def ratio_of(running: Running, view: View) -> float:
    """Return a running job's expected run time among its neighbours over the compact one, as last noted."""
    note = view.note(running.job.id, NOTE)
    return note if type(note) is float and note > 0.0 else 1.0


def _all_of(free: Layers, threads: Iterable[int]) -> NodeSet:
    """Return the nodes on which all of these hardware threads are free."""
    nodes = -1
    for thread in threads:
        nodes &= free[thread]
    return NodeSet(max(nodes, 0))
