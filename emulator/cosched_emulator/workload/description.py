"""What a workload is like: statistics of its jobs, when they arrive, and how users share the work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.workload.job import Calendar, CutRuns, Workload
from cosched_emulator.workload.jobs_in_columns import Interned, Jobs, columns_of, intern_values
from cosched_hwmodel.units import SECOND_US, WHOLE_PPM
from cosched_hwmodel.usage import BOUNDS, UsageTuple
from cosched_terminal.tables import VIEW, align

# How the jobs of a workload, and its work, are divided among users.

TOP: Final = (1, 5, 10)  # users


class UserShares(NamedTuple):
    """Shares of all jobs, and of all work, of those 1, 5 and 10 users that have most of it."""

    jobs: tuple[float, ...]
    work: tuple[float, ...]


def user_shares(jobs: Jobs) -> UserShares | None:
    """Return what the largest users have; None if no user is known. A user without a name is none of them."""
    names = jobs.user if isinstance(jobs.user, Interned) else intern_values(jobs.each(jobs.user))
    known = np.array([name != "" for name in names.distinct], dtype=np.bool_)
    work = jobs.run_us.array.astype(np.float64) * jobs.processes.array
    places = names.places
    if not known[places].any():
        return None
    return UserShares(*(_top(places, known, amount) for amount in (np.ones_like(work), work)))


def _top(places: NDArray[np.int64], known: NDArray[np.bool_], amount: NDArray[np.float64]) -> tuple[float, ...]:
    of_user = np.bincount(places, weights=amount, minlength=len(known))[known]
    largest = np.cumsum(np.sort(of_user)[::-1])
    whole = max(1.0, float(amount.sum()))
    return tuple(float(largest[min(number, len(largest)) - 1]) / whole for number in TOP)


def users_text(number: int, shares: UserShares | None) -> str:
    """Return the number of known users and their shares as a line for people."""
    if shares is None:
        return "not known"
    jobs, work = (", ".join(f"{share:.1%}" for share in part) for part in shares)
    return f"{number}; the largest {', '.join(map(str, TOP))} have {jobs} of the jobs, and {work} of the work"


# When the jobs of a workload arrive: by day of the week and by hour of the day.

DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_DAY_S, _HOUR_S = 86_400, 3_600
_EPOCH_DAY = 3  # 1 January 1970 was a Thursday
_REASONS: Final = {
    "first submission": "the log has no UnixStartTime, or no time zone",
    "first midnight": "days have no names",
}
_WIDTH = 30  # of the longest bar


class Rhythm(NamedTuple):
    """Shares of the jobs, and of the work that they bring, by the time of their submission."""

    # What the first day and the first hour begin with: "Monday", "first midnight", "first submission"
    counted_from: str
    day_jobs: tuple[float, ...]
    day_work: tuple[float, ...]
    hour_jobs: tuple[float, ...]
    hour_work: tuple[float, ...]


def rhythm_of(jobs: Jobs, calendar: Calendar | None) -> Rhythm:
    """Return the weekly and the daily rhythm; days and hours count from the first submission where there is no calendar."""
    submit_s = jobs.submit_us.array / SECOND_US
    if calendar is None:
        local_s, counted_from = submit_s - submit_s[0], "first submission"
    else:
        local_s = calendar.start_s + submit_s
        counted_from = DAYS[0] if calendar.named_days else "first midnight"
    day = np.floor(local_s / _DAY_S).astype(np.int64)
    hour = np.floor((local_s - day * _DAY_S) / _HOUR_S).astype(np.int64)
    if calendar is None or not calendar.named_days:
        day -= day[0]
    else:
        day += _EPOCH_DAY
    work = jobs.run_us.array.astype(np.float64) * jobs.processes.array
    by_day, by_hour = (day % 7, 7), (np.minimum(hour, 23), 24)
    return Rhythm(
        counted_from, *(_shares(*by, some) for by in (by_day, by_hour) for some in (np.ones_like(work), work))
    )


def _shares(part: NDArray[np.int64], parts: int, amount: NDArray[np.float64]) -> tuple[float, ...]:
    shares = np.bincount(part, weights=amount, minlength=parts) / max(1.0, float(amount.sum()))
    return tuple(shares.tolist())


def rhythm_lines(rhythm: Rhythm) -> list[str]:
    """Return the rhythm as text: hours and days side by side, each with a bar for its share of the jobs."""
    named = rhythm.counted_from == DAYS[0]
    days = DAYS if named else [f"day {number}" for number in range(1, 8)]
    hours = [str(hour) for hour in range(24)]
    left = list(_rows("hour", hours, rhythm.hour_jobs, rhythm.hour_work))
    right = list(_rows("day", days, rhythm.day_jobs, rhythm.day_work))
    rows = [[*one, *other] for one, other in zip_longest(left, right, fillvalue=("",) * 4)]
    head = (
        [] if named else [f"hours and days are counted from the {rhythm.counted_from}: {_REASONS[rhythm.counted_from]}"]
    )
    beside = align(rows, (0, 1, 2, 5, 6), head=False, fit=False)
    width = VIEW.get().width
    if width is None or max(map(len, beside)) <= width:
        return [*head, *beside]
    return [*head, *align(left, (0, 1, 2), head=False), "", *align(right, (1, 2), head=False)]


def _rows(
    name: str, labels: list[str] | tuple[str, ...], jobs: tuple[float, ...], work: tuple[float, ...]
) -> Iterator[tuple[str, ...]]:
    yield name, "jobs", "work", ""
    longest = max(jobs)
    for label, share, amount in zip(labels, jobs, work, strict=True):
        yield label, f"{share:.1%}", f"{amount:.1%}", "#" * round(_WIDTH * share / longest)


# Statistics of a workload.

_PERCENTILES = (0, 5, 25, 50, 75, 95, 99, 100)
CLASSES = ("short", "medium", "long")
CLASS_BOUNDS_S = (600, 10_800)  # largest estimate of a short and of a medium job (G-LOMARC-TS paper, section 5.1)


class JobDistribution(NamedTuple):
    """The distribution of a quantity over the jobs."""

    mean: float
    minimum: float
    p5: float
    p25: float
    median: float
    p75: float
    p95: float
    p99: float
    maximum: float


class Description(NamedTuple):
    """Statistics of a workload; None if undefined. Times in seconds."""

    origin: str
    jobs: int
    processors: int | None
    began_s: int | None  # the first submission, since 1970 in UTC
    span_s: float  # first to last submission
    work_processor_s: float  # sum of run time x size
    offered_load: float | None  # that work / (processors x span): as the jobs run
    offered_load_logged: float | None  # the same with run times as they were before they were cut to the estimate
    size: JobDistribution
    run_s: JobDistribution
    gap_s: JobDistribution | None  # between submissions; None for a single job
    serial_share: float
    power_of_two_share: float  # of all jobs, serial ones included
    largest_share: float | None  # largest size / processors
    estimate_s: JobDistribution
    estimate_accuracy: float  # mean of run / estimate, at most 1 for each job
    exact_estimate_share: float
    run_above_estimate_share: float
    limited_share: float  # jobs with a limit
    users: int  # distinct names of users
    notes: tuple[str, ...]
    usage_share: float  # jobs with known characteristics; the next three fields are about these
    bound_shares: tuple[float, float, float] | None  # jobs bound by cpu, network, disk
    memory: JobDistribution | None  # as a fraction of a node's
    memory_conflict_share: float | None  # share of all pairs that do not fit into a node's memory together
    class_shares: tuple[float, float, float]  # of jobs: short, medium, long by estimate
    class_work_shares: tuple[float, float, float]  # of the work
    self_share: float  # jobs with a known self slowdown
    self_node: JobDistribution | None  # of these
    self_core: JobDistribution | None
    user_shares: UserShares | None  # None: no user is known
    rhythm: Rhythm

    def as_dict(self) -> dict[str, object]:
        """Return the statistics as plain dictionaries, ready for JSON."""
        return {name: _plain(value) for name, value in self._pairs()}

    def _pairs(self) -> list[tuple[str, object]]:
        return list(zip(self._fields, self, strict=True))


# Over 50 lines: one for each statistic.
def describe(workload: Workload, processors: int | None = None) -> Description:
    """Return the statistics of a workload; its load is that on ``processors`` (None: the number that the workload names).

    Raises `ConfigurationError` for a workload without jobs.
    """
    if not workload.jobs:
        raise ConfigurationError("workload", "at least one job", "none")
    processors = _machine_size(workload, processors)
    jobs = columns_of(workload.jobs)
    size = jobs.processes.array
    run = jobs.run_us.array / SECOND_US
    estimate = jobs.estimate_us.array / SECOND_US
    submit = jobs.submit_us.array
    gaps: NDArray[np.float64] = np.diff(submit) / SECOND_US
    work = jobs.work_us() / SECOND_US
    span = int(submit[-1] - submit[0]) / SECOND_US
    usages = [usage for usage in jobs.each(jobs.usage) if usage is not None]
    memory = np.array([usage[4] for usage in usages], dtype=np.int64)
    selves = np.array([own for own in jobs.each(jobs.self_slowdown) if own is not None], dtype=np.int64)
    class_shares, class_work_shares = _class_shares(jobs)
    load = work / (processors * span) if processors and span > 0 else None
    return Description(
        origin=workload.origin,
        jobs=len(jobs),
        processors=processors,
        began_s=workload.epoch.after(int(submit[0])).began_s,
        span_s=span,
        work_processor_s=work,
        offered_load=load,
        offered_load_logged=_logged_load(load, workload.cut),
        size=_spread(size.astype(np.float64)),
        run_s=_spread(run),
        gap_s=_spread(gaps) if len(gaps) else None,
        serial_share=float(np.mean(size == 1)),
        power_of_two_share=float(np.mean((size & (size - 1)) == 0)),
        largest_share=int(size.max()) / processors if processors else None,
        estimate_s=_spread(estimate),
        estimate_accuracy=_accuracy(run, estimate),
        exact_estimate_share=float(np.mean(run == estimate)),
        run_above_estimate_share=float(np.mean(run > estimate)),
        limited_share=jobs.known(jobs.limit_us) / len(jobs),
        users=len(set(jobs.each(jobs.user)) - {""}),
        notes=workload.notes,
        usage_share=len(usages) / len(jobs),
        bound_shares=_bound_shares(usages),
        memory=_spread(memory / WHOLE_PPM) if usages else None,
        memory_conflict_share=_conflict_share(memory),
        class_shares=class_shares,
        class_work_shares=class_work_shares,
        self_share=len(selves) / len(jobs),
        self_node=_spread(selves[:, 0] / WHOLE_PPM) if len(selves) else None,
        self_core=_spread(selves[:, 1] / WHOLE_PPM) if len(selves) else None,
        user_shares=user_shares(jobs),
        rhythm=rhythm_of(jobs, workload.calendar),
    )


def _machine_size(workload: Workload, processors: int | None) -> int | None:
    if processors is None:
        return workload.processors
    if processors < 1:
        raise ConfigurationError("processors", "1 or more", str(processors))
    return processors


def _logged_load(load: float | None, cut: CutRuns | None) -> float | None:
    return load if load is None or cut is None else load * cut.work_us / cut.kept_us


def _accuracy(run_s: NDArray[np.float64], estimate_s: NDArray[np.float64]) -> float:
    return float(np.mean(np.minimum(1.0, run_s / np.maximum(estimate_s, 1 / SECOND_US))))


def as_table(description: Description) -> str:
    """Return the statistics as a few lines of text."""
    spreads = [
        ("size", description.size),
        ("run time [s]", description.run_s),
        ("gap [s]", description.gap_s),
        ("estimate [s]", description.estimate_s),
        ("memory [node]", description.memory),
        ("slowed by CPUs", description.self_node),
        ("slowed by cores", description.self_core),
    ]
    rows = [["", "mean", "min", "5 %", "25 %", "median", "75 %", "95 %", "99 %", "max"]]
    rows += [[name, *(_short(value) for value in spread)] for name, spread in spreads if spread is not None]
    largest = "" if description.largest_share is None else f", largest {description.largest_share:.1%} of the machine"
    facts = [
        ("workload", description.origin),
        ("jobs", f"{description.jobs} from {description.users} known users"),
        ("users", users_text(description.users, description.user_shares)),
        ("machine", "unknown" if description.processors is None else f"{description.processors} processors"),
        *([("begins", _date(description.began_s))] if description.began_s is not None else []),
        ("submitted in", f"{description.span_s:.0f} s ({description.span_s / 86_400:.1f} days)"),
        ("offered load", _load_text(description)),
        (
            "sizes",
            f"{description.serial_share:.1%} serial, {description.power_of_two_share:.1%} powers of two{largest}",
        ),
        (
            "estimates",
            f"accuracy {description.estimate_accuracy:.2f}, {description.exact_estimate_share:.1%} exact, "
            f"{description.run_above_estimate_share:.1%} below the run time; {description.limited_share:.1%} of jobs limited",
        ),
        ("classes", _class_text(description)),
        *([("bounds", _usage_text(description))] if description.usage_share else []),
        *([("self slowdown", f"known of {description.self_share:.1%} of jobs")] if description.self_share else []),
        *(("note", note) for note in description.notes),
    ]
    lines = [f"{name:<14}{text}" for name, text in facts]
    return "\n".join([*lines, "", *rhythm_lines(description.rhythm), "", *align(rows, range(1, len(rows[0])))])


def _date(unix_s: int) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%A %-d %B %Y, %H:%M:%S UTC")


def _load_text(description: Description) -> str:
    load, logged = description.offered_load, description.offered_load_logged
    if load is None or logged is None:
        return "unknown"
    return f"{load:.3f}" if load == logged else f"{load:.3f} as run, {logged:.3f} as logged"


def _class_shares(jobs: Jobs) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Return the share of each class in the jobs, and in their work."""
    short_us, medium_us = (bound_s * SECOND_US for bound_s in CLASS_BOUNDS_S)
    number, work = [0, 0, 0], [0, 0, 0]
    columns = (jobs.estimate_us, jobs.run_us, jobs.processes)
    for estimate_us, run_us, processes in zip(*(jobs.each(column) for column in columns), strict=True):
        index = (estimate_us > short_us) + (estimate_us > medium_us)
        number[index] += 1
        work[index] += run_us * processes
    (a, b, c), (x, y, z) = number, work
    all_jobs, all_work = sum(number), max(1, sum(work))
    return (a / all_jobs, b / all_jobs, c / all_jobs), (x / all_work, y / all_work, z / all_work)


