"""What if: the words claim no more than the figures show, and the command goes from a log to an answer."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from scripts.browser import CHROMIUM, browser
from tests.commands import Commands, assert_one_line
from tests.emulator.page.conftest import EVIL
from tests.emulator.whatif.made import answered, asked, write_log
from tests.plugin.slurm.bed import RECORDED, needs_recordings
from tests.properties import drawn

from cosched_emulator import simulate
from cosched_emulator.errors import EmulatorError
from cosched_emulator.page.document import Bars, write_page
from cosched_emulator.whatif.answer import GAIN, HARM, OPEN, RESPONSE
from cosched_emulator.whatif.answer_lead import headline
from cosched_emulator.whatif.answer_page import page
from cosched_emulator.whatif.answer_text import tables, text
from cosched_emulator.whatif.candidates import CANDIDATES, CHANGES, FORMULA, LOGGED, Scale
from cosched_emulator.whatif.measures import WAITS, of_jobs, of_neighbours, of_users
from cosched_emulator.whatif.question import PRESENT, Prepared, Question, prepare_question, study_of, with_whole
from cosched_emulator.whatif.site_sections import site_of
from cosched_emulator.whatif.warm import WholeRun
from cosched_emulator.workload.beliefs import with_estimates
from cosched_emulator.workload.sacct.sacct_log import ImportOptions, import_dump
from cosched_emulator.workload.side_files.annotations import read_annotations
from cosched_emulator.workload.swf.swf_reader import read_swf
from cosched_plugin.config import choose

# ---------------------------------------------------------------- words


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return asked(tmp_path_factory.mktemp("whatif"))


_POLICIES = [one.policy for one in CANDIDATES if one.contention == FORMULA and one.policy != "easy"]
_RESPONSES = st.lists(st.floats(1, 1000), min_size=4, max_size=4)


@drawn(st.fixed_dictionaries(dict.fromkeys((PRESENT, *_POLICIES), _RESPONSES)), few=50, many=1_000)
def test_no_claim_stands_on_an_interval_that_includes_no_change(
    prepared: Prepared, responses: dict[str, list[float]]
) -> None:
    found = answered(prepared, responses)
    said = {row[0]: row for row in next(tables(found)).rows}
    for one in found.compared:
        assert one.response is not None
        assert (one.verdict == OPEN) == (one.response.low <= 0 <= one.response.high)
        assert (one.verdict == GAIN) == (one.response.high < 0)
        row = said[one.candidate.policy]
        assert row[2] == one.verdict
        if one.verdict == HARM:
            assert {"long wide", "user 7"} <= set(row[-1].split(", "))
    assert headline(found).startswith("With ") == (GAIN in {one.verdict for one in found.compared})


def test_where_what_was_asked_for_cannot_be_compared_the_reason_comes_first(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.swf", 400)
    question = Question({"workload": {"swf": str(log)}}, scale=Scale(windows=4, fewest=50), only=("lct",))
    found = answered(prepare_question(question, tmp_path / "out"), {PRESENT: [10, 10, 10, 10]})
    assert headline(found).startswith(
        "No candidate can be compared with the present policy: the memory bandwidth of the nodes was not given"
    )


def test_one_window_has_no_interval_and_no_claim(tmp_path: Path) -> None:
    short = asked(tmp_path, jobs=60)
    assert len(short.firsts) == 1
    assert "cannot tell" in headline(answered(short, {PRESENT: [10], "lomarc-r": [1]}))


def test_of_many_candidates_that_change_nothing_one_in_twenty_is_no_gain(prepared: Prepared) -> None:
    """Verdicts hold together: where each of four would be a gain by itself at 95 %, chance makes one of them soon."""
    barely = [98.8, 96.4, 98.6, 97.0]
    steady = {name: [100.0, 101.0, 99.0, 100.0] for name in _POLICIES}
    alone = answered(prepared, {PRESENT: [100.0] * 4, "sjbf": barely})
    among = answered(prepared, {PRESENT: [100.0] * 4, **steady, "sjbf": barely})
    assert [one.verdict for one in alone.compared] == [GAIN]
    assert {one.candidate.policy: one.verdict for one in among.compared}["sjbf"] == OPEN


def test_what_the_answer_hangs_on_says_no_more_than_its_rows(prepared: Prepared) -> None:
    """Of several assumptions, one that would be shown to count by itself is not; the row and the picture agree."""
    steady = {PRESENT: [100.0] * 4, "lomarc-r": [83.0, 84.0, 82.0, 83.0]}
    under = {
        name: {f"{policy} under formula, {name}": values for policy, values in steady.items()} for name in ("M3", "few")
    }
    moved = {f"{PRESENT} under formula, M2": [100.0] * 4, "lomarc-r under formula, M2": [88.0, 103.0, 99.0, 112.0]}
    rows = {**steady, **under["M3"], **under["few"], **moved}
    found = answered(prepared, rows)
    largest = found.swings[0]
    assert largest.change.name == "M2"
    assert largest.moved is not None
    assert largest.moved.low <= 0 <= largest.moved.high
    assert [swing.shown for swing in answered(prepared, {**steady, **moved}).swings] == [True]
    assert not any(swing.shown for swing in found.swings)
    shown = [block for section in page(found).sections for block in section.blocks if isinstance(block, Bars)]
    tornado, bars = shown
    assert [*tornado.means] == [swing.response.mean for swing in found.swings if swing.response]
    assert tornado.zero == pytest.approx(found.swings[0].before.mean if found.swings[0].before else 0)
    assert [(bars.lows, bars.highs)] == [
        ([one.response.low], [one.response.high]) for one in found.compared if one.response
    ]


def test_windows_in_which_a_run_failed_are_told_and_too_few_of_them_tell_nothing(prepared: Prepared) -> None:
    rows = {
        PRESENT: [100.0, 101.0, 99.0, 100.0],
        "sjbf": [50.0],
        "conservative": [60.0, 61.0, 59.0],
        "glts": [50.0, 51.0],
    }
    found = answered(prepared, rows)
    assert {one.candidate.policy: (one.verdict, one.windows) for one in found.compared} == {
        "sjbf": (OPEN, 1), "conservative": (GAIN, 3), "glts": (OPEN, 2),
    }  # fmt: skip
    assert [row[2] for row in next(tables(found)).rows[1:]] == [
        f"{one.verdict}, in {one.windows} of 4 windows" for one in found.compared
    ]
    assert {one.policy: why for one, why in found.not_compared}["lomarc-r"] == "no run of it ended"
    few = answered(prepared, {**rows, PRESENT: [100.0, 101.0]})
    assert headline(few) == "The log cannot tell: easy and a candidate both ran in fewer than 3 windows."


# ---------------------------------------------------------------- the study


def test_the_second_plan_has_all_runs_of_the_first(prepared: Prepared) -> None:
    first = study_of(prepared)
    second = study_of(prepared, {FORMULA: next(one for one in CANDIDATES if one.policy == "lomarc-r")})
    assert {cell.key for cell in first.runs} < {cell.key for cell in second.runs}
    assert len(first.cells) == 4 * (1 + len(_POLICIES) + len(prepared.levers))


def test_a_new_candidate_is_one_line(prepared: Prepared) -> None:
    """Every candidate is run under its contention, or the answer says why not."""
    left = {candidate.policy for candidate, _ in prepared.left_out if not candidate.lever}
    run = {cell.policy for cell in study_of(prepared).cells}
    assert {one.policy for one in CANDIDATES} == (run - {PRESENT}) | left
    assert left == {"easy", "co-execution-easy", "lct"}


@pytest.mark.parametrize(
    ("policy", "settings", "shape", "left_out"),
    [
        (None, (), "nodes", "easy"),
        ({"preset": "easy", "shape": "threads"}, (), "threads", "easy"),
        ("conservative", ("shape=nodes",), "nodes", "conservative"),
        ("easy", ("order=shortest",), "nodes", None),  # assumed nodes have two threads for each processor of the log
        ("easy", ("order=shortest", "shape=threads"), "threads", None),
    ],
)
def test_candidates_give_jobs_the_nodes_that_they_get_today(
    tmp_path: Path, policy: Any, settings: tuple[str, ...], shape: str, left_out: str | None
) -> None:
    """A gain of a policy must not be one of another way to allocate; only what shares nodes has a shape of its own."""
    log = write_log(tmp_path / "log.swf", 200)
    found = prepare_question(Question({"workload": {"swf": str(log)}}, policy, settings), tmp_path)
    plan = study_of(found)
    shapes = {cell.policy: cell.settings["shape"]["name"] for cell in plan.cells}
    assert {shapes[one.policy] for one in found.candidates if not one.shares and not one.lever} == {shape}
    assert shapes[PRESENT] == shape
    same = {candidate.policy for candidate, reason in found.left_out if reason == "it is the present policy"}
    assert same == ({left_out} if left_out else set())


def test_programs_that_annotations_name_are_not_drawn_and_drawn_ones_have_no_layout(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.swf", 200)
    table = tmp_path / "pairs.csv"
    table.write_text("row,column,ratio\na,a,1.5\na,b,1.1\nb,a,1.2\nb,b,1.3\n")
    layout = "job,ppn,exclusive,unpaired\n3,2,,\n4,,yes,\n5,2,,yes\n"
    for name, content in (("layout.csv", layout), ("named.csv", "application,name\n1,a\n2,b\n")):
        (tmp_path / name).write_text(content)
    found = {}
    for name in ("layout.csv", "named.csv"):
        workload = {"swf": str(log), "annotations": str(tmp_path / name)}
        question = Question({"workload": workload, "truth": {"pairs": str(table)}})
        found[name] = prepare_question(question, tmp_path / "out")
    assert not found["named.csv"].draws("pairs")
    assert "annotations" not in found["named.csv"].hardware["pairs"]["workload"]
    drawn = read_annotations(found["layout.csv"].hardware["pairs"]["workload"]["annotations"])
    assert drawn.values["ppn"] == {}
    assert [[key.job for key in drawn.values[flag]] for flag in ("exclusive", "unpaired")] == [
        [4],
        [5],
    ]  # stay as they are
    assert set(drawn.values["name"].values()) == {"a", "b"}
    assert {(key.application, key.user) for key in drawn.values["name"]} == {
        (job.spec.name, job.spec.user) for job in read_swf(log).jobs
    }


def test_two_processors_of_a_log_that_become_a_node_are_shared_already_today(tmp_path: Path) -> None:
    """Else a one-processor job would waste the other one, and any sharing look like a gain."""
    table = tmp_path / "pairs.csv"
    table.write_text("row,column,ratio\na,a,1.2\n")
    found = asked(tmp_path, truth={"pairs": str(table)})
    best = {one.contention: one for one in CANDIDATES if one.policy in ("lomarc-r", "co-execution-easy")}
    for cell in study_of(found, best).cells:
        by_pairs = cell.names["hardware"].startswith("pairs")
        if cell.policy == PRESENT:
            assert cell.settings["shape"]["name"] == ("threads" if by_pairs else "nodes")
        assert cell.names["variants"].endswith("by cores") == by_pairs
    named = asked(tmp_path, cluster={"nodes": 4, "preset": "1x2x2"}, truth={"pairs": str(table)})
    assert named.by_cores == frozenset()


def test_the_present_policy_runs_again_only_where_an_assumption_may_change_its_schedule(tmp_path: Path) -> None:
    best = {FORMULA: next(one for one in CANDIDATES if one.policy == "lomarc-r")}

    def rerun(found: Prepared) -> set[str]:
        own = [cell for cell in study_of(found, best).cells if cell.policy == PRESENT]
        return {cell.names["hardware"] for cell in own} - {FORMULA}

    alone = asked(tmp_path, cluster={"nodes": 4, "preset": "1x2x2"})
    shared = prepare_question(replace(alone.question, policy="easy"), tmp_path / "out")
    assert rerun(alone) == set()
    assert {f"{FORMULA}, M2", f"{FORMULA}, few"} <= rerun(shared)
    change = next(one for one in CHANGES if one.name == "few")
    place = alone.place(FORMULA).with_change(change)
    told = {cell.names["hardware"]: cell.scenario for cell in study_of(shared, best).cells}
    runs = [simulate(told[where], choose("easy", ("shape=nodes",))) for where in (place.hardware, FORMULA)]
    assert runs[0].summary == runs[1].summary
    assert alone.present_place(place, change) == alone.place(FORMULA)


def test_a_machine_with_memory_bandwidth_gets_the_candidate_that_plans_with_it(tmp_path: Path) -> None:
    found = asked(tmp_path, cluster={"nodes": 4, "preset": "rua-4way"})
    assert {one.policy for one in found.candidates if one.contention == "bandwidth"} == {"lct"}
    lct = next(one for one in CANDIDATES if one.policy == "lct")
    scenarios = {cell.names["hardware"]: cell.scenario for cell in study_of(found, {"bandwidth": lct}).cells}
    assert {name: each.workload.mix for name, each in scenarios.items()} == {
        "formula": None, "bandwidth": "med", "bandwidth, high": "high",
    }  # fmt: skip


def test_windows_cover_the_log_and_do_not_overlap(tmp_path: Path) -> None:
    found = asked(tmp_path)
    assert (found.firsts, found.window_jobs) == ((0, 100, 200, 300), 100)
    whole = read_swf(tmp_path / "log.swf").jobs
    study_of(found)
    for number, first in enumerate(found.firsts, 1):
        window = read_swf(tmp_path / "out" / "windows" / f"w{number}.swf").jobs
        begin_us = whole[first].spec.submit_us
        for job, same in zip(window, whole[first : first + 100], strict=True):
            spec = same.spec._replace(id=job.spec.id, submit_us=same.spec.submit_us - begin_us)
            assert job == same._replace(spec=spec)


def test_a_window_starts_from_the_jobs_that_run_and_wait_there(tmp_path: Path) -> None:
    """The present policy's waits are those of the whole log; on an empty machine they are much shorter. Warm-up jobs do not count."""
    log = write_log(tmp_path / "log.swf", 1_200, gap_s=230)
    cold = prepare_question(
        Question({"workload": {"swf": str(log)}}, scale=Scale(windows=6, fewest=50)), tmp_path / "out"
    )
    run = simulate({**cold.base, **cold.hardware[FORMULA], "workload": cold.base["workload"], "results": {}}, "easy",
                   settings=["shape=nodes"])  # fmt: skip
    whole = WholeRun(run.jobs.wait_s, run.jobs.response_s)
    means = {}
    for name, prepared in (("cold", cold), ("warm", with_whole(cold, whole))):
        cells = [
            cell for cell in study_of(prepared).cells if (cell.policy, cell.names["variants"]) == (PRESENT, LOGGED)
        ]
        found = [simulate(cell.scenario, "easy", settings=["shape=nodes"]) for cell in cells]
        waits = [of_jobs(each)[WAITS] for each in found]
        assert [len(each) for each in waits] == [160] * 6  # of 200: the margins do not count
        means[name] = sum(map(sum, waits)) / 960
    same = [row for first in cold.firsts for row in range(first + 20, first + 180)]
    assert means["warm"] == pytest.approx(whole.waits_s[same].mean(), rel=0.03)
    assert means["cold"] < 0.8 * means["warm"]


