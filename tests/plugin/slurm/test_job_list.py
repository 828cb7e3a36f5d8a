"""The records of jobs are up to date at few questions: the states of all, and the records of those that have another one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cosched_plugin.site.poll_loop import Silent
from cosched_plugin.slurm import job_list
from cosched_plugin.slurm.job_list import MOST_WHOLE_S
from cosched_plugin.slurm.rest import Rest
from cosched_plugin.slurm.transport import Reply

NEWER = "v0.0.44"


class Slurm:
    """Jobs with a state each; the tasks of an array that wait together have one record."""

    def __init__(self, **jobs: str) -> None:
        self.states = {int(name[1:]): state for name, state in jobs.items()}
        self.more: dict[int, dict[str, Any]] = {}
        self.asked: list[str] = []
        self.answers: dict[str, Reply] = {}

    def record(self, number: int) -> dict[str, Any]:
        return {"job_id": number, "job_state": self.states[number].split(), **self.more.get(number, {})}

    def call(self, method: str, target: str, body: object = None) -> Reply:
        what = target.split("/", 3)[3]
        self.asked.append(what)
        if what in self.answers:
            return self.answers[what]
        if what == "jobs/state":
            rows = [
                {"job_id": f"{number}{suffix}", "state": state.split()}
                for number, state in self.states.items()
                for suffix in self.more.get(number, {}).get("suffixes", [""])
            ]
            return Reply(200, json.dumps({"errors": [], "jobs": rows}))
        rows = [
            self.record(number) for number in self.states if what in (f"job/{number}", "jobs") or "update_time" in what
        ]
        return Reply(200, json.dumps({"errors": [] if rows else [{"error": "Invalid job id"}], "jobs": rows}))


def told(rest: Rest, now_s: float) -> dict[int, str] | None:
    jobs = rest.jobs(now_s)
    return None if jobs is None else {job.job_id: job.state for job in jobs}


@pytest.fixture(autouse=True)
def _a_list_is_dear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_list, "DEAR_S", -1.0)
    monkeypatch.setattr(job_list, "WHOLE_S", 30.0)


def follower(slurm: Slurm) -> Rest:
    """Return a conversation in which asking for single jobs is never dearer than for all."""
    rest = Rest(slurm, NEWER)
    rest.jobs(0.0)
    rest.list._whole_took_s = 1.0
    assert slurm.asked == ["jobs/state", "jobs"]
    slurm.asked.clear()
    return rest


def test_only_what_has_another_state_is_asked_for() -> None:
    slurm = Slurm(j1="PENDING", j2="RUNNING", j3="RUNNING", j4="PENDING")
    rest = follower(slurm)
    assert told(rest, 1.0) is None
    slurm.states |= {1: "RUNNING", 5: "PENDING", 3: "RUNNING COMPLETING"}
    del slurm.states[4]
    assert told(rest, 2.0) == {1: "RUNNING", 2: "RUNNING", 3: "COMPLETING", 5: "PENDING"}
    assert slurm.asked == ["jobs/state", "jobs/state", "job/5", "job/1", "job/3"]  # what waits comes first
    slurm.asked.clear()
    slurm.states |= {2: "TIMEOUT", 3: "COMPLETED"}
    assert told(rest, 3.0) == {1: "RUNNING", 2: "TIMEOUT", 3: "COMPLETED", 5: "PENDING"}
    assert slurm.asked == ["jobs/state"]  # that it has ended is all
    rest.list.touch(1)
    rest.list.touch(2)
    rest.list.touch(77)  # nobody knows it
    assert told(rest, 4.0) is not None
    assert told(rest, 5.0) is None
    assert slurm.asked == ["jobs/state", "jobs/state", "job/1", "jobs/state"]
    slurm.asked.clear()
    assert told(rest, MOST_WHOLE_S + 1) is not None
    assert slurm.asked == ["jobs/state", "jobs"]


def test_when_a_job_has_ended_is_asked_where_it_matters() -> None:
    slurm = Slurm(j1="RUNNING")
    rest = follower(slurm)
    rest.list.follows_ends = True
    slurm.states[1] = "COMPLETED"
    slurm.more[1] = {"end_time": 77}
    assert [job.end_s for job in rest.jobs(1.0) or ()] == [77]


def test_there_is_a_time_for_single_jobs_and_what_has_begun_can_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = Slurm(**{f"j{number}": "PENDING" for number in range(1, 6)})
    rest = follower(slurm)
    slurm.states |= {1: "RUNNING", 2: "RUNNING", 6: "PENDING"}
    monkeypatch.setattr(job_list, "TURN_S", -1.0)
    assert told(rest, 1.0) is not None
    assert slurm.asked == ["jobs/state"]
    assert rest.list.has_begun(1)
    assert not rest.list.has_begun(3)
    monkeypatch.setattr(job_list, "TURN_S", 9.0)
    slurm.states[2] = "COMPLETED"  # before there was time for it
    assert told(rest, 2.0) == {1: "RUNNING", 2: "COMPLETED", 3: "PENDING", 4: "PENDING", 5: "PENDING", 6: "PENDING"}
    assert slurm.asked == ["jobs/state", "jobs/state", "job/6", "job/1"]


def test_an_array_is_asked_for_by_its_number_and_a_task_by_its_own() -> None:
    slurm = Slurm(j9="PENDING")
    slurm.more[9] = {"array_job_id": 9, "array_task_string": "1-3", "suffixes": ["_1", "_2", "_3"]}
    rest = follower(slurm)
    slurm.states[10] = "RUNNING"
    slurm.more = {
        9: {**slurm.more[9], "array_task_string": "1,3", "suffixes": ["_1", "_3"]},
        10: {"array_job_id": 9, "array_task_id": 2, "suffixes": ["_2"]},
    }
    jobs = rest.jobs(1.0) or ()
    assert [(job.job_id, job.task, job.waiting_tasks) for job in jobs] == [(9, None, "1,3"), (10, 2, "")]
    assert slurm.asked == ["jobs/state", "job/9", "job/10"]


def test_a_list_is_asked_for_where_single_jobs_would_take_longer() -> None:
    slurm = Slurm(j1="PENDING", j2="PENDING")
    rest = follower(slurm)
    rest.list._alone_took_s = 0.6
    slurm.states |= {3: "PENDING", 4: "PENDING"}
    assert told(rest, 1.0) == dict.fromkeys((1, 2, 3, 4), "PENDING")
    assert slurm.asked == ["jobs/state", "jobs/state", "jobs"]


@pytest.mark.parametrize(
    "rows",
    ['[7]', '[{"job_id": 7, "state": ["PENDING"]}]', '[{"job_id": "7"}]', '[{"job_id": "9999999999999", "state": []}]', '[[]]', '[]',
     '[{"job_id": "7+1", "state": ["PENDING"]}]', f'[{{"job_id": "{"9" * 9999}", "state": 1}}]', "null", "{}"],
)  # fmt: skip
def test_states_that_cannot_be_told_cost_a_list(rows: str) -> None:
    slurm = Slurm(j1="PENDING")
    rest = follower(slurm)
    slurm.answers["jobs/state"] = Reply(200, f'{{"errors": [], "jobs": {rows}}}')
    slurm.states[1] = "RUNNING"
    if rows in ("null", "{}"):
        with pytest.raises(Silent):
            told(rest, 1.0)
        rest.forget()
    assert told(rest, 2.0) == {1: "RUNNING"}
    slurm.states[1] = "COMPLETED"
    assert told(rest, 3.0) == {1: "COMPLETED"}  # by the list, if something has changed
    assert slurm.asked[-1].startswith("jobs?update_time=")


def test_a_job_that_is_forgotten_between_two_questions_costs_a_list_and_no_silence() -> None:
    slurm = Slurm(j1="PENDING", j2="PENDING")
    rest = follower(slurm)
    slurm.states |= {1: "RUNNING"}
    slurm.answers["job/1"] = Reply(404, '{"errors": [{"error": "Invalid job id specified", "error_number": 2017}]}')
    assert told(rest, 1.0) == {1: "RUNNING", 2: "PENDING"}
    assert slurm.asked[-1] == "jobs"


def test_an_odd_record_of_a_single_job_is_left_out_alone() -> None:
    slurm = Slurm(j1="PENDING", j2="PENDING")
    rest = follower(slurm)
    slurm.states |= {1: "RUNNING", 2: "RUNNING"}
    slurm.more[2] = {"tasks": -1}
    assert told(rest, 1.0) == {1: "RUNNING"}
    assert list(rest.odd["jobs"]) == ["the record of 2"]
    assert told(rest, 2.0) is None
    slurm.answers["job/1"] = Reply(200, '{"errors": [], "jobs": [7, [], {"job_id": []}]}')
    slurm.states[1] = "SUSPENDED"
    assert told(rest, 3.0) == {1: "RUNNING"}  # until the next list


def test_an_older_slurm_is_asked_for_no_states() -> None:
    slurm = Slurm(j1="PENDING")
    rest = Rest(slurm, "v0.0.38")
    for now_s in range(3):
        rest.jobs(float(now_s))
    assert slurm.asked == ["jobs", "jobs?update_time=0", "jobs?update_time=1"]
