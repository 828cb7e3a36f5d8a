"""The tables of the G-LOMARC-TS reproduction: published beside measured. Percentages are paired by seed, which means by jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scripts.papers.glts.claims import claims, task_of_block, task_of_gap, task_of_slack
from scripts.papers.glts.figures import Results, against, changes, values
from scripts.papers.glts.published import (
    CLASS_JOBS,
    CLASS_WORK,
    CORE_UTILISATION,
    DELAY,
    GROUPS,
    RELATIVE_RESPONSE,
    SSP_W2,
    short_of_all,
)
from scripts.papers.glts.runs import AARR, BASE, BLOCK, BLOCKS, BOUNDS, GAPS, READINGS, SCHEDULERS, SLACK, SLACKS, Task
from scripts.tables import NOTHING, cell, number, percent, percent_cell, table_head, table_row

RIVALS: Final = ("SSP", "CST", "CSTWS")
WITH_GROUPS: Final = tuple(name for name in SCHEDULERS if name != "SSP")
# Relative responses as columns of a table.
RR: Final[Mapping[str, str]] = {
    "rr_60.short": "short, 60 s",
    "rr_600.short": "short, 600 s",
    "rr_60.medium": "medium",
    "rr_60.long": "long",
    "rr_60.all": "all, 60 s",
    "rr_600.all": "all, 600 s",
}
OF_CLASSES: Final = ("rr_60.medium", "rr_60.long", "rr_60.all", "rr_600.all")
ALL_PHASES: Final = "high_load.medium_or_long"
PHASES: Final[Mapping[str, str]] = {
    "high_load.medium": "medium",
    "high_load.long": "long",
    ALL_PHASES: "medium or long",
    "core_utilisation": "whole run",
}
# By figure of groups: title, and what a stored value is multiplied by.
OF_GROUPS: Final[Mapping[str, tuple[str, float]]] = {
    "number": ("groups", 1),
    "size": ("jobs a group", 1),
    "jobs_in_groups": ("jobs in groups", 1),
    "share": ("% of eligible", 100),
    "few_candidates": ("% with < 4 candidates", 100),
    "gain": ("gain", 1),
    "cases.1": ("case 1", 1),
    "cases.2": ("case 2", 1),
    "cases.3": ("case 3", 1),
    "serial_pairs": ("serial pairs", 1),
    "low_load": ("alone, low load", 1),
    "unfair": ("refused as unfair", 1),
}
DAY_S: Final = 86_400


def report(results: Results, jobs: int) -> list[str]:
    """Return the lines of the page between its markers."""
    seeds = sorted({task.seed for task in results if task.variant == BASE})
    lines = [
        f"{jobs:,} jobs on 128 nodes; {len(seeds)} seed(s) of jobs, slowdowns and pairs (experiments: fewer); mean ± half width of"
        " the 95 % confidence interval over seeds. Percentages are of two schedulers under the same jobs, seed by seed.",
        "",
        "## The paper's claims",
        "",
        *claims(results),
        "## GLTS against the others",
        "",
        *rivals(results),
        "### In absolute terms",
        "",
        *absolute(results),
        "### What short jobs count",
        "",
        *short_jobs(results),
        "## Core utilisation",
        "",
        *utilisation(results),
        "## Groups",
        "",
        *groups(results),
        "## Response against the one expected",
        "",
        *delays(results),
        "## Which schedulers keep up",
        "",
        *saturation(results),
        "## Workload",
        "",
        *workload_table(results),
    ]
    variants = {task.variant for task in results}
    if variants & {f"block-{size}" for size in BLOCKS}:
        lines += ["## Figure 8: size of blocks", "", *blocks(results)]
    if variants & {f"slack-{factor}" for factor in SLACKS}:
        lines += ["## Figure 9: slack factor", "", *slacks(results)]
    if variants & {f"gap-{factor}" for factor in GAPS}:
        lines += ["## Load", "", *loads(results)]
    if variants & set(READINGS):
        lines += ["## Experiments", "", *readings(results)]
    return lines


def rivals(results: Results) -> list[str]:
    """Return how relative responses of GLTS are against the others, and of the variants against GLTS."""
    lines = table_head(("percent", "", ""), RR.values())
    for workload in AARR:
        for rival in RIVALS:
            label = f"GLTS against {rival}"
            if workload == "W1":
                lines.append(table_row((label, workload, "published"), [percent(_published(rival, key)) for key in RR]))
            found = [against(results, key, Task(workload, "GLTS"), rival).values() for key in RR]
            lines.append(table_row((label, workload, "measured"), [percent_cell(cells) for cells in found]))
    for workload in AARR:
        for variant in ("GLTS-FBO", "GLTS-NS", "GLTS-NH"):
            found = [against(results, key, Task(workload, variant), "GLTS").values() for key in RR]
            cells = [percent_cell(changed) for changed in found]
            lines.append(table_row((f"{variant} against GLTS", workload, "measured"), cells))
    return [*lines, ""]


def _published(rival: str, key: str) -> float | None:
    return RELATIVE_RESPONSE[rival].get(key.partition(".")[2])


def absolute(results: Results) -> list[str]:
    """Return the relative responses of all schedulers, and the mean response."""
    lines = table_head(("RR", ""), [*RR.values(), "response [h]"])
    for workload in AARR:
        if workload == "W2":
            cells = [number(SSP_W2.get(key.partition(".")[2])) for key in RR]
            lines.append(table_row((workload, "SSP, published"), [*cells, NOTHING]))
        for scheduler in SCHEDULERS:
            task = Task(workload, scheduler)
            cells = [_cell(results, key, task) for key in RR]
            lines.append(table_row((workload, scheduler), [*cells, _cell(results, "response_s.all", task, 1 / 3600)]))
    return [*lines, ""]


def short_jobs(results: Results) -> list[str]:
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
        if workload == "W2":
            lines.append(table_row((workload, "published"), [number(short_of_all(SSP_W2)), number(SSP_W2["all"])]))
        for name, text in texts.items():
            task = Task(workload, "SSP")
            cells = [_cell(results, f"{name}.{which}", task) for which in ("short", "all")]
            lines.append(table_row((workload, text), cells))
    return [*lines, ""]


def utilisation(results: Results) -> list[str]:
    """Return core utilisation in high-load phases, absolute and of GLTS against the others."""
    lines = [
        "In percent of all cores, while 12 jobs or more of a class wait; and how long that is.",
        "",
        *table_head(("", ""), [*PHASES.values(), "medium or long waits [days]"]),
    ]
    for workload in AARR:
        for scheduler in SCHEDULERS:
            task = Task(workload, scheduler)
            cells = [_cell(results, key, task, 100) for key in PHASES]
            cells.append(_cell(results, "high_load_s.medium_or_long", task, 1 / DAY_S))
            lines.append(table_row((workload, scheduler), cells))
    lines += ["", *table_head(("percent", "", ""), PHASES.values())]
    for workload in AARR:
        for rival in RIVALS:
            label = f"GLTS against {rival}"
            if workload == "W1":
                cells = [percent(CORE_UTILISATION[rival] if key == ALL_PHASES else None) for key in PHASES]
                lines.append(table_row((label, workload, "published"), cells))
            found = [against(results, key, Task(workload, "GLTS"), rival).values() for key in PHASES]
            lines.append(table_row((label, workload, "measured"), [percent_cell(cells) for cells in found]))
    return [*lines, ""]


def groups(results: Results) -> list[str]:
    """Return what groups there are."""
    lines = [
        "Eligible are medium and long jobs. Candidates are those that passed step 1 in searches that ended in a group. Case 1: all"
        " were waiting; 2: the primary was waiting, others ran; 3: the primary ran. Refused as unfair: jobs that were started"
        " otherwise than in the best group, for fairness.",
        "",
        *table_head(("", ""), [title for title, _ in OF_GROUPS.values()]),
    ]
    for workload in AARR:
        theirs = {name: value * OF_GROUPS[name][1] for name, value in GROUPS[workload].items()}
        lines.append(table_row((workload, "GLTS, published"), [number(theirs.get(name)) for name in OF_GROUPS]))
        for scheduler in WITH_GROUPS:
            task = Task(workload, scheduler)
            cells = [_cell(results, f"groups.{name}", task, factor) for name, (_, factor) in OF_GROUPS.items()]
            lines.append(table_row((workload, scheduler), cells))
    return [*lines, ""]


def delays(results: Results) -> list[str]:
    """Return how response / expected response is distributed."""
    percentiles = ("p5", "p25", "p50", "p75", "p95")
    lines = table_head(("", "", ""), ["mean", *percentiles])
    for workload in AARR:
        for name in ("medium", "long"):
            if workload == "W1":
                theirs = [number(DELAY.get(key)) for key in ("mean", *percentiles)]
                lines.append(table_row((workload, "GLTS, published", name), theirs))
            for scheduler in WITH_GROUPS[: 1 + WITH_GROUPS.index("GLTS")]:
                task = Task(workload, scheduler)
                cells = [_cell(results, f"delay.{name}.{key}", task) for key in ("mean", *percentiles)]
                lines.append(table_row((workload, scheduler, name), cells))
    return [*lines, ""]


def saturation(results: Results) -> list[str]:
    """Return what tells whether schedulers keep up: makespan and length of the queue."""
    columns = {
        "last_submission_s": ("last submission [days]", 1 / DAY_S),
        "makespan_s": ("makespan [days]", 1 / DAY_S),
        "queue_first_half": ("queue, first half", 1.0),
        "queue_second_half": ("second half", 1.0),
        "offered_load": ("offered load", 1.0),
        "preemptions": ("preemptions", 1.0),
    }
    lines = [
        "The queue is the mean number of waiting jobs in the first and the second half of the time between first and last submission.",
        "",
        *table_head(("", ""), [title for title, _ in columns.values()]),
    ]
    for workload in AARR:
        for scheduler in SCHEDULERS:
            task = Task(workload, scheduler)
            cells = [_cell(results, key, task, factor) for key, (_, factor) in columns.items()]
            lines.append(table_row((workload, scheduler), cells))
    return [*lines, ""]


def workload_table(results: Results) -> list[str]:
    """Return the classes' shares of jobs and of work."""
    columns = [(f"{key}.{name}", shares[name]) for key, shares in _OF_CLASSES.items() for name in shares]
    lines = table_head(("%",), [f"{key.partition('.')[2]} {key[6:10]}" for key, _ in columns])
    lines.append(table_row(("published",), [number(100 * share) for _, share in columns]))
    for workload in AARR:
        lines.append(table_row((workload,), [_cell(results, key, Task(workload, "SSP"), 100) for key, _ in columns]))
    return [*lines, ""]


