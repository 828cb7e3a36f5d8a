"""The simulations of the G-LOMARC-TS reproduction: which there are, in which order, and how one is run."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from scripts.papers.frame import Result, with_changes

import cosched_emulator
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.results.figures.classes import CLASSES, ClassFigures, ClassRules, class_figures

JOBS: Final = 10_000
QUICK_JOBS: Final = 1_500
NODES: Final = 128
SEEDS: Final = 10
FEW: Final = 5  # seeds of a variant
RESUME_S: Final = 60.0
RULES: Final = ClassRules()
AARR: Final = {"W1": 10.33, "W2": 9.83}
# By the paper's names.
SCHEDULERS: Final = {
    "SSP": "ssp",
    "CSTWS": "cstws",
    "CST": "cst",
    "GLTS": "glts",
    "GLTS-FBO": "glts-fbo",
    "GLTS-NS": "glts-ns",
    "GLTS-NH": "glts-nh",
}
BLOCK: Final = 16
BLOCKS: Final = (4, 8, 12, 16, 20, 24)
SLACK: Final = "1.5"
NONE: Final = "none"  # a slack factor that refuses nothing; responses are expected all the same
SLACKS: Final = ("1.0", "1.1", "1.25", "1.5", "2", "3", NONE)
GAP: Final = "1.0"
GAPS: Final = ("1.0", "0.95", "0.9", "0.85")
# Relative responses: by name, run times below count as so many seconds, and a relative response counts as so much at least.
BOUNDS: Final[Mapping[str, tuple[int, float]]] = {"rr_60": (60, 0.0), "rr_600": (600, 0.0), "rr_600_from_1": (600, 1.0)}
TENTHS: Final = 40  # bins of response / expected response, a tenth each; the last one holds all above

_CELLS_OF_LOAD: Final = (("W1", "SSP"), ("W1", "GLTS"), ("W1", "CST"))
_GLTS: Final = (("W1", "GLTS"), ("W2", "GLTS"))
_SSP_GLTS: Final = tuple((workload, scheduler) for workload in AARR for scheduler in ("SSP", "GLTS"))


class Variant(NamedTuple):
    """What a variant changes: scenario sections and settings of the policy; and which runs it has."""

    cells: Sequence[tuple[str, str]]  # workload, scheduler
    settings: tuple[str, ...] = ()
    scenario: Mapping[str, Mapping[str, Any]] = {}
    text: str = ""

    @property
    def has_own_ssp(self) -> bool:
        """Tell whether space sharing runs otherwise, too."""
        return bool(self.scenario)


BASE: Final = "base"
READINGS: Final[Mapping[str, Variant]] = {
    "low-waiting": Variant(
        _GLTS,
        ("matching.low_load=waiting",),
        text="a job gets a node for each process as soon as all pending jobs would fit so, whatever runs",
    ),
    "low-none": Variant(
        _GLTS, ("matching.low_load=none",), text="no job gets a node for each process because the load is low"
    ),
    "gain-0.9": Variant(_GLTS, ("matching.min_gain=0.9",), text="a group has to gain 0.9 instead of 0.45"),
    "pairs-space": Variant(
        [(workload, scheduler) for workload in AARR for scheduler in ("CST", "CSTWS")],
        ("matching.space=true",),
        text="a pair has to gain more than its first job would alone on all cores, as a group does",
    ),
    "resume-0": Variant(
        _SSP_GLTS, scenario={"preemption": {"resume_s": 0.0}}, text="preemption costs nothing instead of 60 s a slice"
    ),
}
# In the order in which they are run.
VARIANTS: Final[Mapping[str, Variant]] = {
    **{
        f"block-{size}": Variant(
            [("W2", name) for name in ("GLTS", "GLTS-FBO", "GLTS-NS")], (f"matching.block={size}",)
        )
        for size in BLOCKS
        if size != BLOCK
    },
    **{
        f"slack-{factor}": Variant([("W1", "GLTS")], (f"fairness.factor={1e6 if factor == NONE else factor}",))
        for factor in SLACKS
        if factor != SLACK
    },
    **{
        f"gap-{factor}": Variant(_CELLS_OF_LOAD, scenario={"workload": {"gap_factor": float(factor)}})
        for factor in GAPS
        if factor != GAP
    },
    **READINGS,
}
QUICK: Final = ("block-4", "block-12", "slack-1.0", f"slack-{NONE}")


class Task(NamedTuple):
    """One simulation."""

    workload: str
    scheduler: str
    seed: int = 1
    variant: str = BASE

    @property
    def series(self) -> str:
        """Everything but the seed, as a part of a file's name."""
        return f"{self.variant}-{self.workload}-{self.scheduler}"

    @property
    def space_sharing(self) -> Task:
        """The run of SSP that this one is held against: the same jobs on the same machine."""
        own = self.variant in VARIANTS and VARIANTS[self.variant].has_own_ssp
        return Task(self.workload, "SSP", self.seed, self.variant if own else BASE)


