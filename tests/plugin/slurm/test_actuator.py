"""What is asked of Slurm for each action, and what follows from each way in which it may answer."""

from __future__ import annotations

import json
import socket
import time
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cosched_hwmodel.units import SECOND_US, ThreadMask
from cosched_plugin.common.errors import ProtocolError, UsageError
from cosched_plugin.protocol import messages as m
from cosched_plugin.quarantine import PolicyFailed
from cosched_plugin.site.books import Books
from cosched_plugin.site.driver import Outcome, Unsettled
from cosched_plugin.site.enforcing import Enforcer
from cosched_plugin.site.poll_loop import Clock, connect, only_process, wait, wake_socket
from cosched_plugin.site.store import Store
from cosched_plugin.slurm import job_list
from cosched_plugin.slurm.actuator import SlurmActuator
from cosched_plugin.slurm.cluster import Cluster, task_number
from cosched_plugin.slurm.rest import Polls, Rest
from cosched_plugin.slurm.site_file import Site
from cosched_plugin.slurm.transport import WAIT_S, Reply
from cosched_terminal.console import Log

FINE = '{"errors": []}'
REFUSED = '{"errors": [{"error": "Requested node configuration is not available", "error_number": 2014}]}'
MINUTE_US = 60 * SECOND_US
PLAIN = {"user_name": "ann", "partition": "co", "node_count": 1, "max_nodes": 1, "tasks": 4, "cpus": 4, "time_limit": 5}
ALL = ThreadMask(15)


class Slurm:
    """A Slurm of a few records: it starts what is placed on the next poll, unless `stubborn`."""

    def __init__(self, *jobs: dict[str, Any]) -> None:
        self.jobs = {
            job["job_id"]: {**PLAIN, "job_state": "PENDING", "state_reason": "JobHeldUser", **job} for job in jobs
        }
        self.asked: list[tuple[Any, ...]] = []
        self.questions: list[str] = []  # about jobs
        self.answers: dict[str, Reply] = {}  # by target, instead of accepting
        self.refuses: set[str] = set()  # verbs of scontrol
        self.kept_jobs: set[int] = set()  # by operators
        self.stubborn = False
        self.begins = False  # a job 1 that waits, just before it is changed
        self.cores = [2, 2, 2, 2]  # of the sockets of each node
        self.now_s = 1_000_000.0

    def call(self, method: str, target: str, body: Any = None) -> Reply:
        what = target.split("/", 3)[3].partition("?")[0]
        if method == "GET":
            nodes = [
                {
                    "name": f"n{number}",
                    "state": "idle",
                    "state_flags": [],
                    "sockets": 2,
                    "cores": cores,
                    "threads": 1,
                    "partitions": ["co"],
                }
                for number, cores in enumerate(self.cores)
            ]
            if what == "nodes":
                return Reply(200, json.dumps({"errors": [], "nodes": nodes}))
            rows = [job for number, job in self.jobs.items() if what in ("jobs", f"job/{number}", "jobs/state")]
            if what == "jobs/state":
                rows = [{"job_id": str(row["job_id"]), "state": [row["job_state"]]} for row in rows]
            self.questions.append(what)
            return Reply(200, json.dumps({"errors": [], "jobs": rows}))
        self.asked.append((what, body) if body is not None else (method, what))
        if self.begins:
            self.jobs[1] |= {"job_state": "RUNNING", "nodes": "n0", "start_time": int(self.now_s)}
            return Reply(500, REFUSED)
        if what in self.answers:
            return self.answers[what]
        job = self.jobs.get(int(what.split("/")[1].split("_")[0]))
        listed = (body or {}).get("nodelist") or ",".join((body or {}).get("required_nodes", ()))
        if job is not None and listed and not body.get("hold") and not self.stubborn:
            job |= {
                "job_state": "RUNNING",
                "state_reason": "None",
                "nodes": listed,
                "start_time": int(self.now_s),
            }
        return Reply(200, FINE)

    def scontrol(self, *arguments: str) -> Outcome:
        self.asked.append(arguments)
        return "refused" if arguments[0] in self.refuses else None

    def kept(self) -> set[int]:
        return self.kept_jobs

    def tick(self) -> None:
        self.asked.append(("tick",))


