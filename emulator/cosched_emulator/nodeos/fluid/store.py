"""Measured rates in a file that runs and processes share."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from pathlib import Path
from typing import Final
from zlib import crc32

from cosched_emulator.errors import InputError

_PATIENCE_S: Final = 5.0
_PAUSE_S: Final = 0.001
_Rates = tuple[float, ...]


class RateStore:
    """Rates by key, in a file of its own for each text ``made_for``, which says under which settings they were measured.

    The first line of the file is that text. Each other line is the check sum of its rest, a key and its rates. Lines are
    appended under a lock and never changed, so processes may use one file at once, and one that is killed leaves no more
    than an incomplete line. A line whose check sum is wrong counts in ``damaged`` and is passed over. Raises `InputError`
    if the file cannot be written, or is not for these settings.
    """

    def __init__(self, folder: Path, made_for: str) -> None:
        self.damaged = 0
        self.path = folder / f"rates-{hashlib.sha256(made_for.encode()).hexdigest()[:16]}.txt"
        self._head = _line(made_for)
        self._texts: dict[bytes, bytes] = {}  # by key
        self._read_bytes = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._append(b"")
        except OSError as error:
            raise InputError(str(self.path), "a file that can be written", error.strerror or str(error)) from error
        self._read()

    def find(self, key: str, rates: int) -> _Rates | None:
        """Return the rates of a key, None if they are not known; another number of rates than expected is damage."""
        wanted = key.encode()
        if wanted not in self._texts:
            self._read()
        text = self._texts.get(wanted)
        if text is None:
            return None
        found = json.loads(text)
        if len(found) != rates:
            raise InputError(str(self.path), f"{rates} rates for {key}", str(len(found)), hint="delete the file")
        return tuple(found)

    def add(self, key: str, rates: _Rates) -> None:
        """Store the rates of a key, for others. A disk that is full is no error: they are measured again."""
        text = json.dumps(rates, separators=(",", ":"))
        self._texts[key.encode()] = text.encode()
        try:
            self._append(_line(f"{key}\t{text}"))
        except OSError:
            return

    def _append(self, line: bytes) -> None:
        """Write a line at the end, after what a process that was killed may have left there."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            _lock(descriptor)
            size = os.fstat(descriptor).st_size
            if size == 0:
                line = self._head + line
            elif os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line
            if line:
                os.write(descriptor, line)
        finally:
            os.close(descriptor)

    def _read(self) -> None:
        """Take over the whole lines that have been added since the last time."""
        if os.stat(self.path).st_size <= self._read_bytes:
            return
        with open(self.path, "rb") as file:
            file.seek(self._read_bytes)
            data = file.read()
        whole = data.rfind(b"\n") + 1
        lines = data[:whole].splitlines(keepends=True)
        if self._read_bytes == 0 and lines and lines.pop(0) != self._head:
            raise InputError(str(self.path), "rates measured with these settings", "another file", hint="delete it")
        self._read_bytes += whole
        for line in lines:
            check, _, rest = line.rstrip(b"\n").partition(b" ")
            key, tab, text = rest.partition(b"\t")
            if tab and check == _check_sum(rest):
                self._texts[key] = text
            else:
                self.damaged += 1


def _lock(descriptor: int) -> None:
    """Wait for the lock on a file, which is held for some microseconds; raise `TimeoutError` if it is not free in time."""
    give_up_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > give_up_s:
                raise TimeoutError(f"locked by another process for {_PATIENCE_S:g} s") from None
            time.sleep(_PAUSE_S)
        else:
            return


def _line(text: str) -> bytes:
    data = text.encode()
    return _check_sum(data) + b" " + data + b"\n"


def _check_sum(data: bytes) -> bytes:
    return b"%08x" % crc32(data)
