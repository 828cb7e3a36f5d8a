from __future__ import annotations

import statistics
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.emulator.parts import VERBATIM

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.workload.lublin import (
    FIRST_SLOT,
    LublinParameters,
    arrival_times,
    day_profile,
    gamma_cdf,
    generate,
    job_sizes,
    run_times,
)
from cosched_emulator.workload.swf.swf_reader import load_swf, read_swf
from cosched_emulator.workload.swf.swf_writer import write_swf

DEFAULTS = LublinParameters()


@given(shape=st.floats(0.05, 500), scale=st.floats(0.01, 50), quantile=st.floats(-1, 5))
@settings(deadline=None, max_examples=300)
def test_gamma_cdf_agrees_with_scipy(shape: float, scale: float, quantile: float) -> None:
    from scipy.special import gammainc  # noqa: PLC0415 - half a second, which the collection of tests need not take

    x = shape * scale * quantile
    assert gamma_cdf(x, shape, scale) == pytest.approx(float(gammainc(shape, max(0.0, x / scale))), abs=1e-11)


def test_the_daily_cycle_has_mean_one_and_its_minimum_before_dawn() -> None:
    weights = day_profile(DEFAULTS)
    assert len(weights) == 48
    assert sum(weights) == pytest.approx(48)
    assert 5 <= weights.index(min(weights)) <= FIRST_SLOT + 2  # between 02:30 and 06:00
    assert 26 <= weights.index(max(weights)) <= 30  # early afternoon
    assert max(weights) / min(weights) > 10


@pytest.mark.parametrize(("aarr", "name"), [(10.2303, "10.23"), (9.83, "9.83"), (8.83, "8.83")])
def test_samples_match_those_of_the_authors_program(traces: Path, aarr: float, name: str) -> None:
    reference = read_swf(traces / f"lublin128_a{name}.swf.gz", VERBATIM)
    from scipy.stats import ks_2samp  # noqa: PLC0415 - as above

    parameters = LublinParameters(aarr=aarr)

    def columns(jobs: int, seed: int) -> tuple[list[int], list[int], list[int]]:
        workload = generate(jobs, 128, parameters, seed)
        return _columns([job.spec.processes for job in workload.jobs], [job.run_us for job in workload.jobs],
                        [job.spec.submit_us for job in workload.jobs])  # fmt: skip

    theirs = _columns(
        [job.spec.processes for job in reference.jobs],
        [job.run_us for job in reference.jobs],
        [job.spec.submit_us for job in reference.jobs],
    )
    p_values = [
        [ks_2samp(mine, other).pvalue for mine, other in zip(columns(10_000, seed), theirs, strict=True)]
        for seed in range(1, 6)
    ]
    assert min(p_values[0]) > 0.01, p_values[0]
    for index, what in enumerate(("sizes", "run times", "gaps")):
        assert statistics.median(row[index] for row in p_values) > 0.05, (what, p_values)


def _columns(sizes: list[int], runs: list[int], submits: list[int]) -> tuple[list[int], list[int], list[int]]:
    return sizes, runs, np.diff(submits).tolist()


def test_mean_size_and_run_time_match_the_model() -> None:
    sizes = job_sizes(200_000, 128, DEFAULTS, 5)
    assert sizes.mean() == pytest.approx(12.13, rel=0.01)  # standard error 0.4 %
    assert (sizes == 1).mean() == pytest.approx(0.25, abs=0.01)
    assert run_times(sizes, DEFAULTS, 5).mean() == pytest.approx(4358, rel=0.01)  # standard error 0.5 %


@pytest.mark.by_default(1)
@pytest.mark.parametrize(("aarr", "gap_s", "load"), [(10.23, 911, 0.722), (9.83, 716, 0.919), (8.83, 384, 1.712)])
def test_mean_gap_and_offered_load_match_the_model(aarr: float, gap_s: float, load: float) -> None:
    gaps, loads = [], []
    for seed in range(40):
        workload = generate(10_000, 128, LublinParameters(aarr=aarr), seed)
        span_us = workload.jobs[-1].spec.submit_us
        gaps.append(span_us / 9_999 / 1e6)
        loads.append(sum(job.run_us * job.spec.processes for job in workload.jobs) / (128 * span_us))
    assert statistics.mean(gaps) == pytest.approx(gap_s, rel=0.04)  # 7 % each, so 1.1 % for the mean
    assert statistics.mean(loads) == pytest.approx(load, rel=0.05)


