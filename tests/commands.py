"""Run the real commands as processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGES = [str(ROOT / part) for part in ("hwmodel", "plugin", "emulator")]
RUN_FILES = {
    "jobs.csv", "allocations.csv", "schedule.swf", "workload.swf", "summary.json", "run.json", "timing.json",
}  # fmt: skip
SMALL = ("--lublin", "15", "--nodes", "16")
ROW = "{} {} -1 {} {} -1 -1 {} {} -1 1 1 1 1 1 -1 -1 -1\n"


class Ran(NamedTuple):
    """A command that is over."""

    code: int
    out: str
    err: str


class Commands:
    """Starts commands in a folder, with everything that they leave behind in there too; kills what still runs at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.children: list[subprocess.Popen[str]] = []
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([*PACKAGES, str(folder)]),
            "TMPDIR": str(folder / "t"),
        }
        (folder / "t").mkdir()

    def start(self, package: str, *arguments: str) -> subprocess.Popen[str]:
        """Start ``python -m package arguments``."""
        child = subprocess.Popen(
            [sys.executable, "-m", package, *arguments],
            cwd=self.folder,
            env=self.environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.children.append(child)
        return child

    def emulator(self, *arguments: str) -> Ran:
        """Run ``cosched-emulator`` to its end."""
        return ended(self.start("cosched_emulator", *arguments))

    def plugin(self, *arguments: str) -> Ran:
        """Run ``cosched-plugin`` to its end."""
        return ended(self.start("cosched_plugin", *arguments))

    def left_over(self) -> list[str]:
        """Return what is in the directory for temporary files."""
        return sorted(path.name for path in (self.folder / "t").iterdir())


@contextmanager
def commands_in(folder: Path) -> Iterator[Commands]:
    """Yield `Commands` and clean up after them."""
    commands = Commands(folder)
    try:
        yield commands
    finally:
        for child in commands.children:
            if child.poll() is None:
                child.kill()
            child.communicate(timeout=10)


def ended(child: subprocess.Popen[str], seconds: float = 60.0) -> Ran:
    """Wait for a command's end and return what came of it."""
    out, err = child.communicate(timeout=seconds)
    return Ran(child.returncode, out, err)


def wait_until(happened: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for something; AssertionError if it does not happen."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that is dead and not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def assert_one_line(ran: Ran, code: int, program: str = "cosched-emulator") -> str:
    """Assert that a command failed as it should: the code, one line that says why, and nothing else."""
    assert ran.code == code, ran
    assert ran.out == ""
    assert ran.err.endswith("\n")
    assert ran.err.count("\n") == 1, ran.err
    assert ran.err.startswith(f"{program}: error: "), ran.err
    return ran.err.removeprefix(f"{program}: error: ").strip()
