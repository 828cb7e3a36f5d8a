"""Time slices: a class on its virtual machine, other classes on idle nodes, which class gives way to which; the calendar."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import combinations, pairwise
from random import Random
from typing import Any

import pytest
from tests.plugin.policies.glomarc.glts_cases import (
    SECOND_US,
    SLICED,
    draw_jobs,
    job_of,
    nodes_of,
    play,
    spec_of,
    told,
    truth_of,
    view_of,
)
from tests.plugin.policies.lomarc.test_lomarc_schedules import play as play_lomarc
from tests.reference.glomarc_judge import check_schedule
from tests.reference.slices import Calendar, Class, progress_between, slices_of, wall_of

from cosched_emulator import simulate
from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.manager.agenda import Agenda
from cosched_emulator.manager.manager import Manager
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.run.loop import Simulation
from cosched_emulator.scenario.planned_events import Scripted
from cosched_emulator.workload.job import WorkloadJob
from cosched_plugin.common.allocation import Machine
from cosched_plugin.common.errors import UsageError
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.policies.slices import (
    CLASSES,
    LONG,
    MEDIUM,
    SHORT,
    Classes,
    Lengths,
    Slice,
    present_slice,
    slice_at,
)
from cosched_plugin.protocol import messages as m

PLENTY_MB = 1_000_000
BY_LENGTH = Classes()


# ---------------------------------------------------------------- classes do not affect each other


def without_others(told: m.Welcome, kind: int) -> m.Welcome:
    """Return an inventory without the jobs of other classes."""
    running = tuple(job for job in told.running if BY_LENGTH.kind_of(job.spec) == kind)
    pending = tuple(job for job in told.pending if BY_LENGTH.kind_of(job.spec) == kind)
    known = {None, *(job.spec.id for job in running), *(job.spec.id for job in pending)}
    return told._replace(
        running=running, pending=pending, notes=tuple(note for note in told.notes if note.job_id in known)
    )


def decided(actions: Sequence[m.Action], known: set[int]) -> list[Any]:
    """Return the decisions about jobs of a class without their nodes, as idle nodes come first."""
    found: list[Any] = []
    for action in actions:
        match action:
            case m.StartJob() if action.job_id in known:
                found.append(action._replace(runs=()))
            case m.StartTogether() if action.starts[0].job_id in known:
                found.append(tuple(start._replace(runs=()) for start in action.starts))
            case m.SetNote() | m.ReviseJob() if action.job_id in known:
                found.append(action)
            case _:
                pass
    return found


class Alone:
    """Compares the decisions in a slice, from the switch on, with those for the class's jobs alone."""

    def __init__(self, policy: str, manager: Manager) -> None:
        self.table = {"preset": policy}
        self.manager = manager
        self.core = SchedulerCore(compose(self.table), manager.inventory())
        self.kinds: dict[int, int] = {}
        self.same: Counter[str] = Counter()

    def handle(self, now_us: int, events: Sequence[m.Event]) -> list[m.Action]:
        told = self.manager.inventory()
        before = present_slice(self.core.view)
        for event in events:
            if isinstance(event, m.JobSubmitted):
                self.kinds[event.job.id] = BY_LENGTH.kind_of(event.job)
        actions = self.core.handle(now_us, events)
        present = present_slice(self.core.view)
        if present is None or present != before or now_us < present.ready_us(LENGTHS):
            return actions
        own = {job for job, kind in self.kinds.items() if kind == present.kind}
        core = SchedulerCore(compose(self.table), without_others(told, present.kind))
        expected = core.handle(now_us, [event for event in events if is_of(event, own)])
        got = decided(actions, own)
        assert got == decided(expected, own), f"at {now_us} us"
        free = len(
            {job for job in self.core.view.running if job not in own and not self.core.view.running[job].on_disk}
        )
        for one in got:
            name = "together" if isinstance(one, tuple) and not hasattr(one, "_fields") else type(one).__name__
            self.same[name] += 1
            self.same["beside others"] += free > 0
        return actions


LENGTHS = BY_LENGTH.lengths(60 * SECOND_US)


def is_of(event: m.Event, own: set[int]) -> bool:
    match event:
        case m.JobSubmitted():
            return event.job.id in own
        case m.JobEnded() | m.JobRequeued() | m.JobHeld() | m.JobReleased():
            return event.job_id in own
        case _:
            return True


