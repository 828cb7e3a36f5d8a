"""Free threads, refusals, first fit and packed, against sets of (node, thread) pairs and enumeration on small machines."""

from __future__ import annotations

from itertools import pairwise, product
from random import Random
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runs import layers_on, run_on, runs_on

from cosched_hwmodel.units import NodeSet, ThreadMask
from cosched_plugin.common import threads as thread_sets
from cosched_plugin.common.allocation import Machine, ThreadPool, is_plain, room_on, times_refusal
from cosched_plugin.common.threads import (
    Layers,
    apart,
    bits_of,
    each_mask,
    each_node,
    kept,
    layers_of,
    lowest_threads,
    minus,
    side_by_side,
    size,
    thread_mask,
    union,
)
from cosched_plugin.core.first_fit import fill_nodes, first_fit, packed, runs_from, thread_counts
from cosched_plugin.protocol.messages import ANY_LAYOUT, FILLED, JobSpec, NodeClass, Run, StartJob

Place: TypeAlias = tuple[int, int]  # (node, thread)


def nodes_of(count: int, threads: int, memory_mb: int = 0) -> NodeClass:
    return NodeClass(count, 1, threads, 1, memory_mb, 0, 0, 0)


def machine_of(random: Random) -> Machine:
    """One to five nodes of one to four threads, now and then with a smaller one at the end."""
    classes = [nodes_of(random.randint(1, 4), random.randint(1, 4), random.choice((0, 8, 20)))]
    if random.random() < 0.5:
        classes.append(nodes_of(1, random.randint(1, classes[0].threads), random.choice((4, 20))))
    return Machine(classes)


def job_of(random: Random, machine: Machine, plain: bool = False) -> JobSpec:
    job = JobSpec(id=1, submit_us=0, processes=random.randint(1, min(8, machine.threads)), estimate_us=1)
    if plain:
        return job
    return job._replace(
        ppn_min=random.choice((1, 1, 2, 3)),
        ppn_max=random.choice((0, 0, 1, 3)),
        threads_per_process=random.choice((1, 1, 2)),
        memory_mb=random.choice((0, 0, 3)),
        exclusive=random.random() < 0.3,
    )


def places_of(layers: Layers) -> set[Place]:
    return {(node, thread) for thread, layer in enumerate(layers) for node in bits_of(layer)}


def places_named(runs: tuple[Run, ...]) -> list[Place]:
    return [(n, t) for first, count, mask, _ in runs for n in range(first, first + count) for t in bits_of(mask)]


def layers_from(places: set[Place], depth: int) -> Layers:
    return layers_on(*[sum(1 << node for node, thread in places if thread == layer) for layer in range(depth)])


def busy_pool(random: Random, machine: Machine) -> ThreadPool:
    """A pool in which some threads and memory are in use, and perhaps a node is down."""
    pool = ThreadPool(machine, random.sample(range(machine.nodes), random.choice((0, 0, 1))))
    for _ in range(random.randint(0, 4)):
        node = random.randrange(machine.nodes)
        mask = thread_mask(pool.free, node)
        if mask:
            run = run_on(node, 1, lowest_threads(mask, random.randint(1, mask.bit_count())), 1)
            memory_mb = random.choice((0, min(2, pool.free_memory_mb[node])))
            taker = JobSpec(9, 0, 1, 1, memory_mb=memory_mb, threads_per_process=run.mask.bit_count())
            assert refusal_of(pool, taker, (run,)) is None
            pool.take(taker, (run,), layers_of((run,), machine.depth))
    return pool


def refusal_of(pool: ThreadPool, job: JobSpec, runs: tuple[Run, ...]) -> str | None:
    placed = pool.place(job, runs)
    if isinstance(placed, str):
        return placed
    assert placed == layers_of(runs, pool.machine.depth)
    return None


def is_legal(job: JobSpec, runs: tuple[Run, ...], pool: ThreadPool) -> bool:
    """Return whether an allocation is legal: `ThreadPool.refusal` written with sets, from PROTOCOL.md."""
    machine = pool.machine
    if any(count < 1 or mask < 1 or ppn < 1 for _, count, mask, ppn in runs):
        return False
    free = places_of(pool.free)
    named = places_named(runs)
    shares = list(each_node(runs))
    if len(dict(shares)) != len(shares) or not set(named) <= free:
        return False
    for node, processes in shares:
        threads = sum(1 for place in named if place[0] == node)
        whole = machine.threads_of[node]
        if threads != (whole if job.exclusive else processes * job.threads_per_process):
            return False
        if threads < processes * job.threads_per_process or processes > (job.ppn_max or processes):
            return False
        if processes * job.memory_mb > pool.free_memory_mb[node]:
            return False
    short = [processes for _, processes in shares if processes < job.ppn_min]
    return len(short) <= 1 and sum(processes for _, processes in shares) == job.processes


