"""Manager and scheduler killed -9 at random moments: nothing is lost or doubled, and the results do not change."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from scripts.proofs import pair_under_fire
from scripts.proofs.kill_nine import SCENARIOS, TIME_SHARED, Outcome, broken_accounts, prove, report, unequal_rows
from scripts.proofs.pair_under_fire import MANAGER, PLUGIN, draw_kills
from tests.contract.test_gate import JOBS, site
from tests.emulator.studies.experiments import toml
from tests.processes import ForkedPrograms

from cosched_emulator.manager.node_states import RESERVED as OF_NODES
from cosched_emulator.offered import ARRAY_LIMIT, BEGIN_TIME, DEPENDENCY, RESERVED

# Nodes fail meanwhile, and jobs on them are requeued; a reservation of some nodes and one of all have begun for half of the run.
SCRIPT: Final[list[dict[str, Any]]] = [
    {"at_s": 500.0, "do": "reserve", "nodes": "0-1", "until_s": 9000.0},
    {"at_s": 2500.0, "do": "fail-node", "node": 3},
    {"at_s": 3000.0, "do": "return-node", "node": 3},
    {"at_s": 4000.0, "do": "reserve", "until_s": 6000.0},
    {"at_s": 7000.0, "do": "drain-nodes", "nodes": "2-3", "until_s": 8000.0},
]
WAITED: Final = {ARRAY_LIMIT, BEGIN_TIME, DEPENDENCY, RESERVED, "AssocMaxJobsLimit"}


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let manager and scheduler be forks of this process, which start within a fraction of a second."""
    monkeypatch.setattr(pair_under_fire, "Programs", ForkedPrograms)
    monkeypatch.setattr(pair_under_fire, "STARTING_S", {PLUGIN: 0.06, MANAGER: 0.12})


def assert_proven(outcome: Outcome, plugin_kills: int, manager_kills: int) -> None:
    assert outcome.wrong == [], report(outcome)
    fired = outcome.fired
    assert fired.hits["plugin"] >= plugin_kills, report(outcome)
    assert fired.hits["manager"] >= manager_kills, report(outcome)
    assert sum(fired.places.values()) == sum(fired.hits.values())


@pytest.mark.parametrize(
    ("policy", "jobs"),
    [pytest.param("rua", 40, marks=pytest.mark.slow), ("glts", 40), pytest.param("gang", 40, marks=pytest.mark.slow)],
)  # the manager has more state to lose
@pytest.mark.usefixtures("forks")
def test_a_few_kills_change_nothing(policy: str, jobs: int, tmp_path: Path) -> None:
    outcome = prove(policy, tmp_path, jobs=jobs, plugin_kills=4, manager_kills=3, seed=2, deadline_s=60)
    assert_proven(outcome, 3, 1)  # the last kills may be due after the run
    assert outcome.fired.starts["manager"] == 1 + outcome.fired.hits["manager"]


@pytest.mark.slow
def test_a_few_kills_change_nothing_where_jobs_share_time(tmp_path: Path) -> None:
    outcome = prove(
        "paired-gang", tmp_path, jobs=8, plugin_kills=2, manager_kills=1, seed=1, deadline_s=60, run_factor=0.006
    )
    assert_proven(outcome, 1, 1)
    assert outcome.batches > 200
    with closing(sqlite3.connect(tmp_path / "killed.db")) as connection, connection:
        rows = connection.execute("SELECT id, number, parts FROM quanta ORDER BY id").fetchall()
        quanta = [(number, quantum, json.loads(parts)) for number, quantum, parts in rows]
        paired = [quantum for quantum in quanta if sum(part[3] for part in quantum[2]) > 1]
        number, quantum, parts = paired[0]
        told = json.dumps([[job, 7, *rest] for job, _, *rest in parts])
        connection.execute("UPDATE quanta SET parts = ? WHERE id = ?", (told, number))
    (wrong,) = broken_accounts(tmp_path / "killed.db", 8)[:1]
    assert wrong.startswith(f"quantum {quantum}: jobs ")


