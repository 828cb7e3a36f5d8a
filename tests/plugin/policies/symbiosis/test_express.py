"""Express: short jobs stop others in place or on disk, which pay no more than they may and go on where they were."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.plugin.policies.symbiosis.test_symbiosis import Job, ran, times

from cosched_emulator import Run, simulate
from cosched_emulator.explain.facts import explain
from cosched_emulator.explain.sentences import sentences
from cosched_plugin.api import UsageError
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.testing.check import check_policy

S = 1_000_000
LONG, SHORT = Job("harsh", 2, 1000), Job("harsh", 2, 100, 10)


def express(folder: Path, *jobs: Job, nodes: int = 2, prices: dict[str, float] | None = None, **matching: Any) -> Run:
    """Run jobs; those up to 200 s may stop others. ``prices`` are those of the scenario."""
    return ran(folder, jobs, nodes, prices=prices, **{"mode": "express", "express_s": 200, **matching})


def told(run: Run, job: int) -> str:
    return " ".join(sentences(explain(run.trace or (), job, "trace")))


@pytest.mark.parametrize(("switch_s", "end_s"), [(0.0, 1100), (30.0, 1130)])
def test_a_short_job_stops_a_host_in_place(tmp_path: Path, switch_s: float, end_s: int) -> None:
    """It could be nobody's guest; the host pays its run time, and the switch."""
    run = express(tmp_path, LONG, SHORT, prices={"switch_s": switch_s})
    assert times(run) == {1: (0, end_s), 2: (10, 110)}
    assert "It suspended job 1 in place." in told(run, 2)
    assert "it was suspended for job 2; it was resumed 0:01:40 later" in told(run, 1)


def test_fair_suspends_nobody(tmp_path: Path) -> None:
    assert times(ran(tmp_path, [LONG, SHORT], 2))[2] == (1000, 1100)


@pytest.mark.parametrize(("resume_s", "end_s"), [(0.0, 1100), (60.0, 1160)])
def test_where_no_thread_is_open_one_job_goes_to_disk(tmp_path: Path, resume_s: float, end_s: int) -> None:
    """Its neighbour stops in place, or the short job would be slowed down."""
    run = express(tmp_path, Job("kind", 2, 1000), Job("kind", 2, 1000), SHORT, prices={"resume_s": resume_s})
    assert times(run) == {1: (0, end_s), 2: (0, 1100), 3: (10, 110)}
    assert [len(record.disk) for record in run.records] == [0, 1, 0] or run.records[0].disk
    assert "It suspended job 2 in place and job 1 to disk." in told(run, 3)


@pytest.mark.parametrize("price_s", [0.0, 1.0])
def test_a_job_is_stopped_for_a_part_of_its_estimate_at_most(tmp_path: Path, price_s: float) -> None:
    """The price of the switch counts; and two short jobs one after the other may be one too many."""
    jobs = [LONG, SHORT, Job("harsh", 2, 100, 400)]
    found = times(express(tmp_path, *jobs, stops=0.1, prices={"switch_s": price_s, "resume_s": price_s}))
    assert found[2][0] == (10 if not price_s else 1000)
    assert found[3][0] > 400


def test_short_jobs_stop_no_short_ones_and_share_stopped_hosts(tmp_path: Path) -> None:
    jobs = [Job("harsh", 2, 1000), Job("harsh", 1, 100, 10), Job("harsh", 1, 100, 50), Job("harsh", 1, 90, 60)]
    assert times(express(tmp_path, *jobs)) == {1: (0, 1190), 2: (10, 110), 3: (50, 150), 4: (110, 200)}


@pytest.mark.parametrize("prices", [{}, {"resume_s": 60.0, "switch_s": 1.0}])
def test_a_job_on_disk_is_handed_on_to_the_next_short_job(prices: dict[str, float], tmp_path: Path) -> None:
    """It came back, and was sent away again at the same instant."""
    jobs = [Job("kind", 2, 1000), Job("kind", 2, 1000), SHORT, Job("harsh", 2, 90, 50)]
    run = express(tmp_path, *jobs, prices=prices)
    found = times(run)
    assert (found[3], found[4]) == ((10, 110), (110, 200))
    (away,) = [time for record in run.records for time in record.disk]
    assert (away.start_us, away.end_us) == (10 * S, 200 * S)
    assert [found[1][1], found[2][1]] == [1190 + prices.get(price, 0) for price in ("resume_s", "switch_s")]


def test_a_job_on_disk_that_may_be_stopped_no_longer_comes_back(tmp_path: Path) -> None:
    jobs = [Job("kind", 2, 1000), Job("kind", 2, 1000), SHORT, Job("harsh", 2, 90, 50)]
    run = express(tmp_path, *jobs, stops=0.15)
    assert times(run)[4][0] > 1000
    assert sum(len(record.disk) for record in run.records) == 1


def test_the_next_short_job_takes_free_nodes_and_the_one_on_disk_comes_back(tmp_path: Path) -> None:
    """Job 4 ends with the first short job: its nodes are for the second one."""
    jobs = [Job("kind", 2, 1000), Job("kind", 2, 1000), SHORT, Job("harsh", 2, 110), Job("harsh", 2, 90, 50)]
    run = express(tmp_path, *jobs, nodes=4)
    found = times(run)
    assert found[5][0] == 110
    assert [len(record.disk) for record in run.records if record.job.spec.id in (1, 2)] in ([0, 1], [1, 0], [0, 0])
    assert max(found[1][1], found[2][1]) <= 1100


@pytest.mark.parametrize("price", [{}, {"switch_s": 1.0, "resume_s": 60.0}])
def test_no_job_comes_back_and_is_sent_away_at_the_same_instant(price: dict[str, float]) -> None:
    table = {
        "cluster": {"nodes": 128, "preset": "lomarc-ht", "swap_mb": 1_000_000},
        "workload": {"characteristics": "M1", "lublin": 300, "aarr": 8.83},
        "truth": {"contention": "lomarc", "remainder": False, "c_scope": "all"},
        "preemption": price,
    }
    disk = [record.disk for seed in (1, 2) for record in simulate(table, "symbiosis-express", seed=seed).records]
    assert sum(map(len, disk)) > 20
    assert not [times for times in disk for one, other in pairwise(times) if one.end_us == other.start_us]


def test_time_slices_resume_jobs_themselves() -> None:
    table = {"preset": "symbiosis-express", "slices": "classes", "backfill": "conservative"}
    with pytest.raises(UsageError, match="another part suspends jobs"):
        compose(table)


def test_conforms() -> None:
    """A scheduler that is restarted before every batch resumes and stops the same jobs."""
    assert check_policy(lambda: compose({"preset": "symbiosis-express"}), runs=4, seed=11).decisions > 0
