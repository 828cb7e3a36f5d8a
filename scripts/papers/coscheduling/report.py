"""The page of the coscheduling reproduction: every claim with its verdict, and the tables behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from scripts.papers.claims import VERDICTS, claims_table
from scripts.papers.coscheduling import experiment as ex
from scripts.papers.coscheduling.claims import SECTIONS, cell_of, claims
from scripts.papers.coscheduling.conditions import conditions_table, gaps_table
from scripts.papers.coscheduling.tables import (
    copies_table,
    energy_table,
    formula_table,
    full_table,
    interrupts_table,
    known,
    main_table,
    mechanism_table,
    memory_table,
    own_table,
    ratios,
    sensitivity,
    table_3,
    table_4,
)
from scripts.papers.figures import Figures, Where, sections
from scripts.papers.harm import harm_tables
from scripts.papers.saturation import saturation_table
from scripts.papers.study import Size

OWN: Final = (*map(ex.fewer, ex.FEWER), ex.HIGH, ex.AWARE_100, ex.USELESS, ex.WIDE)


def report(figures: Figures, size: Size) -> list[str]:
    """Return the lines of the page between its markers; a part without runs is left out."""
    readings = ", ".join(f"*{reading.name}*" for reading in ex.READINGS)
    lines = [
        f"{size.jobs:,} jobs on 16 nodes in X1 and X2, {ex.small_jobs(size)} in X3, X4 and X6. A seed draws jobs, bursts, and when the"
        f" daemons and ticks of nodes begin. Seeds that have run: X1 {figures.seeds(cell_of(ex.HIGH, ex.HYBRID))},"
        f" X2 {figures.seeds(cell_of(ex.LIGHT, ex.HYBRID))}, full nodes {figures.seeds(cell_of(ex.FULL, ex.HYBRID))}; each table"
        " says how"
        " many its"
        " rows have.",
        "",
        VERDICTS,
        "",
        "P: packing, NP: no packing. *strict*: no job starts before an earlier one; *skip*: each job that fits starts. The paper does"
        f" not say which (G4, G5), so claims have up to three readings: {readings}. CC/SB, one curve of the paper, is two rows here.",
        "",
    ]
    return [*lines, *sections(figures, _PARTS)]


def _each(part: Callable[[Figures, str], list[str]], workloads: tuple[str, ...]) -> Callable[[Figures], list[str]]:
    return lambda figures: [line for workload in workloads for line in part(figures, workload)]


def _later(figures: Figures) -> list[str]:
    cells = [Where(ex.HIGH, policy) for policy in ex.COMPARED]
    if not any(map(figures.seeds, cells)):
        return []
    text = (
        "The jobs of X1. Programs of few iterations (IS has 10, MG of class A has 4) keep their run times where these are shaken"
        " by less than one iteration."
    )
    return [
        f"{text} {known()}",
        "",
        *harm_tables(figures, cell_of(ex.HIGH, ex.BATCH).policy, cells, [cell_of(ex.HIGH, ex.HYBRID)]),
    ]


def _claims(figures: Figures, section: str) -> list[str]:
    return claims_table(claims(figures, section))


def _static(lines: Callable[[], list[str]]) -> Callable[[Figures], list[str]]:
    return lambda _: lines()


_PARTS: Final[Mapping[str, Callable[[Figures], list[str]]]] = {
    **{title: partial(_claims, section=title) for title in SECTIONS},
    "Saturation": lambda figures: saturation_table(
        figures, [cell_of(workload, name) for workload in (ex.HIGH, ex.LIGHT) for name in ex.POLICIES]
    ),
    "Conditions": _static(conditions_table),
    "What the paper leaves open": _static(gaps_table),
    "Figure 3: 100 jobs at two loads": _each(main_table, (ex.HIGH, ex.LIGHT)),
    "HYBRID against all others, 100 jobs": _each(ratios, (ex.HIGH, ex.LIGHT)),
    "Table 3: energy of 100 jobs": table_3,
    "Figures 4 and 5: long jobs, and jobs of one class": _each(main_table, (ex.LONG, *map(ex.of_class, ex.CLASSES))),
    "Figure 6: three copies of one program": copies_table,
    "Figure 7: knowledge of memory": memory_table,
    "Table 4: energy of jobs that need much memory": table_4,
    "Jobs that need much memory: responses": _each(main_table, (ex.AWARE, ex.UNAWARE)),
    "Figure 8: energy by class": energy_table,
    "Full nodes: the same configurations under all policies": full_table,
    "What the work done hangs on": sensitivity,
    "Which jobs are later than under strict batch": _later,
    "What CPUs do": partial(mechanism_table, workload=ex.HIGH),
    "Interrupts by program": interrupts_table,
    "More jobs, fewer jobs, more nodes, useless estimates": partial(own_table, workloads=OWN),
    "The formula on the printed tables": _static(formula_table),
}
