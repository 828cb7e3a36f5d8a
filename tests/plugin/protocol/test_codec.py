"""Bytes in, checked messages or RemoteProtocolError out, and nothing else."""

from __future__ import annotations

import random
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosched_plugin.errors import LocalProtocolError, RemoteProtocolError
from cosched_plugin.protocol import codec, fast
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.codec import decode, encode
from cosched_plugin.protocol.limits import (
    INT64_MAX,
    INT64_MIN,
    MAGIC,
    MAX_ARRAY_ITEMS,
    MAX_DEPTH,
    MAX_FRAME_BYTES,
    MAX_MAP_ITEMS,
    MAX_NAME_BYTES,
    MAX_NODES,
    MAX_STRING_BYTES,
)
from cosched_plugin.protocol.records import write_record
from cosched_plugin.protocol.vocabulary import MESSAGES_BY_KIND

JOB = m.JobSpec(3, 1_000_000, 4, 60_000_000, 60_000_000, "ada", "wave", 2, 4, 2, 512, True, (500, 0, 10))
USAGE: m.UsageTuple = ("cpu", 700_000, 100_000, 200_000, 250_000)
START = m.StartJob(3, ((0, 2, 15, 4), (7, 1, 3, 1)), 60_000_000, 90_000_000)
PARAMETERS = (("remainder", True), ("c_scope", "all"), ("pair_seed", -1), ("levels", (1, 2.5, None)))
BELIEF = m.Belief("bandwidth", "bulk-synchronous", ("memory_bandwidth",), PARAMETERS)
WELCOME = m.Welcome(
    1,
    m.FEATURES,
    7,
    5_000_000,
    (m.NodeClass(84, 1, 4, 1, 16_384, 6_000, 256, 100), m.NodeClass(1, 1, 2, 1, 16_384, 6_000, 256, 100, 32_768)),
    (3, 4),
    BELIEF,
    (
        m.RunningJob(JOB, 2_000_000, START.runs, 60_000_000, None),
        m.RunningJob(JOB._replace(id=8), 2_000_000, START.runs, 60_000_000, 90_000_000, 4_000_000, 1_500_000),
        m.RunningJob(JOB._replace(id=11), 0, START.runs, 60_000_000, None, 4_500_000, 0, 700_000, True, 3_900_000),
    ),
    (m.PendingJob(JOB._replace(id=9), True), m.PendingJob(m.JobSpec(10, 0, 1, 1), False)),
    (m.Note(3, "group", (1, "a", (None, 2.5))), m.Note(None, "mean_wait_us", 12)),
    (6_000_000, 7_000_000),
    30_000_000,
    3,
)
ACTIONS: tuple[m.Action, ...] = (
    START,
    m.StartTogether((START, START._replace(job_id=4, limit_us=None))),
    m.ReviseJob(3, 70_000_000, 95_000_000),
    m.ReviseJob(4, 70_000_000, None),
    m.SuspendJob(3),
    m.SuspendJob(3, to_disk=True),
    m.ResumeJob(4),
    m.SetNote(3, "level", 2),
    m.SetNote(None, "mean_wait_us", None),
    m.WakeAt(5_000_001),
    m.RejectJob(8, "asks for more nodes than there are"),
)
EVENTS: tuple[m.Event, ...] = (
    m.JobEnded(1, m.COMPLETED),
    m.JobRequeued(2),
    m.NodeFailed(5),
    m.NodeReturned(6),
    m.JobHeld(7),
    m.JobReleased(7),
    m.JobSubmitted(JOB),
    m.JobSubmitted(m.JobSpec(4, 1, 2, 3)),
    m.JobSubmitted(m.JobSpec(5, 1, 2, 3, 4, "bob")),
    m.JobSubmitted(m.JobSpec(6, 1, 2, 3, 4, "bob", usage=USAGE)),
    m.JobSubmitted(m.JobSpec(7, 1, 2, 3, 4, "bob", self_slowdown=(950_000, 1_250_000))),
    m.ProgressMeasured(3, 1_730_000),
    m.Woken(5_000_001),
    m.ActionRefused(6, 0, "stale", (3, 4)),
)
SPECS = [event.job for event in EVENTS if isinstance(event, m.JobSubmitted)]
SAMPLES: tuple[m.Message, ...] = (
    m.Hello((1,), m.FEATURES, "42-beef", "easy", True, 3),
    WELCOME,
    m.Ready(7, 3),
    m.Events(8, 5_000_001, EVENTS, 3),
    m.Actions(8, 5_000_001, ACTIONS, 3),
    m.Ping(1),
    m.Pong(-1),
    m.ErrorReport("state", "type", "say hello first"),
    m.Bye("done"),
)


