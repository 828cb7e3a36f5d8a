"""The tables of the coscheduling page: figures 3 to 8 and tables 3 and 4 of the paper, published beside measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from scripts.papers.coscheduling import experiment as ex
from scripts.papers.coscheduling import published as printed
from scripts.papers.coscheduling.claims import OF_CLASSES, SIX, cell_of, formula_error, speed_up
from scripts.papers.figures import Figures, Where, interval_text, percent_text
from scripts.papers.means import means_table
from scripts.tables import NOTHING, number, percent, table_head, table_row

from cosched_emulator.statistics.intervals import Interval, interval_of

MAIN: Final[Mapping[str, tuple[str, float]]] = {
    ex.RESPONSE: ("response [s]", 1.0),
    ex.WAIT: ("wait [s]", 1.0),
    ex.EXECUTION: ("execution [s]", 1.0),
    ex.RUN: ("T [s]", 1.0),
    ex.UTILISATION: ("U %", 100.0),
    ex.RESIDENTS: ("processes on a node in use", 1.0),
    ex.LOAD: ("offered load", 1.0),
}
MECHANISM: Final[Mapping[str, tuple[str, float]]] = {
    ex.SPUN: ("CPU time spun %", 100.0),
    ex.SWITCHES: ("switches / CPU s", 1.0),
    ex.INTERRUPTS: ("interrupts / s and node", 1.0),
    ex.DELAY: ("arrival to running [us]", 1.0),
    ex.SWAPPED: ("MB swapped / CPU s", 1.0),
}


def known(what: str = "run times, exactly") -> str:
    """Return what a table says of the scheduler's knowledge."""
    return (
        f"The name of a policy ends with its queue. The scheduler knew {what}, which only EASY reads, and the memory of"
        " processes; nothing of programs, messages or rates."
    )


# ---------------------------------------------------------------- figures 3, 4, 5


def main_table(figures: Figures, workload: str) -> list[str]:
    """Return responses, waits, execution and utilisation of all policies that have run."""
    names = [ex.cell(name, queue, at) for queue in (ex.SKIP, ex.STRICT) for at in ex.PLACEMENTS for name in ex.DRIVEN]
    names += [ex.cell(name, queue) for name in (ex.GANG, ex.BATCH) for queue in ex.QUEUES]
    found = means_table(figures, MAIN, [Where(workload, name) for name in names])
    return (
        [f"{ex.EXPERIMENTS[workload][0].upper()}{ex.EXPERIMENTS[workload][1:]}. {known()}", "", *found] if found else []
    )


def ratios(figures: Figures, workload: str) -> list[str]:
    """Return HYBRID, packed, over all others."""
    rows = []
    for reading in (ex.MIXED, ex.ALL_SKIP, ex.ALL_STRICT):
        base = cell_of(workload, ex.HYBRID, reading)
        driven = ex.DRIVEN if reading is ex.MIXED else ex.STRICT_POLICIES if reading is ex.ALL_STRICT else ()
        others = [(name, at) for at in ex.PLACEMENTS for name in driven if (name, at) != (ex.HYBRID, ex.PACKED)]
        others += [(name, ex.PACKED) for name in (ex.GANG, ex.BATCH)]
        for name, at in others:
            where = cell_of(workload, name, reading, at)
            found = {
                key: figures.ratio(key, base, where) for key in (ex.RESPONSE, ex.EXECUTION, ex.RUN, ex.BUSY, ex.ENERGY)
            }
            if any(found.values()) and (reading is not ex.ALL_SKIP or name == ex.BATCH):
                seeds = max(each.n for each in found.values() if each is not None)
                rows.append(
                    table_row(
                        (f"{base.policy} / {where.policy}", str(seeds)),
                        [interval_text(each) for each in found.values()],
                    )
                )
    head = table_head(("", "seeds"), ["response", "execution", "T", "busy time", "energy"])
    return [*head, *rows, ""] if rows else []


# ---------------------------------------------------------------- tables 3 and 4


def table_3(figures: Figures) -> list[str]:
    """Return table 3: energy, utilisation and running time, published beside measured."""
    rows = []
    for queue, names in ((ex.SKIP, ex.DRIVEN), (ex.STRICT, ex.STRICT_POLICIES)):
        for at in (ex.SCATTERED, ex.PACKED):
            rows += [
                _energy_row(figures, Where(ex.HIGH, ex.cell(name, queue, at)), printed.row_3(name, at))
                for name in names
            ]
    rows += [
        _energy_row(figures, Where(ex.HIGH, ex.cell(ex.GANG, queue)), printed.row_3(ex.GANG, ""))
        for queue in (ex.SKIP, ex.STRICT)
    ]
    rows += [
        _energy_row(figures, Where(ex.HIGH, ex.cell(ex.BATCH, queue)), printed.row_3(ex.BATCH, ""))
        for queue in ex.QUEUES
    ]
    return _energy_table(rows)


