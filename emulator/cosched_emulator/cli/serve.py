"""The command ``serve``: a manager in virtual time, or with a running clock."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from cosched_emulator.batsim.conversions import errors_name, faults_of
from cosched_emulator.cli.reporting import report, warn
from cosched_emulator.cli.scenario_options import overrides
from cosched_emulator.errors import ConfigurationError, InputError
from cosched_emulator.results.files.run_files import RunFiles
from cosched_emulator.results.files.run_folder import check_run_folder
from cosched_emulator.run.coupling import record_answers
from cosched_emulator.run.prepare import Prepared, prepare
from cosched_emulator.run.remote import remote_link
from cosched_emulator.run.run import open_accounts, run, store
from cosched_emulator.scenario.reader import read_scenario
from cosched_emulator.scenario.rules import SOURCES
from cosched_emulator.scenario.schema import Scenario
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.common.curve import Keyring
from cosched_plugin.protocol.endpoint import SCHEDULER_SOCKET, usual_endpoint
from cosched_terminal.console import WARNING, Log, progress_bar

if TYPE_CHECKING:
    from cosched_emulator.accounting.accounts import Accounting
    from cosched_emulator.accounting.chain import Reached
    from cosched_emulator.live.serving import Serving

LONGEST_S: Final = 1e10  # three hundred years
UNUSUAL: Final = ("takeover",)  # events that get a log line in a short run


# Over 50 lines: one argument for each option
def serve(
    scenario_file: str | None,
    endpoint: str | None,
    clock: str | None,
    speed: float | None,
    users: str | None,
    keys: str | None,
    operators: tuple[str, ...],
    faults: str | None,
    until: float | None,
    check: bool,
    metrics: str | None,
    estimate_starts: bool,
    copied: tuple[str, ...],
    log_json: bool,
    wait: float | None,
    db: str | None,
    standby: bool,
    accept_loss: bool,
    compact: bool,
    archive: str | None,
    keep: float | None,
    out: str | None,
    force: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Run the manager for a scheduler in another terminal."""
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
    live_options = {
        "--users": users,
        "--until": until,
        "--check": check,
        "--metrics": metrics,
        "--operator": operators,
        "--estimate-starts": estimate_starts,
        "--standby": standby,
        "--accept-loss": accept_loss,
        "--compact": compact,
        "--archive": archive,
        "--keep": keep is not None,
    }
    _check_options(scenario, live_options, {"--wait": wait is not None, "--json": as_json})
    if estimate_starts and users is None:
        raise click.UsageError("--estimate-starts needs --users, who ask for them")
    if copied and not estimate_starts:
        raise click.UsageError("--copy-policy needs --estimate-starts")
    present = {"--accept-loss": accept_loss, "--compact": compact, "--archive": archive is not None}
    needs_db = next((name for name, given in {"--standby": standby, **present}.items() if given), None)
    if db is None and needs_db is not None:
        raise click.UsageError(f"{needs_db} needs --db")
    needs_file = next((name for name, given in present.items() if given), None)
    if db is not None and needs_file is not None and not os.path.lexists(db):
        raise InputError(db, f"the database of {needs_file}", "no file")
    if keep is not None and archive is None:
        raise click.UsageError("--keep needs --archive")
    if archive is not None and out is not None:
        raise click.UsageError("--archive does not go with --out: a run folder is of all jobs")
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
        until,
        check,
        estimate_starts,
        compact or archive is not None,
        None if archive is None else Archive(archive, round((keep or 0.0) * SECOND_US)),
        copied,
    )
    serve_live(prepared, serving, db, log, out, force=force, standby=standby, accept_loss=accept_loss)


def _check_seconds(seconds: float | None, option: str) -> None:
    if seconds is not None and not seconds <= LONGEST_S:  # nan is not
        text = f"expected a number of seconds from 0 to {LONGEST_S:g}, got {seconds}"
        raise click.BadParameter(text, param_hint=option)


def _read_scenario(scenario_file: str | None, table: dict[str, Any], faults: str | None) -> Scenario:
    """Return the scenario of a manager; refuse one with a policy."""
    scenario = read_scenario(scenario_file, table)
    if faults is not None:
        scenario = replace(scenario, faults=faults_of(faults))
    if scenario.policy:
        raise ConfigurationError(
            "policy", "no policy: the scheduler that connects brings its own", "one", file=scenario_file or ""
        )
    return scenario


def _check_options(scenario: Scenario, live: Mapping[str, object], virtual: Mapping[str, bool]) -> None:
    """Raise UsageError for options that do not apply to the kind of clock, and if there is neither a workload nor users."""
    if scenario.clock.mode == "virtual":
        for name, value in live.items():
            if value:
                raise click.UsageError(f"{name} needs a running clock: --clock scaled or --clock real")
        return
    for name, value in virtual.items():
        if value:
            raise click.UsageError(
                f"{name} needs virtual time: with a running clock, serve waits for no scheduler and prints no summary"
            )
    if live["--users"] is None and all(getattr(scenario.workload, key) is None for key in SOURCES):
        raise click.UsageError("expected a workload, or --users, with which users submit jobs; got neither")


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

    def note(word: str, text: str) -> None:
        if word in UNUSUAL:
            log(word, text)

    for warning in prepared.workload.warnings:
        warn(warning)
    link = remote_link(prepared, endpoint, keys, note)
    with nullcontext() if out is None else RunFiles(out, prepared.nodes) as files:
        try:
            with (
                record_answers(link, db, prepared, lambda: link.policy, warn) as (coupled, accounting),
                progress_bar(len(prepared.workload.jobs)) as progress,
            ):
                finished = run(prepared, coupled, progress, accounting, files)
            recorded = "" if accounting is None else accounting.meta.get("policy", "")
            policy = link.policy or recorded
        finally:
            link.close()
        if out is not None:
            store(finished, out, policy={"name": policy}, link="zmq", force=force, files=files, began=began)
    report(finished, policy, began, out, as_json=as_json)


# Over 50 lines: what it opens, one after the other
def serve_live(
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
    from cosched_emulator.live import serving as live
    from cosched_emulator.live.journal_compaction import check_whole_run
    from cosched_emulator.live.lease import await_turn
    from cosched_emulator.live.saved_state import StateReader
    from cosched_emulator.results.files.from_accounts import export_run

    states = StateReader()
    begin = _from_the_first_step if serving.anew else states.reached
    bar = progress_bar(len(prepared.workload.jobs) if serving.users is None else 0)
    with ExitStack() as closing:

        def accept(what: str) -> None:
            log("loss-accepted", what, level=WARNING)

        def enter() -> Accounting:
            return closing.enter_context(open_accounts(db, prepared, live.LIVE, accept if accept_loss else None, begin))

        accounting = await_turn(enter, db, log) if standby and db is not None else enter()
        if isinstance(accounting, int):
            sys.exit(128 + accounting)
        if out is not None:
            check_whole_run(prepared, accounting)
        with bar as progress:
            code, unfinished = live.serve_live(prepared, accounting, serving, log, progress, states.take())
        if out is not None:
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
                unfinished=unfinished,
                quantum_us=prepared.quantum_us,
                power=prepared.power,
            )
    if code:
        sys.exit(code)


def _from_the_first_step(_database: str) -> Reached | None:
    return None
