"""The commands of cosched-plugin, but for `slurm`, and the options that several of them have."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from functools import partial
from typing import Final

import click

from cosched_plugin.common.errors import UsageError
from cosched_plugin.protocol.endpoint import SCHEDULER_SOCKET, usual_endpoint
from cosched_terminal.commands import Values, argument, command, option
from cosched_terminal.console import Log, say

POLICIES: Final = Values("cosched_plugin.listing:policies_begun", "file")
SETTINGS: Final = Values("cosched_plugin.listing:settings_begun")
POLICY: Final = option(
    "--policy",
    "A preset, a FILE.toml with a [policy] table, an installed policy, or MODULE:CLASS.",
    default="easy",
    shell_complete=POLICIES,
)
SET: Final = option(
    "--set KEY=VALUE",
    "Change one setting of the policy, such as placement.threshold=1.25; may be repeated.",
    shell_complete=SETTINGS,
)
TRACE: Final = option("--trace FILE", "Write a decision trace there: a new file of JSON lines.")
SET_ASIDE: Final = option(
    "--set-aside", "If the policy fails on a job, continue without that job and name it, instead of ending."
)
METRICS: Final = option("--metrics HOST:PORT", "Serve /metrics for Prometheus there (loopback only).")
LOG_JSON: Final = option("--log-json", "Log as JSON lines on standard error.")
QUIET: Final = option("--quiet", "Log only warnings and errors.")
CONTENTION: Final = option(
    "--contention MODULE:CLASS", "A contention model that the manager, or the site file, may name; may be repeated."
)


_SERVE_TITLES: Final = {
    "The manager": "endpoint wait_s silence_s standby own_secret manager_public",
    "Log, trace and metrics": "trace_file status_endpoint metrics_address log_json quiet",
}


# Over 50 lines: one parameter for each option, passed on.
@command(titles=_SERVE_TITLES)
def serve(
    endpoint: str | None = option(
        "--connect ENDPOINT",
        "The manager's endpoint: ipc:// or tcp://; beyond this machine only with keys.  "
        "[default: ipc:///run/cosched/scheduler.sock, if that folder is there]",
    ),
    policy: str = POLICY,
    assignments: tuple[str, ...] = SET,
    models: tuple[str, ...] = CONTENTION,
    wait_s: float = option(
        "--wait", "Seconds to wait for a manager, also for one that has gone.", click.FloatRange(min=0), 30.0
    ),
    silence_s: float = option(
        "--silence",
        "Seconds of silence before the manager is pinged, and then seconds to wait for its answer.",
        click.FloatRange(min=0.1),
        30.0,
    ),
    standby: bool = option("--standby", "Stand by while another scheduler decides; take over when it does not answer."),
    own_secret: str | None = option("--key FILE", "Own secret key. [env: COSCHED_KEY]", envvar="COSCHED_KEY"),
    manager_public: str | None = option(
        "--manager-key FILE", "The manager's public key. [env: COSCHED_MANAGER_KEY]", envvar="COSCHED_MANAGER_KEY"
    ),
    set_aside: bool = SET_ASIDE,
    trace_file: str | None = TRACE,
    status_endpoint: str | None = option(
        "--status ENDPOINT", "Answer `cosched-plugin status` there (ipc:// or loopback tcp://)."
    ),
    metrics_address: str | None = METRICS,
    log_json: bool = LOG_JSON,
    quiet: bool = QUIET,
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
            ignores=sorted(getattr(choice.make(), "ignored", ())),
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


# Over 50 lines: one parameter for each option, passed on.
@command()
def batsim(
    endpoint: str = option(
        "--bind ENDPOINT",
        "Where Batsim connects (its -s): tcp:// on this machine, or ipc://.",
        default="tcp://127.0.0.1:28000",
    ),
    policy: str = POLICY,
    assignments: tuple[str, ...] = SET,
    site_file: str | None = option(
        "--site FILE", "TOML: jobs on a host, capacities, beliefs, and what jobs ask of hosts."
    ),
    models: tuple[str, ...] = CONTENTION,
    decision_s: float = option(
        "--decision-time",
        "Seconds of Batsim's time that every decision takes.",
        click.FloatRange(min=0, max=86_400),
        0.0,
    ),
    wait_s: float = option("--wait", "Seconds to wait for a simulation to begin.", click.FloatRange(min=0), 60.0),
    silence_s: float = option(
        "--silence", "Seconds that Batsim may simulate without a message.", click.FloatRange(min=0.1), 600.0
    ),
    trace_file: str | None = TRACE,
    log_json: bool = LOG_JSON,
    quiet: bool = QUIET,
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
    from cosched_plugin.config import allow_models, believed_at, choose

    choice = choose(policy, assignments)
    allowed = allow_models(models)
    site = SiteFile() if site_file is None else read_site_file(site_file)
    believed_at(site_file, site.belief, allowed)
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


@command(prints="tables")
def status(
    endpoint: str = argument(),
    as_json: bool = option("--json", "Machine-readable output."),
    timeout_s: float = option("--timeout", "Seconds to wait for the answer.", click.FloatRange(min=0.1, max=3600), 5.0),
) -> None:
    """Show the status of the process that answers at ENDPOINT (serve --status).

    \b
    Example:
      cosched-plugin status ipc:///tmp/cosched-status.sock --json | jq .queue_length
    """
    from cosched_plugin.common.status import status_lines
    from cosched_plugin.status_server import ask_status

    answer = ask_status(endpoint, timeout_s)
    say(json.dumps(answer, indent=2) if as_json else "\n".join(status_lines(answer)))


@command(prints="tables")
def policies(as_json: bool = option("--json", "Machine-readable output.")) -> None:
    """List the presets and the parts of policies.

    \b
    Example:
      cosched-plugin policies --json | jq '.presets[].name'
    """
    from cosched_plugin.listing import catalogue, catalogue_lines

    found = catalogue()
    say(json.dumps(found, indent=2) if as_json else "\n".join(catalogue_lines(found)))


@command(prints="text")
def check(
    policy: str = argument(shell_complete=POLICIES),
    assignments: tuple[str, ...] = SET,
    models: tuple[str, ...] = CONTENTION,
    seed: int = option("--seed", "Seed of the random jobs.", default=1),
    runs: int = option("--runs", "Random workloads to try.", click.IntRange(min=1), 20),
    deadline_s: float = option(
        "--deadline --decision-timeout S",
        "Seconds that the policy may take for an answer; the error names its line.",
        click.FloatRange(min=0.1),
        60.0,
    ),
    batches: str | None = option(
        "--replay", "Answer the batches of another check, from the file that it wrote.", hidden=True
    ),
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
