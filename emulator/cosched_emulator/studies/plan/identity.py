"""The key of a run: equal for runs with the same result, so that a study makes each of them once.

A key covers the resolved scenario, the contents of the files that it names, the policy with its complete settings, the
source files of modules that the policy or a measure names, and the version of cosched. File names do not count.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from cosched_emulator.errors import InputError

FILES: Final = (
    ("workload", "swf"),
    ("workload", "annotations"),
    ("workload", "applications"),
    ("workload", "profiles"),
    ("cluster", "file"),
    ("truth", "pairs"),
    ("belief", "pair_table"),
)


@cache
def version() -> str:
    """Return the version of cosched that is installed."""
    try:
        return metadata.version("cosched")
    except metadata.PackageNotFoundError:
        return "unknown"


def key_of(
    scenario: str, argument: str, settings: Mapping[str, Any], measures: Sequence[str], sources: Mapping[str, str]
) -> str:
    """Return the key of a run, 16 hexadecimal digits, from the identity of its scenario and the digests of modules' sources."""
    identity = {
        "version": version(),
        "scenario": scenario,
        "policy": [argument, settings],
        "measures": list(measures),
        "modules": sources,
    }
    return _digest(json.dumps(identity, sort_keys=True, default=str).encode())[:16]


def scenario_identity(scenario: Mapping[str, Any]) -> str:
    """Return a text that is equal for two scenarios of the same content; of files the content counts, and not the name."""
    values = {name: dict(item) if isinstance(item, Mapping) else item for name, item in scenario.items()}
    values.pop("policy", None)
    for section, key in FILES:
        if values[section].get(key) is not None:
            values[section][key] = _file_digest(values[section][key])
    programs = values["workload"].get("programs")
    if is_program_file(programs):
        values["workload"]["programs"] = _file_digest(programs)
    return _digest(json.dumps(values, sort_keys=True, default=str).encode())


def is_program_file(programs: str | None) -> bool:
    """Tell whether the programs of a workload are those of a side file, and not one by name."""
    return programs is not None and programs.endswith(".csv")


def forget_files() -> None:
    """Read files again: in a long session a log can change between two studies. A module cannot, once it is imported."""
    _file_digest.cache_clear()


def modules_in(value: object) -> frozenset[str]:
    """Return the modules of all texts MODULE:NAME in a value."""
    return frozenset(_modules(value))


def _modules(value: object) -> Iterator[str]:
    if isinstance(value, str):
        module, separator, name = value.partition(":")
        if separator and name.isidentifier() and all(part.isidentifier() for part in module.split(".")):
            yield module
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _modules(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _modules(item)


def source_digests(modules: Iterable[str]) -> dict[str, str]:
    """Return the digests of the sources that this process has, or would import."""
    return {name: _source_digest(name) for name in sorted(modules)}


@cache
def _source_digest(module: str) -> str:
    """Return the digest of a module's source, empty for what is not a file."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return ""  # the choice of the policy reports it
    file = None if spec is None else spec.origin
    return _digest(Path(file).read_bytes()) if file is not None and Path(file).is_file() else ""


@cache
def _file_digest(file: str) -> str:
    if Path(file).exists() and not Path(file).is_file():
        raise InputError(file, "a regular file")
    try:
        with open(file, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(file, "a file that can be read", error.strerror or str(error)) from error


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
