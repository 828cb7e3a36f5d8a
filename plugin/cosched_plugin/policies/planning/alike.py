"""Machines whose nodes are all alike: a requirement of parts that count nodes."""

from __future__ import annotations

from cosched_plugin.api import MachineError, NodeClass, View


def class_of_all(view: View) -> NodeClass:
    """Return the class of all nodes; MachineError for a machine whose nodes differ."""
    classes = view.machine.classes
    if len(classes) > 1:
        raise MachineError(
            "planning with whole nodes (placement spread or halves, fairness slack) needs nodes that are all alike; "
            f"this machine has {len(classes)} classes of them"
        )
    return classes[0]
