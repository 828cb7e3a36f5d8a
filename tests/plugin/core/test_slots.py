"""Time sharing in the scheduler's state: starts in slots, changes of slot, rotations, quanta, and taking all of these back."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.plugin.core.parts import NOW_US, WELCOME, Scripted, core_with, looks
from tests.runs import runs_on

from cosched_plugin.api import Rotation, View
from cosched_plugin.common.errors import PolicyError, RemoteProtocolError
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.core.views.whole_nodes import WholeNodesView
from cosched_plugin.protocol import messages as m

NODES = (m.NodeClass(4, 1, 1, 1, 16, 0, 0, 0, swap_mb=16),)
QUANTUM_US = 1_000


def job(number: int, processes: int = 4, *, memory_mb: int = 1, unpaired: bool = False) -> m.JobSpec:
    return m.JobSpec(number, number, processes, 100, None, memory_mb=memory_mb, unpaired=unpaired)


# Jobs 1 to 4 run, in slots 0, 0, 1 and 2; jobs 5 to 8 are pending.
SITE = WELCOME._replace(
    nodes=NODES,
    belief=m.Belief("none", "bulk-synchronous", ()),
    running=(
        m.RunningJob(job(1, 2), 900, runs_on((0, 2, 1, 1)), 500, None),
        m.RunningJob(job(2, 1), 900, runs_on((2, 1, 1, 1)), 400, None, quanta=1, shares=(30_000,)),
        m.RunningJob(job(3, 3), 900, runs_on((0, 3, 1, 1)), 300, None, slot=1, quanta=6, shares=(4, 3, 2, 1)),
        m.RunningJob(job(4, 1, unpaired=True), 900, runs_on((3, 1, 1, 1)), 200, None, slot=2),
    ),
    pending=tuple(m.PendingJob(each, held=False) for each in (job(5), job(6, 1), job(7, 1), job(8, 1, unpaired=True))),
    notes=(),
    slots=m.SlotState(QUANTUM_US, 11, (m.Turn((1,), 2), m.Turn((0,), 1, (4,))), 1),
)
WITHOUT = SITE._replace(slots=None, running=SITE.running[:2])


def start(number: int, node: int = 0, slot: int = 0) -> m.StartJob:
    return m.StartJob(number, runs_on((node, 1, 1, 1)), 100, None, slot)


def rotation(*turns: m.Turn, quantum: int = 12) -> m.SetRotation:
    return m.SetRotation(quantum, turns)


def site(*decisions: m.Action, welcome: m.Welcome = SITE) -> SchedulerCore:
    """Return a core that has decided this."""
    core = core_with(*decisions, welcome=welcome)
    assert core.handle(NOW_US, ()) == list(decisions)
    core.check()
    return core


def seen(core: SchedulerCore) -> dict[str, Any]:
    """Return everything that a policy can see, also of slots."""
    view = core.view
    return looks(core) | {
        "rotation": view.rotation,
        "quantum": view.quantum,
        "slots": view.slots_used,
        "free_in": [view.free_in(slot) for slot in range(6)],
        "on_disk": view.on_disk,
        "swap": list(view.free_swap_mb),
    }


def free_in(core: SchedulerCore, slot: int) -> int:
    """Return the free nodes of a slot: bit n for node n."""
    (layer,) = core.view.free_in(slot)
    return layer


# ---------------------------------------------------------------- what a welcome says, and the view shows


def test_plans_are_about_slot_0() -> None:
    """Jobs of other slots give it no threads back, but memory; a policy that knows nothing of slots plans with slot 0 alone."""
    view = site().view
    assert view.free_steps() == [(NOW_US, 1), (1100, 1), (1200, 1), (1300, 2), (1400, 4)]
    assert view.shadow(2) == (1300, 0)
    assert view.shadow(4) == (1400, 0)
    assert [at_us for at_us, _ in view.availability()] == [NOW_US, 1100, 1200, 1300, 1400]
    assert [list(view.memory_at(at_us)) for at_us in (1100, 1200)] == [[14, 14, 14, 16], [15, 15, 15, 16]]
    assert [view.threads_back(view.running[number]) for number in (1, 2, 3, 4)] == [2, 1, 0, 0]
    nodes = WholeNodesView(view)
    assert nodes.shadow(4) == (1400, 0)
    assert [each.job_id for each in nodes.occupancies()] == [2, 1]
    assert view.node_table().same_as(site(welcome=WITHOUT).view.node_table())


def test_a_machine_without_slots_has_slot_0() -> None:
    view = site(welcome=WITHOUT).view
    assert (view.quantum_us, view.quantum, view.quantum_ended, view.rotation) == (0, 0, False, Rotation())
    assert (view.free_in(0), view.free_in(1), view.slots_used) == (view.free, (0,), [0])


@pytest.mark.parametrize(
    "decision",
    [
        start(6, 3, 1),
        m.StartTogether((start(6, 3, 1),)),
        m.SetRotation(1, ()),
        m.SetRotation(1, (m.Turn((0,)),)),
        m.ChangeSlot(1, 1),
        m.ChangeSlot(1, 0),
    ],
)
def test_a_machine_without_slots_refuses_what_needs_them(decision: m.Action) -> None:
    with pytest.raises(PolicyError, match="this machine has no slots"):
        core_with(decision, welcome=WITHOUT).handle(NOW_US, ())


def test_a_machine_without_slots_has_no_quanta_and_no_jobs_in_slots() -> None:
    with pytest.raises(RemoteProtocolError, match=r"cannot have happened.*no slots"):
        site(welcome=WITHOUT).handle(NOW_US, (m.QuantumEnded(1, 0),))
    with pytest.raises(RemoteProtocolError, match=r"contradicts itself.*slot 1: this machine has no slots"):
        site(welcome=SITE._replace(slots=None))


# ---------------------------------------------------------------- decisions


def test_jobs_of_several_slots_start_together() -> None:
    core = site(m.StartTogether((start(6, 3, 1), start(7, 3, 5), start(8, 0, 2))))
    assert [core.view.running[number].slot for number in (6, 7, 8)] == [1, 5, 2]


def test_refused_starts_leave_no_slot_behind() -> None:
    for decision in (m.StartTogether((start(6, 3, 4), start(7, 3, 4))), start(6, 99, 4), start(6, 3, 0)):
        core = SchedulerCore(Scripted([decision]), SITE)
        with pytest.raises(PolicyError, match=r"not free there|outside|must not run beside"):
            core.handle(NOW_US, ())
        assert seen(core) == seen(site())
        assert core._state.slots is not None
        assert sorted(core._state.pools._above) == [1, 2]


WRONG: list[tuple[m.Action, str]] = [
    (start(6, 0, 0), "node 0 is not free there"),
    (start(6, 0, 1), "node 0 is not free there"),
    (start(6, 0, -1), "slot -1: expected a number from 0 to 65535"),
    (start(6, 3, 65_536), "slot 65536: expected a number from 0 to 65535"),
    (start(6, 3, cast(int, False)), "slot False: expected a number"),
    (start(6, 3, cast(int, "1")), "slot '1': expected a number"),
    (start(8, 3, 1)._replace(estimate_us=0), "an estimate of 0 us"),
    (start(6, 3, 0), "job 4 must not run beside job 6"),  # job 4 is the guest of that turn
    (m.StartTogether((start(6, 3, 1), start(6, 0, 5))), "job 6 does not wait"),
    (m.StartTogether((start(6, 3, 0),)), "job 6: job 4 must not run beside job 6"),
    (m.ChangeSlot(9, 1), "job 9 does not run"),
    (m.ChangeSlot(5, 1), "job 5 does not run"),
    (m.ChangeSlot(3, 1), "it is in slot 1 already"),
    (m.ChangeSlot(3, 0), "node 0 is not free there"),
    (m.ChangeSlot(3, 70_000), "slot: expected an integer in 0 .. 65535, got 70000"),
    (m.ChangeSlot(3, cast(int, None)), "slot: expected an integer in 0 .. 65535, got nil"),
    (rotation(m.Turn((0,)), quantum=11), "a rotation from quantum 11 on, which has ended: the next one is 12"),
    (rotation(m.Turn((0,)), quantum=13), "a rotation from quantum 13 on: the next one is 12"),
    (rotation(m.Turn((0,)), quantum=cast(int, 12.0)), "quantum: expected an integer >= 1, got 12.0"),
    (rotation(m.Turn((3,))), "slot 3 has no job"),
    (rotation(m.Turn((0,)), m.Turn((0, 1))), "two turns begin with slot 0"),
    (rotation(m.Turn((0,), 0)), "quanta: expected an integer >= 1, got 0"),
    (rotation(m.Turn((0,), 1, (5,))), "job 5 does not run"),
    (m.SetRotation(12, cast("tuple[m.Turn, ...]", 5)), "a field is not as docs"),
    (m.SetRotation(12, cast("tuple[m.Turn, ...]", (((0,), 1, ()),))), "a field has another type"),
]


@pytest.mark.parametrize(("decision", "reason"), WRONG)
def test_impossible_decisions_about_slots(decision: m.Action, reason: str) -> None:
    core = core_with(decision, welcome=SITE)
    with pytest.raises(PolicyError, match=reason.replace("[", r"\[")):
        core.handle(NOW_US, ())
    assert seen(core) == seen(site())


def test_an_unpaired_job_is_alone_on_its_nodes() -> None:
    together = rotation(m.Turn((0, 2)), m.Turn((1, 2)))
    assert site(together).view.rotation.turns == together.turns  # node 3 has no other job
    for decisions in (
        (together, start(6, 3, 0)),
        (together, start(6, 3, 1)),
        (together, start(8, 0, 2)),
        (together, m.StartTogether((start(6, 3, 7), start(8, 0, 2)))),
        (start(6, 3, 1), together),
        (rotation(m.Turn((2, 1))), start(6, 3, 5), m.ChangeSlot(6, 1)),
    ):
        with pytest.raises(PolicyError, match=r"job \d must not run beside job \d"):
            core_with(*decisions, welcome=SITE).handle(NOW_US, ())
    pairs = m.StartTogether((start(6, 3, 5), start(8, 3, 6)))
    site(rotation(), pairs)  # without a rotation, and where no turn names both, they may
    fives = SITE._replace(running=(*SITE.running, m.RunningJob(job(9, 1), 900, runs_on((0, 1, 1, 1)), 9, None, slot=5)))
    with pytest.raises(PolicyError, match="job 8: job 8 must not run beside job 6"):
        core_with(
            rotation(m.Turn((5, 2))), m.StartTogether((start(6, 1, 5), start(8, 1, 2))), welcome=fives
        ).handle(NOW_US, ())  # fmt: skip


def test_rotations_and_changes_of_slot_are_traced() -> None:
    class Explaining(Scripted):
        def decide(self, view: View) -> Any:
            view.explain(3, moved_for=6)
            return super().decide(view)

    records: list[dict[str, Any]] = []
    decisions: list[m.Action] = [
        m.ChangeSlot(3, 4),
        rotation(m.Turn((4, 0), 2, (4,)), m.Turn((0,))),
        start(6, 0, 1),
        start(7, 3, 7),
    ]
    SchedulerCore(Explaining(decisions), SITE, records.append).handle(NOW_US, ())
    turns = [{"slots": [4, 0], "quanta": 2, "guests": [4]}, {"slots": [0], "quanta": 1, "guests": []}]
    assert records[:2] == [
        {"at_us": NOW_US, "kind": "slot", "job": 3, "slot": 4, "moved_for": 6},
        {"at_us": NOW_US, "kind": "rotation", "quantum": 12, "turns": turns},
    ]
    assert [(record["kind"], record["job"], record["slot"]) for record in records[2:]] == [
        ("start", 6, 1),
        ("start", 7, 7),
    ]


# ---------------------------------------------------------------- events


def test_the_end_of_a_quantum_moves_the_rotation_and_keeps_shares() -> None:
    core = site()
    ended = m.QuantumEnded(12, 1, 0, ((3, 970_000), (77, 1), (4, 0)))
    assert core.handle(NOW_US, (ended,)) == []
    core.check()
    view = core.view
    assert (view.quantum, view.rotation) == (12, Rotation((m.Turn((0,), 1, (4,)), m.Turn((1,), 2))))
    assert (view.running[3].quanta, view.running[3].shares) == (7, (970_000, 4, 3, 2))
    assert (view.running[4].quanta, view.running[4].shares) == (1, (0,))
    assert (view.running[2].quanta, view.running[2].shares) == (1, (30_000,))


def test_a_policy_sees_the_end_of_a_quantum_once() -> None:
    class Watching(Scripted):
        def decide(self, view: View) -> Any:
            passes.append((view.quantum, view.quantum_ended))
            return iter(())

    passes: list[tuple[int, bool]] = []
    core = SchedulerCore(Watching(), SITE)
    for events in (
        (),
        (m.QuantumEnded(12, 1),),
        (m.JobEnded(1, m.COMPLETED),),
        (m.QuantumEnded(14, 0), m.QuantumEnded(15, 1)),
    ):
        core.handle(NOW_US, events)
        assert not core.view.quantum_ended
    assert passes == [(11, False), (12, True), (12, False), (15, True)]


def test_quanta_do_not_run_backwards() -> None:
    with pytest.raises(RemoteProtocolError, match="quantum 11 ends after quantum 11"):
        site().handle(NOW_US, (m.QuantumEnded(11, 0),))


# ---------------------------------------------------------------- taking back what the manager refuses


def outcome(decided: list[m.Action], refused: set[int], *events: m.Event) -> SchedulerCore:
    """Return a core that has decided this, has been told of refusals, and of what has happened since."""
    core = SchedulerCore(Scripted(decided), SITE)
    assert core.handle(NOW_US, ()) == decided
    refusals = [
        m.ActionRefused(8, number, "stale: no", (action.job_id,) if isinstance(action, m.StartJob) else ())
        for number, action in enumerate(decided)
        if number in refused
    ]
    assert core.handle(NOW_US, (*refusals, *events)) == []
    core.check()
    return core


FIRST, SECOND, THIRD = rotation(m.Turn((0,))), rotation(m.Turn((0, 1)), m.Turn((1,))), rotation(m.Turn((2,)))


DECISIONS: list[Callable[[Random], m.Action]] = [
    lambda random: m.ChangeSlot(random.choice((1, 2, 3, 4)), random.randrange(5)),
    lambda random: start(random.choice((6, 7, 8)), random.randrange(4), random.randrange(5)),
    lambda random: start(random.choice((6, 7, 8)), random.randrange(4), random.randrange(5)),
    lambda random: m.SuspendJob(random.choice((1, 2, 3, 4)), to_disk=random.random() < 0.7),
    lambda random: m.ResumeJob(random.choice((1, 2, 3, 4))),
    lambda random: m.ReviseJob(random.choice((1, 2, 3, 4)), random.randint(500, 600), None),
    lambda random: rotation(*[m.Turn((slot,)) for slot in random.sample(range(3), random.randint(0, 3))]),
    lambda random: rotation(m.Turn(tuple(random.sample(range(5), 2)), 2), m.Turn((0,), 1, (3,))),
]


def possible(random: Random, most: int) -> list[m.Action]:
    """Return up to ``most`` decisions, each possible after those before it."""
    decided: list[m.Action] = []
    for _ in range(3 * most):
        trial = random.choice(DECISIONS)(random)
        if len(decided) < most:
            try:
                core_with(*decided, trial, welcome=SITE).handle(NOW_US, ())
            except PolicyError:
                continue
            decided.append(trial)
    return decided


@given(st.integers(0, 1_000_000))
def test_refused_decisions_are_taken_back_in_any_combination(seed: int) -> None:
    """If the others are possible without the refused ones, the state is as if only these had been decided."""
    random = Random(seed)
    decided = possible(random, 6)
    refused = {number for number in range(len(decided)) if random.random() < 0.5}
    kept = [action for number, action in enumerate(decided) if number not in refused]
    try:
        expected = outcome(kept, set())
    except PolicyError:
        return
    assert seen(outcome(decided, refused)) == seen(expected)


def told(core: SchedulerCore, *, quantum: int) -> m.Welcome:
    """Return the welcome of a manager that knows what this core knows."""
    view = core.view
    running = tuple(
        m.RunningJob(
            each.job,
            each.start_us,
            each.runs,
            each.end_us - each.start_us,
            each.limit_us,
            each.suspended_us,
            0,
            each.idle_us,
            each.on_disk,
            each.ready_us,
            each.slot,
            each.quanta,
            each.shares,
        )
        for _, each in sorted(view.running.items())
    )
    pending = tuple(m.PendingJob(each, held=False) for each in view.queue)
    slots = m.SlotState(QUANTUM_US, quantum, *view.rotation)
    return SITE._replace(now_us=NOW_US, running=running, pending=pending, slots=slots)


@given(st.integers(0, 1_000_000))
def test_a_core_from_a_welcome_equals_the_one_that_lived(seed: int) -> None:
    random = Random(seed)
    core = site(*possible(random, 5))
    quantum = 11
    for _ in range(random.randint(0, 6)):
        quantum += random.choice((1, 1, 2))
        jobs = random.sample(range(1, 9), 3)
        shares = tuple((number, random.randint(0, 1_000_000)) for number in jobs if number in core.view.running)
        events: list[m.Event] = []
        if random.random() < 0.3 and core.view.running:
            events.append(m.JobEnded(random.choice(sorted(core.view.running)), m.COMPLETED))
        core.handle(NOW_US, (*events, m.QuantumEnded(quantum, random.randrange(4), random.choice((0, 0, 1)), shares)))
        core.check()
    again = SchedulerCore(Scripted(), told(core, quantum=quantum))
    again.check()
    assert seen(again) == seen(core)
