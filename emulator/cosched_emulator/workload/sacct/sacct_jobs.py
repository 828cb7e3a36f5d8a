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
from typing import Final, NamedTuple

import numpy as np

from cosched_plugin.common.sacct_rows import TASKS, UNNAMED, Dump, SacctRow
from cosched_plugin.common.slurm_notation import ENDED, count_nodes, expand, swf_status, tasks_in

# What is said of jobs and rows that are left out, and of guesses.
STEPS = "steps of jobs: dropped"
NEVER_RAN = "jobs that ended before they ran, such as cancelled ones: dropped"
NOT_ENDED = "jobs that wait, run or are suspended: dropped, so the log lacks its last and longest"
REVOKED = "jobs of another cluster of a federation: dropped"
VANISHED = "tasks of arrays without a row, cancelled while they waited: not there"
REQUEUED = "earlier runs of jobs that were requeued: one job, from the first submission to the last run"
NOT_AGAIN = "jobs that were requeued and have not run again: dropped"
RESIZED = "earlier parts of jobs that changed their size: one job, with the last size"
TWICE = "job numbers that Slurm has given twice: jobs are numbered anew"
ARRAYS = "tasks of arrays: each a job"
COMPONENTS = "components of heterogeneous jobs: each a job, free to start without the others"
SUSPENDED = "jobs that were suspended: that time does not count as run time"
NO_LIMIT = "jobs without a limit, or of 525600 minutes: estimate by default, or the run time where that is longer"
TOO_SHORT = "jobs of less than a second: one second"
WHOLE_NODES = "jobs with more CPUs than they asked for: the allocated ones count"
NO_NODES = "jobs without a number of nodes: processes go where there is room"
LATE_ROWS = "jobs that end before they start or were submitted: times put in order"
# Why jobs were not eligible when they were submitted.
DEPENDENCY = "jobs that waited for a dependency"
BEGIN = "jobs that waited for a moment (--begin)"
HELD = "jobs that were held, by their user or an operator"
THROTTLED = "tasks of arrays with %N: more than N of one array may run at once"
OTHERWISE = "jobs that were eligible later than submitted, for a reason that the dump does not tell"
CANCELLED_PENDING = (
    "jobs that were cancelled while they waited: cancelled then, unless they have started; their run times are guessed"
)
LOST_TASKS = "rows of tasks of arrays that were cancelled while they waited: dropped"
ODD_ELIGIBLE = "jobs that were eligible before they were submitted, or after they started: taken as then"

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


class Imported(NamedTuple):
    """The jobs, in order of submission, and what was dropped or guessed: counts by what is said of it."""

    jobs: tuple[LoggedJob, ...]
    counts: Mapping[str, int]
    remarks: tuple[str, ...]  # what no count says


def jobs_of(
    dump: Dump, partitions: Sequence[str] = (), *, as_submitted: bool = False, bound: bool = False, pools: bool = False
) -> Imported:
    """Return the jobs of some partitions that ran to their end; of all partitions where none is named.

    ``bound``: each with what it waited for, and also those that were cancelled while they waited. ``pools``: partitions are modelled.
    """
    counts = Counter(dump.counts)
    runs, others = [], []
    for rows in _by_job(dump.rows, partitions, counts):
        job = _job(rows, counts)
        if job is not None:
            runs.append(job)
        else:
            others.append(rows)
    comes = [_comes(job, counts, as_submitted=as_submitted) for job in runs]
    found = [_coming(job, submit_s) for job, submit_s in zip(runs, comes, strict=True)]
    if bound:
        runs += _cancelled(others, runs, counts)
        known = _numbers(runs)
        told = "Eligible" not in dump.missing and not as_submitted
        found = [_bound(job, known, as_submitted=as_submitted, told=told) for job in runs]
    found.sort(key=lambda job: job.submit_s)  # equal times as in the file
    counts[TWICE] = len(found) - len({job.row.number for job in found})
    counts[VANISHED] = _vanished(dump.rows, partitions)
    for job in found:
        _count_guesses(job, counts)
    used_s = sum(row.cpu_s for row in dump.rows if "." in row.label and not row.label.endswith((".batch", ".extern")))
    held_s = sum(job.run_s * job.row.cpus for job in found if job.ran)
    lost_s = sum(job.lost_s * job.row.cpus for job in found)
    remarks = list(_by_partition(found, pools=pools))
    remarks.append(_arrivals(runs, found, dump.missing, as_submitted=as_submitted, bound=bound))
    if lost_s:
        remarks.append(f"earlier runs of requeued jobs used {_hours(lost_s)} that the log does not have")
    if counts[STEPS] and used_s:
        remarks.append(f"the steps used {_hours(used_s)} of the {_hours(held_s)} that the jobs held")
    if dump.missing:
        remarks.append(f"the dump has no {', '.join(dump.missing)}")
    if dump.bad_row:
        remarks.append(f"the first row that was left out: {dump.bad_row}")
    return Imported(tuple(found), {text: count for text, count in counts.items() if count}, tuple(remarks))


