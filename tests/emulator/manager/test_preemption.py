"""Jobs suspended to disk: the freed resources, their return, and their ends, kills and records."""

from __future__ import annotations

import pytest
from tests.emulator.parts import BELIEF, at_times, job, manager, node_class, play, start
from tests.runs import layers_on

from cosched_emulator.errors import InvariantError
from cosched_emulator.manager.managed_job import SUSPENDED
from cosched_emulator.manager.manager import Manager
from cosched_emulator.manager.record import JobRecord, OnDisk
from cosched_emulator.scenario.planned_events import Scripted
from cosched_hwmodel.lomarc.lomarc_model import LomarcContention, LomarcModel
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


# ---------------------------------------------------------------- the end of a job on disk


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
