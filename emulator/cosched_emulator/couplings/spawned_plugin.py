"""A scheduler's process as a child: started on a private endpoint, monitored, and always cleaned up."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from cosched_emulator.errors import LinkError
from cosched_plugin.protocol.endpoint import MAX_IPC_PATH_BYTES

ENDPOINT: Final = "{endpoint}"  # stands for the endpoint in a command line
PREFIX: Final = "cosched-"
STALE_AFTER_S: Final = 60.0  # the owner of a younger directory may not have locked it yet
TAIL_BYTES: Final = 4096


class SpawnedPlugin:
    """A child process that serves ``.endpoint``; ``{endpoint}`` in its command line ``argv`` stands for that.

    `stderr_tail` returns its standard error. The constructor removes the directories of killed runs. Use it as a context manager;
    otherwise it is closed when the interpreter exits. Raises LinkError if the process cannot start.
    """

    def __init__(self, argv: Sequence[str], *, stop_s: float = 2.0) -> None:
        self._stop_s = stop_s
        parent = _short_directory()
        remove_stale(parent)
        self.directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))  # mode 0700
        self._lock = os.open(self.directory / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.endpoint = f"ipc://{self.directory / 'socket'}"
        self._command = [part.replace(ENDPOINT, self.endpoint) for part in argv]
        self._changing = threading.Lock()  # held while a new process replaces the old one
        self._closed = False
        try:
            self._process = self._start_process()
        except BaseException:
            self._remove_directory()
            raise
        atexit.register(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """Return the present process; during a replacement, the new one."""
        with self._changing:
            return self._process

    def respawn(self) -> None:
        """Kill the process, and start a new one in its place, from any thread; does nothing after `close`.

        Raises LinkError if it cannot start.
        """
        with self._changing:
            if not self._closed:
                self._process.kill()
                self._process.wait(self._stop_s)
                self._process = self._start_process()

    def stall(self, *, stop: bool) -> None:
        """Stop the process, or let it continue, from any thread."""
        with self._changing:
            if not self._closed:
                self._process.send_signal(signal.SIGSTOP if stop else signal.SIGCONT)

    def stderr_tail(self) -> str:
        """Return the last lines that the process wrote to its standard error, at most 4 KiB."""
        try:
            with (self.directory / "stderr").open("rb") as stderr:
                stderr.seek(0, os.SEEK_END)
                stderr.seek(max(0, stderr.tell() - TAIL_BYTES))
                return stderr.read().decode(errors="replace").strip()
        except FileNotFoundError:
            return ""

    def close(self) -> int:
        """End the process, by force after ``stop_s``, remove its directory, and return its exit code.

        A process that has received bye gets a moment to exit by itself; a stopped process is continued first, to receive it.
        """
        with self._changing:
            self._closed = True  # no replacement from now on
        process = self._process
        process.send_signal(signal.SIGCONT)
        for end, patience_s in ((None, self._stop_s / 4), (process.terminate, self._stop_s)):
            if end is not None:
                end()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience_s)
                break
        else:
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(self._stop_s)
        self._remove_directory()
        atexit.unregister(self.close)
        return -9 if process.returncode is None else process.returncode

    def _start_process(self) -> subprocess.Popen[bytes]:
        """Start the process; its standard error is appended to that of its predecessors."""
        try:
            with (self.directory / "stderr").open("ab") as stderr:
                # A separate process group: Ctrl-C reaches only the manager, which then says bye.
                return subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stderr=stderr, process_group=0)
        except OSError as error:
            raise LinkError(f"cannot start {self._command[0]}: {error}") from error

    def _remove_directory(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def remove_stale(parent: Path) -> list[Path]:
    """Remove the directories in ``parent`` whose runs were killed, and return them.

    A live run holds a lock on its directory; the kernel releases the lock when the process ends, in any way.
    """
    removed = []
    for directory in sorted(parent.glob(f"{PREFIX}*")):
        try:
            about = directory.lstat()
            if about.st_uid != os.getuid() or directory.is_symlink() or time.time() - about.st_mtime < STALE_AFTER_S:
                continue
            lock = os.open(directory / "lock", os.O_RDWR)
        except OSError:
            continue  # not made by this program, or removed meanwhile
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(directory, ignore_errors=True)
            removed.append(directory)
        except OSError:
            pass  # its run is still alive
        finally:
            os.close(lock)
    return removed


def _short_directory() -> Path:
    """Return the directory for temporary files, or /tmp if its paths are too long for a socket."""
    parent = Path(tempfile.gettempdir())
    longest = parent / f"{PREFIX}12345678" / "socket"
    return parent if len(os.fsencode(longest)) <= MAX_IPC_PATH_BYTES else Path("/tmp")