def room_by_trial(job: JobSpec, node: int, pool: ThreadPool) -> int:
    """Return the largest number of processes of ``job`` that fit on one node, by trying all numbers; 0 if below ppn_min."""
    mask = thread_mask(pool.free, node)
    best = 0
    for processes in range(1, mask.bit_count() + 1):
        taken = mask if job.exclusive else lowest_threads(mask, processes * job.threads_per_process)
        alone = job._replace(processes=processes, ppn_min=1)
        if is_legal(alone, runs_on((node, 1, taken, processes)), pool):
            best = processes
    return best if best >= min(job.ppn_min, job.processes) else 0


def can_be_placed(job: JobSpec, rooms: list[int]) -> bool:
    """Enumerate distributions of the processes over nodes with so much room."""
    return any(
        sum(counts) == job.processes and sum(1 for count in counts if 0 < count < job.ppn_min) <= 1
        for counts in product(*(range(room + 1) for room in rooms))
    )


# ---------------------------------------------------------------- sets of threads

places = st.sets(st.tuples(st.integers(0, 20), st.integers(0, 2)))


@given(places, places)
@settings(deadline=None, max_examples=60)
def test_thread_sets_agree_with_sets_of_pairs(some: set[Place], others: set[Place]) -> None:
    for depth in (1, 3):
        a = {place for place in some if place[1] < depth}
        b = {place for place in others if place[1] < depth}
        one, other = layers_from(a, depth), layers_from(b, depth)
        assert places_of(union(one, other)) == a | b
        assert places_of(minus(one, other)) == a - b
        assert size(one) == len(a)
        assert thread_counts(one, 21).tolist() == [sum(1 for place in a if place[0] == node) for node in range(21)]
        for node in range(21):
            assert set(bits_of(thread_mask(one, node))) == {thread for where, thread in a if where == node}


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 7), st.integers(1, 3)), unique_by=lambda item: item[0]))
@settings(deadline=None, max_examples=60)
def test_runs_join_equal_neighbouring_nodes(placed: list[tuple[int, int, int]]) -> None:
    runs = runs_from([(node, ThreadMask(mask), ppn) for node, mask, ppn in placed])
    written_out = [(n, mask, ppn) for first, count, mask, ppn in runs for n in range(first, first + count)]
    assert written_out == sorted(placed)
    assert all(a[0] + a[1] < b[0] or a[2:] != b[2:] for a, b in pairwise(runs))  # as few as possible
    assert places_of(layers_of(runs, 3)) == set(places_named(runs))


# ---------------------------------------------------------------- refusals


def test_refusals_follow_the_protocols_rule() -> None:
    random = Random("refusal")
    legal = 0
    for _ in range(4000):
        machine = machine_of(random)
        pool = busy_pool(random, machine)
        job = job_of(random, machine, plain=random.random() < 0.3)
        guess = first_fit(
            job._replace(ppn_max=random.choice((job.ppn_max, 0))), pool.free, machine, pool.free_memory_mb
        )
        runs = list(guess or ())
        if not runs or random.random() < 0.6:  # similar to an allocation, but most likely wrong
            run = run_on(
                random.randint(-1, machine.nodes),
                random.choice((1, 1, 1, 2, 0)),
                random.choice((1, 2, 3, 7, 15, 16, 0)),
                random.choice((1, 1, 2, 3, 0)),
            )
            runs = [*runs[: random.randint(0, len(runs))], run]
        refusal = refusal_of(pool, job, tuple(runs))
        outside = any(first < 0 or first + count > machine.nodes for first, count, _, _ in runs)
        expected = not outside and is_legal(job, tuple(runs), pool)
        assert (refusal is None) == expected, (job, runs, refusal)
        legal += expected
    assert 400 < legal < 3000  # both happen often


MACHINE = Machine((nodes_of(2, 4, 16), nodes_of(1, 2, 16)))