@pytest.mark.by_default(2)
@pytest.mark.parametrize("policy", SLICED)
def test_a_class_decides_in_its_slice_as_if_it_were_alone(policy: str) -> None:
    same: Counter[str] = Counter()
    for seed in range(3):
        random = Random(f"alone {seed}")
        jobs = draw_jobs(random, 50, 6, gap_s=random.choice((300, 700)), over=seed % 2 == 1)
        manager = truth_of(Machine([nodes_of(6, swap_mb=PLENTY_MB)]), jobs)
        alone = Alone(policy, manager)
        script = []
        if seed == 2:
            script = [Scripted(9_000 * SECOND_US, "fail-node", 2), Scripted(20_000 * SECOND_US, "return-node", 2)]
        link = DirectLink(lambda _, alone=alone: alone)  # type: ignore[misc]  # a default binds it
        records = Simulation(manager, Agenda(manager, jobs, script, requeue=True), link).run()
        assert all(record.state == m.COMPLETED for record in records)
        same += alone.same
    assert same["StartJob"] > 40
    assert same["beside others"] > 40
    if policy != "ssp":
        assert same["together"] > 1
        assert same["ReviseJob"] > 3


# ---------------------------------------------------------------- by hand


def stays_s(policy: str | dict[str, Any], jobs: Sequence[WorkloadJob], nodes: int = 2, **more: Any) -> dict[int, Any]:
    """Return the stays of every job on its nodes, in seconds."""
    swap_mb = more.pop("swap_mb", PLENTY_MB)
    played = play(policy, jobs, nodes_of(nodes, swap_mb=swap_mb), restart=True, **more)
    return {
        number: [(stay.start_us / SECOND_US, stay.end_us / SECOND_US) for stay in record.intervals]
        for number, record in played.records.items()
    }


def a_job(number: int, submit_s: float, size: int, seconds: float, **more: Any) -> WorkloadJob:
    return job_of(spec_of(number, size, seconds, submit_us=round(submit_s * SECOND_US), **more))


def test_two_classes_take_turns() -> None:
    """Both need the whole machine. Times in seconds.

    60: the switch is over, the medium job starts. 1080: it has done 1020 of 2000; the long slice begins. It comes back while
    no job needs its nodes, but has done nothing by 1140, when the long job starts. 3600: that has done 2460; the medium one is back,
    continues at 3660 and ends at 4640. For 40 s more the long one does not come back: it would have done nothing by 4680. From then on
    it loses 60 s at the beginning of every slice, and has done 2460 + 2460 by 7200, 3480 more each hour, and 18 840 by 21 600; the
    last 1160 take until 22 880.
    """
    stays = stays_s("ssp", [a_job(1, 0, 8, 2000), a_job(2, 0, 8, 20_000)])
    assert stays[1] == [(60, 1080), (1080, 1140), (3600, 4640)]
    assert stays[2][:3] == [(1140, 3600), (4680, 7200), (7200, 8280)]
    assert stays[2][-1] == (22_680, 22_880)
    assert stays[2][2:] == [
        one
        for hour in range(2, 7)
        for one in ((3600 * hour, 3600 * hour + 1080), (3600 * hour + 1080, min(3600 * (hour + 1), 22_880)))
    ]


def test_short_jobs_have_a_slice_where_some_are_there() -> None:
    """Jobs 1 and 2 hold the machine in turns. Job 3 arrives at 2000 and waits for the next interval, which has a short slice for it.

    That begins at 3600, with 60 s for the switch. Job 3 ends at 4060; the short slice lasts until 4200,
    and the medium job returns as a guest: at 4120 it continues. Then 4200 to 5100 is the medium slice, 5100 to 7200 the long one; the
    next interval has no short slice, and the medium one ends at 8280.
    """
    jobs = [a_job(1, 0, 8, 9000), a_job(2, 0, 8, 15_000), a_job(3, 2000, 8, 400)]
    stays = stays_s("ssp", jobs)
    assert stays[3] == [(3660, 4060)]
    assert stays[1][2:6] == [(3600, 3660), (4060, 4200), (4200, 5100), (7200, 8280)]
    assert stays[2][:3] == [(1140, 3600), (5100, 7200), (8280, 10_800)]


