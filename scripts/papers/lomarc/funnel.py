"""Table 5 of the LOMARC paper: how many waiting jobs each constraint leaves as candidates, and which is selected."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias

from scripts.papers.lomarc.published import STAGES, TABLE_5
from scripts.papers.lomarc.runs import AARR, BASE_FORM, FORMS, FUNNEL, TRACED, Task
from scripts.tables import NOTHING, number

Results: TypeAlias = Mapping[Task, Mapping[str, Any]]  # of traced runs
Row: TypeAlias = Sequence[float | None]  # in the order of STAGES

CONSTRAINTS: Final = ("all", "short", "size", "memory", "type", "slowdown")  # as a decision trace names them
# Over which searches for a partner the mean is taken: the paper does not say.
SEARCHES: Final = {"mean": "all searches", "mean_matched": "searches that matched"}


def stages(results: Results, task: Task, which: str) -> Row | None:
    """Return the row of table 5 for a task, as means over the seeds that are there; ``which``: a key of `SEARCHES`."""
    found = [
        result["funnel"]["partners"]
        for other, result in results.items()
        if other.series == task.series and result["funnel"]["partners"]["searches"]
    ]
    if not found:
        return None
    rows = [[*(partners["left"][name][which] for name in CONSTRAINTS), partners["position"]] for partners in found]
    return [_mean(column) for column in zip(*rows, strict=True)]


def shares_of_stages(row: Row) -> Row:
    """Return the share that each constraint leaves of what the one before left, for all but the queue and the selected."""
    counts = row[: len(CONSTRAINTS)]
    return [
        None if before is None or after is None or not before else after / before for before, after in pairwise(counts)
    ]


def funnel_table(results: Results) -> list[str]:
    """Return table 5, published beside measured."""
    lines = [
        "The queue is what a search for a partner looks at, the searching job not counted; the selected one is counted among the"
        " candidates that all constraints leave. The paper does not say over which searches its means are.",
        "",
        "| | | | " + " | ".join(STAGES) + " |",
        "|---|---|---|" + "---:|" * len(STAGES),
    ]
    for scheduler in TRACED:
        for workload in AARR:
            rows: list[tuple[str, Row | None]] = [("published", TABLE_5[scheduler][workload])]
            task = Task(workload, "M1", scheduler, variant=FUNNEL)
            rows += [(text, stages(results, task, which)) for which, text in SEARCHES.items()]
            lines += [f"| {scheduler} | {workload} | {text} | {_cells(row, number)} |" for text, row in rows if row]
    return [*lines, ""]


def shares_table(results: Results) -> list[str]:
    """Return the share that passes each constraint, published and under each form of the slowdown: which did the authors run?"""
    head = ["| | | " + " | ".join(STAGES[1:-1]) + " |", "|---|---|" + "---:|" * len(STAGES[1:-1])]
    kinds = [(form, which) for form in FORMS for which in SEARCHES]
    rows: dict[tuple[str, str], dict[str, Row]] = {kind: {} for kind in (("published", ""), *kinds)}
    for scheduler in TRACED:
        for workload in AARR:
            label = f"{scheduler} {workload}"
            rows["published", ""][label] = shares_of_stages(TABLE_5[scheduler][workload])
            for form, which in kinds:
                row = stages(results, Task(workload, "M1", scheduler, variant=FUNNEL, form=form), which)
                if row is not None:
                    rows[form, which][label] = shares_of_stages(row)
    lines = [
        "The forms of the slowdown differ in the last constraint."
        f" Means over all searches, but where it says so; the page's other tables are of `{BASE_FORM}`.",
        "",
        "Mean over schedulers and workloads:",
        "",
        *head,
    ]
    for (form, which), found in rows.items():
        if found:
            mean = [_mean(column) for column in zip(*found.values(), strict=True)]
            lines.append(f"| {form} | {SEARCHES.get(which, '')} | {_cells(mean, _share)} |")
    lines += ["", "Each:", "", *head]
    for label in rows["published", ""]:
        for (form, which), found in rows.items():
            if label in found and (form == BASE_FORM or which != "mean_matched"):
                name = f"{form}, {SEARCHES[which]}" if which == "mean_matched" else form
                lines.append(f"| {label} | {name} | {_cells(found[label], _share)} |")
    return [*lines, ""]


def _cells(row: Row, text: Callable[[float | None], str]) -> str:
    return " | ".join(text(value) for value in row)


def _mean(values: Sequence[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return statistics.fmean(found) if found else None


def _share(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"
