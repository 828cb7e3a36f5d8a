"""What a database says of the run that it is for, and whether that is the run at hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.scenario import Scenario


def meta_of(scenario: Scenario, kind: str) -> dict[str, str]:
    """Return what a new database is to say of the run that it is for."""
    return {"kind": kind, "scenario": json.dumps(scenario.as_dict(), sort_keys=True)}


def check_meta(meta: Mapping[str, str], scenario: Scenario, kind: str, file: str) -> None:
    """Raise ConfigurationError where a database is for another kind of run, or another scenario but for its clock."""
    if meta.get("kind") != kind:
        raise ConfigurationError("db", f"a database of a {kind} run", f"one of a {meta.get('kind')} run", file=file)
    ours = json.loads(meta_of(scenario, kind)["scenario"])
    theirs = json.loads(meta["scenario"])
    differing = [f"{place}: {mine} instead of {old}" for place, mine, old in _differences(ours, theirs, "")]
    if differing:
        raise ConfigurationError("db", "a database of the same scenario", "; ".join(differing[:3]), file=file)


def _differences(ours: Any, theirs: Any, place: str) -> list[tuple[str, Any, Any]]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        found = []
        for key in sorted(set(ours) | set(theirs)):
            if place == "" and key in ("clock", "results"):
                continue
            found += _differences(ours.get(key), theirs.get(key), f"{place}.{key}" if place else key)
        return found
    return [] if ours == theirs else [(place, ours, theirs)]
