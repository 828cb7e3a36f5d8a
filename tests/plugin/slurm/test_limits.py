"""Limits of QOS and associations: what slurmdbd tells of them, who is held for them, and what Slurm alone judges."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.plugin.slurm.bed import RELEASES
from tests.plugin.slurm.record import FOLDER
from tests.plugin.slurm.test_actuator import Slurm, Told, cluster_of, enforcer_of, go_on, lines, start
from tests.plugin.slurm.test_scripts import polls_of

from cosched_plugin.common.limits import NO_LIMIT, UNBOUND, Association, Limit, Limited, Qos
from cosched_plugin.protocol.messages import ActionRefused, JobHeld, JobReleased, JobSpec
from cosched_plugin.site.books import Books
from cosched_plugin.site.enforcing import Enforcer
from cosched_plugin.slurm.adapter import Asked
from cosched_plugin.slurm.cluster import Cluster
from cosched_plugin.slurm.limits import (
    RETRY_US,
    Facts,
    KnownLimits,
    Limits,
    Room,
    counts_of,
    counts_to_be,
    in_words,
)
from cosched_plugin.slurm.records import SlurmJob
from cosched_plugin.slurm.rest import LIMITS_S, SITE_S, DatabasePolls, Polls, Rest
from cosched_plugin.slurm.site_file import Site
from cosched_plugin.slurm.transport import Reply
from cosched_terminal.console import Log


def qos(name: str, together: Limited = NO_LIMIT, user: Limited = NO_LIMIT, **more: Any) -> Qos:
    return Qos(name, 0, together, user, NO_LIMIT, (), **more)


def account(name: str, parent: str = "root", together: Limited = NO_LIMIT) -> Association:
    return Association(name, "", parent, 1, together, UNBOUND, ())


def user(of: str, name: str, jobs: int = UNBOUND, together: Limited = NO_LIMIT, partition: str = "") -> Association:
    return Association(of, name, "", 1, together, jobs, (), partition)


# ---------------------------------------------------------------- what is told


@cache
def recorded(release: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress((FOLDER / f"limits-{release}.json.gz").read_bytes()))
    return found


class Answers:
    """A slurmrestd that answers as a real one did, until `dead`; and keeps what it was asked."""

    def __init__(self, release: str) -> None:
        self.said = recorded(release)
        self.dead = False
        self.asked: list[str] = []
        self.changes: Callable[[str], str] = str

    def call(self, method: str, target: str, body: object = None) -> Reply:
        self.asked.append(target)
        status, text = self.said["dead" if self.dead else "answers"][target.partition("?")[0]]
        return Reply(status, self.changes(text))


@pytest.mark.parametrize("release", RELEASES)
def test_what_slurmdbd_of_each_release_tells_is_read(release: str) -> None:
    answers = Answers(release)
    rest = Rest(answers, answers.said["version"])
    told, associations = rest.limits("bed")
    assert rest.odd == {"qos": {}, "associations": {}}
    by_name = {each.name: each for each in told}
    few = by_name["few"]
    assert (few.together, few.of_user, few.of_account) == (
        Limited(11, 12, 3), Limited(2, 8), Limited(7, nodes=3),
    )  # fmt: skip
    assert (few.factor, few.first, sorted(few.others)) == (2.0, False, ["MaxTRESPU mem", "MaxWall"])
    assert (by_name["over"].of_user, by_name["over"].first) == (Limited(4), True)
    if release != "22.05":  # which has no percents
        assert (by_name["half"].together, by_name["half"].others) == (Limited(3), ("TRES in percent",))
    found = {(each.account, each.user): each for each in associations}
    assert found["phys", ""] == Association("phys", "", "root", 1, Limited(9, 6), UNBOUND, ("GrpTRES mem",))
    assert found["chem", ""].parent == "phys"
    assert (found["phys", "mail"].each_jobs, found["phys", "mail"].others) == (2, ("MaxTRES",))
    assert found["chem", "news"].each_jobs == 5  # of its account
    assert {each.name: each.qos for each in rest.partitions()} == {
        "co": "", "guest": "", "shr": "", "ex": "part", "tick": "",
    }  # fmt: skip
    assert rest.limits("other")[1] == []  # of another cluster of the same slurmdbd


def test_a_record_that_cannot_be_read_is_named_and_the_others_count() -> None:
    answers = Answers("24.11")
    answers.changes = lambda text: text.replace('"number": 11', '"number": "many"')
    rest = Rest(answers, "v0.0.42")
    told, _ = rest.limits("bed")
    assert "few" not in {each.name for each in told}
    assert {"normal", "over"} <= {each.name for each in told}
    assert len(rest.odd["qos"]) == 1


# ---------------------------------------------------------------- whom limits bind


def bounds(limits: KnownLimits, who: str, of: str, named: str, partition_qos: str = "", partition: str = "") -> Any:
    """Return what binds a job, by the word that Slurm has for it."""
    found = {}
    for _, limit in limits.of(Facts(who, of, named, partition, partition_qos)):
        found.update({limit.reason(number): most for number, most in enumerate(limit.most) if most != UNBOUND})
    return found


SITE = (
    account("root", "", Limited(cpus=100)),
    account("phys", "root", Limited(9, 6)),
    account("chem", "phys", Limited(nodes=3)),
    user("chem", "ann", 5, Limited(gpus=2)),
    user("phys", "ann"),
    user("phys", "ann", 1, partition="fast"),
)


@pytest.mark.parametrize(
    ("mine", "facts", "expected"),
    [
        ((), ("ann", "phys", "normal"), {"AssocGrpJobsLimit": 9, "AssocGrpCpuLimit": 100}),
        (
            (),
            ("ann", "chem", ""),
            {
                "AssocMaxJobsLimit": 5,
                "AssocGrpGRES": 2,
                "AssocGrpNodeLimit": 3,
                "AssocGrpJobsLimit": 9,
                "AssocGrpCpuLimit": 100,
            },
        ),
        # What a QOS bounds takes the place of what associations do, amount by amount; jobs of each user that of MaxJobs.
        (
            (qos("big", Limited(cpus=50), Limited(7)),),
            ("ann", "chem", "big"),
            {
                "QOSGrpCpuLimit": 50,
                "QOSMaxJobsPerUserLimit": 7,
                "AssocGrpGRES": 2,
                "AssocGrpNodeLimit": 3,
                "AssocGrpJobsLimit": 9,
            },
        ),
        # The partition's comes first, unless the job's says otherwise.
        (
            (qos("mine", user=Limited(7, 8)), qos("part", user=Limited(2))),
            ("ann", "phys", "mine", "part"),
            {"QOSMaxJobsPerUserLimit": 2, "QOSMaxCpuPerUserLimit": 8, "AssocGrpJobsLimit": 9, "AssocGrpCpuLimit": 100},
        ),
        (
            (qos("mine", user=Limited(7, 8), first=True), qos("part", user=Limited(2))),
            ("ann", "phys", "mine", "part"),
            {"QOSMaxJobsPerUserLimit": 7, "QOSMaxCpuPerUserLimit": 8, "AssocGrpJobsLimit": 9, "AssocGrpCpuLimit": 100},
        ),
        ((qos("mine", factor=0.5),), ("ann", "phys", "mine"), {"AssocGrpJobsLimit": 9, "AssocGrpCpuLimit": 50}),
        (
            (),
            ("ann", "phys", "", "", "fast"),
            {"AssocMaxJobsLimit": 1, "AssocGrpJobsLimit": 9, "AssocGrpCpuLimit": 100},
        ),
        ((), ("bob", "else", "normal"), {}),
    ],
)
def test_limits_stand_in_for_each_other_as_in_slurm(
    mine: tuple[Qos, ...], facts: tuple[str, ...], expected: Mapping[str, int]
) -> None:
    assert bounds(KnownLimits(mine, SITE), *facts) == expected


def test_jobs_count_where_limits_do_not_bind_them() -> None:
    """A QOS stands in for its account's limit, which binds the others; and its jobs count there all the same."""
    room = Room(KnownLimits([qos("big", Limited(cpus=50))], SITE))
    big, plain = Facts("ann", "phys", "big", "", ""), Facts("bob", "phys", "normal", "", "")
    room.count(big, Limited(1, 5, 0, 1))
    assert room.take(plain, Limited(1, 2, 0, 1)) == "AssocGrpCpuLimit"
    assert room.take(big, Limited(1, 40, 0, 1)) == ""
    assert room.take(big, Limited(1, 10, 0, 1)) == "QOSGrpCpuLimit"


