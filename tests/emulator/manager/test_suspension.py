"""Running jobs that are suspended, resumed and revised: ends, kills and records."""

from __future__ import annotations

import pytest
from tests.emulator.parts import at_times, job, manager, node_class, play, start
from tests.runs import runs_on

from cosched_emulator.manager.managed_job import SUSPENDED
from cosched_emulator.manager.manager import Manager
from cosched_emulator.manager.record import JobRecord
from cosched_emulator.scenario.planned_events import Scripted
from cosched_hwmodel.lomarc.lomarc_model import LomarcContention, LomarcModel
from cosched_plugin.protocol import messages as m

# Both must work with and without a model of contention.
both = pytest.mark.parametrize("contention", [False, True])


def ended(record: JobRecord) -> tuple[str, int | None, int]:
    return record.state, record.end_us, record.work_us


@both
def test_a_suspended_job_has_no_end_until_it_is_resumed(contention: bool) -> None:
    answer = at_times(at_0=[start(1)], at_40=[m.SuspendJob(1)], at_200=[m.ResumeJob(1)])
    player, managed, records = play(answer, [job(1)], on=manager(contention=contention))
    assert ended(records[1]) == (m.COMPLETED, 260, 100)
    assert (records[1].suspended_us, [stay[:2] for stay in records[1].intervals]) == (160, [(0, 260)])
    assert [now_us for _, now_us, _ in player.batches] == [0, 40, 200, 260]
    (suspended,) = player.inventories[2].running
    assert suspended == m.RunningJob(job(1).spec, 0, runs_on((0, 1, 1, 1)), 100, None, 40, 0)
    (resumed,) = player.inventories[3].running
    assert resumed == m.RunningJob(job(1).spec, 0, runs_on((0, 1, 1, 1)), 260, None, idle_us=160)
    assert managed.refused == 0


@both
def test_a_job_that_is_never_resumed_never_ends(contention: bool) -> None:
    _, managed, records = play(
        at_times(at_0=[start(1, limit_us=100)], at_40=[m.SuspendJob(1)]),
        [job(1, limit_us=100)],
        on=manager(contention=contention),
    )
    assert (records[1].state, records[1].end_us) == (SUSPENDED, None)
    assert managed.inventory().running[0].suspended_us == 40


@both
@pytest.mark.parametrize(
    ("run_us", "end"), [(150, (m.TIMEOUT, 260, 100)), (100, (m.COMPLETED, 260, 100)), (101, (m.TIMEOUT, 260, 100))]
)
def test_a_limit_is_put_off_by_a_suspension(run_us: int, end: tuple[str, int, int], contention: bool) -> None:
    answer = at_times(at_0=[start(1, limit_us=100)], at_40=[m.SuspendJob(1)], at_200=[m.ResumeJob(1)])
    player, _, records = play(answer, [job(1, 0, run_us, limit_us=100)], on=manager(contention=contention))
    assert ended(records[1]) == end
    assert records[1].limit_us == 100 + 160
    assert [inventory.running[0].limit_us for inventory in player.inventories[1:]] == [100, 100, 260]


@both
def test_a_job_may_be_suspended_repeatedly(contention: bool) -> None:
    answer = at_times(
        at_0=[start(1, limit_us=110)],
        at_10=[m.SuspendJob(1)],
        at_30=[m.ResumeJob(1), m.SuspendJob(1), m.ResumeJob(1)],
        at_50=[m.SuspendJob(1)],
        at_51=[m.ResumeJob(1)],
    )
    _, managed, records = play(answer, [job(1, 0, 100, limit_us=110)], on=manager(contention=contention))
    assert ended(records[1]) == (m.COMPLETED, 121, 100)
    assert (records[1].suspended_us, records[1].limit_us, managed.refused) == (21, 131, 0)


@both
def test_a_job_that_ends_at_this_instant_cannot_be_suspended(contention: bool) -> None:
    player, _, records = play(
        at_times(at_0=[start(1)], at_100=[m.SuspendJob(1), m.ReviseJob(1, 5, None)]),
        [job(1)],
        on=manager(contention=contention),
    )
    assert ended(records[1]) == (m.COMPLETED, 100, 100)
    refused = [event for event in player.batches[-1][2] if isinstance(event, m.ActionRefused)]
    assert [event.reason for event in refused] == ["job 1 does not run"] * 2
    assert [event.job_ids for event in refused] == [(), ()]


# ---------------------------------------------------------------- revise