def test_a_site_of_single_threads_shares_nothing_by_formula(tmp_path: Path) -> None:
    found = asked(tmp_path, cluster={"nodes": 4, "preset": "1x2x1"})
    reasons = {candidate.policy: reason for candidate, reason in found.left_out}
    assert reasons["lomarc-r"] == reasons["glts"] == "nodes have one hardware thread a core, and the formula needs two"


def test_jobs_on_nodes_of_single_threads_run_as_long_in_windows_as_in_the_log(tmp_path: Path) -> None:
    """The formula had all jobs of a node of 128 cores slow each other down: the windows' waits were ten times the whole log's."""
    found = asked(tmp_path, cluster={"nodes": 1, "preset": "1x8x1"})
    assert {cell.scenario.truth.contention for cell in study_of(found).cells} == {"none"}
    assert "formula: jobs run as long as in the log" in "\n".join(found.assumptions)


def test_only_candidates_that_are_asked_for_are_run(tmp_path: Path, commands: Commands) -> None:
    prepared = asked(tmp_path)
    some = prepare_question(replace(prepared.question, only=("sjbf", "nodes + 10 %")), tmp_path / "some")
    assert ([one.policy for one in some.candidates], [*some.levers]) == (["sjbf", "nodes + 10 %"], ["nodes + 10 %"])
    assert {one.policy: why for one, why in some.left_out}["guests"] == "others were asked for"
    ran = commands.emulator(
        "whatif", "--swf", str(tmp_path / "log.swf"), "--candidate", "sjfb", "--out", str(tmp_path / "x")
    )
    assert "did you mean 'sjbf'?" in assert_one_line(ran, 2)


