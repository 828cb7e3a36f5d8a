"""Build a live manager from its scenario and its database, and serve until its end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Final, NamedTuple

from cosched_emulator.accounting.accounts import Accounting
from cosched_emulator.accounting.archive import Archive
from cosched_emulator.live.clock import LiveClock
from cosched_emulator.live.history import HistoryCheck
from cosched_emulator.live.journal import pass_time, restore
from cosched_emulator.live.journal_compaction import as_recorded, compact_journal
from cosched_emulator.live.lease import Lease, time_kept
from cosched_emulator.live.live_manager import LiveManager
from cosched_emulator.live.live_server import LiveServer
from cosched_emulator.live.saved_state import StateWriter, unpacked
from cosched_emulator.live.start_estimates import StartEstimates
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.run.build import build_agenda, build_manager
from cosched_emulator.run.prepare import Prepared
from cosched_emulator.run.remote import open_port
from cosched_emulator.users.door import Audit, UserDoor
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.common.curve import Keyring
from cosched_plugin.common.process import freeze_heap, return_large_blocks, stop_on_signals
from cosched_terminal.console import WARNING, Log
from cosched_terminal.own_file import open_folder

LIVE: Final = "live"


class Serving(NamedTuple):
    """The endpoints and options of a live manager; None: not served."""

    endpoint: str  # for the scheduler
    users: str | None = None  # endpoint for users
    keys: Keyring | None = None
    operators: frozenset[str] = frozenset()  # users with all rights, besides root and the user who runs the manager
    metrics: str | None = None  # HOST:PORT for Prometheus
    web: str | None = None  # likewise, pages for people; may be the same
    until_s: float | None = None  # emulated time
    check: bool = False
    estimates: bool = False  # estimate when pending jobs start; for users
    anew: bool = False  # the journal begins anew with what is alive
    archive: Archive | None = None  # likewise, and jobs that ended go there
    copied: tuple[str, ...] = ()  # policies and parts from outside (MODULE:CLASS) that may be imported for that


class Served(NamedTuple):
    """The result of a live manager: its exit code, and the jobs that have not ended."""

    code: int  # 0, or 128 + n after signal n
    unfinished: list[JobRecord]


# Over 50 lines: what it opens, one after the other.
def serve_live(
    prepared: Prepared,
    accounting: Accounting,
    serving: Serving,
    log: Log,
    progress: Callable[[int], None] | None = None,
    state: bytes = b"",
) -> Served:
    """Serve until the requested end.

    Without users it ends when all jobs of the workload have ended; with users it stays. If ``accounting`` has a journal, it resumes
    from there, with ``state`` where the accounts begin at a step.
    """
    return_large_blocks()
    faults = prepared.faults
    faults.check(live=True, child=False, remote=True, database=accounting.path is not None)
    live = restore_manager(prepared, accounting, log, state, anew=serving.anew, archive=serving.archive)
    clock = LiveClock(live.now_us, prepared.scenario.clock.speed or 1.0)
    if accounting.path is not None and (why := open_folder(accounting.path)):
        log("open-folder", why, level=WARNING)
    run = accounting.meta.get("run", "")
    with ExitStack() as closing:
        lease = None if accounting.path is None else closing.enter_context(Lease(accounting.path, run))
        history = None
        if accounting.begins is not None and accounting.flush():
            history = closing.enter_context(HistoryCheck(accounting, partial(new_manager, prepared)))
        port = open_port(prepared, serving.endpoint, keys=serving.keys, note=log)
        closing.callback(port.close)
        door = audit = None
        if serving.users is not None:
            audit = Audit(log)
            if serving.keys is not None:
                serving.keys.refused = audit.refused
            door = UserDoor(port.context, serving.users, keys=serving.keys, operators=serving.operators, audit=audit)
            closing.callback(door.close)
        estimates = None
        if serving.estimates:
            estimates = StartEstimates(live, accounting, lambda: port.policy_arguments, serving.copied)
            closing.callback(estimates.close)
        server = LiveServer(
            live,
            accounting,
            clock,
            port,
            door,
            log,
            faults=faults,
            until_us=None if serving.until_s is None else round(serving.until_s * SECOND_US),
            until_idle=serving.users is None,
            check=serving.check,
            progress=progress,
            estimates=estimates,
            lease=lease,
            audit=audit,
            saving=StateWriter(live, accounting, history),
        )
        _open_pages(serving, server, closing, log)
        server.begin()
        where = f"scheduler at {port.endpoint}" + ("" if door is None else f", users at {door.endpoint}")
        log("serving", f"serving: {where}", endpoint=port.endpoint, users="" if door is None else door.endpoint)
        with freeze_heap(), stop_on_signals(server.stop_on, log):
            server.run()
        return Served(128 + server.stop if server.stop else 0, live.manager.unfinished_records(live.now_us))


def _open_pages(serving: Serving, server: LiveServer, closing: ExitStack, log: Log) -> None:
    """Serve metrics and pages for people: by one server, where both have one address."""
    metrics = partial(server.status.prometheus, "cosched_manager")
    if serving.web is not None:
        from cosched_emulator.live.web import WebView  # noqa: PLC0415 - few have it

        both = serving.web == serving.metrics
        keys = None if serving.users is None else serving.keys  # the users' endpoint gives the tickets
        server.web = WebView(serving.web, keys, metrics if both else None)
        closing.callback(server.web.close)
        log("web", f"pages at http://{server.web.address}/", address=server.web.address)
    if serving.metrics is not None and serving.metrics != serving.web:
        from cosched_plugin.common.page_server import PageServer  # noqa: PLC0415 - few have it

        closing.callback(PageServer(serving.metrics, metrics).close)


def new_manager(prepared: Prepared, accounting: Accounting) -> LiveManager:
    """Return a live manager before its first step."""
    manager = build_manager(prepared, live=True)
    agenda = build_agenda(prepared, manager, live=True)
    return LiveManager(manager, agenda, len(prepared.workload.jobs) + 1, accounting.ended_state, accounting.tasks)


def restore_manager(
    prepared: Prepared,
    accounting: Accounting,
    log: Log,
    state: bytes = b"",
    *,
    anew: bool = False,
    archive: Archive | None = None,
) -> LiveManager:
    """Return a live manager at the end of the journal in ``accounting``, and at the time that was reached after it.

    ``state`` is that of the step where the accounts begin, if they begin at one. With ``anew``, and if the machine was another, the
    journal begins anew; the accounts begin at no step then. So it does with ``archive``, where the accounts of jobs that ended go.
    """
    begins, before = accounting.begins, as_recorded(prepared, accounting)
    live = new_manager(before, accounting) if begins is None else unpacked(state, accounting, before)
    first = accounting.step
    steps = restore(live, accounting)
    kept_us = time_kept(accounting)
    if kept_us > live.now_us:
        pass_time(live, accounting, kept_us)
    if steps:
        played = steps - first
        manager = live.manager
        log(
            "restored",
            f"restored from {accounting.path}: {steps} steps, {played} of them played, "
            f"{live.now_us / SECOND_US:.0f} s of emulated time, "
            f"{len(manager.running)} running and {len(manager.pending) + len(live.waiting)} pending jobs",
            steps=steps,
            played=played,
            now_us=live.now_us,
        )
    if before is not prepared or (anew and steps > first + 1) or (archive is not None and steps):
        assert begins is None
        went_on, live = live, new_manager(prepared, accounting)
        archived = compact_journal(live, went_on, prepared, accounting, archive)
        nodes = live.manager.machine.nodes
        text = f"the journal begins anew with {live.unfinished} jobs that have not ended, on {nodes} nodes"
        if archive is not None:
            text += f"; {archived} jobs that have are in {archive.path}"
        there = went_on.manager.machine.nodes
        log("begun-anew", text, jobs=live.unfinished, nodes=nodes, nodes_before=there, archived=archived)
    return live
