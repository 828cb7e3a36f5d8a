"""A fault plan: the planned faults and their times; `planned_events` makes it from the table ``[faults]`` of a scenario.

All times are microseconds of emulated time since the manager's zero. Every random draw is keyed by the plan's seed and by its
purpose, so the same plan gives the same faults, also after a restart of the manager.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.offered import NODE_FAULTS
from cosched_hwmodel.draws import uniform
from cosched_hwmodel.quick_classes import frozen
from cosched_plugin.protocol.limits import INT64_MAX

if TYPE_CHECKING:
    from cosched_emulator.scenario.fault_sections import MessageFaultsSection, PluginFaultsSection

FaultKind: TypeAlias = Literal["fail", "return", "slow", "normal"]
KINDS: Final[tuple[FaultKind, ...]] = NODE_FAULTS
USUAL_BATCHES: Final = 1_000  # range of batches for a plugin's faults if the number of jobs is unknown

_LISTED: Final = -1  # in place of an alternation: a fault that the plan lists


class NodeFault(NamedTuple):
    """A node fails, returns, becomes slow or is normal again; no effect if it is in that state already."""

    at_us: int
    kind: FaultKind
    node: int
    slowdown: float = 1.0  # for a node that becomes slow: by how many times everything takes longer
    drawn: bool = False  # without end, unlike those that a plan lists


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


@frozen
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
            yield NodeFault(at_us, kind, node, alternation.slowdown if kind == "slow" else 1.0, drawn=True)

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