def test_a_node_counts_once_for_all_jobs_on_it() -> None:
    room = Room(KnownLimits([], [account("phys", "", Limited(nodes=3))]))
    facts = Facts("ann", "phys", "", "", "")
    room.count(facts, Limited(1, 1, 0, 2), ("n0", "n1"))
    room.count(facts, Limited(1, 1, 0, 2), ("n1", "n0"))
    assert room.take(facts, Limited(1, 1, 0, 2)) == "AssocGrpNodeLimit"
    assert room.take(facts, Limited(1, 1, 0, 1)) == ""
    assert room.take(facts, Limited(1, 1, 0, 1)) == "AssocGrpNodeLimit"


@pytest.mark.parametrize(
    ("changed", "spec", "threads", "alone", "expected"),
    [
        ({}, JobSpec(1, 0, 4, 1, ppn_min=2, ppn_max=2), 1, 0, Limited(1, 4, 0, 2)),
        ({}, JobSpec(1, 0, 4, 1, ppn_min=2, ppn_max=2), 2, 0, Limited(1, 8, 0, 2)),  # all threads of its cores
        ({"threads_per_core": 1}, JobSpec(1, 0, 4, 1, ppn_min=2, ppn_max=2), 2, 0, Limited(1, 4, 0, 2)),
        ({}, JobSpec(1, 0, 2, 1, ppn_min=1, ppn_max=1), 1, 16, Limited(1, 32, 0, 2)),
        # 8 tasks as 5, 1, 1 and 1 are planned as 20 cores, and Slurm counts 8.
        (
            {"tasks": 8, "cpus": 8},
            JobSpec(1, 0, 4, 1, ppn_min=1, ppn_max=1, threads_per_process=5),
            1,
            0,
            Limited(1, 8, 0, 4),
        ),
        (
            {},
            JobSpec(1, 0, 2, 1, ppn_min=1, ppn_max=1, resources=(("gpu", 3), ("gpu:a100", 3))),
            1,
            0,
            Limited(1, 2, 6, 2),
        ),
        (
            {"per_job": (("gpu", 4),)},
            JobSpec(1, 0, 2, 1, ppn_min=1, ppn_max=1, resources=(("gpu", 3),)),
            1,
            0,
            Limited(1, 2, 4, 2),
        ),
    ],
)
def test_what_a_job_will_count_as(
    changed: Mapping[str, Any], spec: JobSpec, threads: int, alone: int, expected: Limited
) -> None:
    job = polls_of("24.11", "c -t 0 -n1").jobs[0]._replace(tasks=spec.processes, cpus=spec.processes)
    assert counts_to_be(job._replace(**changed), spec, threads, alone) == expected
    assert counts_of(job._replace(allocated={"cpu": 8, "mem": 4000, "node": 2, "gres/gpu": 3})) == Limited(1, 8, 3, 2)


