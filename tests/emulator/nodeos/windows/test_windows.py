"""The windowed cluster: agrees with the exact one, keeps CPU time, and gives the same numbers however it is asked."""

from __future__ import annotations

import random
from functools import cache
from statistics import mean

import pytest
from tests.emulator.nodeos.windows.fixed_places import FOREVER_US, Placed, paper_settings, run_times, some_jobs

from cosched_emulator.errors import ConfigurationError, InvariantError
from cosched_emulator.nodeos.exact import ExactCluster
from cosched_emulator.nodeos.process_cluster import ProcessCluster
from cosched_emulator.nodeos.programs import Barrier, ByRank, Compute, Loop, Operation, Program, Receive, Send, Wait
from cosched_emulator.nodeos.settings import NodeSettings, WindowPlan
from cosched_emulator.nodeos.skeletons.paired_gang import QCRD, compute_program, fine_program, io_program, qcrd_program
from cosched_emulator.nodeos.windows.window_groups import LonePaces
from cosched_emulator.nodeos.windows.windowed_cluster import WindowedCluster

SECOND_US = 1_000_000
BRIEF = WindowPlan(least_us=2_000_000, most_us=6_000_000, warm_up_us=200_000)
COARSE = paper_settings("sb")


def ring(iterations: int, burst_us: int, size_bytes: int, processes: int) -> Program:
    """Return a program that computes, and exchanges messages with both neighbours."""

    def body(rank: int) -> tuple[Operation, ...]:
        after, before = (rank + 1) % processes, (rank - 1) % processes
        return Compute(burst_us, 100_000), Send(after, size_bytes), Receive(before), Send(before, 99), Receive(after)

    return Program((Loop(iterations, ByRank(body)),))


def three_rings() -> list[Placed]:
    return [
        Placed(ring(1_500, 20_000, 100_000, 4), 0, (0, 1, 2, 3)),
        Placed(ring(800, 30_000, 1_000, 3), 5 * SECOND_US, (2, 3, 4)),
        Placed(ring(300, 60_000, 9_000, 2), 7 * SECOND_US, (4, 5)),
        Placed(ring(900, 60_000, 9_000, 2), 9 * SECOND_US, (8, 9)),
    ]


def allow_all(cluster: ProcessCluster, jobs: dict[int, Placed]) -> dict[int, list[int]]:
    return {node: [job for job in jobs if node in jobs[job].places] for node in range(16)}


def test_run_times_are_those_of_the_exact_cluster() -> None:
    windowed = WindowedCluster(COARSE, 16, 1, BRIEF)
    exact = run_times(ExactCluster(COARSE, 16, 1), three_rings())
    assert run_times(windowed, three_rings()) == pytest.approx(exact, rel=0.06)  # windows of at most 6 s
    assert 0.1 < windowed.simulated < 0.7
    assert windowed.exact.events_done < 30_000


@pytest.mark.parametrize("local", ["linux-epochs", "wake-first", "rr"])
def test_phases_files_and_loops_without_cpu_time_are_as_in_the_exact_cluster(local: str) -> None:
    settings = NodeSettings(local, slice_us=20_000, tick_us=0)
    pause = Program((Loop(2_000, (Wait(5_000), Barrier())),))
    jobs = [
        Placed(qcrd_program(60), 0, (0, 1)),
        Placed(fine_program(40), 0, (1, 2)),
        Placed(pause, 0, (2, 3)),
        Placed(io_program(150, 10), 0, (4, 5)),
        Placed(io_program(100, 20), SECOND_US, (5, 6)),
        Placed(compute_program(60), 0, (6,)),
    ]
    exact = run_times(ExactCluster(settings, 16, 1), jobs)
    windowed = WindowedCluster(settings, 16, 1, BRIEF)
    assert run_times(windowed, jobs) == pytest.approx(exact, rel=0.06)
    assert windowed.simulated < 0.95


