"""Placements with one process of a job on each node: contiguous nodes and random ones, compared with all there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import pytest
from tests.plugin.policies.cases import NOW_US, welcome_of
from tests.plugin.policies.harness import random_jobs, starts_under
from tests.reference import space_sharing as reference
from tests.reference.space_sharing import Job, Starts
from tests.runs import run_on

from cosched_hwmodel.draws import uniform
from cosched_plugin.api import Offer, each_node, snapshot_at, snapshot_now
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.policies.placement.compact import Contiguous, Scattered
from cosched_plugin.protocol.messages import JobSpec, NodeClass, NodeFailed, RejectJob, RunningJob, StartJob


def nodes_of(nodes: int, threads: int = 3, memory_mb: int = 0) -> NodeClass:
    """Return nodes of one core."""
    return NodeClass(nodes, 1, 1, threads, memory_mb, 0, 0, 0)


def job_of(number: int, processes: int, **more: Any) -> JobSpec:
    return JobSpec(number, 0, processes, 1000, None, **more)


class Resident:
    """A job that runs, with one process on each of some nodes."""

    def __init__(self, number: int, threads: Mapping[int, int], memory_mb: int = 0, end_us: int = 1000) -> None:
        """``threads``: its hardware thread on each of its nodes."""
        runs = tuple([run_on(node, 1, 1 << thread, 1) for node, thread in sorted(threads.items())])
        self.nodes = frozenset(threads)
        self.memory_mb = memory_mb
        self.told = RunningJob(job_of(number, len(threads), memory_mb=memory_mb), 0, runs, NOW_US + end_us, None)


def core_of(
    classes: Sequence[NodeClass], residents: Sequence[Resident] = (), preset: str = "coscheduling", *jobs: JobSpec
) -> SchedulerCore:
    told = welcome_of(classes, [resident.told for resident in residents], jobs)
    return SchedulerCore(compose({"preset": preset}), told)


def random_residents(random: Random, nodes: int, threads: int, memory_mb: int) -> list[Resident]:
    """Draw running jobs of one process a node that fit."""
    used: list[set[int]] = [set() for _ in range(nodes)]
    left_mb = [memory_mb] * nodes
    residents = []
    for number in range(random.randrange(7)):
        wanted_mb = random.choice((0, 200, 450))
        open_nodes = [node for node in range(nodes) if len(used[node]) < threads and left_mb[node] >= wanted_mb]
        size = random.choice((1, 2, 4, 8))
        if len(open_nodes) < size:
            continue
        taken = {}
        for node in random.sample(open_nodes, size):
            taken[node] = random.choice([thread for thread in range(threads) if thread not in used[node]])
            used[node].add(taken[node])
            left_mb[node] -= wanted_mb
        residents.append(Resident(100 + number, taken, wanted_mb))
    return residents


def placed(offer: Offer | None) -> list[int] | None:
    """Return the nodes of an offer, which has one process on one hardware thread of each."""
    if offer is None:
        return None
    assert all(mask.bit_count() == processes == 1 for _, _, mask, processes in offer.runs)
    return [node for node, _ in each_node(offer.runs)]


# ---------------------------------------------------------------- against all places


class Expected:
    """The nodes of a machine, one by one."""

    def __init__(self, residents: Sequence[Resident], nodes: int, contexts: int, memory_mb: int) -> None:
        self.nodes = nodes
        self.loads = [sum(node in resident.nodes for resident in residents) for node in range(nodes)]
        self.contexts = contexts
        held = [
            [bit for each in residents for first, _, mask, _ in each.told.runs if first == node for bit in bits(mask)]
            for node in range(nodes)
        ]
        self.threads_left = [len([bit for bit in range(contexts) if bit not in held_there]) for held_there in held]
        self.memory_left = [
            memory_mb - sum(resident.memory_mb for resident in residents if node in resident.nodes)
            for node in range(nodes)
        ]

    def open(self, node: int, job: JobSpec) -> bool:
        return self.threads_left[node] > 0 and self.memory_left[node] >= job.memory_mb

    def contiguous(self, job: JobSpec, up: Sequence[int]) -> list[int] | None:
        """Return the best of all blocks of nodes in service."""
        size = job.processes
        blocks = [list(up[first : first + size]) for first in range(len(up) - size + 1)]
        blocks = [block for block in blocks if all(self.open(node, job) for node in block)]
        if not blocks:
            return None
        return min(blocks, key=lambda block: (max(self.loads[n] for n in block), sum(self.loads[n] for n in block)))

    def scattered(self, job: JobSpec, up: Sequence[int], seed: int) -> list[int] | None:
        """Return the nodes with the lowest draws."""
        there = sorted(
            (node for node in up if self.open(node, job)), key=lambda node: uniform(seed, "scattered", node, job.id)
        )
        return sorted(there[: job.processes]) if len(there) >= job.processes else None


def bits(mask: int) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


@pytest.mark.parametrize("contexts", [0, 1, 2])
def test_places_are_those_of_a_search_through_all(contexts: int) -> None:
    random = Random(f"places {contexts}")
    found = Counter[str]()
    for _ in range(250):
        nodes, threads = random.choice((4, 9, 16)), random.choice((1, 3))
        residents = random_residents(random, nodes, threads, 900)
        core = core_of([nodes_of(nodes, threads, 900)], residents)
        down = random.sample(range(nodes), random.choice((0, 0, 0, 1)))
        idle = [node for node in down if not any(node in resident.nodes for resident in residents)]
        core.handle(NOW_US, [NodeFailed(node) for node in idle])
        up = [node for node in range(nodes) if node not in idle]
        job = job_of(random.randrange(1000), random.choice([1, 2, 4, nodes]), memory_mb=random.choice((0, 300, 450)))
        expected = Expected(residents, nodes, min(contexts or threads, threads), 900)
        snapshot = snapshot_now(core.view)
        block = placed(Contiguous(contexts=contexts).offer(job, snapshot))
        assert block == expected.contiguous(job, up)
        seed = random.randrange(2**63)
        some = placed(Scattered(contexts=contexts, seed=seed).offer(job, snapshot))
        assert some == expected.scattered(job, up, seed)
        found["none" if some is None else "scattered only" if block is None else "both"] += 1
    assert min(found[kind] for kind in ("none", "scattered only", "both")) > 10, found


def test_a_later_instant_counts_the_jobs_of_that_instant() -> None:
    """Nodes 0 and 1 have a job that ends, nodes 2 and 3 one that stays."""
    core = core_of([nodes_of(4)], [Resident(1, {0: 0, 1: 0}, end_us=5), Resident(2, {2: 0, 3: 0}, end_us=500)])
    view = core.view
    job = job_of(3, 2)
    assert placed(Contiguous().offer(job, snapshot_now(view))) == [0, 1]
    core = core_of([nodes_of(4)], [Resident(1, {0: 0, 1: 0}, end_us=500), Resident(2, {2: 0, 3: 0}, end_us=5)])
    at_us, free = core.view.availability()[1]
    assert placed(Contiguous().offer(job, snapshot_at(core.view, at_us, free))) == [2, 3]


def test_the_fullest_node_counts_before_the_sum() -> None:
    residents = [Resident(1, {0: 0}), Resident(2, {0: 1}), Resident(3, {2: 0, 3: 0, 4: 0})]
    core = core_of([nodes_of(5)], residents)
    # Loads 2 0 1 1 1: of the blocks without a node of two jobs, nodes 1 to 3 have the fewest jobs.
    assert placed(Contiguous().offer(job_of(9, 3), snapshot_now(core.view))) == [1, 2, 3]


# ---------------------------------------------------------------- random nodes


def test_a_draw_belongs_to_the_job_and_not_to_the_instant() -> None:
    """On a busier machine the job keeps those of its nodes that still have room."""
    job = job_of(5, 4)
    empty = placed(Scattered(seed=3).offer(job, snapshot_now(core_of([nodes_of(16, 1)]).view)))
    assert empty is not None
    busy = core_of([nodes_of(16, 1)], [Resident(1, {empty[0]: 0})])
    again = placed(Scattered(seed=3).offer(job, snapshot_now(busy.view)))
    assert again is not None
    assert set(empty) - set(again) == {empty[0]}


def test_all_nodes_are_drawn_equally_often() -> None:
    view = core_of([nodes_of(16)]).view
    counts: Counter[int] = Counter()
    for number in range(400):
        counts.update(placed(Scattered(seed=7).offer(job_of(number, 4), snapshot_now(view))) or ())
    assert len(counts) == 16
    # 400 jobs take each node with probability 1/4: the standard deviation is 8.7.
    assert all(65 < count < 135 for count in counts.values()), counts


# ---------------------------------------------------------------- other requests


def counts_on(policy: Mapping[str, Any], classes: Sequence[NodeClass], job: JobSpec) -> dict[int, int] | None:
    """Return the processes of a job on each node; None if it was rejected."""
    core = SchedulerCore(compose(policy), welcome_of(classes, (), (job,)))
    (action,) = core.handle(NOW_US, [])
    if isinstance(action, RejectJob):
        assert action.reason == f"{job.processes} processes wanted, more than have a place"
        return None
    assert isinstance(action, StartJob)
    return dict(each_node(action.runs))


@pytest.mark.parametrize("placement", ["contiguous", "scattered"])
@pytest.mark.parametrize(
    ("job", "contexts", "counts"),
    [
        (job_of(1, 4), 0, [1, 1, 1, 1]),
        (job_of(1, 5), 0, [1, 2, 2]),  # more processes than nodes
        (job_of(1, 12), 0, [3, 3, 3, 3]),
        (job_of(1, 5), 1, None),
        (job_of(1, 4, ppn_min=2), 0, [2, 2]),
        (job_of(1, 3, ppn_min=2), 0, [1, 2]),
        (job_of(1, 2, threads_per_process=2), 0, [1, 1]),
        (job_of(1, 2, threads_per_process=2), 1, None),
        (job_of(1, 3, exclusive=True), 1, [1, 1, 1]),
        (job_of(1, 5, memory_mb=500), 0, [1, 1, 1, 2]),  # at 900 MB on the first three nodes, 1,100 on the last
    ],
)
def test_the_fewest_processes_on_a_node(placement: str, job: JobSpec, contexts: int, counts: list[int] | None) -> None:
    classes = [nodes_of(3, 3, 900), nodes_of(1, 3, 1100)]
    policy = {"backfill": "skip", "placement": {"name": placement, "contexts": contexts}}
    placed_on = counts_on(policy, classes, job)
    assert (None if placed_on is None else sorted(placed_on.values())) == counts


def test_a_job_waits_for_a_failed_node_and_does_not_double_up() -> None:
    core = core_of([nodes_of(4)], (), "coscheduling", job_of(1, 4))
    assert core.handle(NOW_US, [NodeFailed(2)]) == []


def test_nodes_without_room_for_the_job_do_not_interrupt_a_block() -> None:
    """A job of 600 MB has no room on the node of 500 MB in the middle, even when it is empty."""
    classes = [nodes_of(2, 3, 900), nodes_of(1, 3, 500), nodes_of(2, 3, 900)]
    assert counts_on({"preset": "coscheduling"}, classes, job_of(1, 4, memory_mb=600)) == {0: 1, 1: 1, 3: 1, 4: 1}


def test_an_exclusive_job_takes_all_threads_of_its_nodes() -> None:
    core = core_of([nodes_of(4)], [Resident(1, {1: 0})], "batch-contiguous", job_of(2, 2, exclusive=True))
    (action,) = core.handle(NOW_US, [])
    assert isinstance(action, StartJob)
    assert action.runs == (run_on(2, 2, 0b111, 1),)


# ---------------------------------------------------------------- whole schedules


@pytest.mark.parametrize(
    ("backfill", "textbook"), [("none", reference.fcfs), ("skip", reference.skip), ("easy", reference.easy)]
)
def test_random_nodes_of_one_thread_start_jobs_as_the_textbook_says(
    backfill: str, textbook: Callable[[Sequence[Job], int], Starts]
) -> None:
    random = Random(f"one {backfill}")
    for _ in range(6):
        jobs = random_jobs(random, 16, "over")
        assert starts_under({"backfill": backfill, "placement": "scattered"}, jobs, 16) == textbook(jobs, 16)


def test_one_context_is_space_sharing() -> None:
    """On nodes of three threads of which jobs may hold one, jobs start as on nodes of one thread."""
    random = Random("one context")
    for _ in range(6):
        jobs = random_jobs(random, 12, "over")
        whole = starts_under({"backfill": "skip", "placement": "contiguous"}, jobs, 12)
        one = {"name": "contiguous", "contexts": 1}
        assert starts_under({"backfill": "skip", "placement": one}, jobs, 36, threads=3) == whole
