"""Random nodes, profiles and groups of processes for tests of the composite model."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from cosched_hwmodel.composite.composite_model import CompositeModel
from cosched_hwmodel.composite.job_profile import Profile, checked
from cosched_hwmodel.composite.on_node import Placed
from cosched_hwmodel.topology import Cache, NodeShape
from cosched_hwmodel.units import WHOLE_PPM


def random_node(random: Random, most_cores: int = 16) -> NodeShape:
    """Return a node of 1 to 4 sockets with caches, in which everything may be limited."""
    cores, sockets = random.choice((1, 2, 4, most_cores)), random.choice((1, 2, 4))
    caches = []
    if random.random() < 0.8:
        caches.append(Cache(2, random.choice((256, 1000)), 1, random.choice((0, 12)), random.choice((0, 900))))
    if random.random() < 0.8:
        caches.append(
            Cache(3, random.choice((2_000, 30_000)), cores, random.choice((0, 70)), random.choice((0, 5_000)))
        )
    return NodeShape(
        "random",
        sockets,
        cores,
        4_000,
        random.choice((1, 2, 4)),
        tuple(caches),
        random.choice((0, 7_000, 10_001)),
        random.choice((0, 1_000)),
        random.choice((0, 90)),
        0,
        random.choice((0, WHOLE_PPM, 1_234_567)),
        random.choice((0, WHOLE_PPM)),
    )


def random_profile(random: Random) -> Profile:
    """Return a profile that uses some of the resources."""

    def some(*values: int) -> int:
        return random.choice((0, *values))

    profile = Profile(
        random.choice((WHOLE_PPM, WHOLE_PPM, 300_000, 700_001)),
        some(400_000, 700_000, 990_000),
        some(500_000, 999_999, 2_000_000),
        some(1_000, 3_000, 70_000),
        random.choice((40, 400, 20_000, 1_000_000)),
        some(100, 777, 4_000),
        random.choice((WHOLE_PPM, 333_333, 0)),
        some(100, 900, 5_000, 9_999),
        random.choice((WHOLE_PPM, 250_000, 600_000)),
        some(100, 900, 2_000),
        some(13_300, 120_000),
        random.choice((WHOLE_PPM, 250_000, 600_000)),
        some(20, 80),
        some(10_000, 99_999),
        some(100, 2_500, 9_000),
    )
    return checked(profile)


def random_groups(random: Random, node: NodeShape, most: int = 8) -> list[Placed]:
    """Return groups on threads that they share with no other group."""
    threads = list(range(node.threads))
    random.shuffle(threads)
    kinds = [random_profile(random) for _ in range(3)]
    groups = []
    for _ in range(random.randint(1, most)):
        each = random.choice((1, 1, 2, 3))
        count = min(len(threads) // each, random.choice((1, 2, 5, 16)))
        if count:
            mask = sum(1 << threads.pop() for _ in range(count * each))
            groups.append(Placed(random.choice(kinds), count, mask))
    return groups


def random_model(random: Random) -> CompositeModel:
    """Return a model with random settings."""
    model = CompositeModel(random.choice(("independent", "worst")), random.choice(("socket", "node")))
    return replace(model, queueing_ppm=random.choice((0, 300_000)))
