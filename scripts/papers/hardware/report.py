"""The page of the study on measured co-runs, and of predictions beside measurements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scripts.papers.claims import VERDICTS, claims_table
from scripts.papers.figures import Figures
from scripts.papers.hardware.claims import claims
from scripts.papers.hardware.lomarc_tables import lomarc_table
from scripts.papers.hardware.predictions import nas_table, node_table
from scripts.papers.hardware.tables import bounds, elise, file_of, knowledge, mixes, not_reached, schedulers, slower
from scripts.papers.study import Size

INTRODUCTION: Final = (
    "NAS programs that were measured beside each other (ARIS: 809 co-runs on nodes of 2 x 10 cores; Marconi: a heat map on nodes of"
    " 2 x 24), taken as the truth of emulated nodes. A *compact* job has all cores of its nodes, a *spread* one half of those of"
    " twice as many. The setting is that of ELiSE (JSSPP 2025): all jobs are submitted at once, and the makespan is held against EASY"
    " with compact jobs. Run times on Marconi are those on ARIS of the same program and class with 256 processes; where there is none"
    " (`cg.D`, `ft.E`), the mean of these."
)
_PARTS: Final = {
    "ELiSE's Table 2": elise,
    "Sizes mixed": mixes,
    "All schedulers": schedulers,
    "Who runs slower than compact": slower,
    "How short a makespan can be": bounds,
    "What is not reached, and why": not_reached,
    "What the scheduler knows, varied": knowledge,
}


def report(figures: Figures, size: Size) -> list[str]:
    """Return the lines of the page."""
    return [*_lines(figures, size)]


def _lines(figures: Figures, size: Size) -> Iterator[str]:
    yield INTRODUCTION
    yield ""
    yield f"{size.jobs} jobs a run, up to {size.seeds} seeds. {VERDICTS}"
    yield ""
    yield "## What is published and what is wanted"
    yield ""
    yield from claims_table(claims(figures))
    for title, part in _PARTS.items():
        found = part(figures)
        if found:
            yield f"## {title}"
            yield ""
            yield from found
    if size.quick:
        return
    yield "## Predicted beside measured"
    yield ""
    yield "### LOMARC's tables"
    yield ""
    yield from lomarc_table()
    file = file_of(figures, "ARIS 256")
    if file is not None:
        yield "### NAS pairs that were not measured"
        yield ""
        yield from nas_table(file, file_of(figures, "Marconi 1.12"))
    yield "### A node that the program has measured"
    yield ""
    yield from node_table()
