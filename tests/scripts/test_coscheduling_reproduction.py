"""The reproduction of the coscheduling paper: its experiment, its claims, and the page written from them."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest
from scripts.papers.claims import Claim
from scripts.papers.coscheduling import experiment as ex
from scripts.papers.coscheduling.claims import (
    SECTIONS,
    cell_of,
    claims,
    formula_error,
    mean_change,
    rank_correlation,
)
from scripts.papers.coscheduling.published import INCONSISTENT, TABLE_3, TABLE_4
from scripts.papers.figures import Figures, Where
from scripts.papers.stored import STORED, read_stored
from scripts.papers.study import Size
from tests.processes import ROOT

from cosched_emulator.studies.axes import COLUMNS
from cosched_emulator.studies.cells import Cell, make_plan
from cosched_emulator.studies.experiment import read_experiment
from cosched_emulator.studies.study_result import series_of
from cosched_emulator.workload.nas import CLASSES, NAS, PROGRAMS

SIZE: Final = Size(30, 6)


def cells_of(size: Size) -> tuple[Cell, ...]:
    return make_plan(read_experiment(ex.experiment(size))).cells


@pytest.fixture(scope="module")
def cells() -> tuple[Cell, ...]:
    return cells_of(SIZE)


# ---------------------------------------------------------------- experiment


def test_few_seeds_of_everything_run_first(cells: tuple[Cell, ...]) -> None:
    stages = [product.stage for product in ex.products(SIZE)]
    rest = [cell for cell in cells if stages[cell.stage].endswith("rest")]
    assert {cell.names["seeds"] for cell in rest} == {"6"}
    assert {"X1", "X2", "X3", "X4", "X5", "X6", "strict", "full", "sensitivity", "own"} <= {*stages}
    plan = make_plan(read_experiment(ex.experiment(Size(20, 2, quick=True))))
    assert {cell.names["policies"] for cell in plan.extra} == {
        ex.cell(ex.BATCH, "strict")
    }  # with shaken run times: it is cheap
    assert len(plan.extra) == 2 * 9
    quick = plan.cells
    assert len(quick) < 80
    assert {cell.names["seeds"] for cell in quick} == {"1", "2"}


def test_all_policies_get_the_same_jobs(cells: tuple[Cell, ...]) -> None:
    jobs: dict[tuple[str, str], set[Any]] = {}
    for cell in cells:
        if cell.names["variants"] == "base":
            place = (cell.names["workloads"], cell.names["seeds"])
            jobs.setdefault(place, set()).add((cell.scenario.workload, cell.scenario.cluster, cell.scenario.seed))
    assert all(len(each) == 1 for each in jobs.values())
    assert {cell.scenario.workload.gap_s for cell in cells if cell.names["workloads"] == ex.LIGHT} == {250.0}


def test_settings_of_policies_arrive(cells: tuple[Cell, ...]) -> None:
    chosen = {(cell.names["workloads"], cell.policy, cell.names["variants"]): cell for cell in cells}
    skipping = chosen[ex.HIGH, ex.cell(ex.HYBRID, "skip", "NP"), "base"]
    assert skipping.settings["backfill"]["name"] == "skip"
    assert skipping.settings["placement"]["name"] == "scattered"
    assert skipping.scenario.time_sharing is not None
    assert skipping.scenario.time_sharing.coscheduling == "hybrid"
    strict = chosen[ex.HIGH, ex.cell(ex.BATCH, "strict"), "base"]
    assert strict.settings["placement"] == {"name": "contiguous", "contexts": 1}
    assert strict.settings["backfill"]["name"] == "none"


# ---------------------------------------------------------------- published


def test_the_formula_gives_the_printed_totals() -> None:
    assert max(abs(formula_error(row)) for row in TABLE_3.values()) == pytest.approx(3.20, abs=0.01)
    errors = {place: abs(formula_error(row)) for place, row in TABLE_4.items()}
    assert max(errors[place] for place in errors if place not in INCONSISTENT) < 2.2
    assert TABLE_3[ex.HYBRID, "P"].busy_w == pytest.approx(20.6, abs=0.05)


def test_the_mean_of_table_1_is_that_of_the_claims() -> None:
    means = {name: sum(PROGRAMS[program].seconds[name] for program in NAS) / len(NAS) for name in CLASSES}
    assert {name: round(mean, 1) for name, mean in means.items()} == {"A": 18.9, "B": 125.8, "C": 388.8}


# ---------------------------------------------------------------- claims


@pytest.fixture(scope="module")
def judged() -> list[Claim]:
    runs = read_stored("coscheduling", ROOT / STORED).values()
    figures = Figures(series_of([run.row for run in runs]), ex.USUAL)
    return [claim for section in SECTIONS for claim in claims(figures, section)]


def test_every_row_of_the_claims_is_there_and_has_its_runs(judged: list[Claim]) -> None:
    assert [claim.text for claim in judged if claim.verdict is None] == []
    numbers = {number for claim in judged for number in re.findall(r"[CEP]\d+", claim.text.partition(":")[0])}
    assert numbers >= {f"C{number}" for number in range(1, 57)}
    assert numbers >= {f"E{number}" for number in range(1, 13)}
    page = (ROOT / "docs" / "results" / "appendix" / "coscheduling.md").read_text(encoding="utf-8")
    page = page.partition("<!-- tables")[0]
    for kind, count in (("P", 13), ("G", 20)):  # conditions, and what is open
        assert re.findall(rf"^\| {kind}(\d+) \|", page, re.MULTILINE) == [str(number) for number in range(1, count + 1)]


def test_means_over_policies_are_geometric() -> None:
    ways = {ex.HYBRID: {"P": 2.0, "NP": 2.0}, ex.PB: {"P": 8.0, "NP": 32.0}}
    place = {**dict.fromkeys(COLUMNS.values(), ""), **ex.USUAL, "workload": ex.HIGH}
    rows = [
        {**place, "policy": ex.cell(name, "skip", way), "seed": seed, "x": value}
        for name, by_way in ways.items()
        for way, value in by_way.items()
        for seed in ("1", "2")
    ]
    figures = Figures(series_of(rows), ex.USUAL)
    pairs = [(cell_of(ex.HIGH, name), cell_of(ex.HIGH, name, placement="NP")) for name in ways]
    change = mean_change(figures, "x", pairs)
    assert change is not None
    assert change.mean == pytest.approx(-50.0)  # of 1 and 1/4
    assert mean_change(figures, "x", [(cell_of("none", ex.PB), cell_of("none", ex.SB))]) is None


def test_rank_correlation() -> None:
    up, down = {1: 1.0, 2: 5.0}, {1: 9.0, 2: 2.0}
    same = rank_correlation([(up, up), (down, down), ({1: 4.0, 2: 4.0}, {1: 4.0, 2: 4.0})])
    assert same is not None
    assert same.mean == pytest.approx(1.0)
    assert rank_correlation([(up, down)]) is None


def test_names_of_claims_leave_out_what_stands_beside_them(judged: list[Claim]) -> None:
    texts = [claim.text for claim in judged if claim.text.startswith("C12")]
    assert texts
    assert all("skip" not in text and " P" not in text.replace(" PB", "") for text in texts)
    assert cell_of(ex.HIGH, ex.BATCH, ex.ALL_STRICT) == Where(ex.HIGH, "BATCH strict")
