"""The rules of Batsim's protocol, as its simulator keeps them: times, ends, kills, dynamic jobs, machines, states of hosts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.emulator.batsim.simulations import Talk, at_once, execute, job, kill

from cosched_emulator.errors import LinkError

Say = tuple[str, dict[str, Any]]


def ends_of(talk: Talk) -> dict[str, tuple[float, str, int]]:
    return {data["job_id"]: (at, data["job_state"], data["return_code"]) for at, data in talk.told("JOB_COMPLETED")}


def test_profiles_take_their_times(tmp_path: Path) -> None:
    jobs = [
        job("a", "d10", at=0),
        job("b", "flops", at=100),
        job("c", "uneven", at=200, res=2),
        job("d", "two", at=300),
        job("e", "total", at=400, res=4),
        job("f", "fails", at=500, walltime=11),
        job("g", "d10", at=600, walltime=10),  # as long as it may
        job("h", "d10", at=700, walltime=4.5),
    ]
    talk = Talk(tmp_path, jobs)
    talk.run(at_once)
    success = "COMPLETED_SUCCESSFULLY"
    assert ends_of(talk) == {
        "w0!a": (10, success, 0),
        "w0!b": (110, success, 0),
        "w0!c": (230, success, 0),
        "w0!d": (330, success, 0),
        "w0!e": (410, success, 0),
        "w0!f": (510, "COMPLETED_FAILED", 3),
        "w0!g": (610, "COMPLETED_WALLTIME_REACHED", -1),
        "w0!h": (704.5, "COMPLETED_WALLTIME_REACHED", -1),
    }
    assert talk.said[-1] == {"timestamp": 704.5, "type": "SIMULATION_ENDS", "data": {}}
    assert talk.told("NOTIFY") == [(700, {"type": "no_more_static_job_to_submit"})]


def test_a_scheduler_sees_run_times_only_if_asked(tmp_path: Path) -> None:
    jobs = [job(1, walltime=20, user="u", gpus=2, group=3)]
    ended = {"status": 0}  # in the log that the job is of
    cases: list[tuple[dict[str, Any], Any, Any]] = [
        ({}, {"d10": {"type": "delay"}}, None),
        ({"tell_run_times": True}, {"d10": {"type": "delay", "delay": 10}}, None),
        ({"forward_profiles": True}, None, {"type": "delay"}),
        ({"forward_profiles": True, "tell_run_times": True}, None, {"type": "delay", "delay": 10}),
    ]
    for options, profiles, forwarded in cases:
        talk = Talk(tmp_path, [{**jobs[0], **ended}], **options)
        talk.run(at_once)
        begins = talk.told("SIMULATION_BEGINS")[0][1]
        assert begins["profiles"].get("w0", {}).get("d10") == (None if profiles is None else profiles["d10"])
        ((_, data),) = talk.told("JOB_SUBMITTED")
        told = ended if "tell_run_times" in options else {}
        assert data["job"] == {**jobs[0], **told, "id": "w0!1"}  # every other field is kept
        assert data.get("profile") == forwarded


def test_jobs_of_one_instant_come_in_one_message_by_name_as_text(tmp_path: Path) -> None:
    talk = Talk(tmp_path, [job(name, at=5) for name in (1, 2, 10)])
    talk.hear()
    talk.say()
    message = talk.hear()
    assert message is not None
    assert [event["data"]["job_id"] for event in message["events"]] == ["w0!1", "w0!10", "w0!2"]


def test_decisions_for_later_are_carried_out_then(tmp_path: Path) -> None:
    """The scheduler is busy until its reply's time; what happens meanwhile keeps its own time."""
    talk = Talk(tmp_path, [job("a"), job("b", at=3)])
    talk.hear()
    talk.say()
    talk.hear()
    talk.say(execute("w0!a", "0"), at=2, now=20)
    message = talk.hear()
    assert message is not None
    assert message["now"] == 20
    assert [(event["timestamp"], event["type"]) for event in message["events"]] == [
        (3, "JOB_SUBMITTED"),
        (3, "NOTIFY"),
        (12, "JOB_COMPLETED"),
    ]
    talk.say(execute("w0!b", "1"), at=1)  # a time in the past is the present
    message = talk.hear()
    assert message is not None
    assert message["now"] == 30


