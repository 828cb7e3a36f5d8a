"""Who runs with whom: pairs of rows (paired gang paper, section 2.4), and alternates of other rows (section 2.6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from random import Random

import pytest
from tests.reference.gang import Load, best_fit, figure_4

from cosched_plugin.api import NodeSet, Pairing, RowLoad
from cosched_plugin.policies.gang.matrix import Cell, Row
from cosched_plugin.policies.gang.pairings import BestFit, Blind, Predesigned, Printed, alternates
from cosched_plugin.policies.planning.neutral import NoPairing

# ---------------------------------------------------------------- pairs of rows: figure 4, mended and as printed, best fit, blind

PPM = 1_000_000
MARGIN = Fraction(1, 100)


def pairs(pairing: Pairing, shares: Sequence[float]) -> Mapping[int, int]:
    """Return the partners of rows with these shares, in percent; a row's number is its place."""
    rows = [RowLoad(slot, round(share * 10_000)) for slot, share in enumerate(shares)]
    return dict(pairing.partners(rows, range(len(rows))))


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ([], {}),
        ([30], {}),
        ([100, 100, 100], {}),
        ([0, 0, 0, 0], {0: 3, 3: 0, 1: 2, 2: 1}),  # of equal rows, the lowest and the highest number first
        ([49.5, 49.5], {}),  # with the margin of 1 point that is all of the CPU, and some must be left
        ([99, 0], {}),
        ([98.9, 0], {0: 1, 1: 0}),
        ([49.5, 49.4], {0: 1, 1: 0}),
        ([0, 97, 97.1, 97.2], {0: 3, 3: 0, 1: 0, 2: 0}),  # all borrow from one; it keeps its own partner
        ([10, 20, 30, 40, 50], {0: 4, 4: 0, 1: 3, 3: 1, 2: 1}),  # the middle one borrows the heaviest that fits
        ([50, 40, 30, 20, 10], {0: 4, 4: 0, 1: 3, 3: 1, 2: 3}),
        ([100, 10], {}),  # a row with a job that has not been measured
        ([60, 60, 20], {1: 2, 2: 1, 0: 2}),
    ],
)
def test_figure_4_mended(shares: list[float], expected: dict[int, int]) -> None:
    assert pairs(Predesigned(), shares) == expected


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ([0, 97, 97.1, 97.2], {0: 3, 3: 0, 2: 0}),  # the row where the ends of the vector meet is left out
        ([10, 20, 30, 40, 50], {0: 4, 4: 0, 1: 3, 3: 1}),
        ([98.9, 0], {0: 1, 1: 0}),
    ],
)
def test_figure_4_as_printed(shares: list[float], expected: dict[int, int]) -> None:
    assert pairs(Printed(), shares) == expected


@pytest.mark.parametrize("case", range(4))
def test_figure_4_on_random_shares(case: int) -> None:
    """Never a pair that does not fit; no row is left alone for which any partner exists; and as the reference has it."""
    random = Random(case)
    for _ in range(300):
        margin = random.choice((1.0, 1.0, 0.0, 5.0))
        most = random.choice((100, 100, 60, 50))
        shares = [random.randint(0, most * 10_000) for _ in range(random.randint(0, 12))]
        if random.random() < 0.5:  # many equal ones
            shares = [share // 100_000 * 100_000 for share in shares]
        rows = [RowLoad(slot, share) for slot, share in enumerate(shares)]
        loads = [Load(slot, Fraction(share, PPM)) for slot, share in enumerate(shares)]
        exact = Fraction(margin) / 100
        found = Predesigned(margin=margin).partners(rows, range(len(rows)))
        assert found == figure_4(loads, exact)
        assert Printed(margin=margin).partners(rows, range(len(rows))) == figure_4(loads, exact, mended=False)
        for slot, share in enumerate(shares):
            fitting = [other for other, load in enumerate(shares) if other != slot and share + load + exact * PPM < PPM]
            assert found[slot] in fitting if fitting else slot not in found


@pytest.mark.parametrize(
    ("shares", "of", "expected"),
    [
        ([0, 0, 0, 0], 0, 3),  # ties: the last one
        ([0, 0, 0, 0], 3, 2),  # but not the row itself
        ([97, 96, 95, 0], 3, 0),
        ([97, 97, 95, 0], 3, 1),
        ([97, 0, 97, 0], 0, 3),
        ([97, 97, 97, 97], 2, None),
        ([100, 0], 0, None),
        ([50], 0, None),
    ],
)
def test_best_fit_by_hand(shares: list[float], of: int, expected: int | None) -> None:
    rows = [RowLoad(slot, round(share * 10_000)) for slot, share in enumerate(shares)]
    assert BestFit().partners(rows, [of]) == ({} if expected is None else {of: expected})


def test_best_fit_on_random_shares() -> None:
    random = Random(5)
    for _ in range(300):
        shares = [random.randint(0, 20) * 50_000 for _ in range(random.randint(0, 9))]
        rows = [RowLoad(slot, share) for slot, share in enumerate(shares)]
        loads = [Load(slot, Fraction(share, PPM)) for slot, share in enumerate(shares)]
        expected = {slot: best_fit(slot, loads, MARGIN) for slot in range(len(rows))}
        found = BestFit().partners(rows, range(len(rows)))
        assert found == {slot: other for slot, other in expected.items() if other is not None}


def test_best_fit_prefers_one_of_two_nearly_equal_rows_and_figure_4_serves_both() -> None:
    """The paper's example: many rows of 5 %, one of 80 %, one of 81 %."""
    shares = [*[5] * 10, 80, 81]
    assert [pairs(BestFit(), shares)[slot] for slot in range(10)] == [11] * 10
    fair = pairs(Predesigned(), shares)
    assert {fair[10], fair[11]} < set(range(10))
    assert fair[10] != fair[11]
    assert sorted(fair) == list(range(12))


def test_blind_pairs_neighbours_in_turn() -> None:
    assert pairs(Blind(), [100, 100, 0]) == {0: 1, 1: 2, 2: 0}
    assert pairs(Blind(), [100, 100]) == {0: 1, 1: 0}
    assert pairs(Blind(), [50]) == pairs(Blind(), []) == {}


def test_strict_gang_scheduling_pairs_nothing() -> None:
    assert pairs(NoPairing(), [0, 0]) == {}
    assert not NoPairing().fits(0, 0)


# ---------------------------------------------------------------- alternates: which jobs of other rows run in a turn

POINT = 10_000
STRICT, PAIRED, BLIND = NoPairing().fits, Predesigned().fits, Blind().fits
BAND = 20 * POINT


def cell(job_id: int, nodes: str, share: float | None = None, *, unpaired: bool = False) -> Cell:
    """Return a job on the nodes that are named by digits; without a share it has not been measured."""
    bits = NodeSet(sum(1 << int(node) for node in nodes))
    return Cell(job_id, bits, bits, 100 * POINT if share is None else round(share * POINT), share is not None, unpaired)


A, B = cell(1, "01", 30), cell(2, "23", 60)


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
    assert found == {"band": (3,) if band else (), "max": (3,) if most else (), "node": (3,) if node else ()}


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
