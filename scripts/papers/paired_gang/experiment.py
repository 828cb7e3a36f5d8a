"""The experiment of the paired gang reproduction: which runs there are, and in which order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from scripts.papers.study import BASE, Product, Size, Variant, policies_of, tables_of, variants_of
from scripts.processes import PROJECT

from cosched_emulator.workload.atomic_file import new_text_file
from cosched_emulator.workload.swf.swf_writer import format_row, header_lines
from cosched_hwmodel.units import SECOND_US

# Policies, as the page calls them.
STRICT: Final = "gang"
BARE: Final = "gang, no alternates"
PAIRED: Final = "paired-gang"
NODE: Final = "paired-gang, node"
BEST: Final = "best fit"
BLIND: Final = "blind"
BATCH: Final = "batch"

MIXES: Final = (0, 1, 2, 3, 4)  # numbers of I/O jobs of four
SIZE: Final = 8  # nodes of the static experiments
SIZES: Final = (2, 4, 8, 12)
GRAIN: Final = 2.5  # millions of null statements between two barriers
GRAINS: Final = (1.0, 1.5, 2.0, 2.5)
SLOTS: Final = (0, 1, 2, 3)
COMPUTE: Final = "compute"
IO: Final = "io"
KINDS: Final = (COMPUTE, IO)

LOADS: Final = ("0.5", "0.6", "0.7", "0.8", "0.9", "0.95")
ABOVE: Final = ("1.05", "1.2")  # loads of which the machine cannot do all under strict gang scheduling
HOMOGENEOUS: Final = "homogeneous"
HETEROGENEOUS: Final = "heterogeneous"
QCRD: Final = "QCRD"
QCRD_EVEN: Final = "QCRD even"
RUNS_S: Final = (400, 1200)  # alone, of the four copies of QCRD that start together

RESPONSE: Final = "all_response_s_mean"
SLOWDOWN_CPU: Final = "time_sharing_all_slowdown_cpu_mean"
SLOWDOWN_DISPATCHED: Final = "time_sharing_all_slowdown_dispatched_mean"
CPU_USED: Final = "time_sharing_cpu_used"
BOUNDED: Final = "all_bounded_slowdown_10s_mean"


def mix(io_jobs: int, size: int = SIZE, grain: float = GRAIN, iterations: int = 0) -> str:
    """Return the name of a static workload: ``mix 1``, or with another size, grain or number of barriers ``mix 1, 12 nodes``."""
    sized = "" if size == SIZE else f", {size} nodes"
    grained = "" if grain == GRAIN else f", {grain:g} M"
    counted = f", N = {iterations}" if iterations else ""
    return f"mix {io_jobs}{sized}{grained}{counted}"


# Names of other workloads, and of a column.
longer: Final = "mix {}, 1,024 s".format  # for counts in which jobs take turns by chance
alone: Final = "one {} job".format
dynamic: Final = "{} {}".format  # of a program and a load
rate: Final = "rate_{}".format  # column of the barriers a second of the jobs of a kind, in the mean
fine_pair: Final = "two 45 % jobs, grain x {}".format  # so many times as coarse as the homogeneous ones
copies: Final = "four QCRD, {} s".format  # of this run time alone
few_jobs: Final = f"{HOMOGENEOUS} {{}}, few jobs".format  # of a load; for exact nodes

HANGS_ON: Final = ("0.8", "0.95")  # loads at which experiments run
RR: Final = "rr 2 ms"
RR_DYNAMIC: Final = f"{RR}, dynamic"
SLOW_RR: Final = "rr 200 ms"
SHORT_SLICE: Final = "wake-first 10 ms"
EPOCHS: Final = "linux-epochs"
LOCALS: Final[Mapping[str, Mapping[str, Any]]] = {
    RR: {"local": "rr", "slice_ms": 2.0},
    EPOCHS: {"local": "linux-epochs"},
    SLOW_RR: {"local": "rr", "slice_ms": 200.0},
}
LOSSES_US: Final[Mapping[str, int]] = {"0 %": 0, "1 %": 100, "2 %": 200, "5 %": 500}
EXACT: Final = "exact"
FEW: Final = 3  # seeds of an experiment
STATIC: Final = tuple(mix(io_jobs) for io_jobs in MIXES)
FINE_PAIRS: Final = tuple(fine_pair(grain) for grain in (1, 3, 10, 30))


def _both(program: str) -> list[str]:
    return [dynamic(program, load) for load in HANGS_ON]


_HOMOGENEOUS: Final = _both(HOMOGENEOUS)
_HETEROGENEOUS: Final = _both(HETEROGENEOUS)
_ALL: Final = (STRICT, PAIRED)


def _set(text: str, workloads: Sequence[str], policies: Sequence[str], *settings: str) -> Variant:
    return Variant(text, {}, settings, workloads, policies)


def _on(text: str, workloads: Sequence[str], policies: Sequence[str], **changes: Any) -> Variant:
    return Variant(text, {"time_sharing": changes}, (), workloads, policies)


def _jobs(text: str, workloads: Sequence[str], policies: Sequence[str], **changes: Any) -> Variant:
    return Variant(text, {"workload": changes}, (), workloads, policies)


# Static mixes, on exact nodes.
# fmt: off
OF_MIXES: Final[Mapping[str, Variant]] = {
    "printed": Variant("figure 4 as printed: the row at which its two ends meet is offered no matched partner", {},
        ["pairing=printed"], [*STATIC, *_HOMOGENEOUS], [PAIRED], quick=True),
    **{name: _on(f"local scheduler {name}", [*STATIC, alone(COMPUTE), alone(IO), *FINE_PAIRS, copies(RUNS_S[0])],
        [STRICT, BEST, PAIRED], **changes) for name, changes in LOCALS.items()},
    SHORT_SLICE: _on("local scheduler wake-first with slices of 10 ms instead of 200", [*STATIC, alone(IO)], [STRICT, BEST, PAIRED],
        slice_ms=10.0),
    "I/O logged": _on("the CPU time that files cost is logged to the process", STATIC, [STRICT, BEST, PAIRED], io_logged=1.0),
    "exact ticks": _on("CPU time is logged exactly", STATIC, [STRICT, BEST, PAIRED], tick_ms=0.0),
}
# fmt: on
# Dynamic workloads, on fluid nodes.
# fmt: off
OF_LOADS: Final[Mapping[str, Variant]] = {
    # Of other jobs each pair of shares is measured: hours a run.
    RR_DYNAMIC: _on("local scheduler rr with slices of 2 ms", [dynamic(HOMOGENEOUS, load) for load in (*LOADS, *ABOVE)], _ALL,
        **LOCALS[RR]),
    f"{EPOCHS}, dynamic": _on("local scheduler linux-epochs", _HOMOGENEOUS, _ALL, **LOCALS[EPOCHS]),
    "alternates off": _set("no alternates", [*_HOMOGENEOUS, *_HETEROGENEOUS], [PAIRED], "backfill.alternates=off"),
    "alternates max": _set("alternates by the maximum rule, without the band", [*_HOMOGENEOUS, *_HETEROGENEOUS], [PAIRED],
        "backfill.alternates=max"),
    "unmatched": _set("alternates make up a second layer where a row has no partner",
        [*_HOMOGENEOUS, *_HETEROGENEOUS, dynamic(QCRD, "0.8"), dynamic(QCRD_EVEN, "0.8")], [PAIRED, NODE],
        "backfill.alternates_when_unmatched=true"),
    **{f"band {band or 'none'}": _set(f"rows of {f'up to {band} points' if band else 'any shares'}, alternates by the maximum rule",
        [*_HOMOGENEOUS, *_HETEROGENEOUS], [PAIRED], f"backfill.band={band}", "backfill.alternates=max") for band in (40, 60, 0)},
    "first-fit": _set("new jobs on the lowest free nodes", _HOMOGENEOUS, (STRICT, BARE, PAIRED), "placement=first-fit"),
    "buddy": _set("new jobs on aligned blocks of nodes", [*_HOMOGENEOUS, *_HETEROGENEOUS], (STRICT, BARE, PAIRED), "placement=buddy"),
    "compaction": _set("rows dissolve where other rows have room for their jobs", _HOMOGENEOUS, (STRICT, BARE, PAIRED),
        "backfill.compaction=true"),
    "fresh band": _set("new jobs only in rows whose band admits 100 %", [*_HOMOGENEOUS, *_HETEROGENEOUS], [PAIRED],
        "backfill.place_fresh=band"),
    "fresh new": _set("each new job in a new row", [*_HOMOGENEOUS, *_HETEROGENEOUS], [PAIRED], "backfill.place_fresh=new"),
    "pad": _set("quanta that a new job has not had count as 100 %", [*_HOMOGENEOUS, *_HETEROGENEOUS], [PAIRED], "backfill.pad=true"),
    **{f"margin {margin}": _set(f"margin of {margin} points instead of 1", [*_HOMOGENEOUS, *_HETEROGENEOUS], [PAIRED],
        f"pairing.margin={margin}") for margin in (0, 5)},
    "ticks 0": _on("CPU time is logged exactly", [*_HOMOGENEOUS, *_HETEROGENEOUS], [PAIRED], tick_ms=0.0),
    **{f"jitter {share:g}": _jobs(f"bursts within {share:.0%} of their length instead of 10 %", _HOMOGENEOUS, _ALL, jitter=share)
        for share in (0.0, 0.2)},
    "no waiting": _jobs("jobs compute 99 % of their time", _HOMOGENEOUS, _ALL, cpu_share=0.99),
}
# fmt: on
# Jobs with phases.
OF_PHASES: Final[Mapping[str, Variant]] = {
    **{
        f"{change} change, dynamic": _set(
            f"a {change if change == 'rise' else 'change'} of more than 20 points: the job runs a quantum alone",
            [dynamic(QCRD, "0.8"), dynamic(QCRD_EVEN, "0.8")],
            [PAIRED, NODE],
            f"backfill.sharp_change={change}",
        )
        for change in ("rise", "any")
    },
    **{
        f"lost {loss}{', sharp change' if sharp else ''}": Variant(
            f"switches between two jobs on a node cost about {loss} of the CPU"
            + (", sharp_change = any" if sharp else ""),
            {"time_sharing": {"refill_us": cost}},
            ["backfill.sharp_change=any"] if sharp else [],
            [copies(run_s) for run_s in RUNS_S],
            [PAIRED],
        )
        for loss, cost in LOSSES_US.items()
        for sharp in (False, True)
        if cost or sharp
    },
}
AS_IT_IS: Final[Mapping[str, Variant]] = {
    EXACT: _on("exact nodes instead of fluid ones", [few_jobs(HANGS_ON[0])], _ALL, nodes="exact")
}
VARIANTS: Final[Mapping[str, Variant]] = {**OF_MIXES, **OF_LOADS, **OF_PHASES, **AS_IT_IS}

FOLDER: Final = PROJECT / "out" / "reproduce" / "paired-gang-jobs"
LONG: Final = 5_000  # barriers: more than any job completes
PAPER: Final = 250  # barriers of the paper's jobs (section 4.1.1)
BARRIER_S: Final = 0.075  # of either kind, alone on 8 nodes
FINE: Final = 25_000  # null statements: with a barrier of 0.92 ms, 45 % of the time
FINE_BARRIER_US: Final = 920
PAIR_SIZE: Final = 16
PAIR_GRAINS: Final = (1, 3, 10, 30)  # times as coarse as the homogeneous jobs
STOP_S: Final = 256.0  # when jobs that do not end by themselves are cancelled: 64 rounds of four quanta
LONGER_S: Final = 1024.0  # the same where counts depend on chance: mixes 1 and 2 under best fit
RATES_S: Final = 64.0  # the same of experiments that need rates alone
SHORT_S: Final = 32.0  # the same of a quick reproduction
HEADER: Final = "job,program,null_statements,iterations,jitter"


class Static(NamedTuple):
    """Some jobs that start together, each on all nodes."""

    nodes: int
    # A row of the file of programs for each job, behind its number; empty: that of the scenario.
    programs: Sequence[str]
    run_s: int
    stop_s: float | None = None  # None: the jobs end by themselves
    time_sharing: Mapping[str, Any] = {}


def statics(stop_s: float | None = None) -> dict[str, Static]:
    """Return the static workloads by name; ``stop_s``: instead of the usual times after which jobs are cancelled."""
    found = {mix(io_jobs): _mix(io_jobs) for io_jobs in MIXES}
    found |= {mix(io_jobs, size): _mix(io_jobs, size) for size in SIZES if size != SIZE for io_jobs in MIXES}
    found |= {
        mix(io_jobs, grain=grain): _mix(io_jobs, grain=grain) for grain in GRAINS if grain != GRAIN for io_jobs in MIXES
    }
    found |= {mix(io_jobs, iterations=PAPER): _mix(io_jobs, iterations=PAPER) for io_jobs in MIXES}
    found |= {longer(io_jobs): _mix(io_jobs, iterations=4 * LONG)._replace(stop_s=LONGER_S) for io_jobs in (1, 2)}
    found |= {alone(kind): _together([kind], SIZE, GRAIN, LONG) for kind in (COMPUTE, IO)}
    for grain in PAIR_GRAINS:
        row = f"{COMPUTE},{FINE * grain},1000000,0.1"
        found[fine_pair(grain)] = Static(
            PAIR_SIZE, [row, row], 10_000, RATES_S, {"barrier_us": FINE_BARRIER_US * grain}
        )
    for run_s in RUNS_S:
        found[copies(run_s)] = Static(SIZE, [""] * len(SLOTS), run_s)
    return {name: jobs._replace(stop_s=stop_s) if stop_s and jobs.stop_s else jobs for name, jobs in found.items()}


def _mix(io_jobs: int, size: int = SIZE, grain: float = GRAIN, iterations: int = LONG) -> Static:
    kinds = [COMPUTE] * (len(SLOTS) - io_jobs) + [IO] * io_jobs
    return _together(kinds, size, grain, iterations)


def _together(kinds: Sequence[str], size: int, grain: float, iterations: int) -> Static:
    statements = {COMPUTE: str(round(grain * 1_000_000)), IO: ""}
    rows = [f"{kind},{statements[kind]},{iterations}," for kind in kinds]
    usual = size == SIZE and grain == GRAIN
    stop_s = (STOP_S if usual else RATES_S) if iterations == LONG else None
    return Static(size, rows, round(iterations * BARRIER_S), stop_s)


def workload_of(name: str, static: Static) -> dict[str, Any]:
    """Write the files of a static workload and return the sections of its scenario."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    stem = name.replace(" ", "-").replace(",", "")
    jobs, run_us = range(1, len(static.programs) + 1), static.run_s * SECOND_US
    rows = [format_row(job, 0, run_us=run_us, processes=static.nodes, estimate_us=run_us) for job in jobs]
    log = _written(FOLDER / f"{stem}.swf", [*header_lines(jobs=len(rows), processors=static.nodes, origin=name), *rows])
    programs = [HEADER, *(f"{number},{row}" for number, row in zip(jobs, static.programs, strict=True))]
    file = str(_written(FOLDER / f"{stem}.csv", programs)) if any(static.programs) else "qcrd"
    return {
        "cluster": {"nodes": static.nodes},
        "workload": {"swf": str(log), "programs": file, "limits": "none"},
        "time_sharing": {"nodes": "exact", **static.time_sharing},
        "script": []
        if static.stop_s is None
        else [{"at_s": static.stop_s, "do": "cancel", "job": job} for job in jobs],
    }


