"""How far a run is from the record: each figure beside one made by hand, or by a slow replay second by second."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import strategies as st
from scipy import stats
from tests.properties import drawn

from cosched_emulator.whatif.distance import Compared, distance_of, log_ratio, ranks_of, size_names, uses_of
from cosched_emulator.whatif.machine_use import MachineUse

WEEK_S = 7 * 86_400.0


def compared(
    jobs: list[tuple[float, float, float, int, float]], processors: int = 4, *, simulated: float = 1.0
) -> Compared:
    """Return jobs of (submission, wait, run, size, estimate), whose simulated waits are so many times the recorded ones."""
    submit, wait, run, size, estimate = (np.array(column, dtype=np.float64) for column in zip(*jobs, strict=True))
    return Compared(processors, submit, estimate, size.astype(np.int64), wait, run, simulated * wait, run)


def used(jobs: list[tuple[float, float, float, int, float]], processors: int = 4) -> MachineUse:
    return uses_of(compared(jobs, processors))[0]


# ---------------------------------------------------------------- waits


def test_waits_ratio_weeks_and_order_are_those_of_the_jobs_with_both_waits() -> None:
    """Four weeks of 25 jobs; simulated waits are thrice as long in the last one. A job without a recorded wait counts nowhere."""
    waits = np.array([60.0 * (1 + week) + job for week in range(4) for job in range(25)])
    submit = np.array([WEEK_S * week + job for week in range(4) for job in range(25)])
    simulated = np.where(submit >= 3 * WEEK_S, 3 * waits, waits)
    columns = [np.append(each, 1e6) for each in (submit, waits, simulated)]
    columns[1][-1] = math.nan
    ones = np.ones(101)
    names = ["one"] * 50 + ["other"] * 50 + [""]
    found = distance_of(
        Compared(4, columns[0], ones, ones.astype(np.int64), columns[1], ones, columns[2], ones, {"queue": names})
    )
    assert found is not None
    assert (found.jobs, found.weeks, found.weeks_within_2) == (100, 4, 0.75)
    assert found.ratio == pytest.approx(simulated.mean() / waits.mean())
    assert found.error == pytest.approx(math.log(found.ratio))
    assert found.error_most > found.error
    assert found.recorded.mean == pytest.approx(waits.mean() / 60)
    assert found.spearman == pytest.approx(stats.spearmanr(waits, simulated).statistic)
    means = [each.reshape(4, 25).mean(axis=1) for each in (waits, simulated)]
    assert found.weekly_r == pytest.approx(stats.pearsonr(*means).statistic)
    assert [(each.name, each.jobs) for each in found.classes["queue"]] == [("one", 50), ("other", 50)]
    assert [each.simulated > each.recorded for each in found.classes["queue"]] == [False, True]


def test_a_log_without_recorded_waits_has_no_distance() -> None:
    assert distance_of(compared([(0, math.nan, 10, 1, 10)] * 50)) is None


def test_a_run_equal_to_the_record_is_credible_and_one_that_is_not_says_why() -> None:
    jobs = [(WEEK_S * week + 10 * job, 100.0 * (1 + week % 3), 10.0, 1, 10.0) for week in range(8) for job in range(30)]
    same, twice = (distance_of(compared(jobs, simulated=factor)) for factor in (1.0, 2.5))
    assert same is not None
    assert twice is not None
    assert (same.ratio, same.error, same.credible) == (1.0, 0.0, True)
    assert not twice.credible
    assert [text[:17] for text in twice.why_not] == ["the mean wait may"]


def test_the_interval_covers_the_ratio_of_parts_that_vary() -> None:
    """Ten parts with busy and quiet ones: of 400 draws about 95 % cover the true ratio; the mean of the parts' logarithms would not."""
    draw = np.random.default_rng(5)
    covered = 0
    for _ in range(400):
        busy = np.repeat(draw.exponential(100.0, 10), 50)
        recorded, simulated = busy * draw.gamma(2, 0.5, 500), 0.5 * busy * draw.gamma(2, 0.5, 500)
        found = log_ratio(recorded, simulated)
        assert found is not None
        covered += found.low <= math.log(0.5) <= found.high
    assert 0.90 <= covered / 400 <= 0.98


def test_ranks_of_equal_values_are_shared() -> None:
    values = np.array([3.0, 1.0, 3.0, 0.0, 3.0])
    assert ranks_of(values).tolist() == stats.rankdata(values).tolist()


