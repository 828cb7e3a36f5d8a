"""The command ``cosched-plugin slurm``, and the way back, ``release-all``."""

from __future__ import annotations

import sys
from typing import Final

import click

from cosched_plugin.cli.options import CONTENTION, LOG_JSON, QUIET, SET, SET_ASIDE, TRACE
from cosched_plugin.common.errors import UsageError
from cosched_terminal.console import Log

_REST: Final = click.option(
    "--rest", "rest_address", required=True, metavar="unix:PATH", help="The socket of slurmrestd (rest_auth/local)."
)
_PARTITION: Final = click.option(
    "--partition",
    "partitions",
    multiple=True,
    help="Whose jobs are cosched's; may be repeated. Default: the site file's.",
)
_SITE: Final = click.option("--site", "site_file", metavar="FILE", help="What the site says of itself; docs/slurm.md.")


# Over 50 lines: one argument for each option, passed on.
@click.group(invoke_without_command=True)
@click.option("--rest", "rest_address", metavar="unix:PATH", help="The socket of slurmrestd (rest_auth/local).")
@_PARTITION
@_SITE
@click.option(
    "--policy",
    default="easy",
    show_default=True,
    help="As in `serve`; one that needs time slots or suspends to disk is refused.",
)
@SET
@CONTENTION
@click.option(
    "--state",
    metavar="FILE",
    help="Where jobs, notes and orders are kept. [default: cosched/slurm.sqlite in $XDG_STATE_HOME or ~/.local/state]",
)
@click.option(
    "--share",
    type=click.IntRange(1, 2),
    help="Jobs on a core. [default: 2 if the policy pairs jobs and the partition is OverSubscribe=FORCE:2, else 1]",
)
@click.option(
    "--tick",
    "tick_partition",
    default="tick",
    show_default=True,
    metavar="PARTITION",
    help="A partition with an unused node, to wake Slurm's scheduler after placements.",
)
@click.option(
    "--mode",
    type=click.Choice(["enforce", "advise", "observe"]),
    default="enforce",
    show_default=True,
    help="advise: write what would be done into AdminComment; observe: touch nothing.",
)
@click.option("--out", "folder", metavar="DIR", help="observe, advise: a new folder for a log of the jobs that end.")
@click.option("--anonymise", is_flag=True, help="observe, advise: a log without names, job numbers and dates.")
@click.option("--dry-run", is_flag=True, help="advise: only print it.")
@click.option("--wake", metavar="PATH", help="A datagram socket that hooks may poke to be looked at at once.")
@SET_ASIDE
@TRACE
@click.option("--record", metavar="FILE", help="Write every batch and its answer there: a new file of JSON lines.")
@click.option(
    "--api",
    default="",
    metavar="VERSION",
    help="Version of the interface, such as v0.0.38. [default: the first answered]",
)
@LOG_JSON
@QUIET
@click.pass_context
def slurm(
    context: click.Context,
    rest_address: str | None,
    partitions: tuple[str, ...],
    site_file: str | None,
    policy: str,
    assignments: tuple[str, ...],
    models: tuple[str, ...],
    state: str | None,
    share: int | None,
    tick_partition: str,
    mode: str,
    folder: str | None,
    anonymise: bool,
    dry_run: bool,
    wake: str | None,
    set_aside: bool,
    trace_file: str | None,
    record: str | None,
    api: str,
    log_json: bool,
    quiet: bool,
) -> None:
    """Decide for a real Slurm: place the held jobs of a partition; or look on, and say what would be done.

    \b
    Example:
      cosched-plugin slurm --policy easy --rest unix:/run/slurmrestd/rest.sock --partition batch --mode observe
    """
    if context.invoked_subcommand is not None:
        return
    if rest_address is None:
        raise click.UsageError("Missing option '--rest'.")
    from cosched_plugin.config import allow_models, choose

    log = Log("cosched-plugin", as_json=log_json, quiet=quiet)
    choice = choose(policy, assignments)
    for given, name, modes in (
        (folder is not None, "--out", ("observe", "advise")),
        (anonymise, "--anonymise", ("observe", "advise")),
        (dry_run, "--dry-run", ("advise",)),
        (trace_file is not None, "--trace", ("enforce",)),
        (record is not None, "--record", ("enforce",)),
        (state is not None, "--state", ("enforce",)),
        (set_aside, "--set-aside", ("enforce",)),
    ):
        if given and mode not in modes:
            raise UsageError(f"{name} has no effect with --mode {mode}")
    from cosched_plugin.slurm.adapter import Asked, default_state, enforce, observe, rest_of, site_of

    site = site_of(site_file, partitions)
    asked = Asked(rest_of(rest_address, api), site, choice, allow_models(models), share, wake, log)
    if mode == "enforce":
        code = enforce(asked, state or default_state(), tick_partition, trace_file, record, set_aside=set_aside)
    else:
        code = observe(asked, folder, anonymous=anonymise, writes=mode == "advise" and not dry_run)
    sys.exit(code)


@slurm.command("release-all")
@_REST
@_PARTITION
@_SITE
@click.option("--dry-run", is_flag=True, help="Only say what would be released.")
def release_all(rest_address: str, partitions: tuple[str, ...], site_file: str | None, dry_run: bool) -> None:
    """Give all waiting jobs back to Slurm: release those that their users hold, and free those that cosched has placed.

    \b
    Example:
      cosched-plugin slurm release-all --rest unix:/run/slurmrestd/rest.sock --partition batch
    """
    from cosched_plugin.slurm import adapter

    failed = adapter.release_all(adapter.rest_of(rest_address), adapter.site_of(site_file, partitions), dry_run=dry_run)
    if failed:
        raise click.ClickException(f"{failed} jobs could not be released")