def test_without_a_log_or_a_machine_the_error_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(EmulatorError, match=r"workload\.swf: expected a log"):
        prepare_question(Question({"workload": {"lublin": 100}}), tmp_path)
    log = tmp_path / "bare.swf"
    log.write_text("1 0 -1 100 1 -1 -1 1 100 -1 1 1 1 1 -1 -1 -1 -1\n")
    with pytest.raises(EmulatorError, match=r"cluster\.nodes: expected a number of nodes"):
        prepare_question(Question({"workload": {"swf": str(log)}}), tmp_path)
    found = prepare_question(Question({"workload": {"swf": str(log)}, "cluster": {"nodes": 16}}), tmp_path)
    cluster = found.hardware[FORMULA]["cluster"]
    assert (cluster["nodes"], cluster["preset"]) == (16, "1x1x2")


def test_what_the_site_says_and_the_runs_do_not_have_is_told(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.swf", 200)
    file = tmp_path / "site.toml"
    file.write_text(
        f'requeue = true\n[workload]\nswf = "{log}"\n[truth]\ncontention = "lomarc"\ngood_share = 0.2\n'
        "[preemption]\nresume_s = 1.0\n[clock]\nspeed = 2.0\n[results]\nwarmup = 5\n"
        '[[script]]\nat_s = 1.0\ndo = "cancel"\njob = 1\n'
    )
    found = prepare_question(Question(site_of(str(file), {})[0]), tmp_path / "out")
    left = [each for each in found.assumptions if each.startswith("left out")]
    assert left == [
        "left out of the site's settings: [clock], [results]",
        "left out of the site's settings: truth.contention, truth.good_share; each contention model has its own",
    ]
    assert study_of(found).cells[0].scenario.preemption.resume_s == 1
    assert study_of(found).cells[0].scenario.requeue
    assert not [each for each in asked(tmp_path).assumptions if each.startswith("left out")]


# ---------------------------------------------------------------- figures of a run


def test_neighbours_and_users_of_a_run(tmp_path: Path) -> None:
    """Hours of pairs are those of nodes with two jobs, each node and instant counted once; without sharing there are none."""
    site = {
        "cluster": {"nodes": 8, "preset": "1x1x2"},
        "workload": {"swf": str(write_log(tmp_path / "log.swf", 80, gap_s=60)), "characteristics": "M1"},
        "truth": {"contention": "lomarc"},
    }
    run = simulate(site, "lomarc-r")
    found = of_neighbours(run)
    on_node: dict[int, list[tuple[float, int]]] = {}
    stays = run.allocations
    for start, end, first, count in zip(stays.start_s, stays.end_s, stays.first_node, stays.node_count, strict=True):
        for node in range(first, first + count):
            on_node.setdefault(node, []).extend([(start, 1), (end, -1)])
    shared_s = 0.0
    for changes in on_node.values():
        jobs, before = 0, 0.0
        for at, change in sorted(changes):
            shared_s += (at - before) * (jobs == 2)
            jobs, before = jobs + change, at
    assert found["neighbour_hours"] == pytest.approx(shared_s / 3600, abs=1e-3)
    assert found["neighbour_hours"] > 0
    assert sum(found["neighbours"].values()) == pytest.approx(found["neighbour_hours"], abs=1e-2)
    assert of_neighbours(simulate(site, "pss")) == {"neighbours": {}, "neighbour_hours": 0}
    users = of_users(run)["user_responses"]
    assert sum(count for count, _ in users.values()) == 80
    assert sum(total for _, total in users.values()) == pytest.approx(float(run.jobs.response_s.sum()), abs=1)


def test_predictions_are_of_what_is_known_by_then(tmp_path: Path) -> None:
    """The mean of the last two jobs of the user that would have ended, at most what was asked for; else what was asked for."""
    rows = [
        (0, 100, 900, 1),
        (50, 200, 900, 1),
        (200, 300, 900, 1),
        (300, 10, 900, 1),
        (310, 10, 120, 1),
        (600, 10, 900, 2),
    ]
    log = tmp_path / "log.swf"
    log.write_text(
        "; MaxProcs: 4\n"
        + "".join(
            f"{n} {at} -1 {run} 1 -1 -1 1 {estimate} -1 1 {user} 1 1 -1 -1 -1 -1\n"
            for n, (at, run, estimate, user) in enumerate(rows, 1)
        )
    )
    jobs = with_estimates(read_swf(log), "predicted").jobs
    # the second job ends at 250, the third at 500
    assert [job.spec.estimate_us / 1e6 for job in jobs] == [900, 900, 900, 150, 105, 900]
    assert [(job.spec.limit_us or 0) / 1e6 for job in jobs] == [900, 900, 900, 900, 120, 900]


# ---------------------------------------------------------------- the command


def test_sharing_that_does_harm_is_called_harm_and_the_losers_are_named(tmp_path: Path, commands: Commands) -> None:
    """On halves of nodes every program takes twice as long, and no job waits today: the answer must not be a gain."""
    log = write_log(tmp_path / "log.swf", 400, gap_s=900)
    table = tmp_path / "pairs.csv"
    table.write_text("row,column,ratio,spread\na,a,2.0,1.9\na,b,2.0,1.9\nb,a,2.0,1.9\nb,b,2.0,1.9\n")
    out = tmp_path / "out"
    words = (
        "whatif",
        "--swf",
        str(log),
        "--nodes",
        "4",
        "--node",
        "1x2x1",
        "--pairs",
        str(table),
        "--window-count",
        "4",
        "--out",
        str(out),
    )
    made = commands.emulator(*words, "--json")
    assert made.code == 0, made.err
    found = json.loads(made.out)
    halves = next(one for one in found["candidates"] if one["policy"] == "co-execution-easy")
    assert halves["verdict"] == HARM
    assert halves["change_percent"][RESPONSE]["low"] > 0
    assert halves["users_that_pay"]
    # the same command again makes no run, and says the same
    before = {file: file.stat().st_mtime_ns for file in (out / "study" / "cells").iterdir()}
    again = commands.emulator(*words, "--json")
    assert json.loads(again.out) == found
    assert {file: file.stat().st_mtime_ns for file in (out / "study" / "cells").iterdir()} == before
    assert "harm: co-execution-easy +" in " ".join(commands.emulator(*words).out.split())


@needs_recordings
def test_from_a_dump_of_slurm_to_an_answer_with_one_command(tmp_path: Path, commands: Commands) -> None:
    """134 jobs are two windows, of which nothing is claimed; the page has that, and every assumption."""
    dump = RECORDED / "sacct" / "sacct-delimiter.txt"
    out = tmp_path / "out"
    made = commands.emulator("whatif", "--sacct", str(dump), "--node", "1x4x2", "--out", str(out))
    assert made.code == 0, made.err
    assert made.out.startswith("The log cannot tell: it is too short for 3 windows of 50 jobs.\n")
    assert len(made.out.splitlines()) <= 10
    assert "134 jobs" in made.err
    wide = commands.emulator("whatif", "--sacct", str(dump), "--node", "1x4x2", "--out", str(out), "--wide").out
    assert wide.startswith(made.out)
    assert re.search(r"^mesh +solve ", wide, re.MULTILINE)  # programs by their names, not by numbers
    shown = (out / "report.html").read_text(encoding="utf-8")
    for words in (
        "cannot tell",
        "too short for 3 windows",
        "what each job uses of its nodes is drawn",
        "do not react",
        "share a core by chance",
    ):
        assert words in shown


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path, commands: Commands) -> None:
    log = write_log(tmp_path / "log.swf", 200)
    made = commands.emulator("whatif", "--swf", str(log), "--out", str(log / "out"))
    assert "expected a folder to write into, got Not a directory" in assert_one_line(made, 2)


