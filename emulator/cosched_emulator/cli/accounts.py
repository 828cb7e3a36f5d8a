"""The command group ``accounts``: look at the database of a manager that does not run."""

from __future__ import annotations

import json
import sys

import click

from cosched_terminal.commands import argument, command, option
from cosched_terminal.console import say
from cosched_terminal.help_text import Group


@click.group(cls=Group, epilog="\b\nExample:\n  cosched-emulator accounts check cluster.db")
def accounts() -> None:
    """Check the database of a manager (serve --db)."""


@command(accounts, prints="text")
def check(
    file: str = argument(kind=click.Path()), as_json: bool = option("--json", "Machine-readable output.")
) -> None:
    """Check that FILE has all that the manager has confirmed; exit code 0 if it has, else 1.

    No manager may have FILE open. Nothing is changed. `serve` also compares the tables with the journal.

    \b
    Example:
      cosched-emulator accounts check cluster.db
    """
    from cosched_emulator.accounting.rebuild import examine

    found = examine(file)
    if as_json:
        told = {
            "whole": found.whole,
            "steps": found.steps,
            "confirmed_step": found.confirmed,
            "troubles": list(found.troubles),
        }
        say(json.dumps(told))
    else:
        for trouble in found.troubles:
            say(trouble)
        say(f"{file}: {found.steps} steps are intact" + ("" if found.whole else "; others are not"))
    if not found.whole:
        sys.exit(1)
