"""Errors of the hardware model; and what errors about files have in common, in all packages.

HardwareModelError
├── UnknownNameError            an unknown name
├── TableError                  a table of measured co-runs that is invalid, or cannot be read (in ``measured``)
├── PlacedError                 what is wrong, and where
│   ├── TopologyError           a node description that is invalid, or cannot be read
│   ├── ContentionError         a contention model of others that cannot be used, or returns invalid values
│   ├── ProfileError            an impossible demand of a process (in ``composite``)
│   └── CommandError            an argument or a file of the command cosched-hwmodel (in ``cli``)
├── LomarcParameterError        an invalid parameter of the LOMARC model (in ``lomarc``)
└── StatisticalParameterError   an invalid parameter of the statistical model (in ``statistical``)
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final


class Unwanted(str):
    """The ``expected`` of an error where no value belongs: the reason."""

    __slots__ = ()


def wanted(expected: str, got: str | None) -> str:
    """Return ``expected ..., got ...``, or ``remove it: ...``."""
    if isinstance(expected, Unwanted):
        return f"remove it: {expected}"
    return f"expected {expected}" + ("" if got is None else f", got {got}")


class FileError(Exception):
    """A file without the expected content; one line of text: ``file:line: field 'x': expected ..., got ...``.

    ``line`` counts from 1; ``line``, ``field`` and ``got`` are None where they have no meaning. ``hint`` says what helps.
    """

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
        parts.append(wanted(self.expected, self.got))
        if self.hint:
            parts[-1] += f" ({self.hint})"
        return ": ".join(parts)


class HardwareModelError(Exception):
    """Root of all errors that this package raises on purpose."""


class UnknownNameError(HardwareModelError):
    """A name of a ``kind`` of thing (resource, composition) that does not exist."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind = kind
        self.name = name
        self.known = tuple(sorted(known))
        super().__init__(f'unknown {kind} "{name}"; {suggestion(name, self.known)}')


class PlacedError(HardwareModelError):
    """An error at a place: ``where`` names it, such as a file, a key or an argument; ``text`` says what is wrong."""

    def __init__(self, where: str, text: str) -> None:
        super().__init__(where, text)
        self.where = where
        self.text = text

    def __str__(self) -> str:
        return f"{self.where}: {self.text}" if self.where else self.text


class TopologyError(PlacedError):
    """A node description that is invalid, or cannot be read; ``where`` names the file and key."""


class ContentionError(PlacedError):
    """A contention model of others cannot be used, or returns invalid values; ``where`` is its name."""

    def __str__(self) -> str:
        return f"contention {super().__str__()}"


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean "x"?`` for the closest known name, or the list of known names when none is close."""
    from difflib import get_close_matches  # noqa: PLC0415 - slow to load, for errors only

    choices = sorted(known)
    close = get_close_matches(name, choices, n=1)
    return f'did you mean "{close[0]}"?' if close else f"known: {', '.join(choices)}"


# By code from outside, which does not interrupt the program. No generator may catch these around a yield: its own end is one of them.
RAISED_OUTSIDE: Final = (Exception, SystemExit, GeneratorExit)


@contextmanager
def from_outside(error_of: Callable[[str], Exception], passes: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Run code from outside, which can raise anything: that becomes the error that ``error_of`` makes of its type and text.

    What a handler of signals raised there, and the errors that pass, stay what they are.
    """
    try:
        yield
    except passes:
        raise
    except RAISED_OUTSIDE as error:
        if raised_by_a_signal(error):
            raise
        raise error_of(f"{type(error).__name__}: {error}") from error


def raised_by_a_signal(error: BaseException) -> bool:
    """Tell whether a handler of signals raised ``error``: it runs inside whatever the signal interrupts, which is not to blame."""
    handlers = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return False


def _code_of(handler: object) -> object:
    """Return the code of a function, a method, a partial, or an object that can be called; None for what has none."""
    handler = getattr(handler, "func", handler)
    called = vars(type(handler)).get("__call__")
    return getattr(handler, "__code__", getattr(called, "__code__", None))
