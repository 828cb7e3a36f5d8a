"""Tables of the report about the jobs of runs: intervals within a run, users, who is later than before, who was slowed down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from cosched_emulator.page.document import Block, Paragraph, Table
from cosched_emulator.results.ended_jobs import BoolArray
from cosched_emulator.results.figures import comparison
from cosched_emulator.results.figures.metrics import population, quantity
from cosched_emulator.results.files.run_reader import JobOwners, StoredRun
from cosched_emulator.results.harm import Harm, harm_figures, outcomes
from cosched_emulator.results.harm_tables import Cells, group_table, head_lines, loser_table
from cosched_emulator.statistics.intervals import amount_of
from cosched_emulator.studies.study_result import within_run
from cosched_emulator.studies.text import KNOWN
from cosched_hwmodel.units import SECOND_US

MOST_ROWS: Final = 25  # of tables of users and of jobs
MOST_JOBS: Final = 50_000  # of a run, for intervals of percentiles
_WITHIN: Final = ("wait_s_mean", "wait_s_p95", "response_s_mean", "response_s_p95")
_OF_HARM: Final = (  # fields of `HarmFigures`
    comparison.Figure("later", ("h1",), "share"),
    comparison.Figure("lost", ("lost_s",), "seconds"),
    comparison.Figure("gained", ("gained_s",), "seconds"),
    comparison.Figure("lost, of all response time", ("lost_share",), "share"),
)


def table_of(caption: str, cells: Cells, *, closed: bool = False) -> Table:
    """Return a table whose headings are the first row of ``cells``."""
    return Table(caption, cells[0], cells[1:], closed=closed)


def interval_blocks(runs: Sequence[tuple[str, StoredRun]], times: comparison.TimeUnit) -> Iterator[Block]:
    """Yield waits and responses of named runs, each with its interval within that run."""
    lacking = False
    found = [outcomes(run.jobs, run.machine, run.selection) for _, run in runs]
    rows = []
    many = any(len(jobs) > MOST_JOBS for jobs in found)
    for name in _WITHIN:
        if many and not name.endswith("_mean"):
            continue
        (figure,) = comparison.in_unit([KNOWN.get(name, comparison.Figure(name, (name,), "seconds"))], times)
        intervals = [within_run(jobs, name) for jobs in found]
        unit, texts = comparison.interval_texts(figure, intervals, intervals)
        rows.append((figure.label, unit, *texts))
        lacking = lacking or not all(each is not None and each.exists for each in intervals)
    caption = "95 % intervals within a run, by blocks of successive jobs: for this workload alone"
    yield Table(caption, ("", "unit", *(name for name, _ in runs)), rows)
    if many:
        yield Paragraph(
            f"Of more than {MOST_JOBS:,} jobs the intervals of p95 would take long, and are left out.", quiet=True
        )
    if lacking:
        why = "the waits of successive jobs are similar for so long that the run has too few blocks"
        yield Paragraph(f"Where there is no interval, there are no such jobs, or {why}.", quiet=True)


# ---------------------------------------------------------------- users


def user_block(name: str, run: StoredRun, owners: JobOwners, times: comparison.TimeUnit) -> Block:
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
    size, unit = comparison.energy_unit(float(np.nansum(owners.energy_j[ran])) or 1.0)
    columns: dict[str, list[float | None]] = {
        "jobs": [int(np.count_nonzero(rows)) for _, rows in groups],
        "thread-hours": [float(hours[rows].sum()) for _, rows in groups],
        f"wait, mean {times[1]}": _means(run, "wait_s", groups, times[0]),
        f"wait, p95 {times[1]}": [_p95(run, "wait_s", rows, times[0]) for _, rows in groups],
        "bounded slowdown 10 s, mean": _means(run, "bounded_slowdown_10s", groups),
        "penalised run time, mean %": _means(run, "penalised_percent", groups),
    }
    if not np.isnan(owners.energy_j[ran]).all():
        columns[f"energy {unit}"] = [float(np.nansum(owners.energy_j[rows])) / size for _, rows in groups]
    texts = [
        [f"{value:,.0f}" for value in columns.pop("jobs") if value is not None],
        *map(comparison.number_texts, columns.values()),
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


def harm_blocks(
    name: str,
    base_name: str,
    harms: Mapping[int | None, Harm],
    first_run: StoredRun,
    owners: JobOwners,
    times: comparison.TimeUnit,
) -> Iterator[Block]:
    """Yield who responds later than in the baseline, by seed, by class and by user, and the jobs that lose most.

    ``owners`` are those of the first run, and the users so, too.
    """
    against = f"{name} against {base_name}"
    several = len(harms) > 1
    heads = {seed: "; ".join(head_lines(harm, base_name)) for seed, harm in harms.items()}
    alike = len(set(heads.values())) == 1
    for seed, head in [*heads.items()][: 1 if alike else None]:
        yield Paragraph(f"{against}{'' if alike else f', seed {seed}'}: {head}.")
    first, harm = next(iter(harms.items()))
    if several:
        by_seed = {f"seed {seed}": each.figures for seed, each in harms.items()}
        yield table_of(f"{against}, by seed", group_table(by_seed, harm.baselines))
        yield _over_seeds(f"{against}, by class of job: means over {len(harms)} seeds, with 95 % intervals", harms)
    else:
        yield table_of(
            f"{against}, by class of job", group_table({"all": harm.figures, **harm.by_class}, harm.baselines)
        )
    yield from _harm_by_user(f"{against}{f', seed {first}' * several}", harm, owners, first_run)
    yield from _largest_losses(against, harms, times)


def _over_seeds(caption: str, harms: Mapping[int | None, Harm]) -> Table:
    """Return what all jobs, and those of each class, lose and gain on average over the runs."""
    groups = dict.fromkeys(("all", *(group for harm in harms.values() for group in harm.by_class)))
    figures = {
        group: {
            comparison.UNKNOWN_SEED if seed is None else seed: harm.figures if group == "all" else harm.by_class[group]
            for seed, harm in harms.items()
            if group == "all" or group in harm.by_class
        }
        for group in groups
    }
    counts = [[each.jobs for each in its.values()] for its in figures.values()]
    headings, columns = ["", "jobs"], [comparison.number_texts([sum(each) / len(each) for each in counts])]
    for figure in _OF_HARM:
        values = [{seed: getattr(each, figure.path[0]) for seed, each in its.items()} for its in figures.values()]
        known = [{seed: value for seed, value in its.items() if value is not None} for its in values]
        unit, texts = comparison.interval_texts(
            figure, [amount_of(its, most=comparison.most_of(figure.path[0])) for its in known]
        )
        headings.append(f"{figure.label} {unit}".rstrip())
        columns.append(texts)
    return Table(caption, headings, list(zip(groups, *columns, strict=True)))


def _harm_by_user(caption: str, harm: Harm, owners: JobOwners, run: StoredRun) -> Iterator[Table]:
    user_of = dict(zip(run.jobs.id.tolist(), owners.user, strict=True))
    users = np.array([user_of[number] for number in harm.jobs.id.tolist()], dtype=np.object_)
    by_user = {user or "not known": harm_figures(harm.jobs.only(users == user), 1) for user in dict.fromkeys(users)}
    losing = sorted(by_user.items(), key=lambda item: item[1].gained_s - item[1].lost_s)[:MOST_ROWS]
    if len(by_user) > 1:
        heading = f"{caption}, by user: those that lose most, less what they gain"
        yield table_of(heading, group_table(dict(losing), harm.baselines))


def _largest_losses(against: str, harms: Mapping[int | None, Harm], times: comparison.TimeUnit) -> Iterator[Table]:
    found = [(seed, loser) for seed, harm in harms.items() for loser in harm.losers(MOST_ROWS)]
    found = sorted(found, key=lambda item: -item[1].lost_s)[:MOST_ROWS]
    if found:
        later = sum(harm.figures.later for harm in harms.values())
        heading, *rows = loser_table([loser for _, loser in found], times)
        if len(harms) > 1:
            heading.insert(1, "seed")
            for row, (seed, _) in zip(rows, found, strict=True):
                row.insert(1, str(seed))
        caption = f"{against}: the largest losses, {len(found)} of {later:,} later jobs"
        yield table_of(caption, [heading, *rows], closed=True)


def sharing_table(name: str, run: StoredRun, owners: JobOwners, times: comparison.TimeUnit) -> Block:
    """Return the jobs that neighbours cost most time, by what they took longer than alone."""
    jobs = run.jobs
    rows = np.flatnonzero(population(jobs, "finished", run.selection) & (jobs.work_us > 0))
    lost_us = jobs.wall_us[rows] - jobs.work_us[rows]
    worst = rows[np.lexsort((jobs.id[rows], -lost_us))][:MOST_ROWS]
    worst = worst[jobs.wall_us[worst] > jobs.work_us[worst]]
    if not worst.size:
        return Paragraph(f"{name}: no job took longer than alone on its nodes.", quiet=True)
    size, unit = times
    alone, longer = (
        comparison.number_texts([time_us / SECOND_US / size for time_us in column[worst].tolist()])
        for column in (jobs.work_us, jobs.wall_us - jobs.work_us)
    )
    unknown = comparison.NOTHING if any(owners.user[row] for row in worst.tolist()) else ""
    cells = [
        (
            str(jobs.id[row]),
            owners.user[row] or unknown,
            f"{jobs.threads[row]:,}",
            alone[place],
            longer[place],
            f"{jobs.wall_us[row] / jobs.work_us[row]:.3f}",
        )
        for place, row in enumerate(worst.tolist())
    ]
    headings = ("job", "user", "threads", f"alone {unit}", f"longer by {unit}", "times as long as alone")
    return Table(f"{name}: jobs that lost most time to neighbours, or to slow nodes", headings, cells)
