"""What a job loses on each node to the jobs that run or are planned there: penalised time, RUA paper, section 3.3.

One protocol, `Losses`, with two implementations. Under the belief `bandwidth` losses follow from summed demand, in arrays for all nodes
at once. Under any other belief about jobs on a node they follow from its model, job by job and thread by thread (`ModelledLosses`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import accumulate
from typing import Final, Protocol, TypeAlias

import numpy as np

from cosched_plugin import api

# Losses of jobs by a model of the jobs on a node: every job and its hardware threads count, not only demand.

_NEVER_US: Final = 1 << 62


class ModelledLosses:
    """Losses to the jobs of each node, over the shared windows with each set of them.

    A loss counts from 0 on: a job that gains by its neighbours, or by having its processes together, is planned as if it did not.
    """

    __slots__ = ("_empty", "_view")

    def __init__(self, view: api.View, *, empty: bool) -> None:
        """If ``empty``, no job runs."""
        self._view = view
        self._empty = empty or not view.any_threads  # on whole nodes, a job starts where no other one is

    @property
    def _neighbours(self) -> api.Neighbours:
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

    def loses_nothing(self, job: api.JobSpec) -> bool:
        """Return False: only the model can tell."""
        return False

    def kind(self, job: api.JobSpec) -> Hashable:
        """Return the job's number: models know jobs one by one."""
        return job.id

    def keys(
        self, jobs: Sequence[api.JobSpec], planned: tuple[api.Planned, ...]
    ) -> list[tuple[Hashable, int, Hashable]]:
        """Return for each job the jobs themselves."""
        return [(job.id, job.estimate_us, planned) for job in jobs]

    def ground(self, nodes: api.Ints, job: api.JobSpec, snapshot: api.Snapshot) -> ModelledGround:
        """Return these nodes."""
        return ModelledGround(self, nodes, job, snapshot)

    def worst_us(self, job: api.JobSpec, snapshot: api.Snapshot, runs: Sequence[api.Run]) -> float:
        """Return the penalised time of ``job`` on the worst node of ``runs``, on these threads."""
        known: dict[object, float] = {}
        for first, count, mask, processes in runs:
            for node in range(first, first + count):
                there = self.there(node, snapshot.planned)
                key = (self.kind_of_node(node), mask, processes, there)
                if key not in known:
                    own = api.load_of(job, processes, mask)
                    known[key] = self.lost_us(node, own, there, snapshot.at_us, job.estimate_us)
        return max(known.values())

    def kind_of_node(self, node: int) -> int:
        """Return the kind of a node: nodes of one kind are alike."""
        return self._neighbours.kinds[node]

    def there(self, node: int, planned: tuple[api.Planned, ...]) -> tuple[api.Neighbour, ...]:
        """Return the jobs that run, or will run, on a node."""
        there = () if self._empty else self._neighbours.on_node(node)
        if not planned:
            return there
        return there + tuple(
            api.Neighbour(item.start_us, item.end_us, load) for item in planned for load in _loads(node, item)
        )

    def lost_us(
        self, node: int, own: api.NodeLoad, there: Sequence[api.Neighbour], start_us: int, run_us: int
    ) -> float:
        """Return the penalised time of a job with the load ``own`` on a node, beside these jobs."""
        neighbours = self._neighbours
        return max(0.0, api.penalised_us(lambda loads: neighbours.penalty(node, own, loads), there, start_us, run_us))


