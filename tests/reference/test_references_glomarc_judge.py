"""The judge of schedules in slices: a schedule worked by hand, many wrong variants of it, and drawn schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from fractions import Fraction
from typing import Any, TypeAlias

import pytest
from tests.reference.glomarc_judge import Cos, check_schedule
from tests.runs import runs_on

from cosched_emulator.manager.record import JobRecord, Stay
from cosched_emulator.workload.job import WorkloadJob
from cosched_plugin.protocol.messages import COMPLETED, JobSpec, NodeClass, Run

Number: TypeAlias = int | float | Fraction

MACHINE = (NodeClass(3, 2, 2, 1, 0, 0, 0, 0),)
MEDIUM_US, LONG_US, SHORT_US = 3_600_000_000, 20_000_000_000, 600_000_000
RESUME_US = 1000
FRONT, BACK, ALL = 0b0101, 0b1010, 0b1111  # cores 0 and 1 are on one CPU, 2 and 3 on the other


def table(pairs: Mapping[tuple[int, int], Number]) -> Cos:
    """Return SL_cos from a table; 1 where it has none."""
    return lambda job, other: pairs.get((job, other), 1)


def record(
    number: int,
    run_us: int,
    stays: Sequence[tuple[int, int]],
    runs: tuple[Run, ...],
    own_ppm: tuple[int, int] | None = (1_000_000, 1_000_000),
    estimate_us: int = MEDIUM_US,
) -> JobRecord:
    """Return a job that completed after these stays, all but the first after a time on disk."""
    processes = sum(count * here for _, count, _, here in runs)
    spec = JobSpec(number, 0, processes, estimate_us)
    intervals = tuple(Stay(start_us, end_us, runs, index > 0) for index, (start_us, end_us) in enumerate(stays))
    job = WorkloadJob(spec, run_us, None, number, None, own_ppm)
    return JobRecord(job, COMPLETED, stays[-1][1], intervals, run_us, estimate_us, None)


# Jobs 1 and 2 share node 0 for 20,000 us and, having been on disk, from 51,000 to 64,000. Job 1 is slowed there by
# 1.1 * 1.25 = 11/8, job 2 by 1 * 3/2; alone job 1 is slowed by 1.1. Job 3 has all cores of node 0 while they are away.
COS: dict[tuple[int, int], Number] = {(1, 2): 1.25, (2, 1): 1.5}
JOB_1 = record(1, 24_000 + 10_000, [(0, 20_000), (50_000, 75_000)], runs_on((0, 2, FRONT, 2)), (1_100_000, 1_200_000))
JOB_2 = record(2, 22_000, [(0, 20_000), (50_000, 64_000)], runs_on((0, 1, BACK, 2)))
JOB_3 = record(3, 25_000, [(20_000, 50_000)], runs_on((0, 1, ALL, 4)), (960_000, 1_250_000), LONG_US)
JOBS = [JOB_1, JOB_2, JOB_3]
SLICES = [(0, 20_000, "medium"), (20_000, 50_000, "long"), (50_000, 80_000, "medium")]


def check(jobs: Sequence[JobRecord], **settings: Any) -> None:
    given = {"calendar": SLICES, "resume_us": RESUME_US, **settings}
    check_schedule(jobs, MACHINE, table(COS), **given)


def moved(job: JobRecord, stay: int, **changes: Any) -> JobRecord:
    """Return the record with one stay changed, and the job's end with that of its last one."""
    stays = list(job.intervals)
    stays[stay] = stays[stay]._replace(**changes)
    return job._replace(intervals=tuple(stays), end_us=stays[-1].end_us)


def respecified(job: JobRecord, **changes: Any) -> JobRecord:
    return job._replace(job=job.job._replace(spec=job.job.spec._replace(**changes)))


