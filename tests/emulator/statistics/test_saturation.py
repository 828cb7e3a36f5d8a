"""Whether a run is saturated: queues whose load is known, days and nights, and runs that are too short.

The steady part of a run: where the warm-up ends, and where the queue begins to drain.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from scripts.proofs.saturation import KINDS, PROMISED, queues, shares, wilson

from cosched_emulator.statistics.intervals import Verdict
from cosched_emulator.statistics.saturation import DAY_S, HOUR_S, SteadyPart, saturation, steady_part, warm_up

EACH = 20
JOBS = 10_000
ONES = np.ones(1000)


def counts(loads: list[float], jobs: int, swing: float = 0.0, cycle_s: float = 0.0) -> dict[float, Counter[str]]:
    """Return how often each finding comes, for each load."""
    found: dict[float, Counter[str]] = {}
    many = np.repeat(loads, EACH).tolist()
    for load, queue in zip(many, queues(many, jobs, 4, np.random.default_rng(6), swing=swing), strict=True):
        found.setdefault(load, Counter())[saturation(*queue[:4], cycle_s=cycle_s).saturated] += 1
    return found


def test_queues_below_their_capacity_are_not_saturated_and_those_above_are() -> None:
    found = counts([0.5, 0.8, 0.95, 1.05, 1.2], JOBS)
    assert found[0.5] == found[0.8] == {"no": EACH}
    assert found[0.95]["no"] > EACH / 2
    assert found[0.95]["yes"] == 0
    assert found[1.05]["yes"] > 0.8 * EACH
    assert found[1.05]["no"] == 0
    assert found[1.2] == {"yes": EACH}


def test_the_queue_of_the_day_is_no_growth() -> None:
    """At half past the day's rate, a load of .8 is one of 1.2: the queue grows by day, and is empty again at night."""
    found = counts([0.8, 1.2], 4_000, swing=0.5, cycle_s=86_400.0)
    assert found == {0.8: {"no": EACH}, 1.2: {"yes": EACH}}


def test_a_run_that_ends_at_another_time_of_day_than_it_begins_does_not_grow_by_that() -> None:
    """7.6 days with nights: in batches of a day and two hours each one ends nearer to noon, and half of such runs grew."""
    assert shares("day and night", 7, 0.9, 40) == {"yes": 0, "no": 1}


@pytest.mark.parametrize(("load", "most"), [(1.02, 0.1), (0.5, 1.0)])
def test_rare_jobs_that_have_not_come_yet_are_no_proof(load: float, most: float) -> None:
    """Lognormal run times: of runs of a week at 1.02 a quarter looked idle, as their jobs were not yet the usual ones."""
    found = shares("lognormal 1.5", 7, load, 60)
    assert found["yes"] == 0
    assert (found["no"] <= most) if load > 1 else (found["no"] > 0.9)


def test_the_begin_of_a_run_is_no_growth() -> None:
    """A queue that is long from the second day on: 20 days of jobs, each of which starts three days after it comes."""
    submit_s = np.arange(0.0, 20 * DAY_S, 6 * HOUR_S)
    wait_s = np.where(submit_s < DAY_S, 0, 3 * DAY_S)
    found = saturation(submit_s, submit_s + wait_s, submit_s + wait_s + 60, np.ones(submit_s.size))
    assert (found.batches, found.growth.n) == (19, 18)
    assert found.first_half < found.second_half
    assert found.saturated is not Verdict.YES


@pytest.mark.parametrize(("usual", "saturated"), [(10.0, Verdict.YES), (np.tile([5.0, 15.0], 9), Verdict.NOT_SHOWN)])
def test_growth_that_the_work_of_a_day_explains_is_not_shown(usual: float, saturated: Verdict) -> None:
    """Each day a job of 1 comes and stays in the queue, and one that starts at once: where that varies, so may the growth."""
    submit_s = np.arange(0.0, 18, 0.5) * DAY_S
    stays = np.arange(36) % 2 == 1
    work = np.ones(36)
    work[~stays] = usual
    start_s = np.where(stays, math.nan, submit_s)
    found = saturation(submit_s, start_s, start_s, work)
    assert found.growth.mean == pytest.approx(1 / 24)
    assert found.saturated is saturated


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_wrong_findings_are_as_rare_as_promised(kind: str) -> None:
    for days in (4.5, 7.0, 14.0):
        for load in (0.9, 0.98, 1.02, 1.05):
            wrong = "yes" if load < 1 else "no"
            runs = 30 if kind.startswith("Lublin") else 100  # whole simulations
            found = shares(kind, days, load, runs)
            assert wilson(found[wrong], runs)[0] <= PROMISED[wrong], (days, load, found)


def test_the_figures_of_a_queue_that_grows_evenly() -> None:
    """Two jobs come each hour and one starts: after t hours t jobs are pending."""
    submit_s = np.repeat(np.arange(1000.0), 2) * HOUR_S
    start_s = np.arange(2000.0) * HOUR_S
    found = saturation(submit_s, start_s, start_s + 60, np.ones(2000), cycle_s=0)
    assert found.saturated is Verdict.YES
    assert found.growth.mean == pytest.approx(1, rel=0.01)
    assert [found.first_half, found.second_half] == pytest.approx([250, 750], rel=0.01)
    assert str(found).startswith("saturated: the queue holds 25")
    by_work = saturation(submit_s, start_s, start_s + 60, np.full(2000, 3.0), cycle_s=0)
    assert by_work.growth.mean == pytest.approx(3 * found.growth.mean)
    assert by_work.relative_length == pytest.approx(found.relative_length)


