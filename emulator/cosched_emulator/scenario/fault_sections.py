"""The sections of a fault plan, the table ``[faults]`` of a scenario; `planned_events` makes the plan of them."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from cosched_emulator import bounds
from cosched_emulator.needs import absent, given
from cosched_emulator.offered import NODE_FAULTS
from cosched_hwmodel.quick_classes import frozen

PluginFaultCount: TypeAlias = Annotated[int, bounds.between(0, 100_000, "a whole number")]


@frozen
class NodeFaultsSection:
    """Nodes that fail and return repeatedly and independently, after exponentially distributed times."""

    mean_up_s: Annotated[
        bounds.FaultSpan, "mean time for which a node works; each time is drawn, exponentially distributed"
    ]
    mean_down_s: Annotated[bounds.FaultSpan, "mean time until a failed node returns"]
    share: Annotated[bounds.Share, "share of the nodes that can fail; which ones is drawn"] = 1.0


@frozen
class SlowFaultsSection:
    """Nodes that are slow for a time, repeatedly, after exponentially distributed times."""

    mean_normal_s: Annotated[bounds.FaultSpan, "mean time for which a node runs at full speed"]
    mean_slow_s: Annotated[bounds.FaultSpan, "mean time for which a node is slow"]
    slowdown: Annotated[bounds.Slowdown, "how many times as long work takes on a slow node, 1 to 1000"]
    share: Annotated[bounds.Share, "share of the nodes that can be slow; which ones is drawn"] = 1.0


@frozen
class FaultEntry:
    """One fault of one node at a given time: it fails, returns, becomes slow or is normal again."""

    at_s: Annotated[bounds.Instant, "when"]
    do: Annotated[str, bounds.Choice(NODE_FAULTS), "`fail`, `return`, `slow` or `normal`"]
    node: Annotated[int, "which node, from 0"]
    slowdown: Annotated[bounds.Slowdown | None, "with `slow` only: how many times as long work takes on the node"] = (
        None
    )


@frozen
class MessageFaultsSection:
    """The faults of messages between manager and scheduler: probabilities, for each message in each direction."""

    drop: Annotated[bounds.Share, "probability that a message is lost"] = 0.0
    duplicate: Annotated[bounds.Share, "probability that a message arrives twice; the second copy may be late"] = 0.0
    delay: Annotated[bounds.Share, "probability that a message is late"] = 0.0
    delay_s: Annotated[
        float,
        bounds.between(0, 60, bounds.SECONDS),
        "largest delay in real seconds, up to 60; delays are drawn uniformly",
    ] = 0.1
    reorder: Annotated[
        bounds.Share,
        "probability that a message arrives after the next one in its direction, or after 0.05 real seconds without one",
    ] = 0.0


@frozen
class PluginFaultsSection:
    """The faults of the scheduler's process."""

    kills: Annotated[
        PluginFaultCount, "how many times the scheduler's process is killed (SIGKILL) and another one started"
    ] = 0
    stalls: Annotated[
        PluginFaultCount, "how many times the scheduler's process is stopped (SIGSTOP) and continued later"
    ] = 0
    stall_s: Annotated[
        float, bounds.between(0, 3_600, bounds.SECONDS), "how long a stop lasts in real seconds, up to 3600"
    ] = 1.0
    batches: Annotated[
        bounds.AtLeastOne | None, "kills and stalls fall among the first N batches; default: as many as there are jobs"
    ] = None


@frozen
class ClockFault:
    """One jump of the clock of a live manager, forwards or (below 0) backwards."""

    at_s: Annotated[bounds.Instant, "when"]
    jump_s: Annotated[
        float,
        bounds.Range(f"{bounds.SECONDS} other than 0", -bounds.LONGEST_S, bounds.LONGEST_S, excluded=0),
        "how far the clock jumps, in emulated seconds; below 0: back",
    ]


@frozen
class DiskFault:
    """A time in which the disk of the database is full."""

    at_s: Annotated[bounds.Instant, "from when"]
    for_s: Annotated[bounds.FaultSpan, "for how long the database cannot grow"]


@frozen
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
