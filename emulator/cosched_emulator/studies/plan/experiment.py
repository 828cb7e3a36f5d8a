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

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

# From the outermost to the innermost: the order of the rows of a study's table.
AXES: Final = ("workloads", "loads", "hardware", "beliefs", "variants", "policies", "seeds")
# Axis -> its column in the table.
COLUMNS: Final = {
    "workloads": "workload",
    "loads": "load",
    "hardware": "hardware",
    "beliefs": "belief",
    "variants": "variant",
    "policies": "policy",
    "seeds": "seed",
}
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
