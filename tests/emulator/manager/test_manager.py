"""The manager alone: batches in, state and refusals out."""

from __future__ import annotations

import gc

import pytest
from tests.emulator.parts import job, manager, node_class, start
from tests.runs import layers_on, runs_on

from cosched_emulator.errors import InvariantError
from cosched_emulator.manager.managed_job import PENDING, ManagedJob
from cosched_emulator.manager.manager import Manager
from cosched_emulator.workload.job import WorkloadJob
from cosched_plugin.protocol import messages as m


def with_jobs(*jobs: WorkloadJob, on: Manager | None = None) -> Manager:
    """Return a manager with these pending jobs, after batch 1 at 10 us."""
    managed = manager() if on is None else on
    for each in jobs:
        managed.accept(each)
    assert managed.commit(1, 10, [m.JobSubmitted(each.spec) for each in jobs], ()) == []
    return managed


def refusals(managed: Manager, *actions: m.Action) -> list[str]:
    """Commit an empty batch answered with these actions; return the reasons of refused actions."""
    follow = managed.commit(managed.seq + 1, 10, (), actions)
    managed.check()
    assert all(isinstance(event, m.ActionRefused) for event in follow)
    return [event.reason for event in follow if isinstance(event, m.ActionRefused)]


@pytest.mark.parametrize("action", [m.KillJob(1), m.RequeueJob(1)])
def test_a_job_that_a_scheduler_kills_or_requeues_leaves_in_the_next_round(action: m.KillJob | m.RequeueJob) -> None:
    managed = with_jobs(job(1))
    managed.commit(2, 20, (), (start(1),))
    follow = managed.commit(3, 30, (), (action, action))
    left: m.Event = m.JobEnded(1, m.CANCELLED) if isinstance(action, m.KillJob) else m.JobRequeued(1)
    assert follow == [m.ActionRefused(3, 1, "job 1 does not run, or leaves already"), left]
    assert managed.inventory().running[0].leaving
    assert managed.commit(4, 30, follow, ()) == []
    managed.check()
    assert list(managed.running) == []
    assert list(managed.pending) == ([] if isinstance(action, m.KillJob) else [1])
    assert refusals(managed, m.SubmitJob(m.JobSpec(0, 0, 1, 1))) == ["this manager takes jobs from its users alone"]


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (start(1, mask=1), "node 0 is not free there"),
        (start(9), "job 9 is not waiting to be started"),
        (start(5), "job 5 is not waiting to be started"),  # it runs
        (start(2, node=1), "job 2 is not waiting to be started"),  # held
        (start(1, node=1, mask=3), "2 processes placed, 1 wanted"),
        (start(3, node=1), "1 processes placed, 2 wanted"),
        (start(1, node=3), r"run \[3, 1, 1, 1\] names nodes outside 0..2"),
        (start(1, node=-1), "names nodes outside"),
        (start(1, node=1, mask=4), "names threads outside 0..1"),
        (m.StartJob(1, runs_on((1, 1, 3, 1)), 100, None), "gives 2 threads to 1 processes of 1"),
        (m.StartJob(3, runs_on((1, 1, 1, 1), (1, 1, 2, 1)), 100, None), "names a node twice"),
        (m.StartJob(1, (), 100, None), "0 processes placed"),
        (start(1, node=1, estimate_us=0), "an estimate of 0 us"),
        (start(1, node=1, limit_us=100), "limit 100 for a job whose own is None"),
        (start(4, node=1, limit_us=None), "limit None for a job whose own is 70"),
        (start(4, node=1, limit_us=69), "limit 69 us is below the job's own, 70 us"),
        (m.WakeAt(10), "a wake at 10 us is not after now, 10 us"),
        (m.WakeAt(-5), "a wake at -5 us is not after now"),
        (m.SetNote(9, "key", 1), "there is no job 9"),
        (m.RejectJob(9, "no"), "job 9 does not wait"),
        (m.RejectJob(5, "no"), "job 5 does not wait"),
        (m.UnknownAction("grow_job"), "unknown action 'grow_job'"),
        (m.ReviseJob(9, 100, None), "job 9 does not run"),
        (m.ReviseJob(1, 100, None), "job 1 does not run"),  # it waits
        (m.ReviseJob(2, 100, None), "job 2 does not run"),  # held
        (m.ReviseJob(5, 0, None), "an estimate of 0 us"),
        (m.ReviseJob(5, 100, 100), "limit 100 for a job whose own is None"),
        (m.ReviseJob(8, 100, None), "limit None for a job whose own is 90"),
        (m.ReviseJob(8, 100, 89), "limit 89 us is below the job's own, 90 us"),  # the granted limit, not the user's 70
        (m.SuspendJob(9), "job 9 does not run"),
        (m.SuspendJob(1), "job 1 does not run"),
        (m.ResumeJob(9), "job 9 is not suspended"),
        (m.ResumeJob(1), "job 1 is not suspended"),
        (m.ResumeJob(5), "job 5 is not suspended"),
        (m.StartJob(6, runs_on((0, 1, 2, 1)), 100, None), "node 0 is not taken whole for an exclusive job"),
        (m.StartJob(7, runs_on((1, 1, 1, 1)), 100, None), "node 1 has 100 MiB free, 101 wanted"),
    ],
)
def test_each_illegal_action_is_refused_with_its_reason_and_changes_nothing(action: m.Action, reason: str) -> None:
    managed = with_jobs(
        job(1),
        job(2),
        job(3, processes=2),
        job(4, limit_us=70),
        job(5),
        job(6, exclusive=True),
        job(7, memory_mb=101),
        job(8, limit_us=70),
        on=manager(node_class(2), node_class(1)),
    )
    managed.commit(2, 10, (m.JobHeld(2),), (start(5), start(8, node=2, limit_us=90)))
    before = managed.inventory()
    jobs = tuple(each.job_id for each in (action,) if isinstance(each, m.StartJob))
    (refused,) = managed.commit(3, 10, (), (m.SetNote(None, "before", 1), action, m.SetNote(None, "after", 2)))
    assert isinstance(refused, m.ActionRefused)
    assert refused[:2] == (3, 1)
    assert refused.job_ids == jobs
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(refused.reason)
    managed.check()
    notes = (m.Note(None, "after", 2), m.Note(None, "before", 1))  # the others of the reply took effect
    assert managed.inventory() == before._replace(seq=3, notes=notes)
    assert managed.refused == 1


