"""A workload changed: brought to an offered load by gaps or users, or its run times shaken."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.workload.job import NO_EPOCH, WARNING, Workload
from cosched_emulator.workload.jobs_in_columns import (
    Computed,
    Interned,
    Jobs,
    Numbers,
    columns_of,
    intern_values,
    round_up_all_us,
)
from cosched_hwmodel.draws import uniforms
from cosched_hwmodel.units import SECOND_US

# Run times shaken a little, to see how much of a result hangs on their exact values.
#
# After D. Tsafrir, K. Ouaknine and D. Feitelson, *Reducing performance evaluation sensitivity and variability by input shaking*
# (MASCOTS 2007).


def with_shaken_runs(workload: Workload, shake: float, shake_seed: int = 0, seed: int = 1) -> Workload:
    """Return the workload with every run time multiplied by 1 + U, U uniform in [-shake, shake), and nothing else changed.

    U is drawn by both seeds and the job's source id. An estimate that equals the run time still does, and so does the
    limit; any other job stays on its side of its estimate: one that ends within it is cut at it, one that is longer, and
    killed if it has a limit, stays longer.
    """
    jobs = columns_of(workload.jobs)
    run_us, estimate_us, source = jobs.run_us.array, jobs.estimate_us.array, jobs.source_id.array
    draws = uniforms(seed, "shake", np.full_like(source, shake_seed), source, _times_before(source))
    shaken_us = np.maximum(1, np.rint(run_us * (1 + shake * (2 * draws - 1))).astype(np.int64))
    shaken_us = np.where(run_us < estimate_us, np.minimum(shaken_us, estimate_us), shaken_us)
    shaken_us = np.where(run_us > estimate_us, np.maximum(shaken_us, estimate_us + 1), shaken_us)
    told = Numbers(np.where(run_us == estimate_us, shaken_us, estimate_us))
    limit_us = Computed(_limit_us, jobs.limit_us, jobs.estimate_us, told)
    jobs = jobs.having(run_us=Numbers(shaken_us), estimate_us=told, limit_us=limit_us)
    note = f"run times shaken by up to {100 * shake:g} %, seeds {seed} and {shake_seed}"
    return workload._replace(jobs=jobs, notes=(*workload.notes, note))


def _limit_us(before_us: int | None, estimate_us: int, told_us: int) -> int | None:
    return told_us if before_us == estimate_us else before_us


def _times_before(source: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for every job how many jobs before it have its source id: copies of a job are shaken each by itself."""
    order = np.argsort(source, kind="stable")
    ordered = source[order]
    place = np.arange(len(source))
    first = np.maximum.accumulate(np.where(np.diff(ordered, prepend=-1) != 0, place, 0))
    times = np.empty_like(place)
    times[order] = place - first
    return times


# Fewer or more users of a log: the users are the unit, and each keeps its jobs, its days of the week and its times of day.
#
# After N. Zakay and D. Feitelson, *Workload resampling for performance evaluation of parallel job schedulers* (ICPE 2013), who
# divide a log into the parts of its users and put them together anew.

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
        fewer = jobs.select(rows).having(id=_ids(len(rows)))
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
    return jobs.select(row).having(
        id=_ids(len(row)), submit_us=Numbers(time_us), user=_names(users, users.of_job[row], copy_of)
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


# A workload brought to an offered load: by its gaps, or by its users and for the rest by its gaps.

METHODS = ("gaps", "users")
_MUCH_SCALED = 0.05  # of the gaps, by the method that is to leave them alone


def with_load(workload: Workload, load: float, cores: int, method: str = "gaps", seed: int = 1) -> Workload:
    """Return the workload with an offered load of ``load`` on a machine of ``cores``; the jobs stay in order of submission.

    ``gaps``: all times of submission are multiplied by one factor. ``users``: users are left out, or added as copies
    (`resample_users`, drawn by ``seed``), and a small factor for the gaps closes what whole users leave. Times are rounded
    up to microseconds, so the load is exact to 1 us in the span of the submissions.

    Raises `ConfigurationError` for another method, jobs of one instant, and a load that no choice of users has.
    """
    if method not in METHODS:
        raise ConfigurationError.unknown_name("workload.load_method", method, METHODS)
    jobs = columns_of(workload.jobs)
    before = offered_load(jobs, cores)
    by, cut = "", workload.cut
    if method == "users":
        sample = resample_users(jobs, load / before, before, seed)
        by = f"{sample.kept} of {sample.users} users" + (f" and {sample.copies} copies" if sample.copies else "")
        by = f"{by}, seed {seed}: {len(sample.jobs)} jobs instead of {len(jobs)}, "
        jobs, cut = sample.jobs, sample.jobs.cut_runs()
    factor = offered_load(jobs, cores) / load
    if not math.isfinite(factor):
        raise ConfigurationError("workload.load", "a load of which gaps are the multiple of a number", f"{load:g}")
    text = f"offered load {load:g} instead of {before:.6g}: {by}gaps multiplied by {factor:.6g}"
    if method == "users" and abs(factor - 1) > _MUCH_SCALED:
        text = f"{WARNING}{text}, as the users are too few or too unequal"
    submit_us = jobs.submit_us.array
    jobs = jobs.having(submit_us=Numbers(round_up_all_us((submit_us - submit_us[0]) * factor)))
    notes, day_s = (*workload.notes, text), workload.day_s * factor
    return workload._replace(jobs=jobs, notes=notes, cut=cut, calendar=None, epoch=NO_EPOCH, day_s=day_s)


def offered_load(jobs: Jobs, cores: int) -> float:
    """Return run time x processes of all jobs over cores x time between the first and the last submission.

    That of `summary.json`. Raises `ConfigurationError` where no time is between them.
    """
    submit_us = jobs.submit_us.array
    span_us = int(np.ptp(submit_us)) if len(jobs) else 0
    if not span_us:
        found = f"{len(jobs)} at one instant" if len(jobs) else "none"
        raise ConfigurationError("workload.load", "jobs that are submitted one after the other", found)
    return jobs.work_us() / (cores * span_us)
