"""The state beside a database: a restart plays only what follows, and all of the journal where the file does not count."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest
from tests.commands import Commands
from tests.emulator.live.test_damage import damage, rows_of
from tests.emulator.live.test_live_random import assert_same
from tests.emulator.live.test_views import begin, submit
from tests.processes import Forked, ended, wait_until
from tests.runs import run_on

from cosched_emulator import prepare
from cosched_emulator.accounting.accounts import Accounting
from cosched_emulator.accounting.file import DamageError, read_only
from cosched_emulator.accounting.run_meta import meta_of
from cosched_emulator.errors import EmulatorError
from cosched_emulator.live import saved_state
from cosched_emulator.live.history import damage_of
from cosched_emulator.live.journal import answer_step, command_step
from cosched_emulator.live.live_manager import LiveManager
from cosched_emulator.live.saved_state import StateReader, StateWriter, state_file
from cosched_emulator.live.serving import LIVE, new_manager, restore_manager
from cosched_emulator.users.requests import Request, Requester
from cosched_plugin.protocol.messages import Actions
from cosched_terminal.console import Log

SECOND = 1_000_000
ROOT = Requester("root", operator=True)
PREPARED = prepare({"cluster": {"nodes": 4}, "clock": {"mode": "scaled", "speed": 1.0}})
ENDINGS = ("", "-wal", "-mark", "-state")
TARGETS = (("",), ("",), ("-mark",), ("", "-state"), ("-state",), ("", "-mark"))


class Site:
    """A live manager with a journal, whose state is written now and then."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.books = Accounting.create(self.path, meta_of(PREPARED.scenario, PREPARED.workload, LIVE))
        self.live = new_manager(PREPARED, self.books)
        self.writer = StateWriter(self.live, self.books)

    def do(self, request: Request, at_s: int) -> None:
        self.books.append(command_step(at_s * SECOND, ROOT, request), durable=True)
        self.live.command(at_s * SECOND, ROOT, request)
        self.books.record(self.live.drain())

    def work(self, first: int, jobs: int) -> None:
        """Submit jobs and start each second one."""
        for number in range(first, first + jobs):
            at_s = 10 * number
            self.do(submit(run_s=15), at_s)
            if number % 2 == 0:
                self.live.batch()
                answer = Actions(
                    self.live.manager.seq + 1, at_s * SECOND, (begin(number, run_on(number % 4, 1, 1, 1)),)
                )
                self.books.append(answer_step(at_s * SECOND, answer))
                self.live.answer(at_s * SECOND, answer.seq, answer.actions)
                self.books.record(self.live.drain())
        self.books.flush()


def restored(path: Path) -> tuple[LiveManager, int, Accounting]:
    """Return the manager that a restart makes, how many steps it plays, and the accounts."""
    states = StateReader()
    books = Accounting.open(str(path), states.reached)
    try:
        played = books.unplayed
        return restore_manager(PREPARED, books, Log(), states.take()), played, books
    except BaseException:
        books.close()
        raise


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What a killed manager leaves: 20 jobs, the state, 10 more jobs."""
    site = Site(tmp_path_factory.mktemp("site") / "c.db")
    site.work(1, 20)
    assert site.writer.write()
    site.work(21, 10)
    yield site.path
    site.books.close()


@pytest.fixture
def left(killed: str, tmp_path: Path) -> Path:
    (tmp_path / "copy").mkdir()
    for ending in ENDINGS:
        shutil.copy(f"{killed}{ending}", tmp_path / "copy")
    return tmp_path / "copy" / "c.db"


def test_a_restart_plays_only_what_follows_the_state(left: Path) -> None:
    live, played, books = restored(left)
    assert played == 15  # ten commands and five answers
    books.close()
    os.unlink(state_file(str(left)))
    again, all_of_them, books = restored(left)
    assert all_of_them == 45
    assert_same(live, again)
    books.close()


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def open_to_all(path: Path) -> None:
    path.chmod(0o644)


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("spoil", [flip, cut, open_to_all, link, os.unlink, empty])
def test_a_state_that_is_not_whole_or_not_ours_does_not_count(spoil: Callable[[Path], None], left: Path) -> None:
    spoil(Path(state_file(str(left))))
    _, played, books = restored(left)
    assert played == 45
    books.close()


def test_a_state_of_another_program_does_not_count(left: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_state, "_program", lambda: bytes(16))
    assert StateReader().reached(str(left)) is None


def test_a_state_of_a_step_that_the_journal_has_not_does_not_count(left: Path, tmp_path: Path) -> None:
    other = Site(tmp_path / "other.db")
    other.do(submit(run_s=16), 5)  # and so each later step has another digest
    other.work(2, 20)
    other.books.close()
    shutil.copy(state_file(str(left)), state_file(other.path))
    _, played, books = restored(Path(other.path))
    assert played == 31
    books.close()


class Outside:
    """An object of a site's own code, such as a contention model."""


