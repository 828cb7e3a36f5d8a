"""The limits of notes are the same in one process as on the wire, and the refusal names the limit."""

from __future__ import annotations

import pytest
from tests.plugin.core.parts import NOW_US, core_with

from cosched_plugin.common.errors import PolicyError
from cosched_plugin.protocol.limits import MAX_ARRAY_ITEMS, MAX_DEPTH, MAX_NAME_BYTES, MAX_NOTE_BYTES, MAX_STRING_BYTES
from cosched_plugin.protocol.messages import NoteValue, SetNote


def nested(levels: int) -> NoteValue:
    value: NoteValue = 1
    for _ in range(levels):
        value = (value,)
    return value


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("k" * (MAX_NAME_BYTES + 1), 1, f"key: a name of more than {MAX_NAME_BYTES} bytes"),
        ("new", ("a", "x" * (MAX_STRING_BYTES + 1)), f"value[1]: a string of 65537 bytes; the limit is {MAX_STRING_BYTES}"),
        ("new", (0,) * (MAX_ARRAY_ITEMS + 1), f"value: a list of 1048577 items; the limit is {MAX_ARRAY_ITEMS}"),
        ("new", nested(MAX_DEPTH + 1), f"more than {MAX_DEPTH} levels of nesting"),
        ("new", nested(100_000), f"more than {MAX_DEPTH} levels of nesting"),
        ("new", ("x" * MAX_STRING_BYTES,) * 16, f"value: a value of 1048661 bytes in all; the limit is {MAX_NOTE_BYTES}"),
        ("new", 1 << 63, "value: expected an integer of 64 bits, got 9223372036854775808; a value is None, a bool"),
        ("new", (1, float("inf")), "value[1]: expected a finite number, got inf; a value is None, a bool"),
        ("new", "\ud800", "value: a string that has no form in UTF-8"),
        ("\ud800", 1, "key: a string that has no form in UTF-8"),
    ],
    ids=["name", "string", "items", "depth", "endless", "all", "integer", "float", "text", "text-key"],
)  # fmt: skip
def test_a_note_beyond_the_limits_of_the_protocol_is_impossible(key: str, value: NoteValue, reason: str) -> None:
    with pytest.raises(PolicyError) as caught:
        core_with(SetNote(None, key, value)).handle(NOW_US, ())
    assert caught.value.reason.startswith("the note cannot travel: ")
    assert reason in caught.value.reason
    assert len(str(caught.value)) < 1_500
    assert "\n" not in str(caught.value)
