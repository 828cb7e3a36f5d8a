"""The judges of schedules in space: each refuses wrong variants of a schedule worked by hand."""

from __future__ import annotations

import pytest
from tests.reference.space_sharing import Job, check_conservative, check_easy_reservation, check_no_overcommit, fcfs


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


# 2 processors; job 1 asks for 10 and runs 4. Job 4 arrives at the instant when it ends.
#
#   promised  0.........10..13       really  0...4..7
#             1111111111222 3                1111222 3
#             1111111111222                  1111222 44
EARLY_END = [Job(1, 0, 2, 4, 10), exact(2, 1, 2, 3), exact(3, 2, 1, 1)]


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
