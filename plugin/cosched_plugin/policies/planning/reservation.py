"""The one reservation of EASY-like backfilling: when the blocked head of the queue will start, and which jobs may start before it.

Textbook EASY (Mu'alem and Feitelson): the reservation is recomputed at every event from the expected ends of the running jobs; a
job may be backfilled if it ends by the shadow time, or leaves the head enough threads at that time.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from cosched_plugin import api


class CountedReservation:
    """The reservation of a head that needs only a number of threads: the shadow time and the number of extra threads then."""

    __slots__ = ("_extra", "_view", "reserved", "shadow_us")
    settled = True  # where only numbers count, fewer free threads do not help a refused job

    def __init__(self, view: api.View, head: api.JobSpec, shadow_us: int, extra: int) -> None:
        self._view = view
        self.reserved = head.id
        self.shadow_us = shadow_us
        self._extra = extra

    def with_head(self, snapshot: api.Snapshot) -> api.Snapshot:
        """Return ``snapshot`` as it is: the head's threads are not decided."""
        return snapshot

    def may_admit(self, jobs: list[api.JobSpec], free: int) -> list[api.JobSpec]:
        """Quick check before the search for places: return the jobs whose start now, on ``free`` threads, might be admitted."""
        return api.short_or_narrow(jobs, free, self.shadow_us - self._view.now_us, self._extra)

    def may_hold(self, since_us: int, until_us: int, threads: int) -> bool:
        """Quick check: tell whether ``threads`` threads, free from ``since_us`` on, might be held until ``until_us``."""
        return until_us <= self.shadow_us or since_us > self.shadow_us or threads <= self._extra

    def may_hold_each(self, since_us: api.Ints, until_us: api.Floats, threads: api.Ints) -> api.Bools:
        """Return what `may_hold` returns, for each of many."""
        return _free_or_spare(since_us, until_us, threads, self.shadow_us, self._extra)

    # A seat that was admitted must be taken: its threads count as gone from here on.
    def admit(self, seat: api.Seat) -> bool:
        """Tell whether ``seat``, taken now, leaves the head its start; if so it is counted as taken."""
        if seat.end_us <= self.shadow_us:
            return True
        threads = seat.count_held(self.shadow_us, self._view)
        if threads > self._extra:
            return False
        self._extra -= threads
        return True

    def spare(self, snapshot: api.Snapshot) -> api.Snapshot | None:
        """Return None: no other threads would serve the head better."""
        return None


