"""Manager and scheduler killed -9 at a site with partitions, limits, dependencies, begin times and reservations: the same schedule.

In virtual time all is the same, row for row. In running time a manager that stands by goes on, and the order of the starts is that
which the rules and the end of the reservation command.
"""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from scripts.proofs import pair_under_fire
from scripts.proofs.kill_nine import prove, report
from scripts.proofs.pair_under_fire import MANAGER, PLUGIN
from tests.contract.test_gate import JOBS, site
from tests.contract.test_live_restart import Site, short
from tests.emulator.studies.experiments import toml
from tests.emulator.submissions import submit_job
from tests.processes import ForkedPrograms, fork_program, wait_until

from cosched_emulator.manager.gate import ARRAY_LIMIT, BEGIN_TIME, DEPENDENCY, RESERVED
from cosched_emulator.manager.node_states import RESERVED as OF_NODES
from cosched_emulator.users.client import ManagerConnection
from cosched_emulator.users.requests import Dependency, ListHistory

__all__ = ["short"]  # a fixture

# Nodes fail meanwhile, and jobs on them are requeued; a reservation of some nodes and one of all have begun for half of the run.
SCRIPT: Final[list[dict[str, Any]]] = [
    {"at_s": 500.0, "do": "reserve", "nodes": "0-1", "until_s": 9000.0},
    {"at_s": 2500.0, "do": "fail-node", "node": 3},
    {"at_s": 3000.0, "do": "return-node", "node": 3},
    {"at_s": 4000.0, "do": "reserve", "until_s": 6000.0},
    {"at_s": 7000.0, "do": "drain-nodes", "nodes": "2-3", "until_s": 8000.0},
]
WAITED: Final = {ARRAY_LIMIT, BEGIN_TIME, DEPENDENCY, RESERVED, "AssocMaxJobsLimit"}


@pytest.mark.parametrize(
    ("policy", "seed"),
    [
        ("easy", 1),
        *[pytest.param(policy, 2, marks=pytest.mark.slow) for policy in ("slurm", "conservative", "symbiosis")],
        *[pytest.param("easy", seed, marks=pytest.mark.slow) for seed in range(3, 9)],
    ],
)
def test_kills_change_nothing_at_a_site_that_forbids_starts(
    policy: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair_under_fire, "Programs", ForkedPrograms)
    monkeypatch.setattr(pair_under_fire, "STARTING_S", {PLUGIN: 0.06, MANAGER: 0.12})
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


SECOND_US: Final = 1_000_000
RESERVED_S: Final = (100, 2500)
LIVE: Final = f"""
cluster = {{nodes = 4, preset = "1x1x1"}}
limits = [{{each = "user", jobs = 3}}]
script = [{{at_s = {RESERVED_S[0]}.0, do = "reserve", nodes = "2-3", until_s = {RESERVED_S[1]}.0}}]
"""


@pytest.mark.parametrize("managers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_who_goes_on_in_mid_reservation_starts_the_same_jobs_in_the_same_order(
    managers: int, short: Path, tmp_path: Path
) -> None:
    (tmp_path / "site.toml").write_text(LIVE)
    place = Site(short, tmp_path, managers, (str(tmp_path / "site.toml"), "--speed", "100"), "easy")
    with closing(place), ManagerConnection(place.users, 20.0) as connection:
        place.open()
        ids: dict[str, int] = {}

        def submit(name: str, nodes: int, run_s: int, **more: Any) -> None:
            request = submit_job(nodes, run_s * SECOND_US, run_s * SECOND_US, name=name, **more)
            (ids[name],) = connection.result(request)["job_ids"]

        submit("first", 2, 600)
        submit("wide", 4, 50)  # the head of the queue: it starts when the reservation ends
        submit("short", 2, 100)
        submit(
            "long", 2, 2400
        )  # after the first, it would be there beyond the end of the reservation; and it waits for the limit
        submit("after", 1, 50, after=(Dependency("afterok", ids["short"]),))
        submit("later", 1, 50, delay_us=1500 * SECOND_US)
        place.strike(signal.SIGKILL, "manager", "plugin")
        for name in ("first", "short"):
            wait_until(_has_started(place, ids[name]), 60)
            place.strike(signal.SIGKILL, "manager", *(["idle"] if managers > 1 else ["plugin"]))
        wait_until(lambda: len(connection.result(ListHistory())["jobs"]) == len(ids), 90)
        place.assert_alive()
        starts_us, ends_us = _stays(place)
    assert sorted(ids, key=lambda name: starts_us[ids[name]]) == ["first", "short", "after", "later", "wide", "long"]
    assert starts_us[ids["wide"]] >= RESERVED_S[1] * SECOND_US
    assert starts_us[ids["later"]] >= 1500 * SECOND_US
    assert starts_us[ids["after"]] >= ends_us[ids["short"]]


def test_a_manager_does_not_come_back_with_other_limits(short: Path, tmp_path: Path) -> None:
    """The jobs in its database were let in by those that it had."""
    (tmp_path / "site.toml").write_text(LIVE)
    command = ("cosched_emulator", "serve", str(tmp_path / "site.toml"), "--clock", "scaled", "--speed", "1", "--until", "0", "--bind", f"ipc://{short}/s",
               "--users", f"ipc://{short}/u", "--db", str(tmp_path / "c.db"))  # fmt: skip
    assert fork_program(*command).wait(30) == 0
    (tmp_path / "site.toml").write_text(LIVE.replace("jobs = 3", "jobs = 4"))
    for more in ((), ("--compact",)):
        process = fork_program(*command, *more)
        assert process.wait(30) == 2
        assert "expected a database of the same scenario, got limits" in "".join(process.written())


def _has_started(place: Site, job_id: int) -> Callable[[], bool]:
    return lambda: job_id in _stays(place)[0]


def _stays(place: Site) -> tuple[dict[int, int], dict[int, int]]:
    """Return when each job began and ended."""
    with closing(sqlite3.connect(place.db)) as connection:
        rows = connection.execute(
            "SELECT job_id, min(start_us), max(end_us) FROM allocations GROUP BY job_id"
        ).fetchall()
    return {job: start_us for job, start_us, _ in rows}, {job: end_us for job, _, end_us in rows}
