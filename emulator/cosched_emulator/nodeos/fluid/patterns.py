"""Situations of jobs that run together, reduced to what matters: without names of jobs and numbers of nodes.

What a group of jobs does depends on the loop that each of them is in, and for each set of jobs on how many nodes exactly
these meet. Two groups that agree in that have the same `Pattern`, and so are measured once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from cosched_emulator.nodeos.fluid.bodies import Body

WHOLE: Final = "whole"  # a group of jobs as it is
PAIR: Final = "pair"  # two jobs of a group that meet no others
BRIEF: Final = "brief"  # one of many neighbourhoods, whose errors cancel out
_ROUNDS: Final = 3  # of refinement; more tell no more patterns apart that occur


class Meeting(NamedTuple):
    """Some nodes with the same jobs: their indices in the pattern, once for each process on a node."""

    jobs: tuple[int, ...]
    nodes: int
    missing_ppm: int  # of the memory of their processes, what does not fit


class Pattern(NamedTuple):
    """Jobs that influence each other: the body of the loop of each, and where they meet."""

    bodies: tuple[Body, ...]
    kinds: tuple[tuple[str, ...], ...]  # types of the operations: values of different types can be equal
    entries: tuple[
        int, ...
    ]  # 0: runs on; else it was stopped until this quantum, and its place among those on its nodes
    meetings: tuple[Meeting, ...]
    centre: int = -1  # the job whose rate is asked for; -1: those of all
    effort: str = WHOLE  # how long a window may be


class Placed(NamedTuple):
    """A job that runs: what it repeats, and the nodes of its processes."""

    body: Body
    places: tuple[int, ...]
    entry: int = 0  # see `Pattern.entries`


def types_of(body: Body) -> tuple[str, ...]:
    """Return the names of the types of a body's operations."""
    return tuple(type(operation).__name__ for operation in body)


def alone(body: Body, nodes: int, processes: int = 1) -> Pattern:
    """Return the pattern of a job alone on nodes, with ``processes`` on each."""
    return Pattern((body,), (types_of(body),), (0,), (Meeting((0,) * processes, nodes, 0),))


def pattern_of(
    jobs: Sequence[Placed], missing_ppm: Sequence[int], centre: int = -1, effort: str = WHOLE
) -> tuple[Pattern, list[int]]:
    """Return the pattern of jobs, and for each of them the index that it has there.

    ``missing_ppm`` is by node, in ppm. ``centre`` is the index of the job whose rate is asked for; -1: all.
    """
    on_node: dict[int, list[int]] = {}
    for index, job in enumerate(jobs):
        for node in job.places:
            on_node.setdefault(node, []).append(index)
    meetings = Counter((tuple(members), missing_ppm[node]) for node, members in on_node.items())
    kinds = [types_of(job.body) for job in jobs]
    features = [(kinds[index], job.body, job.entry, index == centre) for index, job in enumerate(jobs)]
    order = _order(features, meetings)
    position = {index: place for place, index in enumerate(order)}
    where: Counter[tuple[tuple[int, ...], int]] = Counter()
    for (members, missing), nodes in meetings.items():
        where[tuple(sorted(position[member] for member in members)), missing] += nodes
    pattern = Pattern(
        tuple(jobs[index].body for index in order),
        tuple(kinds[index] for index in order),
        tuple(jobs[index].entry for index in order),
        tuple(Meeting(members, nodes, missing) for (members, missing), nodes in sorted(where.items())),
        position.get(centre, -1),
        effort,
    )
    return pattern, [position[index] for index in range(len(jobs))]


def _order(jobs: Sequence[object], meetings: Mapping[tuple[tuple[int, ...], int], int]) -> list[int]:
    """Return the indices of jobs in an order that depends on what they are and where they meet, not on their numbers.

    Jobs get colours by what they are, and then again and again by the colours of those that they meet.
    """
    colours = _rank(jobs)
    for _ in range(_ROUNDS):
        seen: list[list[str]] = [[] for _ in jobs]
        for (members, missing), nodes in meetings.items():
            others = sorted(colours[member] for member in members)
            for member in set(members):
                seen[member].append(repr((others, members.count(member), nodes, missing)))
        colours = _rank([(colour, sorted(found)) for colour, found in zip(colours, seen, strict=True)])
    return sorted(range(len(jobs)), key=lambda index: colours[index])


def _rank(values: Sequence[object]) -> list[int]:
    """Return for each value its place among the different ones."""
    texts = [repr(value) for value in values]
    places = {text: place for place, text in enumerate(sorted(set(texts)))}
    return [places[text] for text in texts]
