"""Who is worse off: the table of a paper's page that compares the jobs of each cell with those of its baselines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from scripts.papers.figures import Figures, Where, interval_text
from scripts.papers.pages import Columns, Section, heads, joined, means, table
from scripts.tables import number, table_head, table_row

from cosched_emulator.statistics.weighted import CLASS_NAMES

COLUMNS: Final[Columns] = {
    "harm_h1": ("H1 %", 100.0),
    "harm_hshk": ("Hshk %", 100.0),
    "harm_hshk_floor": ("floor %", 100.0),
    "harm_lost_share": ("lost, of all response time %", 100.0),
    "harm_killed": ("killed, and not in the baseline", 1.0),
}
OF_CLASS: Final = ("h1", "hshk", "hshk_floor")


def harm(
    baseline: str,
    cells: Iterable[Where],
    classes: Sequence[Where],
    runs: str = "ten",
    shaken: str = "nine",
    text: Sequence[str] = (),
) -> Section:
    """Return what H1, Hshk and floor are, a row for each cell that is compared, and a table by class of jobs for some.

    ``runs``: of the baseline, with those that are ``shaken``.
    """
    told = (
        f"A job is *later* if its response time is above 1.05 times its response time under {baseline}, + 60 s. *H1* is the share of"
        f" jobs that are later than in one run of {baseline}. Most of H1 is chance: any change of a schedule makes some jobs earlier"
        f" and others later. *Hshk* is the share of jobs that are later than in every one of {runs} runs of {baseline}; in {shaken} of"
        f" these the run times are shaken by ± 2 %. *Floor* is the Hshk of {baseline} itself, which is chance alone. Only the part of"
        " Hshk above its floor is harm."
    )
    rows = [((where.workload, where.policy), means(COLUMNS, where)) for where in cells]
    whole = table(("", ""), heads(COLUMNS), rows, [*text, told, ""])

    def by_class(figures: Figures) -> list[str]:
        found = [row for where in classes for row in _of_classes(figures, where)]
        head = table_head(("", "", "class of jobs"), ["jobs", "H1 %", "Hshk %", "floor %"])
        kinds = (
            "By class: *short* jobs have an estimate of at most 600 s, *medium* ones of at most 10,800 s; *wide* jobs ask for more than"
            " a quarter of the machine."
        )
        return [kinds, "", *head, *found, ""] if found else []

    return joined(whole, by_class)


def _of_classes(figures: Figures, where: Where) -> list[str]:
    rows = []
    for name in CLASS_NAMES:
        column = f"harm_{name.replace(' ', '_')}"
        jobs = figures.mean(f"{column}_jobs", where)
        if jobs is not None and jobs.mean:
            found = [interval_text(figures.mean(f"{column}_{item}", where), factor=100.0) for item in OF_CLASS]
            rows.append(table_row((where.workload, where.policy, name), [number(round(jobs.mean)), *found]))
    return rows
