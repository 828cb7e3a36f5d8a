"""Whole schedules of G-LOMARC-TS and its variants: the judge's checks, and their promises, notes and expected ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random

import pytest
from tests.plugin.policies.cases import sized, variants
from tests.plugin.policies.glomarc.glts_cases import (
    SECOND_US,
    SLICED,
    Played,
    draw_jobs,
    mixed_machine,
    nodes_of,
    play,
    with_wishes,
)
from tests.runs import layers_on

from cosched_emulator.manager.record import JobRecord
from cosched_emulator.scenario.planned_events import Scripted
from cosched_emulator.workload.job import WorkloadJob
from cosched_plugin.common.allocation import Machine
from cosched_plugin.common.threads import share_nodes
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.core.views.view import View
from cosched_plugin.core.views.whole_nodes import WholeNodesView
from cosched_plugin.policies.glomarc.upkeep import place_of
from cosched_plugin.policies.placement.spread import Spread
from cosched_plugin.protocol import messages as m

SHORT_US = 600 * SECOND_US
NEAR_US = 2
NODES = 6
PLENTY_MB = 1_000_000


def class_of(estimate_us: int) -> int:
    return (estimate_us > SHORT_US) + (estimate_us > 18 * SHORT_US)


def check_company(core: SchedulerCore, _now_us: int, _events: Sequence[m.Event], _actions: Sequence[m.Action]) -> None:
    """Compare co-located jobs with the notes of groups: every member once, on nodes that it shares with its partners."""
    view = core.view
    places = {job_id: place for job_id in view.running if (place := place_of(job_id, view)) is not None}
    for job_id, running in view.running.items():
        place = places.get(job_id)
        assert isinstance(running.layers, tuple)  # these nodes are not deep
        beside = {
            other
            for other, there in view.running.items()
            if other != job_id
            and class_of(there.job.estimate_us) == class_of(running.job.estimate_us)
            and share_nodes(there.layers, layers_on(*nodes_in(running.layers, view.machine.depth)))
        }
        if place is None:
            assert not beside, f"job {job_id} shares nodes with {beside}, and no group is remembered"
            continue
        assert beside == set(place.partners)
        assert running.job.estimate_us > SHORT_US
        if place.primary == job_id:
            assert all(places[other].partners == (job_id,) for other in place.partners)
        else:
            assert place.partners == (place.primary,)
            assert job_id in places[place.primary].partners
    for job in view.queue:
        assert view.note(job.id, "group") is None


def nodes_in(layers: Sequence[int], depth: int) -> list[int]:
    """Return all threads of the nodes of a set of threads."""
    nodes = 0
    for layer in layers:
        nodes |= layer
    return [nodes] * depth


# ---------------------------------------------------------------- possible, and no work lost


@pytest.mark.parametrize(("policy", "seeds"), sized(SLICED, "ssp", "glts", few=2, many=3))
def test_whole_schedules_are_valid_and_survive_restarts(policy: str, seeds: int) -> None:
    """The judge accepts them, and a scheduler restarted at any instant makes the same decisions."""
    groups = preempted = 0
    for seed in range(seeds):
        random = Random(f"whole {seed}")
        nodes = random.choice((4, 6, 9))
        jobs = draw_jobs(random, 40, nodes, gap_s=random.choice((300, 900)), over=seed % 2 == 1, limits=seed > 0)
        played = play(policy, jobs, nodes_of(nodes, swap_mb=PLENTY_MB), restart=True, look=check_company)
        played.judge(calendar=played.calendar())
        groups += len(played.groups())
        preempted += sum(len(record.disk) for record in played.records.values())
        if policy in ("cst", "cstws"):
            assert all(len(group["matched"]) == 1 for group in played.groups())
    assert preempted > 100
    assert (groups > 10) == (policy != "ssp")


@pytest.mark.parametrize(("policy", "seeds"), sized(("ssp", "glts", "cstws"), "glts", few=1, many=5))
def test_node_sets_and_amounts_are_honoured_on_nodes_that_differ(policy: str, seeds: int) -> None:
    """Partitions of nodes that are alike, in a machine with others: the judge's rules about sets, memory, GPUs and licences hold."""
    counted: Counter[str] = Counter()
    for seed in range(seeds):
        random = Random(f"sets {seed}")
        machine = mixed_machine(random)
        jobs = with_wishes(random, draw_jobs(random, 50, 6, gap_s=300, over=seed % 2 == 1), machine)
        played = play(policy, jobs, machine, restart=True, look=check_company)
        played.judge(calendar=played.calendar())
        specs = {job.spec.id: job.spec for job in jobs}
        for group in played.groups():
            members = [specs[job] for job in (group["primary"], *group["matched"])]
            counted["groups"] += 1
            counted["of a set"] += any(spec.eligible for spec in members)
            counted["with amounts"] += any(spec.resources or spec.licences for spec in members)
        counted["to disk"] += sum(len(record.disk) for record in played.records.values())
    assert counted["to disk"] > 5
    if policy != "ssp":
        assert min(counted["groups"], counted["of a set"], counted["with amounts"]) > 2


