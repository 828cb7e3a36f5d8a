"""A driver between a scheduler and a cluster that is looked at: nothing is contradictory, lost or told twice, whatever goes wrong."""

from __future__ import annotations

import heapq
import os
import pickle
import sqlite3
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import strategies as st
from tests.plugin.site.cluster import MACHINE, NODES, WIDTH, Cluster, core_of, policy_of, settle
from tests.processes import PACKAGES, ROOT
from tests.properties import drawn

from cosched_hwmodel.units import SECOND_US, ThreadMask
from cosched_plugin.common.errors import UsageError
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.codec import pack, unpack
from cosched_plugin.protocol.errors import RemoteProtocolError
from cosched_plugin.protocol.limits import MAX_ROUNDS
from cosched_plugin.protocol.scheduler import Scheduler
from cosched_plugin.protocol.session import ManagerSession, SchedulerSession
from cosched_plugin.protocol.vocabulary import record
from cosched_plugin.site.driver import Driver, Outcome
from cosched_plugin.site.poll_loop import Clock
from cosched_plugin.site.snapshots import PENDING, RUNNING, PolledJob, Snapshot
from cosched_plugin.site.store import SENT, Order, Store, _body, _rows_of


def draw_jobs(random: Random, count: int, mean_s: int = 20) -> list[tuple[m.JobSpec, int]]:
    jobs = []
    submit_us = 0
    for number in range(1, count + 1):
        submit_us += random.randint(0, 2 * mean_s) * SECOND_US
        run_us = random.randint(1, 100) * SECOND_US
        limit_us = random.choice((run_us, 2 * run_us, max(SECOND_US, run_us // 2)))
        jobs.append((m.JobSpec(number, submit_us, random.randint(1, NODES * WIDTH), limit_us, limit_us), run_us))
    return jobs


def play(
    cluster: Cluster, driver: Driver, policy: str, until: int = 20_000, scheduler: Scheduler | None = None
) -> None:
    """Look at the cluster whenever something happens there or is due, until nothing does any more."""
    for _ in range(until):
        due = [at_us for at_us in (cluster.due_us(), driver.due_us()) if at_us is not None]
        if not due:
            return
        cluster.go_to(max(cluster.now_us, min(due)))
        driver.update(cluster.now_us, cluster.look())
        scheduler = settle(driver, lambda welcome: core_of(policy, welcome), scheduler)
    raise AssertionError("no end")


def planned(jobs: list[tuple[m.JobSpec, int]], policy: str) -> dict[int, tuple[int, tuple[m.Run, ...]]]:
    """Return when and where the jobs start by a core in a loop of its own."""
    core = core_of(policy, MACHINE)
    by_id = {spec.id: (spec, run_us) for spec, run_us in jobs}
    due = [(spec.submit_us, 1, spec.id) for spec, _ in jobs]
    heapq.heapify(due)
    starts = {}
    while due:
        now_us = due[0][0]
        events: list[m.Event] = []
        while due and due[0][0] == now_us:
            _, rank, job_id = heapq.heappop(due)
            spec, run_us = by_id[job_id]
            state = m.COMPLETED if run_us <= (spec.limit_us or run_us) else "TIMEOUT"
            events.append(m.JobSubmitted(spec) if rank else m.JobEnded(job_id, state))
        for action in core.handle(now_us, events):
            if not isinstance(action, m.StartJob):
                continue
            starts[action.job_id] = (now_us, action.runs)
            spec, run_us = by_id[action.job_id]
            heapq.heappush(due, (now_us + min(run_us, spec.limit_us or run_us), 0, action.job_id))
    return starts


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
def test_a_cluster_without_latency_gives_the_schedule_of_a_plain_loop(policy: str) -> None:
    jobs = draw_jobs(Random(policy), 150)
    cluster = Cluster(jobs)
    driver = Driver(MACHINE, None, cluster)
    driver.begin(0, cluster.look())
    play(cluster, driver, policy)
    assert {job_id: (job.start_us, job.runs) for job_id, job in cluster.jobs.items()} == planned(jobs, policy)
    assert len(driver.books) == 0
    assert cluster.withdrawn == 0


# ---------------------------------------------------------------- a difficult cluster


class Doubled:
    """A scheduler that decides as one does that begins before every batch."""

    def __init__(self, policy: str, driver: Driver, welcome: m.Welcome) -> None:
        self.policy = policy
        self.driver = driver
        self.core = SchedulerCore(policy_of(policy), welcome)
        self.before = welcome
        self.batches = 0

    def handle(self, now_us: int, events: Sequence[m.Event]) -> list[m.Action]:
        self.batches += 1
        actions = self.core.handle(now_us, events)
        self.core.check()
        # Its successor is told what the books hold now, in which the batch has happened already.
        again = SchedulerCore(policy_of(self.policy), self.driver.books.inventory())
        others = again.handle(now_us, [])
        assert others == actions, (events, others, actions)
        return actions


def trouble(random: Random, cluster: Cluster) -> None:
    """Let users, operators and the cluster itself do something."""
    job_id = random.choice(list(cluster.jobs))
    job = cluster.jobs[job_id]
    kind = random.choice(
        ("cancel", "suspend", "resume", "resume", "requeue", "hold", "start", "fail", "return", "name")
    )
    if job.state == "COMING" or job.ended_us:
        return
    match kind:
        case "cancel":
            cluster.cancel(job_id)
        case "suspend":
            cluster.suspend(job_id)
        case "resume":
            cluster.resume(job_id)
        case "requeue":
            cluster.requeue(job_id)
        case "hold":
            job.held = not job.held and job.state == "PENDING"
        case "start":
            node = random.randrange(NODES)
            if job.spec.processes <= WIDTH:
                cluster.start_itself(
                    job_id, (m.Run(node, 1, ThreadMask((1 << job.spec.processes) - 1), job.spec.processes),)
                )
        case "fail" if len(cluster.down) < NODES - 1:
            node = random.randrange(NODES)
            cluster.down.add(node)
            for other in list(cluster.jobs.values()):
                if any(run.first <= node < run.first + run.count for run in other.runs):
                    cluster.requeue(other.spec.id)
        case "return":
            cluster.down.clear()
        case "name":
            job.spec = job.spec._replace(name=random.choice(("mesh", "fold")))


class Compared(Store):
    """A store that holds after each save what one would that is written as a whole each time."""

    driver: Driver

    def save(self, welcome: m.Welcome, restarts: Mapping[int, int], orders: Sequence[Order], *only: Any) -> None:
        super().save(welcome, restarts, orders, *only)
        whole = _rows_of(self.driver.books.inventory(), restarts, orders)
        assert set(self._connection.execute("SELECT * FROM kept")) == {
            (kind, key, _body(kind, row)) for kind, key, row in whole
        }


@drawn(st.integers(0, 1 << 32), few=5, many=1_000)
def test_nothing_is_contradictory_lost_or_told_twice(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    random = Random(seed)
    policy = random.choice(("fcfs", "easy", "conservative", "pausing", "pausing"))
    cluster = Cluster(draw_jobs(random, 40), random.choice((0, 90_000, SECOND_US)), Random(seed + 1))
    with closing(Compared(str(tmp_path_factory.mktemp("d") / "store"))) as store:
        played_with_trouble(store, policy, cluster, random)


def played_with_trouble(store: Compared, policy: str, cluster: Cluster, random: Random) -> None:
    driver = store.driver = Driver(MACHINE, store, cluster)
    driver.begin(0, cluster.look())
    scheduler: Scheduler | None = None
    for step in range(3_000):
        due = [at_us for at_us in (cluster.due_us(), driver.due_us()) if at_us is not None]
        if step < 150:
            due.append(cluster.now_us + random.randint(0, 20) * SECOND_US)
            trouble(random, cluster)
        elif step == 150:
            cluster.down.clear()
            for job in cluster.jobs.values():
                job.held = False
                cluster.resume(job.spec.id)
        elif not due:
            break
        cluster.go_to(max([cluster.now_us, *([min(due)] if due else [])]))
        driver.update(cluster.now_us, cluster.look())
        scheduler = settle(driver, lambda welcome: Doubled(policy, driver, welcome), scheduler)
        driver.update(cluster.now_us, cluster.look())
        seen = {job_id: job.state for job_id, job in cluster.jobs.items() if job.starts_us is None}
        for job_id, booked in driver.books.snapshot().jobs.items():
            assert job_id not in seen or driver.due_us() or (booked.state == "PENDING") == (seen[job_id] == "PENDING")
    assert all(job.ended_us for job in cluster.jobs.values())
    assert len(driver.books) == 0


# ---------------------------------------------------------------- kills


def serve_killed(cluster: Cluster, store: Path, policy: str, random: Random | None, told: list[str]) -> bool:
    """Play the cluster for a driver in another process; kill it at some of its questions. Return whether all is over."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *PACKAGES])}
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.plugin.site.killed", str(store), policy],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=ROOT,
    )  # fmt: skip
    assert child.stdin is not None
    assert child.stdout is not None
    fresh = True
    left = -1 if random is None else random.randint(1, 14)
    with child:
        try:
            while True:
                kind, argument, *more = pickle.load(child.stdout)
                left -= 1
                before = left == 0 and random is not None and random.random() < 0.5
                if not before:
                    answer = answer_to(cluster, kind, argument, fresh=fresh)
                    fresh = False
                if left == 0:  # killed before the order was heard, or before the answer was
                    child.kill()
                    return False
                if kind == "look" and more[0]:
                    told.append(more[0])
                pickle.dump(answer, child.stdin)
                child.stdin.flush()
                if kind == "look" and answer[1] is None:
                    return True
        finally:
            child.kill()


def answer_to(cluster: Cluster, kind: str, argument: Any, *, fresh: bool) -> Any:
    if kind == "carry_out":
        return cluster.carry_out(argument)
    if kind == "withdraw":
        return cluster.withdraw(argument)
    due = [at_us for at_us in (cluster.due_us(), argument) if at_us is not None]
    if not fresh and not due:
        return cluster.now_us, None
    if not fresh:  # time stands still while a driver is down
        cluster.go_to(max(cluster.now_us, min(due)))
    return cluster.now_us, cluster.look()


@pytest.mark.parametrize("policy", ["easy", pytest.param("conservative", marks=pytest.mark.slow)])
def test_a_driver_that_is_killed_again_and_again_gives_the_same_schedule(policy: str, tmp_path: Path) -> None:
    jobs = draw_jobs(Random(7), 60)
    undisturbed, killed = Cluster(jobs), Cluster(jobs)
    told: list[str] = []
    assert serve_killed(undisturbed, tmp_path / "one", policy, None, told)
    random = Random(11)
    kills = 0
    while not serve_killed(killed, tmp_path / "other", policy, random if kills < 8 else None, told):
        kills += 1
    assert kills == 8
    starts = [{job_id: (job.start_us, job.runs) for job_id, job in each.jobs.items()} for each in (undisturbed, killed)]
    assert starts[0] == starts[1] == planned(jobs, policy)
    assert any("the last reply was finished" in text for text in told)


# ---------------------------------------------------------------- rounds, restarts, another process


class Insisting:
    """A scheduler that starts job 1 whatever it is told."""

    def __init__(self, runs: tuple[m.Run, ...]) -> None:
        self.runs = runs
        self.asked = 0

    def handle(self, now_us: int, events: Sequence[m.Event]) -> list[m.Action]:
        self.asked += 1
        return [m.StartJob(1, self.runs, SECOND_US, None)]


def one_job(processes: int = 2) -> Cluster:
    cluster = Cluster([(m.JobSpec(1, 0, processes, 10 * SECOND_US), 10 * SECOND_US)])
    cluster.go_to(0)
    return cluster


def test_a_scheduler_that_insists_on_what_is_refused_is_dismissed_with_the_reason() -> None:
    cluster = one_job()
    driver = Driver(MACHINE, None, cluster)
    driver.begin(0, cluster.look())
    insisting = Insisting((m.Run(0, 1, ThreadMask(7), 2),))  # three threads for two processes
    with pytest.raises(RemoteProtocolError, match=r"repeats refused actions.*3 threads to 2 processes") as error:
        settle(driver, lambda _: insisting)
    assert error.value.code == "rounds"
    assert insisting.asked == MAX_ROUNDS + 1  # of the first batch, which is no refusal, and of each after it
    settle(driver, lambda welcome: core_of("fcfs", welcome))  # another scheduler is served
    assert cluster.jobs[1].state == RUNNING


def test_a_start_that_does_not_come_is_taken_back_and_tried_again() -> None:
    cluster = one_job()
    cluster.delay_us = 3 * SECOND_US
    driver = Driver(MACHINE, None, cluster)
    driver.begin(0, cluster.look())
    scheduler = settle(driver, lambda welcome: core_of("fcfs", welcome))
    cluster.go_to(SECOND_US)
    driver.update(SECOND_US, cluster.look())
    assert driver.next_batch() is None  # it is under way
    assert driver.due_us() == 2 * SECOND_US
    cluster.go_to(2 * SECOND_US)
    driver.update(2 * SECOND_US, cluster.look())
    batch = driver.next_batch()
    assert batch is not None
    assert batch.events == (m.ActionRefused(1, 0, "not seen to start within 2 s", (1,)),)
    assert cluster.withdrawn == 1
    cluster.delay_us = 90_000
    driver.answer(2 * SECOND_US, scheduler.handle(batch.now_us, batch.events))
    cluster.go_to(3 * SECOND_US)
    driver.update(3 * SECOND_US, cluster.look())
    late = driver.next_batch()
    assert late is not None
    assert late.events == (m.JobStarted(1, 2_090_000, (m.Run(0, 1, ThreadMask(3), 2),), 10 * SECOND_US, None),)


class Rejecting:
    """A scheduler that rejects what is submitted."""

    def handle(self, now_us: int, events: Sequence[m.Event]) -> list[m.Action]:
        return [m.RejectJob(event.job.id, "never") for event in events if isinstance(event, m.JobSubmitted)]


def test_a_rejection_is_tried_until_the_job_is_gone() -> None:
    class Reluctant(Cluster):
        def carry_out(self, action: m.Action) -> Outcome:
            return "not yet" if self.now_us < 5 * SECOND_US else super().carry_out(action)

    cluster = Reluctant([(m.JobSpec(1, SECOND_US, 2, 10 * SECOND_US), 10 * SECOND_US)])
    driver = Driver(MACHINE, None, cluster)
    driver.begin(0, cluster.look())
    scheduler: Scheduler = Rejecting()
    for second in range(10):
        cluster.go_to(second * SECOND_US)
        driver.update(cluster.now_us, cluster.look())
        settle(driver, lambda _: scheduler, scheduler)
        assert cluster.jobs[1].state == (PENDING if 1 <= second < 5 else "COMING" if second < 1 else m.CANCELLED)
        assert len(driver.books) == 0
    assert driver.due_us() is None


def test_what_a_driver_without_a_store_does_not_know_is_said(tmp_path: Path) -> None:
    cluster = one_job()
    with ExitStack() as stores:

        def store() -> Store:
            return stores.enter_context(closing(Store(str(tmp_path / "first"))))

        first = Driver(MACHINE, store(), cluster)
        first.begin(0, cluster.look())
        assert first.lost == [
            "there was no store: 1 jobs are as the manager shows them, 0 of them running; "
            "what was expected of these, notes and wakes are lost"
        ]
        of_nothing = Driver(MACHINE, None, cluster)
        of_nothing.begin(0, Snapshot({}))
        assert of_nothing.lost == []  # without jobs nothing can be lost
        settle(first, lambda welcome: core_of("fcfs", welcome))
        again = Driver(MACHINE, store(), cluster)
        cluster.go_to(5 * SECOND_US)
        again.begin(5 * SECOND_US, cluster.look())
        assert again.lost == []
        assert again.inventory().running == first.books.inventory().running
        cluster.go_to(100 * SECOND_US)  # it has ended, and is not shown any more
        third = Driver(MACHINE, store(), cluster)
        third.begin(100 * SECOND_US, Snapshot({}))
        assert third.lost == ["1 jobs have ended since, with unknown states"]
        assert third.inventory().running == ()


def test_a_store_is_of_use_where_the_clock_was_set_back_and_where_other_jobs_have_its_numbers(tmp_path: Path) -> None:
    cluster = one_job()
    cluster.delay_us = 3 * SECOND_US
    late_us = 1_000 * 3_600 * SECOND_US
    with ExitStack() as stores:

        def driver() -> Driver:
            return Driver(MACHINE, stores.enter_context(closing(Store(str(tmp_path / "store")))), cluster)

        first = driver()
        first.begin(late_us, cluster.look())
        settle(first, lambda welcome: core_of("fcfs", welcome))  # the start is on its way
        set_back = driver()
        set_back.begin(5 * SECOND_US, cluster.look())
        assert set_back.lost == ["the store is 3599995 s ahead: the clock was set back"]
        assert set_back.due_us() == 7 * SECOND_US  # when the start is given up
        spec = m.JobSpec(1, 3_600 * SECOND_US, 1, 10 * SECOND_US)  # after the manager has lost its state
        other = driver()
        other.begin(late_us, Snapshot({1: PolledJob(spec, PENDING)}))
        assert other.lost == ["1 numbers of jobs are other jobs' by now"]
        assert [pending.spec for pending in other.inventory().pending] == [spec]
        assert not other.awaits_starts
        requeued = driver()
        requeued.begin(late_us, Snapshot({1: PolledJob(spec._replace(submit_us=0), PENDING, restarts=1)}))
        assert requeued.lost == []


def test_a_clock_that_is_set_back_goes_on_at_half_speed_until_it_is_right_again() -> None:
    shown_s = iter((10_000, 6_400, 6_410, 10_100, 10_090, 10_110))
    clock = Clock(lambda: next(shown_s))
    told_s = [clock.now_us() / SECOND_US for _ in range(6)]
    assert told_s == [10_000, 10_000, 10_005, 10_100, 10_100, 10_110]  # it is right as soon as the clock is


def test_a_job_that_no_empty_machine_holds_is_not_told() -> None:
    cluster = one_job(processes=NODES * WIDTH + 1)
    driver = Driver(MACHINE, None, cluster)
    driver.begin(0, cluster.look())
    settle(driver, lambda welcome: core_of("fcfs", welcome))
    assert driver.unfit == {1: "it has 17 processes; the machine holds at most 16 such processes"}
    assert len(driver.books) == 0


def test_a_scheduler_in_another_process_is_asked_through_a_session() -> None:
    jobs = draw_jobs(Random(5), 40)
    cluster = Cluster(jobs)
    driver = Driver(MACHINE, None, cluster)
    driver.begin(0, cluster.look())
    here = ManagerSession(driver.inventory, lockstep=False)
    there = SchedulerSession("other", "easy")
    (welcome,) = here.receive(there.hello()).send
    core: Scheduler | None = None
    for _ in range(10_000):
        if core is None:
            delivered = there.receive(welcome).deliver
            assert isinstance(delivered, m.Welcome)
            core = core_of("easy", delivered)
            here.receive(there.ready())
        while (batch := driver.next_batch()) is not None:
            (message,) = here.submit(batch.seq, batch.now_us, batch.events)
            delivered = there.receive(message).deliver
            assert isinstance(delivered, m.Events)
            reply = here.receive(there.answer(core.handle(delivered.now_us, delivered.events))).deliver
            assert isinstance(reply, m.Actions)
            driver.answer(batch.now_us, reply.actions)
        due = [at_us for at_us in (cluster.due_us(), driver.due_us()) if at_us is not None]
        if not due:
            break
        cluster.go_to(max(cluster.now_us, min(due)))
        driver.update(cluster.now_us, cluster.look())
    assert {job_id: (job.start_us, job.runs) for job_id, job in cluster.jobs.items()} == planned(jobs, "easy")


# ---------------------------------------------------------------- the store


def test_names_keep_their_numbers(tmp_path: Path) -> None:
    with closing(Store(str(tmp_path / "store"))) as store:
        assert [store.number(name) for name in ("w0!1", "17_3", "w0!1")] == [1, 2, 1]
    with closing(Store(str(tmp_path / "store"))) as again:
        assert [again.number(name) for name in ("17_3", "new")] == [2, 3]


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database, but long enough to be taken for one" * 20)
    with pytest.raises(UsageError, match="cannot be used as a store"):
        Store(str(tmp_path / "text"))
    with closing(sqlite3.connect(tmp_path / "newer")) as newer:
        newer.execute("PRAGMA user_version=9")
    with pytest.raises(UsageError, match="expected a store of version 1, got 9"):
        Store(str(tmp_path / "newer"))


RUNS = (m.Run(NODES - 1, 1, ThreadMask(1), 1),)
SPEC = m.JobSpec(1, 0, 1, 5, None)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("state", {"seq": "1"}),
        ("state", {"now_us": -1}),
        ("state", {"down": (NODES,)}),
        ("state", {"wakes": 7}),
        ("running", {"restarts": "1"}),
        ("running", {"restarts": -1}),
        ("running", {"item": m.RunningJob(SPEC, 0, (RUNS[0]._replace(first=NODES),), 5, None)}),
        (
            "running",
            {"item": m.RunningJob(SPEC._replace(id=2), 0, RUNS, 5, None)},
        ),  # and job 1 is gone, that an order starts
        ("orders", {"since_us": None}),
        ("orders", {"state": 3}),
        ("orders", 7),
        ("state", 7),
    ],
)
def test_a_store_that_holds_what_cannot_be_is_refused(kind: str, change: Any, tmp_path: Path) -> None:
    start = Order(1, 0, m.StartJob(1, RUNS, 5, None), 1, SENT)
    with closing(Store(str(tmp_path / "store"))) as store:
        store.save(MACHINE._replace(running=(m.RunningJob(SPEC, 0, RUNS, 5, None),)), {}, (start,))
    with closing(sqlite3.connect(tmp_path / "store")) as file, file:
        (body,) = file.execute("SELECT body FROM kept WHERE kind = ?", (kind,)).fetchone()
        told = change
        if isinstance(change, dict):
            told = {**unpack(body, len(body)), **change}
            if isinstance(told.get("item"), m.RunningJob):
                told["item"] = record(m.RunningJob).write(told["item"])
        file.execute("UPDATE kept SET body = ? WHERE kind = ?", (pack(told), kind))
    with (
        closing(Store(str(tmp_path / "store"))) as store,
        pytest.raises(UsageError, match="store: not written by an adapter of this version: "),
    ):
        store.load(MACHINE)


@pytest.mark.parametrize("value", [True, 1, 1.5, "text", (1, (2.0, None, "x"))])
def test_notes_come_back_as_they_were(value: m.NoteValue, tmp_path: Path) -> None:
    with closing(Store(str(tmp_path / "store"))) as store:
        for before in (1, True, value):  # equal ones are told apart
            store.save(MACHINE._replace(notes=(m.Note(None, "key", before),), wakes=(7,)), {}, ())
    with closing(Store(str(tmp_path / "store"))) as store:
        saved = store.load(MACHINE)
    assert saved is not None
    assert repr(saved.welcome.notes) == repr((m.Note(None, "key", value),))
    assert saved.welcome.wakes == (7,)
