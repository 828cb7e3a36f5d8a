"""The page of the coscheduling reproduction: every claim with its verdict, and the tables behind them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from scripts.papers import pages
from scripts.papers import rows as r
from scripts.papers.claims import VERDICTS
from scripts.papers.coscheduling import experiment as ex
from scripts.papers.coscheduling import published as printed
from scripts.papers.coscheduling.claims import OF_CLASSES, SECTIONS, SIX, cell_of, claims, formula_error, speed_up
from scripts.papers.figures import Figures, Where, interval_text
from scripts.papers.harm import harm
from scripts.papers.saturation import saturation
from scripts.papers.study import Size
from scripts.tables import NOTHING, number, percent

from cosched_emulator.statistics.intervals import interval_of

MAIN: Final[pages.Columns] = {
    ex.RESPONSE: ("response [s]", 1.0),
    ex.WAIT: ("wait [s]", 1.0),
    ex.EXECUTION: ("execution [s]", 1.0),
    ex.RUN: ("T [s]", 1.0),
    ex.UTILISATION: ("U %", 100.0),
    ex.RESIDENTS: ("processes on a node in use", 1.0),
    ex.LOAD: ("offered load", 1.0),
}
MECHANISM: Final[pages.Columns] = {
    ex.SPUN: ("CPU time spun %", 100.0),
    ex.SWITCHES: ("switches / CPU s", 1.0),
    ex.INTERRUPTS: ("interrupts / s and node", 1.0),
    ex.DELAY: ("arrival to running [us]", 1.0),
    ex.SWAPPED: ("MB swapped / CPU s", 1.0),
}


# ---------------------------------------------------------------- figures 3, 4, 5


def main_tables(*works: str) -> pages.Section:
    """Return responses, waits, execution and utilisation of all policies, for each of some workloads."""
    names = [ex.cell(name, queue, at) for queue in (ex.SKIP, ex.STRICT) for at in ex.PLACEMENTS for name in ex.DRIVEN]
    names += [ex.cell(name, queue) for name in (ex.GANG, ex.BATCH) for queue in ex.QUEUES]
    texts = {work: f"{told_of(work)}." for work in works}
    return pages.joined(
        *(pages.means_table(MAIN, [Where(work, name) for name in names], text) for work, text in texts.items())
    )


def told_of(work: str) -> str:
    """Return what an experiment is, as the begin of a sentence."""
    return f"{ex.EXPERIMENTS[work][0].upper()}{ex.EXPERIMENTS[work][1:]}"


def ratios(work: str) -> pages.Section:
    """Return HYBRID, packed, over all others."""
    rows: list[pages.Row] = []
    for reading, names in ((ex.MIXED, ex.DRIVEN), (ex.ALL_SKIP, ()), (ex.ALL_STRICT, ex.STRICT_POLICIES)):
        base = cell_of(work, ex.HYBRID, reading)
        others = [(name, at) for at in ex.PLACEMENTS for name in names if (name, at) != (ex.HYBRID, ex.PACKED)]
        others += [(name, ex.PACKED) for name in ((ex.GANG, ex.BATCH) if names else (ex.BATCH,))]
        for where in [cell_of(work, name, reading, at) for name, at in others]:
            keys = (ex.RESPONSE, ex.EXECUTION, ex.RUN, ex.BUSY, ex.ENERGY)
            rows.append(((f"{base.policy} / {where.policy}",), [r.ratio(key, base, where) for key in keys]))
    return pages.table(("",), ["response", "execution", "T", "busy time", "energy"], rows)


# ---------------------------------------------------------------- tables 3 and 4


def table_3() -> pages.Section:
    """Return table 3: energy, utilisation and running time, published beside measured."""
    cells = [
        (ex.cell(name, queue, at), printed.row_3(name, at))
        for queue, names in ((ex.SKIP, ex.DRIVEN), (ex.STRICT, ex.STRICT_POLICIES))
        for at in (ex.SCATTERED, ex.PACKED)
        for name in names
    ]
    cells += [(ex.cell(ex.GANG, queue), printed.row_3(ex.GANG, "")) for queue in (ex.SKIP, ex.STRICT)]
    cells += [(ex.cell(ex.BATCH, queue), printed.row_3(ex.BATCH, "")) for queue in ex.QUEUES]
    return _energy([(Where(ex.HIGH, name), row) for name, row in cells], printed.TABLE_3[ex.BATCH, ""])


def table_4() -> pages.Section:
    """Return table 4 likewise."""
    cells = [
        (cell_of(work, name, reading), printed.row_4(name, aware=aware))
        for reading, driven in ((ex.MIXED, ex.DRIVEN), (ex.ALL_STRICT, ex.STRICT_POLICIES))
        for work, aware in ((ex.UNAWARE, False), (ex.AWARE, True))
        for name in (*driven, ex.GANG)
    ]
    batch = printed.row_4(ex.BATCH, aware=True)
    cells += [(Where(ex.AWARE, ex.cell(ex.BATCH, queue)), batch) for queue in (ex.STRICT, ex.SKIP)]
    return _energy(cells, batch)


def _energy(cells: Iterable[tuple[Where, printed.Row]], batch: printed.Row) -> pages.Section:
    columns = {ex.ENERGY_BUSY: ex.MJ, ex.ENERGY_IDLE: ex.MJ, ex.UTILISATION: 100.0, ex.RUN: 1.0}
    rows: list[pages.Row] = []
    for where, row in cells:
        base = Where(ex.HIGH if where.workload == ex.HIGH else ex.AWARE, ex.cell(ex.BATCH, ex.STRICT))
        theirs = [*map(number, (row.busy_mj, row.idle_mj, row.utilisation, row.run_s))]
        ours = [r.mean(key, where, factor) for key, factor in columns.items()]
        shown = [each for pair in zip(theirs, ours, strict=True) for each in pair]
        last = (f"{row.run_s / batch.run_s:.2f}", pages.aside(r.ratio(ex.RUN, where, base)))
        rows.append(((where.workload, where.policy), [*shown, *last]))
    titles = ("busy MJ", "idle MJ", "U %", "T [s]", "T / batch strict")
    return pages.table(("", ""), [text for title in titles for text in (f"{title}, published", "measured")], rows)


def formula_table() -> pages.Section:
    """Return what the paper's formula makes of its own tables."""
    lines = {("table 3", f"{name} {at}".strip()): row for (name, at), row in printed.TABLE_3.items()}
    for (name, aware), row in printed.TABLE_4.items():
        lines["table 4", f"{name}, {'aware' if aware else 'not aware'}"] = row
    rows: list[pages.Row] = []
    for labels, row in lines.items():
        energies = (number(row.total_mj), number(row.formula_mj()), percent(formula_error(row)))
        rows.append((labels, [*energies, f"{row.busy_w:.1f}"]))
    titles = ["total MJ, printed", "formula MJ", "difference %", "watts of a busy node implied"]
    return pages.table(("", ""), titles, rows, counted=False)