def tasks_of(seeds: int, *, quick: bool = False) -> list[Task]:
    """Return all runs, the most wanted first: a few seeds of the paper's experiments, of our own, then more seeds of the former."""
    few = min(FEW, seeds)
    names: Collection[str] = QUICK if quick else VARIANTS
    papers = [name for name in names if name.startswith(("block-", "slack-"))]
    return [
        *_base(range(1, few + 1)),
        *_of(papers, few),
        *_of([name for name in names if name not in papers], few),
        *_base(range(few + 1, seeds + 1)),
    ]


def _of(names: Sequence[str], seeds: int) -> Iterator[Task]:
    for seed in range(1, seeds + 1):
        for name in names:
            for workload, scheduler in VARIANTS[name].cells:
                yield Task(workload, scheduler, seed, name)


def _base(seeds: range) -> Iterator[Task]:
    for seed in seeds:
        for workload in AARR:
            for scheduler in SCHEDULERS:
                yield Task(workload, scheduler, seed)


def scenario_of(task: Task, jobs: int) -> dict[str, Any]:
    """Return the scenario of a task, with so many jobs. Its seed draws jobs, their own slowdowns and those of pairs."""
    table: dict[str, Any] = {
        "seed": task.seed,
        "cluster": {"nodes": NODES, "preset": "g-lomarc-2x2"},
        "workload": {"lublin": jobs, "aarr": AARR[task.workload], "self_slowdowns": "table4", "grow": True},
        "truth": {"contention": "statistical"},
        "preemption": {"resume_s": RESUME_S},
    }
    return with_changes(table, VARIANTS[task.variant].scenario) if task.variant in VARIANTS else table


def simulate(task: Task, jobs: int) -> Result:
    """Run one task in this process and return its figures."""
    settings = VARIANTS[task.variant].settings if task.variant in VARIANTS else ()
    watch = Watch()
    began = time.perf_counter()
    finished = cosched_emulator.simulate(
        scenario_of(task, jobs), SCHEDULERS[task.scheduler], settings=settings, trace=watch.look
    )
    ran = time.perf_counter() - began
    records = finished.records
    figures = class_figures(records, finished.machine, RULES)
    return {
        **task._asdict(),
        "jobs": jobs,
        "ended": sum([record.end_us is not None for record in records]),
        **{name: relative_responses(records, *bound) for name, bound in BOUNDS.items()},
        **_figures(figures),
        "last_submission_s": max([record.job.spec.submit_us for record in records]) / 1e6,
        "offered_load": finished.summary["machine"]["offered_load"],
        "class_jobs": _shares({name: figures.jobs[name].jobs for name in CLASSES}),
        "class_work": _shares(_work_of_classes(records)),
        "preemptions": sum([len(record.disk) for record in records]),
        "groups": watch.groups(records),
        "delay": {name: delay_figures(watch.expected_us, records, name) for name in ("medium", "long")},
        "seconds": round(ran, 1),
    }


def tell(task: Task, result: Mapping[str, Any]) -> str:
    """Return what to say of a run that has ended."""
    means = ", ".join(f"{name} {value:.2f}" for name, value in result["rr_60"].items())
    return f"{task.variant} {task.workload} {task.scheduler} seed {task.seed}: RR {means}, {result['seconds']:.0f} s"


