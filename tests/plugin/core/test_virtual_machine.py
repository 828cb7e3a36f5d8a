"""The virtual machine of one class of jobs, compared with a calculation job by job and node by node."""

from __future__ import annotations

from random import Random

import pytest
from tests.plugin.core.parts import WELCOME, core_with
from tests.runs import runs_on

from cosched_hwmodel.units import NodeSet
from cosched_plugin.common.threads import size
from cosched_plugin.core.views.view import View
from cosched_plugin.core.views.virtual_machine import VirtualMachine
from cosched_plugin.core.views.whole_nodes import Occupancy
from cosched_plugin.protocol.messages import JobSpec, NodeClass, PendingJob, RunningJob, Welcome

NOW_US = 10_000
NODES = 5
THREADS = 4
RESUME_US = 50
ABOVE_US, MOST_US = 100, 200  # of the class


def random_welcome(random: Random) -> Welcome:
    """Draw jobs of three classes: some on disk, some returning, some suspended; other jobs may use the nodes of jobs on disk."""
    free = dict.fromkeys(range(NODES), (1 << THREADS) - 1)
    there: dict[int, int] = {}  # threads of the class's jobs; each thread has at most one of them
    running = []
    for number in range(1, random.randint(2, 9)):
        estimate_us = random.choice((50, 100, 101, 150, 200, 201, 900))
        own = ABOVE_US < estimate_us <= MOST_US
        on_disk = random.random() < 0.4
        runs = []
        for node in sorted(random.sample(range(NODES), random.randint(1, 3))):
            mask = random.choice((1, 3, 5, 10, 15))
            if (not on_disk and mask & ~free[node]) or (own and mask & there.get(node, 0)):
                continue
            if not on_disk:
                free[node] &= ~mask
            if own:
                there[node] = there.get(node, 0) | mask
            runs.append((node, 1, mask, mask.bit_count()))
        if not runs:
            continue
        start_us = random.randint(1000, 9000)
        suspended_us = random.randint(start_us, NOW_US) if on_disk or random.random() < 0.2 else None
        ready_us = 0 if random.random() < 0.6 else random.randint(start_us, NOW_US + RESUME_US)
        if suspended_us is not None:
            ready_us = min(ready_us, suspended_us)
        job = JobSpec(number, 0, sum(run[3] for run in runs), estimate_us, memory_mb=random.choice((0, 2)))
        running.append(
            RunningJob(
                job,
                start_us,
                runs_on(*runs),
                random.randint(500, 12_000),
                None,
                suspended_us,
                0,
                random.randint(0, max(0, ready_us - start_us)) if ready_us else 0,
                on_disk,
                ready_us,
            )
        )
    pending = tuple(
        PendingJob(JobSpec(number, number, 1, random.choice((50, 100, 101, 150, 200, 201))), random.random() < 0.2)
        for number in range(100, 110)
    )
    return WELCOME._replace(
        now_us=NOW_US,
        nodes=(NodeClass(NODES, 1, THREADS, 1, 100, 0, 0, 0, 1000),),
        down=tuple(sorted(random.sample(range(NODES), random.choice((0, 0, 1, 2))))),
        running=tuple(running),
        pending=pending,
        notes=(),
        wakes=(),
        resume_us=RESUME_US,
    )


def bits(nodes: set[int]) -> int:
    return sum(1 << node for node in nodes)


def nodes_of(job: RunningJob) -> set[int]:
    return {node for first, count, _, _ in job.runs for node in range(first, first + count)}


def machine_of(told: Welcome) -> tuple[View, VirtualMachine]:
    core = core_with(welcome=told)
    core.check()
    return core.view, VirtualMachine(core.view, ABOVE_US, MOST_US)


