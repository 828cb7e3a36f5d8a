"""An answer in words: one paragraph, which claims nothing whose interval includes no change, and one table; and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

from cosched_emulator.statistics.intervals import Interval
from cosched_emulator.whatif.answer import FIGURES, GAIN, HARM, OPEN, Answer, Compared, Payer, Swing, plain
from cosched_emulator.whatif.candidates import CONTENTIONS
from cosched_hwmodel.cli.terminal.console import align

_NAMED: Final = 3  # payers, assumptions and pairs in a sentence
_LISTED: Final = 5


def paragraph(answer: Answer) -> str:
    """Return the answer in sentences."""
    return " ".join(_sentences(answer))


def _sentences(answer: Answer) -> Iterator[str]:
    yield (
        f"Compared with {answer.present}, over {answer.windows} window{'s' * (answer.windows > 1)} of "
        f"{answer.prepared.window_jobs:,} jobs:"
    )
    if answer.windows < 2:
        yield "the log cannot tell, because it is too short for two windows, and one has no interval."
        return
    gains = [one for one in answer.compared if one.verdict == GAIN]
    for one in sorted(gains, key=lambda one: one.response.mean if one.response else 0):
        yield f"{_under(one)} {one.candidate.policy} shortens the mean response by {_span(one.response, -1)}."
        yield from _who_pays(one)
        yield from _energy(one)
    for one in answer.compared:
        if one.verdict == HARM:
            yield f"{_under(one)} {one.candidate.policy} does harm: the mean response is longer by {_span(one.response)}."
            yield from _who_pays(one)
    unsure = [one for one in answer.compared if one.verdict == OPEN]
    if unsure:
        names = ", ".join(f"{one.candidate.policy} ({_short(one.response)}{_needed(one)})" for one in unsure)
        yield f"The log cannot tell whether {names} change{'s' * (len(unsure) == 1)} the mean response."
    if not any(one.candidate.shares for one in gains):
        yield "No gain of sharing nodes is shown."
    shown = [
        swing
        for swing in answer.swings
        if swing.moved and swing.moved.exists and not swing.moved.low <= 0 <= swing.moved.high
    ]
    if shown:
        yield f"The answer hangs most on {_hangs(shown[:_NAMED])}."
    elif answer.swings:
        yield "None of the changed assumptions is shown to move the answer."
    if answer.measure:
        pairs = answer.measure[:_NAMED]
        told = ", ".join(f"{one} beside {other} ({share:.0f} %)" for one, other, share in pairs)
        yield f"To know better, measure those programs beside each other that would share nodes longest: {told}."


def _who_pays(one: Compared) -> Iterator[str]:
    if one.classes:
        yield f"Later are {_listed(one.classes, '{} jobs')}."
    if one.users:
        more = f" and {len(one.users) - _NAMED} more of {one.users_told} users" * (len(one.users) > _NAMED)
        yield f"Later are the jobs of {_listed(one.users, 'user {}')}{more}."
    if one.later is not None and one.later.exists and one.later.low > 0:
        yield f"{_span(one.later)} of the jobs are later than in any run of the present policy, beyond chance."
    elif not one.classes and not one.users:
        yield f"Nobody is shown to pay (6 classes, {one.users_told} users)."


def _energy(one: Compared) -> Iterator[str]:
    found = one.changes["energy_total_j"]
    if found is not None and found.exists:
        sure = not found.low <= 0 <= found.high
        verb = "falls" if found.mean < 0 else "rises"
        yield (
            f"Energy {verb} by {_span(found, -1 if found.mean < 0 else 1)}."
            if sure
            else "No change of energy is shown."
        )


def _hangs(swings: Sequence[Swing]) -> str:
    return "; ".join(
        f"{swing.change.what} ({swing.contention}: the change with {swing.candidate.policy} becomes {_short(swing.response)})"
        for swing in swings
    )


def _under(one: Compared) -> str:
    return f"Where {CONTENTIONS[one.contention].what}," if one.candidate.shares else "Without sharing,"


def _needed(one: Compared) -> str:
    return f"; about {one.needed:,.0f} such windows would tell" if math.isfinite(one.needed) else ""


def _listed(payers: Sequence[Payer], form: str) -> str:
    return ", ".join(f"{form.format(payer.name)} (by {_span(payer.change)})" for payer in payers[:_NAMED])


def _span(found: Interval | None, sign: int = 1) -> str:
    """Return an interval in percent: ``12 % (10 to 15)``."""
    if found is None:
        return "-"
    low, high = sorted((sign * found.low, sign * found.high))
    return f"{_percent(sign * found.mean)} % ({_percent(low)} to {_percent(high)})"


def _short(found: Interval | None) -> str:
    if found is None:
        return "no figure"
    if not found.exists:
        return f"{found.mean:+.0f} %"
    return f"{found.mean:+.0f} %, {found.low:+.0f} to {found.high:+.0f}"


def _percent(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 10 else f"{value:.1f}"


# ---------------------------------------------------------------- the table


def text(answer: Answer) -> str:
    """Return the paragraph, the table, what the answer hangs on, what to measure, and every assumption."""
    parts = [paragraph(answer), "", *_table(answer)]
    if answer.swings:
        parts += [
            "",
            "What the answer hangs on: change of the mean response if one assumption is another",
            *_swings(answer),
        ]
    if answer.measure:
        rows = [["share of shared time", "program", "beside"]]
        rows += [[f"{share:.1f} %", one, other] for one, other, share in answer.measure[:_LISTED]]
        parts += ["", "Measure next", *align(rows, (0,))]
    parts += ["", "Assumptions", *(f"- {note}" for note in answer.prepared.assumptions)]
    parts += [f"- not compared: {candidate.policy}, {reason}" for candidate, reason in answer.prepared.left_out]
    if answer.failed:
        parts.append(f"- {answer.failed} runs failed, and do not count")
    return "\n".join(parts) + "\n"


def _table(answer: Answer) -> Iterator[str]:
    yield f"Change against {answer.present}, %, with 95 % intervals over windows; later: % of jobs, beyond chance"
    rows = [["policy", "contention", "verdict", *FIGURES.values(), "later", "shared", "who pays"]]
    for one in answer.compared:
        who = [payer.name for payer in one.classes] + [f"user {payer.name}" for payer in one.users]
        more = f" and {len(who) - _NAMED} more" * (len(who) > _NAMED)
        rows.append(
            [
                one.candidate.policy,
                one.contention if one.candidate.shares else "-",
                one.verdict,
                *(_cell(one.changes[column]) for column in FIGURES),
                _cell(one.later),
                f"{one.shared:.0f} %",
                f"{', '.join(who[:_NAMED])}{more}" or "-",
            ]
        )
    yield from align(rows, range(3, 3 + len(FIGURES) + 2))


def _cell(found: Interval | None) -> str:
    if found is None:
        return "-"
    return f"{found.mean:+.1f}" + (f" ({found.low:+.1f} to {found.high:+.1f})" if found.exists else "")


def _swings(answer: Answer) -> Iterator[str]:
    rows = [["assumption", "contention", "policy", "change", "moved by"]]
    rows += [
        ["as above", one.contention, one.candidate.policy, _cell(one.response), "-"] for one in answer.best.values()
    ]
    rows += [
        [swing.change.what, swing.contention, swing.candidate.policy, _cell(swing.response), _cell(swing.moved)]
        for swing in answer.swings
    ]
    yield from align(rows, (3, 4))


# ---------------------------------------------------------------- JSON


def as_dict(answer: Answer) -> dict[str, Any]:
    """Return all of an answer as plain values."""
    return {
        "paragraph": paragraph(answer),
        "present": answer.present,
        "windows": answer.windows,
        "window_jobs": answer.prepared.window_jobs,
        "jobs": len(answer.prepared.log.jobs),
        "candidates": [
            {
                "policy": one.candidate.policy,
                "what": one.candidate.what,
                "contention": one.contention,
                "shares": one.candidate.shares,
                "verdict": one.verdict,
                "change_percent": {column: plain(found) for column, found in one.changes.items()},
                "windows_needed": one.needed if math.isfinite(one.needed) else None,
                "later_percent": plain(one.later),
                "shared_percent": one.shared,
                "classes_that_pay": {payer.name: plain(payer.change) for payer in one.classes},
                "users_that_pay": {payer.name: plain(payer.change) for payer in one.users},
                "users": one.users_told,
            }
            for one in answer.compared
        ],
        "hangs_on": [
            {
                "assumption": swing.change.name,
                "what": swing.change.what,
                "contention": swing.contention,
                "policy": swing.candidate.policy,
                "change_percent": plain(swing.response),
                "moved_percent_points": plain(swing.moved),
            }
            for swing in answer.swings
        ],
        "measure_next": [pair._asdict() for pair in answer.measure],
        "assumptions": list(answer.prepared.assumptions),
        "not_compared": {candidate.policy: reason for candidate, reason in answer.prepared.left_out},
        "failed_runs": answer.failed,
    }