def test_other_classes_use_idle_nodes() -> None:
    """A long job starts at once on a node that the medium slice leaves idle, and gives way at once to a medium job."""
    jobs = [a_job(1, 0, 4, 5000), a_job(2, 0, 4, 15_000), a_job(3, 500, 4, 700)]
    stays = stays_s("ssp", jobs)
    assert stays[2][:2] == [(60, 500), (1080, 3600)]
    assert stays[3][0] == (500, 1080)  # the medium slice ends; the long job returns to its nodes
    assert stays[1][:2] == [(60, 1080), (1080, 3600)]  # on a node that the long slice leaves idle
    # The next medium slice: job 3 has 120 s left.
    assert stays[3][1:] == [(3600, 3780)]


def test_short_jobs_may_take_the_nodes_of_guests() -> None:
    """In the medium slice a long job is a guest when a short one arrives, which is not of the slice's class either."""
    jobs = [a_job(1, 0, 4, 5000), a_job(2, 0, 4, 15_000), a_job(3, 500, 4, 100)]
    stays = stays_s("ssp", jobs)
    assert stays[3] == [(500, 600)]
    assert stays[2][:2] == [(60, 500), (600, 1080)]


def test_a_job_joins_others_of_its_class_where_no_node_is_empty() -> None:
    """Job 1 has half of the cores of both nodes. In their slice job 2 starts beside it as it comes (G-LOMARC-TS paper, section 4.3)."""
    jobs = [a_job(number, at_s, 4, 2000, own=(1_000_000, 1_500_000)) for number, at_s in ((1, 0), (2, 100))]
    table = {"preset": "glts", "fairness": "none", "matching": {"low_load": "none", "min_gain": 0, "max_slowdown": 3}}
    assert stays_s(table, jobs)[2][0] == (100, 1080)


def test_a_job_without_room_on_disk_stays() -> None:
    """Two nodes with 4000 MB of swap space: a medium job of 4 times 2000 MB on each. The long job has to wait for its end."""
    jobs = [a_job(1, 0, 8, 2000, memory_mb=2000), a_job(2, 0, 8, 20_000)]
    stays = stays_s("ssp", jobs, swap_mb=4000)
    assert stays[1] == [(60, 2060)]
    assert stays[2][0] == (2060, 3600)


def test_a_job_alone_on_the_machine_returns_at_once() -> None:
    """It is preempted when its slice ends and returns at once, as no job needs its nodes, which costs 60 s."""
    assert stays_s("ssp", [a_job(1, 100, 8, 3000)])[1] == [(100, 1080), (1080, 3160)]


@pytest.mark.parametrize("at_s", [500, 1080, 1100, 1140])
def test_when_a_member_of_a_group_is_cancelled_the_others_continue(at_s: float) -> None:
    """A member of a group is cancelled in its slice, at its preemption, or on disk: the others continue, and end as expected."""
    seconds = (4000, 4000, 20_000, 20_000)
    jobs = [a_job(number, 0, 4, time, own=(1_000_000, 1_500_000)) for number, time in enumerate(seconds, 1)]
    table = {"preset": "glts", "fairness": "none", "matching": {"low_load": "none", "min_gain": 0, "max_slowdown": 3}}
    script = [Scripted(round(at_s * SECOND_US), "cancel", 1)]
    played = play(table, jobs, nodes_of(2, swap_mb=PLENTY_MB), restart=True, script=script)
    assert [record.state for record in played.records.values()] == ["CANCELLED", m.COMPLETED, m.COMPLETED, m.COMPLETED]
    assert len(played.groups()) > 0
    played.judge(ended_early={1: "CANCELLED"}, calendar=played.calendar())
    for record in played.records.values():
        if record.state == m.COMPLETED:
            assert record.end_us is not None
            last = record.last_stays
            assert record.work_us == record.job.run_us
            assert record.end_us == last[-1].end_us


# ---------------------------------------------------------------- around other policies


