"""Reproduce the Resource-Usage-Aware backfilling paper (SPEC: its tables 1 to 7, figures 8 and 9); see docs/reproducing.md.

Every run's figures are kept as one JSON file, so that an interrupted reproduction goes on where it stopped.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from scripts.papers.frame import NOTHING, ROOT, by_seed, cell, claim, load, number, run_all, write_tables

from cosched_emulator.couplings.in_process import DirectLink
from cosched_emulator.run.prepare import prepare
from cosched_emulator.run.run import run
from cosched_emulator.scenario.reader import read_scenario
from cosched_plugin.config import choose

TRACES = {
    "CTC": ("CTC-SP2-1996-3.1-cln.swf.gz", 338),
    "BLUE": ("SDSC-BLUE-2000-4.2-cln.swf.gz", 1152),
}
MIXES = ("high", "med", "low")
POLICIES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "FF": ("sjbf", ()),
    "LC": ("lc", ()),
    "LCT=1": ("lct", ("placement.threshold=1.0",)),
    "LCT=1.15": ("lct", ("placement.threshold=1.15",)),
    "LCT=1.25": ("lct", ("placement.threshold=1.25",)),
    "LCT=1.5": ("lct", ("placement.threshold=1.5",)),
    "RUA": ("rua", ()),
}
# Published tables, in the order of POLICIES without RUA, which the paper shows in figures only. None: lost or not printed.
PUBLISHED: Mapping[str, Mapping[tuple[str, str], tuple[float | None, ...]]] = {
    "killed": {
        ("CTC", "high"): (428, None, 70, 70, 87, 97),
        ("CTC", "med"): (247, 101, 76, 77, 102, 99),
        ("CTC", "low"): (64, 45, 36, 38, 58, 52),
        ("BLUE", "high"): (None, None, None, 130, 127, 130),
        ("BLUE", "med"): (255, 89, 76, 79, 103, 145),
        ("BLUE", "low"): (51, 34, 22, 27, 33, 41),
    },
    "penalised_p95": {
        ("CTC", "high"): (8.8, 8.01, 7.69, 7.87, 7.91, 8.1),
        ("CTC", "med"): (4.8, 3.81, 3.01, 3.52, 4.06, 3.90),
        ("CTC", "low"): (0.92, 0.78, 0.51, 0.72, 0.62, 0.80),
        ("BLUE", "high"): (11.8, 11.33, 8.31, 10.37, 11.58, 11.64),
        ("BLUE", "med"): (6.7, 6.01, 4.70, 4.85, 5.64, 5.96),
        ("BLUE", "low"): (1.4, 1.03, 0.75, 0.81, 0.94, 1.19),
    },
    "bsld_p95": {
        ("CTC", "high"): (4.2, 5.94, 7.92, 6.12, 5.32, 5.23),
        ("CTC", "med"): (2.8, 3.55, 4.22, 3.82, 3.65, 3.52),
        ("CTC", "low"): (2.2, 3.12, 3.62, 3.82, 3.45, 3.52),
        ("BLUE", "high"): (99.3, 110.21, 128.08, 115.28, 109.51, 106.23),
        ("BLUE", "med"): (55.4, 68.06, 74.32, 72.83, 71.37, 68.52),
        ("BLUE", "low"): (37.8, 45.37, 57.27, 52.86, 42.28, 42.28),
    },
    "wait_p95": {
        ("CTC", "high"): (10286, 12588, 17945, 15612, 14555, 10188),
        ("CTC", "med"): (8962, 9565, 13391, 13123, 9186, 9094),
        ("CTC", "low"): (4898, 5034, 6544, 7198, 5235, 5759),
        ("BLUE", "high"): (55667, 63293, 70964, 69632, 59978, 41779),
        ("BLUE", "med"): (44346, 45164, 58713, 59300, 47440, 45616),
        ("BLUE", "low"): (32730, 35092, 38265, 37499, 33374, 33785),
    },
}
TITLES = {
    "killed": "Killed jobs (Table 7)",
    "penalised_p95": "Percent penalised run time, 95th percentile (Table 5)",
    "penalised_mean": "Percent penalised run time, mean",
    "bsld_p95": "Bounded slowdown (10 s), 95th percentile, finished jobs (Table 1)",
    "bsld_all_p95": "Bounded slowdown (10 s), 95th percentile, all jobs that ran",
    "wait_p95": "Wait [s], 95th percentile (Table 3)",
}


class Task(NamedTuple):
    """One simulation."""

    trace: str
    mix: str
    policy: str
    seed: int
    variant: str = "base"

    @property
    def series(self) -> str:
        """Everything but the seed, as a part of a file's name."""
        return f"{self.variant}-{self.trace}-{self.mix}-{self.policy}"


