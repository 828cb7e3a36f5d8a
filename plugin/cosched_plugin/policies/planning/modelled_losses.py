"""Losses of jobs by a model of the jobs on a node: every job and its hardware threads count, not only demand."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import accumulate
from typing import Final

import numpy as np

from cosched_plugin.api import (
    Floats,
    Ints,
    JobSpec,
    Neighbour,
    Neighbours,
    NodeLoad,
    Planned,
    Run,
    Snapshot,
    ThreadMask,
    View,
    load_of,
    lowest_threads,
    penalised_us,
    thread_mask,
)

_NEVER_US: Final = 1 << 62


class ModelledLosses:
    """Losses to the jobs of each node, over the shared windows with each set of them.

    A loss counts from 0 on: a job that gains by its neighbours, or by having its processes together, is planned as if it did not.
    """

    __slots__ = ("_empty", "_view")

    def __init__(self, view: View, *, empty: bool) -> None:
        """If ``empty``, no job runs."""
        self._view = view
        self._empty = empty or not view.any_threads  # on whole nodes, a job starts where no other one is

    @property
    def _neighbours(self) -> Neighbours:
        neighbours = self._view.neighbours()
        assert neighbours is not None  # the belief of a view never changes
        return neighbours

    @property
    def changes(self) -> int:
        """Return the version of the running jobs."""
        return self._neighbours.version

    def settled_us(self, since: int) -> int:
        """Return an instant that never comes, unless nothing has changed: a model may depend on every job and every thread."""
        return 0 if since == self._neighbours.version else _NEVER_US

    @property
    def by_thread(self) -> bool:
        """Return True: models may tell threads apart."""
        return True

    def loses_nothing(self, job: JobSpec) -> bool:
        """Return False: only the model can tell."""
        return False

    def kind(self, job: JobSpec) -> Hashable:
        """Return the job's number: models know jobs one by one."""
        return job.id

    def keys(self, jobs: Sequence[JobSpec], planned: tuple[Planned, ...]) -> list[tuple[Hashable, int, Hashable]]:
        """Return for each job the jobs themselves."""
        return [(job.id, job.estimate_us, planned) for job in jobs]

    def ground(self, nodes: Ints, job: JobSpec, snapshot: Snapshot) -> ModelledGround:
        """Return these nodes."""
        return ModelledGround(self, nodes, job, snapshot)

    def worst_us(self, job: JobSpec, snapshot: Snapshot, runs: Sequence[Run]) -> float:
        """Return the penalised time of ``job`` on the worst node of ``runs``, on these threads."""
        known: dict[object, float] = {}
        for first, count, mask, processes in runs:
            for node in range(first, first + count):
                there = self.there(node, snapshot.planned)
                key = (self.kind_of_node(node), mask, processes, there)
                if key not in known:
                    own = load_of(job, processes, mask)
                    known[key] = self.lost_us(node, own, there, snapshot.at_us, job.estimate_us)
        return max(known.values())

    def kind_of_node(self, node: int) -> int:
        """Return the kind of a node: nodes of one kind are alike."""
        return self._neighbours.kinds[node]

    def there(self, node: int, planned: tuple[Planned, ...]) -> tuple[Neighbour, ...]:
        """Return the jobs that run, or will run, on a node."""
        there = () if self._empty else self._neighbours.on_node(node)
        if not planned:
            return there
        return there + tuple(
            Neighbour(item.start_us, item.end_us, load) for item in planned for load in _loads(node, item)
        )

    def lost_us(self, node: int, own: NodeLoad, there: Sequence[Neighbour], start_us: int, run_us: int) -> float:
        """Return the penalised time of a job with the load ``own`` on a node, beside these jobs."""
        neighbours = self._neighbours
        return max(0.0, penalised_us(lambda loads: neighbours.penalty(node, own, loads), there, start_us, run_us))


class ModelledGround:
    """Nodes with the free threads of one snapshot; equal nodes are examined once."""

    __slots__ = ("_at_us", "_free", "_losses", "nodes")

    def __init__(self, losses: ModelledLosses, nodes: Ints, job: JobSpec, snapshot: Snapshot) -> None:
        """``job`` is one of those that will be asked about."""
        self.nodes = nodes
        self._losses = losses
        self._at_us = snapshot.at_us
        free = snapshot.view.open_to(job, snapshot.free)
        self._free = [thread_mask(free, node) for node in nodes.tolist()]

    def lost_us(self, job: JobSpec, processes: int, run_us: int | Ints, planned: tuple[Planned, ...]) -> Floats:
        """Return the penalised time [processes - 1, node]; with run times [job, 1, 1], [job, processes - 1, node].

        Where fewer processes of a job lose more on a node than all of them, all count as losing as much.
        """
        if not isinstance(run_us, int):
            return np.stack([self.lost_us(job, processes, int(one_us), planned) for one_us in run_us.ravel()])
        losses = self._losses
        columns: dict[object, list[float]] = {}
        found = []
        for node, free in zip(self.nodes.tolist(), self._free, strict=True):
            there = losses.there(node, planned)
            key = (losses.kind_of_node(node), free, there)
            column = columns.get(key)
            if column is None:
                column = columns[key] = self._column(job, node, free, there, processes, run_us)
            found.append(column)
        lost: Floats = np.array(found, dtype=np.float64).reshape(len(found), processes).T
        return lost

    def _column(
        self, job: JobSpec, node: int, free: ThreadMask, there: tuple[Neighbour, ...], processes: int, run_us: int
    ) -> list[float]:
        """Return the penalised time with each number of processes on one node; what does not fit counts like the last that does."""
        width = job.threads_per_process
        most = min(processes, free.bit_count() // width, job.processes)
        masks = [free if job.exclusive else lowest_threads(free, count * width) for count in range(1, most + 1)]
        loads = [load_of(job, count, mask) for count, mask in enumerate(masks, 1)]
        column = list(accumulate([self._losses.lost_us(node, own, there, self._at_us, run_us) for own in loads], max))
        return column + column[-1:] * (processes - most) if column else [0.0] * processes


def _loads(node: int, planned: Planned) -> Iterator[NodeLoad]:
    """Yield the load of a planned job on a node, if it will be there."""
    for (first, count, mask, processes), (_, _, rates) in zip(planned.runs, planned.demands, strict=False):
        if first <= node < first + count:
            yield NodeLoad(planned.job_id, processes, mask, rates)
