"""The CPU of a node: which process has it, since when, and what a switch costs."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappush
from typing import Final

import numpy as np

from cosched_emulator.nodeos.coscheduling.protocol import FOREVER
from cosched_emulator.nodeos.kernel.devices import paging_us
from cosched_emulator.nodeos.local import LocalScheduler
from cosched_emulator.nodeos.process_cluster import Counters, Messages
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_emulator.nodeos.simulated_process import Process
from cosched_hwmodel.draws import Beginnings

# The events of an exact cluster: plain tuples in one heap, whose order also says what comes first at one instant.

# (time in us, kind, node, index of the process or number of the job, generation or rank of the other process)
Event = tuple[int, int, int, int, int]

# The kinds, in their order at one instant. What is finished comes before the end of a turn: a process that ends its
# burst with its turn is not preempted.
BURST_END: Final = 0
DEVICE_DONE: Final = 1
MESSAGE: Final = 2  # has arrived
REQUEST: Final = 3  # to send a large message, has arrived
ANSWER: Final = 4  # to such a request, has arrived
ACKNOWLEDGED: Final = 5  # by the network interface of the receiver
RELEASE: Final = 6
PAGED: Final = 7
POLICY_TICK: Final = 8
TURN_END: Final = 9
OF_NODES: Final = (POLICY_TICK, TURN_END)  # kinds that belong to no process or job


# What a node's kernel logs of the CPU time that a process used: ticks, rounded at random.

_MOST_KEPT: Final = 1_000


class TickLog:
    """The kernels' logs. With ticks of 0 all is logged exactly."""

    def __init__(self, seed: int, tick_us: int) -> None:
        self._seed = seed
        self._tick_us = tick_us
        self._serial = 0  # of the next quantum
        self._kept: dict[tuple[tuple[int, ...], tuple[int, ...]], Beginnings] = {}  # the same processes come again

    def log_us(self, jobs: Sequence[int], ranks: Sequence[int], used_us: Sequence[int]) -> list[int]:
        """Return what is logged of the time that each process (its job and its rank) used in a quantum.

        A process that used a share of a tick is charged with a whole one, with that share as probability: draw ``tick``.
        """
        serial = self._serial
        self._serial += 1
        if not self._tick_us or not jobs:
            return list(used_us)
        processes = (tuple(jobs), tuple(ranks))
        keys = self._kept.get(processes)
        if keys is None:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            keys = Beginnings(self._seed, "tick", np.array(jobs, dtype=np.int64), np.array(ranks, dtype=np.int64))
            self._kept[processes] = keys
        ticks = (np.array(used_us) / self._tick_us + keys.uniforms(serial)).astype(np.int64)
        logged: list[int] = (ticks * self._tick_us).tolist()
        return logged


_NEVER_US: Final = 1 << 62


