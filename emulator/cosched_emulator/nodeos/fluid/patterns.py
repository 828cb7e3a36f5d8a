"""Situations of jobs that run together, reduced to what matters: without names of jobs and numbers of nodes.

What a group of jobs does depends on the loop that each of them is in, and for each set of jobs on how many nodes exactly
these meet. Two groups that agree in that have the same `Pattern`, and so are measured once.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.nodeos import programs
from cosched_emulator.nodeos.settings import NodeSettings

# What a job repeats in a loop, as the fluid cluster sees it: without what depends on its size, and rounded.

Body = tuple[programs.Operation, ...]

# CPU shares, in percent, to which bursts are rounded: 45 is among them, the share of the paper's jobs (section 4.2.1).
SHARES: Final = (1, 2, 3, 5, 7.5, *range(10, 95, 5), 92.5, 95, 96, 97, 98, 98.5, 99, 99.25, 99.5)
# For jobs that matter only because they slow a neighbour down.
FAR_SHARES: Final = (7.5, 25, 45, 65, 85)
WAIT_STEP: Final = 1.1  # ratio of the steps to which waits are rounded


def body_of(loop: programs.Loop, processes: int, settings: NodeSettings) -> Body:
    """Return the body of a loop in a job of ``processes``, with barriers that last ``barrier_us`` for any size of the job.

    What a collective takes longer is a wait behind it, so a pattern can have fewer processes than the job.
    Raises `ConfigurationError` if the processes are not alike.
    """
    if isinstance(loop.body, programs.ByRank) or any(
        isinstance(operation, programs.Send | programs.Receive) for operation in loop.body
    ):
        raise ConfigurationError("program", "loops whose processes are all alike", "messages between ranks", "exact")
    plain: list[programs.Operation] = []
    for operation in loop.body:
        if not isinstance(operation, programs.Barrier | programs.Collective):
            plain.append(operation)
            continue
        plain.append(programs.Barrier())
        if isinstance(operation, programs.Collective):
            more_us = (processes - 1).bit_length() * -(-operation.size_bytes // settings.network_mb_s)
            plain += [programs.Wait(more_us)] if more_us else []
    return tuple(plain)


def writes_shared(body: Body) -> bool:
    """Return whether a body uses the server that all nodes share."""
    return any(isinstance(operation, programs.WriteFiles) and operation.shared for operation in body)


def rounded(body: Body, length_us: int, cpu_us: int, shares: Sequence[float]) -> Body:
    """Return the body with bursts for which its CPU share alone is the nearest of ``shares`` (percent), and rounded waits.

    An iteration takes ``length_us`` alone, of that ``cpu_us`` on the CPU. Files stay what they are.
    """
    waits_us = sum(operation.us for operation in body if isinstance(operation, programs.Wait))
    bursts_us = sum(operation.us for operation in body if isinstance(operation, programs.Compute))
    if not bursts_us or length_us == cpu_us:
        return tuple(programs.Wait(_to_step(item.us)) if isinstance(item, programs.Wait) else item for item in body)
    share = nearest(100 * cpu_us / length_us, shares) / 100
    new_waits_us = sum(_to_step(operation.us) for operation in body if isinstance(operation, programs.Wait))
    idle_us = length_us - cpu_us - waits_us + new_waits_us
    other_us = cpu_us - bursts_us  # CPU time of files
    factor = max(0.0, idle_us * share / (1 - share) - other_us) / bursts_us
    changed: list[programs.Operation] = []
    for operation in body:
        if isinstance(operation, programs.Compute):
            changed.append(programs.Compute(max(1, round(operation.us * factor)), operation.jitter_ppm))
        elif isinstance(operation, programs.Wait):
            changed.append(programs.Wait(_to_step(operation.us)))
        else:
            changed.append(operation)
    return tuple(changed)


def nearest(value: float, steps: Sequence[float]) -> float:
    """Return the step (in ascending order) next to a value; of two equally near ones the smaller."""
    above = bisect_left(steps, value)
    near = steps[max(0, above - 1) : above + 1]
    return min(near, key=lambda step: abs(step - value))


def _to_step(us: int) -> int:
    return round(WAIT_STEP ** round(math.log(us, WAIT_STEP))) if us > 0 else 0


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
    # 0: runs on; else it was stopped until this quantum, and its place among those on its nodes
    entries: tuple[int, ...]
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


# What slows a job down, in short form: the jobs that it meets on its nodes, and what these meet elsewhere.
#
# A job waits at its barriers for its slowest process. So of the jobs that it meets (*near* ones) only those with the
# greatest CPU shares count, and one or two nodes with each; of those that a near job meets elsewhere (*far* ones) only
# the greatest. Far jobs must not be left out: without them near jobs keep out of the way of the centre's bursts, which
# makes it up to 5 % faster than it is.

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
