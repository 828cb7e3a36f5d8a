"""Further requests of a submission: a begin time, all memory of its nodes; and the users' view of tasks of arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.emulator.live.recorded import ROOT, Recorded
from tests.emulator.live.test_views import SECOND, Site, begin, submit
from tests.emulator.parts import node_class
from tests.runs import run_on

from cosched_emulator.cli.user_tables import queue_table
from cosched_emulator.live import user_commands
from cosched_emulator.manager import manager
from cosched_emulator.users import requests
from cosched_emulator.users.told import meanings
from cosched_plugin.protocol import messages as m


def reasons(site: Site) -> dict[int, str]:
    found = {row["job_id"]: row["reason"] for row in site.rows(requests.ListJobs())}
    assert {"", *meanings()} >= {*found.values()}
    return found


def told_jobs(site: Site) -> list[int]:
    """Return the jobs in the scheduler's next batch."""
    _, _, events = site.live.batch() or (0, 0, ())
    return [event.job.id for event in events if isinstance(event, m.JobSubmitted)]


def test_a_job_is_not_eligible_before_its_begin_time() -> None:
    site = Site(node_class(2, 4))
    site.do(submit(delay_us=60 * SECOND), 10)
    site.do(submit(delay_us=60 * SECOND), 10)
    site.do(submit(), 10)
    assert reasons(site) == {1: "BeginTime", 2: "BeginTime", 3: "Resources"}
    assert told_jobs(site) == [3]
    (shown,) = site.told(requests.ShowJobs((requests.Target(1),)))["jobs"]
    assert shown["begin_s"] == 70
    no_array = site.live.examine(ROOT, requests.CancelJobs((requests.Target(2, 0),)))
    assert isinstance(no_array, requests.Refused)
    site.do(requests.CancelJobs((requests.Target(2),)), 20)
    assert site.live.due_us() == 70 * SECOND
    site.advance(69.9)
    assert reasons(site)[1] == "BeginTime"
    site.live.answer(70 * SECOND - 1, 1, ())
    site.advance(80)
    assert reasons(site) == {1: "Resources", 3: "Resources"}
    assert told_jobs(site) == [1]
    assert site.told(requests.ShowJobs((requests.Target(1),)))["jobs"][0]["begin_s"] is None
    site.live.check()


def test_a_manager_that_is_behind_gives_up_between_two_instants() -> None:
    """The others come later; what a replay finds due at the instant that was reached is all done."""
    site = Site(node_class(2, 4))
    for delay_s in (10, 10, 20):
        site.do(submit(delay_us=delay_s * SECOND), 0)
    assert site.live.advance(30 * SECOND, give_up_s=0.0)
    assert (site.live.now_us, [*site.live.manager.pending]) == (10 * SECOND, [1, 2])
    assert site.live.advance(30 * SECOND, give_up_s=0.0)
    assert (site.live.now_us, [*site.live.manager.pending]) == (30 * SECOND, [1, 2, 3])


def test_begin_times_of_cancelled_jobs_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager, "MOST_VOID", 400)
    site = Site(node_class(1, 1))
    for number in range(4):
        ids = site.do(submit(tasks=tuple(range(400)), delay_us=10**12), number)["job_ids"]
        site.do(requests.CancelJobs((requests.Target(ids[0]),)), number)
    assert len(site.live.manager.timeline) <= 1_000


def test_a_user_has_no_more_than_so_many_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_commands, "MOST_JOBS", 20)
    live = Site(node_class(2, 4)).live

    def ask(who: requests.Requester, jobs: int) -> str:
        found = live.command(0, who, submit(tasks=tuple(range(jobs))))
        return found.text if isinstance(found, requests.Refused) else ""

    ann, bob = requests.Requester("ann", operator=False), requests.Requester("bob", operator=False)
    assert ask(ann, 2) == ""
    assert ask(ann, 3) == "2 jobs of yours have not ended; your limit is 4 at present"
    assert ask(ann, 2) == ""
    assert ask(bob, 4) == "0 jobs of yours have not ended; your limit is 3 at present"
    assert ask(bob, 3) == ""
    assert ask(ROOT, 14) == "7 jobs have not ended; the limit is 20"
    assert ask(ROOT, 13) == ""  # an operator has as many as there may be
    live.command(0, ROOT, requests.CancelJobs((requests.Target(8, 0),)))
    assert ask(requests.Requester("eve", operator=False), 1) == "19 jobs have not ended; the limit is 20"
    live.command(0, ROOT, requests.CancelJobs(tuple(requests.Target(8, task) for task in range(1, 6))))
    assert ask(requests.Requester("eve", operator=False), 1) == ""


