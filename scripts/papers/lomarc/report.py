"""The tables of the LOMARC reproduction: published beside measured. Percentages are paired by seed, which means by jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scripts.papers.claims import VERDICTS, claims_table
from scripts.papers.figures import Figures, Where, interval_text, percent_text
from scripts.papers.harm import harm_tables
from scripts.papers.lomarc import experiment as ex
from scripts.papers.lomarc.claims import claims, settled
from scripts.papers.lomarc.funnel import funnel_table, pairs_table, shares_table
from scripts.papers.lomarc.published import AGAINST_PSS, EFFICIENCY, MAKESPAN, RBR, RESPONSE
from scripts.papers.means import means_of, texts_of
from scripts.papers.saturation import saturation_table
from scripts.papers.study import Size
from scripts.tables import NOTHING, number, percent, table_head, table_row

from cosched_emulator.statistics.intervals import change_of

# By column: title, and what a value is multiplied by.
SHOWN: Final = {
    RESPONSE: ("response [s]", 1.0),
    RBR: ("RBR", 1.0),
    "all_wait_s_mean": ("wait [s]", 1.0),
    "node_utilisation": ("utilisation [%]", 100.0),
    EFFICIENCY: ("efficiency [%]", 100.0),
    "node_sharing": ("shared [%]", 100.0),
    MAKESPAN: ("makespan [days]", 1 / 86_400),
    "mean_queue_length": ("queue", 1.0),
}
COMPARED: Final = {
    RESPONSE: "Mean response time",
    RBR: "Mean relative bounded response time (RBR)",
    EFFICIENCY: "Utilisation efficiency",
    MAKESPAN: "Makespan",
}
SHORT: Final = {RESPONSE: "response", RBR: "RBR", EFFICIENCY: "efficiency", MAKESPAN: "makespan"}


def report(figures: Figures, size: Size) -> list[str]:
    """Return the lines of the page between its markers."""
    return [
        f"{size.jobs:,} jobs on 128 nodes. A seed draws arrivals, sizes, run times, characteristics and which pairs are compatible;"
        " percentages compare two schedulers under the same jobs, seed by seed.",
        "",
        *_seeds(figures),
        "## The paper's claims",
        "",
        f"{VERDICTS} Form of the slowdown: `{ex.FORM}`.",
        "",
        *claims_table(claims(figures)),
        "## What no run decides",
        "",
        *claims_table(settled()),
        "## Saturation",
        "",
        *saturation_table(
            figures, [Where(workload, name) for workload in ex.WORKLOADS for name in ("PSS", "L-N", "L-R")]
        ),
        "## Percent against PSS",
        "",
        *[line for key, title in COMPARED.items() for line in _comparison(figures, key, title)],
        "## Who is worse off",
        "",
        *_harm(figures),
        "## With less knowledge",
        "",
        *_beliefs(figures),
        "## Experiments",
        "",
        *_experiments(figures),
        "## Forms of the slowdown",
        "",
        *_forms(figures),
        "## Table 5",
        "",
        *funnel_table(figures),
        "### What passes each constraint",
        "",
        *shares_table(figures),
        "## Figures 6 to 9 as tables",
        "",
        *_absolute(figures),
    ]


def _seeds(figures: Figures) -> list[str]:
    """Return how many seeds have run, by workload."""
    counts = {workload: figures.seeds(Where(workload, "L-R")) for workload in ex.WORKLOADS}
    text = ", ".join(f"{workload} {count}" for workload, count in counts.items())
    return [f"Seeds that have run of the base runs (L-R): {text}. Each table says how many its rows have.", ""]


def _comparison(figures: Figures, key: str, title: str) -> list[str]:
    """Return percentages against PSS, published beside measured."""
    lines = [f"### {title}", "", *table_head(("", "", "seeds"), ex.COSCHEDULERS)]
    for workload in ex.WORKLOADS:
        theirs = AGAINST_PSS[key].get(workload, {})
        base = Where(workload, "PSS")
        mine = [figures.change(key, Where(workload, name), base) for name in ex.COSCHEDULERS]
        if theirs:
            lines.append(
                table_row((workload, "published", ""), [percent(theirs.get(name)) for name in ex.COSCHEDULERS])
            )
        if any(found is not None for found in mine):
            most = max(found.n for found in mine if found is not None)
            lines.append(table_row((workload, "measured", str(most)), [percent_text(found) for found in mine]))
    return [*lines, ""]


def _harm(figures: Figures) -> list[str]:
    cells = [Where(workload, name) for workload in ex.M1 for name in ex.COSCHEDULERS]
    lines = harm_tables(figures, "PSS", cells, [Where(workload, "L-R") for workload in ex.M1])
    return lines if any(line.startswith("| W") for line in lines) else ["Not run yet.", ""]


def _beliefs(figures: Figures) -> list[str]:
    """Return what L-R gains at W2 where it knows less, and how its pairs truly get on."""
    workload = "W2 M1"
    rows = {name: Where(workload, "L-R", belief=None if name == ex.EXACT else name) for name in ex.BELIEFS}
    keys = (RESPONSE, RBR, EFFICIENCY)
    lines = [f"L-R at {workload}, percent against PSS. The hardware is the same in all rows.", ""]
    lines += table_head(("the scheduler knows", "`[belief]`", "seeds"), [SHORT[key] for key in keys])
    for name, where in rows.items():
        if figures.seeds(where):
            text, values = ex.BELIEFS[name]
            setting = ", ".join(f"`{key} = {value!r}`".replace("'", '"') for key, value in values.items())
            found = [percent_text(figures.change(key, where, Where(workload, "PSS"))) for key in keys]
            lines.append(table_row((text, setting, str(figures.seeds(where))), found))
    lines += ["", "How the pairs truly get on, means over seeds:", ""]
    cells = {name: where for name, where in rows.items() if name != ex.EXACT}
    base = {workload: Where(workload, "L-R") for workload in ex.M1}
    return [*lines, *pairs_table(figures, {**base, **cells, "whole, W2 M1": Where(workload, "L-R", "whole")})]


def _rows(figures: Figures, label: str, where: Where) -> Iterator[str]:
    """Yield a row of percentages against PSS, if it has run."""
    base = ex.space_sharing(where)
    found = [figures.change(key, where, base) for key in COMPARED]
    if any(item is not None for item in found):
        seeds = max(item.n for item in found if item is not None)
        load = interval_text(figures.mean("offered_load", base))
        cells = [*(percent_text(item) for item in found), load]
        yield table_row((label, where.workload, where.policy, str(seeds)), cells)


def _experiments(figures: Figures) -> list[str]:
    """Return percentages against PSS in the experiments, beside the base runs and what is published."""
    lines = texts_of({name: variant.text for name, variant in ex.VARIANTS.items()})
    head = [*SHORT.values(), "offered load"]
    lines += [
        "",
        "Against the usual runs of the same scheduler and jobs, percent: what does an experiment change?",
        "",
        *table_head(("", "", "", "seeds"), [*SHORT.values(), "wait short / long"]),
        *[row for where in _SAME_JOBS for row in _against_usual(figures, where)],
    ]
    lines += [
        "",
        "Percent against PSS of the same jobs in the same order.",
        "",
        *table_head(("", "", "", "seeds"), head),
    ]
    for workload in ex.M1:
        for policy in ("AC", *ex.LOMARC):
            rows = [row for name in ex.VARIANTS for row in _rows(figures, name, Where(workload, policy, name))]
            if rows:
                theirs = [AGAINST_PSS[key].get(workload, {}).get(policy) for key in COMPARED]
                if any(value is not None for value in theirs):
                    cells = [*map(percent, theirs), NOTHING]
                    lines.append(table_row(("published", workload, policy, ""), cells))
                lines += [*_rows(figures, ex.BASE, Where(workload, policy)), *rows]
    return [*lines, ""]


# The experiments with the arrivals of the usual runs, those that reorder the queue first.
_SAME_JOBS: Final = [
    Where(workload, policy, name)
    for name in (
        *ex.ORDERS,
        *(each for each in (*ex.VARIANTS, *ex.FORMS) if each not in ex.ORDERS and "length" not in each),
    )
    for workload in ex.M1
    for policy in ex.SCHEDULERS
]


def _against_usual(figures: Figures, where: Where) -> Iterator[str]:
    """Yield the row of an experiment: changes, and how long short jobs wait in it relative to long ones."""
    usual = where._replace(variant=None)
    found = [figures.change(key, where, usual) for key in COMPARED]
    if any(item is not None for item in found):
        waits = [
            change_of(figures.values("wait_s_of_short", each), figures.values("wait_s_of_long", each))
            for each in (usual, where)
        ]
        told = " -> ".join(number(1 + item.mean / 100) for item in waits if item is not None)
        seeds = str(max(item.n for item in found if item is not None))
        yield table_row((where.variant or "", where.workload, where.policy, seeds), [*map(percent_text, found), told])


def _forms(figures: Figures) -> list[str]:
    """Return percentages against PSS under each form of the slowdown."""
    printed = "nothing for the time in which neither competes (as printed; no less than 1); c drawn for every pair"
    lines = [
        f"- **{name}**: {text}." for name, text in ((ex.FORM, printed), *((n, t) for n, (t, _) in ex.FORMS.items()))
    ]
    lines += ["", *table_head(("form", "", "", "seeds"), [*SHORT.values(), "offered load"])]
    for workload in ("W2 M1", "W3 M1"):
        for policy in ex.COSCHEDULERS:
            rows = [row for name in ex.FORMS for row in _rows(figures, name, Where(workload, policy, name))]
            if rows:
                lines += [*_rows(figures, ex.FORM, Where(workload, policy)), *rows]
    return [*lines, ""]


def _absolute(figures: Figures) -> list[str]:
    """Return all figures of all schedulers."""
    lines = []
    for workload in ex.WORKLOADS:
        if not figures.seeds(Where(workload, "PSS")):
            continue
        load = interval_text(figures.mean("offered_load", Where(workload, "PSS")))
        lines += [f"### {workload}", "", f"Offered load of the nodes {load}.", ""]
        lines += table_head(("", "seeds"), [title for title, _ in SHOWN.values()])
        for scheduler in ex.SCHEDULERS:
            where = Where(workload, scheduler)
            if figures.seeds(where):
                lines.append(table_row((scheduler, str(figures.seeds(where))), means_of(figures, SHOWN, where)))
        lines.append("")
    return lines
