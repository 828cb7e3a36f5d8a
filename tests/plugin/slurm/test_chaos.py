"""On a real Slurm, everything fails: driver killed -9 ten times, slurmd killed, slurmctld and slurmrestd gone, users at work."""

from __future__ import annotations

import contextlib
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any, NamedTuple

import pytest
from tests.plugin.slurm.bed import Bed, bed, each_slurm
from tests.plugin.slurm.enforcing import (
    Enforcing,
    enforcing,
    messages,
    most_on_a_node,
    nodes_in,
    planned,
    replayed,
    stamped,
    stamps,
)

from cosched_plugin.common.slurm_notation import expand
from cosched_plugin.protocol.messages import KillJob, RequeueJob, ResumeJob, SuspendJob

pytestmark = pytest.mark.slow


class Chaos:
    """What happens in the course of a minute, in seconds since its beginning."""

    def __init__(self, one: Bed, driver: Enforcing, seed: int) -> None:
        self.one = one
        self.driver = driver
        self.random = Random(seed)
        self.jobs: list[int] = []
        self.cancelled: set[int] = set()
        self.agenda: list[tuple[float, Callable[[], None]]] = [(0.7 * number, self.submit) for number in range(70)]
        self.agenda += [(5.0 + 5.0 * number, self.kill) for number in range(10)]
        self.agenda += [
            (9.0, self.cancel), (13.0, self.modify), (17.0, self.release), (19.0, self.hold), (31.0, self.cancel),
            (12.0, lambda: self.script("node-kill", "n5")),
            (23.0, lambda: self.script("ctld-stop")), (24.5, lambda: self.script("ctld-start")),
            (33.0, lambda: self.script("rest-stop")), (34.0, lambda: self.script("rest-start")),
            (38.0, lambda: self.script("ctld-stop")), (43.0, lambda: self.script("ctld-start")),
            (52.0, lambda: self.script("node-start", "n5")),
        ]  # fmt: skip
        self.held: int | None = None

    def play(self) -> None:
        play(self.agenda)

    def script(self, *arguments: str) -> None:
        self.one.script(*arguments)

    def submit(self) -> None:
        nodes = self.random.choice((1, 1, 1, 2, 2, 3, 4))
        run_s = round(self.random.uniform(0.3, 2.5), 2)
        options = ["-N", str(nodes), "-n", str(4 * nodes), "--ntasks-per-node=4", "-t", "2"]
        # Slurm is down now and then: its user tries again, as sbatch itself does
        with contextlib.suppress(AssertionError):
            self.jobs.append(
                self.one.submit(*options, script=stamped(self.one, f"sleep {run_s}"), comment={"estimate_s": run_s})
            )

    def kill(self) -> None:
        assert self.driver.end(signal.SIGKILL) == -signal.SIGKILL
        self.driver.begin()

    def waiting(self) -> int | None:
        rows = self.one.jobs()
        found = [number for number in self.jobs if number in rows and rows[number]["state_reason"] == "JobHeldUser"]
        return found[-1] if found else None

    def cancel(self) -> None:
        job = self.waiting()
        if job is not None:
            self.cancelled.add(job)
            self.one.run("scancel", str(job))

    def modify(self) -> None:
        job = self.waiting()
        if job is not None:
            self.one.run("scontrol", "update", f"JobId={job}", "TimeLimit=4", "JobName=other", ok=False)

    def release(self) -> None:
        job = self.waiting()
        if job is not None:
            self.one.run("scontrol", "release", str(job), ok=False)

    def hold(self) -> None:
        self.held = self.waiting()
        if self.held is not None:
            self.one.run("scontrol", "hold", str(self.held), ok=False)


