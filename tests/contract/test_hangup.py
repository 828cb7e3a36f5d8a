"""The terminal of a program is closed: SIGHUP is SIGTERM, and what the program can no longer write there does not matter."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from tests.commands import Commands
from tests.emulator.studies.experiments import SHARED, toml
from tests.processes import is_alive, wait_until

from cosched_plugin.site.poll_loop import PollLoop, run
from cosched_terminal.console import Log

SLOW: Final = """
import time
from cosched_plugin.config import choose
class Slow:
    def __init__(self):
        self.easy = choose("easy").make()
    def decide(self, view):
        open("deciding", "w").close()
        time.sleep(0.01)
        yield from self.easy.decide(view)
"""
LIVE: Final = ("serve", "--nodes", "2", "--clock", "scaled", "--speed", "10", "--db", "c.db")


class OnTerminal:
    """A program that is the leader of the session of a terminal of its own."""

    def __init__(self, commands: Commands, *arguments: str, ignored: bool = False) -> None:
        self._master, slave = pty.openpty()

        def become_leader() -> None:
            signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=commands.folder,
            env=commands.environment,
            start_new_session=True,
            preexec_fn=become_leader,  # noqa: PLW1509 - the test has no threads
        )
        os.close(slave)
        os.set_blocking(self._master, False)
        self.written = b""

    def shows(self, text: str) -> bool:
        try:
            self.written += os.read(self._master, 65536)
        except (BlockingIOError, OSError):
            assert self.process.poll() is None, self.written
        return text.encode() in b" ".join(self.written.split())  # long lines are wrapped

    def close(self) -> None:
        os.close(self._master)


@contextmanager
def on_terminals(commands: Commands, *programs: Sequence[str], ignored: bool = False) -> Iterator[list[OnTerminal]]:
    started: list[OnTerminal] = []
    try:
        started.extend(OnTerminal(commands, *arguments, ignored=ignored) for arguments in programs)
        yield started
    finally:
        for each in started:
            each.process.kill()
            each.process.wait(10)


def test_manager_standby_and_scheduler_end_in_order(commands: Commands) -> None:
    folder = commands.folder
    place, users = f"ipc://{folder}/s", f"ipc://{folder}/u"
    manager = ["cosched_emulator", *LIVE, "--bind", place, "--users", users]
    with on_terminals(commands, [*manager, "--out", "run"], ["cosched_plugin", "serve", "--connect", place]) as (
        first,
        scheduler,
    ):
        wait_until(lambda: first.shows("gets the present state"))
        with on_terminals(commands, [*manager, "--standby"]) as (standby,):
            wait_until(lambda: standby.shows("standing by"))
            for each in (standby, scheduler, first):
                each.close()
                assert each.process.wait(20) == 128 + signal.SIGTERM, each.written
    names = {file.name for file in folder.iterdir()}
    assert names >= {"run", "c.db", "c.db-state"}
    assert not names & {"s", "u", "run.partial", "c.db-wal"}


@pytest.mark.parametrize(
    "arguments",
    [
        (
            "cosched_emulator",
            "simulate",
            "--lublin",
            "500",
            "--policy",
            "slow_policy:Slow",
            "--link",
            "zmq",
            "--out",
            "o",
        ),
        ("cosched_emulator", "study", "run", "e.toml", "--out", "o", "--jobs", "1"),
    ],
    ids=["simulate", "study"],
)
def test_a_run_leaves_no_process_and_no_files(arguments: Sequence[str], commands: Commands) -> None:
    folder = commands.folder
    (folder / "slow_policy.py").write_text(SLOW)
    (folder / "e.toml").write_text(toml({"scenario": SHARED, "policies": ["slow_policy:Slow"], "seeds": "1-3"}))
    with on_terminals(commands, arguments) as (program,):
        wait_until(lambda: program.shows("") and (folder / "deciding").exists())
        children = Path(f"/proc/{program.process.pid}/task/{program.process.pid}/children").read_text().split()
        assert children
        program.close()
        assert program.process.wait(20) == 128 + signal.SIGTERM, program.written
    wait_until(lambda: not any(is_alive(int(child)) for child in children))
    assert not list(folder.glob("o.partial"))
    assert not list(folder.rglob("run.json"))
    assert commands.left_over() == []


class Turns(PollLoop):
    """A driver of Slurm whose terminal is closed in its first turn."""

    def __init__(self) -> None:
        pass

    def begin(self) -> None:
        pass

    def turn(self) -> bool:
        os.kill(os.getpid(), signal.SIGHUP)
        return True

    def next_poll_s(self) -> float:
        return 0.0


def test_the_driver_of_slurm_ends_as_on_sigterm() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    said: list[str] = []
    try:
        assert run(Turns(), Log(write=said.append)) == 128 + signal.SIGTERM
    finally:
        signal.signal(signal.SIGHUP, before)
    assert said == ["leaving on SIGTERM; jobs run on, and held ones stay held"]


def test_under_nohup_a_run_goes_on(commands: Commands) -> None:
    """Also where its progress can no longer be shown."""
    (commands.folder / "slow_policy.py").write_text(SLOW)
    simulate = ("cosched_emulator", "simulate", "--lublin", "200", "--policy", "slow_policy:Slow", "--out", "run")
    with on_terminals(commands, simulate, ignored=True) as (program,):
        wait_until(lambda: program.shows("jobs, about"))
        program.close()
        program.process.send_signal(signal.SIGHUP)
        assert program.process.wait(60) in (0, 1), program.written  # its last lines have no reader
    assert (commands.folder / "run" / "summary.json").exists()