@pytest.mark.parametrize("seconds", [3, 10, 60])
@pytest.mark.parametrize("shape", QCRD)
def test_brief_loops_with_little_cpu_time_take_the_time_that_they_take(shape: str, seconds: int) -> None:
    """At the rate of the loop before them, which computes, loops of I/O were over at once: the job was 9 to 19 % shorter."""
    jobs = [Placed(qcrd_program(seconds, QCRD[shape]), 0, (0, 1))]
    settings = NodeSettings("linux-epochs", slice_us=20_000, tick_us=0)
    exact = run_times(ExactCluster(settings, 16, 1), jobs)
    assert run_times(WindowedCluster(settings, 16, 1, BRIEF), jobs) == pytest.approx(exact, rel=0.03)


@pytest.mark.parametrize("places", [(0, 0), (0, 0, 1), (0, 1, 1, 1)])
def test_several_processes_on_a_node_might_run_for_the_sum_of_their_times(places: tuple[int, ...]) -> None:
    """It was the time of one process: a share of the time that was allowed, which policies pair by, was k times too large."""
    found = []
    for cluster in (WindowedCluster(COARSE, 16, 1, BRIEF), ExactCluster(COARSE, 16, 1)):
        uses = []
        cluster.start(0, fine_program(6_000), places)
        cluster.start(1, compute_program(6_000), (0,))
        for step in range(1, 8):
            cluster.allow(cluster.now_us, {node: [0, 1] if step % 3 and not node else [0] for node in {*places}})
            while cluster.now_us < step * 3 * SECOND_US:
                cluster.advance(step * 3 * SECOND_US)
            uses += [(step, use.job, use.node, use.allowed_us) for use in cluster.collect()]
        found.append(sorted(uses))
    assert found[0] == found[1]
    assert (1, 0, 0, places.count(0) * 3 * SECOND_US) in found[0]


@pytest.mark.parametrize("seed", range(3))
def test_cuts_of_time_change_nothing(seed: int) -> None:
    def history(cuts: bool) -> list[object]:
        chance = random.Random(seed)
        cluster = WindowedCluster(COARSE, 16, 1, BRIEF, turn_us=30_000)
        rings, running, seen = three_rings(), dict[int, Placed](), list[object]()
        for job, placed in enumerate(rings):
            cluster.start(job, placed.program, placed.places)
            running[job] = placed
        for step in range(1, 30):
            until_us = step * 3 * SECOND_US
            shown = running if step % 7 else {job: placed for job, placed in running.items() if job % 2}
            cluster.allow(cluster.now_us, allow_all(cluster, shown))
            while cluster.now_us < until_us:
                cut_us = min(until_us, cluster.now_us + chance.randrange(1, 2 * SECOND_US)) if cuts else until_us
                reached = cluster.advance(cut_us)
                if reached.ended:
                    seen.append(reached)
                    for job in reached.ended:
                        del running[job]
                    cluster.allow(
                        cluster.now_us, allow_all(cluster, shown and {j: p for j, p in shown.items() if j in running})
                    )
                if cuts and chance.random() < 0.2:
                    for job in running:
                        cluster.progress(job)
                        cluster.consumed_us(job)
            seen.append([(job, cluster.progress(job), cluster.consumed_us(job)) for job in running])
        return [*seen, sum(usage.consumed_us for usage in cluster.collect()), cluster.exact_node_us]

    assert history(cuts=True) == history(cuts=False)


def test_no_cpu_gives_more_than_its_time_and_all_that_is_used_is_collected() -> None:
    cluster = WindowedCluster(paper_settings("nls"), 16, 1, BRIEF)
    jobs = dict(enumerate(three_rings()))
    for job, placed in jobs.items():
        cluster.start(job, placed.program, placed.places)
    cluster.allow(0, allow_all(cluster, jobs))
    totals = dict.fromkeys(jobs, 0)
    chance = random.Random(1)
    while jobs:
        before_us = cluster.now_us
        reached = cluster.advance(before_us + chance.randrange(1, 5 * SECOND_US))
        nodes: dict[int, int] = {}
        for usage in cluster.collect():
            assert 0 <= usage.consumed_us <= usage.allowed_us == cluster.now_us - before_us
            nodes[usage.node] = nodes.get(usage.node, 0) + usage.consumed_us
            totals[usage.job] += usage.consumed_us
        assert all(used_us <= cluster.now_us - before_us for used_us in nodes.values())
        for job in jobs:
            if job not in reached.ended:
                assert totals[job] == cluster.consumed_us(job)
        for job in reached.ended:
            del jobs[job]
    # Two rings that share three nodes have used all of their time, as they poll.
    assert totals[3] == pytest.approx(2 * 56 * SECOND_US, rel=0.03)


