"""From the matrix to the manager's rotation: a turn for each row, with the partner and the alternates that run in it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final, NamedTuple

from cosched_plugin.api import Pairing, Rotation, RowLoad, Turn, View
from cosched_plugin.policies.gang.matrix import Cell, Matrix, Row
from cosched_plugin.policies.gang.pairings import BAND, Company, alternates
from cosched_plugin.policies.turns import Room, following

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


def tell_turn(turn: Turn, chosen: int | None, known: bool | None, matrix: Matrix, pairing: Pairing, view: View) -> None:
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


def _why_alone(row: Row, chosen: int | None, known: bool | None, matrix: Matrix, pairing: Pairing) -> Mapping[str, Any]:
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


def last_turn(rotation: Rotation) -> Turn | None:
    """Return the turn to which the last quantum belonged; None if there is no rotation.

    Before its first quantum has ended, a rotation looks as if its last turn had just ended, so that its first turn is the next one.
    """
    if not rotation.turns:
        return None
    return rotation.turns[0 if rotation.left else -1]


def ran_in(turn: Turn, matrix: Matrix) -> list[int]:
    """Return the jobs that are in the matrix and ran in a turn."""
    rows = [matrix.rows[slot] for slot in turn.slots if slot in matrix.rows]
    return [cell.job_id for row in rows for cell in row.members] + [job for job in turn.guests if job in matrix.cells]


class Turns:
    """Makes the turns that the manager is to take: a pass makes the next one, and keeps those after it as they are."""

    __slots__ = ("_known", "_settings")

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # A cache, by slot: a turn with its partner and what became of it, and the version of the matrix then.
        self._known: dict[int, tuple[int, Turn, int | None, Turn]] = {}

    def after(self, rotation: Rotation, matrix: Matrix, pairing: Pairing, view: View) -> tuple[Turn, ...]:
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
        later = [self._keep(before.get(slot) or Turn((slot,)), matrix, partners.get(slot)) for slot in order[1:]]
        chosen = partners.get(order[0])
        turn = _dispatch(order, chosen, matrix, pairing, self._settings)
        if view.trace is not None:
            known = None if begins or pairing.each_turn else order[0] in before
            tell_turn(turn, chosen, known, matrix, pairing, view)
        return turn, *later

    def _keep(self, turn: Turn, matrix: Matrix, partner: int | None) -> Turn:
        slot = turn.slots[0]
        known = self._known.get(slot)
        if known is not None and known[:3] == (matrix.version, turn, partner):
            return known[3]
        kept = _kept(turn, matrix, partner, second=self._settings.second)
        self._known[slot] = (matrix.version, turn, partner, kept)
        return kept


def without_company(turns: Sequence[Turn], job_id: int, slot: int, matrix: Matrix) -> tuple[Turn, ...]:
    """Return the turns of rows that are there, without partners and alternates where a job is about to run in ``slot``."""
    return tuple(
        [
            Turn(turn.slots[:1])
            if slot in turn.slots or job_id in turn.guests
            else _kept(turn, matrix, _partner_in(turn), second=True)
            for turn in turns
            if turn.slots[0] in matrix.rows
        ]
    )


def _partner_in(turn: Turn) -> int | None:
    return turn.slots[1] if len(turn.slots) > 1 else None


def _partners(
    rotation: Rotation, order: Sequence[int], begins: bool, matrix: Matrix, pairing: Pairing
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


def _loads(matrix: Matrix) -> list[RowLoad]:
    """Return the rows that may be paired."""
    rows = [matrix.rows[slot] for slot in matrix.slots()]
    return [RowLoad(row.slot, row.most_ppm) for row in rows if not row.unpaired]


def _dispatch(order: Sequence[int], chosen: int | None, matrix: Matrix, pairing: Pairing, settings: Settings) -> Turn:
    """Return the next turn, that of the first row of ``order``: its partner is examined once more, alternates are found."""
    row = matrix.rows[order[0]]
    partner = None if chosen is None or chosen == row.slot else matrix.rows.get(chosen)
    if partner is not None and (row.unpaired or partner.unpaired or not pairing.fits(row.most_ppm, partner.most_ppm)):
        partner = None
    slots = (row.slot,) if partner is None else (row.slot, partner.slot)
    others = _candidates(order, slots, matrix)
    rule, width_ppm, second = settings
    guests = alternates(row, partner, others, rule, pairing.fits, width_ppm, second=second)
    return Turn(slots, 1, guests)


def _candidates(order: Sequence[int], slots: Sequence[int], matrix: Matrix) -> Iterator[Cell]:
    """Yield the jobs of rows that are not in the turn, in the order in which these rows come next."""
    for slot in order[1:]:
        if slot not in slots:
            yield from matrix.rows[slot].members


def _kept(turn: Turn, matrix: Matrix, partner: int | None, *, second: bool) -> Turn:
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
    return Turn(slots, 1, guests)


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
