"""The coupling of a run with its scheduler: chosen by name, and recorded if the run has a database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cosched_emulator.errors import ConfigurationError, LinkError, os_errors
from cosched_emulator.offered import LINKS
from cosched_emulator.run.prepare import Prepared
from cosched_hwmodel.models.importing import file_digest, modules_in, source_digests
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
def accounts_of(db: str | None, prepared: Prepared, choice: PolicyChoice | None = None) -> Iterator[Accounting | None]:
    """Yield the accounts in ``db``, None without it; all recorded answers must be of the ``choice``, if there is one.

    Raises InputError or ConfigurationError, with the file as it was, if the run cannot resume from it.
    """
    if db is None:
        yield None
        return
    from cosched_emulator.run.run import open_accounts  # noqa: PLC0415 - sqlite3, for a database only

    with open_accounts(db, prepared, VIRTUAL, policy=_meta_of(choice, prepared) if choice else {}) as accounting:
        yield accounting


def _meta_of(choice: PolicyChoice, prepared: Prepared) -> dict[str, str]:
    """Return the meta data of a policy: its name, its complete settings, and the contents of what these and its beliefs name."""
    from cosched_emulator.accounting.run_meta import policy_meta  # noqa: PLC0415 - likewise

    scenario = prepared.scenario
    modules = modules_in([choice.argument, choice.settings, asdict(scenario.truth), asdict(scenario.belief)])
    sources = {f"the module {name}": digest for name, digest in source_digests(modules).items()}
    files = {"truth.pairs": scenario.truth.pairs, "belief.pair_table": scenario.belief.pair_table}
    if choice.replays:
        files["workload.annotations"] = scenario.workload.annotations
    for key, file in files.items():
        if file is not None:
            with os_errors(file):
                sources[key] = file_digest(file)
    return policy_meta(choice.name, choice.settings, sources)


def recorded_link(
    link: Link,
    accounting: Accounting | None,
    prepared: Prepared,
    policy: Callable[[], str],
    warn: Callable[[str], object] | None = None,
    *,
    ask_again: bool = False,
) -> Link:
    """Return a link that records the answers in the accounts and repeats recorded ones; ``link`` itself without accounts.

    ``policy`` returns the name of the scheduler's policy, once the link is open: all answers must be of one policy. ``warn`` is told
    at once where the file cannot be written to. With ``ask_again`` the scheduler answers the recorded batches, too, for its trace.
    """
    if accounting is None:
        return link
    from cosched_emulator.couplings.recorded import RecordedLink  # noqa: PLC0415 - likewise

    deadline_s = prepared.scenario.clock.deadline_s
    return RecordedLink(link, accounting, policy, ask_again=ask_again, deadline_s=deadline_s, warn=warn)
