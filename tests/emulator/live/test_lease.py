"""The lease of a manager: when it counts as standing still, who is killed for it, and how a second manager waits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.emulator.live.test_live_random import assert_same
from tests.emulator.live.test_saved_state import PREPARED, SECOND, Site
from tests.processes import fork_program

from cosched_emulator.accounting.accounts import Accounting
from cosched_emulator.errors import InputError
from cosched_emulator.live.journal import time_step
from cosched_emulator.live.lease import (
    RESTING_S,
    STILL_S,
    Holder,
    Lease,
    Watch,
    kill_holder,
    lease_file,
    read_lease,
    time_kept,
)
from cosched_emulator.live.serving import restore_manager
from cosched_terminal.console import Log

SERVE = ["cosched_emulator", "serve", "--nodes", "2", "--clock", "scaled", "--speed", "10"]


def looks(watch: Watch, holder: Holder, since_s: float, until_s: float) -> list[float]:
    """Return when a watch that looks ten times a second says that the holder stands still."""
    times = [since_s + number / 10 for number in range(round((until_s - since_s) * 10))]
    return [at_s for at_s in times if watch.stands_still(holder, at_s)]


def test_a_lease_tells_its_process_and_its_turns(tmp_path: Path) -> None:
    database = str(tmp_path / "c.db")
    assert read_lease(database) is None
    with Lease(database) as lease:
        resting = read_lease(database)
        assert resting is not None
        assert (resting.process, resting.turns) == (os.getpid(), 0)
        lease.turn()
        lease.turn()
        turned = read_lease(database)
        assert turned is not None
        assert turned == resting._replace(turns=2)
    assert read_lease(database) == resting


def test_a_lease_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "c.db-lease").mkdir()
    with pytest.raises(InputError, match=r"c\.db-lease: expected a file that can be written"):
        Lease(str(tmp_path / "c.db"))


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]" * 2000, b'{"process": "x", "began": 1}'.ljust(4096)])
def test_a_damaged_lease_names_nobody(content: bytes, tmp_path: Path) -> None:
    Path(lease_file(str(tmp_path / "c.db"))).write_bytes(content)
    assert read_lease(str(tmp_path / "c.db")) is None


def test_turns_that_stop_are_noticed_and_a_rest_is_longer() -> None:
    watch = Watch()
    assert looks(watch, Holder(7, 1, 5), 0.0, STILL_S) == []
    assert looks(watch, Holder(7, 1, 6), STILL_S, 2 * STILL_S) == []
    late = looks(watch, Holder(7, 1, 6), 2 * STILL_S, 4 * STILL_S)
    assert len(late) == 2  # once in that time
    assert late[0] == pytest.approx(2 * STILL_S + 0.1)
    assert looks(Watch(), Holder(7, 1, 0), 0.0, RESTING_S) == []
    assert len(looks(Watch(), Holder(7, 1, 0), 0.0, RESTING_S + 1.0)) == 1


def test_a_process_that_stood_still_itself_judges_nobody() -> None:
    watch = Watch()
    holder = Holder(7, 1, 5)
    assert looks(watch, holder, 0.0, 1.0) == []
    assert looks(watch, holder, 100.0, 100.0 + STILL_S) == []


def test_only_the_process_that_wrote_the_lease_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        try:
            lease = Holder(process.pid, -1, 3)
            assert kill_holder(lease) == "the process that the lease names has ended"  # the number is another one's now
            assert process.poll() is None
            fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
            assert kill_holder(lease._replace(began=int(fields[19]))) == ""
            assert process.wait(10) == -signal.SIGKILL
        finally:
            process.kill()
    assert kill_holder(Holder(2**22 + 1, 1, 3)) == "No such process"


def test_a_second_manager_stands_by_until_a_signal(tmp_path: Path) -> None:
    def serve(*options: str) -> list[str]:
        return [*SERVE, "--bind", f"ipc://{tmp_path}/s", "--users", f"ipc://{tmp_path}/u", "--db", "c.db", *options]

    first = fork_program(*serve(), folder=tmp_path)
    others = []
    try:
        deadline = time.monotonic() + 20
        while "serving" not in first.written()[1]:
            assert time.monotonic() < deadline, first.written()
            time.sleep(0.05)
        refused = fork_program(*serve(), folder=tmp_path)
        others.append(refused)
        assert refused.wait(20) == 2
        assert "expected a database that no other manager has open" in refused.written()[1]
        idle = fork_program(*serve("--standby"), folder=tmp_path)
        others.append(idle)
        while "standing by" not in idle.written()[1]:
            assert time.monotonic() < deadline, idle.written()
            time.sleep(0.05)
        idle.terminate()
        assert idle.wait(20) == 128 + signal.SIGTERM
        assert first.poll() is None
    finally:
        for process in (first, *others):
            process.kill()
            process.wait(10)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--clock", "scaled", "--users", "ipc://u"], "--standby needs --db"),
        (["--db", "c.db", "--lublin", "10"], "--standby needs --clock scaled or --clock real"),
    ],
)
def test_standing_by_needs_a_database_and_a_running_clock(options: list[str], text: str, tmp_path: Path) -> None:
    process = fork_program("cosched_emulator", "serve", "--bind", "ipc://s", "--standby", *options, folder=tmp_path)
    assert process.wait(20) == 2
    assert text in process.written()[1]


def keep(books: Accounting, *times_us: int) -> None:
    """Keep times after the last step, as a manager does that is killed then."""
    assert books.path is not None
    reached = books.reached()
    assert reached is not None
    with Lease(books.path, books.meta["run"]) as lease:
        for now_us in times_us:
            lease.keep(now_us, reached)


def kept(path: Path) -> int:
    books = Accounting.open(str(path))
    list(books.replay())
    try:
        return time_kept(books)
    finally:
        books.close()


@pytest.mark.parametrize("step", [0, 1])
def test_the_time_that_is_kept_is_that_of_the_last_step(step: int, tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    books = Accounting.create(str(path), {"kind": "live", "run": "this"})
    assert time_kept(books) == 0  # an earlier program may have left none
    for number in range(step):
        books.append(time_step(number))
    books.flush()
    keep(books, 7, 8, 9)
    with Lease(str(path), "this") as lease:
        lease.turn()  # the next manager keeps it, too, until it has one of its own
    assert time_kept(books) == 9
    books.append(time_step(10))
    assert time_kept(books) == 0
    books.close()
    assert kept(path) == 0  # the step tells the time
    for file in (path, tmp_path / "c.db-mark"):
        file.unlink()
    books = Accounting.create(str(path), {"kind": "live", "run": "another"})
    for number in range(step):
        books.append(time_step(number))
    books.flush()
    assert time_kept(books) == 0
    books.close()


@pytest.mark.parametrize(("torn", "expected"), [((0,), 9), ((1,), 8), ((0, 1), 0)])
def test_a_kill_amid_the_writing_of_a_time_leaves_the_one_before(
    torn: tuple[int, ...], expected: int, tmp_path: Path
) -> None:
    path = tmp_path / "c.db"
    books = Accounting.create(str(path), {"kind": "live", "run": "this"})
    keep(books, 7, 8, 9)
    books.close()
    file = Path(lease_file(str(path)))
    content = bytearray(file.read_bytes())
    for place in torn:
        content[4096 + 48 * place] ^= 64
    file.write_bytes(content)
    assert kept(path) == expected
    file.write_bytes(content[:4096])  # as an earlier program leaves it
    assert kept(path) == 0


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize(("at_s", "more"), [(34, 0), (50, 1)])  # a job ends after 35 s
def test_a_manager_goes_on_at_the_time_that_was_kept(at_s: int, more: int, anew: bool, tmp_path: Path) -> None:
    site = Site(tmp_path / "c.db")
    site.work(1, 3)
    steps = site.books.step
    keep(site.books, at_s * SECOND)
    site.books.close()
    site.live.advance(at_s * SECOND)  # as if it had not been killed
    books = Accounting.open(site.path)
    live = restore_manager(PREPARED, books, Log(), anew=anew)
    assert live.now_us == at_s * SECOND + anew
    assert books.step == steps + more + anew
    assert len(live.manager.running) == len(site.live.manager.running) == 1 - more
    if not anew:
        assert_same(site.live, live)
    ended = [row["end_us"] for row in books.history("", 10)]
    assert ended == [35 * SECOND] * more
    books.close()
