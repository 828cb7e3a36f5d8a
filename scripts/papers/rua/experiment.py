"""The experiment of the RUA reproduction: which runs there are, and in which order."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final

from scripts.papers.figures import Figures, Where
from scripts.papers.study import BASE, Product, Size, Variant, policies_of, tables_of, variants_of

JOBS: Final = 20_000  # the first half warms up, the second is measured
QUICK_JOBS: Final = 2_000
SEEDS: Final = 5
QUICK_SEEDS: Final = 1
WORKERS: Final = os.cpu_count() or 1
LOGS: Final = {"CTC": ("CTC-SP2-1996-3.1-cln.swf.gz", 338), "BLUE": ("SDSC-BLUE-2000-4.2-cln.swf.gz", 1152)}
MIXES: Final = ("HIGH", "MED", "LOW")
WORKLOADS: Final = tuple(f"{log} {mix}" for log in LOGS for mix in MIXES)
# Window -> the jobs before it, in lengths of a window: the paper does not say which 20,000 jobs it has. The first three are the first
# 60,000 jobs of a log, and do not overlap. Those of the others that are measured are in no other window, their warm-up is: the shorter
# log has no more jobs, and an interval needs more windows than three.
STARTS: Final = {1: 0.0, 2: 1.0, 3: 2.0, 4: 0.5, 5: 1.5, 6: 2.5}
WINDOWS: Final = tuple(STARTS)
APART: Final = WINDOWS[:3]
HARD: Final = tuple(name for name in WORKLOADS if not name.endswith("LOW"))
MED: Final = tuple(name for name in WORKLOADS if name.endswith("MED"))
POLICIES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "FF": ("sjbf", ()),
    "LC": ("lc", ()),
    "LCT=1": ("lct", ("placement.threshold=1.0",)),
    "LCT=1.15": ("lct", ("placement.threshold=1.15",)),
    "LCT=1.25": ("lct", ("placement.threshold=1.25",)),
    "LCT=1.5": ("lct", ("placement.threshold=1.5",)),
    "RUA": ("rua", ()),
    # Within this threshold every place is: that of first fit, with the limits of LC.
    "FF extends": ("lct", ("placement.threshold=100",)),
}
MAIN: Final = ("FF", "LC", "RUA")
LCT: Final = tuple(name for name in POLICIES if name.startswith("LCT"))
FF_EXTENDS: Final = "FF extends"


def _demand(mbs: int) -> Mapping[str, Mapping[str, Any]]:
    return {"workload": {"demand_high": [mbs, 0, 0]}}


_STEPS: Final = "placement.limit_factors=[1.15, 1.2, 1.25, 1.5]"
_FROM_1: Final = "backfill.thresholds=[1.0, 1.15, 1.2, 1.25, 1.5]"

# The readings of what a limit is extended by, of whose limits are, and of what LC and RUA search for; in the order in which they are
# run. Runs of LC under one reading and of RUA under another make a comparison: `report.combinations` has all.
# fmt: off
READINGS: Final[Mapping[str, Variant]] = {
    "threshold": Variant("RUA extends by the lowest threshold that the place meets", {}, (_STEPS,), HARD, ["RUA"]),
    "control": Variant("FF and LC extend as RUA does under *threshold*", {}, (_STEPS,), HARD, ["LC", FF_EXTENDS]),
    "none": Variant("LC extends no limits", {}, ("placement.extend_limit=false",), HARD, ["LC"]),
    "from 1.0": Variant("RUA's thresholds begin with 1.0", {}, (_FROM_1,), HARD, ["RUA"]),
    "from 1.0 by threshold": Variant("the same, and RUA extends by the lowest threshold that the place meets", {},
        (_FROM_1, "placement.limit_factors=[1.0, 1.15, 1.2, 1.25, 1.5]"), HARD, ["RUA"]),
    "at least 1.15": Variant("FF and LC extend by the factor found, and by 1.15 at least", {}, ("placement.limit_factors=[1.15]",),
        HARD, ["LC", FF_EXTENDS]),
    "may wait": Variant("LC starts later where its expected end is then earlier", {}, ("placement.may_wait=true",), HARD, ["LC"]),
}
# fmt: on
# What a process of a *high* job demands, 2,000 MB/s elsewhere: with the control, by name the windows.
_DEMANDED: Final = (*MAIN, FF_EXTENDS)
PRINTED_DEMAND: Final = "1677"  # of which Table 5's 11.8 % of FF, BLUE HIGH, follows
DEMANDS: Final[Mapping[str, tuple[Variant, Sequence[int]]]] = {
    PRINTED_DEMAND: (Variant("1,677 MB/s", _demand(1677), (), WORKLOADS, _DEMANDED), WINDOWS),
    "1800": (Variant("1,800 MB/s", _demand(1800), (), HARD, _DEMANDED), APART),
}
# What the paper leaves open beside that; the first window only.
VARIANTS: Final[Mapping[str, Variant]] = {
    "430": Variant(
        "CTC on 430 processors, as in the log's older editions",
        {"cluster": {"processors": 430}},
        workloads=["CTC MED", "CTC HIGH"],
        policies=MAIN,
    ),
    "paper": Variant(
        "composition `paper`: every node progresses by itself", {"truth": {"composition": "paper"}}, (), MED, MAIN
    ),
    "uncapped": Variant(
        "run times as logged, above the estimate too", {"workload": {"cap_runs": False}}, (), MED, MAIN
    ),
}
OPEN: Final = {**{name: variant for name, (variant, _) in DEMANDS.items()}, **VARIANTS}
USUAL: Final = {"variant": BASE}

in_window: Final = "{} {}".format  # name of a workload in one window of its log


def experiment(size: Size, logs: Path) -> dict[str, Any]:
    """Return the table of the study, with logs in a folder. A seed draws the demand."""
    return {
        "title": "Resource-Usage-Aware backfilling on two logs",
        "scenario": {
            "cluster": {"preset": "rua-4way"},
            "workload": {"jobs": size.jobs},
            "results": {"warmup": size.jobs // 2},
        },
        "workloads": [
            {
                "name": in_window(f"{log} {mix}", window),
                "workload": {"swf": str(logs / file), "mix": mix.lower(), "first": round(STARTS[window] * size.jobs)},
                "cluster": {"processors": processors},
            }
            for log, (file, processors) in LOGS.items()
            for mix in MIXES
            for window in WINDOWS
        ],
        "variants": variants_of({**READINGS, **OPEN}),
        "policies": policies_of(POLICIES),
        "seeds": f"1-{size.seeds}",
        "runs": tables_of(products(size)),
        "baseline": {"policy": "FF", "runs": [Product("harm", in_windows(MED, [1]), MAIN, [min(2, size.seeds)]).table]},
        "measures": ["scripts.papers.rua.measures:figures"],
    }


def windows_of(figures: Figures, demand: str) -> list[int]:
    """Return the windows in which all of a demand has run, at HIGH and MED."""
    variant, windows = DEMANDS[demand]
    cells = [*product([name for name in variant.workloads if name in HARD], variant.policies)]
    return [
        window
        for window in windows
        if all(figures.seeds(Where(in_window(name, window), policy, demand)) for name, policy in cells)
    ]


def products(size: Size) -> Iterator[Product]:
    """Yield the products, the ones that decide most first."""
    if size.quick:
        first = in_windows(WORKLOADS, WINDOWS[:1])
        yield Product("main", first, MAIN, [1])
        yield Product("thresholds", first, LCT, [1])
        return
    low = [name for name in WORKLOADS if name not in HARD]
    for some, stage in ((HARD, ""), (low, "low ")):
        for windows, more in ((APART, ""), (WINDOWS[len(APART) :], " more")):
            for each in _seed_1(in_windows(some, windows)):
                yield each._replace(stage=f"{stage}{each.stage} 1{more}")
        if size.seeds > 1:
            yield Product(f"{stage}main rest", in_windows(some, APART), MAIN, range(2, size.seeds + 1))
    for name, (variant, demanded) in DEMANDS.items():
        for some in (HARD, low):
            wanted = [workload for workload in variant.workloads if workload in some]
            for window in demanded if wanted else ():
                yield Product(f"demand {name}", in_windows(wanted, [window]), variant.policies, [1], [name])
    for name, variant in VARIANTS.items():
        first = in_windows(variant.workloads, WINDOWS[:1])
        yield Product(f"experiment {name}", first, variant.policies, [1], [name])


def in_windows(workloads: Sequence[str], windows: Sequence[int]) -> list[str]:
    """Return the names of workloads in some windows of their logs."""
    return [in_window(name, window) for window in windows for name in workloads]


def _seed_1(workloads: Sequence[str]) -> Iterator[Product]:
    """Yield what one seed is enough for: windows of a log differ more than seeds do."""
    yield Product("main", workloads, MAIN, [1])
    for name, variant in READINGS.items():
        yield Product(name, workloads, variant.policies, [1], [name])
    yield Product("FF extends", workloads, [FF_EXTENDS], [1])
    yield Product("thresholds", workloads, LCT, [1])
