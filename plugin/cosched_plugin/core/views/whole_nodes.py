"""The machine for jobs that take whole nodes: a node is free when no job is on it.

A job takes the first hardware thread of each core it uses, so the second ones stay free for a partner that a policy may put
beside it (LOMARC paper, section 5). Everything that plans with free threads, reservations included, works on this view as on
the plain one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from cosched_hwmodel.bandwidth.bandwidth_matrix import NodeTable
from cosched_hwmodel.units import NodeSet
from cosched_plugin.common.allocation import Counts, Machine, is_plain
from cosched_plugin.common.errors import MachineError
from cosched_plugin.common.threads import Layers, any_layer, is_empty, minus, nodes_of, on_nodes, size
from cosched_plugin.core.first_fit import first_fit
from cosched_plugin.core.views.availability import Availability
from cosched_plugin.core.views.view import View
from cosched_plugin.protocol.messages import JobSpec, Run


class Occupancy(NamedTuple):
    """The nodes of a job from now on."""

    end_us: int  # instant at which the job is expected to leave the nodes
    job_id: int  # the job
    nodes: NodeSet  # its nodes


def other_threads(layers: Layers, machine: Machine) -> Layers | None:
    """Return the other hardware threads of the cores of some threads, free or not; None where both threads of some core are there."""
    nodes = any_layer(layers)
    sides = machine.first_threads, machine.second_threads
    for own, others in (sides, sides[::-1]):
        if is_empty(minus(layers, own)):
            return on_nodes(others, nodes)
    return None


class WholeNodesView(View):
    """A view in which ``free`` means the first threads of the cores of empty nodes."""

    __slots__ = (
        "_alike",
        "_counted_by",
        "_counts_threads",
        "_empty_nodes",
        "_free",
        "_free_key",
        "_free_threads",
        "_nodes_availability",
        "_nodes_key",
    )

    def __init__(self, view: View) -> None:
        super().__init__(view._state, view.trace)
        self._free: Layers = ()
        self._free_threads = 0
        self._free_key: object = None
        self._nodes_availability: Availability | None = None
        self._nodes_key: object = None
        self._empty_nodes: NodeTable | None = None
        classes = view.machine.classes
        # With one core each a number of threads decides what fits.
        self._counts_threads = not view.machine.filled and all(item.cores == 1 for item in classes)
        self._counted_by: tuple[int, bool] = (-1, False)  # `counts_nodes` at a version of the state
        # Cores of each node, where all nodes have as many; else 0.
        self._alike = classes[0].cores if len(classes) == 1 else 0

    @property
    def any_threads(self) -> bool:
        """Tell that a job may take threads of empty nodes only."""
        return False

    @property
    def counts(self) -> bool:
        """Tell that a number of free threads decides what fits only where nodes have one core each."""
        return self._counts_threads

    @property
    def counts_nodes(self) -> bool:
        """Tell whether a number of nodes decides what fits: they are alike, and no job asks for certain ones, or for amounts.

        Jobs that have been started count, too: a start does not change how the next pass plans.
        """
        if len(self.machine.classes) > 1 or self.asked:
            return False
        version = self._state.version
        if self._counted_by[0] != version:
            jobs = [running.job for running in self._state.running.values()]
            named = any(job.eligible or job.resources or job.licences for job in jobs)
            self._counted_by = (version, not named)
        return self._counted_by[1]

    @property
    def cores_per_node(self) -> int:
        """Return the cores of each node where all nodes have as many; else 0."""
        return self._alike

    @property
    def free_nodes(self) -> NodeSet:
        """Return the nodes that a job may start on now."""
        pool = self._state.pool
        return NodeSet(pool.up & ~any_layer(minus(self._state.machine.exists, pool.free)))

    @property
    def idle_nodes(self) -> NodeSet:
        """Return the free nodes that no job must leave first."""
        return self.free_nodes

    @property
    def unclaimed_nodes(self) -> NodeSet:
        """Return the idle nodes to which no job will come back."""
        return self.idle_nodes

    @property
    def free(self) -> Layers:
        """Return the first threads of the cores of empty nodes in service."""
        if self._free_key != self.key:
            self._free_key = self.key
            self._free = self.firsts(self.free_nodes)
            self._free_threads = size(self._free)
        return self._free

    @property
    def free_threads(self) -> int:
        """Return the number of these threads."""
        if self._free_key != self.key:
            return size(self.free)  # of which one is counted
        return self._free_threads

    @property
    def in_service(self) -> Layers:
        """Return the first threads of the cores of all nodes in service, empty or not."""
        return self.firsts(self._state.pool.up)

    def node_table(self) -> NodeTable:
        """Return the nodes with no job on them: a job starts on nodes that all others have left, and is alone there."""
        if self._empty_nodes is None:
            self._empty_nodes = self.empty_node_table()
        return self._empty_nodes

    def firsts(self, nodes: NodeSet) -> Layers:
        """Return the first threads of the cores of ``nodes``."""
        return on_nodes(self._state.machine.first_threads, nodes)

    def open_on(
        self, job: JobSpec, free: Layers, at_us: int | None = None, counts: Counts | None = None
    ) -> tuple[Layers, NodeSet | None]:
        """Return ``free`` and the nodes that the job may have; for an exclusive job the other threads of free nodes count, too."""
        free, nodes = super().open_on(job, free, at_us, counts)
        if not job.exclusive:
            return free, nodes
        there = any_layer(free)
        return self._state.machine.exists, there if nodes is None else NodeSet(there & nodes)

    def never(self, job: JobSpec) -> bool:
        """Tell whether ``job`` does not fit on the first threads of all cores: a manager counts the second ones, too."""
        machine = self._state.machine
        if job.processes > size(machine.first_threads):
            return True  # this includes an exclusive job, which would fit on the second threads: one process a core
        if self._alike == 1 and is_plain(job):
            return False
        nodes = Counts(machine).open_to(job, machine.eligible(job))
        free = machine.exists if job.exclusive else machine.first_threads
        return first_fit(job, free, machine, machine.memory_mb, nodes) is None

    def claim(self, runs: tuple[Run, ...]) -> Layers:
        """Return the first threads of all cores of the nodes that ``runs`` name: no other job gets any of them."""
        return self.firsts(nodes_of(runs))

    def shadow(self, threads: int) -> tuple[int, int] | None:
        """Return the first expected end after which ``threads`` of these threads are free, and the number of extra ones."""
        state = self._state
        if state.returns:
            return super().shadow(threads)
        alike, up, running = self._alike, state.pool.up, state.running
        away = state.away
        two = state.machine.depth == 2
        soonest_us = state.now_us + 1
        found: tuple[int, int] | None = None
        at_us = 0
        busy = 0  # after `at_us`
        # From the last end backwards, as long as there are enough: a node is free once its last job has ended.
        for expected_us, job_id in reversed(state.releases):
            if job_id in away:
                continue
            end_us = expected_us if expected_us > soonest_us else soonest_us
            if end_us != at_us:
                nodes = up & ~busy
                extra = (nodes.bit_count() * alike if alike else size(self.firsts(NodeSet(nodes)))) - threads
                if extra < 0:
                    return found
                at_us = end_us
                found = (at_us, extra)
            layers = running[job_id].layers
            busy |= layers[0] | layers[1] if two else any_layer(layers)
        return found

    def availability(self) -> Availability:
        """Return (instant, free from then on) now and at every expected end: a node is free once the last job has left it."""
        if self._nodes_availability is None or self._nodes_key != self.key:
            self._nodes_key = self.key
            steps = self.steps()
            times, sets = [at_us for at_us, _ in steps], [nodes for _, nodes in steps]
            self._nodes_availability = Availability(times, cast("list[int]", sets), self._state.machine, self.firsts)
        return self._nodes_availability

    def free_steps(self) -> list[tuple[int, int]]:
        """Return (instant, number of free threads from then on) now and at every expected end: of nodes that all jobs have left."""
        return [(at_us, size(free)) for at_us, free in self.availability()]

    def steps(self, besides: Sequence[Occupancy] = ()) -> list[tuple[int, NodeSet]]:
        """Return (instant, free nodes from then on) now and at every expected end, ascending.

        ``besides``: further occupancies, as if those jobs were there from now on.
        """
        up = self._state.pool.up
        if self._state.returns:  # a node out of service is one that is held until it returns
            returning = self.returning()
            besides = [*besides, *[Occupancy(at_us, 0, nodes) for at_us, nodes in returning]]
            for _, nodes in returning:
                up = NodeSet(up | nodes)
        occupancies = sorted([*self.occupancies(), *besides]) if besides else self.occupancies()
        now_us = self.now_us
        steps: list[tuple[int, int]] = [(now_us, 0)]
        for end_us, _, nodes in occupancies:
            if steps[-1][0] == end_us:
                steps[-1] = (end_us, steps[-1][1] | nodes)
            else:
                steps.append((end_us, nodes))
        busy = 0
        free: list[tuple[int, int]] = []
        for at_us, leaving in reversed(steps):
            free.append((at_us, up & ~busy))
            busy |= leaving
        free.reverse()
        # The present also lacks nodes out of service that a job still holds.
        free[0] = (now_us, free[0][1] & self.free_nodes)
        return cast("list[tuple[int, NodeSet]]", free)

    def occupancies(self) -> list[Occupancy]:
        """Return the nodes held and until when, by (expected end, job id); an end that has passed counts as the next instant."""
        state = self._state
        soonest_us = state.now_us + 1
        nodes = state.nodes_by_job()
        return [
            Occupancy(max(end_us, soonest_us), job_id, nodes[job_id])
            for end_us, job_id in state.releases
            if job_id not in state.away
        ]


def nodes_view(view: View) -> WholeNodesView | None:
    """Return ``view`` as one of whole nodes; None where jobs take threads."""
    return view if isinstance(view, WholeNodesView) else None


def whole_nodes(view: View) -> WholeNodesView:
    """Return the view of a composition whose shape provides whole nodes; MachineError for another."""
    found = nodes_view(view)
    if found is None:
        raise MachineError("a part of the policy needs a view of whole nodes, and its shape has not made one")
    return found
