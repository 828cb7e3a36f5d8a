"""What CPU share a job will have in its next quantum: of use to a scheduler, and shown to users. Shares are integers, in millionths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cosched_hwmodel.units import WHOLE_PPM

WEIGHTS: Final = (
    4,
    3,
    2,
    1,
)  # of the last quanta of a job, the newest first; paired gang paper, section 2.3, equation 1


def predict(shares: Sequence[int], *, pad: bool = False) -> int:
    """Return the predicted share; ``shares``: those of the last quanta that count, the newest first, four at most.

    With fewer than four, the weights are those of the measured quanta, as parts of their sum; with ``pad``, quanta that are
    missing count as whole ones. A job without a measured quantum is taken for one that needs the whole CPU.
    """
    if not shares:
        return WHOLE_PPM
    total = weights = 0
    for weight, share in zip(WEIGHTS, shares, strict=False):
        total += weight * (share if share < WHOLE_PPM else WHOLE_PPM)  # ticks may log more than there is
        weights += weight
    if pad:
        missing = sum(WEIGHTS) - weights
        return (total + missing * WHOLE_PPM) // sum(WEIGHTS)
    return total // weights
