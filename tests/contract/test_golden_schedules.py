"""Schedules, and all that is said on the way to them, are as they were: speed is not bought with another schedule."""

from __future__ import annotations

import json

import pytest
from tests.contract.golden import GOLDEN, cases, digest


@pytest.mark.parametrize(("preset", "scenario"), cases())
def test_the_schedule_is_as_it_was(preset: str, scenario: str) -> None:
    assert digest(preset, scenario) == json.loads(GOLDEN.read_text())[f"{preset} {scenario}"]


def test_no_digest_is_left_over_or_alike() -> None:
    golden = json.loads(GOLDEN.read_text())
    assert set(golden) == {f"{preset} {scenario}" for preset, scenario in cases()}
    busy = [value["files"] for case, value in golden.items() if case.split()[1] in ("plain", "pairs", "groups")]
    assert len(set(busy)) > len(busy) / 2
