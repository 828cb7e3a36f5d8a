"""What a limit is extended by, and for whom: the readings of the paper (X1 to X7 of the list), all of RUA against all of LC.

Each reading is a run of its own of LC, RUA or FF; a comparison takes one of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scripts.papers.claims import Band, Claim, by_construction, judged, near_ratio
from scripts.papers.figures import Figures, Where, interval_text
from scripts.papers.rua.claims import DIFFERENT, NAMES, TEXT_FACTOR, less, ratio
from scripts.papers.rua.experiment import FF_EXTENDS, HARD, READINGS, WORKLOADS
from scripts.papers.rua.published import KILLED, PENALISED, published_ratio
from scripts.tables import NOTHING, table_head, table_row

from cosched_emulator.statistics.intervals import Verdict

WEEK_P95: Final = "killed_week_p95"
BOTH: Final = (KILLED, PENALISED)
# By what is shown of a run: the variant, and what its limits are; None: the base runs.
OF_RUA: Final = {
    None: "factor found",
    "threshold": "threshold",
    "from 1.0": "factor found, thresholds from 1.0",
    "from 1.0 by threshold": "threshold, from 1.0 on",
}
OF_LC: Final = {
    None: "factor found",
    "none": "not extended",
    "control": "as RUA's threshold",
    "at least 1.15": "factor found, at least 1.15",
    "may wait": "factor found; may wait",
}


def reading_claims(figures: Figures) -> list[Claim]:
    """Return a row for each reading and cell."""
    return [
        *_pairs(figures, "X1", None, "none"),
        *_kept_limits(figures),
        *_pairs(figures, "X2", "threshold", None),
        *_pairs(figures, "X2, X1", "threshold", "none"),
        *_pairs(figures, "X3", "from 1.0", None),
        *_pairs(figures, "X3, X2", "from 1.0 by threshold", None),
        *_pairs(figures, "X4", None, "may wait"),
        *_again(),
        *_by_week(figures),
        *_pairs(figures, "X7", "threshold", "control"),
        *_longer(figures),
    ]


def _pairs(figures: Figures, text: str, rua: str | None, lc: str | None) -> Iterator[Claim]:
    """Yield the claims that RUA under one reading has less than LC under another."""
    for key in BOTH:
        for workload in WORKLOADS:
            yield less(figures, text, key, Where(workload, "RUA", rua), Where(workload, "LC", lc), "substantially less")


def _kept_limits(figures: Figures) -> Iterator[Claim]:
    for workload in HARD:
        found = ratio(figures, KILLED, Where(workload, "FF"), Where(workload, "LC", "none"))
        target = published_ratio(KILLED, workload, "FF", "LC") or TEXT_FACTOR
        yield near_ratio("X1: FF / LC (none), killed", workload, target, found)


def _again() -> Iterator[Claim]:
    text = "X5: a limit that is extended again for later neighbours kills no job within its estimate"
    told = "a job that needs its estimate ends at its limit; `limit_factors = [1.34]` comes to the same, as no factor is above 4/3"
    yield by_construction(Claim(text, "both logs", NOTHING, told, 0, Verdict.YES))


def _by_week(figures: Figures) -> Iterator[Claim]:
    for workload in WORKLOADS:
        found = ratio(figures, WEEK_P95, Where(workload, "RUA"), Where(workload, "LC"))
        text = "X6: RUA / LC below 1, killed a week p95"
        yield judged(text, workload, "less", found, Band.below(1 - DIFFERENT), interval_text)
    for workload in HARD:
        found = ratio(figures, WEEK_P95, Where(workload, "FF"), Where(workload, "LC"))
        target = published_ratio(KILLED, workload, "FF", "LC") or TEXT_FACTOR
        yield near_ratio("X6: FF / LC, killed a week p95", workload, target, found)


def _longer(figures: Figures) -> Iterator[Claim]:
    for workload in WORKLOADS:
        for variant in ("control", "at least 1.15"):
            yield less(figures, "X7", KILLED, Where(workload, "LC", variant), Where(workload, "LC"), "longer limits")
    for workload in WORKLOADS:
        yield less(figures, "X7", KILLED, Where(workload, FF_EXTENDS, "control"), Where(workload, "RUA", "threshold"))


def combination_tables(figures: Figures) -> list[str]:
    """Return RUA against LC under all readings: a table for each figure, empty where nothing has run."""
    lines: list[str] = []
    for key in BOTH:
        rows = [row for rua in OF_RUA for row in _rows(figures, key, rua)]
        if rows:
            head = table_head(("limits of RUA", "limits of LC"), WORKLOADS)
            lines += [f"### {NAMES[key].capitalize()}: RUA / LC", "", *head, *rows, ""]
    return lines


def _rows(figures: Figures, key: str, rua: str | None) -> Iterator[str]:
    for lc, text in OF_LC.items():
        found = [ratio(figures, key, Where(workload, "RUA", rua), Where(workload, "LC", lc)) for workload in WORKLOADS]
        if any(found):
            yield table_row((OF_RUA[rua], text), [interval_text(each) for each in found])


def texts() -> list[str]:
    """Return what each reading is."""
    return [f"- **{name}**: {variant.text}." for name, variant in READINGS.items()]
