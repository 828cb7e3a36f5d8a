"""The experiment of the RUA reproduction: which runs there are, and in which order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from scripts.papers.study import Size

JOBS: Final = 20_000  # the first half warms up, the second is measured
QUICK_JOBS: Final = 2_000
SEEDS: Final = 3
LOGS: Final = {"CTC": ("CTC-SP2-1996-3.1-cln.swf.gz", 338), "BLUE": ("SDSC-BLUE-2000-4.2-cln.swf.gz", 1152)}
MIXES: Final = ("HIGH", "MED", "LOW")
WORKLOADS: Final = tuple(f"{log} {mix}" for log in LOGS for mix in MIXES)
_HIGH, _MED = ([f"{log} {mix}" for log in LOGS] for mix in MIXES[:2])
POLICIES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "FF": ("sjbf", ()),
    "LC": ("lc", ()),
    "LCT=1": ("lct", ("placement.threshold=1.0",)),
    "LCT=1.15": ("lct", ("placement.threshold=1.15",)),
    "LCT=1.25": ("lct", ("placement.threshold=1.25",)),
    "LCT=1.5": ("lct", ("placement.threshold=1.5",)),
    "RUA": ("rua", ()),
}
MAIN: Final = ("FF", "LC", "RUA")
LCT: Final = tuple(name for name in POLICIES if name not in MAIN)
BASE: Final = "base"


class Variant(NamedTuple):
    """What a variant changes: scenario sections and settings of the policy; and which runs it has."""

    text: str
    scenario: Mapping[str, Mapping[str, Any]] = {}
    settings: Sequence[str] = ()
    workloads: Sequence[str] = _MED
    policies: Sequence[str] = MAIN


def _demand(mbs: int) -> Mapping[str, Mapping[str, Any]]:
    return {"workload": {"demand_high": [mbs, 0, 0]}}


# In the order in which they are run.
VARIANTS: Final[Mapping[str, Variant]] = {
    "1700": Variant("high demand 1,700 MB/s a process instead of 2,000", _demand(1700), workloads=[*_MED, *_HIGH]),
    "1800": Variant("high demand 1,800 MB/s a process", _demand(1800)),
    "1677": Variant("high demand 1,677 MB/s a process: a largest penalty of 11.8 %", _demand(1677)),
    "ff-extends": Variant("FF extends limits as the others do", {}, ("placement.extend_limit=true",), policies=["FF"]),
    "no-limits": Variant("LC and RUA extend no limits", {}, ("placement.extend_limit=false",), policies=["LC", "RUA"]),
    "430": Variant(
        "CTC on 430 processors, as in the log's older editions",
        {"cluster": {"processors": 430}},
        workloads=["CTC MED", "CTC HIGH"],
    ),
    "paper": Variant("composition `paper`: every node progresses by itself", {"truth": {"composition": "paper"}}),
    "uncapped": Variant("run times as logged, above the estimate too", {"workload": {"cap_runs": False}}),
    "window": Variant("jobs 30,000 to 50,000 of the log", {"workload": {"first": 30_000}}),
}
USUAL: Final = {"variant": BASE}


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
                "name": f"{log} {mix}",
                "workload": {"swf": str(logs / file), "mix": mix.lower()},
                "cluster": {"processors": processors},
            }
            for log, (file, processors) in LOGS.items()
            for mix in MIXES
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
        "baseline": {"policy": "FF", "runs": [{"variants": [BASE], "policies": MAIN}]},
        "measures": ["scripts.papers.rua.measures:figures"],
    }


def _products(size: Size) -> Iterator[dict[str, Any]]:
    """Yield the products, the most wanted first: the main policies, the thresholds, then what explains them, with one seed."""
    seeds = f"1-{size.seeds}"
    yield {"variants": [BASE], "policies": MAIN, "workloads": [*_MED, *_HIGH], "seeds": seeds}
    yield {"variants": [BASE], "policies": MAIN, "workloads": [f"{log} LOW" for log in LOGS], "seeds": seeds}
    yield {"variants": [BASE], "policies": LCT, "seeds": seeds}
    if not size.quick:
        for name, variant in VARIANTS.items():
            yield {
                "variants": [name],
                "policies": variant.policies,
                "workloads": variant.workloads,
                "seeds": seeds if name in ("1700", "1800") else [1],
            }
