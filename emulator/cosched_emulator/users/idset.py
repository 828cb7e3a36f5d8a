"""Notation for sets of numbers: ``[0-3,7]``, ``0-15:4``; and for jobs: ``12``, ``12_3``, ``12_[1-3,7]``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Final

MOST_NUMBERS: Final = 1_048_576  # numbers in one set: no machine or array has more nodes or tasks
_MOST_DIGITS: Final = 18  # any number of them fits into 64 bits


def idset(numbers: Iterable[int]) -> str:
    """Return numbers as text, in brackets if there is more than one."""
    text = ranges_text(sorted(set(numbers)))
    return f"[{text}]" if "-" in text or "," in text else text


def ranges_text(numbers: Sequence[int]) -> str:
    """Return ascending numbers as text without brackets."""
    parts = []
    begin = 0
    breaks = [place for place, (a, b) in enumerate(pairwise(numbers), 1) if b != a + 1]
    for end in (*breaks, len(numbers)) if numbers else ():
        first, last = numbers[begin], numbers[end - 1]
        parts.append(str(first) if first == last else f"{first}-{last}")
        begin = end
    return ",".join(parts)


def read_idset(text: str) -> tuple[int, ...]:
    """Return the numbers of ``0-3,7``, ``[0-3,7]`` or ``0-15:4``, ascending; ValueError gives the expected form."""
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    ranges = [_range(part) for part in inner.split(",")]
    if sum(map(len, ranges)) > MOST_NUMBERS:
        raise ValueError(f"at most {MOST_NUMBERS} numbers")
    return tuple(sorted(set(chain.from_iterable(ranges))))


def read_job(text: str) -> Iterator[tuple[int, int | None]]:
    """Yield the (job, task or None) that ``12``, ``12_3`` or ``12_[1-3,7]`` names; ValueError gives the expected form."""
    job, separator, tasks = text.partition("_")
    if not _is_number(job) or (separator and not (_is_number(tasks) or (tasks[:1] == "[" and tasks[-1:] == "]"))):
        raise ValueError("a job such as 12, 12_3 or 12_[1-3,7]")
    if not separator:
        yield int(job), None
        return
    for task in read_idset(tasks):
        yield int(job), task


def _range(text: str) -> range:
    span, colon, step = text.strip().partition(":")
    first, dash, last = span.partition("-")
    numbers = [first, *([last] if dash else []), *([step] if colon else [])]
    if not all(map(_is_number, numbers)) or (colon and (not dash or int(step) == 0)):
        raise ValueError("numbers and ranges such as 0-3,7 or 0-15:4")
    begin, end = int(first), int(last or first)
    if end < begin:
        raise ValueError(f"a range that ascends, not {span}")
    return range(begin, end + 1, int(step or 1))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
