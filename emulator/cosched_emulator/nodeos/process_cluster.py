"""What a cluster of nodes with processes can do: the exact and the fluid one alike."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from cosched_emulator.errors import ConfigurationError, InvariantError
from cosched_emulator.nodeos.programs import Program
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_emulator.nodeos.simulated_process import ParallelJob


class Reached(NamedTuple):
    """The time that was reached, in microseconds, and the jobs that ended at that instant."""

    now_us: int
    ended: tuple[int, ...]


class ProcessUse(NamedTuple):
    """What the processes of one job on one node used since the last `ProcessCluster.collect`, in microseconds.

    ``logged_us`` is what the node's kernel says, in ticks and without I/O's CPU time; ``allowed_us`` how long they might
    run. With several processes of the job on the node all are sums.
    """

    job: int
    node: int
    consumed_us: int
    logged_us: int
    allowed_us: int


class Messages(NamedTuple):
    """The messages of jobs."""

    sent: int = 0
    delayed: int = 0  # whose receiver had to get the CPU first
    delays_us: int = 0  # in all, from their arrival to that

    def plus(self, jobs: Iterable[ParallelJob]) -> Messages:
        """Return these and those of some jobs."""
        sent, delayed, delays_us = self
        for job in jobs:
            sent, delayed, delays_us = sent + job.messages, delayed + job.delayed, delays_us + job.delays_us
        return Messages(sent, delayed, delays_us)


class Counters(NamedTuple):
    """Numbers since the begin; times in microseconds, those of all nodes together."""

    node_us: int  # that was simulated
    busy_us: int  # CPU time of processes, those of the system included
    overhead_us: int  # CPU time of switches, interrupts and paging
    switches: int
    interrupts: int
    messages: Messages


def check_start(
    settings: NodeSettings,
    nodes: int,
    jobs: Container[int],
    job: int,
    program: Program,
    places: Sequence[int],
    memory_mb: int,
) -> None:
    """Raise an error if a job cannot be put on nodes: it is there already, or has no place, or its program cannot run so."""
    if job in jobs:
        raise InvariantError(f"job {job} is on its nodes already")
    if not places or not all(0 <= node < nodes for node in places):
        raise ConfigurationError("places", f"nodes from 0 to {nodes - 1}", repr(list(places)))
    if settings.memory_mb and memory_mb > settings.memory_mb:
        raise ConfigurationError("memory_mb", f"at most the node's {settings.memory_mb} MB", str(memory_mb))
    program.check(len(places))


class ProcessCluster(Protocol):
    """Nodes of one CPU each, on which the processes of parallel jobs share time."""

    def start(self, job: int, program: Program, places: Sequence[int], memory_mb: int = 0) -> None:
        """Put the processes of a job on nodes, stopped: process i on node ``places[i]``, each with its memory."""

    def allow(self, now_us: int, runnable: Mapping[int, Sequence[int]]) -> None:
        """Let the jobs listed for each node run there, and stop all other processes, as SIGSTOP does.

        A request to a disk or the network that a stopped process waits for is completed meanwhile.
        """

    def remove(self, job: int) -> None:
        """Remove a job that has not ended, at the time up to which the cluster has advanced.

        Its requests to devices keep their place there, but nothing happens when they are done. The number may be used again.
        """

    def advance(self, until_us: int) -> Reached:
        """Go on to ``until_us`` or to the first instant at which a job ends.

        ``advance(a)`` and then ``advance(b)`` are the same as ``advance(b)``.
        """

    def progress(self, job: int) -> float:
        """Return the share of its program that a job has done, 0 to 1, weighted by the time that the parts take alone.

        The slowest process counts. Raises `InvariantError` for a job that has ended.
        """

    def consumed_us(self, job: int) -> int:
        """Return the CPU time of all processes of a job since its start; also of one that left since the last `collect`."""

    @property
    def simulated(self) -> float:
        """Return the share of the time of nodes that was simulated burst by burst, of all time in which jobs could run there."""

    def counters(self) -> Counters | None:
        """Return what has happened on the nodes while they were simulated burst by burst; None: they never were."""

    def collect(self) -> list[ProcessUse]:
        """Return what was used since the last call by jobs that could run, or ended since; ordered by job and node."""
