"""Whether a version of the interface that nobody has met does what the driver needs: tried with a held job of one's own.

The job cannot start: it is held, and may not begin before an hour has passed. It is cancelled in any case. Each step looks at what the
job is like afterwards, since a version may accept what it does not understand.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Final

from cosched_plugin.site.poll_loop import Silent
from cosched_plugin.slurm.actuator import WAIT_S, run_command
from cosched_plugin.slurm.dialect import Change
from cosched_plugin.slurm.records import SlurmJob
from cosched_plugin.slurm.rest import Rest

NAME: Final = "cosched-probe"


def submit(partition: str) -> int | str:
    """Submit the job; return its number, or why there is none."""
    wishes = ["-H", "--begin=now+1hour", "--exclusive", "-N1", "-n1", "-t1", "-o/dev/null", "--wrap", "true"]
    try:
        done = run_command("sbatch", "--parsable", "-J", NAME, "-p", partition, *wishes, folder="/")
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"sbatch: {error.strerror if isinstance(error, OSError) else f'no answer after {WAIT_S:g} s'}"
    number = done.stdout.partition(";")[0].strip()
    return int(number) if number.isascii() and number.isdigit() else f"sbatch: {done.stderr.strip()[:300]}"


def probe(rest: Rest, partition: str, node: str, submit: Callable[[str], int | str] = submit) -> str:
    """Return why a version cannot be enforced with; empty if it can. ``node`` is one of the partition."""
    number = submit(partition)
    if isinstance(number, str):
        return f"no trial job can be submitted: {number}"
    try:
        return _tried(rest, number, node)
    except Silent as error:
        return f"job {number}: {error}"
    finally:
        rest.cancel(str(number))


def _tried(rest: Rest, number: int, node: str) -> str:
    """Try the changes; return what goes wrong."""
    job = _look(rest, number)
    if job is None:
        return f"it does not show job {number}"
    said = {
        "that it is held": bool(job.held),
        "that it is exclusive": job.exclusive,
        "that it requests a node and a task": job.node_count == job.tasks == 1,
        "its limit": job.limit_min == 1,
        "that it requests nothing else": not job.wishes and not job.required,
    }
    for words, right in said.items():
        if not right:
            return f"of job {number} it does not show {words}"
    steps: tuple[tuple[str, Change, Callable[[SlurmJob], bool]], ...] = (
        (
            "a list of nodes and a limit",
            Change((node,), minutes=2),
            lambda job: (job.required, job.limit_min) == ((node,), 2),
        ),
        ("an empty list", Change(()), lambda job: not job.required),
        ("a placement", Change((node,), release=True), lambda job: job.required == (node,) and not job.held),
    )
    for words, change, is_right in steps:
        outcome = rest.change(str(number), change)
        if outcome is not None:
            return f"{words} for job {number} is not accepted: {outcome}"
        changed = _look(rest, number)
        if changed is None or not is_right(changed):
            return f"{words} for job {number} is accepted, and has no effect"
    return ""


def _look(rest: Rest, number: int) -> SlurmJob | None:
    return next((job for job in rest.look(number) if job.job_id == number), None)
