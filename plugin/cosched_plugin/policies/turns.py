"""Turns, as time slices and gang scheduling have them in common: their order, what belongs to each, room beside it, how they change."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from cosched_plugin import api

# The order of turns: by number, one round after the other.


class Order(NamedTuple):
    """Turns in the order in which they come next."""

    turns: Sequence[int]
    begins: bool  # the first of them begins a round


def following(turns: Sequence[int], last: int | None) -> Order:
    """Return ``turns``, which are ascending and not empty, in the order in which they follow turn ``last``.

    Turn ``last`` itself may be missing: turns appear and vanish in the middle of a round. None: no turn has been yet.
    """
    if last is None:
        return Order(turns, True)
    place = bisect_right(turns, last)
    if place == len(turns):
        return Order(turns, True)
    return Order((*turns[place:], *turns[:place]), False)


# Where others have room beside a turn: on what its members leave idle, and what no other guest has taken.


class Room:
    """Nodes or hardware threads with what runs on each: ``most`` jobs, one or two."""

    __slots__ = ("_most", "full", "once")

    def __init__(self, most: int = 1) -> None:
        self._most = most
        self.once = 0  # those with a job at least
        self.full = 0  # those with ``most``

    def admits(self, held: int) -> bool:
        """Tell whether there is room for a job that holds these."""
        return not held & self.full

    def take(self, held: int) -> None:
        """Count a job that holds these."""
        self.full |= held & self.once if self._most > 1 else held
        self.once |= held


# What belongs to a turn: started jobs, and the nodes or hardware threads that they hold.

Member = TypeVar("Member")


class Members(Generic[Member]):
    """The members of one turn, and what they hold, as bits."""

    __slots__ = ("held", "members")

    def __init__(self, members: Iterable[Member] = (), held: int = 0) -> None:
        self.members = list(members)
        self.held = held


class Bundle(NamedTuple):
    """Jobs that share nodes, so that they leave them, and come back, together."""

    jobs: Sequence[api.Running]
    nodes: api.NodeSet


class Bundles(Members[Bundle]):
    """The jobs of one turn by id, in bundles, and their nodes."""

    __slots__ = ()

    def add(self, bundle: Bundle) -> None:
        """Enter a job on its nodes; jobs come by id."""
        nodes = bundle.nodes
        if nodes & self.held:
            apart: list[Bundle] = []
            for other in self.members:
                if other.nodes & bundle.nodes:
                    bundle = Bundle([*other.jobs, *bundle.jobs], api.NodeSet(other.nodes | bundle.nodes))
                else:
                    apart.append(other)
            self.members = apart
        self.members.append(bundle)
        self.held |= nodes


# How turns change hands: jobs go to the disks of their nodes and come back, or the manager lets slots run in turn.
#
# Disks are for turns of minutes to hours, whose jobs would not fit into memory together. The manager's rotation is for
# turns of seconds: all jobs stay in memory, and a scheduler that is late holds up none of them.


def to_disk(bundle: Bundle, view: api.View) -> Iterator[api.Action]:
    """Suspend jobs that share nodes to disk: all of them, or none if the disks have no room for their memory."""
    if fits_on_disk(bundle, view):
        for running in bundle.jobs:
            if running.suspended_us is not None:
                yield api.ResumeJob(running.job.id)  # it was suspended on its nodes
            yield api.SuspendJob(running.job.id, to_disk=True)


def fits_on_disk(bundle: Bundle, view: api.View) -> bool:
    """Tell whether the disks of their nodes have room for the memory of all these jobs, and the manager has suspended none of them."""
    if any(running.held for running in bundle.jobs):
        return False
    wanted: dict[int, int] = {}
    for running in bundle.jobs:
        for node, processes in api.each_node(running.runs) if running.job.memory_mb else ():
            wanted[node] = wanted.get(node, 0) + processes * running.job.memory_mb
    return all(megabytes <= view.free_swap_mb[node] for node, megabytes in wanted.items())


def from_disk(bundle: Bundle, view: api.View) -> Iterator[api.Action]:
    """Resume jobs that share nodes, all of them or none; where the manager has put one in another's place, one after the other."""
    if _any_overlap(bundle):
        for running in bundle.jobs:
            if view.may_resume(view.running[running.job.id]):
                yield api.ResumeJob(running.job.id)
    elif all(view.may_resume(running) for running in bundle.jobs):
        for running in bundle.jobs:
            yield api.ResumeJob(running.job.id)


def _any_overlap(bundle: Bundle) -> bool:
    taken = 0
    for running in bundle.jobs:
        if taken & running.joined:
            return True
        taken |= running.joined
    return False


def let_run(turns: tuple[api.Turn, ...], view: api.View) -> Iterator[api.Action]:
    """Let the manager take these turns from the next quantum on, if it would take others."""
    if view.rotation != api.Rotation(turns):
        yield api.SetRotation(view.quantum + 1, turns)
