"""Jobs suspended to disk: the freed resources, their return, and their ends, kills and records."""

from __future__ import annotations

import pytest
from tests.emulator.parts import BELIEF, at_times, job, manager, node_class, play, start
from tests.runs import layers_on, runs_on

from cosched_emulator.errors import InvariantError
from cosched_emulator.manager.contended_nodes import ContendedNodes
from cosched_emulator.manager.managed_job import SUSPENDED
from cosched_emulator.manager.manager import Manager
from cosched_emulator.manager.record import JobRecord, OnDisk
from cosched_emulator.scenario.planned_events import Scripted
from cosched_hwmodel.bandwidth.bandwidth_model import BandwidthModel
from cosched_hwmodel.composition import composition_named
from cosched_hwmodel.lomarc.lomarc_model import LomarcContention, LomarcModel
from cosched_plugin.common.allocation import Machine
from cosched_plugin.protocol import messages as m

both = pytest.mark.parametrize("contention", [False, True])


def to_disk(job_id: int) -> m.SuspendJob:
    return m.SuspendJob(job_id, to_disk=True)


def ended(record: JobRecord) -> tuple[str, int | None, int]:
    return record.state, record.end_us, record.work_us


def stays(record: JobRecord) -> list[tuple[int, int]]:
    return [stay[:2] for stay in record.intervals]


def reasons(batches: list[tuple[int, int, tuple[m.Event, ...]]]) -> list[str]:
    return [event.reason for _, _, events in batches for event in events if isinstance(event, m.ActionRefused)]


# ---------------------------------------------------------------- suspension and return


@both
def test_a_job_on_disk_leaves_its_nodes_to_another(contention: bool) -> None:
    answer = at_times(
        at_0=[start(1, limit_us=150), start(2, 1)],
        at_40=[to_disk(1), start(3)],
        at_140=[m.ResumeJob(1)],
    )
    player, managed, records = play(
        answer,
        [job(1, limit_us=150, memory_mb=70), job(2, run_us=300), job(3, memory_mb=70)],
        on=manager(node_class(swap_mb=70), contention=contention, resume_us=25),
    )
    assert managed.refused == 0
    assert ended(records[3]) == (m.COMPLETED, 140, 100)  # on the same thread, in the freed memory
    assert ended(records[1]) == (m.COMPLETED, 225, 100)  # 40 done, 100 on disk, 25 for coming back, 60 to do
    assert stays(records[1]) == [(0, 40), (140, 225)]
    assert [stay.resumed for stay in records[1].intervals] == [False, True]
    assert records[1].disk == (OnDisk(40, 140),)
    assert (records[1].suspended_us, records[1].limit_us, records[1].estimate_us) == (125, 150 + 125, 100 + 125)
    assert (records[1].starts, records[1].left_us) == (1, 225)
    on_disk = player.inventories[2].running[0]
    assert on_disk == m.RunningJob(on_disk.spec, 0, runs_on((0, 1, 1, 1)), 100, 150, 40, on_disk=True)
    back = player.inventories[3].running[0]
    assert back == m.RunningJob(back.spec, 0, runs_on((0, 1, 1, 1)), 225, 275, idle_us=125, ready_us=165)
    assert {inventory.resume_us for inventory in player.inventories} == {25}


@both
def test_repeated_suspensions_at_one_instant(contention: bool) -> None:
    """Each return has a new delay, but never a longer one than the rest of the last."""
    answer = at_times(
        at_0=[start(1), to_disk(1), m.ResumeJob(1)],
        at_30=[to_disk(1), m.ResumeJob(1), to_disk(1), m.ResumeJob(1)],
    )
    _, managed, records = play(answer, [job(1)], on=manager(contention=contention, resume_us=10))
    assert managed.refused == 0
    assert ended(records[1]) == (m.COMPLETED, 10 + 10 + 100, 100)
    assert stays(records[1]) == [(0, 0), (0, 30), (30, 30), (30, 120)]
    assert records[1].disk == (OnDisk(0, 0), OnDisk(30, 30), OnDisk(30, 30))
    assert (records[1].starts, [stay[0] for stay in records[1].last_stays]) == (1, [0, 0, 30, 30])


