"""Situations of jobs that run together, without what does not matter: names of jobs and numbers of nodes.

Jobs influence each other if they share a node, or the server that all nodes write to. What such a group does depends on
the loop that each job is in, and for each set of jobs on how many nodes exactly these meet. Two groups that agree in
that have the same `Pattern`, and so are measured once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.nodeos.programs import ByRank, Compute, Loop, Operation, Receive, Send, Wait, WriteFiles

GRID: Final = 1.1  # bursts and waits of one pattern differ by less than this factor
_ROUNDS: Final = 3  # of refinement; more tell no more patterns apart that occur
_MOST_NEIGHBOURS_ALIKE: Final = 2  # of a job: more of a kind slow it down hardly more

Body = tuple[Operation, ...]


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
    brief: bool = False  # a short window suffices


class Placed(NamedTuple):
    """A job that runs: what it repeats, and the nodes of its processes."""

    body: Body
    places: tuple[int, ...]
    entry: int = 0  # see `Pattern.entries`


def body_of(loop: Loop) -> Body:
    """Return the body of a loop; raise `ConfigurationError` if its processes are not alike."""
    if isinstance(loop.body, ByRank) or any(isinstance(operation, Send | Receive) for operation in loop.body):
        raise ConfigurationError("program", "loops whose processes are all alike", "messages between ranks", "exact")
    return loop.body


def on_grid(body: Body) -> Body:
    """Return the body with bursts and waits rounded to a grid of ratio `GRID`."""
    rounded: list[Operation] = []
    for operation in body:
        if isinstance(operation, Compute):
            rounded.append(Compute(_to_grid(operation.us), operation.jitter_ppm))
        elif isinstance(operation, Wait):
            rounded.append(Wait(_to_grid(operation.us)))
        else:
            rounded.append(operation)
    return tuple(rounded)


def writes_shared(body: Body) -> bool:
    """Return whether a body uses the server that all nodes share."""
    return any(isinstance(operation, WriteFiles) and operation.shared for operation in body)


def groups(jobs: Sequence[Placed]) -> list[list[int]]:
    """Return the indices of jobs that influence each other, group by group."""
    parent = list(range(len(jobs)))

    def root(job: int) -> int:
        while parent[job] != job:
            job = parent[job]
        return job

    first: dict[int, int] = {}  # by node; -1 is the shared server
    for index, job in enumerate(jobs):
        used = {*job.places, -1} if writes_shared(job.body) else set(job.places)
        for node in sorted(used):
            parent[root(index)] = root(first.setdefault(node, index))
    found: dict[int, list[int]] = {}
    for index in range(len(jobs)):
        found.setdefault(root(index), []).append(index)
    return list(found.values())


def neighbourhood(jobs: Sequence[Placed], index: int, most_alike: int) -> list[Placed]:
    """Return a job, and those that it meets, on its own nodes alone; of neighbours that are alike, no more than two."""
    own = set(jobs[index].places)
    around = [jobs[index]]
    alike: Counter[tuple[object, ...]] = Counter()
    for other, job in enumerate(jobs):
        here = tuple(node for node in job.places if node in own)
        if other == index or not here:
            continue
        body = on_grid(job.body)
        kind = (tuple(type(operation) for operation in body), body, job.entry, _round_nodes(len(here), most_alike))
        alike[kind] += 1
        if alike[kind] <= _MOST_NEIGHBOURS_ALIKE:
            around.append(job._replace(places=here))
    return around


def pattern_of(
    jobs: Sequence[Placed], missing_ppm: Sequence[int], most_alike: int = 0, centre: int = -1, brief: bool = False
) -> tuple[Pattern, list[int]]:
    """Return the pattern of one group, and for each job of it the index that it has there.

    ``missing_ppm`` is by node. With ``most_alike``, what hardly matters is rounded: times in bodies to the grid, and the
    number of nodes where the same jobs meet to a power of 2, at most that one.
    ``centre`` is the index of the job whose rate is asked for; -1: all. ``brief`` asks for a short window.
    """
    on_node: dict[int, list[int]] = {}
    for index, job in enumerate(jobs):
        for node in job.places:
            on_node.setdefault(node, []).append(index)
    meetings = Counter((tuple(members), missing_ppm[node]) for node, members in on_node.items())
    bodies = [on_grid(job.body) if most_alike else job.body for job in jobs]
    kinds = [tuple(type(operation).__name__ for operation in body) for body in bodies]
    # The load of the shared server is proportional to the number of processes.
    if most_alike and not any(map(writes_shared, bodies)):
        meetings = Counter({meeting: _round_nodes(nodes, most_alike) for meeting, nodes in meetings.items()})
    features = [(kinds[index], bodies[index], job.entry, index == centre) for index, job in enumerate(jobs)]
    order = _order(features, meetings)
    position = {index: place for place, index in enumerate(order)}
    where: Counter[tuple[tuple[int, ...], int]] = Counter()
    for (members, missing), nodes in meetings.items():
        where[tuple(sorted(position[member] for member in members)), missing] += nodes
    pattern = Pattern(
        tuple(bodies[index] for index in order),
        tuple(kinds[index] for index in order),
        tuple(jobs[index].entry for index in order),
        tuple(Meeting(members, nodes, missing) for (members, missing), nodes in sorted(where.items())),
        position.get(centre, -1),
        brief,
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


def _to_grid(us: int) -> int:
    return round(GRID ** round(math.log(us, GRID))) if us > 0 else 0


def _round_nodes(nodes: int, most: int) -> int:
    """Return the nearest power of 2, or ``most``."""
    return min(most, 1 << round(math.log2(nodes)))