def test_kills_come_with_progress(tmp_path: Path) -> None:
    jobs = [job("a"), job("b", "flops"), job("c", "two"), job("d", "d5")]
    talk = Talk(tmp_path, jobs)
    talk.hear()
    talk.say()
    talk.hear()
    starts = [execute(f"w0!{name}", str(host)) for host, name in enumerate("abcd")]
    talk.say(*starts)
    talk.hear()
    talk.say(("CALL_ME_LATER", {"timestamp": 7.5}))
    while not talk.told("REQUESTED_CALL"):
        talk.hear()
        if not talk.told("REQUESTED_CALL"):
            talk.say()
    talk.say(kill("w0!a", "w0!b", "w0!c"))
    talk.hear()
    killed = "COMPLETED_KILLED"
    assert ends_of(talk) == {
        "w0!d": (5, "COMPLETED_SUCCESSFULLY", 0),
        "w0!a": (7.5, killed, -1),
        "w0!b": (7.5, killed, -2),
        "w0!c": (7.5, killed, -2),
    }
    ((_, data),) = talk.told("JOB_KILLED")
    assert data["job_progress"] == {
        "w0!a": {"profile_name": "d10", "progress": 0.75},
        "w0!b": {"profile_name": "flops", "progress": 0.75},
        "w0!c": {
            "profile_name": "two",
            "current_task_index": 1,
            "current_task": {"profile_name": "flops", "progress": 0.25},
        },
    }
    assert [event["type"] for event in talk.said[-4:]] == ["JOB_COMPLETED"] * 3 + ["JOB_KILLED"]


def test_two_calls_for_one_instant_are_two_events(tmp_path: Path) -> None:
    talk = Talk(tmp_path, [job("a")])
    talk.hear()
    talk.say(("CALL_ME_LATER", {"timestamp": 50}), ("CALL_ME_LATER", {"timestamp": 50}))
    talk.run(at_once)
    assert talk.told("REQUESTED_CALL") == [(50, {}), (50, {})]
    assert talk.said[-1]["timestamp"] == 50  # a call keeps the simulation alive


@pytest.mark.parametrize("acknowledged", [False, True])
def test_dynamic_jobs(tmp_path: Path, acknowledged: bool) -> None:
    talk = Talk(tmp_path, [job("a", at=1)], dynamic=True, acknowledged=acknowledged)
    talk.hear()
    profile = (
        "REGISTER_PROFILE",
        {"workload_name": "dyn", "profile_name": "p", "profile": {"type": "delay", "delay": 3}},
    )
    own = (
        "REGISTER_JOB",
        {"job_id": "dyn!x", "job": {"id": "x", "subtime": 0, "res": 2, "profile": "p", "walltime": 9}},
    )
    talk.say(profile, own, execute("dyn!x", "2-3"))
    talk.run(
        lambda event: (
            [*at_once(event), ("NOTIFY", {"type": "registration_finished"})]
            if event["data"].get("job_id") == "w0!a"
            else []
        )
    )
    assert [name for _, data in talk.told("JOB_SUBMITTED") if (name := data["job_id"]) != "w0!a"] == [
        "dyn!x"
    ] * acknowledged
    assert ends_of(talk)["dyn!x"] == (3, "COMPLETED_SUCCESSFULLY", 0)
    assert talk.said[-1]["type"] == "SIMULATION_ENDS"


def test_machines_that_go_keep_their_jobs_and_get_no_others(tmp_path: Path) -> None:
    gone = {"type": "machine_unavailable", "resources": "0-1"}
    back = {"type": "machine_available", "resources": "0-1"}
    events: list[tuple[float, dict[str, Any]]] = [(5.0, gone), (20.0, back), (21.0, {"type": "power_cap", "watts": 5})]
    jobs = [job("a"), job("b", at=30)]
    talk = Talk(tmp_path, jobs, events=events, forward_unknown=True)
    talk.run(at_once)
    assert ends_of(talk) == {"w0!a": (10, "COMPLETED_SUCCESSFULLY", 0), "w0!b": (40, "COMPLETED_SUCCESSFULLY", 0)}
    kinds = [(at, data["type"]) for at, data in talk.told("NOTIFY")]
    assert kinds == [
        (5, "event_machine_unavailable"), (20, "event_machine_available"), (21, "power_cap"), (21, "no_more_external_event_to_occur"),
        (30, "no_more_static_job_to_submit"),
    ]  # fmt: skip
    assert talk.simulator.states.time_us["unavailable"] == 30_000_000
    with pytest.raises(LinkError, match="--forward-unknown-events"):
        Talk(tmp_path, jobs, events=events).run(at_once)


