"""TOML and JSON from outside: what is wrong is one kind of error, and says where."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cosched_hwmodel.text_formats import json_of, toml_of

DEEP = "[" * 100_000 + "]" * 100_000
DIGITS = "9" * 5_000


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[1, 2", "Expecting"),
        (b"\xff\xfe\xff", "codec can't decode"),
        (DEEP, "^nested too deeply$"),
        (f'{{"a": [{DIGITS}]}}', "Exceeds the limit"),
        (f'{{"a": [{{"b": {"9" * 400}}}]}}', "^a.b: an integer of more than 1000 bits$"),
        ('{"a": {"b": -1e999}}', "^a.b: -inf is no finite number$"),
        ('{"a": NaN}', "^NaN is no number of JSON$"),
        ('{"a": Infinity}', "^Infinity is no number of JSON$"),
    ],
)
def test_what_is_wrong_with_json_is_a_value_error(text: str | bytes, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        json_of(text)


@pytest.mark.parametrize("value", [None, True, 0, -(2**80), 1e300, "é", [], {"a": [{"b": [1, 2.5]}]}])
def test_all_else_is_read(value: Any) -> None:

    assert json_of(json.dumps(value)) == value


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"a = {DEEP}", "^nested too deeply$"),
        (f"a = {DIGITS}", "Exceeds the limit"),
        (f"[a]\nb = [{{ c = 0x{'f' * 5_000} }}]", "^a.b.c: an integer of more than 1000 bits$"),
    ],
)
def test_what_is_wrong_with_toml_is_a_value_error(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        toml_of(text)


def test_infinities_are_numbers_of_toml() -> None:
    assert toml_of("a = [inf, -inf]") == {"a": [float("inf"), float("-inf")]}
