"""The tables of the G-LOMARC-TS reproduction: published beside measured, with one try and with all, paired by seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from scripts.papers.claims import VERDICTS
from scripts.papers.figures import Figures, Where, interval_text, percent_text, sections
from scripts.papers.glts.claims import HIGH_LOAD, claims_table, where_of_block, where_of_slack
from scripts.papers.glts.experiment import (
    AARR,
    BASE,
    BELIEFS,
    BLOCK,
    BLOCKS,
    EXACT,
    GAP,
    GAPS,
    IN_BLOCKS,
    READINGS,
    SCHEDULERS,
    SLACK,
    SLACKS,
    SSP,
    TRIES,
    policy,
    space_sharing,
)
from scripts.papers.glts.measures import BOUNDS
from scripts.papers.glts.published import CLASS_JOBS, CLASS_WORK, SSP_W2, short_of_all
from scripts.papers.harm import harm_tables
from scripts.papers.saturation import Queue, saturation_table
from scripts.papers.study import Size
from scripts.tables import number, table_head, table_row

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
OF_GROUPS: Final[Mapping[str, tuple[str, float]]] = {
    "groups_number": ("groups", 1),
    "groups_size": ("jobs a group", 1),
    "groups_share": ("% of eligible jobs", 100),
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
PERCENTILES: Final = ("mean", "p5", "p25", "p50", "p75", "p95")
DAY_S: Final = 86_400
ALL: Final = (SSP, *(policy(scheduler, tries) for scheduler in SCHEDULERS for tries in TRIES))
GROUPED: Final = ALL[1:]


def report(figures: Figures, size: Size) -> list[str]:
    """Return the lines of the page between its markers; a part without runs is left out."""
    seeds = figures.seeds(Where("W1", SSP)), figures.seeds(Where("W2", SSP))
    lines = [
        f"{size.jobs:,} jobs on 128 nodes. Seeds of jobs, slowdowns and pairs that have run: {seeds[0]} at W1, {seeds[1]} at W2; "
        "the column *seeds* says how many there are where they are fewer. Changes are those of two schedulers under the same jobs.",
        "",
        VERDICTS,
        "",
        "*One try*: of each primary job, what the best window (or the first suitable one) gives is checked for fairness; *all tried*:"
        " while they are refused, the other windows as well (`matching.fairness_tries`).",
        "",
        "## Published and measured",
        "",
        *claims_table(figures),
    ]
    return [*lines, *sections(figures, _PARTS)]


# ---------------------------------------------------------------- tables


def _table(
    figures: Figures,
    wheres: Mapping[tuple[str, ...], Where],
    labels: Sequence[str],
    columns: Mapping[str, tuple[str, float]],
) -> list[str]:
    """Return a table of means, a row for each of some runs; empty where none has run."""
    rows = [
        table_row(
            (*names, str(figures.seeds(where))),
            [interval_text(figures.mean(key, where), factor=factor) for key, (_, factor) in columns.items()],
        )
        for names, where in wheres.items()
        if figures.seeds(where)
    ]
    return [*table_head((*labels, "seeds"), [title for title, _ in columns.values()]), *rows, ""] if rows else []


def _changes(
    figures: Figures,
    pairs: Sequence[tuple[tuple[str, ...], Where, Where]],
    labels: Sequence[str],
    extra: Mapping[str, tuple[str, float]] | None = None,
) -> list[str]:
    """Return a table of changes in percent, a row for each pair of runs, with means of the first one; empty where none has run."""
    rows = []
    for names, where, base in pairs:
        first = figures.change("rr_600_all", where, base)
        if first is not None:
            cells = [percent_text(figures.change(key, where, base)) for key in GAINS]
            cells += [
                interval_text(figures.mean(key, where), factor=factor) for key, (_, factor) in (extra or {}).items()
            ]
            rows.append(table_row((*names, str(first.n)), cells))
    titles = [*GAINS.values(), *(title for title, _ in (extra or {}).values())]
    return [*table_head((*labels, "seeds"), titles), *rows, ""] if rows else []


def _bases(names: Sequence[str]) -> dict[tuple[str, ...], Where]:
    return {(workload, name): Where(workload, name) for workload in AARR for name in names}


def against_space_sharing(figures: Figures) -> list[str]:
    """Return what each scheduler changes against SSP, with one try and with all."""
    pairs = [((workload, name), Where(workload, name), Where(workload, SSP)) for workload in AARR for name in GROUPED]
    return ["Change against SSP, %.", "", *_changes(figures, pairs, ("", ""))]


def all_against_one(figures: Figures) -> list[str]:
    """Return what the number of tries alone changes."""
    pairs = [
        ((workload, name), Where(workload, policy(name, "all")), Where(workload, policy(name, "one")))
        for workload in AARR
        for name in SCHEDULERS
    ]
    extra = {"groups_share": ("% of eligible jobs in groups", 100.0)}
    found = _changes(figures, pairs, ("", ""), extra)
    return ["Change from one try to all, %: same jobs, same scheduler.", "", *found] if found else []


def equal_tries(figures: Figures) -> list[str]:
    """Return how GLTS is against the other searches where both have the same number of tries."""
    pairs = [
        (
            (workload, tries, f"GLTS against {name}"),
            Where(workload, policy("GLTS", tries)),
            Where(workload, policy(name, tries)),
        )
        for workload in AARR
        for tries in TRIES
        for name in SCHEDULERS
        if name != "GLTS"
    ]
    found = _changes(figures, pairs, ("", "tried", ""))
    return ["Change against another search with the same number of tries, %.", "", *found] if found else []


def absolute(figures: Figures) -> list[str]:
    """Return the relative responses of all schedulers, and the mean response."""
    columns = {"rr_60_short": "short, 60 s", "rr_600_short": "short, 600 s", **RR}
    wanted = {key: (title, 1.0) for key, title in columns.items()} | {"response_all_s": ("response [h]", 1 / 3600)}
    printed = ", ".join(f"{value:g} ({name})" for name, value in SSP_W2.items())
    return [f"The paper prints SSP's RR at W2: {printed}.", "", *_table(figures, _bases(ALL), ("", ""), wanted)]


def short_jobs(figures: Figures) -> list[str]:
    """Return what the published figures of SSP at W2 imply for short jobs, and what ours are under several bounds."""
    texts = {"rr_60": "60 s", "rr_600": "600 s", "rr_600_from_1": "600 s, and 1 at least"}
    assert texts.keys() == BOUNDS.keys()
    lines = [
        "The paper prints medium, long and all jobs of SSP at W2. With table 5's shares of classes that leaves, for short ones,"
        f" ({SSP_W2['all']} - {CLASS_JOBS['medium']} · {SSP_W2['medium']} - {CLASS_JOBS['long']} · {SSP_W2['long']}) / "
        f"{CLASS_JOBS['short']} = {short_of_all(SSP_W2):.2f}.",
        "",
        *table_head(("SSP", "run times count as, at least"), ("short", "all")),
    ]
    for workload in AARR:
        for name, text in texts.items():
            found = [figures.mean(f"{name}_{which}", Where(workload, SSP)) for which in ("short", "all")]
            lines.append(table_row((workload, text), [*map(interval_text, found)]))
    return [*lines, ""]


def utilisation(figures: Figures) -> list[str]:
    """Return core utilisation in high-load phases."""
    columns = {key: (title, 100.0) for key, title in PHASES.items()}
    columns[f"{HIGH_LOAD}_s"] = ("medium or long waits [days]", 1 / DAY_S)
    text = "In percent of all cores, while 12 jobs or more of a class wait; and how long that is."
    return [text, "", *_table(figures, _bases(ALL), ("", ""), columns)]


def groups(figures: Figures) -> list[str]:
    """Return what groups there are."""
    text = (
        "Eligible are medium and long jobs. Candidates are those that passed step 1 in searches that ended in a group. Case 1: all"
        " were waiting; 2: the primary was waiting, others ran; 3: the primary ran. Refused: for fairness, or for a promise."
    )
    return [text, "", *_table(figures, _bases(GROUPED), ("", ""), OF_GROUPS)]


def delays(figures: Figures) -> list[str]:
    """Return how response / expected response is distributed."""
    lines: list[str] = []
    for name in ("medium", "long"):
        columns = {f"delay_{name}_{key}": (key, 1.0) for key in PERCENTILES}
        found = _table(figures, _bases(GROUPED), ("", ""), columns)
        lines += [f"### {name.capitalize()} jobs", "", *found] if found else []
    return lines


WAITING: Final = Queue("waiting_first_half", "waiting_second_half", unit="jobs that wait")


def saturation(figures: Figures) -> list[str]:
    """Return what tells whether schedulers keep up: makespan and length of the queue."""
    columns = {
        "offered_load": ("offered load", 1.0),
        "last_submission_s": ("last submission [days]", 1 / DAY_S),
        "makespan_s": ("makespan [days]", 1 / DAY_S),
    }
    wheres = [Where(workload, name) for workload in AARR for name in (SSP, *(policy("GLTS", tries) for tries in TRIES))]
    return [*_table(figures, _bases(ALL), ("", ""), columns), *saturation_table(figures, wheres, WAITING)]


def workload_table(figures: Figures) -> list[str]:
    """Return the classes' shares of jobs and of work."""
    parts = {"jobs": CLASS_JOBS, "work": CLASS_WORK}
    columns = [(f"{part}_{name}", f"{name} {part}") for part, found in parts.items() for name in found]
    lines = table_head(("%",), [title for _, title in columns])
    published = [number(100 * share) for found in parts.values() for share in found.values()]
    lines.append(table_row(("published",), published))
    for workload in AARR:
        found = [figures.mean(key, Where(workload, SSP)) for key, _ in columns]
        lines.append(table_row((workload,), [interval_text(each, factor=100.0) for each in found]))
    return [*lines, ""]


