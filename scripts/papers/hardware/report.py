from __future__ import annotations

from scripts.papers.figures import Figures
from scripts.papers.study import Size


def report(figures: Figures, size: Size) -> list[str]:
    return []
