"""The scheduler core: impossible decisions of a policy are refused, and the effect of every event."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from tests.plugin.core.parts import (
    NOW_US,
    RUNNING,
    START_LIMITED,
    START_PLAIN,
    WELCOME,
    Scripted,
    after,
    core_with,
    ids,
    looks,
)
from tests.runs import layers_on, runs_on

from cosched_plugin.common.errors import PluginError, PolicyError, RemoteProtocolError
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.core.views.view import View
from cosched_plugin.core.views.whole_nodes import WholeNodesView
from cosched_plugin.protocol import messages as m

# ---------------------------------------------------------------- the welcome


def test_a_core_starts_with_the_state_of_the_welcome() -> None:
    core = core_with()
    core.check()
    view = core.view
    assert ids(core) == [2, 3, 5]  # in order of submission whatever the welcome's
    assert view.queued == 3
    assert (view.now_us, view.free, view.free_threads) == (NOW_US, (0b110, 0b011), 4)
    assert list(view.releases) == [(1400, 1)]
    assert view.running[1].end_us == 1400
    assert (view.note(2, "seen"), view.note(None, "level"), view.note(None, "seen")) == (3, "high", None)
    assert view.wakes() == [5000]
    assert view.belief == WELCOME.belief
    assert list(view.availability()) == [(NOW_US, (0b110, 0b011)), (1400, (0b111, 0b011))]


def test_nodes_may_be_down_from_the_beginning() -> None:
    core = core_with(welcome=WELCOME._replace(down=(0, 2)))
    core.check()
    assert core.view.free == (0b010, 0b010)
    assert core.view.in_service == (0b010, 0b010)
    assert core.view.threads_back(core.view.running[1]) == 0


def test_an_unknown_belief_is_an_error() -> None:
    with pytest.raises(RemoteProtocolError, match=r"welcome\.belief\.contention"):
        core_with(welcome=WELCOME._replace(belief=m.Belief("astrology", "bulk-synchronous", ())))


def test_a_policy_may_place_a_job_by_plain_tuples() -> None:
    core = core_with(START_PLAIN._replace(runs=cast("tuple[m.Run, ...]", ((1, 1, 3, 2),))))
    core.handle(NOW_US, [])
    (run,) = core.view.running[2].runs
    assert (run.first, run.count, run.mask, run.processes) == (1, 1, 3, 2)
    core.check()


# ---------------------------------------------------------------- impossible decisions


class Other(m.StartJob):
    """A start of another type."""


IMPOSSIBLE: list[tuple[m.Action, str]] = [
    (START_PLAIN._replace(job_id=99), "job 99 does not wait"),
    (START_PLAIN._replace(job_id=1), "job 1 does not wait"),  # it runs
    (m.StartJob(4, runs_on((1, 1, 1, 1)), 100, None), "job 4 does not wait"),  # it is held
    (START_PLAIN._replace(runs=()), "0 processes placed, 2 wanted"),
    (START_PLAIN._replace(runs=runs_on((0, 1, 3, 2))), "node 0 is not free there"),
    (START_PLAIN._replace(runs=runs_on((2, 1, 3, 2))), "node 2 is not free there"),
    (START_PLAIN._replace(runs=runs_on((3, 1, 3, 2))), "names nodes outside 0..2"),
    (START_PLAIN._replace(runs=runs_on((-1, 1, 3, 2))), "names nodes outside 0..2"),
    (START_PLAIN._replace(runs=runs_on((1, 1, 4, 1), (2, 1, 1, 1))), "names threads outside 0..1"),
    (START_PLAIN._replace(runs=runs_on((1, 1, 1, 2))), "1 threads to 2 processes of 1"),
    (START_PLAIN._replace(runs=runs_on((1, 1, 1, 1), (1, 1, 2, 1))), "names a node twice"),
    (START_PLAIN._replace(runs=runs_on((1, 1, 1, 1))), "1 processes placed, 2 wanted"),
    (START_PLAIN._replace(estimate_us=0), "an estimate of 0 us"),
    (START_PLAIN._replace(limit_us=100), "limit 100 for a job whose own is None"),
    (START_LIMITED._replace(limit_us=None), "limit None for a job whose own is 200"),
    (START_LIMITED._replace(limit_us=199), "limit 199 us is below the job's own, 200 us"),
    (m.StartJob(5, runs_on((1, 1, 1, 1)), 100, None), "node 1 is not taken whole for an exclusive job"),
    (m.StartTogether((START_PLAIN, START_PLAIN)), "job 2 does not wait"),
    (
        m.StartTogether((START_PLAIN, m.StartJob(5, runs_on((1, 1, 3, 1)), 100, None))),
        "job 5: node 1 is not free there",
    ),
    (
        m.StartTogether((START_LIMITED, START_PLAIN._replace(estimate_us=-1))),
        "starts[1].estimate_us: expected an integer >= 1, got -1",
    ),
    (m.StartTogether((START_LIMITED, m.StartJob(4, runs_on((1, 1, 1, 1)), 100, None))), "job 4 does not wait"),
    (m.SetNote(99, "new", 1), "there is no job 99"),
    (m.WakeAt(NOW_US), f"a wake must lie after now, {NOW_US}"),
    (m.WakeAt(0), "a wake must lie after now"),
    (m.RejectJob(1, "no"), "job 1 does not wait"),
    (m.RejectJob(4, "no"), "job 4 does not wait"),
    # What the protocol could not carry, so that one process behaves as two do.
    (START_PLAIN._replace(job_id=cast(int, 2.0)), "job 2.0 does not wait"),
    (START_PLAIN._replace(runs=cast(Any, iter(START_PLAIN.runs))), "expected a tuple of runs, got tuple_iterator"),
    (START_PLAIN._replace(runs=runs_on((1, 2, 1, cast(int, True)))), "run [1, 2, 1, True] is not of whole numbers"),
    (START_PLAIN._replace(runs=runs_on((1, cast(int, 2.0), 1, 1))), "run [1, 2.0, 1, 1] is not of whole numbers"),
    (m.StartTogether((START_PLAIN._replace(job_id=cast(int, 2.0)),)), "starts[0].job_id: expected an integer >= 0"),
    (m.StartTogether(()), "starts: expected at least 1 item, got 0"),
    (m.SetNote(cast(int, True), "new", 1), "job_id: expected an integer, got true"),
    (m.WakeAt(cast(int, NOW_US + 1.0)), "at_us: expected an integer >= 0, got 1001.0"),
    (m.WakeAt(1 << 63), "at_us: expected an integer of 64 bits, got 9223372036854775808"),
    (m.RejectJob(2, cast(str, 5)), "reason: expected a string, got 5"),
    (m.RejectJob(2, "\ud800"), "surrogates not allowed"),
    (cast(m.Action, Other(*START_PLAIN)), "a policy cannot decide a Other"),
    (m.UnknownAction("dance"), "a policy cannot decide a UnknownAction"),
    (m.JobEnded(1, m.COMPLETED), "a policy cannot decide a JobEnded"),  # type: ignore[list-item]
]


@pytest.mark.parametrize(("decision", "reason"), IMPOSSIBLE, ids=[reason for _, reason in IMPOSSIBLE])
def test_impossible_decisions_change_nothing(decision: m.Action, reason: str) -> None:
    core = core_with(decision)
    before = looks(core)
    with pytest.raises(PolicyError) as caught:
        core.handle(NOW_US, ())
    error = caught.value
    assert error.decision == decision
    assert reason in error.reason
    assert repr(decision) in str(error)
    assert reason in str(error)
    assert isinstance(error, PluginError)
    assert error.exit_code == 4
    core.check()
    assert looks(core) == before
    # ... and the core continues as if it had not been made.
    good = SchedulerCore(Scripted([START_PLAIN, START_LIMITED]), WELCOME)
    core._policy.decisions = [START_PLAIN, START_LIMITED]  # type: ignore[attr-defined]
    assert core.handle(NOW_US + 1, ()) == good.handle(NOW_US + 1, ())
    assert looks(core) == looks(good)


def _handled(*decisions: m.Action) -> SchedulerCore:
    core = core_with(*decisions)
    assert core.handle(NOW_US, ()) == list(decisions)
    core.check()
    return core


# ---------------------------------------------------------------- decisions


def test_notes_are_set_replaced_and_deleted() -> None:
    core = _handled(
        m.SetNote(2, "seen", None), m.SetNote(3, "new", (1, "a")), m.SetNote(None, "new", 0), m.SetNote(1, "new", False)
    )
    view = core.view
    assert (view.note(2, "seen"), view.note(3, "new"), view.note(None, "new"), view.note(1, "new")) == (
        None,
        (1, "a"),
        0,
        False,
    )
    assert view.note(None, "level") == "high"
    core.handle(NOW_US + 1, (m.JobEnded(3, m.CANCELLED), m.JobEnded(1, m.COMPLETED)))
    assert (view.note(3, "new"), view.note(1, "new"), view.note(None, "new")) == (None, None, 0)
    core.check()


def test_a_note_on_a_held_job() -> None:
    assert _handled(m.SetNote(4, "new", 1)).view.note(4, "new") == 1
    assert _handled(m.SetNote(2, "none", None)).view.note(2, "none") is None


# ---------------------------------------------------------------- events


def test_submissions_queue_up() -> None:
    job = m.JobSpec(9, NOW_US, 1, 10)
    assert ids(after(m.JobSubmitted(job), m.JobSubmitted(job._replace(id=10)))) == [2, 3, 5, 9, 10]


def test_a_node_that_is_announced_to_return_is_in_every_plan() -> None:
    """Its threads come back then, but for those of a job that is still to run there; shadow times by numbers say the same."""
    core = after(m.NodeFailed(0, 1300), m.NodeFailed(1, 1500), m.NodeFailed(2, 1350), m.NodeFailed(2))
    view = core.view
    plan = [(NOW_US, (0, 0)), (1300, (0, 0b001)), (1400, (0b001, 0b001)), (1500, (0b011, 0b011))]
    assert list(view.availability()) == plan
    assert view.free_steps() == [(at_us, sum(layer.bit_count() for layer in free)) for at_us, free in plan]
    assert [view.shadow(threads) for threads in range(1, 6)] == [(1300, 0), (1400, 0), (1500, 1), (1500, 0), None]
    nodes = WholeNodesView(view)
    assert [at_us for at_us, _ in nodes.availability()] == [NOW_US, 1300, 1400, 1500]
    assert (nodes.shadow(1), nodes.shadow(2), nodes.shadow(3)) == ((1400, 1), (1400, 0), (1500, 1))
    core.check()
    restarted = SchedulerCore(Scripted(), core._state.inventory())
    assert looks(restarted) == looks(core)
    core.handle(1500, (m.JobEnded(1, m.COMPLETED), m.NodeReturned(0)))
    assert [at_us for at_us, _ in core.view.availability()] == [1500, 1501]  # node 1 is late


# ---------------------------------------------------------------- check


def _lose_thread(core: SchedulerCore) -> None:
    core._state.pool.free = layers_on(0, 0)


def _lose_memory(core: SchedulerCore) -> None:
    core._state.pool.free_memory_mb[0] -= 1


def _be_twice(core: SchedulerCore) -> None:
    core._state.queue[1] = RUNNING


def _lose_release(core: SchedulerCore) -> None:
    core._state.releases.clear()


def _swap_queue(core: SchedulerCore) -> None:
    queue = core._state.queue
    jobs = dict(reversed(queue.items()))
    queue.clear()
    queue.update(jobs)


def _forget_resident(core: SchedulerCore) -> None:
    core.view.node_table().put({0: ()})


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (_lose_thread, "free threads differ"),
        (_lose_memory, "free memory differs"),
        (_be_twice, "in two places"),
        (_lose_release, "releases"),
        (_swap_queue, "not in order"),
        (_forget_resident, "node table differs"),
    ],
)
def test_check_finds_damage(damage: Callable[[SchedulerCore], None], text: str) -> None:
    busy = WELCOME.running[0]._replace(spec=RUNNING._replace(demand=(500, 0, 0)))
    core = core_with(welcome=WELCOME._replace(running=(busy,)))
    core.view.node_table()
    core.check()
    damage(core)
    with pytest.raises(AssertionError, match=text):
        core.check()


class Failing:
    """A policy that fails in its own code after one decision."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def decide(self, view: View) -> Iterator[m.Action]:
        yield m.SetNote(None, "new", 1)
        raise self.error


