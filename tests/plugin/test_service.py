"""Services under systemd: they say that they are ready, and alive as long as they take turns; the units that ship are right."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from tests.commands import Commands
from tests.processes import ROOT

from cosched_plugin.common.process import Service

UNITS = sorted([*(ROOT / "scripts" / "systemd").glob("*.service"), *(ROOT / "docs" / "examples").glob("*.service")])


def test_it_is_ready_once_and_alive_three_times_in_the_time_that_is_allowed(tmp_path: Path) -> None:
    clock = iter([0.0, 0.1, 0.99, 1.0, 1.5, 2.1, 2.2])
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(f"{tmp_path}/n")
        told.setblocking(False)
        service = Service({"NOTIFY_SOCKET": f"{tmp_path}/n", "WATCHDOG_USEC": "3000000"}, lambda: next(clock))
        heard = []
        for _ in range(7):
            service.turn()
            try:
                heard.append(told.recv(100).decode())
            except BlockingIOError:
                heard.append("")
    assert heard == ["READY=1", "", "", "WATCHDOG=1", "", "WATCHDOG=1", ""]


def test_it_may_tell_at_each_turn_where_turns_are_long(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(f"{tmp_path}/n")
        told.settimeout(5)
        service = Service({"NOTIFY_SOCKET": f"{tmp_path}/n", "WATCHDOG_USEC": "3000000"}, lambda: 1.0, float("inf"))
        for _ in range(3):
            service.turn()
        assert [told.recv(100) for _ in range(3)] == [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1"]


@pytest.mark.parametrize(
    "more", [{}, {"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "x"}], ids=["none", "another", "bad"]
)
def test_without_a_watchdog_it_says_nothing_more(more: dict[str, str], tmp_path: Path) -> None:
    clock = iter([0.0, 1e9])
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(f"{tmp_path}/n")
        told.setblocking(False)
        service = Service({"NOTIFY_SOCKET": f"{tmp_path}/n", **more}, lambda: next(clock))
        service.turn()
        service.turn()
        assert told.recv(100) == b"READY=1"
        with pytest.raises(BlockingIOError):
            told.recv(100)
    Service({"NOTIFY_SOCKET": f"{tmp_path}/gone"}).turn()  # nobody listens: no error
    Service({}).turn()


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("what", ["manager", "standby", "scheduler"])
def test_programs_are_alive_until_they_hang(what: str, stopped: bool, commands: Commands) -> None:
    folder = commands.folder
    serve = (
        "serve",
        "--nodes",
        "2",
        "--clock",
        "scaled",
        "--speed",
        "10",
        "--users",
        f"ipc://{folder}/u",
        "--db",
        "c.db",
    )
    manager = ("cosched_emulator", *serve, "--bind", f"ipc://{folder}/s")
    watched = {
        "manager": manager,
        "standby": (*manager, "--standby"),
        "scheduler": ("cosched_plugin", "serve", "--connect", f"ipc://{folder}/s", "--policy", "easy"),
    }
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(f"{folder}/n")
        told.settimeout(20)
        if what == "standby":
            first = commands.start(*manager)
            while "serving" not in first.written()[1]:
                assert first.poll() is None
        commands.environment |= {"NOTIFY_SOCKET": f"{folder}/n", "WATCHDOG_USEC": "300000"}
        process = commands.start(*watched[what])
        assert [told.recv(100) for _ in range(3)] == [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1"]
        if stopped:
            process.send_signal(signal.SIGSTOP)
            told.settimeout(1.0)
            said_before: list[bytes] = []
            with suppress(TimeoutError):
                while len(said_before) < 20:
                    said_before.append(told.recv(100))
            assert len(said_before) < 20
            process.send_signal(signal.SIGCONT)
            told.settimeout(20)
        assert told.recv(100) == b"WATCHDOG=1"


@pytest.mark.parametrize("unit", UNITS, ids=[unit.name for unit in UNITS])
def test_the_units_are_right(unit: Path, tmp_path: Path) -> None:
    """systemd finds no fault in them, and their commands take their options."""
    text = unit.read_text(encoding="utf-8").replace("\\\n", " ")
    commands = [line.partition("=")[2].lstrip("-").split() for line in text.splitlines() if line.startswith("Exec")]
    for command in commands:
        module = Path(command[0]).name.replace("-", "_")
        first = next(place for place, word in enumerate(command) if word.startswith("--"))
        asked = [sys.executable, "-m", module, *command[1:first], "--help"]
        ran = subprocess.run(asked, capture_output=True, text=True, check=True)
        assert [word for word in command[first:] if word.startswith("--") and word not in ran.stdout] == []
    analyse = shutil.which("systemd-analyze")
    if analyse is None:
        pytest.skip("systemd-analyze is not installed")
    copy = tmp_path / unit.name
    copy.write_text(
        re.sub("^User=.*", f"User={os.getuid()}", text, flags=re.MULTILINE).replace(commands[0][0], sys.executable)
    )
    checked = subprocess.run([analyse, "verify", str(copy)], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
    rated = subprocess.run(
        [analyse, "security", "--offline=true", str(copy)], capture_output=True, text=True, check=True
    )
    found = re.search(r"Overall exposure level for \S+: (\d+\.\d+)", rated.stdout)
    assert found is not None
    assert float(found[1]) <= 3.0


def allowed_calls(unit: Path, analyse: str) -> set[str]:
    """Return the system calls that the filter of a unit allows; lines are applied in order, and ~ takes away."""
    told = subprocess.run([analyse, "syscall-filter"], capture_output=True, text=True, check=True).stdout
    sets = {block.split("\n")[0]: block.split("\n")[1:] for block in told.split("\n\n") if block.startswith("@")}

    def calls(name: str) -> set[str]:
        if not name.startswith("@"):
            return {name}
        lines = [line.strip() for line in sets[name]]
        return {call for line in lines if line and line[0] != "#" for call in calls(line)}

    allowed = calls("@default")  # an allow-list has it always
    for line in unit.read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition("=")
        if key == "SystemCallFilter":
            named = {call for name in value.lstrip("~").split() for call in calls(name)}
            allowed = allowed - named if value.startswith("~") else allowed | named
    return allowed


def families(unit: Path) -> set[str]:
    """Return the families of sockets that a unit allows."""
    (line,) = [each for each in unit.read_text("utf-8").splitlines() if each.startswith("RestrictAddressFamilies=")]
    return set(line.partition("=")[2].split())


def used(trace: Path) -> tuple[set[str], set[str]]:
    """Return the system calls and the families of sockets in what strace wrote; what it does before the program is in it, too."""
    text = trace.read_text(encoding="utf-8", errors="replace")
    called = set(re.findall(r"^(?:\d+ +)?([a-z_0-9]+)\(", text, re.MULTILINE))
    return called, set(re.findall(r"\bsocket\((AF_\w+)", text))


STRACE, ANALYSE = shutil.which("strace"), shutil.which("systemd-analyze")


# Without a systemd that runs: what the programs do is compared with what their units forbid.
@pytest.mark.skipif(STRACE is None or ANALYSE is None, reason="strace or systemd-analyze is not installed")
def test_units_forbid_nothing_that_the_programs_call(commands: Commands) -> None:
    """A manager with users, accounts and estimates, and a scheduler with metrics and a status."""
    assert STRACE is not None
    assert ANALYSE is not None
    folder = commands.folder
    serve = [
        "serve", "--nodes", "4", "--clock", "scaled", "--speed", "50", "--users", f"ipc://{folder}/u", "--db", "c.db",
        "--bind", f"ipc://{folder}/s", "--estimate-starts", "--metrics", "127.0.0.1:0", "--web", "127.0.0.1:0", "--standby",
    ]  # fmt: skip
    scheduler = [
        "serve", "--connect", f"ipc://{folder}/s", "--policy", "lomarc-r", "--standby", "--set-aside", "--metrics",
        "127.0.0.1:0", "--status", f"ipc://{folder}/status",
    ]  # fmt: skip
    programs = {
        "cosched-manager@.service": ["cosched_emulator", *serve],
        "cosched-scheduler@.service": ["cosched_plugin", *scheduler],
    }
    started = []
    for unit, command in programs.items():
        traced = ["strace", "-f", "-qq", "-o", f"{folder}/{unit}.trace", sys.executable, "-m", *command]
        environment = {**os.environ, **commands.environment}
        started.append(subprocess.Popen([STRACE, *traced[1:]], cwd=folder, env=environment, stderr=subprocess.PIPE))
    try:
        manager = ("--manager", f"ipc://{folder}/u", "--timeout", "60")
        job = commands.emulator("submit", "-n", "2", "-t", "1", "--run", "5", *manager)
        assert job.out == "Submitted batch job 1\n"
        assert commands.emulator("wait", "1", *manager).code == 0
    finally:
        for process in reversed(started):
            for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text("ascii").split():
                os.kill(int(child), signal.SIGTERM)
            process.communicate(timeout=60)
    for unit in programs:
        path = next(each for each in UNITS if each.name == unit)
        called, sockets = used(folder / f"{unit}.trace")
        assert {"openat", "epoll_wait"} <= called
        # As root alone SQLite gives the files beside a database to its owner.
        roots = {"fchown"} if os.geteuid() == 0 else set()
        assert called - allowed_calls(path, ANALYSE) - roots == set()
        assert sockets - families(path) == set()


def test_there_are_units() -> None:
    names = [
        "cosched-guests.service",
        "cosched-slurm.service",
        "cosched-manager@.service",
        "cosched-scheduler@.service",
    ]
    assert [unit.name for unit in UNITS] == names
