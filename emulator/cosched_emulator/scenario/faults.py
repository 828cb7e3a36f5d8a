"""A fault plan: what goes wrong, and when, by the table ``[faults]`` of a scenario. Values that make no sense are refused here.

All times are microseconds of emulated time since the manager's zero. Everything random is a draw that is keyed by the plan's seed
and by what it is drawn for, so that the same plan brings the same faults, also when a manager that was restarted asks again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from typing import Final, Literal, NamedTuple, TypeAlias

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.scenario.schema import (
    FaultEntry,
    FaultsSection,
    MessageFaultsSection,
    NodeFaultsSection,
    PluginFaultsSection,
    Scenario,
    SlowFaultsSection,
)
from cosched_hwmodel.draws import uniform
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.protocol.limits import INT64_MAX

FaultKind: TypeAlias = Literal["fail", "return", "slow", "normal"]
KINDS: Final[tuple[FaultKind, ...]] = ("fail", "return", "slow", "normal")  # in order of what happens at one instant
LARGEST_SLOWDOWN: Final = 1_000.0
LONGEST_DELAY_S: Final = 60.0
LONGEST_STALL_S: Final = 3_600.0
SHORTEST_S: Final = 1.0  # of a mean time between faults: with much less, nothing else would ever happen
MOST_PLUGIN_FAULTS: Final = 100_000
USUAL_BATCHES: Final = 1_000  # among so many batches a plugin's faults fall where the number of jobs is not known

_LISTED: Final = -1  # in place of an alternation: a fault that the plan lists
_LONGEST_S: Final = INT64_MAX // SECOND_US


class NodeFault(NamedTuple):
    """A node fails, returns, becomes slow or is normal again; one that is so already stays as it is."""

    at_us: int
    kind: FaultKind
    node: int
    slowdown: float = 1.0  # of one that becomes slow: how many times as long everything takes there


class Alternation(NamedTuple):
    """Nodes that leave their normal state and come back for ever, each by itself."""

    leave: FaultKind
    come_back: FaultKind
    mean_normal_us: float
    mean_other_us: float
    share: float  # of the nodes: those that take part
    slowdown: float = 1.0

    def takes_part(self, seed: int, node: int) -> bool:
        """Return whether the node ever leaves its normal state."""
        return uniform(seed, f"who will {self.leave}", node) < self.share

    def span_us(self, seed: int, node: int, number: int) -> int:
        """Return how long the node's state of that number lasts: even ones are the normal state, odd ones the other."""
        mean_us = self.mean_other_us if number % 2 else self.mean_normal_us
        return max(1, round(-mean_us * math.log1p(-uniform(seed, f"until {self.leave}", node, number))))


class MessageFaults(NamedTuple):
    """What befalls messages: probabilities, for each message in each direction."""

    seed: int
    drop: float
    duplicate: float
    delay: float
    delay_s: float
    reorder: float


class PluginFaults(NamedTuple):
    """What befalls the scheduler's process, at batches drawn among the first ``batches``."""

    seed: int
    kills: int
    stalls: int
    stall_s: float
    batches: int | None


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
    """A whole fault plan, checked; one without anything in it where none is asked for."""

    seed: int = 0
    nodes: int = 0
    alternations: tuple[Alternation, ...] = ()
    at: tuple[NodeFault, ...] = ()
    messages: MessageFaults | None = None
    plugin: PluginFaults | None = None
    clock: tuple[ClockJump, ...] = ()
    disk: tuple[DiskFull, ...] = ()

    def node_faults(self) -> Iterator[NodeFault]:
        """Yield what happens to nodes, by time, then in order of `KINDS`, then by node; it may have no end. The same at every call."""
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
        """Return whether nodes may become slow, for which the manager needs a cluster even where nothing contends."""
        return any(item.leave == "slow" for item in self.alternations) or any(item.kind == "slow" for item in self.at)

    def check(self, *, live: bool, child: bool, remote: bool, database: bool) -> None:
        """Raise ConfigurationError where the plan holds what the run cannot bring about.

        ``live``: the clock is not virtual; ``child``: the run has started the scheduler's process itself; ``remote``: the scheduler
        is in another process, whoever has started it; ``database``: there is one on disk.
        """
        for key, planned, can_be, wanted in (
            ("messages", self.messages, remote, "a scheduler in another process (link zmq)"),
            ("plugin", self.plugin, child, "a scheduler whose process this run starts (link zmq)"),
            ("clock", self.clock, live, "a clock that runs, scaled or real"),
            ("disk", self.disk, database, "a database on disk"),
        ):
            if planned and not can_be:
                raise ConfigurationError(f"faults.{key}", f"{wanted}, or no such faults", "none")


def build_faults(scenario: Scenario, nodes: int) -> Faults:
    """Return the scenario's fault plan for a machine of so many nodes; raises ConfigurationError."""
    section = scenario.faults
    if section is None:
        return Faults()
    seed = scenario.seed if section.seed is None else section.seed
    alternations = []
    if section.nodes is not None:
        alternations.append(_failing(section.nodes))
    if section.slow is not None:
        alternations.append(_slowing(section.slow))
    return Faults(
        seed=seed,
        nodes=nodes,
        alternations=tuple(alternations),
        at=tuple(_node_fault(entry, f"faults.at[{index}]", nodes) for index, entry in enumerate(section.at)),
        messages=_messages(section.messages, seed),
        plugin=_plugin(section.plugin, seed),
        clock=_clock(section),
        disk=_disk(section),
    )


