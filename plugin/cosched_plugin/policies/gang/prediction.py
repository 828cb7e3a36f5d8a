"""Which of its last shares predict that of a job's next quantum (paired gang paper, section 2.3); how: `predict` of the api."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

SHARP_PPM: Final = 200_000  # a larger change from one quantum to the next is sharp (section 4.2.3)
# Values of the setting `sharp_change`: the changes after which a job's history is given up.
OFF: Final = "off"
RISE: Final = "rise"  # as proposed in section 2.3
ANY: Final = "any"  # as in the experiment of section 4.2.3
SHARP_CHANGES: Final = (OFF, RISE, ANY)


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
