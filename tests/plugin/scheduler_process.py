"""The scheduler's process for tests, and a manager that sends what a test tells it to."""

from __future__ import annotations

from collections.abc import Sequence

import zmq
from tests.commands import Commands
from tests.plugin.stub_manager import welcome
from tests.processes import Forked

from cosched_plugin.protocol import messages as m
from cosched_plugin.protocol.codec import decode, encode

SOON_S = 10.0  # the longest delay on a busy machine of what must happen at once


class Manager:
    """A manager that sends what the test tells it to."""

    def __init__(self, endpoint: str, secret: tuple[bytes, bytes] | None = None) -> None:
        self._context = zmq.Context()
        self.router = self._context.socket(zmq.ROUTER)
        self.router.linger = 500
        self.router.rcvtimeo = round(SOON_S * 1000)
        if secret is not None:
            self.router.curve_server = True
            self.router.curve_publickey, self.router.curve_secretkey = secret
        self.router.bind(endpoint)
        self.endpoint = self.router.getsockopt_string(zmq.LAST_ENDPOINT)
        self.peer = b""

    def __enter__(self) -> Manager:
        return self

    def __exit__(self, *_: object) -> None:
        self.router.close()
        self._context.term()

    def hear(self, kind: type[m.Message]) -> m.Message:
        """Return the next message, which must be of this kind."""
        self.peer, *frames = self.router.recv_multipart()
        message = decode(frames)
        assert type(message) is kind, message
        return message

    def say(self, *messages: m.Message) -> None:
        """Send messages to the scheduler that was heard last."""
        for message in messages:
            self.say_frames(encode(message))

    def say_frames(self, frames: Sequence[bytes]) -> None:
        self.router.send_multipart([self.peer, *frames])

    def serve(self, seq: int = 0) -> m.Hello:
        """Greet a scheduler until it is ready."""
        hello = self.hear(m.Hello)
        assert isinstance(hello, m.Hello)
        self.say(welcome(seq))
        self.hear(m.Ready)
        return hello

    def drop(self) -> None:
        """Discard messages that have arrived."""
        while self.router.poll(0):
            self.router.recv_multipart()


def start(commands: Commands, endpoint: str, *arguments: str) -> Forked:
    """Start the scheduler's process."""
    return commands.start("cosched_plugin", "serve", "--connect", endpoint, *arguments)
