"""Every preset against managers that act on their own, or cannot do all that the protocol says."""

from __future__ import annotations

import pytest

from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.policies.composition.presets import PRESETS
from cosched_plugin.testing.check import PolicyCheckError, check_policy

EVENTS = 2_000_000  # of all presets together, in the slow test
RUNS = (2, 4)  # of five: the manager acts on its own; it lacks something, and jobs ask for more


def events_of(preset: str, seed: int, run: int) -> int:
    """Check a preset in one run; return the number of events, 0 where it declines the machine."""
    try:
        return check_policy(lambda: compose({"preset": preset}), seed=seed, runs=1, first=run).events
    except PolicyCheckError as error:
        if "declines every machine" not in error.problem:
            raise
        return 0


@pytest.mark.by_default(5)
@pytest.mark.parametrize("preset", PRESETS)
def test_a_difficult_manager_and_every_preset_agree(preset: str) -> None:
    assert sum(events_of(preset, seed, run) for seed in (1, 2) for run in RUNS) > 0


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_two_million_events_of_difficult_managers(preset: str) -> None:
    left = EVENTS // len(PRESETS)
    seed = 0
    while left > 0:
        seed += 1
        left -= sum(events_of(preset, seed, first + more) for first in RUNS for more in (0, 5, 10, 15))


@pytest.mark.parametrize("preset", ["lc", "rua"])
def test_a_site_is_declined_before_the_first_decision(preset: str) -> None:
    """LessConsume makes layouts that a manager cannot make that fills nodes in order: here its first decision would be one."""
    assert events_of(preset, 28, 9) > 0  # on another site


def test_devices_have_the_caches_of_their_one_core() -> None:
    assert events_of("fcfs", 9, 9) > 0


@pytest.mark.parametrize(("preset", "seed", "run"), [("fcfs", 18, 14), ("easy", 23, 19)])
def test_no_job_is_larger_than_what_a_manager_holds_that_fills_nodes_in_order(preset: str, seed: int, run: int) -> None:
    assert events_of(preset, seed, run) > 0


@pytest.mark.parametrize(
    ("preset", "seed", "run"), [("paired-gang", 15, 12), ("blind", 8, 2), ("co-execution-easy", 6, 12)]
)
def test_jobs_that_the_manager_puts_into_slots_are_beside_whom_they_may_and_hold_memory(
    preset: str, seed: int, run: int
) -> None:
    assert events_of(preset, seed, run) > 0


@pytest.mark.parametrize(
    ("preset", "seed", "run"),
    [
        ("co-execution-easy", 18, 12),  # the manager has put two spread jobs on one half
        ("glts-nh", 32, 12),  # ... and a job of the slice's class beside one of another class
        ("blind", 24, 2),  # no job of any row can run
    ],
)
def test_one_pass_decides_all_that_a_second_one_would(preset: str, seed: int, run: int) -> None:
    assert events_of(preset, seed, run) > 0