def _written(path: Path, lines: Sequence[str]) -> Path:
    """Write a file unless it has these lines already, as workers may read it."""
    text = "".join(f"{line}\n" for line in lines)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        with new_text_file(path, force=True) as stream:
            stream.write(text)
    return path


JOBS: Final = 1_000
QUICK_JOBS: Final = 200
SEEDS: Final = 5
NODES: Final = 16
FASTER: Final = 40  # times as fast as the model's jobs (section 4.2)
RATES: Final = PROJECT / "out" / "rates"  # measured rates of the fluid nodes: they change no result
FEW_JOBS: Final = 100  # of the dynamic runs on exact nodes
PHASE_LOAD: Final = "0.8"  # of jobs with phases (figure 14)
PROGRAMS: Final = {HOMOGENEOUS: "fine", HETEROGENEOUS: "uniform", QCRD: "qcrd", QCRD_EVEN: "qcrd-even"}
POLICIES: Final[Mapping[str, tuple[str, Sequence[str]]]] = {
    STRICT: ("gang", ()),
    BARE: ("gang", ("backfill.alternates=off",)),
    PAIRED: ("paired-gang", ()),
    BEST: ("paired-gang-bestfit", ()),
    NODE: ("paired-gang", ("backfill.alternates=node",)),
    BLIND: ("blind", ()),
    BATCH: ("batch", ()),
}
MATCHINGS: Final = (STRICT, BEST, PAIRED)
MAIN: Final = (STRICT, BARE, PAIRED, NODE)
OTHERS: Final = (BLIND, BATCH)
USUAL: Final = {"variant": BASE}


