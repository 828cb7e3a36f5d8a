"""The Gantt chart of a run: its jobs and their boxes of nodes and time, packed for ``assets/schedule.js``.

A box is a run of neighbouring nodes of a stay, as in ``allocations.csv``. It is not split where neighbours come and go: the
painter counts who shares a pixel.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cosched_emulator.page.document import Figure
from cosched_emulator.results.ended_jobs import IntArray
from cosched_emulator.results.figures.occupancy import Steps, distinct, jobs_waiting, span_us, threads_held
from cosched_emulator.results.files.run_reader import JobOwners, StoredRun
from cosched_emulator.results.thread_intervals import mask_intervals
from cosched_hwmodel.units import SECOND_US

MOST_JOBS: Final = 50_000  # of all charts of a page
MOST_BOXES: Final = 500_000  # likewise
_MS_US: Final = 1000


class Shown(NamedTuple):
    """The rows of the jobs that a chart shows, in order of submission, and of their stays."""

    jobs: IntArray
    stays: IntArray


def shown_jobs(run: StoredRun, most_jobs: int = MOST_JOBS, most_boxes: int = MOST_BOXES) -> Shown:
    """Return the first jobs that were on nodes, up to both limits, and their stays in order of time."""
    stays = run.stays
    boxes = np.bincount(stays.job, minlength=len(run.jobs))
    rows = np.flatnonzero(boxes)
    rows = rows[np.cumsum(boxes[rows]) <= most_boxes][:most_jobs]
    chosen = np.flatnonzero(np.isin(stays.job, rows))
    return Shown(rows, chosen[np.argsort(stays.start_us[chosen], kind="stable")])


def schedule_figure(
    title: str, run: StoredRun, owners: JobOwners, shown: Shown, reasons: Mapping[int, str] | None = None
) -> Figure:
    """Return the chart of ``shown`` jobs; ``reasons`` has sentences by number of the job, None without a decision trace."""
    jobs, stays, rows = run.jobs, run.stays, shown.jobs
    begin_us, end_us = span_us(jobs, stays)
    if rows.size < distinct(stays.job).size:
        end_us = int(stays.end_us[shown.stays].max(initial=begin_us))
    state, user = jobs.state.select(rows), owners.user.select(rows)
    names = [name if name != str(number) else "" for name, number in zip(owners.name[rows], jobs.id[rows], strict=True)]
    ids = jobs.id[rows].tolist()
    data: dict[str, Any] = {
        "begin_s": begin_us / SECOND_US,
        "end_s": max(end_us, begin_us + SECOND_US) / SECOND_US,
        "nodes": run.nodes,
        "classes": [[item.nodes, item.threads] for item in run.machine],
        "deepest": 3 if run.summary["machine"].get("node_sharing") else 1,
        "masks": [hex(mask) for mask in stays.mask.distinct],
        "states": state.distinct,
        "users": user.distinct,
        "jobs": _job_columns(run, shown) | {"state": pack_numbers(state.places), "user": pack_numbers(user.places)},
        "boxes": _box_columns(run, shown),
        "partitions": run.partitions,
        "counted": [
            {
                "name": name,
                "classes": [[item.nodes, dict(item.resources).get(name, 0)] for item in run.machine],
                "amounts": pack_numbers(owners.counted(name)[rows]),
            }
            for name in run.counted
        ],
        "facts": [
            {"name": name, "values": fact.distinct, "places": pack_numbers(fact.places[rows])}
            for name, fact in owners.facts.items()
            if name != "user" and any(fact.distinct)
        ],
    }
    if any(names):
        data["names"] = pack_texts(names)
    if reasons is not None:
        data["reasons"] = pack_texts([reasons.get(number, "") for number in ids])
    return Figure("schedule", title, _left_out(run, shown), data)


def _job_columns(run: StoredRun, shown: Shown) -> dict[str, Any]:
    """Return the jobs, in milliseconds; the end of a job that never ended is -1 s."""
    jobs, stays, rows = run.jobs, run.stays, shown.jobs
    first_us = np.full(len(jobs), np.iinfo(np.int64).max)
    np.minimum.at(first_us, stays.job, stays.start_us)
    start_us = np.where(jobs.started, jobs.start_us, first_us)  # a requeued job may wait for its next start
    columns = {
        "id": jobs.id,
        "submit": jobs.submit_us // _MS_US,
        "start": start_us // _MS_US,
        "end": np.where(jobs.ended, jobs.end_us // _MS_US, -1000),
        "wall": jobs.wall_us // _MS_US,
        "work": jobs.work_us // _MS_US,
        "threads": jobs.threads,
    }
    return {name: pack_numbers(column[rows]) for name, column in columns.items()}


def _box_columns(run: StoredRun, shown: Shown) -> dict[str, Any]:
    stays = run.stays
    place = np.zeros(len(run.jobs), dtype=np.int64)
    place[shown.jobs] = np.arange(shown.jobs.size)
    start = stays.start_us // _MS_US
    columns = {
        "job": place[stays.job],
        "start": start,
        "length": stays.end_us // _MS_US - start,
        "first": stays.first_node,
        "count": stays.node_count,
        "mask": stays.mask.places,
    }
    return {name: pack_numbers(column[shown.stays]) for name, column in columns.items()}


def _left_out(run: StoredRun, shown: Shown) -> str:
    """Return what the chart does not show."""
    ran = distinct(run.stays.job).size
    never = len(run.jobs) - ran
    texts = []
    if shown.jobs.size < ran:
        last_s = int(run.jobs.submit_us[shown.jobs].max(initial=0)) // SECOND_US
        texts.append(
            f"The chart and its table show the first {shown.jobs.size:,} of {ran:,} jobs, those submitted up to "
            f"{last_s / 3600:,.0f} h; all other figures are of the whole run."
        )
    if run.jobs.cpu_us is not None:
        texts.append("Jobs take turns on the same threads: the chart shows who held them, plot --kind quanta who ran.")
    if never:
        texts.append(f"{never:,} jobs never were on a node and are not in the chart.")
    return " ".join(texts)


# Columns of numbers and lists of texts as short texts, which ``assets/unpack.js`` reads back.
#
# A column of whole numbers is stored as differences of neighbours, in units of their greatest common divisor; a difference
# that is not negative is doubled, another one is -2d - 1. Byte planes follow each other (all lowest bytes, then the next
# ones), compressed by zlib, as base64. Browsers decompress zlib's format as ``deflate``.

_LEVEL: Final = 6


def pack_numbers(values: npt.NDArray[np.int64]) -> dict[str, Any]:
    """Return a column of whole numbers; exact up to 2^53, as numbers in a browser are."""
    unit = max(1, int(np.gcd.reduce(values))) if values.size else 1
    steps = np.diff(values // unit, prepend=0)
    whole = ((steps << 1) ^ (steps >> 63)).astype("<u8")
    planes = (int(whole.max()).bit_length() + 7) // 8 if whole.size else 0
    lowest_first = whole.view(np.uint8).reshape(-1, 8)[:, :planes].T.tobytes()
    return {"count": values.size, "unit": unit, "planes": planes, "data": _compressed(lowest_first)}


def pack_texts(texts: Sequence[str]) -> str:
    """Return a list of texts."""
    return _compressed(json.dumps(texts, ensure_ascii=False).encode())


def _compressed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, _LEVEL)).decode("ascii")


# A run as trace events, the JSON that Perfetto, chrome://tracing and speedscope read.
#
# A node is a process and one of its hardware threads a thread, so a job has an event on each thread that it holds, for each of
# its stays. The queue and the held threads are counters. Times are microseconds, as in the run.


def trace_events(run: StoredRun, owners: JobOwners) -> Iterator[str]:
    """Yield the text of the file, an event a line; ``owners`` are those of its jobs."""
    separator = '{"displayTimeUnit":"ms","traceEvents":[\n'
    for event in _events(run, owners):
        yield separator + json.dumps(event, separators=(",", ":"))
        separator = ",\n"
    yield (separator if separator[0] == "{" else "\n") + "]}\n"


def _events(run: StoredRun, owners: JobOwners) -> Iterator[dict[str, Any]]:
    # Process 0 has the counters: node n is process n + 1.
    yield {"ph": "M", "pid": 0, "name": "process_name", "args": {"name": "machine"}}
    for node in range(run.nodes):
        yield {"ph": "M", "pid": node + 1, "name": "process_name", "args": {"name": f"node {node}"}}
        yield {"ph": "M", "pid": node + 1, "name": "process_sort_index", "args": {"sort_index": node + 1}}
    yield from _counter("pending jobs", "jobs", jobs_waiting(run.jobs, run.stays))
    yield from _counter("hardware threads held", "threads", threads_held(run.stays))
    stays = run.stays
    columns = (stays.job, stays.start_us, stays.end_us, stays.first_node, stays.node_count, stays.mask)
    for job, start_us, end_us, first, count, mask in zip(*columns, strict=True):
        told = {
            "name": f"job {run.jobs.id[job]}",
            "cat": "job",
            "ph": "X",
            "ts": int(start_us),
            "dur": int(end_us - start_us),
        }
        args = _about(run, owners, int(job))
        threads = [thread for low, high in mask_intervals(mask) for thread in range(low, high + 1)]
        for node in range(int(first), int(first + count)):
            for thread in threads:
                yield {**told, "pid": node + 1, "tid": thread, "args": args}


def _about(run: StoredRun, owners: JobOwners, job: int) -> dict[str, Any]:
    jobs = run.jobs
    return {
        **{name: fact[job] for name, fact in owners.facts.items() if name == "user" or fact[job]},
        "name": owners.name[job],
        "threads": int(jobs.threads[job]),
        "submitted_s": int(jobs.submit_us[job]) / SECOND_US,
        "state": jobs.state[job],
        "times_as_long_as_alone": round(int(jobs.wall_us[job]) / int(jobs.work_us[job]), 6)
        if jobs.work_us[job]
        else None,
    }


def _counter(name: str, unit: str, steps: Steps) -> Iterator[dict[str, Any]]:
    for time_us, value in zip(steps.times_us.tolist(), steps.values.tolist(), strict=True):
        yield {"name": name, "ph": "C", "pid": 0, "ts": time_us, "args": {unit: value}}
