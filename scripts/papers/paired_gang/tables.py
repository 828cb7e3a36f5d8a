"""The tables of dynamic workloads: all policies over load, ratios, who responds later, and what experiments change."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from scripts.papers.figures import Figures, Where, interval_text, percent_text
from scripts.papers.means import place
from scripts.papers.paired_gang import experiment as ex
from scripts.tables import NOTHING, table_head, table_row

from cosched_emulator.studies.study_result import Row

# By column of the study: heading, and what a value is multiplied by.
COLUMNS: Final[Mapping[str, tuple[str, float]]] = {
    ex.RESPONSE: ("response [s]", 1.0),
    ex.SLOWDOWN_CPU: ("slowdown, CPU time", 1.0),
    ex.SLOWDOWN_DISPATCHED: ("dispatched", 1.0),
    ex.BOUNDED: ("bounded", 1.0),
    "jobs_mean": ("jobs, mean", 1.0),
    "jobs_max": ("largest", 1.0),
    "pair_share": ("quanta with a pair %", 100.0),
    "pairs_of_possible": ("of those with two slots in use %", 100.0),
    "unpaired_new": ("of the others, with a new job %", 100.0),
    "node_pairs": ("node-quanta with two jobs %", 100.0),
    "speed": ("progress while it may run", 1.0),
    "slots_filled": ("nodes filled by the row %", 100.0),
    ex.CPU_USED: ("CPU used %", 100.0),
    "moves": ("moves a quantum", 1.0),
}
STATE: Final[Mapping[str, tuple[str, float]]] = {
    "jobs_third_1": ("jobs, 1st third", 1.0),
    "jobs_third_2": ("2nd", 1.0),
    "jobs_third_3": ("3rd", 1.0),
    "drift_per_h": ("growth of work in the system [node-hours an hour]", 1.0),
    "idle_third_1": ("idle instants, 1st third", 1.0),
    "idle_third_2": ("2nd", 1.0),
    "idle_third_3": ("3rd", 1.0),
    "jobs_at_last": ("left at the last submission", 1.0),
    "drain_h": ("drain [h]", 1.0),
    "run_h": ("run [h]", 1.0),
}
LATER: Final = (1.05, 1.5)  # s above 1.05 x the other response + 1.5 s: the project's 60 s, / 40 as the run times are
CLASSES: Final[Mapping[str, tuple[float, float]]] = {
    "all": (0.0, math.inf),
    "run < 1 s": (0.0, 1.0),
    "1 to 60 s": (1.0, 60.0),
    "over 60 s": (60.0, math.inf),
}
MUCH: Final = "1.5"  # x: much later


def ratio_table(
    figures: Figures,
    program: str,
    policies: Sequence[str],
    variant: str | None = None,
    bases: Sequence[str] = (ex.STRICT, ex.BARE),
) -> list[str]:
    """Return mean responses under strict gang scheduling over those under others, a column for each load."""
    rows = []
    for base in bases:
        for policy in policies:
            cells = [
                figures.ratio(
                    ex.RESPONSE, *(Where(ex.dynamic(program, load), name, variant) for name in (base, policy))
                )
                for load in (*ex.LOADS, *ex.ABOVE)
            ]
            if policy != base and any(cells):
                seeds = "/".join(NOTHING if each is None else str(each.n) for each in cells)
                rows.append(table_row((f"{base} / {policy}", seeds), [interval_text(each) for each in cells]))
    return [*table_head(("", "seeds"), [f"load {load}" for load in (*ex.LOADS, *ex.ABOVE)]), *rows, ""] if rows else []


# ---------------------------------------------------------------- who responds later


def later_table(figures: Figures, cells: Sequence[Where]) -> list[str]:
    """Return the share of jobs that respond later than under strict gang scheduling with the same seed, by length of the job."""
    rows = []
    for where in cells:
        found = [figures.mean(later_column(name), where) for name in (*CLASSES, MUCH)]
        if found[0] is not None:
            cells_of = [interval_text(each, factor=100.0) for each in found]
            rows.append(table_row((where.workload, place(where), str(found[0].n)), cells_of))
    text = (
        f"A job is later if its response is above {LATER[0]:g} x that under {ex.STRICT} + {LATER[1]:g} s. Part of it is"
        " reshuffling, which any change of a schedule causes."
    )
    head = table_head(("", "", "seeds"), [*(f"{name} %" for name in CLASSES), f"all, above {MUCH} x + 1.5 s %"])
    return [text, "", *head, *rows, ""] if rows else []


def later_column(name: str) -> str:
    """Return the column of the share of later jobs of a class."""
    return f"later: {name}"


def derive(figures: Figures) -> None:
    """Add to each run the shares of jobs that respond later than under strict gang scheduling with the same seed.

    They come from the responses of all jobs, which are too many to be stored with a run.
    """
    for where in figures.cells():
        mine, theirs = figures.series(where), figures.series(where._replace(policy=ex.STRICT))
        rows = {row["seed"]: row for row in theirs.rows} if theirs is not None else {}
        for row in mine.rows if mine is not None and where.policy != ex.STRICT else ():
            base = rows.get(row["seed"])
            if base is not None and row.get("responses_s") and base.get("responses_s"):
                row.update(_later_shares(row, base))


def _later_shares(row: Row, base: Row) -> Iterator[tuple[str, float]]:
    jobs = [*zip(row["responses_s"], base["responses_s"], row["runs_s"], strict=True)]
    for name, (least_s, most_s, factor) in {
        **{name: (*bounds, LATER[0]) for name, bounds in CLASSES.items()},
        MUCH: (0.0, math.inf, float(MUCH)),
    }.items():
        later = [mine > factor * other + LATER[1] for mine, other, run in jobs if least_s <= run < most_s]
        if later:
            yield later_column(name), statistics.fmean(later)


# ---------------------------------------------------------------- experiments


def experiment_rows(figures: Figures, name: str, workloads: Sequence[str], policies: Sequence[str]) -> Iterator[str]:
    """Yield what a variant changes in the mean response of each policy, in percent, and the ratio strict / policy with it."""
    for workload in workloads:
        for policy in policies:
            where, base = Where(workload, policy, name), Where(workload, policy)
            change = figures.change(ex.RESPONSE, where, base)
            if change is None:
                continue
            strict = Where(workload, ex.STRICT, name)
            against = figures.ratio(ex.RESPONSE, strict if figures.seeds(strict) else Where(workload, ex.STRICT), where)
            usual = figures.ratio(ex.RESPONSE, Where(workload, ex.STRICT), base)
            cells = [
                percent_text(change),
                *(NOTHING if policy == ex.STRICT else interval_text(each) for each in (usual, against)),
            ]
            yield table_row((name, workload, policy, str(change.n)), cells)
