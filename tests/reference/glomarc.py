"""G-LOMARC-TS's calculations, one by one and in exact fractions, literally as the paper has them.

Times are seconds where a default says so, else any one unit; slowdowns are factors; sizes are processes. Everything is
computed with fractions; a float counts as the decimal number that it prints as, so that 1.12 is 28/25. Section numbers
are those of the paper: Zeng and Sodan, "Job Scheduling with Lookahead Group Matchmaking for Time/Space Sharing on
Multi-core Parallel Machines".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from fractions import Fraction
from math import ceil
from typing import NamedTuple, TypeAlias

Number: TypeAlias = int | float | Fraction
Cos: TypeAlias = Callable[[int, int], Number]  # SL_cos by ids: of the first job while the second is on its nodes

MAX_SL = Fraction(5, 4)
SELF_SL_2 = Fraction(28, 25)
BLOCK_SIZE = 16
MATCHED_LARGER = Fraction(1, 8)
MATCHED_LONGER_S = 3000


def exact(value: Number) -> Fraction:
    """Return a number as a fraction, a float as the decimal number that it prints as."""
    return Fraction(str(value)) if isinstance(value, float) else Fraction(value)


# ---------------------------------------------------------------- processes on a node and run times


def ppn(
    size: int,
    sl_sno: Number,
    sl_scr: Number,
    cpus: int = 2,
    cores: int = 2,
    max_sl: Number = MAX_SL,
    self_sl_2: Number = SELF_SL_2,
    nodes: int = 128,
) -> int:
    """Return the processes a node of a job alone on its nodes: formula (8), or more if it needs more nodes than there are.

    With ``cpus`` CPUs of ``cores`` cores they are 1, ``cpus`` or ``cpus * cores``. Raises ValueError for a job that the
    whole machine cannot hold.
    """
    both = exact(sl_scr) * exact(sl_sno)
    if size == 1 or (exact(sl_sno) > exact(self_sl_2) and both > exact(max_sl)):
        wanted = 1
    elif size > 1 and exact(sl_sno) <= exact(self_sl_2) and both > exact(max_sl):
        wanted = cpus
    else:
        wanted = cpus * cores
    for choice in (1, cpus, cpus * cores):
        if choice >= wanted and nodes_for(size, choice) <= nodes:
            return choice
    raise ValueError(f"{size} processes on {nodes} nodes of {cpus} x {cores} cores")


def coscheduled_ppn(size: int, cpus: int = 2) -> int:
    """Return the processes a node of a job in a group: one on each CPU, and 1 for a serial job."""
    return min(size, cpus)


def nodes_for(size: int, processes: int) -> int:
    """Return how many nodes ``size`` processes need with so many a node: S/PPN, rounded up."""
    return ceil(Fraction(size, processes))


def run_factor(
    processes: int, sl_sno: Number, sl_scr: Number, partners: Iterable[Number] = (), cpus: int = 2
) -> Fraction:
    """Return how many times as long a job takes as with one process a node and no other job there (section 4.9).

    ``processes`` a node; ``partners`` are its SL_cos, one for each job that is on some of its nodes.
    """
    factor = Fraction(1)
    if processes > 1:
        factor *= exact(sl_sno)
    if processes > cpus:
        factor *= exact(sl_scr)
    return factor * max((exact(sl) for sl in partners), default=Fraction(1))


# ---------------------------------------------------------------- groups


class Member(NamedTuple):
    """A job of a group, or a candidate.

    ``left`` is the work left, as run time alone with one process a node; ``factor`` its run time factor without
    partners; ``nodes`` is the number that it holds or needs.
    """

    id: int
    size: int
    left: Number
    factor: Number
    nodes: int


def coscheduled(number: int, size: int, left: Number, sl_sno: Number, sl_scr: Number) -> Member:
    """Return a waiting job as it would be in a group."""
    processes = coscheduled_ppn(size)
    return Member(number, size, left, run_factor(processes, sl_sno, sl_scr), nodes_for(size, processes))


class Evolution(NamedTuple):
    """How a group proceeds: all instants count from now.

    ``periods`` are (length, ids of the matched jobs that run) between changes, while the group lasts; ``ends`` are
    those of all members, in the group or after it.
    """

    periods: tuple[tuple[Fraction, tuple[int, ...]], ...]
    ends: dict[int, Fraction]

    @property
    def length(self) -> Fraction:
        """Return how long the group lasts."""
        return sum((length for length, _ in self.periods), Fraction(0))


def evolve(primary: Member, matched: Sequence[Member], cos: Cos) -> Evolution:
    """Return the evolution of a group until the primary job or all matched ones have ended, and the ends (section 4.4).

    The primary job is slowed by the worst of the remaining matched jobs, a matched job only by the primary job. Jobs that
    remain when the group is disbanded continue without partners.
    """
    assert matched, "a group needs a matched job"
    left = {one.id: exact(one.left) for one in (primary, *matched)}
    assert len(left) == 1 + len(matched), "a job twice in a group"
    assert min(left.values()) > 0, "a job without work in a group"
    periods: list[tuple[Fraction, tuple[int, ...]]] = []
    ends: dict[int, Fraction] = {}
    now = Fraction(0)
    here = list(matched)
    while here and left[primary.id] > 0:
        factors = {one.id: exact(one.factor) * exact(cos(one.id, primary.id)) for one in here}
        factors[primary.id] = exact(primary.factor) * max(exact(cos(primary.id, one.id)) for one in here)
        length = min(left[job] * factor for job, factor in factors.items())
        periods.append((length, tuple(one.id for one in here)))
        now += length
        for job, factor in factors.items():
            left[job] -= length / factor
            if left[job] == 0:
                ends[job] = now
        here = [one for one in here if left[one.id] > 0]
    for one in (primary, *matched):
        if left[one.id] > 0:
            ends[one.id] = now + left[one.id] * exact(one.factor)
    return Evolution(tuple(periods), ends)


def u_gain(primary: Member, matched: Sequence[Member], cos: Cos) -> Fraction:
    """Return the utilization gain of a group: formula (6), with the nodes that it holds for S_A/PPN_A.

    It holds the nodes of the primary job, or of the matched ones together if those are more, as long as it lasts.
    """
    by_id = {one.id: one for one in matched}
    periods = evolve(primary, matched, cos).periods
    total = sum((t for t, _ in periods), Fraction(0))
    alone = Fraction(0)  # node-seconds that the same work takes with one process a node
    for t, running in periods:
        for i in running:
            alone += t * by_id[i].size / (exact(by_id[i].factor) * exact(cos(i, primary.id)))
        slowest = max(exact(cos(primary.id, i)) for i in running)
        alone += t * primary.size / (exact(primary.factor) * slowest)
    held = total * max(primary.nodes, sum(one.nodes for one in matched))
    return (alone - held) / held


def space_gain(processes: int, factor: Number) -> Fraction:
    """Return the utilization gain of a job alone on its nodes, with this number of processes a node."""
    return processes / exact(factor) - 1


# ---------------------------------------------------------------- forming groups (section 4.5)


def preselect(
    primary: Member,
    candidates: Iterable[Member],
    cos: Cos,
    max_sl: Number = MAX_SL,
    matched_longer: Number = MATCHED_LONGER_S,
) -> list[Member]:
    """Return the candidates that suit the primary job, and that it suits: step 1.

    Neither slows the other down by more than ``max_sl``, and the candidate takes at most ``matched_longer`` longer than
    the primary job, each at its pace beside the other. Size plays no part: a job that no window holds stays in.
    """
    chosen = []
    for one in candidates:
        slowed, slows = exact(cos(one.id, primary.id)), exact(cos(primary.id, one.id))
        longer = exact(one.left) * exact(one.factor) * slowed - exact(primary.left) * exact(primary.factor) * slows
        if slowed <= exact(max_sl) and slows <= exact(max_sl) and longer <= exact(matched_longer):
            chosen.append(one)
    return chosen


def blocks_of(candidates: Sequence[Member], size: int = BLOCK_SIZE, sort: bool = True) -> list[list[Member]]:
    """Return the candidates in blocks, each by decreasing ``left``, equal ones in the order that they came in: step 2.

    Waiting jobs come in queue order, running ones by increasing delay.
    """
    blocks = [list(candidates[first : first + size]) for first in range(0, len(candidates), size)]
    return [sorted(block, key=lambda one: -exact(one.left)) for block in blocks] if sort else blocks


def fits(primary: Member, matched: Iterable[Member], larger: Number = MATCHED_LARGER) -> bool:
    """Tell whether the matched jobs need at most ``larger`` of the primary job's nodes more than it has."""
    return sum(one.nodes for one in matched) - primary.nodes <= exact(larger) * primary.nodes


