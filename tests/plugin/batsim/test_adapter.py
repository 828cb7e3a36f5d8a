"""The decision process without its socket: what a policy is told of a simulation, and what Batsim gets for an answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cosched_plugin.batsim.adapter import Decisions, features_of
from cosched_plugin.batsim.messages import read_hosts, write_hosts
from cosched_plugin.batsim.site import SiteFile, read_site_file
from cosched_plugin.common.errors import MachineError, UsageError
from cosched_plugin.config import choose
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.errors import RemoteProtocolError
from cosched_terminal.console import Log

NO_FILE = SiteFile()
HOSTS = [f"n{number}" for number in range(12)]  # not padded: n10 is number 2


def decisions_of(policy: str, site: SiteFile = NO_FILE) -> Decisions:
    choice = choose(policy)
    return Decisions(choice.scheduler, features_of(choice.make()), site, 0, Log(quiet=True))


def begins(hosts: Sequence[str], *, sharing: bool = False, dynamic: bool = False, **more: Any) -> dict[str, Any]:
    """Return the data of SIMULATION_BEGINS; host numbers follow the plain order of names, as Batsim's do."""
    resources = [
        {"id": number, "name": name, "state": "idle", "properties": {"role": ""}, "zone_properties": {}}
        for number, name in enumerate(sorted(hosts))
    ]
    data: dict[str, Any] = {
        "nb_resources": len(hosts), "nb_compute_resources": len(hosts), "nb_storage_resources": 0,
        "allow_compute_sharing": sharing, "allow_storage_sharing": True,
        "config": {"dynamic-jobs-enabled": dynamic, "profiles-forwarded-on-submission": False, "sched-config": ""},
        "compute_resources": resources, "storage_resources": [], "workloads": {"w0": "/w.json"}, "profiles": {"w0": {}},
    }  # fmt: skip
    return data | more


@pytest.mark.parametrize(
    ("policy", "site", "sharing", "lacks"),
    [
        ("lomarc-r", NO_FILE, False, "--enable-compute-sharing"),
        ("glts", NO_FILE, True, "disk"),  # it preempts jobs
        ("gang", NO_FILE, False, "slots"),
        ("lomarc-r", SiteFile(jobs=1), True, r"hosts\.jobs = 2"),
        ("easy", SiteFile(jobs=2), False, "the site file allows it"),
    ],
)
def test_what_hosts_do_not_give_a_policy_is_told_as_a_simulation_begins(
    policy: str, site: SiteFile, sharing: bool, lacks: str
) -> None:
    with pytest.raises(MachineError, match=lacks):
        decisions_of(policy, site).answer(message(0, ("SIMULATION_BEGINS", begins(HOSTS, sharing=sharing))))


def test_what_jobs_ask_of_hosts_comes_from_job_profile_or_file(tmp_path: Path) -> None:
    seen: list[m.Event] = []

    class Listening:
        def __init__(self, welcome: m.Welcome) -> None:
            assert welcome.nodes[0].memory_mb == 4096
            assert welcome.nodes[1].memory_mb == 64  # the property of n9, the last by name, not by number
            assert not welcome.capabilities.limits_grow

        def handle(self, now_us: int, events: Sequence[m.Event]) -> list[m.Action]:
            seen.extend(events)
            return []

    file = tmp_path / "site.toml"
    file.write_text("[hosts]\njobs = 1\nmemory_mb = 4096\n[jobs]\npriority = 7\n[profiles.q]\ndemand = [1, 2, 3]\n")
    site = read_site_file(str(file))
    data = begins(HOSTS[:10], profiles={"w0": {"p": {"type": "delay", "delay": 9, "cosched": {"memory_mb": 5}}}})
    data["compute_resources"][9]["properties"]["memory_mb"] = "64"
    decisions = Decisions(Listening, frozenset(), site, 0, Log(quiet=True))
    decisions.answer(message(0, ("SIMULATION_BEGINS", data)))
    own: dict[str, Any] = {"cosched": {"memory_mb": 6, "name": "solver", "estimate_us": 3_000_000}, "user": "u1"}
    decisions.answer(
        message(
            5,
            submitted("w0!1", walltime=20, profile="p"),
            submitted("w0!2", walltime=-1, profile="q"),
            submitted("x!2", walltime=20.5, **own),
        )
    )
    specs = {event.job.id: event.job for event in seen if isinstance(event, m.JobSubmitted)}
    one, two, other = specs.values()
    assert (one.id, one.memory_mb, one.limit_us, one.priority, one.user) == (1, 5, 20_000_000, 7, "")
    assert (two.id, two.demand, two.limit_us) == (2, (1, 2, 3), None)
    assert other.id > 1 << 31
    assert (other.memory_mb, other.name, other.user) == (6, "solver", "u1")
    assert (other.estimate_us, other.limit_us) == (3_000_000, 20_500_000)