def _arrivals(
    runs: Sequence[LoggedJob], found: Sequence[LoggedJob], missing: Sequence[str], *, as_submitted: bool, bound: bool
) -> str:
    """Return in words when jobs come."""
    if as_submitted:
        return "jobs come as submitted, also those that were eligible later"
    if "Eligible" in missing:
        return "jobs come as submitted: the dump does not say when they were eligible"
    late_s = sum(job.submit_s for job in found) - sum(job.submit_s for job in runs)
    if bound:
        why = "if it is unknown what they waited for before they were eligible"
        return f"jobs come when they were submitted, and in all {late_s / 3600:,.1f} h later {why}"
    return f"jobs come when they are eligible, in all {late_s / 3600:,.1f} h after their submission (--as-submitted: at that)"


def _coming(job: LoggedJob, submit_s: int, bound: Bound = _UNBOUND) -> LoggedJob:
    """Return a job that comes at an instant, bound; itself where that is so: most are alike, and there may be a million."""
    same = submit_s == job.submit_s and bound == job.bound
    return job if same else job._replace(submit_s=submit_s, bound=bound)


def _by_job(rows: Sequence[SacctRow], partitions: Sequence[str], counts: Counter[str]) -> Iterator[list[SacctRow]]:
    """Yield the rows of each job, in order of submission; steps, and jobs of other partitions, are left out."""
    by_number: dict[str, list[SacctRow]] = {}
    for row in rows:
        if partitions and row.partition not in partitions:
            continue
        if "." in row.label or "." in row.number:
            counts[STEPS] += 1
        else:
            by_number.setdefault(row.number, []).append(row)
    for own in by_number.values():
        if len(own) == 1:
            yield own
            continue
        own.sort(key=lambda row: (row.submit_s, row.start_s or 0, row.line))
        begin = 0
        for place in range(1, len(own) + 1):
            if place == len(own) or not _continues(own[place - 1], own[place]):
                yield own[begin:place]
                begin = place


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
    return not row.cpus or (row.node_list in UNNAMED and not row.nodes) or (unnamed and not row.elapsed_s)


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
    others: Sequence[Sequence[SacctRow]], runs: Sequence[LoggedJob], counts: Counter[str]
) -> Iterator[LoggedJob]:
    """Yield the jobs that were cancelled while they waited, with run times as a part of their limits as those of others.

    By the CPU time, so that they bring as much work: many small jobs, as of arrays, use less of their limits than large ones do.
    """
    limited = [(job.row.cpus * job.run_s, job.row.cpus * 60 * job.row.limit_min) for job in runs if job.row.limit_min]
    part = sum(used_s for used_s, _ in limited) / max(1, sum(limit_s for _, limit_s in limited))
    for *earlier, row in others:
        if row.state != "CANCELLED" or earlier or row.end_s is None or not (row.start_s is None or _never_ran(row)):
            continue
        counts[NEVER_RAN] -= 1
        if "[" in row.label:
            counts[LOST_TASKS] += 1
            continue
        counts[CANCELLED_PENDING] += 1
        run_s = max(1, round(part * 60 * row.limit_min)) if row.limit_min else 3_600
        yield LoggedJob(row, row, row.submit_s, run_s, 0, Bound(cancel_s=max(0, row.end_s - row.submit_s)))


