"""Two jobs on the same nodes: where each runs, until when, and the notes about them.

A pair starts together, or a newcomer joins a running job (its host). Both then progress at 1/slowdown until the first of them
ends; the other goes on alone. The work that each has left, as believed, is a note; `pair_monitor` acts on it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from cosched_hwmodel.units import NodeSet, round_up_us
from cosched_plugin.common.allocation import Layers, layers_of, minus, size
from cosched_plugin.core.first_fit import any_layer, first_fit
from cosched_plugin.core.running import Running
from cosched_plugin.core.views.view import View
from cosched_plugin.core.views.whole_nodes import Occupancy
from cosched_plugin.parts.colocated.seating import Seating, SeatOf, choose_seat, worst_resource
from cosched_plugin.parts.matching import Context
from cosched_plugin.parts.offers import Offer, nodes_of, snapshot_now
from cosched_plugin.parts.seats import Gate
from cosched_plugin.protocol.messages import (
    Action,
    JobSpec,
    ReviseJob,
    Run,
    SetNote,
    StartTogether,
)

NOTE: Final = "pace"
_PACE: Final = [int, int, int, float]


class Pace(NamedTuple):
    """What is believed of a running job that shares its nodes."""

    partner: int
    progress_us: int  # time of progress when this was written
    left_us: int  # work left then, in run time alone
    slowdown: float  # from then on, while the partner is there

    def left_after(self, progress_us: int, slowdown: float) -> int:
        """Return the work left after a time of progress at a slowdown; at least a microsecond."""
        return max(1, round_up_us(self.left_us - (progress_us - self.progress_us) / slowdown))


class Work(NamedTuple):
    """A job, and what is left of it at present."""

    job_id: int
    left_us: int
    progress_us: int = 0  # time of progress so far


def spans_together(one_us: int, other_us: int, slowdown: float) -> tuple[int, int]:
    """Return when each of two jobs that begin together ends: both run at 1/slowdown until the first ends, then the other alone."""
    both_us = min(one_us, other_us) * slowdown
    alone_us = abs(one_us - other_us)
    first, second = round_up_us(both_us), round_up_us(both_us + alone_us)
    return (first, second) if one_us <= other_us else (second, first)


class Pair(NamedTuple):
    """Two pending jobs that start together, the guest on the other hardware threads of (some of) the host's nodes."""

    host: Offer
    guest: Offer
    slowdown: float
    host_work_us: int  # run time of each alone, on its nodes
    guest_work_us: int

    @property
    def sole(self) -> None:
        """Return None: the job is co-located."""
        return

    @property
    def job_ids(self) -> tuple[int, ...]:
        """Return both jobs."""
        return (self.host.job.id, self.guest.job.id)

    @property
    def end_us(self) -> int:
        """Return the later of the two expected ends."""
        return max(self.host.end_us, self.guest.end_us)

    @property
    def decisions(self) -> tuple[Action, ...]:
        """Return the start of both, and their notes."""
        host, guest = self.host.job, self.guest.job
        return (
            StartTogether((self.host.start(), self.guest.start())),
            *paces(Work(host.id, self.host_work_us), Work(guest.id, self.guest_work_us), self.slowdown),
        )

    @property
    def occupancies(self) -> tuple[Occupancy, ...]:
        """Return both jobs on their nodes."""
        return (*self.host.occupancies, *self.guest.occupancies)

    def threads_held(self, at_us: int, view: View) -> Layers:
        """Return the threads that the two still hold at ``at_us``: whole nodes; the guest is on nodes of the host only."""
        return self.host.threads_held(at_us, view) or self.guest.threads_held(at_us, view)

    def count_held(self, at_us: int, view: View) -> int:
        """Return how many threads these are."""
        return size(self.threads_held(at_us, view))