def harm(figures: Figures) -> list[str]:
    """Return who is worse off than under SSP."""
    if all(figures.mean("harm_h1", Where(workload, name)) is None for workload in AARR for name in GROUPED):
        return []
    glts = [Where(workload, policy("GLTS", tries)) for workload in AARR for tries in TRIES]
    return harm_tables(figures, SSP, [Where(workload, name) for workload in AARR for name in GROUPED], glts)


# ---------------------------------------------------------------- experiments


def blocks(figures: Figures) -> list[str]:
    """Return figure 8: relative responses by size of blocks, against the same search with blocks of 16."""
    pairs = [
        ((policy(name, tries), str(size)), where_of_block(size, name, tries), where_of_block(BLOCK, name, tries))
        for name in IN_BLOCKS
        for tries in TRIES
        for size in BLOCKS
        if size != BLOCK
    ]
    found = _changes(figures, pairs, ("W2", "block"))
    return [f"Change against blocks of {BLOCK}, %.", "", *found] if found else []


def slacks(figures: Figures) -> list[str]:
    """Return figure 9: relative responses by slack factor, against 1.5."""
    pairs = [
        ((policy("GLTS", tries), factor), where_of_slack(factor, tries), where_of_slack(SLACK, tries))
        for tries in TRIES
        for factor in SLACKS
        if factor != SLACK
    ]
    extra = {
        "groups_share": ("% in groups", 100.0),
        "groups_refused": ("groups refused", 1.0),
        "delay_medium_p95": ("medium, R/R_est p95", 1.0),
        "delay_long_p95": ("long, R/R_est p95", 1.0),
    }
    found = _changes(figures, pairs, ("W1", "slack"), extra)
    return [f"Change against a slack factor of {SLACK}, %; `none` refuses nothing.", "", *found] if found else []