def raw_of(message: m.Message) -> Any:
    return msgpack.unpackb(encode(message)[1])


def decode_raw(raw: Any) -> m.Message:
    return decode([MAGIC, msgpack.packb(raw)])


# ---------------------------------------------------------------- round trips

times = st.integers(0, INT64_MAX)
spans = st.integers(1, INT64_MAX)
words = st.text(max_size=12)
names = st.text(max_size=20)
nodes = st.integers(0, MAX_NODES - 1)
masks = st.integers(1, 255) | st.integers(2**62, 2**300)
runs = st.lists(st.tuples(nodes, st.integers(1, MAX_NODES), masks, spans), min_size=1, max_size=3).map(tuple)
limits = st.none() | spans
parts = st.integers(0, 1_000_000)
usages = st.tuples(st.sampled_from(("cpu", "network", "disk")), parts, parts, parts).map(
    lambda drawn: (drawn[0], min(drawn[1:3]), abs(drawn[1] - drawn[2]), 1_000_000 - max(drawn[1:3]), drawn[3])
)
jobs = st.builds(
    m.JobSpec,
    times,
    times,
    spans,
    spans,
    limits,
    user=words,
    name=words,
    ppn_min=st.integers(1, 8),
    ppn_max=st.integers(0, 8),
    threads_per_process=st.integers(1, 4),
    memory_mb=st.integers(0, 4),
    exclusive=st.booleans(),
    demand=st.none() | st.tuples(times, times, times),
    usage=st.none() | usages,
    self_slowdown=st.none() | st.tuples(spans, spans),
) | st.tuples(times, times, spans, spans, limits, words).map(lambda fields: m.JobSpec(*fields))
scalars = (
    st.none()
    | st.booleans()
    | st.integers(INT64_MIN, INT64_MAX)
    | st.floats(allow_nan=False, allow_infinity=False)
    | words
)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)
starts = st.builds(m.StartJob, times, runs, spans, limits)
actions: st.SearchStrategy[m.Action] = st.one_of(
    starts,
    st.builds(m.StartTogether, st.lists(starts, min_size=1, max_size=3).map(tuple)),
    st.builds(m.ReviseJob, times, spans, limits),
    st.builds(m.SuspendJob, times, st.booleans()),
    st.builds(m.ResumeJob, times),
    st.builds(m.SetNote, st.none() | times, names, values),
    st.builds(m.WakeAt, times),
    st.builds(m.RejectJob, times, words),
)
events: st.SearchStrategy[m.Event] = st.one_of(
    st.builds(m.JobSubmitted, jobs),
    st.builds(m.JobEnded, times, st.sampled_from(sorted(m.END_STATES))),
    st.builds(m.JobRequeued, times),
    st.builds(m.JobHeld, times),
    st.builds(m.JobReleased, times),
    st.builds(m.NodeFailed, nodes),
    st.builds(m.NodeReturned, nodes),
    st.builds(m.ProgressMeasured, times, spans),
    st.builds(m.Woken, times),
    st.builds(m.ActionRefused, spans, times, words, st.lists(times, max_size=3).map(tuple)),
)
small = st.integers(1, 10)
classes = st.builds(m.NodeClass, small, small, small, small, times, times, times, times, times)


