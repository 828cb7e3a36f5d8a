"""The reproduction of the coscheduling paper: its experiment, its claims, and the page written from them."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import Any, Final

import pytest
from scripts.papers.claims import Claim
from scripts.papers.coscheduling import experiment as ex
from scripts.papers.coscheduling.claims import (
    SECTIONS,
    cell_of,
    claims,
    formula_error,
    group_ratio,
    mean_change,
    rank_correlation,
)
from scripts.papers.coscheduling.pictures import PICTURES
from scripts.papers.coscheduling.published import INCONSISTENT, TABLE_3, TABLE_4
from scripts.papers.coscheduling.report import report
from scripts.papers.figures import Figures, Where
from scripts.papers.pictures import shows_runs
from scripts.papers.study import Size
from tests.processes import ROOT

from cosched_emulator.statistics.intervals import Verdict
from cosched_emulator.studies.axes import COLUMNS
from cosched_emulator.studies.cells import Cell, make_plan
from cosched_emulator.studies.experiment import read_experiment
from cosched_emulator.studies.study_result import series_of
from cosched_emulator.workload.nas import CLASSES, NAS, PROGRAMS

SIZE: Final = Size(30, 6)
# What invented runs have: responses grow with the policy's rank; without packing everything takes a quarter more.
RANK: Final = {ex.HYBRID: 1.0, ex.SB: 1.1, "CC": 1.1, ex.GANG: 1.25, "DCS": 1.6, ex.PB: 1.7, ex.BATCH: 3.0, ex.NLS: 2.0}


def cells_of(size: Size) -> tuple[Cell, ...]:
    return make_plan(read_experiment(ex.experiment(size))).cells


@pytest.fixture(scope="module")
def cells() -> tuple[Cell, ...]:
    return cells_of(SIZE)


@pytest.fixture(scope="module")
def found(cells: tuple[Cell, ...]) -> Figures:
    return figures_of(cells)


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


def all_claims(figures: Figures) -> list[Claim]:
    return [claim for section in SECTIONS for claim in claims(figures, section)]


def row_of(cell: Cell) -> dict[str, Any]:
    """Return invented figures with the paper's orders."""
    names = dict(zip(COLUMNS.values(), cell.names.values(), strict=True))
    seed, (policy, *words) = int(names["seed"]), cell.policy.split()
    level = RANK[policy] * (1.25 if "NP" in words else 1.0) * (1 + seed / 100)
    workload = names["workload"]
    heavy = 3.0 if workload == ex.HIGH else 1.0
    execution = 0.5 if policy == ex.BATCH else RANK[policy]
    if workload.startswith("X5"):
        spread = {"CG": 3.0, "IS": 1.5, "SP": 2.0, "MG": 2.0, "EP": 1.0}.get(workload[3:], 1.1)
        execution = (1.0 if policy == ex.HYBRID else 1.05 if policy in (ex.SB, "CC") else spread) * (1 + seed / 1000)
    aware = 0.5 if workload == "X6 aware" else 1.0
    figures = [
        "residents_mean",
        "residents_most",
        "memory_most_mb",
        "offered_load",
        "spun_share",
        "switches_per_cpu_s",
        "interrupts_per_s",
        "swapped_mb_per_cpu_s",
        "wake_delay_us",
        "turn_overhead_share",
        "energy_busy_mj",
        "energy_idle_mj",
    ]
    return {
        **names,
        **dict.fromkeys(figures, level / 10),
        ex.RESPONSE: 1000 * level * heavy * aware,
        "all_wait_s_mean": 500 * level * heavy * aware,
        ex.EXECUTION: 400 * execution,
        "wait_share": 0.6 * heavy / 3,
        "wait_per_execution": 2 * level,
        "makespan_s": 20_000 * level,
        "busy_node_s": 250_000 * level,
        "busy_share": 0.6 if policy == ex.BATCH else 0.9 + seed / 1000,
        "execution_over_alone": execution,
        "throughput": 1 / level,
        "energy_total_j": 60 * level,
        "energy_formula_j": 60.1 * level,
        "energy_off_j": 50 * level,
    }


def figures_of(cells: tuple[Cell, ...], seeds: int = 20, workloads: str = "") -> Figures:
    rows = [
        row_of(cell)
        for cell in cells
        if int(cell.names["seeds"]) <= seeds and cell.names["workloads"].startswith(workloads)
    ]
    return Figures(series_of(rows), ex.USUAL)


