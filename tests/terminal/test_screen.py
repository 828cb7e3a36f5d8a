"""What a person sees of a command on a pseudo-terminal, and what a pipe gets."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from tests.processes import PACKAGES

PROGRAM = """
import sys
from cosched_terminal.commands import command, option
from cosched_terminal.command_line import run_command_line
from cosched_terminal.console import say, warn
from cosched_terminal.tables import GREEN, align

@command(prints="tables")
def work(rows: int = option("--rows N", "How many.", default=1), as_json: bool = option("--json", "JSON.")) -> None:
    if as_json:
        say('{"text": "' + "long " * 30 + '"}')
        return
    if rows > 40:
        warn("of many rows, " * 5 + "which are long")
    say("A paragraph " + "of several words " * 6 + "ends.")
    table = [["STATE", "NAME", "NUMBER", "MORE"]]
    table += [["R", f"job {row}", str(row), "m" * 20] for row in range(rows)]
    say("\\n".join(align(table, (2,), later=("MORE",), colours={"R": GREEN})))

run_command_line(work, "work", lambda error: None)
"""


def on_terminal(*words: str, width: int = 40, **environment: str) -> str:
    """Return what the program writes to a terminal of this width and 24 lines."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    given = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(map(str, PACKAGES)), "TERM": "xterm"}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words],
        stdin=theirs, stdout=theirs, stderr=theirs, env=given | environment, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    told = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        told += piece
    os.close(ours)
    process.wait(30)
    return told.decode().replace("\r\n", "\n")


def in_pipe(*words: str) -> str:
    given = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(map(str, PACKAGES)), "TERM": "xterm"}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], check=False, env=given, capture_output=True, timeout=60
    )
    return (ran.stdout + ran.stderr).decode()


def test_a_person_sees_lines_that_fit_and_states_in_colour() -> None:
    shown = on_terminal()
    assert shown == (
        "A paragraph of several words of several\n  words of several words of several\n  words of several words of several\n"
        "  words ends.\nSTATE  NAME   NUMBER\n\x1b[32mR\x1b[0m      job 0       0\n(--wide shows MORE)\n"
    )
    assert "\x1b" not in on_terminal(NO_COLOR="1")
    assert "\x1b" not in on_terminal(TERM="dumb")


def test_notes_and_errors_wrap_where_a_person_looks() -> None:
    shown = on_terminal("--rows", "41", PAGER="cat").splitlines()
    assert shown[:3] == [
        "warning: of many rows, of many rows, of",
        "  many rows, of many rows, of many rows,",
        "  which are long",
    ]
    assert max(map(len, on_terminal("--sort", "none").splitlines())) <= 40
    assert "\n" not in in_pipe("--sort", "none").strip()


def test_a_pipe_gets_everything_as_it_is() -> None:
    shown = in_pipe("--rows", "50")
    assert shown.startswith("A paragraph of several words of several words of several words of")
    assert "R      job 49      49  mmmmmmmmmmmmmmmmmmmm\n" in shown
    assert shown.count("\n") == 53
    assert on_terminal("--json") == in_pipe("--json")


def test_wide_tables_are_as_in_a_pipe_and_paragraphs_wrap_all_the_same() -> None:
    shown = on_terminal("--wide", NO_COLOR="1")
    assert shown.splitlines()[-2:] == in_pipe().splitlines()[-2:]
    assert max(map(len, shown.splitlines()[:-2])) <= 40


@pytest.mark.parametrize(("rows", "paged"), [(30, True), (5, False)])
def test_more_than_a_screen_goes_to_the_pager(rows: int, paged: bool, tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho PAGED\nexec cat\n")
    pager.chmod(0o755)
    shown = on_terminal("--rows", str(rows), PAGER=str(pager))
    assert ("PAGED" in shown) == paged
    assert f"job {rows - 1}" in shown
    assert "PAGED" not in in_pipe("--rows", str(rows))


def test_a_column_that_is_not_there_is_refused_before_anything_is_shown() -> None:
    for shown in (in_pipe("--sort", "nope"), on_terminal("-o", "name,nope", width=200)):
        assert shown.startswith(
            "work: error: there is no column 'nope'; expected some of STATE, NAME, NUMBER, MORE (see "
        )
        assert shown.count("\n") == 1
    assert in_pipe("-o", "number,state", "--rows", "2").endswith("NUMBER  STATE\n     0  R\n     1  R\n")
    assert "--json has all fields" in in_pipe("-o", "name", "--json")
    assert "expected names of columns" in in_pipe("-o", "name,,")