class Guest(NamedTuple):
    """A pending job that joins a running one."""

    host: Running
    guest: Offer
    slowdown: float
    left_us: int  # work left of the host
    host_span_us: int  # time left of the host, beside the guest
    progress_us: int  # time of progress of the host so far
    guest_work_us: int  # run time of the guest alone, on its nodes

    @property
    def sole(self) -> None:
        """Return None: the job is co-located."""
        return

    @property
    def job_ids(self) -> tuple[int, ...]:
        """Return the one job that starts."""
        return (self.guest.job.id,)

    @property
    def end_us(self) -> int:
        """Return the later of the two expected ends."""
        return max(self.guest.end_us, self.guest.start_us + self.host_span_us)

    @property
    def decisions(self) -> tuple[Action, ...]:
        """Return the start of the guest, the host's new expected end, and their notes."""
        now_us, host, guest = self.guest.start_us, self.host, self.guest.job
        longer_us = self.host_span_us - self.left_us
        limit_us = None if host.limit_us is None else host.limit_us + longer_us
        return (
            self.guest.start(),
            ReviseJob(host.job.id, now_us + self.host_span_us - host.start_us, limit_us),
            *paces(
                Work(host.job.id, self.left_us, self.progress_us), Work(guest.id, self.guest_work_us), self.slowdown
            ),
        )

    @property
    def occupancies(self) -> tuple[Occupancy, ...]:
        """Return the guest and its host on their nodes."""
        host = Occupancy(self.guest.start_us + self.host_span_us, self.host.job.id, nodes_of(self.host.runs))
        return (host, *self.guest.occupancies)

    def threads_held(self, at_us: int, view: View) -> Layers:
        """Return the threads that one of the two holds at ``at_us`` and that would be free if the host stayed alone."""
        if view.expected_end(self.host) > at_us:
            return ()
        if self.guest.start_us + self.host_span_us > at_us:
            return view.claim(self.host.runs)
        return self.guest.threads_held(at_us, view)

    def count_held(self, at_us: int, view: View) -> int:
        """Return how many threads these are."""
        return size(self.threads_held(at_us, view))


def pair_up(
    host: Offer, guest: JobSpec, slowdown: float, context: Context, gate: Gate, most: float | None = None
) -> Pair | None:
    """Return ``host`` with a partner beside it, admitted; None where the partner has no place there, or the gate refuses.

    With ``most``, the largest slowdown allowed, the partner gets the best threads where the site's belief tells threads apart;
    ``slowdown`` is then replaced by the one on these threads.
    """
    view = context.view
    now_us = view.now_us
    if not _may_hold((now_us, host.run_us, host.job.processes), (now_us, guest), slowdown, view, gate):
        return None
    runs = beside(host.job, host.runs, guest, view)
    if runs is None:
        return None
    seating = _seating(SeatOf(host.job, host.runs), SeatOf(guest, runs), view, most, starting=True)
    if seating is not None:
        runs, slowdown = seating.runs, seating.slowdown
        if most is not None and slowdown > most:
            return None
    alone = context.placement.offer_on(guest, runs, snapshot_now(view))
    host_us, guest_us = spans_together(host.run_us, alone.run_us, slowdown)
    pair = Pair(
        _offer_with_partner(host, host_us), _offer_with_partner(alone, guest_us), slowdown, host.run_us, alone.run_us
    )
    if not gate.admit(pair):
        return None
    view.explain(host.job.id, slowdown=slowdown)
    view.explain(guest.id, lambda: _why(host.job, guest, seating, view), host=host.job.id, slowdown=slowdown)
    return pair


def join_host(
    host: Running, guest: JobSpec, slowdown: float, context: Context, gate: Gate, most: float | None = None
) -> Guest | None:
    """Return ``guest`` on the nodes of a job that runs there alone, admitted; None where it has no place, or the gate refuses.

    ``most``: as in `pair_up`.
    """
    view = context.view
    if partner_of(host.job.id, view) is not None:
        return None  # it has a partner already: the note of a pair names two jobs
    end_us = view.expected_end(host)
    left_us = end_us - view.now_us
    if not _may_hold((end_us, left_us, host.job.processes), (end_us, guest), slowdown, view, gate):
        return None
    runs = beside(None, host.runs, guest, view)
    if runs is None:
        return None
    seating = _seating(SeatOf(host.job, host.runs), SeatOf(guest, runs), view, most, starting=False)
    if seating is not None:
        runs, slowdown = seating.runs, seating.slowdown
        if most is not None and slowdown > most:
            return None
    alone = context.placement.offer_on(guest, runs, snapshot_now(view))
    host_us, guest_us = spans_together(left_us, alone.run_us, slowdown)
    seat = Guest(
        host, _offer_with_partner(alone, guest_us), slowdown, left_us, host_us, view.progress_us(host), alone.run_us
    )
    if not gate.admit(seat):
        return None
    view.explain(guest.id, lambda: _why(host.job, guest, seating, view), host=host.job.id, slowdown=slowdown)
    return seat


