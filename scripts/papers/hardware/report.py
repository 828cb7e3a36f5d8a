"""The page of the study on measured co-runs: what is published or wanted, predictions beside measurements, and the picture."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from scripts.papers import pages
from scripts.papers import rows as r
from scripts.papers.claims import VERDICTS, Band
from scripts.papers.figures import Figures, Where
from scripts.papers.hardware import experiment as ex
from scripts.papers.hardware.bound import best_pair
from scripts.papers.hardware.co_runs import PROCESSES, mean_speedup, read
from scripts.papers.hardware.lomarc_tables import lomarc_table
from scripts.papers.hardware.predictions import NODE, halves, measured_node, nas_table, node_table
from scripts.papers.hardware.published import ARIS_256, ARIS_MIXED, MOST_SLOWER, TABLE_2, WANTED, WANTED_MIXED
from scripts.papers.pictures import Point, bars, grid, legend, point_at, point_of, say
from scripts.papers.rows import judging, mean_text, near, row
from scripts.papers.stored import rounded
from scripts.papers.study import Size
from scripts.tables import NOTHING, number, percent

from cosched_hwmodel.measured import METHODS

MAKESPAN: Final = "makespan_s"
ON_ARIS: Final = {"ARIS 256": ARIS_256, ex.MIXED: ARIS_MIXED}
ALL_WANTED: Final = {
    **{f"Marconi {speedup}": points for speedup, points in WANTED.items()},
    ex.MIXED: WANTED_MIXED,
    "ARIS all": WANTED_MIXED,
}
_ELISE = r.change(MAKESPAN, ex.ELISE, ex.EASY)
# fmt: off
claims: Final = judging((
    row(f"Table 2, mean speedup {{speedup}}: makespan of the {ex.ELISE} against EASY, %", _ELISE,
        near(lambda speedup, **_: TABLE_2[speedup]), speedup=TABLE_2, work=lambda speedup: [f"Marconi {speedup}"]),
    row(f"200 nodes of 20 cores: makespan of the {ex.ELISE} against EASY, %", _ELISE, near(lambda work: ON_ARIS[work]), work=ON_ARIS),
    row(f"makespan of {ex.CO_EXECUTION} against EASY, %: at least {{points:g}} % better",
        r.change(MAKESPAN, ex.CO_EXECUTION, ex.EASY), lambda points, **_: Band.below(-points), "wanted", work=ALL_WANTED,
        points=lambda work: [ALL_WANTED[work]]),
    row(f"share of the jobs that are slower than compact by more than 5 %: at most {MOST_SLOWER:g}",
        r.mean("slower_by_5", ex.CO_EXECUTION), Band.below(MOST_SLOWER), "wanted", work=(ex.MIXED, "ARIS all")),
))
# fmt: on

OF_JOBS: Final[pages.Columns] = {
    "ratio_mean": ("run time / compact", 1.0),
    "slower": ("slower than compact, %", 100.0),
    "slower_by_5": ("by more than 5 %, %", 100.0),
    "ratio_most": ("most", 1.0),
}
NODES: Final = 100  # of the machine of Table 2
CORES: Final = 48
RESPONSE: Final = "response_s_mean"
LATER: Final = "harm_h1"
# By machine: a workload whose runs keep the predictions of its table.
MEASURED: Final = {"ARIS": "ARIS 256", "Marconi": "Marconi 1.12"}
FROM_HALVES: Final = "from_halves"
MEASURED_NODE: Final = "measured_node"


def at(workload: str, policy: str, belief: str | None = None) -> Where:
    """Return the cells of a policy on a workload."""
    return Where(workload, policy, ex.variant_of(workload, policy), belief)


def derive(figures: Figures, size: Size) -> None:
    """Add to a run of EASY on each workload what the page says of the table of co-runs, which is no part of the project.

    A run that is read from the repository has it, and no scenario. Predictions take minutes, and a quick page has none.
    """
    for work in ex.WORKLOADS:
        found = figures.series(Where(work, ex.EASY))
        row = found.rows[0] if found is not None else {}
        scenario = json.loads(str(row.get("scenario", "null")))
        if scenario is None or not Path(scenario["truth"]["pairs"]).is_file():
            continue
        table, names = read(Path(scenario["truth"]["pairs"])), scenario["workload"]["application_names"]
        if names:
            row["applications"], row["mean_speedup"] = names, mean_speedup(table, names)
            row["best_pair"], row["best_of_table"] = best_pair(table, names), best_pair(table, table.applications)
        if work in MEASURED.values() and FROM_HALVES not in row and not size.quick:
            row[FROM_HALVES] = {method: halves(table, method) for method in METHODS}
        if work == ex.MIXED and NODE.is_file():
            row[MEASURED_NODE] = measured_node(json.loads(NODE.read_text(encoding="utf-8")))
        row.update(rounded(row))


def told(figures: Figures, workload: str, column: str) -> Any:
    """Return what `derive` has added to a run on a workload; None where no run has it."""
    found = figures.series(Where(workload, ex.EASY))
    return next((row[column] for row in found.rows if column in row), None) if found is not None else None


def _change(key: str, where: Where) -> r.Measured:
    return r.change(key, where, Where(where.workload, ex.EASY))


# ---------------------------------------------------------------- makespans


def elise() -> pages.Section:
    """Return the ELiSE paper's Table 2, published beside measured."""

    def section(figures: Figures) -> list[str]:
        rows: list[pages.Row] = []
        for work, (speedup, published) in zip(ex.MARCONI, TABLE_2.items(), strict=True):
            cells = [
                cell
                for policy in (ex.ELISE, ex.CO_EXECUTION)
                for cell in (_change(MAKESPAN, at(work, policy)), partial(_orders, workload=work, policy=policy))
            ]
            labels = (speedup, _applications(figures, work))
            rows.append((labels, [percent(published), *cells, partial(_least, workload=work)]))
        titles = ("published", ex.ELISE, "four orders", ex.CO_EXECUTION, "four orders", "least possible")
        return pages.table(("mean speedup", "applications"), titles, rows, text, counted=False)(figures)

    text = (
        f"100 nodes of 2 x 24 cores run jobs of {PROCESSES} processes, all submitted at once. Figures are changes of the makespan"
        " against EASY in percent, means over draws of the jobs. *Four orders*: the smallest and the largest change for the jobs of the"
        " first draw in four other orders. *Least possible*: no order and no choice of pairs gives a shorter makespan"
        " ([bound](#how-short-a-makespan-can-be))."
    )
    return section


