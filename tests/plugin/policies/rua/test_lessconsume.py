"""LessConsume and LessConsume Threshold against the literal greedy and enumeration."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from random import Random

import pytest
from tests.plugin.policies.cases import NOW_US, buckets_of, close, job_of, normal, random_case, request_of, welcome_of
from tests.reference.sharing import (
    best_factor,
    earliest_with_threshold,
    empty_machine,
    free_buckets,
    less_consume,
    penalty_factor,
)
from tests.runs import layers_on, runs_on

from cosched_plugin import api
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.policies.placement.compact import FirstFit
from cosched_plugin.policies.planning.losses import SAME, losses_in
from cosched_plugin.policies.planning.reservation import PlacedReservation
from cosched_plugin.policies.rua.lessconsume import LessConsume, Places
from cosched_plugin.protocol.messages import JobSpec, NodeClass, Run, RunningJob

THRESHOLDS = (Fraction(1), Fraction(115, 100), Fraction(5, 4), Fraction(3, 2))
FEW_OR_ALL = [
    *((threshold, 200) for threshold in THRESHOLDS[::2]),
    *(pytest.param(threshold, 600, marks=pytest.mark.slow) for threshold in THRESHOLDS),
]


@pytest.mark.parametrize("cases", [500, pytest.param(1500, marks=pytest.mark.slow)])
def test_the_least_penalty_is_that_of_the_greedy_and_the_optimum(cases: int) -> None:
    random = Random("least")
    placed = improved = 0
    for _ in range(cases):
        case = random_case(random)
        (job,) = case.waiting
        view = case.view()
        expected = less_consume(case.machine, request_of(job), 0)
        offer = LessConsume().offer(job, api.snapshot_now(view))
        assert (offer is None) == (expected is None)
        if offer is None or expected is None:
            continue
        free = free_buckets(case.machine, 0, 0 + job.estimate_us)
        assert buckets_of(offer.runs) == normal(expected, case.machine, free)
        best = best_factor(case.machine, request_of(job), 0)
        assert best == expected.factor
        assert close(offer.factor, expected.factor)
        assert close(offer.factor, penalty_factor(case.machine, request_of(job), 0, buckets_of(offer.runs)))
        placed += 1
        first = FirstFit().offer(job, api.snapshot_now(view))
        assert first is not None
        improved += first.runs != offer.runs
    assert placed > cases / 3
    assert improved > cases / 30  # first fit was not already the answer


@pytest.mark.parametrize(("threshold", "cases"), FEW_OR_ALL)
def test_a_threshold_stops_the_search_early_or_refuses(threshold: Fraction, cases: int) -> None:
    random = Random(f"threshold {threshold}")
    placed = refused = 0
    for _ in range(cases):
        case = random_case(random)
        (job,) = case.waiting
        placement = LessConsume(threshold=float(threshold))
        offer = placement.offer(job, api.snapshot_now(case.view()))
        floor = best_factor(empty_machine(case.machine), request_of(job), 0)
        assert floor is not None
        limit = max(threshold, floor)
        assert close(placement.within_reach(job, case.view(), float(threshold)), limit)
        expected = less_consume(case.machine, request_of(job), 0, limit)
        if expected is None or expected.factor > limit:
            assert offer is None
            refused += expected is not None
            continue
        assert offer is not None
        free = free_buckets(case.machine, 0, job.estimate_us)
        assert buckets_of(offer.runs) == normal(expected, case.machine, free)
        assert close(offer.factor, expected.factor)
        placed += 1
    assert placed > cases / 6
    assert refused > cases / 120


@pytest.mark.parametrize(("threshold", "cases"), FEW_OR_ALL)
def test_the_earliest_start_is_that_of_the_reference(threshold: Fraction, cases: int) -> None:
    random = Random(f"earliest {threshold}")
    later = 0
    for _ in range(cases):
        case = random_case(random, busy=0.7)
        (job,) = case.waiting
        offer = LessConsume(threshold=float(threshold)).earliest(job, case.view())
        expected = earliest_with_threshold(case.machine, request_of(job), 0, threshold)
        assert offer is not None
        assert expected is not None
        assert offer.start_us == NOW_US + expected.start
        assert close(offer.factor, expected.factor)
        free = free_buckets(case.machine, expected.start, job.estimate_us)
        assert buckets_of(offer.runs) == normal(expected, case.machine, free)
        later += expected.start > 0
    assert later > cases / 6


@pytest.mark.by_default(10)
@pytest.mark.parametrize("threshold", [None, 1.0, 1.15, 1.25, 1.5])
@pytest.mark.parametrize("reserved", [False, True])
@pytest.mark.parametrize("cases", [100, pytest.param(250, marks=pytest.mark.slow)])
def test_promising_includes_every_job_with_an_offer(threshold: float | None, reserved: bool, cases: int) -> None:
    """Each job with an offer is included, in order; with a threshold, plain jobs without an offer are excluded."""
    random = Random(f"promising {threshold} {reserved}")
    offered = left_out = 0
    for _ in range(cases):
        case = random_case(random, jobs=6)
        view = case.view()
        placement = LessConsume(threshold=threshold)
        plan = api.snapshot_now(view)
        head, *jobs = case.waiting
        if random.random() < 0.5:
            jobs[0] = jobs[0]._replace(exclusive=True)
        if reserved:
            place = placement.earliest(head, view)
            assert place is not None
            plan = PlacedReservation(view, place, placement).with_head(plan)
        promising = placement.promising(jobs, plan)
        assert promising == [job for job in jobs if job in promising]
        for job in jobs:
            offer = placement.offer(job, plan)
            if offer is not None:
                offered += 1
                assert job in promising
            elif job not in promising:
                left_out += 1
    assert offered > cases * 4 / 5
    assert (left_out > cases * 2 / 25) == (threshold is not None)


# ---------------------------------------------------------------- by hand

FOUR = NodeClass(2, 1, 4, 1, 0, 6000, 0, 0)


def view_of(classes: Sequence[NodeClass], *running: tuple[int, tuple[Run, ...], int]) -> api.View:
    """Return a machine on which jobs with 2000 MB/s a process run until the given ends."""
    jobs = [
        RunningJob(
            job_of(number, sum(count * ppn for _, count, _, ppn in runs), 2000, NOW_US + end)._replace(submit_us=0),
            0,
            runs,
            NOW_US + end,
            None,
        )
        for number, runs, end in running
    ]
    return SchedulerCore(compose({"preset": "lc"}), welcome_of(classes, jobs, ())).view


def test_one_process_moves_to_another_node() -> None:
    view = view_of([FOUR])
    job = job_of(1, 4, 2000, 30)
    offer = LessConsume().offer(job, api.snapshot_now(view))
    assert offer is not None
    assert offer == (job, NOW_US, ((0, 1, 7, 3), (1, 1, 1, 1)), 1.0, 30, None, 0)
    lax = LessConsume(threshold=1.5).offer(job, api.snapshot_now(view))
    assert lax is not None
    assert (lax.runs, lax.factor, lax.run_us) == (((0, 1, 15, 4),), 4 / 3, 40)


def test_planned_jobs_have_an_id_and_equal_demands_share_results() -> None:
    """Beliefs may depend on the ids of planned jobs; penalised times depend only on demand and time."""
    view = view_of([FOUR])
    snapshot = api.snapshot_now(view)
    offers = [api.Offer(job_of(number, 2, 2000, 30), NOW_US, runs_on((0, 1, 3, 2)), 1.0, 30, None) for number in (1, 2)]
    one, other = (snapshot.with_planned(offer).planned for offer in offers)
    assert [item.job_id for item in (*one, *other)] == [1, 2]
    assert one != other
    assert api.loads_of(one) == api.loads_of(other)
    job = job_of(3, 4, 2000, 30)
    places = Places(job, snapshot, losses_in(view))
    assert places.outlook(job, one) is places.outlook(job, other)
    places.foresee([job._replace(estimate_us=40)], other)
    assert places.outlook(job._replace(estimate_us=40), one) is places.outlook(job._replace(estimate_us=40), other)


def test_a_threshold_is_raised_to_the_best_of_the_empty_machine() -> None:
    """Eight processes fill the machine: 4/3 at best. That becomes the threshold, and the job waits for the empty machine."""
    view = view_of([FOUR], (9, runs_on((0, 1, 1, 1)), 5))
    placement = LessConsume(threshold=1.0)
    job = job_of(1, 8, 2000, 30)
    assert placement.within_reach(job, view, 1.0) == 4 / 3
    assert placement.within_reach(job, view, 1.5) == 1.5
    assert placement.offer(job, api.snapshot_now(view)) is None
    offer = placement.earliest(job, view)
    assert offer is not None
    assert (offer.start_us, offer.factor) == (NOW_US + 5, 4 / 3)
    assert placement.earliest(job._replace(processes=9), view) is None


def test_without_demand_or_capacity_there_is_no_penalty() -> None:
    view = view_of([FOUR._replace(memory_bandwidth_mbs=0)], (9, runs_on((0, 1, 7, 3)), 50))
    for job in (job_of(1, 5, 2000, 30), job_of(1, 5, 0, 30), job_of(1, 5, 2000, 30)._replace(demand=None)):
        offer = LessConsume(threshold=1.0).offer(job, api.snapshot_now(view))
        assert offer is not None
        assert (offer.factor, offer.runs) == (1.0, ((0, 1, 8, 1), (1, 1, 15, 4)))


def test_exclusive_jobs_take_nodes_like_first_fit() -> None:
    view = view_of([FOUR], (9, runs_on((0, 1, 1, 1)), 5))
    job = job_of(1, 4, 2000, 30)._replace(exclusive=True)
    offer = LessConsume().offer(job, api.snapshot_now(view))
    assert offer is not None
    assert (offer.runs, offer.factor) == (((1, 1, 15, 4),), 4 / 3)
    assert (
        LessConsume(threshold=1.0).offer(job, api.snapshot_now(view)) == offer
    )  # the least possible: no node has a smaller penalty
    assert LessConsume().offer(job._replace(processes=8), api.snapshot_now(view)) is None


def test_thresholds_tolerate_rounding() -> None:
    """Three residents until a third of the run, and a threshold equal to the slowdown: 1 + 1/9 must meet 1 + 1/9."""
    view = view_of([FOUR._replace(nodes=1)], (9, runs_on((0, 1, 7, 3)), 10))
    job = job_of(1, 1, 2000, 30)
    for threshold in (1 + 1 / 9, 10 / 9):
        assert LessConsume(threshold=threshold).offer(job, api.snapshot_now(view)) is not None
    assert LessConsume(threshold=1 + 1 / 9 - 2 * SAME).offer(job, api.snapshot_now(view)) is None


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize("cases", [300, pytest.param(1500, marks=pytest.mark.slow)])
def test_a_job_that_may_wait_takes_the_place_with_the_earliest_end(cases: int) -> None:
    """Of the least penalties at each instant from the first one with room on; ties: the earlier start."""
    random = Random("may wait")
    waited = 0
    for _ in range(cases):
        case = random_case(random, busy=0.7)
        (job,) = case.waiting
        view = case.view()
        placement = LessConsume(may_wait=True)
        steps = view.availability()
        found = [placement.find(job, api.snapshot_at(view, *step)) for step in steps]
        ends = [(place.end_us, place.snapshot.at_us) for place in found if place is not None]
        offer = placement.earliest(job, view)
        assert offer is not None
        assert offer.start_us == min(ends)[1]
        now = placement.offer(job, api.snapshot_now(view))
        assert (now is not None) == (offer.start_us == NOW_US)
        assert now is None or now == offer
        waited += now is None and found[0] is not None
    assert waited > cases / 100


def test_first_fit_extends_limits_only_on_request() -> None:
    view = view_of([FOUR._replace(nodes=1)])
    job = job_of(1, 4, 2000, 31000, 31001)
    plain = FirstFit().offer(job, api.snapshot_now(view))
    assert plain is not None
    assert (plain.factor, plain.run_us, plain.limit_us) == (1.0, 31000, 31001)
    asked = FirstFit(extend_limit=True).offer(job, api.snapshot_now(view))
    assert asked is not None
    assert close(asked.factor, Fraction(4, 3))
    assert (asked.run_us, asked.limit_us) == (41334, 41335)


def test_stretch_rounds_up_exactly() -> None:
    random = Random("stretch")
    for _ in range(3000):
        span_us = random.randint(1, 10**12)
        lost = Fraction(random.randint(0, 3), random.randint(1, 9))
        exact = span_us * (1 + lost)
        got = api.stretch(span_us, float(1 + lost))
        assert (
            exact - Fraction(1, 32) <= got < exact + 1 + Fraction(1, 32)
        )  # neither a microsecond too short nor one too long
        assert got >= span_us
    assert api.stretch(30, 4 / 3) == 40
    assert api.round_up_us(40.5) == 41
    later = api.snapshot_at(view_of([FOUR]), NOW_US + 3, layers_on(0, 0, 0, 0))
    assert LessConsume().offer(JobSpec(1, 0, 1, 1), later) is None
