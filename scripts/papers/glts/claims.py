"""The claims of the G-LOMARC-TS paper, each with what was measured with one try and with all, and whether the seeds show it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

from scripts.papers.claims import NOT_RUN, Of, quarter
from scripts.papers.figures import Figures, Where, interval_text, percent_text
from scripts.papers.glts.experiment import (
    AARR,
    BASE,
    BLOCK,
    BLOCKS,
    SLACK,
    SLACKS,
    SSP,
    TRIES,
    policy,
)
from scripts.papers.glts.published import (
    BEST_BLOCK,
    CORE_UTILISATION,
    DELAY,
    ENOUGH_SLACK,
    GROUPS,
    RELATIVE_RESPONSE,
    SSP_W2,
)
from scripts.tables import NOTHING, number, percent, table_head, table_row

from cosched_emulator.statistics.intervals import (
    Interval,
    Verdict,
    mean_interval,
    verdict_above,
    verdict_below,
    verdict_within,
)

LITTLE: Final = 5.0  # percent that count as no difference
GROWS: Final = 2.0  # the queue of the second half over that of the first from which on it counts as growing
# By class as the paper names them: the relative responses that stand for them. The paper's cut-off is taken as 600 s.
RESPONSES: Final = {"medium": "rr_60_medium", "long": "rr_60_long", "all": "rr_600_all"}
HIGH_LOAD: Final = "high_load_medium_or_long"
HEAD: Final = ("claim", "", "published", "one try", "verdict", "all tried", "verdict", "seeds")


class Claim(NamedTuple):
    """A claim of the paper, and what judges it."""

    text: str
    where: str
    published: str
    found: Callable[[str], Interval | None]  # by number of tries: the figure; None: not run
    judge: Callable[[Interval], Verdict]
    shown: Callable[[Interval | None], str] = percent_text

    @property
    def row(self) -> str:
        """Return the row of the table."""
        intervals = [self.found(tries) for tries in TRIES]
        cells = [cell for found in intervals for cell in (self.shown(found), self._verdict(found))]
        seeds = max([found.n for found in intervals if found is not None], default=0)
        return table_row((self.text, self.where), [self.published, *cells, str(seeds or NOTHING)])

    def _verdict(self, found: Interval | None) -> str:
        if found is None:
            return NOT_RUN
        verdict = self.judge(found)
        return f"**{verdict}**" if verdict == Verdict.NO else str(verdict)


def claims_table(figures: Figures) -> list[str]:
    """Return the table of all claims."""
    parts = (_response, _utilisation, _groups, _load, _delay, _variants, _blocks, _slack)
    return [*table_head(HEAD), *(claim.row for part in parts for claim in part(figures)), ""]


def where_of_block(size: int, scheduler: str, tries: str) -> Where:
    """Return the runs with blocks of so many jobs."""
    return Where("W2", policy(scheduler, tries), BASE if size == BLOCK else f"block-{size}")


def where_of_slack(factor: str, tries: str) -> Where:
    """Return the runs with this slack factor; ``none``: no group is refused for fairness."""
    return Where("W1", policy("GLTS", tries), BASE if factor == SLACK else f"slack-{factor}")


def _rival(workload: str, name: str, tries: str) -> Where:
    return Where(workload, name if name == SSP else policy(name, tries))


def _glts(workload: str, tries: str) -> Where:
    return Where(workload, policy("GLTS", tries))


def _close(text: str, published: float, found: Callable[[str], Interval | None]) -> Claim:
    """Return the claim that a change at W1 is as published: within a quarter of that, or two points if that is more."""
    band = quarter(published, Of.CHANGE)
    points = band.high - published
    return Claim(f"{text}: within {points:.2g} points", "W1", percent(published), found, band.verdict)


def _within(share: float, size: float) -> Callable[[Interval], Verdict]:
    return partial(verdict_within, low=share - size, high=share + size)


def _response(figures: Figures) -> Iterator[Claim]:
    for rival, by_class in RELATIVE_RESPONSE.items():
        for name, published in by_class.items():

            def found(tries: str, rival: str = rival, name: str = name) -> Interval | None:
                return figures.change(RESPONSES[name], _glts("W1", tries), _rival("W1", rival, tries))

            text = f"GLTS against {rival}, RR of {name} jobs, %"
            yield Claim(f"{text}: lower", "W1", percent(published), found, verdict_below)
            yield _close(text, published, found)
    yield Claim(
        "long jobs gain more from GLTS than medium ones, points",
        "W1",
        percent(RELATIVE_RESPONSE[SSP]["long"] - RELATIVE_RESPONSE[SSP]["medium"]),
        lambda tries: _more_for_long(figures, tries),
        verdict_below,
    )


def _more_for_long(figures: Figures, tries: str) -> Interval | None:
    """Return how much further the RR of long jobs is below SSP's than that of medium ones, in points, paired by seed."""
    changes: list[Mapping[int, float]] = []
    for name in ("long", "medium"):
        mine, theirs = (figures.values(RESPONSES[name], where) for where in (_glts("W1", tries), Where("W1", SSP)))
        changes.append({seed: 100 * (value / theirs[seed] - 1) for seed, value in mine.items() if theirs.get(seed)})
    more = [value - changes[1][seed] for seed, value in changes[0].items() if seed in changes[1]]
    return mean_interval(more) if more else None


