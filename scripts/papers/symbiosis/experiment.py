"""The study of symbiosis: which runs there are, and in which order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from scripts.papers.lomarc.experiment import AARR, BASE, BELIEFS, EXACT, FORMS
from scripts.papers.rua.experiment import in_window
from scripts.papers.study import Size

JOBS: Final = 8_000
QUICK_JOBS: Final = 500
SEEDS: Final = 10
TUNED: Final = 3  # seeds with which settings were chosen; not those of this study
FEW: Final = 5  # seeds of what explains
HARMED: Final = 3  # seeds whose jobs are compared with those of shaken baselines
VARIANTS_TRIED: Final = 56  # compositions and settings that were run on W2 with the tuning seeds
MODELS: Final = ("W1", "W2", "W3")
# Log -> file, nodes (one for each processor of the log), and jobs between the begins of its windows.
LOGS: Final = {
    "SDSC-SP2": ("SDSC-SP2-1998-4.2-cln.swf.gz", 128, 12_000),
    "BLUE": ("SDSC-BLUE-2000-4.2-cln.swf.gz", 1_152, 40_000),
    "CTC": ("CTC-SP2-1996-3.1-cln.swf.gz", 430, 14_000),
}
LOG_JOBS: Final = 5_000  # of a window
WINDOWS: Final = 5
EASY: Final = "EASY"
EASY_SHORTEST: Final = "EASY, shortest first"
U1_SHORTEST: Final = "L-U1, shortest first"
SYMBIOSIS: Final = "symbiosis"
EXPRESS: Final = "symbiosis, express"
SUSPENDING: Final = {
    EXPRESS: ("symbiosis-express", (), "short jobs stop others, in place or on disk"),
    "EASY, suspending": ("easy-suspending", (), "the same, and no two share nodes"),
    "suspending, unreserved": ("easy-suspending-unreserved", (), "the same without a reservation"),
}
PAPERS: Final = ("L-R", "L-U1")
_WITHOUT: Final[Mapping[str, tuple[str, str]]] = {
    "in order": ("order=fcfs", "first come, first served"),
    "one host": ("matching.hosts=1", "one host a guest"),
    "no pairs": ("matching.pairs=false", "no two start together"),
    "no empty nodes": ("matching.empty_nodes=false", "guests take no empty nodes besides"),
    "nobody brief": ("matching.brief_s=0", "no guest without gain, however brief"),
    "any price": ("matching.budget=1000", "no budget of hosts"),
}
POLICIES: Final[Mapping[str, tuple[str, Sequence[str], str]]] = {
    EASY: ("easy", ("shape=nodes",), "the baseline: every job on nodes of its own"),
    EASY_SHORTEST: ("easy-shortest", (), "the same, shortest estimate first: symbiosis without sharing"),
    "L-R": ("lomarc-r", (), "LOMARC by response, the best of the papers' on W2"),
    "L-U1": ("lomarc-u1", (), "LOMARC by utilisation gain"),
    U1_SHORTEST: ("lomarc-u1-shortest", (), "the same, shortest estimate first"),
    SYMBIOSIS: ("symbiosis", (), "cosched's own"),
    **SUSPENDING,
    **{f"{SYMBIOSIS}, {name}": ("symbiosis", (setting,), text) for name, (setting, text) in _WITHOUT.items()},
}
MAIN: Final = (EASY, EASY_SHORTEST, *PAPERS, U1_SHORTEST, SYMBIOSIS)
ABLATED: Final = tuple(name for name in POLICIES if name not in (*MAIN, *SUSPENDING))
WHOLE: Final = "whole"  # the other form of the slowdown
NOISE: Final = "noise .3"
WRONG: Final = (NOISE, "pairs unknown", "usage unknown")
# What a suspension costs, by two sums. Plausible: a second for signals on all nodes; a minute, as in the study of G-LOMARC-TS, takes
# 15 GB of a node's memory to an SSD and back at 500 MB/s. High: 4 GB that are paged in at 400 MB/s; 64 GB at 200 MB/s.
PRICES: Final = {
    "plausible price": {"switch_s": 1.0, "resume_s": 60.0},
    "high price": {"switch_s": 10.0, "resume_s": 640.0},
}
USUAL: Final = {"variant": BASE, "belief": EXACT}


def experiment(size: Size, logs: Path) -> dict[str, Any]:
    """Return the table of the study. A seed draws jobs of the model, and characteristics; a window of a log has one."""
    return {
        "title": "Symbiosis against fair baselines",
        "scenario": {
            "cluster": {"nodes": 128, "preset": "lomarc-ht"},
            "workload": {"characteristics": "M1"},
            "truth": {"contention": "lomarc", "remainder": False, "c_scope": "all"},
        },
        "workloads": [
            *({"name": name, "workload": {"lublin": size.jobs, "aarr": AARR[name]}} for name in MODELS),
            *_windows(size, logs),
        ],
        "beliefs": [{"name": name, "belief": values} for name, (_, values) in BELIEFS.items()],
        "variants": [{"name": BASE}, {"name": WHOLE, "truth": dict(FORMS[WHOLE][1])}, *_prices()],
        "policies": [
            {"name": name, "policy": preset, "set": [*settings]} for name, (preset, settings, _) in POLICIES.items()
        ],
        "seeds": [*_seeds(size.seeds)],
        "runs": [*_products(size)],
        "baseline": {
            "policy": EASY,
            "runs": [
                {
                    "workloads": [*MODELS],
                    "variants": [BASE],
                    "beliefs": [EXACT],
                    "policies": [EASY_SHORTEST, "L-R", U1_SHORTEST, SYMBIOSIS],
                    "seeds": [*_seeds(min(HARMED, size.seeds))],
                }
            ],
        },
        "measures": ["scripts.papers.symbiosis.measures:figures"],
    }


def _prices() -> list[dict[str, Any]]:
    return [{"name": name, "preemption": dict(costs)} for name, costs in PRICES.items()]


def _seeds(count: int) -> range:
    return range(TUNED + 1, TUNED + 1 + count)


def _windows(size: Size, logs: Path) -> Iterator[dict[str, Any]]:
    jobs = min(LOG_JOBS, size.jobs)
    for log, (file, nodes, apart) in LOGS.items():
        for window in range(1, WINDOWS + 1):
            workload = {"swf": str(logs / file), "first": (window - 1) * apart, "jobs": jobs}
            yield {"name": in_window(log, window), "cluster": {"nodes": nodes}, "workload": workload}


def _products(size: Size) -> Iterator[dict[str, Any]]:
    """Yield the products, the most wanted first."""
    base = {"variants": [BASE], "beliefs": [EXACT]}
    seeds, few = [*_seeds(size.seeds)], [*_seeds(min(FEW, size.seeds))]
    yield {**base, "workloads": ["W2"], "policies": [*MAIN], "seeds": seeds}
    if size.quick:
        return
    windows = [in_window(log, window) for log in LOGS for window in range(1, WINDOWS + 1)]
    yield {**base, "workloads": windows, "policies": [*MAIN], "seeds": few[:1]}
    yield {**base, "workloads": ["W1", "W3"], "policies": [*MAIN], "seeds": seeds}
    yield {**base, "workloads": ["W2"], "policies": [*ABLATED], "seeds": few}
    unshared = {"policies": [U1_SHORTEST, SYMBIOSIS], "workloads": ["W2"], "seeds": few}
    yield {"workloads": ["W2"], "beliefs": [EXACT], "variants": [BASE, *PRICES], "policies": [EXPRESS], "seeds": seeds}
    yield {**base, "workloads": ["W2"], "policies": [*SUSPENDING][1:], "seeds": few}
    yield {**unshared, "variants": [WHOLE], "beliefs": [EXACT]}
    yield {**unshared, "variants": [BASE], "beliefs": [*WRONG]}
