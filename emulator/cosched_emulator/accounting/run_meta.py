"""The meta data that ties a database to its run, and the check that it belongs to the present run, whichever version made it."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from cosched_emulator.accounting.chain import MACHINE
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.scenario.schema import Scenario
from cosched_emulator.workload.job import Workload, WorkloadJob
from cosched_hwmodel.composite.job_profile import Profile
from cosched_plugin.protocol.messages import JobSpec

# The name of the policy whose answers a run in virtual time has recorded, and what it decides by. Older programs recorded the name
# alone; that of a scheduler that connects is known later.
POLICY: Final = "policy"
POLICY_SETTINGS: Final = "policy_settings"
# How earlier programs wrote jobs before they made a digest of them: the fields of a spec, and of a job after its spec.
_SPEC: Final = (
    "id", "submit_us", "processes", "estimate_us", "limit_us", "user", "name", "ppn_min", "ppn_max", "threads_per_process",
    "memory_mb", "exclusive",
)  # fmt: skip
_BELIEVED: Final = ("demand", "usage", "self_slowdown")
_ASKED: Final = ("eligible", "resources", "licences")
_JOB: Final = (
    "run_us", "demand", "source_id", "usage", "self_slowdown", "requeue", "exit_code", "queue", "partition",
)  # fmt: skip
_WRITTEN_BEFORE: Final = (
    ((*_SPEC, *_ASKED, *_BELIEVED, "unpaired", "profile", "priority"), (*_JOB, "profile")),
    ((*_SPEC, *_BELIEVED, "unpaired", "profile", *_ASKED, "priority"), (*_JOB, "profile")),
    ((*_SPEC, *_BELIEVED, "unpaired", "profile"), (*_JOB, "profile")),
    ((*_SPEC, *_BELIEVED, "unpaired"), _JOB),
    ((*_SPEC, *_BELIEVED), _JOB),
)


def meta_of(scenario: Scenario, workload: Workload, kind: str) -> dict[str, str]:
    """Return the meta data of a new database: the scenario, its file of the machine, a digest of its jobs, a unique name of the run."""
    file = scenario.cluster.file
    return {
        **({} if file is None else {MACHINE: Path(file).read_text(encoding="utf-8")}),
        "kind": kind,
        "scenario": json.dumps(scenario.as_dict(), sort_keys=True),
        "workload": _digest(map(_by_name, workload.jobs)),
        "run": secrets.token_hex(8),
    }


def check_meta(
    meta: Mapping[str, str], scenario: Scenario, workload: Workload, kind: str, file: str, *, any_machine: bool = False
) -> bool:
    """Raise ConfigurationError if a database is for another kind of run, another scenario (its clock aside), or other jobs.

    With ``any_machine`` it may be for another machine; return whether it is for the same.
    """
    if meta.get("kind") != kind:
        raise ConfigurationError("db", f"a database of a {kind} run", f"one of a {meta.get('kind')} run", file=file)
    present = meta_of(scenario, workload, kind)
    ours = json.loads(present["scenario"])
    theirs = json.loads(meta["scenario"])
    for section, settings in ours.items():
        _fill(settings, theirs.get(section), getattr(scenario, section, None))
    same: bool = ours["cluster"] == theirs["cluster"] and meta.get(MACHINE) in (None, present.get(MACHINE))
    if any_machine:
        theirs["cluster"] = ours["cluster"]
    differing = [f"{place}: {mine} instead of {old}" for place, mine, old in _differences(ours, theirs, "")]
    if differing:
        raise ConfigurationError("db", "a database of the same scenario", "; ".join(differing[:3]), file=file)
    if not same and not any_machine:
        raise ConfigurationError("db", "a database of the same machine", "another: its file has changed", file=file)
    jobs = meta.get("workload")
    if jobs != present["workload"] and not any(
        jobs == _digest(_as_written(job, *fields) for job in workload.jobs) for fields in _WRITTEN_BEFORE
    ):
        raise ConfigurationError("db", "a database of the same jobs", "others: their file has changed", file=file)
    return same


def policy_meta(name: str, settings: Mapping[str, Any], sources: Mapping[str, str]) -> dict[str, str]:
    """Return the meta data of the policy whose answers are recorded; ``sources`` has the digest of each file that it decides by."""
    return {POLICY: name, POLICY_SETTINGS: json.dumps({"settings": settings, "sources": sources})}


def check_policy(meta: Mapping[str, str], present: Mapping[str, str], file: str) -> None:
    """Raise ConfigurationError if a database is for another policy than ``present`` has, as far as both tell of it."""
    name = present[POLICY]
    before = meta.get(POLICY, name)
    differing = [f"{name} instead of {before}"] * (name != before)
    if not differing and POLICY_SETTINGS in meta and POLICY_SETTINGS in present:
        ours, theirs = json.loads(present[POLICY_SETTINGS]), json.loads(meta[POLICY_SETTINGS])
        changed = _differences(ours["settings"], theirs["settings"], "policy")
        differing = [f"{place}: {mine} instead of {old}" for place, mine, old in changed]
        differing += [f"{source} has changed" for source, *_ in _differences(ours["sources"], theirs["sources"], "")]
    if differing:
        raise ConfigurationError("db", "a database of the same policy", "; ".join(differing[:3]), file=file)


# Programs differ in the settings that they know, and in which they leave out where they have their default.
def _fill(ours: Any, theirs: Any, settings: object) -> None:
    """Give both tables of a section the settings that one of them alone has, with their default."""
    if not (isinstance(ours, dict) and isinstance(theirs, dict) and is_dataclass(settings)):
        return
    defaults = {field.name: json.dumps(field.default, default=str) for field in fields(settings)}
    for key in sorted(set(ours) ^ set(theirs)):
        table, other = (ours, theirs) if key in ours else (theirs, ours)
        if json.dumps(table[key]) == defaults.get(key):
            other[key] = table[key]


def _differences(ours: Any, theirs: Any, place: str) -> list[tuple[str, Any, Any]]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        found = []
        for key in sorted(set(ours) | set(theirs)):
            if place == "" and key in ("clock", "results"):
                continue
            found += _differences(ours.get(key), theirs.get(key), f"{place}.{key}" if place else key)
        return found
    return [] if ours == theirs else [(place, ours, theirs)]


def _digest(jobs: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for text in jobs:
        digest.update(text.encode())
    return digest.hexdigest()


def _by_name(record: WorkloadJob | JobSpec | Profile) -> str:
    """Return a job as a text that stays as it is when later programs know further fields, or another order of them."""
    parts = []
    kind: Any = type(record)
    for name, place, default in _order_of(kind):
        value = record[place]
        if value != default:
            told = _by_name(value) if isinstance(value, JobSpec | Profile) else repr(value)
            parts.append(f"{name}={told}")
    return f"{{{' '.join(parts)}}}"


@cache
def _order_of(kind: type[WorkloadJob | JobSpec | Profile]) -> list[tuple[str, int, object]]:
    """Return the fields by name: each with its place, and its default or something that no value equals."""
    return sorted((name, place, kind._field_defaults.get(name, kind)) for place, name in enumerate(kind._fields))


def _as_written(job: WorkloadJob, of_spec: Sequence[str], of_job: Sequence[str]) -> str:
    spec = ", ".join([f"{name}={getattr(job.spec, name)!r}" for name in of_spec])
    return f"(JobSpec({spec}), {', '.join([repr(getattr(job, name)) for name in of_job])})"
