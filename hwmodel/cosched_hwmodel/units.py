"""The units in which quantities are counted (whole microseconds, parts per million, mebibytes), and types for sets of bits."""

from __future__ import annotations

import math
from typing import Final, NewType

SECOND_US: Final = 1_000_000
WHOLE_PPM: Final = 1_000_000
MIB: Final = 1024 * 1024  # bytes

# Both are ints when the program runs. Bit operations yield int: wrap their result once, where it is returned.
NodeSet = NewType("NodeSet", int)  # nodes of a machine: bit n is node n
ThreadMask = NewType("ThreadMask", int)  # hardware threads of one node: bit i is thread i

# Spans of months are exact to about 1/500 us in a double. Without this margin the noise of a few operations would
# push an end past a limit that it meets exactly, and a job would be killed for it.
NOISE_US = 1 / 64


def round_up_us(span_us: float) -> int:
    """Round a span up to whole microseconds, forgiving at most 1/64 us of rounding noise."""
    return math.ceil(span_us - NOISE_US)
