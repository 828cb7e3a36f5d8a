"""The page of the paired gang reproduction: every claim with its verdict, and the tables behind them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Final

from scripts.papers.claims import VERDICTS, claims_table
from scripts.papers.figures import Figures, Where, interval_text, percent_text, sections
from scripts.papers.means import means_table, place, titled
from scripts.papers.paired_gang import experiment as ex
from scripts.papers.paired_gang.claims import SECTIONS, claims, gain, kinds_of
from scripts.papers.saturation import Queue, saturation_table
from scripts.papers.study import Size
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
    works = [ex.dynamic(program, load) for load in (*ex.LOADS, *ex.ABOVE)]
    for base, policy in product(bases, policies):
        cells = [figures.ratio(ex.RESPONSE, *(Where(work, name, variant) for name in (base, policy))) for work in works]
        if policy != base and any(cells):
            seeds = "/".join(NOTHING if each is None else str(each.n) for each in cells)
            rows.append(table_row((f"{base} / {policy}", seeds), [interval_text(each) for each in cells]))
    return titled("", ("", "seeds"), [f"load {load}" for load in (*ex.LOADS, *ex.ABOVE)], rows)


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
    return titled(text, ("", "", "seeds"), [*(f"{name} %" for name in CLASSES), f"all, above {MUCH} x + 1.5 s %"], rows)


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


RIVALS: Final = (ex.STRICT, ex.BARE, ex.PAIRED, ex.NODE, ex.BLIND, ex.BATCH)
SHARES: Final[Mapping[str, tuple[str, float]]] = {
    f"share_{kind}_{how}": (f"{kind}, {how}", 100.0) for kind in ex.KINDS for how in ("alone", "paired")
}
PHASES: Final[Mapping[str, tuple[str, float]]] = {
    ex.RESPONSE: ("response [s]", 1.0),
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
        f" Seeds that have run: static mixes {figures.seeds(Where(ex.mix(1), ex.PAIRED))}, dynamic ones"
        f" {figures.seeds(Where(ex.dynamic(ex.HOMOGENEOUS, ex.LOADS[-1]), ex.PAIRED))}; each table says how many its rows have.",
        "",
        VERDICTS,
        "",
        "Claims that something happens in a run (C37, C38, C41, C53) are counted by seed: *yes* or *no* where they hold, or fail, in"
        " all runs. Without compute jobs nothing is drawn, so that all seeds of mix 4 are one run, and its intervals are points.",
        "",
    ]
    return [*lines, *sections(figures, _PARTS)]


# ---------------------------------------------------------------- static mixes


def rates(figures: Figures, variant: str = ex.BASE) -> list[str]:
    """Return figure 7 as a table: rates, gains, and slots chosen as partner."""
    rows = []
    for io_jobs, policy in product(ex.MIXES, (ex.STRICT, ex.BEST, ex.PAIRED)):
        work, kinds = ex.mix(io_jobs), kinds_of(io_jobs)
        where = Where(work, policy, variant)
        if figures.seeds(where):
            means = [figures.mean(ex.rate(kind), where) if kind in kinds else None for kind in ex.KINDS]
            gains = [gain(figures, kind, policy, work, variant) if kind in kinds else None for kind in ex.KINDS]
            gains.append(figures.ratio("rate_total", where, Where(work, ex.STRICT, variant)))
            shown = ["1"] * 3 if policy == ex.STRICT else [*map(interval_text, gains)]
            counts = [interval_text(figures.mean(f"chosen_{slot}", where), factor=100.0) for slot in ex.SLOTS]
            cells = [*map(interval_text, means), *shown, *counts]
            rows.append(table_row((work, policy, str(figures.seeds(where))), cells))
    columns = ["compute, barriers/s", "I/O", "compute / gang", "I/O / gang", "all / gang"]
    return titled("", ("", "", "seeds"), [*columns, *(f"slot {slot} chosen %" for slot in ex.SLOTS)], rows)


def local_schedulers(figures: Figures) -> list[str]:
    """Return the static mixes under other local schedulers and other accounting."""
    lines: list[str] = []
    for name, variant in ex.OF_MIXES.items():
        found = rates(figures, name)
        lines += [f"### {variant.text[0].upper()}{variant.text[1:]} (`{name}`)", "", *found] if found else []
    return lines


def paper_length(figures: Figures) -> list[str]:
    """Return the mixes with the paper's number of barriers."""
    columns = {ex.rate(kind): (f"{kind}, barriers/s", 1.0) for kind in ex.KINDS}
    columns |= {f"chosen_{slot}": (f"slot {slot} chosen %", 100.0) for slot in ex.SLOTS}
    cells = [Where(ex.mix(n, iterations=250), policy) for n in ex.MIXES for policy in (ex.STRICT, ex.BEST, ex.PAIRED)]
    text = "Up to the end of the first job; rates from the CPU time used in whole quanta. Counts are those of the whole run."
    return means_table(figures, columns | {"window_s": ("time [s]", 1.0)}, cells, text=text)


