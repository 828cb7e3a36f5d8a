"""How short a makespan can be at best, whatever the order: the least node time that co-runs and compact runs need for all work.

A linear program. Its variables are node seconds of each pair of applications and of each application alone, compact or spread; each
application's work must be done. Nodes may be cut at will, every job has its best partner all the time, and no node is ever
idle at the end: no schedule of the jobs, in pairs by halves, is shorter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosched_hwmodel.measured.co_run_table import CoRunTable

_TINY: Final = 1e-9

Floats = NDArray[np.float64]


class Application(NamedTuple):
    """An application and the work of all its jobs."""

    name: str
    processes: int
    run_s: float  # of all jobs together, compact


def least_makespan_s(applications: Sequence[Application], table: CoRunTable, nodes: int, cores: int) -> float:
    """Return the bound in seconds.

    Two jobs of more than half of the machine, which it does not hold spread, cannot run at once either.
    """
    wide = sum(each.run_s for each in applications if 2 * _nodes(each, cores) > nodes and _spread(each, cores) > nodes)
    progress = [*_compact(applications, cores)]
    for (one, a), (other, b) in combinations_with_replacement(enumerate(applications), 2):
        mine, its = table.ratios.get((a.name, b.name)), table.ratios.get((b.name, a.name))
        if mine is None or its is None or max(_spread(a, cores), _spread(b, cores)) > nodes:
            continue
        done = np.zeros(len(applications))
        done[one] += 1.0 / mine / _spread(a, cores)
        done[other] += 1.0 / its / _spread(b, cores)
        progress.append(done)
    work = np.array([each.run_s for each in applications])
    return max(wide, least_cost(np.array(progress), work) / nodes)


def area_s(applications: Sequence[Application], nodes: int, cores: int) -> float:
    """Return the makespan of compact jobs on nodes that are never idle, in seconds."""
    return sum(each.run_s * _nodes(each, cores) for each in applications) / nodes


def totals(jobs: Sequence[tuple[str, int, float]]) -> list[Application]:
    """Return the applications of jobs, each a name, processes and seconds."""
    found: dict[str, Application] = {}
    for name, processes, run_s in jobs:
        before = found.get(name)
        found[name] = Application(name, processes, run_s + (0.0 if before is None else before.run_s))
    return [*found.values()]


def least_cost(progress: Floats, work: Floats) -> float:
    """Return the least sum of x >= 0 with ``progress.T @ x >= work``: by the simplex method on the dual, whose start is 0.

    The dual: prices of work, at least 0, worth most in all, where no row of ``progress`` is worth more than 1.
    """
    rows, columns = progress.shape
    tableau = np.hstack([progress, np.eye(rows), np.ones((rows, 1))])
    gains = np.concatenate([work, np.zeros(rows + 1)])
    for _ in range(50 * (rows + columns)):
        entering = int(np.argmax(gains[:-1]))
        if gains[entering] <= _TINY:
            return float(-gains[-1])
        column = tableau[:, entering]
        up = column > _TINY
        ratios = np.where(up, tableau[:, -1] / np.where(up, column, 1.0), np.inf)
        leaving = int(np.argmin(ratios))
        if not up[leaving]:
            raise ValueError("some work is done by nothing")
        tableau[leaving] /= tableau[leaving, entering]
        others = np.arange(rows) != leaving
        tableau[others] -= np.outer(tableau[others, entering], tableau[leaving])
        gains -= gains[entering] * tableau[leaving]
    raise ArithmeticError("no end of the simplex method")


def best_pair(table: CoRunTable, names: Sequence[str]) -> tuple[str, str, float]:
    """Return the pair of applications with the highest mean speedup, and that: what no mix of them can exceed."""
    return max(
        ((one, other, _mean_of(table.ratios, one, other)) for one, other in combinations_with_replacement(names, 2)),
        key=lambda found: found[2],
    )


def _mean_of(ratios: Mapping[tuple[str, str], float], one: str, other: str) -> float:
    return (1.0 / ratios[one, other] + 1.0 / ratios[other, one]) / 2


def _compact(applications: Sequence[Application], cores: int) -> Sequence[Floats]:
    return [row / _nodes(each, cores) for each, row in zip(applications, np.eye(len(applications)), strict=True)]


def _nodes(application: Application, cores: int) -> int:
    return -(-application.processes // cores)


def _spread(application: Application, cores: int) -> int:
    return -(-application.processes // (cores // 2))
