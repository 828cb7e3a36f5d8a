"""A user's request for a job, from fields of the job and of the request."""

from __future__ import annotations

from typing import Any

from cosched_emulator.users.requests import SubmitJob
from cosched_plugin.protocol.messages import JobSpec


def submit_job(
    processes: int,
    estimate_us: int,
    limit_us: int | None = None,
    run_us: int | None = None,
    name: str = "",
    **more: Any,
) -> SubmitJob:
    """Return a request; ``more`` are further fields of either."""
    job = {key: more.pop(key) for key in JobSpec._fields if key in more}
    return SubmitJob(JobSpec(0, 0, processes, estimate_us, limit_us, "", name, **job), run_us, **more)
