"""The composite model: limits, monotonicity, order, the models that it contains, and the arrays."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add
from random import Random

import pytest
from tests.hwmodel.composite.cases import random_groups, random_model, random_node, random_profile

from cosched_hwmodel.bandwidth.bandwidth_model import BandwidthModel
from cosched_hwmodel.composite.composite_model import CompositeModel, CompositeParameterError, resources_of
from cosched_hwmodel.composite.job_profile import MOST, Profile
from cosched_hwmodel.composite.on_node import Placed
from cosched_hwmodel.contention import Load
from cosched_hwmodel.errors import UnknownNameError
from cosched_hwmodel.lomarc.lomarc_model import LomarcModel
from cosched_hwmodel.topology import Cache, NodeShape
from cosched_hwmodel.units import WHOLE_PPM, ThreadMask

NODE = NodeShape(
    "two",
    sockets=2,
    cores_per_socket=4,
    memory_mb=8_000,
    threads_per_core=2,
    caches=(Cache(2, 1_000, 1, 10), Cache(3, 8_000, 4, 80)),
    memory_bandwidth_mbs=20_000,
    network_mbs=1_000,
    disk_mbs=100,
    integer_slots_ppm=WHOLE_PPM,
    floating_slots_ppm=WHOLE_PPM,
)
MODEL = CompositeModel()


def by_resource(one: Placed, other: Placed) -> dict[str, float]:
    """Return the parts above 0 of the first one's penalty."""
    return {name: part for name, part in MODEL.explain(NODE, (one, other))[0].parts if part}


@pytest.mark.by_default(3)
@pytest.mark.parametrize("seed", range(60))
def test_one_process_alone_is_not_slowed(seed: int) -> None:
    random = Random(seed)
    for _ in range(100):
        node, model = random_node(random), random_model(random)
        threads = random.sample(range(node.threads), random.randint(1, min(8, node.threads)))
        placed = Placed(random_profile(random), 1, sum(1 << thread for thread in threads))
        assert model.penalties(node, (placed,)) == [0.0]


@pytest.mark.by_default(3)
@pytest.mark.parametrize("seed", range(60))
def test_the_order_of_groups_and_of_equal_threads_changes_no_bit(seed: int) -> None:
    random = Random(seed)
    for _ in range(40):
        node, model = random_node(random), random_model(random)
        groups = random_groups(random, node)
        before = model.penalties(node, groups)
        order = random.sample(range(len(groups)), len(groups))
        assert model.penalties(node, [groups[place] for place in order]) == [before[place] for place in order]
        # Sockets change places, and in each of them all cores, and on each core all threads.
        moved = _renumbered(random, node)
        elsewhere = [group._replace(thread_mask=_moved(group.thread_mask, moved)) for group in groups]
        assert model.penalties(node, elsewhere) == before


def _renumbered(random: Random, node: NodeShape) -> list[int]:
    sockets = random.sample(range(node.sockets), node.sockets)
    cores = [random.sample(range(node.cores_per_socket), node.cores_per_socket) for _ in sockets]
    layers = [random.sample(range(node.threads_per_core), node.threads_per_core) for _ in range(node.cores)]
    places = []
    for thread in range(node.threads):
        layer, core = divmod(thread, node.cores)
        socket, own = divmod(core, node.cores_per_socket)
        places.append(layers[core][layer] * node.cores + sockets[socket] * node.cores_per_socket + cores[socket][own])
    return places


def _moved(mask: int, places: list[int]) -> int:
    return sum(1 << place for thread, place in enumerate(places) if mask >> thread & 1)


@pytest.mark.by_default(3)
@pytest.mark.parametrize("seed", range(60))
def test_more_demand_of_a_neighbour_never_speeds_a_process_up(seed: int) -> None:
    random = Random(seed)
    slowed = 0
    for _ in range(120):
        node, model = random_node(random), random_model(random)
        groups = random_groups(random, node)
        if len(groups) < 2:
            continue
        before = model.penalties(node, groups)
        place = random.randrange(len(groups))
        field = random.choice([name for name in MOST if name != "exposed_ppm"])
        profile = groups[place].profile
        value = getattr(profile, field)
        larger = min(MOST[field], random.choice((value + 1, value * 2 + 10, value + WHOLE_PPM)))
        if field.endswith("_ns") and value == 0:
            continue  # unknown is not short
        groups[place] = groups[place]._replace(profile=profile._replace(**{field: larger}))
        after = model.penalties(node, groups)
        for other, (one, its) in enumerate(zip(before, after, strict=True)):
            if other != place:
                assert its >= one - 1e-12 * (1 + one), (field, value, larger)
                slowed += its > one
    assert slowed > 3


@pytest.mark.by_default(2)
@pytest.mark.parametrize("seed", range(60))
def test_another_neighbour_never_speeds_a_process_up(seed: int) -> None:
    random = Random(seed)
    for _ in range(60):
        node, model = random_node(random), random_model(random)
        groups = random_groups(random, node)
        fewer = model.penalties(node, groups[:-1])
        more = model.penalties(node, groups)[: len(fewer)]
        assert all(its >= one - 1e-12 * (1 + one) for one, its in zip(fewer, more, strict=True))


def test_the_parts_add_up_to_the_penalty() -> None:
    random = Random(5)
    for _ in range(50):
        node, model = random_node(random), random_model(random)
        for breakdown in model.explain(node, random_groups(random, node)):
            assert tuple(name for name, _ in breakdown.parts) == resources_of(node)
            # One part after the other, as the model adds them: from Python 3.12 on, sum() rounds otherwise
            assert reduce(add, [part for _, part in breakdown.parts]) == breakdown.penalty
            assert (breakdown.worst == "") == (breakdown.penalty == 0.0)


