"""What systemd wants to know of a service of type notify: that it is ready, and that it goes on taking its turns."""
# Under 60 lines: managers and schedulers both tell it.

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

_TIMES: Final = 3.0  # it is told so often in the time after which it would end a service that says nothing


class Service:
    """Tells the service manager that started this process, if one did and asked for it (sd_notify)."""

    def __init__(
        self, environment: Mapping[str, str] = os.environ, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "").replace("@", "\0", 1)
        self._clock_s = clock_s
        self._every_s: float | None = None
        if environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid()):
            with suppress(ValueError):
                self._every_s = int(environment.get("WATCHDOG_USEC", "")) / 1e6 / _TIMES
        self._next_s = float("-inf")

    def turn(self) -> None:
        """Say that the process is ready, at the first call, and later that it is alive, as often as that is wanted."""
        if not self._address or (now_s := self._clock_s()) < self._next_s:
            return
        text = b"READY=1" if self._next_s == float("-inf") else b"WATCHDOG=1"
        self._next_s = float("inf") if self._every_s is None else now_s + self._every_s
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.setblocking(False)
            told.sendto(text, self._address)
