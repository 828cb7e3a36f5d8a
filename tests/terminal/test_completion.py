"""What shells offer for the values of options and arguments, asked as click asks, and in the shells that are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.shell_completion import CompletionItem, ShellComplete
from tests.emulator.cli.fake_manager import always, fake_manager, job_row, node_row, table
from tests.processes import PACKAGES

from cosched_emulator.cli.main import cli as emulator
from cosched_plugin.cli.main import cli as plugin
from cosched_terminal.commands import LazyGroup
from cosched_terminal.completion import Bash, script_of


def offered(program: LazyGroup, *words: str) -> list[str]:
    asked = ShellComplete(program, {}, "program", "_COMPLETE")
    return [item.value for item in asked.get_completions([*words[:-1]], words[-1])]


def test_policies_parts_and_shapes_are_offered() -> None:
    for program, command in ((emulator, "simulate"), (plugin, "serve")):
        assert offered(program, command, "--policy", "conservative") == ["conservative", "conservative-starts"]
        assert offered(program, command, "--set", "order=f") == ["order=fcfs"]
        assert "backfill=easy" in offered(program, command, "--set", "")
        (setting,) = offered(program, command, "--set", "placement.threshold")
        assert setting == "placement.threshold=1.15"
    assert "replay" in offered(emulator, "simulate", "--policy", "rep")
    assert offered(emulator, "simulate", "--node", "rua") == ["rua-4way"]
    assert offered(plugin, "check", "ea")[0] == "easy"


def test_folders_of_runs_and_studies_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in ("runs/easy/summary.json", "runs/deep/rua/summary.json", "studies/one/study.json", "runs/none/x"):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert offered(emulator, "compare", "") == ["runs/easy", "runs/deep/rua"]
    assert offered(emulator, "compare", "runs/easy", "runs/d") == ["runs/deep/rua"]
    assert offered(emulator, "study", "table", "st") == ["studies/one"]
    assert offered(emulator, "losers", "--baseline", f"{tmp_path}/runs/e") == [f"{tmp_path}/runs/easy"]
    assert offered(emulator, "compare", "nothing") == ["nothing"]  # as a folder, for the shell


@pytest.fixture
def endpoint() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="complete-", dir="/tmp") as folder:
        yield f"ipc://{folder}/door"


def test_jobs_and_nodes_of_a_manager_are_offered(endpoint: str) -> None:
    jobs = table([job_row(1), job_row(4, array_id=4, array_index=0), job_row(12)], now_s=1.0)
    with fake_manager(endpoint, always(jobs)):
        assert offered(emulator, "cancel", "--manager", endpoint, "") == ["1", "4_0", "12"]
        assert offered(emulator, "job", "--manager", endpoint, "12", "1") == ["1", "12"]
    with fake_manager(endpoint, always(table([node_row(3)], now_s=1.0))):
        assert offered(emulator, "drain", "--manager", endpoint, "") == ["3"]
    assert offered(emulator, "cancel", "--manager", endpoint, "") == []  # no manager: nothing, and no traceback


@pytest.mark.parametrize(
    ("words", "place", "args", "typed", "value", "shown"),
    [
        ("p run --set order = f", 5, ["run", "--set"], "order=f", "order=fcfs", "fcfs"),
        ("p run --set order =", 4, ["run", "--set"], "order=", "order=fcfs", "fcfs"),
        ("p run --policy = ea", 4, ["run"], "--policy=ea", "easy", "easy"),
        ("p run --set = order = f", 6, ["run"], "--set=order=f", "order=fcfs", "fcfs"),
        ("p run --policy ea", 3, ["run", "--policy"], "ea", "easy", "easy"),
        ("p run ", 2, ["run"], "", "x=1", "x=1"),
    ],
)
def test_bash_breaks_words_and_they_are_joined(
    words: str, place: int, args: list[str], typed: str, value: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(place))
    bash = Bash(emulator, {}, "p", "_P_COMPLETE")
    assert bash.get_completion_args() == (args, typed)
    assert bash.format_completion(CompletionItem(value)) == f"plain,{shown}"


@pytest.fixture
def programs(tmp_path: Path) -> dict[str, str]:
    """The environment of a shell that finds the program."""
    file = tmp_path / "bin" / "cosched-emulator"
    file.parent.mkdir()
    code = "import sys; sys.argv[0] = 'cosched-emulator'; from cosched_emulator.cli.main import main; main()"
    file.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@"\n')
    file.chmod(0o755)
    return {
        "PATH": f"{file.parent}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(map(str, PACKAGES)),
        "HOME": str(tmp_path),
    }


BASH = """
eval "$(cosched-emulator completion bash)"
COMP_WORDS=(cosched-emulator simulate --set order = f) COMP_CWORD=5
_cosched_emulator_completion cosched-emulator
echo "${COMPREPLY[@]}"
complete -p cosched-plugin cosched-hwmodel
"""
FISH = """
cosched-emulator completion fish | source
complete -C "cosched-emulator simulate --set order=f"
"""


@pytest.mark.parametrize(
    ("shell", "script", "expected"), [("bash", BASH, "fcfs\ncomplete -o nosort"), ("fish", FISH, "order=fcfs")]
)
def test_a_real_shell_completes(shell: str, script: str, expected: str, programs: dict[str, str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    ran = subprocess.run([shell, "-c", script], env=programs, capture_output=True, text=True, timeout=120, check=False)
    assert (ran.stdout.startswith(expected), ran.stderr) == (True, ""), ran


def test_zsh_reads_what_it_is_given() -> None:
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    ran = subprocess.run(["zsh", "-n"], input=script_of("zsh"), capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
