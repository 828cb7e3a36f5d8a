"""LOMARC's calculations, one by one and in exact fractions, and a judge of schedules in which jobs share nodes.

Shares and memory are parts of the whole, slowdowns are factors, times are seconds, work is node-seconds; only
`check_schedule` counts microseconds. Whole numbers and fractions are computed with exactly; where every time and
slowdown is a float, so is the result, in the order in which the formulas are written.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Literal, NamedTuple, TypeAlias

Number: TypeAlias = float | Fraction
Bound: TypeAlias = Literal["cpu", "network", "disk"]
Cpu: TypeAlias = Literal["hyperthreaded", "standard"]
Heuristic: TypeAlias = Literal["first", "u1", "u2", "response"]
Class: TypeAlias = Literal["short", "medium", "long"]
SizeAndTime: TypeAlias = tuple[int, Number]
Run: TypeAlias = tuple[int, int, int, int]  # first node, node count, thread mask, processes on each node

WHOLE_PPM = 1_000_000
GOOD_C = Fraction(7, 5)
BAD_C = Fraction(2)
PAGING = Fraction(5, 2)
MAX_SLOWDOWN = Fraction(8, 5)
LEVELS: Sequence[Class] = ("short", "medium", "long")


class Usage(NamedTuple):
    """Shares of the run time on each resource, which add up to 1, and the memory as a share of a node's."""

    bound: Bound
    cpu: Number
    network: Number
    disk: Number
    memory: Number


class Job(NamedTuple):
    """A pending job: nodes, one process on each, and its run time alone as far as it is known."""

    id: int
    size: int
    time: Number
    usage: Usage


def _exact(value: Number) -> Number:
    """Return a whole number as a fraction, and all else as it is."""
    return Fraction(value) if isinstance(value, int) else value


# ---------------------------------------------------------------- slowdowns of two jobs


def slowdown(a: Usage, b: Usage, c: Number, remainder: bool = True, paging: Number = PAGING) -> Number:
    """Return the factor by which both jobs of a pair slow down; at least ``paging`` where their memory does not fit.

    ``remainder``: the time in which neither competes counts as 1; otherwise the formula as printed, cut at 1.
    """
    cpu, network, disk = min(a.cpu, b.cpu), min(a.network, b.network), min(a.disk, b.disk)
    factor = c * cpu + 2 * network + 2 * disk
    factor = factor + (1 - cpu - network - disk) if remainder else max(1, factor)
    return max(factor, paging) if a.memory + b.memory > 1 else factor


def effective_c(a: Bound, b: Bound, drawn: Number, cpu: Cpu, c_scope: Literal["all", "cpu_cpu"]) -> Number:
    """Return the c that counts for a pair whose draw is ``drawn``."""
    if cpu == "standard":
        return BAD_C  # the CPU part is time-shared
    return drawn if c_scope == "all" or a == b == "cpu" else GOOD_C


def u_gain_2(size_a: int, size_b: int, sl: Number) -> Number:
    """Return the relative utilization gain without regard to time."""
    sl = _exact(sl)
    return (min(size_a, size_b) * (2 / sl - 1) - abs(size_a - size_b) * (1 - 1 / sl)) / max(size_a, size_b)


def u_gain_1(size_a: int, time_a: Number, size_b: int, time_b: Number, sl: Number) -> Number:
    """Return the relative utilization gain, weighted with the part of the longer job's time that the two share."""
    return u_gain_2(size_a, size_b, sl) * min(_exact(time_a), _exact(time_b)) / max(_exact(time_a), _exact(time_b))


