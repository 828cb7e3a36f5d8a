"""An answer in full: a paragraph, which claims nothing whose interval includes no change, tables, and the same as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from cosched_emulator.results.figures.comparison import change_text
from cosched_emulator.statistics.intervals import LEVEL, Interval
from cosched_emulator.whatif.answer import (
    FAR,
    FIGURES,
    GAIN,
    HARM,
    OPEN,
    UNCHECKED,
    Answer,
    Compared,
    Payer,
    Swing,
    plain,
)
from cosched_emulator.whatif.answer_lead import (
    brief,
    cannot_tell,
    headline,
    how_sure,
    named,
    needed,
    next_step,
    no_claim,
    of_windows,
    own_log,
    payer_names,
    short,
    standing,
)
from cosched_emulator.whatif.candidates import CHANGES, CONTENTIONS
from cosched_emulator.whatif.told import is_assumed, missing_facts, site_name
from cosched_terminal.console import printable
from cosched_terminal.tables import align

_NAMED: Final = 3  # payers, assumptions and pairs in a sentence
_LISTED: Final = 5
_REASONS: Final = {
    FAR: "is not credible, as the baseline is further from the record, or does not follow it",
    UNCHECKED: "cannot be checked",
}
_TOGETHER: Final = f"intervals of {100 * LEVEL:g} % for all rows together"


def paragraph(answer: Answer) -> str:
    """Return the answer in sentences."""
    return " ".join(sentences(answer))


def sentences(answer: Answer) -> Iterator[str]:
    """Yield the answer sentence by sentence."""
    if claim := no_claim(answer):
        yield claim
    yield (
        f"The log was run in {answer.windows} window{'s' * (answer.windows > 1)} of {answer.prepared.window_jobs:,} jobs, "
        f"and every policy compared with {answer.present}."
    )
    yield from (f"Without any run the log says: {text}." for text in answer.prepared.sharing)
    if reason := cannot_tell(answer):
        yield reason
        return
    yield from _gains_and_harms(answer)
    yield from _no_gains(answer)
    same = [one for one in answer.compared if one.response and one.response.low == one.response.high == 0]
    if same:
        yield f"With {', '.join(one.candidate.policy + of_windows(one, answer) for one in same)} nothing changes."
    unsure = [one for one in answer.compared if one.verdict == OPEN and one not in same]
    if unsure:
        names = ", or with ".join(
            f"{one.candidate.policy}: {short(one.response)}{of_windows(one, answer)}{needed(one)}" for one in unsure
        )
        yield f"The log cannot tell whether the mean response changes with {names}."
    yield from _no_gain_of_sharing(answer)
    yield from _opted_in(answer)
    yield from _hanging(answer)
    if answer.measure:
        pairs = answer.measure[:_NAMED]
        told = ", ".join(f"{one} beside {other} ({share:.0f} %)" for one, other, share in pairs)
        yield f"To know better, measure those programs beside each other that would share nodes longest: {told}."


def _opted_in(answer: Answer) -> Iterator[str]:
    """Yield what is left of an add-on's gain where fewer users opt in: no other assumption counts as much."""
    for policy in dict.fromkeys(change.of for change in CHANGES if change.of):
        asked = [
            swing for change in CHANGES for swing in answer.swings if swing.change == change and change.of == policy
        ]
        if asked:
            told = [f"{short(asked[0].before)} where all users opt in"]
            told += [f"{short(swing.response)} where {swing.change.what}" for swing in asked]
            yield f"With {policy} the mean response changes by {'; by '.join(told)}."


def _hanging(answer: Answer) -> Iterator[str]:
    """Yield the assumptions that are shown to move the answer, or the one that moves it most, and those without the gain."""
    others = [swing for swing in answer.swings if not swing.change.of]
    shown = [swing for swing in others if swing.shown]
    if shown:
        yield f"The answer hangs most on {_hangs(shown[:_NAMED])}."
    elif others:
        yield f"No changed assumption is shown to change the answer by itself; it depends most on {_hangs(others[:1])}."
    gained = {(one.candidate, one.contention) for one in answer.compared if one.verdict == GAIN}
    lost = [
        swing
        for swing in answer.swings
        if (swing.candidate, swing.contention) in gained and _is_gain(swing.before) and not _is_gain(swing.response)
    ]
    if lost:
        names = "; ".join(f"{swing.change.what} ({swing.contention})" for swing in lost)
        yield f"No gain is shown any more where {names}."


def _is_gain(change: Interval | None) -> bool:
    return change is not None and change.high < 0


