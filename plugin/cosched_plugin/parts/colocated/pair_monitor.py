"""Reactions to partners that have ended and to measured slowdowns of pairs (LOMARC paper, section 5.1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cosched_hwmodel.units import WHOLE_PPM
from cosched_plugin.common.allocation import share_nodes
from cosched_plugin.core.running import Running
from cosched_plugin.core.views.view import View
from cosched_plugin.parts.colocated.expected_ends import delete_stale_notes, expect_end, running_with_note
from cosched_plugin.parts.colocated.pairs import NOTE, Pace, Work, pace_of, paces, spans_together
from cosched_plugin.protocol.messages import (
    Action,
    NoteValue,
    ResumeJob,
    SetNote,
    SuspendJob,
)


class PairMonitor:
    """Revises jobs whose partner has ended; separates a pair whose measured slowdown is above ``max_slowdown``."""

    __slots__ = ("_max_slowdown", "_settled", "_settled_at")

    def __init__(self, max_slowdown: float) -> None:
        self._max_slowdown = max_slowdown
        # Caches: jobs that need nothing as long as the job, its partner and its note stay the same; and the version of the view
        # at which that was true of all jobs.
        self._settled: dict[int, tuple[Running, Running, NoteValue]] = {}
        self._settled_at = -1

    def keep_up(self, view: View) -> Iterator[Action]:
        """Yield the decisions that bring expected ends and notes of pairs up to date."""
        yield from delete_stale_notes(view, NOTE)
        if self._settled_at == view.version:
            return
        settled = True
        jobs = view.running
        if len(self._settled) > 2 * len(jobs):
            self._settled = {job_id: known for job_id, known in self._settled.items() if job_id in jobs}
        for job_id in running_with_note(NOTE, view):
            known = self._settled.get(job_id)
            if known is not None and known[0] is jobs[job_id] and known[2] is view.note(job_id, NOTE):
                partner = known[1]
                if jobs.get(partner.job.id) is partner:
                    continue
            for action in self._of_one(job_id, view):
                settled = False
                yield action
        self._settled_at = view.version if settled else -1

    def _of_one(self, job_id: int, view: View) -> Iterable[Action]:
        pace = pace_of(job_id, view)
        if pace is None:
            return ()
        running = view.running[job_id]
        partner = view.running.get(pace.partner)
        if partner is None or not share_nodes(running.layers, partner.layers):
            return _end_pair(running, pace, view)
        if (running.measured_ppm or partner.measured_ppm) and running.suspended_us is partner.suspended_us is None:
            measured = max(running.measured_ppm, partner.measured_ppm) / WHOLE_PPM
            if measured > self._max_slowdown:
                return _stop_one(running, partner, measured, view)
            if abs(measured - pace.slowdown) > 1 / WHOLE_PPM:
                return _revise_pace(running, partner, measured, view)
        self._settled[job_id] = (running, partner, view.note(job_id, NOTE))
        return ()


def _end_pair(running: Running, pace: Pace, view: View) -> Iterator[Action]:
    job_id = running.job.id
    end_us = view.now_us + pace.left_after(view.progress_us(running), pace.slowdown)
    stopped = running.suspended_us is not None
    if stopped and not running.on_disk:
        yield ResumeJob(job_id)
    yield from expect_end(
        job_id, end_us, view, lost_us=0 if stopped else None
    )  # the limit of a suspended job stood still
    yield SetNote(job_id, NOTE, None)


def _revise_pace(one: Running, other: Running, measured: float, view: View) -> Iterator[Action]:
    """Replace the believed slowdown of a pair by the measured one, for the past and the future."""
    now_us = view.now_us
    left = [_work_left(running, measured, view) for running in (one, other)]
    spans_us = spans_together(left[0].left_us, left[1].left_us, measured)
    for running, span_us, pace in zip((one, other), spans_us, paces(left[0], left[1], measured), strict=True):
        yield from expect_end(running.job.id, now_us + span_us, view)
        yield pace


def _work_left(running: Running, measured: float, view: View) -> Work:
    """Return the work left of one job of a pair, by the slowdown measured since the note was written."""
    pace = pace_of(running.job.id, view)
    progress_us = view.progress_us(running)
    return Work(running.job.id, 1 if pace is None else pace.left_after(progress_us, measured), progress_us)


def _stop_one(one: Running, other: Running, measured: float, view: View) -> Iterator[Action]:
    """Suspend the later job of a pair until its partner ends."""
    stays, stops = sorted((one, other), key=lambda running: (running.start_us, running.job.id))
    now_us = view.now_us
    goes_on, waits = _work_left(stays, measured, view), _work_left(stops, measured, view)
    view.explain(stops.job.id, partner=stays.job.id, measured_slowdown=measured)
    yield SuspendJob(stops.job.id)
    yield from expect_end(stays.job.id, now_us + goes_on.left_us, view)
    lost_us = now_us + waits.left_us - stops.end_us  # up to now; its limit stands still with it
    yield from expect_end(stops.job.id, now_us + goes_on.left_us + waits.left_us, view, lost_us=lost_us)
    yield from paces(goes_on, waits, 1.0)
