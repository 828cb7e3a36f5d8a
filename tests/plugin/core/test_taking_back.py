"""Refused actions have no effect: the core takes them back, and then agrees with the manager."""

from __future__ import annotations

import pytest
from tests.plugin.core.parts import NODES, NOW_US, PLAIN, WELCOME, Scripted, looks
from tests.runs import runs_on

from cosched_plugin.common.errors import RemoteProtocolError, UsageError
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.protocol import messages as m

SWAP = tuple(item._replace(swap_mb=100) for item in NODES)
LOADED = m.JobSpec(1, 0, 2, 500, 900, memory_mb=4)
STOPPED = m.JobSpec(6, 0, 1, 500, None)
SITE = WELCOME._replace(
    nodes=SWAP,
    running=(
        m.RunningJob(LOADED, 900, runs_on((0, 1, 3, 2)), 500, 900),
        m.RunningJob(STOPPED, 900, runs_on((1, 1, 1, 1)), 500, None, suspended_us=950),
    ),
)
START_5 = m.StartJob(5, runs_on((2, 1, 1, 1)), 100, None)
START = m.StartJob(2, runs_on((0, 1, 3, 2)), 100, None)  # on the threads that job 1 leaves
DECIDED = [
    [m.SuspendJob(1)],
    [m.SuspendJob(1, to_disk=True)],
    [m.SuspendJob(1, to_disk=True), START],
    [m.ResumeJob(6)],
    [m.ReviseJob(1, 700, 950)],
    [m.SuspendJob(1), m.ReviseJob(1, 700, 950)],
    [m.WakeAt(9_000)],
    [m.WakeAt(5_000)],  # there is one already
    [m.RejectJob(2, "no")],
    [m.RejectJob(2, "no"), START_5, m.WakeAt(9_000)],
    [m.KillJob(1), m.RequeueJob(6)],
    [
        m.SuspendJob(1, to_disk=True),
        m.ResumeJob(6),
        m.StartTogether((START,)),
        m.WakeAt(9_000),
        m.ReviseJob(6, 800, None),
    ],
]


def refusals(actions: list[m.Action], numbers: list[int]) -> list[m.Event]:
    started = [
        tuple(start.job_id for start in action.starts)
        if isinstance(action, m.StartTogether)
        else (action.job_id,)
        if isinstance(action, m.StartJob)
        else ()
        for action in actions
    ]
    return [m.ActionRefused(8, number, "stale: no", started[number]) for number in numbers]


def core_after(actions: list[m.Action], *events: m.Event, welcome: m.Welcome = SITE) -> SchedulerCore:
    """Return a core that has decided these actions, and then heard of these events."""
    policy = Scripted(actions)
    core = SchedulerCore(policy, welcome)
    assert core.handle(NOW_US, []) == actions
    assert core.handle(NOW_US, events) == []
    core.check()
    return core


@pytest.mark.parametrize("actions", DECIDED)
def test_actions_that_are_all_refused_leave_no_trace(actions: list[m.Action]) -> None:
    core = core_after(list(actions), *refusals(actions, list(range(len(actions)))))
    assert looks(core) == looks(core_after([]))
    assert core.refused == len(actions)


@pytest.mark.parametrize("refused", range(3))
def test_later_actions_have_the_effect_that_they_have_without_a_refused_one(refused: int) -> None:
    """A resumption makes the limit later by the time of suspension, a revision sets it, maybe to what it is already."""
    site = SITE._replace(
        running=(SITE.running[0], SITE.running[1]._replace(spec=STOPPED._replace(limit_us=900), limit_us=910))
    )
    actions: list[m.Action] = [m.ReviseJob(6, 700, 940), m.ResumeJob(6), m.ReviseJob(6, 800, 990)]
    kept = [action for number, action in enumerate(actions) if number != refused]
    core = core_after(list(actions), *refusals(actions, [refused]), welcome=site)
    assert looks(core) == looks(core_after(list(kept), welcome=site))
    equal: list[m.Action] = [m.ResumeJob(6), m.ReviseJob(6, 700, 960)]  # it is 960 by then
    core = core_after(list(equal), *refusals(equal, [0]), welcome=site)
    assert looks(core) == looks(core_after(equal[1:], welcome=site))


def test_refused_actions_are_taken_back_before_other_events() -> None:
    """While the scheduler decided, job 2 was held, a node failed and job 1 was cancelled."""
    actions: list[m.Action] = [m.SuspendJob(1, to_disk=True), START]
    events: list[m.Event] = [m.NodeFailed(0), m.JobEnded(1, m.CANCELLED), m.JobHeld(2)]
    core = core_after(actions, *refusals(actions, [0, 1]), *events)
    assert looks(core) == looks(core_after([], *events))
    assert 2 not in [job.id for job in core.view.queue]


def test_a_job_whose_rejection_is_refused_is_pending_as_what_has_happened_since_says() -> None:
    """Its user has modified it, or held and released it, while the scheduler rejected it: it must not be lost."""
    changed = PLAIN._replace(estimate_us=77)
    reject: list[m.Action] = [m.RejectJob(2, "no")]
    core = core_after(list(reject), *refusals(reject, [0]), m.JobHeld(2), m.JobReleased(2), m.JobModified(changed))
    assert core.view.pending(2) == changed
    assert core.view.note(2, "seen") == 3
    core = core_after(list(reject), *refusals(reject, [0]), m.JobEnded(2, m.CANCELLED))
    assert core.view.pending(2) is core.view.note(2, "seen") is None


def test_a_refusal_of_another_cores_action_changes_nothing() -> None:
    core = core_after([], m.ActionRefused(7, 0, "stale: no", (2,)), m.ActionRefused(7, 5, "no"))
    assert looks(core) == looks(core_after([]))


def test_impossible_events_are_the_managers_fault() -> None:
    core = SchedulerCore(Scripted(), SITE)
    with pytest.raises(RemoteProtocolError, match="cannot have happened"):
        core.handle(NOW_US, [m.JobRequeued(77)])


@pytest.mark.parametrize(
    "runs",
    [runs_on((9, 1, 1, 1)), runs_on((0, 1, 8, 1)), runs_on((2, 5, 1, 1))],
    ids=["no such node", "no such thread", "beyond the last node"],
)
def test_a_welcome_that_contradicts_itself_is_the_managers_fault(runs: tuple[m.Run, ...]) -> None:
    impossible = m.RunningJob(m.JobSpec(1, 0, 1, 500, None), 900, runs, 500, None)
    with pytest.raises(RemoteProtocolError, match="contradicts itself"):
        SchedulerCore(Scripted(), SITE._replace(running=(impossible,))).check()


def test_a_belief_that_names_no_resource_is_unusable() -> None:
    with pytest.raises(UsageError, match="cannot be used"):
        SchedulerCore(Scripted(), SITE._replace(belief=m.Belief("bandwidth", "bulk-synchronous", ("magic",))))
