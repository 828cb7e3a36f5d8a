"""Express: a short job that has no place stops running ones, which go on where they were once it has ended.

The jobs on its nodes stop in place, where they keep threads and memory. Where there are no threads, one job goes to disk, the
narrowest that is wide enough; until it comes back, only jobs that end before start on its nodes. Who was stopped for whom is a note
of the short job, so a restarted scheduler resumes whatever no note names. A stopped job is handed on to the next short job where
that would stop it again at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from cosched_plugin import api
from cosched_plugin.policies.symbiosis.guests import Guests
from cosched_plugin.policies.symbiosis.slowdowns import fit_together
from cosched_plugin.policies.turns import Bundle, fits_on_disk

NOTE: Final = "stops"  # of a running short job: the jobs that it has stopped, ascending
MODES: Final = ("fair", "express")
_MOST: Final = 16  # running jobs that are stopped for one, at most: its note has to travel


def by_mode(*, mode: str = MODES[0], express_s: float = 3600.0, stops: float = 0.25, **settings: Any) -> Guests:
    """Return the matching of a mode."""
    return Guests(**settings) if mode == MODES[0] else Express(express_s, stops, **settings)


class Stopping(NamedTuple):
    """A short job on threads beside stopped jobs, or on those of a job on disk."""

    shared: api.GroupSeat  # the short job, and until when those that it stops are expected to run
    on_disk: int | None  # the one of these that goes to disk
    rid: tuple[api.Moved, ...]  # neighbours of these elsewhere, which run faster

    @property
    def sole(self) -> None:
        """Return None: other jobs are concerned."""
        return

    @property
    def job_ids(self) -> tuple[int, ...]:
        """Return the short job."""
        return self.shared.job_ids

    @property
    def end_us(self) -> int:
        """Return the latest expected end of all."""
        return self.shared.end_us

    @property
    def decisions(self) -> tuple[api.Action, ...]:
        """Return the suspensions, the start, and the note."""
        stopped = [host.running.job.id for host in self.shared.hosts]
        offer = self.shared.newcomers[0].offer
        running = [host.running for host in self.shared.hosts if host.running.suspended_us is None]
        stops = [api.SuspendJob(each.job.id, to_disk=each.job.id == self.on_disk) for each in running]
        faster = [action for each in self.rid for action in each.decisions(self.shared.view)]
        return (*stops, offer.start(), api.SetNote(offer.job.id, NOTE, tuple(sorted(stopped))), *faster)

    @property
    def occupancies(self) -> tuple[api.Occupancy, ...]:
        """Return all jobs on their nodes."""
        return self.shared.occupancies

    def threads_held(self, at_us: int, view: api.View) -> api.Layers:
        """Return the threads that are free at ``at_us`` without this start, and are held because of it."""
        return self.shared.threads_held(at_us, view)

    def count_held(self, at_us: int, view: api.View) -> int:
        """Return how many threads these are."""
        return self.shared.count_held(at_us, view)


class Express(Guests):
    """Guests, and short jobs that stop others.

    ``express_s``: jobs up to this estimate may stop others, and are stopped by none. ``stops``: how long a job may be stopped in all,
    as a part of its estimate.
    """

    protocol_features = api.PAIRING | {"suspend", "disk"}
    ignores = frozenset({api.SAME_NODES})
    keeps_suspended = True

    def __init__(self, express_s: float, stops: float, **settings: Any) -> None:
        super().__init__(**settings)
        self._express_us = round(express_s * api.SECOND_US)
        self._stops = stops
        self._found: list[api.Running] = []  # a cache: those that may be stopped, at an instant
        self._stoppable_at: object = None  # the key of the view

    def prepare(self, context: api.Context) -> Iterator[api.Action]:
        """Yield the resumption of jobs whose short job has ended, then what the other mode does."""
        view = context.view
        yield from api.delete_stale_notes(view, NOTE)
        while _unclaimed(view) and (queue := self._led_by_short(context)) is not None:
            yield from super().prepare(context)
            taken = self._take_over(queue, context)
            if taken is None:
                break
            yield from taken.decisions
        yield from _resumptions(view)
        yield from super().prepare(context)

    def has_hosts(self, view: api.View) -> bool:
        """Tell whether there are running jobs that a pending one might join or stop."""
        return super().has_hosts(view) or bool(self._stoppable(view))

    def join_candidates(self, context: api.Context, gate: api.Gatekeeper = api.UNRESERVED) -> Collection[int]:
        """Return those that might be guests, and all short ones where a running job may be stopped."""
        found = super().join_candidates(context, gate)
        if not self._stoppable(context.view):
            return found
        return {*found, *[job.id for job in context.pending.jobs if self._is_short(job)]}

    def seat(self, offer: api.Offer, context: api.Context, gate: api.Gate) -> api.Seat | None:
        """Return what the other mode does, except on nodes to which a job on disk comes back before."""
        return super().seat(offer, context, _guarded(gate, context.view))

    def join(self, job: api.JobSpec, context: api.Context, gate: api.Gate) -> api.Seat | None:
        """Return a seat as a guest; for a short job, else one beside stopped jobs, or in the place of one that goes to disk."""
        gate = _guarded(gate, context.view)
        seat = super().join(job, context, gate)
        if seat is not None or not self._is_short(job) or job.exclusive:
            return seat
        view = context.view
        may = self._stoppable(view)
        if may and view.work.pay(api.prices.HOSTS, 1, len(may)):
            for find in (self._in_place, partial(self._for_disk, may)):
                stopping = find(job, may, context)
                if stopping is not None and gate.admit(stopping):
                    return self._explained(stopping, job)
        return None

    def _explained(self, stopping: Stopping, job: api.JobSpec) -> Stopping:
        view = stopping.shared.view
        view.explain(job.id, partial(_facts, stopping))
        for host in stopping.shared.hosts:
            view.explain(host.running.job.id, partner=job.id)
        return stopping

    def _led_by_short(self, context: api.Context) -> api.PendingJobs | None:
        """Return the queue where its head may stop others."""
        queue = context.arranged()
        return queue if queue.jobs and self._is_short(queue.jobs[0]) and not queue.jobs[0].exclusive else None

    # Only the head of the queue: a reservation may be in the way of others, and is not known yet.
    def _take_over(self, queue: api.PendingJobs, context: api.Context) -> Stopping | None:
        """Return the head of the queue in the place of a short job that has ended, with jobs that stay stopped for it."""
        view, head, unclaimed = context.view, queue.jobs[0], _unclaimed(context.view)
        away = [each for each in unclaimed if each.on_disk]
        theirs = _threads_of([view.nodes_by_job[each.job.id] for each in away], view)
        context, gate = context.over(queue), _guarded(api.UNRESERVED, view)
        if (
            context.offer(head, api.snapshot_now(view).without(theirs)) is not None
            or super().join(head, context, gate) is not None
        ):
            return None
        ids = {each.job.id for each in unclaimed}
        order = partial(_order, {each.job.id for each in self._stoppable(view) if each.suspended_us is not None})
        may = sorted([*[each for each in unclaimed if not each.on_disk], *self._stoppable(view)], key=order)
        candidates = sorted([*away, *may], key=order)
        stopping = self._in_place(head, may, context, theirs) or self._for_disk(may, head, candidates, context)
        if stopping is None or not gate.admit(stopping):
            return None
        go_on = ids.isdisjoint([host.running.job.id for host in stopping.shared.hosts])
        return None if go_on else self._explained(stopping, head)

    def _is_short(self, job: api.JobSpec) -> bool:
        return job.estimate_us <= self._express_us

    def _stoppable(self, view: api.View) -> list[api.Running]:
        """Return the running jobs that a short one might stop, those that are stopped already first, then the narrowest."""
        if self._stoppable_at != view.key:
            notes = _notes(view)
            stopped = {job_id for ids in notes.values() for job_id in ids}
            found = [
                each for each in view.running.values() if each.job.id not in notes and self._may_stop(each, stopped)
            ]
            found.sort(key=partial(_order, stopped))
            self._found, self._stoppable_at = found, view.key
        return self._found

    def _may_stop(self, running: api.Running, stopped: Collection[int]) -> bool:
        if running.leaving or running.slot or running.held or running.on_disk or self._is_short(running.job):
            return False
        return running.suspended_us is None or running.job.id in stopped

    def _affords(self, running: api.Running, span_us: int, view: api.View) -> bool:
        """Tell whether a job may be stopped for a span more."""
        stopped_us = view.now_us - running.start_us - view.progress_us(running)
        return stopped_us + span_us <= self._stops * running.job.estimate_us

    def _in_place(
        self, job: api.JobSpec, may: list[api.Running], context: api.Context, kept: api.Layers | None = None
    ) -> Stopping | None:
        """Return the job on threads that stopped jobs, and empty nodes, leave open; None where these are too few.

        ``kept``: threads of empty nodes that it must not have.
        """
        view = context.view
        alone = _with_one_job(view)
        nodes = view.open_nodes(job)
        if nodes is not None:
            alone = api.NodeSet(alone & nodes)
        none = api.none_of(view.machine.exists)
        open_ = view.open_to(job, api.minus(view.free, kept or none)) if self._empty_nodes else none
        chosen: list[api.Running] = []
        for running in may:
            mine = view.nodes_by_job[running.job.id] & alone
            if api.size(open_) >= job.processes or len(chosen) == _MOST:
                break
            if not mine or not fit_together(job, running.job, view):
                continue
            others = api.open_beside(running.runs, view)
            others = None if others is None else api.on_nodes(others, mine)
            if others is not None and not api.is_empty(others):
                open_ = api.union(open_, others)
                chosen.append(running)
        runs = api.first_fit(job, open_, view.machine, view.free_memory_mb) if chosen else None
        if runs is None:
            return None
        taken = api.nodes_of(runs)
        hosts = [running for running in chosen if taken & view.nodes_by_job[running.job.id]]
        return self._stopping(context.placement.offer_on(job, runs, api.snapshot_now(view)), hosts, None, view)

    def _for_disk(
        self, may: list[api.Running], job: api.JobSpec, candidates: list[api.Running], context: api.Context
    ) -> Stopping | None:
        """Return the job on threads of a candidate that goes to disk, or is there; others on these nodes stop in place."""
        view = context.view
        for running in candidates:
            if running.job.processes < job.processes or not _may_be_away(running, view):
                continue
            if not view.work.pay(api.prices.RANKED_PAIR):
                return None
            memory = list(view.free_memory_mb)
            for node, processes in api.each_node(running.runs) if running.job.memory_mb and not running.on_disk else ():
                memory[node] += processes * running.job.memory_mb
            runs = api.first_fit(job, running.layers, view.machine, memory, view.open_nodes(job))
            if runs is None:
                continue
            mine = api.nodes_of(runs)
            hosts = [
                each
                for other, each in view.running.items()
                if view.nodes_by_job[other] & mine and not each.on_disk and each is not running
            ]
            if len(hosts) > _MOST or not all(each in may and fit_together(job, each.job, view) for each in hosts):
                continue
            offer = context.placement.offer_on(job, runs, api.snapshot_now(view))
            stopping = self._stopping(offer, hosts, running, view)
            if stopping is not None:
                return stopping
        return None

    def _stopping(
        self, offer: api.Offer, hosts: list[api.Running], on_disk: api.Running | None, view: api.View
    ) -> Stopping | None:
        """Return the seat; None where a job has been stopped too long already."""
        costs, moved = view.resume_costs, []
        for running in (*hosts, *([] if on_disk is None else [on_disk])):
            back_us = costs.of_disk_us(running.job, running.runs) if running is on_disk else costs.switch_us
            span_us = offer.run_us + back_us
            if not self._affords(running, span_us, view):
                return None
            moved.append(api.Moved(running, None, view.expected_end(running) + span_us))
        moved.sort(key=lambda each: each.running.job.id)
        newcomer = api.Newcomer(offer, api.Tenancy((), 0, offer.run_us, 1.0, 0))
        stopped = {each.running.job.id for each in moved}
        present = api.sharing(view)
        neighbours = {other for job_id in stopped for other in present.get(job_id, ())} - stopped
        left = {other: [each for each in present[other] if each not in stopped] for other in sorted(neighbours)}
        rid = api.resettled(left, view)[1] if left else ()
        goes = None if on_disk is None or on_disk.on_disk else on_disk.job.id
        return Stopping(api.GroupSeat((newcomer,), tuple(moved), view), goes, rid)


class _Guarded(NamedTuple):
    """A gate that admits nobody on nodes to which a job on disk comes back before: it would wait for that one, too."""

    gate: api.Gate
    away: tuple[tuple[int, api.NodeSet], ...]  # of each job on disk: when it is expected back, and its nodes

    @property
    def reserved(self) -> int | None:
        """Return what the gate returns."""
        return self.gate.reserved

    def may_hold(self, since_us: int, until_us: int, threads: int) -> bool:
        """Return what the gate returns."""
        return self.gate.may_hold(since_us, until_us, threads)

    def admit(self, seat: api.Seat) -> bool:
        """Tell whether ``seat`` may be taken; if so it counts as taken."""
        for end_us, job_id, nodes in seat.occupancies:
            if job_id in seat.job_ids and any(end_us > back_us and nodes & theirs for back_us, theirs in self.away):
                return False
        return self.gate.admit(seat)


def _guarded(gate: api.Gate, view: api.View) -> api.Gate:
    if not view.on_disk:
        return gate
    back: dict[int, int] = {}
    for job_id, ids in _notes(view).items():
        end_us = view.expected_end(view.running[job_id])
        for stopped in ids:
            back[stopped] = max(end_us, back.get(stopped, end_us))
    away = tuple([(back[job_id], view.nodes_by_job[job_id]) for job_id in view.on_disk if job_id in back])
    return _Guarded(gate, away) if away else gate


def _notes(view: api.View) -> dict[int, tuple[int, ...]]:
    """Return the running short jobs that have stopped others, with these; notes of another form name nobody."""
    found = {}
    for job_id in api.running_with_note(NOTE, view):
        note = view.note(job_id, NOTE)
        ids = note if type(note) is tuple and set(map(type, note)) <= {int} else ()
        found[job_id] = tuple([each for each in ids if type(each) is int])
    return found


def _order(stopped: Collection[int], running: api.Running) -> tuple[bool, int, int, int]:
    """Return the sort key of jobs that may be stopped: those that are stopped already first, then the narrowest."""
    return running.job.id not in stopped, running.job.processes, running.start_us, running.job.id


def _unclaimed(view: api.View) -> list[api.Running]:
    """Return the suspended jobs that no running short job has stopped, and that could go on now, by id."""
    suspended = [each for each in view.running.values() if each.suspended_us is not None and not each.held]
    if not suspended:
        return []
    stopped = {job_id for ids in _notes(view).values() for job_id in ids}
    may = [each for each in suspended if each.job.id not in stopped and not each.leaving]
    return sorted([each for each in may if not each.on_disk or view.may_resume(each)], key=lambda each: each.job.id)


def _resumptions(view: api.View) -> Iterator[api.Action]:
    """Yield the resumption of these; one may be in the way of another."""
    for each in _unclaimed(view):
        if not each.on_disk or view.may_resume(each):
            yield api.ResumeJob(each.job.id)


def _may_be_away(running: api.Running, view: api.View) -> bool:
    """Tell whether a job can go to disk, or stay there: not one that has come back this instant, and would have done so in vain."""
    if running.on_disk:
        return True
    if running.suspended_us is not None:
        return False
    if running.ready_us and running.ready_us - view.resume_costs.of_disk_us(running.job, running.runs) == view.now_us:
        return False
    nodes = view.nodes_by_job[running.job.id]
    return not nodes & ~api.any_layer(view.in_service) and fits_on_disk(Bundle([running], nodes), view)


def _threads_of(nodes: Iterable[api.NodeSet], view: api.View) -> api.Layers:
    """Return all threads of these nodes."""
    every = 0
    for some in nodes:
        every |= some
    return api.on_nodes(view.machine.exists, every)


def _with_one_job(view: api.View) -> api.NodeSet:
    """Return the nodes with exactly one job on them."""
    once = twice = 0
    for job_id, nodes in view.nodes_by_job.items():
        if not view.running[job_id].on_disk:
            twice |= once & nodes
            once |= nodes
    return api.NodeSet(once & ~twice)


def _facts(stopping: Stopping) -> dict[str, object]:
    """Return for a trace who stops for the job, and for how long at most."""
    hosts = stopping.shared.hosts
    return {
        "stopped": [
            {
                "job": host.running.job.id,
                "to_disk": host.running.job.id == stopping.on_disk,
                "for_us": host.end_us - stopping.shared.view.expected_end(host.running),
            }
            for host in hosts
        ]
    }
