"""Figures of the G-LOMARC-TS reproduction over seeds: as they are, and against another run of the same seed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

from scripts.papers.frame import by_seed, percent_above
from scripts.papers.glts.runs import Task

Results: TypeAlias = Mapping[Task, Mapping[str, Any]]


def figure_of(result: Mapping[str, Any], key: str) -> float | None:
    """Return a figure by its path in what is stored of a run, such as ``rr_60.medium``; None where there is none."""
    found: Any = result
    for part in key.split("."):
        if not isinstance(found, Mapping) or found.get(part) is None:
            return None
        found = found[part]
    return float(found)


def values(results: Results, key: str, task: Task, seeds: Collection[int] | None = None) -> dict[int, float]:
    """Return a figure of ``task`` for all ``seeds`` that are there (None: any), in their order."""
    found = {
        other: {key: value}
        for other, result in results.items()
        if other.series == task.series and (seeds is None or other.seed in seeds)
        if (value := figure_of(result, key)) is not None
    }
    return by_seed(found, key, task)


def changes(results: Results, key: str, task: Task, other: Task) -> dict[int, float]:
    """Return by how many percent ``task`` is above ``other``, for each seed that both have."""
    return percent_above(values(results, key, task), values(results, key, other))


def against(results: Results, key: str, task: Task, rival: str) -> dict[int, float]:
    """Return by how many percent ``task`` is above another scheduler of the same jobs under the same conditions.

    Where a variant is none of the rival's, the rival's base runs are what it is held against.
    """
    other = task.space_sharing if rival == "SSP" else task._replace(scheduler=rival)
    return changes(results, key, task, other)
