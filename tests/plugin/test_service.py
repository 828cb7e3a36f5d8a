"""Services under systemd: they say that they are ready, and alive as long as they take turns; the units that ship are right."""

from __future__ import annotations

import os
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
    copy.write_text(text.replace(commands[0][0], sys.executable).replace("User=cosched", f"User={os.getuid()}"))
    checked = subprocess.run([analyse, "verify", str(copy)], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_there_are_units() -> None:
    names = [
        "cosched-guests.service",
        "cosched-slurm.service",
        "cosched-manager@.service",
        "cosched-scheduler@.service",
    ]
    assert [unit.name for unit in UNITS] == names
