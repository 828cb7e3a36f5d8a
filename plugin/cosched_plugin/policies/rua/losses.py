"""Loss of a job on each node to the jobs that run or are planned there (penalised time, RUA paper, section 3.3)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from cosched_plugin.api import (
    Floats,
    Ints,
    JobSpec,
    Layers,
    Planned,
    Run,
    Snapshot,
    View,
    is_plain,
    room_on,
)
from cosched_plugin.policies.planning.losses import Key, Losses, losses_in
from cosched_plugin.policies.rua.bucket_exchange import Exchange

_MOST_KEPT = 32  # places from before the last change
_MOST_AT_ONCE = 256  # run times in one array


class Places:
    """The nodes on which a snapshot has places for jobs of one shape, and the losses of such jobs there."""

    __slots__ = ("_free", "_ground", "_losses", "_outlooks", "_rooms", "_rows", "_within", "total")

    def __init__(self, job: JobSpec, snapshot: Snapshot, losses: Losses) -> None:
        """``job`` is one of them; ``losses`` are those to the jobs that run on each node."""
        rooms = _rooms(job, snapshot)
        self._losses = losses
        self._ground = losses.ground(rooms.nonzero()[0], job, snapshot)
        self._rooms: Ints = rooms[self._ground.nodes]
        self._rows: Rows | None = None
        self.total = int(np.add.reduce(self._rooms))
        self._within = np.arange(snapshot.view.machine.depth)[:, None] < self._rooms  # [processes - 1, node]
        self._free = snapshot.free
        self._outlooks: dict[Key, Outlook] = {}

    def outlook(self, job: JobSpec, planned: tuple[Planned, ...]) -> Outlook:
        """Return the losses of ``job`` beside the running jobs and the ``planned`` ones."""
        (key,) = self._losses.keys((job,), planned)
        outlook = self._outlooks.get(key)
        if outlook is None:
            lost = self._loss_us(job, job.estimate_us, planned)
            levels = lost[self._within]
            levels.sort()
            outlook = self._outlooks[key] = Outlook(self, lost, levels)
        return outlook

    def foresee(self, jobs: Sequence[JobSpec], planned: tuple[Planned, ...]) -> None:
        """Compute the losses of these jobs together, once for equal jobs: users ask for round run times."""
        asked: dict[Hashable, dict[Key, JobSpec]] = {}  # by kind
        for key, job in zip(self._losses.keys(jobs, planned), jobs, strict=True):
            if key not in self._outlooks:
                asked.setdefault(key[0], {})[key] = job
        for of_kind in asked.values():
            keys = list(of_kind)
            one = of_kind[keys[0]]
            for first in range(0, len(keys), _MOST_AT_ONCE):
                some = keys[first : first + _MOST_AT_ONCE]
                spans_us = np.array([key[1] for key in some], dtype=np.int64)
                lost = self._loss_us(one, spans_us[:, None, None], planned)
                levels = np.sort(lost[:, self._within], axis=1)
                for row, key in enumerate(some):
                    self._outlooks[key] = Outlook(self, lost[row], levels[row])

    @property
    def rows(self) -> Rows:
        """Return the nodes that have a place."""
        if self._rows is None:
            at = self._rooms.nonzero()[0]
            rooms = self._rooms[at]
            self._rows = Rows(at, self._ground.nodes[at], rooms, rooms.cumsum())
        return self._rows

    def runs(self, job: JobSpec, exchange: Exchange) -> tuple[Run, ...]:
        """Return where ``job`` goes."""
        return exchange.runs(self.rows.nodes, self._free, job.threads_per_process)

    def _loss_us(self, job: JobSpec, run_us: int | Ints, planned: tuple[Planned, ...]) -> Floats:
        return self._ground.lost_us(job, len(self._within), run_us, planned)


class Rows(NamedTuple):
    """Nodes that have a place."""

    at: Ints  # their positions among the nodes with known losses
    nodes: Ints  # ascending
    rooms: Ints  # how many processes each can take
    filled: Ints  # and how many it and the nodes before it


class Outlook:
    """Losses of jobs of one demand and estimate: on each node, and with each number of processes."""

    __slots__ = ("_exchanges", "_levels_us", "_loss_us", "_places")

    def __init__(self, places: Places, lost: Floats, levels_us: Floats) -> None:
        """``lost`` [processes - 1, node] is the penalised time in us, ``levels_us`` that of all places, ascending."""
        self._places = places
        self._loss_us = lost
        self._levels_us = levels_us
        self._exchanges: dict[tuple[int, float], Exchange] = {}

    def least_us(self, processes: int) -> float:
        """Return the least possible loss on the worst node of a job with ``processes`` processes. There must be places for them."""
        # More processes on a node never lose less, so the best places of a node are its first ones.
        return float(self._levels_us[processes - 1])

    def exchange(self, processes: int, goal_us: float) -> Exchange:
        """Return the search for places with no loss above ``goal_us``."""
        key = (processes, goal_us)
        found = self._exchanges.get(key)
        if found is None:
            rows = self._places.rows
            found = Exchange(self._loss_us.take(rows.at, axis=1), rows.rooms, rows.filled, processes, goal_us)
            self._exchanges[key] = found
        return found


class LossCache:
    """A cache of losses, for many jobs on one snapshot and for later events.

    The loss of a job that starts at some instant depends only on the jobs expected to be there then, and on planned jobs. So
    places of a later instant stay valid when jobs that end before it come and go.
    """

    __slots__ = ("_changes", "_losses", "_now_us", "_places", "_version", "_view")

    def __init__(self) -> None:
        self._view: View | None = None
        self._version = 0
        self._now_us = 0
        self._changes = 0  # of the losses
        self._losses: tuple[View, Losses] | None = None
        self._places: dict[tuple[int, Layers], Places] = {}

    def losses(self, view: View) -> Losses:
        """Return the losses on the machine of a view."""
        if self._losses is None or self._losses[0] is not view:
            self._losses = (view, losses_in(view))
        return self._losses[1]

    def places(self, job: JobSpec, snapshot: Snapshot) -> Places:
        """Return the places that ``snapshot`` has for jobs of the shape of ``job``."""
        view = snapshot.view
        if not is_plain(job):
            return Places(job, snapshot, self.losses(view))
        if self._version != view.version or self._view is not view:
            self._turn_to(view)
        elif self._now_us != view.now_us:  # the past is never requested again
            self._places = {key: places for key, places in self._places.items() if key[0] >= view.now_us}
        self._now_us = view.now_us
        key = (snapshot.at_us, snapshot.free)
        places = self._places.get(key)
        if places is None:
            places = self._places[key] = Places(job, snapshot, self.losses(view))
        return places

    def _turn_to(self, view: View) -> None:
        """Drop entries that may be invalid, and all but the last few."""
        losses = self.losses(view)
        settled_us = max(view.now_us, losses.settled_us(self._changes))
        kept = list(self._places.items())[-_MOST_KEPT:] if self._view is view else []
        self._places = {key: places for key, places in kept if key[0] >= settled_us}
        self._view = view
        self._version = view.version
        self._changes = losses.changes


def _rooms(job: JobSpec, snapshot: Snapshot) -> Ints:
    view = snapshot.view
    if is_plain(job):
        return view.thread_counts(snapshot.free)
    counts = view.thread_counts(view.open_to(job, snapshot.free)).copy()
    memory = snapshot.memory_for(job)
    for node in np.flatnonzero(counts).tolist():
        counts[node] = room_on(job, int(counts[node]), view.machine.threads_of[node], memory[node])
    return counts
