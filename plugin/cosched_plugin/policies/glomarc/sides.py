"""Which threads of a node the jobs of a group get, where the site's belief tells threads apart.

Two divisions of a node are compared: sides (the lower and the upper cores of every CPU, as in the paper), and CPUs (one job on the
lowest cores of the node, the other one on the highest). A job's own slowdown decides first: a division that makes it larger is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from cosched_plugin.api import (
    PairModel,
    Run,
    SeatOf,
    ThreadMask,
    View,
    each_mask,
    runs_from,
    slowdowns_on,
)
from cosched_plugin.policies.glomarc.evolution import evolve
from cosched_plugin.policies.glomarc.formation import Found
from cosched_plugin.policies.placement.spread import NodeHalves

SIDES: Final = "sides"
CPUS: Final = "cpus"
_Half: TypeAlias = Callable[
    [int, bool], ThreadMask
]  # threads of a number of processes, on the first half or on the other one


class Division(NamedTuple):
    """A group with the threads of all its jobs."""

    name: str
    found: Found  # with the slowdowns on these threads
    runs: tuple[tuple[Run, ...], ...]  # of the primary, then of the matched jobs


def by_sides(found: Found, nodes: Sequence[Sequence[int]], halves: NodeHalves) -> Division | None:
    """Return the group on the sides of its nodes: a job that starts gets the free side of each; None if there is none."""

    def half(processes: int, upper: bool) -> ThreadMask:
        return halves.mask(processes, upper=upper)

    runs = _place(found, nodes, half)
    return None if runs is None else Division(SIDES, found, runs)


def best_division(
    found: Found, nodes: Sequence[Sequence[int]], halves: NodeHalves, model: PairModel, view: View
) -> tuple[Division | None, dict[str, float]]:
    """Return the division with the least slowdown of any job of the group, the first of equal ones, and the slowdown of each."""

    def half(processes: int, upper: bool) -> ThreadMask:
        return ThreadMask(((1 << processes) - 1) << (halves.whole - processes if upper else 0))

    divisions = [by_sides(found, nodes, halves)]
    runs = _place(found, nodes, half)
    if runs is not None and _keeps_factors(found, runs, halves):
        divisions.append(Division(CPUS, found, runs))
    known = [_with_slowdowns(division, model, view) for division in divisions if division is not None]
    if not known:
        return None, {}
    compared = {division.name: _worst(division) for division in known}
    return min(known, key=_worst), compared


def _place(found: Found, nodes: Sequence[Sequence[int]], half: _Half) -> tuple[tuple[Run, ...], ...] | None:
    """Return the runs of all jobs; None if neither half of some node is free for one that starts."""
    members = (found.primary, *found.matched)
    taken: dict[int, int] = {}
    for member in members:
        for node, mask in () if member.running is None else each_mask(member.running.runs):
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
        placed.append(runs_from(on_nodes))
    return tuple(placed)


def _keeps_factors(found: Found, runs: Sequence[Sequence[Run]], halves: NodeHalves) -> bool:
    """Tell whether no job that starts slows itself down more than the group's forecast has it."""
    return all(
        member.running is not None or all(halves.factor_on(member.job, run.mask) <= member.factor for run in placed)
        for member, placed in zip((found.primary, *found.matched), runs, strict=True)
    )


def _with_slowdowns(division: Division, model: PairModel, view: View) -> Division:
    """Return the group with the slowdowns that its jobs have on their threads, and its forecast with these."""
    primary = division.found.primary
    own = SeatOf(primary.job, division.runs[0])
    matched = []
    for member, runs in zip(division.found.matched, division.runs[1:], strict=True):
        beside_it, beside = slowdowns_on(own, SeatOf(member.job, runs), model, view)
        matched.append(member._replace(beside=beside, beside_it=beside_it))
    found = division.found._replace(matched=tuple(matched), outcome=evolve(primary, matched))
    return division._replace(found=found)


def _worst(division: Division) -> float:
    return max([max(member.beside, member.beside_it) for member in division.found.matched])