_OF_CLASSES: Final = {"class_jobs": CLASS_JOBS, "class_work": CLASS_WORK}


# ---------------------------------------------------------------- experiments


def blocks(results: Results) -> list[str]:
    """Return figure 8: relative responses by size of blocks, and against GLTS as it is."""
    lines = table_head(("W2", "block", "seeds"), [*(RR[key] for key in OF_CLASSES), "medium, %", "long, %"])
    base = task_of_block(BLOCK)
    seeds = {task.seed for task in results if task.variant.startswith("block-")}
    for scheduler in ("GLTS", "GLTS-FBO", "GLTS-NS"):
        for size in BLOCKS:
            lines += _line(results, task_of_block(size, scheduler), base, (scheduler, str(size)), seeds)
    lines += _line(results, Task("W2", "GLTS-NH"), base, ("GLTS-NH", "any"), seeds)
    return [f"Percentages are against GLTS with blocks of {BLOCK}.", "", *lines, ""]


def slacks(results: Results) -> list[str]:
    """Return figure 9: relative responses by slack factor, and against GLTS as it is."""
    extras = {
        "groups.share": ("% in groups", 100.0),
        "groups.unfair": ("refused as unfair", 1.0),
        "delay.medium.p95": ("medium, R/R_est p95", 1.0),
        "delay.long.p95": ("long, R/R_est p95", 1.0),
    }
    columns = [*(RR[key] for key in OF_CLASSES), "medium, %", "long, %", *(title for title, _ in extras.values())]
    lines = table_head(("W1", "slack", "seeds"), columns)
    seeds = {task.seed for task in results if task.variant.startswith("slack-")}
    for factor in SLACKS:
        task = task_of_slack(factor)
        lines += _line(results, task, task_of_slack(SLACK), ("GLTS", factor), seeds, extras)
    return [f"Percentages are against a slack factor of {SLACK}; `none` refuses nothing.", "", *lines, ""]


