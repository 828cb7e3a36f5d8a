"""The tables of the LOMARC reproduction: published beside measured. Percentages are paired by seed, which means by jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scripts.papers import pages
from scripts.papers import rows as r
from scripts.papers.claims import VERDICTS, claims_table
from scripts.papers.figures import Figures, Where
from scripts.papers.harm import harm
from scripts.papers.lomarc import experiment as ex
from scripts.papers.lomarc.claims import claims, settled
from scripts.papers.lomarc.funnel import funnel_table, pairs_table, shares_table
from scripts.papers.lomarc.published import AGAINST_PSS, EFFICIENCY, MAKESPAN, RBR, RESPONSE
from scripts.papers.saturation import saturation
from scripts.papers.study import BASE, Size
from scripts.tables import NOTHING, number, percent

from cosched_emulator.statistics.intervals import change_of

SHOWN: Final[pages.Columns] = {
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
_WITH_LOAD: Final = [*SHORT.values(), "offered load"]


def _comparison(key: str) -> pages.Section:
    """Return percentages against PSS, published beside measured."""
    rows: list[pages.Row] = []
    for work in ex.WORKLOADS:
        theirs = AGAINST_PSS[key].get(work, {})
        if theirs:
            rows.append(((work, "published"), [percent(theirs.get(name)) for name in ex.COSCHEDULERS]))
        mine = [r.change(key, Where(work, name), Where(work, "PSS")) for name in ex.COSCHEDULERS]
        rows.append(((work, "measured"), mine))
    return pages.table(("", ""), ex.COSCHEDULERS, rows)


def _beliefs() -> pages.Section:
    """Return what L-R gains at W2 where it knows less, and how its pairs truly get on."""
    work = "W2 M1"
    places = {name: Where(work, "L-R", belief=None if name == ex.EXACT else name) for name in ex.BELIEFS}
    keys = (RESPONSE, RBR, EFFICIENCY)
    rows = []
    for name, (text, values) in ex.BELIEFS.items():
        setting = ", ".join(f"`{key} = {value!r}`".replace("'", '"') for key, value in values.items())
        rows.append(((text, setting), [r.change(key, places[name], Where(work, "PSS")) for key in keys]))
    text = f"Changes of L-R at {work} against PSS, in percent. All rows have the same hardware."
    pairs = {name: Where(name, "L-R") for name in ex.M1} | places | {"whole, W2 M1": Where(work, "L-R", "whole")}
    del pairs[ex.EXACT]
    return pages.joined(
        pages.table(("the scheduler knows", "`[belief]`"), [SHORT[key] for key in keys], rows, text),
        pairs_table(pairs, "True slowdowns of the pairs; means over seeds:"),
    )


def _row(label: str, where: Where) -> pages.Row:
    """Return a row of percentages against PSS."""
    base = ex.space_sharing(where)
    cells = [r.change(key, where, base) for key in COMPARED]
    return (label, where.workload, where.policy), [*cells, pages.aside(r.mean("offered_load", base))]


def _varied(
    names: Sequence[str], usual: str, works: Sequence[str], policies: Sequence[str], labels: str
) -> pages.Section:
    """Return percentages against PSS under some variants, beside the usual runs and what is published."""
    groups: list[pages.Row | pages.Headed] = []
    for work in works:
        for policy in policies:
            theirs = [AGAINST_PSS[key].get(work, {}).get(policy) for key in COMPARED]
            known = usual == BASE and any(value is not None for value in theirs)
            told: list[pages.Row] = [(("published", work, policy), [*map(percent, theirs), NOTHING])] if known else []
            rows = [_row(name, Where(work, policy, name)) for name in names]
            groups.append(pages.Headed([*told, _row(usual, Where(work, policy))], rows))
    return pages.table((labels, "", ""), _WITH_LOAD, groups)


def _against_usual(where: Where) -> pages.Row:
    """Return the row of an experiment: changes, and how long short jobs wait in it relative to long ones."""
    usual = where._replace(variant=None)

    def waits(figures: Figures) -> str:
        columns = [[figures.values(f"wait_s_of_{name}", at) for name in ("short", "long")] for at in (usual, where)]
        found = [change_of(short, long) for short, long in columns]
        return " -> ".join(number(1 + each.mean / 100) for each in found if each is not None)

    cells = [r.change(key, where, usual) for key in COMPARED]
    return (where.variant or "", where.workload, where.policy), [*cells, waits]


def _experiments() -> pages.Section:
    """Return percentages against PSS in the experiments, those with the arrivals of the usual runs against these, too."""
    names = [name for name in (*ex.VARIANTS, *ex.FORMS) if name not in ex.ORDERS and "length" not in name]
    same = [Where(work, policy, name) for name in (*ex.ORDERS, *names) for work in ex.M1 for policy in ex.SCHEDULERS]
    texts = {name: variant.text for name, variant in ex.VARIANTS.items()}
    told = "Change of each experiment against the base runs of the same scheduler and jobs, in percent:"
    return pages.joined(
        pages.table(
            ("", "", ""),
            [*SHORT.values(), "wait short / long"],
            map(_against_usual, same),
            [*pages.texts_of(texts), "", told, ""],
        ),
        pages.lines("Changes against PSS with the same jobs in the same order, in percent:", ""),
        _varied([*ex.VARIANTS], BASE, ex.M1, ("AC", *ex.LOMARC), ""),
    )


_PRINTED = "nothing for the time in which neither competes (as printed; no less than 1); c drawn for every pair"
_OF_FORMS = pages.texts_of({ex.FORM: _PRINTED, **{name: text for name, (text, _) in ex.FORMS.items()}})


def _absolute(work: str) -> pages.Section:
    """Return all figures of all schedulers."""
    rows = [((name,), pages.means(SHOWN, Where(work, name))) for name in ex.SCHEDULERS]
    load = pages.aside(r.mean("offered_load", Where(work, "PSS")))
    return pages.joined(
        lambda figures: [f"Offered load of the nodes {load(figures)}.", ""],
        pages.table(("",), pages.heads(SHOWN), rows),
    )


def _head(figures: Figures, size: Size) -> list[str]:
    counts = ", ".join(f"{work} {figures.seeds(Where(work, 'L-R'))}" for work in ex.WORKLOADS)
    return [
        f"{size.jobs:,} jobs on 128 nodes. A seed draws arrivals, sizes, run times, characteristics and which pairs are compatible;"
        " percentages compare two schedulers under the same jobs, seed by seed.",
        "",
        f"Seeds of the base runs (L-R): {counts}. Each table says how many its rows have.",
    ]


PARTS: Final = {
    "The paper's claims": pages.claims_of(claims, text=f"{VERDICTS} Form of the slowdown: `{ex.FORM}`."),
    "What no run decides": lambda _: claims_table(settled()),
    "Saturation": saturation([Where(work, name) for work in ex.WORKLOADS for name in ("PSS", "L-N", "L-R")]),
    "Percent against PSS": pages.sections({title: _comparison(key) for key, title in COMPARED.items()}, 3),
    "Who is worse off": harm(
        "PSS", [Where(work, name) for work in ex.M1 for name in ex.COSCHEDULERS], [Where(work, "L-R") for work in ex.M1]
    ),
    "With less knowledge": _beliefs(),
    "Experiments": _experiments(),
    "Forms of the slowdown": pages.joined(
        pages.lines(*_OF_FORMS, ""), _varied([*ex.FORMS], ex.FORM, ("W2 M1", "W3 M1"), ex.COSCHEDULERS, "form")
    ),
    "Table 5": pages.joined(funnel_table(), pages.sections({"What passes each constraint": shares_table}, 3)),
    "Figures 6 to 9 as tables": pages.sections({work: _absolute(work) for work in ex.WORKLOADS}, 3),
}
report = pages.page(_head, PARTS)
