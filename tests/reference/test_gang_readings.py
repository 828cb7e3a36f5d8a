"""Paired gang scheduling through the emulator: the reference gives each job the same end, and a rule read otherwise does not."""

from __future__ import annotations

import pytest
from tests.reference import gang_readings
from tests.reference.gang_readings import JOBS, PROGRAMS, AsWritten, LowestNumber, ends_of, second_ends


@pytest.mark.parametrize(
    ("programs", "jobs"), [("uniform", 20), *(pytest.param(each, JOBS, marks=pytest.mark.slow) for each in PROGRAMS)]
)
@pytest.mark.parametrize(
    ("policy", "paired"), [pytest.param("gang", False, marks=pytest.mark.slow), ("paired-gang", True)]
)
def test_each_job_ends_when_the_reference_says(
    programs: str, jobs: int, policy: str, paired: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gang_readings, "JOBS", jobs)
    assert ends_of(programs, 1, policy) == second_ends(programs, 1, AsWritten.__name__, paired=paired)


@pytest.mark.slow
def test_a_rule_read_otherwise_is_seen() -> None:
    assert ends_of("uniform", 1, "paired-gang") != second_ends("uniform", 1, LowestNumber.__name__)
