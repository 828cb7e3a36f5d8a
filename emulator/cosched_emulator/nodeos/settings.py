"""What a node is like inside: times, speeds and the local scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

from cosched_emulator import needs
from cosched_emulator.bounds import Above0, Amount, Choice, Microseconds, at_least, between, check_bounds
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.offered import LOCAL_SCHEDULERS

SLICE_US: Final = 200_000
# Linux 2.4's, for its local scheduler.
TICK_US: Final = 10_000
EPOCH_TICKS: Final = 6  # of an epoch for a process of nice 0, where a second has 100

_PAGED: Final = needs.given("time_sharing.memory_mb")
_MESSAGES: Final = (needs.one_of("time_sharing.nodes", "windows", "exact"), needs.MESSAGES)


@dataclass(frozen=True, slots=True)
class CommonSettings:
    """Settings that a scenario's ``[time_sharing]`` gives by the same name, in the same unit, with the same default.

    The defaults are those of the paired gang paper (Wiseman and Feitelson 2003), and our decisions where it is silent:
    a file costs 0.1 ms of CPU that is logged to no process, and a server time with which 8 nodes that write 20 files
    each take 75 ms, as long as its compute barrier. A short message takes 10 µs one way (Choi et al. 2004, section
    4.1: 9.7).
    """

    local: Annotated[str, Choice(LOCAL_SCHEDULERS), needs.SHARED_CPU, "which process of a node gets its CPU"] = (
        LOCAL_SCHEDULERS[0]
    )
    epoch_ticks: Annotated[
        int,
        (needs.Later(), needs.one_of("time_sharing.local", "linux-epochs"), needs.SHARED_CPU),
        between(1, 10_000, "a whole number of ticks"),
        "ticks of 10 ms that each epoch gives a process under `linux-epochs`",
    ] = EPOCH_TICKS
    io_cpu_us: Annotated[Microseconds, needs.FILES, "CPU time to open, write and close a file"] = 100
    io_service_us: Annotated[Microseconds, needs.FILES, at_least(1), "time of the disk or server for a file"] = 463
    barrier_us: Annotated[
        Microseconds,
        needs.BARRIERS,
        at_least(1),
        "from the last arrival at a barrier to its release: communication, without CPU time",
    ] = 920
    switch_us: Annotated[Microseconds, "CPU time that a switch between processes costs"] = 0
    refill_us: Annotated[Microseconds, "additional CPU time after a switch, until the cache is filled again"] = 0
    memory_mb: Annotated[
        Amount,
        needs.MEMORY_OF_PROGRAMS,
        "memory of a node for the processes that are there, in MB: where they do not fit, they are paged; "
        "0: everything fits. The scheduler knows only `memory_mb` of `[cluster]`",
    ] = 0
    swap_mb_s: Annotated[Above0, _PAGED, "speed of a node's swap device, MB/s"] = 25
    paged_first_mb: Annotated[
        Amount, _PAGED, "memory that a process touches at once when it gets the CPU, where memory is short"
    ] = 1
    paged_mb_s: Annotated[Amount, _PAGED, "memory that a running process touches per second, where memory is short"] = (
        40
    )
    message_cpu_us: Annotated[Microseconds, _MESSAGES, at_least(1), "CPU time to send a message"] = 2
    receive_cpu_us: Annotated[Microseconds, _MESSAGES, "CPU time to receive a message"] = 2
    latency_us: Annotated[
        Microseconds,
        _MESSAGES,
        "latency of the network; with both CPU times, a short message takes 10 µs from program to program",
    ] = 6
    network_mb_s: Annotated[Above0, _MESSAGES, "speed of a node's link to the network, MB/s"] = 80
    rendezvous_bytes: Annotated[
        Amount, _MESSAGES, "larger messages leave when the receiver has answered a request; 0: no requests"
    ] = 16_384
    interrupt_us: Annotated[
        Microseconds, _MESSAGES, "CPU time of an interrupt by the network; it belongs to no process"
    ] = 10
    daemon_us: Annotated[
        Microseconds, "CPU time of the system's own processes in each period, on each node; 0: there are none"
    ] = 0
    daemon_period_us: Annotated[Above0, needs.given("time_sharing.daemon_us"), "period of `daemon_us`"] = 1_000_000


@dataclass(frozen=True, slots=True)
class NodeSettings(CommonSettings):
    """Settings of all nodes of a cluster; times in microseconds, sizes in MB (10^6 bytes), speeds in MB/s.

    Raises `ConfigurationError` for a value out of range.
    """

    slice_us: Annotated[int, at_least(1)] = SLICE_US  # a process's turn; linux-epochs counts its own ticks
    tick_us: int = TICK_US  # CPU time is logged in ticks, rounded at random; 0 logs it exactly
    io_logged_ppm: int = 0  # share of I/O's CPU time that is logged to the process
    coscheduling: str = "none"  # the policy of the message layer; none: who waits for a message blocks at once
    coscheduling_parameters: tuple[tuple[str, object], ...] = ()  # its parameters, by name

    def __post_init__(self) -> None:
        from cosched_emulator.nodeos.coscheduling.policies import make_policy  # noqa: PLC0415 - few scenarios have such nodes

        make_policy(self.coscheduling, self.coscheduling_parameters)
        check_bounds(self)
        if self.daemon_us >= self.daemon_period_us:
            raise ConfigurationError(
                "daemon_us", f"less than daemon_period_us, {self.daemon_period_us}", str(self.daemon_us)
            )
        switch_us = self.switch_us + self.refill_us
        if self.daemon_us and self.daemon_us + switch_us >= self.daemon_period_us:
            period_us = self.daemon_period_us
            expected = f"together with switch_us and refill_us less than daemon_period_us, {period_us}: otherwise no process progresses"
            raise ConfigurationError("daemon_us", expected, f"{self.daemon_us} and {switch_us}")

    @property
    def has_message_layer(self) -> bool:
        """Tell whether messages do more than to arrive: cost CPU time at the receiver, poll, interrupt, or ask first."""
        return self.coscheduling != "none" or bool(self.receive_cpu_us or self.rendezvous_bytes or self.interrupt_us)


# For how long nodes are simulated exactly after a change, where they are not always (`windows`).

BATCHES: Final = 8  # of a window, for which the quantile of `windows.window_groups.half_width` is


class WindowPlan(NamedTuple):
    """How long a window lasts."""

    least_us: int = 10_000_000
    most_us: int = 30_000_000
    warm_up_us: int = 500_000  # that does not count, after each change
    tolerance: float = 0.02  # half width of the 95 % interval of each job's rate, relative

    def check(self) -> WindowPlan:
        """Return the plan, or raise `ConfigurationError` if a window cannot be that long."""
        if self.least_us < self.warm_up_us + BATCHES:
            raise ConfigurationError("least_us", f"more than the warm-up of {self.warm_up_us}", str(self.least_us))
        if self.most_us < self.least_us:
            raise ConfigurationError("most_us", f"at least {self.least_us}", str(self.most_us))
        return self
