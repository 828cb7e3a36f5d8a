"""Symbiosis: who shares nodes with whom, what that costs each, and whether all end when they are expected to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.plugin.policies.cases import NOW_US
from tests.plugin.policies.lomarc.lomarc_cases import GOOD, hyperthreaded, spec_of, welcome

from cosched_emulator import Run, simulate
from cosched_emulator.explain.facts import explain
from cosched_emulator.explain.sentences import sentences
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.parts.tenancies import Sharer, forecast
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.protocol.messages import StartJob

# Slowdowns of the first beside the second: kind jobs cost nobody anything, mild ones a little, and harsh ones much.
SLOWDOWNS = {
    ("kind", "kind"): 1.0,
    ("kind", "mild"): 1.05,
    ("kind", "harsh"): 1.2,
    ("mild", "kind"): 1.0,
    ("mild", "mild"): 1.1,
    ("mild", "harsh"): 1.5,
    ("harsh", "kind"): 1.0,
    ("harsh", "mild"): 1.1,
    ("harsh", "harsh"): 2.5,
}
NAMES = ("kind", "mild", "harsh")


class Job:
    """A job of the tests: application, nodes, seconds, submission, requested seconds (0: as it takes)."""

    def __init__(self, name: str, nodes: int, seconds: int, submit_s: int = 0, asked_s: int = 0) -> None:
        self.name, self.nodes, self.seconds, self.submit_s = name, nodes, seconds, submit_s
        self.asked_s = asked_s or seconds

    def row(self, number: int) -> str:
        """Return the job as a row of a log."""
        application = NAMES.index(self.name) + 1
        times = f"{self.submit_s} -1 {self.seconds} {self.nodes} -1 -1 {self.nodes} {self.asked_s}"
        return f"{number} {times} -1 1 1 1 {application} 1 -1 -1 -1"


def ran(
    folder: Path,
    jobs: Sequence[Job],
    nodes: int,
    settings: Mapping[str, Any] | None = None,
    prices: Mapping[str, float] | None = None,
    *,
    devices: bool = False,
    **matching: Any,
) -> Run:
    """Run jobs on nodes with one core of two hardware threads under ``symbiosis``; ``matching`` are settings of it."""
    table = ["row,column,ratio,procs,compact_s,spread"]
    table += [f"{NAMES.index(a) + 1},{NAMES.index(b) + 1},{by},1,100,1" for (a, b), by in SLOWDOWNS.items()]
    (folder / "pairs.csv").write_text("\n".join(table) + "\n")
    rows = [job.row(number) for number, job in enumerate(jobs, 1)]
    (folder / "jobs.swf").write_text(f"; MaxProcs: {nodes}\n" + "\n".join(rows) + "\n")
    scenario = {
        "workload": {"swf": str(folder / "jobs.swf"), "limits": "none"},
        "cluster": {"nodes": nodes, "preset": "lomarc-ht"} | ({"same_nodes": True} if devices else {}),
        "truth": {"contention": "pairs", "pairs": str(folder / "pairs.csv")},
        "preemption": dict(prices or {}),
    }
    trace: list[Any] = []
    return simulate(
        scenario, "symbiosis", settings={"matching": {"brief_s": 0, **matching}, **(settings or {})}, trace=trace
    )


def times(run: Run) -> dict[int, tuple[float, float]]:
    """Return start and end of each job, in seconds."""
    stays = {record.job.spec.id: (record.last_stays[0].start_us, record.end_us or 0) for record in run.records}
    return {job: (start_us / 1e6, end_us / 1e6) for job, (start_us, end_us) in stays.items()}


def started(run: Run, job: int) -> Any:
    return next(each for each in run.trace or () if each["kind"] == "start" and each["job"] == job)


def drawn(random: Random, jobs: int, nodes: int) -> list[Job]:
    """Draw jobs that keep the machine busy; half of the requests are too long."""
    found, now_s = [], 0
    for _ in range(jobs):
        now_s += random.choice((0, 0, 20, 90))
        seconds = random.choice((70, 200, 800, 1500))
        asked_s = seconds * random.choice((1, 3))
        found.append(Job(random.choice(NAMES), random.choice((1, 2, 3, nodes // 2, nodes)), seconds, now_s, asked_s))
    return found


def test_a_guest_spreads_over_several_hosts_and_each_hosts_several_guests(tmp_path: Path) -> None:
    """Two jobs of two nodes fill the machine; a guest of four needs both, and the next guests share one of them."""
    hosts = [Job("kind", 2, 1000), Job("kind", 2, 1000)]
    run = ran(tmp_path, [*hosts, Job("kind", 4, 1000, 10)], 4)
    assert times(run)[3] == (10, 1010)
    assert [each["job"] for each in started(run, 3)["beside"]] == [1, 2]
    run = ran(tmp_path, [*hosts, Job("kind", 1, 500, 10), Job("kind", 1, 500, 20)], 4)
    assert [started(run, job)["beside"][0]["job"] for job in (3, 4)] == [1, 1]
    assert {times(run)[job][0] for job in (3, 4)} == {10, 20}


def test_one_host_a_guest_is_a_setting(tmp_path: Path) -> None:
    jobs = [Job("kind", 2, 1000), Job("kind", 2, 1000), Job("kind", 4, 1000, 10)]
    assert times(ran(tmp_path, jobs, 4, hosts=1))[3][0] == 1000


def test_a_guest_takes_empty_nodes_besides_unless_told_otherwise(tmp_path: Path) -> None:
    jobs = [Job("kind", 2, 1000), Job("kind", 3, 1000, 10)]
    assert times(ran(tmp_path, jobs, 4))[2][0] == 10
    assert times(ran(tmp_path, jobs, 4, empty_nodes=False))[2][0] == 1000


@pytest.mark.parametrize(("asked_s", "begins_s"), [(1000, 1000), (980, 10)])
def test_a_guest_inside_ends_by_its_own_limit_before_its_host_does(tmp_path: Path, asked_s: int, begins_s: int) -> None:
    jobs = [Job("kind", 2, 1000), Job("kind", 2, 100, 10, asked_s)]
    assert times(ran(tmp_path, jobs, 2, inside=True))[2][0] == begins_s
    assert times(ran(tmp_path, jobs, 2))[2][0] == 10


def test_the_cheapest_host_is_taken_and_what_it_pays_is_told(tmp_path: Path) -> None:
    jobs = [Job("harsh", 2, 1000), Job("mild", 2, 1000), Job("mild", 2, 400, 10)]
    run = ran(tmp_path, jobs, 4)
    (beside,) = started(run, 3)["beside"]
    assert beside == {"job": 2, "slowdown": pytest.approx(1.1), "later_us": pytest.approx(40e6)}  # 440 s / 1.1 of 1
    assert started(run, 3)["slowdown"] == pytest.approx(1.1)
    told = " ".join(sentences(explain(run.trace or (), 3, "trace")))
    assert "Beside job 2 it was expected to take 1.100 of its run time, job 2 to end 40 s later." in told


def test_a_guest_that_gains_too_little_waits_unless_it_is_brief(tmp_path: Path) -> None:
    """A wide host loses a sixth of six nodes for one node's work beside a harsh guest."""
    jobs = [Job("kind", 6, 1000), Job("harsh", 1, 100, 10)]
    assert times(ran(tmp_path, jobs, 6, min_gain=0.01))[2][0] == pytest.approx(1000)
    assert times(ran(tmp_path, jobs, 6, min_gain=-0.2))[2][0] == 10
    assert times(ran(tmp_path, jobs, 6, min_gain=0.01, brief_s=100))[2][0] == 10