class Watch:
    """What a decision trace tells of groups and of expected response times; it forgets the rest."""

    def __init__(self) -> None:
        self.expected_us: dict[int, int] = {}  # by job
        # By instant and primary; all jobs of a group that start tell the same.
        self._groups: dict[tuple[int, int], Mapping[str, Any]] = {}
        self._alone: Counter[str] = Counter()
        self._unfair = 0

    def look(self, record: Mapping[str, Any]) -> None:
        """Take a record of the trace."""
        if record["kind"] == "expect":
            self.expected_us[record["job"]] = record["response_us"]
        elif record["kind"] == "start":
            self._unfair += "unfair_to" in record
            if "no_search" in record:
                self._alone[record["no_search"]] += 1
            if "group" in record:
                self._groups[record["at_us"], record["group"]["primary"]] = record["group"]

    def groups(self, records: Sequence[JobRecord]) -> Result:
        """Return the figures of all groups; means are None where there is none."""
        groups = [*self._groups.values()]
        members = [[group["primary"], *group["matched"]] for group in groups]
        inside = {job for jobs in members for job in jobs}
        eligible = sum([_class_of(record) != "short" for record in records])
        processes = {record.job.spec.id: record.job.spec.processes for record in records}
        candidates = [group["candidates"] for group in groups]
        return {
            "number": len(groups),
            "jobs_in_groups": len(inside),
            "eligible": eligible,
            "share": len(inside) / eligible if eligible else None,
            "size": _mean([len(jobs) for jobs in members]),
            "sizes": dict(sorted(Counter([str(len(jobs)) for jobs in members]).items())),
            "gain": _mean([group["gain"] for group in groups]),
            "few_candidates": _mean([count < 4 for count in candidates]),
            "candidates": [candidates.count(count) for count in range(max(candidates, default=-1) + 1)],
            "cases": {str(case): [_case_of(group) for group in groups].count(case) for case in (1, 2, 3)},
            "serial_pairs": sum([all(processes[job] == 1 for job in jobs) for jobs in members]),
            "low_load": self._alone["low-load"],
            "unfair": self._unfair,
        }


def _case_of(group: Mapping[str, Any]) -> int:
    """Return the paper's number: 1 where all wait, 2 for a primary beside running jobs, 3 for jobs beside a running primary."""
    if not group["running"]:
        return 1
    return 3 if group["primary"] in group["running"] else 2


def _class_of(record: JobRecord) -> str:
    estimate_s = record.job.spec.estimate_us / 1e6
    return CLASSES[(estimate_s > RULES.short_s) + (estimate_s > RULES.medium_s)]


def relative_responses(records: Sequence[JobRecord], bound_s: int, least: float) -> dict[str, float | None]:
    """Return the mean of max(least, response / max(run, bound)) by class, and of all jobs, over those that ended."""
    found: dict[str, list[float]] = {name: [] for name in (*CLASSES, "all")}
    for record in records:
        if record.end_us is not None:
            response_us = record.end_us - record.job.spec.submit_us
            relative = max(least, response_us / max(record.job.run_us, bound_s * 1_000_000))
            found[_class_of(record)].append(relative)
            found["all"].append(relative)
    return {name: _mean(values) for name, values in found.items()}


def _figures(figures: ClassFigures) -> Result:
    return {
        "response_s": {name: found.response_mean_s for name, found in figures.jobs.items()},
        "makespan_s": figures.makespan_s,
        "core_utilisation": figures.core_utilisation,
        "high_load": {name: found.core_utilisation for name, found in figures.high_load.items()},
        "high_load_s": {name: found.length_s for name, found in figures.high_load.items()},
        "queue_first_half": figures.queue_first_half,
        "queue_second_half": figures.queue_second_half,
    }


def _work_of_classes(records: Sequence[JobRecord]) -> dict[str, int]:
    """Return run time by processes, summed over the jobs of each class."""
    work = dict.fromkeys(CLASSES, 0)
    for record in records:
        work[_class_of(record)] += record.job.run_us * record.job.spec.processes
    return work


def _shares(counts: Mapping[str, int]) -> dict[str, float]:
    total = sum(counts.values())
    return {name: count / total for name, count in counts.items()}


def delay_figures(expected_us: Mapping[int, int], records: Sequence[JobRecord], name: str) -> Result | None:
    """Return how response / expected response is distributed over the jobs of a class; None where nothing was expected."""
    found = sorted(
        (record.end_us - record.job.spec.submit_us) / expected_us[record.job.spec.id]
        for record in records
        if record.end_us is not None and record.job.spec.id in expected_us and _class_of(record) == name
    )
    if len(found) < 2:
        return None
    twentieths = statistics.quantiles(found, n=20, method="inclusive")
    bins = Counter(min(int(10 * value), TENTHS - 1) for value in found)
    return {
        "jobs": len(found),
        "mean": statistics.fmean(found),
        **{f"p{percent}": twentieths[percent // 5 - 1] for percent in (5, 25, 50, 75, 95)},
        "tenths": [bins[tenth] for tenth in range(TENTHS)],
    }


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None