def test_every_row_of_the_claims_is_there_and_has_its_runs(found: Figures) -> None:
    judged = all_claims(found)
    assert [claim.text for claim in judged if claim.verdict is None] == []
    numbers = {number for claim in judged for number in re.findall(r"[CEP]\d+", claim.text.partition(":")[0])}
    assert numbers >= {f"C{number}" for number in range(1, 57)}
    assert numbers >= {f"E{number}" for number in range(1, 13)}
    page = (ROOT / "docs" / "results" / "appendix" / "coscheduling.md").read_text(encoding="utf-8")
    page = page.partition("<!-- tables")[0]
    for kind, count in (("P", 13), ("G", 20)):  # conditions, and what is open
        assert re.findall(rf"^\| {kind}(\d+) \|", page, re.MULTILINE) == [str(number) for number in range(1, count + 1)]


def test_verdicts_follow_the_invented_orders(found: Figures, cells: tuple[Cell, ...]) -> None:
    claims = {(claim.text.partition(":")[0], claim.where): claim for claim in all_claims(found)}
    assert claims["C12", "X1; skip, BATCH strict"].verdict == Verdict.YES
    assert claims["C5", "X1; all strict"].verdict == Verdict.YES
    assert claims["C47", "X1; all strict"].verdict == Verdict.NO
    assert claims["C3", "X1; skip, BATCH strict"].verdict == Verdict.NO  # batch takes longer
    assert claims["C32", "X5"].verdict == Verdict.YES
    assert claims["E11", "tables 3, 4"].verdict == Verdict.YES
    by_verdict = Counter(claim.verdict for claim in claims.values())
    assert by_verdict[Verdict.YES] > 20
    one = {claim.verdict for claim in all_claims(figures_of(cells, seeds=1))}
    assert Verdict.NOT_SHOWN in one


def test_claims_without_runs_say_so() -> None:
    claims = all_claims(Figures([], ex.USUAL))
    assert {claim.verdict for claim in claims if claim.where not in ("table 3", "table 4", "tables 3, 4")} == {None}


def test_means_over_policies_are_geometric(found: Figures) -> None:
    pairs = [(cell_of(ex.HIGH, name), cell_of(ex.HIGH, name, placement="NP")) for name in (ex.HYBRID, ex.PB)]
    change = mean_change(found, ex.RESPONSE, pairs)
    assert change is not None
    assert change.mean == pytest.approx(-20.0)
    assert mean_change(found, ex.RESPONSE, [(cell_of("none", ex.PB), cell_of("none", ex.SB))]) is None
    ratio = group_ratio(found, "CG")
    assert ratio[1] == pytest.approx(3.0 / (3.1 / 3))
    assert set(ex.SPINNING).isdisjoint(ex.BLOCKING)


def test_rank_correlation() -> None:
    up, down = {1: 1.0, 2: 5.0}, {1: 9.0, 2: 2.0}
    same = rank_correlation([(up, up), (down, down), ({1: 4.0, 2: 4.0}, {1: 4.0, 2: 4.0})])
    assert same is not None
    assert same.mean == pytest.approx(1.0)
    assert rank_correlation([(up, down)]) is None


# ---------------------------------------------------------------- page


def test_report_of_all_results(found: Figures) -> None:
    lines = report(found, SIZE)
    text = "\n".join(lines)
    for title in ("Table 3", "Table 4", "Figure 3", "Figures 4 and 5", "Figure 6", "Figure 7", "Figure 8"):
        assert f"## {title}" in text
    assert "| X1 | HYBRID P skip | 6 | 4.82 | " in text
    for before, line in pairwise(lines):  # every table is a rectangle
        if before.startswith("|") and line.startswith("|"):
            assert before.count("|") == line.count("|"), line


def test_report_of_incomplete_results(cells: tuple[Cell, ...]) -> None:
    lines = report(figures_of(cells, seeds=1, workloads=ex.copies("CG")), SIZE)
    assert "## Figure 6: three copies of one program" in lines
    assert "## Figure 3: 100 jobs at two loads" not in lines
    assert report(Figures([], ex.USUAL), SIZE)


def test_pictures_of_all_results(found: Figures) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    nothing = Figures([], ex.USUAL)
    for picture in PICTURES.values():
        figure = picture(found)
        assert shows_runs(figure)
        assert not shows_runs(picture(nothing))
        pyplot.close("all")


def test_names_of_claims_leave_out_what_stands_beside_them(found: Figures) -> None:
    texts = [claim.text for claim in all_claims(found) if claim.text.startswith("C12")]
    assert all("skip" not in text and " P" not in text.replace(" PB", "") for text in texts)
    assert cell_of(ex.HIGH, ex.BATCH, ex.ALL_STRICT) == Where(ex.HIGH, "BATCH strict")
