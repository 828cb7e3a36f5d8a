"""The standby: a second scheduler that waits, and takes over when the one that is served has gone or does not answer.

Nothing here reads a clock or a socket; times are seconds of one steady clock.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from cosched_plugin.protocol.messages import Hello

TAKEOVER_S: Final = (
    1.2  # silence after which a standby takes over; with a ping and a slice before it, under two seconds in all
)
PING_S: Final = 0.25  # while a standby waits, the scheduler that is served is asked so often whether it is there
FRESH_S: Final = 3.0  # a standby that has not said hello for so long is gone


class Standby(NamedTuple):
    """A declared standby that has been refused for now."""

    sender: bytes
    hello: Hello
    seen_s: float


class StandbyPlace:
    """The place of one standby behind the scheduler that is served, and the rules of when it takes over."""

    def __init__(self, takeover_s: float, now_s: float) -> None:
        self.waiting: Standby | None = None
        self._takeover_s = takeover_s
        self._free_since_s = now_s  # since when no scheduler is served, if none is
        self._ping_s = 0.0  # when the scheduler that is served is to be asked next

    def set_free(self, now_s: float) -> None:
        """Note that no scheduler is served from now on."""
        self._free_since_s = now_s

    def is_reserved(self, now_s: float) -> bool:
        """Return whether a scheduler that is no standby is still waited for, where none is served."""
        return now_s - self._free_since_s < self._takeover_s

    def instance(self, now_s: float) -> str:
        """Return the standby that waits, empty if none does."""
        waiting = self.waiting
        return waiting.hello.instance if waiting is not None and now_s - waiting.seen_s < FRESH_S else ""

    def next_step(self, now_s: float, *, served: bool, silent_s: float | None) -> Literal["wait", "ping", "take over"]:
        """Return what is to be done; forget a standby that has gone.

        ``served``: a scheduler is served; ``silent_s``: for how long it had owed an answer when its messages were last
        read, None where it owes none.
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
