"""Parts and presets by name: from the catalogue, from installed packages, and as ``module:Class``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Set
from typing import TYPE_CHECKING, Any, Final

from cosched_plugin import api
from cosched_plugin.policies.composition.catalogue import KINDS, own_notes
from cosched_plugin.policies.composition.part_settings import Entry, Parameter, defaults_of, is_setting
from cosched_plugin.policies.composition.presets import ALIASES, PRESETS, Preset

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PROTOCOLS: Final[Mapping[str, type]] = {
    "order": api.Order,
    "backfill": api.Backfill,
    "shape": api.Shape,
    "placement": api.Placement,
    "matching": api.Matching,
    "pairing": api.Pairing,
    "fairness": api.Fairness,
    "slices": api.Slices,
    "budget": api.Budget,
    "belief": api.Believer,
    "ledger": api.Ledger,
}
# Entry points of compositions; those of parts are in cosched.order, cosched.matching, ...
PRESET_GROUP: Final = "cosched.presets"
_SETTING: Final = "true or false, a whole number, a finite number, a text, or a list or table of these"


def entry_named(kind: str, name: object) -> Entry:
    """Return the part of that name; UsageError where it does not exist or cannot be imported."""
    if isinstance(name, str):
        if name in KINDS[kind]:
            return KINDS[kind][name]
        if ":" in name:
            return _entry_of(kind, name, load(f"policy.{kind}", name))
        path = installed_path(f"policy.{kind}", f"cosched.{kind}", name)
        if path is not None:
            return _entry_of(kind, name, load(f"policy.{kind}: {name}", path))
    known = [*KINDS[kind], *installed(f"cosched.{kind}")]
    raise api.UsageError(f"policy.{kind}: no {kind} {name!r}{suggest(str(name), known)}")


def preset_named(name: object) -> Preset:
    """Return the composition of that name; UsageError where it does not exist or is not a table."""
    if isinstance(name, str):
        name = ALIASES.get(name, name)
        if name in PRESETS:
            return PRESETS[name]
        path = installed_path("policy.preset", PRESET_GROUP, name)
        if path is not None:
            table = load(f"policy.preset: {name}", path)
            if not isinstance(table, Mapping):
                raise api.UsageError(f"policy.preset: {name} ({path}): expected a table such as a [policy] one")
            return Preset(f"installed as {path}", table)
    raise api.UsageError(f"policy.preset: no policy {name!r}{suggest(str(name), [*PRESETS, *installed(PRESET_GROUP)])}")


def installed(group: str) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group that other packages have installed, by name."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow to load, and the catalogue does not need it

    return {point.name: point for point in entry_points(group=group)}


def installed_path(key: str, group: str, name: str) -> str | None:
    """Return the ``module:Class`` of an installed name; None where it is not installed, UsageError where two packages install it."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - as above

    found = {f"{point.module}:{point.attr}": point for point in entry_points(group=group) if point.name == name}
    if len(found) > 1:
        packages = [f"{path} of {point.dist.name if point.dist else 'a package'}" for path, point in found.items()]
        raise api.UsageError(f"{key}: {name}: expected one package that has it installed, got {' and '.join(packages)}")
    return next(iter(found), None)


def load(key: str, path: str) -> Any:
    """Return what ``module:Class`` names; UsageError, naming ``key``, where it cannot be imported."""
    try:
        return api.import_named(path)
    except api.NamedImportError as error:
        raise api.UsageError(f"{key}: {path}: {error}") from error


def suggest(word: str, known: Mapping[str, object] | list[str]) -> str:
    """Return a hint at the nearest name, or at all names."""
    from difflib import get_close_matches  # noqa: PLC0415 - slow to load, for errors only

    names = list(dict.fromkeys(known))
    close = get_close_matches(word, names, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known: {', '.join(names)}" if names else "; there are none"


def _entry_of(kind: str, name: str, make: Any) -> Entry:
    """Return a class from outside as a part: its settings are its keyword arguments."""
    if not callable(make):
        raise api.UsageError(f"policy.{kind}: {name}: expected a class, got {make!r}")

    def build(**settings: Any) -> Any:
        return _build(kind, name, make, settings)

    accepted = Parameter(is_setting, lambda: _SETTING, "")
    return Entry(build, f"installed as {name}", dict.fromkeys(defaults_of(make), accepted), (make,))


def _build(kind: str, name: str, make: Callable[..., Any], settings: Mapping[str, Any]) -> Any:
    protocol = PROTOCOLS[kind]
    with api.from_outside(lambda told: api.UsageError(f"policy.{kind}: {name}: {told}")):
        part = make(**settings)
    if protocol not in type(part).__mro__:
        raise api.UsageError(
            f"policy.{kind}: {name}: expected a part derived from cosched_plugin.api.{protocol.__name__}, got {type(part).__name__}"
        )
    _check_words(kind, name, part)
    return part


def _check_words(kind: str, name: str, part: api.Part) -> None:
    """Raise UsageError where a part's needs, provisions or note key are not texts."""
    for attribute in ("needs", "provides"):
        words = _value_of(kind, name, part, attribute)
        if not isinstance(words, Set) or not all(isinstance(word, str) for word in words):
            raise api.UsageError(f"policy.{kind}: {name}: {attribute}: expected a set of texts, got {words!r}")
    key = _value_of(kind, name, part, "note")
    if not isinstance(key, str):
        raise api.UsageError(f"policy.{kind}: {name}: note: expected a text, the key of its note, got {key!r}")
    if key and type(part).remember is not (kept := own_notes()).get(key) and key in kept:
        raise api.UsageError(
            f"policy.{kind}: {name}: note: {key!r} is a key that cosched uses; expected one of its own"
        )


def _value_of(kind: str, name: str, part: api.Part, attribute: str) -> object:
    with api.from_outside(lambda told: api.UsageError(f"policy.{kind}: {name}: {attribute}: {told}")):
        return getattr(part, attribute)  # it may be a property


def settings_of(make: Callable[..., Any]) -> list[str] | None:
    """Return the names of the keyword arguments of a class; None where it takes any, or does not tell."""
    try:
        arguments = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(argument.kind is argument.VAR_KEYWORD for argument in arguments):
        return None
    return list(defaults_of(make))
