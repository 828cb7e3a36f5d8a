"""Figures of a run of the RUA reproduction beside its summary: which killed jobs sharing has not killed, and kills by week."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from cosched_emulator import Run
from cosched_plugin.protocol.messages import TIMEOUT

WEEK_S: Final = 7 * 24 * 3600


def figures(run: Run) -> Mapping[str, float]:
    """Return the number of killed jobs that had run to or past their estimate in the log: any delay kills them; and kills by week.

    A week begins with the first job that counts, and counts if it ends before the last one is submitted.
    """
    jobs = run.jobs
    counted = run.prepared.selection.mask(len(jobs))
    killed = counted & (jobs.state == TIMEOUT)
    beyond = killed & (jobs.run_s >= jobs.estimate_s)
    submitted_s = jobs.submit_s[counted]
    weeks = int((submitted_s.max() - submitted_s.min()) // WEEK_S)
    edges = submitted_s.min() + WEEK_S * np.arange(weeks + 1)
    by_week = np.histogram(jobs.end_s[killed], edges)[0] if weeks else np.zeros(1, dtype=np.int64)
    return {
        "killed_beyond": int(np.count_nonzero(beyond)),
        "killed_within": int(np.count_nonzero(killed & ~beyond)),
        "killed_week_mean": float(by_week.mean()),
        "killed_week_p95": float(np.percentile(by_week, 95)),
    }
