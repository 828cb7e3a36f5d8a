"""What an answer says first: what changes and for whom, how sure that is, the log beside the baseline, and what to do next.

A page shows it on the first screen, a terminal in ten lines. No gain is said that the gate of `answer` does not let through.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from cosched_emulator.results.figures.comparison import NOTHING, change_text
from cosched_emulator.statistics.intervals import Interval
from cosched_emulator.whatif.answer import FAR, GAIN, HARM, OPEN, UNCHECKED, VERDICTS, Answer, Compared
from cosched_emulator.whatif.causes import LEAST
from cosched_emulator.whatif.distance import Distance
from cosched_emulator.whatif.told import baseline_name, missing_facts
from cosched_emulator.whatif.waits import WEEK_S, Summary, drift_of, summary_of, user_hours
from cosched_emulator.workload.jobs_in_columns import columns_of
from cosched_hwmodel.units import SECOND_US
from cosched_terminal.tables import text_lines


def headline(answer: Answer) -> str:
    """Return what changes, and for whom, in hours and jobs; a change that is not shown is not told as one."""
    if reason := cannot_tell(answer):
        return reason
    best = answer.best
    assert best is not None
    what = f"{best.candidate.policy} ({best.candidate.what})"
    if best.verdict == GAIN:
        return f"With {what} {_told(answer, best)}."
    if best.verdict in (FAR, UNCHECKED):
        return f"{no_claim(answer)} A computation, not a forecast: with {what} {_told(answer, best)}."
    begin = f"{no_claim(answer)} ".lstrip()
    if best.verdict == HARM:
        return f"{begin}Every candidate is shown to do harm. The least is done by {what}: mean response {short(best.response)}."
    return f"{begin}No candidate is shown to gain. {what} comes nearest: mean response {short(best.response)}{needed(best)}."


def cannot_tell(answer: Answer) -> str:
    """Return why nothing can be told of any candidate; empty where something can."""
    scale = answer.prepared.question.scale
    if answer.best is None:
        asked = answer.prepared.question.only
        whys = [f": {why}" for one, why in answer.not_compared if one.policy in asked]
        return f"No candidate can be compared with the present policy{''.join(whys[:1])}."
    if answer.windows < scale.least:
        return f"The log cannot tell: it is too short for {scale.least} windows of {scale.fewest} jobs."
    if all(one.windows < scale.least for one in answer.compared):
        return f"The log cannot tell: {answer.present} and a candidate both ran in fewer than {scale.least} windows."
    return ""


def no_claim(answer: Answer) -> str:
    """Return why no gain can be claimed, though one may have been computed; empty where nothing speaks against it."""
    found = answer.distance
    if found is None:
        recorded, _ = own_log(answer)
        why = "the log records no waits" if recorded is None else "the run of the whole log failed"
        return f"No gain can be checked: {why}."
    waits = f"recorded {found.recorded.mean:,.0f} min, simulated {found.simulated.mean:,.0f}"
    if not found.credible:
        return f"The model does not explain this log: {waits}."
    if answer.best is not None and answer.best.verdict == FAR:
        drift = drift_of(answer.prepared, answer.waits_under(answer.best))
        if max(drift, 1 / drift) > math.exp(found.error_most):
            return (
                f"The windows do not reproduce the baseline: the same jobs wait {drift:.2g} times as long as in the whole log, "
                "because jobs that share nodes slow each other down."
            )
        return f"The model does not explain this log well enough for such small gains: {waits}."
    return ""


def _told(answer: Answer, best: Compared) -> str:
    """Return what a candidate changes, in hours and jobs."""
    waits = answer.waits_under(best)
    if waits is None:
        return "jobs respond sooner"
    users = user_hours(answer.prepared, waits)
    if users:
        less, more = ([hours for hours in users.values() if sign * hours > 0] for sign in (-1, 1))
        others = f"{len(more):,} wait {sum(more):,.0f} h more" if more else "none waits longer"
        told = f"{len(less):,} users wait {-sum(less):,.0f} h less a week, {others}"
    else:
        told = f"{len(waits.rows):,} jobs wait {waits.fewer_hours:,.0f} h less a week"
    return told + f"; jobs run {waits.longer_hours:,.0f} h longer, because they share nodes" * (
        waits.longer_hours > 0.5
    )


def how_sure(answer: Answer) -> str:
    """Return over how many windows the change is shown, and how near the baseline is to the record."""
    best, found = answer.best, answer.distance
    parts = []
    if best is not None and best.verdict not in (OPEN, HARM):
        parts.append(f"mean response {short(best.response)} over {best.windows} windows")
    if found is None:
        parts.append(f"how near our baseline is to your site {UNCHECKED}")
    else:
        waits = f"the baseline's mean wait is {found.ratio:.2f} of the recorded one{_weekly(found)}"
        parts.append(f"{waits}: {f'credible for changes beyond {found.beyond}' if found.credible else FAR}")
    return "; ".join(parts)


def _weekly(found: Distance) -> str:
    return "" if math.isnan(found.weekly_r) else f" (weekly means: r {found.weekly_r:.2f})"


def standing(found: Distance | None) -> str:
    """Return what the baseline is good for on this log."""
    if found is None:
        return UNCHECKED
    return f"credible beyond {found.beyond}" if found.credible else FAR


def next_step(answer: Answer) -> str:
    """Return what to measure first; where the baseline is not credible, what to tell of the site."""
    best = answer.best
    if answer.distance is None or not answer.distance.credible:
        if answer.causes and answer.causes[0].share >= LEAST:
            return f"{answer.causes[0].name} explain most: see {answer.causes[0].tell}"
        missing = missing_facts(answer.prepared.question)
        if missing:
            return f"give the site's facts (workload import --facts): {', '.join(missing)}"
        return "find out what delays the jobs whose simulated waits differ most from the recorded ones"
    if answer.measure:
        one, other, _ = answer.measure[0]
        return f"measure {one} beside {other}: they would share nodes longest"
    if answer.swings:
        return f"find out whether {answer.swings[0].change.what}: the answer depends most on it"
    if best is not None and best.verdict == OPEN and needed(best):
        return f"run more windows of the log (--window-count {best.needed:.0f})"
    return "watch a candidate beside the live cluster"


def own_log(answer: Answer) -> tuple[Summary | None, Summary | None]:
    """Return the waits that the log records, and those of the same jobs in the whole run under the present policy."""
    if answer.distance is not None:
        return answer.distance.recorded, answer.distance.simulated
    whole = answer.prepared.whole
    return summary_of(answer.recorded_s), None if whole is None else summary_of(whole.waits_s)


def about_log(answer: Answer) -> str:
    """Return the size of the log, in absolute figures."""
    log = answer.prepared.log
    jobs = columns_of(log.jobs)
    submit_us = jobs.submit_us.array
    span_s = float(submit_us[-1] - submit_us[0]) / SECOND_US
    users = len({user for user in jobs.each(jobs.user) if user})
    told = f"{len(log.jobs):,} jobs" + f" of {users:,} users" * bool(users) + f" in {span_s / WEEK_S:,.1f} weeks"
    if log.processors and span_s > 0:
        work_s = float(np.dot(jobs.processes.array.astype(np.float64), jobs.run_us.array)) / SECOND_US
        told += f"; load {work_s / span_s / log.processors:.2f} of {log.processors:,} processors"
    return told


def box_rows(answer: Answer) -> list[list[str]]:
    """Return the log beside the baseline, below a heading."""
    found = answer.distance
    pair = own_log(answer)
    rows = [["", "your log", f"our baseline ({baseline_name(answer.prepared.question)})"]]
    for label, field in (("mean wait, min", "mean"), ("median", "median"), ("95th percentile", "p95")):
        rows.append([label, *(NOTHING if each is None else f"{getattr(each, field):,.0f}" for each in pair)])
    if found is not None:
        busy = [
            NOTHING if math.isnan(each) else f"{100 * each:.0f} %"
            for each in (found.busy_recorded, found.busy_simulated)
        ]
        rows.append(["utilisation while jobs wait", *busy])
        if found.weeks:
            rows.append(["weeks within a factor of 2", "", f"{100 * found.weeks_within_2:.0f} % of {found.weeks}"])
        if not math.isnan(found.weekly_r):
            rows.append(["r of weekly means", "", f"{found.weekly_r:.2f}"])
    rows.append(["verdict", "", standing(found)])
    return rows


def candidate_rows(answer: Answer) -> list[list[str]]:
    """Return a line for each candidate below a heading: what can be read at a glance."""
    rows = [["candidate", "what it is", "verdict", "response, %", "wait, h a week", "who pays"]]
    for one in answer.compared:
        waits = answer.waits_under(one)
        hours = NOTHING if waits is None else f"{-waits.fewer_hours:+,.0f}"
        verdict = one.verdict + of_windows(one, answer)
        name = named(one) if len(answer.prepared.hardware) > 1 else one.candidate.policy
        rows.append(
            [name, one.candidate.what, verdict, change_text(one.response, 0) or NOTHING, hours, payer_names(one, 1)]
        )
    return rows


def brief(answer: Answer) -> list[str]:
    """Return the ten lines of a terminal with 80 columns."""
    recorded, present = own_log(answer)
    found = answer.distance
    busy = [None, None] if found is None else [found.busy_recorded, found.busy_simulated]
    name = f"Baseline ({baseline_name(answer.prepared.question)}): "
    return [
        *text_lines(headline(answer), 3),
        *text_lines(f"How sure: {how_sure(answer)}", 2),
        *text_lines(f"Your log: {_waits_text(recorded, busy[0], ' while jobs wait')}", 1),
        *text_lines(f"{name}{_waits_text(present, busy[1])}", 1),
        *text_lines("; ".join(_by_verdict(answer)), 2),
        *text_lines(f"Next: {next_step(answer)}", 1),
    ]


def _waits_text(found: Summary | None, busy: float | None, when: str = "") -> str:
    if found is None:
        return "no waits"
    told = f"mean wait {found.mean:,.0f} min, median {found.median:,.0f}, p95 {found.p95:,.0f}"
    return told if busy is None or math.isnan(busy) else f"{told}; {100 * busy:.0f} % busy{when}"


def _by_verdict(answer: Answer) -> Iterator[str]:
    for verdict in VERDICTS:
        found = [one for one in answer.compared if one.verdict == verdict]
        if found:
            names = ", ".join(
                one.candidate.policy + (f" {one.response.mean:+.0f} %" if verdict != OPEN and one.response else "")
                for one in found
            )
            yield f"{verdict}: {names}"


# ---------------------------------------------------------------- texts that all parts of an answer share


def named(one: Compared) -> str:
    """Return a candidate with the way of contention that it is about."""
    return f"{one.candidate.policy}, {one.contention}" if one.candidate.shares else one.candidate.policy


def payer_names(one: Compared, most: int = 3) -> str:
    """Return the first of those who are shown to respond later, and how many more there are."""
    who = [payer.name for payer in (*one.classes, *one.users)]
    more = f" and {len(who) - most} more" * (len(who) > most)
    return f"{', '.join(who[:most])}{more}" or NOTHING


def of_windows(one: Compared, answer: Answer) -> str:
    """Say in how many windows both policies ran, where one did not in some."""
    return f", in {one.windows} of {answer.windows} windows" * (one.windows < answer.windows)


def needed(one: Compared) -> str:
    """Say how many windows would tell, where more than there are would."""
    enough = one.windows < one.needed < math.inf
    return f"; about {one.needed:,.0f} such windows would tell" * enough


def short(found: Interval | None) -> str:
    """Return a change in percent and its interval: ``-12 % (-16 to -8)``."""
    return change_text(found, 0, " %") or "no figure"
