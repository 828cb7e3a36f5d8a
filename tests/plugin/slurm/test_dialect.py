"""What is said to each version of slurmrestd, and what its answers mean, by recordings of Slurm 24.11 and 26.05."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.plugin.slurm.bed import RECORDED
from tests.plugin.slurm.test_actuator import MINUTE_US, Slurm, ready_actuator, start
from tests.plugin.slurm.test_threads import NOW_US, cluster_of

from cosched_hwmodel.units import SECOND_US, ThreadMask
from cosched_plugin.protocol.messages import KillJob, ReviseJob, Run, StartJob
from cosched_plugin.site.books import Books
from cosched_plugin.site.poll_loop import Silent
from cosched_plugin.slurm.cluster import task_number
from cosched_plugin.slurm.dialect import MET, Change, dialect_of, scontrol_words
from cosched_plugin.slurm.records import job_of, node_of
from cosched_plugin.slurm.rest import Rest, Warned
from cosched_plugin.slurm.transport import Reply

MODERN = RECORDED.parent / "modern"
needs_modern = pytest.mark.skipif(not MODERN.is_dir(), reason="no recordings of a Slurm of today beside the tree")
NEWER = "v0.0.44"
IGNORED = '{"errors": [], "warnings": [{"description": "Ignoring unknown field", "source": "#/x/"}]}'


class Canned:
    """Gives its answers in turn, and keeps what it was asked."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.asked: list[str] = []

    def call(self, method: str, target: str, body: object = None) -> Reply:
        self.asked.append(target.split("/", 3)[3])
        return self.replies.pop(0)


@needs_modern
@pytest.mark.parametrize("file", sorted(file.name for file in MODERN.glob("*-jobs.json")))
def test_a_plain_job_is_understood_by_every_version(file: str) -> None:
    (job,) = [job_of(record) for record in json.loads((MODERN / file).read_text())["jobs"]]
    assert job.wishes == ()
    assert (job.held, job.state, job.node_count, job.most_nodes) == ("user", "PENDING", 2, 2)
    assert (job.tasks, job.tasks_per_node, job.cpus, job.cpus_per_task, job.limit_min) == (8, 4, 8, 1, 5)
    (node,) = [node_of(record) for record in json.loads((MODERN / file.replace("jobs", "nodes")).read_text())["nodes"]]
    assert (node.name, node.takes_jobs, node.partitions, node.memory_mb) == ("tick", True, ("tick",), 4000)


@pytest.mark.parametrize(
    ("state", "takes"),
    [
        (["IDLE", "CLOUD", "POWERED_DOWN"], True),  # Slurm powers it up for the job, which is CONFIGURING meanwhile
        (["ALLOCATED", "NOT_RESPONDING", "POWERING_UP"], True),
        (["IDLE", "POWERING_DOWN"], False),
        (["DOWN", "POWERED_DOWN"], False),  # it has not come up in ResumeTimeout
        (["IDLE", "DRAIN", "POWERED_DOWN"], False),
        (["IDLE", "BLOCKED"], False),  # a job with --exclusive=topo has its block
    ],
)
def test_a_node_that_slurm_saves_power_on_takes_jobs_while_slurm_would_wake_it(state: list[str], takes: bool) -> None:
    parts = {"name": "n0", "sockets": 1, "cores": 2, "threads": 1}
    newer, older = {"state": state}, {"state": state[0].lower(), "state_flags": state[1:]}
    assert [node_of({**parts, **shown}).takes_jobs for shown in (newer, older)] == [takes, takes]


def test_a_job_that_keeps_a_block_of_nodes_to_itself_is_left_to_slurm() -> None:
    assert job_of({"job_id": 1, "job_state": ["PENDING"], "shared": ["topo"]}).wishes == ("--exclusive=topo",)


def test_a_cloud_node_that_slurm_shows_no_more_has_its_power_off_and_takes_jobs() -> None:
    """As 22.05, without PrivateData=cloud."""
    parts = {"sockets": 1, "cores": 2, "threads": 1, "partitions": ["co"], "state": "idle"}
    cloud = {**parts, "name": "n1", "state_flags": ["CLOUD"]}
    cluster = cluster_of([node_of(record) for record in ({**parts, "name": "n0"}, cloud)], 1)
    books = Books(cluster.machine)
    assert cluster.snapshot(NOW_US, books).down == set()
    cluster.polls.nodes = []
    assert cluster.snapshot(NOW_US, books).down == {0}


