"""Which jobs respond later than under space sharing: the tables *Who is worse off* of the result pages.

Usage: python -m scripts.papers.worse_off lomarc [--seeds N]    prints a table of Markdown; minutes a seed
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from scripts.papers.frame import positive
from scripts.papers.lomarc import runs as lomarc
from scripts.tables import cell, table_head, table_row

from cosched_emulator import simulate
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.results.figures.classes import PAPER_RULES
from cosched_plugin.protocol.messages import COMPLETED

FACTORS: Final = (1.0, 1.5, 2.0)
HEADINGS: Final = ("later", "more than 1.5 times as late", "more than 2 times as late")
Scenario = Callable[[str, str, int], dict[str, Any]]  # of a workload, a scheduler and a seed


class Comparison(NamedTuple):
    """A scheduler and the space sharing that its paper compares it with, both by the paper's names."""

    scheduler: str
    base: str
    presets: Mapping[str, str]
    workloads: tuple[str, ...]
    scenario: Scenario


def _lomarc(workload: str, scheduler: str, seed: int) -> dict[str, Any]:
    return lomarc.scenario_of(lomarc.Task(workload, "M1", scheduler, seed), lomarc.JOBS)


COMPARISONS: Final[Mapping[str, Comparison]] = {
    "lomarc": Comparison("L-R", "PSS", lomarc.SCHEDULERS, tuple(lomarc.AARR), _lomarc),
}


def responses(records: Iterable[JobRecord]) -> dict[int, int]:
    """Return the response time in microseconds of each completed job."""
    return {
        record.job.spec.id: record.end_us - record.job.spec.submit_us
        for record in records
        if record.end_us is not None and record.state == COMPLETED
    }


def later(mine: Mapping[int, int], theirs: Mapping[int, int], jobs: Iterable[int], factor: float) -> float:
    """Return the percentage of jobs whose response is more than ``factor`` times theirs, of those that both completed."""
    both = [job for job in jobs if job in mine and job in theirs]
    return 100 * sum([mine[job] > factor * theirs[job] for job in both]) / len(both)


def class_of(record: JobRecord) -> str:
    """Return the class of a job, by its estimate."""
    estimate_s = record.job.spec.estimate_us / 1e6
    if estimate_s <= PAPER_RULES.short_s:
        return "short"
    return "medium" if estimate_s <= PAPER_RULES.medium_s else "long"


def table(comparison: Comparison, seeds: int) -> list[str]:
    """Run both schedulers on each workload and seed; return a row for each workload and class of jobs."""
    lines = table_head(("workload", "jobs"), HEADINGS)
    for workload in comparison.workloads:
        found: dict[str, list[list[float]]] = {}
        for seed in range(1, seeds + 1):
            mine, theirs = [
                simulate(comparison.scenario(workload, name, seed), comparison.presets[name]).records
                for name in (comparison.scheduler, comparison.base)
            ]
            classes: dict[str, list[int]] = {"all": [], "short": [], "medium": [], "long": []}
            for record in theirs:
                classes["all"].append(record.job.spec.id)
                classes[class_of(record)].append(record.job.spec.id)
            ours, base = responses(mine), responses(theirs)
            for name, jobs in classes.items():
                found.setdefault(name, []).append([later(ours, base, jobs, factor) for factor in FACTORS])
        lines += [
            table_row((workload, name), [cell(values) for values in zip(*shares, strict=True)])
            for name, shares in found.items()
        ]
    return lines


def main() -> None:
    """Print the table of one paper."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paper", choices=COMPARISONS)
    parser.add_argument("--seeds", type=positive, default=3)
    options = parser.parse_args()
    print("\n".join(table(COMPARISONS[options.paper], options.seeds)))


if __name__ == "__main__":
    main()
