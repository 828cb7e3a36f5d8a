"""One run from a scenario to its results: coupling, simulation, summary, run folder."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cosched_emulator.couplings.direct import DirectLink
from cosched_emulator.couplings.link import Link
from cosched_emulator.couplings.loopback import LoopbackLink
from cosched_emulator.errors import ConfigurationError, InvariantError
from cosched_emulator.manager.changes import JobFinished
from cosched_emulator.manager.diary import Diary
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.run.loop import Simulation
from cosched_emulator.run.takers import Takers
from cosched_emulator.scenario.building import build_agenda, build_machine, build_manager, build_script, build_workload
from cosched_emulator.scenario.faults import Faults, build_faults
from cosched_emulator.scenario.schema import ClockSection, Scenario
from cosched_emulator.workload.columns import columns_of
from cosched_emulator.workload.job import Workload
from cosched_plugin.common.garbage import freeze_heap
from cosched_plugin.common.trace_file import TraceFile
from cosched_plugin.config import PolicyChoice
from cosched_plugin.protocol.messages import NodeClass

if TYPE_CHECKING:
    import subprocess

    from cosched_emulator.accounting.accounts import Accounting
    from cosched_emulator.couplings.scheduler_port import SchedulerPort
    from cosched_emulator.couplings.zmq_link import ZmqLink
    from cosched_emulator.results.figures.metrics import Selection
    from cosched_emulator.results.files.run_files import RunFiles
    from cosched_plugin.common.curve import Keyring

LONGEST_WAIT_S: Final = 1e9  # every wait ends
SILENCE_S: Final = 30.0
LONELY_S: Final = 5.0  # how long a plugin that we have started looks for us
NEEDS_NOTHING: Final = (None, "none", "always")  # matchings that do without knowledge of pairs
KNOW_PAIRS: Final = ("lomarc",)  # models of contention that say something of pairs
GROUPS_KNOW_PAIRS: Final = ("statistical", "lomarc")  # the same for matching group; only the latter goes by usage
LEAST_TAKEOVER_S: Final = 0.5  # a scheduler may compute for so long without being replaced
LINKS: Final = ("direct", "loopback", "zmq")
VIRTUAL: Final = "virtual"  # kind of run, as its database has it
CLOCKS: Final = ("virtual", "scaled", "real")
SLOWEST: Final = 1e-3  # speeds of a scaled clock
FASTEST: Final = 1e6
Progress = Callable[[int], None]


class Prepared(NamedTuple):
    """A scenario made into jobs and nodes; what is wrong with it has been found."""

    scenario: Scenario
    nodes: tuple[NodeClass, ...]
    workload: Workload


class Finished(NamedTuple):
    """A run that is over."""

    prepared: Prepared
    records: list[JobRecord]  # in order of id; none where they were written to files as they came
    summary: dict[str, Any]
    wall_s: float
    batches: int
    refused: int  # actions of the scheduler that could not be carried out
    unfinished: list[int]  # jobs that never ended: nothing was ever going to happen to them

    @property
    def jobs(self) -> int:
        """Return how many jobs there were."""
        jobs: int = self.summary["selection"]["jobs"]
        return jobs


def prepare(scenario: Scenario) -> Prepared:
    """Read or generate the jobs, and build the machine."""
    check_clock(scenario.clock)
    for key in ("deadline_s", "wait_s", "takeover_s", "resend_s"):
        seconds = getattr(scenario.clock, key)
        if not 0 <= seconds <= LONGEST_WAIT_S:  # nan is not
            raise ConfigurationError(
                f"clock.{key}", f"a number of seconds from 0 to {LONGEST_WAIT_S:.0f}", str(seconds)
            )
    if scenario.clock.takeover_s < LEAST_TAKEOVER_S:
        expected = f"a number of seconds from {LEAST_TAKEOVER_S:g} on"
        raise ConfigurationError("clock.takeover_s", expected, str(scenario.clock.takeover_s))
    _selection(scenario)
    cluster = scenario.cluster
    if scenario.clock.mode != "virtual" and scenario.policy:
        raise ConfigurationError("policy", "no policy: the scheduler that connects brings its own", "one")
    if scenario.workload.swf is None or cluster.nodes or cluster.processors or cluster.file:
        nodes = build_machine(scenario)
        # A second hardware thread makes no second processor: users of a machine of 128 hyperthreaded CPUs ask for up to 128.
        cores = sum(item.nodes * item.threads // item.threads_per_core for item in nodes)
        workload = build_workload(scenario, cores, sum(item.nodes for item in nodes))
    else:
        workload = build_workload(scenario, 0)
        nodes = build_machine(scenario, workload.processors)
    prepared = Prepared(scenario, nodes, workload)
    # For their checks: a wrong scenario should fail before anything starts.
    build_manager(scenario, nodes, prepared.workload)
    build_faults(scenario, sum(item.nodes for item in nodes))
    build_script(scenario, sum(item.nodes for item in nodes), len(prepared.workload.jobs))
    return prepared


def check_clock(clock: ClockSection) -> None:
    """Raise ConfigurationError for a clock that cannot be."""
    if clock.mode not in CLOCKS:
        raise ConfigurationError.unknown_name("clock.mode", clock.mode, CLOCKS)
    if (clock.speed is not None) != (clock.mode == "scaled"):
        wanted = (
            "a number of emulated seconds a second"
            if clock.mode == "scaled"
            else "nothing: only a scaled clock has one"
        )
        raise ConfigurationError("clock.speed", wanted, "none" if clock.speed is None else str(clock.speed))
    if clock.speed is not None and not SLOWEST <= clock.speed <= FASTEST:  # nan is not
        raise ConfigurationError("clock.speed", f"a number from {SLOWEST:g} to {FASTEST:g}", str(clock.speed))


def idle_matching(choice: PolicyChoice, prepared: Prepared) -> str | None:
    """Return why the policy's matching will never pair jobs, if it needs to be told what it is not told; None: it can."""
    part = choice.settings.get("matching")
    name = part.get("name") if isinstance(part, Mapping) else None
    if name in NEEDS_NOTHING:
        return None
    truth, belief = prepared.scenario.truth.contention, prepared.scenario.belief.contention
    jobs = columns_of(prepared.workload.jobs)
    wanted = GROUPS_KNOW_PAIRS if name == "group" else KNOW_PAIRS
    believed = truth if belief is None else belief
    if believed not in wanted:
        told = f'truth.contention = "{truth}"; give --contention {" or ".join(wanted)}'
        missing = f"of pairs ({told})" if belief is None else f'of pairs (belief.contention = "{belief}")'
    elif believed == "statistical":
        return None  # jobs whose own slowdown is unknown are believed to have none
    elif not jobs.knows(jobs.usage):
        missing = "of how jobs use their nodes (give --characteristics or --annotations)"
    elif not jobs.knows(jobs.told_usage):
        missing = "of how jobs use their nodes (belief.usage, belief.usage_missing)"
    else:
        return None
    return f"matching {name} will pair nobody: the scheduler is told nothing {missing}"