@pytest.mark.parametrize(
    ("job", "runs", "reason"),
    [
        ({"processes": 1}, ((3, 1, 1, 1),), "nodes outside 0..2"),
        ({"processes": 1}, ((0, 1, 16, 1),), "threads outside 0..3"),
        ({"processes": 1}, ((2, 1, 4, 1),), "node 2 is not free there"),  # a thread that this node does not have
        ({"processes": 1}, ((1, 1, 1, 1),), "node 1 is not free there"),
        ({"processes": 2}, ((0, 1, 1, 2),), "1 threads to 2 processes of 1"),
        ({"processes": 2}, ((0, 1, 1, 1), (0, 1, 2, 1)), "names a node twice"),
        ({"processes": 3}, ((0, 1, 3, 2),), "2 processes placed, 3 wanted"),
        ({"processes": 1, "threads_per_process": 2}, ((0, 1, 1, 1),), "1 threads to 1 processes of 2"),
        ({"processes": 3, "ppn_max": 2}, ((0, 1, 7, 3),), "3 processes on a node, at most 2 wanted"),
        ({"processes": 2, "ppn_min": 2}, ((0, 1, 1, 1), (2, 1, 1, 1)), "2 nodes hold fewer than 2 processes"),
        ({"processes": 2, "memory_mb": 9}, ((0, 1, 3, 2),), "node 0 has 16 MiB free, 18 wanted"),
        ({"processes": 2, "exclusive": True}, ((0, 1, 3, 2),), "node 0 is not taken whole"),
        ({"processes": 2, "exclusive": True}, ((0, 1, 15, 2),), None),
        ({"processes": 2, "exclusive": True}, ((2, 1, 3, 2),), None),
        ({"processes": 3, "ppn_min": 2}, ((0, 1, 3, 2), (2, 1, 1, 1)), None),  # the remainder on one node
        ({"processes": 2, "memory_mb": 8}, ((0, 1, 12, 2),), None),
    ],
)
def test_refusals_say_why(job: dict[str, int], runs: tuple[Run, ...], reason: str | None) -> None:
    pool = ThreadPool(MACHINE)
    one = JobSpec(1, 0, 1, 1)
    pool.take(one, runs_on((1, 1, 1, 1)), layers_of(runs_on((1, 1, 1, 1)), 4))
    refusal = refusal_of(pool, JobSpec(2, 0, estimate_us=1, **job), runs)  # type: ignore[arg-type]
    assert refusal is None if reason is None else refusal is not None and reason in refusal


@pytest.mark.parametrize(
    ("own_us", "estimate_us", "limit_us", "fine"),
    [
        (None, 5, None, True),
        (10, 5, 10, True),
        (10, 5, 11, True),
        (10, 20, 10, True),
        (None, 0, None, False),
        (None, 5, 10, False),
        (10, 5, None, False),
        (10, 5, 9, False),
    ],
)
def test_times_of_a_start_are_checked(own_us: int | None, estimate_us: int, limit_us: int | None, fine: bool) -> None:
    job = JobSpec(1, 0, 1, 5, own_us)
    assert (times_refusal(job.limit_us, StartJob(1, runs_on((0, 1, 1, 1)), estimate_us, limit_us)) is None) == fine


# ---------------------------------------------------------------- first fit and packed


@pytest.mark.parametrize("choose", [first_fit, packed])
def test_any_job_fills_nodes_in_order(choose: object) -> None:
    """Nodes are filled one after the other, each as full as the job's requests allow.

    Where that finds no place, enumeration over the nodes with room for ``ppn_min`` finds none either. (A node with less room is
    not used, not even for the remainder.)
    """
    random = Random("fill")
    fitted = refused = 0
    for _ in range(1500):
        machine = machine_of(random)
        pool = busy_pool(random, machine)
        job = job_of(random, machine)
        rooms = [room_by_trial(job, node, pool) for node in range(machine.nodes)]
        runs = (first_fit if choose is first_fit else packed)(job, pool.free, machine, pool.free_memory_mb)
        assert (runs is not None) == can_be_placed(job, rooms), (job, rooms)
        if runs is None:
            refused += 1
            continue
        fitted += 1
        assert refusal_of(pool, job, runs) is None
        assert is_legal(job, runs, pool)
        order = list(range(machine.nodes))
        if choose is packed:
            order.sort(key=lambda node: (thread_mask(pool.free, node).bit_count(), node))
        need = job.processes
        expected = {}
        for node in order:
            if min(need, rooms[node]):
                expected[node] = min(need, rooms[node])
                need -= expected[node]
        assert dict(each_node(runs)) == expected
        free = places_of(pool.free)
        for node, processes in expected.items():
            threads = sorted(thread for where, thread in free if where == node)
            lowest = threads if job.exclusive else threads[: processes * job.threads_per_process]
            assert sorted(thread for where, thread in places_named(runs) if where == node) == lowest
    assert min(fitted, refused) > 250