class PlacedReservation:
    """The reservation of any head under any placement: its place at the shadow time, and the machine as it will be then."""

    __slots__ = (
        "_at_shadow",
        "_layers",
        "_placer",
        "_planned",
        "_shortens",
        "_spare",
        "_view",
        "head",
        "moved",
        "refused",
    )

    def __init__(self, view: api.View, head: api.Offer, placer: api.Placer, *, shortens: bool = False) -> None:
        """``placer`` is asked for the head's place: the context of the pass, where the search must be paid for.

        ``shortens``: candidates may take less than their estimates, so only `admit` decides.
        """
        self.moved = False  # an admitted job will still be there at the shadow time, and the head goes elsewhere
        self.refused = False  # an offer was not admitted, but other threads might be
        self._view = view
        self._placer = placer
        self._shortens = shortens
        self._layers: api.Layers | None = None  # of the head, once computed
        self._take(head)
        steps = view.availability()
        _, free = steps[steps.by(head.start_us) - 1]
        self._at_shadow = api.snapshot_at(view, head.start_us, free)
        self._spare: int | None = None  # see `_extra`

    @property
    def settled(self) -> bool:
        """Tell whether the starts so far cannot help a job that did not start."""
        return not self.moved and not self.refused

    @property
    def reserved(self) -> int:
        """Return the head."""
        return self.head.job.id

    @property
    def shadow_us(self) -> int:
        """Return the shadow time: when the head will start."""
        return self.head.start_us

    def with_head(self, snapshot: api.Snapshot) -> api.Snapshot:
        """Return ``snapshot`` with the head among the planned jobs."""
        planned = snapshot.planned + self._planned
        # `_replace` takes five times as long
        return tuple.__new__(api.Snapshot, (*snapshot[:3], planned, *snapshot[4:]))

    def spare(self, snapshot: api.Snapshot) -> api.Snapshot:
        """Return ``snapshot`` without the threads reserved for the head."""
        if self._layers is None:
            self._layers = self._view.claim(self.head.runs)
        return snapshot.without(self._layers)

    def may_admit(self, jobs: list[api.JobSpec], free: int) -> list[api.JobSpec]:
        """Quick check before the search for places: return the jobs whose start now, on ``free`` threads, might be admitted."""
        if self._shortens:
            return [job for job in jobs if job.processes <= free]
        return api.short_or_narrow(jobs, free, self.head.start_us - self._view.now_us, self._extra())

    def may_hold(self, since_us: int, until_us: int, threads: int) -> bool:
        """Quick check: tell whether ``threads`` threads, free from ``since_us`` on, might be held until ``until_us``."""
        return until_us <= self.shadow_us or since_us > self.shadow_us or threads <= self._extra() or self._shortens

    def may_hold_each(self, since_us: api.Ints, until_us: api.Floats, threads: api.Ints) -> api.Bools:
        """Return what `may_hold` returns, for each of many."""
        may = _free_or_spare(since_us, until_us, threads, self.shadow_us, self._extra())
        return may | self._shortens

    def admit(self, seat: api.Seat) -> bool:
        """Tell whether ``seat``, taken now, leaves the head a place at its shadow time; if so it is counted as taken."""
        held = seat.threads_held(self.head.start_us, self._view)
        # A guest may hold a licence for longer than its host would hold the threads.
        if not any(held) and not (self.head.job.licences and seat.end_us > self.head.start_us):
            return True
        at_shadow = self._at_shadow.without(held) if held else self._at_shadow
        head = self._placer.offer(self.head.job, self._beside(seat, at_shadow))
        if head is None:
            self.refused = True
            return False
        self.moved = True
        # Without it among the planned jobs: it starts now, and the view will include it.
        self._at_shadow, self._spare = at_shadow, None
        self._take(head)
        return True

    def _beside(self, seat: api.Seat, at_shadow: api.Snapshot) -> api.Snapshot:
        """Return the snapshot for the head with ``seat`` there: the demand and the memory of its job, and what it takes of amounts.

        The head shares no node with jobs that are co-located, so their demand and memory do not matter to it; their licences do.
        """
        sole, head = seat.sole, self.head.job
        if sole is not None:
            at_shadow = at_shadow.with_planned(sole)
            if sole.job.memory_mb and head.memory_mb:
                memory = list(at_shadow.memory_for(head))
                for node, processes in api.each_node(sole.runs):
                    memory[node] -= processes * sole.job.memory_mb
                at_shadow = at_shadow._replace(memory_mb=memory)
        if not (head.resources or head.licences):
            return at_shadow
        return at_shadow._replace(counts=self._counts_beside(seat))

    def _counts_beside(self, seat: api.Seat) -> api.Counts:
        """Return what is left of countable resources at the shadow time once ``seat`` is taken."""
        view, shadow_us = self._view, self.head.start_us
        counts = view.counts_at(shadow_us).copy()
        for end_us, job_id, nodes in seat.occupancies:
            running = view.running.get(job_id)  # a host: what it takes is gone already, unless it stays for longer now
            if end_us > shadow_us and (running is None or view.expected_end(running) <= shadow_us):
                job = view.pending(job_id) if running is None else running.job
                if job is not None:
                    counts.count(job, [api.Run(node, 1, api.ThreadMask(1), 1) for node in api.bits_of(nodes)], -1)
        return counts

    def _extra(self) -> int:
        """Return how many more threads than the head needs are free at its start; counted once, where it is asked for."""
        if self._spare is None:
            self._spare = api.size(self._at_shadow.free) - self.head.job.processes
        return self._spare

    def _take(self, head: api.Offer) -> None:
        self.head = head
        self._layers = None
        self._planned = api.snapshot_now(self._view).with_planned(head).planned


def _free_or_spare(
    since_us: api.Ints, until_us: api.Floats, threads: api.Ints, shadow_us: int, extra: int
) -> api.Bools:
    """Tell whether threads are released by the shadow time, would not be free then anyway, or are extra to the head's."""
    return (until_us <= shadow_us) | (since_us > shadow_us) | (threads <= extra)


