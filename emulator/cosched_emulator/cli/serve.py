"""The command ``serve``: the manager as a process of its own, for a scheduler, and for users if time runs."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from cosched_emulator.cli.reporting import progress_bar, report
from cosched_emulator.cli.scenario_options import a_file, overrides, scenario_options
from cosched_emulator.errors import ConfigurationError

if TYPE_CHECKING:
    from cosched_emulator.live.serving import Serving
    from cosched_emulator.run.prepare import Prepared
    from cosched_plugin.common.log import Log


LONGEST_S: Final = 1e10  # three hundred years
UNUSUAL: Final = ("takeover",)  # what is worth a line in a run that is over soon


@click.command()
@click.argument("scenario_file", metavar="[SCENARIO.toml]", required=False, type=click.Path())
@click.option(
    "--bind",
    "endpoint",
    required=True,
    metavar="ENDPOINT",
    help="Where to listen for the scheduler (ipc://, or tcp://: beyond loopback with --keys only).",
)
@scenario_options
@click.option("--clock", type=click.Choice(["virtual", "scaled", "real"]), help="How time passes.  [default: virtual]")
@click.option("--speed", type=float, metavar="N", help="Scaled clock: emulated seconds a second.")
@click.option(
    "--users", metavar="ENDPOINT", help="Running clock: where to listen for users (ipc://, or tcp:// with --keys)."
)
@click.option("--db", callback=a_file, metavar="FILE", help="Keep accounts there, and go on from there after a crash.")
@click.option("--keys", callback=a_file, metavar="FOLDER", help="Keyring of this manager and of those who may connect.")
@click.option("--operator", "operators", multiple=True, metavar="USER", help="Who may do everything; may be repeated.")
@click.option("--faults", callback=a_file, metavar="FILE.toml", help="A fault plan, instead of the scenario's.")
@click.option("--until", type=click.FloatRange(min=0), metavar="S", help="Running clock: end after S emulated seconds.")
@click.option("--check", is_flag=True, help="Running clock: check all invariants after every step.")
@click.option("--metrics", metavar="HOST:PORT", help="Running clock: serve Prometheus there (loopback only).")
@click.option("--log-json", is_flag=True, help="What happens as JSON lines on standard error.")
@click.option(
    "--wait", type=click.FloatRange(min=0), metavar="S", help="Virtual: seconds to wait for a scheduler.  [default: 60]"
)
@click.option("--out", type=click.Path(), metavar="DIR", help="Write the run folder there when it is over.")
@click.option("--force", is_flag=True, help="Replace an older run folder.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def serve(
    scenario_file: str | None,
    endpoint: str,
    clock: str | None,
    speed: float | None,
    users: str | None,
    db: str | None,
    keys: str | None,
    operators: tuple[str, ...],
    faults: str | None,
    until: float | None,
    check: bool,
    metrics: str | None,
    log_json: bool,
    wait: float | None,
    out: str | None,
    force: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Be the manager for a scheduler in another terminal.

    In virtual time: wait for it, run the scenario, say goodbye. With a clock that runs: emulate the scenario's jobs, and those that
    users submit, until stopped; jobs wait while there is no scheduler.

    \b
    Examples, in two terminals:
      cosched-emulator serve scenario.toml --bind ipc:///tmp/cosched.sock --out runs/rua
      cosched-plugin serve --connect ipc:///tmp/cosched.sock --policy rua
    and a manager to live with:
      cosched-emulator serve --nodes 16 --clock scaled --speed 100 --bind ipc:///tmp/cosched.sock \\
          --users ipc:///tmp/cosched-users.sock --db cluster.db
    """
    from cosched_emulator.run.prepare import prepare  # noqa: PLC0415 - --help must not pay for these
    from cosched_emulator.scenario.reader import read_faults, read_scenario  # noqa: PLC0415
    from cosched_plugin.common.curve import Keyring  # noqa: PLC0415
    from cosched_plugin.common.log import Log  # noqa: PLC0415

    table = overrides(options)
    for key, value in (("wait_s", wait), ("mode", clock), ("speed", speed)):
        if value is not None:
            table.setdefault("clock", {})[key] = value
    if until is not None and not until <= LONGEST_S:  # nan is not
        raise click.BadParameter(
            f"expected a number of seconds from 0 to {LONGEST_S:g}, got {until}", param_hint="--until"
        )
    scenario = read_scenario(scenario_file, table)
    if faults is not None:
        scenario = replace(scenario, faults=read_faults(faults))
    if scenario.policy:
        raise ConfigurationError(
            "policy", "no policy: the scheduler that connects brings its own", "one", file=scenario_file or ""
        )
    if out is not None:
        from cosched_emulator.results.files.folder import check_run_folder  # noqa: PLC0415 - numpy

        check_run_folder(out, force=force)
    runs = scenario.clock.mode != "virtual"
    for name, given in (
        ("--users", users),
        ("--until", until),
        ("--check", check),
        ("--metrics", metrics),
        ("--operator", operators),
    ):
        if given and not runs:
            raise click.UsageError(f"{name} wants a clock that runs: --clock scaled or --clock real")
    for name, given in (("--wait", wait is not None), ("--json", as_json)):
        if given and runs:
            raise click.UsageError(
                f"{name} is for virtual time: a running clock waits for nobody, and ends without a summary"
            )
    if runs and users is None and scenario.workload.swf is None and scenario.workload.lublin is None:
        raise click.UsageError("there are no jobs, and nobody to submit any: give a workload, or --users")
    prepared = prepare(scenario)
    keyring = None if keys is None else Keyring(keys)
    log = Log("cosched-emulator", as_json=log_json)
    if not runs:
        _serve_virtual(prepared, endpoint, keyring, db, log, out, force=force, as_json=as_json)
        return
    from cosched_emulator.live.serving import Serving  # noqa: PLC0415

    serving = Serving(endpoint, users, keyring, frozenset(operators), metrics, until, check)
    _serve_live(prepared, serving, db, log, out, force=force)


