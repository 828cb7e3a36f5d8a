"""The tables of the LOMARC reproduction: published beside measured. Percentages are paired by seed, which means by jobs."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias

from scripts.papers.frame import by_seed, percent_above
from scripts.papers.lomarc.funnel import funnel_table, shares_table
from scripts.papers.lomarc.published import AGAINST_PSS, BETWEEN
from scripts.papers.lomarc.runs import AARR, BASE, BASE_FORM, CELLS, FORMS, FUNNEL, SCHEDULERS, VARIANTS, Task
from scripts.tables import (
    CLAIMS_HEAD,
    NOTHING,
    VERDICTS,
    cell,
    claim,
    percent,
    percent_cell,
    shown_by_interval,
    shown_by_seeds,
    table_head,
    table_row,
)

Results: TypeAlias = Mapping[Task, Mapping[str, Any]]

LOMARC: Final = ("L-FM", "L-U1", "L-U2", "L-R")
COSCHEDULERS: Final = tuple(name for name in SCHEDULERS if name != "PSS")
FAR: Final = 10  # points between published and measured that deserve an explanation
# By figure: title, and what a stored value is multiplied by.
FIGURES: Final[Mapping[str, tuple[str, float]]] = {
    "response_s": ("response [s]", 1.0),
    "rbr": ("RBR", 1.0),
    "bounded_slowdown": ("bounded slowdown (60 s)", 1.0),
    "wait_s": ("wait [s]", 1.0),
    "node_utilisation": ("utilisation [%]", 100.0),
    "node_efficiency": ("efficiency [%]", 100.0),
    "node_sharing": ("shared [%]", 100.0),
    "makespan_s": ("makespan [days]", 1 / 86_400),
    "mean_queue_length": ("queue", 1.0),
}
COMPARED: Final = {
    "response_s": "Mean response time",
    "rbr": "Mean relative bounded response time (RBR)",
    "node_efficiency": "Utilisation efficiency",
    "makespan_s": "Makespan",
}


def changes(results: Results, key: str, task: Task, other: Task) -> dict[int, float]:
    """Return by how many percent ``task`` is above ``other``, for each seed that both have."""
    return percent_above(by_seed(results, key, task), by_seed(results, key, other))


def against_pss(results: Results, key: str, task: Task) -> dict[int, float]:
    """Return by how many percent ``task`` is above space sharing of the same jobs, for each seed."""
    return changes(results, key, task, task.space_sharing)


def difference_cell(measured: Collection[float], published: float | None) -> str:
    """Return measured less published in points, bold where they are far apart."""
    if not measured or published is None:
        return NOTHING
    points = statistics.fmean(measured) - published
    return f"**{percent(points)}**" if abs(points) > FAR else percent(points)


def report(results: Results, jobs: int) -> list[str]:
    """Return the lines of the page between its markers."""
    seeds = sorted({task.seed for task in results if task.variant == BASE and task.form == BASE_FORM})
    lines = [
        f"{jobs:,} jobs on 128 nodes; {len(seeds)} seed(s) of arrivals, sizes, run times, characteristics and pairs (experiments:"
        " fewer); mean ± half width of the 95 % confidence interval over seeds. Percentages are of two schedulers under the same"
        f" jobs, seed by seed. Form of the slowdown: `{BASE_FORM}`.",
        "",
        "## The paper's claims",
        "",
        *claims(results),
        "## Percent against PSS",
        "",
        f"Differences are in points, measured less published; above {FAR} they are bold.",
        "",
    ]
    for key, title in COMPARED.items():
        lines += comparison(results, key, title)
    lines += ["### Between schedulers", "", *between(results), "## Figures 6 to 9 as tables", ""]
    lines += absolute(results)
    traced = {task: result for task, result in results.items() if task.variant == FUNNEL}
    if traced:
        lines += [
            "## Table 5",
            "",
            *funnel_table(traced),
            "### What passes each constraint",
            "",
            *shares_table(traced),
        ]
    if any(task.form != BASE_FORM and task.variant == BASE for task in results):
        lines += ["## Forms of the slowdown", "", *forms(results)]
    if any(task.variant in VARIANTS for task in results):
        lines += ["## Experiments", "", *experiments(results)]
    return lines


def comparison(results: Results, key: str, title: str) -> list[str]:
    """Return percentages against PSS, published beside measured."""
    lines = [f"### {title}", "", *table_head(("", ""), COSCHEDULERS)]
    for workload, mix in CELLS:
        theirs = AGAINST_PSS[key].get((workload, mix), {})
        mine = {name: against_pss(results, key, Task(workload, mix, name)).values() for name in COSCHEDULERS}
        label = f"{workload} {mix}"
        if theirs:
            lines.append(table_row((label, "published"), [percent(theirs.get(name)) for name in COSCHEDULERS]))
        lines.append(table_row((label, "measured"), [percent_cell(mine[name]) for name in COSCHEDULERS]))
        if theirs:
            lines.append(
                table_row(("", "difference"), [difference_cell(mine[name], theirs.get(name)) for name in COSCHEDULERS])
            )
    return [*lines, ""]


def between(results: Results) -> list[str]:
    """Return percentages of one scheduler against another that the paper prints."""
    lines = table_head(("figure", "", "", "published", "measured", "difference"))
    for (key, one, other), published in BETWEEN.items():
        for workload, value in published.items():
            found = changes(results, key, Task(workload, "M1", one), Task(workload, "M1", other)).values()
            label = (FIGURES[key][0], f"{one} against {other}", workload)
            lines.append(table_row(label, [percent(value), percent_cell(found), difference_cell(found, value)]))
    return [*lines, ""]


def absolute(results: Results) -> list[str]:
    """Return all figures of all schedulers."""
    lines = []
    for workload, mix in CELLS:
        loads = by_seed(results, "offered_load", Task(workload, mix, "PSS")).values()
        lines += [f"### {workload} {mix}", "", f"Offered load of the nodes {cell(loads)}.", ""]
        lines += table_head(("",), [title for title, _ in FIGURES.values()])
        for scheduler in SCHEDULERS:
            task = Task(workload, mix, scheduler)
            cells = [
                cell([value * factor for value in by_seed(results, key, task).values()])
                for key, (_, factor) in FIGURES.items()
            ]
            lines.append(table_row((scheduler,), cells))
        lines.append("")
    return lines


# ---------------------------------------------------------------- claims


def claims(results: Results) -> list[str]:
    """Return the claims of the paper, each with what was measured (means over seeds)."""
    lines = [VERDICTS, "", *CLAIMS_HEAD]
    heavy, one_mix = [place for place in CELLS if place[0] != "W1"], [place for place in CELLS if place[1] == "M1"]
    for key in ("response_s", "rbr"):
        title = COMPARED[key] if key == "response_s" else "RBR"
        for place in heavy:
            lines += chain(results, title, key, place, (("L-R", "L-U1"), ("L-FM",), ("AM",), ("PSS",)))
        for place in CELLS:
            lines += chain(results, title, key, place, (("PSS",), ("AC",)))
        for place in one_mix:
            lines += chain(results, title, key, place, (("L-N", *LOMARC), ("AM", "PSS", "AC")))
            lines += _at_most(results, title, key, " ".join(place), Task(*place, "L-R"))
        lines += _at_most(results, title, key, "W1 M1, gaps", Task("W1", "M1", "L-R", variant="gaps"))
    for place in one_mix:
        lines += chain(results, "RBR", "rbr", place, (("L-R",), ("L-U1",), ("L-U2",)))
        lines += _similar(results, "node_efficiency", place, ("L-U1", "L-U2", "L-R"), 5)
        lines += _similar(results, "node_utilisation", place, tuple(SCHEDULERS), 5)
    return [*lines, *_mixes(results), ""]


def _at_most(results: Results, title: str, key: str, label: str, task: Task) -> list[str]:
    """Return what became of the promise that a figure falls by 40 % or more, nothing where there are no runs."""
    found = list(against_pss(results, key, task).values())
    text = f"{title}: L-R against PSS -40 % or more"
    if not found:
        return []
    shown = shown_by_interval(found, lambda change: change <= -40)
    return [claim(text, label, percent_cell(found), statistics.fmean(found) <= -40, shown)]


def chain(
    results: Results, title: str, key: str, place: tuple[str, str], groups: Sequence[tuple[str, ...]]
) -> list[str]:
    """Return the row that says whether each scheduler of a group is below each of the next; none if one has not run."""
    ratios = {
        name: {seed: 1 + change / 100 for seed, change in against_pss(results, key, Task(*place, name)).items()}
        for group in groups
        for name in group
    }
    seeds = sorted(set.intersection(*(set(values) for values in ratios.values())))
    if not seeds:
        return []
    means = {name: statistics.fmean([values[seed] for seed in seeds]) for name, values in ratios.items()}
    held = sum([_ascends({name: values[seed] for name, values in ratios.items()}, groups) for seed in seeds])
    text = f"{title}: " + " < ".join(", ".join(group) for group in groups)
    measured = " / ".join(", ".join(f"{means[name]:.2f}" for name in group) for group in groups)
    measured += f" of PSS; {held} of {len(seeds)} seeds"
    return [claim(text, " ".join(place), measured, _ascends(means, groups), shown_by_seeds(held, len(seeds)))]


def _ascends(values: Mapping[str, float], groups: Sequence[tuple[str, ...]]) -> bool:
    return all(
        max(values[name] for name in lower) < min(values[name] for name in upper) for lower, upper in pairwise(groups)
    )


def _similar(results: Results, key: str, place: tuple[str, str], names: tuple[str, ...], within: float) -> list[str]:
    """Return the row that says whether a share of the machine is the same for some schedulers, within so many points."""
    found = [by_seed(results, key, Task(*place, name)).values() for name in names]
    if not all(found):
        return []
    means = [100 * statistics.fmean(values) for values in found]
    title, _, _ = FIGURES[key][0].partition(" ")
    who = "all" if len(names) == len(SCHEDULERS) else ", ".join(names)
    text = f"{title}: almost the same for {who} (within {within:g} points)"
    return [claim(text, " ".join(place), f"{min(means):.1f} to {max(means):.1f} %", max(means) - min(means) <= within)]


def _mixes(results: Results) -> list[str]:
    """Return the rows that say how L-N depends on the mix: more to share under M2, less under M3."""
    lines = []
    for key in ("response_s", "rbr"):
        found = [against_pss(results, key, Task("W1", mix, "L-N")).values() for mix in ("M2", "M1", "M3")]
        if all(found):
            means = [statistics.fmean(values) for values in found]
            text = f"{FIGURES[key][0]}: L-N gains more under M2 than M1, less under M3"
            changes_of_seeds = list(zip(*found, strict=True))
            held = sum([values == tuple(sorted(values)) for values in changes_of_seeds])
            measured = f"{', '.join(percent(mean) for mean in means)}; {held} of {len(changes_of_seeds)} seeds"
            shown = shown_by_seeds(held, len(changes_of_seeds))
            lines.append(claim(text, "W1", measured, means == sorted(means), shown))
    return lines


# ---------------------------------------------------------------- forms and experiments


def forms(results: Results) -> list[str]:
    """Return percentages against PSS under each form of the slowdown."""
    texts = [
        f"- **{name}**: {'1 for' if form['remainder'] else 'nothing for'} the time in which neither competes"
        f"{'' if form['remainder'] else ' (as printed; no less than 1)'}; c drawn for"
        f" {'every pair' if form['c_scope'] == 'all' else 'pairs of cpu-bound jobs, 1.4 for all others'}."
        for name, form in FORMS.items()
    ]
    lines = [*texts, "", *table_head(("form", "", "", "seeds"), COSCHEDULERS)]
    for workload in ("W2", "W3"):
        for key in ("response_s", "rbr", "node_efficiency"):
            theirs = AGAINST_PSS[key][workload, "M1"]
            label = FIGURES[key][0].partition(" ")[0]
            lines.append(
                table_row(("published", workload, label, ""), [percent(theirs.get(name)) for name in COSCHEDULERS])
            )
            for form in FORMS:
                found = [
                    against_pss(results, key, Task(workload, "M1", name, form=form)).values() for name in COSCHEDULERS
                ]
                if any(found):
                    seeds = str(max(len(values) for values in found))
                    lines.append(table_row((form, workload, label, seeds), [percent_cell(values) for values in found]))
    return [*lines, ""]


def experiments(results: Results) -> list[str]:
    """Return percentages against PSS in the experiments, beside the base runs of as many seeds and what is published."""
    shown = {key: FIGURES[key][0].partition(" ")[0] for key in COMPARED}
    lines = [f"- **{name}**: {variant.text}." for name, variant in VARIANTS.items()]
    lines += ["", *table_head(("", "", "", "seeds"), [*shown.values(), "makespan of PSS [days]"])]
    for workload in AARR:
        for scheduler in COSCHEDULERS:
            tasks = [Task(workload, "M1", scheduler, variant=name) for name in VARIANTS]
            tasks = [task for task in tasks if against_pss(results, "response_s", task)]
            if not tasks:
                continue
            seeds = max((against_pss(results, "response_s", task) for task in tasks), key=len)
            theirs = [AGAINST_PSS[key].get((workload, "M1"), {}).get(scheduler) for key in shown]
            if any(value is not None for value in theirs):
                lines.append(table_row(("published", workload, scheduler, ""), [*map(percent, theirs), NOTHING]))
            for task in (Task(workload, "M1", scheduler), *tasks):
                found = [against_pss(results, key, task) for key in shown]
                same = [[change for seed, change in changed.items() if seed in seeds] for changed in found]
                days = by_seed(results, "makespan_s", task.space_sharing)
                cells = [*map(percent_cell, same), cell([days[seed] / 86_400 for seed in seeds if seed in days])]
                lines.append(table_row((task.variant, workload, scheduler, str(len(same[0]))), cells))
    return [*lines, ""]
