"""Errors of the plugin, and of the protocol that both of its ends share. See ``cosched_plugin.common.errors`` for the whole tree."""

from __future__ import annotations

from typing import ClassVar


class PluginError(Exception):
    """Root of all errors that this package raises on purpose; ``exit_code`` is what the command line returns."""

    exit_code: ClassVar[int] = 1


class ProtocolError(PluginError):
    """The conversation between manager and scheduler failed."""

    exit_code = 3


class LocalProtocolError(ProtocolError):
    """This side tried to send a message that it may not send now: a defect on this side."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something that cannot be accepted.

    ``code`` is one of the codes in PROTOCOL.md, ``path`` leads to the place in the message (``events[3].job.processes``; empty:
    the message as a whole), ``text`` names what was expected there and what came.
    """

    def __init__(self, code: str, path: str, text: str) -> None:
        super().__init__(code, path, text)
        self.code = code
        self.path = path
        self.text = text

    def __str__(self) -> str:
        return f"{self.path}: {self.text}" if self.path else self.text
