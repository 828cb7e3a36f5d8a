"""Start estimates beside what then happened: errors, coverage and scores of ranges, as the tables of a page."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scripts.tables import NOTHING, table_head, table_row

from cosched_emulator.ahead.ranges import CLASSES_US, Guess, Ranges, interval_score
from cosched_emulator.statistics.bootstrap import block_bootstrap

Row = Mapping[str, Any]
Array = NDArray[Any]
KINDS: Final = ("submission", "later")
MINUTE_US: Final = 6e7
HOUR_US: Final = 3.6e9
BLOCK: Final = 20  # consecutive estimates that are resampled together: their queues are much the same
FEWEST: Final = 30  # estimates of a class of predicted waits, for its coverage to be told
AGAINST: Final = ("head", "conservative", "predicted")


class Ranged(NamedTuple):
    """The ranges of one source of estimates, in order of time, for the estimates that have one."""

    held: Array
    score_h: Array
    kinds: Array  # class of predicted wait


def by_draws(row: Row) -> Guess:
    """Return the guess of the draws."""
    return Guess(*row["draws"])


def by_profile(row: Row) -> Guess:
    """Return that of a conservative profile with requested run times."""
    return Guess(*[row["conservative"]] * 3)


def ranged(rows: Sequence[Row], guess_of: Callable[[Row], Guess]) -> Ranged:
    """Return the ranges as a manager would have told them: each from the estimates whose jobs had started by then."""
    ranges = Ranges()
    waiting: list[Row] = []
    found: list[tuple[bool, float, int]] = []
    for row in rows:
        for begun in [each for each in waiting if each["at"] + each["wait"] <= row["at"]]:
            ranges.learn(guess_of(begun), begun["wait"])
            waiting.remove(begun)
        waiting.append(row)
        guess = guess_of(row)
        told = ranges.of(guess)
        if told is None:
            found.append((False, np.nan, -1))
            continue
        held = told[0] <= row["wait"] <= told[1]
        found.append((held, interval_score(*told, row["wait"]) / HOUR_US, bisect_right(CLASSES_US, guess.wait_us)))
    return Ranged(*(np.array(column) for column in zip(*found, strict=True)))


def errors(rows: Sequence[Row]) -> dict[str, Array]:
    """Return absolute errors in minutes, by source of the estimate."""
    wait = np.array([row["wait"] for row in rows])
    told = {name: np.array([row[name] for row in rows]) for name in AGAINST}
    told["draws"] = np.array([row["draws"][0] for row in rows])
    return {name: np.abs(values - wait) / MINUTE_US for name, values in told.items()}


def error_lines(groups: Mapping[tuple[str, str, str], Sequence[Row]]) -> Iterator[str]:
    """Yield the table of median errors, by policy, log and moment."""
    figures = ("jobs", "median wait", *AGAINST, "draws", *[f"of {name}" for name in AGAINST])
    yield from table_head(("policy", "log", "moment"), figures)
    for labels, rows in groups.items():
        found = errors(rows)
        medians = {name: float(np.median(values)) for name, values in found.items()}
        wait = float(np.median([row["wait"] for row in rows])) / MINUTE_US
        ratios = [_interval(_ratio(np.median, found["draws"], found[name]), len(rows)) for name in AGAINST]
        yield table_row(labels, [f"{len(rows):,}", *[f"{value:.0f}" for value in (wait, *medians.values())], *ratios])


def range_lines(groups: Mapping[tuple[str, str, str], Sequence[Row]]) -> Iterator[str]:
    """Yield the table of ranges."""
    classes = ("< 15 min", "< 1 h", "< 4 h", "< 12 h", "longer")
    yield from table_head(("policy", "log", "moment"), ("ranges", "hold, %", *classes, "score, h", "of conservative"))
    for labels, rows in groups.items():
        draws, profile = ranged(rows, by_draws), ranged(rows, by_profile)
        told = np.flatnonzero(~np.isnan(draws.score_h) & ~np.isnan(profile.score_h))
        if not told.size:
            continue
        held, score, other = draws.held[told], draws.score_h[told], profile.score_h[told]
        alike = [held[draws.kinds[told] == kind] for kind in range(len(classes))]
        yield table_row(
            labels,
            [
                f"{len(told):,}",
                _interval(_percent(held), len(told), 0),
                *[f"{100 * each.mean():.0f}" if each.size >= FEWEST else NOTHING for each in alike],
                f"{score.mean():.1f}",
                _interval(_ratio(np.mean, score, other), len(told)),
            ],
        )


def grouped(rows: Sequence[Row]) -> dict[tuple[str, str, str], list[Row]]:
    """Return rows by policy, log and moment; those of all logs of a policy come last."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for kind in KINDS:
        for row in rows:
            if row["kind"] == kind:
                groups.setdefault((row["policy"], row["log"], kind), []).append(row)
    return dict(sorted(groups.items(), key=lambda item: (*item[0][:2], KINDS.index(item[0][2]))))


def _percent(held: Array) -> Callable[[Array], Array]:
    return lambda at: np.asarray(100 * held[at].mean(axis=-1))


def _ratio(figure: Callable[..., Any], one: Array, other: Array) -> Callable[[Array], Array]:
    return lambda at: np.asarray(figure(one[at], axis=-1) / figure(other[at], axis=-1))


def _interval(statistic: Callable[[Array], Array], count: int, digits: int = 2) -> str:
    """Return a figure of ``count`` rows in order of time, and its 95 % interval; ``statistic`` takes indices of rows."""
    places = np.arange(count, dtype=float)

    def of_places(sample: Array) -> Array:
        return statistic(sample.astype(int))

    found = block_bootstrap(places, of_places, np.random.default_rng(1), length=BLOCK)
    return f"{float(statistic(np.arange(count))):.{digits}f} ({found.low:.{digits}f} to {found.high:.{digits}f})"
