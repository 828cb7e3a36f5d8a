"""Figures of a run that a study does not have: waits and responses by job and user, and which programs shared nodes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from cosched_emulator.api.simulate import Run
from cosched_emulator.workload.jobs_in_columns import columns_of

USERS, NEIGHBOURS, HOURS = "user_responses", "neighbours", "neighbour_hours"
_MOST: Final = 60  # pairs that are kept of a run
WAITS, RESPONSES = "job_waits", "job_responses"
OF_JOBS: Final = f"{__name__}:of_jobs"
MEASURES: Final = (OF_JOBS, f"{__name__}:of_users", f"{__name__}:of_neighbours")


def of_jobs(run: Run) -> dict[str, Any]:
    """Return the wait and the response of each job that counts, in order of submission; in seconds, None where there is none."""
    jobs = run.jobs
    rows = run.prepared.selection.mask(len(jobs.id))
    found = {WAITS: jobs.wait_s[rows], RESPONSES: jobs.response_s[rows]}
    return {
        name: [None if math.isnan(value) else round(value, 3) for value in values.tolist()]
        for name, values in found.items()
    }


def of_users(run: Run) -> dict[str, Any]:
    """Return for each user the number of jobs that count and ended, and the sum of their responses in seconds."""
    jobs = run.jobs
    rows = run.prepared.selection.mask(len(jobs.id)) & np.isfinite(jobs.response_s)
    users, places = np.unique(jobs.user[rows], return_inverse=True)
    counts = np.bincount(places, minlength=len(users))
    sums = np.bincount(places, weights=jobs.response_s[rows], minlength=len(users))
    found = zip(users.tolist(), counts.tolist(), sums.tolist(), strict=True)
    return {USERS: {user: [count, round(total, 3)] for user, count, total in found if user}}


def of_neighbours(run: Run) -> dict[str, Any]:
    """Return the pairs of programs that shared nodes longest, in node hours, and the hours of all pairs.

    A program is a job's name, or its user where the log has no names. Pairs are told as ``ONE|OTHER``, in order.
    """
    jobs = columns_of(run.prepared.workload.jobs)
    named = zip(jobs.each(jobs.name), jobs.each(jobs.user), strict=True)
    programs = [name or (f"user {user}" if user else "") for name, user in named]
    found: dict[str, float] = {}
    for one, other, node_s in _overlaps(run):
        names = sorted((programs[one - 1], programs[other - 1]))
        if all(names):
            pair = "|".join(names)
            found[pair] = found.get(pair, 0.0) + node_s / 3600
    most = sorted(found.items(), key=lambda item: -item[1])[:_MOST]
    return {NEIGHBOURS: {pair: round(hours, 3) for pair, hours in most}, HOURS: round(sum(found.values()), 3)}


def _overlaps(run: Run) -> Iterator[tuple[int, int, float]]:
    """Yield two jobs and the time for which they held a node together, in node seconds; a pair may come several times."""
    stays = run.allocations
    order = np.argsort(stays.start_s, kind="stable")
    job, start, end = stays.job[order], stays.start_s[order], stays.end_s[order]
    first, last = stays.first_node[order], (stays.first_node + stays.node_count)[order]
    active = np.empty(0, dtype=np.int64)
    for row in range(len(order)):
        active = active[end[active] > start[row]]
        nodes = np.minimum(last[active], last[row]) - np.maximum(first[active], first[row])
        for other, count in zip(active[nodes > 0].tolist(), nodes[nodes > 0].tolist(), strict=True):
            if job[other] != job[row]:
                yield int(job[row]), int(job[other]), count * float(min(end[other], end[row]) - start[row])
        active = np.append(active, row)
