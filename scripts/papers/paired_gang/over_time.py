"""The number of jobs in the system over time: where it drifts, when it is 0, and what is left when the last job has come."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from scripts.papers.paired_gang.quanta import FloatArray, IntArray

from cosched_emulator.statistics.saturation import saturation

POINTS: Final = 240  # of the curve that is kept
HOUR_S: Final = 3_600.0
PARTS: Final = 3  # of the time between first and last submission


def figures_over_time(submit_s: FloatArray, end_s: FloatArray, work: FloatArray, cycle_s: float) -> dict[str, Any]:
    """Return the figures of a run whose jobs have all ended, in order of submission.

    ``work`` is processors x run time, for the test for saturation: there, the queue is all jobs that have not ended. ``cycle_s``
    is the length of the load's day.
    """
    times, counts = in_system(submit_s, end_s)
    first, last, end = float(submit_s[0]), float(submit_s[-1]), float(end_s.max())
    edges = np.linspace(first, last, PARTS + 1)
    idle = times[(counts == 0) & (times < last)]
    found = saturation(submit_s, end_s, end_s, work, cycle_s)
    samples = np.linspace(first, end, POINTS)
    curve = np.concatenate([[0], counts])[np.searchsorted(times, samples, side="right")]
    return {
        "jobs_mean": mean_between(times, counts, first, last),
        "jobs_max": int(counts.max()),
        **{
            f"jobs_third_{part + 1}": mean_between(times, counts, edges[part], edges[part + 1]) for part in range(PARTS)
        },
        **{
            f"idle_third_{part + 1}": int(((idle >= edges[part]) & (idle < edges[part + 1])).sum())
            for part in range(PARTS)
        },
        "idle_later": int((idle >= edges[1]).sum()),
        "jobs_at_last": int(counts[np.searchsorted(times, last, side="right") - 1]),
        "drain_h": (end - last) / HOUR_S,
        "run_h": (end - first) / HOUR_S,
        "drifts": found.saturated.value,
        "system_first_half": found.first_half,
        "system_second_half": found.second_half,
        "drift_per_h": found.growth.mean if math.isfinite(found.growth.mean) else None,
        "jobs_curve_h": [round((time - first) / HOUR_S, 4) for time in samples.tolist()],
        "jobs_curve": curve.tolist(),
    }


def in_system(submit_s: FloatArray, end_s: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the instants at which the number of jobs in the system changes, and the number from each of them on."""
    times, places = np.unique(np.concatenate([submit_s, end_s]), return_inverse=True)
    steps = np.concatenate([np.ones(len(submit_s), dtype=np.int64), -np.ones(len(end_s), dtype=np.int64)])
    change = np.zeros(len(times), dtype=np.int64)
    np.add.at(change, places, steps)
    return times, np.cumsum(change)


def mean_between(times: FloatArray, counts: IntArray, begin: float, end: float) -> float | None:
    """Return the mean number of jobs over a span of time; None where it is empty."""
    if end <= begin:
        return None
    edges = np.clip(np.concatenate([times, [max(end, float(times[-1]))]]), begin, end)
    return float(np.diff(edges) @ counts / (end - begin))
