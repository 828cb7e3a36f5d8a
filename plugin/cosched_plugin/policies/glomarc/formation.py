"""Choice of the jobs to match with a primary: steps 1 to 5 of group formation (G-LOMARC-TS paper, section 4.5).

Candidates are sorted and divided into blocks; a window as wide as the primary slides over the first block, and its contents are a
group; where the primary has nodes left that no job shares, jobs of the other blocks may fill them. The sixth step, the check that
no other job is delayed too much, is the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

from cosched_plugin import api
from cosched_plugin.policies.glomarc.upkeep import Member, Outcome, Slowdown, evolve, remember
from cosched_plugin.policies.placement.spread import NodeHalves, limit_beside

# Values of settings, the default first.
BEST, FIRST, ALL, NONE_OF_THEM, ONE, WAITING = "best", "first", "all", "none", "one", "waiting"
CHOICES: Final = (BEST, FIRST)  # the group with the highest gain, or the first that is suitable
# Candidates of all blocks, of the first one; or all are one block, and not sorted
BLOCKS: Final = (ALL, FIRST, NONE_OF_THEM)
TRIES: Final = (ALL, ONE)  # windows of a primary that are tried in turn while they are refused
LOW_LOADS: Final = (ALL, WAITING, NONE_OF_THEM)  # the jobs that must fit with a node for each process


@dataclass(frozen=True, slots=True)
class Search:
    """Parameters of the search for groups: table 6 of the paper, and its variants."""

    max_slowdown: float = 1.25  # largest of either job beside the other, own slowdown not counted (step 1)
    min_gain: float = 0.45
    block: int = 16
    larger: float = 0.125  # by how much matched jobs may take more nodes than the primary
    longer_s: float = 3000.0  # by how much a matched job may take longer than the primary
    running: int = 8  # how many running jobs are considered as primary
    most: int = 0  # matched jobs in a group; 0: as many as fit
    choice: str = CHOICES[0]
    blocks: str = BLOCKS[0]
    sort: bool = True  # whether jobs of a block are sorted by what they have left
    sort_running: bool = True  # whether those that run are, too; else the least delayed stay first (footnote 1)
    absolute: bool = False  # whether groups are ranked by the node time that they save, not by its share (section 4.6)
    fairness_tries: str = TRIES[0]


_new = tuple.__new__  # a call of the class takes twice as long


class Found(NamedTuple):
    """A group that could be formed."""

    primary: Member
    matched: tuple[Member, ...]
    outcome: Outcome
    falls_back: bool = False  # whether it is tried only after those of the best windows

    @property
    def gain(self) -> float:
        """Return the utilisation gain."""
        return self.outcome.gain

    @property
    def saved_us(self) -> float:
        """Return the node time that the group saves."""
        return self.gain * self.outcome.together_us * self.nodes

    @property
    def nodes(self) -> int:
        """Return how many nodes the group takes, those of the primary included."""
        return max(self.primary.nodes, sum([member.nodes for member in self.matched]))


Fits = Callable[[Member, Sequence[Member]], bool]


def select_candidates(
    primary: Member, candidates: Sequence[Member], search: Search, slowdown: Slowdown, halves: NodeHalves
) -> list[Member]:
    """Return the candidates that suit the primary as partners (step 1), in their order; all of them may share nodes.

    ``halves`` are of the nodes of the primary; candidates that may have none of these are left out.
    """
    most = search.max_slowdown + 0.5 / api.WHOLE_PPM  # slowdowns are known to a millionth
    found = []
    longest_us = search.longer_s * api.SECOND_US
    room = primary.nodes * (1.0 + search.larger)
    own = primary.job
    own_us = primary.left_us * primary.factor
    home = primary.home
    for candidate in candidates:
        if candidate.nodes > room or not candidate.home & home:
            continue
        job = candidate.job
        beside = slowdown(job, own)
        if beside > most:
            continue
        beside_it = slowdown(own, job)
        if beside_it > most or not halves.both(own, primary.per_node, job, candidate.per_node):
            continue
        left_us, factor = candidate.left_us, candidate.factor
        # MATCHED_LONGER of table 6: what remains of a longer job would run alone on nodes that the primary has left.
        if left_us * factor * beside - own_us * beside_it <= longest_us:
            _, _, _, per_node, nodes, running, _, _, may = candidate
            found.append(_new(Member, (job, left_us, factor, per_node, nodes, running, beside, beside_it, may)))
    return found


def common_home(members: Sequence[Member]) -> api.NodeSet:
    """Return the nodes on which each of these jobs may be; none where one that runs is not on nodes that all others may have."""
    closed = held = 0
    for member in members:
        if member.running is None:
            closed |= ~member.home
        else:
            held |= member.home
    return api.NodeSet(0 if held & closed else ~closed)


def groups(
    primary: Member, candidates: Sequence[Member], search: Search, fits: Fits, must: int | None = None
) -> Iterator[Found]:
    """Yield groups of candidates that have passed step 1, the best first, or in order of discovery where the first is wanted.

    ``fits`` tells whether there is a place for a group; ``must``: a job that every group must contain; it is the
    first candidate. Where the best is wanted, the groups come from the best window and step 4; those of the other windows of the
    first block follow, unless ``fairness_tries = "one"``.
    """
    rank = ranking(search)
    if search.choice == FIRST:
        yield from _window_groups(primary, _blocks(candidates, search)[0], search, fits, must)
        return
    blocks = _blocks(candidates, search)
    windows = [*_window_groups(primary, blocks[0], search, fits, must)]
    best = max(windows, key=rank, default=None)
    if best is None:
        return
    stored = [_purify(found, must, rank) for found in (best, *_fill(primary, best, blocks[1:], search, fits))]
    yield from sorted(stored, key=rank, reverse=True)
    if search.fairness_tries == ALL:
        others = [_purify(found, must, rank) for found in windows if found is not best]
        yield from sorted(_fall_backs(others, stored), key=rank, reverse=True)


def _fall_backs(others: Sequence[Found], stored: Sequence[Found]) -> Iterator[Found]:
    """Yield the other groups, each once: step 5 may have made them equal to each other, or to a stored one."""
    seen = {frozenset([member.job.id for member in group.matched]) for group in stored}
    for group in others:
        members = frozenset([member.job.id for member in group.matched])
        if members not in seen:
            seen.add(members)
            yield group._replace(falls_back=True)


def _blocks(candidates: Sequence[Member], search: Search) -> list[list[Member]]:
    """Return the candidates in blocks (step 2), at least one."""
    if search.blocks == NONE_OF_THEM or not candidates:
        return [list(candidates)]
    cut = [list(candidates[at : at + search.block]) for at in range(0, len(candidates), search.block)]
    if search.blocks == FIRST:
        cut = cut[:1]
    # Step 2: first come, first served among pending jobs, least delayed first among running ones; within a block by remaining
    # run time, so that jobs that end together stand side by side under the window.
    if search.sort and (search.sort_running or candidates[0].running is None):
        for block in cut:
            block.sort(key=lambda member: member.left_us, reverse=True)  # stable: order of arrival among equals
    return cut


def _window_groups(
    primary: Member, block: Sequence[Member], search: Search, fits: Fits, must: int | None
) -> Iterator[Found]:
    """Yield the groups that the window shows as it slides over a block (step 3), where the gain is enough."""
    chosen = [member for member in block if member.job.id == must]
    others = [member for member in block if member.job.id != must]
    for start in range(max(1, len(others))):
        shown = list(chosen)
        for member in others[start:]:
            if not _has_room(primary, shown, member, search):
                break
            shown.append(member)
        if shown and fits(primary, shown):
            found = Found(primary, tuple(shown), evolve(primary, shown))
            # MIN_UTILGAIN of table 6.
            if found.gain >= search.min_gain:
                yield found


def _fill(
    primary: Member, best: Found, blocks: Sequence[Sequence[Member]], search: Search, fits: Fits
) -> Iterator[Found]:
    """Yield ever better groups, as jobs of the other blocks take nodes of the primary that no job shares (step 4)."""
    found = best
    rank = ranking(search)
    for block in blocks:
        for member in block:
            if not _has_room(primary, found.matched, member, search):
                continue
            group = (*found.matched, member)
            if not fits(primary, group):
                continue
            more = Found(primary, group, evolve(primary, group))
            if rank(more) > rank(found):
                found = more
                yield found


def _has_room(primary: Member, matched: Sequence[Member], member: Member, search: Search) -> bool:
    """Tell whether one more job can be matched: it must share a node with the primary, but may take a few more nodes."""
    taken = sum([other.nodes for other in matched])
    return (
        taken < primary.nodes
        and taken + member.nodes <= primary.nodes * (1.0 + search.larger)
        and not (search.most and len(matched) >= search.most)
    )


def _purify(found: Found, must: int | None, rank: Callable[[Found], float]) -> Found:
    """Return the group without those that slow the primary down most and add nothing to the gain (step 5)."""
    while len(found.matched) > 1:
        worst = max(found.matched, key=lambda member: member.beside_it)
        if worst.job.id == must:
            break
        rest = tuple(member for member in found.matched if member is not worst)
        fewer = Found(found.primary, rest, evolve(found.primary, rest))
        if rank(fewer) < rank(found):
            break
        found = fewer
    return found


def ranking(search: Search) -> Callable[[Found], float]:
    """Return by what groups are compared with each other; what a group must gain is a share in any case."""
    return attrgetter("saved_us" if search.absolute else "gain")


# Which threads of a node the jobs of a group get, where the site's belief tells threads apart.
#
# Two divisions of a node are compared: sides (the lower and the upper cores of every CPU, as in the paper), and CPUs
# (one job on the lowest cores of the node, the other one on the highest). A job's own slowdown decides first: a
# division that makes it larger is none.

SIDES: Final = "sides"
CPUS: Final = "cpus"
# Threads of a number of processes, on the first half or on the other one
_Half: TypeAlias = Callable[[int, bool], api.ThreadMask]


class Division(NamedTuple):
    """A group with the threads of all its jobs."""

    name: str
    found: Found  # with the slowdowns on these threads
    runs: tuple[tuple[api.Run, ...], ...]  # of the primary, then of the matched jobs


def by_sides(found: Found, nodes: Sequence[Sequence[int]], halves: NodeHalves) -> Division | None:
    """Return the group on the sides of its nodes: a job that starts gets the free side of each; None if there is none."""

    def half(processes: int, upper: bool) -> api.ThreadMask:
        return halves.mask(processes, upper=upper)

    runs = _place(found, nodes, half)
    return None if runs is None else Division(SIDES, found, runs)


def best_division(
    found: Found, nodes: Sequence[Sequence[int]], halves: NodeHalves, model: api.PairModel, view: api.View
) -> tuple[Division | None, dict[str, float]]:
    """Return the division with the least slowdown of any job of the group, the first of equal ones, and the slowdown of each."""

    def half(processes: int, upper: bool) -> api.ThreadMask:
        return api.ThreadMask(((1 << processes) - 1) << (halves.whole - processes if upper else 0))

    divisions = [by_sides(found, nodes, halves)]
    runs = _place(found, nodes, half)
    if runs is not None and _keeps_factors(found, runs, halves):
        divisions.append(Division(CPUS, found, runs))
    known = [_with_slowdowns(division, model, view) for division in divisions if division is not None]
    if not known:
        return None, {}
    compared = {division.name: _worst(division) for division in known}
    return min(known, key=_worst), compared


def _place(found: Found, nodes: Sequence[Sequence[int]], half: _Half) -> tuple[tuple[api.Run, ...], ...] | None:
    """Return the runs of all jobs; None if neither half of some node is free for one that starts."""
    members = (found.primary, *found.matched)
    taken: dict[int, int] = {}
    for member in members:
        for node, mask in () if member.running is None else api.each_mask(member.running.runs):
            taken[node] = taken.get(node, 0) | mask
    placed = []
    for member, held in zip(members, nodes, strict=True):
        if member.running is not None:
            placed.append(member.running.runs)
            continue
        on_nodes = []
        left = member.job.processes
        for node in held:
            count = min(left, member.per_node)
            left -= count
            mask = half(count, False)
            if mask & taken.get(node, 0):
                mask = half(count, True)
            if mask & taken.get(node, 0):
                return None
            taken[node] = taken.get(node, 0) | mask
            on_nodes.append((node, mask, count))
        placed.append(api.runs_from(on_nodes))
    return tuple(placed)


def _keeps_factors(found: Found, runs: Sequence[Sequence[api.Run]], halves: NodeHalves) -> bool:
    """Tell whether no job that starts slows itself down more than the group's forecast has it."""
    return all(
        member.running is not None or all(halves.factor_on(member.job, run.mask) <= member.factor for run in placed)
        for member, placed in zip((found.primary, *found.matched), runs, strict=True)
    )


