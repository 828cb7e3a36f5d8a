"""A live manager under random users, operators, faults and late answers: invariants, the scheduler's state, and replays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Final

import pytest
from tests.emulator.submissions import submit_job

from cosched_emulator import prepare
from cosched_emulator.accounting.accounts import Step
from cosched_emulator.live.journal import answer_step, command_step, play, time_step
from cosched_emulator.live.live_manager import LiveManager
from cosched_emulator.live.saved_state import packed, unpacked
from cosched_emulator.manager.record import Change, JobEntered, JobFinished
from cosched_emulator.run.build import build_agenda, build_manager
from cosched_emulator.run.prepare import Prepared
from cosched_emulator.users import requests
from cosched_emulator.workload.job import WorkloadJob
from cosched_hwmodel.draws import key, uniform
from cosched_plugin.config import choose
from cosched_plugin.core.engine import Policy, SchedulerCore
from cosched_plugin.core.views.view import View
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.codec import decode, encode

SECOND: Final = 1_000_000
PEOPLE: Final = (requests.Requester("ann", False), requests.Requester("bob", False), requests.Requester("root", True))
FAULTS: Final[dict[str, Any]] = {"nodes": {"mean_up_s": 40_000.0, "mean_down_s": 2_000.0}}
SLOW: Final[dict[str, Any]] = {"slow": {"mean_normal_s": 30_000.0, "mean_slow_s": 2_000.0, "slowdown": 3.0}}
RUA: Final[dict[str, Any]] = {
    "requeue": True,
    "cluster": {"nodes": 6, "preset": "rua-4way"},
    "workload": {"lublin": 60, "aarr": 9.0, "mix": "60:20:20", "limits": "estimate", "run_factor": 0.3},
    "faults": FAULTS,
}
LOMARC: Final[dict[str, Any]] = {
    "cluster": {"nodes": 8, "preset": "lomarc-ht"},
    "truth": {"contention": "lomarc", "remainder": True},
    "belief": {"remainder": False, "usage_noise": 0.3, "usage_missing": 0.1},
    "monitoring": {"after_s": 200.0, "above": 1.2},
    "workload": {"lublin": 60, "aarr": 8.5, "run_factor": 0.3, "characteristics": "M1", "limits": "estimate"},
    "faults": {**FAULTS, **SLOW},
}
SLICED: Final[dict[str, Any]] = {
    "requeue": True,
    "cluster": {"nodes": 8, "preset": "g-lomarc-2x2"},
    "truth": {"contention": "statistical"},
    "preemption": {"resume_s": 60.0},
    "monitoring": {"after_s": 300.0, "above": 1.1},
    "workload": {
        "lublin": 60, "aarr": 8.83, "run_factor": 0.6, "self_slowdowns": "table4", "lublin_size": "nodes", "limits": "estimate",
    },
    "faults": FAULTS,
}  # fmt: skip
SHARED: Final[dict[str, Any]] = {
    "requeue": True,
    "cluster": {"nodes": 6, "swap_mb": 1_000},
    "time_sharing": {"quantum_s": 60.0},
    "workload": {"lublin": 60, "aarr": 9.0, "limits": "estimate", "run_factor": 0.1, "cpu_share": 0.4},
    "faults": FAULTS,
}
SHORT: Final[dict[str, Any]] = {
    "requeue": True,
    "cluster": {"nodes": 6, "memory_mb": 100},
    "time_sharing": {"local": "rr"},
    "workload": {"lublin": 60, "run_factor": 0.004, "memory_mb": 20, "limits": "estimate", "programs": "uniform"},
    "faults": {"nodes": {"mean_up_s": 400.0, "mean_down_s": 20.0}},
}
WIDE: Final[
    dict[str, Any]
] = {  # a set of threads does not fit into 64 bits, and promises name the nodes as jobs have memory
    "requeue": True,
    "cluster": {"nodes": 4, "preset": "1x65x2", "memory_mb": 1000},
    "workload": {"lublin": 60, "aarr": 9.0, "limits": "estimate", "run_factor": 0.3, "memory_mb": 9},
    "faults": FAULTS,
}
GANGS: Final = "tests.emulator.manager.time_sharing.gangs"
# They place jobs in batches with the end of a quantum only.
TAKE_TURNS: Final = {
    "paired-gang": SHORT, "gang": SHORT, f"{GANGS}:PairedGang": SHARED, f"{GANGS}:Gang": SHARED,
}  # fmt: skip
DIFFICULT: Final[dict[str, Any]] = {
    "submitted_s": 20.0, "start_s": 60.0, "start_draw": "uniform", "ended_s": 30.0, "ended_draw": "exponential", "extra_s": 5.0,
    "elsewhere": 0.2, "refused": 0.1, "lost": 0.1, "start_every_s": 2000.0, "modify_every_s": 2000.0, "revise_every_s": 2000.0,
    "suspend_every_s": 3000.0, "restart_every_s": 5000.0,
}  # fmt: skip
BOUND: Final[dict[str, Any]] = {
    **RUA,
    "partitions": [
        {"name": "long", "nodes": "0-4", "default": True},
        {"name": "short", "nodes": "3-5", "max_nodes": 2, "tier": 3},
    ],
    "accounts": [{"name": "optics", "parent": "physics"}],
    "limits": [
        {"each": "user", "jobs": 3},
        {"account": "physics", "cpus": 12},
        {"qos": "high", "each": "user", "nodes": 2},
    ],
    "script": [
        {"at_s": 9_000.0, "do": "reserve", "until_s": 12_000.0},
        {"at_s": 20_000.0, "do": "reserve", "nodes": "0-3", "until_s": 24_000.0},
        {"at_s": 22_000.0, "do": "drain-nodes", "nodes": "3-4", "until_s": 23_000.0},
    ],
}
SITES: Final = {"easy": BOUND, "rua": RUA, "lomarc-r": LOMARC, "glts": SLICED, "conservative": WIDE, **TAKE_TURNS}


class Draws:
    """A sequence of random numbers of one run."""

    def __init__(self, seed: int, what: str = "live") -> None:
        self._seed = seed
        self._what = what
        self._drawn = 0

    def below(self, limit: int) -> int:
        self._drawn += 1
        return key(self._seed, self._what, self._drawn) % limit

    def chance(self, probability: float) -> bool:
        self._drawn += 1
        return uniform(self._seed, self._what, self._drawn) < probability

    def one_of(self, things: Sequence[Any]) -> Any:
        return things[self.below(len(things))]

    def some_of(self, things: Sequence[Any], most: int) -> list[Any]:
        return [self.one_of(things) for _ in range(1 + self.below(most))] if things else []


class Books:
    """A minimal accounting for a live manager: end states of jobs, and tasks of arrays."""

    def __init__(self) -> None:
        self.states: dict[int, str | None] = {}
        self.arrays: dict[int, list[int]] = {}
        self.changes: list[Change] = []

    def record(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if isinstance(change, JobEntered):
                number = change.job.spec.id
                assert number not in self.states, f"job {number} is entered twice"
                self.states[number] = None
                if change.origin.array_id is not None:
                    self.arrays.setdefault(change.origin.array_id, []).append(number)
            elif isinstance(change, JobFinished):
                number = change.record.job.spec.id
                assert self.states[number] is None, f"job {number} ends twice"
                self.states[number] = change.record.state
        self.changes += changes

    def ended_state(self, job_id: int) -> str | None:
        return self.states.get(job_id)

    def tasks(self, array_id: int) -> list[int]:
        return self.arrays.get(array_id, [])


def without_jobs(prepared: Prepared) -> Prepared:
    """Return a scenario without jobs of its own: users submit them."""
    return replace(prepared, workload=prepared.workload._replace(jobs=()))


def live_manager(prepared: Prepared, books: Books) -> LiveManager:
    """Return a live manager of a scenario without its jobs."""
    manager = build_manager(prepared, live=True)
    agenda = build_agenda(without_jobs(prepared), manager)
    return LiveManager(manager, agenda, 1, books.ended_state, books.tasks)


class Comparing:
    """A policy that first compares its view with the manager's state, and then decides like another policy."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.told: SchedulerCore | None = None  # a core made from the manager's inventory
        self.exact = True  # also compare times

    def decide(self, view: View) -> Iterator[m.Action]:
        if self.told is not None:
            compare(view, self.told.view, exact=self.exact)
        yield from self._policy.decide(view)


