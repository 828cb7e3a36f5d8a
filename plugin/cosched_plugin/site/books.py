"""The books of an adapter: what its scheduler was told and has decided (`cosched_plugin.site.driver`).

They are the ledger that the scheduler has, too, with the number of the last batch. The conformance check adds run times, slots that
take turns, and what becomes of actions that ask for something (`cosched_plugin.testing.site`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from cosched_plugin.ledger.entries import act, happen
from cosched_plugin.ledger.ledger import Ledger
from cosched_plugin.ledger.running import Running
from cosched_plugin.protocol.messages import Action, ActionRefused, Event, JobSpec, UnknownAction, Welcome, started_by
from cosched_plugin.site.snapshots import PENDING, RUNNING, SUSPENDED, PolledJob, Snapshot


class Books:
    """The state of a manager, as its scheduler must know it."""

    def __init__(self, told: Welcome) -> None:
        """``told`` is the state to go on from, with the number of the last answered batch."""
        self.seq = told.seq
        self.ledger = Ledger(told)
        self.restarts: dict[int, int] = {}  # by job: how often it had been requeued when it was last polled
        # A cache, with what each is made of
        self._polled: dict[int, tuple[tuple[Running | None, bool, int], PolledJob]] = {}

    def inventory(self, only: Collection[int | None] | None = None) -> Welcome:
        """Return the state that a scheduler needs to continue from the last answered batch; or ``only`` what it says of some jobs."""
        return self.ledger.inventory(only)._replace(seq=self.seq)

    def happen(self, events: Sequence[Event]) -> None:
        """Apply all events of one instant; RemoteProtocolError for what cannot have happened."""
        self.ledger.end_batch()  # of the one before
        for event in events:
            if isinstance(event, ActionRefused):
                for job_id in event.job_ids:
                    self.take_back(job_id)
        happen(self.ledger, events)

    def take_back(self, job_id: int) -> None:
        """Let a job wait again whose start did not come true."""
        if job_id in self.ledger.running:
            self.ledger.requeue(job_id)

    def act(self, action: Action) -> str | None:
        """Carry out an action, or return why it is impossible."""
        return "unknown action" if isinstance(action, UnknownAction) else act(self.ledger, action)

    def put_back(self, action: Action, before: Mapping[int, Running]) -> None:
        """Undo an action that the manager has refused; ``before`` are the running jobs that it was about."""
        for job_id in started_by(action):
            self.take_back(job_id)
        for job_id, running in before.items():
            self.ledger.restore(job_id, running._asdict())
        self.ledger.recount()

    def __len__(self) -> int:
        """Return how many jobs there are."""
        return len(self.ledger.running) + len(self.ledger.queue) + len(self.ledger.held)

    def snapshot(self) -> Snapshot:
        """Return what a poll of the manager would show, if it is what the books say."""
        ledger = self.ledger
        jobs = {job_id: self.polled(job_id) for job_id in (*ledger.running, *ledger.queue, *ledger.held)}
        if len(self._polled) > 2 * len(jobs):
            self._polled = {job_id: kept for job_id, kept in self._polled.items() if job_id in jobs}
        down = [node for node in range(ledger.machine.nodes) if not ledger.pool.up >> node & 1]
        return Snapshot({job_id: job for job_id, job in jobs.items() if job is not None}, frozenset(down))

    def polled(self, job_id: int) -> PolledJob | None:
        """Return a job as a poll would show it, if it is what the books say; None where they have none."""
        spec, restarts = self.ledger.description(job_id), self.restarts.get(job_id, 0)
        if spec is None:
            return None
        running = self.ledger.running.get(job_id)
        made_of = running, job_id in self.ledger.held, restarts
        kept = self._polled.get(job_id)
        if kept is not None and kept[1].spec is spec and kept[0][0] is running and kept[0][1:] == made_of[1:]:
            return kept[1]
        polled = self._poll(spec, *made_of)
        self._polled[job_id] = made_of, polled
        return polled

    def _poll(self, spec: JobSpec, running: Running | None, held: bool, restarts: int) -> PolledJob:
        if running is None:
            return PolledJob(spec, PENDING, held, restarts=restarts)
        return PolledJob(
            spec,
            RUNNING if running.suspended_us is None else SUSPENDED,
            start_us=running.start_us,
            runs=running.runs,
            estimate_us=max(1, running.end_us - running.start_us - running.idle_us),
            limit_us=None if running.limit_us is None else running.limit_us - running.idle_us,
            idle_us=running.idle_us,
            since_us=running.suspended_us or 0,
            to_disk=running.on_disk,
            restarts=restarts,
        )
