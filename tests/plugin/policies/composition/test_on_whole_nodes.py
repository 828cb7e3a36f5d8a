"""Parts made for threads that work on whole nodes, and LOMARC's matchings for jobs with their own slowdown."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from tests.plugin.policies.cases import BANDWIDTH, NOW_US, welcome_of
from tests.plugin.policies.glomarc.glts_cases import nodes_of, spec_of
from tests.plugin.policies.lomarc.lomarc_cases import GOOD, belief_of
from tests.runs import runs_on

from cosched_hwmodel.statistical import self_factor, spread
from cosched_hwmodel.topology import NodeShape
from cosched_hwmodel.units import NodeSet, ThreadMask
from cosched_plugin.api import Offer, snapshot_now
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.core.views.virtual_machine import VirtualMachine
from cosched_plugin.core.views.whole_nodes import WholeNodesView
from cosched_plugin.parts.colocated import NOTE as PACE
from cosched_plugin.policies.backfilling.conservative import NOTE as PROMISE
from cosched_plugin.policies.composition.composed import compose
from cosched_plugin.policies.placement.compact import FirstFit
from cosched_plugin.policies.placement.spread import NodeHalves
from cosched_plugin.policies.planning.placed_profile import PlacedProfile
from cosched_plugin.policies.rua.lessconsume import LessConsume
from cosched_plugin.protocol import messages as m

S = 1_000_000
SLOW, FAST = 1600, 4000  # MB/s of a node


def cluster(*bandwidths: int, cores: int = 2, threads: int = 1) -> list[m.NodeClass]:
    """Return a node of each bandwidth, in a class of its own."""
    return [m.NodeClass(1, 1, cores, threads, 0, bandwidth, 0, 0) for bandwidth in bandwidths]


def asking(number: int, processes: int, mbs: int = 1000, seconds: int = 100, limit_us: int | None = None) -> m.JobSpec:
    return m.JobSpec(number, NOW_US, processes, seconds * S, limit_us, demand=(mbs, 0, 0))


def on_nodes(job: m.JobSpec, first: int, count: int, mask: int, left_s: float) -> m.RunningJob:
    """Return a job that has run since time 0 on each of these nodes, with this time left."""
    runs = runs_on((first, count, mask, mask.bit_count()))
    return m.RunningJob(job._replace(submit_us=0), 0, runs, NOW_US + round(left_s * S), job.limit_us)


def decided(told: m.Welcome, **table: object) -> list[m.Action]:
    """Return the first decisions of a composition on whole nodes."""
    core = SchedulerCore(compose({"shape": "nodes", **table}), told)
    actions = core.handle(NOW_US, ())
    core.check()
    assert core.handle(NOW_US, ()) == []
    return actions


def starts(actions: Sequence[m.Action]) -> dict[int, tuple[m.Run, ...]]:
    return {action.job_id: action.runs for action in actions if isinstance(action, m.StartJob)}


# ---------------------------------------------------------------- LessConsume


def test_a_jobs_own_demand_causes_a_penalty() -> None:
    """Two processes ask a slow node for 2000 MB/s and get 1600; one on each node lose nothing."""
    told = welcome_of(cluster(SLOW, FAST), (), [asking(1, 4)])
    assert decided(told, placement="lessconsume") == [m.StartJob(1, runs_on((0, 2, 0b11, 2)), 125 * S, None)]
    told = welcome_of(cluster(SLOW, FAST), (), [asking(1, 2)])
    assert decided(told, placement="lessconsume") == [m.StartJob(1, runs_on((0, 2, 0b01, 1)), 100 * S, None)]
    assert decided(told, placement="first-fit") == [m.StartJob(1, runs_on((0, 1, 0b11, 2)), 100 * S, None)]
    extended = {"name": "packed", "extend_limit": True}
    assert decided(told, placement=extended) == [m.StartJob(1, runs_on((0, 1, 0b11, 2)), 125 * S, None)]


@pytest.mark.parametrize(("left_s", "rua"), [(10, {}), (50, {1: ((0, 1, 0b11, 2),)})])
def test_a_threshold_waits_for_a_better_node(left_s: int, rua: dict[int, tuple[m.Run, ...]]) -> None:
    """The job on the fast node will have ended, so its demand does not matter; rua waits for that if it is within 125 s."""
    told = welcome_of(cluster(SLOW, FAST), [on_nodes(asking(9, 2, 9999), 1, 1, 0b11, left_s)], [asking(1, 2)])
    assert starts(decided(told, placement="lessconsume-threshold")) == {}
    assert starts(decided(told, placement="lessconsume")) == {1: ((0, 1, 0b11, 2),)}
    assert starts(decided(told, placement="lessconsume", backfill="rua")) == rua


def test_the_empty_machine_has_one_process_a_core() -> None:
    """A threshold is raised to the slowdown by the job's own demand, with one process a core."""
    told = welcome_of(cluster(SLOW, FAST, cores=2, threads=2), (), [asking(1, 4, 2000)])
    view = WholeNodesView(SchedulerCore(compose({"preset": "fcfs"}), told).view)
    placement = LessConsume(threshold=1.15)
    assert placement.within_reach(view.queue[0], view, 1.15) == 2.5  # two processes on the slow node
    assert starts(decided(told, placement="lessconsume-threshold")) == {1: ((0, 2, 0b11, 2),)}