def mixes() -> pages.Section:
    """Return how the gain depends on the mix of sizes on ARIS."""
    published = {"ARIS 256": percent(ARIS_256), ex.MIXED: percent(ARIS_MIXED)}
    policies = (ex.ELISE, ex.CO_EXECUTION, ex.EASY_WIDEST, ex.CO_FCFS)
    rows: list[pages.Row] = []
    for work, sizes in ex.ARIS.items():
        cells = [_change(MAKESPAN, at(work, policy)) for policy in policies]
        shown = ", ".join(map(str, sizes)) or "all, to 2048"
        rows.append(((shown,), [published.get(work, NOTHING), *cells, partial(_least, workload=work)]))
    text = (
        "200 nodes of 2 x 10 cores run applications of the ARIS table with these numbers of processes, all submitted at once. Figures"
        " are changes of the makespan against EASY in percent. Jobs of 2025 processes do not fit 200 nodes if spread: they run compact,"
        " one at a time."
    )
    return pages.table(("processes",), ["published", *policies, "least possible"], rows, text, counted=False)


def schedulers() -> pages.Section:
    """Return what each scheduler does to machine and jobs."""
    rows: list[pages.Row] = []
    for work in ex.SHOWN:
        for policy in ex.POLICIES:
            where = at(work, policy)
            changes = [pages.aside(_change(key, where)) for key in (MAKESPAN, RESPONSE)]
            later = pages.aside(r.mean(LATER, where, 100.0))
            rows.append(((work, policy), [*changes, later, *pages.means(OF_JOBS, where)]))
    texts = pages.texts_of({name: text for name, (_, _, text) in ex.POLICIES.items()})
    told = (
        "Changes against EASY in percent; *later*: jobs that respond more than 5 % and a minute later than under EASY; run time over"
        " that of the compact job, mean and largest; jobs that run slower than compact."
    )
    titles = ["makespan", "mean response", "later, %", *pages.heads(OF_JOBS)]
    return pages.table(("", ""), titles, rows, [*texts, "", told, ""])


def slower() -> pages.Section:
    """Return how many jobs run slower than compact in ELiSE's setting."""
    rows = [
        ((work, policy), pages.means(OF_JOBS, at(work, policy)))
        for work in ex.WORKLOADS
        for policy in (ex.ELISE, ex.CO_EXECUTION)
    ]
    return pages.table(("", ""), pages.heads(OF_JOBS), rows, counted=False)