@both
def test_a_suspension_during_the_return_adds_no_second_delay(contention: bool) -> None:
    """The rest of a return is not added twice: a suspension to disk restarts it, a suspension on the nodes lets it continue."""
    answer = at_times(
        at_0=[start(1, limit_us=200)],
        at_40=[to_disk(1)],
        at_50=[m.ResumeJob(1)],  # ready at 80
        at_60=[to_disk(1)],
        at_65=[m.ResumeJob(1)],  # ready at 95
        at_70=[m.SuspendJob(1)],
        at_75=[m.ResumeJob(1)],  # this gains nothing
        at_90=[m.SuspendJob(1)],
        at_100=[m.ResumeJob(1)],
    )
    player, _, records = play(answer, [job(1, limit_us=200)], on=manager(contention=contention, resume_us=30))
    told = [inventory.running[0] for inventory in player.inventories[1:]]
    assert [(each.idle_us, each.ready_us, each.limit_us, each.estimate_us) for each in told] == [
        (idle_us, ready_us, 200 + idle_us, 100 + idle_us)
        for idle_us, ready_us in [(0, 0), (0, 0), (40, 80), (40, 80), (55, 95), (55, 95), (55, 95), (55, 95), (60, 95)]
    ]
    assert ended(records[1]) == (m.COMPLETED, 160, 100)
    assert records[1].suspended_us == 60
    assert stays(records[1]) == [(0, 40), (50, 60), (65, 160)]


@both
@pytest.mark.parametrize(("again", "end_us"), [(m.SuspendJob(1), 160), (to_disk(1), 175)])
def test_a_suspension_does_not_shorten_the_return_from_disk(again: m.SuspendJob, end_us: int, contention: bool) -> None:
    answer = at_times(
        at_0=[start(1, limit_us=100)], at_40=[to_disk(1)], at_50=[m.ResumeJob(1)], at_65=[again, m.ResumeJob(1)]
    )  # ready at 100, or at 115
    _, _, records = play(answer, [job(1, limit_us=100)], on=manager(contention=contention, resume_us=50))
    assert ended(records[1]) == (m.COMPLETED, end_us, 100)


@both
def test_a_job_that_was_suspended_on_its_nodes_pays_for_the_switch(contention: bool) -> None:
    """It holds its thread and its memory, and its limit waits; a second suspension during the switch begins it anew."""
    answer = at_times(
        at_0=[start(1, limit_us=100), start(2, 1)],
        at_40=[m.SuspendJob(1)],
        at_50=[m.ResumeJob(1)],  # ready at 65
        at_60=[m.SuspendJob(1)],
        at_62=[m.ResumeJob(1)],  # ready at 77
    )
    jobs = [job(1, limit_us=100, memory_mb=70), job(2, run_us=300)]
    player, managed, records = play(answer, jobs, on=manager(node_class(), contention=contention, switch_us=15))
    assert managed.refused == 0
    assert ended(records[1]) == (m.COMPLETED, 137, 100)
    assert (records[1].suspended_us, records[1].limit_us) == (37, 137)
    assert [inventory.running[0].ready_us for inventory in player.inventories[2:6]] == [0, 65, 65, 77]


@both
@pytest.mark.parametrize(("memory_mb", "end_us"), [(0, 175), (70, 175 + 14), (71, 175 + 15)])
def test_the_memory_of_a_job_is_written_to_disk_and_read_back(memory_mb: int, end_us: int, contention: bool) -> None:
    """Twice its memory at 10 TB/s, a started microsecond counts as one."""
    answer = at_times(at_0=[start(1, limit_us=150)], at_40=[to_disk(1)], at_90=[m.ResumeJob(1)])
    site = manager(node_class(swap_mb=71), contention=contention, resume_us=25, image_mbs=10_000_000)
    _, managed, records = play(answer, [job(1, limit_us=150, memory_mb=memory_mb)], on=site)
    assert managed.refused == 0
    assert ended(records[1]) == (m.COMPLETED, end_us, 100)


