"""Tables of the report about the jobs of runs: intervals within a run, users, who is later than before, who was slowed down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from cosched_emulator.page.document import Block, Paragraph, Table
from cosched_emulator.results.figures.comparison import NOTHING, Figure, energy_unit, interval_texts, number_texts
from cosched_emulator.results.figures.metrics import population, quantity
from cosched_emulator.results.files.run_reader import JobOwners, StoredRun
from cosched_emulator.results.harm import harm_figures, measure_harm, outcomes
from cosched_emulator.results.harm_tables import Cells, group_table, head_lines, loser_table
from cosched_emulator.results.record_columns import BoolArray
from cosched_emulator.studies.study_result import within_run
from cosched_emulator.studies.text import KNOWN
from cosched_hwmodel.units import SECOND_US

MOST_ROWS: Final = 25  # of tables of users and of jobs
MOST_JOBS: Final = 50_000  # of a run, for intervals of percentiles
_WITHIN: Final = ("wait_s_mean", "wait_s_p95", "response_s_mean", "response_s_p95")


def table_of(caption: str, cells: Cells, *, closed: bool = False) -> Table:
    """Return a table whose headings are the first row of ``cells``."""
    return Table(caption, cells[0], cells[1:], closed=closed)


def interval_blocks(runs: Sequence[tuple[str, StoredRun]]) -> Iterator[Block]:
    """Yield waits and responses of named runs, each with its interval within that run."""
    lacking = False
    found = [outcomes(run.jobs, run.machine, run.selection) for _, run in runs]
    rows = []
    many = any(len(jobs) > MOST_JOBS for jobs in found)
    for name in _WITHIN:
        if many and not name.endswith("_mean"):
            continue
        figure = KNOWN.get(name, Figure(name, (name,), "seconds"))
        intervals = [within_run(jobs, name) for jobs in found]
        unit, texts = interval_texts(figure, intervals, intervals)
        rows.append((figure.label, unit, *texts))
        lacking = lacking or not all(each is not None and each.exists for each in intervals)
    caption = "95 % intervals within a run, by blocks of successive jobs: what one workload tells"
    yield Table(caption, ("", "unit", *(name for name, _ in runs)), rows)
    if many:
        yield Paragraph(
            f"Of more than {MOST_JOBS:,} jobs the intervals of p95 would take long, and are left out.", quiet=True
        )
    if lacking:
        why = "successive jobs wait alike for so long that the run has too few blocks"
        yield Paragraph(f"Where there is no interval, there are no such jobs, or {why}.", quiet=True)


# ---------------------------------------------------------------- users


def user_block(name: str, run: StoredRun, owners: JobOwners) -> Block:
    """Return the figures of the users with most work, by thread-hours; the others are one row."""
    jobs = run.jobs
    if [*owners.user.distinct] in ([], [""]):
        return Paragraph(f"{name}: the users of the jobs are not known.", quiet=True)
    ran = population(jobs, "finished", run.selection)
    hours = jobs.threads * (jobs.held_us / SECOND_US / 3600)
    user = owners.user.places
    total = np.bincount(user, weights=np.where(ran, hours, 0.0), minlength=len(owners.user.distinct))
    order = np.argsort(-total, kind="stable")
    groups: list[tuple[str, BoolArray]] = [("all", ran)]
    groups += [(owners.user.distinct[place] or "not known", ran & (user == place)) for place in order[:MOST_ROWS]]
    others = order[MOST_ROWS:]
    if others.size:
        groups.append((f"{others.size:,} others", ran & np.isin(user, others)))
    size, unit = energy_unit(float(np.nansum(owners.energy_j[ran])) or 1.0)
    columns: dict[str, list[float | None]] = {
        "jobs": [int(np.count_nonzero(rows)) for _, rows in groups],
        "thread-hours": [float(hours[rows].sum()) for _, rows in groups],
        "wait, mean min": _means(run, "wait_s", groups, 60),
        "wait, p95 min": [_p95(run, "wait_s", rows, 60) for _, rows in groups],
        "bounded slowdown 10 s, mean": _means(run, "bounded_slowdown_10s", groups),
        "penalised run time, mean %": _means(run, "penalised_percent", groups),
    }
    if not np.isnan(owners.energy_j[ran]).all():
        columns[f"energy {unit}"] = [float(np.nansum(owners.energy_j[rows])) / size for _, rows in groups]
    texts = [
        [f"{value:,.0f}" for value in columns.pop("jobs") if value is not None],
        *map(number_texts, columns.values()),
    ]
    rows = list(zip([group for group, _ in groups], *texts, strict=True))
    return Table(f"{name}: completed jobs by user", ("user", "jobs", *columns), rows)


def _means(run: StoredRun, key: str, groups: Sequence[tuple[str, BoolArray]], size: float = 1.0) -> list[float | None]:
    found = [quantity(run.jobs, key, rows) for _, rows in groups]
    return [float(values.mean()) / size if values.size else None for values in found]


def _p95(run: StoredRun, key: str, rows: BoolArray, size: float) -> float | None:
    values = quantity(run.jobs, key, rows)
    return float(np.percentile(values, 95)) / size if values.size else None


# ---------------------------------------------------------------- who loses


def harm_blocks(name: str, run: StoredRun, owners: JobOwners, base_name: str, base: StoredRun) -> Iterator[Block]:
    """Yield who responds later than in the run ``base``, by class and by user, and the jobs that lose most."""
    harm = measure_harm(
        outcomes(run.jobs, run.machine, run.selection), [outcomes(base.jobs, base.machine, base.selection)]
    )
    yield Paragraph(f"{name} against {base_name}: {'; '.join(head_lines(harm, base_name))}.")
    groups = {"all": harm.figures, **harm.by_class}
    yield table_of(f"{name} against {base_name}, by class of job", group_table(groups, harm.baselines))
    user_of = dict(zip(run.jobs.id.tolist(), owners.user, strict=True))
    users = np.array([user_of[number] for number in harm.jobs.id.tolist()], dtype=np.object_)
    by_user = {user or "not known": harm_figures(harm.jobs.only(users == user), 1) for user in dict.fromkeys(users)}
    losing = sorted(by_user.items(), key=lambda item: item[1].gained_s - item[1].lost_s)[:MOST_ROWS]
    if len(by_user) > 1:
        caption = f"{name} against {base_name}, by user: those that lose most, less what they gain"
        yield table_of(caption, group_table(dict(losing), harm.baselines))
    losers = harm.losers(MOST_ROWS)
    if losers:
        caption = f"{name} against {base_name}: the largest losses, {len(losers)} of {harm.figures.later:,} later jobs"
        yield table_of(caption, loser_table(losers), closed=True)


def sharing_table(name: str, run: StoredRun, owners: JobOwners) -> Block:
    """Return the jobs that neighbours cost most time, by what they took longer than alone."""
    jobs = run.jobs
    rows = np.flatnonzero(population(jobs, "finished", run.selection) & (jobs.work_us > 0))
    lost_us = jobs.wall_us[rows] - jobs.work_us[rows]
    worst = rows[np.lexsort((jobs.id[rows], -lost_us))][:MOST_ROWS]
    worst = worst[jobs.wall_us[worst] > jobs.work_us[worst]]
    if not worst.size:
        return Paragraph(f"{name}: no job took longer than alone on its nodes.", quiet=True)
    cells = [
        (
            str(jobs.id[row]),
            owners.user[row] or NOTHING,
            f"{jobs.threads[row]:,}",
            f"{jobs.work_us[row] / SECOND_US:,.0f}",
            f"{(jobs.wall_us[row] - jobs.work_us[row]) / SECOND_US:,.0f}",
            f"{jobs.wall_us[row] / jobs.work_us[row]:.3f}",
        )
        for row in worst.tolist()
    ]
    headings = ("job", "user", "threads", "alone s", "longer by s", "times as long as alone")
    return Table(f"{name}: jobs that lost most time to neighbours, or to slow nodes", headings, cells)
