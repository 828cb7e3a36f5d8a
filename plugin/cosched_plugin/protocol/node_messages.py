"""The vocabulary of nodes: a class of equal nodes, and what the composite model needs of it and of a job.

Part of `messages`, which re-exports it. PROTOCOL.md (section 3) is the specification.
"""

from __future__ import annotations

from typing import Final, NamedTuple

HARDWARE: Final = "hardware"  # the feature: caches and issue slots of nodes
PROFILE: Final = "profile"  # the feature: what a job's processes ask of them


class CacheLevel(NamedTuple):
    """One level of cache; each instance is shared by ``cores`` neighbouring cores of a socket."""

    level: int
    size_kb: int  # of an instance
    cores: int
    miss_ns: int = 0  # more time of an access that does not find its data here
    accesses_ms: int = 0  # accesses that an instance serves in a millisecond; 0: unlimited


class NodeHardware(NamedTuple):
    """Issue slots of a core in millionths of those of the profiles' core, 0 for unlimited; and caches, nearest to the core first."""

    integer_slots_ppm: int = 0
    floating_slots_ppm: int = 0
    caches: tuple[CacheLevel, ...] = ()


class NodeClass(NamedTuple):
    """``nodes`` equal nodes, numbered on from those of the classes before."""

    nodes: int
    sockets: int
    cores_per_socket: int
    threads_per_core: int
    memory_mb: int
    memory_bandwidth_mbs: int
    network_mbs: int
    disk_mbs: int
    swap_mb: int = 0  # disk space for the memory of jobs that are suspended to disk
    hardware: NodeHardware | None = None  # None: caches and issue slots slow no job down

    @property
    def threads(self) -> int:
        """Return the number of hardware threads of one node."""
        return self.sockets * self.cores_per_socket * self.threads_per_core
