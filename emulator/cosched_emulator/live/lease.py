"""One manager serves a database, others stand by: the lease of the one that serves, and what takes over from it.

The lock on the database is what keeps two managers apart; the system takes it from a process that ends. A process that is stopped, or
hangs, keeps it. So the holder also counts its turns in a small mapped file beside the database, which needs no room on a full disk.
Where the count stands still, a manager that stands by kills the holder: whoever has the lock afterwards is the only one that can write.

The file also keeps the emulated time that was reached, as long as no step of the journal tells a later one. What a process has written
there survives its kill at any instant, and needs no transaction.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from cosched_emulator.accounting.accounts import Accounting
from cosched_emulator.accounting.chain import DIGEST_BYTES, Reached, digest
from cosched_emulator.accounting.file import InUseError
from cosched_emulator.errors import InputError
from cosched_plugin.common.process import Service, stop_on_signals
from cosched_terminal.console import WARNING, Log
from cosched_terminal.own_file import open_own

STILL_S: Final = 3.0  # turns take a quarter of a second, at most
RESTING_S: Final = 300.0  # of a holder that reads a long journal, or writes its results
LOOK_S: Final = 0.1
_MOST_GAP_S: Final = 1.0  # between two looks: longer ones say that it is the looking process that stood still
_BYTES: Final = 4096
_COUNT: Final = slice(_BYTES - 8, _BYTES)
# After the bytes that earlier programs know: the time and its step in two places by turns, as a kill may leave one half written.
_TIME: Final = struct.Struct(f"<qq{DIGEST_BYTES}s")
_PLACE_BYTES: Final = _TIME.size + DIGEST_BYTES
_ALL_BYTES: Final = _BYTES + 2 * _PLACE_BYTES
Entered = TypeVar("Entered")


def lease_file(database: str) -> str:
    """Return the path of the lease of a database."""
    return f"{database}-lease"


class Lease:
    """The lease of the process that has the lock on a database."""

    def __init__(self, database: str, run: str = "") -> None:
        """``run`` is the name of the run whose time is kept. InputError if the file beside the database cannot be written."""
        self._run = run.encode()
        self._turns = self._kept = 0
        try:
            with open(open_own(lease_file(database), os.O_RDWR | os.O_CREAT, alone=True), "r+b") as file:
                file.truncate(_ALL_BYTES)
                if hasattr(os, "posix_fallocate"):  # else a full disk shows at the first turn
                    os.posix_fallocate(file.fileno(), 0, _ALL_BYTES)
                self._map = mmap.mmap(file.fileno(), _ALL_BYTES)
        except OSError as error:
            text = error.strerror or str(error)
            raise InputError(lease_file(database), "a file that can be written", text) from error
        self.rest()
        who = json.dumps({"process": os.getpid(), "began": _began(os.getpid())})
        self._map[: _COUNT.start] = who.encode().ljust(_COUNT.start)

    def turn(self) -> None:
        """Count a turn: the next one follows within `STILL_S`."""
        self._turns += 1
        self._map[_COUNT] = self._turns.to_bytes(8, "little")

    def rest(self) -> None:
        """Say that the next turn may take long."""
        self._map[_COUNT] = bytes(8)

    def keep(self, now_us: int, reached: Reached) -> None:
        """Keep the emulated time until which nothing has followed the last step of the journal; all of that step is written."""
        self._kept += 1
        first = _BYTES + self._kept % 2 * _PLACE_BYTES
        body = _TIME.pack(now_us, reached.step, reached.link)
        self._map[first : first + _PLACE_BYTES] = body + digest(self._run + body)

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.rest()
        self._map.close()


class Holder(NamedTuple):
    """What a lease says."""

    process: int
    began: int | None  # when the process began, in ticks since the system's start
    turns: int  # 0: it rests


def read_lease(database: str) -> Holder | None:
    """Return what the lease of a database says; None if there is none, or none that can be read, or it may be another user's."""
    try:
        with open(open_own(lease_file(database)), "rb") as file:
            content = file.read(_BYTES)
        table = json.loads(content[: _COUNT.start])
        return Holder(int(table["process"]), table["began"], int.from_bytes(content[_COUNT], "little"))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def time_kept(accounting: Accounting) -> int:
    """Return the emulated time that the run of these accounts had reached when it stopped after its last step; 0: it is not known."""
    reached = accounting.reached()
    if accounting.path is None or reached is None:
        return 0
    try:
        with open(open_own(lease_file(accounting.path)), "rb") as file:
            content = file.read(_ALL_BYTES)
    except OSError:
        return 0
    run = accounting.meta.get("run", "").encode()
    latest_us = 0
    for first in range(_BYTES, len(content) - _PLACE_BYTES + 1, _PLACE_BYTES):
        body, check = content[first : first + _TIME.size], content[first + _TIME.size : first + _PLACE_BYTES]
        now_us, step, link = _TIME.unpack(body)
        if check == digest(run + body) and (step, link) == (reached.step, reached.link):
            latest_us = max(latest_us, now_us)
    return latest_us


class Watch:
    """Tells from looks at a lease whether its holder stands still."""

    def __init__(self) -> None:
        self._seen: Holder | None = None
        self._since_s = 0.0
        self._looked_s = float("-inf")

    def stands_still(self, holder: Holder, now_s: float) -> bool:
        """Tell whether no turn was seen for too long; a process that was itself stopped meanwhile begins anew."""
        if holder != self._seen or now_s - self._looked_s > _MOST_GAP_S:
            self._seen, self._since_s = holder, now_s
        self._looked_s = now_s
        if now_s - self._since_s <= (STILL_S if holder.turns else RESTING_S):
            return False
        self._since_s = now_s  # it is asked again only after the same time
        return True


def kill_holder(holder: Holder) -> str:
    """Kill the process that a lease names; return why that was not possible, or nothing."""
    if not hasattr(os, "pidfd_open"):
        return "this system cannot name a process for certain"
    try:
        process = os.pidfd_open(holder.process)
    except OSError as error:
        return error.strerror or str(error)
    try:
        # The number may be another process's by now; what is open here is one process, whatever becomes of its number.
        if holder.began is None or _began(holder.process) != holder.began:
            return "the process that the lease names has ended"
        signal.pidfd_send_signal(process, signal.SIGKILL)
    except OSError as error:
        return error.strerror or str(error)
    finally:
        os.close(process)
    return ""


def _began(process: int) -> int | None:
    """Return when a process began, in ticks since the system's start; None if that is not known."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[19])
    return None


def await_turn(enter: Callable[[], Entered], database: str, log: Log) -> Entered | int:
    """Return what ``enter`` returns once no other manager has the database, or the number of a signal that comes before.

    A holder whose turns stand still is killed.
    """
    stops: list[int] = []
    watch = Watch()
    service = Service()
    waited = False
    with stop_on_signals(stops.append, log):
        while not stops:
            service.turn()
            try:
                entered = enter()
            except InUseError:
                pass
            else:
                if waited:
                    log("taking-over", f"no other manager has {database} any more: taking over", database=database)
                return entered
            if not waited:
                waited = True
                log("standing-by", f"standing by: another manager has {database}", database=database)
            holder = read_lease(database)
            if holder is not None and watch.stands_still(holder, time.monotonic()):
                why_not = kill_holder(holder)
                text = f"process {holder.process}, which has {database}, stands still and " + (
                    f"cannot be killed: {why_not}" if why_not else "was killed"
                )
                log("stands-still", text, level=WARNING, process=holder.process, killed=not why_not)
            time.sleep(LOOK_S)
    return stops[0]
