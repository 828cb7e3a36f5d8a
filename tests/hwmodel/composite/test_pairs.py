"""The composite model as the contention of a node's jobs, and as a model of pairs of jobs."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest
from tests.hwmodel.co_runs import Job
from tests.hwmodel.composite.cases import random_node, random_profile

from cosched_hwmodel.composite.composite_contention import CompositeContention
from cosched_hwmodel.composite.composite_model import CompositeModel
from cosched_hwmodel.composite.job_profile import Profile
from cosched_hwmodel.composite.on_node import Placed
from cosched_hwmodel.contention import ContentionModel, Load
from cosched_hwmodel.errors import UnknownNameError
from cosched_hwmodel.models.by_name import OF_PAIRS, make_pairs
from cosched_hwmodel.models.composite_pairs import CompositePairs, seats
from cosched_hwmodel.topology import NodeShape
from cosched_hwmodel.units import WHOLE_PPM, ThreadMask

MODEL = CompositeModel()
NODE = NodeShape("smt", 2, 2, 1_000, 2, (), 10_000, integer_slots_ppm=WHOLE_PPM)
BUSY = Profile(integer_ppm=800_000)
STREAM = Profile(memory_mbs=2_000)
ONE, TWO = Job(1, profile=BUSY, processes=8), Job(2, profile=STREAM, processes=8)
STRANGER = Job(3)


def load(job: int, mask: int, processes: int = 1) -> Load:
    return Load(job, processes, ThreadMask(mask), (0, 0, 0))


def test_jobs_without_a_profile_neither_slow_nor_are_slowed() -> None:
    contention: ContentionModel = CompositeContention(MODEL, {1: BUSY, 2: BUSY})
    assert contention.name == "composite"
    loads = [load(1, 0b1), load(3, 0b10), load(2, 0b10000)]
    for _ in range(2):  # the second answer is a kept one
        assert contention.penalties(NODE, loads) == pytest.approx([0.6, 0.0, 0.6])
    assert contention.penalties(NODE, [load(3, 1)]) == [0.0]


def test_kept_answers_are_those_of_the_model() -> None:
    """The order of loads changes the order of the answer only, and nodes of other shapes have answers of their own."""
    random = Random(3)
    profiles = {job: random_profile(random) for job in range(1, 4)}
    contention = CompositeContention(MODEL, profiles)
    nodes = [random_node(random) for _ in range(4)]
    for _ in range(100):
        node = random.choice(nodes)
        jobs = random.sample(sorted(profiles), random.randint(1, min(3, node.threads)))
        loads = [load(job, 1 << place) for place, job in enumerate(jobs)]
        placed = [Placed(profiles[each.job_id], each.processes, each.thread_mask) for each in loads]
        assert contention.penalties(node, loads) == MODEL.penalties(node, placed)


def test_two_jobs_sit_as_they_do_on_whole_nodes() -> None:
    assert [group.thread_mask for group in seats(NODE, (BUSY, 8, STREAM, 8))] == [0b1111, 0b11110000]
    assert [group.thread_mask for group in seats(NODE, (BUSY, 3, STREAM, 2))] == [0b111, 0b11000]
    plain = replace(NODE, threads_per_core=1)
    assert [group.thread_mask for group in seats(plain, (BUSY, 8, STREAM, 8))] == [0b11, 0b1100]


def test_a_pair_is_slowed_by_each_other_alone() -> None:
    pairs = CompositePairs(MODEL).on_nodes([NODE])
    streams = Job(4, profile=Profile(memory_mbs=5_000), processes=8)
    alone = 1.0 + 1.0  # a socket's 5000 are asked for twice
    assert pairs.own(streams, 2, 2) == pytest.approx(alone)
    assert pairs.slowdown(streams, Job(5, profile=Profile(memory_mbs=5_000), processes=8)) == pytest.approx(4 / alone)
    assert pairs.slowdown(ONE, TWO) == pairs.slowdown(TWO, ONE) == 1.0
    same = Job(6, profile=BUSY, processes=8)
    assert pairs.both(ONE, same) == pairs.slowdown(same, ONE) == pytest.approx(1.6)
    assert (pairs.compete(ONE, same), pairs.compete(ONE, TWO)) == (True, False)
    told = pairs.explain(ONE, same)
    assert told is not None
    assert [breakdown.worst for breakdown in told] == ["integer slots", "integer slots"]


def test_the_threads_of_a_pair_may_be_chosen() -> None:
    pairs = CompositePairs(MODEL, (NODE,))
    same = Job(6, profile=BUSY)
    assert pairs.slowdown_on(ONE, 0b1, same, 0b10000) == pytest.approx(1.6)
    assert pairs.slowdown_on(ONE, 0b1, same, 0b10) == 1.0
    assert pairs.slowdown_on(ONE, 0b10001, same, 0b100010, threads=(2, 2)) == 1.0
    with pytest.raises(IndexError, match="thread 8 of a node with 8"):
        pairs.slowdown_on(ONE, 1, same, 1 << 8)


def test_what_is_unknown_is_infinite() -> None:
    pairs = CompositePairs(MODEL, (NODE,))
    assert pairs.knows(ONE)
    assert not pairs.knows(STRANGER)
    assert math.isinf(pairs.slowdown(ONE, STRANGER))
    assert math.isinf(pairs.both(STRANGER, ONE))
    assert math.isinf(pairs.slowdown_on(ONE, 1, STRANGER, 2))
    assert pairs.own(STRANGER, 1, 1) is None
    assert pairs.own(ONE, 3, 1) is None
    assert pairs.explain(ONE, STRANGER) is None
    nowhere = CompositePairs(MODEL)
    assert not nowhere.knows(ONE)
    assert math.isinf(nowhere.slowdown(ONE, TWO))


def test_of_several_kinds_of_nodes_the_worst_counts() -> None:
    slow = replace(NODE, integer_slots_ppm=800_000)
    same = Job(6, profile=BUSY, processes=8)
    pairs = CompositePairs(MODEL).on_nodes([NODE, slow, NODE])
    assert pairs.nodes == (NODE, slow)
    assert pairs.slowdown(ONE, same) == pytest.approx(2.0)
    assert pairs.slowdown_on(ONE, 1, same, 1 << 4, kind=1) == pytest.approx(2.0)


def test_it_is_made_by_name() -> None:
    assert "composite" in OF_PAIRS
    made = make_pairs("composite", [("overlap", "worst")])
    assert isinstance(made, CompositePairs)
    assert made.model == CompositeModel(overlap="worst")
    with pytest.raises(UnknownNameError, match="unknown composite parameter"):
        make_pairs("composite", [("over", 1)])
