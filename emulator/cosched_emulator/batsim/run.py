"""One simulation for a scheduler of Batsim's: from options to hosts, jobs and a manager, and the loop of messages and replies."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple

from cosched_emulator.batsim.outputs import Outputs
from cosched_emulator.batsim.platform import MASTER, Host, hosts_of_nodes, read_platform
from cosched_emulator.batsim.simulator import Options, Simulator
from cosched_emulator.batsim.workload import (
    KEYS,
    BatsimJob,
    ExternalEvent,
    JobNumbers,
    Profiles,
    exchanges,
    of_scenario,
    read_events,
    read_workloads,
    run_us,
)
from cosched_emulator.errors import ConfigurationError, InputError, LinkError
from cosched_emulator.results.files.run_folder import own_version
from cosched_emulator.run.build import build_manager
from cosched_emulator.run.prepare import Prepared, prepare
from cosched_emulator.scenario.faults import FaultEntry, FaultsSection
from cosched_emulator.scenario.reader import read_faults, read_scenario
from cosched_emulator.workload.job import NO_EPOCH, WARNING, Workload, WorkloadJob
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.batsim.messages import read_hosts
from cosched_plugin.common.allocation import is_plain
from cosched_plugin.common.process import freeze_heap
from cosched_plugin.protocol.limits import MAX_NODES
from cosched_plugin.protocol.messages import NodeClass
from cosched_terminal.console import printable

_COUNTS = {"nodes", "processors", "file"}  # settings that say how many hosts there are
PLACES = 16  # for jobs on a host of a platform, where hosts are shared and no shape of nodes is given


class Inputs(NamedTuple):
    """Files of Batsim's, and what its options say about them."""

    workloads: Sequence[str] = ()
    platform: str | None = None
    master: str = "master_host"
    most_hosts: int | None = None
    events: str | None = None


class Built(NamedTuple):
    """What a simulation is made of."""

    prepared: Prepared
    hosts: Sequence[Host]
    jobs: list[BatsimJob]
    profiles: dict[str, Profiles]
    numbers: JobNumbers
    events: list[ExternalEvent]

    def simulator(self, options: Options, outputs: Outputs) -> Simulator:
        """Return a simulator; what ends goes to ``outputs``."""
        known = [job.work for job in self.jobs if job.work.demand or job.work.usage or job.work.profile]
        manager = build_manager(self.prepared, live=bool(known) or options.dynamic)
        return Simulator(
            manager, self.hosts, self.jobs, self.profiles, options, self.events,
            ended=outputs.add, moved=outputs.note_states, numbers=self.numbers,
        )  # fmt: skip


# Over 50 lines: a table of settings, step by step, and what the steps make.
def build(scenario_file: str | None, table: dict[str, Any], inputs: Inputs, *, sharing: bool) -> Built:
    """Read all files, and prepare the nodes; raises InputError and ConfigurationError.

    ``table`` are the settings of a scenario; with workload files it has no workload of its own.
    """
    hosts: Sequence[Host] | None = None
    numbers = JobNumbers()
    jobs, profiles, most = read_workloads(inputs.workloads, numbers)
    cluster = dict(table.get("cluster", {}))
    counted = min(_COUNTS & set(cluster), default=None)
    if inputs.platform is not None:
        if counted is not None:
            expected = "nothing beside a platform, which has the hosts"
            raise ConfigurationError(f"cluster.{counted}", expected, "a setting")
        hosts = read_platform(inputs.platform, inputs.master, inputs.most_hosts)
        cluster["nodes"] = len(hosts)
        if scenario_file is None and not {"preset", "cores"} & set(cluster):
            cluster["preset"] = f"1x1x{PLACES if sharing else 1}"
    elif most and scenario_file is None and counted is None:
        cluster["nodes"] = most
    table = {**table, "cluster": cluster}
    if inputs.workloads:
        if table.get("workload"):
            key = next(iter(table["workload"]))
            raise ConfigurationError(f"workload.{key}", "nothing beside files of Batsim's (--workload)", "a setting")
        table = {
            **table,
            "clock": {**table.get("clock", {}), "mode": "real"},
        }  # the jobs come from elsewhere, as those of users do
    scenario = read_scenario(scenario_file, table)
    for name, wrong in (
        ("time_sharing", scenario.time_sharing is not None),
        ("faults", scenario.faults is not None),
        ("script", bool(scenario.script)),
        ("policy", bool(scenario.policy)),
    ):
        if wrong:
            raise ConfigurationError(name, "none: Batsim has nothing like it, and --events for machines that go", "one")
    prepared = prepare(scenario)
    if prepared.lags is not None or prepared.own is not None:
        raise ConfigurationError("manager", "none: Batsim's protocol has no lags", "one")
    hosts = hosts or hosts_of_nodes(prepared.nodes, prepared.power)
    if inputs.workloads:
        workload = prepared.workload._replace(jobs=[])
        prepared = replace(
            prepared, workload=workload, scenario=replace(scenario, clock=replace(scenario.clock, mode="virtual"))
        )
    else:
        jobs, profiles = of_scenario(prepared.workload.jobs, cores_of_hosts(prepared.nodes))
    events = [] if inputs.events is None else read_events(inputs.events, len(hosts))
    return Built(prepared, hosts, jobs, profiles, numbers, events)


