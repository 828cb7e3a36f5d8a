"""What a peer is told of a feature that it lacks, what makes it say hello again, and what ends the conversation."""

from __future__ import annotations

from typing import Any

import pytest
from tests.plugin.protocol.test_session import NOW_US, batch, hello, manager_in, reply, scheduler_in, welcome
from tests.runs import runs_on

from cosched_plugin.common.errors import LocalProtocolError, RemoteProtocolError
from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.features import welcome_for
from cosched_plugin.protocol.limits import MAX_ROUNDS
from cosched_plugin.protocol.session import ManagerSession, State

RUNS = runs_on((0, 1, 1, 1))
JOB = m.JobSpec(1, 0, 1, 1)
OWN: list[tuple[m.Event, str]] = [
    (m.JobStarted(1, 0, RUNS, 1, None), m.STARTED),
    (m.JobModified(JOB), m.MODIFIED),
    (m.JobRevised(1, 1, None), m.MODIFIED),
    (m.JobSuspended(1, 0), m.SUSPENDED),
    (m.JobResumed(1, 0), m.SUSPENDED),
    (m.ActionRefused(3, 0, "late", (1,)), m.RESYNC),
]


def without(feature: str) -> tuple[str, ...]:
    return tuple(other for other in m.FEATURES if other != feature)


def ready(features: tuple[str, ...] = m.FEATURES, **settings: Any) -> ManagerSession:
    """Return a manager's session that has the answer to batch 5, and serves a scheduler with these features."""
    session = ManagerSession(lambda: welcome(5), **settings)
    session.receive(hello(features=features))
    session.receive(m.Ready(5))
    return session


@pytest.mark.parametrize(("event", "feature"), OWN, ids=str)
def test_a_scheduler_that_must_not_miss_an_event_says_hello_again(event: m.Event, feature: str) -> None:
    (sent,) = ready(lockstep=False).submit(6, NOW_US + 6, (event,))
    assert isinstance(sent, m.Events)
    assert sent.events == (event,)
    manager = ready(without(feature), lockstep=False)
    (error,) = manager.submit(6, NOW_US + 6, (event,))
    assert isinstance(error, m.ErrorReport)
    assert (error.code, manager.state) == ("state", State.CLOSED)
    assert feature in error.text
    (told,) = manager.receive(hello(features=without(feature))).send
    assert isinstance(told, m.Welcome)
    assert manager.batch is None
    with pytest.raises(LocalProtocolError, match=f"without the feature {feature}"):
        ready(without(feature)).submit(6, NOW_US + 6, (event,))


def test_a_scheduler_that_would_put_jobs_together_that_never_are_is_not_served() -> None:
    node = m.NodeClass(1, 1, 2, 1, 0, 0, 0, 0, resources=(("a", 2), ("b", 2)), apart=(("a", "b"),))
    manager = ManagerSession(lambda: welcome(5)._replace(nodes=(node,)))
    with pytest.raises(RemoteProtocolError) as caught:
        manager.receive(hello(features=without(m.APART)))
    assert (caught.value.code, caught.value.path) == ("unsupported", "features")
    (told,) = manager.receive(hello(features=m.FEATURES)).send
    assert isinstance(told, m.Welcome)
    assert told.nodes == (node,)


def test_a_manager_may_require_features() -> None:
    manager = ManagerSession(lambda: welcome(5), required=(m.STARTED, m.MODIFIED))
    with pytest.raises(RemoteProtocolError, match="expected the feature modified") as caught:
        manager.receive(hello(features=without(m.MODIFIED)))
    assert (caught.value.code, caught.value.path) == ("unsupported", "features")
    manager.receive(hello())
    assert manager.state is State.WELCOMED


def test_an_unknown_end_is_a_cancelled_job_to_a_scheduler_that_knows_none() -> None:
    for features, state in ((m.FEATURES, m.UNKNOWN), (without(m.UNKNOWN_ENDS), m.CANCELLED)):
        (sent,) = ready(features).submit(6, NOW_US + 6, (m.JobEnded(1, m.UNKNOWN), m.JobEnded(2, m.FAILED)))
        assert isinstance(sent, m.Events)
        assert sent.events == (m.JobEnded(1, state), m.JobEnded(2, m.FAILED))


