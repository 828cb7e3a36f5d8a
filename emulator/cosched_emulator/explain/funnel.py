"""The funnel of searches for partners and hosts: the candidates left after each constraint, and the chosen one (LOMARC's table 5).

It works on the records of a decision trace, from a file or directly from a scheduler's sink.

Counted searches. ``partners``: one search for every job that started on nodes of its own after a search for a partner among the
pending jobs, successful or not. The means exclude jobs that search for no partner (short ones, or at weak load) and jobs that did
not start at that instant. ``hosts``: one search for every job that joined a running one; unsuccessful searches leave no record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Left:
    """Candidates left by a constraint, on average.

    ``mean``: over all searches. ``mean_reached``: over the ``reached`` ones in which the preceding constraint had left at least one.
    ``mean_matched``: over the searches that ended in a match. None if there is no such search.
    """

    mean: float | None
    reached: int
    mean_reached: float | None
    mean_matched: float | None


@dataclass(frozen=True, slots=True)
class Funnel:
    """The searches of one kind.

    ``left``: by constraint, in the order in which they are applied; the first, ``all``, counts all examined jobs except the searching
    one. ``position``: mean place of the chosen job among the candidates left by all constraints, in queue order (of
    hosts: by start), from 1, over the ``matched`` searches. ``profit_rank``: its mean place by profit, over the
    ``ranked`` ones that compared profits; above 1 if better ones had no room or would have delayed the reserved job.
    """

    searches: int
    matched: int
    left: Mapping[str, Left]
    position: float | None
    ranked: int
    profit_rank: float | None


def funnel(records: Iterable[Record]) -> dict[str, Funnel]:
    """Return the funnels of the searches for ``partners`` and for ``hosts``."""
    searches: dict[str, list[Record]] = {"partners": [], "hosts": []}
    for record in records:
        if record["kind"] != "start":
            continue
        if "hosts" in record:
            searches["hosts"].append(record["hosts"])
        elif "partners" in record and "host" not in record:  # else it had searched, but started on another job's nodes
            searches["partners"].append(record["partners"])
    return {kind: _funnel(found) for kind, found in searches.items()}


def chosen_job(search: Record) -> int | None:
    """Return the partner or host that a search found; None if it found none."""
    job: int | None = search.get("partner", search.get("host"))
    return job


def position(search: Record) -> int | None:
    """Return the place of the chosen job among the candidates, from 1."""
    job = chosen_job(search)
    return None if job is None else search["candidates"].index(job) + 1


def by_profit(search: Record) -> list[int] | None:
    """Return the candidates with a profit, best first, the earliest of equals first; None if profits were not compared."""
    profits = search.get("profits")
    if profits is None:
        return None
    pairs = sorted(enumerate(profits), key=lambda pair: (-pair[1], pair[0]))
    return [search["candidates"][place] for place, profit in pairs if profit > 0]


def profit_rank(search: Record) -> int | None:
    """Return the place of the chosen job by profit, from 1."""
    job, best = chosen_job(search), by_profit(search)
    return best.index(job) + 1 if best is not None and job in best else None


def _funnel(searches: list[Record]) -> Funnel:
    matched = [search for search in searches if chosen_job(search) is not None]
    left = {}
    before = ""
    for name in searches[0]["left"] if searches else ():
        reached = [search for search in searches if not before or search["left"][before]]
        left[name] = Left(
            *(_mean([search["left"][name] for search in searches]), len(reached)),
            *(_mean([search["left"][name] for search in some]) for some in (reached, matched)),
        )
        before = name
    positions = [place for search in matched if (place := position(search)) is not None]
    ranks = [rank for search in matched if (rank := profit_rank(search)) is not None]
    return Funnel(len(searches), len(matched), left, _mean(positions), len(ranks), _mean(ranks))


def _mean(counts: list[int]) -> float | None:
    return sum(counts) / len(counts) if counts else None
