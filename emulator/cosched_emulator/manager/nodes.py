"""The nodes: which are out of service and why, which are slow, and what the scheduler knows of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cosched_emulator.errors import InvariantError
from cosched_emulator.manager.diary import Diary
from cosched_emulator.manager.hardware import Cluster
from cosched_plugin.common.allocation import Layers, ThreadPool
from cosched_plugin.protocol.messages import Event, NodeFailed, NodeReturned


class Nodes:
    """The state of the nodes.

    A node is out of service while it is broken, drained by an operator, or both. The scheduler is told of one thing only:
    whether it may use the node. `fail`, `mend`, `drain` and `undrain` return the events that tell it; `take_out` and
    `put_back` apply these events.
    """

    __slots__ = ("_cluster", "_diary", "_pool", "broken", "down", "drained")

    def __init__(self, pool: ThreadPool, cluster: Cluster | None, diary: Diary) -> None:
        self._pool = pool
        self._cluster = cluster
        self._diary = diary
        self.broken: set[int] = set()  # nodes that have failed
        self.drained: dict[int, str] = {}  # nodes that an operator took out of service, and why
        self.down: set[int] = set()  # nodes that the scheduler knows to be out of service

    @property
    def slow(self) -> Mapping[int, float]:
        """Return the nodes on which everything takes longer: how many times as long."""
        return {} if self._cluster is None else self._cluster.slow

    def fail(self, node: int, now_us: int) -> list[Event]:
        """Return what follows when a node breaks: nothing where it is drained. `node_failure` has what follows for its jobs."""
        self.broken.add(node)
        self._diary.note_node(now_us, node, "DOWN")
        return [] if node in self.drained else [NodeFailed(node)]

    def mend(self, node: int, now_us: int) -> list[Event]:
        """Return what follows when a broken node works again: nothing where it stays drained."""
        if node not in self.broken:
            return []
        self.broken.discard(node)
        drained = node in self.drained
        self._diary.note_node(now_us, node, "DRAINED" if drained else "UP", self.drained.get(node, ""))
        return [] if drained else [NodeReturned(node)]

    def drain(self, node: int, now_us: int, reason: str) -> list[Event]:
        """Return what follows when an operator takes a node out of service: what runs there goes on."""
        in_service = node not in self.drained and node not in self.broken
        self.drained[node] = reason
        self._diary.note_node(now_us, node, "DRAINED", reason)
        return [NodeFailed(node)] if in_service else []

    def undrain(self, node: int, now_us: int) -> list[Event]:
        """Return what follows when an operator puts a node back into service, drained or broken."""
        if node not in self.drained and node not in self.broken:
            return []
        self.drained.pop(node, None)
        self.broken.discard(node)
        self._diary.note_node(now_us, node, "UP")
        return [NodeReturned(node)]

    def set_slowdown(self, node: int, slowdown: float | None) -> None:
        """Have everything on a node take ``slowdown`` times as long from now on; None: it has its normal speed.

        Only a manager with hardware can have slow nodes; without, every node has its normal speed already.
        """
        if self._cluster is None:
            assert slowdown is None
            return
        self._cluster.set_slowdown(node, slowdown)

    # ------------------------------------------------------------ what the scheduler knows

    def take_out(self, node: int) -> None:
        """Offer a node's threads no longer, as the scheduler is told."""
        self.down.add(node)
        self._pool.fail_node(node)

    def put_back(self, node: int, occupied: Iterable[Layers]) -> None:
        """Offer a node's threads again, but for the ``occupied`` ones, those of the jobs on the nodes."""
        self.down.discard(node)
        self._pool.return_node(node, occupied)

    def check(self) -> None:
        """Raise `InvariantError` where the scheduler does not know what is out of service."""
        if self.down != self.broken | set(self.drained):
            raise InvariantError("nodes are out of service that are neither broken nor drained, or the other way round")
