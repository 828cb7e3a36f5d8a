"""An experiment: the axes of a study, and which combinations of their values are run.

    title = "EASY and LOMARC"
    scenario = "base.toml"        or a table [scenario]: what all runs have in common
    seeds = "1-10"                or a list
    loads = [0.7, 0.8, 0.9]       offered loads, by workload.load
    policies = ["easy", "sjbf"]   or [[policies]], see below
    [[workloads]] [[hardware]] [[beliefs]] [[variants]]
    [[runs]]                      each a product of values, made one after the other; without any: the product of all values
    [[exclude]]                   what is left out of that
    [baseline]                    with which every job's response is compared; its runs: the cells that are, by default all
    measures = ["module:function"]

A value of an axis has a name and sections of a scenario, such as ``workload = {swf = "CTC.swf.gz"}``; a policy has
``policy`` and ``set`` besides, a variant ``set``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.scenario.reader import anchor, read_table, scenario_of_table
from cosched_emulator.studies.axes import AXES, COLUMNS
from cosched_hwmodel.errors import Unwanted
from cosched_plugin.config import assignment_texts

# Columns of the table beside the figures: before them the place of a row, behind them where it comes from.
PLACES: Final = ("cell", *COLUMNS.values())
ORIGIN: Final = ("key", "version", "policy_settings", "scenario")
HARM: Final = "harm_"  # columns of harm begin with it
Names: TypeAlias = Mapping[str, str]  # axis -> name of its value


def text_of(names: Names) -> str:
    """Return the names for people: ``workload=CTC policy=easy seed=1``; axes that are not declared are left out."""
    return " ".join(f"{COLUMNS[axis]}={name}" for axis, name in names.items() if name)


@dataclass(frozen=True, slots=True)
class AxisValue:
    """One value of an axis: what it changes in the scenario, and in the policy."""

    name: str = ""  # empty: the axis is not declared
    changes: Mapping[str, Any] = field(default_factory=dict)  # sections of a scenario
    policy: str | Mapping[str, Any] | None = None  # of a policy: preset, FILE.toml, MODULE:CLASS, or a [policy] table
    settings: tuple[str, ...] = ()  # KEY=VALUE, as after --set


@dataclass(frozen=True, slots=True)
class Selector:
    """A product of values: the named ones of some axes, and all of the others."""

    place: str  # for errors: runs[0]
    names: Mapping[str, Mapping[str, None]]  # axis -> names, in order

    def matches(self, names: Names) -> bool:
        """Tell whether a combination is in the product."""
        return all(names[axis] in chosen for axis, chosen in self.names.items())


@dataclass(frozen=True, slots=True)
class Baseline:
    """The policy with which the others are compared job by job, and how often it is run with slightly other run times."""

    policy: str  # name of a value of the axis
    shakes: int = 0  # number of runs with shaken run times, beside the plain one
    shake: float = 0.0  # run times are multiplied by 1 - shake to 1 + shake
    runs: tuple[Selector, ...] = ()  # the cells that are compared; empty: all

    def compares(self, names: Names) -> bool:
        """Tell whether the jobs of a cell are compared with the baseline's."""
        chosen = not self.runs or any(selector.matches(names) for selector in self.runs)
        return chosen and names["policies"] != self.policy


@dataclass(frozen=True, slots=True)
class Experiment:
    """What a study consists of, as it was read: names are unique, selectors name values that exist."""

    base: Mapping[str, Any]  # scenario
    axes: Mapping[str, tuple[AxisValue, ...]]  # every axis has at least one value
    runs: tuple[Selector, ...]
    exclude: tuple[Selector, ...] = ()
    baseline: Baseline | None = None
    measures: tuple[str, ...] = ()
    title: str = ""
    file: str = ""  # for errors

    def value(self, axis: str, name: str) -> AxisValue:
        """Return the value of an axis by its name."""
        return next(value for value in self.axes[axis] if value.name == name)


# An experiment from a TOML file or a table: keys, types and names are checked here, runs when their cells are made.

KEYS: Final = ("title", "scenario", *AXES, "runs", "exclude", "baseline", "measures")
MOST_SEEDS: Final = 100_000
LARGEST_SEED: Final = 2**63 - 1  # what SQLite holds
MOST_SHAKES: Final = 1_000
SHAKE: Final = 0.02
LARGEST_SHAKE: Final = 0.5


def read_experiment(source: str | os.PathLike[str] | Mapping[str, Any]) -> Experiment:
    """Return the experiment in a TOML file, or in a table of the same form; relative paths are relative to the file.

    Raises InputError for a file that cannot be read, ConfigurationError, with the key, for anything else.
    """
    if isinstance(source, Mapping):
        return _Reader(dict(source), "", Path()).experiment()
    file = os.fspath(source)
    return _Reader(read_table(file), file, Path(file).parent).experiment()


