"""An adapter's driver: snapshots of a real manager become batches, the answers to them become orders there.

Two calls in turn, and time comes in with each: `update` takes a snapshot of the manager; `next_batch` and `answer` are the
rounds that follow, until `next_batch` returns None. Where the scheduler is in another process, a `ManagerSession` stands between
(``lockstep=False``, ``inventory=driver.inventory``).

What the books hold is what the scheduler knows: every event of a batch has happened there, and every action that was accepted. So
the events of the next batch are the difference between the books and the next snapshot. An order that was accepted and is not seen yet
is no difference, for `confirm_us`: after that, a start is refused late, and of all else the difference is told.

A reply is saved before its first action is carried out, and each action before it is handed on. A driver that was killed finishes
its last reply: it hands on again what may have been handed on already, so `Actuator.carry_out` must bear being called twice.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from cosched_plugin.common.threads import each_mask
from cosched_plugin.ledger.running import Running
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.errors import RemoteProtocolError
from cosched_plugin.protocol.limits import MAX_ROUNDS
from cosched_plugin.site.books import Books
from cosched_plugin.site.snapshots import (
    EXACT,
    PENDING,
    RUNNING,
    SUSPENDED,
    PolledJob,
    Rules,
    Snapshot,
    events_between,
    is_another,
    with_threads,
)
from cosched_plugin.site.store import HANDING, SENT, Order, Store

CONFIRM_US: Final = 2_000_000


class Unsettled(NamedTuple):
    """The manager did not answer: it may carry the action out, or have done so."""

    reason: str

    def __str__(self) -> str:
        return self.reason


Outcome: TypeAlias = "str | Unsettled | None"  # why it was refused; of unknown fate; None: accepted, and will be seen


class Actuator(Protocol):
    """What an adapter does at its manager."""

    def carry_out(self, action: m.Action) -> Outcome:
        """Carry out a start (of a group: all or none), revision, suspension, resumption, rejection, or what else has no place in books.

        May be called again with the same action after a crash.
        """

    def withdraw(self, start: m.StartJob) -> bool | None:
        """Take back a start that was accepted, but has not come true in time; the job must not start by itself any more.

        Return whether it is held for now, so that it is not started again at once; later snapshots say when that ends. None: it has
        come true after all, and the next snapshot will show it.
        """


class Driver:
    """The manager's half of the conversation, for a real manager that is polled and given orders."""

    def __init__(
        self,
        machine: m.Welcome,
        store: Store | None,
        actuator: Actuator,
        rules: Rules = EXACT,
        confirm_us: int = CONFIRM_US,
    ) -> None:
        """``machine`` says what a welcome says of nodes and beliefs; jobs, notes and wakes come from the store and from snapshots."""
        saved = None if store is None else store.load(machine)
        self.books = Books(machine if saved is None else saved.welcome)
        self.unfit: dict[int, str] = {}  # jobs that the scheduler is not told of, and why
        # Actions of unknown fate, as (batch, number): the scheduler must begin from a new inventory.
        self.unsettled: list[tuple[int, int]] = []
        self.lost: list[str] = []  # what a driver that has just begun does not know, in words
        # Jobs whose start is given up with the next snapshot that shows them pending
        self.hopeless: Container[int] = ()
        self._store = store
        self._actuator = actuator
        self._rules = rules
        self.confirm_us = confirm_us  # after which an order that is not seen is given up
        self._orders: list[Order] = []
        self._refused: list[m.ActionRefused] = []  # of the last answer, not told yet
        self._snapshot: Snapshot | None = None  # the last one, not told yet
        # Jobs of which something may have changed since the last save, with None for notes about none of them; None: all.
        self._touched: set[int | None] | None = None
        self._asks = True  # a scheduler that has just begun has not been asked
        self._open: m.Events | None = None
        self._rounds = 0  # batches in a row that held nothing but refusals
        if saved is not None:
            self.books.restarts.update(saved.restarts)
            self._orders = list(saved.orders)
        self._new = saved is None

    def inventory(self) -> m.Welcome:
        """Return the welcome of a scheduler that begins now; it will be asked with the next batch, if only with an empty one."""
        self._absorb()
        self._asks, self._open = True, None
        self._refused.clear()  # the scheduler that decided them is gone
        self.unsettled.clear()
        return self.books.inventory()

    @property
    def awaits_starts(self) -> bool:
        """Return whether some job has been placed, and has not been seen to begin."""
        return any(m.starts_of(order.action) for order in self._orders)

    def due_us(self) -> int | None:
        """Return when something is due without a new snapshot: a wake, or an order that should have been seen by then."""
        late = [order.since_us + self.confirm_us for order in self._orders]
        return min([*self.books.ledger.wakes, *late], default=None)

    # ------------------------------------------------------------ snapshots

    # Must be called first after a start of the process: it finishes the last reply, and without a scheduler's having been told
    # anything yet, all that has changed meanwhile goes into the books alone, from which `inventory` tells it.
    def begin(self, now_us: int, snapshot: Snapshot) -> None:
        """Take over from the store and from a first snapshot."""
        held = len(self.books)
        ahead_us = self.books.ledger.now_us - now_us
        if ahead_us > 1_000_000:
            self.lost.append(f"the store is {ahead_us / 1_000_000:.0f} s ahead: the clock was set back")
        self.books.ledger.now_us = now_us
        self._orders = [order._replace(since_us=min(order.since_us, now_us)) for order in self._orders]
        self._forget_others(snapshot)
        finished = sum(order.state != SENT for order in self._orders)
        if finished:
            self._finish()
            self.lost.append(f"the last reply was finished: {finished} actions, some maybe for the second time")
        self.update(now_us, snapshot)
        events = self._absorb()
        unseen = sum(isinstance(event, m.JobEnded) and event.state == m.UNKNOWN for event in events)
        if unseen:
            self.lost.append(f"{unseen} jobs have ended since, with unknown states")
        if self._new and len(self.books):
            running = len(self.books.ledger.running)
            self.lost.append(
                f"there was no store: {len(self.books)} jobs are as the manager shows them, {running} of them running; "
                "what was expected of these, notes and wakes are lost"
            )
        elif not held and len(self.books):
            self.lost.append("the store held no jobs")

    # As after a manager has lost its state, and with the store of another manager.
    def _forget_others(self, snapshot: Snapshot) -> None:
        """Let the jobs of the store end whose numbers other jobs have by now: what was decided for them is not for these."""
        others = {
            job_id
            for job_id, polled in snapshot.jobs.items()
            if (was := self.books.polled(job_id)) and is_another(was, polled.spec.submit_us, polled.restarts)
        }
        self._orders = [order for order in self._orders if others.isdisjoint(_jobs_of(order.action))]
        self._tell_books([m.JobEnded(job_id, m.UNKNOWN) for job_id in sorted(others)])
        if others:
            self.lost.append(f"{len(others)} numbers of jobs are other jobs' by now")

    def _absorb(self) -> list[m.Event]:
        """Let what the last snapshot tells happen in the books alone, for a scheduler that begins with them; return it."""
        events = self._changes()
        self._tell_books(events)
        self._save()
        return events

    def update(self, now_us: int, snapshot: Snapshot) -> None:
        """Take a snapshot; what has changed since is told with the next batch."""
        self._advance(now_us)
        plans = {job_id: running.runs for job_id, running in self.books.ledger.running.items()}
        self._snapshot = with_threads(snapshot, plans, self.books.ledger.machine.threads_of)

    def _tell_books(self, events: Sequence[m.Event]) -> None:
        """Apply events to the books; what was refused is undone there already."""
        for event in events:
            self._touch(
                event.job.id if isinstance(event, m.JobSubmitted | m.JobModified) else getattr(event, "job_id", None)
            )
        self.books.happen([event for event in events if not isinstance(event, m.ActionRefused)])

    def _advance(self, now_us: int) -> None:
        if now_us < self.books.ledger.now_us:
            raise RemoteProtocolError("clock", "", f"time runs backwards, from {self.books.ledger.now_us} to {now_us}")
        self.books.ledger.now_us = now_us

    def _changes(self) -> list[m.Event]:
        """Return what the last snapshot tells that the books do not know; late refusals come first."""
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is None:
            return []
        refusals: list[m.Event] = []
        jobs = dict(snapshot.jobs)
        on_nodes = [polled for polled in jobs.values() if polled.state in (RUNNING, SUSPENDED) and not polled.to_disk]
        held = _threads_of(on_nodes)
        for order in [order for order in self._orders if order.state == SENT]:
            waits = self.books.ledger.now_us - order.since_us < self.confirm_us and not any(
                job_id in self.hopeless for job_id in _jobs_of(order.action)
            )
            in_the_way = _is_in_the_way(order, jobs, held)
            if self._has_effect(order, jobs):
                self._orders.remove(order)
            elif waits and (order.seq, order.number) not in self.unsettled and not in_the_way:
                for job_id in _jobs_of(order.action):
                    _hide(job_id, jobs, self.books.polled(job_id))
            else:
                self._orders.remove(order)
                refusals += self._give_up(order, jobs, may_wait=not in_the_way)
        known = self.books.snapshot()
        self._leave_out(jobs, known)
        for job_id, polled in jobs.items():
            counted = self.books.restarts.get(job_id, 0)
            if polled.restarts != counted and self.books.ledger.description(job_id) is not None:
                self.books.restarts[job_id] = polled.restarts
                self._touch(job_id)
        events = events_between(known, snapshot._replace(jobs=jobs), self.books.ledger.now_us, self._rules)
        return [*refusals, *events]

    def _leave_out(self, jobs: dict[int, PolledJob], known: Snapshot) -> None:
        """Leave out new jobs that the empty machine cannot hold: a scheduler is told of none."""
        self.unfit = {job_id: text for job_id, text in self.unfit.items() if job_id in jobs}
        for job_id, polled in list(jobs.items()):
            if job_id in known.jobs or polled.state != PENDING:
                continue
            most = self.books.ledger.machine.most_processes(polled.spec)
            if polled.spec.processes > most:
                self.unfit[job_id] = (
                    f"it has {polled.spec.processes} processes; the machine holds at most {most} such processes"
                )
                del jobs[job_id]

    def _has_effect(self, order: Order, jobs: dict[int, PolledJob]) -> bool:
        """Return whether an order has had its effect, or can have none any more."""
        there = {job_id: jobs[job_id] for job_id in _jobs_of(order.action) if job_id in jobs}
        states = {polled.state for polled in there.values()}
        known = {job_id: self.books.polled(job_id) for job_id in there}
        restarted = any(each is not None and there[job_id].restarts > each.restarts for job_id, each in known.items())
        match order.action:
            case m.StartJob() | m.StartTogether():
                return restarted or PENDING not in states  # it may have started, and been requeued since
            case m.SuspendJob():
                return RUNNING not in states
            case m.ResumeJob():
                return SUSPENDED not in states
            case m.RejectJob():
                return PENDING not in states
            case m.KillJob() | m.RequeueJob():
                return restarted or not {RUNNING, SUSPENDED} & states
            case m.ReviseJob(job_id, _, limit_us):
                running = self.books.ledger.running.get(job_id)
                grain_us = self._rules.limit_grain_us
                granted = jobs[job_id].limit_us if job_id in jobs else None
                if running is None or limit_us is None or granted is None:
                    return True
                return abs(granted + running.idle_us - limit_us) <= grain_us
            case _:
                return True  # events will say

    def _give_up(self, order: Order, jobs: dict[int, PolledJob], *, may_wait: bool) -> list[m.ActionRefused]:
        """Stop waiting for an order: a start is taken back, but one that has come true only if not ``may_wait``."""
        # Once more: no event says that it failed.
        if isinstance(order.action, m.ResumeJob | m.RejectJob | m.KillJob | m.RequeueJob):
            self._send(order._replace(since_us=self.books.ledger.now_us))
            _hide(order.action.job_id, jobs, self.books.polled(order.action.job_id))
        late, seen = [], False
        for start in m.starts_of(order.action):
            if start.job_id in jobs and jobs[start.job_id].state == PENDING:
                held = self._actuator.withdraw(start)
                if held is None and may_wait:
                    seen = True
                    _hide(start.job_id, jobs, self.books.polled(start.job_id))
                    continue
                jobs[start.job_id] = jobs[start.job_id]._replace(held=bool(held) or jobs[start.job_id].held)
                self.books.take_back(start.job_id)
                self._touch(start.job_id)
                late.append(start.job_id)
        if seen:
            self._orders.append(order._replace(since_us=self.books.ledger.now_us))
        reason = f"not seen to start within {(self.books.ledger.now_us - order.since_us) / 1_000_000:g} s"
        return [m.ActionRefused(order.seq, order.number, reason, tuple(late))] if late else []

    # ------------------------------------------------------------ rounds

    def next_batch(self) -> m.Events | None:
        """Return what to tell the scheduler now; None: nothing, or it has not answered the last batch.

        RemoteProtocolError, code ``rounds``, for a scheduler that insists on what is refused.
        """
        if self._open is not None or self.unsettled:
            return None
        books = self.books
        refused, self._refused = self._refused, []
        events: list[m.Event] = [*refused, *self._changes()]
        wakes = [m.Woken(at_us) for at_us in sorted(books.ledger.wakes) if at_us <= books.ledger.now_us]
        if not (events or wakes or self._asks):
            self._save()
            return None
        only = bool(refused) and len(events) + len(wakes) == len(refused)
        self._rounds = self._rounds + 1 if only else 0
        if self._rounds > MAX_ROUNDS:
            text = f"{self._rounds} batches in a row hold nothing but refusals, the last one of: {refused[-1].reason}"
            raise RemoteProtocolError("rounds", "actions", f"the scheduler repeats refused actions: {text}")
        self._asks = False
        books.seq += 1
        self._tell_books((*events, *wakes))
        self._save()
        self._open = m.Events(books.seq, books.ledger.now_us, (*events, *wakes))
        return self._open

    def answer(self, now_us: int, actions: Sequence[m.Action]) -> None:
        """Carry out the answer to the open batch; ``now_us`` is the present, at which actions are checked."""
        if self._open is None:
            raise RemoteProtocolError("sequence", "seq", "no batch is open")
        self._open = None
        self._advance(now_us)
        self._orders += [
            Order(self.books.seq, number, action, self.books.ledger.now_us) for number, action in enumerate(actions)
        ]
        self._finish()

    def _finish(self) -> None:
        """Carry out the orders that have not been sent."""
        orders = [order for order in self._orders if order.state != SENT]
        self._save()
        for order in orders:
            self._orders.remove(order)
            if order.state == HANDING:  # by the driver before this one: the books have it already
                self._send(order)
                continue
            running = self.books.ledger.running
            before = {job_id: running[job_id] for job_id in _jobs_of(order.action) if job_id in running}
            self._touch(
                *_jobs_of(order.action), *([order.action.job_id] if isinstance(order.action, m.SetNote) else [])
            )
            reason = self.books.act(order.action)
            if reason is not None:
                self._refuse(order, f"stale: {reason}")
            elif not isinstance(order.action, m.SetNote | m.WakeAt):
                self._send(order, before)
        self._save()

    def _send(self, order: Order, before: dict[int, Running] | None = None) -> None:
        """Hand an order on; ``before`` are its running jobs without it."""
        handing = order._replace(state=HANDING)
        self._orders.append(handing)
        self._save()
        outcome = self._actuator.carry_out(order.action)
        self._orders.remove(handing)
        tried_again = before is None and not m.started_by(order.action)
        if isinstance(outcome, str) and not tried_again and not isinstance(order.action, m.RejectJob):
            self.books.put_back(order.action, before or {})
            self._touch(*_jobs_of(order.action))
            self._refuse(order, outcome)
            return
        if isinstance(outcome, Unsettled):
            self.unsettled.append((order.seq, order.number))
        self._orders.append(order._replace(state=SENT))

    def _touch(self, *job_ids: int | None) -> None:
        if self.books.ledger.measured:  # a job that comes or goes changes what is known of its neighbours
            self._touched = None
        if self._touched is not None:
            self._touched.update(job_ids)

    def _refuse(self, order: Order, reason: str) -> None:
        self._refused.append(m.ActionRefused(order.seq, order.number, reason, m.started_by(order.action)))

    def _save(self) -> None:
        books = self.books
        books.restarts = {
            job_id: count
            for job_id, count in books.restarts.items()
            if count and books.ledger.description(job_id) is not None
        }
        if self._store is not None:
            self._store.save(books.inventory(self._touched), books.restarts, self._orders, self._touched)
        self._touched = set()


