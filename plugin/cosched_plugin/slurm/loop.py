"""Enforcing: polls of Slurm become looks, looks become batches, and the answers are carried out; until a signal.

A turn is one poll of the jobs (50 ms after the one before or later, or at once when a hook pokes the socket), every half second of the
nodes too, and then the rounds of `Driver`. Between a refusal and the next round Slurm is asked once more: what was refused may have
changed what is free. A poll that slurmctld does not answer is no look: nothing has happened, and nothing is decided.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import socket
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, Protocol

from cosched_hwmodel.units import SECOND_US
from cosched_plugin.common.errors import PluginError, ProtocolError, UsageError
from cosched_plugin.common.process import freeze_heap, stop_on_signals
from cosched_plugin.common.sockets import check_free_path
from cosched_plugin.protocol.codec import encode
from cosched_plugin.protocol.messages import FEATURES, PROTOCOL_VERSION, Actions, Events, Welcome
from cosched_plugin.protocol.scheduler import Scheduler, SchedulerFactory
from cosched_plugin.quarantine import PolicyFailed
from cosched_plugin.site.driver import Driver
from cosched_plugin.site.store import Store
from cosched_plugin.slurm.actuator import SlurmActuator, Tools
from cosched_plugin.slurm.cluster import RULES, Cluster
from cosched_plugin.slurm.records import SlurmJob, SlurmNode
from cosched_plugin.slurm.rest import Rest, Silent
from cosched_plugin.slurm.site_file import Site
from cosched_terminal.console import WARNING, Log
from cosched_terminal.own_file import open_own

POLL_S: Final = 0.05
AFTER_S: Final = 0.1
MOST_POLL_S: Final = 5.0
NOTICE_S: Final = 3.0
NODES_S: Final = 0.5
MOST_ODD: Final = 20  # records that are named at once
SILENT_S: Final = 0.5  # between two questions that slurmctld has not answered
FEATURES_HERE: Final = tuple(name for name in FEATURES if name not in ("disk", "slots", "submit"))


def welcome_of(cluster: Cluster, site: Site) -> Welcome:
    """Return what a welcome says of the machine."""
    return Welcome(
        PROTOCOL_VERSION, FEATURES_HERE, 0, 0, cluster.classes, (), site.belief, (), (), (), (), capabilities=cluster.capabilities
    )  # fmt: skip


class Poller:
    """Asks Slurm for jobs and nodes, and keeps the last answers."""

    def __init__(self, rest: Rest, log: Log) -> None:
        self.jobs: Sequence[SlurmJob] = ()
        self.nodes: Sequence[SlurmNode] = ()
        self._rest = rest
        self._log = log
        self.took_s = 0.0  # by the last poll
        self._silent_since = 0.0  # 0: Slurm answers
        self._nodes_at = float("-inf")
        self._odd: set[str] = set()  # records of the last answers that were left out

    def poll(self, now_s: float) -> bool | None:
        """Ask; return whether something has changed, or None where Slurm does not answer."""
        begun = time.monotonic()
        try:
            jobs = self._rest.jobs(now_s)
            nodes = self._rest.nodes() if now_s - self._nodes_at >= NODES_S or now_s < self._nodes_at else None
        except Silent as error:
            self._rest.forget()
            if not self._silent_since:
                self._silent_since = now_s
                self._log("silent", f"Slurm does not answer, and nothing is decided: {error}", level=WARNING)
            return None
        if self._silent_since:
            self._log("answers", f"Slurm answers again, after {now_s - self._silent_since:.1f} s")
            self._silent_since = 0.0
        self._tell_odd()
        changed = (jobs is not None and jobs != self.jobs) or (nodes is not None and nodes != self.nodes)
        self.took_s = time.monotonic() - begun
        if jobs is not None:
            self.jobs = jobs
        if nodes is not None:
            self.nodes, self._nodes_at = nodes, now_s
        return changed

    def _tell_odd(self) -> None:
        """Name the records that were left out, each once as long as it stays so."""
        odd = {name: why for kind in self._rest.odd.values() for name, why in kind.items()}
        new = sorted(odd.keys() - self._odd)
        for name in new[:MOST_ODD]:
            self._log("odd-record", f"{name} is not understood: {odd[name]}", level=WARNING)
        if len(new) > MOST_ODD:
            self._log("odd-record", f"{len(new) - MOST_ODD} further records are not understood", level=WARNING)
        self._odd = set(odd)


class Enforcer:
    """One driver with its scheduler, polls included. The clock comes in: tests replay recorded time."""

    def __init__(
        self,
        poller: Poller,
        rest: Rest,
        tools: Tools,
        cluster: Cluster,
        store: Store,
        make: SchedulerFactory,
        log: Log,
        now_s: Callable[[], float] = time.time,
        record: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        self.actuator = SlurmActuator(rest, tools, cluster, self._now_us, self._own_limit_us, log)
        self.driver = Driver(welcome_of(cluster, cluster.site), store, self.actuator, RULES)
        self.cluster = cluster
        self._poller = poller
        self._make = make
        self._log = log
        self._clock = now_s
        self._latest_us = self.driver.books.now_us  # time never runs backwards
        self._record = record
        self._scheduler: Scheduler | None = None
        self._placed = False  # in the last turn
        self._told: dict[int, str] = {}  # what was said of jobs that are left to Slurm
        self._unfit: set[int] = set()  # jobs of which it was said that the machine cannot hold them

    def _now_us(self) -> int:
        self._latest_us = max(self._latest_us, int(self._clock() * SECOND_US))
        return self._latest_us

    def begin(self) -> None:
        """Take over, from the store and the last poll."""
        self.driver.begin(self._now_us(), self._look())
        for text in self.driver.lost:
            self._log("lost", text, level=WARNING)
        self._rounds()

    def turn(self) -> bool:
        """Poll, and do what follows; return whether Slurm has answered."""
        changed = self._poller.poll(self._clock())
        if changed is None:
            return False
        self.actuator.heard()
        self.actuator.resume_due()
        self._placed = False
        now_us = self._now_us()
        due = (self.driver.due_us(), self.cluster.due_us())
        if changed or any(at_us is not None and at_us <= now_us for at_us in due):
            self.driver.see(now_us, self._look())
            self._rounds()
        return True

    def next_due_s(self) -> float:
        """Return in how many seconds to poll again: sooner, where something is due without a change at Slurm."""
        moments = (self.driver.due_us(), self.cluster.due_us(), self.actuator.due_us())
        first = min([at_us for at_us in moments if at_us is not None], default=None)
        # A poll of many jobs costs slurmctld as much as it takes here: it has two thirds of the time to itself.
        rest_s = min(MOST_POLL_S, max(POLL_S, 2 * self._poller.took_s))
        if self._placed:  # what was placed starts now, and the poll can wait
            rest_s = max(rest_s, AFTER_S)
        return rest_s if first is None else min(rest_s, max(0.0, (first - self._now_us()) / SECOND_US))

    def _look(self) -> Any:
        look = self.cluster.look(self._now_us(), self._poller.jobs, self._poller.nodes, self.driver.books)
        if self.cluster.to_hold:
            self.actuator.hold_requeued()
        for number, why in self.cluster.left.items():
            if self._told.get(number) != why:
                self._log("left", f"job {number} is left to Slurm: {why}", job=number)
        self._told = dict(self.cluster.left)
        for number, problem in self.cluster.comments.items():
            if problem:
                self._log("comment", f"job {number} counts as unknown: {problem}", level=WARNING, job=number)
                self.cluster.comments[number] = ""
        return look

    def _own_limit_us(self, job_id: int) -> int | None:
        job = self.driver.books.jobs.get(job_id)
        return None if job is None else job.spec.limit_us

    def _rounds(self) -> None:
        """Ask the scheduler until nothing follows."""
        driver = self.driver
        if self._scheduler is None or driver.unsettled:
            self._scheduler = self._new_scheduler()
        while (batch := driver.next_batch()) is not None:
            try:
                actions = self._scheduler.handle(batch.now_us, batch.events)
            except PolicyFailed as failed:
                self._log(
                    "afresh", f"the policy has failed, and begins anew from Slurm's state: {failed}", level=WARNING
                )
                self._scheduler = self._new_scheduler()
                continue
            self._write(events=_hex(batch), actions=encode(Actions(batch.seq, batch.now_us, tuple(actions)))[1].hex())
            refused = self.actuator.refused
            driver.answer(self._now_us(), actions)
            if self.actuator.refused > refused:
                if self._poller.poll(self._clock()) is None:
                    break  # the refusals are told once Slurm answers
                driver.see(self._now_us(), self._look())
        for job_id, why in driver.unfit.items():
            if job_id not in self._unfit:
                self._log("unfit", f"job {job_id} waits for a larger machine: {why}", level=WARNING)
        self._unfit = set(driver.unfit)
        self._placed = self.actuator.placed > 0
        self.actuator.wake_slurm()

    def _new_scheduler(self) -> Scheduler:
        welcome = self.driver.inventory()
        self._write(welcome=encode(welcome)[1].hex())
        return self._make(welcome)

    def _write(self, **record: Any) -> None:
        if self._record is not None:
            self._record(record)


def _hex(batch: Events) -> str:
    return encode(batch)[1].hex()


# ---------------------------------------------------------------- the process


class Turns(Protocol):
    """What goes on, turn by turn: an `Enforcer`, or an onlooker."""

    def begin(self) -> None:
        """Do what comes first."""

    def turn(self) -> bool:
        """Poll, and do what follows; return whether Slurm has answered."""

    def next_due_s(self) -> float:
        """Return in how many seconds the next turn is due."""


def run(turns: Turns, log: Log, wake: str | None = None) -> int:
    """Go on until a signal, and return the exit code."""
    stopped = 0

    def stop(number: int) -> None:
        nonlocal stopped
        stopped = number

    with ExitStack() as open_things:
        poke = open_things.enter_context(poked(wake))
        open_things.enter_context(freeze_heap())
        open_things.enter_context(stop_on_signals(stop, log))
        turns.begin()
        notify("READY=1")
        while not stopped:
            answered = turns.turn()
            notify("WATCHDOG=1")
            wait(poke, turns.next_due_s() if answered else SILENT_S)
    notify("STOPPING=1")
    log("leaving", f"leaving on {signal.Signals(stopped).name}; jobs run on, and held ones stay held")
    return 128 + stopped


def notify(text: str) -> None:
    """Tell systemd, where it has started this process."""
    path = os.environ.get("NOTIFY_SOCKET")
    if path:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one, suppress(OSError):
            one.settimeout(1.0)
            one.sendto(text.encode(), "\0" + path[1:] if path.startswith("@") else path)


@contextmanager
def poked(path: str | None) -> Iterator[socket.socket | None]:
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
def only_one(state: str) -> Iterator[None]:
    """Hold the lock of a store: two drivers would place every job twice. UsageError where another one has it."""
    file: IO[bytes]
    try:
        Path(state).parent.mkdir(parents=True, exist_ok=True)
        with open(open_own(f"{state}.lock", os.O_RDWR | os.O_CREAT, alone=True), "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise UsageError(f"{state}: another process enforces with it") from error
            yield
    except OSError as error:
        raise PluginError(f"{state}.lock: expected a file to lock, got {error.strerror}") from error


def recorder(file: str, stack: ExitStack) -> Callable[[Mapping[str, Any]], None]:
    """Return a function that appends records to a new file, each on the disk before the next."""
    try:
        stream = open(file, "x", encoding="ascii")  # noqa: SIM115 - the stack closes it
        stack.enter_context(stream)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from error

    def write(record: Mapping[str, Any]) -> None:
        stream.write(json.dumps(record) + "\n")
        stream.flush()

    return write


def begun(rest: Rest, seconds: float, log: Log) -> Poller:
    """Wait for Slurm, and return its first answers; ProtocolError where none come to any question of that time."""
    poller = Poller(rest, log)
    began = time.monotonic()
    notice = began + NOTICE_S
    said = ""
    while True:
        try:
            if not rest.version or said:
                rest.begin(began + seconds)
            rest.forget()
            if poller.poll(time.time()) is not None and poller.nodes:
                return poller
            said = "it does not answer"
        except Silent as error:
            said = str(error)
        waited = time.monotonic() - began
        if waited > seconds:
            raise ProtocolError(f"no Slurm after {waited:.0f} s: {said}")
        if time.monotonic() > notice:
            notice = float("inf")
            log("waiting", f"waiting for Slurm for at least {seconds:g} s: {said}", level=WARNING)
        time.sleep(SILENT_S)