def test_a_site_of_nodes_that_differ_is_asked_with_what_was_guessed_of_it(tmp_path: Path) -> None:
    rows = [f"{n}|u|b|COMPLETED|{60 * n}|{60 * n}|{60 * n + 500}|60|1|{cpus}|{node}|x" for n in range(1, 301)
            for node, cpus in [("fat1", 128) if n % 10 == 0 else (f"c{n % 10}", 16)]]  # fmt: skip
    (tmp_path / "jobs.txt").write_text(
        "\n".join(["JobID|User|Partition|State|Submit|Start|End|TimelimitRaw|AllocNodes|NCPUS|NodeList|JobName", *rows])
    )
    import_dump(str(tmp_path / "jobs.txt"), tmp_path / "site", ImportOptions())
    sections, policy = site_of(str(tmp_path / "site" / "scenario.toml"), {})
    found = prepare_question(Question(sections, policy), tmp_path / "out")
    guess = "import of the log: guessed of nodes: 9 nodes of 16 cores, 1 node of 128 cores"
    assert guess in found.assumptions
    other, _ = site_of(str(tmp_path / "site" / "scenario.toml"), {})
    other["cluster"] = {"nodes": 40, "preset": "1x128x1"}
    assert guess not in prepare_question(Question(other, policy), tmp_path / "other").assumptions
    assert not any(one.shares for one in found.candidates)
    file = tmp_path / "site" / "machine.toml"
    file.write_text(file.read_text().replace('x1"', 'x2"'))
    shared = prepare_question(Question(sections, policy), tmp_path / "out")
    assert {one for one in shared.candidates if one.shares} == {
        one for one in CANDIDATES if one.shares and one.contention == FORMULA
    }
    site = {**shared.base, **shared.hardware[FORMULA]}
    site["workload"] = {**shared.base["workload"], **shared.hardware[FORMULA]["workload"], "jobs": 100}
    for name in ("lomarc-r", "glts"):
        assert not simulate({**site, "results": {}}, name).unfinished
    file.write_text(file.read_text().replace('128x2"', '64x2"').replace('16x2"', '8x2"'))  # 72 cores are alike
    smaller = prepare_question(Question(sections, policy), tmp_path / "out")
    reasons = {one.policy: reason for one, reason in smaller.left_out}
    assert reasons["glts"].startswith("it gives a job nodes of one kind")