@pytest.mark.parametrize("policy", ["lomarc-r", "am", "pss"])
def test_lomarc_in_slices_keeps_pairs_together(policy: str) -> None:
    """Pairs on hyperthreads of whole nodes go to disk and return together; no other job takes part of their nodes."""
    tables = {"preemption": {"resume_s": 60.0}, "truth": {"remainder": True}}
    played = play_lomarc(policy, tables, sets=["slices=classes"], seed=2)
    (nodes,) = played.prepared.nodes
    assert (nodes.sockets, nodes.cores_per_socket, nodes.threads_per_core) == (1, 1, 2)
    calendar = [
        (record["at_us"], record["end_us"], record["kind_of_jobs"])
        for record in played.trace
        if record["kind"] == "slice"
    ]
    # The judge has no hyperthreads: two cores take their place, on which these jobs have no own slowdown.
    two_cores = nodes._replace(cores_per_socket=2, threads_per_core=1)
    slowdown = played.slowdown_of()
    check_schedule(played.records, [two_cores], slowdown, 60 * SECOND_US, calendar=calendar, tolerance_us=5)
    assert sum(len(record.disk) for record in played.records) > 100
    assert bool(shared_by(played.records)) == (policy != "pss")


def shared_by(records: Sequence[JobRecord]) -> set[tuple[int, int]]:
    """Return the pairs of jobs that were on a node at the same time."""
    stays: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for record in records:
        for stay in record.intervals:
            for first, count, _, _ in stay.runs:
                for node in range(first, first + count):
                    stays[node].append((stay.start_us, stay.end_us, record.job.spec.id))
    return {
        (one[2], other[2])
        for there in stays.values()
        for one, other in combinations(sorted(there), 2)
        if other[0] < one[1]
    }


@pytest.mark.parametrize("policy", ["ssp", "glts"])
def test_no_wake_for_jobs_that_the_nodes_in_service_cannot_hold(policy: str) -> None:
    table: dict[str, Any] = {
        "cluster": {"nodes": 4, "preset": "g-lomarc-2x2"},
        "truth": {"contention": "statistical"},
        "preemption": {"resume_s": 60.0},
        "workload": {"lublin": 30, "self_slowdowns": "table4"},
        "script": [{"at_s": 30.0, "do": "fail-node", "node": 3}],
    }
    left = simulate(table, policy)
    assert left.unfinished
    table["script"].append({"at_s": 1e6, "do": "return-node", "node": 3})
    assert not simulate(table, policy).unfinished


@pytest.mark.parametrize("policy", ["ssp", "glts"])
def test_a_job_that_no_machine_holds_is_rejected_while_all_nodes_are_down(policy: str) -> None:
    welcome = told(nodes_of(2, 1, 1, 2), [spec_of(1, 3, 100.0, eligible=((0, 2),))])._replace(down=(0, 1))
    core = SchedulerCore(compose({"preset": policy}), welcome)
    assert [action.job_id for action in core.handle(welcome.now_us, ()) if isinstance(action, m.RejectJob)] == [1]


# ---------------------------------------------------------------- the calendar, compared with the reference

HOUR_US = 3600 * SECOND_US
KINDS = (SHORT, MEDIUM, LONG)
OF: tuple[Class, Class, Class] = ("short", "medium", "long")