def _jobs_of(action: m.Action) -> Iterator[int]:
    """Yield the jobs that an action is about."""
    for start in m.starts_of(action):
        yield start.job_id
    job_id = getattr(action, "job_id", None)
    if isinstance(job_id, int) and not isinstance(action, m.StartJob | m.SetNote):
        yield job_id


def _threads_of(placed: Iterable[PolledJob]) -> dict[int, int]:
    """Return the threads of some jobs by node; a mask of 0 names none."""
    held: dict[int, int] = {}
    for polled in placed:
        for node, mask in each_mask(polled.runs):
            held[node] = held.get(node, 0) | mask
    return held


def _is_in_the_way(order: Order, jobs: Mapping[int, PolledJob], held: Mapping[int, int]) -> bool:
    """Return whether a start that has not come true wants threads on which another job is seen."""
    late = [
        start for start in m.starts_of(order.action) if start.job_id in jobs and jobs[start.job_id].state == PENDING
    ]
    return any(mask & held.get(node, 0) for start in late for node, mask in each_mask(start.runs))


def _hide(job_id: int, jobs: dict[int, PolledJob], known: PolledJob | None) -> None:
    """Show a job as the books have it, unless it has ended: an order about it has not had its effect yet."""
    if job_id in jobs and jobs[job_id].state in m.END_STATES:
        return
    if known is None:
        jobs.pop(job_id, None)
    elif job_id in jobs:
        jobs[job_id] = known