def idle_slices(choice: PolicyChoice, prepared: Prepared) -> str | None:
    """Return why the policy's time slices may preempt nobody: jobs whose memory finds no room on disk; None: nothing is known."""
    part = choice.settings.get("slices")
    name = part.get("name") if isinstance(part, Mapping) else None
    jobs = columns_of(prepared.workload.jobs)
    most_mb = max(jobs.each(jobs.memory_mb), default=0)
    room_mb = min(item.swap_mb for item in prepared.nodes)
    if name in (None, "none") or not most_mb or room_mb >= max(item.memory_mb for item in prepared.nodes):
        return None
    return (
        f"slices {name}: jobs with memory of up to {most_mb} MB a process, and nodes with {room_mb} MB of swap space for them "
        "(cluster.swap_mb): a job that finds no room there is not preempted, and runs on in others' slices"
    )


def _selection(scenario: Scenario) -> Selection:
    from cosched_emulator.results.figures.metrics import Selection  # noqa: PLC0415 - numpy

    try:
        return Selection(scenario.results.warmup, scenario.results.cooldown)
    except ValueError as error:
        raise ConfigurationError("results", "numbers of jobs, 0 or more", str(error)) from error


def run(
    prepared: Prepared,
    link: Link,
    progress: Progress | None = None,
    accounting: Accounting | None = None,
    files: RunFiles | None = None,
) -> Finished:
    """Simulate and summarise, and keep accounts if they are wanted.

    With ``files`` the records of jobs are written there as they end, and kept nowhere else. Raises LinkError when the scheduler is
    lost, InvariantError when the emulator is wrong.
    """
    from cosched_emulator.results.columns import ColumnBuilder  # noqa: PLC0415 - numpy
    from cosched_emulator.results.figures.metrics import summarise_columns  # noqa: PLC0415

    scenario, nodes, workload = prepared
    faults = build_faults(scenario, sum(item.nodes for item in nodes))
    manager = build_manager(scenario, nodes, workload, slow_nodes=faults.slow_nodes)
    script = build_script(scenario, manager.machine.nodes, len(workload.jobs))
    agenda = build_agenda(scenario, manager, workload, script, faults)
    committed = None
    if accounting is not None:
        manager.diary.kept = True
        committed = partial(_account, accounting, manager.diary)
    records: list[JobRecord] = []
    builder = ColumnBuilder()
    takers = Takers(builder.add, records.append if files is None else files.add)
    simulation = Simulation(manager, agenda, link, progress=progress, committed=committed, ended=takers.take)
    started = time.perf_counter()
    with freeze_heap():
        left = simulation.run()
    if accounting is not None:
        # What is known of jobs that never ended would else be known to their records alone.
        accounting.record([JobFinished(manager.now_us, record) for record in left])
        accounting.flush()
        if accounting.unplayed:
            raise InvariantError(
                f"the run is over, and the database has {accounting.unplayed} answers more: it is of another one"
            )
    wall_s = time.perf_counter() - started - takers.spent_s
    for record in left:
        takers.take(record)
    takers.hand_over()
    records.sort(key=_job_id)
    summary = summarise_columns(*builder.columns(), nodes, _selection(scenario))
    unfinished = [_job_id(record) for record in left]
    return Finished(prepared, records, summary, wall_s, simulation.batches, manager.refused, unfinished)


