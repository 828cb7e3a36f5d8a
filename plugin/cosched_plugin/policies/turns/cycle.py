"""The order of turns: by number, one round after the other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple


class Order(NamedTuple):
    """Turns in the order in which they come next."""

    turns: Sequence[int]
    begins: bool  # the first of them begins a round


def following(turns: Sequence[int], last: int | None) -> Order:
    """Return ``turns``, which are ascending and not empty, in the order in which they follow turn ``last``.

    Turn ``last`` itself may be missing: turns appear and vanish in the middle of a round. None: no turn has been yet.
    """
    if last is None:
        return Order(turns, True)
    place = bisect_right(turns, last)
    if place == len(turns):
        return Order(turns, True)
    return Order((*turns[place:], *turns[:place]), False)
