"""Parts and presets by name: those of the catalogue, those that other packages have installed, and ``module:Class``."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from cosched_plugin.api import (
    Backfill,
    Budget,
    Fairness,
    Matching,
    Order,
    Placement,
    Shape,
    Slices,
    UsageError,
)
from cosched_plugin.policies.composition.catalogue import KINDS, Entry
from cosched_plugin.policies.composition.parameters import Parameter
from cosched_plugin.policies.composition.presets import ALIASES, PRESETS, Preset

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PROTOCOLS: Final[Mapping[str, type]] = {
    "order": Order,
    "backfill": Backfill,
    "shape": Shape,
    "placement": Placement,
    "matching": Matching,
    "fairness": Fairness,
    "slices": Slices,
    "budget": Budget,
}
PRESET_GROUP: Final = (
    "cosched.presets"  # entry points of compositions; those of parts are in cosched.order, cosched.matching, ...
)
_SETTING: Final = (bool, int, float, str, list, tuple, dict)  # what a file can say


def entry_named(kind: str, name: object) -> Entry:
    """Return the part of that name; UsageError where there is none, or it cannot be imported."""
    if isinstance(name, str):
        if name in KINDS[kind]:
            return KINDS[kind][name]
        if ":" in name:
            return _entry_of(kind, name, load(f"policy.{kind}", name))
        point = installed(f"cosched.{kind}").get(name)
        if point is not None:
            return _entry_of(kind, name, load(f"policy.{kind}", point.value))
    known = [*KINDS[kind], *installed(f"cosched.{kind}")]
    raise UsageError(f"policy.{kind}: no {kind} {name!r}{suggest(str(name), known)}")


def preset_named(name: object) -> Preset:
    """Return the composition of that name; UsageError where there is none, or it is no table."""
    if isinstance(name, str):
        name = ALIASES.get(name, name)
        if name in PRESETS:
            return PRESETS[name]
        point = installed(PRESET_GROUP).get(name)
        if point is not None:
            table = load("policy.preset", point.value)
            if not isinstance(table, Mapping):
                raise UsageError(f"policy.preset: {name} ({point.value}): expected a table such as a [policy] one")
            return Preset(f"installed as {point.value}", table)
    raise UsageError(f"policy.preset: no policy {name!r}{suggest(str(name), [*PRESETS, *installed(PRESET_GROUP)])}")


def installed(group: str) -> Mapping[str, EntryPoint]:
    """Return what other packages have installed in a group of entry points, by name."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - takes long to load, and the catalogue is known without

    return {point.name: point for point in entry_points(group=group)}


def load(key: str, path: str) -> Any:
    """Return what ``module:Class`` names; UsageError, naming ``key``, where it cannot be imported."""
    module, _, attribute = path.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for name in attribute.split("."):
            found = getattr(found, name)
    except Exception as error:  # whatever importing somebody's module can raise
        raise UsageError(f"{key}: {path}: {type(error).__name__}: {error}") from error
    return found


def suggest(word: str, known: Mapping[str, object] | list[str]) -> str:
    """Return a hint at the nearest name, or at all."""
    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(known)}"


def _entry_of(kind: str, name: str, make: Any) -> Entry:
    """Return somebody's class as a part: its settings are its keyword arguments."""
    if not callable(make):
        raise UsageError(f"policy.{kind}: {name}: expected a class, got {make!r}")

    def build(**settings: Any) -> Any:
        return _build(kind, name, make, settings)

    return Entry(build, f"installed as {name}", _parameters_of(make))


def _build(kind: str, name: str, make: Callable[..., Any], settings: Mapping[str, Any]) -> Any:
    protocol = PROTOCOLS[kind]
    try:
        part = make(**settings)
    except Exception as error:  # whatever somebody's constructor can raise
        raise UsageError(f"policy.{kind}: {name}: {type(error).__name__}: {error}") from error
    if protocol not in type(part).__mro__:
        raise UsageError(
            f"policy.{kind}: {name}: expected a part derived from cosched_plugin.api.{protocol.__name__}, got {type(part).__name__}"
        )
    return part


def _parameters_of(make: Callable[..., Any]) -> dict[str, Parameter]:
    """Return the keyword arguments that a file can set, with their defaults; what each accepts is its class's business."""
    found: dict[str, Parameter] = {}
    try:
        arguments = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):  # something built in: it has no settings
        return found
    for argument in arguments:
        if argument.kind in (argument.POSITIONAL_OR_KEYWORD, argument.KEYWORD_ONLY):
            default = argument.default if isinstance(argument.default, _SETTING) else REQUIRED
            found[argument.name] = Parameter(_anything, "what its class accepts", default, "")
    return found


class _Required:
    """In place of a default: the setting is left out unless it is given."""

    def __repr__(self) -> str:
        return "required"


REQUIRED: Final = _Required()


def _anything(value: object) -> bool:  # noqa: ARG001 - its class will say
    return True