def test_sizes_are_classed_by_powers_of_4() -> None:
    sizes = np.array([1, 2, 4, 5, 16, 17, 4096, 4097])
    assert size_names(sizes) == [f"up to {power:,}" for power in (1, 4, 4, 16, 16, 64, 4096, 16384)]


# ---------------------------------------------------------------- idle processors


ROWS = st.tuples(st.integers(0, 40), st.integers(0, 20), st.integers(1, 20), st.integers(1, 4))


@drawn(st.lists(ROWS, min_size=1, max_size=12), few=60, many=1_000)
def test_idle_and_busy_processors_are_those_of_a_replay_second_by_second(rows: list[tuple[int, int, int, int]]) -> None:
    """Also where the record has more jobs at once than processors."""
    jobs = [(float(at), float(wait), float(run), size, float(run)) for at, wait, run, size in sorted(rows)]
    found = used(jobs)
    free_s, busy, waiting_s = [0] * len(jobs), 0, 0
    for now in range(100):
        idle = 4 - sum(size for at, wait, run, size, _ in jobs if at + wait <= now < at + wait + run)
        waits = [at <= now < at + wait for at, wait, *_ in jobs]
        free_s = [
            each + (is_waiting and idle >= job[3]) for each, is_waiting, job in zip(free_s, waits, jobs, strict=True)
        ]
        if any(waits):
            waiting_s += 1
            busy += min(4, 4 - idle)
    assert found.free_s().tolist() == free_s
    assert found.busy_share() == pytest.approx(busy / (4 * waiting_s) if waiting_s else math.nan, nan_ok=True)


@pytest.mark.parametrize(
    ("why", "jobs", "share"),
    [
        ("nothing is free", [(0, 0, 100, 4, 100), (0, 100, 10, 1, 10)], 0.0),
        ("it fits from the first second on", [(0, 100, 10, 4, 10)], 1.0),
        ("it would delay the head", [(0, 0, 100, 2, 100), (0, 100, 10, 4, 10), (0, 100, 200, 2, 200)], 0.0),
        ("it ends before the head begins", [(0, 0, 100, 2, 100), (0, 100, 10, 4, 10), (0, 110, 50, 2, 100)], 100 / 210),
        ("it fits beside the head", [(0, 0, 100, 2, 100), (0, 100, 10, 3, 10), (0, 100, 200, 1, 200)], 0.5),
        ("only one of two fits", [(0, 0, 100, 2, 100), (0, 100, 10, 2, 10), (0, 100, 10, 2, 10)], 0.5),
        ("a job beyond its estimate ends now", [(0, 0, 100, 2, 50), (0, 100, 10, 4, 10), (60, 50, 9, 2, 9)], 0.0),
    ],
)  # fmt: skip
def test_a_job_is_held_where_easy_would_start_it(
    why: str, jobs: list[tuple[float, float, float, int, float]], share: float
) -> None:
    found = distance_of(compared(jobs))
    assert found is not None
    assert found.held_share == pytest.approx(share, abs=0.01), why


def test_times_of_equal_instants_are_equal_though_seconds_are_no_whole_numbers() -> None:
    """A job that starts when another ends leaves no instant between them at which both, or none, hold their processors."""
    jobs = [(0.1, 0.0, 0.2, 4, 1.0), (0.1, 0.2, 0.7, 4, 1.0)]
    found = used(jobs)
    assert len(found.now_us) == 3
    assert all(before < after for before, after in pairwise(found.now_us.tolist()))
    assert found.free_s().tolist() == [0, 0]


@pytest.mark.parametrize(
    ("why", "jobs", "share"),
    [
        ("all that is idle is taken", [(0, 0, 100, 4, 100), (0, 100, 10, 4, 10)], 0.0),
        ("it delays the head", [(0, 0, 100, 2, 100), (0, 250, 10, 4, 10), (0, 50, 200, 2, 200)], 0.5),
        ("it ends when the head begins", [(0, 0, 100, 2, 100), (0, 100, 10, 4, 10), (0, 50, 50, 2, 50)], 0.0),
    ],
)
def test_a_start_is_out_of_turn_where_easy_would_not_have_made_it(
    why: str, jobs: list[tuple[float, float, float, int, float]], share: float
) -> None:
    record = used(jobs)
    assert record.out_of_turn(record.starts()) == share, why