class Variant(NamedTuple):
    """What a variant changes: scenario sections, and settings of FF and of the others."""

    text: str
    scenario: Mapping[str, Mapping[str, Any]]
    first_fit: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


# In the order in which they are run.
VARIANTS: Mapping[str, Variant] = {
    "base": Variant("as published, where the paper says", {}),
    "1677": Variant("high demand 1,677 MB/s a process instead of 2,000", {"workload": {"demand_high": [1677, 0, 0]}}),
    "430": Variant("CTC on 430 processors, as in the log's older editions", {"cluster": {"processors": 430}}),
    "limits": Variant(
        "the other setting of `extend_limit`: FF extends, LC, LCT and RUA do not",
        {},
        ("placement.extend_limit=true",),
        ("placement.extend_limit=false",),
    ),
    "paper": Variant("composition `paper`: every node progresses by itself", {"truth": {"composition": "paper"}}),
    "uncapped": Variant("run times as logged, above the estimate too", {"workload": {"cap_runs": False}}),
    "window": Variant("jobs 30,000 to 50,000 of the log", {"workload": {"first": 30_000}}),
}


def tasks_of(seeds: int, variants: bool) -> list[Task]:
    """Return all runs, the most wanted first."""
    tasks = [Task(t, m, p, 1) for m in ("med", "high", "low") for t in TRACES for p in POLICIES]
    main = ("FF", "LC", "RUA")
    more = range(2, seeds + 1)
    repeats = [Task(t, m, p, seed) for seed in more for m in ("med", "low") for t in TRACES for p in main]
    half = len(TRACES) * 2 * len(main)  # the second seed's
    tasks += repeats[:half]
    if variants:
        for name in VARIANTS:
            if name == "base":
                continue
            traces = ("CTC",) if name == "430" else tuple(TRACES)
            tasks += [Task(t, "med", p, 1, name) for t in traces for p in main]
        tasks += [Task(t, "med", "LCT=1", 1, "1677") for t in TRACES]
        tasks += [Task(t, "high", p, 1, "1677") for t in TRACES for p in main]
        tasks += [Task("CTC", "high", p, 1, "430") for p in main]
    rest = [Task(t, m, p, seed) for seed in more for m in ("med", "low", "high") for t in TRACES for p in POLICIES]
    tasks += repeats[half:]
    return tasks + [task for task in rest if task not in tasks]


def scenario_of(task: Task, folder: str, warmup: int, measured: int) -> dict[str, Any]:
    """Return the scenario of a task, with logs from ``folder``. Its seed draws the demand."""
    file, processors = TRACES[task.trace]
    table: dict[str, Any] = {
        "seed": task.seed,
        "cluster": {"processors": processors, "preset": "rua-4way"},
        "workload": {"swf": str(Path(folder) / file), "jobs": warmup + measured, "mix": task.mix},
        "results": {"warmup": warmup},
    }
    for section, values in VARIANTS[task.variant].scenario.items():
        table[section] = {**table.get(section, {}), **values}
    return table


def simulate(task: Task, folder: str, warmup: int, measured: int) -> dict[str, Any]:
    """Run one task in this process and return its figures."""
    table = scenario_of(task, folder, warmup, measured)
    variant = VARIANTS[task.variant]
    name, settings = POLICIES[task.policy]
    choice = choose(name, (*settings, *(variant.first_fit if task.policy == "FF" else variant.others)))
    began = time.perf_counter()
    finished = run(prepare(read_scenario(None, table)), DirectLink(choice.scheduler))
    summary = finished.summary
    done, ran = summary["finished"], summary["all"]
    return {
        **task._asdict(),
        "killed": summary["killed"]["count"],
        "penalised_p95": done["penalised_percent"]["p95"],
        "penalised_mean": done["penalised_percent"]["mean"],
        "bsld_p95": done["bounded_slowdown_10s"]["p95"],
        "bsld_mean": done["bounded_slowdown_10s"]["mean"],
        "bsld_all_p95": ran["bounded_slowdown_10s"]["p95"],
        "wait_p95": done["wait_s"]["p95"],
        "wait_mean": done["wait_s"]["mean"],
        "utilisation": summary["machine"]["utilisation"],
        "offered_load": summary["machine"]["offered_load"],
        "seconds": round(time.perf_counter() - began, 1),
    }


def tell(task: Task, result: Mapping[str, Any]) -> str:
    """Return what to say of a run that has ended."""
    return (
        f"{task.variant} {task.trace} {task.mix} {task.policy} seed {task.seed}:"
        f" killed {result['killed']}, {result['seconds']:.0f} s"
    )


