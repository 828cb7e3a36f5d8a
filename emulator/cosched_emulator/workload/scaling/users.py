"""Fewer or more users of a log: the users are the unit, and each keeps its jobs, its days of the week and its times of day.

After N. Zakay and D. Feitelson, *Workload resampling for performance evaluation of parallel job schedulers* (ICPE 2013), who
divide a log into the parts of its users and put them together anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.workload.columns import Interned, Jobs, Numbers, intern_values
from cosched_hwmodel.draws import uniforms
from cosched_hwmodel.units import SECOND_US

WEEK_US: Final = 7 * 86_400 * SECOND_US


class Sample(NamedTuple):
    """Jobs of some users, and how many these are."""

    jobs: Jobs
    users: int  # there were
    kept: int  # of these
    copies: int  # of users, added


class _Users(NamedTuple):
    """The users of some jobs. Those whose number is not known count as one."""

    of_job: NDArray[np.int64]  # row below
    number: NDArray[np.int64]  # -1: not known
    work: NDArray[np.float64]  # run time x processes of each


def resample_users(jobs: Jobs, ratio: float, before: float, seed: int) -> Sample:
    """Return jobs of users that together have ``ratio`` times the work, nearly; ``before`` is the load in messages.

    Below 1 some users are left out; from 1 on all stay, and copies of users are added: of all for each whole time, of
    some for the rest. Which ones: users in drawn order, each taken if that brings the work nearer. The jobs of a copy are
    those of its user later by a number of whole weeks, drawn for each, in the circle of the whole weeks between the first
    and the last submission. A copy has a user number of its own, and its jobs have the source ids of the user's.

    Raises `ConfigurationError` for jobs of fewer than two users, and more copies than there are weeks to shift them by.
    """
    users = _users_of(jobs)
    total = float(users.work.sum())
    whole = math.floor(ratio)
    order = _drawn_order(users.number, whole, seed)
    chosen = _nearest(order, users.work, (ratio - whole) * total)
    if not whole:
        chosen = chosen or [int(np.argmin(users.work))]
        rows = np.flatnonzero(np.isin(users.of_job, chosen))
        fewer = replace(jobs.select(rows), id=_ids(len(rows)))
        return Sample(fewer, len(users.number), len(chosen), 0)
    weeks = int(np.ptp(jobs.submit_us.array)) // WEEK_US
    if math.ceil(ratio) > max(1, weeks):
        expected = (
            f"at most {max(1, weeks) * before:.4g} by users: copies are shifted by weeks, and the log has {weeks}"
        )
        raise ConfigurationError("workload.load", expected, f"{ratio * before:.4g}")
    copied = [range(len(users.number))] * (whole - 1) + ([chosen] if chosen else [])
    return Sample(
        _with_copies(jobs, users, copied, weeks, seed), len(users.number), len(users.number), sum(map(len, copied))
    )


def _users_of(jobs: Jobs) -> _Users:
    names = jobs.user if isinstance(jobs.user, Interned) else intern_values(jobs.each(jobs.user))
    known = np.array([int(name) if name else -1 for name in names.distinct], dtype=np.int64)
    number, of_job = np.unique(known[names.places], return_inverse=True)
    if len(number) < 2:
        found = "no user" if number[0] < 0 else "one user"
        raise ConfigurationError(
            "workload.load_method", f'"gaps": the jobs are of {found} that the log names', '"users"'
        )
    work: NDArray[Any] = np.bincount(of_job, weights=jobs.run_us.array.astype(np.float64) * jobs.processes.array)
    return _Users(of_job, number, work)


def _drawn_order(number: NDArray[np.int64], turn: int, seed: int) -> list[int]:
    draws = uniforms(seed, "load users", number, np.full_like(number, turn))
    return np.lexsort((number, draws)).tolist()  # type: ignore[no-any-return]  # numpy says that it is Any


def _nearest(order: Iterable[int], work: NDArray[np.float64], target: float) -> list[int]:
    """Return the users, in this order, of which each brings the sum of work nearer to the target."""
    taken: list[int] = []
    left = target
    for user in order:
        if work[user] < 2 * left:
            taken.append(user)
            left -= float(work[user])
    return taken


def _with_copies(jobs: Jobs, users: _Users, copied: Sequence[Iterable[int]], weeks: int, seed: int) -> Jobs:
    """Return the jobs with those of the first, second, ... copies of some users, at one instant in this order."""
    submit_us = jobs.submit_us.array - jobs.submit_us.array[0]
    rows, times_us, copies = [np.arange(len(jobs))], [submit_us], [np.zeros(len(jobs), dtype=np.int64)]
    shifts_us = _shifts(users.number, weeks, seed) * WEEK_US
    for copy, chosen in enumerate(copied, 1):
        mine = np.flatnonzero(np.isin(users.of_job, list(chosen)))
        rows.append(mine)
        times_us.append((submit_us[mine] + shifts_us[users.of_job[mine], copy - 1]) % (weeks * WEEK_US))
        copies.append(np.full(len(mine), copy))
    row, time_us, copy_of = (np.concatenate(parts) for parts in (rows, times_us, copies))
    order = np.argsort(time_us, kind="stable")
    row, time_us, copy_of = row[order], time_us[order], copy_of[order]
    return replace(
        jobs.select(row), id=_ids(len(row)), submit_us=Numbers(time_us), user=_names(users, users.of_job[row], copy_of)
    )


def _shifts(number: NDArray[np.int64], weeks: int, seed: int) -> NDArray[np.int64]:
    """Return for every user the weeks by which its first, second, ... copies are later: each of 1 to weeks - 1 once."""
    user, week = np.meshgrid(number, np.arange(1, weeks), indexing="ij")
    shifts: NDArray[np.int64] = 1 + np.argsort(uniforms(seed, "load weeks", user, week), axis=1, kind="stable")
    return shifts


def _names(users: _Users, of_job: NDArray[np.int64], copy: NDArray[np.int64]) -> Interned[str]:
    """Return the jobs' users: copy 2 of user 37 of a log with numbers up to 679 is user 2037. Unknown ones stay so."""
    step = 10 ** len(str(users.number.max()))
    number = users.number[of_job]
    distinct, places = np.unique(np.where(number < 0, -1, number + copy * step), return_inverse=True)
    return Interned(places.astype(np.uint32), ["" if value < 0 else str(value) for value in distinct.tolist()])


def _ids(jobs: int) -> Numbers:
    return Numbers(range(1, jobs + 1))