def message(now: float, *events: tuple[str, dict[str, Any]]) -> bytes:
    listed = [{"timestamp": now, "type": kind, "data": data} for kind, data in events]
    return json.dumps({"now": now, "events": listed}).encode()


def submitted(name: str, *, res: int = 1, **fields: Any) -> tuple[str, dict[str, Any]]:
    return ("JOB_SUBMITTED", {"job_id": name, "job": {"id": name, "subtime": 0, "res": res, "profile": "p", **fields}})


def completed(name: str, state: str = "COMPLETED_SUCCESSFULLY") -> tuple[str, dict[str, Any]]:
    return ("JOB_COMPLETED", {"job_id": name, "job_state": state, "return_code": 0, "alloc": "0"})


class Scripted:
    """A scheduler that does what the test says."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, m.Event]] = []
        self.next: list[list[m.Action]] = []

    def handle(self, now_us: int, events: Sequence[m.Event]) -> list[m.Action]:
        self.seen += [(now_us, event) for event in events]
        return self.next.pop(0) if self.next else []


@pytest.fixture
def scripted() -> Scripted:
    return Scripted()


def begun(scripted: Scripted, decision_us: int = 0, **settings: Any) -> Decisions:
    decisions = Decisions(lambda _: scripted, frozenset(), SiteFile(), decision_us, Log(quiet=True))
    first = json.loads(decisions.answer(message(0, ("SIMULATION_BEGINS", begins(HOSTS, **settings)))))
    assert first["now"] == 0
    registered = [{"timestamp": 0.0, "type": "NOTIFY", "data": {"type": "registration_finished"}}]
    assert first["events"] == (registered if settings.get("dynamic") else [])
    return decisions


def start(job_id: int, *nodes: int) -> m.StartJob:
    return m.StartJob(job_id, tuple(m.Run(node, 1, 1, 1) for node in nodes), 1, None)  # type: ignore[arg-type]


def test_hosts_have_batsims_numbers_and_the_order_of_their_names(scripted: Scripted) -> None:
    decisions = begun(scripted, dynamic=True)
    scripted.next = [[start(1, 1, 2), start(2, 10)]]
    reply = json.loads(decisions.answer(message(1.5, submitted("w0!1", res=2), submitted("w0!2"))))
    # n1 and n2 are 1 and 4 in the plain order of names: n0 n1 n10 n11 n2
    assert [event["data"]["alloc"] for event in reply["events"]] == ["1 4", "2"]
    assert [event["timestamp"] for event in reply["events"]] == [1.5, 1.5]


def test_jobs_of_one_instant_come_by_number_and_ends_come_first(scripted: Scripted) -> None:
    decisions = begun(scripted)
    scripted.next = [[start(2, 0)]]
    decisions.answer(message(1, submitted("w0!10"), submitted("w0!2")))
    decisions.answer(message(2, submitted("w0!11"), completed("w0!2", "COMPLETED_KILLED")))
    kinds = [(type(event).__name__, getattr(event, "state", "")) for _, event in scripted.seen]
    assert [event.job.id for _, event in scripted.seen if isinstance(event, m.JobSubmitted)] == [2, 10, 11]
    assert kinds[2:] == [("JobEnded", "CANCELLED"), ("JobSubmitted", "")]


def test_jobs_that_can_never_fit_are_rejected(scripted: Scripted) -> None:
    decisions = begun(scripted)
    reply = json.loads(decisions.answer(message(1, submitted("w0!1", res=13))))
    assert [(event["type"], event["data"]) for event in reply["events"]] == [("REJECT_JOB", {"job_id": "w0!1"})]
    assert scripted.seen == []
    scripted.next = [[m.RejectJob(2, "as it pleases")]]
    reply = json.loads(decisions.answer(message(2, submitted("w0!2"))))
    assert [event["data"] for event in reply["events"]] == [{"job_id": "w0!2"}]


def test_wakes_are_calls_that_lie_ahead(scripted: Scripted) -> None:
    decisions = begun(scripted)
    scripted.next = [[m.WakeAt(1_000_001), m.WakeAt(9_000_000)]]
    reply = json.loads(decisions.answer(message(1, submitted("w0!1"))))
    calls = [event["data"]["timestamp"] for event in reply["events"] if event["type"] == "CALL_ME_LATER"]
    assert calls == [1.001, 9.0]
    decisions.answer(message(1.001, ("REQUESTED_CALL", {})))
    decisions.answer(message(9.00003, ("REQUESTED_CALL", {})))
    decisions.answer(message(9.1, ("REQUESTED_CALL", {})))  # of nothing: two calls may have had one instant
    assert scripted.seen[1:] == [(1_001_000, m.Woken(1_000_001)), (9_000_030, m.Woken(9_000_000))]


def test_machines_that_go_and_return_are_told_once(scripted: Scripted) -> None:
    decisions = begun(scripted)
    gone = ("NOTIFY", {"type": "event_machine_unavailable", "resources": "0-1 2"})
    decisions.answer(message(1, gone))
    decisions.answer(message(2, gone))  # nothing new
    decisions.answer(message(3, ("NOTIFY", {"type": "power_cap", "watts": 500})))
    assert scripted.seen == [(1_000_000, m.NodeFailed(node)) for node in (0, 1, 10)]
    decisions.answer(message(4, ("NOTIFY", {"type": "event_machine_available", "resources": "1-3"})))
    assert scripted.seen[3:] == [(4_000_000, m.NodeReturned(node)) for node in (1, 10)]  # host 3 was there


def test_decision_time_moves_all_decisions(scripted: Scripted) -> None:
    decisions = begun(scripted, decision_us=2_500_000)
    scripted.next = [[start(1, 0)]]
    reply = json.loads(decisions.answer(message(1, submitted("w0!1"))))
    assert (reply["now"], reply["events"][0]["timestamp"]) == (3.5, 3.5)
    assert scripted.seen[0][0] == 3_500_000
    with pytest.raises(RemoteProtocolError, match="time runs backwards"):
        decisions.answer(message(3, submitted("w0!2")))


def test_kills_and_what_batsim_cannot_do(scripted: Scripted) -> None:
    decisions = begun(scripted)
    scripted.next = [[start(1, 0)]]
    decisions.answer(message(1, submitted("w0!1")))
    scripted.next = [[m.SuspendJob(1), m.KillJob(1)]]
    reply = json.loads(decisions.answer(message(2, submitted("w0!2"))))
    assert [event["data"] for event in reply["events"]] == [{"job_ids": ["w0!1"]}]
    assert [event for _, event in scripted.seen[2:]] == [m.ActionRefused(2, 0, "Batsim does not support SuspendJob")]
    killed = ("JOB_KILLED", {"job_ids": ["w0!1"], "job_progress": {}})
    decisions.answer(message(2, completed("w0!1", "COMPLETED_KILLED"), killed))
    scripted.next = [[m.SuspendJob(2)] for _ in range(200)]
    with pytest.raises(RemoteProtocolError, match="repeats"):
        decisions.answer(message(3, submitted("w0!3")))


BEGINS = ("SIMULATION_BEGINS", begins(HOSTS))
WRONG_FIRST = {
    "not json": (b'{"now":0,"ev', "expected a JSON text"),
    "not utf-8": (b"\xff\xfe", "expected a JSON text"),
    "nested": (b"[" * 200_000, "nested too deeply"),
    "nan": (b'{"now":NaN,"events":[]}', "no number of JSON"),
    "long number": (b'{"now":' + b"9" * 5000 + b',"events":[]}', "expected"),
    "list": (b"[]", "expected an object with now and events, got a list"),
    "no events": (b'{"now":0}', "events: expected a list, got nil"),
    "now": (b'{"now":"0","events":[]}', "now: expected a time in seconds"),
    "truth": (b'{"now":true,"events":[]}', "now: expected a time in seconds"),
    "far": (b'{"now":1e300,"events":[]}', "now: expected a time in seconds"),
    "long text for a time": (
        b'{"now":0,"events":[{"timestamp":"' + b"x" * 1_000_000 + b'","type":"NOTIFY","data":{}}]}',
        r"events\[0\]\.timestamp: expected a time in seconds",
    ),
    "half a character": (b'{"now":0,"events":[],"x":"\\ud800"}', "surrogates not allowed"),
    "our own end": (b"cosched-emulator: no reply within 3 s", "the other end gave up: cosched-emulator: no reply within"),
    "event": (b'{"now":0,"events":[3]}', r"events\[0\]: expected an object"),
    "late": (
        b'{"now":1,"events":[{"timestamp":2,"type":"NOTIFY","data":{}}]}',
        r"events\[0\]\.timestamp: expected a time up to that of the message, 1.000000, got 2.000000",
    ),
    "type": (message(0, ("NO_SUCH_EVENT", {})), r'events\[0\]\.type: .* got "NO_SUCH_EVENT"'),
    "ours": (message(0, ("EXECUTE_JOB", {})), r"events\[0\]\.type: "),
    "data": (b'{"now":0,"events":[{"timestamp":0,"type":"NOTIFY","data":[]}]}', r"\.data: expected an object"),
    "other first": (message(0, submitted("w0!1")), "SIMULATION_BEGINS alone"),
    "not alone": (message(0, BEGINS, submitted("w0!1")), "SIMULATION_BEGINS alone"),
    "no hosts": (message(0, ("SIMULATION_BEGINS", begins([]))), "at least one host"),
    "hosts": (message(0, ("SIMULATION_BEGINS", begins(HOSTS, compute_resources=[3]))), r"resources\[0\]: expected"),
    "twice": (
        message(0, ("SIMULATION_BEGINS", begins(HOSTS, compute_resources=[{"id": 0, "name": "a"}] * 2))),
        "that no other host has",
    ),
    "property": (
        message(
            0, ("SIMULATION_BEGINS", begins(HOSTS, compute_resources=[{"id": 0, "name": "a", "properties": {"disk_mbs": "x"}}]))
        ),
        r"properties\.disk_mbs: expected a whole number",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_FIRST)
def test_wrong_first_messages_are_told_with_their_place(name: str) -> None:
    frame, text = WRONG_FIRST[name]
    with pytest.raises(RemoteProtocolError, match=text):
        decisions_of("easy").answer(frame)


def nested(depth: int) -> Any:
    return json.loads("[" * depth + "]" * depth)


WRONG_LATER: dict[str, tuple[tuple[tuple[str, dict[str, Any]], ...], str]] = {
    "begins again": ((BEGINS,), "has begun already"),
    "not alone": ((("SIMULATION_ENDS", {}), submitted("w0!3")), "comes alone"),
    "submitted twice": ((submitted("w0!1"),), r"events\[0\]\.data\.job_id: job w0!1 was submitted before"),
    "no name": ((("JOB_SUBMITTED", {"job": {}}),), r"data\.job_id: expected a string, got nil"),
    "no job": ((("JOB_SUBMITTED", {"job_id": "w0!3"}),), r"data\.job: expected an object"),
    "no res": ((submitted("w0!3", res=0),), r"job\.res: expected a whole number"),
    "res": ((submitted("w0!3", res=1.5),), r"job\.res: expected a whole number"),  # type: ignore[arg-type]
    "walltime": ((submitted("w0!3", walltime="1"),), r"job\.walltime: expected a time"),
    "subtime": ((submitted("w0!3", subtime=None),), r"job\.subtime: expected a time"),
    "fields": ((submitted("w0!3", cosched=3),), r"job\.cosched: expected an object"),
    "estimate": ((submitted("w0!3", cosched={"estimate_us": -5}),), r"cosched\.estimate_us: expected an integer >= 1"),
    "long estimate": (
        (submitted("w0!3", cosched={"estimate_us": 1 << 62}),),
        r"cosched\.estimate_us: expected at most",
    ),
    "nested field": (
        (submitted("w0!3", cosched={"usage": nested(600)}),),
        r"job\.cosched(: expected fields of a job|\.usage: expected a list of cpu)",  # Python 3.13 reads so many levels
    ),
    "field": ((submitted("w0!3", cosched={"demand": [1, 2]}),), r"job\.cosched\.demand: expected"),
    "unknown field": ((submitted("w0!3", cosched={"gpus": 1}),), r"job\.cosched\.gpus: expected one of"),
    "unknown job": ((completed("w0!9"),), r"data\.job_id: job w0!9 completed, but it does not run"),
    "pending job": ((completed("w0!2"),), r"it does not run"),
    "state": ((completed("w0!1", "DONE"),), r"data\.job_state: expected one of COMPLETED_FAILED"),
    "twice": ((completed("w0!1"), completed("w0!1")), "it does not run"),
    "notify": ((("NOTIFY", {}),), r"data\.type: expected a string"),
    "machines": ((("NOTIFY", {"type": "event_machine_available", "resources": "0,1"}),), "joined by a space"),
    "many machines": (
        (("NOTIFY", {"type": "event_machine_available", "resources": "0-999999999"}),),
        "expected hosts 0 to 1048575",
    ),
    "ends too early": ((("SIMULATION_ENDS", {}),), "the simulation ended before 2 jobs, such as w0!1"),
    "killed": ((("JOB_KILLED", {"job_ids": []}),), r"data\.job_ids: expected a list of at least one"),
}


@pytest.mark.parametrize("name", WRONG_LATER)
def test_wrong_later_messages_are_told_with_their_place(name: str, scripted: Scripted) -> None:
    events, text = WRONG_LATER[name]
    decisions = begun(scripted)
    scripted.next = [[start(1, 0)]]
    decisions.answer(message(1, submitted("w0!1"), submitted("w0!2")))
    with pytest.raises(RemoteProtocolError, match=text):
        decisions.answer(message(2, *events))


def test_sets_of_hosts() -> None:
    for text in ("0-3 5 8-9", "7", "0 2 4"):
        assert write_hosts(read_hosts({"alloc": text}, "alloc", "", 10)) == text
    assert read_hosts({"alloc": "3 0-1 1"}, "alloc", "", 10) == [0, 1, 3]  # any order, and twice
    assert read_hosts({"alloc": "6-8 2-3 0-4 1"}, "alloc", "", 10) == [0, 1, 2, 3, 4, 6, 7, 8]
    for wrong in ("", "0,1", "0  1", "3-1", "10", "-1", "1-", "a", "²", "0-99999999999"):
        with pytest.raises(RemoteProtocolError, match=r"data\.alloc: expected"):
            read_hosts({"alloc": wrong}, "alloc", "data", 10)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[host]\n", "no such key 'host'"),
        ("[hosts]\njobs = 0\n", "hosts: jobs: expected a whole number from 1 to 64, got 0"),
        ("[hosts]\nspeed = 1\n", "hosts: no such key 'speed'"),
        ("[jobs]\ngpus = 1\n", "jobs.gpus: expected one of"),
        ("[profiles.p]\ndemand = [1]\n", "profiles.p.demand: expected"),
        ("[belief]\ncontention = 3\n", "belief: contention: expected a text, got 3"),
        ("x", "not a TOML file"),
    ],
)
def test_wrong_site_files_are_told_with_file_and_key(text: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "site.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as raised:
        read_site_file(str(file))
    assert str(raised.value).startswith(f"{file}: {told}")
