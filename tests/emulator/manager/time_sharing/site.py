"""Managers of nodes that run processes, and runs of them, for the tests of time sharing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.emulator.parts import BELIEF, Answer, Player

from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.manager.agenda import ProcessAgenda
from cosched_emulator.manager.manager import Manager
from cosched_emulator.manager.record import JobRecord, QuantumRecord
from cosched_emulator.manager.time_sharing.rotating import Rotating
from cosched_emulator.manager.time_sharing.shared_progress import ProcessNodes
from cosched_emulator.nodeos.exact import ExactCluster
from cosched_emulator.nodeos.fluid.fluid_cluster import FluidCluster
from cosched_emulator.nodeos.fluid.situations import Windows
from cosched_emulator.nodeos.process_cluster import ProcessCluster
from cosched_emulator.nodeos.programs import Compute, Loop, Program
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_emulator.run.loop import Simulation
from cosched_emulator.scenario.planned_events import Scripted
from cosched_emulator.workload.job import WorkloadJob
from cosched_plugin.common.allocation import ResumeCosts
from cosched_plugin.core.engine import Policy, SchedulerCore
from cosched_plugin.protocol import messages as m

QUANTUM_US = 1_000_000
SETTINGS = NodeSettings(tick_us=0)
WINDOWS = Windows(SETTINGS, QUANTUM_US)  # shared by all tests


def busy(job: WorkloadJob) -> Program:
    """Return a program that does nothing but compute: alone, each process takes the job's run time, cut to half milliseconds."""
    return Program((Loop(job.run_us // 500, (Compute(500),)),))


def clusters(nodes: int) -> list[ProcessCluster]:
    return [ExactCluster(SETTINGS, nodes, 1), FluidCluster(SETTINGS, nodes, 1, WINDOWS)]


def time_shared(
    nodes: int = 4,
    *,
    cluster: ProcessCluster | None = None,
    program_of: Callable[[WorkloadJob], Program] = busy,
    memory_mb: int = 1_000,
    swap_mb: int = 0,
    resume_us: int = 0,
    threads: int = 1,
) -> Manager:
    """Return a manager of nodes with one core; by default, exact ones."""
    truth = ExactCluster(SETTINGS, nodes, 1) if cluster is None else cluster
    machine = [m.NodeClass(nodes, 1, 1, threads, memory_mb, 0, 0, 0, swap_mb)]
    processes = ProcessNodes(truth, program_of, QUANTUM_US)
    return Manager(machine, BELIEF, None, costs=ResumeCosts(resume_us), processes=processes)


def rotating_of(manager: Manager) -> Rotating:
    assert manager.processes is not None
    return manager.processes


class Shared(NamedTuple):
    """A run that is over."""

    records: dict[int, JobRecord]
    quanta: list[QuantumRecord]
    player: Player
    manager: Manager

    def ends_s(self) -> dict[int, float | None]:
        return {number: None if job.end_us is None else job.end_us / 1e6 for number, job in self.records.items()}

    def turns(self) -> list[tuple[int, ...]]:
        """Return the jobs that ran in each quantum."""
        return [tuple(part.job_id for part in quantum.parts) for quantum in self.quanta]

    def quantum_events(self) -> list[tuple[int, m.QuantumEnded]]:
        return [
            (now_us, event)
            for _, now_us, events in self.player.batches
            for event in events
            if isinstance(event, m.QuantumEnded)
        ]


def share(
    answer: Answer,
    jobs: Sequence[WorkloadJob],
    manager: Manager | None = None,
    script: Sequence[Scripted] = (),
    *,
    requeue: bool = False,
) -> Shared:
    """Run a whole simulation with the scheduler `answer`; invariants are checked before every batch and at the end."""
    managed = time_shared() if manager is None else manager
    quanta: list[QuantumRecord] = []
    rotating_of(managed).ended_quanta.append(quanta.append)
    player = Player(answer)

    def checked() -> m.Welcome:
        managed.check()
        return managed.inventory()

    player.inventory = checked
    agenda = ProcessAgenda(managed, jobs, script, requeue=requeue)
    records = Simulation(managed, agenda, DirectLink(lambda _welcome: player)).run()
    managed.check()
    return Shared({record.job.spec.id: record for record in records}, quanta, player, managed)


def under(policy: Callable[[], Policy], manager: Manager) -> Answer:
    """Return a scheduler that is built again from the manager's inventory for every batch, compared with one that lives on."""
    living: list[SchedulerCore] = []

    def answer(now_us: int, events: Sequence[m.Event]) -> list[m.Action]:
        welcome = manager.inventory()
        if not living:
            living.append(SchedulerCore(policy(), welcome))
        fresh = SchedulerCore(policy(), welcome)
        actions = living[0].handle(now_us, events)
        assert fresh.handle(now_us, events) == actions
        living[0].check()
        return actions

    return answer
