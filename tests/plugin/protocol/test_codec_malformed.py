"""Malformed messages give RemoteProtocolError with the path of the error, and no other exception."""

from __future__ import annotations

import random
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
from tests.plugin.protocol.samples import JOB_RAW, SAMPLES, WELCOME, decode_raw, nested, outcome, raw_of
from tests.runs import runs_on

from cosched_plugin.common.errors import RemoteProtocolError
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.codec import decode, encode
from cosched_plugin.protocol.limits import (
    INT64_MAX,
    MAGIC,
    MAX_ARRAY_ITEMS,
    MAX_DEPTH,
    MAX_MAP_ITEMS,
    MAX_NAME_BYTES,
    MAX_NODES,
    MAX_STRING_BYTES,
)


@pytest.mark.parametrize("message", SAMPLES, ids=lambda message: type(message).__name__)
def test_truncation_at_every_byte_is_refused(message: m.Message) -> None:
    body = encode(message)[1]
    for length in range(len(body)):
        with pytest.raises(RemoteProtocolError) as caught:
            decode([MAGIC, body[:length]])
        assert caught.value.code == "malformed"


def test_changed_and_random_bytes_give_messages_or_protocol_errors() -> None:
    draw = random.Random(2)
    seen = set()
    for _ in range(8_000):
        body = bytearray(encode(draw.choice(SAMPLES))[1])
        if draw.random() < 0.3:
            body = bytearray(draw.randbytes(draw.randrange(40)))
        for _ in range(draw.choice((1, 1, 2, 5))):
            if body:
                body[draw.randrange(len(body))] = draw.randrange(256)
        seen.add(outcome(bytes(body)).partition("|")[0].partition("(")[0])
    assert seen >= {"malformed", "field", "unknown", "Events", "Actions", "Welcome"}


