"""How processes carry out their programs: bursts, requests to devices, barriers and messages; without the CPUs."""

from __future__ import annotations

from heapq import heappush

import numpy as np

from cosched_emulator.errors import InvariantError
from cosched_emulator.nodeos.devices import FifoServer
from cosched_emulator.nodeos.events import DEVICE_DONE, MESSAGE, RELEASE, Event
from cosched_emulator.nodeos.messages import Network
from cosched_emulator.nodeos.process import DONE, RUNNABLE, WAITING, ParallelJob, Process
from cosched_emulator.nodeos.programs import Barrier, Collective, Compute, Receive, Send, Wait, WriteFiles
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_hwmodel import draws
from cosched_hwmodel.units import WHOLE_PPM

_DRAWN_AT_ONCE = 256


class Execution:
    """Moves processes through their programs, and enters what they wait for as events."""

    def __init__(self, settings: NodeSettings, nodes: int, seed: int, events: list[Event]) -> None:
        self.network = Network(nodes, settings.latency_us, settings.network_mb_s)
        self.shared_disk = FifoServer()
        self.done: list[Process] = []  # processes that have ended and are still to be removed
        self._settings = settings
        self._seed = seed
        self._events = events
        self._disks = [FifoServer() for _ in range(nodes)]

    def find_work(self, process: Process, now_us: int) -> bool:
        """Go through the program to the next CPU burst; return False if the process waits or ends before."""
        while True:
            if process.files_left:
                process.files_left -= 1
                process.rest_us = self._settings.io_cpu_us
                if process.rest_us:
                    process.is_io = True
                    break
                self._write(process, now_us)
                return False
            operation = next(process.operations, None)
            process.passed += 1
            if isinstance(operation, Compute):
                process.rest_us = self._burst_us(process, operation)
                if process.rest_us:
                    break
            elif isinstance(operation, Barrier | Collective):
                self._arrive(process, operation, now_us)
                return False
            elif isinstance(operation, WriteFiles):
                process.files_left, process.writes_shared = operation
            elif isinstance(operation, Wait):
                if operation.us:
                    self._await_device(process, now_us + operation.us)
                    return False
            elif isinstance(operation, Send):
                process.message = operation
                process.rest_us = self._settings.message_cpu_us
                if process.rest_us:
                    break
                self._send(process, operation, now_us)
            elif isinstance(operation, Receive):
                if not self.network.receive(process.index, operation.rank):
                    process.state = WAITING
                    return False
            else:
                process.state = DONE
                self.done.append(process)
                return False
        process.state = RUNNABLE
        return True

    def after_burst(self, process: Process, now_us: int) -> bool:
        """Do what the burst of a process was for; return whether it goes on at once."""
        if process.is_io:
            process.is_io = False
            self._write(process, now_us)
            return False
        if process.message is not None:
            self._send(process, process.message, now_us)
        return True

    def release(self, job: ParallelJob) -> list[Process]:
        """Open the barrier at which all processes of a job wait, and return them."""
        if job.arrived != len(job.processes):
            raise InvariantError(
                f"job {job.number}: a barrier opens for {job.arrived} of {len(job.processes)} processes"
            )
        job.arrived = 0
        job.barriers += 1
        return job.processes

    def _burst_us(self, process: Process, operation: Compute) -> int:
        us, jitter_ppm = operation
        if not jitter_ppm:
            return us
        if not process.drawn:
            ids = np.empty((3, _DRAWN_AT_ONCE), dtype=np.int64)
            ids[0] = process.job.number
            ids[1] = process.rank
            ids[2] = np.arange(process.bursts, process.bursts + _DRAWN_AT_ONCE)
            process.bursts += _DRAWN_AT_ONCE
            process.drawn = draws.uniforms(self._seed, "burst", *ids)[::-1].tolist()
        return round(us * (1 + jitter_ppm * (2 * process.drawn.pop() - 1) / WHOLE_PPM))

    def _arrive(self, process: Process, operation: Barrier | Collective, now_us: int) -> None:
        process.state = WAITING
        job = process.job
        job.arrived += 1
        processes = len(job.processes)
        if job.arrived == processes:
            us = self._settings.barrier_time_us(processes)
            if isinstance(operation, Collective):
                us += (processes - 1).bit_length() * self.network.transfer_us(operation.size_bytes)
            heappush(self._events, (now_us + us, RELEASE, 0, job.number, 0))

    def _write(self, process: Process, now_us: int) -> None:
        disk = self.shared_disk if process.writes_shared else self._disks[process.node]
        self._await_device(process, disk.serve(now_us, self._settings.io_service_us))

    def _await_device(self, process: Process, done_us: int) -> None:
        process.state = WAITING
        heappush(self._events, (done_us, DEVICE_DONE, process.node, process.index, 0))

    def _send(self, process: Process, message: Send, now_us: int) -> None:
        process.message = None
        receiver = process.job.processes[message.rank]
        arrives_us = self.network.send(process.node, message.size_bytes, now_us)
        heappush(self._events, (arrives_us, MESSAGE, receiver.node, receiver.index, process.rank))
