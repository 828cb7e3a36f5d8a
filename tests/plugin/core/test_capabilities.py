"""What a manager can do, what jobs ask for beyond threads and memory, and what a scheduler may ask a manager for."""

from __future__ import annotations

from typing import Any, Final

import pytest
from tests.plugin.core.parts import NOW_US, PLAIN, RUNNING, START_LIMITED, START_PLAIN, WELCOME, core_with, looks
from tests.runs import run_on, runs_on

from cosched_plugin.common.allocation import Counts, Machine, both_amounts
from cosched_plugin.common.errors import MachineError, PolicyError
from cosched_plugin.config import choose
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.protocol import messages as m

CAN = m.Capabilities()
RUNS = WELCOME.running[0].runs


def site(*jobs: m.JobSpec, can: m.Capabilities = CAN, licences: m.Amounts = (), **changes: Any) -> m.Welcome:
    """Return two nodes of four threads, with two gpus each, and pending jobs."""
    node = m.NodeClass(2, 1, 4, 1, 0, 0, 0, 0, resources=(("gpu", 2),))
    pending = tuple(m.PendingJob(job, False) for job in jobs)
    belief = m.Belief("none", "bulk-synchronous", ())
    return m.Welcome(
        1, m.FEATURES, 7, NOW_US, (node,), (), belief, (), pending, (), (), capabilities=can, licences=licences
    )._replace(**changes)


def decided(policy: str, welcome: m.Welcome, **settings: Any) -> dict[int, tuple[m.Run, ...]]:
    """Return the starts of a policy's first pass, by job."""
    core = choose(policy, settings).scheduler(welcome)
    actions = core.handle(NOW_US, ())
    core.check()
    return {action.job_id: action.runs for action in actions if isinstance(action, m.StartJob)}


# ---------------------------------------------------------------- limits


def test_a_manager_that_extends_no_limits_is_not_asked_to() -> None:
    welcome = WELCOME._replace(capabilities=CAN._replace(limits_grow=False))
    core_with(START_LIMITED, m.ReviseJob(3, 500, 200), welcome=welcome).handle(NOW_US, ())
    for wrong in ([START_LIMITED._replace(limit_us=201)], [START_LIMITED, m.ReviseJob(3, 500, 201)]):
        with pytest.raises(PolicyError, match="limit 201 us is above 200 us, and this manager grants no longer ones"):
            core_with(*wrong, welcome=welcome).handle(NOW_US, ())


def test_a_limit_is_rounded_up_as_the_manager_does_at_the_start_and_when_revised() -> None:
    welcome = WELCOME._replace(capabilities=CAN._replace(limit_grain_us=60))
    for actions, limit_us in (([START_LIMITED], 240), ([START_LIMITED, m.ReviseJob(3, 500, 250)], 300)):
        core = core_with(*actions, welcome=welcome)
        core.handle(NOW_US, ())
        assert core.view.running[3].limit_us == limit_us


@pytest.mark.parametrize("policy", ["lc", "rua"])
def test_less_consume_and_rua_expect_no_extension_then(policy: str) -> None:
    """The second job's demand slows both down: with limits that grow, its limit does; else it is expected to end at its limit."""
    node = m.NodeClass(1, 1, 4, 1, 0, 1000, 0, 0)
    job = m.JobSpec(2, 0, 2, 600, 600, demand=(1000, 0, 0))
    running = m.RunningJob(m.JobSpec(1, 0, 2, 9_000, demand=(500, 0, 0)), 0, runs_on((0, 1, 3, 2)), 9_000, None)
    belief = m.Belief("bandwidth", "bulk-synchronous", ("memory_bandwidth",))
    limits = {}
    for can in (CAN, CAN._replace(limits_grow=False), CAN._replace(limits_grow=False, limit_late_us=100)):
        welcome = site(job, can=can, nodes=(node,), belief=belief, running=(running,))
        core = choose(policy, {"backfill.thresholds": [9.0]} if policy == "rua" else {}).scheduler(welcome)
        core.handle(NOW_US, ())
        limits[can] = (core.view.running[2].limit_us, core.view.running[2].end_us - NOW_US)
    grown, kept, late = limits.values()
    assert grown[0] is not None
    assert grown[0] > 600
    assert kept == (600, 600)
    assert late == (600, 700)


