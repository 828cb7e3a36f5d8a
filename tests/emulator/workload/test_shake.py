"""Run times shaken a little: what changes, and that nothing else does."""

from __future__ import annotations

from cosched_emulator.workload.job import Workload, WorkloadJob
from cosched_emulator.workload.scaling import with_shaken_runs
from cosched_hwmodel.draws import uniform
from cosched_plugin.protocol.messages import JobSpec

SECOND = 1_000_000


def job(source_id: int, run_s: int, estimate_s: int, *, limited: bool = True) -> WorkloadJob:
    estimate_us = estimate_s * SECOND
    spec = JobSpec(source_id, source_id, 2, estimate_us, estimate_us if limited else None, "7")
    return WorkloadJob(spec, run_s * SECOND, None, source_id)


def test_run_times_by_hand() -> None:
    before = Workload(tuple(job(number, 1_000, 5_000) for number in range(1, 41)), 8, "by hand")
    found = with_shaken_runs(before, 0.02, shake_seed=3, seed=5)
    for one, was in zip(found.jobs, before.jobs, strict=True):
        draw = uniform(5, "shake", 3, one.source_id, 0)
        assert one.run_us == round(1_000 * SECOND * (1 + 0.02 * (2 * draw - 1)))
        assert 980 * SECOND <= one.run_us <= 1_020 * SECOND
        assert one._replace(run_us=was.run_us) == was
    assert found.notes == ("run times shaken by up to 2 %, seeds 5 and 3",)
    assert min(one.run_us for one in found.jobs) < 985 * SECOND
    assert max(one.run_us for one in found.jobs) > 1_015 * SECOND
    assert found.jobs == with_shaken_runs(before, 0.02, shake_seed=3, seed=5).jobs
    for other in (with_shaken_runs(before, 0.02, 4, 5), with_shaken_runs(before, 0.02, 3, 6)):
        assert other.jobs != found.jobs
    window = with_shaken_runs(before._replace(jobs=before.jobs[10:]), 0.02, 3, 5)
    assert window.jobs == found.jobs[10:]


def test_every_job_stays_on_its_side_of_its_estimate() -> None:
    numbers = range(1, 31)
    exact = with_shaken_runs(Workload(tuple(job(n, 100, 100) for n in numbers), 8, "exact"), 0.1).jobs
    assert {one.run_us for one in exact}.isdisjoint({100 * SECOND})
    assert all(one.run_us == one.spec.estimate_us == one.spec.limit_us for one in exact)
    tight = with_shaken_runs(Workload(tuple(job(n, 100, 101) for n in numbers), 8, "tight"), 0.1).jobs
    assert max(one.run_us for one in tight) == 101 * SECOND  # cut at the limit
    assert min(one.run_us for one in tight) < 95 * SECOND
    assert {one.spec.estimate_us for one in tight} == {one.spec.limit_us for one in tight} == {101 * SECOND}
    killed = with_shaken_runs(Workload(tuple(job(n, 100, 99) for n in numbers), 8, "killed"), 0.1).jobs
    assert min(one.run_us for one in killed) == 99 * SECOND + 1
    assert {one.spec.limit_us for one in killed} == {99 * SECOND}
    free = with_shaken_runs(Workload(tuple(job(n, 100, 100, limited=False) for n in numbers), 8, "free"), 0.1).jobs
    assert all(one.run_us == one.spec.estimate_us for one in free)
    assert {one.spec.limit_us for one in free} == {None}