def with_amounts(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[JobRecord]:
    """Return the schedule where the two jobs that share node 0 ask for more."""
    return [respecified(JOB_1, **first), respecified(JOB_2, **second), JOB_3]


@pytest.mark.parametrize(
    ("first", "second", "wrong"),
    [
        ({"eligible": ((0, 2),)}, {"eligible": ((2, 1), (0, 1))}, ""),
        ({"eligible": ((0, 1), (2, 1))}, {}, "on node 1, which it may not have"),
        ({"memory_mb": 40}, {"memory_mb": 10}, ""),
        ({"memory_mb": 40}, {"memory_mb": 11}, "102 MiB"),
        ({"resources": (("gpu", 3),)}, {"resources": (("gpu", 1),)}, ""),
        ({"resources": (("gpu", 3),)}, {"resources": (("gpu", 2),)}, "5 gpu"),
        ({"licences": (("solver", 1),)}, {"licences": (("solver", 1),)}, ""),
        ({"licences": (("solver", 2),)}, {"licences": (("solver", 1),)}, "3 licences solver"),
    ],
)
def test_jobs_have_nodes_of_their_sets_and_no_more_than_there_is(
    first: Mapping[str, Any], second: Mapping[str, Any], wrong: str
) -> None:
    machine = [MACHINE[0]._replace(memory_mb=100, resources=(("gpu", 4),))]
    rules = {"calendar": SLICES, "licences": {"solver": 2}}
    with pytest.raises(AssertionError, match=wrong) if wrong else nullcontext():
        check_schedule(with_amounts(first, second), machine, table(COS), RESUME_US, **rules)  # type: ignore[arg-type]


def test_a_right_schedule_passes() -> None:
    check(JOBS, tolerance_us=0)
    check(JOBS[::-1], tolerance_us=0, calendar=None)
    check([], calendar=[])


@pytest.mark.parametrize(
    ("jobs", "error"),
    [
        ([moved(JOB_1, 1, end_us=75_010)], r"job 1: 34009\.09"),
        ([moved(JOB_1, 1, end_us=74_990)], r"job 1: 33990\.9"),
        ([moved(JOB_2, 1, end_us=64_006)], r"job 2: 22004\.0"),
        ([moved(JOB_2, 1, end_us=63_994)], r"job 2: 21996\.0"),
        ([moved(JOB_3, 0, end_us=49_990)], r"job 3: 24991\.6"),
        ([moved(JOB_1, 0, end_us=19_000)], r"off its nodes at 19000 us, in a slice for medium jobs"),
        ([moved(JOB_1, 1, start_us=51_000)], r"off its nodes at 50000 us, in a slice for medium jobs"),
        ([moved(JOB_1, 1, start_us=49_000)], r"node 0 at 49000 us: jobs \[3, 1\]: a core held twice"),
        ([moved(JOB_3, 0, start_us=19_999)], r"a core held twice"),
        ([moved(JOB_1, 1, runs=((0, 1, FRONT, 2), (2, 1, FRONT, 2)))], r"job 1 at 50000 us: resumes elsewhere"),
        ([moved(JOB_1, 1, runs=((0, 2, BACK, 2),))], r"job 1 at 50000 us: resumes elsewhere"),
        ([moved(JOB_1, 1, resumed=False)], r"job 1 at 50000 us: starts again"),
        ([moved(JOB_1, 0, resumed=True)], r"job 1 at 0 us: resumes before it started"),
        ([moved(JOB_1, 1, start_us=10_000)], r"job 1 at 10000 us: starts before 20000 us"),
        ([moved(JOB_3, 0, end_us=20_000)], r"job 3 at 20000 us: a stay that ends at 20000 us"),
        ([respecified(JOB_1, submit_us=1)], r"job 1 at 0 us: starts before 1 us"),
        ([respecified(JOB_1, processes=5)], r"4 processes placed, of 5"),
        ([respecified(JOB_1, threads_per_process=2)], r"2 processes on threads 0b101 of node 0"),
        ([respecified(JOB_2, estimate_us=LONG_US)], r"node 0 at 0 us: jobs \[1, 2\]: of different classes"),
        ([JOB_1._replace(end_us=None)], r"job 1: never ended"),
        ([JOB_1._replace(end_us=75_001)], r"job 1: completed at 75001 us, on nodes until 75000 us"),
        ([JOB_1._replace(end_us=74_999)], r"job 1: ended at 74999 us, on nodes until 75000 us"),
        ([JOB_1._replace(state="TIMEOUT")], r"job 1: TIMEOUT, not COMPLETED"),
        ([JOB_1._replace(intervals=())], r"job 1: completed without a stay"),
        ([JOB_1, JOB_1], r"job 1: two records"),
        (
            [record(3, 30_000, [(20_000, 50_000)], runs_on((0, 1, 0b11, 2)))],
            r"2 processes on 1 CPUs of node 0, which has 2",
        ),
        ([record(3, 30_000, [(20_000, 50_000)], runs_on((3, 1, FRONT, 2)))], r"node 3 of 3"),
        ([record(3, 30_000, [(20_000, 50_000)], runs_on((0, 1, 0b10000, 1)))], r"thread mask 0b10000 of 4 threads"),
        ([record(3, 30_000, [(20_000, 50_000)], runs_on((0, 1, 0, 1)))], r"thread mask 0b0 of 4 threads"),
        (
            [record(3, 30_000, [(20_000, 50_000)], runs_on((2, 1, 1, 1), (0, 1, 1, 0)))],
            r"0 processes on threads 0b1 of node 0",
        ),
        ([record(3, 30_000, [(20_000, 50_000)], runs_on((0, 1, 1, 1), (0, 1, 2, 1)))], r"node 0 twice"),
    ],
)
def test_a_wrong_schedule_is_refused(jobs: list[JobRecord], error: str) -> None:
    changed = {job.job.spec.id for job in jobs}
    with pytest.raises(AssertionError, match=error):
        check([*jobs, *(job for job in JOBS if job.job.spec.id not in changed)])


def test_jobs_run_in_their_slices_and_may_run_in_others() -> None:
    # Beside its own slices a job may run in others, and a job that has not started may wait.
    late = record(4, 10_000, [(60_000, 70_000)], runs_on((2, 1, ALL, 4)), None)
    backfilled = record(5, 39_000, [(0, 35_000), (50_000, 55_000)], runs_on((2, 1, ALL, 4)), None)
    check([*JOBS, late, backfilled])
    with pytest.raises(AssertionError, match="job 5: off its nodes at 35000 us, in a slice for long jobs"):
        check([*JOBS, late, respecified(backfilled, estimate_us=LONG_US)])
    # Before the first slice in which it matters, too.
    with pytest.raises(AssertionError, match="job 1: off its nodes at 30000 us"):
        check(JOBS, calendar=[(30_000, 31_000, "medium"), (60_000, 70_000, "medium")])
    check(JOBS, calendar=[(50_000, 60_000, "medium"), (90_000, 95_000, "medium")])
    with pytest.raises(AssertionError, match="slices out of order at 10 us"):
        check(JOBS, calendar=[(0, 11, "medium"), (10, 20, "long")])
