"""The pages under docs: their examples run, and their tables agree with the program. Links: test_links.py.

Conventions. A fence ```` ```LANGUAGE file=NAME ```` is a file that the page's examples find in their folder; with ``from=PATH``
the file there. A fence
```` ```console example ```` holds commands after ``$ ``, which must end with 0 (or ``exit=N``); lines shown below a command are
lines of its output, in this order, and ``...`` stands for any lines. Other fences are not run.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import shlex
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest
from scripts.doc_files import Fence, fences, write_files
from tests.processes import PACKAGES, ROOT, Ran, ended, fork_program, free_port, run_command

from cosched_emulator import Run, simulate
from cosched_emulator.api.tables import AllocationTable, JobTable
from cosched_emulator.scenario.reader import read_scenario
from cosched_emulator.scenario.schema import CHANGES
from cosched_plugin.config import choose, from_table, read_policy_file
from cosched_plugin.testing.check import check_policy

DOCS = ROOT / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md"))
DEADLINE_S = 60
COMMANDS = {
    "cosched-emulator": "cosched_emulator",
    "cosched-plugin": "cosched_plugin",
    "cosched-hwmodel": "cosched_hwmodel",
}
SETTING = re.compile(r"[A-Z_]+=")
WITH_EXAMPLES = [page for page in PAGES if any("example" in fence.words for fence in fences(page))]
# Pages whose examples take most of the time of all, each with the quicker tests of the same commands.
SLOW = {
    "coscheduling.md": "contract/test_golden_schedules.py: the case contexts",
    "gang.md": "contract/test_golden_schedules.py: the case time-shared",
    "live.md": "emulator/cli/test_user_commands.py, emulator/live/test_live_process.py",
    "tutorial-test-bed.md": "emulator/cli/test_keys.py, emulator/couplings/test_standby.py",
}
# Reference pages whose parts other tests check in this process; their examples of the command for it are slow.
WITH_PARTS = ("adding-a-part.md", "writing-a-policy.md")
CHECK = "cosched-plugin check"


def text_of(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def rows(page: str, first_cells: str) -> Iterator[list[str]]:
    """Yield the cells of every row of every table of ``page`` whose header begins with ``first_cells``."""
    inside = False
    for line in text_of(page).splitlines():
        if line.startswith(first_cells):
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and not line.startswith("|---"):
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


# ---------------------------------------------------------------- examples


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which the commands are those of this source tree."""
    tools = tmp_path / "bin"
    tools.mkdir()
    roots = os.pathsep.join(PACKAGES)
    for command, module in {**{command: f"-m {module}" for command, module in COMMANDS.items()}, "python": ""}.items():
        script = tools / command
        script.write_text(
            f'#!/bin/sh\nPYTHONPATH="{roots}${{PYTHONPATH:+:$PYTHONPATH}}" exec "{sys.executable}" {module} "$@"\n'
        )
        script.chmod(0o755)
    # A socket's path must be short, and pytest's folders may not be.
    temporary = "/tmp" if len(str(tmp_path)) > 60 else str(tmp_path)
    return {
        **os.environ,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": "",
        "TMPDIR": temporary,
        "PORT": str(free_port()),
    }


def commands_of(fence: Fence) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for line in fence.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def missing_line(shown: list[str], output: list[str]) -> str | None:
    """Return the first shown line that does not follow where it should; None if all do."""
    place = 0
    anywhere = True
    for line in shown:
        if line == "...":
            anywhere = True
            continue
        try:
            found = output.index(line, place)
        except ValueError:
            return line
        if not anywhere and found != place:
            return line
        place, anywhere = found + 1, False
    return None


def run_line(line: str, folder: Path, environment: dict[str, str]) -> Ran:
    """Run a line of a shell.

    A plain call of one of our commands or of a Python file runs as a fork, without starting Python; ``NAME=VALUE`` may precede it.
    """
    words = shlex.split(line)
    settings = dict(word.split("=", 1) for word in takewhile(SETTING.match, words))
    program, *arguments = words[len(settings) :]
    if program == "python" and arguments and arguments[0].endswith(".py"):
        program = arguments.pop(0).removesuffix(".py")
    if set(line) & set("|&;<>()$`\\\n*?[]{}~#") or not (program in COMMANDS or (folder / f"{program}.py").exists()):
        return run_command("bash", "-c", line, folder=folder, env=environment, seconds=DEADLINE_S)
    env = {**environment, **settings, "PYTHONPATH": os.pathsep.join([*PACKAGES, settings.get("PYTHONPATH", "")])}
    return ended(fork_program(COMMANDS.get(program, program), *arguments, folder=folder, env=env), DEADLINE_S)


