"""A live overview of a manager in a terminal (curses): what the command ``top`` shows. `top_frame` makes its content."""

from __future__ import annotations

import contextlib
import curses
import locale
import os
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

from cosched_emulator.cli import top_frame
from cosched_emulator.errors import ConfigurationError
from cosched_emulator.users.client import ManagerConnection, SilenceError, refusal_text
from cosched_emulator.users.requests import Refused, ShowOverview

_SLICE_S: Final = 0.05  # longest time between two checks for keys
_PAGE: Final = 10
_LOW: Final = 8  # lines of a window that has none for the keys
# Style -> attribute without colours, and colour.
_STYLES: Final[Mapping[str, tuple[int, int]]] = {
    top_frame.PLAIN: (curses.A_NORMAL, -1),
    top_frame.BOLD: (curses.A_BOLD, -1),
    top_frame.DIM: (curses.A_DIM, -1),
    top_frame.ONE: (curses.A_NORMAL, curses.COLOR_GREEN),
    top_frame.SHARED: (curses.A_BOLD, curses.COLOR_MAGENTA),
    top_frame.OUT: (curses.A_BOLD, curses.COLOR_RED),
    top_frame.CHOSEN: (curses.A_REVERSE, -1),
    top_frame.ALIKE: (curses.A_UNDERLINE, curses.COLOR_YELLOW),
}


class _Quit(Exception):
    """The user quits."""


def run_top(connection: ManagerConnection, request: ShowOverview, interval_s: float) -> None:
    """Show the manager's answer every ``interval_s`` until q is pressed, then restore the terminal.

    Raises ConfigurationError without a terminal, or if its cursor cannot be moved.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigurationError("top", "a terminal (--once prints one picture without)", "none")
    terminal = os.environ.get("TERM", "")
    try:
        curses.setupterm(terminal or "dumb")
        able = curses.tigetstr("cup") is not None
    except curses.error:
        able = False
    if not able:
        raise ConfigurationError("TERM", "a terminal whose cursor can be moved (--once needs none)", repr(terminal))
    with contextlib.suppress(locale.Error):  # that of a user from elsewhere may not be installed here
        locale.setlocale(locale.LC_CTYPE, "")  # for non-ASCII characters in names
    window = curses.initscr()
    try:
        curses.noecho()
        curses.cbreak()
        with contextlib.suppress(_Quit):
            _Top(window, connection).run(request, interval_s)
    finally:
        with contextlib.suppress(curses.error):  # the terminal is closed
            window.keypad(False)
            curses.echo()
            curses.nocbreak()
            curses.endwin()


class _Top:
    """One terminal."""

    def __init__(self, window: curses.window, connection: ManagerConnection) -> None:
        self._window = window
        self._connection = connection
        self._look = top_frame.Look()
        self._helps = False
        self._overview: Mapping[str, Any] | None = None
        self._trouble = f"asking the manager at {connection.endpoint} ..."
        self._styles = _styles()
        window.keypad(True)
        window.nodelay(True)
        with contextlib.suppress(curses.error):  # a terminal that cannot hide its cursor
            curses.curs_set(0)

    def run(self, request: ShowOverview, interval_s: float) -> None:
        """Ask, draw, wait, until _Quit."""
        self._draw()
        while True:
            began = time.monotonic()
            try:
                answer = self._connection.ask(request, meanwhile=self._attend)
            except SilenceError as error:
                self._trouble = f"{error}; trying again"
            else:
                if isinstance(answer, Refused):
                    self._trouble = f"{refusal_text(answer)}; trying again"
                else:
                    self._overview, self._trouble = answer.result, ""
            self._draw()
            while (left_s := began + max(interval_s, _SLICE_S) - time.monotonic()) > 0:
                time.sleep(min(left_s, _SLICE_S))
                self._attend()

    def _attend(self) -> None:
        """Handle the keys typed meanwhile, and follow changes of the window's size."""
        changed = self._resize()
        while (key := self._window.getch()) != -1:
            self._press(key)
            changed = True
        if changed:
            self._draw()

    def _press(self, key: int) -> None:
        scroll, node = self._look
        lines = len(self._overview["jobs"]["rows"]) if self._overview is not None else 0
        nodes = len(self._overview["nodes"]["rows"]) if self._overview is not None else 0
        match key:
            case 0x71 | 0x51:  # q, Q
                raise _Quit
            case 0x3F:  # ?
                self._helps = not self._helps
            case curses.KEY_UP | 0x6B:  # k
                scroll -= 1
            case curses.KEY_DOWN | 0x6A:  # j
                scroll += 1
            case curses.KEY_PPAGE:
                scroll -= _PAGE
            case curses.KEY_NPAGE:
                scroll += _PAGE
            case curses.KEY_HOME:
                scroll = 0
            case curses.KEY_END:
                scroll = lines
            case curses.KEY_LEFT | 0x68:  # h
                node -= 1
            case curses.KEY_RIGHT | 0x6C:  # l
                node += 1
        self._look = top_frame.Look(max(0, min(scroll, lines - 1)), max(0, min(node, nodes - 1)))

    def _resize(self) -> bool:
        """Fit the window to the terminal; return whether its size has changed."""
        try:
            columns, lines = os.get_terminal_size(sys.stdout.fileno())
        except OSError:
            return False
        if min(columns, lines) < 1 or (lines, columns) == self._window.getmaxyx():
            return False
        curses.resizeterm(lines, columns)
        return True

    def _draw(self) -> None:
        height, width = self._window.getmaxyx()
        room = height - 1 if height > _LOW else height
        lines: list[top_frame.Line] = [[(self._trouble, top_frame.OUT)]]
        if self._helps:
            lines = top_frame.help_lines(width)
        elif self._overview is not None:
            lines = top_frame.frame(self._overview, self._look, width, room, self._trouble)
        if room < height:
            lines = [*lines[:room], *[[] for _ in range(room - len(lines))], [(top_frame.KEYS_LINE, top_frame.DIM)]]
        self._window.erase()
        for y, line in enumerate(lines[:height]):
            x = 0
            for text, style in line:
                self._write(y, x, text[: max(0, width - x)], self._styles[style])
                x += len(text)
        self._window.refresh()

    def _write(self, y: int, x: int, text: str, attributes: int) -> None:
        try:
            self._window.addstr(y, x, text, attributes)
        except curses.error:
            pass  # curses raises an error for the last cell of a window, and for every cell of a window that has just shrunk
        except UnicodeEncodeError:
            self._write(y, x, text.encode("ascii", "replace").decode(), attributes)


def _styles() -> dict[str, int]:
    """Return the attributes of every style; colours only if the terminal has them and NO_COLOR is not set."""
    plain = {style: attributes for style, (attributes, _) in _STYLES.items()}
    if os.environ.get("NO_COLOR") or not curses.has_colors():
        return plain  # no start_color here: it would switch to white on black
    try:
        curses.start_color()
        curses.use_default_colors()
        for number, (_, colour) in enumerate(_STYLES.values(), 1):
            curses.init_pair(number, colour, -1)
        return {
            style: attributes | curses.color_pair(number) for number, (style, attributes) in enumerate(plain.items(), 1)
        }
    except curses.error:
        return plain
