"""Figures that say what the means of a run are worth: saturation, the steady part, and means by area and class of jobs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from cosched_emulator.api.run import Run
from cosched_emulator.results.columns import JobColumns
from cosched_emulator.results.figures.metrics import quantity
from cosched_emulator.statistics.saturation import saturation
from cosched_emulator.statistics.steady import steady_part
from cosched_emulator.statistics.weighted import ALL, Means, means_by_class
from cosched_hwmodel.units import SECOND_US

STEADY: Final = ("wait_s", "response_s", "bounded_slowdown_10s")  # quantities of the steady part
OF_ALL: Final = ("weighted_wait_s", "weighted_response_s", "weighted_slowdown")
OF_CLASS: Final = ("jobs", "wait_s", "response_s", "slowdown", "weighted_response_s")


def state_figures(run: Run) -> dict[str, Any]:
    """Return the figures by column; what does not exist is None."""
    jobs = run.finished.jobs
    if not len(jobs):
        return {}
    return {**dict(_queue(jobs)), **dict(_steady(jobs)), **dict(_weighted(run, jobs))}


def _queue(jobs: JobColumns) -> Iterator[tuple[str, Any]]:
    """Yield whether the queue grows as long as jobs are submitted; its length is in threads · hours of work."""
    work = jobs.run_us * jobs.threads / (3600 * SECOND_US)
    found = saturation(*_times(jobs), work)
    yield "saturated", found.saturated.value
    yield "queue_growth_per_hour", _plain(found.growth.mean)
    yield "queue_first_half", _plain(found.first_half)
    yield "queue_second_half", _plain(found.second_half)


def _steady(jobs: JobColumns) -> Iterator[tuple[str, Any]]:
    """Yield the steady part, and means over its completed jobs."""
    part = steady_part(*_times(jobs))
    rows = part.mask() & jobs.started & jobs.ended & jobs.state.where("COMPLETED")
    yield "steady_warmup", part.warmup if part.found else None
    yield "steady_cooldown", part.cooldown if part.found else None
    yield "steady_jobs", int(np.count_nonzero(rows))
    for name in STEADY:
        values = quantity(jobs, name, rows)
        yield f"steady_{name}_mean", _plain(float(values.mean())) if values.size else None


def _weighted(run: Run, jobs: JobColumns) -> Iterator[tuple[str, Any]]:
    """Yield means weighted by area, and means by length and width of jobs, over the jobs that count."""
    counted = run.prepared.selection.mask(len(jobs))
    cores = sum(item.nodes * item.sockets * item.cores_per_socket for item in run.machine)
    submit_s, start_s, end_s = (times[counted] for times in _times(jobs))
    run_s, estimate_s = jobs.run_us[counted] / SECOND_US, jobs.estimate_us[counted] / SECOND_US
    classes = means_by_class(submit_s, start_s, end_s, run_s, jobs.threads[counted], estimate_s, cores)
    yield from _some("", OF_ALL, classes.pop(ALL))
    for name, means in classes.items():
        yield from _some(f"{name.replace(' ', '_')}_", OF_CLASS, means)


def _some(prefix: str, names: tuple[str, ...], means: Means) -> Iterator[tuple[str, Any]]:
    for name in names:
        yield f"{prefix}{name}", _plain(getattr(means, name))


def _times(jobs: JobColumns) -> tuple[Any, Any, Any]:
    """Return submission, start and end in seconds, in order of submission as the columns are; NaN where there is none."""
    start_s = np.where(jobs.started, jobs.start_us / SECOND_US, np.nan)
    end_s = np.where(jobs.ended, jobs.end_us / SECOND_US, np.nan)
    return jobs.submit_us / SECOND_US, start_s, end_s


def _plain(value: float | int) -> float | int | None:
    """Return a number rounded to six decimals as in the summary; None for what does not exist."""
    if isinstance(value, int):
        return value
    return round(value, 6) if math.isfinite(value) else None
