"""An answer in full: tables and conditions for a terminal and a page, and the same as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from cosched_emulator.results.figures.comparison import change_text
from cosched_emulator.statistics.intervals import LEVEL, Interval
from cosched_emulator.whatif import answer_lead
from cosched_emulator.whatif.answer import FIGURES, Answer, Compared, Swing, plain
from cosched_emulator.whatif.told import is_assumed, missing_facts, site_name
from cosched_terminal.console import printable
from cosched_terminal.tables import align

_LISTED: Final = 5  # pairs to measure
_TOGETHER: Final = f"{100 * LEVEL:g} % intervals that hold for all rows of a column together"


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
            f"What the answer depends on: change of the mean response, %, if one assumption is changed; {_TOGETHER}"
        )
        rows = [["assumption", "contention", "policy", "as assumed", "as changed", "moved by"]]
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
    """Yield what the log says without a run, what the site has not told, every assumption, what was not compared, and what failed."""
    yield from (f"from the log alone: {text}" for text in answer.prepared.sharing)
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
    parts = [*answer_lead.brief(answer), *answer.of_record]
    for table in tables(answer):
        parts += ["", table.caption, *align(table.rows, range(table.first, table.last))]
    return "\n".join([*parts, "", "Assumptions", *(f"- {printable(each)}" for each in conditions(answer))])


def _candidates(answer: Answer) -> AnswerTable:
    caption = (
        f"Candidates: change against {answer.present}, %, over windows; later: % of jobs, beyond chance; {_TOGETHER}"
    )
    rows = [["policy", "contention", "verdict", *FIGURES.values(), "later", "shared, %", "who pays"]]
    rows += [
        [
            one.candidate.policy,
            one.contention if one.candidate.shares else "-",
            one.verdict + answer_lead.of_windows(one, answer),
            *(_cell(one.changes[column]) for column in FIGURES),
            _cell(one.later),
            f"{one.shared:.0f}",
            answer_lead.payer_names(one),
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
    recorded, present = (None if each is None else each._asdict() for each in answer_lead.own_log(answer))
    question = answer.prepared.question
    return {
        "headline": answer_lead.headline(answer),
        "how_sure": answer_lead.how_sure(answer),
        "measure_first": answer_lead.next_step(answer),
        "site": site_name(str(question.site["workload"]["swf"])),
        "baseline": {
            "verdict": answer_lead.standing(answer.distance),
            "assumed": is_assumed(question),
            **_distance(answer),
        },
        "facts_missing": list(missing_facts(question)),
        "recorded_wait_min": recorded,
        "present_wait_min": present,
        "guests_in_record": list(answer.of_record),
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
