"""The page of the study on measured co-runs, and of predictions beside measurements."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from scripts.papers.claims import VERDICTS, claims_table
from scripts.papers.figures import Figures, Where, interval_text, percent_text, sections
from scripts.papers.hardware import experiment as ex
from scripts.papers.hardware.bound import best_pair
from scripts.papers.hardware.claims import MAKESPAN, claims
from scripts.papers.hardware.co_runs import PROCESSES, mean_speedup
from scripts.papers.hardware.lomarc_tables import lomarc_table
from scripts.papers.hardware.predictions import nas_table, node_table
from scripts.papers.hardware.published import ARIS_256, ARIS_MIXED, TABLE_2
from scripts.papers.means import means_of
from scripts.papers.study import Size
from scripts.tables import NOTHING, number, percent, table_head, table_row

from cosched_emulator.statistics.intervals import Interval
from cosched_hwmodel.measured.co_run_table import CoRunTable, read_table

# By column of the study: heading, and what a value is multiplied by.
OF_JOBS: Final[Mapping[str, tuple[str, float]]] = {
    "ratio_mean": ("run time / compact", 1.0),
    "slower": ("slower than compact, %", 100.0),
    "slower_by_5": ("by more than 5 %, %", 100.0),
    "ratio_most": ("most", 1.0),
}
NODES: Final = 100  # of the machine of Table 2
CORES: Final = 48
RESPONSE: Final = "response_s_mean"
LATER: Final = "harm_h1"


def cell(workload: str, policy: str, belief: str | None = None) -> Where:
    """Return the cells of a policy on a workload."""
    return Where(workload, policy, ex.variant_of(workload, policy), belief)


def scenario(figures: Figures, workload: str) -> Mapping[str, Any] | None:
    """Return the scenario of the first run of EASY on a workload; None if there is none."""
    found = figures.series(Where(workload, ex.EASY))
    return None if found is None else json.loads(str(found.rows[0]["scenario"]))


def table_of(figures: Figures, workload: str) -> CoRunTable | None:
    """Return the table of co-runs of a workload's runs; None if there is no run, or the file is gone."""
    file = file_of(figures, workload)
    return None if file is None else read_table(file)


def file_of(figures: Figures, workload: str) -> Path | None:
    """Return the file of that table."""
    found = scenario(figures, workload)
    file = None if found is None else Path(found["truth"]["pairs"])
    return file if file is not None and file.is_file() else None


def elise(figures: Figures) -> list[str]:
    """Return the ELiSE paper's Table 2, published beside measured."""
    rows = []
    for workload, (mean, published) in zip(ex.MARCONI, TABLE_2.items(), strict=True):
        if not figures.seeds(Where(workload, ex.EASY)):
            continue
        cells = [percent(published)]
        for policy in (ex.ELISE, ex.CO_EXECUTION):
            cells += [
                percent_text(_change(figures, MAKESPAN, cell(workload, policy))),
                _orders(figures, workload, policy),
            ]
        rows.append(
            table_row((mean, _applications(figures, workload)), [*cells, percent(_least_change(figures, workload))])
        )
    text = (
        f"100 nodes of 2 x 24 cores, jobs of {PROCESSES} processes, all submitted at once; change of the makespan against EASY, %."
        " Means over draws of the jobs; *four orders*: the jobs of the first draw in four other orders, smallest and largest change."
        " *Least possible*: what no order and no choice of pairs can exceed, below."
    )
    return [
        text,
        "",
        *table_head(
            ("mean speedup", "applications"),
            ("published", ex.ELISE, "four orders", ex.CO_EXECUTION, "four orders", "least possible"),
        ),
        *rows,
        "",
    ]


def mixes(figures: Figures) -> list[str]:
    """Return how the gain depends on the mix of sizes on ARIS."""
    published = {"ARIS 256": ARIS_256, ex.MIXED: ARIS_MIXED}
    policies = (ex.ELISE, ex.CO_EXECUTION, ex.EASY_WIDEST, ex.CO_FCFS)
    rows = []
    for workload, sizes in ex.ARIS.items():
        if figures.seeds(Where(workload, ex.EASY)):
            told = published.get(workload)
            cells = [percent_text(_change(figures, MAKESPAN, cell(workload, policy))) for policy in policies]
            shown = ", ".join(map(str, sizes)) or "all, to 2048"
            rows.append(
                table_row(
                    (shown,),
                    [NOTHING if told is None else percent(told), *cells, percent(_least_change(figures, workload))],
                )
            )
    text = (
        "200 nodes of 2 x 10 cores, applications of the ARIS table with these numbers of processes, all submitted at once; change of"
        " the makespan against EASY, %. 200 nodes do not hold 2025 processes spread: such jobs run compact, one at a time."
    )
    return [text, "", *table_head(("processes",), ["published", *policies, "least possible"]), *rows, ""]


