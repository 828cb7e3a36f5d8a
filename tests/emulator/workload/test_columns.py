"""Jobs as columns: the same jobs, in little memory."""

from __future__ import annotations

import tracemalloc
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runs import draw_usage

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.scenario.reader import read_scenario
from cosched_emulator.scenario.scenario_jobs import build_workload
from cosched_emulator.workload.characteristics import CHARACTERISTICS
from cosched_emulator.workload.jobs_in_columns import intern_values, round_up_all_us
from cosched_hwmodel.draws import choice, uniform
from cosched_hwmodel.statistical import draw_self_slowdown, draw_self_slowdowns
from cosched_hwmodel.units import WHOLE_PPM, round_up_us

ranges = st.sampled_from([(), ((0, 4), (8, 1))])


def test_repeated_values_are_stored_once() -> None:
    column = intern_values("abacab")
    assert list(column) == list("abacab")
    assert column[3] == "c"
    assert column.where("a").tolist() == [True, False, True, False, True, False]
    assert not column.where("z").any()
    assert list(column.select(column.where("a"))) == ["a", "a", "a"]
    assert len(column) == 6
    assert list(intern_values([])) == []


@pytest.mark.parametrize("workload", [{"lublin": 20_000}, {"lublin": 20_000, "limits": "estimate", "mix": "med"}])
def test_a_job_takes_little_memory(workload: dict[str, object]) -> None:
    scenario = read_scenario(None, {"workload": workload})
    build_workload(
        read_scenario(None, {"workload": {**workload, "lublin": 10}}), 128, 128
    )  # modules that are loaded do not count
    tracemalloc.start()
    try:
        jobs = build_workload(scenario, 128, 128).jobs
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(jobs) == 20_000
    assert held / len(jobs) < 60
    assert most / len(jobs) < 400


# ---------------------------------------------------------------- draws in arrays equal draws job by job


def test_drawn_usages_follow_the_papers_rule() -> None:
    """The reference applies the paper's rule job by job and draw by draw."""
    ranges = {
        "cpu": ("disk", "network", (500_000, 900_000), (600_000, 950_000)),
        "network": ("disk", "cpu", (400_000, 650_000), (500_000, 800_000)),
        "disk": ("network", "cpu", (400_000, 650_000), (500_000, 800_000)),
    }
    memories = ((50_000, 500_001), (500_001, 800_000), (800_000, WHOLE_PPM + 1))

    def at(low: int, high: int, draw: float) -> int:
        return low + int(draw * (high - low))

    for job in range(300):
        bound = ("cpu", "network", "disk")[choice(uniform(9, "class", job), (40, 30, 30))]
        other_name, rest, own_range, (low, high) = ranges[bound]
        for attempt in count():
            own = at(*own_range, uniform(9, "fractions", job, attempt, 0))
            other = at(50_000, 400_000, uniform(9, "fractions", job, attempt, 1))
            if low <= own + other < high:
                break
        parts = {bound: own, other_name: other, rest: WHOLE_PPM - own - other}
        memory = at(*memories[choice(uniform(9, "memory", job, 0), (70, 25, 5))], uniform(9, "memory", job, 1))
        expected = (bound, parts["cpu"], parts["network"], parts["disk"], memory)
        assert draw_usage(CHARACTERISTICS["M1"], 9, job) == expected


def test_drawn_self_slowdowns_equal_those_job_by_job() -> None:
    node_ppm, core_ppm = draw_self_slowdowns(4, np.arange(2_000))
    assert list(zip(node_ppm.tolist(), core_ppm.tolist(), strict=True)) == [
        draw_self_slowdown(4, job) for job in range(2_000)
    ]


@given(st.lists(st.floats(0, 1e15)))
def test_spans_in_arrays_are_rounded_up_alike(spans_us: list[float]) -> None:
    assert round_up_all_us(np.array(spans_us, dtype=np.float64)).tolist() == [round_up_us(span) for span in spans_us]


def test_spans_beyond_64_bits_are_refused() -> None:
    assert round_up_all_us(np.array([9.2e18])).tolist() == [9_200_000_000_000_000_000]
    with pytest.raises(ConfigurationError, match="292,000 years"):
        round_up_all_us(np.array([1.0, 9.3e18]))