def bounds() -> pages.Section:
    """Return what the makespan is made of, and how short it could be."""

    def over(figures: Figures, workload: str) -> str:
        ours = at(workload, ex.CO_EXECUTION)
        bound = figures.values("bound_s", ours)
        ratios = [value / bound[seed] for seed, value in figures.values(MAKESPAN, ours).items()]
        return number(100 * (sum(ratios) / len(ratios) - 1)) if ratios else NOTHING

    def section(figures: Figures) -> list[str]:
        rows: list[pages.Row] = []
        for work in ex.WORKLOADS:
            easy, ours = Where(work, ex.EASY), at(work, ex.CO_EXECUTION)
            columns = [(MAKESPAN, easy), ("area_s", easy), ("bound_s", easy), (MAKESPAN, ours)]
            cells = [r.Measured("mean", key, (where,), mean_text) for key, where in columns]
            first = [pages.aside(each) for each in cells[:3]]
            rows.append(((work, _best(figures, work)), [*first, cells[3], partial(over, workload=work)]))
        titles = ("EASY [s]", "area [s]", "bound [s]", f"{ex.CO_EXECUTION} [s]", "over the bound, %")
        return pages.table(("", "best pair"), titles, rows, text, counted=False)(figures)

    text = (
        "*Area*: the makespan of compact jobs if no node is ever idle. *Bound*: the result of a linear program over the time that nodes"
        " spend with each pair of applications, or with one alone; each application's work must be done. The program may divide nodes"
        " without limit, gives every job its best partner all the time, and leaves no node idle at the end, so no schedule of these"
        " jobs on halves of nodes is shorter. *Best pair*: the two applications with the highest mean speedup together. No mix of the"
        " table's applications does more work for each second and node."
    )
    return section


def not_reached(figures: Figures) -> list[str]:
    """Return why what is wanted or published is not reached where that is so."""
    best = told(figures, ex.MARCONI[-1], "best_of_table")
    if best is None:
        return []
    one, other, speedup = best
    compact, spread = -(-PROCESSES // CORES), -(-PROCESSES // (CORES // 2))
    at_once = NODES // compact
    made = spread / 2 / speedup / (NODES / at_once) - 1
    names = one if one == other else f"{one} with {other}"
    return [
        f"- *Table 2.* EASY runs {at_once} jobs of {compact} nodes at a time, {at_once * compact} of {NODES} nodes; two spread jobs"
        f" take {spread} nodes. The mix of the table's applications that gains most is {names}, with a mean speedup of {speedup:.2f}."
        f" If all nodes run this mix alone, and none is idle at the end, the makespan is {percent(100 * made)} % against that of EASY"
        " with no node idle at the end. So no choice of applications, order or pairs gains 30 or 35 % with this table, except through"
        " the nodes that EASY leaves idle at the end."
        f"{_beyond(figures)}",
        "- *ARIS, all sizes.* Jobs of 2025 and 2048 processes need 203 and 205 nodes to be spread, and the machine has 200. Compact"
        " they take more than half of the nodes, so that they run one after the other, with the rest of the nodes for all others.",
        f"- *Sizes mixed.* {ex.CO_EXECUTION} takes the largest jobs first, so small jobs wait longer: the mean response is better in"
        " order of submission, and the makespan worse. EASY itself gains little from that order.",
        "",
    ]


def knowledge() -> pages.Section:
    """Return what is left where the scheduler knows less."""
    rows: list[pages.Row] = []
    for work in (ex.MIXED, "Marconi 1.12"):
        for policy in (ex.ELISE, ex.CO_EXECUTION):
            for belief in ex.BELIEFS:
                where = at(work, policy, belief)
                rows.append(((work, policy, belief), [_change(MAKESPAN, where), *pages.means(OF_JOBS, where)]))
    texts = pages.texts_of({name: f"the scheduler knows {text}" for name, (text, _) in ex.BELIEFS.items()})
    told = [*texts, "", "Makespan: change against EASY, %.", ""]
    return pages.table(("", "", "knows"), ("makespan", *pages.heads(OF_JOBS)), rows, told, counted=False)


def _orders(figures: Figures, workload: str, policy: str) -> str:
    """Return the smallest and the largest change over other orders of the same jobs."""
    names = map(ex.shuffle, range(1, ex.SHUFFLES + 1))
    ratios = [figures.ratios(MAKESPAN, Where(workload, policy, name), Where(workload, ex.EASY, name)) for name in names]
    changes = [100 * (value - 1) for each in ratios for value in each.values()]
    return f"{percent(max(changes))} to {percent(min(changes))}" if changes else NOTHING


def _least(figures: Figures, workload: str) -> str:
    return percent(_least_change(figures, workload))


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
        f" The published changes at {' and '.join(beyond)} are beyond *least possible*, too: pairs of this table, chosen as here and on"
        " whole nodes, do not explain them."
    )