@pytest.mark.parametrize("policy", [pytest.param("ssp", marks=pytest.mark.slow), "glts"])
def test_a_partition_is_as_good_as_a_machine_of_its_own(policy: str) -> None:
    """Promises name nodes there, and not their number alone: other starts, but responses are the same in the mean."""
    means_us = Counter[str]()
    for seed in range(3):
        jobs = draw_jobs(Random(f"partition {seed}"), 40, NODES, gap_s=300, memory=True)
        partition = nodes_of(NODES, swap_mb=PLENTY_MB)
        among = Machine([nodes_of(2, 2, 4), partition, nodes_of(9)])
        there = [job._replace(spec=job.spec._replace(eligible=((2, NODES),))) for job in jobs]
        for name, played in (("alone", play(policy, jobs, partition)), ("among", play(policy, there, among))):
            means_us[name] += sum(
                (record.end_us or 0) - record.job.spec.submit_us for record in played.records.values()
            )
    assert means_us["among"] == pytest.approx(means_us["alone"], rel=0.03)


@pytest.mark.by_default(1)
@pytest.mark.parametrize(("policy", "seeds"), sized(("ssp", "glts", "cst", "glts-nh"), "glts", few=2, many=4))
def test_jobs_without_swap_space_stay_on_their_nodes(policy: str, seeds: int) -> None:
    """Some jobs find no room on disk; they stay, and no job of another class shares their nodes."""
    stayed = 0
    for seed in range(seeds):
        random = Random(f"swap {seed}")
        jobs = draw_jobs(random, 40, 6, memory=True, over=seed % 2 == 1)
        played = play(policy, jobs, nodes_of(6, swap_mb=random.choice((0, 1000, 2000, 4000))), restart=True)
        played.judge()
        stayed += crossing(played)
    assert stayed > 5


def crossing(played: Played) -> int:
    """Return how often a job stayed on its nodes when a slice ended."""
    ends = [end_us for _, end_us, _ in played.calendar()]
    stays = [stay for record in played.records.values() for stay in record.intervals]
    return sum(stay.start_us < end_us < stay.end_us for stay in stays for end_us in ends)


@pytest.mark.parametrize(("policy", "seeds"), sized(("ssp", "glts", "cst", "cstws"), "glts", few=2, many=4))
def test_jobs_of_failed_nodes_start_again_or_end(policy: str, seeds: int) -> None:
    """Jobs on a failed node start again, or (in every other run) end; also jobs on disk there and members of groups."""
    lost = 0
    for seed in range(seeds):
        random = Random(f"fail {seed}")
        jobs = draw_jobs(random, 35, 6)
        down = []
        script = []
        for node in random.sample(range(6), 4):
            since_us = random.randrange(1, 90_000) * SECOND_US
            until_us = since_us + random.randrange(1, 20_000) * SECOND_US
            down.append((node, since_us, until_us))
            script += [Scripted(since_us, "fail-node", node), Scripted(until_us, "return-node", node)]
        requeue = seed % 2 == 0
        played = play(
            policy,
            jobs,
            nodes_of(6, swap_mb=PLENTY_MB),
            script=script,
            requeue=requeue,
            restart=True,
            look=check_company,
        )
        ended = {number: record.state for number, record in played.records.items() if record.state != m.COMPLETED}
        assert set(ended.values()) <= {"NODE_FAIL"}
        assert not (requeue and ended)
        played.judge(down=down, ended_early=ended)
        lost += len(ended) + sum(record.starts > 1 for record in played.records.values())
    assert lost > 5


@pytest.mark.parametrize(("policy", "seeds"), sized(("glts", "cstws"), "glts", few=2, many=4))
def test_users_cancel_hold_and_release_jobs(policy: str, seeds: int) -> None:
    """Members of groups are cancelled while they run or are on disk; pending jobs are held and released."""
    cancelled = 0
    for seed in range(seeds):
        random = Random(f"cancel {seed}")
        jobs = draw_jobs(random, 35, 6)
        script = [
            Scripted(random.randrange(1, 100_000) * SECOND_US, "cancel", number)
            for number in random.sample(range(1, 36), 12)
        ]
        for number in random.sample(range(1, 36), 8):
            at_us = jobs[number - 1].spec.submit_us + random.randrange(3) * 500 * SECOND_US
            script += [Scripted(at_us, "hold", number), Scripted(at_us + 5000 * SECOND_US, "release", number)]
        played = play(policy, jobs, nodes_of(6, swap_mb=PLENTY_MB), script=script, restart=True, look=check_company)
        ended = {number: record.state for number, record in played.records.items() if record.state != m.COMPLETED}
        assert set(ended.values()) <= {m.CANCELLED}
        played.judge(ended_early=ended)
        cancelled += sum(bool(played.records[number].intervals) for number in ended)
    assert cancelled > 5


