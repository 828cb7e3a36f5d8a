"""Names in CSV files: whatever a user calls a job, the row stays a row, and reading gives the name again."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import strategies as st
from tests.properties import drawn

from cosched_hwmodel.text_formats import decoded, encoded


@drawn(st.text(st.characters(codec=None)), few=200, many=20_000)
def test_every_name_comes_back_and_its_field_is_plain(name: str) -> None:
    field = encoded(name)
    assert decoded(field) == name
    assert field.isprintable()
    assert not set(field) & set(',;"')
    assert not field.startswith(("=", "+", "-", "@"))
    assert [*csv.reader(io.StringIO(f"{field},1\n"))] == [[field, "1"]]


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("lu.B.8 (mesh-2)", "lu.B.8 (mesh-2)"),
        ("größe", "größe"),
        ('a,"b"\r\nc;d%', "a%2C%22b%22%0D%0Ac%3Bd%25"),
        ("\0\x1b[2J\u202e", "%00%1B[2J%E2%80%AE"),
        ("=cmd|' /C calc'!A0", "%3Dcmd|' /C calc'!A0"),
        ("-1+1", "%2D1+1"),
        ("\t=1", "%09=1"),
        ("", ""),
    ],
)
def test_only_what_could_do_harm_is_encoded(name: str, field: str) -> None:
    assert encoded(name) == field