@pytest.mark.parametrize("seed", range(60))
def test_the_machine_agrees_with_a_calculation_job_by_job(seed: int) -> None:
    random = Random(f"virtual {seed}")
    told = random_welcome(random)
    view, machine = machine_of(told)
    virtual_us = random.choice((0, 777, NOW_US, 50_000))
    open_nodes = random.choice((0, -1, random.randrange(1 << NODES)))
    machine.turn_to(virtual_us, NodeSet(open_nodes), lambda at_us: at_us * 3)
    own = [job for job in told.running if ABOVE_US < job.spec.estimate_us <= MOST_US]

    assert machine.now_us == virtual_us
    assert machine.wall_us(7) == 21
    assert [job.id for job in machine.queue] == [
        job.spec.id for job in told.pending if not job.held and ABOVE_US < job.spec.estimate_us <= MOST_US
    ]
    assert machine.queued == len(machine.queue)

    left_us = {}  # the rest of each job's expected time
    for job in own:
        since_us = job.suspended_us if job.suspended_us is not None else max(NOW_US, job.ready_us)
        left_us[job.spec.id] = job.start_us + job.estimate_us - since_us
    assert {job: running.end_us - virtual_us for job, running in machine.running.items()} == left_us
    for job in own:
        running = machine.running[job.spec.id]
        assert machine.expected_end(running) == max(virtual_us + left_us[job.spec.id], virtual_us + 1)
        assert machine.progress_us(running) == view.progress_us(view.running[job.spec.id])
        assert (running.runs, running.on_disk) == (job.runs, job.on_disk)
    ends = sorted((max(virtual_us + left_us[job.spec.id], virtual_us + 1), job.spec.id) for job in own)
    assert machine.releases == ends
    assert machine.occupancies() == [
        Occupancy(end_us, job, NodeSet(bits(nodes_of(by_id(own, job))))) for end_us, job in ends
    ]

    up = set(range(NODES)) - set(told.down)
    is_open = {node for node in range(NODES) if open_nodes >> node & 1}
    held = {node for job in own for node in nodes_of(job)}
    busy = {node for job in told.running if not job.on_disk for node in nodes_of(job)}
    claimed = {node for job in told.running if job.on_disk for node in nodes_of(job)}
    assert machine.free_nodes == bits(up & is_open - held)
    assert machine.idle_nodes == bits(up & is_open - held - busy)
    assert machine.unclaimed_nodes == bits(up & is_open - held - busy - claimed)
    for thread in range(THREADS):
        taken = {node for job in own for node, _, mask, _ in job.runs if mask >> thread & 1}
        assert machine.all_free[thread] == bits(up & is_open - taken)
        assert machine.free[thread] == bits(up & is_open - held)
    memory = [100] * NODES
    for job in own:
        for node, _, _, processes in job.runs:
            memory[node] -= processes * job.spec.memory_mb
    assert machine.free_memory_mb == memory


@pytest.mark.parametrize("seed", range(60))
def test_availability_agrees_with_a_calculation_node_by_node(seed: int) -> None:
    """At every expected end, and at the next instant for nodes that are closed now; also with further planned jobs."""
    random = Random(f"steps {seed}")
    told = random_welcome(random)
    _, machine = machine_of(told)
    open_nodes = random.choice((-1, random.randrange(1 << NODES)))
    machine.turn_to(500, NodeSet(open_nodes), int)
    besides = [
        Occupancy(500 + random.randint(1, 9000), 900 + number, NodeSet(random.randrange(1, 1 << NODES)))
        for number in range(random.choice((0, 0, 2)))
    ]
    up = bits(set(range(NODES)) - set(told.down))
    stays = [*machine.occupancies(), *besides]
    steps = machine.steps(besides)
    closed = up & ~open_nodes
    wanted = {500, *(stay.end_us for stay in stays)} | ({501} if closed else set())
    assert [at_us for at_us, _ in steps] == sorted(wanted)
    for at_us, free in steps:
        busy = closed if at_us == 500 else 0
        for stay in stays:
            if stay.end_us > at_us:
                busy |= stay.nodes
        assert free == up & ~busy
    if not besides:
        assert list(machine.availability()) == [(at_us, machine.firsts(free)) for at_us, free in steps]
        room = [(at_us, size(machine.firsts(free))) for at_us, free in steps]
        assert machine.free_steps() == room
        for threads in range(1, NODES * THREADS + 1):  # for a job that cannot start now, in the class's own time
            expected = next(((at_us, n - threads) for at_us, n in room[1:] if n >= threads), None)
            assert machine.shadow(threads) == expected


def by_id(jobs: list[RunningJob], number: int) -> RunningJob:
    return next(job for job in jobs if job.spec.id == number)