def loads(figures: Figures) -> list[str]:
    """Return how the changes depend on the load."""
    pairs = []
    for tries in TRIES:
        for rival in (SSP, policy("CST", tries)):
            for gap in GAPS:
                variant = BASE if gap == GAP else f"gap-{gap}"
                glts, other = (Where("W1", name, variant) for name in (policy("GLTS", tries), rival))
                pairs.append(((policy("GLTS", tries), rival, gap), glts, other))
    found = _changes(figures, pairs, ("W1", "against", "gaps"), {"offered_load": ("offered load", 1.0)})
    there = any(figures.seeds(Where("W1", SSP, f"gap-{gap}")) for gap in GAPS)
    return ["All gaps between arrivals multiplied; changes in %.", "", *found] if there else []


def readings(figures: Figures) -> list[str]:
    """Return what other readings of the paper do: to a scheduler, and to what it gains over SSP."""
    pairs = []
    for workload in AARR:
        for name, variant in READINGS.items():
            for scheduler in variant.policies:
                where, base = Where(workload, scheduler, name), Where(workload, scheduler)
                pairs.append(((workload, f"{scheduler}, {name}", scheduler), where, base))
                if scheduler != SSP:
                    other = space_sharing(where)
                    title = SSP if other.variant is None else f"{SSP}, {name}"
                    pairs.append(((workload, f"{scheduler}, {name}", title), where, other))
    found = _changes(figures, pairs, ("", "", "against"), {"groups_share": ("% in groups", 100.0)})
    texts = [f"- **{name}**: {variant.text}." for name, variant in READINGS.items()]
    return [*texts, "", *found] if found else []


def knowledge(figures: Figures) -> list[str]:
    """Return what is left of the gain where the scheduler knows less."""
    pairs = [
        (
            (workload, policy("GLTS", tries), belief),
            Where(workload, policy("GLTS", tries), None, belief),
            Where(workload, SSP, None, belief),
        )
        for workload in AARR
        for tries in TRIES
        for belief in BELIEFS
    ]
    there = any(figures.seeds(Where("W1", SSP, None, belief)) for belief in BELIEFS if belief != EXACT)
    texts = [f"- **{name}**: the scheduler knows {text}." for name, (text, _) in BELIEFS.items()]
    found = _changes(figures, pairs, ("", "", "knows"), {"groups_share": ("% in groups", 100.0)})
    return [*texts, "", "Change against SSP with the same knowledge, %.", "", *found] if there else []


_PARTS: Final = {
    "GLTS against the others": against_space_sharing,
    "One try and all": all_against_one,
    "Searches with equal tries": equal_tries,
    "In absolute terms": absolute,
    "What short jobs count": short_jobs,
    "Core utilisation": utilisation,
    "Groups": groups,
    "Response against the one expected": delays,
    "Which schedulers keep up": saturation,
    "Who is worse off": harm,
    "Workload": workload_table,
    "Figure 8: size of blocks": blocks,
    "Figure 9: slack factor": slacks,
    "Load": loads,
    "Other readings": readings,
    "What the scheduler knew, varied": knowledge,
}
