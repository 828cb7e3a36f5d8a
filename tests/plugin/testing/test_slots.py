"""The conformance check on machines with slots: its site, policies that share time, and policies that know nothing of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.plugin.testing.slot_policies import (
    Counting,
    LongTurns,
    Pairing,
    Reckless,
    Remembering,
    Restless,
    RoundRobin,
    Still,
    Trusting,
)
from tests.reference.literal_site import LiteralSite
from tests.reference.literal_site import SiteJob as LiteralJob
from tests.reference.literal_site import due_events as literal_due_events
from tests.runs import runs_on

from cosched_plugin.api import Action, StartJob, View, first_fit
from cosched_plugin.core.engine import Policy
from cosched_plugin.protocol import messages as m
from cosched_plugin.testing.check import PolicyCheckError, check_policy
from cosched_plugin.testing.happenings import due_events
from cosched_plugin.testing.site import Site
from cosched_plugin.testing.site_slots import SiteJob


@pytest.mark.parametrize("policy", [RoundRobin, LongTurns, Pairing])
def test_policies_that_share_time_pass(policy: Callable[[], Policy]) -> None:
    report = check_policy(policy, seed=5, runs=5)
    assert report.declined == 0  # every declined machine gets slots
    assert report.batches > 5 * 30


@pytest.mark.slow
@pytest.mark.parametrize("policy", [RoundRobin, LongTurns, Pairing])
@pytest.mark.parametrize("seed", range(20, 25))
def test_policies_that_share_time_pass_on_many_machines(policy: Callable[[], Policy], seed: int) -> None:
    assert check_policy(policy, seed=seed, runs=20).declined == 0


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        (Remembering, "a restart changes decisions"),
        (Counting, "a restart changes decisions"),
        (Restless, "one more pass at the same instant still decides: SetRotation"),
        (Still, "nothing will happen, and these are suspended, or no turn has their slot"),
        (Trusting, "nothing will happen, and these are suspended, or no turn has their slot"),
        (Reckless, "must not run beside job"),
    ],
)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow)])
def test_forbidden_behaviour_is_caught(policy: Callable[[], Policy], problem: str, seed: int) -> None:
    with pytest.raises(PolicyCheckError) as caught:
        check_policy(policy, seed=seed)
    assert problem in caught.value.problem


def test_policies_that_know_nothing_of_slots_meet_them_in_some_runs() -> None:
    seen: Counter[tuple[bool, bool]] = Counter()

    class Greedy:
        def decide(self, view: View) -> Iterator[Action]:
            seen[view.quantum_us > 0, view.quantum_ended or view.quantum > 0] += 1
            for job in view.queue:
                runs = first_fit(job, view.free, view.machine, view.free_memory_mb)
                if runs is not None:
                    yield StartJob(job.id, runs, job.estimate_us, job.limit_us)

    check_policy(Greedy, seed=1, runs=8)
    assert set(seen) == {(False, False), (True, False)}  # slot 0 runs all the time, without quanta
    assert seen[True, False] > 0.1 * seen.total()


def test_another_process_answers_batches_with_slots_as_well() -> None:
    report = check_policy(RoundRobin, seed=3, runs=1, arguments=["tests.plugin.testing.slot_policies:RoundRobin"])
    assert report.replayed == report.batches > 20


# ---------------------------------------------------------------- the site

S = 1_000_000
NODES = (m.NodeClass(4, 1, 1, 1, 0, 0, 0, 0),)
BELIEF = m.Belief("none", "bulk-synchronous", ())


class Table:
    """A site with a quantum of 10 s, jobs of 25 s, and what happens there."""

    def __init__(self, *jobs: tuple[int, int], unpaired: int = 0) -> None:
        """``jobs``: slot and first node of each, which takes two nodes; ``unpaired``: number of one that is so."""
        self.site = Site(NODES, BELIEF, 0, 10 * S)
        for number, (slot, node) in enumerate(jobs, 1):
            spec = m.JobSpec(number, 0, 2, 25 * S, unpaired=number == unpaired)
            self.site.jobs[number] = SiteJob(25 * S)
            self.site.happen([m.JobSubmitted(spec)])
            assert self.site.act(StartJob(number, runs_on((node, 2, 1, 1)), 25 * S, None, slot)) is None
        self.site.settle()

    def do(self, *actions: Action) -> list[str | None]:
        reasons = [self.site.act(action) for action in actions]
        self.site.settle()
        return reasons

    def go(self, until_s: float = 1_000) -> list[tuple[float, str]]:
        """Let all due things happen; return (second, what), a quantum as ``number:slot/left``."""
        told: list[tuple[float, str]] = []
        random = Random(1)
        while (due_us := self.site.due_us()) is not None and due_us <= until_s * S:
            self.site.ledger.now_us = due_us
            events = due_events(random, self.site)
            for event in events:
                match event:
                    case m.QuantumEnded():
                        shared = ",".join(str(job_id) for job_id, _ in event.shares)
                        told.append((due_us / S, f"{event.quantum}:{event.slot}/{event.left} {shared}".strip()))
                    case m.JobEnded():
                        told.append((due_us / S, f"job {event.job_id} {event.state}"))
            self.site.happen(events)
            self.site.settle()
        self.site.ledger.now_us = (
            min(int(until_s * S), self.site.ledger.now_us) if until_s == 1_000 else int(until_s * S)
        )
        return told

    def ran_us(self, job_id: int) -> int:
        return self.site.jobs[job_id].ran_us(self.site.ledger.running[job_id], self.site.ledger.now_us)


def rotation(*turns: m.Turn, quantum: int = 1) -> m.SetRotation:
    return m.SetRotation(quantum, turns)


def test_slots_take_turns() -> None:
    table = Table((0, 0), (0, 2), (1, 1))
    assert table.do(rotation(m.Turn((0,), 2), m.Turn((1,)))) == [None]
    assert table.go() == [
        (10, "1:0/1 1,2"),
        (20, "2:0/0 1,2"),
        (30, "3:1/0 3"),
        (35, "job 1 COMPLETED"),
        (35, "job 2 COMPLETED"),
        (40, "4:0/1"),
        (50, "5:1/0 3"),
        (55, "job 3 COMPLETED"),
    ]
    assert table.site.ledger.slots is not None
    assert table.site.ledger.slots.quantum == 5  # the one in which the last job ended does not count


def test_without_a_rotation_slot_0_runs_all_the_time() -> None:
    table = Table((0, 0), (1, 1))
    assert table.go() == [(25, "job 1 COMPLETED")]
    assert table.do(rotation(m.Turn((1,)))) == [None]
    assert table.go() == [(35, "1:1/0 2"), (45, "2:1/0 2"), (50, "job 2 COMPLETED")]


def test_turns_in_which_no_job_can_run_are_passed_over() -> None:
    table = Table((0, 0), (1, 0), (2, 0))
    table.do(rotation(m.Turn((0,)), m.Turn((1,)), m.Turn((2,))), m.SuspendJob(2))
    assert table.go(25) == [(10, "1:0/0 1"), (20, "2:2/0 3")]
    assert table.do(m.ResumeJob(2)) == [None]
    assert table.go(49) == [(30, "3:0/0 1"), (40, "4:1/0 2")]


def test_jobs_that_start_or_change_their_slot_run_from_the_next_quantum_on() -> None:
    table = Table((0, 0), (1, 0), (1, 2))
    table.do(rotation(m.Turn((0,)), m.Turn((1,))))
    table.go(4)
    assert table.do(m.ChangeSlot(3, 0)) == [None]
    assert table.go(10) == [(10, "1:0/0 1")]
    table.go(14)
    assert table.do(m.ChangeSlot(2, 4)) == [None]
    assert table.go(30) == [(20, "2:1/0 2"), (30, "3:0/0 1,3")]  # job 2 has kept its turn


def test_a_rotation_for_the_running_quantum_takes_effect_at_once() -> None:
    table = Table((0, 0), (1, 0))
    table.do(rotation(m.Turn((0,)), m.Turn((1,))))
    table.go(4)
    assert table.do(rotation(m.Turn((1,), 2), m.Turn((0,)))) == [None]
    assert table.go(20) == [(10, "1:1/1 2"), (20, "2:1/0 2")]
    assert table.ran_us(1) == 4 * S
    assert table.ran_us(2) == 16 * S


def test_a_quantum_in_which_all_jobs_end_has_no_end_and_gives_its_number_away() -> None:
    table = Table((0, 0))
    table.do(rotation(m.Turn((0,))))
    assert table.go() == [(10, "1:0/0 1"), (20, "2:0/0 1"), (25, "job 1 COMPLETED")]
    spec = m.JobSpec(2, 25 * S, 2, 25 * S)
    table.site.jobs[2] = SiteJob(25 * S)
    table.site.happen([m.JobSubmitted(spec)])
    table.site.ledger.now_us = 31 * S
    assert table.do(StartJob(2, runs_on((0, 2, 1, 1)), 25 * S, None)) == [None]
    assert table.go(41) == [(41, "3:0/0 2")]


def test_a_job_that_ran_for_less_than_half_of_a_quantum_has_no_share() -> None:
    table = Table((0, 0), (0, 2))
    table.do(rotation(m.Turn((0,))))
    table.go(4)
    assert table.do(m.SuspendJob(1)) == [None]
    assert table.go(15) == [(10, "1:0/0 2")]
    assert table.do(m.SuspendJob(2)) == [None]
    assert table.site.slots is not None
    assert table.site.slots.ends_us is None  # no job can run: the quantum is void
    assert table.do(m.ResumeJob(1)) == [None]
    assert table.go(25) == [(25, "2:0/0 1")]
    assert table.site.ledger.running[2].quanta == 1


def test_a_requeued_job_runs_no_more_in_the_quantum() -> None:
    table = Table((0, 0), (0, 2))
    table.do(rotation(m.Turn((0,))))
    table.go(6)
    table.site.happen([m.JobRequeued(1)])
    assert table.do(StartJob(1, runs_on((0, 2, 1, 1)), 25 * S, None)) == [None]
    assert table.go(20) == [(10, "1:0/0 2"), (20, "2:0/0 1,2")]
    assert table.ran_us(1) == 10 * S


def test_the_site_keeps_unpaired_jobs_alone() -> None:
    table = Table((0, 0), (1, 1), (2, 2), unpaired=2)
    assert table.do(rotation(m.Turn((0, 1)))) == ["job 2 must not run beside job 1"]
    assert table.do(rotation(m.Turn((1,), 1, (3,))))[0] is not None
    assert table.do(rotation(m.Turn((0, 2)), m.Turn((1,)))) == [None]
    assert table.do(m.ChangeSlot(3, 1))[0] is not None


@given(st.integers(0, 100_000))
def test_the_site_shares_time_as_the_literal_one_does(seed: int) -> None:
    random = Random(seed)
    places = [(slot, node) for slot in range(3) for node in (0, 2) if random.random() < 0.7] or [(0, 0)]
    unpaired = random.randint(1, 8)
    table, literal = Table(*places, unpaired=unpaired), LiteralSite(NODES, BELIEF, 0, 10 * S)
    for pending in [running.job for running in table.site.running]:
        literal.jobs[pending.id] = LiteralJob(pending, 25 * S)
        literal.happen(m.JobSubmitted(pending))
    for running in table.site.running:
        assert literal.act(StartJob(running.job.id, running.runs, 25 * S, None, running.slot)) is None
    literal.settle()
    for _ in range(30):
        assert table.site.inventory() == literal.inventory()
        action = draw_action(random, table.site)
        if action is not None:
            assert (table.site.act(action) is None) == (literal.act(action) is None), action
            table.site.settle()
            literal.settle()
        due_us = table.site.due_us()
        assert due_us == literal.due_us()
        soon_us = table.site.ledger.now_us + 3 * S
        literal.now_us = table.site.ledger.now_us = soon_us if due_us is None else min(due_us, soon_us)
        shares = random.random()
        events = due_events(Random(shares), table.site)
        assert events == literal_due_events(Random(shares), literal)
        table.site.happen(events)
        for event in events:
            literal.happen(event)
        table.site.settle()
        literal.settle()


def draw_action(random: Random, site: Site) -> Action | None:
    """Return an action about running jobs, possible or not."""
    if not site.running or random.random() < 0.4:
        return None
    job_id = random.choice(site.running).job.id
    turns = []
    for _ in range(random.randint(0, 3)):
        slots = tuple(random.choices(range(4), k=random.choice((1, 1, 2))))
        guests = tuple(random.choices(range(1, 8), k=random.choice((0, 0, 1))))
        turns.append(m.Turn(slots, random.choice((0, 1, 1, 2)), guests))
    assert site.ledger.slots is not None
    quantum = site.ledger.slots.quantum + 1 + (random.random() < 0.1)
    drawn = rotation(*turns, quantum=quantum)
    move = m.ChangeSlot(job_id, random.randrange(4))
    return random.choice((drawn, drawn, drawn, move, m.SuspendJob(job_id), m.ResumeJob(job_id)))