def test_on_devices_a_host_may_lose_more_and_a_brief_guest_must_gain(tmp_path: Path) -> None:
    """As pairs on GPUs cost more and gain less than on hyperthreads (docs/results/gpus.md)."""
    dear = [Job("mild", 2, 1000), Job("harsh", 2, 1000, 10)]
    lossy = [Job("harsh", 2, 1000), Job("harsh", 2, 100, 10)]
    for devices in (False, True):
        assert (times(ran(tmp_path, dear, 2, devices=devices))[2][0] == 10) == devices
        brief = times(ran(tmp_path, lossy, 2, devices=devices, brief_s=100))
        assert (brief[2][0] == 10) != devices


def test_two_pending_jobs_start_together_where_both_cannot_have_nodes(tmp_path: Path) -> None:
    jobs = [Job("mild", 4, 1000), Job("harsh", 4, 1200), Job("mild", 4, 1100)]
    run = ran(tmp_path, jobs, 4)
    assert [times(run)[job][0] for job in (1, 3)] == [0, 0]  # the second would slow the first down by a half
    assert started(run, 1)["together"] == [3]
    assert started(run, 3)["beside"][0]["job"] == 1
    roomy = times(ran(tmp_path, jobs[:1] + jobs[2:], 8))
    assert roomy == {1: (0, 1000), 2: (0, 1100)}  # nobody shares without need


