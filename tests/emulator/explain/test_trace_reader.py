"""Reading of traces: damage is an error, or is ignored if it does not matter."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.commands import Commands, assert_one_line
from tests.emulator.explain.traces import GROUP, SEARCH, START, Record, lines_of

from cosched_emulator.cli.main import cli
from cosched_emulator.errors import EmulatorError, InputError
from cosched_emulator.explain.facts import explain
from cosched_emulator.explain.sentences import sentences
from cosched_emulator.explain.trace_reader import read_trace

TURN: Record = {
    "at_us": 1, "kind": "turn", "quantum": 4, "slots": [1], "jobs": [[7]], "shares_ppm": [9], "guests": [],
}  # fmt: skip
NUMBER = "a finite number, a whole one of at most 63 bits"


@pytest.mark.parametrize(
    ("line", "message"),
    [
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
        (json.dumps(START | {"full_rows": [1, "2"]}), ":1: field 'full_rows': expected numbers of rows"),
        (json.dumps(START | {"new_row": 1}), ":1: field 'new_row': expected true or false, got 1"),
        ('{"at_us": 1, "kind": "slot", "job": 3}', ":1: field 'slot': expected a whole number, got None"),
        ('{"at_us": 1, "kind": "rotation"}', ":1: field 'quantum': expected a whole number, got None"),
        *[
            (json.dumps(TURN | {field: wrong}), ":1: expected an account of a turn: slots, jobs, shares_ppm and guests")
            for field, wrong in (
                ("slots", []), ("slots", None), ("jobs", [[7], [8]]), ("jobs", [[]]), ("jobs", [7]), ("shares_ppm", [0.5]),
                ("guests", [8]), ("guests", [[8]]), ("guests", 3),
            )
        ],
        (json.dumps(TURN | {"alone": 3}), ":1: field 'alone': expected a text, got 3"),
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
def test_damaged_traces_are_an_error_with_the_line(line: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_bytes(line.encode("latin-1"))
    with pytest.raises(InputError) as raised:
        list(read_trace(str(file)))
    assert str(raised.value).removeprefix(str(file)).removeprefix(": ") == message


@pytest.mark.parametrize(
    "wrong", ["[]", "{}", '"x"', "true", "1e999", "NaN", "-Infinity", "1e300", "9223372036854775808"]
)
def test_damaged_values_never_reach_the_sentences(wrong: str, tmp_path: Path) -> None:
    search = SEARCH | {"partner": 8, "host": 8, "selected": 1, "slowdown": 1.5, "profit": 0.5}
    places = dict.fromkeys(("waiting", "free_threads", "promised_us", "host", "chosen_by"), 8)
    asks = {"memory_mb": 8, "resources": {"gpu": 1}, "licences": {"x": 1}, "nodes": [[0, 2]]}
    start = (
        START
        | places
        | {"asks": asks, "factor": 1.5, "slowdown": 1.5, "reason": "promise", "no_search": "x", "together": [8]}
    )
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
    places_of += [(2, ("asks", key)) for key in asks]
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


def test_threads_of_wide_nodes_are_accepted(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_text(json.dumps(START | {"runs": [[0, 2, (1 << 256) - 1, 256]], "tiny": 1e-20, "mine": 1e20}) + "\n")
    (start,) = explain(read_trace(str(file)), 7, "")["starts"]
    assert start["places"] == [{"nodes": "0-1", "threads": "0-255", "processes_per_node": 256}]


def test_an_incomplete_last_line_is_ignored(commands: Commands) -> None:
    whole = json.dumps(START) + "\n"
    (commands.folder / "t.jsonl").write_text(whole + whole[:-9])
    code, out, err = commands.emulator("explain", "7", "--trace", "t.jsonl", "--json")
    assert (code, err) == (0, "t.jsonl:2: the last line is cut off and was left out\n")
    assert len(json.loads(out)["starts"]) == 1
    (commands.folder / "t.jsonl").write_text(whole + whole[:-1])
    assert len(list(read_trace(str(commands.folder / "t.jsonl")))) == 2  # only the end of the line is missing


def test_a_pipe_is_refused(commands: Commands) -> None:
    os.mkfifo(commands.folder / "pipe")
    for name in ("pipe", "."):
        told = assert_one_line(commands.emulator("explain", "7", "--trace", name), 2)
        assert told == f"{name}: expected a regular file"


def test_a_missing_trace_is_an_error() -> None:
    with pytest.raises(
        InputError, match=r"^none\.jsonl: expected a file that can be read, got No such file or directory$"
    ):
        list(read_trace("none.jsonl"))


def test_errors_of_explain_are_one_line(commands: Commands) -> None:
    search = SEARCH | {"removed": {"short": [9]}}
    (commands.folder / "t.jsonl").write_text(json.dumps(START | {"partners": search}) + "\n")
    assert assert_one_line(commands.emulator("explain", "99", "--trace", "t.jsonl"), 2) == (
        "t.jsonl: expected a job that the trace mentions: no record names job 99"
    )
    assert assert_one_line(commands.emulator("explain", "9", "--trace", "t.jsonl"), 1) == (
        "t.jsonl: job 9 never started; times it was considered as a partner: 1"
    )
    code, out, err = commands.emulator("explain", "7", "--trace", "t.jsonl")
    assert (code, err) == (0, "")
    assert out.splitlines()[0].startswith(
        "Job 7 (2 processes, estimated 0:01:40) was submitted at 30 s and started 0:01:00 later"
    )
    told = CliRunner().invoke(cli, ["explain", "7", "--trace", str(commands.folder / "t.jsonl"), "--json"])
    assert json.loads(told.output)["starts"][0]["waited_us"] == 60_000_000


def test_the_explanation_of_a_rejected_job(commands: Commands) -> None:
    reject = {"at_us": 500_000_000, "kind": "reject", "job": 9, "reason": "no node\nfor it"}
    (commands.folder / "t.jsonl").write_text("".join(json.dumps(record) + "\n" for record in (START, reject)))
    assert assert_one_line(commands.emulator("explain", "9", "--trace", "t.jsonl"), 1) == (
        r"t.jsonl: job 9 never started; it was rejected at 500 s (0:08:20): 'no node\nfor it'"
    )
    records = [START, reject | {"job": 7}]
    assert lines_of(records, 7)[-1] == r"Then it was rejected at 500 s (0:08:20): 'no node\nfor it'."
    assert explain(records, 7, "")["rejected"] == {"at_us": 500_000_000, "reason": "no node\nfor it"}
    assert explain([START], 7, "")["rejected"] is None
