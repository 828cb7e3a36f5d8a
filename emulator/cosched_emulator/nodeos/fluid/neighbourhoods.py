"""What slows a job down, in short form: the jobs that it meets on its nodes, and what these meet elsewhere.

A job waits at its barriers for its slowest process. So of the jobs that it meets (*near* ones) only those with the
greatest CPU shares count, and one or two nodes with each; of those that a near job meets elsewhere (*far* ones) only
the greatest. Far jobs must not be left out: without them near jobs keep out of the way of the centre's bursts, which
makes it up to 5 % faster than it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from cosched_emulator.nodeos.fluid.bodies import Body
from cosched_emulator.nodeos.fluid.patterns import BRIEF, PAIR, Pattern, Placed, pattern_of

_NEAR: Final = 3  # kinds of near jobs, counted with their number
_MOST_NEAR: Final = 5  # in all: more of the last kind
_MOST_FAR: Final = 5  # of each near job, all alike
_LEAST_FAR_SHARE: Final = 0.15  # smaller ones do not matter
_MOST_NODES: Final = 2  # where a near job meets the centre


class Kind(NamedTuple):
    """What a job is while it is in a loop; jobs of the same kind cannot be told apart."""

    number: int  # in order of first appearance
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
    nodes: int
    meets: Mapping[int, int]  # index of another job of the group -> nodes on which they meet


class _Near(NamedTuple):
    kind: int
    entry: int
    nodes: int  # where it meets the centre
    far: tuple[int, ...]  # kinds; a job of each, all with one rounded body
    free: int  # 1: a node elsewhere counts, where it has no far jobs


class Neighbourhood(NamedTuple):
    """A job and what it meets, by numbers of kinds."""

    kind: int
    entry: int
    near: tuple[_Near, ...]  # in ascending order
    free: int  # 1: a node counts that the centre of a pair has for itself


def neighbourhood(group: Sequence[Member], centre: int, *, with_free: bool) -> Neighbourhood:
    """Return the neighbourhood of a job of a group. Nodes that a job has for itself count only ``with_free``."""
    kind, entry, nodes, meets = group[centre]
    near = sorted(meets, key=lambda other: _weight(group[other], meets[other]), reverse=True)
    last = group[near[min(_NEAR, len(near)) - 1]].kind
    near = [other for place, other in enumerate(near[:_MOST_NEAR]) if place < _NEAR or group[other].kind is last]
    found = []
    for other in near:
        there = group[other]
        far = _far(group, other, {centre, *near})
        free = int(with_free and not far and there.nodes > meets[other])
        found.append(_Near(there.kind.number, there.entry, min(meets[other], _MOST_NODES), far, free))
    is_pair = with_free and len(meets) == 1 and not found[0].far
    return Neighbourhood(kind.number, entry, tuple(sorted(found)), int(is_pair and nodes > sum(meets.values())))


def pattern_around(around: Neighbourhood, kinds: Sequence[Kind]) -> tuple[Pattern, int]:
    """Return the pattern of a neighbourhood, and the index of its centre there."""
    centre: list[int] = []
    jobs: list[Placed] = []
    nodes = 0
    for near in around.near:
        kind = kinds[near.kind]
        met = list(range(nodes, nodes + near.nodes))
        nodes += near.nodes
        elsewhere = list(range(nodes, nodes + len(near.far) + near.free))
        nodes += len(elsewhere)
        centre += met
        jobs.append(Placed(kind.body, tuple((met + elsewhere) * kind.processes), near.entry))
        for far, node in zip(near.far, elsewhere, strict=False):
            jobs.append(Placed(kinds[far].far_body, (node,) * kinds[far].processes))
    kind = kinds[around.kind]
    if around.free:
        centre.append(nodes)
        nodes += 1
    jobs.insert(0, Placed(kind.body, tuple(centre * kind.processes), around.entry))
    if len(jobs) == 2:
        pattern, places = pattern_of(jobs, [0] * nodes, effort=PAIR)  # the other one is asked for, too
    else:
        pattern, places = pattern_of(jobs, [0] * nodes, centre=0, effort=BRIEF)
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
