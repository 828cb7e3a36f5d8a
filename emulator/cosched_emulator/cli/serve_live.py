"""The command ``serve`` with a running clock: a live manager, and its run folder at the end."""

from __future__ import annotations

import sys
from contextlib import ExitStack

from cosched_emulator.accounting.accounts import Accounting
from cosched_emulator.accounting.chain import Reached
from cosched_emulator.live import serving as live
from cosched_emulator.live.journal_compaction import check_whole_run
from cosched_emulator.live.lease import await_turn
from cosched_emulator.live.saved_state import StateReader
from cosched_emulator.live.serving import LIVE, Serving
from cosched_emulator.results.files.from_accounts import export_run
from cosched_emulator.run.prepare import Prepared
from cosched_emulator.run.run import open_accounts
from cosched_terminal.console import WARNING, Log, progress_bar


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
    states = StateReader()
    begin = _from_the_first_step if serving.anew else states.reached
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