class Told:
    """A scheduler that says what a test wants, batch by batch, and keeps what it is told."""

    def __init__(self, *answers: list[m.Action]) -> None:
        self.answers = list(answers)
        self.events: list[list[m.Event]] = []
        self.welcomes: list[m.Welcome] = []

    def make(self, welcome: m.Welcome) -> Told:
        self.welcomes.append(welcome)
        return self

    def handle(self, now_us: int, events: Any) -> list[m.Action]:
        self.events.append(list(events))
        return self.answers.pop(0) if self.answers else []


def enforcer_of(slurm: Slurm, told: Told, tmp_path: Path, version: str = "v0.0.38") -> Enforcer:
    actuator = actuator_of(slurm, version)
    log, clock = Log("test", write=lines.append), Clock(lambda: slurm.now_s)
    store = Store(str(tmp_path / "store"))
    one = Enforcer(actuator._cluster, actuator, store, told.make, clock, log)
    weakref.finalize(one, store.close)
    one.begin()
    return one


def cluster_of(one: Enforcer) -> Cluster:
    assert isinstance(one.actuator, SlurmActuator)
    return one.actuator._cluster


def actuator_of(slurm: Slurm, version: str = "v0.0.38") -> SlurmActuator:
    polls = Polls(Rest(slurm, version))
    assert polls.poll(slurm.now_s)
    cluster = Cluster(polls, Site(partitions=("co",)), 1)
    return SlurmActuator(cluster, slurm, Clock(lambda: slurm.now_s), Log("test", write=lines.append))


lines: list[str] = []


def go_on(one: Enforcer, slurm: Slurm, seconds: float) -> None:
    slurm.now_s += seconds
    cluster_of(one).polls.rest.forget()
    one.turn()


def start(job_id: int, node: int = 0, limit_us: int | None = 5 * MINUTE_US) -> m.StartJob:
    return m.StartJob(job_id, (m.Run(node, 1, ALL, 4),), 10 * SECOND_US, limit_us)


def ready_actuator(slurm: Slurm, version: str = "v0.0.38") -> SlurmActuator:
    actuator = actuator_of(slurm, version)
    books = Books(actuator._cluster.machine)
    for job in actuator._cluster.snapshot(0, books).jobs.values():
        books.ledger.queue.enter(job.spec)
    return actuator


def test_what_is_asked_for_each_action() -> None:
    running = {"job_id": 2, "job_state": "RUNNING", "state_reason": "None", "nodes": "n1"}
    free = {"job_id": 3, "max_nodes": 0, "tasks": 6, "cpus": 6, "node_count": 2}
    again = {"job_id": 4, "restart_cnt": 1}
    array = {"job_id": 9, "array_job_id": 9, "array_task_id": None, "array_task_string": "3,5"}
    slurm = Slurm({"job_id": 1}, running, free, again, array)
    actuator = ready_actuator(slurm)
    carry_out = actuator.carry_out
    two = (m.Run(0, 1, ALL, 4), m.Run(1, 1, ThreadMask(3), 2))
    for action, asked in (
        (start(1), ("job/1", {"nodelist": "n0", "hold": False})),
        (start(1, limit_us=5 * MINUTE_US + 1), ("job/1", {"nodelist": "n0", "hold": False, "time_limit": 6})),
        (start(4), ("job/4", {"nodelist": "n0", "hold": False, "begin_time": "now"})),
        (m.StartJob(3, two, SECOND_US, 5 * MINUTE_US), ("job/3", {"nodelist": "n0,n1", "hold": False, "nodes": "2-2"})),
        (start(task_number(9, 5)), ("job/9_5", {"nodelist": "n0", "hold": False})),
        (m.ReviseJob(2, SECOND_US, 7 * MINUTE_US), ("job/2", {"time_limit": 7})),
        (m.SuspendJob(2), ("suspend", "2")),
        (m.RequeueJob(2), ("requeuehold", "2")),
        (m.KillJob(2), ("DELETE", "job/2")),
    ):
        slurm.asked.clear()
        assert carry_out(action) is None
        assert slurm.asked == [asked]
    slurm.asked.clear()
    assert carry_out(m.ReviseJob(2, 9 * SECOND_US, 5 * MINUTE_US)) is None  # the same limit
    assert carry_out(m.ResumeJob(2)) is None  # so soon after the suspension: later
    assert slurm.asked == []
    slurm.now_s += 2.2
    actuator.follow_up()
    assert slurm.asked == [("resume", "2")]
    impossible: list[m.Action] = [m.SuspendJob(2, to_disk=True), m.SubmitJob(m.JobSpec(0, 0, 1, 1))]
    for other in impossible:
        assert isinstance(carry_out(other), str)
    assert carry_out(start(2)) == "it is RUNNING, not waiting"
    assert carry_out(start(77)) == "it is gone, not waiting"
    assert carry_out(m.RejectJob(1, "too large")) is None
    assert slurm.asked[-1] == ("update", "JobId=1", "AdminComment=cosched: too large")


