"""Books are the ledger that the scheduler has, too, which keeps what is free; the literal ones derive everything anew."""

from __future__ import annotations

from copy import copy
from random import Random

import pytest
from tests.reference.literal_books import Job, LiteralBooks, places

from cosched_hwmodel.units import ThreadMask
from cosched_plugin.ledger.ledger import Ledger
from cosched_plugin.protocol import messages as m
from cosched_plugin.site.books import Books

S = 1_000_000


class SlottedBooks(LiteralBooks[Job]):
    """Books whose machine has slots."""

    def _slot_problem(self, job: Job) -> str | None:
        return None


class Twins:
    """Both books, to which the same happens."""

    def __init__(self, random: Random) -> None:
        self.random = random
        width = random.choice((1, 2))
        nodes = tuple(
            m.NodeClass(
                random.randint(1, 4), 1, random.choice((1, 2)), width, 8, 0, 0, 0, random.choice((0, 6)), None, gpus
            )
            for gpus in random.sample(((), (("gpu", 2),)), random.choice((1, 2)))
        )
        can = m.Capabilities(
            limits_grow=random.random() < 0.5,
            limit_grain_us=random.choice((1, 7)),
            layout=random.choice((m.ANY_LAYOUT, m.FILLED)),
        )
        machine = m.Welcome(
            *(
                m.PROTOCOL_VERSION,
                m.FEATURES,
                0,
                0,
                nodes,
                (),
                m.Belief("none", "bulk-synchronous", ()),
                (),
                (),
                (),
                (),
            ),
            resume_us=3,
            capabilities=can,
            licences=(("solver", 2),),
        )
        self.kept = Books(machine._replace(slots=m.SlotState(10 * S, 0, ())))
        self.literal = SlottedBooks(machine, Job)
        self.submitted = 0

    def act(self, action: m.Action) -> bool:
        refusals = (self.kept.act(action), self.literal.act(action))
        assert (refusals[0] is None) == (refusals[1] is None), (action, refusals)
        return refusals[0] is None

    def happen(self, event: m.Event) -> None:
        self.kept.happen((event,))
        self.literal.happen(event)

    def step(self) -> None:
        """Let time pass and something happen."""
        kept, literal = self.kept, self.literal
        literal.now_us = kept.ledger.now_us = literal.now_us + self.random.randint(0, 2 * S)
        kept.seq = literal.seq = literal.seq + 1
        self.one()
        assert kept.inventory()._replace(slots=None) == literal.inventory()
        now, anew = kept.ledger, Ledger(kept.inventory())
        assert [now.pools.free(slot) for slot in range(3)] == [anew.pools.free(slot) for slot in range(3)]
        for name in ("free_memory_mb", "free_swap_mb"):
            assert getattr(now.pool, name) == getattr(anew.pool, name)
        assert now.pool.counts.resources == anew.pool.counts.resources
        assert now.pool.counts.licences == anew.pool.counts.licences
        for name in ("releases", "on_disk", "away", "measured"):
            assert getattr(now, name) == getattr(anew, name)

    def one(self) -> None:
        random = self.random
        pending, running = self.literal.in_state("pending"), self.literal.in_state("running")
        kinds = ["submit", "start", "start", "start", "node"] if pending else ["submit", "node"]
        kinds += ["end", "action", "action", "itself"] if running else []
        match random.choice(kinds):
            case "submit":
                self.happen(m.JobSubmitted(self.job()))
            case "start":
                self.start(random.choice(pending), pending)
            case "end":
                job_id = random.choice(running).spec.id
                late = m.ActionRefused(0, 0, "late", (job_id,))
                self.happen(random.choice((m.JobEnded(job_id, m.COMPLETED), m.JobRequeued(job_id), late)))
            case "action":
                self.change(random.choice(running))
            case "node":
                node = random.randrange(self.literal.machine.nodes)
                self.happen(m.NodeReturned(node) if node in self.literal.down else m.NodeFailed(node))
            case _:
                self.itself(random.choice(running), pending)

    def job(self) -> m.JobSpec:
        random = self.random
        self.submitted += 1
        limit_us = random.choice((None, 10 * S))
        least, most = random.choice(((1, 0), (0, 0), (1, 1), (2, 2)))
        return m.JobSpec(
            *(self.submitted, self.literal.now_us, random.randint(1, 4), 5 * S, limit_us, "", "", least, most),
            threads_per_process=random.choice((1, 1, 2)),
            memory_mb=random.choice((0, 1, 3)),
            exclusive=random.random() < 0.2,
            eligible=random.choice(((), (), ((0, 2),))),
            resources=random.choice(((), (), (("gpu", 1),))),
            licences=random.choice(((), (), (("solver", 1),))),
        )

    def runs(self, spec: m.JobSpec, slot: int) -> tuple[m.Run, ...]:
        """Return a place, mostly a possible one."""
        random, literal = self.random, self.literal
        held = literal._held_threads(slot) if random.random() < 0.8 else set()
        runs: list[m.Run] = []
        left = spec.processes
        for node in random.sample(range(literal.machine.nodes), literal.machine.nodes):
            width = literal.machine.threads_of[node]
            free = [thread for thread in range(width) if (node, thread) not in held]
            count = min(left, len(free) // spec.threads_per_process, spec.ppn_max or left)
            if count and (node not in literal.down or random.random() < 0.1):
                taken = free if spec.exclusive else free[: count * spec.threads_per_process]
                runs.append(m.Run(node, 1, ThreadMask(sum(1 << thread for thread in taken)), count))
                left -= count
        if not runs or random.random() < 0.1:
            first = random.randrange(literal.machine.nodes)
            runs.append(m.Run(first, 1, ThreadMask(random.randint(1, 3)), random.randint(1, 2)))
        return tuple(runs)

    def asked(self, job: Job) -> m.StartJob:
        slot = self.random.choice((0, 0, 1, 2))
        limit_us = self.random.choice((job.spec.limit_us, job.spec.limit_us, 11 * S, 3 * S))
        return m.StartJob(job.spec.id, self.runs(job.spec, slot), self.random.choice((5 * S, 5 * S, 0)), limit_us, slot)

    def start(self, job: Job, pending: list[Job]) -> None:
        start = self.asked(job)
        other = self.random.choice(pending)
        if other is not job and self.random.random() < 0.3:
            self.act(m.StartTogether((start, self.asked(other))))
            return
        before = copy(self.literal.jobs[job.spec.id])
        if self.act(start) and self.random.random() < 0.2:  # a manager takes no notice of it, at once or after all
            if self.random.random() < 0.5:
                self.kept.take_back(job.spec.id)
                self.literal._leave(self.literal.jobs[job.spec.id], "pending")
            else:
                self.kept.put_back(start, {})
                self.literal.jobs[job.spec.id] = before

    def change(self, job: Job) -> None:
        """Decide about a running job; the manager may refuse it after all."""
        job_id = job.spec.id
        action, before, running = self.action(job), copy(job), self.kept.ledger.running[job_id]
        if self.act(action) and self.random.random() < 0.2:
            self.kept.put_back(action, {job_id: running})
            before.measured_ppm = self.literal.jobs[job_id].measured_ppm
            self.literal.jobs[job_id] = before

    def action(self, job: Job) -> m.Action:
        random, job_id = self.random, job.spec.id
        return random.choice(
            (
                m.SuspendJob(job_id, random.random() < 0.7),
                m.ResumeJob(job_id),
                m.ResumeJob(job_id),
                m.ChangeSlot(job_id, random.randint(0, 2)),
                m.ReviseJob(job_id, random.choice((0, 7 * S)), random.choice((None, job.limit_us, 30 * S))),
                m.KillJob(job_id),
                m.RejectJob(job_id, "no"),
            )
        )

    def itself(self, job: Job, pending: list[Job]) -> None:
        """Let the manager do what no scheduler has asked for, on threads that no other job has."""
        random, now_us = self.random, self.literal.now_us
        spec = job.spec
        if random.random() < 0.3:
            started = random.choice([*pending, job])
            runs = self.runs(started.spec, 0)
            there = places(runs)
            exist = all(thread < self.literal.machine.threads_of[node] for node, thread in there)
            once = len({run.first for run in runs}) == len(runs)
            whole = sum(run.processes for run in runs) == started.spec.processes
            if exist and once and whole and not self.others(started, 0) & set(there):
                self.happen(m.JobStarted(started.spec.id, now_us, runs, 5 * S, started.spec.limit_us, 0, None))
        elif random.random() < 0.3:
            self.happen(m.ProgressMeasured(spec.id, 1_300_000))
        elif random.random() < 0.3:
            self.happen(m.JobModified(spec._replace(memory_mb=random.choice((0, 2)), name="other")))
        elif job.suspended_us is None:
            self.happen(m.JobSuspended(spec.id, now_us, random.random() < 0.5))
        elif not (job.on_disk and self.others(job, job.slot) & set(places(job.runs))):
            self.happen(m.JobResumed(spec.id, now_us))

    def others(self, job: Job, slot: int) -> set[tuple[int, int]]:
        """Return the threads that other jobs hold in a slot."""
        own = job.state == "running" and job.slot == slot and not job.on_disk
        return self.literal._held_threads(slot) - set(places(job.runs) if own else ())


@pytest.mark.by_default(40)
@pytest.mark.parametrize("seed", range(800))
def test_books_with_pools_are_the_literal_ones(seed: int) -> None:
    twins = Twins(Random(seed))
    for _ in range(150):
        twins.step()
    assert twins.submitted > 10
