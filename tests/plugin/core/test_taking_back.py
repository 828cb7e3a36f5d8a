"""Refused actions have no effect: the core takes them back, and then agrees with the manager."""

from __future__ import annotations

import pytest
from tests.plugin.core.parts import NODES, NOW_US, PLAIN, WELCOME, Scripted, looks
from tests.runs import runs_on

from cosched_plugin.common.errors import RemoteProtocolError, UsageError
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.protocol.messages import (
    CANCELLED,
    Action,
    ActionRefused,
    Belief,
    Event,
    JobEnded,
    JobHeld,
    JobModified,
    JobReleased,
    JobRequeued,
    JobSpec,
    KillJob,
    NodeFailed,
    RejectJob,
    RequeueJob,
    ResumeJob,
    ReviseJob,
    Run,
    RunningJob,
    StartJob,
    StartTogether,
    SuspendJob,
    WakeAt,
    Welcome,
)

SWAP = tuple(item._replace(swap_mb=100) for item in NODES)
LOADED = JobSpec(1, 0, 2, 500, 900, memory_mb=4)
STOPPED = JobSpec(6, 0, 1, 500, None)
SITE = WELCOME._replace(
    nodes=SWAP,
    running=(
        RunningJob(LOADED, 900, runs_on((0, 1, 3, 2)), 500, 900),
        RunningJob(STOPPED, 900, runs_on((1, 1, 1, 1)), 500, None, suspended_us=950),
    ),
)
START_5 = StartJob(5, runs_on((2, 1, 1, 1)), 100, None)
START = StartJob(2, runs_on((0, 1, 3, 2)), 100, None)  # on the threads that job 1 leaves
DECIDED = [
    [SuspendJob(1)],
    [SuspendJob(1, to_disk=True)],
    [SuspendJob(1, to_disk=True), START],
    [ResumeJob(6)],
    [ReviseJob(1, 700, 950)],
    [SuspendJob(1), ReviseJob(1, 700, 950)],
    [WakeAt(9_000)],
    [WakeAt(5_000)],  # there is one already
    [RejectJob(2, "no")],
    [RejectJob(2, "no"), START_5, WakeAt(9_000)],
    [KillJob(1), RequeueJob(6)],
    [SuspendJob(1, to_disk=True), ResumeJob(6), StartTogether((START,)), WakeAt(9_000), ReviseJob(6, 800, None)],
]


def refusals(actions: list[Action], numbers: list[int]) -> list[Event]:
    started = [
        tuple(start.job_id for start in action.starts)
        if isinstance(action, StartTogether)
        else (action.job_id,)
        if isinstance(action, StartJob)
        else ()
        for action in actions
    ]
    return [ActionRefused(8, number, "stale: no", started[number]) for number in numbers]


def core_after(actions: list[Action], *events: Event, welcome: Welcome = SITE) -> SchedulerCore:
    """Return a core that has decided these actions, and then heard of these events."""
    policy = Scripted(actions)
    core = SchedulerCore(policy, welcome)
    assert core.handle(NOW_US, []) == actions
    assert core.handle(NOW_US, events) == []
    core.check()
    return core


@pytest.mark.parametrize("actions", DECIDED)
def test_actions_that_are_all_refused_leave_no_trace(actions: list[Action]) -> None:
    core = core_after(list(actions), *refusals(actions, list(range(len(actions)))))
    assert looks(core) == looks(core_after([]))
    assert core.refused == len(actions)


@pytest.mark.parametrize("refused", range(3))
def test_later_actions_have_the_effect_that_they_have_without_a_refused_one(refused: int) -> None:
    """A resumption makes the limit later by the time of suspension, a revision sets it, maybe to what it is already."""
    site = SITE._replace(
        running=(SITE.running[0], SITE.running[1]._replace(spec=STOPPED._replace(limit_us=900), limit_us=910))
    )
    actions: list[Action] = [ReviseJob(6, 700, 940), ResumeJob(6), ReviseJob(6, 800, 990)]
    kept = [action for number, action in enumerate(actions) if number != refused]
    core = core_after(list(actions), *refusals(actions, [refused]), welcome=site)
    assert looks(core) == looks(core_after(list(kept), welcome=site))
    equal: list[Action] = [ResumeJob(6), ReviseJob(6, 700, 960)]  # it is 960 by then
    core = core_after(list(equal), *refusals(equal, [0]), welcome=site)
    assert looks(core) == looks(core_after(equal[1:], welcome=site))


def test_refused_actions_are_taken_back_before_other_events() -> None:
    """While the scheduler decided, job 2 was held, a node failed and job 1 was cancelled."""
    actions: list[Action] = [SuspendJob(1, to_disk=True), START]
    events: list[Event] = [NodeFailed(0), JobEnded(1, CANCELLED), JobHeld(2)]
    core = core_after(actions, *refusals(actions, [0, 1]), *events)
    assert looks(core) == looks(core_after([], *events))
    assert 2 not in [job.id for job in core.view.queue]


def test_a_job_whose_rejection_is_refused_is_pending_as_what_has_happened_since_says() -> None:
    """Its user has modified it, or held and released it, while the scheduler rejected it: it must not be lost."""
    changed = PLAIN._replace(estimate_us=77)
    reject: list[Action] = [RejectJob(2, "no")]
    core = core_after(list(reject), *refusals(reject, [0]), JobHeld(2), JobReleased(2), JobModified(changed))
    assert core.view.pending(2) == changed
    assert core.view.note(2, "seen") == 3
    core = core_after(list(reject), *refusals(reject, [0]), JobEnded(2, CANCELLED))
    assert core.view.pending(2) is core.view.note(2, "seen") is None


def test_a_refusal_of_another_cores_action_changes_nothing() -> None:
    core = core_after([], ActionRefused(7, 0, "stale: no", (2,)), ActionRefused(7, 5, "no"))
    assert looks(core) == looks(core_after([]))


def test_impossible_events_are_the_managers_fault() -> None:
    core = SchedulerCore(Scripted(), SITE)
    with pytest.raises(RemoteProtocolError, match="cannot have happened"):
        core.handle(NOW_US, [JobRequeued(77)])


@pytest.mark.parametrize(
    "runs",
    [runs_on((9, 1, 1, 1)), runs_on((0, 1, 8, 1)), runs_on((2, 5, 1, 1))],
    ids=["no such node", "no such thread", "beyond the last node"],
)
def test_a_welcome_that_contradicts_itself_is_the_managers_fault(runs: tuple[Run, ...]) -> None:
    impossible = RunningJob(JobSpec(1, 0, 1, 500, None), 900, runs, 500, None)
    with pytest.raises(RemoteProtocolError, match="contradicts itself"):
        SchedulerCore(Scripted(), SITE._replace(running=(impossible,))).check()


def test_a_belief_that_names_no_resource_is_unusable() -> None:
    with pytest.raises(UsageError, match="cannot be used"):
        SchedulerCore(Scripted(), SITE._replace(belief=Belief("bandwidth", "bulk-synchronous", ("magic",))))