def test_after_a_silence_nothing_more_is_asked_until_a_poll_is_answered() -> None:
    slurm = Slurm({"job_id": 1}, {"job_id": 2})
    actuator = ready_actuator(slurm)
    carry_out = actuator.carry_out
    slurm.answers["job/1"] = Reply(0, "timed out")
    assert isinstance(carry_out(start(1)), Unsettled)
    slurm.asked.clear()
    assert isinstance(carry_out(start(2, 1)), str)
    assert slurm.asked == []
    actuator.silence = ""
    assert carry_out(start(2, 1)) is None


def test_a_group_of_which_one_is_refused_is_taken_back() -> None:
    slurm = Slurm({"job_id": 1}, {"job_id": 2})
    carry_out = ready_actuator(slurm).carry_out
    slurm.answers["job/2"] = Reply(500, REFUSED)
    group = m.StartTogether((start(1), start(2, 1)))
    assert "job 2 of a group" in str(carry_out(group))
    assert slurm.asked[-2:] == [("uhold", "1"), ("job/1", {"nodelist": ""})]
    slurm.refuses.add("uhold")  # it has started by now
    carry_out(group)
    assert slurm.asked[-2:] == [("uhold", "1"), ("requeuehold", "1")]


def test_a_refused_start_backs_off_and_is_tried_again(tmp_path: Path) -> None:
    slurm = Slurm({"job_id": 1})
    slurm.answers["job/1"] = Reply(500, REFUSED)
    told = Told([start(1)], [], [start(1)], [])
    one = enforcer_of(slurm, told, tmp_path)
    assert [type(event) for event in told.events[1]] == [m.ActionRefused, m.JobHeld]
    assert slurm.asked == [("job/1", {"nodelist": "n0", "hold": False})]
    go_on(one, slurm, 1.0)
    assert len(told.events) == 2
    go_on(one, slurm, 1.1)
    assert told.events[2] == [m.JobReleased(1)]
    assert [type(event) for event in told.events[3]] == [m.ActionRefused, m.JobHeld]
    go_on(one, slurm, 3.0)
    assert len(told.events) == 4  # twice as long
    go_on(one, slurm, 1.1)
    assert told.events[4] == [m.JobReleased(1)]


def test_a_start_that_does_not_come_true_is_taken_back(tmp_path: Path) -> None:
    slurm = Slurm({"job_id": 1})
    slurm.stubborn = True
    told = Told([start(1, limit_us=7 * MINUTE_US)])
    one = enforcer_of(slurm, told, tmp_path)
    slurm.jobs[1] |= {"state_reason": "Resources", "required_nodes": "n0", "time_limit": 7}
    go_on(one, slurm, 1.0)
    assert len(told.events) == 1
    slurm.asked.clear()
    go_on(one, slurm, 9.0)
    assert slurm.asked == [("uhold", "1"), ("job/1", {"nodelist": "", "time_limit": 5})]
    assert [type(event) for event in told.events[1]] == [m.ActionRefused, m.JobHeld]


