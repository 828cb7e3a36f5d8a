"""What the command ``losers`` does."""

from __future__ import annotations

import json
from pathlib import Path

import click

from cosched_emulator.cli.results import run_names
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.results.files.reader import read_run
from cosched_emulator.results.harm.harm import measure_harm
from cosched_emulator.results.harm.outcomes import LoserClasses, Outcomes, outcomes
from cosched_emulator.results.harm.tables import harm_text, write_csv
from cosched_emulator.workload.atomic_file import new_text_file


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
