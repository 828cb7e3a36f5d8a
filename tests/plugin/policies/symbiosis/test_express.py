"""Express: short jobs stop others in place or on disk, which pay no more than they may and go on where they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.plugin.policies.symbiosis.test_symbiosis import Job, ran, times

from cosched_emulator import Run
from cosched_emulator.explain.facts import explain
from cosched_emulator.explain.sentences import sentences
from cosched_plugin.api import UsageError
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.testing.check import check_policy

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
    assert "It stopped job 1 where it is." in told(run, 2)
    assert "it was suspended for job 2; it was resumed 0:01:40 later" in told(run, 1)


def test_fair_suspends_nobody(tmp_path: Path) -> None:
    assert times(ran(tmp_path, [LONG, SHORT], 2))[2] == (1000, 1100)


@pytest.mark.parametrize(("resume_s", "end_s"), [(0.0, 1100), (60.0, 1160)])
def test_where_no_thread_is_open_one_job_goes_to_disk(tmp_path: Path, resume_s: float, end_s: int) -> None:
    """Its neighbour stops in place, or the short job would be slowed down."""
    run = express(tmp_path, Job("kind", 2, 1000), Job("kind", 2, 1000), SHORT, prices={"resume_s": resume_s})
    assert times(run) == {1: (0, end_s), 2: (0, 1100), 3: (10, 110)}
    assert [len(record.disk) for record in run.records] == [0, 1, 0] or run.records[0].disk
    assert "It stopped job 2 where it is, and job 1 went to disk." in told(run, 3)


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


def test_time_slices_resume_jobs_themselves() -> None:
    table = {"preset": "symbiosis-express", "slices": "classes", "backfill": "conservative"}
    with pytest.raises(UsageError, match="another part suspends jobs"):
        compose(table)


def test_conforms() -> None:
    """A scheduler that is restarted before every batch resumes and stops the same jobs."""
    assert check_policy(lambda: compose({"preset": "symbiosis-express"}), runs=12, seed=11).decisions > 0
