"""The command ``presets``."""

from __future__ import annotations

import click

from cosched_emulator.cli.lazy import implementation


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@implementation("cosched_emulator.cli.presets")
def presets() -> None:
    """List the shapes of nodes that ship with cosched.

    \b
    Example:
      cosched-emulator presets --json
    """
