"""Gang scheduling in three rows on contiguous columns: the one of communication-driven coscheduling's comparison."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from tests.plugin.policies.gang.gang_cases import Site, spec_of, welcome_to

from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.protocol.messages import JobSubmitted, NodeClass, StartJob

GANG: Mapping[str, Any] = {"preset": "gang-contiguous"}
SKIPPING: Mapping[str, Any] = {"preset": "gang-contiguous", "backfill": {"skip": True}}


def columns(site: Site) -> dict[int, tuple[int, int]]:
    """Return the first node and the number of nodes of each running job; all are contiguous."""
    found = {}
    for job_id, running in site.view.running.items():
        ((first, count, mask, processes),) = running.runs
        assert (mask, processes) == (1, 1)
        found[job_id] = (first, count)
    return found


def test_jobs_fill_holes_of_rows_before_a_new_row() -> None:
    """Sizes of the paper on 16 nodes: job 5 has no place in any row, and there are three at most."""
    site = Site(GANG, 16)
    site.end({}, arrived=[spec_of(job_id, size) for job_id, size in enumerate((9, 4, 16, 9, 8, 4), start=1)])
    assert site.rows() == {0: [1, 2], 1: [3], 2: [4]}
    assert columns(site) == {1: (0, 9), 2: (9, 4), 3: (0, 16), 4: (7, 9)}
    assert [job.id for job in site.view.queue] == [5, 6]  # job 6 would fit, but 5 comes first


def test_a_job_without_a_place_is_passed_over_where_that_is_wanted() -> None:
    site = Site(SKIPPING, 16)
    site.end({}, arrived=[spec_of(job_id, size) for job_id, size in enumerate((9, 4, 16, 9, 8, 4), start=1)])
    assert site.rows() == {0: [1, 2], 1: [3], 2: [4, 6]}
    assert [job.id for job in site.view.queue] == [5]


def test_jobs_of_other_rows_run_on_idle_nodes() -> None:
    site = Site(GANG, 16)
    site.end({}, arrived=[spec_of(1, 9), spec_of(2, 9), spec_of(3, 4), spec_of(4, 4)])
    assert site.rows() == {0: [1, 3], 1: [2, 4]}
    assert columns(site) == {1: (0, 9), 2: (7, 9), 3: (9, 4), 4: (0, 4)}
    site.end({1: 1.0, 3: 1.0}, ended=[1])  # nodes 0 to 8 are idle in row 0
    site.end({2: 1.0, 4: 1.0})
    assert site.now() == (0, None, (4,))


@pytest.mark.parametrize("policy", [GANG, SKIPPING], ids=["strict", "skip"])
def test_no_node_holds_more_than_three_jobs_or_its_memory(policy: Mapping[str, Any]) -> None:
    """All slots of a node count together; the sizes and 900 MB are the paper's."""
    random = Random(5)
    site = Site(policy, 16, memory_mb=900)
    started = most_jobs = 0
    most_mb = 0
    for number in range(60):
        job = spec_of(number, random.choice((4, 8, 9, 16)), memory_mb=random.choice((60, 176, 228, 354, 428)))
        ended = [each for each in site.view.running if random.random() < 0.2]
        actions = site.end({}, ended=ended, arrived=[job])
        started += sum(isinstance(action, StartJob) for action in actions)
        for node in range(16):
            there = [
                site.view.running[each].job
                for each, (first, count) in columns(site).items()
                if first <= node < first + count
            ]
            most_jobs = max(most_jobs, len(there))
            most_mb = max(most_mb, sum(each.memory_mb for each in there))
    assert started > 30
    assert most_jobs == 3
    assert 800 < most_mb <= 900


def test_nodes_of_three_threads_give_one_of_them_in_each_slot() -> None:
    core = SchedulerCore(compose(GANG), welcome_to([NodeClass(16, 1, 1, 3, 900, 0, 0, 0)]))
    jobs = [JobSubmitted(spec_of(job_id, 16, memory_mb=300)) for job_id in range(4)]
    core.handle(1, jobs)
    assert {job_id: (running.slot, running.runs) for job_id, running in core.view.running.items()} == {
        job_id: (job_id, ((0, 16, 1, 1),)) for job_id in range(3)
    }