def test_a_job_that_is_alone_needs_no_simulation() -> None:
    alone = LonePaces(COARSE)
    placed = Placed(ring(2_000, 20_000, 100_000, 4), 0, (3, 5, 7, 9))
    cluster = WindowedCluster(COARSE, 16, 1, BRIEF, alone=alone)
    (time_s,) = run_times(cluster, [placed])
    (exact_s,) = run_times(ExactCluster(COARSE, 16, 1), [placed])
    assert time_s == pytest.approx(exact_s, rel=0.01)
    assert cluster.exact.events_done == cluster.simulated == 0
    events = alone.events
    other = WindowedCluster(COARSE, 16, 2, BRIEF, alone=alone)
    assert run_times(other, [placed._replace(places=(0, 1, 2, 3))]) == [time_s]
    assert alone.events == events


def test_turns_cost_their_share_of_a_quantum() -> None:
    cluster = WindowedCluster(COARSE, 16, 1, BRIEF, turn_us=30_000)
    jobs = {job: Placed(ring(5_000, 20_000, 9_000, 2), 0, (0, 1)) for job in range(2)}
    for job, placed in jobs.items():
        cluster.start(job, placed.program, placed.places)
    for quantum in range(10):
        cluster.allow(quantum * SECOND_US, allow_all(cluster, {quantum % 2: jobs[quantum % 2]}))
        cluster.advance((quantum + 1) * SECOND_US)
    whole = WindowedCluster(COARSE, 16, 1, BRIEF)
    whole.start(0, jobs[0].program, jobs[0].places)
    whole.allow(0, {0: [0], 1: [0]})
    whole.advance(5 * SECOND_US)
    done = [cluster.progress(0) / whole.progress(0), cluster.progress(1) / whole.progress(0)]
    assert done == pytest.approx([0.976, 0.97], abs=1e-3)  # nothing is switched at the beginning
    assert cluster.exact.events_done == 0


def test_jobs_leave_come_back_and_are_suspended() -> None:
    cluster = WindowedCluster(COARSE, 16, 1, BRIEF)
    jobs = dict(enumerate(three_rings()))
    for job, placed in jobs.items():
        cluster.start(job, placed.program, placed.places)
    cluster.allow(0, allow_all(cluster, jobs))
    cluster.advance(20 * SECOND_US)  # frozen by now
    assert cluster.simulated < 0.5
    before = {job: cluster.progress(job) for job in jobs}
    cluster.remove(1)
    cluster.start(1, jobs[1].program, jobs[1].places)
    assert cluster.progress(1) == 0
    cluster.allow(20 * SECOND_US, allow_all(cluster, {0: jobs[0], 1: jobs[1]}))
    cluster.advance(30 * SECOND_US)
    assert cluster.progress(2) == before[2]
    assert cluster.progress(0) > before[0]
    cluster.allow(30 * SECOND_US, allow_all(cluster, jobs))
    ended: list[int] = []
    while len(ended) < 4:
        ended += cluster.advance(FOREVER_US).ended
    assert cluster.jobs == {}
    with pytest.raises(InvariantError, match="job 2 is not on its nodes"):
        cluster.progress(2)
    with pytest.raises(InvariantError, match="job 9 has no process on node 3"):
        cluster.allow(cluster.now_us, {3: [9]})


def test_a_job_whose_processes_do_not_wait_for_each_other_ends_alone() -> None:
    apart = Program((Loop(90, (Compute(400_000, 100_000),)), Loop(1, (Barrier(),))))
    jobs = [Placed(apart, start_us, (0, 1, 2, 3)) for start_us in (0, SECOND_US, 15 * SECOND_US)]
    windowed = run_times(WindowedCluster(COARSE, 16, 1, BRIEF), jobs)
    assert windowed == pytest.approx(run_times(ExactCluster(COARSE, 16, 1), jobs), rel=0.06)