def windows(primary: Member, block: Sequence[Member], larger: Number = MATCHED_LARGER) -> list[tuple[Member, ...]]:
    """Return the sets in the window as it slides over a block, job by job: from each job on, as many neighbours as fit.

    No set contains a job that does not fit by itself, extends beyond such a job, or contains a job that would share no node with
    the primary job because the jobs before it use all of its nodes.
    """
    found = []
    for first in range(len(block)):
        last = first
        while (
            last < len(block)
            and sum(one.nodes for one in block[first:last]) < primary.nodes
            and fits(primary, block[first : last + 1], larger)
        ):
            last += 1
        if last > first:
            found.append(tuple(block[first:last]))
    return found


def best_window(
    primary: Member, block: Sequence[Member], cos: Cos, larger: Number = MATCHED_LARGER, wanted: int | None = None
) -> tuple[Member, ...] | None:
    """Return the window's set with the greatest gain, the first of equal ones; None if there is none: step 3.

    ``wanted``: only sets with this job count (the first waiting job, where the primary job runs: Case 3).
    """
    best: tuple[Member, ...] | None = None
    for one in windows(primary, block, larger):
        if wanted is not None and wanted not in [member.id for member in one]:
            continue
        if best is None or u_gain(primary, one, cos) > u_gain(primary, best, cos):
            best = one
    return best