def test_a_workload_is_well_formed_and_repeatable() -> None:
    workload = generate(3_000, 128, seed=3)
    assert workload == generate(3_000, 128, seed=3)
    assert workload.jobs != generate(3_000, 128, seed=4).jobs
    specs = [job.spec for job in workload.jobs]
    assert [spec.id for spec in specs] == [job.source_id for job in workload.jobs] == list(range(1, 3_001))
    assert specs[0].submit_us == 0
    assert all(early.submit_us <= late.submit_us for early, late in pairwise(specs))
    assert all(1 <= spec.processes <= 128 for spec in specs)
    for job in workload.jobs:
        assert job.run_us >= 1_000_000
        assert job.run_us % 1_000_000 == job.spec.submit_us % 1_000_000 == 0
        assert job.spec.estimate_us == job.run_us
        assert job.spec.limit_us is None
        assert job.demand is job.spec.demand is None
        assert type(job.run_us) is type(job.spec.processes) is int
    assert all(job.spec.limit_us == job.run_us for job in generate(50, 128, limits="estimate").jobs)


def test_a_short_workload_is_the_beginning_of_a_long_one() -> None:
    assert generate(9_000, 128, seed=2).jobs[:700] == generate(700, 128, seed=2).jobs


def test_changes_of_one_part_of_the_model_leave_the_others() -> None:
    base = generate(2_000, 128, seed=6)

    def column(parameters: LublinParameters, processors: int = 128) -> tuple[list[int], list[int], list[int]]:
        jobs = generate(2_000, processors, parameters, seed=6).jobs
        return [j.spec.submit_us for j in jobs], [j.spec.processes for j in jobs], [j.run_us for j in jobs]

    submits, sizes, runs = column(DEFAULTS)
    assert submits == [job.spec.submit_us for job in base.jobs]
    arrivals_changed = column(LublinParameters(aarr=8.83))
    assert arrivals_changed[0] != submits
    assert arrivals_changed[1:] == (sizes, runs)
    runs_changed = column(LublinParameters(a1=5.0))
    assert runs_changed[:2] == (submits, sizes)
    assert runs_changed[2] != runs
    sizes_changed = column(LublinParameters(serial=0.1))
    assert sizes_changed[0] == submits
    assert sizes_changed[1] != sizes
    # Run times depend on the size by definition, but only where the size changed.
    same = [index for index in range(2_000) if sizes_changed[1][index] == sizes[index]]
    assert 500 < len(same) < 2_000
    assert all(sizes_changed[2][index] == runs[index] for index in same)


def test_arrivals_follow_the_daily_cycle() -> None:
    times = np.array(arrival_times(20_000, LublinParameters(aarr=6.0), 1))
    assert times[0] >= 0
    hours = np.bincount(times % 86_400 // 3_600, minlength=24) / len(times)
    assert hours[13:16].sum() > 4 * hours[3:6].sum()


def test_large_jobs_run_longer() -> None:
    small = run_times(np.full(20_000, 1, dtype=np.int64), DEFAULTS, 1)
    large = run_times(np.full(20_000, 128, dtype=np.int64), DEFAULTS, 1)
    assert large.mean() > 1.5 * small.mean()


@pytest.mark.parametrize("processors", [1, 2, 3, 8, 16, 100, 1024])
def test_the_model_works_for_any_machine_size(processors: int) -> None:
    sizes = job_sizes(4_000, processors, DEFAULTS, 1)
    assert sizes.min() == 1
    assert sizes.max() <= processors
    assert sizes.max() >= processors / 2


def test_factors_scale_gaps_and_run_times() -> None:
    base = generate(300, 16, seed=9)
    scaled = generate(300, 16, LublinParameters(gap_factor=0.025, run_factor=0.025), seed=9)
    for one, other in zip(base.jobs, scaled.jobs, strict=True):
        assert other.spec.submit_us * 40 == one.spec.submit_us
        assert other.run_us * 40 == one.run_us
    assert "gap_factor=0.025" in scaled.origin


def test_a_stored_workload_is_read_back(tmp_path: Path) -> None:
    workload = generate(500, 128, LublinParameters(run_factor=0.0123), seed=2, limits="estimate")
    write_swf(tmp_path / "w.swf.gz", workload)
    trace = load_swf(tmp_path / "w.swf.gz", VERBATIM)
    assert trace.workload.jobs == workload.jobs
    assert trace.workload.processors == 128
    assert trace.header["Information"] == workload.origin


def test_parameters_that_give_only_too_long_times_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="a2"):
        run_times(np.ones(5, dtype=np.int64), LublinParameters(a1=312, b1=1, a2=312, b2=1), 1)
    with pytest.raises(ConfigurationError, match="aarr"):
        arrival_times(5, LublinParameters(aarr=1000), 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("serial", -0.1),
        ("serial", 0.5),  # with pow2 .576 more than one
        ("u_prob", 1.1),
        ("barr", 0.0),
        ("a1", float("nan")),
        ("aarr", float("inf")),
        ("gap_factor", -1.0),
        ("longest_log_gap", 700.0),
    ],
)
def test_impossible_parameters_are_refused(name: str, value: float) -> None:
    with pytest.raises(ConfigurationError):
        replace(DEFAULTS, **{name: value})


def test_a_day_without_arrivals_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="day profile"):
        day_profile(LublinParameters(anum=5_000, bnum=5_000))
