"""Which nodes a job may have: those of its partitions, with its features, outside others' reservations, and so on.

A job has one or several *places*. All of its nodes must be of one: nodes of one partition, or of one of the features that `[a|b]`
names. The protocol knows one set of nodes, so a job that takes several nodes is told of one place: the first that has room now.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, islice, product
from typing import Final, NamedTuple

from cosched_hwmodel.units import NodeSet
from cosched_plugin.common.errors import UsageError
from cosched_plugin.common.slurm_notation import natural
from cosched_plugin.common.threads import bits_of
from cosched_plugin.protocol.limits import MAX_THREADS
from cosched_plugin.protocol.messages import Amounts, NodeClass
from cosched_plugin.slurm.layouts import Layout, laid_out
from cosched_plugin.slurm.records import Reservation, SlurmJob, SlurmNode, SlurmPartition
from cosched_plugin.slurm.site_file import Site

_FEATURE: Final = re.compile(r"\s*([][()&|,]|[^][()&|,*\s]+)")
# Options by which a job asks for nodes with so much of something, and whether a node has less.
_LACKS: Final[Mapping[str, Callable[[SlurmJob, SlurmNode], bool]]] = {
    "--tmp": lambda job, node: node.disk_mb < job.disk_mb,
    "--sockets-per-node": lambda job, node: node.sockets < job.sockets,
    "--cores-per-socket": lambda job, node: node.cores_per_socket < job.cores_per_socket,
}


class Place(NamedTuple):
    """A set of nodes, of which a job may have any, or must have some."""

    partition: str
    tier: int  # the higher, the sooner
    nodes: int  # a bit for each
    layout: Layout
    required: int = 0  # those of them that it must have
    windows: tuple[int, ...] = ()  # neighbours, of which it must have some; none: it may have any nodes


class Places:
    """The nodes of our partitions, numbered by their names, as the last polls show them."""

    def __init__(
        self, first: Sequence[SlurmNode], partitions: Collection[str], licences: Amounts, *, even: bool, chooses: bool
    ) -> None:
        """``licences``: those that are counted.

        ``even``: as of `laid_out`; ``chooses``: whether the policy honours that a job may have some nodes only.
        """
        self.version = 0  # it changes when an answer may
        self.changed: dict[str, str] = {}  # what a scheduler is not told of as it is now, and why
        self._first = {node.name: node for node in first}
        self._ours, self._licences = frozenset(partitions), frozenset(licences)
        self._numbers = {node.name: number for number, node in enumerate(first)}
        self._all = (1 << len(first)) - 1
        self._even = even
        self._chooses = chooses
        self._seen: tuple[object, ...] = ()
        self.nodes: list[SlurmNode] = []
        self._kinds: list[tuple[SlurmNode, int]] = []  # alike ones, of which a site has few
        self.partitions: Mapping[str, SlurmPartition] = {}
        self.reservations: Sequence[Reservation] = ()
        self._order: list[int] = []  # Slurm's own, of the nodes

    def update(
        self,
        nodes: Sequence[SlurmNode],
        partitions: Sequence[SlurmPartition],
        reservations: Sequence[Reservation],
        licences: Sequence[tuple[str, int]],
    ) -> None:
        """Take what was polled."""
        nodes = [node._replace(planned=False) if node.planned else node for node in nodes]  # that changes no answer
        if self._seen == (seen := (nodes, partitions, reservations, licences)):
            return
        self.version, self._seen = self.version + 1, seen
        self.changed = {f"node {node.name}": why for node in nodes if (why := self._change(node))}
        if self._licences:
            others = self._licences.symmetric_difference(licences)
            self.changed |= {f"licence {name}": "there was another number of it at the start" for name, _ in others}
        known = {node.name: node for node in (*self.nodes, *nodes) if node.name in self._numbers}
        self.nodes = [known[name] for name in self._numbers]
        kinds: dict[SlurmNode, int] = {}
        for number, node in enumerate(self.nodes):
            kind = node._replace(name="", takes_jobs=None, reserved=False)
            kinds[kind] = kinds.get(kind, 0) | 1 << number
        self._kinds = list(kinds.items())
        self._order = [self._numbers[node.name] for node in nodes if node.name in self._numbers]
        self.partitions = {partition.name: partition for partition in partitions}
        self.reservations = reservations

    def _change(self, node: SlurmNode) -> str:
        was = self._first.get(node.name)
        if was is None:
            return "" if self._ours.isdisjoint(node.partitions) else "it has come since the start"
        before, now = [
            (each.sockets, each.cores_per_socket, each.threads_per_core, each.memory_mb) for each in (was, node)
        ]
        return "" if before == now else "it had other cores or memory at the start"

    def bits(self, names: Iterable[str]) -> int:
        """Return the nodes of some names, as far as they are ours."""
        return sum({1 << self._numbers[name] for name in names if name in self._numbers})

    def reserved(self, now_s: int) -> int:
        """Return the nodes that are kept for some jobs at a moment."""
        return self._reserved_to("", now_s, 1)

    def alone(self, partition: str) -> bool:
        """Return whether each job of a partition has its nodes to itself."""
        return partition in self.partitions and self.partitions[partition].alone

    def opens_s(self, job: SlurmJob) -> int:
        """Return when the first of a job's reservations begins; 0 where it has none, or none is known."""
        mine = job.reservation.split(",")
        return min([each.start_s for each in self.reservations if each.name in mine], default=0)

    def of(self, job: SlurmJob, partitions: Sequence[str], now_s: int) -> list[Place] | str:
        """Return the places of a job in some partitions, those of the highest tier first; in words why it has none."""
        found: list[Place] = []
        why = ""
        for name in partitions:
            places = self._of_partition(job, name, now_s)
            if isinstance(places, str):
                kept = self._kept_from(job, now_s) & self._in(name)
                until = f"; reserved while it would run: {','.join(self.nodes[number].name for number in bits_of(NodeSet(kept)))}"
                why = why or places + (until if kept else "")
            else:
                found += places
        if not found:
            return why
        if not self._chooses and any(place.nodes != self._all for place in found):
            return "it is limited to some nodes, which the policy does not honour"
        return sorted(found, key=lambda place: -place.tier)

    def _of_partition(self, job: SlurmJob, name: str, now_s: int) -> list[Place] | str:
        partition = self.partitions.get(name) or SlurmPartition(name, True, True, 0, None, None, None, 0, False)
        if not partition.starts:
            return f"partition {name} starts no jobs"
        if partition.most_min is not None and (job.limit_min is None or job.limit_min > partition.most_min):
            return f"its limit is above the {partition.most_min} minutes of partition {name}"
        nodes = self._open_to(job, name, now_s)
        if isinstance(nodes, str):
            return nodes
        required = self.bits(job.required)
        if required.bit_count() < len(set(job.required)) or required & ~nodes:
            return f"--nodelist={','.join(job.required)} has nodes that are closed to it in partition {name}"
        sets = feature_sets(job.features, self._with)
        if sets is None:
            return f"--constraint={job.features} is not supported"
        found: list[Place] = []
        why = f"no node of partition {name} has --constraint={job.features}"
        for some in sets:
            layouts = self._layouts(job, nodes & some)
            for layout, there in layouts.items():
                if isinstance(layout, str):
                    why = f"no node that is open to it in partition {name} offers {layout}"
                    continue
                problem = _limits(partition, job, layout, self.nodes[0].threads_per_core)
                why = problem or self._place(job, partition, there, layout, required, found) or why
        return found or why

    def _place(
        self, job: SlurmJob, partition: SlurmPartition, nodes: int, layout: Layout, required: int, found: list[Place]
    ) -> str:
        """Add the place with some nodes; return in words why it is none."""
        if required.bit_count() > layout.nodes or required & ~nodes:
            return f"--nodelist does not go with {layout.nodes} nodes"
        if nodes.bit_count() < layout.nodes:
            return f"it takes {layout.nodes} nodes, and partition {partition.name} has {nodes.bit_count()} for it"
        windows: tuple[int, ...] = ()
        if job.contiguous and layout.nodes > 1:
            windows = tuple(window for window in self._windows(nodes, layout.nodes) if not required & ~window)
            if not windows:
                return f"--contiguous: partition {partition.name} has no {layout.nodes} neighbours for it"
        if required.bit_count() == layout.nodes:
            nodes = required
        if not any(place.nodes & nodes == nodes and place.layout == layout for place in found):
            found.append(Place(partition.name, partition.tier, nodes, layout, required, windows))
        return ""

    def _layouts(self, job: SlurmJob, nodes: int) -> dict[Layout | str, int]:
        """Return some nodes by how a job would be laid out on them; in words what the others lack."""
        found: dict[Layout | str, int] = {}
        for node, alike in self._kinds:
            if nodes & alike:
                layout = laid_out(job, node, even=self._even)
                found[layout] = found.get(layout, 0) | nodes & alike
        return found

    def _open_to(self, job: SlurmJob, partition: str, now_s: int) -> int | str:
        """Return the nodes of a partition that a job may have, whatever their features; in words why there are none."""
        nodes = self._in(partition) & ~self.bits(job.excluded)
        if not nodes:
            return f"{'--exclude leaves' if job.excluded else 'there is'} no node of partition {partition}"
        if job.reservation:
            mine = job.reservation.split(",")
            there = [each for each in self.reservations if each.name in mine]
            nodes &= self.bits(name for each in there for name in each.nodes)
            if not nodes:
                return f"--reservation={job.reservation} has no node of partition {partition}, or is not known"
        nodes &= ~self._kept_from(job, now_s)
        if not nodes:
            return f"partition {partition} has no node for it"
        for option, lacks in _LACKS.items():
            nodes &= ~self._which(partial(lacks, job))
            if not nodes:
                return f"no node of partition {partition} has what {option} requests"
        return nodes

    def _in(self, partition: str) -> int:
        return self._which(lambda node: partition in node.partitions)

    def _kept_from(self, job: SlurmJob, now_s: int) -> int:
        """Return the nodes that reservations of others have while a job would run, if it began now."""
        return self._reserved_to(job.reservation, now_s, 60 * job.limit_min if job.limit_min is not None else 1 << 40)

    def _reserved_to(self, names: str, now_s: int, run_s: int) -> int:
        """Return the nodes that reservations of other names have at some time of a run that begins now."""
        mine = names.split(",")
        others = [
            each
            for each in self.reservations
            if each.name not in mine and each.start_s < now_s + run_s and each.end_s > now_s
        ]
        return self.bits(name for each in others for name in each.nodes)

    def _with(self, feature: str) -> int:
        return self._which(lambda node: feature in node.features)

    def _which(self, fits: Callable[[SlurmNode], bool]) -> int:
        return sum(alike for node, alike in self._kinds if fits(node))

    def _windows(self, nodes: int, count: int) -> Iterator[int]:
        """Yield the sets of so many of some nodes that are neighbours in Slurm's order."""
        row: list[int] = []
        for number in self._order:
            row = [*row[-count + 1 :], number] if nodes >> number & 1 else []
            if len(row) == count:
                yield sum(1 << each for each in row)


