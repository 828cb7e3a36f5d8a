"""The judge of schedules in which jobs share nodes: it refuses wrong variants of a schedule worked by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest
from tests.reference.lomarc import FinishedJob, Number, Run, Stay, check_schedule

F = Fraction

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
