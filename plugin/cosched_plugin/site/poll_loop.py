"""The process of an adapter to a real manager: a poll becomes a snapshot, which goes to the driver, turn by turn, until a signal.

An adapter brings a `Source` (what is polled), a `Manager` (what the answers mean) and a `BaseActuator` (what is done there); `Enforcer`
and `Observer` are the two loops. A poll that is not answered is no snapshot: nothing has happened, and nothing is decided.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import stat
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from cosched_hwmodel.units import SECOND_US
from cosched_plugin.common.errors import PluginError, ProtocolError, UsageError
from cosched_plugin.common.process import Service, freeze_heap, stop_on_signals
from cosched_plugin.common.slurm_notation import natural
from cosched_plugin.common.sockets import check_free_path
from cosched_plugin.common.status import QUEUE_GAUGES, Status, Value
from cosched_plugin.protocol.messages import StartJob, UsageTuple, Welcome
from cosched_plugin.site.books import Books
from cosched_plugin.site.driver import Driver
from cosched_plugin.site.snapshots import Rules, Snapshot
from cosched_terminal.console import INFO, WARNING, Log
from cosched_terminal.own_file import open_own

POLL_S: Final = 0.05
MOST_POLL_S: Final = 5.0
NOTICE_S: Final = 3.0
SILENT_S: Final = 0.5  # between two questions that the manager has not answered
MOST_NEW: Final = 20  # records that are named at once with their reason
MOST_LETTERS: Final = 450  # of the names of others, by their reason
_FIRST_BACK_OFF_US: Final = 2 * SECOND_US
_MOST_BACK_OFF_US: Final = 64 * SECOND_US


class Silent(Exception):
    """The manager does not answer."""


class Source(Protocol):
    """What is asked of a manager at each poll."""

    name: str  # of the manager, as people call it
    odd: Mapping[str, str]  # records of the last answers that were left out, and why
    took_s: float = 0.0  # by the last poll, without what it asked once only

    def connect(self, until_s: float) -> None:
        """Get the first answers, or raise Silent; no question begins after ``until_s`` of the monotonic clock."""

    def poll(self, now_s: float) -> bool:
        """Ask, and keep the answers; return whether something has changed. Silent."""


class LoggedJob(NamedTuple):
    """A job as a log of jobs has it; times are seconds since the epoch."""

    job_id: int
    submit_s: int
    on_nodes: bool = False  # and has not ended
    status: int | None = None  # how it has ended, in SWF's numbers
    start_s: int = 0
    run_s: int = 0  # without suspensions
    nodes: int = 0  # 0: it never ran
    processors: int = 0
    estimate_s: float = 0.0
    usage: UsageTuple | None = None
    user: str = ""
    name: str = ""
    queue: str = ""


class Manager(Protocol):
    """What the answers of a manager mean; jobs have the protocol's numbers. An adapter extends it."""

    source: Source
    machine: Welcome  # without jobs: nodes, beliefs, what the manager can do
    rules: Rules
    left: dict[int, str]  # jobs of our queues that the scheduler is not told of, and why
    limited: dict[int, str]  # jobs for which a limit of the manager leaves no room now, and which
    changed: Mapping[str, str]  # nodes, or licences, that differ from what `machine` says of them, and how
    comments: dict[int, str]  # what is wrong with what jobs say of themselves
    not_before_us: dict[int, int]  # jobs that a snapshot shows as held until then
    failures: dict[int, int]  # starts of a job that have not come true, in a row

    def snapshot(self, now_us: int, books: Books) -> Snapshot:
        """Return what the last poll has shown; ``books`` are what the scheduler knows."""

    def label(self, job_id: int) -> str:
        """Return the name by which people know a job."""

    def pending_reason(self, job_id: int) -> str:
        """Return why a job is pending, in the manager's words."""

    def names_of(self, start: StartJob) -> list[str]:
        """Return the names of a start's nodes."""

    def history(self, done: Container[int]) -> Iterator[LoggedJob]:
        """Yield the jobs of our queues at the last poll but those ``done``."""

    def due_us(self) -> int | None:
        """Return when a snapshot may differ from the last one although no poll has."""
        return min(self.not_before_us.values(), default=None)

    def back_off(self, job_ids: Iterable[int], now_us: int) -> None:
        """Let jobs wait whose start has failed: 2 s, and twice as long with every failure in a row."""
        for job_id in job_ids:
            failures = self.failures.get(job_id, 0)
            self.failures[job_id] = failures + 1
            self.not_before_us[job_id] = now_us + min(_MOST_BACK_OFF_US, _FIRST_BACK_OFF_US << min(failures, 10))


