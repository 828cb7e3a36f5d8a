"""From rows of Slurm's accounting to the jobs that ran, each once, with a count of what was dropped or guessed.

A job that was requeued has a row for each time it ran, each with a submission of its own: it was submitted when the first
was, and runs as long as the last. What the earlier ones used is lost work, which is counted.

A job comes when it was first *eligible*: while it waits for a dependency, a moment or its user, no scheduler may start it. These
moments are the log's: a policy that runs the dependency earlier does not have the job come earlier. A *bound* job, as an import with a
site's facts has it, comes when it was submitted where its submission tells what it waits for: a scenario holds it for that reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import mul
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosched_plugin.common.sacct_rows import TASKS, UNNAMED, Dump, Rows, SacctRow, each_of
from cosched_plugin.common.slurm_notation import ENDED, MOST_NODES, count_nodes, expand, swf_status, tasks_in

# What is said of jobs and rows that are left out, and of guesses.
STEPS = "steps of jobs: dropped"
NEVER_RAN = "jobs that ended before they ran, such as cancelled ones: dropped"
NOT_ENDED = "jobs that are pending, running or suspended: dropped, so the log lacks its last and longest jobs"
REVOKED = "jobs of another cluster of a federation: dropped"
VANISHED = "tasks of arrays without a row, probably cancelled while pending: left out"
REQUEUED = "earlier runs of jobs that were requeued: joined into one job, from the first submission to the last run"
NOT_AGAIN = "jobs that were requeued and have not run again: dropped"
RESIZED = "earlier parts of jobs that changed their size: joined into one job, with the last size"
TWICE = "job numbers that Slurm has used twice: all jobs get new numbers"
ARRAYS = "tasks of arrays: each is a job"
COMPONENTS = "components of heterogeneous jobs: each is a job, and may start without the others"
SUSPENDED = "jobs that were suspended: that time does not count as run time"
NO_LIMIT = (
    "jobs without a limit, or with one of 525600 minutes: the default estimate, or the run time if that is longer"
)
TOO_SHORT = "jobs of less than a second: one second"
WHOLE_NODES = "jobs with more CPUs than they asked for: the allocated ones count"
NO_NODES = "jobs without a number of nodes: processes are placed wherever there is room"
LATE_ROWS = "jobs that end before they start or were submitted: their times are put in order"
# Why jobs were not eligible when they were submitted.
DEPENDENCY = "jobs that waited for a dependency"
BEGIN = "jobs that waited for a stated time (--begin)"
HELD = "jobs that were held, by their user or an operator"
THROTTLED = "tasks of arrays with %N: more than N of one array may run at once"
OTHERWISE = "jobs that were eligible later than submitted, for a reason that the dump does not give"
CANCELLED_PENDING = (
    "jobs that were cancelled while pending: a run cancels them, too, unless they have started; run times are guessed"
)
LOST_TASKS = "rows of tasks of arrays that were cancelled while pending: dropped"
ODD_ELIGIBLE = "jobs that were eligible before they were submitted, or after they started: that time counts instead"

_AGAIN: Final = frozenset({"REQUEUED", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "RESIZING"})
_UNSTARTED: Final = frozenset({"CANCELLED", "DEADLINE", "REVOKED"})  # ends of jobs that may not have begun
_NEXT_S: Final = 60  # a requeue is a submission at the end of the run before
# By Slurm's reason; else by the line of the submission, whose options may come in any order.
_WAITED: Final = tuple(
    (said, re.compile(reason), re.compile(option, re.ASCII))
    for said, reason, option in (
        (DEPENDENCY, "Dependency.*", r"\s(?:-d ?|--dependency[= ])(?:after|singleton|expand)"),
        (HELD, "JobHeld(User|Admin)", r"\s(?:-H|--hold)(?:\s|$)"),
        (BEGIN, "BeginTime", r"\s(?:-b ?|--begin[= ])\S"),
    )
)
_AT_ONCE: Final = re.compile(r"\s(?:-a ?|--array[= ])[0-9,:-]+%[0-9]", re.ASCII)
_DEPENDS: Final = re.compile(r"\s(?:-d ?|--dependency[= ])(\S+)", re.ASCII)
_ON: Final = re.compile(r"(after(?:any|ok|notok)?):([0-9_:+]+)", re.ASCII)
_RANGE: Final = re.compile(r"(?:--array[= ]|-a ?)([0-9][0-9,:%-]*)", re.ASCII)


class Bound(NamedTuple):
    """What a job waits for before any scheduler may start it. Spans in seconds since it comes."""

    after: tuple[tuple[str, str], ...] = ()  # (`after` or `afterany`, Slurm's number of a job)
    begin_s: int = 0
    cancel_s: int | None = None  # it was cancelled then, while it waited
    array: int = 0
    at_once: int = 0  # tasks of the array; 0: all


_UNBOUND: Final = Bound()


class LoggedJob(NamedTuple):
    """A job that ran, or (``bound.cancel_s``) never did. Times in seconds; ``submit_s`` since 1970."""

    row: SacctRow  # of the last run
    first: SacctRow  # of the first one, which may be the same
    submit_s: int  # when it comes: when it was eligible, or submitted if that is asked for
    run_s: int
    lost_s: int  # of earlier runs
    bound: Bound = _UNBOUND

    @property
    def ran(self) -> bool:
        """Tell whether it ran."""
        return self.bound.cancel_s is None

    @property
    def wait_s(self) -> int | None:
        """Return the time from when it comes to the last start; None if it never started."""
        return max(0, (self.row.start_s or 0) - self.submit_s) if self.ran else None

    @property
    def nodes(self) -> int:
        """Return the number of its nodes; 0 where neither their names nor their number is told."""
        if self.row.node_list not in UNNAMED:
            return count_nodes(self.row.node_list)
        return self.row.nodes if self.ran else self.row.requested.get("node", 1)

    @property
    def cpus(self) -> int:
        """Return the CPUs that it had; those that it asked for where it never ran."""
        return self.row.cpus or self.row.asked or self.row.requested.get("cpu", 0)

    @property
    def status(self) -> int:
        """Return the status of the format."""
        return swf_status(self.row.state)


class Jobs:
    """Jobs by column, as rows are: a job is made when it is asked for."""

    def __init__(self, rows: Rows, table: NDArray[np.int64], bound: Mapping[int, Bound]) -> None:
        """``table``: a column a job; its first rows are the attributes. ``bound``: by place of the job."""
        self.rows, self._table, self.bound = rows, table, bound
        self.last, self.first, self.submit_s, self.run_s, self.lost_s = table[:5]  # the first two are places of rows

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.last)

    def __iter__(self) -> Iterator[LoggedJob]:
        """Yield each job."""
        cells = zip(self.rows.at(self.last), each_of(self._table.T), strict=True)
        for place, (row, (last, first, submit_s, run_s, lost_s, *_)) in enumerate(cells):
            own = row if first == last else next(self.rows.at(np.array([first])))
            yield LoggedJob(row, own, submit_s, run_s, lost_s, self.bound.get(place, _UNBOUND))

    def values(self, *names: str) -> Iterator[tuple[Any, ...]]:
        """Yield some columns of the rows of the last runs."""
        return self.rows.values(names, self.last)

    def column(self, name: str) -> NDArray[Any]:
        """Return what a column of the rows holds for the last runs."""
        column: NDArray[Any] = self.rows.column(name)[self.last]
        return column

    def of(self, name: str, told: Callable[[Any], Any]) -> NDArray[Any]:
        """Return what is told of each value of a column of the rows, for the last runs."""
        found: NDArray[Any] = self.rows.of(name, told)[self.last]
        return found

    def distinct(self, *names: str) -> Mapping[tuple[Any, ...], int]:
        """Return how many jobs have the same values in some columns with codes, by these, in order of the first job with them."""
        codes = np.zeros(len(self), dtype=np.int64)
        for name in names:
            codes = codes * len(self.rows.tables[name].found) + self.column(name)
        _, first, count = np.unique(codes, return_index=True, return_counts=True)
        order = np.argsort(first)
        return dict(zip(self.rows.values(names, self.last[first[order]]), count[order].tolist(), strict=True))

    def ran(self) -> NDArray[np.bool_]:
        """Return which jobs ran."""
        ran = np.ones(len(self), dtype=bool)
        ran[[place for place, bound in self.bound.items() if bound.cancel_s is not None]] = False
        return ran

    def nodes(self) -> NDArray[np.int64]:
        """Return the number of nodes of each job, as `LoggedJob.nodes`."""
        asked = self.of("requested", lambda amounts: min(amounts.get("node", 1), MOST_NODES))
        counted = self.of("node_list", lambda text: -1 if text in UNNAMED else count_nodes(text))
        return np.where(counted >= 0, counted, np.where(self.ran(), self.of("nodes", int), asked))

    def end_s(self) -> NDArray[np.int64]:
        """Return when each job ended, not before it started."""
        end_s: NDArray[np.int64] = np.maximum(self.column("start_s"), self.column("end_s"))
        return end_s

    def take(self, places: NDArray[np.int64]) -> Jobs:
        """Return the jobs at some places."""
        bound = enumerate(places.tolist()) if self.bound else ()
        own = {to: self.bound[at] for to, at in bound if at in self.bound}
        return Jobs(self.rows, self._table[:5, places], own)


class Imported(NamedTuple):
    """The jobs, in order of submission, and what was dropped or guessed: counts by what is said of it."""

    jobs: Jobs
    counts: Mapping[str, int]
    remarks: tuple[str, ...]  # what no count says


def jobs_of(
    dump: Dump, partitions: Sequence[str] = (), *, as_submitted: bool = False, bound: bool = False, pools: bool = False
) -> Imported:
    """Return the jobs of some partitions that ran to their end; of all partitions where none is named.

    ``bound``: each with what it waited for, and also those that were cancelled while they waited. ``pools``: partitions are modelled.
    """
    rows, counts = dump.rows, Counter(dump.counts)
    others: list[int] = []
    table = _table(_logged(rows, partitions, counts, others, as_submitted=as_submitted))
    bounds: dict[int, Bound] = {}
    if bound:
        first = len(table)
        table = np.concatenate((table, _table(_cancelled(rows, np.array(others, dtype=np.int64), table, counts))))
        bounds |= {place: Bound(cancel_s=int(table[place, 5])) for place in range(first, len(table))}
        told, known = "Eligible" not in dump.missing and not as_submitted, _numbers(Jobs(rows, table.T, bounds))
        for place, job in enumerate(Jobs(rows, table.T, dict(bounds))):
            table[place, 5], bounds[place] = _bound(job, known, as_submitted=as_submitted, told=told)
    late_s = sum(each_of(table[:, 5])) - sum(each_of(table[:, 2]))
    depth = _come_after(Jobs(rows, table.T, {}), table[:, 5], bounds)
    table[:, 2] = table[:, 5]
    order = np.lexsort((depth, table[:, 2]))  # equal times as in the file
    found = Jobs(rows, table.T, bounds).take(order)
    del table
    counts[TWICE] = len(found) - len(np.unique(found.column("number")))
    counts[VANISHED] = _vanished(rows, partitions)
    for job in found:
        _count_guesses(job, counts)
    used = np.flatnonzero(rows.of("label", lambda text: "." in text and not text.endswith((".batch", ".extern"))))
    used_s = sum(cpu_s for (cpu_s,) in rows.values(("cpu_s",), used))
    held_s = sum(map(mul, each_of(found.run_s * found.ran()), each_of(found.of("cpus", int))))
    lost_s = sum(job.lost_s * job.row.cpus for job in found.take(np.flatnonzero(found.lost_s)))
    remarks = [*_by_partition(found, pools=pools)]
    remarks.append(_arrivals(late_s, dump.missing, as_submitted=as_submitted, bound=bound))
    if lost_s:
        remarks.append(f"earlier runs of requeued jobs used {_hours(lost_s)} that the log does not have")
    if counts[STEPS] and used_s:
        remarks.append(f"the steps used {_hours(used_s)} of the {_hours(held_s)} that the jobs held")
    if dump.missing:
        remarks.append(f"the dump has no {', '.join(dump.missing)}")
    if dump.bad_row:
        remarks.append(f"the first row that was left out: {dump.bad_row}")
    return Imported(found, {text: count for text, count in counts.items() if count}, tuple(remarks))


def _arrivals(late_s: int, missing: Sequence[str], *, as_submitted: bool, bound: bool) -> str:
    """Return in words when jobs arrive; ``late_s``: how much later than they were submitted, summed over jobs."""
    if as_submitted:
        return "jobs arrive at their submission, also those that were eligible later"
    if "Eligible" in missing:
        return "jobs arrive at their submission: the dump does not say when they were eligible"
    if bound:
        unknown = "jobs whose reason to wait is unknown arrive when they are eligible"
        return f"jobs arrive at their submission; {unknown}, {late_s / 3600:,.1f} h later in total"
    late = f"{late_s / 3600:,.1f} h after their submission in total"
    return f"jobs arrive when they are eligible, {late} (--as-submitted: at their submission)"


# Jobs as they are found: the places of their last and first rows, submission, run time, time of earlier runs, and when they come; of
# those that never ran, the time after which they were cancelled instead of that.
def _table(jobs: Iterable[Sequence[int]]) -> NDArray[np.int64]:
    return np.fromiter(jobs, dtype=np.dtype((np.int64, 6)))


def _logged(
    rows: Rows, partitions: Sequence[str], counts: Counter[str], others: list[int], *, as_submitted: bool
) -> Iterator[Sequence[int]]:
    """Yield the jobs that ran; the places of the others that have one row go to ``others``."""
    late = Counter[str]()
    for places, own in _by_job(rows, partitions, counts):
        job = _job(own, counts)
        if job is not None:
            comes_s = _comes(job, late, as_submitted=as_submitted)
            yield places[-1], places[0], job.submit_s, job.run_s, job.lost_s, comes_s
        elif len(places) == 1:
            others += places
    counts.update(late)


def _by_job(rows: Rows, partitions: Sequence[str], counts: Counter[str]) -> Iterator[tuple[list[int], list[SacctRow]]]:
    """Yield the rows of each job, with their places, in order of submission; steps, and jobs of other partitions, are left out."""
    steps, ours = rows.steps(), _in_partitions(rows, partitions)
    counts[STEPS] = int(np.count_nonzero(steps & ours))
    mine = np.flatnonzero(ours & ~steps)
    numbers = rows.column("number")[mine]
    ordered = np.sort(numbers)
    several = mine[np.isin(numbers, ordered[1:][ordered[1:] == ordered[:-1]])]
    by_number: dict[int, list[tuple[int, SacctRow]]] = {}
    for place, row in zip(several.tolist(), rows.at(several), strict=True):
        by_number.setdefault(int(rows.column("number")[place]), []).append((place, row))
    for place, number, row in zip(each_of(mine), each_of(numbers), rows.at(mine), strict=True):
        if number not in by_number:
            yield [place], [row]
            continue
        own = sorted(by_number[number], key=lambda each: (each[1].submit_s, each[1].start_s or 0, each[1].line))
        by_number[number] = []  # with the first of them all are told
        begin = 0
        for end in range(1, len(own) + 1):
            if end == len(own) or not _continues(own[end - 1][1], own[end][1]):
                yield [at for at, _ in own[begin:end]], [row for _, row in own[begin:end]]
                begin = end


def _in_partitions(rows: Rows, partitions: Sequence[str]) -> NDArray[np.bool_]:
    """Return which rows are of some partitions; all where none is named."""
    among: NDArray[np.bool_] = rows.of("partition", lambda name: not partitions or name in partitions)
    return among


def _continues(before: SacctRow, after: SacctRow) -> bool:
    """Tell whether a row is the same job, again, and not another one with its number."""
    if before.state not in _AGAIN or before.user != after.user:
        return False
    return before.state == "REQUEUED" or abs(after.submit_s - (before.end_s or after.submit_s)) <= _NEXT_S


def _job(rows: Sequence[SacctRow], counts: Counter[str]) -> LoggedJob | None:
    """Return the job of its rows, or None, counted, if it has not run to its end."""
    *earlier, last = rows
    if last.state == "REQUEUED":
        counts[NOT_AGAIN] += 1
    elif last.state == "REVOKED":
        counts[REVOKED] += 1
    elif last.state not in ENDED or last.end_s is None:
        counts[NOT_ENDED] += 1
    elif last.start_s is None or _never_ran(last):
        counts[NEVER_RAN] += 1
    else:
        parts = [row for row in earlier if row.state == "RESIZING"]
        counts[RESIZED] += len(parts)
        counts[REQUEUED] += len(earlier) - len(parts)
        run_s = last.elapsed_s + sum(row.elapsed_s for row in parts)
        lost_s = sum(row.elapsed_s for row in earlier) - sum(row.elapsed_s for row in parts)
        if not run_s:
            counts[TOO_SHORT] += 1
        first = rows[0]
        if not first.submit_s <= last.start_s <= last.end_s:
            counts[LATE_ROWS] += 1
        return LoggedJob(last, first, min(first.submit_s, last.start_s), max(1, run_s), lost_s)
    return None


def _never_ran(row: SacctRow) -> bool:
    """Tell whether a job that has ended had no nodes. Its start is then the end, and NNodes are those that it asked for."""
    unnamed = row.node_list == "None assigned" or (not row.node_list and row.state in _UNSTARTED)
    return not row.cpus or (not row.elapsed_s and (unnamed or (row.node_list in UNNAMED and not row.nodes)))


def _comes(job: LoggedJob, counts: Counter[str], *, as_submitted: bool) -> int:
    """Return when a job comes, and count why that is not when it was submitted, or would not be."""
    first = job.first
    submit_s, start_s = job.submit_s, job.row.start_s or job.submit_s
    first_start_s = min(start_s, first.start_s or start_s)  # a job that was requeued was eligible before its first run
    bound_s = max(submit_s, first_start_s)
    eligible_s = submit_s if first.eligible_s is None else min(max(submit_s, first.eligible_s), bound_s)
    counts[ODD_ELIGIBLE] += first.eligible_s not in (None, eligible_s)
    throttled = bool(first.at_once) or first.reason == "JobArrayTaskLimit" or _throttles(first.command)
    counts[THROTTLED] += throttled
    if eligible_s > submit_s or (first.eligible_s is None and bound_s > submit_s):
        why = next((said for said, reason, _ in _WAITED if reason.fullmatch(first.reason)), None) or next(
            (said for said, _, option in _WAITED if option.search(first.command)), None
        )
        if why is not None:
            counts[why] += 1
        elif eligible_s > submit_s and not throttled:
            counts[OTHERWISE] += 1
    return submit_s if as_submitted else eligible_s


# What bound a job.


def _cancelled(
    rows: Rows, others: NDArray[np.int64], table: NDArray[np.int64], counts: Counter[str]
) -> Iterator[Sequence[int]]:
    """Yield the jobs that were cancelled while they waited, with run times as a part of their limits as those of others.

    By the CPU time, so that they bring as much work: many small jobs, as of arrays, use less of their limits than large ones do.
    """
    runs = zip(rows.values(("cpus", "limit_min"), table[:, 0]), each_of(table[:, 3]), strict=True)
    limited = [(cpus * run_s, cpus * 60 * limit_min) for (cpus, limit_min), run_s in runs if limit_min]
    part = sum(used_s for used_s, _ in limited) / max(1, sum(limit_s for _, limit_s in limited))
    for place, row in zip(others.tolist(), rows.at(others), strict=True):
        if row.state != "CANCELLED" or row.end_s is None or not (row.start_s is None or _never_ran(row)):
            continue
        counts[NEVER_RAN] -= 1
        if "[" in row.label:
            counts[LOST_TASKS] += 1
            continue
        counts[CANCELLED_PENDING] += 1
        run_s = max(1, round(part * 60 * row.limit_min)) if row.limit_min else 3_600
        yield place, place, row.submit_s, run_s, 0, max(0, row.end_s - row.submit_s)


def _numbers(jobs: Iterable[LoggedJob]) -> Mapping[str, list[str]]:
    """Return Slurm's numbers of jobs by what a dependency may call them: a number, a task, or an array as a whole."""
    known: dict[str, list[str]] = {}
    for job in jobs:
        number, label = job.row.number, job.row.label
        for name in {number, label, label.partition("_")[0]}:
            known.setdefault(name, []).append(number)
    return known


