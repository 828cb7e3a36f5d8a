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
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, Self, TypeAlias

from cosched_emulator.couplings.link import Link
from cosched_emulator.errors import LinkError
from cosched_emulator.scenario.fault_sections import PluginFaultsSection
from cosched_emulator.scenario.faults import USUAL_BATCHES
from cosched_hwmodel.draws import key, uniform
from cosched_plugin.common.deadline import PLACE_SIGNAL
from cosched_plugin.protocol.endpoint import MAX_IPC_PATH_BYTES
from cosched_plugin.protocol.messages import Action, Event, Welcome

ENDPOINT: Final = "{endpoint}"  # stands for the endpoint in a command line
PREFIX: Final = "cosched-"
STALE_AFTER_S: Final = 60.0  # the owner of a younger directory may not have locked it yet
TAIL_BYTES: Final = 4096
PLACE_S: Final = 0.5  # for it to say where it is, or why it ends
STOP_S: Final = 2.0  # for the process to end when it is asked to


class SpawnedPlugin:
    """A child process that serves ``.endpoint``; ``{endpoint}`` in its command line ``argv`` stands for that.

    `stderr_tail` returns its standard error. The constructor removes the directories of killed runs. Use it as a context manager;
    otherwise it is closed when the interpreter exits. Raises LinkError if the process cannot start.
    """

    def __init__(self, argv: Sequence[str]) -> None:
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

    def __exit__(self, *_: object) -> None:
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
                self._process.wait(STOP_S)
                self._process = self._start_process()

    def stall(self, *, stop: bool) -> None:
        """Stop the process, or let it continue, from any thread."""
        with self._changing:
            if not self._closed:
                self._process.send_signal(signal.SIGSTOP if stop else signal.SIGCONT)

    def tell_place(self) -> None:
        """Have the process write where it is to its standard error; it may be in an endless loop of a policy."""
        with self._changing:
            alive = not self._closed and self._process.poll() is None and _takes(self._process.pid, PLACE_SIGNAL)
            before = self.stderr_tail()
            if alive:
                self._process.send_signal(PLACE_SIGNAL)
        until_s = time.monotonic() + PLACE_S
        while alive and self.stderr_tail() == before and time.monotonic() < until_s:
            time.sleep(0.01)

    def last_words(self) -> str:
        """Return `stderr_tail`, after a moment for the process to end: it then says why."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(PLACE_S)
        return self.stderr_tail()

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
        """End the process, by force after `STOP_S`, remove its directory, and return its exit code.

        A process that has received bye gets a moment to exit by itself; a stopped process is continued first, to receive it.
        """
        with self._changing:
            self._closed = True  # no replacement from now on
        process = self._process
        process.send_signal(signal.SIGCONT)
        for end, patience_s in ((None, STOP_S / 4), (process.terminate, STOP_S)):
            if end is not None:
                end()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience_s)
                break
        else:
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)
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


# A link that kills or stalls the scheduler's process around batches that a fault plan draws.

Moment: TypeAlias = Literal["before", "during", "after"]
MOMENTS: Final[tuple[Moment, ...]] = ("before", "during", "after")
USUAL_EXCHANGE_S: Final = 0.001  # assumed duration of the first exchange
JOIN_S: Final = 5.0


class PluginFault(NamedTuple):
    """The process is killed or stalled around one exchange; during it, this happens after ``share`` of a usual exchange's time."""

    kind: Literal["kill", "stall"]
    moment: Moment
    share: float


def plugin_faults(faults: PluginFaultsSection, seed: int, batches: int = USUAL_BATCHES) -> dict[int, list[PluginFault]]:
    """Return the faults of the process by batch number, counted from 1: kills first.

    They fall among the first ``batches``, unless the plan gives another number. A batch has at most one kill and one stall, so few
    batches limit the number of faults.
    """
    batches = batches if faults.batches is None else faults.batches
    drawn: dict[int, list[PluginFault]] = {}
    kinds: tuple[tuple[Literal["kill", "stall"], int], ...] = (("kill", faults.kills), ("stall", faults.stalls))
    for kind, count in kinds:
        order = sorted(range(1, batches + 1), key=lambda batch: (key(seed, f"plugin {kind}", batch), batch))
        for batch in sorted(order[:count]):
            moment = MOMENTS[key(seed, f"plugin {kind} moment", batch) % len(MOMENTS)]
            share = uniform(seed, f"plugin {kind} time", batch)
            drawn.setdefault(batch, []).append(PluginFault(kind, moment, share))
    return drawn


class FaultyPluginLink:
    """A link to ``plugin`` by way of ``link``, which must follow `SpawnedPlugin.process`.

    ``counts`` holds the numbers of "killed" and "stalled"; ``note`` is called with (short word, text) for each.
    """

    def __init__(
        self,
        link: Link,
        plugin: SpawnedPlugin,
        faults: PluginFaultsSection,
        seed: int,
        *,
        batches: int = USUAL_BATCHES,
        note: Callable[[str, str], None] = lambda _word, _text: None,
    ) -> None:
        """``batches`` is that of `plugin_faults`."""
        self.counts: Counter[str] = Counter()
        self._link = link
        self._plugin = plugin
        self._stall_s = faults.stall_s
        self._faults = plugin_faults(faults, seed, batches)
        self._note = note
        self._batches = 0
        self._exchange_s = USUAL_EXCHANGE_S  # of the shortest exchange so far: longer ones were probably disturbed
        self._threads: list[threading.Thread] = []
        self._closing = threading.Event()

    def open(self, inventory: Callable[[], Welcome]) -> None:
        """Open the link."""
        self._link.open(inventory)

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        """Exchange, with the faults planned for this batch."""
        self._batches += 1
        faults = self._faults.get(self._batches, ())
        for fault in faults:
            self.counts["killed" if fault.kind == "kill" else "stalled"] += 1
            self._note(f"plugin-{fault.kind}", f"{fault.moment} batch {seq}")
            if fault.moment == "before":
                self._strike(fault)
            elif fault.moment == "during":
                self._begin(self._strike_later, fault)
        started_s = time.perf_counter()
        actions = self._link.exchange(seq, now_us, events)
        if not faults:
            self._exchange_s = min(self._exchange_s, time.perf_counter() - started_s)
        for fault in faults:
            if fault.moment == "after":
                self._strike(fault)
        return actions

    def close(self) -> None:
        """Cancel pending faults, let a stopped process continue, and close the link."""
        self._closing.set()
        for thread in self._threads:
            thread.join(JOIN_S)
        self._threads.clear()
        self._link.close()

    def _strike(self, fault: PluginFault) -> None:
        if fault.kind == "kill":
            self._plugin.respawn()
        else:
            self._plugin.stall(stop=True)
            self._begin(self._go_on_later)

    def _strike_later(self, fault: PluginFault) -> None:
        self._closing.wait(fault.share * self._exchange_s)
        if self._closing.is_set():
            return
        if fault.kind == "stall":
            self._plugin.stall(stop=True)
            self._go_on_later()
        else:
            with contextlib.suppress(LinkError):  # the link notices that the process is missing
                self._plugin.respawn()

    def _go_on_later(self) -> None:
        self._closing.wait(self._stall_s)
        self._plugin.stall(stop=False)

    def _begin(self, target: Callable[..., None], *arguments: PluginFault) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()


def _takes(pid: int, number: signal.Signals) -> bool:
    """Return whether a process handles a signal, instead of dying of it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    caught = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (number - 1) & 1)
