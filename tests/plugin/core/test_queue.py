"""The queue: after any changes its order, its arrays and its fast searches agree with a sorted list."""

from __future__ import annotations

from random import Random

import pytest

from cosched_plugin.ledger.ledger import Queue
from cosched_plugin.protocol.messages import JobSpec


def drawn(random: Random, number: int, at_us: int) -> JobSpec:
    memory_mb = random.choice((0, 0, 0, 5))
    return JobSpec(number, at_us, random.randint(1, 40), random.randint(1, 1000), memory_mb=memory_mb)


def fitting(jobs: list[JobSpec], threads: int, longest_us: int, extra: int) -> list[JobSpec]:
    return [
        job for job in jobs if job.processes <= threads and (job.estimate_us <= longest_us or job.processes <= extra)
    ]


@pytest.mark.parametrize(
    ("seed", "most"), [(1, 5), (2, 60), (3, 130), (4, 400), pytest.param(5, 1500, marks=pytest.mark.slow)]
)
def test_a_queue_agrees_with_a_sorted_list(seed: int, most: int) -> None:
    random = Random(seed)
    queue = Queue(drawn(random, number, number) for number in (3, 1, 2))
    jobs = sorted(queue.values(), key=lambda job: (job.submit_us, job.id))
    away: list[JobSpec] = []
    for number in range(4, 4 + 4 * most):
        changes = queue.changes
        grows = random.random() < (0.8 if number < 2 * most else 0.3)
        if grows or not jobs:
            back = away and random.random() < 0.2
            job = (
                away.pop(random.randrange(len(away))) if back else drawn(random, number, number + random.randint(0, 1))
            )
            at_the_end = not jobs or (job.submit_us, job.id) > (jobs[-1].submit_us, jobs[-1].id)
            queue.enter(job)
            jobs = sorted([*jobs, job], key=lambda job: (job.submit_us, job.id))
            assert at_the_end or queue.changes > changes
        else:
            job = jobs.pop(random.choice((0, -1, random.randrange(len(jobs)))))
            assert queue.take(job.id) is job
            assert queue.changes > changes
            away.append(job)
        assert list(queue.values()) == jobs
        assert queue.particular == sum(job.memory_mb > 0 for job in jobs)
        if number % 7 == 0:
            asked = (random.randint(0, 40), random.randint(0, 1000), random.randint(0, 40))
            assert queue.fitting(*asked) == fitting(jobs, *asked)
            queue.check()
        if jobs:
            assert queue.first() == jobs[0]
    assert queue.take(-1) is None


def test_arrivals_at_the_end_do_not_count_as_changes() -> None:
    queue = Queue()
    for number in range(1, 300):
        queue.enter(JobSpec(number, number, 1, 1))
        assert queue.fitting(1, 1, 1) == list(queue.values())
    assert queue.changes == 0
    queue.enter(JobSpec(300, 5, 1, 1))
    assert queue.changes == 1
    assert [*queue][4:6] == [5, 300]


def test_a_job_is_pending_only_once() -> None:
    queue = Queue([JobSpec(1, 0, 1, 1)])
    with pytest.raises(ValueError, match="job 1 waits already"):
        queue.enter(JobSpec(1, 7, 2, 1))
    assert list(queue.values()) == [JobSpec(1, 0, 1, 1)]


@pytest.mark.parametrize("length", [3, 300])
def test_check_finds_damage(length: int) -> None:
    queue = Queue(JobSpec(number, number, 1, 1) for number in range(1, length + 1))
    queue.fitting(1, 1, 1)
    queue.check()
    queue[2] = JobSpec(2, 2, 1, 1, memory_mb=1)
    with pytest.raises(AssertionError, match="care where they run"):
        queue.check()
    queue[2] = JobSpec(2, 2, 1, 1)
    dict.__delitem__(queue, 1)
    if length > 100:
        with pytest.raises(AssertionError, match="arrays"):
            queue.check()