def _bound(job: LoggedJob, known: Mapping[str, Sequence[str]], *, as_submitted: bool, told: bool) -> tuple[int, Bound]:
    """Return when a job comes, and what it waited for; it comes later than it was submitted only where nothing tells that.

    ``told``: the dump says when jobs were eligible, if ever. One that never was, such as a held one, never starts.
    """
    first, row = job.first, job.row
    submit_s, command = job.submit_s, first.command
    eligible_s = max(submit_s, min(first.eligible_s or submit_s, row.start_s or row.end_s or submit_s))
    found = TASKS.fullmatch(first.label)
    number = int(found[1]) if found else 0
    listed = _RANGE.search(command) if number else None
    at_once = first.at_once or _at_once(listed[1] if listed else "")
    after, begin_s = _after(command, known), 0
    if not after and eligible_s > submit_s and not as_submitted:
        if any(said == BEGIN and option.search(command) for said, _, option in _WAITED):
            begin_s = eligible_s - submit_s
        elif not at_once:
            submit_s = eligible_s
    cancel_s = None if job.ran else max(0, (row.end_s or submit_s) - submit_s)
    if cancel_s is not None and told and first.eligible_s is None and not after:
        begin_s = cancel_s + 1
    return submit_s, Bound(after, begin_s, cancel_s, number if at_once else 0, at_once)


