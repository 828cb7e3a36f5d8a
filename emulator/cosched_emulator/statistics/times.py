"""When jobs were submitted and left the queue, checked once for everything that looks at a run over time.

Times are seconds, in order of submission. NaN in ``start_s`` is a job that never started, NaN in ``end_s`` one that never ended; a job
leaves the queue when it starts, or when it ends without a start (cancelled, rejected), or not at all within the run.
"""

from __future__ import annotations

import numpy as np

from cosched_emulator.statistics.arrays import FloatArray


def left_queue(submit_s: FloatArray, start_s: FloatArray, end_s: FloatArray) -> FloatArray:
    """Return when each job left the queue, infinity where it did not.

    Raises ValueError for columns of different lengths or without jobs, submissions that are not finite or not in order, and a job that
    left before it came.
    """
    if not submit_s.shape == start_s.shape == end_s.shape or submit_s.ndim != 1 or submit_s.size == 0:
        raise ValueError("submissions, starts and ends are columns of the same length, of one job at least")
    if not np.isfinite(submit_s).all() or (np.diff(submit_s) < 0).any():
        raise ValueError("submissions are finite and in order of time")
    left_s = np.where(np.isnan(start_s), end_s, start_s)
    left_s = np.where(np.isnan(left_s), np.inf, left_s)
    if (left_s < submit_s).any():
        raise ValueError("a job starts and ends after its submission")
    return np.asarray(left_s, dtype=np.float64)