def test_actions_apply_in_the_order_listed() -> None:
    managed = with_jobs(job(1), job(2))
    assert refusals(managed, start(1), start(2)) == ["node 0 is not free there"]
    managed = with_jobs(job(1), job(2))
    assert refusals(managed, m.RejectJob(1, "never"), start(1), m.SetNote(1, "k", 1)) == [
        "job 1 is not waiting to be started",
        "there is no job 1",
    ]
    record = managed.jobs[1].record()
    assert (record.state, record.reason, record.end_us, record.intervals) == (m.REJECTED, "never", 10, ())


def test_a_failed_node_takes_no_jobs_until_it_returns() -> None:
    managed = with_jobs(job(1), job(2), job(3, processes=4))
    managed.commit(2, 10, (), (start(1), start(2, 1)))
    managed.commit(3, 40, (m.NodeFailed(0), m.JobRequeued(1)), ())
    managed.check()
    assert managed.inventory().down == (0,)
    assert managed.jobs[1].state == PENDING
    assert [tuple(each) for each in managed.jobs[1].intervals] == [(10, 40, ((0, 1, 1, 1),), False)]
    assert managed.jobs[1].record().work_us == 30
    assert managed.end_event(1, 1) is None  # the end that was scheduled is void
    assert refusals(managed, start(1)) == ["node 0 is not free there"]
    managed.commit(5, 50, (m.NodeReturned(0), m.JobEnded(2, m.FAILED)), ())
    assert managed.inventory().down == ()
    assert refusals(managed, start(3, mask=3, nodes=2)) == []


def test_a_returned_node_is_free_except_for_running_jobs() -> None:
    managed = with_jobs(job(1), job(2))
    managed.commit(2, 10, (), (start(1),))
    managed.commit(3, 20, (m.NodeFailed(0),), ())  # the job continues: the node is draining
    assert refusals(managed, start(2, mask=2)) == ["node 0 is not free there"]
    managed.commit(5, 30, (m.NodeReturned(0),), ())
    managed.check()
    assert refusals(managed, start(2, mask=1), start(2, mask=2)) == ["node 0 is not free there"]


def test_jobs_that_the_machine_cannot_hold_are_rejected() -> None:
    managed = manager(node_class(2, threads=2), node_class(1, threads=1, memory_mb=50))
    assert managed.refusal_of(job(1, processes=5).spec) is None
    assert managed.refusal_of(job(1, processes=6).spec) == "6 processes wanted, the machine holds 5 of this kind"
    by_node = "6 nodes wanted, with 1 of its processes on each; the machine has 3 of this kind"
    assert managed.refusal_of(job(1, processes=6).spec._replace(ppn_max=1)) == by_node
    assert managed.refusal_of(job(1, processes=2, memory_mb=60).spec) is None
    assert (
        managed.refusal_of(job(1, processes=3, memory_mb=60).spec)
        == "3 processes wanted, the machine holds 2 of this kind"
    )
    managed.reject(job(1, processes=6), 7, "too large")
    record = managed.jobs[1].record()
    assert (record.state, record.end_us, record.reason) == (m.REJECTED, 7, "too large")
    assert managed.inventory().pending == ()


def test_check_finds_threads_without_a_job() -> None:
    managed = with_jobs(job(1))
    managed.commit(2, 10, (), (start(1),))
    managed.running[1].layers = layers_on(0, 1)
    with pytest.raises(InvariantError, match="free threads differ"):
        managed.check()


def _managed_jobs() -> int:
    return sum([isinstance(each, ManagedJob) for each in gc.get_objects()])


def test_a_manager_is_freed_with_its_last_reference() -> None:
    """In a sweep, the memory of a run is freed without the garbage collector, as a manager is in no reference cycle."""
    gc.disable()
    try:
        before = _managed_jobs()
        managed = with_jobs(job(1), job(2), on=manager(contention=True))
        managed.commit(2, 10, (), (start(1), m.RejectJob(2, "no"), m.WakeAt(50)))
        assert _managed_jobs() > before
        del managed
        assert _managed_jobs() == before
    finally:
        gc.enable()
