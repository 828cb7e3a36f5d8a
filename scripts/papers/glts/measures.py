"""Figures of a G-LOMARC-TS run beside its summary: by class of jobs, of high-load phases, groups and expected responses."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from cosched_emulator import Run
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.results.figures.classes import CLASSES, ClassFigures, ClassRules, class_figures
from cosched_emulator.run.coupling import TraceRecord

RULES: Final = ClassRules()
# Relative responses: by name, run times below count as so many seconds, and a relative response counts as so much at least.
BOUNDS: Final[Mapping[str, tuple[int, float]]] = {"rr_60": (60, 0.0), "rr_600": (600, 0.0), "rr_600_from_1": (600, 1.0)}
BLOCK: Final = 16  # candidates in the first block, as the paper has it
SIZES: Final = range(2, 13)  # jobs in a group that are counted apart
TENTHS: Final = 40  # bins of response / expected response, a tenth each; the last one holds all above


def figures(run: Run) -> dict[str, Any]:
    """Return the figures of a traced run. Times are in seconds, shares between 0 and 1; what does not exist is None."""
    records = run.records
    of_classes = class_figures(records, run.machine, RULES)
    watch = Watch(run.trace or ())
    return {
        **dict(_relative(records)),
        **_of_classes(of_classes),
        **{f"jobs_{name}": share for name, share in shares({n: of_classes.jobs[n].jobs for n in CLASSES}).items()},
        **{f"work_{name}": share for name, share in shares(_work(records)).items()},
        **dict(_sizes(records)),
        **dict(_span(records, watch.slices)),
        **{f"groups_{name}": value for name, value in watch.groups(records).items()},
        **dict(_delays(watch.expected_us, records)),
    }


figures.needs_trace = True  # type: ignore[attr-defined]  # how a study asks for the trace


class Watch:
    """What a decision trace tells of groups and of expected response times."""

    def __init__(self, trace: Sequence[TraceRecord]) -> None:
        self.expected_us: dict[int, int] = {}  # by job
        # By instant and primary; all jobs of a group that start tell the same.
        self._groups: dict[tuple[int, int], Mapping[str, Any]] = {}
        self._low_load = self._unfair = self._given_up = self._refused = self.slices = 0
        for record in trace:
            if record["kind"] == "expect":
                self.expected_us[record["job"]] = record["response_us"]
            elif record["kind"] == "start":
                self._look_at_start(record)
            self.slices += record["kind"] == "slice"

    def _look_at_start(self, record: TraceRecord) -> None:
        self._unfair += "unfair_to" in record
        self._given_up += "refused_groups" in record
        self._refused += record.get("refused_groups", 0)
        self._low_load += record.get("no_search") == "low-load"
        if "group" in record:
            self._groups[record["at_us"], record["group"]["primary"]] = record["group"]

    def groups(self, records: Sequence[JobRecord]) -> dict[str, Any]:
        """Return the figures of all groups; means are None where there is none."""
        groups = [*self._groups.values()]
        members = [[group["primary"], *group["matched"]] for group in groups]
        inside = {job for jobs in members for job in jobs}
        eligible = sum([class_of(record) != "short" for record in records])
        processes = {record.job.spec.id: record.job.spec.processes for record in records}
        cases = Counter([_case_of(group) for group in groups])
        matched = [len(group["matched"]) for group in groups]
        # All matched jobs are from the first block where there was one block alone: of the others none is counted.
        first = [len(group["matched"]) for group in groups if group["candidates"] <= BLOCK]
        return {
            "number": len(groups),
            "jobs": len(inside),
            "share": len(inside) / eligible if eligible else None,
            "size": _mean([len(jobs) for jobs in members]),
            "gain": _mean([group["gain"] for group in groups]),
            "pairs": _mean([len(jobs) == 2 for jobs in members]),  # share of the groups
            "sizes": [sum([len(jobs) == size for jobs in members]) for size in SIZES],
            "candidates": _mean([group["candidates"] for group in groups]),
            "few_candidates": _mean([group["candidates"] < 4 for group in groups]),
            "first_block": sum(first) / sum(matched) if matched else None,  # share of the matched jobs, at least
            **{f"case_{case}": cases[case] for case in (1, 2, 3)},
            "serial_pairs": sum([all(processes[job] == 1 for job in jobs) for jobs in members]),
            "low_load": self._low_load,
            "unfair": self._unfair,
            "given_up": self._given_up,
            "refused": self._refused + sum([group["tried"] - 1 for group in groups]),
        }


def _case_of(group: Mapping[str, Any]) -> int:
    """Return the paper's number: 1 where all wait, 2 for a primary beside running jobs, 3 for jobs beside a running primary."""
    if not group["running"]:
        return 1
    return 3 if group["primary"] in group["running"] else 2


