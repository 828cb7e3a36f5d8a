"""The agenda: the scheduled events of a manager.

Scripted changes, planned node faults and submissions come from the scenario; ends, measurements and wakes come from the manager.

`due` turns an instant into its events, in the order that PROTOCOL.md fixes. It changes no job.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop
from typing import Final

from cosched_emulator.manager.gate import CANCEL, ENTER, Gate
from cosched_emulator.manager.managed_job import ManagedJob
from cosched_emulator.manager.manager import Manager
from cosched_emulator.manager.record import FaultHappened
from cosched_emulator.manager.timeline import (
    END,
    FOREVER_US,
    GATE,
    MEASURE,
    NODE_FAILURE,
    NODE_NORMAL,
    NODE_RETURN,
    NODE_SLOW,
    QUANTUM,
    SUBMISSION,
    USER_CHANGE,
    WAKE,
    Entry,
    Source,
)
from cosched_emulator.scenario.faults import NodeFault
from cosched_emulator.scenario.planned_events import Scripted
from cosched_emulator.workload.job import WorkloadJob
from cosched_plugin.common.threads import nodes_of
from cosched_plugin.protocol import messages as m

_new = tuple.__new__  # a call of the class of an event takes twice as long
_RANKS: Final = {
    "fail-node": NODE_FAILURE, "drain-node": NODE_FAILURE, "reserve-node": NODE_FAILURE,
    "return-node": NODE_RETURN, "resume-node": NODE_RETURN, "free-node": NODE_RETURN,
}  # fmt: skip
_FAULT_RANKS: Final = {"fail": NODE_FAILURE, "return": NODE_RETURN, "slow": NODE_SLOW, "normal": NODE_NORMAL}
_CANCELS: Final = ("cancel", "cancel-pending")
_SCRIPT, _PLAN = 0, 1  # versions of entries: the source of a node's change
# Order of the events of one instant that come out of the order of their entries: late refusals of starts are first, and wakes are
# last, also those that were requested too late.
_PLACES: Final = {m.ActionRefused: 0, m.Woken: 2}


class Agenda:
    """The due events of one manager."""

    def __init__(
        self,
        manager: Manager,
        jobs: Iterable[WorkloadJob] = (),
        script: Iterable[Scripted] = (),
        faults: Iterable[NodeFault] = (),
        *,
        requeue: bool = False,
        endless: bool = False,
        gate: Gate | None = None,
    ) -> None:
        """Take ``jobs`` in order of (submission, id) and ``faults`` in order of (time, rank, node), one at a time.

        ``requeue``: jobs run again when a node fails under them. ``endless``: planned faults continue when nothing else
        is due, because users may submit more jobs. ``gate``: that of the manager; None: nothing binds any job.
        """
        timeline = manager.timeline
        self.gate = gate
        self.restarted = False  # the manager has restarted by itself: a scheduler must say hello again
        self._manager = manager
        self._heap = timeline.heap
        self._jobs = Source(timeline, jobs, _submission)
        self._script = Source(timeline, sorted(script, key=_scripted_change), _scripted_change)
        self._faults = Source(timeline, faults, _planned_fault)
        self._requeue = requeue
        self._endless = endless

    def resume_with(self, jobs: Iterable[WorkloadJob], script: Iterable[Scripted], faults: Iterable[NodeFault]) -> None:
        """Go on after it was pickled, with the sequences that it was made with."""
        self._jobs.resume_with(jobs)
        self._script.resume_with(sorted(script, key=_scripted_change))
        self._faults.resume_with(faults)

    def skip(self, until_us: int) -> None:
        """Leave out what the scenario has up to this time: it has happened in another manager. Nothing has happened here yet."""
        self._heap.clear()
        for source in (self._jobs, self._script, self._faults):
            source.skip(until_us)

    def next_us(self) -> int | None:
        """Return the earliest instant with a due entry, void entries included; None if there is none.

        Planned faults alone do not keep the run going: with no job to run, and none that waits for a node to return, the result
        is None.
        """
        heap = self._heap
        if len(heap) == 1 and self._only_faults():
            awaits_return = self._manager.nodes.broken and self._manager.pending
            if not awaits_return:
                return None
        return heap[0][0] if heap else None

    def next_by(self, _now_us: int) -> int | None:
        """Return the same in running time; a due instant after ``now_us`` may not be known yet."""
        return self.next_us()

    def _only_faults(self) -> bool:
        """Return whether the only entry left is a planned fault, in a run that does not continue for faults alone."""
        return self._faults.head is not None and not self._endless

    @property
    def all_submitted(self) -> bool:
        """Return whether the scenario's jobs have all been submitted."""
        return self._jobs.head is None

    # Takes the due entries off the timeline, so each is seen once; the caller must apply what is returned, in this order. Entries
    # may be void (a job was revised, suspended or ended meanwhile): the manager is asked of each whether it still holds. The events
    # found so far are not applied yet, but count: a job that ends at this instant has no measurement, and no failing node takes it
    # along.
    def due(self, now_us: int) -> list[m.Event]:
        """Return the events at ``now_us``, in order; reject a submission that does not fit the machine."""
        manager, heap, gate = self._manager, self._heap, self.gate
        events: list[m.Event] = []
        # If the run only waits for nodes to return, drawn failures are left out: they would never end.
        failing = len(heap) != 1 or not self._only_faults()
        while heap and heap[0][0] <= now_us:
            at_us, rank, ident, version = heappop(heap)
            if rank == END:
                end = self._end(ident, version, now_us)
                if end is not None:
                    events.append(end)
            elif rank == SUBMISSION:
                submitted = self._submission(ident, version, now_us)
                if submitted is not None:
                    events.append(submitted)
            elif rank == MEASURE:
                gone = taken_off(events)
                measurement = None if ident in gone else manager.measurement_event(ident, version, gone)
                if measurement is not None:
                    events.append(measurement)
            elif rank == WAKE:
                events.append(m.Woken(at_us))
            elif rank == QUANTUM:
                ended = manager.quantum_event(version, taken_off(events))
                if ended is not None:
                    events.append(ended)
            elif rank == GATE and version == CANCEL:
                events += self._change_job(Scripted(at_us, "cancel-pending", ident), events)
            elif rank == GATE:
                assert gate is not None
                gate.look(ident, version)
            else:
                events += self._happenings(rank, ident, version, now_us, events, failing=failing)
        if gate is not None and not gate.serves:
            events += gate.take(now_us, events)
        if len(events) > 1:
            events.sort(key=_place)
        return events

    def _end(self, job_id: int, version: int, _now_us: int) -> m.JobEnded | None:
        return self._manager.end_event(job_id, version)

    def _submission(self, _job_id: int, _version: int, now_us: int) -> m.JobSubmitted | None:
        """Take the scenario's next job; None: it does not fit the machine, and is rejected, or it goes through the gate."""
        job = self._enter(now_us)
        return None if job is None else self._tell(job)

    def _enter(self, now_us: int) -> ManagedJob | None:
        """Take the scenario's next job; None: it does not fit the machine, and is rejected."""
        manager, job = self._manager, self._jobs.pop()
        if self.gate is None:
            refusal = manager.refusal_of(job.spec)
        else:
            job, refusal, _ = self.gate.examine(job)
        if refusal is not None:
            manager.reject(job, now_us, refusal)
            return None
        return manager.accept(job)

    def _tell(self, job: ManagedJob) -> m.JobSubmitted | None:
        """Return the event of a job that has entered; with a gate the job goes there."""
        if self.gate is None:
            return _new(m.JobSubmitted, (job.job.spec,))
        self.gate.look(job.id, ENTER)
        return None

    def _happenings(
        self, _rank: int, _ident: int, version: int, _now_us: int, before: Sequence[m.Event], *, failing: bool
    ) -> list[m.Event]:
        """Return the events of a scripted change, or of a planned fault, after the events ``before`` it at the same instant."""
        if version != _SCRIPT:
            fault = self._faults.pop()
            return self._strike(fault, before) if failing or fault.kind != "fail" or not fault.drawn else []
        item = self._script.pop()
        match item.change:
            case "fail-node":
                return self._fail(item.target, item.at_us, before)
            case "return-node":
                return self._manager.nodes.mend(item.target, item.at_us)
            case "drain-node" if item.target not in self._manager.nodes.drained:
                return self._manager.nodes.drain(item.target, item.at_us, "by the script")
            case "drain-node":
                return []
            case "resume-node":
                return self._manager.nodes.lift(item.target, item.at_us)
            case "reserve-node":
                return self._manager.nodes.reserve(item.target, item.at_us, item.until_us)
            case "free-node":
                return self._manager.nodes.free(item.target, item.at_us)
        return self._change_job(item, before)

    # ------------------------------------------------------------ nodes

    def _fail(self, node: int, at_us: int, before: Iterable[m.Event]) -> list[m.Event]:
        """Return the events of a node failure, after those ``before`` it at the same instant; none if the node is broken already."""
        manager, bit = self._manager, 1 << node
        if node in manager.nodes.broken:
            return []
        events = manager.nodes.fail(node, at_us)
        gone = taken_off(before)
        for job_id, job in sorted(manager.running.items()):
            # With hardware threads on the node, or with an image on its disk.
            if job_id not in gone and nodes_of(job.runs) & bit:
                events.append(self._of_failure(job))
        return events

    def _of_failure(self, job: ManagedJob) -> m.JobEnded | m.JobRequeued:
        """Return the event of a job on a node that fails: it runs again from its start, or ends."""
        requeue = self._requeue if job.job.requeue is None else job.job.requeue
        return m.JobRequeued(job.id) if requeue else m.JobEnded(job.id, m.NODE_FAIL)

    def _strike(self, fault: NodeFault, before: Iterable[m.Event]) -> list[m.Event]:
        """Return the events of a planned fault, after the events ``before`` it at the same instant."""
        at_us, kind, node, slowdown, _ = fault
        nodes = self._manager.nodes
        text = f"node {node}" + (f", {slowdown:g} times as long" if kind == "slow" else "")
        self._manager.diary.note(FaultHappened(at_us, f"node {kind}", text))
        match kind:
            case "fail":
                return self._fail(node, at_us, before)
            case "return":
                return nodes.mend(node, at_us)
            case "slow":
                nodes.set_slowdown(node, slowdown)
            case "normal":
                nodes.set_slowdown(node, None)
        return []

    # ------------------------------------------------------------ scripts

    def _change_job(self, item: Scripted, before: Sequence[m.Event]) -> list[m.Event]:
        """Return the events of one scripted change of a job, none if it is gone.

        The events ``before`` it at the same instant are not committed yet, but count.
        """
        manager, gate = self._manager, self.gate
        target = item.target
        if gate is not None and target in gate.jobs:
            if item.change not in _CANCELS:
                gate.hold(item.at_us, target, hold=item.change == "hold")
                return []
            if target not in gate.known:
                gate.cancel(item.at_us, target)
                return []
        ended = any(isinstance(event, m.JobEnded) and event.job_id == target for event in before)
        if item.change in _CANCELS:
            known = target in manager.pending or (target in manager.running and item.change == "cancel")
            return [m.JobEnded(target, m.CANCELLED)] if known and not ended else []
        requeued = any(isinstance(event, m.JobRequeued) and event.job_id == target for event in before)
        held = target in manager.pending and manager.pending[target].held
        for event in before:
            if isinstance(event, m.JobHeld | m.JobReleased) and event.job_id == target:
                held = isinstance(event, m.JobHeld)
        waits = (target in manager.pending or requeued) and not ended
        if not waits or held == (item.change == "hold"):
            return []
        return [m.JobHeld(target) if item.change == "hold" else m.JobReleased(target)]


