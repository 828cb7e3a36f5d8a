"""What is due when: the manager's own heap, planned faults, what users and operators are scripted to do, submissions.

`due` turns an instant into its events, in the order that PROTOCOL.md fixes. It changes no job; why a node is out of service (broken,
drained, or both) is kept here, because the scheduler is told of one thing only: whether it may be used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from cosched_emulator.manager.heap import END, MEASURE, NODE_FAILURE, NODE_RETURN, USER_CHANGE, WAKE
from cosched_emulator.manager.managed_job import ManagedJob
from cosched_emulator.manager.manager import Manager
from cosched_emulator.scenario.faults import NodeFault, NodeFaults
from cosched_emulator.scenario.script import Scripted
from cosched_emulator.workload.job import WorkloadJob
from cosched_plugin.protocol.messages import (
    CANCELLED,
    NODE_FAIL,
    Event,
    JobEnded,
    JobHeld,
    JobReleased,
    JobRequeued,
    JobSubmitted,
    NodeFailed,
    NodeReturned,
    Woken,
)

_RANKS: Final = {"fail-node": NODE_FAILURE, "return-node": NODE_RETURN}


class Agenda:
    """What is due when, for one manager."""

    __slots__ = (
        "_endless",
        "_faults",
        "_heap",
        "_jobs",
        "_manager",
        "_next_job",
        "_next_us",
        "_requeue",
        "_script",
        "broken",
        "drained",
        "slow",
    )

    def __init__(
        self,
        manager: Manager,
        jobs: Iterable[WorkloadJob] = (),
        script: Iterable[Scripted] = (),
        faults: NodeFaults | None = None,
        *,
        requeue: bool = False,
        endless: bool = False,
    ) -> None:
        """``jobs`` in order of (submission, id), of which one at a time is looked at.

        ``requeue``: jobs run again when a node fails under them. ``endless``: planned faults go on when there is nothing else to
        wait for, as users may submit more jobs.
        """
        self._manager = manager
        self._jobs = iter(jobs)
        self._next_job: WorkloadJob | None = None
        self._next_us = 0  # its submission
        self._advance()
        self._heap = manager.kernel.heap
        self._script = sorted(script, key=lambda item: (item.at_us, _RANKS.get(item.change, USER_CHANGE), item.target))
        self._faults = faults
        self._requeue = requeue
        self._endless = endless
        self.broken: set[int] = set()  # nodes that have failed
        self.drained: dict[int, str] = {}  # nodes that an operator took out of service, and why
        self.slow: dict[int, float] = {}  # nodes on which everything takes so many times as long
        for number, item in enumerate(self._script):
            manager.kernel.schedule(item.at_us, _RANKS.get(item.change, USER_CHANGE), number)

    def next_us(self) -> int | None:
        """Return the earliest instant at which something is due, void entries included; None: nothing ever is.

        Planned faults alone are no reason to go on: with no job to run, and none that waits for a node to return, there is nothing.
        """
        heap = self._heap
        due_us = heap[0][0] if heap else None
        if self._next_job is not None:
            submit_us = self._next_us
            due_us = submit_us if due_us is None or submit_us < due_us else due_us
        if self._faults is None:
            return due_us
        fault_us = self._faults.next_us()
        hopeful = self._endless or due_us is not None or (self.broken and self._manager.pending)
        if fault_us is None or not hopeful:
            return due_us
        return fault_us if due_us is None or fault_us < due_us else due_us

    def _advance(self) -> None:
        """Look at the next job that the scenario submits."""
        job = self._next_job = next(self._jobs, None)
        if job is not None:
            self._next_us = job.spec.submit_us

    @property
    def all_submitted(self) -> bool:
        """Return whether the scenario's jobs have all been submitted."""
        return self._next_job is None

    def due(self, now_us: int) -> list[Event]:
        """Return what happens at ``now_us``, in order; a submission that cannot be taken is entered as rejected on the way."""
        manager = self._manager
        events: list[Event] = []
        later: list[Event] = []
        faults = [] if self._faults is None else self._faults_at(self._faults, now_us)
        heap = self._heap
        for entry in manager.kernel.due(now_us) if heap and heap[0][0] <= now_us else ():
            rank = entry[1]
            if rank == END:
                ended = manager.ended(entry[2], entry[3])
                if ended is not None:
                    events.append(ended)
                continue
            if faults and rank > NODE_FAILURE:
                events += self._faulty(faults, events)
                faults = []
            if rank == MEASURE:
                gone = [event.job_id for event in events if isinstance(event, JobEnded | JobRequeued)]
                measured = None if entry[2] in gone else manager.measured(entry[2], entry[3], gone)
                if measured is not None:
                    events.append(measured)
            elif rank == WAKE:
                later.append(Woken(entry[0]))
            else:
                events += self._scripted(self._script[entry[2]], events)
        if faults:
            events += self._faulty(faults, events)
        while (job := self._next_job) is not None and self._next_us <= now_us:
            self._advance()
            refusal = manager.refusal_of(job.spec)
            if refusal is None:
                manager.accept(job)
                events.append(JobSubmitted(job.spec))
            else:
                manager.reject(job, now_us, refusal)
        return events + later if later else events

    def _faults_at(self, planned: NodeFaults, now_us: int) -> list[NodeFault]:
        """Return the planned faults that are due; where all that is left is to wait for nodes to return, no more of them fail."""
        faults = planned.due(now_us)
        if self._manager.kernel.next_us() is None and self.all_submitted and not self._endless:
            return [fault for fault in faults if fault.kind != "fail"]
        return faults

    # ------------------------------------------------------------ nodes

    def fail(self, node: int, now_us: int, before: Iterable[Event] = ()) -> list[Event]:
        """Return what follows when a node breaks; nothing if it is broken already. What happened ``before`` counts."""
        if node in self.broken:
            return []
        told = node not in self.drained
        self.broken.add(node)
        self._manager.diary.node(now_us, node, "DOWN")
        return [*([NodeFailed(node)] if told else []), *self._evicted(node, before)]

    def mend(self, node: int, now_us: int) -> list[Event]:
        """Return what follows when a broken node works again: nothing where it stays drained."""
        if node not in self.broken:
            return []
        self.broken.discard(node)
        self._manager.diary.node(now_us, node, "DRAINED" if node in self.drained else "UP", self.drained.get(node, ""))
        return [] if node in self.drained else [NodeReturned(node)]

    def drain(self, node: int, now_us: int, reason: str) -> list[Event]:
        """Return what follows when an operator takes a node out of service: what runs there goes on."""
        told = node not in self.drained and node not in self.broken
        self.drained[node] = reason
        self._manager.diary.node(now_us, node, "DRAINED", reason)
        return [NodeFailed(node)] if told else []

    def undrain(self, node: int, now_us: int) -> list[Event]:
        """Return what follows when an operator puts a node back into service, drained or broken."""
        if node not in self.drained and node not in self.broken:
            return []
        self.drained.pop(node, None)
        self.broken.discard(node)
        self._manager.diary.node(now_us, node, "UP")
        return [NodeReturned(node)]

    def _faulty(self, faults: Iterable[NodeFault], before: Sequence[Event]) -> list[Event]:
        """Return the events of planned faults at one instant."""
        manager = self._manager
        events: list[Event] = []
        for at_us, kind, node, slowdown in faults:
            text = f"node {node}" + (f", {slowdown:g} times as long" if kind == "slow" else "")
            manager.diary.fault(at_us, f"node {kind}", text)
            match kind:
                case "fail":
                    events += self.fail(node, at_us, [*before, *events])
                case "return":
                    events += self.mend(node, at_us)
                case "slow" | "normal":
                    if kind == "slow":
                        self.slow[node] = slowdown
                    else:
                        self.slow.pop(node, None)
                    manager.set_slowdown(node, slowdown if kind == "slow" else 1.0)
        return events

    def _evicted(self, node: int, before: Iterable[Event]) -> list[Event]:
        """Return what becomes of the jobs on a node that fails."""
        gone = {event.job_id for event in before if isinstance(event, JobEnded | JobRequeued)}
        bit = 1 << node
        hit = sorted(
            (job_id, job)
            for job_id, job in self._manager.running.items()
            if job_id not in gone and any(layer & bit for layer in job.layers)
        )
        return [JobRequeued(job_id) if self._runs_again(job) else JobEnded(job_id, NODE_FAIL) for job_id, job in hit]

    def _runs_again(self, job: ManagedJob) -> bool:
        return self._requeue if job.job.requeue is None else job.job.requeue

    # ------------------------------------------------------------ scripts

    def _scripted(self, item: Scripted, before: Sequence[Event]) -> list[Event]:
        """Return the events of one scripted change, none where it has no object any more.

        What happened ``before`` it at the same instant is not committed yet, but counts.
        """
        manager = self._manager
        target = item.target
        match item.change:
            case "fail-node":
                return self.fail(target, item.at_us, before)
            case "return-node":
                return self.mend(target, item.at_us)
        ended = any(isinstance(event, JobEnded) and event.job_id == target for event in before)
        if item.change == "cancel":
            known = target in manager.pending or target in manager.running
            return [JobEnded(target, CANCELLED)] if known and not ended else []
        requeued = any(isinstance(event, JobRequeued) and event.job_id == target for event in before)
        held = target in manager.pending and manager.pending[target].held
        for event in before:
            if isinstance(event, JobHeld | JobReleased) and event.job_id == target:
                held = isinstance(event, JobHeld)
        waits = (target in manager.pending or requeued) and not ended
        if not waits or held == (item.change == "hold"):
            return []
        return [JobHeld(target) if item.change == "hold" else JobReleased(target)]