@both
def test_a_job_may_be_revised_during_its_return(contention: bool) -> None:
    answer = at_times(
        at_0=[start(1), to_disk(1), m.ResumeJob(1)],
        at_10=[m.ReviseJob(1, 5, None)],
        at_20=[to_disk(1)],
        at_30=[m.ResumeJob(1)],
    )
    player, _, _ = play(answer, [job(1)], on=manager(contention=contention, resume_us=1000))
    assert [inventory.running[0].estimate_us for inventory in player.inventories[1:]] == [1100, 5, 5, 5 + 30]


@both
@pytest.mark.parametrize(("run_us", "state"), [(60, m.COMPLETED), (61, m.TIMEOUT)])
def test_a_limit_is_put_off_on_disk_and_during_the_return(run_us: int, state: str, contention: bool) -> None:
    answer = at_times(at_0=[start(1, limit_us=60)], at_40=[to_disk(1)], at_500=[m.ResumeJob(1)])
    _, _, records = play(answer, [job(1, 0, run_us, limit_us=60)], on=manager(contention=contention, resume_us=7))
    assert ended(records[1]) == (state, 527, 60)
    assert (records[1].limit_us, records[1].suspended_us) == (527, 467)


@both
def test_a_job_on_disk_may_be_revised(contention: bool) -> None:
    answer = at_times(
        at_0=[start(1, limit_us=60)],
        at_40=[to_disk(1)],
        at_50=[m.ReviseJob(1, 80, 59)],
        at_60=[m.ReviseJob(1, 90, 70)],
        at_100=[m.ResumeJob(1), m.ReviseJob(1, 300, 140)],
    )
    player, _, records = play(answer, [job(1, 0, 500, limit_us=60)], on=manager(contention=contention, resume_us=5))
    assert reasons(player.batches) == ["limit 59 us is below the job's own, 60 us"]
    assert ended(records[1]) == (m.TIMEOUT, 140, 75)  # 70 + 65 had been granted, then 140
    assert records[1].estimate_us == 300


@both
def test_a_job_that_ends_at_the_instant_of_its_suspension_completes(contention: bool) -> None:
    player, _, records = play(
        at_times(at_0=[start(1)], at_100=[to_disk(1)]), [job(1)], on=manager(contention=contention)
    )
    assert ended(records[1]) == (m.COMPLETED, 100, 100)
    assert reasons(player.batches) == ["job 1 does not run"]
    assert records[1].disk == ()


@both
def test_a_suspension_on_its_nodes_is_recorded_until_the_job_goes_on_or_leaves_them(contention: bool) -> None:
    """Job 1 goes on twice, job 2 is lost with its node, job 3 is still suspended when the run ends."""
    answer = at_times(
        at_0=[start(1), start(2, 1), start(3, 2)],
        at_10=[m.SuspendJob(1), m.SuspendJob(2), m.SuspendJob(3)],
        at_20=[m.ResumeJob(1), m.SuspendJob(1)],
        at_30=[m.ResumeJob(1), to_disk(1)],
    )
    _, _, records = play(
        answer,
        [job(1), job(2), job(3)],
        script=[Scripted(25, "fail-node", 1)],
        on=manager(node_class(3), contention=contention),
    )
    assert {number: record.suspensions for number, record in records.items()} == {
        1: ((10, 20), (20, 30)),
        2: ((10, 25),),
        3: ((10, None),),
    }
    assert records[1].disk == (OnDisk(30, None),)


# ---------------------------------------------------------------- swap space and memory


