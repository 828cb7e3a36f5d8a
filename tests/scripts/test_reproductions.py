"""The reproductions of papers: their arithmetic, the order of their runs, and pages written from stored results."""

from __future__ import annotations

import math
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scripts.papers.figures import Figures, Where, percent_text
from scripts.papers.gpus import experiment as gpus
from scripts.papers.guests import experiment as guests
from scripts.papers.guests.measures import figures as opted_in_of
from scripts.papers.hardware import co_runs
from scripts.papers.lomarc import experiment as lomarc
from scripts.papers.lomarc.claims import TABLE_2 as PRINTED
from scripts.papers.lomarc.claims import claims as lomarc_claims
from scripts.papers.lomarc.claims import estimates, settled
from scripts.papers.lomarc.funnel import shares
from scripts.papers.lomarc.literal import literal_impact
from scripts.papers.lomarc.measures import by_class, idle
from scripts.papers.lomarc.published import STAGES
from scripts.papers.reproduce import PAPERS
from scripts.papers.study import ARCHIVE, BASE, LACKING, Size
from scripts.papers.symbiosis import experiment as symbiosis
from scripts.tables import number, percent, write_tables
from tests.scripts.commands import reproduce

import cosched_emulator
from cosched_emulator import simulate
from cosched_emulator.studies.axes import COLUMNS
from cosched_emulator.studies.cells import Plan, make_plan
from cosched_emulator.studies.experiment import read_experiment
from cosched_emulator.studies.study_result import series_of
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.policies.lomarc.queue_table import Future, Match

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- tables: written by scripts/reproduce lomarc -->", "<!-- end of tables -->"
Row = dict[str, Any]


# ---------------------------------------------------------------- the common parts


def test_figures_as_text() -> None:
    assert [number(value) for value in (None, math.nan, 7.0, 123.4)] == ["-", "-", "7", "123"]
    assert [percent(value) for value in (None, 0.04, -0.04, 12.34, -48)] == ["-", "0.0", "0.0", "+12.3", "-48.0"]


def test_only_what_is_between_the_markers_is_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    write_tables(page, "lomarc", "Title", ["one"])
    page.write_text(page.read_text().replace("# Title", "# Title\n\nwords") + "more words\n")
    write_tables(page, "lomarc", "Title", ["two"])
    assert page.read_text() == f"# Title\n\nwords\n\n{BEGIN}\n\ntwo{END}\nmore words\n"
    page.write_text("no markers")
    with pytest.raises(SystemExit, match="markers"):
        write_tables(page, "lomarc", "Title", [])


@pytest.mark.parametrize("paper", PAPERS)
def test_the_page_has_its_markers_and_pictures(paper: str) -> None:
    folder = ROOT / "docs" / "results"
    text = (folder / f"{paper}.md").read_text(encoding="utf-8")
    rows = (folder / "appendix" / f"{paper}.md").read_text(encoding="utf-8")
    for page in (text, rows):
        assert page.count(f"<!-- tables: written by scripts/reproduce {paper} -->") == page.count(END) == 1
    pictures = {file.name for file in folder.glob("*.png") if re.match(rf"{paper}[-.]", file.name)}
    shown = {*re.findall(r"\]\(([^)/]+\.png)\)", text), *re.findall(r"\]\(\.\./([^)/]+\.png)\)", rows)}
    assert shown == pictures != set()


def test_a_stage_that_a_paper_does_not_have_is_named() -> None:
    done = reproduce("lomarc", "--stage", "X1")
    assert done.code == 1
    assert "no stage 'X1'; there are half, variants" in done.err


def test_a_log_that_is_missing_is_named(tmp_path: Path) -> None:
    done = reproduce("rua", "--jobs", "20", "--store", str(tmp_path / "store"), "--traces", str(tmp_path))
    assert done.code == LACKING
    assert done.err.startswith(
        f"reproduce: {tmp_path} has no CTC-SP2-1996-3.1-cln.swf.gz, SDSC-BLUE-2000-4.2-cln.swf.gz: get"
    )
    assert done.err.endswith(f" from {ARCHIVE}, and give its folder as --traces DIR\n")
    done = reproduce("lomarc", "--jobs", "20", "--store", str(tmp_path / "store"), "--report-only")
    assert (done.code, done.err) == (1, f"reproduce: no runs in {tmp_path / 'store'}\n")