@pytest.mark.parametrize(
    ("page", "with_checks"),
    [
        *(
            pytest.param(page, page not in WITH_PARTS, id=page, marks=[pytest.mark.slow] * (page in SLOW))
            for page in WITH_EXAMPLES
        ),
        *(pytest.param(page, True, id=f"{page}-checks", marks=pytest.mark.slow) for page in WITH_PARTS),
    ],
)
def test_examples_run(page: str, with_checks: bool, tmp_path: Path, environment: dict[str, str]) -> None:
    work = tmp_path / "work"
    work.mkdir()
    write_files(page, work)
    for fence in fences(page):
        if "example" not in fence.words:
            continue
        assert fence.language == "console"
        for command, shown in commands_of(fence):
            if CHECK in command and not with_checks:
                continue
            done = run_line(command, work, environment)
            assert done.code == int(fence.option("exit") or 0), f"{command}\n{done.err}{done.out}"
            output = (done.out + done.err).splitlines()
            missing = missing_line(shown, output)
            assert missing is None, f"{command}\nno line {missing!r} where it is shown in\n" + "\n".join(output)


def test_shown_lines_are_found_in_order() -> None:
    output = ["a", "b", "c"]
    assert missing_line(["a", "...", "c"], output) is None
    assert missing_line(["b", "c"], output) is None
    assert missing_line(["a", "c"], output) == "c"
    assert missing_line(["c", "...", "a"], output) == "a"


@pytest.mark.parametrize(
    ("page", "module", "name"),
    [("tutorial-policy.md", "least_work", "LeastWork"), ("writing-a-policy.md", "patient", "Patient")],
)
def test_example_policies_conform_and_use_only_the_api(page: str, module: str, name: str, tmp_path: Path) -> None:
    write_files(page, tmp_path)
    file = tmp_path / f"{module}.py"
    source = file.read_text(encoding="utf-8")
    assert set(re.findall(r"^from (cosched\S*) import", source, re.MULTILINE)) == {"cosched_plugin.api"}
    spec = importlib.util.spec_from_file_location(f"docs_{module}", file)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    report = check_policy(getattr(loaded, name), seed=3, runs=8)
    assert report.decisions > report.jobs / 2


def test_example_files_are_read(tmp_path: Path) -> None:
    write_files("policies.md", tmp_path)
    chosen = choose(str(tmp_path / "short-lct.toml"))
    assert chosen.settings["order"] == {"name": "shortest"}
    assert from_table(read_policy_file(str(tmp_path / "short-lct.toml"))).settings == chosen.settings
    write_files("scenarios.md", tmp_path)
    scenario = read_scenario(str(tmp_path / "site.toml"), {})
    assert (scenario.cluster.processors, scenario.results.warmup, len(scenario.script)) == (30, 20, 1)


# ---------------------------------------------------------------- tables


def test_scripted_changes_are_documented() -> None:
    assert [names(row[0])[0] for row in rows("scenarios.md", "| change |")] == list(CHANGES)


def test_the_python_interface_is_documented() -> None:
    arguments = [name for row in rows("python.md", "| argument |") for name in names(row[0])]
    assert arguments == list(inspect.signature(simulate).parameters)
    members = {name.partition("(")[0] for row in rows("python.md", "| of a `Run` |") for name in names(row[0])}
    public = {name for name in {*vars(Run), *Run.__annotations__} if not name.startswith("_")}
    assert members == public - {"finished", "trace_at"}
    assert [name for row in rows("python.md", "| column |") for name in names(row[0])] == list(JobTable.columns())
    told = text_of("python.md").partition("Columns of `allocations`:")[2].partition("\n\n")[0]
    assert names(told) == list(AllocationTable.columns())
