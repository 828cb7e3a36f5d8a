from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosched_emulator.errors import ConfigurationError, EmulatorError, InputError, InvariantError, LinkError
from cosched_emulator.workload.beliefs import DAY_US, with_estimates
from cosched_emulator.workload.characteristics import DEMAND_MIXES, parse_mix, with_demand
from cosched_emulator.workload.lublin import generate

WORKLOAD = generate(4_000, 64, seed=1, limits="estimate")


def test_a_jobs_demand_depends_on_its_number_only() -> None:
    whole = {job.source_id: job.demand for job in with_demand(WORKLOAD, DEMAND_MIXES["med"], seed=5).jobs}
    part = WORKLOAD._replace(jobs=WORKLOAD.jobs[3_000:][::-1])
    assert all(whole[job.source_id] == job.demand for job in with_demand(part, DEMAND_MIXES["med"], seed=5).jobs)
    other = {job.source_id: job.demand for job in with_demand(WORKLOAD, DEMAND_MIXES["med"], seed=6).jobs}
    assert whole != other


@pytest.mark.parametrize("text", ["", "hihg", "50:10", "1:2:3:4", "-1:2:3", "a:b:c", "0:0:0", "1.5:1:1", "50 10 40"])
def test_wrong_mixes_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_mix(text)
    assert caught.value.path == "mix"
    assert caught.value.suggestion == ("high" if text == "hihg" else None)


@given(factor=st.floats(0, 50), seed=st.integers(0, 2**63))
@settings(deadline=None, max_examples=10)
def test_f_model_estimates_are_within_bounds(factor: float, seed: int) -> None:
    part = WORKLOAD._replace(jobs=WORKLOAD.jobs[:200])
    for before, after in zip(part.jobs, with_estimates(part, "f-model", factor, seed).jobs, strict=True):
        assert before.run_us <= after.spec.estimate_us <= before.run_us * (1 + factor) + 1
        assert after.spec.limit_us == after.spec.estimate_us
        assert after.run_us == before.run_us


def test_estimates_of_a_day_say_nothing_of_the_job() -> None:
    jobs = with_estimates(WORKLOAD, "day").jobs
    assert {job.spec.estimate_us for job in jobs if job.run_us <= DAY_US} == {DAY_US}
    assert all(job.spec.limit_us == job.spec.estimate_us >= job.run_us for job in jobs)


@pytest.mark.parametrize(
    ("error", "text", "code"),
    [
        (InputError("a.swf", "x", "y", 3, "run time"), "a.swf:3: field 'run time': expected x, got y", 2),
        (InputError("a.swf", "x"), "a.swf: expected x", 2),
        (
            ConfigurationError("workload.mix", "one of b", "'c'", "b", "s.toml"),
            "s.toml: workload.mix: expected one of b, got 'c'; did you mean 'b'?",
            2,
        ),
        (LinkError("no answer within 5 s", "ipc://x"), "ipc://x: no answer within 5 s", 3),
        (InvariantError("two jobs on a core", ("start 1", "start 2")), "two jobs on a core\n  start 1\n  start 2", 4),
        (EmulatorError("failed"), "failed", 1),
    ],
)
def test_errors_keep_text_and_exit_code_when_pickled(error: EmulatorError, text: str, code: int) -> None:
    copy = pickle.loads(pickle.dumps(error))
    for one in (error, copy):
        assert (str(one), one.exit_code) == (text, code)
        assert isinstance(one, EmulatorError)
    assert type(copy) is type(error)
    assert vars(copy) == vars(error)
