"""Messages arrive as they were sent; unknown fields are ignored, and invalid messages are not sent."""

import random
from typing import Annotated, Any, NamedTuple

import msgpack  # type: ignore[import-untyped]
import pytest
from hypothesis import strategies as st
from tests.plugin.protocol.samples import (
    ACTIONS,
    BELIEF,
    EVENTS,
    JOB_RAW,
    SAMPLES,
    SPECS,
    START,
    WELCOME,
    decode_raw,
    nested,
    outcome,
    raw_of,
)
from tests.properties import drawn
from tests.runs import run_on

from cosched_hwmodel.composite.job_profile import Profile
from cosched_plugin.common.errors import LocalProtocolError, RemoteProtocolError
from cosched_plugin.protocol import codec, vocabulary
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.codec import decode, encode
from cosched_plugin.protocol.errors import Fault
from cosched_plugin.protocol.fields import Items
from cosched_plugin.protocol.limits import INT64_MAX, INT64_MIN, MAGIC, MAX_DEPTH, MAX_FRAME_BYTES, MAX_NODES, MAX_SLOTS
from cosched_plugin.protocol.vocabulary import MESSAGES_BY_KIND

# ---------------------------------------------------------------- round trips

times = st.integers(0, INT64_MAX)
spans = st.integers(1, INT64_MAX)
words = st.text(max_size=12)
names = st.text(max_size=20)
nodes = st.integers(0, MAX_NODES - 1)
masks = st.integers(1, 255) | st.integers(2**62, 2**300)
runs = st.lists(st.builds(run_on, nodes, st.integers(1, MAX_NODES), masks, spans), min_size=1, max_size=3).map(tuple)
limits = st.none() | spans
parts = st.integers(0, 1_000_000)
slots = st.integers(0, MAX_SLOTS - 1)
profiles = st.tuples(st.integers(1, 1_000_000), st.integers(0, 4_000_000)).map(lambda values: Profile(*values))
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
    unpaired=st.booleans(),
    profile=st.none() | profiles,
    eligible=st.just(()) | st.tuples(st.tuples(nodes, st.integers(1, MAX_NODES))),
    resources=st.just(()) | st.tuples(st.tuples(st.just("gpu"), spans)),
    licences=st.just(()) | st.tuples(st.tuples(st.just("solver"), spans)),
    priority=st.integers(INT64_MIN, INT64_MAX),
) | st.tuples(times, times, spans, spans, limits, words).map(lambda fields: m.JobSpec(*fields))
scalars = (
    st.none()
    | st.booleans()
    | st.integers(INT64_MIN, INT64_MAX)
    | st.floats(allow_nan=False, allow_infinity=False)
    | words
)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)
starts = st.builds(m.StartJob, times, runs, spans, limits, st.just(0) | slots)
turns = st.builds(
    m.Turn, st.lists(slots, min_size=1, max_size=3).map(tuple), spans, st.lists(times, max_size=3).map(tuple)
)
rotations = st.lists(turns, max_size=3).map(tuple)
actions: st.SearchStrategy[m.Action] = st.one_of(
    starts,
    st.builds(m.StartTogether, st.lists(starts, min_size=1, max_size=3).map(tuple)),
    st.builds(m.ReviseJob, times, spans, limits),
    st.builds(m.SuspendJob, times, st.booleans()),
    st.builds(m.ResumeJob, times),
    st.builds(m.SetRotation, spans, rotations),
    st.builds(m.ChangeSlot, times, slots),
    st.builds(m.SetNote, st.none() | times, names, values),
    st.builds(m.WakeAt, times),
    st.builds(m.RejectJob, times, words),
    st.builds(m.RequeueJob, times),
    st.builds(m.KillJob, times),
    st.builds(m.SubmitJob, jobs),
)
OF_FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "job": jobs,
    "job_id": times,
    "state": st.sampled_from(sorted(m.END_STATES)),
    "node": nodes,
    "until_us": times,
    "slowdown_ppm": spans,
    "at_us": times,
    "seq": spans,
    "action": times,
    "reason": words,
    "job_ids": st.lists(times, max_size=3).map(tuple),
    "quantum": spans,
    "slot": slots,
    "start_us": times,
    "runs": runs,
    "estimate_us": spans,
    "limit_us": limits,
    "to_disk": st.booleans(),
    "left": times,
    "shares": st.lists(st.tuples(times, times), max_size=3).map(tuple),
}
events: st.SearchStrategy[m.Event] = st.one_of(
    [st.builds(kind, *[OF_FIELDS[field] for field in kind._fields]) for kind in m.Event.__args__]
)
small = st.integers(1, 10)
caches = st.builds(m.CacheLevel, small, small, small, times, times)
hardware = st.builds(m.NodeHardware, times, times, st.lists(caches, max_size=3).map(tuple))
amounts = st.just(()) | st.tuples(st.tuples(st.just("solver"), spans))
classes = st.builds(
    m.NodeClass, small, small, small, small, times, times, times, times, times, st.none() | hardware, amounts
)


def tuples(of: st.SearchStrategy[Any], least: int = 0) -> st.SearchStrategy[Any]:
    return st.lists(of, min_size=least, max_size=3).map(tuple)


