"""Availability: free threads over time, by the expected ends of running jobs.

It is made at every event and read in few places. So each step is one integer, all layers of threads side by side or a set of whole
nodes, which is made of the one before it when it is first read, and split into layers on access.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import overload

from cosched_hwmodel.units import NodeSet
from cosched_plugin.common.allocation import Machine
from cosched_plugin.common.threads import Layers, apart, on_nodes, side_by_side, size

Step = tuple[int, Layers]


class _Unions(Sequence[int]):
    """A set, and its unions with more and more others, each made when it is first read."""

    __slots__ = ("_made", "_others")

    def __init__(self, first: int, others: Sequence[Sequence[int]]) -> None:
        """``others``: by further union, what it has more than the one before."""
        self._made = [first]
        self._others = others

    def __len__(self) -> int:
        return len(self._others) + 1

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> list[int]: ...

    def __getitem__(self, index: int | slice) -> int | list[int]:
        made = self._made
        if isinstance(index, int) and 0 <= index < len(made):
            return made[index]
        last = index if isinstance(index, int) and index >= 0 else len(self) - 1
        union = made[-1]
        for more in self._others[len(made) - 1 : last]:
            for threads in more:
                union |= threads
            made.append(union)
        return made[index]


class Availability(Sequence[Step]):
    """(Instant, threads that are free from then on), ascending by instant; immutable."""

    __slots__ = ("_firsts", "_machine", "_sets", "_taken_apart", "_times")

    def __init__(
        self,
        times: list[int],
        sets: Sequence[int],
        machine: Machine,
        firsts: Callable[[NodeSet], Layers] | None = None,
        taken_apart: dict[int, Layers] | None = None,
    ) -> None:
        """``sets``: by step, as `side_by_side`; with ``firsts`` sets of whole nodes, of which it returns the threads."""
        self._times = times
        self._sets = sets
        self._machine = machine
        self._firsts = firsts
        self._taken_apart: dict[int, Layers] = {} if taken_apart is None else taken_apart

    @classmethod
    def of(cls, now_us: int, free: int, ends: Iterable[tuple[int, int]], machine: Machine) -> Availability:
        """Return the steps from now on, with ``free`` free now; ``ends``: (instant after now, threads that come free), ascending."""
        times: list[int] = [now_us]
        released: list[list[int]] = []
        for at_us, threads in ends:
            if times[-1] == at_us:
                released[-1].append(threads)
            else:
                times.append(at_us)
                released.append([threads])
        return cls(times, _Unions(free, released), machine)

    def at(self, now_us: int) -> Availability | None:
        """Return the steps at a later instant, otherwise unchanged; None where that is past the first end."""
        times = self._times
        if len(times) > 1 and times[1] <= now_us:
            return None
        return Availability([now_us, *times[1:]], self._sets, self._machine, self._firsts, self._taken_apart)

    def instant_us(self, index: int) -> int:
        """Return the instant of a step."""
        return self._times[index]

    def by(self, at_us: int, low: int = 0) -> int:
        """Return how many steps have an instant of ``at_us`` or earlier; at least ``low`` of them do."""
        return bisect_right(self._times, at_us, low)

    def wide(self, threads: int) -> int:
        """Return the first step from which ``threads`` threads are free; the number of steps where there is none."""
        count = int.bit_count if self._firsts is None else lambda nodes: size(self._layers(nodes))
        steps = len(self._sets)
        high = 1
        while high < steps and count(self._sets[high]) < threads:  # mostly one of the first is: so few unions are made
            high *= 2
        return bisect_left(self._sets, threads, high // 2, min(high, steps), key=count)

    def joined(self) -> list[int]:
        """Return the free threads by step, each as one integer, as `side_by_side`."""
        if self._firsts is None:
            return list(self._sets)
        return [side_by_side(self._layers(nodes), self._machine.nodes) for nodes in self._sets]

    def __len__(self) -> int:
        return len(self._times)

    @overload
    def __getitem__(self, index: int) -> Step: ...

    @overload
    def __getitem__(self, index: slice) -> Availability: ...

    def __getitem__(self, index: int | slice) -> Step | Availability:
        if isinstance(index, slice):
            return Availability(self._times[index], self._sets[index], self._machine, self._firsts, self._taken_apart)
        return self._times[index], self._layers(self._sets[index])

    def __iter__(self) -> Iterator[Step]:
        for at_us, free in zip(self._times, self._sets, strict=True):
            yield at_us, self._layers(free)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Availability):
            return NotImplemented
        return self._times == other._times and [*self._sets] == [*other._sets]

    __hash__ = None  # type: ignore[assignment]  # as a list's

    def _layers(self, free: int) -> Layers:
        machine = self._machine
        if machine.depth == 1:
            return (free,)  # type: ignore[return-value]  # a call of NodeSet takes as long
        layers = self._taken_apart.get(free)
        if layers is None:
            firsts = self._firsts
            layers = apart(free, machine.nodes, machine.depth) if firsts is None else firsts(NodeSet(free))
            self._taken_apart[free] = layers
        return layers


def with_returns(
    ends: Iterable[tuple[int, int]], returning: Iterable[tuple[int, NodeSet]], up: NodeSet, machine: Machine
) -> list[tuple[int, int]]:
    """Return all threads that are free from each end and each return on; ``ends``: (instant, threads that a job leaves)."""
    returns = dict(returning)
    leaving: dict[int, int] = {}
    held = 0
    for at_us, threads in ends:
        leaving[at_us] = leaving.get(at_us, 0) | threads
        held |= threads
    there_now, found = int(up), []
    for at_us in sorted(leaving.keys() | returns):
        there_now |= returns.get(at_us, 0)
        held &= ~leaving.get(at_us, 0)
        there = on_nodes(machine.exists, there_now)
        found.append((at_us, side_by_side(there, machine.nodes) & ~held))
    return found
