"""Who is no candidate: a job that Slurm may start on a free node, until Slurm leaves it aside; and one of a range of nodes."""

from __future__ import annotations

import os
from typing import Any

import pytest
from tests.plugin.slurm.guests.test_seating import NOW_S, Bench, Slurm, hosted

from cosched_plugin.common.errors import UsageError
from cosched_plugin.protocol.messages import JobSpec
from cosched_plugin.slurm.adapter import only_placing
from cosched_plugin.slurm.guests import Host, why_not
from cosched_plugin.slurm.site_file import Site
from cosched_plugin.slurm.transport import Reply


def queue() -> Slurm:
    """Have a host, a free node, and a job for one node."""
    slurm = hosted()
    slurm.states["n1"] = ""
    return slurm


def test_a_job_with_room_on_a_free_node_is_asked_when_slurm_has_not_started_it_there_in_time() -> None:
    slurm = queue()
    slurm.job(5)  # for whom there is none
    bench = Bench(slurm)
    assert slurm.changes == [(5, "guest", "n0")]
    assert bench.said("no-guest") == ["job 4 is no guest: there are free nodes for it"]
    slurm.begin(5)
    slurm.job(2, "R", "n2", time_limit=60)
    assert bench.turn(30) == []
    assert bench.turn(6) == [(4, "guest", "n2")]
    assert bench.turn(10) == []  # nor is it put back


@pytest.mark.parametrize(("starts_s", "asked"), [(500, True), (700, False), (0, False)])
def test_a_free_node_that_is_kept_for_a_job_ahead_is_open_to_those_that_end_before(starts_s: int, asked: bool) -> None:
    slurm = queue()
    slurm.states["n1"] = "PLANNED"
    slurm.job(
        9,
        partition="batch",
        priority=200_000,
        start_time=int(NOW_S) + starts_s if starts_s else 0,
        tasks=16,
        node_count=4,
    )
    Bench(slurm)
    assert slurm.changes == ([(4, "guest", "n0")] if asked else [])


def test_an_asked_job_is_put_back_when_a_node_stays_free_for_it() -> None:
    slurm = queue()
    del slurm.states["n1"]
    slurm.job(2, "R", "n1", shared=["none"])
    bench = Bench(slurm)
    assert slurm.changes == [(4, "guest", "n0")]
    slurm.end(2)
    assert bench.turn() == []
    assert bench.turn(2) == [(4, "co", "")]
    assert bench.said("put-back") == ["job 4 is back: n1 is free for it"]
    assert bench.turn(10) == []


@pytest.mark.parametrize("most", [3, 0])  # before and after a restart of slurmctld
@pytest.mark.parametrize(("least", "names"), [(3, "n0,n1,n2"), (1, None)])
def test_a_job_of_several_nodes_is_known_after_a_restart_of_slurmctld(most: int, least: int, names: str | None) -> None:
    slurm = Slurm()
    slurm.job(1, "R", "n[0-2]", time_limit=60)
    slurm.job(
        4, node_count=3, max_nodes=most, tasks=4, cpus=4, tasks_per_node=0, tres_req_str=f"cpu=4,node={least},billing=4"
    )
    Bench(slurm)
    assert slurm.changes == ([] if names is None else [(4, "guest", names)])


def test_nodes_that_the_partition_of_guests_has_lost_are_told_once_and_take_none() -> None:
    slurm = hosted()
    slurm.partitions["n0"] = ["co"]
    bench = Bench(slurm)
    slurm.job(5)
    bench.turn()
    assert slurm.changes == []
    assert bench.said("lost-nodes") == ["partition guest of guests has no node n0, so no guest runs there"]


LEFT = [
    ("n0", "cosched: a guest on n0, 1.25 times as slow as alone", True),
    ("n0,n2", "cosched: a guest on n2,n0, beside job 1", True),
    ("n1", "cosched: a guest on n0, beside job 1", False),
    ("n0", "cosched: no guest: it was held", False),
    ("", "cosched: a guest on n0, beside job 1", False),
]


@pytest.mark.parametrize(("nodes", "remark", "freed"), LEFT)
def test_a_list_of_nodes_that_an_ask_has_left_behind_is_freed(nodes: str, remark: str, freed: bool) -> None:
    slurm = Slurm()
    slurm.job(3, "R", "n[0-3]", shared=["none"])
    slurm.job(4, required_nodes=nodes, admin_comment=remark)
    bench = Bench(slurm)
    assert slurm.changes == ([(4, "co", "")] if freed else [])
    why = "it still has the list of nodes of an earlier request to be a guest"
    assert bench.said("orphan") == ([f"job 4 is back: {why}"] if freed else [])


def test_who_else_asks_for_guests_is_told() -> None:
    slurm = hosted(name="c")
    bench = Bench(slurm)
    slurm.jobs[4] |= {"partition": "guest", "required_nodes": "n0"}
    assert bench.turn() == [(4, "co", "")]
    assert bench.said("orphan")[0].endswith(
        "where cosched had not put it: does another cosched-plugin run, on another machine?"
    )