def test_every_reason_has_a_meaning() -> None:
    for limit in (Limit(NO_LIMIT, "user", qos="a"), Limit(NO_LIMIT, "account", qos="a"), Limit(NO_LIMIT, account="a")):
        for number in range(4):
            assert "in use" in in_words(limit.reason(number))


# ---------------------------------------------------------------- asking slurmdbd


class Asking:
    """Questions for limits that are answered when a test wants it."""

    def __init__(self, release: str = "24.11") -> None:
        self.slurm = Answers(release)
        self.said: list[str] = []
        self.waiting: list[Callable[[], None]] = []
        log = Log("test", write=self.said.append)
        self.polls = DatabasePolls(Rest(self.slurm, self.slurm.said["version"]), "bed", log, self.waiting.append)

    @property
    def asked(self) -> list[str]:
        names = [target.rpartition("/")[2].partition("?")[0] for target in self.slurm.asked]
        return sorted(name for name in names if name != "associations")

    def turn(self, now_s: float, *, answered: bool = True) -> bool:
        """Poll, have what was asked answered, and poll again; return whether limits have changed."""
        changed = self.polls.poll(now_s)
        while answered and self.waiting:
            self.waiting.pop(0)()
            changed = self.polls.poll(now_s) or changed
        return changed


def test_limits_are_asked_for_at_times_and_changes_are_followed() -> None:
    asking = Asking()
    assert asking.turn(0.0)
    assert bounds(cast("KnownLimits", asking.polls.known), "mail", "phys", "few")["QOSMaxJobsPerUserLimit"] == 2
    assert not asking.turn(SITE_S - 1)
    assert asking.asked == ["partitions", "qos"]
    assert not asking.turn(LIMITS_S - 1)
    assert asking.asked == ["partitions", "partitions", "qos"]
    assert not asking.turn(LIMITS_S + SITE_S)  # asked, and nothing is new
    assert asking.asked.count("qos") == 2
    asking.slurm.changes = lambda text: text.replace('"number": 11\n', '"number": 1\n')
    assert asking.turn(3 * LIMITS_S)
    assert bounds(cast("KnownLimits", asking.polls.known), "mail", "phys", "few")["QOSGrpJobsLimit"] == 1
    assert asking.turn(3.0) is False  # a clock that was set back
    assert len(asking.said) == 2
    assert "5 QOS and 7 associations" in asking.said[0]
    assert "Slurm alone keeps GrpTRES mem, MaxTRES, MaxTRESPU mem, MaxWall, TRES in percent" in asking.said[0]


