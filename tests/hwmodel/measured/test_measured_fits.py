"""Predictions of co-runs that were not measured: the two fits, their intervals, and what they must reach on published pairs."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as st
from tests.hwmodel.co_runs import published
from tests.properties import drawn

from cosched_hwmodel.measured import METHODS, Method
from cosched_hwmodel.measured.bilinear import fit_bilinear
from cosched_hwmodel.measured.calibration import calibrate, completed, write_table
from cosched_hwmodel.measured.co_run_table import CoRunTable, Evidence, Ratios, read_table
from cosched_hwmodel.measured.components import NAMES, Components, fit_components


def bilinear_table(count: int, seed: int, noise: float = 0.0) -> CoRunTable:
    """Return ratios of the bilinear form, with errors."""
    draws = np.random.default_rng(seed)
    level, sensitivity, intensity = (
        draws.uniform(0.7, 1.1, count),
        draws.uniform(0.02, 0.2, count),
        draws.normal(size=count),
    )
    ratios = (
        level[:, None]
        + sensitivity[:, None] * (intensity - intensity.mean())
        + noise * draws.normal(size=(count, count))
    )
    names = tuple(f"p{place}" for place in range(count))
    return CoRunTable(
        names,
        {(a, b): float(ratios[i, j]) for i, a in enumerate(names) for j, b in enumerate(names) if ratios[i, j] > 0.01},
    )


def half_of(table: CoRunTable, seed: int, share: float = 0.5) -> CoRunTable:
    """Return the table with a random part of the pairs, each with its other direction."""
    pairs = sorted({tuple(sorted(pair)) for pair in table.ratios})
    order = np.random.default_rng(seed).permutation(len(pairs))
    kept = {pairs[place] for place in order[: int(len(pairs) * share)]}
    return replace(table, ratios={pair: ratio for pair, ratio in table.ratios.items() if tuple(sorted(pair)) in kept})


class Figures(NamedTuple):
    """How well the pairs of the other half are predicted."""

    error: float  # mean, absolute, in points of the ratio
    covered: float  # share of the pairs inside their interval
    width: float  # mean


def figures(table: CoRunTable, seed: int, method: Method) -> Figures:
    half = half_of(table, seed)
    found = calibrate(half, method)
    pairs = [(found.predict(*pair), ratio) for pair, ratio in table.ratios.items() if pair not in half.ratios]
    return Figures(
        float(np.mean([abs(each.ratio - ratio) for each, ratio in pairs])),
        float(np.mean([each.low <= ratio <= each.high for each, ratio in pairs])),
        float(np.mean([each.high - each.low for each, _ in pairs])),
    )


# ---------------------------------------------------------------- published pairs


def test_the_bilinear_form_predicts_half_of_the_published_pairs() -> None:
    """Mean over 20 random halves: at most .030 points of the ratio."""
    table = published("aris-nas-pairs.csv")
    whole = Ratios.of_table(table)
    errors = []
    for seed in range(20):
        half = Ratios.of_table(half_of(table, seed))
        other = whole.measured & ~half.measured
        errors.append(np.abs(fit_bilinear(half).mean - whole.values)[other].mean())
    assert np.mean(errors) < 0.030
    assert max(errors) < 0.034


def test_components_predict_one_half_of_the_published_pairs() -> None:
    found = figures(published("aris-nas-pairs.csv"), 1, "components")
    assert found.error < 0.026
    assert 0.83 <= found.covered <= 0.95
    assert found.width < 0.14


@pytest.mark.slow
@pytest.mark.parametrize(("method", "most"), [("components", 0.026), ("bilinear", 0.030)])
def test_errors_and_intervals_over_twenty_halves(method: Method, most: float) -> None:
    table = published("aris-nas-pairs.csv")
    found = np.array([figures(table, seed, method) for seed in range(20)])
    error, covered, width = found.mean(axis=0)
    assert error < most
    assert 0.88 <= covered <= 0.92
    assert found[:, 1].min() >= 0.83
    assert width < 0.14


def test_the_published_table_of_speedups_is_bilinear_too() -> None:
    """Applications of one size: memory-bound ones are the intense partners, compute-bound ones the least intense."""
    table = published("marconi-nas-speedups.csv")
    found = calibrate(table, "bilinear")
    order = [table.applications[place] for place in np.argsort(found.bilinear.intensity)]
    assert set(order[:3]) == {"bt.D", "ep.E", "lu.D"}
    assert set(order[-3:]) == {"ft.E", "mg.E", "sp.D"}
    assert calibrate(table).errors is not None


# ---------------------------------------------------------------- fits


def test_a_bilinear_table_is_found_again() -> None:
    table = bilinear_table(12, 3)
    whole, half = Ratios.of_table(table), Ratios.of_table(half_of(table, 1, 0.7))
    fit = fit_bilinear(half)
    assert np.abs(fit.mean - whole.values)[whole.measured].max() < 0.01
    assert fit.sensitivity.mean() > 0
    assert fit.intensity.mean() == pytest.approx(0, abs=1e-12)
    assert (fit.intensity**2).mean() == pytest.approx(1)


def test_sizes_of_one_program_are_alike() -> None:
    """Of one size of a program nearly nothing is known; the others of its program say what to expect."""
    draws = np.random.default_rng(1)
    programs = {"a": 0.7, "b": 0.9, "c": 1.1, "d": 1.3}
    names = tuple(f"{program}.{size}" for program in programs for size in range(4))
    ratios = {(one, other): programs[one[0]] + 0.02 * draws.normal() for one in names for other in names}
    known = {pair: ratio for pair, ratio in ratios.items() if pair[0] != "d.3" or pair[1] == "a.0"}
    found = calibrate(CoRunTable(names, known))
    assert isinstance(found.fit, Components)
    assert found.fit.variances[NAMES.index("level of a program")] > 0.02
    assert all(abs(found.predict("d.3", other).ratio - 1.3) < 0.06 for other in names)
    unlike = fit_bilinear(Ratios.of_table(CoRunTable(names, {p: r for p, r in known.items() if p[0] != "d.3"})))
    assert abs(unlike.mean[names.index("d.3"), 0] - 1.0) < 0.05  # the mean of all


def test_intervals_cover_what_they_say() -> None:
    table = bilinear_table(14, 5, noise=0.03)
    for method in METHODS:
        found = figures(table, 2, method)
        assert 0.8 <= found.covered <= 1
        assert 0.06 < found.width < 0.25  # 3.3 standard deviations of the noise are 0.1


def test_the_order_of_applications_has_no_effect() -> None:
    """But for the rounding: all sums are taken in another order."""
    table = half_of(bilinear_table(8, 7, noise=0.02), 1, 0.6)
    turned = replace(table, applications=table.applications[::-1])
    for fit in (fit_bilinear, fit_components):
        one, other = (fit(Ratios.of_table(each)).predict() for each in (table, turned))
        assert np.allclose(one.mean, other.mean[::-1, ::-1], atol=1e-6)
        assert np.allclose(one.deviation, other.deviation[::-1, ::-1], atol=1e-6)


@drawn(st.integers(1, 7), st.integers(0, 1_000), st.floats(0.05, 1), st.sampled_from(METHODS), few=25, many=400)
def test_predictions_of_random_tables(count: int, seed: int, share: float, method: Method) -> None:
    """Every pair has a ratio that can be, inside its interval where it is predicted; measured ratios stay."""
    draws = np.random.default_rng(seed)
    names = tuple(f"{'abc'[place % 3]}.{place}" for place in range(count))
    pairs = [(one, other) for one in names for other in names]
    kept = [pair for pair in pairs if draws.random() < share] or pairs[:1]
    table = CoRunTable(names, {pair: float(np.exp(draws.normal(scale=0.5))) for pair in kept})
    found = calibrate(table, method)
    predictions = found.predictions()
    assert [(each.row, each.column) for each in predictions] == pairs
    for each in predictions:
        assert 0.01 <= each.low <= each.high <= 1000
        assert each.measured == ((each.row, each.column) in table.ratios)
        assert each.measured or each.low <= each.ratio <= each.high
    whole = found.completed()
    assert table.ratios.items() <= whole.ratios.items()
    assert len(whole.ratios) == count**2
    assert calibrate(table, method).predictions() == predictions


# ---------------------------------------------------------------- tables


@pytest.mark.parametrize("method", METHODS)
def test_ratios_that_differ_by_thousands_have_predictions(method: Method) -> None:
    pairs = [(one, other) for one in "abcde" for other in "abcde" if one != other]
    table = CoRunTable(tuple("abcde"), {pair: 1000.0 if {*pair} == {"b", "d"} else 0.01 for pair in pairs})
    found = [each for each in calibrate(table, method).predictions() if not each.measured]
    assert len(found) == 5
    assert all(0.01 <= each.low <= each.ratio <= each.high <= 1000 for each in found)


def test_a_complete_table_stays_as_it_is() -> None:
    table = bilinear_table(4, 1)
    assert completed(table) is table
    part = half_of(table, 1)
    assert completed(part).ratios == calibrate(part).completed().ratios


def tables() -> Iterator[CoRunTable]:
    yield bilinear_table(3, 1)
    yield CoRunTable(("a, b", 'c"d'), {("a, b", 'c"d'): 1 / 3}, {"a, b": 0.1}, {"a, b": 7}, {"a, b": 0.1 + 0.2})
    learned = {("a", "b"): Evidence(7, 1.25), ("b", "a"): Evidence(4, 0.9, 1.2)}
    yield CoRunTable(("a", "b"), {("a", "b"): 1.5, ("b", "a"): 1.1, ("b", "b"): 2.0}, evidence=learned)


@pytest.mark.parametrize("table", list(tables()))
def test_a_written_table_is_read_again(table: CoRunTable, tmp_path: Path) -> None:
    stream = io.StringIO()
    write_table(stream, table)
    file = tmp_path / "table.csv"
    file.write_text(stream.getvalue())
    assert read_table(file) == table
