"""The page of the paired gang reproduction: every claim with its verdict, and the tables behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from scripts.papers.claims import VERDICTS, claims_table
from scripts.papers.figures import Figures, Where, interval_text, sections
from scripts.papers.means import means_table
from scripts.papers.paired_gang.claims.dynamic import dynamic_claims
from scripts.papers.paired_gang.claims.phases import phase_claims
from scripts.papers.paired_gang.claims.settled import settled_claims
from scripts.papers.paired_gang.claims.static import gain, kinds_of, static_claims
from scripts.papers.paired_gang.experiment import PHASE_LOAD, POLICIES
from scripts.papers.paired_gang.names import (
    ABOVE,
    BARE,
    BASE,
    BATCH,
    BEST,
    BLIND,
    COMPUTE,
    GRAINS,
    HETEROGENEOUS,
    HOMOGENEOUS,
    KINDS,
    LOADS,
    MIXES,
    NODE,
    PAIRED,
    QCRD,
    QCRD_EVEN,
    RESPONSE,
    RUNS_S,
    SIZES,
    SLOTS,
    STRICT,
    copies,
    dynamic,
    few_jobs,
    mix,
    rate,
)
from scripts.papers.paired_gang.tables import (
    COLUMNS,
    STATE,
    experiment_rows,
    later_table,
    ratio_table,
)
from scripts.papers.paired_gang.variants import (
    EXACT,
    FINE_PAIRS,
    LOCALS,
    OF_LOADS,
    OF_MIXES,
    OF_PHASES,
    RR_DYNAMIC,
    VARIANTS,
)
from scripts.papers.saturation import Queue, saturation_table
from scripts.papers.study import Size
from scripts.tables import NOTHING, table_head, table_row

RIVALS: Final = (STRICT, BARE, PAIRED, NODE, BLIND, BATCH)
SHARES: Final[Mapping[str, tuple[str, float]]] = {
    f"share_{kind}_{how}": (f"{kind}, {how}", 100.0) for kind in KINDS for how in ("alone", "paired")
}
PHASES: Final[Mapping[str, tuple[str, float]]] = {
    RESPONSE: ("response [s]", 1.0),
    "pair_share": ("quanta with a pair %", 100.0),
    "phase_pairs_low": ("where the row's job logs up to 40 % CPU", 100.0),
    "phase_pairs_high": ("more", 100.0),
    "phase_hungry_pairs": ("quanta with two hungry jobs %", 100.0),
    "phase_stuck": ("longest row of them", 1.0),
}
PREDICTION: Final[Mapping[str, tuple[str, float]]] = {
    "prediction_correlation": ("correlation", 1.0),
    "prediction_error": ("mean absolute error, points", 100.0),
    "prediction_new": ("new jobs, % of dots", 100.0),
}


def report(figures: Figures, size: Size) -> list[str]:
    """Return the lines of the page between its markers; a part without runs is left out."""
    lines = [
        f"{size.jobs:,} jobs on 16 nodes in dynamic runs. A seed draws jobs, CPU shares, lengths of bursts and the rounding of ticks."
        f" Seeds that have run: static mixes {figures.seeds(Where(mix(1), PAIRED))}, dynamic ones"
        f" {figures.seeds(Where(dynamic(HOMOGENEOUS, LOADS[-1]), PAIRED))}; each table says how many its rows have.",
        "",
        VERDICTS,
        "",
        "Claims that something happens in a run (C37, C38, C41, C53) are counted by seed: *yes* or *no* where they hold, or fail, in"
        " all runs. Without compute jobs nothing is drawn, so that all seeds of mix 4 are one run, and its intervals are points.",
        "",
    ]
    return [*lines, *sections(figures, _PARTS)]


# ---------------------------------------------------------------- static mixes


def rates(figures: Figures, variant: str = BASE) -> list[str]:
    """Return figure 7 as a table: rates, gains, and slots chosen as partner."""
    columns = ["compute, barriers/s", "I/O", "compute / gang", "I/O / gang", "all / gang"]
    rows = []
    for io_jobs in MIXES:
        for policy in (STRICT, BEST, PAIRED):
            where = Where(mix(io_jobs), policy, variant)
            if figures.seeds(where):
                kinds = kinds_of(io_jobs)
                means = [interval_text(figures.mean(rate(kind), where) if kind in kinds else None) for kind in KINDS]
                gains = [
                    interval_text(gain(figures, kind, policy, mix(io_jobs), variant) if kind in kinds else None)
                    for kind in KINDS
                ]
                total = figures.ratio("rate_total", where, Where(mix(io_jobs), STRICT, variant))
                counts = [interval_text(figures.mean(f"chosen_{slot}", where), factor=100.0) for slot in SLOTS]
                cells = [*means, *(["1"] * 3 if policy == STRICT else [*gains, interval_text(total)]), *counts]
                rows.append(table_row((mix(io_jobs), policy, str(figures.seeds(where))), cells))
    head = table_head(("", "", "seeds"), [*columns, *(f"slot {slot} chosen %" for slot in SLOTS)])
    return [*head, *rows, ""] if rows else []


def local_schedulers(figures: Figures) -> list[str]:
    """Return the static mixes under other local schedulers and other accounting."""
    lines: list[str] = []
    for name, variant in OF_MIXES.items():
        found = rates(figures, name)
        lines += [f"### {variant.text[0].upper()}{variant.text[1:]} (`{name}`)", "", *found] if found else []
    return lines


def paper_length(figures: Figures) -> list[str]:
    """Return the mixes with the paper's number of barriers."""
    columns = {rate(kind): (f"{kind}, barriers/s", 1.0) for kind in KINDS}
    columns |= {f"chosen_{slot}": (f"slot {slot} chosen %", 100.0) for slot in SLOTS} | {"window_s": ("time [s]", 1.0)}
    cells = [Where(mix(io_jobs, iterations=250), policy) for io_jobs in MIXES for policy in (STRICT, BEST, PAIRED)]
    found = means_table(figures, columns, cells)
    text = "Up to the end of the first job; rates from the CPU time used in whole quanta. Counts are those of the whole run."
    return [text, "", *found] if found else []


