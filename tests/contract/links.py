"""Links that check every batch: they digest all messages, and compare the decisions of restarted schedulers."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from cosched_emulator.couplings.link import DirectLink, Link, LoopbackLink
from cosched_plugin.core.engine import SchedulerCore
from cosched_plugin.protocol.codec import decode, encode
from cosched_plugin.protocol.messages import Action, Actions, Event, Events, Welcome

LIVES: Final = (1, 2, 5, 20, 60)  # batches until the next restart


class DigestLink:
    """A link that digests all messages as the codec encodes them, without fields that have their default."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._said = hashlib.sha256()
        self.kinds: Counter[str] = Counter()  # of events and actions
        self.batches = 0

    def open(self, inventory: Callable[[], Welcome]) -> None:
        """Open the link."""
        self._link.open(inventory)

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        """Pass the batch on."""
        actions = self._link.exchange(seq, now_us, events)
        for message in (Events(seq, now_us, events), Actions(seq, now_us, tuple(actions))):
            self._said.update(b"".join(encode(message)))
        self.kinds.update(type(item).__name__ for item in (*events, *actions))
        self.batches += 1
        return actions

    def close(self) -> None:
        """Close the link."""
        self._link.close()

    def digest(self) -> str:
        """Return the digest of the messages so far."""
        return self._said.hexdigest()[:24]


class ShadowLink:
    """A link that compares its scheduler with two others, which know only what the manager has sent them.

    The *shadow* is made from the manager's inventory, which the codec has carried, just before the batch; one more pass of it finds
    nothing to do. The *successor* was made some batches ago, and has read neither inventory nor events through the codec.
    """

    def __init__(
        self, link: DirectLink | LoopbackLink, factory: Callable[[Welcome], SchedulerCore], *, settles: bool = True
    ) -> None:
        """Without ``settles`` a second pass may find more to do; that is only counted."""
        self._settles = settles
        self.unsettled = 0
        self._link = link
        self._factory = factory
        self._random = Random(1)
        self._inventory: Callable[[], Welcome] | None = None
        self._successor: SchedulerCore | None = None
        self._left = 0  # batches until its end
        self.restarts = 0  # of the successor
        self.shadows = 0

    def open(self, inventory: Callable[[], Welcome]) -> None:
        """Open the link."""
        self._inventory = inventory
        self._link.open(inventory)

    def exchange(self, seq: int, now_us: int, events: tuple[Event, ...]) -> Sequence[Action]:
        """Pass the batch on, and compare the decisions of the other schedulers."""
        assert self._inventory is not None
        shadow = self._shadow(self._inventory(), seq)
        if self._left == 0:
            self._successor = self._factory(self._inventory())
            self._left = self._random.choice(LIVES)
            self.restarts += 1
        self._left -= 1
        assert self._successor is not None
        later = self._successor.handle(now_us, events)
        actions = list(self._link.exchange(seq, now_us, events))
        assert actions == later, f"batch {seq}: a scheduler that was restarted some batches ago decides otherwise"
        assert actions == shadow.handle(now_us, events), f"batch {seq}: a restarted scheduler decides otherwise"
        shadow.check()
        core = self._link.scheduler
        assert isinstance(core, SchedulerCore)
        core.check()
        settled = shadow.handle(now_us, ()) == []
        self.unsettled += not settled
        assert settled or not self._settles, f"batch {seq}: a second pass still finds something to do"
        return actions

    def close(self) -> None:
        """Close the link."""
        self._link.close()

    def _shadow(self, welcome: Welcome, seq: int) -> SchedulerCore:
        """Return a scheduler that starts from the manager's inventory before the batch."""
        assert welcome.seq == seq - 1
        carried = decode(encode(welcome))
        assert isinstance(carried, Welcome)
        assert carried == welcome
        shadow = self._factory(carried)
        shadow.check()
        self.shadows += 1
        return shadow
