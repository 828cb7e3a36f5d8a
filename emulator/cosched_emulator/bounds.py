"""The valid values of settings: ranges of numbers and choices of names, in the annotations of a class's fields.

    quantum_s: Annotated[float, between(1e-3, 1_000_000, "a number of seconds"), "length of a quantum"] = 1.0

Bounds and meaning (the text) stand with the field. `check_bounds` checks the values of an object; `marked` finds what
stands there, also for the printed reference.
"""

from __future__ import annotations

import math
import sys
import typing
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from inspect import get_annotations
from types import ModuleType, SimpleNamespace
from typing import Annotated, Any, Final, TypeAlias

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.offered import KNOWLEDGE
from cosched_hwmodel.quick_classes import frozen
from cosched_hwmodel.topology import MOST_WATTS
from cosched_hwmodel.units import SECOND_US
from cosched_hwmodel.usage import RESOURCES
from cosched_plugin.protocol.limits import INT64_MAX


@frozen
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


@frozen
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
    within them; None and defaults always are.
    """
    for item, value in changed(section):
        place = f"{path}.{item.name}" if path else item.name
        for index, part in enumerate(value if isinstance(value, tuple) else (value,)):
            if is_dataclass(part):
                check_bounds(part, f"{place}[{index}]" if isinstance(value, tuple) else place)
            elif part is not None:
                for bound in marks_of(type(section), item.name, (Range, Choice)):
                    bound.check(part, place)


def changed(section: Any) -> Iterator[tuple[Field[Any], Any]]:
    """Yield each field of a section that does not have its default, with its value."""
    for item in fields(section):
        value = getattr(section, item.name)
        if value is not item.default and value != (
            item.default if item.default_factory is MISSING else item.default_factory()
        ):
            yield item, value


def _named(text: str, module: ModuleType) -> dict[str, Any]:
    """Return what the names of an annotation are in a module, also those that it loads when they are asked for (PEP 562).

    Python 3.14 copies what it evaluates annotations with, so a mapping that loads by itself is of no use.
    """
    return {name: getattr(module, name) for name in compile(text, "", "eval").co_names if hasattr(module, name)}


def annotation_of(kind: Any, name: str) -> tuple[str, ModuleType]:
    """Return the annotation of a field as it is written, and the module in which it is."""
    base = next(base for base in kind.__mro__ if name in get_annotations(base))
    return get_annotations(base)[name], sys.modules[base.__module__]


# A run evaluates the annotations of what it changes alone: those of all settings take as long as a thousand jobs.
@cache
def _hint_of(kind: Any, name: str) -> Any:
    text, module = annotation_of(kind, name)
    alone = SimpleNamespace(__annotations__={name: text})
    return typing.get_type_hints(alone, vars(module), _named(text, module), include_extras=True)[name]


def types_of(kind: type) -> dict[str, Any]:
    """Return the types of all fields, without their marks."""
    names: dict[str, Any] = {}
    for item in fields(kind):
        names |= _named(*annotation_of(kind, item.name))
    return typing.get_type_hints(kind, localns=names)


@cache
def _marks_of(kind: Any, name: str, sort: Any) -> tuple[Any, ...]:
    return tuple([mark for mark in marks_in(hint_of(kind, name)) if isinstance(mark, sort)])


# Typed so, as a class is not Hashable for mypy
hint_of: Final[Callable[[Any, str], Any]] = _hint_of  # the type of a field, with its marks
marks_of: Final[Callable[[Any, str, Any], tuple[Any, ...]]] = _marks_of  # what stands beside it: the marks of a sort


def marked(kind: Any, sort: Any) -> list[tuple[str, Any, tuple[Any, ...]]]:
    """Return the name of each field of a section, its default, and its marks of a ``sort``."""
    return [(item.name, item.default, marks_of(kind, item.name, sort)) for item in fields(kind)]


def marks_in(hint: Any) -> Iterator[Any]:
    """Yield what stands beside the types in a type."""
    for mark in getattr(hint, "__metadata__", ()):
        yield from mark if isinstance(mark, tuple) else (mark,)
    for part in typing.get_args(hint):
        yield from marks_in(part)


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
