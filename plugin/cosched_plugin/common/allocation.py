"""Bookkeeping of free hardware threads, and the check whether a start is possible: one code for both ends of the protocol."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from cosched_hwmodel.units import SECOND_US, NodeSet, round_up_us
from cosched_plugin.common.threads import (
    Joined,
    Layers,
    busy_refusal,
    each_node,
    kept,
    layers_of,
    minus,
    nodes_in,
    nodes_of,
    none_of,
    on_nodes,
    size,
    union,
)
from cosched_plugin.protocol.limits import MAX_SPAN_US
from cosched_plugin.protocol.messages import (
    ANY_LAYOUT,
    FILLED,
    Amounts,
    DemandTuple,
    JobSpec,
    NodeClass,
    ReviseJob,
    Run,
    StartJob,
    Welcome,
)


class ResumeCosts(NamedTuple):
    """How long a job that is resumed makes no progress, while it holds its nodes."""

    resume_us: int = 0  # span: of a job that comes back from disk, besides its image
    switch_us: int = 0  # span: of a job that was suspended on its nodes
    image_mbs: int = 0  # at which a node writes the memory of a job to disk, and reads it back; 0: at once

    def of_disk_us(self, job: JobSpec, runs: Iterable[Run]) -> int:
        """Return the span for a job on disk: the node with most of its memory has written it, and reads it."""
        if not (self.image_mbs and job.memory_mb):
            return self.resume_us
        most_mb = max(run.processes for run in runs) * job.memory_mb
        return self.resume_us + -(-2 * most_mb * SECOND_US // self.image_mbs)

    def ready_us(self, job: JobSpec, runs: Iterable[Run], before_us: int, now_us: int, *, on_disk: bool) -> int:
        """Return when a job that is resumed now makes progress; ``before_us``: when it last would have, 0: at once."""
        if on_disk:
            return now_us + self.of_disk_us(job, runs)
        return max(before_us, now_us + self.switch_us) if self.switch_us else before_us


def resume_costs(welcome: Welcome) -> ResumeCosts:
    """Return the costs that a manager tells of."""
    return ResumeCosts(welcome.resume_us, welcome.switch_us, welcome.image_mbs)


# The fields of a `JobSpec` from `ppn_min` to `licences` say what nodes it may have; these are their values without constraints.
_CONSTRAINTS: Final = slice(JobSpec._fields.index("ppn_min"), JobSpec._fields.index("licences") + 1)
_DEFAULTS: Final = tuple(JobSpec._field_defaults[name] for name in JobSpec._fields[_CONSTRAINTS])
_PLAIN: Final = (_DEFAULTS, (0, *_DEFAULTS[1:]))


_TAKEN: Final = -1  # no amount: a key of nodes on which some of a resource is taken


def is_plain(job: JobSpec) -> bool:
    """Return whether the job takes one thread per process on any nodes: then it is exact to count threads."""
    return job[_CONSTRAINTS] in _PLAIN


def both_amounts(own: Amounts, other: Amounts) -> Amounts:
    """Return what a job takes of what is counted, with what another job takes beside it; nothing where it takes nothing itself."""
    if not (own and other):
        return own
    both = dict(other)
    for name, amount in own:
        both[name] = both.get(name, 0) + amount
    return tuple(both.items())


class Counts:
    """Countable resources: how many of each are left on each node, and in the whole cluster."""

    __slots__ = ("_machine", "_open", "licences", "resources")

    def __init__(
        self,
        machine: Machine,
        resources: Mapping[str, Sequence[int]] | None = None,
        licences: Mapping[str, int] | None = None,
    ) -> None:
        """``resources``, ``licences``: what is left; None: all that the machine has."""
        self._machine = machine
        left = machine.resources if resources is None else resources
        self.resources = {name: list(each) for name, each in left.items()}  # by name and node
        self.licences = dict(machine.licences if licences is None else licences)  # by name
        self._open: dict[tuple[str, int], int] = {}  # a cache, by resource and amount: the nodes with so much

    def copy(self) -> Counts:
        """Return the same amounts, to be changed apart from these."""
        return Counts(self._machine, self.resources, self.licences)

    def count(self, job: JobSpec, runs: Sequence[Run], sign: int) -> None:
        """Take (-1) or give back (1) what a job on ``runs`` holds; a name that is not there counts as none."""
        for name, amount in job.licences:
            self.licences[name] = self.licences.get(name, 0) + sign * amount
        for name, amount in job.resources:
            for key in [key for key in self._open if key[0] == name]:
                del self._open[key]
            for node, _ in each_node(runs) if name in self.resources else ():
                self.resources[name][node] += sign * amount

    def refusal(self, job: JobSpec, runs: Sequence[Run]) -> str | None:
        """Return why a job cannot have these nodes, or None: too little of something is left."""
        for name, amount in job.licences:
            if (left := self.licences.get(name, 0)) < amount:
                return f"{left} of licence {name} are free, {amount} wanted"
        for name, amount in job.resources:
            for node, _ in each_node(runs):
                left = self.resources[name][node] if name in self.resources else 0
                if left < amount:
                    return f"node {node} has {left} of {name} free, {amount} wanted"
            for other, there in self.beside(name):
                for node, _ in each_node(runs):
                    if there >> node & 1:
                        return f"node {node} has a job with {other}, and none with {name} may be beside it"
        return None

    def open_to(self, job: JobSpec, nodes: NodeSet) -> NodeSet:
        """Return those of some nodes that have enough for a job."""
        if any(self.licences.get(name, 0) < amount for name, amount in job.licences):
            return NodeSet(0)
        for item in job.resources:
            if (there := self._open.get(item)) is None:
                on_node = enumerate(self.resources.get(item[0], ()))
                there = self._open[item] = sum([1 << node for node, left in on_node if left >= item[1]])
            nodes = NodeSet(nodes & there)
            if self._machine.apart:
                nodes = NodeSet(nodes & ~self._closed_to(job, item[0]))
        return nodes

    # Whoever takes some of a resource is never on a node with others that take some of one apart from it. So `never` of a table of
    # co-runs is a rule of who may be where, like partitions and amounts, whatever a policy believes of slowdowns.
    def _closed_to(self, job: JobSpec, name: str) -> int:
        """Return the nodes on which nobody may take some of a resource, and those where ``job``, as of two jobs, takes of both."""
        closed = 0
        for _, there in self.beside(name):
            closed |= there
        for other, where in self._machine.apart.get(name, ()):
            if any(other == its for its, _ in job.resources):
                closed |= where
        return closed

    def beside(self, name: str) -> Iterator[tuple[str, int]]:
        """Yield the resources that are apart from one, each with those nodes of that rule on which some of it is taken."""
        for other, where in self._machine.apart.get(name, ()):
            key = (other, _TAKEN)
            if (taken := self._open.get(key)) is None:
                both = zip(self.resources[other], self._machine.resources[other], strict=True)
                taken = self._open[key] = sum([1 << node for node, (left, most) in enumerate(both) if left < most])
            yield other, taken & where


def kinds_of(classes: Iterable[NodeClass]) -> list[tuple[NodeClass, NodeSet]]:
    """Return the nodes of a machine by kind: alike are those with as many CPUs, cores and hardware threads, and as much memory."""
    kinds: dict[tuple[int, ...], tuple[NodeClass, NodeSet]] = {}
    first = 0
    for item in classes:
        alike = (item.sockets, item.cores_per_socket, item.threads_per_core, item.memory_mb)
        one, others = kinds.get(alike, (item, 0))
        kinds[alike] = (one, NodeSet(others | ((1 << item.nodes) - 1) << first))
        first += item.nodes
    return [*kinds.values()]


class Machine:
    """The nodes of a welcome: numbers, threads and capacities. Does not change while a session lasts."""

    __slots__ = (
        "_eligible",
        "apart",
        "capacity_of",
        "classes",
        "cores",
        "depth",
        "exists",
        "filled",
        "first_threads",
        "licences",
        "memory_mb",
        "nodes",
        "resources",
        "same_nodes",
        "second_threads",
        "swap_mb",
        "threads",
        "threads_of",
    )

    def __init__(self, classes: Sequence[NodeClass], licences: Amounts = (), layout: str = ANY_LAYOUT) -> None:
        self.classes = tuple(classes)  # the nodes by class, as the manager described them
        self.nodes = sum(node_class.nodes for node_class in classes)  # how many there are, also those out of service
        # the most threads that a node has: the length of `Layers`
        self.depth = max((node_class.threads for node_class in classes), default=1)
        exists, firsts, seconds = ([0] * self.depth for _ in range(3))
        same = 0
        self.threads_of: list[int] = []  # hardware threads of each node
        self.memory_mb: list[int] = []  # of each node
        self.swap_mb: list[int] = []  # of each node: disk space for the memory of jobs that are suspended to disk
        # what each node offers: memory bandwidth, network, disk in MB/s; 0: unknown, no limit
        self.capacity_of: list[DemandTuple] = []
        first = 0
        for node_class in classes:
            mask = ((1 << node_class.nodes) - 1) << first
            same |= mask * (node_class.same_nodes and node_class.threads > 1)
            cores = node_class.cores
            for layer in range(node_class.threads):
                exists[layer] |= mask
                if layer < cores:
                    firsts[layer] |= mask
                elif layer < 2 * cores:
                    seconds[layer] |= mask
            self.threads_of += [node_class.threads] * node_class.nodes
            self.memory_mb += [node_class.memory_mb] * node_class.nodes
            self.swap_mb += [node_class.swap_mb] * node_class.nodes
            capacity = (node_class.memory_bandwidth_mbs, node_class.network_mbs, node_class.disk_mbs)
            self.capacity_of += [capacity] * node_class.nodes
            first += node_class.nodes
        self.same_nodes = NodeSet(same)  # those of which two jobs have the same ones, or none in common
        self.exists: Layers = kept(exists, self.nodes)  # all threads
        self.first_threads: Layers = kept(firsts, self.nodes)  # the first thread of every core
        self.second_threads: Layers = kept(seconds, self.nodes)  # the second thread of every core that has two
        self.threads = size(self.exists)  # of all nodes
        self.cores = size(self.first_threads)  # of all nodes
        # whether its manager fills a job's nodes in order: only the last one may have fewer processes
        self.filled = layout == FILLED and self.depth > 1
        self.licences = dict(licences)  # countable resources of the whole cluster, by name
        self.resources: dict[str, list[int]] = {}  # countable resources of each node, by name
        names = {name for node_class in classes for name, _ in node_class.resources}
        for name in sorted(names):
            self.resources[name] = []
            for node_class in classes:
                self.resources[name] += [dict(node_class.resources).get(name, 0)] * node_class.nodes
        # by name of a resource: the others whose takers are never on a node with its own, each with the nodes of that rule
        self.apart = _apart_of(self.classes, self.resources)
        self._eligible: dict[tuple[tuple[int, int], ...], NodeSet] = {}  # a cache

    def eligible(self, job: JobSpec) -> NodeSet:
        """Return the nodes that a job may have."""
        ranges = job.eligible
        if not ranges:
            return NodeSet((1 << self.nodes) - 1)
        found = self._eligible.get(ranges)
        if found is None:
            found = self._eligible[ranges] = NodeSet(nodes_in(ranges) & ((1 << self.nodes) - 1))
        return found

    def shares_sets(self, job: JobSpec) -> bool:
        """Tell whether a job may have nodes that jobs share all or none of."""
        return bool(self.same_nodes and self.eligible(job) & self.same_nodes)

    def may_meet(self, nodes: int, others: int) -> bool:
        """Tell whether one job may have some nodes and another one others: they have no node in common there, or all."""
        mine, its = nodes & self.same_nodes, others & self.same_nodes
        return not mine & its or mine == its

    def most_processes(self, job: JobSpec) -> int:
        """Return how many processes of a job like this one the empty machine holds."""
        if is_plain(job) and not self.filled:
            return self.threads
        nodes = self.eligible(job)
        if job.resources or job.licences:
            nodes = Counts(self).open_to(job, nodes)
        rooms: list[tuple[int, int]] = []
        first = 0
        for node_class in self.classes:
            here = nodes >> first & ((1 << node_class.nodes) - 1)
            room = room_on(job, node_class.threads, node_class.threads, node_class.memory_mb)
            rooms.append((here.bit_count(), room))
            first += node_class.nodes
        return self.held_by(rooms)

    def held_by(self, rooms: Sequence[tuple[int, int]]) -> int:
        """Return how many processes nodes hold, given as (nodes, room of each): in any layout, or as many on each but the last."""
        if not self.filled:
            return sum([nodes * room for nodes, room in rooms])
        return max([least * sum([nodes for nodes, room in rooms if room >= least]) for _, least in rooms], default=0)


def _apart_of(classes: Iterable[NodeClass], there: Container[str]) -> dict[str, list[tuple[str, NodeSet]]]:
    where: dict[tuple[str, str], int] = {}
    first = 0
    for item in classes:
        nodes = ((1 << item.nodes) - 1) << first
        for one, other in item.apart:
            for pair in ((one, other), (other, one)) if one in there and other in there else ():
                where[pair] = where.get(pair, 0) | nodes
        first += item.nodes
    apart: dict[str, list[tuple[str, NodeSet]]] = {}
    for (one, other), nodes in where.items():
        apart.setdefault(one, []).append((other, NodeSet(nodes)))
    return apart


def room_on(job: JobSpec, free_threads: int, all_threads: int, free_memory_mb: int) -> int:
    """Return how many processes of ``job`` a node with these free threads and memory can take; 0 if fewer than ``ppn_min``."""
    if job.exclusive and free_threads < all_threads:
        return 0
    room = free_threads // job.threads_per_process
    if job.memory_mb:
        room = min(room, free_memory_mb // job.memory_mb)
    if job.ppn_max:
        room = min(room, job.ppn_max)
    return room if room >= min(job.ppn_min, job.processes) else 0


def nearest_layout(processes: int, nodes: int) -> tuple[int, int]:
    """Return how many processes a job on so many nodes may have at all, and on each node but the last, nearest to what it has.

    A job has as many processes on each node, and fewer on the last. 10 on 8 nodes are none: on 5 nodes there would be 2.
    """
    per_node = -(-processes // nodes)
    least = (nodes - 1) * per_node + 1
    if processes >= least:
        return processes, per_node
    fewer = nodes * (per_node - 1)
    return (least, per_node) if least - processes < processes - fewer else (fewer, per_node - 1)


_ONE: Final = 1  # by identity: True and 1.0 are equal to it


class ThreadPool:
    """Free threads, memory and swap space of a machine, as jobs take and release them."""

    __slots__ = ("_everything", "counted", "counts", "free", "free_memory_mb", "free_swap_mb", "machine", "sets", "up")

    def __init__(self, machine: Machine, down: Iterable[int] = ()) -> None:
        self.machine = machine
        self._everything = NodeSet((1 << machine.nodes) - 1)
        self.up = self._everything  # nodes in service
        self.free: Layers = machine.exists  # threads of nodes in service that no job holds
        self.free_memory_mb = list(machine.memory_mb)
        self.free_swap_mb = list(machine.swap_mb)
        self.counts = Counts(machine)
        self.counted = bool(machine.resources or machine.licences)  # whether there is anything to count
        # By a set of nodes that jobs share all or none of: how many jobs have it. All are equal or have no node in common.
        self.sets: dict[int, int] = {}
        for node in down:
            self.fail_node(node)

    def clear(self) -> None:
        """Release all jobs' resources; nodes out of service stay out of service."""
        self.free = on_nodes(self.machine.exists, self.up)
        self.free_memory_mb = list(self.machine.memory_mb)
        self.free_swap_mb = list(self.machine.swap_mb)
        self.counts = Counts(self.machine)
        self.sets.clear()

    @property
    def all_up(self) -> bool:
        """Return whether every node is in service."""
        return self.up == self._everything

    def place(self, job: JobSpec, runs: Sequence[Run]) -> Layers | str:
        """Return the threads that ``runs`` name, if ``job`` can start there now; otherwise the reason why it cannot."""
        machine = self.machine
        plain = job[_CONSTRAINTS] in _PLAIN  # as `is_plain`
        processes = named = 0
        if plain and machine.depth == 1:
            # Fast path for the most frequent case; the code below finds errors.
            nodes = machine.nodes
            behind = 0  # the last run: no node is named twice
            for first, count, mask, ppn in runs:
                end = first + count
                if not (mask is ppn is _ONE and type(first) is type(count) is int and behind <= first < end <= nodes):
                    break
                named |= (1 << end) - (1 << first)
                processes += count
                behind = end
            else:
                if processes == job.processes and not named & ~self.free[0]:
                    return (named,)  # type: ignore[return-value]  # a call of NodeSet would cost 1 % of a start
            processes = named = 0
        for run in runs:
            first, count, mask, ppn = run
            if not type(first) is type(count) is type(mask) is type(ppn) is int:
                return f"run {list(run)} is not of whole numbers"
            if first < 0 or count < 1 or first + count > machine.nodes:
                return f"run {list(run)} names nodes outside 0..{machine.nodes - 1}"
            if mask < 1 or mask.bit_length() > machine.depth:
                return f"run {list(run)} names threads outside 0..{machine.depth - 1}"
            threads = mask.bit_count()
            if ppn < 1 or (
                threads < ppn * job.threads_per_process if job.exclusive else threads != ppn * job.threads_per_process
            ):
                return f"run {list(run)} gives {threads} threads to {ppn} processes of {job.threads_per_process}"
            nodes = ((1 << count) - 1) << first
            if named & nodes:
                return f"run {list(run)} names a node twice"
            named |= nodes
            processes += count * ppn
        if processes != job.processes:
            return f"{processes} processes placed, {job.processes} wanted"
        layers = layers_of(runs, machine.depth, machine.nodes)
        busy = busy_refusal(layers, self.free)
        if busy is not None:
            return busy
        if machine.filled and (reason := _layout_refusal(runs)) is not None:
            return reason
        if machine.same_nodes and (reason := self._sharing_refusal(named & machine.same_nodes)) is not None:
            return reason
        return layers if plain else self._shape_refusal(job, runs) or self._choice_refusal(job, runs, named) or layers

    def _sharing_refusal(self, named: int) -> str | None:
        """Return why a job cannot have these of the nodes that jobs share all or none of, or None."""
        for there in self.sets if named not in self.sets else ():
            if named & there:
                node = (named & there & -(named & there)).bit_length() - 1
                return f"node {node} has a job with other nodes than these, and jobs share all such nodes or none"
        return None

    def _hold(self, runs: Sequence[Run], change: int) -> None:
        """Count a job more (1) or less (-1) on its nodes of that kind."""
        mine = nodes_of(runs) & self.machine.same_nodes
        left = self.sets.get(mine, 0) + change
        if mine and left:
            self.sets[mine] = left
        else:
            self.sets.pop(mine, None)

    def _shape_refusal(self, job: JobSpec, runs: Sequence[Run]) -> str | None:
        machine = self.machine
        short = 0
        for first, count, mask, ppn in runs:
            if job.ppn_max and ppn > job.ppn_max:
                return f"{ppn} processes on a node, at most {job.ppn_max} wanted"
            if ppn < job.ppn_min:
                short += count
            for node in range(first, first + count):
                if job.exclusive and mask != (1 << machine.threads_of[node]) - 1:
                    return f"node {node} is not taken whole for an exclusive job"
                if ppn * job.memory_mb > self.free_memory_mb[node]:
                    return f"node {node} has {self.free_memory_mb[node]} MiB free, {ppn * job.memory_mb} wanted"
        if short > 1:
            return f"{short} nodes hold fewer than {job.ppn_min} processes"
        return None

    def _choice_refusal(self, job: JobSpec, runs: Sequence[Run], named: int) -> str | None:
        others = named & ~self.machine.eligible(job)
        if others:
            return f"node {(others & -others).bit_length() - 1} is not among those that it may have"
        return self.counts.refusal(job, runs) if job.resources or job.licences else None

    def take(self, job: JobSpec, runs: Sequence[Run], layers: Layers) -> None:
        """Give these threads to ``job``; they must be free."""
        if self.machine.same_nodes:
            self._hold(runs, 1)
        if self.counted and (job.resources or job.licences):
            self.counts.count(job, runs, -1)
        free = self.free
        if len(layers) == 1:
            self.free = (free[0] & ~layers[0],)  # type: ignore[assignment]  # likewise
        elif isinstance(free, Joined) and self.all_up:  # else a job may be told of on a node that has failed
            self.free = free.changed(layers, runs, -1)
        else:
            self.free = minus(free, layers)
        if job.memory_mb:
            for node, processes in each_node(runs):
                self.free_memory_mb[node] -= processes * job.memory_mb

    def give_back(self, job: JobSpec, runs: Sequence[Run], layers: Layers) -> None:
        """Take these threads back from ``job``; those of nodes out of service stay unavailable."""
        if self.machine.same_nodes:
            self._hold(runs, -1)
        if self.counted and (job.resources or job.licences):
            self.counts.count(job, runs, 1)
        up = self.up
        if len(layers) == 1:
            self.free = (self.free[0] | (layers[0] & up),)  # type: ignore[assignment]  # likewise
        elif isinstance(self.free, Joined) and self.all_up:
            self.free = self.free.changed(layers, runs, 1)
        else:
            self.free = union(self.free, on_nodes(layers, up))
        if job.memory_mb:
            for node, processes in each_node(runs):
                self.free_memory_mb[node] += processes * job.memory_mb

    def disk_refusal(self, job: JobSpec, runs: Sequence[Run]) -> str | None:
        """Return the reason why a job on ``runs`` cannot be suspended to disk, or None if it can."""
        for node, processes in each_node(runs) if job.memory_mb else ():
            if processes * job.memory_mb > self.free_swap_mb[node]:
                return f"node {node} has {self.free_swap_mb[node]} MiB of swap space free, {processes * job.memory_mb} wanted"
        return None

    def return_refusal(self, job: JobSpec, runs: Sequence[Run], layers: Layers) -> str | None:
        """Return the reason why a job on disk cannot resume on its nodes, or None if it can."""
        busy = busy_refusal(layers, self.free)
        if busy is not None:
            return busy
        for node, processes in each_node(runs) if job.memory_mb else ():
            if processes * job.memory_mb > self.free_memory_mb[node]:
                return f"node {node} has {self.free_memory_mb[node]} MiB free, {processes * job.memory_mb} wanted"
        reason = self._sharing_refusal(nodes_of(runs) & self.machine.same_nodes) if self.machine.same_nodes else None
        return reason or (self.counts.refusal(job, runs) if job.resources or job.licences else None)

    def to_disk(self, job: JobSpec, runs: Sequence[Run], layers: Layers) -> None:
        """Take these threads back from ``job``, whose memory goes to disk."""
        self.give_back(job, runs, layers)
        self.put_on_disk(job, runs)

    def from_disk(self, job: JobSpec, runs: Sequence[Run], layers: Layers) -> None:
        """Give ``job`` its threads again; they must be free."""
        self.drop_from_disk(job, runs)
        self.take(job, runs, layers)

    def put_on_disk(self, job: JobSpec, runs: Sequence[Run]) -> None:
        """Give ``job``, which holds no threads now, the swap space for its memory."""
        for node, processes in each_node(runs) if job.memory_mb else ():
            self.free_swap_mb[node] -= processes * job.memory_mb

    def drop_from_disk(self, job: JobSpec, runs: Sequence[Run]) -> None:
        """Release the swap space of ``job``."""
        for node, processes in each_node(runs) if job.memory_mb else ():
            self.free_swap_mb[node] += processes * job.memory_mb

    def fail_node(self, node: int) -> None:
        """Take ``node`` out of service."""
        self.up = NodeSet(self.up & ~(1 << node))
        self.free = on_nodes(self.free, self.up)

    def return_node(self, node: int, holders: Iterable[Layers]) -> None:
        """Put ``node`` back into service. All of it is free except what running jobs hold: their threads, one set for each job."""
        held = none_of(self.free)
        for layers in holders:
            held = union(held, layers)
        bit = 1 << node
        self.up = NodeSet(self.up | bit)
        self.free = union(self.free, minus(on_nodes(self.machine.exists, bit), held))


