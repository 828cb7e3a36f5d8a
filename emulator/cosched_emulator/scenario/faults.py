"""A fault plan: the planned faults and their times; `fault_plan` makes it from the table ``[faults]`` of a scenario.

All times are microseconds of emulated time since the manager's zero. Every random draw is keyed by the plan's seed and by its
purpose, so the same plan gives the same faults, also after a restart of the manager.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

from cosched_emulator.bounds import (
    LONGEST_S,
    SECONDS,
    AtLeastOne,
    Choice,
    FaultSpan,
    Instant,
    Range,
    Share,
    Slowdown,
    between,
)
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.needs import absent, given
from cosched_hwmodel.draws import uniform
from cosched_plugin.protocol.limits import INT64_MAX

FaultKind: TypeAlias = Literal["fail", "return", "slow", "normal"]
PluginFaultCount: TypeAlias = Annotated[int, between(0, 100_000, "a whole number")]
KINDS: Final[tuple[FaultKind, ...]] = ("fail", "return", "slow", "normal")  # in the order of one instant
USUAL_BATCHES: Final = 1_000  # range of batches for a plugin's faults if the number of jobs is unknown

_LISTED: Final = -1  # in place of an alternation: a fault that the plan lists


class NodeFault(NamedTuple):
    """A node fails, returns, becomes slow or is normal again; no effect if it is in that state already."""

    at_us: int
    kind: FaultKind
    node: int
    slowdown: float = 1.0  # for a node that becomes slow: by how many times everything takes longer


class Alternation(NamedTuple):
    """Nodes that leave their normal state and return repeatedly, each independently."""

    leave: FaultKind
    come_back: FaultKind
    mean_normal_us: float
    mean_other_us: float
    share: float  # share of the nodes that take part
    slowdown: float = 1.0

    def takes_part(self, seed: int, node: int) -> bool:
        """Return whether the node ever leaves its normal state."""
        return uniform(seed, f"who will {self.leave}", node) < self.share

    def span_us(self, seed: int, node: int, number: int) -> int:
        """Return the duration of the node's state of that number: even numbers are the normal state, odd ones the other."""
        mean_us = self.mean_other_us if number % 2 else self.mean_normal_us
        return max(1, round(-mean_us * math.log1p(-uniform(seed, f"until {self.leave}", node, number))))


class ClockJump(NamedTuple):
    """The clock of a live manager jumps."""

    at_us: int
    jump_us: int


class DiskFull(NamedTuple):
    """The disk of the database is full from one instant until another."""

    at_us: int
    until_us: int


@dataclass(frozen=True, slots=True)
class Faults:
    """A complete, checked fault plan; empty if no faults are planned."""

    seed: int = 0
    nodes: int = 0
    alternations: tuple[Alternation, ...] = ()
    at: tuple[NodeFault, ...] = ()
    messages: MessageFaultsSection | None = None
    plugin: PluginFaultsSection | None = None
    clock: tuple[ClockJump, ...] = ()
    disk: tuple[DiskFull, ...] = ()

    def node_faults(self) -> Iterator[NodeFault]:
        """Yield the faults of nodes by time, then in order of `KINDS`, then by node; possibly without end. The same at every call."""
        # (when, rank of the kind, node, alternation or `_LISTED`, number of the state that ends or of the listed fault).
        heap = [
            (fault.at_us, KINDS.index(fault.kind), fault.node, _LISTED, index) for index, fault in enumerate(self.at)
        ]
        for number, alternation in enumerate(self.alternations):
            rank = KINDS.index(alternation.leave)
            for node in range(self.nodes):
                if alternation.takes_part(self.seed, node):
                    first_us = alternation.span_us(self.seed, node, 0)
                    if first_us <= INT64_MAX:
                        heap.append((first_us, rank, node, number, 0))
        heapify(heap)
        while heap:
            at_us, rank, node, number, state = heap[0]
            if number == _LISTED:
                heappop(heap)
                yield self.at[state]
                continue
            alternation = self.alternations[number]
            next_us = at_us + alternation.span_us(self.seed, node, state + 1)
            if next_us <= INT64_MAX:
                next_kind = alternation.leave if state % 2 else alternation.come_back
                heapreplace(heap, (next_us, KINDS.index(next_kind), node, number, state + 1))
            else:
                heappop(heap)
            kind = KINDS[rank]
            yield NodeFault(at_us, kind, node, alternation.slowdown if kind == "slow" else 1.0)

    @property
    def slow_nodes(self) -> bool:
        """Return whether nodes may become slow: the manager then needs a cluster even without contention."""
        return any(item.leave == "slow" for item in self.alternations) or any(item.kind == "slow" for item in self.at)

    def check(self, *, live: bool, child: bool, remote: bool, database: bool) -> None:
        """Raise ConfigurationError if the plan has faults that are impossible in this run.

        ``live``: the clock is not virtual; ``child``: the run has started the scheduler's process itself; ``remote``: the scheduler
        is in another process, started by any means; ``database``: there is one on disk.
        """
        for key, planned, can_be, wanted in (
            ("messages", self.messages, remote, "a scheduler in another process (link zmq)"),
            ("plugin", self.plugin, child, "a scheduler whose process this run starts (link zmq)"),
            ("clock", self.clock, live, "a clock that runs, scaled or real"),
            ("disk", self.disk, database, "a database on disk"),
        ):
            if planned and not can_be:
                raise ConfigurationError(f"faults.{key}", f"{wanted}, or no such faults", "none")


