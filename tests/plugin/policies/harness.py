"""Small workloads in the real emulator, under any policy, compared exactly.

The unit of time is the microsecond on both sides: a job beyond its estimate is always expected to end one unit from now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from tests.reference.space_sharing import Job, Starts

from cosched_emulator.couplings.link import DirectLink
from cosched_emulator.manager.agenda import Agenda
from cosched_emulator.manager.manager import Manager
from cosched_emulator.run.loop import Simulation
from cosched_emulator.workload.job import WorkloadJob
from cosched_plugin.core.engine import Policy, SchedulerCore
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.protocol.messages import Belief, JobSpec, NodeClass, Welcome

NO_CONTENTION = Belief("none", "bulk-synchronous", ())


def random_jobs(random: Random, processors: int, estimates: str, jobs: int = 40) -> list[Job]:
    """Draw jobs that arrive a bit faster than the machine can run them; ``estimates`` is exact, over, or over-and-under."""
    submit = 0
    drawn = []
    for number in range(1, jobs + 1):
        submit += random.choice((0, 0, 1, 2, 5))
        run = random.randint(1, 12)
        estimate = {
            "exact": run,
            "over": run + random.choice((0, random.randint(0, 10))),
            "over and under": max(1, run + random.randint(-5, 5)),
        }[estimates]
        size = min(processors, random.choice((1, 1, 2, 3, 4, processors // 2, processors)))
        drawn.append(Job(number, submit, size, run, estimate))
    return drawn


def starts_under(policy: Mapping[str, Any] | Policy, jobs: Sequence[Job], processors: int, threads: int = 1) -> Starts:
    """Run ``jobs`` on nodes with ``threads`` threads each under a composition or a policy, and return every start."""
    workload = [
        WorkloadJob(JobSpec(job.id, job.submit, job.processors, job.estimate), job.run, None, job.id) for job in jobs
    ]
    assert processors % threads == 0
    manager = Manager([NodeClass(processors // threads, 1, threads, 1, 0, 0, 0, 0)], NO_CONTENTION, None)

    def core(welcome: Welcome) -> SchedulerCore:
        return SchedulerCore(compose(policy) if isinstance(policy, Mapping) else policy, welcome)

    records = Simulation(manager, Agenda(manager, workload), DirectLink(core)).run()
    assert manager.refused == 0
    manager.check()
    starts = {}
    for record in records:
        assert record.state == "COMPLETED"
        (stay,) = record.intervals
        starts[record.job.spec.id] = stay.start_us
    return starts
