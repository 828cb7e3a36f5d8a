"""The experiment of the LOMARC reproduction: which runs there are, and in which order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from scripts.papers.figures import Where
from scripts.papers.study import BASE, Product, Size, Variant, beliefs_of, tables_of, variants_of

JOBS: Final = 8_000
QUICK_JOBS: Final = 1_000
SEEDS: Final = 20
HALF: Final = 10  # that many seeds of everything are run first
FEW: Final = 5  # seeds of a variant
HARMED: Final = 3  # seeds whose jobs are compared with those of shaken baselines
NODES: Final = 128
AARR: Final = {"W1": 10.2303, "W2": 9.83, "W3": 8.83}
WORKLOADS: Final = {
    f"{workload} {mix}": {"aarr": AARR[workload], "characteristics": mix}
    for workload, mix in (("W1", "M1"), ("W2", "M1"), ("W3", "M1"), ("W1", "M2"), ("W1", "M3"))
}
M1: Final = tuple(name for name in WORKLOADS if name.endswith("M1"))
# The paper's names.
SCHEDULERS: Final = {
    "PSS": "pss",
    "AC": "ac",
    "AM": "am",
    "L-N": "lomarc-n",
    "L-FM": "lomarc-fm",
    "L-U1": "lomarc-u1",
    "L-U2": "lomarc-u2",
    "L-R": "lomarc-r",
}
COSCHEDULERS: Final = tuple(name for name in SCHEDULERS if name != "PSS")
LOMARC: Final = ("L-FM", "L-U1", "L-U2", "L-R")
TRACED: Final = ("L-U1", "L-U2", "L-R")  # those of table 5
STANDARD: Final = {"cluster": {"preset": "lomarc-standard"}, "truth": {"cpu": "standard"}}  # CPUs of L-N

FORM: Final = "printed"  # name of the base runs' form of the slowdown
# What the slowdown of a pair is: with the time in which neither competes, or as printed; with c drawn for all pairs, or for those
# of two cpu-bound jobs only.
FORMS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "printed-cpu": (
        "nothing for the time in which neither competes (as printed; no less than 1); c drawn for pairs of cpu-bound jobs, 1.4 for"
        " all others",
        {"remainder": False, "c_scope": "cpu_cpu"},
    ),
    "whole": ("1 for the time in which neither competes; c drawn for every pair", {"remainder": True}),
    "whole-cpu": (
        "1 for the time in which neither competes; c drawn for pairs of cpu-bound jobs, 1.4 for all others",
        {"remainder": True, "c_scope": "cpu_cpu"},
    ),
}
EXACT: Final = "exact"
BELIEFS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    EXACT: ("usage and pairs exactly", {}),
    "noise .3": ("usage with a relative error of up to 0.3", {"usage_noise": 0.3}),
    "pairs unknown": ("usage exactly, not which pairs are compatible", {"pairs": "unknown"}),
    "usage unknown": ("no usage", {"usage": "unknown"}),
}

_BOTH_ENDS: Final = ("PSS", "L-R")
_THREE: Final = (*_BOTH_ENDS, "L-FM")
# Gaps between arrivals, by which W1 under PSS lasts the published 10 weeks instead of 12, and the offered loads of W2 and W3 are to
# that of W1 as the published ones are: 13 and 21 to 10.6.
LENGTHS: Final = {"W1 M1": 0.82, "W2 M1": 0.84, "W3 M1": 0.94}
PUBLISHED_LENGTH: Final = {workload: f"length of {workload[:2]}" for workload in LENGTHS}
ONE_RISES: Final = "one rises"
HEAD_JOINS: Final = "head joins"
ORDERS: Final = ("fcfs", ONE_RISES, "no aging")  # variants with the same jobs in another order
# In the order in which they are run.
# fmt: off
VARIANTS: Final[Mapping[str, Variant]] = {
    **{name: Variant(f"gaps between arrivals x {LENGTHS[workload]:g}", {"workload": {"gap_factor": LENGTHS[workload]}},
        workloads=(workload,), policies=_THREE) for workload, name in PUBLISHED_LENGTH.items()},
    HEAD_JOINS: Variant("the first job of the queue alone joins running ones, as figure 1 has it", {}, ("matching.all_join=false",),
        policies=("L-FM", "L-R"), seeds=SEEDS),
    "fcfs": Variant("first come, first served: classes have no effect", {}, ("order=fcfs",), policies=_BOTH_ENDS),
    ONE_RISES: Variant("one job rises by a class in each mean wait, not every job that has waited for it", {},
        ("order=class-one-rises",), policies=_BOTH_ENDS),
    **{f"{ONE_RISES}, {name}": Variant("both", {"workload": {"gap_factor": LENGTHS[workload]}}, ("order=class-one-rises",),
        workloads=(workload,), policies=_BOTH_ENDS) for workload, name in PUBLISHED_LENGTH.items()},
    "largest fraction": Variant("what bounds a job is its largest fraction, not what was drawn for it",
        {"workload": {"characteristics": "M1, largest"}}, policies=("L-R",)),
    "no aging": Variant("jobs keep their class however long they wait", {}, ("order.age_s=1e9",), policies=_BOTH_ENDS),
    "future-all": Variant("L-R counts all expected arrivals", {}, ("matching.future=all",), ("W2 M1",), ("L-R",)),
    "future-none": Variant("L-R counts no expected arrivals", {}, ("matching.future=none",), ("W2 M1",), ("L-R",)),
    "figure 5 as printed": Variant("L-R with the paper's figure 5 taken literally (`scripts/papers/lomarc/literal.py`)", {},
        ("matching=scripts.papers.lomarc.literal:Literal",), ("W2 M1",), ("L-R",)),
    "paging-2": Variant("slowdown 2 where memory does not fit", {"truth": {"paging": 2.0}}, workloads=("W2 M1",), policies=("AC",)),
    "paging-1": Variant("no slowdown where memory does not fit, besides that of the pair", {"truth": {"paging": 1.0}},
        workloads=("W2 M1",), policies=("AC",)),
    "weak-0": Variant("no pair is formed while the queue fits the free nodes, without the margin of 20 %", {},
        ("matching.weak_load=0",), ("W1 M1",), ("L-R",)),
    "weak-1": Variant("matched however short the queue is", {}, ("matching.weak_load=1",), ("W1 M1",), ("L-R",)),
}
# fmt: on
USUAL: Final = {"variant": BASE, "belief": EXACT}


def experiment(size: Size, _logs: Path | None = None) -> dict[str, Any]:
    """Return the table of the study. A seed draws arrivals, sizes, run times, characteristics and which pairs are compatible."""
    forms = {name: Variant(text, {"truth": values}) for name, (text, values) in FORMS.items()}
    return {
        "title": "LOMARC on three workloads",
        "scenario": {
            "cluster": {"nodes": NODES, "preset": "lomarc-ht"},
            "workload": {"lublin": size.jobs},
            "truth": {"contention": "lomarc", "remainder": False, "c_scope": "all"},
        },
        "workloads": [{"name": name, "workload": values} for name, values in WORKLOADS.items()],
        "beliefs": beliefs_of(BELIEFS),
        "variants": variants_of({**forms, **VARIANTS}),
        "policies": [
            {"name": name, "policy": preset, **(STANDARD if name == "L-N" else {})}
            for name, preset in SCHEDULERS.items()
        ],
        "seeds": f"1-{size.seeds}",
        "runs": tables_of(products(size)),
        "baseline": {
            "policy": "PSS",
            "runs": [Product("harm", M1, (), _seeds(min(HARMED, size.seeds)), beliefs=[EXACT]).table],
        },
        "measures": ["scripts.papers.lomarc.measures:figures"],
    }


def products(size: Size) -> Iterator[Product]:
    """Yield the products, the most wanted first: half of the seeds of everything, what explains them, then the other half."""
    mixes = [name for name in WORKLOADS if name not in M1]
    half, few = min(HALF, size.seeds), _seeds(min(FEW, size.seeds))
    for works in (M1, mixes):
        yield Product("half", works, (), _seeds(half), beliefs=[EXACT])
    if not size.quick:
        for name, each in VARIANTS.items():
            seeds = _seeds(min(each.seeds or FEW, size.seeds))
            yield Product("variants", each.workloads or M1, each.policies, seeds, [name], [EXACT])
        yield Product("knowledge", ["W2 M1"], ["L-R"], few, beliefs=[name for name in BELIEFS if name != EXACT])
        yield Product("forms", ["W2 M1", "W3 M1"], ("L-N", "L-FM", "L-R"), few, [*FORMS], [EXACT])
    if size.seeds > half:
        for works in (M1, mixes):
            yield Product("rest", works, (), _seeds(size.seeds, half), beliefs=[EXACT])


def _seeds(last: int, before: int = 0) -> range:
    return range(before + 1, last + 1)


def space_sharing(where: Where) -> Where:
    """Return the runs of PSS that some are held against: the same jobs and order. How pairs get on is nothing to PSS."""
    variant = VARIANTS.get(where.variant or "")
    # PSS runs otherwise, too, where other jobs come, or in another order.
    own = variant is not None and ("gap_factor" in variant.scenario.get("workload", {}) or _reorders(variant))
    return Where(where.workload, "PSS", where.variant if own else None)


def _reorders(variant: Variant) -> bool:
    return any(setting.startswith("order") for setting in variant.settings)
