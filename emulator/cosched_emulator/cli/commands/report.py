"""The command ``report``: one page about runs or studies."""
# Under 60 lines: an entry point.

from __future__ import annotations

from pathlib import Path

import click

from cosched_emulator import offered
from cosched_terminal.lazy import implementation


@click.command()
@click.argument("folders", metavar="RUN|STUDY...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="The file to write: FILE.html."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(offered.REPORT_FORMATS),
    default=offered.REPORT_FORMATS[0],
    show_default=True,
    help="A page; or one run as trace events.",
)
@click.option("--title", default="", help="Title of the page.")
@click.option("--force", is_flag=True, help="Replace an older FILE.")
@implementation("cosched_emulator.cli.report")
def report() -> None:
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