def experiment(size: Size, _logs: Path | None = None) -> dict[str, Any]:
    """Return the table of the study. A seed draws jobs, CPU shares, bursts and the rounding of ticks."""
    static = statics(SHORT_S if size.quick else None)
    return {
        "title": "Paired gang scheduling",
        "scenario": {"cluster": {"nodes": NODES}, "time_sharing": {"nodes": "fluid", "windows": str(RATES)}},
        "workloads": [
            *({"name": name, **workload_of(name, jobs)} for name, jobs in static.items()),
            *(
                {"name": dynamic(program, load), "workload": _model(size.jobs, name, load)}
                for program, name in PROGRAMS.items()
                for load in (*LOADS, *ABOVE)
            ),
            {
                "name": few_jobs(PHASE_LOAD),
                "workload": _model(min(FEW_JOBS, size.jobs // 2), PROGRAMS[HOMOGENEOUS], PHASE_LOAD),
            },
        ],
        "variants": variants_of(VARIANTS),
        "policies": policies_of(POLICIES),
        "seeds": f"1-{size.seeds}",
        "runs": tables_of(products(size)),
        "measures": ["scripts.papers.paired_gang.measures:figures"],
    }


def _model(jobs: int, programs: str, load: str) -> dict[str, Any]:
    """Return jobs of the model as the paper has them."""
    return {"lublin": jobs, "run_factor": 1 / FASTER, "load": float(load), "programs": programs}


def products(size: Size) -> Iterator[Product]:
    """Yield the products, the most wanted first: a few seeds of the paper's experiments, of our own, then more seeds."""
    few = min(FEW, size.seeds)
    seeds, more = range(1, few + 1), range(few + 1, size.seeds + 1)
    yield from _paper(seeds, size)
    for name, variant in VARIANTS.items():
        if not size.quick or variant.quick:
            works = [item for item in variant.workloads if not size.quick or item in STATIC]
            yield Product("variants", works, variant.policies, seeds, [name])
    if not size.quick:
        yield from _above(seeds)
        yield Product("few jobs", [few_jobs(PHASE_LOAD)], (STRICT, PAIRED), seeds)
    if more:
        yield from _paper(more, size)
        if not size.quick:  # these are claims, too
            yield Product("variants", VARIANTS[RR_DYNAMIC].workloads, _ALL, more, [RR_DYNAMIC])
            yield from _above(more)


def _above(seeds: Sequence[int]) -> Iterator[Product]:
    """Yield the runs above a load of 1."""
    yield Product("above", [dynamic(HOMOGENEOUS, load) for load in ABOVE], (STRICT, BARE, PAIRED), seeds)
    yield Product("above", [dynamic(HETEROGENEOUS, load) for load in ABOVE], (STRICT, PAIRED), seeds)


def _paper(seeds: Sequence[int], size: Size) -> Iterator[Product]:
    """Yield the paper's experiments."""
    loads = (LOADS[0], LOADS[-1]) if size.quick else LOADS
    homogeneous, heterogeneous = ([dynamic(kind, load) for load in loads] for kind in (HOMOGENEOUS, HETEROGENEOUS))
    shapes = [dynamic(program, PHASE_LOAD) for program in (QCRD, QCRD_EVEN)]
    sizes = [mix(io_jobs, other) for other in SIZES if other != SIZE for io_jobs in MIXES]
    grains = [mix(io_jobs, grain=grain) for grain in GRAINS if grain != GRAIN for io_jobs in MIXES]
    yield Product("mixes", STATIC, MATCHINGS, seeds)
    yield Product("mixes", [alone(IO), alone(COMPUTE)], (STRICT,), seeds)
    yield Product("loads", homogeneous, MAIN, seeds)
    yield Product("loads", heterogeneous, (STRICT, PAIRED, NODE), seeds)
    if size.quick:
        return
    yield Product("phases", shapes, MAIN, seeds)
    yield Product("phases", [copies(run_s) for run_s in RUNS_S], (STRICT, PAIRED), seeds)
    yield Product("others", homogeneous, OTHERS, seeds)
    yield Product("others", heterogeneous, (BARE, *OTHERS), seeds)
    yield Product("others", shapes, OTHERS, seeds)
    yield Product("sizes", [mix(io_jobs, iterations=PAPER) for io_jobs in MIXES], MATCHINGS, seeds)
    yield Product("sizes", sizes, (STRICT, PAIRED), seeds)
    yield Product("sizes", grains, (STRICT, PAIRED), seeds)
    yield Product("sizes", [longer(1), longer(2)], (BEST,), seeds)
    yield Product("pairs", FINE_PAIRS, (STRICT, BEST, PAIRED), seeds)
