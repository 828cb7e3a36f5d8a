"""How long the blocks of a block bootstrap are, from the series itself.

Rule: the twentieth part of the series, or the length that its correlation asks for if that is more. More than 20 to 30 blocks hardly
make an interval narrower, and shorter ones miss correlation (Schmeiser 1982, Oper. Res. 30:556). Where correlation asks for more than
a twentieth, the series is too short for an interval.

What correlation asks for (Politis and White 2004, Econometric Reviews 23:53, corrected by Patton, Politis and White 2009, 28:372):
with R(k) the autocovariance at lag k and w the flat-top window, w(x) = 1 up to x = 1/2 and 2 (1 - x) from there to 1, over lags
up to M on both sides,

    length = (2 G² / D)^(1/3) · n^(1/3),  G = Σ w(k/M) |k| R(k),  D = 4/3 · (Σ w(k/M) R(k))²

M is twice the lag after which max(5, √log10 n) autocorrelations in a row are below 2 √(log10 n / n). The length is rounded up and is
at most min(3 √n, n / 3). Lags and lengths count values.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from cosched_emulator.statistics.arrays import FloatArray

BLOCKS: Final = 20  # blocks of a series, unless its correlation asks for longer ones


def block_length(values: FloatArray) -> int:
    """Return how many values in order of time make a block. Raises ValueError without values."""
    return max(1, values.size // BLOCKS, correlation_length(values))


def correlation_length(values: FloatArray) -> int:
    """Return the length of blocks that the correlation asks for; 1 for a series that never changes. Raises as `block_length`."""
    count = values.size
    if count == 0:
        raise ValueError("a series without values has no blocks")
    correlation = _autocorrelation(values)
    if correlation.size == 0:
        return 1
    reach = max(5, math.isqrt(math.ceil(math.log10(count))))
    small = np.abs(correlation[1:]) < 2 * math.sqrt(math.log10(count) / count)
    # Beyond the lags that are there, the correlation counts as small.
    padded = np.concatenate([small.astype(np.float64), np.ones(reach)])
    last = int(np.flatnonzero(np.convolve(padded, np.ones(reach), "valid") == reach)[0])
    window = min(2 * max(last, 1), correlation.size - 1)
    lag = np.arange(1, window + 1)
    weighted = np.minimum(1.0, 2 * (1 - lag / window)) * correlation[1 : window + 1]
    spectrum = 1 + 2 * float(weighted.sum())
    slope = 2 * float((lag * weighted).sum())
    longest = math.ceil(min(3 * math.sqrt(count), count / 3))
    if spectrum <= 0:
        return longest
    asked = math.cbrt(1.5 * (slope / spectrum) ** 2 * count)
    return max(1, min(longest, math.ceil(asked)))


def _autocorrelation(values: FloatArray) -> FloatArray:
    """Return the autocorrelations at lags 0, 1, ... √n and a few more; none for a constant series."""
    count = values.size
    centred = values - values.mean()
    variance = float(centred @ centred)
    lags = min(math.isqrt(count) + 10, count - 1)
    if variance <= 0 or lags < 1:
        return np.empty(0)
    size = 1 << (count + lags).bit_length()
    transform = np.fft.rfft(centred, size)
    covariance = np.fft.irfft(transform.real**2 + transform.imag**2, size)[: lags + 1]
    return np.asarray(covariance / variance, dtype=np.float64)