# The sections of a fault plan, the table ``[faults]`` of a scenario.


@dataclass(frozen=True, slots=True)
class NodeFaultsSection:
    """Nodes that fail and return repeatedly and independently, after exponentially distributed times."""

    mean_up_s: Annotated[
        FaultSpan, "mean time for which a node works; every time is drawn by itself, distributed exponentially"
    ]
    mean_down_s: Annotated[FaultSpan, "mean time for which it has failed"]
    share: Annotated[Share, "share of the nodes that ever fail, drawn"] = 1.0


@dataclass(frozen=True, slots=True)
class SlowFaultsSection:
    """Nodes that are slow for a time, repeatedly, after exponentially distributed times."""

    mean_normal_s: Annotated[FaultSpan, "mean time for which a node runs at full speed"]
    mean_slow_s: Annotated[FaultSpan, "mean time for which it is slow"]
    slowdown: Annotated[Slowdown, "how many times as long everything takes there meanwhile, 1 to 1000"]
    share: Annotated[Share, "share of the nodes that are ever slow, drawn"] = 1.0


@dataclass(frozen=True, slots=True)
class FaultEntry:
    """One fault of one node at a given time: it fails, returns, becomes slow or is normal again."""

    at_s: Annotated[Instant, "when"]
    do: Annotated[str, Choice(KINDS), "`fail`, `return`, `slow` or `normal`"]
    node: Annotated[int, "which node, from 0"]
    slowdown: Annotated[Slowdown | None, "with `slow`, and only there: how many times as long"] = None


@dataclass(frozen=True, slots=True)
class MessageFaultsSection:
    """The faults of messages between manager and scheduler: probabilities, for each message in each direction."""

    drop: Annotated[Share, "probability that a message is lost"] = 0.0
    duplicate: Annotated[Share, "that it arrives twice; the other one may be late"] = 0.0
    delay: Annotated[Share, "that it is late"] = 0.0
    delay_s: Annotated[float, between(0, 60, SECONDS), "by how many real seconds at most, up to 60; drawn evenly"] = 0.1
    reorder: Annotated[
        Share,
        "that it arrives after the next one in its direction, or 0.05 real seconds later if there is none by then",
    ] = 0.0


@dataclass(frozen=True, slots=True)
class PluginFaultsSection:
    """The faults of the scheduler's process."""

    kills: Annotated[
        PluginFaultCount, "how many times the scheduler's process is killed (SIGKILL) and another one started"
    ] = 0
    stalls: Annotated[PluginFaultCount, "how many times it is stopped (SIGSTOP) and continues later"] = 0
    stall_s: Annotated[float, between(0, 3_600, SECONDS), "after how many real seconds, up to 3600"] = 1.0
    batches: Annotated[
        AtLeastOne | None, "kills and stalls fall among the first N batches; default: as many as there are jobs"
    ] = None


@dataclass(frozen=True, slots=True)
class ClockFault:
    """One jump of the clock of a live manager, forwards or (below 0) backwards."""

    at_s: Annotated[Instant, "when"]
    jump_s: Annotated[
        float,
        Range(f"{SECONDS} other than 0", -LONGEST_S, LONGEST_S, excluded=0),
        "how far the clock jumps, in emulated seconds; below 0: back",
    ]


@dataclass(frozen=True, slots=True)
class DiskFault:
    """A time in which the disk of the database is full."""

    at_s: Annotated[Instant, "from when"]
    for_s: Annotated[FaultSpan, "for how long the database cannot grow"]


@dataclass(frozen=True, slots=True)
class FaultsSection:
    """A fault plan: the planned faults and their times."""

    seed: Annotated[
        int | None,
        given("faults.nodes", "faults.slow", "faults.messages", "faults.plugin"),
        "seed of all draws of the plan; where not given, the scenario's",
    ] = None
    nodes: NodeFaultsSection | None = None
    slow: Annotated[SlowFaultsSection | None, absent("time_sharing", refused=True)] = None
    at: tuple[FaultEntry, ...] = ()
    messages: MessageFaultsSection | None = None
    plugin: PluginFaultsSection | None = None
    clock: tuple[ClockFault, ...] = ()
    disk: tuple[DiskFault, ...] = ()
