"""The shell scripts: each scenario as a user runs it, the demo in small, and what bash and shellcheck can tell beforehand."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = sorted((ROOT / "scripts" / "scenarios").glob("*.sh"))
SLOW = {"kill-nine", "plugin-restart", "same-schedule"}  # what they show has quicker tests as well, without the shell
EXECUTABLE = [*SCENARIOS, *(ROOT / "scripts" / name for name in ("setup", "test", "test-slow", "lint", "demo"))]
DEADLINE_S = 180.0


def environment(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which the scripts take this very Python, and no set-up is made."""
    roots = os.pathsep.join(str(ROOT / name) for name in ("hwmodel", "plugin", "emulator"))
    short = Path("/tmp") if len(str(tmp_path)) > 60 else tmp_path
    return {**os.environ, "COSCHED_PYTHON": sys.executable, "PYTHONPATH": roots, "TMPDIR": str(short)}


def run(script: Path, *arguments: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(script), *arguments],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


@pytest.mark.parametrize(
    "script",
    [pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in SLOW else []) for path in SCENARIOS],
)
def test_scenario(script: Path, tmp_path: Path) -> None:
    done = run(script, tmp_path=tmp_path)
    assert done.returncode == 0, done.stderr or done.stdout
    assert done.stdout.splitlines()[-1].startswith(f"{script.stem}: ")
    assert done.stderr == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "runs", "said"),
    [
        ((), {"PSS", "LOMARC-R"}, "efficiency, nodes"),
        (("--rua",), {"FF", "LC", "RUA"}, "killed at limit"),
        (("--glts",), {"SSP", "GLTS"}, "preemptions a preempted job"),
    ],
    ids=["lomarc", "rua", "glts"],
)
def test_the_demo_compares_and_draws(arguments: tuple[str, ...], runs: set[str], said: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    done = run(ROOT / "scripts" / "demo", *arguments, "--lublin", "200", "--out", str(out), tmp_path=tmp_path)
    assert done.returncode == 0, done.stderr or done.stdout
    assert {path.name for path in out.iterdir()} == runs | {"comparison.png", "schedule.png"}
    assert said in done.stdout
    assert (out / "comparison.png").stat().st_size > 10_000


def test_the_demo_says_what_the_manager_said_when_a_run_fails(tmp_path: Path) -> None:
    done = run(ROOT / "scripts" / "demo", "--swf", "missing.swf", "--out", str(tmp_path / "out"), tmp_path=tmp_path)
    assert done.returncode == 1
    assert "missing.swf: expected a file that can be read" in done.stderr
    assert done.stderr.splitlines()[-1] == "demo: the manager's exit code is 2, not 0"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing_behind(number: signal.Signals, tmp_path: Path) -> None:
    with subprocess.Popen(
        [str(ROOT / "scripts" / "demo"), "--lublin", "20000", "--out", str(tmp_path / "out")],
        cwd=tmp_path,
        env=environment(tmp_path) | {"TMPDIR": "/tmp"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as demo:
        deadline = time.monotonic() + 60
        while len(processes(demo.pid)) < 3:  # the script, a manager and a scheduler
            assert time.monotonic() < deadline
            assert demo.poll() is None
            time.sleep(0.05)
        time.sleep(0.5)
        if number == signal.SIGINT:
            os.killpg(demo.pid, number)  # as a terminal does
        else:
            demo.send_signal(number)
        assert demo.wait(30) == 128 + number
    assert processes(demo.pid) == []
    assert not (tmp_path / "out").exists()


def processes(session: int) -> list[str]:
    """Return the commands of the processes in a session, `sleep` and the like left out."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
            command = (status.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # gone meanwhile
        if int(fields[3]) == session and fields[0] != "Z" and ("cosched" in command or "scripts/demo" in command):
            found.append(command)
    return found


@pytest.mark.parametrize("script", [*EXECUTABLE, ROOT / ".ci" / "run"], ids=lambda path: path.name)
def test_script_is_executable_and_bash_understands_it(script: Path) -> None:
    assert os.access(script, os.X_OK)
    assert script.read_text().startswith("#!/usr/bin/env bash\n")
    subprocess.run(["bash", "-n", str(script)], check=True, timeout=30)


@pytest.mark.parametrize("script", SCENARIOS, ids=lambda path: path.name)
def test_scenario_says_what_it_shows_and_shares_the_library(script: Path) -> None:
    lines = script.read_text().splitlines()
    assert lines[1].startswith("# ")
    assert lines[2] == '. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"'


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shellcheck_finds_nothing() -> None:
    scripts = [str(path) for path in (*EXECUTABLE, ROOT / "scripts" / "lib.sh", ROOT / ".ci" / "run")]
    done = subprocess.run(["shellcheck", *scripts], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == ""
    assert done.returncode == 0
