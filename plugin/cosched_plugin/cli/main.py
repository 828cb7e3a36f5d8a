"""The command ``cosched-plugin``, and the one place where its errors become exit codes."""

from __future__ import annotations

from typing import Final, NoReturn

import click

from cosched_plugin.common.errors import PluginError
from cosched_terminal.command_line import run_command_line
from cosched_terminal.commands import LazyGroup

# Group of the help -> command -> the module in this package that has it, and its help in one line.
COMMANDS: Final = {
    "A resource manager": {
        "serve": ("commands", "Serve one manager until it says goodbye; continue after its restarts."),
        "batsim": ("commands", "Decide for one simulation of Batsim 4 (JSON), and end with it."),
        "status": ("commands", "Show the status of the process that answers at ENDPOINT (serve --status)."),
        "slurm": ("slurm",
            "Decide for a real Slurm: place the held jobs of a partition, start guests beside running jobs, or only report decisions."),
    },
    "Policies": {
        "policies": ("commands", "List the presets and the parts of policies."),
        "check": ("commands",
            "Run the conformance check on POLICY: invariants, fixpoint, restart at every batch, faults, another process."),
    },
}  # fmt: skip


@click.group(cls=LazyGroup, package="cosched_plugin.cli", table=COMMANDS)
@click.version_option(package_name="cosched", prog_name="cosched-plugin")
def cli() -> None:
    """Schedule jobs for a resource manager: cosched's scheduler as a process of its own.

    Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 protocol (no manager, or it went away),
    4 an impossible decision of the policy, 130/143 after SIGINT/SIGTERM.
    """


def main() -> NoReturn:
    """Run the command line and exit."""
    run_command_line(cli, "cosched-plugin", lambda error: error.exit_code if isinstance(error, PluginError) else None)
