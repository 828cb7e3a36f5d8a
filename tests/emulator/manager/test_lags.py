"""Lags of a manager: submissions, starts and ends of which the scheduler hears later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.emulator.parts import at_times, job, manager, play, start
from tests.runs import runs_on

from cosched_emulator import prepare, simulate
from cosched_emulator.errors import ConfigurationError, InputError
from cosched_emulator.scenario.difficult_manager import Lags, ManagerSection, drawn_us
from cosched_emulator.scenario.planned_events import Scripted
from cosched_plugin.protocol import messages as m

both = pytest.mark.parametrize("contention", [False, True])
ROW = "{} {} -1 {} 2 -1 -1 2 {} -1 1 {} 1 1 1 -1 -1 -1\n"


def lags(submitted_us: int = 0, start_us: int = 0, ended_us: int = 0, extra_us: int = 0, **shares: Any) -> Lags:
    submitted_s, start_s, ended_s, extra_s = (us / 1e6 for us in (submitted_us, start_us, ended_us, extra_us))
    return Lags(1, ManagerSection(submitted_s=submitted_s, start_s=start_s, ended_s=ended_s, extra_s=extra_s, **shares))


def told(player: Any) -> list[tuple[int, tuple[m.Event, ...]]]:
    """Return the batches without wakes."""
    own = [(now_us, tuple(e for e in events if not isinstance(e, m.Woken))) for _, now_us, events in player.batches]
    return [(now_us, events) for now_us, events in own if events]


@both
def test_each_lag_comes_where_it_belongs(contention: bool) -> None:
    answer = at_times(at_7=[start(1, estimate_us=150)], at_149=[start(2)])
    jobs = [job(1), job(2, 1)]
    player, managed, records = play(answer, jobs, on=manager(contention=contention, lags=lags(7, 13, 20, 9)))
    started = [
        m.JobStarted(1, 20, runs_on((0, 1, 1, 1)), 150, None),
        m.JobStarted(2, 162, runs_on((0, 1, 1, 1)), 100, None),
    ]
    assert told(player) == [
        (7, (m.JobSubmitted(jobs[0].spec),)),
        (8, (m.JobSubmitted(jobs[1].spec),)),
        (20, (started[0],)),
        (149, (m.JobEnded(1, m.COMPLETED),)),
        (162, (started[1],)),
        (291, (m.JobEnded(2, m.COMPLETED),)),
    ]
    assert [stay[:2] for stay in records[1].intervals] == [(20, 129)]
    assert (records[1].end_us, records[1].work_us) == (129, 100)
    assert player.inventories[2].running[0].start_us == 7  # what the scheduler knows until it is told otherwise
    assert player.inventories[3].running[0].start_us == 20
    assert managed.refused == 0


@both
@pytest.mark.parametrize(("at_us", "absent"), [(5, "has not started yet"), (115, "has ended")])
def test_what_comes_too_soon_or_too_late_is_refused_and_the_job_told_of_at_once(
    at_us: int, absent: str, contention: bool
) -> None:
    suspend: dict[str, list[m.Action]] = {f"at_{at_us}": [m.SuspendJob(1)]}
    answer = at_times(at_0=[start(1)], **suspend)
    second = job(2, at_us)
    player, managed, _ = play(answer, [job(1), second], on=manager(contention=contention, lags=lags(0, 10, 30)))
    assert managed.refused == 1
    rounds = [events for now_us, events in told(player) if now_us == at_us]
    assert rounds[0] == (m.JobSubmitted(second.spec),)
    known = m.JobStarted(1, 5, runs_on((0, 1, 1, 1)), 100, None) if at_us == 5 else m.JobEnded(1, m.COMPLETED)
    refused, event = rounds[1]
    assert isinstance(refused, m.ActionRefused)
    assert refused.reason == f"stale: job 1 {absent}"
    assert event == known


@both
def test_a_node_that_fails_takes_an_awaited_job_and_not_one_that_has_ended(contention: bool) -> None:
    answer = at_times(at_0=[start(1), start(2, mask=2)], at_100=[start(3)])
    script = [Scripted(115, "fail-node", 0)]
    jobs = [job(1), job(2, run_us=200), job(3, 100, 50)]
    player, _, records = play(answer, jobs, on=manager(contention=contention, lags=lags(0, 10, 30)), script=script)
    assert told(player)[-1] == (115, (m.NodeFailed(0), m.JobEnded(1, m.COMPLETED), m.JobEnded(2, m.NODE_FAIL)))
    assert (records[1].end_us, records[2].end_us) == (110, 115)


def test_a_cancelled_job_that_was_awaited_never_ran() -> None:
    script = [Scripted(4, "cancel", 1)]
    _, _, records = play(at_times(at_0=[start(1)]), [job(1)], on=manager(lags=lags(0, 10)), script=script)
    assert (records[1].state, records[1].intervals, records[1].work_us) == (m.CANCELLED, (), 0)


def test_users_change_jobs_of_which_the_scheduler_has_not_heard() -> None:
    script = [Scripted(2, "cancel", 1), Scripted(3, "hold", 2), Scripted(90, "release", 2), Scripted(4, "hold", 3)]
    jobs = [job(1), job(2), job(3)]
    player, managed, records = play(at_times(at_90=[start(2)]), jobs, on=manager(lags=lags(50)), script=script)
    assert told(player) == [(90, (m.JobSubmitted(jobs[1].spec),)), (190, (m.JobEnded(2, m.COMPLETED),))]
    assert (records[1].state, records[1].end_us, records[3].end_us) == (m.CANCELLED, 2, None)
    assert list(managed.unseen) == [3]


# ------------------------------------------------------------ the table of a scenario


def table(folder: Path, **settings: Any) -> dict[str, Any]:
    log = folder / "log.swf"
    log.write_text("; MaxProcs: 8\n" + "".join(ROW.format(n, n, 100, 100, 1 + n % 2) for n in range(1, 41)))
    return {"seed": 3, "workload": {"swf": str(log)}, "cluster": {"processors": 8}, "manager": settings}


def test_a_side_file_has_the_lags_of_some_jobs_and_the_others_are_drawn(tmp_path: Path) -> None:
    file = tmp_path / "lags.csv"
    file.write_text("job,user,start_s,ended_s\n,u1,2.5,\n3,,0.25,1\n")
    prepared = prepare(table(tmp_path, start_s=10.0, start_draw="uniform", lags=str(file)))
    assert prepared.lags is not None
    jobs = list(prepared.workload.jobs)
    users = {item.spec.user for item in jobs}
    drawn = [prepared.lags.us("start_s", item) for item in jobs]
    assert drawn[2] == 250_000
    assert prepared.lags.us("ended_s", jobs[2]) == 1_000_000
    assert prepared.lags.us("ended_s", jobs[3]) == 0
    others = [us for number, us in enumerate(drawn) if number != 2]
    assert len(set(others)) == len(others) if "u1" not in users else 2_500_000 in others
    assert 0 <= min(others) < max(others) < 20_000_000


def test_draws_have_the_mean_that_was_asked_for() -> None:
    for draw in ("uniform", "exponential"):
        drawn = [drawn_us(1e6, draw, 1, "x", number, 0) for number in range(4000)]
        assert sum(drawn) / len(drawn) == pytest.approx(1e6, rel=0.05)


def test_lags_delay_a_run_and_no_section_changes_nothing(tmp_path: Path) -> None:
    plain = table(tmp_path)
    del plain["manager"]
    assert "manager" not in prepare(plain).scenario.as_dict()
    before = simulate(plain).records
    assert simulate(table(tmp_path)).records == before
    after = simulate(table(tmp_path, start_s=5.0)).records
    ends = [(early.end_us or 0, late.end_us or 0) for early, late in zip(before, after, strict=True)]
    assert all(late >= early + 5_000_000 for early, late in ends)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"start_s": -1.0}, r"manager.start_s: expected a number of seconds from 0 to 86400"),
        ({"start_draw": "normal"}, r"manager.start_draw: expected one of"),
        ({"starts_s": 1.0}, r"manager.starts_s: expected one of .*did you mean 'start_s'"),
        ({"lags": ""}, r"manager.lags: expected a CSV file"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=message):
        prepare(table(tmp_path, **settings))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("job,start\n1,2\n", "expected the names .*did you mean 'start_s'"),
        ("job,start_s\n1,soon\n", "field 'start_s': expected a number of seconds from 0 to 86400, got 'soon'"),
        ("job,start_s\n1,1\n1,2\n", "expected each key once, got job 1 again"),
        ("job,start_s\n", "expected at least one row of values"),
    ],
)
def test_a_bad_side_file_is_refused(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "lags.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        prepare(table(tmp_path, lags=str(file)))


def test_settings_without_effect_are_told(tmp_path: Path) -> None:
    assert "[manager] has no effect: all its keys have their defaults" in prepare(table(tmp_path)).workload.warnings
    assert "manager.seed has no effect where nothing is drawn" in prepare(table(tmp_path, seed=4)).workload.warnings
    warnings = prepare(table(tmp_path, start_s=1.0, ended_draw="uniform")).workload.warnings
    assert "manager.ended_draw has no effect without manager.ended_s" in warnings
    shared = {**table(tmp_path, start_s=1.0), "time_sharing": {}}
    with pytest.raises(ConfigurationError, match=r"manager.start_s: remove it: it has no effect with \[time_sharing\]"):
        prepare(shared)
