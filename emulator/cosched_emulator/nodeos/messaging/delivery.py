"""What arrives at nodes: it wakes the process that waits for it, or lets one that polls go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cosched_emulator.nodeos.coscheduling.protocol import CoschedulingPolicy
from cosched_emulator.nodeos.kernel.cpu import Cpu, Event
from cosched_emulator.nodeos.kernel.devices import paging_us
from cosched_emulator.nodeos.local import LocalScheduler
from cosched_emulator.nodeos.messaging.execution import Execution
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_emulator.nodeos.simulated_process import (
    AN_ACKNOWLEDGEMENT,
    AN_ANSWER,
    NOTHING,
    POLLING,
    RESUMABLE,
    WAITING,
    Process,
)

# The CPU of a node whose processes poll, are interrupted for, and are advised by a coscheduling policy.


class CoscheduledCpu(Cpu):
    """A CPU that asks the policy for advice before it asks the local scheduler; for the policy it is the `Node`.

    An interrupt delays the process that has the CPU, or gets it then.
    """

    def __init__(
        self, node: int, local: LocalScheduler, settings: NodeSettings, events: list[Event], policy: CoschedulingPolicy
    ) -> None:
        super().__init__(node, local, settings, events)
        self.policy = policy
        self.ports: list[Process] = []
        self._advises = policy.advises
        self._interrupt_us = settings.interrupt_us
        self._pending_us = 0  # of interrupts at this instant
        self._now_us = 0  # when the policy was called last

    def enter(self, process: Process) -> None:
        """A process of a job has come to the node."""
        super().enter(process)
        self.ports.append(process)

    def leave(self, process: Process) -> None:
        """A process of a job has ended."""
        super().leave(process)
        self.ports.remove(process)

    def unread(self, process: Process) -> int:
        """Return how many messages and requests have arrived for a process that it has not received."""
        return process.port.unread(self._now_us)

    def tick(self, now_us: int) -> None:
        """Call the policy, as its interval has passed, and follow its advice."""
        self._now_us = now_us
        self.policy.tick(self)
        self.reconsider(now_us)

    def arrived(self, process: Process, now_us: int) -> None:
        """Something has come for a process that does not have the CPU: tell the policy, and follow its advice."""
        self._now_us = now_us
        self.interrupt()
        self.policy.arrived(process)
        self.reconsider(now_us)
        self.end_interrupts(now_us)

    def collective(self, process: Process, begins: bool) -> None:
        """A process begins or ends a collective operation."""
        self.policy.collective(process, begins)

    def interrupt(self) -> None:
        """The network interrupts; `end_interrupts` must be called before time passes."""
        self.interrupts += 1
        self._pending_us += self._interrupt_us

    def end_interrupts(self, now_us: int) -> None:
        """Let the interrupts of this instant delay the present process, if it has not just got the CPU."""
        us = self._pending_us
        if not us:
            return
        self._pending_us = 0
        process = self.current
        if process is None:
            self.overhead_us += us
            return
        self.charge(now_us)
        self._since_us = max(now_us, self._since_us) + us
        self._owed_us += us
        if process.state == POLLING:
            process.rest_us = min(process.rest_us, process.port.poll_us(self._since_us))
        self.restart(process, now_us)
        if self._counts and self._armed == process.generation:  # ticks of the interrupt are not charged to the process
            self._armed = -1
            self._arm(process, self._since_us)

    def reconsider(self, now_us: int) -> None:
        """Let an advised process preempt."""
        current = self.current
        if current is None or not self._advises:
            return
        self.charge(now_us)
        advised = self._advised(current)
        if advised is not None and advised is not current:
            self._release(now_us)
            self.dispatch(now_us)

    def dispatch(self, now_us: int) -> None:
        """Give the free CPU to the advised process, else to the one that the local scheduler picks."""
        previous = self.previous
        process = self._pick(previous)
        if process is None:
            return
        self._armed = -1
        cost_us = self._pending_us
        self._pending_us = 0
        if process is not previous:
            self.switches += 1
            cost_us += self._switch_us
            if self.missing_ppm:
                cost_us += paging_us(self.missing_ppm, self._stint_us, self.settings)
        self._since_us = self._began_us = begins_us = now_us + cost_us
        self._owed_us = cost_us
        self.current = self.previous = process
        process.generation += 1
        port = process.port
        if process.state == POLLING:
            process.rest_us = port.poll_us(begins_us)
        elif port.arrived_us >= 0:
            process.job.count_delay(begins_us - port.arrived_us)
            port.arrived_us = -1
        self.go_on(process, begins_us)
        if len(self._queue) > 1:
            self._arm(process, now_us)
        if self._advises:
            self.policy.chosen(process)

    def wake(self, process: Process, now_us: int) -> None:
        """A process of the node is runnable, as what it waited for is there; an advised one goes before it."""
        current = self.current
        if current is None:
            self.local.wake(process)
            self.dispatch(now_us)
            return
        self.charge(now_us)
        self.local.wake(process)
        advised = self._advised(current) if self._advises else None
        if self.local.preempts(process, current) if advised is None else advised is not current:
            self._release(now_us)
            self.dispatch(now_us)
        else:
            self._arm(current, now_us)
            self.end_interrupts(now_us)

    def _pick(self, previous: Process | None) -> Process | None:
        if self._advises:
            advised = self._advised(previous)
            if advised is not None:
                return advised
        return self.local.pick(previous)

    def _begin_turn(self, process: Process, now_us: int) -> None:
        super()._begin_turn(process, now_us)
        if self._advises:
            self.policy.chosen(process)

    def _advised(self, current: Process | None) -> Process | None:
        """Return the process that the policy advises, if the local scheduler takes that."""
        advised = self.policy.advise(self._queue, current)
        if advised is None or advised not in self._queue:
            return None
        if self.policy.ignores_counters or self.local.takes_advice(advised):
            return advised
        return None


class Delivery:
    """Carries out the events of the network. Those for processes that have ended are dropped."""

    def __init__(
        self, settings: NodeSettings, cpus: Sequence[Cpu], execution: Execution, processes: Mapping[int, Process]
    ) -> None:
        self._receive_cpu_us = settings.receive_cpu_us
        self._cpus = cpus
        self._execution = execution
        self._processes = processes

    def message(self, index: int, rank: int, now_us: int) -> None:
        """A message may have arrived for a process, from the one of that rank."""
        process = self._processes.get(index)
        if process is None:
            return
        port = process.port
        if port.expects == rank:
            inbox = port.inbox[rank]
            if inbox and inbox[0] <= now_us:
                if process.state == POLLING:
                    self._look(process, now_us)
                else:
                    inbox.popleft()
                    self._wake(process, self._receive_cpu_us, now_us)
        self._tell(process, now_us)

    def request(self, index: int, rank: int, now_us: int) -> None:
        """The process of that rank wants to send a large message to a process."""
        process = self._processes.get(index)
        if process is None:
            return
        process.port.requests.append(rank)
        if process.port.expects != NOTHING:
            self._look(process, now_us)
        self._tell(process, now_us)

    def answer(self, index: int, now_us: int) -> None:
        """A process may send its large message."""
        process = self._processes.get(index)
        if process is not None and process.port.expects == AN_ANSWER:
            process.port.granted = True
            self._look(process, now_us)

    def acknowledged(self, index: int, now_us: int) -> None:
        """The last message of a process has been acknowledged."""
        process = self._processes.get(index)
        if process is not None and process.port.expects == AN_ACKNOWLEDGEMENT and process.state == WAITING:
            self._wake(process, 0, now_us)

    def look_again(self, process: Process) -> bool:
        """Return whether a process that may go on after a stop has something to do in its port, and let it poll then."""
        port = process.port
        if process.state == WAITING and port.expects != NOTHING and (port.requests or port.granted):
            port.spin_us = 0
            port.spun_from_us = process.consumed_us
            process.state = POLLING
        return process.state == POLLING

    def _look(self, process: Process, now_us: int) -> None:
        """Let a process look into its port: at once if it polls on the CPU, else as soon as it gets that."""
        cpu = self._cpus[process.node]
        if process is cpu.current:
            cpu.charge(now_us)
            process.rest_us = 0
            cpu.restart(process, now_us)
        elif process.state == WAITING and process.allowed and not process.paging and self.look_again(process):
            cpu.interrupt()
            cpu.wake(process, now_us)

    def _wake(self, process: Process, cpu_us: int, now_us: int) -> None:
        """What a blocked process waits for is there; it needs some CPU time for that."""
        process.port.expects = NOTHING
        process.rest_us = cpu_us
        process.state = RESUMABLE
        if process.allowed and not process.paging:
            cpu = self._cpus[process.node]
            cpu.interrupt()
            process.port.arrived_us = now_us
            if self._execution.find_work(process, now_us):
                cpu.wake(process, now_us)
            else:
                cpu.end_interrupts(now_us)

    def _tell(self, process: Process, now_us: int) -> None:
        """Tell a policy that wants to know it."""
        cpu = self._cpus[process.node]
        if isinstance(cpu, CoscheduledCpu) and cpu.policy.wants_arrivals and process is not cpu.current:
            cpu.arrived(process, now_us)