def test_states_of_hosts(tmp_path: Path) -> None:
    """On the way they draw what the platform says, for as long as one flop takes."""
    talk = Talk(tmp_path, [job("a", "flops", at=100, res=2)], sleep=True, energy=True)
    talk.hear()
    query: Say = ("QUERY", {"requests": {"consumed_energy": {}}})
    talk.say(("SET_RESOURCE_STATE", {"resources": "2-3", "state": "1"}), query)
    waking = ("SET_RESOURCE_STATE", {"resources": "2", "state": "0"})
    talk.run(
        lambda event: (
            [*at_once(event), waking, query]
            if event["type"] == "JOB_SUBMITTED"
            else [query]
            if event["type"] == "JOB_COMPLETED"
            else []
        )
    )
    changes = [(at, data["resources"], data["state"]) for at, data in talk.told("RESOURCE_STATE_CHANGED")]
    assert changes == [(2, "2-3", "1"), (104, "2", "0")]
    joules = [data["consumed_energy"] for _, data in talk.told("ANSWER")]
    at_100 = 2 * 95 * 100 + 2 * (98 * 2 + 10 * 98)
    at_110 = at_100 + 2 * 150 * 10 + 125 * 4 + 95 * 6 + 10 * 10
    assert joules == [0, at_100, at_110]
    assert talk.ended[0].joules == 2 * 150 * 10


def test_states_that_cannot_be(tmp_path: Path) -> None:
    def state(number: str, hosts: str = "0") -> Say:
        return ("SET_RESOURCE_STATE", {"resources": hosts, "state": number})

    asleep = [state("1"), ("CALL_ME_LATER", {"timestamp": 50})]
    for first, later, told in (
        ([state("9")], [], r"SET_RESOURCE_STATE: events\[0\]\.data\.state: host 0: expected one of its states, got 9"),
        ([state("2")], [], "expected one of its states, got 2"),  # only on the way
        ([state("x")], [], "expected one of its states, got -1"),
        ([state("1"), state("0")], [], "host 0: expected an idle or sleeping host, and it is switching_off"),
        (asleep, [state("1")], "host 0: it sleeps already"),
        (asleep, [execute("w0!a", "0")], r"EXECUTE_JOB: .*alloc: host 0 is switched off"),
        (
            asleep,
            [execute("w0!a", "1"), state("1", "1")],
            "host 1: expected an idle or sleeping host, and it is computing",
        ),
    ):
        talk = Talk(tmp_path, [job("a", at=1)], sleep=True, energy=True)
        talk.hear()
        talk.say(*first)
        with pytest.raises(LinkError, match=told):
            talk.run(lambda event, later=later: later if event["type"] == "REQUESTED_CALL" else [])  # type: ignore[misc]


def test_a_job_that_would_never_end_is_told(tmp_path: Path) -> None:
    talk = Talk(tmp_path, [job("a")], dynamic=True)
    talk.hear()
    profile = {"type": "parallel_homogeneous", "cpu": 1e29}
    talk.say(
        ("REGISTER_PROFILE", {"workload_name": "dyn", "profile_name": "p", "profile": profile}),
        ("REGISTER_JOB", {"job_id": "dyn!x", "job": {"subtime": 0, "res": 1, "profile": "p"}}),
        execute("dyn!x", "3"),
    )
    with pytest.raises(LinkError, match=r"events\[2\]\.data\.job_id: the job would end later than 9e\+09 s"):
        talk.hear()


def test_jobs_that_were_killed_once_are_not_killed_twice(tmp_path: Path) -> None:
    talk = Talk(tmp_path, [job("a")])
    decided = [execute("w0!a", "0", unknown=3), kill("w0!a"), kill("w0!a")]  # other members of the data are ignored
    talk.run(lambda event: decided if event["type"] == "JOB_SUBMITTED" else [])
    assert ends_of(talk) == {"w0!a": (0, "COMPLETED_KILLED", -1)}
    assert [list(data["job_progress"]) for _, data in talk.told("JOB_KILLED")] == [["w0!a"], []]


def test_several_jobs_on_a_host(tmp_path: Path) -> None:
    jobs = [job("a"), job("b"), job("c")]
    talk = Talk(tmp_path, jobs, sharing=True)
    with pytest.raises(LinkError, match=r"events\[2\]\.data\.alloc: host 0 has 0 free places for processes, 1 wanted"):
        talk.run(at_once)
    talk = Talk(tmp_path, jobs[:2], sharing=True)
    talk.run(at_once)
    assert {at for at, _, _ in ends_of(talk).values()} == {10}


