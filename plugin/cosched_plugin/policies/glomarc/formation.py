"""Choice of the jobs to match with a primary: steps 1 to 5 of group formation (G-LOMARC-TS paper, section 4.5).

Candidates are sorted and divided into blocks; a window as wide as the primary slides over the first block, and its contents are a
group; where the primary has nodes left that no job shares, jobs of the other blocks may fill them. The sixth step, the check that
no other job is delayed too much, is the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cosched_plugin.api import SECOND_US, WHOLE_PPM
from cosched_plugin.policies.glomarc.evolution import Member, Outcome, evolve
from cosched_plugin.policies.glomarc.group_upkeep import Slowdown
from cosched_plugin.policies.placement.spread import NodeHalves


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
    choice: str = "best"  # or first: the first suitable group
    blocks: str = "all"  # or first: no job of the other blocks; none: all candidates are one block, and not sorted
    sort: bool = True  # whether jobs of a block are sorted by what they have left
    fairness_tries: str = "one"  # windows of a primary that are tried in turn while they are refused; or all


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
    def nodes(self) -> int:
        """Return how many nodes the group takes, those of the primary included."""
        return max(self.primary.nodes, sum([member.nodes for member in self.matched]))


Fits = Callable[[Member, Sequence[Member]], bool]


def select_candidates(
    primary: Member, candidates: Sequence[Member], search: Search, slowdown: Slowdown, halves: NodeHalves
) -> list[Member]:
    """Return the candidates that suit the primary as partners (step 1), in their order; all of them may share nodes."""
    most = search.max_slowdown + 0.5 / WHOLE_PPM  # slowdowns are known to a millionth
    found = []
    longest_us = search.longer_s * SECOND_US
    room = primary.nodes * (1.0 + search.larger)
    own = primary.job
    own_us = primary.left_us * primary.factor
    for candidate in candidates:
        if candidate.nodes > room:
            continue
        job = candidate.job
        beside = slowdown(job, own)
        if beside > most:
            continue
        beside_it = slowdown(own, job)
        if beside_it > most or not halves.both(own, primary.per_node, job, candidate.per_node):
            continue
        left_us, factor = candidate.left_us, candidate.factor
        if left_us * factor * beside - own_us * beside_it <= longest_us:
            found.append(
                Member(job, left_us, factor, candidate.per_node, candidate.nodes, candidate.running, beside, beside_it)
            )
    return found


def groups(
    primary: Member, candidates: Sequence[Member], search: Search, fits: Fits, must: int | None = None
) -> Iterator[Found]:
    """Yield groups of candidates that have passed step 1, the best first, or in order of discovery where the first is wanted.

    ``fits`` tells whether there is a place for a group; ``must``: a job that every group must contain; it is the
    first candidate. Where the best is wanted, the groups come from the best window and step 4 (as in the paper); under
    ``fairness_tries = "all"``, those of the other windows of the first block follow.
    """
    if search.choice == "first":
        yield from _window_groups(primary, _blocks(candidates, search)[0], search, fits, must)
        return
    blocks = _blocks(candidates, search)
    windows = [*_window_groups(primary, blocks[0], search, fits, must)]
    best = max(windows, key=_gain, default=None)
    if best is None:
        return
    stored = [_purify(found, must) for found in (best, *_fill(primary, best, blocks[1:], search, fits))]
    yield from sorted(stored, key=_gain, reverse=True)
    if search.fairness_tries == "all":
        others = [_purify(found, must) for found in windows if found is not best]
        yield from sorted(_fall_backs(others, stored), key=_gain, reverse=True)


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
    if search.blocks == "none" or not candidates:
        return [list(candidates)]
    cut = [list(candidates[at : at + search.block]) for at in range(0, len(candidates), search.block)]
    if search.blocks == "first":
        cut = cut[:1]
    if search.sort:
        for block in cut:
            block.sort(key=_work_left, reverse=True)  # stable: order of arrival among equals
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
            if found.gain >= search.min_gain:
                yield found


def _fill(
    primary: Member, best: Found, blocks: Sequence[Sequence[Member]], search: Search, fits: Fits
) -> Iterator[Found]:
    """Yield ever better groups, as jobs of the other blocks take nodes of the primary that no job shares (step 4)."""
    found = best
    for block in blocks:
        for member in block:
            if not _has_room(primary, found.matched, member, search):
                continue
            group = (*found.matched, member)
            if not fits(primary, group):
                continue
            outcome = evolve(primary, group)
            if outcome.gain > found.gain:
                found = Found(primary, group, outcome)
                yield found


def _has_room(primary: Member, matched: Sequence[Member], member: Member, search: Search) -> bool:
    """Tell whether one more job can be matched: it must share a node with the primary, but may take a few more nodes."""
    taken = sum([other.nodes for other in matched])
    return (
        taken < primary.nodes
        and taken + member.nodes <= primary.nodes * (1.0 + search.larger)
        and not (search.most and len(matched) >= search.most)
    )


def _purify(found: Found, must: int | None) -> Found:
    """Return the group without those that slow the primary down most and add nothing to the gain (step 5)."""
    while len(found.matched) > 1:
        worst = max(found.matched, key=lambda member: member.beside_it)
        if worst.job.id == must:
            break
        rest = tuple(member for member in found.matched if member is not worst)
        outcome = evolve(found.primary, rest)
        if outcome.gain < found.gain:
            break
        found = Found(found.primary, rest, outcome)
    return found


def _work_left(member: Member) -> float:
    return member.left_us


def _gain(found: Found) -> float:
    return found.gain