def _gains_and_harms(answer: Answer) -> Iterator[str]:
    """Yield what is shown: the shortest mean response first, who pays for it, and its energy; then harm."""
    told = [one for one in answer.compared if one.verdict in (GAIN, HARM)]
    told.sort(key=lambda one: (one.verdict == HARM, one.response.mean if one.response else 0))
    where = ""
    for one in told:
        place = f"Where {CONTENTIONS[one.contention].what}," if one.candidate.shares else "Without sharing,"
        begin, where = "There," if place == where else place, place
        windows = of_windows(one, answer)
        if one.verdict == GAIN:
            yield f"{begin} {one.candidate.policy} shortens the mean response by {_span(one.response, -1)}{windows}."
            yield from _energy(one)
        else:
            yield f"{begin} {one.candidate.policy} does harm: the mean response is longer by {_span(one.response)}{windows}."
        yield from _who_pays(one)
    if told and not any(one.users_told for one in told):
        yield "Which users pay, the log does not tell."


def _no_gains(answer: Answer) -> Iterator[str]:
    """Yield what was computed as a gain, and is none: nobody can check it, or the baseline is further from the record."""
    found = [one for one in answer.compared if one.verdict in (FAR, UNCHECKED)]
    if found:
        names = "; ".join(f"{named(one)}: {short(one.response)}" for one in found)
        yield f"Computed as a shorter mean response, which {_REASONS[found[0].verdict]}: {names}."


def _no_gain_of_sharing(answer: Answer) -> Iterator[str]:
    least = answer.prepared.question.scale.least
    sharing = [one for one in answer.compared if one.candidate.shares and one.windows >= least]
    if not sharing:
        yield from _sharing_not_tried(answer)
        return
    gained = {one.contention for one in sharing if one.verdict == GAIN}
    without = [name for name in dict.fromkeys(one.contention for one in sharing) if name not in gained]
    if not gained:
        yield "No gain of sharing nodes is shown."
    else:
        yield from (f"No gain of sharing is shown where {CONTENTIONS[name].what}." for name in without)


def _sharing_not_tried(answer: Answer) -> Iterator[str]:
    """Yield that nothing is known of sharing nodes, and why."""
    if any(one.candidate.shares for one in answer.compared):
        why = "runs failed, and too few windows are left"
    else:
        why = "; ".join(dict.fromkeys(reason for one, reason in answer.not_compared if one.shares))
    yield f"Whether sharing nodes gains anything was not tried: {why}."


def _who_pays(one: Compared) -> Iterator[str]:
    if one.classes:
        yield f"Later are {_listed(one.classes, '{} jobs')}."
    if one.users:
        more = f" and {len(one.users) - _NAMED} more of {one.users_told} users" * (len(one.users) > _NAMED)
        yield f"Later are the jobs of {_listed(one.users, '{}')}{more}."
    if one.later is not None and one.later.exists and one.later.low > 0:
        yield f"{_span(one.later)} of the jobs are later than in any run of the present policy, beyond chance."
    elif not one.classes and not one.users:
        yield "No class of jobs and no user is shown to pay." if one.users_told else "No class of jobs is shown to pay."


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
        f"whether {swing.change.what}: with {swing.candidate.policy} ({swing.contention}) the mean response changes by "
        f"{short(swing.response)} instead of {short(swing.before)}"
        for swing in swings
    )


def _listed(payers: Sequence[Payer], form: str) -> str:
    return ", ".join(f"{form.format(payer.name)} (by {_span(payer.change)})" for payer in payers[:_NAMED])


def _span(found: Interval | None, sign: int = 1) -> str:
    """Return an interval in percent: ``12 % (10 to 15)``."""
    if found is None:
        return "-"
    low, high = sorted((sign * found.low, sign * found.high))
    return f"{_percent(sign * found.mean)} % ({_percent(low)} to {_percent(high)})"


