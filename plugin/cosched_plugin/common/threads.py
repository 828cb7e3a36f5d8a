"""Sets of hardware threads of a machine, and how they are combined.

A set is a sequence of *layers*: layer ``k`` is one integer whose bit ``n`` stands for thread ``k`` of node ``n``. Nodes of few threads
have a tuple of them, combined layer by layer, thousands of nodes at a time. Of deep nodes one integer has all layers side by side:
an operation on 256 layers of 1,000 nodes takes 40 us, on that integer 1 us.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final, TypeAlias, TypeVar, cast, overload

from cosched_hwmodel.units import NodeSet, ThreadMask
from cosched_plugin.protocol.messages import Run

_ONE_THREAD: Final = ThreadMask(1)
_FEW: Final = 8  # members that are taken one by one sooner than by halving
_Members = TypeVar("_Members", NodeSet, ThreadMask)
_new = tuple.__new__
# Layers from which on a set is one integer.
DEEP: Final = 9


class Joined:
    """A set of threads of deep nodes: bit ``k * nodes + n`` of `threads` is thread ``k`` of node ``n``; immutable.

    It reads as the tuple of its layers, and is equal to it.
    """

    __slots__ = ("_layers", "_size", "counts", "depth", "nodes", "threads")

    def __init__(self, threads: int, nodes: int, depth: int) -> None:
        self.threads = threads
        self.nodes = nodes
        self.depth = depth
        # Caches: the layers one by one, how many threads these are, and how many by node.
        self._layers: tuple[NodeSet, ...] | None = None
        self._size: int | None = None
        self.counts: Any = None  # an array of numpy's, which not every command loads

    @property
    def size(self) -> int:
        """Return the number of threads in the set."""
        if self._size is None:
            self._size = self.threads.bit_count()
        return self._size

    @property
    def layers(self) -> tuple[NodeSet, ...]:
        """Return the layers, one by one."""
        if self._layers is None:
            nodes, depth = self.nodes, self.depth
            every = (1 << nodes) - 1
            if nodes % 8:
                self._layers = tuple([NodeSet(self.threads >> k * nodes & every) for k in range(depth)])
            else:  # whole bytes: a third of the time
                width = nodes // 8
                data = self.threads.to_bytes(width * depth, "little")
                each = [data[at : at + width] for at in range(0, len(data), width)]
                self._layers = tuple([NodeSet(int.from_bytes(part, "little")) for part in each])
        return self._layers

    @property
    def any_layer(self) -> NodeSet:
        """Return the nodes that have at least one thread in the set."""
        threads, depth = self.threads, self.depth
        while depth > 1:
            depth = (depth + 1) // 2  # the upper half on the lower one, which both may have the middle
            threads = threads >> depth * self.nodes | threads & ((1 << depth * self.nodes) - 1)
        return NodeSet(threads)

    def of_same(self, threads: int) -> Joined:
        """Return another set of threads of the same machine."""
        return Joined(threads, self.nodes, self.depth)

    def changed(self, other: Layers, runs: Iterable[Run], sign: int) -> Joined:
        """Return the set with (1) or without (-1) ``other``, the threads that ``runs`` name: none of them are in it, or all."""
        found = self.of_same(self.threads ^ side_by_side(other, self.nodes))
        found._size = self.size + sign * size(other)
        if self.counts is not None:
            counts = found.counts = self.counts.copy()
            for first, count, mask, _ in runs:
                counts[first : first + count] += sign * mask.bit_count()
            counts.setflags(write=False)  # whoever changed it would change it for all
        return found

    @overload
    def __getitem__(self, index: int) -> NodeSet: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[NodeSet, ...]: ...

    def __getitem__(self, index: int | slice) -> NodeSet | tuple[NodeSet, ...]:
        return self.layers[index]

    def __iter__(self) -> Iterator[NodeSet]:
        return iter(self.layers)

    def __len__(self) -> int:
        return self.depth

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Joined):
            return self.threads == other.threads and self.nodes == other.nodes and self.depth == other.depth
        return self.layers == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.threads)

    def __repr__(self) -> str:
        return f"Joined{self.layers}"


Layers: TypeAlias = tuple[NodeSet, ...] | Joined


def kept(layers: Iterable[int], nodes: int) -> Layers:
    """Return a set of threads, given by its layers, in the form for a machine of so many nodes."""
    each = cast("tuple[NodeSet, ...]", tuple(layers))
    return each if len(each) < DEEP else Joined(side_by_side(each, nodes), nodes, len(each))


def side_by_side(layers: Layers, nodes: int) -> int:
    """Return a set of threads as one integer: bit ``k * nodes + n`` is thread ``k`` of node ``n``."""
    if len(layers) == 1:
        return layers[0]
    if isinstance(layers, Joined):
        return layers.threads
    if nodes % 8 == 0 and len(layers) >= DEEP:  # each shift copies what is joined so far
        return int.from_bytes(b"".join([layer.to_bytes(nodes // 8, "little") for layer in layers]), "little")
    joined = 0
    for layer in reversed(layers):
        joined = joined << nodes | layer
    return joined


def apart(joined: int, nodes: int, depth: int) -> Layers:
    """Return the set of threads that is one integer, of ``depth`` layers: the inverse of `side_by_side`."""
    if depth == 1:
        return (NodeSet(joined),)
    if depth >= DEEP:
        return Joined(joined, nodes, depth)
    every = (1 << nodes) - 1
    return tuple([NodeSet(joined >> shift & every) for shift in range(0, nodes * depth, nodes)])


def nodes_in(ranges: Iterable[tuple[int, int]]) -> NodeSet:
    """Return the nodes of ranges (first, count)."""
    nodes = 0
    for first, count in ranges:
        nodes |= ((1 << count) - 1) << first
    return NodeSet(nodes)


def ranges_in(bits: int) -> tuple[tuple[int, int], ...]:
    """Return a set of nodes or hardware threads as ranges (first, count), ascending."""
    found: list[tuple[int, int]] = []
    at = 0
    while bits:
        gap = (bits & -bits).bit_length() - 1
        bits >>= gap
        count = (~bits & (bits + 1)).bit_length() - 1
        found.append((at + gap, count))
        at += gap + count
        bits >>= count
    return tuple(found)


def lowest_nodes(need: int, free: NodeSet) -> tuple[Run, ...] | None:
    """Return first fit where a node has one thread, by whole runs of set bits from the lowest; None if there are not enough."""
    if need > free.bit_count():
        return None
    runs: list[Run] = []
    first = 0
    left: int = free  # from node `first` on
    while True:
        gap = (left & -left).bit_length() - 1
        first += gap
        left >>= gap
        length = (left ^ (left + 1)).bit_length() - 1
        if length >= need:
            runs.append(_new(Run, (first, need, _ONE_THREAD, 1)))
            return tuple(runs)
        runs.append(_new(Run, (first, length, _ONE_THREAD, 1)))  # `Run(...)` takes twice as long
        need -= length
        first += length
        left >>= length


def lowest_threads(members: _Members, count: int) -> _Members:
    """Return the ``count`` lowest members of a set of hardware threads or of nodes."""
    if count >= members.bit_count():
        return members
    if count <= _FEW:
        left: int = members
        for _ in range(count):
            left &= left - 1
        return cast("_Members", members ^ left)
    low, high = count, members.bit_length()  # how many bits hold so many members
    while low < high:
        middle = (low + high) // 2
        if (members & ((1 << middle) - 1)).bit_count() < count:
            low = middle + 1
        else:
            high = middle
    return cast("_Members", members & ((1 << low) - 1))


def lowest_of_layers(need: int, free: Layers) -> tuple[Run, ...]:
    """Return first fit where a node has several threads; the caller has checked that there are enough."""
    depth = every = some = 0  # of the threads that are free on any node
    whole = -1
    for thread, layer in enumerate(free):
        if layer:
            depth += 1
            every |= 1 << thread
            whole &= layer
            some |= layer
    full_mask = ThreadMask(every)
    runs: list[Run] = []
    while need:
        low = some & -some
        node = low.bit_length() - 1
        if whole & low and need >= depth:
            above = whole >> node
            length = min((~above & (above + 1)).bit_length() - 1, need // depth)
            runs.append(_new(Run, (node, length, full_mask, depth)))
            need -= length * depth
            some &= ~(((1 << length) - 1) << node)
            continue
        mask = full_mask if whole & low else thread_mask(free, node)
        threads = min(mask.bit_count(), need)
        runs.append(_new(Run, (node, 1, lowest_threads(mask, threads), threads)))
        need -= threads
        some ^= low
    return tuple(runs)


def nodes_of(runs: Iterable[Run]) -> NodeSet:
    """Return the nodes that ``runs`` name."""
    nodes = 0
    for first, count, _, _ in runs:
        nodes |= ((1 << count) - 1) << first
    return nodes  # type: ignore[return-value]  # a call of NodeSet takes as long as the loop


def layers_of(runs: Iterable[Run], depth: int, nodes: int = 0) -> Layers:
    """Return the threads that ``runs`` name as ``depth`` layers; with ``nodes``, those of the machine, in the form for it."""
    if depth == 1:
        return (nodes_of(runs),)
    if nodes and depth >= DEEP:
        return _deep_layers(tuple(runs), depth, nodes)
    layers = [0] * depth
    for first, count, mask, _ in runs:
        named = ((1 << count) - 1) << first
        for thread in bits_of(mask):
            layers[thread] |= named
    return cast("Layers", tuple(layers))


# The policy, the core and the manager each ask what a start takes.
@lru_cache(8)
def _deep_layers(runs: tuple[Run, ...], depth: int, nodes: int) -> Joined:
    by_mask: dict[int, int] = {}
    for first, count, mask, _ in runs:
        by_mask[mask] = by_mask.get(mask, 0) | ((1 << count) - 1) << first
    threads = size = 0
    for each, named in by_mask.items():
        threads |= threads_on(NodeSet(named), ThreadMask(each), nodes)
        size += named.bit_count() * each.bit_count()
    found = Joined(threads, nodes, depth)
    found._size = size
    return found


@lru_cache(64)
def threads_on(named: NodeSet, mask: ThreadMask, nodes: int) -> int:
    """Return the threads ``mask`` of some of ``nodes`` nodes, side by side."""
    threads, place, left = 0, 0, int(mask)
    while left:
        gap = (left & -left).bit_length() - 1
        left >>= gap
        length = (left ^ (left + 1)).bit_length() - 1
        threads |= _repeated(named, nodes, length) << (place + gap) * nodes
        left >>= length
        place += gap + length
    return threads


@lru_cache(64)
def _repeated(named: int, nodes: int, times: int) -> int:
    """Return a set of nodes as ``times`` equal layers side by side."""
    made, done = named, 1
    while 2 * done <= times:
        made |= made << done * nodes
        done *= 2
    return made | made << (times - done) * nodes


def none_of(like: Layers) -> Layers:
    """Return the empty set of threads of the machine of another set."""
    return like.of_same(0) if isinstance(like, Joined) else (NodeSet(0),) * len(like)


def union(a: Layers, b: Layers) -> Layers:
    """Return the threads in either set."""
    if len(a) == 1:
        return (NodeSet(a[0] | b[0]),)
    if isinstance(a, Joined):
        return a.of_same(a.threads | side_by_side(b, a.nodes))
    return cast("Layers", tuple([x | y for x, y in zip(a, b, strict=True)]))


def minus(a: Layers, b: Layers) -> Layers:
    """Return the threads of ``a`` that are not in ``b``."""
    if len(a) == 1:
        return (NodeSet(a[0] & ~b[0]),)
    if isinstance(a, Joined):  # of long integers `~` takes twenty times as long as the rest
        return a.of_same(a.threads ^ (a.threads & side_by_side(b, a.nodes)))
    return cast("Layers", tuple([x & ~y for x, y in zip(a, b, strict=True)]))


def common(a: Layers, b: Layers) -> Layers:
    """Return the threads in both sets."""
    if isinstance(a, Joined):
        return a.of_same(a.threads & side_by_side(b, a.nodes))
    return cast("Layers", tuple([x & y for x, y in zip(a, b, strict=True)]))


def on_nodes(layers: Layers, nodes: int) -> Layers:
    """Return those threads of a set that are on some nodes."""
    if isinstance(layers, Joined):
        return layers.of_same(layers.threads & _repeated(nodes, layers.nodes, layers.depth))
    return cast("Layers", tuple([layer & nodes for layer in layers]))


def size(layers: Layers) -> int:
    """Return the number of threads in the set."""
    if len(layers) == 1:
        return layers[0].bit_count()
    if isinstance(layers, Joined):
        return layers.size
    return sum(map(int.bit_count, layers))


def any_layer(layers: Layers) -> NodeSet:
    """Return the nodes that have at least one thread in the set."""
    if isinstance(layers, Joined):
        return layers.any_layer
    nodes = 0
    for layer in layers:
        nodes |= layer
    return nodes  # type: ignore[return-value]  # a call of NodeSet takes as long as the loop


def is_empty(layers: Layers) -> bool:
    """Tell whether there is no thread in the set."""
    return not (layers.threads if isinstance(layers, Joined) else any(layers))


def thread_mask(layers: Layers, node: int) -> ThreadMask:
    """Return the threads of one node as a mask over its threads."""
    mask = 0
    for thread, layer in enumerate(layers):
        mask |= (layer >> node & 1) << thread
    return ThreadMask(mask)


def with_all(layers: Layers, mask: ThreadMask) -> NodeSet:
    """Return the nodes of which all threads in ``mask`` are in the set."""
    if isinstance(layers, Joined):
        every = (1 << layers.nodes) - 1
        wanted = threads_on(NodeSet(every), mask, layers.nodes)
        return NodeSet(every & ~layers.of_same(wanted ^ (wanted & layers.threads)).any_layer)
    nodes = -1
    for thread in bits_of(mask):
        nodes &= layers[thread]
    return NodeSet(max(nodes, 0))


def share_nodes(a: Layers, b: Layers) -> bool:
    """Return whether two sets of threads have a common node."""
    return bool(any_layer(a) & any_layer(b))


def busy_refusal(wanted: Layers, free: Layers) -> str | None:
    """Return why a job cannot have these threads, or None if they are free."""
    if isinstance(wanted, Joined):
        there = wanted.threads & side_by_side(free, wanted.nodes)
        if there == wanted.threads:
            return None
        busy = wanted.threads ^ there
        return f"node {((busy & -busy).bit_length() - 1) % wanted.nodes} is not free there"
    for layer, open_ in zip(wanted, free, strict=True):
        if layer & ~open_:
            return f"node {next(bits_of(NodeSet(layer & ~open_)))} is not free there"
    return None


def bits_of(members: NodeSet | ThreadMask) -> Iterator[int]:
    """Yield the numbers of the nodes or of the hardware threads in the set, ascending."""
    left: int = members
    while left:
        low = left & -left
        yield low.bit_length() - 1
        left ^= low


def each_node(runs: Iterable[Run]) -> Iterator[tuple[int, int]]:
    """Yield (node, processes on it) for every node that ``runs`` name."""
    for first, count, _, processes in runs:
        for node in range(first, first + count):
            yield node, processes


def each_mask(runs: Iterable[Run]) -> Iterator[tuple[int, ThreadMask]]:
    """Yield (node, hardware threads on it) for every node that ``runs`` name."""
    for first, count, mask, _ in runs:
        for node in range(first, first + count):
            yield node, mask