@pytest.mark.parametrize("backfill", ["easy", "sjbf", "rua"])
def test_a_reserved_job_is_no_neighbour(backfill: str) -> None:
    """A job that overlaps the reserved one in time runs on other nodes: it has no penalty, and takes the first node."""
    running = [on_nodes(asking(8, 2), 0, 1, 0b11, 50), on_nodes(asking(9, 2), 3, 1, 0b11, 50)]
    waiting = [asking(1, 6, 2000, 500), asking(2, 2, 2000, 90)]
    told = welcome_of(cluster(FAST, FAST, FAST, FAST), running, waiting)
    actions = decided(told, placement="lessconsume", backfill=backfill)
    assert actions == [m.StartJob(2, runs_on((1, 1, 0b11, 2)), 90 * S, None)]


def test_an_exclusive_job_has_all_threads_of_its_nodes() -> None:
    job = asking(1, 2)._replace(exclusive=True)
    told = welcome_of(cluster(SLOW, FAST, threads=2), (), [job])
    for placement in ("lessconsume", "lessconsume-threshold", "first-fit", "packed"):
        ((run,),) = starts(decided(told, placement=placement)).values()
        assert run[2:] == (0b1111, 2), placement


@pytest.mark.parametrize("backfill", ["none", "skip", "easy", "sjbf", "rua"])
def test_a_job_that_never_fits_on_whole_nodes_is_rejected(backfill: str) -> None:
    """The manager accepts it, as it counts the second threads, which are for partners."""
    told = welcome_of(cluster(FAST, FAST, threads=2), (), [asking(1, 5), asking(2, 1)])
    rejection, start = decided(told, placement="lessconsume", backfill=backfill)
    assert rejection == m.RejectJob(1, "5 processes wanted, more than fit when each node is one job's alone")
    assert isinstance(start, m.StartJob)


# ---------------------------------------------------------------- LOMARC on `spread`


CPU: m.UsageTuple = ("cpu", 800_000, 100_000, 100_000, 100_000)
NETWORK: m.UsageTuple = ("network", 100_000, 800_000, 100_000, 100_000)


def test_a_jobs_own_slowdown_on_threads_agrees_with_the_hardware() -> None:
    random = Random("threads")
    for cpus, cores, threads in ((2, 2, 1), (1, 4, 1), (2, 1, 2), (1, 1, 2), (2, 3, 2), (4, 2, 2)):
        halves = NodeHalves(nodes_of(1, cpus, cores, threads))
        shape = NodeShape("here", cpus, cores, 512, threads)
        job = spec_of(1, 1, 100, (1_300_000, 1_700_000))
        for _ in range(40):
            mask = random.randrange(1, 1 << shape.threads)
            assert halves.factor_on(job, ThreadMask(mask)) == self_factor(
                job.self_slowdown, *spread(shape, ThreadMask(mask))
            )