def test_nothing_waits_for_an_answer_about_limits() -> None:
    asking = Asking()
    for now_s in range(0, 300, 10):
        assert not asking.turn(float(now_s), answered=False)
    assert (len(asking.waiting), asking.polls.known) == (1, None)  # and nothing is asked a second time meanwhile
    assert asking.turn(300.0)


def test_a_slurmdbd_that_is_gone_is_told_once_and_the_last_limits_stay() -> None:
    asking = Asking()
    asking.turn(0.0)
    known = asking.polls.known
    asking.slurm.dead = True
    for turn in range(1, 4):
        assert not asking.turn(turn * LIMITS_S)
    assert asking.polls.known is known
    assert [text for text in asking.said[1:] if "the last known limits stay" in text] == asking.said[1:]
    assert len(asking.said) == 2
    assert "Unable to connect to database" in asking.said[1]
    asking.slurm.dead = False
    assert not asking.turn(4 * LIMITS_S)
    assert asking.said[2:] == ["test: slurmdbd reports limits again"]
    late = Asking()
    late.slurm.dead = True
    late.turn(0.0)
    assert late.polls.known is None
    assert "no limit is known in advance" in late.said[0]
    late.slurm.dead = False
    assert late.turn(LIMITS_S)
    assert late.polls.known is not None


@pytest.mark.parametrize("release", RELEASES)
def test_partitions_are_told_without_slurmdbd_and_by_its_questions_alone_where_there_is_one(release: str) -> None:
    """24.11 and 26.05 ask it what TRES there are: where it hangs they answer after 90 s, and where it is gone with an error."""
    asking = Asking(release)
    asking.slurm.dead = True
    polls = Polls(
        cast("Rest", SimpleNamespace(jobs=lambda _: [], nodes=list, odd={}, reservations=list, licences=list))
    )
    polls.rest.list = cast("Any", SimpleNamespace(took_s=0.0))
    polls.database = asking.polls
    polls.poll(0.0)
    assert not polls.poll(0.1)
    asking.waiting.pop()()
    assert polls.poll(0.2)
    assert {each.name: each.qos for each in polls.partitions}["ex"] == "part"


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({}, "scontrol shows no configuration"),
        ({"AccountingStorageType": "(null)"}, "Slurm has no slurmdbd"),
        (
            {"AccountingStorageType": "accounting_storage/slurmdbd", "AccountingStorageEnforce": "associations,qos"},
            "AccountingStorageEnforce has no `limits`",
        ),
    ],
)
def test_without_limits_nothing_is_asked_and_one_line_says_so(config: Mapping[str, str], why: str) -> None:
    said: list[str] = []
    asked = SimpleNamespace(log=Log("test", write=said.append))
    if "slurmdbd" in config.get("AccountingStorageType", ""):
        asked = SimpleNamespace(
            **vars(asked), address="unix:/nowhere", token=None, rest=SimpleNamespace(version="v0.0.42")
        )
        assert Asked._database(cast("Asked", asked), config) is not None  # partitions are asked for like that, too
    else:
        assert Asked._database(cast("Asked", asked), config) is None
    assert said == [f"test: limits of QOS and associations are not known in advance: {why}"]


# ---------------------------------------------------------------- who is held


