"""The facts about a job in the rows of gang scheduling (`rows`) as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from cosched_emulator.explain.rows import GUEST, OWN, PARTNER
from cosched_emulator.explain.words import count_text, instant_text, jobs_text, span_text, times_text
from cosched_hwmodel.units import WHOLE_PPM

Facts = Mapping[str, Any]

# Why a row had no partner, in how many of its turns.
_ALONE: Final[Mapping[str, str]] = {
    "unpaired": "a job of the row is never paired",
    "partner-unpaired": "a job of the partner is never paired",
    "only-row": "there was no other row that may be paired",
    "none-fits": "no other row fitted",
    "left-out": "the matching gave it none, although one fitted",
    "new-row": "partners had been chosen before the row was there",
    "no-partner": "no partner was chosen when the round began, or that row had vanished",
    "no-fit": "the partner did not fit any more",
}


def row_placement(start: Facts) -> Iterator[str]:
    """Yield why a job was put into its row."""
    row = start["row"]
    if row is None:
        return
    slot, full, closed = row["slot"], row["full_rows"], row["closed_rows"]
    which = {None: "", True: ", a new one", False: ", the first with a place for it"}[row["new_row"]]
    why = []
    if full:
        why.append(f"{_rows(full)} had none")
    if closed:
        why.append(f"{_rows(closed)} took no job that had not been measured")
    if row["new_row"] and full:
        why[0] = f"{_rows(full)} had no place for it"
    yield f"It was put into row {slot}{which}{': ' if why else ''}{', and '.join(why)}."


def row_events(start: Facts) -> Iterator[tuple[int, str]]:
    """Yield when a job changed its row, and when its CPU share changed sharply, with a sentence for each."""
    for change in start["sharp_changes"]:
        after = f"{span_text(change['at_us'] - start['at_us'])} after its start"
        shares = f"from {percent_text(change['before_ppm'])} to {percent_text(change['share_ppm'])}"
        yield change["at_us"], f"{after} its CPU share had changed sharply, {shares}: it counted as a new job."
    for move in start["moves"]:
        after = f"{span_text(move['at_us'] - start['at_us'])} after its start"
        source = "" if move["out_of"] is None else f" from row {move['out_of']}"
        yield move["at_us"], f"{after} it moved{source} to row {move['slot']}{_why_moved(move)}."


def turns_of_row(start: Facts) -> Iterator[str]:
    """Yield in how many quanta a job ran, and how often its row had a partner."""
    turns = start["turns"]
    if turns is None:
        return
    quanta = sum(turns[role] for role in (OWN, PARTNER, GUEST))
    parts = [
        f"{turns[role]} {text}"
        for role, text in (
            (OWN, "in the turn of its row"),
            (PARTNER, "with its row as the partner of another one"),
            (GUEST, "as an alternate"),
        )
        if turns[role]
    ]
    span = f"from {turns['first_quantum']} to {turns['last_quantum']}"
    yield f"It was to run in {count_text(quanta, 'quantum', 'quanta')}, {span}: {', '.join(parts)}."
    why = [f"{times_text(times)} because {_ALONE.get(reason, reason)}" for reason, times in turns["alone"].items()]
    if turns["paired"]:
        none = f", and none {', '.join(why)}" if why else ""
        yield f"In its own turns its row had a partner {times_text(turns['paired'])}{none}."
    elif why:
        yield f"In its own turns its row had no partner: {', '.join(why)}."


def quantum_sentences(facts: Facts, job: int) -> Iterator[str]:
    """Yield why a job ran, or did not run, in one quantum, and why a row had a partner there or none."""
    told = f"Quantum {facts['quantum']}, decided at {instant_text(facts['at_us'])}"
    rows = [f"row {slot} ({jobs_text(jobs)})" for slot, jobs in zip(facts["slots"], facts["jobs"], strict=True)]
    yield f"{told}, was the turn of {rows[0]}{f', with {rows[1]} as the partner' if len(rows) > 1 else ''}."
    yield from _why_paired(facts)
    match facts["role"]:
        case None:
            yield f"Job {job} did not run in it."
        case role if role == GUEST:
            yield f"Job {job} ran as an alternate, with a predicted CPU share of {percent_text(facts['guest_share_ppm'])}."
        case _:
            yield f"Job {job} ran with its row."


def percent_text(share_ppm: int) -> str:
    """Return a share in percent: ``45 %``, ``2.5 %``."""
    return f"{100 * share_ppm / WHOLE_PPM:.4g} %"


def _why_paired(facts: Facts) -> Iterator[str]:
    shares = list(facts["shares_ppm"])
    if len(shares) > 1:
        sums = f"{percent_text(shares[0])} and {percent_text(shares[1])}"
        yield f"The largest predicted CPU shares of the two rows were {sums}{_sum_text(shares, facts['below_ppm'])}."
    elif facts["alone"] is not None:
        yield f"The row had no partner, because {_ALONE.get(facts['alone'], facts['alone'])}."
        if facts["other_ppm"] is not None:
            least = ", the least of the others," if facts["alone"] == "none-fits" else ""
            shares.append(facts["other_ppm"])
            sums = f"{percent_text(shares[0])}, that of row {facts['other']}{least} {percent_text(shares[1])}"
            yield f"Its largest predicted CPU share was {sums}{_sum_text(shares, facts['below_ppm'])}."


def _sum_text(shares_ppm: Sequence[int], below_ppm: int | None) -> str:
    """Return how the sum of two shares compares with its bound, if there is one."""
    if below_ppm is None:
        return ""
    return f": in sum {'' if sum(shares_ppm) < below_ppm else 'not '}less than {percent_text(below_ppm)}"


def _why_moved(move: Facts) -> str:
    match move["reason"]:
        case "band":
            least = "" if move["least_ppm"] is None else f", where the least is {percent_text(move['least_ppm'])}"
            return (
                f": its predicted CPU share of {percent_text(move['share_ppm'])} was out of the band of its row{least}"
            )
        case "compaction":
            return ": other rows had room for all jobs of its row"
        case None:
            return ""
        case other:
            return f", because of what the policy calls {other!r}"


def _rows(slots: Sequence[int]) -> str:
    if len(slots) == 1:
        return f"row {slots[0]}"
    return f"rows {', '.join(map(str, slots[:-1]))} and {slots[-1]}"
