"""The page of the paired gang reproduction: every claim with its verdict, and the tables behind them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Final

from scripts.papers import pages
from scripts.papers import rows as r
from scripts.papers.claims import VERDICTS
from scripts.papers.figures import Figures, Where, interval_text
from scripts.papers.paired_gang import experiment as ex
from scripts.papers.paired_gang.claims import SECTIONS, claims, gain, kinds_of
from scripts.papers.saturation import Queue, saturation
from scripts.papers.study import BASE, Size
from scripts.tables import NOTHING

from cosched_emulator.studies.study_result import Row as RunRow

PROGRAMS: Final = (ex.HOMOGENEOUS, ex.HETEROGENEOUS)
SHAPES: Final = (ex.QCRD, ex.QCRD_EVEN)
LOADS: Final = (*ex.LOADS, *ex.ABOVE)
BOTH: Final = (ex.STRICT, ex.PAIRED)
COLUMNS: Final[pages.Columns] = {
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
STATE: Final[pages.Columns] = {
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


# ---------------------------------------------------------------- who responds later


later_column: Final = "later: {}".format  # of the share of later jobs of a class


def derive(figures: Figures, _size: Size) -> None:
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


def _later_shares(row: RunRow, base: RunRow) -> Iterator[tuple[str, float]]:
    jobs = [*zip(row["responses_s"], base["responses_s"], row["runs_s"], strict=True)]
    for name, (least_s, most_s, factor) in {
        **{name: (*bounds, LATER[0]) for name, bounds in CLASSES.items()},
        MUCH: (0.0, math.inf, float(MUCH)),
    }.items():
        later = [mine > factor * other + LATER[1] for mine, other, run in jobs if least_s <= run < most_s]
        if later:
            yield later_column(name), statistics.fmean(later)


def later() -> pages.Section:
    """Return the share of jobs that respond later than under strict gang scheduling with the same seed, by length of the job."""
    works = [ex.dynamic(program, load) for program in PROGRAMS for load in ("0.5", "0.8", "0.95")]
    works += [ex.dynamic(program, ex.PHASE_LOAD) for program in SHAPES]
    cells = [Where(work, name) for work in works for name in RIVALS[1:]]
    columns = [later_column(name) for name in (*CLASSES, MUCH)]
    rows = [
        ((where.workload, pages.place(where)), [r.mean(column, where, 100.0) for column in columns]) for where in cells
    ]
    text = (
        f"A job is *later* if its response time is above {LATER[0]:g} times that under {ex.STRICT}, + {LATER[1]:g} s. Part of this is"
        " chance: any change of a schedule makes some jobs earlier and others later."
    )
    return pages.table(("", ""), [*(f"{name} %" for name in CLASSES), f"all, above {MUCH} x + 1.5 s %"], rows, text)


RIVALS: Final = (ex.STRICT, ex.BARE, ex.PAIRED, ex.NODE, ex.BLIND, ex.BATCH)
SHARES: Final[pages.Columns] = {
    f"share_{kind}_{how}": (f"{kind}, {how}", 100.0) for kind in ex.KINDS for how in ("alone", "paired")
}
PHASES: Final[pages.Columns] = {
    ex.RESPONSE: ("response [s]", 1.0),
    "pair_share": ("quanta with a pair %", 100.0),
    "phase_pairs_low": ("where the row's job logs up to 40 % CPU", 100.0),
    "phase_pairs_high": ("more", 100.0),
    "phase_hungry_pairs": ("quanta with two hungry jobs %", 100.0),
    "phase_stuck": ("longest row of them", 1.0),
}
PREDICTION: Final[pages.Columns] = {
    "prediction_correlation": ("correlation", 1.0),
    "prediction_error": ("mean absolute error, points", 100.0),
    "prediction_new": ("new jobs, % of dots", 100.0),
}


def _head(figures: Figures, size: Size) -> list[str]:
    return [
        f"{size.jobs:,} jobs on 16 nodes in dynamic runs. A seed draws jobs, CPU shares, lengths of bursts and the rounding of ticks."
        f" Seeds that have run: static mixes {figures.seeds(Where(ex.mix(1), ex.PAIRED))}, dynamic ones"
        f" {figures.seeds(Where(ex.dynamic(ex.HOMOGENEOUS, ex.LOADS[-1]), ex.PAIRED))}; each table says how many its rows have.",
        "",
        VERDICTS,
        "",
        "Claims that something happens in a run (C37, C38, C41, C53) are counted by seed: *yes* if they hold in all runs, *no* if they"
        " fail in all. Mix 4 has no compute jobs, so seeds draw nothing: all its runs are equal, and its intervals are points.",
    ]


# ---------------------------------------------------------------- static mixes


def rates(variant: str = BASE) -> pages.Section:
    """Return figure 7 as a table: rates, gains, and slots chosen as partner."""
    rows: list[pages.Row] = []
    for io_jobs, policy in product(ex.MIXES, ex.MATCHINGS):
        work, kinds = ex.mix(io_jobs), kinds_of(io_jobs)
        where, base = Where(work, policy, variant), Where(work, ex.STRICT, variant)
        cells: list[pages.Cell] = [r.mean(ex.rate(kind), where) if kind in kinds else NOTHING for kind in ex.KINDS]
        for kind in ex.KINDS:
            gained = _gain(kind, policy, work, variant) if kind in kinds else NOTHING
            cells.append("1" if policy == ex.STRICT else gained)
        cells.append("1" if policy == ex.STRICT else pages.aside(r.ratio("rate_total", where, base)))
        rows.append(((work, policy), [*cells, *(r.mean(f"chosen_{slot}", where, 100.0) for slot in ex.SLOTS)]))
    columns = ["compute, barriers/s", "I/O", "compute / gang", "I/O / gang", "all / gang"]
    return pages.table(("", ""), [*columns, *(f"slot {slot} chosen %" for slot in ex.SLOTS)], rows)


def _gain(kind: str, policy: str, work: str, variant: str) -> pages.Cell:
    return lambda figures: interval_text(gain(figures, kind, policy, work, variant))


def paper_length() -> pages.Section:
    """Return the mixes with the paper's number of barriers."""
    columns = {ex.rate(kind): (f"{kind}, barriers/s", 1.0) for kind in ex.KINDS}
    columns |= {f"chosen_{slot}": (f"slot {slot} chosen %", 100.0) for slot in ex.SLOTS}
    cells = [Where(ex.mix(n, iterations=ex.PAPER), policy) for n in ex.MIXES for policy in ex.MATCHINGS]
    text = "Figures up to the end of the first job. Rates use the CPU time of whole quanta; counts are those of the whole run."
    return pages.means_table(columns | {"window_s": ("time [s]", 1.0)}, cells, text)


