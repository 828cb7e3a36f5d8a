"""The conformance check finds parts of a composition that violate their protocols."""

from __future__ import annotations

from typing import Any

import pytest
from tests.plugin.testing.part_cheats import CHEATS

from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.testing.check import PolicyCheckError, check_policy


@pytest.mark.parametrize(("table", "problem"), CHEATS, ids=lambda value: value if isinstance(value, str) else "")
def test_parts_that_violate_their_protocols_are_caught(table: dict[str, Any], problem: str) -> None:
    with pytest.raises(PolicyCheckError) as caught:
        check_policy(lambda: compose(table), runs=3)
    assert problem in caught.value.problem
    assert caught.value.problem.startswith("PolicyError: policy.")


@pytest.mark.parametrize("above", [{"preset": "ssp"}, {"budget": "counted"}], ids=["slices", "budget"])
def test_parts_below_slices_and_budgets_are_checked(above: dict[str, Any]) -> None:
    table = {**above, "order": "tests.plugin.testing.part_cheats:Forgetful"}
    with pytest.raises(PolicyCheckError, match=r"policy\.order: Forgetful: arrange: expected jobs"):
        check_policy(lambda: compose(table), runs=3)
