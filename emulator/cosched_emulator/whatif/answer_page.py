"""An answer as a page: what it says first, then the weeks, what it hangs on, whom it concerns, and everything in full."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from cosched_emulator.page.document import Bars, Beside, Block, Page, Paragraph, Section, Table
from cosched_emulator.page.over_time import Line, lines_figure
from cosched_emulator.page.study_page import change_bars
from cosched_emulator.whatif.answer import FAR, GAIN, HARM, UNCHECKED, Answer, Compared
from cosched_emulator.whatif.answer_lead import about_log, box_rows, candidate_rows, headline, how_sure, next_step
from cosched_emulator.whatif.answer_text import conditions, tables
from cosched_emulator.whatif.told import site_name
from cosched_emulator.whatif.waits import (
    MOST_GROUPS,
    RUNS_S,
    SIZES,
    Group,
    Waits,
    by_week,
    groups_of,
    size_map,
    whole_log,
)

_MARKS: Final = {GAIN: "good", HARM: "bad"}  # of what is shown
_CELLS: Final = {**_MARKS, FAR: "open", UNCHECKED: "open"}
_LEVELS: Final = {FAR: "bad", UNCHECKED: "open"}  # of the baseline
_FEW: Final = 20  # jobs of a cell, below which it has no colour
_SAME: Final = 0.05  # of the present wait: changes below have no colour, either
_RUN_NAMES: Final = ("to 1 min", "to 10 min", "to 1 h", "to 6 h", "longer")
assert len(_RUN_NAMES) == len(RUNS_S) + 1


def page(answer: Answer) -> Page:
    """Return all of an answer as a page."""
    best = answer.best
    waits = None if best is None else answer.waits_under(best)
    words = [
        Paragraph(headline(answer), headline=True),
        Paragraph(f"How sure: {how_sure(answer)}."),
        Paragraph(f"Next: {next_step(answer)}."),
    ]
    lead: list[Block] = [Beside(words, _box(answer)), _short(answer)]
    sections = [
        Section("Week by week", [*_weeks(answer, waits)]),
        Section("What the answer depends on", [*_tornado(answer)]),
        *([] if best is None or waits is None else _about(answer, best, waits)),
        Section("How near the baseline is", [*_nearness(answer)]),
        *(
            [Section("Guests in the recorded schedule", [*map(Paragraph, answer.of_record)])]
            if answer.of_record
            else []
        ),
        Section("In full", [*_in_full(answer)]),
        Section("Assumptions", [Paragraph(each, quiet=True) for each in conditions(answer)]),
    ]
    return Page(f"What if: {site_name(str(answer.prepared.question.site['workload']['swf']))}", lead, sections)


def _box(answer: Answer) -> Table:
    """Return the log beside the baseline, with the verdict about it."""
    heading, *rows = box_rows(answer)
    mark = _LEVELS.get(rows[-1][-1], "good")
    return Table(about_log(answer), heading, rows, marks={(len(rows) - 1, 2): mark})


def _short(answer: Answer) -> Table:
    """Return a line for each candidate, marked by its verdict."""
    heading, *rows = candidate_rows(answer)
    marks = {(line, 2): _CELLS[one.verdict] for line, one in enumerate(answer.compared) if one.verdict in _CELLS}
    return Table(f"Candidates beside {answer.present}", heading, rows, marks=marks, stacked=True)


def _weeks(answer: Answer, waits: Waits | None) -> Iterator[Block]:
    """Yield the waits of all jobs by week, and of those of the windows under the candidate of the headline."""
    baseline = f"baseline: {answer.present}"
    whole = whole_log(answer.prepared, answer.recorded_s)
    if whole is not None:
        names = {"recorded": "recorded", "present": baseline}
        yield from _week_lines(answer, whole, "Mean wait by week of submission, all jobs", names)
    if waits is not None and answer.best is not None:
        names = {"recorded": "recorded", "present": baseline, "candidate": answer.best.candidate.policy}
        yield from _week_lines(answer, waits, "The same, jobs of the windows that count", names)


def _week_lines(answer: Answer, waits: Waits, title: str, names: Mapping[str, str]) -> Iterator[Block]:
    weeks, groups = by_week(answer.prepared, waits)
    lines = [
        Line(name, np.array([math.nan if each is None else getattr(each, field) / 60 for each in groups]))
        for field, name in names.items()
    ]
    known = [line for line in lines if np.isfinite(line.values).any()]
    if len(weeks) > 1 and known:
        yield lines_figure(
            title,
            weeks,
            known,
            x_label="week of the log",
            y_label="hours",
            unit=" h",
            dots=any(np.isnan(line.values).any() for line in known),
            note="Only weeks with at least 20 such jobs.",
        )


def _about(answer: Answer, best: Compared, waits: Waits) -> list[Section]:
    """Return the sections about the candidate of the headline; what is neither gain nor harm has no colour."""
    name, shown = best.candidate.policy, best.verdict in _MARKS
    groups = [
        _group_table(f"Mean wait by {kind}, min", found, name, shown=shown, closed=kind == "user")
        for kind, found in groups_of(answer.prepared, waits)
    ]
    size_map = _map(answer, waits, f"under {name} ({best.verdict})", shown=shown)
    return [Section("Size and run time", [size_map]), Section("Who waits", groups)]


def _map(answer: Answer, waits: Waits, where: str, *, shown: bool) -> Table:
    rows = []
    marks = {}
    names = [f"to {size:,}" if size > 1 else "1" for size in SIZES] + ["more"]
    found = [each for each in zip(names, size_map(answer.prepared, waits), strict=True) if any(each[1])]
    for line, (name, row) in enumerate(found):
        rows.append((name, *map(_change_cell, row)))
        marks.update({(line, place): mark for place, group in enumerate(row, 1) if (mark := _mark(group))})
    caption = f"Change of the mean wait {where} in minutes (jobs): processors down, run time across"
    return Table(caption, ("processors", *_RUN_NAMES), rows, marks=marks if shown else {})


def _change_cell(group: Group | None) -> str:
    return "-" if group is None else f"{group.candidate - group.present:+,.0f} ({group.jobs:,})"


def _mark(group: Group | None) -> str:
    """Return whether the jobs wait less or more by an amount that can be seen."""
    if group is None or group.jobs < _FEW or not math.isfinite(group.candidate - group.present):
        return ""
    change = group.candidate - group.present
    if abs(change) < max(1.0, _SAME * group.present):
        return ""
    return "good" if change < 0 else "bad"


def _group_table(caption: str, groups: Sequence[Group], name: str, *, shown: bool, closed: bool) -> Table:
    rows = [
        (group.name, f"{group.jobs:,}", *(_minutes(each) for each in (group.recorded, group.present, group.candidate)))
        for group in groups
    ]
    marks = {(line, 4): mark for line, group in enumerate(groups) if (mark := _mark(group))}
    headings = ("", "jobs", "recorded", "baseline", name)
    return Table(caption, headings, rows, closed=closed, marks=marks if shown else {})


def _minutes(value: float) -> str:
    return f"{value:,.0f}" if math.isfinite(value) else "-"


def _tornado(answer: Answer) -> Iterator[Block]:
    """Yield a chart for each way of contention: the change under each assumption, the line at that without any."""
    for contention in dict.fromkeys(swing.contention for swing in answer.swings):
        found = [swing for swing in answer.swings if swing.contention == contention and swing.response is not None]
        of = dict.fromkeys(swing.candidate.policy for swing in found)
        for policy in of:
            own = [swing for swing in found if swing.candidate.policy == policy]
            changes = [swing.response for swing in own if swing.response is not None]
            before = own[0].before
            title = (
                f"{policy} ({contention}): change of the mean response if one assumption is changed; line: as assumed"
            )
            yield Bars(
                title,
                "%",
                [swing.change.what for swing in own],
                [change.mean for change in changes],
                [change.low if change.exists else None for change in changes],
                [change.high if change.exists else None for change in changes],
                zero=0.0 if before is None else before.mean,
            )


def _nearness(answer: Answer) -> Iterator[Block]:
    """Yield what the record shows without any run, and the waits of all jobs by class, recorded and under the baseline."""
    found = answer.distance
    if found is None:
        return
    shares = [f"{100 * each:.0f} %" if math.isfinite(each) else "-" for each in (found.free_share, found.held_share)]
    lacks = " The baseline does not have what delayed it." * (found.held_share >= 0.005)
    yield Paragraph(
        f"In {shares[0]} of the recorded wait, as many processors as the job requested were idle; in {shares[1]}, EASY on processors "
        f"alone would have started the job.{lacks}"
    )
    yield from (Paragraph(f"{cause.words}. See {cause.tell}.") for cause in answer.causes)
    for kind, classes in found.classes.items():
        rows = [
            (
                each.name,
                f"{each.jobs:,}",
                *map(_minutes, (each.recorded, each.simulated)),
                _minutes(100 * each.free_share),
            )
            for each in classes[:MOST_GROUPS]
        ]
        headings = ("", "jobs", "recorded", "baseline", "idle, % of the wait")
        if len(rows) > 1:
            yield Table(f"All jobs by {kind}: mean wait, min", headings, rows, closed=True)


def _in_full(answer: Answer) -> Iterator[Block]:
    for table in tables(answer):
        yield Table(table.caption, table.rows[0], table.rows[1:], closed=True)
    for contention in answer.prepared.hardware:
        found = [(one.candidate.policy, one.response) for one in answer.compared if one.contention == contention]
        known = [(policy, change) for policy, change in found if change is not None]
        if known:
            title = f"Mean response, change against {answer.present} ({contention}); intervals as in the table"
            yield change_bars(title, known)
