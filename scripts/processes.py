"""Programs of a source tree as processes with names, whose output goes into files of a folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

PROJECT: Final = Path(__file__).resolve().parents[1]
PACKAGES: Final = ("hwmodel", "plugin", "emulator")  # folders of a source tree with the packages
END_S: Final = 10.0  # longest time for a process to end on request
TAIL_CHARACTERS: Final = 2_000


def environment(tree: Path = PROJECT) -> dict[str, str]:
    """Return this process's environment, changed so that processes import the packages and the scripts of ``tree``."""
    places = [str(tree), *[str(tree / package) for package in PACKAGES]]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places)}


def ran(
    command: Sequence[str], most_s: float, environment: Mapping[str, str] | None = None, *, check: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a command without input to its end, and return what it has printed."""
    return subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=most_s, check=check
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process, with time to end its own children; by force if it takes too long."""
    process.terminate()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(END_S)


class Programs:
    """Processes by name; all of them end with the context. What process NAME prints is in ``folder/NAME.log``."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getitem__(self, name: str) -> subprocess.Popen[bytes]:
        return self._processes[name]

    def start(self, name: str, *command: str) -> None:
        """Start ``python -m COMMAND`` as the process of this name."""
        with self._log(name).open("ab") as log:
            python = [sys.executable, "-m", *command]
            self._processes[name] = subprocess.Popen(
                python, cwd=PROJECT, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def exit_codes(self) -> dict[str, int]:
        """Return the exit codes of the processes that have ended."""
        codes = {name: process.poll() for name, process in self._processes.items()}
        return {name: code for name, code in codes.items() if code is not None}

    def tail(self) -> str:
        """Return what each process printed last."""
        texts = {name: self._log(name).read_text(errors="replace") for name in self._processes}
        return "; ".join(f"{name}: {text[-TAIL_CHARACTERS:].strip()}" for name, text in texts.items())

    def memory_mb(self, name: str) -> float:
        """Return the resident memory of a process in MiB; OSError or IndexError if it has ended."""
        pages = int(Path(f"/proc/{self._processes[name].pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGESIZE") / 2**20

    def close(self) -> None:
        """End all processes, including stopped ones; by force if one takes too long."""
        for process in self._processes.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self._processes.values():
            end(process)

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"