# ---------------------------------------------------------------- eligible nodes, countable resources, priorities, layouts


def test_a_job_gets_the_nodes_that_it_may_have() -> None:
    job = m.JobSpec(1, 0, 2, 60, eligible=((1, 1),))
    assert decided("easy", site(job)) == {1: runs_on((1, 1, 3, 2))}
    with pytest.raises(PolicyError, match="node 0 is not among those that it may have"):
        core_with(m.StartJob(1, runs_on((0, 1, 3, 2)), 60, None), welcome=site(job)).handle(NOW_US, ())


def test_countable_resources_are_taken_and_given_back() -> None:
    jobs = [m.JobSpec(number, 0, 1, 60, resources=(("gpu", 2),), licences=(("solver", 1),)) for number in (1, 2, 3)]
    welcome = site(*jobs, licences=(("solver", 3),))
    core = choose("easy").scheduler(welcome)
    core.handle(NOW_US, ())
    core.check()
    assert {job_id: running.runs[0].first for job_id, running in core.view.running.items()} == {1: 0, 2: 1}
    assert (dict(core.view.licences), dict(core.view.free_resources)) == ({"solver": 1}, {"gpu": [0, 0]})
    core.handle(NOW_US + 5, (m.JobEnded(2, m.COMPLETED),))
    assert core.view.running[3].runs[0].first == 1
    for runs, licences, reason in (
        (runs_on((0, 1, 1, 1)), (), "0 of licence solver are free, 1 wanted"),
        (runs_on((0, 1, 1, 1)), (("solver", 3),), "node 0 has 2 of gpu free, 3 wanted"),
    ):
        greedy = jobs[0]._replace(resources=(("gpu", 3),))
        with pytest.raises(PolicyError, match=reason):
            core_with(m.StartJob(1, runs, 60, None), welcome=site(greedy, licences=licences)).handle(NOW_US, ())


def test_no_job_takes_the_licence_that_the_first_one_waits_for() -> None:
    first, long, short, other = (
        m.JobSpec(2, 1, 1, 60, licences=(("solver", 2),)),
        m.JobSpec(3, 2, 1, 900, licences=(("solver", 1),)),
        m.JobSpec(4, 3, 1, 40, licences=(("solver", 1),)),
        m.JobSpec(5, 4, 1, 900),
    )
    holder = m.RunningJob(m.JobSpec(1, 0, 1, 50, licences=(("solver", 1),)), NOW_US, runs_on((0, 1, 1, 1)), 50, None)
    started = decided("easy", site(first, long, short, other, licences=(("solver", 2),), running=(holder,)))
    assert set(started) == {4, 5}


def test_layouts_may_be_uneven_and_a_manager_may_make_even_ones_only() -> None:
    job = m.JobSpec(1, 0, 10, 60, ppn_min=2, ppn_max=3)
    uneven = m.StartJob(1, runs_on((0, 2, 7, 3), (2, 2, 3, 2)), 60, None)
    nodes = (m.NodeClass(4, 1, 4, 1, 0, 0, 0, 0),)
    core_with(uneven, welcome=site(job, nodes=nodes)).handle(NOW_US, ())
    filled = site(job, nodes=nodes, can=CAN._replace(layout=m.FILLED))
    with pytest.raises(PolicyError, match=r"2 nodes with 2 processes after nodes with 3|fills nodes in order"):
        core_with(uneven, welcome=filled).handle(NOW_US, ())
    assert decided("easy", filled) == {1: runs_on((0, 3, 7, 3), (3, 1, 1, 1))}
    busy = m.RunningJob(m.JobSpec(9, 0, 3, 50), NOW_US, runs_on((0, 1, 7, 3)), 50, None)
    assert decided("easy", site(m.JobSpec(2, 0, 5, 60), can=filled.capabilities, running=(busy,))) == {}
    assert decided("easy", site(m.JobSpec(2, 0, 2, 60), can=filled.capabilities, running=(busy,))) == {
        2: runs_on((1, 1, 3, 2))
    }