def schedulers(figures: Figures) -> list[str]:
    """Return what each scheduler does to machine and jobs."""
    lines = [
        "Changes against EASY, %; *later*: jobs that respond more than 5 % and a minute later than under EASY. Run times over compact"
        " ones, mean and most; jobs that run slower than compact.",
        "",
        *table_head(
            ("", "", "seeds"), ["makespan", "mean response", "later, %", *[title for title, _ in OF_JOBS.values()]]
        ),
    ]
    for workload in ex.SHOWN:
        for policy in ex.POLICIES:
            where = cell(workload, policy)
            if figures.seeds(where):
                changes = [percent_text(_change(figures, key, where)) for key in (MAKESPAN, RESPONSE)]
                later = interval_text(figures.mean(LATER, where), factor=100.0)
                lines.append(
                    table_row(
                        (workload, policy, str(figures.seeds(where))),
                        [*changes, later, *means_of(figures, OF_JOBS, where)],
                    )
                )
    texts = [f"- **{name}**: {text}." for name, (_, _, text) in ex.POLICIES.items()]
    return [*texts, "", *lines, ""]


def slower(figures: Figures) -> list[str]:
    """Return how many jobs run slower than compact in ELiSE's setting."""
    head = table_head(("", ""), [title for title, _ in OF_JOBS.values()])
    rows = [
        table_row((workload, policy), means_of(figures, OF_JOBS, cell(workload, policy)))
        for workload in ex.WORKLOADS
        for policy in (ex.ELISE, ex.CO_EXECUTION)
        if figures.seeds(cell(workload, policy))
    ]
    return [*head, *rows, ""]


def bounds(figures: Figures) -> list[str]:
    """Return what the makespan is made of, and how short it could be."""
    rows = []
    for workload in ex.WORKLOADS:
        easy, ours = Where(workload, ex.EASY), cell(workload, ex.CO_EXECUTION)
        if not figures.seeds(ours):
            continue
        columns = [(MAKESPAN, easy), ("area_s", easy), ("bound_s", easy), (MAKESPAN, ours)]
        cells = [_mean(figures, key, where) for key, where in columns]
        ratios = [
            value / figures.values("bound_s", ours)[seed] for seed, value in figures.values(MAKESPAN, ours).items()
        ]
        over = number(100 * (sum(ratios) / len(ratios) - 1))
        rows.append(table_row((workload, _best(figures, workload)), [*cells, over]))
    text = (
        "*Area*: compact jobs on nodes that are never idle. *Bound*: a linear program over the time that nodes spend with each pair"
        " of applications, or with one alone; each application's work must be done. Nodes may be cut at will, every job has its best"
        " partner all the time, and no node is idle at the end, so no schedule of these jobs, by halves, is shorter. *Best pair*: the"
        " mean speedup of the two applications that go best together. No mix of the table's applications can do more work for each"
        " second and node than that."
    )
    return [
        text,
        "",
        *table_head(
            ("", "best pair"), ("EASY [s]", "area [s]", "bound [s]", f"{ex.CO_EXECUTION} [s]", "over the bound, %")
        ),
        *rows,
        "",
    ]