@both
def test_swap_space_is_taken_and_given_back(contention: bool) -> None:
    answer = at_times(
        at_0=[start(1), start(2, mask=2), start(3, 1)],
        at_10=[to_disk(1), to_disk(2), to_disk(3)],
        at_20=[m.ResumeJob(1), to_disk(2)],
        at_30=[to_disk(1), m.ResumeJob(2), to_disk(1)],
    )
    player, managed, records = play(
        answer,
        [job(1, memory_mb=40), job(2, memory_mb=30), job(3)],
        on=manager(node_class(1, swap_mb=60), node_class(1), contention=contention),
    )
    full = "node 0 has 20 MiB of swap space free, 30 wanted"
    assert reasons(player.batches) == [full, "node 0 has 30 MiB of swap space free, 40 wanted"]
    assert (records[1].state, stays(records[1])) == (SUSPENDED, [(0, 10), (20, 30)])
    assert records[1].disk == (OnDisk(10, 20), OnDisk(30, None))
    assert (records[1].work_us, records[1].left_us, records[1].starts) == (20, 30, 1)
    assert records[3].disk == (OnDisk(10, None),)  # a job without memory needs no swap space
    assert ended(records[2]) == (m.COMPLETED, 110, 100)
    assert managed._slots.base.free_swap_mb == [20, 0]


@both
@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (start(2), "node 0 is not free there"),
        (start(2, mask=2), "node 0 has 40 MiB free, 50 wanted"),
    ],
)
def test_a_job_returns_only_when_its_threads_and_memory_are_free(
    other: m.StartJob, reason: str, contention: bool
) -> None:
    answer = at_times(
        at_0=[start(1)],
        at_40=[to_disk(1), other],
        at_50=[m.ResumeJob(1)],
        at_140=[m.ResumeJob(1)],
    )
    player, _, records = play(
        answer, [job(1, memory_mb=50), job(2, memory_mb=60)], on=manager(node_class(swap_mb=50), contention=contention)
    )
    assert reasons(player.batches) == [reason]
    assert ended(records[1]) == (m.COMPLETED, 200, 100)


@both
def test_only_running_jobs_are_suspended_to_disk_and_once(contention: bool) -> None:
    answer = at_times(
        at_0=[start(1)],
        at_10=[
            to_disk(2),
            to_disk(3),
            m.SuspendJob(1),
            to_disk(1),
            m.ResumeJob(1),
            to_disk(1),
            m.SuspendJob(1),
            to_disk(1),
        ],
        at_20=[m.ResumeJob(1), m.ResumeJob(1)],
    )
    player, _, records = play(answer, [job(1), job(2)], on=manager(contention=contention))
    assert reasons(player.batches) == [
        *("job 2 does not run", "job 3 does not run", "job 1 does not run"),
        *("job 1 does not run", "job 1 does not run", "job 1 is not suspended"),
    ]
    assert ended(records[1]) == (m.COMPLETED, 110, 100)


# ---------------------------------------------------------------- the end of a job on disk


@both
def test_a_job_on_disk_may_be_cancelled(contention: bool) -> None:
    _, managed, records = play(
        at_times(at_0=[start(1)], at_40=[to_disk(1), start(2)], at_90=[start(3, mask=2)]),
        [job(1, memory_mb=50), job(2), job(3, memory_mb=50)],
        on=manager(node_class(swap_mb=50), contention=contention),
        script=[Scripted(70, "cancel", 1)],
    )
    assert ended(records[1]) == (m.CANCELLED, 70, 40)
    assert (stays(records[1]), records[1].disk) == ([(0, 40)], (OnDisk(40, 70),))
    assert (records[1].suspended_us, records[1].left_us) == (30, 70)
    assert (managed._slots.base.free_swap_mb, managed.refused) == ([50, 50], 0)
    assert ended(records[2]) == (m.COMPLETED, 140, 100)