def test_a_state_with_objects_from_outside_is_not_written(tmp_path: Path) -> None:
    site = Site(tmp_path / "c.db")
    site.work(1, 3)
    site.live.decisions.append((0, Outside()))  # type: ignore[arg-type]  # anywhere within
    assert not site.writer.write()
    assert not Path(state_file(site.path)).exists()
    site.work(4, 3)  # it goes on
    site.books.close()


def test_a_state_that_is_no_file_is_not_waited_for(left: Path) -> None:
    os.unlink(state_file(str(left)))
    os.mkfifo(state_file(str(left)), 0o600)
    assert StateReader().reached(str(left)) is None


@pytest.mark.parametrize(("more", "begins"), [(0, True), (1, False)])
def test_a_state_whose_changes_are_not_in_the_tables_does_not_count(more: int, begins: bool, tmp_path: Path) -> None:
    site = Site(tmp_path / "c.db")
    site.work(1, 20)
    last = site.books.reached()
    assert last is not None
    site.books.close()
    books = Accounting.open(site.path, lambda _: last._replace(changes=last.changes + more))
    assert (books.begins is not None) is begins
    books.close()


def test_a_damaged_step_behind_the_state_is_found_at_once(left: Path) -> None:
    with closing(sqlite3.connect(left)) as connection, connection:
        connection.execute("UPDATE journal SET at_us = at_us + 1 WHERE step = 40")
    with pytest.raises(DamageError, match="step 40 of the journal as it was written"):
        restored(left)


def test_the_state_is_written_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_state, "STEPS", 10)
    monkeypatch.setattr(saved_state, "STEPS_A_JOB", 1)
    site = Site(tmp_path / "c.db")
    site.work(1, 6)  # 9 steps, 6 jobs of which some have ended
    site.writer.turn()
    assert not Path(state_file(site.path)).exists()
    site.work(7, 13)
    site.live.batch()
    site.writer.turn()  # the scheduler owes an answer
    assert not Path(state_file(site.path)).exists()
    site.live.inventory()
    site.writer.turn()
    last = StateReader().reached(site.path)
    assert last is not None
    assert last.step == site.books.step
    site.books.close()


@pytest.mark.parametrize("number", [30, pytest.param(600, marks=pytest.mark.slow)])
def test_no_damage_goes_unnoticed_where_a_state_counts(number: int, left: Path, tmp_path: Path) -> None:
    """Nothing confirmed is missing in what comes back, and damage to what was not played is found by the look behind it."""
    sound, _, books = restored(left)
    books.close()
    rows = rows_of(str(left))
    told = later = 0
    for each in range(number):
        folder = tmp_path / str(each)
        folder.mkdir()
        for ending in ENDINGS:
            with suppress(FileNotFoundError):  # the log is gone once the database was closed
                shutil.copy(f"{left}{ending}", folder)
        path = folder / "c.db"
        what = damage(path, each, TARGETS)
        try:
            live, _, books = restored(path)
        except EmulatorError:
            told += 1
        else:
            assert_same(live, sound)
            books.flush()
            with closing(read_only(str(path))) as connection:
                found = damage_of(connection, str(path), partial(new_manager, PREPARED))
            later += bool(found) and books.begins is not None
            books.close()
            assert found or rows_of(str(path)) == rows, what
        shutil.rmtree(folder)
    assert told > number / 5
    assert later > number / 20


def serve() -> list[str]:
    common = ["serve", "--nodes", "2", "--clock", "scaled", "--speed", "10", "--log-json"]
    return [*common, "--db", "c.db", "--users", "ipc://u.sock", "--bind", "ipc://s.sock"]


def told(manager: Forked, event: str) -> bool:
    return f'"event":"{event}"' in manager.written()[1]


def test_a_manager_comes_back_from_its_state_and_finds_damage_in_its_history(commands: Commands) -> None:
    manager = commands.start("cosched_emulator", *serve())
    wait_until(lambda: told(manager, "serving"))
    for _ in range(3):
        ran = commands.emulator(
            "submit", "--manager", "ipc://u.sock", "-n", "1", "--run", "1", "-t", "0", "--estimate", "5"
        )
        assert ran.code == 0, ran.err
    manager.terminate()
    assert ended(manager).code == 128 + signal.SIGTERM
    manager = commands.start("cosched_emulator", *serve())
    wait_until(lambda: told(manager, "history-whole"))
    manager.terminate()
    ended(manager)
    with closing(sqlite3.connect(commands.folder / "c.db")) as connection, connection:
        connection.execute("UPDATE jobs SET estimate_us = 7 WHERE id = 2")
    manager = commands.start("cosched_emulator", *serve())
    wait_until(lambda: "history damaged" in manager.written()[1])
    assert not (commands.folder / "c.db-state").exists()
    manager.terminate()
    lines = [json.loads(line) for line in ended(manager).err.splitlines()]
    (back,) = [line for line in lines if line["event"] == "restored"]
    assert (back["steps"], back["played"]) == (3, 0)
    ran = commands.emulator(*serve())
    assert ran.code == 2
    assert "table jobs as this program replays it" in ran.err
