"""The simulations of the RUA reproduction: which there are, in which order, and how one is run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from scripts.papers.frame import Result, with_changes

import cosched_emulator

JOBS: Final = 20_000  # the first half warms up, the second is measured
QUICK_JOBS: Final = 2_000
SEEDS: Final = 3
TRACES: Final = {
    "CTC": ("CTC-SP2-1996-3.1-cln.swf.gz", 338),
    "BLUE": ("SDSC-BLUE-2000-4.2-cln.swf.gz", 1152),
}
MIXES: Final = ("high", "med", "low")
POLICIES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "FF": ("sjbf", ()),
    "LC": ("lc", ()),
    "LCT=1": ("lct", ("placement.threshold=1.0",)),
    "LCT=1.15": ("lct", ("placement.threshold=1.15",)),
    "LCT=1.25": ("lct", ("placement.threshold=1.25",)),
    "LCT=1.5": ("lct", ("placement.threshold=1.5",)),
    "RUA": ("rua", ()),
}


BASE: Final = "base"


class Task(NamedTuple):
    """One simulation."""

    trace: str
    mix: str
    policy: str
    seed: int
    variant: str = BASE

    @property
    def series(self) -> str:
        """Everything but the seed, as a part of a file's name."""
        return f"{self.variant}-{self.trace}-{self.mix}-{self.policy}"


class Variant(NamedTuple):
    """What a variant changes: scenario sections, and settings of FF and of the others."""

    text: str
    scenario: Mapping[str, Mapping[str, Any]]
    first_fit: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


# In the order in which they are run.
VARIANTS: Final[Mapping[str, Variant]] = {
    BASE: Variant("as published, where the paper says", {}),
    "1677": Variant("high demand 1,677 MB/s a process instead of 2,000", {"workload": {"demand_high": [1677, 0, 0]}}),
    "430": Variant("CTC on 430 processors, as in the log's older editions", {"cluster": {"processors": 430}}),
    "limits": Variant(
        "the other setting of `extend_limit`: FF extends, LC, LCT and RUA do not",
        {},
        ("placement.extend_limit=true",),
        ("placement.extend_limit=false",),
    ),
    "paper": Variant("composition `paper`: every node progresses by itself", {"truth": {"composition": "paper"}}),
    "uncapped": Variant("run times as logged, above the estimate too", {"workload": {"cap_runs": False}}),
    "window": Variant("jobs 30,000 to 50,000 of the log", {"workload": {"first": 30_000}}),
}


def tasks_of(seeds: int, variants: bool) -> list[Task]:
    """Return all runs, the most wanted first."""
    tasks = [Task(t, m, p, 1) for m in ("med", "high", "low") for t in TRACES for p in POLICIES]
    main = ("FF", "LC", "RUA")
    more = range(2, seeds + 1)
    repeats = [Task(t, m, p, seed) for seed in more for m in ("med", "low") for t in TRACES for p in main]
    half = len(TRACES) * 2 * len(main)  # the second seed's
    tasks += repeats[:half]
    if variants:
        for name in VARIANTS:
            if name == BASE:
                continue
            traces = ("CTC",) if name == "430" else tuple(TRACES)
            tasks += [Task(t, "med", p, 1, name) for t in traces for p in main]
        tasks += [Task(t, "med", "LCT=1", 1, "1677") for t in TRACES]
        tasks += [Task(t, "high", p, 1, "1677") for t in TRACES for p in main]
        tasks += [Task("CTC", "high", p, 1, "430") for p in main]
    rest = [Task(t, m, p, seed) for seed in more for m in ("med", "low", "high") for t in TRACES for p in POLICIES]
    tasks += repeats[half:]
    return tasks + [task for task in rest if task not in tasks]


def scenario_of(task: Task, jobs: int, folder: Path) -> dict[str, Any]:
    """Return the scenario of a task, with so many jobs of a log in ``folder``. Its seed draws the demand."""
    file, processors = TRACES[task.trace]
    table: dict[str, Any] = {
        "seed": task.seed,
        "cluster": {"processors": processors, "preset": "rua-4way"},
        "workload": {"swf": str(folder / file), "jobs": jobs, "mix": task.mix},
        "results": {"warmup": jobs // 2},
    }
    return with_changes(table, VARIANTS[task.variant].scenario)


def simulate(task: Task, jobs: int, folder: Path) -> Result:
    """Run one task in this process and return its figures."""
    variant = VARIANTS[task.variant]
    name, settings = POLICIES[task.policy]
    settings += variant.first_fit if task.policy == "FF" else variant.others
    began = time.perf_counter()
    finished = cosched_emulator.simulate(scenario_of(task, jobs, folder), name, settings=settings)
    summary = finished.summary
    done, ran = summary["finished"], summary["all"]
    return {
        **task._asdict(),
        "jobs": jobs,
        "killed": summary["killed"]["count"],
        "penalised_p95": done["penalised_percent"]["p95"],
        "penalised_mean": done["penalised_percent"]["mean"],
        "bsld_p95": done["bounded_slowdown_10s"]["p95"],
        "bsld_mean": done["bounded_slowdown_10s"]["mean"],
        "bsld_all_p95": ran["bounded_slowdown_10s"]["p95"],
        "wait_p95": done["wait_s"]["p95"],
        "wait_mean": done["wait_s"]["mean"],
        "utilisation": summary["machine"]["utilisation"],
        "offered_load": summary["machine"]["offered_load"],
        "seconds": round(time.perf_counter() - began, 1),
    }


def tell(task: Task, result: Mapping[str, Any]) -> str:
    """Return what to say of a run that has ended."""
    return (
        f"{task.variant} {task.trace} {task.mix} {task.policy} seed {task.seed}:"
        f" killed {result['killed']}, {result['seconds']:.0f} s"
    )