def _with_slowdowns(division: Division, model: api.PairModel, view: api.View) -> Division:
    """Return the group with the slowdowns that its jobs have on their threads, and its forecast with these."""
    primary = division.found.primary
    own = api.SeatOf(primary.job, division.runs[0])
    matched = []
    for member, runs in zip(division.found.matched, division.runs[1:], strict=True):
        beside_it, beside = api.slowdowns_on(own, api.SeatOf(member.job, runs), model, view)
        matched.append(member._replace(beside=beside, beside_it=beside_it))
    found = division.found._replace(matched=tuple(matched), outcome=evolve(primary, matched))
    return division._replace(found=found)


def _worst(division: Division) -> float:
    return max([max(member.beside, member.beside_it) for member in division.found.matched])


# A group with its nodes: which jobs start where, which go on at another pace, and the notes about them.


class Group(NamedTuple):
    """A group that starts now: all its jobs, or all but those that run already."""

    found: Found
    starts: tuple[api.StartJob, ...]
    decisions: tuple[api.Action, ...]
    occupancies: tuple[api.Occupancy, ...]  # of all its jobs, from now on
    # The division of its nodes, and the slowdown of each that was compared
    seat: tuple[str, dict[str, float]] | None = None

    @property
    def sole(self) -> None:
        """Return None: the job is co-located."""
        return

    @property
    def job_ids(self) -> tuple[int, ...]:
        """Return the jobs that start."""
        return tuple(start.job_id for start in self.starts)

    @property
    def end_us(self) -> int:
        """Return the latest expected end of its jobs."""
        return max(occupancy.end_us for occupancy in self.occupancies)

    def threads_held(self, at_us: int, view: api.View) -> api.Layers:
        """Return the threads of the nodes that are free at ``at_us`` without the group and held with it."""
        nodes_view = api.whole_nodes(view)
        nodes = 0
        for occupancy in self.occupancies:
            if occupancy.end_us > at_us:
                nodes |= occupancy.nodes
        expected = {occupancy.job_id: occupancy for occupancy in nodes_view.occupancies()}
        for occupancy in self.occupancies:
            before = expected.get(occupancy.job_id)
            if before is not None and before.end_us > at_us:
                nodes &= ~before.nodes
        return nodes_view.firsts(api.NodeSet(nodes))

    def count_held(self, at_us: int, view: api.View) -> int:
        """Return how many threads these are."""
        return api.size(self.threads_held(at_us, view))


