"""What belongs to a turn: started jobs, and the nodes or hardware threads that they hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from cosched_plugin.api import NodeSet, Running, any_layer

Member = TypeVar("Member")


class Members(Generic[Member]):
    """The members of one turn, and what they hold, as bits."""

    __slots__ = ("held", "members")

    def __init__(self, members: Iterable[Member] = (), held: int = 0) -> None:
        self.members = list(members)
        self.held = held


Bundle = Sequence[Running]  # jobs that share nodes, so that they leave them, and come back, together


class Bundles(Members[Bundle]):
    """The jobs of one turn by id, in bundles, and their nodes."""

    __slots__ = ("_nodes",)

    def __init__(self) -> None:
        super().__init__()
        self._nodes: list[NodeSet] = []  # of each bundle

    def add(self, running: Running) -> None:
        """Enter a job; jobs come by id."""
        nodes = any_layer(running.layers)
        bundle = [running]
        if nodes & self.held:
            apart: list[Bundle] = []
            nodes_apart: list[NodeSet] = []
            for there, jobs in zip(self._nodes, self.members, strict=True):
                if there & nodes:
                    nodes = NodeSet(nodes | there)
                    bundle = [*jobs, *bundle]
                else:
                    apart.append(jobs)
                    nodes_apart.append(there)
            self.members, self._nodes = apart, nodes_apart
        self.members.append(bundle)
        self._nodes.append(nodes)
        self.held |= nodes


def nodes_of_bundle(bundle: Bundle) -> NodeSet:
    """Return the nodes of jobs that share nodes."""
    nodes = 0
    for running in bundle:
        nodes |= any_layer(running.layers)
    return NodeSet(nodes)
