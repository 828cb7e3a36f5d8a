"""The cells of a study: one run for each combination of values, with its resolved scenario and policy."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from cosched_emulator.bounds import check_bounds
from cosched_emulator.errors import ConfigurationError, InputError, os_errors
from cosched_emulator.scenario.reader import FILES, check_owner_of_parameters, scenario_of_table
from cosched_emulator.scenario.rules import check_rules
from cosched_emulator.scenario.schema import Scenario
from cosched_emulator.studies.axes import AXES, BELIEVED
from cosched_emulator.studies.experiment import AxisValue, Baseline, Experiment, Names, text_of
from cosched_hwmodel.models.importing import file_digest, modules_in, source_digests
from cosched_plugin.common.errors import UsageError
from cosched_plugin.config import PolicyChoice, choose, from_table

# The key of a run: equal for runs with the same result, so that a study makes each of them once.
#
# A key covers the resolved scenario, the contents of the files that it names, the policy with its complete settings, the
# source files of modules that the policy or a measure names, and how cosched itself behaves. File names do not count.

# How often the golden digests of a preset's schedules have changed while runs were stored; 0: never. `tests.contract.golden` counts,
# and a test holds this table to that.
CHANGED: Final[dict[str, int]] = {
    "cst": 1,
    "cstws": 1,
    "easy-suspending": 1,
    "easy-suspending-unreserved": 1,
    "glts": 1,
    "glts-fbo": 1,
    "glts-nh": 1,
    "glts-ns": 1,
    "symbiosis-express": 1,
}
FIGURES: Final = 1  # to be raised with each change by which a figure of a run has another value


def behaviour_of(choice: PolicyChoice) -> int:
    """Return the number of a policy's behaviour; one that is no preset may have parts of any."""
    return CHANGED.get(choice.name, 0) if choice.preset else sum(CHANGED.values())


