"""Occupancy of the machine, in total and over time."""

from __future__ import annotations

import pytest
from tests.emulator.results.samples import SECOND, records_on_unequal_nodes, six_jobs
from tests.properties import drawn

from cosched_emulator.manager.record import JobRecord
from cosched_emulator.results.figures import occupancy as occupancy_module
from cosched_emulator.results.figures.occupancy import MachineUse, Steps, nodes_held, occupancy
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
