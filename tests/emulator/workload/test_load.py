"""Workloads brought to an offered load: by gaps and by users, against numbers worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.workload.job import Workload, WorkloadJob
from cosched_emulator.workload.jobs_in_columns import columns_of
from cosched_emulator.workload.scaling import WEEK_US, offered_load, with_load
from cosched_emulator.workload.swf.swf_reader import read_swf
from cosched_plugin.protocol.messages import JobSpec

SECOND = 1_000_000
DAY = 86_400 * SECOND
HOUR = 3_600 * SECOND


def job(job_id: int, submit_us: int, size: int, run_s: int, user: int = -1) -> WorkloadJob:
    spec = JobSpec(job_id, submit_us, size, run_s * SECOND, None, "" if user < 0 else str(user))
    return WorkloadJob(spec, run_s * SECOND, None, 100 + job_id)


# Work 100 + 150 + 800 = 1050 processor seconds in 50 s: a load of 1050 / (8 x 50) = 2.625 on 8 cores.
SMALL = Workload((job(1, 0, 1, 100), job(2, 10 * SECOND, 3, 50), job(3, 50 * SECOND, 4, 200)), 8, "by hand")


def submissions(workload: Workload) -> list[int]:
    return [one.spec.submit_us for one in workload.jobs]


def test_the_load_by_hand() -> None:
    assert offered_load(columns_of(SMALL.jobs), 8) == 2.625
    assert offered_load(columns_of(SMALL.jobs), 4) == 5.25


def test_gaps_by_hand() -> None:
    found = with_load(SMALL, 1.3125, 8)
    assert submissions(found) == [0, 20 * SECOND, 100 * SECOND]
    assert offered_load(columns_of(found.jobs), 8) == 1.3125
    assert found.notes == ("offered load 1.3125 instead of 2.625: gaps multiplied by 2",)
    assert [(one.run_us, one.source_id, one.spec.processes) for one in found.jobs] == [
        (one.run_us, one.source_id, one.spec.processes) for one in SMALL.jobs
    ]
    assert submissions(with_load(SMALL, 5.25, 8)) == [0, 5 * SECOND, 25 * SECOND]
    assert submissions(with_load(SMALL, 2.625, 8)) == submissions(SMALL)
    assert submissions(with_load(SMALL, 2.0, 8)) == [0, 13_125_000, 65_625_000]


@pytest.mark.parametrize(
    ("jobs", "method", "message"),
    [
        ((), "gaps", "workload.load: expected jobs that are submitted one after the other, got none"),
        (SMALL.jobs[:1], "gaps", "workload.load: expected .*, got 1 at one instant"),
        (
            SMALL.jobs,
            "users",
            'workload.load_method: expected "gaps": the jobs are of no user that the log names, got "users"',
        ),
        ((job(1, 0, 1, 1, 7), job(2, 9, 1, 1, 7)), "users", "workload.load_method: .* one user that"),
        (SMALL.jobs, "gap", "workload.load_method: .*'gaps'"),
    ],
)
def test_what_cannot_be(jobs: tuple[WorkloadJob, ...], method: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{message}"):
        with_load(Workload(jobs, 8, "bad"), 0.5, 8, method)


def log_of_users(weeks: int = 4) -> Workload:
    """Return a log of users 1 to 8, of whom user u submits a job of u processors on day u - 1 of each week, at u o'clock."""
    jobs = [
        (week * WEEK_US + (user - 1) * DAY + user * HOUR - HOUR, user)
        for week in range(weeks)
        for user in range(1, 9)
        if user < 8 or week
    ]
    jobs.append((weeks * WEEK_US, 1))
    return Workload(
        tuple(job(index, time, user, 3_600, user) for index, (time, user) in enumerate(sorted(jobs), 1)), 16, "users"
    )


def work_of(workload: Workload) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in workload.jobs:
        found[one.user] = found.get(one.user, 0) + one.spec.processes
    return found


def test_fewer_users_are_a_subset_with_all_of_their_jobs() -> None:
    log = log_of_users()
    before = offered_load(columns_of(log.jobs), 16)
    whole = work_of(log)
    kept = set()
    for seed in range(1, 6):
        found = with_load(log, before / 2, 16, "users", seed)
        users = frozenset(work_of(found))
        kept.add(users)
        assert work_of(found) == {user: whole[user] for user in users}
        assert offered_load(columns_of(found.jobs), 16) == pytest.approx(before / 2, rel=1e-9)
        assert [one.id for one in found.jobs] == list(range(1, len(found.jobs) + 1))
        assert submissions(found) == sorted(submissions(found))
        assert submissions(found)[0] == 0
        assert found.jobs == with_load(log, before / 2, 16, "users", seed).jobs
        assert {one.source_id for one in found.jobs} <= {one.source_id for one in log.jobs}
    assert len(kept) > 2  # seeds draw other users


def test_more_copies_than_one() -> None:
    log = log_of_users()
    before = offered_load(columns_of(log.jobs), 16)
    found = with_load(log, 2.5 * before, 16, "users", 3)
    users = set(work_of(found))
    assert {str(user) for user in range(1, 9)} | {str(10 + user) for user in range(1, 9)} < users
    assert users <= {str(user + step) for user in range(1, 9) for step in (0, 10, 20)}
    assert offered_load(columns_of(found.jobs), 16) == pytest.approx(2.5 * before, rel=1e-9)
    whole = with_load(log, 4 * before, 16, "users")  # every week has every user four times
    times = [one.spec.submit_us // WEEK_US for one in whole.jobs if one.user[-1] == "3"]
    assert np.bincount(times).tolist() == [4, 4, 4, 4]
    with pytest.raises(ConfigurationError, match=r"^workload.load: expected at most .* the log has 4, got"):
        with_load(log, 4.1 * before, 16, "users")
    with pytest.raises(ConfigurationError, match="the log has 1, got"):
        with_load(log_of_users(1), 1.1 * offered_load(columns_of(log_of_users(1).jobs), 16), 16, "users")


def test_a_real_log(traces: Path) -> None:
    file = traces / "SDSC-SP2-1998-4.2-cln.swf.gz"
    if not file.exists():
        pytest.skip(f"no {file}")
    log = read_swf(file)
    jobs = columns_of(log.jobs)
    for load in (0.6, 1.0):
        for method in ("gaps", "users"):
            found = with_load(log, load, 128, method)
            assert offered_load(columns_of(found.jobs), 128) == pytest.approx(load, abs=1e-6)
    assert "instead of 0.824629: 428 of 428 users and" in found.notes[-1]
    # Hours of the day stay: in both, the same share of the jobs comes in the busiest half of the hours.
    factor = float(found.notes[-1].rsplit(" ", 1)[1])
    assert factor == pytest.approx(1, abs=0.03)
    hours = np.bincount(jobs.submit_us.array // HOUR % 24, minlength=24)
    busy = np.argsort(hours)[12:]
    many = np.bincount((columns_of(found.jobs).submit_us.array / factor / HOUR).astype(int) % 24, minlength=24)
    assert many[busy].sum() / many.sum() == pytest.approx(hours[busy].sum() / hours.sum(), abs=0.02)
