"""The nodes that a command is given: a file, a preset or a layout, of a size that a command can show."""

from __future__ import annotations

import re
from typing import Final

from cosched_hwmodel.cli.output import CommandError
from cosched_hwmodel.topology import NodeShape, load_nodes

MOST_THREADS: Final = 1024  # of a node, as in messages


def classes_of(text: str) -> tuple[tuple[int, NodeShape], ...]:
    """Return count and shape of each class of nodes. Raises TopologyError, and CommandError for too many hardware threads."""
    classes = load_nodes(text).classes
    for _, shape in classes:
        if shape.threads > MOST_THREADS:
            raise CommandError(
                text, f"expected nodes with at most {MOST_THREADS} hardware threads, got {shape.threads}"
            )
    return classes


def one_node(text: str) -> NodeShape:
    """Return the node of a file with one class of nodes, a preset or a layout; raises as `classes_of`."""
    classes = classes_of(text)
    if len(classes) > 1:
        raise CommandError(text, f"expected one class of nodes, got {', '.join(shape.name for _, shape in classes)}")
    return classes[0][1]


# Seats: what the hardware threads of two processes share, by a name: a core, a cache such as ``L3``, a socket, the node.

CORE: Final = "core"  # two threads of one core
SOCKET: Final = "socket"  # of one socket, without a cache in common
NODE: Final = "node"  # of different sockets
_WORDS: Final = {
    CORE: "two threads of one core",
    SOCKET: "two cores of one socket without a common cache",
    NODE: "cores of two sockets",
}


def cache_seat(level: int) -> str:
    """Return the seat of two cores whose nearest common cache has this level."""
    return f"L{level}"


def seat_rank(name: str) -> int:
    """Return a number that orders seats: the more two threads share, the smaller."""
    level = re.fullmatch(r"L(\d+)", name)
    return int(level[1]) if level else {CORE: 0, SOCKET: 98, NODE: 99}[name]


def seat_text(name: str) -> str:
    """Return what two threads share, in words."""
    return _WORDS.get(name, f"two cores below one {name} cache")


def seats_of_node(node: NodeShape) -> dict[str, tuple[int, int]]:
    """Return for each seat of a node the first two hardware threads that sit so, the closest seat first."""
    found: dict[str, tuple[int, int]] = {}
    for thread in range(1, node.threads):
        found.setdefault(_shared(node, 0, thread), (0, thread))
    return dict(sorted(found.items(), key=lambda item: seat_rank(item[0])))


def threads_of_seat(node: NodeShape, name: str) -> tuple[int, int]:
    """Return the first two hardware threads that sit so; raises CommandError, which names the seats of the node."""
    seats = seats_of_node(node)
    if name not in seats:
        known = ", ".join(seats) or "no two hardware threads"
        raise CommandError(f"seat {name}", f"{node.name} has {known}")
    return seats[name]


def _shared(node: NodeShape, one: int, other: int) -> str:
    """Return the seat of two threads."""
    core, beside = node.core_of(one), node.core_of(other)
    if core == beside:
        return CORE
    if node.socket_of(one) != node.socket_of(other):
        return NODE
    common = [cache.level for cache in node.caches if core // cache.cores == beside // cache.cores]
    return cache_seat(min(common)) if common else SOCKET
