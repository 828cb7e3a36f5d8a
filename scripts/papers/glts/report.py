"""The tables of the G-LOMARC-TS reproduction: published beside measured, paired by seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from scripts.papers import pages
from scripts.papers import rows as r
from scripts.papers.claims import VERDICTS
from scripts.papers.figures import Figures, Where
from scripts.papers.glts import experiment as ex
from scripts.papers.glts import published as printed
from scripts.papers.glts.claims import DAY_S, HIGH_LOAD, claims, where_of_block, where_of_slack
from scripts.papers.glts.measures import BOUNDS
from scripts.papers.harm import harm
from scripts.papers.saturation import Queue, saturation
from scripts.papers.study import BASE, Size
from scripts.tables import number

# Relative responses as columns of a table.
RR: Final[Mapping[str, str]] = {
    "rr_60_medium": "medium",
    "rr_60_long": "long",
    "rr_60_all": "all, 60 s",
    "rr_600_all": "all, 600 s",
}
GAINS: Final[Mapping[str, str]] = {**RR, HIGH_LOAD: "core utilisation, high load"}
PHASES: Final[Mapping[str, str]] = {
    "high_load_medium": "medium",
    "high_load_long": "long",
    HIGH_LOAD: "medium or long",
    "core_utilisation": "whole run",
}
# By figure of groups: title, and what a stored value is multiplied by.
OF_GROUPS: Final[pages.Columns] = {
    "groups_number": ("groups", 1),
    "groups_size": ("jobs a group", 1),
    "groups_jobs": ("jobs in groups", 1),
    "groups_share": ("% of eligible jobs", 100),
    "groups_pairs": ("% of two jobs", 100),
    "groups_candidates": ("candidates", 1),
    "groups_few_candidates": ("% with < 4 candidates", 100),
    "groups_gain": ("gain", 1),
    "groups_case_1": ("case 1", 1),
    "groups_case_2": ("case 2", 1),
    "groups_case_3": ("case 3", 1),
    "groups_serial_pairs": ("serial pairs", 1),
    "groups_low_load": ("alone, low load", 1),
    "groups_refused": ("groups refused", 1),
    "groups_given_up": ("jobs alone after that", 1),
}
LENGTHS: Final[pages.Columns] = {
    "offered_load": ("offered load", 1.0),
    "last_submission_s": ("last submission [days]", 1 / 86_400),
    "makespan_s": ("makespan [days]", 1 / 86_400),
    "beyond_s": ("beyond the last submission [days]", 1 / 86_400),
}
PAIRS: Final = ("CST", "CSTWS")
PERCENTILES: Final = ("mean", "p5", "p25", "p50", "p75", "p95")
GROUPED: Final = ex.BASES[1:]

# ---------------------------------------------------------------- kinds of tables

Pair = tuple[tuple[str, ...], Where, Where]  # labels of a row, some runs, and those that they are held against
BOTH: Final = [Where(work, name) for work in ex.AARR for name in ex.BASES]
OF_GROUPED: Final = [Where(work, name) for work in ex.AARR for name in GROUPED]
IN_GROUPS: Final[pages.Columns] = {"groups_share": ("% in groups", 100.0)}
ELIGIBLE: Final[pages.Columns] = {"groups_share": ("% of eligible jobs in groups", 100.0)}


def changes(
    texts: Sequence[str], labels: Sequence[str], pairs: Sequence[Pair], extra: pages.Columns | None = None
) -> pages.Section:
    """Return changes in percent, a row for each pair of runs, with means of the first one."""
    shown = extra or {}
    rows: list[pages.Row] = []
    for names, where, base in pairs:
        gains = [r.change(key, where, base) for key in GAINS]
        rows.append((names, [*gains, *map(pages.aside, pages.means(shown, where))]))
    return pages.table(labels, [*GAINS.values(), *pages.heads(shown)], rows, [*texts, ""])


def _to(names: Sequence[str], base: str, title: str = "{}") -> list[Pair]:
    """Return schedulers held against another one at both workloads."""
    return [((load, title.format(name)), Where(load, name), Where(load, base)) for load in ex.AARR for name in names]


def _gap(rival: str, gap: str) -> Pair:
    variant = BASE if gap == ex.GAP else f"gap-{gap}"
    return (rival, gap), Where("W1", ex.GLTS, variant), Where("W1", rival, variant)


def _readings() -> list[Pair]:
    """Return what other readings of the paper do: to a scheduler, and to what it gains over SSP."""
    pairs: list[Pair] = []
    for name, variant in ex.READINGS.items():
        for workload in variant.workloads:
            for scheduler in variant.policies:
                where, title = Where(workload, scheduler, name), f"{scheduler}, {name}"
                pairs.append(((workload, title, scheduler), where, Where(workload, scheduler)))
                if scheduler in PAIRS:
                    pairs.append(((workload, ex.GLTS, title), Where(workload, ex.GLTS), where))
                if scheduler != ex.SSP:
                    other = ex.space_sharing(where)
                    pairs.append(
                        ((workload, title, ex.SSP if other.variant is None else f"{ex.SSP}, {name}"), where, other)
                    )
    return pairs


# ---------------------------------------------------------------- tables of their own


def short_jobs() -> pages.Section:
    """Return what the published figures of SSP at W2 imply for short jobs, and what ours are under several bounds."""
    texts = {"rr_60": "60 s", "rr_600": "600 s", "rr_600_from_1": "600 s, and 1 at least"}
    assert texts.keys() == BOUNDS.keys()
    rows = [
        ((work, text), [r.mean(f"{name}_{which}", Where(work, ex.SSP)) for which in ("short", "all")])
        for work in ex.AARR
        for name, text in texts.items()
    ]
    told = (
        "The paper prints medium, long and all jobs of SSP at W2. With table 5's shares of classes that leaves, for short ones,"
        f" ({printed.SSP_W2['all']} - {printed.CLASS_JOBS['medium']} · {printed.SSP_W2['medium']} - {printed.CLASS_JOBS['long']} ·"
        f" {printed.SSP_W2['long']}) / "
        f"{printed.CLASS_JOBS['short']} = {printed.short_of_all(printed.SSP_W2):.2f}."
    )
    return pages.table(("SSP", "run times count as, at least"), ("short", "all"), rows, told, counted=False)


def delays(name: str) -> pages.Section:
    """Return how response / expected response of a class is distributed."""
    return pages.means_table({f"delay_{name}_{key}": (key, 1.0) for key in PERCENTILES}, OF_GROUPED)


def workload_table() -> pages.Section:
    """Return the classes' shares of jobs and of work, and the shares of sizes; of jobs as drawn, too."""
    columns = {f"{part}_{name}": (f"{name} {part}", 100.0) for part in ("jobs", "work") for name in printed.CLASS_JOBS}
    columns |= {"serial_share": ("serial", 100.0), "power_share": ("powers of two", 100.0)}
    columns |= {"processes_mean": ("mean size", 1.0)}
    shares = [*printed.CLASS_JOBS.values(), *printed.CLASS_WORK.values(), printed.SERIAL, printed.POWERS]
    cells = {"as drawn": Where("W1", ex.SSP, ex.ORIGINAL)}
    cells |= {f"{work}, grown": Where(work, ex.SSP) for work in ex.AARR}
    rows: list[pages.Row] = [(("published",), [*(number(100 * share) for share in shares), "-"])]
    rows += [((name,), pages.means(columns, where)) for name, where in cells.items()]
    return pages.table(("%",), pages.heads(columns), rows, counted=False)


