"""The exact cluster and the literal simulator, with the same jobs in the same random quanta."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from tests.emulator.nodeos.reference import Reference

from cosched_emulator.nodeos.exact import ExactCluster
from cosched_emulator.nodeos.programs import Program
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_hwmodel import draws

PHASES = 100  # different ones of ticks


class SideBySide:
    """Both, with the same phases of ticks; ``policy_tick_us`` is the interval of the coscheduling policy."""

    def __init__(self, settings: NodeSettings, nodes: int, seed: int, policy_tick_us: int = 0) -> None:
        self.nodes = nodes
        self.exact = ExactCluster(settings, nodes, seed)
        phases = [int(draws.uniform(seed, "tick-phase", node) * PHASES) * 100 for node in range(nodes)]
        of_policies = [
            int(draws.uniform(seed, "policy-tick", node) * PHASES) * policy_tick_us // PHASES for node in range(nodes)
        ]
        self.literal = Reference(settings, nodes, phases, of_policies)
        self.placed: dict[int, list[int]] = {}
        self.ends: dict[int, int] = {}

    def start(self, program: Callable[[int], Program], places: list[int]) -> None:
        """Put the next job on nodes; ``program`` takes its number of processes."""
        job = len(self.placed)
        self.placed[job] = places
        made = program(len(places))
        self.exact.start(job, made, places)
        self.literal.start(job, made, places)
        for task, process in zip(self.literal.jobs[job], self.exact.jobs[job].processes, strict=True):
            task.counter = process.counter

    def quanta(self, chance: random.Random, share: float, quantum_us: int, most: int) -> Iterator[int]:
        """Let each job that has not ended run in ``share`` of the quanta, until all have ended; yield the begin of each quantum."""
        for now_us in range(0, most * quantum_us, quantum_us):
            self._quantum(
                [job for job in self.placed if job not in self.ends and chance.random() < share], now_us, quantum_us
            )
            yield now_us
            assert self.ends == self.literal.ends
            if len(self.ends) == len(self.placed):
                return

    def _quantum(self, running: Sequence[int], now_us: int, quantum_us: int) -> None:
        on_nodes = {node: [job for job in running if node in self._left(job)] for node in range(self.nodes)}
        self.exact.allow(now_us, on_nodes)
        self.literal.allow(on_nodes)
        while (reached := self.exact.advance(now_us + quantum_us)).ended:
            self.ends.update(dict.fromkeys(reached.ended, reached.now_us))
            if reached.now_us == now_us + quantum_us:
                break
        self.literal.advance(now_us + quantum_us)

    def _left(self, job: int) -> list[int]:
        """Return the nodes of the processes of a job that has not ended."""
        record = self.exact.jobs.get(job)
        return [] if record is None else [process.node for process in record.processes]
