"""LOMARC's matchings with other belief models: the model's knowledge decides, and usage only if the model needs it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from tests.plugin.policies.cases import NOW_US, welcome_of
from tests.plugin.policies.lomarc.lomarc_cases import draw_spec, hyperthreaded, spec_of

from cosched_hwmodel.models.custom import CustomModel
from cosched_hwmodel.models.paper_pairs import StatisticalPairs
from cosched_hwmodel.pairs import JobFacts, PairModel
from cosched_hwmodel.statistical import StatisticalModel
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.policies.lomarc.constraints import Rules, apply_constraints, slowdown_beside
from cosched_plugin.policies.lomarc.queue_table import Jobs
from cosched_plugin.protocol.messages import Belief, JobSpec, StartJob, StartTogether, UsageTuple

FULL: UsageTuple = ("cpu", 900_000, 50_000, 50_000, 900_000)


class Even:
    """Jobs of odd numbers are unknown; all pairs compete for the same parts of a CPU."""

    by_usage = False

    def knows(self, job: JobFacts) -> bool:
        return job.id % 2 == 0

    def slowdown(self, job: JobFacts, other: JobFacts) -> float:
        return 1.1 + (job.id * 7 + other.id) % 8 / 10

    def compete(self, _job: JobFacts, _other: JobFacts) -> bool:
        return True


class EvenByUsage(Even):
    by_usage = True


def custom(kind: type) -> PairModel:
    return CustomModel(kind.__name__, kind).make_pairs(())


@pytest.mark.parametrize(
    "model", [StatisticalPairs(StatisticalModel(4)), custom(Even), custom(EvenByUsage)], ids=lambda model: model.name
)
@pytest.mark.parametrize("standard", [False, True])
def test_a_single_pair_gives_the_results_of_arrays(model: PairModel, standard: bool) -> None:
    """For a single pair the results equal those for arrays and those of the constraints."""
    random = Random(7)
    jobs = [draw_spec(random, number, 16) for number in range(1, 50)]
    jobs = [job._replace(usage=None) if job.id % 3 == 0 else job for job in jobs]
    jobs += [jobs[0]._replace(id=100, usage=FULL), jobs[1]._replace(id=102, exclusive=True)]
    rules = Rules(1.6, standard)
    columns = Jobs.of(jobs, model)
    fine = 0
    for job in jobs:
        as_host = apply_constraints(job, columns, rules, model, as_host=True)
        for place, other in enumerate(jobs):
            if other is job:
                continue
            expected = may_go_together(job, other, model, standard=standard)
            assert bool(as_host.fine[place]) == expected
            assert slowdown_beside(job, other, rules, model) == (model.both(job, other) if expected else 0.0)
            fine += expected
    assert fine > 20


def may_go_together(host: JobSpec, guest: JobSpec, model: PairModel, *, standard: bool) -> bool:
    if not all(job.estimate_us > 60_000_000 and not job.exclusive and model.knows(job) for job in (host, guest)):
        return False
    if guest.processes > host.processes or model.both(host, guest) > 1.6:
        return False
    if not model.by_usage or host.usage is None or guest.usage is None:
        return True
    bounds = {host.usage[0], guest.usage[0]}
    fits = bounds == {"cpu", "disk"} if standard else len(bounds) == 2  # of the same bound, all compete
    return fits and host.usage[4] + guest.usage[4] <= 1_000_000


@pytest.mark.parametrize("policy", ["am", "lomarc-fm", "lomarc-u1", "lomarc-r"])
def test_the_statistical_belief_pairs_jobs_of_unknown_usage(policy: str) -> None:
    """Two jobs with a small believed slowdown start together, although their usage is unknown."""
    jobs = [spec_of(number, 4, 3600, None) for number in (1, 2, 3)]
    started = first_start(policy, jobs, StatisticalModel(shares=(100,)))
    assert isinstance(started, StartTogether)
    slow = first_start(policy, jobs, StatisticalModel(shares=(0, 0, 0, 0, 0, 0, 0, 100)))
    assert isinstance(slow, StartJob)


def first_start(policy: str, jobs: list[JobSpec], model: StatisticalModel) -> object:
    belief = Belief(model.name, "bulk-synchronous", (), model.parameters())
    core = SchedulerCore(compose({"preset": policy}), welcome_of([hyperthreaded(4)], (), jobs, belief))
    return next(action for action in core.handle(NOW_US, ()) if isinstance(action, StartJob | StartTogether))


def test_the_larger_of_two_slowdowns_counts() -> None:
    """A pair whose directions differ is expected to last as long as the worse one implies."""

    class Lopsided:
        def slowdown(self, job: JobFacts, other: JobFacts) -> float:
            return 1.1 if job.id < other.id else 1.5

    make: Callable[[], object] = Lopsided
    belief = Belief("lopsided", "bulk-synchronous", ())
    jobs = [spec_of(number, 4, 3600, None) for number in (1, 2)]
    told = welcome_of([hyperthreaded(4)], (), jobs, belief)
    core = SchedulerCore(
        compose({"preset": "lomarc-u1"}), told, models={"lopsided": CustomModel("lopsided", make).make_pairs}
    )
    started = next(action for action in core.handle(NOW_US, ()) if isinstance(action, StartTogether))
    assert [start.estimate_us for start in started.starts] == [5_400_000_000, 5_400_000_000]
