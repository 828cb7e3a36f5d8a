"""Figures of a LOMARC run beside its summary: the funnel of table 5, how pairs truly get on, idle time, and waits by class of jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cosched_emulator import Run
from cosched_emulator.explain.gang_facts import chosen_job, funnel
from cosched_emulator.results.record_columns import RecordColumns, StayColumns
from cosched_emulator.run.coupling import TraceRecord
from cosched_hwmodel.models.paper_pairs import LomarcPairs
from cosched_hwmodel.units import SECOND_US, WHOLE_PPM
from cosched_plugin.policies.orders import MEDIUM_US, SHORT_US

CONSTRAINTS: Final = ("all", "short", "size", "memory", "type", "slowdown")  # as a decision trace names them
LIMIT: Final = 1.6  # largest slowdown of a match
CLASSES: Final = ("short", "medium", "long")  # the paper's, by run time
BOUND_US: Final = 60 * SECOND_US  # least run time of a relative response
Ints = npt.NDArray[np.int64]


def figures(run: Run) -> dict[str, Any]:
    """Return the figures of a traced run; a policy that does not search for partners has those of queue and classes alone."""
    records = run.trace or []
    pairs = sorted(set(_pairs(records)))
    jobs = run.finished.jobs
    nodes = sum(item.nodes for item in run.machine)
    waits = {**idle(jobs, run.finished.stays, nodes), **by_class(jobs)}
    return {**waits, **_funnel(records), **_slowdowns(run, pairs)} if pairs else waits


figures.needs_trace = True  # type: ignore[attr-defined]  # how a study asks for the trace


def idle(jobs: RecordColumns, stays: StayColumns, nodes: int) -> dict[str, float]:
    """Return the share of the makespan in which no job is pending, and in which nodes are free besides. All jobs have ended."""
    rows = np.repeat(np.arange(len(stays)), stays.node_count)
    first = np.cumsum(stays.node_count) - stays.node_count
    node = stays.first_node[rows] + np.arange(len(rows)) - first[rows]
    busy_from, busy_until = _union(node, stays.start_us[rows], stays.end_us[rows])
    times = np.concatenate((jobs.submit_us, jobs.start_us, busy_from, busy_until))
    ones, busy = np.ones(len(jobs), dtype=np.int64), np.ones(len(busy_from), dtype=np.int64)
    pending = np.concatenate((ones, -ones, 0 * busy, 0 * busy))
    held = np.concatenate((0 * ones, 0 * ones, busy, -busy))
    order = np.argsort(times, kind="stable")
    spans = np.diff(times[order])
    empty = np.cumsum(pending[order])[:-1] == 0
    free = np.cumsum(held[order])[:-1] < nodes
    makespan = int(spans.sum())
    return {
        "queue_empty": float(spans[empty].sum()) / makespan,
        "queue_empty_nodes_free": float(spans[empty & free].sum()) / makespan,
    }


def _union(node: Ints, start_us: Ints, end_us: Ints) -> tuple[Ints, Ints]:
    """Return begin and end of the times in which a node has one job or more, of all nodes one after the other."""
    span = int(end_us.max()) + 1
    order = np.lexsort((start_us, node))
    # Each node's times lie behind those of the node before.
    begin, end = (times[order] + node[order] * span for times in (start_us, end_us))
    until = np.maximum.accumulate(end)
    new = np.concatenate(([True], begin[1:] > until[:-1]))
    last = np.concatenate((new[1:], [True]))
    return begin[new] % span, until[last] % span


def by_class(jobs: RecordColumns) -> dict[str, float]:
    """Return by the paper's classes the mean wait in seconds, the mean relative response, and the share of the queue over time."""
    wait_us = jobs.start_us - jobs.submit_us
    rbr = (jobs.end_us - jobs.submit_us) / np.maximum(jobs.work_us, BOUND_US)
    place = np.searchsorted((SHORT_US, MEDIUM_US), jobs.estimate_us)
    found: dict[str, float] = {}
    for number, name in enumerate(CLASSES):
        rows = place == number
        if rows.any():
            found[f"wait_s_of_{name}"] = float(wait_us[rows].mean()) / SECOND_US
            found[f"rbr_of_{name}"] = float(rbr[rows].mean())
            found[f"queue_share_of_{name}"] = float(wait_us[rows].sum()) / max(1, int(wait_us.sum()))
    return found


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
