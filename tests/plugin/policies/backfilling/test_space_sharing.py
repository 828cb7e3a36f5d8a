"""Our schedulers on whole workloads with the real manager: every start is that of the textbook reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from random import Random
from typing import Any

import pytest
from tests.plugin.policies.harness import random_jobs, starts_under
from tests.reference import space_sharing as reference
from tests.reference.space_sharing import Job, Starts

Textbook = Callable[[Sequence[Job], int], Starts]

ESTIMATES = ("exact", "over", "over and under")


def shortest_backfilled(jobs: Sequence[Job], processors: int) -> Starts:
    return reference.easy(jobs, processors, candidates="shortest")


def conservative(jobs: Sequence[Job], processors: int) -> Starts:
    return reference.conservative(jobs, processors)[0]


POLICIES: dict[str, tuple[dict[str, Any], Textbook]] = {
    "fcfs": ({"preset": "fcfs"}, reference.fcfs),
    "shortest": ({"order": "shortest", "backfill": "none"}, reference.shortest_first),
    "skip": ({"backfill": "skip"}, reference.skip),
    "skip-packed": ({"backfill": "skip", "placement": "packed"}, reference.skip),
    "easy": ({"preset": "easy"}, reference.easy),
    "easy-packed": ({"preset": "easy", "placement": "packed"}, reference.easy),
    "easy-lessconsume": ({"preset": "easy", "placement": "lessconsume"}, reference.easy),
    "sjbf": ({"preset": "sjbf"}, shortest_backfilled),
    "lc": ({"preset": "lc"}, shortest_backfilled),
    "lct": ({"preset": "lct"}, shortest_backfilled),
    "conservative": ({"preset": "conservative"}, conservative),
    "conservative-packed": ({"preset": "conservative", "placement": "packed"}, conservative),
}


@pytest.mark.parametrize(
    ("name", "estimates", "workloads"),
    [  # by default each policy with one kind of estimates, in turn
        *((name, ESTIMATES[number % len(ESTIMATES)], 8) for number, name in enumerate(POLICIES)),
        *(pytest.param(*case, 35, marks=pytest.mark.slow) for case in product(POLICIES, ESTIMATES)),
    ],
)
def test_every_start_is_that_of_the_textbook(name: str, estimates: str, workloads: int) -> None:
    policy, textbook = POLICIES[name]
    random = Random(f"{name} {estimates}")
    waited = 0
    for _ in range(workloads // 2 if "conservative" in name else workloads):  # the reference is slow
        processors = random.choice((4, 8, 16))
        jobs = random_jobs(random, processors, estimates)
        starts = starts_under(policy, jobs, processors, threads=random.choice((1, 1, 2, 4)))
        expected = textbook(jobs, processors)
        assert starts == expected, (jobs, {n: (starts[n], expected[n]) for n in starts if starts[n] != expected[n]})
        waited += sum(starts[job.id] > job.submit for job in jobs)
    assert waited > workloads * 5  # jobs had to wait


@pytest.mark.parametrize("estimates", ["exact", "over"])
@pytest.mark.parametrize("name", ["easy", "sjbf", "lc", "lct"])
def test_easy_keeps_its_reservation(name: str, estimates: str) -> None:
    random = Random(f"reservation {name} {estimates}")
    for _ in range(8):
        processors = random.choice((4, 8, 16))
        jobs = random_jobs(random, processors, estimates)
        starts = starts_under({"preset": name}, jobs, processors, threads=random.choice((1, 4)))
        reference.check_no_overcommit(jobs, starts, processors)
        reference.check_easy_reservation(jobs, starts, processors)


@pytest.mark.parametrize("estimates", ["exact", "over"])
def test_conservative_keeps_its_promises(estimates: str) -> None:
    random = Random(f"promises {estimates}")
    for _ in range(8):
        processors = random.choice((4, 8, 16))
        jobs = random_jobs(random, processors, estimates)
        starts = starts_under({"preset": "conservative"}, jobs, processors, threads=random.choice((1, 4)))
        reference.check_no_overcommit(jobs, starts, processors)
        reference.check_conservative(jobs, starts, reference.conservative(jobs, processors)[1], processors)


def test_the_checks_can_fail() -> None:
    """First come, first served is neither EASY nor conservative."""
    random = Random("can fail")
    jobs = random_jobs(random, 8, "exact", jobs=60)
    starts = starts_under({"preset": "fcfs"}, jobs, 8)
    with pytest.raises(AssertionError):
        reference.check_easy_reservation(jobs, starts, 8)
    with pytest.raises(AssertionError):
        reference.check_conservative(jobs, starts, reference.conservative(jobs, 8)[1], 8)


def test_backfilling_by_hand() -> None:
    """Four processors: job 1 holds two until 10, job 2 wants all, job 3 would end in time and overtakes it, job 4 would not."""
    jobs = [Job(1, 0, 2, 10, 10), Job(2, 1, 4, 5, 5), Job(3, 2, 2, 8, 8), Job(4, 3, 2, 8, 8)]
    assert starts_under({"preset": "easy"}, jobs, 4) == {1: 0, 2: 10, 3: 2, 4: 15}
    assert starts_under({"preset": "fcfs"}, jobs, 4) == {1: 0, 2: 10, 3: 15, 4: 15}
