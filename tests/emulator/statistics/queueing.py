"""M/M/c queues, many at a time: what the tests on steady state and saturation look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cosched_emulator.statistics.intervals import FloatArray

HOUR_S = 3600.0


class Simulated(NamedTuple):
    """The jobs of one queue; a job takes an hour on average."""

    submit_s: FloatArray
    start_s: FloatArray
    end_s: FloatArray


def simulated(
    loads: Sequence[float], jobs: int, servers: int, generator: np.random.Generator, swing: float = 0.0
) -> list[Simulated]:
    """Return a first-come first-served queue for each load, which begins empty.

    With a ``swing`` the rate of arrivals is 1 + swing · sin over a day, times its mean.
    """
    shape = (jobs, len(loads))
    submit = np.cumsum(generator.exponential(size=shape), axis=0) / (np.array(loads) * servers)
    if swing:  # times by a clock that runs at the rate of arrivals
        hours = np.arange(0.0, submit.max() + 48, 0.1)
        submit = np.interp(submit, hours - swing * 12 / np.pi * (np.cos(hours * np.pi / 12) - 1), hours)
    run = generator.exponential(size=shape)
    start = np.empty(shape)
    free = np.zeros((len(loads), servers))
    rows = np.arange(len(loads))
    for job in range(jobs):
        first = free.argmin(axis=1)
        start[job] = np.maximum(submit[job], free[rows, first])
        free[rows, first] = start[job] + run[job]
    columns = [np.ascontiguousarray(each.T) * HOUR_S for each in (submit, start, start + run)]
    return [Simulated(*each) for each in zip(*columns, strict=True)]
