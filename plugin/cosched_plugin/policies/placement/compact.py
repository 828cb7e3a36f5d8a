"""Placements on free hardware threads: first fit and packed, by the number of jobs on a node, and one process on each node.

The shapes stand here, too: whether jobs take threads or whole nodes. `spread` has the placement on halves of whole nodes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import ClassVar, NamedTuple

import numpy as np

from cosched_plugin import api

_new = tuple.__new__  # a call of the class of a decision takes twice as long

# How many running jobs each node has, in all slots.


class Residents:
    """Counts the jobs on each node, once for each state of the machine."""

    __slots__ = ("_counts", "_known")

    def __init__(self) -> None:
        self._counts: Sequence[int] = ()  # a cache
        self._known: tuple[api.View | None, int] = (None, 0)

    def now(self, view: api.View) -> Sequence[int]:
        """Return the number of running jobs on each node, in all slots."""
        if self._known != (view, view.version):
            self._counts = _count(view.running.values(), view)
            self._known = (view, view.version)
        return self._counts

    def at(self, snapshot: api.Snapshot) -> Sequence[int]:
        """Return the same for the instant of a snapshot: of the jobs that run now, those that are not expected to have ended."""
        view, at_us = snapshot.view, snapshot.at_us
        if at_us <= view.now_us:
            return self.now(view)
        return _count([running for running in view.running.values() if view.expected_end(running) > at_us], view)


def _count(jobs: Iterable[api.Running], view: api.View) -> Sequence[int]:
    counts = [0] * view.machine.nodes
    for running in jobs:
        for node, _ in api.each_node(running.runs):
            counts[node] += 1
    return counts


# Shapes: whether jobs take threads or whole nodes.


class Threads(api.Shape):
    """A job takes free hardware threads, wherever they are."""

    provides: ClassVar[api.Needs] = frozenset({api.THREADS})

    def shaped(self, view: api.View) -> api.View:
        """Return the view as it is; MachineError where jobs share all of some nodes or none: threads are of any nodes."""
        if view.machine.same_nodes:
            raise api.MachineError(
                "shape threads may put a job beside a part of another; with same_nodes jobs share all nodes or none: --set shape=nodes"
            )
        return view


class Nodes(api.Shape):
    """A job takes empty nodes, and is alone on them until a matching puts another job beside it."""

    provides: ClassVar[api.Needs] = frozenset({api.WHOLE_NODES})

    def shaped(self, view: api.View) -> api.View:
        """Return the view of whole nodes."""
        return api.WholeNodesView(view)


# Placements that ignore demand: first fit and packed. (`lessconsume` has those that use it.)


class FirstFit(api.Placement):
    """The lowest free threads, node by node.

    With ``extend_limit`` the job's limit and expected run time grow by the penalty factor expected there, as under LessConsume.
    """

    _choose = staticmethod(api.first_fit)

    def __init__(self, *, extend_limit: bool = False) -> None:
        self.extend_limit = extend_limit
        # A cache: the job whose first place was looked for last, and when that is; at the next event it is mostly near that.
        self._found = (-1, 0)

    @property
    def provides(self) -> api.Needs:
        """Return that run times follow from the job, unless limits grow with neighbours."""
        return api.NONE if self.extend_limit else frozenset({api.FIXED_RUN_TIMES})

    @property
    def counts(self) -> bool:
        """Tell that neighbours do not matter, unless limits grow with them."""
        return not self.extend_limit

    def offer(self, job: api.JobSpec, snapshot: api.Snapshot) -> api.Offer | None:
        """Return the job on the first free threads."""
        view = snapshot.view
        free, nodes = snapshot.open_on(job)
        runs = self._choose(job, free, view.machine, snapshot.memory_for(job), nodes)
        return None if runs is None else self.offer_on(job, runs, snapshot)

    def earliest(self, job: api.JobSpec, view: api.View) -> api.Offer | None:
        """Return the job's first place as running jobs end, by halving: what is free only grows."""
        steps = view.availability()
        low = middle = steps.wide(job.processes)  # where numbers decide, the first step that is wide enough is the one
        high = len(steps)
        if self._found[0] == job.id:
            middle = max(low, min(steps.by(self._found[1]), high) - 1)
        found = None
        near = 1  # steps on, twice as many each time
        while low < high:
            at_us, free = steps[middle]
            offer = self.offer(job, api.snapshot_at(view, at_us, free))
            if offer is None:
                low = middle + 1
                middle = min(low + near - 1, (low + high) // 2)
            else:
                found, high = offer, middle
                middle = max(high - near, (low + high) // 2)
            near *= 2
        if found is not None:
            self._found = (job.id, found.start_us)
        return found

    def offer_on(self, job: api.JobSpec, runs: tuple[api.Run, ...], snapshot: api.Snapshot) -> api.Offer:
        """Return the job on these threads."""
        if not self.extend_limit:
            return api.Offer(job, snapshot.at_us, runs, 1.0, job.estimate_us, job.limit_us)
        from cosched_plugin.policies.planning.losses import LimitRule, factor_of  # noqa: PLC0415 - few limits are extended

        return LimitRule().offer(job, snapshot, runs, factor_of(job, snapshot, runs))

    def start(self, job: api.JobSpec, view: api.View) -> api.StartJob:
        """Return the decision to start ``job`` now; there must be a place for it. Its limit stays its own."""
        free = view.free
        if len(free) == 1 and api.is_plain(job):
            runs = api.lowest_nodes(job.processes, free[0])
        else:
            free, nodes = view.open_on(job, free)
            runs = self._choose(job, free, view.machine, view.free_memory_mb, nodes)
        assert runs is not None
        return _new(api.StartJob, (job.id, runs, job.estimate_us, job.limit_us, 0))


class Packed(FirstFit):
    """The nodes with the fewest free threads first: keeps whole nodes free for jobs that need them."""

    _choose = staticmethod(api.packed)


# Placements that consider how many jobs each node has, in all slots: they choose the columns of a matrix of gang scheduling.
#
# Feitelson 1996, *Packing Schemes for Gang Scheduling*, compares such ways to choose columns.


class _ByLoad(api.Placement):
    """A placement that knows how many running jobs are on each node."""

    provides: ClassVar[api.Needs] = frozenset({api.FIXED_RUN_TIMES})

    def __init__(self) -> None:
        self._residents = Residents()

    def offer(self, job: api.JobSpec, snapshot: api.Snapshot) -> api.Offer | None:
        """Return the job's place in ``snapshot``, or None."""
        free = snapshot.open_to(job)
        memory_mb = snapshot.memory_for(job)
        for nodes in self._choices(job, free, snapshot.view):
            runs = api.fill_nodes(job, free, snapshot.view.machine, memory_mb, nodes)
            if runs is not None:
                return self.offer_on(job, runs, snapshot)
        return None

    @abstractmethod
    def _choices(self, job: api.JobSpec, free: api.Layers, view: api.View) -> Iterable[Sequence[int]]:
        """Return the sets of nodes that the job may take, the best first; it fills the nodes of the first one with room, in order."""


class LeastLoaded(_ByLoad):
    """The nodes with the fewest jobs first, the lowest of equal ones."""

    def _choices(self, job: api.JobSpec, free: api.Layers, view: api.View) -> Iterable[Sequence[int]]:
        loads = self._residents.now(view)
        return [sorted(api.bits_of(api.any_layer(free)), key=lambda node: (loads[node], node))]


class Buddy(_ByLoad):
    """Aligned blocks of 1, 2, 4, ... nodes, of the smallest size that holds the job; the block with the fewest jobs first.

    Nodes out of service count as missing: where no block is left that holds the job, it gets a block of twice the size.
    """

    ignores: ClassVar[api.Needs] = frozenset({api.COUNTABLE})  # the size follows from the empty machine

    def _choices(self, job: api.JobSpec, free: api.Layers, view: api.View) -> Iterable[Sequence[int]]:
        loads = self._residents.now(view)
        blocks = _blocks_for(job, view)
        blocks.sort(key=lambda block: sum([loads[node] for node in block]))  # stable: the lowest of equal ones
        return blocks


def _blocks_for(job: api.JobSpec, view: api.View) -> list[range]:
    """Return all blocks of the smallest size of which one holds the job when it is empty."""
    machine = view.machine
    empty = view.open_to(job, view.in_service)
    size = 1
    while size * machine.depth < job.processes * job.threads_per_process:
        size *= 2
    while True:
        blocks = [range(first, min(first + size, machine.nodes)) for first in range(0, machine.nodes, size)]
        if size >= machine.nodes or any(
            api.fill_nodes(job, empty, machine, machine.memory_mb, block) is not None for block in blocks
        ):
            return blocks
        size *= 2


# Placements with one process of a job on each node, where several jobs may share a node: contiguous nodes, or random ones.
#
# Choi et al. 2004, *Coscheduling in Clusters*: a node has one CPU, and as many hardware threads as jobs may share it (the
# multiprogramming level). *Packing* gives a job contiguous nodes; without it the nodes are random ones of those that have room.


class _Wanted(NamedTuple):
    """A job, and what it may take of the nodes at an instant."""

    job: api.JobSpec  # with at most as many processes on a node as it gets there
    rooms: Sequence[int]  # processes on a node that is empty, by class of nodes
    free: api.Layers
    memory_mb: Sequence[int]
    snapshot: api.Snapshot

    def fits(self, node: int) -> bool:
        """Tell whether the node has room for a process now."""
        machine = self.snapshot.view.machine
        free_threads = api.thread_mask(self.free, node).bit_count()
        return (
            free_threads > 0 and api.room_on(self.job, free_threads, machine.threads_of[node], self.memory_mb[node]) > 0
        )


class _OnePerNode(api.Placement):
    """One process on each node: more only where a job has more processes than there are nodes, or asks for more on a node.

    ``contexts``: hardware threads of each node that jobs may hold, in each slot, so that as many may share it; 0: all. An exclusive
    job has whole nodes all the same.
    """

    needs: ClassVar[api.Needs] = frozenset({api.THREADS})
    provides: ClassVar[api.Needs] = frozenset({api.FIXED_RUN_TIMES})
    # Nodes are counted before they are chosen
    ignores: ClassVar[api.Needs] = frozenset({api.ELIGIBLE_NODES, api.COUNTABLE})

    def __init__(self, *, contexts: int = 0) -> None:
        self._contexts = contexts

    def never(self, job: api.JobSpec, view: api.View) -> bool:
        """Tell whether the whole machine does not hold ``job``."""
        machine = view.machine
        return not _per_node(job, self._rooms(job, machine), machine)

    def offer(self, job: api.JobSpec, snapshot: api.Snapshot) -> api.Offer | None:
        """Return the job's place in ``snapshot``, or None."""
        machine = snapshot.view.machine
        rooms = self._rooms(job, machine)
        per_node = _per_node(job, rooms, machine)
        if not per_node:
            return None
        free = self._open_to(job, snapshot)
        if api.any_layer(free).bit_count() * per_node < job.processes:
            return None
        limited = job._replace(ppn_max=per_node)
        wanted = _Wanted(limited, rooms, free, snapshot.memory_for(job), snapshot)
        for nodes in self._choices(wanted):
            runs = api.fill_nodes(limited, wanted.free, machine, wanted.memory_mb, nodes)
            if runs is not None:
                return self.offer_on(job, runs, snapshot)
        return None

    @abstractmethod
    def _choices(self, wanted: _Wanted) -> Iterable[Sequence[int]]:
        """Return the sets of nodes that the job may take, the best first; it fills the nodes of the first one with room, in order."""

    def _rooms(self, job: api.JobSpec, machine: api.Machine) -> Sequence[int]:
        """Return how many processes of the job an empty node can take, by class of nodes."""
        most = machine.depth if job.exclusive or not self._contexts else self._contexts
        return [
            api.room_on(job, min(most, each.threads), each.threads, each.memory_mb) if each.nodes else 0
            for each in machine.classes
        ]

    def _open_to(self, job: api.JobSpec, snapshot: api.Snapshot) -> api.Layers:
        free = snapshot.open_to(job)
        contexts = self._contexts
        if job.exclusive or not contexts or contexts >= len(free):
            return free
        return (*free[:contexts], *[api.NodeSet(0)] * (len(free) - contexts))


class Contiguous(_OnePerNode):
    """Consecutive nodes: the block whose fullest node has the fewest jobs, of those the one with the fewest in all, then the lowest.

    Nodes out of service, and those on which the job has no room even when they are empty, do not interrupt a block.
    """

    def __init__(self, *, contexts: int = 0) -> None:
        super().__init__(contexts=contexts)
        self._residents = Residents()

    def _choices(self, wanted: _Wanted) -> Iterator[Sequence[int]]:
        nodes, ends = _blocks(wanted)
        if not ends:
            return
        loads = self._residents.at(wanted.snapshot)
        fitting = [wanted.fits(node) for node in nodes]
        sums = [0, *accumulate([loads[node] for node in nodes])]
        for most in sorted({loads[node] for node, fits in zip(nodes, fitting, strict=True) if fits}):
            closed = [not fits or loads[node] > most for node, fits in zip(nodes, fitting, strict=True)]
            gaps = [0, *accumulate(closed)]
            found = [
                (sums[end] - sums[first], first, end) for first, end in enumerate(ends) if gaps[end] == gaps[first]
            ]
            for _, first, end in sorted(found):
                yield nodes[first:end]


class Scattered(_OnePerNode):
    """Random nodes of those with room: a draw from ``seed``, the job's number and the node decides, whenever the job starts."""

    def __init__(self, *, contexts: int = 0, seed: int = 0) -> None:
        super().__init__(contexts=contexts)
        self._seed = seed
        # A cache: a number of nodes, and the beginnings of their draws
        self._draws: tuple[int, api.Beginnings] | None = None

    def _choices(self, wanted: _Wanted) -> Iterable[Sequence[int]]:
        view = wanted.snapshot.view
        free = api.any_layer(wanted.free)
        order = np.argsort(self._beginnings(view.machine.nodes).uniforms(wanted.job.id), kind="stable")
        return [[node for node in order.tolist() if free >> node & 1]]

    def _beginnings(self, nodes: int) -> api.Beginnings:
        if self._draws is None or self._draws[0] != nodes:
            self._draws = (nodes, api.Beginnings(self._seed, "scattered", np.arange(nodes)))
        return self._draws[1]


def _per_node(job: api.JobSpec, rooms: Sequence[int], machine: api.Machine) -> int:
    """Return the least number of processes on a node with which the empty machine holds the job; 0 if there is none."""
    counts = [each.nodes for each in machine.classes]
    for per_node in range(max(1, min(job.ppn_min, job.processes)), max(rooms, default=0) + 1):
        if sum([nodes * min(per_node, room) for nodes, room in zip(counts, rooms, strict=True)]) >= job.processes:
            return per_node
    return 0


def _blocks(wanted: _Wanted) -> tuple[list[int], list[int]]:
    """Return the nodes that count, ascending, and the end of the shortest block from each of them on that holds the job when empty.

    The last nodes, from which on there is no such block, have no end.
    """
    view, job = wanted.snapshot.view, wanted.job
    up = api.any_layer(view.in_service)
    nodes: list[int] = []
    held = [0]  # by the nodes before
    first = 0
    for each, room in zip(view.machine.classes, wanted.rooms, strict=True):
        for node in range(first, first + each.nodes) if room else ():
            if up >> node & 1:
                nodes.append(node)
                held.append(held[-1] + min(room, job.ppn_max))
        first += each.nodes
    ends: list[int] = []
    end = 0
    for before in held:
        while end < len(held) and held[end] - before < job.processes:
            end += 1
        if end == len(held):
            break
        ends.append(end)
    return nodes, ends
