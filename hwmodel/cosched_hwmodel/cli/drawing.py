"""A node as text: its sockets, caches, cores and hardware threads, and its capacities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from cosched_hwmodel.topology import Cache, NodeShape

ROW_CORES: Final = 16  # cores side by side
_KIB_OF: Final = (("GiB", 1024 * 1024), ("MiB", 1024))


def node_values(node: NodeShape) -> dict[str, Any]:
    """Return the fields of a node for JSON, with its numbers of cores and threads."""
    values = asdict(node)
    values["caches"] = [cache._asdict() for cache in node.caches]
    return {**values, "cores": node.cores, "threads": node.threads}


def node_lines(node: NodeShape, count: int = 1) -> list[str]:
    """Return the drawing of a node; ``count`` is the number of such nodes."""
    layout = f"{node.sockets} x {node.cores_per_socket} cores x {node.threads_per_core} threads"
    title = f"{node.name}: {layout}" + (f", {count} such nodes" if count > 1 else "")
    return [title, *[f"  {line}" for line in (*_capacities(node), *_sockets(node))]]


def size_text(kib: int) -> str:
    """Return a size in the largest unit that leaves a whole number: ``32 MiB``."""
    for unit, factor in _KIB_OF:
        if kib >= factor and kib % factor == 0:
            return f"{kib // factor} {unit}"
    return f"{kib} KiB"


def _capacities(node: NodeShape) -> Iterator[str]:
    yield f"memory {size_text(node.memory_mb * 1024)}" + (
        f", swap space {size_text(node.swap_mb * 1024)}" if node.swap_mb else ""
    )
    rates = (("memory bandwidth", node.memory_bandwidth_mbs), ("network", node.network_mbs), ("disk", node.disk_mbs))
    yield "; ".join(f"{name} {f'{rate} MB/s' if rate else 'unlimited'}" for name, rate in rates)
    power = node.power
    if power is not None:
        polling = "" if power.spin_w == power.busy_w else f", {power.spin_w:g} W for each that polls"
        yield f"watts: {power.idle_w:g} W idle, {power.busy_w:g} W more for each busy core{polling}"


def _sockets(node: NodeShape) -> Iterator[str]:
    shared = [cache for cache in reversed(node.caches) if cache.cores > 1]
    for socket in range(node.sockets):
        first = socket * node.cores_per_socket
        yield f"socket {socket}"
        yield from _indented(_below(node, range(first, first + node.cores_per_socket), shared))
    private = [f"L{cache.level} {size_text(cache.size_kb)}" for cache in node.caches if cache.cores == 1]
    if private:
        yield f"each core: {', '.join(private)}"


def _below(node: NodeShape, cores: range, shared: list[Cache]) -> Iterator[str]:
    """Yield the lines of some cores below the caches that they share, the largest first."""
    if not shared:
        for first in range(cores.start, cores.stop, ROW_CORES):
            yield from _cores(node, range(first, min(first + ROW_CORES, cores.stop)))
        return
    cache, *inner = shared
    for first in range(cores.start, cores.stop, cache.cores):
        yield f"L{cache.level} {size_text(cache.size_kb)}"
        yield from _indented(_below(node, range(first, first + cache.cores), inner))


def _cores(node: NodeShape, cores: range) -> Iterator[str]:
    """Yield a row of core numbers, and below it a row for the first, second, ... thread of each core."""
    width = len(str(node.threads - 1))
    yield "core    " + " ".join(f"{core:>{width}}" for core in cores)
    for layer in range(node.threads_per_core):
        yield "thread  " + " ".join(f"{layer * node.cores + core:>{width}}" for core in cores)


def _indented(lines: Iterator[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)