@pytest.mark.parametrize(
    ("policy", "job", "reason"),
    [
        ("batch-contiguous", m.JobSpec(1, 0, 1, 60, licences=(("solver", 1),)), "asks for countable resources"),
        ("coscheduling", m.JobSpec(1, 0, 1, 60, resources=(("gpu", 1),)), "asks for countable resources"),
        ("batch-contiguous", m.JobSpec(1, 0, 1, 60, eligible=((0, 1),)), "asks for eligible nodes"),
    ],
)
def test_a_composition_that_cannot_honour_a_wish_declines_with_the_reason(
    policy: str, job: m.JobSpec, reason: str
) -> None:
    core = choose(policy).scheduler(site(job, licences=(("solver", 1),)))
    with pytest.raises(MachineError, match=reason):
        core.handle(NOW_US, ())
    with pytest.raises(MachineError, match="it fills nodes in order"):
        choose("rua").scheduler(site(can=CAN._replace(layout=m.FILLED)))


# ---------------------------------------------------------------- features that a manager lacks


@pytest.mark.parametrize(
    ("policy", "feature"),
    [("conservative", "notes"), ("lomarc-r", "revise"), ("lomarc-r", "groups"), ("ssp", "wakes"), ("glts", "notes")],
)
def test_a_policy_declines_a_manager_without_a_feature_that_it_needs(policy: str, feature: str) -> None:
    without = tuple(other for other in m.FEATURES if other != feature)
    with pytest.raises(MachineError, match=f"needs the feature {feature}"):
        choose(policy).scheduler(site(features=without))


def test_others_work_without_them() -> None:
    bare = site(m.JobSpec(1, 0, 8, 60), m.JobSpec(2, 1, 1, 60), features=())
    for policy in ("fcfs", "easy", "sjbf", "lc"):
        assert set(decided(policy, bare)) == {1}


def test_a_policy_of_others_ends_at_the_first_decision_that_the_manager_lacks() -> None:
    core = core_with(m.WakeAt(9_000), welcome=WELCOME._replace(features=("notes",)))
    with pytest.raises(MachineError, match="needs the feature wakes, which this manager lacks"):
        core.handle(NOW_US, ())


# ---------------------------------------------------------------- what a scheduler may ask for


@pytest.mark.parametrize("action", [m.KillJob(1), m.RequeueJob(1)])
def test_a_job_that_is_to_leave_holds_its_nodes_until_the_manager_says_so(action: m.Action) -> None:
    core = core_with(action)
    before = looks(core)
    core.handle(NOW_US, ())
    running = core.view.running[1]
    assert (running.leaving, running.runs) == (True, RUNS)
    entry = m.RunningJob(RUNNING, 900, RUNS, 500, None, leaving=True)
    assert SchedulerCore(core._policy, WELCOME._replace(running=(entry,))).view.running[1] == running
    core._policy.decisions = [m.KillJob(1)]  # type: ignore[attr-defined]
    with pytest.raises(PolicyError, match="job 1 is to be killed or requeued already"):
        core.handle(NOW_US, ())
    again = core_with(action)
    again.handle(NOW_US, ())
    again.handle(NOW_US, (m.ActionRefused(8, 0, "no"),))
    assert looks(again) == before
    again._policy.decisions = [action]  # type: ignore[attr-defined]
    again.handle(NOW_US, ())
    left: m.Event = m.JobEnded(1, m.CANCELLED) if isinstance(action, m.KillJob) else m.JobRequeued(1)
    again.handle(NOW_US, (left,))
    again.check()
    assert 1 not in again.view.running


