"""All available names: presets, parts of compositions, and installed policies and contention models."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from cosched_hwmodel.models.by_name import BUILT_IN
from cosched_hwmodel.models.custom import installed_models
from cosched_plugin.config import ENTRY_POINTS
from cosched_plugin.policies.composition.catalogue import KINDS, REQUIRED
from cosched_plugin.policies.composition.finding import PRESET_GROUP, installed
from cosched_plugin.policies.composition.presets import ALIASES, PRESETS
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
        "installed": _installed(ENTRY_POINTS),
        "installed_presets": _installed(PRESET_GROUP),
        "installed_parts": {kind: _installed(f"cosched.{kind}") for kind in KINDS},
        "contention": [
            *({"name": name, "class": None} for name in BUILT_IN),
            *({"name": name, "class": path} for name, path in installed_models().items()),
        ],
    }


def _all_parts(resolved: Resolved) -> Mapping[str, Mapping[str, Any]]:
    """Return a full table with the parts that it leaves out."""
    return {kind: resolved.get(kind, {"name": name_of(kind, resolved)}) for kind in KINDS}


def _installed(group: str) -> list[dict[str, str]]:
    return [{"name": name, "class": point.value} for name, point in installed(group).items()]


def policies_begun(_typed: str, _context: object) -> Iterator[tuple[str, str]]:
    """Yield the names of policies with what they are, for a shell."""
    yield from ((name, preset.text) for name, preset in PRESETS.items())
    yield from ((name, f"the preset {preset}") for name, preset in ALIASES.items())
    yield from ((each["name"], each["class"]) for each in _installed(ENTRY_POINTS) + _installed(PRESET_GROUP))


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
    """Yield the catalogue as lines of text."""
    yield f"Presets (--policy NAME); last column: {' x '.join(kind for kind in KINDS if kind != 'budget')}"
    yield from _columns(
        (
            preset["name"],
            preset["text"],
            " x ".join(part["name"] for kind, part in preset["policy"].items() if kind != "budget"),  # none has one
        )
        for preset in catalogue["presets"]
    )
    yield "\nOther names of presets:"
    yield from _columns(catalogue["aliases"].items())
    for kind, entries in catalogue["parts"].items():
        yield f"\n{kind.capitalize()} (--set {kind}=NAME):"
        lines = _columns((entry["name"], entry["text"]) for entry in entries)
        for entry, line in zip(entries, lines, strict=True):
            yield line
            for item in entry["parameters"]:
                yield (
                    f"    {kind}.{item['name']} = {json.dumps(item['default'])}   {item['text']} ({item['expected']})"
                )
    for title, entries in (
        ("Policies", catalogue["installed"]),
        ("Presets", catalogue["installed_presets"]),
        *((f"Parts of kind {kind}", entries) for kind, entries in catalogue["installed_parts"].items()),
    ):
        if entries:
            yield f"\n{title} installed by other packages:"
            yield from _columns((entry["name"], entry["class"]) for entry in entries)
    yield "\nContention models that a manager may name:"
    yield from _columns((entry["name"], entry["class"] or "built in") for entry in catalogue["contention"])


def _columns(rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a text for each row; names come from other packages, too, and have any length."""
    return align([*rows], (), head=False, indent=2)
