"""Gang scheduling as a whole: against the literal reference, in the conformance check, and the paper's static mixes.

Static mixes (section 4.1) on nodes that run processes: which slots are chosen as partners, and how fast jobs advance. Four jobs,
each as large as the cluster; mix i has i jobs of I/O, in the highest slots, and 4 - i that compute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from tests.plugin.policies.gang.gang_cases import compare, random_table

from cosched_emulator import simulate
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.testing.check import check_policy

PLACEMENTS = ("first-fit", "packed", "least-loaded", "buddy")
ORDERS = ("fcfs", "shortest", "class-priority")


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(20, 400), marks=pytest.mark.slow)], ids=str)
def test_quantum_by_quantum_as_the_reference(seeds: range) -> None:
    for seed in seeds:
        compare(seed, 60)


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 60), marks=pytest.mark.slow)], ids=str)
def test_random_settings_pass_the_conformance_check(seeds: range) -> None:
    for seed in seeds:
        random = Random(f"settings {seed}")
        table = random_table(random) | {"placement": random.choice(PLACEMENTS), "order": random.choice(ORDERS)}
        if random.random() < 0.2:
            table["budget"] = {"name": "counted", "units": 200}
        assert check_policy(partial(compose, table), seed=seed, runs=3).decisions > 20, table


POINTS = 3.0  # within which a share of quanta is the published one


class Outcome(NamedTuple):
    """A run up to the first end of a job."""

    chosen: dict[int, float]  # by slot: percent of the quanta in which it was chosen as the partner
    first_end_s: float


@cache
def play(mix: int, policy: str, nodes: str, run_s: int, seed: int = 1) -> Outcome:
    """Run a mix of jobs that take ``run_s`` alone."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        log = [f"{job} 0 -1 {run_s} 8 -1 -1 8 {run_s} -1 1 1 1 1 1 1 -1 -1" for job in range(1, 5)]
        (folder / "jobs.swf").write_text("; MaxProcs: 8\n" + "\n".join(log) + "\n")
        programs = [f"{job},{'compute' if job <= 4 - mix else 'io'}" for job in range(1, 5)]
        (folder / "programs.csv").write_text("job,program\n" + "\n".join(programs) + "\n")
        table = {
            "seed": seed,
            "cluster": {"nodes": 8, "preset": "single"},
            "workload": {"swf": str(folder / "jobs.swf"), "programs": str(folder / "programs.csv"), "limits": "none"},
            "time_sharing": {"nodes": nodes, "local": "rr", "slice_ms": 2.0},
        }
        told: list[dict[str, Any]] = []
        run = simulate(table, policy, trace=told)
    first_us = min(record.end_us or 0 for record in run.records)
    turns = [record for record in told if record["kind"] == "turn" and record["at_us"] < first_us]
    partners = Counter(record["slots"][1] for record in turns if len(record["slots"]) > 1)
    chosen = {slot: 100 * count / len(turns) for slot, count in sorted(partners.items())}
    return Outcome(chosen, first_us / 1e6)


def assert_near(found: Mapping[int, float], expected: Mapping[int, float]) -> None:
    for slot in range(4):
        assert found.get(slot, 0) == pytest.approx(expected.get(slot, 0), abs=POINTS), (found, expected)


def test_four_io_jobs_choose_the_last_two_slots() -> None:
    assert_near(play(4, "paired-gang-bestfit", "fluid", 40).chosen, {2: 25, 3: 75})
    assert_near(play(4, "paired-gang", "fluid", 40).chosen, {0: 25, 1: 25, 2: 25, 3: 25})


def test_compute_jobs_have_no_partners() -> None:
    assert play(0, "paired-gang", "fluid", 10).chosen == {}
    assert play(0, "paired-gang", "fluid", 10).first_end_s == play(0, "gang", "fluid", 10).first_end_s


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "mix", "expected"),
    [
        ("paired-gang-bestfit", 1, {0: 8, 1: 8, 2: 8, 3: 75}),
        ("paired-gang-bestfit", 3, {0: 75, 3: 25}),
        ("paired-gang-bestfit", 4, {2: 25, 3: 75}),
        ("paired-gang", 1, {0: 8, 1: 8, 2: 8, 3: 75}),  # there is one I/O job only
        *(("paired-gang", mix, dict.fromkeys(range(4), 25)) for mix in (2, 3, 4)),
    ],
)
def test_how_often_each_slot_is_chosen(policy: str, mix: int, expected: dict[int, float]) -> None:
    assert_near(play(mix, policy, "exact", 300).chosen, expected)


@pytest.mark.slow
def test_two_compute_jobs_share_what_two_io_jobs_choose() -> None:
    """Noise of the ticks decides which of the two compute jobs is chosen: over several runs each is, as often."""
    runs = [play(2, "paired-gang-bestfit", "exact", 200, seed).chosen for seed in range(1, 6)]
    for run in runs:
        assert run.get(2, 0) < POINTS
        assert run[3] == pytest.approx(50, abs=POINTS)
        assert run[0] + run[1] == pytest.approx(50, abs=POINTS)
    assert sum(run[0] for run in runs) / len(runs) == pytest.approx(25, abs=10)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["paired-gang", "paired-gang-bestfit"])
def test_a_single_io_job_advances_nearly_four_times_as_fast(policy: str) -> None:
    strict = play(1, "gang", "exact", 300).first_end_s
    assert 3.8 < strict / play(1, policy, "exact", 300).first_end_s < 4.1
