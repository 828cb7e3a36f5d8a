"""The reproduction of G-LOMARC-TS: its experiment, the figures of its runs, and the page written from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from scripts.papers.glts import experiment as ex
from scripts.papers.glts.measures import TENTHS, Watch, delay_figures, figures, relative_responses
from scripts.papers.study import BASE, Size

import cosched_emulator
from cosched_emulator import Run
from cosched_emulator.results.figures.classes import ClassRules, class_figures
from cosched_emulator.studies.cells import Cell, make_plan
from cosched_emulator.studies.experiment import read_experiment


def cells_of(size: Size) -> tuple[Cell, ...]:
    return make_plan(read_experiment(ex.experiment(size))).cells


@pytest.fixture(scope="module")
def cells() -> tuple[Cell, ...]:
    return cells_of(Size(50, 4))


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    """Return a small run of each of two schedulers, traced."""
    table = ex.scenario_of("W2", 250)
    return {
        ex.SSP: cosched_emulator.simulate(table, "ssp", trace=[]),
        ex.GLTS: cosched_emulator.simulate(table, "glts", trace=[]),
    }


# ---------------------------------------------------------------- experiment


def test_stages_run_in_order_seed_by_seed(cells: tuple[Cell, ...]) -> None:
    size = Size(50, 4)
    stages = [product.stage for product in ex.products(size)]
    found = [(stages[cell.stage], int(cell.names["seeds"])) for cell in cells]
    assert found == sorted(found, key=lambda each: ([*ex.STAGES].index(each[0]), each[1]))
    assert {stage for stage, _ in found} == {*ex.STAGES}
    for stage, seeds in ex.STAGES.items():
        first = 4 if stage == "more" else 1
        assert {seed for each, seed in found if each == stage} == {*range(first, min(seeds, 4) + 1)}
    assert {cell.names["variants"] for cell in cells} == {BASE, *ex.VARIANTS}
    quick = cells_of(Size(50, 2, quick=True))
    assert {cell.names["variants"] for cell in quick} == {BASE, *ex.QUICK}
    assert {cell.names["beliefs"] for cell in quick} == {ex.EXACT}


# ---------------------------------------------------------------- measures


def test_relative_responses_agree_with_the_class_figures(runs: dict[str, Run]) -> None:
    run = runs[ex.SSP]
    for bound in (60, 600):
        theirs = class_figures(run.records, run.machine, ClassRules(bound_s=bound)).jobs
        ours = relative_responses(run.records, bound, 0.0)
        assert ours == pytest.approx({name: found.relative_response_mean for name, found in theirs.items()}, abs=1e-6)
    from_1 = relative_responses(run.records, 600, 1.0)["short"]
    assert from_1 is not None
    assert from_1 >= max(1.0, ours["short"] or 0.0)
    assert relative_responses([], 60, 0.0) == dict.fromkeys(("short", "medium", "long", "all"))


def test_a_run_reports_groups_and_delays(runs: dict[str, Run]) -> None:
    found = figures(runs[ex.GLTS])
    assert found["groups_number"] == sum(found[f"groups_case_{case}"] for case in (1, 2, 3)) > 0
    assert 2 <= found["groups_size"] <= 4
    assert 0 < found["groups_jobs"] < 250
    assert sum(found[f"jobs_{name}"] for name in ("short", "medium", "long")) == pytest.approx(1)
    makespan_s = runs[ex.GLTS].summary["machine"]["makespan_s"]
    first_s = min(record.job.spec.submit_us for record in runs[ex.GLTS].records) / 1e6
    assert found["last_submission_s"] + found["beyond_s"] - first_s == pytest.approx(makespan_s)
    assert 0 < found["slices_an_hour"] <= 3
    assert 0 < found["serial_share"] < found["power_share"] < 1
    assert sum(found["groups_sizes"]) == found["groups_number"]
    assert found["groups_pairs"] == found["groups_sizes"][0] / found["groups_number"]
    assert found["delay_medium_p5"] <= found["delay_medium_mean"] <= found["delay_medium_p95"]
    alone = figures(runs[ex.SSP])
    assert (alone["groups_number"], alone["groups_size"]) == (0, None)
    assert "delay_medium_mean" not in alone


def test_groups_are_counted_once(runs: dict[str, Run]) -> None:
    records = runs[ex.SSP].records
    serial = [record.job.spec.id for record in records if record.job.spec.processes == 1]
    parallel = [record.job.spec.id for record in records if record.job.spec.processes > 1]
    base = {"gain": 1.0, "candidates": 17, "running": [], "tried": 1}
    pair = {**base, "primary": serial[0], "matched": [serial[1]], "candidates": 3}
    beside = {
        **base,
        "primary": parallel[0],
        "matched": [parallel[1], parallel[2]],
        "running": [parallel[1]],
        "gain": 2.0,
        "tried": 3,
    }
    joined = {**base, "primary": parallel[3], "matched": [parallel[0]], "running": [parallel[3]], "gain": 3.0}
    starts: Iterator[tuple[int, int, dict[str, Any]]] = iter(
        (
            (5, serial[0], {"group": pair}),
            (5, serial[1], {"group": pair}),
            (6, parallel[0], {"group": beside}),
            (9, parallel[0], {"group": joined}),
            (9, 7, {"no_search": "low-load", "unfair_to": 3, "refused_groups": 4}),
            (9, 8, {"no_search": "short"}),
        )
    )
    trace = [{"kind": "start", "at_us": at_us, "job": job, **facts} for at_us, job, facts in starts]
    watch = Watch([*trace, {"kind": "expect", "at_us": 0, "job": 3, "response_us": 17}])
    found = watch.groups(records)
    assert watch.expected_us == {3: 17}
    assert (found["number"], found["jobs"], found["serial_pairs"]) == (3, 6, 1)
    assert [found[f"case_{case}"] for case in (1, 2, 3)] == [1, 1, 1]
    assert found["size"] == pytest.approx(7 / 3)
    assert found["gain"] == pytest.approx(2)
    assert found["few_candidates"] == pytest.approx(1 / 3)
    assert found["candidates"] == pytest.approx(37 / 3)
    assert found["sizes"] == [2, 1, *[0] * 9]
    assert found["pairs"] == pytest.approx(2 / 3)
    assert found["first_block"] == pytest.approx(1 / 4)
    assert (found["low_load"], found["unfair"], found["given_up"], found["refused"]) == (1, 1, 1, 6)


def test_delays_are_binned_by_tenths(runs: dict[str, Run]) -> None:
    records = runs[ex.SSP].records
    medium = [record for record in records if 600e6 < record.job.spec.estimate_us <= 10_800e6]
    wanted = [0.55, 1.05, 1.05, 9.0]
    expected = {
        record.job.spec.id: round(((record.end_us or 0) - record.job.spec.submit_us) / delay)
        for record, delay in zip(medium, wanted, strict=False)
    }
    found = delay_figures(expected, records, "medium")
    assert found["mean"] == pytest.approx(sum(wanted) / 4, rel=1e-5)
    assert found["p50"] == pytest.approx(1.05, rel=1e-5)
    assert {tenth: count for tenth, count in enumerate(found["tenths"]) if count} == {5: 1, 10: 2, TENTHS - 1: 1}
    assert delay_figures(expected, records, "long") == {}
