"""The scenario of a run, in any form that the caller may give it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TypeAlias

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.run.prepare import Prepared
from cosched_emulator.run.prepare import prepare as prepare_scenario
from cosched_emulator.scenario.reader import read_scenario, scenario_of_table
from cosched_emulator.scenario.schema import Scenario

ScenarioLike: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | Scenario | Prepared


def prepare(scenario: ScenarioLike, *, overrides: Mapping[str, Any] | None = None, seed: int | None = None) -> Prepared:
    """Check a scenario, read or generate its jobs, and return the result, from which any number of runs can start, also in parallel.

    ``scenario``, ``overrides`` and ``seed`` are those of `simulate`. Raises InputError for files, ConfigurationError for settings.
    """
    made, prepared = scenario_of(scenario, overrides, seed)
    return prepare_scenario(made) if prepared is None else prepared


def scenario_of(
    scenario: ScenarioLike, overrides: Mapping[str, Any] | None, seed: int | None
) -> tuple[Scenario, Prepared | None]:
    """Return the caller's scenario with ``overrides`` and ``seed`` applied, and the prepared scenario if the caller gave one.

    Raises InputError for a file that cannot be read, ConfigurationError for a key that does not exist.
    """
    if not isinstance(overrides, Mapping | None):
        raise ConfigurationError("overrides", "a table", type(overrides).__name__)
    changes = {**(overrides or {}), **({} if seed is None else {"seed": seed})}
    if isinstance(scenario, Prepared):
        if changes:
            key = next(iter(changes))
            raise ConfigurationError(str(key), "nothing: the scenario is prepared already", repr(changes[key]))
        return scenario.scenario, scenario
    if isinstance(scenario, Scenario):
        return scenario_of_table(asdict(scenario), changes) if changes else scenario, None
    if isinstance(scenario, str | os.PathLike):
        return read_scenario(os.fspath(scenario), changes), None
    if isinstance(scenario, Mapping):
        return scenario_of_table(scenario, changes), None
    raise ConfigurationError("scenario", "a file's name, a table or a Scenario", type(scenario).__name__)
