"""A group with its nodes: which jobs start where, which go on at another pace, and the notes about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cosched_plugin.api import (
    Action,
    Layers,
    NodePlacement,
    NodeSet,
    Occupancy,
    StartJob,
    StartTogether,
    View,
    WholeNodesView,
    any_layer,
    bits_of,
    expect_end,
    size,
    whole_nodes,
)
from cosched_plugin.policies.glomarc.formation import Found
from cosched_plugin.policies.glomarc.group_upkeep import remember
from cosched_plugin.policies.glomarc.sides import best_division, by_sides
from cosched_plugin.policies.placement.spread import NodeHalves, limit_beside


class Group(NamedTuple):
    """A group that starts now: all its jobs, or all but those that run already."""

    found: Found
    starts: tuple[StartJob, ...]
    decisions: tuple[Action, ...]
    occupancies: tuple[Occupancy, ...]  # of all its jobs, from now on
    seat: tuple[str, dict[str, float]] | None = (
        None  # the division of its nodes, and the slowdown of each that was compared
    )

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

    def threads_held(self, at_us: int, view: View) -> Layers:
        """Return the threads of the nodes that are free at ``at_us`` without the group and held with it."""
        nodes_view = whole_nodes(view)
        nodes = 0
        for occupancy in self.occupancies:
            if occupancy.end_us > at_us:
                nodes |= occupancy.nodes
        expected = {occupancy.job_id: occupancy for occupancy in nodes_view.occupancies()}
        for occupancy in self.occupancies:
            before = expected.get(occupancy.job_id)
            if before is not None and before.end_us > at_us:
                nodes &= ~before.nodes
        return nodes_view.firsts(NodeSet(nodes))

    def count_held(self, at_us: int, view: View) -> int:
        """Return how many threads these are."""
        return size(self.threads_held(at_us, view))


def seat_group(
    found: Found, footprints: NodePlacement, halves: NodeHalves, view: WholeNodesView, most: float
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
    starts: list[StartJob] = []
    revisions: list[Action] = []
    occupancies: list[Occupancy] = []
    for member, span_us, held, runs in zip(members, found.outcome.spans_us, nodes, division.runs, strict=True):
        occupancies.append(Occupancy(now_us + span_us, member.job.id, _set_of(held)))
        if member.running is None:
            starts.append(StartJob(member.job.id, runs, span_us, limit_beside(member.job, span_us)))
        else:
            revisions += expect_end(member.job.id, now_us + span_us, view)
    start: Action = StartTogether(tuple(starts)) if len(starts) > 1 else starts[0]
    decisions = (start, *revisions, *remember(found.primary, found.matched, view))
    return Group(found, tuple(starts), decisions, tuple(occupancies), seat)


def _nodes_of(found: Found, footprints: NodePlacement, view: WholeNodesView) -> list[list[int]] | None:
    """Return the nodes of every job of a group, the primary's first; None if there are too few empty ones.

    Matched jobs lie side by side on the primary's nodes, or the primary on theirs where they run; processes without room there go
    to empty nodes.
    """
    taken = [
        node
        for member in (found.primary, *found.matched)
        if member.running is not None
        for node in bits_of(any_layer(member.running.layers))
    ]
    wanted = found.nodes - len(taken)
    if wanted > 0:
        free = view.free_nodes
        if free.bit_count() < wanted:
            return None
        taken += bits_of(footprints.choose_nodes(free, wanted, view))
    placed = [taken[: found.primary.nodes]]
    at = 0
    for member in found.matched:
        placed.append(taken[at : at + member.nodes])
        at += member.nodes
    return placed


def _set_of(nodes: Sequence[int]) -> NodeSet:
    return NodeSet(sum([1 << node for node in nodes]))
