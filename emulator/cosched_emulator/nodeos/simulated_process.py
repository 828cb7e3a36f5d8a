"""A process and its job, as the parts of the exact cluster see them."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Final

from cosched_emulator.nodeos.programs import ByRank, Message, Program, Step, steps_of

# The port of a process: what has been sent to it, and what it waits for.

# What a process waits for, unless that is a message: then it is the rank of the sender.
NOTHING: Final = -1
AN_ANSWER: Final = -2
AN_ACKNOWLEDGEMENT: Final = -3


class Port:
    """The message layer of one process. All times are absolute, in microseconds."""

    __slots__ = ("acknowledged_us", "arrived_us", "expects", "granted", "inbox", "requests", "spin_us", "spun_from_us")

    def __init__(self) -> None:
        self.inbox: defaultdict[int, deque[int]] = defaultdict(deque)  # by rank of the sender: arrivals, some to come
        self.requests: list[int] = []  # ranks of processes that wait for an answer, as they came
        self.expects = NOTHING
        self.granted = False  # the answer to its own request is there
        self.acknowledged_us = 0  # when the last message it sent is acknowledged
        self.spin_us = 0  # for how long it polls, from when it gets the CPU
        self.spun_from_us = 0  # CPU time that it had used when it began to poll
        self.arrived_us = -1  # when what it waits for came, if it has not had the CPU since

    def poll_us(self, begins_us: int) -> int:
        """Return for how long it polls from then on, as far as that is known; 0: there is something to do."""
        if self.requests or self.granted:
            return 0
        if self.expects >= 0:
            inbox = self.inbox[self.expects]
            if not inbox:
                return self.spin_us
            known_us = inbox[0] - begins_us
        elif self.expects == AN_ACKNOWLEDGEMENT:
            known_us = self.acknowledged_us - begins_us
        else:
            return self.spin_us
        return min(max(0, known_us), self.spin_us)

    def shift(self, by_us: int) -> None:
        """Time has stood still for so long: what came or will come does so later."""
        for arrivals in self.inbox.values():
            for number, arrival_us in enumerate(arrivals):
                arrivals[number] = arrival_us + by_us
        self.acknowledged_us += by_us
        if self.arrived_us >= 0:
            self.arrived_us += by_us

    def unread(self, now_us: int) -> int:
        """Return how many messages and requests have arrived that the process has not received or answered."""
        found = len(self.requests)
        for inbox in self.inbox.values():
            if inbox:
                for arrival_us in inbox:
                    if arrival_us > now_us:
                        break
                    found += 1
        return found


WAITING: Final = 0  # for a barrier, a device or a message
RESUMABLE: Final = 1  # what it waited for is there, and it is stopped
RUNNABLE: Final = 2  # has CPU work to do
DONE: Final = 3
POLLING: Final = 4  # uses CPU, or would, until something arrives in its port


class Process:
    """One process of a job; bound to the CPU of its node."""

    __slots__ = (
        "allowed",
        "allowed_since_us",
        "allowed_us",
        "at",
        "body",
        "bursts",
        "compute_us",
        "consumed_us",
        "counter",
        "drawn",
        "files_left",
        "generation",
        "index",
        "io_us",
        "is_io",
        "iterations_left",
        "job",
        "loop",
        "memory_mb",
        "message",
        "node",
        "paging",
        "passed_before",
        "port",
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
        self.port = Port()
        self.loop = -1  # of the program; -1: it has not begun
        self.body: tuple[Step, ...] = ()  # of that loop
        self.at = 0  # the next step of the body
        self.iterations_left = 0  # of the loop, after the present one
        self.passed_before = 0  # operations in iterations before the present one
        self.state = RESUMABLE
        self.allowed = False
        self.paging = 0  # parts of its memory that are being read from the swap device
        self.rest_us = 0  # CPU work left of the present burst
        self.compute_us = 0  # of the whole burst, what is `Compute`; it comes last, but for the sending of `message`
        self.is_io = False  # the burst belongs to I/O
        self.generation = 0  # of its time on the CPU: events of an earlier one are stale
        self.counter = 0  # of linux-epochs, in ticks
        self.files_left = 0  # to write, after the present one
        self.message: Message | None = None  # that the burst prepares, or that waits for an answer
        self.writes_shared = True
        self.consumed_us = 0  # CPU time since its start
        self.io_us = 0  # of that, I/O's
        self.useful_us = 0  # of that, in bursts of `Compute`, with all of the present one
        self.spun_us = 0  # of that, polling, up to the last time that it looked into its port
        self.allowed_us = 0
        self.allowed_since_us = 0
        self.bursts = 0  # number of draws for bursts
        self.drawn: list[float] = []  # the next ones, last first

    def leave_out(self, times: int) -> None:
        """Do not carry out so many of the next iterations of the present loop."""
        self.iterations_left -= times
        self.passed_before += times * len(self.body)

    def begin_loop(self) -> bool:
        """Begin the next loop of the program; return False if there is none."""
        loops = self.job.program.loops
        while self.loop + 1 < len(loops):
            self.loop += 1
            self.passed_before += len(self.body)
            self.at = 0
            self.body = self.job.body(self.loop, self.rank)
            left_out = self.job.left_out.get(self.loop, 0)
            self.passed_before += left_out * len(self.body)
            self.iterations_left = loops[self.loop].times - left_out - 1
            if self.iterations_left >= 0:
                return True
            self.body = ()
        return False

    def polled_us(self) -> int:
        """Return the CPU time that it has used to poll."""
        polls = self.state == POLLING
        return self.spun_us + (self.consumed_us - self.port.spun_from_us if polls else 0)

    def passed(self) -> int:
        """Return how many operations it has done."""
        present = 0 if self.state == DONE else 1
        if self.compute_us and self.message is not None and self.state == RUNNABLE:
            present += 1  # the burst computes and sends
        return max(0, self.passed_before + self.at - present)


class ParallelJob:
    """A job in an exact cluster."""

    def __init__(self, number: int, program: Program) -> None:
        self.number = number
        self.program = program
        self.processes: list[Process] = []
        self.arrived = 0  # processes that wait at the present barrier
        self.barriers = 0  # that all have passed
        self.running = 0  # processes that are not done
        self.left_out: dict[int, int] = {}  # iterations of a loop that no process carries out
        self.messages = 0  # sent
        self.delayed = 0  # messages whose receiver had to get the CPU first
        self.delays_us = 0  # in all, from their arrival to that
        self._bodies: dict[int, tuple[Step, ...]] = {}  # of loops whose processes are alike

    def count_delay(self, delay_us: int) -> None:
        """Count a message whose receiver had to get the CPU first, for so long."""
        self.delayed += 1
        self.delays_us += delay_us

    def leave_out(self, loop: int, most: int) -> int:
        """Let all processes leave out the same number of iterations of a loop, at most so many, and return that number.

        It is the last loop that one of them has begun, or a later one.
        """
        begun = [process for process in self.processes if process.loop == loop]
        left = [process.iterations_left for process in begun] or [
            self.program.loops[loop].times - self.left_out.get(loop, 0)
        ]
        times = min(most, *left)
        for process in begun:
            process.leave_out(times)
        self.left_out[loop] = self.left_out.get(loop, 0) + times
        return times

    def body(self, loop: int, rank: int) -> tuple[Step, ...]:
        """Return the steps of one process in one iteration of a loop."""
        record = self.program.loops[loop]
        if isinstance(record.body, ByRank):
            return steps_of(record.body_of(rank))
        if loop not in self._bodies:
            self._bodies[loop] = steps_of(record.body)
        return self._bodies[loop]
