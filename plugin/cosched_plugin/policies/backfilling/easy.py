"""Backfilling with no reservation for any job (`none`) and with one for the head of the queue (`easy`, `sjbf`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator
from operator import attrgetter
from typing import ClassVar, NamedTuple

from cosched_plugin import api
from cosched_plugin.policies.orders import Shortest
from cosched_plugin.policies.planning.reservation import (
    Reservation,
    backfill_seat,
    rejection,
    reserve,
    seat_now,
    start_in_order,
    take_seat,
)

# EASY by counting threads, for jobs in order of arrival that take any threads, each alone on its own: the case of long traces.
#
# The rule is that of `reservation.CountedReservation`; here it is computed with sums alone, and refused jobs are
# not re-examined until something that could help them changes. `easy` has the pass for all other cases, with the same decisions in
# this one.


class Counting:
    """Backfilling with one reservation, where the number of free threads decides which jobs fit.

    After a pass, every job that it examined is blocked until a running job ends. A job that was refused has ever less time before
    the shadow time. As long as no running job comes, goes or is late, the shadow time and the number of extra threads stay the same.
    So refused jobs stay refused, and only jobs that came since matter.
    """

    __slots__ = ("_candidates", "_changes", "_entered", "_extra", "_otherwise", "_shadow_us", "_version")

    def __init__(self, candidates: api.Order | None, otherwise: Callable[[api.Context], Iterator[api.Action]]) -> None:
        """``candidates`` orders the jobs that may overtake the first; None: in order of arrival.

        ``otherwise`` is the pass for a queue whose first job the nodes in service do not hold: then counting does not decide.
        """
        self._candidates = candidates
        self._otherwise = otherwise
        # A cache, the state after the last pass:
        self._version = -1  # of the view
        self._changes = -1  # of the queue
        self._entered = 0  # how often a job had come
        self._shadow_us = 0  # when the first job will start
        self._extra = 0  # extra threads then

    def starts(self, queue: api.Queue, context: api.Context) -> Iterator[api.Action]:
        """Return the starts of a pass over a queue that is not empty."""
        view = context.view
        free, now_us = view.free_threads, view.now_us
        # A running job that has outlived its estimate moves the shadow time with the present.
        if self._version == view.version and self._changes == queue.changes and view.releases[0][0] > now_us:
            new = view.arrived
            if len(new) == queue.entered - self._entered:
                found = api.short_or_narrow(new, free, self._shadow_us - now_us, self._extra)
                self._entered = queue.entered
                return self._overtake(found, free, self._shadow_us, self._extra, queue, context) if found else _NOTHING
        head = queue.first()
        shadow = view.shadow(head.processes) if head.processes > free else None
        if shadow is None:
            return self._in_order(queue, context)
        found = queue.fitting(free, shadow[0] - now_us, shadow[1]) if free else []
        if found:
            return self._overtake(found, free, *shadow, queue, context)
        self._remember(view, queue, *shadow)
        return _NOTHING

    def _remember(self, view: api.View, queue: api.Queue, shadow_us: int, extra: int) -> None:
        # Where the shadow time follows from the return of a node, there may be no release, and a late return moves it.
        self._version = -1 if view.returns else view.version
        self._changes, self._entered = queue.changes, queue.entered
        self._shadow_us, self._extra = shadow_us, extra

    def _in_order(self, queue: api.Queue, context: api.Context) -> Iterator[api.Action]:
        """Yield the starts of the first jobs, then those of the jobs that may overtake."""
        view, placement = context.view, context.placement
        while queue:
            head = queue.first()
            free = view.free_threads
            if head.processes > free:
                shadow = view.shadow(head.processes)
                if shadow is None:
                    yield from self._otherwise(context)
                    return
                found = queue.fitting(free, shadow[0] - view.now_us, shadow[1]) if free else []
                yield from self._overtake(found, free, *shadow, queue, context)
                return
            yield placement.start(head, view)

    def _overtake(
        self, found: list[api.JobSpec], free: int, shadow_us: int, extra: int, queue: api.Queue, context: api.Context
    ) -> Iterator[api.Action]:
        """Yield the starts of the jobs in ``found`` that leave the first job its start and its threads; ``free`` threads are."""
        view, placement = context.view, context.placement
        if self._candidates is not None and len(found) > 1:
            found = self._candidates.arrange(found, view)
        longest_us = shadow_us - view.now_us
        for job in found:
            processes = job.processes
            if processes > free:
                continue
            if job.estimate_us > longest_us:
                if processes > extra:
                    continue
                extra -= processes
            free -= processes
            yield placement.start(job, view)
            if not free:
                break
        self._remember(view, queue, shadow_us, extra)


_NOTHING: Iterator[api.Action] = iter(())
_processes = attrgetter("processes")
_Shape = tuple[object, ...]
_PPN_MIN, _PRIORITY = (api.JobSpec._fields.index(name) for name in ("ppn_min", "priority"))


class _Counts(api.Backfill):
    """A backfill with a pass of its own for the case in which the number of free threads tells which jobs fit."""

    provides = frozenset({api.COMPANY})

    def __init__(self) -> None:
        # A cache: a context, and the queue of its view where `_by_numbers`.
        self._context: api.Context | None = None
        self._queue: api.Queue | None = None

    def _counted(self, context: api.Context) -> api.Queue | None:
        """Return the queue where counting threads is enough for all of it; None where the general pass has to look."""
        if self._context is not context:
            self._context = context
            self._queue = context.view.whole_queue if _by_numbers(context) else None
        queue = self._queue
        return None if queue is None or queue.particular else queue


class NoBackfill(_Counts):
    """Start jobs in queue order until one does not fit."""

    def decide(self, context: api.Context) -> Iterator[api.Action]:
        """Return the starts of the jobs at the head of the queue that fit."""
        queue = None if context.view.work.limited else self._counted(context)
        if queue is None:
            return _in_order(context)
        return _counted_in_order(queue, context) if queue else _NOTHING


def _in_order(context: api.Context) -> Iterator[api.Action]:
    if context.view.queued:
        yield from start_in_order(context.over(context.arranged()))


def _counted_in_order(queue: api.Queue, context: api.Context) -> Iterator[api.Action]:
    view, placement = context.view, context.placement
    while queue:
        head = queue.first()
        if head.processes > view.free_threads:
            if placement.never(head, view):
                yield from _in_order(context)  # which rejects it
            return
        yield placement.start(head, view)


class Easy(_Counts):
    """One reservation, for the first job that cannot start; other jobs may start before it where that does not delay it.

    ``candidates`` orders these: None keeps queue order (EASY, Lifka 1995), shortest first is SJBF (Tsafrir et al. 2007).
    ``depth``: how many jobs from the head on are looked at (Slurm's bf_max_job_test); 0: all.
    """

    candidates: ClassVar[api.Order | None] = None

    def __init__(self, *, depth: int = 0) -> None:
        super().__init__()
        self._depth = depth
        self._counting = Counting(self.candidates, self._passes)

    def decide(self, context: api.Context) -> Iterator[api.Action]:
        """Return the starts at the head of the queue, then those of the jobs that may overtake the first blocked job."""
        queue = None if self._depth else self._counted(context)
        if queue is None:
            return self._passes(context)
        return self._counting.starts(queue, context) if queue else _NOTHING

    def _passes(self, context: api.Context) -> Iterator[api.Action]:
        nowhere: set[_Shape] = set()
        while context.view.queued and (yield from self._pass(context, nowhere)):
            pass

    def _pass(self, context: api.Context, nowhere: set[_Shape]) -> Generator[api.Action, None, bool]:
        """Yield the starts that one scan of the queue finds; tell whether a further scan may find more."""
        if context.matching.alone and not _any_fits(context.view):
            return False  # in any order
        blocked = yield from _start_until_blocked(context, self._depth or None)
        if isinstance(blocked, bool):
            return blocked
        context = context.over(blocked.pending)
        _tell_reservation(blocked, context)
        gate = _join_gate(blocked.reservation, context)
        join_candidates = context.matching.join_candidates(context, gate)
        if not (blocked.fitting or join_candidates):
            return blocked.more
        fitting = blocked.reservation.may_admit(blocked.fitting, context.view.free_threads)
        blocked = blocked._replace(fitting=fitting)
        others = self._arrange(_promising(blocked, join_candidates, context), context.view)
        more = yield from self._backfill(_Look(blocked, others, join_candidates, gate), context, nowhere)
        return more or blocked.more

    def _backfill(self, look: _Look, context: api.Context, nowhere: set[_Shape]) -> Generator[api.Action, None, bool]:
        """Yield the starts of candidates that do not delay the reserved job; tell whether a further scan may find more.

        ``nowhere``: the shapes of jobs without a place, which further starts of the decision do not give them.
        """
        view, matching, reservation = context.view, context.matching, look.blocked.reservation
        present = context  # without the jobs started since
        free = view.free_threads
        started: set[int] = set()
        # Tasks of an array are alike: where places follow from a job's shape, one is refused as the one before.
        alike = matching.alone and context.placement.counts and not view.work.limited and view.trace is None
        refused: dict[_Shape, int] = {}  # the least estimate of other refused jobs by their shape, since the last start
        place = 0
        while place < len(look.others):
            job = look.others[place]
            place += 1
            may_join = job.id in look.join_candidates
            if job.id in started or (job.processes > free and not may_join):
                continue
            if not view.work.pay(api.prices.CANDIDATE):
                break
            shape: _Shape = (job.processes, job[_PPN_MIN:_PRIORITY]) if alike else ()
            if shape in nowhere or (shape in refused and job.estimate_us >= refused[shape]):
                continue
            seat = backfill_seat(job, present, reservation, may_join=may_join)
            if isinstance(seat, bool):
                if alike and seat:
                    refused[shape] = job.estimate_us
                elif alike:
                    nowhere.add(shape)
                continue
            refused.clear()
            if look.gate is reservation and seat.sole is not None and matching.may_host(job):
                look = self._look_again(look, context)
                place = look.others.index(job) + 1
            yield from take_seat(seat, "backfill", view)
            started.update(seat.job_ids)
            present = context.over(present.pending.without(seat.job_ids))
            free = view.free_threads
        unseen = len(look.blocked.pending.jobs) > self._depth > 0  # jobs that move up where others have started
        return bool(started) and (unseen or _may_find_more(look, matching.settled and context.placement.settled(view)))

    def _look_again(self, look: _Look, context: api.Context) -> _Look:
        """Return the scan with all jobs that may join a running job: a job that could join none may join one just started."""
        join_candidates = context.matching.join_candidates(context, api.UNRESERVED)
        others = self._arrange(_candidates(look.blocked, join_candidates), context.view)
        return _Look(look.blocked, others, join_candidates, api.UNRESERVED)

    def _arrange(self, others: list[api.JobSpec], view: api.View) -> list[api.JobSpec]:
        return others if self.candidates is None else self.candidates.arrange(others, view)


class Sjbf(Easy):
    """EASY whose backfilled jobs are taken shortest estimate first."""

    candidates: ClassVar[api.Order | None] = Shortest()


class _Blocked(NamedTuple):
    """The queue when its first job is blocked."""

    pending: api.PendingJobs  # the first of them has the reservation
    behind: list[api.JobSpec]  # the others
    fitting: list[api.JobSpec]  # the jobs for which enough threads are free
    reservation: Reservation
    more: bool  # whether a job that no node in service holds alone may join one that has started


class _Look(NamedTuple):
    """The candidates for backfilling."""

    blocked: _Blocked
    others: list[api.JobSpec]  # in the order of examination
    join_candidates: Collection[int]  # those of them that `gate` lets join a running job
    gate: api.Gatekeeper


# A trace has to name what the general pass looks at, so there is no fast pass with one.
def _by_numbers(context: api.Context) -> bool:
    """Tell whether counting threads is enough: first come, first served, on any threads, each job alone."""
    view = context.view
    return (
        context.order.by_arrival
        and context.matching.alone
        and context.placement.counts
        and view.any_threads
        and view.counts
        and view.trace is None
    )


def _any_fits(view: api.View) -> bool:
    """Tell whether there are threads enough for some pending job, or a job can never start and must be rejected."""
    return not view.any_threads or any(map(view.free_threads.__ge__, map(_processes, view.queue)))


def _start_until_blocked(context: api.Context, depth: int | None) -> Generator[api.Action, None, _Blocked | bool]:
    """Yield starts in queue order until a job is blocked; return it with its reservation, and ``depth`` jobs in all.

    If no job may start before it, tell whether a further scan may find more (`_Blocked.more`).
    """
    view, matching = context.view, context.matching
    arranged = context.arranged()
    context = context.over(arranged)
    passed_over = 0
    reason = "order"
    while True:
        left = view.work.left
        pending = yield from start_in_order(context, reason)
        jobs = pending.jobs
        behind = jobs[1:depth]
        fitting = _fitting(jobs, depth, context)
        # A job that was passed over may join one behind it that has started since.
        more = passed_over > 0 and len(arranged.jobs) > passed_over + len(jobs) and matching.has_hosts(view)
        if not fitting and not (behind and matching.has_hosts(view)):
            return more
        reservation = reserve(jobs[0], context)
        if reservation is not None:
            return _Blocked(pending, behind, fitting, reservation, more)
        if not fitting and not matching.join_candidates(context.over(pending)):
            return more
        # The nodes in service cannot hold this job, so there is nothing to reserve. The next job becomes the head. The check
        # at this one is not charged to those behind it: else jobs that could start might never be looked at.
        view.work.refund(left)
        context = context.over(api.PendingJobs(behind))
        passed_over += 1
        reason = "overtake"


def _fitting(jobs: list[api.JobSpec], depth: int | None, context: api.Context) -> list[api.JobSpec]:
    """Return the jobs behind the first, of ``depth`` in all, for which enough threads are free."""
    view = context.view
    free, queue = view.free_threads, view.whole_queue
    if depth is None and context.order.by_arrival and queue is not None and len(queue) == len(jobs):
        found = queue.fitting(free, 0, free)  # in arrays, where the queue is long
        return found[1:] if found and found[0] is jobs[0] else found
    return [job for job in jobs[1:depth] if job.processes <= free]


def _tell_reservation(blocked: _Blocked, context: api.Context) -> None:
    """Record the reservation in the trace, where there are candidates that it may hold back."""
    view = context.view
    if view.trace is not None and (blocked.fitting or context.matching.join_candidates(context)):
        head = blocked.pending.jobs[0]
        view.tell("reserve", job=head.id, shadow_us=view.wall_us(blocked.reservation.shadow_us))


def _join_gate(reservation: Reservation, context: api.Context) -> api.Gatekeeper:
    """Return the gate for the search for jobs that may join a running one.

    A job that the reservation lets join no running job may still join one that starts in this pass (`Easy._look_again`). Where the
    work is limited, or not every job gets a look, the same jobs have to get one in either case.
    """
    return reservation if context.placement.counts and not context.view.work.limited else api.UNRESERVED


def _promising(blocked: _Blocked, join_candidates: Collection[int], context: api.Context) -> list[api.JobSpec]:
    """Return the candidates for which the placement may have a place."""
    others = _candidates(blocked, join_candidates)
    if context.placement.counts:
        return others
    return context.promising(others, blocked.reservation.with_head(api.snapshot_now(context.view)))


def _candidates(blocked: _Blocked, join_candidates: Collection[int]) -> list[api.JobSpec]:
    """Return the jobs that might start before the reserved one: on free nodes, or beside a running job."""
    if not join_candidates:
        return blocked.fitting
    may = {job.id for job in blocked.fitting}
    return [job for job in blocked.behind if job.id in may or job.id in join_candidates]


def _may_find_more(look: _Look, parts_settled: bool) -> bool:
    """Tell whether the starts may allow others: the head, or a job refused before, may have another place now."""
    return not (parts_settled and look.blocked.reservation.settled and all(map(api.is_plain, look.others)))


# Starting every pending job that has a place, in queue order, without a reservation for those that have none.


class Skip(api.Backfill):
    """Jobs start in queue order; one that has no place is passed over, however often: a large job may wait for long."""

    provides = frozenset({api.COMPANY})

    def decide(self, context: api.Context) -> Iterator[api.Action]:
        """Yield the starts of the pending jobs that have a place."""
        while context.view.queued and (yield from self._pass(context)):
            pass

    def _pass(self, context: api.Context) -> Generator[api.Action, None, bool]:
        """Yield the starts of one scan of the queue; tell whether there were any: another job may have a place now."""
        view, matching = context.view, context.matching
        pending = context.arranged()
        present = context.over(pending)
        gone: set[int] = set()
        reason = "order"
        by_count = matching.alone and view.any_threads  # on whole nodes, a job for which there are too few is rejected
        for job in pending.jobs:
            if job.id in gone:
                continue
            if by_count and job.processes > view.free_threads:
                reason = "skip"
                continue
            if not view.work.pay(api.prices.CANDIDATE):
                break
            seat = seat_now(job, present)
            if seat is not None:
                yield from take_seat(seat, reason, view)
                gone.update(seat.job_ids)
            elif context.placement.never(job, view):
                yield rejection(job, view)
                gone.add(job.id)
            else:
                reason = "skip"
                continue
            present = context.over(pending.without(gone))
        return bool(gone)