# ---------------------------------------------------------------- figures 6, 7, 8


def copies_table() -> pages.Section:
    """Return figure 6: mean execution of three copies over three times that alone, by program and policy."""
    rows = [
        ((program,), [r.mean(ex.STRETCH, cell_of(ex.copies(program), name)) for name in SIX]) for program in ex.PROGRAMS
    ]
    text = (
        "Mean execution time of three copies of a program, class C, on all 16 nodes, over three times that alone: 1 is"
        " perfect sharing. All start together, so no queue and no estimate matters."
    )
    return pages.table(("",), SIX, rows, text)


def memory_table() -> pages.Section:
    """Return figure 7: responses with and without knowledge of memory, and the speed-ups."""
    rows: list[pages.Row] = []
    for name in (*SIX, ex.BATCH):
        where = cell_of(ex.AWARE, name)
        speeds = [
            lambda figures, key=key, name=name: interval_text(interval_of(dict(speed_up(figures, key, name))))
            for key in (ex.RESPONSE, ex.EXECUTION, ex.WAIT)
        ]
        unaware = pages.aside(r.mean(ex.RESPONSE, cell_of(ex.UNAWARE, name)))
        rows.append(((where.policy,), [unaware, r.mean(ex.RESPONSE, where), *speeds]))
    titles = ["response [s], not aware", "aware", "not aware / aware: response", "execution", "wait"]
    return pages.table(("",), titles, rows, f"{told_of(ex.AWARE)}, and not.")


def energy_table() -> pages.Section:
    """Return figure 8: total energy by class."""
    columns = {
        ex.ENERGY: ("total energy [MJ]", ex.MJ),
        ex.RUN: ("T [s]", 1.0),
        ex.UTILISATION: ("U %", 100.0),
        ex.LOAD: ("offered load", 1.0),
    }
    works = [*map(ex.of_class, ex.CLASSES), ex.LONG]
    return pages.means_table(columns, [cell_of(work, name) for work in works for name in OF_CLASSES])


# ---------------------------------------------------------------- full nodes


def full_table() -> pages.Section:
    """Return the work done on full nodes: the same configurations under all policies."""
    columns = {ex.THROUGHPUT: ("work done, alone = 1", 1.0), ex.RESIDENTS: ("processes on a node", 1.0), **MECHANISM}
    cells = {(name, at): Where(ex.FULL, ex.cell(name, ex.SKIP, at)) for at in ex.PLACEMENTS for name in ex.DRIVEN}
    rows: list[pages.Row] = []
    for (name, at), base in cells.items():
        if name != ex.HYBRID:
            pair = (cells[ex.HYBRID, at], base)

            def more(figures: Figures, pair: tuple[Where, Where] = pair) -> str:
                found = [ratio > 1 for ratio in figures.ratios(ex.THROUGHPUT, *pair).values()]
                return f"{sum(found)} of {len(found)}"

            rows.append(((f"HYBRID / {name}, {at}",), [r.change(ex.THROUGHPUT, *pair), more]))
    for name in ex.DRIVEN:
        pair = (cells[name, ex.PACKED], cells[name, ex.SCATTERED])
        rows.append(((f"{name}, P / NP",), [r.change(ex.THROUGHPUT, *pair), NOTHING]))
    titles = ["change of work done, %", "configurations in which it is more"]
    text = f"{told_of(ex.FULL)}: each seed is one configuration, the same for all policies."
    return pages.joined(
        pages.means_table(columns, cells.values(), text), pages.table(("",), titles, rows, counted=False)
    )


