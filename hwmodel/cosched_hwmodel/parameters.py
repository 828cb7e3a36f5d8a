"""The parameters of a model that is a frozen dataclass: what a belief carries of it, and what is said of wrong ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import Field, fields
from typing import Any, ClassVar, Final, Protocol, TypeVar

from cosched_hwmodel.errors import HardwareModelError
from cosched_hwmodel.names import UnknownNameError

INT64: Final = (-(1 << 63), (1 << 63) - 1)  # smallest and largest


class _Dataclass(Protocol):
    """Whatever `dataclass` has made."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


Model = TypeVar("Model", bound=_Dataclass)


class ParameterError(HardwareModelError):
    """A parameter of a model with a value that it cannot have."""

    def __init__(self, parameter: str, expected: str, value: object) -> None:
        self.parameter = parameter
        self.expected = expected
        self.value = value
        super().__init__(f"{parameter}: expected {expected}, not {value!r}")


def parameters_of(model: _Dataclass) -> tuple[tuple[str, Any], ...]:
    """Return (name, value) of every field, in their order."""
    return tuple((item.name, getattr(model, item.name)) for item in fields(model))


def from_parameters(model: type[Model], name: str, parameters: Iterable[tuple[str, object]]) -> Model:
    """Return the model of these parameters, with defaults for missing ones; ``name`` is the model's.

    Raises UnknownNameError for a name that no parameter has, and what the model raises for a value that cannot be.
    """
    known = [item.name for item in fields(model)]
    given: dict[str, Any] = {}
    for parameter, value in parameters:
        if parameter not in known:
            raise UnknownNameError(f"{name} parameter", parameter, known)
        given[parameter] = value
    return model(**given)
