"""A site that shares its time, and what random jobs consume in it: what gang scheduling decides is compared with the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from random import Random
from typing import Any

from tests.reference.gang import PPM, Job, Quantum, Rules, Scheduler

from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.core.trace import TraceSink
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.protocol import messages as m

QUANTUM_US = 1_000_000


def welcome_to(nodes: Sequence[m.NodeClass]) -> m.Welcome:
    """Return the welcome of an empty machine with slots."""
    belief = m.Belief("none", "bulk-synchronous", ())
    slots = m.SlotState(QUANTUM_US)
    return m.Welcome(m.PROTOCOL_VERSION, m.FEATURES, 0, 0, tuple(nodes), (), belief, (), (), (), (), slots=slots)


def spec_of(job_id: int, size: int, *, unpaired: bool = False, memory_mb: int = 0) -> m.JobSpec:
    """Return a job with a process on each of ``size`` nodes."""
    return m.JobSpec(job_id, 0, size, QUANTUM_US, None, memory_mb=memory_mb, unpaired=unpaired)


class Site:
    """A manager in miniature: it rotates, and ends a quantum whenever it is told to."""

    def __init__(
        self, policy: Mapping[str, Any], nodes: int = 8, memory_mb: int = 0, trace: TraceSink | None = None
    ) -> None:
        self.core = SchedulerCore(compose(policy), welcome_to([m.NodeClass(nodes, 1, 1, 1, memory_mb, 0, 0, 0)]), trace)
        self.view = self.core.view
        self.quantum = 0
        self.running = False  # a quantum has begun
        self.now_us = 0

    def batch(self, *events: m.Event) -> list[m.Action]:
        """Tell the scheduler of something in the middle of a quantum."""
        self.now_us += 1
        return self._handle(events)

    def end(
        self, shares: Mapping[int, float], ended: Sequence[int] = (), arrived: Sequence[m.JobSpec] = ()
    ) -> list[m.Action]:
        """End the quantum: what jobs consumed in it, in parts of the CPU, and which ended just then."""
        self.now_us += QUANTUM_US
        events: list[m.Event] = [m.JobEnded(job_id, m.COMPLETED) for job_id in ended]
        if any(job_id not in ended for job_id in self.view.running):
            self.quantum += 1
            told = tuple(sorted((job_id, round(share * PPM)) for job_id, share in shares.items()))
            events.append(m.QuantumEnded(self.quantum, self.now().row, 0, told))
        events += [m.JobSubmitted(job) for job in arrived]
        return self._handle(events)

    def _handle(self, events: Sequence[m.Event]) -> list[m.Action]:
        actions = self.core.handle(self.now_us, events)
        self.core.check()
        return actions

    def now(self) -> Quantum:
        """Return what runs in the present quantum."""
        turn = self.view.rotation.turns[0]
        return Quantum(turn.slots[0], turn.slots[1] if len(turn.slots) > 1 else None, turn.guests)

    def members(self) -> list[int]:
        """Return the jobs that run in the present quantum."""
        turn = self.view.rotation.turns[0]
        return sorted(
            job_id
            for job_id, running in self.view.running.items()
            if running.slot in turn.slots or job_id in turn.guests
        )

    def rows(self) -> dict[int, list[int]]:
        """Return the jobs by slot."""
        found: dict[int, list[int]] = {}
        for job_id, running in sorted(self.view.running.items()):
            found.setdefault(running.slot, []).append(job_id)
        return dict(sorted(found.items()))


def rules_of(table: Mapping[str, Any]) -> Rules:
    """Return the settings of a composition in the reference's words."""
    backfill, pairing = table["backfill"], table["pairing"]
    band = backfill.get("band", 0)
    return Rules(
        matching=pairing["name"],
        margin=Fraction(str(pairing.get("margin", 1))) / 100,
        band=Fraction(str(band)) / 100 if band else None,
        alternates=backfill.get("alternates", "max"),
        second=backfill.get("alternates_when_unmatched", False),
        place_fresh=backfill.get("place_fresh", "any"),
        sharp_change=backfill.get("sharp_change", "off"),
        pad=backfill.get("pad", False),
        compaction=backfill.get("compaction", False),
        rows=backfill.get("rows", 0),
    )


