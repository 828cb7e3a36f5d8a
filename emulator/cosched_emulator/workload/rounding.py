"""Arrays of spans, rounded up to whole microseconds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosched_emulator.errors import ConfigurationError
from cosched_hwmodel.units import NOISE_US
from cosched_plugin.protocol.limits import INT64_MAX


def round_up_all_us(spans_us: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
    """Return `round_up_us` of every span. Raises `ConfigurationError` if one does not fit into 64 bits."""
    whole = np.ceil(spans_us - NOISE_US)
    longest_us = float(whole.max(initial=0.0))
    if longest_us >= INT64_MAX:
        raise ConfigurationError("workload", "times of less than 292,000 years", f"{longest_us:g} microseconds")
    spans: NDArray[np.int64] = whole.astype(np.int64)
    return spans
