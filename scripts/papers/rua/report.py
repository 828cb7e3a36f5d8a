"""The tables of the RUA reproduction: published beside measured, and relative to FF."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from scripts.papers import pages
from scripts.papers import rows as r
from scripts.papers.claims import VERDICTS, claims_table
from scripts.papers.figures import Figures, Where
from scripts.papers.harm import harm
from scripts.papers.rua import experiment as ex
from scripts.papers.rua.claims import ALL_SLOWDOWN_P95, BOTH, NAMES, READINGS, RULES, claims, like, of_demand
from scripts.papers.rua.experiment import LCT, MAIN, POLICIES, WORKLOADS
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
from scripts.papers.saturation import saturation
from scripts.papers.study import BASE, Size
from scripts.tables import NOTHING, number

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
SHOWN: Final[pages.Columns] = {
    KILLED: ("killed", 1.0),
    "killed_within": ("not beyond the estimate", 1.0),
    PENALISED: ("penalised, mean", 1.0),
    PENALISED_P95: ("p95", 1.0),
    SLOWDOWN_P95: ("bounded slowdown p95", 1.0),
    WAIT_P95: ("wait p95 [s]", 1.0),
    "offered_load": ("offered load", 1.0),
    "utilisation": ("utilisation", 1.0),
}

USUAL: Final = [Where(work, policy) for work in WORKLOADS for policy in MAIN]
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


def _head(figures: Figures, size: Size) -> list[str]:
    warmup, texts = size.jobs // 2, []
    for work in WORKLOADS:
        main, least = (min(figures.seeds(Where(work, policy)) for policy in policies) for policies in (MAIN, LCT))
        texts.append(f"{work} {main} and {least}")
    return [
        f"{warmup:,} warm-up and {size.jobs - warmup:,} measured jobs. A seed draws the demand; windows 1 to 3 are the first, second"
        f" and third {size.jobs:,} jobs of the log, 4 to 6 begin half a window later. **Every interval is over windows**, whose seeds"
        " are averaged first: it says what another window might give, and *seeds* in the tables counts windows.",
        "",
        f"Runs of FF, LC and RUA (each), and of each threshold of LCT: {'; '.join(texts)}.",
    ]


def _demands(figures: Figures) -> list[str]:
    """Return what depends on the demand of a high process."""
    windows = {name: ex.windows_of(figures, name) for name in ex.DEMANDS}
    runs = "; ".join(f"{int(name):,} MB/s {', '.join(map(str, found)) or 'none'}" for name, found in windows.items())
    return [
        "The demand of a process of a *high* job, which is 2,000 MB/s elsewhere. The control is first fit with limits extended as"
        f" under LC. Windows that have run: {runs}.",
        "",
        *claims_table([claim for name in (None, *ex.DEMANDS) for claim in of_demand(figures, name)]),
    ]


def combinations(key: str) -> pages.Section:
    """Return RUA against LC under all readings."""
    rows = [
        ((of_rua, of_lc), [r.ratio(key, Where(work, "RUA", rua), Where(work, "LC", lc)) for work in WORKLOADS])
        for rua, of_rua in OF_RUA.items()
        for lc, of_lc in OF_LC.items()
    ]
    return pages.table(("limits of RUA", "limits of LC"), WORKLOADS, rows, counted=False)


def figure_table(key: str) -> pages.Section:
    """Return published beside measured for one figure, with ratios to FF."""
    return pages.table(
        ("", ""), POLICIES, [row for work in WORKLOADS for row in _of_workload(key, work)], counted=False
    )


def _of_workload(key: str, work: str) -> Iterator[pages.Row | pages.Headed]:
    base, *others = POLICIES
    measured: pages.Row = ((work, "measured"), [r.mean(key, Where(work, name)) for name in POLICIES])
    ratios = [r.ratio(key, Where(work, name), Where(work, base)) for name in others]
    over: pages.Row = (("", "measured / FF"), ["1", *ratios])
    if (key, work) not in PUBLISHED:
        yield from (measured, over)
        return
    told = [number(published(key, work, name)) for name in POLICIES]
    theirs = [number(published_ratio(key, work, name)) for name in POLICIES]
    verdicts = [partial(like, key=key, workload=work, policy=name) for name in others]
    yield pages.Headed([((work, "published"), told)], [measured])
    yield pages.Headed([(("", "published / FF"), theirs)], [over])
    judged: list[pages.Cell] = [NOTHING, *verdicts]
    yield ("", "within a quarter"), judged


def _beyond() -> pages.Section:
    """Return the kills of jobs that had run to or past their estimate in the log, and the others."""
    rows: list[pages.Row] = []
    for where in USUAL:
        kills = [r.mean(key, where) for key in (KILLED, "killed_beyond", "killed_within")]
        over = r.ratio("killed_within", where, where._replace(policy="FF"))
        rows.append(((where.workload, where.policy), [*kills, over]))
    text = "A job that ran to or past its estimate in the log (its run time is cut to the estimate here) is killed by any delay."
    return pages.table(
        ("", ""), ["killed", "of these beyond the estimate", "the others", "the others / FF's"], rows, text
    )


def _experiments() -> pages.Section:
    """Return the experiments, beside the base runs."""

    def row(work: str, policy: str, name: str | None) -> pages.Row:
        return (name or BASE, work, policy), pages.means(SHOWN, Where(work, policy, name))

    groups = [
        pages.Headed(
            [row(work, policy, None) for policy in MAIN],
            [row(work, policy, name) for name, variant in ex.OPEN.items() for policy in variant.policies],
        )
        for work in WORKLOADS
    ]
    texts = pages.texts_of({name: variant.text for name, variant in ex.OPEN.items()})
    return pages.table(("", "", ""), pages.heads(SHOWN), groups, [*texts, ""])


PARTS: Final = {
    "The paper's claims": pages.joined(
        pages.claims_of(
            claims,
            text=f"{VERDICTS} The numbers of the paper are those of its tables, or of its text on figures 8 and 9 (RUA).",
        ),
        pages.sections({"Parameters and rules": pages.claims_of(claims, RULES)}, 3),
    ),
    "Readings": pages.joined(
        pages.lines(
            "How far limits are extended, and under which policies. The base runs extend by the factor found, under LC and RUA.",
            "",
            *pages.texts_of({name: variant.text for name, variant in ex.READINGS.items()}),
            "",
        ),
        pages.claims_of(claims, READINGS),
        pages.sections({f"{NAMES[key].capitalize()}: RUA / LC": combinations(key) for key in BOTH}, 3),
    ),
    "Demand": _demands,
    "Saturation": saturation(USUAL),
    "Kills that sharing does not cause": _beyond(),
    "Who is worse off": pages.or_else(
        harm("FF", [each for each in USUAL if each.policy != "FF"], [Where(work, "RUA") for work in ex.MED]),
        "Not run yet.",
    ),
    "Experiments": _experiments(),
    "Tables": pages.joined(
        pages.lines(
            "*Within a quarter*: a figure over FF's is within a quarter of the published one at every value of the interval.",
            "",
        ),
        pages.sections({title: figure_table(key) for key, title in TITLES.items()}, 3),
    ),
}
report = pages.page(_head, PARTS, WindowFigures)