def fill(
    primary: Member,
    best: tuple[Member, ...],
    blocks: Iterable[Sequence[Member]],
    cos: Cos,
    larger: Number = MATCHED_LARGER,
) -> list[tuple[Member, ...]]:
    """Return the best group, and each better one that results from adding a job of the other blocks: step 4.

    A job is added while the primary job has nodes without a partner, if it fits and the gain grows.
    """
    stored = [best]
    for block in blocks:
        for one in block:
            with_it = (*stored[-1], one)
            if sum(member.nodes for member in stored[-1]) >= primary.nodes or not fits(primary, with_it, larger):
                continue
            if u_gain(primary, with_it, cos) > u_gain(primary, stored[-1], cos):
                stored.append(with_it)
    return stored


def purify(primary: Member, matched: tuple[Member, ...], cos: Cos, wanted: int | None = None) -> tuple[Member, ...]:
    """Return the group without the jobs that slow the primary job most and add nothing to the gain: step 5.

    The worst job, the first of equal ones, leaves if the gain is no smaller without it; then the worst of the others,
    until one contributes, or is the last, or ``wanted``.
    """
    while len(matched) > 1:
        worst = max(matched, key=lambda one: exact(cos(primary.id, one.id)))
        without = tuple(one for one in matched if one is not worst)
        if worst.id == wanted or u_gain(primary, without, cos) < u_gain(primary, matched, cos):
            break
        matched = without
    return matched


class Group(NamedTuple):
    """A group that may be formed, matched jobs in the order in which they were found."""

    gain: Fraction
    matched: tuple[int, ...]