@pytest.mark.parametrize(("alloc", "hosts", "end_s"), [("0-1", 2, 20), ("0-3", 4, 10), ("2", 1, 40)])
def test_work_in_total_is_done_by_any_number_of_hosts(tmp_path: Path, alloc: str, hosts: int, end_s: int) -> None:
    talk = Talk(tmp_path, [job("a", "total", res=2), job("b", at=100, res=4)])
    first = {"w0!a": [execute("w0!a", alloc)]}
    talk.run(lambda event: first.pop(event["data"].get("job_id"), None) or at_once(event))
    assert ends_of(talk) == {
        "w0!a": (end_s, "COMPLETED_SUCCESSFULLY", 0),
        "w0!b": (110, "COMPLETED_SUCCESSFULLY", 0),  # no thread is left behind
    }
    assert len(talk.ended[0].job.hosts) == hosts


def test_a_mapping_puts_processes_together(tmp_path: Path) -> None:
    talk = Talk(tmp_path, [job("a", res=4)], sharing=True)
    mapping = {"0": "0", "1": 0, "2": "1", "3": 1}
    talk.run(lambda event: [execute("w0!a", "1 3", mapping=mapping)] if event["type"] == "JOB_SUBMITTED" else [])
    assert talk.ended[0].job.hosts == [1, 3]


@pytest.mark.parametrize(
    ("jobs", "told"),
    [
        ([job("a")], "1 jobs are pending, and the scheduler requested no later call: w0!a"),
        ([job(name, at=0) for name in range(7)], "7 jobs are pending, .*: w0!0, w0!1, w0!2, w0!3, w0!4, ..."),
    ],
)
def test_a_scheduler_that_leaves_jobs_waiting_is_told(tmp_path: Path, jobs: list[dict[str, Any]], told: str) -> None:
    with pytest.raises(LinkError, match=told):
        Talk(tmp_path, jobs).run(lambda _: [])


def test_a_scheduler_that_never_ends_its_registration_is_told(tmp_path: Path) -> None:
    with pytest.raises(LinkError, match="registration_finished"):
        Talk(tmp_path, [job("a")], dynamic=True).run(at_once)


REPLIES: dict[str, tuple[Any, str]] = {
    "no list": ({"now": 1, "events": {}}, "events: expected a list"),
    "type": (("JOB_SUBMITTED", {}), r"events\[0\]\.type: .* got \"JOB_SUBMITTED\""),
    "no job": (("EXECUTE_JOB", {"alloc": "0"}), r"EXECUTE_JOB: events\[0\]\.data\.job_id: expected a string"),
    "unknown job": (execute("w0!z", "0"), "there is no job w0!z yet"),
    "not submitted": (execute("w0!late", "0"), "there is no job w0!late yet"),
    "twice": ([execute("w0!a", "0"), execute("w0!a", "1")], r"events\[1\]\.data\.job_id: job w0!a does not wait .*: it is running"),
    "no alloc": (("EXECUTE_JOB", {"job_id": "w0!a"}), r"data\.alloc: expected a string"),
    "commas": (execute("w0!a", "0,1"), r"data\.alloc: expected intervals joined by a space"),
    "empty": (execute("w0!a", ""), r"data\.alloc: expected a string"),
    "host": (execute("w0!a", "4"), r"data\.alloc: expected hosts 0 to 3"),
    "too many": (execute("w0!a", "0-1"), r"data\.alloc: expected the 1 hosts that"),
    "busy": ([execute("w0!a", "0"), execute("w0!b", "0")], r"events\[1\]\.data\.alloc: host 0 has a job"),
    "storage": (execute("w0!a", "0", storage_mapping={"x": 1}), r"data\.storage_mapping: expected none"),
    "mapping": (execute("w0!a", "0", mapping={"1": 0}), r"data\.mapping: expected executors 0 to 0"),
    "mapped": (execute("w0!a", "0", mapping={"0": 1}), r"data\.mapping\.0: expected a whole number"),
    "reject": ([execute("w0!a", "0"), ("REJECT_JOB", {"job_id": "w0!a"})], r"events\[1\]\.data\.job_id: job w0!a does not wait"),
    "call": (("CALL_ME_LATER", {"timestamp": 1}), r"data\.timestamp: expected a time after 1.000000, got 1.000000"),
    "call what": (("CALL_ME_LATER", {}), r"data\.timestamp: expected a time"),
    "kill none": (kill(), r"data\.job_ids: expected a list of at least one"),
    "kill pending": (kill("w0!a"), r"data\.job_ids: job w0!a does not run: it is pending"),
    "kill unknown": (kill("w0!z"), "job w0!z does not run: it is unknown"),
    "notify": (("NOTIFY", {"type": "hello"}), r"data\.type: expected registration_finished"),
    "register": (("REGISTER_JOB", {"job_id": "d!1", "job": {}}), "without --enable-dynamic-jobs"),
    "energy": (("SET_RESOURCE_STATE", {"resources": "0", "state": "1"}), "without --energy"),
    "query": (("QUERY", {"requests": {"consumed_energy": {}}}), "without --energy"),
    "state": (("CHANGE_JOB_STATE", {"job_id": "w0!a", "job_state": "RUNNING"}), "the emulator has no CHANGE_JOB_STATE"),
    "message": (("TO_JOB_MSG", {"job_id": "w0!a", "msg": "x"}), "the emulator has no TO_JOB_MSG"),
    "quotes": (("SET_JOB_METADATA", {"job_id": "w0!a", "metadata": 'x"y'}), r"data\.metadata: expected a string without"),
    "metadata": (("SET_JOB_METADATA", {"job_id": "w0!a", "metadata": 3}), r"data\.metadata: expected a string"),
}  # fmt: skip


