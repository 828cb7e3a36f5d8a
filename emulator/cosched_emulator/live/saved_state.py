"""The state of a live manager at a step of its journal, in a file beside the database: a restart plays only the steps after it.

The journal stays the truth. The file counts only if it is whole, of this very program, and of a step that the journal has; else the
whole journal is played, as if there were no file. So no later program need understand it: the objects are written as they are.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, Final, NamedTuple

import numpy as np

from cosched_emulator.accounting.accounts import Accounting
from cosched_emulator.accounting.chain import DIGEST_BYTES, Reached, digest
from cosched_emulator.live.history import HistoryCheck
from cosched_emulator.live.live_manager import LiveManager
from cosched_emulator.run.prepare import Prepared
from cosched_terminal.own_file import open_own
from cosched_terminal.whole_file import whole_file

STEPS: Final = 10_000  # between two states that are written while the manager serves ...
STEPS_A_JOB: Final = 10  # ... and for each job that has not ended
MOST_JOBS: Final = 20_000  # with more, serving would stand still for too long: the state is written at the end alone
_MAGIC: Final = b"costate1"
_HEAD: Final = struct.Struct(f"<8s{DIGEST_BYTES}sqq{DIGEST_BYTES}s{DIGEST_BYTES}s")
_ACCOUNTING: Final = "accounting"
_OURS: Final = ("cosched_emulator", "cosched_hwmodel", "cosched_plugin")
# Packages of which the program's digest tells the version.
_KNOWN: Final = frozenset(
    {
        *_OURS,
        "_operator",
        "builtins",
        "collections",
        "fractions",
        "functools",
        "itertools",
        "numpy",
        "operator",
        "random",
    }
)


class Saved(NamedTuple):
    """A state that was written."""

    reached: Reached
    state: bytes


class StateReader:
    """Reads the state beside a database once: what a restart goes on from is what its accounts were opened with."""

    def __init__(self) -> None:
        self._state = b""

    def reached(self, database: str) -> Reached | None:
        """Return the step of the state beside a database, if there is one that counts, and keep the state."""
        saved = read_state(database)
        if saved is None:
            return None
        self._state = saved.state
        return saved.reached

    def take(self) -> bytes:
        """Return the state that was read, and keep it no longer."""
        state, self._state = self._state, b""
        return state


def state_file(database: str) -> str:
    """Return the path of the state beside a database."""
    return f"{database}-state"


def read_state(database: str) -> Saved | None:
    """Return the state beside a database; None if there is none that this program, run by this user, has written whole."""
    try:
        # Who can write the file can make this process do anything: it must be as safe as the program's own files.
        with open(open_own(state_file(database), private=True), "rb") as stream:
            content = stream.read()
    except OSError:
        return None
    check, rest = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
    if len(rest) < _HEAD.size or check != digest(rest):
        return None
    magic, program, step, changes, link, first = _HEAD.unpack_from(rest)
    if magic != _MAGIC or program != _program():
        return None
    return Saved(Reached(step, changes, link, first), rest[_HEAD.size :])


class StateWriter:
    """Writes the state beside the database of a manager that serves, and hears whether its history is whole."""

    def __init__(self, live: LiveManager, accounting: Accounting, history: HistoryCheck | None = None) -> None:
        """``history``: a look at what was not played."""
        self._live = live
        self._accounting = accounting
        self._history = history
        self._damaged = False
        self._written = accounting.step

    def damage(self) -> str | None:
        """Return what is damaged in the history, once; `WHOLE`: nothing; None: that is not known, or was told before.

        After damage there is no state any more: the next start plays the whole journal.
        """
        damage = None if self._history is None else self._history.result()
        if damage and self._accounting.path is not None:
            self._damaged = True
            with suppress(OSError):
                os.unlink(state_file(self._accounting.path))
        return damage

    def turn(self) -> None:
        """Write the state if the last one is long ago; call it where no step is under way."""
        accounting, live = self._accounting, self._live
        since = accounting.step - self._written
        if since < STEPS or live.unfinished > MOST_JOBS or since < STEPS + STEPS_A_JOB * live.unfinished:
            return
        if not live.outbox.awaits_answer:
            self.write()

    def write(self) -> bool:
        """Write the state as it is now, unless steps wait for the disk; tell whether it was written."""
        accounting = self._accounting
        last = accounting.reached()
        if accounting.path is None or last is None or self._damaged:
            return False
        self._written = accounting.step
        try:
            content = _HEAD.pack(_MAGIC, _program(), *last) + packed(self._live, accounting)
        except Exception:  # an object from outside: nobody knows whether the next start has the same code for it
            return False
        try:
            with whole_file(state_file(accounting.path)) as stream:
                os.fchmod(stream.fileno(), 0o600)
                stream.write(digest(content) + content)
        except OSError:  # the next start plays the journal
            return False
        return True


# The accounting is left out, of which the manager asks what has become of jobs.


def packed(live: LiveManager, accounting: object) -> bytes:
    """Return a manager as bytes; the scheduler owes it no answer."""
    stream = io.BytesIO()
    _Pickler(accounting, stream).dump(live)
    return stream.getvalue()


def unpacked(state: bytes, accounting: object, prepared: Prepared) -> LiveManager:
    """Return the manager as it was; whatever it has not told the scheduler is for the next one."""
    live: LiveManager = _Unpickler(accounting, io.BytesIO(state)).load()
    live.agenda.resume_with(prepared.workload.jobs, prepared.script, prepared.faults.node_faults())
    live.outbox.empty()
    return live


class _Pickler(pickle.Pickler):
    def __init__(self, accounting: object, stream: io.BytesIO) -> None:
        super().__init__(stream, protocol=5)
        self._accounting = accounting

    def persistent_id(self, found: Any) -> str | None:
        if isinstance(found, type | FunctionType) and found.__module__.partition(".")[0] not in _KNOWN:
            raise pickle.PicklingError(f"{found!r} is from outside")
        return _ACCOUNTING if found is self._accounting else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, accounting: object, stream: io.BytesIO) -> None:
        super().__init__(stream)
        self._accounting = accounting

    def persistent_load(self, name: str) -> object:
        assert name == _ACCOUNTING
        return self._accounting


@cache
def _program() -> bytes:
    """Return a digest of this program: of its files as they are on this machine, and of what interprets them."""
    told = [sys.version, np.__version__]
    for name in _OURS:
        folder = Path(sys.modules[name].__path__[0])
        told += [f"{file} {about.st_size} {about.st_mtime_ns}" for file, about in _files(folder)]
    return digest("\n".join(told).encode())


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for file in sorted(folder.rglob("*.py")):
        yield file, file.stat()
