"""What the report says about runs: figures with intervals, charts over time, schedules, classes, users, losers, conditions.

The first run is the baseline of the others. Runs that differ in the seed alone are one column: figures, distributions and
who loses are of all of them, charts over time, schedules and lists of jobs and users of one, whose seed stands there.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from cosched_emulator.explain.facts import explain_starts
from cosched_emulator.explain.sentences import reason
from cosched_emulator.explain.trace_reader import read_trace
from cosched_emulator.page.document import Block, Page, Paragraph, Section, Table, figure_table
from cosched_emulator.page.over_time import Sample, distribution_figure, power_figure, time_figures
from cosched_emulator.page.run_tables import MOST_ROWS, harm_blocks, interval_blocks, sharing_table, user_block
from cosched_emulator.page.schedule import MOST_BOXES, MOST_JOBS, schedule_figure, shown_jobs
from cosched_emulator.results.compared_runs import ComparedRuns, compare_folders, flat_settings, harms_of, verdict_of
from cosched_emulator.results.figures import comparison
from cosched_emulator.results.figures.classes import (
    PAPER_RULES,
    class_figures_of_columns,
    class_tables,
    fact_figures,
    fact_tables,
)
from cosched_emulator.results.figures.metrics import FloatArray, population, quantity
from cosched_emulator.results.files.run_folder import RUN, TRACE, read_json
from cosched_emulator.results.files.run_reader import JobOwners, StoredRun, read_owners, read_power, read_run
from cosched_emulator.results.harm import Harm, outcomes

# Title of a chart, quantity of `metrics`, its label, and where its logarithmic axis begins.
DISTRIBUTIONS: Final[tuple[tuple[str, str, str, float | None], ...]] = (
    ("Waits", "wait_s", "wait; less than 1 s counts as 1 s", 1.0),
    ("Responses", "response_s", "response", 1.0),
    ("Bounded slowdowns", "bounded_slowdown_10s", "bounded slowdown (bound 10 s)", 1.0),
    ("Run time lost to neighbours", "penalised_percent", "penalised run time [%]", None),
)


class Column(NamedTuple):
    """A column of the report: the runs of one policy that differ in the seed alone."""

    name: str
    seeds: Sequence[int | None]
    folders: Sequence[Path]
    runs: Sequence[StoredRun]
    owners: JobOwners  # of the first run

    @property
    def heading(self) -> str:
        """Return the name for figures of all runs."""
        return f"{self.name} ({len(self.runs)} seeds)" if len(self.runs) > 1 else self.name

    @property
    def shown_name(self) -> str:
        """Return the name of the run of which charts are drawn."""
        return self.named(self.seeds[0])

    def named(self, seed: int | None) -> str:
        """Return the name for what is of the run with a seed."""
        return f"{self.name}, seed {seed}" if len(self.runs) > 1 else self.name

    def owners_of(self, seed: int | None) -> JobOwners:
        """Return whose the jobs of the run with a seed are."""
        place = self.seeds.index(seed)
        return read_owners(self.folders[place], self.runs[place].jobs) if place else self.owners

    @property
    def shown(self) -> StoredRun:
        """Return the run of which charts are drawn."""
        return self.runs[0]


def run_page(
    folders: Sequence[Path], names: Sequence[str], title: str, progress: Callable[[int], object] = lambda _: None
) -> Page:
    """Return the page about the runs in ``folders``; without a ``title`` that has the columns.

    ``progress`` is called with the number of runs that are read.

    Raises InputError for what is no run folder, or damaged.
    """
    compared = compare_folders(folders, names, "finished", common=False)
    unit = comparison.job_time_unit(compared.summaries)
    columns: list[Column] = []
    for column in compared.columns:
        its = [folders[run] for run in column.runs]
        runs = []
        for folder in its:
            runs.append(read_run(folder))
            progress(sum(len(each.runs) for each in columns) + len(runs))
        columns.append(Column(column.name, column.seeds, its, runs, read_owners(its[0], runs[0].jobs)))
    found = {
        run: outcomes(each.jobs, each.machine, each.selection)
        for column, its in zip(compared.columns, columns, strict=True)
        for run, each in zip(column.runs, its.runs, strict=True)
    }
    base, *others = compared.columns
    harms = [{}, *(harms_of(each, base, found.__getitem__) if compared.alike else {} for each in others)]
    sections = [
        Section("Over time", _over_time(columns)),
        Section("Schedule", [*_schedules(columns)]),
        Section("Distributions", [*_distributions(columns)]),
        Section("Classes of jobs", [*_classes(columns, unit)]),
        Section("Users", [user_block(each.shown_name, each.shown, each.owners, unit) for each in columns]),
        Section("Who loses", [*_losers(compared, columns, harms, unit)]),
        Section("Energy", [*_energy(columns)]),
    ]
    told = [section for section in sections if any(not _is_note(block) for block in section.blocks)]
    lacking = [block for section in sections if section not in told for block in section.blocks]
    verdict = verdict_of(
        compared.columns, compared.summaries, found.__getitem__, alike=compared.alike, same_jobs=compared.same_jobs
    )
    return Page(
        title or f"Report of {', '.join(compared.headings)}",
        [Paragraph(verdict, headline=True), *_summary(compared, columns, unit)],
        [*told, Section("Conditions", [*_conditions(columns), *lacking])],
    )


def _is_note(block: Block) -> bool:
    return isinstance(block, Paragraph) and block.quiet


def _summary(compared: ComparedRuns, columns: Sequence[Column], unit: comparison.TimeUnit) -> Iterator[Block]:
    several = len(columns) < sum(len(each.runs) for each in columns)
    over = "; with 95 % intervals over seeds" if several else ""
    yield figure_table(f"Figures of jobs that completed, and of the machine{over}", compared.headings, compared.rows)
    yield from interval_blocks([(each.shown_name, each.shown) for each in columns], unit)
    for note in compared.notes:
        yield Paragraph(f"Note: {note.removeprefix('note: ')}.", quiet=True)


def _over_time(columns: Sequence[Column]) -> list[Block]:
    several = any(len(each.runs) > 1 for each in columns)
    which = "Of several seeds one run is shown. " * several
    return [
        Paragraph(f"{which}Drag over a time to enlarge it, double-click for all of it.", quiet=True),
        *time_figures(
            [each.shown_name for each in columns], [each.shown for each in columns], [each.owners for each in columns]
        ),
    ]


def _schedules(columns: Sequence[Column]) -> Iterator[Block]:
    """Yield a chart for each column, as far as the limits of a page go."""
    jobs, boxes = MOST_JOBS, MOST_BOXES
    for place, each in enumerate(columns):
        left = len(columns) - place
        shown = shown_jobs(each.shown, jobs // left, boxes // left)
        jobs, boxes = jobs - shown.jobs.size, boxes - shown.stays.size
        trace = each.folders[0] / TRACE
        reasons = None
        if trace.exists():
            reasons = {job: reason(job, start) for job, start in explain_starts(read_trace(os.fspath(trace)))}
        yield schedule_figure(f"Jobs on nodes, {each.shown_name}", each.shown, each.owners, shown, reasons)


def _distributions(columns: Sequence[Column]) -> Iterator[Block]:
    for title, key, label, floor in DISTRIBUTIONS:
        samples = [Sample(each.heading, [_values(run, key, floor) for run in each.runs]) for each in columns]
        figure = distribution_figure(title, label, samples, floor, spans=key.endswith("_s"))
        if figure is not None:
            yield figure


def _values(run: StoredRun, key: str, floor: float | None) -> FloatArray:
    found = quantity(run.jobs, key, population(run.jobs, "finished", run.selection))
    return found if floor is None else np.maximum(found, floor)


def _classes(columns: Sequence[Column], unit: comparison.TimeUnit) -> Iterator[Block]:
    """Yield a table of each kind of figures; over several seeds they are means with intervals."""
    policies = [
        comparison.PolicyRuns(
            each.heading,
            each.seeds,
            [class_figures_of_columns(run.jobs, run.stays, run.machine, PAPER_RULES).as_dict() for run in each.runs],
        )
        for each in columns
    ]
    for heading, figures in class_tables(PAPER_RULES).items():
        rows = comparison.rows_of(
            comparison.compare_seeds(policies, figures=comparison.in_unit(figures, unit), paired=False), ""
        )
        yield figure_table(heading, [each.heading for each in columns], rows)
    for fact in ("partition", "qos", "account"):
        yield from _classes_by(fact, columns, unit)


def _classes_by(fact: str, columns: Sequence[Column], unit: comparison.TimeUnit) -> Iterator[Block]:
    """Yield the figures of the jobs with each value of a fact, those of most jobs; nothing where no job has the fact."""
    found = [fact_figures(each.shown.jobs, each.owners.facts[fact]) for each in columns]
    jobs = Counter[str]()
    for figures in found:
        jobs.update({value: each.jobs for value, each in figures.items() if value != "all"})
    if {*jobs} <= {"none"}:
        return
    values = sorted([value for value, _ in jobs.most_common(MOST_ROWS)])
    told = [{value: each._asdict() for value, each in figures.items()} for figures in found]
    for heading, rows in fact_tables(fact, [*values, "all"]).items():
        shown = comparison.compare(told, figures=comparison.in_unit(rows, unit), mark_best=False)
        yield figure_table(heading, [each.shown_name for each in columns], shown)


def _losers(
    compared: ComparedRuns,
    columns: Sequence[Column],
    harms: Sequence[dict[int | None, Harm]],
    unit: comparison.TimeUnit,
) -> Iterator[Block]:
    """Yield who is later than in the first column, and who was slowed down by neighbours."""
    base = columns[0]
    if len(columns) > 1 and not compared.alike:
        yield Paragraph("The runs are of different workloads: their jobs cannot be compared one by one.", quiet=True)
    elif len(columns) > 1:
        for each, harm in zip(columns[1:], harms[1:], strict=True):
            first = next(iter(harm), None)
            if harm:
                names = (each.named(first), base.named(first)) if len(harm) == 1 else (each.name, base.name)
                yield from harm_blocks(*names, harm, each.runs[each.seeds.index(first)], each.owners_of(first), unit)
            else:
                text = f"{each.heading} and {base.heading} have no seed in common: their jobs cannot be compared."
                yield Paragraph(text, quiet=True)
    for each in columns:
        yield sharing_table(each.shown_name, each.shown, each.owners, unit)


def _energy(columns: Sequence[Column]) -> Iterator[Block]:
    traces = [read_power(each.folders[0]) for each in columns]
    figure = power_figure([each.shown_name for each in columns], [each.shown for each in columns], traces)
    if figure is None:
        yield Paragraph("The watts of the nodes were not given, so the energy is not known.", quiet=True)
    else:
        yield figure


def _conditions(columns: Sequence[Column]) -> Iterator[Block]:
    """Yield what was run: one column for each run that is drawn."""
    told = [read_json(each.folders[0], RUN, ("config", "workload", "machine", "versions")) for each in columns]
    settings = [
        {
            "seed": str(run.get("seed")),
            **dict(flat_settings({key: run[key] for key in ("config", "workload", "versions")})),
        }
        for run in told
    ]
    names = dict.fromkeys(name for each in settings for name in each)
    rows = [(name, *(each.get(name, comparison.NOTHING) for each in settings)) for name in names]
    rows = [row for row in rows if set(row[1:]) - {"null", "[]", comparison.NOTHING}]
    for each, run in zip(columns, told, strict=True):
        origin = run["workload"].get("origin") if isinstance(run["workload"], dict) else None
        yield Paragraph(
            f"{each.shown_name}: {origin}, on {each.shown.nodes:,} nodes with {each.shown.threads:,} hardware threads."
        )
    yield Table("All settings", ("setting", *(each.shown_name for each in columns)), rows, closed=True)
