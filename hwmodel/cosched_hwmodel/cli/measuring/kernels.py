"""Which kernels there are for a machine, and the program that runs them: C where there is a compiler, else numpy."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from cosched_hwmodel.cli.measuring.host import Host, disk_obstacle

COMPILERS: Final = ("cc", "gcc", "clang")
COMPILE_S: Final = 30.0
OPTIONS: Final = ("-O3", "-std=gnu11")
NUMPY: Final = "numpy"
CACHE_SHARE: Final = (3, 4)  # of a cache that its kernel uses: one fits, two do not
STREAM_CACHES: Final = 4  # a stream is as many times as large as the largest cache
LEAST_STREAM_KB: Final = 64 * 1024
FILLED_KB_S: Final = 32 * 1024  # of an array, for each second of the measurement: a dozen are filled, at about 1 GB/s
MEMORY_SHARE: Final = 16  # no kernel takes more than one part in so many of the available memory


class Kernel(NamedTuple):
    """A kernel by its name here, its arguments (see ``kernels.c``), and the unit of its rate."""

    name: str
    kind: str
    argument: str
    unit: str
    working_set_kb: int = 0  # for caches and streams


class Toolchain(NamedTuple):
    """How kernels are started; ``made_by`` is the compiler, or numpy."""

    command: tuple[str, ...]
    made_by: str


def kernels_of(host: Host, disk_folder: str | None, notes: list[str], seconds: float = 60.0) -> list[Kernel]:
    """Return the kernels for a machine: one for each level of cache; ``notes`` gets what is left out, and why.

    ``seconds`` is the time for the measurement: in little of it, large arrays could not even be filled.
    """
    in_time_kb, in_memory_kb = round(seconds * FILLED_KB_S), host.available_mb * 1024 // MEMORY_SHARE
    most_kb = max(1024, min(in_time_kb, in_memory_kb))
    short = "memory" if in_memory_kb < in_time_kb else "time"
    largest: dict[int, int] = {}
    for cache in host.caches:
        largest[cache.level] = max(cache.size_kb, largest.get(cache.level, 0))
    found = [Kernel("integer", "integer", "0", "operations"), Kernel("float", "float", "0", "operations")]
    for level, size_kb in sorted(largest.items()):
        used_kb = size_kb * CACHE_SHARE[0] // CACHE_SHARE[1]
        if used_kb > most_kb:
            notes.append(f"L{level}: its kernel needs {used_kb // 1024} MiB of memory, and {short} is short")
            continue
        found.append(Kernel(f"cache{level}", "chase", str(used_kb), "loads", used_kb))
    wanted_kb = max(LEAST_STREAM_KB, STREAM_CACHES * max(largest.values(), default=0))
    stream_kb = min(wanted_kb, most_kb)
    if stream_kb < wanted_kb:
        notes.append(
            f"memory, stream: arrays of {stream_kb // 1024} MiB, as {short} is short; caches may hold a part of them"
        )
    found.append(Kernel("memory", "chase", str(stream_kb), "loads", stream_kb))
    found.append(Kernel("stream", "stream", str(stream_kb), "bytes", stream_kb))
    obstacle = "not asked for" if disk_folder is None else disk_obstacle(disk_folder)
    if obstacle is None and disk_folder is not None:
        found.append(Kernel("disk", "disk", disk_folder, "bytes"))
    else:
        notes.append(f"disk: {obstacle}; --disk FOLDER names a folder on a disk")
    found.append(Kernel("network", "network", "0", "bytes"))
    return found


def command_of(tools: Toolchain, kernel: Kernel, deadline_s: float) -> list[str]:
    """Return the command line of a kernel, whose process ends by itself after ``deadline_s`` seconds."""
    return [*tools.command, kernel.kind, kernel.argument, str(max(1, round(deadline_s)))]


@contextmanager
def toolchain(notes: list[str], compilers: Sequence[str] = COMPILERS) -> Iterator[Toolchain]:
    """Compile the kernels in a temporary folder that lasts as long as the context; yield numpy's where that fails."""
    source = Path(__file__).with_name("kernels.c")
    # Not in the folder that is measured: a disk may be slow, or full.
    with TemporaryDirectory(prefix="cosched-measure-", ignore_cleanup_errors=True) as folder:
        program = Path(folder) / "kernels"
        problem = f"no C compiler ({', '.join(compilers)}) is on the path" if compilers else "no compiler was asked for"
        for name in compilers:
            compiler = shutil.which(name)
            if compiler is None:
                continue
            problem = _compile(compiler, source, program)
            if not problem:
                yield Toolchain((str(program),), name)
                return
        notes.append(f"kernels: {problem}; numpy runs them instead, at lower rates")
        yield Toolchain((sys.executable, str(Path(__file__).with_name("numpy_kernels.py"))), NUMPY)


