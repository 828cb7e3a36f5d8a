"""Local schedulers: which process of a node has its CPU next. Their base, one class for each scheduler, and their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from cosched_emulator.nodeos.settings import EPOCH_TICKS, TICK_US
from cosched_emulator.nodeos.simulated_process import Process
from cosched_hwmodel import draws

# What a node's CPU asks its local scheduler.


class LocalScheduler:
    """The scheduler of one CPU. It keeps the runnable processes, that on the CPU included; it never sees time pass
    but through its arguments, in microseconds.
    """

    counts = False  # whether `ran` does anything

    def __init__(self) -> None:
        self.queue: list[Process] = []  # the runnable processes, for reading only

    def enter(self, process: Process) -> None:
        """A process has come to the node; it is not runnable yet."""

    def leave(self, process: Process) -> None:
        """A process has ended; it is not runnable any more."""

    def wake(self, process: Process) -> None:
        """A process is runnable, because what it waited for is there."""
        raise NotImplementedError

    def resume(self, process: Process) -> None:
        """A process is runnable, because it was stopped and may go on."""
        raise NotImplementedError

    def sleep(self, process: Process) -> None:
        """A runnable process waits, or has been stopped."""
        self.queue.remove(process)

    def pick(self, previous: Process | None) -> Process | None:
        """Return the process that gets the CPU; ``previous`` had it last. None: no process is runnable."""
        raise NotImplementedError

    def preempts(self, woken: Process, current: Process) -> bool:  # noqa: ARG002 - of those who preempt
        """Return whether a process that has just been woken takes the CPU from the present one."""
        return False

    def takes_advice(self, process: Process) -> bool:  # noqa: ARG002 - of those who count ticks
        """Return whether a runnable process that a coscheduling policy advises may have the CPU now."""
        return True

    def turn_end_us(self, current: Process, since_us: int, now_us: int) -> int:
        """Return when the turn of the process ends that has had the CPU since ``since_us``, if others are runnable."""
        raise NotImplementedError

    def end_turn(self, current: Process) -> None:
        """The turn of a process is over, and others are runnable."""

    def ran(self, process: Process, begin_us: int, end_us: int) -> None:
        """A process has had the CPU from ``begin_us`` to ``end_us``."""

    def shift(self, by_us: int) -> None:
        """Time has stood still for so long: all instants that are kept are later."""


# Round robin with a slice; a process that wakes queues up and preempts none.


class RoundRobin(LocalScheduler):
    """Processes take turns of ``slice_us``; the first of the queue has the CPU.

    A process that is alone gets one slice after the other, so one that comes waits for the end of the present one.
    """

    def __init__(self, slice_us: int) -> None:
        super().__init__()
        self._slice_us = slice_us

    def wake(self, process: Process) -> None:
        """Put the process at the end."""
        self.queue.append(process)

    def resume(self, process: Process) -> None:
        """Put the process at the end."""
        self.queue.append(process)

    def pick(self, previous: Process | None) -> Process | None:  # noqa: ARG002  (part of the protocol)
        """Return the first process."""
        return self.queue[0] if self.queue else None

    def turn_end_us(self, current: Process, since_us: int, now_us: int) -> int:  # noqa: ARG002  (part of the protocol)
        """Return the end of the slice in which ``now_us`` lies."""
        slices = max(1, -((since_us - now_us) // self._slice_us))
        return since_us + slices * self._slice_us

    def end_turn(self, current: Process) -> None:
        """Put the process at the end."""
        self.queue.remove(current)
        self.queue.append(current)


# A process that wakes preempts; else round robin with a slice.


class WakeFirst(RoundRobin):
    """Round robin in which a process that wakes takes the CPU. The preempted one comes next, with a new slice."""

    def wake(self, process: Process) -> None:
        """Put the process first."""
        self.queue.insert(0, process)

    def preempts(self, woken: Process, current: Process) -> bool:  # noqa: ARG002  (part of the protocol)
        """Return True."""
        return True


# The scheduler of Linux 2.4 on one CPU: counters of ticks, renewed in epochs, for processes of nice 0.

_BASE: Final = 20  # of goodness
_MARGIN: Final = 1  # a woken process preempts if its goodness is larger by more


class LinuxEpochs(LocalScheduler):
    """Counters fall by one at each tick on the CPU; at 0 a process waits until those of all runnable ones are 0.

    Then every process of the node gets half of what it has left and ``epoch_ticks`` more (6 in Linux 2.4), those that sleep
    or are stopped too. Goodness is 0 at counter 0, else counter + 20, and 1 more for the process that ran last. Ticks come
    at ``phase_us`` plus multiples of 10 ms; a process that has the CPU when one comes pays for it. Those of a process that
    runs alone are counted when that is needed, not one by one.
    """

    counts = True

    def __init__(self, phase_us: int, seed: int, epoch_ticks: int = EPOCH_TICKS) -> None:
        super().__init__()
        self._phase_us = phase_us
        self._seed = seed
        self._epoch_ticks = epoch_ticks
        self._residents: list[Process] = []
        self._last: Process | None = None

    def enter(self, process: Process) -> None:
        """Give the process some of the ticks of an epoch: draw ``counter``, as it inherits them from a parent not modelled."""
        drawn = draws.uniform(self._seed, "counter", process.job.number, process.rank)
        process.counter = 1 + int(drawn * self._epoch_ticks)
        self._residents.append(process)

    def leave(self, process: Process) -> None:
        """Forget the process."""
        self._residents.remove(process)

    def wake(self, process: Process) -> None:
        """Put the process at the front of the run queue."""
        self.queue.insert(0, process)

    def resume(self, process: Process) -> None:
        """Put the process at the front of the run queue."""
        self.queue.insert(0, process)

    def pick(self, previous: Process | None) -> Process | None:
        """Return the process of the highest goodness; of equal ones the one that ran last, then the first in the queue."""
        self._last = previous
        if not self.queue:
            return None
        best = self.queue[0] if len(self.queue) == 1 else max(self.queue, key=self._goodness)
        if best.counter == 0:
            self._renew()
            best = max(self.queue, key=self._goodness)
        return best

    def preempts(self, woken: Process, current: Process) -> bool:
        """Return whether the woken process is better by more than 1."""
        self._last = current
        return self._goodness(woken) - self._goodness(current) > _MARGIN

    def takes_advice(self, process: Process) -> bool:
        """Return whether it has ticks left in this epoch (Choi et al. 2004, section 4.2)."""
        return process.counter > 0

    def turn_end_us(self, current: Process, since_us: int, now_us: int) -> int:  # noqa: ARG002  (part of the protocol)
        """Return the tick at which the counter is 0."""
        ticks = (now_us - self._phase_us) // TICK_US + max(1, current.counter)
        return self._phase_us + ticks * TICK_US

    def ran(self, process: Process, begin_us: int, end_us: int) -> None:
        """Count the ticks in (begin_us, end_us]."""
        ticks = (end_us - self._phase_us) // TICK_US - (begin_us - self._phase_us) // TICK_US
        if not ticks and process.counter:
            return
        if ticks < process.counter or len(self.queue) > 1:
            process.counter = max(0, process.counter - ticks)
            return
        while ticks >= process.counter:  # alone: an epoch ends whenever its counter does
            ticks -= process.counter
            process.counter = 0
            self._renew()
        process.counter -= ticks

    def shift(self, by_us: int) -> None:
        """Ticks come later."""
        self._phase_us += by_us

    def _goodness(self, process: Process) -> int:
        return 0 if process.counter == 0 else _BASE + process.counter + (process is self._last)

    def _renew(self) -> None:
        for process in self._residents:
            process.counter = process.counter // 2 + self._epoch_ticks


# Local schedulers by name.

_PHASES: Final = 100  # different ones of the ticks of nodes


def _linux_epochs(_slice_us: int, epoch_ticks: int, seed: int, node: int) -> LocalScheduler:
    """The ticks of nodes do not come together (draw ``tick-phase``)."""
    phase = int(draws.uniform(seed, "tick-phase", node) * _PHASES)
    return LinuxEpochs(phase * (TICK_US // _PHASES), seed, epoch_ticks)


class _Kind(NamedTuple):
    """A local scheduler by name; `offered.LOCAL_SCHEDULERS` has the names."""

    meaning: str  # which process gets the CPU
    make: Callable[[int, int, int, int], LocalScheduler]  # of slice_us, epoch_ticks, seed and node
    counts_ticks: bool = False  # its turns are ``epoch_ticks`` long, and not a slice
    fractions: bool = False  # see `depends_on_fractions`


KINDS: Final[Mapping[str, _Kind]] = MappingProxyType(
    {
        "wake-first": _Kind(
            "a process that wakes preempts; the preempted one comes next; else turns of `slice_us`",
            lambda slice_us, *_: WakeFirst(slice_us),
        ),
        "rr": _Kind(
            "turns of `slice_us`; a process that wakes queues up",
            lambda slice_us, *_: RoundRobin(slice_us),
            fractions=True,
        ),
        "linux-epochs": _Kind(
            f"Linux 2.4: counters of ticks of 10 ms that are renewed by `epoch_ticks` ({EPOCH_TICKS}) when those of all "
            "runnable processes are 0; a process that wakes preempts if its goodness is larger by more than 1",
            _linux_epochs,
            counts_ticks=True,
        ),
    }
)


def period_us(name: str, epoch_ticks: int) -> int:
    """Return after which time a scheduler's own state repeats, besides slices that end: an epoch of two processes; 0: it has none."""
    return 2 * epoch_ticks * TICK_US if KINDS[name].counts_ticks else 0


def depends_on_fractions(name: str) -> bool:
    """Return whether a small change of a burst can change much.

    So it is where a process that wakes waits for the end of another one's burst: then it counts how many iterations of one
    job just fit between the bursts of the other.
    """
    return KINDS[name].fractions


def make_local(name: str, slice_us: int, epoch_ticks: int, seed: int, node: int) -> LocalScheduler:
    """Return the scheduler of one node; `NodeSettings` has refused other names."""
    return KINDS[name].make(slice_us, epoch_ticks, seed, node)