@pytest.mark.parametrize("paper", [symbiosis, guests])
def test_a_quick_reproduction_that_needs_no_files_runs_without_them(tmp_path: Path, paper: ModuleType) -> None:
    quick = Size(paper.QUICK_JOBS, 2, quick=True)
    plan = make_plan(read_experiment(paper.experiment(quick, tmp_path / "nowhere")))
    assert {cell.names["workloads"] for cell in plan.cells} == {"W2"}


def test_a_table_that_is_wrong_on_purpose_has_other_ratios_of_the_same_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(co_runs, "MADE", tmp_path)
    table = tmp_path / "t.csv"
    table.write_text("row,column,ratio\na,a,1.1\na,b,1.9\nb,a,1.4\nb,b,never\n", encoding="utf-8")
    inverted = co_runs.read(Path(gpus.wrong_table(table, gpus.INVERTED)))
    assert inverted.ratios == {("a", "a"): 1.9, ("b", "a"): 1.4, ("a", "b"): 1.1}
    assert not inverted.never  # what cannot be together is a fact of the site


def test_who_opted_in_is_told_of_every_run_and_is_who_shares() -> None:
    """The same jobs, whether anybody shares or not; with a share of users those are in who may share."""
    workload = {"lublin": 60, "characteristics": "M1"}
    site = {"cluster": {"nodes": 16, "preset": "1x1x2"}, "truth": {"contention": "lomarc"}}
    half, alone = (
        simulate({**site, "workload": {**workload, "opted_in": share}}, policy)
        for share, policy in ((0.5, "guests"), (1.0, "easy"))
    )
    found, before = opted_in_of(half), opted_in_of(alone)
    ended = half.finished.jobs
    response_s = (ended.end_us - ended.submit_us) / SECOND_US
    shares = np.array([not job.spec.unpaired for job in half.prepared.workload.jobs])
    assert 0 < shares.sum() < 60
    assert found["half_in_response_s"] == pytest.approx(response_s[shares].mean())
    assert found["half_others_response_s"] == pytest.approx(response_s[~shares].mean())
    both = shares.sum() * before["half_in_response_s"] + (~shares).sum() * before["half_others_response_s"]
    ended = alone.finished.jobs
    assert both / 60 == pytest.approx(((ended.end_us - ended.submit_us) / SECOND_US).mean())


