"""`serve --compact` with what it cannot work with, in real processes: one line, an exit code, and nothing lost."""

from __future__ import annotations

import resource
import shutil
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.commands import Commands, commands_in
from tests.processes import ended, wait_until

SERVE = [
    "serve",
    "--nodes",
    "16",
    "--lublin",
    "300",
    "--clock",
    "scaled",
    "--speed",
    "100000",
    "--bind",
    "ipc://s.sock",
]
COMPACT = [*SERVE, "--db", "c.db", "--compact", "--until"]


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database whose manager has ended, with pending jobs."""
    folder = tmp_path_factory.mktemp("left")
    with commands_in(folder) as commands:
        assert commands.emulator(*SERVE, "--db", "c.db", "--until", "400000").code == 0
    return folder


@pytest.fixture
def site(left: Path, commands: Commands) -> Commands:
    for file in left.glob("c.db*"):
        shutil.copy(file, commands.folder)
    return commands


def facts(folder: Path) -> tuple[int, int, int]:
    """Return how many steps there are, the first of them, and how many jobs."""
    with closing(sqlite3.connect(folder / "c.db")) as connection:
        steps, first = connection.execute("SELECT count(*), min(step) FROM journal").fetchone()
        (jobs,) = connection.execute("SELECT count(*) FROM jobs").fetchone()
    return steps, first, jobs


def test_the_journal_begins_anew_of_a_whole_database_that_no_other_manager_has(site: Commands) -> None:
    manager = site.start("cosched_emulator", *SERVE, "--db", "c.db", "--speed", "1")
    wait_until(lambda: "serving: " in manager.written()[1])
    ran = site.emulator(*COMPACT, "0")
    assert (ran.code, "expected a database that no other manager has open" in ran.err) == (2, True), ran.err
    manager.terminate()
    assert manager.wait(20) == 128 + signal.SIGTERM
    steps, first, jobs = facts(site.folder)
    ran = site.emulator(*COMPACT, "0")
    assert (ran.code, "the journal begins anew" in ran.err) == (0, True), ran.err
    assert facts(site.folder) == (1, first + steps, jobs)
    file = site.folder / "c.db"
    file.write_bytes(file.read_bytes()[:9000])
    ran = site.emulator(*COMPACT, "0")
    assert (ran.code, "expected a whole database" in ran.err, ran.err.count("\n")) == (2, True, 1), ran.err


@pytest.mark.parametrize(
    ("content", "got"),
    [
        (None, "c.db: expected the database of --compact, got no file"),
        (b"", "got an empty file"),
        (b"x" * 5000, "got a file that is not a database"),
        ("folder", "got Is a directory"),
        ("foreign", "got a database of another program"),
    ],
)
def test_what_is_no_database_of_a_manager_is_refused(content: bytes | str | None, got: str, commands: Commands) -> None:
    file = commands.folder / "c.db"
    if content == "folder":
        file.mkdir()
    elif content == "foreign":
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("CREATE TABLE t (x)")
    elif isinstance(content, bytes):
        file.write_bytes(content)
    ran = commands.emulator(*COMPACT, "0")
    assert (ran.code, ran.err.count("\n"), got in ran.err) == (2, 1, True), ran.err
    assert file.exists() == (content is not None)


@pytest.mark.parametrize("more_kb", [0, 16])
def test_a_full_disk_leaves_the_old_journal(more_kb: int, site: Commands) -> None:
    """No file may grow beyond half the size of the database and a few kilobytes."""
    before, size = facts(site.folder), (site.folder / "c.db").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2 + more_kb * 1024, hard))  # of the fork
    try:
        manager = site.start("cosched_emulator", *COMPACT, "0")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    ran = ended(manager)
    told = "c.db: expected room for a new journal beside the old one, which is unchanged, got "
    assert (ran.code, told in ran.err, "Traceback" in ran.err) == (1, True, False), ran.err
    assert facts(site.folder) == before
    assert site.emulator(*COMPACT, "0").code == 0


@pytest.mark.parametrize(
    ("number", "when"), [(signal.SIGINT, "restored from"), (signal.SIGTERM, "the journal begins anew")]
)
def test_a_signal_leaves_the_old_journal_or_the_new_one(number: signal.Signals, when: str, site: Commands) -> None:
    before = facts(site.folder)
    manager = site.start("cosched_emulator", *COMPACT, "1e9")
    wait_until(lambda: when in manager.written()[1])
    manager.send_signal(number)
    ran = ended(manager)
    assert ran.code in (-number, 128 + number), ran.err
    assert "Traceback" not in ran.err
    steps, first, jobs = facts(site.folder)
    assert (steps, first, jobs) == before or (first > before[1] and jobs >= before[2])
    assert site.emulator("accounts", "check", "c.db").code == 0
    assert site.emulator(*COMPACT, "0").code == 0
