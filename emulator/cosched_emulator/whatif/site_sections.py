"""A site's file as sections of a scenario: which of them the runs of a question have, and notes of the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cosched_emulator.scenario.reader import read_scenario
from cosched_emulator.scenario.schema import Scenario
from cosched_emulator.workload.side_files.annotations import Annotations

# Sections of a site; the others are named
AS_THEY_ARE: Final = ("belief", "preemption", "partitions", "accounts", "limits", "requeue")  # in every window
TAKEN: Final = ("seed", "cluster", "workload", "truth", "script", *AS_THEY_ARE)
_OF_TRUTH: Final = ("composition", "pairs")  # the ways of contention have the rest


def site_of(file: str | None, overrides: Mapping[str, Any]) -> tuple[dict[str, Any], Mapping[str, Any] | None]:
    """Return the sections of a site file with options on top, paths from the current folder, and its policy, if it has one.

    A section that nothing is given of is left out, unless it is one of those that are taken.
    """
    scenario = read_scenario(file, overrides)
    usual = Scenario().as_dict()
    table = {
        name: _given(value)
        for name, value in scenario.as_dict().items()
        if name != "policy" and (name in TAKEN or value != usual.get(name))
    }
    return table, scenario.policy or None


def _given(value: Any) -> Any:
    """Return a section, or a list of tables, without the keys that nothing is given of."""
    if isinstance(value, Mapping):
        return {key: part for key, part in value.items() if part is not None}
    return [*map(_given, value)] if isinstance(value, list | tuple) else value


def left_out(site: Mapping[str, Any]) -> Iterator[str]:
    """Yield a note of what a site says, and the runs do not have."""
    forms: Mapping[type, str] = {list: "[[{}]]", tuple: "[[{}]]", dict: "[{}]"}
    left = {name: value for name, value in site.items() if name not in TAKEN and value}
    sections = [forms.get(type(value), "{}").format(name) for name, value in left.items()]
    if sections:
        yield f"left out of the site's settings: {', '.join(sections)}"
    usual = Scenario().as_dict()["truth"]
    keys = [
        key
        for key, value in site.get("truth", {}).items()
        if key not in _OF_TRUTH and value not in (usual.get(key), None, "none")
    ]
    if keys:
        yield f"left out of the site's settings: {', '.join(f'truth.{key}' for key in keys)}; each contention model has its own"


def of_facts(site: Mapping[str, Any], said: Annotations | None) -> Iterator[str]:
    """Yield what of a site's facts holds within a window, and what begins with it."""
    if not (said and said.values["memory_mb"]) and not site["workload"].get("memory_mb"):
        yield "no start is delayed for lack of memory"
    if said and said.values["after"]:
        yield "a dependency on a job before the window counts as met"
    if site.get("script"):
        yield "each window has the outages, reservations and other scripted changes of its time"
