"""What arrives at nodes: it wakes the process that waits for it, or lets one that polls go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cosched_emulator.nodeos.kernel.cpu import Cpu
from cosched_emulator.nodeos.kernel.execution import Execution
from cosched_emulator.nodeos.messaging.cpu import CoscheduledCpu
from cosched_emulator.nodeos.messaging.port import AN_ACKNOWLEDGEMENT, AN_ANSWER, NOTHING
from cosched_emulator.nodeos.process import POLLING, RESUMABLE, WAITING, Process
from cosched_emulator.nodeos.settings import NodeSettings


class Delivery:
    """Carries out the events of the network. Those for processes that have ended are dropped."""

    def __init__(
        self,
        settings: NodeSettings,
        cpus: Sequence[Cpu],
        execution: Execution,
        processes: Mapping[int, Process],
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