class ModelledGround:
    """Nodes with the free threads of one snapshot; equal nodes are examined once."""

    __slots__ = ("_at_us", "_free", "_losses", "nodes")

    def __init__(self, losses: ModelledLosses, nodes: api.Ints, job: api.JobSpec, snapshot: api.Snapshot) -> None:
        """``job`` is one of those that will be asked about."""
        self.nodes = nodes
        self._losses = losses
        self._at_us = snapshot.at_us
        free = snapshot.open_to(job)
        self._free = [api.thread_mask(free, node) for node in nodes.tolist()]

    def lost_us(
        self, job: api.JobSpec, processes: int, run_us: int | api.Ints, planned: tuple[api.Planned, ...]
    ) -> api.Floats:
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
        lost: api.Floats = np.array(found, dtype=np.float64).reshape(len(found), processes).T
        return lost

    def _column(
        self,
        job: api.JobSpec,
        node: int,
        free: api.ThreadMask,
        there: tuple[api.Neighbour, ...],
        processes: int,
        run_us: int,
    ) -> list[float]:
        """Return the penalised time with each number of processes on one node; what does not fit counts like the last that does."""
        width = job.threads_per_process
        most = min(processes, free.bit_count() // width, job.processes)
        masks = [free if job.exclusive else api.lowest_threads(free, count * width) for count in range(1, most + 1)]
        loads = [api.load_of(job, count, mask) for count, mask in enumerate(masks, 1)]
        column = list(accumulate([self._losses.lost_us(node, own, there, self._at_us, run_us) for own in loads], max))
        return column + column[-1:] * (processes - most) if column else [0.0] * processes


def _loads(node: int, planned: api.Planned) -> Iterator[api.NodeLoad]:
    """Yield the load of a planned job on a node, if it will be there."""
    for (first, count, mask, processes), (_, _, rates) in zip(planned.runs, planned.demands, strict=False):
        if first <= node < first + count:
            yield api.NodeLoad(planned.job_id, processes, mask, rates)


NO_DEMAND = (0, 0, 0)
Key: TypeAlias = tuple[Hashable, int, Hashable]  # kind of a job, its run time in us, kind of planned jobs


class NodeLosses(Protocol):
    """Some nodes with the free threads of one snapshot, and the losses of jobs of one shape that start there at its instant."""

    @property
    def nodes(self) -> api.Ints:
        """Return the nodes, ascending."""

    def lost_us(
        self, job: api.JobSpec, processes: int, run_us: int | api.Ints, planned: tuple[api.Planned, ...]
    ) -> api.Floats:
        """Return the penalised time [processes - 1, node] of a job with 1, 2, ... ``processes`` on each node, on its lowest threads.

        It is at least 0, and does not fall as processes are added. With run times [job, 1, 1] of jobs of one kind it is
        [job, processes - 1, node].
        """


class Losses(Protocol):
    """The losses of jobs that start on the machine of a view."""

    @property
    def changes(self) -> int:
        """Return a number that grows when a running job comes or goes."""

    def settled_us(self, since: int) -> int:
        """Return the instant from which losses equal those after ``since`` changes."""

    @property
    def by_thread(self) -> bool:
        """Tell whether losses depend on which threads of a node a job gets."""

    def loses_nothing(self, job: api.JobSpec) -> bool:
        """Quick check: tell whether the job surely loses nothing, wherever it is."""

    def kind(self, job: api.JobSpec) -> Hashable:
        """Return the kind of a job: jobs of one kind and of one run time lose the same."""

    def keys(self, jobs: Sequence[api.JobSpec], planned: tuple[api.Planned, ...]) -> list[Key]:
        """Return for each job what its losses beside planned jobs depend on, apart from the machine."""

    def ground(self, nodes: api.Ints, job: api.JobSpec, snapshot: api.Snapshot) -> NodeLosses:
        """Return these nodes, which are in order, and perhaps others, for jobs of the shape of ``job``."""

    def worst_us(self, job: api.JobSpec, snapshot: api.Snapshot, runs: Sequence[api.Run]) -> float:
        """Return the penalised time of ``job`` on the worst node of ``runs``."""


def losses_in(view: api.View, *, empty: bool = False) -> Losses:
    """Return the losses under the site's belief, now and after changes of the view; if ``empty``, as if no job ran."""
    if view.neighbours() is not None:
        return ModelledLosses(view, empty=empty)
    return _EmptyDemandLosses(view) if empty else DemandLosses(view)


class DemandLosses:
    """Losses where the node's demand beyond its capacity slows all jobs there alike."""

    __slots__ = ("_view",)

    def __init__(self, view: api.View) -> None:
        self._view = view

    @property
    def table(self) -> api.NodeTable:
        """Return the table of the nodes."""
        return self._view.node_table()

    @property
    def changes(self) -> int:
        """Return the number of changes of the table."""
        return self.table.changes

    def settled_us(self, since: int) -> int:
        """Return the instant from which the table equals that after ``since`` changes."""
        return self.table.settled_us(since)

    @property
    def by_thread(self) -> bool:
        """Return False: threads of a node are alike."""
        return False

    def loses_nothing(self, job: api.JobSpec) -> bool:
        """Tell whether the job has no demand."""
        return job.demand is None or not any(job.demand)

    def kind(self, job: api.JobSpec) -> Hashable:
        """Return the job's demand."""
        return job.demand or NO_DEMAND

    def keys(self, jobs: Sequence[api.JobSpec], planned: tuple[api.Planned, ...]) -> list[Key]:
        """Return for each job its demand and estimate, and the demands and times of the planned jobs."""
        beside = api.loads_of(planned) if planned else ()
        return [(job.demand or NO_DEMAND, job.estimate_us, beside) for job in jobs]

    def ground(self, nodes: api.Ints, job: api.JobSpec, snapshot: api.Snapshot) -> NodeLosses:
        """Return these nodes, and perhaps others."""
        return _DemandGround(self.table.ground(nodes), snapshot.at_us)

    def worst_us(self, job: api.JobSpec, snapshot: api.Snapshot, runs: Sequence[api.Run]) -> float:
        """Return the penalised time of ``job`` on the worst node of ``runs``."""
        placed = sorted(api.each_node(runs))
        counts = np.array([count for _, count in placed], dtype=np.int64)
        nodes = np.array([node for node, _ in placed], dtype=np.int64)
        ground = self.table.ground(nodes)
        lost = ground.penalised_us(
            job.demand or NO_DEMAND, int(counts.max()), snapshot.at_us, job.estimate_us, snapshot.planned
        )
        return float(lost[counts - 1, ground.nodes.searchsorted(nodes)].max())


class _EmptyDemandLosses(DemandLosses):
    """The same for nodes without jobs."""

    __slots__ = ()

    @property
    def table(self) -> api.NodeTable:
        """Return a table of the nodes without jobs."""
        return self._view.empty_node_table()


class _DemandGround:
    """Nodes of a node table at one instant."""

    __slots__ = ("_at_us", "_ground", "_stays_us", "nodes")

    def __init__(self, ground: api.Ground, at_us: int) -> None:
        self._ground = ground
        self._at_us = at_us
        self._stays_us = ground.stays_us(at_us)
        self.nodes = ground.nodes

    def lost_us(
        self, job: api.JobSpec, processes: int, run_us: int | api.Ints, planned: tuple[api.Planned, ...]
    ) -> api.Floats:
        """Return the penalised time."""
        return self._ground.penalised_us(
            job.demand or NO_DEMAND, processes, self._at_us, run_us, planned, self._stays_us
        )


# Expected slowdown of a job on given nodes, and its effect on the run time (penalty factor, RUA paper, section 3.3).


def factor(job: api.JobSpec, lost_us: float) -> float:
    """Return the penalty factor of a job that loses ``lost_us`` on its worst node."""
    return api.penalty_factor(job.estimate_us, (lost_us,)) if lost_us else 1.0  # most places cost nothing


def factor_of(job: api.JobSpec, snapshot: api.Snapshot, runs: Sequence[api.Run]) -> float:
    """Return the penalty factor of ``job`` on ``runs``: its worst node counts."""
    return factor(job, losses_in(snapshot.view).worst_us(job, snapshot, runs))


# Factors that differ only by rounding are equal: the same penalty summed over other windows.
SAME: Final = 1e-9


class LimitRule:
    """By what estimate and limit of a job grow when it gets its place.

    The RUA paper extends "according to this penalty" and calls the threshold of an allocation a penalty factor, too: by default it is
    the factor found, with the thresholds as ``factors`` the lowest threshold that the place meets.
    """

    __slots__ = ("_factors", "extends")

    def __init__(self, factors: Sequence[float] = (1.0,), *, extends: bool = True) -> None:
        """Without ``extends`` limits stay as they are. The lowest of ``factors`` counts that is not below the penalty factor."""
        self.extends = extends
        self._factors = tuple(sorted(set(factors)))

    def offer(self, job: api.JobSpec, snapshot: api.Snapshot, runs: tuple[api.Run, ...], by: float) -> api.Offer:
        """Return the offer for a place with the penalty factor ``by``; times are rounded up.

        The limit is fixed here, at allocation, and not extended again for later neighbours.
        """
        limit_us = job.limit_us
        can = snapshot.view.capabilities
        if self.extends and can.limits_grow:
            grows_by = next((factor for factor in self._factors if by <= factor + SAME), by)
            limit_us = None if limit_us is None else api.stretch(limit_us, grows_by)
            run_us = api.stretch(job.estimate_us, grows_by)
        else:
            run_us = api.stretch(job.estimate_us, by)
        most_us = run_us if limit_us is None else min(run_us, limit_us + can.limit_late_us)
        return api.Offer(job, snapshot.at_us, runs, by, most_us, limit_us)
