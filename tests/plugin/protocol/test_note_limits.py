"""The limits of a note: the check of a decision, the encoder and the decoder apply the same rule."""

from __future__ import annotations

from typing import Any, cast

import msgpack  # type: ignore[import-untyped]
import pytest
from hypothesis import strategies as st
from tests.plugin.protocol.samples import WELCOME, decode_raw, nested, raw_of
from tests.properties import drawn
from tests.runs import runs_on

from cosched_plugin.common.errors import LocalProtocolError, RemoteProtocolError
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.codec import decode, encode
from cosched_plugin.protocol.errors import Fault
from cosched_plugin.protocol.limits import MAX_DEPTH, MAX_NAME_BYTES, MAX_NOTE_BYTES, MAX_STRING_BYTES
from cosched_plugin.protocol.values import check_note, note_of_runs, runs_of_note, value_bytes

FULL = "x" * MAX_STRING_BYTES
# 15 full strings and one that fills the rest; each item, and the list, counts 5 more bytes.
LARGEST = (FULL,) * 15 + ("y" * (MAX_NOTE_BYTES - 5 - 15 * (MAX_STRING_BYTES + 5) - 5),)


def tuples(value: Any) -> Any:
    return tuple(tuples(item) for item in value) if isinstance(value, list) else value


def reply(key: Any, value: Any) -> m.Actions:
    return m.Actions(1, 0, (m.SetNote(None, key, value),))


@pytest.mark.parametrize(
    ("key", "value", "path"),
    [
        ("k" * (MAX_NAME_BYTES + 1), 1, "key"),
        ("é" * (MAX_NAME_BYTES // 2 + 1), 1, "key"),
        ("k", (*LARGEST, 1), "value"),
        ("k", (1, (2, "é" * (MAX_STRING_BYTES // 2 + 1))), "value[1][1]"),
        ("k", (1,) * (MAX_NOTE_BYTES // 9 + 1), "value"),
        ("k", tuples(nested(MAX_DEPTH + 1)), "value" + "[0]" * MAX_DEPTH),
    ],
    ids=lambda value: str(value)[:12],
)
def test_a_note_beyond_a_limit_is_neither_sent_nor_read(key: str, value: Any, path: str) -> None:
    with pytest.raises(Fault) as caught:
        check_note(key, value)
    assert (caught.value.code, caught.value.path) == ("limit", path)
    with pytest.raises(LocalProtocolError):
        encode(reply(key, value))
    action = {"type": "set_note", "key": key, "value": value}
    note = {"key": key, "value": value}
    for raw in (
        {"type": "actions", "seq": 1, "now_us": 0, "actions": [action]},
        cast("dict[str, Any]", raw_of(WELCOME)) | {"notes": [note]},
    ):
        with pytest.raises(RemoteProtocolError) as refused:
            decode_raw(raw)
        assert refused.value.code in ("limit", "malformed")  # a string that is too long is not unpacked


@pytest.mark.parametrize(
    ("key", "value"),
    [("k" * MAX_NAME_BYTES, 1), ("k", LARGEST), ("k", tuples(nested(MAX_DEPTH))), ("k", "é" * (MAX_STRING_BYTES // 2))],
    ids=lambda value: str(value)[:12],
)
def test_a_note_up_to_the_limits_is_sent_and_read(key: str, value: Any) -> None:
    check_note(key, value)
    assert decode(encode(reply(key, value))) == reply(key, value)
    welcome = WELCOME._replace(notes=(m.Note(None, key, value),))
    assert decode(encode(welcome)) == welcome


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner).map(tuple),
    max_leaves=30,
)


@drawn(values, few=40, many=100)
def test_a_value_counts_at_least_its_bytes(value: Any) -> None:
    assert value_bytes(value) >= len(msgpack.packb(value))


def test_a_note_may_hold_runs() -> None:
    """Runs are encoded as plain tuples, and count the same number of bytes."""
    value = (5, *runs_on((0, 2, 0b11, 2), (4, 1, 0b1, 1)))
    plain = (5, (0, 2, 0b11, 2), (4, 1, 0b1, 1))
    for noted in (value, value[1]):
        check_note("k", noted)
        assert decode(encode(reply("k", noted))) == reply("k", noted)
    assert value_bytes(value) == value_bytes(plain)
    assert encode(reply("k", value)) == encode(reply("k", plain))


@pytest.mark.parametrize("threads", [1, 63, 64, 65, 128, 256])
def test_an_allocation_in_a_note_travels_on_nodes_of_any_width(threads: int) -> None:
    runs = runs_on((0, 2, (1 << threads) - 1, threads), (2, 1, 1 << threads - 1, 1))
    message = reply("k", (7, *note_of_runs(runs)))
    arrived = cast("m.Actions", decode(encode(message)))
    assert arrived == message
    assert runs_of_note(cast("m.SetNote", arrived.actions[0]).value[1:]) == runs  # type: ignore[index]