def loads(results: Results) -> list[str]:
    """Return how the percentages depend on the load."""
    shown = {key: RR[key] for key in OF_CLASSES} | {ALL_PHASES: "core utilisation, high load"}
    lines = table_head(
        ("gaps", "GLTS against", "seeds"), [*shown.values(), "offered load", "queue of the other: halves"]
    )
    seeds = {task.seed for task in results if task.variant.startswith("gap-")}
    for rival in ("SSP", "CST"):
        lines.append(
            table_row(
                ("published", rival, ""),
                [
                    *(percent(_published(rival, key)) for key in OF_CLASSES),
                    percent(CORE_UTILISATION[rival]),
                    NOTHING,
                    NOTHING,
                ],
            )
        )
        for gap in GAPS:
            task = task_of_gap(gap)
            other = task._replace(scheduler=rival)
            found = [_of(changes(results, key, task, other), seeds) for key in shown]
            if found[0]:
                cells = [percent_cell(changed) for changed in found]
                cells.append(_cell(results, "offered_load", task, seeds=seeds))
                halves = [_cell(results, f"queue_{half}_half", other, seeds=seeds) for half in ("first", "second")]
                lines.append(table_row((gap, rival, str(len(found[0]))), [*cells, ", ".join(halves)]))
    return ["W1 with all gaps between arrivals multiplied.", "", *lines, ""]


