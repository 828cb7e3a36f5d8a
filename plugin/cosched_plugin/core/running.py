"""Running jobs, by their ends: what becomes free when, and what a policy may know of each."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, overload

from cosched_hwmodel.units import NodeSet
from cosched_plugin.common.allocation import Layers, Machine, layers_of
from cosched_plugin.protocol.messages import JobSpec, Run, RunningJob

# Availability: free threads over time, by the expected ends of running jobs. It is made at every event and read in few places.
#
# So each step is one integer, all layers of threads side by side, and is split into layers on access.

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


# A running job as planning sees it.

REQUEUED: Final = "REQUEUED"  # the state of an `Ended` job that is pending again


class Running(NamedTuple):
    """A running job, on its nodes or suspended."""

    job: JobSpec  # the job
    start_us: int  # instant of its start
    # instant at which it is expected to end, as last revised. It may have passed: `view.expected_end(running)` has not
    end_us: int
    runs: tuple[Run, ...]  # its nodes; for a job on disk, those to which it comes back
    layers: Layers  # its threads, the same as a set
    joined: int  # the same as one number, for the core's own use
    threads: int  # how many these are
    limit_us: int | None  # span from its start after which the manager kills it, as last granted; `None`: never
    suspended_us: int | None = None  # instant since which it is suspended; `None`: it runs
    measured_ppm: int = 0  # slowdown that was measured beside its present neighbours; 0: not measured
    idle_us: int = 0  # span without progress since its start, up to its last resumption or to `ready_us`
    on_disk: bool = False  # it is suspended to disk: other jobs may have its threads and its memory
    ready_us: int = 0  # instant at which it went on, or will, after it came back from disk last; 0: never
    slot: int = 0  # its slot; 0 on machines without slots
    quanta: int = 0  # in how many, since its start, a share of it was measured
    # the last four of these shares, the newest first: CPU time that was logged for it in a quantum / time for which it
    # could run then, the mean over its processes
    shares: tuple[int, ...] = ()
    held: bool = False  # the manager has suspended it: no decision can resume it
    leaving: bool = False  # it is to be killed or requeued, and holds its nodes until the manager says so


class Ended(NamedTuple):
    """A job that ran and has released its nodes."""

    running: Running  # the job as it was when it left
    # `COMPLETED`, `FAILED`, `TIMEOUT`, `CANCELLED`, `NODE_FAIL` or `UNKNOWN`; `REQUEUED`: it is pending again
    state: str
    at_us: int  # instant of the batch
    progress_us: int  # span in which it made progress: neither suspended nor on its way back from disk


def running_job(told: RunningJob, machine: Machine) -> Running:
    """Return a running job of the manager's inventory, without its measured slowdown."""
    layers = layers_of(told.runs, machine.depth)
    joined = side_by_side(layers, machine.nodes)
    return Running(
        told.spec,
        told.start_us,
        told.start_us + told.estimate_us,
        tuple(told.runs),
        layers,
        joined,
        joined.bit_count(),
        told.limit_us,
        suspended_us=told.suspended_us,
        idle_us=told.idle_us,
        on_disk=told.on_disk,
        ready_us=told.ready_us,
        slot=told.slot,
        quanta=told.quanta,
        shares=tuple(told.shares),
        held=told.held,
        leaving=told.leaving,
    )


def progress_us(running: Running, now_us: int) -> int:
    """Return a job's time of progress by ``now_us``: neither suspended nor on its way back from disk."""
    until_us = now_us if running.suspended_us is None else running.suspended_us
    return max(until_us, running.ready_us) - running.start_us - running.idle_us


def delay(running: Running, by_us: int) -> Running:
    """Return a job after a time without progress: its expected end and its limit are later by that time."""
    return running._replace(
        end_us=running.end_us + by_us,
        limit_us=None if running.limit_us is None else running.limit_us + by_us,
        idle_us=running.idle_us + by_us,
    )
