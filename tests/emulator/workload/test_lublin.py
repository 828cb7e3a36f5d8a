from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.emulator.parts import VERBATIM

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.workload.lublin import (
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


@pytest.mark.parametrize("processors", [1, 2, 3, 8, 16, 100, 1024])
def test_the_model_works_for_any_machine_size(processors: int) -> None:
    sizes = job_sizes(4_000, processors, DEFAULTS, 1)
    assert sizes.min() == 1
    assert sizes.max() <= processors
    assert sizes.max() >= processors / 2


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
