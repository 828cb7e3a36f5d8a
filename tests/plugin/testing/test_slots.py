"""The conformance check on machines with slots: its site, policies that share time, and policies that know nothing of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
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
    report = check_policy(policy, seed=5, runs=3)
    assert report.declined == 0  # every declined machine gets slots
    assert report.batches > 3 * 30


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
        (Still, "no further event comes, and these jobs are suspended, or no turn has their slot"),
        (Trusting, "no further event comes, and these jobs are suspended, or no turn has their slot"),
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


def site_of(places: Sequence[tuple[int, int]], unpaired: int) -> Site:
    """Return a site with a quantum of 10 s, and jobs of 25 s by slot and first node; each takes two nodes."""
    site = Site(NODES, BELIEF, 0, 10 * S)
    for number, (slot, node) in enumerate(places, 1):
        site.jobs[number] = SiteJob(25 * S)
        site.happen([m.JobSubmitted(m.JobSpec(number, 0, 2, 25 * S, unpaired=number == unpaired))])
        assert site.act(StartJob(number, runs_on((node, 2, 1, 1)), 25 * S, None, slot)) is None
    site.settle()
    return site


def rotation(*turns: m.Turn, quantum: int = 1) -> m.SetRotation:
    return m.SetRotation(quantum, turns)


@given(st.integers(0, 100_000))
def test_the_site_shares_time_as_the_literal_one_does(seed: int) -> None:
    random = Random(seed)
    places = [(slot, node) for slot in range(3) for node in (0, 2) if random.random() < 0.7] or [(0, 0)]
    unpaired = random.randint(1, 8)
    site, literal = site_of(places, unpaired), LiteralSite(NODES, BELIEF, 0, 10 * S)
    for pending in [running.job for running in site.running]:
        literal.jobs[pending.id] = LiteralJob(pending, 25 * S)
        literal.happen(m.JobSubmitted(pending))
    for running in site.running:
        assert literal.act(StartJob(running.job.id, running.runs, 25 * S, None, running.slot)) is None
    literal.settle()
    for _ in range(30):
        assert site.inventory() == literal.inventory()
        action = draw_action(random, site)
        if action is not None:
            assert (site.act(action) is None) == (literal.act(action) is None), action
            site.settle()
            literal.settle()
        due_us = site.due_us()
        assert due_us == literal.due_us()
        soon_us = site.ledger.now_us + 3 * S
        literal.now_us = site.ledger.now_us = soon_us if due_us is None else min(due_us, soon_us)
        shares = random.random()
        events = due_events(Random(shares), site)
        assert events == literal_due_events(Random(shares), literal)
        site.happen(events)
        for event in events:
            literal.happen(event)
        site.settle()
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
