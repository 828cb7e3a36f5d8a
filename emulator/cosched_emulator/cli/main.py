"""The command ``cosched-emulator``, and the one place where its errors become exit codes."""

from __future__ import annotations

from typing import Final, NoReturn

import click

from cosched_emulator.cli.commands.lazy import LazyGroup
from cosched_emulator.errors import EmulatorError
from cosched_hwmodel.errors import HardwareModelError
from cosched_plugin.common.errors import PluginError
from cosched_plugin.common.terminal import run_command_line

# Module -> the commands that it declares, with their help in one line.
COMMANDS: Final = {
    "cosched_emulator.cli.commands.simulate": {
        "simulate": "Run a workload under a policy in virtual time, and print what came of it.",
    },
    "cosched_emulator.cli.commands.serve": {
        "serve": "Be the manager for a scheduler in another terminal.",
    },
    "cosched_emulator.cli.commands.explain": {
        "explain": "Tell why JOB, a number in the run, started when and where it did.",
    },
    "cosched_emulator.cli.commands.presets": {
        "presets": "List the shapes of nodes that ship with cosched.",
    },
    "cosched_emulator.cli.commands.workload": {
        "workload": "Look at workloads, and generate them.",
    },
    "cosched_emulator.cli.commands.results": {
        "compare": "Compare the figures of several runs, a column for each RUN_DIR.",
        "classes": "Compare short, medium and long jobs, a column for each RUN_DIR.",
        "plot": "Draw a picture of a run.",
    },
    "cosched_emulator.cli.commands.keys": {
        "keys": "Make keys for connections off this machine, and say whose keys a manager accepts.",
    },
    "cosched_emulator.cli.commands.jobs": {
        "submit": "Submit a job, or an array of jobs.",
        "cancel": (
            "End jobs, waiting or running: 12, a task 12_3, several 12_[1-3,7]; the number of an array is all of it."
        ),
        "hold": "Keep waiting jobs from being started.",
        "release": "Let held jobs be started.",
        "queue": (
            "List the jobs that run or wait, with whom they share nodes, and how much that was found to slow them."
        ),
        "job": "Show all that is known of jobs, also of those that have ended.",
        "wait": "Wait until jobs have ended; exit code 0 if all of them completed, else 1.",
        "history": "List jobs that have ended, the latest last.",
    },
    "cosched_emulator.cli.commands.nodes": {
        "nodes": "List the nodes by state: IDLE, MIXED (some threads free), ALLOCATED, DRAINING, DRAINED, DOWN.",
        "drain": "Give nodes no more work: 3, 0-3,7.",
        "resume": "Put nodes back into service that were drained or have failed.",
        "status": "Show how the manager and its scheduler are.",
        "top": (
            "Watch the machine: utilisation, nodes and who shares them, queue, last decisions. q ends it, "
            "arrows scroll and choose a node."
        ),
    },
}


@click.group(cls=LazyGroup, table=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="cosched", prog_name="cosched-emulator")
def cli() -> None:
    """Emulate a resource manager and its nodes, and see what a scheduling policy does to a workload.

    \b
    Exit codes: 0 done, 1 failed, 2 wrong usage or input, 3 the scheduler was lost, 4 an invariant broke or
    a policy decided what is impossible.
    """


def main() -> NoReturn:
    """Run the command line and exit."""
    run_command_line(cli, "cosched-emulator", _exit_code)


def _exit_code(error: Exception) -> int | None:
    if isinstance(error, EmulatorError | PluginError):
        return error.exit_code
    return 2 if isinstance(error, HardwareModelError) else None
