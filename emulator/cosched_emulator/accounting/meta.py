"""The meta data that ties a database to its run, and the check that it belongs to the present run."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from typing import Any

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.scenario.schema import Scenario
from cosched_emulator.workload.job import Workload


def meta_of(scenario: Scenario, workload: Workload, kind: str) -> dict[str, str]:
    """Return the meta data of a new database: the scenario, a digest of its jobs, and a unique name of the run."""
    digest = hashlib.sha256()
    for job in workload.jobs:
        digest.update(repr(tuple(job)).encode())
    return {
        "kind": kind,
        "scenario": json.dumps(scenario.as_dict(), sort_keys=True),
        "workload": digest.hexdigest(),
        "run": secrets.token_hex(8),
    }


def check_meta(meta: Mapping[str, str], scenario: Scenario, workload: Workload, kind: str, file: str) -> None:
    """Raise ConfigurationError if a database is for another kind of run, another scenario (its clock aside), or other jobs."""
    if meta.get("kind") != kind:
        raise ConfigurationError("db", f"a database of a {kind} run", f"one of a {meta.get('kind')} run", file=file)
    present = meta_of(scenario, workload, kind)
    ours = json.loads(present["scenario"])
    theirs = json.loads(meta["scenario"])
    differing = [f"{place}: {mine} instead of {old}" for place, mine, old in _differences(ours, theirs, "")]
    if differing:
        raise ConfigurationError("db", "a database of the same scenario", "; ".join(differing[:3]), file=file)
    if meta.get("workload") != present["workload"]:
        raise ConfigurationError("db", "a database of the same jobs", "others: their file has changed", file=file)


def _differences(ours: Any, theirs: Any, place: str) -> list[tuple[str, Any, Any]]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        found = []
        for key in sorted(set(ours) | set(theirs)):
            if place == "" and key in ("clock", "results"):
                continue
            found += _differences(ours.get(key), theirs.get(key), f"{place}.{key}" if place else key)
        return found
    return [] if ours == theirs else [(place, ours, theirs)]
