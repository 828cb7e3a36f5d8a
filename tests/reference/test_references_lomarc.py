"""The references of LOMARC, against the specification's checks, cases worked by hand, and the reference of progress."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from random import Random

import pytest
from tests.reference.lomarc import (
    Bound,
    FinishedJob,
    Heuristic,
    Job,
    Number,
    Run,
    Stay,
    Usage,
    check_schedule,
    class_order,
    effective_c,
    expected_ends,
    find_match,
    job_class,
    matchable,
    response_time_impact,
    slowdown,
    u_gain_1,
    u_gain_2,
)
from tests.reference.rates import PlacedJob, progress

F = Fraction


def usage(bound: Bound, percents: str, memory: int = 10) -> Usage:
    """Read "70 10 20" as the shares of cpu, network and disk in percent; memory is in percent too."""
    cpu, network, disk = (F(int(one), 100) for one in percents.split())
    assert cpu + network + disk == 1
    return Usage(bound, cpu, network, disk, F(memory, 100))


# ---------------------------------------------------------------- slowdowns of two jobs


@pytest.mark.parametrize(
    ("a", "b", "competing", "apart"),
    [("60 40 0", "60 40 0", 2, F(7, 5)), ("60 40 0", "40 60 0", F(9, 5), F(7, 5)), ("40 60 0", "40 60 0", 2, F(8, 5))],
)
def test_slowdowns_of_table_2(a: str, b: str, competing: Number, apart: Number) -> None:
    one, other = usage("cpu", a), usage("network", b)
    for pair in ((one, other), (other, one)):
        assert slowdown(*pair, c=2) == competing
        assert slowdown(*pair, c=1) == apart


def test_the_printed_formula_is_cut_at_one() -> None:
    # Competing: cpu .3, network .1, disk .1. Printed, with c = 2: .6 + .2 + .2 = 1.0; with c = 7/5 .82, cut to 1.
    # With the remaining .5 at 1: 1.5 and 1.32.
    one, other = usage("cpu", "80 10 10"), usage("network", "30 50 20")
    assert slowdown(one, other, 2) == F(3, 2)
    assert slowdown(one, other, F(7, 5)) == F(132, 100)
    assert slowdown(one, other, 2, remainder=False) == 1
    assert slowdown(one, other, F(7, 5), remainder=False) == 1
    # Alike, (.8 .1 .1): printed 2 * .8 + .2 + .2 = 2; 1.4 * .8 + .4 = 1.52 as nothing remains.
    assert slowdown(one, one, 2, remainder=False) == 2
    assert slowdown(one, one, F(7, 5), remainder=False) == F(152, 100)


def test_memory_that_does_not_fit_costs_at_least_the_paging_slowdown() -> None:
    big, rest, more = (usage("cpu", "60 20 20", memory) for memory in (60, 40, 41))
    assert slowdown(big, rest, 2) == 2
    assert slowdown(big, more, 2) == F(5, 2)
    assert slowdown(big, more, 2, paging=F(11, 5)) == F(11, 5)
    assert slowdown(big, more, 2, paging=F(3, 2)) == 2


def test_effective_c_by_cpu_and_scope() -> None:
    good, bad = F(7, 5), F(2)
    assert [effective_c("cpu", "cpu", one, "hyperthreaded", "cpu_cpu") for one in (good, bad)] == [good, bad]
    assert [effective_c("cpu", "disk", one, "hyperthreaded", "cpu_cpu") for one in (good, bad)] == [good, good]
    assert [effective_c("network", "network", bad, "hyperthreaded", "cpu_cpu")] == [good]
    assert [effective_c("cpu", "disk", one, "hyperthreaded", "all") for one in (good, bad)] == [good, bad]
    assert [effective_c("cpu", "disk", good, "standard", scope) for scope in ("all", "cpu_cpu")] == [bad, bad]


def test_utilization_gains_of_the_specification() -> None:
    assert u_gain_2(8, 8, F(8, 5)) == F(1, 4)
    assert u_gain_2(16, 8, F(7, 5)) == F(1, 14)  # .0714
    assert u_gain_2(16, 4, F(3, 2)) == F(-1, 6)  # -.1667
    assert u_gain_2(8, 16, F(7, 5)) == F(1, 14)
    assert u_gain_1(8, 300, 8, 100, F(8, 5)) == u_gain_1(8, 100, 8, 300, F(8, 5)) == F(1, 12)
    assert u_gain_2(16, 8, 1.4) == pytest.approx(1 / 14)
    assert u_gain_2(8, 8, 1) == 1


def test_expected_ends() -> None:
    # At 2/3 until 90: the first has done its 60, the other 60 of 100.
    assert expected_ends(60, 100, F(3, 2)) == (F(90), F(130))
    assert expected_ends(100, 60, F(3, 2)) == (F(130), F(90))
    assert expected_ends(100, 100, F(4, 3)) == (F(400, 3), F(400, 3))
    assert expected_ends(70, 10, 1) == (F(70), F(10))


# ---------------------------------------------------------------- impact on response times


def test_impacts_of_the_specification() -> None:
    # With one other pending job, behind, of work 12.5 * 128, only terms of delay and improvement remain:
    # response times 6.25, 12.5 (moved) and 25.
    behind = [(16, 100)]
    # delay 0, improvement 6.25: dec = (12.5 - 6.25)/12.5 + 6.25/25 = .75
    assert response_time_impact(128, (8, 100), (8, 100), 1, [], behind) == F(3, 4)
    # delay 6.25, improvement 0: inc = 6.25/6.25 = 1, dec = (12.5 - 12.5)/12.5 = 0
    assert response_time_impact(128, (8, 100), (8, 100), 2, [], behind) == -1


# pairrun = 50 * .5 + 100 = 125; delay = (125 * 2 - 200)/4 = 12.5; improvement = 25 - 12.5 = 12.5; resp = 50.
#   current    inc = 12.5/50                = 1/4
#   push-down  resp = 100, inc += 12.5/100  = 3/8
#   moved      resp = 125, dec = (125 - 50 * 1.5 * 2/4)/125 = 87.5/125 = 7/10
#   pull-up    resp = 200, dec += 12.5/200  = 61/80
CASE = (4, (2, 100), (2, 50), F(3, 2), [(4, 50)], [(1, 300)])


def test_impact_by_hand() -> None:
    assert response_time_impact(*CASE) == (F(61, 80) - F(3, 8)) / 2
    assert response_time_impact(*CASE[:4], [], []) == F(1, 2) - F(1, 4)  # moved: resp = 75, 37.5/75
    floats = response_time_impact(4, (2, 100.0), (2, 50.0), 1.5, [(4, 50.0)], [(1, 300.0)])
    assert isinstance(floats, float)
    assert floats == pytest.approx(float((F(61, 80) - F(3, 8)) / 2), rel=1e-14)


def test_impact_on_future_arrivals_by_hand() -> None:
    def change(short: tuple[Number, Number] = (0, 0), long: tuple[Number, Number] = (0, 0)) -> Number:
        return 2 * (response_time_impact(*CASE, short, long) - response_time_impact(*CASE))

    assert change(short=(2, 400)) == -2 * F(25, 2) / 100
    assert change(short=(2, 40)) == -2 * F(25, 2) / 60  # 10 seconds of work count as a minute
    assert change(short=(F(1, 2), 40)) == -F(25, 2) / 120
    # Mean work 200: 50 seconds each. resp 200 -> 250, 300, and half a chance of 350.
    assert change(long=(1, 200)) == F(25, 2) / 250
    assert change(long=(2, 200)) == F(25, 2) / 250 + F(25, 2) / 300
    assert change(long=(F(5, 2), 200)) == F(25, 2) / 250 + F(25, 2) / 300 + F(1, 2) * F(25, 2) / 350
    assert change(long=(F(1, 2), 200)) == F(1, 2) * F(25, 2) / 250


def test_impact_with_a_running_partner_by_hand() -> None:
    # 8 nodes; the host has 60 s left on 4 nodes, the newcomer needs 80 s on 2. pairrun = 60/4 + 80 = 95;
    # delay = (380 - 240)/8 = 17.5; improvement = 20 - 17.5 = 2.5; resp = 30, inc = 17.5/30 = 7/12;
    # newcomer: resp = 50, dec = (50 - 25)/50 = 1/2; behind it 50 more: resp = 100, dec += 1/40.
    impact = response_time_impact(8, (4, 60), (2, 80), F(5, 4), [], [(8, 50)], running=True)
    assert impact == F(1, 2) + F(1, 40) - F(7, 12)
    with pytest.raises(AssertionError, match="overtakes no job"):
        response_time_impact(8, (4, 60), (2, 80), F(5, 4), [(8, 50)], [], running=True)
    with pytest.raises(AssertionError, match="inside its host"):
        response_time_impact(8, (2, 60), (4, 80), F(5, 4), [], [], running=True)


# ---------------------------------------------------------------- classes, order, matching


def test_job_classes() -> None:
    assert [job_class(time) for time in (1, 60, F(601, 10), 3600, 3601)] == [
        "short",
        "short",
        "medium",
        "medium",
        "long",
    ]


def test_order_of_classes_and_aging() -> None:
    jobs: list[tuple[int, Number, Number]] = [
        (5, 0, 9000),  # long, waits 100
        (4, 30, 9000),  # long, waits 70
        (3, 50, 600),  # medium, waits 50
        (2, 51, 600),  # medium, waits 49
        (7, 90, 10),  # short, waits 10
        (6, 90, 10),
    ]

    def order(mean_wait: Number | None) -> list[int]:
        return [number for number, _, _ in class_order(jobs, 100, mean_wait)]

    assert order(None) == order(0) == order(101) == [6, 7, 3, 2, 5, 4]
    assert order(100) == [6, 7, 5, 3, 2, 4]  # job 5 counts as a medium one now
    assert order(50) == [5, 3, 6, 7, 4, 2]  # job 5 rises by two levels, 4 and 3 by one
    # At equal levels the earlier submission comes first: a long job after 25 and a short one after 10.
    assert [number for number, _, _ in class_order([(1, 90, 10), (2, 75, 9000)], 100, 10)] == [2, 1]
    assert order(F(1, 1000)) == [5, 4, 3, 2, 6, 7]  # all as short: no job rises further


def test_matchable() -> None:
    cpu, network, disk = (Job(0, 4, 100, usage(one, "40 30 30")) for one in ("cpu", "network", "disk"))
    good, bad = F(7, 5), F(2)
    for a in (cpu, network, disk):
        for b in (cpu, network, disk):
            assert matchable(a, b, "hyperthreaded", good) is (a != b or a == cpu)
            assert matchable(a, b, "hyperthreaded", bad) is (a != b)
            assert matchable(a, b, "standard", bad) is (a != b and network not in (a, b))

    def changed(size: int = 4, time: Number = 100, memory: int = 10) -> Job:
        return Job(1, size, time, usage("disk", "40 30 30", memory))

    for candidate, expected in (
        (changed(size=5), False),
        (changed(size=3), True),
        (changed(time=60), False),
        (changed(time=61), True),
        (changed(memory=91), False),
        (changed(memory=90), True),
    ):
        assert matchable(cpu, candidate, "hyperthreaded", bad) is expected
    assert not matchable(cpu._replace(time=60), changed(), "hyperthreaded", good)


CURRENT = Job(0, 8, 7200, usage("cpu", "70 10 20", memory=40))
QUEUE = [
    Job(1, 2, 60, usage("network", "20 65 15")),  # short
    Job(2, 16, 7200, usage("network", "20 65 15")),  # larger
    Job(3, 4, 7200, usage("disk", "20 15 65", memory=61)),  # memory 1.01
    Job(4, 8, 7200, usage("cpu", "80 10 10")),  # both cpu-bound, and c = 2
    Job(5, 8, 7200, usage("disk", "35 15 50")),  # c = 2: 1 + .35 + .1 + .2 = 1.65
    # Candidates:                                   slowdown                         U2                    U1
    Job(6, 4, 3600, usage("network", "25 60 15")),  # 1 + .25 + .1 + .15 = 1.5       4/3 - 4/3 = 0         0
    Job(7, 8, 3600, usage("network", "20 65 15")),  # 1 + .4 * .2 + .25 = 1.33       2/1.33 - 1 = .504     .252
    Job(8, 8, 7200, usage("cpu", "80 10 10")),  # 1 + .4 * .7 + .2 = 1.48            2/1.48 - 1 = .351     .351
    Job(9, 8, 7200, usage("cpu", "80 10 10")),  # the same again
]


def c_of(a: Job, b: Job) -> Number:
    assert a is CURRENT
    return F(2) if b.id in (4, 5, 6) else F(7, 5)


def always(c: Number) -> Callable[[Job, Job], Number]:
    return lambda _a, _b: c


@pytest.mark.parametrize(("heuristic", "index", "selected"), [("first", 5, 1), ("u2", 6, 2), ("u1", 7, 3)])
@pytest.mark.parametrize("exact", [True, False])
def test_best_match_and_funnel(heuristic: Heuristic, index: int, selected: int, exact: bool) -> None:
    match, funnel = find_match(CURRENT, QUEUE, heuristic, c_of, exact=exact)
    assert match == index
    assert funnel == (9, 8, 7, 6, 5, 4, selected)


def test_no_match() -> None:
    assert find_match(CURRENT, QUEUE[:6], "u2", c_of) == (None, (6, 5, 4, 3, 2, 1, 0))  # a gain of 0 is none
    assert find_match(CURRENT, [], "first", c_of) == (None, (0, 0, 0, 0, 0, 0, 0))
    # A standard CPU: of cpu-bound and disk-bound jobs, number 3 does not fit, and number 5 slows down by 1.65.
    assert find_match(CURRENT, QUEUE, "u1", c_of, cpu="standard") == (None, (9, 8, 7, 6, 1, 0, 0))
    assert find_match(CURRENT, QUEUE, "u1", c_of, cpu="standard", max_slowdown=F(165, 100))[0] == 4
    # As printed: .7 + .2 + .4 = 1.3.
    assert find_match(CURRENT, QUEUE, "u1", c_of, cpu="standard", remainder=False)[0] == 4


def test_slowdown_at_the_limit_is_accepted() -> None:
    # 1 + .3 + .1 + .2 = 1.6, in floats too.
    queue = [Job(1, 8, 7200, usage("disk", "30 10 60"))]
    for exact in (True, False):
        assert find_match(CURRENT, queue, "u2", always(F(2)), exact=exact)[0] == 0
        assert find_match(CURRENT, queue, "u2", always(F(201, 100)), exact=exact)[0] is None


def test_best_match_by_response_time() -> None:
    # 4 nodes, all jobs (4, 100); slowdowns 1.4 and 1.2 with the current one.
    #   index 0: delay 40, improvement 60; inc = 40/100; dec = (200 - 140)/200 + 60/300 = .5         -> profit .1
    #   index 1: delay 20, improvement 80; inc = 20/100 + 20/200 = .3; dec = (300 - 120)/300 = .6    -> profit .3
    current = Job(0, 4, 100, usage("cpu", "80 10 10"))
    worse, better = usage("network", "20 70 10"), usage("network", "0 90 10")
    queue = [Job(1, 4, 100, worse), Job(2, 4, 100, better)]
    assert find_match(current, queue, "response", always(F(2)), n_nodes=4)[0] == 1
    assert response_time_impact(4, (4, 100), (4, 100), F(7, 5), [], [(4, 100)]) == F(1, 10)
    assert response_time_impact(4, (4, 100), (4, 100), F(6, 5), [(4, 100)], []) == F(3, 10)
    # Four short arrivals, a minute each: index 0 loses 4 * 40/60, index 1 4 * 20/60; both profits are negative.
    assert find_match(current, queue, "response", always(F(2)), 4, future_short=(4, 1))[0] is None
    # Alone in the queue, index 0 has inc = .4 and dec = 60/200; nine long jobs of no work at all gain 60/200 each.
    assert find_match(current, queue[:1], "response", always(F(2)), 4)[0] is None
    assert find_match(current, queue[:1], "response", always(F(2)), 4, future_long=(9, 0))[0] == 0


# ---------------------------------------------------------------- the judge of schedules

# Jobs 1 and 2 slow each other down by 3/2, 1 and 3 by 2; others not at all.
PAIRS = {(1, 2): F(3, 2), (1, 3): F(2)}


def slowdown_of(a: int, b: int) -> Number:
    return PAIRS.get((min(a, b), max(a, b)), F(1))


def run(first: int, count: int, mask: int) -> Run:
    return (first, count, mask, 1)


# Job 1 alone until 20: 20 of 100 done. Both at 2/3 until 110: job 2 has done its 60, job 1 60 more. Then 20 alone.
JOB_1, JOB_2 = FinishedJob(1, 100_000, memory_ppm=700_000), FinishedJob(2, 60_000, memory_ppm=300_000)
STAY_1 = Stay(1, 0, 130_000, (run(0, 2, 1),))
STAY_2 = Stay(2, 20_000, 110_000, (run(0, 1, 2),))
# Job 9 follows on the threads of job 2, at the instant of its end, and meets job 1 for 20; that costs nothing.
JOB_9, STAY_9 = FinishedJob(9, 50_000, memory_ppm=300_000), Stay(9, 110_000, 160_000, (run(0, 1, 2),))


def check(jobs: list[FinishedJob], stays: list[Stay], **settings: bool | int) -> None:
    for exact in (True, False):
        check_schedule(jobs, stays, 3, slowdown_of, exact=exact, **settings)  # type: ignore[arg-type]  # as named


def test_a_right_schedule_passes() -> None:
    check([JOB_1, JOB_2, JOB_9], [STAY_9, STAY_2, STAY_1])
    check([JOB_1, JOB_2, JOB_9], [STAY_9, STAY_2, STAY_1], tolerance_us=0)
    check([], [])


@pytest.mark.parametrize(
    ("job_1", "job_2", "error"),
    [
        (STAY_1, STAY_2._replace(end_us=109_992), r"job 2: 59994\.6"),
        (STAY_1, STAY_2._replace(end_us=110_008), r"job 2: 60005\.3"),
        (STAY_1._replace(end_us=129_990), STAY_2, r"job 1: 99990\.0"),
        (STAY_1._replace(end_us=130_010), STAY_2, r"job 1: 100010\.0"),
        (STAY_1, STAY_2._replace(runs=(run(2, 1, 2),)), r"job 1: 130000\.0"),  # no neighbours: both too slow
        (STAY_1, STAY_2._replace(runs=(run(0, 1, 1),)), "held twice"),
        (STAY_1, STAY_2._replace(runs=(run(0, 1, 3),)), "held twice"),
        (STAY_1, STAY_2._replace(runs=(run(0, 1, 4),)), "thread mask 0b100 of 2 threads"),
        (STAY_1, STAY_2._replace(runs=(run(0, 1, 0),)), "thread mask"),
        (STAY_1, STAY_2._replace(runs=(run(3, 1, 2),)), "node 3 of 3"),
        (STAY_1, STAY_2._replace(runs=(run(0, 1, 2), run(0, 1, 2))), "node 0 twice"),
        (STAY_1, STAY_2._replace(runs=()), "job 2: no nodes"),
        (STAY_1, STAY_2._replace(runs=(run(0, 0, 2),)), "run without nodes"),
        (STAY_1, STAY_2._replace(runs=((0, 1, 2, 0),)), "without a process"),
        (STAY_1, STAY_2._replace(end_us=20_000), "not after its start"),
        (STAY_1, STAY_2._replace(suspended_us=((19_000, 21_000),)), "suspended spans"),
        (STAY_1, STAY_2._replace(suspended_us=((40_000, 50_000), (30_000, 35_000))), "suspended spans"),
        (STAY_1, STAY_2._replace(job=3), "job 3: unknown"),
        (STAY_1, STAY_2._replace(job=1), "job 1: two stays"),
    ],
)
def test_a_wrong_schedule_is_refused(job_1: Stay, job_2: Stay, error: str) -> None:
    with pytest.raises(AssertionError, match=error):
        check([JOB_1, JOB_2], [job_1, job_2])


def test_a_missing_job_is_refused() -> None:
    with pytest.raises(AssertionError, match=r"jobs \[2\]: no stay"):
        check([JOB_1, JOB_2], [STAY_1])


def test_memory_of_jobs_that_share_a_node() -> None:
    big = JOB_2._replace(memory_ppm=300_001)
    with pytest.raises(AssertionError, match=r"node 0 at 20000 us: jobs \[1, 2\]: 1000001 ppm"):
        check([JOB_1, big], [STAY_1, STAY_2])
    check([JOB_1, big], [STAY_1, STAY_2], memory_rule=False)
    # Jobs that run one after the other need no common room.
    apart = STAY_2._replace(start_us=130_000, end_us=190_000)
    check([JOB_1._replace(run_us=130_000), big], [STAY_1, apart])


def test_three_jobs_on_a_node_are_refused() -> None:
    jobs = [FinishedJob(job, 50_000) for job in (5, 6, 7)]
    stays = [Stay(job, 0, 50_000, (run(0, 1, mask),)) for job, mask in ((5, 1), (6, 2), (7, 4))]
    check(jobs[:2], stays[:2], threads_per_node=4)
    with pytest.raises(AssertionError, match=r"jobs \[5, 6, 7\]: more than two"):
        check(jobs, stays, threads_per_node=4)
    moved = stays[2]._replace(runs=(run(1, 1, 4),))
    check(jobs, [*stays[:2], moved], threads_per_node=4)


def test_the_worst_node_counts() -> None:
    # Job 1 meets job 2 (3/2) on node 0 and job 3 (2) on node 1: all run until 60, at 1/2, 2/3 and 1/2.
    stays = [
        Stay(1, 0, 60_000, (run(0, 2, 1),)),
        Stay(2, 0, 60_000, (run(0, 1, 2),)),
        Stay(3, 0, 60_000, (run(1, 1, 2),)),
    ]
    jobs = [FinishedJob(1, 30_000), FinishedJob(2, 40_000), FinishedJob(3, 30_000)]
    check(jobs, stays, tolerance_us=0)
    for wrong in (24_000, 60_000 // 1.75, 40_000):  # the sum over both nodes, their mean, the best node
        with pytest.raises(AssertionError, match="job 1: 30000"):
            check([FinishedJob(1, int(wrong)), *jobs[1:]], stays)


# Slowdown 2; job 3 is suspended from 10 to 30. Job 1: 5 + 20 + 15 = 40 until 60; job 3: 5 + 0 + 15, and 5 alone.
SUSPENDED = Stay(3, 0, 65_000, (run(0, 1, 2),), ((10_000, 30_000),))
HOST = Stay(1, 0, 60_000, (run(0, 1, 1),))


def test_a_suspended_job_stands_still_and_disturbs_no_job() -> None:
    jobs = [FinishedJob(1, 40_000), FinishedJob(3, 25_000)]
    check(jobs, [HOST, SUSPENDED], tolerance_us=0)
    in_parts = SUSPENDED._replace(suspended_us=((10_000, 20_000), (20_000, 25_000), (25_000, 25_000), (25_000, 30_000)))
    check(jobs, [HOST, in_parts], tolerance_us=0)
    with pytest.raises(AssertionError, match="job 1: 30000"):
        check(jobs, [HOST, SUSPENDED._replace(suspended_us=())])
    # From its start until 20, and again from 50 until its end: job 1 does 20 + 15 + 10, job 3 only 15.
    at_the_edges = SUSPENDED._replace(suspended_us=((0, 20_000), (50_000, 65_000)))
    check([FinishedJob(1, 45_000), FinishedJob(3, 15_000)], [HOST, at_the_edges], tolerance_us=0)


@pytest.mark.parametrize(
    ("mask", "memory_ppm", "error"),
    [(2, 0, "held twice"), (4, 0, "more than two jobs"), (4, 900_000, "more than two jobs")],
)
def test_a_suspended_job_keeps_its_place(mask: int, memory_ppm: int, error: str) -> None:
    jobs = [FinishedJob(1, 40_000), FinishedJob(3, 25_000), FinishedJob(9, 20_000, memory_ppm)]
    guest = Stay(9, 10_000, 30_000, (run(0, 1, mask),))
    with pytest.raises(AssertionError, match=error):
        check(jobs, [HOST, SUSPENDED, guest], threads_per_node=4)


def test_a_suspended_job_keeps_its_memory() -> None:
    jobs = [FinishedJob(3, 65_000 - 20_000, 600_000), FinishedJob(9, 20_000, 400_001)]
    guest = Stay(9, 10_000, 30_000, (run(0, 1, 1),))
    with pytest.raises(AssertionError, match="1000001 ppm"):
        check(jobs, [SUSPENDED, guest])
    check([jobs[0], jobs[1]._replace(memory_ppm=400_000)], [SUSPENDED, guest])


def test_ends_are_rounded_up() -> None:
    # 10,000 us at 9/13 take 14,444.4 us; at 14,445 10,000.4 are done, at 14,449 10,003.2.
    def ends(end_us: int) -> tuple[list[FinishedJob], list[Stay]]:
        stays = [Stay(5, 7, end_us + 7, (run(0, 1, 1),)), Stay(6, 7, end_us + 7, (run(0, 1, 2),))]
        return [FinishedJob(5, 10_000), FinishedJob(6, 10_000)], stays

    def both(_a: int, _b: int) -> Number:
        return F(13, 9)

    check_schedule(*ends(14_445), 1, both, tolerance_us=1)
    with pytest.raises(AssertionError, match=r"job 5: 10000\.38"):
        check_schedule(*ends(14_445), 1, both, tolerance_us=0)
    with pytest.raises(AssertionError, match=r"job 5: 10003\.15"):
        check_schedule(*ends(14_449), 1, both)


CAPACITY = 1000


def drawn_schedule(
    seed: int, count: int, nodes: int
) -> tuple[list[FinishedJob], list[Stay], Callable[[int, int], Number]]:
    """Return a schedule with ends computed by the reference of progress.

    Demands are such that a pair on a node slows down by its sum of demands / capacity. A thread is reused only
    after twice the run time, when its job has ended for sure.
    """
    random = Random(seed)
    free_us = {(node, thread): 0 for node in range(nodes) for thread in (0, 1)}
    placed: list[PlacedJob] = []
    runs_of: dict[int, tuple[Run, ...]] = {}
    for job in range(count):
        run_us = random.randint(10_000, 900_000)
        threads = {node: random.randrange(2) for node in sorted(random.sample(range(nodes), random.randint(1, nodes)))}
        start_us = max(free_us[one] for one in threads.items()) + random.choice((0, 0, 5000))
        free_us.update(dict.fromkeys(threads.items(), start_us + 2 * run_us + 1))
        demand = (random.randint(CAPACITY // 4, CAPACITY),)
        placed.append(PlacedJob(job, start_us, run_us, dict.fromkeys(threads, 1), demand))
        runs_of[job] = tuple((node, 1, 1 << thread, 1) for node, thread in threads.items())
    outcomes = progress(placed, [(CAPACITY,)] * nodes, whole_ends=True)
    jobs = [FinishedJob(one.id, one.work) for one in placed]
    stays = [Stay(one.id, one.start, int(outcomes[one.id].end), runs_of[one.id]) for one in placed]

    def pair(a: int, b: int) -> Number:
        return max(F(placed[a].demand[0] + placed[b].demand[0], CAPACITY), F(1))

    return jobs, stays, pair


@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_the_reference_of_progress(seed: int) -> None:
    jobs, stays, pair = drawn_schedule(seed, count=25, nodes=4)
    for exact in (True, False):
        check_schedule(jobs, stays, 4, pair, exact=exact, tolerance_us=1)
    assert sum(stay.end_us - stay.start_us > job.run_us + 10 for job, stay in zip(jobs, stays, strict=True)) > 5
    for place in range(0, len(stays), 6):
        for change_us in (-10, 10):
            wrong = [*stays]
            wrong[place] = wrong[place]._replace(end_us=wrong[place].end_us + change_us)
            with pytest.raises(AssertionError, match="of work done"):
                check_schedule(jobs, wrong, 4, pair)
