"""The commands ``study run``, ``status``, ``table`` and ``plot``."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click

from cosched_emulator.cli.reporting import warn
from cosched_emulator.page.document import write_page
from cosched_emulator.page.study_page import study_page
from cosched_emulator.studies.cell_run import Failure
from cosched_emulator.studies.cells import Plan, make_plan
from cosched_emulator.studies.experiment import read_experiment
from cosched_emulator.studies.pictures import plot_study
from cosched_emulator.studies.runner import Made, Way, check_measures, run_plan, workers_of
from cosched_emulator.studies.study_folder import REPORT, StudyFolder
from cosched_emulator.studies.study_result import read_study
from cosched_emulator.studies.study_table import RESULTS, check_figure, interval_rows
from cosched_emulator.studies.text import FailedAlike, failed_alike, losers_text, study_text
from cosched_terminal.console import progress_bar, say


def run(
    experiment: str,
    out: Path,
    jobs: int | None,
    dask: str | None,
    keep: bool,
    timeout: float,
    only: tuple[int, ...],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Run what is not done yet of an experiment, and write its tables."""
    with redirect_stdout(sys.stderr):  # modules that the experiment names may print
        plan = make_plan(read_experiment(experiment))
        check_measures(plan)
    folder = StudyFolder(out)
    if dry_run:
        _list(plan, folder, as_json=as_json)
        return
    if dask is not None and jobs is not None:
        raise click.UsageError("--dask and --jobs exclude each other: the cluster has its own workers")
    way = Way(jobs or 0, dask, keep, timeout, only)
    with progress_bar(len(plan.runs), "runs") as bar:
        made = run_plan(plan, folder, way, bar)
    write_page(out / REPORT, study_page(made.result), force=True)
    for note, count in made.result.notes.items():
        warn(f"{note} ({count} of {len(plan.cells)} cells)")
    if as_json:
        say(json.dumps(_made_table(made, out), indent=2, ensure_ascii=False))
    else:
        where = f"on {dask}" if dask else f"by {min(workers_of(way.jobs), made.wanted - made.done_before)} processes"
        say(
            f"{made.wanted} runs: {made.done_before} done before, {made.made} made in {made.wall_s:.1f} s {where}, "
            f"{len(made.failures)} failed; table in {out / RESULTS}, report in {out / REPORT}"
        )
        say(losers_text(made.result), nl=False)
    for alike, failure in failed_alike(
        [(cell.number, cell.key, cell.text, failure) for cell, failure in made.failures]
    ):
        _tell_failure(alike, failure, experiment, out, details=bool(only))
    if made.failures:
        click.get_current_context().exit(1)


def status(folder: Path, as_json: bool) -> None:
    """Tell what is done of a study, what failed, and whether it is running."""
    study = StudyFolder(folder)
    plan, failed, runner = study.read_plan(), study.failures(), study.runner()
    cells, extra = (sum(study.has(cell.key) for cell in group) for group in (plan.cells, plan.extra))
    if as_json:
        numbers = [cell.number for cell in plan.cells if cell.key in failed]
        found: dict[str, Any] = {
            "title": plan.title,
            "cells": len(plan.cells),
            "cells_done": cells,
            "baselines": len(plan.extra),
            "baselines_done": extra,
            "failed": len(failed),
            "failed_cells": numbers,
            "running": runner,
        }
        say(json.dumps(found, indent=2, ensure_ascii=False))
        return
    if plan.title:
        say(plan.title)
    say(
        f"{cells} of {len(plan.cells)} cells done, {extra} of {len(plan.extra)} runs of baselines, {len(failed)} failed"
    )
    say(f"running: process {runner}" if runner else "not running")
    runs = [cell for cell in (*plan.cells, *plan.extra) if cell.key in failed]
    for alike, failure in failed_alike((cell.number, cell.key, "", failed[cell.key]) for cell in runs):
        say(f"failed: {alike}: {failure.text}")


def table(folder: Path, figures: tuple[str, ...], losers: int, level: float, as_json: bool) -> None:
    """Print means over seeds with their intervals, changes against the baseline, and who is worse off."""
    result = read_study(StudyFolder(folder))
    for figure in figures:
        check_figure(figure, result.rows)
    if as_json:
        rows = [
            row for row in interval_rows(result.rows, result.baseline, level) if not figures or row["figure"] in figures
        ]
        say(json.dumps({"level": level, "intervals": rows, "losers": result.harm.losers}, indent=2, ensure_ascii=False))
        return
    if result.rows:
        say(study_text(result, figures, level), nl=False)
        say(losers_text(result, losers), nl=False)
    left = len(result.plan.cells) - len(result.rows)
    if left:
        say(f"note: {left} of {len(result.plan.cells)} cells are not done", err=True)


def plot(folder: Path, out: Path, figure: str, axis: str | None, change: bool | None, title: str, level: float) -> None:
    """Draw a figure of all policies along an axis, with intervals over seeds."""
    result = read_study(StudyFolder(folder))
    check_figure(figure, result.rows)
    plot_study(out, result, figure, axis, change=change, title=title, level=level)


def _list(plan: Plan, folder: StudyFolder, *, as_json: bool) -> None:
    """Print the cells of a plan, and whether they are done."""
    if as_json:
        cells = [
            {"cell": cell.number, "names": cell.names, "key": cell.key, "done": folder.has(cell.key)}
            for cell in plan.cells
        ]
        say(json.dumps({"cells": cells, "baselines": len(plan.extra)}, indent=2, ensure_ascii=False))
        return
    for cell in plan.cells:
        say(f"{cell.number:>6}  {cell.text}{'  done' if folder.has(cell.key) else ''}")
    say(f"{len(plan.cells)} cells, and {len(plan.extra)} more runs of the baseline")


def _made_table(made: Made, out: Path) -> dict[str, Any]:
    return {
        "runs": made.wanted,
        "done_before": made.done_before,
        "made": made.made,
        "failed": [
            {"cell": cell.number, "key": cell.key, "names": cell.names, "error": failure.text}
            for cell, failure in made.failures
        ],
        "wall_s": round(made.wall_s, 3),
        "table": str(out / RESULTS),
        "report": str(out / REPORT),
    }


def _tell_failure(runs: FailedAlike, failure: Failure, experiment: str, out: Path, *, details: bool) -> None:
    say(f"failed: {runs}: {failure.text}", err=True)
    if runs.numbers:
        again = shlex.join(["study", "run", experiment, "--out", str(out), "--cell", str(runs.numbers[0])])
        say(f"  to repeat it: cosched-emulator {again}", err=True)
    if details and failure.details:
        say(failure.details, err=True, nl=False)
