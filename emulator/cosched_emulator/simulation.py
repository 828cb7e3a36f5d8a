"""The loop of a run: time goes from instant to instant, and each instant's events are answered before time goes on.

All events of one instant travel in one batch, in the order that PROTOCOL.md fixes; what the answer causes at that same instant
follows in further batches. Contention settles once, after the last of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from cosched_emulator.errors import InvariantError, LinkError
from cosched_emulator.kernel import END, MEASURE, NODE_FAILURE, NODE_RETURN, USER_CHANGE, WAKE
from cosched_emulator.links import Link
from cosched_emulator.manager import Manager
from cosched_emulator.results.record import JobRecord
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

Change: TypeAlias = Literal["cancel", "hold", "release", "fail-node", "return-node"]
CHANGES: Final[tuple[Change, ...]] = ("cancel", "hold", "release", "fail-node", "return-node")
_RANKS: Final = {"fail-node": NODE_FAILURE, "return-node": NODE_RETURN}
# So many batches at one instant are a scheduler and a manager that quarrel for ever.
MOST_ROUNDS: Final = 1000
# So many wakes in a row without anything else are a scheduler that will never end.
MOST_IDLE_WAKES: Final = 5_000_000


class Scripted(NamedTuple):
    """Something that a user or an operator does at a given instant; ``target`` is a job or a node."""

    at_us: int
    change: Change
    target: int


class Simulation:
    """One run of a workload on one machine under one scheduler, in virtual time."""

    def __init__(
        self,
        manager: Manager,
        jobs: Sequence[WorkloadJob],
        link: Link,
        *,
        script: Iterable[Scripted] = (),
        requeue_on_node_failure: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """``jobs`` in order of (submission, id); ``progress`` is called with the number of jobs that have ended."""
        self.manager = manager
        self.batches = 0
        self._jobs = jobs
        self._link = link
        self._script = sorted(script, key=lambda item: (item.at_us, _RANKS.get(item.change, USER_CHANGE), item.target))
        self._requeue = requeue_on_node_failure
        self._progress = progress
        self._next_job = 0
        self._ended = 0
        for number, item in enumerate(self._script):
            manager.kernel.schedule(item.at_us, _RANKS.get(item.change, USER_CHANGE), number)

    def run(self) -> list[JobRecord]:
        """Run to the end and return every job's record, in order of id.

        Ends when nothing is due any more; jobs that still wait then (held, or never started by the scheduler) have no end.
        """
        manager = self.manager
        self._link.open(manager.inventory)
        try:
            idle = 0
            while (now_us := self._next_instant()) is not None:
                idle = 0 if self._instant(now_us) else idle + 1
                if idle > MOST_IDLE_WAKES:
                    raise LinkError(f"the scheduler has had itself woken {idle} times, and nothing else has happened")
        finally:
            self._link.close()
        return [job.record() for _, job in sorted(manager.jobs.items())]

    def _next_instant(self) -> int | None:
        due_us = self.manager.kernel.next_us()
        if self._next_job == len(self._jobs):
            return due_us
        submit_us = self._jobs[self._next_job].spec.submit_us
        return submit_us if due_us is None or submit_us < due_us else due_us

    def _instant(self, now_us: int) -> bool:
        """Play one instant; tell whether anything happened but the scheduler's own wakes."""
        manager = self.manager
        events = self._due(now_us)
        eventful = any(type(event) is not Woken for event in events)
        rounds = 0
        while events:
            rounds += 1
            if rounds > MOST_ROUNDS:
                raise InvariantError(f"{rounds} batches at {now_us} us, and still actions are refused: {events[0]}")
            seq = manager.seq + 1
            self.batches += 1
            actions = self._link.exchange(seq, now_us, tuple(events))
            events = manager.commit(seq, now_us, events, actions)
        if rounds:
            manager.settle()
        return eventful

    def _due(self, now_us: int) -> list[Event]:
        """Return what happens at ``now_us``, in order."""
        manager = self.manager
        events: list[Event] = []
        later: list[Event] = []
        for entry in manager.kernel.due(now_us):
            rank = entry[1]
            if rank == END:
                ended = manager.ended(entry[2], entry[3])
                if ended is not None:
                    events.append(ended)
            elif rank == MEASURE:
                gone = [event.job_id for event in events if isinstance(event, JobEnded | JobRequeued)]
                measured = None if entry[2] in gone else manager.measured(entry[2], entry[3], gone)
                if measured is not None:
                    events.append(measured)
            elif rank == WAKE:
                later.append(Woken(entry[0]))
            else:
                events += self._scripted(self._script[entry[2]], events)
        if events and self._progress is not None:
            self._ended += sum([isinstance(event, JobEnded) for event in events])
            self._progress(self._ended)
        jobs = self._jobs
        while self._next_job < len(jobs) and jobs[self._next_job].spec.submit_us <= now_us:
            job = jobs[self._next_job]
            self._next_job += 1
            refusal = manager.refusal_of(job.spec)
            if refusal is None:
                manager.accept(job)
                events.append(JobSubmitted(job.spec))
            else:
                manager.reject(job, now_us, refusal)
        return events + later if later else events

    def _scripted(self, item: Scripted, before: Sequence[Event]) -> list[Event]:
        """Return the events of one scripted change, none where it has no object any more.

        What happened ``before`` it at the same instant is not committed yet, but counts.
        """
        manager = self.manager
        target = item.target
        ended = {event.job_id for event in before if isinstance(event, JobEnded)}
        requeued = {event.job_id for event in before if isinstance(event, JobRequeued)}
        down = target in manager.down
        held = target in manager.pending and manager.pending[target].held
        for event in before:
            if isinstance(event, NodeFailed | NodeReturned) and event.node == target:
                down = isinstance(event, NodeFailed)
            elif isinstance(event, JobHeld | JobReleased) and event.job_id == target:
                held = isinstance(event, JobHeld)
        match item.change:
            case "fail-node":
                return [] if down else [NodeFailed(target), *self._evicted(target, ended | requeued)]
            case "return-node":
                return [NodeReturned(target)] if down else []
            case "cancel":
                known = target in manager.pending or target in manager.running
                return [JobEnded(target, CANCELLED)] if known and target not in ended else []
            case "hold" | "release":
                waits = (target in manager.pending or target in requeued) and target not in ended
                if not waits or held == (item.change == "hold"):
                    return []
                return [JobHeld(target) if item.change == "hold" else JobReleased(target)]

    def _evicted(self, node: int, gone: set[int]) -> list[Event]:
        """Return what becomes of the jobs on a node that fails."""
        bit = 1 << node
        hit = sorted(
            job_id
            for job_id, job in self.manager.running.items()
            if job_id not in gone and any(layer & bit for layer in job.layers)
        )
        if self._requeue:
            return [JobRequeued(job_id) for job_id in hit]
        return [JobEnded(job_id, NODE_FAIL) for job_id in hit]