def sensitivity(works: Iterable[str]) -> pages.Section:
    """Return a figure of static mixes as a table."""
    columns = {ex.rate(kind): (f"{kind}, barriers/s", 1.0) for kind in ex.KINDS} | {"io_per_s": ("files/s", 1.0)}
    return pages.means_table(columns, [Where(work, policy) for work in works for policy in BOTH])


def logged() -> pages.Section:
    """Return what CPU shares are logged."""
    cells = [Where(ex.mix(n), policy) for n in ex.MIXES for policy in (ex.STRICT, ex.BEST)]
    cells += [Where(ex.mix(2), ex.BEST, name) for name in ex.OF_MIXES]
    return pages.means_table(SHARES, cells, "Percent of the time for which a job may run, mean over quanta.")


def fine_pairs() -> pages.Section:
    """Return the progress of two 45 % jobs together over that alone, by grain and local scheduler."""
    rows: list[pages.Row] = []
    for name, variant in product(ex.FINE_PAIRS, (BASE, *ex.LOCALS)):
        paired, alone = Where(name, ex.BEST, variant), Where(name, ex.STRICT, variant)
        ratios: list[pages.Cell] = [
            r.ratio(f"speed_{ex.COMPUTE}", paired, alone),
            pages.aside(r.ratio("rate_total", paired, alone)),
        ]
        shares = (r.mean("share_compute_alone", alone, 100.0), r.mean("share_compute_paired", paired, 100.0))
        local = "wake-first, 200 ms" if variant == BASE else variant
        rows.append(((name, local), [*ratios, *map(pages.aside, shares)]))
    ratios_of = ("progress while it may run, paired / alone", "barriers/s, paired / gang")
    text = "On 16 exact nodes; grain x 1 is an iteration of 1.67 ms, as the homogeneous jobs have."
    return pages.table(("", "local scheduler"), [*ratios_of, "logged alone %", "logged paired %"], rows, text)