class ProcessAgenda(Agenda):
    """The agenda of a manager whose jobs are processes: the end of a job is due once its processes have come there."""

    def next_us(self) -> int | None:
        """Let the processes run up to the next due entry; return the earliest due instant."""
        return self.next_by(FOREVER_US)

    def next_by(self, now_us: int) -> int | None:
        """Let the processes run up to the next due entry, at most until ``now_us``; return the earliest known instant."""
        due_us, processes = super().next_us(), self._manager.processes
        if processes is not None:
            processes.run(now_us if due_us is None else min(due_us, now_us))
        return super().next_us()

    def _only_faults(self) -> bool:
        processes = self._manager.processes
        return super()._only_faults() and (processes is None or not processes.allowed)


def taken_off(events: Iterable[m.Event]) -> set[int]:
    """Return the jobs that these events take off their nodes, or out of the queue."""
    return {event.job_id for event in events if isinstance(event, m.JobEnded | m.JobRequeued)}


def _place(event: m.Event) -> int:
    return _PLACES.get(type(event), 1)


def _submission(job: WorkloadJob) -> Entry:
    return (job.spec.submit_us, SUBMISSION, job.spec.id, 0)


def _scripted_change(item: Scripted) -> Entry:
    return (item.at_us, _RANKS.get(item.change, USER_CHANGE), item.target, _SCRIPT)


def _planned_fault(fault: NodeFault) -> Entry:
    return (fault.at_us, _FAULT_RANKS[fault.kind], fault.node, _PLAN)
