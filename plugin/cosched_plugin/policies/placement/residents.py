"""How many running jobs each node has, in all slots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cosched_plugin.api import Running, Snapshot, View, each_node


class Residents:
    """Counts the jobs on each node, once for each state of the machine."""

    __slots__ = ("_counts", "_known")

    def __init__(self) -> None:
        self._counts: Sequence[int] = ()  # a cache
        self._known: tuple[View | None, int] = (None, 0)

    def now(self, view: View) -> Sequence[int]:
        """Return the number of running jobs on each node, in all slots."""
        if self._known != (view, view.version):
            self._counts = _count(view.running.values(), view)
            self._known = (view, view.version)
        return self._counts

    def at(self, snapshot: Snapshot) -> Sequence[int]:
        """Return the same for the instant of a snapshot: of the jobs that run now, those that are not expected to have ended."""
        view, at_us = snapshot.view, snapshot.at_us
        if at_us <= view.now_us:
            return self.now(view)
        return _count([running for running in view.running.values() if view.expected_end(running) > at_us], view)


def _count(jobs: Iterable[Running], view: View) -> Sequence[int]:
    counts = [0] * view.machine.nodes
    for running in jobs:
        for node, _ in each_node(running.runs):
            counts[node] += 1
    return counts
