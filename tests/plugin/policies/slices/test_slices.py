"""Time slices: a class on its virtual machine, other classes on idle nodes, and which class gives way to which."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import combinations
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
    truth_of,
)
from tests.plugin.policies.lomarc.test_lomarc_schedules import play as play_lomarc
from tests.reference.glomarc_judge import check_schedule

from cosched_emulator import simulate
from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.manager.agenda import Agenda
from cosched_emulator.manager.manager import Manager
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.run.loop import Simulation
from cosched_emulator.scenario.planned_events import Scripted
from cosched_emulator.workload.job import WorkloadJob
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.policies.slices import Classes, present_slice
from cosched_plugin.protocol.messages import (
    COMPLETED,
    Action,
    Event,
    JobEnded,
    JobHeld,
    JobReleased,
    JobRequeued,
    JobSubmitted,
    ReviseJob,
    SetNote,
    StartJob,
    StartTogether,
    Welcome,
)

PLENTY_MB = 1_000_000
CLASSES = Classes()
KIND = {"short": 0, "medium": 1, "long": 2}


# ---------------------------------------------------------------- classes do not affect each other


def without_others(told: Welcome, kind: int) -> Welcome:
    """Return an inventory without the jobs of other classes."""
    running = tuple(job for job in told.running if CLASSES.kind_of(job.spec) == kind)
    pending = tuple(job for job in told.pending if CLASSES.kind_of(job.spec) == kind)
    known = {None, *(job.spec.id for job in running), *(job.spec.id for job in pending)}
    return told._replace(
        running=running, pending=pending, notes=tuple(note for note in told.notes if note.job_id in known)
    )


def decided(actions: Sequence[Action], known: set[int]) -> list[Any]:
    """Return the decisions about jobs of a class without their nodes, as idle nodes come first."""
    found: list[Any] = []
    for action in actions:
        match action:
            case StartJob() if action.job_id in known:
                found.append(action._replace(runs=()))
            case StartTogether() if action.starts[0].job_id in known:
                found.append(tuple(start._replace(runs=()) for start in action.starts))
            case SetNote() | ReviseJob() if action.job_id in known:
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

    def handle(self, now_us: int, events: Sequence[Event]) -> list[Action]:
        told = self.manager.inventory()
        before = present_slice(self.core.view)
        for event in events:
            if isinstance(event, JobSubmitted):
                self.kinds[event.job.id] = CLASSES.kind_of(event.job)
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


LENGTHS = CLASSES.lengths(60 * SECOND_US)


def is_of(event: Event, own: set[int]) -> bool:
    match event:
        case JobSubmitted():
            return event.job.id in own
        case JobEnded() | JobRequeued() | JobHeld() | JobReleased():
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
        manager = truth_of(nodes_of(6, swap_mb=PLENTY_MB), jobs)
        alone = Alone(policy, manager)
        script = []
        if seed == 2:
            script = [Scripted(9_000 * SECOND_US, "fail-node", 2), Scripted(20_000 * SECOND_US, "return-node", 2)]
        link = DirectLink(lambda _, alone=alone: alone)  # type: ignore[misc]  # a default binds it
        records = Simulation(manager, Agenda(manager, jobs, script, requeue=True), link).run()
        assert all(record.state == COMPLETED for record in records)
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
    assert [record.state for record in played.records.values()] == ["CANCELLED", COMPLETED, COMPLETED, COMPLETED]
    assert len(played.groups()) > 0
    played.judge(ended_early={1: "CANCELLED"}, calendar=played.calendar())
    for record in played.records.values():
        if record.state == COMPLETED:
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
