"""Figures of a run: a worked example, and a plain evaluation as reference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import strategies as st
from tests.emulator.results.samples import (
    SECOND,
    TWO_NODES,
    UNEQUAL_NODES,
    record,
    records_on_unequal_nodes,
    six_jobs,
    stay,
)
from tests.properties import drawn
from tests.runs import run_on

from cosched_emulator.manager.record import JobRecord, Stay
from cosched_emulator.results.figures.metrics import QUANTITIES, STATES, Selection, summarise
from cosched_plugin.protocol.messages import COMPLETED, TIMEOUT, NodeClass

NOTHING = {"count": 0, "mean": None, "median": None, "p95": None, "standard_deviation": None, "max": None}


def figures(values: Sequence[float]) -> dict[str, float | int | None]:
    """Evaluate the definition of each statistic one by one."""
    if not values:
        return dict(NOTHING)
    ordered = sorted(values)

    def percentile(share: float) -> float:
        place = share * (len(ordered) - 1)
        below = math.floor(place)
        above = min(below + 1, len(ordered) - 1)
        return ordered[below] + (place - below) * (ordered[above] - ordered[below])

    mean = math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    return {
        "count": len(values),
        "mean": mean,
        "median": percentile(0.5),
        "p95": percentile(0.95),
        "standard_deviation": deviation,
        "max": ordered[-1],
    }


# ---------------------------------------------------------------- worked example


@pytest.fixture
def example() -> dict[str, Any]:
    return summarise(six_jobs(), TWO_NODES)


@pytest.mark.parametrize(
    ("quantity", "finished", "killed"),
    [
        ("wait_s", [0, 10, 70], 10),
        ("response_s", [100, 50, 76], 30),
        ("bounded_slowdown_10s", [1, 50 / 32, 7.6], 30 / 16),
        ("bounded_slowdown_60s", [1, 1, 76 / 60], 1),
        ("relative_response_60s", [1, 50 / 60, 76 / 60], 0.5),
        ("slowdown", [1, 50 / 32, 19], 30 / 16),
        ("penalised_percent", [0, 25, 50], 25),
    ],
)
def test_each_quantity_of_the_worked_example(
    example: dict[str, Any], quantity: str, finished: list[float], killed: float
) -> None:
    assert example["finished"][quantity] == pytest.approx(figures(finished), abs=1e-6)
    assert example["all"][quantity] == pytest.approx(figures([*finished, killed]), abs=1e-6)


# ---------------------------------------------------------------- which jobs count


def test_a_killed_job_in_the_warm_up_is_not_counted() -> None:
    summary = summarise(six_jobs(), TWO_NODES, Selection(warmup=3))
    assert summary["killed"] == {"count": 0, "share": 0.0}
    assert summary["states"]["TIMEOUT"] == 0


@pytest.mark.parametrize("selection", [{"warmup": -1}, {"cooldown": -1}])
def test_negative_selections_are_refused(selection: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="negative"):
        Selection(**selection)


# ---------------------------------------------------------------- edges (warnings are errors here)


def assert_no_figures(summary: dict[str, Any], population: str) -> None:
    assert summary[population] == dict.fromkeys(QUANTITIES, NOTHING)


def test_an_empty_selection_has_no_figures() -> None:
    summary = summarise(six_jobs(), TWO_NODES, Selection(warmup=4, cooldown=4))
    assert summary["selection"]["counted"] == 0
    assert_no_figures(summary, "all")
    assert summary["machine"]["makespan_s"] == 106.0


def test_totals_beyond_64_bits_are_exact() -> None:
    machine = (NodeClass(100_000, 2, 64, 2, 1, 1, 1, 1),)
    decade_s = 10 * 365 * 86400
    jobs = [record(1, 0, stays=(stay(0, decade_s, run_on(0, 100_000, 2**256 - 1, 256)),), work_s=decade_s)]
    figures_of_it = summarise(jobs, machine)["machine"]
    assert figures_of_it["utilisation"] == 1.0
    assert figures_of_it["node_utilisation"] == 1.0


# ---------------------------------------------------------------- against a plain evaluation


def plain_summary(records: list[JobRecord], machine: Sequence[NodeClass], selection: Selection) -> dict[str, Any]:
    """Evaluate every definition job by job and instant by instant."""
    ordered = sorted(records, key=lambda item: (item.job.spec.submit_us, item.job.spec.id))
    counted = ordered[selection.warmup : max(selection.warmup, len(ordered) - selection.cooldown)]
    ran = [item for item in counted if plain_last_stays(item) and item.end_us is not None]
    result: dict[str, Any] = {
        "states": {name: sum(item.state == name and item.end_us is not None for item in counted) for name in STATES}
        | {"UNFINISHED": sum(item.end_us is None for item in counted)},
        "killed": sum(item.state == TIMEOUT for item in ran),
    }
    for population in ("finished", "all"):
        chosen = [item for item in ran if population == "all" or item.state == COMPLETED]
        values: dict[str, list[float]] = {quantity: [] for quantity in QUANTITIES}
        for item in chosen:
            assert item.end_us is not None
            last = plain_last_stays(item)
            response = item.end_us - item.job.spec.submit_us
            values["wait_s"].append((last[0].start_us - item.job.spec.submit_us) / SECOND)
            values["response_s"].append(response / SECOND)
            for bound in (10, 60):
                values[f"bounded_slowdown_{bound}s"].append(max(1, response / max(item.work_us, bound * SECOND)))
            values["relative_response_60s"].append(response / max(item.work_us, 60 * SECOND))
            if item.work_us:
                values["slowdown"].append(response / item.work_us)
                wall = sum(each.end_us - each.start_us for each in last)
                values["penalised_percent"].append(100 * (wall - item.work_us) / item.work_us)
        result[population] = {quantity: figures(sample) for quantity, sample in values.items()}
    result["machine"] = plain_machine(ordered, machine)
    return result


def plain_machine(records: list[JobRecord], machine: Sequence[NodeClass]) -> dict[str, float | None]:
    nodes = sum(node_class.nodes for node_class in machine)
    threads = sum(node_class.nodes * node_class.threads for node_class in machine)
    first = min((item.job.spec.submit_us for item in records), default=0)
    submit_span = max((item.job.spec.submit_us for item in records), default=0) - first
    ends = [item.end_us for item in records if item.end_us is not None]
    ends += [each.end_us for item in records for each in item.intervals]
    ends += [each.end_us for item in records for each in item.disk if each.end_us is not None]
    last = max(ends, default=first)
    makespan = last - first
    times = sorted({first, last, *ends} | {t for item in records for t in plain_times(item)})
    times = [time for time in times if time <= last]  # a cut run may have submissions after the last end
    thread_time = used = shared = queued = 0
    for begin, end in pairwise(times):
        on_node = [0] * nodes
        for item in records:
            submitted = item.job.spec.submit_us <= begin
            present = [each for each in item.intervals if each.start_us <= begin < each.end_us]
            for each in present:
                for first_node, count, mask, _ in each.runs:
                    thread_time += (end - begin) * count * bin(mask).count("1")
                    for node in range(first_node, first_node + count):
                        on_node[node] += 1
            over = item.end_us is not None and item.end_us <= begin
            queued += (end - begin) * (submitted and not over and not present and not on_disk(item, begin))
        used += (end - begin) * sum(jobs >= 1 for jobs in on_node)
        shared += (end - begin) * sum(jobs >= 2 for jobs in on_node)
    last_nodes = [(item, sum(run[1] for stay in plain_last_stays(item)[-1:] for run in stay.runs)) for item in records]
    work = sum(item.work_us * nodes_of_job for item, nodes_of_job in last_nodes)
    offered = sum(item.job.run_us * item.job.spec.processes * item.job.spec.threads_per_process for item in records)
    completed = sum(item.state == COMPLETED for item in records)
    preemptions = [len(item.disk) for item in records if item.disk]
    peak = max((sum(plain_swap(item, time) for item in records) for time in times), default=0)
    more: dict[str, float | None] = {"peak_swap_mb": peak} if peak else {}
    if preemptions:
        more |= {"preemptions": sum(preemptions), "preemptions_per_job": sum(preemptions) / len(preemptions)}
    return more | {
        "nodes": nodes,
        "threads": threads,
        "makespan_s": makespan / SECOND if records else None,
        "utilisation": thread_time / (threads * makespan) if makespan else None,
        "node_utilisation": used / (nodes * makespan) if makespan else None,
        "node_sharing": shared / used if used else None,
        "node_efficiency": work / (nodes * makespan) if makespan else None,
        "mean_queue_length": queued / makespan if makespan else None,
        "offered_load": offered / (threads * submit_span) if submit_span else None,
        "jobs_per_hour": completed * 3600 * SECOND / makespan if makespan else None,
    }


def plain_times(item: JobRecord) -> list[int]:
    times = [item.job.spec.submit_us, *(t for each in item.intervals for t in (each.start_us, each.end_us))]
    return times + [t for each in item.disk for t in each if t is not None]


def plain_last_stays(item: JobRecord) -> list[Stay]:
    left = max([*[each.end_us for each in item.intervals], *[each.end_us or 0 for each in item.disk]], default=0)
    on_disk = any(each.end_us is None for each in item.disk)
    if not on_disk and (item.end_us is None or item.end_us > left):
        return []  # it waits again
    stays: list[Stay] = []
    for each in item.intervals:
        stays = [*stays, each] if each.resumed else [each]
    return stays


def on_disk(item: JobRecord, time: int) -> bool:
    return any(each.start_us <= time and (each.end_us is None or time < each.end_us) for each in item.disk)


def plain_swap(item: JobRecord, time: int) -> int:
    return item.job.spec.processes * item.job.spec.memory_mb if on_disk(item, time) else 0


def assert_close(found: Any, expected: Any) -> None:
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        if value is None:
            assert found[key] is None, key
        else:
            assert found[key] == pytest.approx(value, rel=1e-6, abs=1e-6), key


@drawn(records_on_unequal_nodes(), st.integers(0, 4), st.integers(0, 4), few=20, many=150)
def test_figures_agree_with_a_plain_evaluation(records: list[JobRecord], warmup: int, cooldown: int) -> None:
    selection = Selection(warmup, cooldown)
    summary = summarise(records, UNEQUAL_NODES, selection)
    expected = plain_summary(records, UNEQUAL_NODES, selection)
    assert summary["states"] == expected["states"]
    assert summary["killed"]["count"] == expected["killed"]
    assert_close(summary["machine"], expected["machine"])
    for population in ("finished", "all"):
        for quantity in QUANTITIES:
            assert_close(summary[population][quantity], expected[population][quantity])
