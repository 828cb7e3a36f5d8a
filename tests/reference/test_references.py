"""The references of space sharing, against schedules worked by hand and against each other on random cases."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from tests.reference.space_sharing import (
    Busy,
    Candidates,
    Job,
    Machine,
    by_estimate,
    by_submission,
    check_conservative,
    check_easy_reservation,
    check_no_overcommit,
    conservative,
    earliest,
    easy,
    fcfs,
    fits,
    shortest_first,
    simulate,
)

# ---------------------------------------------------------------- space sharing, by hand


ORDERS: list[tuple[Candidates, Callable[[Job], tuple[int, ...]]]] = [
    ("submission", by_submission),
    ("shortest", by_estimate),
]


def exact(number: int, submit: int, processors: int, run: int) -> Job:
    return Job(number, submit, processors, run, run)


# 4 processors. Job 3 would run past job 2's start; job 4 ends exactly at it.
#
#   time  0 1 2 3 4 5 6 7 8 9 10
#   EASY  1 1 1 1 2 2 3 3 3 3 3
#         1 1 1 1 2 2
#         . . . 4 2 2
#         . . . 4 2 2
BLOCKED = [exact(1, 0, 2, 4), exact(2, 1, 4, 2), exact(3, 2, 1, 5), exact(4, 3, 2, 1)]


def test_easy_backfills_behind_a_blocked_head() -> None:
    assert fcfs(BLOCKED, 4) == {1: 0, 2: 4, 3: 6, 4: 6}
    assert easy(BLOCKED, 4) == {1: 0, 2: 4, 3: 6, 4: 3}
    assert conservative(BLOCKED, 4) == ({1: 0, 2: 4, 3: 6, 4: 3}, {1: 0, 2: 4, 3: 6, 4: 3})
    assert shortest_first(BLOCKED, 4) == {1: 0, 2: 4, 3: 6, 4: 3}


# 5 processors: the case that tells EASY from conservative (Mu'alem and Feitelson). Job 4 fits beside job 2 (extra 2)
# but is long.
#
#   EASY          0 1 2 3 4 5 6 7 8 9..11    conservative  0 1 2 3 4 5 6 7 8 9..14
#                 1 1 1 1 2 2 . . . 3                      1 1 1 1 2 2 3 3 3 4
#                 1 1 1 1 2 2 . . . 3                      1 1 1 1 2 2 3 3 3 4
#                 1 1 1 1 2 2 . . . 3                      1 1 1 1 2 2 3 3 3
#                 . . . 4 4 4 4 4 4 3                      . . . . . . 3 3 3
#                 . . . 4 4 4 4 4 4 3                      . . . . . . 3 3 3
SECOND_DELAYED = [exact(1, 0, 3, 4), exact(2, 1, 3, 2), exact(3, 2, 5, 3), exact(4, 3, 2, 6)]


def test_easy_may_delay_the_second_and_conservative_may_not() -> None:
    assert easy(SECOND_DELAYED, 5) == {1: 0, 2: 4, 3: 9, 4: 3}
    assert conservative(SECOND_DELAYED, 5)[0] == {1: 0, 2: 4, 3: 6, 4: 9}


def test_extra_processors_at_the_shadow_time_are_used_once() -> None:
    # Shadow 4, extra 1: of three long single-processor jobs one may run past it, though three processors are free.
    jobs = [exact(1, 0, 2, 4), exact(2, 1, 4, 2), *(exact(number, 1, 1, 9) for number in (3, 4, 5))]
    assert easy(jobs, 5) == {1: 0, 2: 4, 3: 1, 4: 6, 5: 6}


def test_candidate_order() -> None:
    # One free processor until job 2 takes all four at 10: there is room for job 3 (6 long) or for job 4 (3 long), not
    # for both.
    jobs = [exact(1, 0, 3, 10), exact(2, 1, 4, 1), exact(3, 2, 1, 6), exact(4, 2, 1, 3)]
    assert easy(jobs, 4) == {1: 0, 2: 10, 3: 2, 4: 11}
    assert easy(jobs, 4, "shortest") == {1: 0, 2: 10, 3: 11, 4: 2}


def test_jobs_ending_together_with_the_shadow_count_as_extra() -> None:
    # Jobs 1 and 2 both end at 4. The head would fit with job 1's processors alone; job 2's is then left for job 4.
    jobs = [exact(1, 0, 2, 4), exact(2, 0, 1, 4), exact(3, 1, 3, 1), exact(4, 1, 1, 9)]
    assert easy(jobs, 4) == {1: 0, 2: 0, 3: 4, 4: 1}


def test_shortest_first_order_and_blocking() -> None:
    # At 4 job 3 goes first, being shorter; job 4 (longest) could not pass job 2, which does not fit beside it until 5.
    jobs = [exact(1, 0, 2, 4), exact(2, 1, 2, 3), exact(3, 2, 1, 1), exact(4, 2, 1, 9)]
    assert shortest_first(jobs, 2) == {1: 0, 3: 4, 2: 5, 4: 8}


# 2 processors; job 1 asks for 10 and runs 4. Job 4 arrives at the instant when it ends.
#
#   promised  0.........10..13       really  0...4..7
#             1111111111222 3                1111222 3
#             1111111111222                  1111222 44
EARLY_END = [Job(1, 0, 2, 4, 10), exact(2, 1, 2, 3), exact(3, 2, 1, 1)]


def test_compression() -> None:
    assert conservative(EARLY_END, 2) == ({1: 0, 2: 4, 3: 7}, {1: 0, 2: 10, 3: 13})


def test_newcomer_at_the_instant_of_an_end() -> None:
    jobs = [*EARLY_END, exact(4, 4, 1, 2)]
    assert conservative(jobs, 2) == ({1: 0, 2: 4, 3: 7, 4: 7}, {1: 0, 2: 10, 3: 13, 4: 7})
    # With its reservation first, job 4 takes [4, 6); then job 2 moves only to 6, and job 3 has the processor beside job 4.
    starts, promised = conservative(jobs, 2, newcomers_first=True)
    assert (starts, promised[4]) == ({1: 0, 2: 6, 3: 4, 4: 4}, 4)


def test_compression_goes_on_until_nothing_changes() -> None:
    # 4 processors, at 3 job 1 ends 7 early. First sweep: job 3 (needs three) cannot pass job 4 [4, 9), job 4 moves to
    # 3; second sweep: job 3 moves from 9 to 8. So the newcomer, which needs the whole machine for 1, is promised 10
    # and not 11.
    jobs = [Job(1, 0, 2, 3, 10), exact(2, 0, 2, 4), exact(3, 1, 3, 2), exact(4, 2, 2, 5), exact(5, 3, 4, 1)]
    starts, promised = conservative(jobs, 4)
    assert promised == {1: 0, 2: 0, 3: 10, 4: 4, 5: 10}
    assert starts == {1: 0, 2: 0, 3: 8, 4: 3, 5: 10}


def test_outlived_estimates() -> None:
    # Job 1 passes its estimate at 4 and ends at 8. At 5 its end is expected at 6, so job 3 (1 long) may start; at 6,
    # job 4 (2) not.
    jobs = [Job(1, 0, 2, 8, 4), exact(2, 1, 3, 2), exact(3, 5, 1, 1), exact(4, 6, 1, 2)]
    assert easy(jobs, 3) == {1: 0, 2: 8, 3: 5, 4: 10}
    starts, promised = conservative(jobs, 3)
    assert starts == {1: 0, 2: 8, 3: 5, 4: 10}
    assert promised == {1: 0, 2: 4, 3: 5, 4: 9}


def test_impossible_jobs_are_refused() -> None:
    for job in (exact(1, 0, 5, 1), exact(1, 0, 1, 0), exact(1, 0, 0, 1)):
        with pytest.raises(ValueError, match="cannot run"):
            fcfs([job], 4)


def test_the_checks_can_fail() -> None:
    with pytest.raises(AssertionError, match="before its submission"):
        check_no_overcommit(BLOCKED, {1: 0, 2: 4, 3: 6, 4: 2}, 4)
    with pytest.raises(AssertionError, match="processors in use"):
        check_no_overcommit(BLOCKED, {1: 0, 2: 3, 3: 6, 4: 3}, 4)
    with pytest.raises(AssertionError, match="could be backfilled"):
        check_easy_reservation(BLOCKED, fcfs(BLOCKED, 4), 4)
    with pytest.raises(AssertionError, match="is delayed"):
        check_easy_reservation(BLOCKED, {1: 0, 2: 7, 3: 2, 4: 3}, 4)
    with pytest.raises(AssertionError, match="is not started"):
        check_easy_reservation(BLOCKED, {1: 0, 2: 6, 3: 8, 4: 3}, 4)
    with pytest.raises(AssertionError, match="belongs at 6"):
        check_conservative(SECOND_DELAYED, {1: 0, 2: 4, 3: 9, 4: 3}, {1: 0, 2: 4, 3: 9, 4: 3}, 5)
    with pytest.raises(AssertionError, match="promised 13"):
        check_conservative(EARLY_END, {1: 0, 2: 4, 3: 14}, {1: 0, 2: 10, 3: 13}, 2)


# ---------------------------------------------------------------- space sharing, at random


def random_jobs(random: Random, processors: int, kind: str) -> list[Job]:
    jobs, clock = [], 0
    for number in range(1, random.randint(2, 14)):
        clock += random.choice((0, 0, 1, 1, 2, 4))
        run = random.randint(1, 8)
        estimate = {"exact": run, "over": run + random.choice((0, 0, 2, 6)), "wrong": random.randint(1, 8)}[kind]
        jobs.append(Job(number, clock, random.choice((1, 1, 2, processors // 2, processors)), run, estimate))
    return jobs


@pytest.mark.parametrize("kind", ["exact", "over", "wrong"])
def test_random_schedules_have_the_properties(kind: str) -> None:
    random = Random(f"space sharing {kind}")
    for _ in range(250):
        processors = random.randint(2, 7)
        jobs = random_jobs(random, processors, kind)
        by_conservative, promised = conservative(jobs, processors, newcomers_first=random.random() < 0.5)
        by_easy, by_sjbf = easy(jobs, processors), easy(jobs, processors, "shortest")
        by_fcfs = fcfs(jobs, processors)
        for starts in (by_fcfs, shortest_first(jobs, processors), by_easy, by_sjbf, by_conservative):
            check_no_overcommit(jobs, starts, processors)
        assert [by_fcfs[job.id] for job in jobs] == sorted(by_fcfs.values())
        if kind != "wrong":
            check_easy_reservation(jobs, by_easy, processors)
            check_easy_reservation(jobs, by_sjbf, processors)
            check_conservative(jobs, by_conservative, promised, processors)


def test_passes_without_events_change_nothing() -> None:
    random = Random("extra passes")
    for _ in range(150):
        processors = random.randint(2, 7)
        jobs = random_jobs(random, processors, "over")
        always = range(150)
        assert fcfs(jobs, processors) == fcfs(jobs, processors, always)
        assert shortest_first(jobs, processors) == shortest_first(jobs, processors, always)
        assert easy(jobs, processors) == easy(jobs, processors, extra_passes=always)
        assert conservative(jobs, processors) == conservative(jobs, processors, extra_passes=always)
        assert conservative(jobs, processors) == conservative(jobs, processors, wake_at_reservations=True)


def test_fcfs_agrees_with_a_loop_over_units_of_time() -> None:
    """Check the event loop against a loop over every unit of time with a plain list of ends."""
    random = Random("unit time")
    for _ in range(100):
        processors = random.randint(2, 7)
        jobs = random_jobs(random, processors, "exact")
        ends = [0] * processors
        earliest_next = 0
        expected = {}
        # In submission order each starts when enough processors have ended, never before its predecessor.
        for job in jobs:
            time = max(job.submit, earliest_next)
            while sum(1 for end in ends if end <= time) < job.processors:
                time += 1
            free = [index for index, end in enumerate(ends) if end <= time][: job.processors]
            for index in free:
                ends[index] = time + job.run
            expected[job.id] = earliest_next = time
        assert fcfs(jobs, processors) == expected


@pytest.mark.parametrize("kind", ["exact", "over", "wrong"])
def test_easy_agrees_with_a_reserved_interval_for_the_head(kind: str) -> None:
    """Check shadow and extra against an equivalent rule: other jobs respect the head's reserved interval."""
    random = Random(f"profile {kind}")
    for _ in range(150):
        processors = random.randint(2, 7)
        jobs = random_jobs(random, processors, kind)
        for candidates, order in ORDERS:
            assert easy(jobs, processors, candidates) == simulate(jobs, processors, profile_pass(order))


def profile_pass(order: Callable[[Job], tuple[int, ...]]) -> Callable[[Machine], None]:
    def one_pass(machine: Machine) -> None:
        reservation: list[Busy] = []
        queue = sorted(machine.waiting, key=by_submission)
        while queue:
            job = queue.pop(0)
            busy = [Busy(machine.now, machine.expected_end(one), one.processors) for one in machine.running]
            if fits(machine.now, job, busy + reservation, machine.processors):
                machine.start(job)
            elif not reservation:
                head_start = earliest(machine.now, job, busy, machine.processors)
                reservation = [Busy(head_start, 10**9, job.processors)]
                queue.sort(key=order)

    return one_pass


def test_a_pass_sees_ends_before_submissions() -> None:
    seen: list[tuple[int, list[int], list[int]]] = []
    jobs = [exact(1, 0, 1, 3), exact(2, 3, 1, 1)]

    def start_all(machine: Machine) -> None:
        seen.append((machine.now, [job.id for job in machine.running], [job.id for job in machine.waiting]))
        for job in list(machine.waiting):
            machine.start(job)

    simulate(jobs, 1, start_all)
    assert seen == [(0, [], [1]), (3, [], [2]), (4, [], [])]
