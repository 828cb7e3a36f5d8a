"""Figures of a run beside its summary: how those fare who opted in, and the others, where a share of the users does.

They are told of every run, also of those in which nobody shares nodes: who it is, is drawn from users and seed alone.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from cosched_emulator import Run
from cosched_emulator.workload.beliefs import with_opted_in
from cosched_emulator.workload.jobs_in_columns import columns_of
from cosched_hwmodel.units import SECOND_US

SHARES: Final = {"half": 0.5, "quarter": 0.25}


def figures(run: Run) -> dict[str, Any]:
    """Return mean responses, in seconds, and times on nodes over those alone, by share of the users and group of jobs."""
    ended = run.finished.jobs
    response_s = (ended.end_us - ended.submit_us) / SECOND_US
    longer = ended.held_us / ended.run_us
    found = {"longer": float(longer.mean())}
    for name, share in SHARES.items():
        jobs = columns_of(with_opted_in(run.prepared.workload, share, run.prepared.scenario.seed).jobs)
        out = np.fromiter(jobs.each(jobs.unpaired), dtype=np.bool_, count=len(jobs))
        for group, rows in ((f"{name}_in", ~out), (f"{name}_others", out)):
            if rows.any():
                found[f"{group}_response_s"] = float(response_s[rows].mean())
                found[f"{group}_longer"] = float(longer[rows].mean())
    return found
