"""Gang scheduling as a pass over the queue: jobs are put into the rows of a matrix, and rows take turns, alone or in pairs.

Wiseman and Feitelson 2003, *Paired Gang Scheduling*, section 2. The pass decides when a quantum has ended, or when no job can run;
the manager rotates. All that it must know of earlier quanta are the manager's facts: slots, shares, and the rotation, which says
where in its round the matrix is and which rows are partners. Only a sharp change is a note of the job.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, takewhile
from typing import Any, Final, NamedTuple

from cosched_plugin import api
from cosched_plugin.policies.gang.matrix import (
    NOTE,
    OFF,
    Cell,
    Matrix,
    Move,
    Reader,
    Row,
    band_moves,
    compaction,
    is_sharp,
    shares_of,
)
from cosched_plugin.policies.gang.pairings import BAND, MOST, Company, alternates
from cosched_plugin.policies.planning.reservation import rejection
from cosched_plugin.policies.turns import Room, following, let_run

# From the matrix to the manager's rotation: a turn for each row, with the partner and the alternates that run in it.

# What the decision trace records of gang scheduling: why a job is in its row, and which rows run together or why one runs alone.
#
# ``docs/trace.md`` lists the records. Nothing here is called without a trace.

# Why a row has no partner.
UNPAIRED: Final = "unpaired"  # a job of it is never paired
ONLY_ROW: Final = "only-row"  # there is no other one that may be paired
NONE_FITS: Final = "none-fits"
LEFT_OUT: Final = "left-out"  # others would fit, and the matching has given it none
NEW_ROW: Final = "new-row"  # partners were chosen before it was there
NO_PARTNER: Final = "no-partner"  # none was chosen when the round began, or it has vanished
NO_FIT: Final = "no-fit"  # the chosen one does not fit any more
PARTNER_UNPAIRED: Final = "partner-unpaired"  # a job of the chosen one is never paired


def place_facts(slot: int, tried: Collection[int], matrix: Matrix) -> Mapping[str, Any]:
    """Return why a new job is put into a row: which rows have no place for it, and which take no new job.

    ``tried`` are the rows that take new jobs, in the order in which they are asked.
    """
    return {
        "new_row": slot not in matrix.rows,
        "full_rows": list(takewhile(lambda each: each != slot, tried)),
        "closed_rows": [each for each in matrix.slots() if each not in tried],
    }


def move_facts(cell: Cell, reason: str, out_of: int, matrix: Matrix) -> Mapping[str, Any]:
    """Return why a job has left row ``out_of``: its predicted share, and for a band the least one of the jobs that it has left."""
    facts: dict[str, Any] = {"reason": reason, "out_of": out_of, "share_ppm": cell.share_ppm}
    row = matrix.rows.get(out_of)
    if reason == BAND and row is not None and row.band is not None:
        facts["least_ppm"] = row.band.least_ppm
    return facts


def tell_turn(
    turn: api.Turn, chosen: int | None, known: bool | None, matrix: Matrix, pairing: api.Pairing, view: api.View
) -> None:
    """Record the next turn.

    ``chosen`` is the partner that the pairing has chosen for the row, just now if ``known`` is None; else when the round began, and
    ``known`` tells whether the row was there then.
    """
    rows = [matrix.rows[slot] for slot in turn.slots]
    facts: dict[str, Any] = {
        "quantum": view.quantum + 1,
        "slots": list(turn.slots),
        "jobs": [[cell.job_id for cell in row.members] for row in rows],
        "shares_ppm": [row.most_ppm for row in rows],
        "guests": [[job_id, matrix.cells[job_id].share_ppm] for job_id in turn.guests],
    }
    if pairing.below_ppm is not None:
        facts["below_ppm"] = pairing.below_ppm
    if len(rows) == 1 and not pairing.alone:
        facts.update(_why_alone(rows[0], chosen, known, matrix, pairing))
    view.tell("turn", **facts)


def _why_alone(
    row: Row, chosen: int | None, known: bool | None, matrix: Matrix, pairing: api.Pairing
) -> Mapping[str, Any]:
    if row.unpaired:
        return {"alone": UNPAIRED}
    partner = None if chosen is None or chosen == row.slot else matrix.rows.get(chosen)
    if partner is not None:
        if partner.unpaired:
            return {"alone": PARTNER_UNPAIRED, "other": partner.slot}
        return {"alone": NO_FIT, "other": partner.slot, "other_ppm": partner.most_ppm}
    others = [other for _, other in sorted(matrix.rows.items()) if other is not row and not other.unpaired]
    if not others:
        return {"alone": ONLY_ROW}
    if known is not None:
        return {"alone": NO_PARTNER if known else NEW_ROW}
    least = min(others, key=lambda other: other.most_ppm)
    reason = LEFT_OUT if pairing.fits(row.most_ppm, least.most_ppm) else NONE_FITS
    return {"alone": reason, "other": least.slot, "other_ppm": least.most_ppm}


class Settings(NamedTuple):
    """What may run in a turn besides its row and the partner."""

    alternates: str
    width_ppm: int  # of a band; 0: bands do not matter
    second: bool  # alternates make up a second layer where there is no partner


def last_turn(rotation: api.Rotation) -> api.Turn | None:
    """Return the turn to which the last quantum belonged; None if there is no rotation.

    Before its first quantum has ended, a rotation looks as if its last turn had just ended, so that its first turn is the next one.
    """
    if not rotation.turns:
        return None
    return rotation.turns[0 if rotation.left else -1]


def ran_in(turn: api.Turn, matrix: Matrix) -> list[int]:
    """Return the jobs that are in the matrix and ran in a turn."""
    rows = [matrix.rows[slot] for slot in turn.slots if slot in matrix.rows]
    return [cell.job_id for row in rows for cell in row.members] + [job for job in turn.guests if job in matrix.cells]


class Turns:
    """Makes the turns that the manager is to take: a pass makes the next one, and keeps those after it as they are."""

    __slots__ = ("_known", "_settings")

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # A cache, by slot: a turn with its partner and what became of it, and the version of the matrix then.
        self._known: dict[int, tuple[int, api.Turn, int | None, api.Turn]] = {}

    def after(
        self, rotation: api.Rotation, matrix: Matrix, pairing: api.Pairing, view: api.View
    ) -> tuple[api.Turn, ...]:
        """Return the turns that follow ``rotation``: all rows in order of slots, from the one after the last that had its turn.

        Partners are chosen when a round begins, or, by the pairing, for the next turn alone. The next turn is as the latest shares
        have it; the others stay as they are, as far as their rows and jobs are still there.
        """
        last = last_turn(rotation)
        order, begins = following(matrix.slots(), None if last is None else last.slots[0])
        # Where no job can run, no turn is taken: each look at the machine is at the beginning of a round.
        begins = begins or all(running.suspended_us is not None for running in view.running.values())
        before = {turn.slots[0]: turn for turn in rotation.turns}
        partners = _partners(rotation, order, begins, matrix, pairing)
        later = [self._keep(before.get(slot) or api.Turn((slot,)), matrix, partners.get(slot)) for slot in order[1:]]
        chosen = partners.get(order[0])
        turn = _dispatch(order, chosen, matrix, pairing, self._settings)
        if view.trace is not None:
            known = None if begins or pairing.each_turn else order[0] in before
            tell_turn(turn, chosen, known, matrix, pairing, view)
        return turn, *later

    def _keep(self, turn: api.Turn, matrix: Matrix, partner: int | None) -> api.Turn:
        slot = turn.slots[0]
        known = self._known.get(slot)
        if known is not None and known[:3] == (matrix.version, turn, partner):
            return known[3]
        kept = _kept(turn, matrix, partner, second=self._settings.second)
        self._known[slot] = (matrix.version, turn, partner, kept)
        return kept


def without_company(turns: Sequence[api.Turn], job_id: int, slot: int, matrix: Matrix) -> tuple[api.Turn, ...]:
    """Return the turns of rows that are there, without partners and alternates where a job is about to run in ``slot``."""
    return tuple(
        [
            api.Turn(turn.slots[:1])
            if slot in turn.slots or job_id in turn.guests
            else _kept(turn, matrix, _partner_in(turn), second=True)
            for turn in turns
            if turn.slots[0] in matrix.rows
        ]
    )


def _partner_in(turn: api.Turn) -> int | None:
    return turn.slots[1] if len(turn.slots) > 1 else None


def _partners(
    rotation: api.Rotation, order: Sequence[int], begins: bool, matrix: Matrix, pairing: api.Pairing
) -> Mapping[int, int]:
    """Return the partners of rows, by row."""
    if pairing.alone:
        return {}
    if begins and not pairing.each_turn:
        return pairing.partners(_loads(matrix), matrix.rows)
    partners = {turn.slots[0]: turn.slots[1] for turn in rotation.turns if len(turn.slots) > 1}
    if pairing.each_turn:
        partners.pop(order[0], None)
        partners.update(pairing.partners(_loads(matrix), order[:1]))
    return partners


def _loads(matrix: Matrix) -> list[api.RowLoad]:
    """Return the rows that may be paired."""
    rows = [matrix.rows[slot] for slot in matrix.slots()]
    return [api.RowLoad(row.slot, row.most_ppm) for row in rows if not row.unpaired]


def _dispatch(
    order: Sequence[int], chosen: int | None, matrix: Matrix, pairing: api.Pairing, settings: Settings
) -> api.Turn:
    """Return the next turn, that of the first row of ``order``: its partner is examined once more, alternates are found."""
    row = matrix.rows[order[0]]
    partner = None if chosen is None or chosen == row.slot else matrix.rows.get(chosen)
    if partner is not None and (row.unpaired or partner.unpaired or not pairing.fits(row.most_ppm, partner.most_ppm)):
        partner = None
    slots = (row.slot,) if partner is None else (row.slot, partner.slot)
    others = _candidates(order, slots, matrix)
    rule, width_ppm, second = settings
    guests = alternates(row, partner, others, rule, pairing.fits, width_ppm, second=second)
    return api.Turn(slots, 1, guests)


def _candidates(order: Sequence[int], slots: Sequence[int], matrix: Matrix) -> Iterator[Cell]:
    """Yield the jobs of rows that are not in the turn, in the order in which these rows come next."""
    for slot in order[1:]:
        if slot not in slots:
            yield from matrix.rows[slot].members


def _kept(turn: api.Turn, matrix: Matrix, partner: int | None, *, second: bool) -> api.Turn:
    """Return a turn of a row that is there, with this partner; alternates stay only where nothing has changed for them.

    It is what runs if the scheduler does not answer in time. ``second``: there may be two processes on a hardware thread even
    where there is no partner.
    """
    slot = turn.slots[0]
    beside = None if partner is None or partner == slot else matrix.rows.get(partner)
    if beside is not None and (matrix.rows[slot].unpaired or beside.unpaired):
        beside = None
    slots = (slot,) if beside is None else (slot, beside.slot)
    guests: tuple[int, ...] = ()
    if turn.guests and slots == turn.slots:
        guests = _with_room(turn.guests, slots, matrix, most=2 if second or beside is not None else 1)
    return api.Turn(slots, 1, guests)


def _with_room(guests: Sequence[int], slots: Sequence[int], matrix: Matrix, *, most: int) -> tuple[int, ...]:
    """Return the alternates that are still in other rows, and have room: no thread has more than ``most`` processes with them."""
    there = [cell for slot in slots for cell in matrix.rows[slot].members]
    room = Room(most)
    for member in there:
        room.take(member.threads)
    company = Company(there)
    found = []
    for job_id in guests:
        cell = matrix.cells.get(job_id)
        if cell is None or matrix.slot_of(job_id) in slots or not room.admits(cell.threads) or not company.admits(cell):
            continue
        room.take(cell.threads)
        company.take(cell)
        found.append(job_id)
    return tuple(found)


# The pass.

MOST_ROWS: Final = 65_536  # slots of the protocol
_POINT_PPM: Final = api.WHOLE_PPM // 100
_NOTHING: Final[Iterator[api.Action]] = iter(())
# Values of the setting `place_fresh`: which rows take a new job, besides a row of its own.
FRESH_ANY: Final = "any"
FRESH_BAND: Final = "band"  # those whose band admits a job that needs the whole CPU
FRESH_NEW: Final = "new"  # none
PLACE_FRESH: Final = (FRESH_ANY, FRESH_BAND, FRESH_NEW)


class Gang(api.Backfill):
    """Rows of jobs that take turns.

    ``rows``: how many at most, 0: no limit. ``band``: the range, in points, within which the shares of a row's jobs stay; 0: any.
    ``compaction``: rows dissolve where other rows have room for their jobs. ``alternates_when_unmatched``: alternates may make up
    a second layer where a row has no partner. ``skip``: a job without a place holds up none of those behind it. For the other
    settings see the modules of this package.
    """

    provides: api.Needs = frozenset({api.ROWS})
    protocol_features: api.Needs = frozenset({"notes", "slots"})

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
                raise api.UsageError(
                    f"policy.backfill.{key}: {BAND!r} needs a band: expected policy.backfill.band above 0"
                )
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
    def needs(self) -> api.Needs:
        """Return what gang scheduling needs; some settings have no effect unless rows are paired."""
        needs = frozenset({api.THREADS, api.FIXED_RUN_TIMES, api.SLOTS})
        return needs | {api.PAIRS} if self._when_unmatched or self._sharp_change != OFF else needs

    def check(self, view: api.View) -> None:
        """Raise MachineError where the machine does not share its time."""
        if not view.quantum_us:
            raise api.MachineError(
                "policy.backfill: gang: expected a machine with slots, whose nodes share their time "
                "(section [time_sharing] of a scenario), got one without"
            )

    def decide(self, context: api.Context) -> Iterator[api.Action]:
        """Return the decisions at the end of a quantum, or where no job can run: then the next quantum begins at once."""
        view = context.view
        if not view.quantum_ended and _can_run(view):
            return _NOTHING
        return self._pass(context)

    def _pass(self, context: api.Context) -> Iterator[api.Action]:
        view = context.view
        yield from api.delete_stale_notes(view, NOTE)
        matrix, changed = self._reader.read(view)
        before = view.rotation if matrix.rows else api.Rotation()  # an idle machine begins anew
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

    def _examine(self, running: api.Running, view: api.View) -> Iterator[api.Action]:
        """Give up the history of a job whose share has changed sharply: it counts as new, and its row runs alone."""
        shares = shares_of(running, view)
        if is_sharp(shares, self._sharp_change):
            view.tell("sharp_change", job=running.job.id, share_ppm=shares[0], before_ppm=shares[1])
            yield api.SetNote(running.job.id, NOTE, running.quanta)
            self._reader.renew(running, view)

    def _move(self, moves: Iterator[Move], reason: str, matrix: Matrix, view: api.View) -> Iterator[api.Action]:
        for cell, slot, out_of in moves:
            yield from _make_way(cell.job_id, slot, cell.unpaired, matrix, view)
            if view.trace is not None:
                view.explain(cell.job_id, **move_facts(cell, reason, out_of, matrix))
            yield api.ChangeSlot(cell.job_id, slot)

    def _unused(self, before: api.Rotation, matrix: Matrix) -> int | None:
        """Return the slot of a new row: one that was not in the rotation, so that it runs alone until the next round begins."""
        return matrix.unused(chain.from_iterable([turn.slots for turn in before.turns]), self._rows)

    def _place(self, before: api.Rotation, context: api.Context, matrix: Matrix) -> Iterator[api.Action]:
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
                free = api.size(view.free_in(offer.slot))
                view.explain(job.id, reason=reason, waiting=view.queued, free_threads=free, **facts)
            yield offer.start()
            self._reader.enter(view.running[job.id], view)

    def _offer(self, job: api.JobSpec, new: int | None, context: api.Context, matrix: Matrix) -> api.Offer | None:
        """Return a place for a new job: in the first row that has one, else in slot ``new``."""
        view = context.view
        for slot in (*self._rows_for_fresh(matrix), *(() if new is None else (new,))):
            free = view.free_in(slot)
            if api.size(free) >= job.processes:
                offer = context.offer(job, api.Snapshot(view, view.now_us, free))
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
        return [row.slot for row in rows if row.band is None or row.band.admits(api.WHOLE_PPM, self._width_ppm)]


def _can_run(view: api.View) -> bool:
    """Tell whether a job can run under the present rotation: then there is a quantum, and its end will come."""
    turns = view.rotation.turns
    slots = set(chain.from_iterable([turn.slots for turn in turns]))
    guests = set(chain.from_iterable([turn.guests for turn in turns]))
    return any(
        running.suspended_us is None and (running.slot in slots or job_id in guests)
        for job_id, running in view.running.items()
    )


def _make_way(job_id: int, slot: int, unpaired: bool, matrix: Matrix, view: api.View) -> Iterator[api.Action]:
    """Take partners and alternates away from the turns in which a job is about to run, where a job is never paired.

    Otherwise it would have company on its nodes, or be company, before the new rotation is set.
    """
    turns = view.rotation.turns
    if view.on_disk:
        yield from let_run(_alone([turn for turn in turns if turn.slots[0] in matrix.rows]), view)
    elif unpaired or matrix.any_unpaired:
        yield from let_run(without_company(turns, job_id, slot, matrix), view)


def _alone(turns: Sequence[api.Turn]) -> tuple[api.Turn, ...]:
    """Return these turns without partners and alternates."""
    return tuple([api.Turn(turn.slots[:1]) for turn in turns])
