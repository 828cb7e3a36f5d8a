"""Occupancy of the machine, in total and over time."""

from __future__ import annotations

import numpy as np
import pytest
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
from tests.runs import run_on, runs_on

from cosched_emulator.manager.record import JobRecord
from cosched_emulator.results.figures import occupancy as occupancy_module
from cosched_emulator.results.figures.occupancy import (
    MachineUse,
    Steps,
    jobs_waiting,
    nodes_held,
    occupancy,
    threads_held,
    time_average,
)
from cosched_emulator.results.figures.plot_over_time import Box, job_outlines, shared_boxes, shared_pixels
from cosched_emulator.results.record_columns import job_columns, stay_columns


def in_seconds(steps: Steps) -> list[tuple[float, int]]:
    """Return the changes only, as (seconds, value)."""
    found: list[tuple[float, int]] = []
    for time_us, value in zip(steps.times_us.tolist(), steps.values.tolist(), strict=True):
        if not found or found[-1][1] != value:
            found.append((time_us / SECOND, value))
    return found


def test_totals_of_the_worked_example() -> None:
    assert occupancy(stay_columns(six_jobs()), 2) == MachineUse(536 * SECOND, 156 * SECOND, 20 * SECOND)


@drawn(records_on_unequal_nodes(), few=20, many=50)
def test_totals_do_not_depend_on_how_nodes_are_grouped(records: list[JobRecord]) -> None:
    stays = stay_columns(records)
    whole = occupancy(stays, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(occupancy_module, "PAIRS_AT_ONCE", 1)
        assert occupancy(stays, 3) == whole


@drawn(records_on_unequal_nodes(), few=20, many=50)
def test_a_sweep_by_row_agrees_with_one_by_node(records: list[JobRecord]) -> None:
    stays = stay_columns(records)
    by_node = nodes_held(stays, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(occupancy_module, "LONG_RUN", 0)
        by_row = nodes_held(stays, 3)
    for one, other in zip(by_node, by_row, strict=True):
        assert in_seconds(one) == in_seconds(other)


def test_steps_of_the_worked_example() -> None:
    records = six_jobs()
    stays = stay_columns(records)
    assert in_seconds(nodes_held(stays, 2).used) == [(0, 1), (20, 2), (70, 1), (106, 0)]
    assert in_seconds(nodes_held(stays, 2).shared) == [(30, 1), (50, 0)]
    assert in_seconds(threads_held(stays)) == [(0, 4), (20, 6), (30, 8), (50, 6), (60, 5), (70, 4), (100, 1), (106, 0)]
    # At 20 s and at 30 s one job starts when another is submitted; job 4 is requeued and pending from 70 s.
    waiting = in_seconds(jobs_waiting(job_columns(records), stays))
    assert waiting == [(0, 0), (10, 1), (40, 2), (60, 0), (70, 1), (100, 0)]


def test_averages_over_time_are_exact() -> None:
    steps = Steps(np.array([10, 20, 40]), np.array([4, 2, 0]))
    averages = time_average(steps, np.array([0, 10, 15, 25, 40, 100]))
    assert averages.tolist() == [0.0, 4.0, 3.0, 2.0, 0.0]


def test_the_average_over_the_makespan_is_the_total() -> None:
    steps = threads_held(stay_columns(six_jobs()))
    assert time_average(steps, np.array([0, 106 * SECOND])).tolist() == pytest.approx([536 / 106])


def test_occupancy_is_zero_where_no_job_ran() -> None:
    stays = stay_columns([])
    assert occupancy(stays, 2) == MachineUse(0, 0, 0)
    assert in_seconds(nodes_held(stays, 2).used) == []
    assert time_average(nodes_held(stays, 2).used, np.array([0, 5])).tolist() == [0.0]


# ---------------------------------------------------------------- boxes of a picture


def test_boxes_are_cut_where_neighbours_start_and_end() -> None:
    boxes = shared_boxes(TWO_NODES, stay_columns(six_jobs()), 0, 106 * SECOND)

    def box(begin_s: int, end_s: int, low: float, high: float, job: int, jobs: int) -> Box:
        return Box(begin_s * SECOND, end_s * SECOND, low, high, job, jobs)

    assert sorted(boxes) == [
        box(0, 100, 0, 1, 0, 1),
        box(20, 30, 1, 1.5, 1, 1),
        box(30, 50, 1, 1.5, 1, 2),
        box(30, 50, 1.5, 2, 2, 2),
        box(50, 60, 1, 1.5, 1, 1),
        box(60, 70, 1, 1.25, 3, 1),
        box(100, 106, 0.25, 0.5, 3, 1),
    ]


def test_a_neighbour_that_is_replaced_at_once_cuts_no_box() -> None:
    records = [
        record(1, 0, stays=(stay(0, 9, run_on(0, 1, 0b0011, 2)),), work_s=9),
        record(2, 0, stays=(stay(0, 4, run_on(0, 1, 0b1100, 2)),), work_s=4),
        record(3, 0, stays=(stay(4, 9, run_on(0, 1, 0b1100, 2)),), work_s=5),
    ]
    boxes = shared_boxes(TWO_NODES, stay_columns(records), 0, 9 * SECOND)
    assert [(box.begin_us, box.end_us, box.jobs_on_node) for box in boxes if box.job == 0] == [(0, 9 * SECOND, 2)]


def test_boxes_are_cut_at_the_window() -> None:
    boxes = shared_boxes(TWO_NODES, stay_columns(six_jobs()), 40 * SECOND, 55 * SECOND)
    assert {(box.begin_us // SECOND, box.end_us // SECOND) for box in boxes} == {(40, 55), (40, 50), (50, 55)}


def test_outlines_join_whole_nodes() -> None:
    records = [record for record in six_jobs() if record.job.spec.id == 1]
    wide = records[0].intervals[0]._replace(runs=runs_on((0, 2, 0b1111, 2)))
    outlines = job_outlines(TWO_NODES, stay_columns([records[0]._replace(intervals=(wide,))]), 0, 100 * SECOND)
    assert outlines == [Box(0, 100 * SECOND, 0, 2, 0, 0)]


@drawn(records_on_unequal_nodes(), few=20, many=50)
def test_boxes_cover_all_held_threads(records: list[JobRecord]) -> None:
    stays = stay_columns(records)
    boxes = shared_boxes(UNEQUAL_NODES, stays, 0, 1000 * SECOND)
    threads_of = [4, 4, 2]
    drawn = sum((box.end_us - box.begin_us) * round((box.high - box.low) * threads_of[int(box.low)]) for box in boxes)
    total = occupancy(stays, 3)
    assert drawn == total.thread_us
    shared_windows = {(int(box.low), box.begin_us, box.end_us) for box in boxes if box.jobs_on_node >= 2}
    assert sum(end - begin for _, begin, end in shared_windows) >= total.shared_us
    if not shared_windows:
        assert total.shared_us == 0


@pytest.mark.parametrize("most_rows", [2, 7, 100])  # nodes without a row, a row for some threads, a row for each
@drawn(records_on_unequal_nodes(), few=20, many=50)
def test_a_pixel_shows_what_is_at_its_middle(most_rows: int, records: list[JobRecord]) -> None:
    stays, width, end_us, threads_of = stay_columns(records), 37, 90 * SECOND, [4, 4, 2]
    found = shared_pixels(UNEQUAL_NODES, stays, 0, end_us, width, most_rows)
    height = found.mix.shape[0]
    bands = max(1, height // 3)
    rows = [*zip(stays.job, stays.start_us, stays.end_us, stays.first_node, stays.node_count, stays.mask, strict=True)]
    for row in range(height):
        node, part = divmod((row + 0.5) / height * 3 * bands, bands)
        size = threads_of[int(node)] / bands  # threads of a part
        shown = {t for t in range(threads_of[int(node)]) if t < (int(part) + 1) * size and t + 1 > int(part) * size}
        for column in range(width):
            time_us = (column + 0.5) * end_us / width
            here = [each for each in rows if each[1] <= time_us < each[2] and each[3] <= int(node) < each[3] + each[4]]
            assert found.jobs_on_node[row, column] == len(here)
            mix = sum(int(each[0]) + 1 for each in here if any(each[5] >> thread & 1 for thread in shown))
            assert found.mix[row, column] == mix
    if stays.job.size and (stays.end_us > stays.start_us).any():
        assert found.mix.any() or found.narrow.any()
