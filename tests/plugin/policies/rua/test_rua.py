"""RUA backfilling against a literal, slow implementation of the paper's section 5, pass by pass on small machines."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from random import Random
from typing import NamedTuple

import pytest
from tests.plugin.policies.cases import NOW_US, Case, buckets_of, job_of, normal, random_case, request_of, welcome_of
from tests.reference.sharing import (
    Bucket,
    Node,
    Placement,
    Process,
    best_factor,
    earliest_with_threshold,
    empty_machine,
    free_buckets,
    less_consume,
)
from tests.runs import runs_on

from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.policies.rua.backfill import PAPER_THRESHOLDS, Rua
from cosched_plugin.policies.rua.lessconsume import LessConsume
from cosched_plugin.protocol.messages import JobSpec, NodeClass, StartJob

THRESHOLDS = (Fraction(115, 100), Fraction(120, 100), Fraction(125, 100), Fraction(3, 2))
GHOST = -1  # on no processor: it demands bandwidth but occupies no thread


class Place(NamedTuple):
    """A job's allocation; times count from now."""

    job: JobSpec
    start: int
    buckets: tuple[Bucket, ...]
    factor: Fraction

    @property
    def end(self) -> int:
        """Return the expected end in whole units."""
        return self.start + ceil(self.job.estimate_us * self.factor)

    @property
    def slowdown(self) -> Fraction:
        """Return the expected slowdown; every job of a case was submitted now."""
        return Fraction(self.end, self.job.estimate_us)


def with_job(machine: Sequence[Node], place: Place, ghost: bool = False) -> tuple[Node, ...]:
    """Return the machine with a job planned or started there."""
    assert place.job.demand is not None
    nodes = list(machine)
    for number, processor in place.buckets:
        process = Process(GHOST if ghost else processor, place.start, place.end, place.job.demand[:1])
        nodes[number] = nodes[number]._replace(residents=(*nodes[number].residents, process))
    return tuple(nodes)


def ends(machine: Sequence[Node]) -> list[int]:
    """Return now and the ends of what runs now."""
    return sorted({0} | {p.end for node in machine for p in node.residents if p.start <= 0 < p.end})


def placed(job: JobSpec, machine: Sequence[Node], found: Placement) -> Place:
    free = free_buckets(machine, found.start, job.estimate_us)
    return Place(job, found.start, normal(found, machine, free), found.factor)


def thresholds_for(job: JobSpec, machine: Sequence[Node], thresholds: Sequence[Fraction]) -> list[Fraction]:
    floor = best_factor(empty_machine(machine), request_of(job), 0)
    return sorted({max(threshold, floor or Fraction(1)) for threshold in thresholds})


def best_of(places: Sequence[Place]) -> Place | None:
    return min(places, key=lambda place: (place.slowdown, place.factor), default=None)


def head_place(job: JobSpec, machine: Sequence[Node], thresholds: Sequence[Fraction]) -> Place | None:
    """Return the place with the least slowdown of LessConsume Threshold with every threshold."""
    found = [earliest_with_threshold(machine, request_of(job), 0, threshold) for threshold in thresholds]
    return best_of([placed(job, machine, one) for one in found if one is not None])


class Head:
    """The reservation: the head may be moved to other processors, but never to a later time or beyond its threshold."""

    def __init__(self, machine: Sequence[Node], place: Place, thresholds: Sequence[Fraction]) -> None:
        self.place = place
        levels = thresholds_for(place.job, machine, thresholds)
        self.threshold = min(threshold for threshold in levels if place.factor <= threshold)

    def admits(self, machine: Sequence[Node], offer: Place) -> bool:
        """Return whether the head keeps its start beside ``offer``; if so it gets its new place."""
        if offer.end <= self.place.start:
            return True
        job = self.place.job
        beside = with_job(machine, offer)
        found = less_consume(beside, request_of(job), self.place.start, self.threshold)
        if found is None or found.factor > self.threshold:
            return False
        self.place = placed(job, beside, found)
        return True


def backfill_place(
    job: JobSpec, machine: Sequence[Node], head: Head | None, thresholds: Sequence[Fraction]
) -> Place | None:
    """Return the place with the least slowdown over all thresholds.

    Now it may take the head's processors (`Head.admits` decides about that), later it may not. The head's demand always counts.
    """
    now = machine if head is None else with_job(machine, head.place, ghost=True)
    later = machine if head is None else with_job(machine, head.place)
    places = []
    for threshold in thresholds_for(job, machine, thresholds):
        for start in ends(machine):
            there = later if start else now
            found = less_consume(there, request_of(job), start, threshold)
            if found is not None and found.factor <= threshold:
                places.append(placed(job, there, found))
                break
    return best_of(places)


def literal_pass(case: Case, thresholds: Sequence[Fraction] = THRESHOLDS) -> tuple[list[Place], Head | None]:
    """Return the starts of one pass, in order, and the final reservation."""
    machine: tuple[Node, ...] = case.machine
    queue = list(case.waiting)
    started: list[Place] = []
    head: Head | None = None
    while queue:
        best = head_place(queue.pop(0), machine, thresholds)
        if best is None:
            continue
        if best.start > 0:
            head = Head(machine, best, thresholds)
            break
        started.append(best)
        machine = with_job(machine, best)
    while True:
        places = [backfill_place(job, machine, head, thresholds) for job in queue]
        now = [place for place in places if place is not None and place.start == 0]
        now.sort(key=lambda place: (place.factor, place.job.estimate_us, place.job.id))
        chosen = next((place for place in now if head is None or head.admits(machine, place)), None)
        if chosen is None:
            return started, head
        started.append(chosen)
        machine = with_job(machine, chosen)
        queue.remove(chosen.job)


