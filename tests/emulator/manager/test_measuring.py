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
