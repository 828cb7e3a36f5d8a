"""One simulation for a scheduler of Batsim's: from options to hosts, jobs and a manager, and the loop of messages and replies."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from cosched_emulator.batsim.outputs import Outputs
from cosched_emulator.batsim.platform import Host, hosts_of_nodes, read_platform
from cosched_emulator.batsim.simulator import Options, Simulator
from cosched_emulator.batsim.workload import (
    BatsimJob,
    ExternalEvent,
    JobNumbers,
    Profiles,
    of_scenario,
    read_events,
    read_workloads,
)
from cosched_emulator.errors import ConfigurationError, LinkError
from cosched_emulator.results.files.run_folder import own_version
from cosched_emulator.run.build import build_manager
from cosched_emulator.run.prepare import Prepared, prepare
from cosched_emulator.scenario.reader import read_scenario
from cosched_plugin.common.process import freeze_heap
from cosched_plugin.protocol.messages import NodeClass

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
