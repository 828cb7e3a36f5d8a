"""The budget of a decision: the prices of examinations, and when it is exhausted."""

from __future__ import annotations

import pytest

from cosched_plugin.core.work import Price, Rate, Work

LOOK = Price("a look", 30)
SEARCH = Price("a search", 10, (Rate("jobs", per=4), Rate("nodes", 2)))


def limited(units: int) -> Work:
    work = Work()
    work.begin(units)
    return work


@pytest.mark.parametrize(("counts", "units"), [((0, 0), 10), ((3, 0), 10), ((4, 1), 13), ((9, 3), 18)])
def test_each_part_of_a_price_is_rounded_down(counts: tuple[int, int], units: int) -> None:
    assert SEARCH.units(*counts) == units


def test_a_price_needs_a_count_for_each_rate() -> None:
    with pytest.raises(ValueError, match="zip"):
        SEARCH.units(1)


def test_the_last_payment_may_exceed_the_budget() -> None:
    work = limited(40)
    assert [work.pay(LOOK), work.spent, work.pay(LOOK), work.spent, work.pay(LOOK)] == [True, False, True, True, False]
    assert work.left == -20


def test_a_payment_in_full_never_exceeds_the_budget() -> None:
    work = limited(40)
    assert [work.pay_in_full(LOOK), work.pay_in_full(LOOK), work.left] == [True, False, 10]


def test_a_share_of_the_budget_that_is_left() -> None:
    work = limited(100)
    assert (work.affordable(9, 30), work.affordable(9, 12, 4), work.affordable(1, 12, 4)) == (3, 2, 1)
    work.spend(200)
    assert work.affordable(9, 30) == 0


def test_whoever_was_refused_anything_is_told_that_the_decision_was_cut() -> None:
    """Also where the budget is not spent: a share of it was, or a whole price was not left. One more pass may then decide more."""
    work = limited(100)
    assert (work.affordable(2, 12, 4), work.pay_in_full(LOOK), work.cut) == (2, True, False)
    assert (work.affordable(2, 12, 4), work.cut, work.spent) == (1, True, False)
    work.begin(20)
    assert (work.pay_in_full(LOOK), work.cut, work.spent) == (False, True, False)
    work.begin(20)
    assert (work.pay(LOOK), work.cut, work.pay(LOOK), work.cut) == (True, False, False, True)


def test_without_a_limit_nothing_is_counted() -> None:
    work = Work()
    assert work.pay(SEARCH, 1000, 1000)
    assert work.pay_in_full(SEARCH, 1000, 1000)
    assert not work.spent
    assert work.left == 0
