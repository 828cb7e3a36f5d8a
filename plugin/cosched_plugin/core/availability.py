"""Availability: free threads over time, by the expected ends of running jobs. It is made at every event and read in few places.

So each step is one integer, all layers of threads side by side, and is split into layers on access.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from cosched_hwmodel.units import NodeSet
from cosched_plugin.common.allocation import Layers

Step = tuple[int, Layers]


def side_by_side(layers: Layers, nodes: int) -> int:
    """Return a set of threads as one integer: bit ``k * nodes + n`` is thread ``k`` of node ``n``."""
    if len(layers) == 1:
        return layers[0]
    joined = 0
    for layer in reversed(layers):
        joined = joined << nodes | layer
    return joined


class Availability(Sequence[Step]):
    """(Instant, threads that are free from then on), ascending by instant; immutable."""

    __slots__ = ("_depth", "_joined", "_nodes", "_taken_apart", "_times")

    def __init__(
        self, times: list[int], joined: list[int], nodes: int, depth: int, taken_apart: dict[int, Layers] | None = None
    ) -> None:
        self._times = times
        self._joined = joined  # by step, as `side_by_side`
        self._nodes = nodes
        self._depth = depth
        self._taken_apart: dict[int, Layers] = {} if taken_apart is None else taken_apart

    @classmethod
    def of(cls, now_us: int, free: int, ends: Iterable[tuple[int, int]], nodes: int, depth: int) -> Availability:
        """Return the steps from now on, with ``free`` free now; ``ends``: (instant after now, threads that come free), ascending."""
        times, joined = [now_us], [free]
        for at_us, threads in ends:
            free |= threads
            if times[-1] == at_us:
                joined[-1] = free
            else:
                times.append(at_us)
                joined.append(free)
        return cls(times, joined, nodes, depth)

    def at(self, now_us: int) -> Availability | None:
        """Return the steps at a later instant, otherwise unchanged; None where that is past the first end."""
        times = self._times
        if len(times) > 1 and times[1] <= now_us:
            return None
        return Availability([now_us, *times[1:]], self._joined, self._nodes, self._depth, self._taken_apart)

    def instant_us(self, index: int) -> int:
        """Return the instant of a step."""
        return self._times[index]

    def by(self, at_us: int, low: int = 0) -> int:
        """Return how many steps have an instant of ``at_us`` or earlier; at least ``low`` of them do."""
        return bisect_right(self._times, at_us, low)

    def wide(self, threads: int) -> int:
        """Return the first step from which ``threads`` threads are free; the number of steps where there is none."""
        return bisect_left(self._joined, threads, key=int.bit_count)

    def __len__(self) -> int:
        return len(self._times)

    @overload
    def __getitem__(self, index: int) -> Step: ...

    @overload
    def __getitem__(self, index: slice) -> Availability: ...

    def __getitem__(self, index: int | slice) -> Step | Availability:
        if isinstance(index, slice):
            return Availability(self._times[index], self._joined[index], self._nodes, self._depth, self._taken_apart)
        return self._times[index], self._layers(self._joined[index])

    def __iter__(self) -> Iterator[Step]:
        for at_us, joined in zip(self._times, self._joined, strict=True):
            yield at_us, self._layers(joined)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Availability):
            return NotImplemented
        return self._times == other._times and self._joined == other._joined

    __hash__ = None  # type: ignore[assignment]  # as a list's

    def __repr__(self) -> str:
        return f"Availability({list(self)})"

    def _layers(self, joined: int) -> Layers:
        if self._depth == 1:
            return (NodeSet(joined),)
        layers = self._taken_apart.get(joined)
        if layers is None:
            nodes = self._nodes
            every = (1 << nodes) - 1
            layers = tuple([NodeSet(joined >> shift & every) for shift in range(0, nodes * self._depth, nodes)])
            self._taken_apart[joined] = layers
        return layers
