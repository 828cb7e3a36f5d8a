"""Measured progress: when the manager reports the slowdown of jobs, and when a measurement becomes void."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.emulator.parts import at_times, job, manager, node_class, play, start
from tests.runs import runs_on

from cosched_emulator.manager.manager import Manager
from cosched_emulator.scenario.planned_events import Scripted
from cosched_hwmodel.lomarc.lomarc_model import LomarcContention, LomarcModel
from cosched_plugin.protocol import messages as m

# Jobs 1 and 2 slow each other down to 2/3, jobs 1 and 3 to 1/2; job 4 is unknown and slows no other.
USAGES: dict[int, m.UsageTuple] = {
    1: ("cpu", 500_000, 0, 500_000, 0),
    2: ("cpu", 500_000, 500_000, 0, 0),
    3: ("cpu", 500_000, 0, 500_000, 0),
}


def measuring(nodes: int = 2, after_us: int | None = 50, above_ppm: int = 1_000_000) -> Manager:
    model = LomarcContention(LomarcModel(remainder=True, good_share_ppm=0), USAGES)
    return manager(node_class(nodes), model=model, measure_after_us=after_us, measure_above_ppm=above_ppm)


def told(batches: Sequence[tuple[int, int, tuple[m.Event, ...]]]) -> list[tuple[int, int, int]]:
    """Return (instant, job, slowdown in millionths) of all measurements."""
    return [
        (now_us, event.job_id, event.slowdown_ppm)
        for _, now_us, events in batches
        for event in events
        if isinstance(event, m.ProgressMeasured)
    ]


PAIR = [start(1), start(2, mask=2)]


def test_a_pair_is_measured_after_a_while_and_once() -> None:
    player, managed, records = play(at_times(at_10=PAIR), [job(2, 10, 100), job(1, 10, 100)], on=measuring())
    assert told(player.batches) == [(60, 1, 1_500_000), (60, 2, 1_500_000)]
    assert [len(events) for _, _, events in player.batches] == [2, 2, 2]  # both in one batch, by id
    assert [running.measured_ppm for running in player.inventories[2].running] == [1_500_000] * 2
    assert [running.measured_ppm for running in player.inventories[1].running] == [0, 0]
    assert [record.end_us for record in records.values()] == [160, 160]
    assert managed.refused == 0


@pytest.mark.parametrize(
    ("after_us", "above_ppm", "expected"),
    [
        (50, 1_499_999, [(50, 1, 1_500_000), (50, 2, 1_500_000)]),
        (50, 1_500_000, []),  # above, not at
        (149, 1_000_000, [(149, 1, 1_500_000), (149, 2, 1_500_000)]),
        (150, 1_000_000, []),  # they have ended
        (None, 1_000_000, []),
    ],
)
def test_measurements_are_made_after_a_time_and_above_a_slowdown(
    after_us: int | None, above_ppm: int, expected: list[tuple[int, int, int]]
) -> None:
    player, *_ = play(at_times(at_0=PAIR), [job(1), job(2)], on=measuring(after_us=after_us, above_ppm=above_ppm))
    assert told(player.batches) == expected


def test_a_job_that_is_not_slowed_is_not_reported() -> None:
    player, *_ = play(at_times(at_0=[start(1), start(4, mask=2)]), [job(1), job(4)], on=measuring())
    assert [now_us for _, now_us, _ in player.batches] == [0, 100]


def test_without_a_model_of_contention_nothing_is_measured() -> None:
    player, *_ = play(at_times(at_0=PAIR), [job(1), job(2)], on=manager(measure_after_us=50))
    assert told(player.batches) == []


def test_measurements_come_after_ends_and_before_submissions() -> None:
    """After ends, faults and users' changes, before submissions and wakes."""
    jobs = [job(1, 0, 200), job(2, 0, 200), job(4, 0, 50), job(5, 0, 500), job(7, 0), job(8, 50)]
    player, *_ = play(
        at_times(at_0=[*PAIR, start(4, 1), start(5, 2)], at_50=[]),
        jobs,
        on=measuring(4),
        script=[Scripted(50, "fail-node", 2), Scripted(50, "hold", 7)],
    )
    assert player.batches[1][2] == (
        m.JobEnded(4, m.COMPLETED),
        m.NodeFailed(2),
        m.JobEnded(5, m.NODE_FAIL),
        m.JobHeld(7),
        m.ProgressMeasured(1, 1_500_000),
        m.ProgressMeasured(2, 1_500_000),
        m.JobSubmitted(jobs[5].spec),
        m.Woken(50),
    )


@pytest.mark.parametrize("gone_us", [30, 50])
@pytest.mark.parametrize("how", ["end", "cancel", "fail"])
def test_the_end_of_a_neighbour_voids_a_measurement(how: str, gone_us: int) -> None:
    """Also at the very instant of the measurement."""
    script = {"end": [], "cancel": [Scripted(gone_us, "cancel", 2)], "fail": [Scripted(gone_us, "fail-node", 1)]}[how]
    run_us = 2 * gone_us // 3 if how == "end" else 500
    two = m.StartJob(2, runs_on((0, 1, 2, 1), (1, 1, 1, 1)), 100, None)
    player, _, records = play(
        at_times(at_0=[start(1), two]), [job(1, 0, 500), job(2, 0, run_us, processes=2)], on=measuring(), script=script
    )
    assert records[2].end_us is not None
    assert abs(records[2].end_us - gone_us) <= 1
    assert told(player.batches) == []  # alone, job 1 is not slowed


