"""The reproduction of G-LOMARC-TS: its runs, their figures, and the page written from stored results."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from scripts.papers.glts.claims import claims, descending, task_of_block, task_of_gap, task_of_slack
from scripts.papers.glts.figures import against, changes, figure_of, values
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
from scripts.papers.glts.runs import (
    AARR,
    BASE,
    BLOCKS,
    GAPS,
    QUICK,
    SCHEDULERS,
    SLACKS,
    TENTHS,
    VARIANTS,
    Task,
    Watch,
    delay_figures,
    relative_responses,
    scenario_of,
    simulate,
    tasks_of,
)
from tests.scripts.commands import reproduce

import cosched_emulator
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.results.figures.classes import ClassRules, class_figures
from cosched_emulator.scenario.reader import read_scenario
from cosched_plugin.config import choose

ROOT = Path(__file__).resolve().parents[2]
PICTURES = {"g-lomarc-ts", "g-lomarc-ts-delay", "g-lomarc-ts-blocks", "g-lomarc-ts-slack", "g-lomarc-ts-load"}
# Relative to SSP, in the order that the paper claims.
LEVEL = {"SSP": 1.0, "CSTWS": 0.8, "CST": 0.7, "GLTS": 0.6, "GLTS-FBO": 0.6, "GLTS-NS": 0.605, "GLTS-NH": 0.61}


def finished(task: Task, jobs: int) -> tuple[list[JobRecord], Any]:
    ran = cosched_emulator.simulate(scenario_of(task, jobs), SCHEDULERS[task.scheduler])
    return ran.records, ran.machine


# ---------------------------------------------------------------- runs


def test_the_first_seeds_of_all_experiments_run_first() -> None:
    tasks = tasks_of(10)
    assert len(tasks) == len(set(tasks)) == len({(task.series, task.seed) for task in tasks})
    everything = len(AARR) * len(SCHEDULERS)
    first, middle, last = tasks[: 5 * everything], tasks[5 * everything : -5 * everything], tasks[-5 * everything :]
    assert {task.variant for task in (*first, *last)} == {BASE}
    assert {task.variant for task in middle} == set(VARIANTS)
    assert {task.seed for task in first} == {task.seed for task in middle} == set(range(1, 6))
    assert {task.seed for task in last} == set(range(6, 11))
    figures = [task.variant.startswith(("block-", "slack-")) for task in middle]
    assert figures == sorted(figures, reverse=True)  # the paper's own experiments before ours
    quick = tasks_of(2, quick=True)
    assert {task.variant for task in quick} == {BASE, *QUICK}
    assert set(quick) <= set(tasks)


def test_every_run_has_a_space_sharing_run_of_the_same_jobs() -> None:
    tasks = set(tasks_of(10))
    assert {task.space_sharing for task in tasks} <= tasks
    for task in tasks:
        assert scenario_of(task, 10) == scenario_of(task.space_sharing, 10)


def test_figures_8_and_9_and_the_load_have_all_their_runs() -> None:
    tasks = set(tasks_of(1))
    wanted = {task_of_block(size, name) for size in BLOCKS for name in ("GLTS", "GLTS-FBO", "GLTS-NS")}
    wanted |= {task_of_slack(factor) for factor in SLACKS}
    wanted |= {task_of_gap(gap)._replace(scheduler=name) for gap in GAPS for name in ("SSP", "CST", "GLTS")}
    assert wanted <= tasks


def test_scenarios_and_settings_are_accepted() -> None:
    for task in tasks_of(1):
        scenario = read_scenario(None, scenario_of(task, 10))
        assert scenario.workload.aarr == AARR[task.workload]
        choice = choose(SCHEDULERS[task.scheduler], VARIANTS[task.variant].settings if task.variant != BASE else ())
        kind, _, value = task.variant.partition("-")
        if kind == "block":
            assert choice.settings["matching"]["block"] == int(value)
        elif kind == "slack":
            assert choice.settings["fairness"]["factor"] == (1e6 if value == "none" else float(value))
        elif kind == "gap":
            assert scenario.workload.gap_factor == float(value)


def test_relative_responses_agree_with_the_class_figures() -> None:
    records, nodes = finished(Task("W1", "SSP"), 120)
    for bound in (60, 600):
        theirs = class_figures(records, nodes, ClassRules(bound_s=bound)).jobs
        ours = relative_responses(records, bound, 0.0)
        assert ours == pytest.approx({name: found.relative_response_mean for name, found in theirs.items()}, abs=1e-6)
    from_1 = relative_responses(records, 600, 1.0)["short"]
    assert from_1 is not None
    assert from_1 >= max(1.0, ours["short"] or 0.0)
    assert relative_responses([], 60, 0.0) == dict.fromkeys(("short", "medium", "long", "all"))


def test_a_run_reports_groups_and_delays() -> None:
    result = json.loads(json.dumps(simulate(Task("W2", "GLTS"), 250)))
    assert result["jobs"] == result["ended"] == 250
    groups = result["groups"]
    assert groups["number"] == sum(groups["cases"].values()) == sum(groups["candidates"]) > 0
    assert groups["eligible"] == sum(result["delay"][name]["jobs"] for name in ("medium", "long"))
    assert 2 <= groups["size"] <= 4
    assert 0 < groups["jobs_in_groups"] <= groups["eligible"] < 250
    assert sum(result["class_jobs"].values()) == pytest.approx(1)
    assert result["makespan_s"] >= result["last_submission_s"] > 0
    assert result["preemptions"] > 0


def test_groups_are_counted_once() -> None:
    records, _ = finished(Task("W1", "SSP"), 120)
    serial = [record.job.spec.id for record in records if record.job.spec.processes == 1]
    parallel = [record.job.spec.id for record in records if record.job.spec.processes > 1]
    watch = Watch()
    base = {"gain": 1.0, "candidates": 5, "running": []}
    pair = {**base, "primary": serial[0], "matched": [serial[1]], "candidates": 3}
    beside = {
        **base,
        "primary": parallel[0],
        "matched": [parallel[1], parallel[2]],
        "running": [parallel[1]],
        "gain": 2.0,
    }
    joined = {**base, "primary": parallel[3], "matched": [parallel[0]], "running": [parallel[3]], "gain": 3.0}
    for at_us, job, group in (
        (5, serial[0], pair),
        (5, serial[1], pair),
        (6, parallel[0], beside),
        (9, parallel[0], joined),
    ):
        watch.look({"kind": "start", "at_us": at_us, "job": job, "group": group})
    watch.look({"kind": "start", "at_us": 9, "job": 7, "no_search": "low-load", "unfair_to": 3})
    watch.look({"kind": "start", "at_us": 9, "job": 8, "no_search": "short"})
    watch.look({"kind": "expect", "at_us": 0, "job": 3, "response_us": 17})
    found = watch.groups(records)
    assert watch.expected_us == {3: 17}
    assert (found["number"], found["jobs_in_groups"], found["serial_pairs"]) == (3, 6, 1)
    assert found["cases"] == {"1": 1, "2": 1, "3": 1}
    assert found["size"] == pytest.approx(7 / 3)
    assert found["gain"] == pytest.approx(2)
    assert found["few_candidates"] == pytest.approx(1 / 3)
    assert found["candidates"] == [0, 0, 0, 1, 0, 2]
    assert found["sizes"] == {"2": 2, "3": 1}
    assert (found["low_load"], found["unfair"]) == (1, 1)
    assert Watch().groups(records)["size"] is None


def test_delays_are_binned_by_tenths() -> None:
    records, _ = finished(Task("W1", "SSP"), 120)
    medium = [record for record in records if 600e6 < record.job.spec.estimate_us <= 10_800e6]
    wanted = [0.55, 1.05, 1.05, 9.0]
    expected = {
        record.job.spec.id: round(((record.end_us or 0) - record.job.spec.submit_us) / delay)
        for record, delay in zip(medium, wanted, strict=False)
    }
    found = delay_figures(expected, records, "medium")
    assert found is not None
    assert found["jobs"] == 4
    assert found["mean"] == pytest.approx(sum(wanted) / 4, rel=1e-5)
    assert found["p50"] == pytest.approx(1.05, rel=1e-5)
    assert {tenth: count for tenth, count in enumerate(found["tenths"]) if count} == {5: 1, 10: 2, TENTHS - 1: 1}
    assert delay_figures(expected, records, "long") is None


# ---------------------------------------------------------------- report


def fake(task: Task) -> dict[str, Any]:
    """Return figures that are ``LEVEL`` times those of SSP, and differ a lot between seeds."""
    size, level = 10.0 * task.seed**2, LEVEL[task.scheduler]
    if task == task_of_block(12)._replace(seed=task.seed):
        level *= 0.9
    responses = dict.fromkeys(("short", "medium", "long", "all"), size * level)
    grouped = task.scheduler != "SSP"
    delay: dict[str, Any] = {
        "jobs": 20,
        "mean": 1.0,
        **dict.fromkeys(("p5", "p25", "p50"), 0.9),
        "p75": 1.3,
        "p95": 1.4,
    }
    delay["tenths"] = [0] * 9 + [10, 0, 10] + [0] * (TENTHS - 12)
    phases = ("medium", "long", "medium_or_long")
    return {
        **task._asdict(),
        "jobs": 50,
        **{name: {**responses, "long": responses["long"] * level} for name in ("rr_60", "rr_600", "rr_600_from_1")},
        "response_s": responses,
        "makespan_s": 1e6 * (1.2 if task.scheduler == "SSP" else 1.01),
        "last_submission_s": 1e6,
        "core_utilisation": 0.5,
        "high_load": dict.fromkeys(phases, 0.4 / level),
        "high_load_s": dict.fromkeys(phases, 86_400.0),
        "queue_first_half": 10.0,
        "queue_second_half": 20.0,
        "offered_load": 0.4,
        "class_jobs": CLASS_JOBS,
        "class_work": CLASS_WORK,
        "preemptions": 100,
        "groups": {
            "number": 8,
            "size": 2.5 if grouped else None,
            "jobs_in_groups": 15 if task.workload == "W1" else 20,
            "share": 0.42,
            "few_candidates": 0.8,
            "gain": 1.5,
            "cases": {"1": 5, "2": 2, "3": 1},
            "serial_pairs": 3,
            "low_load": 4,
            "unfair": 2,
        },
        "delay": dict.fromkeys(("medium", "long"), delay if grouped else None),
    }


@pytest.fixture
def results() -> dict[Task, dict[str, Any]]:
    return {task: fake(task) for task in tasks_of(3)}


def test_figures_by_path() -> None:
    result = {"a": {"b": {"c": 3}, "d": None}, "e": 5}
    assert [figure_of(result, key) for key in ("a.b.c", "a.d", "a.x.c", "e", "e.f", "x")] == [
        3,
        None,
        None,
        5,
        None,
        None,
    ]


def test_percentages_are_paired_by_seed(results: dict[Task, dict[str, Any]]) -> None:
    task = Task("W1", "GLTS")
    assert values(results, "rr_60.medium", task) == pytest.approx({1: 6, 2: 24, 3: 54})
    assert values(results, "rr_60.medium", task, {2, 7}) == pytest.approx({2: 24})
    results[task._replace(seed=2)]["rr_60"]["medium"] *= 1.5
    assert against(results, "rr_60.medium", task, "SSP") == pytest.approx({1: -40, 2: -10, 3: -40})
    assert against(results, "rr_60.long", task, "CST") == pytest.approx(dict.fromkeys((1, 2, 3), 100 * (36 / 49 - 1)))
    results[Task("W1", "SSP", 3)]["rr_60"]["medium"] = None
    assert list(against(results, "rr_60.medium", task, "SSP")) == [1, 2]
    assert changes(results, "rr_60.medium", task, Task("W1", "AC")) == {}


def test_variants_are_compared_with_space_sharing_of_the_same_jobs(results: dict[Task, dict[str, Any]]) -> None:
    for seed in (1, 2, 3):
        results[Task("W1", "SSP", seed, "gap-0.9")]["rr_60"]["all"] *= 2
    assert against(results, "rr_60.all", task_of_gap("0.9"), "SSP") == pytest.approx(dict.fromkeys((1, 2, 3), -70))
    assert against(results, "rr_60.all", task_of_slack("2"), "SSP") == pytest.approx(dict.fromkeys((1, 2, 3), -40))


def test_orderings_hold_on_the_means_and_count_seeds(results: dict[Task, dict[str, Any]]) -> None:
    names = ("SSP", "CSTWS", "CST", "GLTS")
    row = "| RR of medium jobs: SSP > CSTWS > CST > GLTS | W1 | 46.67, 37.33, 32.67, {}; {} of 3 seeds | {} |"
    assert descending(results, "rr_60.medium", "W1", names) == [row.format(28, 3, "yes")]
    results[Task("W1", "GLTS", 2)]["rr_60"]["medium"] = 28.5  # above CST's 28 in this seed, but not on average
    assert descending(results, "rr_60.medium", "W1", names) == [row.format("29.50", 2, "not shown")]
    results[Task("W1", "GLTS", 2)]["rr_60"]["medium"] = 60.0
    assert descending(results, "rr_60.medium", "W1", names) == [row.format(40, 2, "**no**")]
    assert descending(results, "rr_60.medium", "W1", ("SSP", "AC")) == []


def test_claims_that_hold_and_one_that_does_not(results: dict[Task, dict[str, Any]]) -> None:
    lines = claims(results)
    failing = [line for line in lines if "**no**" in line]
    assert failing == [
        line for line in lines if "slack" in line and "higher" in line
    ]  # slack has no effect on these figures
    assert "| RR of all jobs, bound 600 s: GLTS at least 25 % below SSP | W1 | -40.0 ± 0.0 % | yes |" in lines
    assert "| long jobs benefit more than medium ones | W1 | -40.0, -64.0 % against SSP | yes |" in lines
    assert (
        "| RR of medium jobs: lowest with blocks of 12 | W2 | best with 12; from best to worst 11.1 % | yes |" in lines
    )
    text = "| GLTS keeps up: makespan at most 1.02 of the last submission | W2 | 1.010 of it; queue 10, then 20 | yes |"
    assert text in lines
    for seed in (1, 2, 3):
        results[Task("W2", "GLTS", seed)]["makespan_s"] = 1.03e6
        results[Task("W1", "GLTS", seed)]["delay"]["long"]["p95"] = 1.6
    changed = [line for line in claims(results) if "**no**" in line and line not in failing]
    assert [line.partition(":")[0] for line in changed] == ["| GLTS keeps up", *["| response / expected response"] * 2]


def test_values_of_short_jobs_follow_from_the_printed_ones() -> None:
    assert short_of_all(SSP_W2) == pytest.approx(1.84, abs=0.005)


def test_report_of_all_results(results: dict[Task, dict[str, Any]]) -> None:
    lines = report(results, 50)
    assert lines[0].startswith("50 jobs on 128 nodes; 3 seed(s)")
    assert "| GLTS against SSP | W1 | published | - | - | -34.9 | -53.2 | -35.5 | -35.5 |" in lines
    measured = " | ".join(["-40.0 ± 0.0"] * 3 + ["-64.0 ± 0.0"] + ["-40.0 ± 0.0"] * 2)
    assert f"| GLTS against SSP | W1 | measured | {measured} |" in lines
    assert "| W2 | SSP, published | - | - | 17.50 | 36.74 | 10.65 | 10.65 | - |" in lines
    assert "| GLTS against CST | W1 | published | - | - | +6.0 | - |" in lines
    utilisation = " | ".join(["+16.7 ± 0.0"] * 3)
    assert f"| GLTS against CST | W1 | measured | {utilisation} | 0.0 ± 0.0 |" in lines
    assert "| W1 | GLTS, published | - | 2.50 | 1,500 | 41.70 | 85 | - | - | - | - | - | - | - |" in lines
    assert "| W1 | GLTS, published | long | 1 | - | - | - | 1.30 | 1.40 |" in lines
    assert any(
        line.startswith("| GLTS | 12 | 3 | ") and line.endswith("| -10.0 ± 0.0 | -19.0 ± 0.0 |") for line in lines
    )
    assert any(line.startswith("| GLTS | none | 3 | ") for line in lines)
    assert any(line.startswith("| 0.85 | CST | 3 | -14.3 ± 0.0 | -26.5 ± 0.0 | ") for line in lines)
    assert any(line.startswith("| W2 | GLTS, resume-0 | SSP, resume-0 | 3 | -40.0 ± 0.0 | ") for line in lines)
    for before, line in pairwise(lines):  # every table is a rectangle
        if before.startswith("|") and line.startswith("|"):
            assert before.count("|") == line.count("|"), line


def test_report_of_incomplete_results(results: dict[Task, dict[str, Any]]) -> None:
    few = {task: result for task, result in results.items() if task.variant == BASE and task.seed == 1}
    few = {task: result for task, result in few.items() if task.scheduler in ("SSP", "GLTS")}
    lines = report(few, 50)
    assert "| GLTS against SSP | W2 | measured | -40.0 | -40.0 | -40.0 | -64.0 | -40.0 | -40.0 |" in lines
    assert not [line for line in lines if line.startswith(("## Figure", "## Load", "## Experiments"))]
    assert report({}, 50)


def test_published_values_are_of_known_runs() -> None:
    assert {*RELATIVE_RESPONSE, *CORE_UTILISATION} <= {*SCHEDULERS}
    assert sum(CLASS_JOBS.values()) == pytest.approx(1)
    assert sum(CLASS_WORK.values()) == pytest.approx(1)


def test_pictures_have_their_published_points(results: dict[Task, dict[str, Any]]) -> None:
    mean = 10 * (1 + 4 + 9) / 3
    glts, cst = point(results, "rr_60.long", Task("W1", "GLTS")), point(results, "rr_60.long", Task("W1", "CST"))
    assert glts is not None
    assert cst is not None
    assert (glts.mean, glts.published) == pytest.approx((0.36 * mean, mean * (1 - 0.532)))
    assert cst.published == pytest.approx(mean * (1 - 0.532) / (1 - 0.161))
    ssp = point(results, "rr_60.long", Task("W2", "SSP"))
    assert ssp is not None
    assert ssp.published == 36.74
    assert [
        found is not None and found.published
        for found in (
            point(results, "rr_60.all", Task("W2", "GLTS")),
            point(results, "rr_60.all", Task("W1", "GLTS-NS")),
        )
    ] == [None, None]
    assert point({}, "rr_60.long", Task("W1", "GLTS")) is None
    shares = share_within(results, Task("W1", "GLTS"), "medium")
    assert (shares[8], shares[9], shares[10], shares[11]) == (0, 0.5, 0.5, 1)
    assert share_within(results, Task("W1", "SSP"), "medium") == []


# ---------------------------------------------------------------- as a whole


@pytest.mark.slow
def test_a_small_reproduction_runs_and_reports(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = reproduce("g-lomarc-ts", "--quick", "--jobs", "20", "--seeds", "1", "--store", str(tmp_path))
    assert done.code == 0, done.err
    runs = len(tasks_of(1, quick=True))
    assert done.err.splitlines()[0] == f"{runs} runs, 0 of them done before, 2 at a time"
    assert done.out == f"{runs} runs; tables in {tmp_path / 'g-lomarc-ts.md'}, 4 pictures beside it\n"
    assert len(list(tmp_path.glob("*.json"))) == runs
    assert {file.stem for file in tmp_path.glob("*.png")} == PICTURES - {"g-lomarc-ts-load"}
    page = (tmp_path / "g-lomarc-ts.md").read_text(encoding="utf-8")
    assert "| GLTS against SSP | W1 | measured | " in page


def test_runs_of_another_length_are_refused(tmp_path: Path) -> None:
    task = Task("W1", "SSP")
    (tmp_path / f"{task.series}-1.json").write_text(json.dumps(fake(task)))
    done = reproduce("g-lomarc-ts", "--jobs", "51", "--report-only", "--store", str(tmp_path))
    assert done.code == 1
    assert done.err == f"reproduce: {tmp_path} has runs of 50 jobs, not of 51; give another --store\n"


def test_the_page_has_its_markers_and_pictures() -> None:
    text = (ROOT / "docs" / "results" / "g-lomarc-ts.md").read_text(encoding="utf-8")
    begin, end = "<!-- tables: written by scripts/reproduce g-lomarc-ts -->", "<!-- end of tables -->"
    assert text.count(begin) == text.count(end) == 1
    assert all(f"]({name}.png)" in text for name in PICTURES)
