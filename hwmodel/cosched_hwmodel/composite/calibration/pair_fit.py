"""The composite model fitted to a table of co-runs: demands of its applications with which it gives the measured ratios.

    ratio(a, b) = level_a · (1 + penalty of a beside b)

The level is what an application takes beside a partner that asks for nothing, in the table's base. Both applications of a pair
sit on the node in the same way in all pairs. Demands are found by coordinate descent on their logarithms, from one start
and in a fixed order, so the same table gives the same fit; a small cost for leaving the start keeps demands finite about which the
table says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from cosched_hwmodel.composite.composite_model import CompositeModel
from cosched_hwmodel.composite.job_profile import MOST, Profile
from cosched_hwmodel.composite.on_node import Placed
from cosched_hwmodel.draws import uniform
from cosched_hwmodel.measured.calibration import Errors, PairPrediction
from cosched_hwmodel.measured.co_run_table import CoRunTable, possible
from cosched_hwmodel.topology import NodeShape

FITTED: Final = ("memory_mbs", "exposed_ppm", "working_set_kb", "accesses_ms")
STEPS: Final = (4.0, 2.5, 1.6, 1.25, 1.12, 1.05)  # factors by which a demand is changed, one round each
FIRST_ACCESSES_MS: Final = 2000
FIRST_EXPOSED_PPM: Final = 300_000
START_COST: Final = 1e-2  # for each field, times its squared logarithm over the start
FOLDS: Final = 5
FEWEST: Final = 20  # pairs without which nothing is cross-validated
LEVEL: Final = 0.9

Pair: TypeAlias = tuple[str, str]


class PairPlaces(NamedTuple):
    """Where the application of the row and its partner sit: processes and a mask of hardware threads, of each."""

    node: NodeShape
    processes: int
    row: int
    column: int


@dataclass(frozen=True)
class CompositeFit:
    """Demands and levels by application, and how well pairs were predicted that had been left out."""

    table: CoRunTable
    places: PairPlaces
    profiles: Mapping[str, Profile]
    levels: Mapping[str, float]
    errors: Errors | None  # None: too few pairs
    half_width: float | None  # of an interval in which a measurement lies with 90 %

    def predictions(self) -> list[PairPrediction]:
        """Return what is known of every pair that can be together, in the table's order; without an interval, its ends are nan."""
        penalties = _Penalties(self.places, CompositeModel())
        found = []
        for row in self.table.applications:
            for column in self.table.applications:
                if self.table.apart(row, column):
                    continue
                ratio = self.table.ratios.get((row, column))
                fitted = self.levels[row] * (1 + penalties.of(self.profiles[row], self.profiles[column])[0])
                value = possible(fitted) if ratio is None else ratio
                low = high = math.nan
                if self.half_width is not None:
                    low, high = possible(fitted - self.half_width), possible(fitted + self.half_width)
                found.append(PairPrediction(row, column, value, low, high, ratio is not None))
        return found


def fit_composite(
    table: CoRunTable, places: PairPlaces, told: Callable[[int, int], None] | None = None
) -> CompositeFit:
    """Fit a table; ``told`` gets the rounds that are done and all rounds."""
    penalties = _Penalties(places, CompositeModel())
    folds = _folds(table) if len(table.ratios) >= FEWEST else []
    rounds = len(STEPS) * (1 + len(folds))
    count = 0

    def tell() -> None:
        nonlocal count
        count += 1
        if told is not None:
            told(count, rounds)

    whole = _Descent(table.applications, table.ratios, penalties)
    whole.run(tell)
    missed = []
    for left_out in folds:
        kept = {pair: ratio for pair, ratio in table.ratios.items() if pair not in left_out}
        part = _Descent(table.applications, kept, penalties)
        part.run(tell)
        missed += [abs(part.ratio(*pair) - table.ratios[pair]) for pair in left_out]
    errors = Errors(len(missed), math.fsum(missed) / len(missed), max(missed)) if missed else None
    half = sorted(missed)[min(len(missed) - 1, math.ceil(LEVEL * (len(missed) + 1)) - 1)] if missed else None
    return CompositeFit(table, places, whole.profiles, whole.levels, errors, half)


class _Penalties:
    """The penalties of two profiles beside each other, each pair of profiles computed once."""

    def __init__(self, places: PairPlaces, model: CompositeModel) -> None:
        self.places = places
        self._model = model
        self._known: dict[tuple[Profile, Profile], tuple[float, float]] = {}

    def of(self, one: Profile, other: Profile) -> tuple[float, float]:
        """Return the penalty of each of the two."""
        found = self._known.get((one, other))
        if found is None:
            node, processes, row, column = self.places
            first, second = self._model.penalties(node, [Placed(one, processes, row), Placed(other, processes, column)])
            found = self._known[one, other] = (first, second)
            self._known[other, one] = (second, first)  # the two places are alike
        return found