# ---------------------------------------------------------------- dynamic


def ratios(
    program: str, policies: Sequence[str], variant: str | None = None, bases: Sequence[str] = (ex.STRICT, ex.BARE)
) -> pages.Section:
    """Return mean responses under strict gang scheduling over those under others, a column for each load."""
    works = [ex.dynamic(program, load) for load in LOADS]

    def section(figures: Figures) -> list[str]:
        rows: list[pages.Row] = []
        for base, policy in product(bases, policies):
            cells = [r.ratio(ex.RESPONSE, *(Where(work, name, variant) for name in (base, policy))) for work in works]
            found = [each.found(figures) for each in cells]
            seeds = "/".join(NOTHING if each is None else str(each.n) for each in found)
            rows += [((f"{base} / {policy}", seeds), cells)] if policy != base else []
        return pages.table(("", "seeds"), [f"load {load}" for load in LOADS], rows, counted=False)(figures)

    return section


def absolute(columns: pages.Columns) -> pages.Section:
    """Return means of all dynamic workloads."""
    works = [ex.dynamic(program, load) for program in PROGRAMS for load in LOADS]
    works += [ex.dynamic(program, ex.PHASE_LOAD) for program in SHAPES]
    return pages.means_table(columns, [Where(work, name) for work in works for name in RIVALS])


def experiments() -> pages.Section:
    """Return what each experiment changes in the mean response of a policy, and the ratio of strict gang to it."""
    parts: list[tuple[str, list[pages.Row]]] = []
    for name, variant in {**ex.OF_LOADS, "printed": ex.OF_MIXES["printed"], **ex.OF_PHASES}.items():
        rows: list[pages.Row] = []
        for work, policy in product([item for item in variant.workloads if item[-1].isdigit()], variant.policies):
            where, base = Where(work, policy, name), Where(work, policy)
            usual: pages.Cell = NOTHING
            against: pages.Cell = NOTHING
            if policy != ex.STRICT:
                usual = pages.aside(r.ratio(ex.RESPONSE, Where(work, ex.STRICT), base))
                against = _against(where, name)
            rows.append(((name, work, policy), [r.change(ex.RESPONSE, where, base), usual, against]))
        parts.append((f"- `{name}`: {variant.text}.", rows))
    titles = ["response, %", "gang / it, as it is", "gang / it, with the change"]
    whole = pages.table(("", "", ""), titles, [row for _, rows in parts for row in rows])
    each = [(text, pages.table(("", "", ""), titles, rows)) for text, rows in parts]
    text = "Change of the mean response in each experiment, same jobs; mean response under `gang` over that under the policy."

    def section(figures: Figures) -> list[str]:
        found = whole(figures)
        return [text, "", *(told for told, rows in each if rows(figures)), "", *found] if found else []

    return section


def _against(where: Where, name: str) -> pages.Cell:
    """Return strict gang, with the change if it has run so, over a policy with it."""

    def text(figures: Figures) -> str:
        strict = Where(where.workload, ex.STRICT, name)
        base = strict if figures.seeds(strict) else strict._replace(variant=None)
        return interval_text(figures.ratio(ex.RESPONSE, base, where))

    return text


