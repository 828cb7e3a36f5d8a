"""Expected ends that change when co-located jobs come or go, and the notes that hold what is believed of such jobs."""

from __future__ import annotations

from collections.abc import Iterator

from cosched_plugin.core.views.view import View
from cosched_plugin.protocol.messages import Action, ReviseJob, SetNote


def delete_stale_notes(view: View, key: str) -> Iterator[Action]:
    """Delete the notes under ``key`` of pending jobs: they were requeued, and the notes are stale."""
    for job in view.pending_with_note(key):
        yield SetNote(job.id, key, None)


def running_with_note(key: str, view: View) -> list[int]:
    """Return the running jobs that have a note under ``key``, by id."""
    noted = view.with_note(key)
    if not noted:
        return []
    running = view.running
    return sorted([job_id for job_id in noted if job_id is not None and job_id in running])


def expect_end(job_id: int, end_us: int, view: View, lost_us: int | None = None) -> Iterator[Action]:
    """Yield a job's new expected end; its limit grows by ``lost_us``, the cost of co-location (None: by as much as the end moves)."""
    running = view.running[job_id]
    if running.end_us != end_us:
        limit_us = running.limit_us
        if limit_us is not None:
            limit_us += max(0, end_us - running.end_us if lost_us is None else lost_us)
        yield ReviseJob(job_id, end_us - running.start_us, limit_us)
