"""Which hardware threads of its host's nodes a co-located job gets, where the site's belief tells threads apart.

A few seats are compared, each a preference among the free threads of a node: the same cores as the host (always the case under other
beliefs), cores that the host leaves idle, and sockets with the fewest of its threads. The number of processes on each node is
the same for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from cosched_hwmodel.composite.node_classes import shape_of
from cosched_hwmodel.pairs import PairModel
from cosched_hwmodel.topology import NodeShape
from cosched_hwmodel.units import ThreadMask
from cosched_plugin.common.allocation import bits_of, each_mask
from cosched_plugin.core.first_fit import runs_from, thread_mask
from cosched_plugin.core.views.view import View
from cosched_plugin.protocol.messages import JobSpec, NodeClass, Run

SAME_CORES: Final = "same cores"
OTHER_CORES: Final = "other cores"
OTHER_SOCKETS: Final = "other sockets"

_Preference: TypeAlias = Callable[["_OnNode", int], tuple[int, ...]]


class SeatOf(NamedTuple):
    """A job and its threads."""

    job: JobSpec
    runs: tuple[Run, ...]


class Seating(NamedTuple):
    """The chosen threads of a co-located job."""

    runs: tuple[Run, ...]
    slowdown: float  # the larger of the two, on the worst node
    name: str
    compared: dict[str, float]  # slowdown by seat, of those that differ


class _OnNode(NamedTuple):
    """The host's threads on a node of this kind."""

    node: NodeClass
    host: ThreadMask

    def core(self, thread: int) -> int:
        """Return the core of a thread."""
        return thread % (self.node.sockets * self.node.cores_per_socket)

    def on_core(self, thread: int) -> int:
        """Return how many threads of a thread's core the host holds."""
        core = self.core(thread)
        return sum([self.core(held) == core for held in bits_of(self.host)])

    def on_socket(self, thread: int) -> int:
        """Return how many threads of a thread's socket the host holds."""
        socket = self.core(thread) // self.node.cores_per_socket
        return sum([self.core(held) // self.node.cores_per_socket == socket for held in bits_of(self.host)])


# Threads with the least value first, the lowest of equal ones.
_PREFERENCES: Final[tuple[tuple[str, _Preference], ...]] = (
    (OTHER_CORES, lambda there, thread: (there.on_core(thread), thread)),
    (OTHER_SOCKETS, lambda there, thread: (there.on_socket(thread), there.on_core(thread), thread)),
)


def choose_seat(host: SeatOf, guest: SeatOf, model: PairModel, view: View, *, starting: bool) -> Seating:
    """Return the seat of ``guest`` beside ``host`` with the least slowdown, the first of equal ones.

    The guest's runs are those on the host's cores; ``starting``: the host only starts now, so its threads count as free.
    """
    on_nodes = list(_nodes(host, guest, view))
    seats = {guest.runs: SAME_CORES}
    for name, preference in _PREFERENCES:
        placed = []
        for node, there, mask, processes in on_nodes:
            free = ThreadMask(thread_mask(view.all_free, node) & ~(there.host if starting else 0))
            order = sorted(bits_of(free), key=lambda thread, there=there, rank=preference: rank(there, thread))  # type: ignore[misc]
            placed.append((node, ThreadMask(sum([1 << thread for thread in order[: mask.bit_count()]])), processes))
        seats.setdefault(runs_from(placed), name)
    slowdowns = {runs: max(slowdowns_on(host, SeatOf(guest.job, runs), model, view)) for runs in seats}
    best = min(slowdowns, key=slowdowns.__getitem__)
    return Seating(best, slowdowns[best], seats[best], {name: slowdowns[runs] for runs, name in seats.items()})


def _nodes(host: SeatOf, guest: SeatOf, view: View) -> Iterator[tuple[int, _OnNode, ThreadMask, int]]:
    """Yield for each node of the guest: its number, the host there, the guest's threads and processes."""
    held = dict(each_mask(host.runs))
    classes = _class_of_nodes(view)
    for first, count, mask, processes in guest.runs:
        for node in range(first, first + count):
            yield node, _OnNode(view.machine.classes[classes[node]], held[node]), mask, processes


def slowdowns_on(one: SeatOf, other: SeatOf, model: PairModel, view: View) -> tuple[float, float]:
    """Return the slowdown of each of two jobs by the other one, each on the worst node that they share; 1 where they share none."""
    held = dict(each_mask(one.runs))
    classes = _class_of_nodes(view)
    kinds = _kinds(view.machine.classes)
    threads = (one.job.threads_per_process, other.job.threads_per_process)
    there = {(held[node], mask, kinds[classes[node]]) for node, mask in each_mask(other.runs) if node in held}
    slowdowns = [
        (
            model.slowdown_on(one.job, own, other.job, its, kind=kind, threads=threads),
            model.slowdown_on(other.job, its, one.job, own, kind=kind, threads=threads[::-1]),
        )
        for own, its, kind in there
    ]
    return max([first for first, _ in slowdowns], default=1.0), max([second for _, second in slowdowns], default=1.0)


def _class_of_nodes(view: View) -> list[int]:
    """Return the number of each node's class."""
    return [place for place, item in enumerate(view.machine.classes) for _ in range(item.nodes)]


def _kinds(classes: Sequence[NodeClass]) -> list[int]:
    """Return for each class the place of its shape among the different ones, as models count them."""
    shapes: dict[NodeShape, int] = {}
    return [shapes.setdefault(shape_of(item), len(shapes)) for item in classes]


def worst_resource(job: JobSpec, other: JobSpec, model: PairModel) -> str | None:
    """Return the resource that adds most to the larger slowdown of two jobs; None if the model does not say."""
    sides = [model.parts(job, other), model.parts(other, job)]
    parts = max(sides, key=lambda side: sum([penalty for _, penalty in side]))
    name, penalty = max(parts, key=lambda part: part[1], default=("", 0.0))
    return name if penalty > 0.0 else None
