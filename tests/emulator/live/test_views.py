"""The manager's answers to queries: every state of jobs and nodes, co-located jobs, ended jobs, and the cost of an answer."""

from __future__ import annotations

import json
import time
import weakref
from typing import Any

import pytest
from tests.emulator.parts import manager, node_class
from tests.emulator.submissions import submit_job
from tests.runs import run_on

from cosched_emulator.accounting.accounts import Accounting, Step
from cosched_emulator.errors import AccountingError
from cosched_emulator.live.live_manager import LiveManager
from cosched_emulator.live.views import answer_query
from cosched_emulator.manager.agenda import Agenda
from cosched_emulator.manager.contended_nodes import NoContention
from cosched_emulator.users import requests
from cosched_plugin.protocol import messages as m

ROOT = requests.Requester("root", operator=True)
SECOND = 1_000_000


class Site:
    """A live manager with its accounting."""

    def __init__(self, *classes: m.NodeClass) -> None:
        self.books = Accounting.create(None, {})
        inner = manager(*classes, model=NoContention())
        self.live = LiveManager(inner, Agenda(inner), 1, self.books.ended_state, self.books.tasks)
        weakref.finalize(self.books, self.books._connection.close)

    def do(self, request: requests.Request, at_s: float = 0.0, who: requests.Requester = ROOT) -> dict[str, Any]:
        answer = self.live.command(round(at_s * SECOND), who, request)
        assert isinstance(answer, requests.Done), answer
        self.write_down()
        return dict(answer.result)

    def write_down(self) -> None:
        self.books.append(Step("test", self.live.now_us, b""))
        self.books.record(self.live.drain())

    def start(self, at_s: float, *starts: m.Action) -> None:
        batch = self.live.batch()
        assert batch is not None
        self.live.answer(round(at_s * SECOND), batch[0], starts)
        self.write_down()
        assert not self.live.manager.refused

    def advance(self, at_s: float) -> None:
        self.live.advance(round(at_s * SECOND))
        self.write_down()

    def ask(self, request: requests.Request, *, served: bool = True) -> requests.Done | requests.Refused:
        status = {"uptime_s": 5.0, "scheduler": {"policy": "easy"}}
        return answer_query(self.live, self.books, lambda: status, request, served=served)

    def told(self, request: requests.Request) -> dict[str, Any]:
        """Return an answer after encoding and decoding."""
        answer = self.ask(request)
        assert isinstance(answer, requests.Done), answer
        _, received = requests.decode_answer(requests.encode_answer(answer, 7))
        assert isinstance(received, requests.Done)
        json.dumps(received.result, allow_nan=False)
        return dict(received.result)

    def rows(self, request: requests.Request) -> list[dict[str, Any]]:
        return as_maps(self.told(request))