def literal(case: Case, thresholds: Sequence[Fraction]) -> list[Place]:
    """Return the starts of passes until one finds nothing."""
    started: list[Place] = []
    while True:
        more, _ = literal_pass(case, thresholds)
        if not more:
            return started
        started += more
        machine = case.machine
        for place in more:
            machine = with_job(machine, place)
        gone = {place.job.id for place in more}
        case = case._replace(machine=machine, waiting=tuple(job for job in case.waiting if job.id not in gone))


def decided(case: Case, thresholds: Sequence[float] | None = None) -> list[tuple[int, tuple[Bucket, ...], int]]:
    """Return (job, buckets, expected run time) of every start that our policy decides."""
    backfill = {"name": "rua"} | ({} if thresholds is None else {"thresholds": list(thresholds)})
    core = SchedulerCore(compose({"preset": "rua", "backfill": backfill}), case.welcome)
    actions = core.handle(NOW_US, ())
    core.check()
    starts = []
    for action in actions:
        assert isinstance(action, StartJob)
        starts.append((action.job_id, buckets_of(action.runs), action.estimate_us))
    return starts


@pytest.mark.parametrize(
    "thresholds",
    [
        pytest.param(THRESHOLDS, id="paper"),
        pytest.param((Fraction(1),), id="one"),
        pytest.param((Fraction(1), Fraction(11, 10), Fraction(2)), id="wide", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("cases", [60, pytest.param(150, marks=pytest.mark.slow)])
def test_every_pass_agrees_with_the_literal_one(cases: int, thresholds: tuple[Fraction, ...]) -> None:
    random = Random(f"rua {thresholds}")
    backfilled = waiting = 0
    for number in range(cases):
        case = random_case(random, jobs=random.randint(2, 6), busy=0.7, small=number % 3 > 0)
        _, head = literal_pass(case, thresholds)
        expected = literal(case, thresholds)
        starts = [(place.job.id, place.buckets, place.end) for place in expected]
        assert decided(case, [float(threshold) for threshold in thresholds]) == starts, (number, case.welcome)
        if head is not None:
            waiting += 1
            backfilled += sum(place.job.id > head.place.job.id for place in expected)
    assert waiting > cases / 3
    assert backfilled > cases * 2 / 15


@pytest.mark.parametrize("cases", [100, pytest.param(300, marks=pytest.mark.slow)])
def test_the_reservation_agrees_with_the_literal_one(cases: int) -> None:
    """The reservation by `best` is the best of LessConsume Threshold over all thresholds."""
    random = Random("head")
    later = 0
    for _ in range(cases):
        case = random_case(random, busy=0.8)
        (job,) = case.waiting
        rua = Rua()
        core = SchedulerCore(compose({"preset": "rua"}), case.welcome)
        found = rua.best(job, core.view, LessConsume())
        expected = head_place(job, case.machine, THRESHOLDS)
        assert found is not None
        best = found.offer()
        assert expected is not None
        assert (best.start_us - NOW_US, buckets_of(best.runs), best.run_us) == (
            expected.start,
            expected.buckets,
            expected.end - expected.start,
        )
        later += expected.start > 0
    assert later > cases / 3


# ---------------------------------------------------------------- by hand

FOUR = NodeClass(1, 1, 4, 1, 0, 6000, 0, 0)


def test_the_job_with_the_least_penalty_starts_first() -> None:
    """Two processors beside two residents of 2000 MB/s: the job of 500 MB/s goes first although it is longer."""
    resident = random_case(Random(1)).welcome  # for its belief
    running = welcome_of([FOUR], (), (), resident.belief)
    from cosched_plugin.protocol.messages import RunningJob  # noqa: PLC0415

    beside = RunningJob(
        job_of(9, 2, 2000, NOW_US + 60)._replace(submit_us=0), 0, runs_on((0, 1, 3, 2)), NOW_US + 60, None
    )
    head = job_of(1, 4, 500, 30)
    short = job_of(2, 2, 2000, 20)
    light = job_of(3, 2, 500, 40)
    welcome = running._replace(running=(beside,), pending=welcome_of([FOUR], (), (head, short, light)).pending)
    core = SchedulerCore(compose({"preset": "rua"}), welcome)
    assert core.handle(NOW_US, ()) == [StartJob(3, runs_on((0, 1, 12, 2)), 40, None)]
    lossless = SchedulerCore(compose({"preset": "lc"}), welcome)
    assert lossless.handle(NOW_US, ()) == [StartJob(2, runs_on((0, 1, 12, 2)), 27, None)]


def test_thresholds_are_sorted_without_duplicates() -> None:
    assert Rua(thresholds=(1.5, 1.15, 1.5)).thresholds == (1.15, 1.5)
    assert Rua().thresholds == PAPER_THRESHOLDS == (1.15, 1.20, 1.25, 1.5)