def _come_after(jobs: Jobs, comes_s: NDArray[np.int64], bounds: dict[int, Bound]) -> NDArray[np.int64]:
    """Let no job come before one that it waits for, such as a held one; return how many stand before it at least.

    Tasks of an array get numbers when they start, after jobs that were submitted later and wait for them.
    """
    depth = np.zeros(len(comes_s), dtype=np.int64)
    if not any(bound.after for bound in bounds.values()):
        return depth
    keys: list[tuple[int, int]] = []  # in the order of submission
    places: dict[str, list[int]] = {}
    for place, job in enumerate(jobs):
        whole = re.match(r"\d+", job.row.label)
        keys.append((job.submit_s, int(whole[0]) if whole else 0))
        places.setdefault(job.row.number, []).append(place)
    for place in sorted(bounds, key=keys.__getitem__):
        bound, came_s = bounds[place], comes_s[place]
        for _, number in bound.after:
            for other in places.get(number, ()):
                if keys[other] < keys[place]:
                    comes_s[place] = max(comes_s[place], comes_s[other])
                    depth[place] = max(depth[place], depth[other] + 1)
        if bound.cancel_s is not None:
            bounds[place] = bound._replace(cancel_s=max(0, bound.cancel_s - int(comes_s[place] - came_s)))
    return depth


