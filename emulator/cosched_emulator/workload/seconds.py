"""Exact conversion of times: integer microseconds in the program, decimals of seconds in files."""

from __future__ import annotations

from cosched_hwmodel.units import SECOND_US


def seconds_text(time_us: int) -> str:
    """Return microseconds as exact decimal seconds, whole where they are: ``90``, ``0.5``."""
    if time_us < 0:
        return f"-{seconds_text(-time_us)}"
    if rest := time_us % SECOND_US:  # a call of divmod takes longer
        return f"{time_us // SECOND_US}.{rest:06d}".rstrip("0")
    return f"{time_us // SECOND_US}"


def parse_seconds(text: str) -> int:
    """Return the microseconds that `seconds_text` wrote as ``text``; raise ValueError on anything else."""
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    whole, point, fraction = digits.partition(".")
    # isdecimal alone accepts digits of other scripts.
    good = digits.isascii() and whole.isdecimal() and (fraction.isdecimal() and len(fraction) <= 6 if point else True)
    if not good:
        raise ValueError(f"not a decimal of seconds with at most six places: {text!r}")
    return sign * (int(whole) * SECOND_US + int(fraction.ljust(6, "0")))
