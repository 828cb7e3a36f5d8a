"""A database that was damaged: nothing that was confirmed is missing without a word, and what is whole can be saved."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Commands
from tests.emulator.live.recorded import Recorded
from tests.emulator.live.test_views import SECOND, begin, submit
from tests.runs import run_on

from cosched_emulator.accounting.file import DamageError
from cosched_emulator.accounting.rebuild import examine, salvage
from cosched_emulator.errors import EmulatorError
from cosched_emulator.live.journal import answer_step, time_step
from cosched_emulator.users.requests import CancelJobs, DrainNodes, Target
from cosched_hwmodel.draws import uniform
from cosched_plugin.protocol.messages import Actions

ENDINGS = ("", "-wal", "-mark")
JOBS = 40
TABLES = ("jobs", "allocations", "changes", "journal")


def work(site: Recorded, first: int, jobs: int) -> None:
    """Submit jobs, start some, let time pass, cancel one: commands are confirmed, the rest follows from the scheduler and the clock."""
    for number in range(first, first + jobs):
        at_s = 10 * number
        site.do(submit(run_s=15, name="x" * (number % 50)), at_s)
        if number % 3 == 0:
            site.live.batch()
            answer = Actions(site.live.manager.seq + 1, at_s * SECOND, (begin(number, run_on(number % 2, 1, 1, 1)),))
            site.books.append(answer_step(at_s * SECOND, answer))
            site.live.answer(at_s * SECOND, answer.seq, answer.actions)
            site.books.record(site.live.drain())
        if number % 7 == 0:
            site.do(CancelJobs((Target(number),)), at_s + 1)
        if number % 11 == 0:
            site.books.append(time_step((at_s + 5) * SECOND))
            site.live.advance((at_s + 5) * SECOND)
            site.books.record(site.live.drain())
    site.do(DrainNodes((1,), "late"), 10 * (first + jobs))


def rows_of(path: str) -> dict[str, list[Any]]:
    with closing(sqlite3.connect(path)) as connection:
        return {table: connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3").fetchall() for table in TABLES}


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The files that a killed manager leaves: the first half of the work in the main file, the second in the log."""
    folder = tmp_path_factory.mktemp("left")
    site = Recorded(folder / "c.db")
    work(site, 1, JOBS // 2)
    site.books.flush()
    site.books._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    work(site, JOBS // 2 + 1, JOBS // 2)
    site.books.flush()
    copy = folder / "copy"
    copy.mkdir()
    for ending in ENDINGS:
        shutil.copy(f"{site.path}{ending}", copy / f"c.db{ending}")
    yield copy
    site.books.close()


@pytest.fixture(scope="module")
def sound(left: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What these files hold."""
    site = Recorded(copied(left, tmp_path_factory.mktemp("sound")))
    assert len(site.live.manager.jobs) > JOBS // 2
    site.books.close()
    return rows_of(site.path)


def copied(left: Path, folder: Path) -> Path:
    for ending in ENDINGS:
        shutil.copy(left / f"c.db{ending}", folder)
    return folder / "c.db"


def flip(file: Path, draw: float) -> None:
    content = bytearray(file.read_bytes())
    bit = int(draw * len(content) * 8)
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)


def cut(file: Path, draw: float) -> None:
    os.truncate(file, int(draw * file.stat().st_size))


def blank(file: Path, draw: float) -> None:
    content = bytearray(file.read_bytes())
    at = int(draw * len(content)) // 512 * 512
    content[at : at + 512] = bytes(len(content[at : at + 512]))
    file.write_bytes(content)


def delete(file: Path, _draw: float) -> None:
    file.unlink()


KINDS: tuple[Callable[[Path, float], None], ...] = (flip, flip, flip, cut, blank, delete)
TARGETS = (("",), ("-wal",), ("-mark",), ("", "-wal"), ("-wal", "-mark"), ("", "-mark"))


def damage(path: Path, number: int, among: Sequence[tuple[str, ...]] = TARGETS) -> str:
    kind = KINDS[number % len(KINDS)]
    targets = among[number // len(KINDS) % len(among)]
    for place, ending in enumerate(targets):
        kind(Path(f"{path}{ending}"), uniform(5, "damage", number, place))
    return f"{number}: {kind.__name__} of {targets}"


@pytest.mark.parametrize("number", [72, pytest.param(1000, marks=pytest.mark.slow)])
def test_no_damage_goes_unnoticed(number: int, left: Path, sound: dict[str, list[Any]], tmp_path: Path) -> None:
    """Each is told, or harmless: a bit that nobody reads."""
    told = 0
    for each in range(number):
        folder = tmp_path / str(each)
        folder.mkdir()
        path = copied(left, folder)
        what = damage(path, each)
        try:
            site = Recorded(path)
        except EmulatorError:
            told += 1
        else:
            site.books.close()
            assert rows_of(str(path)) == sound, what
        shutil.rmtree(folder)
    assert told > number / 2


@pytest.mark.parametrize("number", [18, pytest.param(360, marks=pytest.mark.slow)])
def test_what_is_whole_is_saved(number: int, left: Path, sound: dict[str, list[Any]], tmp_path: Path) -> None:
    """The first part of the work, without a gap, and the damaged files stay."""
    kept = []
    for each in range(number):
        folder = tmp_path / str(each)
        folder.mkdir()
        path = copied(left, folder)
        what = damage(path, each)
        if path.exists():
            before = {ending: Path(f"{path}{ending}") for ending in ENDINGS if Path(f"{path}{ending}").exists()}
            contents = {ending: file.read_bytes() for ending, file in before.items()}
            text = salvage(str(path), {"kind": "live"})
            assert {ending: Path(f"{path}.damaged-1{ending}").read_bytes() for ending in contents} == contents, what
            assert f"{path}.damaged-1" in text
            site = Recorded(path)
            site.do(submit(), 10_000)
            site.books.close()
            assert examine(str(path)).whole, what
            journal = [row[:4] for row in rows_of(str(path))["journal"]][:-1]
            assert journal == [row[:4] for row in sound["journal"]][: len(journal)], what
            kept.append(len(journal))
        shutil.rmtree(folder)
    assert max(kept) == len(sound["journal"])
    assert min(kept) < len(sound["journal"])


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        (
            "UPDATE jobs SET state = 'FAILED' WHERE id = 3",
            "table jobs as this program replays it from the journal, got a different row 3",
        ),
        (
            "DELETE FROM changes WHERE number = 5",
            "table changes as this program replays it from the journal, got a different row 6",
        ),
        ("DELETE FROM allocations", "table allocations as this program replays it from the journal, got no row"),
        ("UPDATE journal SET at_us = at_us + 1 WHERE step = 9", "expected step 9 of the journal as it was written"),
        ("UPDATE meta SET value = 'other' WHERE key = 'kind'", "the meta data that the database was made with"),
        ("DELETE FROM journal WHERE step > 50", "confirmed steps are missing"),
    ],
)
def test_what_differs_is_told(statement: str, told: str, left: Path, tmp_path: Path) -> None:
    path = copied(left, tmp_path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)
    with pytest.raises(DamageError, match=r"--accept-loss") as caught:
        Recorded(path)
    assert told in str(caught.value)


def test_a_damaged_database_by_command(commands: Commands, left: Path) -> None:
    path = copied(left, commands.folder)
    ran = commands.emulator("accounts", "check", "c.db")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.endswith("steps are intact\n")
    Path(f"{path}-wal").unlink()
    ran = commands.emulator("accounts", "check", "c.db", "--json")
    told = json.loads(ran.out)
    assert (ran.code, told["whole"], told["steps"] < told["confirmed_step"]) == (1, False, True)
    assert told["troubles"] == [f"steps {told['steps'] + 1} to {told['confirmed_step']} were confirmed, and are lost"]
    assert commands.emulator("accounts", "check", "none.db").code == 2
