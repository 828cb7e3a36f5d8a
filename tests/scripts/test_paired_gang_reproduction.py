"""The reproduction of the paired gang paper: its experiment, the figures of its runs, and the page written from them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from scripts.papers.claims import Claim
from scripts.papers.figures import Figures, Where
from scripts.papers.paired_gang import experiment as ex
from scripts.papers.paired_gang.claims import SECTIONS, claims
from scripts.papers.paired_gang.measures import figures
from scripts.papers.paired_gang.pictures import PICTURES
from scripts.papers.paired_gang.published import BEST_FIT_COUNTS
from scripts.papers.paired_gang.report import derive, later_column, report
from scripts.papers.pictures import shows_runs
from scripts.papers.study import BASE, Size, scenario_of
from tests.scripts.commands import reproduce

import cosched_emulator
from cosched_emulator import Run
from cosched_emulator.statistics.intervals import Verdict
from cosched_emulator.studies.axes import COLUMNS
from cosched_emulator.studies.cells import Cell, make_plan
from cosched_emulator.studies.experiment import read_experiment
from cosched_emulator.studies.study_result import Row, series_of


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


def test_all_policies_get_the_same_jobs(cells: tuple[Cell, ...]) -> None:
    jobs: dict[tuple[str, str], set[Any]] = {}
    for cell in cells:
        if cell.names["variants"] == BASE:
            place = (cell.names["workloads"], cell.names["seeds"])
            jobs.setdefault(place, set()).add((cell.scenario.workload, cell.scenario.time_sharing, cell.scenario.seed))
    assert all(len(found) == 1 for found in jobs.values())
    heavy = {cell.policy for cell in cells if cell.names["workloads"] == ex.dynamic(ex.HOMOGENEOUS, "0.95")}
    assert heavy == {ex.STRICT, ex.BARE, ex.PAIRED, ex.NODE, "blind", ex.BATCH}


def test_settings_of_variants_arrive(cells: tuple[Cell, ...]) -> None:
    assert {cell.settings["backfill"]["alternates"] for cell in cells if cell.policy == ex.BARE} == {"off"}
    chosen = {cell.names["variants"]: cell for cell in cells}
    assert chosen["printed"].settings["pairing"]["name"] == "printed"
    assert chosen["band 60"].settings["backfill"]["band"] == 60
    assert chosen["exact"].scenario.time_sharing is not None
    assert chosen["exact"].scenario.time_sharing.nodes == "exact"
    assert chosen["jitter 0.2"].scenario.workload.jitter == 0.2
    assert chosen["lost 2 %, sharp change"].settings["backfill"]["sharp_change"] == "any"


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


# ---------------------------------------------------------------- page


def row_of(cell: Cell) -> dict[str, Any]:
    """Return invented figures in which paired gang scheduling halves responses, and best fit has the published counts."""
    names = dict(zip(COLUMNS.values(), cell.names.values(), strict=True))
    seed, level = int(names["seed"]), 0.5 if cell.policy in (ex.PAIRED, ex.NODE) else 1.0
    io_jobs = int(names["workload"][4]) if names["workload"].startswith("mix") else 0
    chosen = BEST_FIT_COUNTS[io_jobs] if cell.policy == ex.BEST else (0, 0, 0, 0)
    size = 100.0 * seed**2 * level
    thirds = {f"jobs_third_{part}": size + part for part in (1, 2, 3)} | {f"idle_third_{part}": 1 for part in (1, 2, 3)}
    rates = dict.fromkeys(
        ("rate_compute", "rate_io", "rate_total", "speed_compute", "speed_io", "io_per_s"), 3.0 / level
    )
    return {
        **names,
        **rates,
        **{f"rate_of_{slot}": 3.0 + seed / 100 for slot in ex.SLOTS},
        **{f"chosen_{slot}": share / 100 + seed / 1000 for slot, share in zip(ex.SLOTS, chosen, strict=True)},
        **{f"share_{kind}_{how}": 0.3 for kind in (ex.COMPUTE, ex.IO) for how in ("alone", "paired")},
        **thirds,
        "chosen_range": max(chosen) / 100 + seed / 1000,
        "all_response_s_mean": size,
        "all_bounded_slowdown_10s_mean": size / 50,
        "drifts": "no" if cell.policy == ex.PAIRED else "yes",
        "drift_per_h": 1.0,
        "idle_later": 2,
        "workload_digest": f"{names['workload']} {seed}",
        "responses_s": [size, 2 * size, 3 * size],
        "runs_s": [0.5, 5.0, 100.0],
        "jobs_curve": [1, 2, 0],
        "jobs_curve_h": [0.0, 1.0, 2.0],
        "prediction_dots": [[1.0, 0.4], [0.4, 0.45]],
        "phase_start_s": [0.0, 1.0],
        "phase_row": [0.9, 0.1],
        "phase_partner": [None, 0.1],
        "time_sharing_cpu_used": 0.4,
        **dict.fromkeys(("speed", "pairs_of_possible", "pair_share", "node_pairs", "prediction_correlation"), 0.9),
        **dict.fromkeys(("jobs_mean", "jobs_max", "jobs_at_last"), size),
        **dict.fromkeys(("drain_h", "run_h"), 4.0 + seed / 10),
        **dict.fromkeys(("phase_pairs_low", "phase_pairs_high", "phase_stuck", "phase_hungry_pairs"), 0.9),
    }


def figures_of(cells: tuple[Cell, ...], seeds: int = 3, workloads: str = "") -> Figures:
    rows = [
        row_of(cell)
        for cell in cells
        if int(cell.names["seeds"]) <= seeds and cell.names["workloads"].startswith(workloads)
    ]
    return Figures(series_of(rows), ex.USUAL)


def all_claims(found: Figures) -> list[Claim]:
    return [claim for section in [*SECTIONS][:3] for claim in claims(found, section)]


def test_every_claim_has_its_runs(cells: tuple[Cell, ...]) -> None:
    rows_of = all_claims(figures_of(cells))
    assert [claim.text for claim in rows_of if claim.verdict is None] == []
    rows = {(claim.text.partition(":")[0], claim.where): claim for claim in rows_of}
    assert rows["C12", ex.mix(4)].verdict == Verdict.YES
    assert rows["C30", ex.dynamic(ex.HOMOGENEOUS, "0.5")].verdict == Verdict.YES
    assert rows["C31", ex.dynamic(ex.HOMOGENEOUS, "0.95")].verdict == Verdict.NO
    assert rows["C53", ex.dynamic(ex.HOMOGENEOUS, "0.95")].measured == "3 of 3 seeds"
    drifts = [claim for claim in rows_of if claim.text.startswith("C41")]
    assert {claim.verdict for claim in drifts} == {Verdict.NOT_SHOWN}
    assert {claim.to_decide for claim in drifts} == {6}  # three seeds agree by chance in one case of four
    one = {claim.verdict for claim in all_claims(figures_of(cells, seeds=1)) if not claim.text.startswith("C53")}
    assert one == {Verdict.NOT_SHOWN}  # one seed has no interval


def test_claims_of_parts_that_have_not_run_say_so(cells: tuple[Cell, ...]) -> None:
    found = figures_of(cells, workloads="mix")
    assert {claim.verdict for claim in claims(found, "The claims: dynamic workloads")} == {None}
    assert all_claims(Figures([], ex.USUAL))


def _rows(found: Figures, workload: str, policy: str, called: str) -> list[Row]:
    """Return the rows of a policy as those of another."""
    series = found.series(Where(workload, policy))
    assert series is not None
    return [{**row, "policy": called} for row in series.rows]


def test_who_responds_later(cells: tuple[Cell, ...]) -> None:
    found = figures_of(cells)
    workload = ex.dynamic(ex.HOMOGENEOUS, "0.8")
    derive(found)
    assert found.values(later_column("all"), Where(workload, ex.PAIRED)) == {1: 0, 2: 0, 3: 0}
    assert found.values(later_column("all"), Where(workload, ex.STRICT)) == {}
    late = Figures(
        series_of([*_rows(found, workload, ex.PAIRED, ex.STRICT), *_rows(found, workload, ex.STRICT, ex.PAIRED)]),
        ex.USUAL,
    )
    derive(late)
    where = Where(workload, ex.PAIRED)
    assert [late.values(later_column(name), where) for name in ("all", "run < 1 s")] == [{1: 1, 2: 1, 3: 1}] * 2


def test_report_of_all_results(cells: tuple[Cell, ...]) -> None:
    lines = report(figures_of(cells), Size(50, 3))
    assert lines[0].startswith("50 jobs on 16 nodes")
    assert any(line.startswith("| gang / paired-gang | 3/3/3/3/3/3/3/3 | 2 (2 to 2) |") for line in lines)
    assert any(
        line.startswith(f"| unmatched | {ex.dynamic(ex.QCRD, '0.8')} | paired-gang | 3 | 0.0 (0.0 to 0.0) |")
        for line in lines
    )
    assert any(line.startswith(f"| {ex.copies(ex.RUNS_S[0])} | paired-gang, lost 2 % | 3 |") for line in lines)
    for before, line in pairwise(lines):  # every table is a rectangle
        if before.startswith("|") and line.startswith("|"):
            assert before.count("|") == line.count("|"), line


def test_report_of_incomplete_results(cells: tuple[Cell, ...]) -> None:
    lines = report(figures_of(cells, seeds=1, workloads=ex.mix(1)), Size(50, 3))
    assert "## Figure 7: static mixes" in lines
    assert "## Figure 10: dynamic workloads" not in lines
    assert report(Figures([], ex.USUAL), Size(50, 3))


def test_pictures_of_all_results(cells: tuple[Cell, ...]) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    found, nothing = figures_of(cells), Figures([], ex.USUAL)
    for picture in PICTURES.values():
        figure = picture(found)
        assert shows_runs(figure)
        assert not shows_runs(picture(nothing))
        pyplot.close("all")


# ---------------------------------------------------------------- as a whole


@pytest.mark.slow
def test_a_small_reproduction_runs_and_reports(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    store = tmp_path / "study"
    done = reproduce("paired-gang", "--quick", "--jobs", "20", "--seeds", "1", "--store", str(store))
    assert done.code == 0, done.err
    runs = len(cells_of(Size(20, 1, quick=True)))
    assert f"{runs} of {runs} runs; verdicts in {store / 'paired-gang.md'}" in done.out
    page = (store / "appendix" / "paired-gang.md").read_text(encoding="utf-8")
    assert f"| {ex.mix(ex.MIXES[1])} | gang | 1 | 3.2" in page
    assert ex.LOADS[0] in page
