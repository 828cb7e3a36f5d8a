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
    ThreadMask,
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

    __slots__ = ("_known", "_lower", "_masks", "_nodes", "_upper", "halves")

    def __init__(self, halves: NodeHalves) -> None:
        self.halves = halves
        # Caches: the nodes that were open last, the nodes of running jobs, and the threads of processes on a half.
        self._known: tuple[View, int, int, Layers, OpenNodes] | None = None
        self._nodes: dict[int, tuple[Sequence[Run], NodeSet]] = {}
        self._masks: dict[tuple[int, bool], ThreadMask] = {}
        cores, whole = halves.cores, halves.whole
        threads = range(halves.node.threads)
        if cores > 1:
            part = cores // 2
            self._lower = [thread for thread in threads if thread % whole % cores < part]
            self._upper = [thread for thread in threads if thread % whole % cores >= cores - part]
        else:  # the first and the second hardware threads of the cores
            self._lower = [thread for thread in threads if thread < whole]
            self._upper = [thread for thread in threads if whole <= thread < 2 * whole]

    def mask(self, processes: int, *, upper: bool) -> ThreadMask:
        """Return the hardware threads of a number of processes on the lower or the upper half of a node."""
        mask = self._masks.get((processes, upper))
        if mask is None:
            mask = self._masks[processes, upper] = self.halves.mask(processes, upper=upper)
        return mask

    def open_nodes(self, snapshot: Snapshot, planned: Sequence[Offer] = ()) -> OpenNodes:
        """Return the empty nodes, and the open halves beside running and ``planned`` jobs, as expected at the snapshot's instant."""
        view, at_us, free = snapshot.view, snapshot.at_us, snapshot.free
        known = self._known
        if known is None or planned or known[:3] != (view, view.version, at_us) or known[3] != free:
            known = (view, view.version, at_us, free, self._find(snapshot, planned))
            self._known = None if planned else known
        return known[4]

    def _find(self, snapshot: Snapshot, planned: Sequence[Offer]) -> OpenNodes:
        view, at_us, free = snapshot.view, snapshot.at_us, snapshot.free
        empty = _all_of(free, range(len(free)))
        if not self.halves.half:
            return OpenNodes(empty, ())
        lower = NodeSet(_all_of(free, self._lower) & ~empty)
        upper = NodeSet(_all_of(free, self._upper) & ~empty)
        if not (lower or upper):
            return OpenNodes(empty, ())
        tenants = []
        for running in running_tenants(view):
            nodes = self.nodes_of(running)
            if (lower | upper) & nodes and (at_us == view.now_us or view.expected_end(running) > at_us):
                tenants.append(_tenant(running.job, running.runs, ratio_of(running, view), (lower, upper), nodes))
        for offer in planned:
            nodes = nodes_of(offer.runs)
            if (lower | upper) & nodes and offer.end_us > at_us and self.is_spread(offer.runs):
                tenants.append(_tenant(offer.job, offer.runs, offer.factor, (lower, upper), nodes))
        return OpenNodes(empty, tenants)

    def nodes_of(self, running: Running) -> NodeSet:
        """Return the nodes of a running job."""
        known = self._nodes.get(running.job.id)
        if known is None or known[0] is not running.runs:
            if len(self._nodes) > 10_000:
                self._nodes.clear()
            known = self._nodes[running.job.id] = (running.runs, nodes_of(running.runs))
        return known[1]

    def is_spread(self, runs: Sequence[Run]) -> bool:
        """Tell whether a job leaves a half of each of its nodes to others."""
        return all(self.halves.on_one_side(run.mask) for run in runs)


def _tenant(job: JobSpec, runs: Sequence[Run], ratio: float, halves: tuple[NodeSet, NodeSet], nodes: NodeSet) -> Tenant:
    """Return a spread job with those of the open lower and upper ``halves`` that are on its nodes."""
    most = max([run.processes for run in runs])
    return Tenant(job, most, ratio, NodeSet(halves[0] & nodes), NodeSet(halves[1] & nodes))


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