@pytest.mark.parametrize("error", [ValueError("boom"), KeyError("job"), SystemExit(0), GeneratorExit("1")])
def test_an_exception_in_a_policy_is_a_policy_error(error: BaseException) -> None:
    with pytest.raises(PolicyError, match=rf"the policy failed: {type(error).__name__}.*test_engine.py:\d+"):
        SchedulerCore(Failing(error), WELCOME).handle(NOW_US + 1, [])


def policy_of(decide: Callable[..., Any]) -> Any:
    return type("Answering", (), {"decide": decide})()


@pytest.mark.parametrize(
    ("decide", "text"),
    [
        (
            lambda _self, _view: None,
            r"the policy failed: expected decide\(view\) to yield decisions, got TypeError: 'NoneType'",
        ),
        (
            lambda: None,
            r"the policy failed: expected decide\(view\) to yield decisions, got TypeError: .* takes 0 positional",
        ),
        (
            lambda _self, view: [m.StartJob(view.queue[0].id, (0,), 10, None)],  # type: ignore[arg-type]
            r"impossible decision StartJob\(.*\): a field has another type than docs/reference/records\.md says: TypeError: ",
        ),
    ],
)
def test_answers_that_are_no_decisions(decide: Callable[..., Any], text: str) -> None:
    with pytest.raises(PolicyError, match=rf"^{text}"):
        SchedulerCore(policy_of(decide), WELCOME).handle(NOW_US + 1, [])


