"""Who is no candidate: a job that Slurm may start on a free node, until Slurm leaves it aside; and one of a range of nodes."""

from __future__ import annotations

import pytest
from tests.plugin.slurm.guests.test_seating import NOW_S, Bench, Slurm


def queue() -> Slurm:
    """Have a host, a free node, and a job for one node."""
    slurm = Slurm()
    slurm.job(1, "R", "n0", time_limit=60)
    slurm.job(4)
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
