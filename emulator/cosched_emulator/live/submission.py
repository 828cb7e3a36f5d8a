"""A submission: the check whether it is acceptable, and its jobs."""

from __future__ import annotations

from typing import Final, NamedTuple

from cosched_emulator.manager.manager import Manager
from cosched_emulator.users.requests import MOST_TASKS, Refused, SubmitJob
from cosched_emulator.workload.job import WorkloadJob
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.common.allocation import Machine
from cosched_plugin.protocol.limits import MAX_SPAN_US, MAX_THREADS
from cosched_plugin.protocol.messages import JobSpec

LONGEST_YEARS: Final = 10
LONGEST_US: Final = LONGEST_YEARS * 366 * 86_400 * SECOND_US  # of a run time, an estimate, a limit or a delay
LARGEST_MBS: Final = 10**9
LARGEST_MB: Final = 10**9
LARGEST_PPM: Final = 10**9
LONGEST_NAME: Final = 128  # bytes
MOST_AFTER: Final = 1_000

assert LONGEST_US < MAX_SPAN_US


class Submission(NamedTuple):
    """A user's request for a job or an array, and its time."""

    request: SubmitJob
    user: str
    now_us: int
    memory_mb: int  # of a process

    def job(self, job_id: int) -> WorkloadJob:
        """Return the job, or one task of the array, with the given id."""
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
            self.memory_mb,
            wish.exclusive,
            wish.demand,
            wish.usage,
            wish.self_slowdown,
            wish.unpaired,
        )
        run_us = wish.estimate_us if wish.run_us is None else wish.run_us
        return WorkloadJob(
            spec, run_us, wish.demand, job_id, wish.usage, wish.self_slowdown, wish.requeue, wish.exit_code
        )


def submission_of(request: SubmitJob, user: str, now_us: int, machine: Machine) -> Submission:
    """Return a submission with the memory of its processes on this machine."""
    memory_mb = _share_of_memory_mb(request, machine) if request.all_memory else request.memory_mb
    return Submission(request, user, now_us, memory_mb)


def _share_of_memory_mb(request: SubmitJob, machine: Machine) -> int:
    """Return the memory of each process if the processes on a node share all its memory.

    Among the kinds of nodes with enough threads, the one with the least memory counts, as for Slurm's ``--mem=0``.
    """
    processes = _processes_on_a_node(request)
    threads = processes * request.threads_per_process
    return min([kind.memory_mb for kind in machine.classes if kind.threads >= threads], default=0) // processes


def _processes_on_a_node(request: SubmitJob) -> int:
    return min(request.processes, request.ppn_max or request.processes)


def refusal_of(submission: Submission, manager: Manager, *, replayed: bool = False) -> Refused | None:
    """Return why a submission is refused: a number beyond the limits, or a job that cannot run on the empty machine; None: accepted.

    What the job's processes do is not looked at if it is ``replayed``: earlier versions accepted programs that cannot run.
    """
    wish = submission.request
    for path, value, most in (
        ("estimate_us", wish.estimate_us, LONGEST_US),
        ("limit_us", wish.limit_us or 0, LONGEST_US),
        ("run_us", wish.run_us or 0, LONGEST_US),
        ("delay_us", wish.delay_us, LONGEST_US),
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
            return Refused("value", _too_much(path, value, most), path)
    if wish.ppn_max and wish.ppn_min > wish.ppn_max:
        text = (
            f"expected at most {wish.ppn_max} processes on a node, the largest number, got {wish.ppn_min} as the least"
        )
        return Refused("value", text, "ppn_min")
    if wish.all_memory and wish.processes > 1 and wish.ppn_min != wish.ppn_max:
        return Refused("value", "all memory of a node: expected a fixed number of processes on a node", "all_memory")
    if len(set(wish.tasks)) != len(wish.tasks):
        return Refused("value", "expected different tasks; one occurs twice", "tasks")
    job = submission.job(0)
    reason = manager.refusal_of(job.spec)
    if reason is None and manager.processes is not None and not replayed:
        reason = manager.processes.refusal(job)
    return None if reason is None else Refused("value", reason, "processes")


def _too_much(path: str, value: int, most: int) -> str:
    """Return the error text for a number that is too large, in the units of users."""
    if path.endswith("_us"):
        return f"expected at most {LONGEST_YEARS} years, got {value / SECOND_US:.0f} s"
    unit = {"name": " bytes", "tasks": " tasks", "after": " dependencies", "memory_mb": " MiB a process"}.get(path, "")
    return f"expected at most {most}{unit}, got {value}"
