"""Kernels as demand of the composite model, and its predictions beside what was measured."""

from __future__ import annotations

import pytest

from cosched_hwmodel.cli.measuring.host import Layout
from cosched_hwmodel.cli.measuring.kernels import Kernel
from cosched_hwmodel.cli.measuring.measurement import AloneRate, MeasuredFigure, NodeMeasurement, PairRatio, figure_of
from cosched_hwmodel.cli.measuring.prediction_check import compare_measured, summary
from cosched_hwmodel.cli.measuring.profiles import profiles_of, with_costs
from cosched_hwmodel.cli.measuring.report import report_lines
from cosched_hwmodel.composite.job_profile import Profile
from cosched_hwmodel.topology import Cache, NodeShape
from cosched_hwmodel.units import WHOLE_PPM

CACHES = (Cache(1, 32, 1), Cache(3, 16384, 2))
NODE = NodeShape("n", 1, 2, 4096, threads_per_core=2, caches=CACHES, memory_bandwidth_mbs=20000, disk_mbs=1000)
KERNELS = (
    Kernel("integer", "integer", "0", "operations"),
    Kernel("cache1", "chase", "24", "loads", 24),
    Kernel("cache3", "chase", "12288", "loads", 12288),
    Kernel("memory", "chase", "65536", "loads", 65536),
    Kernel("stream", "stream", "65536", "bytes", 65536),
    Kernel("disk", "disk", ".", "bytes"),
)
RATES = {"integer": 1e10, "cache1": 2e9, "cache3": 1e8, "memory": 4e7, "stream": 1.5e10, "disk": 5e8}
RATIOS = {
    ("core", "integer", "integer"): 1.6,
    ("L3", "integer", "integer"): 1.0,
    ("L3", "stream", "stream"): 1.4,
    ("L3", "cache3", "cache3"): 1.3,
}


def measurement(node: NodeShape = NODE, made_by: str = "cc") -> NodeMeasurement:
    return NodeMeasurement(
        node=node,
        layout=Layout(1, 2, 2, CACHES, (0, 1, 2, 3), ()),
        made_by=made_by,
        kernels=KERNELS,
        alone=tuple(AloneRate("L3", name, MeasuredFigure(rate, 0.01, 5)) for name, rate in RATES.items()),
        pairs=tuple(PairRatio(*key, MeasuredFigure(ratio, 0.02, 5)) for key, ratio in RATIOS.items()),
        capacities={},
        sources={},
        seconds=1.0,
        notes=(),
    )


def test_kernels_tell_the_costs_of_misses_and_the_slots_of_a_core() -> None:
    node = with_costs(measurement())
    # Four loads at a time: 2 ns each from the first cache, 40 from the other one, 100 from memory.
    assert [cache.miss_ns for cache in node.caches] == [38, 60]
    assert (node.integer_slots_ppm, node.floating_slots_ppm) == (WHOLE_PPM, 0)
    assert [cache.miss_ns for cache in with_costs(measurement(made_by="numpy")).caches] == [10, 15]


def test_kernels_as_demand() -> None:
    assert profiles_of(measurement()) == {
        "integer": Profile(integer_ppm=800_000),  # two of them need 1.6 times the slots
        "cache1": Profile(working_set_kb=24, accesses_ms=2_000_000, exposed_ppm=250_000, memory_mb=1),
        "cache3": Profile(working_set_kb=12288, accesses_ms=100_000, exposed_ppm=250_000, memory_mb=12),
        "memory": Profile(working_set_kb=65536, accesses_ms=40_000, exposed_ppm=250_000, memory_mbs=2560, memory_mb=64),
        "stream": Profile(memory_mbs=15000, memory_mb=64),
        "disk": Profile(cpu_ppm=0, disk_ppm=WHOLE_PPM, disk_mbs=500, request_ns=2_097_152),
    }


def test_predictions_stand_beside_what_was_measured() -> None:
    found = measurement()
    compared = compare_measured(found._replace(node=with_costs(found)))
    rows = {(each.seat, each.row): each for each in compared}
    assert list(rows) == [(seat, row) for seat, row, _ in RATIOS]
    assert rows["core", "integer"].predicted == pytest.approx(1.6)  # the slots follow from this very ratio
    assert rows["core", "integer"].resource == "integer slots"
    assert rows["L3", "integer"].predicted == 1.0
    assert rows["L3", "stream"].predicted == pytest.approx(1.5)  # 30000 MB/s of 20000
    assert rows["L3", "cache3"].predicted == pytest.approx(1 + 1 / 3 * 100_000 * 60 / 4 / 1e6)
    assert rows["L3", "cache3"].resource == "cache 3"
    errors = [0.0, 0.0, 0.1, 0.2]
    told = summary(compared)
    assert told.pairs == 4
    assert [told.mean_absolute, told.largest] == pytest.approx([sum(errors) / 4, 0.2])
    third = compared[2]
    assert (third.seat, third.row, third.column, third.resource) == ("L3", "stream", "stream", "memory bandwidth")
    assert (third.measured, third.predicted, third.error) == pytest.approx((1.4, 1.5, 0.1))


def test_seats_that_the_node_does_not_have_are_left_out() -> None:
    found = measurement()._replace(pairs=(PairRatio("L2", "integer", "integer", MeasuredFigure(1.0, 0.0, 5)),))
    assert compare_measured(found) == []


def test_the_report_tells_how_well_the_model_predicts() -> None:
    found = measurement()
    lines = list(report_lines(found._replace(node=with_costs(found))))
    assert (
        "  composite model: mean absolute error 0.10; largest for cache3 beside cache3, predicted 1.50, measured 1.30"
        in lines
    )
    assert ["cache3", "-", "1.30", "-"] in [line.split() for line in lines]
    assert any(line.split() == ["stream", "15,000", "MB/s", "1%", "L3"] for line in lines)


def test_figures_are_medians_with_the_middle_half() -> None:
    assert figure_of([3.0]) == MeasuredFigure(3.0, None, 1)
    assert figure_of([1.0, 2.0, 3.0, 4.0, 100.0]) == MeasuredFigure(3.0, pytest.approx(2 / 3), 5)  # type: ignore[arg-type]
