"""A difficult manager against every preset: no contradiction, and a scheduler that was restarted decides alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from tests.contract.cases import CASES, scenario_of
from tests.contract.links import DigestLink, ShadowLink

from cosched_emulator import prepare
from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.run.run import run
from cosched_plugin.config import choose

LAGS: Final[dict[str, Any]] = {
    "submitted_s": 20.0, "submitted_draw": "exponential", "start_s": 40.0, "start_draw": "uniform",
    "ended_s": 30.0, "ended_draw": "exponential", "extra_s": 5.0,
}  # fmt: skip
SHARED_TIME: Final = {
    key: LAGS[key] for key in ("submitted_s", "submitted_draw")
}  # jobs that share time have no others


def difficult(scenario: str, folder: Path, **more: Any) -> dict[str, Any]:
    table = scenario_of(scenario, folder)
    return {**table, "manager": {**(SHARED_TIME if "time_sharing" in table else LAGS), **more}}


@pytest.mark.by_default(6)
@pytest.mark.parametrize(("preset", "scenario"), CASES)
def test_lags_of_every_kind_suit_every_preset(preset: str, scenario: str, tmp_path: Path) -> None:
    choice = choose(preset)
    link = DigestLink(ShadowLink(DirectLink(choice.scheduler), choice.scheduler))
    finished = run(prepare(difficult(scenario, tmp_path)), link)
    assert finished.unfinished == []
    if scenario != "time-shared":
        assert link.kinds["JobStarted"] >= len(finished.records) - 2
