"""What has happened on exactly simulated nodes, in numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cosched_emulator.nodeos.kernel.cpu import Cpu
from cosched_emulator.nodeos.process import ParallelJob


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


def counters_of(cpus: Sequence[Cpu], messages: Messages, now_us: int) -> Counters:
    """Return the counters of nodes that were simulated up to now."""
    return Counters(
        now_us * len(cpus),
        sum(cpu.busy_us for cpu in cpus),
        sum(cpu.overhead_us for cpu in cpus),
        sum(cpu.switches for cpu in cpus),
        sum(cpu.interrupts for cpu in cpus),
        messages,
    )