def test_jobs_that_do_not_fit_into_memory_are_paged() -> None:
    settings = paper_settings("hybrid", memory_mb=900)
    times = []
    for memory_mb in (100, 600):
        cluster = WindowedCluster(settings, 16, 1, BRIEF)
        for job in range(2):
            cluster.start(job, ring(600, 20_000, 9_000, 2), (0, 1), memory_mb)
        cluster.allow(0, {0: [0, 1], 1: [0, 1]})
        ends: list[int] = []
        while len(ends) < 2:
            reached = cluster.advance(FOREVER_US)
            ends += [reached.now_us] * len(reached.ended)
        times.append(ends[-1])
    assert times[1] > 1.2 * times[0]


def test_jobs_that_take_turns_and_do_not_fit_into_memory_page() -> None:
    settings = paper_settings("nls", memory_mb=900)
    progress = []
    for memory_mb in (400, 600):
        cluster = WindowedCluster(settings, 16, 1, BRIEF)
        for job in range(2):
            cluster.start(job, ring(600, 20_000, 9_000, 2), (0, 1), memory_mb)
        for turn in range(4):
            cluster.allow(turn * SECOND_US, {node: [turn % 2] for node in (0, 1)})
            cluster.advance((turn + 1) * SECOND_US)
        progress.append(cluster.progress(0))
        assert cluster.progress(1) == pytest.approx(progress[-1], rel=0.01)
    # A quarter does not fit: .02 s for the first MB, then .8 s of paging for each second of work.
    assert progress[1] == pytest.approx(progress[0] * (1 - 0.02) / 1.8, rel=0.01)


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        (WindowPlan(least_us=5), "least_us: expected more than the warm-up"),
        (WindowPlan(most_us=5), "most_us: expected at least 10000000"),
    ],
)
def test_impossible_plans_are_refused(plan: WindowPlan, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        WindowedCluster(COARSE, 1, 1, plan)


def test_paces_of_other_nodes_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="alone: expected measured with"):
        WindowedCluster(COARSE, 1, 1, alone=LonePaces(NodeSettings()))


# ---------------------------------------------------------------- agreement with whole exact runs

LONG = WindowPlan(most_us=120_000_000)
USUAL = WindowPlan()


def many(seed: int) -> list[Placed]:
    return some_jobs(seed, jobs=6, seconds=200, gap_s=50)


@cache  # both plans are compared with the same runs
def exact_times(policy: str, seed: int) -> list[float]:
    return run_times(ExactCluster(paper_settings(policy), 16, 1), many(seed))


@pytest.mark.slow
@pytest.mark.parametrize("plan", [LONG, USUAL])
@pytest.mark.parametrize("policy", ["hybrid", "sb", "cc"])
def test_run_times_of_blocking_policies_are_within_three_per_cent(policy: str, plan: WindowPlan) -> None:
    errors: list[float] = []
    shares: list[float] = []
    for seed in range(5):
        windowed = WindowedCluster(paper_settings(policy), 16, 1, plan)
        times = run_times(windowed, many(seed))
        errors += [abs(a / b - 1) for a, b in zip(times, exact_times(policy, seed), strict=True)]
        shares.append(windowed.simulated)
    errors.sort()
    print(
        f"{policy}: half {errors[len(errors) // 2]:.2%}, 90 % {errors[len(errors) * 9 // 10]:.2%}, {mean(shares):.2f} simulated"
    )
    assert errors[len(errors) * 9 // 10] < 0.03
    assert mean(shares) < (0.9 if plan == LONG else 0.4)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["pb", "dcs", "nls"])
def test_policies_that_poll_lie_within_the_spread_of_exact_runs(policy: str) -> None:
    settings = paper_settings(policy)
    jobs = some_jobs(1, jobs=6, seconds=150, gap_s=50)
    exact = [run_times(ExactCluster(settings, 16, seed), jobs) for seed in range(10)]
    windowed = [run_times(WindowedCluster(settings, 16, seed, LONG), jobs) for seed in range(10)]
    for of_exact, of_windows in zip(zip(*exact, strict=True), zip(*windowed, strict=True), strict=True):
        least, most = min(of_exact), max(of_exact)
        print(f"{policy}: exact {least:.1f} to {most:.1f}, windows {mean(of_windows):.1f}")
        # A mean of ten may lie a little outside where ten exact runs hardly differ: .13 % for one job under nls.
        assert 0.997 * least <= mean(of_windows) <= 1.003 * most
