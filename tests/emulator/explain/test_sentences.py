"""The explanation of a job from a trace, in sentences and in numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.emulator.explain.traces import (
    GROUP,
    MATCHABLE,
    SCENARIO,
    SEARCH,
    SLICES,
    START,
    Record,
    lines_of,
    records_of,
)

from cosched_emulator import simulate
from cosched_emulator.cli.main import cli
from cosched_emulator.errors import EmulatorError, InputError
from cosched_emulator.explain.facts import explain, explain_starts
from cosched_emulator.explain.gang_facts import Left, funnel, instant_text, span_text
from cosched_emulator.explain.sentences import reason
from cosched_emulator.explain.trace_reader import read_trace
from cosched_emulator.results.files.run_reader import read_facts

# ---------------------------------------------------------------- sentences


def test_times_are_readable() -> None:
    spans = [0, 12_500_000, 59_999_000, 60_000_000, 3_599_600_000, 45_296_000_000, 400_000_000_000]
    assert [span_text(us) for us in spans] == [
        "0 s",
        "12.5 s",
        "59.999 s",
        "0:01:00",
        "1:00:00",
        "12:34:56",
        "4 d 15:06:40",
    ]
    assert [instant_text(us) for us in (5_000_001, 5_134_000_000)] == ["5.000001 s", "5134 s (1:25:34)"]


def test_every_start_is_explained(lomarc: list[Record]) -> None:
    phrases = (
        "took it as its partner", "it could join job", "reserved head", "it was backfilled before", "it was the first of",
        "highest profit", "considered it as a partner", "joined it on its nodes", "It looked for no partner",
    )  # fmt: skip
    seen = set()
    for record in lomarc:
        if record["kind"] == "start":
            text = " ".join(lines_of(lomarc, record["job"]))
            assert (
                f"started {span_text(record['at_us'] - record['submit_us'])} later" in text or "started at once" in text
            )
            assert "None" not in text
            seen |= {phrase for phrase in phrases if phrase in text}
    assert seen == set(phrases)


def test_every_start_in_a_slice_is_explained(glts: list[Record]) -> None:
    phrases = (
        "(Case 1)", "(Case 2)", "(Case 3)", "it was expected to end within", "it was too short",
        "it got a node for each process", "took it into its group", "had room for it", "joined it on its nodes",
        "A group for it was given up", "It was preempted", "its promised start had come",
    )  # fmt: skip
    seen = set()
    for record in glts:
        if record["kind"] == "start":
            text = " ".join(lines_of(glts, record["job"]))
            assert "None" not in text
            seen |= {phrase for phrase in phrases if phrase in text}
    assert seen == set(phrases)
    preempted = [record["job"] for record in glts if record["kind"] == "suspend"]
    for job in dict.fromkeys(preempted):
        (start,) = explain(glts, job, "")["starts"]
        assert start["preempted"]["times"] == preempted.count(job)
        assert start["suspended"] == []


def test_a_start_tells_what_the_job_asked_for_and_what_was_open_to_it(tmp_path: Path) -> None:
    """Nodes of its partition alone are open to it, and of these only the one that has GPUs enough left."""
    (tmp_path / "log.swf").write_text(
        "; MaxProcs: 16\n" + "".join([f"{job} 0 0 60 2 -1 -1 2 60 -1 1 1 1 1 1 1 -1 -1\n" for job in (1, 2, 3)])
    )
    (tmp_path / "jobs.csv").write_text(
        "job,partition,resources,licences,memory_mb,ran_on\n1,gpu,gpu:1,,,2\n2,gpu,gpu:2,x:1,64,\n"
    )
    nodes = "[[nodes]]\ncount = 2\nsockets = 1\ncores_per_socket = 4\nmemory_mb = 1000\n"
    (tmp_path / "machine.toml").write_text(f'licences = "x:1"\n{nodes}{nodes}resources = "gpu:2"\n')
    scenario = {
        "cluster": {"file": str(tmp_path / "machine.toml")},
        "workload": {"swf": str(tmp_path / "log.swf"), "annotations": str(tmp_path / "jobs.csv")},
        "partitions": [{"name": "all", "default": True}, {"name": "gpu", "nodes": "2-3"}],
    }
    out = tmp_path / "run"
    simulate(scenario, "easy", out=out, trace=out / "trace.jsonl")
    asked = "2 processes, 64 MiB each, gpu:2 on each node, x:1, partition gpu, only nodes 2-3, estimated 0:01:00"
    told = CliRunner().invoke(cli, ["explain", "2", "--trace", str(out / "trace.jsonl")], catch_exceptions=False).output
    assert told.startswith(f"Job 2 ({asked}) was submitted")
    assert "there was a place for it (4 hardware threads open to it)" in told
    printed = CliRunner().invoke(
        cli, ["explain", "2", "--json", "--trace", str(out / "trace.jsonl")], catch_exceptions=False
    )
    facts = json.loads(printed.output)
    assert (facts["terms"]["partition"], facts["terms"]["licences"]) == ("gpu", "x:1")
    assert facts["starts"][0]["asks"] == {
        "memory_mb": 64, "resources": {"gpu": 2}, "licences": {"x": 1}, "nodes": "2-3"
    }  # fmt: skip
    (plain,) = explain([dict(record) for record in read_trace(str(out / "trace.jsonl"))], 3, "")["starts"]
    assert plain["asks"] is None
    waits = [{"at_us": 1, "kind": "wait", "job": 2, "reason": "no"}]
    with pytest.raises(
        EmulatorError,
        match="never started; it asked for gpu:2 on each node, x:1, partition gpu; the policy gives the reason 'no'",
    ):
        explain(waits, 2, "", terms=read_facts(out, 2)[0])
    (out / "trace.jsonl").write_text(json.dumps(waits[0]))  # as if the rest were lost
    with pytest.raises(InputError, match=r"expected the start of job 2, which jobs\.csv has at .* a trace without it"):
        CliRunner().invoke(cli, ["explain", "2", str(out)], catch_exceptions=False)


def test_jobs_that_start_again_overtake_once_and_a_first_promise_postpones_none() -> None:
    later = [
        START | {"job": job, "at_us": at_s * 1_000_000, "submit_us": 40_000_000} for job, at_s in ((8, 50), (9, 60))
    ]
    promises = [(30, None), (30, None), (40, 95), (45, None), (50, 80), (60, 90)]
    told = [
        {"at_us": at_s * 1_000_000, "kind": "promise", "job": 7, "start_us": start_s and start_s * 1_000_000}
        for at_s, start_s in promises
    ]
    again = [later[0] | {"at_us": at_s * 1_000_000} for at_s in (70, 90)]
    lines = lines_of([*told, *later, *again, START | {"job": 7, "reason": "order"}], 7)
    assert lines[1] == "2 jobs that were submitted later started before it."
    assert lines[2:-2] == [
        "At its submission no start could be promised.",
        "10 s after its submission it was promised a start at 95 s (0:01:35), which was postponed once and withdrawn once.",
    ]


def test_the_explanation_of_refused_groups() -> None:
    records = [START | {"job": 7, "reason": "order", "unfair_to": 4, "refused_groups": 3}]
    assert "3 groups for it were given up, because job 4 would have ended too late." in lines_of(records, 7)


def test_the_explanation_of_a_group() -> None:
    def start(job: int, at_s: int, **facts: Any) -> Record:
        return START | {"job": job, "at_us": at_s * 1_000_000, "reason": "promise", "promised_us": 95_000_000, **facts}

    def turn(at_s: int, kind: str, job: int, **facts: object) -> Record:
        return {"at_us": at_s * 1_000_000, "kind": kind, "job": job, **facts}

    beside_running = GROUP | {"primary": 9, "matched": [7], "running": [7], "tried": 2, "candidates": 1}
    joining = GROUP | {"primary": 9, "matched": [10, 11], "running": [9], "tried": 12}
    records = [
        {"at_us": 0, "kind": "slice", "kind_of_jobs": "medium", "end_us": 1_080_000_000},
        {"at_us": 30_000_000, "kind": "expect", "job": 7, "response_us": 7_200_000_000},
        turn(60, "promise", 7) | {"start_us": 62_000_000},
        start(7, 90, together=[5, 6], group=GROUP, expected_us=120_000_000),
        start(5, 90, together=[7, 6], group=GROUP),
        turn(1080, "suspend", 7, to_disk=True),
        turn(3600, "resume", 7),
        start(9, 3700, group=beside_running, unfair_to=4),
        turn(4680, "suspend", 7, to_disk=True),
        start(10, 4700, together=[11], group=joining, unfair_to=10),
        turn(7200, "resume", 7),
        turn(8280, "suspend", 7, to_disk=True),
    ]
    assert lines_of(records, 7) == [
        "Job 7 (2 processes, estimated 0:01:40) was submitted at 30 s and started 0:01:00 later, at 90 s (0:01:30).",
        "At its submission it was expected to end within 2:00:00.",
        "30 s after its submission it was promised a start at 62 s (0:01:02).",
        "It started as the primary job of a group, with jobs 5 and 6, also pending (Case 1).",
        "3 candidates match the primary job; this is the first group that was tried, with a utilisation gain of 0.877.",
        "It runs on nodes 0-1 (hardware thread 0, 1 process a node), beside jobs 5 and 6.",
        "It is expected to take 1.200 times as long there as estimated: 0:02:00.",
        "1:00:10 after its start job 9 joined it on its nodes.",
        "It was preempted 3 times, for 1:24:00 on disk in all; since 8280 s (2:18:00) it has not come back.",
    ]
    assert lines_of(records, 5)[1:4] == [
        "It started because job 7, which started then, took it into its group, with job 6: "
        "they are a group, with that job as the primary one (Case 1).",
        "3 candidates match the primary job; this is the first group that was tried, with a utilisation gain of 0.877.",
        "It runs on nodes 0-1 (hardware thread 0, 1 process a node), beside job 7.",
    ]
    assert lines_of(records, 9)[1:3] == [
        "It started as the primary job of a group, with job 7, already running (Case 2).",
        "1 candidate matches the primary job; this is the 2nd group that was tried, with a utilisation gain of 0.877; "
        "with another one job 4 would have ended too late.",
    ]
    assert lines_of(records, 10)[1:3] == [
        "It started because job 9, which was already running, had room for it, with job 11: "
        "they are a group, with that job as the primary one (Case 3).",
        "3 candidates match the primary job; this is the 12th group that was tried, with a utilisation gain of 0.877; "
        "with another one it would have ended too late.",
    ]
    facts = explain(records, 7, "")["starts"][0]
    assert facts["group"] == {"case": 1, "role": "primary", **GROUP}
    assert facts["preempted"] == {"times": 3, "for_us": 5_040_000_000, "on_disk_since_us": 8_280_000_000}
    assert facts["expected_response_us"] == 7_200_000_000
    assert facts["joined_by"] == [{"at_us": 3_700_000_000, "job": 9, "slowdown": None}]
    assert explain(records, 9, "")["starts"][0]["unfair_to"] == 4


def test_a_suspension_for_a_partner_is_no_preemption() -> None:
    stop = {"kind": "suspend", "job": 7, "partner": 5, "measured_slowdown": 1.75}
    turns: list[Record] = [
        {"kind": "resume", "job": 7},
        {"kind": "suspend", "job": 7, "to_disk": True},
        {"kind": "resume", "job": 7},
    ]
    records = [
        {"at_us": 0, "kind": "slice", "end_us": 5},
        START,
        *({"at_us": 100_000_000 + number * 5_000_000, **record} for number, record in enumerate([stop, *turns])),
    ]
    assert lines_of(records, 7)[-2:] == [
        "10 s after its start it was suspended because beside job 5 it took 1.750 times as long as alone; it was resumed 5 s later.",
        "It was preempted once, for 5 s on disk in all.",
    ]


def test_the_explanation_of_a_pair(lomarc: list[Record]) -> None:
    searches = [record for record in lomarc if "partner" in record.get("partners", ())]
    host = next(record for record in searches if len(record["partners"]["candidates"]) > 2)
    search = host["partners"]
    guest = next(record for record in lomarc if record["kind"] == "start" and record["job"] == search["partner"])
    assert (guest["host"], guest["chosen_by"], guest["together"]) == (host["job"],) * 2 + ([host["job"]],)
    assert host["slowdown"] == guest["slowdown"] == search["slowdown"]
    assert search["profit"] == search["profits"][search["selected"] - 1]
    told = " ".join(lines_of(lomarc, guest["job"]))
    assert (
        f"It started because job {host['job']}, which started then, took it as its partner. Job {host['job']} examined"
        in told
    )
    assert f"{search['left']['all']} other pending jobs: {search['left']['short']} {MATCHABLE}, " in told
    assert f"beside job {host['job']}." in told
    facts = explain(lomarc, host["job"], "")["starts"][0]
    assert facts["partner_search"]["position"] == search["selected"]
    assert facts["partner_search"]["left"] == search["left"]


def test_a_candidate_in_searches_of_other_jobs() -> None:
    names = ("short", "size", "memory", "type", "slowdown")

    def search(removed_by: str | None = None, **more: Any) -> Record:
        removed: dict[str, list[int]] = {name: [] for name in names}
        if removed_by is not None:
            removed[removed_by] = [7]
        return {"left": {"all": 3}, "removed": removed, "candidates": [], "profits": [], **more}

    searches = [
        *(search(name) for name in ("memory", "memory", "size")),
        search(candidates=[7, 8], profits=[-1.0, 0.5], partner=8),  # without profit
        search(candidates=[7, 8], profits=[0.2, 0.5], partner=8),  # another
        search(candidates=[7, 8], profits=[0.9, 0.5], partner=8),  # not admitted
        search(candidates=[7], profits=[0.9]),  # not admitted either
        {
            key: value for key, value in search(candidates=[8, 7], partner=8).items() if key != "profits"
        },  # another is the partner: the first
        search(candidates=[8], profits=[1.0], partner=8),  # the search does not contain the job
    ]
    others = [START | {"job": 20 + number, "partners": item} for number, item in enumerate(searches)]
    looked = explain([*others, START], 7, "")["starts"][0]["looked_at"]
    assert looked == {
        "times": 8, "removed": 3, "without_profit": 1, "another_taken": 2, "not_admitted": 2,
        "removed_by": {"short": 0, "size": 1, "memory": 2, "type": 0, "slowdown": 0}, "slowed_by": {},
    }  # fmt: skip
    (told,) = [line for line in lines_of([*others, START], 7) if line.startswith("While it was pending")]
    assert told == (
        "While it was pending, 8 starting jobs considered it as a partner and did not take it: "
        "once it was larger than the job that started, twice it did not fit into memory beside the job that started, "
        "once it would have been no gain, twice another was taken, "
        "twice it found no place there, or would have delayed the reserved job."
    )


def test_the_first_job_that_the_nodes_in_service_can_hold() -> None:
    assert lines_of([START | {"reason": "overtake", "waiting": 4, "free_threads": 2}], 7)[1] == (
        "It started because it was the first in the queue that the nodes in service can hold, "
        "and there was a place for it (2 hardware threads open to it)."
    )


def test_a_job_that_overtook_others_without_a_reservation() -> None:
    assert lines_of([START | {"reason": "skip", "waiting": 4, "free_threads": 2}], 7)[1] == (
        "It started because there was a place for it (2 hardware threads open to it), "
        "and none for one or more of those ahead of it in the queue."
    )


def test_possible_partners() -> None:
    (told,) = [line for line in lines_of([START | {"partners": SEARCH}], 7) if "For a partner" in line]
    assert f"examined 1 other pending job: 1 {MATCHABLE};" in told


def test_the_explanation_of_a_head_a_requeue_and_a_suspension() -> None:
    def reserve(at_s: int, job: int, shadow_s: int) -> Record:
        return {"at_us": at_s * 1_000_000, "kind": "reserve", "job": job, "shadow_us": shadow_s * 1_000_000}

    stop = {"kind": "suspend", "job": 7, "partner": 5, "measured_slowdown": 1.75}
    records = [
        reserve(40, 7, 300),
        reserve(50, 7, 200),
        reserve(60, 3, 200),
        START
        | {"reason": "backfill", "waiting": 4, "free_threads": 2, "runs": [[0, 2, 1, 1], [5, 1, 1, 1], [3, 1, 6, 2]]},
        START | {"at_us": 95_000_000, "job": 9, "host": 7, "slowdown": 1.5},
        {"at_us": 100_000_000, **stop},
        {"at_us": 130_000_000, "kind": "resume", "job": 7},
        START | {"at_us": 400_000_000, "reason": "mine"},
    ]
    assert lines_of(records, 7) == [
        "Start 1 of 2:",
        "Job 7 (2 processes, estimated 0:01:40) was submitted at 30 s and started 0:01:00 later, at 90 s (0:01:30).",
        "From 10 s after its submission it was the reserved head of the queue, for 20 s: "
        "its start was first expected at 300 s (0:05:00), last at 200 s (0:03:20).",
        "It started because there was a place for it (2 hardware threads open to it): "
        "it was backfilled before the reserved job 3, whose start at 200 s (0:03:20) it does not delay.",
        "It runs on nodes 0-1, 5 (hardware thread 0, 1 process a node) and node 3 (hardware threads 1-2, 2 processes a node).",
        "5 s after its start job 9 joined it on its nodes, slowdown 1.500 while both run.",
        "10 s after its start it was suspended because beside job 5 it took 1.750 times as long as alone; it was resumed 30 s later.",
        "Start 2 of 2:",
        "Job 7 (2 processes, estimated 0:01:40) was submitted at 30 s and started 0:06:10 later, at 400 s (0:06:40).",
        "1 job that was submitted later started before it.",
        "It started because the policy chose it, with the reason 'mine'.",
        "It runs on nodes 0-1 (hardware thread 0, 1 process a node).",
    ]
    with pytest.raises(EmulatorError, match=r"t\.jsonl: job 3 never started; it was the reserved head of the queue$"):
        lines_of(records, 3)


def test_why_a_job_of_a_policy_of_others_waited() -> None:
    def other(at_s: int, job: int, submit_s: int) -> Record:
        return START | {"at_us": at_s * 1_000_000, "job": job, "submit_us": submit_s * 1_000_000}

    def wait(at_s: int, reason: str) -> Record:
        return {"at_us": at_s * 1_000_000, "kind": "wait", "job": 7, "reason": reason}

    records = [
        other(20, 5, 10),
        wait(35, "too little memory"),
        wait(36, "too little memory"),
        other(40, 8, 35),
        other(50, 6, 30),  # submitted at the same time as job 7, and before it by number
        other(60, 9, 36),
        wait(60, "overdue"),
        other(90, 10, 40),  # not earlier
        START | {"reason": "overdue"},
    ]
    assert lines_of(records, 7)[1:5] == [
        "5 s after its submission the policy gave the reason 'too little memory'.",
        "30 s after its submission the policy gave the reason 'overdue'.",
        "2 jobs that were submitted later started before it.",
        "It started because the policy chose it, with the reason 'overdue'.",
    ]
    with pytest.raises(EmulatorError, match=r"t\.jsonl: job 7 never started; the policy gives the reason 'overdue'$"):
        lines_of(records[:-1], 7)


@pytest.mark.parametrize(
    ("policy", "phrase"),
    [
        ("conservative", "it was promised a start at"),
        ("rua", "its neighbours there are not expected to slow it down"),
        ("ac", "was its neighbour in the queue"),
        ("am", "was its neighbour in the queue"),
        ("fcfs", "it was the first of"),
    ],
)
def test_every_policy_gives_reasons(policy: str, phrase: str) -> None:
    table = SCENARIO
    if policy == "rua":
        table = {"cluster": {"nodes": 8, "preset": "rua-4way"}, "workload": {"lublin": 60, "aarr": 9.0, "mix": "high"}}
    records = records_of(policy, table)
    starts = [record for record in records if record["kind"] == "start"]
    assert all("reason" in record for record in starts)
    assert phrase in " ".join(line for record in starts for line in lines_of(records, record["job"])).lower()


@pytest.mark.parametrize("policy", ["lomarc-r", "conservative", "easy", "glts"])
def test_all_starts_in_one_reading_are_those_of_each_job(policy: str) -> None:
    """But for what only other jobs tell of a pending one."""
    records = records_of(policy, SLICES if policy == "glts" else SCENARIO)
    nobody = {"times": 0, "removed_by": {}}
    found = dict(explain_starts(records))
    assert len(found) == len({record["job"] for record in records if record["kind"] == "start"})
    for job, start in found.items():
        whole = {**explain(records, job, "")["starts"][-1], "overtaken_by": 0}
        whole["looked_at"] = {**whole["looked_at"], **nobody}
        assert reason(job, start) == reason(job, whole)
        assert reason(job, start)


# ---------------------------------------------------------------- the funnel


def test_the_funnel_counts_as_documented() -> None:
    def start(**facts: Any) -> Record:
        return START | facts

    def search(everybody: int, of_length: int, fine: list[int], profits: list[float], **chosen: Any) -> Record:
        left = {"all": everybody, "short": of_length, "slowdown": len(fine)}
        return {"left": left, "removed": {}, "candidates": fine, "profits": profits, **chosen}

    better_refused = search(10, 4, [3, 4, 5], [0.5, 0.1, 0.9], partner=3)
    assert funnel([]) == funnel([{"kind": "reserve"}])
    found = funnel(
        [
            start(partners=better_refused),
            start(partners=search(5, 2, [6], [-1.0])),
            start(partners=search(3, 0, [], [])),
            start(no_search="weak-load"),
            start(partners=search(99, 99, [1], [1.0]), host=3),  # it searched itself, and was then taken by another job
            start(hosts=search(4, 2, [8, 9], [0.1, 0.2], host=9), host=9),
        ]
    )
    partners = found["partners"]
    assert (partners.searches, partners.matched, partners.ranked) == (3, 1, 1)
    assert (partners.position, partners.profit_rank) == (1.0, 2.0)
    assert partners.left == {
        "all": Left(6.0, 3, 6.0, 10.0),
        "short": Left(2.0, 3, 2.0, 4.0),
        "slowdown": Left(4 / 3, 2, 2.0, 3.0),
    }
    assert (found["hosts"].searches, found["hosts"].position, found["hosts"].profit_rank) == (1, 2.0, 1.0)


def test_the_funnel_of_a_run(lomarc: list[Record]) -> None:
    for kind, found in funnel(lomarc).items():
        assert list(found.left) == ["all", "short", "size", "memory", "type", "slowdown"]
        means = [left.mean for left in found.left.values() if left.mean is not None]
        assert means == sorted(means, reverse=True)
        assert found.matched > 2, kind
        assert found.position is not None
        assert found.position >= 1
    matched = sum("partner" in record.get("partners", ()) for record in lomarc)
    assert funnel(lomarc)["partners"].matched == matched
    first = funnel(records_of("lomarc-fm"))["partners"]
    assert (first.ranked, first.profit_rank) == (0, None)


# ---------------------------------------------------------------- resources and threads


def test_the_resource_that_costs_most_and_the_threads_are_told() -> None:
    seat = {"chosen": "other sockets", "compared": {"same cores": 1.5, "other sockets": 1.125}}
    start = START | {"host": 5, "slowdown": 1.125, "resource": "cache 3", "seat": seat}
    text = " ".join(lines_of([start], 7))
    assert "The resource 'cache 3' slows" in text
    assert "the least slowdown that is expected, 1.125, instead of 1.500 with 'same cores'." in text
    (told,) = explain([start], 7, "t.jsonl")["starts"]
    assert (told["resource"], told["seat"]) == ("cache 3", seat)
    text = " ".join(lines_of([start | {"slowdown": 1.0, "expected_us": start["estimate_us"]}], 7))
    assert "Neither job is expected to slow the other down." in text
    assert "The resource" not in text


def test_a_group_tells_its_division_of_nodes() -> None:
    seat = {"chosen": "cpus", "compared": {"sides": 1.2, "cpus": 1.0}}
    start = START | {"group": GROUP | {"seat": seat, "resource": "memory bandwidth"}}
    text = " ".join(lines_of([start], 7))
    assert "The jobs have different CPUs, as far as there are any: the least slowdown that is expected, 1.000" in text
    assert "'memory bandwidth'" in text


def test_candidates_that_were_too_slow_are_counted_by_resource() -> None:
    search = SEARCH | {
        "left": {"all": 3, "slowdown": 1}, "removed": {"slowdown": [7, 9]}, "slowed_by": {"memory bandwidth": [7], "disk": [9]},
    }  # fmt: skip
    first = START | {"job": 1, "reason": "order", "waiting": 4, "partners": search}
    text = " ".join(lines_of([first, START], 1))
    assert "1 within the largest slowdown, others not (memory bandwidth: 1, disk: 1)" in text
    text = " ".join(lines_of([first, START], 7))
    assert "once the two would have slowed each other down too much (memory bandwidth: 1)" in text


@pytest.mark.parametrize("seat", [3, {"chosen": "cpus"}, {"chosen": "cpus", "compared": {"sides": 1.0}}])
def test_a_seat_of_another_form_is_left_out(seat: object) -> None:
    (told,) = explain([START | {"seat": seat, "resource": 5}], 7, "t.jsonl")["starts"]
    assert (told["resource"], told["seat"]) == (None, None)
