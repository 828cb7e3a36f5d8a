"""The nodes that a command is given: a file, a preset or a layout, of a size that a command can show."""

from __future__ import annotations

from typing import Final

from cosched_hwmodel.cli.errors import CommandError
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