def compare(seen: View, told: View, *, exact: bool) -> None:
    """Compare a scheduler's view with the manager's state; only ``exact`` compares times of starts and suspensions."""

    def running(view: View) -> dict[int, Any]:
        if exact:
            return dict(view.running)
        return {
            number: (
                *(job.job, job.runs, job.layers, job.suspended_us is None, job.on_disk, job.measured_ppm),
                *(job.slot, job.quanta, job.shares),
            )
            for number, job in view.running.items()
        }

    assert seen.queue == told.queue
    assert running(seen) == running(told)
    assert list(seen.on_disk) == list(told.on_disk)
    assert (seen.free, seen.in_service) == (told.free, told.in_service)
    assert list(seen.free_memory_mb) == list(told.free_memory_mb)
    assert seen.now_us == told.now_us
    assert (seen.quantum, seen.rotation, seen.slots_used) == (told.quantum, told.rotation, told.slots_used)
    assert [seen.free_in(slot) for slot in seen.slots_used] == [told.free_in(slot) for slot in told.slots_used]
    if exact:
        assert list(seen.releases) == list(told.releases)
        assert list(seen.wakes()) == list(told.wakes())


class Life:
    """One live manager, its users, operators and scheduler."""

    def __init__(self, policy: str, seed: int, *, late: bool, difficult: bool = False) -> None:
        """``late``: time passes while the scheduler decides; else only other inputs come meanwhile.

        ``difficult``: the manager has lags, and acts by itself.
        """
        self.draws = Draws(seed)
        # Of their own, so that lives do what they did before jobs had them.
        self.priorities, self.facts = Draws(seed, "priority"), Draws(seed, "facts")
        self.late = late
        self.name = policy
        self.difficult = difficult
        manager = {"manager": DIFFICULT} if difficult else {}
        self.prepared = prepare({**SITES[policy], **manager, "seed": 1 + seed})
        self.books = Books()
        self.live = live_manager(self.prepared, self.books)
        self.steps: list[Step] = []
        self.core: SchedulerCore | None = None
        self.policy: Comparing | None = None  # the scheduler's
        self.reply: tuple[int, int, list[m.Action]] | None = None  # number and time of the batch, and what was decided
        self.resyncs = 0
        self.answered = 0
        self.refusals: list[str] = []
        self.rotations: Counter[str] = Counter()  # that schedulers have set, by how they came

    # ------------------------------------------------------------ inputs

    def do(self, step: Step) -> None:
        """Do a step in the form of the journal, and check the state."""
        self.steps.append(step)
        play(self.live, step)
        self.books.record(self.live.drain())
        self.live.check()
        if self.live.take_restart() and self.core is not None:
            self.scheduler_comes()

    def command(self, who: requests.Requester, request: requests.Request) -> None:
        due_us = self.live.due_us()
        if due_us is not None and due_us <= self.live.now_us:
            self.do(time_step(self.live.now_us))
        if isinstance(self.live.examine(who, request), requests.Refused):
            return
        step = command_step(self.live.now_us, who, request)
        self.steps.append(step)
        answer = self.live.command(self.live.now_us, who, request)
        assert isinstance(answer, requests.Done)
        self.books.record(self.live.drain())
        self.live.check()

    def go_on(self, most_s: int) -> None:
        """Advance the time, at most to the next due entry."""
        now_us = self.live.now_us + self.draws.below(most_s * SECOND)
        due_us = self.live.due_us()
        if due_us is not None and self.draws.chance(0.5):
            now_us = max(self.live.now_us, min(now_us, due_us))
        self.live.due_by((self.live.now_us + now_us) // 2)  # processes may run ahead of the steps in the journal
        self.do(time_step(now_us))

    # ------------------------------------------------------------ users and operators

    def someone_does_something(self) -> None:
        draws, live = self.draws, self.live
        there = sorted(live.manager.jobs)
        nodes = live.manager.machine.nodes
        jobs = tuple(requests.Target(number) for number in draws.some_of(there, 3))
        who = draws.one_of(PEOPLE)
        match draws.below(12):
            case 0 | 1 | 2 | 3:
                self.command(who, self.submission())
            case 4 if jobs:
                self.command(who, requests.CancelJobs(jobs))
            case 5 if live.origins:
                arrays = sorted({origin.array_id for origin in live.origins.values() if origin.array_id is not None})
                target = (
                    requests.Target(draws.one_of(arrays), draws.one_of((None, 0, 1, 2)))
                    if arrays
                    else requests.Target(1)
                )
                self.command(
                    PEOPLE[2], draws.one_of((requests.CancelJobs, requests.HoldJobs, requests.ReleaseJobs))((target,))
                )
            case 6 if jobs:
                self.command(who, requests.HoldJobs(jobs))
            case 7 | 8 if there:
                held = [number for number in there if self.is_held(number)]
                if held:
                    self.command(PEOPLE[2], requests.ReleaseJobs((requests.Target(draws.one_of(held)),)))
            case 9:
                self.command(who, requests.DrainNodes((draws.below(nodes),), "to look at"))
            case 10 | 11:
                out = sorted(live.manager.nodes.down)
                if out:
                    self.command(PEOPLE[2], requests.ResumeNodes((draws.one_of(out), draws.below(nodes))))
            case _:
                pass

    def is_held(self, number: int) -> bool:
        pending = self.live.manager.pending.get(number)
        return number in self.live.waiting or (pending is not None and pending.held)

    def submission(self) -> requests.SubmitJob:
        draws = self.draws
        model: WorkloadJob = draws.one_of(self.prepared.workload.jobs)
        spec = model.spec
        known = sorted(self.books.states)
        after = [
            requests.Dependency(draws.one_of(("afterok", "afterany")), each) for each in draws.some_of(known[-30:], 2)
        ]
        tasks = tuple(range(1 + draws.below(6))) if draws.chance(0.15) else ()
        return submit_job(
            spec.processes,
            spec.estimate_us,
            spec.limit_us if draws.chance(0.8) else None,
            run_us=max(1, model.run_us // (1 + draws.below(3))),
            exclusive=draws.chance(0.1),
            ppn_min=spec.ppn_min,
            ppn_max=spec.ppn_max,
            threads_per_process=spec.threads_per_process,
            memory_mb=spec.memory_mb,
            demand=spec.demand,
            usage=model.usage if draws.chance(0.9) else None,
            self_slowdown=model.self_slowdown,
            tasks=tasks,
            at_once=draws.below(len(tasks) + 1),
            after=tuple(after) if draws.chance(0.25) else (),
            held=draws.chance(0.1),
            requeue=draws.chance(0.7),
            priority=-self.priorities.below(4),
            exit_code=int(draws.chance(0.2)),
            delay_us=draws.below(2 * spec.estimate_us) if draws.chance(0.1) else 0,
            partitions=self.facts.one_of(((), ("long",), ("short", "long"))) if self.prepared.rules.partitions else (),
            qos=self.facts.one_of(("", "high")),
            account=self.facts.one_of(("", "physics", "optics")),
        )

    # ------------------------------------------------------------ the scheduler

    def scheduler_comes(self) -> None:
        """Start a new scheduler; the answer of the old one is lost. Every second time the manager comes anew from its saved state."""
        if self.resyncs % 2:
            saved = packed(self.live, self.books)
            self.live = unpacked(saved, self.books, without_jobs(self.prepared))
        welcome = decode(encode(self.live.inventory()))
        assert isinstance(welcome, m.Welcome)
        self.resyncs += 1
        self.policy = Comparing(choose(self.name).make())
        self.core = SchedulerCore(self.policy, welcome)
        self.reply = None

    def scheduler_hears(self) -> None:
        """Let the scheduler decide, and keep its answer for later."""
        if self.core is None or self.policy is None or self.reply is not None:
            return
        batch = self.live.batch()
        if batch is None:
            return
        seq, now_us, events = batch
        heard = decode(encode(m.Events(seq, now_us, events)))
        assert isinstance(heard, m.Events)
        known = self.live.manager.inventory()._replace(now_us=now_us)
        self.policy.told = SchedulerCore(choose(self.name).make(), known)
        self.policy.exact = not self.late
        actions = self.core.handle(now_us, heard.events)
        self.policy.told = None
        self.core.check()
        if not self.late and self.name not in TAKE_TURNS:
            again = SchedulerCore(choose(self.name).make(), known).handle(now_us, ())
            assert again == actions, "a scheduler that had just come would decide otherwise"
        self.reply = (seq, now_us, actions)

    def scheduler_answers(self) -> None:
        if self.reply is None:
            return
        seq, now_us, actions = self.reply
        self.reply = None
        refused = self.live.manager.refused
        self.count_rotations(actions)
        self.do(answer_step(self.live.now_us, m.Actions(seq, now_us, tuple(actions))))
        self.answered += 1
        if self.live.manager.refused > refused:
            refusals = [text for _, text in self.live.decisions if text.startswith("refused")]
            # What a difficult manager refuses makes more of the same answer impossible.
            assert self.difficult or all(text.startswith("refused: stale: ") for text in refusals), refusals
            self.refusals += refusals

    def count_rotations(self, actions: Sequence[m.Action]) -> None:
        processes = self.live.manager.processes
        for action in actions:
            if isinstance(action, m.SetRotation) and processes is not None:
                self.rotations["late" if action.quantum <= processes.quantum else "at once"] += 1

    # ------------------------------------------------------------ whole runs

    def go(self, rounds: int) -> None:
        for _ in range(rounds):
            match self.draws.below(10):
                case 0 | 1 | 2:
                    self.someone_does_something()
                case 3 | 4 if self.late or self.reply is None:
                    self.go_on(6 if SITES[self.name] is SHORT else 900)
                case 5 | 6:
                    self.scheduler_hears()
                case 7 | 8:
                    self.scheduler_answers()
                case 9 if self.draws.chance(0.1) or self.core is None:
                    self.scheduler_comes()
                case _:
                    pass

    def run_out(self) -> None:
        """End all jobs: no more requests, all nodes in service, all jobs released, a scheduler that answers at once."""
        self.scheduler_comes()
        for number in sorted(self.live.manager.jobs):
            if number in self.live.manager.jobs and self.is_held(number):
                self.command(PEOPLE[2], requests.ReleaseJobs((requests.Target(number),)))
        for _ in range(20_000):
            self.scheduler_hears()
            self.scheduler_answers()
            live = self.live  # another one after a restart
            if not live.unfinished:
                return
            if self.reply is None and live.manager.nodes.down and not live.manager.running:
                self.command(PEOPLE[2], requests.ResumeNodes(tuple(sorted(live.manager.nodes.down))))
            due_us = live.due_us()
            if due_us is not None:
                self.do(time_step(max(due_us, live.now_us)))
        live = self.live
        raise AssertionError(f"{live.unfinished} jobs have not ended: {live.waiting} {sorted(live.manager.pending)}")

    def replayed(self) -> tuple[LiveManager, Books]:
        """Return the manager that results from replaying the steps of the journal."""
        books = Books()
        live = live_manager(self.prepared, books)
        books.record(live.drain())
        for step in self.steps:
            play(live, step)
            books.record(live.drain())
        return live, books


def assert_same(one: LiveManager, other: LiveManager, *, void: bool = True) -> None:
    """Compare two managers, except for the number of the last batch: the journal has no unanswered batch.

    ``void``: both have the same void entries in their timelines.
    """
    here, there = [each.manager.inventory()._replace(seq=0) for each in (one, other)]
    assert (here if void else here._replace(now_us=there.now_us)) == there
    assert one.now_us == other.now_us
    assert one.origins == other.origins
    assert {number: item.reason for number, item in one.waiting.items()} == {
        number: item.reason for number, item in other.waiting.items()
    }
    ours, theirs = one.manager.nodes, other.manager.nodes
    assert (ours.broken, ours.drained, ours.slow) == (theirs.broken, theirs.drained, theirs.slow)
    assert not void or one.due_us() == other.due_us()


@pytest.mark.parametrize(
    ("policy", "late", "seeds"),
    [
        *((policy, policy == "glts", 2) for policy in SITES if policy not in TAKE_TURNS),
        ("lomarc-r", True, 2),
        *(
            pytest.param(*case, 4, marks=pytest.mark.slow)
            for case in product([policy for policy in SITES if policy not in TAKE_TURNS], (False, True))
        ),
    ],
)
def test_random_requests_keep_scheduler_manager_and_replay_equal(policy: str, late: bool, seeds: int) -> None:
    live_and_compare(policy, seeds, late=late)


@pytest.mark.parametrize(
    ("policy", "late", "seeds"),
    [
        ("paired-gang", True, 1),
        *(pytest.param(*case, 4, marks=pytest.mark.slow) for case in product(TAKE_TURNS, (False, True))),
    ],
)
def test_they_stay_equal_where_jobs_share_time(policy: str, late: bool, seeds: int) -> None:
    rotations = live_and_compare(policy, seeds, late=late)
    assert rotations["at once"] > 7 * seeds
    assert (rotations["late"] > seeds) == late


@pytest.mark.parametrize(
    ("policy", "late", "seeds"),
    [
        ("easy", True, 2),
        *(
            pytest.param(*case, 4, marks=pytest.mark.slow)
            for case in product([policy for policy in SITES if policy not in TAKE_TURNS], (False, True))
        ),
    ],
)
def test_they_stay_equal_where_the_manager_is_difficult(policy: str, late: bool, seeds: int) -> None:
    live_and_compare(policy, seeds, late=late, difficult=True)


def live_and_compare(policy: str, seeds: int, *, late: bool, difficult: bool = False) -> Counter[str]:
    """Compare manager, scheduler and replay in some lives; return the rotations that were set, by how they came."""
    resyncs = answered = ended = 0
    refusals: list[str] = []
    rotations: Counter[str] = Counter()
    for seed in range(seeds):
        life = Life(policy, seed, late=late, difficult=difficult)
        life.go(500)
        live, books = life.replayed()
        assert_same(live, life.live)
        assert books.changes == life.books.changes
        life.run_out()
        states = life.books.states
        assert None not in states.values()
        assert set(states) == set(range(1, len(states) + 1))
        resyncs += life.resyncs
        answered += life.answered
        ended += len(states)
        refusals += life.refusals
        rotations += life.rotations
    # The runs above must have enough of each.
    assert resyncs > 2 * seeds
    assert answered > 37 * seeds
    assert ended > 50 * seeds
    assert refusals
    return rotations