def _serve_virtual(
    prepared: Prepared,
    endpoint: str,
    keys: Any,
    db: str | None,
    log: Log,
    out: str | None,
    *,
    force: bool,
    as_json: bool,
) -> None:
    from cosched_emulator.results.files.run_files import RunFiles  # noqa: PLC0415 - --help must not pay for these
    from cosched_emulator.run.coupling import record_answers  # noqa: PLC0415
    from cosched_emulator.run.remote import remote_link  # noqa: PLC0415
    from cosched_emulator.run.run import run  # noqa: PLC0415
    from cosched_emulator.run.store import store  # noqa: PLC0415

    def note(word: str, text: str) -> None:
        if word in UNUSUAL:
            log(word, text)

    link = remote_link(prepared, endpoint, keys, note)
    with nullcontext() if out is None else RunFiles(out, prepared.nodes) as files:
        try:
            with (
                record_answers(link, db, prepared, lambda: link.policy) as (coupled, accounting),
                progress_bar(len(prepared.workload.jobs)) as progress,
            ):
                finished = run(prepared, coupled, progress, accounting, files)
            recorded = "" if accounting is None else accounting.meta.get("policy", "")
            policy = link.policy or recorded
        finally:
            link.close()
        if out is not None:
            store(finished, out, policy={"name": policy}, link="zmq", force=force, files=files)
    report(finished, policy, as_json=as_json)


def _serve_live(
    prepared: Prepared, serving: Serving, db: str | None, log: Log, out: str | None, *, force: bool
) -> None:
    from cosched_emulator.live.serving import LIVE, serve_live  # noqa: PLC0415 - --help must not pay for these
    from cosched_emulator.run.accounts import open_accounts  # noqa: PLC0415

    bar = progress_bar(len(prepared.workload.jobs) if serving.users is None else 0)
    with open_accounts(db, prepared, LIVE) as accounting:
        with bar as progress:
            code = serve_live(prepared, accounting, serving, log, progress)
        if out is not None:
            from cosched_emulator.results.files.from_accounts import export_run  # noqa: PLC0415

            config = {**prepared.scenario.as_dict(), "policy": {"name": ""}}
            export_run(
                accounting,
                out,
                prepared.nodes,
                prepared.workload,
                resolved_config=config,
                timing={},
                seed=prepared.scenario.seed,
                force=force,
            )
    if code:
        sys.exit(code)