@pytest.mark.parametrize("hostile", [5, 12])
def test_users_who_take_all_they_can_leave_room_for_others(hostile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many jobs, and as long ones, as the manager takes: a further user can submit, and an operator more than that."""
    monkeypatch.setattr(user_commands, "MOST_JOBS", 1_000)
    monkeypatch.setattr(user_commands, "MOST_YEARS_US", 200 * user_commands.LONGEST_US)
    for request in (submit(held=True), submit(held=True)._replace(run_us=user_commands.LONGEST_US)):
        live = Site(node_class(2, 4)).live
        for number in range(hostile):
            while isinstance(
                live.command(0, requests.Requester(f"user{number}", operator=False), request), requests.Done
            ):
                pass
        honest = requests.Requester("ann", operator=False)
        assert isinstance(live.command(0, honest, request._replace(tasks=(0, 1))), requests.Done)
        assert isinstance(live.command(0, ROOT, request._replace(tasks=tuple(range(9)))), requests.Done)


def test_tasks_of_a_limited_array_that_are_held_keep_their_places() -> None:
    live = Site(node_class(2, 4)).live
    live.command(0, ROOT, submit(tasks=tuple(range(5)), at_once=1, held=True))
    assert live.manager.pending == {}
    for job_id in (3, 2, 4):
        live.command(0, ROOT, requests.ReleaseJobs((requests.Target(job_id),)))
        live.command(0, ROOT, requests.HoldJobs((requests.Target(job_id),)))
        live.command(0, ROOT, requests.ReleaseJobs((requests.Target(job_id),)))
    assert list(live.manager.pending) == [3]  # the first that was released
    live.command(0, ROOT, requests.CancelJobs((requests.Target(3),)))
    assert list(live.manager.pending) == [2]
    live.command(0, ROOT, requests.CancelJobs((requests.Target(2), requests.Target(5))))
    assert list(live.manager.pending) == [4]
    live.command(0, ROOT, requests.CancelJobs((requests.Target(1), requests.Target(4))))
    live.command(0, ROOT, submit(held=True))
    assert live.gate.members == {}  # which only arrays have, until they end


def test_a_limit_that_was_lowered_refuses_nothing_that_the_journal_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Recorded(tmp_path / "c.db")
    ann = requests.Requester("ann", operator=False)
    site.do(submit(tasks=(0, 1)), 10, ann)
    site.do(submit(after=(requests.Dependency("afterok", 1),)), 20, ann)
    for name in ("MOST_JOBS", "MOST_YEARS_US", "MOST_LINKS"):
        monkeypatch.setattr(user_commands, name, 1)
    site.kill()
    assert len(site.live.manager.jobs) == 3
    assert isinstance(site.live.command(30 * SECOND, ann, submit()), requests.Refused)


def test_a_submission_with_a_token_is_made_once(tmp_path: Path) -> None:
    """Also when the manager was killed in between; another user's token is another one."""
    site = Recorded(tmp_path / "c.db")
    ann, bob = requests.Requester("ann", operator=False), requests.Requester("bob", operator=False)
    wish = submit(tasks=(4, 7), token="monday")
    site.do(wish, 10, ann)
    site.do(submit(), 11, ann)
    for _ in range(2):
        assert site.live.command(12 * SECOND, ann, wish) == requests.Done({"job_ids": [1, 2], "repeated": True})
        other = site.live.command(12 * SECOND, ann, submit(2, tasks=(4, 7), token="monday"))
        assert isinstance(other, requests.Refused)
        assert other.path == "token"
        assert len(site.live.manager.jobs) == 3
        site.kill()
    assert site.live.command(12 * SECOND, bob, wish) == requests.Done({"job_ids": [4, 5]})
    refused = site.live.command(20 * SECOND, ann, submit(token="x" * 129))
    assert isinstance(refused, requests.Refused)
    assert refused.text == "expected at most 128 bytes, got 129"
    for number in range(requests.MOST_TOKENS):
        assert isinstance(site.live.command(20 * SECOND, ann, submit(token=str(number))), requests.Done)
    again = site.live.command(20 * SECOND, ann, wish)  # too long ago
    assert isinstance(again, requests.Done)
    assert "repeated" not in again.result


@pytest.mark.parametrize(
    ("wish", "memory_mb"),
    [
        ({}, 300),
        ({"ppn_min": 3, "ppn_max": 3}, 100),
        ({"threads_per_process": 4}, 900),  # only the larger nodes have the threads
    ],
    ids=str,
)
def test_a_job_may_request_all_memory_of_a_node(wish: dict[str, Any], memory_mb: int) -> None:
    site = Site(node_class(2, 3, memory_mb=300), node_class(2, 8, memory_mb=900))
    site.do(submit(wish.get("ppn_max", 1), all_memory=True, **wish))
    assert site.live.manager.pending[1].job.spec.memory_mb == memory_mb


def test_refusals_use_the_units_of_users() -> None:
    site = Site(node_class(2, 4, memory_mb=1000))
    for wish, expected in (
        (submit(delay_us=10**18), "expected at most 10 years, got 1000000000000 s"),
        (submit(8, all_memory=True), "all memory of a node: expected a fixed number of processes on a node"),
        (submit(name="x" * 200), "expected at most 128 bytes, got 200"),
        (submit(memory_mb=10**12), "expected at most 1000000000 MiB a process, got 1000000000000"),
    ):
        refused = site.live.examine(ROOT, wish)
        assert isinstance(refused, requests.Refused)
        assert refused.text == expected


def test_tasks_of_arrays_have_the_same_name_everywhere() -> None:
    site = Site(node_class(1, 8))
    site.do(submit(run_s=5))
    site.do(submit(tasks=(3, 7), limit_s=9))
    site.do(submit(after=(requests.Dependency("afterok", 2),)))
    starts = [begin(job_id, run_on(0, 1, 1 << job_id, 1), limit_s=9) for job_id in (2, 3)]
    site.start(1, begin(1, run_on(0, 1, 1, 1)), *starts)
    rows = {row["job_id"]: row for row in site.rows(requests.ListJobs())}
    assert rows[1]["shares_with"] == ("2_3", "2_7")
    assert rows[3]["shares_with"] == ("1", "2_3")
    assert [row["jobs"] for row in site.rows(requests.ListNodes())] == [("1", "2_3", "2_7")]
    assert [text for _, text in site.told(requests.ShowOverview())["decisions"]] == [
        "start 1",
        "start 2_3",
        "start 2_7",
    ]
    answer = site.do(requests.HoldJobs((requests.Target(2), requests.Target(4))), 2)
    assert answer["unchanged"] == [["2_3", "it runs"], ["2_7", "it runs"]]
    site.do(submit(), 2)
    batch = site.live.batch()
    assert batch is not None
    site.live.answer(3 * SECOND, batch[0], (m.ResumeJob(2),))
    assert site.live.decisions[-1][1] == "refused: job 2_3 is not suspended"
    site.advance(12)
    (ended,) = site.told(requests.ShowJobs((requests.Target(4),)))["jobs"]
    assert ended["reason"] == "its dependency can never hold: job 2_3 has ended TIMEOUT"
    refused = site.live.examine(ROOT, submit(after=(requests.Dependency("afterok", 2),)))
    assert isinstance(refused, requests.Refused)
    assert refused.text == "a task of array 2 has ended TIMEOUT: afterok can never hold"


@pytest.mark.parametrize(
    ("wish", "refused"),
    [
        ({"priority": 1}, requests.Refused("permission", "only operators raise a priority above 0", "priority")),
        ({"priority": -(2**33)}, requests.Refused("value", "expected at most 4294967296, got 8589934592", "priority")),
        (
            {"eligible": ((0, 1),)},
            requests.Refused("permission", "only operators say which nodes a job may have", "eligible"),
        ),
        ({"resources": (("gpu", 3),)}, requests.Refused("value", "3 of gpu wanted, the most there is: 2", "resources")),
        (
            {"licences": (("ansys", 1),)},
            requests.Refused("value", "1 of ansys wanted, the most there is: 0", "licences"),
        ),
        (
            {"processes": 9, "resources": (("gpu", 2),)},
            requests.Refused("value", "9 processes wanted, the machine holds 4 of this kind", ""),
        ),
        (
            {"processes": 3, "ppn_max": 1},  # as by --nodes=3
            requests.Refused(
                "value", "3 nodes wanted, with 1 of its processes on each; the machine has 2 of this kind", ""
            ),
        ),
    ],
)
def test_what_a_user_may_not_ask_for_or_no_node_has_is_refused(wish: dict[str, Any], refused: requests.Refused) -> None:
    site = Site(node_class(1, 4)._replace(resources=(("gpu", 2),)), node_class(1, 8)._replace(resources=(("gpu", 1),)))
    assert site.live.examine(requests.Requester("ann", operator=False), submit(**wish)) == refused


def test_priority_and_resources_reach_the_scheduler_and_are_shown() -> None:
    site = Site(node_class(1, 4)._replace(resources=(("gpu", 2),)))
    ann = requests.Requester("ann", operator=False)
    for wish in ({"priority": -5}, {"resources": (("gpu", 2),)}):
        site.do(submit(**wish), who=ann)
    site.do(submit(priority=7, eligible=((0, 1),)), who=ROOT)
    _, _, events = site.live.batch() or (0, 0, ())
    jobs = [event.job for event in events if isinstance(event, m.JobSubmitted)]
    assert [(job.priority, job.resources, job.eligible) for job in jobs] == [
        (-5, (), ()),
        (0, (("gpu", 2),), ()),
        (7, (), ((0, 1),)),
    ]
    rows = site.rows(requests.ListJobs())
    assert [(row["priority"], row["resources"]) for row in rows] == [(-5, ()), (0, (("gpu", 2),)), (7, ())]
    heads, *lines = queue_table(rows).splitlines()
    assert heads.split()[8:10] == ["PRIORITY", "GRES"]
    assert [line.split()[8:10] for line in lines] == [["-5", "-"], ["0", "gpu:2"], ["7", "-"]]
    site.do(requests.CancelJobs((requests.Target(2), requests.Target(3))), who=ROOT)
    for number, shown in enumerate(
        site.told(requests.ShowJobs((requests.Target(1), requests.Target(2), requests.Target(3))))["jobs"]
    ):
        told = (shown["state"], shown["priority"], shown["resources"], shown["eligible"], shown["licences"])
        asked = (jobs[number].priority, jobs[number].resources, jobs[number].eligible, ())
        assert told == ("CANCELLED" if number else "PENDING", *asked)
