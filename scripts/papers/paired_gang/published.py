"""What the paired gang paper (Wiseman and Feitelson 2003) says of its results. All values of its figures are lost with the pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

# Section 4.1.2, figure 7 below: percent of quanta in which each slot is chosen as partner, best fit, by number of I/O jobs.
# The lower slots are those of the compute jobs.
BEST_FIT_COUNTS: Final[Mapping[int, Sequence[float]]] = {
    0: (0, 0, 0, 0),
    1: (8, 8, 8, 75),
    2: (25, 25, 0, 50),
    3: (75, 0, 0, 25),
    4: (0, 0, 25, 75),
}
POINTS: Final = 3.0  # percentage points that a count may be off
SINGLE_IO: Final = 4.0  # times faster: the I/O job of mix 1 "almost" so
DOUBLE: Final = 2.0  # utilisation of the resources "nearly" (section 5)
RESPONSE: Final[Mapping[str, float]] = {"0.5": 2.0, "0.95": 6.0}  # strict / paired, section 4.2.1
HOURS: Final = (8.0, 11.0)  # that a run of 1,000 jobs takes "typically"
STRICT_EMPTIES_UP_TO: Final = 0.7  # load above which strict gang never clears the system ("0.6 or 0.7")
LEFT: Final = (24.0, 96.0)  # "some dozens" of jobs left at the last submission
DRAIN_H: Final = 3.0  # hours "over" which strict gang at load 0.95 takes to finish after the last submission
SHARP_CHANGE: Final = 1.0  # percent by which response grows with it
QCRD: Final = 2.0  # strict / paired at load 0.8: "reduced by half"
