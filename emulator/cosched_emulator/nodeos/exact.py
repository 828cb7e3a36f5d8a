"""The exact cluster: every burst, request, message and switch is an event."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Final

from cosched_emulator.errors import InvariantError
from cosched_emulator.nodeos.coscheduling.policies import make_policy
from cosched_emulator.nodeos.coscheduling.protocol import FOREVER
from cosched_emulator.nodeos.freezing import Freezer
from cosched_emulator.nodeos.kernel import cpu as kernel
from cosched_emulator.nodeos.kernel.devices import FifoServer, NodeMemory, swap_us
from cosched_emulator.nodeos.local import make_local
from cosched_emulator.nodeos.messaging.delivery import CoscheduledCpu, Delivery
from cosched_emulator.nodeos.messaging.execution import Execution
from cosched_emulator.nodeos.messaging.layer import MessageLayer
from cosched_emulator.nodeos.process_cluster import Counters, Messages, ProcessUse, Reached, check_start
from cosched_emulator.nodeos.programs import Compute, Loop, Program, Wait
from cosched_emulator.nodeos.settings import NodeSettings
from cosched_emulator.nodeos.simulated_process import DONE, POLLING, RESUMABLE, RUNNABLE, ParallelJob, Process
from cosched_emulator.nodeos.work_alone import Course, courses_of
from cosched_hwmodel import draws
from cosched_hwmodel.units import WHOLE_PPM

# The system's own processes: now and then each node needs its CPU for itself.

NUMBER: Final = -1  # of the job to which they would belong


def make_daemons(settings: NodeSettings, seed: int, node: int) -> ParallelJob:
    """Return what runs on a node without belonging to a job: ``daemon_us`` of CPU each ``daemon_period_us``.

    The first time is drawn: draw ``daemon``. If the CPU comes late, so do all later times.
    """
    first_us = int(draws.uniform(seed, "daemon", node) * settings.daemon_period_us)
    rest_us = settings.daemon_period_us - settings.daemon_us
    again = (Compute(settings.daemon_us), Wait(rest_us))
    return ParallelJob(NUMBER, Program((Loop(1, (Wait(first_us),)), Loop(1 << 62, again))))


_PHASES: Final = 100  # different ones of the ticks of policies


class ExactCluster:
    """Nodes of one CPU whose processes are simulated burst by burst; a `ProcessCluster`.

    Time begins at 0. The same seed, calls and settings give the same numbers; draws are ``burst`` (length of a burst),
    ``tick`` (what is logged) and ``tick-phase`` (of a node, under linux-epochs).
    """

    def __init__(self, settings: NodeSettings, nodes: int, seed: int) -> None:
        self.settings = settings
        self.now_us = 0
        self.jobs: dict[int, ParallelJob] = {}
        self.events_done = 0
        self._seed = seed
        self._events: list[kernel.Event] = []
        self._processes: dict[int, Process] = {}
        self._indices = count()
        self._ticks = kernel.TickLog(seed, settings.tick_us)
        locals_ = [
            make_local(settings.local, settings.slice_us, settings.epoch_ticks, seed, node) for node in range(nodes)
        ]
        policies = [make_policy(settings.coscheduling, settings.coscheduling_parameters) for _ in range(nodes)]
        self.cpus: list[kernel.Cpu] = [
            CoscheduledCpu(node, local, settings, self._events, policy)
            if settings.has_message_layer
            else kernel.Cpu(node, local, settings, self._events)
            for node, (local, policy) in enumerate(zip(locals_, policies, strict=True))
        ]
        layer = MessageLayer(settings, self._events, self.cpus, policies)
        self._execution = Execution(settings, seed, self._events, layer, policies)
        self._delivery = Delivery(settings, self.cpus, self._execution, self._processes)
        swaps = self._swaps = [FifoServer() for _ in range(nodes)]
        self._freezer = Freezer(self._events, self.cpus, swaps, self._execution, self.jobs, self._processes)
        self.memories = [NodeMemory(settings.memory_mb) for _ in range(nodes)]
        self._allowed: list[list[Process]] = [[] for _ in range(nodes)]
        self._used: dict[int, Process] = {}  # by index: could run since the last `collect`
        # Consumed by a process up to the last `collect`, and by its I/O
        self._collected: dict[int, tuple[int, int]] = {}
        self._courses: dict[int, list[Course]] = {}  # of jobs whose progress has been asked for
        self._ended: list[int] = []
        self._messages = Messages()  # of jobs that have ended or were removed
        self._left: dict[int, ParallelJob] = {}  # jobs that have ended or were removed since the last `collect`
        for node, policy in enumerate(policies):
            self._begin(node, policy.interval_us)

    def start(self, job: int, program: Program, places: Sequence[int], memory_mb: int = 0) -> None:
        """Put the processes of a job on nodes, stopped (see `ProcessCluster.start`)."""
        check_start(self.settings, len(self.cpus), self.jobs, job, program, places, memory_mb)
        record = ParallelJob(job, program)
        for rank, node in enumerate(places):
            process = Process(next(self._indices), record, rank, node, memory_mb)
            record.processes.append(process)
            self._processes[process.index] = process
            self._collected[process.index] = (0, 0)
            self.cpus[node].enter(process)
        record.running = len(places)
        self.jobs[job] = record

    def allow(self, now_us: int, runnable: Mapping[int, Sequence[int]]) -> None:
        """Let the jobs listed for each node run there and stop all others (see `ProcessCluster.allow`)."""
        self._set_time(now_us)
        chosen = [self._chosen(node, runnable.get(node, ())) for node in range(len(self.cpus))]
        for node, processes in enumerate(chosen):
            for process in self._allowed[node]:
                if process not in processes:
                    self._stop(process)
        for node, processes in enumerate(chosen):
            before, self._allowed[node] = self._allowed[node], processes
            if processes != before:
                self._admit(node, processes)
            for process in processes:
                if process not in before:
                    self._resume(process)
        if self._execution.done:
            self._finish()

    def remove(self, job: int) -> None:
        """Remove a job that has not ended (see `ProcessCluster.remove`)."""
        record = self._left[job] = self.jobs.pop(job)
        self._messages = self._messages.plus([record])
        self._courses.pop(job, None)
        indices = {process.index for process in record.processes}
        self._freezer.forget(job, indices)
        for process in record.processes:
            if process.state != DONE:
                if process.allowed:
                    self._stop(process)
                    self._allowed[process.node].remove(process)
                process.state = DONE
                self._drop(process)

    def freeze(self, nodes: Collection[int], *, server: bool = False) -> None:
        """Let time stand still on nodes until `thaw`, with ``server`` for the server that all nodes share as well.

        No job may have processes that may run both there and elsewhere. What is used there stays what it is.
        """
        self._freezer.freeze(nodes, self.now_us, server=server)

    def thaw(self, nodes: Collection[int]) -> None:
        """Let time go on on frozen nodes: all that was to come there comes later, by the time for which they were frozen."""
        self._freezer.thaw(nodes, self.now_us)

    def advance(self, until_us: int) -> Reached:
        """Go on to ``until_us`` or to the first instant at which a job ends (see `ProcessCluster.advance`)."""
        events, cpus, process_of = self._events, self.cpus, self._processes.get
        next_burst, done, ended = self._execution.next_burst, self._execution.done, self._ended
        handled = 0
        while events and events[0][0] <= until_us:
            if ended and events[0][0] > self.now_us:
                break
            time_us, kind, node, index, generation = heappop(events)
            handled += 1
            if kind == kernel.BURST_END:
                process = process_of(index)
                if process is None or process.generation != generation:
                    continue
                self.now_us = time_us
                cpu = cpus[node]
                cpu.charge(time_us)
                if not next_burst(process, time_us):
                    cpu.give_up(process, time_us)
                elif process.rest_us < FOREVER:
                    heappush(events, (time_us + process.rest_us, kernel.BURST_END, node, index, generation))
            else:
                self.now_us = time_us
                self._handle(kind, node, index, generation)
            if done:
                self._finish()
        self.events_done += handled
        if not ended:
            self.now_us = max(self.now_us, until_us)
        reached = Reached(self.now_us, tuple(sorted(ended)))
        ended.clear()
        return reached

    def consumed_us(self, job: int) -> int:
        """Return the CPU time of a job's processes (see `ProcessCluster.consumed_us`)."""
        return sum(process.consumed_us for process in self._charged(job))

    def useful_us(self, job: int) -> int:
        """Return the CPU time that a job's processes have spent in bursts of `Compute`, the done part of present ones included."""
        return sum(self.useful_by_rank(job))

    def useful_by_rank(self, job: int) -> list[int]:
        """Return the same of each process."""
        return [process.useful_us - self._execution.compute_left_us(process) for process in self._charged(job)]

    def spun_us(self, job: int) -> int:
        """Return the CPU time that a job's processes have spent polling for messages."""
        return sum(process.polled_us() for process in self._charged(job))

    def progress(self, job: int) -> float:
        """Return the share of its program that a job has done (see `ProcessCluster.progress`)."""
        record = self.jobs.get(job)
        if record is None:
            raise InvariantError(f"job {job} is not on its nodes")
        if job not in self._courses:
            self._courses[job] = courses_of(record.program, len(record.processes), self.settings)
        return min(
            course.share(process.passed()) for course, process in zip(self._courses[job], record.processes, strict=True)
        )

    def counters(self) -> Counters:
        """Return what has happened on the nodes (see `ProcessCluster.counters`)."""
        return kernel.counters_of(self.cpus, self._messages.plus(self.jobs.values()), self.now_us)

    @property
    def simulated(self) -> float:
        """Return 1: all is simulated (see `ProcessCluster.simulated`)."""
        return 1.0

    def collect(self) -> list[ProcessUse]:
        """Return what was used since the last call (see `ProcessCluster.collect`)."""
        for cpu in self.cpus:
            cpu.charge(self.now_us)
        processes = [process for process in self._used.values() if self._allowed_us(process)]
        consumed = [process.consumed_us - self._collected[process.index][0] for process in processes]
        io = [process.io_us - self._collected[process.index][1] for process in processes]
        hidden_ppm = WHOLE_PPM - self.settings.io_logged_ppm
        loggable = [all_us - io_us * hidden_ppm // WHOLE_PPM for all_us, io_us in zip(consumed, io, strict=True)]
        numbers, ranks = [process.job.number for process in processes], [process.rank for process in processes]
        logged = self._ticks.log_us(numbers, ranks, loggable)
        sums: dict[tuple[int, int], list[int]] = {}
        for process, consumed_us, logged_us in zip(processes, consumed, logged, strict=True):
            allowed_us = self._allowed_us(process)
            process.allowed_us = 0
            process.allowed_since_us = self.now_us
            row = sums.setdefault((process.job.number, process.node), [0, 0, 0])
            for column, value in enumerate((consumed_us, logged_us, allowed_us)):
                row[column] += value
            if process.state == DONE:
                del self._collected[process.index]
            else:
                self._collected[process.index] = (process.consumed_us, process.io_us)
        self._used = {process.index: process for processes in self._allowed for process in processes}
        self._left.clear()
        return [ProcessUse(job, node, *row) for (job, node), row in sorted(sums.items())]

    def _charged(self, job: int) -> list[Process]:
        """Return the processes of a job, with the CPU time that they have used up to now."""
        processes = (self.jobs.get(job) or self._left[job]).processes
        for process in processes:
            self.cpus[process.node].charge(self.now_us)
        return processes

    def _allowed_us(self, process: Process) -> int:
        """Return for how long a process could run since the last `collect`."""
        return process.allowed_us + (self.now_us - process.allowed_since_us if process.allowed else 0)

    def _set_time(self, now_us: int) -> None:
        if now_us < self.now_us or (self._events and self._events[0][0] < now_us):
            raise InvariantError(f"time {now_us} us is not {self.now_us} us, up to which the cluster has advanced")
        self.now_us = now_us

    def _chosen(self, node: int, jobs: Sequence[int]) -> list[Process]:
        chosen = []
        for number in jobs:
            job = self.jobs.get(number)
            here = [process for process in job.processes if process.node == node] if job is not None else []
            if not here:
                raise InvariantError(f"job {number} has no process on node {node}")
            chosen += [process for process in here if process.state != DONE]
        return chosen

    def _begin(self, node: int, interval_us: int) -> None:
        """Let the policy and the daemons of a node begin."""
        settings, seed = self.settings, self._seed
        if interval_us:
            first_us = int(draws.uniform(seed, "policy-tick", node) * _PHASES) * interval_us // _PHASES
            heappush(self._events, (first_us, kernel.POLICY_TICK, node, 0, 0))
        if settings.daemon_us:
            process = Process(next(self._indices), make_daemons(settings, seed, node), node, node, 0)
            self._processes[process.index] = process
            self.cpus[node].local.enter(process)
            process.allowed = True
            self._make_runnable(process)

    def _tick(self, node: int) -> None:
        """Call the policy of a node, and again after its interval."""
        cpu = self.cpus[node]
        assert isinstance(cpu, CoscheduledCpu)
        heappush(self._events, (self.now_us + cpu.policy.interval_us, kernel.POLICY_TICK, node, 0, 0))
        cpu.tick(self.now_us)

    def _handle(self, kind: int, node: int, index: int, other: int) -> None:
        """Carry out an event that is not the end of a burst; its fields are those of `Event`."""
        now_us = self.now_us
        if kind == kernel.MESSAGE:
            self._delivery.message(index, other, now_us)
        elif kind == kernel.RELEASE:
            for process in self._execution.release(self.jobs[index]):
                self._complete(process)
        elif kind == kernel.TURN_END:
            self.cpus[node].end_turn(now_us)
        elif kind == kernel.DEVICE_DONE:
            self._complete(self._processes[index])
        elif kind == kernel.REQUEST:
            self._delivery.request(index, other, now_us)
        elif kind == kernel.ANSWER:
            self._delivery.answer(index, now_us)
        elif kind == kernel.ACKNOWLEDGED:
            self._delivery.acknowledged(index, now_us)
        elif kind == kernel.POLICY_TICK:
            self._tick(node)
        elif index in self._processes:
            assert kind == kernel.PAGED
            self._end_paging(self._processes[index])

    def _stop(self, process: Process) -> None:
        process.allowed = False
        process.allowed_us += self.now_us - process.allowed_since_us
        if process.state in (RUNNABLE, POLLING) and not process.paging:
            cpu = self.cpus[process.node]
            was_current = cpu.current is process
            cpu.take_away(process, self.now_us)
            if was_current:
                cpu.dispatch(self.now_us)

    def _admit(self, node: int, processes: Sequence[Process]) -> None:
        memory = self.memories[node]
        moved = memory.admit({(process.job.number, process.rank): process.memory_mb for process in processes})
        self.cpus[node].missing_ppm = memory.missing_ppm
        for process in processes:
            moved_mb = moved.get((process.job.number, process.rank), 0)
            if moved_mb:
                if process.allowed and process.state in (RUNNABLE, POLLING) and not process.paging:
                    self.cpus[node].take_away(process, self.now_us)
                process.paging += 1
                done_us = self._swaps[node].serve(self.now_us, swap_us(moved_mb, self.settings))
                heappush(self._events, (done_us, kernel.PAGED, node, process.index, 0))
        if self.cpus[node].current is None:
            self.cpus[node].dispatch(self.now_us)

    def _resume(self, process: Process) -> None:
        process.allowed = True
        process.allowed_since_us = self.now_us
        self._used[process.index] = process
        self._make_runnable(process)

    def _end_paging(self, process: Process) -> None:
        process.paging -= 1
        if process.allowed:
            self._make_runnable(process)

    def _make_runnable(self, process: Process) -> None:
        """Let a process that may run again go on, if it does not wait for anything."""
        if process.paging:
            return
        if process.state == RESUMABLE and not self._execution.find_work(process, self.now_us):
            return
        if process.state == RUNNABLE or self._delivery.look_again(process):
            self.cpus[process.node].resume(process, self.now_us)

    def _complete(self, process: Process) -> None:
        """Let a process go on, as what it waited for is there."""
        process.state = RESUMABLE
        if process.allowed and not process.paging and self._execution.find_work(process, self.now_us):
            self.cpus[process.node].wake(process, self.now_us)

    # Must be called when ``_execution.done`` has entries, before the next event is handled: a process that has ended still has a
    # CPU.
    def _finish(self) -> None:
        """Remove the processes that have ended, and their jobs."""
        done = self._execution.done[:]
        self._execution.done.clear()
        for process in done:
            process.allowed = False
            process.allowed_us += self.now_us - process.allowed_since_us
            self._allowed[process.node].remove(process)
            self._drop(process)
            process.job.running -= 1
            if not process.job.running:
                self._left[process.job.number] = self.jobs.pop(process.job.number)
                self._messages = self._messages.plus([process.job])
                self._courses.pop(process.job.number, None)
                self._ended.append(process.job.number)

    def _drop(self, process: Process) -> None:
        """Forget a process that is done, and give its memory to others."""
        node = process.node
        self.cpus[node].leave(process)
        del self._processes[process.index]
        self.memories[node].leave((process.job.number, process.rank))
        self._admit(node, self._allowed[node])