def table_4(figures: Figures) -> list[str]:
    """Return table 4 likewise."""
    rows = [
        _energy_row(figures, cell_of(workload, name, reading), printed.row_4(name, aware=aware))
        for reading, driven in ((ex.MIXED, ex.DRIVEN), (ex.ALL_STRICT, ex.STRICT_POLICIES))
        for workload, aware in ((ex.UNAWARE, False), (ex.AWARE, True))
        for name in (*driven, ex.GANG)
    ]
    rows += [
        _energy_row(figures, Where(ex.AWARE, ex.cell(ex.BATCH, queue)), printed.row_4(ex.BATCH, aware=True))
        for queue in (ex.STRICT, ex.SKIP)
    ]
    return _energy_table(rows)


def _energy_row(figures: Figures, where: Where, row: printed.Row) -> str | None:
    if not figures.seeds(where):
        return None
    high = where.workload == ex.HIGH
    against = figures.ratio(ex.RUN, where, Where(ex.HIGH if high else ex.AWARE, ex.cell(ex.BATCH, ex.STRICT)))
    batch_row = printed.TABLE_3[ex.BATCH, ""] if high else printed.TABLE_4[ex.BATCH, True]
    cells = [
        number(row.busy_mj),
        interval_text(figures.mean(ex.ENERGY_BUSY, where), factor=ex.MJ),
        number(row.idle_mj),
        interval_text(figures.mean(ex.ENERGY_IDLE, where), factor=ex.MJ),
        number(row.utilisation),
        interval_text(figures.mean(ex.UTILISATION, where), factor=100.0),
        number(row.run_s),
        interval_text(figures.mean(ex.RUN, where)),
        f"{row.run_s / batch_row.run_s:.2f}",
        interval_text(against),
    ]
    return table_row((where.workload, where.policy, str(figures.seeds(where))), cells)


def _energy_table(rows: Sequence[str | None]) -> list[str]:
    found = [row for row in rows if row is not None]
    titles = ("busy MJ", "idle MJ", "U %", "T [s]", "T / batch strict")
    head = table_head(("", "", "seeds"), [text for title in titles for text in (f"{title}, published", "measured")])
    return [f"{known()}", "", *head, *found, ""] if found else []


def formula_table() -> list[str]:
    """Return what the paper's formula makes of its own tables."""
    rows_of = [("table 3", f"{name} {at}".strip(), row) for (name, at), row in printed.TABLE_3.items()]
    rows_of += [
        ("table 4", f"{name}, {'aware' if aware else 'not aware'}", row)
        for (name, aware), row in printed.TABLE_4.items()
    ]
    head = table_head(("", ""), ["total MJ, printed", "formula MJ", "difference %", "watts of a busy node implied"])
    rows = []
    for title, name, row in rows_of:
        cells = [number(row.total_mj), number(row.formula_mj()), percent(formula_error(row)), f"{row.busy_w:.1f}"]
        rows.append(table_row((title, name), cells))
    return [*head, *rows, ""]


# ---------------------------------------------------------------- figures 6, 7, 8


def copies_table(figures: Figures) -> list[str]:
    """Return figure 6: mean execution of three copies over three times that alone, by program and policy."""
    rows = []
    names = (*ex.DRIVEN, ex.GANG)
    for program in ex.PROGRAMS:
        cells = [cell_of(ex.copies(program), name) for name in names]
        if any(figures.seeds(where) for where in cells):
            seeds = max(figures.seeds(where) for where in cells)
            rows.append(
                table_row((program, str(seeds)), [interval_text(figures.mean(ex.STRETCH, where)) for where in cells])
            )
    text = (
        "Mean execution time of three copies of a program, class C, on all 16 nodes, over three times that alone: 1 is"
        " perfect sharing. All start together, so no queue and no estimate matters."
    )
    return [text, "", *table_head(("", "seeds"), names), *rows, ""] if rows else []


def memory_table(figures: Figures) -> list[str]:
    """Return figure 7: responses with and without knowledge of memory, and the speed-ups."""
    rows = []
    for name in (*SIX, ex.BATCH):
        where = cell_of(ex.AWARE, ex.BATCH) if name == ex.BATCH else cell_of(ex.AWARE, name)
        if not figures.seeds(where):
            continue
        unaware = None if name == ex.BATCH else figures.mean(ex.RESPONSE, cell_of(ex.UNAWARE, name))
        speeds = [
            None if name == ex.BATCH else interval_of(dict(speed_up(figures, key, name)))
            for key in (ex.RESPONSE, ex.EXECUTION, ex.WAIT)
        ]
        cells = [interval_text(unaware), interval_text(figures.mean(ex.RESPONSE, where)), *map(interval_text, speeds)]
        rows.append(table_row((where.policy, str(figures.seeds(where))), cells))
    head = table_head(
        ("", "seeds"), ["response [s], not aware", "aware", "not aware / aware: response", "execution", "wait"]
    )
    return [f"{ex.EXPERIMENTS[ex.AWARE]}, and not. {known()}", "", *head, *rows, ""] if rows else []