messages: st.SearchStrategy[m.Message] = st.one_of(
    st.builds(m.Hello, tuples(spans), tuples(names), words.filter(bool), words, st.booleans(), times),
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
                m.RunningJob,
                jobs,
                times,
                runs,
                spans,
                limits,
                st.none() | times,
                times,
                times,
                st.booleans(),
                times,
                slots,
                times,
                tuples(times),
                st.booleans(),
            )
        ),
        tuples(st.builds(m.PendingJob, jobs, st.booleans())),
        tuples(st.builds(m.Note, st.none() | times, names, values)),
        tuples(times),
        times,
        times,
        st.none() | st.builds(m.SlotState, spans, times, rotations, times),
        st.builds(
            m.Capabilities,
            st.booleans(),
            spans,
            times,
            st.booleans(),
            st.booleans(),
            st.sampled_from(sorted(m.LAYOUTS)),
        ),
        amounts,
        switch_us=times,
        image_mbs=times,
        returns=tuples(times),
    ),
    st.builds(m.Ready, times, times),
    st.builds(m.Events, spans, times, tuples(events), times),
    st.builds(m.Actions, spans, times, tuples(actions), times),
    st.builds(m.Resync, words, tuples(st.tuples(times, times)), times),
    st.builds(m.Ping, st.integers(INT64_MIN, INT64_MAX)),
    st.builds(m.Pong, st.integers(INT64_MIN, INT64_MAX)),
    st.builds(m.ErrorReport, words, words, words),
    st.builds(m.Bye, words),
)


@drawn(messages, few=100, many=300)
def test_messages_arrive_as_they_were_sent(message: m.Message) -> None:
    frames = encode(message)
    arrived = decode(frames)
    assert arrived == message
    assert repr(arrived) == repr(message)  # also tells True from 1, and a Note from a SetNote
    assert encode(arrived) == frames


@pytest.mark.parametrize("message", SAMPLES, ids=lambda message: type(message).__name__)
def test_samples_arrive(message: m.Message) -> None:
    assert repr(decode(encode(message))) == repr(message)


def test_every_message_event_and_action_has_a_sample() -> None:
    assert {type(message) for message in SAMPLES} == set(MESSAGES_BY_KIND)
    assert {type(event) for event in EVENTS} == set(m.Event.__args__)
    assert {type(action) for action in ACTIONS} == set(m.Action.__args__) - {m.UnknownAction}
    # ... and every optional field of a job, a running job and a belief is in use at least once.
    kinds: list[tuple[Any, Any]] = [
        (m.JobSpec, SPECS), (m.RunningJob, WELCOME.running), (m.Belief, (WELCOME.belief,)), (m.NodeClass, WELCOME.nodes),
        (m.Welcome, (WELCOME,)), (m.SuspendJob, [action for action in ACTIONS if isinstance(action, m.SuspendJob)]),
    ]  # fmt: skip
    for record, samples in kinds:
        defaults = record._field_defaults
        assert all(any(getattr(each, name) != usual for each in samples) for name, usual in defaults.items())


# ---------------------------------------------------------------- what is not as it should be

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


def test_mutated_messages_are_read_or_refused_with_code_and_path() -> None:
    draw = random.Random(1)
    bodies = []
    for _ in range(3000):
        raw = raw_of(draw.choice(SAMPLES[1:5]))
        for _ in range(draw.choice((1, 1, 2))):
            raw = mutate(raw, draw)
        bodies.append(msgpack.packb(raw))
    found = [outcome(body) for body in bodies]
    assert sum(text.startswith(("Events", "Actions", "Welcome")) for text in found) > 250
    assert len({text for text in found if "|" in text}) > 200


class Few(NamedTuple):
    """A message with a bound on a list of tagged records."""

    actions: Annotated[tuple[m.Action, ...], Items(0, 2)]
    numbers: Annotated[tuple[int, ...], Items(1, 2)] = (1,)


def test_a_list_has_the_bounds_of_its_annotation() -> None:
    few, wake = vocabulary.record(Few), {"type": "wake_at", "at_us": 1}
    assert few.read({"actions": (wake,) * 2}) == Few((m.WakeAt(1),) * 2)
    for raw, text in (
        ({"actions": (wake,) * 3}, "3 items; the limit is 2"),
        ({"actions": (), "numbers": (1, 2, 3)}, "3 items; the limit is 2"),
        ({"actions": (), "numbers": ()}, "at least 1 item"),
    ):
        with pytest.raises(Fault, match=text):
            few.read(raw)


@pytest.mark.parametrize("hint", [float, list[int], "tuple[int, ...]", int | str, dict])
def test_a_type_without_a_form_is_refused(hint: Any) -> None:
    with pytest.raises(TypeError, match="no form for"):
        vocabulary.record(NamedTuple("Odd", [("field", hint)]))


# ---------------------------------------------------------------- newer messages


def test_unknown_fields_are_ignored_wherever_they_are() -> None:
    raw = raw_of(SAMPLES[3])
    raw["later"] = {"a": [1, 2.5, None, "x"]}
    for event in raw["events"]:
        event["later"] = [1]
        if "job" in event:
            event["job"]["later"] = {"type": "map"}
    assert decode_raw(raw) == SAMPLES[3]


def test_unknown_actions_arrive_by_name_to_be_refused() -> None:
    raw = raw_of(SAMPLES[4])
    raw["actions"].insert(1, {"type": "grow_job", "job_id": 3, "by": [1, 2]})
    arrived = decode_raw(raw)
    assert isinstance(arrived, m.Actions)
    assert arrived.actions == (ACTIONS[0], m.UnknownAction("grow_job"), *ACTIONS[1:])
    assert decode(encode(arrived)) == arrived  # as in a manager's journal


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


# ---------------------------------------------------------------- invalid messages


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
def test_values_without_a_form_on_the_wire_are_not_sent(message: m.Message) -> None:
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
