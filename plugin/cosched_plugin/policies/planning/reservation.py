"""The one reservation of EASY-like backfilling: when the blocked head of the queue will start, and who may run before it.

Textbook EASY (Mu'alem and Feitelson): the reservation is recomputed at every event from the expected ends of the running jobs; a
job may be backfilled if it ends by the shadow time, or leaves the head enough threads at that time.
"""

from __future__ import annotations

from cosched_plugin.api import (
    Bools,
    Context,
    Floats,
    Ints,
    JobSpec,
    Layers,
    Offer,
    Placer,
    Seat,
    Snapshot,
    View,
    each_node,
    is_plain,
    short_or_narrow,
    size,
    snapshot_at,
    snapshot_now,
)


class CountedReservation:
    """For a head that needs nothing but enough threads: the shadow time and the number of extra threads then."""

    __slots__ = ("_extra", "_view", "shadow_us")
    settled = True  # where only numbers count, fewer free threads are no help to a job that was refused

    def __init__(self, view: View, shadow_us: int, extra: int) -> None:
        self._view = view
        self.shadow_us = shadow_us
        self._extra = extra

    def with_head(self, snapshot: Snapshot) -> Snapshot:
        """Return ``snapshot`` as it is: which threads the head will take is open."""
        return snapshot

    def may_admit(self, jobs: list[JobSpec], free: int) -> list[JobSpec]:
        """Return the jobs whose start now, on ``free`` threads, might be admitted: a quick look before places are sought for them."""
        return short_or_narrow(jobs, free, self.shadow_us - self._view.now_us, self._extra)

    def may_hold(self, since_us: int, until_us: int, threads: int) -> bool:
        """Tell whether so many threads, free from ``since_us`` on, might be held until ``until_us``: a quick look."""
        return until_us <= self.shadow_us or since_us > self.shadow_us or threads <= self._extra

    def may_hold_each(self, since_us: Ints, until_us: Floats, threads: Ints) -> Bools:
        """Tell the same of many."""
        return _free_or_spare(since_us, until_us, threads, self.shadow_us, self._extra)

    def admit(self, seat: Seat) -> bool:
        """Tell whether ``seat``, taken now, leaves the head its start; if so it is counted as taken."""
        if seat.end_us <= self.shadow_us:
            return True
        threads = seat.count_held(self.shadow_us, self._view)
        if threads > self._extra:
            return False
        self._extra -= threads
        return True

    def spare(self, snapshot: Snapshot) -> Snapshot | None:
        """Return None: no other threads would serve the head better."""
        return None


class PlacedReservation:
    """For any head and placement: the head's place at the shadow time, and the machine as it will be then."""

    __slots__ = ("_at_shadow", "_head", "_layers", "_placer", "_planned", "_shortens", "_view", "moved", "refused")

    def __init__(self, view: View, head: Offer, placer: Placer, *, shortens: bool = False) -> None:
        """``placer`` is asked for the head's place: the context of the pass, where that pays for it.

        ``shortens``: candidates may take less than their estimates, so that only a closer look will say which are admitted.
        """
        self.moved = False  # an admitted job will still be there at the shadow time, and the head goes elsewhere
        self.refused = False  # an offer was not admitted; other threads might have been
        self._view = view
        self._placer = placer
        self._shortens = shortens
        self._layers: Layers | None = None  # of the head, where they were asked for
        self._take(head)
        steps = view.availability()
        _, free = steps[steps.by(head.start_us) - 1]
        self._at_shadow = snapshot_at(view, head.start_us, free)

    @property
    def settled(self) -> bool:
        """Tell whether a job that did not start so far has no better chance for those that did."""
        return not self.moved and not self.refused

    @property
    def shadow_us(self) -> int:
        """Return when the head is to start."""
        return self._head.start_us

    @property
    def head(self) -> Offer:
        """Return the head's place."""
        return self._head

    def with_head(self, snapshot: Snapshot) -> Snapshot:
        """Return ``snapshot`` with the head among those who are to run."""
        return snapshot._replace(planned=snapshot.planned + self._planned)

    def spare(self, snapshot: Snapshot) -> Snapshot:
        """Return ``snapshot`` without the threads that the head is to get."""
        if self._layers is None:
            self._layers = self._view.claim(self._head.runs)
        return snapshot.without(self._layers)

    def may_admit(self, jobs: list[JobSpec], free: int) -> list[JobSpec]:
        """Return the jobs whose start now, on ``free`` threads, might be admitted: a quick look before places are sought for them."""
        if self._shortens:
            return [job for job in jobs if job.processes <= free]
        return short_or_narrow(jobs, free, self._head.start_us - self._view.now_us, self._extra())

    def may_hold(self, since_us: int, until_us: int, threads: int) -> bool:
        """Tell whether so many threads, free from ``since_us`` on, might be held until ``until_us``: a quick look."""
        return until_us <= self.shadow_us or since_us > self.shadow_us or threads <= self._extra() or self._shortens

    def may_hold_each(self, since_us: Ints, until_us: Floats, threads: Ints) -> Bools:
        """Tell the same of many."""
        return _free_or_spare(since_us, until_us, threads, self.shadow_us, self._extra())

    def admit(self, seat: Seat) -> bool:
        """Tell whether ``seat``, taken now, leaves the head a place at its shadow time; if so it is counted as taken."""
        held = seat.threads_held(self._head.start_us, self._view)
        if not any(held):
            return True
        at_shadow = self._at_shadow.without(held)
        sole = seat.sole
        beside = at_shadow if sole is None else self._beside(sole, at_shadow)
        head = self._placer.offer(self._head.job, beside)
        if head is None:
            self.refused = True
            return False
        self.moved = True
        self._at_shadow = at_shadow  # not with it planned: it starts now, and from then on the view tells of it
        self._take(head)
        return True

    def _beside(self, offer: Offer, at_shadow: Snapshot) -> Snapshot:
        """Return the snapshot for the head with ``offer`` there, its demand and its memory."""
        snapshot = at_shadow.with_planned(offer)
        if not (offer.job.memory_mb and self._head.job.memory_mb):
            return snapshot
        memory = list(snapshot.memory_for(self._head.job))
        for node, processes in each_node(offer.runs):
            memory[node] -= processes * offer.job.memory_mb
        return snapshot._replace(memory_mb=memory)

    def _extra(self) -> int:
        """Return how many more threads than the head needs are free at its start."""
        return size(self._at_shadow.free) - self._head.job.processes

    def _take(self, head: Offer) -> None:
        self._head = head
        self._layers = None
        self._planned = snapshot_now(self._view).with_planned(head).planned


def _free_or_spare(since_us: Ints, until_us: Floats, threads: Ints, shadow_us: int, extra: int) -> Bools:
    """Tell whether threads are not held at the shadow time, would not be free then anyway, or are left over by the head."""
    return (until_us <= shadow_us) | (since_us > shadow_us) | (threads <= extra)


Reservation = CountedReservation | PlacedReservation


def reserve(head: JobSpec, context: Context) -> Reservation | None:
    """Return the reservation of a job that cannot start now; None if it cannot start even when all running jobs have left."""
    view, placement = context.view, context.placement
    if placement.counts and view.counts and is_plain(head):
        shadow = view.shadow(head.processes)
        return None if shadow is None else CountedReservation(view, *shadow)
    offer = placement.earliest(head, view)
    return None if offer is None else PlacedReservation(view, offer, context, shortens=placement.shortens)