def plain() -> pages.Section:
    """Return what time slices and the growth of jobs do: SSP against plain space sharing, and against itself on jobs as drawn."""
    others = {name: Where("W1", name) for name in ex.PLAIN} | {"SSP, jobs as drawn": Where("W1", ex.SSP, ex.ORIGINAL)}
    columns = {"response_all_s": "response", "rr_60_short": "RR short, 60 s", **RR}
    rows = [((name,), [r.change(key, Where("W1", ex.SSP), where) for key in columns]) for name, where in others.items()]
    text = (
        "Change of SSP at W1, %, against other ways to run the same jobs: EASY on the same nodes without slices, first come first"
        " served or short before medium before long jobs; and against SSP with one process a node on jobs as the model draws them."
    )
    return pages.table(("SSP against",), columns.values(), rows, text)


# ---------------------------------------------------------------- the page

_SLACK: Final[pages.Columns] = {
    "groups_share": ("% in groups", 100.0),
    "groups_refused": ("groups refused", 1.0),
    "delay_medium_p95": ("medium, R/R_est p95", 1.0),
    "delay_long_p95": ("long, R/R_est p95", 1.0),
}
_PRINTED = ", ".join(f"{value:g} ({name})" for name, value in printed.SSP_W2.items())
# fmt: off
PARTS: Final[Mapping[str, pages.Section]] = {
    "Published and measured": pages.claims_of(claims),
    "GLTS against the others": changes(["Change against SSP, %."], ("", ""), _to(GROUPED, ex.SSP)),
    "Searches": changes(["Change against another search, %."], ("", ""),
        [((load, f"{ex.GLTS} against {name}"), Where(load, ex.GLTS), Where(load, name)) for load in ex.AARR for name in ex.SCHEDULERS
        if name != ex.GLTS]),
    "One try and all": changes([f"Change of {ex.GLTS} against {ex.ONE}, %: same jobs, same search."], ("", ""),
        _to([ex.GLTS], ex.ONE), ELIGIBLE),
    "In absolute terms": pages.means_table({
        **{key: (title, 1.0) for key, title in {"rr_60_short": "short, 60 s", "rr_600_short": "short, 600 s", **RR}.items()},
        "response_all_s": ("response [h]", 1 / 3600),
    }, BOTH, f"The paper prints SSP's RR at W2: {_PRINTED}."),
    "What short jobs count": short_jobs(),
    "Core utilisation": pages.means_table({**{key: (title, 100.0) for key, title in PHASES.items()},
        f"{HIGH_LOAD}_s": ("medium or long waits [days]", 1 / DAY_S)}, BOTH,
        "In percent of all cores, while 12 jobs or more of a class wait; and how long that is."),
    "Groups": pages.means_table(
        OF_GROUPS,
        OF_GROUPED,
        "Eligible are medium and long jobs. Candidates are those that passed step 1 in searches that ended in a group. Case 1: all"
        " were waiting; 2: the primary was waiting, others ran; 3: the primary ran. Refused: for fairness, or for a promise.",
    ),
    "Response against the one expected": pages.sections({f"{name.capitalize()} jobs": delays(name) for name in ("medium", "long")}, 3),
    "Which schedulers keep up": pages.joined(pages.means_table(LENGTHS, BOTH),
        saturation(BOTH, Queue("waiting_first_half", "waiting_second_half", unit="waiting jobs"))),
    "Who is worse off": harm(ex.SSP, OF_GROUPED, [Where(work, ex.GLTS) for work in ex.AARR]),
    "Workload": workload_table(),
    "Slices and growth": plain(),
    "Figure 8: size of blocks": changes([f"Change against blocks of {ex.BLOCK}, %."], ("W2", "block"),
        [((name, str(size)), where_of_block(size, name), where_of_block(ex.BLOCK, name)) for name in ex.IN_BLOCKS
        for size in ex.BLOCKS if size != ex.BLOCK]),
    "Figure 9: slack factor": changes([f"Change against a slack factor of {ex.SLACK}, %; `none` refuses nothing."],
        ("W1, GLTS, slack",), [((each,), where_of_slack(each), where_of_slack(ex.SLACK)) for each in ex.SLACKS if each != ex.SLACK],
        _SLACK),
    "Orders that the paper names": changes([*pages.texts_of({name: variant.text for name, variant in ex.ORDERS.items()}), "",
        f"Change against {ex.GLTS}, %."], ("", ""), [((load, f"{ex.GLTS}, {name}"), Where(load, ex.GLTS, name), Where(load, ex.GLTS))
        for name, variant in ex.ORDERS.items() for load in variant.workloads], IN_GROUPS),
    "Load": changes(["All gaps between arrivals multiplied; changes in %."], ("W1, GLTS against", "gaps"),
        [_gap(rival, gap) for rival in (ex.SSP, "CST") for gap in ex.GAPS], {"offered_load": ("offered load", 1.0)}),
    "Other readings": changes(pages.texts_of({name: variant.text for name, variant in ex.READINGS.items()}), ("", "", "against"),
        _readings(), IN_GROUPS),
    "What the scheduler knew, varied": changes([*pages.texts_of({name: f"the scheduler knows {text}"
        for name, (text, _) in ex.BELIEFS.items()}), "", "Change against SSP with the same knowledge, %."], ("", "", "knows"),
        [((load, ex.GLTS, belief), Where(load, ex.GLTS, None, belief), Where(load, ex.SSP, None, belief)) for load in ex.AARR
        for belief in ex.BELIEFS], IN_GROUPS),
}
# fmt: on


def _head(figures: Figures, size: Size) -> list[str]:
    seeds = figures.seeds(Where("W1", ex.SSP)), figures.seeds(Where("W2", ex.SSP))
    return [
        f"{size.jobs:,} jobs on 128 nodes. Seeds of jobs, slowdowns and pairs that have run: {seeds[0]} at W1, {seeds[1]} at W2; "
        "the column *seeds* says how many a row has. Changes are those of two schedulers under the same jobs.",
        "",
        VERDICTS,
        "",
        "All schedulers try every window of a primary job while the fairness rule refuses them; GLTS/one gives up after the groups of"
        " the best window (`matching.fairness_tries`).",
    ]


report = pages.page(_head, PARTS)
