"""The simulations of the LOMARC reproduction: which there are, in which order, and how one is run."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final, NamedTuple

from scripts.papers.frame import Result, with_changes

import cosched_emulator
from cosched_emulator.explain.funnel import funnel

# What the slowdown of a pair is: with the time in which neither competes, or as printed; with c drawn for all pairs, or for those
# of two cpu-bound jobs only.
FORMS: Final[Mapping[str, Mapping[str, Any]]] = {
    "printed": {"remainder": False, "c_scope": "all"},
    "printed-cpu": {"remainder": False, "c_scope": "cpu_cpu"},
    "whole": {"remainder": True, "c_scope": "all"},
    "whole-cpu": {"remainder": True, "c_scope": "cpu_cpu"},
}
BASE_FORM: Final = "printed"  # the one whose funnel is closest to the paper's table 5

JOBS: Final = 8_000
NODES: Final = 128
SEEDS: Final = 10
FEW: Final = 3  # seeds of a variant
AARR: Final = {"W1": 10.2303, "W2": 9.83, "W3": 8.83}
CELLS: Final = (("W1", "M1"), ("W2", "M1"), ("W3", "M1"), ("W1", "M2"), ("W1", "M3"))
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
TRACED: Final = ("L-U1", "L-U2", "L-R")  # those of table 5


class Variant(NamedTuple):
    """What a variant changes: scenario sections and settings of the policy; and which runs it has."""

    text: str
    scenario: Mapping[str, Mapping[str, Any]] = {}
    settings: tuple[str, ...] = ()
    workloads: tuple[str, ...] = tuple(AARR)
    schedulers: tuple[str, ...] = tuple(SCHEDULERS)
    seeds: int = FEW

    @property
    def has_own_pss(self) -> bool:
        """Tell whether space sharing runs otherwise, too: it has other jobs, or another order of them."""
        return "workload" in self.scenario or any(setting.startswith("order") for setting in self.settings)


BASE: Final = "base"
FUNNEL: Final = "funnel"
# In the order in which they are run.
VARIANTS: Final[Mapping[str, Variant]] = {
    "gaps": Variant(
        "gaps between arrivals x 0.78: the paper's W1 lasts 10 weeks, the model's 12",
        {"workload": {"gap_factor": 0.78}},
        workloads=("W1",),
        seeds=SEEDS,
    ),
    "future-all": Variant("L-R counts all expected arrivals", settings=("matching.future=all",), schedulers=("L-R",)),
    "future-none": Variant("L-R counts no expected arrivals", settings=("matching.future=none",), schedulers=("L-R",)),
    "no-aging": Variant(
        "jobs keep their class however long they wait",
        settings=("order.age_s=1e9",),
        schedulers=("PSS", "L-FM", "L-U1", "L-R"),
    ),
    "fcfs": Variant(
        "first come, first served: classes count for nothing",
        settings=("order=fcfs",),
        schedulers=("PSS", "L-FM", "L-U1", "L-R"),
    ),
    "paging-2": Variant("slowdown 2 where memory does not fit", {"truth": {"paging": 2.0}}, schedulers=("AC",)),
    "paging-1": Variant(
        "no slowdown where memory does not fit, besides that of the pair",
        {"truth": {"paging": 1.0}},
        schedulers=("AC",),
    ),
    "weak-0": Variant(
        "no pair is formed while the queue fits the free nodes, without the margin of 20 %",
        settings=("matching.weak_load=0",),
        workloads=("W1",),
        schedulers=("L-R",),
    ),
    "weak-1": Variant(
        "matched however short the queue is", settings=("matching.weak_load=1",), workloads=("W1",), schedulers=("L-R",)
    ),
}


class Task(NamedTuple):
    """One simulation."""

    workload: str
    mix: str
    scheduler: str
    seed: int = 1
    variant: str = BASE
    form: str = BASE_FORM

    @property
    def series(self) -> str:
        """Everything but the seed, as a part of a file's name."""
        return f"{self.form}-{self.variant}-{self.workload}-{self.mix}-{self.scheduler}"

    @property
    def space_sharing(self) -> Task:
        """The run of PSS that this one is held against: the same jobs and order. How pairs get on is nothing to PSS."""
        variant = VARIANTS.get(self.variant)
        own = variant is not None and variant.has_own_pss
        return Task(self.workload, self.mix, "PSS", self.seed, self.variant if own else BASE)


