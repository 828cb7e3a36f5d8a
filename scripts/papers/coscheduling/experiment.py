"""The experiment of the coscheduling reproduction: which runs there are, and in which order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from scripts.papers.coscheduling.names import (
    AWARE,
    AWARE_100,
    BASE,
    BATCH,
    CC,
    CLASSES,
    DRIVEN,
    EASY,
    FULL,
    GANG,
    HIGH,
    HYBRID,
    JOBS,
    LIGHT,
    LONG,
    NLS,
    PACKED,
    PB,
    PLACEMENTS,
    PROGRAMS,
    QUEUES,
    SB,
    SCATTERED,
    SKIP,
    STRICT,
    STRICT_POLICIES,
    UNAWARE,
    USELESS,
    WIDE,
    cell,
    copies,
    fewer,
    of_class,
)
from scripts.papers.coscheduling.published import BUSY_W, IDLE_W, NODES
from scripts.papers.coscheduling.variants import VARIANTS
from scripts.papers.study import Size

from cosched_emulator.workload.nas import NODE_MB, TABLE_2

ALL_JOBS: Final = 100
QUICK_JOBS: Final = 16
QUICK_WINDOW_S: Final = 15.0  # at most, instead of the usual time, for which nodes are simulated after a change
SEEDS: Final = 20
FEW: Final = 5  # seeds of run and execution times
FULL_SEEDS: Final = 20  # configurations of full nodes
SWEEP_SEEDS: Final = 6  # configurations of the sensitivity experiments
WIDE_SEEDS: Final = 3
SMALL: Final = 20  # jobs of X3, X4 and X6
COPIES: Final = 3
FULL_JOBS: Final = 12
FULL_S: Final = 160.0  # simulated of full nodes
QUICK_FULL_S: Final = 30.0
NAMES: Final[Mapping[str, str]] = {name: name.lower() for name in DRIVEN}
WIDER: Final = 4  # times as many nodes and jobs
# Programs of class C that last longer than full nodes are simulated, also on 16 nodes with a third of the CPU.
LASTING: Final = ("CG.C", "SP.C", "MG.C", "BT.C", "LU.C")
USUAL: Final = {"variant": BASE}


class Product(NamedTuple):
    """Some of the runs."""

    stage: str
    workloads: Sequence[str]
    policies: Sequence[str]
    seeds: Sequence[int]
    variant: str = BASE

    @property
    def table(self) -> dict[str, Any]:
        """Return it as a study takes it."""
        return {
            "variants": [self.variant],
            "workloads": [*self.workloads],
            "policies": [*self.policies],
            "seeds": [*self.seeds],
        }


def experiment(size: Size, _logs: Path | None = None) -> dict[str, Any]:
    """Return the table of the study. A seed draws jobs, bursts, and when daemons and ticks of nodes begin."""
    return {
        "title": "Communication-driven coscheduling",
        "scenario": {
            "cluster": {
                "nodes": NODES,
                "preset": "1x1x3",
                "memory_mb": NODE_MB,
                "idle_w": IDLE_W,
                "busy_w": BUSY_W,
            },
            "time_sharing": {**TIME_SHARING, **({"window_max_s": QUICK_WINDOW_S} if size.quick else {})},
        },
        "workloads": [{"name": name, **sections} for name, sections in workloads(size).items()],
        "variants": [
            {"name": BASE},
            *({"name": name, **variant.scenario} for name, variant in VARIANTS.items()),
        ],
        "policies": [*policies()],
        "seeds": f"1-{max(size.seeds, 1 if size.quick else FULL_SEEDS)}",
        "runs": [product.table for product in products(size)],
        "baseline": {
            "policy": cell(BATCH, STRICT),
            "runs": [{"workloads": [HIGH], "variants": [BASE], "policies": COMPARED}],
        },
        "measures": ["scripts.papers.coscheduling.measures:figures"],
    }


def stages(size: Size) -> list[str]:
    """Return the stage of each product of the experiment, in order."""
    return [product.stage for product in products(size)]


# ---------------------------------------------------------------- nodes, workloads and policies

TIME_SHARING: Final[Mapping[str, Any]] = {
    "nodes": "windows",
    "local": "linux-epochs",
    "quantum_s": 1.0,  # of gang scheduling; switches cost the share that they have of 0.1 s
    "refill_us": 300,
    "network_mb_s": 80,
    "rendezvous_bytes": 16_384,
    "daemon_us": 2_000,
    "daemon_period_us": 1_000_000,
    "memory_mb": NODE_MB,
}


def workloads(size: Size) -> dict[str, dict[str, Any]]:
    """Return the scenario sections of the workloads by name."""
    jobs, small = size.jobs, small_jobs(size)
    found = {
        HIGH: _nas(jobs, 100.0),
        LIGHT: _nas(jobs, 250.0),
        LONG: _nas(small, 500.0, nas_programs=["BlockSolve95", "sPPM", "LU.B", "LU.C"]),
        **{of_class(name): _nas(small, 100.0, nas_classes=[name]) for name in CLASSES},
        **{copies(name): _nas(COPIES, 0.0, nas_programs=[f"{name}.C.16"]) for name in PROGRAMS},
        AWARE: _nas(small, 100.0, nas_programs=[*TABLE_2]),
        UNAWARE: _nas(small, 100.0, nas_programs=[*TABLE_2], memory="unaware"),
        AWARE_100: _nas(jobs, 100.0, nas_programs=[*TABLE_2]),
        **{fewer(count): _nas(max(jobs * count // ALL_JOBS, 1), 100.0) for count in JOBS},
        USELESS: _nas(jobs, 100.0, estimates="day"),
    }
    stop_s = QUICK_FULL_S if size.quick else FULL_S
    found[FULL] = {
        **_nas(FULL_JOBS, 0.0, nas_programs=LASTING),
        "time_sharing": {"nodes": "exact"},
        "script": [{"at_s": stop_s, "do": "cancel", "job": job} for job in range(1, FULL_JOBS + 1)],
    }
    found[WIDE] = {**_nas(WIDER * jobs, 100.0 / WIDER), "cluster": {"nodes": WIDER * NODES}}
    return found


def small_jobs(size: Size) -> int:
    """Return the number of jobs of X3, X4 and X6."""
    return min(SMALL, max(size.jobs // 2, 1))


def _nas(jobs: int, gap_s: float, **settings: Any) -> dict[str, Any]:
    return {"workload": {"nas": jobs, "gap_s": gap_s, **settings}}


def policies() -> Iterator[dict[str, Any]]:
    """Yield what a study needs to know of each policy."""
    backfills = {STRICT: "none", SKIP: "skip", EASY: "easy"}
    placements = {PACKED: "contiguous", SCATTERED: "scattered"}
    for queue in (STRICT, SKIP):
        for at in PLACEMENTS:
            for name in DRIVEN:
                yield {
                    "name": cell(name, queue, at),
                    "policy": "coscheduling",
                    "set": [f"backfill={backfills[queue]}", f"placement={placements[at]}"],
                    "time_sharing": {"coscheduling": NAMES[name]},
                }
    for queue in (STRICT, SKIP):
        skip = str(queue == SKIP).lower()
        yield {"name": cell(GANG, queue), "policy": "gang-contiguous", "set": [f"backfill.skip={skip}"]}
    for queue in QUEUES:
        yield {"name": cell(BATCH, queue), "policy": "batch-contiguous", "set": [f"backfill={backfills[queue]}"]}


# ---------------------------------------------------------------- runs

SKIPPING: Final = [cell(name, SKIP, at) for at in PLACEMENTS for name in DRIVEN]
SKIPPING_PACKED: Final = [cell(name, SKIP) for name in DRIVEN]
OTHERS: Final = [cell(GANG, SKIP), cell(BATCH, STRICT)]
COMPARED: Final = [*SKIPPING_PACKED, cell(GANG, SKIP), cell(BATCH, SKIP)]  # with strict batch, job by job
MORE: Final = [cell(GANG, STRICT), cell(BATCH, SKIP), cell(BATCH, EASY)]
STRICTS: Final = [cell(name, STRICT, at) for at in PLACEMENTS for name in STRICT_POLICIES]
STRICTS_PACKED: Final = [cell(name, STRICT) for name in STRICT_POLICIES]
OF_CLASSES: Final = [*(cell(name, SKIP) for name in (HYBRID, SB, CC)), *OTHERS]
QUICK_COPIES: Final = ("CG", "EP")


def products(size: Size) -> list[Product]:
    """Return the products, the most wanted first."""
    return [*(_quick(size) if size.quick else _all(size))]


def _quick(size: Size) -> Iterator[Product]:
    seeds = [*range(1, size.seeds + 1)]
    yield Product("X1", [HIGH], [*SKIPPING_PACKED, *OTHERS, cell(BATCH, SKIP), cell(HYBRID, SKIP, SCATTERED)], seeds)
    yield Product("X4", [of_class("C")], OF_CLASSES, seeds)
    yield Product("X6", [AWARE, UNAWARE], [cell(HYBRID, SKIP), cell(NLS, SKIP), cell(GANG, SKIP)], seeds)
    yield Product("X6", [AWARE], [cell(BATCH, STRICT)], seeds)
    few = [cell(name, SKIP) for name in (HYBRID, SB, PB, NLS)]
    yield Product("X5", [copies(name) for name in QUICK_COPIES], few, seeds)
    yield Product("full", [FULL], SKIPPING_PACKED, seeds)


def _all(size: Size) -> Iterator[Product]:
    few = [*range(1, min(FEW, size.seeds) + 1)]
    rest = [*range(FEW + 1, size.seeds + 1)]
    yield Product("X1", [HIGH], [*SKIPPING, *OTHERS, *MORE], few)
    yield Product("X5", [copies(name) for name in PROGRAMS], [*SKIPPING_PACKED, cell(GANG, SKIP)], few)
    yield Product("full", [FULL], SKIPPING_PACKED, range(1, FULL_SEEDS + 1))
    yield from _small(few)
    yield Product("X2", [LIGHT], [*SKIPPING, *OTHERS], few)
    yield Product("strict", [HIGH], STRICTS, few)
    for name, variant in VARIANTS.items():
        if variant.workload == FULL:
            chosen = [cell(policy, SKIP) for policy in variant.policies]
            yield Product("sensitivity", [FULL], chosen, range(1, SWEEP_SEEDS + 1), name)
    yield Product("full", [FULL], [cell(name, SKIP, SCATTERED) for name in DRIVEN], range(1, FULL_SEEDS + 1))
    yield from _own(few)
    if rest:
        yield Product("X1 rest", [HIGH], [*SKIPPING, *OTHERS, *MORE], rest)
        for product in _small(rest):
            yield product._replace(stage=f"{product.stage} rest")
        yield Product("X2 rest", [LIGHT], [*SKIPPING, *OTHERS], rest)
        yield Product("strict rest", [HIGH], STRICTS, rest)


def _small(seeds: Sequence[int]) -> Iterator[Product]:
    """Yield the experiments of 20 jobs."""
    yield Product("X4", [of_class(name) for name in CLASSES], OF_CLASSES, seeds)
    yield Product(
        "X6", [AWARE, UNAWARE], [*SKIPPING_PACKED, cell(GANG, SKIP), *STRICTS_PACKED, cell(GANG, STRICT)], seeds
    )
    yield Product("X6", [AWARE], [cell(BATCH, STRICT), cell(BATCH, SKIP)], seeds)
    yield Product("X3", [LONG], OF_CLASSES, seeds)


def _own(seeds: Sequence[int]) -> Iterator[Product]:
    """Yield experiments that the paper does not have."""
    main = [cell(HYBRID, SKIP), cell(BATCH, STRICT)]
    yield Product("own", [fewer(jobs) for jobs in JOBS], main, seeds)
    yield Product("own", [AWARE_100], main, seeds)
    yield Product("own", [USELESS], [cell(BATCH, STRICT), cell(BATCH, EASY)], seeds)
    for name, variant in VARIANTS.items():
        if variant.workload == HIGH:
            yield Product("own", [HIGH], [cell(policy, SKIP) for policy in variant.policies], seeds[:2], name)
    wide = [cell(name, SKIP) for name in (HYBRID, SB, CC)]
    yield Product("own", [WIDE], [*wide, *OTHERS], seeds[:WIDE_SEEDS])
