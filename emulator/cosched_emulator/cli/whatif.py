"""The command ``whatif``: a log under candidates and assumptions, as one study that is run in two steps, and the answer."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from cosched_emulator.cli.completing import POLICIES, SETTINGS
from cosched_emulator.cli.scenario_options import A_FILE, AS_SUBMITTED, overrides, some_of_scenario
from cosched_terminal.commands import argument, command, option
from cosched_terminal.console import progress_bar, say, warn

OF_SITE: Final = some_of_scenario(
    "swf", "skip_bad_rows", "nodes", "node", "machine", "bandwidth_gbs", "idle_w", "busy_w",
    "annotations", "characteristics", "pairs", "seed",
)  # fmt: skip
LOG = "log"  # folder in that of the answer


# Over 50 lines: one parameter for each option.
@command(prints="result")
def whatif(
    site: str | None = argument("[SITE.toml]", click.Path()),
    options: dict[str, Any] = OF_SITE,
    sacct: str | None = option("--sacct FILE", "Instead of a log: a dump of Slurm's accounting.", A_FILE),
    as_submitted: bool = AS_SUBMITTED,
    policy: str | None = option(
        "--policy", "The present policy.  [default: the site's, else easy on whole nodes]", shell_complete=POLICIES
    ),
    assignments: tuple[str, ...] = option(
        "--set KEY=VALUE", "Change one setting of that policy; may be repeated.", shell_complete=SETTINGS
    ),
    window_count: int | None = option("--window-count N", "Windows of the log.  [default: 10]", click.IntRange(min=1)),
    window_jobs: int | None = option(
        "--window-jobs N", "Most jobs of a window.  [default: 3000]", click.IntRange(min=10)
    ),
    candidates: tuple[str, ...] = option("--candidate NAME", "Run only this candidate or lever; may be repeated."),
    workers: int | None = option("--workers N", "Processes.  [default: one for each core]", click.IntRange(min=1)),
    out: Path = option("--out DIR", "Folder of the study, new or resumed."),
    wide: bool = option("--wide", "All tables, and every assumption."),
    as_json: bool = option("--json", "Machine-readable output."),
) -> None:
    """Say what other policies, and sharing nodes, would change in a log: for whom, and how credible that is.

    \b
    Examples:
      cosched-emulator whatif --swf log.swf.gz --out whatif/log
      cosched-emulator whatif --swf log.swf.gz --machine machine.toml --pairs pairs.csv --out whatif/log
      cosched-emulator whatif site/scenario.toml --policy conservative --out whatif/site --json
    """
    from cosched_emulator.studies.study_folder import REPORT
    from cosched_emulator.studies.text import failed_alike
    from cosched_emulator.whatif.answer_lead import brief
    from cosched_emulator.whatif.answer_text import as_dict, text
    from cosched_emulator.whatif.asking import STUDY, ask
    from cosched_emulator.whatif.question import Question, with_scale
    from cosched_emulator.whatif.site_sections import site_of

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
    found, failures = ask(question, out, workers or 0, partial(progress_bar, lines=True))
    for alike, failure in failed_alike((cell.number, cell.key, cell.text, failure) for cell, failure in failures):
        warn(f"{alike}: {failure.text}")
    if as_json:
        say(json.dumps(as_dict(found), indent=2, ensure_ascii=False))
    else:
        say(text(found) if wide else "\n".join(brief(found)))
    say(f"page: {out / REPORT}; all runs: {out / STUDY}", err=True)
    if failures:
        click.get_current_context().exit(1)


def _site_of_dump(sacct: str, out: Path, *, as_submitted: bool, skip_bad_rows: bool) -> str:
    """Return the site that a dump of Slurm's accounting makes, beside the answer."""
    from cosched_emulator.workload.sacct.sacct_log import SCENARIO, ImportOptions, import_dump

    read = ImportOptions(force=True, as_submitted=as_submitted, skip_bad_rows=skip_bad_rows)
    imported = import_dump(sacct, out / LOG, read)
    for line in imported.lines():
        say(line, err=True)
    return str(out / LOG / SCENARIO)
