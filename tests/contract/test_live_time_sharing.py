"""A live manager and its scheduler as two processes, with jobs in slots: a standby, kills, lost messages."""

from __future__ import annotations

import csv
import signal
import sqlite3
from collections import Counter
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
from tests.commands import Commands
from tests.emulator.live.shared_time import JobLine, scenario_of
from tests.emulator.studies.experiments import toml
from tests.emulator.submissions import submit_job
from tests.processes import Forked, ended, wait_until

from cosched_emulator import simulate
from cosched_emulator.users.client import ManagerConnection
from cosched_emulator.users.requests import ListHistory, Request, ShowJobs, ShowOverview, ShowStatus, Target

SECOND_US: Final = 1_000_000
SPEED: Final = 40  # emulated seconds a second: a quantum takes 25 ms
# A row of one job, a row of two, a row of three; the shares are such that the rows stay as they are.
ROWS: Final[list[JobLine]] = [
    *[(0, 16, 300, 0.05), (0, 8, 300, 0.6), (0, 8, 300, 0.55)],
    *[(0, 4, 300, 0.25), (0, 4, 300, 0.3), (0, 8, 300, 0.28)],
]
LONG: Final[list[JobLine]] = [(at_s, size, 10 * run_s, share) for at_s, size, run_s, share in ROWS]  # they do not end
FOUR: Final[list[JobLine]] = [(0, 16, 60, 0.45), (0, 8, 80, 0.5), (0, 8, 80, 0.55), (5, 4, 60, 0.9)]


class LiveSite:
    """A live manager of 16 nodes with the jobs of its scenario, a scheduler, and a user who looks on."""

    def __init__(
        self,
        commands: Commands,
        table: dict[str, Any],
        policy: str,
        database: str = "live.db",
        speed: int = SPEED,
        **faults: Any,
    ) -> None:
        """``table``: the scenario; ``faults`` are its plan."""
        self.commands = commands
        self.table = table
        self.database = commands.folder / database
        self._speed = speed
        self._policy = policy
        scenario = commands.folder / "scenario.toml"
        scenario.write_text(toml({**self.table, **({"faults": faults} if faults else {})}))
        self.endpoint, self.users = (f"ipc://{commands.folder}/{name}" for name in ("scheduler", "users"))
        self.start_manager()
        self.plugin = self.start_plugin()

    def start_manager(self) -> None:
        files = ("--db", str(self.database), "--out", "run")
        where = ("--bind", self.endpoint, "--users", self.users, *files, "--check")
        live = ("--clock", "scaled", "--speed", f"{self._speed}")
        self.manager = self.commands.start("cosched_emulator", "serve", "scenario.toml", *live, *where)

    def start_plugin(self, *more: str) -> Forked:
        where = ("--connect", self.endpoint, "--policy", self._policy, "--quiet")
        return self.commands.start("cosched_plugin", "serve", *where, *more)

    def ask(self, request: Request) -> dict[str, Any]:
        with ManagerConnection(self.users, 20.0) as connection:
            return dict(connection.result(request))

    def slots(self) -> dict[str, Any]:
        told = self.ask(ShowOverview())["slots"]
        assert isinstance(told, dict)
        return told

    def quantum(self) -> int:
        """Return the number of the quantum that runs; 0 if none does."""
        return int(self.slots()["quantum"] or 0)

    def stop(self) -> None:
        self.manager.terminate()
        ran = ended(self.manager)
        assert ran.code == 128 + signal.SIGTERM, ran
        assert "Traceback" not in ran.err

    def quanta(self) -> list[dict[str, Any]]:
        """Return the rows of the stopped manager's quanta."""
        return read_quanta(self.commands.folder / "run")


def read_quanta(folder: Path) -> list[dict[str, Any]]:
    with open(folder / "quanta.csv", newline="") as stream:
        return list(csv.DictReader(stream))


def assert_only_stale_refusals(site: LiveSite) -> None:
    refused = [text for _, text in site.ask(ShowOverview())["decisions"] if text.startswith("refused")]
    assert all("stale" in text for text in refused), refused


def test_a_standby_takes_over_in_the_middle_of_a_round(commands: Commands) -> None:
    site = LiveSite(commands, scenario_of(commands.folder, LONG), "paired-gang")
    standby = site.start_plugin("--standby")
    wait_until(lambda: bool(site.ask(ShowStatus())["standby"]))
    wait_until(lambda: site.slots()["turn"] is not None and site.slots()["turn"]["slots"][0] == 1)
    before = site.slots()["rows"]
    site.plugin.kill()
    began = site.quantum()
    (later,) = site.ask(submit_job(2, 5 * SECOND_US))["job_ids"]
    wait_until(lambda: site.ask(ShowJobs((Target(later),)))["jobs"][0]["state"] == "COMPLETED")
    rows = [{cell["job"]: row["slot"] for cell in row["jobs"]} for row in site.slots()["rows"]]
    assert rows == [{cell["job"]: row["slot"] for cell in row["jobs"]} for row in before]
    assert standby.poll() is None
    site.stop()
    turns = {int(row["quantum"]): int(row["turn"]) for row in site.quanta()}
    until = next(int(row["quantum"]) for row in site.quanta() if row["job_id"] == str(later))
    assert until > began + 2
    order = [turns[number] for number in range(began, until)]
    assert all(after == (turn + 1) % 3 for turn, after in pairwise(order))  # the round goes on


