"""Start estimates beside what then happened: errors, coverage and scores of ranges, as the tables of a page."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scripts.tables import NOTHING, table_head, table_row

from cosched_emulator.expected_starts.ranges import CLASSES_US, COVERAGE, Guess, Ranges
from cosched_emulator.statistics.bootstrap import block_bootstrap

Row = Mapping[str, Any]
Array = NDArray[Any]
KINDS: Final = ("submission", "later")
MINUTE_US: Final = 6e7
HOUR_US: Final = 3.6e9
BLOCK: Final = 20  # consecutive estimates that are resampled together: their queues are much the same
FEWEST: Final = 30  # estimates of a class of predicted waits, for its coverage to be told
CLASSES: Final = ("< 15 min", "< 1 h", "< 4 h", "< 12 h", "longer")  # of predicted waits
AGAINST: Final = ("head", "conservative", "predicted")


class Labels(NamedTuple):
    """What a row of a table is about."""

    policy: str
    log: str
    moment: str


class Ranged(NamedTuple):
    """The ranges of draws in order of time, and the scores of those of the conservative profile at the same moments."""

    held: Array
    kinds: Array  # class of predicted wait
    score_h: Array
    profile_h: Array


def by_draws(row: Row) -> Guess:
    """Return the guess of the draws."""
    return Guess(*row["draws"])


def by_profile(row: Row) -> Guess:
    """Return that of a conservative profile with requested run times."""
    return Guess(*[row["conservative"]] * 3)


def ranged(rows: Sequence[Row]) -> Ranged:
    """Return the ranges as a manager would have told them: each from the estimates whose jobs had started by then."""
    (held, kinds, score_h), (_, _, profile_h) = (_ranges_of(rows, guess_of) for guess_of in (by_draws, by_profile))
    told = ~np.isnan(score_h) & ~np.isnan(profile_h)
    return Ranged(held[told], kinds[told], score_h[told], profile_h[told])


def _ranges_of(rows: Sequence[Row], guess_of: Callable[[Row], Guess]) -> tuple[Array, Array, Array]:
    """Return by row whether the range holds, the class of predicted wait, and the score in hours (nan: there was no range)."""
    ranges = Ranges()
    waiting: list[Row] = []
    found: list[tuple[bool, int, float]] = []
    for row in rows:
        for begun in [each for each in waiting if each["at"] + each["wait"] <= row["at"]]:
            ranges.learn(guess_of(begun), begun["wait"])
            waiting.remove(begun)
        waiting.append(row)
        guess = guess_of(row)
        told = ranges.of(guess)
        kind = bisect_right(CLASSES_US, guess.wait_us)
        held = told is not None and told[0] <= row["wait"] <= told[1]
        found.append((held, kind, np.nan if told is None else interval_score(*told, row["wait"]) / HOUR_US))
    held_, kinds, scores = (np.array(column) for column in zip(*found, strict=True))
    return held_, kinds, scores


def errors(rows: Sequence[Row]) -> dict[str, Array]:
    """Return absolute errors in minutes, by source of the estimate."""
    wait = np.array([row["wait"] for row in rows])
    told = {name: np.array([row[name] for row in rows]) for name in AGAINST}
    told["draws"] = np.array([row["draws"][0] for row in rows])
    return {name: np.abs(values - wait) / MINUTE_US for name, values in told.items()}


def error_lines(groups: Mapping[Labels, Sequence[Row]]) -> Iterator[str]:
    """Yield the table of median errors, by policy, log and moment."""
    figures = ("jobs", "median wait", *AGAINST, "draws", *[f"of {name}" for name in AGAINST])
    yield from table_head(("policy", "log", "moment"), figures)
    for labels, rows in groups.items():
        found = errors(rows)
        medians = {name: float(np.median(values)) for name, values in found.items()}
        wait = float(np.median([row["wait"] for row in rows])) / MINUTE_US
        ratios = [_interval(_ratio(np.median, found["draws"], found[name]), len(rows)) for name in AGAINST]
        yield table_row(labels, [f"{len(rows):,}", *[f"{value:.0f}" for value in (wait, *medians.values())], *ratios])


def range_lines(groups: Mapping[Labels, Sequence[Row]]) -> Iterator[str]:
    """Yield the table of ranges, with a row for all logs of a policy."""
    yield from table_head(("policy", "log", "moment"), ("ranges", "hold, %", *CLASSES, "score, h", "of conservative"))
    found = {labels: ranged(rows) for labels, rows in groups.items()}
    for policy, kind in dict.fromkeys([(policy, kind) for policy, _, kind in groups]):
        of_logs = [each for (its, _, moment), each in found.items() if (its, moment) == (policy, kind)]
        found[Labels(policy, "all", kind)] = Ranged(*map(np.concatenate, zip(*of_logs, strict=True)))
    for labels, each in found.items():
        count = len(each.held)
        if count < BLOCK:
            continue
        alike = [each.held[each.kinds == kind] for kind in range(len(CLASSES))]
        cells = [
            f"{count:,}",
            _interval(_percent(each.held), count, 0),
            *[f"{100 * held.mean():.0f}" if held.size >= FEWEST else NOTHING for held in alike],
            f"{each.score_h.mean():.1f}",
            _interval(_ratio(np.mean, each.score_h, each.profile_h), count),
        ]
        yield table_row(labels, cells)


def grouped(rows: Sequence[Row]) -> dict[Labels, list[Row]]:
    """Return rows by policy, log and moment."""
    groups: dict[Labels, list[Row]] = {}
    for kind in KINDS:
        for row in rows:
            if row["kind"] == kind:
                groups.setdefault(Labels(row["policy"], row["log"], kind), []).append(row)
    return dict(sorted(groups.items(), key=lambda item: (*item[0][:2], KINDS.index(item[0][2]))))


def _percent(held: Array) -> Callable[[Array], Array]:
    return lambda at: np.asarray(100 * held[at].mean(axis=-1))


def _ratio(figure: Callable[..., Any], one: Array, other: Array) -> Callable[[Array], Array]:
    return lambda at: np.asarray(figure(one[at], axis=-1) / figure(other[at], axis=-1))


def _interval(statistic: Callable[[Array], Array], count: int, digits: int = 2) -> str:
    """Return a figure of ``count`` rows in time, with its 95 % interval if they are enough; ``statistic`` takes indices."""
    places = np.arange(count, dtype=float)

    def of_places(sample: Array) -> Array:
        return statistic(sample.astype(int))

    found = block_bootstrap(places, of_places, np.random.default_rng(1), length=BLOCK)
    figure = f"{float(statistic(np.arange(count))):.{digits}f}"
    return figure if np.isnan(found.low) else f"{figure} ({found.low:.{digits}f} to {found.high:.{digits}f})"


def interval_score(low: float, high: float, found: float) -> float:
    """Return the width of a range, and ten times the distance by which it misses: Gneiting and Raftery 2007, for 80 %."""
    return high - low + 2 / (1 - COVERAGE) * (max(0.0, low - found) + max(0.0, found - high))
