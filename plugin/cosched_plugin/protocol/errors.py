"""Errors of the plugin and of the protocol that both of its ends share, and faults: values that cannot be accepted, with their place.

``cosched_plugin.common.errors`` has the whole tree of errors.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar, NoReturn

from cosched_plugin.protocol.limits import INT64_MAX, INT64_MIN

# Errors of the plugin, and of the protocol that both of its ends share. See ``cosched_plugin.common.errors`` for the whole tree.


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


# A value that cannot be accepted: the error, its place, and the text about it.


class Fault(Exception):
    """A value that cannot be accepted; its path grows as the error travels outwards."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text
        self.path = ""

    def under(self, name: str) -> Fault:
        """Return this fault as seen from one level further out."""
        joint = "." if self.path and not self.path.startswith("[") else ""
        self.path = f"{name}{joint}{self.path}"
        return self


def refuse(expected: str, got: Any, name: str = "") -> NoReturn:
    """Raise a Fault with what was expected and what came."""
    fault = Fault("field", f"expected {expected}, got {show(got)}")
    raise fault.under(name) if name else fault


def refuse_integer(low: int, high: int, got: Any, name: str = "") -> NoReturn:
    """Raise a Fault with the range of accepted integers and what came."""
    if high < INT64_MAX:
        refuse(f"an integer in {low} .. {high}", got, name)
    if low > INT64_MIN and not (type(got) is int and got > high):
        refuse(f"an integer >= {low}", got, name)
    refuse("an integer of 64 bits", got, name)


def show(value: Any) -> str:
    """Return a short text for any value that came off the wire."""
    match value:
        case None:
            return "nil"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return json.dumps(value if len(value) <= 40 else value[:37] + "...")
        case tuple() | list() if type(value) in (tuple, list):
            return "a list"
        case dict():
            return "a map"
        case bytes():
            return "binary data"
        case _:
            return type(value).__name__  # msgpack's ExtType or Timestamp; of a policy's own decisions anything
