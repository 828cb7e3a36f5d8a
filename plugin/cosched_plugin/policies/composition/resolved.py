"""Turns a plain table, from TOML or the command line, into the full table of a composition; refuses what cannot work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cosched_plugin.api import NONE, Member, Part, UsageError, refusal
from cosched_plugin.policies.composition.catalogue import KINDS, needs_and_provisions
from cosched_plugin.policies.composition.finding import entry_named, preset_named, suggest
from cosched_plugin.policies.composition.part_settings import REQUIRED
from cosched_plugin.policies.composition.presets import DEFAULTS, LEFT_OUT, Table

Resolved = Mapping[str, Mapping[str, Any]]


def resolve(table: Table) -> dict[str, dict[str, Any]]:
    """Return the full table of a composition, each part with its name and all its parameters; no kind that few have.

    ``table`` may name a ``preset`` to start from, which may name another; the parts (``order``, ``backfill``, ``shape``,
    ``placement``, ``matching``, ``pairing``, ``fairness``, ``slices``, ``budget``, ``belief``, ``ledger``) are names, or tables with
    ``name`` and parameters. Raises UsageError naming the key, with the closest valid one, and for parts that cannot work together.
    """
    parts = _merged(table, ())
    resolved = {kind: _resolve_part(kind, parts[kind]) for kind in KINDS}
    resolved = {kind: part for kind, part in resolved.items() if kind not in LEFT_OUT or part["name"] != DEFAULTS[kind]}
    built: dict[str, Part | None] = {kind: build_part(kind, resolved) for kind in KINDS}
    reason = refusal(_members(resolved, built), _providers)
    if reason is not None:
        raise UsageError(f"policy: {reason}")
    _check_notes(resolved, built)
    return resolved


def members(resolved: Resolved) -> list[Member]:
    """Return the needs and provisions of the parts of a composition."""
    return _members(resolved, {kind: build_part(kind, resolved) for kind in KINDS})


def _members(resolved: Resolved, parts: Mapping[str, Part | None]) -> list[Member]:
    return [
        Member(kind, name_of(kind, resolved), *((NONE, NONE) if part is None else (part.needs, part.provides)))
        for kind, part in parts.items()
    ]


def _check_notes(resolved: Resolved, parts: Mapping[str, Part | None]) -> None:
    """Raise UsageError where two parts would write the same note in different ways."""
    of: dict[str, tuple[str, Part]] = {}
    for kind, part in parts.items():
        if part is None or not part.note:
            continue
        other, first = of.setdefault(part.note, (kind, part))
        if type(first).remember is not type(part).remember:
            one, two = f"{other} {name_of(other, resolved)}", f"{kind} {name_of(kind, resolved)}"
            raise UsageError(
                f"policy: {one} and {two} both remember in the note {part.note!r}: expected a key for each"
            )


def name_of(kind: str, resolved: Resolved) -> str:
    """Return the name of a part of a composition."""
    return str(resolved[kind]["name"] if kind in resolved else DEFAULTS[kind])


def build_part(kind: str, resolved: Resolved) -> Any:
    """Build one part of a composition; None where the composition has no part of this kind."""
    parameters = {key: value for key, value in resolved.get(kind, {}).items() if key != "name"}
    return entry_named(kind, name_of(kind, resolved)).build(**parameters)


def _providers(need: str) -> list[str]:
    """Return the parts of the catalogue that provide something, with default settings."""
    return [f"{kind} {name}" for (kind, name), (_, provided) in needs_and_provisions().items() if need in provided]


def _merged(table: Table, below: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Return the entries of all parts: the table's entries override the preset's; ``below``: presets that led here."""
    for key in table:
        if key != "preset" and key not in KINDS:
            raise UsageError(f"policy.{key}: no such key{suggest(str(key), ['preset', *KINDS])}")
    preset = table.get("preset")
    if preset is None:
        base = {kind: {"name": name} for kind, name in DEFAULTS.items()}
    elif preset in below:
        raise UsageError(f"policy.preset: {' -> '.join([*below, str(preset)])}: a preset cannot be built on itself")
    else:
        base = _merged(preset_named(preset).table, (*below, preset))
    return {kind: _put_on(kind, table.get(kind, {}), base[kind]) for kind in KINDS}


def _put_on(kind: str, entry: object, base: Mapping[str, Any]) -> dict[str, Any]:
    """Return a part's entry; missing parameters come from ``base``, if that is the same part."""
    if isinstance(entry, str):
        entry = {"name": entry}
    if not isinstance(entry, Mapping):
        raise UsageError(f"policy.{kind}: expected a name or a table, got {entry!r}")
    name = entry.get("name", base["name"])
    return {**base, **entry} if name == base["name"] else {**entry, "name": name}


def _resolve_part(kind: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a part's name and all its parameters."""
    name = entry["name"]
    part = entry_named(kind, name)
    resolved: dict[str, Any] = {"name": name}
    for key in entry:
        if key != "name" and key not in part.parameters:
            raise UsageError(f"policy.{kind}.{key}: {kind} {name} has no such parameter{suggest(key, part.parameters)}")
    for key, parameter in part.parameters.items():
        value = entry[key] if key in entry else part.default(key)
        if value is REQUIRED or (parameter.added and key not in entry):
            continue
        if not parameter.check(value):
            raise UsageError(f"policy.{kind}.{key}: expected {parameter.expected}, got {value!r}")
        resolved[key] = value
    for key, parameter in part.parameters.items():
        if key in resolved and resolved[key] != part.default(key):
            for other, values in parameter.only.items():
                if resolved.get(other, part.default(other)) not in values:
                    wanted = " or ".join([f"{other} = {value!r}" for value in values])
                    raise UsageError(
                        f"policy.{kind}.{key}: remove it: it has an effect with {wanted} only, and is {resolved[key]!r}"
                    )
    return resolved
