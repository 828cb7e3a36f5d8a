"""The experiment of the paired gang reproduction: which runs there are, and in which order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from scripts.papers.paired_gang.mixes import PAPER, SHORT_S, statics, workload_of
from scripts.papers.paired_gang.names import (
    ABOVE,
    BARE,
    BASE,
    BATCH,
    BEST,
    BLIND,
    COMPUTE,
    GRAIN,
    GRAINS,
    HETEROGENEOUS,
    HOMOGENEOUS,
    IO,
    LOADS,
    MIXES,
    NODE,
    PAIRED,
    QCRD,
    QCRD_EVEN,
    RUNS_S,
    SIZE,
    SIZES,
    STRICT,
    alone,
    copies,
    dynamic,
    few_jobs,
    longer,
    mix,
)
from scripts.papers.paired_gang.variants import FEW, FINE_PAIRS, RR_DYNAMIC, VARIANTS, Variant
from scripts.papers.study import Size
from scripts.processes import PROJECT

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
        "scenario": {
            "cluster": {"nodes": NODES},
            "time_sharing": {"nodes": "fluid", "windows": str(RATES)},
        },
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
        "variants": [
            {"name": BASE},
            *({"name": name, **variant.scenario, "set": variant.settings} for name, variant in VARIANTS.items()),
        ],
        "policies": [
            {"name": name, "policy": preset, "set": settings} for name, (preset, settings) in POLICIES.items()
        ],
        "seeds": f"1-{size.seeds}",
        "runs": [*_products(size)],
        "measures": ["scripts.papers.paired_gang.measures:figures"],
    }


def _model(jobs: int, programs: str, load: str) -> dict[str, Any]:
    """Return jobs of the model as the paper has them."""
    return {"lublin": jobs, "run_factor": 1 / FASTER, "load": float(load), "programs": programs}


def _products(size: Size) -> Iterator[dict[str, Any]]:
    """Yield the products, the most wanted first: a few seeds of the paper's experiments, of our own, then more seeds."""
    few = min(FEW, size.seeds)
    seeds = [*range(1, few + 1)]
    yield from _paper(seeds, size)
    for name, variant in VARIANTS.items():
        if not size.quick or variant.quick:
            yield _changed(name, variant, seeds, size)
    if not size.quick:
        yield from _above(seeds)
        yield _base([few_jobs(PHASE_LOAD)], (STRICT, PAIRED), seeds)
    if size.seeds > few:
        more = [*range(few + 1, size.seeds + 1)]
        yield from _paper(more, size)
        if not size.quick:  # these are claims, too
            yield _changed(RR_DYNAMIC, VARIANTS[RR_DYNAMIC], more, size)
            yield from _above(more)


def _changed(name: str, variant: Variant, seeds: Sequence[int], size: Size) -> dict[str, Any]:
    """Return the runs of a variant."""
    workloads = [item for item in variant.workloads if not size.quick or item in _quick_workloads()]
    return {"variants": [name], "workloads": workloads, "policies": variant.policies, "seeds": seeds}


def _above(seeds: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield the runs above a load of 1."""
    yield _base([dynamic(HOMOGENEOUS, load) for load in ABOVE], (STRICT, BARE, PAIRED), seeds)
    yield _base([dynamic(HETEROGENEOUS, load) for load in ABOVE], (STRICT, PAIRED), seeds)


def _paper(seeds: Sequence[int], size: Size) -> Iterator[dict[str, Any]]:
    """Yield the paper's experiments."""
    loads = (LOADS[0], LOADS[-1]) if size.quick else LOADS
    yield _base([mix(io_jobs) for io_jobs in MIXES], MATCHINGS, seeds)
    yield _base([alone(IO), alone(COMPUTE)], (STRICT,), seeds)
    yield _base([dynamic(HOMOGENEOUS, load) for load in loads], MAIN, seeds)
    yield _base([dynamic(HETEROGENEOUS, load) for load in loads], (STRICT, PAIRED, NODE), seeds)
    if size.quick:
        return
    yield _base([dynamic(program, PHASE_LOAD) for program in (QCRD, QCRD_EVEN)], MAIN, seeds)
    yield _base([copies(run_s) for run_s in RUNS_S], (STRICT, PAIRED), seeds)
    heterogeneous = [dynamic(HETEROGENEOUS, load) for load in loads]
    yield _base([dynamic(HOMOGENEOUS, load) for load in loads], OTHERS, seeds)
    yield _base(heterogeneous, (BARE, *OTHERS), seeds)
    yield _base([dynamic(program, PHASE_LOAD) for program in (QCRD, QCRD_EVEN)], OTHERS, seeds)
    yield _base([mix(io_jobs, iterations=PAPER) for io_jobs in MIXES], MATCHINGS, seeds)
    yield _base([mix(io_jobs, other) for other in SIZES if other != SIZE for io_jobs in MIXES], (STRICT, PAIRED), seeds)
    yield _base(
        [mix(io_jobs, grain=grain) for grain in GRAINS if grain != GRAIN for io_jobs in MIXES], (STRICT, PAIRED), seeds
    )
    yield _base([longer(1), longer(2)], (BEST,), seeds)
    yield _base(FINE_PAIRS, (STRICT, BEST, PAIRED), seeds)


def _base(workloads: Sequence[str], policies: Sequence[str], seeds: Sequence[int]) -> dict[str, Any]:
    return {"variants": [BASE], "workloads": workloads, "policies": policies, "seeds": seeds}


def _quick_workloads() -> frozenset[str]:
    return frozenset(mix(io_jobs) for io_jobs in MIXES)
