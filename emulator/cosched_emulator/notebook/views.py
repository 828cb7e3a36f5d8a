"""What a notebook shows of each kind of result: `html`, a part of the report's page, and `draw`, a picture by matplotlib."""

from __future__ import annotations

from functools import singledispatch
from pathlib import Path

import numpy as np

from cosched_emulator.api.simulate import Run
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.notebook.comparing import Comparison
from cosched_emulator.page.document import Block, Paragraph, Table, figure_table, fragment
from cosched_emulator.page.run_tables import table_of
from cosched_emulator.results.compared_classes import Classes
from cosched_emulator.results.figures import metrics
from cosched_emulator.results.figures import plot as pictures
from cosched_emulator.results.figures.comparison import compare, job_time_unit, usual_figures
from cosched_emulator.results.harm import Harm
from cosched_emulator.results.harm_tables import group_table, head_lines, loser_table
from cosched_emulator.results.verdict import Told, run_verdict
from cosched_emulator.studies.pictures import plot_study
from cosched_emulator.studies.study_result import StudyResult
from cosched_emulator.studies.text import gain_table, loser_tables, setting_tables, study_verdict
from cosched_emulator.whatif.answer import Answer
from cosched_emulator.whatif.answer_lead import box_rows, candidate_rows, headline, how_sure, named, next_step
from cosched_hwmodel.units import SECOND_US

MOST_LOSERS = 10


@singledispatch
def html(result: object) -> str:
    """Return a result as HTML: a part of a page, without scripts."""
    raise TypeError(f"no view of {type(result).__name__}")


@html.register
def _(run: Run) -> str:
    verdict = run_verdict(
        [Told(run.policy, {0: run.summary})], job_time_unit([run.summary]), alike=True, same_jobs=True
    )
    rows = compare([run.summary], figures=usual_figures([run.summary]))
    return fragment([Paragraph(verdict, headline=True), figure_table("Figures", [run.policy], rows)])


@html.register
def _(harm: Harm) -> str:
    groups = {"all": harm.figures, **harm.by_class}
    blocks: list[Block] = [Paragraph(f"{line}.") for line in head_lines(harm, "the baseline")]
    blocks.append(table_of("By class of job", group_table(groups, harm.baselines)))
    losers = harm.losers(MOST_LOSERS)
    if losers:
        caption = f"Largest losses, {len(losers)} of {harm.figures.later:,} later jobs"
        blocks.append(table_of(caption, loser_table(losers)))
    return fragment(blocks)


@html.register
def _(found: Comparison) -> str:
    blocks: list[Block] = [
        Paragraph(found.verdict, headline=True),
        figure_table("Figures", found.names, found.rows),
        *(Paragraph(note, quiet=True) for note in found.notes),
    ]
    return fragment(blocks)


@html.register
def _(found: Classes) -> str:
    note = [Paragraph(found.note, quiet=True)] if found.note else []
    return fragment([*note, *(figure_table(name, found.names, rows) for name, rows in found.tables.items())])


@html.register
def _(result: StudyResult) -> str:
    blocks: list[Block] = [Paragraph(study_verdict(result), headline=True)]
    gained, losers = gain_table(result), loser_tables(result, MOST_LOSERS)
    if gained is not None:
        blocks.append(table_of(gained.heading[:1].upper() + gained.heading[1:], gained.rows))
    if losers is not None:
        blocks += [table_of(losers.heading, losers.policies), Paragraph(losers.rule, quiet=True)]
    for table, _ in setting_tables(result):
        names, *figures = table.rows
        blocks.append(Table(table.heading, ("", "unit", *names[2:]), figures, closed=True))
    return fragment(blocks)


@html.register
def _(answer: Answer) -> str:
    heading, *box = box_rows(answer)
    return fragment(
        [
            Paragraph(headline(answer), headline=True),
            Paragraph(f"How sure: {how_sure(answer)}."),
            Paragraph(f"Next: {next_step(answer)}."),
            Table("The log beside the baseline", heading, box),
            table_of(f"Candidates beside {answer.present}", candidate_rows(answer)),
        ]
    )


@singledispatch
def draw(result: object, file: Path) -> None:
    """Draw a result into a file; raises EmulatorError without matplotlib."""
    raise TypeError(f"no picture of {type(result).__name__} for {file}")


@draw.register
def _(run: Run, file: Path, quantity: str = "response_s", title: str = "") -> None:
    """The distribution of a quantity of its jobs, such as ``wait_s`` or ``bounded_slowdown_10s``."""
    if quantity not in metrics.QUANTITIES:
        raise ConfigurationError.unknown_name("quantity", quantity, metrics.QUANTITIES)
    jobs, selection = run.finished.jobs, run.prepared.selection
    sample = metrics.quantity(jobs, quantity, metrics.population(jobs, "finished", selection))
    floor = None if quantity == "penalised_percent" else 1.0
    pictures.plot_distribution(file, [pictures.Series(run.policy, sample)], quantity, title or run.policy, floor)


@draw.register
def _(harm: Harm, file: Path, title: str = "") -> None:
    both = (("run", harm.jobs.response_us), ("baseline", harm.jobs.baseline_us))
    series = [pictures.Series(name, np.asarray(times_us / SECOND_US)) for name, times_us in both]
    pictures.plot_distribution(file, series, "response time [s]", title, 1.0)


@draw.register
def _(found: Comparison, file: Path, title: str = "") -> None:
    found.drawn(file, title)


@draw.register
def _(
    result: StudyResult, file: Path, figure: str = "response_s_mean", axis: str | None = None, title: str = ""
) -> None:
    plot_study(file, result, figure, axis, title=title)


@draw.register
def _(answer: Answer, file: Path, title: str = "") -> None:
    changes = [(named(one), one.response) for one in answer.compared if one.response is not None]
    note = f"Change of the mean response against {answer.present}, with intervals over windows of the log."
    pictures.plot_changes(file, changes, title, f"{headline(answer)} {note}")
