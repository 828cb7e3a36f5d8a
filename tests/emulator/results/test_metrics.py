"""Figures of a run: a worked example, and a plain evaluation as reference."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from tests.emulator.results.samples import (
    SECOND,
    TWO_NODES,
    UNEQUAL_NODES,
    preempted_jobs,
    record,
    records_on_unequal_nodes,
    six_jobs,
    stay,
)
from tests.properties import drawn
from tests.runs import run_on

from cosched_emulator.manager.record import JobRecord, Stay
from cosched_emulator.results.figures.metrics import (
    PERCENTILE_RULE,
    QUANTITIES,
    STATES,
    Selection,
    percentiles,
    summarise,
)
from cosched_plugin.protocol.messages import CANCELLED, COMPLETED, REJECTED, TIMEOUT, NodeClass

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


def test_statistics_of_the_wait_of_finished_jobs(example: dict[str, Any]) -> None:
    # Waits 0, 10 and 70 s: place .95·2 = 1.9 lies between 10 and 70; variance (80² + 50² + 130²)/27.
    assert example["finished"]["wait_s"] == {
        "count": 3,
        "mean": 26.666667,
        "median": 10.0,
        "p95": 64.0,
        "standard_deviation": round(math.sqrt(25800 / 27), 6),
        "max": 70.0,
    }


def test_all_jobs_include_killed_ones_but_none_that_never_ran(example: dict[str, Any]) -> None:
    assert example["all"]["wait_s"]["count"] == 4
    assert example["all"]["wait_s"]["mean"] == 22.5
    assert example["all"]["wait_s"]["p95"] == 61.0
    assert example["ran"] == 4


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


def test_states_and_kills_are_counted(example: dict[str, Any]) -> None:
    assert example["states"] == {
        "COMPLETED": 3, "FAILED": 0, "TIMEOUT": 1, "CANCELLED": 1, "NODE_FAIL": 0, "REJECTED": 1, "UNFINISHED": 0,
    }  # fmt: skip
    assert example["killed"] == {"count": 1, "share": 0.25}


def test_figures_of_the_machine_in_the_worked_example(example: dict[str, Any]) -> None:
    assert example["machine"] == {
        "nodes": 2,
        "threads": 8,
        "makespan_s": 106.0,
        "utilisation": round((4 * 100 + 2 * 40 + 2 * 20 + 10 + 6) / (8 * 106), 6),
        "node_utilisation": round((106 + 50) / (2 * 106), 6),
        "node_sharing": round(20 / 156, 6),
        "node_efficiency": round((100 + 32 + 16 + 4) / (2 * 106), 6),
        "mean_queue_length": round((0 + 10 + 10 + 60 + 20 + 0) / 106, 6),
        "offered_load": round((4 * 100 + 2 * 32 + 2 * 32 + 4 + 10 + 10) / (8 * 50), 6),
        "jobs_per_hour": round(3 * 3600 / 106, 6),
    }


def test_percentile_rule_is_stated(example: dict[str, Any]) -> None:
    assert example["percentile_rule"] == "linear"


@drawn(
    st.lists(st.integers(0, 1 << 50), min_size=1, max_size=60),
    st.booleans(),
    st.lists(st.floats(0, 100), max_size=4),
    few=200,
    many=5000,
)
def test_percentiles_are_those_of_numpy(values: list[int], whole: bool, percents: list[float]) -> None:
    array = np.array(values) if whole else np.array(values) / 7
    asked = [*percents, 0, 50, 95, 99, 100]
    assert percentiles(array, asked) == np.percentile(array, asked, method=PERCENTILE_RULE).tolist()


# ---------------------------------------------------------------- preempted jobs


@pytest.mark.parametrize(
    ("quantity", "finished", "cancelled"),
    [
        ("wait_s", [0, 30, 110], 30),
        ("response_s", [130, 60, 130], 70),
        ("bounded_slowdown_60s", [130 / 90, 1, 130 / 60], 70 / 60),
        ("slowdown", [130 / 90, 2, 130 / 20], 70 / 20),
        ("penalised_percent", [100 * 10 / 90, 0, 0], 0),  # time on disk is no time on the nodes
    ],
)
def test_each_quantity_of_preempted_jobs(quantity: str, finished: list[float], cancelled: float) -> None:
    summary = summarise(preempted_jobs(), TWO_NODES)
    assert summary["finished"][quantity] == pytest.approx(figures(finished), abs=1e-6)
    assert summary["all"][quantity] == pytest.approx(figures([*finished, cancelled]), abs=1e-6)


def test_figures_of_the_machine_with_preempted_jobs() -> None:
    summary = summarise(preempted_jobs(), TWO_NODES)
    assert summary["states"]["UNFINISHED"] == 1
    assert summary["machine"] == {
        "nodes": 2,
        "threads": 8,
        "makespan_s": 150.0,
        "utilisation": round((4 * (40 + 30 + 60) + 10 + 10 + 20 + 20 + 20) / (8 * 150), 6),
        "node_utilisation": round((150 + 10 + 10 + 20 + 20) / (2 * 150), 6),
        "node_sharing": 0.0,
        "node_efficiency": round((90 + 30 + 20 + 20 + 20) / (2 * 150), 6),
        # Job 3 waits from 20 to 30 and, requeued, from 75 to 130; job 5 is on disk to the end.
        "mean_queue_length": round((0 + 30 + 10 + 55 + 30 + 50) / 150, 6),
        "offered_load": round((4 * 90 + 4 * 30 + 20 + 50 + 50) / (8 * 40), 6),
        "jobs_per_hour": round(3 * 3600 / 150, 6),
        "preemptions": 5,
        "preemptions_per_job": 1.25,
        "peak_swap_mb": 4096,
    }


def test_jobs_without_memory_take_no_swap_space() -> None:
    light = [
        item._replace(job=item.job._replace(spec=item.job.spec._replace(memory_mb=0))) for item in preempted_jobs()
    ]
    figures_of_it = summarise(light, TWO_NODES)["machine"]
    assert "peak_swap_mb" not in figures_of_it
    assert figures_of_it["preemptions"] == 5


# ---------------------------------------------------------------- which jobs count


def test_warm_up_and_cool_down_are_left_out_by_submission_whatever_the_order_of_records() -> None:
    summary = summarise(six_jobs()[::-1], TWO_NODES, Selection(warmup=1, cooldown=2))
    assert summary["selection"] == {"jobs": 6, "warmup": 1, "cooldown": 2, "counted": 3}
    assert summary["finished"]["wait_s"]["mean"] == 40.0  # jobs 2 and 4
    assert summary["all"]["wait_s"]["mean"] == 30.0  # jobs 2, 3 and 4
    assert summary["killed"] == {"count": 1, "share": round(1 / 3, 6)}
    assert summary["states"]["CANCELLED"] == 0
    assert summary["machine"] == summarise(six_jobs(), TWO_NODES)["machine"]


def test_a_killed_job_in_the_warm_up_is_not_counted() -> None:
    summary = summarise(six_jobs(), TWO_NODES, Selection(warmup=3))
    assert summary["killed"] == {"count": 0, "share": 0.0}
    assert summary["states"]["TIMEOUT"] == 0


def test_equal_submissions_are_ordered_by_id() -> None:
    jobs = [record(number, 0, stays=(stay(number, 10 * number, run_on(0, 1, 1, 1)),), work_s=1) for number in (3, 1, 2)]
    assert summarise(jobs, TWO_NODES, Selection(warmup=2))["all"]["wait_s"]["max"] == 3.0
    assert summarise(jobs, TWO_NODES, Selection(cooldown=2))["all"]["wait_s"]["max"] == 1.0


@pytest.mark.parametrize("selection", [{"warmup": -1}, {"cooldown": -1}])
def test_negative_selections_are_refused(selection: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="negative"):
        Selection(**selection)


# ---------------------------------------------------------------- edges (warnings are errors here)


def assert_no_figures(summary: dict[str, Any], population: str) -> None:
    assert summary[population] == dict.fromkeys(QUANTITIES, NOTHING)


def test_a_run_without_jobs_has_no_figures() -> None:
    summary = summarise([], TWO_NODES)
    assert_no_figures(summary, "finished")
    assert_no_figures(summary, "all")
    assert summary["killed"] == {"count": 0, "share": None}
    machine = summary["machine"]
    assert machine.pop("nodes") == 2
    assert machine.pop("threads") == 8
    assert set(machine.values()) == {None}


def test_an_empty_selection_has_no_figures() -> None:
    summary = summarise(six_jobs(), TWO_NODES, Selection(warmup=4, cooldown=4))
    assert summary["selection"]["counted"] == 0
    assert_no_figures(summary, "all")
    assert summary["machine"]["makespan_s"] == 106.0


def test_without_finished_jobs_only_killed_ones_have_figures() -> None:
    summary = summarise([record(1, 0, TIMEOUT, stays=(stay(5, 15, run_on(0, 1, 1, 1)),), work_s=8)], TWO_NODES)
    assert_no_figures(summary, "finished")
    assert summary["killed"] == {"count": 1, "share": 1.0}
    assert summary["all"]["penalised_percent"]["max"] == 25.0
    assert summary["machine"]["offered_load"] is None  # one submission: no span


def test_a_single_job_has_no_deviation() -> None:
    summary = summarise([record(1, 3, stays=(stay(5, 15, run_on(0, 1, 1, 1)),), work_s=10)], TWO_NODES)
    expected = {"count": 1, "mean": 2.0, "median": 2.0, "p95": 2.0, "standard_deviation": 0.0, "max": 2.0}
    assert summary["finished"]["wait_s"] == expected
    assert summary["machine"]["makespan_s"] == 12.0


def test_a_job_that_did_no_work_has_no_slowdown_but_a_bounded_one() -> None:
    summary = summarise(
        [record(1, 0, TIMEOUT, stays=(stay(30, 30, run_on(0, 1, 1, 1)),), work_s=0, run_s=5)], TWO_NODES
    )
    assert summary["all"]["slowdown"] == NOTHING
    assert summary["all"]["penalised_percent"] == NOTHING
    assert summary["all"]["bounded_slowdown_10s"]["max"] == 3.0


def test_a_job_faster_than_alone_has_a_negative_penalty() -> None:
    summary = summarise([record(1, 0, stays=(stay(0, 8, run_on(0, 1, 1, 1)),), work_s=10)], TWO_NODES)
    assert summary["all"]["penalised_percent"]["mean"] == -20.0


def test_jobs_of_a_run_that_was_cut_short() -> None:
    running = JobRecord(*record(2, 10, stays=(stay(20, 50, run_on(0, 1, 3, 2)),), work_s=25)._replace(end_us=None))
    waiting = record(3, 30, "PENDING")
    summary = summarise(
        [record(1, 0, stays=(stay(0, 40, run_on(1, 1, 1, 1)),), work_s=40), running, waiting], TWO_NODES
    )
    assert summary["states"]["UNFINISHED"] == 2
    assert summary["states"]["COMPLETED"] == 1  # the running job has a state, but no end
    assert summary["ran"] == 1
    machine = summary["machine"]
    assert machine["makespan_s"] == 50.0
    assert machine["utilisation"] == round((40 + 2 * 30) / (8 * 50), 6)
    assert machine["mean_queue_length"] == round((10 + 20) / 50, 6)


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


@drawn(records_on_unequal_nodes(), st.integers(0, 4), st.integers(0, 4), few=50, many=150)
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


@drawn(records_on_unequal_nodes(), st.randoms(), few=20, many=50)
def test_the_summary_does_not_depend_on_the_order_of_records(records: list[JobRecord], random: Any) -> None:
    shuffled = list(records)
    random.shuffle(shuffled)
    first, second = (summarise(each, UNEQUAL_NODES, Selection(1)) for each in (records, shuffled))
    assert json.dumps(first, allow_nan=False) == json.dumps(second, allow_nan=False)


def test_states_of_jobs_that_never_ran_are_counted() -> None:
    summary = summarise([record(1, 0, CANCELLED, 9), record(2, 1, REJECTED, 1)], TWO_NODES)
    assert summary["states"]["CANCELLED"] == summary["states"]["REJECTED"] == 1
    assert summary["ran"] == 0
    assert summary["machine"]["utilisation"] == 0.0
