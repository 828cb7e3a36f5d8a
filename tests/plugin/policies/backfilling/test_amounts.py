"""Memory, node sets, countable resources and licences under EASY and conservative backfilling, beside a slow reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pytest
from tests.reference import amounts
from tests.reference.amounts import Machine, Node, Site

from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.manager.agenda import Agenda
from cosched_emulator.manager.manager import Manager
from cosched_emulator.run.loop import Simulation
from cosched_emulator.workload.job import WorkloadJob
from cosched_plugin.common.threads import bits_of, each_mask
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.protocol.messages import Belief, JobSpec, NodeClass
from cosched_plugin.testing import check_policy

SITES = 40
LICENCES = (("mesher", 1), ("solver", 3))
Starts = dict[int, tuple[int, frozenset[tuple[int, int]]]]


def drawn_classes(random: Random) -> list[NodeClass]:
    """Two classes of nodes, of which one has more of what is counted; in some sites of many threads."""
    wide = random.random() < 0.25  # looked at in arrays
    return [
        NodeClass(random.randint(1, 3), 1, threads, 1, memory_mb, 0, 0, 0, resources=resources)
        for threads, memory_mb, resources in (
            (random.choice((9, 12)) if wide else random.randint(1, 3), 8, ()),
            (random.choice((9, 16)) if wide else random.randint(1, 4), 16, (("gpu", random.randint(1, 3)),)),
        )
    ]


def site_of(classes: list[NodeClass]) -> Site:
    nodes = [Node(each.threads, each.memory_mb, dict(each.resources)) for each in classes for _ in range(each.nodes)]
    return Site(nodes, dict(LICENCES))


def drawn_jobs(random: Random, site: Site, many: int = 30) -> list[amounts.Job]:
    """Jobs that the empty machine holds, a bit more than it can run."""
    found: list[amounts.Job] = []
    submit, every = 0, range(len(site.nodes))
    while len(found) < many:
        run = random.randint(1, 12)
        first = random.choice(every)
        job = amounts.Job(
            len(found) + 1,
            submit,
            random.choice((1, 1, 2, 3, sum(node.threads for node in site.nodes) // 2 or 1)),
            run,
            run + random.choice((0, 0, random.randint(0, 10))),
            random.choice((0, 0, 3, 5)),
            random.choice((0, 0, 1, 2)),
            frozenset(every if random.random() < 0.5 else range(first, random.randint(first, every[-1]) + 1)),
            {"gpu": random.randint(1, 2)} if random.random() < 0.3 else {},
            {random.choice(LICENCES)[0]: 1} if random.random() < 0.3 else {},
        )
        if amounts.place(site, job, 0, 1, []) is not None:
            found.append(job)
            submit += random.choice((0, 0, 1, 2, 5))
    return found


def starts_under(policy: Mapping[str, Any], classes: list[NodeClass], jobs: list[amounts.Job]) -> Starts:
    workload = []
    for job in jobs:
        spec = JobSpec(
            job.id,
            job.submit,
            job.processes,
            job.estimate,
            memory_mb=job.memory,
            ppn_max=job.most,
            eligible=((min(job.nodes), len(job.nodes)),),
            resources=tuple(job.counted.items()),
            licences=tuple(job.licences.items()),
        )
        workload.append(WorkloadJob(spec, job.run, None, job.id))
    manager = Manager(classes, Belief("none", "bulk-synchronous"), None, licences=LICENCES)
    link = DirectLink(lambda welcome: SchedulerCore(compose(policy), welcome))
    found: Starts = {}
    for record in Simulation(manager, Agenda(manager, workload), link).run():
        (stay,) = record.intervals
        threads = frozenset((node, thread) for node, mask in each_mask(stay.runs) for thread in bits_of(mask))
        found[record.job.spec.id] = (stay.start_us, threads)
    assert manager.refused == 0
    return found


@pytest.mark.parametrize(
    ("table", "reference"),
    [
        ({"preset": "easy"}, lambda: amounts.easy),
        ({"preset": "easy", "placement": "lessconsume"}, lambda: amounts.easy),
        ({"preset": "conservative"}, amounts.Conservative),
    ],
    ids=["easy", "lessconsume", "conservative"],
)
def test_starts_and_threads_are_those_of_the_reference(
    table: Mapping[str, Any], reference: Callable[[], Callable[[Machine], None]]
) -> None:
    waited = 0
    for seed in range(SITES):
        random = Random(f"amounts {seed}")
        classes = drawn_classes(random)
        site = site_of(classes)
        jobs = drawn_jobs(random, site)
        expected = amounts.simulate(jobs, site, reference())
        assert starts_under(table, classes, jobs) == expected, seed
        waited += sum(expected[job.id][0] > job.submit for job in jobs)
    assert waited > 10 * SITES


def test_a_job_on_a_failed_node_gives_its_licences_back_when_it_ends() -> None:
    """No thread comes free then, and a promise may move all the same: a restarted scheduler finds that, so a kept plan must."""
    assert check_policy(lambda: compose({"preset": "conservative"}), seed=7, first=139, runs=1).eased == 0
