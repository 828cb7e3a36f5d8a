"""The scheduler's end of the conversation."""

from __future__ import annotations

from collections.abc import Sequence

from cosched_plugin.protocol.errors import LocalProtocolError, RemoteProtocolError
from cosched_plugin.protocol.messages import (
    FEATURES,
    PROTOCOL_VERSION,
    Action,
    Actions,
    Events,
    Hello,
    Ready,
    Welcome,
)
from cosched_plugin.protocol.session.base import NOTHING, Received, Session
from cosched_plugin.protocol.session.transitions import (
    DISK,
    OVERLOOKED,
    Role,
    State,
    overlooked_feature,
)


class SchedulerSession(Session):
    """The scheduler's end. ``instance`` is unique to this process, ``policy`` is for people, a ``standby`` waits to take over."""

    role = Role.SCHEDULER

    def __init__(
        self,
        instance: str,
        policy: str,
        versions: tuple[int, ...] = (PROTOCOL_VERSION,),
        features: tuple[str, ...] = FEATURES,
        *,
        standby: bool = False,
    ) -> None:
        super().__init__()
        self._hello = Hello(versions, features, instance, policy, standby)  # as last sent
        self._greeting = 0  # of the last welcome that was taken over
        self.seq = 0  # last batch received
        self.now_us = 0
        self._features: tuple[str, ...] = ()  # agreed on
        self._lacking = True  # one of those is missing without which a manager would overlook fields
        self._reply: Actions | None = None  # to the batch ``seq``
        self._handlers = {Welcome: self._on_welcome, Events: self._on_events}

    def hello(self) -> Hello:
        """Return the first message; repeat it until a welcome is delivered."""
        self._say(Hello)
        self._hello = self._hello._replace(greeting=self._hello.greeting + 1)
        return self._hello

    def ready(self) -> Ready:
        """Return the message that ends the greeting; send it when the delivered welcome has been taken over."""
        self._say(Ready)
        return Ready(self.seq, self._greeting)

    def answer(self, actions: Sequence[Action]) -> Actions:
        """Return the reply to the batch that was delivered last.

        LocalProtocolError for a suspension to disk, or a start in a slot, where the manager does not know of these: it would stop the
        job where it is, or start it in slot 0. Other actions of features that were not agreed on are refused by the manager.
        """
        if self._lacking:
            for action in actions:
                feature = overlooked_feature(action, self._features)
                if feature is not None:
                    what = "suspended to disk" if feature == DISK else "started in a slot"
                    raise LocalProtocolError(f"the manager does not know the feature {feature}: no job can be {what}")
        self._say(Actions)
        self._reply = Actions(self.seq, self.now_us, tuple(actions), self._greeting)
        return self._reply

    def _on_welcome(self, message: Welcome) -> Received:
        after = self._hear(message)
        if self.state is State.CLOSED:
            return NOTHING
        if message.greeting:
            if message.greeting > self._hello.greeting:
                raise RemoteProtocolError(
                    "sequence", "greeting", f"expected at most {self._hello.greeting}, got {message.greeting}"
                )
            if message.greeting <= self._greeting:
                # Taken over already. If nothing has come since, the manager has not received our `ready`.
                unheard = message.greeting == self._greeting and self.state is State.READY and self.seq == message.seq
                return Received((Ready(self.seq, self._greeting),)) if unheard else NOTHING
        elif after is None:
            # The manager may not have seen our reply to the last batch; anything older than that came late.
            if message.seq > self.seq:
                raise RemoteProtocolError("sequence", "seq", f"expected at most {self.seq}, got {message.seq}")
            if message.seq < self.seq - 1:
                return NOTHING
        if message.version not in self._hello.versions:
            raise RemoteProtocolError("version", "version", f"{message.version} was not offered")
        for index, feature in enumerate(message.features):
            if feature not in self._hello.features:
                raise RemoteProtocolError("version", f"features[{index}]", "was not offered")
        self.state = State.WELCOMED
        self._features = message.features
        self._lacking = not set(OVERLOOKED).issubset(message.features)
        self._greeting = message.greeting
        self.seq = message.seq
        self.now_us = message.now_us
        self._reply = None
        return Received((), message)

    def _on_events(self, message: Events) -> Received:
        after = self._hear(message)
        if after is None or message.greeting != self._greeting:
            return NOTHING
        if message.seq <= self.seq:
            if message.seq < self.seq or self._reply is None:
                return NOTHING
            return Received((self._reply,))
        if message.seq != self.seq + 1 or self.state is State.OPEN:
            raise RemoteProtocolError("sequence", "seq", f"expected {self.seq + 1}, got {message.seq}")
        if message.now_us < self.now_us:
            raise RemoteProtocolError("clock", "now_us", f"time runs backwards, from {self.now_us} to {message.now_us}")
        self.state = after
        self.seq = message.seq
        self.now_us = message.now_us
        self._reply = None
        return Received((), message)
