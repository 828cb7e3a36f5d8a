"""A comparison of run folders: who had the same jobs, a column for a run or for a policy with several seeds, table, notes and bars."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial, reduce
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from cosched_emulator.errors import ConfigurationError, os_errors
from cosched_emulator.results.ended_jobs import IntArray
from cosched_emulator.results.figures import comparison
from cosched_emulator.results.figures import plot as pictures
from cosched_emulator.results.figures.metrics import Summary, population, population_figures
from cosched_emulator.results.figures.plot import COMPARED
from cosched_emulator.results.figures.replay_figures import replay_lines
from cosched_emulator.results.files import run_folder
from cosched_emulator.results.files.job_rows import JOB_COLUMNS
from cosched_emulator.results.files.run_files import JOBS
from cosched_emulator.results.files.run_reader import csv_rows, read_machine, read_run
from cosched_emulator.results.harm import Harm, Outcomes, measure_harm, outcomes
from cosched_emulator.results.record_columns import int_array
from cosched_emulator.results.verdict import Told, run_verdict
from cosched_emulator.statistics.intervals import LEVEL

# A key that tells whether two runs have the same jobs.

_DEMAND = ("mix", "demand_high", "demand_medium", "demand_low")  # occurs in no file of a run


def workload_key(folder: Path) -> str:
    """Return a key that is equal for two runs with the same jobs and the same demand.

    The name of the source does not count. A missing file counts as empty. Raises InputError for a file that cannot be read.
    """
    config = run_folder.configuration_of(folder)
    section = config.get("workload", {})
    demand = {key: section.get(key) for key in _DEMAND} if isinstance(section, dict) and section.get("mix") else {}
    if demand:
        demand["seed"] = config.get("seed")
    digest = hashlib.sha256(json.dumps(demand, sort_keys=True).encode())
    for name in (run_folder.WORKLOAD, run_folder.USAGE, run_folder.PROFILES):
        file = folder / name
        if name == run_folder.PROFILES and not file.exists():
            continue  # keys of runs without profiles are those of earlier versions
        digest.update(name.encode() + b"\0")
        with os_errors(file):
            if file.exists():
                with open(file, "rb") as lines:
                    for line in lines:
                        if not line.startswith(b";"):  # the source of the jobs
                            digest.update(_without_outcome(line) if name == run_folder.WORKLOAD else line)
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
        return str(run_folder.policy_settings(self.config).get("name"))


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
    told = run_folder.read_json(folder, run_folder.RUN, ("config",))
    config = told["config"] if isinstance(told["config"], dict) else {}
    seed = config.get("seed") if run_folder.policy_settings(config) else None
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

_COMPLETED = comparison.Figure("", ("states", "COMPLETED"))
_JOBS = comparison.Figure("", ("selection", "jobs"))  # with those of the warm-up


def same_jobs_completed(folders: Sequence[Path], summaries: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether the same jobs count and completed in all runs; reads the jobs only where the summaries do not tell.

    Raises InputError for a file that cannot be read.
    """
    if any(summary["selection"] != summaries[0]["selection"] for summary in summaries):
        return False
    completed = [comparison.value_of(summary, _COMPLETED, "finished") for summary in summaries]
    if len(set(completed)) > 1:
        return False
    if completed[0] == comparison.value_of(summaries[0], _JOBS, "finished"):
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
        {**summary, comparison.COMMON: population_figures(run.jobs, np.isin(run.jobs.id, common))}
        for run, summary in zip(runs, summaries, strict=True)
    ]


def _completed(folder: Path) -> IntArray:
    """Return the ids of all jobs that completed, in ascending order."""
    rows = csv_rows(folder / JOBS, JOB_COLUMNS)
    return np.sort(int_array(row.count("job_id") for row in rows if row.text("success") == "1"))


# What the columns show against the first one, and who pays.

Outcome: TypeAlias = Callable[[int], Outcomes]  # what became of the jobs of a run, by its position


