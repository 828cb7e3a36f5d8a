"""The tables of dynamic workloads: all policies over load, ratios, who responds later, and what experiments change."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from scripts.papers.figures import Figures, Where, interval_text, percent_text
from scripts.papers.means import place
from scripts.papers.paired_gang.curves import row_of
from scripts.papers.paired_gang.names import (
    ABOVE,
    BARE,
    BOUNDED,
    CPU_USED,
    LOADS,
    RESPONSE,
    SLOWDOWN_CPU,
    SLOWDOWN_DISPATCHED,
    STRICT,
    dynamic,
)
from scripts.tables import NOTHING, table_head, table_row

from cosched_emulator.statistics.intervals import Interval, mean_interval

# By column of the study: heading, and what a value is multiplied by.
COLUMNS: Final[Mapping[str, tuple[str, float]]] = {
    RESPONSE: ("response [s]", 1.0),
    SLOWDOWN_CPU: ("slowdown, CPU time", 1.0),
    SLOWDOWN_DISPATCHED: ("dispatched", 1.0),
    BOUNDED: ("bounded", 1.0),
    "jobs_mean": ("jobs, mean", 1.0),
    "jobs_max": ("largest", 1.0),
    "pair_share": ("quanta with a pair %", 100.0),
    "pairs_of_possible": ("of those with two slots in use %", 100.0),
    "unpaired_new": ("of the others, with a new job %", 100.0),
    "node_pairs": ("node-quanta with two jobs %", 100.0),
    "speed": ("progress while it may run", 1.0),
    "slots_filled": ("nodes filled by the row %", 100.0),
    CPU_USED: ("CPU used %", 100.0),
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


def ratio_table(
    figures: Figures,
    program: str,
    policies: Sequence[str],
    variant: str | None = None,
    bases: Sequence[str] = (STRICT, BARE),
) -> list[str]:
    """Return mean responses under strict gang scheduling over those under others, a column for each load."""
    rows = []
    for base in bases:
        for policy in policies:
            cells = [
                figures.ratio(RESPONSE, *(Where(dynamic(program, load), name, variant) for name in (base, policy)))
                for load in (*LOADS, *ABOVE)
            ]
            if policy != base and any(cells):
                seeds = "/".join(NOTHING if each is None else str(each.n) for each in cells)
                rows.append(table_row((f"{base} / {policy}", seeds), [interval_text(each) for each in cells]))
    return [*table_head(("", "seeds"), [f"load {load}" for load in (*LOADS, *ABOVE)]), *rows, ""] if rows else []


# ---------------------------------------------------------------- who responds later


def later_table(figures: Figures, cells: Sequence[Where], base: str = STRICT) -> list[str]:
    """Return the share of jobs that respond later than under ``base`` with the same seed, by length of the job."""
    rows = []
    for where in cells:
        found = [
            later_share(figures, where, Where(where.workload, base, where.variant), *of) for of in CLASSES.values()
        ]
        if found[0] is not None:
            cells_of = [interval_text(each, factor=100.0) for each in found]
            much = later_share(figures, where, Where(where.workload, base, where.variant), factor=1.5)
            rows.append(
                table_row(
                    (where.workload, place(where), str(found[0].n)), [*cells_of, interval_text(much, factor=100.0)]
                )
            )
    text = (
        f"A job is later if its response is above {LATER[0]:g} x that under {base} + {LATER[1]:g} s. Part of it is"
        " reshuffling, which any change of a schedule causes."
    )
    head = table_head(("", "", "seeds"), [*(f"{name} %" for name in CLASSES), "all, above 1.5 x + 1.5 s %"])
    return [text, "", *head, *rows, ""] if rows else []


def later_share(
    figures: Figures,
    where: Where,
    base: Where,
    least_s: float = 0.0,
    most_s: float = math.inf,
    factor: float = LATER[0],
) -> Interval | None:
    """Return the mean over seeds of the share of jobs of some lengths that respond later than under ``base``."""
    found = []
    for seed in sorted(figures.values(RESPONSE, where).keys() & figures.values(RESPONSE, base).keys()):
        mine, theirs = row_of(figures, where, seed), row_of(figures, base, seed)
        if mine is not None and theirs is not None and mine.get("responses_s") and theirs.get("responses_s"):
            jobs = zip(mine["responses_s"], theirs["responses_s"], mine["runs_s"], strict=True)
            later = [one > factor * other + LATER[1] for one, other, run in jobs if least_s <= run < most_s]
            if later:
                found.append(statistics.fmean(later))
    return mean_interval(found) if found else None


# ---------------------------------------------------------------- experiments


def experiment_rows(figures: Figures, name: str, workloads: Sequence[str], policies: Sequence[str]) -> Iterator[str]:
    """Yield what a variant changes in the mean response of each policy, in percent, and the ratio strict / policy with it."""
    for workload in workloads:
        for policy in policies:
            where, base = Where(workload, policy, name), Where(workload, policy)
            change = figures.change(RESPONSE, where, base)
            if change is None:
                continue
            strict = Where(workload, STRICT, name)
            against = figures.ratio(RESPONSE, strict if figures.seeds(strict) else Where(workload, STRICT), where)
            usual = figures.ratio(RESPONSE, Where(workload, STRICT), base)
            cells = [
                percent_text(change),
                *(NOTHING if policy == STRICT else interval_text(each) for each in (usual, against)),
            ]
            yield table_row((name, workload, policy, str(change.n)), cells)
