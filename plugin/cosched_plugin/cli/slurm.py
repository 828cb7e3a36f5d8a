"""The command ``cosched-plugin slurm``, and the way back, ``release-all``."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from cosched_plugin.cli.options import CONTENTION, LOG_JSON, QUIET, SET, SET_ASIDE, TRACE
from cosched_plugin.common.errors import UsageError
from cosched_terminal.console import WARNING, Log, say
from cosched_terminal.own_file import open_folder

if TYPE_CHECKING:
    from cosched_plugin.config import PolicyChoice
    from cosched_plugin.protocol.scheduler import SchedulerFactory
    from cosched_plugin.slurm.rest import Rest
    from cosched_plugin.slurm.site_file import Site

WAIT_S: Final = 60.0
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
    site = _site(site_file, partitions)
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
    if mode != "enforce":
        writes = mode == "advise" and not dry_run
        sys.exit(
            _look_on(
                _rest(rest_address, api), site, choice, allow_models(models), log, share, wake, folder,
                anonymous=anonymise, writes=writes,
            )
        )  # fmt: skip
    code = _enforce(
        _rest(rest_address, api), site, choice, allow_models(models), log, state or default_state(), share,
        tick_partition, wake, trace_file, record, set_aside=set_aside,
    )  # fmt: skip
    sys.exit(code)


def _enforce(
    rest: Rest,
    site: Site,
    choice: PolicyChoice,
    models: Mapping[str, Any],
    log: Log,
    state: str,
    share: int | None,
    tick_partition: str,
    wake: str | None,
    trace_file: str | None,
    record: str | None,
    *,
    set_aside: bool,
) -> int:
    """Begin, and enforce until a signal."""
    from cosched_plugin.common.trace_file import TraceFile
    from cosched_plugin.quarantine import Quarantine
    from cosched_plugin.slurm.actuator import Commands
    from cosched_plugin.slurm.cluster import Cluster
    from cosched_plugin.slurm.loop import Enforcer, begun, only_one, recorder, run, welcome_of

    with ExitStack() as open_things:
        open_things.enter_context(only_one(state))
        poller = begun(rest, WAIT_S, log)
        shared = share or site.share or _share(site.partitions, choice.settings)
        cluster = Cluster(poller.nodes, site, shared, getattr(choice.make(), "ignored", frozenset()))
        choice.scheduler(welcome_of(cluster, site), models=models)  # a policy that cannot work here is refused now
        store = open_store(state, cluster.names, log)
        open_things.callback(store.close)
        trace = None if trace_file is None else open_things.enter_context(TraceFile(trace_file)).write
        ticks = tick_partition if _partition(tick_partition) else None
        if ticks is None:
            log("no-tick", f"there is no partition {tick_partition}: starts may take a second longer")
        tools = Commands(ticks)
        open_things.callback(tools.close)
        make: SchedulerFactory = partial(choice.scheduler, trace=trace, models=models)
        enforcer = Enforcer(
            poller, rest, tools, cluster, store, Quarantine(make, log) if set_aside else make, log,
            record=None if record is None else recorder(record, open_things),
        )  # fmt: skip
        log(
            "enforcing",
            f"{choice.name} decides for {len(cluster.names)} nodes of {', '.join(site.partitions)}, {cluster.share} jobs a core",
            api=rest.version,
        )
        return run(enforcer, log, wake)


def _look_on(
    rest: Rest,
    site: Site,
    choice: PolicyChoice,
    models: Mapping[str, Any],
    log: Log,
    share: int | None,
    wake: str | None,
    folder: str | None,
    *,
    anonymous: bool,
    writes: bool,
) -> int:
    """Say what would be done until a signal."""
    from cosched_plugin.slurm.actuator import Commands
    from cosched_plugin.slurm.cluster import Cluster
    from cosched_plugin.slurm.loop import begun, run, welcome_of
    from cosched_plugin.slurm.observing import JobLog, Onlooker

    poller = begun(rest, WAIT_S, log)
    shared = share or site.share or _share(site.partitions, choice.settings)
    cluster = Cluster(poller.nodes, site, shared, getattr(choice.make(), "ignored", frozenset()), onlooker=True)
    choice.scheduler(welcome_of(cluster, site), models=models)
    record = None if folder is None else JobLog(folder, cluster, list(poller.jobs), anonymous=anonymous)
    onlooker = Onlooker(
        poller, cluster, lambda welcome, sink: choice.scheduler(welcome, trace=sink, models=models), log, say, record,
        Commands(None) if writes else None,
    )  # fmt: skip
    names = ", ".join(site.partitions)
    log("looking-on", f"{choice.name} looks at {len(cluster.names)} nodes of {names}", api=rest.version)
    try:
        return run(onlooker, log, wake)
    finally:
        if record is not None:
            record.close()
            log(
                "logged",
                f"{folder}: {record.written} jobs that have ended; {record.running} still run, and are not in it",
            )


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
    from cosched_plugin.common.slurm_notation import WAITING
    from cosched_plugin.site.driver import Unsettled
    from cosched_plugin.slurm.loop import begun

    rest = _rest(rest_address, "")
    site = _site(site_file, partitions)
    jobs = begun(rest, WAIT_S, Log("cosched-plugin")).jobs
    failed = 0
    for job in jobs:
        if job.state not in WAITING or job.held == "admin" or not site.is_ours(job):
            continue
        label = str(job.array_id if job.array_id and job.task is None else job.job_id)
        body: dict[str, object] = {"hold": False}
        if job.restarts and job.required:  # pinned to the nodes that it had: Slurm would wait for them
            body["nodelist"] = ""
        elif not job.held:
            continue
        outcome = None if dry_run else rest.change(label, body)
        words = outcome.reason if isinstance(outcome, Unsettled) else outcome
        failed += words is not None
        say(f"job {label}: {words or ('would be released' if dry_run else 'released')}")
    if failed:
        raise click.ClickException(f"{failed} jobs could not be released")


def open_store(state: str, names: Sequence[str], log: Log) -> Any:
    """Return the store; a fresh one, beside the old, where that is about other nodes."""
    from cosched_plugin.site.store import Store

    if why := open_folder(state):
        log("open-folder", why, level=WARNING)
    key = f"nodes {','.join(names)}"  # the first number is theirs: the books count nodes in this order
    store = Store(state)
    if store.number(key) != 1:
        store.close()
        os.replace(state, f"{state}.old")
        for suffix in ("-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.remove(state + suffix)
        log("other-nodes", f"{state} is about other nodes, and is now {state}.old: notes and wakes in it are lost")
        store = Store(state)
        store.number(key)
    return store


def default_state() -> str:
    """Return where the state is kept where nothing else is said."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(home, "cosched", "slurm.sqlite")


