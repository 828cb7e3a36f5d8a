"""What a program says on standard error: a log of one line an event, which never waits for its reader, and a line of progress."""

from __future__ import annotations

import fcntl
import itertools
import json
import math
import os
import pty
import struct
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from scripts.progress import Progress

from cosched_terminal.console import ERROR, WARNING, Log, ProgressLine, printable, progress_bar, say, to_standard_error
from cosched_terminal.tables import align


def test_lines_as_text() -> None:
    lines: list[str] = []
    log = Log("cosched-plugin", write=lines.append)
    log("welcomed", "welcomed by the manager", nodes=4)
    log("welcomed", nodes=4, wait_s=0.5)
    log("lost", "lost it", level=WARNING)
    log("failed", "it failed", level=ERROR, exit_code=3)
    log("bye", "the manager said bye: \x1b[2J\nwelcomed \u00e9\udc80")
    assert lines == [
        "cosched-plugin: welcomed by the manager",
        "cosched-plugin: welcomed nodes=4 wait_s=0.5",
        "cosched-plugin: warning: lost it",
        "cosched-plugin: error: it failed",
        "cosched-plugin: the manager said bye: \\u001b[2J\\nwelcomed \u00e9\\udc80",
    ]


EVIL = "\x00\x07\x1b[2J\x7f\x9b2J\u202e\u2028\udc80\U000e0001"


def test_what_others_have_written_is_printed_without_its_powers(capsys: pytest.CaptureFixture[str]) -> None:
    """ESC, BEL and C1 drive a terminal, U+202E turns a line round; JSON still means the same."""
    assert printable("a\u00e9\U0001f600 b") == "a\u00e9\U0001f600 b"
    assert printable(EVIL) == "\\u0000\\u0007\\u001b[2J\\u007f\\u009b2J\\u202e\\u2028\\udc80\\udb40\\udc01"
    say(f"first {EVIL}\nsecond", nl=False)
    assert capsys.readouterr().out == f"first {printable(EVIL)}\nsecond"
    say(json.dumps({EVIL: [EVIL, "\n"]}, ensure_ascii=False, indent=2))
    assert json.loads(capsys.readouterr().out) == {EVIL: [EVIL, "\n"]}
    say(EVIL, err=True)
    assert capsys.readouterr() == ("", printable(EVIL) + "\n")
    assert align([["name", "n"], [f"{EVIL}\nforged", "12"]], (1,))[1] == f"{printable(EVIL)}\\nforged  12"


def test_lines_as_json() -> None:
    lines: list[str] = []
    log = Log("cosched-plugin", as_json=True, write=lines.append)
    log("welcomed", 'by "the manager"\n', nodes=4, share=math.nan, spare=None, fine=0.25, yes=True)
    log("failed", level=ERROR)
    first, second = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    assert [line.count("\n") for line in lines] == [0, 0]
    assert list(first) == ["time", "level", "event", "text", "nodes", "share", "spare", "fine", "yes"]
    assert (first["text"], first["share"], first["spare"], first["fine"]) == ('by "the manager"\n', "nan", None, 0.25)
    assert list(second) == ["time", "level", "event"]
    assert (second["level"], second["event"]) == ("error", "failed")
    assert first["time"].endswith("Z")
    assert len(first["time"]) == len("2026-01-31T12:00:00.000Z")
    assert abs(datetime.now(UTC) - datetime.fromisoformat(first["time"])) < timedelta(minutes=1)


@pytest.mark.parametrize("as_json", [False, True])
def test_quiet_omits_information(as_json: bool) -> None:
    lines: list[str] = []
    log = Log("x", as_json=as_json, quiet=True, write=lines.append)
    log("welcomed")
    log("lost", level=WARNING)
    log("failed", level=ERROR)
    assert len(lines) == 2


def test_lines_of_two_threads_do_not_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, encoding="utf-8") as taken, os.fdopen(writer, "w", encoding="utf-8") as given:
        monkeypatch.setattr(sys, "stderr", given)
        read: list[str] = []
        reading = threading.Thread(target=lambda: read.extend(taken))
        reading.start()

        def say(char: str) -> None:
            for _ in range(20):
                to_standard_error(char * 20_000)

        sayings = [threading.Thread(target=say, args=(char,)) for char in "ab"]
        for saying in sayings:
            saying.start()
        for saying in sayings:
            saying.join(20)
        given.close()
        reading.join(10)
        monkeypatch.undo()
    assert sorted(set(read)) == ["a" * 20_000 + "\n", "b" * 20_000 + "\n"]
    assert len(read) == 40