def test_an_empty_queue_is_not_saturated() -> None:
    submit_s = np.arange(100.0) * HOUR_S
    found = saturation(submit_s, submit_s, submit_s + 60, np.ones(100), cycle_s=0)
    assert (found.saturated, found.first_half, found.growth.mean) == (Verdict.NO, 0, 0)


def test_jobs_that_never_start_stay_in_the_queue_until_they_end() -> None:
    submit_s = np.arange(1000.0) * HOUR_S
    never = np.full(1000, math.nan)
    assert saturation(submit_s, never, never, ONES, cycle_s=0).saturated is Verdict.YES
    assert saturation(submit_s, never, submit_s, ONES, cycle_s=0).saturated is Verdict.NO  # rejected


def test_three_days_show_nothing() -> None:
    submit_s = np.arange(1000.0) * 250
    found = saturation(submit_s, submit_s * 2, submit_s * 2 + 60, ONES)
    assert (found.saturated, found.batches, found.growth.exists) == (Verdict.NOT_SHOWN, 2, False)
    at_once = np.zeros(5)
    assert saturation(at_once, at_once + 1, at_once + 2, ONES[:5], cycle_s=0).saturated is Verdict.NOT_SHOWN


def test_random_walks_at_the_border_are_rarely_called_anything() -> None:
    """At a load of 1 both findings are wrong; each of them comes in about 5 % of runs."""
    found = counts([1.0], 5_000)[1.0]
    assert found["not shown"] > 0.7 * EACH


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"submit_s": np.array([1.0, 0.0])}, "in order"),
        ({"submit_s": np.array([0.0, math.nan])}, "finite"),
        ({"start_s": np.array([1.0])}, "same length"),
        ({"start_s": np.array([-1.0, 3.0])}, "after its submission"),
        ({"work": np.array([1.0, -1.0])}, "work"),
        ({"cycle_s": -1.0}, "cycle"),
    ],
)
def test_what_is_no_run_is_an_error(change: dict[str, object], text: str) -> None:
    times = {"submit_s": np.array([0.0, 1.0]), "start_s": np.array([1.0, 2.0]), "end_s": np.array([3.0, 4.0])}
    columns = {**times, "work": np.ones(2)}
    with pytest.raises(ValueError, match=text):
        saturation(**{**columns, **change})  # type: ignore[arg-type]  # one of them is wrong


def slow_mser(values: list[float], batch: int) -> int | None:
    """Return the cut by the rule, word by word."""
    means = [sum(values[first : first + batch]) / batch for first in range(0, len(values) - batch + 1, batch)]
    errors = []
    for cut in range(len(means) // 2 + 1):
        rest = means[cut:]
        middle = sum(rest) / len(rest)
        errors.append(sum((each - middle) ** 2 for each in rest) / len(rest) ** 2)
    best = errors.index(min(errors))
    return best * batch if best < len(means) // 2 else None


def test_the_cut_is_that_of_the_rule() -> None:
    generator = np.random.default_rng(9)
    for count in (50, 61, 123, 500):
        values = np.exp(-np.arange(count) / 20) * 3 + generator.normal(size=count)
        assert warm_up(values) == slow_mser(values.tolist(), 5)
        assert warm_up(values, 3) == slow_mser(values.tolist(), 3)


def test_a_transient_is_cut() -> None:
    values = np.random.default_rng(9).normal(10.0, 1.0, 2000)
    values[:300] -= 8
    cut = warm_up(values)
    assert cut is not None
    assert 300 <= cut <= 350


def test_a_series_that_never_settles_has_no_cut() -> None:
    assert warm_up(np.arange(1000.0)) is None
    assert warm_up(np.zeros(49)) is None
    with pytest.raises(ValueError, match="batch"):
        warm_up(np.zeros(100), 0)


def test_jobs_that_wait_into_the_drain_are_cut_by_their_submission() -> None:
    submit_s = np.arange(1000.0)
    start_s = submit_s + 40.5
    found = steady_part(submit_s, start_s, start_s + 10)
    assert found == SteadyPart(0, 41, 1000, True)  # from 959 s on: those before have started when the last one comes
    assert found.counted == 959
    assert np.flatnonzero(found.mask()).tolist() == list(range(959))


def test_jobs_that_never_start_do_not_shift_the_cut() -> None:
    submit_s = np.arange(2000.0)
    wait_s = np.where(submit_s < 500, 0.0, 100 + np.random.default_rng(9).normal(size=2000))
    start_s = submit_s + wait_s
    start_s[100:200] = math.nan
    found = steady_part(submit_s, start_s, start_s + 1)
    assert (found.warmup, found.found) == (500, True)


def test_a_stable_queue_has_a_steady_part_and_a_growing_one_has_none() -> None:
    stable, growing = (queue[:3] for queue in queues([0.8, 1.3], 4_000, 4, np.random.default_rng(6)))
    assert steady_part(*stable).counted > 2_000
    assert steady_part(*growing) == SteadyPart(4_000, 0, 4_000, False)


def test_waits_of_half_the_run_leave_nothing() -> None:
    submit_s = np.arange(1000.0)
    assert not steady_part(submit_s, submit_s + 800, submit_s + 801).found
    nothing = np.full(1000, math.nan)
    assert not steady_part(submit_s, nothing, nothing).found
