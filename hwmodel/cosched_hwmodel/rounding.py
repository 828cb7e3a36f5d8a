"""Rounding of spans in fractions of a microsecond to whole microseconds."""

from __future__ import annotations

import math

# Spans of months are exact to about 1/500 us in a double. Without this margin the noise of a few operations would
# push an end past a limit that it meets exactly, and a job would be killed for it.
NOISE_US = 1 / 64


def round_up_us(span_us: float) -> int:
    """Round a span up to whole microseconds, forgiving at most 1/64 us of rounding noise."""
    return math.ceil(span_us - NOISE_US)