def test_a_scheduler_is_told_that_the_manager_holds_a_job_only_where_it_knows_that() -> None:
    kept = welcome(5)._replace(running=(m.RunningJob(JOB, 0, RUNS, 1, None, 5, held=True),))
    for features in (m.FEATURES, without(m.SUSPENDED)):
        (told,) = ManagerSession(lambda: kept).receive(hello(features=features)).send
        assert isinstance(told, m.Welcome)
        assert told.running[0].held == (m.SUSPENDED in features)


# ---------------------------------------------------------------- a new hello, and a repeated welcome


def test_pending_jobs_are_copied_only_for_a_scheduler_that_lacks_a_field() -> None:
    """Copies of 100,000 jobs take longer than all else that a welcome needs."""
    jobs = (m.PendingJob(JOB._replace(priority=3), False),)
    told = welcome(5)._replace(pending=jobs)
    assert welcome_for(told, m.FEATURES).pending is jobs
    (job,) = welcome_for(told, without(m.PRIORITY)).pending
    assert job.spec.priority == 0


def test_a_manager_asks_for_a_hello_in_so_many_words() -> None:
    manager = manager_in(State.OPEN)
    (asked,) = manager.resync("it did not answer", ((6, 0),))
    assert asked == m.Resync("it did not answer", ((6, 0),))
    assert manager.resend() == (asked,)
    scheduler = scheduler_in(State.OPEN)
    assert scheduler.receive(asked).deliver == asked
    assert scheduler.receive(asked).deliver is None  # it comes twice
    (again,) = manager.receive(scheduler.hello()).send
    delivered = scheduler.receive(again).deliver
    assert delivered == again
    assert manager.receive(scheduler.ready()).send == (
        batch(6)._replace(greeting=2),
    )  # verbatim, where time stands still
    assert manager_in(State.WELCOMED).resync("") == ()


def test_a_scheduler_of_an_earlier_release_says_hello_again_for_an_error() -> None:
    manager = ready(without(m.RESYNC))
    assert manager.resync("the cluster is back") == (m.ErrorReport("state", "", "the cluster is back"),)
    assert manager.state is State.CLOSED


@pytest.mark.parametrize("greeting", [0, 1])
def test_the_very_same_welcome_is_answered_with_ready_and_another_is_a_resync(greeting: int) -> None:
    scheduler = scheduler_in(State.GREETED)
    first = welcome(5)._replace(greeting=greeting)
    scheduler.receive(first)
    scheduler.ready()
    assert scheduler.receive(first).send == (m.Ready(5, greeting),)
    other = first._replace(pending=(m.PendingJob(JOB, False),))
    assert scheduler.receive(other).deliver == other
    assert scheduler.state is State.WELCOMED


# ---------------------------------------------------------------- rounds


def refusal(seq: int) -> m.ActionRefused:
    return m.ActionRefused(seq, 0, "node 3 is not free there", (1,))


def test_a_manager_dismisses_a_scheduler_that_insists_on_what_is_refused() -> None:
    manager = ready()
    for seq in range(6, 6 + MAX_ROUNDS):
        again = (m.ProgressMeasured(2, 1_500_000),) if seq % 2 else ()  # what it has counted as void is no news
        manager.submit(seq, NOW_US + 5, (refusal(seq - 1), *again))
        manager.receive(reply(seq, NOW_US + 5))
    with pytest.raises(RemoteProtocolError, match=r"repeats refused actions.*node 3 is not free there") as caught:
        manager.submit(6 + MAX_ROUNDS, NOW_US + 5, (refusal(5 + MAX_ROUNDS),))
    assert caught.value.code == "rounds"
    assert manager.state is State.CLOSED


def test_a_scheduler_leaves_a_manager_that_refuses_without_end() -> None:
    scheduler = scheduler_in(State.READY)
    for seq in range(6, 6 + MAX_ROUNDS):
        scheduler.receive(m.Events(seq, NOW_US + 6, (refusal(seq - 1),)))
        scheduler.answer(())
    with pytest.raises(RemoteProtocolError, match="nothing but refusals") as caught:
        scheduler.receive(m.Events(6 + MAX_ROUNDS, NOW_US + 6, (refusal(5 + MAX_ROUNDS),)))
    assert caught.value.code == "rounds"


def test_rounds_are_counted_anew_when_anything_else_happens() -> None:
    manager = ready()
    for seq in range(6, 6 + 3 * MAX_ROUNDS):
        woken = (m.Woken(1),) if seq % MAX_ROUNDS == 0 else ()
        manager.submit(seq, NOW_US + 5, (refusal(seq - 1), *woken))
        manager.receive(reply(seq, NOW_US + 5))
    assert manager.state is State.READY
