"""Small machines with running jobs, as the core's view sees them and as the references of node sharing do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from random import Random
from typing import Any, NamedTuple

import pytest
from tests.reference.sharing import Bucket, Node, Placement, Process, Request
from tests.runs import run_on

from cosched_plugin.common.threads import bits_of
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.core.views.view import View
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.protocol import messages as m

NOW_US = 100
BANDWIDTH = m.Belief("bandwidth", "bulk-synchronous", ("memory_bandwidth",))


class Case(NamedTuple):
    """One machine at `NOW_US`, with running and pending jobs."""

    welcome: m.Welcome
    machine: tuple[Node, ...]  # the same for the references; time 0 is `NOW_US`
    waiting: tuple[m.JobSpec, ...]

    def view(self) -> View:
        """Return the view of a core for this machine."""
        return SchedulerCore(compose({"preset": "fcfs"}), self.welcome).view


def job_of(number: int, processes: int, demand_mbs: int, estimate_us: int, limit_us: int | None = None) -> m.JobSpec:
    return m.JobSpec(number, NOW_US, processes, estimate_us, limit_us, demand=(demand_mbs, 0, 0))


def random_case(random: Random, jobs: int = 1, busy: float = 0.5, small: bool = False) -> Case:
    """Draw 1 to 4 nodes of 2 to 4 processors, running jobs of one to three processes, and pending jobs that all fit.

    With ``small``, all jobs but the first want one or two processors.
    """
    classes = []
    capacities: list[int] = []
    threads: list[int] = []
    for _ in range(random.choice((1, 1, 2))):
        node_class = m.NodeClass(
            random.randint(1, 2), 1, random.randint(2, 4), 1, 0, random.choice((1000, 2000, 3000, 6000)), 0, 0
        )
        classes.append(node_class)
        capacities += [node_class.memory_bandwidth_mbs] * node_class.nodes
        threads += [node_class.threads] * node_class.nodes
    free = [(node, thread) for node, width in enumerate(threads) for thread in range(width)]
    running: list[m.RunningJob] = []
    residents: list[list[Process]] = [[] for _ in threads]
    while free and random.random() < busy:
        taken = sorted(random.sample(free, min(len(free), random.randint(1, 3))))
        free = [place for place in free if place not in taken]
        masks: dict[int, int] = {}
        for node, thread in taken:
            masks[node] = masks.get(node, 0) | 1 << thread
        end = random.randint(1, 8)
        demand_mbs = random.choice((500, 1000, 2000))
        job = job_of(1000 + len(running), len(taken), demand_mbs, NOW_US + end)
        runs: tuple[m.Run, ...] = tuple(run_on(node, 1, mask, mask.bit_count()) for node, mask in sorted(masks.items()))
        running.append(m.RunningJob(job._replace(submit_us=0), 0, runs, NOW_US + end, None))
        for node, thread in taken:
            residents[node].append(Process(thread, -NOW_US, end, (demand_mbs,)))
    machine = tuple(
        Node(width, (capacity,), tuple(there))
        for width, capacity, there in zip(threads, capacities, residents, strict=True)
    )
    waiting = tuple(
        job_of(
            number,
            random.randint(1, 2 if small and number > 1 else sum(threads)),
            random.choice((500, 1000, 2000)),
            random.randint(1, 6),
        )
        for number in range(1, jobs + 1)
    )
    return Case(welcome_of(classes, running, waiting), machine, waiting)


def welcome_of(
    classes: Sequence[m.NodeClass],
    running: Sequence[m.RunningJob],
    waiting: Sequence[m.JobSpec],
    belief: m.Belief = BANDWIDTH,
) -> m.Welcome:
    pending = tuple(m.PendingJob(job, False) for job in waiting)
    return m.Welcome(
        m.PROTOCOL_VERSION, m.FEATURES, 1, NOW_US, tuple(classes), (), belief, tuple(running), pending, (), ()
    )


def request_of(job: m.JobSpec) -> Request:
    assert job.demand is not None
    return Request(job.processes, job.demand[:1], job.estimate_us)


def buckets_of(runs: Sequence[m.Run]) -> tuple[Bucket, ...]:
    """Return the (node, thread) pairs of an allocation, in order."""
    return tuple((n, t) for first, count, mask, _ in runs for n in range(first, first + count) for t in bits_of(mask))


def normal(placement: Placement, machine: Sequence[Node], free: Sequence[Bucket]) -> tuple[Bucket, ...]:
    """Return a placement with the lowest free buckets of each node: buckets of one node are equivalent."""
    counts: Mapping[int, int] = {
        node: sum(1 for bucket in placement.buckets if bucket[0] == node) for node in range(len(machine))
    }
    return tuple(bucket for node, count in counts.items() for bucket in [one for one in free if one[0] == node][:count])


def close(factor: float, exact: Fraction) -> bool:
    return abs(factor - float(exact)) <= 1e-9


def variants(policies: Iterable[str], *quick: str) -> list[Any]:
    """Return policies as parameters of a test; those that are not ``quick``, which differ from one in a parameter, are slow."""
    return [policy if policy in quick else pytest.param(policy, marks=pytest.mark.slow) for policy in policies]


def sized(policies: Sequence[str], *quick: str, few: int, many: int) -> list[Any]:
    """Return (policy, number of seeds) as parameters of a test: ``quick`` ones with ``few`` seeds; all with ``many`` are slow."""
    return [
        *(pytest.param(policy, few, id=policy) for policy in quick),
        *(pytest.param(policy, many, id=f"{policy}-{many}", marks=pytest.mark.slow) for policy in policies),
    ]
