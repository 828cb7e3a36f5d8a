"""Errors of the plugin.

PluginError                    root; exit code 1
├── UsageError                 bad configuration, unknown policy; exit code 2
│   ├── InputError             a file without the expected content
│   ├── MachineError           a policy that cannot work on this machine
│   └── EndpointError          an address that cannot be listened at: endpoint, expected, got
├── PolicyError                a policy's decision is impossible: decision, reason; exit code 4
└── ProtocolError              the conversation with the manager failed; exit code 3
    ├── LocalProtocolError     we may not send that now
    └── RemoteProtocolError    what the peer sent cannot be accepted: code, path, text

Root and protocol errors live in ``protocol.errors``, because the protocol package depends only on the standard library.
"""

from __future__ import annotations

import traceback
from typing import Final

from cosched_hwmodel.errors import FileError
from cosched_plugin.protocol.errors import LocalProtocolError as LocalProtocolError
from cosched_plugin.protocol.errors import PluginError as PluginError
from cosched_plugin.protocol.errors import ProtocolError as ProtocolError
from cosched_plugin.protocol.errors import RemoteProtocolError as RemoteProtocolError

_LONGEST: Final = 1_000  # characters of a decision, or of an error


class UsageError(PluginError):
    """The user asked for something that does not exist or is impossible: bad configuration, unknown policy."""

    exit_code = 2


class InputError(UsageError, FileError):
    """A file without the expected content."""


class MachineError(UsageError):
    """A policy cannot work on this machine; raised at its first decision."""


class EndpointError(UsageError):
    """An address that cannot be listened at: ``endpoint``, what was ``expected`` in its place, and what was ``got``."""

    def __init__(self, endpoint: str, expected: str, got: str = "") -> None:
        super().__init__(endpoint, expected, got)
        self.endpoint = endpoint
        self.expected = expected
        self.got = got

    def __str__(self) -> str:
        return f"{self.endpoint}: expected {self.expected}" + (f", {self.got}" if self.got else "")


class PolicyError(PluginError):
    """A policy made an impossible decision, or raised an error: a defect of the policy.

    ``decision`` is its decision (None after an error), ``reason`` what is wrong.
    """

    exit_code = 4

    def __init__(self, decision: object, reason: str) -> None:
        super().__init__(decision, reason)
        self.decision = decision
        self.reason = reason

    def __str__(self) -> str:
        if self.decision is None:
            return self.reason
        return f"impossible decision {_show(self.decision)}: {self.reason}"


def _show(decision: object) -> str:
    """Return a decision as text, shortened where a policy has put too much into it."""
    try:
        text = repr(decision)
    except RecursionError:  # a tuple in a tuple in a tuple ...
        return type(decision).__name__
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def described(error: BaseException, longest: int = _LONGEST) -> str:
    """Return an error in a line of at most ``longest`` characters: its type, its text, and the file and line that it comes from."""
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    place = "".join([f" ({frame.filename.rpartition('/')[2]}:{frame.lineno})" for frame in frames])
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text[: longest - len(place)] + place
