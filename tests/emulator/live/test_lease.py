"""The lease of a manager: when it counts as standing still, who is killed for it, and how a second manager waits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.processes import fork_program

from cosched_emulator.errors import InputError
from cosched_emulator.live.lease import RESTING_S, STILL_S, Holder, Lease, Watch, kill_holder, lease_file, read_lease

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