def response_time_impact(
    n_nodes: int,
    current: SizeAndTime,
    moved: SizeAndTime,
    sl: Number,
    push_down: Sequence[SizeAndTime],
    pull_up: Sequence[SizeAndTime],
    future_short: tuple[Number, Number] = (0, 0),
    future_long: tuple[Number, Number] = (0, 0),
    running: bool = False,
) -> Number:
    """Return the profit in relative response times of moving a job up to share the nodes of the current one.

    ``push_down`` are the jobs that the moved one overtakes, ``pull_up`` those behind it, both in queue order.
    Future arrivals are (expected number, mean work); ``future_long`` includes medium jobs. An expected number m of
    them is floor(m) jobs of the mean work, one after the other, and one more such job that comes with probability
    m - floor(m): it adds its whole work to the response time, and its gain counts with that probability.

    ``running``: the current job runs already and ``current`` has its remaining time; the newcomer is ``moved``. It
    overtakes no job, and all others in the queue are behind it.
    """
    size_i, time_i, size_j, time_j = current[0], _exact(current[1]), moved[0], _exact(moved[1])
    sl = _exact(sl)
    assert not running or (not push_down and size_j <= size_i), "a newcomer stays inside its host, and overtakes no job"
    pairrun = min(time_i, time_j) * (sl - 1) + max(time_i, time_j)
    pairsize = max(size_i, size_j)
    delay = (pairrun * pairsize - time_i * size_i) / n_nodes
    improvement = time_j * size_j / n_nodes - delay
    resp = time_i * size_i / n_nodes
    inc = delay / resp
    dec: Number = Fraction(0)
    for size_k, time_k in push_down:
        resp += _exact(time_k) * size_k / n_nodes
        inc += delay / resp
    resp += time_j * size_j / n_nodes
    dec += (resp - time_j * sl * size_j / n_nodes) / resp
    for size_k, time_k in pull_up:
        resp += _exact(time_k) * size_k / n_nodes
        dec += improvement / resp

    number, work = future_short
    inc += number * (delay / max(_exact(work) / n_nodes, Fraction(60)))
    number, work = _exact(future_long[0]), _exact(future_long[1])
    for _ in range(math.floor(number)):
        resp += work / n_nodes
        dec += improvement / resp
    if number > math.floor(number):
        resp += work / n_nodes
        dec += (number - math.floor(number)) * (improvement / resp)
    return (dec - inc) / max(len(push_down) + len(pull_up), 1)


# ---------------------------------------------------------------- classes and order


def job_class(time: Number) -> Class:
    """Return the class of a job with this run time: short up to a minute, medium up to an hour, long above."""
    return "short" if time <= 60 else "medium" if time <= 3600 else "long"


def class_order(
    jobs: Iterable[tuple[int, Number, Number]], now: Number, mean_wait: Number | None
) -> list[tuple[int, Number, Number]]:
    """Sort jobs (id, submit, estimate) by (level, submit, id); a job rises one level for each mean wait that it has waited."""

    def key(job: tuple[int, Number, Number]) -> tuple[int, Number, int]:
        number, submit, estimate = job
        risen = (Fraction(now) - Fraction(submit)) // Fraction(mean_wait) if mean_wait else 0
        return (max(LEVELS.index(job_class(estimate)) - risen, 0), submit, number)

    return sorted(jobs, key=key)


# ---------------------------------------------------------------- matching


def _types_match(a: Usage, b: Usage, cpu: Cpu, c: Number) -> bool:
    if cpu == "standard":
        return {a.bound, b.bound} == {"cpu", "disk"}
    if a.bound == b.bound == "cpu":
        return c < BAD_C
    return a.bound != b.bound


def _constraints(a: Job, b: Job, cpu: Cpu, c: Number) -> tuple[bool, bool, bool, bool]:
    return (
        "short" not in (job_class(a.time), job_class(b.time)),
        b.size <= a.size,
        a.usage.memory + b.usage.memory <= 1,
        _types_match(a.usage, b.usage, cpu, c),
    )


def matchable(a: Job, b: Job, cpu: Cpu, c: Number) -> bool:
    """Return whether ``b`` may share the nodes of ``a``; ``c`` is that of the pair."""
    return all(_constraints(a, b, cpu, c))


class Funnel(NamedTuple):
    """The number of candidates left after each constraint, and the position of the one taken among the last (from 1; 0: none)."""

    queued: int
    medium_or_long: int
    not_larger: int
    memory_fits: int
    types_match: int
    slowdown_fits: int
    selected: int


