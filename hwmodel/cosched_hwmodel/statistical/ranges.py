"""Slowdowns drawn by ranges a tenth wide, uniform inside each: a column of the G-LOMARC-TS paper's Table 4.

A column is its shares in whole percent, from the range that begins at ``lowest_ppm`` on; they add up to 100.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from cosched_hwmodel.draws import choice

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RANGE_PPM = 100_000
PERCENT = 100


def draw_ppm(draw: float, shares: Sequence[int], lowest_ppm: int) -> int:
    """Return the slowdown, in whole millionths, that ``draw`` in [0, 1) picks.

    The draw times 100 lies at some part of the way through the share of one range; the slowdown lies at the same part
    of the way through that range, rounded down. So one draw says both the range and the place in it.
    """
    index = choice(draw, shares)
    part = (draw * PERCENT - sum(shares[:index])) / shares[index]  # below 1: the difference is exact
    return lowest_ppm + index * RANGE_PPM + int(part * RANGE_PPM)


def draw_ppms(draws: NDArray[np.float64], shares: Sequence[int], lowest_ppm: int) -> NDArray[np.int64]:
    """Return `draw_ppm` of every draw: the same operations on the same doubles."""
    import numpy as np  # noqa: PLC0415  (a command's start-up must not pay for it)

    edges = np.array([0, *accumulate(shares)], dtype=np.float64)
    positions = draws * PERCENT
    index = np.searchsorted(edges[1:], positions, side="right")  # never a range without a share
    part = (positions - edges[index]) / np.array(shares, dtype=np.float64)[index]
    return lowest_ppm + index * RANGE_PPM + (part * RANGE_PPM).astype(np.int64)