def test_a_stopped_or_closed_reader_loses_lines_but_costs_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w", encoding="utf-8") as given:
        monkeypatch.setattr(sys, "stderr", given)
        began = time.monotonic()
        for _ in range(5):
            to_standard_error("x" * 100_000)
        assert time.monotonic() - began < 3
        os.close(reader)
        to_standard_error("gone")
        given.close()
        to_standard_error("closed")
        monkeypatch.setattr(sys, "stderr", None)
        to_standard_error("none")
        monkeypatch.undo()


def test_an_incomplete_line_is_ended_before_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as taken, os.fdopen(writer, "w", encoding="utf-8") as given:
        monkeypatch.setattr(sys, "stderr", given)
        to_standard_error("x" * 100_000)
        to_standard_error("not even begun")
        assert len(os.read(reader, 200_000)) < 100_000
        to_standard_error("next")
        to_standard_error("and next")
        given.close()
        assert taken.read() == b"\nnext\nand next\n"
        monkeypatch.undo()


# ---------------------------------------------------------------- progress on a narrow terminal


END = "|end|"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], list[str]]]:
    """Yield a function that writes progress to a terminal of so many columns, and returns the lines one of which replaces the other."""
    master, slave = pty.openpty()

    def written(columns: int) -> list[str]:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with monkeypatch.context() as patch, open(slave, "w", closefd=False) as stream:
            patch.setattr(sys, "stderr", stream)
            patch.setattr(time, "monotonic", itertools.count().__next__)  # no pause between updates
            for show in (of_a_line, of_a_program, of_a_script):
                show()
            stream.write(END)
        seen = ""
        while not seen.endswith(END):  # a terminal passes on a part at a time
            seen += os.read(master, 65_536).decode()
        return seen.removesuffix(END).split("\r\x1b[K")

    yield written
    os.close(slave)
    os.close(master)


def of_a_line() -> None:
    line = ProgressLine()
    line.text("a step of a name that is far longer than the terminal is wide\nand has an end of line")
    line.clear()


def of_a_program() -> None:
    with progress_bar(1_000_000) as update:
        assert update is not None
        for ended in range(0, 1_000_000, 200_000):
            update(ended)


def of_a_script() -> None:
    progress = Progress()
    for done in range(3):
        progress.bar(done, 3, "one of the cells with a long name of its own")
    progress.clear()


@pytest.mark.parametrize("columns", [10, 40, 200])
def test_progress_never_fills_a_line_of_the_terminal(columns: int, terminal: Callable[[int], list[str]]) -> None:
    lines = terminal(columns)
    assert len(lines) > 8
    assert max(map(len, lines)) < columns
    assert not any("\n" in line or "\r" in line for line in lines)
    assert lines[-1] == ""  # nothing is left of it
    bars = [line for line in lines if line.startswith("[#")]
    assert bool(bars) == (columns == 200)


def test_a_bar_gives_way_to_its_text(terminal: Callable[[int], list[str]]) -> None:
    terminal(30)
    assert [line for line in terminal(40) if "800000" in line] == ["800000/1000000 jobs, about 1 s left"]
    assert "[########.............] 400000/1000000 jobs, about 4 s left" in terminal(60)


def test_without_a_terminal_there_is_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    of_a_line()
    of_a_script()
    with progress_bar(3) as update:
        assert update is None
    assert capsys.readouterr() == ("", "")


def test_what_takes_hours_says_a_line_a_minute_without_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter(range(0, 1_000, 25))
    monkeypatch.setattr("cosched_terminal.console.time.monotonic", lambda: float(next(now)))
    with progress_bar(10, "runs", lines=True) as update:
        assert update is not None
        for ended in range(1, 8):
            update(ended)
    assert capsys.readouterr() == ("", "3/10 runs, about 175 s left\n6/10 runs, about 100 s left\n")
