"""The three commands as a user types them, and their errors."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.processes import Forked, Process, Ran, ended, environment, fork_program, killed_at_the_end, start_python

RUN_FILES = {
    "jobs.csv", "allocations.csv", "schedule.swf", "workload.swf", "summary.json", "run.json", "timing.json",
}  # fmt: skip
SMALL = ("--lublin", "15", "--nodes", "16")
ROW = "{} {} -1 {} {} -1 -1 {} {} -1 1 1 1 1 1 -1 -1 -1\n"


class Commands:
    """Starts commands in a folder, with their temporary files in that folder."""

    def __init__(self, folder: Path, children: list[Process]) -> None:
        self.folder = folder
        self.children = children
        self.environment = environment(folder, TMPDIR=str(folder / "t"))
        (folder / "t").mkdir()

    def start(self, module: str, *arguments: str) -> Forked:
        """Start ``python -m module arguments`` as a fork of this process."""
        child = fork_program(module, *arguments, folder=self.folder, env=self.environment)
        self.children.append(child)
        return child

    def start_python(self, *arguments: str) -> subprocess.Popen[str]:
        """Start Python itself with some arguments."""
        child = start_python(*arguments, folder=self.folder, env=self.environment)
        self.children.append(child)
        return child

    def emulator(self, *arguments: str) -> Ran:
        """Run ``cosched-emulator`` to its end."""
        return ended(self.start("cosched_emulator", *arguments))

    def plugin(self, *arguments: str) -> Ran:
        """Run ``cosched-plugin`` to its end."""
        return ended(self.start("cosched_plugin", *arguments))

    def hwmodel(self, *arguments: str) -> Ran:
        """Run ``cosched-hwmodel`` to its end."""
        return ended(self.start("cosched_hwmodel", *arguments))

    def left_over(self) -> list[str]:
        """Return what is in the directory for temporary files."""
        return sorted(path.name for path in (self.folder / "t").iterdir())


@contextmanager
def commands_in(folder: Path) -> Iterator[Commands]:
    """Yield `Commands` and kill programs that still run at the end."""
    with killed_at_the_end() as children:
        yield Commands(folder, children)


def assert_one_line(ran: Ran, code: int, program: str = "cosched-emulator") -> str:
    """Assert that a command failed as it should: the code, one line that says why, and nothing else."""
    assert ran.code == code, ran
    assert ran.out == ""
    assert ran.err.endswith("\n")
    assert ran.err.count("\n") == 1, ran.err
    assert ran.err.startswith(f"{program}: error: "), ran.err
    return ran.err.removeprefix(f"{program}: error: ").strip()