@both
def test_a_job_may_be_cancelled_during_its_return(contention: bool) -> None:
    _, _, records = play(
        at_times(at_0=[start(1)], at_40=[to_disk(1)], at_50=[m.ResumeJob(1)]),
        [job(1)],
        on=manager(contention=contention, resume_us=30),
        script=[Scripted(60, "cancel", 1)],
    )
    assert ended(records[1]) == (m.CANCELLED, 60, 40)
    assert (stays(records[1]), records[1].suspended_us) == ([(0, 40), (50, 60)], 20)


@both
@pytest.mark.parametrize("requeue", [False, True])
def test_an_image_is_lost_with_its_node(requeue: bool, contention: bool) -> None:
    """Job 1 has half of its image on the node that fails, where job 2 runs by then."""
    answer = at_times(
        at_0=[start(1, mask=1, nodes=2)],
        at_40=[to_disk(1), start(2)],
        at_95=[start(1, mask=2, nodes=2)] if requeue else [],
    )
    player, managed, records = play(
        answer,
        [job(1, processes=2, memory_mb=50), job(2)],
        on=manager(node_class(swap_mb=50), contention=contention),
        script=[Scripted(70, "fail-node", 0), Scripted(90, "return-node", 0)],
        requeue=requeue,
    )
    lost = (m.JobRequeued(1), m.JobRequeued(2)) if requeue else (m.JobEnded(1, m.NODE_FAIL), m.JobEnded(2, m.NODE_FAIL))
    assert player.batches[2][2] == (m.NodeFailed(0), *lost)
    assert managed._slots.base.free_swap_mb == [50, 50]
    assert managed._slots.base.free == (0b11, 0b11)
    assert managed.refused == 0
    assert records[1].disk == (OnDisk(40, 70),)
    if requeue:
        assert ended(records[1]) == (m.COMPLETED, 195, 100)
        assert stays(records[1]) == [(0, 40), (95, 195)]
        assert (records[1].starts, stays(records[1])[1:]) == (2, [stay[:2] for stay in records[1].last_stays])
        assert records[1].suspended_us == 0
    else:
        assert ended(records[1]) == (m.NODE_FAIL, 70, 40)


def test_a_manager_may_keep_an_image_on_a_node_that_is_drained() -> None:
    """The emulator's nodes lose their images when they fail; a manager that only drains a node keeps them."""
    managed = manager(node_class(1, swap_mb=50))
    for number in (1, 2):
        managed.accept(job(number, memory_mb=50))
    submitted = [m.JobSubmitted(job(number, memory_mb=50).spec) for number in (1, 2)]
    assert managed.commit(1, 0, submitted, (start(1), to_disk(1))) == []
    (refused,) = managed.commit(2, 10, (m.NodeFailed(0),), (m.ResumeJob(1),))
    assert isinstance(refused, m.ActionRefused)
    assert refused.reason == "node 0 is not free there"
    managed.check()
    assert managed.commit(3, 20, (m.NodeReturned(0),), (start(2),)) == []  # on the threads of job 1
    managed.check()
    (again,) = managed.commit(4, 30, (), (m.ResumeJob(1),))
    assert isinstance(again, m.ActionRefused)
    assert managed.commit(5, 40, (m.JobEnded(2, m.FAILED),), (m.ResumeJob(1),)) == []
    managed.check()
    assert managed.inventory().running[0].ready_us == 40


# ---------------------------------------------------------------- neighbours


def pair_manager(resume_us: int, measure_after_us: int | None = None) -> Manager:
    """Return a manager of one node of two threads, on which jobs 1 and 2 slow each other down to 2/3."""
    usages: dict[int, m.UsageTuple] = {1: ("cpu", 500_000, 0, 500_000, 0), 2: ("cpu", 500_000, 500_000, 0, 0)}
    model = LomarcContention(LomarcModel(remainder=True, good_share_ppm=0), usages)
    return manager(node_class(1), model=model, measure_after_us=measure_after_us, resume_us=resume_us)


