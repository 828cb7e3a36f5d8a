"""The command group ``accounts``: look at the database of a manager that does not run."""
# Under 60 lines: a group of commands of its own.

from __future__ import annotations

import click

from cosched_terminal.lazy import implementation


@click.group(epilog="\b\nExample:\n  cosched-emulator accounts check cluster.db")
def accounts() -> None:
    """Look after the database of a manager (serve --db)."""


@accounts.command()
@click.argument("file", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@implementation("cosched_emulator.cli.accounts")
def check() -> None:
    """Say whether FILE is whole, with all that was confirmed; exit code 0 if it is, else 1.

    \b
    No manager may have it open, and nothing is changed. Tables that disagree with the journal show when serve begins.
    Example:
      cosched-emulator accounts check cluster.db
    """
