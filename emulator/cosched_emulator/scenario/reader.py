"""A scenario, or a fault plan, from a TOML file: keys and types are checked here, values when a run is prepared."""

from __future__ import annotations

import os
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from cosched_emulator.bounds import hint_of
from cosched_emulator.errors import ConfigurationError, InputError
from cosched_emulator.offered import STDIN
from cosched_emulator.scenario.schema import GONE, Scenario
from cosched_hwmodel.text_formats import read_toml

if TYPE_CHECKING:
    from cosched_emulator.scenario.fault_sections import FaultsSection

Section = TypeVar("Section")

# Keys that name files: what such a file holds is part of the scenario.
FILES: Final = (
    ("workload", "swf"),
    ("workload", "annotations"),
    ("workload", "applications"),
    ("workload", "profiles"),
    ("cluster", "file"),
    ("truth", "pairs"),
    ("belief", "pair_table"),
    ("manager", "lags"),
)


def read_scenario(file: str | None, overrides: Mapping[str, Any]) -> Scenario:
    """Return the scenario in ``file`` (None: all defaults) with the keys of ``overrides``, a table of the same form, replaced.

    A relative path in the file is relative to the file's folder. Raises InputError or ConfigurationError.
    """
    return scenario_of_table({} if file is None else read_table(file), overrides, file or "")


def read_table(file: str) -> dict[str, Any]:
    """Return the table in a TOML file, of a scenario or with one in it; relative paths in its sections become relative to the
    file's folder. Raises InputError.
    """
    return anchor(_parse(file), Path(file).parent)


def scenario_of_table(base: Mapping[str, Any], overrides: Mapping[str, Any], file: str = "") -> Scenario:
    """Return the scenario in a table, with the keys of ``overrides`` replaced; errors name ``file``. Raises ConfigurationError.

    In a Python table, None means that the key is not given, if the key has no other default.
    """
    check_owner_of_parameters(base, overrides, file)
    table = dict(base)
    for key, value in overrides.items():
        below = table.get(key, {})
        if not isinstance(value, Mapping):
            table[key] = value
        elif isinstance(below, Mapping):  # anything else is refused below, with or without an override
            table[key] = {**(_beside(below, value) if key == "cluster" else below), **value}
    return _section(Scenario, table, "", file)


def _beside(cluster: Mapping[str, Any], given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the keys of a machine that stay beside others: a file of node classes, and nodes of one shape, replace each other."""
    if given.get("file") is not None:
        return {}
    if any(given.get(key) is not None for key in ("nodes", "processors", "preset")):
        return {key: value for key, value in cluster.items() if key != "file"}
    return cluster


def check_owner_of_parameters(base: Mapping[str, Any], changes: Mapping[str, Any], file: str = "") -> None:
    """Raise ConfigurationError if ``changes`` name another coscheduling policy than a scenario's table, and keep its parameters."""
    below, above = base.get("time_sharing"), changes.get("time_sharing")
    if not isinstance(below, Mapping) or not isinstance(above, Mapping):
        return
    before, after = below.get("coscheduling"), above.get("coscheduling")
    given = below.get("coscheduling_parameters")
    if given and None not in (before, after) and before != after and "coscheduling_parameters" not in above:
        expected = f"none beside another policy, {after}, as these belong to {before}"
        raise ConfigurationError("time_sharing.coscheduling_parameters", expected, repr(given), file=file)


def read_faults(file: str) -> FaultsSection:
    """Return the fault plan in a file of its own, whose top level is the table ``[faults]`` of a scenario.

    Raises InputError or ConfigurationError; its path is that of the key in a scenario.
    """
    from cosched_emulator.scenario.fault_sections import FaultsSection  # noqa: PLC0415 - few scenarios have them

    return _section(FaultsSection, _parse(file), "faults", file)


def _parse(file: str) -> dict[str, Any]:
    if file.endswith((".swf", ".swf.gz")):
        raise InputError(file, "a scenario in TOML", "what its name says is a log: use --swf FILE")
    try:
        return read_toml(file)
    except OSError as error:
        raise InputError(file, "a readable scenario file", error.strerror or str(error)) from error
    except ValueError as error:
        raise InputError(file, "TOML", str(error)) from error


def anchor(table: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return a scenario's table with the paths in its sections relative to ``folder``."""
    for section, key in (*FILES, ("time_sharing", "windows")):
        entries = table.get(section)
        if isinstance(entries, dict) and isinstance(entries.get(key), str) and entries[key] not in ("", STDIN):
            table[section] = {**entries, key: str(folder / entries[key])}
    jobs = table.get("workload")
    if isinstance(jobs, dict) and str(jobs.get("programs", "")).endswith(".csv"):
        table["workload"] = {**jobs, "programs": str(folder / jobs["programs"])}
    return table


def _section(kind: type[Section], table: object, path: str, file: str) -> Section:
    """Build ``kind`` from a table whose keys are its fields."""
    if not isinstance(table, Mapping):
        raise ConfigurationError(path, "a table", repr(table), file=file)
    known = {item.name: item for item in fields(typing.cast(Any, kind))}
    values: dict[str, Any] = {}
    for key, value in table.items():
        place = f"{path}.{key}" if path else str(key)
        if (key, value) in GONE.get(path, {}).items():
            continue
        if key not in known:
            raise ConfigurationError.unknown_name(place, str(key), known, file)
        values[key] = _value(hint_of(kind, key), value, place, file)
    for name, item in known.items():
        if name not in values and item.default is MISSING and item.default_factory is MISSING:
            raise ConfigurationError(f"{path}.{name}" if path else name, "a value", "none", file=file)
    return kind(**values)


def _value(hint: Any, value: object, place: str, file: str) -> object:
    """Return ``value`` if it has the type ``hint``, converted if TOML has no such type."""
    while typing.get_origin(hint) is typing.Annotated:
        hint = hint.__origin__
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        if value is None:
            return None
        option = next(option for option in typing.get_args(hint) if option is not types.NoneType)
        return _value(option, value, place, file)
    if typing.get_origin(hint) is tuple:
        item = typing.get_args(hint)[0]
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise ConfigurationError(place, "a list", repr(value), file=file)
        return tuple(_value(item, entry, f"{place}[{index}]", file) for index, entry in enumerate(value))
    if isinstance(hint, type) and hasattr(hint, "__dataclass_fields__"):
        return _section(hint, value, place, file)
    if typing.get_origin(hint) is not None:  # [policy]: the plugin knows its keys
        if not isinstance(value, Mapping):
            raise ConfigurationError(place, "a table", repr(value), file=file)
        return dict(value)
    if hint is str and isinstance(value, os.PathLike):
        value = os.fspath(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
        raise ConfigurationError(place, names[hint], repr(value), file=file)
    if isinstance(value, str) and not _is_plain(value):  # TOML has no such text
        raise ConfigurationError(place, "a text of Unicode characters, without NUL", f"{value!r:.80}", file=file)
    return value


def _is_plain(text: str) -> bool:
    return "\0" not in text and (text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text))
