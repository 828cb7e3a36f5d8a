"""Another user of the machine has put files where a program of root has its own: it writes through none, and believes none."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from tests.commands import Commands, assert_one_line
from tests.processes import wait_until

from cosched_emulator.live.lease import STILL_S
from cosched_emulator.studies.study_folder import LOCK
from cosched_plugin.common.curve import read_secret, write_keys
from cosched_plugin.common.errors import PluginError, UsageError
from cosched_plugin.site.poll_loop import only_process, wake_socket
from cosched_plugin.site.store import Store

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
STRANGER: Final = 54_321
KEPT: Final = b"precious\n"


def as_stranger(act: Callable[[], object]) -> None:
    """Do something as another user, in a process of its own."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(STRANGER)
            os.setuid(STRANGER)
            act()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.fixture
def folder(commands: Commands) -> Path:
    """A folder in which everybody may make files, such as /tmp; with a file of root's."""
    commands.folder.chmod(0o1777)
    (commands.folder / "precious").write_bytes(KEPT)
    (commands.folder / "precious").chmod(0o600)
    return commands.folder


def serve(folder: Path, *options: str) -> list[str]:
    clock = ("--clock", "scaled", "--speed", "1000", "--until", "1")
    places = ("--bind", f"ipc://{folder}/s", "--users", f"ipc://{folder}/u")
    return ["serve", "--nodes", "2", *clock, *places, "--db", "c.db", *options]


@pytest.mark.parametrize("served_before", [False, True])
@pytest.mark.parametrize("ending", ["-lease", "-mark", "-state", "-wal", "-journal", "-shm"])
def test_no_link_is_written_through(ending: str, served_before: bool, commands: Commands, folder: Path) -> None:
    if served_before:
        assert commands.emulator(*serve(folder)).code == 0
        (folder / f"c.db{ending}").unlink(missing_ok=True)
    as_stranger(lambda: (folder / f"c.db{ending}").symlink_to("precious"))
    ran = commands.emulator(*serve(folder))
    assert (folder / "precious").read_bytes() == KEPT
    if ending == "-state":  # is made anew
        assert ran.code == 0, ran.err
    else:
        assert f"c.db{ending}: expected " in assert_one_line(ran, 2)


@pytest.mark.parametrize("ending", ["", "-lease", "-mark", "-wal", "-shm", "-state"])
def test_no_file_of_another_user_is_believed(ending: str, commands: Commands, folder: Path) -> None:
    assert commands.emulator(*serve(folder)).code == 0
    file = folder / f"c.db{ending}"
    file.touch()
    file.chmod(0o666)
    os.chown(file, STRANGER, STRANGER)
    before = file.read_bytes()
    ran = commands.emulator(*serve(folder))
    if ending == "-state":
        assert ran.code == 0, ran.err
        return
    told = assert_one_line(ran, 2)
    assert f"c.db{ending}: expected " in told
    assert "got one of user 54321, who is neither this one nor root" in told
    assert file.read_bytes() == before
    file.chmod(0o666)
    os.chown(file, 0, 0)
    told = assert_one_line(commands.emulator(*serve(folder)), 2)
    assert "got one that others may write to (mode 0666; chmod go-w)" in told


def test_a_database_is_no_link(commands: Commands, folder: Path) -> None:
    assert commands.emulator(*serve(folder)).code == 0
    (folder / "c.db").rename(folder / "other.db")
    (folder / "c.db").symlink_to("other.db")
    assert "c.db: expected a database of this manager, got a link" in assert_one_line(
        commands.emulator(*serve(folder)), 2
    )
    assert commands.emulator("history", "--db", "c.db").code == 0  # only reads


def test_who_only_reads_may_read_another_user_s(commands: Commands, folder: Path) -> None:
    assert commands.emulator(*serve(folder)).code == 0
    for name in ("c.db", "c.db-mark"):
        os.chown(folder / name, STRANGER, STRANGER)
    ran = commands.emulator("accounts", "check", "c.db")
    assert ran.code == 0, ran.err


@pytest.mark.parametrize("owner", [STRANGER, 0])
def test_a_standby_kills_for_its_own_lease_alone(owner: int, commands: Commands, folder: Path) -> None:
    assert commands.emulator(*serve(folder)).code == 0
    with (
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as victim,
        open(folder / "c.db", "rb") as held,
    ):
        fcntl.flock(held, fcntl.LOCK_EX)
        began = int(Path(f"/proc/{victim.pid}/stat").read_text().rpartition(")")[2].split()[19])
        lease = folder / "c.db-lease"
        lease.write_bytes(json.dumps({"process": victim.pid, "began": began}).encode().ljust(4088) + bytes([1] * 8))
        lease.chmod(0o600)
        os.chown(lease, owner, owner)
        try:
            standby = commands.start("cosched_emulator", *serve(folder, "--standby"))
            wait_until(lambda: "standing by" in standby.written()[1])
            if owner == 0:
                assert victim.wait(60) == -signal.SIGKILL
                wait_until(lambda: "stands still" in standby.written()[1])
            else:
                time.sleep(STILL_S + 1)
                assert victim.poll() is None
                assert "stands still" not in standby.written()[1]
        finally:
            victim.kill()


