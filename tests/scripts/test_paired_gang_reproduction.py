"""The reproduction of the paired gang paper: its experiment, the figures of its runs, and the page written from them."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts.papers.figures import Figures, Where
from scripts.papers.paired_gang import experiment as ex
from scripts.papers.paired_gang.measures import figures
from scripts.papers.paired_gang.report import derive, later_column
from scripts.papers.study import BASE, Size, scenario_of

import cosched_emulator
from cosched_emulator import Run
from cosched_emulator.studies.axes import COLUMNS
from cosched_emulator.studies.cells import Cell, make_plan
from cosched_emulator.studies.experiment import read_experiment
from cosched_emulator.studies.study_result import series_of


def cells_of(size: Size) -> tuple[Cell, ...]:
    return make_plan(read_experiment(ex.experiment(size))).cells


@pytest.fixture(scope="module")
def cells() -> tuple[Cell, ...]:
    return cells_of(Size(50, 4))


def run_of(workload: str, policy: str, jobs: int = 25) -> Run:
    """Return a short run of a cell."""
    table = ex.experiment(Size(jobs, 1, quick=True))
    preset, settings = ex.POLICIES[policy]
    return cosched_emulator.simulate({**scenario_of(table, workloads=workload), "seed": 1}, preset, settings=settings)


# ---------------------------------------------------------------- experiment


def test_a_few_seeds_of_all_experiments_run_first(cells: tuple[Cell, ...]) -> None:
    seeds = [int(cell.names["seeds"]) for cell in cells]
    assert set(seeds[: seeds.index(4)]) == {1, 2, 3}
    assert set(seeds[seeds.index(4) :]) == {4}
    assert {cell.names["variants"] for cell in cells} == {BASE, *ex.VARIANTS}
    first = [cell.names["variants"] for cell in cells]
    assert set(first[: first.index("printed")]) == {BASE}
    quick = cells_of(Size(50, 2, quick=True))
    assert {cell.names["variants"] for cell in quick} == {BASE, "printed"}
    loads = {cell.scenario.workload.load for cell in quick if cell.scenario.workload.lublin}
    assert loads == {0.5, 0.95}


def test_jobs_of_a_mix_are_in_order_and_end_together() -> None:
    jobs = ex.statics()[ex.mix(3)]
    assert [row.split(",")[0] for row in jobs.programs] == [ex.COMPUTE, ex.IO, ex.IO, ex.IO]
    sections = ex.workload_of(ex.mix(3), jobs)
    assert sections["cluster"] == {"nodes": 8}
    assert {entry["at_s"] for entry in sections["script"]} == {256.0}
    lines = Path(sections["workload"]["programs"]).read_text(encoding="utf-8").splitlines()
    assert lines[1:3] == ["1,compute,2500000,5000,", "2,io,,5000,"]
    assert ex.workload_of(ex.mix(3, iterations=250), ex.statics()[ex.mix(3, iterations=250)])["script"] == []


# ---------------------------------------------------------------- runs


def test_a_single_io_job_runs_beside_all_compute_jobs() -> None:
    strict, best = (figures(run_of(ex.mix(1), policy)) for policy in (ex.STRICT, ex.BEST))
    assert strict["pair_share"] == 0
    assert strict["rate_of_0"] == pytest.approx(13.1 / 4, rel=0.02)
    # In its first quantum each job runs alone: so 28 of 32 quanta have a pair.
    assert best["pair_share"] == 28 / 32
    assert best["rate_io"] / strict["rate_io"] > 3
    assert best["rate_compute"] / strict["rate_compute"] == pytest.approx(1.27, abs=0.03)
    assert best["chosen_3"] == 21 / 32
    assert best["share_io_paired"] == 0
    assert 0.9 < best["share_compute_paired"] < best["share_compute_alone"] < 0.99


def test_rates_of_jobs_that_end_follow_from_their_cpu_time() -> None:
    found = figures(run_of(ex.mix(2, iterations=250), ex.STRICT))
    assert 60 < found["window_s"] < 80
    assert found["rate_compute"] == pytest.approx(13.1 / 4, rel=0.03)  # not all have had the same number of quanta
    assert found["rate_io"] == pytest.approx(13.3 / 4, rel=0.03)


def test_a_dynamic_run_has_all_figures() -> None:
    strict, paired = (run_of(ex.dynamic(ex.HOMOGENEOUS, "0.95"), policy) for policy in (ex.STRICT, ex.PAIRED))
    found, other = figures(paired), figures(strict)
    assert found["workload_digest"] == other["workload_digest"]
    assert (
        found["workload_digest"] != figures(run_of(ex.dynamic(ex.HETEROGENEOUS, "0.95"), ex.STRICT))["workload_digest"]
    )
    assert len(found["responses_s"]) == len(found["runs_s"]) == 25
    assert other["pair_share"] == 0
    assert other["node_pairs"] == pytest.approx(0, abs=1e-5)  # the summary is rounded
    assert 0 < found["pair_share"] <= found["pairs_of_possible"] <= 1
    assert 0 < found["node_pairs"] < 1
    assert 0.4 < found["speed"] < other["speed"] <= 1
    assert found["prediction_error"] < 0.2
    mean_s = paired.summary["all"]["response_s"]["mean"]
    assert sum(found["responses_s"]) / 25 == pytest.approx(mean_s, rel=1e-4)


def test_space_sharing_has_no_quanta() -> None:
    found = figures(run_of(ex.dynamic(ex.HOMOGENEOUS, "0.95"), ex.BATCH))
    assert "pair_share" not in found
    assert found["jobs_max"] >= 1


def test_who_responds_later() -> None:
    workload = ex.dynamic(ex.HOMOGENEOUS, "0.8")
    for paired, later in (((50.0, 100.0), 0), ((200.0, 400.0), 1)):
        named = {**dict.fromkeys(COLUMNS.values(), ""), **ex.USUAL, "workload": workload, "seed": "1"}
        rows = [
            {**named, "policy": policy, "responses_s": [*responses], "runs_s": [0.5, 5.0], "workload_digest": "1"}
            for policy, responses in ((ex.STRICT, (100.0, 200.0)), (ex.PAIRED, paired))
        ]
        found = Figures(series_of(rows), ex.USUAL)
        derive(found, Size(1, 1))
        for name in ("all", "run < 1 s"):
            assert found.values(later_column(name), Where(workload, ex.PAIRED)) == {1: later}
        assert found.values(later_column("all"), Where(workload, ex.STRICT)) == {}
