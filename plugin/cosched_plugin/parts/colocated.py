"""Jobs that share nodes: their hardware threads, how one joins another, and when both are expected to end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from cosched_hwmodel.composite.node_classes import shape_of
from cosched_hwmodel.pairs import PairModel
from cosched_hwmodel.topology import NodeShape
from cosched_hwmodel.units import WHOLE_PPM, ThreadMask, round_up_us
from cosched_plugin.common.allocation import both_amounts
from cosched_plugin.common.threads import (
    Layers,
    bits_of,
    common,
    each_mask,
    layers_of,
    nodes_of,
    share_nodes,
    size,
    thread_mask,
)
from cosched_plugin.core.first_fit import first_fit, runs_from
from cosched_plugin.core.views.view import View
from cosched_plugin.core.views.whole_nodes import Occupancy, other_threads
from cosched_plugin.ledger.running import Running
from cosched_plugin.parts.kinds import Context
from cosched_plugin.parts.offers import Gate, Offer, snapshot_now
from cosched_plugin.protocol import messages as m

# Which hardware threads of its host's nodes a co-located job gets, where the site's belief tells threads apart.
#
# A few seats are compared, each a preference among the free threads of a node: the same cores as the host (always the
# case under other beliefs), cores that the host leaves idle, and sockets with the fewest of its threads. The number of
# processes on each node is the same for all of them.

SAME_CORES: Final = "same cores"
OTHER_CORES: Final = "other cores"
OTHER_SOCKETS: Final = "other sockets"

_Preference: TypeAlias = Callable[["_OnNode", int], tuple[int, ...]]


class SeatOf(NamedTuple):
    """A job and its threads."""

    job: m.JobSpec  # the job
    runs: tuple[m.Run, ...]  # its nodes and threads


class Seating(NamedTuple):
    """The chosen threads of a co-located job."""

    runs: tuple[m.Run, ...]
    slowdown: float  # the larger of the two, on the worst node
    name: str
    compared: dict[str, float]  # slowdown by seat, of those that differ


class _OnNode(NamedTuple):
    """The host's threads on a node of this kind."""

    node: m.NodeClass
    host: ThreadMask

    def core(self, thread: int) -> int:
        """Return the core of a thread."""
        return thread % (self.node.cores)

    def on_core(self, thread: int) -> int:
        """Return how many threads of a thread's core the host holds."""
        core = self.core(thread)
        return sum([self.core(held) == core for held in bits_of(self.host)])

    def on_socket(self, thread: int) -> int:
        """Return how many threads of a thread's socket the host holds."""
        socket = self.core(thread) // self.node.cores_per_socket
        return sum([self.core(held) // self.node.cores_per_socket == socket for held in bits_of(self.host)])


# Threads with the least value first, the lowest of equal ones.
_PREFERENCES: Final[tuple[tuple[str, _Preference], ...]] = (
    (OTHER_CORES, lambda there, thread: (there.on_core(thread), thread)),
    (OTHER_SOCKETS, lambda there, thread: (there.on_socket(thread), there.on_core(thread), thread)),
)


def choose_seat(host: SeatOf, guest: SeatOf, model: PairModel, view: View, *, starting: bool) -> Seating:
    """Return the seat of ``guest`` beside ``host`` with the least slowdown, the first of equal ones.

    The guest's runs are those on the host's cores; ``starting``: the host only starts now, so its threads count as free.
    """
    on_nodes = list(_nodes(host, guest, view))
    seats = {guest.runs: SAME_CORES}
    for name, preference in _PREFERENCES:
        placed = []
        for node, there, mask, processes in on_nodes:
            free = ThreadMask(thread_mask(view.all_free, node) & ~(there.host if starting else 0))
            order = sorted(bits_of(free), key=lambda thread, there=there, rank=preference: rank(there, thread))  # type: ignore[misc]
            placed.append((node, ThreadMask(sum([1 << thread for thread in order[: mask.bit_count()]])), processes))
        seats.setdefault(runs_from(placed), name)
    slowdowns = {runs: max(slowdowns_on(host, SeatOf(guest.job, runs), model, view)) for runs in seats}
    best = min(slowdowns, key=slowdowns.__getitem__)
    return Seating(best, slowdowns[best], seats[best], {name: slowdowns[runs] for runs, name in seats.items()})


def _nodes(host: SeatOf, guest: SeatOf, view: View) -> Iterator[tuple[int, _OnNode, ThreadMask, int]]:
    """Yield for each node of the guest: its number, the host there, the guest's threads and processes."""
    held = dict(each_mask(host.runs))
    classes = _class_of_nodes(view)
    for first, count, mask, processes in guest.runs:
        for node in range(first, first + count):
            yield node, _OnNode(view.machine.classes[classes[node]], held[node]), mask, processes


def slowdowns_on(one: SeatOf, other: SeatOf, model: PairModel, view: View) -> tuple[float, float]:
    """Return the slowdown of each of two jobs by the other one, each on the worst node that they share; 1 where they share none."""
    held = dict(each_mask(one.runs))
    classes = _class_of_nodes(view)
    kinds = _kinds(view.machine.classes)
    threads = (one.job.threads_per_process, other.job.threads_per_process)
    there = {(held[node], mask, kinds[classes[node]]) for node, mask in each_mask(other.runs) if node in held}
    slowdowns = [
        (
            model.slowdown_on(one.job, own, other.job, its, kind=kind, threads=threads),
            model.slowdown_on(other.job, its, one.job, own, kind=kind, threads=threads[::-1]),
        )
        for own, its, kind in there
    ]
    return max([first for first, _ in slowdowns], default=1.0), max([second for _, second in slowdowns], default=1.0)


def _class_of_nodes(view: View) -> list[int]:
    """Return the number of each node's class."""
    return [place for place, item in enumerate(view.machine.classes) for _ in range(item.nodes)]


def _kinds(classes: Sequence[m.NodeClass]) -> list[int]:
    """Return for each class the place of its shape among the different ones, as models count them."""
    shapes: dict[NodeShape, int] = {}
    return [shapes.setdefault(shape_of(item), len(shapes)) for item in classes]


def may_meet(job: m.JobSpec, model: PairModel | None) -> bool:
    """Tell whether a job may share cores, or a node by halves: it is no `unpaired` one, and the model knows it."""
    return model is not None and not job.unpaired and model.knows(job)


def worst_resource(job: m.JobSpec, other: m.JobSpec, model: PairModel) -> str | None:
    """Return the resource that adds most to the larger slowdown of two jobs; None if the model does not say."""
    sides = [model.parts(job, other), model.parts(other, job)]
    parts = max(sides, key=lambda side: sum([penalty for _, penalty in side]))
    name, penalty = max(parts, key=lambda part: part[1], default=("", 0.0))
    return name if penalty > 0.0 else None


# Two jobs on the same nodes: where each runs, until when, and the notes about them.
#
# A pair starts together, or a newcomer joins a running job (its host). Both then progress at 1/slowdown until the first of them
# ends; the other goes on alone. The work that each has left, as believed, is a note; `pair_monitor` acts on it.

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

    host: Offer  # the job that has the nodes
    guest: Offer  # the job beside it
    slowdown: float  # of both, while both run
    host_work_us: int  # span: run time of the host alone on its nodes
    guest_work_us: int  # span: run time of the guest alone on its nodes

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
    def decisions(self) -> tuple[m.Action, ...]:
        """Return the start of both, and their notes."""
        host, guest = self.host.job, self.guest.job
        return (
            m.StartTogether((self.host.start(), self.guest.start())),
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

    host: Running  # the running job
    guest: Offer  # the job that joins it
    slowdown: float  # of both, while both run
    left_us: int  # span: run time alone that the host has left
    host_span_us: int  # span: time that the host has left beside the guest
    progress_us: int  # span in which the host has made progress so far
    guest_work_us: int  # span: run time of the guest alone on its nodes

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
    def decisions(self) -> tuple[m.Action, ...]:
        """Return the start of the guest, the host's new expected end, and their notes."""
        now_us, host, guest = self.guest.start_us, self.host, self.guest.job
        longer_us = self.host_span_us - self.left_us
        limit_us = None if host.limit_us is None else host.limit_us + longer_us
        return (
            self.guest.start(),
            m.ReviseJob(host.job.id, now_us + self.host_span_us - host.start_us, limit_us),
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
    host: Offer, guest: m.JobSpec, slowdown: float, context: Context, gate: Gate, most: float | None = None
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
    pair = Pair(slowed(host, host_us), slowed(alone, guest_us), slowdown, host.run_us, alone.run_us)
    if not gate.admit(pair):
        return None
    view.explain(host.job.id, slowdown=slowdown)
    view.explain(guest.id, lambda: _why(host.job, guest, seating, view), host=host.job.id, slowdown=slowdown)
    return pair


def join_host(
    host: Running, guest: m.JobSpec, slowdown: float, context: Context, gate: Gate, most: float | None = None
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
    seat = Guest(host, slowed(alone, guest_us), slowdown, left_us, host_us, view.progress_us(host), alone.run_us)
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


def _why(host: m.JobSpec, guest: m.JobSpec, seating: Seating | None, view: View) -> dict[str, object]:
    """Return the facts for a decision trace about the guest's threads, and about the resource that costs the pair most."""
    facts: dict[str, object] = {}
    if view.pairs is not None and (resource := worst_resource(host, guest, view.pairs)):
        facts["resource"] = resource
    if seating is not None:
        facts["seat"] = {"chosen": seating.name, "compared": seating.compared}
    return facts


def _may_hold(
    host: tuple[int, int, int], guest: tuple[int, m.JobSpec], slowdown: float, view: View, gate: Gate
) -> bool:
    """Quick check: tell whether the gate may admit both, by the guest's estimate, before the guest has a place.

    ``host`` is (instant from which its threads would be free without the pair, its work left, its processes); ``guest`` is (such an
    instant, the job).
    """
    host_us, guest_us = spans_together(host[1], guest[1].estimate_us, slowdown)
    now_us = view.now_us
    return gate.may_hold(host[0], now_us + host_us, host[2]) and gate.may_hold(
        guest[0], now_us + guest_us, guest[1].processes
    )


def open_beside(runs: tuple[m.Run, ...], view: View) -> Layers | None:
    """Return the free ones of the other hardware threads of the cores of ``runs``; None where both threads of some core are there."""
    others = other_threads(layers_of(runs, view.machine.depth, view.machine.nodes), view.machine)
    if others is None:
        return None
    return common(others, view.all_free)


def beside(
    starting: m.JobSpec | None, runs: tuple[m.Run, ...], guest: m.JobSpec, view: View
) -> tuple[m.Run, ...] | None:
    """Return the other hardware threads of the cores of ``runs`` for ``guest``, or None if they do not hold it.

    ``starting`` is the job on ``runs`` if it only starts now, and so is not counted yet in what is free.
    """
    open_ = open_beside(runs, view)
    if open_ is None:
        return None
    memory = view.free_memory_mb
    if starting is not None and starting.memory_mb and guest.memory_mb:
        memory = list(memory)
        for first, count, _, processes in runs:
            for node in range(first, first + count):
                memory[node] -= processes * starting.memory_mb
    both = (
        guest
        if starting is None
        else guest._replace(
            resources=both_amounts(guest.resources, starting.resources),
            licences=both_amounts(guest.licences, starting.licences),
        )
    )
    # Not `View.open_on`, which opens all threads of whole nodes to an exclusive job: these nodes have a host.
    its = first_fit(guest, open_, view.machine, memory, view.open_nodes(both))
    return None if its is None or not view.machine.may_meet(nodes_of(its), nodes_of(runs)) else its


def slowed(alone: Offer, span_us: int) -> Offer:
    """Return an offer with the run time beside others; the limit grows by the time that they cost."""
    job = alone.job
    limit_us = None if alone.limit_us is None else alone.limit_us + span_us - alone.run_us
    return Offer(job, alone.start_us, alone.runs, span_us / job.estimate_us, span_us, limit_us)


def paces(one: Work, other: Work, slowdown: float) -> tuple[m.SetNote, m.SetNote]:
    """Return the notes of a pair."""
    return (
        m.SetNote(one.job_id, NOTE, tuple(Pace(other.job_id, one.progress_us, one.left_us, slowdown))),
        m.SetNote(other.job_id, NOTE, tuple(Pace(one.job_id, other.progress_us, other.left_us, slowdown))),
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


# Expected ends that change when co-located jobs come or go, and the notes that hold what is believed of such jobs.


def delete_stale_notes(view: View, key: str) -> Iterator[m.Action]:
    """Delete the notes under ``key`` of pending jobs: they were requeued, and the notes are stale."""
    for job in view.pending_with_note(key):
        yield m.SetNote(job.id, key, None)


def running_with_note(key: str, view: View) -> list[int]:
    """Return the running jobs that have a note under ``key``, by id."""
    noted = view.with_note(key)
    if not noted:
        return []
    running = view.running
    return sorted([job_id for job_id in noted if job_id is not None and job_id in running])


def expect_end(job_id: int, end_us: int, view: View, lost_us: int | None = None) -> Iterator[m.Action]:
    """Yield a job's new expected end; its limit grows by ``lost_us``, the cost of co-location (None: by as much as the end moves)."""
    running = view.running[job_id]
    if running.end_us != end_us:
        limit_us = running.limit_us
        if limit_us is not None:
            limit_us += max(0, end_us - running.end_us if lost_us is None else lost_us)
        yield m.ReviseJob(job_id, end_us - running.start_us, limit_us)


# Reactions to partners that have ended and to measured slowdowns of pairs (LOMARC paper, section 5.1).


# Features of the protocol that co-located jobs need: both start at once, their ends move, and a slow pair is separated.
PAIRING: Final[frozenset[str]] = frozenset({"notes", "groups", "revise", "suspend"})


class PairMonitor:
    """Revises jobs whose partner has ended; separates a pair whose measured slowdown is above ``max_slowdown``."""

    __slots__ = ("_interventions", "_max_slowdown", "_settled", "_settled_at")

    def __init__(self, max_slowdown: float) -> None:
        self._max_slowdown = max_slowdown
        # Caches: jobs that need nothing as long as the job, its partner and its note stay the same; the version of the view at
        # which that was true of all jobs; and the manager's interventions when jobs without a note were last looked at.
        self._settled: dict[int, tuple[Running, Running, m.NoteValue]] = {}
        self._settled_at = self._interventions = -1

    def keep_up(self, view: View) -> Iterator[m.Action]:
        """Yield the decisions that bring expected ends and notes of pairs up to date."""
        yield from delete_stale_notes(view, NOTE)
        if self._interventions != view.interventions:  # it may have refused to resume jobs whose notes are gone
            self._interventions, notes = view.interventions, view.notes(NOTE)
            stopped = [job_id for job_id, job in view.running.items() if job.stopped and job_id not in notes]
            yield from map(m.ResumeJob, sorted(stopped))
        version = view.version
        if self._settled_at == version:
            return
        jobs, notes = view.running, view.notes(NOTE)
        if len(self._settled) > 2 * len(jobs):
            self._settled = {job_id: known for job_id, known in self._settled.items() if job_id in jobs}
        for job_id in sorted([job_id for job_id in notes if job_id is not None and job_id in jobs]):
            known = self._settled.get(job_id)
            if known is not None and known[0] is jobs[job_id] and known[2] is notes.get(job_id):
                partner = known[1]
                if jobs.get(partner.job.id) is partner:
                    continue
            for action in self._of_one(job_id, view):
                yield action
                version, notes = -1, view.notes(NOTE)
        self._settled_at = version

    def _of_one(self, job_id: int, view: View) -> Iterable[m.Action]:
        pace = pace_of(job_id, view)
        if pace is None:
            return ()
        running = view.running[job_id]
        partner = view.running.get(pace.partner)
        if partner is None or not share_nodes(running.layers, partner.layers):
            return _end_pair(running, pace, view)
        if (running.measured_ppm or partner.measured_ppm) and running.suspended_us is partner.suspended_us is None:
            measured = max(running.measured_ppm, partner.measured_ppm) / WHOLE_PPM
            if measured > self._max_slowdown:
                return _stop_one(running, partner, measured, view)
            if abs(measured - pace.slowdown) > 1 / WHOLE_PPM:
                return _revise_pace(running, partner, measured, view)
        self._settled[job_id] = (running, partner, view.note(job_id, NOTE))
        return ()


def _end_pair(running: Running, pace: Pace, view: View) -> Iterator[m.Action]:
    job_id = running.job.id
    end_us = view.now_us + pace.left_after(view.progress_us(running), pace.slowdown)
    if running.stopped:
        yield m.ResumeJob(job_id)
    # The limit of a suspended job stood still
    yield from expect_end(job_id, end_us, view, lost_us=None if running.suspended_us is None else 0)
    yield m.SetNote(job_id, NOTE, None)


def _revise_pace(one: Running, other: Running, measured: float, view: View) -> Iterator[m.Action]:
    """Replace the believed slowdown of a pair by the measured one, for the past and the future."""
    now_us = view.now_us
    left = [_work_left(running, measured, view) for running in (one, other)]
    spans_us = spans_together(left[0].left_us, left[1].left_us, measured)
    for running, span_us, pace in zip((one, other), spans_us, paces(left[0], left[1], measured), strict=True):
        yield from expect_end(running.job.id, now_us + span_us, view)
        yield pace


def _work_left(running: Running, measured: float, view: View) -> Work:
    """Return the work left of one job of a pair, by the slowdown measured since the note was written."""
    pace = pace_of(running.job.id, view)
    progress_us = view.progress_us(running)
    return Work(running.job.id, 1 if pace is None else pace.left_after(progress_us, measured), progress_us)


def _stop_one(one: Running, other: Running, measured: float, view: View) -> Iterator[m.Action]:
    """Suspend the later job of a pair until its partner ends."""
    stays, stops = sorted((one, other), key=lambda running: (running.start_us, running.job.id))
    now_us = view.now_us
    goes_on, waits = _work_left(stays, measured, view), _work_left(stops, measured, view)
    view.explain(stops.job.id, partner=stays.job.id, measured_slowdown=measured)
    yield m.SuspendJob(stops.job.id)
    yield from expect_end(stays.job.id, now_us + goes_on.left_us, view)
    lost_us = now_us + waits.left_us - stops.end_us  # up to now; its limit stands still with it
    yield from expect_end(stops.job.id, now_us + goes_on.left_us + waits.left_us, view, lost_us=lost_us)
    yield from paces(goes_on, waits, 1.0)
