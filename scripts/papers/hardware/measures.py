"""Figures of a run on measured co-runs: who is slower than compact, and how short the makespan could be at best."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from scripts.papers.hardware.bound import area_s, least_makespan_s, totals
from scripts.papers.hardware.published import MOST_SLOWER

from cosched_emulator import Run
from cosched_hwmodel.measured.co_run_table import read_table

NOISE: Final = 1e-5  # of a ratio: times are whole microseconds


def figures(run: Run) -> dict[str, Any]:
    """Return ratios of run times to compact ones over all jobs, the shares of slower jobs, and bounds of the makespan in seconds."""
    ratios = []
    jobs = []
    for record in run.records:
        job = record.job
        jobs.append((job.spec.name, job.spec.processes, job.run_us / 1e6))
        if record.end_us is not None and record.last_stays:
            ratios.append((record.end_us - record.last_stays[0].start_us) / job.run_us)
    found = np.array(ratios)
    node = run.machine[0]
    cores = node.sockets * node.cores_per_socket * node.threads_per_core
    applications = totals(jobs)
    table = read_table(run.prepared.scenario.truth.pairs or "")
    return {
        "ratio_mean": float(found.mean()),
        "ratio_most": float(found.max()),
        "slower": float((found > 1.0 + NOISE).mean()),
        "slower_by_5": float((found > 1.0 + MOST_SLOWER + NOISE).mean()),
        "area_s": area_s(applications, node.nodes, cores),
        "bound_s": least_makespan_s(applications, table, node.nodes, cores),
    }
