"""Shapes: whether jobs take threads or whole nodes."""

from __future__ import annotations

from typing import ClassVar

from cosched_plugin.api import THREADS, WHOLE_NODES, Needs, Shape, View, WholeNodesView


class Threads(Shape):
    """A job takes free hardware threads, wherever they are."""

    provides: ClassVar[Needs] = frozenset({THREADS})

    def shaped(self, view: View) -> View:
        """Return the view as it is."""
        return view


class Nodes(Shape):
    """A job takes empty nodes, and is alone on them until a matching puts another job beside it."""

    provides: ClassVar[Needs] = frozenset({WHOLE_NODES})

    def shaped(self, view: View) -> View:
        """Return the view of whole nodes."""
        return WholeNodesView(view)
