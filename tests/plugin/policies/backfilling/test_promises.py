"""Conservative backfilling keeps its promises between passes: they equal recomputed ones, also under a budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from tests.contract.cases import scenario_of
from tests.plugin.policies.harness import NO_CONTENTION

from cosched_emulator import prepare, simulate
from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.manager.agenda import Agenda
from cosched_emulator.manager.manager import Manager
from cosched_emulator.run.loop import Simulation
from cosched_emulator.run.run import Finished, run
from cosched_emulator.workload.job import WorkloadJob
from cosched_plugin.config import choose
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.core.views.view import View
from cosched_plugin.core.work import Work
from cosched_plugin.parts import prices
from cosched_plugin.policies.planning.profile import FOREVER_US, CountProfile, Promises, Timeline
from cosched_plugin.protocol.messages import CUT_SHORT, Action, Event, JobSpec, NodeClass, Welcome

DEAREST = max(prices.TURN.units(), prices.PROMISE.units())

# ---------------------------------------------------------------- timelines


def plain(timeline: Timeline) -> list[int]:
    """Return what is free at each of the first instants; the last value lasts for ever."""
    return [timeline.values[timeline.step_at(at_us)] for at_us in range(LAST_US + 1)]


LAST_US = 120


def drawn(random: Random) -> tuple[Timeline, list[int]]:
    """Return a timeline after random reservations, and the same as a plain list."""
    timeline = Timeline([(0, 4), (10, 12), (30, 16)])
    free = [4] * 10 + [12] * 20 + [16] * (LAST_US - 29)
    for _ in range(random.randrange(60)):
        start = random.randrange(90)
        end = random.randrange(start + 1, 100)
        amount = -random.choice((3, 2, 1, 1))
        if min(free[start:end]) + amount >= 0:
            timeline.add(start, end, amount)
            free[start:end] = [value + amount for value in free[start:end]]
    return timeline, free


def first_fit(free: Sequence[int], need: int, span: int, until: int) -> int | None:
    """Return the first instant before ``until`` from which ``need`` is free for ``span``; the last value lasts for ever."""
    for start in range(until):
        if all(free[min(at, LAST_US)] >= need for at in range(start, start + span)):
            return start
    return None


@pytest.mark.by_default(4)
@pytest.mark.parametrize("seed", range(8))
def test_promises_are_kept_or_made_anew_one_by_one(seed: int) -> None:
    """Many that fit are reserved together, and others in lists: what each gets is what those before it leave."""
    random = Random(f"renewed {seed}")
    new = 0
    for _ in range(20):
        timeline, free = drawn(random)
        free += [free[-1]] * 2_000
        now_us = random.randrange(3)
        jobs = [(random.randrange(1, 18), random.randrange(1, 20), random.randrange(40)) for _ in range(60)]
        jobs += [(1, 1, 100 + place) for place in range(60)]  # they fit
        profile = CountProfile.__new__(CountProfile)
        profile.timeline, profile._view = timeline, cast(View, SimpleNamespace(now_us=now_us))
        needs, spans, starts = np.array(jobs, np.int64).T
        renewed = profile.renew(Promises([], {}, range(len(jobs)), needs, spans, starts), Work())
        for number, (need, span, promised) in enumerate(jobs):
            start: int | None = promised
            if promised < now_us or min(free[promised : promised + span]) < need:
                start = next((at for at in range(1_900) if min(free[at : at + span]) >= need), None)
                assert renewed.pop(number) == (None if start is None else (start,))
                new += 1
            if start is None:
                continue
            free[start : start + span] = [value - need for value in free[start : start + span]]
        assert not renewed
        assert plain(profile.timeline) == free[: LAST_US + 1]
    assert new > 100


@pytest.mark.parametrize("seed", range(8))
def test_a_timeline_agrees_with_a_search_over_all_instants(seed: int) -> None:
    random = Random(f"timeline {seed}")
    for _ in range(25):
        timeline, free = drawn(random)
        assert plain(timeline) == free
        assert all(a < b for a, b in zip(timeline.times, timeline.times[1:], strict=False))
        for _ in range(10):
            need, span = random.randrange(1, 18), random.randrange(1, 50)
            assert timeline.earliest(need, span) == first_fit(free, need, span, LAST_US + 1)
        jobs = []
        for _ in range(20):
            need, span, own = random.randrange(1, 9), random.randrange(1, 30), random.randrange(0, 60)
            if min(free[own : own + span]) >= need:
                timeline.add(own, own + span, -need)
                free[own : own + span] = [value - need for value in free[own : own + span]]
                jobs.append((need, span, own))
        expected = []
        for need, span, own in jobs:
            lifted = [value + need * (own <= at < own + span) for at, value in enumerate(free)]
            expected.append(first_fit(lifted, need, span, own))
            assert timeline.sooner(need, span, own, 0) == expected[-1]
        for number, (need, span, own) in enumerate(jobs):
            columns = np.array([span]), np.array([own])
            found = expected[number]
            assert timeline.soonest(need, *columns).tolist() == [own if found is None else found]


def test_reservations_together_equal_reservations_one_by_one() -> None:
    random = Random("at once")
    refused = 0
    for _ in range(60):
        timeline, _ = drawn(random)
        other = deepcopy(timeline)
        starts = [random.randrange(90) for _ in range(random.randrange(1, 12))]
        ends = [random.randrange(start + 1, 101) for start in starts]
        needs = [random.randrange(1, 4) for _ in starts]
        for start, end, need in zip(starts, ends, needs, strict=True):
            other.add(start, end, -need)
        before = plain(timeline)
        if timeline.add_all(np.array(starts), np.array(ends), -np.array(needs)):
            assert plain(timeline) == plain(other)
        else:
            refused += 1
            assert min(plain(other)) < 0
            assert plain(timeline) == before
    assert 10 < refused < 50


def test_changes_turn_one_timeline_into_another() -> None:
    random = Random("changes")
    for _ in range(40):
        (before, _), (after, free) = drawn(random), drawn(random)
        if random.random() < 0.5:
            after.add(40, FOREVER_US, 2)
            free = plain(after)
        for change in after.changes(before):
            assert change.amount
            before.add(*change)
        assert plain(before) == free
        assert after.changes(before) == []


# ---------------------------------------------------------------- a budget


class Watching(DirectLink):
    """A link that counts the work of each decision, and may compare it with a core made from the inventory just before."""

    def __init__(self, factory: Callable[[Welcome], SchedulerCore], *, shadow: bool) -> None:
        super().__init__(factory)
        self._factory = factory
        self._shadow = shadow
        self._inventory: Callable[[], Welcome] | None = None
        self.left: list[int] = []
        self.without = 0  # jobs without a promise after a decision

    def open(self, inventory: Callable[[], Welcome]) -> None:
        self._inventory = inventory
        super().open(inventory)

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        assert self._inventory is not None
        shadow = self._factory(self._inventory()) if self._shadow else None
        actions = list(super().exchange(seq, now_us, events))
        assert isinstance(self.scheduler, SchedulerCore)
        view = self.scheduler.view
        self.left.append(view.work.left)
        self.without += sum(view.note(job.id, "promise") is None for job in view.queue)
        if shadow is not None:
            assert shadow.handle(now_us, events) == actions, f"batch {seq}"
            assert shadow.view.work.left == view.work.left, f"batch {seq}"
        return actions


def played(preset: str, table: dict[str, Any], units: int, *, shadow: bool) -> tuple[Finished, Watching]:
    settings = ("budget=counted", f"budget.units={units}")
    link = Watching(choose(preset, settings).scheduler, shadow=shadow)
    return run(prepare(table), link), link


@pytest.mark.by_default(5)
@pytest.mark.parametrize(
    ("preset", "scenario"),
    [
        ("conservative", "plain"),
        pytest.param("conservative", "mixed", marks=pytest.mark.slow),  # as "plain", with memory
        ("conservative", "swf"),
        ("conservative", "lublin"),
        ("ssp", "statistical"),
        ("conservative-starts", "swf"),
    ],
)
@pytest.mark.parametrize("units", [1, 300])
def test_under_a_small_budget_all_jobs_run_and_a_restart_changes_nothing(
    preset: str, scenario: str, units: int, tmp_path: Any
) -> None:
    table = scenario_of(scenario, tmp_path)
    finished, link = played(preset, table, units, shadow=True)
    assert {record.state for record in finished.records} <= {"COMPLETED", "TIMEOUT", "CANCELLED", "REJECTED"}
    assert finished.refused == 0
    # The last payment may exceed what is left.
    assert -DEAREST < min(link.left) <= units // 2, "the work allowed was always enough"


@pytest.mark.parametrize("units", [1, 2, 100, 2000])
def test_a_job_that_the_nodes_in_service_cannot_hold_is_not_examined_repeatedly(units: int, tmp_path: Any) -> None:
    """Such a job takes no budget from the jobs behind it and causes no wake, so a run without other events ends."""
    rows = [(1, 0, 1), (2, 60, 4), (3, 61, 4), (4, 70, 1)]  # job, submission, processes
    lines = [f"{job} {at} -1 100 {size} -1 -1 {size} 120 -1 1 1 1 1 1 -1 -1 -1\n" for job, at, size in rows]
    (tmp_path / "few.swf").write_text("; MaxProcs: 4\n" + "".join(lines))
    table = {
        "cluster": {"nodes": 4, "cores": 1},
        "workload": {"swf": str(tmp_path / "few.swf")},
        "script": [{"at_s": 30.0, "do": "fail-node", "node": 3}],
    }
    finished, _ = played("conservative", table, units, shadow=True)
    assert finished.unfinished == [2, 3]
    assert finished.batches < 20


@pytest.mark.parametrize("units", [1, 2])
def test_no_wake_every_microsecond_while_a_job_is_overdue(units: int, tmp_path: Any) -> None:
    finished, _ = played("ssp", scenario_of("statistical", tmp_path), units, shadow=False)
    assert not finished.unfinished
    assert finished.batches < 2000


@pytest.mark.parametrize("scenario", ["swf", pytest.param("plain", marks=pytest.mark.slow)])
def test_a_large_budget_gives_the_schedule_without_a_budget(scenario: str, tmp_path: Any) -> None:
    table = scenario_of(scenario, tmp_path)
    finished, link = played("conservative", table, 10**9, shadow=False)
    free = simulate(table, "conservative")
    assert finished.records == free.records
    assert link.without == 0


class LateAgenda(Agenda):
    """A manager that is busy: events reach the scheduler at full hundreds only."""

    def next_us(self) -> int | None:
        due_us = super().next_us()
        return None if due_us is None else -(-due_us // 100) * 100


@pytest.mark.by_default(4)
@pytest.mark.parametrize("preset", ["conservative", "conservative-starts"])
@pytest.mark.parametrize("seed", range(8))
def test_batches_may_come_later_than_a_start_that_was_promised_and_exchanged(preset: str, seed: int) -> None:
    """What a job leaves that moved to the present after the budget was spent may lie in the past when the next batch comes."""
    random = Random(f"late {seed}")
    at_us = 0
    jobs = []
    for number in range(1, 61):
        at_us += random.choice((0, 0, 10, 50))
        run_us = random.randint(1, 400)
        spec = JobSpec(number, at_us, random.choice((1, 2, 3, 5, 6)), run_us + random.choice((0, 0, 5, 100, 600)))
        jobs.append(WorkloadJob(spec, run_us, None, number))
    manager = Manager([NodeClass(6, 1, 1, 1, 0, 0, 0, 0)], NO_CONTENTION, None)
    link = Watching(choose(preset, ("budget=counted", "budget.units=200")).scheduler, shadow=True)
    records = Simulation(manager, LateAgenda(manager, jobs), link).run()
    manager.check()
    assert [record.state for record in records] == ["COMPLETED"] * len(jobs)


# ---------------------------------------------------------------- where counts are not enough


def choosy_jobs(random: Random) -> list[WorkloadJob]:
    """Draw jobs that run shorter or longer than estimated; some request memory or whole nodes."""
    at_us = 0
    jobs = []
    for number in range(1, 71):
        at_us += random.choice((0, 10, 50))
        run_us = random.randint(1, 400)
        estimate_us = max(1, run_us + random.choice((0, 0, 5, 100, 600, -20)))
        wishes: dict[str, Any] = random.choice(
            ({}, {"memory_mb": 900}, {"memory_mb": 2000}, {"exclusive": True}, {"ppn_max": 1})
        )
        spec = JobSpec(number, at_us, random.choice((1, 2, 3, 5, 6)), estimate_us, **wishes)
        jobs.append(WorkloadJob(spec, run_us, None, number))
    return jobs


@pytest.mark.by_default(5)
@pytest.mark.parametrize("policy", ["conservative", "conservative-starts"])
@pytest.mark.parametrize("settings", [(), ("budget=counted", "budget.units=200")])
@pytest.mark.parametrize("seed", range(4))
def test_with_planned_nodes_a_restart_changes_nothing(seed: int, settings: tuple[str, ...], policy: str) -> None:
    jobs = choosy_jobs(Random(f"choosy {seed}"))
    manager = Manager([NodeClass(6, 1, 4, 1, 4000, 0, 0, 0)], NO_CONTENTION, None)
    link = Watching(choose(policy, settings).scheduler, shadow=True)
    records = Simulation(manager, Agenda(manager, jobs), link).run()
    manager.check()
    assert [record.state for record in records] == ["COMPLETED"] * len(jobs)
    waited = sum(record.intervals[0].start_us > record.job.spec.submit_us for record in records)
    assert waited > len(jobs) / 2
    assert bool(link.without) == bool(settings)
    assert isinstance(manager.notes.get(None, CUT_SHORT), int) == bool(settings)
