"""Alternates: which jobs of other rows run in a turn (paired gang paper, section 2.6)."""

from __future__ import annotations

import pytest

from cosched_plugin.api import NodeSet
from cosched_plugin.policies.gang.matrix import Cell, Row
from cosched_plugin.policies.gang.pairings import Blind, Predesigned, alternates
from cosched_plugin.policies.planning.neutral import NoPairing

POINT = 10_000
STRICT, PAIRED, BLIND = NoPairing().fits, Predesigned().fits, Blind().fits
BAND = 20 * POINT


def cell(job_id: int, nodes: str, share: float | None = None, *, unpaired: bool = False) -> Cell:
    """Return a job on the nodes that are named by digits; without a share it has not been measured."""
    bits = NodeSet(sum(1 << int(node) for node in nodes))
    return Cell(job_id, bits, bits, 100 * POINT if share is None else round(share * POINT), share is not None, unpaired)


A, B = cell(1, "01", 30), cell(2, "23", 60)


def test_strict_gang_scheduling_fills_idle_nodes() -> None:
    row = Row(0, [cell(1, "01")])
    others = [cell(2, "1"), cell(3, "23"), cell(4, "3"), cell(5, "4"), cell(6, "5")]
    for rule in ("max", "node"):
        assert alternates(row, None, others, rule, STRICT, 0, second=False) == (3, 5, 6)
    assert alternates(row, None, others, "off", STRICT, 0, second=False) == ()


def test_an_alternate_takes_the_nodes_that_one_of_two_layers_leaves_idle() -> None:
    row, partner = Row(0, [cell(1, "0123", 30)]), Row(1, [cell(2, "01", 30)])
    others = [
        cell(3, "0", 30),
        cell(4, "23", 30),
        cell(5, "3", 30),
        cell(6, "45", 30),
        cell(7, "45", 30),
        cell(8, "4", 0),
    ]
    # 4 in the partner's layer; 6 in the row's own, 7 in the partner's: then nodes 4 and 5 have two processes.
    assert alternates(row, partner, others, "max", PAIRED, 0, second=False) == (4, 6, 7)


@pytest.mark.parametrize(
    ("share", "band", "most", "node"),
    [
        (30, True, True, True),
        (49.9, True, True, True),
        (50, False, True, True),  # 20 points above the row
        (10, False, True, True),  # and 20 below
        (68.9, False, True, True),
        (
            69,
            False,
            False,
            True,
        ),  # 69 + 30 + 1: too much for the partner's 30, but not on nodes that the partner leaves idle
        (None, False, False, True),
    ],
)
def test_what_an_alternate_may_need(share: float | None, band: bool, most: bool, node: bool) -> None:
    row, partner = Row(0, [cell(1, "01", 30)]), Row(1, [cell(2, "01", 30)])
    one = [cell(3, "23", share)]
    found = {rule: alternates(row, partner, one, rule, PAIRED, BAND, second=False) for rule in ("band", "max", "node")}
    assert found == {
        "band": (3,) if band else (),
        "max": (3,) if most else (),
        "node": (3,) if node else (),
    }


def test_on_each_node_the_two_processes_fit() -> None:
    row, partner = Row(0, [cell(1, "0", 80), cell(2, "1", 10)]), Row(1, [cell(3, "2", 10)])
    others = [cell(4, "0", 30), cell(5, "1", 30), cell(6, "2", 95), cell(7, "12", 30), cell(8, "2", 50)]
    assert alternates(row, partner, others, "node", PAIRED, 0, second=False) == (5, 8)
    assert alternates(row, partner, [cell(7, "12", 80)], "node", PAIRED, 0, second=False) == (7,)  # beside two jobs
    assert alternates(row, partner, others, "max", PAIRED, 0, second=False) == (8,)  # beside 80, no more than 19


def test_a_job_that_has_not_been_measured_is_in_every_band_but_alone() -> None:
    fresh = [cell(5, "5")]
    assert alternates(Row(0, [A]), None, fresh, "band", PAIRED, BAND, second=False) == (5,)  # no partner is harmed
    assert alternates(Row(0, [A]), Row(1, [B]), fresh, "band", PAIRED, BAND, second=False) == ()
    assert alternates(Row(0, [cell(1, "0")]), None, [cell(5, "5", 7)], "band", PAIRED, BAND, second=False) == (5,)


def test_the_band_grows_with_the_alternates_in_it() -> None:
    row = Row(0, [cell(1, "0", 30)])
    others = [cell(2, "1", 45), cell(3, "2", 20), cell(4, "3", 55), cell(5, "4", 26)]
    assert alternates(row, None, others, "band", PAIRED, BAND, second=False) == (2, 5)  # 45 - 20 is too wide a range


def test_the_second_layer_of_an_unmatched_row_is_filled_where_that_is_wanted() -> None:
    row = Row(0, [cell(1, "0123", 60)])
    others = [cell(2, "01", 50), cell(3, "01", 30), cell(4, "23", 39), cell(5, "2", 0)]
    assert alternates(row, None, others, "max", PAIRED, BAND, second=False) == ()
    assert alternates(row, None, others, "max", PAIRED, BAND, second=True) == (3, 5)  # 60 + 39 + 1 is too much
    assert alternates(row, None, others, "node", PAIRED, BAND, second=True) == (3, 5)
    assert alternates(row, None, others, "band", PAIRED, BAND, second=True) == (3,)
    assert alternates(row, None, others, "max", BLIND, 0, second=True) == (2, 4)
    fresh = Row(0, [cell(1, "0123")])
    assert alternates(fresh, None, others, "max", PAIRED, BAND, second=True) == ()


@pytest.mark.parametrize("rule", ["band", "max", "node"])
def test_a_job_that_is_never_paired_has_no_company(rule: str) -> None:
    never = Row(0, [cell(1, "01", 10, unpaired=True), cell(2, "2", 10)])
    others = [cell(3, "0", 10), cell(4, "2", 10), cell(5, "3", 10)]
    assert alternates(never, None, others, rule, PAIRED, BAND, second=True) == (
        4,
        5,
    )  # other nodes of its row may be used
    row, partner = Row(0, [cell(1, "0", 10)]), Row(1, [cell(2, "01", 10)])
    guest = [cell(3, "1", 10, unpaired=True), cell(4, "23", 10, unpaired=True), cell(5, "3", 10)]
    assert alternates(row, partner, guest, rule, PAIRED, BAND, second=False) == (4,)