def cores_of_hosts(nodes: Sequence[NodeClass]) -> int:
    """Return the cores of each host; ConfigurationError where they differ, as Batsim's jobs ask for a number of any hosts."""
    cores = {item.sockets * item.cores_per_socket for item in nodes}
    if len(cores) > 1:
        raise ConfigurationError("cluster", "hosts with the same number of cores", ", ".join(map(str, sorted(cores))))
    return cores.pop()


def simulate(simulator: Simulator, ask: Callable[[bytes], bytes]) -> None:
    """Run to the end with a scheduler that ``ask`` reaches."""
    while (frame := simulator.next_message()) is not None:
        simulator.take(ask(frame))


def run(built: Built, options: Options, outputs: Outputs, link: Any) -> dict[str, str]:
    """Run to the end with the scheduler of a `BatsimLink`, which is closed; return the figures of the run."""
    began_s = time.perf_counter()
    simulator = built.simulator(options, outputs)
    try:
        with freeze_heap():
            simulate(simulator, link.ask)
    except LinkError as error:
        link.close(error.text)
        raise
    except BaseException as error:
        defect = isinstance(error, Exception)  # or a signal
        link.close("a defect of the emulator; its own output has more" if defect else "it was ended")
        raise
    link.close()
    return outputs.finish(simulator, f"cosched {own_version()}", link.spent_s, time.perf_counter() - began_s)


# Conversions between files of Batsim and those of the emulator: workloads in both directions, and events as planned faults.
#
# A job of Batsim asks for whole hosts. From a log it gets as many as its processes fill, and what a process asks of its node counts for
# all processes on a host; into a log go its hosts, or their cores. What jobs ask of nodes is an object ``cosched`` of each job in JSON,
# and stands in side files beside a log.

SPEED: Final = 1e9  # flop/s of a host that no platform describes
# What no log and no side file holds: whether a job has it, and what is told of such jobs.
_LOSSES: Final[tuple[tuple[Callable[[WorkloadJob], bool], str], ...]] = (
    (lambda job: job.spec.limit_us is None, "have no walltime: their estimate is what it says, or a day"),
    (lambda job: job.demand is not None, "ask for bandwidth (demand), which no log holds: it is lost"),
    (lambda job: job.exit_code != 0, "fail (ret), which no log holds: they succeed"),
    (lambda job: job.spec.priority != 0, "have a priority, which no log holds: it is lost"),
    (
        lambda job: any(text and not text.isdecimal() for text in (job.spec.user, job.spec.name)),
        "have a user or a name that is no number: it is lost",
    ),
    (
        lambda job: job.spec.unpaired or not is_plain(job.spec._replace(memory_mb=0)),
        "ask for certain nodes, for threads or for resources, which no log holds: it is lost",
    ),
)
_IN_PLAN: Final = re.compile(r"faults\.at\[(\d+)\]\.node")
_MOST_SHOWN: Final = 8  # of fields
_EXACT: Final = ("demand", "usage", "self_slowdowns", "profiles")  # beliefs: the file tells what is true