class Endless:
    """A policy that decides endlessly."""

    def decide(self, view: View) -> Iterator[m.Action]:
        while True:
            yield m.SetNote(None, "new", 1)


def test_an_endless_policy_is_stopped() -> None:
    with pytest.raises(PolicyError, match="decisions at one instant"):
        SchedulerCore(Endless(), WELCOME).handle(NOW_US + 1, [])


@pytest.mark.parametrize(
    "decision",
    [
        m.SetNote(None, "new", cast(Any, object())),
        m.SetNote(None, "new", 1 << 64),
        m.SetNote(None, "new", float("nan")),
        m.SetNote(None, "new", ("a", (1, float("inf")))),
        m.SetNote(None, "new", cast(Any, [1])),
        m.SetNote(None, cast(Any, 1), 1),
        m.WakeAt(cast(Any, NOW_US + 1.5)),
        m.WakeAt(1 << 63),
        m.StartJob(2, runs_on((1, 1, 3, 2)), cast(Any, 100.0), None),
    ],
)
def test_decisions_that_cannot_be_encoded_are_refused_in_one_process_too(decision: m.Action) -> None:
    core = core_with(decision)
    before = looks(core)
    with pytest.raises(PolicyError):
        core.handle(NOW_US, [])
    core.check()
    assert looks(core) == before
