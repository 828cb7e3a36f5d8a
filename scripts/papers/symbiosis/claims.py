"""What is wanted of symbiosis, and whether it holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from scripts.papers.claims import Band, Claim, judged
from scripts.papers.figures import Figures, Where, interval_text
from scripts.papers.means import BASE
from scripts.papers.symbiosis import experiment as ex
from scripts.tables import number

from cosched_emulator.statistics.intervals import Interval, difference_of
from cosched_emulator.statistics.weighted import CLASS_NAMES

RESPONSE, SLOWDOWN, P99 = "response_s_mean", "bounded_slowdown_10s_mean", "response_s_p99"
NAMES: Final = {RESPONSE: "mean response", SLOWDOWN: "mean bounded slowdown", P99: "response p99"}
# By figure: what it is to be at most, as a part of the best paper's policy on W2, and of L-U1 with the shortest first.
OF_PAPERS: Final[Mapping[str, float]] = {RESPONSE: 0.72, SLOWDOWN: 0.25, P99: 1.0}
OF_SHORTEST: Final[Mapping[str, float]] = {RESPONSE: 0.85, SLOWDOWN: 1.0}
ON_LOGS: Final[Mapping[str, float]] = {"SDSC-SP2": 0.92, "BLUE": 0.92, "CTC": 1.0}
NO_WORSE: Final = 1.02  # than without sharing, where what is believed is wrong
MOST_LATER, MOST_OF_CLASS = 0.08, 0.15
# Of express, as a part of L-U1 with the shortest first: set at the plausible price.
OF_EXPRESS: Final[Mapping[str, float]] = {RESPONSE: 0.75, SLOWDOWN: 0.40}
EXPRESS_LATER, EXPRESS_OF_CLASS = 0.06, 0.12
# With measured co-runs, mean response over that of EASY with the shortest first.
ON_CO_RUNS: Final[Mapping[str, float]] = {ex.NAS: 0.90, ex.NAS_LOG: 0.93}
POINTS: Final = 0.02  # above the floor, at W1


def claims(figures: Figures) -> list[Claim]:
    """Return what is wanted, each with what was measured."""
    return [*_of_w2(figures), *_harm(figures), *_logs(figures), *_dear(figures), *_express(figures), *_co_runs(figures)]


def _of_w2(figures: Figures) -> Iterator[Claim]:
    own = Where("W2", ex.SYMBIOSIS)
    for place, (figure, most) in enumerate(OF_PAPERS.items(), 1):
        best = best_paper(figures, "W2", figure)
        text = f"G{place}: {NAMES[figure]} over that of the best paper's policy"
        yield _at_most(text, f"W2, {best.policy}", figures.ratio(figure, own, best), most)
    for place, (figure, most) in enumerate(OF_SHORTEST.items(), 4):
        text = f"G{place}: {NAMES[figure]} over that of {ex.U1_SHORTEST}"
        yield _at_most(text, "W2", figures.ratio(figure, own, Where("W2", ex.U1_SHORTEST)), most)


def _harm(figures: Figures) -> Iterator[Claim]:
    for workload, points in (("W2", 0.0), ("W1", POINTS)):
        where = Where(workload, ex.SYMBIOSIS)
        text = f"G{6 if workload == 'W2' else 13}: Hshk less its floor"
        later, floor = figures.values("harm_hshk", where), figures.values("harm_hshk_floor", where)
        yield _at_most(text, workload, difference_of(later, floor) if later else None, points)
    yield from _later(
        figures, Where("W2", ex.SYMBIOSIS), ("G7: H1", MOST_LATER), ("G8: H1 of the worst class", MOST_OF_CLASS)
    )


def _later(figures: Figures, where: Where, share: tuple[str, float], of_class: tuple[str, float]) -> Iterator[Claim]:
    """Yield the share of the jobs that are later than under EASY, and that of the class which fares worst."""
    worst = [figures.mean(f"harm_{name.replace(' ', '_')}_h1", where) for name in CLASS_NAMES]
    found = max([each for each in worst if each is not None], key=lambda each: each.mean, default=None)
    for (text, most), measured in ((share, figures.mean("harm_h1", where)), (of_class, found)):
        yield _at_most(f"{text}", ", ".join(filter(None, where[::2])), measured, most)


def _logs(figures: Figures) -> Iterator[Claim]:
    for log in ex.LOGS:
        own, base = Where(log, ex.SYMBIOSIS), Where(log, ex.U1_SHORTEST)
        for figure, most in ((RESPONSE, ON_LOGS[log]), (SLOWDOWN, 1.0)):
            text = f"G{9 if figure == RESPONSE else 10}: {NAMES[figure]} over that of {ex.U1_SHORTEST}"
            yield _at_most(text, log, figures.ratio(figure, own, base), most)


def _dear(figures: Figures) -> Iterator[Claim]:
    for name, place in (
        (ex.WHOLE, {"variant": ex.WHOLE}),
        (ex.NOISE, {"belief": ex.NOISE}),
    ):
        own, base = Where("W2", ex.SYMBIOSIS, **place), Where("W2", ex.U1_SHORTEST, **place)
        text = f"G11: mean response over that of {ex.U1_SHORTEST}"
        yield _at_most(text, f"W2, {name}", figures.ratio(RESPONSE, own, base), 1.0)
    for belief in ex.WRONG:
        own, base = Where("W2", ex.SYMBIOSIS, belief=belief), Where("W2", ex.EASY_SHORTEST)
        text = "G12: mean response over that without sharing"
        yield _at_most(text, f"W2, {belief}", figures.ratio(RESPONSE, own, base), NO_WORSE)


def _express(figures: Figures) -> Iterator[Claim]:
    base = Where("W2", ex.U1_SHORTEST)
    for place, (figure, most) in enumerate(OF_EXPRESS.items(), 14):
        for price in (BASE, *ex.PRICES):
            text = f"G{place}: express, {NAMES[figure]} over L-U1's"
            where = f"W2, {'no price' if price == BASE else price}"
            yield _at_most(text, where, figures.ratio(figure, Where("W2", ex.EXPRESS, variant=price), base), most)
    texts = ("G16: express, H1", EXPRESS_LATER), ("G17: express, H1 of the worst class", EXPRESS_OF_CLASS)
    yield from _later(figures, Where("W2", ex.EXPRESS, variant=ex.HARMED_AT), *texts)
    own, fair = (
        Where("W2", ex.EXPRESS, variant=ex.HARMED_AT, belief=ex.NOISE),
        Where("W2", ex.SYMBIOSIS, belief=ex.NOISE),
    )
    text = "G18: express, mean response over that of symbiosis"
    yield _at_most(text, f"W2, {ex.NOISE}, {ex.HARMED_AT}", figures.ratio(RESPONSE, own, fair), 1.0)


def _co_runs(figures: Figures) -> Iterator[Claim]:
    for work, most in ON_CO_RUNS.items():
        text = f"G19: on halves of nodes, mean response over that of {ex.EASY_SHORTEST}"
        yield _at_most(
            text,
            work,
            figures.ratio(RESPONSE, Where(work, ex.HALVES), Where(work, ex.EASY_SHORTEST)),
            most,
        )


def _at_most(text: str, where: str, found: Interval | None, most: float) -> Claim:
    return judged(text, where, f"at most {number(most)}", found, Band.below(most), interval_text)


def best_paper(figures: Figures, workload: str, figure: str) -> Where:
    """Return the paper's policy whose mean is the lowest; the first where none has run."""
    means = [(found.mean, name) for name in ex.PAPERS if (found := figures.mean(figure, Where(workload, name)))]
    return Where(workload, min(means)[1] if means else ex.PAPERS[0])
