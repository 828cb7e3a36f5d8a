"""The study on measured co-runs: which runs there are, and in which order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from scripts.papers.hardware.co_runs import aris_file, marconi_file, speedups, sub_map
from scripts.papers.hardware.published import TABLE_2
from scripts.papers.study import BASE, Product, Size, beliefs_of, policies_of, tables_of

JOBS: Final = 500
QUICK_JOBS: Final = 60
SEEDS: Final = 4
FEW: Final = 3  # seeds of what explains
SHUFFLES: Final = 4
# By name: numbers of processes, and for whom.
ARIS: Final[Mapping[str, Sequence[int]]] = {
    "ARIS 256": (256,),
    "ARIS to 256": (64, 121, 128, 256),
    "ARIS to 1024": (64, 121, 128, 256, 484, 512, 1024),
    "ARIS all": (),
}
MIXED: Final = "ARIS to 1024"
MARCONI: Final = tuple(f"Marconi {mean}" for mean in TABLE_2)
WORKLOADS: Final = (*ARIS, *MARCONI)
SHOWN: Final = ("ARIS 256", MIXED, "Marconi 1.12")  # under all schedulers
EASY: Final = "EASY"
EASY_WIDEST: Final = "EASY, widest first"
SPREAD: Final = "spread alone"
LOMARC: Final = "LOMARC-R"
GLTS: Final = "GLTS"
ELISE: Final = "EASY co-scheduler"
CO_EXECUTION: Final = "co-execution"
CO_FCFS: Final = "co-execution, in order"
# fmt: off
POLICIES: Final[Mapping[str, tuple[str, Sequence[str], str]]] = {
    EASY: ("easy", ("shape=nodes",), "compact: every job on all cores of its nodes; the baseline"),
    EASY_WIDEST: ("easy", ("shape=nodes", "order=widest"), "the same with the largest jobs first"),
    SPREAD: ("spread", (), "half of the cores of twice the nodes, no job beside it"),
    LOMARC: ("lomarc-r", (), "nodes of half as many cores with two hardware threads each, so every job is spread; pairs by response"),
    GLTS: (
        "glts",
        ("slices=none", "fairness=none", "backfill=easy", "matching.short_s=0", "matching.space=false"),
        "groups of G-LOMARC-TS without time slices and fairness; jobs of any length, and without the comparison with all"
        " cores, as nothing is known of how jobs slow themselves down",
    ),
    ELISE: ("co-execution-easy", (), "every job spread, in queue order beside the neighbours with the best speedup, as published"),
    CO_EXECUTION: ("co-execution", (), "compact or spread by gain, no job believed to be slower than compact by more than 5 %"),
    CO_FCFS: ("co-execution", ("order=fcfs",), "the same in order of submission"),
}
# fmt: on
CONTEXTS: Final[Mapping[str, str]] = {"ARIS": "2x5x2", "Marconi": "2x12x2"}
EXACT: Final = "exact"
BELIEFS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    EXACT: ("the table", {}),
    "noise .05": ("ratios with a relative error of up to 0.05", {"pair_noise": 0.05}),
    "half missing": ("half of the pairs; the others are predicted from these, by `components`", {"pair_missing": 0.5}),
    "half missing, bilinear": (
        "the same half; the others are predicted by `bilinear`",
        {"pair_missing": 0.5, "pair_method": "bilinear"},
    ),
}
USUAL: Final = {"variant": BASE, "belief": EXACT}


def contexts(workload: str) -> str:
    """Return the variant whose nodes have two contexts a core, for LOMARC on this workload's machine."""
    return f"contexts {workload.split(maxsplit=1)[0]}"


shuffle: Final = "shuffle {}".format  # name of the variant with the jobs of the first seed in another order


def variant_of(workload: str, policy: str) -> str:
    """Return the variant in which a policy runs on a workload."""
    return contexts(workload) if policy == LOMARC else BASE


def experiment(size: Size, logs: Path | None = None) -> dict[str, Any]:
    """Return the table of the study. A seed draws the jobs, all of which are submitted at once."""
    return {
        "title": "Schedulers on measured co-runs",
        "scenario": {"workload": {"jobs": size.jobs, "gap_s": 0}, "truth": {"contention": "pairs"}},
        "workloads": [*_workloads(logs)],
        "beliefs": beliefs_of(BELIEFS),
        "variants": [
            {"name": BASE},
            *({"name": contexts(name), "cluster": {"preset": preset}} for name, preset in CONTEXTS.items()),
            *({"name": shuffle(k), "workload": {"shuffle_seed": k}} for k in range(1, SHUFFLES + 1)),
        ],
        "policies": policies_of(POLICIES),
        "seeds": f"1-{size.seeds}",
        "runs": tables_of(products(size)),
        "baseline": {"policy": EASY, "shakes": 0},
        "measures": ["scripts.papers.hardware.measures:figures"],
    }


def _workloads(logs: Path | None) -> Iterator[dict[str, Any]]:
    aris, marconi = str(aris_file(logs)), str(marconi_file(logs))
    for name, sizes in ARIS.items():
        yield {
            "name": name,
            "workload": {"applications": aris, "application_processes": [*sizes]},
            "cluster": {"nodes": 200, "preset": "2x10x1"},
            "truth": {"pairs": aris},
        }
    table = speedups(logs)
    for mean, name in zip(TABLE_2, MARCONI, strict=True):
        yield {
            "name": name,
            "workload": {"applications": marconi, "application_names": [*sub_map(table, float(mean))]},
            "cluster": {"nodes": 100, "preset": "2x24x1"},
            "truth": {"pairs": marconi},
        }


def products(size: Size) -> Iterator[Product]:
    """Yield the products, the most wanted first."""
    first = [EASY, ELISE, CO_EXECUTION]
    mixed = [name for name in ARIS if name != "ARIS 256"]  # in the others the widest are the first
    few = range(1, min(FEW, size.seeds) + 1)
    yield Product("base", (), first, beliefs=[EXACT])
    yield Product("orders", mixed, [EASY_WIDEST, CO_FCFS], beliefs=[EXACT])
    yield Product("others", SHOWN, [SPREAD], few, beliefs=[EXACT])
    if size.quick:
        return
    yield Product("others", SHOWN, [GLTS], beliefs=[EXACT])
    for machine in CONTEXTS:
        shown = [name for name in SHOWN if name.startswith(machine)]
        yield Product("others", shown, [LOMARC], (), [contexts(machine)], [EXACT])
    yield Product("orders", MARCONI, first, [1], [*map(shuffle, range(1, SHUFFLES + 1))], [EXACT])
    others = [name for name in BELIEFS if name != EXACT]
    yield Product("knowledge", [MIXED, "Marconi 1.12"], [ELISE, CO_EXECUTION], few, beliefs=others)
