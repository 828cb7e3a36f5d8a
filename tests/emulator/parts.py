"""Small machines, jobs and schedulers for the tests of manager and simulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tests.runs import runs_on

from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.manager.agenda import Agenda
from cosched_emulator.manager.contended_nodes import ContendedNodes
from cosched_emulator.manager.difficult import DifficultAgenda, DifficultManager
from cosched_emulator.manager.manager import Manager
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.run.loop import Simulation
from cosched_emulator.scenario.difficult_manager import Lags
from cosched_emulator.scenario.planned_events import Scripted
from cosched_emulator.workload.job import WorkloadJob
from cosched_emulator.workload.swf.swf_reader import SwfOptions
from cosched_hwmodel.bandwidth.bandwidth_model import BandwidthModel
from cosched_hwmodel.composition import composition_named
from cosched_hwmodel.contention import ContentionModel
from cosched_plugin.common.allocation import Machine, ResumeCosts
from cosched_plugin.protocol import messages as m

BELIEF = m.Belief("bandwidth", "bulk-synchronous", ("memory_bandwidth",))
# Reads exactly the jobs that `write_swf` wrote.
VERBATIM = SwfOptions(minimum_estimate_s=0, cap_run_at_estimate=False, rebase=False)
Batch = tuple[int, int, tuple[m.Event, ...]]
Answer = Callable[[int, Sequence[m.Event]], list[m.Action]]


def node_class(nodes: int = 2, threads: int = 2, memory_mb: int = 100, swap_mb: int = 0) -> m.NodeClass:
    return m.NodeClass(nodes, 1, threads, 1, memory_mb, 6, 0, 0, swap_mb)


def job(
    number: int,
    submit_us: int = 0,
    run_us: int = 100,
    *,
    processes: int = 1,
    estimate_us: int | None = None,
    limit_us: int | None = None,
    exclusive: bool = False,
    memory_mb: int = 0,
    demand: m.DemandTuple | None = None,
) -> WorkloadJob:
    estimate = run_us if estimate_us is None else estimate_us
    spec = m.JobSpec(
        number,
        submit_us,
        processes,
        max(1, estimate),
        limit_us,
        exclusive=exclusive,
        memory_mb=memory_mb,
        demand=demand,
    )
    return WorkloadJob(spec, run_us, demand, number)


def start(
    number: int, node: int = 0, mask: int = 1, *, nodes: int = 1, estimate_us: int = 100, limit_us: int | None = None
) -> m.StartJob:
    """Start a job with one process on each thread of the mask."""
    return m.StartJob(number, runs_on((node, nodes, mask, mask.bit_count())), estimate_us, limit_us)


def manager(
    *classes: m.NodeClass,
    contention: bool = False,
    model: ContentionModel | None = None,
    measure_after_us: int | None = None,
    measure_above_ppm: int = 1_000_000,
    resume_us: int = 0,
    switch_us: int = 0,
    image_mbs: int = 0,
    lags: Lags | None = None,
) -> Manager:
    """Return a manager of nodes under ``model``; by default with ``contention`` under a bandwidth model, else without a model."""
    nodes = classes or (node_class(),)
    if model is None and contention:
        model = BandwidthModel(("memory_bandwidth",))
    truth = None if model is None else ContendedNodes(Machine(nodes), model, composition_named("bulk-synchronous"))
    costs = ResumeCosts(resume_us, switch_us, image_mbs)
    make = Manager if lags is None else partial(DifficultManager, lags)
    return make(nodes, BELIEF, truth, measure_after_us, measure_above_ppm, costs)


class Player:
    """A scheduler with prepared answers, which records its batches and the manager's inventories."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.batches: list[Batch] = []
        self.inventories: list[m.Welcome] = []
        self.inventory: Callable[[], m.Welcome] | None = None

    def handle(self, now_us: int, events: Sequence[m.Event]) -> list[m.Action]:
        assert self.inventory is not None
        welcome = self.inventory()
        self.inventories.append(welcome)
        self.batches.append((welcome.seq + 1, now_us, tuple(events)))
        return self._answer(now_us, events)


def play(
    answer: Answer,
    jobs: Sequence[WorkloadJob],
    *,
    on: Manager | None = None,
    script: Sequence[Scripted] = (),
    requeue: bool = False,
    progress: Callable[[int], None] | None = None,
) -> tuple[Player, Manager, dict[int, JobRecord]]:
    """Run a whole simulation with the scheduler `answer`; the manager's invariants are checked before every batch and at the end."""
    managed = manager() if on is None else on
    player = Player(answer)

    def checked() -> m.Welcome:
        managed.check()
        return managed.inventory()

    player.inventory = checked
    link = DirectLink(lambda _welcome: player)
    if isinstance(managed, DifficultManager):
        agenda: Agenda = DifficultAgenda(managed, jobs, script, requeue=requeue)
    else:
        agenda = Agenda(managed, jobs, script, requeue=requeue)
    simulation = Simulation(managed, agenda, link, progress=progress)
    records = simulation.run()
    managed.check()
    assert simulation.batches == len(player.batches) == managed.seq
    return player, managed, {record.job.spec.id: record for record in records}


def at_times(**answers: Sequence[m.Action]) -> Answer:
    """Return a scheduler that gives these answers, one for each instant (``at_40=...``), in the first batch that it hears then.

    It requests wakes for all instants but the first.
    """
    planned = {int(name.removeprefix("at_")): list(actions) for name, actions in answers.items()}
    first = min(planned)
    planned[first] += [m.WakeAt(at_us) for at_us in sorted(planned) if at_us != first]
    return lambda now_us, _events: planned.pop(now_us, [])


def at_once(now_us: int, events: Sequence[m.Event]) -> list[m.Action]:
    """Start job n on node n-1, thread 0, when it is submitted, and again when it is requeued."""
    answers: list[m.Action] = []
    for event in events:
        match event:
            case m.JobSubmitted(spec):
                answers.append(start(spec.id, spec.id - 1, estimate_us=spec.estimate_us, limit_us=spec.limit_us))
            case m.JobRequeued(job_id) | m.JobReleased(job_id):
                answers.append(start(job_id, job_id - 1))
            case _:
                pass
    return answers