@pytest.mark.parametrize("name", REPLIES)
def test_wrong_replies_are_told_with_event_and_field(name: str, tmp_path: Path) -> None:
    reply, told = REPLIES[name]
    talk = Talk(tmp_path, [job("a", at=1), job("b", at=1), job("late", at=50)])
    talk.hear()
    talk.say()
    talk.hear()
    with pytest.raises(LinkError, match=f"^the scheduler's reply 2, at 1.000000 s: .*{told}"):  # noqa: PT012 - read, or carried out
        if isinstance(reply, dict):
            talk.simulator.take(json.dumps(reply).encode())
        else:
            talk.say(*(reply if isinstance(reply, list) else [reply]))
        talk.hear()


def test_wrong_registrations(tmp_path: Path) -> None:
    def profile(name: str, told: Any) -> tuple[str, dict[str, Any]]:
        return ("REGISTER_PROFILE", {"workload_name": "dyn", "profile_name": name, "profile": told})

    def own(name: str, profile: str) -> tuple[str, dict[str, Any]]:
        return ("REGISTER_JOB", {"job_id": name, "job": {"subtime": 0, "res": 1, "profile": profile}})

    good = profile("p", {"type": "delay", "delay": 3})
    for events, told in (
        ([good, good], r"events\[1\]\.data\.profile_name: expected a new name"),
        (
            [profile("p", {"type": "smpi"})],
            r"data\.profile\.type: expected a kind of profile that the emulator carries out",
        ),
        ([good, own("dyn!1", "q")], r"data\.job\.profile: expected the name of a profile"),
        ([good, own("dyn!1", "p"), own("dyn!1", "p")], r"events\[2\]\.data\.job_id: expected a new name"),
        ([good, own("dyn", "p")], r"data\.job_id: expected a new name such as dyn!1"),
        (
            [("NOTIFY", {"type": "registration_finished"}), good],
            r"events\[1\]\.type: expected none after registration_f",
        ),
        (
            [profile("p0", {"type": "delay", "delay": 3})]
            + [profile(f"p{n}", {"type": "composed", "seq": [f"p{n - 1}"]}) for n in range(1, 2000)],
            r"events\[100\]\.data\.profile: expected at most 100 profiles within each other",
        ),
    ):
        talk = Talk(tmp_path, [job("a")], dynamic=True)
        talk.hear()
        talk.say(*events)
        with pytest.raises(LinkError, match=told):
            talk.hear()


def test_nothing_is_said_to_the_end(tmp_path: Path) -> None:
    talk = Talk(tmp_path, [])
    talk.hear()
    talk.say()
    while talk.said[-1]["type"] != "SIMULATION_ENDS":
        talk.hear()
        if talk.said[-1]["type"] != "SIMULATION_ENDS":
            talk.say()
    with pytest.raises(LinkError, match="expected none after SIMULATION_ENDS"):
        talk.say(("CALL_ME_LATER", {"timestamp": 9}))
