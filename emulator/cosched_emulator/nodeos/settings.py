"""What a node is like inside: times, speeds and the local scheduler."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.nodeos.coscheduling.policies import make_policy
from cosched_emulator.nodeos.local import EPOCH_TICKS, LOCAL_SCHEDULERS

_POSITIVE: Final = (
    "slice_us",
    "epoch_ticks",
    "barrier_us",
    "io_service_us",
    "message_cpu_us",
    "network_mb_s",
    "swap_mb_s",
    "daemon_period_us",
)
_NO_NUMBERS: Final = ("local", "coscheduling", "coscheduling_parameters")


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Settings of all nodes of a cluster; times in microseconds, sizes in MB (10^6 bytes), speeds in MB/s.

    The defaults are those of the paired gang paper (Wiseman and Feitelson 2003), and our decisions where it is silent:
    a file costs 0.1 ms of CPU that is logged to no process, and a server time with which 8 nodes that write 20 files
    each take 75 ms, as long as its compute barrier. Raises `ConfigurationError` for a value out of range.
    """

    local: str = "wake-first"  # the scheduler of each node's CPU
    slice_us: int = 200_000  # a process's turn under wake-first and rr; linux-epochs counts its own ticks
    epoch_ticks: int = EPOCH_TICKS  # linux-epochs: ticks of 10 ms that an epoch gives a process
    tick_us: int = 10_000  # CPU time is logged in ticks, rounded at random; 0 logs it exactly
    io_logged_ppm: int = 0  # share of I/O's CPU time that is logged to the process
    io_cpu_us: int = 100  # CPU to open, write and close one file
    io_service_us: int = 463  # of the disk or server for one file
    barrier_us: int = 920  # from the last arrival to the release: communication, no CPU
    barrier_process_us: int = 0  # more for each process but the first
    switch_us: int = 0  # CPU time of a switch between processes, used by none of them
    refill_us: int = 0  # more after a switch, until the cache is filled again
    message_cpu_us: int = 5  # CPU to send a message
    latency_us: int = 10  # of the network
    network_mb_s: int = 100  # of a node's way out
    memory_mb: int = 0  # of a node for processes; 0: everything fits
    swap_mb_s: int = 25  # of a node's swap device
    paged_first_mb: int = 1  # touched at once by a process that gets the CPU, where memory is short
    paged_mb_s: int = 40  # touched by it as it runs
    coscheduling: str = "none"  # the policy of the message layer; none: who waits for a message blocks at once
    coscheduling_parameters: tuple[tuple[str, object], ...] = ()  # its parameters, by name
    receive_cpu_us: int = 0  # CPU to receive a message
    rendezvous_bytes: int = 0  # larger messages wait until their receiver has answered; 0: none does
    interrupt_us: int = 0  # CPU time of an interrupt by the network, used by no process
    daemon_us: int = 0  # CPU time of the system's own processes in each period, on each node; 0: none
    daemon_period_us: int = 1_000_000

    def __post_init__(self) -> None:
        if self.local not in LOCAL_SCHEDULERS:
            raise ConfigurationError.unknown_name("local", self.local, LOCAL_SCHEDULERS)
        make_policy(self.coscheduling, self.coscheduling_parameters)
        for field in fields(self):
            value = getattr(self, field.name)
            least = 1 if field.name in _POSITIVE else 0
            if field.name not in _NO_NUMBERS and (type(value) is not int or value < least):
                raise ConfigurationError(field.name, f"a whole number of at least {least}", repr(value))
        if self.io_logged_ppm > 1_000_000:
            raise ConfigurationError("io_logged_ppm", "at most 1000000", str(self.io_logged_ppm))
        if self.daemon_us >= self.daemon_period_us:
            raise ConfigurationError(
                "daemon_us", f"less than daemon_period_us, {self.daemon_period_us}", str(self.daemon_us)
            )
        switch_us = self.switch_us + self.refill_us
        if self.daemon_us and self.daemon_us + switch_us >= self.daemon_period_us:
            period_us = self.daemon_period_us
            expected = f"together with switch_us and refill_us less than daemon_period_us, {period_us}: else no process goes on"
            raise ConfigurationError("daemon_us", expected, f"{self.daemon_us} and {switch_us}")

    @property
    def has_message_layer(self) -> bool:
        """Tell whether messages do more than to arrive: cost CPU time at the receiver, poll, interrupt, or ask first."""
        return self.coscheduling != "none" or bool(self.receive_cpu_us or self.rendezvous_bytes or self.interrupt_us)

    def barrier_time_us(self, processes: int) -> int:
        """Return the time from the last arrival to the release of a barrier (paper section 4.1.1)."""
        return self.barrier_us + self.barrier_process_us * (processes - 1)