def test_what_is_placed_and_does_not_begin_is_taken_back_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = Slurm({"job_id": 1})
    slurm.stubborn = True
    one = enforcer_of(slurm, Told([start(1)]), tmp_path)
    slurm.jobs[1] |= {"state_reason": "Resources", "required_nodes": "n0"}
    slurm.asked.clear()

    def sleep(seconds: float) -> None:
        slurm.now_s += seconds
        cluster_of(one).polls.rest.forget()

    monkeypatch.setattr(time, "sleep", sleep)
    one.end()
    assert slurm.asked == [("uhold", "1"), ("job/1", {"nodelist": ""})]
    assert not one.driver.awaits_starts


@pytest.mark.parametrize("state", ["RUNNING", "COMPLETED"])
def test_a_job_that_has_begun_since_the_last_poll_is_neither_held_nor_refused(state: str, tmp_path: Path) -> None:
    """A hold of a running job is accepted, and it keeps it for good when it is requeued."""
    slurm = Slurm({"job_id": 1})
    slurm.stubborn = True
    told = Told([start(1)])
    one = enforcer_of(slurm, told, tmp_path)
    slurm.jobs[1] |= {"state_reason": "Resources", "required_nodes": "n0"}
    cluster_of(one).polls.rest.forget()
    assert one._poll()
    slurm.asked.clear()
    slurm.now_s += 9.0
    slurm.jobs[1] |= {"job_state": state, "nodes": "n0", "start_time": int(slurm.now_s)}
    one.driver.update(one.clock.now_us(), one._snapshot())  # which is of before
    one._decide()
    assert slurm.asked == []
    assert len(told.events) == 1
    go_on(one, slurm, 0.1)
    assert [type(event) for event in told.events[-1]] == ([m.JobEnded] if state == "COMPLETED" else [m.JobStarted])
    go_on(one, slurm, 9.0)
    assert slurm.asked == []