def harms_of(column: SeedColumn, base: SeedColumn, outcome: Outcome) -> dict[int | None, Harm]:
    """Return how the jobs of a column respond against those of ``base`` with the same seed; two single runs are a pair."""
    others = dict(zip(base.seeds, base.runs, strict=True))
    if len(column.runs) == len(base.runs) == 1:
        others = {column.seeds[0]: base.runs[0]}
    pairs = {seed: run for seed, run in zip(column.seeds, column.runs, strict=True) if seed in others}
    return {seed: measure_harm(outcome(run), [outcome(others[seed])]) for seed, run in pairs.items()}


def verdict_of(
    columns: Sequence[SeedColumn], summaries: Sequence[Summary], outcome: Outcome, *, alike: bool, same_jobs: bool
) -> str:
    """Return the sentence about runs; ``summaries`` are those of all runs."""
    told = [
        Told(
            column.name,
            {
                comparison.UNKNOWN_SEED if seed is None else seed: summaries[run]
                for seed, run in zip(column.seeds, column.runs, strict=True)
            },
            [*harms_of(column, columns[0], outcome).values()] if alike and column is not columns[0] else (),
        )
        for column in columns
    ]
    return run_verdict(told, comparison.job_time_unit(summaries), alike=alike, same_jobs=same_jobs)


def outcome_in(run_dirs: Sequence[Path]) -> Outcome:
    """Return what became of the jobs in run folders, each of which is read once."""

    @cache
    def found(run: int) -> Outcomes:
        stored = read_run(run_dirs[run])
        return outcomes(stored.jobs, stored.machine, stored.selection)

    return found


# The comparison.

OTHER_SEEDS = "note: the columns have different seeds: no change and no best are shown"
NOT_CLEAR = "note: no best is marked where the 95 % interval of a paired difference includes 0, or does not exist"


class ComparedRuns(NamedTuple):
    """A comparison, ready to be shown."""

    headings: list[str]
    columns: Sequence[SeedColumn]
    folders: list[Path]  # one run of each column
    summaries: list[Summary]  # of all runs
    rows: list[comparison.FigureRow]
    alike: bool  # the runs that are compared with each other are of the same workload
    same_jobs: bool  # and the same jobs completed, and count
    draw: Callable[[Path, str, str], None]  # takes file, title and words below
    intervals: Mapping[str, Any]  # for JSON; empty without several seeds
    notes: list[str]
    verdict: Callable[[], str] = str  # the sentence about the runs, whose jobs it reads

    def plot(self, file: Path, title: str = "") -> None:
        """Draw the main figures, with the sentence below them."""
        self.draw(file, title, self.verdict())


def compare_folders(run_dirs: Sequence[Path], names: Sequence[str], population: str, *, common: bool) -> ComparedRuns:
    """Compare run folders, of which ``names`` are the names; ``common``: only the jobs that completed in all of them.

    Raises InputError for what is no run folder, ConfigurationError where ``common`` cannot be had.
    """
    summaries = [run_folder.read_summary(folder) for folder in run_dirs]
    columns = seed_columns(run_dirs, names)
    several = len(columns) < len(run_dirs)
    figures = comparison.usual_figures(summaries, population)
    compared = (_compare_columns if several else _compare_single)(
        run_dirs, columns, summaries, population, figures, common=common
    )
    notes = _notes(alike=compared.alike, same_jobs=compared.same_jobs, common=common)
    notes += [
        f"note: {name}: {line}" for name, each in zip(names, summaries, strict=True) for line in replay_lines(each)
    ]
    return compared._replace(
        notes=notes + compared.notes + _sharing_notes(compared.headings, compared.folders),
        verdict=partial(
            verdict_of, columns, summaries, outcome_in(run_dirs), alike=compared.alike, same_jobs=compared.same_jobs
        ),
    )


