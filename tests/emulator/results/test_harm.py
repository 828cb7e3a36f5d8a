"""Which jobs respond later than in a baseline: all numbers are worked out by hand."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from dataclasses import replace
from io import StringIO
from typing import Any

import numpy as np
import pytest
from tests.emulator.results.samples import TWO_NODES, preempted_jobs, six_jobs

from cosched_emulator.errors import ConfigurationError
from cosched_emulator.results.harm import (
    Harm,
    LaterRule,
    Loser,
    LoserClasses,
    Outcomes,
    PairedJobs,
    measure_harm,
    outcomes,
)
from cosched_emulator.results.harm_tables import harm_text, write_csv
from cosched_emulator.results.record_columns import job_columns
from cosched_emulator.statistics.weighted import CLASS_NAMES

SECOND = 1_000_000
RULE = LaterRule()
COMPLETED, KILLED, CANCELLED = "completed", "killed", "cancelled"
# Job -> seconds until its start, on its nodes, and from start to end (if longer: on disk); submitted at 10 s times its id.
Times = Mapping[int, tuple[float, float] | tuple[float, float, float] | str]


def run_of(times: Times, kinds: Mapping[int, int] | None = None, uncounted: tuple[int, ...] = ()) -> Outcomes:
    """Return a run whose jobs wait and run so long; a text says how a job ended that did not complete."""
    ids = np.array(list(times), dtype=np.int64)
    done = [(0.0, 0.0, 0.0) if isinstance(one, str) else (one[0], one[1], one[-1]) for one in times.values()]
    wait_us, nodes_us, span_us = np.array(done).reshape(-1, 3).T.astype(np.int64) * SECOND
    submit_us = 10 * SECOND * ids
    return Outcomes(
        id=ids,
        submit_us=submit_us,
        start_us=submit_us + wait_us,
        end_us=submit_us + wait_us + span_us,
        nodes_us=nodes_us,
        completed=np.array([not isinstance(one, str) for one in times.values()], dtype=np.bool_),
        killed=np.array([one == KILLED for one in times.values()], dtype=np.bool_),
        size=np.full(ids.size, 4, dtype=np.int64),
        kind=np.array([(kinds or {}).get(one, 0) for one in times], dtype=np.int64),
        counted=np.array([one not in uncounted for one in times], dtype=np.bool_),
    )


def five(first: float, second: float, third: float, fourth: float, fifth: float) -> Outcomes:
    """Return five jobs with these responses, all of it run time."""
    return run_of({number: (0, time) for number, time in enumerate((first, second, third, fourth, fifth), 1)})


def test_a_job_is_later_above_the_bound_not_at_it() -> None:
    # 1.05 x 100 + 60 = 165; 1.05 x 1,000,000 + 60 = 1,050,060.
    base = np.array([100, 100, 1_000_000, 1_000_000, 0], dtype=np.int64) * SECOND
    mine = np.array([165, 165, 1_050_060, 1_050_060, 60], dtype=np.int64) * SECOND + np.array([0, 1, 0, 1, 0])
    assert RULE.later(mine, base).tolist() == [False, True, False, True, False]
    assert LaterRule(1.5, 0).later(mine, base).tolist() == [True, True, False, False, True]


def test_worse_than_every_baseline_and_the_floor() -> None:
    baselines = [five(100, 100, 100, 100, 100), five(100, 500, 100, 100, 100), five(300, 100, 100, 400, 100)]
    harm = measure_harm(five(200, 200, 200, 2000, 100), baselines)
    # Against the first baseline jobs 1 to 4 are later; against the largest of 300, 500, 100, 400, 100 s: 3 (165) and 4 (480).
    assert (harm.figures.h1, harm.figures.jobs_in_all, harm.figures.later_than_all) == (0.8, 5, 2)
    assert harm.figures.hshk == 0.4
    # The first is later than both others for no job, the second for job 2 (500 > 165), the third for jobs 1 and 4: (0 + 1 + 2) / 15.
    assert harm.jobs.floor_count.tolist() == [1, 1, 0, 1, 0]
    assert harm.figures.hshk_floor == 0.2
    assert [(loser.id, loser.later_than_all) for loser in harm.losers()] == [
        (4, True),
        (1, False),
        (2, False),
        (3, True),
    ]


def test_hshk_counts_jobs_that_completed_in_every_run() -> None:
    more = run_of({1: (0, 100), 2: KILLED, 3: (0, 100), 4: (0, 100)})  # without job 5
    harm = measure_harm(five(200, 200, 100, 100, 900), [five(100, 100, 100, 100, 100), more])
    assert (harm.figures.jobs, harm.figures.later, harm.figures.h1) == (5, 3, 0.6)
    assert (harm.figures.jobs_in_all, harm.figures.later_than_all, harm.figures.hshk) == (3, 1, 0.333333)
    assert harm.figures.hshk_floor == 0.0
    assert [(loser.id, loser.later_than_all) for loser in harm.losers()] == [(5, None), (1, True), (2, None)]


@pytest.mark.parametrize(
    ("mine", "base", "lost", "cause"),
    [
        ((500, 100), (100, 100), (400.0, 0.0, 0.0), "later start"),
        ((100, 500), (100, 100), (0.0, 400.0, 0.0), "slower run"),
        ((300, 300), (100, 100), (200.0, 200.0, 0.0), "later start, slower run"),
        ((0, 600), (100, 100), (-100.0, 500.0, 0.0), "slower run"),
        ((460, 140), (100, 100), (360.0, 40.0, 0.0), "later start, slower run"),  # a tenth of 400 s
        ((461, 139), (100, 100), (361.0, 39.0, 0.0), "later start"),
        ((100, 100, 500), (100, 100), (0.0, 0.0, 400.0), "on disk"),
        ((300, 100, 300), (100, 100), (200.0, 0.0, 200.0), "later start, on disk"),
        ((100, 100), (100, 500), (0.0, -400.0, 0.0), ""),
    ],
)
def test_the_cause_of_a_loss(
    mine: tuple[float, float], base: tuple[float, float], lost: tuple[float, float, float], cause: str
) -> None:
    (job,) = measure_harm(run_of({7: mine}), [run_of({7: base})]).every_job()
    assert (job.wait_lost_s, job.nodes_lost_s, job.disk_lost_s, job.cause) == (*lost, cause)
    assert job.lost_s == sum(lost)
    assert (job.submit_s, job.size) == (70.0, 4)


def test_classes_go_by_estimate_and_by_the_share_of_the_cores() -> None:
    # Estimates are 200, 64, 64, 8, 20 and 20 s; jobs ask for 4, 2, 2, 1, 1 and 1 of 8 hardware threads, one a core.
    found = outcomes(job_columns(six_jobs()), TWO_NODES, classes=LoserClasses(20, 64, 0.25))
    assert [CLASS_NAMES[kind] for kind in found.kind] == [
        "long wide", "medium narrow", "medium narrow", "short narrow", "short narrow", "short narrow",
    ]  # fmt: skip
    with pytest.raises(ConfigurationError, match="short_s <= medium_s"):
        outcomes(job_columns(six_jobs()), TWO_NODES, classes=LoserClasses(65, 64))


def test_other_jobs_are_refused() -> None:
    run = run_of({1: (0, 100), 2: (0, 100)})
    with pytest.raises(ConfigurationError, match="at least one run, got none"):
        measure_harm(run, [])
    with pytest.raises(ConfigurationError, match="a run of the same jobs, got one without any of them"):
        measure_harm(run, [run_of({3: (0, 100)})])
    with pytest.raises(ConfigurationError, match="without any"):
        measure_harm(run, [run_of({})])
    for change in ("submit_us", "size"):
        other = replace(run, **{change: getattr(run, change) + np.array([0, 1])})
        with pytest.raises(ConfigurationError, match="a run of the same jobs, got another job 2"):
            measure_harm(run, [run, other])


def test_columns_that_are_wrong_are_refused() -> None:
    run = run_of({1: (0, 100), 2: (0, 100)})
    with pytest.raises(ValueError, match="columns of one length"):
        replace(run, size=run.size[:1])
    with pytest.raises(ValueError, match="each id once"):
        replace(run, id=np.array([1, 1]))
    with pytest.raises(ValueError, match="classes from 0 to 5"):
        replace(run, kind=np.array([0, 6]))


def test_without_jobs_there_are_no_figures() -> None:
    harm = measure_harm(run_of({}), [run_of({})] * 2)
    assert (harm.figures.jobs, harm.figures.h1, harm.figures.ratio, harm.by_class) == (0, None, {}, {})
    assert "jobs completed in this run and in easy, and 1 more baseline: 0" in harm_text(harm, "easy", 10)
    zero = measure_harm(run_of({1: (0, 100)}), [run_of({1: (0, 0)})])
    assert (zero.figures.ratio, zero.figures.lost_share, zero.losers()[0].ratio) == ({}, None, None)
    assert "–" in harm_text(zero, "easy", 10)  # noqa: RUF001


@pytest.fixture
def harm() -> Harm:
    run = run_of({1: (0, 165), 2: (900, 100), 3: (0, 50), 4: KILLED})
    return measure_harm(
        run, [run_of(dict.fromkeys((1, 2, 3, 4), (0, 100))), run_of(dict.fromkeys((1, 2, 3), (0, 150)))]
    )


def test_the_tables(harm: Harm) -> None:
    head, classes, responses, losers, killed = harm_text(harm, "easy", 10).split("\n\n")
    assert head.splitlines() == [
        "jobs completed in this run and in easy, and 1 more baseline: 3",
        "later (H1): response > 1.05 x response in the baseline + 60 s",
        "jobs killed at the limit in the run, completed in the baseline: 1",
    ]
    rows = [line.split() for line in classes.splitlines()]
    assert rows[0] == [
        "jobs",
        "later",
        "H1",
        "%",
        "Hshk",
        "%",
        "floor",
        "%",
        "lost",
        "min",
        "gained",
        "min",
        "lost",
        "%",
    ]
    # 1.05 x 100 + 60 = 165 < 1000; the second baseline is later nowhere: 150. 65 + 900 s lost, 50 gained, of 300.
    assert rows[1] == ["all", "3", "1", "33.33", "33.33", "0.00", "16.08", "0.83", "321.7"]
    assert rows[2][:4] == ["short", "narrow", "3", "1"]
    assert responses.splitlines()[1].split()[:3] == ["all", "6.75", "1.67"]
    assert losers.splitlines()[0] == "Largest losses, 1 of 1 later jobs:"
    cells = losers.splitlines()[2].split()
    assert cells == ["2", "4", "0.33", "16.67", "1.67", "15.00", "10.00", "yes", "short", "narrow", "later", "start"]
    assert killed == "Killed at the limit, completed in the baseline: 4\n"


def test_the_jobs_as_csv(harm: Harm) -> None:
    stream = StringIO()
    write_csv(stream, harm)
    lines = stream.getvalue().splitlines()
    assert lines[0] == ",".join(Loser._fields)
    assert lines[1] == "2,short narrow,4,20.0,1000.0,100.0,900.0,10.0,900.0,0.0,0.0,1,1,later start"
    assert lines[3] == "3,short narrow,4,30.0,50.0,100.0,-50.0,0.5,0.0,-50.0,0.0,0,0,"
    assert lines[4] == "4,,,,,,,,,,,,,killed at the limit"
    assert len(lines) == 5


def test_the_record_is_plain_and_can_be_pickled(harm: Harm) -> None:
    told: dict[str, Any] = harm.as_dict(1)
    assert json.loads(json.dumps(told)) == told
    assert (told["baselines"], told["killed"], [loser["id"] for loser in told["losers"]]) == (2, [4], [2])
    assert told["all"]["h1"] == 0.333333
    again = pickle.loads(pickle.dumps(harm))
    assert again.as_dict() == harm.as_dict()


def test_a_loss_is_the_sum_of_its_parts() -> None:
    run, base = (outcomes(job_columns(jobs), TWO_NODES) for jobs in (preempted_jobs(), preempted_jobs()))
    later = replace(run, end_us=run.end_us + 5 * SECOND)
    jobs: PairedJobs = measure_harm(later, [base]).jobs
    assert jobs.lost_us.tolist() == [5 * SECOND] * len(jobs)
    assert (jobs.wait_lost_us + jobs.nodes_lost_us + jobs.disk_lost_us == jobs.lost_us).all()
