"""A run as trace events, the JSON that Perfetto, chrome://tracing and speedscope read.

A node is a process and one of its hardware threads a thread, so a job has an event on each thread that it holds, for each of
its stays. The queue and the held threads are counters. Times are microseconds, as in the run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from cosched_emulator.results.figures.occupancy import Steps, jobs_waiting, threads_held
from cosched_emulator.results.files.run_reader import JobOwners, StoredRun
from cosched_emulator.results.thread_intervals import mask_intervals
from cosched_hwmodel.units import SECOND_US


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
        "user": owners.user[job],
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
