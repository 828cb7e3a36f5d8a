"""Characteristics of jobs: the paper's distributions, and the scheduler's knowledge of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.workload.beliefs import UsageBelief, believed_usage, with_usage_belief
from cosched_emulator.workload.characteristics import (
    CHARACTERISTICS,
    CharacteristicsMix,
    parse_characteristics,
    with_characteristics,
    with_characteristics_of,
)
from cosched_emulator.workload.lublin import generate
from cosched_hwmodel.units import WHOLE_PPM
from cosched_hwmodel.usage import BOUNDS
from cosched_plugin.protocol.messages import UsageTuple

JOBS = 4_000
WORKLOAD = generate(JOBS, 64, seed=1)
DRAWN = with_characteristics(WORKLOAD, CHARACTERISTICS["M1"], 3)
USAGES = [job.usage for job in DRAWN.jobs if job.usage is not None]


def parts(usage: UsageTuple) -> dict[str, int]:
    return dict(zip(BOUNDS, usage[1:4], strict=True))


def test_the_class_may_be_that_of_the_largest_fraction() -> None:
    """One in twenty of the jobs bound by network or disk uses the CPU most; the fractions are the same."""
    found = with_characteristics_of(WORKLOAD, "M1, Largest", 3)
    other = 0
    for job, drawn in zip(found.jobs, DRAWN.jobs, strict=True):
        assert job.usage is not None
        assert drawn.usage is not None
        assert job.usage[1:] == drawn.usage[1:]
        assert max(job.usage[1:4]) == job.usage[1 + BOUNDS.index(job.usage[0])]
        other += job.usage[0] != drawn.usage[0]
        assert job.usage[0] in (drawn.usage[0], "cpu")
    assert 0.02 < other / len(found.jobs) < 0.06
    assert with_characteristics_of(WORKLOAD, "M1", 3).jobs == DRAWN.jobs
    with pytest.raises(ConfigurationError, match="'largest' behind the comma, got 'M1, drawn'"):
        with_characteristics_of(WORKLOAD, "M1, drawn")


def test_named_mixes_are_those_of_the_paper() -> None:
    assert CHARACTERISTICS == {"M1": (40, 30, 30), "M2": (40, 10, 50), "M3": (30, 50, 20)}
    assert parse_characteristics(" m2") == parse_characteristics("40:10:50") == CharacteristicsMix(40, 10, 50)


@pytest.mark.parametrize(
    ("bound", "own", "other", "total"),
    [
        ("cpu", (0.5, 0.9), ("disk", 0.05, 0.4), (0.6, 0.95)),
        ("network", (0.4, 0.65), ("disk", 0.05, 0.4), (0.5, 0.8)),
        ("disk", (0.4, 0.65), ("network", 0.05, 0.4), (0.5, 0.8)),
    ],
)
def test_fractions_are_in_the_papers_ranges(
    bound: str, own: tuple[float, float], other: tuple[str, float, float], total: tuple[float, float]
) -> None:
    of_class = [parts(usage) for usage in USAGES if usage[0] == bound]
    name, low, high = other
    for values, (least, below) in (
        ([found[bound] for found in of_class], own),
        ([found[name] for found in of_class], (low, high)),
        ([found[bound] + found[name] for found in of_class], total),
    ):
        assert least * WHOLE_PPM <= min(values)
        assert max(values) < below * WHOLE_PPM
        assert max(values) - min(values) > 0.95 * (below - least) * WHOLE_PPM
    assert {sum(found.values()) for found in of_class} == {WHOLE_PPM}
    if bound == "cpu":
        assert all(max(found, key=found.__getitem__) == "cpu" for found in of_class)
    else:  # the bound is the drawn class, even if the rest for the CPU is larger
        assert 0 < sum(found["cpu"] > found[bound] for found in of_class) < len(of_class)


# ---------------------------------------------------------------- belief


def test_beliefs_may_be_exact_or_unknown() -> None:
    exact = with_usage_belief(DRAWN, UsageBelief())
    assert [job.spec.usage for job in exact.jobs] == USAGES
    assert exact.notes[-1] == f"usage known to the scheduler of {JOBS} of {JOBS} jobs"
    unknown = with_usage_belief(DRAWN, UsageBelief("unknown", 0.5))
    assert {job.spec.usage for job in unknown.jobs} == {None}
    assert [job.usage for job in unknown.jobs] == USAGES
    assert unknown.notes[-1] == f"usage known to the scheduler of 0 of {JOBS} jobs"
    assert with_usage_belief(WORKLOAD, UsageBelief()) == WORKLOAD


def test_beliefs_may_be_missing_for_some_jobs() -> None:
    some = with_usage_belief(DRAWN, UsageBelief(missing=0.2), 7)
    without = {job.source_id for job in some.jobs if job.spec.usage is None}
    assert len(without) / JOBS == pytest.approx(0.2, abs=0.02)
    more = with_usage_belief(DRAWN, UsageBelief(missing=0.4), 7)
    assert without < {job.source_id for job in more.jobs if job.spec.usage is None}
    assert all(job.usage is not None for job in some.jobs)
    all_of_them = with_usage_belief(DRAWN, UsageBelief(missing=1.0), 7)
    assert {job.spec.usage for job in all_of_them.jobs} == {None}


@given(
    bound=st.sampled_from(BOUNDS),
    cpu=st.integers(0, WHOLE_PPM),
    share=st.floats(0, 1),
    memory=st.integers(0, WHOLE_PPM),
    noise=st.floats(0, 0.999),
    bias=st.floats(-0.999, 1_000),
    number=st.integers(0, 1_000),
)
@settings(deadline=None, max_examples=60)
def test_every_belief_is_a_valid_usage(
    bound: str, cpu: int, share: float, memory: int, noise: float, bias: float, number: int
) -> None:
    network = int((WHOLE_PPM - cpu) * share)
    usage = (bound, cpu, network, WHOLE_PPM - cpu - network, memory)
    told = believed_usage(usage, UsageBelief(noise=noise, bias=bias), 1, number)
    assert told is not None
    assert told[0] == bound
    assert sum(told[1:4]) == WHOLE_PPM
    assert all(0 <= value <= WHOLE_PPM for value in told[1:])
    # The remainder of rounding goes to the bound's share, at most two millionths.
    for name, value, before in zip(BOUNDS, told[1:4], usage[1:4], strict=True):
        assert before > 0 or value <= (2 if name == bound else 0)
    assert believed_usage(usage, UsageBelief(), 1, number) == usage


def test_noise_stays_within_its_bounds() -> None:
    told = with_usage_belief(DRAWN, UsageBelief(noise=0.3), 2)
    ratios = []
    for job in told.jobs:
        assert job.usage is not None
        assert job.spec.usage is not None
        ratios.append(job.spec.usage[4] / job.usage[4])
        for value, before in zip(job.spec.usage[1:4], job.usage[1:4], strict=True):
            assert 0.7 / 1.3 - 1e-4 <= value / before <= 1.3 / 0.7 + 1e-4
    assert 0.7 - 1e-4 <= min(ratios) < 0.71  # memory is cut at 1 for some jobs, so there is less above
    assert 1.29 < max(ratios) <= 1.3 + 1e-4
    assert told.notes[-1].endswith("jobs, noise 0.3, bias 0")
    assert told.jobs != with_usage_belief(DRAWN, UsageBelief(noise=0.3), 3).jobs
    part = DRAWN._replace(jobs=DRAWN.jobs[50:60])
    assert with_usage_belief(part, UsageBelief(noise=0.3), 2).jobs == told.jobs[50:60]
