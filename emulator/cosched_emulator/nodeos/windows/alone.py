"""The pace of a job that is alone on its nodes, measured once for all jobs with the same loop."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from cosched_emulator.nodeos.exact import ExactCluster
from cosched_emulator.nodeos.programs import ByRank, Loop, Program
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_emulator.nodeos.windows.extent import Extent, Stage
from cosched_emulator.nodeos.windows.job import Pace, Use, used_by

_SEED: Final = 1  # rates belong to a loop, whatever run asks for them first
_FIRST: Final = 2  # iterations, which do not count
_FEWEST: Final = 4  # iterations that count
_SPAN_US: Final = 3_000_000  # or for how long, about
_FOREVER_US: Final = 1 << 61


class _Run(NamedTuple):
    """How long some iterations took, and what they used on each node."""

    us: int
    uses: tuple[Use, ...]


class Alone:
    """Paces of lone jobs, for one kind of node; jobs of several clusters of the same settings may share them.

    An exact simulation of the longest loop of a phase, over whole iterations.
    """

    def __init__(self, settings: NodeSettings) -> None:
        self.settings = settings
        self.events = 0  # of all exact simulations
        self._node = replace(settings, tick_us=0, memory_mb=0)
        self._known: dict[tuple[str, int, tuple[int, ...]], Pace] = {}

    def pace(self, extent: Extent, phase: int, shape: tuple[int, ...], since_us: int) -> Pace:
        """Return the pace of a job in a phase, from an instant on; process i is on node ``shape[i]`` of its nodes."""
        stage = extent.longest(phase)
        most = _FIRST + max(_FEWEST, -(-_SPAN_US // max(1, stage.length_us)))
        times = min(stage.times, most)
        key = (extent.key(stage), times, shape)
        pace = self._known.get(key)
        if pace is None:
            pace = self._known[key] = self._measure(stage, times, shape)
        return pace._replace(since_us=since_us)

    def _measure(self, stage: Stage, times: int, shape: tuple[int, ...]) -> Pace:
        whole = self._run(stage, times, shape)
        if times < _FIRST + _FEWEST:
            return Pace(0, whole.us, tuple([times * work_us for work_us in stage.rank_us]), whole.uses)
        first = self._run(stage, _FIRST, shape)
        span_us = whole.us - first.us
        uses = [new.minus(old) for new, old in zip(whole.uses, first.uses, strict=True)]
        # Processes end at different times, so a difference can be a little more than all of the time.
        kept = tuple([use._replace(consumed_us=min(use.consumed_us, span_us)) for use in uses])
        return Pace(0, span_us, tuple([(times - _FIRST) * work_us for work_us in stage.rank_us]), kept)

    def _run(self, stage: Stage, times: int, shape: tuple[int, ...]) -> _Run:
        cluster = ExactCluster(self._node, 1 + max(shape), _SEED)
        bodies = stage.bodies
        cluster.start(0, Program((Loop(times, ByRank(lambda rank: bodies[rank])),)), shape)
        processes = cluster.jobs[0].processes
        cluster.allow(0, {node: [0] for node in set(shape)})
        reached = cluster.advance(_FOREVER_US)
        self.events += cluster.events_done
        uses = [used_by([item for item in processes if item.node == node]) for node in range(1 + max(shape))]
        return _Run(reached.now_us, tuple(uses))
