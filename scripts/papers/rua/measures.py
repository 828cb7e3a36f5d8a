"""Figures of a run of the RUA reproduction beside its summary: which killed jobs sharing has not killed."""

from __future__ import annotations

import numpy as np

from cosched_emulator import Run
from cosched_plugin.protocol.messages import TIMEOUT


def figures(run: Run) -> dict[str, int]:
    """Return the number of killed jobs that had run to or past their estimate in the log: any delay kills them."""
    jobs = run.jobs
    counted = run.prepared.selection.mask(len(jobs))
    killed = counted & (jobs.state == TIMEOUT)
    beyond = killed & (jobs.run_s >= jobs.estimate_s)
    return {"killed_beyond": int(np.count_nonzero(beyond)), "killed_within": int(np.count_nonzero(killed & ~beyond))}