def random_table(random: Random) -> dict[str, Any]:
    """Draw a composition of gang scheduling."""
    pairing = random.choice(("none", "predesigned", "predesigned", "printed", "best-fit", "best-fit", "blind"))
    band = random.choice((0, 10, 20, 60))
    backfill: dict[str, Any] = {
        "name": "gang",
        "band": band,
        "alternates": random.choice(("off", "max", "node", "band") if band else ("off", "max", "node")),
        "place_fresh": random.choice(("any", "any", "new", "band") if band else ("any", "new")),
        "compaction": random.random() < 0.3,
        "pad": random.random() < 0.3,
        "rows": random.choice((0, 0, 0, 3)),
    }
    if pairing != "none":
        backfill["alternates_when_unmatched"] = random.random() < 0.4
        backfill["sharp_change"] = random.choice(("off", "rise", "any"))
    table = {"backfill": backfill, "pairing": {"name": pairing}}
    if pairing not in ("none", "blind") and random.random() < 0.3:
        table["pairing"]["margin"] = random.choice((0, 0.5, 10))
    return table


class Workload:
    """Jobs that come and go, and what each consumes."""

    def __init__(self, random: Random, nodes: int) -> None:
        self._random = random
        self._nodes = nodes
        self._usual: dict[int, float] = {}
        self._next = 1

    def arrivals(self, most: int) -> list[m.JobSpec]:
        """Draw new jobs."""
        random = self._random
        jobs = []
        for _ in range(random.choice((0, 0, 0, 0, 1, 1, most))):
            size = min(self._nodes, random.choice((1, 1, 1, 2, 2, 3, 4, 5, max(1, self._nodes // 2), self._nodes)))
            jobs.append(spec_of(self._next, size, unpaired=random.random() < 0.02))
            self._usual[self._next] = random.choice((0.0, 0.02, 0.45, 0.495, 0.97, random.random()))
            self._next += 1
        return jobs

    def shares(self, jobs: Sequence[int]) -> dict[int, float]:
        """Draw what jobs consume in a quantum; some are not measured."""
        random = self._random
        found = {}
        for job_id in jobs:
            if random.random() < 0.05:
                self._usual[job_id] = random.random()
            if random.random() < 0.95:
                noise = random.choice((0.0, 0.0, random.uniform(-0.05, 0.05)))
                found[job_id] = round(max(0.0, self._usual[job_id] + noise), 6)
        return found


def compare(seed: int, steps: int) -> None:
    """Compare quantum by quantum what gang scheduling does with what the reference does, on random jobs and settings."""
    random = Random(seed)
    nodes = random.choice((1, 6, 8, 16))
    table = random_table(random)
    site = Site(table, nodes)
    reference = Scheduler(nodes, rules_of(table))
    workload = Workload(random, nodes)
    told: list[m.JobSpec] = []  # jobs of which the reference has not been told
    gone: list[int] = []
    for step in range(steps):
        where = (seed, step, table)
        arrived = workload.arrivals(5 if step < steps // 2 else 1)
        told += arrived
        shares: dict[int, float] = {}
        before = list(site.view.running)
        if before and random.random() < 0.2:  # in the middle of a quantum
            cancelled = [job_id for job_id in before if random.random() < 0.03]
            gone += cancelled
            actions = site.batch(
                *[m.JobEnded(job_id, m.COMPLETED) for job_id in cancelled], *map(m.JobSubmitted, arrived)
            )
            if len(cancelled) < len(before):
                assert actions == [], where
                continue
        else:
            members = site.members() if before else []
            ended = [job_id for job_id in members if random.random() < 0.15]
            gone += ended
            shares = {job_id: share for job_id, share in workload.shares(members).items() if job_id not in ended}
            site.end(shares, ended, arrived)
        expected = reference.step(
            {job_id: Fraction(round(share * PPM), PPM) for job_id, share in shares.items()},
            gone,
            [Job(job.id, job.processes, job.unpaired) for job in told],
        )
        told, gone = [], []
        assert site.rows() == {slot: reference.row(slot) for slot in reference.slots()}, where
        assert [job.id for job in site.view.queue] == [job.id for job in reference.queue], where
        assert (site.now() if site.view.running else None) == expected, where
