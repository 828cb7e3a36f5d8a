"""What a decision trace tells of resources and hardware threads: what costs a pair most, and why a job got its threads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cosched_emulator.explain.funnel import Record

_PLACES: Final = {
    "same cores": "It shares cores with its neighbour",
    "other cores": "It has other cores than its neighbour",
    "other sockets": "It has other sockets than its neighbour, as far as there are any",
    "sides": "The jobs have different cores of every CPU",
    "cpus": "The jobs have different CPUs, as far as there are any",
}


def resource_facts(record: Record) -> dict[str, Any]:
    """Return the ``resource`` and the ``seat`` of a start, of its own or of its group; None where they were not told."""
    told = {**(record["group"] if isinstance(record.get("group"), Mapping) else {}), **record}
    resource, seat = told.get("resource"), told.get("seat")
    return {
        "resource": resource if isinstance(resource, str) else None,
        "seat": seat if _is_seat(seat) else None,
    }


def slowed_by(search: Record) -> dict[str, int]:
    """Return how many jobs the largest slowdown kept out of a search, by the resource that adds most to it."""
    told = search.get("slowed_by")
    if not isinstance(told, Mapping):
        return {}
    return {name: len(jobs) for name, jobs in told.items() if isinstance(jobs, list)}


def resource_of(search: Record, job: int) -> str | None:
    """Return the resource because of which ``job`` was too slow for a search; None if that was not told."""
    told = search.get("slowed_by")
    if not isinstance(told, Mapping):
        return None
    return next((name for name, jobs in told.items() if isinstance(jobs, list) and job in jobs), None)


def counts_text(counts: Mapping[str, int]) -> str:
    """Return counts by resource, in brackets: `` (memory bandwidth: 2)``; nothing if there are none."""
    told = [f"{name}: {count}" for name, count in counts.items() if count]
    return f" ({', '.join(told)})" if told else ""


def resource_sentences(start: Mapping[str, Any]) -> Iterator[str]:
    """Yield what costs the job and its neighbours most, and why it got its threads."""
    if start["resource"] is not None:
        yield f"What costs them most is the resource {start['resource']!r}."
    seat = start["seat"]
    if seat is not None:
        chosen, compared = seat["chosen"], seat["compared"]
        others = [f"{slowdown:.3f} with {name!r}" for name, slowdown in compared.items() if name != chosen]
        least = f"the least slowdown that is expected, {compared[chosen]:.3f}"
        instead = f", instead of {' or '.join(others)}" if others else ""
        yield f"{_PLACES.get(chosen, f'Its threads are those of {chosen!r}')}: {least}{instead}."


def _is_seat(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    compared = value.get("compared")
    return (
        isinstance(compared, Mapping)
        and value.get("chosen") in compared
        and all(type(slowdown) in (int, float) for slowdown in compared.values())
    )
