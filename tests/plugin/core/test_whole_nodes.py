"""The view for jobs that take whole nodes, compared with a calculation node by node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import NamedTuple, cast

import pytest
from tests.plugin.core.parts import WELCOME, Scripted, core_with
from tests.runs import layers_on, run_on, runs_on

from cosched_plugin.common.threads import Layers
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.core.views.view import View
from cosched_plugin.core.views.whole_nodes import WholeNodesView
from cosched_plugin.protocol import messages as m

NOW_US = 1000


class Node(NamedTuple):
    """A node as the slow computation sees it."""

    cores: int
    threads: int
    memory_mb: int
    up: bool
    ends: tuple[int, ...]  # expected ends of the jobs there, none before the next microsecond


def random_welcome(random: Random) -> m.Welcome:
    """Draw nodes of one or two kinds, some of them down, with jobs on single threads, on several, and on whole nodes."""
    classes = tuple(
        m.NodeClass(random.randint(1, 3), random.randint(1, 2), random.randint(1, 2), random.randint(1, 3), 8, 0, 0, 0)
        for _ in range(random.choice((1, 1, 2)))
    )
    width = [item.threads for item in classes for _ in range(item.nodes)]
    free = [set(range(threads)) for threads in width]
    running = []
    for number in range(1, random.randint(1, 7)):
        exclusive = random.random() < 0.3
        runs = []
        for node in sorted(random.sample(range(len(width)), random.randint(1, min(3, len(width))))):
            if exclusive and len(free[node]) == width[node]:
                taken = sorted(free[node])
            elif not exclusive and free[node]:
                taken = sorted(random.sample(sorted(free[node]), random.randint(1, len(free[node]))))
            else:
                continue
            free[node] -= set(taken)
            runs.append(run_on(node, 1, sum(1 << thread for thread in taken), len(taken)))
        if runs:
            job = m.JobSpec(number, 0, sum(run.processes for run in runs), 100, exclusive=exclusive)
            estimate_us = random.choice((100, 400, 401, 500, 900))  # from 600 on: some ends have passed
            running.append(m.RunningJob(job, 600, tuple(runs), estimate_us, None))
    down = tuple(sorted(random.sample(range(len(width)), random.choice((0, 0, 1)))))
    waiting = m.PendingJob(m.JobSpec(99, 0, 1, 10), False)
    return WELCOME._replace(
        now_us=NOW_US, nodes=classes, down=down, running=tuple(running), pending=(waiting,), notes=(), wakes=()
    )


def nodes_of(view: View, down: set[int]) -> list[Node]:
    machine = view.machine
    nodes: list[Node] = []
    for item in machine.classes:
        for _ in range(item.nodes):
            number = len(nodes)
            ends = tuple(
                max(running.end_us, view.now_us + 1)
                for running in view.running.values()
                if any(first <= number < first + count for first, count, _, _ in running.runs)
            )
            cores = item.sockets * item.cores_per_socket
            nodes.append(Node(cores, item.threads, item.memory_mb, number not in down, ends))
    return nodes


def layers(view: View, threads: Mapping[int, range]) -> Layers:
    """Return these threads of these nodes."""
    return layers_on(
        *[sum(1 << node for node, there in threads.items() if layer in there) for layer in range(view.machine.depth)]
    )


def firsts(nodes: list[Node], view: View, at_us: int) -> Layers:
    """Return the first threads of the cores of nodes without jobs from ``at_us`` on."""
    empty = [number for number, node in enumerate(nodes) if node.up and max(node.ends, default=0) <= at_us]
    return layers(view, {number: range(nodes[number].cores) for number in empty})


def places(nodes: list[Node], job: m.JobSpec) -> int:
    """Return how many processes of ``job`` the empty machine holds; an exclusive job has all threads of its nodes."""
    total = 0
    for node in nodes:
        threads = node.threads if job.exclusive else node.cores
        there = 0
        while (
            (there + 1) * job.threads_per_process <= threads
            and (there + 1) * job.memory_mb <= node.memory_mb
            and (not job.ppn_max or there < job.ppn_max)
        ):
            there += 1
        total += there if there >= min(job.ppn_min, job.processes) else 0
    return total


def jobs(random: Random) -> Iterator[m.JobSpec]:
    for _ in range(12):
        yield m.JobSpec(
            50,
            0,
            random.randint(1, 12),
            1,
            ppn_min=random.choice((1, 1, 2)),
            ppn_max=random.choice((0, 0, 2)),
            threads_per_process=random.choice((1, 1, 2)),
            memory_mb=random.choice((0, 3)),
            exclusive=random.random() < 0.4,
        )


def hold_against_nodes(view: WholeNodesView, down: set[int], random: Random) -> None:
    nodes = nodes_of(view, down)
    now_us = view.now_us
    assert view.free == layers(
        view, {n: range(node.cores) for n, node in enumerate(nodes) if node.up and not node.ends}
    )
    assert view.free_threads == sum(node.cores for node in nodes if node.up and not node.ends)
    instants = sorted({now_us} | {end for node in nodes for end in node.ends})
    expected = [(at_us, firsts(nodes, view, at_us)) for at_us in instants]
    assert list(view.availability()) == expected
    for threads in range(1, view.machine.threads + 2):
        room = [(at_us, sum(layer.bit_count() for layer in free)) for at_us, free in expected[1:]]
        assert view.shadow(threads) == next(((at_us, n - threads) for at_us, n in room if n >= threads), None)
    for running in view.running.values():
        held = {node for first, count, _, _ in running.runs for node in range(first, first + count)}
        assert view.claim(running.runs) == layers(view, {node: range(nodes[node].cores) for node in held})
    for job in jobs(random):
        for free in (view.free, expected[-1][1]):
            some = [node for node in range(len(nodes)) if any(layer >> node & 1 for layer in free)]
            opened = layers(view, {node: range(nodes[node].threads) for node in some}) if job.exclusive else free
            assert view.open_to(job, free) == opened
        most = min(places(nodes, job), sum(node.cores for node in nodes))
        assert view.never(job) == (most < job.processes)
    assert view.counts == all(node.cores == 1 for node in nodes)


@pytest.mark.parametrize("seed", range(150))
def test_every_member_agrees_with_its_nodes(seed: int) -> None:
    random = Random(seed)
    welcome = random_welcome(random)
    core = core_with(welcome=welcome)
    view = WholeNodesView(core.view)
    down = set(welcome.down)
    hold_against_nodes(view, down, random)
    for _ in range(4):  # one view, whose caches must notice changes
        now_us = view.now_us + random.choice((0, 50))
        event = random_event(view, down, random)
        assert core.handle(now_us, () if event is None else (event,)) == []
        hold_against_nodes(view, down, random)
        start_on_a_free_node(core, view)
        core.check()
        hold_against_nodes(view, down, random)


def random_event(view: View, down: set[int], random: Random) -> m.Event | None:
    kind = random.choice(("end", "fail", "return", "nothing"))
    if kind == "end" and view.running:
        return m.JobEnded(random.choice(sorted(view.running)), m.COMPLETED)
    if kind == "return" and down:
        return m.NodeReturned(down.pop())
    up = sorted(set(range(view.machine.nodes)) - down)
    if kind == "fail" and up:
        down.add(node := random.choice(up))
        return m.NodeFailed(node)
    return None


def start_on_a_free_node(core: SchedulerCore, view: WholeNodesView) -> None:
    """Start a pending job on the first thread of a free node, if there are both."""
    node = next((n for n in range(view.machine.nodes) if view.free[0] >> n & 1), None)
    if node is not None and view.queue:
        start = m.StartJob(99, runs_on((node, 1, 1, 1)), 10, None)
        cast(Scripted, core._policy).decisions = [start]
        assert core.handle(view.now_us, ()) == [start]
        assert not view.free[0] >> node & 1


def test_the_second_thread_of_a_used_node_is_not_free() -> None:
    """Two nodes with hyperthreading, a job on the first one: not free, though the plain view still has its second thread."""
    welcome = WELCOME._replace(
        now_us=NOW_US,
        nodes=(m.NodeClass(2, 1, 1, 2, 8, 0, 0, 0),),
        running=(m.RunningJob(m.JobSpec(1, 0, 1, 100), 950, runs_on((0, 1, 1, 1)), 100, None),),
    )
    core = core_with(welcome=welcome)
    view = WholeNodesView(core.view)
    assert (core.view.free, view.all_free, view.free) == ((0b10, 0b11), (0b10, 0b11), (0b10, 0))
    assert (view.counts, core.view.counts, view.free_threads) == (True, True, 1)
    assert (view.shadow(2), view.shadow(3)) == ((1050, 0), None)
    assert [view.never(m.JobSpec(7, 0, processes, 1)) for processes in (2, 3)] == [False, True]
    assert not core.view.never(m.JobSpec(7, 0, 3, 1))  # the plain view leaves that to the manager
