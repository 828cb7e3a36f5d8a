"""Figures of classes of jobs in several runs: short, medium and long ones, or those with each value of a fact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from cosched_emulator.results.compared_runs import NOT_ALIKE, OTHER_JOBS, are_alike
from cosched_emulator.results.figures import comparison
from cosched_emulator.results.figures.classes import (
    PAPER_RULES,
    ClassRules,
    class_figures_of_columns,
    class_tables,
    fact_figures,
    fact_tables,
)
from cosched_emulator.results.figures.metrics import population
from cosched_emulator.results.files.run_reader import read_owners, read_run
from cosched_emulator.results.shown import Shown


class Classes(Shown):
    """What became of the classes of jobs in several runs."""

    def __init__(
        self,
        names: Sequence[str],
        figures: Sequence[Mapping[str, Any]],
        tables: Mapping[str, Sequence[comparison.FigureRow]],
        note: str,
    ) -> None:
        self.names = names  # of the runs
        self.figures = figures  # of each run, plain values
        self.tables = tables  # by heading, as texts
        self.note = note  # why no best is marked; empty: it is

    def __str__(self) -> str:
        return "\n".join(f"{name}\n{comparison.text_table(self.names, rows)}" for name, rows in self.tables.items())


def classes_of(
    run_dirs: Sequence[Path], names: Sequence[str], by: str | None = None, rules: ClassRules = PAPER_RULES
) -> Classes:
    """Return the figures of the classes in run folders; ``by``: a fact that decides the class instead. Raises InputError."""
    tables = class_tables(rules)
    figures: list[dict[str, Any]] = []
    completed: list[bytes] = []
    for folder in run_dirs:
        run = read_run(folder)
        if by is None:
            figures.append(class_figures_of_columns(run.jobs, run.stays, run.machine, rules).as_dict())
        else:
            found = fact_figures(run.jobs, read_owners(folder, run.jobs).facts[by], rules)
            figures.append({value: each._asdict() for value, each in found.items()})
            tables = fact_tables(by, list(dict.fromkeys(value for run in figures for value in run)))
        completed.append(run.jobs.id[population(run.jobs, "finished")].tobytes())
    alike, same_jobs = are_alike(run_dirs), len(set(completed)) == 1
    compared = partial(comparison.compare, figures, mark_best=alike, same_jobs=same_jobs)
    note = "" if alike and same_jobs else OTHER_JOBS if alike else NOT_ALIKE
    return Classes(names, figures, {heading: compared(figures=rows) for heading, rows in tables.items()}, note)