def tuples(of: st.SearchStrategy[Any], least: int = 0) -> st.SearchStrategy[Any]:
    return st.lists(of, min_size=least, max_size=3).map(tuple)


messages: st.SearchStrategy[m.Message] = st.one_of(
    st.builds(m.Hello, tuples(spans), tuples(names), words, words, st.booleans(), times),
    st.builds(
        m.Welcome,
        spans,
        tuples(names),
        times,
        times,
        tuples(classes, 1),
        tuples(nodes),
        st.builds(m.Belief, words, words, tuples(names), tuples(st.tuples(names, values))),
        tuples(
            st.builds(
                m.RunningJob, jobs, times, runs, spans, limits, st.none() | times, times, times, st.booleans(), times
            )
        ),
        tuples(st.builds(m.PendingJob, jobs, st.booleans())),
        tuples(st.builds(m.Note, st.none() | times, names, values)),
        tuples(times),
        times,
        times,
    ),
    st.builds(m.Ready, times, times),
    st.builds(m.Events, spans, times, tuples(events), times),
    st.builds(m.Actions, spans, times, tuples(actions), times),
    st.builds(m.Ping, st.integers(INT64_MIN, INT64_MAX)),
    st.builds(m.Pong, st.integers(INT64_MIN, INT64_MAX)),
    st.builds(m.ErrorReport, words, words, words),
    st.builds(m.Bye, words),
)


@settings(deadline=None, max_examples=300)
@given(messages)
def test_what_is_sent_is_what_arrives(message: m.Message) -> None:
    frames = encode(message)
    arrived = decode(frames)
    assert arrived == message
    assert repr(arrived) == repr(message)  # also tells True from 1, and a Note from a SetNote
    assert encode(arrived) == frames
    assert write_record(MESSAGES_BY_KIND[type(message)], message) == fast.write(message)


@pytest.mark.parametrize("message", SAMPLES, ids=lambda message: type(message).__name__)
def test_samples_arrive(message: m.Message) -> None:
    assert repr(decode(encode(message))) == repr(message)


def test_every_message_event_and_action_has_a_sample() -> None:
    assert {type(message) for message in SAMPLES} == set(MESSAGES_BY_KIND)
    assert {type(event) for event in EVENTS} == set(m.Event.__args__)
    assert {type(action) for action in ACTIONS} == set(m.Action.__args__) - {m.UnknownAction}
    # ... and whatever a job, a running job and a belief may say is said at least once.
    kinds: list[tuple[Any, Any]] = [
        (m.JobSpec, SPECS), (m.RunningJob, WELCOME.running), (m.Belief, (WELCOME.belief,)), (m.NodeClass, WELCOME.nodes),
        (m.Welcome, (WELCOME,)), (m.SuspendJob, [action for action in ACTIONS if isinstance(action, m.SuspendJob)]),
    ]  # fmt: skip
    for record, samples in kinds:
        defaults = record._field_defaults
        assert all(any(getattr(each, name) != usual for each in samples) for name, usual in defaults.items())


# ---------------------------------------------------------------- the short cuts say what the tables say

JUNK: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2**63,
    1.5,
    float("nan"),
    "",
    "4",
    b"",
    b"x",
    [],
    [1],
    {},
    {"type": "woken"},
    msgpack.Timestamp(0),
)


def mutate(raw: Any, draw: random.Random) -> Any:
    """Return ``raw`` with one thing changed somewhere inside."""
    if isinstance(raw, dict) and raw:
        key = draw.choice(sorted(raw, key=str))
        kind = draw.randrange(4)
        if kind == 0:
            return {name: value for name, value in raw.items() if name != key}
        if kind == 1:
            return raw | {draw.choice(("new", "limit_us", "user", "exclusive", "type")): draw.choice(JUNK)}
        return raw | {key: draw.choice(JUNK) if kind == 2 and draw.random() < 0.5 else mutate(raw[key], draw)}
    if isinstance(raw, list) and raw and draw.random() < 0.9:
        place = draw.randrange(len(raw))
        return [*raw[:place], mutate(raw[place], draw), *raw[place + 1 :]]
    return draw.choice(JUNK)


