"""Where on a node processes are: how many of a group each core, each instance of a cache and each socket has.

A group is the processes of one job on one node. Its processes are spread evenly over its hardware threads, so their number in
a part of the node is a fraction; it is counted in millionths of a process.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from cosched_hwmodel.composite.profile import Profile
from cosched_hwmodel.topology import NodeShape
from cosched_hwmodel.units import WHOLE_PPM, ThreadMask


class Placed(NamedTuple):
    """Processes of one job on one node, and the hardware threads that they hold together."""

    profile: Profile
    processes: int
    thread_mask: ThreadMask | int


Crowd: TypeAlias = tuple[int, ...]  # for each group, its processes in one part of the node, in millionths


class Site(NamedTuple):
    """What a process on some core shares its parts of the node with."""

    core: Crowd
    caches: tuple[Crowd, ...]  # by level, as the node has them
    socket: int


class Parts(NamedTuple):
    """The hardware threads of each part of a node, as masks, and the parts above each core."""

    cores: tuple[int, ...]
    caches: tuple[tuple[int, ...], ...]  # of each level, of each instance
    sockets: tuple[int, ...]


def parts_of(node: NodeShape) -> Parts:
    """Return the parts of a node."""
    return _parts(
        node.sockets, node.cores_per_socket, node.threads_per_core, tuple([cache.cores for cache in node.caches])
    )


@lru_cache(maxsize=64)
def _parts(sockets: int, cores_per_socket: int, threads_per_core: int, cache_cores: tuple[int, ...]) -> Parts:
    cores = sockets * cores_per_socket
    own = tuple([sum(1 << (layer * cores + core) for layer in range(threads_per_core)) for core in range(cores)])
    return Parts(own, tuple([_joined(own, each) for each in cache_cores]), _joined(own, cores_per_socket))


def _joined(masks: tuple[int, ...], each: int) -> tuple[int, ...]:
    """Return the union of every ``each`` neighbouring masks, which have no bit in common."""
    return tuple([sum(masks[first : first + each]) for first in range(0, len(masks), each)])


def presence(placed: Placed, mask: int) -> int:
    """Return how many processes of a group are on these hardware threads, in millionths, rounded down."""
    _, processes, held = placed
    there = (held & mask).bit_count()
    return WHOLE_PPM * there * processes // held.bit_count() if there else 0


def crowd(placed: Sequence[Placed], mask: int) -> Crowd:
    """Return how many processes of each group are on these hardware threads, in millionths."""
    return tuple([presence(group, mask) for group in placed])


def sites_of(node: NodeShape, placed: Sequence[Placed]) -> list[list[Site]]:
    """Return the different sites of each group's processes.

    Raises IndexError for threads that the node does not have.
    """
    parts = parts_of(node)
    caches = [[crowd(placed, mask) for mask in masks] for masks in parts.caches]
    found: list[dict[Site, None]] = [{} for _ in placed]
    for core, mask in enumerate(parts.cores):
        there = crowd(placed, mask)
        if any(there):
            above = tuple([level[core // cache.cores] for level, cache in zip(caches, node.caches, strict=True)])
            site = Site(there, above, core // node.cores_per_socket)
            for sites, processes in zip(found, there, strict=True):
                if processes:
                    sites[site] = None
    for group in placed:
        if group.thread_mask >> node.threads:
            raise IndexError(f"thread {group.thread_mask.bit_length() - 1} of a node with {node.threads}")
    return [list(sites) for sites in found]