def _job_id(record: JobRecord) -> int:
    return record.job.spec.id


def _account(accounting: Accounting, diary: Diary) -> None:
    """Move what has happened from the manager's diary to the accounts."""
    accounting.record(diary.drain())


@contextmanager
def opened(db: str | None, prepared: Prepared, kind: str) -> Iterator[Accounting]:
    """Yield the accounts of a run: those in file ``db``, which go on where they end if there are any, or some in memory."""
    from cosched_emulator.accounting.accounts import Accounting  # noqa: PLC0415 - sqlite3
    from cosched_emulator.accounting.meta import check_meta, meta_of  # noqa: PLC0415

    if db is not None and Path(db).exists():
        accounting = Accounting.open(db)
        try:
            check_meta(accounting.meta, prepared.scenario, prepared.workload, kind, db)
        except BaseException:
            accounting.close()
            raise
    else:
        accounting = Accounting.create(db, meta_of(prepared.scenario, prepared.workload, kind))
    try:
        yield accounting
    finally:
        accounting.close()


@contextmanager
def kept(
    link: Link, db: str | None, prepared: Prepared, policy: Callable[[], str]
) -> Iterator[tuple[Link, Accounting | None]]:
    """Yield a link whose answers are kept in ``db``, and come from there as far as they go, with the accounts; None: as it is.

    ``policy`` tells the name of the scheduler's policy, once the link is open: a measurement is not to be made of two.
    """
    if db is None:
        yield link, None
        return
    from cosched_emulator.couplings.recorded import RecordedLink  # noqa: PLC0415 - sqlite3

    with opened(db, prepared, VIRTUAL) as accounting:
        yield RecordedLink(link, accounting, policy, deadline_s=prepared.scenario.clock.deadline_s), accounting


def port_for(
    scenario: Scenario,
    faults: Faults,
    endpoint: str,
    *,
    keys: Keyring | None = None,
    child: Callable[[], subprocess.Popen[bytes]] | None = None,
    diagnose: Callable[[], str] | None = None,
    note: Callable[[str, str], None] = lambda _word, _text: None,
) -> SchedulerPort:
    """Return the socket for a scheduler, with the scenario's times and the plan's faults of messages."""
    from cosched_emulator.couplings.faulty_channel import FaultyChannel  # noqa: PLC0415 - loads zmq
    from cosched_emulator.couplings.scheduler_port import SchedulerPort  # noqa: PLC0415

    return SchedulerPort(
        endpoint,
        channel=None if faults.messages is None else FaultyChannel(faults.messages),
        keys=keys,
        child=child,
        diagnose=diagnose,
        resend_s=scenario.clock.resend_s,
        takeover_s=scenario.clock.takeover_s,
        note=note,
    )


