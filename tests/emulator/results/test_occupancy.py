"""Occupancy of the machine, in total and over time."""

from __future__ import annotations

import pytest
from tests.emulator.results.samples import (
    SECOND,
    TWO_NODES,
    UNEQUAL_NODES,
    records_on_unequal_nodes,
    six_jobs,
)
from tests.properties import drawn
from tests.runs import runs_on

from cosched_emulator.manager.record import JobRecord
from cosched_emulator.results.figures import occupancy as occupancy_module
from cosched_emulator.results.figures.occupancy import (
    MachineUse,
    Steps,
    nodes_held,
    occupancy,
)
from cosched_emulator.results.figures.plot_over_time import Box, job_outlines, shared_boxes, shared_pixels
from cosched_emulator.results.record_columns import stay_columns


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
def test_a_sweep_by_row_agrees_with_one_by_node(records: list[JobRecord]) -> None:
    stays = stay_columns(records)
    by_node = nodes_held(stays, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(occupancy_module, "LONG_RUN", 0)
        by_row = nodes_held(stays, 3)
    for one, other in zip(by_node, by_row, strict=True):
        assert in_seconds(one) == in_seconds(other)


# ---------------------------------------------------------------- boxes of a picture


def test_boxes_are_cut_at_the_window() -> None:
    boxes = shared_boxes(TWO_NODES, stay_columns(six_jobs()), 40 * SECOND, 55 * SECOND)
    assert {(box.begin_us // SECOND, box.end_us // SECOND) for box in boxes} == {(40, 55), (40, 50), (50, 55)}


def test_outlines_join_whole_nodes() -> None:
    records = [record for record in six_jobs() if record.job.spec.id == 1]
    wide = records[0].intervals[0]._replace(runs=runs_on((0, 2, 0b1111, 2)))
    outlines = job_outlines(TWO_NODES, stay_columns([records[0]._replace(intervals=(wide,))]), 0, 100 * SECOND)
    assert outlines == [Box(0, 100 * SECOND, 0, 2, 0, 0)]


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
