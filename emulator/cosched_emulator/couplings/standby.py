"""The standby: a second scheduler that takes over when the served one is gone or does not answer.

This module reads no clock and no socket; times are seconds of one monotonic clock.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from cosched_plugin.protocol.messages import Hello

TAKEOVER_S: Final = (
    1.2  # silence after which a standby takes over; together with a ping and a slice, less than two seconds
)
PING_S: Final = 0.25  # interval of pings to the served scheduler while a standby waits
FRESH_S: Final = 3.0  # time without a hello after which a standby counts as gone


class Standby(NamedTuple):
    """A declared standby that has been refused for now."""

    sender: bytes
    hello: Hello
    seen_s: float


class StandbyPlace:
    """The place of one standby behind the served scheduler, and the rules for its takeover."""

    def __init__(self, takeover_s: float, now_s: float) -> None:
        self.waiting: Standby | None = None
        self._takeover_s = takeover_s
        self._free_since_s = now_s  # since when no scheduler is served; None: one is served
        self._ping_s = 0.0  # when to ping the served scheduler next

    def set_free(self, now_s: float) -> None:
        """Note that no scheduler is served from now on."""
        self._free_since_s = now_s

    def is_reserved(self, now_s: float) -> bool:
        """Return whether the place, if free, is still reserved for a scheduler that is not a standby."""
        return now_s - self._free_since_s < self._takeover_s

    def instance(self, now_s: float) -> str:
        """Return the standby that waits, empty if none does."""
        waiting = self.waiting
        return waiting.hello.instance if waiting is not None and now_s - waiting.seen_s < FRESH_S else ""

    def next_step(self, now_s: float, *, served: bool, silent_s: float | None) -> Literal["wait", "ping", "take over"]:
        """Return the next step; forget a standby that is gone.

        ``served``: a scheduler is served; ``silent_s``: for how long it had owed an answer when its messages were last
        read; None if it owes none.
        """
        if self.waiting is None:
            return "wait"
        if now_s - self.waiting.seen_s >= FRESH_S:
            self.waiting = None
            return "wait"
        if not served:
            return "wait" if self.is_reserved(now_s) else "take over"
        if silent_s is None:
            if now_s < self._ping_s:
                return "wait"
            self._ping_s = now_s + PING_S
            return "ping"
        return "take over" if silent_s >= self._takeover_s else "wait"
