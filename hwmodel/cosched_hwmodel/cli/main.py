"""The command ``cosched-hwmodel``, and the one place where its errors become exit codes.

Each command imports its modules when it runs: ``--help`` must load no more than click.
"""

from __future__ import annotations

import json
from typing import NoReturn

import click

from cosched_hwmodel.cli.terminal.command_line import run_command_line
from cosched_hwmodel.errors import HardwareModelError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="cosched", prog_name="cosched-hwmodel")
def cli() -> None:
    """Measure a node, draw it, and predict which jobs slow each other down on it.

    \b
    Exit codes: 0 done, 1 failed, 2 wrong usage or input, 130/143 after SIGINT/SIGTERM.
    """


@cli.command()
@click.argument("node")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def show(node: str, as_json: bool) -> None:
    """Draw NODE: its sockets, caches, cores and hardware threads, with their numbers, and its capacities.

    NODE is a TOML file of nodes, a preset (rua-4way), or a layout of sockets x cores x threads (2x16x2).

    \b
    Example:
      cosched-hwmodel show two-socket-2x32
    """
    from cosched_hwmodel.cli.drawing import node_lines, node_values  # noqa: PLC0415 - --help should not pay for it
    from cosched_hwmodel.topology import load_nodes  # noqa: PLC0415

    classes = load_nodes(node).classes
    if as_json:
        click.echo(json.dumps([{"count": count, **node_values(shape)} for count, shape in classes], indent=2))
        return
    click.echo("\n\n".join("\n".join(node_lines(shape, count)) for count, shape in classes))


def main() -> NoReturn:
    """Run the command line and exit."""
    run_command_line(cli, "cosched-hwmodel", lambda error: 2 if isinstance(error, HardwareModelError) else None)