def _limits(partition: SlurmPartition, job: SlurmJob, layout: Layout, per_core: int) -> str:
    """Return in words what a partition does not let a job have."""
    cpus = layout.processes * layout.cores * per_core
    if layout.nodes < partition.least_nodes:
        return f"it takes {layout.nodes} nodes, and partition {partition.name} at least {partition.least_nodes}"
    if partition.most_nodes is not None and layout.nodes > partition.most_nodes:
        return f"it takes {layout.nodes} nodes, and partition {partition.name} at most {partition.most_nodes}"
    if partition.most_cpus is not None and cpus > partition.most_cpus:
        return f"it takes {cpus} CPUs of a node, and partition {partition.name} at most {partition.most_cpus}"
    # Slurm refuses to release such a job, and does release it (22.05, 26.05).
    if partition.most_mb is not None and (asked_mb := job.memory_per_node) > partition.most_mb:
        return f"it takes {asked_mb} MiB of a node, and partition {partition.name} at most {partition.most_mb}"
    return ""


def chosen(places: Sequence[Place], has_room: Callable[[int], bool]) -> tuple[Layout, int]:
    """Return the layout and the nodes that a job is told of: all places, if it takes one node; else one with room, or the most."""
    first = places[0]
    if first.layout.nodes == 1 and all(place.layout == first.layout for place in places):
        nodes = 0
        for place in places:
            nodes |= place.nodes
        return first.layout, nodes
    if len(places) == 1:
        return first.layout, _narrowed(first, has_room)
    best, most = first, -1
    for place in places:
        # As many as it takes are enough to know: what a node has left is counted thread by thread.
        room = sum(1 for _ in islice(filter(has_room, bits_of(NodeSet(place.nodes))), place.layout.nodes))
        if room >= place.layout.nodes:
            return place.layout, _narrowed(place, has_room)
        if room > most:
            best, most = place, room
    return best.layout, _narrowed(best, has_room)


