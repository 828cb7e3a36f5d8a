"""What policies ask of the composite model as a belief: any number of jobs, seats, and resources."""

from __future__ import annotations

import pytest
from tests.hwmodel.co_runs import Job

from cosched_hwmodel.composite.composite_contention import CompositeContention
from cosched_hwmodel.composite.composite_model import CompositeModel
from cosched_hwmodel.composite.job_profile import Profile
from cosched_hwmodel.contention import Load
from cosched_hwmodel.models.composite_pairs import CompositePairs
from cosched_hwmodel.topology import Cache, NodeShape
from cosched_hwmodel.units import ThreadMask

NODE = NodeShape(
    "", 2, 2, 4096, 2, (Cache(3, 4096, 2),), 12_000, integer_slots_ppm=1_000_000, floating_slots_ppm=1_000_000
)
COUNTING = Profile(integer_ppm=900_000)
STREAMING = Profile(integer_ppm=50_000, memory_mbs=5000)


JOBS = {1: Job(1, profile=COUNTING), 2: Job(2, profile=COUNTING), 3: Job(3, profile=STREAMING), 4: Job(4)}
PAIRS = CompositePairs(CompositeModel()).on_nodes([NODE])


def test_any_number_of_jobs_are_those_of_the_model_itself() -> None:
    loads = [Load(number, 1, ThreadMask(1 << place), (0, 0, 0)) for place, number in enumerate((1, 3, 4, 2))]
    profiles = {number: Profile(*job.profile) for number, job in JOBS.items() if job.profile is not None}
    expected = CompositeContention(CompositeModel(), profiles).penalties(NODE, loads)
    assert PAIRS.among(JOBS).penalties(NODE, loads) == expected
    assert expected[2] == 0.0


def test_seats_are_told_apart() -> None:
    assert PAIRS.by_seat
    same_core = PAIRS.slowdown_on(JOBS[1], ThreadMask(1), JOBS[2], ThreadMask(16))
    other_core = PAIRS.slowdown_on(JOBS[1], ThreadMask(1), JOBS[2], ThreadMask(2))
    assert same_core > 1.3
    assert other_core == 1.0


def test_parts_name_what_the_neighbour_adds() -> None:
    one, other = (JOBS[number]._replace(processes=4) for number in (1, 2))
    parts = {name: penalty for name, penalty in PAIRS.parts(one, other) if penalty > 0.0}
    assert set(parts) == {"integer slots"}
    assert 1.0 + parts["integer slots"] == pytest.approx(PAIRS.slowdown(one, other))


def test_no_part_is_known_of_a_job_without_a_profile() -> None:
    assert PAIRS.parts(JOBS[1], JOBS[4]) == ()
