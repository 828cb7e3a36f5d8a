"""Constraints that a log suggests: fitted on its first half, used only where its second half comes nearer, and told otherwise."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Commands
from tests.emulator.whatif.test_validation import made_under

from cosched_emulator.whatif.causes import LIMITS, OUTAGES, POOLS, PRIORITIES
from cosched_emulator.whatif.inferred import Offer, infer_from
from cosched_emulator.whatif.question import Question, prepare_question
from cosched_emulator.whatif.validation import run_whole


def inferred(folder: Path, kind: str) -> Any:
    log = made_under(folder, kind, 1)
    prepared = run_whole(prepare_question(Question({"workload": {"swf": str(log)}}), folder / "files"))
    return infer_from(prepared, folder / "site")


@pytest.mark.parametrize("kind", [LIMITS, POOLS, OUTAGES])
def test_what_the_first_half_tells_brings_the_second_nearer(tmp_path: Path, kind: str) -> None:
    found, (judged,) = inferred(tmp_path, kind)
    assert (judged.offer.name, judged.used) == (kind, True)
    assert judged.after.error < 0.1 < judged.before.error
    assert found.distance.credible
    assert found.causes == () or kind == OUTAGES  # whose begin is known to some minutes


@pytest.mark.parametrize("kind", ["plain", PRIORITIES])
def test_nothing_is_offered_where_nothing_stands_out(tmp_path: Path, kind: str) -> None:
    assert inferred(tmp_path, kind)[1] == ()


def test_what_comes_no_nearer_is_rejected_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of one job a user on a log that has none, as if the first half had suggested it."""
    offer = Offer(LIMITS, "one job", {"limits": [{"each": "user", "jobs": 1}]})
    monkeypatch.setattr("cosched_emulator.whatif.inferred._offers", lambda *_: iter([offer]))
    found, (judged,) = inferred(tmp_path, "plain")
    assert (judged.used, found.distance.ratio) == (False, pytest.approx(1, abs=1e-6))
    assert "rejected" in judged.words


def test_the_site_that_is_written_is_one_for_whatif(tmp_path: Path, commands: Commands) -> None:
    log = made_under(tmp_path, POOLS, 1)
    ran = commands.emulator("workload", "validate", str(log), "--infer", str(tmp_path / "site"), "--json")
    assert ran.code == 0
    told = json.loads(ran.out)
    assert told["ratio"] < 0.5  # of the run without it
    assert ["used" in words for words in told["tried"]] == [True, False]
    site = tmp_path / "site" / "scenario.toml"
    assert [each["name"] for each in tomllib.loads(site.read_text())["partitions"]] == ["rest", "pool-1", "pool-2"]
    again = json.loads(commands.emulator("workload", "validate", str(site), "--json").out)
    assert again["ratio"] == pytest.approx(1, abs=1e-6)
