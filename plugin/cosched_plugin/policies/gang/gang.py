"""Gang scheduling as a pass over the queue: jobs are put into the rows of a matrix, and rows take turns, alone or in pairs.

Wiseman and Feitelson 2003, *Paired Gang Scheduling*, section 2. The pass decides when a quantum has ended, or when no job can run;
the manager rotates. All that it must know of earlier quanta are the manager's facts: slots, shares, and the rotation, which says
where in its round the matrix is and which rows are partners. Only a sharp change is a note of the job.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from cosched_plugin.api import (
    FIXED_RUN_TIMES,
    PAIRS,
    ROWS,
    SLOTS,
    THREADS,
    WHOLE_PPM,
    Action,
    Backfill,
    ChangeSlot,
    Context,
    JobSpec,
    MachineError,
    Needs,
    Offer,
    Rotation,
    Running,
    SetNote,
    Snapshot,
    Turn,
    UsageError,
    View,
    delete_stale_notes,
    size,
)
from cosched_plugin.policies.gang.matrix import (
    NOTE,
    OFF,
    Matrix,
    Move,
    Reader,
    band_moves,
    compaction,
    is_sharp,
    shares_of,
)
from cosched_plugin.policies.gang.pairings import BAND, MOST
from cosched_plugin.policies.gang.rotation import (
    Settings,
    Turns,
    last_turn,
    move_facts,
    place_facts,
    ran_in,
    without_company,
)
from cosched_plugin.policies.planning.reservation import rejection
from cosched_plugin.policies.turns import let_run

MOST_ROWS: Final = 65_536  # slots of the protocol
_POINT_PPM: Final = WHOLE_PPM // 100
_NOTHING: Final[Iterator[Action]] = iter(())
# Values of the setting `place_fresh`: which rows take a new job, besides a row of its own.
FRESH_ANY: Final = "any"
FRESH_BAND: Final = "band"  # those whose band admits a job that needs the whole CPU
FRESH_NEW: Final = "new"  # none
PLACE_FRESH: Final = (FRESH_ANY, FRESH_BAND, FRESH_NEW)


class Gang(Backfill):
    """Rows of jobs that take turns.

    ``rows``: how many at most, 0: no limit. ``band``: the range, in points, within which the shares of a row's jobs stay; 0: any.
    ``compaction``: rows dissolve where other rows have room for their jobs. ``alternates_when_unmatched``: alternates may make up
    a second layer where a row has no partner. ``skip``: a job without a place holds up none of those behind it. For the other
    settings see the modules of this package.
    """

    provides: Needs = frozenset({ROWS})
    protocol_features: Needs = frozenset({"notes", "slots"})

    def __init__(
        self,
        *,
        rows: int = 0,
        band: float = 0.0,
        place_fresh: str = FRESH_ANY,
        sharp_change: str = OFF,
        pad: bool = False,
        compaction: bool = False,
        alternates: str = MOST,
        alternates_when_unmatched: bool = False,
        skip: bool = False,
    ) -> None:
        for key, value in (("alternates", alternates), ("place_fresh", place_fresh)):
            if value == BAND and not band:
                raise UsageError(f"policy.backfill.{key}: {BAND!r} needs a band: expected policy.backfill.band above 0")
        self._rows = rows or MOST_ROWS
        self._width_ppm = round(band * _POINT_PPM)
        self._place_fresh = place_fresh
        self._sharp_change = sharp_change
        self._compaction = compaction
        self._when_unmatched = alternates_when_unmatched
        self._skip = skip
        self._turns = Turns(Settings(alternates, self._width_ppm, alternates_when_unmatched))
        self._reader = Reader(pad=pad)

    @property
    def needs(self) -> Needs:
        """Return what gang scheduling needs; some settings have no effect unless rows are paired."""
        needs = frozenset({THREADS, FIXED_RUN_TIMES, SLOTS})
        return needs | {PAIRS} if self._when_unmatched or self._sharp_change != OFF else needs

    def check(self, view: View) -> None:
        """Raise MachineError where the machine does not share its time."""
        if not view.quantum_us:
            raise MachineError(
                "policy.backfill: gang: expected a machine with slots, whose nodes share their time "
                "(section [time_sharing] of a scenario), got one without"
            )

    def decide(self, context: Context) -> Iterator[Action]:
        """Return the decisions at the end of a quantum, or where no job can run: then the next quantum begins at once."""
        view = context.view
        if not view.quantum_ended and _can_run(view):
            return _NOTHING
        return self._pass(context)

    def _pass(self, context: Context) -> Iterator[Action]:
        view = context.view
        yield from delete_stale_notes(view, NOTE)
        matrix, changed = self._reader.read(view)
        before = view.rotation if matrix.rows else Rotation()  # an idle machine begins anew
        if self._sharp_change != OFF:
            for running in changed:
                yield from self._examine(running, view)
        last = last_turn(before)
        if self._width_ppm and last is not None:
            moves = band_moves(matrix, ran_in(last, matrix), self._width_ppm, lambda: self._unused(before, matrix))
            yield from self._move(moves, BAND, matrix, view)
        if self._compaction:
            yield from self._move(compaction(matrix, self._width_ppm), "compaction", matrix, view)
        if view.queued:
            yield from self._place(before, context, matrix)
        if matrix.rows:
            turns = self._turns.after(before, matrix, context.pairing, view)
            # A job that the manager has taken to disk is in no row, but it counts in its slot where a job is never paired.
            yield from let_run(_alone(turns) if view.on_disk else turns, view)

    def _examine(self, running: Running, view: View) -> Iterator[Action]:
        """Give up the history of a job whose share has changed sharply: it counts as new, and its row runs alone."""
        shares = shares_of(running, view)
        if is_sharp(shares, self._sharp_change):
            view.tell("sharp_change", job=running.job.id, share_ppm=shares[0], before_ppm=shares[1])
            yield SetNote(running.job.id, NOTE, running.quanta)
            self._reader.renew(running, view)

    def _move(self, moves: Iterator[Move], reason: str, matrix: Matrix, view: View) -> Iterator[Action]:
        for cell, slot, out_of in moves:
            yield from _make_way(cell.job_id, slot, cell.unpaired, matrix, view)
            if view.trace is not None:
                view.explain(cell.job_id, **move_facts(cell, reason, out_of, matrix))
            yield ChangeSlot(cell.job_id, slot)

    def _unused(self, before: Rotation, matrix: Matrix) -> int | None:
        """Return the slot of a new row: one that was not in the rotation, so that it runs alone until the next round begins."""
        return matrix.unused(chain.from_iterable([turn.slots for turn in before.turns]), self._rows)

    def _place(self, before: Rotation, context: Context, matrix: Matrix) -> Iterator[Action]:
        """Yield the starts of pending jobs in queue order; where one has no place, those behind it wait, or may overtake it."""
        view = context.view
        reason = "order"
        for job in context.order.arrange(view.queue, view):
            offer = self._offer(job, self._unused(before, matrix), context, matrix)
            if offer is None:
                if context.placement.never(job, view):
                    yield rejection(job, view)
                    continue
                if not self._skip:
                    return
                reason = "skip"
                continue
            yield from _make_way(job.id, offer.slot, job.unpaired, matrix, view)
            if view.trace is not None:
                facts = place_facts(offer.slot, self._rows_for_fresh(matrix), matrix)
                free = size(view.free_in(offer.slot))
                view.explain(job.id, reason=reason, waiting=view.queued, free_threads=free, **facts)
            yield offer.start()
            self._reader.enter(view.running[job.id], view)

    def _offer(self, job: JobSpec, new: int | None, context: Context, matrix: Matrix) -> Offer | None:
        """Return a place for a new job: in the first row that has one, else in slot ``new``."""
        view = context.view
        for slot in (*self._rows_for_fresh(matrix), *(() if new is None else (new,))):
            free = view.free_in(slot)
            if size(free) >= job.processes:
                offer = context.offer(job, Snapshot(view, view.now_us, free))
                if offer is not None:
                    return offer._replace(slot=slot)
        return None

    def _rows_for_fresh(self, matrix: Matrix) -> Sequence[int]:
        """Return the rows that take a job that has not been measured."""
        if self._place_fresh == FRESH_NEW:
            return ()
        if self._place_fresh == FRESH_ANY:
            return matrix.slots()
        rows = [matrix.rows[slot] for slot in matrix.slots()]
        return [row.slot for row in rows if row.band is None or row.band.admits(WHOLE_PPM, self._width_ppm)]


def _can_run(view: View) -> bool:
    """Tell whether a job can run under the present rotation: then there is a quantum, and its end will come."""
    turns = view.rotation.turns
    slots = set(chain.from_iterable([turn.slots for turn in turns]))
    guests = set(chain.from_iterable([turn.guests for turn in turns]))
    return any(
        running.suspended_us is None and (running.slot in slots or job_id in guests)
        for job_id, running in view.running.items()
    )


def _make_way(job_id: int, slot: int, unpaired: bool, matrix: Matrix, view: View) -> Iterator[Action]:
    """Take partners and alternates away from the turns in which a job is about to run, where a job is never paired.

    Otherwise it would have company on its nodes, or be company, before the new rotation is set.
    """
    turns = view.rotation.turns
    if view.on_disk:
        yield from let_run(_alone([turn for turn in turns if turn.slots[0] in matrix.rows]), view)
    elif unpaired or matrix.any_unpaired:
        yield from let_run(without_company(turns, job_id, slot, matrix), view)


def _alone(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """Return these turns without partners and alternates."""
    return tuple([Turn(turn.slots[:1]) for turn in turns])
