"""How much slower a job should run on given nodes: the penalty factor of the RUA paper, section 3.3."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cosched_plugin.api import (
    Floats,
    Ints,
    JobSpec,
    NodeTable,
    Run,
    each_node,
    is_plain,
    penalty_factor,
    room_on,
    round_up_us,
)
from cosched_plugin.policies.offers import Offer, Plan


class Outlook:
    """The places that a plan has for a job, and what the job would lose on them.

    ``nodes`` are those with a place, ascending; ``rooms`` [node] how many processes each can take.
    """

    __slots__ = ("_job", "_lost", "_plan", "_table", "nodes", "places", "rooms")

    def __init__(self, job: JobSpec, plan: Plan, table: NodeTable | None = None) -> None:
        """``table`` stands in for the running jobs of the plan's view."""
        rooms = _rooms(job, plan)
        self.nodes: Ints = np.flatnonzero(rooms)
        self.rooms: Ints = rooms[self.nodes]
        self.places = int(self.rooms.sum())
        self._job = job
        self._plan = plan
        self._table = table
        self._lost: Floats | None = None

    @property
    def lost(self) -> Floats:
        """Return the penalised time [node, processes - 1] over the job's estimate, in microseconds."""
        if self._lost is None:
            self._lost = _lost_us(self._job, self._plan, self.nodes, int(self.rooms.max()), self._table)
        return self._lost

    def places_within(self, limit_us: float) -> int:
        """Return how many processes can be placed so that none of their nodes loses more than ``limit_us``."""
        # More processes on a node never lose less, so the numbers that are within the limit are the first ones.
        return int(np.minimum(np.add.reduce(self.lost <= limit_us, axis=1), self.rooms).sum())


def _rooms(job: JobSpec, plan: Plan) -> Ints:
    machine = plan.view.machine
    counts = plan.view.thread_counts(plan.free)
    if is_plain(job):
        return counts
    counts = counts.copy()
    memory = plan.memory_for(job)
    for node in np.flatnonzero(counts).tolist():
        counts[node] = room_on(job, int(counts[node]), machine.threads_of[node], memory[node])
    return counts


def _lost_us(job: JobSpec, plan: Plan, nodes: Ints, processes: int, table: NodeTable | None = None) -> Floats:
    lost: Floats = (plan.view.node_table() if table is None else table).penalised_us(
        nodes,
        [job.demand or (0, 0, 0)],
        processes,
        np.array([plan.at_us], dtype=np.int64),
        np.array([job.estimate_us], dtype=np.int64),
        plan.planned,
    )[0]
    return lost


def promising(jobs: list[JobSpec], limits_us: list[float], plan: Plan) -> list[JobSpec]:
    """Return those plain jobs that could be placed so that none of their nodes loses more than the job's limit.

    What `Outlook.places_within` tells of each, all at once, and once for jobs alike: users ask for round run times.
    """
    counts = plan.view.thread_counts(plan.free)
    nodes = np.flatnonzero(counts)
    if not jobs or not len(nodes):
        return []
    rooms = counts[nodes]
    kinds = [
        (job.demand or (0, 0, 0), job.estimate_us, limit_us) for job, limit_us in zip(jobs, limits_us, strict=True)
    ]
    rows = {kind: row for row, kind in enumerate(dict.fromkeys(kinds))}
    demands, spans, limits = zip(*rows, strict=True)
    lost = plan.view.node_table().penalised_us(
        nodes,
        demands,
        int(rooms.max()),
        np.full(len(rows), plan.at_us, dtype=np.int64),
        np.array(spans, dtype=np.int64),
        plan.planned,
    )
    within = np.add.reduce(lost <= np.array(limits)[:, None, None], axis=2)
    places = np.minimum(within, rooms).sum(axis=1).tolist()
    return [job for job, kind in zip(jobs, kinds, strict=True) if places[rows[kind]] >= job.processes]


def factor(job: JobSpec, lost_us: float) -> float:
    """Return the penalty factor of a job that loses ``lost_us`` on its worst node."""
    return penalty_factor(job.estimate_us, (lost_us,))


def factor_of(job: JobSpec, plan: Plan, runs: Sequence[Run]) -> float:
    """Return the penalty factor of ``job`` on ``runs``: its worst node counts."""
    placed = list(each_node(runs))
    counts = np.array([count for _, count in placed], dtype=np.int64)
    lost = _lost_us(job, plan, np.array([node for node, _ in placed], dtype=np.int64), int(counts.max()))
    return factor(job, float(lost[np.arange(len(placed)), counts - 1].max()))


def extended(job: JobSpec, plan: Plan, runs: tuple[Run, ...], by: float, *, extend_limit: bool) -> Offer:
    """Return the offer with run time and, where asked for, limit multiplied by the penalty factor ``by``, rounded up.

    The limit is fixed here, at allocation, and not extended again for later neighbours.
    """
    run_us = stretch(job.estimate_us, by)
    limit_us = job.limit_us
    if limit_us is not None:
        if extend_limit:
            limit_us = stretch(limit_us, by)
        run_us = min(run_us, limit_us)
    return Offer(job, plan.at_us, runs, by, run_us, limit_us)


def stretch(span_us: int, by: float) -> int:
    """Return ``span_us`` times ``by``, rounded up."""
    return span_us if by == 1.0 else round_up_us(span_us * by)