def _numbers(jobs: Iterable[LoggedJob]) -> Mapping[str, list[str]]:
    """Return Slurm's numbers of jobs by what a dependency may call them: a number, a task, or an array as a whole."""
    known: dict[str, list[str]] = {}
    for job in jobs:
        number, label = job.row.number, job.row.label
        for name in {number, label, label.partition("_")[0]}:
            known.setdefault(name, []).append(number)
    return known


def _bound(job: LoggedJob, known: Mapping[str, Sequence[str]], *, as_submitted: bool, told: bool) -> LoggedJob:
    """Return a job with what it waited for; it comes later than it was submitted only where nothing tells that.

    ``told``: the dump says when jobs were eligible, if ever. One that never was, such as a held one, never starts.
    """
    first, row = job.first, job.row
    submit_s, command = job.submit_s, first.command
    eligible_s = max(submit_s, min(first.eligible_s or submit_s, row.start_s or row.end_s or submit_s))
    found = TASKS.fullmatch(first.label)
    array = int(found[1]) if found else 0
    listed = _RANGE.search(command) if array else None
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
    return _coming(job, submit_s, Bound(after, begin_s, cancel_s, array if at_once else 0, at_once))


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


def _vanished(rows: Iterable[SacctRow], partitions: Sequence[str]) -> int:
    """Return how many tasks have no row: those that the submission asked for, else the gaps below an array's last task."""
    seen: dict[str, list[range]] = {}
    asked: dict[str, Sequence[range]] = {}
    for row in rows:
        found = TASKS.fullmatch(row.label)
        if found is None or (partitions and row.partition not in partitions):
            continue
        array, task, waiting = found.groups()
        seen.setdefault(array, []).extend(tasks_in(task or waiting)[0])
        told = _asked(row.command)
        if told is not None:
            asked[array] = told
    return sum(_missing(asked.get(array), tasks) for array, tasks in seen.items())


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


def nodes_by_partition(jobs: Iterable[LoggedJob]) -> Mapping[str, set[str]]:
    """Return the nodes that jobs of each partition name."""
    nodes: dict[str, set[str]] = {}
    for partition, listed in dict.fromkeys((job.row.partition, job.row.node_list) for job in jobs):
        nodes.setdefault(partition, set()).update(() if listed in UNNAMED else expand(listed))
    return nodes


def _by_partition(jobs: Sequence[LoggedJob], *, pools: bool) -> Iterator[str]:
    """Yield the partitions with their jobs and nodes; without ``pools`` a warning for those that share no node: machines apart."""
    nodes = nodes_by_partition(jobs)
    count = Counter(job.row.partition for job in jobs)
    if len(count) < 2:
        return
    yield "partitions: " + ", ".join(
        f"{name or 'none'} ({number} jobs on {len(nodes[name])} nodes)" for name, number in count.most_common()
    )
    apart = [
        name
        for name, own in nodes.items()
        if own and not any(own & other for rest, other in nodes.items() if rest != name)
    ]
    if apart and not pools:
        yield f"warning: {', '.join(sorted(apart))}: no node in common with the others; import each alone (--partition)"


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:,.1f} CPU hours"


# What the jobs of a dump were bound by that a scenario of it does not have: counted, one line for each.
#
# Where it matters, jobs start sooner in a simulation than they could: eight jobs of a GPU each run at once on a node with four.

# Counts of `sacct_jobs` that are about it.
TOLD_OF_JOBS: Final = (THROTTLED, COMPONENTS, NO_NODES)


_Test = Callable[[SacctRow, str], bool]  # of a row, and of the options of its submission


def _resource(name: str, option: str) -> _Test:
    """Return whether a row has a resource, by its name in TRES, or, where none are told, by an option."""
    named, asked = re.compile(name), re.compile(rf"\s(?:{option})", re.ASCII)

    def applies(row: SacctRow, options: str) -> bool:
        amounts = [*row.allocated.items(), *row.requested.items()]
        if any(amount and named.fullmatch(resource) for resource, amount in amounts):
            return True
        return not amounts and asked.search(options) is not None

    return applies


def _has_memory(row: SacctRow, _: str) -> bool:
    told = row.requested.get("mem") or row.allocated.get("mem")
    return bool(told) or re.search("[1-9]", row.memory) is not None