def sensitivity(figures: Figures) -> list[str]:
    """Return figures 8 and 9 as tables."""
    columns = {ex.rate(kind): (f"{kind}, barriers/s", 1.0) for kind in ex.KINDS} | {"io_per_s": ("files/s", 1.0)}
    lines: list[str] = []
    for title, names in (
        ("Figure 8: size of the cluster", [ex.mix(n, size) for size in ex.SIZES for n in ex.MIXES]),
        ("Figure 9: granularity", [ex.mix(n, grain=grain) for grain in ex.GRAINS for n in ex.MIXES]),
    ):
        found = means_table(
            figures, columns, [Where(name, policy) for name in names for policy in (ex.STRICT, ex.PAIRED)]
        )
        lines += [f"### {title}", "", *found] if found else []
    return lines


def logged(figures: Figures) -> list[str]:
    """Return what CPU shares are logged."""
    cells = [Where(ex.mix(n), policy) for n in ex.MIXES for policy in (ex.STRICT, ex.BEST)]
    cells += [Where(ex.mix(2), ex.BEST, name) for name in ex.OF_MIXES]
    return means_table(figures, SHARES, cells, text="Percent of the time allowed, mean over quanta.")


def fine_pairs(figures: Figures) -> list[str]:
    """Return the progress of two 45 % jobs together over that alone, by grain and local scheduler."""
    rows = []
    for name, variant in product(ex.FINE_PAIRS, (ex.BASE, *ex.LOCALS)):
        where, base = Where(name, ex.BEST, variant), Where(name, ex.STRICT, variant)
        found = figures.ratio(f"speed_{ex.COMPUTE}", where, base)
        if found is not None:
            local = "wake-first, 200 ms" if variant == ex.BASE else variant
            ratios_of = [interval_text(each) for each in (found, figures.ratio("rate_total", where, base))]
            shares = [figures.mean(f"share_compute_{how}", at) for how, at in (("alone", base), ("paired", where))]
            cells = [*ratios_of, *(interval_text(share, factor=100.0) for share in shares)]
            rows.append(table_row((name, local, str(found.n)), cells))
    heads = [
        "progress while it may run, paired / alone",
        "barriers/s, paired / gang",
        "logged alone %",
        "logged paired %",
    ]
    text = "On 16 exact nodes; grain x 1 is an iteration of 1.67 ms, as the homogeneous jobs have."
    return titled(text, ("", "local scheduler", "seeds"), heads, rows)


# ---------------------------------------------------------------- dynamic


def ratios(figures: Figures) -> list[str]:
    """Return ratios of mean responses over load."""
    lines: list[str] = []
    for program in (ex.HOMOGENEOUS, ex.HETEROGENEOUS):
        found = ratio_table(figures, program, RIVALS)
        lines += [f"### {program.capitalize()} jobs", "", *found] if found else []
        found = ratio_table(figures, program, (ex.PAIRED,), ex.RR_DYNAMIC, (ex.STRICT,))
        lines += (
            [f"### {program.capitalize()} jobs, local scheduler rr with slices of 2 ms", "", *found] if found else []
        )
    return lines


