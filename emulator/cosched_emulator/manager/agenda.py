"""The agenda: the scheduled events of a manager.

Scripted changes, planned node faults and submissions come from the scenario; ends, measurements and wakes come from the manager.

`due` turns an instant into its events, in the order that PROTOCOL.md fixes. It changes no job.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop
from typing import Final

from cosched_emulator.manager.managed_job import GONE, ManagedJob
from cosched_emulator.manager.manager import Manager
from cosched_emulator.manager.own_acts import OwnActs, free_place
from cosched_emulator.manager.timeline import (
    END,
    MEASURE,
    NODE_FAILURE,
    NODE_NORMAL,
    NODE_RETURN,
    NODE_SLOW,
    OWN,
    QUANTUM,
    STARTED,
    SUBMISSION,
    USER_CHANGE,
    WAKE,
    Entry,
    Source,
)
from cosched_emulator.scenario.faults import NodeFault
from cosched_emulator.scenario.planned_events import Scripted
from cosched_emulator.workload.job import WorkloadJob
from cosched_hwmodel.draws import uniform
from cosched_plugin.protocol.messages import (
    CANCELLED,
    NODE_FAIL,
    UNKNOWN,
    ActionRefused,
    Event,
    JobEnded,
    JobHeld,
    JobReleased,
    JobRequeued,
    JobSpec,
    JobStarted,
    JobSubmitted,
    NodeFailed,
    Run,
    Woken,
)

# The effect of a node failure on its jobs: each runs again from its start, or ends as NODE_FAIL.


def fail_node(manager: Manager, node: int, at_us: int, before: Iterable[Event], *, requeue: bool) -> list[Event]:
    """Return the events of a node failure, including those of its jobs; none if the node is broken already.

    ``before`` are the earlier events of the same instant: a job that they end or requeue is gone. ``requeue`` says whether
    jobs without a setting of their own run again.
    """
    nodes = manager.nodes
    if node in nodes.broken:
        return []
    events = nodes.fail(node, at_us)
    gone = {event.job_id for event in before if isinstance(event, JobEnded | JobRequeued)}
    for job_id, job in sorted(_jobs_on(manager, node)):
        if job_id not in gone and job.absent == GONE:
            events.append(JobEnded(job_id, job.outcome))
        elif job_id not in gone:
            again = requeue if job.job.requeue is None else job.job.requeue
            events.append(JobRequeued(job_id) if again else JobEnded(job_id, NODE_FAIL))
    return events


def _jobs_on(manager: Manager, node: int) -> list[tuple[int, ManagedJob]]:
    """Return the jobs with hardware threads on a node, or with an image on its disk."""
    bit = 1 << node
    return [(job_id, job) for job_id, job in manager.running.items() if any(layer & bit for layer in job.layers)]


_new = tuple.__new__  # a call of the class of an event takes twice as long
_RANKS: Final = {"fail-node": NODE_FAILURE, "return-node": NODE_RETURN}
_FAULT_RANKS: Final = {"fail": NODE_FAILURE, "return": NODE_RETURN, "slow": NODE_SLOW, "normal": NODE_NORMAL}
_SCRIPT, _PLAN = 0, 1  # versions of entries: the source of a node's change
_SEEN: Final = (
    1  # version of the entry by which the scheduler is told of a submission; that of the submission itself is 0
)


class Agenda:
    """The due events of one manager."""

    __slots__ = ("_endless", "_faults", "_heap", "_jobs", "_manager", "_requeue", "_script", "_timeline", "acts")

    def __init__(
        self,
        manager: Manager,
        jobs: Iterable[WorkloadJob] = (),
        script: Iterable[Scripted] = (),
        faults: Iterable[NodeFault] = (),
        *,
        requeue: bool = False,
        endless: bool = False,
        acts: OwnActs | None = None,
    ) -> None:
        """Take ``jobs`` in order of (submission, id) and ``faults`` in order of (time, rank, node), one at a time.

        ``requeue``: jobs run again when a node fails under them. ``endless``: planned faults continue when nothing else
        is due, because users may submit more jobs.
        """
        timeline = manager.timeline
        self.acts = acts  # what the manager does by itself; None: nothing
        self._manager = manager
        self._timeline = timeline
        self._heap = timeline.heap
        self._jobs = Source(timeline, jobs, _submission)
        self._script = Source(timeline, sorted(script, key=_scripted_change), _scripted_change)
        self._faults = Source(timeline, faults, _planned_fault)
        self._requeue = requeue
        self._endless = endless

    def go_on(self, jobs: Iterable[WorkloadJob], script: Iterable[Scripted], faults: Iterable[NodeFault]) -> None:
        """Go on after it was pickled, with the sequences that it was made with."""
        self._jobs.go_on(jobs)
        self._script.go_on(sorted(script, key=_scripted_change))
        self._faults.go_on(faults)

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
    def due(self, now_us: int) -> list[Event]:
        """Return the events at ``now_us``, in order; reject a submission that does not fit the machine."""
        manager, heap = self._manager, self._heap
        events: list[Event] = []
        refusals: list[Event] = []  # of starts, late ones: these come first
        wakes: list[Event] = []  # wakes come last, also those that were requested too late
        # If the run only waits for nodes to return, no more nodes fail.
        failing = len(heap) != 1 or not self._only_faults()
        while heap and heap[0][0] <= now_us:
            at_us, rank, ident, version = heappop(heap)
            if rank == END:
                end = manager.end_event(ident, version)
                if end is not None and manager.lags is None:
                    events.append(end)
                elif end is not None and not manager.ends_unseen(ident, now_us):
                    events.append(self._as_told(end))
            elif rank == SUBMISSION:
                if version == _SEEN:
                    events += self._see(ident)
                    continue
                job = self._jobs.pop()
                refusal = manager.refusal_of(job.spec)
                if refusal is not None:
                    manager.reject(job, now_us, refusal)
                    continue
                submitted = manager.accept(job)
                if manager.lags is None or not self._stays_unseen(submitted):
                    events.append(_new(JobSubmitted, (job.spec,)))
            elif rank == STARTED:
                self._await(ident, version, now_us, events, refusals)
            elif rank == OWN:
                events += self._act(ident, version, now_us, alone=not (events or wakes or refusals))
            elif rank == MEASURE:
                gone = _gone(events)
                measurement = None if ident in gone else manager.measurement_event(ident, version, gone)
                if measurement is not None:
                    events.append(measurement)
            elif rank == WAKE:
                wakes.append(Woken(at_us))
            elif rank == QUANTUM:
                ended = manager.quantum_event(version, _gone(events))
                if ended is not None:
                    events.append(ended)
            elif version == _SCRIPT:
                events += self._carry_out(self._script.pop(), events)
            else:
                fault = self._faults.pop()
                if failing or fault.kind != "fail":
                    events += self._strike(fault, events)
        return [*refusals, *events, *wakes] if wakes or refusals else events

    # ------------------------------------------------------------ what a difficult manager does

    def _as_told(self, end: JobEnded) -> JobEnded:
        """Return an end as the scheduler is told of it."""
        lags = self._manager.lags
        return end if lags is None or not lags.loses(end.job_id) else end._replace(state=UNKNOWN)

    def _await(self, job_id: int, version: int, now_us: int, events: list[Event], refusals: list[Event]) -> None:
        """Add what becomes of a start that was awaited; nothing if it is void.

        It comes true as decided if nodes fail at the same instant, or another job starts: what they leave is not known yet.
        """
        if job_id in _gone(events):
            return
        moves = not any(isinstance(event, NodeFailed | JobStarted) for event in events)
        manager = self._manager
        seed = 0 if manager.lags is None else manager.lags.seed

        def place(spec: JobSpec) -> tuple[Run, ...] | None:
            return free_place(manager.pool, spec, uniform(spec.id, "manager place", seed, now_us)) if moves else None

        came = manager.start_event(job_id, version, now_us, place)
        if came is not None:
            (refusals if isinstance(came, ActionRefused) else events).append(came)

    def _act(self, ident: int, version: int, now_us: int, *, alone: bool) -> list[Event]:
        """Return the events of what the manager does by itself."""
        acts = self.acts
        assert acts is not None
        others = len(self._heap) - (acts.standing - 1) - (self._faults.head is not None)
        return acts.due(ident, version, now_us, alone=alone, last=others <= 0 and not self._endless)

    # ------------------------------------------------------------ submissions that the scheduler hears of later

    def _stays_unseen(self, job: ManagedJob) -> bool:
        """Return whether the scheduler is told of a job later; its entry is made then."""
        seen_us = self._seen_us(job)
        if seen_us == job.job.spec.submit_us:
            return False
        self._manager.unseen[job.id] = job
        self._timeline.schedule(seen_us, SUBMISSION, job.id, _SEEN)
        return True

    def _seen_us(self, job: ManagedJob) -> int:
        assert self._manager.lags is not None
        return job.job.spec.submit_us + self._manager.lags.us("submitted_s", job.job)

    def _see(self, job_id: int) -> list[Event]:
        """Return the submission of a job that is told of now; none if it has been cancelled, or waits to be released."""
        job = self._manager.unseen.get(job_id)
        if job is None or job.held:
            return []
        del self._manager.unseen[job_id]
        return [JobSubmitted(job.job.spec)]

    def _change_unseen(self, item: Scripted) -> None:
        """Carry out a change of a job that the scheduler has not been told of: it is told of no such job that is held."""
        manager, job_id = self._manager, item.target
        job = manager.unseen[job_id]
        match item.change:
            case "cancel":
                del manager.unseen[job_id]
                manager.finish(job, item.at_us, CANCELLED)
            case "hold":
                job.held = True
            case "release" if job.held:
                job.held = False
                self._timeline.schedule(max(item.at_us, self._seen_us(job)), SUBMISSION, job_id, _SEEN)

    # ------------------------------------------------------------ nodes

    def _strike(self, fault: NodeFault, before: Iterable[Event]) -> list[Event]:
        """Return the events of a planned fault, after the events ``before`` it at the same instant."""
        at_us, kind, node, slowdown = fault
        nodes = self._manager.nodes
        text = f"node {node}" + (f", {slowdown:g} times as long" if kind == "slow" else "")
        self._manager.diary.note_fault(at_us, f"node {kind}", text)
        match kind:
            case "fail":
                return fail_node(self._manager, node, at_us, before, requeue=self._requeue)
            case "return":
                return nodes.mend(node, at_us)
            case "slow":
                nodes.set_slowdown(node, slowdown)
            case "normal":
                nodes.set_slowdown(node, None)
        return []

    # ------------------------------------------------------------ scripts

    def _carry_out(self, item: Scripted, before: Sequence[Event]) -> list[Event]:
        """Return the events of one scripted change, none if its job or node is gone.

        The events ``before`` it at the same instant are not committed yet, but count.
        """
        manager = self._manager
        target = item.target
        match item.change:
            case "fail-node":
                return fail_node(manager, target, item.at_us, before, requeue=self._requeue)
            case "return-node":
                return manager.nodes.mend(target, item.at_us)
        if target in manager.unseen:
            self._change_unseen(item)
            return []
        ended = any(isinstance(event, JobEnded) and event.job_id == target for event in before)
        if item.change == "cancel":
            running = manager.running.get(target)
            known = target in manager.pending or (running is not None and running.absent != GONE)
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


class ProcessAgenda(Agenda):
    """The agenda of a manager whose jobs are processes: the end of a job is due once its processes have come there."""

    __slots__ = ()

    def next_us(self) -> int | None:
        """Let the processes run up to the next due entry; return the earliest due instant."""
        self._manager.run_processes(super().next_us())
        return super().next_us()

    def next_by(self, now_us: int) -> int | None:
        """Let the processes run up to the next due entry, at most until ``now_us``; return the earliest known instant."""
        due_us = super().next_us()
        self._manager.run_processes(now_us if due_us is None else min(due_us, now_us))
        return super().next_us()

    def _only_faults(self) -> bool:
        return super()._only_faults() and not self._manager.processes_run


def _gone(events: Iterable[Event]) -> set[int]:
    """Return the jobs that these events take off their nodes, or out of the queue."""
    return {event.job_id for event in events if isinstance(event, JobEnded | JobRequeued)}


def _submission(job: WorkloadJob) -> Entry:
    return (job.spec.submit_us, SUBMISSION, job.spec.id, 0)


def _scripted_change(item: Scripted) -> Entry:
    return (item.at_us, _RANKS.get(item.change, USER_CHANGE), item.target, _SCRIPT)


def _planned_fault(fault: NodeFault) -> Entry:
    return (fault.at_us, _FAULT_RANKS[fault.kind], fault.node, _PLAN)