@pytest.mark.parametrize(
    "opening", [b"\x91", b"\x81\xa1x", b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff"]
)
def test_endless_nesting_and_false_lengths_are_refused(opening: bytes) -> None:
    for body in (opening, opening * 3, opening * 5000, opening * 5000 + b"\xc0"):
        with pytest.raises(RemoteProtocolError):
            decode([MAGIC, body])


@pytest.mark.parametrize(
    "frames", [[], [MAGIC], [b"cosched/2", b"\x80"], [b"", b"\x80"], [MAGIC, b"\x80", b""], [b"\x80", MAGIC]]
)
def test_wrong_frames_are_refused(frames: list[bytes]) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode(frames)
    assert caught.value.code == "frame"


@pytest.mark.parametrize(
    ("change", "code", "path", "text"),
    [
        ({"events": [{"type": "job_held", "job_id": "4"}]}, "field", "events[0].job_id", 'expected an integer >= 0, got "4"'),
        ({"events": [{"type": "job_held", "job_id": True}]}, "field", "events[0].job_id", "expected an integer >= 0, got true"),
        ({"events": [{"type": "job_held", "job_id": 2**63}]}, "field", "events[0].job_id",
         "expected an integer of 64 bits, got 9223372036854775808"),
        ({"events": [{"type": "job_held"}]}, "field", "events[0].job_id", "required, but missing"),
        ({"events": [{"type": "job_lost", "job_id": 4}]}, "unknown", "events[0].type", 'unknown type "job_lost"'),
        ({"events": [{"job_id": 4}]}, "field", "events[0].type", "expected a type name, got nil"),
        ({"events": [{"type": ["woken"]}]}, "field", "events[0].type", "expected a type name, got a list"),
        ({"events": [4]}, "field", "events[0]", "expected a map, got 4"),
        ({"events": {}}, "field", "events", "expected a list, got a map"),
        ({"events": [{"type": "job_ended", "job_id": 4, "state": "DONE"}]}, "field", "events[0].state", None),
        ({"events": [{"type": "node_failed", "node": MAX_NODES}]}, "field", "events[0].node", None),
        ({"seq": 0}, "field", "seq", "expected an integer >= 1, got 0"),
        ({"now_us": 1.0}, "field", "now_us", "expected an integer >= 0, got 1.0"),
        ({"type": "event"}, "unknown", "type", 'unknown type "event"'),
        ({"type": "x" * 50}, "unknown", "type", f'unknown type "{"x" * 37}..."'),
        ({"new": float("inf")}, "field", "new", "expected a finite number, got inf"),
        ({"new": {"deep": [float("nan")]}}, "field", "new.deep[0]", "expected a finite number, got nan"),
        ({"new": b""}, "field", "new", None),
        ({"new": msgpack.ExtType(4, b"")}, "field", "new", None),
        ({"new": msgpack.Timestamp(4)}, "field", "new", None),
        ({"new": 2**64 - 1}, "field", "new", None),
        ({b"new": 1}, "field", "", 'expected a string, got binary data'),
        ({"new": {b"": 1}}, "field", "new", None),
        ({"n" * (MAX_NAME_BYTES + 1): 1}, "limit", "", None),
        ({"new": nested(MAX_DEPTH + 1)}, "limit", "new[0][0][0][0][0][0][0]", None),
        ({f"n{i}": 1 for i in range(MAX_MAP_ITEMS)}, "limit", "", None),
        ({"new": {f"n{i}": 1 for i in range(MAX_MAP_ITEMS + 1)}}, "limit", "new", None),
        ({"new": "x" * (MAX_STRING_BYTES + 1)}, "malformed", "", None),
        ({"new": [0] * (MAX_ARRAY_ITEMS + 1)}, "malformed", "", None),
    ],
)  # fmt: skip
def test_errors_name_the_path_of_the_wrong_value(
    change: dict[Any, Any], code: str, path: str, text: str | None
) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode_raw({"type": "events", "seq": 1, "now_us": 0, "events": []} | change)
    error = caught.value
    assert (error.code, error.path) == (code, path)
    assert text is None or error.text == text
    assert str(error).startswith(error.path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", -1), ("submit_us", -1), ("processes", 0), ("estimate_us", 0), ("limit_us", 0), ("limit_us", 1.5),
        ("user", 4), ("user", None), ("name", None), ("ppn_min", 0), ("ppn_max", -1), ("threads_per_process", 0),
        ("memory_mb", -1), ("exclusive", 1), ("exclusive", None), ("demand", [1, 2]), ("demand", [1, 2, -3]),
        ("demand", [1, 2, 3.0]), ("demand", 4), ("usage", 4), ("usage", {}), ("usage", []), ("usage", ["cpu", 1_000_000, 0, 0]),
        ("profile", 7), ("profile", {"cpu_ppm": 1_000_001}), ("profile", {"network_mbs": 5}), ("profile", {"memory_mb": 0.5}),
        ("self_slowdown", [1_000_000]), ("self_slowdown", [1, 2, 3]), ("self_slowdown", [1, 0]), ("self_slowdown", [1.5, 2]),
        ("self_slowdown", [True, 1]), ("self_slowdown", 1), ("self_slowdown", {}), ("self_slowdown", "12"),
        ("usage", ["cpu", 1_000_000, 0, 0, 0, 0]), ("usage", ["memory", 1_000_000, 0, 0, 0]), ("usage", [0, 1_000_000, 0, 0, 0]),
    ],
)  # fmt: skip
def test_each_field_of_a_job_is_checked(field: str, value: object) -> None:
    message = {"type": "events", "seq": 1, "now_us": 0, "events": [{"type": "woken", "at_us": 0}]}
    good = {"type": "job_submitted", "job": JOB_RAW}
    assert decode_raw(message | {"events": [good]}) == m.Events(1, 0, (m.JobSubmitted(m.JobSpec(1, 0, 1, 1)),))
    with pytest.raises(RemoteProtocolError) as caught:
        decode_raw(message | {"events": [*message["events"], good | {"job": JOB_RAW | {field: value}}]})  # type: ignore[misc]
    assert caught.value.path.startswith(f"events[1].job.{field}")


