"""The study of symbiosis: which runs there are, and in which order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from scripts.papers.glts.experiment import scenario_of as glts_scenario
from scripts.papers.hardware.co_runs import all_measured, aris_file
from scripts.papers.lomarc.experiment import AARR, EXACT, FORMS
from scripts.papers.lomarc.experiment import BELIEFS as OF_LOMARC
from scripts.papers.rua.experiment import in_window
from scripts.papers.study import BASE, Product, Size, beliefs_of, policies_of, tables_of

from cosched_hwmodel.measured.co_run_table import read_table

JOBS: Final = 8_000
QUICK_JOBS: Final = 500
QUICK_LOGS: Final = False
SEEDS: Final = 10
TUNED: Final = 3  # seeds with which settings were chosen; not those of this study
FRESH: Final = range(21, 31)  # seeds that no study, tuning or prototype of symbiosis had used before
FEW: Final = 5  # seeds of what explains
HARMED: Final = 3  # seeds whose jobs are compared with those of shaken baselines
VARIANTS_TRIED: Final = 61  # compositions and settings that were run on W2 with the tuning seeds
MODELS: Final = ("W1", "W2", "W3")
ANEW: Final = "W2, fresh seeds"
# Log -> file, nodes (one for each processor of the log), and jobs between the begins of its windows.
LOGS: Final = {
    "SDSC-SP2": ("SDSC-SP2-1998-4.2-cln.swf.gz", 128, 12_000),
    "BLUE": ("SDSC-BLUE-2000-4.2-cln.swf.gz", 1_152, 40_000),
    "CTC": ("CTC-SP2-1996-3.1-cln.swf.gz", 430, 14_000),
}
LOG_JOBS: Final = 5_000  # of a window
WINDOWS: Final = 5
# Measured co-runs of NAS applications as the truth, on nodes that two jobs may halve: names of the jobs of W2 and of SDSC-SP2, drawn.
NAS: Final = "NAS, W2"
NAS_LOG: Final = "NAS, SDSC-SP2"
NAS_CLUSTER: Final = {"nodes": 64, "preset": "1x2x1"}
GLTS_W1: Final = "G-LOMARC-TS, W1"
EASY: Final = "EASY"
EASY_SHORTEST: Final = "EASY, shortest first"
U1_SHORTEST: Final = "L-U1, shortest first"
SYMBIOSIS: Final = "symbiosis"
EXPRESS: Final = "symbiosis, express"
HALVES: Final = "symbiosis, halves"
IN_ORDER: Final = "co-execution, in order"
SPREAD: Final = "EASY, spread"
GLTS: Final = "GLTS"
PSS: Final = "PSS"
CORRECTED: Final = "corrected"
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
    "small budget": ("matching.budget=0.05", "5 % of a host's estimate, not 25 %"),
}
CORRECTING: Final = {
    f"{name}, {CORRECTED}": (preset, ("belief=corrected",), "the same, with a belief that is corrected")
    for name, preset in (("L-R", "lomarc-r"), (U1_SHORTEST, "lomarc-u1-shortest"), (SYMBIOSIS, "symbiosis"))
}
LEDGER: Final = f"{SYMBIOSIS}, ledger"
# fmt: off
POLICIES: Final[Mapping[str, tuple[str, Sequence[str], str]]] = {
    EASY: ("easy", ("shape=nodes",), "the baseline: every job on nodes of its own"),
    EASY_SHORTEST: ("easy-shortest", (), "the same, shortest estimate first: symbiosis without sharing"),
    "L-R": ("lomarc-r", (), "LOMARC by response, the best of the papers' on W2"),
    "L-U1": ("lomarc-u1", (), "LOMARC by utilisation gain"),
    U1_SHORTEST: ("lomarc-u1-shortest", (), "the same, shortest estimate first"),
    SYMBIOSIS: ("symbiosis", (), "cosched's own"),
    **SUSPENDING,
    **{f"{SYMBIOSIS}, {name}": ("symbiosis", (setting,), text) for name, (setting, text) in _WITHOUT.items()},
    LEDGER: ("symbiosis", ("matching.budget=0.05", "ledger=easy"), "the same, or 80 % of what the host is ahead of EASY"),
    HALVES: ("symbiosis-halves", (), "cosched's own on halves of nodes"),
    IN_ORDER: ("co-execution-shortest", ("order=fcfs",), "co-execution, first come, first served"),
    SPREAD: ("easy", ("shape=nodes", "placement=spread", "order=shortest"),
        "shortest first; a process on each node, CPU or core, as G-LOMARC-TS lays jobs out"),
    GLTS: ("glts", (), "G-LOMARC-TS"),
    PSS: ("pss", (), "L-R without sharing"),
    **CORRECTING,
}
# fmt: on
ON_HALVES: Final = (EASY, EASY_SHORTEST, IN_ORDER, HALVES)
ON_GLTS: Final = (GLTS, SPREAD, HALVES)
MAIN: Final = (EASY, EASY_SHORTEST, *PAPERS, U1_SHORTEST, SYMBIOSIS)
ABLATED: Final = (*[f"{SYMBIOSIS}, {name}" for name in _WITHOUT], LEDGER)
WHOLE: Final = "whole"  # the other form of the slowdown
NOISE: Final = "noise .3"
BELIEFS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    **OF_LOMARC,
    "noise .1": ("usage with a relative error of up to 0.1", {"usage_noise": 0.1}),
    "shuffled": ("of each job the usage of another one", {"usage": "shuffled"}),
    "inverted": ("of each job what it does not use", {"usage": "inverted"}),
}
WRONG: Final = tuple(name for name in BELIEFS if name != EXACT)
# What a suspension costs, by two sums. Plausible: a second for signals on all nodes; a minute, as in the study of G-LOMARC-TS, takes
# 15 GB of a node's memory to an SSD and back at 500 MB/s. High: 4 GB that are paged in at 400 MB/s; 64 GB at 200 MB/s.
PRICES: Final = {
    "plausible price": {"switch_s": 1.0, "resume_s": 60.0},
    "high price": {"switch_s": 10.0, "resume_s": 640.0},
}
HARMED_AT: Final = "plausible price"  # the express runs whose jobs are compared
# Beliefs that are corrected, and all slowdowns measured. Few jobs: a seed says little.
MEASURED: Final = "measured"
# What shares -> itself without sharing.
UNSHARED: Final = {"L-R": PSS, U1_SHORTEST: EASY_SHORTEST, SYMBIOSIS: EASY_SHORTEST}
CORRECTED_JOBS: Final = 600
CORRECTED_AT: Final[Mapping[str, str]] = {f"{name}, short": name for name in (*MODELS, *LOGS)}
CORRECTED_BELIEFS: Final = (EXACT, NOISE, "shuffled", "inverted", "usage unknown")
USUAL: Final = {"variant": BASE, "belief": EXACT}

SCENARIO: Final[Mapping[str, Any]] = {  # of LOMARC's nodes and jobs
    "cluster": {"nodes": 128, "preset": "lomarc-ht"},
    "workload": {"characteristics": "M1"},
    "truth": {"contention": "lomarc", "remainder": False, "c_scope": "all"},
}


def experiment(size: Size, logs: Path) -> dict[str, Any]:
    """Return the table of the study. A seed draws jobs of the model, and characteristics; a window of a log has one.

    A quick one reads neither logs nor tables of co-runs.
    """
    harmed = _seeds(min(HARMED, size.seeds))
    return {
        "title": "Symbiosis against fair baselines",
        "scenario": dict(SCENARIO),
        "workloads": [
            *([] if size.quick else _with_co_runs(size, logs)),
            {"name": GLTS_W1, **_without_seed(glts_scenario("W1", size.jobs))},
            *({"name": name, "workload": {"lublin": size.jobs, "aarr": AARR[name[:2]]}} for name in (*MODELS, ANEW)),
            *([] if size.quick else [*_windows(size, logs), *_short(size, logs)]),
        ],
        "beliefs": beliefs_of(BELIEFS),
        "variants": [
            {"name": BASE},
            {"name": WHOLE, "truth": dict(FORMS[WHOLE][1])},
            *({"name": name, "preemption": dict(costs)} for name, costs in PRICES.items()),
            {"name": MEASURED, "monitoring": {"after_s": 60, "above": 0.0}},
        ],
        "policies": policies_of(POLICIES),
        "seeds": [*_seeds(size.seeds), *([] if size.quick else FRESH)],
        "runs": tables_of(products(size)),
        "baseline": {
            "policy": EASY,
            "runs": [
                Product("harm", MODELS, [EASY_SHORTEST, "L-R", U1_SHORTEST, SYMBIOSIS], harmed, beliefs=[EXACT]).table,
                Product("harm", ["W2"], [LEDGER], harmed, beliefs=[EXACT]).table,
                Product("harm", ["W2"], [EXPRESS], harmed, [HARMED_AT], [EXACT]).table,
            ],
        },
        "measures": ["scripts.papers.symbiosis.measures:figures"],
    }


def _without_seed(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scenario of a study, whose axis of seeds it does not set, without characteristics of LOMARC."""
    rest = {key: value for key, value in scenario.items() if key != "seed"}
    return {**rest, "workload": {**rest["workload"], "characteristics": None}}