def test_a_job_on_disk_slows_no_job_and_a_returning_one_does() -> None:
    answer = at_times(at_0=[start(1), start(2, mask=2)], at_30=[to_disk(2)], at_60=[m.ResumeJob(2)])
    _, _, records = play(answer, [job(1), job(2, 0, 200)], on=pair_manager(resume_us=15))
    # By 60 job 1 has done 20 + 30, and needs 75 more beside job 2, which has 180 to do from 75 on: 40 of it by 135.
    assert ended(records[1]) == (m.COMPLETED, 135, 100)
    assert ended(records[2]) == (m.COMPLETED, 135 + 140, 200)


def test_neighbours_start_and_stop_during_a_return() -> None:
    answer = at_times(
        at_0=[start(1), to_disk(1), m.ResumeJob(1)],  # ready at 60
        at_10=[start(2, mask=2)],
        at_40=[to_disk(2)],
        at_90=[m.ResumeJob(2)],  # ready at 150
    )
    _, _, records = play(answer, [job(1), job(2)], on=pair_manager(resume_us=60))
    # Job 1 works from 60, 30 alone; the other 70 take 105 beside job 2, which by then has done 20 and 30 more.
    assert ended(records[1]) == (m.COMPLETED, 195, 100)
    assert ended(records[2]) == (m.COMPLETED, 195 + 50, 100)


def test_no_slowdown_is_measured_during_a_return() -> None:
    answer = at_times(at_0=[start(1), start(2, mask=2)], at_30=[to_disk(2)], at_60=[m.ResumeJob(2)])
    player, _, _ = play(answer, [job(1), job(2, 0, 200)], on=pair_manager(resume_us=15, measure_after_us=10))
    measured = [
        (now_us, event.job_id)
        for _, now_us, events in player.batches
        for event in events
        if isinstance(event, m.ProgressMeasured)
    ]
    assert measured == [(10, 1), (10, 2), (70, 1), (85, 2)]
    known = {inventory.now_us: [job.measured_ppm for job in inventory.running] for inventory in player.inventories}
    assert known[30] == [0, 0]
    assert known[60] == [0, 0]
    assert known[85] == [1_500_000, 1_500_000]


def test_a_cluster_returns_the_work_of_a_suspended_job() -> None:
    cluster = ContendedNodes(
        Machine((node_class(1),)), BandwidthModel(("memory_bandwidth",)), composition_named("paper")
    )
    cluster.seat(1, runs_on((0, 1, 1, 1)), 100, (12, 0, 0), 0)
    assert cluster.settle(0) == [(1, 200)]
    assert cluster.suspend(1, 50) == 25
    cluster.resume(1, 70, 30)
    assert cluster.settle(70) == [(1, 250)]
    assert cluster.suspend(1, 80) == 25  # it had not started to work
    cluster.resume(1, 90)
    assert cluster.settle(90) == [(1, 240)]
    cluster.check()
    assert cluster.leave(1, 190) == 75


# ---------------------------------------------------------------- invariants


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        ("swap", "free swap space differs"),
        ("memory", "free memory differs"),
        ("state", "job 1 is RUNNING, and was suspended at 5"),
        ("place", "free threads differ"),
    ],
)
def test_check_finds_what_is_wrong_with_a_job_on_disk(damage: str, text: str) -> None:
    managed = Manager((node_class(1, swap_mb=10),), BELIEF, None)
    managed.accept(job(1, memory_mb=10))
    managed.commit(1, 5, [m.JobSubmitted(job(1, memory_mb=10).spec)], [start(1), to_disk(1)])
    managed.check()
    match damage:
        case "swap":
            managed._slots.base.free_swap_mb[0] += 1
        case "memory":
            managed._slots.base.free_memory_mb[0] -= 1
        case "state":
            managed.jobs[1].state = "RUNNING"
        case _:
            managed._slots.base.free = layers_on(0, 1)
    with pytest.raises(InvariantError, match=text):
        managed.check()
