"""Who may be a guest, who is put back, and what is said of it: a Slurm of a few records, without one."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from cosched_plugin.common.slurm_notation import expand
from cosched_plugin.config import believed, choose
from cosched_plugin.protocol.messages import Belief
from cosched_plugin.site.driver import Outcome
from cosched_plugin.site.poll_loop import Clock
from cosched_plugin.slurm.asking import GuestActuator
from cosched_plugin.slurm.cluster import Cluster
from cosched_plugin.slurm.gains import Gains
from cosched_plugin.slurm.guests import patience_s
from cosched_plugin.slurm.rest import Polls, Rest
from cosched_plugin.slurm.seating import Seating
from cosched_plugin.slurm.site_file import Site
from cosched_plugin.slurm.transport import Reply
from cosched_terminal.console import Log

FINE = '{"errors": []}'
NOW_S = 1_000_000.0
PAIRS = Belief(
    "pairs", "bulk-synchronous", (),
    (("applications", ("a", "b", "bad")), ("ratios", (1.25, 1.25, 3.0, 1.25, 1.25, 3.0, 3.0, 3.0, 3.0)), ("spreads", (1.0, 1.0, 1.0))),
)  # fmt: skip
NODES = ("n0", "n1", "n2", "n3")
STATES = {"R": "RUNNING", "PD": "PENDING", "CG": "COMPLETING", "CD": "COMPLETED"}


class Slurm:
    """A Slurm of four nodes of four cores, of which those in service that had a job; it starts nothing by itself."""

    def __init__(self) -> None:
        self.jobs: dict[int, dict[str, Any]] = {}
        self.asked: list[tuple[str, Any]] = []
        self.answers: list[Reply] = []  # instead of accepting the next changes
        self.states: dict[str, str] = {}  # of nodes and partitions, where they are not idle, and up
        self.partitions: dict[str, list[str]] = {}  # of nodes, where they are not in both
        self.now_s = NOW_S

    def job(self, number: int, state: str = "PD", nodes: str = "", **more: Any) -> None:
        """Have a job of partition co: of one node unless it is told, of 10 minutes, and since ten seconds ago."""
        count = len(expand(nodes)) or 1
        waits = state == "PD"
        self.jobs[number] = {
            "job_id": number, "user_name": "ann", "name": "a", "partition": "co", "job_state": STATES[state], "nodes": nodes,
            "node_count": count, "max_nodes": count, "tasks": 4 * count, "cpus": 4 * count, "tasks_per_node": 4, "time_limit": 10,
            "state_reason": "Resources" if waits else "None", "priority": 100_000 - number, "memory_per_node": 1000,
            "submit_time": int(self.now_s) - 10, "start_time": 0 if waits else int(self.now_s), "requeue": True,
        } | more  # fmt: skip

    def call(self, method: str, target: str, body: Any = None) -> Reply:
        what = target.split("/", 3)[3].partition("?")[0]
        if method == "GET":
            return Reply(
                200,
                json.dumps(
                    {"errors": [], what.split("/")[0].replace("job", "jobs").replace("jobss", "jobs"): self._rows(what)}
                ),
            )
        self.asked.append((what, body))
        if self.answers:
            return self.answers.pop(0)
        self._change(int(what.split("/")[1]), body)
        return Reply(200, FINE)

    def _rows(self, what: str) -> list[dict[str, Any]]:
        match what.split("/"):
            case ["nodes"]:
                shape = {"sockets": 2, "cores": 2, "threads": 1, "real_memory": 4000}
                used = {name for job in self.jobs.values() for name in expand(job["nodes"])}
                states = {name: self.states.get(name, "" if name in used else "DRAIN") for name in NODES}
                both = ["co", "guest"]
                rows = [{"name": name, "state": ["IDLE", *state.split()], **shape} for name, state in states.items()]
                return [row | {"partitions": self.partitions.get(str(row["name"]), both)} for row in rows]
            case ["partitions"]:
                return [
                    {"name": name, "partition": {"state": [self.states.get(name, "UP")]}} for name in ("co", "guest")
                ]
            case ["jobs"]:
                return list(self.jobs.values())
            case ["job", number]:
                return [self.jobs[int(number)]]
            case _:
                return []

    def _change(self, number: int, body: dict[str, Any]) -> None:
        names = ",".join(body["required_nodes"])
        self.jobs[number] |= {"partition": body["partition"], "required_nodes": names}

    def begin(self, number: int, nodes: str = "") -> None:
        """Start a job, on the nodes of its list."""
        job = self.jobs[number]
        names = nodes or job["required_nodes"]
        job |= {"job_state": "RUNNING", "state_reason": "None", "nodes": names, "start_time": int(self.now_s)}

    def end(self, number: int) -> None:
        """End a job."""
        self.jobs[number] |= {"job_state": "COMPLETED", "end_time": int(self.now_s)}

    def scontrol(self, *arguments: str) -> Outcome:
        self.asked.append(("scontrol", arguments))
        verb, number = arguments
        assert verb == "requeue"
        self.requeue(int(number))
        return None

    def requeue(self, number: int) -> None:
        """Requeue a job, which keeps its list of nodes."""
        self.jobs[number] |= {"job_state": "PENDING", "state_reason": "BeginTime", "nodes": "", "start_time": 0}
        self.jobs[number]["restart_cnt"] = self.jobs[number].get("restart_cnt", 0) + 1

    def kept(self) -> set[int]:
        return set()

    def tick(self) -> None:
        raise AssertionError

    @property
    def changes(self) -> list[tuple[int, str, str]]:
        """Return what was asked, as job, partition, nodes; and forget it."""
        asked, self.asked = self.asked, []
        return [
            (int(what.split("/")[1]), body["partition"], ",".join(body["required_nodes"]))
            for what, body in asked
            if what != "scontrol"
        ]


class Bench:
    """A seating at such a Slurm, turn by turn."""

    def __init__(self, slurm: Slurm, *settings: str, dry: bool = False, **more: bool) -> None:
        self.slurm, self.lines, self.remarks = slurm, list[dict[str, Any]](), list[tuple[int, str]]()
        polls = Polls(Rest(slurm, "v0.0.42"))
        polls.connect(0.0)
        site = Site(belief=PAIRS, unknown_alone=False).with_partitions((), ["co:guest"])
        ignored: frozenset[str] = getattr(choose("guests").make(), "ignored", frozenset())
        cluster = self.cluster = Cluster(polls, site, 2, ignored, observed=True)
        choice = choose("guests", ("order=priority", "backfill=skip", *settings))
        clock, log = (
            Clock(lambda: slurm.now_s),
            Log(as_json=True, write=lambda line: self.lines.append(json.loads(line))),
        )
        self.seating = Seating(
            cluster, GuestActuator(cluster, slurm, clock, log, dry=dry), lambda told, sink: choice.scheduler(told, trace=sink),
            believed(cluster.machine), clock, log, lambda job, text: self.remarks.append((job, text)), patience_s=35.0, **more,
        )  # fmt: skip
        self.seating.begin()

    def turn(self, seconds: float = 1.0) -> list[tuple[int, str, str]]:
        """Let time pass, and the driver look; return the changes that it has asked for."""
        self.slurm.now_s += seconds
        self.seating.turn()
        return self.slurm.changes

    def said(self, event: str) -> list[str]:
        return [line["text"] for line in self.lines if line["event"] == event]


def hosted(**candidate: Any) -> Slurm:
    """Have a host on a node, and a job that may join it."""
    slurm = Slurm()
    slurm.job(1, "R", "n0", time_limit=60)
    slurm.job(4, **candidate)
    return slurm


def full(slurm: Slurm) -> None:
    """Have a host of two nodes, one of one, and a node whose job is exclusive."""
    slurm.job(1, "R", "n[0-1]", time_limit=60)
    slurm.job(2, "R", "n2", time_limit=20, name="b")
    slurm.job(3, "R", "n3", time_limit=60, shared=["none"])


def test_a_guest_is_asked_begins_and_ends() -> None:
    slurm = Slurm()
    full(slurm)
    slurm.job(4, start_time=int(NOW_S) + 500)
    bench = Bench(slurm)
    assert slurm.changes == [(4, "guest", "n2")]
    assert bench.turn(5) == []
    slurm.begin(4)
    bench.turn()
    slurm.now_s += 100
    slurm.end(4)
    bench.turn()
    assert bench.said("guest") == ["job 4 is a guest on n2, beside job 2, 6 s after it was asked"]
    assert bench.said("asked") == [
        "job 4 is asked to be a guest: on n2, 1.25 times as slow as alone, beside job 2, which becomes 1.25 times as slow"
    ]
    (asked,) = [line for line in bench.lines if line["event"] == "asked"]
    assert (asked["job"], asked["nodes"], asked["beside"], asked["slowdown"]) == (4, "n2", "2", 1.25)
    assert bench.remarks[0] == (
        4,
        "a guest on n2, 1.25 times as slow as alone, beside job 2, which becomes 1.25 times as slow",
    )
    bench.seating.end()
    (gains,) = [line for line in bench.lines if line["event"] == "gains"]
    assert (gains["guests"], gains["pair_node_s"], gains["sooner_s"], gains["begun"]) == (1, 101.0, 495.0, 1)
    assert gains["won_node_s"] == pytest.approx(101 * 0.6, abs=0.1)
    assert gains["others_lost_s"] == gains["guests_lost_s"] == pytest.approx(101 * 0.2, abs=0.1)


def test_jobs_are_asked_in_slurms_order_and_those_of_several_nodes_join_several_hosts() -> None:
    slurm = Slurm()
    full(slurm)
    slurm.job(4, priority=10)
    slurm.job(5, priority=30, node_count=2, max_nodes=2, tasks=8, cpus=8)
    slurm.job(6, priority=20)
    Bench(slurm)
    assert slurm.changes == [(5, "guest", "n0,n1"), (6, "guest", "n2")]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"state_reason": "JobHeldUser", "priority": 0}, "it is held"),
        ({"state_reason": "Dependency"}, "Slurm's reason is Dependency"),
        ({"state_reason": "QOSMaxJobsPerUserLimit"}, "Slurm's reason is QOSMaxJobsPerUserLimit"),
        ({"partition": "co,other"}, "it may start in several partitions, and putting it back would lose that"),
        ({"required_nodes": "n1"}, "it names nodes (-w), which putting it back would lose"),
        ({"shared": ["none"]}, "it has its nodes alone: it requests that, or its usage is unknown"),
        ({"name": "c"}, "its slowdown beside the running jobs is unknown"),
        ({"name": "bad", "time_limit": 15}, "the belief expects no gain, or memory is short"),
        ({"memory_per_node": 3500}, "the belief expects no gain, or memory is short"),
        ({"time_limit": 59}, "slowed down, it would outlast the limits of all jobs that it might join"),
        ({"time_limit": None}, "slowed down, it would outlast the limits of all jobs that it might join"),
        ({"tasks": 16, "cpus": 16, "node_count": 4, "max_nodes": 4}, "the jobs that it might join have too few cores"),
        ({"node_count": 3, "max_nodes": 3, "tres_req_str": "cpu=4,node=1", "tasks_per_node": 0}, "it takes a range of nodes"),
        ({"node_count": 3, "max_nodes": 0, "tres_req_str": "cpu=4,node=1", "tasks_per_node": 0}, "it takes a range of nodes"),
        ({"state_reason": "None"}, ""),
    ],
)  # fmt: skip
def test_who_is_no_guest_is_told_why_once(more: dict[str, Any], why: str) -> None:
    slurm = Slurm()
    full(slurm)
    slurm.job(4, **more)
    bench = Bench(slurm)
    slurm.jobs[1]["comment"] = "another"
    bench.turn(100)
    assert slurm.changes == []
    assert [text.split(": ", 1)[1] for event in ("no-guest", "left") for text in bench.said(event)] == (
        [why] if why else []
    )


def test_a_guest_of_which_nothing_is_known_is_told_as_a_trial() -> None:
    slurm = hosted(name="c")
    bench = Bench(slurm, "belief=trials")
    assert slurm.changes == [(4, "guest", "n0")]
    assert bench.said("asked")[0].endswith("beside job 1, on trial: the slowdown of the two is unknown")


def test_beside_whom_no_guest_sits() -> None:
    slurm = Slurm()
    slurm.job(1, "R", "n0", partition="batch")
    slurm.job(2, "R", "n1")
    slurm.job(3, "R", "n1", tasks=1, cpus=1)  # two jobs on the node
    slurm.job(4, "CG", "n2")
    slurm.job(5, "R", "n3", partition="guest")
    slurm.job(6, time_limit=1)
    bench = Bench(slurm)
    assert slurm.changes == []
    assert bench.said("no-guest") == [
        "job 6 is no guest: no running job has a node to itself that a guest might join",
    ]


def host_ends(slurm: Slurm) -> None:
    slurm.end(1)


def is_held(slurm: Slurm) -> None:
    slurm.jobs[4]["state_reason"] = "JobHeldAdmin"


def node_drains(slurm: Slurm) -> None:
    slurm.states["n0"] = "DRAIN"


def another_comes(slurm: Slurm) -> None:
    slurm.job(9, "R", "n0", tasks=1, cpus=1)


def cap_is_met(slurm: Slurm) -> None:
    slurm.jobs[4]["state_reason"] = "QOSGrpJobsLimit"


def change_is_lost(slurm: Slurm) -> None:
    slurm.jobs[4] |= {"partition": "co", "required_nodes": ""}


def guests_are_drained(slurm: Slurm) -> None:
    slurm.states["guest"] = "DRAIN"


@pytest.mark.parametrize(
    ("happens", "after_s", "why"),
    [
        (host_ends, 1, "its host on node n0 no longer runs"),
        (lambda slurm: slurm.jobs[1].update(job_state="SUSPENDED"), 1, "its host on node n0 no longer runs"),
        (is_held, 1, "it was held"),
        (node_drains, 1, "node n0 is out of service"),
        (another_comes, 1, "another job is on node n0"),
        (cap_is_met, 1, "Slurm's reason is QOSGrpJobsLimit"),
        (change_is_lost, 11, "Slurm shows it there"),
        (guests_are_drained, 6, "partition guest is not up"),
        (lambda _: None, 36, "it has not begun in 37 s (Slurm's reason: Resources)"),
    ],
)
def test_an_asked_job_is_put_back(happens: Callable[[Slurm], None], after_s: float, why: str) -> None:
    slurm = hosted()
    bench = Bench(slurm)
    assert slurm.changes == [(4, "guest", "n0")]
    assert bench.turn() == []
    happens(slurm)
    assert bench.turn(after_s) == [(4, "co", "")]
    assert bench.said("put-back") == [f"job 4 is back: {why}"]
    assert bench.remarks[-1] == (4, f"no guest: {why}")
    if after_s == 36:
        assert bench.turn(4) == []
        assert bench.turn(2) == [(4, "guest", "n0")]  # after 5 s it may try again


def test_a_cap_of_all_guests_is_tried_again_when_one_of_them_ends() -> None:
    slurm = Slurm()
    slurm.job(1, "R", "n[0-1]", time_limit=60)
    slurm.job(4)
    bench = Bench(slurm)
    slurm.begin(4)
    slurm.job(5)
    slurm.job(6)
    assert bench.turn() == [(4, "guest", "n0"), (5, "guest", "n1")]
    slurm.jobs[5]["state_reason"] = "QOSGrpJobsLimit"
    assert bench.turn() == [(5, "co", "")]
    slurm.jobs[5]["state_reason"] = "Resources"
    assert bench.turn(20) == []  # nor job 6
    slurm.end(4)
    assert [change[:2] for change in bench.turn()] == [(5, "guest")]  # one at a time now
    slurm.jobs[5]["state_reason"] = "QOSGrpJobsLimit"
    assert bench.turn() == [(5, "co", "")]
    slurm.jobs[5]["state_reason"] = "Resources"
    assert bench.turn(28) == []
    assert [change[:2] for change in bench.turn(3)] == [(5, "guest")]  # the operator may have raised it


def test_what_waits_among_the_guests_unasked_is_put_back_until_slurm_accepts_that() -> None:
    slurm = Slurm()
    slurm.job(4, partition="guest", required_nodes="n0")
    slurm.answers = [Reply(500, '{"errors": [{"error": "Access denied", "error_number": 2}]}')]
    bench = Bench(slurm)
    assert slurm.changes == [(4, "co", "")]
    assert bench.turn() == []
    assert bench.turn(5) == [(4, "co", "")]
    assert bench.turn() == []
    assert len(bench.said("orphan")) == 2


ANSWERS = [
    (2073, "Job is no longer pending execution", "first", "job 4: Slurm itself has started it first"),
    (2070, "Requested partition not available", "refused", ""),
]


@pytest.mark.parametrize(("number", "words", "event", "text"), ANSWERS)
def test_a_refusal_changes_nothing(number: int, words: str, event: str, text: str) -> None:
    slurm = hosted()
    slurm.answers = [Reply(500, json.dumps({"errors": [{"error": words, "error_number": number}]}))]
    bench = Bench(slurm)
    assert slurm.changes == [(4, "guest", "n0")]
    assert len(bench.said(event)) == 1
    assert text in bench.said(event)[0]
    assert bench.turn(4) == []
    assert bench.turn(2) == [(4, "guest", "n0")]


def test_a_change_without_an_answer_is_put_back_if_it_was_made() -> None:
    slurm = hosted()
    slurm.answers = [Reply(0, "timed out", sent=True)]
    bench = Bench(slurm)
    assert len(slurm.changes) == 1
    slurm.jobs[4] |= {"partition": "guest", "required_nodes": "n0"}
    assert bench.turn() == [(4, "co", "")]
    assert bench.turn() == []


def test_a_new_job_that_slurm_has_not_looked_at_is_asked_before_those_behind_it() -> None:
    slurm = hosted(state_reason="None", submit_time=int(NOW_S))
    slurm.job(5)
    bench = Bench(slurm)
    assert bench.turn() == []
    slurm.jobs[4]["state_reason"] = "Resources"
    assert bench.turn() == [(4, "guest", "n0")]
    slurm.end(1)
    bench.turn()
    slurm.job(2, "R", "n1", time_limit=60)
    slurm.jobs[4] |= {"state_reason": "None", "submit_time": int(slurm.now_s)}
    assert bench.turn() == []
    assert bench.turn(4) == [(5, "guest", "n1")]  # Slurm takes its time


def test_pairs_that_slurm_makes_are_told_and_bad_ones_end_where_that_is_wanted() -> None:
    slurm = hosted()
    bench = Bench(slurm, requeues=True)
    slurm.begin(4)
    bench.turn()
    slurm.end(1)
    bench.turn(10)
    slurm.job(7, "R", "n0", name="b")
    bench.turn()
    assert bench.said("blind-pair") == [
        "Slurm itself has co-located guest 4 and job 7 on n0: 1.25 and 1.25 times as slow"
    ]
    slurm.end(7)
    bench.turn(10)
    slurm.asked.clear()
    slurm.job(8, "R", "n0", name="bad")
    slurm.now_s += 1
    bench.seating.turn()
    assert len(bench.said("blind-pair")) == 2
    assert slurm.asked == [("scontrol", ("requeue", "4"))]
    assert bench.said("requeued") == ["guest 4 is requeued: they would end sooner one after the other"]


def test_a_driver_that_begins_knows_blind_pairs_by_their_starts() -> None:
    slurm = Slurm()
    slurm.job(1, "R", "n0", start_time=int(NOW_S) - 50)
    slurm.job(4, "R", "n0", partition="guest", start_time=int(NOW_S) - 40)
    slurm.job(5, "R", "n1", partition="guest", start_time=int(NOW_S) - 40)
    slurm.job(6, "R", "n1", start_time=int(NOW_S) - 30)
    bench = Bench(slurm)
    assert [text.split(":")[0] for text in bench.said("blind-pair")] == [
        "Slurm itself has co-located guest 5 and job 6 on n1"
    ]


class Busy:
    """A Slurm to which anything happens; it puts no third job on a core, and nobody beside an exclusive job."""

    def __init__(self, seed: int) -> None:
        self.slurm, self.draw, self.last = Slurm(), Random(seed), 0

    def rows(self, state: str, partition: str = "") -> list[dict[str, Any]]:
        shown = [job for job in self.slurm.jobs.values() if job["job_state"] == STATES[state]]
        return [job for job in shown if partition in ("", job["partition"])]

    def on(self, name: str) -> list[dict[str, Any]]:
        return [job for job in self.rows("R") if name in expand(job["nodes"])]

    def room(self, job: dict[str, Any]) -> list[str]:
        """Return the nodes on which Slurm may start a job."""
        return [
            name
            for name in NODES
            if not self.slurm.states.get(name)
            and not any(job["partition"] == one["partition"] or one.get("shared") for one in self.on(name))
            and not (job.get("shared") and self.on(name))
        ]

    def begins(self) -> None:
        for job in self.rows("PD"):
            room, listed = self.room(job), list(expand(job.get("required_nodes") or ""))
            names = listed or room[: job["node_count"]]
            if (
                not job["state_reason"].startswith("JobHeld")
                and len(names) == job["node_count"]
                and set(names) <= set(room)
            ):
                self.slurm.begin(job["job_id"], ",".join(names))

    def comes(self) -> None:
        self.last += 1
        count, draw = self.draw.choice((1, 1, 2)), self.draw
        size: dict[str, Any] = {"node_count": count, "max_nodes": count, "tasks": 4 * count, "cpus": 4 * count}
        alone: dict[str, Any] = {"shared": ["none"]} if draw.random() < 0.15 else {}
        kind: dict[str, Any] = {"time_limit": draw.choice((1, 5, 60)), "name": draw.choice(("a", "b", "bad", "c"))}
        self.slurm.job(self.last, **size, **kind, **alone)

    def happens(self) -> None:
        """Let something happen, as by Slurm, a user or an operator."""
        slurm, draw = self.slurm, self.draw
        running, waiting = self.rows("R"), self.rows("PD")
        match draw.randrange(10):
            case 0 | 1 | 2:
                self.comes()
            case 3 | 4:
                self.begins()
            case 5 if running:
                slurm.end(draw.choice(running)["job_id"])
            case 6 if running:
                slurm.requeue(draw.choice(running)["job_id"])
            case 7 if waiting:
                draw.choice(waiting)["state_reason"] = draw.choice(("Resources", "Priority", "JobHeldAdmin", "None"))
            case 8:
                name = draw.choice(NODES)
                slurm.states[name] = "" if slurm.states.get(name) else "DRAIN"
            case 9 if waiting:
                draw.choice(waiting).update(job_state="CANCELLED", end_time=int(slurm.now_s))


@pytest.mark.parametrize("seed", range(2))
def test_whatever_happens_no_asked_job_is_forgotten_and_no_node_has_two(seed: int) -> None:
    busy = Busy(seed)
    slurm = busy.slurm
    bench = Bench(slurm, requeues=True)
    begun = 0
    for turn in range(250):
        busy.happens()
        if turn == 125:
            bench = Bench(slurm, requeues=True)  # after kill -9
        bench.turn(busy.draw.choice((0.5, 1, 6)))
        names = [name for job in busy.rows("PD", "guest") for name in expand(job.get("required_nodes") or "")]
        assert len(names) == len(set(names)), turn
        for name in NODES:
            there = busy.on(name)
            assert len(there) <= 2, turn
            assert len(there) < 2 or not any(job.get("shared") for job in there), turn
        begun += len(busy.rows("R", "guest"))
    assert begun
    for _ in range(3):  # now nothing happens: what cannot begin is put back
        slurm.jobs = {number: job for number, job in slurm.jobs.items() if job["job_state"] != "RUNNING"}
        bench.turn(40)
    assert busy.rows("PD", "guest") == []
    assert all(not job.get("required_nodes") for job in busy.rows("PD"))


def test_at_the_end_what_is_asked_is_put_back_and_guests_run_on() -> None:
    slurm = Slurm()
    full(slurm)
    slurm.job(4)
    slurm.job(5)
    bench = Bench(slurm)
    assert len(slurm.changes) == 2
    slurm.begin(4)
    bench.turn()
    bench.seating.end()
    assert slurm.changes == [(5, "co", "")]


def test_a_trial_run_changes_nothing_and_counts_what_would_have_been() -> None:
    slurm = Slurm()
    slurm.job(1, "R", "n[0-1]", time_limit=60)
    slurm.job(4)
    bench = Bench(slurm, dry=True)
    assert bench.said("asked")[0].startswith("job 4 would be asked to be a guest: on n0")
    slurm.job(5, time_limit=20)
    bench.turn(40)  # as a guest of the other node
    bench.turn(60)
    slurm.begin(4, "n2")
    bench.turn()
    slurm.now_s += 80
    slurm.end(4)
    assert bench.turn() == []  # it would have been there for 80 x 1.25 s
    bench.turn(20)
    slurm.end(1)
    bench.turn()
    bench.seating.end()
    (gains,) = [line for line in bench.lines if line["event"] == "gains"]
    assert (gains["guests"], gains["sooner"], gains["sooner_s"]) == (2, 1, 100.0)
    assert gains["pair_node_s"] == pytest.approx(80 * 1.25 + 162, abs=2)


@pytest.mark.parametrize(
    ("config", "seconds"),
    [
        ({"SchedulerType": "sched/backfill", "SchedulerParameters": "(null)"}, 35),
        ({"SchedulerType": "sched/backfill", "SchedulerParameters": "defer,bf_interval=3,bf_window=10"}, 8),
        ({"SchedulerType": "sched/builtin", "SchedulerParameters": "sched_interval=1"}, 6),
        ({}, 35),
    ],
)
def test_how_long_slurm_may_take_follows_from_its_backfill(config: dict[str, str], seconds: float) -> None:
    assert patience_s(config) == seconds


def test_gains_of_a_guest_that_is_requeued_end_then() -> None:
    def job(state: str, **more: Any) -> Any:
        return SimpleNamespace(state=state, start_s=0, end_s=0, **more)

    gains = Gains(dry=False)
    gains.begin(4, 0.0)
    gains.meet(4, 1, 2, 0.0, (2.0, 2.0))
    gains.look({1: job("RUNNING"), 4: job("RUNNING")}, 5.0)
    assert gains.totals(5.0).pair_node_s == 10.0
    gains.look({1: job("RUNNING"), 4: job("PENDING")}, 8.0)
    gains.look({1: job("RUNNING"), 4: job("PENDING")}, 9.0)
    assert gains.totals(20.0).pair_node_s == 16.0
    assert gains.totals(20.0).won_node_s == 0.0