def _failing(section: NodeFaultsSection) -> Alternation:
    up_us = _span_us(section.mean_up_s, "faults.nodes.mean_up_s")
    down_us = _span_us(section.mean_down_s, "faults.nodes.mean_down_s")
    return Alternation("fail", "return", up_us, down_us, _probability(section.share, "faults.nodes.share"))


def _slowing(section: SlowFaultsSection) -> Alternation:
    normal_us = _span_us(section.mean_normal_s, "faults.slow.mean_normal_s")
    slow_us = _span_us(section.mean_slow_s, "faults.slow.mean_slow_s")
    slowdown = _slowdown(section.slowdown, "faults.slow.slowdown")
    share = _probability(section.share, "faults.slow.share")
    return Alternation("slow", "normal", normal_us, slow_us, share, slowdown)


def _node_fault(entry: FaultEntry, place: str, nodes: int) -> NodeFault:
    for kind in KINDS:
        if kind == entry.do:
            break
    else:
        raise ConfigurationError.unknown_name(f"{place}.do", entry.do, KINDS)
    if not 0 <= entry.node < nodes:
        raise ConfigurationError(f"{place}.node", f"a node from 0 to {nodes - 1}", str(entry.node))
    at_us = _instant_us(entry.at_s, f"{place}.at_s")
    if (entry.slowdown is None) == (kind == "slow"):
        wanted = "a slowdown" if kind == "slow" else f"nothing with do = {kind!r}"
        raise ConfigurationError(f"{place}.slowdown", wanted, "none" if kind == "slow" else str(entry.slowdown))
    slowdown = 1.0 if entry.slowdown is None else _slowdown(entry.slowdown, f"{place}.slowdown")
    return NodeFault(at_us, kind, entry.node, slowdown)


def _messages(section: MessageFaultsSection | None, seed: int) -> MessageFaults | None:
    if section is None:
        return None
    place = "faults.messages"
    return MessageFaults(
        seed,
        drop=_probability(section.drop, f"{place}.drop"),
        duplicate=_probability(section.duplicate, f"{place}.duplicate"),
        delay=_probability(section.delay, f"{place}.delay"),
        delay_s=_within(section.delay_s, f"{place}.delay_s", LONGEST_DELAY_S),
        reorder=_probability(section.reorder, f"{place}.reorder"),
    )


def _plugin(section: PluginFaultsSection | None, seed: int) -> PluginFaults | None:
    if section is None:
        return None
    place = "faults.plugin"
    for key, number in (("kills", section.kills), ("stalls", section.stalls)):
        if not 0 <= number <= MOST_PLUGIN_FAULTS:
            raise ConfigurationError(f"{place}.{key}", f"a whole number from 0 to {MOST_PLUGIN_FAULTS}", str(number))
    if section.batches is not None and section.batches < 1:
        raise ConfigurationError(f"{place}.batches", "1 or more", str(section.batches))
    stall_s = _within(section.stall_s, f"{place}.stall_s", LONGEST_STALL_S)
    return PluginFaults(seed, section.kills, section.stalls, stall_s, section.batches)


def _clock(section: FaultsSection) -> tuple[ClockJump, ...]:
    jumps = []
    for index, entry in enumerate(section.clock):
        place = f"faults.clock[{index}]"
        if not 0 < abs(entry.jump_s) <= _LONGEST_S:  # nan is not
            raise ConfigurationError(f"{place}.jump_s", "a number of seconds other than 0", str(entry.jump_s))
        jumps.append(ClockJump(_instant_us(entry.at_s, f"{place}.at_s"), round(entry.jump_s * SECOND_US)))
    return tuple(sorted(jumps))


def _disk(section: FaultsSection) -> tuple[DiskFull, ...]:
    spans = []
    for index, entry in enumerate(section.disk):
        place = f"faults.disk[{index}]"
        at_us = _instant_us(entry.at_s, f"{place}.at_s")
        spans.append(DiskFull(at_us, at_us + round(_span_us(entry.for_s, f"{place}.for_s"))))
    return tuple(sorted(spans))


def _instant_us(seconds: float, place: str) -> int:
    if not 0 <= seconds <= _LONGEST_S:  # nan is not
        raise ConfigurationError(place, "a number of seconds, 0 or more", str(seconds))
    return round(seconds * SECOND_US)


def _span_us(seconds: float, place: str) -> float:
    if not SHORTEST_S <= seconds <= _LONGEST_S:  # nan is not
        raise ConfigurationError(place, f"a number of seconds, {SHORTEST_S:g} or more", str(seconds))
    return seconds * SECOND_US


def _within(seconds: float, place: str, most_s: float) -> float:
    if not 0 <= seconds <= most_s:  # nan is not
        raise ConfigurationError(place, f"a number of seconds from 0 to {most_s:g}", str(seconds))
    return seconds


def _probability(value: float, place: str) -> float:
    if not 0 <= value <= 1:  # nan is not
        raise ConfigurationError(place, "a number from 0 to 1", str(value))
    return value


def _slowdown(value: float, place: str) -> float:
    if not 1 <= value <= LARGEST_SLOWDOWN:  # nan is not
        raise ConfigurationError(place, f"a number from 1 to {LARGEST_SLOWDOWN:g}", str(value))
    return value
