"""The command ``cosched-plugin slurm``, and the ways back, ``release-all`` and ``withdraw-all``."""

from __future__ import annotations

import json
import sys
from typing import Final

import click

from cosched_plugin.cli.commands import CONTENTION, LOG_JSON, METRICS, POLICIES, QUIET, SET, SET_ASIDE, TRACE
from cosched_plugin.common.errors import UsageError
from cosched_terminal.commands import command, given_options, option
from cosched_terminal.console import Log, say
from cosched_terminal.help_text import Group

PARTITION: Final = option(
    "--partition", "Partition whose jobs cosched places; may be repeated. Default: the site file's."
)
GUESTS: Final = option(
    "--guests HOST:GUEST", "Two partitions over the same nodes: the second is for the guests of jobs of the first."
)
ONLY_WITH: Final = {  # option -> the modes in which it has an effect
    "--out": ("observe", "advise"), "--anonymise": ("observe", "advise"), "--dry-run": ("advise", "guests"),
    "--trace": ("enforce",), "--record": ("enforce",), "--state": ("enforce",), "--set-aside": ("enforce",),
    "--tick": ("enforce",), "--share": ("enforce", "advise", "observe"), "--requeue-bad": ("guests",),
}  # fmt: skip
# On top of the preset, with --mode guests: the queue's order is Slurm's, whose backfill keeps the head's reservation itself.
AT_SLURM: Final = ("order=priority", "backfill=skip")
REST: Final = option("--rest unix:PATH|http://HOST:PORT", "Where slurmrestd listens.")
JWT_FILE: Final = option(
    "--jwt-file FILE", "A token of `scontrol token`, mode 0600, for slurmrestd; read again when it has expired."
)
FETCH_JWT: Final = option("--fetch-jwt", "Let `scontrol token` make that token, whenever one is needed.")
SITE: Final = option("--site FILE", "Site file (docs/slurm.md).")


_SLURM_TITLES: Final = {
    "The site": "rest_address jwt_file fetch_jwt api partitions guests site_file models tick_partition wake",
    "With some of the modes": "share folder anonymise dry_run requeue_bad record state",
    "Log, trace and metrics": "trace_file metrics_address log_json quiet",
}


# Over 50 lines: one parameter for each option, passed on.
@command(cls=Group, invoke_without_command=True, titles=_SLURM_TITLES)
def slurm(
    rest_address: str | None = REST,
    jwt_file: str | None = JWT_FILE,
    fetch_jwt: bool = FETCH_JWT,
    partitions: tuple[str, ...] = PARTITION,
    guests: tuple[str, ...] = GUESTS,
    site_file: str | None = SITE,
    policy: str | None = option(
        "--policy",
        "As in `serve`; one that needs time slots or suspends to disk is refused. "
        "[default: easy; with --mode guests: guests, in Slurm's order and without a reservation]",
        shell_complete=POLICIES,
    ),
    assignments: tuple[str, ...] = SET,
    models: tuple[str, ...] = CONTENTION,
    state: str | None = option(
        "--state FILE",
        "Where jobs, notes and orders are kept. [default: cosched/slurm.sqlite in $XDG_STATE_HOME or ~/.local/state]",
    ),
    share: int | None = option(
        "--share",
        "Jobs on a core. [default: 2 if the policy pairs jobs and the partitions let it, else 1]",
        click.IntRange(1, 2),
    ),
    tick_partition: str | None = option(
        "--tick PARTITION",
        "A partition with an unused node, for jobs that wake Slurm's scheduler after placements. "
        "[default: tick; with slurmdbd none, since these jobs are in its accounts]",
    ),
    mode: str = option(
        "--mode",
        "guests: Slurm decides, and pending jobs may also start beside running ones; "
        "advise: write what would be done into AdminComment; observe: change nothing.",
        ("enforce", "guests", "advise", "observe"),
        "enforce",
    ),
    folder: str | None = option("--out DIR", "observe, advise: a new folder for a log of the jobs that end."),
    anonymise: bool = option("--anonymise", "observe, advise: a log without names, job numbers and dates."),
    dry_run: bool = option(
        "--dry-run",
        "advise: only print it; guests: only report which jobs would be guests, and what that would have gained.",
    ),
    requeue_bad: bool = option(
        "--requeue-bad",
        "guests: requeue a guest (--requeue) if Slurm starts a job beside it and the pair is believed to be bad.",
    ),
    metrics_address: str | None = METRICS,
    wake: str | None = option("--wake PATH", "A datagram socket; a message from a hook starts a poll at once."),
    set_aside: bool = SET_ASIDE,
    trace_file: str | None = TRACE,
    record: str | None = option("--record FILE", "Write every batch and its answer there: a new file of JSON lines."),
    api: str = option(
        "--api VERSION", "Version of the interface, such as v0.0.38. [default: the first that answers]", default=""
    ),
    log_json: bool = LOG_JSON,
    quiet: bool = QUIET,
) -> None:
    """Decide for a real Slurm: place the held jobs of a partition, start guests beside running jobs, or only report decisions.

    \b
    Example:
      cosched-plugin slurm --policy easy --rest unix:/run/slurmrestd/rest.sock --partition batch --mode observe
    """
    if click.get_current_context().invoked_subcommand is not None:
        return
    if rest_address is None:
        raise click.UsageError("Missing option '--rest'.")
    from cosched_plugin.config import allow_models, believed_at, choose

    log = Log("cosched-plugin", as_json=log_json, quiet=quiet)
    preset = policy or ("guests" if mode == "guests" else "easy")
    choice = choose(preset, (*(AT_SLURM if mode == preset == "guests" else ()), *assignments))
    for name in given_options():
        if mode not in ONLY_WITH.get(name, (mode,)):
            raise UsageError(f"{name} has no effect with --mode {mode}")
    from cosched_plugin.slurm.adapter import (
        Asked,
        default_state,
        enforce,
        observe,
        rest_of,
        seat_guests,
        site_of,
        token_of,
    )

    token = token_of(jwt_file, fetches=fetch_jwt)
    site = site_of(site_file, partitions, guests)
    rest, allowed = rest_of(rest_address, token, api), allow_models(models)
    believed_at(site_file, site.belief, allowed)  # refused before anything is asked of Slurm
    asked = Asked(rest_address, rest, token, site, choice, allowed, share, wake, metrics_address, log)
    if mode == "enforce":
        code = enforce(asked, state or default_state(), tick_partition, trace_file, record, set_aside=set_aside)
    elif mode == "guests":
        code = seat_guests(asked, dry=dry_run, requeues=requeue_bad)
    else:
        code = observe(asked, folder, anonymous=anonymise, writes=mode == "advise" and not dry_run)
    sys.exit(code)


