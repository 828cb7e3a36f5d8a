"""Gang scheduling against the literal reference, on random jobs and settings; and random settings in the conformance check."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest
from tests.plugin.policies.gang.gang_cases import compare, random_table

from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.testing.check import check_policy

PLACEMENTS = ("first-fit", "packed", "least-loaded", "buddy")
ORDERS = ("fcfs", "shortest", "class-priority")


@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 400), marks=pytest.mark.slow)], ids=str)
def test_quantum_by_quantum_as_the_reference(seeds: range) -> None:
    for seed in seeds:
        compare(seed, 60)


@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 60), marks=pytest.mark.slow)], ids=str)
def test_random_settings_pass_the_conformance_check(seeds: range) -> None:
    for seed in seeds:
        random = Random(f"settings {seed}")
        table = random_table(random) | {"placement": random.choice(PLACEMENTS), "order": random.choice(ORDERS)}
        if random.random() < 0.2:
            table["budget"] = {"name": "counted", "units": 200}
        assert check_policy(partial(compose, table), seed=seed, runs=3).decisions > 20, table
