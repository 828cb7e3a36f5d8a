"""What a job loses on each node to the jobs that run or are planned there: penalised time, RUA paper, section 3.3.

One protocol, `Losses`, with two implementations. Under the belief `bandwidth` losses follow from summed demand, in arrays for all nodes
at once. Under any other belief about jobs on a node they follow from its model, job by job and thread by thread (`ModelledLosses`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol, TypeAlias

import numpy as np

from cosched_plugin.api import (
    Floats,
    Ground,
    Ints,
    JobSpec,
    NodeTable,
    Planned,
    Run,
    Snapshot,
    View,
    each_node,
    loads_of,
)
from cosched_plugin.policies.planning.modelled_losses import ModelledLosses

NO_DEMAND = (0, 0, 0)
Key: TypeAlias = tuple[Hashable, int, Hashable]  # kind of a job, its run time in us, kind of planned jobs


class NodeLosses(Protocol):
    """Some nodes with the free threads of one snapshot, and the losses of jobs of one shape that start there at its instant."""

    @property
    def nodes(self) -> Ints:
        """Return the nodes, ascending."""
        ...

    def lost_us(self, job: JobSpec, processes: int, run_us: int | Ints, planned: tuple[Planned, ...]) -> Floats:
        """Return the penalised time [processes - 1, node] of a job with 1, 2, ... ``processes`` on each node, on its lowest threads.

        It is at least 0, and does not fall as processes are added. With run times [job, 1, 1] of jobs of one kind it is
        [job, processes - 1, node].
        """
        ...


class Losses(Protocol):
    """The losses of jobs that start on the machine of a view."""

    @property
    def changes(self) -> int:
        """Return a number that grows when a running job comes or goes."""
        ...

    def settled_us(self, since: int) -> int:
        """Return the instant from which losses equal those after ``since`` changes."""
        ...

    @property
    def by_thread(self) -> bool:
        """Tell whether losses depend on which threads of a node a job gets."""
        ...

    def loses_nothing(self, job: JobSpec) -> bool:
        """Quick check: tell whether the job surely loses nothing, wherever it is."""
        ...

    def kind(self, job: JobSpec) -> Hashable:
        """Return the kind of a job: jobs of one kind and of one run time lose the same."""
        ...

    def keys(self, jobs: Sequence[JobSpec], planned: tuple[Planned, ...]) -> list[Key]:
        """Return for each job what its losses beside planned jobs depend on, apart from the machine."""
        ...

    def ground(self, nodes: Ints, job: JobSpec, snapshot: Snapshot) -> NodeLosses:
        """Return these nodes, which are in order, and perhaps others, for jobs of the shape of ``job``."""
        ...

    def worst_us(self, job: JobSpec, snapshot: Snapshot, runs: Sequence[Run]) -> float:
        """Return the penalised time of ``job`` on the worst node of ``runs``."""
        ...


def losses_in(view: View, *, empty: bool = False) -> Losses:
    """Return the losses under the site's belief, now and after changes of the view; if ``empty``, as if no job ran."""
    if view.neighbours() is not None:
        return ModelledLosses(view, empty=empty)
    return _EmptyDemandLosses(view) if empty else DemandLosses(view)


class DemandLosses:
    """Losses where the node's demand beyond its capacity slows all jobs there alike."""

    __slots__ = ("_view",)

    def __init__(self, view: View) -> None:
        self._view = view

    @property
    def table(self) -> NodeTable:
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

    def loses_nothing(self, job: JobSpec) -> bool:
        """Tell whether the job has no demand."""
        return job.demand is None or not any(job.demand)

    def kind(self, job: JobSpec) -> Hashable:
        """Return the job's demand."""
        return job.demand or NO_DEMAND

    def keys(self, jobs: Sequence[JobSpec], planned: tuple[Planned, ...]) -> list[Key]:
        """Return for each job its demand and estimate, and the demands and times of the planned jobs."""
        beside = loads_of(planned)
        return [(job.demand or NO_DEMAND, job.estimate_us, beside) for job in jobs]

    def ground(self, nodes: Ints, job: JobSpec, snapshot: Snapshot) -> NodeLosses:
        """Return these nodes, and perhaps others."""
        return _DemandGround(self.table.ground(nodes), snapshot.at_us)

    def worst_us(self, job: JobSpec, snapshot: Snapshot, runs: Sequence[Run]) -> float:
        """Return the penalised time of ``job`` on the worst node of ``runs``."""
        placed = sorted(each_node(runs))
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
    def table(self) -> NodeTable:
        """Return a table of the nodes without jobs."""
        return self._view.empty_node_table()


class _DemandGround:
    """Nodes of a node table at one instant."""

    __slots__ = ("_at_us", "_ground", "_stays_us", "nodes")

    def __init__(self, ground: Ground, at_us: int) -> None:
        self._ground = ground
        self._at_us = at_us
        self._stays_us = ground.stays_us(at_us)
        self.nodes = ground.nodes

    def lost_us(self, job: JobSpec, processes: int, run_us: int | Ints, planned: tuple[Planned, ...]) -> Floats:
        """Return the penalised time."""
        return self._ground.penalised_us(
            job.demand or NO_DEMAND, processes, self._at_us, run_us, planned, self._stays_us
        )
