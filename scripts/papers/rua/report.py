"""The tables of the RUA reproduction: published beside measured, and relative to FF."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from scripts.papers.claims import VERDICTS, claims_table
from scripts.papers.figures import Figures, Where, interval_text
from scripts.papers.harm import harm_tables
from scripts.papers.means import means_of, texts_of
from scripts.papers.rua import experiment as ex
from scripts.papers.rua.claims import ALL_SLOWDOWN_P95, BOTH, NAMES, READINGS, RULES, claims, like, of_demand
from scripts.papers.rua.experiment import BASE, LCT, MAIN, POLICIES, VARIANTS, WORKLOADS
from scripts.papers.rua.published import (
    KILLED,
    PENALISED,
    PENALISED_P95,
    PUBLISHED,
    SLOWDOWN,
    SLOWDOWN_P95,
    WAIT,
    WAIT_P95,
    published,
    published_ratio,
)
from scripts.papers.rua.windows import WindowFigures
from scripts.papers.saturation import saturation_table
from scripts.papers.study import Size
from scripts.tables import NOTHING, number, table_head, table_row

TITLES: Final = {
    KILLED: "Killed jobs (Table 7)",
    PENALISED_P95: "Percent penalised run time, 95th percentile (Table 5)",
    PENALISED: "Percent penalised run time, mean (Table 6)",
    SLOWDOWN_P95: "Bounded slowdown (10 s), 95th percentile, finished jobs (Table 1)",
    SLOWDOWN: "Bounded slowdown (10 s), mean, finished jobs (Table 2)",
    ALL_SLOWDOWN_P95: "Bounded slowdown (10 s), 95th percentile, all jobs that ran",
    WAIT_P95: "Wait [s], 95th percentile (Table 3)",
    WAIT: "Wait [s], mean (Table 4)",
}
# By column: heading, and what a value is multiplied by.
SHOWN: Final = {
    KILLED: ("killed", 1.0),
    "killed_within": ("not beyond the estimate", 1.0),
    PENALISED: ("penalised, mean", 1.0),
    PENALISED_P95: ("p95", 1.0),
    SLOWDOWN_P95: ("bounded slowdown p95", 1.0),
    WAIT_P95: ("wait p95 [s]", 1.0),
    "offered_load": ("offered load", 1.0),
    "utilisation": ("utilisation", 1.0),
}

# By what is shown of a run: the variant, and what its limits are; None: the base runs.
OF_RUA: Final = {
    None: "factor found",
    "threshold": "threshold",
    "from 1.0": "factor found, thresholds from 1.0",
    "from 1.0 by threshold": "threshold, from 1.0 on",
}
OF_LC: Final = {
    None: "factor found",
    "none": "not extended",
    "control": "as RUA's threshold",
    "at least 1.15": "factor found, at least 1.15",
    "may wait": "factor found; may wait",
}


def report(found: Figures, size: Size) -> list[str]:
    """Return the lines of the page between its markers."""
    figures = WindowFigures(found)
    warmup = size.jobs // 2
    return [
        f"{warmup:,} warm-up and {size.jobs - warmup:,} measured jobs. A seed draws the demand; a window is the first, second or third"
        f" {size.jobs:,} jobs of the log. **Every interval is over windows**, whose seeds are averaged first: it says what another"
        " window might give, and *seeds* in the tables counts windows.",
        "",
        *_runs(figures),
        "## The paper's claims",
        "",
        f"{VERDICTS} The numbers of the paper are those of its tables, or of its text on figures 8 and 9 (RUA).",
        "",
        *claims_table(claims(figures)),
        "### Parameters and rules",
        "",
        *claims_table(claims(figures, RULES)),
        "## Readings",
        "",
        *_readings(figures),
        "## Demand",
        "",
        *_demands(figures),
        "## Saturation",
        "",
        *saturation_table(figures, [Where(workload, policy) for workload in WORKLOADS for policy in MAIN]),
        "## Kills that sharing does not cause",
        "",
        *_beyond(figures),
        "## Who is worse off",
        "",
        *_harm(figures),
        "## Experiments",
        "",
        *_experiments(figures, {**{name: variant for name, (variant, _) in ex.DEMANDS.items()}, **VARIANTS}),
        "## Tables",
        "",
        "*Within a quarter*: whether a figure over FF's is within a quarter of the published one, at every value of the interval.",
        "",
        *[line for key in TITLES for line in figure_table(figures, key)],
    ]


def _runs(figures: Figures) -> list[str]:
    """Return how many runs there are, by workload."""
    texts = []
    for workload in WORKLOADS:
        main, least = (min(figures.seeds(Where(workload, policy)) for policy in policies) for policies in (MAIN, LCT))
        texts.append(f"{workload} {main} and {least}")
    return [f"Runs of each of FF, LC and RUA, and of each threshold LCT: {'; '.join(texts)}.", ""]


def _readings(figures: Figures) -> list[str]:
    return [
        "What a limit is extended by, and for whom. The base runs extend by the factor found, under LC and RUA.",
        "",
        *texts_of({name: variant.text for name, variant in ex.READINGS.items()}),
        "",
        *claims_table(claims(figures, READINGS)),
        *combination_tables(figures),
    ]


def _demands(figures: WindowFigures) -> list[str]:
    """Return what hangs on the demand of a high process."""
    windows = {name: ex.windows_of(figures.found, name) for name in ex.DEMANDS}
    runs = "; ".join(f"{int(name):,} MB/s {', '.join(map(str, found)) or 'none'}" for name, found in windows.items())
    return [
        "What a process of a *high* job demands: 2,000 MB/s elsewhere. The control is first fit with limits that are extended as LC's"
        f" are. Windows that have run: {runs}.",
        "",
        *claims_table([claim for name in (None, *ex.DEMANDS) for claim in of_demand(figures, name)]),
    ]


def combination_tables(figures: Figures) -> list[str]:
    """Return RUA against LC under all readings: a table for each figure, empty where nothing has run."""
    lines: list[str] = []
    for key in BOTH:
        rows = [row for rua in OF_RUA for row in _rows(figures, key, rua)]
        if rows:
            head = table_head(("limits of RUA", "limits of LC"), WORKLOADS)
            lines += [f"### {NAMES[key].capitalize()}: RUA / LC", "", *head, *rows, ""]
    return lines


def _rows(figures: Figures, key: str, rua: str | None) -> Iterator[str]:
    for lc, text in OF_LC.items():
        found = [figures.ratio(key, Where(workload, "RUA", rua), Where(workload, "LC", lc)) for workload in WORKLOADS]
        if any(found):
            yield table_row((OF_RUA[rua], text), [interval_text(each) for each in found])


def figure_table(figures: Figures, key: str) -> list[str]:
    """Return published beside measured for one figure, with ratios to FF."""
    lines = [f"### {TITLES[key]}", "", *table_head(("", ""), POLICIES)]
    for workload in WORKLOADS:
        cells = [Where(workload, policy) for policy in POLICIES]
        if not any(figures.seeds(where) for where in cells):
            continue
        base = cells[0]
        printed = workload in PUBLISHED.get(key, {})
        if printed:
            lines.append(
                table_row((workload, "published"), [number(published(key, workload, name)) for name in POLICIES])
            )
        lines.append(table_row((workload, "measured"), [interval_text(figures.mean(key, where)) for where in cells]))
        if printed:
            theirs = [number(published_ratio(key, workload, name)) for name in POLICIES]
            lines.append(table_row(("", "published / FF"), theirs))
        ratios = [interval_text(figures.ratio(key, where, base)) for where in cells[1:]]
        lines.append(table_row(("", "measured / FF"), ["1", *ratios]))
        if printed:
            verdicts = [NOTHING, *(like(figures, key, workload, name) for name in [*POLICIES][1:])]
            lines.append(table_row(("", "within a quarter"), verdicts))
    return [*lines, ""]


def _beyond(figures: Figures) -> list[str]:
    """Return the kills of jobs that had run to or past their estimate in the log, and the others."""
    lines = [
        "A job that ran to or past its estimate in the log (its run time is cut to the estimate here) is killed by any delay.",
        "",
        *table_head(("", "", "seeds"), ["killed", "of these beyond the estimate", "the others", "the others / FF's"]),
    ]
    for workload in WORKLOADS:
        for policy in MAIN:
            where = Where(workload, policy)
            if figures.seeds(where):
                cells = [interval_text(figures.mean(key, where)) for key in (KILLED, "killed_beyond", "killed_within")]
                cells.append(interval_text(figures.ratio("killed_within", where, Where(workload, "FF"))))
                lines.append(table_row((workload, policy, str(figures.seeds(where))), cells))
    return [*lines, ""]


def _harm(figures: Figures) -> list[str]:
    cells = [Where(workload, policy) for workload in WORKLOADS for policy in MAIN[1:]]
    classes = [Where(workload, "RUA") for workload in WORKLOADS if workload.endswith("MED")]
    lines = harm_tables(figures, "FF", cells, classes)
    return lines if any(line.startswith(("| CTC", "| BLUE")) for line in lines) else ["Not run yet.", ""]


def _experiments(figures: Figures, variants: Mapping[str, ex.Variant]) -> list[str]:
    """Return the experiments, beside the base runs."""
    lines = texts_of({name: variant.text for name, variant in variants.items()})
    lines += ["", *table_head(("", "", "", "seeds"), [title for title, _ in SHOWN.values()])]
    for workload in WORKLOADS:
        rows = [
            _row(figures, name, Where(workload, policy, name))
            for name, variant in variants.items()
            for policy in variant.policies
            if figures.seeds(Where(workload, policy, name))
        ]
        if rows:
            lines += [
                _row(figures, BASE, Where(workload, policy))
                for policy in MAIN
                if figures.seeds(Where(workload, policy))
            ]
            lines += rows
    return [*lines, ""]


def _row(figures: Figures, label: str, where: Where) -> str:
    cells = means_of(figures, SHOWN, where)
    return table_row((label, where.workload, where.policy, str(figures.seeds(where))), cells)