@pytest.mark.parametrize("form", [lambda at_s: at_s, lambda at_s: {"set": True, "infinite": False, "number": at_s}])
def test_how_far_slurms_clock_is_ahead(form: Callable[[int], Any]) -> None:
    text = json.dumps({"errors": [], "statistics": {"req_time": form(round(time.time()) - 120)}})
    assert Rest(Canned(Reply(200, text)), NEWER).ahead_s() == pytest.approx(-120, abs=20)
    assert Rest(Canned(Reply(404, "no such page")), NEWER).ahead_s() == 0


@pytest.mark.parametrize(("begin_s", "waits"), [(0, False), (60, True)])
def test_a_job_without_a_begin_waits_for_no_moment_of_a_clock_that_is_ahead(begin_s: int, waits: bool) -> None:
    submit_s = NOW_US // SECOND_US + 300
    times = {"submit_time": submit_s, "eligible_time": submit_s + begin_s}
    job = job_of({**ONE, "state_reason": "JobHeldUser", "partition": "co", "tasks": 1, "cpus": 1, **times})
    node = node_of({"name": "n0", "sockets": 1, "cores": 2, "threads": 1, "partitions": ["co"], "state": "IDLE"})
    cluster = cluster_of([node], 1, job)
    assert cluster.snapshot(NOW_US, Books(cluster.machine)).jobs[1].held == waits


def recorded_updates() -> list[dict[str, Any]]:
    return [json.loads(line) for file in MODERN.glob("*-updates.jsonl") for line in file.read_text().splitlines()]


@needs_modern
def test_each_form_that_is_said_was_accepted_without_a_warning_and_what_was_warned_of_is_refused() -> None:
    """A version's own forms, field by field, as they were tried."""
    tried: dict[str, list[Any]] = {}
    for row in recorded_updates():
        outcome = Rest(Canned(Reply(row["status"], json.dumps(row))), row["version"]).change("1", Change())
        assert (outcome is None) == (not row["errors"] and not row["warnings"]), row
        assert isinstance(outcome, Warned) == (bool(row["warnings"]) and not row["errors"]), row
        if outcome is None:
            tried.setdefault(row["version"], []).extend(row["request"].items())
    assert len(tried) >= 4
    for version, forms in tried.items():
        dialect = dialect_of(version)
        assert ("required_nodes", [""]) in forms
        assert dialect.body(Change(()))["required_nodes"] == [""]
        for field, value in dialect.body(Change(("n2", "n3"), 3, 6, begin_now=True, release=True)).items():
            plain = {"set": True, "number": 6} if field == "time_limit" else value  # `infinite: false` is what is meant
            assert (field, plain) in forms, (version, field)


def test_what_is_asked_of_a_newer_slurm_for_each_action() -> None:
    running = {"job_id": 2, "job_state": ["RUNNING"], "state_reason": "None", "nodes": "n1"}
    free = {"job_id": 3, "max_nodes": 0, "tasks": 6, "cpus": 6, "node_count": 2, "restart_cnt": 1}
    array = {"job_id": 9, "array_job_id": 9, "array_task_id": {"set": False}, "array_task_string": "3,5"}
    slurm = Slurm({"job_id": 1}, running, free, array)
    actuator = ready_actuator(slurm, NEWER)
    two = (Run(0, 1, ThreadMask(15), 4), Run(1, 1, ThreadMask(3), 2))
    limit = {"set": True, "infinite": False, "number": 7}
    task = task_number(9, 5)
    for action, *asked in (
        (start(1), ("job/1", {"required_nodes": ["n0"], "hold": False})),
        (start(1, limit_us=7 * MINUTE_US), ("job/1", {"required_nodes": ["n0"], "hold": False, "time_limit": limit})),
        (
            StartJob(3, two, SECOND_US, 5 * MINUTE_US),
            ("job/3", {"required_nodes": ["n0", "n1"], "hold": False, "nodes": "2-2", "begin_time": "now"}),
        ),
        (ReviseJob(2, SECOND_US, 7 * MINUTE_US), ("job/2", {"time_limit": limit})),
        (start(task), ("update", "JobId=9_5", "NodeList=n0"), ("release", "9_5")),
        (KillJob(task), ("DELETE", "job/9_5")),
    ):
        slurm.asked.clear()
        assert actuator.carry_out(action) is None
        assert slurm.asked == asked
    slurm.asked.clear()
    assert actuator.clear(task) is actuator.clear(1) is None
    assert slurm.asked == [("update", "JobId=9_5", "NodeList="), ("job/1", {"required_nodes": [""]})]
    slurm.asked.clear()
    slurm.refuses.add("update")
    assert actuator.carry_out(start(task)) == "refused"  # and it is not released without its list
    assert slurm.asked == [("update", "JobId=9_5", "NodeList=n0")]