def _rest(address: str, version: str) -> Rest:
    from cosched_plugin.slurm.rest import Rest, UnixTransport

    scheme, _, path = address.partition(":")
    if scheme != "unix" or not path:
        raise UsageError(f"--rest {address}: expected unix:PATH, the socket of slurmrestd")
    return Rest(UnixTransport(path), version)


def _site(file: str | None, partitions: Sequence[str]) -> Site:
    from cosched_plugin.slurm.site_file import read_site

    site = read_site(file)
    if partitions:
        site = site._replace(partitions=tuple(partitions))
    if not site.partitions:
        raise UsageError("whose jobs are cosched's? expected --partition NAME, or [ours] partitions in the site file")
    return site


def _partition(name: str) -> str:
    """Return what scontrol shows of a partition; empty where it shows nothing."""
    import subprocess

    try:
        done = subprocess.run(
            ["scontrol", "-o", "show", "partition", name],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=WAIT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _share(partitions: Sequence[str], settings: Mapping[str, Any]) -> int:
    """Return how many jobs may be on a core: two, where the policy pairs jobs and every partition lets it."""
    pairs = settings.get("matching", "none") not in ("none", {"name": "none"})
    return 2 if pairs and all("OverSubscribe=FORCE:" in _partition(name) for name in partitions) else 1
