"""The time of a decision with many pending jobs: a busy machine and a full queue, refilled with a job for each one that leaves."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from statistics import fmean
from time import perf_counter
from typing import Final, NamedTuple

from scripts.bench.process import Figures, in_process
from scripts.bench.runs import model, prepare_at

from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.manager.agenda import Agenda
from cosched_emulator.manager.manager import Manager
from cosched_emulator.run.build import build_manager
from cosched_emulator.run.loop import Simulation
from cosched_emulator.workload.job import WorkloadJob
from cosched_hwmodel.units import SECOND_US
from cosched_plugin.config import choose
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.policies.composition.presets import PRESETS
from cosched_plugin.protocol.messages import Action, Event, JobSubmitted, Welcome
from cosched_plugin.protocol.scheduler import SchedulerFactory

NODES: Final = 128
QUEUES: Final = (100, 1_000, 10_000)
BUDGETS: Final = ("counted", "none")
GOALS_MS: Final = {1_000: 5.0, 10_000: 50.0}  # of the 99th percentile
OVERLOAD: Final = 3.0  # while the queue fills: two of three submitted jobs stay in it
PATIENCE: Final = 5  # factor on the longest time of all decisions, for filling the queue and other work
WARM_UP: Final = 50  # untimed first batches of a scheduler that has just taken over


class Extent(NamedTuple):
    """The extent of the measurement."""

    queue: int  # pending jobs
    decisions: int
    most_s: float  # longest time of them all


class Complete(Exception):
    """All requested decisions have been timed."""


class OpenAgenda(Agenda):
    """An agenda to which submissions can be added during the run, in order."""

    __slots__ = ("coming",)

    def __init__(self, manager: Manager) -> None:
        super().__init__(manager)
        self.coming: deque[WorkloadJob] = deque()

    def next_us(self) -> int | None:
        """Return the earliest instant at which something is due."""
        due_us = super().next_us()
        if not self.coming:
            return due_us
        submit_us = self.coming[0].spec.submit_us
        return submit_us if due_us is None else min(due_us, submit_us)

    def due(self, now_us: int) -> list[Event]:
        """Return what happens at ``now_us``, submissions last."""
        events = super().due(now_us)
        while self.coming and self.coming[0].spec.submit_us <= now_us:
            job = self.coming.popleft()
            self._manager.accept(job)
            events.append(JobSubmitted(job.spec))
        return events


class FullQueueLink(DirectLink):
    """A link that submits jobs: under a filler until enough are queued, then a new one whenever one has left the queue.

    When the queue is full, the scheduler under test takes over.
    """

    def __init__(
        self,
        filler: SchedulerFactory,
        timed: SchedulerFactory,
        jobs: Iterable[WorkloadJob],
        coming: deque[WorkloadJob],
        extent: Extent,
    ) -> None:
        """``coming`` receives the next ones of ``jobs``."""
        super().__init__(filler)
        self._timed: SchedulerFactory | None = timed  # until it has taken over
        self._jobs = iter(jobs)
        self._coming = coming
        self._coming.append(next(self._jobs))
        self._extent = extent
        self._full = False
        self._warm_up = WARM_UP
        self.times_s: list[float] = []
        self.queued: list[int] = []

    def open(self, inventory: Callable[[], Welcome]) -> None:
        """Begin with the filler."""
        self._inventory = inventory
        super().open(inventory)

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        """Pass the batch to the filler or the scheduler under test; raises Complete at the end."""
        if self._full and self._timed is not None:
            self.scheduler = self._timed(self._inventory())
            self._timed = None
        began = perf_counter()
        actions = super().exchange(seq, now_us, events)
        time_s = perf_counter() - began
        assert isinstance(self.scheduler, SchedulerCore)
        queued = self.scheduler.view.queued
        if self._full:
            self._note(time_s, queued)
            self._submit(now_us, self._extent.queue - queued - len(self._coming))
        elif queued >= self._extent.queue:
            self._full = True
        elif not self._coming:
            self._coming.append(next(self._jobs))
        return actions

    def _note(self, time_s: float, queued: int) -> None:
        if self._warm_up:
            self._warm_up -= 1
            return
        self.times_s.append(time_s)
        self.queued.append(queued)
        if len(self.times_s) == self._extent.decisions or sum(self.times_s) > self._extent.most_s:
            raise Complete

    def _submit(self, now_us: int, jobs: int) -> None:
        """Submit jobs, one per second."""
        at_us = self._coming[-1].spec.submit_us if self._coming else now_us
        for job in islice(self._jobs, max(0, jobs)):
            at_us += SECOND_US
            self._coming.append(job._replace(spec=job.spec._replace(submit_us=at_us)))


def decide(policy: str, budget: str, extent: Extent) -> Figures:
    """Measure and return the times of a preset's decisions with a queue of the given length."""
    jobs = round(extent.queue * OVERLOAD) + 2 * extent.decisions + 1_000
    prepared = prepare_at(model(policy, jobs, NODES), OVERLOAD)
    filler = choose("fcfs", (f"shape={PRESETS[policy].table.get('shape', 'threads')}",))
    timed = choose(policy, (f"budget={budget}",))
    manager = build_manager(prepared)
    agenda = OpenAgenda(manager)
    link = FullQueueLink(filler.scheduler, timed.scheduler, prepared.workload.jobs, agenda.coming, extent)
    with suppress(Complete):
        Simulation(manager, agenda, link).run()
    if not link.times_s:
        return {"reason": "the run ended before a decision was timed"}
    return {"batches": len(link.times_s), "queued": round(fmean(link.queued)), **percentiles(link.times_s)}


def percentiles(times_s: Sequence[float]) -> Figures:
    """Return the median and the 99th percentile, nearest rank, in milliseconds."""
    ordered = sorted(times_s)
    ranks = {"p50_ms": 50, "p99_ms": 99}
    return {name: round(1000 * ordered[-(-len(ordered) * rank // 100) - 1], 3) for name, rank in ranks.items()}


def measure(
    policies: Sequence[str], queues: Sequence[int], decisions: int, most_s: float, tell: Callable[[str], None]
) -> Iterator[Figures]:
    """Yield a row for each preset, budget and queue; longer queues are left out if a shorter one already took too long."""
    for policy in policies:
        for budget in BUDGETS:
            late = False
            for queue in queues:
                tell(f"{policy}, budget {budget}: decisions with {queue:,} jobs queued")
                found = (
                    {"reason": f"more than {most_s:.0f} s"}
                    if late
                    else in_process(
                        decide, policy, budget, Extent(queue, decisions, most_s), timeout_s=PATIENCE * most_s
                    )
                )
                late = "reason" in found
                yield {"policy": policy, "budget": budget, "queue": queue, **found}
