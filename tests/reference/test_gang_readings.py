"""Paired gang scheduling through the emulator: the reference gives each job the same end, and a rule read otherwise does not."""

from __future__ import annotations

import pytest
from tests.reference.gang_readings import PROGRAMS, AsWritten, LowestNumber, ends_of, second_ends

FEW = "fine"  # programs whose runs take half as long


@pytest.mark.parametrize(
    "programs", [pytest.param(each, marks=[pytest.mark.slow] * (each != FEW)) for each in PROGRAMS]
)
@pytest.mark.parametrize(
    ("policy", "paired"), [pytest.param("gang", False, marks=pytest.mark.slow), ("paired-gang", True)]
)
def test_each_job_ends_when_the_reference_says(programs: str, policy: str, paired: bool) -> None:
    assert ends_of(programs, 1, policy) == second_ends(programs, 1, AsWritten.__name__, paired=paired)


@pytest.mark.slow
def test_a_rule_read_otherwise_is_seen() -> None:
    assert ends_of("uniform", 1, "paired-gang") != second_ends("uniform", 1, LowestNumber.__name__)
