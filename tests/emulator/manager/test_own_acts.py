"""What a difficult manager does by itself, and what becomes of starts and ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
from tests.emulator.manager.test_lags import lags, told
from tests.emulator.parts import Player, at_once, at_times, job, manager, play, start
from tests.runs import runs_on

from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.manager.difficult import DifficultAgenda, DifficultManager
from cosched_emulator.manager.manager import Manager
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.run.loop import Simulation
from cosched_emulator.scenario.difficult_manager import NO_LAGS, OwnPlan
from cosched_emulator.workload.job import WorkloadJob
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.protocol import messages as m

both = pytest.mark.parametrize("contention", [False, True])


def acting(
    every_us: Mapping[str, float], jobs: Sequence[WorkloadJob], on: Manager, answer: Callable[..., Any] = at_once
) -> tuple[Player, dict[int, JobRecord], int]:
    """Run a simulation in which the manager acts by itself; return how often a scheduler took over its state, too."""
    assert isinstance(on, DifficultManager)
    plan: Any = OwnPlan(1, every_us, 50.0)  # type: ignore[arg-type]
    player, opened = Player(answer), 0

    def take_over(_welcome: m.Welcome) -> Player:
        nonlocal opened
        opened += 1
        return player

    def checked() -> m.Welcome:
        on.check()
        return on.inventory()

    player.inventory = checked
    records = Simulation(on, DifficultAgenda(on, jobs, acts=plan), DirectLink(take_over)).run()
    return player, {record.job.spec.id: record for record in records}, opened


def events_of(player: Player, kind: type) -> list[Any]:
    return [event for _, _, events in player.batches for event in events if isinstance(event, kind)]


@both
def test_a_start_that_is_refused_late_leaves_the_job_pending(contention: bool) -> None:
    fates = lags(0, 10, refused=1.0)
    on = manager(contention=contention, lags=fates)
    player, _, records = play(at_times(at_0=[start(2), start(1, mask=2)]), [job(1), job(2, 0)], on=on)
    reason = "job {} did not start after all"
    assert told(player)[1] == (
        10,
        (m.ActionRefused(1, 1, reason.format(1), (1,)), m.ActionRefused(1, 0, reason.format(2), (2,))),
    )
    assert [each.spec.id for each in on.inventory().pending] == [1, 2]
    assert (records[1].intervals, records[1].state) == ((), "PENDING")


@both
def test_a_job_starts_elsewhere_on_an_empty_node(contention: bool) -> None:
    fates = lags(0, 10, elsewhere=1.0)
    player, _, records = play(at_times(at_0=[start(1)]), [job(1)], on=manager(contention=contention, lags=fates))
    there = runs_on((1, 1, 1, 1))
    assert told(player)[1] == (10, (m.JobStarted(1, 10, there, 100, None),))
    assert [stay[:3] for stay in records[1].intervals] == [(10, 110, there)]


def idle(_now_us: int, _events: Sequence[m.Event]) -> list[m.Action]:
    return []


@both
def test_the_manager_starts_jobs_even_some_that_the_scheduler_never_heard_of(contention: bool) -> None:
    jobs = [job(number, number, 300) for number in range(1, 5)]
    on = manager(contention=contention, lags=lags(200))
    player, records, _ = acting({"start": 40.0}, jobs, on, idle)
    started = events_of(player, m.JobStarted)
    unheard = [event for event in started if event.job is not None]
    assert unheard
    assert all(event.job == jobs[event.job_id - 1].spec for event in unheard)
    submitted = {event.job.id for event in events_of(player, m.JobSubmitted)}
    assert submitted.isdisjoint({event.job_id for event in unheard})
    assert {event.job_id for event in started} == {job_id for job_id, record in records.items() if record.intervals}


@both
def test_the_manager_suspends_jobs_and_resumes_them(contention: bool) -> None:
    jobs = [job(number, 0, 400) for number in range(1, 3)]
    player, records, _ = acting({"suspend": 90.0}, jobs, manager(contention=contention, lags=NO_LAGS))
    suspended, resumed = events_of(player, m.JobSuspended), events_of(player, m.JobResumed)
    assert suspended
    assert [event.job_id for event in suspended] == [event.job_id for event in resumed]
    assert any(running.held for inventory in player.inventories for running in inventory.running)
    assert all(record.state == m.COMPLETED for record in records.values())
    assert sum(record.suspended_us for record in records.values()) == sum(
        after.at_us - before.at_us for before, after in zip(suspended, resumed, strict=True)
    )


def test_only_the_manager_resumes_a_job_that_it_has_suspended() -> None:
    on = manager(lags=NO_LAGS)
    on.accept(job(1))
    on.apply(0, [m.JobSubmitted(job(1).spec)])
    on.carry_out(1, 0, [start(1)])
    on.apply(5, [m.JobSuspended(1, 5)])
    (refused,) = on.carry_out(2, 6, [m.ResumeJob(1)])
    assert "the manager has suspended job 1, and it alone resumes it" in str(refused)
    on.apply(7, [m.JobResumed(1, 7)])
    assert not on.inventory().running[0].held


@both
def test_the_manager_modifies_pending_jobs_and_revises_running_ones(contention: bool) -> None:
    long_us = 100 * SECOND_US
    jobs = [job(number, 0, long_us, limit_us=3 * long_us) for number in range(1, 4)]
    on = manager(contention=contention, lags=NO_LAGS)
    every = {"modify": float(SECOND_US), "revise": 5.0 * SECOND_US}
    starts = [start(1, limit_us=3 * long_us), start(2, mask=2, limit_us=3 * long_us)]  # job 3 never starts
    player, records, _ = acting(every, jobs, on, at_times(at_0=starts))
    modified, revised = events_of(player, m.JobModified), events_of(player, m.JobRevised)
    assert {event.job.id for event in modified} == {3}
    assert records[3].job.spec == modified[-1].job
    assert {event.job_id for event in revised} <= {1, 2}
    assert revised[-1].limit_us == records[revised[-1].job_id].limit_us
    of_one = [event.limit_us for event in revised if event.job_id == 1]
    assert any(later < before for before, later in pairwise(of_one))  # a limit may fall


def test_a_restart_has_the_scheduler_take_over_anew() -> None:
    player, records, opened = acting({"restart": 30.0}, [job(1, 0, 500), job(2, 200, 100)], manager(lags=NO_LAGS))
    assert opened > 3
    assert all(record.state == m.COMPLETED for record in records.values())
    assert len(player.batches) == 4  # a restart is no batch
