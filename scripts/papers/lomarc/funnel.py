"""Table 5 of the LOMARC paper: how many waiting jobs each constraint leaves as candidates, and which is selected."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Final, TypeAlias

from scripts.papers.figures import Figures, Where
from scripts.papers.lomarc import experiment as ex
from scripts.papers.lomarc.measures import CONSTRAINTS
from scripts.papers.lomarc.published import STAGES, TABLE_5
from scripts.papers.pages import Row as TableRow
from scripts.papers.pages import Section, table
from scripts.papers.rows import Measured, mean_text
from scripts.tables import NOTHING, number, table_head, table_row

Row: TypeAlias = Sequence[float | None]  # in the order of STAGES

# Over which searches for a partner the mean is taken: the paper does not say. By prefix of the measure's figures.
SEARCHES: Final = {"funnel": "all searches", "funnel_matched": "searches that matched"}
SEARCH: Final = "funnel_matched"  # the kind of searches that is nearer to the paper
SELECTED: Final = "funnel_position"
STAGE_FIGURES: Final = (*(f"{SEARCH}_{name}" for name in CONSTRAINTS), SELECTED)  # in the order of STAGES
CELLS: Final = [(name, work) for name in ex.TRACED for work in ex.M1]  # of table 5
OF_PAIRS: Final = {
    "pairs": "pairs",
    "pairs_slowdown": "mean slowdown",
    "pairs_not_slowed": "not slowed (exactly 1), share",
    "pairs_above_limit": "above the limit of 1.6",
    "pairs_above_memory": "do not fit into memory",
}
_plain = partial(Measured, "mean", show=mean_text)


def funnel_table() -> Section:
    """Return table 5, published beside measured."""
    rows: list[TableRow] = []
    for name, work in CELLS:
        own = Where(work, name, ex.PUBLISHED_LENGTH[work])
        rows.append(((name, work, "published"), [*map(number, TABLE_5[name][work])]))
        for text, where, search in (
            *((text, Where(work, name), search) for search, text in SEARCHES.items()),
            (f"{SEARCHES[SEARCH]}, `{own.variant}`", own, SEARCH),
        ):
            columns = (*(f"{search}_{stage}" for stage in CONSTRAINTS), SELECTED)
            rows.append(((name, work, text), [_plain(column, (where,)) for column in columns]))
    text = (
        "*Queue* counts the jobs that a search for a partner examines, without the searching job. *Selected* is the place of the"
        " selected job among the candidates that pass all constraints. The paper does not say over which searches its means are."
    )
    return table(("", "", ""), STAGES, rows, text, counted=False)


def pairs_table(cells: Mapping[str, Where], text: str) -> Section:
    """Return how the pairs of some cells truly get on, over seeds."""
    rows = [((label, where.policy), [_plain(name, (where,)) for name in OF_PAIRS]) for label, where in cells.items()]
    return table(("", ""), OF_PAIRS.values(), rows, text)


# ---------------------------------------------------------------- which form did the authors run?


def shares(figures: Figures, where: Where, search: str) -> Row | None:
    """Return the share that each constraint leaves of what the one before left, as means over seeds; ``search``: of `SEARCHES`."""
    found = [figures.mean(f"{search}_{name}", where) for name in CONSTRAINTS]
    return None if found[0] is None else shares_of([None if each is None else each.mean for each in found])


def shares_of(row: Row) -> Row:
    """Return these shares of a row of table 5, for all but the queue and the selected."""
    counts = pairwise(row[: len(CONSTRAINTS)])
    return [None if before is None or after is None or not before else after / before for before, after in counts]


def shares_table(figures: Figures) -> list[str]:
    """Return the share that passes each constraint, published and under each form of the slowdown."""
    head = table_head(("", ""), STAGES[1:-1])
    published = {(name, work): shares_of(TABLE_5[name][work]) for name, work in CELLS}
    rows = [table_row(("published", ""), _mean_of([*published.values()]))]
    for form in (ex.FORM, *ex.FORMS):
        variant = None if form == ex.FORM else form
        for search, text in SEARCHES.items():
            found = [shares(figures, Where(work, name, variant), search) for name, work in CELLS]
            known = [each for each in found if each is not None]
            rows += [table_row((form, text), _mean_of(known))] if known else []
    each_row = []
    for (name, work), theirs in published.items():
        mine = shares(figures, Where(work, name), SEARCH)
        if mine is not None:
            each_row.append(table_row((f"{name} {work}", "published"), [*map(_share, theirs)]))
            each_row.append(table_row((f"{name} {work}", ""), [*map(_share, mine)]))
    for work in ex.M1:
        for order in ex.ORDERS:
            other = shares(figures, Where(work, "L-R", order), SEARCH)
            if other is not None:
                each_row.append(table_row((f"L-R {work}", f"`{order}`"), [*map(_share, other)]))
    text = f"Each scheduler and workload with the form `{ex.FORM}`, over searches that found a partner; L-R also with other orders:"
    means = ["Mean over the schedulers and workloads that have run:", "", *head, *rows, ""]
    return [*means, text, "", *head, *each_row, ""]


def _mean_of(rows: Sequence[Row]) -> list[str]:
    columns = [[value for value in column if value is not None] for column in zip(*rows, strict=True)]
    return [_share(statistics.fmean(column) if column else None) for column in columns]


def _share(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"