Reservation = CountedReservation | PlacedReservation


def reserve(head: api.JobSpec, context: api.Context) -> Reservation | None:
    """Return the reservation of a job that cannot start now; None if it cannot start even when all running jobs have ended."""
    view, placement = context.view, context.placement
    if placement.counts and view.counts and api.is_plain(head):
        shadow = view.shadow(head.processes)
        return None if shadow is None else CountedReservation(view, head, *shadow)
    offer = placement.earliest(head, view)
    return None if offer is None else PlacedReservation(view, offer, context, shortens=placement.shortens)


# The two ways in which a pass starts pending jobs: in queue order, and before a job that has a reservation.


def rejection(job: api.JobSpec, view: api.View) -> api.RejectJob:
    """Return the rejection of a job that has no place on the empty machine."""
    where = "have a place" if api.nodes_view(view) is None else "fit when each node is one job's alone"
    return api.RejectJob(job.id, f"{job.processes} processes wanted, more than {where}")


def seat_now(job: api.JobSpec, context: api.Context) -> api.Seat | None:
    """Return a seat for ``job`` now, where no other job has a reservation."""
    view, matching = context.view, context.matching
    offer = context.offer(job, api.snapshot_now(view)) if job.processes <= view.free_threads else None
    return (
        matching.join(job, context, api.UNRESERVED) if offer is None else matching.seat(offer, context, api.UNRESERVED)
    )


def start_in_order(context: api.Context, reason: str = "order") -> Generator[api.Action, None, api.PendingJobs]:
    """Yield the starts of the first pending jobs, until one has no place now; return that job and the jobs behind it."""
    view, matching, pending = context.view, context.matching, context.pending
    jobs = pending.jobs
    gone = 0  # started ones of `jobs`, where the matching examines only the job in question: copies of a long queue are slow
    while gone < len(jobs):
        job = jobs[gone]
        seat = seat_now(job, context)
        if seat is not None:
            yield from take_seat(seat, reason, view)
        elif context.placement.never(job, view):
            yield rejection(job, view)
        else:
            break
        if matching.settled:
            gone += 1
            continue
        gone_ids = () if seat is None else seat.job_ids
        pending = pending.without(gone_ids) if len(gone_ids) > 1 else api.PendingJobs(jobs[1:])
        context = context.over(pending)
        jobs = pending.jobs
    return api.PendingJobs(jobs[gone:]) if gone else pending


def backfill_seat(
    job: api.JobSpec, context: api.Context, reservation: Reservation, *, may_join: bool
) -> api.Seat | bool:
    """Return a seat for ``job`` now that does not delay the reservation; ``may_join``: it might join a running job.

    Without one, tell whether a like job with a shorter estimate might have one: where no threads suit, none has.
    """
    view, matching = context.view, context.matching
    now_us = view.now_us
    offer = None
    asked = False
    if job.processes <= view.free_threads and reservation.may_hold(now_us, now_us + job.estimate_us, job.processes):
        asked = True
        snapshot = reservation.with_head(api.snapshot_now(view))
        offer = context.offer(job, snapshot)
        if offer is not None:
            seat = matching.seat(offer, context, reservation)
            elsewhere = reservation.spare(snapshot) if seat is None else None
            other = None if elsewhere is None else context.offer(job, elsewhere)
            if other is not None:
                seat = matching.seat(other, context, reservation)
            if seat is not None:
                return seat
    joined = matching.join(job, context, reservation) if may_join else None
    return (offer is not None or not asked) if joined is None else joined


def take_seat(seat: api.Seat, reason: str, view: api.View, **facts: object) -> Iterator[api.Action]:
    """Yield the decisions that take a seat, and record why; ``facts`` are further fields for a trace."""
    if view.trace is not None:
        for job_id in seat.job_ids:
            free = _open_threads(job_id, view)
            view.trace.explain(job_id, reason=reason, free_threads=free, waiting=view.queued, **facts)
    yield from seat.decisions


def _open_threads(job_id: int, view: api.View) -> int:
    """Return how many free threads a pending job may have, by its nodes and by what they and the cluster have left."""
    job = view.pending(job_id)
    nodes = None if job is None else view.open_nodes(job)
    return view.free_threads if nodes is None else api.size(api.on_nodes(view.free, nodes))
