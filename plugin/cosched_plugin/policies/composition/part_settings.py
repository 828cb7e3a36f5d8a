"""A part by name and its settings: what makes it, what each setting accepts, and what that means.

The defaults of settings stand in the signatures of classes and functions alone, and are read there.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple, TypeAlias

Build: TypeAlias = Callable[..., Any]
_BELOW: Final = __name__.rpartition(".composition.")[0]


@cache
def at(place: str) -> Any:
    """Return what stands at a place of the catalogue; it is imported on the first call."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"{_BELOW}.{module}"), name)


class Required:
    """Stands for a missing default: the setting is passed only if it is given."""

    def __repr__(self) -> str:
        return "required"


REQUIRED: Final = Required()


class Parameter(NamedTuple):
    """A setting of a part: what it accepts, told in words, and its meaning."""

    check: Callable[[object], bool]
    tell: Callable[[], str]
    text: str
    added: bool = False  # it came later: a run that does not set it has the key, and the record, that it had before
    # It has an effect where other settings of the part have one of these values
    only: Mapping[str, tuple[object, ...]] = {}

    @property
    def expected(self) -> str:
        """Return what is accepted, in words."""
        return self.tell()


class Entry(NamedTuple):
    """A part by name. ``made_by``: its place, or what builds a part from outside; "": there is nothing of this kind."""

    made_by: str | Build
    text: str
    parameters: Mapping[str, Parameter] = {}
    passes_on: tuple[str | Build, ...] = ()  # what gets settings that ``made_by`` does not take itself

    def build(self, **settings: Any) -> Any:
        """Build the part; None where there is nothing of this kind."""
        made_by = self.made_by
        if made_by == "":
            return None
        return (at(made_by) if isinstance(made_by, str) else made_by)(**settings)

    def default(self, key: str) -> object:
        """Return the default of a setting, as a file would have it; `REQUIRED` where it has none, or none that a file can have."""
        for taker in (self.made_by, *self.passes_on):
            found = (_defaults_at(taker) if isinstance(taker, str) else defaults_of(taker)).get(key, REQUIRED)
            if found is not REQUIRED:
                return found
        return REQUIRED

    def defaults(self) -> dict[str, object]:
        """Return the defaults of all settings that have one."""
        return {key: value for key in self.parameters if (value := self.default(key)) is not REQUIRED}


def defaults_of(taker: Build) -> dict[str, object]:
    """Return the keyword arguments of a class or function that a file can set, each with its default or `REQUIRED`."""
    try:
        arguments = inspect.signature(taker).parameters.values()
    except (TypeError, ValueError):  # a built-in class: it has no settings
        return {}
    return {
        argument.name: argument.default if is_setting(argument.default) else REQUIRED
        for argument in arguments
        if argument.kind in (argument.POSITIONAL_OR_KEYWORD, argument.KEYWORD_ONLY)
    }


@cache
def _defaults_at(place: str) -> dict[str, object]:
    found = defaults_of(at(place))
    return {key: list(value) if isinstance(value, tuple) else value for key, value in found.items()}


def is_setting(value: object) -> bool:
    """Tell whether a file can express the value and a run's record can hold it."""
    match value:
        case bool() | int() | str():
            return True
        case float():
            return math.isfinite(value)
        case list() | tuple():
            return all(map(is_setting, value))
        case dict():
            return all(isinstance(key, str) for key in value) and all(map(is_setting, value.values()))
        case _:
            return False


# Settings: what they accept.


def _told(expected: str) -> Callable[[], str]:
    return lambda: expected


def _is_factor(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 1.0 <= value < float("inf")


def factor(text: str) -> Parameter:
    """Return a setting that is a number >= 1."""
    return Parameter(_is_factor, _told("a number >= 1"), text)


def factors(text: str) -> Parameter:
    """Return a setting that is a list of numbers >= 1, not empty."""

    def check(value: object) -> bool:
        return isinstance(value, list | tuple) and len(value) > 0 and all(map(_is_factor, value))

    return Parameter(check, _told("a list of numbers >= 1"), text)


def flag(text: str) -> Parameter:
    """Return a setting that is true or false."""
    return Parameter(lambda value: isinstance(value, bool), _told("true or false"), text)


def number(low: float, high: float, text: str, expected: str | None = None) -> Parameter:
    """Return a setting that is a number from ``low`` to ``high``, or what ``expected`` calls it."""

    def check(value: object) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high

    return Parameter(check, _told(expected or f"a number from {low:g} to {_plain(high)}"), text)


def _plain(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:g}"


def seconds(low: float, text: str) -> Parameter:
    """Return a setting that is a number of seconds from ``low``, up to thirty years."""
    least = "above 0" if 0 < low < 1 else f", {low:g} or more"
    return number(low, 1e9, text, f"seconds {least}" if least.startswith("above") else f"seconds{least}")


def whole(low: int, high: int | str, text: str) -> Parameter:
    """Return a setting that is a whole number from ``low`` to ``high``, which may be a place."""

    def most() -> int:
        found: int = at(high) if isinstance(high, str) else high
        return found

    def check(value: object) -> bool:
        return type(value) is int and low <= value <= most()

    return Parameter(check, lambda: f"a whole number from {low} to {most()}", text)


def shares(text: str) -> Parameter:
    """Return a setting that is a table of whole numbers by path: names joined by `/`."""

    def check(value: object) -> bool:
        return isinstance(value, Mapping) and all(
            isinstance(path, str) and all(path.split("/")) and type(share) is int and 0 <= share <= 10**9
            for path, share in value.items()
        )

    return Parameter(check, _told('a table of whole numbers up to 1000000000 by path, as "account/user" = 1'), text)


def one_of(place: str, text: str) -> Parameter:
    """Return a setting that is one of the names at a place."""

    def tell() -> str:
        names: tuple[str, ...] = at(place)
        return ", ".join(names[:-1]) + f" or {names[-1]}"

    return Parameter(lambda value: value in at(place), tell, text)


def only(parameter: Parameter, **values: object) -> Parameter:
    """Return a setting that has an effect only where other settings of its part have these values, or one of a tuple of them."""
    return parameter._replace(
        only={key: value if isinstance(value, tuple) else (value,) for key, value in values.items()}
    )


def added(parameter: Parameter) -> Parameter:
    """Return a setting that has come to a part of which there are runs."""
    return parameter._replace(added=True)