def _percent(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 10 else f"{value:.1f}"


# ---------------------------------------------------------------- tables


class AnswerTable(NamedTuple):
    """A table for a terminal and for a page; numbers stand in the columns from ``first`` to before ``last``."""

    caption: str
    rows: list[list[str]]  # the first one is the heading
    first: int
    last: int


def tables(answer: Answer) -> Iterator[AnswerTable]:
    """Yield the candidates, what the answer hangs on, and what to measure, as far as there is any."""
    yield _candidates(answer)
    if answer.swings:
        caption = (
            "What the answer depends on: change of the mean response, %, where one assumption is another"
            f"; {_TOGETHER} of a column"
        )
        rows = [["assumption", "contention", "policy", "as assumed", "with the other", "moved by"]]
        rows += [
            [
                swing.change.what,
                swing.contention,
                swing.candidate.policy,
                "-" if swing.before is None else f"{swing.before.mean:+.1f}",
                *map(_cell, (swing.response, swing.moved)),
            ]
            for swing in answer.swings
        ]
        yield AnswerTable(caption, rows, 3, 6)
    if answer.measure:
        rows = [["program", "beside", "share of shared time, %"]]
        rows += [[one, other, f"{share:.1f}"] for one, other, share in answer.measure[:_LISTED]]
        yield AnswerTable("Measure next", rows, 2, 3)


def conditions(answer: Answer) -> Iterator[str]:
    """Yield what the site has not told, every assumption, what was not compared, and what failed."""
    missing = missing_facts(answer.prepared.question)
    if missing:
        yield f"not given by the site: {', '.join(missing)}"
    yield from () if answer.distance is None else answer.distance.why_not
    yield from answer.prepared.assumptions
    for candidate, reason in answer.not_compared:
        yield f"not compared: {candidate.policy}, {reason}"
    if answer.failed:
        yield f"{answer.failed} runs failed, and do not count"


def text(answer: Answer) -> str:
    """Return all of an answer for a terminal."""
    parts = [*brief(answer), "", "In full", printable(paragraph(answer)), *answer.of_record]
    for table in tables(answer):
        parts += ["", table.caption, *align(table.rows, range(table.first, table.last))]
    return "\n".join([*parts, "", "Assumptions", *(f"- {printable(each)}" for each in conditions(answer))])


def _candidates(answer: Answer) -> AnswerTable:
    caption = f"Candidates: change against {answer.present}, %, over windows; later: % of jobs, beyond chance; {_TOGETHER} of a column"
    rows = [["policy", "contention", "verdict", *FIGURES.values(), "later", "shared, %", "who pays"]]
    rows += [
        [
            one.candidate.policy,
            one.contention if one.candidate.shares else "-",
            one.verdict + of_windows(one, answer),
            *(_cell(one.changes[column]) for column in FIGURES),
            _cell(one.later),
            f"{one.shared:.0f}",
            payer_names(one),
        ]
        for one in answer.compared
    ]
    return AnswerTable(caption, rows, 3, 5 + len(FIGURES))


def _cell(found: Interval | None) -> str:
    return change_text(found) or "-"


# ---------------------------------------------------------------- JSON


def _distance(answer: Answer) -> dict[str, Any]:
    """Return how far the baseline is from the record; None is what does not exist."""
    found = answer.distance
    if found is None:
        return {}
    figures = {
        "ratio": found.ratio,
        "error": found.error,
        "error_most": found.error_most,
        "weekly_r": found.weekly_r,
        "weeks": found.weeks,
        "weeks_within_2": found.weeks_within_2,
        "busy_recorded": found.busy_recorded,
        "busy_simulated": found.busy_simulated,
    }
    plain = {name: value if math.isfinite(value) else None for name, value in figures.items()}
    return {**plain, "causes": [cause._asdict() for cause in answer.causes]}


def as_dict(answer: Answer) -> dict[str, Any]:
    """Return all of an answer as plain values."""
    recorded, present = (None if each is None else each._asdict() for each in own_log(answer))
    question = answer.prepared.question
    return {
        "headline": headline(answer),
        "how_sure": how_sure(answer),
        "measure_first": next_step(answer),
        "site": site_name(str(question.site["workload"]["swf"])),
        "baseline": {"verdict": standing(answer.distance), "assumed": is_assumed(question), **_distance(answer)},
        "facts_missing": list(missing_facts(question)),
        "recorded_wait_min": recorded,
        "present_wait_min": present,
        "guests_in_record": list(answer.of_record),
        "paragraph": paragraph(answer),
        "present": answer.present,
        "windows": answer.windows,
        "window_jobs": answer.prepared.window_jobs,
        "jobs": len(answer.prepared.log.jobs),
        "candidates": [_candidate(answer, one) for one in answer.compared],
        "hangs_on": [*map(_swing, answer.swings)],
        "sharing": list(answer.prepared.sharing),
        "measure_next": [pair._asdict() for pair in answer.measure],
        "assumptions": list(answer.prepared.assumptions),
        "not_compared": {candidate.policy: reason for candidate, reason in answer.not_compared},
        "failed_runs": answer.failed,
    }


def _candidate(answer: Answer, one: Compared) -> dict[str, Any]:
    waits = answer.waits_under(one)
    return {
        "policy": one.candidate.policy,
        "what": one.candidate.what,
        "contention": one.contention,
        "shares": one.candidate.shares,
        "verdict": one.verdict,
        "windows": one.windows,
        "change_percent": {column: plain(change) for column, change in one.changes.items()},
        "fewer_wait_hours_a_week": None if waits is None else waits.fewer_hours,
        "wait_ratio": one.wait_ratio if math.isfinite(one.wait_ratio) else None,
        "windows_needed": one.needed if math.isfinite(one.needed) else None,
        "later_percent": plain(one.later),
        "shared_percent": one.shared,
        "classes_that_pay": {payer.name: plain(payer.change) for payer in one.classes},
        "users_that_pay": {payer.name: plain(payer.change) for payer in one.users},
        "users": one.users_told,
    }


def _swing(swing: Swing) -> dict[str, Any]:
    return {
        "assumption": swing.change.name,
        "what": swing.change.what,
        "contention": swing.contention,
        "policy": swing.candidate.policy,
        "as_assumed_percent": plain(swing.before),
        "change_percent": plain(swing.response),
        "moved_percent_points": plain(swing.moved),
        "shown": swing.shown,
    }