@each_slurm
@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_and_nothing_starts_twice(tmp_path: Path, slurm: str, seed: int) -> None:
    # One job on a node at a time: in this partition Slurm itself would let two share it.
    with (
        bed("--slurmd-timeout", "10", "--min-job-age", "300", slurm=slurm) as one,
        enforcing(one, tmp_path, "--policy", "easy", "--partition", "co") as driver,
    ):
        chaos = Chaos(one, driver, seed)
        chaos.play()
        if chaos.held is not None:
            one.run("scontrol", "uhold", str(chaos.held), ok=False)
        done = {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL"}
        jobs = one.until(lambda jobs: all(jobs[job]["job_state"] in done for job in chaos.jobs), 150)
        states = {job: jobs[job]["job_state"] for job in chaos.jobs}
        assert {job for job, state in states.items() if state == "CANCELLED"} <= chaos.cancelled
        ran = stamps(one)
        requeued = {job for job in chaos.jobs if jobs[job]["restart_cnt"]}
        # Slurm notices a dead slurmd after a quarter of a minute; what it starts there meanwhile has no process.
        dead = {job for job in chaos.jobs if "n5" in expand(jobs[job]["nodes"] or jobs[job]["required_nodes"] or "n5")}
        for job in chaos.jobs:
            if states[job] == "COMPLETED":
                assert len(ran[job].ends) >= 1, job
            if job not in requeued:
                assert job in ran or states[job] == "CANCELLED" or job in dead, (job, states[job])
                assert job not in ran or len(ran[job].starts) == 1, (job, ran[job])
        released = {job for job in chaos.jobs if f"job {job} is left to Slurm" in driver.log}
        if not released and not requeued:
            assert set(most_on_a_node(one).values()) == {1}
        assert replayed(driver.records, "easy") > 10  # a slow machine has fewer, larger batches
        assert driver.runs == 11


@each_slurm
def test_a_policy_that_suspends_resumes_kills_and_requeues(tmp_path: Path, slurm: str) -> None:
    """Each job runs to its end or is killed by the policy; what was suspended goes on, and what was requeued begins anew."""
    with (
        bed(slurm=slurm) as one,
        enforcing(one, tmp_path, "--policy", "tests.plugin.site.cluster:Pausing", "--partition", "co") as driver,
    ):
        jobs = [
            one.submit("-N1", "-n4", "--ntasks-per-node=4", "-t", "5", script=stamped(one, f"sleep {6 + number % 4}"))
            for number in range(16)
        ]
        ended = one.until(lambda rows: all(rows[job]["job_state"] in ("COMPLETED", "CANCELLED") for job in jobs), 200)
        ran = stamps(one)
        actions = [action for record in driver.records for action in getattr(messages(record)[-1], "actions", ())]
        kinds = {type(action) for action in actions}
        assert {SuspendJob, ResumeJob} <= kinds
        assert kinds & {KillJob, RequeueJob}
        for job in jobs:
            if ended[job]["job_state"] == "COMPLETED":
                assert len(ran[job].ends) >= 1, job
            assert len(ran[job].starts) == 1 + ended[job]["restart_cnt"], job
        assert "error" not in driver.log


class Fates(NamedTuple):
    """What became of jobs while daemons were killed, by the jobs' own numbers, which Slurm does not give twice."""

    submitted: int
    lost: int  # never ran
    again: int  # ran more than once
    unexplained: int  # of these two: not submitted, or begun, in the seconds before a kill of slurmctld that it had not saved yet
    unfinished: int  # ran, and did not reach their end
    elsewhere: int  # ran on other nodes than planned
    most: int  # jobs on a node at once, at most
    batches: int  # of the driver


KILLS = [(8.0 + 13.0 * number, "ctld-kill", "ctld-start") for number in range(1, 9, 2)]
KILLS += [(21.0, "rest-stop", "rest-start"), (73.0, "rest-stop", "rest-start")]
UNSAVED_S, AWAY_S = 8.0, 8.0  # before a kill of slurmctld, which saves jobs every 5 s; and until it answers again


def fates(folder: Path, slurm: str, count: int, *, driven: bool) -> Fates:
    """Run ``count`` jobs at two a second while slurmctld, slurmrestd and the driver are killed, and a token expires; or Slurm alone."""
    random = Random(7)
    options = ("--policy", "easy", "--partition", "co")
    with bed("--min-job-age", "900", slurm=slurm) as one, contextlib.ExitStack() as stack:
        driver = stack.enter_context(enforcing(one, folder, *options)) if driven else None
        kills: list[tuple[float, Callable[[], object]]] = []
        when: dict[int, float] = {}  # of submissions, by the jobs' own numbers
        killed: list[float] = []
        for at_s, stop, start in KILLS:
            what = partial(kill, one, stop, killed) if stop == "ctld-kill" else partial(one.script, stop)
            kills += [(at_s, what), (at_s + 1.5, partial(one.script, start))]
        if driver is not None:
            kills += [(5.0 + 11.0 * number, partial(begin_again, driver)) for number in range(12)]
        if one.token.exists():
            kills += [(50.0, partial(one.script, "token", "5")), (70.0, partial(one.script, "token", "3600"))]
        agenda: list[tuple[float, Callable[[], object]]] = []
        for number in range(count):
            nodes = random.choice((1, 1, 1, 2, 2, 3, 4))
            asked = ["-N", str(nodes), "-n", str(4 * nodes), "--ntasks-per-node=4", "-t", "2"]
            note = f'echo "$SLURM_JOB_ID {number} $EPOCHREALTIME" >> {one.folder}/numbers'
            run_s = round(random.uniform(0.3, 2.5), 2)
            where = {"partition": "co"} if driven else {"partition": "ex", "held": False}
            body = stamped(one, f"{note}\nsleep {run_s}")
            agenda.append((0.5 * number, partial(submitted, one, asked, body, where, when, number)))
        killer = Thread(target=play, args=(kills,))  # a submission waits for a slurmctld that is away
        killer.start()
        play(agenda)
        killer.join(60)
        held = () if driven else ("JobHeldUser", "JobHeldAdmin")  # by Slurm itself, as their launch has failed
        one.until(lambda rows: not any(goes_on(row, held) for row in rows.values()), 240)
        ran, plans = stamps(one), planned([] if driver is None else driver.records)
        own = [line.split() for line in (one.folder / "numbers").read_text().splitlines()]
        begun: dict[int, list[float]] = {}
        for _, name, at in own:
            begun.setdefault(int(name), []).append(float(at))
        doubtful = [when.get(number) for number in range(count) if number not in begun]
        doubtful += [min(moments) for moments in begun.values() if len(moments) > 1]
        # A number that Slurm gave twice is not told apart in stamps.
        jobs = [job for job, times in Counter(int(job) for job, *_ in own).items() if times == 1 and job in ran]
        return Fates(
            count,
            count - len(begun),
            sum(len(moments) > 1 for moments in begun.values()),
            sum(
                at is not None and not any(at_s - UNSAVED_S < at < at_s + AWAY_S for at_s in killed) for at in doubtful
            ),
            sum(len(ran[job].ends) < len(ran[job].starts) for job in jobs),
            sum(job in plans and sorted(plans[job]) != sorted(nodes_in(ran[job].nodes)) for job in jobs),
            max(most_on_a_node(one).values()),
            0 if driver is None else replayed(driver.records, "easy"),
        )


def play(agenda: Sequence[tuple[float, Callable[[], object]]]) -> None:
    begun = time.monotonic()
    for at_s, what in sorted(agenda, key=lambda item: item[0]):
        time.sleep(max(0.0, begun + at_s - time.monotonic()))
        what()


def goes_on(row: dict[str, Any], held: Sequence[str]) -> bool:
    """Return whether a job will still run; one that is ``held`` will not."""
    waits = row["job_state"] == "PENDING" and "launch" not in row["state_reason"] and row["state_reason"] not in held
    return waits or row["job_state"] in ("RUNNING", "COMPLETING")


def kill(one: Bed, what: str, killed: list[float]) -> None:
    killed.append(time.time())
    one.script(what)


def begin_again(driver: Enforcing) -> None:
    assert driver.end(signal.SIGKILL) == -signal.SIGKILL
    driver.begin()


def submitted(
    one: Bed, options: list[str], script: str, where: dict[str, Any], when: dict[int, float], number: int
) -> None:
    """Submit as a user does, who tries again while slurmctld is away."""
    for _ in range(5):
        with contextlib.suppress(AssertionError):
            one.submit(*options, script=script, **where)
            when[number] = time.time()
            return
        time.sleep(1.0)


@each_slurm
def test_300_jobs_run_where_they_are_planned_whatever_is_killed(tmp_path: Path, slurm: str) -> None:
    """Slurm alone, under the same kills, is the control: what slurmctld forgets when it is killed is not the driver's."""
    alone = fates(tmp_path, slurm, 300, driven=False)
    driven = fates(tmp_path, slurm, 300, driven=True)
    print(slurm, "alone", alone, "driven", driven)
    assert driven.elsewhere == driven.unexplained == 0
    assert driven.most <= max(alone.most, 1)  # processes of a job that slurmctld has forgotten go on
    assert driven.unfinished <= alone.unfinished + 3
    assert driven.batches > 50