def readings(results: Results) -> list[str]:
    """Return what other readings of the paper do: to a scheduler, to what it gains over SSP, and to what GLTS gains over it."""
    shown = {key: RR[key] for key in OF_CLASSES} | {ALL_PHASES: "core utilisation, high load"}
    lines = [f"- **{name}**: {variant.text}." for name, variant in READINGS.items()]
    lines += ["", *table_head(("", "", "against", "seeds"), [*shown.values(), "% in groups", "jobs a group"])]
    for workload in AARR:
        for name, variant in READINGS.items():
            for scheduler in [scheduler for place, scheduler in variant.cells if place == workload]:
                base, task = Task(workload, scheduler), Task(workload, scheduler, variant=name)
                seeds = set(values(results, OF_CLASSES[0], task))
                pairs = [(task, base)]
                if scheduler != "SSP":
                    pairs += [(task, task.space_sharing), (base, base.space_sharing)]
                if scheduler in RIVALS[1:]:
                    glts = Task(workload, "GLTS")
                    pairs += [(glts, task), (glts, base)]
                for one, other in pairs if seeds else ():
                    found = [_of(changes(results, key, one, other), seeds) for key in shown]
                    cells = [percent_cell(changed) for changed in found]
                    cells.append(_cell(results, "groups.share", one, 100, seeds))
                    cells.append(_cell(results, "groups.size", one, 1, seeds))
                    line = table_row((workload, _named(one), _named(other), str(len(found[0]))), cells)
                    lines += [line] if line not in lines else []
    return [*lines, ""]


def _named(task: Task) -> str:
    return task.scheduler if task.variant == BASE else f"{task.scheduler}, {task.variant}"


def _line(
    results: Results,
    task: Task,
    base: Task,
    labels: tuple[str, str],
    seeds: set[int],
    extras: Mapping[str, tuple[str, float]] | None = None,
) -> list[str]:
    """Return the row of a variant: relative responses, and how far they are from the base runs; none if it has not run."""
    there = values(results, OF_CLASSES[0], task, seeds)
    if not there:
        return []
    cells = [_cell(results, key, task, 1, seeds) for key in OF_CLASSES]
    cells += [percent_cell(_of(changes(results, key, task, base), seeds)) for key in OF_CLASSES[:2]]
    cells += [_cell(results, key, task, factor, seeds) for key, (_, factor) in (extras or {}).items()]
    return [table_row((*labels, str(len(there))), cells)]


def _cell(results: Results, key: str, task: Task, factor: float = 1.0, seeds: set[int] | None = None) -> str:
    return cell([factor * value for value in values(results, key, task, seeds).values()])


def _of(by_seed: Mapping[int, float], seeds: set[int]) -> list[float]:
    return [value for seed, value in by_seed.items() if seed in seeds]
