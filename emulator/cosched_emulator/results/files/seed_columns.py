"""Run folders that differ in the seed alone, grouped: each group is a column of a comparison."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cosched_emulator.results.files.folder import RUN, read_json
from cosched_emulator.results.files.policy_of_run import policy_settings

_MOST_SETTINGS: Final = 3  # that a column's name lists


@dataclass(frozen=True, slots=True)
class SeedColumn:
    """Runs of one policy in one scenario, each with a seed of its own; or a single run."""

    name: str
    runs: tuple[int, ...]  # positions among the folders that were given
    seeds: tuple[int | None, ...]  # of these runs; None where a run does not tell its seed

    @property
    def heading(self) -> str:
        """Return the name, with the number of seeds if there are several."""
        return f"{self.name} ({len(self.runs)} seeds)" if len(self.runs) > 1 else self.name


@dataclass(frozen=True, slots=True)
class _Described:
    """What ``run.json`` tells of a run."""

    config: Mapping[str, Any]
    seed: int | None
    key: str  # equal for runs that differ in the seed alone

    @property
    def policy(self) -> str:
        return str(policy_settings(self.config).get("name"))


def seed_columns(folders: Sequence[Path], names: Sequence[str]) -> list[SeedColumn]:
    """Return the columns of several run folders, in the order of their first runs; ``names`` are those of the folders.

    A column has the runs with the same policy, settings included, and the same scenario and machine, one run a seed: a second run
    with the same seed begins another column. A run that does not tell policy and seed is a column of its own. The name of a column
    of several runs is that of its policy; where columns have the same, with the settings that differ. Raises InputError.
    """
    runs = [_described(folder) for folder in folders]
    groups: list[list[int]] = []
    for index, run in enumerate(runs):
        for group in groups:
            if run.seed is not None and runs[group[0]].key == run.key and all(runs[i].seed != run.seed for i in group):
                group.append(index)
                break
        else:
            groups.append([index])
    several = [runs[group[0]] for group in groups if len(group) > 1]
    return [
        SeedColumn(
            _name(runs[group[0]], several, names[group[0]]) if len(group) > 1 else names[group[0]],
            tuple(group),
            tuple([runs[index].seed for index in group]),
        )
        for group in groups
    ]


def _described(folder: Path) -> _Described:
    told = read_json(folder, RUN, ("config",))
    config = told["config"] if isinstance(told["config"], dict) else {}
    seed = config.get("seed") if policy_settings(config) else None
    others = {name: value for name, value in config.items() if name != "seed"}
    key = json.dumps([others, told.get("machine")], sort_keys=True)
    return _Described(config, seed if isinstance(seed, int) else None, key)


def _name(run: _Described, several: Sequence[_Described], first_run: str) -> str:
    """Return the name of a column of several runs, one of ``several``."""
    same = [other for other in several if other.policy == run.policy]
    if len(same) == 1:
        return run.policy
    settings = [dict(_settings(other.config)) for other in same]
    mine = settings[same.index(run)]
    names = dict.fromkeys(name for each in settings for name in each if name != "seed")
    differing = [name for name in names if any(each.get(name) != mine.get(name) for each in settings)]
    if not 0 < len(differing) <= _MOST_SETTINGS:
        return first_run
    return " ".join([run.policy, *(f"{name.removeprefix('policy.')}={mine.get(name, '-')}" for name in differing)])


def _settings(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield each setting as (name with the sections that it is in, text)."""
    for name, item in value.items():
        if isinstance(item, Mapping):
            yield from _settings(item, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", item if isinstance(item, str) else json.dumps(item)