@pytest.mark.parametrize(
    ("policy", "seed"),
    [
        ("easy", 1),
        *[pytest.param(policy, 2, marks=pytest.mark.slow) for policy in ("slurm", "conservative", "symbiosis")],
        *[pytest.param("easy", seed, marks=pytest.mark.slow) for seed in range(3, 9)],
    ],
)
@pytest.mark.usefixtures("forks")
def test_kills_change_nothing_at_a_site_that_forbids_starts(policy: str, seed: int, tmp_path: Path) -> None:
    limits = [{"each": "user", "jobs": 2}, {"partition": "short", "cpus": 12}]
    text = toml({**site(seed, tmp_path, policy), "script": SCRIPT, "limits": limits})
    outcome = prove(policy, tmp_path, jobs=JOBS, plugin_kills=6, manager_kills=6, seed=seed, deadline_s=120, own=text)
    assert outcome.wrong == [], report(outcome)
    assert outcome.fired.hits["plugin"] > 3, report(outcome)
    assert outcome.fired.hits["manager"] > 3, report(outcome)
    with closing(sqlite3.connect(tmp_path / "killed.db")) as connection:
        reasons = {reason for (reason,) in connection.execute("SELECT DISTINCT reason FROM changes WHERE what = 'job'")}
        nodes = connection.execute("SELECT count(*) FROM changes WHERE reason = ?", (OF_NODES,)).fetchone()
    assert reasons >= WAITED
    assert nodes[0] > 2


@pytest.mark.slow
@pytest.mark.parametrize("policy", sorted(SCENARIOS))
def test_fifty_plugin_kills_and_twenty_manager_kills_change_nothing(policy: str, tmp_path: Path) -> None:
    jobs = 150 if SCENARIOS[policy] == TIME_SHARED else 1000  # a batch for each quantum
    outcome = prove(policy, tmp_path, jobs=jobs, plugin_kills=50, manager_kills=20, seed=1)
    assert_proven(outcome, 49, 18)
    assert len(outcome.fired.places) >= 4  # both programs, while they work and while they start


@pytest.mark.usefixtures("forks")
def test_the_proof_finds_lost_and_doubled_rows(tmp_path: Path) -> None:
    outcome = prove("easy", tmp_path, jobs=20, plugin_kills=0, manager_kills=0, seed=1, deadline_s=60)
    assert outcome.wrong == []
    whole, broken = tmp_path / "undisturbed.db", tmp_path / "killed.db"
    with closing(sqlite3.connect(broken)) as connection, connection:
        connection.execute(
            "INSERT INTO changes SELECT max(number) + 1, step, at_us, what, 7, 'COMPLETED', '' FROM changes"
        )
        connection.execute("UPDATE jobs SET end_us = NULL WHERE id = 3")
        connection.execute("UPDATE jobs SET starts = starts + 1 WHERE id = 4")
        connection.execute("DELETE FROM allocations WHERE job_id = 5")
        connection.execute(
            "INSERT INTO allocations SELECT 21, 0, run, start_us, end_us, resumed, first_node, node_count, thread_mask,"
            " processes_per_node FROM allocations WHERE job_id = 6"
        )
    wrong = "\n".join(broken_accounts(broken, 20))
    for said in (
        "19 jobs have ended",
        "job 7 has ended 2 times",
        "job 3 has ended",
        "job 4: ",
        "job 5: 1 starts",
        "jobs 6 and 21 held",
    ):
        assert said in wrong
    assert {text.split(":")[0] for text in unequal_rows(whole, broken)} == {
        "table jobs",
        "table allocations",
        "table changes",
    }


def test_kills_are_drawn_by_seed_and_spread_over_the_run() -> None:
    times_us = list(range(0, 2000, 2))
    kills = draw_kills(1, 50, 20, times_us, 0.003)
    assert kills == draw_kills(1, 50, 20, times_us, 0.003)
    assert kills != draw_kills(2, 50, 20, times_us, 0.003)
    assert [kill.victim for kill in kills].count("plugin") == 50
    assert [kill.victim for kill in kills].count("manager") == 20
    assert [kill.at_us for kill in kills] == sorted(kill.at_us for kill in kills)
    assert {kill.at_us // 200 for kill in kills} == set(range(10))
    assert 20 < [kill.after for kill in kills].count("restart") < 55
