"""Jobs for nodes of several cores: draws, growth by hand, the paper's Table 5, and the scheduler's knowledge."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.workload.beliefs import SelfBelief, believed_slowdown, with_self_belief
from cosched_emulator.workload.description import describe
from cosched_emulator.workload.job import Workload, WorkloadJob
from cosched_emulator.workload.lublin import LublinParameters, generate
from cosched_emulator.workload.multicore import (
    CPUS_PPM,
    MAX_SLOWDOWN_PPM,
    grown_size,
    growth_of,
    with_grown_sizes,
    with_self_slowdowns,
)
from cosched_plugin.protocol.messages import JobSpec, SelfSlowdown

JOBS = 10_000
NODES = 128
CORES = 4 * NODES
MILLION = 1_000_000
WORKLOAD = generate(2_000, NODES, seed=1)
DRAWN = with_self_slowdowns(WORKLOAD, 3)


def job(number: int, size: int, own: SelfSlowdown | None) -> WorkloadJob:
    return WorkloadJob(JobSpec(number, 0, size, MILLION), MILLION, None, number, None, own)


# ---------------------------------------------------------------- growth


@given(st.integers(1, 10_000), st.integers(900_000, 1_400_000), st.integers(1_000_000, 1_700_000))
def test_sizes_follow_the_papers_formula(size: int, node_ppm: int, core_ppm: int) -> None:
    node, core = Fraction(node_ppm, MILLION), Fraction(core_ppm, MILLION)
    most, two = Fraction(125, 100), Fraction(112, 100)
    if size == 1 or (node > two and core * node > most):
        expected, factor = Fraction(size), 1
    elif core * node > most:
        expected, factor = size * 2 / node, 2
    else:
        expected, factor = size * 4 / core / node, 4
    if Counter(f"{size:b}")["1"] == 1:
        expected = Fraction(size * factor)
    growth = growth_of(size, (node_ppm, core_ppm), MAX_SLOWDOWN_PPM, CPUS_PPM)
    assert growth == factor
    assert abs(grown_size(size, (node_ppm, core_ppm), growth) - expected) <= Fraction(1, 2)


def test_growth_is_reported() -> None:
    jobs = (
        job(1, 1, (MILLION, MILLION)),
        job(2, 3, (900_000, MILLION)),
        job(3, 2, (MILLION, 1_500_000)),
        job(4, 5, None),
        job(5, 2, (MILLION, MILLION)),
    )
    found = with_grown_sizes(Workload(jobs, 3, "by hand", ("before",)), 12)
    assert [one.spec.processes for one in found.jobs] == [1, 13, 4, 5, 8]
    note = "sizes grown: 1 jobs twofold, 2 fourfold, 1 not, 1 without self slowdown; largest 13, 1 above the 12 cores"
    assert found.notes == ("before", note)
    assert found.processors == 12
    with pytest.raises(ConfigurationError) as caught:
        with_grown_sizes(WORKLOAD, CORES)
    assert caught.value.path == "workload.grow"


def test_the_workload_matches_the_papers_table_5() -> None:
    """The mean over seeds; single seeds differ by half a percent of jobs, and by one or two percent of the work."""
    before, after = [], []
    for seed in range(1, 9):
        plain = generate(JOBS, NODES, LublinParameters(aarr=10.33), seed)
        larger = with_grown_sizes(with_self_slowdowns(plain, seed), CORES)
        assert [one.run_us for one in larger.jobs] == [one.run_us for one in plain.jobs]
        before.append(describe(plain))
        after.append(describe(larger))
    for found, others in zip(after, before, strict=True):
        assert found.serial_share == others.serial_share
        # By chance some other sizes become powers of two.
        assert 0 <= found.power_of_two_share - others.power_of_two_share < 0.005
        assert found.class_shares == others.class_shares
        assert found.size.maximum <= 564
    assert max(found.size.maximum for found in after) > 512
    assert np.mean([found.serial_share for found in after]) == pytest.approx(0.24, abs=0.01)
    # The paper prints 75 %. The model, and samples from its authors' own program, have 87 % with serial jobs and 63 % without;
    # 76 % = .576 / (1 - .244) of the parallel jobs are drawn as powers of two.
    assert np.mean([found.power_of_two_share for found in after]) == pytest.approx(0.87, abs=0.01)
    for index, (jobs, work, slack) in enumerate([(0.64, 0.005, 0.001), (0.195, 0.26, 0.02), (0.165, 0.735, 0.02)]):
        assert np.mean([found.class_shares[index] for found in after]) == pytest.approx(jobs, abs=0.01)
        assert np.mean([found.class_work_shares[index] for found in after]) == pytest.approx(work, abs=slack)


# ---------------------------------------------------------------- belief


def test_beliefs_may_be_exact_or_unknown() -> None:
    exact = with_self_belief(DRAWN, SelfBelief())
    assert [one.spec.self_slowdown for one in exact.jobs] == [one.self_slowdown for one in DRAWN.jobs]
    assert exact.notes[-1] == "self slowdowns known to the scheduler of 2000 of 2000 jobs"
    unknown = with_self_belief(DRAWN, SelfBelief("unknown", 0.5))
    assert {one.spec.self_slowdown for one in unknown.jobs} == {None}
    assert [one.self_slowdown for one in unknown.jobs] == [one.self_slowdown for one in DRAWN.jobs]
    assert unknown.notes[-1] == "self slowdowns known to the scheduler of 0 of 2000 jobs"
    assert with_self_belief(WORKLOAD, SelfBelief()) == WORKLOAD


def test_noise_stays_within_its_bounds() -> None:
    told = with_self_belief(DRAWN, SelfBelief(noise=0.3), 2)
    ratios = []
    for one in told.jobs:
        assert one.spec.self_slowdown is not None
        assert one.self_slowdown is not None
        ratios.append([found / true for found, true in zip(one.spec.self_slowdown, one.self_slowdown, strict=True)])
    spread = np.array(ratios)
    assert 0.7 - 1e-6 <= spread.min() < 0.71
    assert 1.29 < spread.max() <= 1.3 + 1e-6
    assert abs(np.corrcoef(spread.T)[0, 1]) < 0.1  # the two are drawn independently
    assert told.notes[-1].endswith("2000 jobs, noise 0.3")
    assert told.jobs != with_self_belief(DRAWN, SelfBelief(noise=0.3), 3).jobs
    part = DRAWN._replace(jobs=DRAWN.jobs[50:60])
    assert with_self_belief(part, SelfBelief(noise=0.3), 2).jobs == told.jobs[50:60]
    assert min(believed_slowdown((1, 1), SelfBelief(noise=0.999), 1, number) or () for number in range(50)) == (1, 1)