def pair_on_spread(limit_s: int | None) -> tuple[m.Welcome, m.JobSpec, m.JobSpec]:
    """Return a job that takes one core of each CPU (its slowdown: 1.1), and a partner that fills a node's second threads."""
    limit_us = None if limit_s is None else limit_s * S
    host = spec_of(1, 4, 1000, (1_100_000, 2_000_000), limit_us=limit_us, usage=CPU)
    guest = spec_of(2, 4, 1000, (1_500_000, 1_200_000), limit_us=limit_us, usage=NETWORK)
    return welcome_of([nodes_of(2, 2, 2, 2)], (), [host, guest], belief_of(GOOD)), host, guest


@pytest.mark.parametrize("limit_s", [None, 1500])
@pytest.mark.parametrize("backfill", ["none", "easy", "conservative"])
def test_jobs_of_a_pair_have_their_own_and_mutual_slowdowns(backfill: str, limit_s: int | None) -> None:
    told, host, guest = pair_on_spread(limit_s)
    actions = decided(told, backfill=backfill, placement="spread", matching={"name": "first", "weak_load": 0})
    together = actions[0]
    work_us = [action.value[2] for action in actions if isinstance(action, m.SetNote) and action.key == PACE]  # type: ignore[index]
    slowdown = GOOD.slowdown(1, CPU, 2, NETWORK)
    host_work_us = 1100 * S  # on both CPUs, one core of each
    guest_work_us = 1800 * S  # on all four second threads of the first node: 1.5 x 1.2
    host_us = round(host_work_us * slowdown)
    guest_us = host_us + guest_work_us - host_work_us
    assert isinstance(together, m.StartTogether)
    first, second = together.starts
    assert (first.runs, second.runs) == (((0, 2, 0b0101, 2),), ((0, 1, 0b11110000, 4),))
    assert first.estimate_us == pytest.approx(host_us, abs=1)
    assert second.estimate_us == pytest.approx(guest_us, abs=1)
    assert work_us == [host_work_us, guest_work_us]
    if limit_s is not None:  # each limit grows by the time that the job loses, by itself and by the other
        assert first.limit_us == limit_s * S + first.estimate_us - host.estimate_us
        assert second.limit_us == limit_s * S + second.estimate_us - guest.estimate_us


def test_a_limit_does_not_fall_for_a_job_that_is_faster_on_more_cores() -> None:
    host = spec_of(1, 4, 1000, (900_000, 2_000_000), limit_us=1000 * S, usage=CPU)
    guest = spec_of(2, 2, 1000, (900_000, 1_000_000), limit_us=1000 * S, usage=NETWORK)
    told = welcome_of([nodes_of(2, 2, 2, 2)], (), [host, guest], belief_of(GOOD))
    together, *_ = decided(told, placement="spread", matching={"name": "first", "weak_load": 0})
    assert isinstance(together, m.StartTogether)
    for start in together.starts:
        assert start.limit_us is not None
        assert start.limit_us >= 1000 * S


def test_after_its_guest_a_host_runs_at_its_pace_alone_on_its_threads() -> None:
    """The partner of a job on `spread` has ended: the rest proceeds at the pace of the job alone on its threads."""
    told, host, guest = pair_on_spread(None)
    running = on_nodes(host, 0, 2, 0b0101, 500)
    note = m.Note(1, PACE, (2, 0, 600 * S, 1.5))
    gone = told._replace(running=(running,), pending=(), notes=(note,))
    actions = decided(gone, placement="spread", matching="u1")
    left_us = 600 * S - round(NOW_US / 1.5)
    revision, removal = actions
    assert isinstance(revision, m.ReviseJob)
    assert revision.estimate_us == pytest.approx(NOW_US + left_us, abs=1)
    assert removal == m.SetNote(1, PACE, None)
    assert guest.id == 2


def test_a_job_with_two_threads_a_process_is_not_rejected_under_spread() -> None:
    """It may use the second threads of its nodes, so it fits although it would not on first threads alone."""
    wide = spec_of(1, 8, 100)._replace(threads_per_process=2)
    running = on_nodes(spec_of(9, 1, 100), 0, 1, 1, 50)
    told = welcome_of([nodes_of(2, 2, 2, 2)], [running], [wide], belief_of(GOOD))
    for backfill in ("none", "easy", "conservative"):
        rejected = [
            action for action in decided(told, placement="spread", backfill=backfill) if type(action) is m.RejectJob
        ]
        assert rejected == []
    assert starts(decided(told._replace(running=()), placement="spread")) == {1: ((0, 2, 0b11111111, 4),)}


