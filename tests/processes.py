"""Programs as processes of their own: how tests start them, wait for them, end them, and read what they have written.

A program of ours that a test starts by `fork_program` is a fork of the test's process, in which its modules are loaded already. It
equals a process that Python starts in everything that a test can see (arguments, environment, folder, streams, signals, exit
code), and takes a tenth of the time. `start_python` starts Python itself: for scripts, and for tests of loading modules.
"""

from __future__ import annotations

import atexit
import faulthandler
import gc
import importlib
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Protocol, TextIO

from scripts.processes import Programs

ROOT = Path(__file__).parents[1]
PACKAGES = [str(ROOT / part) for part in ("hwmodel", "plugin", "emulator")]
END_S = 60.0  # a program that takes longer hangs
HIDDEN_WARNINGS = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)


class Ran(NamedTuple):
    """The result of a program that has ended."""

    code: int
    out: str
    err: str


class Process(Protocol):
    """What `subprocess.Popen` and `Forked` have in common, as far as tests use it."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def communicate(self, *, timeout: float | None = None) -> tuple[str, str]: ...
    def send_signal(self, number: int, /) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


# ---------------------------------------------------------------- starting


def environment(*places: Path | str, **more: str) -> dict[str, str]:
    """Return an environment in which Python finds the project's packages and those in ``places``."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*PACKAGES, *map(str, places)]), **more}