class Walk:
    """The slices of some intervals, each with or without a short one, in the order of the policy."""

    def __init__(self, random: Random, intervals: int) -> None:
        percent = random.randint(5, 95)
        interval_us = random.choice((60, 1000, 3600)) * SECOND_US
        short_us = random.randint(1, interval_us // 2)
        least_us = min(short_us, round((interval_us - short_us) * min(percent, 100 - percent) / 100))
        switch_us = random.choice((0, random.randrange(least_us)))
        self.lengths = Lengths(interval_us, short_us, percent / 100, switch_us)
        self.calendar = Calendar(interval_us, short_us, percent, switch_us)
        self.has_short = [random.random() < 0.5 for _ in range(intervals)]
        first = slice_at(0, (0, 0, 0), self.lengths)
        if self.has_short[0]:
            first = first._replace(short=True, kind=SHORT)
        self.slices = [first]
        for _ in range(3 * intervals):
            number = self.slices[-1].begin_us // interval_us + 1
            if number == intervals and self.slices[-1].kind == LONG:
                break
            following = self.slices[-1].successor(self.lengths, short=number < intervals and self.has_short[number])
            self.slices.append(following)

    def told_of(self, number: int) -> bool:
        return self.has_short[number]


@pytest.mark.parametrize("seed", range(25))
def test_slices_follow_one_another(seed: int) -> None:
    walk = Walk(Random(f"follow {seed}"), 6)
    exact = [one for number in range(6) for one in slices_of(number, walk.has_short[number], walk.calendar)]
    assert [CLASSES[one.kind] for one in walk.slices] == [one.of for one in exact]
    for one, reference in zip(walk.slices, exact, strict=True):
        assert abs(one.start_us(walk.lengths) - reference.start) <= 1  # the lengths of slices are whole microseconds
        assert abs(one.end_us(walk.lengths) - reference.end) <= 1
        assert abs(one.ready_us(walk.lengths) - reference.usable) <= 1
    for one, after in pairwise(walk.slices):
        assert one.end_us(walk.lengths) == after.start_us(walk.lengths)


@pytest.mark.parametrize("seed", range(25))
def test_clocks_count_the_time_of_progress(seed: int) -> None:
    random = Random(f"clock {seed}")
    walk = Walk(random, 6)
    for one in walk.slices:
        start_us, end_us = one.start_us(walk.lengths), one.end_us(walk.lengths)
        for now_us in (start_us, end_us, random.randint(start_us, end_us), min(one.ready_us(walk.lengths), end_us)):
            for kind in KINDS:
                exact = progress_between(
                    OF[kind], 0, min(now_us, 6 * walk.lengths.interval_us - 1), walk.told_of, walk.calendar
                )
                assert abs(one.clock_us(kind, now_us, walk.lengths) - exact) <= 2 * len(walk.slices)


@pytest.mark.parametrize("seed", range(25))
def test_wall_times_of_clocks_agree_with_the_reference(seed: int) -> None:
    """Future intervals count as without short slices; only short jobs expect further short slices."""
    random = Random(f"wall {seed}")
    walk = Walk(random, 4)
    later = 0
    for one in walk.slices:
        start_us, end_us = one.start_us(walk.lengths), one.end_us(walk.lengths)
        now_us = random.randint(start_us, end_us - 1)
        present = one.begin_us // walk.lengths.interval_us
        for kind in KINDS:
            needed_us = random.choice((0, 1, SECOND_US, random.randrange(3 * walk.lengths.interval_us)))

            def pattern(number: int, kind: int = kind, present: int = present) -> bool:
                return walk.has_short[number] if number <= present else kind == SHORT

            exact = wall_of(OF[kind], needed_us, now_us, pattern, walk.calendar)
            clock_us = one.clock_us(kind, now_us, walk.lengths)
            # The lengths of slices are whole microseconds, so a few microseconds of the needed time may fall into the next one.
            got = one.wall_us(kind, clock_us + needed_us, now_us, walk.lengths)
            nearby = [wall_of(OF[kind], max(0, needed_us + by_us), now_us, pattern, walk.calendar) for by_us in (-8, 8)]
            assert nearby[0] - 8 <= got <= nearby[1] + 8
            later += exact > end_us
    assert later > 5


def test_wall_times_of_the_papers_calendar() -> None:
    """The paper's: 0-600 s short, -1500 s medium, -3600 s long, where there are short jobs; 1080 and 2520 s where not; 60 s lost."""
    lengths = Lengths(HOUR_US, 600 * SECOND_US, 0.3, 60 * SECOND_US)
    short = Slice(0, True, SHORT, (0, 0, 0))
    at_us = 100 * SECOND_US

    def wall_s(kind: int, needed_s: float, one: Slice = short, now_us: int = at_us) -> float:
        clock_us = one.clock_us(kind, now_us, lengths)
        return one.wall_us(kind, clock_us + round(needed_s * SECOND_US), now_us, lengths) / SECOND_US

    assert short.clock_us(SHORT, at_us, lengths) == 40 * SECOND_US
    assert [wall_s(SHORT, needed) for needed in (0, 1, 500, 500.5, 1040, 1041)] == [
        100, 101, 600, 3660.5, 4200, 7261,
    ]  # fmt: skip
    assert [wall_s(MEDIUM, needed) for needed in (0, 1, 840, 841, 840 + 1020, 840 + 1021)] == [
        100, 661, 1500, 3661, 4680, 7261,
    ]  # fmt: skip
    assert [wall_s(LONG, needed) for needed in (1, 2040, 2041, 2040 + 2460, 2040 + 2461)] == [
        1561, 3600, 4741, 7200, 8341,
    ]  # fmt: skip
    medium = Slice(HOUR_US, False, MEDIUM, (0, 0, 0))
    now_us = HOUR_US + 30 * SECOND_US  # while the nodes switch to another class
    assert medium.clock_us(MEDIUM, now_us, lengths) == 0
    assert [wall_s(MEDIUM, needed, medium, now_us) for needed in (0, 1, 1020, 1021)] == [3630, 3661, 4680, 7261]
    assert [wall_s(SHORT, needed, medium, now_us) for needed in (1, 540, 541)] == [7261, 7800, 10861]


def test_on_an_empty_machine_the_slice_follows_from_the_time() -> None:
    """The slice is that of an interval without a short one."""
    lengths = Lengths(HOUR_US, 600 * SECOND_US, 0.3, 60 * SECOND_US)
    for second, kind in ((0, MEDIUM), (1079.999999, MEDIUM), (1080, LONG), (3599, LONG)):
        found = slice_at(5 * HOUR_US + round(second * SECOND_US), (1, 2, 3), lengths)
        assert found == Slice(5 * HOUR_US, False, kind, (1, 2, 3))
        clock_us = found.clock_us(kind, 5 * HOUR_US + round(second * SECOND_US), lengths)
        assert clock_us >= (1, 2, 3)[kind]


def test_the_slice_is_kept_in_a_note() -> None:
    one = Slice(7 * HOUR_US, True, MEDIUM, (3, 0, 1 << 60))
    note = one.note()
    assert isinstance(note, m.SetNote)
    assert (note.job_id, note.key) == (None, "slices")
    for notes, found in (
        ([], None),
        ([m.Note(None, note.key, note.value)], one),
        ([m.Note(None, note.key, (7, True, 3, 0, 0, 0))], None),
        ([m.Note(None, note.key, (7, True, 1, 0, 0))], None),
        ([m.Note(None, note.key, "monday")], None),
    ):
        assert present_slice(view_of(told(nodes_of(1), (), notes=notes))) == found


# ---------------------------------------------------------------- lengths


@pytest.mark.parametrize(
    ("settings", "resume_s", "kind"),
    [
        ({}, 600.0, "short"),
        ({"short_slice_s": 60.0}, 60.0, "short"),
        ({"medium_share": 0.02}, 60.0, "medium"),
        ({"medium_share": 0.98}, 60.0, "long"),
    ],
)
def test_slices_that_leave_no_time_are_refused(settings: dict[str, float], resume_s: float, kind: str) -> None:
    with pytest.raises(UsageError) as caught:
        Classes(**settings).lengths(round(resume_s * SECOND_US))
    assert str(caught.value) == (
        f"policy.slices: a slice of {kind} jobs is not longer than the {resume_s:g} s that jobs take to come back from disk"
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"interval_s": 600.0}, "policy.slices.short_slice_s: expected less than interval_s, 600, got 600"),
        ({"interval_s": 500.0}, "policy.slices.short_slice_s: expected less than interval_s, 500, got 600"),
        ({"medium_s": 599.0}, "policy.slices.short_s: expected at most medium_s, 599, got 600"),
    ],
)
def test_lengths_that_contradict_one_another_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Classes(**settings)
    assert str(caught.value) == message
    with pytest.raises(UsageError) as caught:
        compose({"preset": "glts", "slices": settings})
    assert str(caught.value) == message