def find_match(
    current: Job,
    queue: Sequence[Job],
    heuristic: Heuristic,
    c_of: Callable[[Job, Job], Number],
    n_nodes: int = 128,
    cpu: Cpu = "hyperthreaded",
    remainder: bool = True,
    max_slowdown: Number = MAX_SLOWDOWN,
    future_short: tuple[Number, Number] = (0, 0),
    future_long: tuple[Number, Number] = (0, 0),
    exact: bool = True,
) -> tuple[int | None, Funnel]:
    """Return the index in ``queue`` of the best match, None if there is none, and the funnel.

    ``queue`` holds the other waiting jobs in order. The first of those with the greatest profit is taken, if that is
    above 0; ``first`` takes the first candidate whatever its profit. ``c_of`` gives the c that counts (see
    `effective_c`). ``exact`` false: every slowdown is rounded to a float, times are floats, and so are the profits.
    """

    def number(value: Number) -> Number:
        return Fraction(value) if exact else float(value)

    left = [0, 0, 0, 0, 0]  # after each constraint
    max_profit = number(0)
    best, selected = None, 0
    for index, candidate in enumerate(queue):
        c = c_of(current, candidate)
        sl = number(slowdown(current.usage, candidate.usage, c, remainder))
        constraints = (*_constraints(current, candidate, cpu, c), sl <= number(max_slowdown))
        for step in range(5):
            left[step] += all(constraints[: step + 1])
        if not all(constraints):
            continue
        pair = ((current.size, number(current.time)), (candidate.size, number(candidate.time)))
        profit: Number
        match heuristic:
            case "first":
                profit = 1
            case "u1":
                profit = u_gain_1(*pair[0], *pair[1], sl)
            case "u2":
                profit = u_gain_2(pair[0][0], pair[1][0], sl)
            case "response":
                ahead = [(job.size, number(job.time)) for job in queue[:index]]
                behind = [(job.size, number(job.time)) for job in queue[index + 1 :]]
                profit = response_time_impact(n_nodes, *pair, sl, ahead, behind, future_short, future_long)
        if profit > max_profit:
            max_profit, best, selected = profit, index, left[4]
    return best, Funnel._make((len(queue), *left, selected))


# ---------------------------------------------------------------- the judge of schedules


class FinishedJob(NamedTuple):
    """A job that has done all its work: its run time alone, and its memory on each of its nodes."""

    id: int
    run_us: int
    memory_ppm: int = 0


class Stay(NamedTuple):
    """A job's time on its nodes, from its start to its end, and the spans [from, until) in which it was suspended."""

    job: int
    start_us: int
    end_us: int
    runs: tuple[Run, ...]
    suspended_us: tuple[tuple[int, int], ...] = ()


Neighbours: TypeAlias = dict[int, set[int]]  # job -> nodes shared with it


def _check_stay(stay: Stay, nodes: int, threads_per_node: int) -> dict[int, int]:
    """Check that a stay is possible by itself; return the thread mask on each of its nodes."""
    assert stay.start_us < stay.end_us, f"job {stay.job}: ends at {stay.end_us} us, not after its start"
    instants = [stay.start_us, *(instant for span in stay.suspended_us for instant in span), stay.end_us]
    assert instants == sorted(instants), f"job {stay.job}: suspended spans out of order or outside its stay"
    masks: dict[int, int] = {}
    for first, count, mask, processes in stay.runs:
        assert count > 0, f"job {stay.job}: a run without nodes"
        assert processes > 0, f"job {stay.job}: nodes without a process"
        assert 0 < mask < 1 << threads_per_node, f"job {stay.job}: thread mask {mask:#b} of {threads_per_node} threads"
        for node in range(first, first + count):
            assert 0 <= node < nodes, f"job {stay.job}: node {node} of {nodes}"
            assert node not in masks, f"job {stay.job}: node {node} twice"
            masks[node] = mask
    assert masks, f"job {stay.job}: no nodes"
    return masks


def _check_node(
    node: int, residents: Sequence[tuple[Stay, int]], memory_ppm: Mapping[int, int] | None
) -> set[tuple[int, int]]:
    """Check the jobs on a node together; return the pairs of jobs that shared it at any time."""
    pairs: set[tuple[int, int]] = set()
    present: list[tuple[Stay, int]] = []
    for stay, mask in sorted(residents, key=lambda one: (one[0].start_us, one[0].job)):
        present = [one for one in present if one[0].end_us > stay.start_us]
        who = f"node {node} at {stay.start_us} us: jobs {[*(one[0].job for one in present), stay.job]}"
        for other, others_mask in present:
            assert not mask & others_mask, f"{who}: a hardware thread held twice"
            pairs.add((stay.job, other.job))
        present.append((stay, mask))
        assert len(present) <= 2, f"{who}: more than two jobs"
        if memory_ppm is not None and len(present) == 2:
            total = sum(memory_ppm[one[0].job] for one in present)
            assert total <= WHOLE_PPM, f"{who}: {total} ppm of the memory"
    return pairs


