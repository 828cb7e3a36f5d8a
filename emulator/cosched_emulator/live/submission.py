"""A submission: whether it can be taken, and the jobs that it makes."""

from __future__ import annotations

from typing import Final, NamedTuple

from cosched_emulator.manager.manager import Manager
from cosched_emulator.users.requests import MOST_TASKS, Refused, SubmitJob
from cosched_emulator.workload.job import WorkloadJob
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.protocol.limits import MAX_SPAN_US, MAX_THREADS
from cosched_plugin.protocol.messages import JobSpec

LONGEST_US: Final = 10 * 366 * 86_400 * SECOND_US  # of a run time, an estimate or a limit
LARGEST_MBS: Final = 10**9
LARGEST_MB: Final = 10**9
LARGEST_PPM: Final = 10**9
LONGEST_NAME: Final = 128  # bytes
MOST_AFTER: Final = 1_000

assert LONGEST_US < MAX_SPAN_US


class Submission(NamedTuple):
    """What a user submits, and when."""

    request: SubmitJob
    user: str
    now_us: int

    def job(self, job_id: int) -> WorkloadJob:
        """Return the job, or one task of the array, under that number."""
        wish = self.request
        spec = JobSpec(
            job_id,
            self.now_us,
            wish.processes,
            wish.estimate_us,
            wish.limit_us,
            self.user,
            wish.name,
            wish.ppn_min,
            wish.ppn_max,
            wish.threads_per_process,
            wish.memory_mb,
            wish.exclusive,
            wish.demand,
            wish.usage,
            wish.self_slowdown,
        )
        run_us = wish.estimate_us if wish.run_us is None else wish.run_us
        return WorkloadJob(
            spec, run_us, wish.demand, job_id, wish.usage, wish.self_slowdown, wish.requeue, wish.exit_code
        )


def refusal_of(submission: Submission, manager: Manager) -> Refused | None:
    """Return why a submission cannot be taken, None if it can: numbers beyond reason, or a job that the empty machine does not hold."""
    wish = submission.request
    for path, value, most in (
        ("estimate_us", wish.estimate_us, LONGEST_US),
        ("limit_us", wish.limit_us or 0, LONGEST_US),
        ("run_us", wish.run_us or 0, LONGEST_US),
        ("memory_mb", wish.memory_mb, LARGEST_MB),
        ("ppn_min", wish.ppn_min, MAX_THREADS),
        ("ppn_max", wish.ppn_max, MAX_THREADS),
        ("threads_per_process", wish.threads_per_process, MAX_THREADS),
        ("demand", max(wish.demand or (0,)), LARGEST_MBS),
        ("self_slowdown", max(wish.self_slowdown or (0,)), LARGEST_PPM),
        ("name", len(wish.name.encode()), LONGEST_NAME),
        ("tasks", len(wish.tasks), MOST_TASKS),
        ("after", len(wish.after), MOST_AFTER),
        ("at_once", wish.at_once, MOST_TASKS),
    ):
        if value > most:
            what = {"name": "bytes", "tasks": "tasks", "after": "dependencies"}.get(path, "")
            return Refused("value", f"expected at most {most} {what}".rstrip() + f", got {value}", path)
    if wish.ppn_max and wish.ppn_min > wish.ppn_max:
        return Refused("value", f"expected at most ppn_max, {wish.ppn_max}, got {wish.ppn_min}", "ppn_min")
    if len(set(wish.tasks)) != len(wish.tasks):
        return Refused("value", "a task occurs twice", "tasks")
    reason = manager.refusal_of(submission.job(0).spec)
    return None if reason is None else Refused("value", reason, "processes")
