"""The reproductions of papers: their arithmetic, the order of their runs, and pages written from stored results."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from scripts.papers import frame as reproduction
from scripts.papers.frame import by_seed, load, run_all
from scripts.papers.lomarc.funnel import shares_of_stages, stages
from scripts.papers.lomarc.pictures import absolute, relative
from scripts.papers.lomarc.published import AGAINST_PSS, STAGES, TABLE_5
from scripts.papers.lomarc.report import against_pss, chain, changes, difference_cell, report
from scripts.papers.lomarc.runs import (
    AARR,
    BASE,
    BASE_FORM,
    CELLS,
    FORMS,
    FUNNEL,
    SCHEDULERS,
    TRACED,
    VARIANTS,
    Task,
    scenario_of,
    simulate,
    tasks_of,
)
from scripts.papers.rua import report as rua_report
from scripts.papers.rua import runs as rua_runs
from scripts.papers.worse_off import later
from scripts.tables import (
    cell,
    claim,
    number,
    percent,
    percent_cell,
    shown_by_interval,
    shown_by_seeds,
    wrapped,
    write_tables,
)
from tests.scripts.commands import reproduce

from cosched_emulator.scenario.reader import read_scenario
from cosched_plugin.config import choose

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- tables: written by scripts/reproduce lomarc -->", "<!-- end of tables -->"
# Relative to PSS, in the order that the paper claims.
LEVEL = {"PSS": 1.0, "AC": 1.4, "AM": 0.9, "L-N": 0.7, "L-FM": 0.6, "L-U1": 0.5, "L-U2": 0.55, "L-R": 0.45}


class Square(NamedTuple):
    """A task whose figure is the square of its seed."""

    seed: int
    series: str = "square"


def square(task: Square) -> dict[str, Any]:
    if task.seed < 0:
        raise ArithmeticError("a seed below 0")
    return {"value": task.seed**2}


# ---------------------------------------------------------------- the common parts


def test_cells_show_mean_and_interval() -> None:
    assert cell([]) == "-"
    assert cell([12.345]) == "12.35"
    assert cell([1000.0, 3000.0]) == "2,000 ± 12,706"
    assert [number(value) for value in (None, math.nan, 7.0, 123.4)] == ["-", "-", "7", "123"]


class Here(ThreadPoolExecutor):
    """Threads in place of processes, which pytest's process should not fork; a later test uses processes."""

    def __init__(self, workers: int, initializer: Callable[[], None]) -> None:
        super().__init__(workers)


@pytest.fixture
def in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduction, "ProcessPoolExecutor", Here)


@pytest.mark.usefixtures("in_threads")
def test_stored_runs_are_not_run_again(tmp_path: Path) -> None:
    told: list[int] = []

    def tell(task: Square, result: Mapping[str, Any]) -> str:
        told.append(task.seed)
        return str(result["value"])

    tasks = [Square(seed) for seed in (3, 1, 2)]
    (tmp_path / "square-1.json").write_text('{"value": 100}')
    run_all(tasks, tmp_path, 1, square, tell)
    assert sorted(told) == [2, 3]
    results = load(tmp_path, [*tasks, Square(9)])
    assert by_seed(results, "value", Square(0)) == {1: 100.0, 2: 4.0, 3: 9.0}
    assert {file.suffix for file in tmp_path.iterdir()} == {".json"}


@pytest.mark.usefixtures("in_threads")
def test_a_failing_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArithmeticError) as failure:
        run_all([Square(-1)], tmp_path, 1, square, lambda *_: "")
    assert "in run square--1" in failure.value.__notes__
    assert not list(tmp_path.iterdir())


def test_only_what_is_between_the_markers_is_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    write_tables(page, "lomarc", "Title", ["one"])
    page.write_text(page.read_text().replace("# Title", "# Title\n\nwords") + "more words\n")
    write_tables(page, "lomarc", "Title", ["two"])
    assert page.read_text() == f"# Title\n\nwords\n\n{BEGIN}\n\ntwo{END}\nmore words\n"
    page.write_text("no markers")
    with pytest.raises(SystemExit, match="markers"):
        write_tables(page, "lomarc", "Title", [])


