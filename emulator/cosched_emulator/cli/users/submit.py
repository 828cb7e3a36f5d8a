"""The command ``submit``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from cosched_emulator.cli.commands.options.manager_options import Caller
from cosched_emulator.cli.commands.options.sbatch_options import ignored_names
from cosched_emulator.cli.users.asking import connect, show
from cosched_emulator.cli.users.job_script import read_script, request_of
from cosched_emulator.cli.users.wait import check_success, wait_at_terminal
from cosched_emulator.users.requests import SubmitJob, Target


def submit(
    context: click.Context,
    /,
    caller: Caller,
    script: str | None,
    arguments: tuple[str, ...],  # noqa: ARG001 - arguments of the script, which is not executed
    parsable: bool,
    and_wait: bool,
    **options: Any,
) -> None:
    """Submit a job, or an array of jobs, and wait for its end if requested."""
    request, notes = _request(script, options, ignored_names(context))
    for note in notes:
        click.echo(f"note: {note}", err=True)
    with connect(caller) as connection:
        result = connection.result(request)
        number = result["job_ids"][0]
        show(caller, result, lambda: f"{number}\n" if parsable else f"Submitted batch job {number}\n")
        if and_wait:
            sys.stdout.flush()
            check_success(wait_at_terminal(connection, [Target(number)], None))


def _request(script: str | None, options: dict[str, Any], ignored: list[str]) -> tuple[SubmitJob, list[str]]:
    """Return the request of a script and the command line (which overrides the script), and notes for the user."""
    values: dict[str, Any] = {}
    name = ""
    if script is not None:
        found = read_script(script)
        values.update(found.values)
        ignored = [*found.ignored, *ignored]
        name = "stdin" if script == "-" else Path(script).name
    values.update({key: value for key, value in options.items() if value is not None})
    request, notes = request_of(values, name)
    if ignored:
        notes.append(f"without effect here: {', '.join(dict.fromkeys(ignored))}")
    return request, notes