# ---------------------------------------------------------------- expected ends


class Expectations:
    """Expected durations of jobs, as time of progress: the last ones, and those at the last change of their partners."""

    def __init__(self) -> None:
        self.last_us: dict[int, int] = {}
        self.in_company_us: dict[int, int] = {}
        self.revised: set[int] = set()

    def look(self, core: SchedulerCore, _now_us: int, _events: Sequence[m.Event], actions: Sequence[m.Action]) -> None:
        view = core.view
        started = {job for action in actions for job in m.started_by(action)}
        self.revised |= {action.job_id for action in actions if isinstance(action, m.ReviseJob)}
        for job_id, running in view.running.items():
            if running.suspended_us is None:
                self.last_us[job_id] = running.end_us - running.start_us - running.idle_us
        for job_id in started:
            place = place_of(job_id, view)
            own = None if place is None else place_of(place.primary, view)
            if place is not None and own is not None:
                for member in (place.primary, *own.partners):
                    self.in_company_us[member] = self.last_us[member]

    def played(self, policy: str, slices: str, seed: int, gap_s: float) -> dict[int, int]:
        """Run jobs with exact estimates and equally many processes on every node; return how long each made progress."""
        jobs = draw_jobs(Random(f"ends {seed}"), 40, NODES, gap_s=gap_s, even=True)
        played = play({"preset": policy, "slices": slices}, jobs, nodes_of(NODES, swap_mb=PLENTY_MB), look=self.look)
        return {number: took_us(record) for number, record in played.records.items()}


def took_us(record: JobRecord) -> int:
    assert record.end_us is not None
    return record.end_us - record.intervals[0].start_us - record.suspended_us


@pytest.mark.by_default(2)
@pytest.mark.parametrize("policy", ["glts", "cst", "glts-nh", "ssp"])
@pytest.mark.parametrize("slices", ["classes", "none"])
def test_jobs_end_at_their_last_expected_end(policy: str, slices: str) -> None:
    """Estimates are exact, so each job ends at its last expected end."""
    revised = 0
    for seed in range(4):
        expectations = Expectations()
        for number, progress_us in expectations.played(policy, slices, seed, 400).items():
            assert abs(progress_us - expectations.last_us[number]) <= NEAR_US
        revised += len(expectations.revised)
    assert (revised > 5) == (policy != "ssp")


@pytest.mark.parametrize("slices", ["classes", pytest.param("none", marks=pytest.mark.slow)])
def test_groups_proceed_as_planned(slices: str) -> None:
    """The expected ends of all members at the formation of a group come true, unless their partners change later."""
    foreseen = 0
    for seed in range(4):
        expectations = Expectations()
        progress_us = expectations.played("glts", slices, seed, 300)
        for number, expected_us in expectations.in_company_us.items():
            assert abs(progress_us[number] - expected_us) <= NEAR_US
        foreseen += len(expectations.in_company_us)
    assert foreseen > 50, foreseen


def test_a_last_node_with_fewer_processes_is_never_slower_than_expected() -> None:
    """A job is expected to meet its own slowdown and its worst partner on one node; if it does not, it ends earlier."""
    earlier = 0
    for seed in (3, 4):
        expectations = Expectations()
        jobs = draw_jobs(Random(f"ends {seed}"), 40, NODES, gap_s=400)
        played = play({"preset": "glts-nh", "slices": "none"}, jobs, nodes_of(NODES), look=expectations.look)
        for number, record in played.records.items():
            assert took_us(record) <= expectations.last_us[number] + NEAR_US
            earlier += took_us(record) < expectations.last_us[number] - NEAR_US
    assert 0 < earlier < 20


# ---------------------------------------------------------------- promises