def _running_spans(stay: Stay) -> list[tuple[int, int]]:
    """Return the spans [since, until) of a stay in which its job was not suspended."""
    sinces = [stay.start_us, *(until for _, until in stay.suspended_us)]
    untils = [*(since for since, _ in stay.suspended_us), stay.end_us]
    return [(since, until) for since, until in zip(sinces, untils, strict=True) if since < until]


def _work_done(
    stay: Stay, shared: Neighbours, stays: Mapping[int, Stay], excess: Mapping[int, Number], exact: bool
) -> Number:
    """Return the work of a job during its stay, in microseconds of its run time alone.

    ``shared`` are its neighbours; ``excess`` is what each of them adds to its slowdown while both run.
    """
    # All changes: (instant, job, whether it runs from then on).
    changes: list[tuple[int, int, bool]] = []
    for job in (stay.job, *shared):
        for since, until in _running_spans(stays[job]):
            changes += [(since, job, True), (until, job, False)]
    now = stay.start_us
    runs: set[int] = set()
    time_at: defaultdict[Number, int] = defaultdict(int)  # slowdown -> time with this slowdown
    for instant, job, runs_now in sorted(changes):
        if now < instant <= stay.end_us:
            if stay.job in runs:
                load: defaultdict[int, Number] = defaultdict(int)
                for other in sorted(runs - {stay.job}):
                    for node in shared[other]:
                        load[node] += excess[other]
                time_at[1 + max(load.values(), default=0)] += instant - now
            now = instant
        (runs.add if runs_now else runs.discard)(job)
    parts = [Fraction(time) / Fraction(sl) if exact else time / sl for sl, time in sorted(time_at.items())]
    return sum(parts, Fraction(0)) if exact else math.fsum(parts)


def check_schedule(
    jobs: Iterable[FinishedJob],
    stays: Iterable[Stay],
    nodes: int,
    slowdown_of: Callable[[int, int], Number],
    threads_per_node: int = 2,
    memory_rule: bool = True,
    exact: bool = True,
    tolerance_us: int = 3,
) -> None:
    """Raise AssertionError unless the schedule is possible and every job did exactly its work.

    No hardware thread is held twice; at most two jobs are on a node, suspended ones included; their memory fits
    together (``memory_rule``). A job runs at 1/(1 + p), where p is the largest over its nodes of the sum of slowdown - 1
    over the other jobs there that are not suspended; a suspended job makes no progress. ``slowdown_of`` takes
    two job ids. Ends are rounded up to whole microseconds, hence the tolerance. ``exact`` false: work is summed in
    floats.
    """
    by_id = {job.id: job for job in jobs}
    stay_of: dict[int, Stay] = {}
    on_node: defaultdict[int, list[tuple[Stay, int]]] = defaultdict(list)
    for stay in stays:
        assert stay.job in by_id, f"job {stay.job}: unknown"
        assert stay.job not in stay_of, f"job {stay.job}: two stays"
        stay_of[stay.job] = stay
        for node, mask in _check_stay(stay, nodes, threads_per_node).items():
            on_node[node].append((stay, mask))
    assert len(stay_of) == len(by_id), f"jobs {sorted(by_id.keys() - stay_of.keys())}: no stay"

    memory_ppm = {job.id: job.memory_ppm for job in by_id.values()} if memory_rule else None
    shared: dict[int, Neighbours] = {job: {} for job in by_id}
    for node in sorted(on_node):
        for one, other in _check_node(node, on_node[node], memory_ppm):
            shared[one].setdefault(other, set()).add(node)
            shared[other].setdefault(one, set()).add(node)
    for job in sorted(by_id):
        excess = {other: slowdown_of(job, other) - 1 for other in shared[job]}
        if exact:
            excess = {other: Fraction(one) for other, one in excess.items()}
        work = _work_done(stay_of[job], shared[job], stay_of, excess, exact)
        assert -tolerance_us <= work - by_id[job].run_us <= tolerance_us, (
            f"job {job}: {float(work)} us of work done in its stay, of {by_id[job].run_us} us"
        )