assert isinstance(slurm, click.Group)


@command(slurm, name="release-all")
def release_all(
    rest_address: str = REST,
    jwt_file: str | None = JWT_FILE,
    fetch_jwt: bool = FETCH_JWT,
    partitions: tuple[str, ...] = PARTITION,
    guests: tuple[str, ...] = GUESTS,
    site_file: str | None = SITE,
    dry_run: bool = option("--dry-run", "Only say what would be released."),
) -> None:
    """Give all pending jobs back to Slurm: release user-held ones, and free those that cosched has placed.

    \b
    Example:
      cosched-plugin slurm release-all --rest unix:/run/slurmrestd/rest.sock --partition batch
    """
    from cosched_plugin.slurm import adapter

    rest = adapter.rest_of(rest_address, adapter.token_of(jwt_file, fetches=fetch_jwt))
    failed = adapter.release_all(rest, adapter.site_of(site_file, partitions, guests), dry_run=dry_run)
    if failed:
        raise click.ClickException(f"{failed} jobs could not be released")


@command(slurm, name="withdraw-all")
def withdraw_all(
    rest_address: str = REST,
    jwt_file: str | None = JWT_FILE,
    fetch_jwt: bool = FETCH_JWT,
    guests: tuple[str, ...] = GUESTS,
    site_file: str | None = SITE,
    dry_run: bool = option("--dry-run", "Only say what would be put back."),
) -> None:
    """Put all pending guests back into their own partition; running guests continue.

    \b
    Example:
      cosched-plugin slurm withdraw-all --rest unix:/run/slurmrestd/rest.sock --guests co:guest
    """
    from cosched_plugin.slurm import adapter
    from cosched_plugin.slurm.site_file import read_site

    site = read_site(site_file).with_partitions((), guests)
    rest = adapter.rest_of(rest_address, adapter.token_of(jwt_file, fetches=fetch_jwt))
    failed = adapter.withdraw_all(rest, site, dry_run=dry_run)
    if failed:
        raise click.ClickException(f"{failed} jobs could not be put back")


@command(slurm, prints="tables")
def beliefs(
    sacct: str | None = option(
        "--sacct FILE", "Output of sacct; without it and --since, print the command that writes it."
    ),
    since: str | None = option("--since WHEN", "Run sacct for jobs since WHEN, such as now-90days or 2026-09-01."),
    site_file: str | None = SITE,
    models: tuple[str, ...] = CONTENTION,
    time_zone: str | None = option("--time-zone ZONE", "Time zone of times that name none, such as Europe/Athens."),
    skip_bad_rows: bool = option("--skip-bad-rows", "Leave rows out that cannot be read, instead of stopping."),
    out: str | None = option("--out FILE", "Write the result as a table of pairs, for the site file's [belief] table."),
    as_json: bool = option("--json", "Machine-readable output."),
) -> None:
    """Show for each pair of applications how much longer they ran beside each other, and whether the site's belief is right.

    \b
    Examples:
      cosched-plugin slurm beliefs --since now-90days --site site.toml --out pairs.csv
      cosched-plugin slurm beliefs --sacct jobs.txt --json | jq '.pairs[] | select(.verdict == "worse than believed")'
    """
    from cosched_plugin.common.sacct_dump import read_dump
    from cosched_plugin.common.sacct_rows import COMMAND
    from cosched_plugin.config import allow_models, believed_at
    from cosched_plugin.slurm.beliefs import answer_of, dump_since, write_learned
    from cosched_plugin.slurm.site_file import read_site

    if sacct is None and since is None:
        say(COMMAND)
        return
    site = read_site(site_file)
    model = believed_at(site_file, site.belief, allow_models(models))
    if sacct is None:
        dump = dump_since(since or "", skip_bad_rows=skip_bad_rows)
    elif since is None:
        dump = read_dump(sacct, time_zone, skip_bad_rows=skip_bad_rows)
    else:
        raise UsageError("expected --sacct or --since, got both")
    answer = answer_of(dump, site, model)
    if out is not None:
        write_learned(out, answer.table())
    say(json.dumps(answer.as_dict(), indent=2) if as_json else "\n".join(answer.lines()))
