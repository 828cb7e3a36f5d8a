"""Measures of somebody else: whatever they return, the table can hold it, or the run fails with a clear line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from tests.emulator.studies.experiments import SMALL

from cosched_emulator import Run, simulate
from cosched_emulator.studies.cell_run import add_measure
from cosched_plugin.common.errors import UsageError

ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)


@pytest.fixture(scope="module")
def run() -> Run:
    return simulate(SMALL)


def test_numbers_become_plain_and_those_that_do_not_exist_none(run: Run) -> None:
    given = {
        "a": np.float64(1.5),
        "b": np.int32(4),
        "c": np.array([1, 2]),
        "d": np.bool_(True),
        "e": float("nan"),
        "f": {"g": (np.float32("inf"), None)},
    }
    figures: dict[str, Any] = {"wait_s_mean": 1.0}
    add_measure(figures, "m:f", lambda _: given, run)
    assert figures == {
        "wait_s_mean": 1.0, "a": 1.5, "b": 4, "c": [1, 2], "d": True, "e": None, "f": {"g": [None, None]},
    }  # fmt: skip
    assert [type(figures[name]) for name in "abd"] == [float, int, bool]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, "expected a table of at most 500 figures by name, got NoneType"),
        ({f"x{number}": 1 for number in range(501)}, "expected a table of at most 500 figures by name, got 501"),
        ({3: 1}, "expected a text of one line as the name of a figure, got 3"),
        ({"": 1}, "expected a text of one line as the name of a figure, got ''"),
        ({"Wait_S_Mean": 1}, "expected a name of its own, got 'Wait_S_Mean', which exists"),
        ({"policy": 1}, "expected a name of its own, got 'policy', which exists"),
        ({"harm_h1": 1}, "expected a name of its own, got 'harm_h1', which exists"),
        ({"x": {1, 2}}, "x: expected a number, a text, or a list or table of them, got set"),
        ({"x": 2**63}, "x: expected a whole number of at most 64 bits"),
        ({"x": "\ud800"}, "x: 'utf-8' codec"),
        ({"x": ENDLESS}, "x: maximum recursion depth exceeded"),
    ],
)
def test_what_the_table_cannot_hold_is_named(run: Run, given: Mapping[Any, Any], expected: str) -> None:
    with pytest.raises(UsageError, match=rf"^measure m:f: {expected}"):
        add_measure({"wait_s_mean": 1.0}, "m:f", lambda _: given, run)
