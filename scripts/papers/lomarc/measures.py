"""Figures of a LOMARC run beside its summary: the funnel of table 5, and how the co-located pairs truly get on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from cosched_emulator import Run
from cosched_emulator.explain.gang_facts import chosen_job, funnel
from cosched_emulator.run.coupling import TraceRecord
from cosched_hwmodel.models.paper_pairs import LomarcPairs
from cosched_hwmodel.units import WHOLE_PPM

CONSTRAINTS: Final = ("all", "short", "size", "memory", "type", "slowdown")  # as a decision trace names them
LIMIT: Final = 1.6  # largest slowdown of a match


def figures(run: Run) -> dict[str, Any]:
    """Return the figures of a traced run; a policy that does not search for partners has none."""
    records = run.trace or []
    pairs = sorted(set(_pairs(records)))
    return {**_funnel(records), **_slowdowns(run, pairs)} if pairs else {}


figures.needs_trace = True  # type: ignore[attr-defined]  # how a study asks for the trace


def _funnel(records: Sequence[TraceRecord]) -> dict[str, float | int | None]:
    """Return the mean number of candidates that each constraint leaves, over all searches and over those that matched."""
    found = funnel(records)["partners"]
    means = {f"funnel_{name}": found.left[name].mean for name in CONSTRAINTS if name in found.left}
    matched = {f"funnel_matched_{name}": found.left[name].mean_matched for name in CONSTRAINTS if name in found.left}
    return {"funnel_searches": found.searches, **means, **matched, "funnel_position": found.position}


def _pairs(records: Sequence[TraceRecord]) -> Iterator[tuple[int, int]]:
    """Yield the pairs that a search put on the same nodes."""
    for record in records:
        if record["kind"] == "start":
            search = record.get("hosts") or ("host" not in record and record.get("partners")) or {}
            other = chosen_job(search)
            if other is not None:
                yield record["job"], other


def _slowdowns(run: Run, pairs: Sequence[tuple[int, int]]) -> dict[str, float | int]:
    """Return the true slowdowns of the pairs, whatever the scheduler believed."""
    model = LomarcPairs(run.prepared.hardware.lomarc)
    jobs = {job.id: job for job in run.prepared.workload.jobs}
    both = [(jobs[one], jobs[other]) for one, other in pairs]
    slowdowns = [model.slowdown(one, other) for one, other in both]
    # The last part of a usage is the memory that the job takes of its nodes, in millionths.
    crowded = [one.usage[-1] + other.usage[-1] > WHOLE_PPM for one, other in both if one.usage and other.usage]
    return {
        "pairs": len(pairs),
        "pairs_slowdown": sum(slowdowns) / len(pairs),
        "pairs_not_slowed": sum(slowdown == 1 for slowdown in slowdowns) / len(pairs),
        "pairs_above_limit": sum(slowdown > LIMIT for slowdown in slowdowns),
        "pairs_above_memory": sum(crowded),
    }