def _narrowed(place: Place, has_room: Callable[[int], bool]) -> int:
    """Return the nodes of a place; exactly as many as the job takes, if not any of them will do."""
    if place.windows:
        return max(place.windows, key=lambda window: sum(has_room(number) for number in bits_of(NodeSet(window))))
    if not place.required:
        return place.nodes
    others = sorted(bits_of(NodeSet(place.nodes & ~place.required)), key=lambda number: not has_room(number))
    return place.required | sum(1 << number for number in others[: place.layout.nodes - place.required.bit_count()])


# ---------------------------------------------------------------- the machine


def nodes_of(nodes: Sequence[SlurmNode], partitions: Sequence[str], share: int) -> list[SlurmNode]:
    """Return the nodes of some partitions in the order of their names.

    UsageError where one has none, or for what cannot be planned with.
    """
    wanted, known = set(partitions), {name for node in nodes for name in node.partitions}
    ours = sorted((node for node in nodes if wanted & set(node.partitions)), key=lambda node: natural(node.name))
    if missing := sorted(wanted - known):
        raise UsageError(f"no nodes in partition {', '.join(missing)}; there are {', '.join(sorted(known)) or 'none'}")
    for node in ours:
        if node.threads_per_core != ours[0].threads_per_core:
            kinds = [f"{one.name} {one.threads_per_core}" for one in (ours[0], node)]
            raise UsageError(f"all nodes must have the same number of threads a core: {' and '.join(kinds)}")
        if node.sockets * node.cores_per_socket * share > MAX_THREADS:
            cores = node.sockets * node.cores_per_socket
            raise UsageError(
                f"node {node.name} has {cores} cores, each for {share} jobs; the limit is {MAX_THREADS} in all"
            )
    return ours


