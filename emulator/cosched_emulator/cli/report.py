"""The command ``report``: one page about runs or studies."""

from __future__ import annotations

from pathlib import Path

import click

from cosched_emulator.cli.completing import RUNS_AND_STUDIES
from cosched_terminal.commands import argument, command, option
from cosched_terminal.console import progress_bar, say


# Over 50 lines: one parameter for each option.
@command()
def report(
    folders: tuple[Path, ...] = argument("RUN|STUDY...", shell_complete=RUNS_AND_STUDIES),
    out: Path = option("-o --out FILE", "The file to write: FILE.html."),
    form: str = option("--format", "A page; or one run as trace events.", ("html", "trace"), "html"),
    title: str = option("--title", "Title of the page.", default=""),
    force: bool = option("--force", "Replace an older FILE."),
) -> None:
    """Write one page about run folders or a study: tables, charts, and a Gantt chart that zooms.

    The page needs no network. Of several runs the first one is the baseline. A decision trace in a run's folder
    (DIR/trace.jsonl) gives the chart the reason of each start. Trace events are JSON for Perfetto and speedscope.

    \b
    Examples:
      cosched-emulator report runs/easy -o easy.html
      cosched-emulator report runs/easy runs/rua -o easy-rua.html
      cosched-emulator report studies/sharing -o sharing.html
      cosched-emulator report runs/rua --format trace -o rua.json
    """
    from cosched_emulator.page.document import write_page
    from cosched_emulator.page.run_page import run_page
    from cosched_emulator.page.schedule import trace_events
    from cosched_emulator.page.study_page import study_page
    from cosched_emulator.results.compared_runs import run_names
    from cosched_emulator.results.files.run_reader import read_owners, read_run
    from cosched_emulator.studies.study_folder import PLAN, StudyFolder
    from cosched_emulator.studies.study_result import read_study
    from cosched_emulator.workload.atomic_file import new_text_file

    studies = [folder for folder in folders if (folder / PLAN).is_file()]
    if studies and len(folders) > 1:
        raise click.UsageError("a page is about one study, or about runs")
    if form == "trace":
        if studies or len(folders) > 1:
            raise click.UsageError("--format trace is of one run")
        if title:
            raise click.UsageError("--title is for a page only")
        run = read_run(folders[0])
        if run.jobs.cpu_us is not None:
            raise click.UsageError("jobs of this run take turns on the same threads: trace events cannot show that")
        with new_text_file(out, force=force) as stream:
            stream.writelines(trace_events(run, read_owners(folders[0], run.jobs)))
    elif studies:
        write_page(out, study_page(read_study(StudyFolder(studies[0])), title), force=force)
    else:
        names = run_names(folders)
        with progress_bar(len(folders), "runs") as bar:
            page = run_page(folders, names, title, bar or (lambda _: None))
        write_page(out, page, force=force)
    say(f"report: {out}")