@both
@pytest.mark.parametrize(
    ("run_us", "limit_us", "end"),
    [(150, 140, (m.TIMEOUT, 140, 140)), (150, 150, (m.COMPLETED, 150, 150)), (150, 100, (m.TIMEOUT, 100, 100)),
     (80, 500, (m.COMPLETED, 80, 80))],
)  # fmt: skip
def test_a_revision_moves_the_kill(run_us: int, limit_us: int, end: tuple[str, int, int], contention: bool) -> None:
    answer = at_times(at_0=[start(1, limit_us=100)], at_50=[m.ReviseJob(1, 77, limit_us)])
    player, _, records = play(answer, [job(1, 0, run_us, limit_us=90)], on=manager(contention=contention))
    assert ended(records[1]) == end
    assert (records[1].limit_us, records[1].estimate_us) == (limit_us, 77)
    assert player.inventories[2].running[0][3:5] == (77, limit_us)


@both
def test_a_revision_never_lowers_a_limit(contention: bool) -> None:
    answer = at_times(
        at_0=[start(1, limit_us=100)],
        at_20=[m.ReviseJob(1, 50, 140)],
        at_30=[m.ReviseJob(1, 50, 139), m.ReviseJob(1, 50, None), m.SuspendJob(1), m.ReviseJob(1, 50, 120)],
        at_40=[m.ResumeJob(1), m.ReviseJob(1, 50, 149)],
    )
    player, managed, records = play(answer, [job(1, 0, 500, limit_us=90)], on=manager(contention=contention))
    assert ended(records[1]) == (m.TIMEOUT, 150, 140)
    assert managed.refused == 4
    reasons = [e.reason for _, _, events in player.batches for e in events if isinstance(e, m.ActionRefused)]
    assert reasons[0] == "limit 139 us is below the job's own, 140 us"
    assert reasons[-1] == "limit 149 us is below the job's own, 150 us"  # it has grown by the suspension


@both
def test_a_suspended_job_may_be_revised(contention: bool) -> None:
    answer = at_times(
        at_0=[start(1, limit_us=100)],
        at_40=[m.SuspendJob(1)],
        at_90=[m.ReviseJob(1, 300, 120)],
        at_140=[m.ResumeJob(1)],
    )
    _, _, records = play(answer, [job(1, 0, 500, limit_us=100)], on=manager(contention=contention))
    assert ended(records[1]) == (m.TIMEOUT, 220, 120)
    assert (records[1].estimate_us, records[1].limit_us) == (300 + 100, 120 + 100)  # both wait


@both
def test_a_job_may_be_revised_at_the_instant_of_its_start(contention: bool) -> None:
    answer = at_times(at_30=[start(1, limit_us=100), m.ReviseJob(1, 200, 120)], at_31=[m.ReviseJob(1, 300, 130)])
    player, managed, records = play(answer, [job(1, 30, 500, limit_us=100)], on=manager(contention=contention))
    assert ended(records[1]) == (m.TIMEOUT, 160, 130)
    assert [now_us for _, now_us, _ in player.batches] == [30, 31, 160]
    assert managed.refused == 0


# ---------------------------------------------------------------- the end of a suspended job


@both
def test_a_suspended_job_may_be_cancelled(contention: bool) -> None:
    player, managed, records = play(
        at_times(at_0=[start(1)], at_40=[m.SuspendJob(1)], at_80=[start(2)]),
        [job(1), job(2)],
        on=manager(contention=contention),
        script=[Scripted(70, "cancel", 1)],
    )
    assert ended(records[1]) == (m.CANCELLED, 70, 40)
    assert records[1].suspended_us == 30
    assert player.batches[2][1:] == (70, (m.JobEnded(1, m.CANCELLED),))
    assert ended(records[2]) == (m.COMPLETED, 180, 100)  # on the same thread
    assert managed.refused == 0


@both
def test_a_suspended_job_may_lose_its_node(contention: bool) -> None:
    _, _, records = play(
        at_times(at_0=[start(1)], at_40=[m.SuspendJob(1)]),
        [job(1)],
        on=manager(contention=contention),
        script=[Scripted(70, "fail-node", 0)],
    )
    assert ended(records[1]) == (m.NODE_FAIL, 70, 40)