def _applications(figures: Figures, workload: str) -> str:
    names = told(figures, workload, "applications")
    return f"{', '.join(names)} ({told(figures, workload, 'mean_speedup'):.4f})" if names else ""


def _best(figures: Figures, workload: str) -> str:
    """Return the pair with the highest mean speedup, where all jobs have one size."""
    best = told(figures, workload, "best_pair")
    return f"{best[0]} and {best[1]}: {best[2]:.3f}" if best else NOTHING


INTRODUCTION: Final = (
    "The truth of the emulated nodes is measured co-runs of NAS programs (ARIS: 809 co-runs on nodes of 2 x 10 cores; Marconi: a heat"
    " map on nodes of 2 x 24). A *compact* job has all cores of its nodes, a *spread* job has half of the cores of twice as many nodes."
    " The experiment is that of ELiSE (JSSPP 2025): all jobs are submitted at once, and the makespan is compared with that of EASY with"
    " compact jobs. Run times on Marconi are those on ARIS of the same program and class with 256 processes; programs without one"
    " (`cg.D`, `ft.E`) have the mean of these."
)


def predictions(figures: Figures) -> list[str]:
    """Return what models of hardware predict beside what was measured."""
    tables = {name: told(figures, work, FROM_HALVES) for name, work in MEASURED.items()}
    node = told(figures, ex.MIXED, MEASURED_NODE)
    parts: dict[str, pages.Section] = {
        "LOMARC's tables": lambda _: lomarc_table(),
        "NAS pairs that were not measured": lambda _: nas_table({name: each for name, each in tables.items() if each}),
        "A node that the program has measured": lambda _: node_table(node),
    }
    return pages.sections(parts, 3)(figures)


PARTS: Final[Mapping[str, pages.Section]] = {
    "Published results and goals": pages.claims_of(claims),
    "ELiSE's Table 2": elise(),
    "Sizes mixed": mixes(),
    "All schedulers": schedulers(),
    "Who runs slower than compact": slower(),
    "How short a makespan can be": bounds(),
    "What is not reached, and why": not_reached,
    "What the scheduler knows, varied": knowledge(),
}


def report(figures: Figures, size: Size) -> list[str]:
    """Return the lines of the page; a quick one has no predictions, whose fits take a minute."""
    parts = PARTS if size.quick else {**PARTS, "Predicted beside measured": predictions}
    told = f"{size.jobs} jobs a run, up to {size.seeds} seeds. {VERDICTS}"
    return [INTRODUCTION, "", told, "", *pages.sections(parts)(figures)]


# ---------------------------------------------------------------- makespans relative to EASY, and jobs that run slower than compact

COLOURS: Final = {ex.ELISE: "#5fa8d3", ex.CO_EXECUTION: "#0b3954"}
PUBLISHED: Final = {
    **{f"Marconi {mean}": value for mean, value in TABLE_2.items()},
    "ARIS 256": ARIS_256,
    ex.MIXED: ARIS_MIXED,
}


def _picture(figures: Figures) -> Any:
    groups = [name for name in (*ex.MARCONI, *ex.ARIS) if figures.seeds(Where(name, ex.EASY))]
    figure, axes = grid(2, 1)
    slower = {
        name: [point_at(figures, "slower_by_5", at(work, name), None, 100.0) for work in groups] for name in COLOURS
    }
    bars(axes[0], {name: [_makespan(figures, group, name) for group in groups] for name in COLOURS}, COLOURS)
    bars(axes[1], slower, COLOURS, published=False)
    axes[0].axhline(1.0, color="#888888", linewidth=0.8)
    say(axes[0], title="makespan, relative to EASY")
    say(axes[1], title="jobs slower than compact by more than 5 % [%]")
    for axis in axes:
        axis.set_xticks(range(len(groups)), [name.replace(" ", "\n", 1) for name in groups], fontsize=8)
    legend(figure, axes[0])
    return figure


def _makespan(figures: Figures, workload: str, policy: str) -> Point | None:
    told = PUBLISHED.get(workload) if policy == ex.ELISE else None
    found = figures.ratio(MAKESPAN, at(workload, policy), Where(workload, ex.EASY))
    return point_of(found, None if told is None else 1 + told / 100)


PICTURES: Final = {"": _picture}