def test_slices_that_leave_a_microsecond_are_accepted() -> None:
    Classes(short_slice_s=60.000001).lengths(60 * SECOND_US)
    Classes().lengths(0)


def test_too_short_slices_are_an_error_at_the_first_batch() -> None:
    table = {"preset": "ssp", "slices": {"name": "classes", "short_slice_s": 60}}
    core = SchedulerCore(compose(table), told(nodes_of(2), [spec_of(1, 1, 100)]))
    with pytest.raises(UsageError, match=r"policy\.slices: a slice of short jobs is not longer than the 60 s"):
        core.handle(200, ())


@pytest.mark.parametrize(
    ("seconds", "kind"), [(1, SHORT), (600, SHORT), (600.000001, MEDIUM), (10_800, MEDIUM), (10_800.000001, LONG)]
)
def test_classes_by_estimate(seconds: float, kind: int) -> None:
    slices = Classes()
    job = spec_of(1, 1, seconds)
    assert slices.kind_of(job) == kind
    above_us, most_us = slices.range_us(kind)
    assert above_us < job.estimate_us <= most_us


def test_bounds_of_classes_are_parameters() -> None:
    slices = Classes(short_s=10, medium_s=20)
    assert [slices.kind_of(spec_of(1, 1, seconds)) for seconds in (10, 11, 20, 21)] == [SHORT, MEDIUM, MEDIUM, LONG]
