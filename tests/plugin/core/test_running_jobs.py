"""Running jobs that are revised, suspended, resumed and measured; and the same state in a restarted core."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any, cast

import pytest
from tests.plugin.core.parts import NODES, NOW_US, WELCOME, Scripted, after, core_with, looks
from tests.runs import run_on, runs_on

from cosched_plugin.common.errors import PluginError, PolicyError
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.ledger.running import Running
from cosched_plugin.protocol import messages as m

# Jobs 1 and 2 share node 0, jobs 2 and 3 share node 1, job 4 is alone on node 2 and suspended.
ONE = m.JobSpec(1, 0, 1, 500, 600, memory_mb=4)
TWO = m.JobSpec(2, 0, 2, 500, None, demand=(1000, 0, 0))
THREE = m.JobSpec(3, 0, 1, 500, None)
FOUR = m.JobSpec(4, 0, 1, 500, 600)
SHARING = WELCOME._replace(
    running=(
        m.RunningJob(ONE, 900, runs_on((0, 1, 1, 1)), 700, 800, None, 1_500_000),
        m.RunningJob(TWO, 800, runs_on((0, 1, 2, 1), (1, 1, 1, 1)), 900, None, None, 1_500_000),
        m.RunningJob(THREE, 800, runs_on((1, 1, 2, 1)), 300, None, None, 1_200_000),
        m.RunningJob(FOUR, 800, runs_on((2, 1, 1, 1)), 1000, 900, 950, 0),
    ),
    pending=(m.PendingJob(m.JobSpec(5, 10, 1, 100), False), m.PendingJob(m.JobSpec(6, 10, 1, 100), True)),
    notes=(),
)


def handled(*decisions: m.Action, at_us: int = NOW_US, welcome: m.Welcome = SHARING) -> SchedulerCore:
    core = core_with(*decisions, welcome=welcome)
    assert core.handle(at_us, ()) == list(decisions)
    core.check()
    return core


def decide(core: SchedulerCore, at_us: int, *decisions: m.Action) -> None:
    """Let a core with a scripted policy make further decisions."""
    cast(Scripted, core._policy).decisions = list(decisions)
    assert core.handle(at_us, ()) == list(decisions)
    core.check()


def measured(core: SchedulerCore) -> dict[int, int]:
    return {job_id: running.measured_ppm for job_id, running in core.view.running.items() if running.measured_ppm}


# ---------------------------------------------------------------- revise


def test_a_revised_job_has_another_expected_end() -> None:
    core = core_with(welcome=SHARING)
    core.view.node_table()  # from now on it is kept, and `check` compares it with the running jobs
    core.check()
    assert list(core.view.releases) == [(1100, 3), (1600, 1), (1700, 2), (1800, 4)]
    before = core.view.version
    decide(core, NOW_US, m.ReviseJob(2, 250, None), m.ReviseJob(1, 750, 900), m.ReviseJob(4, 1200, 900))
    view = core.view
    assert view.version > before
    assert list(view.releases) == [(1050, 2), (1100, 3), (1650, 1), (2000, 4)]
    assert [at_us for at_us, _ in view.availability()] == [1000, 1050, 1100, 1650, 2000]
    one = view.running[1]
    assert (one.start_us, one.end_us, one.limit_us) == (900, 1650, 900)
    assert measured(core) == {1: 1_500_000, 2: 1_500_000, 3: 1_200_000}  # no job has started or ended
    decide(core, NOW_US + 1, m.ReviseJob(1, 1, 900))  # an end that has passed; the limit may stay
    assert view.running[1].end_us == 901
    assert view.expected_end(view.running[1]) == NOW_US + 2


# ---------------------------------------------------------------- to disk

SWAPPING = SHARING._replace(nodes=tuple(item._replace(swap_mb=6) for item in NODES), resume_us=40)


def test_suspending_to_disk_needs_room_on_disk_and_on_return() -> None:
    core = core_with(welcome=SWAPPING._replace(nodes=tuple(item._replace(swap_mb=3) for item in NODES)))
    assert list(core.view.free_swap_mb) == [3, 3, 3]
    with pytest.raises(PolicyError, match="node 0 has 3 MiB of swap space free, 4 wanted"):
        decide(core, NOW_US, m.SuspendJob(1, to_disk=True))
    decide(core, NOW_US, m.SuspendJob(2, to_disk=True))  # without memory
    core = handled(m.SuspendJob(1, to_disk=True), m.StartJob(5, runs_on((0, 1, 1, 1)), 100, None), welcome=SWAPPING)
    assert not core.view.may_resume(core.view.running[1])
    assert core.handle(NOW_US + 1, (m.JobEnded(5, m.COMPLETED),)) == []
    assert core.view.may_resume(core.view.running[1])


# ---------------------------------------------------------------- measured progress


@pytest.mark.parametrize(
    ("event", "left"),
    [
        (m.JobEnded(1, m.COMPLETED), {3}),
        (m.JobEnded(2, m.COMPLETED), set()),
        (m.JobRequeued(3), {1}),
        (m.JobEnded(4, m.CANCELLED), {1, 2, 3}),
        (m.JobEnded(5, m.CANCELLED), {1, 2, 3}),
        (m.NodeFailed(0), {1, 2, 3}),
        (m.NodeReturned(0), {1, 2, 3}),
        (m.JobSubmitted(m.JobSpec(9, 1000, 1, 1)), {1, 2, 3}),
    ],
)
def test_a_measurement_is_valid_until_a_neighbour_starts_or_ends(event: m.Event, left: set[int]) -> None:
    assert set(measured(after(event, welcome=SHARING))) == left


def test_events_of_one_instant_count_in_their_order() -> None:
    """Ends come before measurements in a batch: these measurements already exclude the jobs that ended."""
    core = after(m.JobEnded(3, m.COMPLETED), m.ProgressMeasured(2, 1_400_000), welcome=SHARING)
    assert measured(core) == {1: 1_500_000, 2: 1_400_000}


# ---------------------------------------------------------------- impossible decisions

IMPOSSIBLE: list[tuple[m.Action, str]] = [
    (m.SuspendJob(1, to_disk=True), "node 0 has 0 MiB of swap space free, 4 wanted"),
    (m.SuspendJob(4, to_disk=True), "job 4 is suspended"),
    (m.ReviseJob(99, 100, None), "job 99 does not run"),
    (m.ReviseJob(5, 100, None), "job 5 does not run"),  # it waits
    (m.ReviseJob(6, 100, None), "job 6 does not run"),  # it is held
    (m.ReviseJob(2, 0, None), "estimate_us: expected an integer >= 1, got 0"),
    (m.ReviseJob(2, -5, None), "estimate_us: expected an integer >= 1, got -5"),
    (m.ReviseJob(2, 100, 100), "limit 100 for a job whose own is None"),
    (m.ReviseJob(1, 100, None), "limit None for a job whose own is 800"),
    (m.ReviseJob(1, 100, 799), "limit 799 us is below the job's own, 800 us"),  # the granted limit, not the user's 600
    (m.ReviseJob(4, 100, 899), "limit 899 us is below the job's own, 900 us"),  # also while it is suspended
    (m.ReviseJob(2, cast(Any, 100.0), None), "estimate_us: expected an integer >= 1, got 100.0"),
    (m.ReviseJob(1, 100, cast(Any, 900.5)), "limit_us: expected an integer >= 1, got 900.5"),
    (m.SuspendJob(99), "job 99 does not run"),
    (m.SuspendJob(5), "job 5 does not run"),
    (m.SuspendJob(6), "job 6 does not run"),
    (m.SuspendJob(4), "job 4 is suspended"),
    (m.ResumeJob(99), "job 99 does not run"),
    (m.ResumeJob(5), "job 5 does not run"),
    (m.ResumeJob(1), "job 1 is not suspended"),
    (cast(Any, m.ProgressMeasured(1, 2)), "a policy cannot decide a ProgressMeasured"),
]


@pytest.mark.parametrize(("decision", "reason"), IMPOSSIBLE, ids=[reason for _, reason in IMPOSSIBLE])
def test_impossible_decisions_change_nothing(decision: m.Action, reason: str) -> None:
    core = core_with(decision, welcome=SHARING)
    before = looks(core)
    with pytest.raises(PolicyError) as caught:
        core.handle(NOW_US, ())
    assert caught.value.decision == decision
    assert reason in caught.value.reason
    assert isinstance(caught.value, PluginError)
    assert caught.value.exit_code == 4
    core.check()
    assert looks(core) == before


def test_check_finds_an_unknown_measurement() -> None:
    core = core_with(welcome=SHARING)
    core._state.measured.discard(2)
    with pytest.raises(AssertionError, match="measured"):
        core.check()


# ---------------------------------------------------------------- anything, in any order


@dataclass
class Books:
    """The expected state after each event and decision, as plain facts from which a welcome can be made at any time."""

    nodes: tuple[m.NodeClass, ...]
    running: dict[int, m.RunningJob] = field(default_factory=dict)
    pending: dict[int, m.JobSpec] = field(default_factory=dict)
    down: set[int] = field(default_factory=set)
    now_us: int = 0
    resume_us: int = 0

    def nodes_of(self, job_id: int) -> set[int]:
        return {n for first, count, _, _ in self.running[job_id].runs for n in range(first, first + count)}

    def disturb(self, job_id: int) -> None:
        where = self.nodes_of(job_id)  # also for a job on disk: measurements of the jobs beside it have become invalid
        for other in [other for other in self.running if self.nodes_of(other) & where]:
            self.running[other] = self.running[other]._replace(measured_ppm=0)

    def welcome(self) -> m.Welcome:
        pending = tuple(m.PendingJob(job, False) for job in self.pending.values())
        return m.Welcome(
            m.PROTOCOL_VERSION, m.FEATURES, 1, self.now_us, self.nodes, tuple(sorted(self.down)), WELCOME.belief,
            tuple(job for _, job in sorted(self.running.items())), pending, (), (), self.resume_us,
        )  # fmt: skip

    def wait(self, job_id: int, span_us: int) -> None:
        """Put off the end and the limit of a job that makes no progress for this time."""
        job = self.running[job_id]
        later_us = None if job.limit_us is None else job.limit_us + span_us
        self.running[job_id] = job._replace(
            estimate_us=job.estimate_us + span_us, limit_us=later_us, idle_us=job.idle_us + span_us
        )

    def swap_left_mb(self, node: int) -> int:
        space = [item.swap_mb for item in self.nodes for _ in range(item.nodes)][node]
        return space - sum(
            job.spec.memory_mb for n, job in self.running.items() if job.on_disk and node in self.nodes_of(n)
        )

    def step(self, random: Random, core: SchedulerCore) -> None:
        """Apply one random event or decision to the books and to the core."""
        self.now_us += random.choice((0, 1, 7))
        kinds = ["submit", "start", "start", "start", "end", "requeue", "fail", "return"]
        kind = random.choice([*kinds, *["measure"] * 4, *["suspend", "resume"] * 2, "revise"])
        job_id = random.choice(sorted(self.running)) if self.running else 0
        decisions: list[m.Action] = []
        events: list[m.Event] = []
        match kind:
            case "submit":
                number = 1 + max([*self.running, *self.pending], default=0)
                memory_mb = random.choice((0, 0, 8))
                job = m.JobSpec(
                    number, self.now_us, random.randint(1, 3), 50, random.choice((None, 80)), memory_mb=memory_mb
                )
                self.pending[number] = job
                events.append(m.JobSubmitted(job))
            case "start" if self.pending:
                job = self.pending[random.choice(sorted(self.pending))]
                runs = [run_on(node, 1, 1 << thread, 1) for node, thread in self.room(random)[: job.processes]]
                if len(runs) == job.processes and len({run.first for run in runs}) == len(runs):
                    del self.pending[job.id]
                    self.running[job.id] = m.RunningJob(job, self.now_us, tuple(sorted(runs)), 60, job.limit_us)
                    self.disturb(job.id)
                    decisions.append(m.StartJob(job.id, tuple(sorted(runs)), 60, job.limit_us))
            case "end" | "requeue" if job_id:
                if not self.running[job_id].on_disk:
                    self.disturb(job_id)
                gone = self.running.pop(job_id)
                if kind == "requeue":
                    self.pending = dict(sorted((self.pending | {job_id: gone.spec}).items()))
                events.append(m.JobEnded(job_id, m.COMPLETED) if kind == "end" else m.JobRequeued(job_id))
            case "measure" if job_id and self.running[job_id].suspended_us is None:
                ppm = random.randint(1, 3_000_000)
                self.running[job_id] = self.running[job_id]._replace(measured_ppm=ppm)
                events.append(m.ProgressMeasured(job_id, ppm))
            case "suspend" if job_id and self.running[job_id].suspended_us is None:
                job = self.running[job_id].spec
                to_disk = random.random() < 0.6 and all(
                    self.swap_left_mb(node) >= job.memory_mb for node in self.nodes_of(job_id)
                )
                self.running[job_id] = self.running[job_id]._replace(suspended_us=self.now_us, on_disk=to_disk)
                self.disturb(job_id)
                decisions.append(m.SuspendJob(job_id, to_disk))
            case "resume" if (
                job_id
                and (since_us := self.running[job_id].suspended_us) is not None
                and self.may_resume(job_id, random)
            ):
                waited_us = max(since_us, self.running[job_id].ready_us)  # all of it so far
                if self.running[job_id].on_disk:
                    self.running[job_id] = self.running[job_id]._replace(ready_us=self.now_us + self.resume_us)
                self.wait(job_id, max(self.now_us, self.running[job_id].ready_us) - waited_us)
                self.running[job_id] = self.running[job_id]._replace(suspended_us=None, on_disk=False)
                self.disturb(job_id)
                decisions.append(m.ResumeJob(job_id))
            case "revise" if job_id:
                limit_us = self.running[job_id].limit_us
                revision = m.ReviseJob(job_id, random.randint(1, 99), None if limit_us is None else limit_us + 3)
                self.running[job_id] = self.running[job_id]._replace(estimate_us=revision[1], limit_us=revision[2])
                decisions.append(revision)
            case "fail" if not self.down:
                self.down.add(1)
                events.append(m.NodeFailed(1))
            case "return" if self.down:
                self.down.discard(1)
                events.append(m.NodeReturned(1))
        cast(Scripted, core._policy).decisions = list(decisions)
        assert core.handle(self.now_us, events) == decisions

    def may_resume(self, job_id: int, random: Random) -> bool:
        job = self.running[job_id]
        return not job.on_disk or {(run[0], run[2].bit_length() - 1) for run in job.runs} <= set(self.room(random))

    def room(self, random: Random) -> list[tuple[int, int]]:
        """Return the free (node, thread) pairs of nodes in service, shuffled."""
        taken = {
            (node, mask.bit_length() - 1)
            for job in self.running.values() if not job.on_disk
            for node, _, mask, _ in job.runs
        }  # fmt: skip
        width = [item.threads for item in self.nodes for _ in range(item.nodes)]
        places = [(node, thread) for node in range(len(width)) for thread in range(width[node])]
        return random.sample(free := [p for p in places if p not in taken and p[0] not in self.down], len(free))


def everything(core: SchedulerCore) -> dict[str, Any]:
    return looks(core) | {"on_disk": list(core.view.on_disk), "swap": list(core._state.pool.free_swap_mb)}


@pytest.mark.parametrize("resume_us", [0, 25])
def test_a_core_made_from_a_welcome_equals_the_live_core(resume_us: int) -> None:
    seen: set[str] = set()
    for seed in range(5):
        random = Random(seed)
        books = Books(tuple(item._replace(swap_mb=12) for item in NODES), resume_us=resume_us)
        core = core_with(welcome=books.welcome())
        for step in range(300):
            if step == 100:
                core.view.node_table()  # from now on kept up to date
            before = dict(books.running)
            books.step(random, core)
            core.check()
            fresh = core_with(welcome=books.welcome())
            fresh.check()
            assert everything(core) == everything(fresh)
            told = {job_id: told_of(job.start_us + job.estimate_us, job) for job_id, job in books.running.items()}
            assert told == {job_id: told_of(job.end_us, job) for job_id, job in core.view.running.items()}
            seen |= {"both" for job in books.running.values() if job.suspended_us is not None and measured(core)}
            for job_id, job in books.running.items():
                seen |= {"measured"} if job.measured_ppm else set()
                seen |= {"suspended"} if job.suspended_us is not None else set()
                if job.on_disk:
                    seen |= {"on disk"} | ({"on a node that is down"} if books.nodes_of(job_id) & books.down else set())
                    seen |= set() if core.view.may_resume(core.view.running[job_id]) else {"no room"}
                if job.suspended_us is not None and job_id in before and before[job_id].ready_us > books.now_us:
                    seen.add("on its way back")
    expected = {"suspended", "measured", "both", "on disk", "on a node that is down", "no room"}
    assert seen == expected | ({"on its way back"} if resume_us else set())


def told_of(end_us: int, job: m.RunningJob | Running) -> tuple[object, ...]:
    return end_us, job.limit_us, job.suspended_us, job.measured_ppm, job.idle_us, job.on_disk, job.ready_us