class _Descent:
    """Coordinate descent on the demands of all applications."""

    def __init__(self, applications: Sequence[str], ratios: Mapping[Pair, float], penalties: _Penalties) -> None:
        self._ratios = ratios
        self._penalties = penalties
        start = _start(penalties.places)
        self._start = start
        self.profiles = dict.fromkeys(applications, start)
        average = math.fsum(ratios.values()) / len(ratios)
        self.levels = dict.fromkeys(applications, average)
        self._rows: dict[str, list[str]] = {name: [] for name in applications}  # partners of a row
        self._columns: dict[str, list[str]] = {name: [] for name in applications}  # rows that have it as a partner
        for row, column in ratios:
            self._rows[row].append(column)
            if row != column:
                self._columns[column].append(row)
        for name in applications:
            self.levels[name] = self._best_level(name, start)

    def ratio(self, row: str, column: str) -> float:
        """Return the fitted ratio of a pair."""
        return self.levels[row] * (1 + self._penalty(row, column))

    def run(self, tell: Callable[[], None]) -> None:
        """Take all rounds."""
        for step in STEPS:
            for name in self.profiles:
                self._improve(name, step)
            tell()

    def _improve(self, name: str, step: float) -> None:
        """Change one field of an application at a time, for as long as that makes the fit better."""
        least = self._loss(name, self.profiles[name])
        for field in FITTED:
            for factor in (step, 1 / step):
                value = round(getattr(self.profiles[name], field) * factor)
                tried = self.profiles[name]._replace(**{field: min(max(value, 1), MOST[field])})
                loss = self._loss(name, tried)
                if loss < least:
                    least = loss
                    self.profiles[name] = tried
                    self.levels[name] = self._best_level(name, tried)
                    break

    def _loss(self, name: str, profile: Profile) -> float:
        """Return the squared errors of the pairs of an application with this profile, and the cost of leaving the start."""
        level = self._best_level(name, profile)
        total = 0.0
        for column in self._rows[name]:
            other = profile if column == name else self.profiles[column]
            total += (self._ratios[name, column] - level * (1 + self._penalties.of(profile, other)[0])) ** 2
        for row in self._columns[name]:
            penalty = self._penalties.of(self.profiles[row], profile)[0]
            total += (self._ratios[row, name] - self.levels[row] * (1 + penalty)) ** 2
        away = (math.log(getattr(profile, field) / getattr(self._start, field)) for field in FITTED)
        return total + START_COST * math.fsum(part * part for part in away)

    def _best_level(self, name: str, profile: Profile) -> float:
        """Return the level of least squares for the pairs of a row; the present one where none was measured."""
        above = below = 0.0
        for column in self._rows[name]:
            takes = 1 + self._penalties.of(profile, profile if column == name else self.profiles[column])[0]
            above += takes * self._ratios[name, column]
            below += takes * takes
        return above / below if below else self.levels[name]

    def _penalty(self, row: str, column: str) -> float:
        return self._penalties.of(self.profiles[row], self.profiles[column])[0]


def _start(places: PairPlaces) -> Profile:
    """Return a demand with which two applications just fill the bandwidth and the largest cache."""
    node = places.node
    everywhere = 2 * places.processes
    share_mbs = node.memory_bandwidth_mbs // everywhere or 1
    largest = node.caches[-1] if node.caches else None
    instances = 1 if largest is None else max(1, node.cores // largest.cores)
    share_kb = 1 if largest is None else max(1, largest.size_kb * instances // everywhere)
    return Profile(
        memory_mbs=min(share_mbs, MOST["memory_mbs"]),
        exposed_ppm=FIRST_EXPOSED_PPM,
        working_set_kb=share_kb,
        accesses_ms=FIRST_ACCESSES_MS,
    )


def _folds(table: CoRunTable) -> list[list[Pair]]:
    """Return the measured pairs in parts of equal sizes, drawn; both directions of a pair are in one part."""
    place = {name: index for index, name in enumerate(table.applications)}
    both = {tuple(sorted((place[row], place[column]))) for row, column in table.ratios}
    drawn = sorted(both, key=lambda pair: uniform(0, "composite folds", *pair))
    part = {pair: index % FOLDS for index, pair in enumerate(drawn)}
    folds: list[list[Pair]] = [[] for _ in range(FOLDS)]
    for row, column in table.ratios:
        folds[part[tuple(sorted((place[row], place[column])))]].append((row, column))
    return [fold for fold in folds if fold]