def outcome(body: bytes) -> str:
    try:
        return repr(decode([MAGIC, body]))
    except RemoteProtocolError as error:
        return f"{error.code}|{error.path}|{error.text}"


def test_short_cuts_and_tables_agree_on_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(1)
    bodies = []
    for _ in range(6000):
        raw = raw_of(draw.choice(SAMPLES[1:5]))
        for _ in range(draw.choice((1, 1, 2))):
            raw = mutate(raw, draw)
        bodies.append(msgpack.packb(raw))
    short = [outcome(body) for body in bodies]
    monkeypatch.setattr(codec, "read_batch", lambda _: None)
    assert short == [outcome(body) for body in bodies]
    assert sum(text.startswith(("Events", "Actions", "Welcome")) for text in short) > 500
    assert len({text for text in short if "|" in text}) > 200


# ---------------------------------------------------------------- bytes that are no message


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
    for _ in range(20_000):
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
    "frames",
    [[], [MAGIC], [b"cosched/2", b"\x80"], [b"", b"\x80"], [MAGIC, b"\x80", b""], [b"\x80", MAGIC]],
)
def test_wrong_frames_are_refused(frames: list[bytes]) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode(frames)
    assert caught.value.code == "frame"


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


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
def test_what_is_wrong_is_told_with_its_place(change: dict[Any, Any], code: str, path: str, text: str | None) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode_raw({"type": "events", "seq": 1, "now_us": 0, "events": []} | change)
    error = caught.value
    assert (error.code, error.path) == (code, path)
    assert text is None or error.text == text
    assert str(error).startswith(error.path)


JOB_RAW = {"id": 1, "submit_us": 0, "processes": 1, "estimate_us": 1}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", -1), ("submit_us", -1), ("processes", 0), ("estimate_us", 0), ("limit_us", 0), ("limit_us", 1.5),
        ("user", 4), ("user", None), ("name", None), ("ppn_min", 0), ("ppn_max", -1), ("threads_per_process", 0),
        ("memory_mb", -1), ("exclusive", 1), ("exclusive", None), ("demand", [1, 2]), ("demand", [1, 2, -3]),
        ("demand", [1, 2, 3.0]), ("demand", 4), ("usage", 4), ("usage", {}), ("usage", []), ("usage", ["cpu", 1_000_000, 0, 0]),
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
def test_usages_at_the_edge_are_fine(bound: str) -> None:
    for usage in ((bound, 1_000_000, 0, 0, 0), (bound, 0, 0, 1_000_000, 1_000_000)):
        message = m.Events(1, 0, (m.JobSubmitted(m.JobSpec(1, 0, 1, 1, usage=usage)),))
        assert decode(encode(message)) == message


@pytest.mark.parametrize(
    ("place", "changes"),
    [
        ("belief.parameters", {"belief": {"parameters": {}}}),
        ("belief.parameters[0]", {"belief": {"parameters": [["remainder"]]}}),
        ("belief.parameters[1]", {"belief": {"parameters": [["remainder", 1], ["c", 1, 2]]}}),
        ("belief.parameters[0]", {"belief": {"parameters": [[1, 1]]}}),
        ("belief.parameters[0]", {"belief": {"parameters": ["remainder"]}}),
        ("belief.parameters[0]", {"belief": {"parameters": [["remainder", {"a": 1}]]}}),
        ("belief.parameters[0]", {"belief": {"parameters": [["c", float("inf")]]}}),
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
        ("resume_us", {"welcome": {"resume_us": -1}}),
        ("resume_us", {"welcome": {"resume_us": None}}),
    ],
)
def test_what_a_welcome_says_of_beliefs_and_running_jobs_is_checked(place: str, changes: dict[str, Any]) -> None:
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
def test_each_field_of_what_happens_to_running_jobs_is_checked(raw: dict[str, Any], field: str) -> None:
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
    wide = m.StartJob(1, ((0, 1, 1, 1), (1, 1, (1 << 256) - 1, 1), (2, 1, INT64_MAX, 1)), 1, None)
    message = m.Actions(1, 0, (wide,))
    masks = [run[2] for run in raw_of(message)["actions"][0]["runs"]]
    assert masks == [1, "f" * 64, INT64_MAX]
    assert decode(encode(message)) == message


