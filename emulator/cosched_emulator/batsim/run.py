"""One simulation for a scheduler of Batsim's: from options to hosts, jobs and a manager, and the loop of messages and replies."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple, TextIO

from cosched_emulator.batsim.platform import MASTER, Host, hosts_of_nodes, read_platform
from cosched_emulator.batsim.simulator import Options, Simulator
from cosched_emulator.batsim.workload import (
    KEYS,
    BatsimJob,
    Ended,
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
from cosched_emulator.scenario.fault_sections import FaultEntry, FaultsSection
from cosched_emulator.scenario.reader import read_faults, read_scenario
from cosched_emulator.workload.atomic_file import new_text_file
from cosched_emulator.workload.job import NO_EPOCH, WARNING, Workload, WorkloadJob
from cosched_hwmodel.errors import Unwanted
from cosched_hwmodel.text_formats import encoded
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.batsim.messages import SUCCESS, read_hosts, write_hosts
from cosched_plugin.common.allocation import is_plain
from cosched_plugin.common.process import freeze_heap
from cosched_plugin.protocol.limits import MAX_NODES
from cosched_plugin.protocol.messages import REJECTED, NodeClass
from cosched_terminal.console import printable

# The files that a run of Batsim leaves, with its columns: jobs as they end, states of hosts as they change, and one row of figures.
#
# evalys and other tools for Batsim read them. Hosts are counted, not hardware threads. All three files appear once the run is over.

JOBS: Final = (
    "job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,success,final_state,starting_time,"
    "execution_time,finish_time,waiting_time,turnaround_time,stretch,allocated_resources,consumed_energy,metadata"
)
STATES: Final = "time,nb_sleeping,nb_switching_on,nb_switching_off,nb_idle,nb_computing"
MEASURES: Final = ("waiting_time", "turnaround_time", "slowdown")
FILES: Final = ("jobs", "schedule", "machine_states")


class Outputs:
    """The figures of a simulation, and with ``prefix`` its files ``PREFIX_jobs.csv`` and so on."""

    def __init__(self, prefix: str | None, *, force: bool) -> None:
        """Raise InputError where a file is there, unless ``force``."""
        self._open = ExitStack()
        self._files: dict[str, TextIO] = {}
        self.jobs = self.rejected = self.succeeded = 0
        self.makespan_us = 0
        self._sums, self._most = [0.0] * len(MEASURES), [0.0] * len(MEASURES)
        if prefix is None:
            return
        try:
            for name in FILES:
                self._files[name] = self._open.enter_context(new_text_file(f"{prefix}_{name}.csv", force=force))
        except BaseException as error:
            self._open.__exit__(type(error), error, error.__traceback__)
            raise
        self._write("jobs", JOBS)
        self._write("machine_states", STATES)

    def __enter__(self) -> Outputs:
        """Write files; they appear at the end, unless there is an error."""
        return self

    def __exit__(self, *error: object) -> None:
        """Let the files appear, or none of them after an error."""
        self._open.__exit__(*error)  # type: ignore[arg-type]

    def _write(self, name: str, line: str) -> None:
        if self._files:
            self._files[name].write(f"{line}\n")

    def add(self, ended: Ended) -> None:
        """Add a job that has ended."""
        spec = ended.job.work.spec
        self.jobs += 1
        if ended.start_us is None or ended.end_us is None:
            self.rejected += 1
            self._write("jobs", f"{_asked(ended)},0,{REJECTED},,,,,,,,,{_quoted(ended.job.metadata)}")
            return
        runs_us = ended.end_us - ended.start_us
        turnaround_s = (ended.end_us - spec.submit_us) / SECOND_US
        values = (
            (ended.start_us - spec.submit_us) / SECOND_US,
            turnaround_s,
            turnaround_s * SECOND_US / max(1, runs_us),
        )
        self._sums = [total + value for total, value in zip(self._sums, values, strict=True)]
        self._most = list(map(max, self._most, values))
        success = int(ended.state == SUCCESS)
        self.succeeded += success
        self.makespan_us = max(self.makespan_us, ended.end_us)
        if not self._files:
            return
        times = ",".join([_seconds(each) for each in (ended.start_us, runs_us, ended.end_us)])
        measures = ",".join([f"{value:.6f}" for value in values])
        joules = -1.0 if ended.joules is None else ended.joules
        rest = f"{write_hosts(ended.job.hosts)},{joules:.6f},{_quoted(ended.job.metadata)}"
        self._write("jobs", f"{_asked(ended)},{success},{ended.state},{times},{measures},{rest}")

    def note_states(self, now_us: int, counts: dict[str, int]) -> None:
        """Add the states of hosts as they are now."""
        if self._files:
            values = [str(counts[kind]) for kind in ("sleeping", "switching_on", "switching_off", "idle", "computing")]
            self._write("machine_states", f"{_seconds(now_us).rstrip('0').rstrip('.')},{','.join(values)}")

    def finish(self, simulator: Simulator, version: str, scheduling_s: float, wall_s: float) -> dict[str, str]:
        """Return the figures of the run, by Batsim's names, and write them."""
        states = simulator.states
        energy_j = states.count(self.makespan_us) - (simulator.first_j or 0.0)
        finished = self.jobs - self.rejected
        times = {f"time_{kind}": _seconds(span_us) for kind, span_us in states.time_us.items()}
        figures = {
            "batsim_version": version,
            "consumed_joules": f"{energy_j:.6f}",
            "makespan": _seconds(self.makespan_us),
            **{f"max_{name}": f"{value:.6f}" for name, value in zip(MEASURES, self._most, strict=True)},
            **{
                f"mean_{name}": f"{value / max(1, finished):.6f}"
                for name, value in zip(MEASURES, self._sums, strict=True)
            },
            "nb_computing_machines": str(len(states)),
            "nb_grouped_switches": str(states.grouped),
            "nb_jobs": str(self.jobs),
            "nb_jobs_finished": str(finished),
            "nb_jobs_killed": str(finished - self.succeeded),
            "nb_jobs_rejected": str(self.rejected),
            "nb_jobs_success": str(self.succeeded),
            "nb_machine_switches": str(states.switches),
            "scheduling_time": f"{scheduling_s:.6f}",
            "simulation_time": f"{wall_s:.6f}",
            "success_rate": f"{self.succeeded / max(1, self.jobs):.6f}",
            **times,
        }
        ordered = dict(sorted(figures.items()))
        self._write("schedule", ",".join(ordered))
        self._write("schedule", ",".join(ordered.values()))
        return ordered