def energy_table(figures: Figures) -> list[str]:
    """Return figure 8: total energy by class."""
    workloads = [*map(ex.of_class, ex.CLASSES), ex.LONG]
    found = means_table(
        figures,
        {
            ex.ENERGY: ("total energy [MJ]", ex.MJ),
            ex.RUN: ("T [s]", 1.0),
            ex.UTILISATION: ("U %", 100.0),
            ex.LOAD: ("offered load", 1.0),
        },
        [cell_of(workload, name) for workload in workloads for name in OF_CLASSES],
    )
    return [known(), "", *found] if found else []


# ---------------------------------------------------------------- full nodes


def full_table(figures: Figures) -> list[str]:
    """Return the work done on full nodes: the same configurations under all policies."""
    columns = {ex.THROUGHPUT: ("work done, alone = 1", 1.0), ex.RESIDENTS: ("processes on a node", 1.0), **MECHANISM}
    cells = [Where(ex.FULL, ex.cell(name, ex.SKIP, at)) for at in ex.PLACEMENTS for name in ex.DRIVEN]
    found = means_table(figures, columns, cells)
    rows = []
    for at in ex.PLACEMENTS:
        for name in ex.DRIVEN:
            pair = [Where(ex.FULL, ex.cell(each, ex.SKIP, at)) for each in (ex.HYBRID, name)]
            by_seed = figures.ratios(ex.THROUGHPUT, *pair)
            change = figures.change(ex.THROUGHPUT, *pair)
            if name != ex.HYBRID and change is not None:
                more = sum(value > 1 for value in by_seed.values())
                rows.append(table_row((f"HYBRID / {name}, {at}",), [percent_text(change), f"{more} of {len(by_seed)}"]))
    packing = [
        table_row((f"{name}, P / NP",), [percent_text(_packing(figures, name)), NOTHING])
        for name in ex.DRIVEN
        if _packing(figures, name) is not None
    ]
    head = table_head(("",), ["change of work done, %", "configurations in which it is more"])
    told = ex.EXPERIMENTS[ex.FULL]
    text = f"{told[0].upper()}{told[1:]}: each seed is one configuration, the same for all policies."
    return [text, "", *found, *head, *rows, *packing, ""] if found else []


def _packing(figures: Figures, name: str) -> Interval | None:
    return figures.change(ex.THROUGHPUT, *(Where(ex.FULL, ex.cell(name, ex.SKIP, at)) for at in ex.PLACEMENTS))


def sensitivity(figures: Figures) -> list[str]:
    """Return the work done on full nodes with one setting changed."""
    rows = []
    for name, variant in ex.VARIANTS.items():
        cells = {policy: Where(ex.FULL, ex.cell(policy, ex.SKIP), name) for policy in variant.policies}
        if variant.workload == ex.FULL and any(map(figures.seeds, cells.values())):
            found = [figures.mean(ex.THROUGHPUT, cells[policy]) if policy in cells else None for policy in ex.DRIVEN]
            seeds = max(map(figures.seeds, cells.values()))
            rows.append(table_row((variant.text, str(seeds)), [*map(interval_text, found)]))
    base = [figures.mean(ex.THROUGHPUT, Where(ex.FULL, ex.cell(policy, ex.SKIP))) for policy in ex.DRIVEN]
    if not rows:
        return []
    seeds = max(each.n for each in base if each is not None) if any(base) else 0
    first = table_row(("as it is", str(seeds)), [*map(interval_text, base)])
    text = "Work done on full nodes, alone = 1, packed; one setting is changed at a time."
    return [text, "", *table_head(("", "seeds"), ex.DRIVEN), first, *rows, ""]


def mechanism_table(figures: Figures, workload: str) -> list[str]:
    """Return what the policies do with the CPUs."""
    return means_table(figures, MECHANISM, [cell_of(workload, name) for name in (*ex.DRIVEN, ex.GANG, ex.BATCH)])


def interrupts_table(figures: Figures) -> list[str]:
    """Return interrupts by program under DCS (C48) and HYBRID."""
    cells = [cell_of(ex.copies(program), name) for program in ex.PROGRAMS for name in (ex.DCS, ex.HYBRID)]
    return means_table(figures, MECHANISM, cells)


def own_table(figures: Figures, workloads: Sequence[str]) -> list[str]:
    """Return experiments that the paper does not have."""
    names = [cell_of(ex.HIGH, name).policy for name in (*ex.DRIVEN, ex.GANG)] + [
        ex.cell(ex.BATCH, queue) for queue in (ex.STRICT, ex.EASY)
    ]
    cells = [Where(workload, name) for workload in workloads for name in names]
    cells += [
        cell_of(ex.HIGH, name)._replace(variant=variant)
        for variant, item in ex.VARIANTS.items()
        if item.workload == ex.HIGH
        for name in item.policies
    ]
    found = means_table(figures, {**MAIN, ex.ENERGY: ("energy [MJ]", ex.MJ)}, cells)
    texts = [f"- {workload}: {ex.EXPERIMENTS[workload]}." for workload in workloads]
    return [*texts, "", *found] if found else []