def test_a_guest_that_slurm_has_requeued_is_put_back_as_that() -> None:
    slurm = Slurm()
    slurm.job(4, partition="guest", required_nodes="n0", restart_cnt=1)
    assert Bench(slurm).said("orphan") == ["job 4 is back: Slurm has requeued it"]


def test_what_is_cancelled_before_it_begins_is_told() -> None:
    slurm = hosted()
    bench = Bench(slurm)
    slurm.jobs[4] |= {"job_state": "CANCELLED", "end_time": int(slurm.now_s)}
    bench.turn()
    assert bench.said("cancelled") == ["job 4 was cancelled before it became a guest"]


def test_a_guest_whose_host_ends_as_it_begins_is_written_as_alone() -> None:
    slurm = hosted()
    bench = Bench(slurm)
    slurm.begin(4)
    slurm.end(1)
    bench.turn()
    assert bench.remarks[-1] == (4, "a guest on n0, alone: its host has ended")


def test_only_what_was_put_back_counts_as_that() -> None:
    slurm = hosted()
    bench = Bench(slurm)
    slurm.answers = [Reply(500, '{"errors": [{"error": "Access denied", "error_number": 2}]}')]
    bench.seating.end()
    (gains,) = [line for line in bench.lines if line["event"] == "gains"]
    assert (gains["put_back"], gains["orphans"]) == (0, 0)


def test_two_guests_together_are_told_once_and_each_node_counts_once() -> None:
    slurm = Slurm()
    slurm.job(4, "R", "n[0-1]", partition="guest")
    slurm.job(5, "R", "n[1-2]", partition="guest")
    slurm.job(6, "R", "n1", name="b", start_time=int(NOW_S) + 1)
    bench = Bench(slurm)
    bench.turn(10)
    bench.seating.end()
    assert len(bench.said("blind-pair")) == 3
    (gains,) = [line for line in bench.lines if line["event"] == "gains"]
    assert gains["pair_node_s"] == pytest.approx(10, abs=1)


def array(slurm: Slurm, tasks: str) -> None:
    slurm.job(7, array_job_id=7, array_task_string=tasks, name="c")


def test_of_an_array_one_task_is_told_why_it_is_no_guest() -> None:
    slurm = Slurm()
    slurm.job(1, "R", "n0", time_limit=60)
    array(slurm, "0-99")
    bench = Bench(slurm)
    for _ in range(3):
        slurm.jobs[1]["comment"] = str(slurm.now_s)
        bench.turn(40)
    assert bench.said("no-guest") == ["job 7_0 is no guest: its slowdown beside the running jobs is unknown"]


@pytest.mark.parametrize(("more", "left"), [({}, 1), ({"state_reason": "JobHeldUser", "priority": 0}, 2)])
def test_of_an_array_with_a_limit_no_more_tasks_are_candidates(more: dict[str, Any], left: int) -> None:
    slurm = Slurm()
    slurm.job(1, "R", "n[0-3]", shared=["none"])
    array(slurm, "2-9%3")
    slurm.job(8, "R", "n0", array_job_id=7, array_task_id=0)
    slurm.job(9, array_job_id=7, array_task_id=1, **more)
    bench = Bench(slurm)
    assert sum(number >> 32 == 7 and bool(job.waiting_tasks) for number, job in bench.cluster.records.items()) == left


def test_one_process_of_a_machine_places_jobs_of_a_partition() -> None:
    one, other = [Site().with_partitions((), [f"{name}:{name}-guest"]) for name in ("co", "another")]
    slurm = {"ClusterName": "of-a-test", "SlurmctldPort": "1"}
    with only_placing(one, slurm), only_placing(other, slurm), only_placing(one, slurm | {"SlurmctldPort": "2"}):
        for name in ("co", "co-guest"):  # also one with another state, or that enforces
            words = f"process {os.getpid()} places jobs of partition {name} of cluster of-a-test already"
            with pytest.raises(UsageError, match=words), only_placing(Site().with_partitions([name], ()), slurm):
                pass
    with only_placing(one, slurm):  # it is free again
        pass


@pytest.mark.parametrize(
    ("why", "hosts", "own", "other"),
    [
        ("no running job has a node", [], 1.0, 1.0),
        ("its slowdown beside the running jobs is unknown", [(1_000, 4)], float("inf"), 1.0),
        ("its slowdown beside the running jobs is unknown", [(1_000, 4)], 1.0, float("inf")),
        ("slowed down, it would outlast", [(249, 4)], 1.5, 1.0),  # now 100, and a limit of 100
        ("too few cores", [(250, 1), (100, 4)], 1.5, 1.0),
        ("the belief expects no gain", [(250, 1), (250, 1)], 1.5, 1.0),
    ],
)
def test_why_no_host_takes_a_candidate(why: str, hosts: list[tuple[int, int]], own: float, other: float) -> None:
    """The first that no host meets: hosts of (end of the limit, open threads), slowdowns of the candidate and of its host."""
    job = JobSpec(1, 0, 2, 100, 100)
    running = [Host(job._replace(id=2 + place), last_us, threads) for place, (last_us, threads) in enumerate(hosts)]
    assert why in why_not(job, running, lambda one, _: own if one is job else other, 100)
    assert "alone" in why_not(job._replace(exclusive=True), running, lambda *_: 1.0, 100)
