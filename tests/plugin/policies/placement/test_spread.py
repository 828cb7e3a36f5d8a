"""Placement spread: processes a node by formula 8, on different CPUs first, and two halves of a node for two jobs."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from tests.plugin.policies.cases import NOW_US
from tests.plugin.policies.glomarc.glts_cases import PPM, nodes_of, spec_of, told, view_of
from tests.reference.glomarc import nodes_for, ppn, run_factor
from tests.runs import runs_on

from cosched_hwmodel.statistical import self_factor
from cosched_hwmodel.statistical import spread as used_of
from cosched_hwmodel.topology import NodeShape
from cosched_plugin.api import Footprint, each_node, snapshot_now
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.core.views.view import View
from cosched_plugin.core.views.whole_nodes import WholeNodesView
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.policies.placement.spread import NodeHalves, Spread, limit_beside
from cosched_plugin.protocol.messages import JobSpec, NodeClass, RunningJob, StartJob

SHAPES = [(2, 2, 1), (1, 4, 1), (2, 1, 1), (4, 2, 1), (2, 2, 2), (1, 1, 2), (2, 1, 2), (2, 3, 1), (1, 4, 2)]


def view_with(node: NodeClass, *jobs: JobSpec) -> View:
    return view_of(told(node, jobs))


def draw_own(random: Random, cpus: int, cores: int) -> tuple[int, int]:
    """Draw slowdowns around the thresholds; a job has no slowdown by resources that the node lacks."""
    node_ppm = random.choice((900_000, 1_000_000, 1_120_000, 1_120_001, 1_300_000, random.randint(900_000, 1_400_000)))
    core_ppm = random.choice((1_000_000, 1_250_000, 1_116_071, random.randint(1_000_000, 1_600_000)))
    return node_ppm if cpus > 1 else PPM, core_ppm if cores > 1 else PPM


# ---------------------------------------------------------------- footprints


@pytest.mark.parametrize(("cpus", "cores", "threads"), SHAPES)
def test_footprint_as_in_formula_8(cpus: int, cores: int, threads: int) -> None:
    """Compared with the reference; the slowest node counts, which may be the last one, with fewer processes."""
    random = Random(f"{cpus} {cores} {threads}")
    chosen = set()
    raised = refused = 0
    for number in range(300):
        nodes = random.choice((1, 3, 8, 40))
        own = draw_own(random, cpus, cores)
        job = spec_of(number, random.randint(1, 2 * nodes * cpus * cores), random.randint(1, 99_999), own)
        view = view_with(nodes_of(nodes, cpus, cores, threads), job)
        sno, scr = (Fraction(value, PPM) for value in own)
        footprint = Spread().footprint(job, view)
        try:
            expected = ppn(job.processes, sno, scr, cpus, cores, nodes=nodes)
        except ValueError:
            refused += 1
            assert footprint is None
            continue
        full, rest = divmod(job.processes, expected)
        counts = {expected if full else rest, rest or expected}
        factor = max(run_factor(count, sno, scr, cpus=cpus) for count in counts)
        assert footprint is not None
        assert footprint[:2] == (expected, nodes_for(job.processes, expected))
        assert footprint.factor == pytest.approx(float(factor), rel=1e-15)
        assert -Fraction(1, 64) <= footprint.run_us - job.estimate_us * factor < 1
        chosen.add(expected)
        raised += expected > ppn(job.processes, sno, scr, cpus, cores, nodes=10_000)
    assert chosen == {1, cpus, cpus * cores}
    assert refused > 20
    assert raised > 3 or cpus * cores == 1


@pytest.mark.parametrize(
    ("own", "per_node"),
    [
        ((1_000_000, 1_000_000), 4),
        ((1_120_000, 1_116_071), 4),  # 1.24999952
        ((1_120_000, 1_116_072), 2),  # 1.25000064
        ((1_120_001, 1_116_072), 1),
        ((1_200_000, 1_000_000), 4),  # two processes have more than 1.12, four no more than 1.25
        (None, 4),
    ],
)
def test_processes_a_node_at_the_thresholds(own: tuple[int, int] | None, per_node: int) -> None:
    job = spec_of(1, 8, 100, own)
    footprint = Spread().footprint(job, view_with(nodes_of(16), job))
    assert footprint is not None
    assert footprint.per_node == per_node


def test_thresholds_are_parameters() -> None:
    job = spec_of(1, 8, 100, (1_200_000, 1_300_000))
    view = view_with(nodes_of(16), job)
    found = [
        Spread(max_slowdown=most, max_slowdown_cpus=two).footprint(job, view)
        for most, two in ((1.25, 1.2), (1.6, 1.0), (1, 1))
    ]
    assert [None if one is None else one.per_node for one in found] == [2, 4, 1]


@pytest.mark.parametrize(
    ("wishes", "expected"),
    [
        ({}, (1, 6)),
        ({"ppn_min": 2}, (2, 3)),
        ({"ppn_min": 3}, (3, 2)),
        ({"ppn_max": 1}, (1, 6)),
        ({"memory_mb": 1000}, (1, 6)),
        ({"memory_mb": 4000, "ppn_min": 2}, (2, 3)),
        ({"memory_mb": 4000, "ppn_min": 3}, None),
        ({"memory_mb": 9000}, None),
        ({"ppn_max": 1, "nodes": 5}, None),
        ({"ppn_max": 3, "nodes": 2}, (3, 2)),  # neither 1 nor 2 on a node is possible
        ({"memory_mb": 2000, "nodes": 1}, None),
        ({"threads_per_process": 2}, (1, 6)),
        ({"threads_per_process": 2, "nodes": 3}, (2, 3)),
        ({"threads_per_process": 2, "nodes": 2}, None),
        ({"exclusive": True}, (1, 6)),
        ({"nodes": 3}, (2, 3)),
        ({"nodes": 2}, (4, 2)),
        ({"nodes": 1}, None),
    ],
)
def test_requests_of_a_job_limit_its_footprint(wishes: dict[str, int], expected: tuple[int, int] | None) -> None:
    """Six processes that prefer a node each, on 8 nodes by default."""
    wishes = dict(wishes)
    nodes = wishes.pop("nodes", 8)
    job = spec_of(1, 6, 100, (1_300_000, 1_300_000), **wishes)
    footprint = Spread().footprint(job, view_with(nodes_of(nodes), job))
    assert (None if footprint is None else footprint[:2]) == expected


@pytest.mark.parametrize(("cpus", "cores", "threads"), SHAPES)
def test_every_offer_is_possible(cpus: int, cores: int, threads: int) -> None:
    """With all kinds of requests: the manager would accept every offer, and there is no offer only if none is possible."""
    random = Random(f"wishes {cpus} {cores} {threads}")
    node = nodes_of(4, cpus, cores, threads, memory_mb=1000)
    shape = NodeShape("", cpus, cores, 1000, threads)
    refused = 0
    for number in range(150):
        lowest = random.randint(1, 3)
        job = spec_of(
            number,
            random.randint(1, 4 * cpus * cores + 1),
            100,
            draw_own(random, cpus, cores),
            ppn_min=lowest,
            ppn_max=random.choice((0, 0, random.randint(lowest, 5))),
            threads_per_process=random.choice((1, 1, 1, 2)),
            memory_mb=random.choice((0, 0, 100, 400)),
            exclusive=random.random() < 0.2,
        )
        core = SchedulerCore(compose({"preset": "pss"}), told(node, [job]))
        view = WholeNodesView(core.view)
        offer = Spread().offer(job, snapshot_now(view))
        if offer is not None:
            assert not isinstance(core.view._state.pool.place(job, offer.runs), str)
            assert StartJob(job.id, offer.runs, offer.run_us, offer.limit_us) == offer.start()
            assert sum(count for _, count in each_node(offer.runs)) == job.processes
            # All held threads count, not only those with processes, as in the hardware.
            truth = max(self_factor(job.self_slowdown, *used_of(shape, mask)) for _, _, mask, _ in offer.runs)
            assert offer.factor == truth
        else:
            refused += 1
            most = cpus * cores if job.threads_per_process == 1 else cpus * cores * threads // job.threads_per_process
            most = min(most, job.ppn_max or most, 1000 // job.memory_mb if job.memory_mb else most)
            assert most < min(job.ppn_min, job.processes) or most * 4 < job.processes
    assert 0 < refused < 150


@pytest.mark.parametrize(
    ("wishes", "nodes", "per_node"),
    [
        ({}, {2, 3, 4, 5}, 2),  # of the kind with most nodes
        ({"eligible": ((0, 3),)}, {0}, 8),
        ({"eligible": ((0, 2), (4, 4))}, {4, 5, 6, 7}, 2),
        ({"eligible": ((0, 3),), "memory_mb": 2000}, {0, 1}, 4),
        ({"resources": (("gpu", 2),)}, {0}, 8),
        ({"eligible": ((5, 1),)}, None, 0),  # one node of four cores
        ({"processes": 14}, {2, 3, 4, 5}, 4),  # more than the two nodes with eight cores hold
        ({"licences": (("solver", 3),)}, None, 0),
        ({"licences": (("solver", 2),)}, {2, 3, 4, 5}, 2),
    ],
)
def test_a_job_gets_nodes_that_are_alike_of_those_that_it_may_have(
    wishes: Mapping[str, Any], nodes: set[int] | None, per_node: int
) -> None:
    """Nodes 0 and 1 have eight cores and GPUs, 2 to 5 and 6 to 7 have four: these six are of one kind, in two classes."""
    machine = (nodes_of(2, 2, 4)._replace(resources=(("gpu", 2),)), nodes_of(4), nodes_of(2)._replace(disk_mbs=9))
    job = spec_of(1, 8, 100, (1_100_000, 2_000_000))._replace(**wishes)
    view = view_of(told(nodes_of(2), [job])._replace(nodes=machine, licences=(("solver", 2),)))
    offer = Spread().offer(job, snapshot_now(view))
    if nodes is None:
        assert offer is None
        assert Spread().never(job, view)
        return
    assert offer is not None
    assert {node for node, _ in each_node(offer.runs)} == nodes
    assert max(count for _, count in each_node(offer.runs)) == per_node


# ---------------------------------------------------------------- places


@pytest.mark.parametrize(("cpus", "cores", "threads"), SHAPES)
def test_halves_of_a_node(cpus: int, cores: int, threads: int) -> None:
    """Processes go to different CPUs first, one to a core; two jobs on a node get different cores, or different threads."""
    sides = NodeHalves(nodes_of(2, cpus, cores, threads))
    shape = NodeShape("", cpus, cores, 1, threads)
    for count in range(1, sides.whole + 1):
        mask = sides.mask(count)
        assert mask.bit_count() == count
        assert mask < 1 << sides.whole  # first threads only: one core each
        assert used_of(shape, mask) == (min(count, cpus), -(-count // cpus))
    for lower in range(1, sides.half + 1):
        for upper in range(1, sides.half + 1):
            assert sides.mask(lower) & sides.mask(upper, upper=True) == 0
        assert used_of(shape, sides.mask(lower, upper=True)) == (min(lower, cpus), -(-lower // cpus))
    assert sides.half == (cpus * (cores // 2) if cores > 1 else cpus if threads > 1 else 0)


def test_jobs_that_may_share_a_node() -> None:
    sides = NodeHalves(nodes_of(4, memory_mb=1000))

    def shared(processes: int, **wishes: Any) -> int:
        return sides.most_shared(spec_of(1, processes, 1, **wishes))

    assert (shared(1), shared(2), shared(9)) == (1, 2, 2)
    assert (shared(9, ppn_max=1), shared(9, ppn_min=2), shared(9, ppn_min=3), shared(1, ppn_min=3)) == (1, 2, 0, 1)
    assert (shared(9, exclusive=True), shared(9, threads_per_process=2)) == (0, 0)
    assert (shared(9, memory_mb=600), shared(9, memory_mb=500), shared(9, memory_mb=1001)) == (1, 2, 0)
    small, large = spec_of(1, 4, 1, memory_mb=200), spec_of(2, 4, 1, memory_mb=301)
    assert sides.both(small, 2, large, 1)
    assert not sides.both(small, 2, large, 2)  # 1002 MB
    assert sides.both(small, 2, large._replace(memory_mb=300), 2)
    assert not sides.both(small, 3, small, 1)
    assert not sides.most_shared(small._replace(exclusive=True))


def test_a_node_with_one_core_and_thread_has_room_for_one_job() -> None:
    assert NodeHalves(nodes_of(4, 1, 1, 1)).most_shared(spec_of(1, 1, 1)) == 0


def test_the_earliest_place_waits_for_enough_nodes() -> None:
    """Three of four nodes are taken, until 10, 20 and 30 s; three are free after 20 s."""
    running = [
        RunningJob(spec_of(10 + index, 1, 1, submit_us=0), 0, runs_on((index, 1, 1, 1)), NOW_US + end_us, None)
        for index, end_us in enumerate((10, 20, 30))
    ]
    job = spec_of(1, 12, 5)
    view = view_of(told(nodes_of(4), [job], running))
    assert Spread().offer(job, snapshot_now(view)) is None
    offer = Spread().earliest(job, view)
    assert offer is not None
    assert (offer.start_us, offer.runs) == (NOW_US + 20, ((0, 2, 15, 4), (3, 1, 15, 4)))
    assert Spread().earliest(spec_of(1, 17, 5), view) is None


def test_limits_grow_with_run_times() -> None:
    job = spec_of(1, 4, 100, (1_100_000, 1_000_000), limit_us=120_000_000)
    offer = Spread().offer(job, snapshot_now(view_with(nodes_of(1), job)))
    assert offer is not None
    assert (offer.run_us, offer.limit_us) == (110_000_000, 130_000_000)
    assert limit_beside(job, 90_000_000) == 120_000_000
    assert limit_beside(job._replace(limit_us=None), 90_000_000) is None


def test_footprints_are_cached_by_job_and_not_by_id() -> None:
    """Another job with the same id, as after a restart of the workload, has its own footprint."""
    spread = Spread()
    view = view_with(nodes_of(4), spec_of(1, 1, 1))
    found = [spread.footprint(spec_of(1, size, 1), view) for size in (4, 8)]
    assert [one.nodes for one in found if isinstance(one, Footprint)] == [1, 2]
