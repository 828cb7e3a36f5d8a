"""The ledger: it keeps EASY's schedule beside the real one, and lets a host that is ahead pay more than its budget."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.plugin.policies.harness import random_jobs, starts_under
from tests.plugin.policies.symbiosis.test_symbiosis import Job, ran, started, times

from cosched_emulator import simulate
from cosched_plugin.common.errors import UsageError
from cosched_plugin.core.views.view import View
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.policies.symbiosis.virtual_easy import NOTE
from cosched_plugin.protocol.messages import Action
from cosched_plugin.protocol.values import note_travels
from cosched_plugin.testing.check import check_policy

EASY = {"preset": "symbiosis", "order": "fcfs", "ledger": "easy"}  # without a belief about pairs no jobs share nodes


class Compared:
    """A policy that compares the ledger with what has really begun, before it decides."""

    def __init__(self) -> None:
        self.policy = compose(EASY)
        self.compared = 0

    def decide(self, view: View) -> Iterator[Action]:
        note: Any = view.note(None, NOTE)
        if note is not None:
            begun = dict(zip(note[1][::2], note[1][1::2], strict=True))
            jobs = [*view.running.values(), *[ended.running for ended in view.ended]]
            assert begun == {running.job.id: running.start_us for running in jobs}
            assert not note[2], "whoever has ended has left"
            self.compared += len(jobs)
        return self.policy.decide(view)


@pytest.mark.parametrize("estimates", ["exact", "over"])
@pytest.mark.parametrize("cores", [1, 2])
def test_where_no_jobs_share_nodes_it_is_the_schedule_of_easy(estimates: str, cores: int) -> None:
    for seed in range(12):
        jobs = random_jobs(Random(seed), 8, estimates)
        compared = Compared()
        assert len(starts_under(compared, jobs, 8, cores)) == len(jobs)
        assert compared.compared > len(jobs)


def test_a_host_that_is_ahead_of_easy_pays_more_than_its_budget(tmp_path: Path) -> None:
    """Job 2 joins job 1, and is 990 s ahead; job 3 would cost it 10 s, which its budget of 0 does not allow."""
    jobs = [Job("kind", 4, 1000), Job("kind", 4, 5000, 10), Job("mild", 4, 200, 1100)]
    alone = ran(tmp_path, jobs, 4, budget=0.0)
    assert times(alone)[2] == (10, 5010)
    assert times(alone)[3][0] == 5010
    together = ran(tmp_path, jobs, 4, {"ledger": "easy"}, budget=0.0)
    assert times(together)[3][0] == 1100
    assert [each["later_us"] for each in started(together, 3)["beside"]] == [9_523_810]
    assert times(ran(tmp_path, jobs, 4, {"ledger": {"name": "easy", "share": 0.009}}, budget=0.0))[3][0] == 5010


def test_one_that_is_not_ahead_does_not(tmp_path: Path) -> None:
    jobs = [Job("kind", 4, 5000), Job("mild", 4, 200, 1100)]
    assert times(ran(tmp_path, jobs, 4, {"ledger": "easy"}, budget=0.0))[2][0] == 5000


def test_who_has_the_reservation_is_told_with_each_guest(tmp_path: Path) -> None:
    """Job 2 waits for the whole machine; job 3 joins job 1 without delaying it."""
    jobs = [Job("kind", 4, 1000), Job("harsh", 4, 900, 5), Job("kind", 2, 950, 10)]
    run = ran(tmp_path, jobs, 4, budget=0.0)
    assert started(run, 3)["reserved"] == 2


def test_decisions_are_the_same_after_a_restart() -> None:
    """Also where many jobs are forgotten, and under a budget of work."""
    for settings in ({}, {"ledger": {"name": "easy", "most": 2}}, {"budget": "counted"}):
        table = {"preset": "symbiosis", "ledger": "easy", **settings}
        check_policy(partial(compose, table), seed=3, runs=4)


def test_what_it_remembers_is_bounded() -> None:
    """Under overload EASY falls behind for ever: what has really ended, and waits there, is forgotten beyond ``most``."""
    scenario = {
        "seed": 1,
        "cluster": {"nodes": 16, "preset": "lomarc-ht"},
        "workload": {"lublin": 300, "aarr": 7.0, "characteristics": "M1"},
        "truth": {"contention": "lomarc"},
    }
    notes: list[Any] = []
    policy = compose({"preset": "symbiosis", "ledger": {"name": "easy", "most": 20}})

    class Watching:
        def decide(self, view: View) -> Iterator[Action]:
            notes.append(view.note(None, NOTE) or (0, (), ()))
            return policy.decide(view)

    simulate(scenario, Watching)
    gone = [dict(zip(note[2][::6], note[2][5::6], strict=True)) for note in notes]
    waiting = [sum(begin_us < 0 for begin_us in each.values()) for each in gone]
    assert max(waiting) == 20
    assert all(note_travels(NOTE, note) for note in notes)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"preset": "symbiosis", "slices": "classes", "placement": "spread"}, r"policy\.ledger: expected none"),
        ({"preset": "easy"}, "ledger easy needs payments .* matching guests would"),
        ({"preset": "lomarc-r"}, "ledger easy needs payments"),
    ],
)
def test_it_is_refused_where_nobody_asks_it_and_where_classes_have_turns(table: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        compose({**table, "ledger": "easy"})
