"""The commands of cosched-plugin, but for `slurm`: their options, and what they do.

Each imports its modules when it runs: ``--help`` must not load numpy, zmq and the policies.
"""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from functools import partial

import click

from cosched_plugin.cli.options import CONTENTION, LOG_JSON, POLICY, QUIET, SET, SET_ASIDE, TRACE, seconds
from cosched_plugin.common.errors import UsageError
from cosched_plugin.protocol.endpoint import SCHEDULER_SOCKET, usual_endpoint
from cosched_terminal.console import Log, say


# Over 50 lines: one argument for each option, passed on.
@click.command()
@click.option(
    "--connect",
    "endpoint",
    metavar="ENDPOINT",
    help="The manager's endpoint: ipc:// or tcp://; beyond this machine only with keys.  "
    "[default: ipc:///run/cosched/scheduler.sock, if that folder is there]",
)
@POLICY
@SET
@CONTENTION
@seconds("--wait", "wait_s", 30.0, "Seconds to wait for a manager, also for one that has gone.")
@seconds(
    "--silence",
    "silence_s",
    30.0,
    "Seconds of silence before the manager is pinged, and then seconds to wait for its answer.",
    least=0.1,
)
@click.option("--standby", is_flag=True, help="Wait while another scheduler is served; take over when it falls silent.")
@click.option("--key", "own_secret", envvar="COSCHED_KEY", metavar="FILE", help="Own secret key. [env: COSCHED_KEY]")
@click.option(
    "--manager-key",
    "manager_public",
    envvar="COSCHED_MANAGER_KEY",
    metavar="FILE",
    help="The manager's public key. [env: COSCHED_MANAGER_KEY]",
)
@SET_ASIDE
@TRACE
@click.option(
    "--status",
    "status_endpoint",
    metavar="ENDPOINT",
    help="Answer `cosched-plugin status` there (ipc:// or loopback tcp://).",
)
@click.option(
    "--metrics", "metrics_address", metavar="HOST:PORT", help="Serve /metrics for Prometheus there (loopback only)."
)
@LOG_JSON
@QUIET
def serve(
    endpoint: str | None,
    policy: str,
    assignments: tuple[str, ...],
    models: tuple[str, ...],
    wait_s: float,
    silence_s: float,
    standby: bool,
    set_aside: bool,
    own_secret: str | None,
    manager_public: str | None,
    trace_file: str | None,
    status_endpoint: str | None,
    metrics_address: str | None,
    log_json: bool,
    quiet: bool,
) -> None:
    """Serve one manager until it says goodbye; continue after its restarts.

    \b
    Example, in two terminals:
      cosched-emulator serve scenario.toml --bind ipc:///tmp/cosched.sock
      cosched-plugin serve --connect ipc:///tmp/cosched.sock --policy rua
    """
    from cosched_plugin.common.trace_file import TraceFile
    from cosched_plugin.config import allow_models, choose
    from cosched_plugin.server import Keys
    from cosched_plugin.server import serve as run_server

    endpoint = endpoint or usual_endpoint(SCHEDULER_SOCKET)
    if not endpoint:
        raise click.MissingParameter(param_hint="'--connect'", param_type="option")
    choice = choose(policy, assignments)
    allowed = allow_models(models)
    keys = None
    if own_secret or manager_public:
        if not own_secret or not manager_public:
            raise UsageError("--key and --manager-key: expected both or none")
        keys = Keys(own_secret, manager_public)
    with ExitStack() as open_files:
        trace = None if trace_file is None else open_files.enter_context(TraceFile(trace_file)).write
        scheduler = partial(choice.scheduler, trace=trace, models=allowed)
        code = run_server(
            endpoint,
            scheduler,
            policy_name=choice.name,
            policy_arguments=choice.check_arguments(),
            wait_s=wait_s,
            silence_s=silence_s,
            log=Log("cosched-plugin", as_json=log_json, quiet=quiet),
            standby=standby,
            set_aside=set_aside,
            keys=keys,
            status_endpoint=status_endpoint,
            metrics_address=metrics_address,
        )
    if code:
        sys.exit(code)