class Clock:
    """Time since the epoch; in microseconds it never runs backwards: where it was set back, it runs at half speed for a while."""

    def __init__(self, now_s: Callable[[], float] = time.time) -> None:
        self.now_s = now_s
        self._latest_us = self._shown_us = 0  # what was told last, and what the clock has shown

    def now_us(self) -> int:
        """Return the time, or a later one that was told, and half of what has passed since."""
        shown_us = int(self.now_s() * SECOND_US)
        if shown_us >= self._latest_us:
            self._latest_us = shown_us
        else:
            self._latest_us += max(0, shown_us - self._shown_us) // 2
        self._shown_us = shown_us
        return self._latest_us


class Notices:
    """Writes to the log what holds now, each thing once for as long as it holds."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._said: dict[str, dict[Any, str]] = {}

    def tell(self, kind: str, text: str, now: Mapping[Any, str], level: str = WARNING) -> None:
        """Tell what is new; ``text`` has places for the key and the reason."""
        said, self._said[kind] = self._said.get(kind, {}), {**now}
        new = sorted(now.items() - said.items(), key=lambda item: (natural(str(item[0])), item[1]))
        for key, why in new[:MOST_NEW]:
            whose = {"job": key} if isinstance(key, int) else {}
            self._log(kind, text.format(key, why), level=level, reason=why, **whose)
        more: dict[str, list[str]] = {}
        for key, why in new[MOST_NEW:]:
            more.setdefault(why, []).append(str(key))
        for why, keys in list(more.items())[:MOST_NEW]:
            self._log(
                kind,
                f"{len(keys)} more like this: {', '.join(keys)[:MOST_LETTERS]}: {why}"[: 2 * MOST_LETTERS],
                level=level,
            )


class PollLoop:
    """A manager that is polled, and a driver that is told of it. The clock comes in: tests replay recorded time."""

    leaves = "jobs run on, and held ones stay held"  # what is said at the end

    def __init__(self, manager: Manager, driver: Driver, clock: Clock, log: Log, left_word: str) -> None:
        """``left_word``: jobs that are not told of ``is`` or ``would be`` left to the manager."""
        self.driver = driver
        self.manager = manager
        self.clock = clock
        self.log = log
        self._notices = Notices(log)
        self._left = f"job {{}} {left_word} left to {manager.source.name}: {{}}"
        self._silent_since: float | None = None
        self._least_rest_s = POLL_S  # between two polls
        self.gauges = dict(QUEUE_GAUGES)  # of the status, by its fields
        self.status = Status(self.fields, self.gauges)

    def fields(self) -> Mapping[str, Value]:
        """Return what the status says of the queue; another thread asks."""
        ledger = self.driver.books.ledger
        return {
            "manager": self.manager.source.name,
            "queue_length": len(ledger.queue),
            "running_jobs": len(ledger.running),
        }

    def begin(self) -> None:
        """Take over, from the store and the last poll."""
        self.driver.begin(self.clock.now_us(), self._snapshot())
        self._turn()

    def end(self) -> None:
        """Do what is to be done before the process leaves, in a short time."""

    def _turn(self) -> None:
        began = time.perf_counter()
        self._decide()
        self.status.count_answer(time.perf_counter() - began)

    def turn(self) -> bool:
        """Poll, and do what follows; return whether the manager has answered."""
        changed = self._poll()
        if changed is None:
            return False
        due_us = self._due_us()
        if changed or (due_us is not None and due_us <= self.clock.now_us()):
            self.driver.update(self.clock.now_us(), self._snapshot())
            self._turn()
        return True

    def next_poll_s(self) -> float:
        """Return in how many seconds to poll again: sooner, where something is due without a change at the manager."""
        # A poll of many jobs costs the manager as much as it takes here: it has two thirds of the time to itself.
        rest_s = max(min(MOST_POLL_S, 2 * self.manager.source.took_s), self._least_rest_s)
        due_us = self._due_us()
        return rest_s if due_us is None else min(rest_s, max(0.0, (due_us - self.clock.now_us()) / SECOND_US))

    def _due_us(self) -> int | None:
        moments = (self.driver.due_us(), self.manager.due_us())
        return min([at_us for at_us in moments if at_us is not None], default=None)

    def _poll(self) -> bool | None:
        """Ask; return whether something has changed, or None where the manager does not answer."""
        source, now_s = self.manager.source, self.clock.now_s()
        try:
            changed = source.poll(now_s)
        except Silent as error:
            if self._silent_since is None:
                self._silent_since = now_s
                self.log("silent", f"{source.name} does not answer, and nothing is decided: {error}", level=WARNING)
            return None
        if self._silent_since is not None:
            self.log("answers", f"{source.name} answers again, after {now_s - self._silent_since:.1f} s")
            self._silent_since = None
        self._notices.tell("odd-record", "{} is not understood: {}", source.odd)
        return changed

    def _snapshot(self) -> Snapshot:
        """Return what the last poll has shown, and log what is new."""
        snapshot = self.manager.snapshot(self.clock.now_us(), self.driver.books)
        self._notices.tell("left", self._left, self.manager.left, INFO)
        self._notices.tell("limited", "job {} waits: {}", self.manager.limited, INFO)
        self._notices.tell("changed", "{} is used as it was, until a restart: {}", self.manager.changed)
        self._notices.tell("comment", "job {} counts as unknown: {}", self.manager.comments)
        return snapshot

    def _decide(self) -> None:
        """Do what follows from a snapshot."""
        raise NotImplementedError


# ---------------------------------------------------------------- the process


def connect(source: Source, seconds: float, log: Log) -> None:
    """Wait for the first answers; ProtocolError where none come to any question of that time."""
    began = time.monotonic()
    notice = began + NOTICE_S
    while True:
        try:
            source.connect(began + seconds)
            return
        except Silent as error:
            why = str(error)
        waited = time.monotonic() - began
        if waited > seconds:
            raise ProtocolError(f"no {source.name} after {waited:.0f} s: {why}")
        if time.monotonic() > notice:
            notice = float("inf")
            log("waiting", f"waiting for {source.name} for at least {seconds:g} s: {why}", level=WARNING)
        time.sleep(SILENT_S)


def run(loop: PollLoop, log: Log, wake: str | None = None) -> int:
    """Go on until a signal, and return the exit code; a datagram to the socket ``wake`` brings the next turn forward."""
    stopped = 0

    def stop(number: int) -> None:
        nonlocal stopped
        stopped = number

    # A turn may take most of the time that is allowed: calls wait for the manager
    service = Service(times=float("inf"))
    with ExitStack() as open_things:
        poke = open_things.enter_context(wake_socket(wake))
        open_things.enter_context(freeze_heap())
        open_things.enter_context(stop_on_signals(stop, log))
        loop.begin()
        service.turn()
        while not stopped:
            answered = loop.turn()
            service.turn()
            wait(poke, loop.next_poll_s() if answered else SILENT_S)
        loop.end()
    log("leaving", f"leaving on {signal.Signals(stopped).name}; {loop.leaves}")
    return 128 + stopped


@contextmanager
def wake_socket(path: str | None) -> Iterator[socket.socket | None]:
    """Make the socket that hooks poke."""
    if path is None:
        yield None
        return
    if os.path.lexists(path) and not stat.S_ISSOCK(os.lstat(path).st_mode):
        raise UsageError(f"{path}: expected a socket to replace, or nothing")
    check_free_path(path, path, socket.SOCK_DGRAM)
    with suppress(FileNotFoundError):
        os.unlink(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        try:
            one.bind(path)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from error
        one.setblocking(False)
        made = os.lstat(path).st_ino
        try:
            yield one
        finally:
            with suppress(OSError):
                if os.lstat(path).st_ino == made:
                    os.unlink(path)


def wait(poke: socket.socket | None, seconds: float) -> None:
    """Wait for that time, or until a hook pokes; a signal ends it, too."""
    if poke is None:
        time.sleep(seconds)
        return
    readable, _, _ = select.select([poke], [], [], seconds)
    while readable:
        try:
            poke.recv(64)
        except BlockingIOError:
            return


@contextmanager
def only_process(state: str) -> Iterator[None]:
    """Hold the lock of a store: two drivers would place every job twice. UsageError where another one has it."""
    with ExitStack() as held:
        try:
            Path(state).parent.mkdir(parents=True, exist_ok=True)
            file = held.enter_context(open(open_own(f"{state}.lock", os.O_RDWR | os.O_CREAT, alone=True), "rb"))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"{state}: another process works with it") from error
        except OSError as error:
            raise PluginError(f"{state}.lock: expected a file to lock, got {error.strerror}") from error
        yield
