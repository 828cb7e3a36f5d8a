from __future__ import annotations

from pathlib import Path

from scripts.papers.figures import Figures


def draw(figures: Figures, folder: Path) -> list[Path]:
    return []