def test_the_reserved_job_is_not_delayed_by_guests(tmp_path: Path) -> None:
    """The head needs all nodes; a guest that outlasts its host would hold one of them."""
    jobs = [Job("harsh", 4, 1000), Job("harsh", 4, 1500, 1), Job("kind", 1, 2000, 2), Job("kind", 1, 900, 3)]
    found = times(ran(tmp_path, jobs, 4, pairs=False))
    assert found[2][0] == pytest.approx(1000)
    assert found[4][0] == 3
    assert found[3][0] >= 1000


@pytest.mark.parametrize("budget", [0.0, 0.25, 0.5])
def test_neighbours_cost_a_host_no_more_than_its_budget(tmp_path: Path, budget: float) -> None:
    jobs = drawn(Random(1), 60, 8)
    run = ran(tmp_path, jobs, 8, budget=budget, min_gain=-0.5)
    guests = {record["job"] for record in run.trace or () if record["kind"] == "start" and "beside" in record}
    found = times(run)
    hosts = {job for job in found if job not in guests}
    costs = {job: found[job][1] - found[job][0] - jobs[job - 1].seconds for job in hosts}
    assert all(cost <= budget * jobs[job - 1].asked_s + 1e-3 for job, cost in costs.items())
    assert any(cost > 1.0 for cost in costs.values()) == (budget > 0.0)


@pytest.mark.parametrize("seed", range(4))
def test_expected_ends_are_the_true_ones_whoever_comes_and_goes(tmp_path: Path, seed: int) -> None:
    jobs = [Job(job.name, job.nodes, job.seconds, job.submit_s) for job in drawn(Random(seed), 60, 8)]
    run = ran(tmp_path, jobs, 8, min_gain=0.0, budget=10.0, brief_s=300)
    assert any("beside" in record and len(record["beside"]) > 1 for record in run.trace or ())
    for record in run.records:
        expected_us = record.last_stays[0].start_us + record.estimate_us
        assert abs(expected_us - (record.end_us or 0)) <= 30  # each revision rounds up to a microsecond


def test_a_forecast_is_that_of_small_steps() -> None:
    random = Random(3)
    for _ in range(40):
        jobs = range(random.randint(1, 6))
        left = {job: float(random.randint(1, 3_000)) for job in jobs}
        pairs = [(one, other) for one in jobs for other in jobs if one < other and random.random() < 0.5]
        beside: dict[int, dict[int, float]] = {job: {} for job in jobs}
        for one, other in pairs:
            beside[one][other], beside[other][one] = random.choice((1.0, 1.3, 2.0)), random.choice((1.0, 1.3, 2.0))
        found = forecast(7, {job: Sharer(round(left[job]), beside[job]) for job in jobs})
        ends: dict[int, int] = {}
        now = 7
        while left:
            now += 1
            for job in left:
                left[job] -= 1.0 / max([by for other, by in beside[job].items() if other in left], default=1.0)
            for job in [job for job, span in left.items() if span <= 1e-6]:
                ends[job] = now
                del left[job]
        assert all(abs(found[job] - ends[job]) <= 4 for job in jobs)


def test_without_a_belief_every_job_has_its_nodes_alone(tmp_path: Path) -> None:
    run = ran(tmp_path, [Job("kind", 2, 1000), Job("kind", 2, 1000)], 2)
    assert {start for start, _ in times(run).values()} == {0}
    blind = simulate(run.prepared.scenario, "symbiosis", overrides={"belief": {"contention": "none"}})
    assert sorted(start for start, _ in times(blind).values()) == [0, 1000]


@pytest.mark.parametrize("behind", [0, 1, 2])
def test_a_job_that_no_nodes_in_service_hold_joins_one_behind_it_at_once(behind: int) -> None:
    """Job 1 wants four nodes of its own, of which one is down. Job 2 starts and hosts it, whatever waits behind, reserved or not."""
    slow = (2_000_000, 2_000_000)  # twice as long with two processes on a node
    waiting = [
        spec_of(1, 4, 1000, ("disk", 100_000, 100_000, 800_000, 100_000))._replace(self_slowdown=slow),
        spec_of(2, 4, 1000, ("cpu", 900_000, 50_000, 50_000, 100_000)),
        *[spec_of(number, 6, 1000, None)._replace(exclusive=True) for number in (3, 4)[:behind]],
    ]
    told = welcome(hyperthreaded(4, cores=2), GOOD, waiting)._replace(down=(3,))
    matching = {"name": "guests", "min_gain": -1, "pairs": False}
    table = {"backfill": "easy", "shape": "nodes", "placement": "spread", "matching": matching}
    core = SchedulerCore(compose(table), told)
    assert [each.job_id for each in core.handle(NOW_US, ()) if isinstance(each, StartJob)] == [2, 1]
    assert core.handle(NOW_US, ()) == [], "one more pass decides nothing"
