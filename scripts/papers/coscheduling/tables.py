"""The tables of the coscheduling page: figures 3 to 8 and tables 3 and 4 of the paper, published beside measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from scripts.papers.coscheduling.claims.common import cell
from scripts.papers.coscheduling.claims.energy import formula_error
from scripts.papers.coscheduling.claims.memory import SIX, batch, speed_up
from scripts.papers.coscheduling.claims.programs import OF_CLASSES
from scripts.papers.coscheduling.names import (
    ALL_SKIP,
    ALL_STRICT,
    AWARE,
    BATCH,
    BUSY,
    CLASSES,
    DCS,
    DELAY,
    DRIVEN,
    EASY,
    ENERGY,
    ENERGY_BUSY,
    ENERGY_IDLE,
    EXECUTION,
    EXPERIMENTS,
    FULL,
    GANG,
    HIGH,
    HYBRID,
    INTERRUPTS,
    LOAD,
    LONG,
    MIXED,
    MJ,
    PACKED,
    PLACEMENTS,
    PROGRAMS,
    QUEUES,
    RESIDENTS,
    RESPONSE,
    RUN,
    SCATTERED,
    SKIP,
    SPUN,
    STRETCH,
    STRICT,
    STRICT_POLICIES,
    SWAPPED,
    SWITCHES,
    THROUGHPUT,
    UNAWARE,
    UTILISATION,
    WAIT,
    copies,
    of_class,
)
from scripts.papers.coscheduling.names import (
    cell as name_of,
)
from scripts.papers.coscheduling.published import TABLE_3, TABLE_4, Row, row_3, row_4
from scripts.papers.coscheduling.variants import VARIANTS
from scripts.papers.figures import Figures, Where, interval_text, percent_text
from scripts.papers.means import means_table
from scripts.tables import NOTHING, number, percent, table_head, table_row

from cosched_emulator.statistics.intervals import Interval, interval_of

MAIN: Final[Mapping[str, tuple[str, float]]] = {
    RESPONSE: ("response [s]", 1.0),
    WAIT: ("wait [s]", 1.0),
    EXECUTION: ("execution [s]", 1.0),
    RUN: ("T [s]", 1.0),
    UTILISATION: ("U %", 100.0),
    RESIDENTS: ("processes on a node in use", 1.0),
    LOAD: ("offered load", 1.0),
}
MECHANISM: Final[Mapping[str, tuple[str, float]]] = {
    SPUN: ("CPU time spun %", 100.0),
    SWITCHES: ("switches / CPU s", 1.0),
    INTERRUPTS: ("interrupts / s and node", 1.0),
    DELAY: ("arrival to running [us]", 1.0),
    SWAPPED: ("MB swapped / CPU s", 1.0),
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
    names = [name_of(name, queue, at) for queue in (SKIP, STRICT) for at in PLACEMENTS for name in DRIVEN]
    names += [name_of(name, queue) for name in (GANG, BATCH) for queue in QUEUES]
    found = means_table(figures, MAIN, [Where(workload, name) for name in names])
    return [f"{EXPERIMENTS[workload][0].upper()}{EXPERIMENTS[workload][1:]}. {known()}", "", *found] if found else []


def ratios(figures: Figures, workload: str) -> list[str]:
    """Return HYBRID, packed, over all others."""
    rows = []
    for reading in (MIXED, ALL_SKIP, ALL_STRICT):
        base = cell(workload, HYBRID, reading)
        driven = DRIVEN if reading is MIXED else STRICT_POLICIES if reading is ALL_STRICT else ()
        others = [(name, at) for at in PLACEMENTS for name in driven if (name, at) != (HYBRID, PACKED)]
        others += [(name, PACKED) for name in (GANG, BATCH)]
        for name, at in others:
            where = cell(workload, name, reading, at)
            found = {key: figures.ratio(key, base, where) for key in (RESPONSE, EXECUTION, RUN, BUSY, ENERGY)}
            if any(found.values()) and (reading is not ALL_SKIP or name == BATCH):
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
    for queue, names in ((SKIP, DRIVEN), (STRICT, STRICT_POLICIES)):
        for at in (SCATTERED, PACKED):
            rows += [_energy_row(figures, Where(HIGH, name_of(name, queue, at)), row_3(name, at)) for name in names]
    rows += [_energy_row(figures, Where(HIGH, name_of(GANG, queue)), row_3(GANG, "")) for queue in (SKIP, STRICT)]
    rows += [_energy_row(figures, Where(HIGH, name_of(BATCH, queue)), row_3(BATCH, "")) for queue in QUEUES]
    return _energy_table(rows)


def table_4(figures: Figures) -> list[str]:
    """Return table 4 likewise."""
    rows = [
        _energy_row(figures, cell(workload, name, reading), row_4(name, aware=aware))
        for reading, driven in ((MIXED, DRIVEN), (ALL_STRICT, STRICT_POLICIES))
        for workload, aware in ((UNAWARE, False), (AWARE, True))
        for name in (*driven, GANG)
    ]
    rows += [
        _energy_row(figures, Where(AWARE, name_of(BATCH, queue)), row_4(BATCH, aware=True)) for queue in (STRICT, SKIP)
    ]
    return _energy_table(rows)


def _energy_row(figures: Figures, where: Where, row: Row) -> str | None:
    if not figures.seeds(where):
        return None
    high = where.workload == HIGH
    against = figures.ratio(RUN, where, Where(HIGH if high else AWARE, name_of(BATCH, STRICT)))
    batch_row = TABLE_3[BATCH, ""] if high else TABLE_4[BATCH, True]
    cells = [
        number(row.busy_mj),
        interval_text(figures.mean(ENERGY_BUSY, where), factor=MJ),
        number(row.idle_mj),
        interval_text(figures.mean(ENERGY_IDLE, where), factor=MJ),
        number(row.utilisation),
        interval_text(figures.mean(UTILISATION, where), factor=100.0),
        number(row.run_s),
        interval_text(figures.mean(RUN, where)),
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
    printed = [("table 3", f"{name} {at}".strip(), row) for (name, at), row in TABLE_3.items()]
    printed += [
        ("table 4", f"{name}, {'aware' if aware else 'not aware'}", row) for (name, aware), row in TABLE_4.items()
    ]
    head = table_head(("", ""), ["total MJ, printed", "formula MJ", "difference %", "watts of a busy node implied"])
    rows = []
    for title, name, row in printed:
        cells = [number(row.total_mj), number(row.formula_mj()), percent(formula_error(row)), f"{row.busy_w:.1f}"]
        rows.append(table_row((title, name), cells))
    return [*head, *rows, ""]


# ---------------------------------------------------------------- figures 6, 7, 8


def copies_table(figures: Figures) -> list[str]:
    """Return figure 6: mean execution of three copies over three times that alone, by program and policy."""
    rows = []
    names = (*DRIVEN, GANG)
    for program in PROGRAMS:
        cells = [cell(copies(program), name) for name in names]
        if any(figures.seeds(where) for where in cells):
            seeds = max(figures.seeds(where) for where in cells)
            rows.append(
                table_row((program, str(seeds)), [interval_text(figures.mean(STRETCH, where)) for where in cells])
            )
    text = (
        "Mean execution time of three copies of a program, class C, on all 16 nodes, over three times that alone: 1 is"
        " perfect sharing. All start together, so no queue and no estimate matters."
    )
    return [text, "", *table_head(("", "seeds"), names), *rows, ""] if rows else []


def memory_table(figures: Figures) -> list[str]:
    """Return figure 7: responses with and without knowledge of memory, and the speed-ups."""
    rows = []
    for name in (*SIX, BATCH):
        where = batch() if name == BATCH else cell(AWARE, name)
        if not figures.seeds(where):
            continue
        unaware = None if name == BATCH else figures.mean(RESPONSE, cell(UNAWARE, name))
        speeds = [
            None if name == BATCH else interval_of(dict(speed_up(figures, key, name)))
            for key in (RESPONSE, EXECUTION, WAIT)
        ]
        cells = [interval_text(unaware), interval_text(figures.mean(RESPONSE, where)), *map(interval_text, speeds)]
        rows.append(table_row((where.policy, str(figures.seeds(where))), cells))
    head = table_head(
        ("", "seeds"), ["response [s], not aware", "aware", "not aware / aware: response", "execution", "wait"]
    )
    return [f"{EXPERIMENTS[AWARE]}, and not. {known()}", "", *head, *rows, ""] if rows else []


def energy_table(figures: Figures) -> list[str]:
    """Return figure 8: total energy by class."""
    workloads = [*map(of_class, CLASSES), LONG]
    found = means_table(
        figures,
        {
            ENERGY: ("total energy [MJ]", MJ),
            RUN: ("T [s]", 1.0),
            UTILISATION: ("U %", 100.0),
            LOAD: ("offered load", 1.0),
        },
        [cell(workload, name) for workload in workloads for name in OF_CLASSES],
    )
    return [known(), "", *found] if found else []


# ---------------------------------------------------------------- full nodes


def full_table(figures: Figures) -> list[str]:
    """Return the work done on full nodes: the same configurations under all policies."""
    columns = {THROUGHPUT: ("work done, alone = 1", 1.0), RESIDENTS: ("processes on a node", 1.0), **MECHANISM}
    cells = [Where(FULL, name_of(name, SKIP, at)) for at in PLACEMENTS for name in DRIVEN]
    found = means_table(figures, columns, cells)
    rows = []
    for at in PLACEMENTS:
        for name in DRIVEN:
            pair = [Where(FULL, name_of(each, SKIP, at)) for each in (HYBRID, name)]
            by_seed = figures.ratios(THROUGHPUT, *pair)
            change = figures.change(THROUGHPUT, *pair)
            if name != HYBRID and change is not None:
                more = sum(value > 1 for value in by_seed.values())
                rows.append(table_row((f"HYBRID / {name}, {at}",), [percent_text(change), f"{more} of {len(by_seed)}"]))
    packing = [
        table_row((f"{name}, P / NP",), [percent_text(_packing(figures, name)), NOTHING])
        for name in DRIVEN
        if _packing(figures, name) is not None
    ]
    head = table_head(("",), ["change of work done, %", "configurations in which it is more"])
    text = f"{EXPERIMENTS[FULL][0].upper()}{EXPERIMENTS[FULL][1:]}: each seed is one configuration, the same for all policies."
    return [text, "", *found, *head, *rows, *packing, ""] if found else []


def _packing(figures: Figures, name: str) -> Interval | None:
    return figures.change(THROUGHPUT, *(Where(FULL, name_of(name, SKIP, at)) for at in PLACEMENTS))


def sensitivity(figures: Figures) -> list[str]:
    """Return the work done on full nodes with one setting changed."""
    rows = []
    for name, variant in VARIANTS.items():
        cells = {policy: Where(FULL, name_of(policy, SKIP), name) for policy in variant.policies}
        if variant.workload == FULL and any(map(figures.seeds, cells.values())):
            found = [figures.mean(THROUGHPUT, cells[policy]) if policy in cells else None for policy in DRIVEN]
            seeds = max(map(figures.seeds, cells.values()))
            rows.append(table_row((variant.text, str(seeds)), [*map(interval_text, found)]))
    base = [figures.mean(THROUGHPUT, Where(FULL, name_of(policy, SKIP))) for policy in DRIVEN]
    if not rows:
        return []
    seeds = max(each.n for each in base if each is not None) if any(base) else 0
    first = table_row(("as it is", str(seeds)), [*map(interval_text, base)])
    text = "Work done on full nodes, alone = 1, packed; one setting is changed at a time."
    return [text, "", *table_head(("", "seeds"), DRIVEN), first, *rows, ""]


def mechanism_table(figures: Figures, workload: str) -> list[str]:
    """Return what the policies do with the CPUs."""
    return means_table(figures, MECHANISM, [cell(workload, name) for name in (*DRIVEN, GANG, BATCH)])


def interrupts_table(figures: Figures) -> list[str]:
    """Return interrupts by program under DCS (C48) and HYBRID."""
    cells = [cell(copies(program), name) for program in PROGRAMS for name in (DCS, HYBRID)]
    return means_table(figures, MECHANISM, cells)


def own_table(figures: Figures, workloads: Sequence[str]) -> list[str]:
    """Return experiments that the paper does not have."""
    names = [cell(HIGH, name).policy for name in (*DRIVEN, GANG)] + [name_of(BATCH, queue) for queue in (STRICT, EASY)]
    cells = [Where(workload, name) for workload in workloads for name in names]
    cells += [
        cell(HIGH, name)._replace(variant=variant)
        for variant, item in VARIANTS.items()
        if item.workload == HIGH
        for name in item.policies
    ]
    found = means_table(figures, {**MAIN, ENERGY: ("energy [MJ]", MJ)}, cells)
    texts = [f"- {workload}: {EXPERIMENTS[workload]}." for workload in workloads]
    return [*texts, "", *found] if found else []