def key_of(
    scenario: str,
    argument: str,
    settings: Mapping[str, Any],
    behaviour: int,
    measures: Sequence[str],
    sources: Mapping[str, str],
) -> str:
    """Return the key of a run, 16 hexadecimal digits, from the identity of its scenario and the digests of modules' sources."""
    identity = {
        "behaviour": [behaviour, FIGURES],
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
        if values.get(section, {}).get(key) is not None:
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


@cache
def _file_digest(file: str) -> str:
    if Path(file).exists() and not Path(file).is_file():
        raise InputError(file, "a regular file")
    with os_errors(file):
        return file_digest(file)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


MOST_CELLS: Final = 1_000_000


class Cell(NamedTuple):
    """One run."""

    number: int  # from 1, in order of declaration; 0: a run that only serves as a baseline
    names: Names  # axis -> name of the value
    scenario: Scenario
    argument: str  # what chooses the policy, with these settings on top
    settings: Mapping[str, Any]  # complete
    behaviour: int  # as `behaviour_of` has it
    measures: tuple[str, ...]  # none for a run that only serves as a baseline
    sources: Mapping[str, str]  # module that is named -> digest of its source
    key: str
    group: str  # equal for cells of the same scenario
    stage: int = 0  # index in ``runs`` of the product that it is in

    @property
    def text(self) -> str:
        """Return the names for people; see `text_of`."""
        return text_of(self.names)

    @property
    def policy(self) -> str:
        """Return the name of the policy."""
        return self.names["policies"]


@dataclass(frozen=True, slots=True)
class Plan:
    """All runs of a study."""

    experiment: Experiment
    cells: tuple[Cell, ...]  # in order of declaration
    extra: tuple[Cell, ...]  # runs that only serve as baselines
    baselines: Mapping[str, tuple[str, ...]]  # key of a cell -> keys of its baselines, the plain one first

    @property
    def runs(self) -> tuple[Cell, ...]:
        """Return all runs, each once."""
        return (*self.cells, *self.extra)


def make_plan(experiment: Experiment) -> Plan:
    """Return the runs of an experiment; raises ConfigurationError, InputError or UsageError for the first that cannot be made."""
    forget_files()
    maker = _Maker(experiment)
    cells: dict[str, Cell] = {}
    for number, (stage, names) in enumerate(_combinations(experiment), 1):
        cell = maker.cell(number, names)._replace(stage=stage)
        same = cells.setdefault(cell.key, cell)
        if same is not cell:
            texts = f"{same.text} and {cell.text}" if same.text != cell.text else f"{cell.text}, twice"
            raise ConfigurationError("runs", "cells that differ", f"the same run: {texts}", file=experiment.file)
    if not cells:
        raise ConfigurationError("runs", "at least one cell", "none: all are excluded", file=experiment.file)
    extra: dict[str, Cell] = {}
    baselines: dict[str, tuple[str, ...]] = {}
    if experiment.baseline is not None:
        declared = {tuple(cell.names.values()): cell for cell in cells.values()}
        for cell in cells.values():
            if experiment.baseline.compares(cell.names):
                found = [maker.baseline(cell, declared, shake) for shake in range(experiment.baseline.shakes + 1)]
                found[0] = cells.get(maker.measured_key(found[0]), found[0])
                extra.update({each.key: each for each in found if each.key not in cells})
                baselines[cell.key] = tuple(each.key for each in found)
    return Plan(experiment, tuple(cells.values()), tuple(extra.values()), baselines)


def _combinations(experiment: Experiment) -> Iterator[tuple[int, Names]]:
    """Yield (index in ``runs``, names) of what is wanted, in order; raises ConfigurationError for an exclusion without effect."""
    left_out = [0] * len(experiment.exclude)
    values = {axis: tuple(value.name for value in experiment.axes[axis]) for axis in AXES}
    products = [[selector.names.get(axis, values[axis]) for axis in AXES] for selector in experiment.runs]
    count = sum(math.prod(map(len, lists)) for lists in products)
    if count > MOST_CELLS:
        raise ConfigurationError("runs", f"at most {MOST_CELLS:,} cells", f"{count:,}", file=experiment.file)
    for stage, lists in enumerate(products):
        for combination in itertools.product(*lists):
            names = dict(zip(AXES, combination, strict=True))
            matches = [item.matches(names) for item in experiment.exclude]
            left_out = [number + match for number, match in zip(left_out, matches, strict=True)]
            if not any(matches):
                yield stage, names
    for item, number in zip(experiment.exclude, left_out, strict=True):
        if not number:
            raise ConfigurationError(item.place, "cells to leave out", "none that match", file=experiment.file)


class _Resolved(NamedTuple):
    """A scenario with what its runs' keys need of it."""

    scenario: Scenario
    identity: str
    modules: frozenset[str]


class _Maker:
    """Makes cells; what several cells have in common is resolved once."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.values = {axis: {value.name: value for value in values} for axis, values in experiment.axes.items()}
        self.scenarios: dict[str, _Resolved] = {}
        self.choices: dict[tuple[str, tuple[str, ...]], PolicyChoice] = {}
        self.base = {key: value for key, value in experiment.base.items() if key != "policy"}

    def cell(
        self, number: int, names: Names, shaken: Mapping[str, Any] | None = None, *, settings: bool = True
    ) -> Cell:
        """Return the cell of a combination; if ``settings`` is false, without those that other axes have for its policy."""
        values = [self.values[axis][name] for axis, name in names.items()]
        found = self.scenario(names, [*(value.changes for value in values), *([shaken] if shaken else [])])
        policy = self.values["policies"][names["policies"]]
        extra = [text for value in values if value is not policy for text in value.settings] if settings else []
        choice = self.choice(policy, tuple(extra))
        # A run that only serves as a baseline has no measures, so it is no cell's run in an experiment that declares it.
        measures = self.experiment.measures if number else ()
        sources = source_digests(found.modules | modules_in([choice.argument, choice.settings, measures]))
        behaviour = behaviour_of(choice)
        key = key_of(found.identity, choice.argument, choice.settings, behaviour, measures, sources)
        policy_of = (choice.argument, choice.settings, behaviour)
        return Cell(number, names, found.scenario, *policy_of, measures, sources, key, found.identity)

    def measured_key(self, cell: Cell) -> str:
        """Return the key that a run would have as a cell of the study."""
        measures = self.experiment.measures
        sources = {**cell.sources, **source_digests(modules_in(measures))}
        return key_of(cell.group, cell.argument, cell.settings, cell.behaviour, measures, sources)

    def scenario(self, names: Names, changes: Sequence[Mapping[str, Any]]) -> _Resolved:
        """Return the scenario of a combination; most are those of other policies, too."""
        table = self.base
        for change in changes:
            self.check_owner(names, table, change)
            table = merged(table, change)
        text = repr(table)
        found = self.scenarios.get(text)
        if found is None:
            scenario = self.checked(names, table)
            content = scenario.as_dict()
            found = _Resolved(scenario, scenario_identity(content), modules_in(content))
            self.scenarios[text] = found
        return found

    def check_owner(self, names: Names, table: Mapping[str, Any], change: Mapping[str, Any]) -> None:
        """Raise ConfigurationError if a change would give the parameters of one coscheduling policy to another."""
        with self.placed(names):
            check_owner_of_parameters(table, change)

    def checked(self, names: Names, table: Mapping[str, Any]) -> Scenario:
        """Return a combination's scenario, or raise ConfigurationError."""
        with self.placed(names):
            scenario = scenario_of_table(table, {})
            check_bounds(scenario)
            check_rules(scenario)
            if scenario.clock.mode != "virtual":
                raise ConfigurationError("clock.mode", "virtual: a study runs in virtual time", scenario.clock.mode)
        return scenario

    @contextmanager
    def placed(self, names: Names) -> Iterator[None]:
        """Let a ConfigurationError name the combination."""
        try:
            yield
        except ConfigurationError as error:
            place = f"cell {text_of(names)}: {error.path}"
            raise ConfigurationError(
                place, error.expected, error.got, error.suggestion, self.experiment.file
            ) from error

    def choice(self, value: AxisValue, extra: tuple[str, ...]) -> PolicyChoice:
        """Return the policy of a value, with the settings of other axes on top."""
        known = self.choices.get((value.name, extra))
        if known is None:
            settings = (*value.settings, *extra)
            try:
                assert value.policy is not None
                make = choose if isinstance(value.policy, str) else from_table
                known = make(value.policy, settings)  # type: ignore[arg-type]  # each gets what it takes
            except UsageError as error:
                place = f"{self.experiment.file}: " if self.experiment.file else ""
                raise UsageError(f"{place}policies {value.name!r}: {error}") from error
            self.choices[value.name, extra] = known
        return known

    def baseline(self, cell: Cell, declared: Mapping[tuple[str, ...], Cell], shake: int) -> Cell:
        """Return a baseline of a cell: the plain one if ``shake`` is 0, else one with shaken run times.

        It is a declared cell if there is one with the baseline's policy and the same other values, else one with the first belief and
        without the settings that other axes have for policies: what policies know differs between them, what happens to jobs does not.
        """
        baseline: Baseline | None = self.experiment.baseline
        assert baseline is not None
        names = {**cell.names, "policies": baseline.policy}
        found = declared.get(tuple(names.values()))
        if found is None:
            names |= {axis: self.experiment.axes[axis][0].name for axis in BELIEVED}
        if shake:
            changes = {"workload": {"shake": baseline.shake, "shake_seed": shake}}
            return self.cell(0, names, changes, settings=found is not None)
        return found or self.cell(0, names, settings=False)


def merged(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scenario's table with the keys of ``changes`` replaced, section by section."""
    result = dict(table)
    for key, value in changes.items():
        below = result.get(key)
        result[key] = {**below, **value} if isinstance(value, Mapping) and isinstance(below, Mapping) else value
    return result
