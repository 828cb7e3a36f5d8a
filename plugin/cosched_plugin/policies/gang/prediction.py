"""What CPU share a job will have in its next quantum (paired gang paper, section 2.3). Shares are integers, in millionths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cosched_plugin.api import WHOLE_PPM

WEIGHTS: Final = (4, 3, 2, 1)  # of the last quanta of a job, the newest first; equation 1
SHARP_PPM: Final = 200_000  # a larger change from one quantum to the next is sharp (section 4.2.3)
# Values of the setting `sharp_change`: the changes after which a job's history is given up.
OFF: Final = "off"
RISE: Final = "rise"  # as proposed in section 2.3
ANY: Final = "any"  # as in the experiment of section 4.2.3
SHARP_CHANGES: Final = (OFF, RISE, ANY)


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


def counted(shares: Sequence[int], quanta: int, since: int) -> Sequence[int]:
    """Return the shares that count, of a job whose history begins after its quantum number ``since`` (0: with the first one)."""
    return shares[: max(0, quanta - since)] if since else shares


def is_sharp(shares: Sequence[int], changes: str) -> bool:
    """Tell whether the share of the last quantum differs so much from the one before that the history says nothing.

    ``shares`` are those that count: so the quantum that a job has to itself afterwards is not compared with an earlier one.
    """
    if len(shares) < 2 or changes == OFF:
        return False
    rise = shares[0] - shares[1]
    return rise > SHARP_PPM or (changes == ANY and -rise > SHARP_PPM)