def as_maps(table: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def submit(processes: int = 1, *, limit_s: float | None = 100, run_s: float = 50, **more: Any) -> requests.SubmitJob:
    limit_us = None if limit_s is None else round(limit_s * SECOND)
    return submit_job(processes, limit_us or SECOND, limit_us, round(run_s * SECOND), **more)


def begin(job_id: int, *runs: m.Run, limit_s: float | None = 100) -> m.StartJob:
    return m.StartJob(job_id, runs, SECOND, None if limit_s is None else round(limit_s * SECOND))


def test_the_queue_has_jobs_in_every_state() -> None:
    site = Site(node_class(4, 4))
    site.do(submit(4, name="wide"), who=requests.Requester("ann", operator=False))
    site.do(submit(2, limit_s=None), who=requests.Requester("bob", operator=False))
    site.start(2.5, begin(1, run_on(0, 2, 3, 2)), begin(2, run_on(1, 1, 12, 2), limit_s=None))
    site.do(submit(10), 3)
    site.do(submit(1, held=True), 3)
    site.do(submit(1, after=(requests.Dependency("afterok", 1),)), 3)
    site.do(submit(1, tasks=(3, 5, 7), at_once=1), 3)
    site.advance(12.5)
    answer = site.told(requests.ListJobs())
    assert (answer["now_s"], answer["left_out"]) == (12.5, 0)
    rows = as_maps(answer)
    assert [(row["job_id"], row["state"], row["reason"]) for row in rows] == [
        (1, "RUNNING", ""),
        (2, "RUNNING", ""),
        (3, "PENDING", "Resources"),
        (4, "PENDING", "JobHeldUser"),
        (5, "PENDING", "Dependency"),
        (6, "PENDING", "Resources"),
        (7, "PENDING", "JobArrayTaskLimit"),
        (8, "PENDING", "JobArrayTaskLimit"),
    ]
    first, second = rows[:2]
    assert (first["name"], first["user"], first["nodes"], first["node_list"]) == ("wide", "ann", 2, "[0-1]")
    assert (first["start_s"], first["elapsed_s"], first["limit_s"]) == (2.5, 10.0, 100.0)
    assert (first["shares_with"], second["shares_with"]) == (("2",), ("1",))
    assert second["limit_s"] is None
    assert (rows[2]["nodes"], rows[2]["start_s"], rows[2]["elapsed_s"]) == (3, None, 0)
    assert [(row["array_id"], row["array_index"]) for row in rows[5:]] == [(6, 3), (6, 5), (6, 7)]
    assert [row["job_id"] for row in site.rows(requests.ListJobs("bob"))] == [2]
    assert site.rows(requests.ListJobs("nobody")) == []


def test_pending_jobs_have_a_reason_without_a_scheduler() -> None:
    site = Site(node_class(2, 4))
    site.do(submit(1))
    site.do(submit(1, held=True))
    queue, shown = [
        site.ask(request, served=False) for request in (requests.ListJobs(), requests.ShowJobs((requests.Target(1),)))
    ]
    assert isinstance(queue, requests.Done)
    assert isinstance(shown, requests.Done)
    assert [row["reason"] for row in as_maps(dict(queue.result))] == ["NoScheduler", "JobHeldUser"]
    assert shown.result["jobs"][0]["reason"] == "NoScheduler"
    assert [row["reason"] for row in site.rows(requests.ListJobs())] == ["Resources", "JobHeldUser"]


def test_nodes_are_shown_in_every_state() -> None:
    site = Site(node_class(6, 2, memory_mb=100), node_class(1, 4))
    site.do(submit(5, memory_mb=30, ppn_min=1))
    site.do(submit(1))
    site.start(0, begin(1, run_on(0, 2, 3, 2), run_on(2, 1, 1, 1)), begin(2, run_on(6, 1, 8, 1)))
    assert site.do(requests.DrainNodes((1, 3, 7), "fans"))["unchanged"] == [[7, "there is no such node"]]
    site.live.manager.nodes.broken.add(4)
    site.live.manager.nodes.set_slowdown(5, 1.5)
    rows = site.rows(requests.ListNodes())
    assert [(row["node"], row["state"], row["reason"]) for row in rows] == [
        (0, "ALLOCATED", ""),
        (1, "DRAINING", "fans"),
        (2, "MIXED", ""),
        (3, "DRAINED", "fans"),
        (4, "DOWN", ""),
        (5, "IDLE", ""),
        (6, "MIXED", ""),
    ]
    assert [(row["threads_used"], row["threads"]) for row in rows] == [
        (2, 2),
        (2, 2),
        (1, 2),
        (0, 2),
        (0, 2),
        (0, 2),
        (1, 4),
    ]
    assert [row["memory_used_mb"] for row in rows] == [60, 60, 30, 0, 0, 0, 0]
    assert [row["jobs"] for row in rows] == [("1",), ("1",), ("1",), (), (), (), ("2",)]
    assert [row["slowed"] for row in rows] == [None] * 5 + [1.5, None]
    status = site.told(requests.ShowStatus())
    assert status["nodes"] == {"idle": 1, "mixed": 2, "allocated": 1, "draining": 1, "drained": 1, "down": 1}
    assert status["threads"] == {"all": 16, "used": 6}
    assert status["shared_nodes"] == 0


def test_a_job_on_disk_is_shown_without_nodes() -> None:
    site = Site(node_class(2, 2, swap_mb=1000))
    site.do(submit(2, memory_mb=10))
    site.do(submit(1))
    site.start(0, begin(1, run_on(0, 1, 3, 2)), begin(2, run_on(1, 1, 1, 1)))
    site.do(submit(1), 10)
    site.start(10, m.SuspendJob(1, to_disk=True), m.SuspendJob(2))
    site.advance(30)
    rows = site.rows(requests.ListJobs())
    assert [(row["state"], row["elapsed_s"], row["limit_s"]) for row in rows[:2]] == [("SUSPENDED", 10, 100)] * 2
    assert [row["jobs"] for row in site.rows(requests.ListNodes())] == [(), ("2",)]
    assert site.told(requests.ShowStatus())["jobs"] == {
        "running": 0,
        "suspended": 2,
        "pending": 1,
        "held": 0,
        "waiting": 0,
    }
    shown = site.told(requests.ShowJobs((requests.Target(1),)))["jobs"][0]
    assert (shown["on_disk"], shown["shares_with"], shown["node_list"]) == (True, (), "0")
    site.do(submit(1), 40)
    site.start(40, m.ResumeJob(1), m.ResumeJob(2))
    site.advance(45)
    rows = site.rows(requests.ListJobs())
    assert [(row["state"], row["elapsed_s"], row["limit_s"]) for row in rows[:2]] == [("RUNNING", 15, 100)] * 2


def test_running_pending_and_ended_jobs_are_shown_in_full() -> None:
    site = Site(node_class(2, 2))
    site.do(submit(1, run_s=5, demand=(1, 2, 3), tasks=(1, 2, 4)))
    site.do(submit(1))
    site.start(1, begin(1, run_on(0, 1, 1, 1)), begin(2, run_on(0, 1, 2, 1)))
    site.do(requests.CancelJobs((requests.Target(1, 2),)), 3)
    site.advance(8)
    shown = site.told(requests.ShowJobs((requests.Target(1), requests.Target(4))))
    assert [(job["job_id"], job["state"], job["array_index"]) for job in shown["jobs"]] == [
        (1, "COMPLETED", 1),
        (2, "CANCELLED", 2),
        (3, "PENDING", 4),
        (4, "PENDING", None),
    ]
    assert shown["missing"] == ()
    ended, _, waits, _ = shown["jobs"]
    assert (ended["submit_s"], ended["start_s"], ended["end_s"]) == (0, 1, 6)
    assert (ended["wait_s"], ended["elapsed_s"]) == (1, 5)
    assert waits["demand"] == (1, 2, 3)
    assert (waits["starts"], waits["allocation"], waits["estimate_s"]) == (0, (), 100)
    assert site.told(requests.ShowJobs((requests.Target(1, 4),)))["jobs"][0]["job_id"] == 3
    absent = site.told(
        requests.ShowJobs((requests.Target(99), requests.Target(1, 3), requests.Target(4, 0), requests.Target(2)))
    )
    assert [job["job_id"] for job in absent["jobs"]] == [2]
    assert sorted(absent["missing"]) == ["1_3", "4_0", "99"]


def test_running_jobs_are_shown_with_their_allocation() -> None:
    site = Site(node_class(2, 80))
    site.do(submit(3))
    site.start(1, begin(1, run_on(0, 1, 3 << 70, 2), run_on(1, 1, 1, 1)))
    site.advance(2)
    (shown,) = site.told(requests.ShowJobs((requests.Target(1),)))["jobs"]
    assert shown["allocation"] == ((0, 1, hex(3 << 70), 2), (1, 1, "0x1", 1))
    assert (shown["starts"], shown["ppn_min"], shown["exclusive"], shown["requeue"]) == (1, 1, False, True)


def test_history_status_and_overview_are_answered() -> None:
    site = Site(node_class(2, 2))
    for user in ("ann", "bob", "ann"):
        site.do(submit(1, run_s=5), who=requests.Requester(user, operator=False))
    site.start(0, begin(1, run_on(0, 1, 1, 1)), begin(2, run_on(0, 1, 2, 1)))
    site.advance(7)
    assert [job["job_id"] for job in site.told(requests.ListHistory())["jobs"]] == [2, 1]
    assert [job["job_id"] for job in site.told(requests.ListHistory("ann"))["jobs"]] == [1]
    assert [job["job_id"] for job in site.told(requests.ListHistory("", 1))["jobs"]] == [2]
    for _ in range(5):
        site.do(submit(1), 8)
    status = site.told(requests.ShowStatus())
    assert (status["uptime_s"], status["scheduler"], status["batch"]) == (5.0, {"policy": "easy"}, 1)
    assert status["jobs"] == {"running": 0, "suspended": 0, "pending": 6, "held": 0, "waiting": 0}
    assert set(status["accounting"]) == {"backlog", "trouble"}
    overview = site.told(requests.ShowOverview(2))
    assert overview["status"] == status
    assert [row["job_id"] for row in as_maps(overview["jobs"])] == [3, 4]
    assert overview["jobs"]["left_out"] == 4
    assert len(overview["nodes"]["rows"]) == 2
    assert overview["decisions"] == ((0, "start 1"), (0, "start 2"))


def test_a_command_is_not_a_query() -> None:
    answer = Site().ask(submit())
    assert answer == requests.Refused("request", "SubmitJob is no question")


def test_unreadable_accounts_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()

    def broken(*_: object) -> None:
        raise AccountingError("the database cannot be read: it is damaged")

    for name in ("history", "jobs", "tasks"):
        monkeypatch.setattr(site.books, name, broken)
    site.do(submit(), 0)
    site.do(requests.CancelJobs((requests.Target(1),)), 1)
    for request in (requests.ListHistory(), requests.ShowJobs((requests.Target(1),))):
        assert site.ask(request) == requests.Refused("accounting", "the database cannot be read: it is damaged")
    assert isinstance(site.ask(requests.ShowStatus()), requests.Done)


def crowded() -> Site:
    """10,000 pending jobs, and 2,000 running ones on 1,000 nodes, two on each."""
    site = Site(node_class(1000, 4))
    site.do(submit(2, tasks=tuple(range(2000))))
    site.start(
        0, *[begin(job_id, run_on((job_id - 1) // 2, 1, 3 if job_id % 2 else 12, 2)) for job_id in range(1, 2001)]
    )
    for number in range(10_000):
        site.do(submit(1 + number % 50, name=f"job {number}"), 1)
    return site


@pytest.mark.slow
def test_answers_take_a_bounded_time() -> None:
    site = crowded()

    def once(request: requests.Request) -> float:
        began = time.process_time()
        answer = site.ask(request)
        frames = requests.encode_answer(answer, 1)
        spent = time.process_time() - began
        assert isinstance(answer, requests.Done)
        assert sum(map(len, frames)) < requests.MAX_ANSWER_BYTES / 10
        return spent

    wanted: tuple[tuple[requests.Request, float], ...] = (
        (requests.ListJobs(), 0.05),
        (requests.ListNodes(), 0.01),
        (requests.ShowOverview(200), 0.02),
        (requests.ShowJobs((requests.Target(1),)), 0.1),
    )
    for request, most_s in wanted:
        spent_s = min(once(request) for _ in range(5))
        print(f"{type(request).__name__}: {1000 * spent_s:.1f} ms")
        assert spent_s < 4 * most_s  # a machine under load may be slower, but not by a factor of ten
