"""Intervals within a run, by moving blocks of jobs: what one run tells where there are no other seeds, as for a log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from cosched_emulator.results.harm.outcomes import Outcomes
from cosched_emulator.statistics.arrays import FloatArray
from cosched_emulator.statistics.bootstrap import block_bootstrap, block_percentile
from cosched_emulator.statistics.intervals import LEVEL, Interval
from cosched_hwmodel.units import SECOND_US


def _wait_s(jobs: Outcomes) -> FloatArray:
    return np.asarray((jobs.start_us - jobs.submit_us) / SECOND_US)


def _response_s(jobs: Outcomes) -> FloatArray:
    return np.asarray((jobs.end_us - jobs.submit_us) / SECOND_US)


QUANTITIES: Final[dict[str, Callable[[Outcomes], FloatArray]]] = {"wait_s": _wait_s, "response_s": _response_s}
PERCENTS: Final = {"median": 50.0, "p95": 95.0}


def within_run(jobs: Outcomes, figure: str, level: float = LEVEL) -> Interval | None:
    """Return a figure of completed jobs, such as ``wait_s_p95``, with its interval by moving blocks.

    None for a figure that is no mean or percentile of waits or responses, and without completed jobs. The resampling is the same every
    time.
    """
    name, _, statistic = figure.rpartition("_")
    if name not in QUANTITIES or statistic not in ("mean", *PERCENTS):
        return None
    rows = np.flatnonzero(jobs.completed & jobs.counted)
    rows = rows[np.lexsort((jobs.id[rows], jobs.submit_us[rows]))]
    if not rows.size:
        return None
    values = QUANTITIES[name](jobs)[rows]
    generator = np.random.default_rng(0)
    if statistic == "mean":
        return block_bootstrap(values, lambda samples: np.asarray(samples.mean(axis=-1)), generator, level)
    return block_percentile(values, PERCENTS[statistic], generator, level)
