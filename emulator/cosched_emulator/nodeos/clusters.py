"""The front door of ``nodeos``: all that the manager, a scenario and a run ask of nodes that run processes.

- *Settings*: what a node is like inside (`NodeSettings`), for how long it is simulated exactly (`WindowPlan`).
- *Programs*: what a process does (`Program`), what it needs when it runs alone (`IterationNeed`). Those of the papers and of the NAS
  benchmarks are in ``skeletons``, which a scenario imports when a job runs one.
- *A cluster*: jobs are put on nodes, allowed to run, advanced and collected (`ProcessCluster` says how). `cluster_for` makes one of
  three kinds that can be exchanged: ``exact`` simulates every burst, ``fluid`` moves whole jobs at rates that it measures with
  ``exact``, ``windows`` simulates exactly for a while after each change and goes on at the rates found.

Only `cluster_for` loads what simulates: scenarios without time sharing do not pay for it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeVar

from cosched_emulator.nodeos.process_cluster import Counters, ProcessCluster, ProcessUse
from cosched_emulator.nodeos.programs import Program
from cosched_emulator.nodeos.settings import NodeSettings, WindowPlan
from cosched_emulator.nodeos.work_alone import IterationNeed

Rates = TypeVar("Rates")
__all__ = [
    "ClusterWish",
    "Counters",
    "IterationNeed",
    "NodeSettings",
    "ProcessCluster",
    "ProcessUse",
    "Program",
    "WindowPlan",
    "cluster_for",
]


class ClusterWish(NamedTuple):
    """A cluster that is wanted: ``nodes`` of the same settings, and how they are simulated."""

    kind: str  # exact, fluid or windows: `offered.NODE_KINDS`
    nodes: int
    seed: int
    quantum_us: int  # fluid: for which rates are measured
    rates: str | None = None  # fluid: a folder with measured rates, which other runs read and add to
    rounded: bool = False  # fluid: situations that are nearly the same count as one
    plan: WindowPlan = WindowPlan()  # windows
    turn_us: int = 0  # windows: what a turn costs each job


def cluster_for(settings: NodeSettings, wish: ClusterWish) -> ProcessCluster:
    """Return nodes on which no process is yet."""
    match wish.kind:
        case "exact":
            from cosched_emulator.nodeos.exact import ExactCluster  # noqa: PLC0415 - few scenarios share time

            return ExactCluster(settings, wish.nodes, wish.seed)
        case "windows":
            from cosched_emulator.nodeos.windows.window_groups import LonePaces  # noqa: PLC0415 - likewise
            from cosched_emulator.nodeos.windows.windowed_cluster import WindowedCluster  # noqa: PLC0415 - likewise

            alone = _shared(LonePaces, settings)
            return WindowedCluster(settings, wish.nodes, wish.seed, wish.plan, wish.turn_us, alone)
        case _:
            from cosched_emulator.nodeos.fluid.fluid_cluster import FluidCluster  # noqa: PLC0415 - likewise
            from cosched_emulator.nodeos.fluid.situations import Windows  # noqa: PLC0415 - likewise

            windows = _shared(Windows, settings, wish.quantum_us, None if wish.rates is None else Path(wish.rates))
            return FluidCluster(settings, wish.nodes, wish.seed, windows, wish.rounded)


@lru_cache(maxsize=8)
def _shared(kind: Callable[..., Rates], *parts: Hashable) -> Rates:
    """Return what runs of this process have measured: it does not depend on the run."""
    return kind(*parts)