def are_alike(run_dirs: Sequence[Path]) -> bool:
    """Tell whether the runs are of the same workload."""
    return len({workload_key(folder) for folder in run_dirs}) == 1


def _compare_single(
    run_dirs: Sequence[Path],
    columns: Sequence[SeedColumn],
    summaries: list[Summary],
    population: str,
    figures: Sequence[comparison.Figure],
    *,
    common: bool,
) -> ComparedRuns:
    """Compare single runs; ``common``: only the jobs that completed in all of them."""
    names = [column.name for column in columns]
    alike = are_alike(run_dirs)
    if common:
        _check_alike(alike=alike)
        summaries, population = with_common_jobs(run_dirs, summaries), comparison.COMMON
    same_jobs = alike and same_jobs_completed(run_dirs, summaries)

    def draw(file: Path, title: str, words: str) -> None:
        best = same_jobs or (alike and common)
        pictures.plot_comparison(file, names, summaries, population, title, words, mark_best=best)

    shapes = [_shape(folder) for folder in run_dirs]
    rows = comparison.compare(summaries, population, figures, mark_best=alike, same_jobs=same_jobs, shapes=shapes)
    return ComparedRuns(names, columns, list(run_dirs), summaries, rows, alike, same_jobs, draw, {}, [])


def _compare_columns(
    run_dirs: Sequence[Path],
    columns: Sequence[SeedColumn],
    summaries: list[Summary],
    population: str,
    figures: Sequence[comparison.Figure],
    *,
    common: bool,
) -> ComparedRuns:
    """Compare policies over several seeds, seed by seed; ``common``: the jobs that completed under all of them with that seed."""
    by_seed = _runs_by_seed(columns)
    same_seeds = len({frozenset(column.seeds) for column in columns}) == 1
    alike = all(are_alike([run_dirs[run] for run in runs]) for runs in by_seed if len(runs) > 1)
    if common:
        _check_alike(alike=alike)
        if not same_seeds:
            raise ConfigurationError("--common", "columns with the same seeds", "columns with different seeds")
        summaries, population = _with_common_jobs(run_dirs, by_seed, summaries), comparison.COMMON
    paired = alike and same_seeds and len(columns) > 1
    same_jobs = not paired or all(
        same_jobs_completed([run_dirs[run] for run in runs], [summaries[run] for run in runs]) for runs in by_seed
    )
    firsts = [run_dirs[column.runs[0]] for column in columns]
    policies = [
        comparison.PolicyRuns(column.name, column.seeds, [summaries[run] for run in column.runs], _shape(folder))
        for column, folder in zip(columns, firsts, strict=True)
    ]
    headings = [column.heading for column in columns]
    compared = partial(comparison.compare_seeds, policies, population, paired=paired, same_jobs=same_jobs)
    rows = compared(figures)

    def draw(file: Path, title: str, words: str) -> None:
        pictures.plot_seed_comparison(file, headings, compared(COMPARED), population, title, words)

    return ComparedRuns(
        headings,
        columns,
        firsts,
        summaries,
        comparison.rows_of(rows, columns[0].name),
        alike,
        same_jobs,
        draw,
        {"intervals": _as_json(run_dirs, columns, policies, rows, population)},
        _notes_on_comparison(policies, rows, same_seeds=same_seeds),
    )


def repeat_note(names: Sequence[str]) -> list[str]:
    """Return a note of the columns whose runs are the same for every seed, if there are any."""
    if not names:
        return []
    which = ", ".join(names)
    return [
        f"note: every seed gave the same figures for {which}: nothing it depends on is drawn, so there is no interval"
    ]


def _check_alike(*, alike: bool) -> None:
    if not alike:
        raise ConfigurationError("--common", "runs of the same workload", "runs of different workloads")


def _shape(folder: Path) -> str | None:
    return run_folder.part_name(run_folder.policy_settings(run_folder.configuration_of(folder)), "shape")


