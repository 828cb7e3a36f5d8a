"""The reproduction of G-LOMARC-TS: its experiment, the figures of its runs, and the page written from them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from scripts.papers.claims import Claim, Kind
from scripts.papers.figures import Figures, Where
from scripts.papers.glts import experiment as ex
from scripts.papers.glts import published as printed
from scripts.papers.glts.claims import claims, where_of_block, where_of_slack
from scripts.papers.glts.measures import TENTHS, Watch, delay_figures, figures, relative_responses
from scripts.papers.glts.pictures import point, share_within
from scripts.papers.glts.report import report
from scripts.papers.lists import LISTS
from scripts.papers.study import BASE, Size
from tests.scripts.commands import reproduce

import cosched_emulator
from cosched_emulator import Run
from cosched_emulator.results.figures.classes import ClassRules, class_figures
from cosched_emulator.studies.axes import COLUMNS
from cosched_emulator.studies.cells import Cell, make_plan
from cosched_emulator.studies.experiment import read_experiment
from cosched_emulator.studies.study_result import series_of

PICTURES = {"g-lomarc-ts", "g-lomarc-ts-delay", "g-lomarc-ts-blocks", "g-lomarc-ts-slack", "g-lomarc-ts-load"}
# Relative to SSP, in the order that the paper claims.
LEVEL = {"SSP": 1.0, "CSTWS": 0.8, "CST": 0.7, "GLTS": 0.6, "GLTS-FBO": 0.6, "GLTS-NS": 0.605, "GLTS-NH": 0.61}
LEVEL |= {"GLTS/one": 0.65, "EASY": 2.0, "EASY, priorities": 2.0}


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


def test_every_scheduler_tries_all_windows_but_one(cells: tuple[Cell, ...]) -> None:
    base = [cell for cell in cells if cell.names["variants"] == BASE and cell.names["beliefs"] == ex.EXACT]
    for workload in ex.AARR:
        names = [cell.policy for cell in base if cell.names["workloads"] == workload and cell.names["seeds"] == "1"]
        assert names == [*ex.BASES, *(ex.PLAIN if workload == "W1" else ())]
    for cell in cells:
        if cell.policy in (*ex.SCHEDULERS, ex.ONE):
            assert cell.settings["matching"]["fairness_tries"] == ("one" if cell.policy == ex.ONE else "all")


def test_plain_space_sharing_has_the_same_nodes_without_slices(cells: tuple[Cell, ...]) -> None:
    found = {cell.policy: cell for cell in cells if cell.names["seeds"] == "1" and cell.policy in (ex.SSP, *ex.PLAIN)}
    for name in ex.PLAIN:
        settings = found[name].settings
        assert settings["slices"]["name"] == "none"
        assert settings["placement"] == found[ex.SSP].settings["placement"]
    (drawn,) = [cell.scenario for cell in cells if cell.names["variants"] == ex.ORIGINAL and cell.names["seeds"] == "1"]
    assert (drawn.cluster.nodes, drawn.cluster.preset, drawn.workload.grow) == (128, "single", False)


def test_settings_of_variants_arrive(cells: tuple[Cell, ...]) -> None:
    for cell in cells:
        kind, _, value = cell.names["variants"].partition("-")
        if kind == "block":
            assert cell.settings["matching"]["block"] == int(value)
        elif kind == "slack":
            assert cell.settings["fairness"]["factor"] == (1e6 if value == "none" else float(value))
        elif kind == "gap":
            assert cell.scenario.workload.gap_factor == float(value)
        assert cell.scenario.workload.aarr == ex.AARR[cell.names["workloads"]]


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


def test_all_that_the_page_asks_for_is_run(cells: tuple[Cell, ...]) -> None:
    known = {
        tuple(cell.names[axis] for axis in ("workloads", "policies", "variants", "beliefs")): cell for cell in cells
    }

    def there(where: Where) -> bool:
        return (where.workload, where.policy, where.variant or BASE, where.belief or ex.EXACT) in known

    assert all(there(where_of_block(size, name)) for size in ex.BLOCKS for name in (ex.GLTS, "GLTS-FBO", "GLTS-NS"))
    assert all(there(where_of_slack(factor)) for factor in ex.SLACKS)
    gaps = [BASE if gap == "1.0" else f"gap-{gap}" for gap in ex.GAPS]
    assert all(there(Where("W1", name, gap)) for gap in gaps for name in (ex.SSP, "CST"))
    for (workload, name, variant, belief), cell in known.items():
        base = ex.space_sharing(Where(workload, name, variant, belief))
        assert there(base)
        same = known[base.workload, base.policy, base.variant or BASE, base.belief or ex.EXACT]
        assert same.scenario.workload == cell.scenario.workload
        assert same.scenario.preemption == cell.scenario.preemption


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


# ---------------------------------------------------------------- report


def row_of(names: dict[str, str]) -> dict[str, Any]:
    """Return figures that are ``LEVEL`` times those of SSP, and differ a lot between seeds."""
    scheduler, variant, seed = names["policy"], names["variant"], int(names["seed"])
    high = names["workload"] == "W2"
    level = LEVEL[scheduler] * (0.9 if variant == "block-12" and scheduler == ex.GLTS else 1.0)
    size = 10.0 * seed**2 * level
    responses = {f"{bound}_{name}": size for bound in ("rr_60", "rr_600") for name in ("short", "medium", "all")}
    responses |= {"rr_60_long": size * level, "rr_600_long": size * level}
    delays = {"mean": 1.0, "p5": 0.9, "p25": 0.9, "p50": 0.9, "p75": 1.3, "p95": 1.4}
    groups = {"number": 900 if high else 700, "jobs": 1900 if high else 1500, "share": 0.42, "size": 2.5, "pairs": 0.7}
    groups |= {"candidates": 4 if high else 3, "few_candidates": 0.8, "first_block": 0.9, "refused": 3}
    if variant in ("slack-1.0", "slack-1.1", "slack-1.25"):
        groups["refused"] = 9
    grouped: dict[str, Any] = {f"groups_{name}": value for name, value in groups.items()}
    for name in ("medium", "long"):
        grouped |= {f"delay_{name}_{key}": value for key, value in delays.items()}
        grouped[f"delay_{name}_tenths"] = [0] * 9 + [10, 0, 10] + [0] * (TENTHS - 12)
    harm = {"harm_h1": 0.2, "harm_hshk": 0.1, "harm_hshk_floor": 0.05}
    return {
        **names,
        **responses,
        "response_all_s": 3600.0 * level,
        "core_utilisation": 0.4,
        **dict.fromkeys(("high_load_medium", "high_load_medium_or_long"), 0.4 / level),
        **{f"jobs_{name}": share for name, share in printed.CLASS_JOBS.items()},
        **{f"work_{name}": share for name, share in printed.CLASS_WORK.items()},
        "serial_share": 0.24,
        "power_share": 0.87,
        "slices_an_hour": 1.8,
        "waiting_growth": 2.5 + 0.1 * seed if scheduler == ex.SSP else 1.5,
        "queue_first_half": 10.0,
        "queue_second_half": 25.0 + seed if scheduler == ex.SSP else 15.0,
        "waiting_first_half": 10.0,
        "waiting_second_half": 25.0 + seed if scheduler == ex.SSP else 15.0,
        "mean_queue_length": 30.0 if high else 10.0,
        "beyond_s": 86_400.0 * (1 + high * (2 if scheduler == ex.SSP else 1) + 0.1 * seed),
        "offered_load": 0.4,
        "saturated": "yes" if scheduler == ex.SSP else "not shown",
        **(grouped | harm if scheduler in (*ex.SCHEDULERS, ex.ONE) else {}),
    }


def figures_of(cells: tuple[Cell, ...], *schedulers: str, seeds: int = 3, base_only: bool = False) -> Figures:
    """Return the figures of a study, all invented."""
    rows = [
        row_of(dict(zip(COLUMNS.values(), cell.names.values(), strict=True)))
        for cell in cells
        if int(cell.names["seeds"]) <= seeds and (not base_only or cell.names["variants"] == BASE)
        if not schedulers or cell.policy in schedulers
    ]
    return Figures(series_of(rows), ex.USUAL)


def found_in(rows: list[Claim], text: str) -> Claim:
    (claim,) = [claim for claim in rows if claim.text.startswith(text)]
    return claim


def test_each_claim_of_the_list_has_a_row_with_a_verdict(cells: tuple[Cell, ...]) -> None:
    rows = claims(figures_of(cells))
    assert {each for claim in rows for each in claim.ids.split(", ")} >= {*LISTS["g-lomarc-ts"]}
    assert all(claim.ids for claim in rows)
    assert not [claim.text for claim in rows if claim.kind is not Kind.UNCHECKABLE and claim.verdict is None]
    claim = found_in(rows, "C1: RR, GLTS against SSP, medium jobs, %: lower")
    assert (claim.published, claim.measured, claim.seeds, claim.verdict) == (
        "-34.9",
        "-40.0 (-40.0 to -40.0)",
        3,
        "yes",
    )
    yes = (
        "C1: RR, GLTS against SSP, medium jobs, %: within a quarter",
        "C2: RR, GLTS",
        "C10: groups of two",
        "C12: core utilisation",
        "C18: RR, GLTS with blocks of 12 against all others of any size, medium jobs",
        "C19: RR, GLTS with blocks of 12 against other sizes, long jobs",
        "C22: RR, GLTS-NH against GLTS with blocks of 12, long jobs",
        "C28: mean queue, second half of the submissions over the first, SSP",
        "C28: days to the last end from the last submission, SSP",
        "C31: GLTS, groups refused",
        "C35: core utilisation",
    )
    no = (
        "C3, C6: RR, GLTS against CST, medium jobs, %: within",
        "C8: groups, their number",
        "C21: RR of medium jobs, GLTS-NH against GLTS, blocks of 4",
        "C31, C32: RR of all jobs, GLTS, slack 1.0",
        "W7: switches",
    )
    assert {text: found_in(rows, text).verdict for text in (*yes, *no)} == dict.fromkeys(yes, "yes") | dict.fromkeys(
        no, "no"
    )


def test_what_the_print_says_of_itself() -> None:
    rows = [claim for claim in claims(Figures([], ex.USUAL)) if claim.kind is Kind.PRINT]
    held = {claim.ids: claim.verdict == "yes" for claim in rows}
    assert held == {"W5": True, "C8": False, "C26": False, "P3": False}
    (scr,) = [claim for claim in rows if "SL_scr" in claim.text]
    assert scr.measured == "largest difference 1.17 points; 17 % in 1.2 to 1.3"


def test_claims_without_runs_say_so(cells: tuple[Cell, ...]) -> None:
    rows = claims(figures_of(cells, ex.SSP, ex.GLTS, seeds=1, base_only=True))
    claim = found_in(rows, "C1: RR, GLTS against SSP, medium jobs, %: lower")
    assert (claim.measured, claim.verdict) == ("-40.0", "not shown")  # one seed has no interval
    claim = found_in(rows, "C3, C6: RR, GLTS against CST, medium jobs, %: lower")
    assert (claim.measured, claim.verdict) == ("-", None)


def test_values_of_short_jobs_follow_from_the_printed_ones() -> None:
    assert printed.short_of_all(printed.SSP_W2) == pytest.approx(1.84, abs=0.005)


def test_report_of_all_results(cells: tuple[Cell, ...]) -> None:
    lines = report(figures_of(cells), Size(50, 3))
    assert lines[0].startswith("50 jobs on 128 nodes.")
    for title in ("Published and measured", "One try and all", "Who is worse off", "Figure 8: size of blocks", "Load"):
        assert f"## {title}" in lines
    change = "-10.0 (-10.0 to -10.0)"
    assert any(line.startswith(f"| GLTS | 12 | 3 | {change} | -19.0 (-19.0 to -19.0) | {change} |") for line in lines)
    assert any(line.startswith("| W1 | GLTS | 3 | -7.7 (-7.7 to -7.7) | ") for line in lines)
    assert any(line.startswith("| none | 3 | ") for line in lines)
    assert any(line.startswith("| CST | 0.85 | 3 | ") for line in lines)
    assert any(line.startswith("| W2 | GLTS, resume-0 | SSP, resume-0 | 3 | -40.0") for line in lines)
    assert any(line.startswith("| W1 | GLTS | pairs unknown | 3 | ") for line in lines)
    assert any(line.startswith("| EASY, priorities | 3 | -50.0") for line in lines)
    assert "| W1 | SSP | 3 | 10 (10 to 10) | 27 (24.63 to 29.60) | 2.70 (2.46 to 2.96) | grows | 3 yes |" in lines
    steady = "10 (10 to 10) | 15 (15 to 15) | 1.50 (1.50 to 1.50) | does not grow | 3 not shown |"
    assert f"| W1 | GLTS | 3 | {steady}" in lines
    for before, line in pairwise(lines):  # every table is a rectangle
        if before.startswith("|") and line.startswith("|"):
            assert before.count("|") == line.count("|"), line


def test_report_of_incomplete_results(cells: tuple[Cell, ...]) -> None:
    lines = report(figures_of(cells, ex.SSP, ex.GLTS, seeds=1, base_only=True), Size(50, 3))
    assert any(line.startswith("| W2 | GLTS | 1 | -40.0 | ") for line in lines)
    assert not [line for line in lines if line.startswith(("## Figure", "## Other", "## Slices"))]
    assert report(Figures([], ex.USUAL), Size(50, 3))


def test_published_values_are_of_known_runs() -> None:
    assert {*printed.RELATIVE_RESPONSE, *printed.CORE_UTILISATION} <= {ex.SSP, *ex.SCHEDULERS}
    assert sum(printed.CLASS_JOBS.values()) == pytest.approx(1)
    assert sum(printed.CLASS_WORK.values()) == pytest.approx(1)


def test_pictures_have_their_published_points(cells: tuple[Cell, ...]) -> None:
    found = figures_of(cells)
    mean = 10 * (1 + 4 + 9) / 3
    ours, cst = point(found, "long", "W1", ex.GLTS), point(found, "long", "W1", "CST")
    assert ours is not None
    assert cst is not None
    assert (ours.mean, ours.published) == pytest.approx((0.36 * mean, mean * (1 - 0.532)))
    assert cst.published == pytest.approx(mean * (1 - 0.532) / (1 - 0.161))
    ssp = point(found, "long", "W2", ex.SSP)
    assert ssp is not None
    assert ssp.published == 36.74
    others = [point(found, "all", *names) for names in (("W2", ex.GLTS), ("W1", "GLTS-NS"))]
    assert [other is not None and other.published for other in others] == [None, None]
    assert point(figures_of(cells, "CST"), "long", "W1", ex.GLTS) is None
    shares = share_within(found, Where("W1", ex.GLTS), "medium")
    assert (shares[8], shares[9], shares[10], shares[11]) == (0, 0.5, 0.5, 1)
    assert share_within(found, Where("W1", ex.SSP), "medium") == []


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
    assert "| C1 | RR, GLTS against SSP, medium jobs, %: lower | W1 | -34.9 |" in page
