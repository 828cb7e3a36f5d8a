"""Jobs in slots under a live manager: what users see, late rotations, and a scheduler that is frozen."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.emulator.live.shared_time import OPERATOR, SECOND, JobLine, Site, scenario_of
from tests.emulator.submissions import submit_job

from cosched_emulator.accounting.accounts import Accounting
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.live.journal import answer_step, command_step, restore
from cosched_emulator.live.user_commands import Accepted
from cosched_emulator.manager.time_sharing.shared_progress import ProcessProgress
from cosched_emulator.users import requests
from cosched_plugin.protocol import messages as m

FINE = 0.45
EQUAL: list[JobLine] = [(0, 16, 2_000, FINE)] * 4
IO_AND_COMPUTE: list[JobLine] = [(0, 16, 2_000, share) for share in (0.1, 0.95, 0.93, 0.9)]
SHARED_ROWS: list[JobLine] = [
    *[(0, 16, 2_000, 0.05), (0, 8, 2_000, 0.6), (0, 8, 2_000, 0.3)],
    *[(0, 4, 2_000, 0.2), (0, 4, 2_000, 0.8), (0, 10, 2_000, 0.5)],
]
FROZEN = 20  # quanta


def progress_in(site: Site, quanta: int) -> dict[int, float]:
    """Return what each job does in that many quanta, in quanta of running alone."""
    before = site.progress_us()
    site.run_to_quantum(site.quantum + quanta)
    return {job_id: (done - before[job_id]) / SECOND for job_id, done in site.progress_us().items()}


@pytest.mark.parametrize(
    ("policy", "jobs"),
    [
        ("gang", SHARED_ROWS),
        ("paired-gang", EQUAL),
        pytest.param("paired-gang", IO_AND_COMPUTE, marks=pytest.mark.slow),
        pytest.param("paired-gang", SHARED_ROWS, marks=pytest.mark.slow),
        pytest.param("gang", EQUAL, marks=pytest.mark.slow),
        pytest.param("paired-gang-bestfit", SHARED_ROWS, marks=pytest.mark.slow),
        pytest.param("blind", SHARED_ROWS, marks=pytest.mark.slow),
    ],
)
def test_a_frozen_scheduler_costs_no_job_a_quantum(policy: str, jobs: list[JobLine], tmp_path: Path) -> None:
    done = []
    for frozen in (False, True):
        site = Site(scenario_of(tmp_path, jobs), policy)
        site.run_to_quantum(40)
        answered = site.live.manager.seq
        site.frozen = frozen
        done.append(progress_in(site, FROZEN))
        assert (site.live.manager.seq == answered) == frozen
        site.frozen = False
        site.run_to_quantum(site.quantum + 2)
        site.assert_agreement()
    undisturbed, alone = done
    assert undisturbed.keys() == alone.keys() == set(range(1, len(jobs) + 1))
    for job_id, quanta in undisturbed.items():
        assert abs(alone[job_id] - quanta) <= 1, (job_id, undisturbed, alone)
    assert min(undisturbed.values()) > 0.5
    if policy != "gang":
        assert sum(undisturbed.values()) > 1.1 * FROZEN  # jobs run in pairs


@pytest.mark.parametrize("delay_s", [0.3, 1.4, 7.0])
def test_late_rotations_hold_from_the_turn_on_that_has_come(delay_s: float, tmp_path: Path) -> None:
    """An answer within its quantum takes effect at once; a later one with the next quantum, where its round has come meanwhile."""
    jobs: list[JobLine] = [(0, 16, 60, FINE), (0.1, 16, 60, FINE), (0.2, 16, 60, FINE), (10.5, 16, 60, FINE)]
    site = Site(scenario_of(tmp_path, jobs), "gang")
    site.run_until(10.6)
    site.delay_us = round(delay_s * SECOND)
    while not site.under_way(m.StartJob):
        site.run_until(site.live.now_us / SECOND + 0.05)
        assert site.quantum < 14
    (rotation,) = site.under_way(m.SetRotation)
    first = rotation.quantum
    site.run_until(site.live.now_us / SECOND + delay_s + 2.5)
    turns = {record.number: record.turn for record in site.quanta}
    order = [turn.slots[0] for turn in rotation.turns]
    assert len(order) == 4
    came = first + int(delay_s)  # the quantum in which it came
    after = [turns[number] for number in range(came + 1, max(turns) + 1)]
    begin = (order.index(turns[came]) + 1) % 4
    assert after == [order[(begin + step) % 4] for step in range(len(after))]
    site.delay_us = 2_000
    site.run_until(40)
    site.assert_agreement()
    assert site.live.manager.refused == 0


# ---------------------------------------------------------------- what users see


def test_the_overview_has_the_matrix_what_runs_and_shares(tmp_path: Path) -> None:
    jobs: list[JobLine] = [(0, 16, 600, 0.3), (0, 8, 600, 0.5), (0, 8, 600, 0.6), (0, 4, 600, 0.9)]
    site = Site(scenario_of(tmp_path, jobs), "paired-gang")
    site.run_until(12.5)
    told = site.ask(requests.ShowOverview())["slots"]
    assert (told["quantum_s"], told["left"]) == (1, 0)
    assert told["quantum"] == site.quantum + 1
    assert 11.5 < told["began_s"] <= 12.5
    rows = {row["slot"]: {cell["job"]: cell for cell in row["jobs"]} for row in told["rows"]}
    assert {slot: set(cells) for slot, cells in rows.items()} == {0: {"1"}, 1: {"2", "3"}, 2: {"4"}}
    assert [cell["node_list"] for cell in rows[1].values()] == ["[0-7]", "[8-15]"]
    for cells in rows.values():
        for job, cell in cells.items():
            shares = site.live.manager.running[int(job)].shares
            assert cell["share"] == shares[0] / 1_000_000
            assert min(shares) <= cell["predicted"] * 1_000_000 <= max(shares)
            assert cell["quanta"] > 2
    slots = told["turn"]["slots"]
    runs_as = {job: cell["runs_as"] for cells in rows.values() for job, cell in cells.items()}
    allowed = {job for job, role in runs_as.items() if role is not None}
    assert {job for slot in slots for job in rows[slot]} | set(told["turn"]["guests"]) == allowed
    assert all(runs_as[job] == "row" for job in rows[slots[0]])
    assert [turn["slots"][0] for turn in told["turns"]] == [slots[0], *[each for each in sorted(rows) if each > slots[0]],
                                                            *[each for each in sorted(rows) if each < slots[0]]]  # fmt: skip
    assert any(len(turn["slots"]) == 2 for turn in told["turns"])


def test_the_queue_and_a_job_have_slot_and_share(tmp_path: Path) -> None:
    jobs: list[JobLine] = [(0, 16, 600, 0.1), (0, 16, 600, 0.4), (0, 16, 600, 0.8), (0, 4, 600, 0.97)]
    site = Site(scenario_of(tmp_path, jobs), "paired-gang")
    site.run_until(20.5)
    (late,) = site.do(submit_job(2, 60 * SECOND, unpaired=True))["job_ids"]
    answer = site.ask(requests.ListJobs())
    rows = [dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]]
    assert [(row["job_id"], row["slot"]) for row in rows] == [(1, 0), (2, 1), (3, 2), (4, 3), (late, None)]
    assert [row["share"] for row in rows[:4]] == sorted(row["share"] for row in rows[:4])
    assert rows[0]["shares_with"] == ("2",) or "2" in rows[0]["shares_with"]
    assert "3" not in rows[1]["shares_with"]  # never at the same time
    assert all(0 < row["elapsed_s"] < 20 for row in rows[:4])
    assert sum(row["elapsed_s"] for row in rows[:3]) < 2 * 20.5
    one, waits = site.ask(requests.ShowJobs((requests.Target(1), requests.Target(late))))["jobs"]
    assert (one["slot"], one["unpaired"], one["runs_as"] in ("row", "partner", "guest", None)) == (0, False, True)
    assert len(one["shares"]) == 4
    assert one["progress"] == pytest.approx(site.progress_us()[1] / 600 / SECOND)
    assert min(one["shares"]) <= one["predicted"] <= max(one["shares"])
    assert (waits["unpaired"], waits["slot"], waits["state"]) == (True, None, "PENDING")
    nodes = site.ask(requests.ListNodes())
    used = [dict(zip(nodes["columns"], row, strict=True)) for row in nodes["rows"]]
    assert {row["threads_used"] for row in used} == {1}
    site.run_until(24.5)
    turns = site.processes.rotation.turns
    slot = site.live.manager.running[late].slot
    assert all(len(turn.slots) == 1 for turn in turns if slot in turn.slots)
    site.do(requests.CancelJobs((requests.Target(late),)))
    site.run_until(30)
    site.assert_agreement()


OF_NAS: dict[str, Any] = {
    "cluster": {"nodes": 16, "memory_mb": 900},
    "workload": {"programs": "nas:IS.A"},
    "time_sharing": {"nodes": "windows", "memory_mb": 100},
    "clock": {"mode": "scaled", "speed": 10.0},
}


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (submit_job(5, 20 * SECOND), "expected jobs of 4, 8 or 16 processes for IS.A, got 5 processes"),
        (
            submit_job(4, 20 * SECOND, memory_mb=200),
            "a process wants 200 MB of memory, nodes have 100 MB for processes",
        ),
    ],
)
def test_a_job_that_nodes_cannot_run_is_refused_when_it_is_submitted(asked: requests.SubmitJob, reason: str) -> None:
    site = Site(OF_NAS, "easy")
    refused = site.live.examine(OPERATOR, asked)
    assert isinstance(refused, requests.Refused)
    assert refused.text.endswith(reason)
    assert not refused.path  # it was printed behind --ntasks
    assert isinstance(site.live.examine(OPERATOR, submit_job(4, 20 * SECOND, memory_mb=100)), Accepted)


@pytest.mark.parametrize("asked", [submit_job(5, 20 * SECOND), submit_job(4, 20 * SECOND, memory_mb=200)])
def test_a_journal_with_a_job_that_nodes_cannot_run_is_restored(
    asked: requests.SubmitJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "accounts.db")
    good = submit_job(4, 2 * SECOND)
    with closing(Accounting.create(path, {})) as books, monkeypatch.context() as patch:
        # The journal of a version that did not refuse such jobs, and ended when one started.
        patch.setattr(ProcessProgress, "refusal", lambda *_: None)
        site = Site(OF_NAS, "easy")
        for request in (asked, good):
            books.append(command_step(0, OPERATOR, request))
            assert isinstance(site.live.command(0, OPERATOR, request), requests.Done)
            books.record(site.live.drain())
        batch = site.live.batch()
        assert batch is not None
        seq, _, events = batch
        actions = site.core.handle(0, events)
        books.append(answer_step(0, m.Actions(seq, 0, tuple(actions))))
        with pytest.raises(ConfigurationError):
            site.live.answer(0, seq, actions)
    for _ in range(2):  # the journal that goes on can be restored as well
        site = Site(OF_NAS, "easy")
        with closing(Accounting.open(path)) as books:
            restore(site.live, books)
            (row,) = books.jobs([1])
            assert row["state"] == "REJECTED"
            assert "5 processes" in row["reason"] or "200 MB" in row["reason"]
            assert [job["state"] for job in books.history("", 9)] == ["REJECTED"]
    site.scheduler_comes()
    site.run_until(60)
    assert [(change.record.job.spec.id, change.record.state) for change in site.finished] == [(2, "COMPLETED")]
    site.assert_agreement()
