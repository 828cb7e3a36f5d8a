"""The shell scripts: each scenario as a user runs it, the demo in small, and the checks of bash and shellcheck."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests import processes
from tests.processes import ROOT

SCENARIOS = sorted((ROOT / "scripts" / "scenarios").glob("*.sh"))
# Slow scenarios, each with the quicker tests that cover the same without the shell.
SLOW = {
    "another-policy": "contract/test_frozen_peers.py: a live manager goes on without its scheduler, and with another one",
    "bad-input": "emulator/cli/test_bad_input.py",
    "compare-policies": "contract/test_golden_schedules.py and emulator/cli/test_results.py: compare of such runs",
    "disk-full": "emulator/live/test_live_process.py: a full disk under a live manager",
    "faults": "emulator/couplings/test_faulty_wire.py and emulator/scenario/test_faults.py",
    "keys": "emulator/users/test_user_door.py: who asks, and revoked keys; emulator/cli/test_keys.py and test_user_commands.py",
    "kill-nine": "contract/test_kill_nine.py",
    "live-day": "emulator/cli/test_user_commands.py: against a real manager",
    "matchmaking": "emulator/explain/test_sentences.py: explanations of pairs, guests and jobs that were stopped",
    "plugin-restart": "contract/test_same_schedule.py: a plugin that is killed and restarted",
    "same-schedule": "contract/test_same_schedule.py: every coupling",
    "standby": "emulator/couplings/test_standby.py and plugin/test_plugin_server.py",
    "status": "emulator/live/test_live_process.py and plugin/test_plugin_server.py: status, metrics and log of both programs",
    "time-slices": "contract/test_golden_schedules.py and test_same_schedule.py: glts and ssp",
    "turns": "emulator/live/test_shared_time.py: a frozen scheduler; contract/test_live_time_sharing.py: a killed manager, with slots",
}
EXECUTABLE = [
    *SCENARIOS,
    *(
        ROOT / "scripts" / name
        for name in ("setup", "test", "test-slow", "lint", "demo", "slurm-testbed", "slurm-packages")
    ),
]
DEADLINE_S = 600.0  # beside other work


def environment(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which the scripts take this very Python, and no set-up is made."""
    short = Path("/tmp") if len(str(tmp_path)) > 60 else tmp_path
    return processes.environment(COSCHED_PYTHON=sys.executable, TMPDIR=str(short))


def run(script: Path, *arguments: str, tmp_path: Path) -> processes.Ran:
    env = environment(tmp_path)
    return processes.run_command(script, *arguments, folder=tmp_path, env=env, seconds=DEADLINE_S)


@pytest.mark.parametrize(
    "script",
    [pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in SLOW else []) for path in SCENARIOS],
)
def test_scenario(script: Path, tmp_path: Path) -> None:
    done = run(script, tmp_path=tmp_path)
    assert done.code == 0, done.err or done.out
    assert done.out.splitlines()[-1].startswith(f"{script.stem}: ")
    assert done.err == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "runs", "said"),
    [
        # .ci/run also runs this one and checks its exit code; the others differ only in their options.
        pytest.param((), {"PSS", "LOMARC-R"}, "efficiency, nodes", id="lomarc", marks=pytest.mark.slow),
        pytest.param(("--rua",), {"FF", "LC", "RUA"}, "killed at limit", id="rua", marks=pytest.mark.slow),
        pytest.param(("--glts",), {"SSP", "GLTS"}, "preemptions a preempted job", id="glts", marks=pytest.mark.slow),
        pytest.param(
            ("--gang",), {"GANG", "PAIRED", "BLIND"}, "of them with a pair", id="gang", marks=pytest.mark.slow
        ),
    ],
)
def test_the_demo_compares_and_draws(arguments: tuple[str, ...], runs: set[str], said: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    done = run(ROOT / "scripts" / "demo", *arguments, "--lublin", "200", "--out", str(out), tmp_path=tmp_path)
    assert done.code == 0, done.err or done.out
    assert {path.name for path in out.iterdir()} == runs | {"comparison.png", "report.html"} | (
        {"schedule.png"} if "PAIRED" in runs else set()
    )
    assert said in done.out
    assert "jobs that completed in both:" in done.out
    headline = re.search(r"<p class=headline>(.*?)</p>", (out / "report.html").read_text(encoding="utf-8"))
    assert headline is not None
    assert headline[1] in done.out
    assert (out / "comparison.png").stat().st_size > 10_000


def test_the_demo_repeats_the_managers_error_when_a_run_fails(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = run(ROOT / "scripts" / "demo", "--swf", "missing.swf", "--out", str(tmp_path / "out"), tmp_path=tmp_path)
    assert done.code == 1
    assert "missing.swf: expected a file that can be read" in done.err
    assert done.err.splitlines()[-1] == "demo: the manager's exit code is 2, not 0"


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interrupted_demo_leaves_nothing_behind(number: signal.Signals, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with subprocess.Popen(
        [str(ROOT / "scripts" / "demo"), "--lublin", "20000", "--out", str(tmp_path / "out")],
        cwd=tmp_path,
        env=environment(tmp_path) | {"TMPDIR": "/tmp"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as demo:
        # The script, a manager and a scheduler.
        processes.wait_until(lambda: demo.poll() is not None or len(in_session(demo.pid)) >= 3, 60)
        assert demo.poll() is None
        time.sleep(0.5)
        if number == signal.SIGINT:
            os.killpg(demo.pid, number)  # as a terminal does
        else:
            demo.send_signal(number)
        assert demo.wait(30) == 128 + number
    assert in_session(demo.pid) == []
    assert not (tmp_path / "out").exists()


def in_session(session: int) -> list[str]:
    """Return our commands among the processes in a session, without `sleep` and the like."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
            command = (status.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended meanwhile
        if int(fields[3]) == session and fields[0] != "Z" and ("cosched" in command or "scripts/demo" in command):
            found.append(command)
    return found


@pytest.mark.parametrize("script", [*EXECUTABLE, ROOT / ".ci" / "run"], ids=lambda path: path.name)
def test_script_is_executable_and_valid_bash(script: Path) -> None:
    assert os.access(script, os.X_OK)
    assert script.read_text().startswith("#!/usr/bin/env bash\n")
    assert processes.run_command("bash", "-n", script).code == 0


@pytest.mark.parametrize("script", SCENARIOS, ids=lambda path: path.name)
def test_scenario_has_a_description_and_uses_the_library(script: Path) -> None:
    lines = script.read_text().splitlines()
    assert lines[1].startswith("# ")
    assert lines[2] == '. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"'


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shellcheck_finds_nothing() -> None:
    scripts = [str(path) for path in (*EXECUTABLE, ROOT / "scripts" / "lib.sh", ROOT / ".ci" / "run")]
    assert processes.run_command("shellcheck", *scripts, folder=ROOT, seconds=DEADLINE_S) == (0, "", "")
