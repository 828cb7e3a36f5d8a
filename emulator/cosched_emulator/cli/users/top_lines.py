"""Lines of `top`: each is a list of (text, style); the terminal code maps each style to its colours."""

from __future__ import annotations

from typing import TypeAlias

Segment: TypeAlias = tuple[str, str]
Line: TypeAlias = list[Segment]
PLAIN, BOLD, DIM, ONE, SHARED, OUT, CHOSEN, ALIKE = "plain", "bold", "dim", "one", "shared", "out", "chosen", "alike"


def add(line: Line, text: str, style: str) -> None:
    """Add a text to a line; it joins the last one if that has the same style."""
    if line and line[-1][1] == style:
        line[-1] = (line[-1][0] + text, style)
    else:
        line.append((text, style))
