"""The tables of the RUA reproduction: published beside measured, and relative to FF."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from scripts.papers.frame import by_seed
from scripts.papers.rua.published import PUBLISHED
from scripts.papers.rua.runs import BASE, MIXES, POLICIES, TRACES, VARIANTS, Task
from scripts.tables import CLAIMS_HEAD, NOTHING, VERDICTS, cell, claim, number, shown_by_interval, table_row

Results: TypeAlias = Mapping[Task, Mapping[str, Any]]

TITLES: Final = {
    "killed": "Killed jobs (Table 7)",
    "penalised_p95": "Percent penalised run time, 95th percentile (Table 5)",
    "penalised_mean": "Percent penalised run time, mean",
    "bsld_p95": "Bounded slowdown (10 s), 95th percentile, finished jobs (Table 1)",
    "bsld_all_p95": "Bounded slowdown (10 s), 95th percentile, all jobs that ran",
    "wait_p95": "Wait [s], 95th percentile (Table 3)",
}

SEVERAL: Final = " (published: 3 x on CTC HIGH, 5 x on BLUE HIGH)"
# What the paper itself prints of FF, LC and LCT=1 where it is not the order that its text claims.
NOT_IN_TABLE_6: Final = {
    ("CTC", "high"): " (the paper's table 6: 7.8, 6.81, 6.98)",
    ("CTC", "med"): " (the paper's table 6: 3.8, 2.54, 2.93)",
}
CLOSE: Final = 1.1  # times FF's slowdown, at most, that count as close to it


def report(results: Results, jobs: int) -> list[str]:
    """Return the lines of the page between its markers."""
    seeds = len({task.seed for task in results if task.variant == BASE})
    lines = [
        f"{jobs // 2:,} warm-up and {jobs - jobs // 2:,} measured jobs; {seeds} seed(s) of the demand; measured: mean"
        " ± half width of the 95 % confidence interval over seeds (where there are several).",
        "",
        "## The paper's claims",
        "",
        *claims(results),
        "## Tables",
        "",
    ]
    for key in TITLES:
        lines += figure_table(results, key)
    if any(task.variant != BASE for task in results):
        lines += ["## Experiments", "", *variant_table(results)]
    return lines


def figure_table(results: Results, key: str) -> list[str]:
    """Return published beside measured for one figure, with ratios to FF."""
    lines = [f"### {TITLES[key]}", "", "| | | " + " | ".join(POLICIES) + " |", "|---|---|" + "---:|" * len(POLICIES)]
    for trace in TRACES:
        for mix in MIXES:
            mine = [cell(by_seed(results, key, Task(trace, mix, policy, 1)).values()) for policy in POLICIES]
            means = [mean_of(results, key, Task(trace, mix, policy, 1)) for policy in POLICIES]
            theirs = PUBLISHED.get(key, {}).get((trace, mix))
            label = f"{trace} {mix.upper()}"
            if theirs is not None:
                lines.append(table_row((label, "published"), [number(value) for value in (*theirs, None)]))
            lines.append(table_row((label, "measured"), mine))
            if theirs is not None:
                lines.append("| | published / FF | " + " | ".join(_ratio(v, theirs[0]) for v in (*theirs, None)) + " |")
            lines.append("| | measured / FF | " + " | ".join(_ratio(v, means[0]) for v in means) + " |")
    return [*lines, ""]


def variant_table(results: Results) -> list[str]:
    """Return the variants, a row for each run, beside the base runs of the same seed."""
    keys = ("killed", "penalised_mean", "penalised_p95", "bsld_p95", "wait_p95", "offered_load", "utilisation")
    lines = ["| variant | | policy | " + " | ".join(keys) + " |", "|---|---|---|" + "---:|" * len(keys)]
    shown = {(t.trace, t.mix, t.policy) for t in results if t.variant != BASE}
    for name in VARIANTS:
        for task, result in results.items():
            if task.variant != name or task.seed != 1 or (task.trace, task.mix, task.policy) not in shown:
                continue
            cells = [number(float(result[key])) for key in keys]
            lines.append(table_row((name, f"{task.trace} {task.mix.upper()}", task.policy), cells))
    legend = [f"- **{name}**: {variant.text}." for name, variant in VARIANTS.items()]
    return [*legend, "", *lines, ""]


def mean_of(results: Results, key: str, task: Task) -> float | None:
    """Return the mean of a figure over seeds; None where the task has not run."""
    values = by_seed(results, key, task)
    return statistics.fmean(values.values()) if values else None


def _ratio(value: float | None, base: float | None) -> str:
    return NOTHING if value is None or not base else f"{value / base:.2f}"


def claims(results: Results) -> list[str]:
    """Return the claims of the paper, each with what was measured (means over seeds)."""
    lines = [VERDICTS, "", *CLAIMS_HEAD]
    for trace in TRACES:
        for mix in MIXES:
            killed, mean, p95, bsld = (
                {policy: mean_of(results, key, Task(trace, mix, policy, 1)) for policy in POLICIES}
                for key in ("killed", "penalised_mean", "penalised_p95", "bsld_p95")
            )
            if None in (*killed.values(), *bsld.values()):
                continue
            label = f"{trace} {mix.upper()}"
            k = {policy: float(value or 0) for policy, value in killed.items()}
            if mix == "med":
                lines.append(_kills_twice(results, trace, mix, "LC", "killed: FF at least 2 x LC"))
            fewest = min(k, key=lambda policy: k[policy])
            lines.append(claim("killed: LCT=1 fewest", label, f"{fewest} {k[fewest]:.0f}", fewest == "LCT=1"))
            for name, values in (("mean", mean), ("95th percentile", p95)):
                ff, lc, one = (float(values[policy] or 0) for policy in ("FF", "LC", "LCT=1"))
                text = f"{ff:.2f}, {lc:.2f}, {one:.2f}"
                # Above by more than rounding: where both are the largest penalty that there is, neither is less.
                holds = round(ff, 2) > round(lc, 2) > round(one, 2)
                other = NOT_IN_TABLE_6.get((trace, mix), "") if name == "mean" else ""
                lines.append(claim(f"penalised, {name}: FF > LC > LCT=1{other}", label, text, holds))
            lines.append(_kills_twice(results, trace, mix, "RUA", f"killed: FF at least 2 x RUA{SEVERAL}"))
            ratios = _ratios(results, "bsld_p95", trace, mix, "RUA", "FF")
            ratio = float(bsld["RUA"] or 0) / float(bsld["FF"] or 1)
            text = "bounded slowdown p95: RUA close to FF (within 10 %, or better)"
            shown = shown_by_interval(ratios, lambda value: value <= CLOSE)
            lines.append(claim(text, label, f"{ratio:.2f} x", ratio <= CLOSE, shown))
    return [*lines, ""]


def _kills_twice(results: Results, trace: str, mix: str, policy: str, text: str) -> str:
    """Return the row that says whether FF kills at least twice as many jobs as ``policy``."""
    base, theirs = (mean_of(results, "killed", Task(trace, mix, name, 1)) or 0.0 for name in ("FF", policy))
    ratios = _ratios(results, "killed", trace, mix, "FF", policy)
    shown = shown_by_interval(ratios, lambda ratio: ratio >= 2)
    times = f"{base / theirs:.2f} x" if theirs else NOTHING
    return claim(text, f"{trace} {mix.upper()}", times, base >= 2 * theirs, shown)


def _ratios(results: Results, key: str, trace: str, mix: str, above: str, below: str) -> list[float]:
    """Return one policy's figure over another one's, of each seed that both have and where the latter is not 0."""
    mine, theirs = (by_seed(results, key, Task(trace, mix, policy, 1)) for policy in (above, below))
    return [mine[seed] / theirs[seed] for seed in mine if theirs.get(seed)] or [math.inf]