def _layout_refusal(runs: Sequence[Run]) -> str | None:
    """Return why a manager that fills nodes in order cannot make this layout, or None."""
    placed = [(first, count, processes) for first, count, _, processes in sorted(runs)]
    most = placed[0][2]
    if any(processes != most for _, _, processes in placed[:-1]) or placed[-1][2] > most:
        return f"layout {'+'.join([str(p) for _, n, p in placed for _ in range(min(n, 8))])}: the manager fills nodes in order"
    _, count, processes = placed[-1]
    if processes < most and count > 1:
        return f"{count} nodes with {processes} processes after nodes with {most}: the manager fills nodes in order"
    return None


_WHOLE = (int, type(None))


def times_refusal(granted_us: int | None, start: StartJob | ReviseJob) -> str | None:
    """Return the error in the times of a start or a revision, or None; ``granted_us`` is the limit that may not fall."""
    estimate_us, limit_us = start.estimate_us, start.limit_us
    if limit_us is granted_us and type(estimate_us) is int and 1 <= estimate_us <= MAX_SPAN_US:
        return None  # nearly always; the code below finds errors
    if type(estimate_us) is not int or type(limit_us) not in _WHOLE:
        return f"estimate {estimate_us!r} and limit {limit_us!r} must be whole microseconds"
    if not 1 <= estimate_us <= MAX_SPAN_US or (limit_us is not None and limit_us > MAX_SPAN_US):
        return f"an estimate of {estimate_us} us and a limit of {limit_us} us"
    if limit_us is None or granted_us is None:
        return None if limit_us is granted_us else f"limit {limit_us} for a job whose own is {granted_us}"
    if limit_us < granted_us:
        return f"limit {limit_us} us is below the job's own, {granted_us} us"
    return None


def stretch(span_us: int, by: float) -> int:
    """Return ``span_us`` times ``by``, rounded up, but no more than a start may ask for."""
    return span_us if by == 1.0 else min(round_up_us(span_us * by), max(span_us, MAX_SPAN_US))
