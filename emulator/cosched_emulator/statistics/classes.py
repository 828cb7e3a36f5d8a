"""Classes of jobs by length and by width.

- Length: short up to 600 s, medium up to 10,800 s, long (G-LOMARC-TS paper, where the user's estimate decides; it does not print
  the 600 s).
- Width: wide is what asks for more than a quarter of the machine, narrow the rest. This bound is ours.

What equals a bound belongs to the class below it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cosched_emulator.statistics.arrays import IntArray

LENGTHS: Final = ("short", "medium", "long")
SHORT_S: Final = 600
MEDIUM_S: Final = 10_800
WIDTHS: Final = ("narrow", "wide")
WIDE: Final = 0.25  # share of the machine's processors (cores)
CLASS_NAMES: Final = tuple(f"{length} {width}" for length in LENGTHS for width in WIDTHS)


def length_numbers(length: npt.NDArray[Any], short: float, medium: float) -> IntArray:
    """Return the place in `LENGTHS` of each estimate or run time; all are in one unit. Raises ValueError for bounds not in order."""
    if not 0 <= short <= medium:
        raise ValueError(f"the bounds of classes are 0 or more and in order, not {short} and {medium}")
    return np.asarray(np.searchsorted([short, medium], length, side="left"), dtype=np.int64)


def width_numbers(processors: npt.NDArray[Any], machine: int, wide: float = WIDE) -> IntArray:
    """Return the place in `WIDTHS` of jobs that ask for so many of the ``machine``'s processors.

    Raises ValueError for a machine without processors and a bound below 0.
    """
    if machine < 1 or not wide >= 0:
        raise ValueError(f"a machine has 1 processor or more, and the bound is 0 or more, not {machine} and {wide}")
    return np.asarray(processors > wide * machine, dtype=np.int64)
