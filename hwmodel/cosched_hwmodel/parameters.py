"""The parameters of a model that is a frozen dataclass: their form in a belief, and the errors for invalid ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import Field, fields
from typing import Any, ClassVar, Final, Protocol, TypeVar

from cosched_hwmodel.errors import HardwareModelError
from cosched_hwmodel.names import UnknownNameError

INT64: Final = (-(1 << 63), (1 << 63) - 1)  # smallest and largest


class _Dataclass(Protocol):
    """Any class made by `dataclass`."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


Model = TypeVar("Model", bound=_Dataclass)


class ParameterError(HardwareModelError):
    """A parameter of a model with an invalid value."""

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

    Raises UnknownNameError for an unknown parameter name, and the model's error for an invalid value.
    """
    known = [item.name for item in fields(model)]
    given: dict[str, Any] = {}
    for parameter, value in parameters:
        if parameter not in known:
            raise UnknownNameError(f"{name} parameter", parameter, known)
        given[parameter] = value
    return model(**given)