def test_two_logs_and_a_window_in_the_site_file_are_refused(tmp_path: Path, commands: Commands) -> None:
    log = write_log(tmp_path / "log.swf", 200)
    both = commands.emulator("whatif", "--sacct", "x", "--swf", str(log), "--out", str(tmp_path / "out"))
    assert both.code == 2
    assert "--sacct does not go with" in both.err
    (tmp_path / "site.toml").write_text(f'[workload]\nswf = "{log}"\nfirst = 10\n')
    site = commands.emulator("whatif", str(tmp_path / "site.toml"), "--out", str(tmp_path / "out"))
    assert "workload.first: remove it: windows of the whole log are run" in assert_one_line(site, 2)


def test_names_of_the_log_do_not_drive_the_terminal(prepared: Prepared) -> None:
    evil = f"{EVIL}\x1b]0;gone\x07\u202e"
    named = replace(prepared, names={"program 1": evil, "user 7": evil})
    responses = {PRESENT: [100.0, 101.0, 99.0, 100.0], "glts": [150.0, 151.0, 149.0, 150.0]}
    pairs = {"neighbours": {"1|2": 3.0}, "neighbour_hours": 3.0}
    shown = text(answered(named, responses, **pairs))
    assert all(line.isprintable() for line in shown.split("\n"))
    assert shown.count("\\u001b]0;gone\\u0007\\u202e") == 2  # in the tables of who pays and what to measure