def _seating(host: SeatOf, guest: SeatOf, view: View, most: float | None, *, starting: bool) -> Seating | None:
    """Return the guest's best threads; None where threads are not compared."""
    model = view.pairs
    if most is None or model is None or not model.by_seat:
        return None
    return choose_seat(host, guest, model, view, starting=starting)


def _why(host: JobSpec, guest: JobSpec, seating: Seating | None, view: View) -> dict[str, object]:
    """Return the facts for a decision trace about the guest's threads, and about the resource that costs the pair most."""
    facts: dict[str, object] = {}
    if view.pairs is not None and (resource := worst_resource(host, guest, view.pairs)):
        facts["resource"] = resource
    if seating is not None:
        facts["seat"] = {"chosen": seating.name, "compared": seating.compared}
    return facts


def _may_hold(host: tuple[int, int, int], guest: tuple[int, JobSpec], slowdown: float, view: View, gate: Gate) -> bool:
    """Quick check: tell whether the gate may admit both, by the guest's estimate, before the guest has a place.

    ``host`` is (instant from which its threads would be free without the pair, its work left, its processes); ``guest`` is (such an
    instant, the job).
    """
    host_us, guest_us = spans_together(host[1], guest[1].estimate_us, slowdown)
    now_us = view.now_us
    return gate.may_hold(host[0], now_us + host_us, host[2]) and gate.may_hold(
        guest[0], now_us + guest_us, guest[1].processes
    )


def beside(starting: JobSpec | None, runs: tuple[Run, ...], guest: JobSpec, view: View) -> tuple[Run, ...] | None:
    """Return the other hardware threads of the cores of ``runs`` for ``guest``, or None if they do not hold it.

    ``starting`` is the job on ``runs`` if it only starts now, and so is not counted yet in what is free.
    """
    machine = view.machine
    threads = layers_of(runs, machine.depth)
    nodes = any_layer(threads)
    if not any(minus(threads, machine.first_threads)):
        others = machine.second_threads
    elif not any(minus(threads, machine.second_threads)):
        others = machine.first_threads
    else:
        return None  # on both threads of some core: no thread is left for a partner
    open_ = tuple([NodeSet(layer & free & nodes) for layer, free in zip(others, view.all_free, strict=True)])
    memory = view.free_memory_mb
    if starting is not None and starting.memory_mb and guest.memory_mb:
        memory = list(memory)
        for first, count, _, processes in runs:
            for node in range(first, first + count):
                memory[node] -= processes * starting.memory_mb
    return first_fit(guest, open_, machine, memory)


def _offer_with_partner(alone: Offer, span_us: int) -> Offer:
    """Return the job with its run time beside its partner; its limit grows by the time that the partner costs."""
    job = alone.job
    limit_us = None if alone.limit_us is None else alone.limit_us + span_us - alone.run_us
    return Offer(job, alone.start_us, alone.runs, span_us / job.estimate_us, span_us, limit_us)


def paces(one: Work, other: Work, slowdown: float) -> tuple[SetNote, SetNote]:
    """Return the notes of a pair."""
    return (
        SetNote(one.job_id, NOTE, tuple(Pace(other.job_id, one.progress_us, one.left_us, slowdown))),
        SetNote(other.job_id, NOTE, tuple(Pace(one.job_id, other.progress_us, other.left_us, slowdown))),
    )


def pace_of(job_id: int, view: View) -> Pace | None:
    """Return the note of a job that shares its nodes."""
    note = view.note(job_id, NOTE)
    if type(note) is tuple and list(map(type, note)) == _PACE:
        return Pace(*note)  # type: ignore[arg-type]
    return None


def partner_of(job_id: int, view: View) -> int | None:
    """Return the running job that shares the nodes of a running job as its partner; None if there is none."""
    pace = pace_of(job_id, view)
    return pace.partner if pace is not None and pace.partner in view.running else None
