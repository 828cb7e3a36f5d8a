"""The command ``cosched-emulator``, and the conversion of its errors to exit codes."""

from __future__ import annotations

from typing import Final, NoReturn

import click

from cosched_emulator.errors import EmulatorError
from cosched_hwmodel.errors import HardwareModelError
from cosched_plugin.common.errors import PluginError
from cosched_terminal.command_line import run_command_line
from cosched_terminal.commands import LazyGroup

# Group of the help -> command -> the module in this package that has it, and its help in one line.
COMMANDS: Final = {
    "Simulate": {
        "simulate": ("simulate", "Run a workload under a policy in virtual time, and print the results."),
        "batsim": ("batsim", "Take Batsim's place for a scheduler that was written for Batsim 4 (JSON), in virtual time."),
        "study": ("study", "Run a set of simulations: policies x workloads x loads x seeds, with intervals over seeds."),
        "whatif": ("whatif",
            "Say what other policies, and sharing nodes, would change in a log: for whom, and how credible that is."),
        "explain": ("explain", "Explain why JOB of a run started when and where it did."),
    },
    "Workloads and nodes": {
        "workload": ("workload", "Describe, generate and import workloads."),
        "presets": ("presets", "List the shapes of nodes that ship with cosched."),
    },
    "Shell": {
        "completion": ("presets",
            "Print the script by which SHELL completes commands, options and values of all three programs."),
    },
    "Results": {
        "compare": ("results", "Compare the figures of several runs, one column per RUN_DIR."),
        "classes": ("results", "Compare short, medium and long jobs, one column per RUN_DIR."),
        "plot": ("results", "Draw a picture of runs."),
        "losers": ("results", "List the jobs that respond later than in a baseline, by how much, and why."),
        "report": ("report", "Write one page about run folders or a study: tables, charts, and a Gantt chart that zooms."),
    },
    "Live cluster, manager": {
        "serve": ("serve", "Run the manager for a scheduler in another terminal."),
        "accounts": ("accounts", "Check the database of a manager (serve --db)."),
        "keys": ("keys", "Make keys for connections between machines, and set which keys a manager accepts."),
    },
    "Live cluster, jobs": {
        "submit": ("jobs", "Submit a job, or an array of jobs."),
        "queue": ("jobs", "List running and pending jobs, the jobs co-located with them, and their measured slowdown."),
        "why": ("jobs", "Say why jobs do not run, and when they will."),
        "job": ("jobs", "Show all details of jobs, also of jobs that have ended."),
        "cancel": ("jobs",
            "End pending or running jobs: 12, a task 12_3, several tasks 12_[1-3,7]; the number of an array names all tasks."),
        "hold": ("jobs", "Hold pending jobs: they do not start until released."),
        "release": ("jobs", "Release held jobs."),
        "wait": ("jobs", "Wait until jobs have ended; exit code 0 if all of them completed, else 1."),
        "history": ("jobs", "List jobs that have ended, the latest last."),
    },
    "Live cluster, nodes and state": {
        "nodes": ("nodes", "List the nodes by state; MIXED: some of their threads are free."),
        "drain": ("nodes", "Start no more jobs on nodes: 3, 0-3,7."),
        "resume": ("nodes", "Put drained or failed nodes back into service."),
        "status": ("nodes", "Show the state of the manager and its scheduler."),
        "config": ("nodes", "Show the settings of the manager's scenario; with NAME only those that begin with it."),
        "web": ("nodes", "Print where the manager's pages are, with a ticket for a browser."),
        "top": ("nodes",
            "Watch the machine: utilisation, nodes and the jobs on them, queue, last decisions. q ends it, ? shows the keys."),
    },
}  # fmt: skip


@click.group(cls=LazyGroup, package="cosched_emulator.cli", table=COMMANDS)
@click.version_option(package_name="cosched", prog_name="cosched-emulator")
def cli() -> None:
    """Emulate a resource manager and its nodes, and measure what a scheduling policy does to a workload.

    Exit codes: 0 done, 1 failed, 2 wrong usage or input, 3 the scheduler was lost, 4 a broken invariant or
    an impossible decision of the policy.
    """


def main() -> NoReturn:
    """Run the command line and exit."""
    run_command_line(cli, "cosched-emulator", _exit_code)


def _exit_code(error: Exception) -> int | None:
    if isinstance(error, EmulatorError | PluginError):
        return error.exit_code
    return 2 if isinstance(error, HardwareModelError) else None