def test_an_operators_hold_that_no_list_shows_yet_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two lists of all jobs the states alone are asked for, and a pending job is pending, whoever holds it."""
    monkeypatch.setattr(job_list, "DEAR_S", -1.0)
    monkeypatch.setattr(job_list, "WHOLE_S", 30.0)
    slurm = Slurm({"job_id": 1}, {"job_id": 2})
    one = enforcer_of(slurm, Told([], [start(1), start(2, 1)]), tmp_path, "v0.0.44")
    cluster_of(one).polls.rest.list._whole_took_s = 1.0  # single jobs are cheaper
    slurm.jobs[1]["state_reason"] = "JobHeldAdmin"
    slurm.kept_jobs = {1}
    slurm.jobs[3] = {**PLAIN, "job_id": 3, "job_state": "PENDING", "state_reason": "JobHeldUser"}
    slurm.now_s += 1.0
    one.turn()
    assert [asked for asked in slurm.asked if asked != ("tick",)] == [
        ("job/2", {"required_nodes": ["n1"], "hold": False})
    ]
    assert slurm.questions[-3:] == ["jobs/state", "job/1", "job/2"]  # after the refusal
    assert cluster_of(one).records[1].held == "admin"


def test_a_job_that_begins_while_it_is_taken_back_is_released_again(tmp_path: Path) -> None:
    slurm = Slurm({"job_id": 1})
    slurm.stubborn = True
    one = enforcer_of(slurm, Told([start(1)]), tmp_path)
    slurm.jobs[1] |= {"state_reason": "Resources", "required_nodes": "n0"}

    slurm.begins = True
    slurm.asked.clear()
    go_on(one, slurm, 9.0)
    assert slurm.asked == [("uhold", "1"), ("job/1", {"nodelist": ""}), ("release", "1")]


def test_a_job_that_slurm_requeues_is_held_freed_and_placed_again(tmp_path: Path) -> None:
    """As after the death of its node: Slurm would start it there again, and kill it for good if it started within the second."""
    slurm = Slurm({"job_id": 1})
    told = Told([start(1)], [], [start(1, 1)])
    one = enforcer_of(slurm, told, tmp_path)
    go_on(one, slurm, 0.1)
    assert len(told.events) == 1  # it runs as decided
    slurm.jobs[1] |= {"job_state": "COMPLETING", "restart_cnt": 1}
    go_on(one, slurm, 0.1)
    assert len(told.events) == 1  # it still has its nodes
    slurm.asked.clear()
    slurm.jobs[1] |= {
        "job_state": "PENDING",
        "state_reason": "BeginTime",
        "nodes": "",
        "required_nodes": "n0",
        "submit_time": 9,
    }
    go_on(one, slurm, 0.1)
    assert slurm.asked == [("uhold", "1"), ("job/1", {"nodelist": ""})]
    assert told.events[1] == [m.JobRequeued(1), m.JobHeld(1)]
    slurm.jobs[1] |= {"state_reason": "JobHeldUser", "required_nodes": ""}
    slurm.asked.clear()
    go_on(one, slurm, 1.0)
    assert len(told.events) == 2
    go_on(one, slurm, 0.3)
    assert told.events[2] == [m.JobReleased(1)]
    assert slurm.asked[0] == ("job/1", {"nodelist": "n1", "hold": False, "begin_time": "now"})


def test_an_operators_hold_outlives_a_start_that_is_taken_back(tmp_path: Path) -> None:
    slurm = Slurm({"job_id": 1})
    slurm.stubborn = True
    told = Told([start(1)])
    one = enforcer_of(slurm, told, tmp_path)
    slurm.jobs[1] |= {"state_reason": "JobHeldAdmin", "required_nodes": "n0"}
    slurm.asked.clear()
    go_on(one, slurm, 9.0)
    assert slurm.asked == [("job/1", {"nodelist": ""})]
    go_on(one, slurm, 90.0)
    assert [type(event) for event in told.events[1]] == [m.ActionRefused, m.JobHeld]
    assert len(told.events) == 2


def test_a_change_of_unknown_fate_is_not_sent_again_and_the_scheduler_begins_anew(tmp_path: Path) -> None:
    slurm = Slurm({"job_id": 1})
    slurm.answers["job/1"] = Reply(0, "timed out")
    told = Told([start(1)])
    one = enforcer_of(slurm, told, tmp_path)
    slurm.jobs[1] |= {"job_state": "RUNNING", "state_reason": "None", "nodes": "n0", "start_time": int(slurm.now_s)}
    go_on(one, slurm, 9.0)
    assert len(told.welcomes) == 2
    assert [running.spec.id for running in told.welcomes[1].running] == [1]
    assert [target for target, *_ in slurm.asked if target == "job/1"] == ["job/1"]


def test_a_job_that_runs_elsewhere_than_decided_is_told_of(tmp_path: Path) -> None:
    slurm = Slurm({"job_id": 1})
    told = Told([start(1)])
    one = enforcer_of(slurm, told, tmp_path)
    slurm.jobs[1]["nodes"] = "n2"
    go_on(one, slurm, 0.1)
    (event,) = told.events[1]
    assert isinstance(event, m.JobStarted)
    assert event.runs == (m.Run(2, 1, ALL, 4),)


def test_a_job_that_completes_although_it_was_not_placed_is_held_and_keeps_its_node(tmp_path: Path) -> None:
    slurm = Slurm({"job_id": 1})
    told = Told()
    one = enforcer_of(slurm, told, tmp_path)
    slurm.jobs[1] |= {"job_state": "COMPLETING", "nodes": "n0"}
    go_on(one, slurm, 0.1)
    assert {*told.events[-1]} == {m.NodeFailed(0), m.JobHeld(1)}
    slurm.jobs[1] |= {"job_state": "PENDING", "state_reason": "JobHeldUser", "nodes": ""}
    go_on(one, slurm, 9.0)
    assert {*told.events[-1]} == {m.NodeReturned(0), m.JobReleased(1)}


def test_one_process_enforces(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    with only_process(state), pytest.raises(UsageError, match="another process"), only_process(state):
        pass


def test_a_hook_wakes_the_driver(tmp_path: Path) -> None:
    path = str(tmp_path / "wake")
    with wake_socket(path) as socket_, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hook:
        begun = time.monotonic()
        hook.sendto(b"x", path)
        wait(socket_, 20.0)
        assert time.monotonic() - begun < 10
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="expected a socket to replace"), wake_socket(str(tmp_path / "file")):
        pass


def test_a_slurm_that_never_answers_is_given_up_when_it_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each version was asked for, for 25 s: it took 125, and 60 were told."""
    now_s = 1_000.0

    class Deaf:
        def call(self, method: str, target: str, body: object = None) -> Reply:
            pass_time(WAIT_S)
            return Reply(0, "TimeoutError: timed out")

    def pass_time(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    clock = SimpleNamespace(monotonic=lambda: now_s, time=lambda: now_s, sleep=pass_time)
    for module in ("site.poll_loop", "slurm.rest", "slurm.transport", "slurm.job_list"):
        monkeypatch.setattr(f"cosched_plugin.{module}.time", clock)
    said: list[str] = []
    with pytest.raises(
        ProtocolError, match=r"^no Slurm after 75 s: no answer to any of .*: 0 TimeoutError: timed out$"
    ):
        connect(Polls(Rest(Deaf())), 60.0, Log("test", write=said.append))
    assert now_s == 1_075.0


def test_a_scheduler_whose_policy_fails_begins_anew_from_slurms_state(tmp_path: Path) -> None:
    class Fails(Told):
        def handle(self, now_us: int, events: Any) -> list[m.Action]:
            if len(self.welcomes) == 1 and events:
                raise PolicyFailed("once")
            return super().handle(now_us, events)

    slurm = Slurm()
    told = Fails([], [start(7)])
    one = enforcer_of(slurm, told, tmp_path)
    slurm.jobs[7] = {**PLAIN, "job_id": 7, "job_state": "PENDING", "state_reason": "JobHeldUser"}
    go_on(one, slurm, 10)
    assert [[job.spec.id for job in each.pending] for each in told.welcomes] == [[], [7]]
    assert told.events[-1] == []
    assert slurm.asked[-2:] == [("job/7", {"nodelist": "n0", "hold": False}), ("tick",)]
    assert any("the policy has failed, and restarts from the state of Slurm: once" in line for line in lines)


def test_nodes_that_are_not_as_at_the_start_are_named(tmp_path: Path) -> None:
    slurm = Slurm()
    one = enforcer_of(slurm, Told(), tmp_path)
    lines.clear()
    slurm.cores = [2, 4, 2, 2, 2]
    go_on(one, slurm, 1)
    assert lines == [
        "test: warning: node n1 is used as it was, until a restart: it had other cores or memory at the start",
        "test: warning: node n4 is used as it was, until a restart: it has come since the start",
    ]


def test_a_job_with_the_number_of_one_in_the_store_is_not_started_as_that_one(tmp_path: Path) -> None:
    """As after Slurm has lost its state."""
    slurm = Slurm({"job_id": 1, "submit_time": 1_000_000})
    slurm.stubborn = True
    enforcer_of(slurm, Told([start(1)]), tmp_path)
    assert ("job/1", {"nodelist": "n0", "hold": False}) in slurm.asked
    later = Slurm({"job_id": 1, "submit_time": 1_009_000, "tasks": 1, "cpus": 1, "name": "another"})
    later.now_s += 9_000
    told = Told()
    enforcer_of(later, told, tmp_path)
    (welcome,) = told.welcomes
    ((spec, held, *_),) = welcome.pending
    assert (spec.name, spec.processes, spec.submit_us, held) == ("another", 1, 1_009_000 * SECOND_US, False)
    assert later.asked == []


def test_tasks_that_were_requeued_or_changed_count_for_their_arrays_limit_too(tmp_path: Path) -> None:
    array = {"array_job_id": 7, "array_max_tasks": 1}
    slurm = Slurm(*[{"job_id": number, "array_task_id": number - 8, **array} for number in (8, 9, 10)])
    slurm.jobs[8] |= {"job_state": "RUNNING", "nodes": "n0", "start_time": int(slurm.now_s)}
    told = Told()
    one = enforcer_of(slurm, told, tmp_path)
    assert [held for _, held, *_ in told.welcomes[0].pending] == [True, True]
    slurm.jobs[8]["job_state"] = "COMPLETED"
    go_on(one, slurm, 1)
    assert told.events[-1][1:] == [m.JobReleased(task_number(7, 1))]  # not both
