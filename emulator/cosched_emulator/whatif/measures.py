"""Figures of a run that a study does not have: waits and responses by job and user, and which programs shared nodes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from cosched_emulator.api.simulate import Run
from cosched_emulator.api.tables import FloatArray, IntArray
from cosched_emulator.workload.jobs_in_columns import columns_of

USERS, NEIGHBOURS, HOURS = "user_responses", "neighbours", "neighbour_hours"
_MOST: Final = 60  # pairs that are kept of a run
_AT_ONCE: Final = 64  # stays that are compared with those that last
_NONE: Final = np.empty(0, dtype=np.int64)
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
    names, program = np.unique([name or (f"user {user}" if user else "") for name, user in named], return_inverse=True)
    pairs: list[IntArray] = [_NONE]
    hours: list[FloatArray] = [_NONE / 3600]
    for one, other, node_s in _overlaps(run):
        both = np.sort([program[one - 1], program[other - 1]], axis=0)
        told = names[both[0]] != ""  # the least name of all
        pairs.append((both[0] * len(names) + both[1])[told])
        hours.append(node_s[told] / 3600)
    found, places = np.unique(np.concatenate(pairs), return_inverse=True)
    sums = np.bincount(places, np.concatenate(hours), minlength=len(found))
    most = np.argsort(-sums, kind="stable")[:_MOST].tolist()
    told_of = {
        f"{names[found[at] // len(names)]}|{names[found[at] % len(names)]}": round(float(sums[at]), 3) for at in most
    }
    return {NEIGHBOURS: told_of, HOURS: round(float(sums.sum()), 3)}


def _overlaps(run: Run) -> Iterator[tuple[IntArray, IntArray, FloatArray]]:
    """Yield pairs of jobs and the time for which they held a node together, in node seconds; a pair may come several times."""
    stays = run.allocations
    order = np.argsort(stays.start_s, kind="stable")
    job, start, end = stays.job[order], stays.start_s[order], stays.end_s[order]
    first, last = stays.first_node[order], (stays.first_node + stays.node_count)[order]
    active = _NONE
    for begin in range(0, len(order), _AT_ONCE):
        rows = np.arange(begin, min(begin + _AT_ONCE, len(order)))
        active = np.concatenate((active[end[active] > start[begin]], rows))
        there = active[:, None]
        nodes = np.minimum(last[there], last[rows]) - np.maximum(first[there], first[rows])
        met = (nodes > 0) & (there < rows) & (end[there] > start[rows]) & (job[there] != job[rows])
        ones, others = rows[met.nonzero()[1]], active[met.nonzero()[0]]
        yield job[ones], job[others], nodes[met] * (np.fmin(end[others], end[ones]) - start[ones])