def test_a_killed_manager_continues_with_its_jobs_in_their_slots(commands: Commands) -> None:
    site = LiveSite(commands, scenario_of(commands.folder, FOUR), "paired-gang", speed=15)  # a busy machine looks late
    quanta = [0]
    for _ in range(2):
        wait_until(lambda: site.quantum() > quanta[-1] + 12)
        site.manager.kill()
        assert site.manager.wait(10) == -signal.SIGKILL
        site.start_manager()
        told = site.slots()
        quanta.append(int(told["quantum"] or 0))
        assert quanta[-1] > quanta[-2] + 8
        assert {cell["job"] for row in told["rows"] for cell in row["jobs"]} == {"1", "2", "3", "4"}
    assert_undisturbed(site, "paired-gang", 4)


def assert_undisturbed(site: LiveSite, policy: str, jobs: int) -> None:
    """Wait until these jobs have ended; each must have run once and used as much CPU time as in virtual time.

    There the scheduler answers at once, so that processes which wait for each other meet a little earlier.
    """
    wait_until(lambda: len(site.ask(ListHistory())["jobs"]) == jobs, 40)
    history = site.ask(ListHistory())["jobs"]
    assert {(job["state"], job["starts"]) for job in history} == {("COMPLETED", 1)}
    site.stop()
    with closing(sqlite3.connect(site.database)) as connection:
        numbers = [number for (number,) in connection.execute("SELECT number FROM quanta ORDER BY id")]
        cpu = dict(connection.execute("SELECT id, cpu_us FROM jobs WHERE starts > 0"))
    assert numbers == list(range(1, len(numbers) + 1))
    expected = {record.job.id: record.cpu_us for record in simulate(site.table, policy).records}
    assert cpu == pytest.approx(expected, rel=1e-2 if policy == "coscheduling" else 1e-3)


# Processes that are coscheduled by the messages that they wait for; the jobs take 3 to 6 seconds.
MESSAGES: Final = {
    "cluster": {"nodes": 4, "preset": "1x1x3"},
    "workload": {"nas": 3, "nas_classes": ["A"], "nas_programs": ["IS", "CG"], "nas_sizes": [4], "gap_s": 0.3},
    "time_sharing": {"nodes": "exact", "coscheduling": "cc", "local": "linux-epochs"},
}


@pytest.mark.parametrize(("policy", "jobs", "step_s"), [("paired-gang", 4, 4.0), ("coscheduling", 3, 0.8)])
def test_steps_of_the_clock_and_a_full_disk_change_no_row(
    policy: str, jobs: int, step_s: float, commands: Commands
) -> None:
    clock = [{"at_s": 2 * step_s, "jump_s": -5 * step_s}, {"at_s": 4 * step_s, "jump_s": 1.5 * step_s}]
    table = scenario_of(commands.folder, FOUR) if policy == "paired-gang" else MESSAGES
    site = LiveSite(
        commands, table, policy, speed=8 if policy == "coscheduling" else SPEED,
        clock=clock, disk=[{"at_s": step_s, "for_s": 4 * step_s}],
    )  # fmt: skip

    def struck() -> list[tuple[str, int]]:
        with closing(sqlite3.connect(site.database)) as connection:
            return connection.execute("SELECT kind, at_us FROM faults ORDER BY number").fetchall()

    site.ask(ShowStatus())  # the database is there
    wait_until(lambda: len(struck()) == 4)
    assert_undisturbed(site, policy, jobs)
    assert Counter(kind for kind, _ in struck()) == {"clock jump": 2, "disk full": 1, "disk has room": 1}
    with closing(sqlite3.connect(site.database)) as connection:
        (end_us,) = connection.execute("SELECT max(end_us) FROM jobs").fetchone()
    assert min(at_us for _, at_us in struck()) < end_us  # while jobs ran


def test_lost_and_late_messages_change_no_row(commands: Commands) -> None:
    site = LiveSite(
        commands, scenario_of(commands.folder, LONG), "paired-gang",
        messages={"drop": 0.05, "duplicate": 0.1, "delay": 0.3, "delay_s": 0.06, "reorder": 0.1},
    )  # fmt: skip
    ids = []
    for number in range(4):
        wait_until(lambda number=number: site.quantum() > 15 * (number + 1))  # type: ignore[misc]
        ids += site.ask(submit_job(4, 3 * SECOND_US, tasks=(0, 1)))["job_ids"]
    wait_until(lambda: len(site.ask(ListHistory())["jobs"]) >= len(ids))
    assert {job["state"] for job in site.ask(ListHistory())["jobs"]} == {"COMPLETED"}
    assert_only_stale_refusals(site)
    assert sorted(cell["job"] for row in site.slots()["rows"] for cell in row["jobs"]) == list("123456")
    site.stop()
    assert "Traceback" not in "".join(site.manager.written())