def seat_group(
    found: Found, footprints: api.NodePlacement, halves: NodeHalves, view: api.WholeNodesView, most: float
) -> Group | None:
    """Return a group on its nodes; None if there are too few empty ones for it, or a slowdown on its threads is above ``most``."""
    nodes = _nodes_of(found, footprints, view)
    if nodes is None:
        return None
    seat = None
    if view.pairs is not None and view.pairs.by_seat:
        division, compared = best_division(found, nodes, halves, view.pairs, view)
        if division is None or compared[division.name] > most:
            return None
        seat = (division.name, compared)
    else:
        division = by_sides(found, nodes, halves)
        if division is None:
            return None
    found = division.found
    now_us = view.now_us
    members = (found.primary, *found.matched)
    starts: list[api.StartJob] = []
    revisions: list[api.Action] = []
    occupancies: list[api.Occupancy] = []
    for member, span_us, held, runs in zip(members, found.outcome.spans_us, nodes, division.runs, strict=True):
        occupancies.append(api.Occupancy(now_us + span_us, member.job.id, _set_of(held)))
        if member.running is None:
            starts.append(api.StartJob(member.job.id, runs, span_us, limit_beside(member.job, span_us)))
        else:
            revisions += api.expect_end(member.job.id, now_us + span_us, view)
    start: api.Action = api.StartTogether(tuple(starts)) if len(starts) > 1 else starts[0]
    decisions = (start, *revisions, *remember(found.primary, found.matched, view))
    return Group(found, tuple(starts), decisions, tuple(occupancies), seat)


def _nodes_of(found: Found, footprints: api.NodePlacement, view: api.WholeNodesView) -> list[list[int]] | None:
    """Return the nodes of every job of a group, the primary's first; None if there are too few empty ones.

    Matched jobs lie side by side on the primary's nodes, or the primary on theirs where they run; processes without room there go
    to empty nodes.
    """
    taken = [
        node
        for member in (found.primary, *found.matched)
        if member.running is not None
        for node in api.bits_of(api.any_layer(member.running.layers))
    ]
    wanted = found.nodes - len(taken)
    if wanted > 0:
        free = api.NodeSet(view.free_nodes & common_home((found.primary, *found.matched)))
        if free.bit_count() < wanted:
            return None
        taken += api.bits_of(footprints.choose_nodes(free, wanted, view))
    placed = [taken[: found.primary.nodes]]
    at = 0
    for member in found.matched:
        placed.append(taken[at : at + member.nodes])
        at += member.nodes
    return placed


def _set_of(nodes: Sequence[int]) -> api.NodeSet:
    return api.NodeSet(sum([1 << node for node in nodes]))
