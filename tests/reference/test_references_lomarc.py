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
    find_match,
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


# ---------------------------------------------------------------- classes, order, matching


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


@pytest.mark.parametrize(("heuristic", "index", "selected"), [("first", 5, 1), ("u2", 6, 2), ("u1", 7, 3)])
@pytest.mark.parametrize("exact", [True, False])
def test_best_match_and_funnel(heuristic: Heuristic, index: int, selected: int, exact: bool) -> None:
    match, funnel = find_match(CURRENT, QUEUE, heuristic, c_of, exact=exact)
    assert match == index
    assert funnel == (9, 8, 7, 6, 5, 4, selected)


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