def sensitivity() -> pages.Section:
    """Return the work done on full nodes with one setting changed."""

    def row(text: str, policies: Sequence[str], name: str | None = None) -> pages.Row:
        cells = [
            r.mean(ex.THROUGHPUT, Where(ex.FULL, ex.cell(each, ex.SKIP), name)) if each in policies else NOTHING
            for each in ex.DRIVEN
        ]
        return (text,), cells

    rows = [row(each.text, each.policies, name) for name, each in ex.OF_FULL.items()]
    text = "Work done on full nodes, alone = 1, packed; one setting is changed at a time."
    return pages.table(("",), ex.DRIVEN, [pages.Headed([row("as it is", ex.DRIVEN)], rows)], text)


def own_table(works: Sequence[str]) -> pages.Section:
    """Return experiments that the paper does not have."""
    names = [cell_of(ex.HIGH, name).policy for name in SIX] + [
        ex.cell(ex.BATCH, queue) for queue in (ex.STRICT, ex.EASY)
    ]
    cells = [Where(work, name) for work in works for name in names]
    cells += [cell_of(ex.HIGH, name, variant=variant) for variant, item in ex.OF_HIGH.items() for name in item.policies]
    texts = [f"- {work}: {ex.EXPERIMENTS[work]}." for work in works]
    return pages.means_table({**MAIN, ex.ENERGY: ("energy [MJ]", ex.MJ)}, cells, [*texts, ""])


OWN: Final = (*map(ex.fewer, ex.FEWER), ex.HIGH, ex.AWARE_100, ex.USELESS, ex.WIDE)
_LATER: Final = (
    "The jobs of X1. A shake of less than one iteration does not change the run time of programs with few iterations (IS has"
    " 10, MG of class A 4)."
)


def _head(figures: Figures, size: Size) -> list[str]:
    readings = ", ".join(f"*{reading.name}*" for reading in ex.READINGS)
    return [
        f"{size.jobs:,} jobs on 16 nodes in X1 and X2, {ex.small_jobs(size)} in X3, X4 and X6. A seed draws jobs, bursts, and when the"
        f" daemons and ticks of nodes begin. Seeds that have run: X1 {figures.seeds(cell_of(ex.HIGH, ex.HYBRID))},"
        f" X2 {figures.seeds(cell_of(ex.LIGHT, ex.HYBRID))}, full nodes {figures.seeds(cell_of(ex.FULL, ex.HYBRID))}; each table"
        " says how many its rows have.",
        "",
        VERDICTS,
        "",
        "P: packing, NP: no packing. *strict*: no job starts before an earlier one; *skip*: each job that fits starts. The paper does"
        f" not say which (G4, G5), so claims have up to three readings: {readings}. CC/SB, one curve of the paper, is two rows here.",
        "",
        "The name of a policy ends with its queue. The scheduler knew exact run times, which only EASY reads, and the memory of"
        " processes, but no programs, messages or rates.",
    ]


PARTS: Final = {
    **{title: pages.claims_of(claims, title) for title in SECTIONS},
    "Saturation": saturation([cell_of(work, name) for work in (ex.HIGH, ex.LIGHT) for name in ex.POLICIES]),
    "Figure 3: 100 jobs at two loads": main_tables(ex.HIGH, ex.LIGHT),
    "HYBRID against all others, 100 jobs": pages.joined(ratios(ex.HIGH), ratios(ex.LIGHT)),
    "Table 3: energy of 100 jobs": table_3(),
    "Figures 4 and 5: long jobs, and jobs of one class": main_tables(ex.LONG, *map(ex.of_class, ex.CLASSES)),
    "Figure 6: three copies of one program": copies_table(),
    "Figure 7: knowledge of memory": memory_table(),
    "Table 4: energy of jobs that need much memory": table_4(),
    "Jobs that need much memory: responses": main_tables(ex.AWARE, ex.UNAWARE),
    "Figure 8: energy by class": energy_table(),
    "Full nodes: the same configurations under all policies": full_table(),
    "What the work done depends on": sensitivity(),
    "Which jobs are later than under strict batch": harm(
        cell_of(ex.HIGH, ex.BATCH).policy,
        [Where(ex.HIGH, policy) for policy in ex.COMPARED],
        [cell_of(ex.HIGH, ex.HYBRID)],
        text=[_LATER, ""],
    ),
    "What CPUs do": pages.means_table(MECHANISM, [cell_of(ex.HIGH, name) for name in (*ex.DRIVEN, ex.GANG, ex.BATCH)]),
    "Interrupts by program": pages.means_table(
        MECHANISM, [cell_of(ex.copies(program), name) for program in ex.PROGRAMS for name in (ex.DCS, ex.HYBRID)]
    ),
    "More jobs, fewer jobs, more nodes, useless estimates": own_table(OWN),
    "The formula on the printed tables": formula_table(),
}
report = pages.page(_head, PARTS)
