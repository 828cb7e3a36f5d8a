"""A program that is forked from a test behaves like a new Python process."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.processes import Process, Ran, ended, environment, fork_program, start_python, wait_until

PROGRAM = """
import atexit, os, signal, sys, tempfile, threading, time, warnings

atexit.register(print, "the end")
print(__name__, sys.argv[1:], os.getcwd(), tempfile.gettempdir(), os.environ["SAID"], sys.stdin.read())
print("trouble", file=sys.stderr)
match sys.argv[1]:
    case "text":
        sys.exit("a reason")
    case "number":
        sys.exit(7)
    case "error":
        raise KeyError("lost")
    case "thread":
        threading.Thread(target=lambda: (time.sleep(0.1), print("a thread"))).start()
    case "warning":
        warnings.warn("careful", RuntimeWarning)
        warnings.warn("old", ResourceWarning)
    case "wait":
        open(f"waiting-{os.getpid()}", "w").close()
        time.sleep(60)
"""


def start_both(folder: Path, *arguments: str) -> list[Process]:
    (folder / "program_of_a_test.py").write_text(PROGRAM)
    (folder / "t").mkdir(exist_ok=True)
    env = environment(folder, SAID="by the environment", TMPDIR=str(folder / "t"))
    return [
        start_python("-m", "program_of_a_test", *arguments, folder=folder, env=env),
        fork_program("program_of_a_test", *arguments, folder=folder, env=env),
    ]


def last_line(ran: Ran) -> Ran:
    """Return the result of a program without the places in its traceback."""
    return ran._replace(err=ran.err.splitlines()[-1])


@pytest.mark.parametrize("end", ["text", "number", "error", "thread", "warning", "none"])
def test_a_fork_has_the_same_streams_folder_environment_and_exit_code(end: str, tmp_path: Path) -> None:
    python, fork = (last_line(ended(process)) for process in start_both(tmp_path, end, "more"))
    assert python == fork
    assert str(tmp_path) in fork.out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_fork_handles_signals_alike(number: signal.Signals, tmp_path: Path) -> None:
    for process in start_both(tmp_path, "wait"):
        wait_until((tmp_path / f"waiting-{process.pid}").exists)
        assert process.poll() is None
        process.send_signal(number)
        assert process.wait(10) == -number
        process.communicate(timeout=10)


def test_output_can_be_read_while_the_program_runs(tmp_path: Path) -> None:
    process = fork_program("http.server", "--help", folder=tmp_path)
    wait_until(lambda: "usage" in process.written()[0])
    assert process.wait(10) == 0
    assert "usage" in process.written()[0]