@both
def test_a_requeued_job_has_no_trace_of_its_suspension(contention: bool) -> None:
    answer = at_times(
        at_0=[start(1, limit_us=100)],
        at_20=[m.SuspendJob(1)],
        at_30=[m.ResumeJob(1)],
        at_40=[m.SuspendJob(1)],
        at_90=[start(1, 1, limit_us=100)],
    )
    player, managed, records = play(
        answer,
        [job(1, 0, 100, limit_us=100)],
        on=manager(contention=contention),
        script=[Scripted(70, "fail-node", 0)],
        requeue=True,
    )
    assert player.batches[4][2] == (m.NodeFailed(0), m.JobRequeued(1))
    assert player.inventories[5].pending == (m.PendingJob(job(1, 0, 100, limit_us=100).spec, False),)
    assert ended(records[1]) == (m.COMPLETED, 190, 100)
    assert (records[1].suspended_us, records[1].limit_us) == (0, 100)
    assert [stay[:2] for stay in records[1].intervals] == [(0, 70), (90, 190)]
    assert managed.refused == 0


@both
def test_a_suspended_job_keeps_its_threads_and_its_memory(contention: bool) -> None:
    player, managed, _ = play(
        at_times(
            at_0=[start(1), m.SuspendJob(1)],
            at_10=[start(2), start(2, mask=2), start(3, 1)],
            at_20=[m.RejectJob(2, "enough")],
        ),
        [job(1, memory_mb=60), job(2, memory_mb=60), job(3)],
        on=manager(contention=contention),
    )
    reasons = [e.reason for _, _, events in player.batches for e in events if isinstance(e, m.ActionRefused)]
    assert reasons == ["node 0 is not free there", "node 0 has 40 MiB free, 60 wanted"]
    assert list(managed.running) == [1]


# ---------------------------------------------------------------- neighbours


def pair_manager() -> Manager:
    """Return a manager of one node of two threads, on which jobs 1 and 2 slow each other down to 2/3."""
    usages: dict[int, m.UsageTuple] = {1: ("cpu", 500_000, 0, 500_000, 0), 2: ("cpu", 500_000, 500_000, 0, 0)}
    model = LomarcContention(LomarcModel(remainder=True, good_share_ppm=0), usages)
    return manager(node_class(1), model=model)


def test_a_suspended_job_of_a_pair_does_not_slow_the_other() -> None:
    """The remedy of the LOMARC paper, section 5.1: the pair is too slow, so one is stopped until the other has ended."""
    answer = at_times(
        at_0=[start(1, limit_us=150), start(2, mask=2, limit_us=150)],
        at_30=[m.SuspendJob(2)],
        at_110=[m.ResumeJob(2)],
    )
    _, _, records = play(answer, [job(1, 0, 100, limit_us=100), job(2, 0, 100, limit_us=100)], on=pair_manager())
    # 20 done by each by 30; job 1 does its other 80 alone, then job 2.
    assert ended(records[1]) == (m.COMPLETED, 110, 100)
    assert ended(records[2]) == (m.COMPLETED, 190, 100)
    assert (records[2].suspended_us, records[2].limit_us) == (80, 230)


def test_after_a_resumption_a_pair_is_slowed_again() -> None:
    answer = at_times(at_0=[start(1), start(2, mask=2)], at_30=[m.SuspendJob(2)], at_60=[m.ResumeJob(2)])
    _, _, records = play(answer, [job(1, 0, 100), job(2, 0, 100)], on=pair_manager())
    # By 60 job 1 has done 20 + 30; the other 50 take 75.
    assert ended(records[1]) == (m.COMPLETED, 135, 100)
    assert ended(records[2]) == (m.COMPLETED, 165, 100)


def test_a_job_requeued_and_started_again_at_one_instant_gets_an_end() -> None:
    """The slowdowns on the node are the same before and after, but the emulator must notice the change."""
    managed = pair_manager()
    for number in (1, 2):
        managed.accept(job(number, 0, 100))
    managed.commit(1, 0, [m.JobSubmitted(job(n, 0, 100).spec) for n in (1, 2)], [start(1), start(2, mask=2)])
    managed.settle(0)
    managed.commit(2, 60, [m.JobRequeued(2)], [start(2, mask=2)])
    managed.settle(60)
    managed.check()
    due = [managed.end_event(job_id, version) for _, _, job_id, version in managed.timeline.pop_due(10_000)]
    assert [event for event in due if event is not None] == [m.JobEnded(1, m.COMPLETED), m.JobEnded(2, m.COMPLETED)]
    assert (managed.jobs[1].done_us, managed.jobs[2].done_us) == (150, 210)