def test_a_socket_of_another_user_is_not_replaced(commands: Commands, folder: Path) -> None:
    def leave_socket() -> None:
        socket.socket(socket.AF_UNIX).bind(str(folder / "s"))

    as_stranger(leave_socket)
    told = assert_one_line(commands.emulator(*serve(folder)), 2)
    assert "expected a path for a socket of our own" in told
    assert "where user 54321 has one" in told


def test_an_archive_is_no_link(commands: Commands, folder: Path) -> None:
    jobs = ("--lublin", "5", "--speed", "1e6", "--until", "5000")
    assert commands.emulator(*serve(folder, *jobs)).code == 0
    as_stranger(lambda: (folder / "old.db").symlink_to("precious"))
    ran = commands.emulator(*serve(folder, *jobs, "--archive", "old.db"))
    assert (ran.code, "old.db: expected a file that can be written, got a link" in ran.err) == (2, True), ran.err
    assert (folder / "precious").read_bytes() == KEPT


# ---------------------------------------------------------------- the driver of Slurm, studies, traces


def test_the_driver_s_files(folder: Path) -> None:
    state = str(folder / "state")
    for place, hold in ((f"{state}.lock", lambda: only_process(state)), (state, lambda: closing(Store(state)))):
        as_stranger(partial(os.symlink, "precious", place))
        with pytest.raises(PluginError, match=f"{place}: expected .*, got a link"), hold():
            pass
        os.unlink(place)
        as_stranger(Path(place).touch)
        with pytest.raises(PluginError, match=f"{place}: expected .*, got one of user 54321"), hold():
            pass
        os.unlink(place)
        with hold():
            assert os.stat(place).st_mode & 0o777 == 0o600
        os.unlink(place)
    assert (folder / "precious").read_bytes() == KEPT


def test_a_secret_key_of_another_user_is_none(folder: Path) -> None:
    write_keys(folder / "keys", "ann")
    secret = folder / "keys" / "ann.key_secret"
    os.chown(secret, STRANGER, STRANGER)
    with pytest.raises(UsageError, match="owned by root or by us, got user 54321"):
        read_secret(secret)


def test_a_database_of_something_else_is_no_store(tmp_path: Path) -> None:
    file = tmp_path / "other"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE t (x)")
    before = file.read_bytes()
    with pytest.raises(UsageError, match="expected a store of version 1, got another database"):
        Store(str(file))
    assert file.read_bytes() == before


def test_only_a_left_over_socket_is_replaced_for_hooks(folder: Path) -> None:
    wake = folder / "wake"

    @contextmanager
    def bound(path: Path) -> Iterator[None]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
            one.bind(str(path))
            yield

    def refused(why: str) -> None:
        with pytest.raises(UsageError, match=why), wake_socket(str(wake)):
            pass

    with bound(wake):
        refused("no other process listens")
        wake.rename(folder / "elsewhere")
        wake.symlink_to("elsewhere")
        refused("expected a socket to replace, or nothing")
        wake.unlink()
        (folder / "elsewhere").rename(wake)
    with wake_socket(str(wake)):
        assert wake.is_socket()
    assert not wake.exists()
    as_stranger(lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).bind(str(wake)))
    refused("user 54321 has one")


def test_studies_and_traces(commands: Commands, folder: Path) -> None:
    (folder / "e.toml").write_text('scenario = {workload = {lublin = 5}, cluster = {nodes = 8}}\npolicies = ["easy"]\n')
    (folder / "out").mkdir(mode=0o777)
    (folder / "out").chmod(0o777)
    as_stranger(lambda: (folder / "out" / LOCK).symlink_to("../precious"))
    assert "got a link" in assert_one_line(commands.emulator("study", "run", "e.toml", "--out", "out"), 2)
    as_stranger(lambda: (folder / "trace").symlink_to("precious"))
    simulate = ("simulate", "--lublin", "5", "--nodes", "8", "--trace", "trace", "--force")
    assert commands.emulator(*simulate).code == 2
    assert (folder / "precious").read_bytes() == KEPT
