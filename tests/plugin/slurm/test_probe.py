"""A version of slurmrestd that nobody has met is tried with a held job of one's own, which is gone afterwards in any case."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from cosched_plugin.slurm.probe import probe, submit
from cosched_plugin.slurm.rest import Rest
from cosched_plugin.slurm.transport import Reply

LATER = "v0.0.46"
FIRST = "a list of nodes and a limit for job 7"
JOB = {
    "job_id": 7, "job_state": ["PENDING"], "state_reason": "JobHeldUser", "shared": ["none"], "node_count": 1, "max_nodes": 1,
    "tasks": 1, "cpus": 1, "time_limit": {"set": True, "number": 1}, "required_nodes": "",
}  # fmt: skip


class Slurm:
    """One job, and what becomes of a change of it."""

    def __init__(self, take: Callable[[dict[str, Any], dict[str, Any]], object] | None = None, **record: Any) -> None:
        self.job: dict[str, Any] = {**JOB, **record}
        self.take = take or self.as_known
        self.cancelled = False

    @staticmethod
    def as_known(job: dict[str, Any], body: dict[str, Any]) -> object:
        if "required_nodes" in body:
            job["required_nodes"] = ",".join(body["required_nodes"])
        job["time_limit"] = body.get("time_limit", job["time_limit"])
        if body.get("hold") is False:
            job["state_reason"] = "BeginTime"
        return {"errors": [], "warnings": []}

    def call(self, method: str, target: str, body: Any = None) -> Reply:
        assert target == f"/slurm/{LATER}/job/7"
        if method == "GET":
            return Reply(200, json.dumps({"errors": [], "jobs": [self.job]}))
        if method == "DELETE":
            self.cancelled = True
            return Reply(200, '{"errors": []}')
        return Reply(200, json.dumps(self.take(self.job, body)))


def tried(slurm: Slurm, node: str = "n3") -> str:
    return probe(Rest(slurm, LATER), "co", node, lambda partition: 7)  # noqa: ARG005 - as `submit` has it


def test_one_that_does_what_the_others_do_can_be_used() -> None:
    slurm = Slurm()
    assert tried(slurm) == ""
    assert slurm.cancelled


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({"shared": []}, "of job 7 it does not show that it is exclusive"),  # as v0.0.45 of Slurm 26.05.5
        ({"state_reason": "None"}, "of job 7 it does not show that it is held"),
        ({"tasks": "1"}, "it does not show job 7"),
        ({"time_limit": 60}, "of job 7 it does not show its limit"),
        ({"node_count": {"set": False}}, "of job 7 it does not show that it requests a node and a task"),
        ({"reboot": True}, "of job 7 it does not show that it requests nothing else"),
        ({"job_id": 8}, "it does not show job 7"),
    ],
)
def test_what_it_does_not_show(record: dict[str, Any], why: str) -> None:
    slurm = Slurm(**record)
    assert tried(slurm) == why
    assert slurm.cancelled


def without(name: str) -> Callable[[dict[str, Any], dict[str, Any]], object]:
    return lambda job, body: Slurm.as_known(job, {key: value for key, value in body.items() if key != name})


@pytest.mark.parametrize(
    ("take", "why"),
    [
        (without("required_nodes"), f"{FIRST} is accepted, and has no effect"),
        (without("time_limit"), f"{FIRST} is accepted, and has no effect"),
        (without("hold"), "a placement for job 7 is accepted, and has no effect"),
        (
            lambda job, body: Slurm.as_known(job, {key: value for key, value in body.items() if value != [""]}),
            "an empty list for job 7 is accepted, and has no effect",
        ),
        (lambda *_: {"errors": [], "warnings": ["x"]}, f"{FIRST} is not accepted: job/7: done with a warning: x"),
        (lambda *_: {}, f"{FIRST} is not accepted: job/7: an answer without `errors`: status 200: {{}}"),
    ],
)  # fmt: skip
def test_what_it_does_not_do(take: Callable[[dict[str, Any], dict[str, Any]], object], why: str) -> None:
    slurm = Slurm(take)
    assert tried(slurm) == why
    assert slurm.cancelled


def test_without_a_job_nothing_can_be_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    assert probe(Rest(Slurm(), LATER), "co", "n3", lambda partition: f"sbatch: no {partition}") == (
        "no trial job can be submitted: sbatch: no co"
    )
    monkeypatch.setenv("PATH", "/nowhere")
    assert submit("co") == "sbatch: No such file or directory"
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: type("Done", (), {"stdout": "12;bed\n", "stderr": ""}))
    assert submit("co") == 12
