"""The commands that read run folders: ``compare``, ``classes`` and ``plot``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click

from cosched_emulator.cli.commands.results import DISTRIBUTIONS
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.results.figures import comparison, metrics
from cosched_emulator.results.figures import plot as pictures
from cosched_emulator.results.figures import plot_over_time as gantt
from cosched_emulator.results.figures import plot_over_time as turns
from cosched_emulator.results.figures.bars import COMPARED
from cosched_emulator.results.figures.classes import ClassRules, class_figures_of_columns, class_tables
from cosched_emulator.results.figures.comparison import PolicyRuns, SeedRow, compare_seeds, rows_as_json, rows_of
from cosched_emulator.results.figures.metrics import Summary
from cosched_emulator.results.figures.plot_over_time import plot_jobs, plot_power
from cosched_emulator.results.figures.turn_metrics import jobs_in_system
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
from cosched_emulator.results.files.run_reader import StoredRun, read_machine, read_power, read_quanta, read_run
from cosched_emulator.results.harm import LoserClasses, Outcomes, measure_harm, outcomes
from cosched_emulator.results.harm_tables import harm_text, write_csv
from cosched_emulator.statistics.intervals import LEVEL, all_equal
from cosched_emulator.workload.atomic_file import new_text_file

# What ``compare`` shows: a column for each run, or for each policy with several seeds.

OTHER_SEEDS = "note: the columns have different seeds: no change and no best are shown"
NOT_CLEAR = "note: no best is marked where the 95 % interval of a paired difference includes 0, or does not exist"


class ComparedRuns(NamedTuple):
    """A comparison, ready to be shown."""

    headings: list[str]
    folders: list[Path]  # one run of each column
    summaries: list[Summary]  # of all runs
    rows: list[comparison.FigureRow]
    alike: bool  # the runs that are compared with each other are of the same workload
    same_jobs: bool  # and the same jobs completed, and count
    draw: Callable[[Path, str], None]  # takes file and title
    intervals: Mapping[str, Any]  # for JSON; empty without several seeds
    notes: list[str]


def are_alike(run_dirs: Sequence[Path]) -> bool:
    """Tell whether the runs are of the same workload."""
    return len({workload_key(folder) for folder in run_dirs}) == 1


def compare_runs(
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
    return ComparedRuns(names, list(run_dirs), summaries, rows, alike, same_jobs, draw, {}, [])


def compare_columns(
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


def compare(
    run_dirs: tuple[Path, ...],
    population: str,
    common: bool,
    as_json: bool,
    markdown: bool,
    plot_file: Path | None,
    title: str,
) -> None:
    """Compare the figures of several runs, one column per RUN_DIR."""
    if as_json and markdown:
        raise click.UsageError("--json and --markdown exclude each other")
    if common and population == "all":
        raise click.UsageError("--common and --jobs all exclude each other: a killed job has no response to compare")
    names = run_names(run_dirs)
    summaries = [read_summary(folder) for folder in run_dirs]
    columns = seed_columns(run_dirs, names)
    several = len(columns) < len(run_dirs)
    compared = (compare_columns if several else compare_runs)(run_dirs, columns, summaries, population, common=common)
    if plot_file is not None:
        compared.draw(plot_file, title)
    if as_json:
        runs: list[dict[str, Any]] = [
            {"name": name, "folder": str(folder), "summary": summary}
            for name, folder, summary in zip(names, run_dirs, compared.summaries, strict=True)
        ]
        click.echo(json.dumps({"runs": runs, **compared.intervals}, indent=2, ensure_ascii=False))
        return
    notes = _notes(alike=compared.alike, same_jobs=compared.same_jobs, common=common)
    for note in notes + compared.notes + _sharing_notes(compared.headings, compared.folders):
        click.echo(note, err=True)
    show = comparison.markdown_table if markdown else comparison.text_table
    click.echo(show(compared.headings, compared.rows), nl=False)


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


def classes(
    run_dirs: tuple[Path, ...], short_s: int, medium_s: int, bound_s: int, high_load: int, as_json: bool
) -> None:
    """Compare short, medium and long jobs, one column per RUN_DIR."""
    if short_s > medium_s:
        raise ConfigurationError("--short-s", f"at most --medium-s, {medium_s}", str(short_s))
    names = run_names(run_dirs)
    rules = ClassRules(short_s, medium_s, bound_s, high_load)
    figures: list[dict[str, Any]] = []
    completed: list[bytes] = []
    for run in map(read_run, run_dirs):
        figures.append(class_figures_of_columns(run.jobs, run.stays, run.machine, rules).as_dict())
        completed.append(run.jobs.id[metrics.population(run.jobs, "finished")].tobytes())
    if as_json:
        runs: list[dict[str, Any]] = [
            {"name": name, "folder": str(folder), "rules": rules._asdict(), "figures": found}
            for name, folder, found in zip(names, run_dirs, figures, strict=True)
        ]
        click.echo(json.dumps(runs, indent=2, ensure_ascii=False))
        return
    alike = are_alike(run_dirs)
    same_jobs = len(set(completed)) == 1
    if not alike or not same_jobs:
        click.echo(OTHER_JOBS if alike else NOT_ALIKE, err=True)
    compared = partial(comparison.compare, figures, mark_best=alike, same_jobs=same_jobs)
    tables = [
        f"{heading}\n{comparison.text_table(names, compared(figures=rows))}"
        for heading, rows in class_tables(rules).items()
    ]
    click.echo("\n".join(tables), nl=False)


def plot(
    run_dirs: tuple[Path, ...],
    kind: str,
    out: Path,
    quantity: str,
    population: str,
    from_h: float | None,
    to_h: float | None,
    title: str,
) -> None:
    """Draw a picture of a run."""
    if kind == "ecdf":
        if from_h is not None or to_h is not None:
            raise click.UsageError("--from-h and --to-h belong to pictures over time")
        names = run_names(run_dirs)
        runs = [read_run(folder) for folder in run_dirs]
        columns = seed_columns(run_dirs, names)
        repeating = [column for column in columns if all_equal([runs[run].summary for run in column.runs])]
        for note in repeat_note([column.name for column in repeating]):
            click.echo(note, err=True)
        key, label, floor = DISTRIBUTIONS[quantity]
        pictures.plot_distribution(out, _series(columns, runs, key, population), label, title, floor)
        click.echo(f"picture: {out}")
        return
    window_s = (None if from_h is None else from_h * 3600, None if to_h is None else to_h * 3600)
    if kind == "jobs":
        _plot_jobs(run_dirs, out, window_s, title)
        return
    if kind == "power":
        _plot_power(run_dirs, out, window_s, title)
        return
    if len(run_dirs) > 1:
        raise click.UsageError(f"{kind} shows one run, not {len(run_dirs)}")
    run = read_run(run_dirs[0])
    quanta = read_quanta(run_dirs[0])
    if kind == "quanta":
        if quanta is None:
            raise click.UsageError(f"{run_dirs[0]} has no quanta: its jobs do not take turns")
        turns.plot_turns(out, run.machine, run.jobs, run.stays, quanta, window_s, title)
        click.echo(f"picture: {out}")
        return
    if kind == "gantt" and quanta is not None:
        raise click.UsageError("jobs of this run take turns on the same threads: --kind quanta shows them")
    draw = gantt.plot_gantt if kind == "gantt" else pictures.plot_load
    draw(out, run.machine, run.jobs, run.stays, window_s, title)
    click.echo(f"picture: {out}")


def _plot_jobs(run_dirs: Sequence[Path], out: Path, window_s: tuple[float | None, float | None], title: str) -> None:
    names = run_names(run_dirs)
    runs = [read_run(folder) for folder in run_dirs]
    windows = [pictures.window_us(run.jobs, run.stays, window_s) for run in runs]
    window = (min(begin_us for begin_us, _ in windows), max(end_us for _, end_us in windows))
    plot_jobs(out, names, [jobs_in_system(run.jobs) for run in runs], window, title)
    click.echo(f"picture: {out}")


def _plot_power(run_dirs: Sequence[Path], out: Path, window_s: tuple[float | None, float | None], title: str) -> None:
    traces = []
    for folder in run_dirs:
        read_summary(folder)  # refuses what is no run folder
        trace = read_power(folder)
        if trace is None:
            raise click.UsageError(f"{folder} has no power: no watts were given for its nodes")
        traces.append(trace)
    plot_power(out, run_names(run_dirs), traces, window_s, title)
    click.echo(f"picture: {out}")


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
            return names
        depth += 1


def _series(
    columns: Sequence[SeedColumn], runs: Sequence[StoredRun], key: str, population: str
) -> list[pictures.Series | pictures.SeedSeries]:
    """Return a sample for each column of one run, and the samples of all seeds for the others."""
    samples = [metrics.quantity(run.jobs, key, metrics.population(run.jobs, population, run.selection)) for run in runs]
    return [
        pictures.SeedSeries(column.heading, tuple([samples[run] for run in column.runs]))
        if len(column.runs) > 1
        else pictures.Series(column.name, samples[column.runs[0]])
        for column in columns
    ]


# What the command ``losers`` does.


def losers(
    run_dir: Path,
    baselines: tuple[Path, ...],
    most: int,
    short_s: int,
    medium_s: int,
    as_json: bool,
    csv_file: Path | None,
    force: bool,
) -> None:
    """List the jobs that respond later than in a baseline, by how much, and why."""
    if short_s > medium_s:
        raise ConfigurationError("--short-s", f"at most --medium-s, {medium_s}", str(short_s))
    names = run_names([run_dir, *baselines])
    classes = LoserClasses(short_s, medium_s)
    harm = measure_harm(_outcomes(run_dir, classes), [_outcomes(folder, classes) for folder in baselines])
    if csv_file is not None:
        with new_text_file(csv_file, force=force) as stream:
            write_csv(stream, harm)
    if as_json:
        described = {"run": str(run_dir), "baselines": [str(folder) for folder in baselines]}
        click.echo(json.dumps({**harm.as_dict(most), **described}, indent=2))
        return
    click.echo(harm_text(harm, names[1], most), nl=False)


def _outcomes(folder: Path, classes: LoserClasses) -> Outcomes:
    run = read_run(folder)
    return outcomes(run.jobs, run.machine, run.selection, classes)
