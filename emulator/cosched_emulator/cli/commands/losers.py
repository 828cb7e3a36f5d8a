"""The command ``losers``."""

from __future__ import annotations

from pathlib import Path

import click

from cosched_emulator.cli.commands.lazy import implementation
from cosched_emulator.cli.commands.results import MEDIUM_S, SHORT_S


@click.command()
@click.argument("run_dir", metavar="RUN_DIR", type=click.Path(path_type=Path))
@click.option(
    "--baseline",
    "baselines",
    multiple=True,
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Run of the same jobs; further ones are the first with slightly shaken run times.",
)
@click.option(
    "--jobs", "most", type=click.IntRange(min=0), default=10, show_default=True, metavar="N", help="Losers to list."
)
@SHORT_S
@MEDIUM_S
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.option(
    "--csv", "csv_file", type=click.Path(path_type=Path), metavar="FILE", help="Write a row for each job there."
)
@click.option("--force", is_flag=True, help="Replace an older FILE.")
@implementation("cosched_emulator.cli.losers")
def losers() -> None:
    """List the jobs that respond later than in a baseline, by how much, and why.

    H1 is the share of jobs with a response above 1.05 x that in the first baseline + 60 s. Any change reshuffles a
    schedule, so a large H1 may be chance. With several baselines, Hshk is the share that is later than in every one of
    them, and the floor is what chance alone gives: a baseline compared with the others.

    \b
    Examples:
      cosched-emulator losers runs/lomarc-r --baseline runs/pss
      cosched-emulator losers runs/rua --baseline runs/easy --baseline runs/easy-2 --baseline runs/easy-3 --csv rua.csv
    """
