"""The nodes: out of service and why, slow or not, and the scheduler's knowledge of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cosched_emulator.errors import InvariantError
from cosched_emulator.manager.contended_nodes import ContendedNodes
from cosched_emulator.manager.diary import Diary
from cosched_emulator.manager.record import NodeChanged
from cosched_plugin.common.allocation import Layers
from cosched_plugin.common.slots import SlotPools
from cosched_plugin.protocol.messages import Event, NodeFailed, NodeReturned


class NodeStates:
    """The state of the nodes.

    A node is out of service while it is broken, drained by an operator, or both. The scheduler only learns whether it may
    use the node. `fail`, `mend`, `drain` and `undrain` return the events for it; `take_out` and `put_back` apply these events.
    """

    def __init__(self, slots: SlotPools, cluster: ContendedNodes | None, diary: Diary) -> None:
        self._slots = slots
        self._cluster = cluster
        self._diary = diary
        self.broken: set[int] = set()  # nodes that have failed
        self.drained: dict[int, str] = {}  # nodes that an operator took out of service, and why
        self.down: set[int] = set()  # nodes that the scheduler knows to be out of service

    @property
    def slow(self) -> Mapping[int, float]:
        """Return the slow nodes, with their factors."""
        return {} if self._cluster is None else self._cluster.slow

    def fail(self, node: int, now_us: int) -> list[Event]:
        """Return the event of a node failure, none for a drained node. `Agenda` handles the jobs."""
        self.broken.add(node)
        self._diary.note(NodeChanged(now_us, node, "DOWN"))
        return [] if node in self.drained else [NodeFailed(node)]

    def mend(self, node: int, now_us: int) -> list[Event]:
        """Return the event of a repair, none if the node stays drained."""
        if node not in self.broken:
            return []
        self.broken.discard(node)
        drained = node in self.drained
        self._diary.note(NodeChanged(now_us, node, "DRAINED" if drained else "UP", self.drained.get(node, "")))
        return [] if drained else [NodeReturned(node)]

    def drain(self, node: int, now_us: int, reason: str) -> list[Event]:
        """Return the events when an operator drains a node: its running jobs continue."""
        in_service = node not in self.drained and node not in self.broken
        self.drained[node] = reason
        self._diary.note(NodeChanged(now_us, node, "DRAINED", reason))
        return [NodeFailed(node)] if in_service else []

    def undrain(self, node: int, now_us: int) -> list[Event]:
        """Return the events when an operator puts a drained or broken node back into service."""
        if node not in self.drained and node not in self.broken:
            return []
        self.drained.pop(node, None)
        self.broken.discard(node)
        self._diary.note(NodeChanged(now_us, node, "UP"))
        return [NodeReturned(node)]

    def lift(self, node: int, now_us: int) -> list[Event]:
        """Return the event when a drain ends, none if the node has failed meanwhile, or was put back into service."""
        if self.drained.pop(node, None) is None:
            return []
        broken = node in self.broken
        self._diary.note(NodeChanged(now_us, node, "DOWN" if broken else "UP"))
        return [] if broken else [NodeReturned(node)]

    def set_slowdown(self, node: int, slowdown: float | None) -> None:
        """Slow everything on a node by ``slowdown`` from now on; None: normal speed.

        Only a manager with hardware can have slow nodes; without it, every node always has its normal speed.
        """
        if self._cluster is None:
            assert slowdown is None
            return
        self._cluster.set_slowdown(node, slowdown)

    # ------------------------------------------------------------ what the scheduler knows

    def take_out(self, node: int) -> None:
        """Stop offering a node's threads."""
        self.down.add(node)
        self._slots.fail_node(node)

    def put_back(self, node: int, occupied: Mapping[int, Iterable[Layers]]) -> None:
        """Offer a node's threads again, except those that are ``occupied`` by the jobs of a slot."""
        self.down.discard(node)
        self._slots.return_node(node, occupied)

    # ------------------------------------------------------------ in another manager

    def state(self) -> dict[str, Any]:
        """Return the state in plain values, for `take_over`."""
        return {
            "broken": sorted(self.broken),
            "drained": sorted(self.drained.items()),
            "slow": sorted(self.slow.items()),
        }

    def take_over(self, state: Mapping[str, Any]) -> None:
        """Take over the states of another manager's nodes; `take_out` must follow when jobs have their threads."""
        self.broken |= set(state["broken"])
        self.drained |= dict(state["drained"])
        for node, slowdown in state["slow"]:
            self.set_slowdown(node, slowdown)

    def check(self) -> None:
        """Raise `InvariantError` if the scheduler's knowledge of nodes out of service is wrong."""
        if self.down != self.broken | set(self.drained):
            raise InvariantError("nodes are out of service that are neither broken nor drained, or the other way round")