@pytest.mark.parametrize(("sockets", "scope"), [(1, "socket"), (1, "node"), (4, "node")])
def test_bandwidth_comes_out_bit_for_bit_with_all_else_unlimited(sockets: int, scope: str) -> None:
    """No process alone asks for more than the node has: it could not have been measured."""
    random = Random(f"{sockets} {scope}")
    model = CompositeModel(memory_scope=scope)
    penalised = 0
    for _ in range(300):
        capacity = random.randint(1, 50_000)
        node = NodeShape("", sockets, 32 // sockets, 1_000, 1, (), capacity)
        groups, loads, free = [], [], list(range(32))
        for job in range(random.randint(1, 6)):
            processes = random.randint(1, 5)
            mask = ThreadMask(sum(1 << free.pop() for _ in range(processes)))
            rate = random.randint(0, capacity)
            groups.append(Placed(Profile(memory_mbs=rate), processes, mask))
            loads.append(Load(job, processes, mask, (rate * processes, 0, 0)))
        expected = BandwidthModel().penalties(node, loads)
        assert model.penalties(node, groups) == expected
        penalised += expected[0] > 0
    assert penalised > 50


@pytest.mark.parametrize("c_ppm", [WHOLE_PPM, 1_400_000, 2_000_000])
def test_lomarcs_form_comes_out_with_the_worst_overlap(c_ppm: int) -> None:
    """Two jobs each use c/2 of the slots while they compute, and all of network and disk while they use these."""
    random = Random(c_ppm)
    lomarc = LomarcModel(remainder=True, good_share_ppm=WHOLE_PPM, good_c_ppm=c_ppm)
    node = replace(NODE, sockets=1, cores_per_socket=1, caches=(), memory_mb=1_000_000)
    model = CompositeModel(overlap="worst", paging_ppm=1_500_000, paging_slope_ppm=0)
    for _ in range(200):
        profiles, usages = [], []
        for _ in range(2):
            cpu = random.randint(0, WHOLE_PPM)
            network = random.randint(0, WHOLE_PPM - cpu)
            disk, memory = WHOLE_PPM - cpu - network, random.randint(0, 700_000)
            usages.append(("cpu", cpu, network, disk, memory))
            profiles.append(
                Profile(
                    cpu_ppm=cpu,
                    integer_ppm=c_ppm // 2,
                    network_ppm=network,
                    network_mbs=node.network_mbs,
                    disk_ppm=disk,
                    disk_mbs=node.disk_mbs,
                    memory_mb=memory,
                )
            )
        expected = lomarc.slowdown(1, usages[0], 2, usages[1])
        placed = [Placed(profile, 1, 1 << thread) for thread, profile in enumerate(profiles)]
        assert model.penalties(node, placed) == pytest.approx([expected - 1] * 2, abs=1e-12)


def test_where_processes_sit_counts() -> None:
    job = Profile(integer_ppm=700_000, working_set_kb=6_000, accesses_ms=1_000, memory_mbs=12_000)
    here = Placed(job, 1, 1)
    same_core = by_resource(here, Placed(job, 1, 1 << 8))
    same_cache = by_resource(here, Placed(job, 1, 1 << 1))
    other_socket = by_resource(here, Placed(job, 1, 1 << 4))
    assert set(same_core) == {"integer slots", "cache 2", "cache 3", "memory bandwidth"}
    assert set(same_cache) == {"cache 3", "memory bandwidth"}
    assert other_socket == {}
    assert same_core["integer slots"] == pytest.approx(0.4)
    # Each has 4000 of its 6000 KiB, so it misses a third of 1000 accesses of 80 ns in a millisecond.
    assert same_cache["cache 3"] == pytest.approx(1_000 * 80 / 3 / 1e6)
    # 24,000 MB/s of a socket's 10,000, each alone at most 10,000.
    assert same_cache["memory bandwidth"] == pytest.approx(1.0)


def test_short_requests_wait_longer() -> None:
    short = Profile(network_ppm=WHOLE_PPM, network_mbs=700, message_ns=1_000)
    long = short._replace(message_ns=9_000)
    found = MODEL.penalties(NODE, (Placed(short, 1, 1), Placed(long, 1, 2)))
    assert found == pytest.approx([0.4 * 1.8, 0.4 * 0.2])


def test_a_lack_of_memory_is_paging() -> None:
    job = Profile(memory_mb=5_000)
    (first, second) = MODEL.explain(NODE, (Placed(job, 1, 1), Placed(job, 1, 2)))
    assert first.worst == "paging"
    assert first.penalty == second.penalty == pytest.approx(1.175 + 0.578 * 2_000 / 8_000)
    assert MODEL.penalties(NODE, (Placed(job, 1, 1), Placed(Profile(), 1, 2)))[1] == 0.0


def test_parameters_are_checked_and_named() -> None:
    assert CompositeModel.from_parameters(MODEL.parameters()) == MODEL
    with pytest.raises(UnknownNameError, match='unknown overlap "worse"; did you mean "worst"'):
        CompositeModel(overlap="worse")
    with pytest.raises(UnknownNameError, match="unknown composite parameter"):
        CompositeModel.from_parameters([("pagin_ppm", 1)])
    with pytest.raises(CompositeParameterError, match="paging_ppm: expected 0 to"):
        CompositeModel(paging_ppm=-1)
    with pytest.raises(CompositeParameterError, match="queueing_ppm: expected int"):
        CompositeModel(queueing_ppm=True)
    with pytest.raises(IndexError, match="thread 16 of a node with 16"):
        MODEL.penalties(NODE, [Placed(Profile(), 1, 1 << 16)])
    assert MODEL.penalties(NODE, []) == []
