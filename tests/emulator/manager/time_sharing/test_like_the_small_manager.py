"""The manager against the literal site, written as it was from PROTOCOL.md: random rotations, starts, moves, suspensions and failures.

Both follow PROTOCOL.md, section 4, "Slots", and share no code: what is possible, what runs when, and what the scheduler is told must
be the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import pytest
from tests.emulator.manager.time_sharing.site import SETTINGS
from tests.emulator.parts import BELIEF
from tests.reference.literal_site import LiteralSite, SiteJob, due_events
from tests.runs import runs_on

from cosched_emulator.manager.agenda import ProcessAgenda
from cosched_emulator.manager.manager import Manager
from cosched_emulator.manager.time_sharing.shared_progress import ProcessNodes
from cosched_emulator.nodeos.exact import ExactCluster
from cosched_emulator.nodeos.programs import Compute, Loop, Program
from cosched_emulator.workload.job import WorkloadJob
from cosched_plugin.common.allocation import ResumeCosts
from cosched_plugin.protocol import messages as m

S = 1_000_000
QUANTUM_US = 10 * S
FOREVER_US = 1_000_000 * S  # jobs end by their limits, so it does not matter how fast they are
ENDLESS = Program((Loop(FOREVER_US // (2 * S), (Compute(2 * S),)),))
STEPS_S = (0, 1, 2, 5, 5, 7, 10, 10, 20, 33)


class Both:
    """The two managers, in the same state, and what happens to them."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.nodes, self.threads = random.choice((2, 3, 4)), random.choice((1, 2))
        machine = (m.NodeClass(self.nodes, 1, 1, self.threads, random.choice((0, 8)), 0, 0, 0, random.choice((0, 4))),)
        resume_us = random.choice((0, 3, 14)) * S
        processes = ProcessNodes(ExactCluster(SETTINGS, self.nodes, 1), lambda _: ENDLESS, QUANTUM_US)
        self.manager = Manager(machine, BELIEF, None, costs=ResumeCosts(resume_us), processes=processes)
        self.agenda = ProcessAgenda(self.manager)
        self.site = LiteralSite(machine, BELIEF, resume_us, QUANTUM_US)
        self.now_us = 0
        self.jobs = 0
        self.often = random.choice((3, 6))  # most actions at one instant
        self.refused = 0

    def commit(self, events: Sequence[m.Event], actions: Sequence[m.Action] = ()) -> None:
        manager, site = self.manager, self.site
        follow = manager.commit(manager.seq + 1, self.now_us, events, actions)
        for event in events:
            site.happen(event)
        reasons = [site.act(action) for action in actions]
        refused = {event.action for event in follow if isinstance(event, m.ActionRefused)}
        assert refused == {number for number, reason in enumerate(reasons) if reason is not None}, (actions, reasons)
        self.refused += len(refused)
        manager.settle(self.now_us)
        site.settle()
        manager.check()
        self.compare()

    def compare(self) -> None:
        here, there = self.manager.inventory(), self.site.inventory()
        assert sorted(without_shares(here.running)) == sorted(without_shares(there.running))
        assert (here.slots, here.pending, here.down) == (there.slots, there.pending, there.down)

    def go_on(self, until_us: int) -> None:
        """Let time pass; entries of the manager's timeline may be void."""
        while True:
            self.site.now_us = self.now_us
            dues_us = [self.site.due_us(), self.agenda.next_by(until_us), until_us]
            self.now_us = self.site.now_us = min([due_us for due_us in dues_us if due_us is not None])
            if self.now_us == until_us and all(due_us is None or due_us > until_us for due_us in dues_us[:2]):
                return
            events = self.agenda.due(self.now_us)
            expected = due_events(Random(1), self.site)
            assert sorted(map(told, events)) == sorted(map(told, expected)), self.now_us
            self.commit(events)

    # ------------------------------------------------------------ what happens

    def step(self) -> None:
        random = self.random
        self.go_on(self.now_us + random.choice(STEPS_S) * S)
        events = [*self.failures(), *(self.submission() for _ in range(random.choice((0, 0, 1, 1, 2))))]
        self.commit(events)
        for _ in range(random.randrange(self.often)):
            for action in self.action():
                self.commit((), (action,))

    def submission(self) -> m.JobSubmitted:
        random = self.random
        self.jobs += 1
        limit_us = random.choice((None, random.randint(1, 60) * S))
        memory_mb, unpaired = random.choice((0, 1, 3)), random.random() < 0.2
        spec = m.JobSpec(self.jobs, self.now_us, 1, 50 * S, limit_us, memory_mb=memory_mb, unpaired=unpaired)
        self.manager.accept(WorkloadJob(spec, FOREVER_US, None, self.jobs))
        self.site.jobs[self.jobs] = SiteJob(spec, FOREVER_US)
        return m.JobSubmitted(spec)

    def failures(self) -> Iterator[m.Event]:
        """Yield a node that fails, or is drained, or returns, and a job that is cancelled or requeued."""
        random, site = self.random, self.site
        gone: set[int] = set()
        if random.random() < 0.15:
            node = random.randrange(self.nodes)
            if node in site.down:
                yield m.NodeReturned(node)
            else:
                yield m.NodeFailed(node)
                for job in site.on_node(node) if random.random() < 0.5 else ():
                    gone.add(job.spec.id)
                    yield m.JobRequeued(job.spec.id) if random.random() < 0.6 else m.JobEnded(job.spec.id, m.NODE_FAIL)
        there = [job_id for job_id in self.ids("running") if job_id not in gone]
        if there and random.random() < 0.15:
            job_id = random.choice(there)
            yield random.choice((m.JobRequeued(job_id), m.JobEnded(job_id, m.CANCELLED)))

    def ids(self, state: str) -> list[int]:
        return [job.spec.id for job in self.site.in_state(state)]

    def start(self, job_id: int) -> m.StartJob:
        random = self.random
        runs = runs_on((random.randrange(self.nodes), 1, 1 << random.randrange(self.threads), 1))
        return m.StartJob(job_id, runs, 50 * S, self.site.jobs[job_id].spec.limit_us, random.choice((0, 0, 1, 1, 2, 3)))

    def action(self) -> Iterator[m.Action]:
        """Yield an action, possible or not, or nothing."""
        random = self.random
        running, pending = self.ids("running"), self.ids("pending")
        match random.randrange(12):
            case 0 | 1 | 2 if pending:
                yield self.start(random.choice(pending))
            case 3 if len(pending) > 1:
                yield m.StartTogether(tuple([self.start(job_id) for job_id in random.sample(pending, 2)]))
            case 4 | 5 if running:
                yield m.SuspendJob(random.choice(running), to_disk=random.random() < 0.4)
            case 6 | 7 if running:
                yield m.ResumeJob(random.choice(running))
            case 8 if running:
                yield m.ChangeSlot(random.choice(running), random.randrange(4))
            case 9 | 10 | 11 if running:
                yield self.rotation(running)

    def rotation(self, running: Sequence[int]) -> m.SetRotation:
        random = self.random
        slot_of = {job_id: self.site.jobs[job_id].slot for job_id in running}
        slots = sorted(set(slot_of.values()))
        turns = []
        for first in random.sample(slots, random.randint(0, len(slots))):
            own = (first, *[slot for slot in slots if slot != first and random.random() < 0.25])
            guests = [job_id for job_id in running if random.random() < 0.2 and slot_of[job_id] not in own]
            turns.append(m.Turn(own, random.choice((1, 1, 2, 3)), tuple(guests)))
        assert self.site.slots is not None
        return m.SetRotation(self.site.slots.quantum + 1 + (random.random() < 0.03), tuple(turns))


def without_shares(running: Sequence[m.RunningJob]) -> list[m.RunningJob]:
    return [each._replace(shares=()) for each in running]


def told(event: m.Event) -> str:
    """Return what an event says, without the size of shares."""
    if isinstance(event, m.QuantumEnded):
        event = event._replace(shares=tuple([(job_id, 0) for job_id, _ in event.shares]))
    return repr(event)


@pytest.mark.parametrize(
    "seeds", [range(60), *[pytest.param(range(60 + k, 1_060 + k), marks=pytest.mark.slow) for k in (0, 1_000, 2_000)]]
)
def test_random_rotations(seeds: range) -> None:
    quanta = refused = jobs = 0
    for seed in seeds:
        both = Both(seed)
        try:
            for _ in range(50):
                both.step()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, at {both.now_us / S:g} s") from error
        quanta += both.manager.inventory().slots.quantum  # type: ignore[union-attr]
        refused += both.refused
        jobs += both.jobs
    assert quanta > 5 * len(seeds)
    assert refused > 10 * len(seeds)
    assert jobs > 20 * len(seeds)