def phases() -> pages.Section:
    """Return the runs of four copies of QCRD."""
    names = (BASE, *ex.LOCALS, *(name for name in ex.OF_PHASES if name.startswith("lost")))
    cells = [Where(ex.copies(run_s), policy, name) for run_s in ex.RUNS_S for policy in BOTH for name in names]
    texts = [f"- `{name}`: {ex.VARIANTS[name].text}." for name in names if name != BASE]
    return pages.means_table(PHASES, cells, ["Hungry jobs log more than 40 % CPU each.", "", *texts, ""])


def exact() -> pages.Section:
    """Return dynamic runs on exact nodes beside those on fluid ones."""
    work = ex.few_jobs(ex.PHASE_LOAD)
    cells = [Where(work, policy, name) for policy in BOTH for name in (BASE, ex.EXACT)]

    def changes(figures: Figures) -> list[str]:
        found = {name: figures.change(ex.RESPONSE, Where(work, name), Where(work, name, ex.EXACT)) for name in BOTH}
        text = "Mean response under {}, fluid against exact nodes, %: {}."
        told = [text.format(name, interval_text(each)) for name, each in found.items() if each is not None]
        return [line for each in told for line in (each, "")]

    return pages.joined(pages.means_table({key: COLUMNS[key] for key in (ex.RESPONSE, "speed")}, cells), changes)


IN_SYSTEM: Final = Queue(
    "system_first_half", "system_second_half", "drifts", "node-hours of work of all jobs that have not ended"
)
_OF_RR: Final = ", local scheduler rr with slices of 2 ms"
_POLICIES: Final = [
    (name, f"`{preset}`", ", ".join(f"`{item}`" for item in settings) or NOTHING)
    for name, (preset, settings) in ex.POLICIES.items()
]
PARTS: Final = {
    **{title: pages.claims_of(claims, title) for title in SECTIONS},
    # There is no queue where all jobs share the nodes.
    "Saturation": saturation(
        [Where(ex.dynamic(name, load), policy) for name in PROGRAMS for load in ex.LOADS for policy in BOTH], IN_SYSTEM
    ),
    "Policies": pages.words(("name", "preset", "settings"), _POLICIES),
    "Figure 7: static mixes": rates(),
    "Local schedulers and accounting": pages.sections(
        {f"{each.text[0].upper()}{each.text[1:]} (`{name}`)": rates(name) for name, each in ex.OF_MIXES.items()}, 3
    ),
    "The paper's number of barriers": paper_length(),
    "Figures 8 and 9: size and granularity": pages.sections(
        {
            "Figure 8: size of the cluster": sensitivity(ex.mix(n, size) for size in ex.SIZES for n in ex.MIXES),
            "Figure 9: granularity": sensitivity(ex.mix(n, grain=grain) for grain in ex.GRAINS for n in ex.MIXES),
        },
        3,
    ),
    "What is logged": logged(),
    "Two 45 % jobs by grain": fine_pairs(),
    "Ratios of mean responses": pages.sections(
        {
            f"{program.capitalize()} jobs{told}": part
            for program in PROGRAMS
            for told, part in (
                ("", ratios(program, RIVALS)),
                (_OF_RR, ratios(program, (ex.PAIRED,), ex.RR_DYNAMIC, (ex.STRICT,))),
            )
        },
        3,
    ),
    "Figure 10: dynamic workloads": absolute(COLUMNS),
    "Figures 11, 12 and 14: jobs in the system": absolute(STATE),
    "What it depends on": experiments(),
    "Figure 13: four copies of QCRD": phases(),
    "Figure 3: predictions": pages.means_table(
        PREDICTION,
        [Where(ex.dynamic(program, "0.8"), ex.PAIRED) for program in (*PROGRAMS, *SHAPES)],
        "Jobs that have been measured before; new jobs are predicted to have 100 %.",
    ),
    "Fluid and exact nodes": exact(),
    "Who responds later than under strict gang scheduling": later(),
}
report = pages.page(_head, PARTS)
