"""A comparison of run folders: a column for each run, or for each policy with several seeds, with its table, notes and bars."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.results.figures import comparison
from cosched_emulator.results.figures import plot as pictures
from cosched_emulator.results.figures.comparison import PolicyRuns, SeedRow, compare_seeds, rows_as_json, rows_of
from cosched_emulator.results.figures.metrics import Summary
from cosched_emulator.results.figures.plot import COMPARED
from cosched_emulator.results.files.comparable import (
    SeedColumn,
    same_jobs_completed,
    seed_columns,
    with_common_jobs,
    workload_key,
)
from cosched_emulator.results.files.run_folder import (
    configuration_of,
    may_share_nodes,
    part_name,
    policy_settings,
    read_summary,
    sharing_note,
)
from cosched_emulator.results.files.run_reader import read_machine
from cosched_emulator.statistics.intervals import LEVEL

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
    draw: Callable[[Path, str], None]  # takes file and title
    intervals: Mapping[str, Any]  # for JSON; empty without several seeds
    notes: list[str]


def compare_folders(run_dirs: Sequence[Path], names: Sequence[str], population: str, *, common: bool) -> ComparedRuns:
    """Compare run folders, of which ``names`` are the names; ``common``: only the jobs that completed in all of them.

    Raises InputError for what is no run folder, ConfigurationError where ``common`` cannot be had.
    """
    summaries = [read_summary(folder) for folder in run_dirs]
    columns = seed_columns(run_dirs, names)
    several = len(columns) < len(run_dirs)
    compared = (_compare_columns if several else _compare_single)(
        run_dirs, columns, summaries, population, common=common
    )
    notes = _notes(alike=compared.alike, same_jobs=compared.same_jobs, common=common)
    return compared._replace(notes=notes + compared.notes + _sharing_notes(compared.headings, compared.folders))


def are_alike(run_dirs: Sequence[Path]) -> bool:
    """Tell whether the runs are of the same workload."""
    return len({workload_key(folder) for folder in run_dirs}) == 1


def _compare_single(
    run_dirs: Sequence[Path], columns: Sequence[SeedColumn], summaries: list[Summary], population: str, *, common: bool
) -> ComparedRuns:
    """Compare single runs; ``common``: only the jobs that completed in all of them."""
    names = [column.name for column in columns]
    alike = are_alike(run_dirs)
    if common:
        _check_alike(alike=alike)
        summaries, population = with_common_jobs(run_dirs, summaries), comparison.COMMON
    same_jobs = alike and same_jobs_completed(run_dirs, summaries)

    def draw(file: Path, title: str) -> None:
        best = same_jobs or (alike and common)
        pictures.plot_comparison(file, names, summaries, population, title, mark_best=best)

    shapes = [_shape(folder) for folder in run_dirs]
    rows = comparison.compare(summaries, population, mark_best=alike, same_jobs=same_jobs, shapes=shapes)
    return ComparedRuns(names, columns, list(run_dirs), summaries, rows, alike, same_jobs, draw, {}, [])


def _compare_columns(
    run_dirs: Sequence[Path], columns: Sequence[SeedColumn], summaries: list[Summary], population: str, *, common: bool
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
        PolicyRuns(column.name, column.seeds, [summaries[run] for run in column.runs], _shape(folder))
        for column, folder in zip(columns, firsts, strict=True)
    ]
    headings = [column.heading for column in columns]
    compared = partial(compare_seeds, policies, population, paired=paired, same_jobs=same_jobs)
    rows = compared()

    def draw(file: Path, title: str) -> None:
        pictures.plot_seed_comparison(file, headings, compared(COMPARED), population, title)

    return ComparedRuns(
        headings,
        columns,
        firsts,
        summaries,
        rows_of(rows, columns[0].name),
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
    return part_name(policy_settings(configuration_of(folder)), "shape")


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
    policies: Sequence[PolicyRuns],
    rows: Sequence[SeedRow],
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
    return {"level": LEVEL, "columns": described, "figures": rows_as_json(rows, population)}


def _notes_on_comparison(policies: Sequence[PolicyRuns], rows: Sequence[SeedRow], *, same_seeds: bool) -> list[str]:
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
        config = configuration_of(folder)
        workload = config.get("workload")
        exclusive = isinstance(workload, dict) and bool(workload.get("exclusive"))
        if may_share_nodes(policy_settings(config), read_machine(folder), exclusive=exclusive):
            found.append(name)
    return [sharing_note(found)] if found else []


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