def classes_of(nodes: Sequence[SlurmNode], site: Site, share: int) -> tuple[NodeClass, ...]:
    """Return the classes of the nodes, in their order; with ``share``, a core has a thread for each job."""
    each = [
        NodeClass(
            1, node.sockets, node.cores_per_socket, share, node.memory_mb, *site.rates_of(node.name), resources=node.resources
        )
        for node in nodes
    ]  # fmt: skip
    return tuple(kind._replace(nodes=len(list(alike))) for kind, alike in groupby(each))


# ---------------------------------------------------------------- features


def feature_sets(text: str, having: Callable[[str], int]) -> list[int] | None:
    """Return the sets of nodes that ``a&b``, ``a|b``, ``(a|b)&c`` or ``[a|b]`` allow; None for what asks for numbers of nodes.

    All nodes of a job must be of one of them. Without brackets there is one. Slurm reads from left to right, and `,` as `&`.
    """
    if not text:
        return [-1]
    tokens = _FEATURE.findall(text)
    if "".join(tokens) != re.sub(r"\s", "", text):
        return None
    choices = [_alternatives(inner) for inner in re.findall(r"\[([^]]*)\]", text)]
    if any(choice is None for choice in choices):
        return None
    found = []
    for pick in product(*[choice or [] for choice in choices]):
        names = iter(pick)
        outside = _FEATURE.findall(re.sub(r"\[[^]]*\]", lambda _, names=names: next(names), text))  # type: ignore[misc]
        nodes = _value(outside, having)
        if nodes is None or outside:
            return None
        found.append(nodes)
    return found


def _alternatives(inner: str) -> list[str] | None:
    parts = inner.split("|")
    return None if re.search(r"[][()&,*]", inner) or not all(part.strip() for part in parts) else parts


def _value(tokens: list[str], having: Callable[[str], int]) -> int | None:
    """Return the nodes of an expression, and take its tokens; None for what is none."""
    value, sign = -1, "&"
    while tokens:
        token = tokens.pop(0)
        if token == "(":
            inner = _value(tokens, having)
            if inner is None or not tokens or tokens.pop(0) != ")":
                return None
        elif token in "[])&|,":
            return None
        else:
            inner = having(token)
        value = value | inner if sign == "|" else value & inner
        if not tokens or tokens[0] == ")":
            return value
        sign = tokens.pop(0)
        if sign not in "&|,":
            return None
    return None
