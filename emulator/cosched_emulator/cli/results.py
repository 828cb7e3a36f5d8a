"""The commands that read run folders: ``compare``, ``classes`` and ``plot``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from cosched_emulator.cli.commands.results import DISTRIBUTIONS
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.results.figures import comparison, metrics
from cosched_emulator.results.figures import plot as pictures
from cosched_emulator.results.figures.classes import ClassRules, class_figures_of_columns, class_tables
from cosched_emulator.results.files.folder import read_summary
from cosched_emulator.results.files.reader import StoredRun, read_run
from cosched_emulator.results.files.workload_key import workload_key

NOT_ALIKE = "note: the runs are of different workloads: no best is marked"


def compare(
    run_dirs: tuple[Path, ...], population: str, as_json: bool, markdown: bool, plot_file: Path | None, title: str
) -> None:
    """Compare the figures of several runs, one column per RUN_DIR."""
    if as_json and markdown:
        raise click.UsageError("--json and --markdown exclude each other")
    names = run_names(run_dirs)
    summaries = [read_summary(folder) for folder in run_dirs]
    alike = len({workload_key(folder) for folder in run_dirs}) == 1
    if plot_file is not None:
        pictures.plot_comparison(plot_file, names, summaries, population, title, mark_best=alike)
    if as_json:
        runs: list[dict[str, Any]] = [
            {"name": name, "folder": str(folder), "summary": summary}
            for name, folder, summary in zip(names, run_dirs, summaries, strict=True)
        ]
        click.echo(json.dumps({"runs": runs}, indent=2, ensure_ascii=False))
        return
    if not alike:
        click.echo(NOT_ALIKE, err=True)
    show = comparison.markdown_table if markdown else comparison.text_table
    click.echo(show(names, comparison.compare(summaries, population, mark_best=alike)), nl=False)


def classes(
    run_dirs: tuple[Path, ...], short_s: int, medium_s: int, bound_s: int, high_load: int, as_json: bool
) -> None:
    """Compare short, medium and long jobs, one column per RUN_DIR."""
    if short_s > medium_s:
        raise ConfigurationError("--short-s", f"at most --medium-s, {medium_s}", str(short_s))
    names = run_names(run_dirs)
    rules = ClassRules(short_s, medium_s, bound_s, high_load)
    figures = [
        class_figures_of_columns(run.jobs, run.stays, run.machine, rules).as_dict() for run in map(read_run, run_dirs)
    ]
    if as_json:
        runs: list[dict[str, Any]] = [
            {"name": name, "folder": str(folder), "rules": rules._asdict(), "figures": found}
            for name, folder, found in zip(names, run_dirs, figures, strict=True)
        ]
        click.echo(json.dumps(runs, indent=2, ensure_ascii=False))
        return
    alike = len({workload_key(folder) for folder in run_dirs}) == 1
    if not alike:
        click.echo(NOT_ALIKE, err=True)
    tables = [
        f"{heading}\n{comparison.text_table(names, comparison.compare(figures, figures=rows, mark_best=alike))}"
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
            raise click.UsageError("--from-h and --to-h belong to gantt and load")
        names = run_names(run_dirs)
        runs = [read_run(folder) for folder in run_dirs]
        key, label, floor = DISTRIBUTIONS[quantity]
        pictures.plot_distribution(out, _series(names, runs, key, population), label, title, floor)
        click.echo(f"picture: {out}")
        return
    if len(run_dirs) > 1:
        raise click.UsageError(f"{kind} shows one run, not {len(run_dirs)}")
    run = read_run(run_dirs[0])
    window_s = (None if from_h is None else from_h * 3600, None if to_h is None else to_h * 3600)
    draw = pictures.plot_gantt if kind == "gantt" else pictures.plot_load
    draw(out, run.machine, run.jobs, run.stays, window_s, title)
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


def _series(names: Sequence[str], runs: Sequence[StoredRun], key: str, population: str) -> list[pictures.Series]:
    return [
        pictures.Series(name, metrics.quantity(run.jobs, key, metrics.population(run.jobs, population, run.selection)))
        for name, run in zip(names, runs, strict=True)
    ]
