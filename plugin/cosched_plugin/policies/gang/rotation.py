"""From the matrix to the manager's rotation: a turn for each row, with the partner and the alternates that run in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from cosched_plugin.api import Pairing, Rotation, RowLoad, Turn, View
from cosched_plugin.policies.gang.alternates import Company, alternates
from cosched_plugin.policies.gang.matrix import Cell, Matrix
from cosched_plugin.policies.gang.telling import tell_turn
from cosched_plugin.policies.turns.cycle import following
from cosched_plugin.policies.turns.room import Room


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