def told_exactly(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of a scenario by which jobs are described as they are."""
    return {**table, "belief": {**table.get("belief", {}), **dict.fromkeys(_EXACT, "exact")}}


def to_batsim(workload: Workload, cores: int) -> dict[str, Any]:
    """Return the content of a workload file of Batsim's, for hosts of ``cores`` cores."""
    jobs, profiles = of_scenario(workload.jobs, cores)
    numbered = len({job.work.source_id for job in jobs}) == len(jobs)
    listed = [{**job.object, "id": str(job.work.source_id) if numbered else job.own_name} for job in jobs]
    hosts = -(-(workload.processors or 0) // cores)
    return {"nb_res": max([hosts, *[job.res for job in jobs]], default=1), "jobs": listed, "profiles": profiles["w0"]}


def lost_of_log(log: Workload) -> Iterator[str]:
    """Yield what a log has that no workload of Batsim's holds."""
    if log.unread:
        fields = ", ".join(f"{name} ({count} rows)" for name, count in log.unread)
        yield f"no workload of Batsim's holds these fields of the log, they are lost: {fields}"
    if log.epoch != NO_EPOCH:
        yield "no workload of Batsim's holds when the log began (UnixStartTime, TimeZone): it is lost"


def from_batsim(files: Sequence[str], cores: int, platform: str | None = None, master: str = MASTER) -> Workload:
    """Return the jobs of workload files of Batsim's, with ``cores`` processes for each host; raises InputError.

    What a job computes takes as long as on the slowest host of the platform, or at one Gflop/s.
    """
    speed = SPEED if platform is None else min(host.states[0].speed for host in read_platform(platform, master))
    jobs, profiles, hosts = read_workloads(files, JobNumbers())
    names = [job.own_name for job in jobs]
    numbered = len(set(names)) == len(names) and all(
        name.isascii() and name.isdigit() and len(name) < 10 for name in names
    )
    found = []
    for number, job in enumerate(jobs, 1):
        spec = job.work.spec._replace(id=number, processes=job.res * cores)
        takes_us = max(1, run_us(profiles[job.workload], job.profile, job.res, speed))
        source_id = int(job.own_name) if numbered else number
        found.append(job.work._replace(spec=spec, run_us=takes_us, source_id=source_id))
    notes = [] if numbered else [f"{WARNING}names of jobs are no numbers of their own: jobs are numbered from 1"]
    notes += _lost_fields(jobs)
    known: dict[str, dict[str, bool]] = {workload: {} for workload in profiles}
    talking = sum(exchanges(profiles[job.workload], job.profile, known[job.workload]) for job in jobs)
    notes += [f"{WARNING}{talking} jobs exchange messages (com), which take no time here"] if talking else []
    processors = max([hosts * cores, *[job.spec.processes for job in found]], default=1)
    return Workload(found, processors, " ".join(files), (*notes, *_lost(found)))


def _lost_fields(jobs: Sequence[BatsimJob]) -> list[str]:
    """Return a warning of the fields of jobs that nothing here reads."""
    counts = Counter(key for job in jobs for key in job.object if key not in KEYS)
    shown = [f"{printable(key[:40])} ({count} jobs)" for key, count in counts.most_common(_MOST_SHOWN)]
    shown += [f"{len(counts) - _MOST_SHOWN} more"] if len(counts) > _MOST_SHOWN else []
    return [f"{WARNING}no log holds these fields of jobs, they are lost: {', '.join(shown)}"] if shown else []


def _lost(jobs: Sequence[WorkloadJob]) -> list[str]:
    """Return warnings of what no log and no side file holds."""
    counted = [(sum(map(loses, jobs)), text) for loses, text in _LOSSES]
    return [f"{WARNING}{count} jobs {text}" for count, text in counted if count]


def faults_of(file: str) -> FaultsSection:
    """Return the fault plan of a file: TOML by its name, or else Batsim's events; raises InputError and ConfigurationError."""
    return (
        read_faults(file) if file.endswith(".toml") else FaultsSection(at=tuple([entry for entry, _ in _events(file)]))
    )


@contextmanager
def errors_name(file: str | None) -> Iterator[None]:
    """Let errors of a fault plan that do not fit the machine name its ``file``, and the line of an event; None: there is none."""
    try:
        yield
    except ConfigurationError as error:
        place = _IN_PLAN.fullmatch(error.path)
        if file is None or place is None:
            raise
        if file.endswith(".toml"):
            raise ConfigurationError(error.path, error.expected, error.got, file=file) from error
        line = [line for _, line in _events(file)][int(place[1])]
        raise InputError(file, error.expected, error.got, line, "resources") from error


def _events(file: str) -> Iterator[tuple[FaultEntry, int]]:
    """Yield the faults among Batsim's events, each with its line."""
    for at_us, event, line in read_events(file, MAX_NODES):
        do = {"machine_unavailable": "fail", "machine_available": "return"}.get(event["type"])
        if do is not None:  # others are no faults of nodes
            for node in read_hosts(event, "resources", "", MAX_NODES):
                yield FaultEntry(at_us / SECOND_US, do, node), line
