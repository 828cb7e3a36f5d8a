"""The accounts of jobs that ended long ago go to a file of their own; nothing is lost on the way, and the manager goes on as before."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from tests.commands import Commands
from tests.emulator.live.test_journal_compaction import Cluster, Twins
from tests.processes import ended, wait_until

from cosched_emulator.accounting.accounts import Accounting, Step
from cosched_emulator.accounting.archive import Archive
from cosched_emulator.accounting.rebuild import examine
from cosched_emulator.accounting.run_meta import meta_of
from cosched_emulator.errors import InputError
from cosched_emulator.live.serving import LIVE
from cosched_hwmodel.units import SECOND_US

TABLES: Final = ("jobs", "allocations", "preemptions", "changes")
STEPS: Final = frozenset({"entered_step", "finished_step", "step"})  # of rows that the new journal says again


def rows(path: str, table: str) -> Iterator[dict[str, Any]]:
    with closing(sqlite3.connect(path)) as connection:
        cursor = connection.execute(f"SELECT * FROM {table}")
        names = [name for name, *_ in cursor.description]
        for values in cursor.fetchall():
            yield {name: value for name, value in zip(names, values, strict=True) if name not in STEPS}


class Archived(Twins):
    """Beside the life there are accounts that keep all."""

    def __init__(self, policy: str, seed: int, folder: Path, *, keep_s: int) -> None:
        super().__init__(policy, seed, folder, late=False)
        self.archive = Archive(f"{self.path}-archive", keep_s * SECOND_US)
        self.whole = Accounting.create(f"{self.path}-whole", meta_of(self.site.scenario, self.site.workload, LIVE))

    def compact_journal(self) -> None:
        super().compact_journal()
        assert self.archive is not None
        for job in rows(self.archive.path, "jobs"):  # what the manager is not told any more
            self.books.states.pop(job["id"], None)
            self.books.arrays.pop(job["array_id"], None)

    def do(self, step: Step) -> None:
        before = len(self.books.changes)
        super().do(step)
        self.whole.append(step)
        self.whole.record(self.books.changes[before:])


@pytest.mark.parametrize(("policy", "keep_s"), [("rua", 3_000), ("glts", 0)])
def test_every_row_is_in_one_of_the_two_files(policy: str, keep_s: int, tmp_path: Path) -> None:
    archived = kept = 0
    for seed in range(1):
        life = Archived(policy, seed, tmp_path, keep_s=keep_s)
        life.go(400)
        life.run_out()
        life.accounts.close()
        accounts, _ = life.restored()
        accounts.close()
        life.whole.close()
        assert examine(life.path).whole
        assert life.archive is not None
        for table in TABLES:
            parts = [[*rows(path, table)] for path in (life.path, life.archive.path)]
            assert sorted([*parts[0], *parts[1]], key=repr) == sorted(rows(f"{life.path}-whole", table), key=repr)
            archived += len(parts[1])
            kept += len(parts[0])
        assert life.carried["archived"] == len([*rows(life.archive.path, "jobs")]) > 10
    assert min(archived, kept) > 100


def test_a_process_that_is_killed_between_copy_and_removal_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    life = Archived("rua", 3, tmp_path, keep_s=0)
    life.go(150)
    life.run_out()
    assert life.archive is not None
    life.accounts.close()
    with closing(sqlite3.connect(life.path)) as connection:
        copied = life.archive.copy(connection, life.accounts.meta["run"], life.live.now_us)
    assert copied > 5
    twice = {row["id"] for row in rows(life.archive.path, "jobs")} & {row["id"] for row in rows(life.path, "jobs")}
    assert len(twice) == copied
    life.accounts, _ = life.restored()  # the next process
    life.compact_journal()
    life.accounts.close()
    life.whole.close()
    ids = [row["id"] for path in (life.path, life.archive.path) for row in rows(path, "jobs")]
    assert sorted(ids) == sorted(
        life.twin.manager.jobs | dict.fromkeys(row["id"] for row in rows(life.archive.path, "jobs"))
    )
    assert len(ids) == len(set(ids))


def test_an_archive_is_filled_again_and_again_and_nothing_else_is_overwritten(commands: Commands) -> None:
    site = Cluster(commands)

    def run_one(name: str) -> None:
        done = site.ask("submit", "-n", "1", "--run", "1", "-t", "1:00", "--job-name", name, "--parsable")
        site.ask("wait", done.out.strip(), "--timeout", "20")

    run_one("first")
    site.ask("submit", "-n", "1", "--array", "0-1%1", "--hold", "--job-name", "array")
    site.kill()
    archive = commands.folder / "old.db"
    site.start(2, "--archive", "old.db")
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    assert "1 jobs that have are in old.db" in site.manager.written()[1]
    assert site.ask("history").out.count("\n") == 1
    assert sorted(site.jobs("job_id")) == ["array", "array1"]
    run_one("second")
    site.kill()
    site.start(2, "--archive", "old.db", "--keep", "1e9")
    assert "second" in site.ask("history").out
    site.kill()
    site.start(2, "--archive", "old.db")
    wait_until(lambda: "second" not in site.ask("history").out)
    assert [row["name"] for row in rows(str(archive), "jobs")] == ["first", "second"]
    with closing(sqlite3.connect(archive)) as connection:
        assert connection.execute("SELECT name, state FROM job_times").fetchall()[0] == ("first", "COMPLETED")
    told = json.loads(commands.emulator("history", "--db", "old.db", "--json").out)
    assert [job["name"] for job in told["jobs"]] == ["first", "second"]
    site.manager.terminate()
    ended(site.manager)

    assert commands.emulator("accounts", "check", "c.db").code == 0
    assert "expected the database of a manager, got an archive" in commands.emulator("accounts", "check", "old.db").err
    (commands.folder / "text").write_text("no database\n" * 100, encoding="utf-8")
    for more, told in (
        (("--archive", "c.db"), "c.db: expected an archive of version"),
        (
            ("--archive", "./c.db-wal"),
            "c.db-wal: expected a file of its own for --archive, got one that belongs to --db",
        ),
        (("--archive", "text"), "text: expected an archive that can be written, got file is not a database"),
        (("--archive", "none/old.db"), "none/old.db: expected a file that can be written, got No such file"),
        (("--archive", "old.db", "--out", "run"), "--archive and --out exclude each other"),
        (("--keep", "5"), "--keep needs --archive"),
        (("--archive", "old.db", "--keep", "nan"), "expected a number of seconds from 0"),
        (("--out", "run"), "expected a database of all jobs, as a run folder is"),
    ):
        assert told in site.refused(2, *more)
    assert {row["name"] for row in rows(str(commands.folder / "c.db"), "jobs")} == {"array"}


def test_names_of_databases_need_not_be_utf_8(commands: Commands) -> None:
    database, archive = [os.fsdecode(name) for name in (b"n\xff.db", b"o\xff.db")]
    serve = ("serve", "--nodes", "4", "--lublin", "20", "--clock", "scaled", "--speed", "1e6", "--bind", "ipc://s.sock")
    for more in ((), ("--archive", archive)):
        ran = commands.emulator(*serve, "--db", database, "--until", "5000000", *more)
        assert (ran.code, "Traceback" in ran.err) == (0, False), ran.err
    for name in (database, archive):
        assert commands.emulator("history", "--db", name).code == 0
    assert commands.emulator("accounts", "check", database).code == 0


def test_the_archive_of_another_database_is_refused(tmp_path: Path) -> None:
    first, second = (Archived("rua", seed, tmp_path, keep_s=0) for seed in (1, 2))
    for life in (first, second):
        life.go(60)
        life.run_out()
    second.archive = first.archive
    assert first.archive is not None
    first.compact_journal()
    second.accounts.flush()
    held = [*rows(second.path, "jobs")]
    with closing(sqlite3.connect(first.archive.path)) as connection:
        connection.execute("PRAGMA user_version=5")
    with pytest.raises(InputError, match=r"expected the archive of this database, got the archive of another one"):
        second.compact_journal()
    with closing(sqlite3.connect(first.archive.path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (5,)
    assert [*rows(second.path, "jobs")] == held
    for accounts in (first.accounts, first.whole, second.accounts, second.whole):
        accounts.close()
