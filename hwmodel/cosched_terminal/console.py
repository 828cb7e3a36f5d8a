"""What a program says on a terminal: its lines, its log and progress bars. All three programs use it; `tables` makes tables."""

from __future__ import annotations

import json
import math
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Final, TypeAlias

# What is printed comes from files and processes of others, in part: no character of a name may move the cursor, clear the screen or
# turn the direction of writing round. Programs print by `say`, which a test holds.

# What stands for an escape that a program itself prints, to colour a word: nobody else can know it.
PAINT: Final = f"\x1b{os.urandom(8).hex()}"


def printable(text: str) -> str:
    r"""Return ``text`` as one line of printable characters: all others as JSON writes them, ``\n``, ``\u001b``, ``\u202e``."""
    return text if text.isprintable() else "".join([char if char.isprintable() else _escaped(char) for char in text])


def _escaped(char: str) -> str:
    usual = json.dumps(char)[1:-1]
    return usual if usual != char else f"\\u{ord(char):04x}"  # DEL, which JSON leaves as it is


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print lines on standard output, or error; each is made `printable`. JSON stays JSON, of the same values."""
    stream = sys.stderr if err else sys.stdout
    if stream is not None:  # cron jobs may have none
        lines = [*map(_line, text.split("\n"))]
        if err and stream.isatty():
            lines = [folded(line, _columns()) for line in lines]
        stream.write("\n".join(lines) + "\n" * nl)
        stream.flush()


def _line(text: str) -> str:
    return "\x1b".join(map(printable, text.split(PAINT)))


def folded(line: str, width: int) -> str:
    """Return a line wrapped at its blanks, where it is longer than ``width``; what goes on is indented further than its beginning."""
    if len(line) <= width:
        return line
    from textwrap import fill  # noqa: PLC0415 - few lines are so long

    margin = line[: len(line) - len(line.lstrip(" "))]
    return fill(
        line.strip(),
        max(width, len(margin) + 20),
        initial_indent=margin,
        subsequent_indent=margin + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def warn(text: str) -> None:
    """Print a warning on standard error."""
    say(f"{WARNING}: {text}", err=True)


# Progress on standard error, if that is a terminal: one line that is written again and again. A line as wide as the terminal or wider
# would go on in the next one, of which a carriage return does not come back.

_CLEAR: Final = "\r\x1b[K"
_BAR: Final = 30  # characters
_LEAST_BAR: Final = 4  # below that a bar says nothing
_FIRST_S, _NEXT_S = 2.0, 0.25  # until a bar is shown, and from one to the next
_LINE_S: Final = 60.0  # between lines where there is no terminal
_USUAL_COLUMNS: Final = 80  # of a terminal that does not know its size


class ProgressLine:
    """One line, which replaces the one before; nothing is written where standard error is no terminal."""

    def __init__(self) -> None:
        self.shown = sys.stderr is not None and sys.stderr.isatty()  # cron jobs may have none
        self._written = False

    def text(self, text: str) -> None:
        """Show a text, cut to the terminal's width."""
        self._write(printable(text)[: _columns() - 1] if self.shown else "")

    def bar(self, share: float, text: str) -> None:
        """Show which part is done, 0 to 1, as a bar and a text: the bar gives way to the text."""
        if self.shown:
            width = min(_BAR, _columns() - 1 - len(text) - len("[] "))
            filled = "#" * round(width * share)
            self.text(f"[{filled:.<{width}}] {text}" if width >= _LEAST_BAR else text)

    def clear(self) -> None:
        """Remove the line."""
        if self._written:
            self._write("")
            self._written = False

    def _write(self, text: str) -> None:
        if self.shown:
            self._written = True
            with suppress(OSError):  # the terminal is closed: the work goes on
                sys.stderr.write(_CLEAR + text)
                sys.stderr.flush()