def figure_table(results: Mapping[Task, Mapping[str, Any]], key: str) -> list[str]:
    """Return published beside measured for one figure, with ratios to FF."""
    lines = [f"### {TITLES[key]}", "", "| | | " + " | ".join(POLICIES) + " |", "|---|---|" + "---:|" * len(POLICIES)]
    for trace in TRACES:
        for mix in MIXES:
            mine = [cell(by_seed(results, key, Task(trace, mix, policy, 1)).values()) for policy in POLICIES]
            means = [_mean(results, key, Task(trace, mix, policy, 1)) for policy in POLICIES]
            theirs = PUBLISHED.get(key, {}).get((trace, mix))
            label = f"{trace} {mix.upper()}"
            if theirs is not None:
                lines.append(f"| {label} | published | " + " | ".join(number(v) for v in (*theirs, None)) + " |")
            lines.append(f"| {label} | measured | " + " | ".join(mine) + " |")
            if theirs is not None:
                lines.append("| | published / FF | " + " | ".join(_ratio(v, theirs[0]) for v in (*theirs, None)) + " |")
            lines.append("| | measured / FF | " + " | ".join(_ratio(v, means[0]) for v in means) + " |")
    return [*lines, ""]


def variant_table(results: Mapping[Task, Mapping[str, Any]]) -> list[str]:
    """Return the variants, a row for each run, beside the base runs of the same seed."""
    keys = ("killed", "penalised_mean", "penalised_p95", "bsld_p95", "wait_p95", "offered_load", "utilisation")
    lines = ["| variant | | policy | " + " | ".join(keys) + " |", "|---|---|---|" + "---:|" * len(keys)]
    shown = {(t.trace, t.mix, t.policy) for t in results if t.variant != "base"}
    for name in VARIANTS:
        for task, result in results.items():
            if task.variant != name or task.seed != 1 or (task.trace, task.mix, task.policy) not in shown:
                continue
            cells = " | ".join(number(float(result[key])) for key in keys)
            lines.append(f"| {name} | {task.trace} {task.mix.upper()} | {task.policy} | {cells} |")
    legend = [f"- **{name}**: {variant.text}." for name, variant in VARIANTS.items()]
    return [*legend, "", *lines, ""]


def _mean(results: Mapping[Task, Mapping[str, Any]], key: str, task: Task) -> float | None:
    values = by_seed(results, key, task)
    return statistics.fmean(values.values()) if values else None


def _ratio(value: float | None, base: float | None) -> str:
    return NOTHING if value is None or not base else f"{value / base:.2f}"


def orderings(results: Mapping[Task, Mapping[str, Any]]) -> list[str]:
    """Return the claims of the paper, each with what was measured (means over seeds)."""
    lines = ["| claim | | measured | holds |", "|---|---|---|---|"]
    for trace in TRACES:
        for mix in MIXES:
            killed, mean, p95, bsld = (
                {policy: _mean(results, key, Task(trace, mix, policy, 1)) for policy in POLICIES}
                for key in ("killed", "penalised_mean", "penalised_p95", "bsld_p95")
            )
            if None in (*killed.values(), *bsld.values()):
                continue
            label = f"{trace} {mix.upper()}"
            k = {policy: float(value or 0) for policy, value in killed.items()}
            if mix == "med":
                times = f"{k['FF'] / k['LC']:.2f} x"
                lines.append(claim("killed: FF at least 2 x LC", label, times, k["FF"] >= 2 * k["LC"]))
            fewest = min(k, key=lambda policy: k[policy])
            lines.append(claim("killed: LCT=1 fewest", label, f"{fewest} {k[fewest]:.0f}", fewest == "LCT=1"))
            for name, values in (("mean", mean), ("95th percentile", p95)):
                ff, lc, one = (float(values[policy] or 0) for policy in ("FF", "LC", "LCT=1"))
                text = f"{ff:.2f}, {lc:.2f}, {one:.2f}"
                # Above by more than rounding: where both are the largest penalty that there is, neither is less.
                holds = round(ff, 2) > round(lc, 2) > round(one, 2)
                lines.append(claim(f"penalised, {name}: FF > LC > LCT=1", label, text, holds))
            times = f"{k['FF'] / k['RUA']:.2f} x"
            lines.append(claim("killed: RUA several times fewer than FF", label, times, k["FF"] >= 2 * k["RUA"]))
            ratio = float(bsld["RUA"] or 0) / float(bsld["FF"] or 1)
            text = "bounded slowdown p95: RUA close to FF (within 10 %, or better)"
            lines.append(claim(text, label, f"{ratio:.2f} x", ratio <= 1.1))
    return [*lines, ""]


