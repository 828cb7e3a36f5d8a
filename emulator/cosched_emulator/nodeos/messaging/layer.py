"""The message layer: sending, receiving, and what a process does while it waits for the other end."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappush
from typing import Final

from cosched_emulator.nodeos.coscheduling.protocol import ACKNOWLEDGEMENT, ANSWER, MESSAGE, CoschedulingPolicy
from cosched_emulator.nodeos.kernel.cpu import ACKNOWLEDGED, Cpu, Event
from cosched_emulator.nodeos.kernel.cpu import ANSWER as ANSWER_COMES
from cosched_emulator.nodeos.kernel.cpu import MESSAGE as MESSAGE_COMES
from cosched_emulator.nodeos.kernel.cpu import REQUEST as REQUEST_COMES
from cosched_emulator.nodeos.kernel.devices import FifoServer
from cosched_emulator.nodeos.programs import Message
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_emulator.nodeos.simulated_process import AN_ACKNOWLEDGEMENT, AN_ANSWER, NOTHING, POLLING, WAITING, Process

# The network between nodes: ways out that queue.


class Network:
    """A queue for each node's way out, and a fixed latency. A message leaves when all earlier ones of its node have left.

    Speed in MB/s is bytes a microsecond.
    """

    def __init__(self, nodes: int, latency_us: int, mb_s: int) -> None:
        self.latency_us = latency_us
        self._mb_s = mb_s
        self.ways_out = [FifoServer() for _ in range(nodes)]

    def send(self, node: int, size_bytes: int, now_us: int) -> int:
        """Let a message leave a node; return when it arrives."""
        way_out = self.ways_out[node]
        us = -(-size_bytes // self._mb_s)
        free_us = way_out.free_us
        way_out.free_us = free_us = (now_us if now_us > free_us else free_us) + us
        way_out.busy_us += us
        return free_us + self.latency_us

    def shift(self, node: int, by_us: int) -> None:
        """What leaves a node leaves later."""
        self.ways_out[node].free_us += by_us

    def pass_control(self, now_us: int) -> int:
        """Let a request to send, or its answer, leave a node; return when it arrives.

        Network interfaces send large messages in packets of a few KB, and a control message goes between two of them: it does
        not wait for the data of its node.
        """
        return now_us + self.latency_us

    def transfer_us(self, size_bytes: int) -> int:
        """Return how long a way out is busy with a message."""
        return -(-size_bytes // self._mb_s)


# What looking into the port has brought.
GOES_ON: Final = 0
POLLS: Final = 1
BLOCKS: Final = 2


class MessageLayer:
    """What happens in the message layer of each process when that has the CPU.

    A message of at most ``rendezvous_bytes`` leaves at once. A larger one asks first, and leaves when the receiver, in its
    message layer and on its CPU, has answered: receives count as posted before. A message that arrives at the instant of a
    receive is there.
    """

    def __init__(
        self, settings: NodeSettings, events: list[Event], cpus: Sequence[Cpu], policies: Sequence[CoschedulingPolicy]
    ) -> None:
        self.network = Network(len(cpus), settings.latency_us, settings.network_mb_s)
        self._events = events
        self._cpus = cpus
        self._policies = policies
        self._receive_cpu_us = settings.receive_cpu_us
        self._largest_eager = settings.rendezvous_bytes or 1 << 62
        self._wants_arrivals = policies[0].wants_arrivals
        self._acknowledged = policies[0].acknowledged

    def send(self, process: Process, now_us: int) -> bool:
        """Send the message that a process has prepared; return whether it goes on at once."""
        message = process.message
        assert message is not None
        if message[1] > self._largest_eager:
            receiver = process.job.processes[message[0]]
            arrives_us = self.network.pass_control(now_us)
            heappush(self._events, (arrives_us, REQUEST_COMES, receiver.node, receiver.index, process.rank))
            process.port.expects = AN_ANSWER
            return False
        return self._transmit(process, message, now_us)

    def receive(self, process: Process, rank: int, now_us: int, rest_us: int) -> bool:
        """Take the next message of that rank, if it is there; else the process waits for it, when ``rest_us`` are done."""
        port = process.port
        if port.requests:
            self._answer(process, now_us)
        inbox = port.inbox[rank]
        if inbox and inbox[0] <= now_us:
            inbox.popleft()
            return True
        if not rest_us:
            port.expects = rank
        return False

    def wait(self, process: Process, now_us: int) -> bool:
        """Begin to wait; return whether the process polls."""
        port = process.port
        expects = port.expects
        if port.requests:
            self._answer(process, now_us)
        waiting = MESSAGE if expects >= 0 else ANSWER if expects == AN_ANSWER else ACKNOWLEDGEMENT
        port.spin_us = self._policies[process.node].waits(process, waiting)
        if port.spin_us or port.requests:
            process.state = POLLING
            port.spun_from_us = process.consumed_us
            process.rest_us = port.poll_us(now_us)
            return True
        self._block(process)
        return False

    def look(self, process: Process, now_us: int) -> int:
        """Let a process that has polled look into its port; return `GOES_ON`, `POLLS` or `BLOCKS`."""
        port = process.port
        process.spun_us += process.consumed_us - port.spun_from_us
        port.spun_from_us = process.consumed_us
        process.rest_us = 0
        requested = bool(port.requests)
        if requested:
            self._answer(process, now_us)
        expects = port.expects
        if expects >= 0:
            inbox = port.inbox[expects]
            if inbox and inbox[0] <= now_us:
                process.job.count_delay(now_us - inbox.popleft())
                port.expects = NOTHING
                process.rest_us = self._receive_cpu_us
                return GOES_ON
        elif expects == AN_ACKNOWLEDGEMENT:
            if port.acknowledged_us <= now_us:
                port.expects = NOTHING
                return GOES_ON
        elif port.granted:
            assert process.message is not None
            port.granted = False
            port.expects = NOTHING
            if self._transmit(process, process.message, now_us):
                return GOES_ON
            return POLLS if self.wait(process, now_us) else BLOCKS
        if requested:
            return POLLS if self.wait(process, now_us) else BLOCKS
        self._block(process)
        return BLOCKS

    def _block(self, process: Process) -> None:
        """Let a process wait without the CPU, and be woken."""
        process.state = WAITING
        port = process.port
        if port.expects >= 0:
            inbox = port.inbox[port.expects]
            if inbox and not self._wants_arrivals:
                heappush(self._events, (inbox[0], MESSAGE_COMES, process.node, process.index, port.expects))
        elif port.expects == AN_ACKNOWLEDGEMENT:
            heappush(self._events, (port.acknowledged_us, ACKNOWLEDGED, process.node, process.index, 0))

    def _answer(self, process: Process, now_us: int) -> None:
        """Answer the requests that have come, if the process has the CPU."""
        if not self._cpus[process.node].runs(process, now_us):
            return
        requests = process.port.requests
        for rank in requests:
            sender = process.job.processes[rank]
            arrives_us = self.network.pass_control(now_us)
            heappush(self._events, (arrives_us, ANSWER_COMES, sender.node, sender.index, process.rank))
        requests.clear()

    def _transmit(self, process: Process, message: Message, now_us: int) -> bool:
        process.message = None
        rank, size_bytes = message
        job = process.job
        job.messages += 1
        receiver = job.processes[rank]
        arrives_us = self.network.send(process.node, size_bytes, now_us)
        port = receiver.port
        sender_rank = process.rank
        inbox = port.inbox[sender_rank]
        inbox.append(arrives_us)
        if self._wants_arrivals or (
            port.expects == sender_rank
            and len(inbox) == 1
            and (receiver.state == WAITING or receiver is self._cpus[receiver.node].current)
        ):
            heappush(self._events, (arrives_us, MESSAGE_COMES, receiver.node, receiver.index, sender_rank))
        return self._is_acknowledged(process, now_us) if self._acknowledged else True

    def _is_acknowledged(self, process: Process, now_us: int) -> bool:
        """Let a sender wait for the network interface of the receiver, which acknowledges a message when it begins to come.

        Return whether the sender goes on: if it polls for at least that time, this is a part of its next burst.
        """
        us = 2 * self.network.latency_us
        if self._policies[process.node].waits(process, ACKNOWLEDGEMENT) >= us:
            process.rest_us = us
            process.spun_us += us
            return True
        process.port.acknowledged_us = now_us + us
        process.port.expects = AN_ACKNOWLEDGEMENT
        return False
