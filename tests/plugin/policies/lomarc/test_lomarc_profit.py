"""The profit of a match: arrays compared with the reference in fractions, and the checks of the specification."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.plugin.policies.cases import NOW_US
from tests.plugin.policies.lomarc.lomarc_cases import (
    GOOD,
    SECOND_US,
    draw_spec,
    hyperthreaded,
    spec_of,
    view_of,
    welcome,
)
from tests.reference.lomarc import response_time_impact, u_gain_1, u_gain_2

from cosched_plugin.policies.lomarc import queue_table
from cosched_plugin.policies.orders import NOTE, History, Tally
from cosched_plugin.protocol.messages import Note

RELATIVE = 1e-9
WORK = ("cpu", 1_000_000, 0, 0, 0)


def close(got: float, exact: Fraction | float) -> bool:
    """Return whether a float is exact up to rounding; the terms of the sums are of the order of 1."""
    return abs(got - float(exact)) <= RELATIVE * max(abs(float(exact)), 1.0)


# ---------------------------------------------------------------- utilisation


@pytest.mark.parametrize(
    ("size", "other", "slowdown", "gain"), [(8, 8, 1.6, 0.25), (16, 8, 1.4, 1 / 14), (16, 4, 1.5, -1 / 6)]
)
def test_utilisation_gain_as_specified(size: int, other: int, slowdown: float, gain: float) -> None:
    """(8, 8, 1.6): 8·.25/8. (16, 8, 1.4): (8·3/7 - 8·2/7)/16. (16, 4, 1.5): (4/3 - 12/3)/16."""
    for one, two in ((size, other), (other, size)):
        (got,) = queue_table.utilisation_gain_2(one, np.array([two]), np.array([slowdown]))
        assert got == pytest.approx(gain)
        (timed,) = queue_table.utilisation_gain_1(one, 300.0, np.array([two]), np.array([100.0]), np.array([slowdown]))
        assert timed == pytest.approx(gain / 3)


sizes = st.integers(1, 128)
times = st.integers(1, 162_000)
slowdowns = st.integers(1000, 2500).map(lambda thousandths: thousandths / 1000)


@given(size=sizes, time=times, others=st.lists(st.tuples(sizes, times, slowdowns), min_size=1, max_size=6))
def test_utilisation_gains_agree_with_the_reference(size: int, time: int, others: list[tuple[int, int, float]]) -> None:
    columns = [np.array(column) for column in zip(*others, strict=True)]
    timeless = queue_table.utilisation_gain_2(size, columns[0], columns[2])
    timed = queue_table.utilisation_gain_1(size, float(time), columns[0], columns[1], columns[2])
    for index, (other, its, slowdown) in enumerate(others):
        sl = Fraction(slowdown)
        assert close(timeless[index], u_gain_2(size, other, sl))
        assert close(timed[index], u_gain_1(size, time, other, its, sl))
        assert timed[index] == pytest.approx(timeless[index] * min(time, its) / max(time, its))


# ---------------------------------------------------------------- response times


@pytest.mark.parametrize(("slowdown", "delay", "improvement"), [(1.0, 0.0, 6.25), (2.0, 6.25, 0.0)])
def test_delay_and_improvement_as_specified(slowdown: float, delay: float, improvement: float) -> None:
    """n = 128, S = 8 and T = 100 for both: at 1 they take 100 s, at 2 they take 200 s, of 8 nodes of 128."""
    match = queue_table.Match(128, 8, 100.0, np.array([8]), np.array([100.0]), np.array([slowdown]))
    assert match.delay_s().tolist() == [delay]
    assert (match.work_s() - match.delay_s()).tolist() == [improvement]


def test_impact_by_hand() -> None:
    """One node. The current job has 100 s, then come 100 s (overtaken), 100 s (moved, slowdown 1.5) and 50 s.

    Together they take 100·.5 + 100 = 150 s: delay 50, improvement 50. Increase: 50/100 + 50/200. Decrease: the moved job ends
    after 150 of its 300 s: 150/300, and the last one gains 50 of its 350. Of two others.
    """
    match = queue_table.Match(1, 1, 100.0, np.array([1]), np.array([100.0]), np.array([1.5]))
    work = np.array([100.0, 100.0, 100.0, 50.0])
    (profit,) = queue_table.impact_on_waiting(match, work, 0, np.array([2]), queue_table.Future())
    assert profit == pytest.approx((150 / 300 + 50 / 350 - 50 / 100 - 50 / 200) / 2)
    # Half a short job of 30 s to come: 50/60 at half weight. 1.5 longer ones of 100 s: at 450, and half at 550.
    (profit,) = queue_table.impact_on_waiting(
        match,
        work,
        0,
        np.array([2]),
        queue_table.Future(queue_table.Arrivals(0.5, 30.0), queue_table.Arrivals(1.5, 100.0)),
    )
    expected = 150 / 300 + 50 / 350 - 50 / 100 - 50 / 200 - 0.5 * 50 / 60 + 50 / 450 + 0.5 * 50 / 550
    assert profit == pytest.approx(expected / 2)
    # Beside a running job with 100 s left: no job is overtaken, and both others are behind it.
    host = queue_table.Match(1, np.array([1]), np.array([100.0]), np.array([1]), np.array([100.0]), np.array([1.5]))
    (profit,) = queue_table.impact_on_running(host, work[1:], np.array([1]), queue_table.Future())
    assert profit == pytest.approx((50 / 200 + 50 / 300 + 50 / 350 - 50 / 100) / 2)


def drawn_future(random: Random) -> tuple[queue_table.Future, tuple[Fraction, Fraction], tuple[Fraction, Fraction]]:
    """Draw arrivals; once more for the reference, which takes work in node-seconds (of a machine with one node)."""
    kinds = [
        queue_table.Arrivals(random.choice((0.0, 0.25, 1.0, 3.75, 40.5)), float(random.randint(1, 5_000)))
        for _ in range(2)
    ]
    short, longer = ((Fraction(kind.jobs), Fraction(kind.work_s)) for kind in kinds)
    return queue_table.Future(*kinds), short, longer


@pytest.mark.parametrize("seed", range(40))
def test_impact_on_pending_jobs_agrees_with_the_reference(seed: int) -> None:
    """Every other job is the candidate once, for a current job anywhere in the queue: jobs before it count as overtaken."""
    random = Random(seed)
    nodes = random.choice((1, 16, 128))
    queue = [(random.randint(1, nodes), random.randint(1, 50_000)) for _ in range(random.randint(2, 12))]
    own = random.choice((0, 0, random.randrange(len(queue))))
    places = [place for place in range(len(queue)) if place != own]
    slow = [random.randint(1000, 2000) / 1000 for _ in places]
    future, short, longer = drawn_future(random)
    size, time = queue[own]
    match = queue_table.Match(
        nodes,
        size,
        float(time),
        np.array([queue[place][0] for place in places]),
        np.array([float(queue[place][1]) for place in places]),
        np.array(slow),
    )
    work = np.array([size * time / nodes for size, time in queue])
    profits = queue_table.impact_on_waiting(match, work, own, np.array(places), future)
    for profit, place, slowdown in zip(profits, places, slow, strict=True):
        exact = response_time_impact(
            nodes,
            queue[own],
            queue[place],
            Fraction(slowdown),
            [queue[other] for other in places if other < place],
            [queue[other] for other in places if other > place],
            (short[0], short[1] * nodes),
            (longer[0], longer[1] * nodes),
        )
        assert close(profit, exact)


@pytest.mark.parametrize("seed", range(40))
def test_impact_on_running_jobs_agrees_with_the_reference(seed: int) -> None:
    random = Random(seed)
    nodes = random.choice((1, 16, 128))
    queue = [(random.randint(1, nodes), random.randint(1, 50_000)) for _ in range(random.randint(1, 12))]
    pairs = []
    for _ in range(random.randint(1, 6)):
        place = random.randrange(len(queue))
        host = (random.randint(queue[place][0], nodes), random.randint(1, 50_000))
        pairs.append((place, host, random.randint(1000, 2000) / 1000))
    future, short, longer = drawn_future(random)
    match = queue_table.Match(
        nodes,
        np.array([host[0] for _, host, _ in pairs]),
        np.array([float(host[1]) for _, host, _ in pairs]),
        np.array([queue[place][0] for place, _, _ in pairs]),
        np.array([float(queue[place][1]) for place, _, _ in pairs]),
        np.array([slowdown for _, _, slowdown in pairs]),
    )
    work = np.array([size * time / nodes for size, time in queue])
    profits = queue_table.impact_on_running(match, work, np.array([place for place, _, _ in pairs]), future)
    for profit, (place, host, slowdown) in zip(profits, pairs, strict=True):
        exact = response_time_impact(
            nodes,
            host,
            queue[place],
            Fraction(slowdown),
            (),
            [job for other, job in enumerate(queue) if other != place],
            (short[0], short[1] * nodes),
            (longer[0], longer[1] * nodes),
            running=True,
        )
        assert close(profit, exact)


@pytest.mark.parametrize("seed", range(40))
def test_every_job_with_a_gain_is_a_join_candidate(seed: int) -> None:
    """Each job that gains by joining a running job is a join candidate, and not all jobs are."""
    random = np.random.default_rng(seed)
    queue, pairs = 40, 300
    places = random.integers(0, queue, pairs)
    sizes, times = random.integers(1, 65, queue), random.integers(60, 50_000, queue).astype(float)
    hosts = sizes[places], random.integers(1, 200_000, pairs).astype(float)
    match = queue_table.Match(64, *hosts, sizes[places], times[places], random.integers(1000, 1300, pairs) / 1000)
    future = queue_table.Future(queue_table.Arrivals(3.5, 20.0), queue_table.Arrivals(float(seed), 300.0))
    work = sizes * times / 64
    gains = queue_table.impact_on_running(match, work, places, future) > 0.0
    may = queue_table.may_gain(match, work, future)
    assert not (gains & ~may).any()
    assert 0 < gains.sum() <= may.sum() < pairs


@pytest.mark.parametrize(("jobs", "work_s"), [(10_000.25, 500.0), (25_000.5, 3.0), (123_456.75, 0.01), (1e12, 40.0)])
def test_a_forecast_of_very_many_jobs(jobs: float, work_s: float) -> None:
    """Σ 1/(100 + k·work) is exact up to rounding, without a loop over its terms."""
    match = queue_table.Match(1, np.array([1]), np.array([50.0]), np.array([1]), np.array([50.0]), np.array([1.0]))
    work = np.array([50.0])
    (without,) = queue_table.impact_on_running(match, work, np.array([0]), queue_table.Future())
    (profit,) = queue_table.impact_on_running(
        match, work, np.array([0]), queue_table.Future(longer=queue_table.Arrivals(jobs, work_s))
    )
    ks = np.arange(1, min(int(jobs), 1_000_000) + 1)
    expected = float(np.sum(1.0 / (100.0 + ks * work_s)))
    if jobs > len(ks):
        expected += float(np.log((100 + (jobs + 0.5) * work_s) / (100 + (len(ks) + 0.5) * work_s))) / work_s
    improvement = 50.0  # together both take the time of one
    assert (profit - without) / improvement == pytest.approx(expected, rel=1e-9, abs=1 / (100 + jobs * work_s))


# ---------------------------------------------------------------- expected arrivals


def test_arrivals_continue_at_their_past_rate() -> None:
    """Ten nodes. In 1000 s: two short and two longer jobs started, one longer and one short job are pending, with 5100 node-seconds.

    The queue takes 510 s, so .51 times as many jobs as came are expected: 3 short ones with (2·60 + 100)/3 node-seconds each, 3
    longer ones with (2·4000 + 5000)/3.
    """
    now_us = NOW_US + 1000 * SECOND_US
    long_job = spec_of(1, 50, 100, WORK, now_us - 10 * SECOND_US)
    short_job = spec_of(2, 2, 50, WORK, now_us)
    seen = History(0, NOW_US, Tally(2, 120 * SECOND_US), Tally(2, 8000 * SECOND_US)).note()
    notes = [Note(None, NOTE, seen)]
    told = welcome(hyperthreaded(10), GOOD, [long_job, short_job], notes=notes)._replace(now_us=now_us)
    short, longer = queue_table.QueueTable([long_job, short_job], queue_table.JobTable()).future(view_of(told))
    assert short == pytest.approx((3 * 0.51, 220 / 3 / 10))
    assert longer == pytest.approx((3 * 0.51, 13_000 / 3 / 10))


def test_no_arrivals_are_expected_before_time_has_passed() -> None:
    random = Random(1)
    jobs = [draw_spec(random, number, 8) for number in range(1, 5)]
    assert (
        queue_table.QueueTable(jobs, queue_table.JobTable()).future(view_of(welcome(hyperthreaded(8), GOOD, jobs)))
        == queue_table.Future()
    )
