"""The command ``whatif``: a log under candidates and assumptions, as one study that is run in two steps, and the answer."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from cosched_emulator.cli.completing import POLICIES, SETTINGS
from cosched_emulator.cli.scenario_options import A_FILE, AS_SUBMITTED, overrides, some_of_scenario
from cosched_terminal.commands import argument, command, option
from cosched_terminal.console import progress_bar, say, warn

if TYPE_CHECKING:
    from cosched_emulator.studies.cells import Cell, Plan
    from cosched_emulator.studies.runner import Made, Way
    from cosched_emulator.studies.study_folder import StudyFolder

OF_SITE: Final = some_of_scenario(
    "swf", "skip_bad_rows", "nodes", "node", "machine", "bandwidth_gbs", "idle_w", "busy_w",
    "annotations", "characteristics", "pairs", "seed",
)  # fmt: skip
STUDY, LOG = "study", "log"  # folders in that of the answer


# Over 50 lines: one parameter for each option.
@command(prints="result")
def whatif(
    site: str | None = argument("[SITE.toml]", click.Path()),
    options: dict[str, Any] = OF_SITE,
    sacct: str | None = option("--sacct FILE", "Instead of a log: a dump of Slurm's accounting.", A_FILE),
    as_submitted: bool = AS_SUBMITTED,
    policy: str | None = option(
        "--policy",
        "The present policy.  [default: the site's, else easy on nodes that each job has alone]",
        shell_complete=POLICIES,
    ),
    assignments: tuple[str, ...] = option(
        "--set KEY=VALUE", "A setting of it; may be repeated.", shell_complete=SETTINGS
    ),
    window_count: int | None = option("--window-count N", "Windows of the log.  [default: 10]", click.IntRange(min=1)),
    window_jobs: int | None = option(
        "--window-jobs N", "Jobs of each, at most.  [default: 3000]", click.IntRange(min=10)
    ),
    candidates: tuple[str, ...] = option("--candidate NAME", "Run only this one, or lever; may be repeated."),
    workers: int | None = option("--workers N", "Processes.  [default: one for each core]", click.IntRange(min=1)),
    out: Path = option("--out DIR", "Folder of the study, new or resumed."),
    wide: bool = option("--wide", "All tables, and every assumption."),
    as_json: bool = option("--json", "Machine-readable output."),
) -> None:
    """Say what other policies, and sharing nodes, would do to a log: for whom, how sure, and what that hangs on.

    \b
    Examples:
      cosched-emulator whatif --swf log.swf.gz --out whatif/log
      cosched-emulator whatif --swf log.swf.gz --machine machine.toml --pairs pairs.csv --out whatif/log
      cosched-emulator whatif site/scenario.toml --policy conservative --out whatif/site --json
    """
    from cosched_emulator.page.document import write_page
    from cosched_emulator.studies.runner import Way
    from cosched_emulator.studies.study_folder import REPORT, StudyFolder
    from cosched_emulator.studies.text import failed_alike
    from cosched_emulator.whatif.answer import answer, best_of, compare
    from cosched_emulator.whatif.answer_lead import brief
    from cosched_emulator.whatif.answer_page import page
    from cosched_emulator.whatif.answer_text import as_dict, text
    from cosched_emulator.whatif.guests_of_record import record_study, told_of_record
    from cosched_emulator.whatif.question import (
        Question,
        more_runs,
        prepare_question,
        study_of,
        whole_study,
        with_scale,
        with_whole,
    )
    from cosched_emulator.whatif.site_sections import site_of
    from cosched_emulator.whatif.validation import validation_of
    from cosched_emulator.whatif.warm import whole_run

    if sacct is not None:
        if site is not None or options.get("swf") is not None:
            raise click.UsageError("--sacct does not go with a site's file or --swf: it is the log")
        site = _site_of_dump(sacct, out, as_submitted=as_submitted, skip_bad_rows=bool(options.get("skip_bad_rows")))
    elif as_submitted:
        raise click.UsageError("--as-submitted goes with --sacct FILE")
    with redirect_stdout(sys.stderr):  # modules that the site names may print
        sections, own = site_of(site, overrides(options))
        question = Question(sections, policy or own, assignments, asked=policy is not None, only=candidates)
        question = with_scale(question, window_count, window_jobs)
        prepared = prepare_question(question, out)
        folder = StudyFolder(out / STUDY)
        whole = whole_study(prepared)
    way = Way(jobs=workers or 0)
    with progress_bar(len(whole.runs), "runs of the whole log") as bar:
        prepared = with_whole(prepared, whole_run(_run(whole, folder, way, bar, 0).result))
    of_record = record_study(prepared)
    first = study_of(prepared)
    with progress_bar(len(first.runs) + more_runs(prepared), "runs") as bar:
        made = _run(first, folder, way, bar, more_runs(prepared), () if of_record is None else of_record.runs)
        second = study_of(prepared, best_of(compare(prepared, made.result)))
        made = _run(second, folder, way, bar, 0)
    for alike, failure in failed_alike((cell.number, cell.key, cell.text, failure) for cell, failure in made.failures):
        warn(f"{alike}: {failure.text}")
    checked = validation_of(prepared)
    found = answer(prepared, made.result, checked.distance)._replace(
        causes=checked.causes,
        of_record=() if of_record is None else tuple(told_of_record(_run(of_record, folder, way, None, 0).result)),
    )
    write_page(out / REPORT, page(found), force=True)
    if as_json:
        say(json.dumps(as_dict(found), indent=2, ensure_ascii=False))
    else:
        say(text(found) if wide else "\n".join(brief(found)))
    say(f"page: {out / REPORT}; all runs: {out / STUDY}", err=True)
    if made.failures:
        click.get_current_context().exit(1)


def _site_of_dump(sacct: str, out: Path, *, as_submitted: bool, skip_bad_rows: bool) -> str:
    """Return the site that a dump of Slurm's accounting makes, beside the answer."""
    from cosched_emulator.workload.sacct.sacct_log import SCENARIO, ImportOptions, import_dump

    read = ImportOptions(force=True, as_submitted=as_submitted, skip_bad_rows=skip_bad_rows)
    imported = import_dump(sacct, out / LOG, read)
    for line in imported.lines():
        say(line, err=True)
    return str(out / LOG / SCENARIO)


def _run(
    plan: Plan, folder: StudyFolder, way: Way, bar: Callable[..., None] | None, later: int, besides: Sequence[Cell] = ()
) -> Made:
    """Run a plan, and the runs ``besides``; the bar is about these, those that are done already, and so many that follow."""
    from cosched_emulator.studies.runner import run_plan

    def progress(done: int, total: int) -> None:
        if bar is not None:
            runs = len(plan.runs) + len(besides)
            bar(runs - total + done, runs + later)

    return run_plan(plan, folder, way, progress, besides)