def class_of(record: JobRecord) -> str:
    """Return the class of a job, by its estimate."""
    estimate_s = record.job.spec.estimate_us / 1e6
    return CLASSES[(estimate_s > RULES.short_s) + (estimate_s > RULES.medium_s)]


def relative_responses(records: Sequence[JobRecord], bound_s: int, least: float) -> dict[str, float | None]:
    """Return the mean of max(least, response / max(run, bound)) by class, and of all jobs, over those that ended."""
    found: dict[str, list[float]] = {name: [] for name in (*CLASSES, "all")}
    for record in records:
        if record.end_us is not None:
            response_us = record.end_us - record.job.spec.submit_us
            relative = max(least, response_us / max(record.job.run_us, bound_s * 1_000_000))
            found[class_of(record)].append(relative)
            found["all"].append(relative)
    return {name: _mean(values) for name, values in found.items()}


def _relative(records: Sequence[JobRecord]) -> Iterator[tuple[str, float | None]]:
    for bound, settings in BOUNDS.items():
        for name, value in relative_responses(records, *settings).items():
            yield f"{bound}_{name}", value


def _of_classes(found: ClassFigures) -> dict[str, Any]:
    first, second = found.queue_first_half, found.queue_second_half
    return {
        **{f"response_{name}_s": of_jobs.response_mean_s for name, of_jobs in found.jobs.items()},
        "core_utilisation": found.core_utilisation,
        **{f"high_load_{name}": phases.core_utilisation for name, phases in found.high_load.items()},
        **{f"high_load_{name}_s": phases.length_s for name, phases in found.high_load.items()},
        "waiting_first_half": first,
        "waiting_second_half": second,
        "waiting_growth": second / first if first and second is not None else None,
    }


def _work(records: Sequence[JobRecord]) -> dict[str, int]:
    """Return run time by processes, summed over the jobs of each class."""
    work = dict.fromkeys(CLASSES, 0)
    for record in records:
        work[class_of(record)] += record.job.run_us * record.job.spec.processes
    return work


def _sizes(records: Sequence[JobRecord]) -> Iterator[tuple[str, float]]:
    """Yield the share of serial jobs, of those whose number of processes is a power of two, one included, and the mean number."""
    processes = [record.job.spec.processes for record in records]
    yield "serial_share", statistics.fmean([size == 1 for size in processes])
    yield "power_share", statistics.fmean([size.bit_count() == 1 for size in processes])
    yield "processes_mean", statistics.fmean(processes)


def _span(records: Sequence[JobRecord], slices: int) -> Iterator[tuple[str, float]]:
    """Yield what tells of the run's length: when the last job came, how long after that the last one ended, slices an hour."""
    submitted = [record.job.spec.submit_us for record in records]
    last = max(submitted)
    end = max([record.end_us for record in records if record.end_us is not None], default=last)
    yield "last_submission_s", last / 1e6
    yield "beyond_s", (end - last) / 1e6
    yield "slices_an_hour", slices * 3.6e9 / max(1, end - min(submitted))


def shares(counts: Mapping[str, int]) -> dict[str, float]:
    """Return each count's share of their sum."""
    total = sum(counts.values())
    return {name: count / total for name, count in counts.items()}


def delay_figures(expected_us: Mapping[int, int], records: Sequence[JobRecord], name: str) -> dict[str, Any]:
    """Return how response / expected response is distributed over the jobs of a class; empty where nothing was expected."""
    found = sorted(
        (record.end_us - record.job.spec.submit_us) / expected_us[record.job.spec.id]
        for record in records
        if record.end_us is not None and record.job.spec.id in expected_us and class_of(record) == name
    )
    if len(found) < 2:
        return {}
    twentieths = statistics.quantiles(found, n=20, method="inclusive")
    bins = Counter(min(int(10 * value), TENTHS - 1) for value in found)
    return {
        "mean": statistics.fmean(found),
        **{f"p{percent}": twentieths[percent // 5 - 1] for percent in (5, 25, 50, 75, 95)},
        "tenths": [bins[tenth] for tenth in range(TENTHS)],
    }


def _delays(expected_us: Mapping[int, int], records: Sequence[JobRecord]) -> Iterator[tuple[str, Any]]:
    for name in CLASSES[1:]:
        for figure, value in delay_figures(expected_us, records, name).items():
            yield f"delay_{name}_{figure}", value


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None