def start_python(
    *arguments: str, folder: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start Python with some arguments, as a new process."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment() if env is None else env,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def run_command(
    *command: Path | str, folder: Path | None = None, env: Mapping[str, str] | None = None, seconds: float = END_S
) -> Ran:
    """Run a script or any other program to its end."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment() if env is None else env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def run_python(
    *arguments: str, folder: Path | None = None, env: Mapping[str, str] | None = None, seconds: float = END_S
) -> Ran:
    """Run Python with some arguments to its end, as a new process."""
    return ended(start_python(*arguments, folder=folder, env=env), seconds)


def fork_program(
    module: str,
    *arguments: str,
    folder: Path | None = None,
    env: Mapping[str, str] | None = None,
    log: Path | None = None,
    terminal: int | None = None,
) -> Forked:
    """Start ``python -m module arguments`` as a fork of this process.

    With ``log``, what it writes is appended to that file; ``terminal``: its streams, and it is in a session of its own.
    """
    _load_everything()
    foreign = _modules_of_tests()
    if log is None:
        out, err = os.memfd_create("out"), os.memfd_create("err")
    else:
        out, err = (os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND) for _ in range(2))
    pid = os.fork()
    if pid == 0:
        if terminal is not None:
            os.setsid()
        streams = (os.open(os.devnull, os.O_RDONLY), out, err) if terminal is None else (terminal,) * 3
        _become(module, arguments, folder, environment() if env is None else env, streams, foreign)
    return Forked(pid, out, err)


class Forked:
    """A fork of this process that runs a program; what it writes goes to files in memory, so it never waits for a reader."""

    def __init__(self, pid: int, out: int, err: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = os.pidfd_open(pid)
        self._files = (out, err)
        self._written: tuple[str, str] | None = None

    def poll(self) -> int | None:
        """Return the exit code, or minus the number of the signal that ended it; None while it runs."""
        return self._wait(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code; TimeoutExpired when it takes longer."""
        code = self._wait(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired([f"fork {self.pid}"], timeout)
        return code

    def communicate(self, *, timeout: float | None = None) -> tuple[str, str]:
        """Wait for the end and return what was written to standard output and standard error."""
        self.wait(timeout)
        assert self._written is not None
        return self._written

    def written(self) -> tuple[str, str]:
        """Return what was written to standard output and standard error so far."""
        return self._written or (_content(self._files[0]), _content(self._files[1]))

    def send_signal(self, number: int, /) -> None:
        """Send a signal, unless the program has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _wait(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            waiting = select.poll()
            waiting.register(self._ended, select.POLLIN)
            if waiting.poll(None if timeout is None else timeout * 1000):
                self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
                out, err = (_content(file) for file in self._files)
                self._written = out, err
                for file in (self._ended, *self._files):
                    os.close(file)
        return self.returncode


class ForkedPrograms(Programs):
    """The programs of a proof as forks of this process, which start sooner than the proof's own."""

    def start(self, name: str, *command: str) -> None:
        """Start ``python -m COMMAND`` as the process of this name."""
        started: Any = fork_program(*command, folder=ROOT, env=self._environment, log=self._log(name))
        self._processes[name] = started  # it has what a proof uses of `Popen`


def _content(file: int) -> str:
    return os.pread(file, os.fstat(file).st_size, 0).decode()


@cache
def _load_everything() -> None:
    """Load all modules of the two programs except the plotting one, and those that numpy loads late, so that a fork has them."""
    for name in ("numpy.ma", "numpy.random"):
        importlib.import_module(name)
    for package in ("cosched_terminal", "cosched_hwmodel", "cosched_plugin", "cosched_emulator"):
        found = importlib.import_module(package)
        for module in pkgutil.walk_packages(found.__path__, f"{package}."):
            if not module.name.endswith((".__main__", ".plot")):
                importlib.import_module(module.name)


def _modules_of_tests() -> list[str]:
    """Return the names of loaded modules that are neither installed nor of this project: policies of tests, perhaps.

    This is the parent's work: a fork that looks at all modules gets a copy of each page of memory that it touches.
    """
    known = (str(ROOT), sys.prefix, sys.base_prefix)
    files = [(name, getattr(module, "__file__", None)) for name, module in list(sys.modules.items())]
    return [name for name, file in files if file is not None and not file.startswith(known)]


def _become(
    module: str,
    arguments: Iterable[str],
    folder: Path | None,
    env: Mapping[str, str],
    streams: Iterable[int],
    foreign: Iterable[str],
) -> NoReturn:
    """In a fork: run ``python -m module arguments``; never return to the test."""
    code = 70
    try:
        gc.freeze()  # do not collect objects of the test, such as the parent's sockets
        _forget_the_test(foreign)
        for number, file in enumerate(streams):
            os.dup2(file, number)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        sys.stdin = open(0, closefd=False, encoding="utf-8")  # noqa: SIM115 - until the end
        sys.stdout = open(1, "w", closefd=False, encoding="utf-8")  # noqa: SIM115
        sys.stderr = open(2, "w", 1, closefd=False, encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
        os.environ.clear()
        os.environ.update(env)
        if folder is not None:
            os.chdir(folder)
        sys.path[:0] = [os.getcwd(), *env["PYTHONPATH"].split(os.pathsep)]
        sys.argv = ["-m", *arguments]
        if not hasattr(sys.modules.get(module), "__path__"):
            sys.modules.pop(module, None)  # the test has imported it
        code = _exit_code(lambda: runpy.run_module(module, run_name="__main__", alter_sys=True))
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _exit_code(program: Callable[[], object]) -> int:
    """Run a program and return its exit code as Python would have it."""
    try:
        program()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        traceback.print_exc()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _forget_the_test(foreign: Iterable[str]) -> None:
    """Undo what pytest and a test have set in this process, and forget these modules."""
    faulthandler.disable()
    atexit._clear()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    sys.excepthook, sys.unraisablehook = sys.__excepthook__, sys.__unraisablehook__
    threading.excepthook = threading.__excepthook__
    warnings.showwarning = _show_warning
    warnings.resetwarnings()
    for kind in HIDDEN_WARNINGS:
        warnings.simplefilter("ignore", kind)
    tempfile.tempdir = None
    sys.meta_path[:] = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("_pytest")]
    for name in foreign:  # of other tests, perhaps of the same name
        del sys.modules[name]
    importlib.invalidate_caches()


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    (file or sys.stderr).write(warnings.formatwarning(message, category, filename, lineno, line))


# ---------------------------------------------------------------- waiting, ending


def ended(process: Process, seconds: float = END_S) -> Ran:
    """Wait for a program's end and return its result."""
    out, err = process.communicate(timeout=seconds)
    return Ran(process.wait(), out, err)


def wait_until(happened: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for a condition; AssertionError if it does not become true."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def estimating_worker(manager: int) -> int:
    """Return the number of the process that makes a manager's estimates of starts, 0 without one; it runs like others from now on.

    It asks for the processor only when nobody else does, and on a machine that is full of tests that is never.
    """
    for child in Path(f"/proc/{manager}/task/{manager}/children").read_text().split():
        with suppress(OSError):  # it has ended, or only root may do so
            if b"estimating_worker" in Path(f"/proc/{child}/cmdline").read_bytes():
                with suppress(PermissionError):
                    os.sched_setscheduler(int(child), os.SCHED_OTHER, os.sched_param(0))
                return int(child)
    return 0


def free_port() -> int:
    """Return the number of a tcp port that is free, as is the one behind it."""
    while True:
        with socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            port = int(one.getsockname()[1])
            with suppress(OSError, OverflowError):
                other.bind(("127.0.0.1", port + 1))
                return port


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@contextmanager
def killed_at_the_end() -> Iterator[list[Process]]:
    """Yield a list for programs; those that still run at the end are killed."""
    processes: list[Process] = []
    try:
        yield processes
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
        for process in processes:
            process.communicate(timeout=10)
