"""The sections of a fault plan, the table ``[faults]`` of a scenario."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cosched_emulator.scenario.bounds import Choice, between
from cosched_emulator.scenario.faults import KINDS
from cosched_emulator.scenario.values import (
    SECONDS,
    AtLeastOne,
    FaultSpan,
    Instant,
    Jump,
    PluginFaultCount,
    Share,
    Slowdown,
)


@dataclass(frozen=True, slots=True)
class NodeFaultsSection:
    """Nodes that fail and return repeatedly and independently, after exponentially distributed times."""

    mean_up_s: FaultSpan
    mean_down_s: FaultSpan
    share: Share = 1.0  # share of the nodes that ever fail


@dataclass(frozen=True, slots=True)
class SlowFaultsSection:
    """Nodes that are slow for a time, repeatedly, after exponentially distributed times."""

    mean_normal_s: FaultSpan
    mean_slow_s: FaultSpan
    slowdown: Slowdown  # by how many times everything takes longer
    share: Share = 1.0  # share of the nodes that are ever slow


@dataclass(frozen=True, slots=True)
class FaultEntry:
    """One fault of one node at a given time: it fails, returns, becomes slow or is normal again."""

    at_s: Instant
    do: Annotated[str, Choice(KINDS)]
    node: int
    slowdown: Slowdown | None = None  # of a node that becomes slow


@dataclass(frozen=True, slots=True)
class MessageFaultsSection:
    """The faults of messages between manager and scheduler: probabilities, for each message in each direction."""

    drop: Share = 0.0
    duplicate: Share = 0.0
    delay: Share = 0.0
    delay_s: Annotated[float, between(0, 60, SECONDS)] = 0.1  # longest delay
    reorder: Share = 0.0  # it arrives after the next one


@dataclass(frozen=True, slots=True)
class PluginFaultsSection:
    """The faults of the scheduler's process."""

    kills: PluginFaultCount = 0  # number of times it is killed and restarted
    stalls: PluginFaultCount = 0  # number of times it is stopped for a time
    stall_s: Annotated[float, between(0, 3_600, SECONDS)] = 1.0
    batches: AtLeastOne | None = None  # faults fall among this number of first batches; default: the number of jobs


@dataclass(frozen=True, slots=True)
class ClockFault:
    """One jump of the clock of a live manager, forwards or (below 0) backwards."""

    at_s: Instant
    jump_s: Jump


@dataclass(frozen=True, slots=True)
class DiskFault:
    """A time in which the disk of the database is full."""

    at_s: Instant
    for_s: FaultSpan


@dataclass(frozen=True, slots=True)
class FaultsSection:
    """A fault plan: the planned faults and their times."""

    seed: int | None = None  # seed of its draws; default: the scenario's
    nodes: NodeFaultsSection | None = None
    slow: SlowFaultsSection | None = None
    at: tuple[FaultEntry, ...] = ()
    messages: MessageFaultsSection | None = None
    plugin: PluginFaultsSection | None = None
    clock: tuple[ClockFault, ...] = ()
    disk: tuple[DiskFault, ...] = ()
