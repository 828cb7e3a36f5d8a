"""LessConsume and RUA under beliefs about pairs of jobs, against enumeration unit by unit of time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import fsum
from random import Random
from typing import NamedTuple

import pytest
from tests.plugin.policies.cases import NOW_US, welcome_of
from tests.runs import runs_on

from cosched_hwmodel.contention import Load
from cosched_hwmodel.models.by_name import AllowedModels
from cosched_hwmodel.pairs import PairContention
from cosched_hwmodel.topology import NodeShape
from cosched_hwmodel.units import ThreadMask
from cosched_plugin.api import JobFacts, PairModel, View, snapshot_now
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.policies.placement.compact import FirstFit
from cosched_plugin.policies.planning.losses import factor_of
from cosched_plugin.policies.rua.lessconsume import LessConsume
from cosched_plugin.protocol.messages import Belief, JobSpec, NodeClass, Run, RunningJob, StartJob

RESOURCE_FREE = (0, 0, 0)


class ByName:
    """Jobs of the same name cost each other much, jobs without a name nothing; one pair is unknown."""

    def knows(self, job: JobFacts) -> bool:
        return bool(job.name)

    def slowdown(self, job: JobFacts, other: JobFacts) -> float:
        return 1.5 if job.name == other.name else float("inf") if (job.name, other.name) == ("b", "c") else 1.0


class SameCore(PairModel):
    """Threads count: a job is slowed by a partner on its cores, of a node of two cores."""

    name = "same-core"
    by_seat = True

    def slowdown(self, job: JobFacts, other: JobFacts) -> float:
        return 1.0

    def slowdown_on(
        self,
        job: JobFacts,
        mask: ThreadMask,
        other: JobFacts,
        other_mask: ThreadMask,
        *,
        kind: int = 0,
        threads: tuple[int, int] = (1, 1),
    ) -> float:
        shared = (mask | mask >> 2) & (other_mask | other_mask >> 2) & 3
        return 1.0 + 0.25 * shared.bit_count()


NAMES = {"names": f"{__name__}:ByName", "seats": f"{__name__}:SameCore"}
BELIEFS = {
    "statistical": Belief("statistical", "bulk-synchronous", (), (("pair_seed", 3), ("shares", (40, 30, 20, 10)))),
    "lomarc": Belief("lomarc", "bulk-synchronous", ()),
    **{key: Belief(name, "bulk-synchronous", ()) for key, name in NAMES.items()},
}
MODELS = AllowedModels(NAMES.values())
USAGES = (("cpu", 700_000, 200_000, 100_000, 100_000), ("disk", 200_000, 200_000, 600_000, 100_000), None)


class Resident(NamedTuple):
    end: int
    load: Load


class Case(NamedTuple):
    view: View
    job: JobSpec
    free: list[int]  # by node: free threads as a mask
    residents: list[list[Resident]]
    node: NodeShape
    contention: PairContention

    def loss(self, node: int, processes: int) -> float:
        """Return the time lost on a node with up to this many processes on its lowest free threads, unit by unit."""
        worst = 0.0
        for count in range(1, processes + 1):
            threads = [thread for thread in range(self.node.threads) if self.free[node] >> thread & 1][:count]
            own = Load(self.job.id, count, ThreadMask(sum(1 << thread for thread in threads)), RESOURCE_FREE)
            lost = fsum(
                self.contention.penalties(self.node, [own, *(r.load for r in self.residents[node] if r.end > unit)])[0]
                for unit in range(self.job.estimate_us)
            )
            worst = max(worst, lost)
        return worst

    def least_factor(self) -> float | None:
        """Return the smallest factor of all distributions over the nodes."""
        rooms = [free.bit_count() for free in self.free]
        times = [[self.loss(node, count) for count in range(room + 1)] for node, room in enumerate(rooms)]
        worst = [
            max(times[node][count] for node, count in enumerate(counts))
            for counts in product(*(range(room + 1) for room in rooms))
            if sum(counts) == self.job.processes
        ]
        return 1.0 + min(worst) / self.job.estimate_us if worst else None


def spec(random: Random, number: int, processes: int, estimate_us: int) -> JobSpec:
    return JobSpec(
        number, 0, processes, estimate_us, None, name=random.choice(("a", "b", "c", "")), usage=random.choice(USAGES),
        self_slowdown=random.choice(((950_000, 1_100_000), (1_200_000, 1_050_000), None)),
    )  # fmt: skip


def draw_case(random: Random, belief: Belief) -> Case:
    """Draw 1 to 3 nodes of 2 x 2 threads with running jobs, and one pending job."""
    nodes = random.randint(1, 3)
    shape = NodeShape("", 2, 1, 1, 2)
    free = [15] * nodes
    residents: list[list[Resident]] = [[] for _ in range(nodes)]
    running = []
    for number in range(1000, 1000 + random.randint(0, 5)):
        places = [(node, thread) for node in range(nodes) for thread in range(4) if free[node] >> thread & 1]
        masks: dict[int, int] = {}
        for node, thread in random.sample(places, min(len(places), random.randint(1, 3))):
            masks[node] = masks.get(node, 0) | 1 << thread
        job = spec(random, number, sum(mask.bit_count() for mask in masks.values()), NOW_US + random.randint(1, 8))
        for node, mask in masks.items():
            free[node] &= ~mask
            load = Load(number, mask.bit_count(), ThreadMask(mask), RESOURCE_FREE)
            residents[node].append(Resident(job.estimate_us - NOW_US, load))
        if masks:
            runs = tuple(Run(node, 1, ThreadMask(mask), mask.bit_count()) for node, mask in sorted(masks.items()))
            running.append(RunningJob(job, 0, runs, job.estimate_us, None))
    job = spec(random, 1, random.randint(1, 4 * nodes), random.randint(1, 6))
    welcome = welcome_of([NodeClass(nodes, 2, 1, 2, 1, 0, 0, 0)], running, [job], belief)
    view = SchedulerCore(compose({"preset": "fcfs"}), welcome, models=MODELS).view
    assert view.pairs is not None
    jobs = {item.id: item for item in (job, *(told.spec for told in running))}
    return Case(view, job, free, residents, shape, PairContention(view.pairs, jobs, 2.0))


@pytest.mark.parametrize("belief", BELIEFS)
def test_the_factor_is_the_least_of_all_distributions(belief: str) -> None:
    random = Random(belief)
    placed = lossy = improved = 0
    for _ in range(120):
        case = draw_case(random, BELIEFS[belief])
        snapshot = snapshot_now(case.view)
        offer = LessConsume().offer(case.job, snapshot)
        expected = case.least_factor()
        assert (offer is None) == (expected is None)
        if offer is None or expected is None:
            continue
        placed += 1
        lossy += expected > 1.0
        assert offer.factor == pytest.approx(expected, abs=1e-9)
        assert factor_of(case.job, snapshot, offer.runs) <= offer.factor + 1e-9
        first = FirstFit().offer(case.job, snapshot)
        assert first is not None
        improved += factor_of(case.job, snapshot, first.runs) > offer.factor + 1e-9
    assert placed > 30
    assert lossy > 5
    assert improved > 1


def view_of(names: Sequence[str], waiting: Sequence[JobSpec], belief: str = "names") -> View:
    """Return nodes of four threads, each with a running job of one of these names on its first two threads."""
    running = [
        RunningJob(
            JobSpec(100 + node, 0, 2, NOW_US + 10, None, name=name), 0, runs_on((node, 1, 3, 2)), NOW_US + 10, None
        )
        for node, name in enumerate(names)
    ]
    welcome = welcome_of([NodeClass(len(names), 1, 4, 1, 1, 6000, 0, 0)], running, waiting, BELIEFS[belief])
    return SchedulerCore(compose({"preset": "lc"}), welcome, models=MODELS).view


def job_named(name: str, number: int = 1, processes: int = 2, estimate_us: int = 20) -> JobSpec:
    return JobSpec(number, NOW_US, processes, estimate_us, None, name=name)


def place_of(name: str, names: Sequence[str]) -> tuple[int, float, int]:
    """Return node, factor and planned run time of a job of two processes and 20 us, beside jobs that run for another 10."""
    job = job_named(name)
    offer = LessConsume().offer(job, snapshot_now(view_of(names, [job])))
    assert offer is not None
    return offer.runs[0].first, offer.factor, offer.run_us


def test_a_job_goes_where_its_neighbour_costs_nothing() -> None:
    assert place_of("a", ("a", "b")) == (1, 1.0, 20)
    assert place_of("b", ("a", "b")) == (0, 1.0, 20)


def test_rua_starts_identical_jobs_of_other_names_and_waits_with_a_bad_pair() -> None:
    """Both candidates ask for the same; only the second has a good neighbour now. The first is worth waiting for."""
    waiting = [job_named("a", 1, 2, 10), job_named("b", 2, 2, 10)]
    running = RunningJob(
        JobSpec(100, 0, 2, NOW_US + 1, None, name="a"), 0, runs_on((0, 1, 3, 2)), NOW_US + 1, None
    )  # fmt: skip
    late = RunningJob(JobSpec(101, 0, 4, NOW_US + 50, None, name="c"), 0, runs_on((1, 1, 15, 4)), NOW_US + 50, None)
    welcome = welcome_of([NodeClass(2, 1, 4, 1, 1, 0, 0, 0)], [running, late], waiting, BELIEFS["names"])
    rua = {"preset": "rua", "backfill": {"name": "rua", "thresholds": [1.0]}}
    actions = SchedulerCore(compose(rua), welcome, models=MODELS).handle(NOW_US, ())
    assert [action.job_id for action in actions if isinstance(action, StartJob)] == [2]
