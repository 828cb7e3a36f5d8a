"""The gate: no gain is said that the baseline's distance from the record hides; harm is told, and so is what cannot be checked."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st
from tests.emulator.whatif.made import asked, distance, made_up, result_of
from tests.properties import drawn

from cosched_emulator.page.document import Beside, Paragraph, Table
from cosched_emulator.whatif.answer import FAR, GAIN, HARM, OPEN, UNCHECKED, Answer, answer, gated
from cosched_emulator.whatif.answer_lead import brief, headline, how_sure, next_step, standing
from cosched_emulator.whatif.answer_page import page
from cosched_emulator.whatif.answer_text import as_dict
from cosched_emulator.whatif.causes import Cause
from cosched_emulator.whatif.distance import ClassWait, Distance
from cosched_emulator.whatif.measures import RESPONSES, WAITS
from cosched_emulator.whatif.question import PRESENT, Prepared
from cosched_emulator.whatif.warm import WholeRun
from cosched_terminal.tables import VIEW, View

BLUE = distance(520, 130, most=1.6, weekly_r=0.41)
SP2 = distance(428, 381, most=0.35, weekly_r=0.62)


@pytest.mark.parametrize(
    ("verdict", "ratio", "found", "told"),
    [
        (GAIN, 0.5, SP2, GAIN),
        (GAIN, 0.9, SP2, FAR),  # nearer to the baseline than that may be to the record
        (GAIN, 0.1, BLUE, FAR),  # weeks do not follow the record
        (GAIN, 0.0, SP2, GAIN),  # nobody waits any more
        (GAIN, 0.1, SP2._replace(log_ratio=BLUE.log_ratio), FAR),  # nor is the mean wait near
        (GAIN, math.nan, SP2, FAR),
        (GAIN, 0.5, None, UNCHECKED),
        (GAIN, 0.5, SP2._replace(weekly_r=math.nan, weeks=2), GAIN),  # too few weeks: by job
        (GAIN, 0.5, SP2._replace(weekly_r=math.nan, weeks=2, spearman=0.5), FAR),
        (HARM, 1.01, BLUE, HARM),
        (HARM, 1.01, None, HARM),
        (OPEN, 0.5, SP2, OPEN),
    ],
)
def test_a_gain_passes_only_where_the_baseline_is_nearer_to_the_record(
    verdict: str, ratio: float, found: Distance | None, told: str
) -> None:
    assert gated(verdict, ratio, found) == told


@drawn(st.floats(0.01, 100), st.floats(0, 3), st.floats(-1, 1), few=100, many=2_000)
def test_no_gain_is_smaller_than_the_error(ratio: float, most: float, weekly_r: float) -> None:
    found = distance(100, 100, most=most, weekly_r=weekly_r)
    passes = weekly_r >= 0.6 and most <= math.log(2) and abs(math.log(ratio)) >= most
    assert gated(GAIN, ratio, found) == (GAIN if passes else FAR)


def test_a_gain_over_another_baseline_than_that_of_the_record_is_none() -> None:
    """In the windows the baseline waits thrice as long as in the run that is near the record."""
    assert gated(GAIN, 0.2, distance(100, 100)) == GAIN
    assert gated(GAIN, 0.2, distance(100, 100), math.log(3)) == FAR
    assert gated(GAIN, 0.9, distance(100, 100), math.log(1.2)) == FAR


# ---------------------------------------------------------------- what is said


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    found = asked(tmp_path_factory.mktemp("gate"))
    return replace(found, whole=WholeRun(np.full(400, 60.0), np.full(400, 100.0)))


def said(prepared: Prepared, found: Distance | None, candidates: dict[str, float]) -> Answer:
    """Return the answer where jobs wait a minute under the present policy, and this many seconds under candidates."""
    counted = prepared.window_jobs - 20
    means = {PRESENT: 60.0, **candidates}
    responses = {name: [mean + 40 + each for each in (0, 0.1, -0.1, 0)] for name, mean in means.items()}
    rows = made_up(prepared, responses).rows
    for row in rows:
        wait_s = means[row["policy"]]
        row.update({"wait_s_mean": wait_s, WAITS: [wait_s] * counted, RESPONSES: [wait_s + 40] * counted})
    return answer(prepared, result_of(prepared, rows), found)


def verdicts(found: Answer) -> dict[str, str]:
    return {one.candidate.policy: one.verdict for one in found.compared}


def test_a_log_that_the_model_does_not_explain_has_no_gain_and_all_say_so(prepared: Prepared) -> None:
    found = said(prepared, BLUE, {"sjbf": 10.0, "conservative": 90.0})
    assert verdicts(found) == {"sjbf": FAR, "conservative": HARM}
    begin = "The model does not explain this log: recorded 520 min, simulated 130."
    assert headline(found).startswith(f"{begin} A computation, not a forecast: with sjbf")
    assert brief(found)[0].startswith("The model does not explain this log: recorded 520 min")
    assert as_dict(found)["baseline"]["verdict"] == FAR
    assert [one["verdict"] for one in as_dict(found)["candidates"]] == [FAR, HARM]


def test_a_credible_log_has_gains_larger_than_the_error_only(prepared: Prepared) -> None:
    found = said(prepared, SP2, {"sjbf": 30.0, "conservative": 50.0})
    assert verdicts(found) == {"sjbf": GAIN, "conservative": FAR}
    assert headline(found).startswith("With sjbf")
    assert "5 users wait" in headline(found)
    assert standing(SP2) == "credible beyond 42 %"
    small = said(prepared, SP2, {"conservative": 50.0})
    assert "such small gains: recorded 428 min" in headline(small)


def test_windows_that_wait_otherwise_than_the_whole_run_have_no_gain_and_all_say_so(prepared: Prepared) -> None:
    """As on nodes of two threads where jobs meet by chance today: the formula slows windows down, the whole run has no neighbours."""
    near = replace(prepared, whole=WholeRun(np.full(400, 20.0), np.full(400, 100.0)))
    found = said(near, SP2, {"sjbf": 10.0, "conservative": 90.0})
    assert verdicts(found) == {"sjbf": FAR, "conservative": HARM}
    begin = "The windows do not reproduce the baseline: the same jobs wait 3 times as long as in the whole log"
    assert all(words.startswith(begin) for words in (headline(found), " ".join(" ".join(brief(found)).split())))
    assert verdicts(said(prepared, SP2, {"sjbf": 10.0})) == {"sjbf": GAIN}


def test_a_log_without_waits_cannot_be_checked_and_is_told_what_to_give(prepared: Prepared) -> None:
    found = said(prepared, None, {"sjbf": 10.0})
    assert verdicts(found) == {"sjbf": UNCHECKED}
    assert headline(found).startswith(
        "No gain can be checked: the log records no waits. A computation, not a forecast: with sjbf"
    )
    assert as_dict(found)["baseline"] == {"verdict": UNCHECKED, "assumed": True}
    assert "config, partitions" in next_step(found)


def test_what_explains_the_distance_is_on_the_page_in_json_and_the_next_step(prepared: Prepared) -> None:
    cause = Cause(
        "limits", 0.6, "12 of 12 users never ran more than 4 jobs at once", "--facts of `sacctmgr -P show qos`"
    )
    found = said(prepared, BLUE, {"sjbf": 10.0})._replace(causes=(cause,))
    assert next_step(found) == "limits explain most: see --facts of `sacctmgr -P show qos`"
    assert as_dict(found)["baseline"]["causes"] == [cause._asdict()]
    (near,) = (section for section in page(found).sections if section.title == "How near the baseline is")
    assert Paragraph(f"{cause.words}. See {cause.tell}.") in near.blocks
    assert "60 % of the wait" in cause.words


def test_the_first_screen_has_headline_certainty_next_step_box_and_a_marked_line_a_candidate(
    prepared: Prepared,
) -> None:
    found = said(prepared, SP2, {"sjbf": 30.0, "conservative": 50.0, "glts": 90.0})
    beside, candidates = page(found).lead
    assert isinstance(beside, Beside)
    assert isinstance(candidates, Table)
    words = [each.text for each in beside.paragraphs]
    assert words == [headline(found), f"How sure: {how_sure(found)}.", f"Next: {next_step(found)}."]
    box = {row[0]: row[1:] for row in beside.table.rows}
    assert beside.table.headings == ["", "your log", "our baseline (assumed: EASY)"]
    assert box["mean wait, min"] == ["428", "381"]
    assert box["utilisation while jobs wait"] == ["80 %", "85 %"]
    assert box["verdict"] == ["", "credible beyond 42 %"]
    assert beside.table.caption.startswith("400 jobs of 5 users in 0.1 weeks; load ")
    lines = {row[0]: (row[2], candidates.marks.get((place, 2))) for place, row in enumerate(candidates.rows)}
    assert lines == {"sjbf": (GAIN, "good"), "conservative": (FAR, "open"), "glts": (HARM, "bad")}


@drawn(st.fixed_dictionaries(dict.fromkeys(("sjbf", "conservative", "guests", "lomarc-r", "symbiosis", "glts"), st.floats(0.01, 500))),
       st.sampled_from([BLUE, SP2, distance(), None]), st.text(max_size=200), few=30, many=500)  # fmt: skip
def test_a_terminal_of_80_columns_has_ten_lines(
    prepared: Prepared, waits: dict[str, float], found: Distance | None, name: str
) -> None:
    named = replace(prepared, names={"program 1": name, "program 2": name, "user 7": name})
    lines = brief(said(named, found, waits))
    assert len(lines) <= 10
    assert max(map(len, lines)) <= 80
    assert all(map(str.isprintable, lines))
    token = VIEW.set(View(folds=60))
    assert max(map(len, brief(said(named, found, waits)))) <= 60
    VIEW.reset(token)


def test_jobs_are_shown_by_kinds_that_the_log_tells_apart(prepared: Prepared) -> None:
    classes = {"partition": (), "queue": (ClassWait("a", 3, 9.0, 4.0, 0.5), ClassWait("b", 1, 2.0, 2.0, math.nan))}
    shown = page(said(prepared, BLUE._replace(classes=classes), {"sjbf": 30.0}))
    (near,) = [each for each in shown.sections if each.title == "How near the baseline is"]
    assert [(each.caption, each.rows) for each in near.blocks if isinstance(each, Table)] == [
        ("All jobs by queue: mean wait, min", [("a", "3", "9", "4", "50"), ("b", "1", "2", "2", "-")])
    ]