def sensitivity(figures: Figures) -> list[str]:
    """Return figures 8 and 9 as tables."""
    columns = {rate(kind): (f"{kind}, barriers/s", 1.0) for kind in KINDS} | {"io_per_s": ("files/s", 1.0)}
    lines: list[str] = []
    for title, names in (
        ("Figure 8: size of the cluster", [mix(n, size) for size in SIZES for n in MIXES]),
        ("Figure 9: granularity", [mix(n, grain=grain) for grain in GRAINS for n in MIXES]),
    ):
        found = means_table(figures, columns, [Where(name, policy) for name in names for policy in (STRICT, PAIRED)])
        lines += [f"### {title}", "", *found] if found else []
    return lines


def logged(figures: Figures) -> list[str]:
    """Return what CPU shares are logged."""
    cells = [Where(mix(n), policy) for n in MIXES for policy in (STRICT, BEST)]
    cells += [Where(mix(2), BEST, name) for name in OF_MIXES]
    found = means_table(figures, SHARES, cells)
    return ["Percent of the time allowed, mean over quanta.", "", *found] if found else []


def fine_pairs(figures: Figures) -> list[str]:
    """Return the progress of two 45 % jobs together over that alone, by grain and local scheduler."""
    rows = []
    for name in FINE_PAIRS:
        for variant in (BASE, *LOCALS):
            where, base = Where(name, BEST, variant), Where(name, STRICT, variant)
            found = figures.ratio(f"speed_{COMPUTE}", where, base)
            if found is not None:
                local = "wake-first, 200 ms" if variant == BASE else variant
                total = figures.ratio("rate_total", where, base)
                shares = [
                    interval_text(figures.mean(f"share_compute_{how}", at), factor=100.0)
                    for how, at in (("alone", base), ("paired", where))
                ]
                rows.append(
                    table_row((name, local, str(found.n)), [interval_text(found), interval_text(total), *shares])
                )
    head = table_head(
        ("", "local scheduler", "seeds"),
        ["progress while it may run, paired / alone", "barriers/s, paired / gang", "logged alone %", "logged paired %"],
    )
    text = "On 16 exact nodes; grain x 1 is an iteration of 1.67 ms, as the homogeneous jobs have."
    return [text, "", *head, *rows, ""] if rows else []


# ---------------------------------------------------------------- dynamic


def ratios(figures: Figures) -> list[str]:
    """Return ratios of mean responses over load."""
    lines: list[str] = []
    for program in (HOMOGENEOUS, HETEROGENEOUS):
        found = ratio_table(figures, program, RIVALS)
        lines += [f"### {program.capitalize()} jobs", "", *found] if found else []
        found = ratio_table(figures, program, (PAIRED,), RR_DYNAMIC, (STRICT,))
        lines += (
            [f"### {program.capitalize()} jobs, local scheduler rr with slices of 2 ms", "", *found] if found else []
        )
    return lines


def _absolute(figures: Figures, columns: Mapping[str, tuple[str, float]]) -> list[str]:
    cells = [
        Where(dynamic(program, load), name)
        for program in (HOMOGENEOUS, HETEROGENEOUS)
        for load in (*LOADS, *ABOVE)
        for name in RIVALS
    ]
    cells += [Where(dynamic(program, PHASE_LOAD), name) for program in (QCRD, QCRD_EVEN) for name in RIVALS]
    return means_table(figures, columns, cells)


