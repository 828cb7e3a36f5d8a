"""Emulated nodes under models other than bandwidth, and suspended jobs on them."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from random import Random

import pytest
from tests.runs import run_on, runs_on

from cosched_emulator.manager.contended_nodes import ContendedNodes
from cosched_hwmodel.composition import COMPOSITIONS, composition_named
from cosched_hwmodel.contention import ContentionModel
from cosched_hwmodel.lomarc.lomarc_model import LomarcContention, LomarcModel
from cosched_plugin.common.allocation import Machine
from cosched_plugin.protocol.messages import NodeClass, Run, UsageTuple


def cluster_under(model: ContentionModel, nodes: int = 3, composition: str = "bulk-synchronous") -> ContendedNodes:
    return ContendedNodes(
        Machine([NodeClass(nodes, 1, 1, 2, 512, 6000, 256, 7)]), model, composition_named(composition)
    )


def on(thread: int, first: int, count: int) -> tuple[Run, ...]:
    """Return one process on this thread of each of these nodes."""
    return runs_on((first, count, 1 << thread, 1))


# Half of either's time competes, for the CPU: while together everything takes 1.5 times as long.
CPU_AND_DISK: dict[int, UsageTuple] = {
    1: ("cpu", 500_000, 0, 500_000, 300_000),
    2: ("cpu", 500_000, 500_000, 0, 300_000),
    3: ("disk", 0, 0, 1_000_000, 300_000),
    5: ("cpu", 1_000_000, 0, 0, 900_000),
}
LOMARC = LomarcModel(remainder=True, good_share_ppm=0)


def lomarc(nodes: int = 3, composition: str = "bulk-synchronous") -> ContendedNodes:
    return cluster_under(LomarcContention(LOMARC, CPU_AND_DISK), nodes, composition)


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_sharing_some_nodes_slows_the_whole_job(composition: str) -> None:
    cluster = lomarc(composition=composition)
    cluster.seat(1, on(0, 0, 3), 1000, None, 0)
    cluster.seat(2, on(1, 2, 1), 1000, None, 0)
    assert cluster.settle(0) == [(1, 1500), (2, 1500)]
    assert cluster.slowdown(1) == 1.5
    cluster.leave(2, 300)
    assert cluster.settle(300) == [(1, 1100)]
    # Two partners, on different nodes: the worse one counts.
    cluster.seat(3, on(1, 0, 1), 1000, None, 300)
    cluster.seat(5, on(1, 1, 1), 1000, None, 300)
    cluster.settle(300)
    assert cluster.slowdown(1) == 2.5  # job 5 does not fit into memory beside it
    cluster.leave(5, 300)
    cluster.settle(300)
    assert cluster.slowdown(1) == 1.5
    cluster.check()


# ---------------------------------------------------------------- suspended jobs


@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_randomly_suspended_pairs_end_when_their_work_is_done(composition: str) -> None:
    slowdowns = {frozenset((1, 2)): Fraction(3, 2), frozenset((1, 3)): Fraction(3, 2), frozenset((2, 3)): Fraction(1)}
    random = Random(3)
    stopped = shared = 0
    for _ in range(60):
        cluster = lomarc(2, composition)
        where = {job: random.choice(((0,), (1,), (0, 1))) for job in (1, 2, 3)}
        left = {job: {node: Fraction(random.randrange(1, 400)) for node in where[job]} for job in (1, 2, 3)}
        for job, works in left.items():
            work = max(works.values())
            left[job] = dict.fromkeys(where[job], work)
            cluster.seat(job, tuple(run_on(node, 1, 1 << (job % 2), 1) for node in where[job]), int(work), None, 0)
        suspended: set[int] = set()
        ends = dict(cluster.settle(0))
        now = 0
        while left:

            def rate(job: int, node: int) -> Fraction:
                if job in suspended:  # noqa: B023 - called at once
                    return Fraction(0)
                others = [o for o in left if o != job and o not in suspended and node in where[o]]  # noqa: B023
                return 1 / (1 + sum((slowdowns[frozenset((job, o))] - 1 for o in others), Fraction(0)))

            rates = {job: {node: rate(job, node) for node in where[job]} for job in left}
            if composition == "bulk-synchronous":
                rates = {job: dict.fromkeys(there, min(there.values())) for job, there in rates.items()}
            for job in set(left) - suspended:
                exact = now + max(left[job][node] / rates[job][node] for node in where[job])
                assert ends[job] == ceil(exact - Fraction(1, 64))
            running = [ends[job] for job in left if job not in suspended]
            at = min([*running, now + random.randrange(1, 200)])
            for job, there in rates.items():
                for node, speed in there.items():
                    left[job][node] = max(Fraction(0), left[job][node] - speed * (at - now))
            now = at
            for job in sorted(left):
                if job not in suspended and ends[job] == now:
                    cluster.leave(job, now)
                    del left[job]
            for job in sorted(left):
                if random.random() < 0.3:
                    stopped += 1
                    (cluster.resume if job in suspended else cluster.suspend)(job, now)
                    suspended ^= {job}
            shared += sum(min(there.values()) < 1 for there in rates.values())
            ends |= cluster.settle(now)
            cluster.check()
    assert min(stopped, shared) > 100