class Stub:
    """Limits that a test changes."""

    partitions = None

    def __init__(self, known: KnownLimits) -> None:
        self.known = known
        self.odd: Mapping[str, str] = {}
        self.changed = True

    def poll(self, now_s: float) -> bool:
        changed, self.changed = self.changed, False
        return changed


def limited(one: Enforcer, *user_limits: Qos | Association) -> Stub:
    """Let these limits bind; return what a test may change."""
    all_qos = [each for each in user_limits if isinstance(each, Qos)]
    stub = Stub(KnownLimits(all_qos, [each for each in user_limits if isinstance(each, Association)]))
    cluster_of(one).polls.database = cast("DatabasePolls", stub)
    return stub


def happened(told: Told, kind: type[JobHeld | JobReleased]) -> list[list[int]]:
    """Return the jobs of events of a kind, batch by batch."""
    return [[event.job_id for event in batch if isinstance(event, kind)] for batch in told.events]


def test_a_job_without_room_is_held_until_another_ends_or_the_limit_is_raised(tmp_path: Path) -> None:
    slurm = Slurm(*[{"job_id": number, "account": "phys", "qos": "few", "priority": 0} for number in (1, 2, 3, 4)])
    slurm.jobs[4] |= {"user_name": "bob"}
    slurm.jobs[3] |= {"nice": -10}  # it comes before the second
    told = Told([start(1)], [])
    one = enforcer_of(slurm, told, tmp_path)
    cluster = cluster_of(one)
    assert happened(told, JobHeld) == [[]]
    before = len(lines)
    stub = limited(one, qos("few", user=Limited(2)))
    go_on(one, slurm, 1)
    assert slurm.jobs[1]["job_state"] == "RUNNING"
    assert happened(told, JobHeld)[-1] == [2]
    words = "QOSMaxJobsPerUserLimit: as many jobs as its user may have of its QOS, or of its partition, are in use"
    assert cluster.limited == {2: words}
    assert [text for text in lines[before:] if "waits" in text] == [f"test: job 2 waits: {words}"]
    told.answers = [[start(3, 1)]]
    go_on(one, slurm, 1)
    slurm.jobs[1]["job_state"] = "COMPLETING"  # Slurm does not count it any more
    go_on(one, slurm, 1)
    assert happened(told, JobReleased)[-1] == [2]
    assert cluster.limited == {}
    stub.known, stub.changed = KnownLimits([qos("few", user=Limited(1))], []), True
    one.turn()
    assert happened(told, JobHeld)[-1] == [2]
    assert not [event for batch in told.events for event in batch if isinstance(event, ActionRefused)]


def test_what_was_placed_and_has_not_begun_counts(tmp_path: Path) -> None:
    """Else the next job would be placed within the second that Slurm takes to start the first."""
    slurm = Slurm(*[{"job_id": number, "account": "phys", "qos": "few"} for number in (1, 2)])
    slurm.stubborn = True
    told = Told([])
    one = enforcer_of(slurm, told, tmp_path)
    limited(one, qos("few", Limited(cpus=6)))
    told.answers = [[start(1)]]
    go_on(one, slurm, 1)
    slurm.jobs[1] |= {"state_reason": "None", "required_nodes": "n0"}
    go_on(one, slurm, 0.5)
    assert cluster_of(one).limited.keys() == {2}
    assert {job_id for batch in happened(told, JobHeld) for job_id in batch} == {2}


def test_licences_whose_number_is_not_as_at_the_start_are_named() -> None:
    polls = polls_of("24.11", "c -t 0 -n1")
    polls.licences = [("few", 2), ("many", 9)]
    cluster = Cluster(cast("Polls", polls), Site(("batch",)), 1)
    polls.licences = [("few", 3), ("many", 9)]
    cluster.snapshot(2_000_000_000_000, Books(cluster.machine))
    assert cluster.changed == {"licence few": "there was another number of it at the start"}


def test_a_job_that_waits_for_nodes_out_of_service_takes_no_room(tmp_path: Path) -> None:
    """Else it might keep all others of its user from starting for weeks."""
    large, small = {"tasks": 16, "cpus": 16, "node_count": 4, "max_nodes": 4}, {"submit_time": 2}
    slurm = Slurm({"job_id": 2, "account": "phys", **large}, {"job_id": 1, "account": "phys", **small})
    one = enforcer_of(slurm, Told([], []), tmp_path)
    cluster = cluster_of(one)
    limited(one, user("phys", "ann", 1))
    go_on(one, slurm, 1)
    assert cluster.limited.keys() == {1}
    cluster.polls.nodes = [node._replace(takes_jobs=node.name != "n3") for node in cluster.polls.nodes]
    snapshot = cluster.snapshot(2_000_000_000_000, one.driver.books)
    assert [number for number, job in snapshot.jobs.items() if job.held] == []
    assert cluster.limited == {}