def _utilisation(figures: Figures) -> Iterator[Claim]:
    for rival, published in CORE_UTILISATION.items():

        def found(tries: str, rival: str = rival) -> Interval | None:
            return figures.change(HIGH_LOAD, _glts("W1", tries), _rival("W1", rival, tries))

        text = f"GLTS against {rival}, core utilisation in high-load phases, %"
        yield Claim(f"{text}: higher", "W1", percent(published), found, verdict_above)
        yield _close(text, published, found)


def _groups(figures: Figures) -> Iterator[Claim]:
    def of_w1(name: str) -> Callable[[str], Interval | None]:
        return lambda tries: figures.mean(f"groups_{name}", _glts("W1", tries))

    in_percent = partial(interval_text, factor=100.0)
    share, few = GROUPS["W1"]["share"], GROUPS["W1"]["few_candidates"]
    text = f"medium and long jobs in groups, %: within {LITTLE:g} points"
    yield Claim(text, "W1", number(100 * share), of_w1("share"), _within(share, LITTLE / 100), in_percent)
    for workload in AARR:
        size = GROUPS[workload]["size"]

        def found(tries: str, workload: str = workload) -> Interval | None:
            return figures.mean("groups_size", _glts(workload, tries))

        yield Claim("jobs a group: within 0.25", workload, number(size), found, _within(size, 0.25), interval_text)
    text = "searches with fewer than 4 candidates, %: within 10 points"
    yield Claim(text, "W1", number(100 * few), of_w1("few_candidates"), _within(few, 0.1), in_percent)
    yield Claim(
        "more jobs in groups at W2 than at W1, %: 20 to 38",
        "W2",
        "a quarter to a third",
        lambda tries: figures.change("groups_jobs", _glts("W2", tries), _glts("W1", tries)),
        lambda interval: verdict_within(interval, 20, 38),
    )


def _load(figures: Figures) -> Iterator[Claim]:
    for name, published in SSP_W2.items():
        yield Claim(
            f"RR of {name} jobs under SSP: within a quarter",
            "W2",
            number(published),
            lambda _tries, name=name: figures.mean(RESPONSES[name], Where("W2", SSP)),  # type: ignore[misc]
            quarter(published, Of.LEVEL).verdict,
            interval_text,
        )
    growth = "waiting_growth"
    text = "mean queue of the second half of the submissions over that of the first"
    yield Claim(
        f"SSP is saturated: {text} is above {GROWS:g}",
        "W2",
        "saturated",
        lambda _tries: figures.mean(growth, Where("W2", SSP)),
        lambda interval: verdict_above(interval, GROWS),
        interval_text,
    )
    yield Claim(
        f"GLTS is not: it is below {GROWS:g}",
        "W2",
        "not saturated",
        lambda tries: figures.mean(growth, _glts("W2", tries)),
        lambda interval: verdict_below(interval, GROWS),
        interval_text,
    )


def _delay(figures: Figures) -> Iterator[Claim]:
    titles = {"mean": "mean", "p75": "75th percentile", "p95": "95th percentile"}
    for name in ("medium", "long"):
        for key, title in titles.items():

            def found(tries: str, name: str = name, key: str = key) -> Interval | None:
                return figures.mean(f"delay_{name}_{key}", _glts("W1", tries))

            text = f"response / expected response of {name} jobs, {title}: within 0.1"
            yield Claim(text, "W1", number(DELAY[key]), found, _within(DELAY[key], 0.1), interval_text)


def _variants(figures: Figures) -> Iterator[Claim]:
    for rival in ("GLTS-FBO", "GLTS-NS", "GLTS-NH"):
        for name, key in RESPONSES.items():

            def found(tries: str, rival: str = rival, key: str = key, workload: str = "W1") -> Interval | None:
                return figures.change(key, _rival(workload, rival, tries), _glts(workload, tries))

            text = f"{rival} against GLTS, RR of {name} jobs, %: within {LITTLE:g}"
            yield Claim(text, "W1", "little impact", found, _within(0, LITTLE))
    for name, key in RESPONSES.items():

        def at_w2(tries: str, key: str = key) -> Interval | None:
            return figures.change(key, _rival("W2", "GLTS-NH", tries), _glts("W2", tries))

        text = f"GLTS-NH against GLTS, RR of {name} jobs, %: higher"
        yield Claim(text, "W2", "clearly worse", at_w2, verdict_above)


def _blocks(figures: Figures) -> Iterator[Claim]:
    for size in BLOCKS:
        if size != BEST_BLOCK:

            def found(tries: str, size: int = size) -> Interval | None:
                best, other = (where_of_block(number, "GLTS", tries) for number in (BEST_BLOCK, size))
                return figures.change(RESPONSES["all"], best, other)

            text = f"GLTS, RR of all jobs with blocks of {BEST_BLOCK} against {size}, %: lower"
            yield Claim(text, "W2", "best size", found, verdict_below)


def _slack(figures: Figures) -> Iterator[Claim]:
    for factor in SLACKS:
        if factor != ENOUGH_SLACK:
            above = factor == "none" or float(factor) > float(ENOUGH_SLACK)

            def found(tries: str, factor: str = factor) -> Interval | None:
                usual, other = (where_of_slack(name, tries) for name in (ENOUGH_SLACK, factor))
                return figures.change(RESPONSES["all"], other, usual)

            what = f"within {LITTLE:g}" if above else "higher"
            text = f"GLTS, RR of all jobs, slack {factor} against {ENOUGH_SLACK}, %: {what}"
            yield Claim(
                text, "W1", "no effect" if above else "higher", found, _within(0, LITTLE) if above else verdict_above
            )
