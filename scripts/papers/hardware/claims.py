"""What is published of co-execution, or wanted here, and whether it holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scripts.papers.claims import Band, Claim, judged, near
from scripts.papers.figures import Figures, Where, interval_text, percent_text
from scripts.papers.hardware import experiment as ex
from scripts.papers.hardware.published import ARIS_256, ARIS_MIXED, MOST_SLOWER, TABLE_2, WANTED, WANTED_MIXED

from cosched_emulator.statistics.intervals import Interval

MAKESPAN: Final = "makespan_s"


def claims(figures: Figures) -> list[Claim]:
    """Return the claims, each with what was measured."""
    return [*_published(figures), *_wanted(figures)]


def _published(figures: Figures) -> Iterator[Claim]:
    for workload, (mean, published) in zip(ex.MARCONI, TABLE_2.items(), strict=True):
        text = f"Table 2, mean speedup {mean}: makespan of the {ex.ELISE} against EASY, %"
        yield near(text, workload, published, _against(figures, workload, ex.ELISE))
    for workload, published in (("ARIS 256", ARIS_256), (ex.MIXED, ARIS_MIXED)):
        text = f"200 nodes of 20 cores: makespan of the {ex.ELISE} against EASY, %"
        yield near(text, workload, published, _against(figures, workload, ex.ELISE))


def _wanted(figures: Figures) -> Iterator[Claim]:
    wanted = {f"Marconi {mean}": points for mean, points in WANTED.items()}
    for workload, points in {**wanted, ex.MIXED: WANTED_MIXED, "ARIS all": WANTED_MIXED}.items():
        found = _against(figures, workload, ex.CO_EXECUTION)
        text = f"makespan of {ex.CO_EXECUTION} against EASY, %: at least {points:g} % better"
        yield judged(text, workload, "wanted", found, Band.below(-points), percent_text)
    for workload in (ex.MIXED, "ARIS all"):
        slower = figures.mean("slower_by_5", Where(workload, ex.CO_EXECUTION))
        text = f"share of the jobs that are slower than compact by more than 5 %: at most {MOST_SLOWER:g}"
        verdict = Band.below(MOST_SLOWER)
        yield judged(text, workload, "wanted", slower, verdict, interval_text)


def _against(figures: Figures, workload: str, policy: str) -> Interval | None:
    return figures.change(MAKESPAN, Where(workload, policy), Where(workload, ex.EASY))
