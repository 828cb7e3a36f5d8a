"""Table 5 of the LOMARC paper: how many waiting jobs each constraint leaves as candidates, and which is selected."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from scripts.papers.figures import Figures, Where
from scripts.papers.lomarc import experiment as ex
from scripts.papers.lomarc.measures import CONSTRAINTS
from scripts.papers.lomarc.published import STAGES, TABLE_5
from scripts.tables import NOTHING, number, table_row

Row: TypeAlias = Sequence[float | None]  # in the order of STAGES

# Over which searches for a partner the mean is taken: the paper does not say. By prefix of the measure's figures.
SEARCHES: Final = {"funnel": "all searches", "funnel_matched": "searches that matched"}
SEARCH: Final = "funnel_matched"  # the kind of searches that is nearer to the paper
SELECTED: Final = "funnel_position"
STAGE_FIGURES: Final = (*(f"{SEARCH}_{name}" for name in CONSTRAINTS), SELECTED)  # in the order of STAGES


def stages(figures: Figures, where: Where, searches: str) -> Row | None:
    """Return the row of table 5 for a scheduler, as means over the seeds that are there; ``searches``: a key of `SEARCHES`."""
    names = (*(f"{searches}_{name}" for name in CONSTRAINTS), SELECTED)
    row = [_mean([*figures.values(name, where).values()]) for name in names]
    return None if row[0] is None else row


def shares_of_stages(row: Row) -> Row:
    """Return the share that each constraint leaves of what the one before left, for all but the queue and the selected."""
    counts = row[: len(CONSTRAINTS)]
    return [
        None if before is None or after is None or not before else after / before for before, after in pairwise(counts)
    ]


def funnel_table(figures: Figures) -> list[str]:
    """Return table 5, published beside measured."""
    lines = [
        "The queue is what a search for a partner looks at, the searching job not counted; the selected one is counted among the"
        " candidates that all constraints leave. The paper does not say over which searches its means are.",
        "",
        "| | | | " + " | ".join(STAGES) + " |",
        "|---|---|---|" + "---:|" * len(STAGES),
    ]
    for scheduler in ex.TRACED:
        for workload in ex.M1:
            rows: list[tuple[str, Row | None]] = [("published", TABLE_5[scheduler][workload])]
            rows += [(text, stages(figures, Where(workload, scheduler), which)) for which, text in SEARCHES.items()]
            own = Where(workload, scheduler, ex.PUBLISHED_LENGTH[workload])
            rows.append((f"{SEARCHES[SEARCH]}, `{own.variant}`", stages(figures, own, SEARCH)))
            lines += [f"| {scheduler} | {workload} | {text} | {_cells(row, number)} |" for text, row in rows if row]
    return [*lines, ""]


def shares_table(figures: Figures) -> list[str]:
    """Return the share that passes each constraint, published and under each form of the slowdown: which did the authors run?"""
    head = ["| | | " + " | ".join(STAGES[1:-1]) + " |", "|---|---|" + "---:|" * len(STAGES[1:-1])]
    kinds = [(form, which) for form in (ex.FORM, *ex.FORMS) for which in SEARCHES]
    rows: dict[tuple[str, str], dict[str, Row]] = {kind: {} for kind in (("published", ""), *kinds)}
    for scheduler in ex.TRACED:
        for workload in ex.M1:
            label = f"{scheduler} {workload}"
            rows["published", ""][label] = shares_of_stages(TABLE_5[scheduler][workload])
            for form, which in kinds:
                row = stages(figures, Where(workload, scheduler, None if form == ex.FORM else form), which)
                if row is not None:
                    rows[form, which][label] = shares_of_stages(row)
    lines = ["Mean over the schedulers and workloads that have run:", "", *head]
    for (form, which), found in rows.items():
        if found:
            mean = [
                _mean([value for value in column if value is not None]) for column in zip(*found.values(), strict=True)
            ]
            lines.append(table_row((form, SEARCHES.get(which, "")), [_share(value) for value in mean]))
    lines += [
        "",
        f"Each, of `{ex.FORM}`, over searches that matched, and L-R with the queue in another order:",
        "",
        *head,
    ]
    for label, theirs in rows["published", ""].items():
        mine = rows[ex.FORM, "funnel_matched"].get(label)
        if mine is not None:
            lines += [f"| {label} | published | {_cells(theirs, _share)} |", f"| {label} | | {_cells(mine, _share)} |"]
    for workload in ex.M1:
        for order in ex.ORDERS:
            other = stages(figures, Where(workload, "L-R", order), SEARCH)
            if other is not None:
                lines.append(f"| L-R {workload} | `{order}` | {_cells(shares_of_stages(other), _share)} |")
    return [*lines, ""]


def pairs_table(figures: Figures, cells: Mapping[str, Where]) -> list[str]:
    """Return how the pairs of some cells truly get on, over seeds."""
    names = {
        "pairs": "pairs",
        "pairs_slowdown": "mean slowdown",
        "pairs_not_slowed": "not slowed (exactly 1), share",
        "pairs_above_limit": "above the limit of 1.6",
        "pairs_above_memory": "do not fit into memory",
    }
    lines = ["| | | seeds | " + " | ".join(names.values()) + " |", "|---|---|---|" + "---:|" * len(names)]
    for label, where in cells.items():
        if figures.values("pairs", where):
            row = [number(_mean([*figures.values(name, where).values()])) for name in names]
            lines.append(table_row((label, where.policy, str(figures.seeds(where))), row))
    return [*lines, ""]


def _cells(row: Row, text: Callable[[float | None], str]) -> str:
    return " | ".join(text(value) for value in row)


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _share(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"