class _Reader:
    """Reads one table."""

    def __init__(self, table: dict[str, Any], file: str, folder: Path) -> None:
        self.table, self.file, self.folder = table, file, folder

    def error(self, place: str, expected: str, got: object) -> ConfigurationError:
        plain = isinstance(got, str) and got != "" and got.isprintable()
        return ConfigurationError(place, expected, str(got) if plain else repr(got), file=self.file)

    def experiment(self) -> Experiment:
        for key in self.table:
            self.check_key(key, key, KEYS)
        base = self.base()
        axes = {axis: self.axis(axis, base) for axis in AXES}
        runs = tuple(self.selectors("runs", self.table.get("runs", []), axes)) or (
            Selector("the product of all values", {}),
        )
        return Experiment(
            base,
            axes,
            runs,
            tuple(self.selectors("exclude", self.table.get("exclude", []), axes)),
            self.baseline(axes),
            self.texts("measures", self.table.get("measures", [])),
            self.text("title", self.table.get("title", "")),
            self.file,
        )

    def base(self) -> dict[str, Any]:
        """Return the scenario that all runs have in common."""
        given = self.table.get("scenario", {})
        if isinstance(given, str | os.PathLike):
            return read_table(str(self.folder / given))
        if not isinstance(given, Mapping):
            raise self.error("scenario", "a table, or the name of a scenario's file", given)
        return self.changes(given, "scenario")

    def changes(self, given: object, place: str) -> dict[str, Any]:
        """Return sections of a scenario, with paths that no longer depend on the folder."""
        if not isinstance(given, Mapping):
            raise self.error(place, "a table", given)
        try:
            scenario_of_table(given, {})
        except ConfigurationError as error:
            raise ConfigurationError(
                f"{place}.{error.path}", error.expected, error.got, error.suggestion, self.file
            ) from error
        if "policy" in given:
            raise self.error(f"{place}.policy", Unwanted("policies are an axis of a study"), given["policy"])
        return anchor(dict(given), self.folder)

    # ---------------------------------------------------------------- axes

    def axis(self, axis: str, base: Mapping[str, Any]) -> tuple[AxisValue, ...]:
        """Return the values of an axis; an axis that is not declared has one, which changes nothing."""
        if axis not in self.table:
            return (self.only_policy(base),) if axis == "policies" else (AxisValue(),)
        given = self.table[axis]
        if axis == "seeds":
            values = [AxisValue(str(seed), {"seed": seed}) for seed in self.seeds(given)]
        else:
            if not isinstance(given, Sequence) or isinstance(given, str):
                raise self.error(axis, "a list", given)
            read = self.load if axis == "loads" else self.value
            values = [read(axis, f"{axis}[{index}]", item) for index, item in enumerate(given)]
        if not values:
            raise self.error(axis, "at least one value", "none")
        names: set[str] = set()
        for index, value in enumerate(values):
            if value.name in names:
                raise self.error(f"{axis}[{index}]", "a name of its own", value.name)
            names.add(value.name)
        return tuple(values)

    def only_policy(self, base: Mapping[str, Any]) -> AxisValue:
        """Return the policy of the scenario, else EASY."""
        if isinstance(base.get("policy"), Mapping):
            return AxisValue(str(base["policy"].get("preset", "scenario's")), policy=base["policy"])
        return AxisValue("easy", policy="easy")

    def seeds(self, given: object) -> list[int]:
        """Return the numbers in a list, or in a text such as 1-10."""
        expected = 'a list of whole numbers, or a text such as "1-10"'
        if isinstance(given, str):
            first, separator, last = given.partition("-")
            if not (separator and first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
                raise self.error("seeds", expected, given)
            if int(last) - int(first) >= MOST_SEEDS:
                raise self.error("seeds", f"at most {MOST_SEEDS:,} seeds", given)
            given = range(int(first), int(last) + 1)
        if not isinstance(given, Sequence) or any(type(seed) is not int for seed in given):
            raise self.error("seeds", expected, given)
        if any(not -LARGEST_SEED <= seed <= LARGEST_SEED for seed in given):
            raise self.error("seeds", "whole numbers of at most 64 bits", given)
        return list(given)

    def load(self, _axis: str, place: str, given: object) -> AxisValue:
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= sys.float_info.max:
            raise self.error(place, "an offered load above 0", given)
        return AxisValue(_load_name(given), {"workload": {"load": float(given)}})

    def value(self, axis: str, place: str, given: object) -> AxisValue:
        """Return a value that is a table, or the name of a policy."""
        if axis == "policies" and isinstance(given, str):
            return AxisValue(given, policy=self.policy(given, place))
        if not isinstance(given, Mapping):
            raise self.error(place, "a policy's name or a table" if axis == "policies" else "a table", given)
        rest = dict(given)
        policy = self.policy(rest.pop("policy"), f"{place}.policy") if "policy" in rest else None
        if policy is not None and axis != "policies":
            raise self.error(f"{place}.policy", Unwanted("policies are an axis of their own"), policy)
        settings = self.settings(rest.pop("set", []), f"{place}.set")
        if settings and not AXES[axis].settings:
            having = " and ".join(sorted(key for key in AXES if AXES[key].settings))
            raise self.error(f"{place}.set", Unwanted(f"{having} have settings"), list(settings))
        name = self.text(f"{place}.name", rest.pop("name", ""))
        if axis == "policies":
            name = name or (policy if isinstance(policy, str) else "")
            policy = policy or self.policy(name, f"{place}.name")
        if not name:
            raise self.error(f"{place}.name", "a name", "none")
        return AxisValue(name, self.changes(rest, place), policy, settings)

    def policy(self, given: object, place: str) -> str | Mapping[str, Any]:
        if isinstance(given, Mapping):
            return dict(given)
        if not isinstance(given, str) or not given:
            raise self.error(place, "a policy: preset, FILE.toml, MODULE:CLASS or a table", given)
        return str(self.folder / given) if given.endswith(".toml") else given

    def settings(self, given: object, place: str) -> tuple[str, ...]:
        """Return settings of a list or a table as texts KEY=VALUE."""
        return tuple(assignment_texts(given)) if isinstance(given, Mapping) else self.texts(place, given)

    # ---------------------------------------------------------------- selection

    def selectors(self, key: str, given: object, axes: Mapping[str, Sequence[AxisValue]]) -> Iterator[Selector]:
        """Yield the products of ``[[runs]]``, ``[[exclude]]`` or ``[[baseline.runs]]``."""
        if not isinstance(given, Sequence) or isinstance(given, str):
            raise self.error(key, f"a list of tables [[{key}]]", given)
        for index, item in enumerate(given):
            place = f"{key}[{index}]"
            if not isinstance(item, Mapping):
                raise self.error(place, "a table", item)
            for axis in item:
                self.check_key(f"{place}.{axis}", axis, list(AXES))
                if not axes[axis][0].name:
                    raise self.error(f"{place}.{axis}", "an axis that the experiment declares", axis)
            yield Selector(place, {axis: self.names(axis, f"{place}.{axis}", item[axis], axes[axis]) for axis in item})

    def names(self, axis: str, place: str, given: object, values: Sequence[AxisValue]) -> dict[str, None]:
        """Return the names of some values of an axis, in order."""
        if axis == "seeds":
            names = [str(seed) for seed in self.seeds(given)]
        elif isinstance(given, Sequence) and not isinstance(given, str):
            names = [_load_name(item) if isinstance(item, int | float) else self.text(place, item) for item in given]
        else:
            raise self.error(place, "a list of names", given)
        if not names:
            raise self.error(place, "at least one name", "none")
        known = {value.name for value in values}
        for name in names:
            if name not in known:
                raise ConfigurationError.unknown_name(place, name, known, self.file)
        return dict.fromkeys(names)

    def baseline(self, axes: Mapping[str, Sequence[AxisValue]]) -> Baseline | None:
        """Return the baseline: the one of ``[baseline]``, else the first policy if there are several."""
        policies = axes["policies"]
        given = self.table.get("baseline")
        if given is None:
            return Baseline(policies[0].name) if len(policies) > 1 else None
        if not isinstance(given, Mapping):
            raise self.error("baseline", "a table", given)
        for key in given:
            self.check_key(f"baseline.{key}", key, ("policy", "shakes", "shake", "runs"))
        policy = given.get("policy", policies[0].name)
        shakes, shake = given.get("shakes", 9), given.get("shake", SHAKE)
        (name,) = self.names("policies", "baseline.policy", [policy], policies)
        if type(shakes) is not int or not 0 <= shakes <= MOST_SHAKES:
            raise self.error("baseline.shakes", f"a whole number from 0 to {MOST_SHAKES:,}", shakes)
        if isinstance(shake, bool) or not isinstance(shake, int | float) or not 0 < shake <= LARGEST_SHAKE:
            raise self.error("baseline.shake", f"a number above 0, at most {LARGEST_SHAKE:g}", shake)
        runs = tuple(self.selectors("baseline.runs", given.get("runs", []), axes))
        return Baseline(name, shakes, float(shake), runs)

    # ---------------------------------------------------------------- plain values

    def check_key(self, place: str, key: str, known: Sequence[str]) -> None:
        if key not in known:
            raise ConfigurationError.unknown_name(place, key, known, self.file)

    def text(self, place: str, given: object) -> str:
        if not isinstance(given, str) or not given.isprintable():
            raise self.error(place, "a text of one line", given)
        return given

    def texts(self, place: str, given: object) -> tuple[str, ...]:
        if not isinstance(given, Sequence) or isinstance(given, str):
            raise self.error(place, "a list of texts", given)
        return tuple(self.text(f"{place}[{index}]", item) for index, item in enumerate(given))


def _load_name(load: float) -> str:
    return f"{load:.12g}"
