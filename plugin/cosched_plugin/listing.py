"""All available names: presets, parts of compositions, and installed policies and contention models."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from cosched_hwmodel.models.by_name import BUILT_IN
from cosched_hwmodel.models.custom import installed_models
from cosched_plugin.config import ENTRY_POINTS
from cosched_plugin.policies.composition.catalogue import KINDS
from cosched_plugin.policies.composition.finding import PRESET_GROUP, installed
from cosched_plugin.policies.composition.part_settings import REQUIRED
from cosched_plugin.policies.composition.presets import ALIASES, DEFAULTS, PRESETS
from cosched_plugin.policies.composition.resolved import Resolved, name_of, resolve
from cosched_terminal.tables import align


def catalogue() -> dict[str, Any]:
    """Return presets, parts, installed policies and contention models, ready for JSON."""
    return {
        "presets": [
            {"name": name, "text": preset.text, "policy": _all_parts(resolve({"preset": name}))}
            for name, preset in PRESETS.items()
        ],
        "aliases": dict(ALIASES),
        "parts": {
            kind: [
                {
                    "name": name,
                    "text": part.text,
                    "parameters": [
                        {
                            "name": key,
                            "expected": item.expected,
                            "default": None if (default := part.default(key)) is REQUIRED else default,
                            "text": item.text,
                        }
                        for key, item in part.parameters.items()
                    ],
                }
                for name, part in parts.items()
            ]
            for kind, parts in KINDS.items()
        },
        "installed": _policies(),
        "installed_presets": _presets(),
        "installed_parts": {kind: _installed(f"cosched.{kind}", KINDS[kind]) for kind in KINDS},
        "contention": [
            *({"name": name, "class": None} for name in BUILT_IN),
            *({"name": name, "class": path} for name, path in installed_models().items() if name not in BUILT_IN),
        ],
    }


def _all_parts(resolved: Resolved) -> Mapping[str, Mapping[str, Any]]:
    """Return a full table with the parts that it leaves out."""
    return {kind: resolved.get(kind, {"name": name_of(kind, resolved)}) for kind in KINDS}


def _policies() -> list[dict[str, str]]:
    return _installed(ENTRY_POINTS, {*PRESETS, *ALIASES, *installed(PRESET_GROUP)})


def _presets() -> list[dict[str, str]]:
    return _installed(PRESET_GROUP, {*PRESETS, *ALIASES})


def _installed(group: str, others: Collection[str]) -> list[dict[str, str]]:
    """Return what other packages have installed, but for names of ``others``, which come first."""
    return [{"name": name, "class": point.value} for name, point in installed(group).items() if name not in others]


def policies_begun(_typed: str, _context: object) -> Iterator[tuple[str, str]]:
    """Yield the names of policies with what they are, for a shell."""
    yield from ((name, preset.text) for name, preset in PRESETS.items())
    yield from ((name, f"the preset {preset}") for name, preset in ALIASES.items())
    yield from ((each["name"], each["class"]) for each in _policies() + _presets())


def settings_begun(_typed: str, _context: object) -> Iterator[tuple[str, str]]:
    """Yield what can stand behind --set: KIND=PART, and KIND.SETTING= with its default."""
    for kind, parts in KINDS.items():
        yield from ((f"{kind}={name}", part.text) for name, part in parts.items())
        for part in parts.values():
            for key, item in part.parameters.items():
                default = part.default(key)
                shown = "" if default is REQUIRED else default if isinstance(default, str) else json.dumps(default)
                yield f"{kind}.{key}={shown}", item.text


def catalogue_lines(catalogue: Mapping[str, Any]) -> Iterator[str]:
    """Yield the catalogue as tables of text."""
    yield "Presets (--policy NAME):"
    yield from _table(
        ("PRESET", "MEANING", "PARTS"),
        ((preset["name"], preset["text"], _own_parts(preset["policy"])) for preset in catalogue["presets"]),
        later=("PARTS",),
    )
    yield "\nOther names of presets:"
    yield from _table(("NAME", "PRESET"), catalogue["aliases"].items())
    for kind, parts in catalogue["parts"].items():
        yield f"\n{kind.capitalize()} (--set {kind}=PART), {DEFAULTS[kind]} unless set:"
        yield from _table(("PART", "MEANING"), ((part["name"], part["text"]) for part in parts))
        for names, rows in _settings(parts):
            yield f"\nSettings of {names} (--set {kind}.SETTING=VALUE):"
            yield from _table(("SETTING", "DEFAULT", "MEANING", "EXPECTED"), rows, later=("EXPECTED",))
    for title, entries in (
        ("Policies", catalogue["installed"]),
        ("Presets", catalogue["installed_presets"]),
        *((f"Parts of kind {kind}", entries) for kind, entries in catalogue["installed_parts"].items()),
    ):
        if entries:
            yield f"\n{title} installed by other packages:"
            yield from _table(("NAME", "CLASS"), ((entry["name"], entry["class"]) for entry in entries))
    yield "\nContention models that a manager may name:"
    models = ((entry["name"], entry["class"] or "built in") for entry in catalogue["contention"])
    yield from _table(("MODEL", "CLASS"), models)


def _own_parts(policy: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the parts of a preset that are not those of a composition of which nothing is set."""
    own = [f"{kind}={part['name']}" for kind, part in policy.items() if part["name"] != DEFAULTS[kind]]
    return ", ".join(own) or "-"


def _settings(parts: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """Yield names of parts and the rows of a table: the settings that mean the same in all of these parts."""
    found: dict[tuple[str, ...], list[str]] = {}
    for part in parts:
        for item in part["parameters"]:
            setting = (item["name"], json.dumps(item["default"]), item["text"], item["expected"])
            found.setdefault(setting, []).append(part["name"])
    for names in dict.fromkeys(map(tuple, found.values())):
        yield ", ".join(names), [setting for setting, of in found.items() if tuple(of) == names]


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], later: Sequence[str] = ()) -> list[str]:
    """Return a text for each row; names come from other packages, too, and have any length."""
    return align([heads, *rows], (), later=later, indent=2)