def test_pages_have_their_markers() -> None:
    for paper in ("rua", "lomarc"):
        text = (ROOT / "docs" / "results" / f"{paper}.md").read_text(encoding="utf-8")
        assert text.count(f"<!-- tables: written by scripts/reproduce {paper} -->") == text.count(END) == 1


def test_rua_has_a_help_text() -> None:
    done = reproduce("rua", "--help")
    assert done.code == 0, done.err
    assert "--report-only" in done.out


@pytest.mark.slow  # test_glts_reproduction runs the same command, with its own paper, by default
def test_a_small_reproduction_of_lomarc_runs_and_reports(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    options = ("lomarc", "--quick", "--jobs", "20", "--seeds", "1", "--store", str(tmp_path))
    done = reproduce(*options)
    assert done.code == 0, done.err
    runs = len(CELLS) * len(SCHEDULERS)
    assert done.err.splitlines()[0] == f"{runs} runs, 0 of them done before, 2 at a time"
    assert done.out == f"{runs} runs; tables in {tmp_path / 'lomarc.md'}, 5 pictures beside it\n"
    assert len(list(tmp_path.glob("*.json"))) == runs
    pictures = {file.stem for file in tmp_path.glob("*.png")}
    assert pictures == {"lomarc", "lomarc-response", "lomarc-rbr", "lomarc-efficiency", "lomarc-mixes"}
    ours = (ROOT / "docs" / "results" / "lomarc.md").read_text(encoding="utf-8")
    assert all(f"]({name}.png)" in ours for name in pictures)
    page = (tmp_path / "lomarc.md").read_text(encoding="utf-8")
    assert "| W3 M1 | measured | " in page


def test_runs_of_another_length_are_refused(tmp_path: Path) -> None:
    task = Task("W1", "M1", "PSS")
    (tmp_path / f"{task.series}-1.json").write_text(json.dumps(fake(task, 1.0)))
    done = reproduce("lomarc", "--jobs", "51", "--report-only", "--store", str(tmp_path))
    assert done.code == 1
    assert done.err == f"reproduce: {tmp_path} has runs of 50 jobs, not of 51; give another --store\n"


def test_rua_compares_with_ff() -> None:
    tasks = rua_runs.tasks_of(2, variants=False)
    killed = {policy: 100 - 10 * rank for rank, policy in enumerate(rua_runs.POLICIES)}
    results = {
        task: {**dict.fromkeys(("penalised_p95", "penalised_mean", "bsld_p95"), 1.0), "killed": killed[task.policy]}
        for task in tasks
    }
    lines = rua_report.figure_table(results, "killed")
    assert (
        "| CTC HIGH | measured | 100 ± 0 | 90 ± 0 | 80 | 70 | 60 | 50 | 40 ± 0 |" not in lines
    )  # HIGH has one seed of it
    assert "| CTC MED | measured | 100 ± 0 | 90 ± 0 | 80 ± 0 | 70 ± 0 | 60 ± 0 | 50 ± 0 | 40 ± 0 |" in lines
    assert "| | measured / FF | 1.00 | 0.90 | 0.80 | 0.70 | 0.60 | 0.50 | 0.40 |" in lines
    assert (
        "| killed: FF at least 2 x RUA (published: 3 x on CTC HIGH, 5 x on BLUE HIGH) | CTC MED | 2.50 x | yes |"
        in rua_report.claims(results)
    )


def test_rua_reads_logs_from_another_folder(tmp_path: Path) -> None:
    task = rua_runs.Task("CTC", "med", "LCT=1", 1, "paper")
    rows = [
        f"{job} {60 * job} -1 600 {1 + job % 7} -1 -1 {1 + job % 7} 900 -1 1 1 1 1 1 -1 -1 -1\n" for job in range(1, 31)
    ]
    with gzip.open(tmp_path / rua_runs.TRACES["CTC"][0], "wt") as stream:
        stream.write("; MaxProcs: 338\n" + "".join(rows))
    assert rua_runs.scenario_of(task, 20, tmp_path)["truth"] == {"composition": "paper"}
    result = json.loads(json.dumps(rua_runs.simulate(task, 20, tmp_path)))
    assert (result["jobs"], result["policy"]) == (20, "LCT=1")
    assert result["utilisation"] > 0
    done = reproduce("rua", "--jobs", "20", "--store", str(tmp_path / "store"), "--traces", str(tmp_path))
    assert done.code == 1
    assert done.err.endswith("it is in the Parallel Workloads Archive; give --traces DIR\n")


def test_stored_runs_of_rua_without_a_number_of_jobs_are_read(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    keys = (
        "killed",
        "penalised_mean",
        "penalised_p95",
        "bsld_p95",
        "bsld_all_p95",
        "wait_p95",
        "offered_load",
        "utilisation",
    )
    for task in rua_runs.tasks_of(1, variants=True):
        result = {**task._asdict(), **dict.fromkeys(keys, 7)}
        (tmp_path / f"{task.series}-1.json").write_text(json.dumps(result))
    done = reproduce("rua", "--jobs", "50", "--report-only", "--store", str(tmp_path))
    assert done.code == 0, done.err
    assert done.out.endswith(f"runs; tables in {tmp_path / 'rua.md'}, picture in {tmp_path / 'rua.png'}\n")
    page = (tmp_path / "rua.md").read_text(encoding="utf-8")
    assert "\n25 warm-up and 25 measured jobs; 1 seed(s) of the demand;" in page
    assert "| CTC MED | published | 247 | 101 | 76 | 77 | 102 | 99 | - |" in page
    assert "| window | BLUE MED | RUA | 7 | 7 | 7 | 7 | 7 | 7 | 7 |" in page


# ---------------------------------------------------------------- LOMARC: runs


def test_the_first_seeds_of_all_experiments_run_first() -> None:
    tasks = tasks_of(10, variants=True)
    assert len(tasks) == len(set(tasks)) == len({(task.series, task.seed) for task in tasks})
    everything = len(CELLS) * len(SCHEDULERS)
    first, last = tasks[: 3 * everything], tasks[-7 * everything :]
    assert {task.variant for task in (*first, *last)} == {BASE}
    assert [task.seed for task in first] == sorted(task.seed for task in first)
    assert {task.seed for task in first} == {1, 2, 3}
    assert {task.seed for task in last} == set(range(4, 11))
    assert {task.form for task in tasks} == set(FORMS)
    assert {task.variant for task in tasks} == {BASE, FUNNEL, *VARIANTS}
    assert tasks_of(2, variants=False) == [task for task in first if task.seed < 3]


def test_every_run_has_a_baseline_run_of_the_same_jobs() -> None:
    tasks = set(tasks_of(10, variants=True))
    assert {task.space_sharing for task in tasks} <= tasks
    for task in tasks:
        mine, other = scenario_of(task, 10), scenario_of(task.space_sharing, 10)
        assert (mine["seed"], mine["workload"]) == (other["seed"], other["workload"])


def test_scenarios_and_settings_are_accepted() -> None:
    for task in {task._replace(seed=1) for task in tasks_of(1, variants=True)}:
        scenario = read_scenario(None, scenario_of(task, 10))
        assert (scenario.workload.aarr, scenario.workload.characteristics) == (AARR[task.workload], task.mix)
        assert {key: getattr(scenario.truth, key) for key in FORMS[task.form]} == FORMS[task.form]
        standard = task.scheduler == "L-N"
        assert (scenario.truth.cpu == "standard") == (scenario.cluster.preset == "lomarc-standard") == standard
    for variant in VARIANTS.values():
        for scheduler in variant.schedulers:
            choose(SCHEDULERS[scheduler], variant.settings)
    assert BASE_FORM in FORMS


def test_a_traced_run_counts_candidates() -> None:
    task = Task("W3", "M1", "L-U1", variant=FUNNEL)
    result = json.loads(json.dumps(simulate(task, 80)))
    assert result["jobs"] == 80
    assert 0 < result["node_efficiency"] < 2
    row = stages({task: result}, task, "mean")
    assert row is not None
    assert len(row) == len(STAGES)
    shares = shares_of_stages(row)
    assert all(share is not None and 0 <= share <= 1 for share in shares)


# ---------------------------------------------------------------- LOMARC: report


def fake(task: Task, level: float) -> dict[str, Any]:
    """Return figures ``level`` times those of PSS, which differ a lot between seeds."""
    size = 100.0 * task.seed**2
    left = {
        name: {"mean": count, "reached": 1, "mean_reached": count, "mean_matched": count}
        for name, count in zip(
            ("all", "short", "size", "memory", "type", "slowdown"), (40, 20, 10, 8, 6, 5), strict=True
        )
    }
    return {
        **task._asdict(),
        **dict.fromkeys(("response_s", "rbr", "bounded_slowdown", "wait_s", "makespan_s"), size * level),
        **dict.fromkeys(("node_utilisation", "node_sharing"), 0.5),
        "node_efficiency": 0.5 / level,
        "offered_load": 1.5,
        "mean_queue_length": 10.0,
        "jobs": 50,
        "funnel": {"partners": {"searches": 4, "left": left, "position": 3.0}},
    }


@pytest.fixture
def results() -> dict[Task, dict[str, Any]]:
    return {task: fake(task, LEVEL[task.scheduler]) for task in tasks_of(3, variants=True)}


def test_percentages_are_paired_by_seed(results: dict[Task, dict[str, Any]]) -> None:
    task = Task("W1", "M1", "L-R")
    assert list(against_pss(results, "response_s", task)) == [1, 2, 3]
    assert list(against_pss(results, "response_s", task).values()) == pytest.approx([-55.0] * 3)
    results[task._replace(seed=2)]["response_s"] *= 1.2
    found = against_pss(results, "response_s", task).values()
    # The mean of ratios, not the ratio of means, which the large third seed would dominate.
    assert list(found) == pytest.approx([-55.0, -46.0, -55.0])
    assert percent_cell(found) == "-52.0 ± 12.9"
    del results[task.space_sharing._replace(seed=3)]
    assert list(against_pss(results, "response_s", task)) == [1, 2]
    assert list(changes(results, "rbr", task, task._replace(scheduler="L-U1")).values()) == pytest.approx([-10.0] * 3)


def test_percentages_as_text() -> None:
    assert [percent(value) for value in (None, 0.04, -0.04, 12.34, -48)] == ["-", "0.0", "0.0", "+12.3", "-48.0"]
    assert percent_cell([]) == difference_cell([], 3.0) == difference_cell([1.0], None) == "-"
    assert difference_cell([-40.0, -36.0], -48) == "+10.0"
    assert difference_cell([-40.0, -35.0], -48) == "**+10.5**"


def test_orderings_hold_on_the_means_and_count_seeds(results: dict[Task, dict[str, Any]]) -> None:
    place, groups = ("W2", "M1"), (("L-R", "L-U1"), ("L-FM",), ("AM",), ("PSS",))
    measured = "0.45, 0.50 / 0.60 / 0.90 / 1.00 of PSS"
    row = f"| RBR: L-R, L-U1 < L-FM < AM < PSS | W2 M1 | {measured}; 3 of 3 seeds | yes |"
    assert chain(results, "RBR", "rbr", place, groups) == [row]
    results[Task(*place, "L-U1", 2)]["rbr"] *= 1.22  # above L-FM in this seed, but not on average
    assert "; 2 of 3 seeds | not shown |" in chain(results, "RBR", "rbr", place, groups)[0]
    results[Task(*place, "L-U1", 2)]["rbr"] *= 2
    assert "; 2 of 3 seeds | **no** |" in chain(results, "RBR", "rbr", place, groups)[0]
    assert chain({}, "RBR", "rbr", place, groups) == []


def test_report_of_all_results(results: dict[Task, dict[str, Any]]) -> None:
    lines = report(results, 50)
    text = "\n".join(lines)
    assert lines[0].startswith("50 jobs on 128 nodes; 3 seed(s)")
    assert "| Mean response time: PSS < AC | W1 M1 | 1.00 / 1.40 of PSS; 3 of 3 seeds | yes |" in lines
    assert "| Mean response time: L-R against PSS -40 % or more | W3 M1 | -55.0 ± 0.0 | yes |" in lines
    assert "| W1 M1 | published | - | - | -23.0 | -40.0 | - | - | -48.0 |" in lines
    same = "+40.0 ± 0.0 | -10.0 ± 0.0 | -30.0 ± 0.0 | -40.0 ± 0.0 | -50.0 ± 0.0 | -45.0 ± 0.0 | -55.0"
    assert f"| W1 M1 | measured | {same} ± 0.0 |" in lines
    assert "|  | difference | - | - | -7.0 | 0.0 | - | - | -7.0 |" in lines
    assert "| RBR | L-R against L-U1 | W1 | -19.0 | -10.0 ± 0.0 | +9.0 |" in lines
    assert "| L-R | W3 | published | 222 | 87 | 48 | 25 | 20 | 17 | 4 |" in lines
    assert "| L-R | W3 | all searches | 40 | 20 | 10 | 8 | 6 | 5 | 3 |" in lines
    assert "| L-R W3 | whole | 0.50 | 0.50 | 0.80 | 0.75 | 0.83 |" in lines
    assert "| gaps | W1 | L-R | 3 | -55.0 ± 0.0 | -55.0 ± 0.0 | +122.2 ± 0.0 | -55.0 ± 0.0 |" in text
    tables = [line.count("|") for line in lines if line.startswith("|")]
    assert min(tables) >= 5
    for before, line in pairwise(lines):  # every table is a rectangle
        if before.startswith("|") and line.startswith("|"):
            assert before.count("|") == line.count("|"), line


def test_report_of_incomplete_results(results: dict[Task, dict[str, Any]]) -> None:
    few = {task: result for task, result in results.items() if task.workload == "W2" and task.variant == BASE}
    few = {task: result for task, result in few.items() if task.seed == 1 and task.form == BASE_FORM}
    text = "\n".join(report(few, 50))
    assert "| W2 M1 | measured | +40.0 | -10.0 | -30.0 | -40.0 | -50.0 | -45.0 | -55.0 |" in text
    assert "## Table 5" not in text
    assert "## Experiments" not in text
    assert report({}, 50)


def test_published_values_are_of_known_runs() -> None:
    assert {scheduler for table in AGAINST_PSS.values() for row in table.values() for scheduler in row} <= {*SCHEDULERS}
    assert {place for table in AGAINST_PSS.values() for place in table} <= {*CELLS}
    assert set(TABLE_5) == set(TRACED)
    for rows in TABLE_5.values():
        assert set(rows) == set(AARR)
        for row in rows.values():
            assert list(row[:-1]) == sorted(row[:-1], reverse=True)


def test_bars_have_their_published_points(results: dict[Task, dict[str, Any]]) -> None:
    task = Task("W1", "M1", "L-R")
    bar = relative(results, "rbr", task)
    assert bar is not None
    assert bar == pytest.approx((0.45, 0.0, 0.5))
    hours = absolute(results, "response_s", task, 1 / 3600)
    assert hours is not None
    assert hours.published == pytest.approx(0.52 * 100 * (1 + 4 + 9) / 3 / 3600)
    assert relative({}, "rbr", task) is None


def test_a_claim_is_not_shown_where_chance_may_explain_it() -> None:
    below = [-10.0, -12.0, -14.0]  # -12 ± 5.0
    assert shown_by_interval(below, lambda mean: mean <= -7)
    assert not shown_by_interval(below, lambda mean: mean <= -8)
    assert shown_by_interval([-8.0], lambda mean: mean <= -8)
    assert [shown_by_seeds(held, 10) for held in (7, 8, 9, 10)] == [False, False, True, True]
    assert [shown_by_seeds(held, 3) for held in (2, 3)] == [False, True]
    assert [claim("c", "", "m", *flags)[-len(" not shown |") :] for flags in ((True, False), (False, False))] == [
        " not shown |",
        "m | **no** |",
    ]


def test_generated_prose_is_wrapped_and_tables_are_not() -> None:
    assert wrapped("| " + "cell " * 40 + "|") == ["| " + "cell " * 40 + "|"]
    lines = wrapped("- " + "word " * 40)
    assert (len(lines), lines[1][:6]) == (2, "  word")
    assert all(len(line) <= 120 for line in lines)


def test_jobs_that_respond_later_are_counted() -> None:
    mine, theirs = {1: 100, 2: 151, 3: 99, 5: 1}, {1: 100, 2: 100, 3: 100, 4: 1}
    assert later(mine, theirs, [1, 2, 3, 4, 5], 1.0) == later(mine, theirs, [1, 2, 3], 1.5) == pytest.approx(100 / 3)
    assert later(mine, theirs, [1, 2, 3], 2.0) == 0