def test_all_of_a_change_can_be_said_by_scontrol() -> None:
    whole = Change(("n1", "n2"), 2, 7, begin_now=True, release=True)
    update = ["update", "JobId=9_5", "NodeList=n1,n2", "NumNodes=2-2", "TimeLimit=7", "StartTime=now"]
    assert scontrol_words("9_5", whole) == [update, ["release", "9_5"]]


def test_a_placement_of_which_a_part_was_ignored_is_held_again_at_once_and_refused() -> None:
    slurm = Slurm({"job_id": 1})
    slurm.answers["job/1"] = Reply(200, IGNORED)
    said = ready_actuator(slurm, NEWER).carry_out(start(1))
    assert isinstance(said, str)
    assert "done with a warning: Ignoring unknown field" in said
    assert slurm.asked[1:] == [("uhold", "1"), ("job/1", {"required_nodes": [""]})]


@pytest.mark.parametrize(
    "warnings",
    ['"x"', "7", "[[]]", "[null]", "[{}]", '{"a": 1}', r'["\ud800"]', f'[{{"description": "{"x" * 9999}"}}]'],
)
def test_an_odd_warning_is_a_warning(warnings: str) -> None:
    said = Rest(Canned(Reply(200, f'{{"errors": [], "warnings": {warnings}}}')), NEWER).change("1", Change())
    assert isinstance(said, Warned)
    assert len(said.encode()) < 1_000


@pytest.mark.parametrize("warnings", ["null", "[]"])
def test_no_warning_is_none(warnings: str) -> None:
    answer = Reply(200, f'{{"errors": [], "warnings": {warnings}}}')
    assert Rest(Canned(answer), NEWER).change("1", Change()) is None


def jobs(*rows: Any, update: Any = None) -> Reply:
    return Reply(200, json.dumps({"errors": [], "jobs": rows, **({} if update is None else {"last_update": update})}))


NO_STATES = Reply(404, "")  # before 24.05
ONE = {"job_id": 1, "job_state": ["PENDING"]}


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ([jobs(update={"set": True, "number": 0})], None),
        ([jobs(update={"set": True, "number": 99}), jobs()], []),  # all have gone: looked at once more
        ([jobs(), jobs(ONE)], [1]),  # it does not say whether something has changed
        ([jobs(update="?"), jobs(ONE)], [1]),
        ([jobs(update=[7]), jobs(ONE)], [1]),
        ([jobs(ONE, update={"number": 0})], [1]),
        ([Reply(304, "")], None),
    ],
)
def test_an_empty_list_is_no_news_or_is_looked_at_in_full(answers: list[Reply], found: list[int] | None) -> None:
    slurm = Canned(NO_STATES, jobs(ONE), *answers)
    rest = Rest(slurm, NEWER)
    rest.jobs(1_000.0)
    changed = rest.jobs(1_001.0)
    assert (None if changed is None else [job.job_id for job in changed]) == found
    assert slurm.asked[:3] == ["jobs/state", "jobs", "jobs?update_time=uts1000"]
    assert not slurm.replies


def test_an_empty_error_beside_no_news_is_silence() -> None:
    rest = Rest(
        Canned(
            NO_STATES, jobs(ONE), Reply(200, '{"errors": [{"error": "x"}], "jobs": [], "last_update": {"number": 0}}')
        ),
        NEWER,
    )
    rest.jobs(1_000.0)
    with pytest.raises(Silent):
        rest.jobs(1_001.0)


def test_the_version_that_shows_exclusive_jobs_comes_before_the_one_that_does_not() -> None:
    """v0.0.45 of 26.05.5 says `shared: []` of every job."""
    rest = Rest(Canned(Reply(200, '{"errors": []}')))
    rest.begin()
    assert rest.version == "v0.0.44"
    assert "v0.0.45" not in MET