def _at_once(tasks: str) -> int:
    try:
        return tasks_in(tasks)[1]
    except ValueError:  # what looks like a range there may be an argument of the user's program
        return 0


# The log shows that a job's dependencies were met, so it only waits for the ends of others, in whatever state.
def _after(command: str, known: Mapping[str, Sequence[str]]) -> tuple[tuple[str, str], ...]:
    """Return the jobs of the log that a job waited for, by its submission; none where it tells others than all of these."""
    told = _DEPENDS.search(command)
    found: list[tuple[str, str]] = []
    for term in told[1].split(",") if told else ():
        on = _ON.fullmatch(term)
        if on is None:
            return ()
        kind = "after" if on[1] == "after" else "afterany"
        for name in on[2].split(":"):
            found += [(kind, number) for number in known.get(name.partition("+")[0], ())]
    return tuple(dict.fromkeys(found))


def _count_guesses(job: LoggedJob, counts: Counter[str]) -> None:
    row = job.row
    counts[ARRAYS] += "_" in row.label
    counts[COMPONENTS] += "+" in row.label
    counts[SUSPENDED] += row.suspended_s > 0
    counts[NO_LIMIT] += row.limit_min is None
    counts[WHOLE_NODES] += 0 < row.asked < row.cpus
    counts[NO_NODES] += not job.nodes
    if row.state != "COMPLETED":
        counts[f"jobs {row.state}: in the log, status {job.status}"] += 1