def report(results: Mapping[Task, Mapping[str, Any]], page: Path, header: str) -> None:
    """Write the tables between the markers of ``page``; what stands outside them is left alone."""
    body = [header, "", "## The paper's claims", "", *orderings(results), "## Tables", ""]
    for key in TITLES:
        body += figure_table(results, key)
    if any(task.variant != "base" for task in results):
        body += ["## Experiments", "", *variant_table(results)]
    write_tables(page, "rua", "Resource-Usage-Aware backfilling", body)


def picture(results: Mapping[Task, Mapping[str, Any]], file: Path) -> None:
    """Draw killed jobs, penalised time and slowdown of FF, LC, LCT=1 and RUA, relative to FF, published beside measured."""
    import matplotlib as mpl  # noqa: PLC0415 - --report-only of tables alone should not need it
    import matplotlib.pyplot as plt  # noqa: PLC0415

    mpl.use("Agg")

    shown = ("FF", "LC", "LCT=1", "RUA")
    keys = {"killed": "killed jobs", "penalised_mean": "penalised run time, mean", "bsld_p95": "bounded slowdown, p95"}
    figure, axes = plt.subplots(len(TRACES), len(keys), figsize=(10, 5.2), layout="constrained", sharey="col")
    for row, trace in enumerate(TRACES):
        for column, (key, label) in enumerate(keys.items()):
            axis = axes[row][column]
            for offset, mix in enumerate(MIXES):
                base = _mean(results, key, Task(trace, mix, "FF", 1))
                heights = [
                    (_mean(results, key, Task(trace, mix, policy, 1)) or 0) / base if base else 0 for policy in shown
                ]
                places = [place + (offset - 1) * 0.27 for place in range(len(shown))]
                axis.bar(places, heights, 0.25, label=mix.upper(), color=("#0b4f6c", "#3e92cc", "#a9d6e5")[offset])
                table = PUBLISHED.get(key if key != "penalised_mean" else "penalised_p95", {}).get((trace, mix))
                if table and table[0]:
                    marks = [
                        (place, value / table[0]) for place, value in zip(places, table[:3], strict=False) if value
                    ]
                    axis.plot(
                        *zip(*marks, strict=True),
                        "D",
                        color="#d1495b",
                        markersize=4,
                        label="published" if not offset else None,
                    )
            axis.axhline(1, color="#888888", linewidth=0.6)
            axis.set_xticks(range(len(shown)), shown)
            axis.set_title(f"{trace}: {label}", fontsize=9)
            axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("relative to FF")
    axes[1][0].set_ylabel("relative to FF")
    axes[0][0].legend(fontsize=7, frameon=False)
    figure.savefig(file, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(prog="reproduce rua", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument(
        "--quick", action="store_true", help="1,000 + 1,000 jobs, one seed, no experiments: a look, no result"
    )
    parser.add_argument("--seeds", type=int, default=3, help="draws of the demand (default 3)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="runs at a time (default: cores)")
    parser.add_argument(
        "--traces", default=os.environ.get("COSCHED_SHARED", str(ROOT.parent / "shared")) + "/workloads"
    )
    parser.add_argument(
        "--store", type=Path, help="where each run's figures are kept (default out/reproduce/rua[-quick])"
    )
    parser.add_argument("--report-only", action="store_true", help="run nothing; write the page from what is stored")
    options = parser.parse_args()
    for file, _ in TRACES.values():
        if not options.report_only and not (Path(options.traces) / file).exists():
            sys.exit(
                f"reproduce: {options.traces} has no {file}; it is in the Parallel Workloads Archive; give --traces DIR"
            )
    warmup, measured, seeds = (1000, 1000, 1) if options.quick else (10_000, 10_000, options.seeds)
    store = options.store or ROOT / "out" / "reproduce" / ("rua-quick" if options.quick else "rua")
    tasks = tasks_of(seeds, variants=not options.quick)
    if not options.report_only:
        simulation = partial(simulate, folder=options.traces, warmup=warmup, measured=measured)
        run_all(tasks, store, options.workers, simulation, tell)
    results = load(store, tasks)
    done = len({task.seed for task in results if task.variant == "base"})
    header = (
        f"{warmup:,} warm-up and {measured:,} measured jobs; {done} seed(s) of the demand; measured: mean"
        " ± half width of the 95 % confidence interval over seeds (where there are several)."
    )
    folder = store if options.quick else ROOT / "docs" / "results"
    page = folder / "rua.md"
    report(results, page, header)
    picture(results, folder / "rua.png")
    print(f"{len(results)} runs; tables in {page}, picture in {folder / 'rua.png'}")


if __name__ == "__main__":
    main()