def _seconds(us: int) -> str:
    return f"{us // SECOND_US}.{us % SECOND_US:06d}"


def _quoted(metadata: str) -> str:
    """Return what a scheduler says of a job, in quotes as Batsim writes it: it holds none, but may hold all else."""
    return f'"{printable(metadata)}"'


def _asked(ended: Ended) -> str:
    """Return the columns of what a job has asked for."""
    job, spec = ended.job, ended.job.work.spec
    limit = "-1.000000" if spec.limit_us is None else _seconds(spec.limit_us)
    return f"{','.join(map(encoded, (job.own_name, job.workload, job.profile)))},{_seconds(spec.submit_us)},{job.res},{limit}"


# The run.

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
            raise ConfigurationError(f"cluster.{counted}", Unwanted("the platform has the hosts"))
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
            raise ConfigurationError(f"workload.{key}", Unwanted("--workload has the jobs"))
        # The jobs come from elsewhere, as those of users do
        table = {**table, "clock": {**table.get("clock", {}), "mode": "real"}}
    scenario = read_scenario(scenario_file, table)
    for name, wrong in (
        ("time_sharing", scenario.time_sharing is not None),
        ("faults", scenario.faults is not None),
        ("script", bool(scenario.script)),
        ("policy", bool(scenario.policy)),
    ):
        if wrong:
            raise ConfigurationError(name, Unwanted("Batsim does not have it; --events has unavailable machines"))
    prepared = prepare(scenario)
    if prepared.lags is not None or prepared.own is not None:
        raise ConfigurationError("manager", Unwanted("Batsim's protocol has no lags"))
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
    cores = {item.cores for item in nodes}
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
        link.close("a defect of the emulator; see its output" if defect else "it was ended")
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
    (lambda job: job.spec.limit_us is None, "have no walltime: the estimate is that of the job, or a day"),
    (lambda job: job.demand is not None, "request bandwidth (demand), which a log cannot hold: lost"),
    (lambda job: job.exit_code != 0, "fail (ret), which a log cannot hold: they complete"),
    (lambda job: job.spec.priority != 0, "have a priority, which a log cannot hold: lost"),
    (
        lambda job: any(text and not text.isdecimal() for text in (job.spec.user, job.spec.name)),
        "have a user or a name that is not a number: lost",
    ),
    (
        lambda job: job.spec.unpaired or not is_plain(job.spec._replace(memory_mb=0)),
        "request certain nodes, threads or resources, which a log cannot hold: lost",
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
        yield f"a Batsim workload cannot hold these fields of the log: {fields}"
    if log.epoch != NO_EPOCH:
        yield "a Batsim workload cannot hold when the log began (UnixStartTime, TimeZone)"


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
    notes = [] if numbered else [f"{WARNING}jobs are numbered from 1, because their names are not distinct numbers"]
    notes += _lost_fields(jobs)
    known: dict[str, dict[str, bool]] = {workload: {} for workload in profiles}
    talking = sum(exchanges(profiles[job.workload], job.profile, known[job.workload]) for job in jobs)
    notes += [f"{WARNING}{talking} jobs exchange messages (com), which take no time in the emulator"] if talking else []
    processors = max([hosts * cores, *[job.spec.processes for job in found]], default=1)
    return Workload(found, processors, " ".join(files), (*notes, *_lost(found)))


def _lost_fields(jobs: Sequence[BatsimJob]) -> list[str]:
    """Return a warning of the fields of jobs that nothing here reads."""
    counts = Counter(key for job in jobs for key in job.object if key not in KEYS)
    shown = [f"{printable(key[:40])} ({count} jobs)" for key, count in counts.most_common(_MOST_SHOWN)]
    shown += [f"{len(counts) - _MOST_SHOWN} more"] if len(counts) > _MOST_SHOWN else []
    return [f"{WARNING}a log cannot hold these fields of jobs: {', '.join(shown)}"] if shown else []


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
