"""Jobs take turns under a manager and a scheduler in processes of their own; the scheduler freezes (SIGSTOP), and they go on."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

from tests.commands import Commands
from tests.processes import wait_until

from cosched_emulator.users.client import ManagerConnection
from cosched_emulator.users.requests import SubmitJob

S = 1_000_000
SPEED = 40  # emulated seconds a second
JOBS = 3


def quanta(database: Path) -> list[tuple[int, list[tuple[int, int]]]]:
    """Return the length of each quantum that is over, and for how long each job could run in it."""
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        rows = connection.execute("SELECT end_us - start_us, parts FROM quanta ORDER BY id").fetchall()
    return [(length_us, [(part[0], part[4]) for part in json.loads(parts)]) for length_us, parts in rows]


def test_a_frozen_scheduler_costs_no_job_a_quantum(commands: Commands) -> None:
    folder = commands.folder
    database = folder / "cluster.db"
    endpoint, users = f"ipc://{folder}/s", f"ipc://{folder}/u"
    options = ["--nodes", "4", "--time-sharing", "fluid", "--clock", "scaled", "--speed", str(SPEED), "--check"]
    manager = commands.start(
        "cosched_emulator", "serve", *options, "--bind", endpoint, "--users", users, "--db", str(database)
    )
    scheduler = commands.start("cosched_plugin", "serve", "--connect", endpoint, "--policy", "gang")
    with ManagerConnection(users, 10.0) as site:
        for _ in range(JOBS):
            site.result(SubmitJob(4, 3600 * S, None))
        wait_until(lambda: len({job for _, parts in quanta(database)[-3:] for job, _ in parts}) == JOBS)
        scheduler.send_signal(signal.SIGSTOP)
        before = len(quanta(database))
        wait_until(lambda: len(quanta(database)) >= before + 20)
        could_run: Counter[int] = Counter()
        for length_us, parts in quanta(database)[before + 1 : before + 19]:
            assert length_us == S
            could_run.update(dict(parts))
        assert could_run == dict.fromkeys((1, 2, 3), 6 * S)
        scheduler.send_signal(signal.SIGCONT)
        wait_until(lambda: len(quanta(database)) >= before + 25)
    manager.terminate()
    assert manager.wait(20) == 128 + signal.SIGTERM, manager.written()