@pytest.mark.parametrize(
    ("usage", "path", "text"),
    [
        (["gpu", 1_000_000, 0, 0, 0], "", "expected a list of cpu, network or disk and 4 integers, got a list"),
        (["cpu", 400_000, 300_000, 299_999, 0], "", "expected shares of cpu, network and disk that make up 1000000, got a list"),
        (["cpu", 0, 0, 0, 1_000_000], "", "expected shares of cpu, network and disk that make up 1000000, got a list"),
        (["cpu", 1_000_001, 0, -1, 0], "[1]", "expected an integer in 0 .. 1000000, got 1000001"),
        (["cpu", 0, 0.5, 0, 0], "[2]", "expected an integer in 0 .. 1000000, got 0.5"),
        (["cpu", 0, 0, True, 0], "[3]", "expected an integer in 0 .. 1000000, got true"),
        (["cpu", 1_000_000, 0, 0, 1_000_001], "[4]", "expected an integer in 0 .. 1000000, got 1000001"),
        (["cpu", 1_000_000, 0, 0, None], "[4]", "expected an integer in 0 .. 1000000, got nil"),
    ],
)  # fmt: skip
def test_each_part_of_a_usage_is_checked(usage: object, path: str, text: str) -> None:
    submitted = {"type": "job_submitted", "job": JOB_RAW | {"usage": usage}}
    with pytest.raises(RemoteProtocolError) as caught:
        decode_raw({"type": "events", "seq": 1, "now_us": 0, "events": [submitted]})
    assert (caught.value.path, caught.value.text) == (f"events[0].job.usage{path}", text)


@pytest.mark.parametrize("bound", ["cpu", "network", "disk"])
def test_usages_at_the_limits_are_accepted(bound: str) -> None:
    for usage in ((bound, 1_000_000, 0, 0, 0), (bound, 0, 0, 1_000_000, 1_000_000)):
        message = m.Events(1, 0, (m.JobSubmitted(m.JobSpec(1, 0, 1, 1, usage=usage)),))
        assert decode(encode(message)) == message


@pytest.mark.parametrize(
    ("place", "changes"),
    [
        ("belief.parameters", {"belief": {"parameters": {}}}),
        ("belief.parameters[0]", {"belief": {"parameters": [["remainder"]]}}),
        ("belief.parameters[1]", {"belief": {"parameters": [["remainder", 1], ["c", 1, 2]]}}),
        ("belief.parameters[0][0]", {"belief": {"parameters": [[1, 1]]}}),
        ("belief.parameters[0]", {"belief": {"parameters": ["remainder"]}}),
        ("belief.parameters[0][1]", {"belief": {"parameters": [["remainder", {"a": 1}]]}}),
        ("belief.parameters[0][1]", {"belief": {"parameters": [["c", float("inf")]]}}),
        ("running[0].suspended_us", {"running": {"suspended_us": -1}}),
        ("running[0].suspended_us", {"running": {"suspended_us": False}}),
        ("running[0].measured_ppm", {"running": {"measured_ppm": -1}}),
        ("running[0].measured_ppm", {"running": {"measured_ppm": None}}),
        ("running[0].estimate_us", {"running": {"estimate_us": 0}}),
        ("running[0].idle_us", {"running": {"idle_us": -1}}),
        ("running[0].on_disk", {"running": {"on_disk": 1}}),
        ("running[0].ready_us", {"running": {"ready_us": None}}),
        ("nodes[0].swap_mb", {"node": {"swap_mb": -1}}),
        ("nodes[0].swap_mb", {"node": {"swap_mb": 0.5}}),
        ("nodes[0].hardware", {"node": {"hardware": 7}}),
        ("nodes[0].hardware.caches[0].cores", {"node": {"hardware": {"caches": [{"level": 1, "size_kb": 1}]}}}),
        ("resume_us", {"welcome": {"resume_us": -1}}),
        ("resume_us", {"welcome": {"resume_us": None}}),
    ],
)
def test_beliefs_and_running_jobs_of_a_welcome_are_checked(place: str, changes: dict[str, Any]) -> None:
    raw = raw_of(WELCOME)
    raw["belief"] |= changes.get("belief", {})
    raw["running"][0] |= changes.get("running", {})
    raw["nodes"][0] |= changes.get("node", {})
    raw |= changes.get("welcome", {})
    with pytest.raises(RemoteProtocolError) as caught:
        decode_raw(raw)
    assert (caught.value.code, caught.value.path) == ("field", place)


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ({"type": "revise_job", "job_id": 1}, "estimate_us"),
        ({"type": "revise_job", "job_id": 1, "estimate_us": 0}, "estimate_us"),
        ({"type": "revise_job", "job_id": 1, "estimate_us": 1, "limit_us": 0}, "limit_us"),
        ({"type": "suspend_job", "job_id": None}, "job_id"),
        ({"type": "suspend_job", "job_id": 1, "to_disk": 1}, "to_disk"),
        ({"type": "suspend_job", "job_id": 1, "to_disk": None}, "to_disk"),
        ({"type": "resume_job"}, "job_id"),
        ({"type": "progress_measured", "job_id": 1, "slowdown_ppm": 0}, "slowdown_ppm"),
        ({"type": "progress_measured", "job_id": 1, "slowdown_ppm": 1.5}, "slowdown_ppm"),
        ({"type": "progress_measured", "slowdown_ppm": 1}, "job_id"),
    ],
)
def test_each_field_of_events_and_actions_of_running_jobs_is_checked(raw: dict[str, Any], field: str) -> None:
    kind = "events" if raw["type"] == "progress_measured" else "actions"
    with pytest.raises(RemoteProtocolError) as caught:
        decode_raw({"type": kind, "seq": 1, "now_us": 0, kind: [raw]})
    assert (caught.value.code, caught.value.path) == ("field", f"{kind}[0].{field}")


