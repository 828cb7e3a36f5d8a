"""Whole nodes with some or all cores of each at work: the number depends on how much a job's processes slow each other down.

G-LOMARC-TS paper, sections 4.3 and 5.1 (formula 8), for nodes of any number of CPUs and cores: one process a node, one a CPU, or
one a core. Processes of a job go to different CPUs first; of two jobs on a node each has a *side*: the lower or the upper cores of
every CPU, or the first or second hardware threads where CPUs have one core (section 4.9).
"""

from __future__ import annotations

from itertools import islice
from typing import ClassVar, NamedTuple

from cosched_plugin import api


class NodeHalves:
    """A node's cores, divided among the processes of one job or of two."""

    __slots__ = ("_cpu_masks", "cores", "cpus", "half", "node", "whole")

    def __init__(self, node: api.NodeClass) -> None:
        self.node = node
        self.cpus = self.node.sockets
        self.cores = self.node.cores_per_socket
        self.whole = self.cpus * self.cores
        one = (1 << self.cores) - 1
        # The hardware threads of each CPU.
        self._cpu_masks = [
            sum(one << (layer * self.whole + cpu * self.cores) for layer in range(self.node.threads_per_core))
            for cpu in range(self.cpus)
        ]
        # Processes that each of two jobs can have on a node.
        if self.cores > 1:
            self.half = self.cpus * (self.cores // 2)
        else:
            self.half = self.whole if self.node.threads_per_core > 1 else 0

    def mask(self, processes: int, *, upper: bool = False) -> api.ThreadMask:
        """Return the hardware threads of a number of processes, spread over the CPUs."""
        mask = 0
        for cpu in range(min(processes, self.cpus)):
            cores = (processes - cpu + self.cpus - 1) // self.cpus  # CPU 0 gets the first process
            first = self.cores - cores if upper and self.cores > 1 else 0
            mask |= ((1 << cores) - 1) << cpu * self.cores + first
        return api.ThreadMask(mask << self.whole if upper and self.cores == 1 else mask)

    def on_one_side(self, mask: api.ThreadMask) -> bool:
        """Tell whether hardware threads of a node leave a whole side of it to another job."""
        return not mask & ~self.mask(self.half) or not mask & ~self.mask(self.half, upper=True)

    def factor(self, job: api.JobSpec, processes: int) -> float:
        """Return the job's run time with ``processes`` processes on a node, divided by that with one."""
        threads = processes
        if job.exclusive or job.threads_per_process > 1:  # all threads held count, not only those of processes
            threads = self._thread_mask(job, processes).bit_count()
        return api.self_factor(job.self_slowdown, min(threads, self.cpus), -(-threads // self.cpus))

    def factor_on(self, job: api.JobSpec, mask: api.ThreadMask) -> float:
        """Return the own slowdown of the job on these hardware threads of a node, wherever they are."""
        counts = [(mask & cpu).bit_count() for cpu in self._cpu_masks]
        return api.self_factor(job.self_slowdown, sum(count > 0 for count in counts), max(counts))

    def footprint(self, job: api.JobSpec, processes: int) -> api.Footprint:
        """Return the footprint of the job with a number of processes on each node but the last; its slowest node counts."""
        full, rest = divmod(job.processes, processes)
        factors = [self.factor(job, count) for count in (processes if full else 0, rest) if count]
        factor = max(factors)
        return api.Footprint(processes, full + (rest > 0), factor, api.stretch(job.estimate_us, factor))

    def most(self, job: api.JobSpec) -> int:
        """Return how many processes of the job a node can hold, by its own limits and the memory; 0 if below its least number."""
        most = self.whole
        if job.threads_per_process > 1:
            most = self.node.threads // job.threads_per_process
        if job.ppn_max:
            most = min(most, job.ppn_max)
        if job.memory_mb:
            most = min(most, self.node.memory_mb // job.memory_mb)
        return most if most >= min(job.ppn_min, job.processes) else 0

    def most_shared(self, job: api.JobSpec) -> int:
        """Return how many processes of the job may be on a node with another job; 0 if it does not share nodes."""
        if job.exclusive or job.threads_per_process > 1:
            return 0
        most = min(self.half, self.most(job))
        return min(most, job.processes) if most >= min(job.ppn_min, job.processes) else 0

    def both(self, job: api.JobSpec, per_node: int, other: api.JobSpec, other_per_node: int) -> bool:
        """Tell whether two jobs that may share nodes fit on one with these numbers of processes."""
        if per_node > self.half or other_per_node > self.half:
            return False
        return per_node * job.memory_mb + other_per_node * other.memory_mb <= self.node.memory_mb

    def runs(self, job: api.JobSpec, per_node: int, nodes: api.NodeSet) -> tuple[api.Run, ...]:
        """Return the job on the lowest of ``nodes``; there must be enough of them."""
        full, rest = divmod(job.processes, per_node)
        mask = self._thread_mask(job, per_node)
        chosen = list(islice(api.bits_of(nodes), full + (rest > 0)))
        placed = [(node, mask, per_node) for node in chosen[:full]]
        if rest:
            placed.append((chosen[full], self._thread_mask(job, rest), rest))
        return api.runs_from(placed)

    def _thread_mask(self, job: api.JobSpec, processes: int) -> api.ThreadMask:
        if job.exclusive:
            return api.ThreadMask((1 << self.node.threads) - 1)
        threads = processes * job.threads_per_process
        if threads > self.whole:  # on the second hardware threads, too
            return api.ThreadMask(self.mask(self.whole) | self.mask(threads - self.whole) << self.whole)
        return self.mask(threads)


class Kind(NamedTuple):
    """Nodes that are alike."""

    halves: NodeHalves
    nodes: api.NodeSet


class Kinds:
    """The nodes of a machine by kind: processes are divided among nodes that are alike, so a job gets nodes of one kind."""

    __slots__ = ("all", "machine")

    def __init__(self, machine: api.Machine) -> None:
        self.machine = machine
        kinds = [Kind(NodeHalves(item), nodes) for item, nodes in api.kinds_of(machine.classes)]
        self.all = sorted(kinds, key=_nodes_of_kind, reverse=True)

    def of_node(self, node: int) -> NodeHalves:
        """Return how a node is divided."""
        return self.of(api.NodeSet(1 << node))

    def of(self, nodes: api.NodeSet) -> NodeHalves:
        """Return how nodes are divided of which all that are alike, or some of them, are meant."""
        if len(self.all) == 1:
            return self.all[0].halves
        return next((halves for halves, alike in self.all if alike & nodes), self.all[0].halves)

    def open_to(self, job: api.JobSpec) -> list[Kind]:
        """Return the nodes that ``job`` may have on the empty machine, those of the kind with most of them first."""
        if not (job.eligible or job.resources or job.licences):
            return self.all
        machine = self.machine
        may = api.Counts(machine).open_to(job, machine.eligible(job))
        return sorted(
            [Kind(halves, api.NodeSet(nodes & may)) for halves, nodes in self.all], key=_nodes_of_kind, reverse=True
        )


def _nodes_of_kind(kind: Kind) -> int:
    return kind.nodes.bit_count()


class Spread(api.NodePlacement):
    """Empty nodes; formula 8 gives the number of processes on each.

    ``max_slowdown`` and ``max_slowdown_cpus``: how much a job may slow itself down with all cores of a node at work, and with one core
    of each CPU.
    """

    needs: ClassVar[api.Needs] = frozenset({api.WHOLE_NODES})
    provides: ClassVar[api.Needs] = frozenset({api.FOOTPRINTS, api.FIXED_RUN_TIMES})
    shortens: ClassVar[bool] = True  # a job may gain by having more processes on a node: SL_sno below 1

    def __init__(self, *, max_slowdown: float = 1.25, max_slowdown_cpus: float = 1.12) -> None:
        self._most_ppm = round(max_slowdown * api.WHOLE_PPM)
        self._cpus_ppm = round(max_slowdown_cpus * api.WHOLE_PPM)
        self._known: dict[int, tuple[api.JobSpec, api.Footprint | None, Kind]] = {}  # a cache
        self._kinds: Kinds | None = None  # a cache

    def footprint(self, job: api.JobSpec, view: api.View) -> api.Footprint | None:
        """Return the footprint of the job alone on its nodes; None if no kind of node holds it."""
        known = self._known.get(job.id)
        if known is None or known[0] is not job:
            if len(self._known) > 2 * view.queued + 1000:
                self._known.clear()
            known = self._known[job.id] = (job, *self._choose(job, view))
        return known[1]

    def home(self, job: api.JobSpec, view: api.View) -> api.NodeSet:
        """Return the nodes of which the job gets some: those that it may have of the kind with most of them that holds it."""
        return self._home(job, view).nodes

    def _home(self, job: api.JobSpec, view: api.View) -> Kind:
        self.footprint(job, view)
        return self._known[job.id][2]

    def _kinds_of(self, view: api.View) -> Kinds:
        if self._kinds is None or self._kinds.machine is not view.machine:
            self._kinds = Kinds(view.machine)
        return self._kinds

    def _choose(self, job: api.JobSpec, view: api.View) -> tuple[api.Footprint | None, Kind]:
        kinds = self._kinds_of(view).open_to(job)
        for kind in kinds:
            footprint = self._choose_footprint(job, kind.halves, kind.nodes.bit_count())
            if footprint is not None:
                return footprint, kind
        return None, kinds[0]

    def _choose_footprint(self, job: api.JobSpec, halves: NodeHalves, nodes: int) -> api.Footprint | None:
        """Return formula 8's choice, with more processes a node where there are too few nodes."""
        most = halves.most(job)
        if most == 0:
            return None
        wanted = 1
        if job.processes > 1:
            for level, allowed_ppm in ((halves.cpus, self._cpus_ppm), (halves.whole, self._most_ppm)):
                if level > 1 and round(halves.factor(job, level) * api.WHOLE_PPM) <= allowed_ppm:
                    wanted = level
        levels = sorted({1, halves.cpus, halves.whole, job.ppn_min, most})
        for level in levels:
            if max(wanted, job.ppn_min) <= level <= most or level == most:
                footprint = halves.footprint(job, level)
                if footprint.nodes <= nodes:
                    return footprint
        return None

    def offer(self, job: api.JobSpec, snapshot: api.Snapshot) -> api.Offer | None:
        """Return the job's place in ``snapshot``, or None if it has none at that instant."""
        footprint = self.footprint(job, snapshot.view)
        return None if footprint is None else self.offer_with(job, footprint, snapshot)

    def offer_on(self, job: api.JobSpec, runs: tuple[api.Run, ...], snapshot: api.Snapshot) -> api.Offer:
        """Return the job on these threads, with the largest own slowdown of its nodes."""
        kinds = self._kinds_of(snapshot.view)
        factor = max([kinds.of_node(run.first).factor_on(job, run.mask) for run in runs])
        run_us = api.stretch(job.estimate_us, factor)
        return api.Offer(job, snapshot.at_us, runs, factor, run_us, limit_beside(job, run_us))

    def offer_with(self, job: api.JobSpec, footprint: api.Footprint, snapshot: api.Snapshot) -> api.Offer | None:
        """Return the job on empty nodes with a given footprint; nodes that no job must leave first are preferred."""
        view = snapshot.view
        halves, free = self._home(job, view)
        free = api.NodeSet(free & api.any_layer(snapshot.free))
        if job.resources or job.licences:
            may = view.open_nodes(job, snapshot.at_us, snapshot.counts)
            assert may is not None
            free = api.NodeSet(free & may)
        if free.bit_count() < footprint.nodes:
            return None
        nodes = api.nodes_view(view)
        if nodes is not None and snapshot.at_us == view.now_us:
            free = self.choose_nodes(free, footprint.nodes, nodes)
        runs = halves.runs(job, footprint.per_node, free)
        return api.Offer(
            job, snapshot.at_us, runs, footprint.factor, footprint.run_us, limit_beside(job, footprint.run_us)
        )

    def choose_nodes(self, free: api.NodeSet, wanted: int, view: api.WholeNodesView) -> api.NodeSet:
        """Return ``wanted`` of the ``free`` nodes, or all of them if they are fewer.

        First nodes that no other job is on or will come back to, then nodes that no job is on, last nodes that must be cleared.
        """
        chosen = 0
        for better in (view.unclaimed_nodes, view.idle_nodes, -1):
            more = api.NodeSet(free & better & ~chosen)
            missing = wanted - chosen.bit_count()
            if more.bit_count() >= missing:
                return api.NodeSet(chosen | api.lowest_threads(more, missing))
            chosen |= more
        return api.NodeSet(chosen)

    def earliest(self, job: api.JobSpec, view: api.View) -> api.Offer | None:
        """Return the first place as running jobs end."""
        footprint = self.footprint(job, view)
        if footprint is None:
            return None
        for at_us, free in view.availability():
            if api.any_layer(free).bit_count() >= footprint.nodes:
                offer = self.offer_with(job, footprint, api.snapshot_at(view, at_us, free))
                if offer is not None:
                    return offer
        return None


def limit_beside(job: api.JobSpec, run_us: int) -> int | None:
    """Return the limit for a run of ``run_us``: the job's own, plus the time by which the run exceeds the estimate."""
    return None if job.limit_us is None else job.limit_us + max(0, run_us - job.estimate_us)
