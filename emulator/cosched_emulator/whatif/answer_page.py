"""An answer as a page: what it says first, then the weeks, what it hangs on, whom it concerns, and everything in full."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from cosched_emulator.page.document import Bars, Block, Page, Paragraph, Section, Table
from cosched_emulator.page.over_time import Line, lines_figure
from cosched_emulator.page.study_page import change_bars
from cosched_emulator.whatif.answer import GAIN, HARM, Answer
from cosched_emulator.whatif.answer_text import (
    beside_record,
    conditions,
    headline,
    own_log,
    paragraph,
    short_rows,
    tables,
)
from cosched_emulator.whatif.waits import RUNS_S, SIZES, Group, Waits, by_week, groups_of, size_map

_MARKS: Final = {GAIN: "good", HARM: "bad"}
_COMMON: Final = ("trace", "log", "jobs")  # names of logs that say nothing of a site
_FEW: Final = 20  # jobs of a cell, below which it has no colour
_SAME: Final = 0.05  # of the present wait: changes below have no colour, either
_RUN_NAMES: Final = ("to 1 min", "to 10 min", "to 1 h", "to 6 h", "longer")
assert len(_RUN_NAMES) == len(RUNS_S) + 1


def page(answer: Answer) -> Page:
    """Return all of an answer as a page."""
    best = answer.best
    waits = None if best is None else answer.waits_under(best)
    name = "" if best is None else best.candidate.policy
    lead: list[Block] = [Paragraph(headline(answer), headline=True), Paragraph(beside_record(answer))]
    lead += [*_box(answer), _short(answer)]
    about = [] if waits is None else [*_about(answer, waits, name)]
    sections = [
        *about,
        Section("What the answer hangs on", [*_tornado(answer)]),
        Section("In full", [*_in_full(answer)]),
        Section("Assumptions", [Paragraph(each) for each in conditions(answer)]),
    ]
    return Page(f"What if: {site_name(answer)}", lead, sections)


def site_name(answer: Answer) -> str:
    """Return the name of the site as its files tell it: that of the log, or of the folder where logs are all named alike."""
    file = Path(str(answer.prepared.base["workload"]["swf"]))
    name = file.name.removesuffix(".gz").removesuffix(".swf")
    return next((each for each in (name, *(part.name for part in file.parents)) if each and each not in _COMMON), name)


def _box(answer: Answer) -> Iterator[Block]:
    recorded, present = own_log(answer)
    if recorded is None and present is None:
        return
    rows = []
    for label, field in (
        ("mean wait, min", "mean"),
        ("median", "median"),
        ("95th percentile", "p95"),
        ("jobs", "jobs"),
    ):
        cells = ("-" if each is None else f"{getattr(each, field):,.0f}" for each in (recorded, present))
        rows.append((label, *cells))
    yield Table("Your log, and our baseline over all of it", ("", "recorded", f"baseline: {answer.present}"), rows)


def _short(answer: Answer) -> Table:
    """Return a line for each candidate, marked by its verdict."""
    heading, *rows = short_rows(answer)
    marks = {(line, 1): _MARKS[one.verdict] for line, one in enumerate(answer.compared) if one.verdict in _MARKS}
    return Table(f"Candidates beside {answer.present}", heading, rows, marks=marks)


def _about(answer: Answer, waits: Waits, name: str) -> Iterator[Section]:
    """Yield the sections about the candidate of the headline."""
    weeks, groups = by_week(answer.prepared, waits)
    if len(weeks) > 1:
        columns = (("recorded", "recorded"), ("present policy", "present"), (name, "candidate"))
        lines = [Line(label, np.array([getattr(group, field) / 60 for group in groups])) for label, field in columns]
        known = [line for line in lines if np.isfinite(line.values).any()]
        note = "Only jobs that count, in weeks with at least 20 of them; lines join weeks of different windows."
        figure = lines_figure(
            "Mean wait by week of submission",
            weeks,
            known,
            x_label="week of the log",
            y_label="hours",
            unit=" h",
            note=note,
        )
        yield Section("Week by week", [figure])
    yield Section(f"Small and large, short and long jobs under {name}", [_map(answer, waits)])
    found = [
        _group_table(f"Mean wait by {kind}, min", groups, name, closed=kind == "user")
        for kind, groups in groups_of(answer.prepared, waits)
    ]
    yield Section("Who waits", found)


def _map(answer: Answer, waits: Waits) -> Table:
    rows = []
    marks = {}
    names = [f"to {size:,}" if size > 1 else "1" for size in SIZES] + ["more"]
    for line, (name, row) in enumerate(zip(names, size_map(answer.prepared, waits), strict=True)):
        rows.append((name, *map(_change_cell, row)))
        marks.update({(line, place): mark for place, group in enumerate(row, 1) if (mark := _mark(group))})
    caption = "Change of the mean wait in minutes, and number of jobs: processors down, run time across"
    return Table(caption, ("processors", *_RUN_NAMES), rows, marks=marks)


def _change_cell(group: Group | None) -> str:
    return "-" if group is None else f"{group.candidate - group.present:+,.0f} ({group.jobs:,} jobs)"


def _mark(group: Group | None) -> str:
    """Return whether the jobs wait less or more by an amount that can be seen."""
    if group is None or group.jobs < _FEW or not math.isfinite(group.candidate - group.present):
        return ""
    change = group.candidate - group.present
    if abs(change) < max(1.0, _SAME * group.present):
        return ""
    return "good" if change < 0 else "bad"


def _group_table(caption: str, groups: Sequence[Group], name: str, *, closed: bool) -> Table:
    rows = [
        (group.name, f"{group.jobs:,}", *(_minutes(each) for each in (group.recorded, group.present, group.candidate)))
        for group in groups
    ]
    marks = {(line, 4): mark for line, group in enumerate(groups) if (mark := _mark(group))}
    return Table(caption, ("", "jobs", "recorded", "present policy", name), rows, closed=closed, marks=marks)


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
            title = f"{policy} ({contention}): change of the mean response where one assumption is another; line: as assumed"
            yield Bars(
                title,
                "%",
                [swing.change.what for swing in own],
                [change.mean for change in changes],
                [change.low if change.exists else None for change in changes],
                [change.high if change.exists else None for change in changes],
                zero=0.0 if before is None else before.mean,
            )


def _in_full(answer: Answer) -> Iterator[Block]:
    yield Paragraph(paragraph(answer))
    for table in tables(answer):
        yield Table(table.caption, table.rows[0], table.rows[1:], closed=True)
    for contention in answer.prepared.hardware:
        found = [(one.candidate.policy, one.response) for one in answer.compared if one.contention == contention]
        known = [(policy, change) for policy, change in found if change is not None]
        if known:
            title = f"Mean response, change against {answer.present} ({contention}); intervals as in the table"
            yield change_bars(title, known)