def test_a_submission_must_travel() -> None:
    core = core_with(m.SubmitJob(PLAIN), START_PLAIN)
    assert core.handle(NOW_US, ()) == [m.SubmitJob(PLAIN), START_PLAIN]
    with pytest.raises(PolicyError, match="processes: expected an integer >= 1, got 0"):
        core_with(m.SubmitJob(PLAIN._replace(processes=0))).handle(NOW_US, ())


# ---------------------------------------------------------------- what is never together

APART: Final = (("left", "right"),)


def sided(job_id: int, processes: int, *names: str) -> m.JobSpec:
    return m.JobSpec(job_id, 0, processes, 100, resources=tuple((name, 1) for name in names))


def apart_site(*pending: m.JobSpec, running: m.JobSpec | None = None) -> m.Welcome:
    """Return two nodes where the two sides are apart, and one where they are not; a job may run on thread 0 of the first."""
    both = (("left", 9), ("right", 9))
    nodes = (
        m.NodeClass(2, 1, 4, 1, 0, 0, 0, 0, resources=both, apart=APART),
        m.NodeClass(1, 1, 4, 1, 0, 0, 0, 0, resources=both),
    )
    there = () if running is None else (m.RunningJob(running, 0, (run_on(0, 1, 1, 1),), 100),)
    return site(*pending)._replace(nodes=nodes, running=there)


def test_jobs_that_are_never_together_get_other_nodes_where_that_rule_holds() -> None:
    running = sided(3, 1, "left")
    assert decided("easy", apart_site(sided(4, 3, "right"), running=running))[4][0].first == 1
    assert decided("easy", apart_site(sided(4, 3, "left"), running=running))[4][0].first == 0
    assert decided("easy", apart_site(m.JobSpec(4, 0, 3, 100), running=running))[4][0].first == 0
    # Two of the three nodes are apart from it: it also takes threads of the third, on which the sides may be together.
    assert [run.first for run in decided("fcfs", apart_site(sided(4, 8, "right"), running=running))[4]] == [1]


def test_a_plan_holds_until_the_last_of_the_others_has_gone() -> None:
    """The head waits for both nodes; a short job of the other side may be backfilled, one that stays past its start may not."""
    node = m.NodeClass(2, 1, 4, 1, 0, 0, 0, 0, resources=(("left", 9), ("right", 9)), apart=APART)
    running = m.RunningJob(sided(3, 1, "left"), 0, (run_on(0, 1, 1, 1),), NOW_US + 50)
    head = sided(4, 8, "right")
    short, long = (sided(5, 1, "left")._replace(estimate_us=span) for span in (40, 90))
    for policy in ("easy", "conservative"):
        welcome = site(head)._replace(nodes=(node,), running=(running,))
        for job, starts in ((short, True), (long, False)):
            told = welcome._replace(pending=(*welcome.pending, m.PendingJob(job)))
            assert (5 in decided(policy, told)) == starts, (policy, job.estimate_us)


def test_a_start_beside_what_it_is_apart_from_is_refused_at_both_ends() -> None:
    welcome = apart_site(sided(4, 1, "right"), running=sided(3, 1, "left"))
    wrong = m.StartJob(4, (run_on(0, 1, 2, 1),), 100, None)
    with pytest.raises(PolicyError, match="node 0 has a job with left, and none with right may be beside it"):
        core_with(wrong, welcome=welcome).handle(NOW_US, ())


def test_two_jobs_as_one_take_what_both_take() -> None:
    assert both_amounts((("a", 1),), (("a", 2), ("b", 1))) == (("a", 3), ("b", 1))
    assert both_amounts((), (("a", 1),)) == ()
    machine = Machine(apart_site().nodes)
    both = sided(4, 1)._replace(resources=both_amounts((("left", 1),), (("right", 1),)))
    assert Counts(machine).open_to(both, machine.eligible(both)) == 0b100
