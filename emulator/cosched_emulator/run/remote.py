"""Couplings with a scheduler in another process, started by this run or by a user."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from cosched_emulator.couplings.channel import FaultyChannel
from cosched_emulator.couplings.link import Link
from cosched_emulator.couplings.scheduler_port import SchedulerPort
from cosched_emulator.couplings.spawned_plugin import ENDPOINT, FaultyPluginLink, SpawnedPlugin
from cosched_emulator.couplings.zmq_link import ZmqLink
from cosched_emulator.run.prepare import Prepared
from cosched_hwmodel.models.by_name import BUILT_IN
from cosched_plugin.common.curve import Keyring
from cosched_plugin.config import PolicyChoice

SILENCE_S: Final = 30.0
LONELY_S: Final = 5.0  # how long a plugin that this run has started waits for its manager


def open_port(
    prepared: Prepared,
    endpoint: str,
    *,
    keys: Keyring | None = None,
    child: Callable[[], subprocess.Popen[bytes]] | None = None,
    diagnose: Callable[[], str] | None = None,
    note: Callable[[str, str], None] = lambda _word, _text: None,
) -> SchedulerPort:
    """Return the socket for a scheduler, with the scenario's planned faults of messages."""
    faults = prepared.faults
    return SchedulerPort(
        endpoint,
        channel=None if faults.messages is None else FaultyChannel(faults.messages, faults.seed),
        keys=keys,
        child=child,
        diagnose=diagnose,
        note=note,
    )


def remote_link(prepared: Prepared, endpoint: str, keys: Keyring | None, note: Callable[[str, str], None]) -> ZmqLink:
    """Return a link to a scheduler that a user starts."""
    prepared.faults.check(live=False, child=False, remote=True, database=False)
    return _link(prepared, open_port(prepared, endpoint, keys=keys, note=note))


@contextmanager
def spawned_link(choice: PolicyChoice, prepared: Prepared, trace: str | None) -> Iterator[Link]:
    """Yield a link to a plugin with the chosen policy, in a process that is started and ended here.

    The link includes the planned faults of messages and of that process. The process writes a decision ``trace``.
    """
    faults, believed = prepared.faults, prepared.belief.contention
    # A plugin whose emulator was killed ends by itself: after this silence it asks, and after the same time again it leaves.
    silence_s = min(SILENCE_S, max(1.0, prepared.scenario.clock.deadline_s))
    argv = [sys.executable, "-m", "cosched_plugin", "serve", "--connect", ENDPOINT, "--quiet"]
    argv += ["--silence", f"{silence_s:g}", "--wait", f"{LONELY_S:g}", *choice.arguments()]
    argv += [] if believed in BUILT_IN else ["--contention", believed]
    argv += [] if trace is None else ["--trace", trace]
    with SpawnedPlugin(argv) as plugin:
        port = open_port(prepared, plugin.endpoint, child=lambda: plugin.process, diagnose=plugin.last_words)
        link: Link = _link(prepared, port, plugin.tell_place)
        if faults.plugin is not None:
            link = FaultyPluginLink(
                link, plugin, faults.plugin, faults.seed, batches=max(1, len(prepared.workload.jobs))
            )
        try:
            yield link
        finally:
            link.close()


def _link(prepared: Prepared, port: SchedulerPort, late: Callable[[], None] = lambda: None) -> ZmqLink:
    clock = prepared.scenario.clock
    return ZmqLink(port, deadline_s=clock.deadline_s, wait_s=clock.wait_s, late=late)
