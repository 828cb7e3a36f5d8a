"""How much slower a job should run on given nodes: the penalty factor of the Resource-Usage-Aware backfilling paper, section 3.3."""

from __future__ import annotations

from collections.abc import Sequence

from cosched_plugin.api import JobSpec, Run, each_node, round_up_us
from cosched_plugin.policies.offers import Offer, Plan


class Expectation:
    """Penalised time of one job, by node and number of processes, in one plan.

    Nodes with the same residents and capacity are worked out once.
    """

    __slots__ = ("_capacity", "_demand", "_known", "_penalised", "_plan", "run_us")

    def __init__(self, job: JobSpec, plan: Plan) -> None:
        self._plan = plan
        self._demand = job.demand or (0, 0, 0)
        self._capacity = plan.view.machine.capacity_of
        self._penalised = plan.view.contention.penalised_us
        self._known: dict[object, float] = {}
        self.run_us = job.estimate_us

    def penalised_us(self, node: int, processes: int) -> float:
        """Return the time that ``processes`` of the job lose on ``node`` over the job's estimate."""
        residents = self._plan.residents(node)
        capacity = self._capacity[node]
        key = (residents, processes, capacity)
        known = self._known.get(key)
        if known is None:
            bandwidth, network, disk = self._demand
            own = (bandwidth * processes, network * processes, disk * processes)
            known = self._penalised(residents, own, capacity, self._plan.at_us, self.run_us)
            self._known[key] = known
        return known

    def factor(self, worst_us: float) -> float:
        """Return the penalty factor of a job that loses ``worst_us`` on its worst node."""
        return (self.run_us + worst_us) / self.run_us


def factor_of(job: JobSpec, plan: Plan, runs: Sequence[Run]) -> float:
    """Return the penalty factor of ``job`` on ``runs``: its worst node counts."""
    expectation = Expectation(job, plan)
    return expectation.factor(max(expectation.penalised_us(node, processes) for node, processes in each_node(runs)))


def extended(job: JobSpec, plan: Plan, runs: tuple[Run, ...], factor: float, *, extend_limit: bool) -> Offer:
    """Return the offer with run time and, where asked for, limit multiplied by ``factor``, rounded up.

    The limit is fixed here, at allocation, and not extended again for later neighbours.
    """
    run_us = stretch(job.estimate_us, factor)
    limit_us = job.limit_us
    if limit_us is not None:
        if extend_limit:
            limit_us = stretch(limit_us, factor)
        run_us = min(run_us, limit_us)
    return Offer(job, plan.at_us, runs, factor, run_us, limit_us)


def stretch(span_us: int, factor: float) -> int:
    """Return ``span_us`` times ``factor``, rounded up."""
    return span_us if factor == 1.0 else round_up_us(span_us * factor)
