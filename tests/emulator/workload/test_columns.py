"""Jobs as columns: the same jobs, in little memory."""

from __future__ import annotations

import tracemalloc
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import drawn
from tests.runs import draw_usage

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.scenario.reader import read_scenario
from cosched_emulator.scenario.scenario_jobs import build_workload
from cosched_emulator.workload.characteristics import CHARACTERISTICS, choices
from cosched_emulator.workload.job import WorkloadJob
from cosched_emulator.workload.jobs_in_columns import (
    BLOCK,
    Computed,
    Interned,
    Numbers,
    Same,
    columns_of,
    intern_values,
    round_up_all_us,
)
from cosched_emulator.workload.lublin import generate
from cosched_hwmodel.draws import choice, uniform
from cosched_hwmodel.statistical import draw_self_slowdown, draw_self_slowdowns
from cosched_hwmodel.units import WHOLE_PPM, round_up_us
from cosched_plugin.protocol.messages import JobSpec

times = st.integers(0, 2**62)
demands = st.none() | st.tuples(times, times, times)
usages = st.none() | st.tuples(st.sampled_from(["cpu", "disk"]), times, times, times, times)
ranges = st.sampled_from([(), ((0, 4), (8, 1))])
amounts = st.sampled_from([(), (("gpu", 2),)])
pairs = st.none() | st.tuples(times, times)
specs = st.builds(
    JobSpec,
    times,
    times,
    times,
    times,
    st.none() | times,
    st.text(),
    st.text(),
    times,
    times,
    times,
    times,
    st.booleans(),
    ranges,
    amounts,
    amounts,
    demands,
    usages,
    pairs,
    priority=times,
)
jobs_of_any_kind = st.lists(
    st.builds(WorkloadJob, specs, times, demands, times, usages, pairs, st.none() | st.booleans(), st.integers(0, 255)),
    max_size=6,
)


@drawn(jobs_of_any_kind, st.slices(6), few=30, many=100)
def test_jobs_are_returned_unchanged(jobs: list[WorkloadJob], some: slice) -> None:
    columns = columns_of(jobs)
    assert list(columns) == jobs
    assert [columns[row] for row in range(-len(jobs), len(jobs))] == jobs + jobs
    assert list(columns[some]) == jobs[some]
    twice = [*range(len(jobs))[::-1], *range(len(jobs))]
    assert list(columns.select(np.array(twice, dtype=np.int64))) == [jobs[row] for row in twice]
    assert columns == jobs
    assert columns == tuple(jobs)
    assert columns_of(columns) is columns
    # They are equal, and so are the files written of them.
    assert repr(list(columns)) == repr(jobs)
    with pytest.raises(IndexError):
        _ = columns[len(jobs)]


def test_columns_of_different_jobs_are_not_equal() -> None:
    jobs = generate(5, 16).jobs
    assert jobs != jobs[:4]
    assert jobs != [*jobs[:4], jobs[3]]
    assert jobs.__ne__("jobs")


def test_columns_of_many_rows_return_all_jobs() -> None:
    rows = 2 * BLOCK + 7
    number = Numbers(np.arange(rows, dtype=np.int32))
    columns = columns_of(generate(rows, 8).jobs).having(
        user=Computed(str, number),
        name=Interned(np.arange(rows) % 3, ("a", "b", "c")),
        memory_mb=Same(5),
    )
    assert [(job.spec.user, job.spec.name, job.spec.memory_mb) for job in columns] == [
        (str(row), "abc"[row % 3], 5) for row in range(rows)
    ]
    assert [job.spec.user for job in columns[BLOCK - 1 : BLOCK + 2]] == [
        str(row) for row in range(BLOCK - 1, BLOCK + 2)
    ]
    assert type(columns[3].spec.id) is int
    assert columns.known(columns.name) == columns.known(columns.memory_mb) == rows
    assert columns.knows(columns.memory_mb)
    assert columns.known(columns.usage) == 0
    assert not columns.knows(columns.usage)
    assert columns.known(Computed(lambda row: row if row % 2 else None, number)) == rows // 2


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


def test_choices_in_arrays_equal_single_choices() -> None:
    weights = (0, 3, 0, 5, 2, 0)
    draws = [0.0, 0.2999, 0.3, 0.3001, 0.7999, 0.8, np.nextafter(1.0, 0.0)]
    assert choices(np.array(draws), weights).tolist() == [choice(draw, weights) for draw in draws]


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