def remote_link(prepared: Prepared, endpoint: str, keys: Keyring | None, note: Callable[[str, str], None]) -> ZmqLink:
    """Return a link to a scheduler that somebody else starts."""
    from cosched_emulator.couplings.zmq_link import ZmqLink  # noqa: PLC0415 - loads zmq

    clock = prepared.scenario.clock
    faults = build_faults(prepared.scenario, sum(item.nodes for item in prepared.nodes))
    faults.check(live=False, child=False, remote=True, database=False)
    port = port_for(prepared.scenario, faults, endpoint, keys=keys, note=note)
    return ZmqLink(port, deadline_s=clock.deadline_s, wait_s=clock.wait_s)


@contextmanager
def coupling(kind: str, choice: PolicyChoice, prepared: Prepared, trace: str | None = None) -> Iterator[Link]:
    """Yield a link of that kind to the chosen policy; ``zmq`` starts the plugin as a process and cleans up after it.

    Planned faults of messages and of that process are on the way.

    ``trace`` is a new file for a decision trace, which the process that decides writes.
    """
    scenario = prepared.scenario
    faults = build_faults(scenario, sum(item.nodes for item in prepared.nodes))
    remote = kind == "zmq"
    faults.check(live=False, child=remote, remote=remote, database=False)
    if trace is not None and faults.plugin is not None and faults.plugin.kills:
        raise ConfigurationError(
            "faults.plugin.kills", "0 where a trace is written: a killed plugin takes its end along", "more"
        )
    if kind in ("direct", "loopback"):
        with nullcontext() if trace is None else TraceFile(trace) as file:
            scheduler = partial(choice.scheduler, trace=None if file is None else file.write)
            yield DirectLink(scheduler) if kind == "direct" else LoopbackLink(scheduler)
    elif kind == "zmq":
        from cosched_emulator.couplings.faulty_plugin import FaultyPluginLink  # noqa: PLC0415 - loads zmq
        from cosched_emulator.couplings.spawned_plugin import ENDPOINT, SpawnedPlugin  # noqa: PLC0415
        from cosched_emulator.couplings.zmq_link import ZmqLink  # noqa: PLC0415

        clock = scenario.clock
        # A plugin whose emulator was killed ends by itself: after this silence it asks, and after as much again it leaves.
        silence_s = min(SILENCE_S, max(1.0, clock.deadline_s))
        argv = [sys.executable, "-m", "cosched_plugin", "serve", "--connect", ENDPOINT, "--quiet"]
        argv += ["--silence", f"{silence_s:g}", "--wait", f"{LONELY_S:g}", *choice.arguments()]
        argv += [] if trace is None else ["--trace", trace]
        with SpawnedPlugin(argv) as plugin:
            port = port_for(
                scenario, faults, plugin.endpoint, child=lambda: plugin.process, diagnose=plugin.stderr_tail
            )
            link: Link = ZmqLink(port, deadline_s=clock.deadline_s, wait_s=clock.wait_s)
            if faults.plugin is not None:
                link = FaultyPluginLink(link, plugin, faults.plugin, batches=max(1, len(prepared.workload.jobs)))
            try:
                yield link
            finally:
                link.close()
    else:
        raise ConfigurationError.unknown_name("link", kind, LINKS)


def store(
    finished: Finished,
    out: str,
    *,
    policy: dict[str, Any],
    link: str,
    force: bool,
    trace: str | None = None,
    files: RunFiles | None = None,
) -> None:
    """Write the run folder, and move into it the ``trace`` that is to be part of it and waits where `place_trace` has said.

    ``files`` are those that the run has written to; None: its records were kept. The link is not part of the run's description,
    because it must not matter: it stands in timing.json.
    """
    from cosched_emulator.results.files.folder import TRACE, new_run_folder, write_files  # noqa: PLC0415 - numpy
    from cosched_emulator.results.files.run_files import run_files_of  # noqa: PLC0415

    scenario, nodes, workload = finished.prepared
    with ExitStack() as opened:
        folder = opened.enter_context(new_run_folder(out, force=force))
        if files is None:
            files = opened.enter_context(run_files_of(finished.records, out, nodes))
        write_files(
            folder,
            files,
            nodes,
            summary=finished.summary,
            resolved_config={**scenario.as_dict(), "policy": policy},
            workload=workload,
            timing={"wall_s": round(finished.wall_s, 6), "batches": finished.batches, "link": link},
            seed=scenario.seed,
        )
        if trace is not None:
            Path(trace).rename(folder / TRACE)
