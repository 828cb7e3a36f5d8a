"""The command group ``study``: many runs declared in one file."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from cosched_emulator.cli.completing import STUDIES
from cosched_emulator.studies.axes import DRAWN
from cosched_terminal.commands import argument, command, option
from cosched_terminal.console import progress_bar, say, warn
from cosched_terminal.help_text import Group

if TYPE_CHECKING:
    from cosched_emulator.studies.cell_run import Failure
    from cosched_emulator.studies.cells import Plan
    from cosched_emulator.studies.runner import Made
    from cosched_emulator.studies.study_folder import StudyFolder
    from cosched_emulator.studies.text import FailedAlike

FOLDER: Final = argument("DIR", shell_complete=STUDIES)
AS_JSON: Final = option("--json", "Machine-readable output.")
LEVEL: Final = option(
    "--level", "Probability that an interval covers the true value.", click.FloatRange(0.5, 0.9999), 0.95
)


@click.group(cls=Group)
def study() -> None:
    """Run a set of simulations: policies x workloads x loads x seeds, with intervals over seeds.

    \b
    Example:
      cosched-emulator study run sharing.toml --out studies/sharing
      cosched-emulator study table studies/sharing
    """


# Over 50 lines: one parameter for each option.
@command(study, prints="result")
def run(
    experiment: str = argument("EXPERIMENT.toml", click.Path()),
    out: Path = option("--out DIR", "Folder of the study, new or resumed."),
    jobs: int | None = option("--jobs N", "Processes.  [default: one for each core]", click.IntRange(min=1)),
    dask: str | None = option("--dask ADDRESS", "Run on the workers of this dask.distributed scheduler instead."),
    keep: bool = option("--keep", "Write the run folder of each cell, below DIR/runs."),
    timeout: float = option("--timeout S", "Longest time for one run.", click.FloatRange(min=0, min_open=True), 86_400),
    only: tuple[int, ...] = option("--cell N", "Run only cell N; may be repeated.", click.IntRange(min=1)),
    dry_run: bool = option("--dry-run", "Check the experiment and list its cells; run nothing."),
    as_json: bool = AS_JSON,
) -> None:
    """Run the missing cells of an experiment, and write its tables.

    If a run fails, the others continue, and the exit code is 1.

    \b
    Examples:
      cosched-emulator study run sharing.toml --out studies/sharing
      cosched-emulator study run sharing.toml --out studies/sharing --cell 12
      cosched-emulator study run sharing.toml --out studies/sharing --dask tcp://head:8786
    """
    from cosched_emulator.page.document import write_page
    from cosched_emulator.page.study_page import study_page
    from cosched_emulator.studies.cells import make_plan
    from cosched_emulator.studies.experiment import read_experiment
    from cosched_emulator.studies.runner import Way, check_measures, run_plan, workers_of
    from cosched_emulator.studies.study_folder import REPORT, StudyFolder
    from cosched_emulator.studies.study_result import RESULTS
    from cosched_emulator.studies.text import failed_alike, gain_text, losers_text

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
    with progress_bar(len(plan.runs), "runs", lines=True) as bar:
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
        say("".join(f"\n{text}" for text in (gain_text(made.result), losers_text(made.result)) if text), nl=False)
    for alike, failure in failed_alike(
        [(cell.number, cell.key, cell.text, failure) for cell, failure in made.failures]
    ):
        _tell_failure(alike, failure, experiment, out, details=bool(only))
    if made.failures:
        click.get_current_context().exit(1)


@command(study, prints="text")
def status(folder: Path = FOLDER, as_json: bool = AS_JSON) -> None:
    """Show how much of a study is done, what failed, and whether it is running.

    \b
    Example:
      cosched-emulator study status studies/sharing
    """
    from cosched_emulator.studies.study_folder import StudyFolder
    from cosched_emulator.studies.text import failed_alike

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


@command(study, prints="tables")
def table(
    folder: Path = FOLDER,
    figures: tuple[str, ...] = option("--figure COLUMN", "A column of results.csv; may be repeated."),
    losers: int = option("--losers N", "Largest losses to list.", click.IntRange(min=0), 5),
    level: float = LEVEL,
    as_json: bool = AS_JSON,
) -> None:
    """Print means over seeds with their intervals, changes against the baseline, and who is worse off.

    \b
    Examples:
      cosched-emulator study table studies/sharing
      cosched-emulator study table studies/sharing --figure wait_s_p95 --figure harm_h1 --json
    """
    from cosched_emulator.studies.study_folder import StudyFolder
    from cosched_emulator.studies.study_result import check_figure, interval_rows, read_study
    from cosched_emulator.studies.text import losers_text, study_text

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
        if harm := losers_text(result, losers):
            say(f"\n{harm}", nl=False)
    left = len(result.plan.cells) - len(result.rows)
    if left:
        say(f"note: {left} of {len(result.plan.cells)} cells are not done", err=True)


@command(study)
def plot(
    folder: Path = FOLDER,
    out: Path = option("--out FILE", "A .png, .svg or .pdf file."),
    figure: str = option("--figure COLUMN", "A column of results.csv.", default="response_s_mean"),
    axis: str | None = option("--x", "Axis along which to draw.  [default: the first with several values]", DRAWN),
    change: bool | None = option(
        "--change/--levels",
        "Draw the change against the baseline, in percent, or the figure.  [default: change, if both have the same seeds]",
    ),
    title: str = option("--title", "Title of the picture.", default=""),
    level: float = LEVEL,
) -> None:
    """Draw a figure of all policies along an axis, with intervals over seeds.

    \b
    Examples:
      cosched-emulator study plot studies/sharing --out response.png
      cosched-emulator study plot studies/sharing --x load --levels --figure wait_s_mean --out waits.svg
    """
    from cosched_emulator.studies.pictures import plot_study
    from cosched_emulator.studies.study_folder import StudyFolder
    from cosched_emulator.studies.study_result import check_figure, read_study

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
    from cosched_emulator.studies.study_folder import REPORT
    from cosched_emulator.studies.study_result import RESULTS

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
