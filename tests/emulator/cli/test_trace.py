"""The decision trace on the command line: the same through every coupling, safe to write, and explained in sentences."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.commands import PACKAGES, RUN_FILES, SMALL, Commands, assert_one_line, ended

from cosched_emulator.cli.main import cli
from cosched_emulator.couplings.direct import DirectLink
from cosched_emulator.errors import EmulatorError, InputError
from cosched_emulator.explain.facts import explain
from cosched_emulator.explain.funnel import Left, funnel
from cosched_emulator.explain.sentences import instant_text, sentences, span_text
from cosched_emulator.explain.trace_reader import read_trace
from cosched_emulator.results.files.trace_place import place_trace
from cosched_emulator.run.run import coupling, prepare, run
from cosched_emulator.scenario.schema import read_scenario
from cosched_plugin.common.trace_file import TraceFile
from cosched_plugin.config import choose
from cosched_plugin.errors import PolicyError, UsageError

Record = dict[str, Any]
PAIRS = ("--characteristics", "M1", "--node", "lomarc-ht", "--contention", "lomarc", "--aarr", "8.83")
SCENARIO: dict[str, Any] = {
    "cluster": {"nodes": 32, "preset": "lomarc-ht"},
    "workload": {"lublin": 120, "aarr": 8.83, "characteristics": "M1"},
    "truth": {"contention": "lomarc"},
}


def records_of(policy: str, table: dict[str, Any] = SCENARIO, *settings: str) -> list[Record]:
    """Return the trace of a run, straight from the sink."""
    prepared = prepare(read_scenario(None, table))
    records: list[Record] = []
    choice = choose(policy, settings)
    run(prepared, DirectLink(lambda welcome: choice.scheduler(welcome, records.append)))
    return records


SLICES: dict[str, Any] = {
    "cluster": {"nodes": 32, "preset": "g-lomarc-2x2"},
    "workload": {"lublin": 300, "aarr": 9.83, "self_slowdowns": "table4", "grow": True},
    "truth": {"contention": "statistical"},
    "preemption": {"resume_s": 60.0},
}


@pytest.fixture(scope="module")
def glts() -> list[Record]:
    return records_of("glts", SLICES)


@pytest.fixture(scope="module")
def lomarc() -> list[Record]:
    return records_of("lomarc-r")


def lines_of(records: list[Record], job: int) -> list[str]:
    return list(sentences(explain(records, job, "t.jsonl")))


# ---------------------------------------------------------------- writing


@pytest.fixture
def simulate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return what runs ``cosched-emulator simulate`` in this process, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(PACKAGES))  # for plugin processes

    def run_it(*arguments: str) -> None:
        CliRunner().invoke(cli, ["simulate", *arguments], catch_exceptions=False)

    return run_it


def test_every_coupling_writes_the_same_trace(simulate: Callable[..., None], tmp_path: Path) -> None:
    written = {}
    for link in ("direct", "loopback", "zmq"):
        name = f"{link}.jsonl"
        simulate("--lublin", "60", "--nodes", "32", *PAIRS, "--policy", "lomarc-r", "--link", link, "--trace", name)
        written[link] = (tmp_path / name).read_bytes()
    assert written["direct"] == written["loopback"] == written["zmq"]
    records = [json.loads(line) for line in written["direct"].splitlines()]
    assert sum(record["kind"] == "start" for record in records) == 60
    assert any("partner" in record.get("partners", ()) for record in records)
    assert [record["at_us"] for record in records] == sorted(record["at_us"] for record in records)
    assert all(list(record)[:3] == ["at_us", "kind", "job"] for record in records)


def test_a_trace_in_the_run_folder(simulate: Callable[..., None], tmp_path: Path) -> None:
    asked = (*SMALL, "--out", "runs/a", "--trace", "runs/a/trace.jsonl")
    simulate(*asked)
    folder = tmp_path / "runs" / "a"
    assert {path.name for path in folder.iterdir()} == RUN_FILES | {"trace.jsonl"}
    assert [path.name for path in folder.parent.iterdir()] == ["a"]
    first = (folder / "trace.jsonl").read_bytes()
    with pytest.raises(InputError, match="expected a new folder"):
        simulate(*asked)
    simulate(*asked, "--force", "--link", "zmq")
    assert (folder / "trace.jsonl").read_bytes() == first
    assert [path.name for path in folder.parent.iterdir()] == ["a"]
    with pytest.raises(
        InputError, match=r"^runs/b/my\.jsonl: expected runs/b/trace\.jsonl, or a file outside the run folder$"
    ):
        simulate(*SMALL, "--out", "runs/b", "--trace", "runs/b/my.jsonl")


def test_what_is_in_the_way_is_told_before_the_run(tmp_path: Path) -> None:
    there = tmp_path / "t.jsonl"
    there.write_text('{"at_us":1}\n')
    with pytest.raises(UsageError, match=r"t\.jsonl: expected a new file for the trace, got one that exists"):
        place_trace(str(there), None, force=False)
    assert place_trace(str(there), None, force=True) == str(there)
    assert not there.exists()
    there.write_text("my only copy")
    with pytest.raises(InputError, match="a trace to replace, got something else, which is left alone"):
        place_trace(str(there), None, force=True)
    assert there.read_text() == "my only copy"
    for wrong in (tmp_path, tmp_path / "none" / "t.jsonl"):
        with pytest.raises(UsageError, match="expected a file"):
            place_trace(str(wrong), None, force=True)
    with pytest.raises(UsageError, match="something else of that name"):
        TraceFile("/dev/null", force=True)


def test_an_unwritable_trace_is_one_line(commands: Commands) -> None:
    ran = commands.emulator("simulate", *SMALL, "--link", "zmq", "--trace", "none/t.jsonl")
    assert assert_one_line(ran, 2) == "none/t.jsonl: expected a file that can be written, got No such file or directory"


def test_a_plugin_writes_a_trace_and_refuses_an_old_one(commands: Commands) -> None:
    endpoint = f"ipc://{commands.folder}/socket"
    manager = commands.start("cosched_emulator", "serve", *SMALL, "--bind", endpoint)
    served = commands.plugin("serve", "--connect", endpoint, "--trace", "t.jsonl", "--quiet")
    assert (served.code, ended(manager).code) == (0, 0)
    assert len((commands.folder / "t.jsonl").read_text().splitlines()) >= 15
    again = assert_one_line(commands.plugin("serve", "--connect", endpoint, "--trace", "t.jsonl"), 2, "cosched-plugin")
    assert again == "t.jsonl: expected a new file for the trace, got one that exists"


def test_a_failing_run_leaves_what_was_told(tmp_path: Path) -> None:
    choice = choose("lomarc-r")

    class Failing:
        def __init__(self) -> None:
            self.policy, self.passes = choice.make(), 0

        def decide(self, view: Any) -> Any:
            self.passes += 1
            if self.passes == 40:
                raise ValueError("no idea")
            return self.policy.decide(view)

    prepared = prepare(read_scenario(None, SCENARIO))
    file = tmp_path / "t.jsonl"
    failing = choice._replace(make=Failing)
    with pytest.raises(PolicyError, match="no idea"), coupling("direct", failing, prepared, str(file)) as link:
        run(prepared, link)
    assert [record["kind"] for record in read_trace(str(file))].count("start") > 5


def test_values_that_json_lacks_are_the_policys_fault(tmp_path: Path) -> None:
    with TraceFile(tmp_path / "t.jsonl") as file:
        for value in (float("nan"), {1}):
            with pytest.raises((TypeError, ValueError)):
                file.write({"at_us": 1, "value": value})
        file.write({"at_us": 1, "kind": "mine", "text": "ü\n"})
    assert (tmp_path / "t.jsonl").read_bytes() == b'{"at_us":1,"kind":"mine","text":"\\u00fc\\n"}\n'
    with pytest.raises(KeyError), TraceFile(tmp_path / "empty.jsonl"):
        raise KeyError
    assert not (tmp_path / "empty.jsonl").exists()


# ---------------------------------------------------------------- reading


NUMBER = "a finite number, a whole one of at most 63 bits"
START: Record = {
    "at_us": 90_000_000, "kind": "start", "job": 7, "submit_us": 30_000_000, "processes": 2, "estimate_us": 100_000_000,
    "expected_us": 100_000_000, "runs": [[0, 2, 1, 1]],
}  # fmt: skip
MATCHABLE = "of medium length or longer, known and willing to share"
GROUP: Record = {"primary": 7, "matched": [5, 6], "running": [], "gain": 0.877, "candidates": 3, "tried": 1}
SEARCH: Record = {"left": {"all": 1, "short": 1}, "removed": {"short": []}, "candidates": [8], "profits": [0.5]}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "expected a decision trace, got an empty file"),
        ("{\n", ":1: expected a record in JSON, got something else"),
        ('{"at_us":1\n{}\n', ":1: expected a record in JSON, got something else"),
        ("[" * 200_000, ":1: expected a record in JSON, got one nested too deeply"),
        ("[1]", ":1: expected a record in JSON, got list"),
        ("\xff\n", ":1: expected a record in JSON, got something else"),
        ("[1]\n", ":1: expected a record in JSON, got list"),
        ('{"at_us": 1}\n', ":1: field 'kind': expected a text, got None"),
        ('{"kind": "x", "at_us": 1.5}\n', ":1: field 'at_us': expected a whole number, got 1.5"),
        (json.dumps(START) + "\n" + json.dumps(START | {"job": True}), ":2: field 'job': expected a whole number, got True"),
        (json.dumps(START | {"runs": [[0, 2, 1]]}), ":1: field 'runs': expected [[first node, count, thread mask, processes], ...]"),
        (json.dumps(START | {"together": 3}), ":1: field 'together': expected numbers of jobs"),
        (json.dumps(START | {"slowdown": "2"}), ":1: field 'slowdown': expected a number, got '2'"),
        (json.dumps(START | {"partners": {}}), ":1: field 'partners': expected an account of a search"),
        (json.dumps(START | {"partners": SEARCH | {"profits": []}}), ":1: field 'partners': expected an account of a search"),
        (json.dumps(START | {"hosts": SEARCH | {"host": 9}}), ":1: field 'hosts': expected an account of a search"),
        (json.dumps(START | {"hosts": SEARCH | {"profit": "a"}}), ":1: field 'profit': expected a number, got 'a'"),
        (json.dumps(START | {"unfair_to": "5"}), ":1: field 'unfair_to': expected a whole number, got '5'"),
        *[
            (json.dumps(START | {"group": wrong}), ":1: field 'group': expected an account of a group")
            for wrong in (
                [7], GROUP | {"primary": None}, GROUP | {"matched": []}, GROUP | {"matched": [-5]}, GROUP | {"primary": 4},
                GROUP | {"running": [8]}, GROUP | {"running": 5}, GROUP | {"gain": "1"}, GROUP | {"gain": 1e300},
                GROUP | {"tried": 1.5},
                {key: value for key, value in GROUP.items() if key != "candidates"},
            )
        ],
        ('{"at_us": 1, "kind": "expect", "job": 3}', ":1: field 'response_us': expected a whole number, got None"),
        ('{"at_us": 1, "kind": "slice", "kind_of_jobs": "long"}', ":1: field 'end_us': expected a whole number, got None"),
        ('{"at_us": 1, "kind": "reserve", "job": 3}\n', ":1: field 'shadow_us': expected a whole number, got None"),
        ('{"at_us": 1, "kind": "reject", "job": 3}\n', ":1: field 'reason': expected a text, got nothing"),
        ('{"at_us": 1, "kind": "reject", "job": 3, "reason": 4}\n', ":1: field 'reason': expected a text, got 4"),
        ('{"at_us": 1, "kind": "promise", "job": 3}\n', ":1: field 'start_us': expected a whole number or null, got nothing"),
        ('{"at_us":1,"kind":"promise","job":3,"start_us":1.5}', ":1: field 'start_us': expected a whole number or null, got 1.5"),
        ('{"at_us": 1, "kind": "mine", "a": {"b": [1, 1e999]}}', f":1: field 'a.b': expected {NUMBER}, got inf"),
        ('{"at_us": -Infinity, "kind": "mine"}', f":1: field 'at_us': expected {NUMBER}, got -inf"),
        ('{"at_us": 1, "kind": "mine", "a": NaN}', f":1: field 'a': expected {NUMBER}, got nan"),
        ('{"at_us": 9223372036854775808, "kind": "mine"}', f":1: field 'at_us': expected {NUMBER}, got 9223372036854775808"),
        ('{"at_us": 1' + "0" * 5000 + "}", f":1: expected {NUMBER}, got one of thousands of digits"),
        (json.dumps(START | {"runs": [[0, 2, 10**400, 1]]}), f":1: field 'runs': expected {NUMBER}, got {'1' + '0' * 17}...{'0' * 19}"),
        (json.dumps(START | {"runs": [[1 << 63, 2, 1, 1]]}),
         ":1: field 'runs': expected [[first node, count, thread mask, processes], ...]"),
        (json.dumps(START | {"factor": 1e300}), ":1: field 'factor': expected a number of at most 63 bits, got 1e+300"),
        (json.dumps(START | {"no_search": "\ud800"}), ":1: field 'no_search': expected a text, got '\\ud800'"),
    ],
)  # fmt: skip
def test_damaged_traces(line: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_bytes(line.encode("latin-1"))
    with pytest.raises(InputError) as raised:
        list(read_trace(str(file)))
    assert str(raised.value).removeprefix(str(file)).removeprefix(": ") == message


@pytest.mark.parametrize(
    "wrong", ["[]", "{}", '"x"', "true", "1e999", "NaN", "-Infinity", "1e300", "9223372036854775808"]
)
def test_no_damage_reaches_the_sentences(wrong: str, tmp_path: Path) -> None:
    search = SEARCH | {"partner": 8, "host": 8, "selected": 1, "slowdown": 1.5, "profit": 0.5}
    places = dict.fromkeys(("waiting", "free_threads", "promised_us", "host", "chosen_by"), 8)
    start = START | places | {"factor": 1.5, "slowdown": 1.5, "reason": "promise", "no_search": "x", "together": [8]}
    records: list[Record] = [
        {"at_us": 40, "kind": "reserve", "job": 7, "shadow_us": 50},
        {"at_us": 40, "kind": "promise", "job": 7, "start_us": 50},
        start | {"partners": search, "hosts": search},
        {"at_us": 90_000_000, "kind": "suspend", "job": 7, "partner": 8, "measured_slowdown": 1.5},
        {"at_us": 90_000_001, "kind": "resume", "job": 7},
        {"at_us": 90_000_002, "kind": "reject", "job": 7, "reason": "x"},
        {"at_us": 90_000_003, "kind": "slice", "end_us": 95_000_000},
        {"at_us": 90_000_004, "kind": "expect", "job": 7, "response_us": 60_000_000},
        START | {"at_us": 90_000_005, "unfair_to": 8, "group": GROUP},
        {"at_us": 90_000_006, "kind": "suspend", "job": 7},
    ]
    file = tmp_path / "t.jsonl"
    places_of: list[tuple[int, tuple[str, ...]]] = [
        (number, (key,)) for number, record in enumerate(records) for key in record
    ]
    places_of += [(2, (kind, key)) for kind in ("partners", "hosts") for key in search]
    places_of += [(2, (kind, "left", "all")) for kind in ("partners", "hosts")]
    places_of += [(8, ("group", key)) for key in GROUP]
    assert len(list(sentences(explain(records, 7, "")))) > 5
    refused: list[tuple[int | None, str | None]] = []
    for number, path in places_of:
        damaged: list[Any] = json.loads(json.dumps(records))
        inner: Any = damaged[number]
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = "WRONG"
        file.write_text("".join(json.dumps(record) + "\n" for record in damaged).replace('"WRONG"', wrong))
        try:
            facts = explain(read_trace(str(file)), 7, str(file))
            assert list(sentences(facts))
            json.dumps(facts, allow_nan=False)
        except InputError as error:
            refused.append((error.line, error.field))
        except EmulatorError:  # the start is of another kind: the job never started
            refused.append((number + 1, "kind"))
    assert {number for number, _ in refused} == set(range(1, 11))
    if wrong in ("1e999", "NaN", "-Infinity", "9223372036854775808"):
        assert len(refused) == len(places_of)
        assert {(number + 1, ".".join(path)) for number, path in places_of} == set(refused)


def test_threads_of_wide_nodes_are_let_through(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_text(json.dumps(START | {"runs": [[0, 2, (1 << 256) - 1, 256]], "tiny": 1e-20, "mine": 1e20}) + "\n")
    (start,) = explain(read_trace(str(file)), 7, "")["starts"]
    assert start["places"] == [{"nodes": "0-1", "threads": "0-255", "processes_per_node": 256}]


def test_a_last_line_that_is_cut_off_is_left_out(commands: Commands) -> None:
    whole = json.dumps(START) + "\n"
    (commands.folder / "t.jsonl").write_text(whole + whole[:-9])
    code, out, err = commands.emulator("explain", "7", "--trace", "t.jsonl", "--json")
    assert (code, err) == (0, "t.jsonl:2: the last line is cut off and was left out\n")
    assert len(json.loads(out)["starts"]) == 1
    (commands.folder / "t.jsonl").write_text(whole + whole[:-1])
    assert len(list(read_trace(str(commands.folder / "t.jsonl")))) == 2  # only the end of the line is missing


def test_a_pipe_is_no_trace(commands: Commands) -> None:
    os.mkfifo(commands.folder / "pipe")
    for name in ("pipe", "."):
        told = assert_one_line(commands.emulator("explain", "7", "--trace", name), 2)
        assert told == f"{name}: expected a regular file"


def test_a_missing_trace() -> None:
    with pytest.raises(
        InputError, match=r"^none\.jsonl: expected a file that can be read, got No such file or directory$"
    ):
        list(read_trace("none.jsonl"))


def test_errors_of_explain(commands: Commands) -> None:
    search = SEARCH | {"removed": {"short": [9]}}
    (commands.folder / "t.jsonl").write_text(json.dumps(START | {"partners": search}) + "\n")
    assert assert_one_line(commands.emulator("explain", "99", "--trace", "t.jsonl"), 2) == (
        "t.jsonl: expected a job that the trace mentions, and job 99 is not"
    )
    assert assert_one_line(commands.emulator("explain", "9", "--trace", "t.jsonl"), 1) == (
        "t.jsonl: job 9 never started; times it was looked at as a partner: 1"
    )
    code, out, err = commands.emulator("explain", "7", "--trace", "t.jsonl")
    assert (code, err) == (0, "")
    assert out.splitlines()[0].startswith(
        "Job 7 (2 processes, estimated 0:01:40) was submitted at 30 s and started 0:01:00 later"
    )
    told = CliRunner().invoke(cli, ["explain", "7", "--trace", str(commands.folder / "t.jsonl"), "--json"])
    assert json.loads(told.output)["starts"][0]["waited_us"] == 60_000_000


def test_a_rejected_job(commands: Commands) -> None:
    reject = {"at_us": 500_000_000, "kind": "reject", "job": 9, "reason": "no node\nfor it"}
    (commands.folder / "t.jsonl").write_text("".join(json.dumps(record) + "\n" for record in (START, reject)))
    assert assert_one_line(commands.emulator("explain", "9", "--trace", "t.jsonl"), 1) == (
        r"t.jsonl: job 9 never started; it was rejected at 500 s (0:08:20): 'no node\nfor it'"
    )
    records = [START, reject | {"job": 7}]
    assert lines_of(records, 7)[-1] == r"Then it was rejected at 500 s (0:08:20): 'no node\nfor it'."
    assert explain(records, 7, "")["rejected"] == {"at_us": 500_000_000, "reason": "no node\nfor it"}
    assert explain([START], 7, "")["rejected"] is None


# ---------------------------------------------------------------- sentences


def test_times_for_people() -> None:
    spans = [0, 12_500_000, 59_999_000, 60_000_000, 3_599_600_000, 45_296_000_000, 400_000_000_000]
    assert [span_text(us) for us in spans] == [
        "0 s",
        "12.5 s",
        "59.999 s",
        "0:01:00",
        "1:00:00",
        "12:34:56",
        "111:06:40",
    ]
    assert [instant_text(us) for us in (5_000_001, 5_134_000_000)] == ["5.000001 s", "5134 s (1:25:34)"]


def test_every_start_is_explained(lomarc: list[Record]) -> None:
    phrases = (
        "took it as its partner", "it could join job", "reserved head", "it was backfilled before", "it was the first of",
        "highest profit", "looked at it as a partner", "joined it on its nodes", "It looked for no partner",
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
        "it got a node for each process", "took it along", "had room for it", "joined it on its nodes", "A group for it was given up",
        "It was preempted", "its promised start had come",
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


def test_the_story_of_a_group() -> None:
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
        "It started as the primary job of a group, with jobs 5 and 6, which had waited, too (Case 1).",
        "3 candidates go well with the primary job; this is the first group that was tried, with a utilisation gain of 0.877.",
        "It runs on nodes 0-1 (hardware thread 0, 1 process a node), beside jobs 5 and 6.",
        "It should take 1.200 times as long there as estimated: 0:02:00.",
        "1:00:10 after its start job 9 joined it on its nodes.",
        "It was preempted 3 times, for 1:24:00 on disk in all; since 8280 s (2:18:00) it has not come back.",
    ]
    assert lines_of(records, 5)[1:4] == [
        "It started because job 7, which started then, took it along, with job 6: "
        "they are a group, with that job as the primary one (Case 1).",
        "3 candidates go well with the primary job; this is the first group that was tried, with a utilisation gain of 0.877.",
        "It runs on nodes 0-1 (hardware thread 0, 1 process a node), beside job 7.",
    ]
    assert lines_of(records, 9)[1:3] == [
        "It started as the primary job of a group, with job 7, which ran already (Case 2).",
        "1 candidate goes well with the primary job; this is the 2nd group that was tried, with a utilisation gain of 0.877; "
        "with another one job 4 would have ended too late.",
    ]
    assert lines_of(records, 10)[1:3] == [
        "It started because job 9, which ran already, had room for it, with job 11: "
        "they are a group, with that job as the primary one (Case 3).",
        "3 candidates go well with the primary job; this is the 12th group that was tried, with a utilisation gain of 0.877; "
        "with another one it would have ended too late.",
    ]
    facts = explain(records, 7, "")["starts"][0]
    assert facts["group"] == {"case": 1, "role": "primary", **GROUP}
    assert facts["preempted"] == {"times": 3, "for_us": 5_040_000_000, "on_disk_since_us": 8_280_000_000}
    assert facts["expected_response_us"] == 7_200_000_000
    assert facts["joined_by"] == [{"at_us": 3_700_000_000, "job": 9, "slowdown": None}]
    assert explain(records, 9, "")["starts"][0]["unfair_to"] == 4


def test_a_stop_for_a_partner_is_no_preemption() -> None:
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


def test_the_story_of_a_pair(lomarc: list[Record]) -> None:
    searches = [record for record in lomarc if "partner" in record.get("partners", ())]
    host = next(record for record in searches if len(record["partners"]["candidates"]) > 2)
    search = host["partners"]
    guest = next(record for record in lomarc if record["kind"] == "start" and record["job"] == search["partner"])
    assert (guest["host"], guest["chosen_by"], guest["together"]) == (host["job"],) * 2 + ([host["job"]],)
    assert host["slowdown"] == guest["slowdown"] == search["slowdown"]
    assert search["profit"] == search["profits"][search["selected"] - 1]
    told = " ".join(lines_of(lomarc, guest["job"]))
    assert (
        f"It started because job {host['job']}, which started then, took it as its partner. Job {host['job']} looked at"
        in told
    )
    assert f"{search['left']['all']} other waiting jobs: {search['left']['short']} {MATCHABLE}, " in told
    assert f"beside job {host['job']}." in told
    facts = explain(lomarc, host["job"], "")["starts"][0]
    assert facts["partner_search"]["position"] == search["selected"]
    assert facts["partner_search"]["left"] == search["left"]


def test_what_becomes_of_a_job_in_others_searches() -> None:
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
        },  # another: the first
        search(candidates=[8], profits=[1.0], partner=8),  # says nothing of it
    ]
    others = [START | {"job": 20 + number, "partners": item} for number, item in enumerate(searches)]
    looked = explain([*others, START], 7, "")["starts"][0]["looked_at"]
    assert looked == {
        "times": 8, "removed": 3, "without_profit": 1, "another_taken": 2, "not_admitted": 2,
        "removed_by": {"short": 0, "size": 1, "memory": 2, "type": 0, "slowdown": 0},
    }  # fmt: skip
    (told,) = [line for line in lines_of([*others, START], 7) if line.startswith("While it waited")]
    assert told == (
        "While it waited 8 jobs that started looked at it as a partner, in vain: once it was larger than the job that started, "
        "twice it did not fit into memory beside the job that started, once it would have been no gain, twice another was taken, "
        "twice it found no place there, or would have delayed the reserved job."
    )


def test_the_first_that_the_nodes_in_service_can_hold() -> None:
    assert lines_of([START | {"reason": "overtake", "waiting": 4, "free_threads": 2}], 7)[1] == (
        "It started because it was the first in the queue that the nodes in service can hold, "
        "and there was a place for it (2 hardware threads open to it)."
    )


def test_who_may_be_a_partner() -> None:
    (told,) = [line for line in lines_of([START | {"partners": SEARCH}], 7) if "For a partner" in line]
    assert f"looked at 1 other waiting job: 1 {MATCHABLE};" in told


def test_the_head_a_requeue_and_a_stop() -> None:
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
        "It started because of what the policy calls 'mine'.",
        "It runs on nodes 0-1 (hardware thread 0, 1 process a node).",
    ]
    with pytest.raises(EmulatorError, match=r"t\.jsonl: job 3 never started; it was the reserved head of the queue$"):
        lines_of(records, 3)


@pytest.mark.parametrize(
    ("policy", "phrase"),
    [
        ("conservative", "it was promised a start at"),
        ("rua", "it should lose nothing to its neighbours there"),
        ("ac", "was its neighbour in the queue"),
        ("am", "was its neighbour in the queue"),
        ("fcfs", "it was the first of"),
    ],
)
def test_every_policy_says_why(policy: str, phrase: str) -> None:
    table = SCENARIO
    if policy == "rua":
        table = {"cluster": {"nodes": 8, "preset": "rua-4way"}, "workload": {"lublin": 60, "aarr": 9.0, "mix": "high"}}
    records = records_of(policy, table)
    starts = [record for record in records if record["kind"] == "start"]
    assert all("reason" in record for record in starts)
    assert phrase in " ".join(line for record in starts for line in lines_of(records, record["job"])).lower()


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
            start(partners=search(99, 99, [1], [1.0]), host=3),  # had looked itself, then was taken by another
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
