"""Databases that the last program of each version has written: today's program serves them, and leaves alone what it refuses.

``data/vN.tar.xz`` is what a manager of version N left when it was killed -9, with jobs that had ended, ran, were suspended and
pending (held, with a later begin, of an array, with a dependency), and the options that it was started with. ``-slots``: its jobs
share time; ``-log``: with jobs of the Lublin model; ``-virtual``: a run of ``simulate --db``; ``-site``: by 0.2.0, with partitions,
accounts, GPUs, licences, and the state that it saved when it was stopped before.
"""

from __future__ import annotations

import json
import re
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from tests.commands import Commands, assert_one_line
from tests.processes import ended, wait_until

from cosched_emulator.accounting.database_schema import CHAINED, VERSION

DATA: Final = Path(__file__).parent / "data"
SERVED: Final = sorted(
    file.name.removesuffix(".tar.xz") for file in DATA.glob("*.tar.xz") if "virtual" not in file.name
)
COLUMNS: Final = (
    "id, name, user, owner, state, submit_us, start_us, end_us, processes, starts, requeues, preemptions, nodes"
)
POLICY: Final = """
from cosched_plugin.config import choose
class Easy:
    def __init__(self):
        self.easy = choose("easy").make()
    def decide(self, view):
        yield from self.easy.decide(view)
"""


def unpack(name: str, folder: Path) -> list[str]:
    """Unpack what a manager has left; return its options, with a clock that stands still."""
    with tarfile.open(DATA / f"{name}.tar.xz") as file:
        file.extractall(folder, filter="data")
    return re.sub(r"--speed \S+", "--speed 0.001", (folder / "options").read_text()).split()


def serve(commands: Commands, options: list[str]) -> list[str]:
    users = f"ipc://{commands.folder}/u"
    return [
        "cosched_emulator",
        "serve",
        *options,
        "--bind",
        f"ipc://{commands.folder}/s",
        "--users",
        users,
        "--db",
        "c.db",
    ]


def rows(folder: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "c.db")) as connection:
        return connection.execute(f"SELECT {COLUMNS} FROM jobs ORDER BY id").fetchall()


def version(folder: Path) -> int:
    return int.from_bytes((folder / "c.db").read_bytes()[60:64], "big")


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.glob("c.db*") if not file.name.endswith(("-wal", "-shm"))}


def test_there_is_one_of_each_version() -> None:
    assert {f"v{number}" for number in range(1, VERSION)} <= set(SERVED)


@pytest.mark.parametrize("name", SERVED)
def test_a_database_of_before_is_served_with_the_same_jobs(name: str, commands: Commands) -> None:
    options = unpack(name, commands.folder)
    assert version(commands.folder) == int(name[1])
    before = rows(commands.folder)
    history = commands.emulator("history", "--db", "c.db", "--json")
    assert history.code == 0, history.err
    manager = commands.start(*serve(commands, [*options, "--check"]))
    wait_until(lambda: "serving: " in manager.written()[1] or manager.poll() is not None)
    assert manager.poll() is None, manager.written()
    queue = commands.emulator("queue", "--manager", f"ipc://{commands.folder}/u", "--json")
    found = {job["job_id"]: (job["name"], job["user"], job["state"]) for job in json.loads(queue.out)["jobs"]}
    assert found == {
        number: (called, user, state) for number, called, user, _, state, _, _, end, *_ in before if end is None
    }
    manager.terminate()
    assert ended(manager).code == 143
    assert rows(commands.folder) == before
    assert version(commands.folder) == VERSION


def test_a_run_of_before_goes_on(commands: Commands) -> None:
    options = unpack("v5-virtual", commands.folder)
    (commands.folder / "slow.py").write_text(POLICY)
    before = contents(commands.folder)
    other = commands.emulator("simulate", *options[:-1], "easy", "--db", "c.db")
    assert (other.code, "got easy instead of slow:Easy" in other.err) == (2, True), other.err
    assert contents(commands.folder) == before
    assert commands.emulator("simulate", *options, "--db", "c.db", "--out", "a").code == 0
    assert commands.emulator("simulate", *options, "--out", "b").code == 0
    first, second = ((commands.folder / run / "jobs.csv").read_bytes() for run in "ab")
    assert first == second
    assert version(commands.folder) == VERSION


@pytest.mark.parametrize("name", SERVED)
def test_an_intact_database_is_not_called_damaged(name: str, commands: Commands) -> None:
    unpack(name, commands.folder)
    ran = commands.emulator("accounts", "check", "c.db")
    if int(name[1]) >= CHAINED:
        assert ran.code == 0, ran
    else:
        assert "whose steps have digests, got version" in assert_one_line(ran, 2)


@pytest.mark.parametrize(
    ("name", "options", "change", "told"),
    [
        ("v4", ["--seed", "2"], "", "expected a database of the same scenario, got seed: 2 instead of 1"),
        ("v1-log", ["--lublin", "41"], "", "expected a database of the same "),
        ("v5", [], "UPDATE jobs SET end_us = end_us + 1 WHERE id = 1", "from the journal, got a different row 1"),
        ("v5", [], "UPDATE jobs SET job = json_set(job, '$.run_us', 7) WHERE id = 1", "table jobs as this program replays it"),
        ("v2", [], "DELETE FROM journal WHERE step = 3", "expected a journal without gaps"),
        ("v3", [], "UPDATE journal SET body = x'00' WHERE kind = 'answer'", "cannot be replayed"),
        ("v4", ["--accept-loss"], "", "got version 4 (serve without --accept-loss brings it up to date"),
    ],
)  # fmt: skip
def test_a_database_that_is_refused_stays_as_it_is(
    name: str, options: list[str], change: str, told: str, commands: Commands
) -> None:
    ours = unpack(name, commands.folder)
    if change:
        with closing(sqlite3.connect(commands.folder / "c.db")) as connection:
            connection.execute(change)
            connection.commit()
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    before = contents(commands.folder)
    _, *command = serve(commands, [*ours, *options])
    ran = commands.emulator(*command)
    assert told in ran.err, ran.err
    assert ran.code in (2, 4)
    assert contents(commands.folder) == before