def _compile(compiler: str, source: Path, program: Path) -> str:
    """Return why the kernels cannot be compiled, or started; empty if they can."""
    try:
        done = subprocess.run(
            [compiler, *OPTIONS, "-o", str(program), str(source)],
            cwd=program.parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMPILE_S,
            check=False,
        )
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
            return f"{compiler} failed: {lines[0] if lines else f'exit code {done.returncode}'}"
        with workers() as started:  # a folder for temporary files may forbid programs
            started.append(Worker((str(program), "integer", "0", "10"), min(os.sched_getaffinity(0))))
            prepare(started[0])
    except subprocess.TimeoutExpired:
        return f"{compiler} took more than {COMPILE_S:.0f} s"
    except (OSError, KernelError) as error:
        return f"{compiler}: {error}"
    return ""


# Kernels as processes: pinned, told when to work, and never waited for beyond a deadline.

START_S: Final = 10.0  # for a process to start and to prepare its memory
ANSWER_S: Final = 5.0  # for an answer beyond the time of the work itself
END_S: Final = 2.0  # for killed processes to end
_LONGEST: Final = 4096  # bytes of an answer
_SPIN: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class KernelError(Exception):
    """A kernel that could not work; the text says why."""


class Did(NamedTuple):
    """What a kernel did: units of its own (operations, loads, bytes) and nanoseconds."""

    units: int
    ns: int

    @property
    def rate(self) -> float:
        """Return the units for each second."""
        return self.units * 1e9 / self.ns


class Worker:
    """A process that runs one kernel on one CPU."""

    def __init__(self, command: Sequence[str], cpu: int) -> None:
        """Raises KernelError if the process cannot be started or pinned."""
        try:
            # A session of its own: SIGINT of the terminal goes to this program alone, which then kills its workers.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,
                env={**os.environ, **_SPIN},
            )
        except OSError as error:
            raise KernelError(f"cannot be started: {error.strerror or error}") from error
        try:
            os.sched_setaffinity(self._process.pid, {cpu})
        except OSError as error:
            self.kill()
            self.reap(time.monotonic() + END_S)
            raise KernelError(f"cannot be pinned to CPU {cpu}: {error.strerror or error}") from error

    def tell(self, line: str) -> None:
        """Send a line; raises KernelError if the process has ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
        except OSError as error:
            raise KernelError("ended unexpectedly") from error

    def answer(self, deadline: float) -> str:
        """Return the next line; raises KernelError if there is none by ``deadline``, a time of `time.monotonic`."""
        assert self._process.stdout is not None
        stream = self._process.stdout.fileno()
        readable = select.poll()
        readable.register(stream, select.POLLIN)
        data = b""
        while not data.endswith(b"\n"):
            if not readable.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise KernelError("did not answer in time")
            part = os.read(stream, _LONGEST)
            if not part or len(data) > _LONGEST:
                raise KernelError("ended unexpectedly")
            data += part
        line = data.decode(errors="replace").strip()
        if line.startswith("failed"):
            raise KernelError(line.removeprefix("failed").strip())
        return line

    def kill(self) -> None:
        """Ask the kernel of the operating system to end the process; see `reap`."""
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    def reap(self, deadline: float) -> None:
        """Wait for the end of a killed process; one that waits for a broken disk cannot end, and is left."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.01, deadline - time.monotonic()))


@contextmanager
def workers() -> Iterator[list[Worker]]:
    """Yield a list for workers; all in it are killed at the end, whatever ends it."""
    started: list[Worker] = []
    try:
        yield started
    finally:
        deadline = time.monotonic() + END_S
        for worker in started:
            worker.kill()
        for worker in started:
            worker.reap(deadline)


def prepare(worker: Worker) -> None:
    """Let a worker prepare its memory, files and sockets; raises KernelError."""
    worker.tell("prepare")
    worker.answer(time.monotonic() + START_S)


def run_together(together: Sequence[Worker], warm_us: int, span_us: int) -> list[Did]:
    """Let workers run at the same time, ``span_us`` each after ``warm_us`` that do not count.

    Raises KernelError if one of them fails.
    """
    for worker in together:
        worker.tell(f"run {warm_us} {span_us}")
    deadline = time.monotonic() + (warm_us + span_us) / 1e6 + ANSWER_S
    found = []
    for worker in together:
        words = worker.answer(deadline).split()
        if len(words) != 3 or words[0] != "did" or not all(word.isdecimal() for word in words[1:]) or words[2] == "0":
            raise KernelError(f"gave an unknown answer: {' '.join(words)}")
        found.append(Did(int(words[1]), int(words[2])))
    return found
