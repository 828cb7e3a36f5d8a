"""The coupling of a run with its scheduler: chosen by name, and recorded if the run has a database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cosched_emulator.errors import ConfigurationError, LinkError
from cosched_emulator.offered import LINKS
from cosched_emulator.run.prepare import Prepared
from cosched_plugin.common.deadline import Overdue, overdue_after
from cosched_plugin.common.trace_file import TraceFile
from cosched_plugin.config import PolicyChoice, allow_models

if TYPE_CHECKING:
    from cosched_emulator.accounting.accounts import Accounting
    from cosched_emulator.couplings.link import Link
    from cosched_plugin.protocol.scheduler import SchedulerFactory

TraceRecord: TypeAlias = dict[str, Any]  # of a decision trace; JSON-ready
TraceSink: TypeAlias = Callable[[TraceRecord], object]
LinkMaker: TypeAlias = "Callable[[SchedulerFactory], Link]"
IN_PROCESS: Final = frozenset(LINKS[:2])  # links that call the policy
VIRTUAL: Final = "virtual"  # kind of run in its database


@contextmanager
def coupling(
    kind: str | LinkMaker, choice: PolicyChoice, prepared: Prepared, trace: str | TraceSink | None = None
) -> Iterator[Link]:
    """Yield a link to the chosen policy: of a named kind, or made by a function that gets the constructor of a scheduler.

    ``zmq`` starts the plugin as a process, and ends it. The link includes the planned faults of messages and of that process.
    ``trace`` is a new file for a decision trace, which the scheduler's process writes; or a function for its records, if the
    scheduler is in this process.
    """
    faults = prepared.faults
    remote = kind == "zmq"
    faults.check(live=False, child=remote, remote=remote, database=False)
    if trace is not None and faults.plugin is not None and faults.plugin.kills:
        raise ConfigurationError(
            "faults.plugin.kills", "0 with a trace: a killed plugin loses the end of its trace", "more"
        )
    if kind in IN_PROCESS or callable(kind):
        from cosched_emulator.couplings.link import DirectLink, LoopbackLink  # noqa: PLC0415 - with the codec

        with TraceFile(trace) if isinstance(trace, str) else nullcontext() as file:
            # The manager makes the scheduler, so the scheduler may use the models that the scenario names.
            models = allow_models([prepared.belief.contention])
            sink = file.write if file is not None else trace if callable(trace) else None
            scheduler = partial(choice.scheduler, trace=sink, models=models)
            if callable(kind):
                yield kind(scheduler)
                return
            inside = (DirectLink if kind == "direct" else LoopbackLink)(scheduler)
            deadline_s = prepared.scenario.clock.deadline_s
            try:
                with overdue_after(deadline_s, lambda: inside.awaits):
                    yield inside
            except Overdue as where:
                asked = f"no answer to batch {inside.awaits}" if inside.awaits else "the policy is not made"
                raise LinkError(f"{asked} within {deadline_s:g} s: {where}") from None
    elif remote:
        assert trace is None or isinstance(trace, str)  # a function cannot be passed to another process
        from cosched_emulator.run.remote import spawned_link  # noqa: PLC0415 - zmq, which other couplings do not load

        with spawned_link(choice, prepared, trace) as link:
            yield link
    else:
        raise ConfigurationError.unknown_name("link", str(kind), LINKS)


@contextmanager
def record_answers(
    link: Link,
    db: str | None,
    prepared: Prepared,
    policy: Callable[[], str],
    warn: Callable[[str], object] | None = None,
) -> Iterator[tuple[Link, Accounting | None]]:
    """Yield a link that records the answers in ``db`` and repeats recorded ones, with the accounts; ``link`` itself without ``db``.

    ``policy`` returns the name of the scheduler's policy, once the link is open: all answers must be of one policy. ``warn`` is told
    at once where the file cannot be written to.
    """
    if db is None:
        yield link, None
        return
    from cosched_emulator.couplings.recorded import RecordedLink  # noqa: PLC0415 - sqlite3, for a database only
    from cosched_emulator.run.run import open_accounts  # noqa: PLC0415 - likewise

    with open_accounts(db, prepared, VIRTUAL) as accounting:
        deadline_s = prepared.scenario.clock.deadline_s
        yield RecordedLink(link, accounting, policy, deadline_s=deadline_s, warn=warn), accounting
