"""The command ``presets``."""
# Under 60 lines: declares one command; what it does loads on use.

from __future__ import annotations

import click

from cosched_terminal.lazy import implementation


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@implementation("cosched_emulator.cli.presets")
def presets() -> None:
    """List the shapes of nodes that ship with cosched.

    \b
    Example:
      cosched-emulator presets --json
    """
