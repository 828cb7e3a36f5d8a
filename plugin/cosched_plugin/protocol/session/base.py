"""Common parts of both ends of the conversation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from cosched_plugin.protocol.errors import LocalProtocolError, RemoteProtocolError
from cosched_plugin.protocol.messages import (
    Bye,
    ErrorReport,
    Message,
    Ping,
    Pong,
)
from cosched_plugin.protocol.session.transitions import (
    CROSSING,
    SPEAKER,
    TRANSITIONS,
    Role,
    State,
)


class Received(NamedTuple):
    """The result of one message: replies to send at once, and messages on which the driver must act."""

    send: tuple[Message, ...] = ()
    deliver: Message | None = None


NOTHING: Final = Received()


def report_of(error: RemoteProtocolError) -> ErrorReport:
    """Return the message that reports the error to the peer."""
    return ErrorReport(error.code, error.path, error.text)


class Session:
    """The base of both ends."""

    role: Role

    def __init__(self) -> None:
        self.state = State.START
        self._handlers: dict[type, Callable[..., Received]] = {}

    def receive(self, message: Message) -> Received:
        """Handle one message of the peer; RemoteProtocolError, and a closed session, when it may not be sent now."""
        handler = self._handlers.get(type(message))
        try:
            if handler is not None:
                return handler(message)
            match message:
                case Ping(token):
                    return Received((Pong(token),))
                case Pong():
                    return NOTHING
                case ErrorReport("busy"):
                    # It changes nothing, and has no meaning for a scheduler that has been welcomed meanwhile.
                    return Received((), message) if self.state is State.GREETED else NOTHING
                case ErrorReport() | Bye():
                    already = self.state is State.CLOSED
                    self.state = State.CLOSED
                    return NOTHING if already else Received((), message)
                case _:
                    raise self._untimely(message)
        except RemoteProtocolError:
            self.state = State.CLOSED
            raise

    def bye(self, reason: str) -> Bye:
        """Return the message with which this side leaves."""
        self.state = State.CLOSED
        return Bye(reason)

    def _say(self, kind: type) -> None:
        """Step on for a message of our own; LocalProtocolError if it may not be sent now."""
        after = TRANSITIONS[self.state].get(kind)
        if after is None:
            raise LocalProtocolError(f"a {self.role.value} cannot say {kind.__name__} in state {self.state.value}")
        self.state = after

    def _hear(self, message: Message) -> State | None:
        """Return the state that a message of the peer leads to, None if it only crossed; raises RemoteProtocolError."""
        after = TRANSITIONS[self.state].get(type(message))
        if after is None and type(message) not in CROSSING[self.role][self.state]:
            raise self._untimely(message)
        return after

    def _untimely(self, message: Message) -> RemoteProtocolError:
        kind = type(message)
        if SPEAKER.get(kind) is self.role:
            return RemoteProtocolError("state", "type", f"only a {self.role.value} says {kind.__name__}")
        return RemoteProtocolError("state", "type", f"{kind.__name__} does not fit state {self.state.value}")