# Over 50 lines: one argument for each option, passed on.
@click.command()
@click.option(
    "--bind",
    "endpoint",
    default="tcp://127.0.0.1:28000",
    show_default=True,
    metavar="ENDPOINT",
    help="Where Batsim connects (its -s): tcp:// on this machine, or ipc://.",
)
@POLICY
@SET
@click.option(
    "--site", "site_file", metavar="FILE", help="TOML: jobs on a host, capacities, beliefs, and what jobs ask of hosts."
)
@CONTENTION
@seconds("--decision-time", "decision_s", 0.0, "Seconds of Batsim's time that every decision takes.", most=86_400)
@seconds("--wait", "wait_s", 60.0, "Seconds to wait for a simulation to begin.")
@seconds("--silence", "silence_s", 600.0, "Seconds that Batsim may simulate without a message.", least=0.1)
@TRACE
@LOG_JSON
@QUIET
def batsim(
    endpoint: str,
    policy: str,
    assignments: tuple[str, ...],
    site_file: str | None,
    models: tuple[str, ...],
    decision_s: float,
    wait_s: float,
    silence_s: float,
    trace_file: str | None,
    log_json: bool,
    quiet: bool,
) -> None:
    """Decide for one simulation of Batsim 4 (JSON), and end with it.

    \b
    Example, in two terminals:
      cosched-plugin batsim --policy easy
      batsim -p platform.xml -w workload.json -s tcp://127.0.0.1:28000 -e out
    """
    from cosched_plugin.batsim.adapter import Decisions, features_of
    from cosched_plugin.batsim.serve import serve as run_server
    from cosched_plugin.batsim.site import SiteFile, read_site_file
    from cosched_plugin.common.trace_file import TraceFile
    from cosched_plugin.config import allow_models, choose

    choice = choose(policy, assignments)
    allowed = allow_models(models)
    site = SiteFile() if site_file is None else read_site_file(site_file)
    features = features_of(choice.make())
    log = Log("cosched-plugin", as_json=log_json, quiet=quiet)
    with ExitStack() as open_files:
        trace = None if trace_file is None else open_files.enter_context(TraceFile(trace_file)).write
        make = partial(choice.scheduler, trace=trace, models=allowed)
        code = run_server(
            endpoint,
            lambda: Decisions(make, features, site, round(decision_s * 1_000_000), log),
            wait_s=wait_s,
            silence_s=silence_s,
            log=log,
        )
    if code:
        sys.exit(code)


@click.command()
@click.argument("endpoint")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@seconds("--timeout", "timeout_s", 5.0, "Seconds to wait for the answer.", least=0.1, most=3600)
def status(endpoint: str, as_json: bool, timeout_s: float) -> None:
    """Show the status of the process that answers at ENDPOINT (serve --status).

    \b
    Example:
      cosched-plugin status ipc:///tmp/cosched-status.sock --json | jq .queue_length
    """
    from cosched_plugin.common.status import status_lines
    from cosched_plugin.status_server import ask_status

    answer = ask_status(endpoint, timeout_s)
    say(json.dumps(answer, indent=2) if as_json else "\n".join(status_lines(answer)))


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def policies(as_json: bool) -> None:
    """List the presets and the parts of policies.

    \b
    Example:
      cosched-plugin policies --json | jq '.presets[].name'
    """
    from cosched_plugin.listing import catalogue, catalogue_lines

    found = catalogue()
    say(json.dumps(found, indent=2) if as_json else "\n".join(catalogue_lines(found)))


@click.command()
@click.argument("policy")
@SET
@CONTENTION
@click.option("--seed", default=1, show_default=True, help="Seed of the random jobs.")
@click.option("--runs", default=20, show_default=True, type=click.IntRange(min=1), help="Random workloads to try.")
@seconds("--deadline", "deadline_s", 60.0, "Seconds that the policy may take for an answer.", least=0.1)
@click.option(
    "--replay", "batches", hidden=True, help="Answer the batches of another check, from the file that it wrote."
)
def check(
    policy: str,
    assignments: tuple[str, ...],
    models: tuple[str, ...],
    seed: int,
    runs: int,
    deadline_s: float,
    batches: str | None,
) -> None:
    """Run the conformance check on POLICY: invariants, fixpoint, restart at every batch, faults, another process.

    \b
    Example:
      cosched-plugin check mysite.policies:Greedy --set depth=3
    """
    from cosched_plugin.config import allow_models, choose
    from cosched_plugin.testing.check import check_policy
    from cosched_plugin.testing.recording import Clocks, replay

    clocks = None if batches is None else Clocks()  # checked before the policy is imported
    choice = choose(policy, assignments)
    allowed = allow_models(models)
    if batches is not None and clocks is not None:
        replay(batches, choice.make, allowed, clocks)
        return
    arguments = [argument for name in models for argument in ("--contention", name)]
    report = check_policy(
        choice.make,
        seed=seed,
        runs=runs,
        models={name: allowed[name] for name in models},
        arguments=[*choice.check_arguments(), *arguments],
        deadline_s=deadline_s,
    )
    say(f"{choice.name}: {report}")