def _matches(option: str) -> _Test:
    asked = re.compile(rf"\s(?:{option})", re.ASCII)
    return lambda _, options: asked.search(options) is not None


def _waited_for(reason: str) -> _Test:
    known = re.compile(reason)
    return lambda row, _: known.fullmatch(row.reason) is not None


_KINDS: Final[Sequence[tuple[str, Sequence[_Test]]]] = (
    ("jobs had GPUs", [_resource(r"gres/gpu(:.*)?", r"--gres[= ]\S*gpu|--gpus[-= ]|-G ?[0-9a-z]")]),
    ("jobs had other generic resources, or burst buffers", [_resource(r"gres/(?!gpu)[^/]*|bb/.*", r"--gres[= ](?!\S*gpu)|--bb")]),
    ("jobs asked for memory", [_has_memory]),
    ("jobs had licences", [_resource("license/.*", "$"), _matches(r"-L ?\S|--licenses[= ]"), _waited_for("Licenses")]),
    ("jobs ran in reservations", [lambda row, _: row.reservation not in UNNAMED]),
    ("jobs waited at a limit of their QOS, account, user or partition", [_waited_for(r"(QOS|Assoc|Max|Partition\w*Limit)\w*")]),
    (
        "jobs asked for certain nodes, features or a network",
        [_matches(r"-[Cwx] ?[^\s-]|--(?:constraint|nodelist|exclude|prefer|switches)[= ]|--contiguous")],
    ),
)  # fmt: skip


_ALIKE: Final = 1 << 16  # kinds of rows that are kept


@lru_cache(1 << 16)
def options_of(command: str) -> str:
    """Return the options of a submission, without the script and its arguments: an option has one value at most."""
    kept: list[str] = []
    for word in command.split()[1:]:
        if not word.startswith("-") and not (kept and kept[-1].startswith("-")):
            break
        kept.append(word)
    return " ".join(("", *kept))


def unmodelled(jobs: Sequence[LoggedJob], counts: Mapping[str, int], sizes: int) -> Iterator[str]:
    """Yield what binds some jobs, and no scenario has; ``sizes``: of nodes. No name of a site's is told."""
    rows = [job.row for job in jobs]
    found = Counter[str]()
    known: dict[tuple[object, ...], list[str]] = {}  # of rows that are alike in all that is looked at
    for row in rows:
        options = options_of(row.command)
        alike = (id(row.requested), id(row.allocated), row.memory, row.reservation, row.reason, options)
        told_of = known.get(alike)
        if told_of is None:
            if len(known) >= _ALIKE:
                known.clear()
            told_of = [told for told, tests in _KINDS if any(applies(row, options) for applies in tests)]
            known[alike] = told_of
        for told in told_of:
            found[told] += 1
    yield from (f"{found[told]} {told}" for told, _ in _KINDS if told in found)
    for text in TOLD_OF_JOBS:
        if text in counts:
            yield f"{counts[text]} {text}"
    yield from _named("QOS: their priorities, limits and preemption", (row.qos for row in rows), least=1)
    yield from _named("accounts: fair share, and their limits", (row.account for row in rows), least=2)
    yield from _partitions(jobs)
    if sizes > 1:
        yield f"nodes of {sizes} sizes: a job may run on any that it fits on"


def _named(told: str, names: Iterable[str], *, least: int) -> Iterator[str]:
    count = Counter(name for name in names if name not in UNNAMED)
    if len(count) >= least:
        yield f"{sum(count.values())} jobs of {len(count)} {told}"


def _partitions(jobs: Sequence[LoggedJob]) -> Iterator[str]:
    """Yield how many partitions there are, and how many of them share nodes."""
    nodes = nodes_by_partition(jobs)
    if len(nodes) < 2:
        return
    users = Counter(node for own in nodes.values() for node in own)
    shared = sum(any(users[node] > 1 for node in own) for own in nodes.values())
    on = f"{shared} of them on the same nodes" if users else "whether on the same nodes is not known"
    yield f"{len(jobs)} jobs of {len(nodes)} partitions, {on}: a job may run on any node; their priorities and limits"