def test_a_job_that_gains_by_more_cores_is_backfilled_by_its_time_there() -> None:
    """Its estimate is beyond the shadow time, but on both CPUs of its node it ends before."""
    running = on_nodes(spec_of(9, 4, 95), 0, 1, 0b1111, 95)
    head = spec_of(1, 8, 100, None)
    fast = spec_of(2, 2, 100, (900_000, 1_000_000))
    told = welcome_of([nodes_of(2)], [running], [head, fast], belief_of(GOOD))
    assert decided(told, placement="spread") == [m.StartJob(2, runs_on((1, 1, 0b0101, 2)), 90 * S, None)]


# ---------------------------------------------------------------- an offer on whole nodes


def test_a_snapshot_of_whole_nodes_has_no_planned_neighbours() -> None:
    told = welcome_of(cluster(FAST, FAST), (), [asking(1, 2)], BANDWIDTH)
    plain = SchedulerCore(compose({"preset": "fcfs"}), told).view
    offer = Offer(plain.queue[0], NOW_US, runs_on((0, 1, 0b11, 2)), 1.0, 100 * S, None)
    assert len(snapshot_now(plain).with_planned(offer).planned) == 1
    assert snapshot_now(WholeNodesView(plain)).with_planned(offer).planned == ()


# ---------------------------------------------------------------- promises of particular nodes


def test_promises_claim_whole_nodes() -> None:
    """On nodes of two classes promises name nodes; two jobs of one process each do not share a node or its memory."""
    nodes = [m.NodeClass(1, 1, 4, 1, 64, 0, 0, 0), m.NodeClass(1, 1, 2, 1, 64, 0, 0, 0)]
    running = [on_nodes(small(8, 40, 10), 0, 1, 1, 10), on_nodes(small(9, 40, 10), 1, 1, 1, 30)]
    waiting = [small(1, 60, 100), small(2, 60, 100), small(3, 60, 5), small(4, 1, 10)]
    actions = decided(welcome_of(nodes, running, waiting), backfill="conservative")
    assert promised_s(actions) == {1: (10, 0), 2: (30, 1), 3: (110, 0), 4: (115, 0)}


def test_a_job_on_disk_gives_its_nodes_memory_back_when_it_ends() -> None:
    """In time slices a job on disk holds its nodes and their memory until its end in the class's time."""
    nodes = [m.NodeClass(1, 1, 4, 1, 64, 0, 0, 0, 99), m.NodeClass(1, 1, 2, 1, 64, 0, 0, 0, 99)]
    running = on_nodes(small(9, 60, 100), 0, 1, 1, 30)._replace(suspended_us=NOW_US, on_disk=True)
    view = SchedulerCore(compose({"preset": "fcfs"}), welcome_of(nodes, [running], ())).view
    machine = VirtualMachine(view, 0, 1 << 60)
    machine.turn_to(NOW_US, NodeSet(-1), int)
    profile = PlacedProfile(machine, FirstFit())
    assert profile.earliest(small(1, 60, 500)) == (NOW_US, (1, 1, 1, 1))
    assert profile.earliest(small(2, 20, 500)._replace(processes=3)) == (NOW_US + 30 * S, (0, 1, 7, 3))


def small(number: int, memory_mb: int, seconds: int) -> m.JobSpec:
    """Return a job of one process."""
    return m.JobSpec(number, NOW_US, 1, seconds * S, memory_mb=memory_mb)


def promised_s(actions: Sequence[m.Action]) -> dict[int | None, tuple[int, int]]:
    """Return the promised start of each job, in seconds from now, and its first node."""
    notes = {
        action.job_id: action.value for action in actions if isinstance(action, m.SetNote) and action.key == PROMISE
    }
    promises: dict[int | None, Any] = dict(notes)
    return {job_id: ((start_us - NOW_US) // S, runs[0][0]) for job_id, (start_us, *runs) in promises.items()}