def _vanished(rows: Rows, partitions: Sequence[str]) -> int:
    """Return how many tasks have no row: those that the submission asked for, else the gaps below an array's last task."""
    seen: dict[str, list[range]] = {}
    asked: dict[str, Sequence[range]] = {}
    tasks = rows.of("label", lambda text: TASKS.fullmatch(text) is not None) & _in_partitions(rows, partitions)
    for label, command in rows.values(("label", "command"), np.flatnonzero(tasks)):
        number, _, listed = label.partition("_")
        seen.setdefault(number, []).extend(_tasks(listed.removeprefix("[").removesuffix("]")))
        told = _asked(command)
        if told is not None:
            asked[number] = told
    return sum(_missing(asked.get(number), own) for number, own in seen.items())


@lru_cache(1 << 14)
def _tasks(text: str) -> Sequence[range]:
    return tasks_in(text)[0]


@lru_cache(1 << 14)
def _asked(command: str) -> Sequence[range] | None:
    """Return the tasks that a submission asks for; None where it does not tell."""
    listed = _RANGE.search(command)
    try:
        return None if listed is None else tasks_in(listed[1])[0]
    except ValueError:  # what looks like a range there may be an argument of the user's program
        return None


@lru_cache(1 << 14)
def _throttles(command: str) -> bool:
    return _AT_ONCE.search(command) is not None


