"""The commands for a running manager and its nodes, modelled on Slurm's sinfo and scontrol."""

from __future__ import annotations

import click

from cosched_emulator.cli.commands.options.manager_options import NODES, SECONDS, common_options
from cosched_terminal.lazy import implementation


@click.command()
@click.option("-l", "--long", "one_by_one", is_flag=True, help="Print one line per node, with its jobs.")
@common_options()
@implementation("cosched_emulator.cli.nodes")
def nodes() -> None:
    """List the nodes by state: IDLE, MIXED (some threads free), ALLOCATED, DRAINING, DRAINED, DOWN.

    \b
    Example:
      cosched-emulator nodes --long
    """


@click.command()
@NODES
@click.option("--reason", default="", help="The reason; nodes and top show it.")
@common_options()
@implementation("cosched_emulator.cli.nodes")
def drain() -> None:
    """Start no more jobs on nodes: 3, 0-3,7. Running jobs continue. For operators.

    \b
    Example:
      cosched-emulator drain 0-3,7 --reason "new fans"
    """


@click.command()
@NODES
@common_options()
@implementation("cosched_emulator.cli.nodes")
def resume() -> None:
    """Put drained or failed nodes back into service. For operators.

    \b
    Example:
      cosched-emulator resume 0-3,7
    """


@click.command()
@common_options()
@implementation("cosched_emulator.cli.nodes")
def status() -> None:
    """Show the state of the manager and its scheduler.

    \b
    Example:
      cosched-emulator status --json
    """


@click.command()
@click.option(
    "-d",
    "--interval",
    "interval_s",
    type=SECONDS,
    default=1.0,
    show_default=True,
    metavar="S",
    help="Seconds between two pictures.",
)
@click.option("--once", is_flag=True, help="Print one picture as text; needs no terminal.")
@click.option(
    "--most", type=click.IntRange(1, 10_000), default=200, show_default=True, metavar="N", help="Most jobs to show."
)
@common_options()
@implementation("cosched_emulator.cli.top")
def top() -> None:
    """Watch the machine: utilisation, nodes and the jobs on them, queue, last decisions. q ends it, arrows scroll and choose a node.

    \b
    Example:
      cosched-emulator top --interval 0.5
    """
