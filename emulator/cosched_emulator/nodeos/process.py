"""A process and its job, as the parts of the exact cluster see them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cosched_emulator.nodeos.programs import Operation, Program, Send

WAITING: Final = 0  # for a barrier, a device or a message
RESUMABLE: Final = 1  # what it waited for is there, and it is stopped
RUNNABLE: Final = 2  # has CPU work to do
DONE: Final = 3


class Process:
    """One process of a job; bound to the CPU of its node."""

    __slots__ = (
        "allowed",
        "allowed_since_us",
        "allowed_us",
        "bursts",
        "consumed_us",
        "counter",
        "drawn",
        "files_left",
        "generation",
        "index",
        "io_us",
        "is_io",
        "job",
        "memory_mb",
        "message",
        "node",
        "operations",
        "paging",
        "passed",
        "rank",
        "rest_us",
        "spun_us",
        "state",
        "useful_us",
        "writes_shared",
    )

    def __init__(self, index: int, job: ParallelJob, rank: int, node: int, memory_mb: int) -> None:
        self.index = index  # in order of start: breaks ties between events of one instant
        self.job = job
        self.rank = rank
        self.node = node
        self.memory_mb = memory_mb
        self.operations: Iterator[Operation] = job.program.operations(rank)
        self.passed = -1  # operations that it has done; -1: it has not begun
        self.state = RESUMABLE
        self.allowed = False
        self.paging = 0  # parts of its memory that are being read from the swap device
        self.rest_us = 0  # CPU work left of the present burst
        self.is_io = False  # the burst belongs to I/O
        self.generation = 0  # of its time on the CPU: events of an earlier one are stale
        self.counter = 0  # of linux-epochs, in ticks
        self.files_left = 0  # to write, after the present one
        self.message: Send | None = None  # that the burst prepares
        self.writes_shared = True
        self.consumed_us = 0  # CPU time since its start
        self.io_us = 0  # of that, I/O's
        self.useful_us = 0  # of that, in bursts of `Compute`, with all of the present one
        self.spun_us = 0  # of that, polling
        self.allowed_us = 0
        self.allowed_since_us = 0
        self.bursts = 0  # number of draws for bursts
        self.drawn: list[float] = []  # the next ones, last first


class ParallelJob:
    """A job in an exact cluster."""

    __slots__ = ("arrived", "barriers", "number", "processes", "program", "running")

    def __init__(self, number: int, program: Program) -> None:
        self.number = number
        self.program = program
        self.processes: list[Process] = []
        self.arrived = 0  # processes that wait at the present barrier
        self.barriers = 0  # that all have passed
        self.running = 0  # processes that are not done
