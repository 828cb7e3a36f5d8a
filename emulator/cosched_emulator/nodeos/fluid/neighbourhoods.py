"""What slows a job down, in few words: the jobs that it meets on its nodes, and what these meet elsewhere.

A job waits at its barriers for its slowest process. So of the jobs that it meets (*near* ones) only those with the
greatest CPU shares count, and one or two nodes with each; of those that a near job meets elsewhere (*far* ones) only
the greatest. Far jobs must not be left out: without them near jobs keep out of the way of the centre's bursts, which
makes it up to 5 % faster than it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from cosched_emulator.nodeos.fluid.bodies import Body
from cosched_emulator.nodeos.fluid.patterns import Pattern, Placed, pattern_of

_MOST_NEAR: Final = 3
_MOST_FAR: Final = 3  # of each near job, all alike
_LEAST_FAR_SHARE: Final = 0.15  # smaller ones do not matter


class Kind(NamedTuple):
    """What a job is while it is in a loop; jobs of the same kind cannot be told apart."""

    number: int  # in the order of their coming
    body: Body  # rounded
    far_body: Body  # rounded more
    far: int  # number of the first kind with the same far body and number of processes
    weight: tuple[float, str]  # CPU share of its processes on a node by the rounded body, and what breaks ties
    far_weight: tuple[float, str]
    processes: int  # on each of its nodes
    feels_quanta: bool  # an iteration is so long that the begin of a quantum matters
    writes_shared: bool  # files to the server that all nodes share


class Member(NamedTuple):
    """A job of a group."""

    kind: Kind
    entry: int  # see `Pattern.entries`
    meets: Mapping[int, int]  # index of another job of the group -> nodes on which they meet


class _Near(NamedTuple):
    kind: int
    entry: int
    nodes: int
    far: tuple[int, ...]  # kinds; a job of each, all with one rounded body


class Neighbourhood(NamedTuple):
    """A job and what it meets, by numbers of kinds."""

    kind: int
    entry: int
    near: tuple[_Near, ...]  # in ascending order


def neighbourhood(group: Sequence[Member], centre: int, most_alike: int) -> Neighbourhood:
    """Return the neighbourhood of a job of a group; nodes with the same jobs count up to ``most_alike``."""
    kind, entry, meets = group[centre]
    near = sorted(meets, key=lambda other: _weight(group[other], meets[other]), reverse=True)[:_MOST_NEAR]
    found = [
        _Near(
            group[other].kind.number,
            group[other].entry,
            _round_nodes(meets[other], most_alike),
            _far(group, other, {centre, *near}),
        )
        for other in near
    ]
    return Neighbourhood(kind.number, entry, tuple(sorted(found)))


def pattern_around(around: Neighbourhood, kinds: Sequence[Kind]) -> tuple[Pattern, int]:
    """Return the pattern of a neighbourhood, and the index of its centre there."""
    centre: list[int] = []
    jobs: list[Placed] = []
    free = 0  # the next node without jobs
    for near in around.near:
        met = list(range(free, free + near.nodes))
        elsewhere = list(range(free + near.nodes, free + near.nodes + len(near.far)))
        free += near.nodes + len(near.far)
        kind = kinds[near.kind]
        centre += met
        jobs.append(Placed(kind.body, tuple((met + elsewhere) * kind.processes), near.entry))
        for far, node in zip(near.far, elsewhere, strict=True):
            jobs.append(Placed(kinds[far].far_body, (node,) * kinds[far].processes))
    kind = kinds[around.kind]
    jobs.insert(0, Placed(kind.body, tuple(centre * kind.processes), around.entry))
    of_two = len(jobs) == 2  # a pair: the other one is asked for, too
    pattern, places = pattern_of(jobs, [0] * free, -1 if of_two else 0, brief=not of_two)
    return pattern, places[0]


def _far(group: Sequence[Member], near: int, but: set[int]) -> tuple[int, ...]:
    others = [group[other].kind for other in group[near].meets if other not in but]
    most = max((kind.far_weight for kind in others), default=(0.0, ""))
    if most[0] < _LEAST_FAR_SHARE:
        return ()
    alike = [kind.far for kind in others if kind.far_weight == most]
    return (alike[0],) * min(len(alike), _MOST_FAR)


def _weight(member: Member, nodes: int) -> tuple[object, ...]:
    return member.kind.weight, nodes, member.entry


def _round_nodes(nodes: int, most: int) -> int:
    """Return the nearest power of 2, or ``most``."""
    return min(most, 1 << round(math.log2(nodes)))
