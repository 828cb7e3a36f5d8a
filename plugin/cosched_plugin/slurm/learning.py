"""Runs of applications from the rows of Slurm's accounting: who had company, of which application, for how long.

Jobs that hold a node at the same time have each other's company, whatever their cores. A sweep over each node's starts and ends finds
it, in n log n. A run counts until it meets a second job, as what follows tells nothing of the first one alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from cosched_hwmodel.measured.elapsed_times import Run
from cosched_plugin.common.sacct_rows import UNNAMED, SacctRow
from cosched_plugin.common.slurm_notation import expand

SUSPENDED: Final = "runs that were suspended"
NAMELESS: Final = "runs without a name of their own, such as that of sbatch --wrap ([[jobs]] application gives one)"
UNDONE: Final = "runs that did not complete: they count as longer than they were"
CROWDED: Final = "runs that met a second job: they count until then"
# Slurm's own names of jobs whose users gave none
_NO_NAMES: Final = frozenset({"", "wrap", "sbatch", "interactive", "bash", "sh", "allocation"})
_TOUCH_S: Final = 2  # Slurm's times are whole seconds: jobs that follow each other overlap by one


class Learned(NamedTuple):
    """The runs, the earliest first, and what was left out, by what is said of it."""

    runs: Sequence[Run]
    counts: Mapping[str, int]


class _Stay(NamedTuple):
    """A run of a job on its nodes."""

    row: SacctRow
    application: str  # empty: it has no name of its own
    start_s: int
    end_s: int


class _Meeting(NamedTuple):
    """Two runs on a node, from one moment to another, with nobody else there."""

    begin_s: int
    end_s: int
    other: int  # the place of the other run


def has_name(name: str) -> bool:
    """Tell whether a job's name is one that its user gave, and that a table of pairs can hold."""
    return name not in _NO_NAMES and name.isprintable() and name == name.strip() and not name.startswith("#")


def runs_of(rows: Iterable[SacctRow], application_of: Callable[[SacctRow], str]) -> Learned:
    """Return the runs in the rows of a dump; ``application_of`` says what a row's job is an instance of."""
    counts: Counter[str] = Counter()
    stays = sorted(_stays(rows, application_of), key=lambda stay: stay.start_s)
    meetings: list[list[_Meeting]] = [[] for _ in stays]
    crowded_s: list[float] = [math.inf] * len(stays)  # when a run was on a node with two others
    for changes in _by_node(stays):
        _sweep(changes, meetings, crowded_s)
    runs = []
    for stay, met, until_s in zip(stays, meetings, crowded_s, strict=True):
        if stay.row.suspended_s:
            counts[SUSPENDED] += 1
        elif not stay.application:
            counts[NAMELESS] += 1
        else:
            run = _run(stay, sorted(met), until_s, stays)
            counts[CROWDED] += stay.row.state == "COMPLETED" and not run.completed
            counts[UNDONE] += stay.row.state != "COMPLETED"
            runs.append(run)
    return Learned(runs, +counts)


def _stays(rows: Iterable[SacctRow], application_of: Callable[[SacctRow], str]) -> Iterator[_Stay]:
    """Yield the rows that held nodes; what still runs holds them to the last moment that the dump knows."""
    held = [
        row
        for row in rows
        if row.start_s is not None and row.node_list not in UNNAMED and "." not in row.label and "." not in row.number
    ]
    last_s = max([row.end_s or (row.start_s or 0) + row.elapsed_s + row.suspended_s for row in held], default=0)
    for row in held:
        start_s, end_s = row.start_s or 0, last_s if row.end_s is None else row.end_s
        if end_s > start_s:
            name = application_of(row)
            yield _Stay(row, name if has_name(name) else "", start_s, end_s)


def _by_node(stays: Sequence[_Stay]) -> Iterator[list[tuple[int, int, int]]]:
    """Yield for each node the moments at which its runs change: (moment, 1 if the run comes, its place)."""
    names = lru_cache(1 << 14)(expand)  # few lists of nodes are met once alone
    nodes: dict[str, list[tuple[int, int, int]]] = {}
    for place, stay in enumerate(stays):
        for name in names(stay.row.node_list):
            nodes.setdefault(name, []).extend(((stay.start_s, 1, place), (stay.end_s, 0, place)))
    for changes in nodes.values():
        changes.sort()
        yield changes


def _sweep(changes: Iterable[tuple[int, int, int]], meetings: Sequence[list[_Meeting]], crowded_s: list[float]) -> None:
    """Add what happened on one node to what its runs met."""
    there: dict[int, None] = {}
    since_s = 0
    for at_s, comes, place in changes:
        if len(there) > 1 and at_s - since_s >= _TOUCH_S:
            if len(there) == 2:
                one, other = there
                meetings[one].append(_Meeting(since_s, at_s, other))
                meetings[other].append(_Meeting(since_s, at_s, one))
            else:
                for each in there:
                    crowded_s[each] = min(crowded_s[each], since_s)
        since_s = at_s
        if comes:
            there[place] = None
        else:
            there.pop(place, None)


def _run(stay: _Stay, met: Sequence[_Meeting], until_s: float, stays: Sequence[_Stay]) -> Run:
    """Return a run as it was until it met a second job; ``until_s``: until then at most."""
    row, beside = stay.row, ""
    begin_s = company_s = end_s = stay.end_s
    for meeting in met:
        other = stays[meeting.other].application
        if not beside:
            if meeting.begin_s >= until_s or not other:
                until_s = min(until_s, meeting.begin_s)
                break
            beside, begin_s, company_s = other, meeting.begin_s, meeting.end_s
        # On another of its nodes, or the next of the kind
        elif other == beside and meeting.begin_s < company_s + _TOUCH_S:
            company_s = max(company_s, meeting.end_s)
        else:
            until_s = min(until_s, meeting.begin_s)
            break
    completed = row.state == "COMPLETED" and until_s >= end_s
    end_s = int(min(end_s, until_s))
    company_s = min(company_s, end_s)
    beside_s = company_s - begin_s if beside else 0
    population = stay.application, row.user, row.cpus, row.nodes, row.limit_min
    return Run(
        stay.application, population, min(begin_s, end_s) - stay.start_s, beside if beside_s else "", beside_s,
        end_s - company_s if beside else 0, completed,
    )  # fmt: skip