# ---------------------------------------------------------------- growing


def test_unknown_fields_are_ignored_wherever_they_are() -> None:
    raw = raw_of(SAMPLES[3])
    raw["later"] = {"a": [1, 2.5, None, "x"]}
    for event in raw["events"]:
        event["later"] = [1]
        if "job" in event:
            event["job"]["later"] = {"type": "map"}
    assert decode_raw(raw) == SAMPLES[3]


def test_unknown_actions_arrive_by_name_so_that_they_can_be_refused() -> None:
    raw = raw_of(SAMPLES[4])
    raw["actions"].insert(1, {"type": "grow_job", "job_id": 3, "by": [1, 2]})
    arrived = decode_raw(raw)
    assert isinstance(arrived, m.Actions)
    assert arrived.actions == (ACTIONS[0], m.UnknownAction("grow_job"), *ACTIONS[1:])
    assert decode(encode(arrived)) == arrived  # as it is in a manager's journal


def test_fields_at_their_default_are_left_out() -> None:
    batch = raw_of(m.Events(1, 0, (m.JobSubmitted(m.JobSpec(1, 0, 1, 1)),)))
    assert batch["events"] == [{"type": "job_submitted", "job": JOB_RAW}]
    reply = raw_of(m.Actions(1, 0, (START._replace(limit_us=None),)))
    assert set(reply["actions"][0]) == {"type", "job_id", "runs", "estimate_us"}
    assert raw_of(m.Bye("")) == {"type": "bye"}
    bare = WELCOME._replace(
        features=(),
        nodes=WELCOME.nodes[:1],
        down=(),
        notes=(),
        wakes=(),
        belief=BELIEF._replace(parameters=()),
        running=WELCOME.running[:1],
        resume_us=0,
    )
    assert not {"features", "down", "notes", "wakes", "resume_us"} & set(raw_of(bare))
    assert "swap_mb" not in raw_of(bare)["nodes"][0]
    assert set(raw_of(m.Actions(1, 0, (m.SuspendJob(1),)))["actions"][0]) == {"type", "job_id"}
    assert "parameters" not in raw_of(bare)["belief"]
    assert set(raw_of(bare)["running"][0]) == {"spec", "start_us", "runs", "estimate_us"}
    assert decode(encode(bare)) == bare


# ---------------------------------------------------------------- what we may not send


@pytest.mark.parametrize(
    "message",
    [
        m.Ready(2**64),
        m.Ready(object()),  # type: ignore[arg-type]
        m.Bye("\ud800"),
        m.Actions(1, 0, (m.SetNote(None, "k", float("nan")),)),
        m.Actions(1, 0, (m.SetNote(None, "k", nested(MAX_DEPTH + 1)),)),
        m.Actions(1, 0, ("start",)),  # type: ignore[arg-type]
        "hello",
    ],
)
def test_what_has_no_form_on_the_wire_is_not_sent(message: m.Message) -> None:
    with pytest.raises(LocalProtocolError):
        encode(message)


def test_a_frame_beyond_the_limit_is_neither_sent_nor_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MAX_FRAME_BYTES", 30)
    with pytest.raises(LocalProtocolError, match="limit"):
        encode(m.Bye("x" * 30))
    with pytest.raises(RemoteProtocolError) as caught:
        decode([MAGIC, b"\x80" * 31])
    assert caught.value.code == "limit"
    assert MAX_FRAME_BYTES == 64 * 1024 * 1024