def _missing(asked: Sequence[range] | None, seen: Sequence[range]) -> int:
    """Return how many of the tasks that were asked for, else of those from the first to the last that was seen, were not seen."""
    first, last = min((tasks.start for tasks in seen), default=0), max((tasks[-1] for tasks in seen), default=-1)
    wanted = [range(first, last + 1)] if asked is None else asked
    left = np.zeros(max((tasks.stop for tasks in (*wanted, *seen)), default=0), dtype=np.bool_)
    for tasks in wanted:
        left[tasks.start : tasks.stop : tasks.step] = True
    for tasks in seen:
        left[tasks.start : tasks.stop : tasks.step] = False
    return int(left.sum())


@lru_cache(1 << 16)
def options_of(command: str) -> str:
    """Return the options of a submission, without the script and its arguments: an option has one value at most."""
    kept: list[str] = []
    for word in command.split()[1:]:
        if not word.startswith("-") and not (kept and kept[-1].startswith("-")):
            break
        kept.append(word)
    return " ".join(("", *kept))


def nodes_by_partition(jobs: Jobs) -> Mapping[str, set[str]]:
    """Return the nodes that jobs of each partition name."""
    nodes: dict[str, set[str]] = {}
    for partition, listed in jobs.distinct("partition", "node_list"):
        nodes.setdefault(partition, set()).update(() if listed in UNNAMED else expand(listed))
    return nodes


def _by_partition(jobs: Jobs, *, pools: bool) -> Iterator[str]:
    """Yield the partitions with their jobs and nodes; without ``pools`` a warning for those that share no node: machines apart."""
    nodes = nodes_by_partition(jobs)
    count = jobs.distinct("partition")
    if len(count) < 2:
        return
    yield "partitions: " + ", ".join(
        f"{name or 'none'} ({number} jobs on {len(nodes[name])} nodes)"
        for (name,), number in sorted(count.items(), key=lambda item: -item[1])
    )
    apart = [
        name
        for name, own in nodes.items()
        if own and not any(own & other for rest, other in nodes.items() if rest != name)
    ]
    if apart and not pools:
        yield f"warning: no node in common with other partitions: {', '.join(sorted(apart))}; import each alone (--partition)"


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:,.1f} CPU hours"
