"""The reservation of the head: which jobs may run before it if memory or demand matter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.plugin.policies.cases import NOW_US, welcome_of
from tests.runs import runs_on

from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.protocol.messages import JobSpec, NodeClass, Run, RunningJob, StartJob

TWO = NodeClass(2, 1, 2, 1, 16, 6000, 0, 0)


def job(number: int, processes: int, estimate_us: int, **more: Any) -> JobSpec:
    return JobSpec(number, NOW_US, processes, estimate_us, **more)


def running(number: int, runs: tuple[Run, ...], left_us: int, **more: Any) -> RunningJob:
    processes = sum(count * ppn for _, count, _, ppn in runs)
    return RunningJob(job(number, processes, NOW_US + left_us, **more), 0, runs, NOW_US + left_us, None)


def started(
    policy: str, nodes: NodeClass, there: Sequence[RunningJob], waiting: Sequence[JobSpec], down: tuple[int, ...] = ()
) -> list[int]:
    """Return the started jobs, after checking that one more pass starts nothing."""
    welcome = welcome_of([nodes], there, waiting)._replace(down=down)
    core = SchedulerCore(compose({"preset": policy}), welcome)
    actions = core.handle(NOW_US, ())
    core.check()
    assert core.handle(NOW_US, ()) == []
    assert all(isinstance(action, StartJob) for action in actions)
    return [action.job_id for action in actions if isinstance(action, StartJob)]


@pytest.mark.parametrize("policy", ["easy", "sjbf", "lc", "lct", "rua"])
def test_a_job_that_no_nodes_in_service_can_hold_is_passed_over(policy: str) -> None:
    """The next job is the head: it starts at once if it fits, and gets the reservation otherwise."""
    assert started(policy, TWO, (), [job(1, 4, 10), job(2, 2, 10)], down=(0,)) == [2]
    there = [running(9, runs_on((1, 1, 1, 1)), 5)]
    waiting = [job(1, 4, 10), job(2, 2, 10), job(3, 1, 6), job(4, 1, 5)]
    assert started(policy, TWO, there, waiting, down=(0,)) == [4]  # job 3 would delay job 2


def test_without_backfilling_an_impossible_head_blocks() -> None:
    assert started("fcfs", TWO, (), [job(1, 4, 10), job(2, 2, 10)], down=(0,)) == []


@pytest.mark.parametrize("policy", ["easy", "lc", "rua"])
def test_memory_is_reserved(policy: str) -> None:
    """The head needs the memory of both nodes from 10 on: a job that runs longer must leave that memory free."""
    there = [running(9, runs_on((0, 1, 1, 1)), 10, memory_mb=8)]
    head = job(1, 2, 10, ppn_max=1, memory_mb=10)
    greedy = job(2, 1, 20, memory_mb=8)  # it fits only on node 1 now
    assert started(policy, TWO, there, [head, greedy._replace(memory_mb=10)]) == []
    assert started(policy, TWO, there, [head, greedy._replace(memory_mb=6)]) == [2]
    assert started(policy, TWO, there, [head, greedy._replace(memory_mb=10, estimate_us=10)]) == [2]


@pytest.mark.parametrize("policy", ["lct", "rua"])
def test_the_demand_of_a_started_job_counts_once(policy: str) -> None:
    """Two jobs may overtake a head that tolerates both: the first must not count twice when the second is examined.

    The head's four processes of 1000 MB/s get node 0 at 10. One process of 1500 there and another of 500 leave it without penalty,
    but 1500 twice would not.
    """
    nodes = NodeClass(1, 1, 6, 1, 16, 6000, 0, 0)
    there = [running(9, runs_on((0, 1, 15, 4)), 10)]
    head = job(1, 4, 10, demand=(1000, 0, 0))
    waiting = [head, job(2, 1, 20, demand=(1500, 0, 0)), job(3, 1, 21, demand=(500, 0, 0))]
    assert started(policy, nodes, there, waiting) == [2, 3]
