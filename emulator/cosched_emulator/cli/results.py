"""The commands that read run folders: ``compare``, ``classes`` and ``plot``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from cosched_emulator.cli.commands.results import DISTRIBUTIONS
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.results.compared_runs import (
    NOT_ALIKE,
    OTHER_JOBS,
    are_alike,
    compare_folders,
    repeat_note,
    run_names,
)
from cosched_emulator.results.figures import comparison, metrics
from cosched_emulator.results.figures import plot as pictures
from cosched_emulator.results.figures import plot_over_time as gantt
from cosched_emulator.results.figures import plot_over_time as turns
from cosched_emulator.results.figures.classes import ClassRules, class_figures_of_columns, class_tables
from cosched_emulator.results.figures.plot_over_time import plot_jobs, plot_power
from cosched_emulator.results.figures.turn_metrics import jobs_in_system
from cosched_emulator.results.files.comparable import SeedColumn, seed_columns
from cosched_emulator.results.files.run_folder import read_summary
from cosched_emulator.results.files.run_reader import StoredRun, read_power, read_quanta, read_run
from cosched_emulator.results.harm import LoserClasses, Outcomes, measure_harm, outcomes
from cosched_emulator.results.harm_tables import harm_text, write_csv
from cosched_emulator.statistics.intervals import all_equal
from cosched_emulator.workload.atomic_file import new_text_file
from cosched_terminal.console import say


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
    compared = compare_folders(run_dirs, names, population, common=common)
    if plot_file is not None:
        compared.draw(plot_file, title)
    if as_json:
        runs: list[dict[str, Any]] = [
            {"name": name, "folder": str(folder), "summary": summary}
            for name, folder, summary in zip(names, run_dirs, compared.summaries, strict=True)
        ]
        say(json.dumps({"runs": runs, **compared.intervals}, indent=2, ensure_ascii=False))
        return
    for note in compared.notes:
        say(note, err=True)
    show = comparison.markdown_table if markdown else comparison.text_table
    say(show(compared.headings, compared.rows), nl=False)


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
        say(json.dumps(runs, indent=2, ensure_ascii=False))
        return
    alike = are_alike(run_dirs)
    same_jobs = len(set(completed)) == 1
    if not alike or not same_jobs:
        say(OTHER_JOBS if alike else NOT_ALIKE, err=True)
    compared = partial(comparison.compare, figures, mark_best=alike, same_jobs=same_jobs)
    tables = [
        f"{heading}\n{comparison.text_table(names, compared(figures=rows))}"
        for heading, rows in class_tables(rules).items()
    ]
    say("\n".join(tables), nl=False)


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
            say(note, err=True)
        key, label, floor = DISTRIBUTIONS[quantity]
        pictures.plot_distribution(out, _series(columns, runs, key, population), label, title, floor)
        say(f"picture: {out}")
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
        say(f"picture: {out}")
        return
    if kind == "gantt" and quanta is not None:
        raise click.UsageError("jobs of this run take turns on the same threads: --kind quanta shows them")
    draw = gantt.plot_gantt if kind == "gantt" else pictures.plot_load
    draw(out, run.machine, run.jobs, run.stays, window_s, title)
    say(f"picture: {out}")


def _plot_jobs(run_dirs: Sequence[Path], out: Path, window_s: tuple[float | None, float | None], title: str) -> None:
    names = run_names(run_dirs)
    runs = [read_run(folder) for folder in run_dirs]
    windows = [pictures.window_us(run.jobs, run.stays, window_s) for run in runs]
    window = (min(begin_us for begin_us, _ in windows), max(end_us for _, end_us in windows))
    plot_jobs(out, names, [jobs_in_system(run.jobs) for run in runs], window, title)
    say(f"picture: {out}")


def _plot_power(run_dirs: Sequence[Path], out: Path, window_s: tuple[float | None, float | None], title: str) -> None:
    traces = []
    for folder in run_dirs:
        read_summary(folder)  # refuses what is no run folder
        trace = read_power(folder)
        if trace is None:
            raise click.UsageError(f"{folder} has no power: no watts were given for its nodes")
        traces.append(trace)
    plot_power(out, run_names(run_dirs), traces, window_s, title)
    say(f"picture: {out}")


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
        say(json.dumps({**harm.as_dict(most), **described}, indent=2))
        return
    say(harm_text(harm, names[1], most), nl=False)


def _outcomes(folder: Path, classes: LoserClasses) -> Outcomes:
    run = read_run(folder)
    return outcomes(run.jobs, run.machine, run.selection, classes)
