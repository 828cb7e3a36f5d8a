"""The shape of a node as the protocol describes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cosched_hwmodel.topology import Cache, NodeShape

# level, size_kb, cores, miss_ns, accesses_ms
_CacheTuple = tuple[int, int, int, int, int]


class HardwareFacts(Protocol):
    """What only the composite model needs of a node."""

    @property
    def integer_slots_ppm(self) -> int:
        """Return the integer issue slots of a core, in millionths of those of the profiles' core; 0: unlimited."""

    @property
    def floating_slots_ppm(self) -> int:
        """Return the floating-point issue slots of a core; 0: unlimited."""

    @property
    def caches(self) -> Sequence[_CacheTuple]:
        """Return the levels of cache, nearest to the core first."""


class NodeFacts(Protocol):
    """A kind of node, without its watts."""

    @property
    def type(self) -> str:
        """Return the type of the node where contention depends on it, such as that of a GPU; else an empty text."""

    @property
    def same_nodes(self) -> bool:
        """Tell whether two jobs on one of these nodes have the same ones: it is one device."""

    @property
    def sockets(self) -> int:
        """Return the number of sockets."""

    @property
    def cores_per_socket(self) -> int:
        """Return the number of cores of a socket."""

    @property
    def threads_per_core(self) -> int:
        """Return the number of hardware threads of a core."""

    @property
    def memory_mb(self) -> int:
        """Return the memory, MiB."""

    @property
    def memory_bandwidth_mbs(self) -> int:
        """Return the memory bandwidth, MB/s; 0: unlimited. So are the next two."""

    @property
    def network_mbs(self) -> int:
        """Return the bandwidth of the network, MB/s."""

    @property
    def disk_mbs(self) -> int:
        """Return the bandwidth of the disk, MB/s."""

    @property
    def hardware(self) -> HardwareFacts | None:
        """Return issue slots and caches; None: nothing is known of them, and they have no effect."""


def shape_of(item: NodeFacts) -> NodeShape:
    """Return the shape of a kind of node, its type as the name, without watts; raises TopologyError for caches that cannot be."""
    hardware = item.hardware
    return NodeShape(
        item.type,
        item.sockets,
        item.cores_per_socket,
        max(1, item.memory_mb),
        item.threads_per_core,
        () if hardware is None else tuple([Cache(*cache) for cache in hardware.caches]),
        item.memory_bandwidth_mbs,
        item.network_mbs,
        item.disk_mbs,
        0,
        0 if hardware is None else hardware.integer_slots_ppm,
        0 if hardware is None else hardware.floating_slots_ppm,
        same_nodes=item.same_nodes,
    )