def tasks_of(seeds: int, variants: bool) -> list[Task]:
    """Return all runs, the most wanted first: a few seeds of everything, what explains them, then more seeds."""
    few = min(FEW, seeds)
    tasks = [*_base(range(1, few + 1))]
    if variants:
        tasks += [Task(w, "M1", s, seed, FUNNEL) for seed in range(1, min(2, seeds) + 1) for w in AARR for s in TRACED]
        others = [form for form in FORMS if form != BASE_FORM]
        tasks += [Task(w, "M1", s, 1, FUNNEL, form) for form in others for w in AARR for s in TRACED]
        tasks += [
            Task(workload, "M1", scheduler, seed, form=form)
            for seed in range(1, few + 1)
            for form in others
            for workload in ("W2", "W3")
            for scheduler in SCHEDULERS
            if scheduler != "PSS"
        ]
        tasks += [
            Task(workload, "M1", scheduler, seed, name)
            for name, variant in VARIANTS.items()
            for seed in range(1, min(variant.seeds, seeds) + 1)
            for workload in variant.workloads
            for scheduler in variant.schedulers
        ]
    return [*tasks, *_base(range(few + 1, seeds + 1))]


def _base(seeds: range) -> Iterator[Task]:
    for seed in seeds:
        for workload, mix in CELLS:
            for scheduler in SCHEDULERS:
                yield Task(workload, mix, scheduler, seed)


def scenario_of(task: Task, jobs: int) -> dict[str, Any]:
    """Return the scenario of a task, with so many jobs. Its seed draws arrivals, sizes, run times, characteristics and pairs."""
    standard = task.scheduler == "L-N"
    table: dict[str, Any] = {
        "seed": task.seed,
        "cluster": {"nodes": NODES, "preset": "lomarc-standard" if standard else "lomarc-ht"},
        "workload": {"lublin": jobs, "aarr": AARR[task.workload], "characteristics": task.mix},
        "truth": {"contention": "lomarc", **FORMS[task.form], **({"cpu": "standard"} if standard else {})},
    }
    return with_changes(table, VARIANTS[task.variant].scenario) if task.variant in VARIANTS else table


def simulate(task: Task, jobs: int) -> Result:
    """Run one task in this process and return its figures."""
    settings = VARIANTS[task.variant].settings if task.variant in VARIANTS else ()
    records: list[dict[str, Any]] = []
    trace = records if task.variant == FUNNEL else None
    began = time.perf_counter()
    finished = cosched_emulator.simulate(
        scenario_of(task, jobs), SCHEDULERS[task.scheduler], settings=settings, trace=trace
    )
    machine, ran = finished.summary["machine"], finished.summary["all"]
    result = {
        **task._asdict(),
        "jobs": jobs,
        "response_s": ran["response_s"]["mean"],
        "rbr": ran["relative_response_60s"]["mean"],
        "bounded_slowdown": ran["bounded_slowdown_60s"]["mean"],
        "wait_s": ran["wait_s"]["mean"],
        "makespan_s": machine["makespan_s"],
        "node_utilisation": machine["node_utilisation"],
        "node_efficiency": machine["node_efficiency"],
        "node_sharing": machine["node_sharing"],
        "offered_load": machine["offered_load"],
        "mean_queue_length": machine["mean_queue_length"],
        "seconds": round(time.perf_counter() - began, 1),
    }
    if task.variant == FUNNEL:
        result["funnel"] = {kind: asdict(found) for kind, found in funnel(records).items()}
    return result


def tell(task: Task, result: Mapping[str, Any]) -> str:
    """Return what to say of a run that has ended."""
    return (
        f"{task.form} {task.variant} {task.workload} {task.mix} {task.scheduler} seed {task.seed}:"
        f" response {result['response_s']:,.0f} s, RBR {result['rbr']:.0f}, {result['seconds']:.0f} s"
    )
