"""Third-party contention models of a scenario: loaded by name, tried with their parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from cosched_emulator.errors import ConfigurationError
from cosched_hwmodel.composite.model import CompositeModel
from cosched_hwmodel.errors import ContentionError, HardwareModelError, UnknownNameError
from cosched_hwmodel.models.by_name import BUILT_IN
from cosched_hwmodel.models.custom import CustomModel, load_model
from cosched_plugin.protocol.limits import INT64_MAX
from cosched_plugin.protocol.messages import NoteValue

_VALUES: Final = "true, false, a whole number of 64 bits, a finite number, a text, or a list of those"


def custom_model(name: str, section: str) -> CustomModel | None:
    """Return the class of the model in a section's key ``contention``; None for a built-in model.

    Raises ConfigurationError for an unknown name, and for a module that cannot be imported.
    """
    if name in BUILT_IN:
        return None
    path = f"{section}.contention"
    try:
        return load_model(name, BUILT_IN)
    except UnknownNameError as error:
        raise ConfigurationError.unknown_name(path, name, error.known) from error
    except ContentionError as error:
        raise ConfigurationError(path, "a model that can be imported", str(error)) from error


def parameters_of(table: Mapping[str, Any] | None, section: str) -> dict[str, NoteValue]:
    """Return a section's ``parameters``, lists as tuples, as messages can carry them. Raises ConfigurationError."""
    return {key: _value(value, f"{section}.parameters.{key}") for key, value in (table or {}).items()}


def check_belief(model: CustomModel, parameters: Mapping[str, NoteValue]) -> None:
    """Raise ConfigurationError if no model can be made with these parameters."""
    try:
        model.pair_factory(parameters.items())
    except ContentionError as error:
        raise _refused("belief", error) from error


def check_truth(model: CustomModel, parameters: Mapping[str, NoteValue]) -> None:
    """Raise ConfigurationError if no truth of nodes can be made with these parameters."""
    try:
        model.make_truth(parameters.items(), {})
    except ContentionError as error:
        raise _refused("truth", error) from error


def composite_model(parameters: Mapping[str, NoteValue], section: str) -> CompositeModel:
    """Return the composite model with a section's ``parameters``; raises ConfigurationError."""
    try:
        return CompositeModel.from_parameters(parameters.items())
    except HardwareModelError as error:
        raise ConfigurationError(f"{section}.parameters", "parameters of composite", str(error)) from error


def refuse_parameters(table: Mapping[str, Any] | None, name: str, section: str) -> None:
    """Raise ConfigurationError for ``parameters`` of a built-in model."""
    if table:
        expected = f"nothing: {name} is built in, and has keys of its own"
        raise ConfigurationError(f"{section}.parameters", expected, ", ".join(map(str, table)))


def _refused(section: str, error: ContentionError) -> ConfigurationError:
    return ConfigurationError(f"{section}.parameters", f"valid parameters of {error.model}", error.text)


def _value(value: object, path: str) -> NoteValue:
    match value:
        case bool() | str():
            return value
        case int() if -INT64_MAX <= value <= INT64_MAX:
            return value
        case float() if math.isfinite(value):
            return value
        case list() | tuple():
            return tuple([_value(item, f"{path}[{index}]") for index, item in enumerate(value)])
    raise ConfigurationError(path, _VALUES, repr(value))