def form_groups(
    primary: Member,
    candidates: Sequence[Member],
    cos: Cos,
    wanted: int | None = None,
    block_size: int = BLOCK_SIZE,
    sort: bool = True,
    first_block_only: bool = False,
    max_sl: Number = MAX_SL,
    matched_longer: Number = MATCHED_LONGER_S,
    larger: Number = MATCHED_LARGER,
) -> list[Group]:
    """Return the groups of steps 1 to 5 by decreasing gain, equal ones as stored: the input of the fairness check.

    Without a group from the first block there is none. ``sort`` false is the variant NS, ``first_block_only`` FBO. The
    least gain of a group is not checked.
    """
    blocks = blocks_of(preselect(primary, candidates, cos, max_sl, matched_longer), block_size, sort)
    best = best_window(primary, blocks[0], cos, larger, wanted) if blocks else None
    if best is None:
        return []
    stored = fill(primary, best, [] if first_block_only else blocks[1:], cos, larger)
    pure = dict.fromkeys(purify(primary, one, cos, wanted) for one in stored)
    groups = [Group(u_gain(primary, one, cos), tuple(member.id for member in one)) for one in pure]
    return sorted(groups, key=lambda group: -group.gain)


# ---------------------------------------------------------------- forecast: first come, first served, conservative


class Waiting(NamedTuple):
    """A job, or a group as one, that needs whole nodes for a span of time."""

    id: int
    nodes: int
    span: Number


class Planned(NamedTuple):
    """The start and the end of a pending job."""

    start: Fraction
    end: Fraction


def forecast(
    nodes: int,
    now: Number,
    running: Iterable[tuple[Number, Collection[int]]],
    waiting: Iterable[Waiting],
    keep_nodes: bool = False,
) -> dict[int, Planned]:
    """Return the starts and ends of pending jobs if each, in turn, takes the earliest time that delays no job before it.

    ``running`` are (end, nodes of the job), with ends after ``now``; jobs that share a node free it when the last one
    ends. Nodes are 0 to ``nodes`` - 1, all equal. A job gets its nodes when it starts, so that only their number matters
    before; with ``keep_nodes`` it gets them when it is planned: those with the lowest numbers that are free for its span.
    """
    start_of_time = exact(now)
    free_from = dict.fromkeys(range(nodes), start_of_time)
    for end, held in running:
        assert exact(end) > start_of_time, f"a running job that ends at {end}, at {now}"
        for node in held:
            assert node in free_from, f"a running job on node {node} of {nodes}"
            free_from[node] = max(free_from[node], exact(end))
    plans: dict[int, Planned] = {}
    taken: list[tuple[Planned, int, frozenset[int]]] = []  # with the number of nodes, and the nodes if they are known
    for job in waiting:
        assert job.id not in plans, f"job {job.id} twice"
        assert 0 < job.nodes <= nodes, f"job {job.id}: {job.nodes} of {nodes} nodes"
        assert job.span > 0, f"job {job.id}: a span of {job.span}"
        instants = sorted({start_of_time, *free_from.values(), *(plan.end for plan, _, _ in taken)})
        for start in instants:
            plan = Planned(start, start + exact(job.span))
            if keep_nodes:
                room = [
                    node
                    for node in range(nodes)
                    if free_from[node] <= start
                    and not any(node in kept and _overlap(plan, other) for other, _, kept in taken)
                ]
                least = len(room)
            else:
                room = []
                least = min(
                    sum(free <= instant for free in free_from.values())
                    - sum(count for other, count, _ in taken if other.start <= instant < other.end)
                    for instant in (start, *(other.start for other, _, _ in taken if start < other.start < plan.end))
                )
            if least >= job.nodes:
                plans[job.id] = plan
                taken.append((plan, job.nodes, frozenset(room[: job.nodes])))
                break
    return plans


def _overlap(one: Planned, other: Planned) -> bool:
    return one.start < other.end and other.start < one.end
