"""Tables on terminals of any width: nothing is lost unsaid, no line is too long, columns and order are what is asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosched_terminal.console import PAINT
from cosched_terminal.tables import GREEN, VIEW, View, align, wrapped

QUEUE = [
    ["JOBID", "NAME", "USER", "ST", "TIME", "NODES", "REASON"],
    ["12", "wide", "ann", "R", "1-02:00:00", "12", "-"],
    ["3", "deep", "bob", "PD", "0:09", "2", "needs 15 threads, and 1 of 32 are free until the first of them ends"],
    ["12_4", "wide", "ann", "PD", "-", "9", "Priority"],
]
RIGHT = {0, 4, 5}


@contextmanager
def view(**values: Any) -> Iterator[View]:
    shown = View(**values)
    token = VIEW.set(shown)
    try:
        yield shown
    finally:
        VIEW.reset(token)


def lines(*rows: Sequence[str], **shown: Any) -> list[str]:
    return "\n".join(align([*(rows or QUEUE)], RIGHT, **shown)).split("\n")


def test_in_a_pipe_a_table_has_all_columns_on_one_line_a_row() -> None:
    assert lines() == [
        "JOBID  NAME  USER  ST        TIME  NODES  REASON",
        "   12  wide  ann   R   1-02:00:00     12  -",
        "    3  deep  bob   PD        0:09      2  " + QUEUE[2][-1],
        " 12_4  wide  ann   PD           -      9  Priority",
    ]


def test_a_narrow_terminal_leaves_out_what_matters_least_and_says_so() -> None:
    with view(width=50):
        shown = lines(later=("TIME", "USER", "NODES"))
    assert shown == [
        "JOBID  NAME  ST  NODES  REASON",
        "   12  wide  R      12  -",
        "    3  deep  PD      2  needs 15 threads, and 1 of",
        "                        32 are free until the",
        "                        first of them ends",
        " 12_4  wide  PD      9  Priority",
        "(--wide shows USER, TIME)",
    ]


def test_columns_without_a_value_are_left_out_first() -> None:
    rows = [["JOBID", "QOS", "NAME", "GRES"], ["1", "-", "deep", "gpu:2"], ["2", "-", "wide", "-"]]
    with view(width=20):
        shown = align(rows, (0,), later=("GRES", "QOS"))
    assert shown == ["JOBID  NAME  GRES", "    1  deep  gpu:2", "    2  wide  -", "(--wide shows QOS)"]


def test_a_display_gets_one_line_a_row_that_fits() -> None:
    with view(width=50, cuts=True):
        shown = lines(later=("TIME", "USER", "NODES"))
    assert len(shown) == len(QUEUE)
    assert shown[2] == f"    3  deep  PD      2  {QUEUE[2][-1][:25]}+"
    assert max(map(len, shown)) == 50


def test_a_table_of_figures_goes_on_below_behind_its_labels() -> None:
    rows = [["", "unit", "one", "two", "three"], ["wait", "h", "1.25", "22.50", "3.75"]]
    with view(width=20):
        shown = align(rows, range(2, 5), rule=True)
    assert shown == [
        "      unit   one", "----------------", "wait  h     1.25", "",
        "      unit    two", "-----------------", "wait  h     22.50", "",
        "      unit  three", "-----------------", "wait  h      3.75",
    ]  # fmt: skip


@given(
    rows=st.integers(2, 7).flatmap(
        lambda count: st.lists(
            st.lists(st.text("ab ,\x1b\u202e", max_size=30), min_size=count, max_size=count), min_size=1, max_size=4
        )
    ),
    width=st.integers(60, 140),
    numbers=st.sets(st.integers(0, 6)),
)
@settings(deadline=None)
def test_no_line_is_wider_than_a_terminal_that_can_hold_it(
    rows: list[list[str]], width: int, numbers: set[int]
) -> None:
    short = [[cell[:8] if column in numbers else cell for column, cell in enumerate(row)] for row in rows]
    least = sum(50 if column in numbers else 16 for column in range(len(rows[0]))) + 2 * len(rows[0])
    with view(width=max(width, least)):
        shown = "\n".join(align(short, numbers)).split("\n")
    assert max(map(len, shown)) <= max(width, least)
    with view():
        whole = "\n".join(align(short, numbers))
    kept = [re.sub(r"[\s,]", "", text) for text in ("".join(shown), whole)]
    assert len(kept[0]) >= len(kept[1])  # a label may be repeated, nothing is lost


def test_rows_are_sorted_as_people_count() -> None:
    for order, expected in {
        ("jobid",): ["3", "12", "12_4"],
        ("-nodes",): ["12", "12_4", "3"],
        ("time",): ["3", "12", "12_4"],  # 9 seconds, a day, and what is not known last
        ("-time",): ["12", "3", "12_4"],
        ("user", "-nodes"): ["12", "12_4", "3"],
        ("st", "jobid"): ["3", "12_4", "12"],
    }.items():
        with view(order=order) as shown:
            assert [line.split()[0] for line in lines()[1:]] == expected, order
            assert shown.found == {*order}


def test_columns_are_chosen_by_name_in_any_case_or_by_a_beginning() -> None:
    with view(columns=("reas", "jobid", "nope")) as shown:
        found = lines(spare=("REASON",))
    assert [line.split()[-1] for line in found] == ["JOBID", "12", "3", "12_4"]
    assert shown.found == {"reas", "jobid"}
    assert "nope" not in shown.offered
    assert "REASON" not in lines(spare=("REASON",))[0]
    with view(everything=True):
        assert "REASON" in lines(spare=("REASON",))[0]


def test_states_are_coloured_where_a_person_looks_and_names_are_not() -> None:
    rows = (QUEUE[0], ["1", "R", "R", "R", "0:01", "1", "R"])
    plain, (head, row) = lines(*rows, colours={"R": GREEN}), lines(*rows)
    assert plain == [head, row]
    with view(colours=True):
        assert lines(*rows, colours={"R": GREEN}) == [
            head,
            f"    1  R     R     {PAINT}[32mR{PAINT}[0m   0:01      1  R",
        ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0-3,17,90-99,200", ["0-3,17,", "90-99,", "200"]),
        ("of the site", ["of the", "site"]),
        ("abcdefghijklmnopq", ["abcdefgh", "ijklmnop", "q"]),
        ("a bcdefghijk l", ["a", "bcdefghi", "jk l"]),
        ("a job-backfilled", ["a", "job-", "backfill", "ed"]),
    ],
)
def test_a_text_wraps_at_blanks_and_commas_or_in_a_word_if_need_be(text: str, expected: list[str]) -> None:
    assert wrapped(text, 8) == expected