def test_what_a_refused_start_would_have_voided_is_told_again() -> None:
    """The scheduler has counted it as void; what is beside a job that leaves at that instant is not told."""
    no = m.StartJob(3, runs_on((0, 1, 4, 1)), 100, None)  # the node has two threads
    jobs = [job(1, 0, 500), job(2, 0, 500), job(3, 100)]
    measured = [(50, 1, 1_500_000), (50, 2, 1_500_000)]
    player, *_ = play(at_times(at_0=PAIR, at_100=[no]), jobs, on=measuring())
    assert told(player.batches)[:4] == [*measured, (100, 1, 1_500_000), (100, 2, 1_500_000)]
    player, *_ = play(at_times(at_0=PAIR, at_100=[m.KillJob(2), no]), jobs, on=measuring())
    assert told(player.batches) == measured


def test_a_new_neighbour_voids_measurements_and_all_are_made_again() -> None:
    three = m.StartJob(3, runs_on((1, 1, 2, 1)), 100, None)
    jobs = [job(1, 0, 500, processes=2), job(2, 0, 500), job(3, 30, 500)]
    one = m.StartJob(1, runs_on((0, 2, 1, 1)), 100, None)
    player, *_ = play(at_times(at_0=[one, start(2, mask=2)], at_30=[three]), jobs, on=measuring())
    assert told(player.batches)[:3] == [
        (50, 2, 1_500_000),  # nothing has changed on its own node
        (80, 1, 2_000_000),  # by its worse neighbour
        (80, 3, 2_000_000),
    ]


def test_a_measurement_is_valid_until_a_neighbour_starts_or_ends() -> None:
    jobs = [job(1, 0, 400, processes=2), job(2, 0, 100), job(4, 0, 1000), job(5, 90, 10), job(6, 100, 5)]
    one = m.StartJob(1, runs_on((0, 2, 1, 1)), 100, None)
    player, *_ = play(
        at_times(at_0=[one, start(2, mask=2), start(4, 2)], at_90=[start(5, 3)], at_100=[], at_110=[start(6, 1, 2)]),
        jobs,
        on=measuring(4),
    )
    known = {
        welcome.now_us: {running.spec.id: running.measured_ppm for running in welcome.running if running.measured_ppm}
        for welcome in player.inventories
    }
    assert known[50] == known[90] == known[100] == {1: 1_500_000, 2: 1_500_000}  # jobs started and ended elsewhere
    assert known[110] == {2: 1_500_000}  # a job started on a node that job 2 does not have
    assert known[150] == {}  # and then job 2 ended


def test_suspended_jobs_are_not_measured_and_slow_no_other() -> None:
    answer = at_times(at_0=PAIR, at_40=[m.SuspendJob(2)], at_300=[m.ResumeJob(2)])
    player, *_ = play(answer, [job(1, 0, 600), job(2, 0, 500)], on=measuring())
    assert told(player.batches) == [(350, 1, 1_500_000), (350, 2, 1_500_000)]


def test_a_measurement_ends_with_a_suspension() -> None:
    answer = at_times(at_0=PAIR, at_60=[m.SuspendJob(2)], at_70=[m.ResumeJob(2)], at_80=[])
    player, *_ = play(answer, [job(1, 0, 500), job(2, 0, 500)], on=measuring())
    ppm = {w.now_us: [running.measured_ppm for running in w.running] for w in player.inventories}
    assert (ppm[50], ppm[60], ppm[70]) == ([1_500_000] * 2, [0, 0], [0, 0])
    assert told(player.batches)[2:] == [(120, 1, 1_500_000), (120, 2, 1_500_000)]


def test_a_revision_voids_nothing() -> None:
    answer = at_times(at_0=PAIR, at_20=[m.ReviseJob(1, 7, None)], at_60=[m.ReviseJob(1, 8, None)], at_70=[])
    player, *_ = play(answer, [job(1, 0, 500), job(2, 0, 500)], on=measuring())
    assert told(player.batches) == [(50, 1, 1_500_000), (50, 2, 1_500_000)]
    assert [running.measured_ppm for running in player.inventories[-2].running] == [1_500_000] * 2


def test_a_job_that_runs_again_is_measured_again() -> None:
    answer = at_times(at_0=PAIR, at_60=[start(1, 1), start(3, 1, 2)])
    player, *_ = play(
        answer,
        [job(1, 0, 500), job(2, 0, 500), job(3, 0, 500)],
        on=measuring(),
        script=[Scripted(55, "fail-node", 0)],
        requeue=True,
    )
    assert told(player.batches) == [
        (50, 1, 1_500_000),
        (50, 2, 1_500_000),
        (110, 1, 2_000_000),
        (110, 3, 2_000_000),
    ]
    assert [running.measured_ppm for running in player.inventories[4].running] == [0, 0]