# ---------------------------------------------------------------- the page


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_the_page_opens_without_a_request_and_names_are_text(prepared: Prepared, tmp_path: Path) -> None:
    responses = {
        PRESENT: [100.0, 101.0, 99.0, 100.0],
        "lomarc-r": [80.0, 81.0, 79.0, 80.5],
        "glts": [150.0, 151.0, 149.0, 150.0],
    }
    pairs = {"neighbours": {"1|2": 3.0, "2|2": 1.0}, "neighbour_hours": 4.0}
    named = replace(prepared, names={"program 1": EVIL, "user 7": "a user with a long name"})
    write_page(tmp_path / "page.html", page(answered(named, responses, **pairs)))
    with browser(tmp_path / "profile") as chromium:
        chromium.open(tmp_path / "page.html")
        assert "With lomarc-r" in chromium.run("document.querySelector('main p.headline').textContent")
        assert chromium.run("document.querySelectorAll('td.good').length") == 2  # the baseline, and a candidate
        assert chromium.run("document.querySelectorAll('td.bad').length") == 1
        assert EVIL in chromium.run("document.querySelector('main').textContent")
        assert chromium.run("document.querySelectorAll('[role=img][aria-label]').length") == 1
        assert chromium.requests == [(tmp_path / "page.html").as_uri()]
        for width in (1400, 1300, 800, 400):
            chromium.open(tmp_path / "page.html", width)
            assert chromium.run("document.documentElement.scrollWidth") == width
            frames = "[...document.querySelectorAll('.beside .wide, main > .table .wide')]"
            cut = f"{frames}.filter((frame) => frame.scrollWidth > frame.clientWidth).length"
            assert chromium.run(f"[{frames}.length, {cut}]") == [2, 0]
        assert chromium.errors == []
