"""What is wanted of symbiosis, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from scripts.papers.claims import Claim
from scripts.papers.figures import Figures, Where
from scripts.papers.guests.claims import P99, RESPONSE, SLOWDOWN, at_most
from scripts.papers.rows import Found, Row, Table, cell, judging, mean, ratio
from scripts.papers.study import BASE
from scripts.papers.symbiosis import experiment as ex

from cosched_emulator.statistics.intervals import difference_of
from cosched_emulator.statistics.weighted import CLASS_NAMES

NAMES: Final = {RESPONSE: "mean response", SLOWDOWN: "mean bounded slowdown", P99: "response p99", BASE: "no price"}
ON_LOGS: Final[Mapping[str, float]] = {"SDSC-SP2": 0.92, "BLUE": 0.92, "CTC": 1.0}


def best_paper(figures: Figures, workload: str, figure: str) -> Where:
    """Return the paper's policy whose mean is the lowest; the first where none has run."""
    means = [(found.mean, name) for name in ex.PAPERS if (found := figures.mean(figure, Where(workload, name)))]
    return Where(workload, min(means)[1] if means else ex.PAPERS[0])


def _against_best(ids: str, key: str, most: float, work: str = "W2") -> Any:
    """Return a claim against the best paper's policy, which is named where the claim is."""

    def claims(figures: Figures) -> list[Claim]:
        best = best_paper(figures, work, key)
        text = f"{ids}: {NAMES[key]} over that of the best paper's policy{', fresh seeds' * (work == ex.ANEW)}"
        return Table(figures).claims(
            [at_most(text, ratio(key, ex.SYMBIOSIS, best), most, at=f"{work}, {best.policy}", work=work)]
        )

    return claims


def above_floor(figures: Figures, work: str, policy: str = ex.SYMBIOSIS) -> Found:
    """Return Hshk less its floor."""
    later, floor = (figures.values(name, Where(work, policy)) for name in ("harm_hshk", "harm_hshk_floor"))
    return difference_of(later, floor) if later else None


def _worst_class(figures: Figures, policy: str, variant: str | None, **_: Any) -> Found:
    """Return the share of later jobs of the class of jobs that fares worst."""
    found = [figures.mean(f"harm_{name.replace(' ', '_')}_h1", Where("W2", policy, variant)) for name in CLASS_NAMES]
    return max([each for each in found if each is not None], key=lambda each: each.mean, default=None)


def _later(policy: str, variant: str | None, of_all: tuple[str, float], of_class: tuple[str, float]) -> list[Row]:
    """Return the share of the jobs that are later than under EASY, and that of the class which fares worst."""
    at, place = ", ".join(filter(None, ("W2", variant))), {"work": "W2", "policy": policy, "variant": [variant]}
    figures = (mean("harm_h1", policy), _worst_class)
    return [
        at_most(text, figure, most, at=at, **place)
        for figure, (text, most) in zip(figures, (of_all, of_class), strict=True)
    ]


def _to_shortest(ids: str, key: str, most: float, **each: Any) -> Row:
    return at_most(
        f"{ids}: {NAMES[key]} over that of {ex.U1_SHORTEST}", ratio(key, ex.SYMBIOSIS, ex.U1_SHORTEST), most, **each
    )


_TO_NONE = ratio(RESPONSE, ex.SYMBIOSIS, cell(ex.EASY_SHORTEST, belief=None))
_U1 = cell(ex.U1_SHORTEST, variant=None)
# fmt: off
claims: Final = judging((
    _against_best("G1", RESPONSE, 0.72),
    _against_best("G20", RESPONSE, 0.72, ex.ANEW),
    _against_best("G2", SLOWDOWN, 0.25),
    _against_best("G3", P99, 1.0),
    _to_shortest("G4", RESPONSE, 0.85, work="W2"),
    _to_shortest("G5", SLOWDOWN, 1.0, work="W2"),
    at_most("G6: Hshk less its floor", above_floor, 0.0, work="W2"),
    at_most("G13: Hshk less its floor", above_floor, 0.02, work="W1"),
    *_later(ex.SYMBIOSIS, None, ("G7: H1", 0.08), ("G8: H1 of the worst class", 0.15)),
    *(each for log in ex.LOGS for each in (_to_shortest("G9", RESPONSE, ON_LOGS[log], work=log), _to_shortest("G10", SLOWDOWN, 1.0,
            work=log))),
    _to_shortest("G11", RESPONSE, 1.0, at="W2, {variant}", work="W2", variant=ex.WHOLE),
    _to_shortest("G11", RESPONSE, 1.0, at="W2, {belief}", work="W2", belief=ex.NOISE),
    at_most("G12: mean response over that without sharing", _TO_NONE, 1.02, at="W2, {belief}", work="W2", belief=ex.WRONG),
    at_most("G14: express, {key} over L-U1's", ratio("{key}", ex.EXPRESS, _U1), 0.75, at="W2, {variant}", work="W2", key=RESPONSE,
        variant=(BASE, *ex.PRICES)),
    at_most("G15: express, {key} over L-U1's", ratio("{key}", ex.EXPRESS, _U1), 0.40, at="W2, {variant}", work="W2", key=SLOWDOWN,
        variant=(BASE, *ex.PRICES)),
    *_later(ex.EXPRESS, ex.HARMED_AT, ("G16: express, H1", 0.06), ("G17: express, H1 of the worst class", 0.12)),
    at_most("G18: express, mean response over that of symbiosis",
        ratio(RESPONSE, cell(ex.EXPRESS, variant=ex.HARMED_AT), ex.SYMBIOSIS), 1.0, at=f"W2, {ex.NOISE}, {ex.HARMED_AT}", work="W2",
        belief=ex.NOISE),
    at_most(f"G19: on halves of nodes, mean response over that of {ex.EASY_SHORTEST}", ratio(RESPONSE, ex.HALVES, ex.EASY_SHORTEST),
        0.90, work=ex.NAS),
    at_most(f"G19: on halves of nodes, mean response over that of {ex.EASY_SHORTEST}", ratio(RESPONSE, ex.HALVES, ex.EASY_SHORTEST),
        0.93, work=ex.NAS_LOG),
), NAMES)
# fmt: on
