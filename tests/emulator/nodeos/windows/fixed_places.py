"""Jobs of the NAS programs that come at given times to given nodes, and their run times in a cluster."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from cosched_emulator.nodeos.process_cluster import ProcessCluster
from cosched_emulator.nodeos.programs import Program
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_emulator.nodeos.skeletons.nas_programs import iterations_of, skeleton_program
from cosched_emulator.workload.nas import kind_of

NODES = 16
MOST = 3  # jobs on a node
FOREVER_US = 1 << 61
SECOND_US = 1_000_000


class Placed(NamedTuple):
    """A job, when it comes, and the nodes of its processes."""

    program: Program
    at_us: int
    places: Sequence[int]


def paper_settings(policy: str, **changes: int) -> NodeSettings:
    """Return nodes as in the coscheduling paper, under a policy."""
    usual: dict[str, Any] = {
        "message_cpu_us": 2,
        "receive_cpu_us": 2,
        "latency_us": 6,
        "network_mb_s": 80,
        "rendezvous_bytes": 16_384,
        "interrupt_us": 10,
        "refill_us": 300,
        "daemon_us": 2_000,
        "tick_us": 0,
    }
    return NodeSettings("linux-epochs", coscheduling=policy, **{**usual, **changes})


def some_jobs(seed: int, jobs: int, seconds: float, gap_s: float = 40.0) -> list[Placed]:
    """Return jobs of classes B and C, each about ``seconds`` long alone, on nodes that have room for all of them together.

    There are fewer than ``jobs`` where the room ends before.
    """
    chance = random.Random(seed)
    room = [MOST] * NODES
    found: list[Placed] = []
    while len(found) < jobs and sum(map(bool, room)) >= 4:
        name = chance.choice(("CG", "IS", "SP", "MG", "BT", "LU", "EP"))
        processes = chance.choice((4, 9, 16) if name in ("SP", "BT") else (4, 8, 16))
        nodes = [node for node in range(NODES) if room[node]]
        if len(nodes) < processes:
            continue
        places = sorted(chance.sample(nodes, processes)) if chance.random() < 0.5 else nodes[:processes]
        for node in places:
            room[node] -= 1
        at_us = round(len(found) * gap_s * SECOND_US * chance.uniform(0.5, 1.5))
        found.append(Placed(nas_program(f"{name}.{chance.choice('BC')}", processes, seconds), at_us, places))
    return found


def nas_program(label: str, processes: int, seconds: float) -> Program:
    """Return the skeleton of a program, with as many iterations as take about ``seconds`` alone; one at least."""
    kind = kind_of(label, processes, "label")
    iterations = max(1, round(iterations_of(*kind) * seconds / kind.seconds))
    return skeleton_program(*kind, kind.seconds, iterations)


def run_times(cluster: ProcessCluster, jobs: Sequence[Placed]) -> list[float]:
    """Let the jobs run, each from when it comes, and return their run times in seconds."""
    waiting = sorted(range(len(jobs)), key=lambda job: jobs[job].at_us)
    running: dict[int, int] = {}
    times = [0.0] * len(jobs)
    while waiting or running:
        reached = cluster.advance(jobs[waiting[0]].at_us if waiting else FOREVER_US)
        for job in reached.ended:
            times[job] = (reached.now_us - running.pop(job)) / SECOND_US
        if waiting and reached.now_us == jobs[waiting[0]].at_us:
            job = waiting.pop(0)
            cluster.start(job, jobs[job].program, jobs[job].places)
            running[job] = reached.now_us
        there = {node: [job for job in sorted(running) if node in jobs[job].places] for node in range(NODES)}
        cluster.allow(reached.now_us, there)
    return times
