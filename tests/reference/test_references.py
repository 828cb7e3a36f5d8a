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


# 2 processors; job 1 asks for 10 and runs 4. Job 4 arrives at the instant when it ends.
#
#   promised  0.........10..13       really  0...4..7
#             1111111111222 3                1111222 3
#             1111111111222                  1111222 44
EARLY_END = [Job(1, 0, 2, 4, 10), exact(2, 1, 2, 3), exact(3, 2, 1, 1)]


def test_compression() -> None:
    assert conservative(EARLY_END, 2) == ({1: 0, 2: 4, 3: 7}, {1: 0, 2: 10, 3: 13})


def test_outlived_estimates() -> None:
    # Job 1 passes its estimate at 4 and ends at 8. At 5 its end is expected at 6, so job 3 (1 long) may start; at 6,
    # job 4 (2) not.
    jobs = [Job(1, 0, 2, 8, 4), exact(2, 1, 3, 2), exact(3, 5, 1, 1), exact(4, 6, 1, 2)]
    assert easy(jobs, 3) == {1: 0, 2: 8, 3: 5, 4: 10}
    starts, promised = conservative(jobs, 3)
    assert starts == {1: 0, 2: 8, 3: 5, 4: 10}
    assert promised == {1: 0, 2: 4, 3: 5, 4: 9}


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
