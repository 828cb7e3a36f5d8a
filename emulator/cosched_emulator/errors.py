"""Errors of the emulator.

EmulatorError                 root; exit code 1
├── InputError                a file that cannot be read as what it should be; exit code 2
│   └── ConfigurationError    a key of a scenario, or an option, that is unknown or out of range; exit code 2
├── CoschedulingError         a third party's coscheduling policy raised an error or gave an impossible answer; exit code 4
├── PlacedError               what is wrong, and where; exit code 1
│   ├── AccountingError       the accounting's database cannot be written or read; exit code 1
│   └── LinkError             the scheduler at the other end broke the protocol or went away; exit code 3
│       └── UnsupportedError  it cannot work as configured: its policy does not fit this machine; exit code 2
└── InvariantError            the emulator contradicts itself: a defect in this program; exit code 4

Every error carries its fields and can be pickled, so that a worker process can pass it to its parent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import ClassVar

from cosched_hwmodel.errors import FileError, wanted


class EmulatorError(Exception):
    """Root of all errors that this package raises deliberately; ``exit_code`` is the exit code of the command line."""

    exit_code: ClassVar[int] = 1


class InputError(EmulatorError, FileError):
    """A file without the expected content."""

    exit_code = 2


class ConfigurationError(InputError):
    """An invalid configuration key or option; ``path`` is dotted, ``suggestion`` is the nearest valid name.

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
        text = f"{self.path}: {wanted(self.expected, self.got)}"
        if self.file:
            text = f"{self.file}: {text}"
        return text if self.suggestion is None else f"{text}; did you mean '{self.suggestion}'?"

    @classmethod
    def unknown_name(cls, path: str, got: str, known: Iterable[str], file: str = "") -> ConfigurationError:
        """Return the error for a name that is not in ``known``, with the closest known name as suggestion."""
        from difflib import get_close_matches  # noqa: PLC0415 - slow to load, for errors only

        names = sorted(known)
        close = [name for name in names if name.lower() == got.lower()] or get_close_matches(got, names, n=1)
        return cls(path, f"one of {', '.join(names)}", repr(got), close[0] if close else None, file)


class CoschedulingError(EmulatorError):
    """A third party's coscheduling policy raised an error or gave an impossible answer: a defect of the policy.

    ``policy`` is its name, ``hook`` the method or attribute, ``reason`` what is wrong.
    """

    exit_code = 4

    def __init__(self, policy: str, hook: str, reason: str) -> None:
        super().__init__(policy, hook, reason)
        self.policy = policy
        self.hook = hook
        self.reason = reason

    def __str__(self) -> str:
        return f"coscheduling {self.policy}, {self.hook}: {self.reason}"


class PlacedError(EmulatorError):
    """What is wrong, in words, and where: ``place`` is empty if it is not known."""

    def __init__(self, text: str, place: str = "") -> None:
        super().__init__(text, place)
        self.text = text
        self.place = place

    def __str__(self) -> str:
        return f"{self.place}: {self.text}" if self.place else self.text


class AccountingError(PlacedError):
    """The accounting's database cannot be written or read: a full disk, a lock that another process keeps, damage."""


class LinkError(PlacedError):
    """The scheduler broke the protocol, did not answer in time, or went away; ``place`` is its endpoint."""

    exit_code = 3


class UnsupportedError(LinkError):
    """The scheduler reports that it cannot do its task as it is configured."""

    exit_code = 2


class InvariantError(EmulatorError):
    """The emulator contradicts itself; ``story`` lists the earlier events of the job or node, one per line."""

    exit_code = 4

    def __init__(self, text: str, story: tuple[str, ...] = ()) -> None:
        super().__init__(text, story)
        self.text = text
        self.story = story

    def __str__(self) -> str:
        return "\n  ".join((self.text, *self.story))


@contextmanager
def os_errors(file: object, expected: str = "a file that can be read") -> Iterator[None]:
    """Let an error of the operating system be an InputError about ``file``, which is not what was ``expected``."""
    try:
        yield
    except OSError as error:
        raise InputError(str(file), expected, error.strerror or str(error)) from error
