"""What jobs waited, in hours and jobs: as the log records it, under the present policy, and under a candidate; by any group of jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosched_emulator.studies.study_result import Row
from cosched_emulator.whatif.measures import RESPONSES, WAITS
from cosched_emulator.whatif.question import Prepared
from cosched_emulator.whatif.warm import seconds_of
from cosched_emulator.workload.jobs_in_columns import columns_of
from cosched_emulator.workload.side_files.annotations import with_annotations
from cosched_hwmodel.units import SECOND_US

WEEK_S: Final = 7 * 86_400
_FEWEST: Final = 20  # jobs of a week that is drawn
MOST_GROUPS: Final = 15  # rows of a table
SIZES: Final = (1, 4, 16, 64)  # processors, at most
RUNS_S: Final = (60, 600, 3_600, 21_600)  # seconds, at most
FloatArray = NDArray[np.float64]


class Waits(NamedTuple):
    """The jobs that count, in all windows in which a candidate and the present policy ran; times in seconds, NaN: unknown."""

    rows: NDArray[np.int64]  # of the log
    weeks: float  # for which the windows last
    recorded_s: FloatArray
    present_s: FloatArray
    candidate_s: FloatArray
    longer_s: float  # by which all their runs are longer than under the present policy

    @property
    def fewer_hours(self) -> float:
        """Return by how many hours a week all jobs wait less."""
        return -float(np.nansum(self.candidate_s - self.present_s)) / 3600 / self.weeks

    @property
    def longer_hours(self) -> float:
        """Return by how many hours a week all jobs run longer, as they share nodes."""
        return self.longer_s / 3600 / self.weeks


def drift_of(prepared: Prepared, waits: Waits | None) -> float:
    """Return how many times as long the jobs of the windows wait there under the present policy as in the run of the whole log.

    It is about 1, unless jobs that share nodes today slow each other down in the windows: the log's run times have that already.
    """
    if waits is None or prepared.whole is None:
        return 1.0
    whole_s = prepared.whole.waits_s[waits.rows]
    known = np.isfinite(whole_s) & np.isfinite(waits.present_s)
    whole, present = float(whole_s[known].sum()), float(waits.present_s[known].sum())
    return present / whole if whole and present else 1.0


class Summary(NamedTuple):
    """Waits of some jobs, in minutes."""

    jobs: int
    mean: float
    median: float
    p95: float


class Group(NamedTuple):
    """Some jobs, and their mean waits in minutes; NaN: unknown."""

    name: str
    jobs: int
    recorded: float
    present: float
    candidate: float


def recorded_of(prepared: Prepared) -> FloatArray:
    """Return the wait that the log records of each job, in seconds; NaN where it says none."""
    jobs = columns_of(prepared.log.jobs)
    waited_us = np.fromiter(jobs.each(jobs.waited_us), dtype=np.float64, count=len(jobs))
    return np.where(waited_us < 0, np.nan, waited_us / SECOND_US)


def waits_of(
    prepared: Prepared, recorded_s: FloatArray, candidate: Mapping[int, Row], present: Mapping[int, Row]
) -> Waits | None:
    """Return the waits of the jobs that count under both policies; rows by number of the window. None: there are none."""
    margin = prepared.base["results"]["warmup"]
    submit_s = columns_of(prepared.log.jobs).submit_us.array / SECOND_US
    parts: list[tuple[NDArray[np.int64], FloatArray, FloatArray, FloatArray]] = []
    weeks = 0.0
    for number, first in enumerate(prepared.firsts, 1):
        if number not in candidate or number not in present:
            continue
        rows = np.arange(first + margin, first + prepared.window_jobs - margin)
        two = [(seconds_of(each[number], WAITS), seconds_of(each[number], RESPONSES)) for each in (candidate, present)]
        (wait_s, response_s), (present_s, before_s) = two
        if all(len(each) == len(rows) for pair in two for each in pair):
            parts.append((rows, present_s, wait_s, (response_s - wait_s) - (before_s - present_s)))
            weeks += float(submit_s[rows[-1]] - submit_s[rows[0]]) / WEEK_S
    if not parts or weeks <= 0:
        return None
    rows, present_s, wait_s, longer_s = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Waits(rows, weeks, recorded_s[rows], present_s, wait_s, float(np.nansum(longer_s)))


def summary_of(waits_s: FloatArray) -> Summary | None:
    """Return mean, median and 95th percentile of the waits that are known; None if there are none."""
    known = waits_s[np.isfinite(waits_s)] / 60
    if not known.size:
        return None
    median, p95 = np.percentile(known, (50, 95)).tolist()
    return Summary(known.size, float(known.mean()), median, p95)


def user_hours(prepared: Prepared, waits: Waits) -> dict[str, float]:
    """Return by how many hours a week the jobs of each user wait longer; empty where the log has no users."""
    jobs = columns_of(prepared.log.jobs).select(waits.rows)
    users = list(jobs.each(jobs.user))
    names, places = np.unique(users, return_inverse=True)
    changes = np.bincount(places, weights=np.nan_to_num(waits.candidate_s - waits.present_s), minlength=len(names))
    found = zip(names.tolist(), (changes / 3600 / waits.weeks).tolist(), strict=True)
    return {prepared.name_of(f"user {user}"): hours for user, hours in found if user}


def groups_of(prepared: Prepared, waits: Waits) -> Iterator[tuple[str, list[Group]]]:
    """Yield the jobs by partition, QOS, queue and user, as far as the log and its annotations tell several; the most jobs first."""
    for kind, names in classes_of(prepared).items():
        found = [group for group in _groups(waits, np.array(names)[waits.rows].tolist()) if group.name]
        if len(found) > 1:
            yield kind, sorted(found, key=lambda group: -group.jobs)[:MOST_GROUPS]


def classes_of(prepared: Prepared) -> dict[str, list[str]]:
    """Return the partition, QOS, queue and user of each job of the log, as far as the log and its annotations tell; else empty."""
    log = prepared.log if prepared.said is None else with_annotations(prepared.log, prepared.said)
    jobs = columns_of(log.jobs)
    users = {user: prepared.name_of(f"user {user}") if user else "" for user in set(jobs.each(jobs.user))}
    named: dict[str, list[str]] = {
        "partition": [", ".join(each) for each in jobs.each(jobs.partitions)],
        "QOS": list(jobs.each(jobs.qos)),
        "queue": [f"queue {each}" if each >= 0 else "" for each in jobs.each(jobs.queue)],
        "user": [users[each] for each in jobs.each(jobs.user)],
    }
    if not any(named["partition"]):
        named["partition"] = [f"partition {each}" if each >= 0 else "" for each in jobs.each(jobs.partition)]
    return named


def whole_log(prepared: Prepared, recorded_s: FloatArray) -> Waits | None:
    """Return the waits of all jobs of the log, without a candidate; None if the run of the whole log failed."""
    if prepared.whole is None:
        return None
    unknown = np.full(len(recorded_s), np.nan)
    return Waits(np.arange(len(recorded_s)), 0.0, recorded_s, prepared.whole.waits_s, unknown, 0.0)


def by_week(prepared: Prepared, waits: Waits) -> tuple[FloatArray, list[Group | None]]:
    """Return the weeks of the log, from 1, to the last one in which enough jobs count, and their waits; None for too few jobs."""
    submit_s = columns_of(prepared.log.jobs).submit_us.array[waits.rows] / SECOND_US
    weeks = (submit_s // WEEK_S).astype(np.int64) + 1
    found = {int(group.name): group for group in _groups(waits, weeks.tolist()) if group.jobs >= _FEWEST}
    all_weeks = range(1, max(found, default=0) + 1)
    return np.array(all_weeks, dtype=np.float64), [found.get(week) for week in all_weeks]


def size_map(prepared: Prepared, waits: Waits) -> list[list[Group | None]]:
    """Return the jobs by size, a row each, and run time; None where there are none."""
    jobs = columns_of(prepared.log.jobs).select(waits.rows)
    sizes = np.searchsorted(SIZES, jobs.processes.array)
    runs = np.searchsorted(RUNS_S, jobs.run_us.array / SECOND_US)
    found = {group.name: group for group in _groups(waits, (sizes * 10 + runs).tolist())}
    return [[found.get(str(10 * size + run)) for run in range(len(RUNS_S) + 1)] for size in range(len(SIZES) + 1)]


def _groups(waits: Waits, names: Iterable[object]) -> Iterator[Group]:
    """Yield the jobs of each name."""
    distinct, places = np.unique([str(name) for name in names], return_inverse=True)
    columns = []
    for values in (waits.recorded_s, waits.present_s, waits.candidate_s):
        known = np.isfinite(values)
        count = np.bincount(places[known], minlength=len(distinct))
        total = np.bincount(places[known], weights=values[known], minlength=len(distinct))
        columns.append(np.where(count > 0, total / np.maximum(count, 1) / 60, np.nan).tolist())
    jobs = np.bincount(places, minlength=len(distinct)).tolist()
    for row in zip(distinct.tolist(), jobs, *columns, strict=True):
        yield Group(*row)
