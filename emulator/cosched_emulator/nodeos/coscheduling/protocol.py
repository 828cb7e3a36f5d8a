"""What the message layer and the CPU of a node ask a coscheduling policy (Choi et al. 2004, section 3: six hooks)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from cosched_emulator.nodeos.simulated_process import Process

FOREVER: Final = 1 << 62  # microseconds to poll: until what is waited for is there

# What a process waits for in the message layer.
MESSAGE: Final = 0  # that another process sends
ANSWER: Final = 1  # of the receiver, before a large message may leave
ACKNOWLEDGEMENT: Final = 2  # of the receiver's network interface; only where `CoschedulingPolicy.acknowledged`


class Node(Protocol):
    """A node as its policy sees it."""

    @property
    def current(self) -> Process | None:
        """Return the process that has the CPU."""

    @property
    def ports(self) -> Sequence[Process]:
        """Return the processes of jobs on this node that have not ended, in order of start."""

    def unread(self, process: Process) -> int:
        """Return how many messages and requests to send have arrived for a process that it has not received."""


class CoschedulingPolicy:
    """One object for each node. As it is, it blocks at once in each wait, and advises nothing.

    Parameters are keyword arguments of the class: whole numbers, texts, or true and false. A policy is a function of
    what it is told: no clock, no file, no random number that is not named by a seed. Processes are compared by identity.
    Attributes are read when it is made; ``interval_us`` and ``ignores_counters`` also after each `tick`.
    """

    wants_arrivals: bool = False  # whether `arrived` is called, after an interrupt
    advises: bool = False  # whether `advise` is asked
    acknowledged: bool = False  # whether senders wait for their network interface, with `ACKNOWLEDGEMENT`
    interval_us: int = 0  # between calls of `tick`; 0: it is not called
    ignores_counters: bool = False  # advice counts whatever the local scheduler says of it

    def waits(self, process: Process, waiting: int) -> int:  # noqa: ARG002  (part of the protocol)
        """Return for how many microseconds of CPU a process polls before it blocks: 0 for none, `FOREVER` for no end.

        ``waiting`` is `MESSAGE`, `ANSWER` or `ACKNOWLEDGEMENT`.
        """
        return 0

    def arrived(self, process: Process) -> None:
        """Something has arrived for a process of the node that does not have the CPU."""

    def tick(self, node: Node) -> None:
        """``interval_us`` have passed since the last call."""

    def collective(self, process: Process, begins: bool) -> None:
        """A process begins or ends a collective operation."""

    def advise(self, runnable: Sequence[Process], current: Process | None) -> Process | None:  # noqa: ARG002
        """Return the runnable process that should have the CPU, or None to leave it to the local scheduler.

        It is asked before the local scheduler picks, and whenever the advice may have changed. ``current`` has the CPU, or
        had it last; advice that the local scheduler does not take (`LocalScheduler.takes_advice`) has no effect.
        """
        return None

    def chosen(self, process: Process) -> None:
        """The CPU has been given to this process; called if the policy advises."""


# Advice of one process at a time.


class AdvisesOne(CoschedulingPolicy):
    """A policy that advises one process, until that waits, the CPU goes to another one, or the advice changes."""

    advises = True
    _advised: Process | None = None

    def advise(self, runnable: Sequence[Process], current: Process | None) -> Process | None:  # noqa: ARG002
        """Return the advised process; it has no effect while that waits."""
        return self._advised

    def chosen(self, process: Process) -> None:
        """Forget the advice that was not taken."""
        if process is not self._advised:
            self._advised = None
