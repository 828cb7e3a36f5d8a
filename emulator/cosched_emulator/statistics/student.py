"""Quantiles of Student's t distribution, for any degrees of freedom from 1 on.

With q the probability of the nearer tail, the quantile is the root of P(T > t) = q, found by Newton's method:

- q > 1/100 (1/4 for up to 4 degrees of freedom): on P(0 < T < t) = I_y(1/2, v/2) / 2, y = t² / (v + t²), by the power series of
  the incomplete beta function I (Abramowitz and Stegun 1964, 26.5.4), whose terms are all positive.
- Smaller q: on the logarithms of t and of P(T > t) = I_x(v/2, 1/2) / 2, x = v / (v + t²), by the continued fraction of I
  (Abramowitz and Stegun 1964, 26.5.8), evaluated by Lentz's method. Far tails lose no digits this way.
- v > 5,000 max(1, z² / 2), z being the normal quantile: by z and four terms in 1/v instead (Abramowitz and Stegun 1964, 26.7.5).

t has no unit. For v from 1 to 1e6 and tails down to 1e-300 the relative error is below 1e-12.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Final

_LARGE: Final = 5_000.0  # degrees of freedom above which the expansion in 1/v is exact; times z² / 2 for z² > 2
_CENTRE: Final = 0.01  # probability of the tail above which the series is used, for more than 4 degrees of freedom
_PRECISION: Final = 1e-15
_STEPS: Final = 100  # Newton's method takes fewer than ten
_CLOSE: Final = 1e-9  # a step of Newton's method after which the error is its square
_TERMS: Final = 100_000  # of a series; a few hundred are usual
_NORMAL: Final = NormalDist()


@lru_cache(maxsize=1024)
def t_quantile(probability: float, freedom: float) -> float:
    """Return t with P(T ≤ t) = ``probability`` for ``freedom`` degrees of freedom; infinite where no float is large enough.

    Raises ValueError unless 0 < probability < 1 and freedom ≥ 1; infinitely many degrees give the normal quantile.
    """
    if not 0 < probability < 1:
        raise ValueError(f"a probability lies between 0 and 1, not at {probability}")
    if not freedom >= 1:
        raise ValueError(f"Student's t needs 1 degree of freedom or more, not {freedom}")
    tail = min(probability, 1 - probability)
    return math.copysign(_upper(tail, freedom), probability - 0.5)


def t_critical(level: float, freedom: float) -> float:
    """Return the t that is exceeded in either direction with probability 1 - ``level``: the factor of a two-sided interval.

    Raises ValueError unless 0 < level < 1 and freedom ≥ 1.
    """
    if not 0 < level < 1:
        raise ValueError(f"a level of confidence lies between 0 and 1, not at {level}")
    return -t_quantile((1 - level) / 2, freedom)


def _upper(tail: float, freedom: float) -> float:
    """Return t ≥ 0 with P(T > t) = tail."""
    if tail == 0.5:
        return 0.0
    normal = -_NORMAL.inv_cdf(tail)
    if freedom > _LARGE * max(1.0, normal * normal / 2):
        return _expansion(normal, freedom)
    if tail > (_CENTRE if freedom > 4 else 0.25):
        return _by_centre(0.5 - tail, freedom)
    return _by_tail(math.log(tail), normal, freedom)


def _expansion(z: float, v: float) -> float:
    """Return the quantile from the normal one: Abramowitz and Stegun 26.7.5."""
    square = z * z
    terms = (
        z * (square + 1) / 4,
        z * ((5 * square + 16) * square + 3) / 96,
        z * (((3 * square + 19) * square + 17) * square - 15) / 384,
        z * ((((79 * square + 776) * square + 1482) * square - 1920) * square - 945) / 92160,
    )
    return z + sum(term / v**power for power, term in enumerate(terms, 1))


def _by_centre(centre: float, freedom: float) -> float:
    """Return t with P(0 < T < t) = centre; Newton's method from below, where the function is concave, does not overshoot."""
    t = centre / _density(0.0, freedom)
    for _ in range(_STEPS):
        y = t * t / (freedom + t * t)
        total = term = 1.0
        for index in range(_TERMS):
            term *= y * (index + (freedom + 1) / 2) / (index + 1.5)
            total += term
            if term < _PRECISION * total:
                break
        density = _density(t, freedom)
        step = (centre - t * density * total) / density
        t += step
        if abs(step) <= _CLOSE * t:
            break
    return t


def _by_tail(log_tail: float, start: float, freedom: float) -> float:
    """Return t with log P(T > t) = log_tail; concave in log t, and ``start`` is close enough for Newton's method."""
    t = start
    for _ in range(_STEPS):
        # P(T > t) = density · t · ratio; the slope of its logarithm over log t is -1 / ratio.
        ratio = _tail_ratio(t, freedom)
        step = (_log_density(t, freedom) + math.log(t * ratio) - log_tail) * ratio
        if math.log(t) + step > 709:
            return math.inf
        t *= math.exp(step)
        if abs(step) <= _CLOSE:
            break
    return t


def _tail_ratio(t: float, freedom: float) -> float:
    """Return P(T > t) / (t · density(t)): the continued fraction of I_x(a, b) with b = 1/2, divided by 2a = v."""
    a = freedom / 2
    x = freedom / (freedom + t * t)
    upper, lower, value = 1.0, 0.0, 1.0
    for index in range(1, _TERMS):
        m = index // 2
        factor = m * (0.5 - m) if index % 2 == 0 else -(a + m) * (a + m + 0.5)
        factor *= x / ((a + index - 1) * (a + index))
        lower = 1 / (1 + factor * lower)
        upper = 1 + factor / upper
        value *= upper * lower
        if abs(upper * lower - 1) < _PRECISION:
            break
    return 1 / (value * freedom)


def _density(t: float, freedom: float) -> float:
    return math.exp(_log_density(t, freedom))


def _log_density(t: float, freedom: float) -> float:
    far = t > 1e100  # its square may be no float
    shape = 2 * math.log(t) - math.log(freedom) if far else math.log1p(t * t / freedom)
    return _log_peak(freedom) - (freedom + 1) / 2 * shape


def _log_peak(freedom: float) -> float:
    """Return the logarithm of the density at 0: Γ((v + 1) / 2) / (√(π v) Γ(v / 2))."""
    half = freedom / 2
    if half < 25:
        return math.lgamma(half + 0.5) - math.lgamma(half) - math.log(math.pi * freedom) / 2
    # The series of log Γ(x + 1/2) - log Γ(x): the difference of two large logarithms would lose digits.
    inverse = 1 / (half * half)
    series = ((17 / 14336 * inverse - 1 / 640) * inverse + 1 / 192) * inverse - 1 / 8
    return series / half - math.log(2 * math.pi) / 2