def named_as_measured(logs: Path) -> tuple[str, dict[str, Any]]:
    """Return the file of a table of co-runs, and what names jobs as its applications: all pairs of these were measured."""
    table = str(aris_file(logs))
    return table, {"applications": table, "application_names": all_measured(read_table(table)), "characteristics": None}


def _with_co_runs(size: Size, logs: Path) -> Iterator[dict[str, Any]]:
    """Yield the workloads whose jobs are named as applications of a table of co-runs: all pairs of these were measured."""
    table, named = named_as_measured(logs)
    common = {"cluster": dict(NAS_CLUSTER), "truth": {"contention": "pairs", "pairs": table, "remainder": True}}
    yield {"name": NAS, **common, "workload": {"lublin": size.jobs, "aarr": AARR["W2"], **named}}
    for workload in _windows(size, logs):
        if workload["name"].startswith("SDSC-SP2"):
            yield {**workload, **common, "name": f"NAS, {workload['name']}", "workload": workload["workload"] | named}


def _seeds(count: int) -> range:
    return range(TUNED + 1, TUNED + 1 + count)


def _windows(size: Size, logs: Path) -> Iterator[dict[str, Any]]:
    jobs = min(LOG_JOBS, size.jobs)
    for log, (file, nodes, apart) in LOGS.items():
        for window in range(1, WINDOWS + 1):
            workload = {"swf": str(logs / file), "first": (window - 1) * apart, "jobs": jobs}
            yield {"name": in_window(log, window), "cluster": {"nodes": nodes}, "workload": workload}