def _runs_by_seed(columns: Sequence[SeedColumn]) -> list[list[int]]:
    """Return the runs with each seed, in the order of the columns."""
    found: dict[int | None, list[int]] = {}
    for column in columns:
        for seed, run in zip(column.seeds, column.runs, strict=True):
            found.setdefault(seed, []).append(run)
    return [*found.values()]


def _with_common_jobs(
    run_dirs: Sequence[Path], by_seed: Sequence[Sequence[int]], summaries: Sequence[Summary]
) -> list[Summary]:
    replaced = [*summaries]
    for runs in by_seed:
        found = with_common_jobs([run_dirs[run] for run in runs], [summaries[run] for run in runs])
        for run, summary in zip(runs, found, strict=True):
            replaced[run] = summary
    return replaced


def _as_json(
    run_dirs: Sequence[Path],
    columns: Sequence[SeedColumn],
    policies: Sequence[comparison.PolicyRuns],
    rows: Sequence[comparison.SeedRow],
    population: str,
) -> dict[str, Any]:
    described = [
        {
            "name": column.name,
            "seeds": list(column.seeds),
            "folders": [str(run_dirs[run]) for run in column.runs],
            "repeats": policy.repeats,
        }
        for column, policy in zip(columns, policies, strict=True)
    ]
    return {"level": LEVEL, "columns": described, "figures": comparison.rows_as_json(rows, population)}


def _notes_on_comparison(
    policies: Sequence[comparison.PolicyRuns], rows: Sequence[comparison.SeedRow], *, same_seeds: bool
) -> list[str]:
    found = repeat_note([policy.name for policy in policies if policy.repeats])
    if not same_seeds:
        found.append(OTHER_SEEDS)
    if any(row.changes for row in rows):
        found.append(f"note: yes: lower than {policies[0].name}; no: higher; neither: the 95 % interval includes 0")
    if any(row.unclear for row in rows):
        found.append(NOT_CLEAR)
    return found


NOT_ALIKE = "note: the runs are of different workloads: no best is marked"
OTHER_JOBS = "note: not the same jobs completed, or count, in all runs: the best is marked for numbers of jobs only"
COMPARE_COMMON = f"{OTHER_JOBS}; --common compares the jobs that completed in all runs"
MACHINE_OF_OTHER_JOBS = (
    "note: not the same jobs completed in all runs, and the machine's figures are of all jobs: no best is marked there"
)


def _notes(*, alike: bool, same_jobs: bool, common: bool) -> list[str]:
    """Return why no best is marked, where none is."""
    if not alike:
        return [NOT_ALIKE]
    if same_jobs:
        return []
    return [MACHINE_OF_OTHER_JOBS if common else COMPARE_COMMON]


def _sharing_notes(names: Sequence[str], run_dirs: Sequence[Path]) -> list[str]:
    """Return a note of the runs whose policy may place several jobs on one node unasked, if there is any."""
    found = []
    for name, folder in zip(names, run_dirs, strict=True):
        config = run_folder.configuration_of(folder)
        workload = config.get("workload")
        exclusive = isinstance(workload, dict) and bool(workload.get("exclusive"))
        if run_folder.may_share_nodes(run_folder.policy_settings(config), read_machine(folder), exclusive=exclusive):
            found.append(name)
    return [run_folder.sharing_note(found)] if found else []


def run_names(folders: Sequence[Path]) -> list[str]:
    """Return the shortest path suffixes that distinguish the folders; raise `ConfigurationError` for a folder named twice."""
    paths = [folder.resolve() for folder in folders]
    if len(set(paths)) < len(paths):
        twice = next(str(folder) for folder, path in zip(folders, paths, strict=True) if paths.count(path) > 1)
        raise ConfigurationError("RUN_DIR", "every run once", f"{twice} twice")
    depth = 1
    while True:
        names = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(names)) == len(names):
            return [os.fsencode(name).decode("utf-8", "backslashreplace") for name in names]  # a name need not be UTF-8
        depth += 1
