"""The order by class with aging, compared with the reference; and the mean wait that aging uses."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest
from tests.plugin.policies.cases import NOW_US
from tests.plugin.policies.lomarc.lomarc_cases import (
    GOOD,
    SECOND_US,
    decisions,
    hyperthreaded,
    spec_of,
    view_of,
    welcome,
)
from tests.reference.lomarc import class_order

from cosched_hwmodel.units import NodeSet
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.core.views.view import View
from cosched_plugin.core.views.virtual_machine import VirtualMachine
from cosched_plugin.policies import orders
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.policies.lomarc.queue_table import Future, JobTable, QueueTable
from cosched_plugin.protocol.limits import INT64_MAX, MAX_SPAN_US
from cosched_plugin.protocol.messages import JobEnded, JobSpec, JobSubmitted, Note, StartJob
from cosched_plugin.protocol.values import note_travels

HOUR_S = 3600
NODES = hyperthreaded(2)


def arranged(jobs: list[JobSpec], now_us: int, *, age_s: float = 0.0, seen: orders.History | None = None) -> list[int]:
    notes = [] if seen is None else [Note(None, orders.NOTE, seen.note())]
    view = view_of(welcome(NODES, GOOD, jobs, notes=notes)._replace(now_us=now_us))
    return [job.id for job in orders.ClassPriority(age_s=age_s).arrange(view.queue, view)]


@pytest.mark.parametrize("seed", range(30))
def test_the_order_agrees_with_the_reference(seed: int) -> None:
    random = Random(seed)
    now_us = random.randint(0, 4 * HOUR_S) * SECOND_US
    seconds = (1, 59, 60, 61, 600, HOUR_S, HOUR_S + 1, 20 * HOUR_S)
    jobs = [
        spec_of(number, 1, random.choice(seconds), None, random.randint(0, now_us // SECOND_US) * SECOND_US)
        for number in range(1, 20)
    ]
    jobs.sort(key=lambda job: (job.submit_us, job.id))
    plain = [(job.id, job.submit_us, Fraction(job.estimate_us, SECOND_US)) for job in jobs]
    mean_us = random.choice((0, 1, HOUR_S * SECOND_US // 2, HOUR_S * SECOND_US, 10 * HOUR_S * SECOND_US))
    seen = orders.History(mean_us * 4, 0, orders.Tally(1, 1), orders.Tally(3, 1))
    assert arranged(jobs, now_us, seen=seen) == [one[0] for one in class_order(plain, now_us, mean_us)]
    assert arranged(jobs, now_us) == [one[0] for one in class_order(plain, now_us, None)]
    fixed = random.choice((1, 1800, HOUR_S))
    assert arranged(jobs, now_us, age_s=fixed, seen=seen) == [
        one[0] for one in class_order(plain, now_us, fixed * SECOND_US)
    ]


def test_an_example_of_aging_by_hand() -> None:
    """At 1000 s, with a mean wait of 300 s: the long job of 100 s has risen to the top, the medium one of 800 s has not risen."""
    now_us = 1000 * SECOND_US
    long_job = spec_of(1, 1, 5 * HOUR_S, None, 100 * SECOND_US)
    medium = spec_of(2, 1, 600, None, 800 * SECOND_US)
    short = spec_of(3, 1, 60, None, 900 * SECOND_US)
    jobs = [long_job, medium, short]
    assert arranged(jobs, now_us) == [3, 2, 1]
    assert arranged(jobs, now_us, seen=orders.History(600 * SECOND_US, 0, orders.Tally(), orders.Tally(2, 1))) == [
        1,
        3,
        2,
    ]
    # The long job has waited 900 s: one level at 500 s, which makes it the older of two medium ones.
    assert arranged(jobs, now_us, seen=orders.History(1000 * SECOND_US, 0, orders.Tally(), orders.Tally(2, 1))) == [
        3,
        1,
        2,
    ]
    assert arranged(jobs, now_us, age_s=1000.0) == [3, 2, 1]


def test_the_mean_wait_is_that_of_all_started_jobs() -> None:
    """One node. Jobs of 100, 100 and 50 s that come at 0, 20 and 30 s start at 0, 150 and 100 s: they wait 0, 130 and 70 s."""
    core = SchedulerCore(compose({"preset": "pss"}), welcome(hyperthreaded(1), GOOD, ())._replace(now_us=0))
    jobs = [
        spec_of(1, 1, 100, None, 0),
        spec_of(2, 1, 100, None, 20 * SECOND_US),
        spec_of(3, 1, 50, None, 30 * SECOND_US),
    ]
    for job in jobs:
        core.handle(job.submit_us, (JobSubmitted(job),))
    assert orders.history(core.view) == orders.History(0, 0, orders.Tally(), orders.Tally(1, 100 * SECOND_US))
    core.handle(100 * SECOND_US, (JobEnded(1, "COMPLETED"),))
    core.handle(150 * SECOND_US, (JobEnded(3, "COMPLETED"),))
    seen = orders.history(core.view)
    assert seen == orders.History(200 * SECOND_US, 0, orders.Tally(1, 50 * SECOND_US), orders.Tally(2, 200 * SECOND_US))
    assert seen.mean_wait_us == 200 * SECOND_US // 3


def test_a_pending_job_rises_by_the_mean_wait_of_earlier_jobs() -> None:
    """Two nodes. A short and a medium job start after 10 and 0 s; then a long one that has waited 11 s is two levels up."""
    now_us = NOW_US + 10 * SECOND_US
    short, long_job = spec_of(1, 1, 10, None), spec_of(2, 1, 2 * HOUR_S, None)
    medium = spec_of(3, 1, 600, None, now_us)
    told = welcome(hyperthreaded(2), GOOD, [short, long_job, medium])._replace(now_us=now_us)
    core = SchedulerCore(compose({"preset": "pss", "backfill": "none"}), told)
    started = [action.job_id for action in core.handle(now_us, ()) if isinstance(action, StartJob)]
    assert started == [1, 3]  # no job has waited so far: none rises
    assert orders.history(core.view).mean_wait_us == 5 * SECOND_US
    later = now_us + SECOND_US
    younger = spec_of(4, 1, 600, None, later)
    core.handle(later, (JobSubmitted(younger),))
    actions = core.handle(later + 1, (JobEnded(1, "COMPLETED"),))
    assert [action.job_id for action in actions if isinstance(action, StartJob)] == [2]


@pytest.mark.by_default(4)
@pytest.mark.parametrize("estimate_us", [3_649 * 24 * HOUR_S * SECOND_US, MAX_SPAN_US])
@pytest.mark.parametrize("jobs", [orders.Tally(), orders.Tally(1, 1), orders.Tally(457, INT64_MAX)])
def test_the_history_never_outgrows_the_wire(estimate_us: int, jobs: orders.Tally) -> None:
    """It summed waits and work without bound: a note beyond 64 bits ended this scheduler, and every one after it."""
    told, after = (
        Note(None, orders.NOTE, orders.History(INT64_MAX, 7, orders.Tally(3, INT64_MAX), jobs).note()),
        MAX_SPAN_US,
    )
    view = view_of(welcome(NODES, GOOD, (), notes=[told])._replace(now_us=after))
    seen = orders.history(view)
    job = spec_of(1, 2**30, 1, None, 0)._replace(estimate_us=estimate_us)
    for _ in range(3_000):
        seen = seen.plus([job], after)
        assert note_travels(orders.NOTE, seen.note())
        assert min(seen.waited_us, seen.since_us, *seen.short, *seen.longer) >= 0
        assert 0 <= seen.mean_wait_us <= INT64_MAX
    assert seen.longer.jobs > 0
    assert seen.since_us <= after


@pytest.mark.parametrize("preset", ["pss", "am", "lomarc-r"])
def test_a_scheduler_goes_on_with_the_largest_note_that_a_database_can_hold(preset: str) -> None:
    """The next start after such a note ended it, and every other one that was started in its place."""
    full = Note(None, orders.NOTE, (INT64_MAX, 0, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX))
    jobs = [spec_of(number, 1, 2 * HOUR_S, None) for number in range(1, 6)]
    core = SchedulerCore(compose({"preset": preset}), welcome(hyperthreaded(2), GOOD, jobs, notes=[full]))
    decided = core.handle(NOW_US, ())
    assert [action.job_id for action in decided if isinstance(action, StartJob)] == [1, 2]
    assert note_travels(orders.NOTE, core.view.note(None, orders.NOTE))


def test_a_history_that_forgets_half_keeps_its_means() -> None:
    """The mean wait, the work of a job and the jobs a second are what decisions use."""
    jobs, now_us = 1_000, 2_000 * HOUR_S * SECOND_US
    seen = orders.History(
        orders.MOST_US, 1_000 * HOUR_S * SECOND_US, orders.Tally(jobs, 4 * jobs), orders.Tally(3 * jobs, 12 * jobs)
    )
    after = seen.plus([spec_of(1, 1, HOUR_S, None, now_us - SECOND_US)], now_us)
    assert after == orders.History(
        orders.MOST_US // 2 + SECOND_US // 2, 1_500 * HOUR_S * SECOND_US, orders.Tally(500, 2_000), after.longer
    )
    assert after.longer == orders.Tally(3 * jobs // 2 + 1, (12 * jobs + HOUR_S * SECOND_US) // 2)
    assert abs(after.mean_wait_us - seen.mean_wait_us) < seen.mean_wait_us / jobs
    up_to_the_bound = seen.plus([spec_of(1, 1, HOUR_S, None, now_us)], now_us)
    assert up_to_the_bound.waited_us == orders.MOST_US  # ordinary sums are kept as they are


@pytest.mark.parametrize("value", [None, True, 7, (1, 2), (0, 0, 0, 0, 0, "x"), (0, 0, -1, 0, 0, 0)])
def test_an_invalid_history_note_is_ignored(value: object) -> None:
    told = welcome(NODES, GOOD, (), notes=[Note(None, "history", value)])  # type: ignore[arg-type]  # that is the point
    assert orders.history(view_of(told)) == orders.History()
    assert decisions(told, order="class-priority")[0] == []


def risen(jobs: list[JobSpec], now_us: int, note: orders.Lifts, age_s: float) -> list[int]:
    notes = [Note(None, orders.LIFTS, note.note())]
    view = view_of(welcome(NODES, GOOD, jobs, notes=notes)._replace(now_us=now_us))
    return [job.id for job in orders.OneRises(age_s=age_s).arrange(view.queue, view)]


def test_one_job_rises_at_a_time() -> None:
    """A job rises every 100 s from 1000 s on: first the oldest long job, twice, then the next one, never one that has not come."""
    second = SECOND_US
    first, other = spec_of(1, 1, 5 * HOUR_S, None, 0), spec_of(2, 1, 5 * HOUR_S, None, 500 * second)
    medium, short = spec_of(3, 1, 600, None, 1_350 * second), spec_of(4, 1, 10, None, 1_360 * second)
    jobs, since = [first, other, medium, short], orders.Lifts(last_us=1_000 * second)
    assert risen(jobs, 1_360 * second, since, 1e9) == [4, 3, 1, 2]
    assert risen(jobs, 1_360 * second, since, 200) == [4, 1, 3, 2]
    assert risen(jobs, 1_360 * second, since, 100) == [1, 4, 2, 3]  # by 2, and the third time the other one
    assert risen(jobs, 1_400 * second, since, 100) == [1, 2, 4, 3]
    assert risen([medium, short], 1_400 * second, since, 100) == [3, 4]  # at 1400 s; before, none of them had come
    assert since.later([medium], 100 * second, 1_390 * second).levels == {}
    assert risen(jobs, 1_360 * second, orders.Lifts(last_us=1_360 * second, levels={2: 2}), 100) == [2, 4, 3, 1]


def test_who_has_risen_is_noted_when_jobs_start() -> None:
    """Two nodes. A wide job holds them; of two long ones the older one rises after 5 and 10 s, and starts before the medium one."""
    core = SchedulerCore(
        compose({"preset": "pss", "order": {"name": "class-one-rises", "age_s": 5}, "backfill": "none"}),
        welcome(hyperthreaded(2), GOOD, ())._replace(now_us=SECOND_US),
    )
    jobs = [
        spec_of(1, 2, 100, None, SECOND_US),
        *(spec_of(number, 2, 2 * HOUR_S, None, 2 * SECOND_US) for number in (2, 3)),
        spec_of(4, 2, 600, None, 12 * SECOND_US),
    ]
    for job in jobs:
        core.handle(job.submit_us, (JobSubmitted(job),))
    assert orders.lifts(core.view) == orders.Lifts(
        orders.History(0, SECOND_US, orders.Tally(), orders.Tally(1, 200 * SECOND_US)), SECOND_US
    )
    at_us = 18 * SECOND_US
    actions = core.handle(at_us, (JobEnded(1, "COMPLETED"),))
    assert [action.job_id for action in actions if isinstance(action, StartJob)] == [2]
    assert orders.lifts(core.view)[1:] == (16 * SECOND_US, {3: 1})  # of three lifts the started job has taken two


@pytest.mark.parametrize(
    "value", [None, 7, (1, 2, 3, 4), ((), 1, (1,), ()), ((), 1, (1,), ("x",)), ((), 1, (1.5,), (1,))]
)
def test_an_invalid_note_of_lifts_is_ignored(value: object) -> None:
    told = welcome(NODES, GOOD, (), notes=[Note(None, orders.LIFTS, value)])  # type: ignore[arg-type]  # that is the point
    assert orders.lifts(view_of(told)) == orders.Lifts()


def test_the_note_of_lifts_is_bounded() -> None:
    jobs = [spec_of(number, 1, 5 * HOUR_S, None, 0) for number in range(1, orders.MOST_LIFTED + 50)]
    found = orders.Lifts(last_us=1).later(jobs, 1, MAX_SPAN_US)
    assert [*found.levels] == [job.id for job in jobs[: orders.MOST_LIFTED]]
    assert note_travels(orders.LIFTS, found.note())


def test_jobs_age_by_wall_time() -> None:
    """A class's own clock stops during other slices, but the wait of pending jobs counts."""
    now_us = 5 * HOUR_S * SECOND_US
    jobs = [spec_of(1, 1, 600, None, HOUR_S * SECOND_US), spec_of(2, 1, 60, None, 4 * HOUR_S * SECOND_US)]
    seen = orders.History(
        2 * HOUR_S * SECOND_US, 0, orders.Tally(), orders.Tally(1, 1)
    ).note()  # a mean wait of two hours
    machine = VirtualMachine(
        view_of(welcome(NODES, GOOD, jobs, notes=[Note(None, orders.NOTE, seen)])._replace(now_us=now_us)), 0, now_us
    )
    machine.turn_to(600 * SECOND_US, NodeSet(0b11), lambda at_us: at_us + now_us - 600 * SECOND_US)
    assert machine.now_us == 600 * SECOND_US
    assert [job.id for job in orders.ClassPriority().arrange(machine.queue, machine)] == [
        1,
        2,
    ]  # after four hours it has risen
    # Arrivals, too, count by wall time.
    busy = [spec_of(number, 2, 9000, None, 0) for number in (1, 2)]
    plain = view_of(welcome(NODES, GOOD, busy)._replace(now_us=now_us))
    sliced = VirtualMachine(plain, 0, now_us)
    sliced.turn_to(600 * SECOND_US, NodeSet(0b11), lambda at_us: at_us + now_us - 600 * SECOND_US)

    def future(jobs: list[JobSpec], view: View) -> Future:
        return QueueTable(jobs, JobTable()).future(view)

    assert future(sliced.queue, sliced) == future(plain.queue, plain) != future(busy[:1], plain)
