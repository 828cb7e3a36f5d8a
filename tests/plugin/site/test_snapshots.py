"""What has happened between two looks: a scheduler that is told it stands where one stands that begins with the second look."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from hypothesis import strategies as st
from tests.properties import drawn

from cosched_hwmodel.units import SECOND_US, ThreadMask
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.core.views.view import View
from cosched_plugin.protocol import messages as m
from cosched_plugin.site.snapshots import (
    PENDING,
    RUNNING,
    SUSPENDED,
    PolledJob,
    Rules,
    Snapshot,
    events_between,
    with_threads,
)
from cosched_plugin.testing.comparisons import find_difference

NODES: Final = 16
WIDTH: Final = 4
THEN_US: Final = 1_000 * SECOND_US
NOW_US: Final = 2_000 * SECOND_US
MACHINE: Final = m.NodeClass(NODES, 1, WIDTH, 1, 1_000, 0, 0, 0, swap_mb=1_000)


class Nobody:
    """A policy that decides nothing."""

    def decide(self, view: View) -> Iterator[m.Action]:
        return iter(())


def spec(number: int, processes: int = 2, limit_us: int | None = None, submit_us: int = 5) -> m.JobSpec:
    return m.JobSpec(number, submit_us, processes, 600 * SECOND_US, limit_us)


def on(node: int, processes: int = 2) -> tuple[m.Run, ...]:
    return (m.Run(node, 1, ThreadMask((1 << processes) - 1), processes),)


def welcome(look: Snapshot, now_us: int, back: dict[int, int] | None = None) -> m.Welcome:
    """Return the welcome of a manager that shows this; ``back`` says when jobs came back from disk."""
    running = [
        m.RunningJob(
            seen.spec,
            seen.start_us,
            seen.runs,
            (seen.estimate_us or seen.spec.estimate_us) + seen.idle_us,
            None if seen.limit_us is None else seen.limit_us + seen.idle_us,
            seen.since_us if seen.state == SUSPENDED else None,
            idle_us=seen.idle_us,
            on_disk=seen.state == SUSPENDED and seen.to_disk,
            ready_us=(back or {}).get(seen.spec.id, 0),
            held=seen.state == SUSPENDED,
        )
        for _, seen in sorted(look.jobs.items())
        if seen.state in (RUNNING, SUSPENDED)
    ]
    waiting = [seen for seen in look.jobs.values() if seen.state == PENDING]
    waiting.sort(key=lambda seen: (seen.spec.submit_us, seen.spec.id))
    pending = [m.PendingJob(seen.spec, seen.held) for seen in waiting]
    belief = m.Belief("none", "bulk-synchronous", ())
    places = (tuple(sorted(look.down)), belief, tuple(running), tuple(pending), (), ())
    return m.Welcome(m.PROTOCOL_VERSION, m.FEATURES, 0, now_us, (MACHINE,), *places)


def draw_seen(random: Random, number: int, free: list[int], now_us: int, was: PolledJob | None) -> PolledJob | None:
    """Draw a job at a look: at the second one it may be what it was, with some of it changed."""
    kind = random.choice(("none", PENDING, PENDING, RUNNING, RUNNING, RUNNING, SUSPENDED, m.COMPLETED, m.FAILED))
    kept = was is not None and was.state in (RUNNING, SUSPENDED) and random.random() < 0.7
    if kind == "none":
        return None
    limit_us = random.choice((None, 900 * SECOND_US))
    described = spec(number, random.choice((1, 2, 4)), limit_us)._replace(name=random.choice(("", "mesh")))
    if was is not None and random.random() < 0.6:
        described = was.spec
    if kind not in (RUNNING, SUSPENDED):
        return PolledJob(described, kind, kind == PENDING and random.random() < 0.4)
    node = free.pop()
    runs = on(node, described.processes)
    start_us = random.randint(described.submit_us, now_us)
    if kept and was is not None and was.runs == on(was.runs[0].first, described.processes):
        free.append(node)
        runs, start_us = was.runs, was.start_us
    earliest_us = max(start_us, 0 if was is None else was.since_us)
    since_us = 0 if kind == RUNNING else random.randint(earliest_us, now_us)
    return PolledJob(
        described,
        kind,
        start_us=start_us,
        runs=runs,
        estimate_us=random.choice((0, described.estimate_us, 700 * SECOND_US)),
        limit_us=None if described.limit_us is None else random.choice((900 * SECOND_US, 1_200 * SECOND_US)),
        since_us=since_us,
        to_disk=kind == SUSPENDED and random.random() < 0.4,
    )


def draw_look(random: Random, now_us: int, before: Snapshot | None) -> Snapshot:
    free = list(range(NODES))
    random.shuffle(free)
    if before is not None:  # what a job holds that stays where it was
        held = {seen.runs[0].first for seen in before.jobs.values() if seen.runs}
        free = [node for node in free if node not in held]
    jobs = {}
    for number in range(1, 9):
        was = None if before is None else before.jobs.get(number)
        if was is not None and was.state not in (PENDING, RUNNING, SUSPENDED):
            continue  # ids are never used again
        seen = draw_seen(random, number, free, now_us, was)
        if seen is not None:
            jobs[number] = seen
    return Snapshot(jobs, frozenset(random.sample(range(NODES), random.choice((0, 0, 2)))))


def settled(before: Snapshot, after: Snapshot) -> tuple[Snapshot, dict[int, int]]:
    """Return the second look with what only the first one tells (estimates that stay, time suspended), and who came back from disk."""
    jobs = {}
    back = {}
    for number, seen in after.jobs.items():
        was = before.jobs.get(number)
        estimate_us = seen.estimate_us or seen.spec.estimate_us
        idle_us = 0
        if was is not None and was.runs and (was.runs, was.start_us) == (seen.runs, seen.start_us):
            estimate_us = seen.estimate_us or was.estimate_us or was.spec.estimate_us
            goes_on = (was.since_us, was.to_disk) != (seen.since_us, seen.to_disk) or seen.state == RUNNING
            if was.state == SUSPENDED and goes_on:
                at_us = NOW_US if seen.state == RUNNING else seen.since_us
                idle_us = at_us - was.since_us
                if was.to_disk:
                    back[number] = at_us
        limit_us = None if seen.spec.limit_us is None else seen.limit_us or seen.spec.limit_us
        jobs[number] = seen._replace(estimate_us=estimate_us, limit_us=limit_us, idle_us=idle_us)
    return after._replace(jobs=jobs), back


@drawn(st.integers(0, 1 << 32), few=300, many=20_000)
def test_the_events_lead_from_the_first_look_to_the_second(seed: int) -> None:
    random = Random(seed)
    before, _ = settled(Snapshot({}), draw_look(random, THEN_US, None))
    after = draw_look(random, NOW_US, before)
    told = SchedulerCore(Nobody(), welcome(before, THEN_US))
    told.handle(NOW_US, events_between(before, after, NOW_US))
    told.check()
    now, back = settled(before, after)
    begun = SchedulerCore(Nobody(), welcome(now, NOW_US, back))
    begun.handle(NOW_US, [])
    assert find_difference(told.view, begun.view, {}) is None


def test_nothing_happens_between_two_looks_that_are_the_same() -> None:
    look = draw_look(Random(3), THEN_US, None)
    assert events_between(look, look, NOW_US) == []


def test_every_kind_of_change_is_drawn() -> None:
    kinds = set()
    for seed in range(100):
        random = Random(seed)
        before, _ = settled(Snapshot({}), draw_look(random, THEN_US, None))
        kinds |= {type(event) for event in events_between(before, draw_look(random, NOW_US, before), NOW_US)}
    assert kinds == {
        m.JobSubmitted, m.JobEnded, m.JobRequeued, m.JobHeld, m.JobReleased, m.JobStarted, m.JobModified,
        m.JobRevised, m.JobSuspended, m.JobResumed, m.NodeFailed, m.NodeReturned,
    }  # fmt: skip


def test_the_order_is_the_protocols() -> None:
    before = Snapshot(
        {
            1: PolledJob(spec(1), RUNNING, runs=on(0)),
            2: PolledJob(spec(2), PENDING),
            3: PolledJob(spec(3), RUNNING, runs=on(1)),
            4: PolledJob(spec(4), RUNNING, runs=on(2)),
            5: PolledJob(spec(5), PENDING, held=True),
            6: PolledJob(spec(6), RUNNING, runs=on(3)),
            7: PolledJob(spec(7), PENDING),
        },
        frozenset({9}),
    )
    after = Snapshot(
        {
            1: PolledJob(spec(1), m.COMPLETED),
            2: PolledJob(spec(2), SUSPENDED, start_us=THEN_US, runs=on(4), since_us=NOW_US - 1),
            3: PolledJob(spec(3, submit_us=NOW_US), PENDING, held=True, restarts=1),
            4: PolledJob(spec(4), SUSPENDED, runs=on(2), since_us=THEN_US),
            5: PolledJob(spec(5)._replace(name="mesh"), PENDING),
            6: PolledJob(spec(6), RUNNING, runs=on(3), estimate_us=5 * SECOND_US),
            8: PolledJob(spec(8, submit_us=NOW_US + 7), PENDING),
        },
        frozenset({8}),
    )
    assert events_between(before, after, NOW_US) == [
        m.JobEnded(1, m.COMPLETED),
        m.JobEnded(7, m.UNKNOWN),
        m.NodeFailed(8),
        m.NodeReturned(9),
        m.JobRequeued(3),  # and the submission is the first one
        m.JobHeld(3),
        m.JobModified(spec(5)._replace(name="mesh")),
        m.JobReleased(5),
        m.JobRevised(6, 5 * SECOND_US, None),
        m.JobSuspended(4, THEN_US),
        m.JobStarted(2, THEN_US, on(4), 600 * SECOND_US, None),
        m.JobSubmitted(spec(8, submit_us=NOW_US)),
        m.JobSuspended(2, NOW_US - 1),  # a little later
    ]


def test_what_differs_by_less_than_the_manager_can_tell_is_the_same() -> None:
    rules = Rules(grain_us=SECOND_US, limit_grain_us=60 * SECOND_US)
    limited = spec(1, limit_us=600 * SECOND_US)
    was = PolledJob(limited, RUNNING, start_us=THEN_US, runs=on(0), limit_us=630 * SECOND_US)
    seen = was._replace(start_us=THEN_US - SECOND_US, limit_us=660 * SECOND_US)
    assert events_between(Snapshot({1: was}), Snapshot({1: seen}), NOW_US, rules) == []
    again = seen._replace(restarts=1)
    later = seen._replace(start_us=THEN_US + SECOND_US + 1)
    longer = seen._replace(limit_us=700 * SECOND_US)
    for changed, kind in ((again, m.JobStarted), (later, m.JobStarted), (longer, m.JobRevised)):
        (event,) = events_between(Snapshot({1: was}), Snapshot({1: changed}), NOW_US, rules)
        assert isinstance(event, kind)


def test_a_start_to_come_by_the_managers_clock_is_told_once_as_now_and_once_as_it_was() -> None:
    rules = Rules(grain_us=SECOND_US)
    seen = PolledJob(spec(1), RUNNING, start_us=NOW_US + 60 * SECOND_US, runs=on(0))
    (started,) = events_between(Snapshot({1: seen._replace(state=PENDING, runs=())}), Snapshot({1: seen}), NOW_US)
    assert isinstance(started, m.JobStarted)
    assert started.start_us == NOW_US
    told = Snapshot({1: seen._replace(start_us=NOW_US)})
    assert events_between(told, Snapshot({1: seen}), NOW_US + 30 * SECOND_US, rules) == []
    (again,) = events_between(told, Snapshot({1: seen}), seen.start_us, rules)
    assert again == started._replace(start_us=seen.start_us)


def test_a_job_without_threads_has_those_of_its_plan_or_the_lowest() -> None:
    somewhere = ThreadMask(0)
    seen = Snapshot(
        {
            1: PolledJob(spec(1), RUNNING, runs=(m.Run(0, 1, somewhere, 2),)),  # as planned
            2: PolledJob(
                spec(2), RUNNING, runs=(m.Run(0, 1, somewhere, 1), m.Run(1, 1, somewhere, 1))
            ),  # planned elsewhere
            3: PolledJob(spec(3), RUNNING, runs=(m.Run(1, 1, ThreadMask(1), 1),)),
            4: PolledJob(spec(4), PENDING),
        }
    )
    plans = {1: (m.Run(0, 1, ThreadMask(6), 2),), 2: (m.Run(5, 2, ThreadMask(1), 1),)}
    jobs = with_threads(seen, plans, [WIDTH] * NODES).jobs
    assert jobs[1].runs == plans[1]
    assert jobs[2].runs == (m.Run(0, 1, ThreadMask(1), 1), m.Run(1, 1, ThreadMask(2), 1))
    assert jobs[3].runs == (m.Run(1, 1, ThreadMask(1), 1),)
    assert jobs[4] == seen.jobs[4]