@pytest.mark.parametrize(
    ("place", "run"),
    [
        ("[0]", [-1, 1, 1, 1]), ("[0]", [MAX_NODES, 1, 1, 1]), ("[1]", [0, 0, 1, 1]), ("[1]", [0, MAX_NODES + 1, 1, 1]),
        ("[1]", [0, True, 1, 1]), ("[2]", [0, 1, 0, 1]), ("[2]", [0, 1, 2**63, 1]), ("[3]", [0, 1, 1, 0]),
        ("[2]", [0, 1, "ff", 1]), ("[2]", [0, 1, "0" + "f" * 17, 1]), ("[2]", [0, 1, "F" * 17, 1]),
        ("[2]", [0, 1, "f" * 257, 1]), ("[2]", [0, 1, "", 1]), ("[2]", [0, 1, "0x" + "f" * 17, 1]), ("", [0, 1, 1]),
        ("", [0, 1, 1, 1, 1]), ("", 4),
    ],
)  # fmt: skip
def test_each_part_of_a_run_is_checked(place: str, run: object) -> None:
    start = {"type": "start_job", "job_id": 1, "runs": [[0, 1, 1, 1], run], "estimate_us": 1}
    with pytest.raises(RemoteProtocolError) as caught:
        decode_raw({"type": "actions", "seq": 1, "now_us": 0, "actions": [start]})
    assert (caught.value.code, caught.value.path) == ("field", f"actions[0].runs[1]{place}")
    with pytest.raises(RemoteProtocolError, match="at least 1 item"):
        decode_raw({"type": "actions", "seq": 1, "now_us": 0, "actions": [start | {"runs": []}]})


def test_masks_of_wide_nodes_travel_as_text() -> None:
    wide = m.StartJob(1, runs_on((0, 1, 1, 1), (1, 1, (1 << 256) - 1, 1), (2, 1, INT64_MAX, 1)), 1, None)
    message = m.Actions(1, 0, (wide,))
    masks = [run[2] for run in raw_of(message)["actions"][0]["runs"]]
    assert masks == [1, "f" * 64, INT64_MAX]
    assert decode(encode(message)) == message
