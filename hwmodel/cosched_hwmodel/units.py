"""The units in which quantities are counted (whole microseconds, parts per million, mebibytes), and types for sets of bits."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from typing import Final, NewType

SECOND_US: Final = 1_000_000
WHOLE_PPM: Final = 1_000_000
MIB: Final = 1024 * 1024  # bytes

_AMOUNT: Final = re.compile(r"\s*([^:].{0,63}?)(?::([0-9]{1,9}))?\s*")

# Both are ints when the program runs. Bit operations yield int: wrap their result once, where it is returned.
NodeSet = NewType("NodeSet", int)  # nodes of a machine: bit n is node n
ThreadMask = NewType("ThreadMask", int)  # hardware threads of one node: bit i is thread i

# Spans of months are exact to about 1/500 us in a double. Without this margin the noise of a few operations would
# push an end past a limit that it meets exactly, and a job would be killed for it.
NOISE_US = 1 / 64


def round_up_us(span_us: float) -> int:
    """Round a span up to whole microseconds, forgiving at most 1/64 us of rounding noise."""
    return math.ceil(span_us - NOISE_US)


# Exact conversion of times: integer microseconds in the program, decimals of seconds in files.


def seconds_text(time_us: int) -> str:
    """Return microseconds as exact decimal seconds, whole where they are: ``90``, ``0.5``."""
    if time_us < 0:
        return f"-{seconds_text(-time_us)}"
    if time_us % SECOND_US:
        digits = str(time_us) if time_us >= SECOND_US else f"{time_us:07d}"  # cutting digits is faster than divmod
        return f"{digits[:-6]}.{digits[-6:]}".rstrip("0")
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


def duration_s(text: str, digits: int = 12) -> int:
    """Return the seconds of min, min:s, h:m:s, d-h, d-h:m or d-h:m:s, as Slurm writes limits; ValueError says the expected form.

    ``digits``: most of them behind a colon. Slurm itself writes two, its users may write more.
    """
    rest = rf"(?::(\d{{1,{digits}}}))?"
    matched = re.fullmatch(rf"(?:(\d{{1,7}})-)?(\d{{1,12}}){rest}{rest}", text, re.ASCII)
    if matched is None:
        raise ValueError("minutes, min:s, h:m:s, d-h, d-h:m or d-h:m:s")
    days, *parts = matched.groups()
    given = [int(part) for part in parts if part is not None]
    units: tuple[int, ...] = (3600, 60, 1) if days is not None or len(given) == 3 else (60, 1)
    return 86_400 * int(days or 0) + sum([unit * number for unit, number in zip(units, given, strict=False)])


# Countable resources, such as GPUs and licences: how many of each name.


def amounts_of(text: str) -> tuple[tuple[str, int], ...]:
    """Return the (name, number) of ``fpga:2,gpu:a100:1;shared``: a name may have colons, and one of it is meant without a number.

    What has a type counts without it, too, as in Slurm: ``gpu:a100:1`` is also ``gpu:1``, so what asks for no type may take it.
    Raises ValueError, which says the expected form.
    """
    found = [_AMOUNT.fullmatch(part) for part in re.split("[,;]", text)]
    amounts = {match[1]: int(match[2] or 1) for match in found if match}
    if len(amounts) < len(found) or not all(amounts.values()):
        raise ValueError("NAME:COUNT, each name once, several after commas or semicolons")
    typed: dict[str, int] = {}
    for name, count in amounts.items():
        plain, colon, _ = name.partition(":")
        if colon:
            typed[plain] = typed.get(plain, 0) + count
    return tuple({**amounts, **{name: max(count, amounts.get(name, 0)) for name, count in typed.items()}}.items())


# Before the name of an application, in the name of what its jobs take of their nodes, so that those of others keep off.
MARK: Final = "app:"


def amounts_text(amounts: Iterable[tuple[str, int]]) -> str:
    """Return the text of which `amounts_of` makes these amounts, without what follows from types (``gpu:a100:1``) and marks."""
    told = {name: count for name, count in amounts if not name.startswith(MARK)}
    typed = Counter[str]()
    for name, count in told.items():
        if ":" in name:
            typed[name.partition(":")[0]] += count
    return ";".join([f"{name}:{count}" for name, count in told.items() if typed[name] != count])