def _columns() -> int:
    """Return the width of the terminal now: a window changes it."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL_COLUMNS
    except (OSError, ValueError):
        return _USUAL_COLUMNS


@contextmanager
def progress_bar(total: int, unit: str = "jobs", *, lines: bool = False) -> Iterator[Callable[..., None] | None]:
    """Yield a function of the number of ended jobs, or other units, and of a new total if that changes.

    It shows a bar on a terminal after two seconds. Without one it is None, or with ``lines``, where work takes hours, says a line a
    minute.
    """
    line = ProgressLine()
    if not (line.shown or lines):
        yield None
        return
    began = time.monotonic()
    shown = began + (_FIRST_S if line.shown else _LINE_S)

    def update(ended: int, new_total: int | None = None) -> None:
        nonlocal shown, total
        total = total if new_total is None else new_total
        now = time.monotonic()
        if now < shown:
            return
        shown = now + (_NEXT_S if line.shown else _LINE_S)
        share = min(1.0, ended / max(1, total))
        left_s = (now - began) * (1 - share) / share if share else 0.0
        text = f"{ended}/{total} {unit}, about {left_s:.0f} s left"
        if line.shown:
            line.bar(share, text)
        else:
            with suppress(OSError):  # its reader is gone: the work goes on
                say(text, err=True)

    try:
        yield update
    finally:
        line.clear()


# The log of a process: for each event a line for people, or a JSON object for programs.

Field: TypeAlias = "str | int | float | bool | None"

INFO: Final = "info"
WARNING: Final = "warning"
ERROR: Final = "error"
PATIENCE_MS: Final = 200  # time that one line may wait for a reader that has stopped
CHUNK_BYTES: Final = 4096  # bytes that a writable pipe accepts at once (PIPE_BUF)
_WRITING = threading.Lock()
_CUT: Final = threading.Event()  # the last line was not written completely


class Log:
    """Logs events, one line each; called with ``event``, a constant word for programs, and ``text`` for people.

    As JSON a line is an object of ``time`` (RFC 3339, UTC, milliseconds), ``level`` (info, warning, error), ``event``, ``text`` and
    the fields. Otherwise it is the program's name and the text; without a text, the event and the fields. ``quiet`` suppresses
    information. ``write`` takes the lines, without their ends; the default is standard error. If its reader is gone or does not
    read, lines are lost, but each costs at most a fifth of a second.
    """

    def __init__(
        self,
        program: str = "",
        *,
        as_json: bool = False,
        quiet: bool = False,
        write: Callable[[str], None] | None = None,
    ) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self._program = program
        self._write = to_standard_error if write is None else write

    def __call__(self, event: str, text: str = "", *, level: str = INFO, **fields: Field) -> None:
        """Log an event: information, a problem that was handled (WARNING), or a failure (ERROR)."""
        if self.quiet and level == INFO:
            return
        self._write(self.line(event, text, level=level, **fields))

    def line(self, event: str, text: str = "", *, level: str = INFO, **fields: Field) -> str:
        """Return the line for an event, without its line end."""
        if self.as_json:
            return _json_line(level, event, text, fields)
        line = text or " ".join([event, *[f"{key}={value}" for key, value in fields.items()]])
        parts = [self._program, "" if level == INFO else level, line]
        return printable(": ".join([part for part in parts if part]))


def _json_line(level: str, event: str, text: str, fields: dict[str, Field]) -> str:
    time = datetime.now(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
    entry: dict[str, Field] = {"time": time, "level": level, "event": event}
    if text:
        entry["text"] = text
    for key, value in fields.items():
        # JSON has no word for infinities and nan.
        entry[key] = str(value) if isinstance(value, float) and not math.isfinite(value) else value
    return json.dumps(entry, separators=(",", ":"))


def to_standard_error(line: str) -> None:
    """Write ``line`` to standard error, or as much of it as is accepted within a fifth of a second for each 4 kB."""
    with _WRITING:
        try:
            stream = sys.stderr
            stream.flush()
            number = stream.fileno()
            if stream.isatty() and not line.startswith("{"):  # JSON stays one line
                line = folded(line, _columns())
        except (AttributeError, OSError, ValueError):  # closed, or replaced by another object
            _to_stand_in(line)
            return
        data = (line + "\n").encode("utf-8", "backslashreplace")
        reader = select.poll()
        reader.register(number, select.POLLOUT)
        whole = data = b"\n" + data if _CUT.is_set() else data
        try:
            while data and reader.poll(PATIENCE_MS):
                data = data[os.write(number, data[:CHUNK_BYTES]) :]
        except OSError:
            return  # the reader is gone
        if not data:
            _CUT.clear()
        elif data != whole:
            _CUT.set()


def _to_stand_in(line: str) -> None:
    try:
        print(line, file=sys.stderr)
    except (AttributeError, OSError, ValueError):
        return
