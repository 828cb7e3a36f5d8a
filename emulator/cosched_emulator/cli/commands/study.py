"""The command group ``study``: many runs declared in one file."""

from __future__ import annotations

from pathlib import Path

import click

from cosched_emulator.studies.axes import DRAWN
from cosched_terminal.lazy import implementation

_FOLDER = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
_JSON = click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
_LEVEL = click.option(
    "--level",
    type=click.FloatRange(0.5, 0.9999),
    default=0.95,
    show_default=True,
    help="Probability that an interval covers the true value.",
)


@click.group()
def study() -> None:
    """Run many simulations as one: policies x workloads x loads x seeds, with intervals over seeds.

    \b
    Example:
      cosched-emulator study run sharing.toml --out studies/sharing
      cosched-emulator study table studies/sharing
    """


@study.command()
@click.argument("experiment", metavar="EXPERIMENT.toml", type=click.Path())
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="DIR", help="Folder of the study, new or resumed."
)
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Processes.  [default: one for each core]")
@click.option("--dask", metavar="ADDRESS", help="Run on the workers of this dask.distributed scheduler instead.")
@click.option("--keep", is_flag=True, help="Write the run folder of each cell, below DIR/runs.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=86_400,
    show_default=True,
    metavar="S",
    help="Longest time for one run.",
)
@click.option(
    "--cell", "only", type=click.IntRange(min=1), multiple=True, metavar="N", help="Run only cell N; may be repeated."
)
@click.option("--dry-run", is_flag=True, help="Check the experiment and list its cells; run nothing.")
@_JSON
@implementation("cosched_emulator.cli.study")
def run() -> None:
    """Run what is not done yet of an experiment, and write its tables.

    Exit code 1 if a run failed; the others are made all the same.

    \b
    Examples:
      cosched-emulator study run sharing.toml --out studies/sharing
      cosched-emulator study run sharing.toml --out studies/sharing --cell 12
      cosched-emulator study run sharing.toml --out studies/sharing --dask tcp://head:8786
    """


@study.command()
@_FOLDER
@_JSON
@implementation("cosched_emulator.cli.study")
def status() -> None:
    """Tell what is done of a study, what failed, and whether it is running.

    \b
    Example:
      cosched-emulator study status studies/sharing
    """


@study.command()
@_FOLDER
@click.option("--figure", "figures", multiple=True, metavar="COLUMN", help="A column of results.csv; may be repeated.")
@click.option(
    "--losers", type=click.IntRange(min=0), default=5, show_default=True, metavar="N", help="Largest losses to list."
)
@_LEVEL
@_JSON
@implementation("cosched_emulator.cli.study")
def table() -> None:
    """Print means over seeds with their intervals, changes against the baseline, and who is worse off.

    \b
    Examples:
      cosched-emulator study table studies/sharing
      cosched-emulator study table studies/sharing --figure wait_s_p95 --figure harm_h1 --json
    """


@study.command()
@_FOLDER
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="A .png, .svg or .pdf file."
)
@click.option(
    "--figure", default="response_s_mean", show_default=True, metavar="COLUMN", help="A column of results.csv."
)
@click.option(
    "--x",
    "axis",
    type=click.Choice(DRAWN),
    help="Axis along which to draw.  [default: the first with several values]",
)
@click.option(
    "--change/--levels",
    default=None,
    help="Draw the change against the baseline, in percent, or the figure.  [default: change where seeds pair the two]",
)
@click.option("--title", default="", help="Title of the picture.")
@_LEVEL
@implementation("cosched_emulator.cli.study")
def plot() -> None:
    """Draw a figure of all policies along an axis, with intervals over seeds.

    \b
    Examples:
      cosched-emulator study plot studies/sharing --out response.png
      cosched-emulator study plot studies/sharing --x load --levels --figure wait_s_mean --out waits.svg
    """
