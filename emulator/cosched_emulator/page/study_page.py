"""What the report says about a study: figures with intervals by setting, changes against the baseline, who loses, what was run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cosched_emulator.page.document import Bars, Block, Page, Paragraph, Section, Table
from cosched_emulator.page.run_tables import MOST_ROWS, table_of
from cosched_emulator.results.compared_runs import flat_settings
from cosched_emulator.statistics.intervals import Interval
from cosched_emulator.studies.study_result import SeedRows, StudyResult
from cosched_emulator.studies.text import KNOWN, gain_table, loser_tables, missing_note, setting_tables, study_verdict

_DRAWN: Final = ("response_s_mean", "wait_s_mean", "bounded_slowdown_10s_mean")  # some of `CHANGED`


def study_page(result: StudyResult, title: str = "") -> Page:
    """Return the page about a study, done wholly or in part."""
    done, cells = len(result.rows), len(result.plan.cells)
    lead: list[Block] = [
        Paragraph(study_verdict(result), headline=True),
        Paragraph(f"{done:,} of {cells:,} runs are done."),
    ]
    lead += [Paragraph(f"{sum(1 for _ in result.failures):,} runs failed.") for _ in result.failures[:1]]
    lead += [Paragraph(f"{note} ({count:,} of {cells:,} runs)", quiet=True) for note, count in result.notes.items()]
    gained = gain_table(result)
    lead += [table_of(gained.heading[:1].upper() + gained.heading[1:], gained.rows)] if gained else []
    tables = [*setting_tables(result)]
    sections = [Section(table.heading, [*_setting(result, table.rows, table.notes, group)]) for table, group in tables]
    return Page(
        title or result.plan.title or "Study",
        lead,
        [*sections, Section("Who loses", [*_losers(result)]), Section("Conditions", [*_conditions(result)])],
    )


def _setting(
    result: StudyResult, rows: Sequence[Sequence[str]], notes: Sequence[str], group: Sequence[SeedRows]
) -> Iterator[Block]:
    names, *figures = rows
    yield Table("Means over seeds, with 95 % intervals", ("", "unit", *names[2:]), figures)
    for note in notes:
        yield Paragraph(note.removeprefix("note: "), quiet=True)
    others = [(series, base) for series in group if (base := result.base(series)) is not None]
    for name in _DRAWN:
        changes = [(series.policy, series.change(name, base)) for series, base in others]
        known = [(policy, change) for policy, change in changes if change is not None]
        if known:
            yield change_bars(f"{KNOWN[name].label}: change against {result.baseline}", known)


def change_bars(title: str, changes: Sequence[tuple[str, Interval]]) -> Bars:
    """Return changes in percent, a row each, with their intervals."""
    found = [change for _, change in changes]
    return Bars(
        title,
        "%",
        [name for name, _ in changes],
        [change.mean for change in found],
        [change.low if change.exists else None for change in found],
        [change.high if change.exists else None for change in found],
    )


def _losers(result: StudyResult) -> Iterator[Block]:
    tables = loser_tables(result, MOST_ROWS)
    if tables is None:
        yield Paragraph("The study has no baseline: who is worse off is not known.", quiet=True)
    else:
        yield table_of(tables.heading, tables.policies)
        yield Paragraph(tables.rule + ".", quiet=True)
        if len(tables.worst) > 1:
            yield table_of("Largest losses", tables.worst)
    note = missing_note(result)
    if note:
        yield Paragraph(note.removeprefix("note: "), quiet=True)


def _conditions(result: StudyResult) -> Iterator[Block]:
    """Yield the settings of the runs: those that all have in common, and those in which they differ."""
    settings = [
        {"version": result.plan.version, **dict(flat_settings({"scenario": cell.scenario, "policy": cell.settings}))}
        for cell in result.plan.cells
    ]
    names = dict.fromkeys(name for each in settings for name in each)
    rows = []
    for name in names:
        values = dict.fromkeys(each.get(name, "null") for each in settings)
        if [*values] != ["null"]:
            rows.append((name, ", ".join(values)))
    yield Table("All settings; where runs differ, all values", ("setting", "values"), rows, closed=True)
