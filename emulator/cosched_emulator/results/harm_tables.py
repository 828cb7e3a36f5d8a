"""Tables of `Harm` for a terminal, and its jobs as CSV."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TextIO, TypeAlias

from cosched_emulator.results.figures.comparison import NOTHING, TimeUnit, number_texts, time_unit
from cosched_emulator.results.harm import KILLED, Harm, HarmFigures, Loser
from cosched_terminal.tables import align

UNPAIRED_TEXTS: Final[Mapping[str, str]] = {  # by field of `Unpaired`
    "killed": "killed at the limit in the run, completed in the baseline",
    "not_completed": "not completed in the run for another reason, completed in the baseline",
    "missing": "not in the run",
    "baseline_killed": "killed at the limit in the baseline, completed in the run",
    "baseline_not_completed": "not completed in the baseline for another reason, completed in the run",
    "baseline_missing": "not in the baseline",
    "neither": "completed in neither",
}
_SHOWN_KILLED = 10
_LOSER_TIMES: Final = {
    "submitted": "submit_s", "response": "response_s", "baseline": "baseline_s", "lost": "lost_s",
}  # fmt: skip
Cells: TypeAlias = list[list[str]]  # the first row has the headings, the first column the names


def harm_text(harm: Harm, baseline: str, most: int) -> str:
    """Return all tables for a terminal; ``baseline`` is the name of the first one, ``most`` the number of losers to list."""
    groups = {"all": harm.figures, **harm.by_class}
    parts = ["\n".join(head_lines(harm, baseline)), _aligned(group_table(groups, harm.baselines))]
    parts.append(_aligned(response_table(groups)))
    losers = harm.losers(most)
    if losers:
        shown = _aligned(loser_table(losers), texts=2)
        parts.append(f"Largest losses, {len(losers)} of {harm.figures.later} later jobs:\n{shown}")
    if harm.killed:
        shown = ", ".join(map(str, harm.killed[:_SHOWN_KILLED])) + (", ..." if len(harm.killed) > _SHOWN_KILLED else "")
        parts.append(f"{KILLED.capitalize()}, completed in the baseline: {shown}")
    return "\n\n".join(parts) + "\n"


def write_csv(stream: TextIO, harm: Harm) -> None:
    """Write a row for each job that completed in both runs, the largest loss first, then one for each that was killed.

    A killed job has its id and cause only.
    """
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(Loser._fields)
    for job in harm.every_job():
        writer.writerow(["" if value is None else int(value) if isinstance(value, bool) else value for value in job])
    for number in harm.killed:
        row = {"id": number, "cause": KILLED}
        writer.writerow([row.get(name, "") for name in Loser._fields])


def head_lines(harm: Harm, baseline: str) -> list[str]:
    """Return what is compared with what, and the jobs that are not."""
    others = harm.baselines - 1
    more = f", and {others} more baseline{'s' if others > 1 else ''}" if others else ""
    factor, grace_s = harm.rule
    lines = [
        f"jobs completed in this run and in {baseline}{more}: {harm.figures.jobs:,}",
        f"later (H1): response > {factor:g} x response in the baseline + {grace_s:g} s",
    ]
    counts = harm.unpaired._asdict().items()
    return [*lines, *(f"jobs {UNPAIRED_TEXTS[name]}: {count:,}" for name, count in counts if count)]


def group_table(rows: Mapping[str, HarmFigures], baselines: int) -> Cells:
    """Return how many jobs of each group are later, and what it lost and gained; ``baselines``: their number."""
    columns: dict[str, list[str]] = {
        "jobs": [f"{row.jobs:,}" for row in rows.values()],
        "later": [f"{row.later:,}" for row in rows.values()],
        "H1 %": _percents(rows.values(), lambda row: row.h1),
    }
    if baselines > 1:
        columns["Hshk %"] = _percents(rows.values(), lambda row: row.hshk)
        columns["floor %"] = _percents(rows.values(), lambda row: row.hshk_floor)
    size, unit = time_unit(max(max(row.lost_s, row.gained_s) for row in rows.values()))
    columns[f"lost {unit}"] = number_texts([row.lost_s / size for row in rows.values()])
    columns[f"gained {unit}"] = number_texts([row.gained_s / size for row in rows.values()])
    columns["lost %"] = _percents(rows.values(), lambda row: row.lost_share)
    return _table("", list(rows), columns)


def response_table(rows: Mapping[str, HarmFigures]) -> Cells:
    """Return the responses in both runs, and the quantiles of their ratio, by group."""
    times: dict[str, list[float | None]] = {
        "mean": [row.response_mean_s for row in rows.values()],
        "baseline": [row.baseline_mean_s for row in rows.values()],
        "p99": [row.response_p99_s for row in rows.values()],
        "baseline p99": [row.baseline_p99_s for row in rows.values()],
    }
    size, unit = time_unit(
        max((value for column in times.values() for value in column if value is not None), default=0)
    )
    columns = {
        f"{name} {unit}": number_texts([None if value is None else value / size for value in column])
        for name, column in times.items()
    }
    for name in ("p5", "p50", "p95", "p99", "max"):
        columns[f"ratio {name}"] = _ratios(row.ratio.get(name) for row in rows.values())
    return _table("response", list(rows), columns)


def loser_table(losers: Sequence[Loser], times: TimeUnit | None = None) -> Cells:
    """Return a row for each job, its times in one unit (None: that of the longest response); the last two columns are texts."""
    size, unit = times or time_unit(max(job.response_s for job in losers))
    columns: dict[str, list[str]] = {
        "threads": [str(job.size) for job in losers],
        **{
            f"{name} {unit}": [
                f"{value:,.0f}" if size == 1 else f"{value / size:,.2f}"
                for value in (getattr(job, key) for job in losers)
            ]
            for name, key in _LOSER_TIMES.items()
        },
        "ratio": _ratios(job.ratio for job in losers),
    }
    if any(job.later_than_all is not None for job in losers):
        columns["later than all"] = [{True: "yes", False: "no", None: NOTHING}[job.later_than_all] for job in losers]
    columns["class"] = [job.job_class for job in losers]
    columns["cause"] = [job.cause for job in losers]
    return _table("job", [str(job.id) for job in losers], columns)


def _table(corner: str, names: Sequence[str], columns: Mapping[str, Sequence[str]]) -> Cells:
    return [[corner, *columns], *([name, *cells] for name, *cells in zip(names, *columns.values(), strict=True))]


def _aligned(rows: Cells, texts: int = 0) -> str:
    """Return the rows as lines; the last ``texts`` columns are no numbers."""
    return "\n".join(align(rows, range(1, len(rows[0]) - texts)))


def _ratios(values: Iterable[float | None]) -> list[str]:
    """Return each value with its own number of decimals: ratios differ by orders of magnitude."""
    return [number_texts([value])[0] for value in values]


def _percents(rows: Iterable[HarmFigures], share: Callable[[HarmFigures], float | None]) -> list[str]:
    return number_texts([None if (value := share(row)) is None else 100 * value for row in rows])