def _absolute(figures: Figures, columns: Mapping[str, tuple[str, float]]) -> list[str]:
    cells = [
        Where(ex.dynamic(program, load), name)
        for program in (ex.HOMOGENEOUS, ex.HETEROGENEOUS)
        for load in (*ex.LOADS, *ex.ABOVE)
        for name in RIVALS
    ]
    cells += [Where(ex.dynamic(program, ex.PHASE_LOAD), name) for program in (ex.QCRD, ex.QCRD_EVEN) for name in RIVALS]
    return means_table(figures, columns, cells)


def experiments(figures: Figures) -> list[str]:
    """Return what each experiment changes."""
    rows: list[str] = []
    texts: list[str] = []
    for name, variant in {**ex.OF_LOADS, "printed": ex.OF_MIXES["printed"], **ex.OF_PHASES}.items():
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
    names = (ex.BASE, *ex.LOCALS, *(name for name in ex.OF_PHASES if name.startswith("lost")))
    cells = [
        Where(ex.copies(run_s), policy, name)
        for run_s in ex.RUNS_S
        for policy in (ex.STRICT, ex.PAIRED)
        for name in names
    ]
    found = means_table(figures, PHASES, cells)
    texts = [f"- `{name}`: {ex.VARIANTS[name].text}." for name in names if name != ex.BASE]
    return ["Hungry jobs log more than 40 % CPU each.", "", *texts, "", *found] if found else []


def prediction(figures: Figures) -> list[str]:
    """Return how good predictions are (figure 3)."""
    programs = (ex.HOMOGENEOUS, ex.HETEROGENEOUS, ex.QCRD, ex.QCRD_EVEN)
    text = "Jobs that have been measured before; new ones are predicted to have 100 %."
    return means_table(
        figures, PREDICTION, [Where(ex.dynamic(program, "0.8"), ex.PAIRED) for program in programs], text=text
    )


def exact(figures: Figures) -> list[str]:
    """Return dynamic runs on exact nodes beside those on fluid ones."""
    work, both = ex.few_jobs(ex.PHASE_LOAD), (ex.STRICT, ex.PAIRED)
    cells = [Where(work, policy, name) for policy in both for name in (ex.BASE, ex.EXACT)]
    found = means_table(figures, {key: COLUMNS[key] for key in (ex.RESPONSE, "speed")}, cells)
    lines: list[str] = []
    for policy in both:
        change = figures.change(ex.RESPONSE, Where(work, policy), Where(work, policy, ex.EXACT))
        if change is not None:
            lines += [f"Mean response under {policy}, fluid against exact nodes, %: {interval_text(change)}.", ""]
    return [*found, *lines] if found else []


def later(figures: Figures) -> list[str]:
    """Return who responds later than under strict gang scheduling."""
    cells = [
        Where(ex.dynamic(program, load), name)
        for program in (ex.HOMOGENEOUS, ex.HETEROGENEOUS)
        for load in ("0.5", "0.8", "0.95")
        for name in RIVALS[1:]
    ]
    cells += [
        Where(ex.dynamic(program, ex.PHASE_LOAD), name) for program in (ex.QCRD, ex.QCRD_EVEN) for name in RIVALS[1:]
    ]
    return later_table(figures, cells)


IN_SYSTEM: Final = Queue(
    "system_first_half", "system_second_half", "drifts", "node-hours of work of all jobs that have not ended"
)


def saturation(figures: Figures) -> list[str]:
    """Return where the work in the system grows; there is no queue where all jobs share the nodes."""
    programs = (ex.HOMOGENEOUS, ex.HETEROGENEOUS)
    cells = [
        Where(ex.dynamic(name, load), policy)
        for name in programs
        for load in ex.LOADS
        for policy in (ex.STRICT, ex.PAIRED)
    ]
    return saturation_table(figures, cells, IN_SYSTEM)


def policies(_figures: Figures) -> list[str]:
    """Return what the names of policies mean."""
    rows = [
        table_row((name, f"`{preset}`", ", ".join(f"`{item}`" for item in settings) or NOTHING), [])
        for name, (preset, settings) in ex.POLICIES.items()
    ]
    return titled("", ("name", "preset", "settings"), (), rows)


def _claims(figures: Figures, section: str) -> list[str]:
    return claims_table(claims(figures, section))


_PARTS: Final[Mapping[str, Callable[[Figures], list[str]]]] = {
    **{title: partial(_claims, section=title) for title in SECTIONS},
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
