"""Runs ahead against the simulation whose state they begin with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

import cosched_emulator
from cosched_emulator.expected_starts.estimates import Estimating
from cosched_emulator.expected_starts.forecast import forecast
from cosched_emulator.expected_starts.history import DAY_US, History, PastRun
from cosched_plugin.config import PolicyChoice, choose
from cosched_plugin.protocol.messages import Action, Event, JobSpec, Welcome
from cosched_plugin.protocol.scheduler import Scheduler, SchedulerFactory

SPACE: dict[str, Any] = {"cluster": {"nodes": 32}, "workload": {"lublin": 400, "gap_factor": 0.5}}
SLICED: dict[str, Any] = {
    "cluster": {"preset": "g-lomarc-2x2", "nodes": 16},
    "workload": {"lublin": 120, "gap_factor": 0.3},
    "preemption": {"resume_s": 30.0},
}


class Watched:
    """A link that keeps the state before some batches."""

    def __init__(self, make: SchedulerFactory, every: int, states: list[Welcome]) -> None:
        self.make, self.every, self.states = make, every, states

    def open(self, inventory: Callable[[], Welcome]) -> None:
        self.inventory = inventory
        self.scheduler: Scheduler = self.make(inventory())

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        if seq % self.every == 0:
            self.states.append(self.inventory())
        return self.scheduler.handle(now_us, events)

    def close(self) -> None:
        pass


def simulated(table: dict[str, Any], policy: str, every: int) -> tuple[Any, list[Welcome]]:
    states: list[Welcome] = []
    return cosched_emulator.simulate(table, policy, link=lambda make: Watched(make, every, states)), states


@pytest.mark.parametrize(
    ("policy", "table"), [("easy", SPACE), ("sjbf", SPACE), ("conservative", SPACE), ("ssp", SLICED)]
)
def test_with_the_true_run_times_and_arrivals_the_true_starts_are_found(policy: str, table: dict[str, Any]) -> None:
    """Else the copy of the manager is not the manager, and an estimate would be wrong however much were known."""
    run, states = simulated(table, policy, 97)
    records = {record.job.spec.id: record for record in run.records}
    jobs = [record.job.spec for record in run.records]
    choice = choose(policy)
    compared = 0
    for state in states:

        def true_us(spec: JobSpec, _expected_us: int, elapsed_us: int, state: Welcome = state) -> int:
            lost_us = next((job.idle_us for job in state.running if job.spec.id == spec.id), 0) if elapsed_us else 0
            return int(records[spec.id].job.run_us + lost_us)

        pending = [job.spec.id for job in state.pending]
        later = [spec for spec in sorted(jobs, key=lambda spec: spec.submit_us) if spec.submit_us > state.now_us]
        ahead = forecast(state, choice.scheduler, true_us, pending, later, until_us=1 << 60)
        assert {job_id: start.at_us for job_id, start in ahead.starts.items()} == {
            job_id: records[job_id].intervals[0].start_us for job_id in pending if not records[job_id].starts > 1
        }
        compared += len(pending)
    assert compared > 20


def test_a_job_beside_another_takes_as_much_longer_as_the_core_expects() -> None:
    """LOMARC starts pairs: with the requests as run times, the runs ahead of the simulation's states find its starts."""
    shared = {
        "cluster": {"preset": "lomarc-ht", "nodes": 16},
        "workload": {"lublin": 150, "gap_factor": 0.3, "characteristics": "M1"},
        "truth": {"contention": "lomarc"},
    }
    run, states = simulated(shared, "lomarc-r", 41)
    records = {record.job.spec.id: record for record in run.records}
    later = sorted([record.job.spec for record in run.records], key=lambda spec: spec.submit_us)
    found, waits = [], []
    for state in states:
        pending = [job.spec.id for job in state.pending]
        coming = [spec for spec in later if spec.submit_us > state.now_us]
        ahead = forecast(
            state,
            choose("lomarc-r").scheduler,
            lambda _spec, expected, _elapsed: expected,
            pending,
            coming,
            until_us=1 << 60,
        )
        found += [abs(ahead.starts[job_id].at_us - records[job_id].intervals[0].start_us) for job_id in pending]
        waits += [records[job_id].intervals[0].start_us - state.now_us for job_id in pending]
    assert len(found) > 20
    assert sum(found) < 0.01 * sum(waits)


def test_a_run_that_is_cut_short_says_how_far_it_came() -> None:
    """Else a job beyond the budget would be told a start."""
    _, states = simulated(SPACE, "easy", 97)
    state = max(states, key=lambda state: len(state.pending))
    asked = iter(range(100))
    estimating = Estimating(state, choose("easy").scheduler, History(), 1, expired=lambda: next(asked) > 3)
    estimating.predict()
    last = estimating.of(state.pending[-1].spec.id)
    assert last is not None
    assert last.bound
    assert last.at_us > state.now_us
    assert last.runs == ()


def test_arrivals_go_on_day_after_day() -> None:
    """Else a queue that is a week long would be estimated as if nobody came any more."""
    history = History()
    for number in range(3 * 24):
        history.arrive(JobSpec(number + 1, number * DAY_US // 24, 1, 1000))
    now_us = 3 * DAY_US
    coming = history.arrivals(now_us, 500, 7)
    first = [next(coming) for _ in range(100)]
    assert [spec.id for spec in first] == [*range(500, 600)]
    times = [spec.submit_us for spec in first]
    assert times == sorted(times)
    assert now_us < times[0] <= now_us + DAY_US // 24
    assert times[-1] > now_us + 4 * DAY_US


def test_a_run_time_is_drawn_from_the_most_alike_that_are_still_possible() -> None:
    history = History()
    for user, request_us, ratio in [("a", 100, 0.5), ("a", 200, 0.25), ("b", 100, 0.9)]:
        history.end(PastRun(user, request_us, request_us, round(ratio * request_us)))
    job = JobSpec(1, 0, 1, 100, user="a")
    draws = [number / 10 for number in range(10)]
    assert {history.drawn_us(job, 100, 0, draw) for draw in draws} == {50}  # same user and request
    assert {history.drawn_us(job._replace(estimate_us=300), 300, 0, draw) for draw in draws} == {150, 75}  # the user's
    assert {history.drawn_us(job, 100, 60, draw) for draw in draws} == {90}  # others': a's jobs would have ended
    assert history.drawn_us(job, 100, 95, 0.5) == 190  # nobody's: as long again
    assert history.drawn_us(job, 200, 0, 0.5) == 100  # beside a neighbour that makes it take twice as long
    assert history.predicted_us(job, 100, 0) == 50
    assert history.predicted_us(job, 100, 60) == 120


def test_nothing_of_a_draw_depends_on_other_jobs() -> None:
    """Else an estimate would jump with each submission."""
    _, states = simulated(SPACE, "fcfs", 97)
    state = max(states, key=lambda state: len(state.pending))
    history = History()
    for number in range(50):
        history.end(PastRun("", 1000, 1000, 20 * number + 1))
    make = partial(PolicyChoice.scheduler, choose("fcfs"))
    found = []
    for count in (len(state.pending), len(state.pending) - 3):
        estimating = Estimating(state._replace(pending=state.pending[:count]), make, history, 5)
        for _ in range(4):
            estimating.draw()
        found.append(estimating.all())
    assert {job_id: found[0][job_id] for job_id in found[1]} == found[1]
