"""What `compare` asks of run folders: had they the same jobs, which are seeds of one column, which jobs have completed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Final

import numpy as np

from cosched_emulator.errors import os_errors
from cosched_emulator.results.figures.comparison import COMMON, Figure, value_of
from cosched_emulator.results.figures.metrics import Summary, population, population_figures
from cosched_emulator.results.files.run_files import JOB_COLUMNS, JOBS
from cosched_emulator.results.files.run_folder import (
    PROFILES,
    RUN,
    USAGE,
    WORKLOAD,
    configuration_of,
    policy_settings,
    read_json,
)
from cosched_emulator.results.files.run_reader import csv_rows, read_run
from cosched_emulator.results.record_columns import IntArray, int_array

# A key that tells whether two runs have the same jobs.

_DEMAND = ("mix", "demand_high", "demand_medium", "demand_low")  # occurs in no file of a run


def workload_key(folder: Path) -> str:
    """Return a key that is equal for two runs with the same jobs and the same demand.

    The name of the source does not count. A missing file counts as empty. Raises InputError for a file that cannot be read.
    """
    config = configuration_of(folder)
    section = config.get("workload", {})
    demand = {key: section.get(key) for key in _DEMAND} if isinstance(section, dict) and section.get("mix") else {}
    if demand:
        demand["seed"] = config.get("seed")
    digest = hashlib.sha256(json.dumps(demand, sort_keys=True).encode())
    for name in (WORKLOAD, USAGE, PROFILES):
        file = folder / name
        if name == PROFILES and not file.exists():
            continue  # keys of runs without profiles are those of earlier versions
        digest.update(name.encode() + b"\0")
        with os_errors(file):
            if file.exists():
                with open(file, "rb") as lines:
                    for line in lines:
                        if not line.startswith(b";"):  # the source of the jobs
                            digest.update(_without_outcome(line) if name == WORKLOAD else line)
    return digest.hexdigest()


def _without_outcome(row: bytes) -> bytes:
    """Return a row of a log without status and group, which no run depends on, and which earlier versions did not write."""
    fields = row.split(b" ")
    return b" ".join([*fields[:10], b"-1", fields[11], b"-1", *fields[13:]]) if len(fields) > 13 else row


# Run folders that differ in the seed alone, grouped: each group is a column of a comparison.

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
    settings = [dict(flat_settings(other.config)) for other in same]
    mine = settings[same.index(run)]
    names = dict.fromkeys(name for each in settings for name in each if name != "seed")
    differing = [name for name in names if any(each.get(name) != mine.get(name) for each in settings)]
    if not 0 < len(differing) <= _MOST_SETTINGS:
        return first_run
    return " ".join([run.policy, *(f"{name.removeprefix('policy.')}={mine.get(name, '-')}" for name in differing)])


def flat_settings(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield each setting as (name with the sections that it is in, text)."""
    for name, item in value.items():
        if isinstance(item, Mapping):
            yield from flat_settings(item, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", item if isinstance(item, str) else json.dumps(item)


# Which jobs completed in several run folders: figures of different jobs cannot be compared.

_COMPLETED = Figure("", ("states", "COMPLETED"))
_JOBS = Figure("", ("selection", "jobs"))  # with those of the warm-up


def same_jobs_completed(folders: Sequence[Path], summaries: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether the same jobs count and completed in all runs; reads the jobs only where the summaries do not tell.

    Raises InputError for a file that cannot be read.
    """
    if any(summary["selection"] != summaries[0]["selection"] for summary in summaries):
        return False
    completed = [value_of(summary, _COMPLETED, "finished") for summary in summaries]
    if len(set(completed)) > 1:
        return False
    if completed[0] == value_of(summaries[0], _JOBS, "finished"):
        return True
    first, *others = map(_completed, folders)
    return all(np.array_equal(first, other) for other in others)


def with_common_jobs(folders: Sequence[Path], summaries: Sequence[Summary]) -> list[Summary]:
    """Return the summaries with the population `COMMON`: the jobs that count and completed in every run.

    The runs are of the same workload. Raises InputError for a file that cannot be read.
    """
    runs = [read_run(folder) for folder in folders]
    finished = [population(run.jobs, "finished", run.selection) for run in runs]
    common = reduce(np.intersect1d, [run.jobs.id[rows] for run, rows in zip(runs, finished, strict=True)])
    return [
        {**summary, COMMON: population_figures(run.jobs, np.isin(run.jobs.id, common))}
        for run, summary in zip(runs, summaries, strict=True)
    ]


def _completed(folder: Path) -> IntArray:
    """Return the ids of all jobs that completed, in ascending order."""
    rows = csv_rows(folder / JOBS, JOB_COLUMNS)
    return np.sort(int_array(row.count("job_id") for row in rows if row.text("success") == "1"))
