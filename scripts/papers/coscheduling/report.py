"""The page of the coscheduling reproduction: every claim with its verdict, and the tables behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from scripts.papers.claims import VERDICTS, claims_table
from scripts.papers.coscheduling import experiment as ex
from scripts.papers.coscheduling import published as printed
from scripts.papers.coscheduling.claims import OF_CLASSES, SECTIONS, SIX, cell_of, claims, formula_error, speed_up
from scripts.papers.figures import Figures, Where, interval_text, percent_text, sections
from scripts.papers.harm import harm_tables
from scripts.papers.means import means_table, titled
from scripts.papers.saturation import saturation_table
from scripts.papers.study import Size
from scripts.tables import NOTHING, number, percent, table_head, table_row

from cosched_emulator.statistics.intervals import interval_of

# Number, what the paper has, what the emulated nodes have.
CONDITIONS: Final = (
    ("P1", "16 nodes, one CPU, 1 GB, Linux 2.4.7, one switch", "16 nodes of one core, three contexts; `linux-epochs`"),
    ("P2", "Myrinet, LANai 9.2, GM 1.6.3, MPICH 1.2.5", "links of 80 MB/s; rendezvous above 16 KB, as MPICH-GM's"),
    (
        "P3",
        "one-way latency 9.7 us, CPU of both ends included",
        "`latency_us` and CPU of both ends, 10 us in all; a test measures a ping-pong",
    ),
    ("P4", "CC, SB and HYBRID block in receives; the others poll", "the same"),
    ("P5", "NPB 2.3 without FT, sPPM, BlockSolve95", "message skeletons whose time alone is table 1's within 2 %"),
    ("P6", "gang scheduling on another message layer, < 2 % apart", "the same message layer"),
    ("P7", "at most three jobs on a node; batch one", "the same; measured above"),
    ("P8", "in all experiments but X6 the programs fit into memory", "the scheduler checks 900 MB; measured above"),
    ("P9", "900 MB for programs", "the same"),
    ("P10", "allocators of three systems", "parts of one scheduler: `contiguous`, `scattered`; rows of `gang`"),
    ("P11", "idle 219.10 W, busy 18.839 or 18.968 W more", "219.10 W and 18.968 W (G1)"),
    ("P12", "power of six nodes, scaled to 16", "all nodes"),
    ("P13", "counters and epochs of Linux 2.4", "the same: ticks of 10 ms, counter/2 + 6 at a new epoch"),
)
# Number, gap, decision, and where the page shows what hangs on it.
# fmt: off
GAPS: Final = (
    ("G1", "busy watts: 18.839 or 18.968", "18.968; 0.05 % of any total"),
    ("G2", '"300 %", "65 %", "60 %" without a convention', "ratio and saving side by side (C15, C28, E2)"),
    ("G3", "table 4, memory-aware PB and DCS", "they agree with no formula; left out of the check of the formula"),
    ("G4", "queue of batch", "strict; skipping and EASY beside it (C21, C44)"),
    ("G5", "queue and blocks of the coscheduling allocator", "skipping for all, strict for four policies"),
    ("G6", "packing lowers U and CPU time, and the text says it raises U", "both reported (C1, C53)"),
    ("G7", "utilisation of 91 to 96 %", "not tuned; reported (E5), running time relative to batch beside it"),
    ("G8", "memory of classes A and B, CG, LU, EP", "scaled with the grid; what never fits is left out"),
    ("G9", "distribution of programs, classes, sizes", "uniform, one after the other"),
    ("G10", "run time on fewer processors", "T(n) = T(16) x 16 / n"),
    (
        "G11",
        "spin time, intervals, quantum, end of a boost",
        "1 ms; PB 50 ms, CC 10 ms; turns of gang scheduling cost 3 % whatever the quantum (1 s here); a boost ends with the counter."
        " Experiments with others",
    ),
    ("G12", "gaps of X4", "100 s"),
    ("G13", "jobs of X3", "BlockSolve95, sPPM, LU B and C, any size, at table 1's times as those on 16"),
    ("G14", "seeds", "none in the paper; here a number in every row"),
    ("G15", "table 4, batch: T and U fit no one queue", "T and energy are compared, U is not"),
    ("G16", "swapping: disk and working sets", "a model with three settings; reported per policy (C41)"),
    ("G17", "figure 6: classes or programs", "class C, by program"),
    ("G18", "figure 5: CC and SB as one curve", "both"),
    ("G19", "running time: to the last end or the last start", "first submission to last end"),
    ("G20", "costs of power in general", "not checkable here"),
)
# fmt: on


def conditions_table() -> list[str]:
    """Return the table of conditions."""
    return titled("", ("", "the paper", "here"), (), [table_row(row, []) for row in CONDITIONS])


def gaps_table() -> list[str]:
    """Return the table of gaps."""
    return titled("", ("", "open in the paper", "done here"), (), [table_row(row, []) for row in GAPS])


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
    text = f"{told_of(workload)}. {known()}"
    return means_table(figures, MAIN, [Where(workload, name) for name in names], text=text)


def told_of(workload: str) -> str:
    """Return what an experiment is, as the begin of a sentence."""
    return f"{ex.EXPERIMENTS[workload][0].upper()}{ex.EXPERIMENTS[workload][1:]}"


def ratios(figures: Figures, workload: str) -> list[str]:
    """Return HYBRID, packed, over all others."""
    rows = []
    for reading in (ex.MIXED, ex.ALL_SKIP, ex.ALL_STRICT):
        base = cell_of(workload, ex.HYBRID, reading)
        names = {ex.MIXED: ex.DRIVEN, ex.ALL_STRICT: ex.STRICT_POLICIES, ex.ALL_SKIP: ()}[reading]
        others = [(name, at) for at in ex.PLACEMENTS for name in names if (name, at) != (ex.HYBRID, ex.PACKED)]
        others += [(name, ex.PACKED) for name in ((ex.GANG, ex.BATCH) if names else (ex.BATCH,))]
        for where in [cell_of(workload, name, reading, at) for name, at in others]:
            found = [figures.ratio(key, base, where) for key in (ex.RESPONSE, ex.EXECUTION, ex.RUN, ex.BUSY, ex.ENERGY)]
            if any(found):
                seeds = str(max(each.n for each in found if each is not None))
                rows.append(table_row((f"{base.policy} / {where.policy}", seeds), [*map(interval_text, found)]))
    return titled("", ("", "seeds"), ["response", "execution", "T", "busy time", "energy"], rows)


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
    theirs = [
        *map(number, (row.busy_mj, row.idle_mj, row.utilisation, row.run_s)),
        f"{row.run_s / batch_row.run_s:.2f}",
    ]
    columns = {ex.ENERGY_BUSY: ex.MJ, ex.ENERGY_IDLE: ex.MJ, ex.UTILISATION: 100.0, ex.RUN: 1.0}
    ours = [interval_text(figures.mean(key, where), factor=factor) for key, factor in columns.items()]
    cells = [text for pair in zip(theirs, [*ours, interval_text(against)], strict=True) for text in pair]
    return table_row((where.workload, where.policy, str(figures.seeds(where))), cells)


def _energy_table(rows: Sequence[str | None]) -> list[str]:
    titles = ("busy MJ", "idle MJ", "U %", "T [s]", "T / batch strict")
    heads = [text for title in titles for text in (f"{title}, published", "measured")]
    return titled(known(), ("", "", "seeds"), heads, [row for row in rows if row is not None])


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
    for program in ex.PROGRAMS:
        cells = [cell_of(ex.copies(program), name) for name in SIX]
        seeds = max(map(figures.seeds, cells))
        if seeds:
            means = [interval_text(figures.mean(ex.STRETCH, where)) for where in cells]
            rows.append(table_row((program, str(seeds)), means))
    text = (
        "Mean execution time of three copies of a program, class C, on all 16 nodes, over three times that alone: 1 is"
        " perfect sharing. All start together, so no queue and no estimate matters."
    )
    return titled(text, ("", "seeds"), SIX, rows)


def memory_table(figures: Figures) -> list[str]:
    """Return figure 7: responses with and without knowledge of memory, and the speed-ups."""
    rows = []
    for name in (*SIX, ex.BATCH):
        where = cell_of(ex.AWARE, name)
        if figures.seeds(where):
            found = [figures.mean(ex.RESPONSE, cell_of(ex.UNAWARE, name)), figures.mean(ex.RESPONSE, where)]
            found += [interval_of(dict(speed_up(figures, key, name))) for key in (ex.RESPONSE, ex.EXECUTION, ex.WAIT)]
            rows.append(table_row((where.policy, str(figures.seeds(where))), [*map(interval_text, found)]))
    heads = ["response [s], not aware", "aware", "not aware / aware: response", "execution", "wait"]
    return titled(f"{ex.EXPERIMENTS[ex.AWARE]}, and not. {known()}", ("", "seeds"), heads, rows)


def energy_table(figures: Figures) -> list[str]:
    """Return figure 8: total energy by class."""
    columns = {
        ex.ENERGY: ("total energy [MJ]", ex.MJ),
        ex.RUN: ("T [s]", 1.0),
        ex.UTILISATION: ("U %", 100.0),
        ex.LOAD: ("offered load", 1.0),
    }
    workloads = [*map(ex.of_class, ex.CLASSES), ex.LONG]
    cells = [cell_of(workload, name) for workload in workloads for name in OF_CLASSES]
    return means_table(figures, columns, cells, text=known())


# ---------------------------------------------------------------- full nodes


def full_table(figures: Figures) -> list[str]:
    """Return the work done on full nodes: the same configurations under all policies."""
    columns = {ex.THROUGHPUT: ("work done, alone = 1", 1.0), ex.RESIDENTS: ("processes on a node", 1.0), **MECHANISM}
    cells = [Where(ex.FULL, ex.cell(name, ex.SKIP, at)) for at in ex.PLACEMENTS for name in ex.DRIVEN]
    text = f"{told_of(ex.FULL)}: each seed is one configuration, the same for all policies."
    found = means_table(figures, columns, cells, text=text)
    rows = []
    for at in ex.PLACEMENTS:
        for name in [each for each in ex.DRIVEN if each != ex.HYBRID]:
            pair = [Where(ex.FULL, ex.cell(each, ex.SKIP, at)) for each in (ex.HYBRID, name)]
            change = figures.change(ex.THROUGHPUT, *pair)
            if change is not None:
                more = [ratio > 1 for ratio in figures.ratios(ex.THROUGHPUT, *pair).values()]
                told = [percent_text(change), f"{sum(more)} of {len(more)}"]
                rows.append(table_row((f"HYBRID / {name}, {at}",), told))
    for name in ex.DRIVEN:
        pair = [Where(ex.FULL, ex.cell(name, ex.SKIP, at)) for at in ex.PLACEMENTS]
        change = figures.change(ex.THROUGHPUT, *pair)
        if change is not None:
            rows.append(table_row((f"{name}, P / NP",), [percent_text(change), NOTHING]))
    head = table_head(("",), ["change of work done, %", "configurations in which it is more"])
    return [*found, *head, *rows, ""] if found else []


def sensitivity(figures: Figures) -> list[str]:
    """Return the work done on full nodes with one setting changed."""
    changed = {name: variant for name, variant in ex.VARIANTS.items() if variant.workload == ex.FULL}
    settings = [(None, "as it is", ex.DRIVEN), *((name, each.text, each.policies) for name, each in changed.items())]
    rows = []
    for name, text, policies in settings:
        cells = {policy: Where(ex.FULL, ex.cell(policy, ex.SKIP), name) for policy in policies}
        seeds = max(map(figures.seeds, cells.values()))
        if seeds or name is None:
            means = [figures.mean(ex.THROUGHPUT, cells[policy]) if policy in cells else None for policy in ex.DRIVEN]
            rows.append(table_row((text, str(seeds)), [*map(interval_text, means)]))
    text = "Work done on full nodes, alone = 1, packed; one setting is changed at a time."
    return titled(text, ("", "seeds"), ex.DRIVEN, rows if len(rows) > 1 else [])


def mechanism_table(figures: Figures, workload: str) -> list[str]:
    """Return what the policies do with the CPUs."""
    return means_table(figures, MECHANISM, [cell_of(workload, name) for name in (*ex.DRIVEN, ex.GANG, ex.BATCH)])


def interrupts_table(figures: Figures) -> list[str]:
    """Return interrupts by program under DCS (C48) and HYBRID."""
    cells = [cell_of(ex.copies(program), name) for program in ex.PROGRAMS for name in (ex.DCS, ex.HYBRID)]
    return means_table(figures, MECHANISM, cells)


def own_table(figures: Figures, workloads: Sequence[str]) -> list[str]:
    """Return experiments that the paper does not have."""
    names = [cell_of(ex.HIGH, name).policy for name in SIX] + [
        ex.cell(ex.BATCH, queue) for queue in (ex.STRICT, ex.EASY)
    ]
    cells = [Where(workload, name) for workload in workloads for name in names]
    of_high = {variant: item for variant, item in ex.VARIANTS.items() if item.workload == ex.HIGH}
    cells += [cell_of(ex.HIGH, name, variant=variant) for variant, item in of_high.items() for name in item.policies]
    found = means_table(figures, {**MAIN, ex.ENERGY: ("energy [MJ]", ex.MJ)}, cells)
    return [*(f"- {workload}: {ex.EXPERIMENTS[workload]}." for workload in workloads), "", *found] if found else []


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
