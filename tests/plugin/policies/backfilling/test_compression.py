"""Compression of promises finds every job that can start sooner, and gives the schedule of sweeps over the whole queue."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from scripts.papers.study import LOGS
from tests.reference.conservative_log import LogJob, conservative_starts

from cosched_emulator import prepare, simulate
from cosched_plugin.policies.backfilling import compression
from cosched_plugin.policies.backfilling.compression import CountedJobs, QueueColumns
from cosched_plugin.policies.planning.profile import Change, Profile, Timeline

SIZE = 12
LAST = 400

# Each way of finding jobs by itself: with the table of least spans at once or never, and without a look at single steps.
WAYS: list[dict[str, int]] = [
    {},
    {"MANY_CHANGES": 1},
    {"MANY_CHANGES": 10**9},
    {"MANY_CHANGES": 1, "BLOCKS": 3},
    {"MANY_STEPS": 0},
]


def use(way: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in way.items():
        monkeypatch.setattr(compression, name, value)


def first_fit(free: Sequence[int], need: int, span: int, until: int) -> int | None:
    """Return the first instant before ``until`` from which ``need`` is free for ``span``."""
    return next((at for at in range(until) if min(free[at : at + span]) >= need), None)


class Plans:
    """Reservations one by one, each at its earliest start given those before; then some become free."""

    def __init__(self, random: Random) -> None:
        self.free = [SIZE] * LAST
        self.timeline = Timeline([(0, SIZE)])
        self.jobs: list[tuple[int, int]] = []
        self.starts: list[int] = []
        for _ in range(random.randrange(10, 30)):
            need, span = random.choice((1, 1, 2, 2, 3, 4, 6, 8, 12)), random.randrange(1, 12)
            start = first_fit(self.free, need, span, LAST)
            assert start is not None
            self.add(start, start + span, -need)
            self.jobs.append((need, span))
            self.starts.append(start)

    def add(self, start: int, end: int, amount: int) -> None:
        self.timeline.add(start, end, amount)
        self.free[start:end] = [value + amount for value in self.free[start:end]]

    def remove(self, random: Random) -> Change:
        """Remove a job, and return the room it leaves."""
        place = random.randrange(len(self.jobs))
        (need, span), start = self.jobs.pop(place), self.starts.pop(place)
        self.add(start, start + span, need)
        return Change(start, start + span, need)

    def columns(self) -> QueueColumns:
        columns = QueueColumns(len(self.jobs))
        for place, (need, span) in enumerate(self.jobs):
            columns.enter(place, need, span, self.starts[place])
        return columns

    def sooner(self, place: int) -> int | None:
        """Return the first instant before its start at which a job could begin."""
        (need, span), start = self.jobs[place], self.starts[place]
        lifted = [value + need * (start <= at < start + span) for at, value in enumerate(self.free)]
        return first_fit(lifted, need, span, start)


@pytest.mark.by_default(3)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_exactly_the_jobs_that_can_move_are_found(way: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    use(way, monkeypatch)
    random = Random("found")
    moved = 0
    for _ in range(80):
        plans = Plans(random)
        freed = plans.remove(random)
        columns = plans.columns()
        profile = cast(Profile, SimpleNamespace(timeline=plans.timeline))
        movable = CountedJobs(columns, profile, lambda *_: None)
        waiting = set(movable.add_by(freed))
        while True:
            can_move = {place for place in range(len(plans.jobs)) if plans.sooner(place) is not None}
            assert can_move <= waiting
            if not waiting:
                break
            place = random.choice(sorted(waiting))  # any order: a turn does not rely on that of sweeps
            waiting.remove(place)
            expected, start = plans.sooner(place), plans.starts[place]
            known = set(movable.places) - {place}
            new = movable.turn(place)
            assert not known & set(new)
            if expected is None:
                assert int(columns.starts_us[place]) == start
                continue
            moved += 1
            need, span = plans.jobs[place]
            for at, amount in ((start, need), (expected, -need)):
                plans.free[at : at + span] = [value + amount for value in plans.free[at : at + span]]
            plans.starts[place] = expected
            assert columns.starts_us.tolist() == plans.starts
            assert movable.moved[place] == expected
            assert all(plans.sooner(other) is not None for other in new)
            waiting |= set(new)
        movable.give_back()
        plain = [plans.timeline.values[plans.timeline.step_at(at)] for at in range(LAST)]
        assert plain == plans.free
        differ = zip(plans.timeline.values, plans.timeline.values[1:], strict=False)
        assert all(one != other for one, other in differ)
        assert not movable.places
    assert moved > 200


def assert_as_plain(table: dict[str, Any], jobs: int, policy: str = "conservative") -> int:
    """Compare every start with the plain simulator's; return how many jobs have waited."""
    prepared = prepare(table)
    finished = simulate(prepared, policy)
    drawn = [
        LogJob(job.spec.submit_us, job.spec.processes, job.run_us, job.spec.estimate_us)
        for job in prepared.workload.jobs
    ]
    processors = sum(item.nodes * item.sockets * item.cores_per_socket for item in prepared.nodes)
    starts = {record.job.spec.id: record.intervals[0].start_us for record in finished.records}
    assert len(starts) == len(drawn) == jobs
    expected, promised = conservative_starts(drawn, processors, starts_only=policy == "conservative-starts")
    assert all(start <= first for start, first in zip(expected, promised, strict=True))
    assert [starts[job.spec.id] for job in prepared.workload.jobs] == expected
    return sum(start > job.submit for start, job in zip(expected, drawn, strict=True))


@pytest.mark.by_default(3)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_many_jobs_at_one_instant(way: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    use(way, monkeypatch)
    workload = {"lublin": 150, "gap_factor": 1e-9, "estimates": "f-model", "estimate_factor": 4.0}
    assert assert_as_plain({"seed": 7, "cluster": {"nodes": 64}, "workload": workload}, 150) > 100


@pytest.mark.parametrize("gaps", [1e-9, 0.5])
def test_where_only_jobs_that_can_start_now_move_none_starts_later_than_promised(gaps: float) -> None:
    workload = {"lublin": 300, "gap_factor": gaps, "estimates": "f-model", "estimate_factor": 4.0}
    table = {"seed": 5, "cluster": {"nodes": 64}, "workload": workload}
    assert assert_as_plain(table, 300, "conservative-starts") > 100


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["conservative", "conservative-starts"])
@pytest.mark.parametrize("log", ["CTC-SP2-1996-3.1-cln", "SDSC-BLUE-2000-4.2-cln"])
def test_every_start_of_a_log_is_that_of_a_plain_simulator(log: str, policy: str) -> None:
    file = LOGS / f"{log}.swf.gz"
    if not file.exists():
        pytest.skip("the logs are not here")
    assert assert_as_plain({"workload": {"swf": str(file), "jobs": 8_000}}, 8_000, policy) > 1_000
