"""The valid values of settings: ranges of numbers and choices of names, in the annotations of a class's fields.

    quantum_s: Annotated[float, between(1e-3, 1_000_000, "a number of seconds"), "length of a quantum"] = 1.0

Bounds and meaning (the text) stand with the field. `check_bounds` checks the values of an object; `marked` finds what
stands there, also for the printed reference.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Final, TypeAlias

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.offered import KNOWLEDGE
from cosched_hwmodel.topology import MOST_WATTS
from cosched_hwmodel.units import SECOND_US
from cosched_hwmodel.usage import RESOURCES
from cosched_plugin.protocol.limits import INT64_MAX


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from ``least`` to ``most``, except ``excluded``; NaN is in no range.

    ``expected`` describes them in an error. The ends belong to the range unless they are ``open``.
    """

    expected: str
    least: float = -math.inf
    most: float = math.inf
    least_open: bool = False
    most_open: bool = False
    excluded: float | None = None

    def check(self, value: float, path: str) -> None:
        """Raise ConfigurationError for the setting at ``path`` if ``value`` is not in the range."""
        inside = self.least <= value <= self.most
        open_end = (self.least_open and value == self.least) or (self.most_open and value == self.most)
        if not inside or open_end or value == self.excluded:
            raise ConfigurationError(path, self.expected, str(value))


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some names."""

    names: tuple[str, ...]

    def check(self, value: str, path: str) -> None:
        """Raise ConfigurationError for the setting at ``path`` if ``value`` is none of the names."""
        if value not in self.names:
            raise ConfigurationError.unknown_name(path, value, self.names)


def between(least: float, most: float, what: str = "a number") -> Range:
    """Return the range from ``least`` to ``most``, of ``what``."""
    return Range(f"{what} from {_text(least)} to {_text(most)}", least, most)


def at_least(least: float, what: str = "", most: float = math.inf) -> Range:
    """Return the range from ``least`` on, of ``what``; errors do not name ``most``, as no sensible value reaches it."""
    return Range(f"{what}, {_text(least)} or more" if what else f"{_text(least)} or more", least, most)


def check_bounds(section: Any, path: str = "") -> None:
    """Raise ConfigurationError for the first setting of a section, or of a section in it, that is out of its bounds.

    The annotation of a field holds its bounds, as in ``Annotated[float, between(0, 1)]``. Each item of a tuple must be
    within them; None always is.
    """
    for name, _, bounds in marked(type(section), (Range, Choice)):
        place = f"{path}.{name}" if path else name
        value = getattr(section, name)
        for index, item in enumerate(value if isinstance(value, tuple) else (value,)):
            if is_dataclass(item):
                check_bounds(item, f"{place}[{index}]" if isinstance(value, tuple) else place)
            elif item is not None:
                for bound in bounds:
                    bound.check(item, place)


@cache
def _marked(kind: Any, sort: Any) -> list[tuple[str, Any, tuple[Any, ...]]]:
    """Return the name of each field of a section, its default, and what stands beside its types: the marks of a ``sort``."""
    return [
        (name, default, tuple([mark for mark in marks if isinstance(mark, sort)]))
        for name, default, marks in _all(kind)
    ]


@cache
def _all(kind: Any) -> list[tuple[str, Any, tuple[Any, ...]]]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return [(item.name, item.default, tuple(_marks(hints[item.name]))) for item in fields(kind)]


marked: Final[Callable[[Any, Any], list[tuple[str, Any, tuple[Any, ...]]]]] = _marked  # mypy: a class is not Hashable


def _marks(hint: Any) -> Iterator[Any]:
    for mark in getattr(hint, "__metadata__", ()):
        yield from mark if isinstance(mark, tuple) else (mark,)
    for part in typing.get_args(hint):
        yield from _marks(part)


def _text(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"


# Types of settings that several have.

LONGEST_S: Final = INT64_MAX // SECOND_US
SECONDS: Final = "a number of seconds"
Instant: TypeAlias = Annotated[float, at_least(0, SECONDS, LONGEST_S)]
Duration: TypeAlias = Instant
DurationAboveZero: TypeAlias = Annotated[float, Range(f"{SECONDS} above 0", 0, LONGEST_S, least_open=True)]
# Much shorter times would leave no time for anything else.
FaultSpan: TypeAlias = Annotated[float, at_least(1, SECONDS, LONGEST_S)]
Wait: TypeAlias = Annotated[float, between(0, 1_000_000_000, SECONDS)]  # every wait ends
Microseconds: TypeAlias = Annotated[int, between(0, 1_000_000_000, "a whole number of microseconds")]
Above0: TypeAlias = Annotated[int, between(1, 1_000_000_000, "a whole number")]
Amount: TypeAlias = Annotated[int, between(0, 1_000_000_000, "a whole number")]
AtLeastOne: TypeAlias = Annotated[int, at_least(1)]
Factor: TypeAlias = Annotated[float, Range("a number above 0, at most 10000", 0, 10_000, least_open=True)]
Share: TypeAlias = Annotated[float, between(0, 1)]
Slowdown: TypeAlias = Annotated[float, between(1, 1_000)]
SlowdownLimit: TypeAlias = Annotated[float, between(0, 1_000)]
Noise: TypeAlias = Annotated[float, Range("a number from 0 to below 1", 0, 1, most_open=True)]
Resource: TypeAlias = Annotated[str, Choice(RESOURCES)]
Knowledge: TypeAlias = Annotated[str, Choice(KNOWLEDGE)]
Watts: TypeAlias = Annotated[float, between(0, MOST_WATTS, "a number of watts")]