@pytest.mark.parametrize("layout", [ANY_LAYOUT, FILLED])
def test_arrays_choose_what_loops_choose(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets of deep nodes are one integer, and looked at in arrays: another way to the same places."""
    random = Random(f"arrays {layout}")
    fitted = 0
    for _ in range(1500):
        machine = Machine(machine_of(random).classes, layout=layout)
        pool = busy_pool(random, machine)
        job = job_of(random, machine, plain=random.random() < 0.2)
        nodes = random.choice((None, NodeSet(random.getrandbits(machine.nodes))))
        order = random.sample(range(machine.nodes), random.randint(0, machine.nodes))
        found = []
        for deep in (2, 99):
            monkeypatch.setattr(thread_sets, "DEEP", deep)
            at = (job, kept(pool.free, machine.nodes), Machine(machine.classes, layout=layout), pool.free_memory_mb)
            chosen = (first_fit(*at, nodes), packed(*at, nodes), fill_nodes(*at, order))
            found.append([None if runs is None else [*each_node(runs), *each_mask(runs)] for runs in chosen])
        assert found[0] == found[1], (job, nodes, order)
        fitted += found[0][0] is not None
    assert 300 < fitted < 1300


@pytest.mark.parametrize(("nodes", "depth"), [(3, 1), (7, 5), (8, 40), (13, 40), (16, 17)])
def test_a_set_of_threads_is_one_integer_and_layers_again(nodes: int, depth: int) -> None:
    layers = layers_on(*[Random(f"apart {layer}").getrandbits(nodes) for layer in range(depth)])
    joined = side_by_side(layers, nodes)
    assert joined == sum(layer << place * nodes for place, layer in enumerate(layers))
    assert apart(joined, nodes, depth) == layers


def test_most_processes_is_the_capacity_of_the_empty_machine() -> None:
    random = Random("most")
    for _ in range(1500):
        drawn = machine_of(random)
        job = job_of(random, drawn, plain=random.random() < 0.2)
        for layout in (ANY_LAYOUT, FILLED):
            machine = Machine(drawn.classes, (), layout)
            pool = ThreadPool(machine)
            fits = first_fit(job, pool.free, machine, pool.free_memory_mb) is not None
            assert fits == (job.processes <= machine.most_processes(job)), (job, machine.threads_of, layout)


@given(st.integers(0, 8), st.integers(0, 30), st.booleans(), st.integers(1, 4), st.integers(0, 4), st.integers(1, 3))
@settings(deadline=None, max_examples=60)
def test_room_by_requests_of_a_job(
    free: int, memory_mb: int, exclusive: bool, ppn_min: int, ppn_max: int, width: int
) -> None:
    job = JobSpec(1, 0, 3, 1, None, "", "", ppn_min, ppn_max, width, 7, exclusive)
    fitting = [
        k
        for k in range(1, 9)
        if k * width <= free and 7 * k <= memory_mb and k <= (ppn_max or k) and (free == 8 or not exclusive)
    ]
    most = max(fitting, default=0)
    assert room_on(job, free, 8, memory_mb) == (most if most >= min(ppn_min, 3) else 0)


# ---------------------------------------------------------------- the pool over time


def test_the_pool_agrees_with_sets() -> None:
    """Random allocations, releases, failures and returns: the pool agrees with a set of pairs and a list of memory."""
    for seed in range(60):
        random = Random(f"pool {seed}")
        machine = machine_of(random)
        pool = ThreadPool(machine)
        held: list[tuple[JobSpec, tuple[Run, ...]]] = []
        down: set[int] = set()
        for _ in range(60):
            match random.choice(("take", "take", "give", "fail", "return")):
                case "take":
                    job = job_of(random, machine, plain=random.random() < 0.4)
                    runs = first_fit(job, pool.free, machine, pool.free_memory_mb)
                    if runs is not None:
                        pool.take(job, runs, layers_of(runs, machine.depth))
                        held.append((job, runs))
                case "give" if held:
                    job, runs = held.pop(random.randrange(len(held)))
                    pool.give_back(job, runs, layers_of(runs, machine.depth))
                case "fail":
                    node = random.randrange(machine.nodes)
                    down.add(node)
                    pool.fail_node(node)
                case "return" if down:
                    node = random.choice(sorted(down))
                    down.discard(node)
                    taken = {place for _, runs in held for place in places_named(runs)}
                    pool.return_node(node, [layers_from(taken, machine.depth)])
                case _:
                    pass
            taken = {place for _, runs in held for place in places_named(runs)}
            everything = {(node, t) for node, threads in enumerate(machine.threads_of) for t in range(threads)}
            assert places_of(pool.free) == {place for place in everything - taken if place[0] not in down}
            memory = list(machine.memory_mb)
            for job, runs in held:
                for node, processes in each_node(runs):
                    memory[node] -= processes * job.memory_mb
            assert pool.free_memory_mb == memory
            assert set(bits_of(pool.up)) == set(range(machine.nodes)) - down


def test_a_plain_job_may_have_any_threads() -> None:
    job = JobSpec(1, 0, 3, 1, 5, "user", "name", demand=(1, 2, 3))
    assert is_plain(job)
    for change in ({"ppn_min": 2}, {"ppn_max": 1}, {"threads_per_process": 2}, {"memory_mb": 1}, {"exclusive": True}):
        assert not is_plain(job._replace(**change))
