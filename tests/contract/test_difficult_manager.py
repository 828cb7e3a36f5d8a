"""A difficult manager against every preset: no contradiction, and a scheduler that was restarted decides alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from tests.contract.cases import CASES, scenario_of
from tests.contract.links import DigestLink, ShadowLink

from cosched_emulator import prepare, simulate
from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.run.run import Finished, run
from cosched_plugin.config import choose

LAGS: Final[dict[str, Any]] = {
    "submitted_s": 20.0, "submitted_draw": "exponential", "start_s": 40.0, "start_draw": "uniform",
    "ended_s": 30.0, "ended_draw": "exponential", "extra_s": 5.0,
}  # fmt: skip
ACTS: Final[dict[str, Any]] = {
    "lost": 0.1, "modify_every_s": 900.0, "revise_every_s": 1200.0, "suspend_every_s": 1800.0, "restart_every_s": 3600.0,
}  # fmt: skip
STARTS: Final[dict[str, Any]] = {"elsewhere": 0.2, "refused": 0.2, "start_every_s": 1500.0}
# Jobs that share time start where and when it was decided.
SHARED_TIME: Final = {
    "submitted_s": 0.5,
    "lost": 0.1,
    **{key: 20.0 for key in ACTS if key != "lost"},
    "suspended_s": 5.0,
}


def difficult(scenario: str, folder: Path, manager: dict[str, Any], seed: int = 1) -> dict[str, Any]:
    table = scenario_of(scenario, folder)
    return {**table, "manager": {**(SHARED_TIME if "time_sharing" in table else manager), "seed": seed}}


def play(preset: str, table: dict[str, Any], *, own: bool) -> tuple[DigestLink, Finished]:
    """Run a scenario; a scheduler that knows only the manager's inventory, and one that was restarted, decide alike.

    With ``own`` the manager also puts jobs where policies do not: some then find more to do in a second pass.
    """
    choice = choose(preset)
    link = DigestLink(ShadowLink(DirectLink(choice.scheduler), choice.scheduler, settles=not own))
    return link, run(prepare(table), link)


@pytest.mark.by_default(4)
@pytest.mark.parametrize(("preset", "scenario"), CASES)
def test_lags_of_every_kind_suit_every_preset(preset: str, scenario: str, tmp_path: Path) -> None:
    link, finished = play(preset, difficult(scenario, tmp_path, LAGS), own=False)
    assert finished.unfinished == []
    if scenario != "time-shared":
        assert link.kinds["JobStarted"] >= len(finished.records) - 2


@pytest.mark.by_default(8)
@pytest.mark.parametrize(("preset", "scenario"), CASES)
def test_what_a_manager_does_by_itself_suits_every_preset(preset: str, scenario: str, tmp_path: Path) -> None:
    link, finished = play(preset, difficult(scenario, tmp_path, {**LAGS, **ACTS, **STARTS}), own=True)
    assert finished.unfinished == []
    assert link.kinds["JobModified"] + link.kinds["JobRevised"] + link.kinds["JobSuspended"] > 0


def test_every_coupling_has_the_same_difficult_manager(tmp_path: Path) -> None:
    table = difficult("lublin", tmp_path, {**LAGS, **ACTS, **STARTS})
    direct, loopback, zmq = (simulate(table, "easy", link=link) for link in ("direct", "loopback", "zmq"))
    assert direct.records == loopback.records == zmq.records
