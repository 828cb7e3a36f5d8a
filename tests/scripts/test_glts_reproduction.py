"""The reproduction of G-LOMARC-TS: its experiment, the figures of its runs, and the page written from them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from scripts.papers.figures import Figures, Where
from scripts.papers.glts.claims import claims_table, where_of_block, where_of_slack
from scripts.papers.glts.experiment import (
    AARR,
    BASE,
    BLOCKS,
    EXACT,
    GAPS,
    QUICK,
    SCHEDULERS,
    SLACKS,
    SSP,
    TRIES,
    USUAL,
    VARIANTS,
    experiment,
    policy,
    scenario_of,
    space_sharing,
)
from scripts.papers.glts.measures import TENTHS, Watch, delay_figures, figures, relative_responses
from scripts.papers.glts.pictures import point, share_within
from scripts.papers.glts.published import (
    CLASS_JOBS,
    CLASS_WORK,
    CORE_UTILISATION,
    RELATIVE_RESPONSE,
    SSP_W2,
    short_of_all,
)
from scripts.papers.glts.report import report
from scripts.papers.study import Size
from tests.scripts.commands import reproduce

import cosched_emulator
from cosched_emulator import Run
from cosched_emulator.results.figures.classes import ClassRules, class_figures
from cosched_emulator.studies.cells import Cell, make_plan
from cosched_emulator.studies.experiment import read_experiment
from cosched_emulator.studies.study_table import series_of

PICTURES = {"g-lomarc-ts", "g-lomarc-ts-delay", "g-lomarc-ts-blocks", "g-lomarc-ts-slack", "g-lomarc-ts-load"}
# Relative to SSP, in the order that the paper claims.
LEVEL = {"SSP": 1.0, "CSTWS": 0.8, "CST": 0.7, "GLTS": 0.6, "GLTS-FBO": 0.6, "GLTS-NS": 0.605, "GLTS-NH": 0.61}


def cells_of(size: Size) -> tuple[Cell, ...]:
    return make_plan(read_experiment(experiment(size))).cells


@pytest.fixture(scope="module")
def cells() -> tuple[Cell, ...]:
    return cells_of(Size(50, 4))


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    """Return a small run of each of two schedulers, traced."""
    table = scenario_of("W2", 250)
    settings = ["matching.fairness_tries=all"]
    return {
        SSP: cosched_emulator.simulate(table, "ssp", trace=[]),
        policy("GLTS", "all"): cosched_emulator.simulate(table, "glts", settings=settings, trace=[]),
    }


# ---------------------------------------------------------------- experiment


def test_every_scheduler_with_groups_runs_with_one_try_and_with_all(cells: tuple[Cell, ...]) -> None:
    base = [cell for cell in cells if cell.names["variants"] == BASE and cell.names["beliefs"] == EXACT]
    for workload in AARR:
        names = [cell.policy for cell in base if cell.names["workloads"] == workload and cell.names["seeds"] == "1"]
        assert names == [SSP, *(policy(name, tries) for name in SCHEDULERS for tries in TRIES)]
    for cell in cells:
        if cell.policy != SSP:
            assert cell.settings["matching"]["fairness_tries"] == cell.policy.partition("/")[2]


def test_settings_of_variants_arrive(cells: tuple[Cell, ...]) -> None:
    for cell in cells:
        kind, _, value = cell.names["variants"].partition("-")
        if kind == "block":
            assert cell.settings["matching"]["block"] == int(value)
        elif kind == "slack":
            assert cell.settings["fairness"]["factor"] == (1e6 if value == "none" else float(value))
        elif kind == "gap":
            assert cell.scenario.workload.gap_factor == float(value)
        assert cell.scenario.workload.aarr == AARR[cell.names["workloads"]]


def test_a_few_seeds_of_all_experiments_run_first(cells: tuple[Cell, ...]) -> None:
    seeds = [int(cell.names["seeds"]) for cell in cells]
    everything = len(AARR) * (1 + len(SCHEDULERS) * len(TRIES))
    assert seeds[: 3 * everything] == sorted(seeds[: 3 * everything])
    assert {cell.names["variants"] for cell in cells[: 3 * everything]} == {BASE}
    assert set(seeds[:-everything]) == {1, 2, 3}
    assert set(seeds[-everything:]) == {4}
    assert {cell.names["variants"] for cell in cells} == {BASE, *VARIANTS}
    quick = cells_of(Size(50, 2, quick=True))
    assert {cell.names["variants"] for cell in quick} == {BASE, *QUICK}
    assert {cell.names["beliefs"] for cell in quick} == {EXACT}


def test_all_that_the_page_asks_for_is_run(cells: tuple[Cell, ...]) -> None:
    known = {
        tuple(cell.names[axis] for axis in ("workloads", "policies", "variants", "beliefs")): cell for cell in cells
    }

    def there(where: Where) -> bool:
        return (where.workload, where.policy, where.variant or BASE, where.belief or EXACT) in known

    assert all(there(where_of_block(size, "GLTS", tries)) for size in BLOCKS for tries in TRIES)
    assert all(there(where_of_slack(factor, tries)) for factor in SLACKS for tries in TRIES)
    gaps = [BASE if gap == "1.0" else f"gap-{gap}" for gap in GAPS]
    assert all(there(Where("W1", name, gap)) for gap in gaps for name in (SSP, policy("CST", "all")))
    for (workload, name, variant, belief), cell in known.items():
        base = space_sharing(Where(workload, name, variant, belief))
        assert there(base)
        same = known[base.workload, base.policy, base.variant or BASE, base.belief or EXACT]
        assert same.scenario.workload == cell.scenario.workload
        assert same.scenario.preemption == cell.scenario.preemption


# ---------------------------------------------------------------- measures


def test_relative_responses_agree_with_the_class_figures(runs: dict[str, Run]) -> None:
    run = runs[SSP]
    for bound in (60, 600):
        theirs = class_figures(run.records, run.machine, ClassRules(bound_s=bound)).jobs
        ours = relative_responses(run.records, bound, 0.0)
        assert ours == pytest.approx({name: found.relative_response_mean for name, found in theirs.items()}, abs=1e-6)
    from_1 = relative_responses(run.records, 600, 1.0)["short"]
    assert from_1 is not None
    assert from_1 >= max(1.0, ours["short"] or 0.0)
    assert relative_responses([], 60, 0.0) == dict.fromkeys(("short", "medium", "long", "all"))


def test_a_run_reports_groups_and_delays(runs: dict[str, Run]) -> None:
    found = figures(runs[policy("GLTS", "all")])
    assert found["groups_number"] == sum(found[f"groups_case_{case}"] for case in (1, 2, 3)) > 0
    assert 2 <= found["groups_size"] <= 4
    assert 0 < found["groups_jobs"] < 250
    assert sum(found[f"jobs_{name}"] for name in ("short", "medium", "long")) == pytest.approx(1)
    assert runs[policy("GLTS", "all")].summary["machine"]["makespan_s"] >= found["last_submission_s"] > 0
    assert found["delay_medium_p5"] <= found["delay_medium_mean"] <= found["delay_medium_p95"]
    alone = figures(runs[SSP])
    assert (alone["groups_number"], alone["groups_size"]) == (0, None)
    assert "delay_medium_mean" not in alone


def test_groups_are_counted_once(runs: dict[str, Run]) -> None:
    records = runs[SSP].records
    serial = [record.job.spec.id for record in records if record.job.spec.processes == 1]
    parallel = [record.job.spec.id for record in records if record.job.spec.processes > 1]
    base = {"gain": 1.0, "candidates": 5, "running": [], "tried": 1}
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
    assert (found["low_load"], found["unfair"], found["given_up"], found["refused"]) == (1, 1, 1, 6)


def test_delays_are_binned_by_tenths(runs: dict[str, Run]) -> None:
    records = runs[SSP].records
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


# ---------------------------------------------------------------- report


def row_of(names: dict[str, str]) -> dict[str, Any]:
    """Return figures that are ``LEVEL`` times those of SSP, and differ a lot between seeds."""
    scheduler, _, tries = names["policy"].partition("/")
    seed = int(names["seed"])
    level = LEVEL[scheduler] * (0.9 if tries == "all" or names["variant"] == "block-12" else 1.0)
    size = 10.0 * seed**2 * level
    responses = {f"{bound}_{name}": size for bound in ("rr_60", "rr_600") for name in ("short", "medium", "all")}
    responses |= {"rr_60_long": size * level, "rr_600_long": size * level}
    delays = {"mean": 1.0, "p5": 0.9, "p25": 0.9, "p50": 0.9, "p75": 1.3, "p95": 1.4}
    groups = {"number": 8, "jobs": 15 if names["workload"] == "W1" else 20, "share": 0.42, "size": 2.5, "refused": 3}
    grouped: dict[str, Any] = {f"groups_{name}": value for name, value in groups.items()}
    for name in ("medium", "long"):
        grouped |= {f"delay_{name}_{key}": value for key, value in delays.items()}
        grouped[f"delay_{name}_tenths"] = [0] * 9 + [10, 0, 10] + [0] * (TENTHS - 12)
    harm = {"harm_h1": 0.2, "harm_hshk": 0.1, "harm_hshk_floor": 0.05}
    return {
        **names,
        **responses,
        "response_all_s": 3600.0,
        **dict.fromkeys(("high_load_medium", "high_load_medium_or_long", "core_utilisation"), 0.4 / level),
        "waiting_growth": 2.5 + 0.1 * seed if scheduler == SSP else 1.5,
        "waiting_first_half": 10.0,
        "waiting_second_half": 25.0 + seed if scheduler == SSP else 15.0,
        "offered_load": 0.4,
        "saturated": "yes" if scheduler == SSP else "not shown",
        **(grouped | harm if scheduler != SSP else {}),
    }


def figures_of(cells: tuple[Cell, ...], *schedulers: str, seeds: int = 3, base_only: bool = False) -> Figures:
    """Return the figures of a study, all invented."""
    columns = ("workload", "load", "hardware", "belief", "variant", "policy", "seed")
    rows = [
        row_of(dict(zip(columns, cell.names.values(), strict=True)))
        for cell in cells
        if int(cell.names["seeds"]) <= seeds and (not base_only or cell.names["variants"] == BASE)
        if not schedulers or cell.policy.partition("/")[0] in schedulers
    ]
    return Figures(series_of(rows), USUAL)


def test_claims_have_a_verdict_for_both_numbers_of_tries(cells: tuple[Cell, ...]) -> None:
    lines = claims_table(figures_of(cells))
    row = next(line for line in lines if line.startswith("| GLTS against SSP, RR of medium jobs, %: lower"))
    assert row.endswith("| W1 | -34.9 | -40.0 (-40.0 to -40.0) | yes | -46.0 (-46.0 to -46.0) | yes | 3 |")
    row = next(line for line in lines if line.startswith("| GLTS against SSP, RR of medium jobs, %: within"))
    assert row.endswith("| W1 | -34.9 | -40.0 (-40.0 to -40.0) | yes | -46.0 (-46.0 to -46.0) | **no** | 3 |")
    row = next(line for line in lines if line.startswith("| long jobs gain more"))
    assert " -24.0 (-24.0 to -24.0) | yes | -24.8 (-24.8 to -24.8) | yes | 3 |" in row
    row = next(line for line in lines if line.startswith("| GLTS-NH against GLTS, RR of medium jobs, %: higher | W2"))
    assert row.count("| yes |") == 2
    row = next(line for line in lines if line.startswith("| SSP is saturated"))
    assert row.count("2.70 (2.45 to 2.95) | yes") == 2
    assert not any("not run" in line for line in lines if "candidates" not in line)
    assert {line.count("|") for line in lines if line} == {9}


def test_claims_without_runs_say_so(cells: tuple[Cell, ...]) -> None:
    lines = claims_table(figures_of(cells, SSP, "GLTS", seeds=1, base_only=True))
    row = next(line for line in lines if line.startswith("| GLTS against SSP, RR of medium jobs, %: lower"))
    assert row.endswith("| W1 | -34.9 | -40.0 | not shown | -46.0 | not shown | 1 |")  # one seed has no interval
    row = next(line for line in lines if line.startswith("| GLTS against CST, RR of medium jobs, %: lower"))
    assert row.endswith("| - | not run | - | not run | - |")


def test_values_of_short_jobs_follow_from_the_printed_ones() -> None:
    assert short_of_all(SSP_W2) == pytest.approx(1.84, abs=0.005)


def test_report_of_all_results(cells: tuple[Cell, ...]) -> None:
    lines = report(figures_of(cells), Size(50, 3))
    assert lines[0].startswith("50 jobs on 128 nodes.")
    for title in ("Published and measured", "One try and all", "Who is worse off", "Figure 8: size of blocks", "Load"):
        assert f"## {title}" in lines
    change = "-10.0 (-10.0 to -10.0)"
    assert any(line.startswith(f"| W1 | GLTS | 3 | {change} | -19.0 (-19.0 to -19.0) | {change} |") for line in lines)
    assert any(line.startswith(f"| GLTS/one | 12 | 3 | {change} | ") for line in lines)
    assert any(line.startswith("| GLTS/all | none | 3 | ") for line in lines)
    assert any(line.startswith("| GLTS/one | CST/one | 0.85 | 3 | ") for line in lines)
    assert any(line.startswith("| W2 | GLTS/one, resume-0 | SSP, resume-0 | 3 | -40.0") for line in lines)
    assert any(line.startswith("| W1 | GLTS/all | pairs unknown | 3 | ") for line in lines)
    assert "| W1 | SSP | 3 | 10 (10 to 10) | 27 (24.52 to 29.48) | 2.70 (2.46 to 2.96) | grows | 3 yes |" in lines
    steady = "10 (10 to 10) | 15 (15 to 15) | 1.50 (1.50 to 1.50) | does not grow | 3 not shown |"
    assert f"| W1 | GLTS/one | 3 | {steady}" in lines
    for before, line in pairwise(lines):  # every table is a rectangle
        if before.startswith("|") and line.startswith("|"):
            assert before.count("|") == line.count("|"), line


def test_report_of_incomplete_results(cells: tuple[Cell, ...]) -> None:
    lines = report(figures_of(cells, SSP, "GLTS", seeds=1, base_only=True), Size(50, 3))
    assert any(line.startswith("| W2 | GLTS/all | 1 | -46.0 | ") for line in lines)
    assert not [line for line in lines if line.startswith(("## Figure", "## Load", "## Other"))]
    assert report(Figures([], USUAL), Size(50, 3))


def test_published_values_are_of_known_runs() -> None:
    assert {*RELATIVE_RESPONSE, *CORE_UTILISATION} <= {SSP, *SCHEDULERS}
    assert sum(CLASS_JOBS.values()) == pytest.approx(1)
    assert sum(CLASS_WORK.values()) == pytest.approx(1)


def test_pictures_have_their_published_points(cells: tuple[Cell, ...]) -> None:
    found = figures_of(cells)
    mean = 10 * (1 + 4 + 9) / 3
    glts, cst = point(found, "long", "W1", "GLTS", "one"), point(found, "long", "W1", "CST", "one")
    assert glts is not None
    assert cst is not None
    assert (glts.mean, glts.published) == pytest.approx((0.36 * mean, mean * (1 - 0.532)))
    assert cst.published == pytest.approx(mean * (1 - 0.532) / (1 - 0.161))
    ssp = point(found, "long", "W2", SSP, "all")
    assert ssp is not None
    assert ssp.published == 36.74
    others = [point(found, "all", *names, "one") for names in (("W2", "GLTS"), ("W1", "GLTS-NS"))]
    assert [other is not None and other.published for other in others] == [None, None]
    assert point(figures_of(cells, "CST"), "long", "W1", "GLTS", "one") is None
    shares = share_within(found, Where("W1", policy("GLTS", "one")), "medium")
    assert (shares[8], shares[9], shares[10], shares[11]) == (0, 0.5, 0.5, 1)
    assert share_within(found, Where("W1", SSP), "medium") == []


# ---------------------------------------------------------------- as a whole


@pytest.mark.slow
def test_a_small_reproduction_runs_and_reports(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    store = tmp_path / "study"
    done = reproduce("g-lomarc-ts", "--quick", "--jobs", "20", "--seeds", "1", "--store", str(store))
    assert done.code == 0, done.err
    runs = len(cells_of(Size(20, 1, quick=True)))
    assert (
        f"{runs} of {runs} runs; verdicts in {store / 'g-lomarc-ts.md'}, rows in appendix/, 4 pictures beside it"
        in done.out
    )
    assert {file.stem for file in store.glob("*.png")} == PICTURES - {"g-lomarc-ts-load"}
    page = (store / "appendix" / "g-lomarc-ts.md").read_text(encoding="utf-8")
    assert "| GLTS against SSP, RR of medium jobs, %: lower | W1 | -34.9 |" in page
