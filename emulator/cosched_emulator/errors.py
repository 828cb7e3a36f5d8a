"""Errors of the emulator.

EmulatorError                 root; exit code 1
├── InputError                a file that cannot be read as what it should be; exit code 2
│   └── ConfigurationError    a key of a scenario, or an option, that is unknown or out of range; exit code 2
├── AccountingError           the accounting's database cannot take what happened; exit code 1
├── LinkError                 the scheduler at the other end broke the protocol or went away; exit code 3
│   └── UnsupportedError      it cannot work with what it was told: its policy and this machine do not fit; exit code 2
└── InvariantError            the emulator contradicts itself: a defect in this program; exit code 4

Every error carries its fields and survives pickling, so that a worker process can hand it to its parent.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar


class EmulatorError(Exception):
    """Root of everything that this package raises on purpose; ``exit_code`` is what the command line returns."""

    exit_code: ClassVar[int] = 1


class InputError(EmulatorError):
    """A file that is not what it should be, in one line: ``file:line: field 'x': expected ..., got ...``.

    ``line`` counts from 1; ``line``, ``field`` and ``got`` are None where they have no meaning. ``hint`` says what helps.
    """

    exit_code = 2

    def __init__(
        self,
        file: str,
        expected: str,
        got: str | None = None,
        line: int | None = None,
        field: str | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(file, expected, got, line, field, hint)
        self.file = file
        self.expected = expected
        self.got = got
        self.line = line
        self.field = field
        self.hint = hint

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        parts = [place] if place else []
        if self.field is not None:
            parts.append(f"field '{self.field}'")
        parts.append(f"expected {self.expected}" + ("" if self.got is None else f", got {self.got}"))
        if self.hint:
            parts[-1] += f" ({self.hint})"
        return ": ".join(parts)


class ConfigurationError(InputError):
    """A configuration key or option that cannot be taken; ``path`` is dotted, ``suggestion`` a name that may be meant.

    ``file`` is empty when the value came from a command line or a program.
    """

    def __init__(
        self, path: str, expected: str, got: str | None = None, suggestion: str | None = None, file: str = ""
    ) -> None:
        super().__init__(file, expected, got, None, path)
        self.args = (path, expected, got, suggestion, file)
        self.path = path
        self.suggestion = suggestion

    def __str__(self) -> str:
        text = f"{self.path}: expected {self.expected}" + ("" if self.got is None else f", got {self.got}")
        if self.file:
            text = f"{self.file}: {text}"
        return text if self.suggestion is None else f"{text}; did you mean '{self.suggestion}'?"

    @classmethod
    def unknown_name(cls, path: str, got: str, known: Iterable[str], file: str = "") -> ConfigurationError:
        """Return the error for a name that is none of ``known``, with the closest of them as suggestion."""
        names = sorted(known)
        close = difflib.get_close_matches(got, names, n=1)
        return cls(path, f"one of {', '.join(names)}", repr(got), close[0] if close else None, file)


class AccountingError(EmulatorError):
    """The accounting's database cannot take what happened: a full disk, a database that somebody keeps locked; ``file`` is which."""

    exit_code = 1

    def __init__(self, text: str, file: str = "") -> None:
        super().__init__(text, file)
        self.text = text
        self.file = file

    def __str__(self) -> str:
        return f"{self.file}: {self.text}" if self.file else self.text


class LinkError(EmulatorError):
    """The scheduler broke the protocol, did not answer in time, or went away; ``endpoint`` says which one."""

    exit_code = 3

    def __init__(self, text: str, endpoint: str = "") -> None:
        super().__init__(text, endpoint)
        self.text = text
        self.endpoint = endpoint

    def __str__(self) -> str:
        return f"{self.endpoint}: {self.text}" if self.endpoint else self.text


class UnsupportedError(LinkError):
    """The scheduler at the other end says that it cannot do what it is asked to, as it is configured."""

    exit_code = 2


class InvariantError(EmulatorError):
    """The emulator contradicts itself; ``story`` is what happened to the job or node before, one line each."""

    exit_code = 4

    def __init__(self, text: str, story: tuple[str, ...] = ()) -> None:
        super().__init__(text, story)
        self.text = text
        self.story = story

    def __str__(self) -> str:
        return "\n  ".join((self.text, *self.story))