def _class_text(description: Description) -> str:
    shares = zip(CLASSES, description.class_shares, description.class_work_shares, strict=True)
    text = ", ".join(f"{jobs:.1%} {name} ({work:.1%} of the work)" for name, jobs, work in shares)
    return f"{text}; short to {CLASS_BOUNDS_S[0]} s, medium to {CLASS_BOUNDS_S[1]} s"


def _usage_text(description: Description) -> str:
    shares = zip(BOUNDS, description.bound_shares or (), strict=False)
    text = f"known of {description.usage_share:.1%} of jobs: " + ", ".join(
        f"{share:.1%} {name}" for name, share in shares
    )
    conflicts = description.memory_conflict_share
    return text if conflicts is None else f"{text}; {conflicts:.1%} of pairs do not fit into a node's memory"


def _bound_shares(usages: Sequence[UsageTuple]) -> tuple[float, float, float] | None:
    if not usages:
        return None
    cpu, network, disk = (sum(usage[0] == bound for usage in usages) / len(usages) for bound in BOUNDS)
    return (cpu, network, disk)


def _conflict_share(memory: NDArray[np.int64]) -> float | None:
    jobs = len(memory)
    if jobs < 2:
        return None
    ordered = np.sort(memory)
    # For each job: the number of jobs that it fits with, itself included
    fitting = np.searchsorted(ordered, WHOLE_PPM - ordered, side="right")
    above = int(np.sum(jobs - fitting)) - int(np.count_nonzero(2 * ordered > WHOLE_PPM))
    return above / (jobs * (jobs - 1))


def _spread(values: NDArray[np.float64]) -> JobDistribution:
    return JobDistribution(float(values.mean()), *np.percentile(values, _PERCENTILES).tolist())


def _plain(value: object) -> object:
    if isinstance(value, JobDistribution | UserShares | Rhythm):
        return {name: _plain(part) for name, part in value._asdict().items()}
    return list(value) if isinstance(value, tuple) else value


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.2f}"