def _short(size: Size, logs: Path) -> Iterator[dict[str, Any]]:
    """Yield the workloads on which beliefs are corrected: the first jobs of a model, or of the second window of a log."""
    jobs = min(CORRECTED_JOBS, size.jobs)
    for name, of in CORRECTED_AT.items():
        if of in AARR:
            yield {"name": name, "workload": {"lublin": jobs, "aarr": AARR[of]}}
        else:
            file, nodes, apart = LOGS[of]
            yield {
                "name": name,
                "cluster": {"nodes": nodes},
                "workload": {"swf": str(logs / file), "first": apart, "jobs": jobs},
            }


def products(size: Size) -> Iterator[Product]:
    """Yield the products, the most wanted first."""
    seeds, few = _seeds(size.seeds), _seeds(min(FEW, size.seeds))
    yield Product("main", ["W2"], MAIN, seeds, beliefs=[EXACT])
    if size.quick:
        return
    windows, nas_windows = (
        [in_window(log, window) for log in logs for window in range(1, WINDOWS + 1)] for logs in (LOGS, [NAS_LOG])
    )
    yield Product("logs", windows, MAIN, few[:1], beliefs=[EXACT])
    yield Product("main", ["W1", "W3"], MAIN, seeds, beliefs=[EXACT])
    yield Product("parts", ["W2"], ABLATED, few, beliefs=[EXACT])
    yield Product("express", ["W2"], [EXPRESS], seeds, [BASE, *PRICES], [EXACT])
    yield Product("express", ["W2"], [*SUSPENDING][1:], few, beliefs=[EXACT])
    yield Product("halves", [NAS], ON_HALVES, seeds, beliefs=[EXACT])
    yield Product("halves", nas_windows, ON_HALVES, few[:1], beliefs=[EXACT])
    yield Product("halves", [GLTS_W1], ON_GLTS, few[:HARMED], beliefs=[EXACT])
    yield Product("express", ["W2"], [EXPRESS], few, ["plausible price"], [NOISE])
    unshared = [U1_SHORTEST, SYMBIOSIS]
    yield Product("dear", ["W2"], unshared, few, [WHOLE], [EXACT])
    yield Product("knowledge", ["W2"], unshared, few, beliefs=WRONG)
    yield Product("fresh", [ANEW], MAIN[1:], FRESH, beliefs=[EXACT])
    alone, corrected = [PSS, EASY_SHORTEST, *UNSHARED], [f"{name}, {CORRECTED}" for name in UNSHARED]
    yield Product(CORRECTED, [*CORRECTED_AT], alone, few[:2], [MEASURED], [EXACT])
    yield Product(CORRECTED, [*CORRECTED_AT], corrected, few[:2], [MEASURED], CORRECTED_BELIEFS)