class Cpu:
    """One CPU. It asks its local scheduler which process runs, and enters the ends of bursts and turns as events."""

    def __init__(self, node: int, local: LocalScheduler, settings: NodeSettings, events: list[Event]) -> None:
        self.node = node
        self.local = local
        self.settings = settings
        self._switch_us = settings.switch_us + settings.refill_us
        self._counts = local.counts
        self._queue = local.queue
        self._events = events
        self.current: Process | None = None
        self.previous: Process | None = None  # the process that had the CPU last
        self._began_us = 0  # when the present process began to run
        self._since_us = 0  # from when on its work has not been counted
        self._held_us = 0  # `_since_us` of a CPU for which time stands still
        self._owed_us = 0  # of the present switch, not yet counted
        self._stint_us = 0  # for how long the previous process had it
        self._armed = -1  # generation whose turn ends at `_turn_end_us`
        self._turn_end_us = 0
        self._timer_us = _NEVER_US  # the next event `TURN_END`; turns that are over before it need none of their own
        self.missing_ppm = 0  # memory of processes that may run, but do not fit
        self.busy_us = 0  # used by processes
        self.overhead_us = 0  # used by switches and interrupts
        self.switches = 0
        self.interrupts = 0

    def enter(self, process: Process) -> None:
        """A process of a job has come to the node."""
        self.local.enter(process)

    def leave(self, process: Process) -> None:
        """A process of a job has ended."""
        self.local.leave(process)

    def interrupt(self) -> None:
        """The network interrupts: this takes no time here."""

    def end_interrupts(self, now_us: int) -> None:
        """Nothing to do, as interrupts take no time here."""

    def runs(self, process: Process, now_us: int) -> bool:
        """Return whether a process has the CPU, and the switch to it is over."""
        return process is self.current and now_us >= self._since_us

    def charge(self, now_us: int) -> None:
        """Count what the present process has done up to now."""
        process = self.current
        if process is None or now_us <= self._since_us:
            return
        used_us = now_us - self._since_us
        process.rest_us -= used_us
        process.consumed_us += used_us
        if process.is_io:
            process.io_us += used_us
        self.busy_us += used_us
        if self._owed_us:
            self.overhead_us += self._owed_us
            self._owed_us = 0
        if self._counts:
            self.local.ran(process, self._since_us, now_us)
        self._since_us = now_us

    def hold(self, now_us: int) -> None:
        """Count what the present process has done, and let time stand still: `charge` counts nothing from now on."""
        self.charge(now_us)
        self._held_us = self._since_us
        self._since_us = _NEVER_US

    def go_on_later(self, by_us: int) -> None:
        """Let time go on after `hold`, with all that is to come later by so much."""
        self._since_us = self._held_us + by_us
        self._began_us += by_us
        self._turn_end_us += by_us
        if self._timer_us != _NEVER_US:
            self._timer_us += by_us
        self.local.shift(by_us)

    def dispatch(self, now_us: int) -> None:
        """Give the free CPU to the process that the local scheduler picks."""
        process = self.local.pick(self.previous)
        if process is None:
            return
        self._armed = -1
        self._since_us = now_us
        self._owed_us = 0
        if process is not self.previous:
            cost_us = self._switch_us
            if self.missing_ppm:
                cost_us += paging_us(self.missing_ppm, self._stint_us, self.settings)
            self._since_us += cost_us
            self._owed_us = cost_us
            self.switches += 1
        self._began_us = self._since_us
        self.current = self.previous = process
        process.generation += 1
        heappush(
            self._events, (self._since_us + process.rest_us, BURST_END, self.node, process.index, process.generation)
        )
        if len(self._queue) > 1:
            self._arm(process, now_us)

    def go_on(self, process: Process, now_us: int) -> None:
        """Let the present process begin its next burst, or poll: for ever if nothing is on its way to it."""
        if process.rest_us < FOREVER:
            heappush(self._events, (now_us + process.rest_us, BURST_END, self.node, process.index, process.generation))

    def restart(self, process: Process, now_us: int) -> None:
        """Let the present process go on with what it has to do now, and not with what it would have done."""
        armed = self._armed == process.generation
        process.generation += 1
        if armed:
            self._armed = process.generation
        self.go_on(process, max(now_us, self._since_us))

    def wake(self, process: Process, now_us: int) -> None:
        """A process of the node is runnable, as what it waited for is there."""
        current = self.current
        if current is None:
            self.local.wake(process)
            self.dispatch(now_us)
            return
        self.charge(now_us)
        self.local.wake(process)
        if self.local.preempts(process, current):
            self._release(now_us)
            self.dispatch(now_us)
        else:
            self._arm(current, now_us)

    def resume(self, process: Process, now_us: int) -> None:
        """A process of the node that was stopped is runnable; it preempts none."""
        self.charge(now_us)
        self.local.resume(process)
        if self.current is None:
            self.dispatch(now_us)
        else:
            self._arm(self.current, now_us)

    def take_away(self, process: Process, now_us: int) -> None:
        """A runnable process waits, has ended or has been stopped. The CPU stays free until `dispatch`."""
        if process is self.current:
            self.charge(now_us)
            self._release(now_us)
        self.local.sleep(process)

    def give_up(self, process: Process, now_us: int) -> None:
        """The present process, whose work has been counted, waits or has ended; the next one gets the CPU."""
        self._release(now_us)
        self.local.sleep(process)
        self.dispatch(now_us)

    def end_turn(self, now_us: int) -> None:
        """The timer has run down: the turn of the present process may be over, unless that is alone by now."""
        if now_us == self._timer_us:
            self._timer_us = _NEVER_US
        process = self.current
        if process is None or self._armed != process.generation or now_us > self._turn_end_us:
            return
        if now_us < self._turn_end_us:
            self._set_timer()
            return
        self._armed = -1
        if len(self._queue) < 2:
            return
        self.charge(now_us)
        self.local.end_turn(process)
        if self._pick(process) is process:
            self._begin_turn(process, now_us)
        else:
            self._release(now_us)
            self.dispatch(now_us)

    def _begin_turn(self, process: Process, now_us: int) -> None:
        """Let the present process have the next turn, too."""
        self._arm(process, now_us + 1)

    def _pick(self, previous: Process | None) -> Process | None:
        return self.local.pick(previous)

    def _release(self, now_us: int) -> None:
        process = self.current
        assert process is not None
        if self._owed_us:
            self.overhead_us += self._owed_us - max(0, self._since_us - now_us)  # a switch can be cut short
            self._owed_us = 0
        self._stint_us = now_us - self._began_us if now_us > self._began_us else 0
        process.generation += 1
        self.current = None

    def _arm(self, process: Process, now_us: int) -> None:
        if self._armed != process.generation:
            self._armed = process.generation
            self._turn_end_us = self.local.turn_end_us(process, self._began_us, max(now_us, self._began_us))
            self._set_timer()

    def _set_timer(self) -> None:
        if self._turn_end_us < self._timer_us:
            self._timer_us = self._turn_end_us
            heappush(self._events, (self._turn_end_us, TURN_END, self.node, 0, 0))


# What has happened on exactly simulated nodes, in numbers.


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