class Promises:
    """Compares every promise with the last one, and with the earliest possible start."""

    def __init__(self, jobs: Sequence[WorkloadJob]) -> None:
        self.submitted = {job.spec.id: job.spec.submit_us for job in jobs}
        self.spread = Spread()
        self.seen: Counter[str] = Counter()
        self._before: dict[int, int] = {}

    def look(self, core: SchedulerCore, now_us: int, events: Sequence[m.Event], actions: Sequence[m.Action]) -> None:
        view = core.view
        waited = {event.job.id for event in events if isinstance(event, m.JobSubmitted)} | self._before.keys()
        head_has_company = False
        for action in actions:
            started = m.started_by(action)
            if started:
                group = len(started) > 1 or view.note(started[0], "group") is not None
                head = min(waited, key=lambda job: (self.submitted[job], job))
                head_has_company |= group and head in started
                self.seen["head's" if group and head in started else "backfilled" if group else "alone"] += 1
                for job in started:
                    if job in self._before and not group:
                        assert now_us <= self._before[job]
                waited -= set(started)
        promises = {job.id: promised_us(job.id, view) for job in view.queue}
        for job, promise_us in promises.items():
            assert promise_us > now_us
            if job in self._before and not head_has_company:  # ends of groups are revised, to a microsecond
                assert promise_us <= self._before[job] + NEAR_US, f"job {job} at {now_us} us: promised later"
                self.seen["earlier"] += promise_us < self._before[job]
        self._check_compressed(core, promises)
        self._before = promises

    def _check_compressed(self, core: SchedulerCore, promises: Mapping[int, int]) -> None:
        """Assert that all promises fit together, and that no single one could be earlier."""
        view = WholeNodesView(core.view)
        stays = [(there.end_us, nodes_of_runs(there.runs)) for there in view.running.values()]
        planned = {}
        for job in view.queue:
            footprint = self.spread.footprint(job, view)
            assert footprint is not None
            planned[job.id] = (promises[job.id], promises[job.id] + footprint.run_us, footprint.nodes)

        def least(since_us: int, until_us: int, but: int) -> int:
            """Return how many nodes are free from one instant to another, without one job's promise."""
            others = [one for job, one in planned.items() if job != but]
            fewest = NODES
            for at_us in (since_us, *(start for start, _, _ in others if since_us < start < until_us)):
                busy = {node for end_us, nodes in stays if max(end_us, view.now_us + 1) > at_us for node in nodes}
                fewest = min(fewest, NODES - len(busy) - sum(n for s, e, n in others if s <= at_us < e))
            return fewest

        for number, (start_us, end_us, nodes) in planned.items():
            assert least(start_us, end_us, number) >= nodes
            instants = {view.now_us, *(end for end, _ in stays), *(end for _, end, _ in planned.values())}
            for at_us in instants:
                if view.now_us <= at_us < start_us:
                    assert least(at_us, at_us + end_us - start_us, number) < nodes, (
                        f"job {number} could start at {at_us} us"
                    )


def promised_us(job_id: int, view: View) -> int:
    promise = view.note(job_id, "promise")
    assert isinstance(promise, tuple)
    assert isinstance(promise[0], int)
    return promise[0]


def nodes_of_runs(runs: Sequence[m.Run]) -> set[int]:
    return {node for first, count, _, _ in runs for node in range(first, first + count)}


@pytest.mark.parametrize("policy", variants(("ssp", "glts", "cstws"), "glts"))
def test_promises_are_kept(policy: str) -> None:
    """Only a group with the first pending job may delay other promises; every promise is as early as possible."""
    seen: Counter[str] = Counter()
    for seed in range(4):
        random = Random(f"promise {seed}")
        jobs = draw_jobs(random, 35, NODES, gap_s=400, over=seed % 2 == 1)
        promises = Promises(jobs)
        play({"preset": policy, "slices": "none"}, jobs, nodes_of(NODES), look=promises.look)
        seen += promises.seen
    assert seen["alone"] > 50
    assert seen["earlier"] > 20
    if policy != "ssp":
        assert seen["head's"] > 5
        assert seen["backfilled"] > 5


@pytest.mark.parametrize("backfill", ["easy", "sjbf"])
def test_reservations_are_kept(backfill: str) -> None:
    """With one reservation, for the first pending job, backfilled groups do not delay it."""
    groups = reserved = 0
    for seed in range(5):
        jobs = draw_jobs(Random(f"easy {seed}"), 35, NODES, gap_s=300)
        table = {"preset": "glts", "slices": "none", "fairness": "none", "backfill": backfill}
        played = play(table, jobs, nodes_of(NODES))
        groups += len(played.groups())
        promised: dict[int, int] = {}
        for record in played.trace:
            if record["kind"] == "reserve":
                job, shadow_us = record["job"], record["shadow_us"]
                assert job not in promised or shadow_us <= promised[job] + NEAR_US
                promised[job] = shadow_us
                reserved += 1
            elif record["kind"] == "start" and record["job"] in promised:
                assert record["at_us"] <= promised[record["job"]] + NEAR_US
        played.judge(class_bounds_us=None)
    assert min(groups, reserved) > 15