def test_tasks_of_an_array_count_one_by_one(tmp_path: Path) -> None:
    array = {"job_id": 9, "array_job_id": 9, "array_task_id": None, "array_task_string": "1-5"}
    slurm = Slurm({**array, "account": "phys", "qos": "few"})
    told = Told([])
    one = enforcer_of(slurm, told, tmp_path)
    limited(one, user("phys", "ann", 2))
    go_on(one, slurm, 1)
    assert [job_id & 0xFF for job_id in happened(told, JobHeld)[-1]] == [4, 5, 6]  # tasks 3, 4 and 5


# ---------------------------------------------------------------- what Slurm alone judges


def jobs_of(*states: str, **more: object) -> dict[int, SlurmJob]:
    job = polls_of("24.11", "c -t 0 -n1").jobs[0]._replace(account="physics", qos="normal", **more)
    return {number: job._replace(job_id=number, state=state) for number, state in enumerate(states, 1)}


def look(limits: Limits, jobs: Mapping[int, SlurmJob], now_us: int = 0) -> list[int]:
    """Show a poll; return the jobs that are set aside."""
    limits.look({number: job for number, job in jobs.items() if job.state == "RUNNING"}, jobs, now_us)
    return [number for number in jobs if limits.words(number)]


def test_a_job_at_a_limit_waits_for_another_to_end() -> None:
    limits = Limits()
    waits = jobs_of("RUNNING", "PENDING", "PENDING", "PENDING")
    assert look(limits, waits) == []
    assert all(limits.set_aside(number, "QOSMaxJobsPerUserLimit", 0) for number in (2, 3, 4))
    assert not limits.set_aside(5, "Resources", 0)
    assert look(limits, waits) == [2, 3, 4]
    assert look(limits, jobs_of("COMPLETED", "PENDING", "PENDING", "PENDING")) == [3, 4]  # one end makes room for one
    assert look(limits, jobs_of("COMPLETED", "RUNNING", "PENDING", "PENDING")) == [3, 4]
    assert (
        look(limits, jobs_of("COMPLETED", "RUNNING", "PENDING", "PENDING"), RETRY_US) == []
    )  # the limit may have been raised


def test_after_a_limit_of_amounts_jobs_try_until_one_fails() -> None:
    limits = Limits()
    look(limits, jobs_of("RUNNING", "PENDING", "PENDING", "PENDING"))
    for number in (2, 3, 4):
        limits.set_aside(number, "AssocGrpCpuLimit", 0)
    assert look(limits, jobs_of("COMPLETED", "PENDING", "PENDING", "PENDING")) == [3, 4]
    assert look(limits, jobs_of("COMPLETED", "RUNNING", "PENDING", "PENDING")) == [4]
    limits.set_aside(3, "AssocGrpCpuLimit", 0)
    assert look(limits, jobs_of("COMPLETED", "RUNNING", "PENDING", "PENDING")) == [3, 4]


@pytest.mark.parametrize("reason", ["QOSMaxWallDurationPerJobLimit", "AccountNotAllowed", "InvalidQOS"])
def test_what_no_end_helps_is_its_users_to_change(reason: str) -> None:
    limits = Limits()
    look(limits, jobs_of("RUNNING", "PENDING"))
    assert limits.set_aside(2, reason, 0)
    assert look(limits, jobs_of("COMPLETED", "PENDING")) == [2]
    assert limits.words(2) == f"{reason}: its user must change it"
    placed = jobs_of("COMPLETED", "PENDING", partition="guest", held="")
    assert look(limits, placed) == [2]  # as it was placed
    own = jobs_of("COMPLETED", "PENDING", held="user")
    assert look(limits, own) == [2]
    assert look(limits, jobs_of("COMPLETED", "PENDING", held="user", priority=7, reason="JobHeldUser")) == [2]
    assert look(limits, jobs_of("COMPLETED", "PENDING", held="user", limit_min=5)) == []  # it has changed it
