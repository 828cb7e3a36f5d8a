"""The nodes: out of service and why, slow or not, and the scheduler's knowledge of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from cosched_emulator.errors import InvariantError
from cosched_emulator.manager.contended_nodes import ContendedNodes
from cosched_emulator.manager.diary import Diary
from cosched_emulator.manager.record import NodeChanged
from cosched_plugin.common.slots import SlotPools
from cosched_plugin.common.threads import Layers
from cosched_plugin.protocol.messages import Event, NodeFailed, NodeReturned

RESERVED: Final = "reserved"  # why a node is drained, where no operator did it


class NodeStates:
    """The state of the nodes.

    A node is out of service while it is broken, drained by an operator, or reserved. The scheduler only learns whether it may
    use the node. What changes that returns the events for it; `take_out` and `put_back` apply these events.
    """

    def __init__(self, slots: SlotPools, cluster: ContendedNodes | None, diary: Diary) -> None:
        self._slots = slots
        self._cluster = cluster
        self._diary = diary
        self.broken: set[int] = set()  # nodes that have failed
        self.drained: dict[int, str] = {}  # nodes that an operator took out of service, and why
        self.reserved: dict[int, int] = {}  # nodes of reservations that have begun, and when these end
        self.down: set[int] = set()  # nodes that the scheduler knows to be out of service

    @property
    def slow(self) -> Mapping[int, float]:
        """Return the slow nodes, with their factors."""
        return {} if self._cluster is None else self._cluster.slow

    def fail(self, node: int, now_us: int) -> list[Event]:
        """Return the event of a node failure, none for a drained node. `Agenda` handles the jobs."""
        before = self._told(node)
        self.broken.add(node)
        self._diary.note(NodeChanged(now_us, node, "DOWN"))
        return self._changed(node, before)

    def mend(self, node: int, now_us: int) -> list[Event]:
        """Return the event of a repair, none if the node stays drained."""
        if node not in self.broken:
            return []
        before = self._told(node)
        self.broken.discard(node)
        self._note(node, now_us)
        return self._changed(node, before)

    def drain(self, node: int, now_us: int, reason: str) -> list[Event]:
        """Return the events when an operator drains a node: its running jobs continue."""
        before = self._told(node)
        self.drained[node] = reason
        self._diary.note(NodeChanged(now_us, node, "DRAINED", reason))
        return self._changed(node, before)

    def undrain(self, node: int, now_us: int) -> list[Event]:
        """Return the events when an operator puts a drained or broken node back into service, none if it is reserved."""
        if node not in self.drained and node not in self.broken:
            return []
        before = self._told(node)
        self.drained.pop(node, None)
        self.broken.discard(node)
        self._note(node, now_us)
        return self._changed(node, before)

    def lift(self, node: int, now_us: int) -> list[Event]:
        """Return the event when a drain ends, none if the node has failed meanwhile, or was put back into service."""
        before = self._told(node)
        if self.drained.pop(node, None) is None:
            return []
        self._note(node, now_us)
        return self._changed(node, before)

    def reserve(self, node: int, now_us: int, until_us: int) -> list[Event]:
        """Return the events when a reservation of a node begins: its running jobs continue, and its end is known."""
        before = self._told(node)
        self.reserved[node] = max(until_us, self.reserved.get(node, 0))
        self._note(node, now_us)
        return self._changed(node, before)

    def free(self, node: int, now_us: int) -> list[Event]:
        """Return the events when a reservation of a node ends, none while a later one goes on."""
        before = self._told(node)
        if self.reserved.get(node, now_us + 1) > now_us:
            return []
        del self.reserved[node]
        self._note(node, now_us)
        return self._changed(node, before)

    def _told(self, node: int) -> NodeFailed | NodeReturned:
        """Return what a scheduler is told of a node as it is: of several reasons for which it is out, one may have no known end."""
        if node in self.broken or node in self.drained:
            return NodeFailed(node)
        return NodeFailed(node, self.reserved[node]) if node in self.reserved else NodeReturned(node)

    def _changed(self, node: int, before: Event) -> list[Event]:
        now = self._told(node)
        return [] if now == before else [now]

    def state_of(self, node: int) -> tuple[str, str]:
        """Return the state of a node for people, and why."""
        if node in self.broken:
            return "DOWN", ""
        if node in self.drained or node in self.reserved:
            return "DRAINED", self.drained.get(node, RESERVED)
        return "UP", ""

    def _note(self, node: int, now_us: int) -> None:
        self._diary.note(NodeChanged(now_us, node, *self.state_of(node)))

    def returns(self) -> tuple[int, ...]:
        """Return when each node that is down is announced to return, 0: not known; none where that is known of no node."""
        if not self.reserved:
            return ()
        told = [self._told(node) for node in sorted(self.down)]
        return tuple([event.until_us if isinstance(event, NodeFailed) else 0 for event in told])

    def set_slowdown(self, node: int, slowdown: float | None) -> None:
        """Slow everything on a node by ``slowdown`` from now on; None: normal speed.

        Only a manager with hardware can have slow nodes; without it, every node always has its normal speed.
        """
        if self._cluster is None:
            assert slowdown is None
            return
        self._cluster.set_slowdown(node, slowdown)

    # ------------------------------------------------------------ what the scheduler knows

    @property
    def out(self) -> set[int]:
        """Return the nodes that are to be out of service."""
        return self.broken | self.drained.keys() | self.reserved.keys()

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
            "reserved": sorted(self.reserved.items()),
            "slow": sorted(self.slow.items()),
        }

    def take_over(self, state: Mapping[str, Any]) -> None:
        """Take over the states of another manager's nodes; `take_out` must follow when jobs have their threads."""
        self.broken |= set(state["broken"])
        self.drained |= dict(state["drained"])
        self.reserved |= dict(state.get("reserved", ()))
        for node, slowdown in state["slow"]:
            self.set_slowdown(node, slowdown)

    def check(self) -> None:
        """Raise `InvariantError` if the scheduler's knowledge of nodes out of service is wrong."""
        if self.down != self.out:
            raise InvariantError(
                "nodes are out of service that are not broken, drained or reserved, or the other way round"
            )