def test_all_goes_on_after_a_paper_whose_files_are_missing(tmp_path: Path) -> None:
    """The shell script, with a Python that only says which paper it was asked for, and how it ended."""
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\ncase $3 in rua) exit 3 ;; g-lomarc-ts) exit 1 ;; esac\nshift 3; echo ran "$@"\n')
    python.chmod(0o755)
    ran = subprocess.run(
        [ROOT / "scripts" / "reproduce", "all", "--quick"],
        env={**os.environ, "COSCHED_PYTHON": str(python)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 1
    assert ran.stdout == "ran --quick\n" * 7
    left = "not run, as they need files that are no part of the project: rua\n"
    assert ran.stderr.endswith(f"{left}reproduce: failed: g-lomarc-ts\n")


@pytest.mark.slow  # the parts have tests of their own
@pytest.mark.parametrize(
    ("paper", "jobs"), [("lomarc", 20), ("g-lomarc-ts", 20), ("paired-gang", 20), ("coscheduling", 4)]
)
def test_a_small_reproduction_runs_and_reports(paper: str, jobs: int, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    options = (paper, "--quick", "--jobs", str(jobs), "--seeds", "1", "--store", str(tmp_path))
    done = reproduce(*options)
    assert done.code == 0, done.err
    assert done.out.startswith(f"A preview, not a result: {jobs} of ")
    page, rows = (tmp_path / name for name in (f"{paper}.md", f"appendix/{paper}.md"))
    pictures = {file.stem for file in tmp_path.glob("*.png")}
    end = rf"^(\d+) of \1 runs; verdicts in {page}, rows in appendix/, {len(pictures)} pictures beside it\n\Z"
    assert re.search(end, done.out, re.MULTILINE)
    ours = "".join([(ROOT / "docs" / "results" / name).read_text() for name in (page.name, f"appendix/{page.name}")])
    assert all(f"{name}.png)" in ours for name in pictures)
    before = page.read_text(), rows.read_text()
    assert reproduce(*options, "--report-only").out == done.out
    assert (page.read_text(), rows.read_text()) == before


# ---------------------------------------------------------------- figures of a study


def fake_figures(cells: Mapping[Where, Mapping[str, list[float]]], usual: Mapping[str, str]) -> Figures:
    """Return figures of cells, a value for each seed."""
    rows: list[Row] = []
    for where, table in cells.items():
        named = {name: value for name, value in where._asdict().items() if value is not None}
        for seed in range(1, 1 + max(map(len, table.values()))):
            values = {name: column[seed - 1] for name, column in table.items() if len(column) >= seed}
            rows.append({**dict.fromkeys(COLUMNS.values(), ""), **usual, **named, "seed": str(seed), **values})
    return Figures(series_of(rows), usual)


A, B = Where("w", "a"), Where("w", "b")


def test_figures_are_compared_seed_by_seed() -> None:
    figures = fake_figures({A: {"x": [50.0, 100.0, 300.0]}, B: {"x": [100.0, 400.0]}}, {"variant": "base"})
    assert figures.seeds(A) == 3
    assert figures.values("x", B) == {1: 100.0, 2: 400.0}
    ratio = figures.ratio("x", A, B)
    assert ratio is not None
    assert ratio.mean == pytest.approx((0.5 * 0.25) ** 0.5)
    assert ratio.n == 2
    assert percent_text(figures.change("x", A, B)).startswith("-64.6 (-99.")
    assert figures.mean("x", Where("w", "a", "base")) == figures.mean("x", A)
    assert figures.mean("x", Where("w", "a", "other")) is None
    assert figures.change("y", A, B) is None


# ---------------------------------------------------------------- LOMARC


@pytest.fixture(scope="module")
def lomarc_plan() -> Plan:
    return make_plan(read_experiment(lomarc.experiment(Size(50, 3))))


def test_the_first_seeds_of_all_experiments_run_first(lomarc_plan: Plan) -> None:
    everything = len(lomarc.WORKLOADS) * len(lomarc.SCHEDULERS)
    first = lomarc_plan.cells[: 3 * everything]
    assert {run.names["variants"] for run in first} == {BASE}
    assert [run.stage for run in lomarc_plan.cells] == sorted(run.stage for run in lomarc_plan.cells)
    assert {run.names["variants"] for run in lomarc_plan.cells} == {BASE, *lomarc.FORMS, *lomarc.VARIANTS}
    quick = make_plan(read_experiment(lomarc.experiment(Size(50, 3, quick=True))))
    assert {run.key for run in quick.cells} == {run.key for run in first}


def test_harm_is_measured_in_base_runs_of_m1(lomarc_plan: Plan) -> None:
    compared = [run for run in lomarc_plan.cells if run.key in lomarc_plan.baselines]
    assert len(compared) == 3 * 3 * len(lomarc.COSCHEDULERS)
    assert {run.names["variants"] for run in compared} == {BASE}
    assert len(lomarc_plan.extra) == 3 * 3 * 9


def test_a_traced_run_counts_candidates_and_true_slowdowns() -> None:
    table = lomarc.experiment(Size(80, 1))
    chosen = {"workloads": ["W3 M1"], "variants": [BASE], "beliefs": [lomarc.EXACT]}
    result = cosched_emulator.study(
        {**table, "runs": [{**chosen, "policies": ["PSS", "L-U1"]}], "baseline": {"policy": "PSS", "shakes": 0}}, jobs=1
    )
    assert not result.failures
    figures = Figures(result.series, lomarc.USUAL)
    where = Where("W3 M1", "L-U1")
    row = shares(figures, where, "funnel")
    assert row is not None
    assert len(row) == len(STAGES[1:-1])
    assert all(share is not None and 0 <= share <= 1 for share in row)
    assert shares(figures, Where("W3 M1", "PSS"), "funnel") is None
    assert figures.values("pairs", where)[1] > 0
    assert 1 <= figures.values("pairs_slowdown", where)[1] <= 1.6  # with exact knowledge no pair is above the limit
    assert figures.values("pairs_above_limit", where) == figures.values("pairs_above_memory", where) == {1: 0.0}


def test_figure_5_taken_literally() -> None:
    # The current job and three others, each of 1 s of work; the last two are candidates, one job later each.
    ones = np.ones(2)
    match = Match(10, 10, 1.0, np.array([10, 10]), ones, np.array([1.5, 1.5]))
    work_s, places = np.ones(4), np.array([2, 3])
    found = literal_impact(match, work_s, 0, places, Future())
    delay = 0.5  # both together take 1.5 s of the whole machine instead of 1 s
    responses = [2.0, 3.0, 4.0]  # of the others, in order of the queue
    first = (3 - 1.5) / 3 + 1 / responses[2] - delay - delay / responses[0]
    second = (4 - 1.5) / 4 - delay - delay / responses[0] - delay / responses[1]
    assert found == pytest.approx([first / 1, second / 2])  # as many pushed down as pulled up: divided by 1


def test_each_claim_parameter_and_rule_of_lomarc_has_its_row() -> None:
    """Those of `lists`, and from the same list the model's claims that are about no hardware, parameters and rules."""
    rows = [*lomarc_claims(Figures([], lomarc.USUAL)), *settled()]
    ids = {one for claim in rows for one in claim.ids.split(", ")}
    letters = {"C": 38, "P": 20, "A": 6}
    wanted = {f"{letter}{number}" for letter, count in letters.items() for number in range(1, count + 1)}
    assert wanted - ids == {"P3", "P4"} - ids
    assert {"S1", "S2", "S8", "S10", "S16"} == ids - wanted


def test_the_formula_with_the_remainder_gives_the_printed_estimates() -> None:
    assert estimates(remainder=True) == [row[2:4] for row in PRINTED]
    assert estimates(remainder=False) != [row[2:4] for row in PRINTED]


def test_idle_time_and_waits_by_class(tmp_path: Path) -> None:
    """Two nodes. A job of 100 s takes one; a long one that comes at 50 s and a short one at 60 s want both: the short one is first."""
    jobs = [(1, 0, 100, 1), (2, 50, 7200, 2), (3, 60, 10, 2)]
    log = tmp_path / "log.swf"
    log.write_text("".join(f"{n} {at} -1 {run} {size} -1 -1 {size} {run}{' -1' * 9}\n" for n, at, run, size in jobs))
    run = cosched_emulator.simulate(
        {"cluster": {"nodes": 2, "preset": "lomarc-ht"}, "workload": {"swf": str(log)}}, "pss"
    )
    makespan = run.summary["machine"]["makespan_s"]
    assert makespan == 7310
    found = idle(run.finished.jobs, run.finished.stays, 2)
    assert found == pytest.approx({"queue_empty": 7250 / makespan, "queue_empty_nodes_free": 50 / makespan})
    assert by_class(run.finished.jobs) == pytest.approx(
        {
            "wait_s_of_short": 40.0,
            "rbr_of_short": 50 / 60,
            "queue_share_of_short": 0.4,
            "wait_s_of_medium": 0.0,
            "rbr_of_medium": 1.0,
            "queue_share_of_medium": 0.0,
            "wait_s_of_long": 60.0,
            "rbr_of_long": 7260 / 7200,
            "queue_share_of_long": 0.6,
        }
    )
