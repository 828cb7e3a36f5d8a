"""Guests in the schedule that a log records: both runs are of that schedule, and the sentence says the difference."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.emulator.whatif.made import answered, asked

from cosched_emulator.studies.runner import Way, run_plan
from cosched_emulator.studies.study_folder import StudyFolder
from cosched_emulator.studies.study_result import StudyResult
from cosched_emulator.whatif.answer_page import page
from cosched_emulator.whatif.answer_text import as_dict, text
from cosched_emulator.whatif.candidates import Scale
from cosched_emulator.whatif.guests_of_record import record_study, told_of_record
from cosched_emulator.whatif.question import PRESENT, Question, prepare_question


def _log(file: Path) -> str:
    """Write a log of jobs of two processors of eight that wait although there is room, one at a time."""
    rows = ["; MaxProcs: 8"]
    for number in range(1, 151):
        at_s = 100 * number
        rows.append(f"{number} {at_s} 300 {400 if number % 2 else 60} 2 -1 -1 2 800 -1 1 {number % 5} 1 1 1 -1 -1 -1")
    file.write_text("\n".join(rows) + "\n")
    return str(file)


def test_both_runs_are_of_the_record_and_the_sentence_says_what_guests_did(tmp_path: Path) -> None:
    log = _log(tmp_path / "log.swf")
    prepared = prepare_question(Question({"workload": {"swf": log}}, scale=Scale(windows=3)), tmp_path / "out")
    plan = record_study(prepared)
    assert plan is not None
    made = run_plan(plan, StudyFolder(tmp_path / "study"), Way(jobs=1))
    assert not made.failures
    alone, shared = made.result.rows
    assert alone["record_jobs"] == shared["record_jobs"] == 150
    assert (alone["record_later"], alone["record_sooner"]) == (0, 0)
    assert alone["wait_s_mean"] == pytest.approx(300)
    assert shared["record_sooner"] > 0
    (told,) = told_of_record(made.result)
    won_h = 150 * (alone["response_s_mean"] - shared["response_s_mean"]) / 3600
    assert f"its first 150 jobs), guests would have saved {won_h:,.0f} h: {shared['record_sooner']} jobs" in told
    found = answered(prepared, {PRESENT: [100.0] * 3})._replace(of_record=(told,))
    assert told in text(found)
    assert as_dict(found)["guests_in_record"] == [told]
    (section,) = [each for each in page(found).sections if each.title == "Guests in the recorded schedule"]
    assert [getattr(block, "text", "") for block in section.blocks] == [told]


def test_without_recorded_waits_nothing_is_run_and_a_failed_run_tells_nothing(tmp_path: Path) -> None:
    assert record_study(asked(tmp_path)) is None
    half: Any = SimpleNamespace(rows=[{"policy": "as recorded"}])
    assert not [*told_of_record(cast(StudyResult, half))]
