"""The command ``serve``: a manager in virtual time, or with a running clock."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from cosched_emulator import offered
from cosched_emulator.cli.scenario_options import A_FILE, DB, FAULTS, SCENARIO, overrides, sets
from cosched_emulator.errors import ConfigurationError, InputError
from cosched_hwmodel.errors import Unwanted
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.protocol.endpoint import SCHEDULER_SOCKET, usual_endpoint
from cosched_terminal.commands import argument, command, given_options, option
from cosched_terminal.console import WARNING, Log, progress_bar, warn

if TYPE_CHECKING:
    from cosched_emulator.accounting.accounts import Accounting
    from cosched_emulator.accounting.chain import Reached
    from cosched_emulator.live.serving import Serving
    from cosched_emulator.run.prepare import Prepared
    from cosched_emulator.scenario.schema import Scenario
    from cosched_plugin.common.curve import Keyring

LONGEST_S: Final = 1e10  # three hundred years
LIVE_ONLY: Final = (
    "--users", "--until", "--check", "--metrics", "--web", "--operator", "--estimate-starts", "--standby", "--accept-loss", "--compact",
    "--archive", "--keep",
)  # fmt: skip
VIRTUAL_ONLY: Final = ("--wait", "--json")
NEEDS: Final = {  # option -> the one that must be there, and why
    "--estimate-starts": ("--users", ", who ask for them"), "--copy-policy": ("--estimate-starts", ""), "--standby": ("--db", ""),
    "--accept-loss": ("--db", ""), "--compact": ("--db", ""), "--archive": ("--db", ""), "--keep": ("--archive", ""),
}  # fmt: skip
UNUSUAL: Final = ("takeover",)  # events that get a log line in a short run


_TITLES: Final = {
    "The scheduler, and users": "endpoint users keys operators wait estimate_starts copied",
    "Accounts": "db standby accept_loss compact archive keep",
    "Results, log and metrics": "out force as_json metrics web log_json",
}


# Over 50 lines: one parameter for each option.
@command(titles=_TITLES)
def serve(
    scenario_file: str | None = argument("[SCENARIO.toml]", click.Path()),
    endpoint: str | None = option(
        "--bind ENDPOINT",
        "Where to listen for the scheduler (ipc://, or tcp://: beyond loopback with --keys only).  "
        "[default: ipc:///run/cosched/scheduler.sock, if that folder can be written to]",
    ),
    options: dict[str, Any] = SCENARIO,
    clock: str | None = sets(
        "clock.mode", "--clock", f"How time passes.  [default: {offered.CLOCK_MODE}]", offered.CLOCK_MODES
    ),
    speed: float | None = sets("clock.speed", "--speed N", "Scaled clock: emulated seconds per second.", float),
    users: str | None = option("--users ENDPOINT", "Live: where to listen for users (ipc://, or tcp:// with --keys)."),
    db: str | None = DB,
    standby: bool = option(
        "--standby", "Live, with --db: while another manager has FILE, stand by, and take over when it ends or hangs."
    ),
    accept_loss: bool = option(
        "--accept-loss", "Live, with --db: if FILE is damaged, put it aside, and continue from the intact part."
    ),
    compact: bool = option(
        "--compact",
        "Live, with --db: first replace the journal in FILE by the jobs that have not ended; the accounts of ended jobs stay.",
    ),
    archive: str | None = option(
        "--archive FILE",
        "Like --compact, but move the accounts of ended jobs to this FILE, with the same tables.",
        A_FILE,
    ),
    keep: float | None = option(
        "--keep S",
        "With --archive: leave jobs that ended in the last S emulated seconds.  [default: 0]",
        click.FloatRange(min=0),
    ),
    keys: str | None = option("--keys FOLDER", "Keyring of this manager and of its peers.", A_FILE),
    operators: tuple[str, ...] = option("--operator USER", "User with all rights; may be repeated."),
    faults: str | None = FAULTS,
    until: float | None = option("--until S", "Live: end after S emulated seconds.", click.FloatRange(min=0)),
    check: bool = option("--check", "Live: check all invariants after every step."),
    metrics: str | None = option("--metrics HOST:PORT", "Live: serve Prometheus there (loopback only)."),
    web: str | None = option(
        "--web HOST:PORT", "Live: serve web pages there; beyond loopback with --users and --keys only."
    ),
    estimate_starts: bool = option(
        "--estimate-starts",
        "Live, with --users: estimate in another process when pending jobs start (queue --start, why).",
    ),
    copied: tuple[str, ...] = option(
        "--copy-policy MODULE:CLASS", "Policy or part that --estimate-starts may import; may be repeated."
    ),
    log_json: bool = option("--log-json", "Log as JSON lines on standard error."),
    wait: float | None = sets(
        "clock.wait_s",
        "--wait S",
        f"Virtual: seconds to wait for a scheduler.  [default: {offered.WAIT_S:g}]",
        click.FloatRange(min=0),
    ),
    out: str | None = option("--out DIR", "Write the run folder there at the end.", click.Path()),
    force: bool = option("--force", "Replace an older run folder."),
    as_json: bool = option("--json", "Print the summary as JSON."),
) -> None:
    """Run the manager for a scheduler in another terminal.

    In virtual time: wait for the scheduler, run the scenario, exit. Live (clock scaled or real): emulate the jobs of the scenario
    and of users until a signal; jobs stay pending while there is no scheduler.

    \b
    Examples, in two terminals:
      cosched-emulator serve scenario.toml --bind ipc:///tmp/cosched.sock --out runs/rua
      cosched-plugin serve --connect ipc:///tmp/cosched.sock --policy rua
    and a live manager for users:
      cosched-emulator serve --nodes 16 --clock scaled --speed 100 --bind ipc:///tmp/cosched.sock \\
          --users ipc:///tmp/cosched-users.sock --db cluster.db
    """
    from cosched_emulator.batsim.run import errors_name
    from cosched_emulator.results.files.run_folder import check_run_folder
    from cosched_emulator.run.prepare import prepare
    from cosched_plugin.common.curve import Keyring

    began = time.perf_counter()
    endpoint = endpoint or usual_endpoint(SCHEDULER_SOCKET, listens=True)
    if not endpoint:
        raise click.MissingParameter(param_hint="'--bind'", param_type="option")
    table = overrides({**options, "clock": clock, "speed": speed, "wait": wait})
    _check_seconds(until, "--until")
    _check_seconds(keep, "--keep")
    scenario = _read_scenario(scenario_file, table, faults)
    if out is not None:
        check_run_folder(out, force=force)
    _check_options(scenario, given_options())
    if db is not None and (accept_loss or compact or archive is not None) and not os.path.lexists(db):
        needed = "--accept-loss" if accept_loss else "--compact" if compact else "--archive"
        raise InputError(db, f"the database of {needed}", "no file")
    if archive is not None and out is not None:
        raise click.UsageError("--archive and --out exclude each other: a run folder has all jobs")
    with errors_name(faults):
        prepared = prepare(scenario)
    keyring = None if keys is None else Keyring(keys)
    log = Log("cosched-emulator", as_json=log_json)
    if scenario.clock.mode == "virtual":
        _serve_virtual(prepared, endpoint, keyring, db, log, out, began, force=force, as_json=as_json)
        return
    from cosched_emulator.accounting.archive import Archive
    from cosched_emulator.live.serving import Serving

    serving = Serving(
        endpoint,
        users,
        keyring,
        frozenset(operators),
        metrics,
        web,
        until,
        check,
        estimate_starts,
        compact or archive is not None,
        None if archive is None else Archive(archive, round((keep or 0.0) * SECOND_US)),
        copied,
    )
    _serve_running(prepared, serving, db, log, out, force=force, standby=standby, accept_loss=accept_loss)


def _check_seconds(seconds: float | None, option: str) -> None:
    if seconds is not None and not seconds <= LONGEST_S:  # nan is not
        text = f"expected a number of seconds from 0 to {LONGEST_S:g}, got {seconds}"
        raise click.BadParameter(text, param_hint=option)


def _read_scenario(scenario_file: str | None, table: dict[str, Any], faults: str | None) -> Scenario:
    """Return the scenario of a manager; refuse one with a policy."""
    from cosched_emulator.batsim.run import faults_of
    from cosched_emulator.scenario.reader import read_scenario

    scenario = read_scenario(scenario_file, table)
    if faults is not None:
        scenario = replace(scenario, faults=faults_of(faults))
    if scenario.policy:
        raise ConfigurationError(
            "policy", Unwanted("the scheduler that connects brings its own"), file=scenario_file or ""
        )
    return scenario


def _check_options(scenario: Scenario, given: Sequence[str]) -> None:
    """Raise UsageError for options that lack another or the right clock, and if there is neither a workload nor users."""
    from cosched_emulator.needs import source_of

    if scenario.clock.mode == "virtual":
        for name in LIVE_ONLY:
            if name in given:
                raise click.UsageError(f"{name} needs --clock scaled or --clock real")
    else:
        for name in VIRTUAL_ONLY:
            if name in given:
                raise click.UsageError(
                    f"{name} needs virtual time: live, serve waits for no scheduler and prints no summary"
                )
        if "--users" not in given and source_of(scenario) is None:
            raise click.UsageError("expected a workload, or --users, with which users submit jobs; got neither")
    for name, (needed, more) in NEEDS.items():
        if name in given and needed not in given:
            raise click.UsageError(f"{name} needs {needed}{more}")


def _serve_virtual(
    prepared: Prepared,
    endpoint: str,
    keys: Keyring | None,
    db: str | None,
    log: Log,
    out: str | None,
    began: float,
    *,
    force: bool,
    as_json: bool,
) -> None:
    """Run the scenario with the scheduler that connects, and print the results; reading began at ``began``."""
    from cosched_emulator.cli.reporting import report
    from cosched_emulator.results.files.run_files import RunFiles
    from cosched_emulator.run.coupling import accounts_of, recorded_link
    from cosched_emulator.run.remote import remote_link
    from cosched_emulator.run.run import run, store

    def note(word: str, text: str) -> None:
        if word in UNUSUAL:
            log(word, text)

    for warning in prepared.workload.warnings:
        warn(warning)
    link = remote_link(prepared, endpoint, keys, note)
    with nullcontext() if out is None else RunFiles(out, prepared.nodes) as files:
        try:
            with accounts_of(db, prepared) as accounting, progress_bar(len(prepared.workload.jobs)) as progress:
                coupled = recorded_link(link, accounting, prepared, lambda: link.policy, warn)
                finished = run(prepared, coupled, progress, accounting, files)
            recorded = "" if accounting is None else accounting.meta.get("policy", "")
            policy = link.policy or recorded
        finally:
            link.close()
        if out is not None:
            store(finished, out, policy={"name": policy}, link="zmq", force=force, files=files, began=began)
    report(finished, policy, began, out, as_json=as_json)


# Over 50 lines: what it opens, one after the other.
def _serve_running(
    prepared: Prepared,
    serving: Serving,
    db: str | None,
    log: Log,
    out: str | None,
    *,
    force: bool,
    standby: bool,
    accept_loss: bool,
) -> None:
    """Serve until the requested end, write the run folder, and exit with the code of a signal.

    ``standby``: while another manager has the database, wait to take over. ``accept_loss``: go on from what is whole of a damaged one.
    """
    from cosched_emulator.live.journal_compaction import check_whole_run
    from cosched_emulator.live.lease import await_turn
    from cosched_emulator.live.saved_state import StateReader
    from cosched_emulator.live.serving import LIVE, serve_live
    from cosched_emulator.run.from_accounts import export_run
    from cosched_emulator.run.run import open_accounts

    states = StateReader()
    begin: Callable[[str], Reached | None] = (lambda _database: None) if serving.anew else states.reached
    bar = progress_bar(len(prepared.workload.jobs) if serving.users is None else 0)
    with ExitStack() as closing:

        def accept(what: str) -> None:
            log("loss-accepted", what, level=WARNING)

        def enter() -> Accounting:
            return closing.enter_context(open_accounts(db, prepared, LIVE, accept if accept_loss else None, begin))

        accounting = await_turn(enter, db, log) if standby and db is not None else enter()
        if isinstance(accounting, int):
            sys.exit(128 + accounting)
        if out is not None:
            check_whole_run(prepared, accounting)
        with bar as progress:
            code, unfinished = serve_live(prepared, accounting, serving, log, progress, states.take())
        if out is not None:
            export_run(accounting, out, prepared, {"name": ""}, force=force, unfinished=unfinished)
    if code:
        sys.exit(code)
