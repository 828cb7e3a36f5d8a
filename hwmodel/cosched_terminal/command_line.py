"""The end of a command line: one line on standard error for every error, and an exit code. All commands use it."""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
from collections.abc import Callable
from io import TextIOWrapper
from types import FrameType
from typing import Final, NoReturn

import click

from cosched_terminal.console import ERROR, Log, say

# New objects between two collections of a program. While it loads all of them stay: with Python's 700 there were ninety collections in
# the start of a run, which found nothing. `freeze_heap` has its own number.
YOUNG: Final = 100_000


class Terminated(BaseException):
    """SIGTERM as an exception, so that clean-up code runs."""


def termination_signals() -> tuple[signal.Signals, ...]:
    """Return SIGTERM, and what counts as it: SIGHUP, of a terminal that is closed, unless it is ignored, as under nohup."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return (signal.SIGTERM,) if ignored else (signal.SIGTERM, signal.SIGHUP)


def leave_terminal() -> None:
    """Let what is written to a terminal that is closed go nowhere: an error there must not end the clean-up."""
    for number in (1, 2):
        stream = select.poll()
        stream.register(number, 0)
        if any(event & select.POLLHUP for _, event in stream.poll(0)):
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def run_command_line(command: click.Command, program: str, exit_code_of: Callable[[Exception], int | None]) -> NoReturn:
    """Run ``command`` and exit.

    With COSCHED_TRACEBACK set in the environment, errors end in tracebacks, for authors of policies. ``exit_code_of`` returns the
    exit code of an error that the program raises deliberately, and None for any other, which is a defect and ends in a traceback.
    If standard output cannot be written to, as on a full disk, the exit code is 1. Usage errors exit with 2,
    SIGINT with 130, SIGTERM with 143, as does SIGHUP unless it is ignored. With ``--log-json`` the last line is JSON too.
    """
    # Before numpy is imported: the threads that OpenBLAS starts for each core only spin, a fifteenth of the CPU time of a run of a
    # second. With one, sums do not depend on the number of cores either.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(YOUNG)
    # Read from the arguments directly: an error may occur before the options are parsed.
    log = Log(program, as_json="--log-json" in sys.argv[1:])
    for number in termination_signals():
        signal.signal(number, _terminate)
    if isinstance(sys.stdout, TextIOWrapper):  # names of files need not be UTF-8, and a locale may lack a dash
        sys.stdout.reconfigure(errors="backslashreplace")
    if any(name.startswith("_COSCHED_") and name.endswith("_COMPLETE") for name in os.environ):
        from cosched_terminal import completion  # noqa: PLC0415 - a shell asks; nobody else pays for it

        completion.begin()
    try:
        code = command.main(standalone_mode=False)
        _flush_output()
    except click.UsageError as error:
        if isinstance(error, click.exceptions.NoArgsIsHelpError):
            say(error.format_message(), err=True)
            sys.exit(error.exit_code)
        path = error.ctx.command_path if error.ctx is not None else program
        _fail(log, f"{error.format_message()} (see {path} --help)", error.exit_code)
    except click.ClickException as error:
        _fail(log, error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        log("interrupted", "interrupted")
        sys.exit(130)
    except Terminated:
        log("terminated", "terminated")
        sys.exit(143)
    except Exception as error:
        exit_code = exit_code_of(error)
        lost = _lost_output() if exit_code is None and isinstance(error, OSError) else None
        if lost is not None:
            _fail(log, f"standard output: {lost}", 1)
        if isinstance(error, FileNotFoundError) and error.filename is None and not _is_somewhere():
            _fail(log, "the working directory is not there any more", 2)
        if exit_code is None or os.environ.get("COSCHED_TRACEBACK"):
            raise
        _fail(log, str(error), exit_code)
    sys.exit(code if isinstance(code, int) else 0)


def _is_somewhere() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _flush_output() -> None:
    if sys.stdout is not None:  # cron jobs may have none
        sys.stdout.flush()


def _lost_output() -> str | None:
    """Return why standard output cannot be written to, as on a full disk; None if it can."""
    if sys.stdout is None:
        return None
    try:
        _flush_output()
        os.write(sys.stdout.fileno(), b"\n")  # an unbuffered stream has dropped the data that it could not write
    except OSError as again:
        # Otherwise the process tries to write the data again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return again.strerror or str(again)
    return None


def _terminate(number: int, _frame: FrameType | None) -> None:
    for each in termination_signals():
        signal.signal(each, signal.SIG_IGN)  # a second one must not interrupt the clean-up
    if number == signal.SIGHUP:
        leave_terminal()
    raise Terminated


def _fail(log: Log, text: str, exit_code: int) -> NoReturn:
    """Print one line that names the error, and exit; of a traceback in ``text`` (the output of a plugin) only the end is printed."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    traceback = next((number for number, line in enumerate(lines) if line.startswith("Traceback ")), None)
    if traceback is not None:
        lines[traceback:] = lines[-1:]
    log("failed", _joined(lines), level=ERROR, exit_code=exit_code)
    sys.exit(exit_code)


def _joined(lines: list[str]) -> str:
    """Return lines as one; a line that goes on in the next, as in click's lists of choices, needs no semicolon."""
    return "".join([line + (" " if line.endswith((":", ",")) else "; ") for line in lines[:-1]] + lines[-1:])
