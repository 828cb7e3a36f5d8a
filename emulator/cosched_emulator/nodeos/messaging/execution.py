"""How processes carry out their programs: bursts, requests to devices, barriers and messages; without the CPUs."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappush

import numpy as np

from cosched_emulator.errors import InvariantError
from cosched_emulator.nodeos.coscheduling.protocol import CoschedulingPolicy
from cosched_emulator.nodeos.kernel.cpu import DEVICE_DONE, RELEASE, Event
from cosched_emulator.nodeos.kernel.devices import FifoServer
from cosched_emulator.nodeos.messaging.layer import GOES_ON, POLLS, MessageLayer
from cosched_emulator.nodeos.programs import BARRIER, COLLECTIVE, COMPUTE, RECEIVE, SEND, WAIT, WRITE
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_emulator.nodeos.simulated_process import DONE, POLLING, RUNNABLE, WAITING, ParallelJob, Process
from cosched_hwmodel import draws
from cosched_hwmodel.units import WHOLE_PPM

_DRAWN_AT_ONCE = 256


class Execution:
    """Moves processes through their programs, and enters what they wait for as events."""

    def __init__(
        self,
        settings: NodeSettings,
        seed: int,
        events: list[Event],
        layer: MessageLayer,
        policies: Sequence[CoschedulingPolicy],
    ) -> None:
        self.layer = layer
        self.shared_disk = FifoServer()
        self.done: list[Process] = []  # processes that have ended and are still to be removed
        self._settings = settings
        self._message_cpu_us = settings.message_cpu_us
        self._receive_cpu_us = settings.receive_cpu_us
        self._seed = seed
        self._events = events
        self._policies = policies
        self.disks = [FifoServer() for _ in policies]  # by node

    # Over 50 lines: the loop that each burst goes through; a call for each operation costs too much.
    def find_work(self, process: Process, now_us: int) -> bool:  # noqa: PLR0915  (a call an operation costs too much)
        """Go through the program to the next CPU burst; return False if the process waits or ends before.

        What messages cost is part of the burst that follows them, or that comes before them. A burst of ``rest_us`` has
        begun if there is such a cost already. A process that polls has a burst.
        """
        if process.files_left:
            return self._next_file(process, now_us)
        body, at, rest_us, compute_us = process.body, process.at, process.rest_us, 0
        while True:
            if at == len(body):
                if process.iterations_left:
                    process.iterations_left -= 1
                    process.passed_before += at
                    at = 0
                elif rest_us:
                    break
                elif process.begin_loop():
                    body, at = process.body, 0
                else:
                    process.state = DONE
                    self.done.append(process)
                    return False
            kind, amount, more, message = body[at]
            if kind == COMPUTE:
                at += 1
                compute_us = self._burst_us(process, amount, more) if more else amount
                if compute_us:
                    process.useful_us += compute_us
                    rest_us += compute_us
                    if message is not None:
                        at += 1
                        process.message = message
                        rest_us += self._message_cpu_us
                    break
            elif kind == RECEIVE:
                if not self.layer.receive(process, amount, now_us, rest_us):
                    if rest_us:
                        break
                    process.at = at + 1
                    return self.layer.wait(process, now_us)
                at += 1
                rest_us += self._receive_cpu_us
            elif kind == SEND:
                at += 1
                process.message = message
                rest_us += self._message_cpu_us
                break
            elif rest_us:
                break
            elif kind == BARRIER:
                process.at = at + 1
                self._arrive(process, amount, now_us)
                return False
            else:
                process.at = at = at + 1
                if not self._begins(process, kind, amount, more, now_us):
                    return process.is_io
        process.at = at
        process.rest_us = rest_us
        process.compute_us = compute_us
        process.state = RUNNABLE
        return True

    def next_burst(self, process: Process, now_us: int) -> bool:
        """Do what the burst of a process was for, and go on to the next one; return False if it gives up the CPU."""
        if process.is_io:
            process.is_io = False
            self._write(process, now_us)
            return False
        if process.state == POLLING:
            found = self.layer.look(process, now_us)
            if found != GOES_ON:
                return found == POLLS
        elif process.message is not None and not self.layer.send(process, now_us):
            return self.layer.wait(process, now_us)
        return self.find_work(process, now_us)

    def compute_left_us(self, process: Process) -> int:
        """Return how much of the present burst is `Compute` that has still to be done."""
        if process.state != RUNNABLE or process.is_io:
            return 0
        after_us = self._message_cpu_us if process.message is not None else 0
        return max(0, min(process.compute_us, process.rest_us - after_us))

    def release(self, job: ParallelJob) -> list[Process]:
        """Open the barrier at which all processes of a job wait, and return them."""
        if job.arrived != len(job.processes):
            raise InvariantError(
                f"job {job.number}: a barrier opens for {job.arrived} of {len(job.processes)} processes"
            )
        job.arrived = 0
        job.barriers += 1
        return job.processes

    def _begins(self, process: Process, kind: int, amount: int, more: int, now_us: int) -> bool:
        """Begin an operation that takes no CPU time at first; return whether the process goes on with the next one."""
        if kind == WRITE:
            process.files_left, process.writes_shared = amount, bool(more)
            if not amount:
                return True
            self._next_file(process, now_us)
            return False
        if kind == WAIT:
            if amount:
                self._await_device(process, now_us + amount)
            return not amount
        assert kind == COLLECTIVE
        self._policies[process.node].collective(process, bool(amount))
        return True

    def _next_file(self, process: Process, now_us: int) -> bool:
        """Begin to write the next file; return whether that takes CPU time first."""
        process.files_left -= 1
        process.rest_us = self._settings.io_cpu_us
        if not process.rest_us:
            self._write(process, now_us)
            return False
        process.is_io = True
        process.compute_us = 0
        process.state = RUNNABLE
        return True

    def _burst_us(self, process: Process, us: int, jitter_ppm: int) -> int:
        if not process.drawn:
            ids = np.empty((3, _DRAWN_AT_ONCE), dtype=np.int64)
            ids[0] = process.job.number
            ids[1] = process.rank
            ids[2] = np.arange(process.bursts, process.bursts + _DRAWN_AT_ONCE)
            process.bursts += _DRAWN_AT_ONCE
            process.drawn = draws.uniforms(self._seed, "burst", *ids)[::-1].tolist()
        return round(us * (1 + jitter_ppm * (2 * process.drawn.pop() - 1) / WHOLE_PPM))

    def _arrive(self, process: Process, size_bytes: int, now_us: int) -> None:
        process.state = WAITING
        job = process.job
        job.arrived += 1
        processes = len(job.processes)
        if job.arrived == processes:
            us = self._settings.barrier_us
            if size_bytes:
                us += (processes - 1).bit_length() * self.layer.network.transfer_us(size_bytes)
            heappush(self._events, (now_us + us, RELEASE, 0, job.number, 0))

    def _write(self, process: Process, now_us: int) -> None:
        disk = self.shared_disk if process.writes_shared else self.disks[process.node]
        self._await_device(process, disk.serve(now_us, self._settings.io_service_us))

    def _await_device(self, process: Process, done_us: int) -> None:
        process.state = WAITING
        heappush(self._events, (done_us, DEVICE_DONE, process.node, process.index, 0))
