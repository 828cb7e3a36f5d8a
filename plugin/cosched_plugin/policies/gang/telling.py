"""What the decision trace records of gang scheduling: why a job is in its row, and which rows run together or why one runs alone.

``docs/trace.md`` lists the records. Nothing here is called without a trace.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import takewhile
from typing import Any, Final

from cosched_plugin.api import Pairing, Turn, View
from cosched_plugin.policies.gang.alternates import BAND
from cosched_plugin.policies.gang.matrix import Cell, Matrix, Row

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
