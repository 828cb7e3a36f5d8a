"""The page of GPUs that two jobs may share: who gains, who pays, and what the scheduler must know."""

from __future__ import annotations

from typing import Final

from scripts.papers.claims import VERDICTS, Band
from scripts.papers.figures import Figures, Where
from scripts.papers.gpus import experiment as ex
from scripts.papers.guests.report import P99, RESPONSE, at_most, bars_over, over
from scripts.papers.harm import harm
from scripts.papers.pages import claims_of, page, presets
from scripts.papers.rows import block, cell, judging, ratio, row
from scripts.papers.rua.experiment import WINDOWS
from scripts.papers.rua.windows import WindowFigures
from scripts.papers.saturation import saturation
from scripts.papers.study import BASE, Size
from scripts.papers.symbiosis.report import above_floor, corrected

# fmt: off
claims: Final = judging((
    block(
        at_most(f"U1: {ex.SYMBIOSIS}, mean response over that of {ex.U1_SHORTEST}", ratio(RESPONSE, ex.SYMBIOSIS, ex.U1_SHORTEST),
            1.02),
        row(f"U2: {{policy}}, mean response over that of {ex.EASY_SHORTEST}", ratio(RESPONSE, "{policy}", ex.EASY_SHORTEST),
            Band.below(1.0), "below 1", policy=(ex.U1_SHORTEST, ex.SYMBIOSIS)),
        at_most(f"U3: {ex.SYMBIOSIS}, response p99 over that of {ex.EASY_SHORTEST}", ratio(P99, ex.SYMBIOSIS, ex.EASY_SHORTEST), 1.0),
        row(f"U4: {ex.GUESTS}, mean response over that of {ex.EASY}", ratio(RESPONSE, ex.GUESTS, ex.EASY), Band.below(1.0), "below 1"),
        work=ex.WORKS),
    at_most("U5: {policy}, Hshk less its floor", above_floor, 0.02, work=ex.V100, policy=(ex.U1_SHORTEST, ex.SYMBIOSIS)),
    at_most("U6: {policy}, learned beliefs, mean response over that of exact ones",
        ratio(RESPONSE, cell(f"{{policy}}, {ex.LEARNED}", belief=ex.UNKNOWN), "{policy}"), 1.10, work=ex.V100, policy=ex.LEARNING),
))
# fmt: on
_HARMED: Final = [Where(ex.V100, name) for name in ex.COMPARED[1:]]
_TOLD: Final = [
    (work, ex.believed(gpu, belief)) for gpu, work in zip(ex.TYPES, ex.SHORT, strict=True) for belief in ex.BELIEVED
]
_SHORT: Final = (
    f"Each run has {ex.SHORT_JOBS} jobs, and there are two seeds: a preview. *{ex.NOISE}*: each ratio has that error;"
    f" *{ex.SHUFFLED}*: each application has the row and column of another one; *{ex.INVERTED}*: the best pair has the ratio of the"
    " worst, and so on."
)
PARTS: Final = {
    "Goals": claims_of(claims, text=VERDICTS),
    "All policies": over(
        ex.EASY_SHORTEST,
        [
            *(Where(work, name) for work in ex.WORKS for name in ex.MAIN),
            Where(ex.V100, ex.FOR_CORES),
            *(Where(ex.V100, f"{name}, {ex.LEARNED}", belief=ex.UNKNOWN) for name in ex.LEARNING),
        ],
    ),
    "A belief that is corrected": corrected(_TOLD, BASE, _SHORT),
    "Who is later": harm(ex.EASY_SHORTEST, _HARMED, _HARMED, "four", "three"),
    "Saturation": saturation([Where(work, name) for work in ex.WORKS for name in (ex.EASY_SHORTEST, ex.SYMBIOSIS)]),
}


def _head(figures: Figures, size: Size) -> list[str]:
    return [
        f"{ex.GPUS} GPUs of one type; a GPU runs up to two jobs, with the measured slowdowns of its type. {', '.join(ex.TYPES)}:"
        f" {size.jobs:,} jobs of the Lublin-Feitelson model, its processors taken as GPUs, seeds {ex.FIRST_SEED} to"
        f" {ex.FIRST_SEED + size.seeds - 1}. *Philly*: {size.jobs:,} jobs as Gavel's generator draws them from Microsoft's Philly"
        " log (`scheduler/utils.py`): 1, 2, 4 or 8 GPUs (70, 10, 15, 5 %) for 10^x minutes, x uniform from 1.5 to 3 (80 %) or from"
        f" 3 to 4; load {ex.LOAD:g}, {len(WINDOWS)} draws. A job's application is drawn uniformly from the table; estimates are exact."
        f" The settings of symbiosis for GPUs are the last of {ex.VARIANTS_TRIED} that were tried, on the V100 with seeds 1 to 4, on"
        " the other types with seed 3. Each row says how many seeds have run.",
        "",
        *presets(ex.POLICIES)(figures)[:-1],
    ]


report = page(_head, PARTS, WindowFigures)
PICTURES: Final = {"": bars_over(ex.EASY_SHORTEST, ex.WORKS, ex.SHARING)}
OVER: Final = WindowFigures