def experiments(figures: Figures) -> list[str]:
    """Return what each experiment changes."""
    rows: list[str] = []
    texts: list[str] = []
    for name, variant in {**OF_LOADS, "printed": OF_MIXES["printed"], **OF_PHASES}.items():
        found = [
            *experiment_rows(
                figures, name, [item for item in variant.workloads if item[-1].isdigit()], variant.policies
            )
        ]
        if found:
            texts.append(f"- `{name}`: {variant.text}.")
            rows += found
    head = table_head(("", "", "", "seeds"), ["response, %", "gang / it, as it is", "gang / it, with the change"])
    text = "Change of the mean response by the experiment, same jobs; and mean response under `gang` over that under the policy."
    return [text, "", *texts, "", *head, *rows, ""] if rows else []


def phases(figures: Figures) -> list[str]:
    """Return the runs of four copies of QCRD."""
    names = (BASE, *LOCALS, *(name for name in OF_PHASES if name.startswith("lost")))
    cells = [Where(copies(run_s), policy, name) for run_s in RUNS_S for policy in (STRICT, PAIRED) for name in names]
    found = means_table(figures, PHASES, cells)
    texts = [f"- `{name}`: {VARIANTS[name].text}." for name in names if name != BASE]
    return ["Hungry jobs log more than 40 % CPU each.", "", *texts, "", *found] if found else []


def prediction(figures: Figures) -> list[str]:
    """Return how good predictions are (figure 3)."""
    cells = [Where(dynamic(program, "0.8"), PAIRED) for program in (HOMOGENEOUS, HETEROGENEOUS, QCRD, QCRD_EVEN)]
    found = means_table(figures, PREDICTION, cells)
    return ["Jobs that have been measured before; new ones are predicted to have 100 %.", "", *found] if found else []


def exact(figures: Figures) -> list[str]:
    """Return dynamic runs on exact nodes beside those on fluid ones."""
    where = [Where(few_jobs(PHASE_LOAD), policy, name) for policy in (STRICT, PAIRED) for name in (BASE, EXACT)]
    found = means_table(figures, {RESPONSE: COLUMNS[RESPONSE], "speed": COLUMNS["speed"]}, where)
    rows = []
    for policy in (STRICT, PAIRED):
        change = figures.change(
            RESPONSE, Where(few_jobs(PHASE_LOAD), policy), Where(few_jobs(PHASE_LOAD), policy, EXACT)
        )
        if change is not None:
            rows.append(f"Mean response under {policy}, fluid against exact nodes, %: {interval_text(change)}.")
    return [*found, *[line for row in rows for line in (row, "")]] if found else []


def later(figures: Figures) -> list[str]:
    """Return who responds later than under strict gang scheduling."""
    cells = [
        Where(dynamic(program, load), name)
        for program in (HOMOGENEOUS, HETEROGENEOUS)
        for load in ("0.5", "0.8", "0.95")
        for name in RIVALS[1:]
    ]
    cells += [Where(dynamic(program, PHASE_LOAD), name) for program in (QCRD, QCRD_EVEN) for name in RIVALS[1:]]
    return later_table(figures, cells)


IN_SYSTEM: Final = Queue(
    "system_first_half", "system_second_half", "drifts", "node-hours of work of all jobs that have not ended"
)


def saturation(figures: Figures) -> list[str]:
    """Return where the work in the system grows; there is no queue where all jobs share the nodes."""
    programs = (HOMOGENEOUS, HETEROGENEOUS)
    cells = [Where(dynamic(name, load), policy) for name in programs for load in LOADS for policy in (STRICT, PAIRED)]
    return saturation_table(figures, cells, IN_SYSTEM)


def policies(_figures: Figures) -> list[str]:
    """Return what the names of policies mean."""
    rows = [
        table_row((name, f"`{preset}`", ", ".join(f"`{item}`" for item in settings) or NOTHING), [])
        for name, (preset, settings) in POLICIES.items()
    ]
    return [*table_head(("name", "preset", "settings")), *rows, ""]


_PARTS: Final[Mapping[str, Callable[[Figures], list[str]]]] = {
    "The claims: static mixes": lambda figures: claims_table(static_claims(figures)),
    "The claims: dynamic workloads": lambda figures: claims_table(dynamic_claims(figures)),
    "The claims: jobs with phases": lambda figures: claims_table(phase_claims(figures)),
    "The claims that no run decides": lambda _: claims_table(settled_claims()),
    "Saturation": saturation,
    "Policies": policies,
    "Figure 7: static mixes": rates,
    "Local schedulers and accounting": local_schedulers,
    "The paper's number of barriers": paper_length,
    "Figures 8 and 9: size and granularity": sensitivity,
    "What is logged": logged,
    "Two 45 % jobs by grain": fine_pairs,
    "Ratios of mean responses": ratios,
    "Figure 10: dynamic workloads": partial(_absolute, columns=COLUMNS),
    "Figures 11, 12 and 14: jobs in the system": partial(_absolute, columns=STATE),
    "What it hangs on": experiments,
    "Figure 13: four copies of QCRD": phases,
    "Figure 3: predictions": prediction,
    "Fluid and exact nodes": exact,
    "Who responds later than under strict gang scheduling": later,
}