def not_reached(figures: Figures) -> list[str]:
    """Return why what is wanted or published is not reached where that is so."""
    workload = ex.MARCONI[-1]
    table = table_of(figures, workload)
    if table is None:
        return []
    one, other, speedup = best_pair(table, table.applications)
    compact, spread = -(-PROCESSES // CORES), -(-PROCESSES // (CORES // 2))
    at_once = NODES // compact
    best = spread / 2 / speedup / (NODES / at_once) - 1
    names = one if one == other else f"{one} with {other}"
    return [
        f"- *Table 2.* EASY runs {at_once} jobs of {compact} nodes at a time, {at_once * compact} of {NODES} nodes; two spread jobs"
        f" take {spread} nodes. Of all mixes of the table's applications the one that gains most is {names}, with a mean speedup of"
        f" {speedup:.2f}: with it alone on all nodes, and nothing idle at the end, the makespan is {percent(100 * best)} % against that"
        " of EASY with nothing idle at the end. So no choice of applications, order or pairs gives 30 or 35 % on this table, except"
        " through what EASY loses at the end."
        f"{_beyond(figures)}",
        "- *ARIS, all sizes.* Jobs of 2025 and 2048 processes need 203 and 205 nodes to be spread, and the machine has 200. Compact"
        " they take more than half of the nodes, so that they run one after the other, with the rest of the nodes for all others.",
        f"- *Sizes mixed.* {ex.CO_EXECUTION} takes the largest jobs first, so small jobs wait longer: the mean response is better in"
        " order"
        " of submission, and the makespan worse. EASY itself gains little from that order.",
        "",
    ]


def knowledge(figures: Figures) -> list[str]:
    """Return what is left where the scheduler knows less."""
    texts = [f"- **{name}**: the scheduler knows {text}." for name, (text, _) in ex.BELIEFS.items()]
    head = table_head(("", "", "knows"), ("makespan", *[title for title, _ in OF_JOBS.values()]))
    rows = []
    for workload in (ex.MIXED, "Marconi 1.12"):
        for policy in (ex.ELISE, ex.CO_EXECUTION):
            for belief in ex.BELIEFS:
                where = cell(workload, policy, belief)
                if figures.seeds(where):
                    change = percent_text(figures.change(MAKESPAN, where, Where(workload, ex.EASY)))
                    rows.append(table_row((workload, policy, belief), [change, *means_of(figures, OF_JOBS, where)]))
    return [*texts, "", "Makespan: change against EASY, %.", "", *head, *rows, ""] if rows else []


def _change(figures: Figures, key: str, where: Where) -> Interval | None:
    return figures.change(key, where, Where(where.workload, ex.EASY))


def _mean(figures: Figures, key: str, where: Where) -> str:
    found = figures.mean(key, where)
    return number(None if found is None else found.mean)


def _orders(figures: Figures, workload: str, policy: str) -> str:
    """Return the smallest and the largest change over other orders of the same jobs."""
    changes = [*_changes(figures, workload, policy)]
    return f"{percent(max(changes))} to {percent(min(changes))}" if changes else NOTHING


def _changes(figures: Figures, workload: str, policy: str) -> Iterator[float]:
    for name in map(ex.shuffle, range(1, ex.SHUFFLES + 1)):
        for ratio in figures.ratios(MAKESPAN, Where(workload, policy, name), Where(workload, ex.EASY, name)).values():
            yield 100 * (ratio - 1)


def _least_change(figures: Figures, workload: str) -> float | None:
    """Return the change of the makespan that the bound allows at most, in percent; None if EASY has not run."""
    easy = figures.values(MAKESPAN, Where(workload, ex.EASY))
    bound = figures.values("bound_s", Where(workload, ex.EASY))
    changes = [100 * (bound[seed] / value - 1) for seed, value in easy.items()]
    return sum(changes) / len(changes) if changes else None


def _beyond(figures: Figures) -> str:
    """Return a sentence on the published changes that the bound excludes; empty where there is none."""
    least = {mean: _least_change(figures, workload) for mean, workload in zip(TABLE_2, ex.MARCONI, strict=True)}
    beyond = [mean for mean, change in least.items() if change is not None and TABLE_2[mean] < change]
    if not beyond:
        return ""
    return (
        f" The published changes at {' and '.join(beyond)} are beyond *least possible*, too: they come from more than the pairs of"
        " this table, as they are chosen here, on whole nodes."
    )


def _names(figures: Figures, workload: str) -> Sequence[str]:
    found = scenario(figures, workload)
    return () if found is None else found["workload"]["application_names"]


def _applications(figures: Figures, workload: str) -> str:
    table, names = table_of(figures, workload), _names(figures, workload)
    return ", ".join(names) + ("" if table is None else f" ({mean_speedup(table, names):.4f})")


def _best(figures: Figures, workload: str) -> str:
    """Return the pair with the highest mean speedup, where all jobs have one size."""
    table, names = table_of(figures, workload), _names(figures, workload)
    if table is None or not names:
        return NOTHING
    one, other, speedup = best_pair(table, names)
    return f"{one} and {other}: {speedup:.3f}"


INTRODUCTION: Final = (
    "NAS programs that were measured beside each other (ARIS: 809 co-runs on nodes of 2 x 10 cores; Marconi: a heat map on nodes of"
    " 2 x 24), taken as the truth of emulated nodes. A *compact* job has all cores of its nodes, a *spread* one half of those of"
    " twice as many. The setting is that of ELiSE (JSSPP 2025): all jobs are submitted at once, and the makespan is held against EASY"
    " with compact jobs. Run times on Marconi are those on ARIS of the same program and class with 256 processes; where there is none"
    " (`cg.D`, `ft.E`), the mean of these."
)
_PARTS: Final = {
    "ELiSE's Table 2": elise,
    "Sizes mixed": mixes,
    "All schedulers": schedulers,
    "Who runs slower than compact": slower,
    "How short a makespan can be": bounds,
    "What is not reached, and why": not_reached,
    "What the scheduler knows, varied": knowledge,
}


def report(figures: Figures, size: Size) -> list[str]:
    """Return the lines of the page."""
    return [*_lines(figures, size)]


def _lines(figures: Figures, size: Size) -> Iterator[str]:
    yield INTRODUCTION
    yield ""
    yield f"{size.jobs} jobs a run, up to {size.seeds} seeds. {VERDICTS}"
    yield ""
    yield "## What is published and what is wanted"
    yield ""
    yield from claims_table(claims(figures))
    yield from sections(figures, _PARTS)
    if size.quick:
        return
    yield "## Predicted beside measured"
    yield ""
    yield "### LOMARC's tables"
    yield ""
    yield from lomarc_table()
    file = file_of(figures, "ARIS 256")
    if file is not None:
        yield "### NAS pairs that were not measured"
        yield ""
        yield from nas_table(file, file_of(figures, "Marconi 1.12"))
    yield "### A node that the program has measured"
    yield ""
    yield from node_table()
